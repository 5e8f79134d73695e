"""Positions beside the games: legal, drawn evenly, with their history; python-chess is the judge."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import chess.polyglot
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from valuerepair.archives.off_game import MIXTURE, beside, drawn_kinds, parse_shares
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.archives.select import key_priorities
from valuerepair.chess.origins import Kind, Origin, Recorded
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.errors import UsageError

STALEMATED = "7k/8/8/8/8/6q1/8/7K w - - 0 1"
ONLY_DRAWS = "7k/8/8/8/8/8/1r6/K7 w - - 0 1"  # the only move takes the rook, and bare kings are left
FIFTY = "7k/8/8/8/8/8/8/K4R2 w - - 99 80"  # every move is the hundredth, unless it takes or mates


def played(start: str, moves: Sequence[str]) -> chess.Board:
    board = chess.Board(start)
    for move in moves:
        board.push_uci(move)
    return board


def position_of(board: chess.Board, start: str = chess.STARTING_FEN, **facts: Any) -> Position:
    moves = tuple(move.uci() for move in board.move_stack)
    key = chess.polyglot.zobrist_hash(board)
    return Position(board.fen(), start, moves, board.ply(), key, origin=Origin("games.pgn", 3, played="e2e4"), **facts)


def aside(batch: PositionBatch, seed: int) -> tuple[PositionBatch, NDArray[np.int64]]:
    """All positions after a random legal move, and which rows these are."""
    reached, rows, lost = beside(batch, {"random_move": 1.0}, seed)
    assert len(rows) + lost.total() == len(batch)
    return reached, rows


def over(board: chess.Board) -> bool:
    return board.is_game_over() or board.is_fifty_moves() or board.is_repetition(3)


@settings(deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False), st.integers(0, 2**31), st.sampled_from([0, 4, 40, 200]))
def test_every_position_is_a_legal_move_away_and_keeps_its_past(rng: random.Random, seed: int, plies: int) -> None:
    board = chess.Board()
    while len(board.move_stack) < plies and not over(board):
        board.push(rng.choice(sorted(board.legal_moves, key=chess.Move.uci)))
    moves = [move.uci() for move in board.move_stack]
    cuts = rng.sample(range(len(moves) + 1), min(len(moves) + 1, 5))
    drawn = [position_of(played(chess.STARTING_FEN, moves[:cut])) for cut in cuts]
    reached, rows = aside(PositionBatch.from_positions(drawn), seed)
    assert len(reached) == len(rows)
    for position, i in zip(reached, rows.tolist(), strict=True):
        before, after = drawn[i], played(position.start_fen, position.moves)
        assert position.moves[:-1] == before.moves
        assert chess.Move.from_uci(position.moves[-1]) in chess.Board(before.fen).legal_moves
        assert position.fen == after.fen()
        assert not over(after)
        assert (position.ply, position.key) == (before.ply + 1, chess.polyglot.zobrist_hash(after))
        assert position.origin == Origin("games.pgn", 3, kind="random_move")
    for i in set(range(len(drawn))) - set(rows.tolist()):
        before = played(chess.STARTING_FEN, drawn[i].moves)
        assert over(before) or any(over_after(before, move) for move in before.legal_moves)


def over_after(board: chess.Board, move: chess.Move) -> bool:
    board.push(move)
    ended = over(board)
    board.pop()
    return ended


def test_moves_are_drawn_evenly() -> None:
    """All twenty first moves: over 4,000 seeds chi-square with 19 degrees of freedom is below 43.8 in 999 of 1,000."""
    batch = PositionBatch.from_positions([position_of(chess.Board())])
    counts = Counter(aside(batch, seed)[0][0].moves[0] for seed in range(4_000))
    assert len(counts) == 20
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 43.8


def test_where_the_game_ends_there_is_no_position() -> None:
    fens = [STALEMATED, ONLY_DRAWS, FIFTY, chess.STARTING_FEN]
    bare = [position_of(chess.Board(fen), fen, history_known=False) for fen in fens]
    reached, rows = aside(PositionBatch.from_positions(bare), 0)
    assert rows.tolist() == [3]
    assert not reached.history_known[0]
    assert len(aside(PositionBatch.from_positions([]), 0)[0]) == 0


def test_a_move_that_repeats_the_position_a_third_time_ends_the_game() -> None:
    """Kings that can only go back and forth: each of Black's moves but one leads to what stood there twice."""
    there_and_back = ["a1b1", "h8g8", "b1a1", "g8h8"]
    board = played("7k/8/8/1p1p4/1P1P4/8/8/K7 w - - 0 1", [*there_and_back, *there_and_back[:3]])
    drawn = PositionBatch.from_positions([position_of(board, "7k/8/8/1p1p4/1P1P4/8/8/K7 w - - 0 1")])
    reached = [aside(drawn, seed)[0] for seed in range(200)]
    moves = {batch[0].moves[-1] for batch in reached if len(batch)}
    legal = {move.uci() for move in board.legal_moves}
    assert moves == legal - {"g8h8"}
    assert any(not len(batch) for batch in reached)


def test_what_was_recorded_in_the_game_is_not_of_this_position() -> None:
    recorded = Position(chess.STARTING_FEN, origin=Origin("a.pgn", 1, played="e2e4", recorded=Recorded("eval", cp=30)))
    origin = aside(PositionBatch.from_positions([recorded]), 0)[0][0].origin
    assert (origin.played, origin.recorded) == (None, None)
    with pytest.raises(UsageError, match=r"^--off-game: positions that were not played have no recorded evaluation"):
        SampleOptions(off_game=0.5, recorded=RecordedOptions("eval"))


# -- shares of kinds ---------------------------------------------------------------------------------------------------


