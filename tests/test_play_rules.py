"""How games end, against python-chess; adjudication, resignation, tablebases."""

from __future__ import annotations

import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import pytest

from tests.play_doubles import INITIAL
from valuerepair.chess.board import keys, parse_fens
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.game import Game, Thought
from valuerepair.play.match import MatchOptions, without_rules
from valuerepair.play.openings import Opening
from valuerepair.play.referee import DrawRule, Referee, Rules, Tables, own_q
from valuerepair.training.selfplay import SelfplayOptions

SYZYGY = str(Path(__file__).parent / "goldens" / "syzygy")
SHORT = (
    chess.STARTING_FEN,
    "8/8/4k3/8/2n5/8/4K1N1/8 w - - 0 1",
    "4k3/8/8/8/8/8/4P3/4K2R w K - 60 90",
    "8/2k5/8/8/8/8/1q6/6K1 b - - 93 120",
    "5bk1/8/8/8/8/8/7p/B5K1 w - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
    "k7/8/1Q6/8/8/8/8/6K1 w - - 0 1",
)


def opening(fen: str, *moves: str) -> Opening:
    board = chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    return Opening(0, chess.Board(fen).fen(), moves, board.fen(), int(keys(parse_fens([board.fen()]))[0]))


def by_python_chess(board: chess.Board) -> tuple[str, str] | None:
    if board.is_checkmate():
        return ("0-1" if board.turn else "1-0"), "checkmate"
    drawn = {
        "stalemate": board.is_stalemate(),
        "material": board.is_insufficient_material(),
        "repetition": board.is_repetition(3),
        "50 moves": board.halfmove_clock >= 100,
    }
    how = next((name for name, true in drawn.items() if true), None)
    return None if how is None else ("1/2-1/2", how)


@pytest.mark.parametrize("fen", SHORT)
def test_random_games_end_as_python_chess_ends_them(fen: str) -> None:
    seen = set()
    for number in range(40):
        chance, board, game = random.Random(f"{fen} {number}"), chess.Board(fen), Game(opening(fen))
        while (ended := by_python_chess(board)) is None:
            assert game.ending() is None
            moves = sorted(board.legal_moves, key=lambda move: move.uci())
            # Half of the time back where a man came from, so that positions repeat.
            back = [m for m in moves if len(board.move_stack) > 1 and _undoes(board.move_stack[-2], m)]
            move = chance.choice(back if back and chance.random() < 0.5 else moves)
            assert game.push(move.uci())
            board.push(move)
            assert (game.fen, game.white_to_move) == (board.fen(), board.turn)
        assert game.ending() == ended
        seen.add(ended[1])
        position = game.position()
        assert position.moves == tuple(move.uci() for move in board.move_stack)
        assert (position.fen, position.ply) == (board.fen(), board.ply())
        assert position.key == int(keys(parse_fens([board.fen()]))[0])
    assert seen


def _undoes(before: chess.Move, move: chess.Move) -> bool:
    return (move.from_square, move.to_square) == (before.to_square, before.from_square)


@pytest.mark.parametrize("move", ["e2e5", "e7e5", "e1g1", "", "0000", "e2e4q", "zz"])
def test_illegal_moves_change_nothing(move: str) -> None:
    game = Game(INITIAL)
    assert not game.push(move)
    assert (game.moves, game.fen) == ([], chess.STARTING_FEN)
    with pytest.raises(ValueRepairError, match=r"opening 1: .* is illegal"):
        Game(Opening(0, chess.STARTING_FEN, ("a2a3", "a7a6", move), "", 0))


def test_moves_of_the_book_count_for_repetition() -> None:
    shuffle = ("g1f3", "g8f6", "f3g1", "f6g8")
    game = Game(opening(chess.STARTING_FEN, *shuffle, *shuffle[:3]))
    assert game.ending() is None
    assert game.push("f6g8")
    assert game.ending() == ("1/2-1/2", "repetition")


def verdicts(rules: Rules, qs: list[float | None], moves: int = 0) -> str | None:
    game = Game(INITIAL)
    for move in (("g1f3", "g8f6", "f3g1", "f6g8") * 40)[:moves]:
        game.push(move)
        game._rows[len(game.moves), 9] = 0  # repeated as often as we like
    verdict = Referee(rules, 0).verdict(game, qs)
    return None if verdict is None else f"{verdict.result} {verdict.ending}"


def test_adjudication_needs_all_values_in_a_row() -> None:
    draw = Rules(draw=DrawRule(10, 4, 0.02))
    assert verdicts(draw, [0.0, None, 0.0, 0.0], moves=18) is None
    assert verdicts(draw, [0.0] * 3, moves=18) is None
    assert verdicts(draw, [0.0] * 4, moves=17) is None
    assert verdicts(draw, [0.5, 0.0, 0.01, -0.02, 0.0], moves=18) == "1/2-1/2 adjudicated draw"
    assert verdicts(draw, [0.0, 0.03, 0.0, 0.0], moves=18) is None


