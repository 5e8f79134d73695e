"""The two values of a position meet; those of many positions at once are stored as those of one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.mining_doubles import random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.values import deep_q
from valuerepair.question import Question
from valuerepair.runs.summary import SeenPositions, ValuePairs
from valuerepair.store.rows import DeepColumns, DeepResult, OracleIdentity, RunRecord
from valuerepair.store.store import Store


def _result(i: int) -> DeepResult:
    if i % 3 == 0:
        return DeepResult(mate=i + 1, depth=3)
    return DeepResult(cp=40 * i, wdl=(300, 400, 300) if i % 2 else None, nodes=i, best_move="e2e4", pv=("e2e4", "e7e5"))


@given(st.permutations([(kind, i) for kind in "nd" for i in range(6)]), st.integers(0, 12))
def test_pairs_count_whichever_value_comes_first(steps: list[tuple[str, int]], cut: int) -> None:
    pairs = ValuePairs(Question())
    found = 0
    for n, (kind, i) in enumerate(steps):
        if kind == "n":
            pairs.add_net(i, i / 10 - 0.5)
        else:
            pairs.add_deep(i, _result(i).scores)
        if n == cut:
            found = pairs.found(100.0)
    expected = sum(
        bool(abs(i / 10 - 0.5 - deep_q(np.array([_result(i).scores], np.float64), 100)[0]) >= 0.55) for i in range(6)
    )
    assert (pairs.open, pairs.count, found + pairs.found(100.0)) == (0, 6, expected)


@given(st.lists(st.lists(st.integers(0, 2000), max_size=12), max_size=6))
def test_met_says_which_rows_come_for_the_first_time(chunks: list[list[int]]) -> None:
    met, seen = SeenPositions(), set[int]()
    for chunk in chunks:
        rows = [i for i, number in enumerate(chunk) if number not in seen and number not in chunk[:i]]
        assert met.first(np.array(chunk, np.int64)).tolist() == rows
        seen.update(chunk)
        assert met.among(np.arange(3000)).nonzero()[0].tolist() == sorted(seen)


def test_positions_that_come_together_are_stored_as_one_after_the_other(tmp_path: Path) -> None:
    archive = random_games(tmp_path / "g.pgn", 6, plies=40)
    (batch,) = sample([str(archive)], SampleOptions(per_game=None, min_ply=0), ReadReport())
    dice = np.random.default_rng(1)
    rows = dice.integers(0, len(batch), 300)  # some twice, within a chunk and in another one
    # Then they come without a history: the store keeps the one that it had first, and gives that back.
    bare = [replace(p, start_fen=p.fen, moves=(), history_known=False) for p in batch.take(rows[::-1])]
    stores = []
    for name, size in (("one", 1), ("many", 90)):
        with Store.open(tmp_path / f"{name}.db", create=True) as store:
            run = store.begin_run(RunRecord("r", "", {}, 0, {}))
            admitted = []
            for part in (batch.take(rows), PositionBatch.from_positions(bare)):
                for begin in range(0, len(part), size):
                    added = store.add_positions(part.take(np.arange(begin, min(begin + size, len(part)))), run)
                    admitted += [(number, p) for number, p in zip(added.ids.tolist(), added.batch, strict=True)]
            stores.append((admitted, store.connection.execute("SELECT * FROM positions ORDER BY id").fetchall()))
            assert not added.fresh.any()
            assert added.batch.history_known.all()
    assert stores[0] == stores[1]
    assert len(stores[0][1]) == len(set(batch.key[rows].tolist()))


def test_deep_values_that_come_together_take_back_failures(tmp_path: Path) -> None:
    archive = random_games(tmp_path / "g.pgn", 2, plies=40)
    (batch,) = sample([str(archive)], SampleOptions(per_game=5), ReadReport())
    with Store.open(tmp_path / "a.db", create=True) as store:
        run = store.begin_run(RunRecord("r", "", {}, 0, {}))
        ids = store.add_positions(batch, run).ids
        for name in ("a", "b"):
            store.add_oracle(OracleIdentity("uci", name, "", {}, {}))
        for number in ids.tolist():
            for oracle_id, stage in ((1, "full"), (1, "5000"), (2, "full")):
                store.add_failure(number, oracle_id, "crashed", 3, run, stage)
        scores = [_result(i) for i in range(len(ids))]
        store.add_deep_columns(ids[2:], 1, DeepColumns.of(scores[2:]), run)
        left = store.connection.execute("SELECT oracle_id, stage, count(*) FROM failures GROUP BY 1, 2").fetchall()
        assert left == [(1, "5000", len(ids)), (1, "full", 2), (2, "full", len(ids))]
        together = store.connection.execute("SELECT * FROM deep_values ORDER BY position_id").fetchall()
        for number, score in zip(ids[2:].tolist(), scores[2:], strict=True):
            store.add_deep(number, 1, score, run)
        assert store.connection.execute("SELECT * FROM deep_values ORDER BY position_id").fetchall() == together
        assert [row[3:9] for row in together] == [score.scores for score in scores[2:]]
