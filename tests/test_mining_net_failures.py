"""Positions that a net has no value of: recorded as its failures, left alone, tried again on request."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.mining_doubles import KeyNet, KeyOracle, dump, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.report.stats import store_figures
from valuerepair.runs.options import MineOptions
from valuerepair.runs.workers import Answer
from valuerepair.store.check import integrity_checks
from valuerepair.store.rows import NET
from valuerepair.store.store import Store

OPTIONS = MineOptions(sample=SampleOptions(per_game=4))


class FarKeyNet(KeyNet):
    """The net elsewhere, which has no value of every `fails`-th key (0: of all keys)."""

    at_once = 2

    def __init__(self, fails: int | None) -> None:
        super().__init__()
        self._fails = fails
        self.asked: list[int] = []

    def answer(self, batch: PositionBatch) -> Future[Answer]:
        self.asked += batch.key.tolist()
        failed = {} if self._fails is None else {
            row: ("its worker was lost", 9)
            for row, key in enumerate(batch.key.tolist())
            if self._fails == 0 or key % self._fails == 0
        }  # fmt: skip
        kept: NDArray[np.int64] = np.array([row for row in range(len(batch)) if row not in failed], np.int64)
        future: Future[Answer] = Future()
        future.set_result((self.evaluate(batch.take(kept)), failed))
        return future


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "games.pgn", 25)


def keys(db: Path, query: str) -> set[int]:
    with Store.open(db) as store:
        return {key % 2**64 for (key,) in store.connection.execute(f"SELECT p.key FROM positions p {query}")}


def test_they_are_recorded_once_and_left_alone_by_every_oracle(archive: Path, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    net = FarKeyNet(7)
    first = mine_by_key(archive, db, net=net)
    bad = {key for key in net.asked if key % 7 == 0}
    assert bad
    recorded = f"JOIN failures f ON f.position_id = p.id WHERE f.stage = '{NET}{KeyNet.identity.sha256}'"
    assert keys(db, recorded) == bad
    assert keys(db, "WHERE p.id NOT IN (SELECT position_id FROM net_values)") == bad
    whole = mine_by_key(archive, tmp_path / "whole.db")
    oracle_failed = len(keys(db, "JOIN failures f ON f.position_id = p.id WHERE f.stage = 'full'"))
    assert (first.state, first.failed) == ("finished", len(bad) + oracle_failed)
    assert first.scored == len(net.asked) - len(keys(db, "WHERE p.id IN (SELECT position_id FROM failures)"))
    before = dump(db)
    again = FarKeyNet(7)
    second = mine_by_key(archive, db, net=again)
    assert (again.asked, second.scored, second.failed) == ([], first.scored, first.failed)
    assert dump(db) == before
    other = KeyOracle()
    other.identity = replace(other.identity, limits={"nodes": 200})
    third = mine_by_key(archive, db, net=again, oracle=other)
    assert again.asked == []
    assert not bad & {position.key for position in other.searched}
    assert third.scored == first.scored
    with Store.open(db) as store:
        figures = store_figures(
            store, Question(net=None, oracle=KeyOracle().identity.digest, alpha=None, q_from="cp", threshold=0.55)
        )["scored"]
        assert (figures["positions"], figures["failed"]) == (first.scored, first.failed)
        assert not [check for check in integrity_checks(store) if check.wrong]
    mended = mine_by_key(archive, db, net=FarKeyNet(None), options=replace(OPTIONS, retry_failed=True))
    assert (mended.scored, mended.failed) == (whole.scored, whole.failed)
    assert keys(db, recorded) == set()
    assert dump(db)["net_values"] == dump(tmp_path / "whole.db")["net_values"]


def test_a_net_that_always_fails_is_an_error_and_marks_no_position(archive: Path, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    with pytest.raises(
        ValueRepairError, match=r"the net \(key-net\) failed on each .* was lost; .* another with --net$"
    ):
        mine_by_key(archive, db, net=FarKeyNet(0))
    assert dump(db)["failures"] == []
    few = MineOptions(sample=SampleOptions(per_game=None, positions=3))
    with pytest.raises(ValueRepairError, match=r"failed on each of the 3 positions"):
        mine_by_key(archive, tmp_path / "b.db", net=FarKeyNet(0), options=few)
