"""The program replaces a file only if it is empty, or if the program wrote it and it is of the same kind.

It recognises a file's kind by its content, never by its name.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from valuerepair.errors import UsageError

STDOUT = "-"
_READ = 1 << 16


@dataclass(frozen=True, slots=True)
class FileKind:
    """Files that begin with `head` and have `tail` within their last 64 KiB, both regular expressions.

    `name` completes "is not ...".
    """

    name: str
    head: bytes
    tail: bytes = b""

    def fits(self, path: str | os.PathLike[str]) -> bool:
        """Whether the file is empty or of this kind. Raises OSError."""
        with open(path, "rb") as file:
            head = file.read(_READ)
            file.seek(max(file.seek(0, os.SEEK_END) - _READ, 0))
            tail = file.read()
        return not head or bool(re.match(self.head, head, re.DOTALL) and re.search(self.tail, tail, re.DOTALL))


def check_output(path: str | os.PathLike[str], kind: FileKind) -> None:
    """Raises UsageError unless a file of this kind can be written at `path` without the loss of another file, and the
    folder is writable. Standard output, and other files that are not regular, are written to and not replaced."""
    name = os.fspath(path)
    if is_stream(path):
        return
    try:
        place = Path(os.path.realpath(path))  # a link stays, its target is replaced
        if place.is_dir():
            raise UsageError(f"{name}: is a folder; give the name of a file")
        if place.exists() and not place.is_file():
            raise UsageError(f"{name}: is a disk or a socket; give the name of a file")
        if place.exists() and not kind.fits(place):
            raise UsageError(f"{name}: already exists and is not {kind.name}; remove it, or give another name")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; give another name") from None
    if not place.parent.is_dir():
        raise UsageError(f"{name}: there is no folder {place.parent}; make it, or give another name")
    _check_writable(name, place.parent)


def check_regular(path: str | os.PathLike[str], kind: FileKind) -> None:
    """As `check_output`, for a file that will also be read. Raises UsageError for a stream."""
    if is_stream(path):
        raise UsageError(f"{os.fspath(path)}: is not a regular file; give another name")
    check_output(path, kind)


def check_name(name: str) -> None:
    """Raises UsageError for a name that is not UTF-8: stores and JSON files could not keep it."""
    if (readable := name.encode(errors="replace").decode()) != name:
        raise UsageError(f"{readable}: is not valid UTF-8; rename the file or folder")


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raises UsageError unless `path` is a writable folder, or one can be made there."""
    name, place = os.fspath(path), Path(os.path.realpath(path))
    if not name:
        raise UsageError("the name of a folder is empty; give one, or . for the current one")
    try:
        while not place.exists():
            place = place.parent
        if not place.is_dir():
            part = "" if place == Path(os.path.realpath(path)) else f"{place} "
            raise UsageError(f"{name}: {part}is a file, not a folder; give another name")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; give another name") from None
    _check_writable(name, place)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is written to and never replaced: standard output, a pipe, a terminal, a device like /dev/null."""
    try:
        status = os.stat(path)
    except OSError:
        return path == STDOUT
    return (
        path == STDOUT
        or stat.S_ISCHR(status.st_mode)
        or stat.S_ISFIFO(status.st_mode)
        or own_descriptor(status) is not None
    )


def own_descriptor(status: os.stat_result) -> int | None:
    """The descriptor of this process's standard output or error, if it is the file that `status` describes."""
    for descriptor in (1, 2):
        try:
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
        except OSError:  # it is closed
            pass
    return None


def _check_writable(name: str, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{name}: the folder {folder} cannot be written to; give another name")


_JSON_HEAD = rb'\{\s*"version": "valuerepair '
_PAGE_HEAD = rb'<!DOCTYPE html>\s*<html lang="en">.{0,4096}?<meta name="generator" content="valuerepair '

REPORT = FileKind("a page of valuerepair", _PAGE_HEAD)
SPLIT = FileKind("a split of vr split", _JSON_HEAD + rb'[^"]*",\s*"games": ')
MANIFEST = FileKind("a manifest of vr books", _JSON_HEAD + rb'[^"]*",\s*"net": \{')  # those of chunks begin otherwise
CURVE = FileKind("the curve of a training", _JSON_HEAD + rb'[^"]*",\s*"output": ')

# Plots are recognised by the name of matplotlib, which it writes into them.
PNG = FileKind("a plot of valuerepair", rb"\x89PNG\r\n\x1a\n.{0,200}?Software\0Matplotlib")
SVG = FileKind("a plot of valuerepair", rb"<\?xml .{0,2000}?<dc:title>Matplotlib v")
PDF = FileKind("a plot of valuerepair", rb"%PDF-1\.4\n%\xac\xdc \xab\xba\n", tail=rb"/Creator \(Matplotlib v")
PLOTS = {"png": PNG, "svg": SVG, "pdf": PDF}
BOARD = FileKind("a board of vr show", rb"<svg [^>]*><rect [^>]*/><svg [^>]*><desc><pre>")
TREE_JSON = FileKind("a tree of vr search", rb'\{"fen": "[^\n]*?"tree_size": \d+, "tree": \[')
TREE_PAGE = FileKind("a tree of vr search", _PAGE_HEAD)
TREES = {"json": TREE_JSON, "html": TREE_PAGE}

# Rows of positions begin with the position's number.
CSV = FileKind("a table of valuerepair", rb"position_id,")
JSONL = FileKind("a table of valuerepair", rb'\{"position_id":')
PARQUET = FileKind("a table of valuerepair", rb"PAR1", tail=rb'"name": "position_id"')
EPD = FileKind("candidates of vr export", rb"[^\n]{1,999} hmvc \d+; ")
TABLES = {"csv": CSV, "jsonl": JSONL, "parquet": PARQUET, "epd": EPD}
SWEEP_TABLE = FileKind("a table of vr experiment selfplay", rb"kind,setting,value,games,")
MATCH_TABLE = FileKind("a table of vr experiment match", rb"kind,setting,value,first,")


_TAGS = rb'\[Event "[^\n]*\n(\[[^\n]*\n)*?'
BOOK_PGN = FileKind("a book of vr books", _TAGS + rb'\[Weight "')
BOOK_EPD = FileKind("a book of vr books", rb'[^\n]+ c[01] "(net_q|weight) ')
GAMES = FileKind("games of vr selfplay or vr match", _TAGS + rb'\[Run "')

NET = FileKind("a net in the making", rb"\x1f\x8b")
CHECKPOINT = FileKind("a checkpoint of vr train", rb'\{"identity":\{.*?\},"notes":\{"step":\d+,"best_step":')
NEW_STORE = FileKind("free for a new store", rb"(?!)")
