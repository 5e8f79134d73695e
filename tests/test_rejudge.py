"""A deeper judge of a comparison, on a random sample: simulated; the store with stand-ins; Stockfish; bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import chess
import chess.engine
import numpy as np
import pytest
from click.testing import CliRunner

import valuerepair as vr
from tests.cli_tree import SAMPLE
from tests.mining_doubles import KeyOracle
from tests.test_compare import db, mined
from valuerepair.arrays import Floats, Ids
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import Position
from valuerepair.cli import cli
from valuerepair.errors import UsageError
from valuerepair.measure import compare as comparing
from valuerepair.measure.compare import Compared, ComparedScores, sampled
from valuerepair.mining.judges import is_deeper
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome
from valuerepair.store import view
from valuerepair.store.pairs import judges as judges_of
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

__all__ = ["db", "mined"]

NETS = ["key-net", "half-net"]


# -- the sample -------------------------------------------------------------------------------------------------------


def test_a_larger_sample_has_the_smaller_one_and_each_position_has_the_same_chance() -> None:
    ids = np.arange(1, 4001)
    few, more = sampled(ids, 400), sampled(ids, 1000)
    assert (len(few), len(more), len(set(few) - set(more))) == (400, 1000, 0)
    assert len(sampled(ids, 5000)) == 4000
    counts = np.histogram(more, 20, (0, 4000))[0]
    assert ((counts - 50) ** 2 / 50).sum() < 43.8  # chi squared of 19 degrees of freedom: 0.001


@pytest.mark.slow
def test_estimates_are_right_on_average_and_their_intervals_hold_the_truth() -> None:
    """Of 2,250 positions 300 are judged again, 200 times. The first judge alone is off by many times its error."""
    rng = np.random.default_rng(34)
    truth, by_first = (change(scores(rng, 40_000, 15), by_deeper=deeper) for deeper in (True, False))
    estimates, held = [], []
    for _ in range(200):
        interval = change(scores(rng, 150, 15), by_deeper=True, rows=sampled(rng.permutation(10_000)[:2250], 300))
        estimates.append(interval[0])
        held.append(interval[1] <= truth[0] <= interval[2])
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - truth[0]) < 3.5 * error
    assert abs(by_first[0] - truth[0]) > 5 * error
    assert np.mean(held) >= 0.9


def scores(rng: np.random.Generator, games: int, size: int) -> tuple[ComparedScores, Floats]:
    """The first judge errs as much as is known of 20,000 nodes, partly as the nets do; the second net errs less."""
    game = np.repeat(np.arange(games), size)
    n = len(game)
    deeper = np.tanh(rng.normal(0, 0.5, games)[game] + rng.normal(0, 0.5, n))
    blind = rng.normal(0, 0.05, games)[game] + 0.1 * rng.standard_t(4, n)
    net_q = np.clip(np.stack([deeper + blind, deeper + 0.8 * blind + rng.normal(0, 0.06, n)]), -1, 1)
    first = np.clip(deeper + 0.16 * blind + rng.normal(0, 0.04, n), -1, 1)
    kinds = np.full(n, GAME, object)
    return ComparedScores(np.arange(n), game, np.ones(n), first, net_q, net_q - first, kinds), deeper


def change(
    of: tuple[ComparedScores, Floats], *, by_deeper: bool, rows: Ids | None = None
) -> tuple[float, float, float]:
    """The change of the squared error from the first net to the second, with its bounds."""
    first, deeper = of
    rows = np.arange(len(deeper)) if rows is None else rows
    [row] = (first.judged(rows, deeper[rows]) if by_deeper else first).by_kind(1)
    return row.change.difference, row.change.low, row.change.high


# -- searches ---------------------------------------------------------------------------------------------------------


class DeeperOracle(KeyOracle):
    """Half a pawn nearer to 0 than the first one; fails on some; after so many searches it sends SIGINT."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__(answer=self._judged, nodes=1000)
        self._stop_after = stop_after

    def _judged(self, position: Position) -> DeepOutcome:
        if len(self.searched) == self._stop_after:
            os.kill(os.getpid(), signal.SIGINT)
        if position.key % 23 == 0:
            return DeepFailure("crashed", 3)
        cp = position.key % 1201 - 600
        return DeepResult(cp=int(np.sign(cp)) * max(abs(cp) - 50, 0), nodes=1000, time_ms=3)


def in_place_of_engines(monkeypatch: pytest.MonkeyPatch, judge: Callable[[], DeeperOracle]) -> list[DeeperOracle]:
    """The deeper judges that are opened from now on."""
    opened: list[DeeperOracle] = []

    @contextmanager
    def open_one(*words: object) -> Iterator[DeeperOracle]:
        opened.append(judge())
        with opened[-1]:
            yield opened[-1]

    monkeypatch.setattr(comparing, "open_deeper", open_one)
    return opened


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> list[DeeperOracle]:
    return in_place_of_engines(monkeypatch, DeeperOracle)


def compared(path: Path, positions: int = 120) -> Compared:
    question = vr.Question(alpha=300.0, threshold=0.4)
    return vr.compare(path, NETS, question, deep="stockfish:nodes=1000", sample=positions)


