"""Screening by a short search: what is searched in full, what audits stand for, other nets and thresholds later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import valuerepair as vr
from tests.mining_doubles import KeyNet, KeyOracle, dump, key_q, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.chess.values import Alpha
from valuerepair.mining.mine import MineOptions
from valuerepair.mining.screening import FEWEST_AUDITS, short_nodes
from valuerepair.nets.net import NetIdentity, NetValues
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.question import Question, is_candidate
from valuerepair.report.stats import store_stats
from valuerepair.store.alpha import use_alpha
from valuerepair.store.columns import both_q, columns
from valuerepair.store.pairs import fitting_judges, pick
from valuerepair.store.rows import DeepResult, JudgeIdentity
from valuerepair.store.store import Store

OPTIONS = MineOptions(sample=SampleOptions(per_game=4), question=Question(alpha=170.0))
NODES = 1_000_000


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 100)


def judged_q(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """What the judge says: the net's Q for most keys, something else for every fifth."""
    off = np.where(keys % np.uint64(5) == 0, 0.9, 0.1) * np.where(key_q(keys) > 0, -1, 1)
    return np.asarray(np.clip(key_q(keys) + off, -0.99, 0.99), np.float64)


def answer(position: Position) -> DeepOutcome:
    q = float(judged_q(np.array([position.key], np.uint64))[0])
    return DeepResult(cp=round(340 * float(np.arctanh(q))), depth=9, nodes=100, best_move=None)


class OtherNet(KeyNet):
    """A net that is wrong elsewhere."""

    identity = NetIdentity("other-net", "ef" * 32, "wdl", 1, 1000)

    def evaluate(self, batch: PositionBatch) -> NetValues:
        said = super().evaluate(batch)
        return replace(said, q=np.where(batch.key % np.uint64(7) == 0, -said.q, said.q))


def screened(archive: Path, db: Path, options: MineOptions = OPTIONS, net: KeyNet | None = None) -> KeyOracle:
    oracle = KeyOracle(answer=answer, nodes=NODES)
    mine_by_key(archive, db, oracle=oracle, options=options, net=net)
    return oracle


