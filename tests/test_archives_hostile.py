"""Bytes that are no PGN: reading ends, nothing is lost from the count, and each game goes somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.errors import ValueRepairError

PIECES = [b"[Event ", b'"x"]', b"\n\n", b"\n", b"1. ", b"e4", b" e5 ", b"{", b"}", b"(", b")", b";", b"%", b"1-0", b"*"]
PIECES += [b"\x00", b"\x01", b"\x1a", b"\x7f", b"\xef\xbb\xbf", b"\xff", b"\\", b'[FEN "8/8', b"--", b"$1"]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=60).map(b"".join)


def _read(path: Path) -> ReadReport:
    report = ReadReport()
    complaint = ""
    try:
        for batch in sample([str(path)], SampleOptions(min_ply=0, threads=1), report):
            assert len(batch) > 0
    except ValueRepairError as error:
        complaint = str(error)
    # The only complaint allowed: that not one of the pieces is a game.
    assert not complaint or ("no games found" in complaint and report.parsed == 0)
    assert report.games == report.parsed + sum(report.rejected.values()) + report.not_sampled
    return report


@settings(max_examples=150, deadline=None)
@given(texts)
def test_arbitrary_bytes_are_read_to_the_end(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.mktemp("hostile") / "a.pgn"
    path.write_bytes(b'[Event "?"]\n\n1. e4 ' + text)
    _read(path)
