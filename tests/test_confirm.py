"""Second looks as they are taken: what is searched, kept, gone on with after a kill, and counted when it fails."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import chess
import pytest

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
from valuerepair.mining.again import confirm
from valuerepair.mining.verdict import evidence
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.rows import DeepResult, RunRecord
from valuerepair.store.store import Store


def looks(path: Path) -> dict[int, tuple[object, ...]]:
    """Position -> cp, mate, nodes of what the deeper judge said."""
    with Store.open(path) as store:
        query = """
            SELECT position_id, cp, mate, v.nodes FROM deep_values v JOIN judges j ON j.id = v.judge_id
            WHERE j.label LIKE '%nodes=10000' AND failed IS NULL
        """
        return {row[0]: row[1:] for row in store.connection.execute(query)}


def test_a_candidate_is_searched_with_its_history(tmp_path: Path) -> None:
    line = ("e2e4", "e7e5")
    row = Candidate(position_of(chess.STARTING_FEN, *line), 0.9, DeepResult(cp=-50, best_move="f1b5"), "e1e2")
    path, judge = make_store(tmp_path / "a.db", [row]), SecondOracle(by_length, workers=1)
    done = look_again(path, judge)
    assert [(position.moves, position.fen) for position in judge.searched] == [(line, row.position.fen)]
    assert looks(path) == {1: (-141, None, 10_000)}
    assert (done.searched, done.failed, done.nodes, done.stopped) == (1, 0, 10_000, False)


def test_what_is_there_is_not_searched_again(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 12)
    assert look_again(path, SecondOracle(by_length), limit=5).searched == 5
    # The threshold may be another one: what counts is the position and who looked.
    assert look_again(path, SecondOracle(by_length), threshold=0.9).searched == 7
    again = SecondOracle(by_length)
    assert look_again(path, again).searched == len(again.searched) == 0
    with Store.open(path) as store:
        assert evidence(store, view.candidates(store))["verdict"].notna().all()


def test_a_limit_counts_what_was_looked_at_before(tmp_path: Path) -> None:
    """Interrupted after two candidates, the same command looks at three more, not at five."""
    path = many(tmp_path / "a.db", 12)
    look_again(path, SecondOracle(by_length), limit=2)
    for _ in range(2):
        look_again(path, SecondOracle(by_length), limit=5)
        assert len(looks(path)) == 5


def test_what_the_judge_said_before_is_its_second_look(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 3)
    with Store.open(path, write=True) as store, store.running(RunRecord("more", "vr mine", {}, {})) as run:
        store.add_deep(2, store.add_judge(SecondOracle(by_length).identity), DeepResult(cp=77, nodes=9), run)
    assert look_again(path, SecondOracle(by_length)).searched == 2
    assert looks(path)[2] == (77, None, 9)


def start(db: Path, delay: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.confirm_doubles", str(db), str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


@pytest.mark.slow
def test_killed_and_gone_on_with_it_ends_as_if_never_killed(tmp_path: Path) -> None:
    db, dice, mined = many(tmp_path / "killed.db", 60), random.Random(3), 60
    counts = [mined]
    for kill in (signal.SIGKILL, signal.SIGINT):
        process = start(db, delay=0.1)
        wait_for(process, db, counts[-1] + dice.randrange(1, 12))
        process.send_signal(kill)
        process.communicate(timeout=30)
        assert process.returncode == (130 if kill == signal.SIGINT else -kill)
        counts.append(rows(db))
    assert counts == sorted(counts)
    assert mined < counts[-1] < 2 * mined, counts
    look_again(db, SecondOracle(by_length))
    whole = many(tmp_path / "whole.db", 60)
    look_again(whole, SecondOracle(by_length))
    assert dump(db) | {"runs": []} == dump(whole) | {"runs": []}


def test_failures_are_kept_and_tried_again(tmp_path: Path) -> None:
    def failing(position: Position) -> DeepOutcome:
        return DeepFailure("crashed", 3) if len(position.moves) == 1 else by_length(position)

    path = many(tmp_path / "a.db", 3)
    assert look_again(path, SecondOracle(failing)).failed == 1
    with Store.open(path) as store:
        failures = store.connection.execute("SELECT position_id, failed FROM deep_values WHERE failed NOT NULL")
        assert failures.fetchall() == [(2, "crashed")]
        assert evidence(store, view.frame(store))["verdict"].notna().tolist() == [True, False, True]
    assert look_again(path, SecondOracle(by_length)).searched == 1
    assert sorted(looks(path)) == [1, 2, 3]


def test_a_judge_that_always_fails_is_broken(tmp_path: Path) -> None:
    broken = SecondOracle(lambda position: DeepFailure("no king", 0), workers=1)
    with pytest.raises(ValueRepairError, match="failed on each of the 3 positions it was given; the last error: no k"):
        look_again(many(tmp_path / "a.db", 3), broken)


def test_a_limit_below_one(tmp_path: Path) -> None:
    with (
        Store.open(many(tmp_path / "a.db", 3), write=True) as store,
        pytest.raises(UsageError, match="--limit 0: must be at least 1"),
    ):
        confirm(store, Question(), limit=0)


def test_another_first_look_uses_the_second_looks_that_are_there(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 3)
    look_again(path, SecondOracle(by_length))
    with Store.open(path, write=True) as store, store.running(RunRecord("other", "vr mine", {}, {})) as run:
        other = replace(STOCKFISH, limits={"nodes": 2000})
        for position in (1, 2, 3):
            store.add_deep(position, store.add_judge(other), DeepResult(cp=-50), run)
        store.use(judge=other.digest)
        assert evidence(store, view.candidates(store))["looked"].all()
    assert look_again(path, SecondOracle(by_length)).searched == 0