def test_a_comparison_by_both_judges_and_the_same_again(db: Path, judges: list[DeeperOracle]) -> None:
    plain = vr.compare(db, NETS, vr.Question(alpha=300.0, threshold=0.4))
    comparison = compared(db)
    assert plain.rejudged is None
    assert (plain.nets, plain.positions) == (comparison.nets, comparison.positions)
    again = comparison.rejudged
    assert again is not None
    assert len(judges[0].searched) == 120
    assert again.positions == 120 - sum(position.key % 23 == 0 for position in judges[0].searched)
    repeated = compared(db).rejudged
    assert repeated is not None
    assert (repeated.nets, repeated.comparisons) == (again.nets, again.comparisons)
    assert all(position.key % 23 == 0 for position in judges[1].searched)
    # If it judges all, the comparison is that by the values of this judge.
    whole = compared(db, 480).rejudged
    alone = vr.compare(db, NETS, vr.Question(oracle="nodes=1000", alpha=300.0, threshold=0.4))
    assert whole is not None
    assert (whole.nets, whole.oracle, whole.positions) == (alone.nets, alone.oracle, alone.positions)
    assert [pair.by_kind for pair in whole.comparisons] == [pair.by_kind for pair in alone.comparisons]
    with Store.open(db) as store:
        frame = view.frame(store, vr.Question(net="key-net", oracle="nodes=100", alpha=300.0))
    cp = (frame["key"].to_numpy(np.uint64) % 1201).astype(np.int64) - 600
    deep_q = np.tanh(np.sign(cp) * np.maximum(np.abs(cp) - 50, 0) / 300 / 2)
    wrong = (np.abs(frame["net_q"] - deep_q) >= 0.4)[frame["key"].to_numpy(np.uint64) % 23 != 0]
    assert (whole.nets[0].candidates.count, whole.nets[0].candidates.total) == (wrong.sum(), len(wrong))


def test_an_interruption_keeps_what_was_judged(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = DeeperOracle(stop_after=30)
    in_place_of_engines(monkeypatch, lambda: stopping)
    with pytest.raises(KeyboardInterrupt):
        compared(db)
    judges = in_place_of_engines(monkeypatch, DeeperOracle)
    assert 30 <= len(stopping.searched) < 60
    comparison = compared(db).rejudged
    failed = sum(position.key % 23 == 0 for position in stopping.searched)
    assert 120 <= len(stopping.searched) + len(judges[0].searched) <= 124 + failed  # what was in flight is lost
    uninterrupted = compared(Path(shutil.copy(db, db.with_name("copy.db")))).rejudged
    assert comparison is not None
    assert uninterrupted is not None
    assert uninterrupted.comparisons == comparison.comparisons


def test_other_commands_do_not_take_it_for_the_judge(db: Path, judges: list[DeeperOracle]) -> None:
    compared(db, 480)
    with Store.open(db) as store:
        assert view.frame(store).attrs["oracle"]["label"] == "key 1.0 nodes=100"


def test_words_and_keys(db: Path, judges: list[DeeperOracle]) -> None:
    words = ["compare", *NETS, "--db", str(db), "--deep", "stockfish:nodes=1000"]
    shown = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "by a deeper judge, on a random sample of these positions:" in shown.output
    printed = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert set(printed["rejudged"]) == set(printed)
    assert printed["rejudged"]["oracle"] == "key 1.0 nodes=1000"


@pytest.mark.parametrize(
    ("deep", "sample", "said"),
    [("stockfish:nodes=1000", 99, "--sample 99: must be at least 100"), ("nothing", 100, "nothing")],
)
def test_bad_input(db: Path, deep: str, sample: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        vr.compare(db, NETS, deep=deep, sample=sample)


def test_which_judges_are_deeper(db: Path) -> None:
    """The same search with more nodes; one with other options, or another net, may have fewer."""
    with Store.open(db) as store:
        [first] = judges_of(store)
    identity = KeyOracle().identity
    assert not is_deeper(first, identity)
    assert not is_deeper(first, replace(identity, limits={"nodes": 50}))
    assert not is_deeper(first, replace(identity, limits={"nodes": 100}, options={"Hash": "64"}))
    assert is_deeper(first, replace(identity, limits={"nodes": 101}))
    assert is_deeper(first, replace(identity, limits={"nodes": 50}, options={"EvalFile": "other.nnue"}))
    assert is_deeper(first, replace(identity, limits={"nodes": 50}, engine="Other 2.0"))


# -- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_nets_judged_again_by_stockfish(shared_data: Path, stockfish: str, tmp_path: Path) -> None:
    """In a screened store; values as Stockfish gives them to python-chess."""
    path = Path(shutil.copy(SAMPLE, tmp_path / "sample.db"))
    files = [str(shared_data / "nets" / f"{name}.pb.gz") for name in ("maia-1900", "meangirl-8")]
    question = vr.Question(threshold=0.35, alpha=300.0)
    judged_again = vr.compare(path, files, question, deep=f"uci:{stockfish},nodes=3000", sample=100).rejudged
    assert judged_again is not None
    assert judged_again.positions == 100
    with Store.open(path) as store:
        query = "SELECT position_id, cp, mate FROM deep_values JOIN judges ON id = judge_id WHERE label = ?"
        rows = store.connection.execute(query, (judged_again.oracle,)).fetchall()
        batch = list(store.positions([row[0] for row in rows[:6]]))
    assert len(rows) == 100
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
