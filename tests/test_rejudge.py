"""A deeper judge: two judges of a known truth, simulated; the store with stand-ins; Stockfish; bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import chess
import chess.engine
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from valuerepair.judge.rejudged import STRATA, allocate, deeper_values, draw, rejudged_net, rejudged_pair

import valuerepair as vr
from tests.cli_tree import SAMPLE
from tests.mining_doubles import KeyOracle
from tests.test_compare import db, mined
from valuerepair.arrays import Floats, Ids
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import Position
from valuerepair.cli import cli
from valuerepair.errors import UsageError
from valuerepair.judge import by_kind, rejudged
from valuerepair.judge.by_kind import rows_by_kind
from valuerepair.judge.compare import Compared
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome
from valuerepair.rates import Interval, mean, rate_change
from valuerepair.runs import rejudge
from valuerepair.store.check import integrity_checks
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

__all__ = ["db", "mined"]

THRESHOLD = 0.3


# -- the estimators ---------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """Positions [n] of games, two nets' Q [2, n], deep Q by the first judge and by the deeper one."""

    game: Ids
    net_q: Floats
    first: Floats
    deeper: Floats


def judged(rng: np.random.Generator, games: int, size: int = 15) -> Judged:
    """The first judge errs as much as is known of 20,000 nodes, partly as the nets do; the second net errs less."""
    game = np.repeat(np.arange(games), size)
    n = len(game)
    deeper = np.tanh(rng.normal(0, 0.5, games)[game] + rng.normal(0, 0.5, n))
    blind = rng.normal(0, 0.05, games)[game] + 0.1 * rng.standard_t(4, n)
    net_q = np.stack([deeper + blind, deeper + 0.8 * blind + rng.normal(0, 0.06, n)])
    first = deeper + 0.16 * blind + rng.normal(0, 0.04, n)
    return Judged(game, np.clip(net_q, -1, 1), np.clip(first, -1, 1), deeper)


def figures(of: Judged, q: Floats) -> list[float]:
    """By one judge: the candidates of the first net, the difference of candidates, and of the mean |disagreement|."""
    size = np.abs(of.net_q - q)
    wrong = size >= THRESHOLD
    return [wrong[0].mean(), wrong[1].mean() - wrong[0].mean(), size[1].mean() - size[0].mean()]


def squared_error(of: Judged, q: Floats) -> float:
    """The difference of the mean squared errors, each net's Q times one number."""
    scaled = [own * (own @ q) / (own @ own) for own in of.net_q]
    return float(((scaled[1] - q) ** 2).mean() - ((scaled[0] - q) ** 2).mean())


def estimate(of: Judged, count: int, ids: Ids) -> tuple[list[Interval], rejudged.RejudgedNet, by_kind.KindRow]:
    ones = np.ones(len(ids))
    plan = draw(ids, of.net_q - of.first, ones, THRESHOLD, count)
    judged_q = np.where(plan.drawn, of.deeper, np.nan)
    deeper, _ = deeper_values(plan, judged_q)
    by_game = (ones, of.game, THRESHOLD)
    net = rejudged_net("A", of.net_q[0], of.first, deeper, plan.stratum, *by_game)
    pair = rejudged_pair((of.net_q[0], of.net_q[1]), of.first, deeper, *by_game)
    kinds = np.full(len(ids), GAME, object)
    [row] = rows_by_kind((of.net_q[0], of.net_q[1]), of.first, ones, of.game, kinds, deeper)
    rate = Interval(net.candidates.rate, net.candidates.low, net.candidates.high)
    return [rate, *pair], net, row


