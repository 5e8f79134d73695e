"""Nets compared on a store: against a program that knows nothing of the package, by simulation, by a deeper judge."""

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
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.typing import ArrayLike, NDArray

import valuerepair as vr
from tests import independent_comparison
from tests.cli_tree import SAMPLE
from tests.mining_doubles import KeyNet, KeyOracle, key_outcome, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.arrays import Floats
from valuerepair.chess.origins import KINDS, Kind
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.chess.values import Alpha
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.measure import compare as comparing
from valuerepair.measure.compare import CATEGORIES, Compared, Comparison, OriginRow, by_origin, sampled
from valuerepair.measure.compared_nets import (
    ComparedPositions,
    compared_part,
    find_judge,
    find_nets,
    lacking,
    measure,
)
from valuerepair.mining.judges import is_deeper
from valuerepair.mining.mine import MineOptions
from valuerepair.nets.net import NetIdentity, NetValues, open_net
from valuerepair.nets.registry import KNOWN_NETS
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.rates import weighted
from valuerepair.report.stats import store_stats
from valuerepair.store import alpha as alphas
from valuerepair.store import view
from valuerepair.store.pairs import judges as judges_of
from valuerepair.store.pairs import pick
from valuerepair.store.parts import choose
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

QUESTION = Question(alpha=300.0)
QUIET = Progress("test", quiet=True)
NETS = ["key-net", "half-net"]


class OtherNet(KeyNet):
    """A net of another name and file, whose Q is a function of the first one's."""

    def __init__(self, name: str, digit: str, q: Callable[[NDArray[np.float32]], ArrayLike]) -> None:
        super().__init__()
        self.identity = NetIdentity(name, digit * 64, "wdl", 1, 1000)
        self._q = q

    def evaluate(self, batch: PositionBatch) -> NetValues:
        found = super().evaluate(batch)
        q = np.asarray(self._q(found.q), np.float32)
        return NetValues(q, found.wdl, *(getattr(found, name) for name in found.__slots__[2:]))


def never_fails(position: Position) -> DeepOutcome:
    outcome = key_outcome(position)
    return outcome if isinstance(outcome, DeepResult) else DeepResult(cp=0, depth=1, nodes=1)


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """480 positions of 120 games under key-net, and under half-net, which is half as bold."""
    folder = tmp_path_factory.mktemp("compared")
    db, archive = folder / "mined.db", random_games(folder / "random.pgn", 120)
    options = MineOptions(sample=SampleOptions(per_game=4))
    mine_by_key(archive, db, oracle=KeyOracle(answer=never_fails), options=options)
    add(db, OtherNet("half-net", "b", lambda q: q / 2))
    return db


@pytest.fixture
def db(mined: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(mined, tmp_path / "valuerepair.db"))


def add(db: Path, net: KeyNet) -> int:
    """Measures a net; says of how many positions."""
    with Store.open(db, write=True) as store:
        return measure(store, net, find_judge(store, None, ["key-net"]), compared_part(store, None), QUIET)


def compared(db: Path, *words: str, question: Question = QUESTION, part: str | None = None) -> Compared:
    return vr.compare(db, words or NETS, question, part=part)


def execute(db: Path, *statements: str) -> None:
    with Store.open(db, write=True) as store:
        for statement in statements:
            store.connection.execute(statement)
        store.commit()


def frame_of(db: Path, net: str) -> pd.DataFrame:
    with Store.open(db) as store:
        frame: pd.DataFrame = view.frame(store, Question(net=net, alpha=300.0)).set_index("position_id")
        return frame


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


# -- what is counted --------------------------------------------------------------------------------------------------


def with_origins(db: Path) -> list[str]:
    """Some positions off the games, and some neighbours."""
    for i, origin in enumerate((*KINDS[1:], "neighbour"), 4):
        execute(db, f"UPDATE positions SET origin = '{origin}' WHERE id % 8 = {i}")
    return NETS


def screened(db: Path) -> list[str]:
    """As well, and some positions stand for three."""
    execute(db, "UPDATE deep_values SET weight = 3 WHERE position_id % 5 = 0")
    return with_origins(db)