def test_kinds_are_drawn_by_their_shares() -> None:
    """Of 100,000 keys, chi-square with 3 degrees of freedom is below 16.3 in 999 of 1,000 draws."""
    keys = np.random.default_rng(3).integers(0, 2**64, 100_000, np.uint64)
    shares: dict[Kind, float] = {"random_move": 0.25, "policy_move": 0.05, "search_node": 0.1}
    counts = np.bincount(drawn_kinds(keys, shares, 7), minlength=4)
    expected = 100_000 * np.array([0.25, 0.05, 0.1, 0.6])
    assert ((counts - expected) ** 2 / expected).sum() < 16.3
    assert (drawn_kinds(keys, {"random_move": 0.5, "policy_move": 0.25, "search_node": 0.25}, 7) < 3).all()
    # Which of the lowest keys, as `--positions` draws them, they are says nothing of their kind.
    low = keys[np.argsort(key_priorities(7, keys))[:10_000]]
    counts = np.bincount(drawn_kinds(low, shares, 7), minlength=4)
    assert ((counts - expected / 10) ** 2 / (expected / 10)).sum() < 16.3


@given(st.floats(0.01, 1), st.floats(0, 1), st.integers(0, 2**31))
def test_a_smaller_share_is_part_of_a_larger_one(share: float, part: float, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**64, 200, np.uint64)
    larger, smaller = (drawn_kinds(keys, {"random_move": value}, seed) == 0 for value in (share, share * part))
    assert not (smaller & ~larger).any()


def test_a_share_is_a_number_or_one_for_each_kind() -> None:
    assert parse_shares("0.5") == parse_shares(0.5) == {kind: share / 2 for kind, share in MIXTURE.items()}
    assert parse_shares("search_node:0.25, random_move:.5") == {"random_move": 0.5, "search_node": 0.25}
    assert parse_shares({"policy_move": 1}) == {"policy_move": 1.0}
    assert sum(MIXTURE.values()) == 1


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("", "give a share"),
        ("game:0.5", "the kinds are random_move, policy_move, search_node"),
        ("random_move:much", "give a share"),
        ("random_move:0.5,random_move:0.1", "gives a kind twice"),
        ("random_move:0.7,search_node:0.7", "their sum is at most 1"),
        ("0", "shares lie above 0"),
        ("nan", "shares lie above 0"),
        ("2", "shares lie above 0"),
    ],
)
def test_other_shares_are_refused_in_one_line(asked: str | bool, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        SampleOptions(off_game=asked)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("--off-game")


# -- in a sample ------------------------------------------------------------------------------------------------------


def games(path: Path, count: int = 40) -> str:
    rng = random.Random(5)
    with path.open("w") as file:
        for _ in range(count):
            board = chess.Board()
            while len(board.move_stack) < 60 and not over(board):
                board.push(rng.choice(sorted(board.legal_moves, key=chess.Move.uci)))
            print(chess.pgn.Game.from_board(board), end="\n\n", file=file)
    return str(path)


def drawn_from(path: str, **options: Any) -> tuple[list[Position], ReadReport]:
    report = ReadReport()
    positions = [p for batch in sample([path], SampleOptions(**options), report) for p in batch]
    assert report.adds_up, report
    return positions, report


def test_of_a_position_beside_a_game_and_in_a_later_one_the_first_counts(tmp_path: Path) -> None:
    """Else a search that is under way would be of another history than the store's."""
    path, board = tmp_path / "short.pgn", chess.Board()
    path.write_text("".join(f'[Result "*"]\n\n1. {board.san(move)} a6 *\n\n' for move in board.legal_moves))
    for seed in range(10):
        drawn, report = drawn_from(str(path), per_game=None, min_ply=0, off_game="random_move:0.5", seed=seed)
        assert len({p.key for p in drawn}) == len(drawn) == report.positions


@pytest.mark.parametrize("options", [{"per_game": 3}, {"per_game": None, "positions": 200}])
def test_they_lie_beside_what_is_drawn_without_it(tmp_path: Path, options: dict[str, Any]) -> None:
    path = games(tmp_path / "games.pgn")
    plain, _ = drawn_from(path, **options)
    beside, report = drawn_from(path, off_game="random_move:1", **options)
    assert len({p.key for p in beside}) == len(beside) == report.positions > 100
    assert {p.moves[:-1] for p in beside} <= {p.moves for p in plain}
    lost = report.rejected_positions["over after the move (random_move)"]
    assert len(plain) - len(beside) >= lost
    assert beside == drawn_from(path, off_game="random_move:1", threads=1, **options)[0]
    assert [p.moves for p in beside] != [
        p.moves for p in drawn_from(path, off_game="random_move:1", seed=1, **options)[0]
    ]


@pytest.mark.parametrize("options", [{"per_game": 3}, {"per_game": None, "positions": 200}])
def test_positions_of_games_are_those_of_a_sample_without_others(tmp_path: Path, options: dict[str, Any]) -> None:
    path = games(tmp_path / "games.pgn")
    plain, _ = drawn_from(path, **options)
    mixed, report = drawn_from(path, off_game="random_move:0.4", **options)
    of_games = [p for p in mixed if p.origin.kind == "game"]
    others = [p for p in mixed if p.origin.kind == "random_move"]
    assert of_games == [p for p in plain if p.key in {one.key for one in of_games}]
    assert {p.moves[:-1] for p in others} | {p.moves for p in of_games} <= {p.moves for p in plain}
    assert not {p.moves[:-1] for p in others} & {p.moves for p in of_games}
    assert len(mixed) == report.positions
    assert 0.25 < len(others) / len(mixed) < 0.55
    # The same as of all, where those that are drawn here are drawn there, too.
    every, _ = drawn_from(path, off_game="random_move:1", **options)
    assert {p.moves for p in others} <= {p.moves for p in every}
