"""The rules of chess in `vr doctor`: passes here, and names the position where kernels are wrong."""

from __future__ import annotations

import re

import chess
import pytest
from click.testing import CliRunner

from valuerepair import selftest
from valuerepair.chess import board as rules
from valuerepair.cli import cli


def test_the_published_counts_are_ours() -> None:
    checks = list(selftest.published())
    assert [c.wrong for c in checks] == [()] * 7
    assert checks[0].amount == "depth 6, 119,060,324 leaves"


def test_random_positions_vary_and_agree() -> None:
    boards = list(selftest.random_positions(600))
    assert len({b.fen() for b in boards}) > 500
    assert {b.turn for b in boards} == {True, False}
    assert any(b.is_check() for b in boards)
    assert [b.fen() for b in boards] == [b.fen() for b in selftest.random_positions(600)]
    assert [b.fen() for b in boards] != [b.fen() for b in selftest.random_positions(600, seed=1)]
    check = selftest.against_python_chess(600)
    assert (check.amount, check.wrong) == ("600 random positions", ())


def test_a_mismatch_names_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    board = chess.Board()
    board.push_uci("e2e4")
    monkeypatch.setattr(rules, "fens", lambda rows: ["nonsense"])
    assert list(selftest.mismatches(board)) == [f"{board.fen()}: FEN: nonsense, not {board.fen()}"]
    board.push(chess.Move.from_uci("e4e5"))  # Black's turn
    (line,) = selftest.mismatches(board)
    assert line == f"{board.fen()}: row 0, move 1 (e4e5): not legal"


def test_the_command_passes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "PUBLISHED", selftest.PUBLISHED[2:4])
    for words, count in (([], 1), (["--thorough"], 4)):
        done = CliRunner().invoke(cli, ["doctor", *words])
        rows = [line for line in done.output.splitlines() if re.match("rules|perft|python-chess", line)]
        assert len(rows) == count
        assert all(re.search(r" ok +\S", row) for row in rows)


@pytest.mark.parametrize("words", [[], ["--thorough"]])
def test_the_command_fails_where_a_count_is_wrong(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fen = selftest.PUBLISHED[2][1]
    monkeypatch.setattr(selftest, "PUBLISHED", (("position 3", fen, (14, 191, 2813)),))
    done = CliRunner().invoke(cli, ["doctor", *words])
    assert done.exit_code == 1
    assert f"BROKEN   1 wrong: {fen}: perft 3 gives 2,812, not 2,813" in done.output
    assert re.search("-> remove .* and run it again", done.output)