def of_the_sample(db: Path) -> list[str]:
    shutil.copy(SAMPLE, db)
    execute(db, "DELETE FROM settings WHERE name = 'alpha'")
    return ["maia-1900", "maia-1100", "meangirl-8"]


@pytest.mark.parametrize("prepared", [with_origins, screened, of_the_sample])
def test_all_figures_are_those_of_an_independent_program(db: Path, prepared: Callable[[Path], list[str]]) -> None:
    nets = prepared(db)
    said = json.loads(printed("compare", *nets, "--db", str(db), "--threshold", "0.35", "--json", "-q"))
    expected = independent_comparison.compare(db, nets, [0.3, 0.35, 0.55])
    assert said["alpha"]["value"] == pytest.approx(expected["alpha"], rel=2e-6)
    assert [len(pair["by_origin"]) for pair in said["comparisons"]] == [4 if nets == NETS else 1] * (len(nets) - 1)
    for pair, origins in zip(said["comparisons"], expected["comparisons"], strict=True):
        assert {row["origin"] for row in pair["by_origin"]} == origins.keys()
        for row in pair["by_origin"]:
            figures = origins[row["origin"]]
            assert (row["positions"], row["games"]) == (figures["positions"], figures["games"])
            assert row["scale"] == pytest.approx(figures["scale"], rel=1e-5)
            assert row["squared_error"] == pytest.approx(figures["squared_error"], rel=1e-5)
            assert [*row["change"].values()] == pytest.approx(figures["change"], abs=1e-6)
            assert [at["threshold"] for at in row["candidates"]] == [0.3, 0.35, 0.55]
            for at in row["candidates"]:
                of_program = figures[f"{at['threshold']:g}"]
                assert [at[net]["count"] for net in ("first", "second")] == of_program["count"]
                assert [at[net]["rate"] for net in ("first", "second")] == pytest.approx(of_program["rate"])
                assert (at["repaired"], at["newly_wrong"]) == (of_program["repaired"], of_program["newly_wrong"])
                alike = 3 if prepared is with_origins else 1  # audits have Wilson's intervals
                assert [*at["change"].values()][:alike] == pytest.approx(of_program["change"][:alike])


def test_table_file_plot_and_stats_count_alike(db: Path, tmp_path: Path) -> None:
    with_origins(db)
    files = ["-o", str(tmp_path / "wrong.csv"), "--plot", str(tmp_path / "wrong.svg")]
    said = json.loads(printed("compare", *NETS, "--db", str(db), "--json", "-q", *files))
    stats = json.loads(printed("stats", "--db", str(db), "--net", "half-net", "--json", "-q"))
    rows, drawn = pd.read_csv(tmp_path / "wrong.csv"), (tmp_path / "wrong.svg").read_text()
    (pair,) = said["comparisons"]
    for row in pair["by_origin"]:
        at, of = row["candidates"][-1], rows[rows["kind"] == row["origin"]]
        count = of["category_2"].value_counts()
        assert (at["repaired"], at["newly_wrong"]) == (count["repaired"], count.get("newly wrong", 0))
        assert at["first"]["count"] == (of["disagreement_1"].abs() >= 0.55).sum()
        assert f"repaired: {at['repaired']:,}" in drawn
    in_games = pair["by_origin"][0]["candidates"][-1]["second"]
    of_stats = next(row for row in stats["scored"]["by_threshold"] if row["threshold"] == 0.55)
    assert stats["scored"]["alpha"] == said["alpha"]
    assert (in_games["count"], in_games["rate"], in_games["low"]) == (
        of_stats["candidates"], of_stats["rate"], of_stats["low"]
    )  # fmt: skip


def test_a_net_against_itself_changed_nothing_and_its_interval_has_a_width(db: Path) -> None:
    """Wilson's bound of none among the rows that count, not an interval of no width."""
    found = compared(db, "key-net", "key-net")
    (row,) = found.comparisons[0].by_origin
    assert (row.change.difference, row.change.low, row.change.high) == (0, 0, 0)
    game = found.positions.game_id
    most = weighted(np.zeros(len(game), np.bool_), np.ones(len(game)), game).high
    assert most > 0
    for at in row.candidates:
        assert (at.repaired, at.newly_wrong) == (0, 0)
        assert (at.change.difference, at.change.low, at.change.high) == pytest.approx((0, -most, most))
    assert any(line.startswith("the same net") for line in found.lines())


