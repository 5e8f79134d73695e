"""Writing a book: rows -> PGN and EPD text -> files that appear whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, Protocol

import pandas as pd

from valuerepair.books.emit import BookLine, LineWriter, epd_entry, pgn_entry, signed
from valuerepair.books.manifest import BookFile, Manifest, describe_file, make_manifest
from valuerepair.books.select import BookOptions, QFrom, choose_rows
from valuerepair.errors import ValueRepairError

MANIFEST = "manifest.json"
_HOLDOUT_FILES = frozenset({"holdout.pgn", "holdout.epd"})


class FrameSource(Protocol):
    """What a book needs of the store: `frame` and `candidates` of `valuerepair.store.Store`."""

    def frame(
        self, net: str | None, oracle: str | None, alpha: float | None, q_from: QFrom, *, text: bool
    ) -> pd.DataFrame: ...

    def candidates(
        self, threshold: float, net: str | None, oracle: str | None, alpha: float | None, q_from: QFrom
    ) -> pd.DataFrame: ...


def write_books(
    store: FrameSource, options: BookOptions, directory: str | Path, on_entry: Callable[[], None] = lambda: None
) -> Manifest:
    """Writes book.pgn, book.epd and manifest.json (and holdout.pgn, holdout.epd) into `directory`, made if missing.

    Entry n of the PGN and line n of the EPD name the same position. Each file replaces its forerunner whole, the
    manifest last; the holdout files of an earlier book go when this one has none. `on_entry` is called after each
    entry. Raises ValueRepairError when nothing is left to write or the folder cannot be written to.
    """
    which = (options.net, options.oracle, options.alpha, options.q_from)
    # Numbers of all rows, for the counts; texts, which are what is large, of the candidates only.
    scored = store.frame(*which, text=False)
    selection = choose_rows(store.candidates(options.threshold, *which), options, scored["disagreement"])
    contents: dict[str, bytes] = {}
    files: dict[str, BookFile] = {}
    for name, rows in (("book", selection.book), ("holdout", selection.holdout)):
        if rows.empty:
            continue
        lines = _lines(rows, options, on_entry)
        games = int(rows[["source", "game"]].drop_duplicates().shape[0])
        records = rows.to_dict("records")
        texts = {
            f"{name}.pgn": "".join(pgn_entry(ln, _tags(row)) for ln, row in zip(lines, records, strict=True)),
            f"{name}.epd": "".join(
                epd_entry(ln.fen, _operations(row)) + "\n" for ln, row in zip(lines, records, strict=True)
            ),
        }
        for file, text in texts.items():
            contents[file] = text.encode()
            files[file] = describe_file(contents[file], lines, rows["ply"].tolist(), games)
    manifest = make_manifest({str(k): v for k, v in scored.attrs.items()}, options, selection, files)
    contents[MANIFEST] = manifest.to_json().encode()
    _replace_all(Path(directory), contents)
    return manifest


def _lines(rows: pd.DataFrame, options: BookOptions, on_entry: Callable[[], None]) -> list[BookLine]:
    """One line a row, in the rows' order, made in the order of their moves: common beginnings are replayed once."""
    writer = LineWriter()
    lines: list[BookLine | None] = [None] * len(rows)
    columns = [rows[name].tolist() for name in ("start_fen", "moves", "fen")]
    for start_fen, moves, fen, i in sorted(zip(*columns, range(len(rows)), strict=True)):
        lines[i] = writer.line(start_fen, moves.split(), fen, with_moves=options.form == "moves")
        on_entry()
    return [line for line in lines if line is not None]


def _tags(row: dict[Any, Any]) -> dict[str, str]:
    """The seven of the standard, then where the position is from and how the values differ."""
    return {
        "Event": _text(row, "event"),
        "Site": "?",
        "Date": _text(row, "date", "????.??.??"),
        "Round": "?",
        "White": _text(row, "white"),
        "Black": _text(row, "black"),
        "Result": "*",
        "Source": _source(row),
        "NetQ": signed(row["net_q"]),
        "DeepQ": signed(row["deep_q"]),
        "Disagreement": signed(row["disagreement"]),
    }


def _operations(row: dict[Any, Any]) -> dict[str, str | int]:
    """`id`, the values as comment `c0`, and the oracle's score: `ce` in centipawns or `dm` when it mates."""
    values = f"net_q {signed(row['net_q'])} deep_q {signed(row['deep_q'])} difference {signed(row['disagreement'])}"
    operations: dict[str, str | int] = {"id": f"{_source(row)} ply {row['ply']}", "c0": values}
    if pd.notna(row.get("cp")):
        operations["ce"] = int(row["cp"])
    elif pd.notna(row.get("mate")) and row["mate"] > 0:
        operations["dm"] = int(row["mate"])
    return operations


def _source(row: dict[Any, Any]) -> str:
    """File and game number, without the folder: a book may be published."""
    return f"{PurePath(str(row['source'])).name}#{row['game']}"


def _text(row: dict[Any, Any], name: str, missing: str = "?") -> str:
    value = row.get(name)
    return value if isinstance(value, str) and value.strip() else missing


def _replace_all(directory: Path, contents: dict[str, bytes]) -> None:
    temporary: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        stale = _stale(directory, contents)
        for name, content in contents.items():
            path = directory / f".{name}.{os.getpid()}.tmp"
            temporary.append(path)
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for name, path in zip(contents, temporary, strict=True):
            path.replace(directory / name)
        for path in stale:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ValueRepairError(f"{directory}: cannot write the book: {error.strerror or error}") from None
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def _stale(directory: Path, contents: dict[str, bytes]) -> list[Path]:
    """Holdout files that the manifest of an earlier book claims and this one does not write."""
    try:
        claimed = json.loads((directory / MANIFEST).read_text("utf-8"))["files"]
        return [directory / name for name in _HOLDOUT_FILES if name in claimed and name not in contents]
    except (OSError, ValueError, KeyError, TypeError):
        return []
