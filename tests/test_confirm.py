"""Second looks as they are taken: what is searched, kept, gone on with after a kill, and counted when it fails."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import chess
import pytest
from valuerepair.judge.verdict import evidence
from valuerepair.runs.confirm import ConfirmOptions
from valuerepair.runs.loop import after

from tests.confirm_doubles import (
    STOCKFISH,
    Candidate,
    SecondOracle,
    by_length,
    look_again,
    make_store,
    many,
    position_of,
)
from tests.mining_doubles import dump, rows, wait_for
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome
from valuerepair.progress import Progress, remarks_to
from valuerepair.question import Question
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

BACK_RANK = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"
FIRST = DeepResult(cp=-50, best_move="d2d4")


def looks(path: Path) -> dict[tuple[int, str], tuple[object, ...]]:
    """(position, stage) -> cp, mate, nodes of what was looked at again."""
    with Store.open(path) as store:
        query = "SELECT position_id, stage, cp, mate, nodes FROM deep_values WHERE stage <> 'full'"
        return {(row[0], row[1]): row[2:] for row in store.connection.execute(query)}


def of_start(net_best: str = "", first: DeepResult = FIRST) -> list[Candidate]:
    return [Candidate(position_of(chess.STARTING_FEN), 0.9, first, net_best)]


# -- what is searched -------------------------------------------------------------------------------------------------


def test_a_candidate_is_searched_and_so_are_the_positions_after_both_moves(tmp_path: Path) -> None:
    line = ("e2e4", "e7e5")
    row = Candidate(position_of(chess.STARTING_FEN, *line), 0.9, replace(FIRST, best_move="f1b5"), "e1e2")
    path, oracle = make_store(tmp_path / "a.db", [row]), SecondOracle(by_length, workers=1)
    summary = look_again(path, oracle)
    assert [position.moves for position in oracle.searched] == [line, (*line, "e1e2"), (*line, "f1b5")]
    for position in oracle.searched:
        board = chess.Board(position.start_fen)
        for move in position.moves:
            board.push_uci(move)
        assert (board.fen(), board.ply()) == (position.fen, position.ply)
        assert position.history_known
    assert set(looks(path)) == {(1, "second"), (1, "after:e1e2"), (1, "after:f1b5")}
    assert (summary.state, summary.searches, summary.failed, summary.nodes) == ("finished", 3, 0, 30_000)


def test_one_move_of_both_is_searched_once(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", of_start("d2d4"))
    look_again(path, SecondOracle(by_length))
    assert set(looks(path)) == {(1, "second"), (1, "after:d2d4")}


def test_where_the_first_look_named_no_move_the_second_looks_is_searched(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", of_start("e2e4", DeepResult(cp=-50)))
    second = SecondOracle(lambda position: DeepResult(cp=1, best_move="g1f3"))
    assert look_again(path, second).searches == 3
    assert set(looks(path)) == {(1, "second"), (1, "after:e2e4"), (1, "after:g1f3")}
    # The same when the run ended just before it.
    with Store.open(path, write=True) as store, store.writing() as connection:
        connection.execute("DELETE FROM deep_values WHERE stage = 'after:g1f3'")
    assert look_again(path, SecondOracle(by_length)).searches == 1
    assert (1, "after:g1f3") in looks(path)


def test_a_search_that_the_last_one_leads_to_is_made(tmp_path: Path) -> None:
    """The second look ends last, when nothing else is searched or waits."""

    def slowly(position: Position) -> DeepResult:
        time.sleep(0 if position.moves else 0.3)
        return DeepResult(cp=1, best_move="g1f3")

    path = make_store(tmp_path / "a.db", of_start("e2e4", DeepResult(cp=-50)))
    assert look_again(path, SecondOracle(slowly)).searches == 3
    assert (1, "after:g1f3") in looks(path)


def test_a_net_without_policy_and_a_first_look_without_a_move(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", of_start("", DeepResult(cp=-50)))
    look_again(path, SecondOracle(lambda position: DeepResult(cp=1)))
    assert set(looks(path)) == {(1, "second")}


def test_a_move_that_ends_the_game_is_known_without_a_search(tmp_path: Path) -> None:
    row = Candidate(position_of(BACK_RANK), -0.9, DeepResult(mate=1, best_move="a1a8"), "a1a7")
    path, oracle = make_store(tmp_path / "a.db", [row]), SecondOracle(by_length)
    with Store.open(path, write=True) as store, oracle:
        from valuerepair.runs.confirm import confirm

        progress = Progress("", quiet=True)
        confirm(store, store.candidates(Question(threshold=0.55)), oracle, ConfirmOptions(), progress=progress)
    assert looks(path)[1, "after:a1a8"] == (None, 0, 0)
    assert len(oracle.searched) == progress.done == progress.total == 2


SHUFFLE = ("g1f3", "g8f6", "f3g1", "f6g8", "g1f3", "g8f6", "f3g1")


@pytest.mark.parametrize(
    ("position", "move", "end"),
    [
        (position_of(BACK_RANK), "a1a8", DeepResult(mate=0)),
        (position_of("k7/8/1K6/8/8/8/8/2Q5 w - - 0 1"), "c1c7", DeepResult(cp=0, wdl=(0, 1000, 0))),
        (position_of("k7/8/1K6/8/8/8/8/5n2 w - - 99 80"), "b6a6", DeepResult(cp=0, wdl=(0, 1000, 0))),
        (position_of("8/8/8/8/8/k7/1p6/K7 w - - 0 1"), "a1b1", None),
        (position_of("8/8/8/8/8/2k5/1p6/1K6 b - - 0 1"), "c3d2", None),
        (position_of("8/8/8/8/8/1k6/1p6/K7 w - - 0 1"), "a1b1", None),
        (position_of(chess.STARTING_FEN, *SHUFFLE), "f6g8", DeepResult(cp=0, wdl=(0, 1000, 0))),
        (position_of(chess.STARTING_FEN, *SHUFFLE[:3]), "f6g8", None),
    ],
)
def test_how_a_move_ends_the_game(position: Position, move: str, end: DeepResult | None) -> None:
    outcome = after(position, move)
    if end is not None:
        assert outcome == end
    else:
        assert isinstance(outcome, Position)
        assert (outcome.moves, outcome.start_fen) == ((*position.moves, move), position.start_fen)


def test_a_move_that_is_not_legal_is_left_out(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", of_start("e2e5"))
    assert after(position_of(chess.STARTING_FEN), "e2e5") is None
    assert look_again(path, SecondOracle(by_length)).state == "finished"
    assert set(looks(path)) == {(1, "second"), (1, "after:d2d4")}


# -- going on ---------------------------------------------------------------------------------------------------------


def test_what_is_there_is_not_searched_again(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 12)
    first = look_again(path, SecondOracle(by_length), ConfirmOptions(limit=5))
    assert (first.state, first.searches) == ("limited", 15)
    # The net or threshold may be another one: what counts is the position and who looked.
    remarks: list[str] = []
    with remarks_to(remarks.append):
        second = look_again(path, SecondOracle(by_length), threshold=0.9)
    assert "resuming: 15 searches were made before" in remarks
    assert (second.state, second.searches) == ("finished", 21)
    again = SecondOracle(by_length)
    assert look_again(path, again).searches == len(again.searched) == 0
    with Store.open(path) as store:
        assert evidence(store, store.candidates(Question(threshold=0.55)))["verdict"].notna().all()


def test_a_limit_counts_what_was_looked_at_before(tmp_path: Path) -> None:
    """Interrupted after two candidates, the same command looks at three more, not at five."""
    path = many(tmp_path / "a.db", 12)
    look_again(path, SecondOracle(by_length), ConfirmOptions(limit=2))
    for _ in range(2):
        look_again(path, SecondOracle(by_length), ConfirmOptions(limit=5))
        assert sum(stage == "second" for _, stage in looks(path)) == 5


def test_a_whole_search_by_the_same_oracle_is_taken_over(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 3)
    with Store.open(path, write=True) as store:
        from valuerepair.store.rows import RunRecord

        run = store.begin_run(RunRecord("more", "vr mine", {}, 0, {}))
        oracle_id = store.add_oracle(SecondOracle(by_length).identity)
        store.add_deep(2, oracle_id, DeepResult(cp=77, nodes=9), run)
    oracle = SecondOracle(by_length)
    assert look_again(path, oracle).searches == 8
    assert looks(path)[2, "second"] == (77, None, 9)
    with Store.open(path) as store:
        assert store.oracles()["scored"].tolist() == [3, 1]


def start(db: Path, delay: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.confirm_doubles", str(db), str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


@pytest.mark.slow
def test_killed_and_gone_on_with_it_ends_as_if_never_killed(tmp_path: Path) -> None:
    db, dice, mined = many(tmp_path / "killed.db", 40), random.Random(3), 40
    counts = [mined]
    for _ in range(2):
        process = start(db, delay=0.05)
        wait_for(process, db, counts[-1] + dice.randrange(1, 30))
        process.kill()
        process.communicate()
        counts.append(rows(db))
    assert counts == sorted(counts)
    assert mined < counts[-1] < mined + 120, counts
    look_again(db, SecondOracle(by_length))
    whole = many(tmp_path / "whole.db", 40)
    look_again(whole, SecondOracle(by_length))
    assert dump(db) == dump(whole)


@pytest.mark.slow
def test_a_signal_ends_cleanly_and_the_next_run_goes_on(tmp_path: Path) -> None:
    db = many(tmp_path / "a.db", 40)
    process = start(db, delay=0.05)
    wait_for(process, db, 41)
    signal_time = time.monotonic()
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=30)
    assert (process.returncode, printed) == (130, "interrupted\n")
    assert time.monotonic() - signal_time < 9
    with Store.open(db) as store:
        ((state,),) = store.connection.execute("SELECT state FROM runs WHERE command = ''").fetchall()
    assert state == "interrupted"
    before = rows(db)
    assert look_again(db, SecondOracle(by_length)).searches == 160 - before
    whole = many(tmp_path / "whole.db", 40)
    look_again(whole, SecondOracle(by_length))
    assert dump(db) == dump(whole)


# -- failures ---------------------------------------------------------------------------------------------------------


def failing(position: Position) -> DeepOutcome:
    """Fails on the candidate after one move of the game, and after its first move."""
    return DeepFailure("crashed", 3) if len(position.moves) == 1 else by_length(position)


def test_failures_are_counted_and_kept(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 3)
    # The candidate after one move, and the two positions after one move of the first candidate.
    assert look_again(path, SecondOracle(failing)).failed == 3
    with Store.open(path) as store:
        failures = store.connection.execute("SELECT position_id, stage, reason, attempts FROM failures").fetchall()
        assert sorted(row[0] for row in failures) == [1, 1, 2]
        assert {row[2:] for row in failures} == {("crashed", 3)}
        assert evidence(store, store.frame())["verdict"].notna().tolist() == [True, False, True]
    again = SecondOracle(by_length)
    assert (look_again(path, again).failed, again.searched) == (3, [])


def test_an_oracle_that_always_fails_is_broken(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 8)
    broken = SecondOracle(lambda position: DeepFailure("no king", 0), workers=1)
    with pytest.raises(
        ValueRepairError, match=r"failed on each of the 10 positions it was given; the last error: no king;"
    ):
        look_again(path, broken)
    assert rows(path, "failures") == 0
    assert look_again(path, SecondOracle(by_length)).failed == 0


def test_a_limit_below_one() -> None:
    with pytest.raises(UsageError, match="--limit 0: must be at least 1"):
        ConfirmOptions(limit=0)


def test_another_net_uses_the_second_looks_that_are_there(tmp_path: Path) -> None:
    # Two first looks, one second: the position itself is not searched again for another first look.
    path = make_store(tmp_path / "a.db", of_start("e2e4"))
    look_again(path, SecondOracle(by_length))
    other = replace(STOCKFISH, limits={"nodes": 2000})
    make_store(path, of_start("g1f3"), other)
    oracle = SecondOracle(by_length)
    with Store.open(path, write=True) as store, oracle:
        from valuerepair.runs.confirm import confirm

        confirm(store, store.candidates(Question(threshold=0.55, oracle="nodes=2000")), oracle, ConfirmOptions())
    assert [position.moves for position in oracle.searched] == [("g1f3",)]