def test_one_alpha_for_all(db: Path) -> None:
    """The one in use with a net, else the first net's."""
    orders = (("half-net", "key-net"), ("key-net", "half-net"))
    assert {compared(db, *nets, question=Question()).alpha.origin for nets in orders} != {"in use"}
    with Store.open(db, write=True) as store:
        alphas.use_alpha(store, pick(store), Alpha(240.0, "in use"))
    assert {compared(db, *nets, question=Question()).alpha.value for nets in orders} == {240.0}
    assert compared(db, "half-net", "key-net").alpha.origin == "given"


def test_only_what_is_held_out_is_compared(db: Path) -> None:
    assert compared(db).part is None
    with Store.open(db, write=True) as store:
        choose(store, games=0.3, families=0.1)
    frame = frame_of(db, "key-net")
    of_part = frame["part"].value_counts()
    held = compared(db)
    assert held.part == "held-out"
    assert set(held.positions.position_id) == set(frame.index[frame["part"].isin(["games", "families"])])
    assert len(compared(db, part="games").positions.weight) == of_part["games"]
    assert len(compared(db, part="all").positions.weight) == len(frame)
    add(db, OtherNet("third", "c", np.negative))  # the values of what is compared, no others
    assert len(frame_of(db, "third")) == len(held.positions.weight)
    assert len(held.notes) == len(compared(db, part="all").notes) - 1
    with pytest.raises(UsageError, match="--part nosuch"):
        compared(db, part="nosuch")
    with Store.open(db, write=True) as store:
        choose(store, games=0.0, families=0.0)
    with pytest.raises(ValueRepairError, match="no position that is held out"):
        compared(db)


@pytest.mark.parametrize(("net", "fitted", "steepness"), [("maia-1900", 358, 0.96), ("meangirl-8", 258, 0.93)])
def test_the_alpha_of_the_least_difference_flattens_the_judge(net: str, fitted: float, steepness: float) -> None:
    """The figures of docs/methods.md: the slope of deep Q on net Q there is what training by it does to the net."""
    with Store.open(SAMPLE) as store:
        frame = view.frame(store, Question(net=net))
    cp, mate, q, weight = (frame[name].to_numpy() for name in ("cp", "mate", "net_q", "weight"))
    grid = np.arange(100, 800, 0.5)
    deep = [independent_comparison.q_of_scores(cp, mate, alpha) for alpha in grid]
    best = int(np.argmin([weight @ (q - one) ** 2 for one in deep]))
    assert grid[best] == pytest.approx(fitted, abs=0.5)
    assert weight @ (q * deep[best]) / (weight @ q**2) == pytest.approx(steepness, abs=0.005)


# -- values -----------------------------------------------------------------------------------------------------------


