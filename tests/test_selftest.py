"""The rules of chess in `vr doctor`: passes here, and names the position where kernels are wrong."""

from __future__ import annotations

import re

import chess
import pytest
from click.testing import CliRunner

from valuerepair import selftest
from valuerepair.cli import cli


def test_the_published_counts_are_ours() -> None:
    assert not list(selftest.published())


def test_random_positions_vary_and_agree() -> None:
    boards = list(selftest.random_positions(600))
    assert len({b.fen() for b in boards}) > 500
    assert {b.turn for b in boards} == {True, False}
    assert any(b.is_check() for b in boards)
    assert [b.fen() for b in boards] == [b.fen() for b in selftest.random_positions(600)]
    assert [b.fen() for b in boards] != [b.fen() for b in selftest.random_positions(600, seed=1)]
    assert not [line for board in boards for line in selftest.mismatches(board)]


def test_a_mismatch_names_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    board = chess.Board()
    board.push_uci("e2e4")
    monkeypatch.setattr(selftest, "fens", lambda rows: ["nonsense"])
    assert list(selftest.mismatches(board)) == [f"{board.fen()}: FEN: nonsense, not {board.fen()}"]
    board.push(chess.Move.from_uci("e4e5"))  # Black's turn
    (line,) = selftest.mismatches(board)
    assert line == f"{board.fen()}: row 0, move 1 (e4e5): not legal"


def test_the_command_passes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "PUBLISHED", selftest.PUBLISHED[2:4])
    done = CliRunner().invoke(cli, ["doctor"])
    detail = r"perft as published \(26,863,375 leaves\), 2,000 positions as in python-chess, [\d.]+ s"
    assert re.search(f"^rules of chess +ok +{detail}$", done.output, re.MULTILINE)


def test_the_command_fails_where_a_count_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    fen = selftest.PUBLISHED[2][1]
    monkeypatch.setattr(selftest, "PUBLISHED", (("position 3", fen, (14, 191, 2813)),))
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 1
    assert f"BROKEN   1 wrong: {fen}: perft 3 gives 2,812, not 2,813" in done.output
    assert re.search("-> remove .* and run it again", done.output)
