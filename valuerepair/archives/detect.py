"""Which kind of recorded evaluations archives hold: that of the first one there is."""

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
_OVERLAP = 256  # no mark of an evaluation is longer
_EPD_SCORE = re.compile(rb"[\s;](?:ce|dm)\s+[+-]?\d+|\bbm\s+#")
_DEPTH_IN_EVAL = re.compile(rb"\[%eval\s+[^\],]+,\s*\d")


@dataclass(frozen=True, slots=True)
class Found:
    """A kind of `recorded_options.KINDS`, whether its evaluations have a depth, and the archive of the first one."""

    kind: str
    depth: bool
    archive: str


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


def _in_text(source: Source) -> Found | None:
    lines = False
    for i, text in enumerate(_pieces(source)):
        if i == 0:
            if looks_like_dump(text):
                return Found(DUMP, True, source.name)
            lines = looks_like_epd(text)
        if lines:
            if _EPD_SCORE.search(text):
                return Found(EPD, re.search(rb"\bacd\s+\d", text) is not None, source.name)
        elif found := kind_in(text):
            kind, at = found
            depth = kind != EVAL or _DEPTH_IN_EVAL.match(text, at) is not None
            return Found(kind, depth, source.name)
    return None


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