def test_values_are_computed_once_and_gone_on_with(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.measure.compared_nets.BATCH_ROWS", 100)

    class Interrupted(OtherNet):
        def evaluate(self, batch: PositionBatch) -> NetValues:
            if self.rows >= 200:
                raise KeyboardInterrupt
            return super().evaluate(batch)

    with pytest.raises(KeyboardInterrupt):
        add(db, Interrupted("third", "c", np.negative))
    with Store.open(db) as store:
        judge = find_judge(store, None, ["key-net"])
        (_, third) = find_nets(store, ["key-net", "third"], judge)
        missing = len(lacking(store, pick(store, third.key)[0], judge.id, "all"))
        assert store_stats(store).as_json()["runs"][-1]["state"] == "interrupted"
    part = compared(db, "key-net", "third")
    assert (len(part.positions.weight), part.left_out) == (200, {"third": missing})
    assert f"third: {missing:,} scored positions have no value of it" in str(part)
    net = OtherNet("third", "c", np.negative)
    assert add(db, net) == net.rows == missing == 480 - 200
    assert add(db, net) == 0
    one, other = frame_of(db, "key-net"), frame_of(db, "third")
    assert (other["net_q"] == -one["net_q"]).all()
    with Store.open(db) as store:
        assert store_stats(store).as_json()["runs"][-1]["state"] == "finished"


def test_nets_of_one_name_are_told_apart(db: Path) -> None:
    add(db, OtherNet("key-net", "c", np.negative))
    found = compared(db, "abababab", "cccccccc")
    assert [net.name for net in found.nets] == ["key-net (abababababab)", "key-net (cccccccccccc)"]


@pytest.mark.slow
def test_real_nets_from_their_files(db: Path, shared_data: Path, tmp_path: Path) -> None:
    maia = shared_data / "nets" / "maia-1900.pb.gz"
    # The name lies: a file is known by its content.
    other = Path(shutil.copy(shared_data / "nets" / "meangirl-8.pb.gz", tmp_path / "maia-1900.pb.gz"))
    command = ["compare", str(maia), str(other), "--db", str(db), "--device", "cpu", "-q", "--json"]
    said = json.loads(printed(*command, "-o", str(tmp_path / "a.jsonl")))
    digests = [net["sha256"] for net in said["nets"]]
    assert digests[0] == KNOWN_NETS["maia-1900"].sha256 != digests[1]
    for path, digest in zip((maia, other), digests, strict=True):
        frame = frame_of(db, digest)
        assert len(frame) == said["positions"]
        with open_net(str(path), threads=1) as net, Store.open(db) as store:
            alone = [net.evaluate(store.positions(frame.index.to_numpy()[[i]])).q[0] for i in range(12)]
        np.testing.assert_allclose(alone, frame["net_q"].to_numpy()[:12], atol=1e-5)
    at = next(at for at in said["comparisons"][0]["by_origin"][0]["candidates"] if at["threshold"] == 0.55)
    written = [json.loads(line)["category_2"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert (written.count(CATEGORIES[2]), written.count(CATEGORIES[1])) == (at["repaired"], at["newly_wrong"])
    assert json.loads(printed(*command)) == said  # nothing to compute: the same answer


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["key-net"], "give at least two nets to compare", 2),
        (["key-net", "nosuch"], "net nosuch: no net file, no net known by name", 2),
        ([*NETS, "--plot", "a.gif"], "a.gif: a plot's name ends in", 2),
        ([*NETS, "-o", "a.txt"], "a.txt: ", 2),
        (["key-net", "a.pb.gz"], "a.pb.gz: is not a net", 1),
        ([*NETS, "--db", "none.db"], "there is no store at none.db", 1),
        ([*NETS, "--deep", "stockfish:nodes=1000", "--sample", "99"], "--sample 99: must be at least 100", 2),
        ([*NETS, "--deep", "nothing"], "nothing", 2),
    ],
)
def test_bad_input(db: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str, code: int) -> None:
    monkeypatch.chdir(db.parent)
    Path("a.pb.gz").write_text("hello")
    with pytest.raises(ValueRepairError, match=words) as caught:
        CliRunner().invoke(cli, ["compare", "-q", *arguments], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == code


def test_nothing_to_compare(db: Path) -> None:
    execute(
        db,
        "DELETE FROM net_values WHERE net_id = 2 AND position_id % 2",
        "DELETE FROM net_values WHERE net_id = 1 AND position_id % 2 = 0",
    )
    with pytest.raises(ValueRepairError, match="has a value of each of key-net, half-net; give the nets' files"):
        compared(db)
    execute(db, "UPDATE deep_values SET w = NULL, d = NULL, l = NULL, mate = NULL")
    with pytest.raises(ValueRepairError, match="has a deep score from wdl"):
        compared(db, "key-net", "key-net", question=Question(q_from="wdl"))
    execute(db, "DELETE FROM deep_values")
    with pytest.raises(ValueRepairError, match=r"is scored yet; run vr mine first"):
        compared(db)


# -- the statistics, by simulation ------------------------------------------------------------------------------------


def drawn(
    rng: np.random.Generator, games: int, noise: tuple[float, float], times: tuple[float, float] = (1.0, 1.0)
) -> ComparedPositions:
    """Five positions of each game, whose errors are alike within a game; both nets' Q are deep Q and such noise."""
    game = np.repeat(np.arange(1, games + 1), 5)
    deep = rng.normal(0, 0.4, len(game)).clip(-1, 1)
    of_game = rng.normal(0, 1, games)[game - 1]
    size = zip(noise, times, strict=True)
    nets = [s * (deep + n * (0.7 * of_game + 0.7 * rng.normal(0, 1, len(game)))) for n, s in size]
    return ComparedPositions(
        np.arange(len(game)), game, np.zeros(len(game), np.int8), np.ones(len(game)), deep, np.stack(nets)
    )


def only(positions: ComparedPositions) -> OriginRow:
    [row] = by_origin(positions, 1, [0.3, 0.55])
    return row


def comparison(noise: dict[Kind, tuple[float, float]], games: int = 300) -> Comparison:
    """Two nets with such errors on the positions of each origin."""
    rng = np.random.default_rng(1)
    rows = []
    for origin, size in noise.items():
        rows.append(replace(only(drawn(rng, games, size)), origin=origin))
    return Comparison("one", "other", None, rows)


def test_another_scale_is_no_better_judge() -> None:
    positions = drawn(np.random.default_rng(2), 60, (0.3, 0.3))
    row = only(replace(positions, net_q=np.stack([positions.net_q[0], 1.45 * positions.net_q[0]])))
    assert abs(row.change.low) + abs(row.change.high) < 1e-12
    assert row.scale[0] == pytest.approx(1.45 * row.scale[1])


def test_intervals_hold_the_truth() -> None:
    """Of equally good nets in 95 of 100 cases: other errors, as large."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        one, other = (drawn(rng, 60, (0.3, 0.3)) for _ in range(2))
        second = one.deep_q + other.net_q[0] - other.deep_q  # errs as much, elsewhere
        row = only(replace(one, net_q=np.stack([one.net_q[0], second])))
        held += row.change.low <= 0 <= row.change.high
    assert 0.90 <= held / 300 <= 0.98


def test_better_only_if_better_of_each_origin() -> None:
    better = comparison({"game": (0.3, 0.2), "random_move": (0.4, 0.2), "search_node": (0.3, 0.25)})
    assert better.is_better_judge
    assert better.sentence == "better judge: shown, in games, after a random legal move, in searches"
    worse = comparison({"game": (0.3, 0.2), "random_move": (0.3, 0.4), "policy_move": (0.3, 0.3)})
    assert not worse.is_better_judge
    assert [row.finding for row in worse.by_origin] == ["better", "worse", "unclear"]
    assert "not shown; in games: better; after a random legal move: worse; after the policy" in worse.sentence
    few = comparison({"game": (0.3, 0.1)}, games=15)
    assert few.by_origin[0].finding == "too few games"
    assert np.isnan(few.by_origin[0].candidates[0].change.low)
    assert not few.is_better_judge


# -- a deeper judge ---------------------------------------------------------------------------------------------------


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
    first, deeper = judged_twice(rng, 40_000, 15)
    by_first, truth = only(first).change.difference, only(replace(first, deep_q=deeper)).change.difference
    estimates, held = [], []
    for _ in range(200):
        rows = sampled(rng.permutation(10_000)[:2250], 300)
        first, deeper = judged_twice(rng, 150, 15)
        change = only(replace(first, deep_q=deeper).take(rows)).change
        estimates.append(change.difference)
        held.append(change.low <= truth <= change.high)
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - truth) < 3.5 * error
    assert abs(by_first - truth) > 5 * error
    assert np.mean(held) >= 0.9


def judged_twice(rng: np.random.Generator, games: int, size: int) -> tuple[ComparedPositions, Floats]:
    """The first judge errs as much as is known of 20,000 nodes, partly as the nets do; the second net errs less. Also
    the deeper judge's Q."""
    game = np.repeat(np.arange(games), size)
    n = len(game)
    deeper = np.tanh(rng.normal(0, 0.5, games)[game] + rng.normal(0, 0.5, n))
    blind = rng.normal(0, 0.05, games)[game] + 0.1 * rng.standard_t(4, n)
    net_q = np.clip(np.stack([deeper + blind, deeper + 0.8 * blind + rng.normal(0, 0.06, n)]), -1, 1)
    first = np.clip(deeper + 0.16 * blind + rng.normal(0, 0.04, n), -1, 1)
    return ComparedPositions(np.arange(n), game, np.zeros(n, np.int8), np.ones(n), first, net_q), deeper


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


def deeper(path: Path, sample: int = 120) -> Compared:
    found = vr.compare(path, NETS, QUESTION, deep="stockfish:nodes=1000", sample=sample).deeper
    assert found is not None
    return found


def test_a_comparison_by_both_judges_and_the_same_again(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judges = in_place_of_engines(monkeypatch, DeeperOracle)
    plain = compared(db)
    again = deeper(db)
    assert plain.deeper is None
    assert len(judges[0].searched) == 120
    assert len(again.positions.weight) == 120 - sum(position.key % 23 == 0 for position in judges[0].searched)
    assert deeper(db).comparisons == again.comparisons
    assert all(position.key % 23 == 0 for position in judges[1].searched)
    # If it judges all, the comparison is that by the values of this judge.
    whole = deeper(db, 480)
    alone = compared(db, question=replace(QUESTION, oracle="nodes=1000"))
    assert (whole.judge, whole.comparisons) == (alone.judge, alone.comparisons)
    frame = frame_of(db, "key-net")  # other commands do not take it for the judge
    assert frame.attrs["oracle"]["label"] == "key 1.0 nodes=100"
    cp = (frame["key"].to_numpy(np.uint64) % 1201).astype(np.int64) - 600
    deep_q = np.tanh(np.sign(cp) * np.maximum(np.abs(cp) - 50, 0) / 300 / 2)
    wrong = (np.abs(frame["net_q"] - deep_q) >= 0.55)[frame["key"].to_numpy(np.uint64) % 23 != 0]
    first = whole.comparisons[0].by_origin[0].at(0.55).first
    assert (first.count, first.total) == (wrong.sum(), len(wrong))
    said = json.loads(printed("compare", *NETS, "--db", str(db), "--deep", "stockfish:nodes=1000", "--json"))
    assert said["deeper"].keys() == said.keys()


def test_an_interruption_keeps_what_was_judged(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = DeeperOracle(stop_after=30)
    in_place_of_engines(monkeypatch, lambda: stopping)
    with pytest.raises(KeyboardInterrupt):
        deeper(db)
    judges = in_place_of_engines(monkeypatch, DeeperOracle)
    assert 30 <= len(stopping.searched) < 60
    found = deeper(db)
    failed = sum(position.key % 23 == 0 for position in stopping.searched)
    assert 120 <= len(stopping.searched) + len(judges[0].searched) <= 124 + failed  # what was in flight is lost
    assert deeper(Path(shutil.copy(db, db.with_name("copy.db")))).comparisons == found.comparisons


def test_which_judges_are_deeper(db: Path) -> None:
    """The same search with more nodes; one with other options, or another net, may have fewer."""
    with Store.open(db) as store:
        [first] = judges_of(store)
    identity = KeyOracle().identity
    assert not is_deeper(first, identity)
    assert not is_deeper(first, replace(identity, limits={"nodes": 50}))
    assert not is_deeper(first, replace(identity, limits={"nodes": 100}, options={"Hash": "64"}))
    assert is_deeper(first, replace(identity, limits={"nodes": 101}))
    at_depth = replace(first, limits={"depth": 9})
    assert [is_deeper(at_depth, replace(identity, limits={"depth": depth})) for depth in (8, 9, 10)] == [0, 0, 1]
    assert is_deeper(first, replace(identity, limits={"nodes": 50}, options={"EvalFile": "other.nnue"}))
    assert is_deeper(first, replace(identity, limits={"nodes": 50}, engine="Other 2.0"))


@pytest.mark.slow
def test_real_nets_judged_again_by_stockfish(shared_data: Path, stockfish: str, tmp_path: Path) -> None:
    """In a screened store; values as Stockfish gives them to python-chess."""
    path = Path(shutil.copy(SAMPLE, tmp_path / "sample.db"))
    files = [str(shared_data / "nets" / f"{name}.pb.gz") for name in ("maia-1900", "meangirl-8")]
    again = vr.compare(path, files, QUESTION, deep=f"uci:{stockfish},nodes=3000", sample=100).deeper
    assert again is not None
    assert len(again.positions.weight) == 100
    with Store.open(path) as store:
        query = "SELECT position_id, cp, mate FROM deep_values JOIN judges ON id = judge_id WHERE label = ?"
        rows = store.connection.execute(query, (again.judge,)).fetchall()
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