def scored(db: Path, net: str | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Disagreement and weight of all rows."""
    with Store.open(db) as store:
        pair = pick(store, net)
        net_q, deep_q = both_q(store, pair, 170.0, "cp")
        return net_q - deep_q, columns(store, pair, ["weight"])["weight"]


def test_what_differs_is_searched_in_full_and_audits_stand_for_the_rest(archive: Path, tmp_path: Path) -> None:
    oracle = screened(archive, tmp_path / "a.db")
    keys = np.array([position.key for position in oracle.searched_short], np.uint64)
    doubtful = np.abs(key_q(keys) - judged_q(keys)) >= 0.275
    full = {position.key for position in oracle.searched}
    assert set(keys[doubtful].tolist()) <= full
    disagreement, weight = scored(tmp_path / "a.db")
    assert len(disagreement) == len(full)
    audits = weight > 1
    assert audits.sum() == FEWEST_AUDITS == len(full) - doubtful.sum()
    assert weight.sum() == pytest.approx(len(keys))
    assert len(set(weight[audits].tolist())) == 1


def test_each_origin_has_audits_of_its_own(archive: Path, tmp_path: Path) -> None:
    """Else the rate of a rare one would be that of its doubtful positions alone."""
    sample = SampleOptions(per_game=4, off_game="random_move:0.05")
    screened(archive, tmp_path / "a.db", replace(OPTIONS, sample=sample))
    query = """
        SELECT origin, count(*), (SELECT sum(weight) FROM deep_values f JOIN positions q ON q.id = f.position_id
        WHERE f.judge_id <> v.judge_id AND q.origin = p.origin)
        FROM deep_values v JOIN positions p ON p.id = v.position_id JOIN judges j ON j.short_id = v.judge_id
        GROUP BY origin
    """
    with Store.open(tmp_path / "a.db") as store:
        rows = store.connection.execute(query).fetchall()
    assert [origin for origin, _, _ in rows] == ["game", "random_move"]
    for _, positions, weight in rows:
        assert weight == pytest.approx(positions)


def test_full_values_are_those_without_screening(archive: Path, tmp_path: Path) -> None:
    oracle = screened(archive, tmp_path / "a.db")
    screened(archive, tmp_path / "off.db", replace(OPTIONS, screen=None))
    values = "cp, mate, q, depth, nodes, best_move, pv"
    query = f"SELECT p.key, {values} FROM deep_values v JOIN positions p ON p.id = v.position_id WHERE v.judge_id = ?"
    rows = []
    for name in ("a.db", "off.db"):
        with Store.open(tmp_path / name) as store:
            judge = next(j for j in fitting_judges(store, None) if j.digest == oracle.identity.digest)
            rows.append({*store.connection.execute(query, (judge.id,))})
    assert rows[0] < rows[1]


def test_another_net_searches_what_is_doubtful_for_it_and_audits_stand_for_what_no_net_doubts(
    archive: Path, tmp_path: Path
) -> None:
    db = tmp_path / "a.db"
    first = screened(archive, db)
    second = screened(archive, db, net=OtherNet())
    assert not second.searched_short  # the short values are there
    assert not {p.key for p in first.searched} & {p.key for p in second.searched}
    keys = np.array([position.key for position in first.searched_short], np.uint64)
    theirs = np.where(keys % np.uint64(7) == 0, -key_q(keys), key_q(keys))
    doubted = (np.abs(theirs - judged_q(keys)) >= 0.275) | (np.abs(key_q(keys) - judged_q(keys)) >= 0.275)
    _, weight = scored(db, "other-net")
    assert (weight == 1).sum() == doubted.sum()
    assert weight.sum() == pytest.approx(len(keys))


def test_a_lower_threshold_searches_more(archive: Path, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    screened(archive, db)
    again = screened(archive, db, replace(OPTIONS, question=Question(alpha=170.0, threshold=0.15)))
    assert not again.searched_short
    assert again.searched
    disagreement, weight = scored(db)
    assert (np.abs(disagreement) >= 0.075).sum() == (weight == 1).sum() == len(weight)


def test_without_screening_everything_weighs_one(archive: Path, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    first = screened(archive, db)
    screened(archive, db, replace(OPTIONS, screen=None))
    _, weight = scored(db)
    assert len(weight) == len(first.searched_short)
    assert (weight == 1).all()


def test_a_stopped_run_ends_as_if_never_stopped(archive: Path, tmp_path: Path) -> None:
    for limit in (40, 200, None):
        screened(archive, tmp_path / "a.db", replace(OPTIONS, limit=limit))
    screened(archive, tmp_path / "whole.db")
    assert dump(tmp_path / "a.db") == dump(tmp_path / "whole.db")


def test_a_margin_without_effect_is_told(archive: Path, tmp_path: Path, said: list[str]) -> None:
    mine_by_key(archive, tmp_path / "a.db", options=replace(OPTIONS, screen=0.3))  # a judge of 100 nodes
    assert any(line.startswith("--screen 0.3: ") for line in said)


def test_a_stopped_run_gives_no_rate(archive: Path, tmp_path: Path) -> None:
    """The audits come last: without them every position would count as doubtful."""
    oracle = KeyOracle(answer=answer, nodes=NODES)
    stopped = mine_by_key(archive, tmp_path / "a.db", oracle=oracle, options=replace(OPTIONS, limit=200))
    assert stopped.left_out > 100
    assert not any("%" in line for line in stopped.lines() if line.startswith("candidates"))
    with Store.open(tmp_path / "a.db", write=True) as store:
        store.connection.execute("DELETE FROM deep_values WHERE weight > 1")  # as after a kill before the first audit
        assert (headline := store_stats(store).headline).startswith("screening is not finished")
    with Store.open(tmp_path / "a.db", write=True) as store:
        name = store.connection.execute("SELECT name FROM nets").fetchone()[0]
    assert vr.compare(tmp_path / "a.db", (name, name)).notes[0] == headline


def test_the_alpha_of_a_run_is_that_of_its_beginning(archive: Path, tmp_path: Path) -> None:
    options = replace(OPTIONS, question=Question())
    screened(archive, tmp_path / "a.db", replace(options, limit=200))
    with Store.open(tmp_path / "a.db", write=True) as store:
        use_alpha(store, pick(store), Alpha(1000.0, "given"))
    screened(archive, tmp_path / "a.db", options)
    screened(archive, tmp_path / "whole.db", options)
    tables = [dump(tmp_path / name) for name in ("a.db", "whole.db")]
    assert tables[0]["deep_values"] == tables[1]["deep_values"]


def test_another_alpha_searches_what_is_doubtful_for_it(archive: Path, tmp_path: Path) -> None:
    db, options = tmp_path / "a.db", replace(OPTIONS, question=Question())
    first = screened(archive, db, options)
    with Store.open(db, write=True) as store:
        use_alpha(store, pick(store), Alpha(1000.0, "given"))
    second = screened(archive, db, options)
    assert not second.searched_short
    keys = np.array([position.key for position in first.searched_short], np.uint64)
    short_q = np.tanh(np.arctanh(judged_q(keys)) * 170 / 1000)
    doubtful = keys[np.abs(key_q(keys) - short_q) >= 0.3]  # without those at the border, where scores are rounded
    assert set(doubtful.tolist()) <= {p.key for judge in (first, second) for p in judge.searched}
    assert len(doubtful) > 50


def test_the_rate_by_weights_is_that_of_all_positions(archive: Path, tmp_path: Path) -> None:
    screened(archive, tmp_path / "a.db")
    screened(archive, tmp_path / "off.db", replace(OPTIONS, screen=None))
    rates = []
    for name in ("a.db", "off.db"):
        disagreement, weight = scored(tmp_path / name)
        rates.append(weight[is_candidate(disagreement, 0.55)].sum() / weight.sum())
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "limits", "short"),
    [
        ("stockfish", {"nodes": 1_000_000}, 50_000),
        ("stockfish", {"nodes": 200_000}, 20_000),
        ("stockfish", {"nodes": 100_000}, 20_000),
        ("stockfish", {"nodes": 99_999}, None),
        ("stockfish", {"nodes": 1_000_000, "movetime": 1000}, None),
        ("stockfish", {"depth": 20}, None),
        ("mcts", {"nodes": 1_000_000}, None),
    ],
)
def test_the_short_search(kind: str, limits: dict[str, int], short: int | None) -> None:
    assert short_nodes(JudgeIdentity(kind, "x", "", limits, {})) == short