def test_a_game_that_is_too_long_is_undecided() -> None:
    assert verdicts(Rules(max_plies=20), [], moves=19) is None
    assert verdicts(Rules(max_plies=20), [], moves=20) == "* too long"
    assert verdicts(Rules(max_plies=0), [], moves=98) is None


def test_rules_as_text() -> None:
    """In the sides of a match, whose games have no limit of plies, and among the settings of self-play, with lc0's."""
    rules = Rules(resign=3)
    assert without_rules(["net=x,syzygy=/a\\,b,nodes=5", "max_plies=9,stockfish"], rules) == (
        ["net=x,nodes=5", "stockfish"],
        Rules(9, syzygy="/a,b", resign=3),
    )
    assert without_rules(["net=x", "./e"], rules) == (["net=x", "./e"], rules)
    with pytest.raises(UsageError, match="max_plies=x"):
        without_rules(["a", "b,max_plies=x"], rules)
    assert (SelfplayOptions(rules=rules).limited_rules.max_plies, MatchOptions().plan().rules.max_plies) == (450, None)


@pytest.mark.parametrize(
    ("fen", "move", "ended"),
    [
        ("7k/8/8/8/8/5K2/1r4Q1/8 w - - 0 1", "g2b2", ("1-0", "tablebase")),
        ("7k/8/8/8/8/5K2/1q4R1/8 b - - 0 1", "b2g2", ("1/2-1/2", "tablebase")),  # K:g2
        ("7k/8/8/8/8/5K2/1r4Q1/8 w - - 0 1", "g2h2", None),  # no capture
    ],
)
def test_tables_end_games_after_captures(fen: str, move: str, ended: tuple[str, str] | None) -> None:
    game = Game(opening(fen))
    assert Referee(Rules(), 0).verdict(game, []) is None
    game.push(move)
    verdict = Referee(Rules(syzygy=SYZYGY), 0).verdict(game, [])
    assert (verdict and (verdict.result, verdict.ending)) == ended
    assert Referee(Rules(), 0).verdict(game, []) is None


@pytest.mark.parametrize(("wdl", "value"), [(2, 1), (1, 0), (0, 0), (-1, 0), (-2, -1), (None, None)])
def test_cursed_wins_and_blessed_losses_are_draws(
    monkeypatch: pytest.MonkeyPatch, wdl: int | None, value: int | None
) -> None:
    tables = Tables(SYZYGY)
    monkeypatch.setattr(tables, "_tables", SimpleNamespace(get_wdl=lambda board: wdl))
    assert tables.probe("7k/8/8/8/8/5K2/8/6R1 w - - 0 1") == value


def test_folders_and_damaged_tables_are_told_in_a_line(tmp_path: Path) -> None:
    assert (Tables("").men, Tables(os.pathsep).men, Tables(SYZYGY).men) == (0, 0, 3)
    with pytest.raises(UsageError, match="nowhere"):
        Tables(f"{SYZYGY}{os.pathsep}{tmp_path}/nowhere")
    with pytest.raises(UsageError, match="rtbw"):
        Tables(str(tmp_path))
    whole = (Path(SYZYGY) / "KRvK.rtbw").read_bytes()
    # Cut off; a piece that there is not; a symbol that is made of itself.
    for content in (b"", whole[:40], whole[:6] + b"\0" + whole[7:], whole[:20] + b"\x14" + whole[21:]):
        (tmp_path / "KRvK.rtbw").write_bytes(content)
        with pytest.raises(ValueRepairError, match="damaged"):
            Tables(str(tmp_path)).probe("8/8/8/8/8/2k5/8/K6R w - - 0 1")


def test_who_resigns_and_who_may_not() -> None:
    referee = Referee(Rules(resign=5, no_resign_share=0.25), 7)
    assert referee.resigns(Thought("e2e4", q=-0.91))
    assert not referee.resigns(Thought("e2e4", q=-0.89))
    assert not referee.resigns(Thought("e2e4"))
    assert not Referee(Rules(), 7).resigns(Thought("e2e4", q=-1.0))
    share = [referee.plays_on(number) for number in range(4000)]
    assert 0.22 < sum(share) / 4000 < 0.28
    assert share == [Referee(Rules(no_resign_share=0.25), 7).plays_on(number) for number in range(4000)]
    assert not any(Referee(Rules(), 7).plays_on(number) for number in range(100))
    assert all(Referee(Rules(no_resign_share=1), 7).plays_on(number) for number in range(100))


def test_values_of_players_that_give_no_q() -> None:
    assert own_q(Thought("e2e4", wdl=(600, 300, 100))) == pytest.approx(0.5)
    assert own_q(Thought("e2e4", mate=-3, cp=None)) == -1
    assert own_q(Thought("e2e4", cp=0)) == 0
    assert own_q(Thought("e2e4")) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_plies": -1},
        {"resign": 50.0},
        {"no_resign_share": 1.5},
        {"draw": DrawRule(1, 0, 0.1)},
        {"draw": DrawRule(1, 4, 1.1)},
    ],
)
def test_rules_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Rules(**wrong)
