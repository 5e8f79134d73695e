"""Which kind of recorded evaluations archives hold, and whether these have a depth: as the first one there is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from valuerepair.archives.chunks import holds_chunks
from valuerepair.archives.epd import looks_like_epd
from valuerepair.archives.evaluation_dump import looks_like_dump
from valuerepair.archives.evaluations import kind_in
from valuerepair.archives.open import Source, Stream, find_sources
from valuerepair.archives.recorded_options import CHUNKS, DUMP, EPD, EVAL, KINDS
from valuerepair.errors import UsageError, ValueRepairError

MOST = 1 << 26  # bytes of an archive that are looked through
_PIECE = 1 << 20
_OVERLAP = 256  # no mark of an evaluation is longer, and hardly a line of EPD
_EPD_SCORE = re.compile(rb"[\s;](?:ce|dm)\s+[+-]?\d+|\bbm\s+#")
_DEPTH_IN_EVAL = re.compile(rb"\[%eval\s+[^\],]+,\s*\d")
_DEPTH_IN_EPD = re.compile(rb"[\s;]acd\s+[1-9]")


@dataclass(frozen=True, slots=True)
class Found:
    """A kind of `recorded_options.KINDS`, whether its evaluations have a depth, and the archive of the first one."""

    kind: str
    depth: bool
    archive: str


def depth_of(paths: Sequence[str], kind: str) -> bool | None:
    """Whether the first evaluation of this kind has a depth.

    None when that is not known: there is none in the first `MOST` bytes of an archive, or standard input comes first.
    """
    for source in find_sources(paths):
        if source.path == "-":
            return None
        if not holds_chunks(source) and (found := _in_text(source, kind)):
            return found.depth
    return None


def detect(paths: Sequence[str]) -> Found:
    """The kind of the first recorded evaluation in the archives.

    Raises UsageError for standard input, which cannot be looked at beforehand, and ValueRepairError when there is none.
    """
    sources = find_sources(paths)
    for source in sources:
        if source.path == "-":
            kinds = ", ".join(KINDS)
            raise UsageError(f"--deep recorded: say what comes from standard input: recorded:kind=K, K one of {kinds}")
        if holds_chunks(source):
            return Found(CHUNKS, False, source.name)
        if found := _in_text(source):
            return found
    names = ", ".join(source.name for source in sources[:3]) + (", ..." if len(sources) > 3 else "")
    what = "; ".join(kind.what for kind in KINDS.values())
    raise ValueRepairError(f"{names}: no recorded evaluation in the first {MOST >> 20} MiB; known are {what}")


def _in_text(source: Source, wanted: str | None = None) -> Found | None:
    """The first evaluation of an archive of text, or the first of the wanted kind."""
    lines = False
    for i, text in enumerate(_pieces(source)):
        if i == 0:
            if looks_like_dump(text):
                return Found(DUMP, True, source.name) if wanted in (None, DUMP) else None
            lines = looks_like_epd(text)
        if lines:
            if wanted in (None, EPD) and (score := _EPD_SCORE.search(text)):
                return Found(EPD, _DEPTH_IN_EPD.search(_line_at(text, score.start() + 1)) is not None, source.name)
        elif found := kind_in(text, wanted):
            kind, at = found
            depth = kind != EVAL or _DEPTH_IN_EVAL.match(text, at) is not None
            return Found(kind, depth, source.name)
    return None


def _line_at(text: bytes, at: int) -> bytes:
    end = text.find(b"\n", at)
    return text[text.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(text)]


def _pieces(source: Source) -> Iterator[bytes]:
    """The beginning of an archive in pieces that overlap a little."""
    buffer, rest, read = bytearray(_PIECE), b"", 0
    with Stream(source) as stream:
        while read < MOST:
            count = stream.read_into(memoryview(buffer))
            read += count
            yield rest + bytes(buffer[:count])
            if count < _PIECE:
                return
            rest = bytes(buffer[-_OVERLAP:])