@pytest.mark.slow
def test_estimates_are_right_on_average_and_their_intervals_hold_the_truth() -> None:
    """Of 2,250 positions 300 are judged again, 200 times. The first judge alone is off by many times its error."""
    rng = np.random.default_rng(34)
    many = judged(rng, 40_000)
    truth, by_first = ([*figures(many, q), squared_error(many, q)] for q in (many.deeper, many.first))
    wrong, seen = (np.abs(many.net_q[0] - q) >= THRESHOLD for q in (many.deeper, many.first))
    true_recall, true_precision = (wrong & seen).sum() / wrong.sum(), (wrong & seen).sum() / seen.sum()
    assert 0.5 < true_recall < 0.75  # as Stockfish's 20,000 nodes against 1,000,000
    estimates, held, ends = [], [], []
    for _ in range(200):
        numbers, net, row = estimate(judged(rng, 150), 300, rng.permutation(10_000)[:2250])
        numbers.append(row.change)
        estimates.append([number.difference for number in numbers])
        held.append([number.low <= true <= number.high for number, true in zip(numbers, truth, strict=True)])
        ends.append([net.recall.low <= true_recall <= net.recall.high,
                     net.precision.low <= true_precision <= net.precision.high])  # fmt: skip
    off = np.mean(estimates, 0) - truth
    error = np.std(estimates, 0) / np.sqrt(len(estimates))
    assert (np.abs(off) < 3.5 * error).all()
    assert (np.abs(np.array(by_first) - truth) > 5 * error).all()
    assert (np.mean(held, 0) >= 0.9).all()
    assert (np.mean(ends, 0) >= 0.92).all()


def test_where_all_are_judged_again_the_comparison_is_the_deeper_judges() -> None:
    rng = np.random.default_rng(5)
    of = judged(rng, 40)
    n = len(of.game)
    numbers, net, row = estimate(of, 10 * n, np.arange(n))
    ones, kinds = np.ones(n), np.full(n, GAME, object)
    wrong = np.abs(of.net_q - of.deeper) >= THRESHOLD
    size = np.abs(of.net_q - of.deeper)
    plainly = rate_change(1.0 * wrong[1] - wrong[0], ones, of.game), mean(size[1] - size[0], ones, of.game)
    for own, plain in zip(numbers[1:], plainly, strict=True):
        assert (own.difference, own.low, own.high) == pytest.approx((plain.difference, plain.low, plain.high))
    assert (net.candidates.count, net.candidates.total) == (wrong[0].sum(), n)
    assert net.candidates.rate == pytest.approx(wrong[0].mean())
    [plain_row] = rows_by_kind((of.net_q[0], of.net_q[1]), of.deeper, ones, of.game, kinds)
    assert row.squared_error == pytest.approx(plain_row.squared_error)
    assert (row.change.low, row.change.high) == pytest.approx((plain_row.change.low, plain_row.change.high))
    assert [at.first.rate for at in row.candidates] == pytest.approx([at.first.rate for at in plain_row.candidates])
    first = np.abs(of.net_q[0] - of.first) >= THRESHOLD
    assert net.recall.rate == pytest.approx((first & wrong[0]).sum() / wrong[0].sum())
    assert net.precision.rate == pytest.approx((first & wrong[0]).sum() / first.sum())


def test_a_judge_that_agrees_changes_nothing() -> None:
    of = judged(np.random.default_rng(6), 40)
    of = of._replace(deeper=of.first)
    numbers, net, _ = estimate(of, 60, np.arange(len(of.game)))
    assert [number.difference for number in numbers] == pytest.approx(figures(of, of.first))
    assert (net.recall.rate, net.precision.rate) == (1.0, 1.0)
    assert net.recall.low < 0.97  # of what is not judged again, some may have been missed


def test_strata_and_nested_draws() -> None:
    off = np.array([[0.1, 0.29, 0.35, 0.45, 0.6, 0.19], [-0.1, 0.31, -0.36, 0.5, -0.3, 0.1]])
    assert rejudged.strata_of(off, 0.3).tolist() == [2, 0, 1, 2, 1, 2]
    of = judged(np.random.default_rng(7), 40)
    ids, off, ones = np.arange(600) + 1, of.net_q - of.first, np.ones(600)
    few, more = (draw(ids, off, ones, THRESHOLD, count).drawn for count in (100, 200))
    assert (few.sum(), more.sum(), (few & ~more).sum()) == (100, 200, 0)
    weight = np.where(np.arange(600) % 2 == 0, 0.0, 1.0)
    assert not draw(ids, off, weight, THRESHOLD, 400).drawn[weight == 0].any()


@given(st.lists(st.integers(0, 500), min_size=3, max_size=3), st.integers(10, 1000))
def test_allocation(sizes: list[int], count: int) -> None:
    shares = allocate(sizes, count)
    assert sum(shares) == min(count, sum(sizes))
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert all(share > 0 for share, size in zip(shares[1:], sizes[1:], strict=True) if size)
    if sizes[0] <= count // 5:
        assert shares[0] == sizes[0]


