"""The loop that plays games: their contents, their endings, and what happens when a player fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import chess
import pytest

from tests.play_doubles import INITIAL, Answer, ScriptedPlayer, random_move, white_played
from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError
from valuerepair.play.game import CRASHED, Fault, GameRecord, Thought
from valuerepair.play.openings import Opening
from valuerepair.play.referee import Rules
from valuerepair.play.runner import Pairing, game_seed, play_games

MATED = Opening(3, "7k/5Q2/6K1/8/8/8/8/8 w - - 0 1", ("f7g7",), "7k/6Q1/6K1/8/8/8/8/8 b - - 1 1", 0)


@contextmanager
def players(*answers: Answer, delay: float = 0.0) -> Iterator[list[ScriptedPlayer]]:
    made = [ScriptedPlayer(f"player {i}", answer, delay) for i, answer in enumerate(answers)]
    try:
        yield made
    finally:
        for player in made:
            player.close()


def pairings(games: int, opening: Opening | None = None) -> list[Pairing]:
    return [Pairing(n, opening or INITIAL, n % 2, 1 - n % 2) for n in range(games)]


def played(
    games: int,
    *answers: Answer,
    rules: Rules | None = None,
    jobs: int = 4,
    opening: Opening | None = None,
    **more: Any,
) -> list[GameRecord]:
    with players(*answers) as two:
        records = list(
            play_games(pairings(games, opening), two, rules or Rules(), jobs, seed=more.pop("seed", 1), **more)
        )
        assert sorted(two[0].forgotten) == list(range(games))
        assert all(player.most <= jobs for player in two)
    return sorted(records, key=lambda record: record.number)


def test_games_are_the_same_however_many_are_played_at_once_and_whatever_the_speed() -> None:
    short = Rules(max_plies=60)
    alone = played(6, random_move, random_move, jobs=1, rules=short)
    assert len({record.moves for record in alone}) == 6
    assert played(6, random_move, random_move, jobs=5, rules=short) == alone
    with players(random_move, random_move, delay=0.002) as two:
        slow = list(play_games(pairings(6), two, short, 6, seed=1))
    assert sorted(slow, key=lambda record: record.number) == alone
    assert played(6, random_move, random_move, seed=2, rules=short) != alone


def test_records_tell_the_game() -> None:
    records = played(8, random_move, random_move)
    assert len(records) == 8
    assert any(record.result != "*" for record in records)
    for record in records:
        board = chess.Board(record.start_fen)
        for move in record.moves:
            board.push_uci(move)
        assert record.white == f"player {record.number % 2}"
        assert record.ending != "too long" or (record.result == "*" and len(record.moves) == 450)
        outcome = board.outcome(claim_draw=True)
        assert record.ending == "too long" or (outcome and outcome.result() == record.result)
        assert [white_played(record, i) for i in range(2)] == [True, False]


def test_a_game_that_is_over_in_the_book_is_not_played() -> None:
    with players(random_move) as one:
        game = Pairing(0, MATED, 0, 0)
        (record,) = play_games([game], one, Rules(), 2, seed=0)
    assert (record.result, record.ending, record.thoughts, record.opening) == ("1-0", "checkmate", (), 3)


def test_an_illegal_move_and_a_crash_lose_the_game_and_no_other() -> None:
    def breaks(position: Position, seed: int) -> Thought:
        if len(position.moves) == 4:
            raise Fault(CRASHED, "signal 9")
        return Thought("e2e5") if len(position.moves) == 5 else random_move(position, seed)

    records = played(4, breaks, random_move)
    assert [(r.result, r.ending) for r in records] == [("0-1", "crashed"), ("1-0", "illegal move")] * 2
    assert records[0].detail == "signal 9"
    assert records[1].detail.startswith("e2e5 in ")
    assert [len(r.moves) for r in records] == [4, 5, 4, 5]


def test_an_error_that_is_no_fault_ends_the_run() -> None:
    def breaks(position: Position, seed: int) -> Thought:
        raise ValueRepairError("the net is gone")

    with players(breaks, random_move) as two:
        games = play_games(pairings(9), two, Rules(), 3, seed=0)
        with pytest.raises(ValueRepairError, match="the net is gone"):
            list(games)
        assert sorted(two[0].forgotten) == [0, 1, 2]


def hopeless_from(ply: int) -> Answer:
    def answer(position: Position, seed: int) -> Thought:
        move = random_move(position, seed).move
        return Thought(move, q=-0.99 if len(position.moves) >= ply and position.white_to_move else 0.0)

    return answer


def test_resignation_ends_a_game_or_is_noted() -> None:
    answer = hopeless_from(5)
    records = played(60, answer, answer, rules=Rules(resign=2, no_resign_share=0.3, max_plies=30))
    gave_up = [r for r in records if r.ending == "resigned"]
    assert all((r.result, len(r.moves), r.would_resign) == ("0-1", 6, None) for r in gave_up)
    noted = [r for r in records if r.would_resign is not None]
    assert all(r.would_resign == (6, "white") for r in noted)
    assert len(gave_up) + len(noted) == 60
    assert 8 <= len(noted) <= 28


def test_a_halt_keeps_what_ended_and_gives_up_the_rest() -> None:
    moves = 0

    def count() -> None:
        nonlocal moves
        moves += 1

    with players(random_move, random_move, delay=0.001) as two:
        games = play_games(
            pairings(50),
            two,
            Rules(),
            3,
            seed=3,
            on_move=count,
            halted=lambda: moves > 900,
        )
        records = list(games)
        assert 1 <= len(records) < 50
        assert sum(len(record.moves) for record in records) < moves <= 903
        assert {record.number for record in records} < set(two[0].forgotten)


def test_seeds_of_games_are_apart() -> None:
    seeds = {game_seed(seed, number) for seed in range(50) for number in range(200)}
    assert len(seeds) == 10_000
    assert all(0 <= seed < 2**63 for seed in seeds)