# -- searches ---------------------------------------------------------------------------------------------------------


class DeeperOracle(KeyOracle):
    """Half a pawn nearer to 0 than the first one; fails on some; after so many searches it sends SIGINT."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__(answer=self._judged)
        self.identity = replace(self.identity, limits={"nodes": 1000})
        self._stop_after = stop_after

    def _judged(self, position: Position) -> DeepOutcome:
        if len(self.searched) == self._stop_after:
            os.kill(os.getpid(), signal.SIGINT)
        if position.key % 23 == 0:
            return DeepFailure("crashed", 3)
        cp = position.key % 1201 - 600
        return DeepResult(cp=int(np.sign(cp)) * max(abs(cp) - 50, 0), nodes=1000, time_ms=3)


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> list[DeeperOracle]:
    """The deeper judges of each call, in the place of engines."""
    opened: list[DeeperOracle] = []

    def open_one(deep: str, *, net_path: None) -> DeeperOracle:
        opened.append(DeeperOracle())
        return opened[-1]

    monkeypatch.setattr(rejudge, "open_oracle", open_one)
    return opened


def compared(path: Path, positions: int = 120) -> Compared:
    question = vr.Question(alpha=300.0, threshold=0.4)
    again = "stockfish:nodes=1000"
    return vr.compare(path, ["key-net", "half-net"], question, rejudge=again, rejudge_positions=positions)


@pytest.mark.slow
def test_a_comparison_by_both_judges_and_the_same_again(db: Path, judges: list[DeeperOracle]) -> None:
    plain = vr.compare(db, ["key-net", "half-net"], vr.Question(alpha=300.0, threshold=0.4))
    comparison = compared(db)
    assert plain.rejudged is None
    assert (plain.nets, plain.positions) == (comparison.nets, comparison.positions)
    assert comparison.rejudged is not None
    again = comparison.rejudged
    assert [stratum.name for stratum in again.strata] == list(STRATA)
    assert sum(stratum.positions for stratum in again.strata) == again.positions == 480
    assert (again.drawn, len(judges[0].searched)) == (120, 120)
    failed = sum(position.key % 23 == 0 for position in judges[0].searched)
    assert again.judged == 120 - failed
    assert again.judged > 100
    for judged_stratum in again.strata:
        assert judged_stratum.chance == pytest.approx(judged_stratum.judged / judged_stratum.positions)
    assert compared(db).rejudged == again
    assert judges[1].searched == []
    more = compared(db, 480).rejudged
    assert more is not None
    assert len(judges[2].searched) == 360
    # All are judged again: key-net's Q against the deeper judge's, by hand.
    with Store.open(db) as store:
        frame = store.frame(vr.Question(net="key-net", alpha=300.0)).set_index("position_id")
    deep = {position.key: position.key % 1201 - 600 for position in (*judges[0].searched, *judges[2].searched)}
    cp = np.array([deep[key % 2**64] if key % 2**64 in deep else deep[key] for key in frame["key"].tolist()])
    nearer = np.sign(cp) * np.maximum(np.abs(cp) - 50, 0)
    deep_q = np.tanh(nearer / 300 / 2)
    usable = frame["key"].to_numpy().astype(np.uint64) % 23 != 0
    wrong = (np.abs(frame["net_q"] - deep_q) >= 0.4)[usable]
    assert (more.nets[0].candidates.count, more.nets[0].candidates.total) == (wrong.sum(), usable.sum())


def test_an_interruption_keeps_what_was_judged(
    db: Path, judges: list[DeeperOracle], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = DeeperOracle(stop_after=30)
    with monkeypatch.context() as patch:
        patch.setattr(rejudge, "open_oracle", lambda deep, net_path: stopping)
        with pytest.raises(KeyboardInterrupt):
            compared(db)
    comparison = compared(db)
    assert 30 <= len(stopping.searched) < 60
    assert len(stopping.searched) + len(judges[0].searched) == 120
    uninterrupted = Path(shutil.copy(db, db.with_name("copy.db")))
    assert compared(uninterrupted).rejudged == comparison.rejudged


def test_the_store_is_sound_and_other_commands_do_not_take_it_for_a_judge(db: Path, judges: list[DeeperOracle]) -> None:
    with Store.open(db) as store:
        before = len(store.frame())
    compared(db)
    with Store.open(db) as store:
        assert len(store.frame()) == before
        assert [check.wrong for check in integrity_checks(store) if "a known stage" in check.name] == [0]
    shown = CliRunner().invoke(cli, ["stats", "--db", str(db)])
    assert shown.exit_code == 0
    assert "key-net against key 1.0 nodes=100, alpha" in shown.output


def test_words_and_keys(db: Path, judges: list[DeeperOracle]) -> None:
    words = ["compare", "key-net", "half-net", "--db", str(db), "--alpha", "300",
             "--rejudge", "stockfish:nodes=1000", "--rejudge-positions", "100"]  # fmt: skip
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    assert "judged again by key 1.0 nodes=1000" in shown.output
    shown = CliRunner().invoke(cli, [*words, "--json"])
    printed = json.loads(shown.stdout)["rejudged"]
    assert set(printed["nets"][0]) == {"name", "candidates", "precision", "recall"}
    [pair] = printed["comparisons"]
    assert set(pair) == {"first", "second", "candidates", "mean_abs", "by_kind", "judge"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--rejudge", "stockfish:nodes=1000", "--rejudge-positions", "99"],
            "--rejudge-positions 99: must be at least",
        ),
        (["--rejudge", "nothing"], "--rejudge 'nothing': 'nothing' is not one of"),
        (["--rejudge", "stockfish:nodes=50"], "--rejudge: the first judge has 100 nodes, this one 50; give more"),
    ],
)
def test_bad_input(
    db: Path, judges: list[DeeperOracle], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    shallow = DeeperOracle()
    shallow.identity = replace(shallow.identity, limits={"nodes": 50})
    monkeypatch.setattr(rejudge, "open_oracle", lambda deep, net_path: shallow)
    shown = CliRunner().invoke(cli, ["compare", "key-net", "half-net", "--db", str(db), *words])
    assert isinstance(shown.exception, UsageError)
    assert said in str(shown.exception)


def test_the_same_engine_with_another_net_or_options_may_have_fewer_nodes(
    db: Path, judges: list[DeeperOracle], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DeeperOracle()
    other.identity = replace(other.identity, limits={"nodes": 50}, options={"WeightsFile": "another"})
    monkeypatch.setattr(rejudge, "open_oracle", lambda deep, net_path: other)
    words = ["compare", "key-net", "half-net", "--db", str(db), "--rejudge", "lc0:nodes=50"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0


# -- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_nets_judged_again_by_stockfish(shared_data: Path, stockfish: str, tmp_path: Path) -> None:
    """In a screened store; values as Stockfish gives them to python-chess."""
    path = Path(shutil.copy(SAMPLE, tmp_path / "sample.db"))
    files = [str(shared_data / "nets" / f"{name}.pb.gz") for name in ("maia-1900", "meangirl-8")]
    question = vr.Question(threshold=0.35, alpha=300.0)
    deep = f"uci:{stockfish},nodes=3000"
    judged_again = vr.compare(path, files, question, rejudge=deep, rejudge_positions=100).rejudged
    assert judged_again is not None
    assert (judged_again.drawn, judged_again.judged) == (100, 100)
    with vr.open_store(path) as store:
        rows = store.connection.execute(
            "SELECT position_id, cp, mate FROM deep_values JOIN oracles ON oracles.id = oracle_id "
            "WHERE stage = 'rejudged' AND label = ?",
            (judged_again.judge,),
        ).fetchall()
        batch = list(store.positions([row[0] for row in rows[:6]]))
        (full,) = store.connection.execute("SELECT count(*) FROM deep_values WHERE stage = 'full'").fetchone()
    assert (judged_again.positions, len(rows)) == (full, 100)
    with chess.engine.SimpleEngine.popen_uci(stockfish) as engine:
        engine.configure({"Hash": 16, "Threads": 1})
        bounds = {"lowerbound", "upperbound"}
        for at, (_, cp, mate) in zip(batch, rows, strict=False):
            board = chess.Board(at.start_fen)
            for move in at.moves:
                board.push_uci(move)
            with engine.analysis(board, chess.engine.Limit(nodes=3000), game=object()) as lines:
                exact = [line["score"].relative for line in lines if "score" in line and not bounds & line.keys()]
            assert (exact[-1].score(), exact[-1].mate()) == (cp, mate)
