"""Nets compared on a store: counts against pandas, values computed and gone on with, chance, weights, bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.typing import ArrayLike, NDArray

from tests.mining_doubles import KeyNet, KeyOracle, key_outcome, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.chess.values import Alpha
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.measure import compare as comparing
from valuerepair.measure.compare import CATEGORIES, Compared
from valuerepair.measure.compared_nets import find_nets, find_oracle, measure
from valuerepair.mining.mine import MineOptions
from valuerepair.nets.net import NetIdentity, NetValues, open_net
from valuerepair.nets.registry import KNOWN_NETS
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.rates import weighted
from valuerepair.report.stats import store_stats
from valuerepair.store import alpha as alphas
from valuerepair.store import view
from valuerepair.store.pairs import pick
from valuerepair.store.parts import choose
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

OPTIONS = Question(alpha=300.0)
QUIET = Progress("test", quiet=True)


class OtherNet(KeyNet):
    """A net of another name and file, whose Q is a function of the first one's."""

    def __init__(self, name: str, digit: str, q: Callable[[NDArray[np.float32]], ArrayLike]) -> None:
        super().__init__()
        self.identity = NetIdentity(name, digit * 64, "wdl", 1, 1000)
        self._q = q

    def evaluate(self, batch: PositionBatch) -> NetValues:
        evaluations = super().evaluate(batch)
        return NetValues(
            np.asarray(self._q(evaluations.q), np.float32),
            evaluations.wdl,
            *(getattr(evaluations, n) for n in evaluations.__slots__[2:]),
        )


def never_fails(position: Position) -> DeepOutcome:
    outcome = key_outcome(position)
    return outcome if isinstance(outcome, DeepResult) else DeepResult(cp=0, depth=1, nodes=1)


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """480 positions of 120 games under key-net, and under half-net, which is half as bold."""
    folder = tmp_path_factory.mktemp("compared")
    db = folder / "mined.db"
    oracle = KeyOracle(answer=never_fails)
    mine_by_key(
        random_games(folder / "random.pgn", 120),
        db,
        oracle=oracle,
        options=MineOptions(sample=SampleOptions(per_game=4)),
    )
    add(db, OtherNet("half-net", "b", lambda q: q / 2))
    return db


@pytest.fixture
def db(mined: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(mined, tmp_path / "valuerepair.db"))


def add(db: Path, net: KeyNet) -> int:
    """Measures a net; says of how many positions."""
    with Store.open(db, write=True) as store:
        return measure(store, net, find_oracle(store, None, ["key-net"]), QUIET)


def compared(db: Path, *words: str, options: Question = OPTIONS, part: str | None = None) -> Compared:
    with Store.open(db) as store:
        oracle = find_oracle(store, None, words, part)
        return comparing.compared(store, find_nets(store, words, oracle), oracle, options)


def frames(db: Path, *words: str) -> list[pd.DataFrame]:
    with Store.open(db) as store:
        return [view.frame(store, Question(net=word, alpha=300.0)).set_index("position_id") for word in words]


# -- what is counted --------------------------------------------------------------------------------------------------


def test_counts_are_those_of_the_frames(db: Path) -> None:
    comparison = compared(db, "key-net", "half-net")
    one, other = frames(db, "key-net", "half-net")
    a, b = (frame["disagreement"].abs() >= 0.55 for frame in (one, other))
    (pair,) = comparison.comparisons
    assert comparison.positions == len(one) == len(other) == sum(pair.counts.values())
    assert comparison.games == one["game_id"].nunique()
    assert pair.counts == {
        "right both": (~a & ~b).sum(),
        "newly wrong": (~a & b).sum(),
        "repaired": (a & ~b).sum(),
        "still wrong": (a & b).sum(),
    }
    assert pair.counts["repaired"] > pair.counts["newly wrong"] > 0
    assert pair.share_by_games.difference == pytest.approx(b.mean() - a.mean())
    change = other["disagreement"].abs() - one["disagreement"].abs()
    assert pair.mean_abs.difference == pytest.approx(change.mean())
    assert pair.mean_abs.low < change.mean() < pair.mean_abs.high < 0
    assert [net.candidates.count for net in comparison.nets] == [a.sum(), b.sum()]
    spread = [frame["net_q"].std(ddof=0) for frame in (one, other)]
    assert [net.spread for net in comparison.nets] == pytest.approx(spread)
    assert (pair.of_first.count, pair.of_first.other_right.count) == (a.sum(), (a & ~b).sum())
    assert (pair.newly.count, pair.newly.total) == ((~a & b).sum(), (~a).sum())
    labels = {row.label: row for row in pair.labels}
    for sign, wrong in (("optimistic", 1), ("pessimistic", -1)):
        signed = [frame["disagreement"] * wrong >= 0.55 for frame in (one, other)]
        row = labels[sign]
        assert (row.first, row.second) == (signed[0].sum(), signed[1].sum())
        assert (row.repaired, row.newly) == ((signed[0] & ~signed[1]).sum(), (~signed[0] & signed[1]).sum())
    for phase in ("opening", "middlegame", "endgame"):
        if phase in labels:
            assert labels[phase].first == (a & (one["phase"] == phase)).sum()
    assert (
        sum(row.repaired for row in pair.labels if row.label in ("opening", "middlegame", "endgame")) == (a & ~b).sum()
    )


def test_a_net_against_itself_changed_nothing(db: Path) -> None:
    pair = compared(db, "key-net", "key-net").comparisons[0]
    assert pair.counts["repaired"] == pair.counts["newly wrong"] == 0
    assert (pair.mean_abs.difference, pair.mean_abs.low, pair.mean_abs.high) == (0, 0, 0)
    assert pair.share_by_games.difference == 0  # its interval: see the test of no candidate that changes
    assert pair.of_first == pair.of_second
    assert pair.of_first.other_right.count == 0
    assert all(row.change.difference == 0 for row in pair.labels)


def test_one_alpha_for_all(db: Path) -> None:
    """The one in use with a net, else the first net's."""
    orders = (("half-net", "key-net"), ("key-net", "half-net"))
    assert {compared(db, *nets, options=Question()).alpha.origin for nets in orders} != {"in use"}
    with Store.open(db, write=True) as store:
        alphas.use_alpha(store, pick(store), Alpha(240.0, "in use"))
    assert {compared(db, *nets, options=Question()).alpha.value for nets in orders} == {240.0}
    assert compared(db, "half-net", "key-net").alpha.origin == "given"


def test_two_nets_as_good_as_each_other_look_better_on_each_others_candidates(db: Path) -> None:
    """Regression to the mean: it shows on what one net chose, and not on all positions."""
    deep = dict(frames(db, "key-net")[0]["deep_q"])
    with Store.open(db, write=True) as store:
        rng = np.random.default_rng(2)  # with one seed in twenty the nets differ by chance
        for net in (1, 2):
            drawn = [(float(np.clip(q + rng.normal(0, 0.4), -1, 1)), net, i) for i, q in deep.items()]
            store.connection.executemany("UPDATE net_values SET q = ? WHERE net_id = ? AND position_id = ?", drawn)
        store.commit()
    pair = compared(db, "key-net", "half-net", options=Question(alpha=300.0, threshold=0.5)).comparisons[0]
    assert pair.of_first.other_right.low > 0.5
    assert pair.of_second.other_right.low > 0.5
    assert pair.of_first.mean_other < pair.of_first.mean_own - 0.2
    assert not pair.share_by_games.clear
    assert not pair.mean_abs.clear


def test_where_no_candidate_changes_the_interval_has_a_width(db: Path) -> None:
    """Wilson's bound of none among the rows that count, not an interval of no width."""
    comparison = compared(db, "key-net", "key-net")
    count, games = np.unique(comparison.scores.game_id, return_counts=True)[1].sum(), comparison.scores.game_id
    most = weighted(np.zeros(count, np.bool_), np.ones(count), games).high
    assert most > 0
    pair = comparison.comparisons[0]
    for change in (pair.share_by_games, *(at.change for row in pair.by_kind for at in row.candidates)):
        assert (change.difference, change.low, change.high) == pytest.approx((0, -most, most))
    assert comparison.lines()[-1] == "the same net: the files have the same content, so there is nothing to compare"


@pytest.mark.parametrize("nets", [("key-net", "half-net"), ("half-net", "key-net")])
def test_screened_rows_count_by_their_weights(db: Path, nets: tuple[str, str]) -> None:
    """Screening followed key-net; what it chose is no plain sample for the other net either, in whichever order."""
    with Store.open(db, write=True) as store:
        store.connection.execute("DELETE FROM deep_values WHERE position_id % 3 = 2")
        store.connection.execute("UPDATE deep_values SET weight = 2 WHERE position_id % 3 = 1")
    one, other = (frame.reset_index() for frame in frames(db, *nets))
    weight = np.where(one["position_id"].to_numpy() % 3 == 1, 2.0, 1.0)
    comparison = compared(db, *nets)
    a, b = (np.average(frame["disagreement"].abs() >= 0.55, weights=weight) for frame in (one, other))
    pair = comparison.comparisons[0]
    assert comparison.scores.weight == pytest.approx(weight)
    assert [net.candidates.rate for net in comparison.nets] == pytest.approx([a, b])
    assert pair.share_by_games.difference == pytest.approx(b - a)
    assert comparison.effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    for net, frame in zip(comparison.nets, (one, other), strict=True):
        assert net.spread**2 == pytest.approx(np.cov(frame["net_q"], aweights=weight, ddof=0))
    assert comparison.effective < comparison.positions
    assert "weighted by inverse probability" in "\n".join(comparison.lines())


def test_only_what_is_held_out_is_compared(db: Path) -> None:
    assert compared(db, "key-net", "half-net").part is None
    with Store.open(db, write=True) as store:
        choose(store, games=0.3, families=0.1)
    (frame, _) = frames(db, "key-net", "half-net")
    of_part = frame["part"].value_counts()
    held = compared(db, "key-net", "half-net")
    assert (held.part, held.positions) == ("held-out", of_part["games"] + of_part["families"])
    assert set(held.scores.position_id) == set(frame.index[frame["part"].isin(["games", "families"])])
    assert held.comparisons[0].judge.held_out
    assert compared(db, "key-net", "half-net", part="games").positions == of_part["games"]
    assert compared(db, "key-net", "half-net", part="all").positions == len(frame)
    add(db, OtherNet("third", "c", np.negative))  # the values of what is compared, no others
    assert len(frames(db, "third")[0]) == held.positions
    with pytest.raises(UsageError, match="--part nosuch"):
        compared(db, "key-net", "half-net", part="nosuch")
    with Store.open(db, write=True) as store:
        choose(store, games=0.0, families=0.0)
    with pytest.raises(ValueRepairError, match="no position that is held out"):
        compared(db, "key-net", "half-net")


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
        oracle = find_oracle(store, None, ["key-net"])
        (_, third) = find_nets(store, ["key-net", "third"], oracle)
        assert third.missing == oracle.scored - 200
        assert store_stats(store).as_json()["runs"][-1]["state"] == "interrupted"
    part = compared(db, "key-net", "third")
    assert (part.positions, part.left_out) == (200, {"third": oracle.scored - 200})
    assert f"third: {oracle.scored - 200:,} scored positions have no value of it" in "\n".join(part.lines())
    net = OtherNet("third", "c", np.negative)
    assert add(db, net) == net.rows == oracle.scored - 200
    assert add(db, net) == 0
    one, other = frames(db, "key-net", "third")
    assert (other["net_q"] == -one["net_q"]).all()
    with Store.open(db) as store:
        assert store_stats(store).as_json()["runs"][-1]["state"] == "finished"


def test_nets_of_one_name_are_told_apart(db: Path) -> None:
    add(db, OtherNet("key-net", "c", np.negative))
    comparison = compared(db, "abababab", "cccccccc")
    assert [net.name for net in comparison.nets] == ["key-net (abababababab)", "key-net (cccccccccccc)"]
    assert comparison.comparisons[0].counts["repaired"] > 0


def test_three_nets_are_each_compared_with_the_first(db: Path) -> None:
    add(db, OtherNet("third", "c", np.negative))
    comparison = compared(db, "half-net", "key-net", "third")
    assert [(pair.first, pair.second) for pair in comparison.comparisons] == [
        ("half-net", "key-net"),
        ("half-net", "third"),
    ]
    assert comparison.comparisons[0].counts == compared(db, "half-net", "key-net").comparisons[0].counts
    back = compared(db, "key-net", "half-net").comparisons[0]
    assert back.counts["repaired"] == comparison.comparisons[0].counts["newly wrong"]
    assert back.share_by_games.low == pytest.approx(-comparison.comparisons[0].share_by_games.high)


def test_values_without_a_policy(db: Path) -> None:
    """Such as those recorded in training chunks: they are compared, only blindness stays unknown."""
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE net_values SET policy = NULL WHERE net_id = 2")
    comparison = compared(db, "key-net", "half-net")
    assert not comparison.comparisons[0].policies
    assert not {row.label for row in comparison.comparisons[0].labels} & {"value-blind", "policy-blind"}
    assert any("lacks the policy" in line for line in comparison.lines())
    json.dumps(comparison.as_json(), allow_nan=False)


# -- real nets --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_nets_from_their_files(db: Path, shared_data: Path, tmp_path: Path) -> None:
    maia = shared_data / "nets" / "maia-1900.pb.gz"
    # The name lies: a file is known by its content.
    other = Path(shutil.copy(shared_data / "nets" / "meangirl-8.pb.gz", tmp_path / "maia-1900.pb.gz"))
    command = ["compare", str(maia), str(other), "--db", str(db)]
    printed = json.loads(
        vr(*command, "-q", "--json", "--plot", str(tmp_path / "a.svg"), "-o", str(tmp_path / "a.jsonl"))
    )
    with Store.open(db) as store:
        evaluated = {net["sha256"]: net["evaluated"] for net in store_stats(store).as_json()["nets"]}
        scored = len(view.frame(store, Question(net="key-net")))
        digests = [net["sha256"] for net in printed["nets"]]
        assert digests[0] == KNOWN_NETS["maia-1900"].sha256 != digests[1]
        assert [evaluated[digest] for digest in digests] == [scored, scored]
        values = [view.frame(store, Question(net=digest)) for digest in digests]
    fens = values[0]["fen"].tolist()[:12]
    for path, frame in zip((maia, other), values, strict=True):
        with open_net(str(path), threads=1) as net:
            alone = [net.evaluate(PositionBatch.from_positions([position_of(row)])).q[0] for row in rows_of(frame, 12)]
        assert len(fens) == len(alone)
        np.testing.assert_allclose(alone, frame["net_q"].to_numpy()[:12], atol=1e-5)
    pair = printed["comparisons"][0]
    assert sum(pair["counts"].values()) == printed["positions"] == scored
    assert pair["policies"]
    blind = [row for row in pair["labels"] if row["label"].endswith("-blind")]
    wrong = values[0][(values[0]["net_q"] - values[0]["deep_q"]).abs() >= 0.55]
    assert sum(row["first"] for row in blind) == wrong["deep_best"].notna().sum() > 0
    written = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    expected = {name: pair["counts"][name] for name in CATEGORIES[1:]}
    assert {name: sum(row["category_2"] == name for row in written) for name in expected} == expected
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    again = json.loads(vr(*command, "-q", "--json"))  # nothing to compute: the same answer
    assert again == printed


@pytest.mark.slow
def test_scale_in_the_sample_store(tmp_path: Path) -> None:
    """The figures of docs/methods.md."""
    sample = Path(__file__).parents[1] / "data" / "sample.db"
    db = Path(shutil.copy(sample, tmp_path / "sample.db"))
    with Store.open(db, write=True) as store:
        pairs = [pick(store, net) for net in ("maia-1100", "maia-1900")]
        in_use = alphas.alpha(store, pairs[1]).value
        question = Question(threshold=0.35)
        assert compared(db, "maia-1100", "maia-1900", options=question).alpha.value == in_use
        store.use(alpha=None)
        store.commit()
        of_nets = [alphas.alpha(store, pair).value for pair in pairs]
    assert of_nets == [pytest.approx(533, abs=0.5), pytest.approx(in_use)]
    assert compared(db, "maia-1100", "maia-1900", options=question).alpha.value == of_nets[0]
    assert compared(db, "maia-1900", "maia-1100", options=question).alpha.value == of_nets[1]
    (own,) = compared(db, "maia-1100", "maia-1900", options=Question(threshold=0.35, alpha=of_nets[0])).comparisons
    assert (own.counts["newly wrong"], own.counts["repaired"]) == (36, 26)
    (by_given_alpha,) = compared(
        db, "maia-1100", "maia-1900", options=Question(threshold=0.35, alpha=300.0)
    ).comparisons
    assert (by_given_alpha.counts["newly wrong"], by_given_alpha.counts["repaired"]) == (17, 115)


def rows_of(frame: pd.DataFrame, count: int) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = frame[["fen", "start_fen", "moves"]].head(count).to_dict("records")
    return rows


def position_of(row: dict[str, str]) -> Position:
    return Position(row["fen"], row["start_fen"], tuple(row["moves"].split()), 0, 0, True)


# -- the command ------------------------------------------------------------------------------------------------------


def vr(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["key-net"], "give at least two nets to compare", 2),
        (["key-net", "nosuch"], "net nosuch: no net file, no net known by name", 2),
        (["key-net", "half-net", "--plot", "a.gif"], "a.gif: a plot's name ends in", 2),
        (["key-net", "half-net", "-o", "a.txt"], "a.txt: ", 2),
        (["key-net", "a.pb.gz"], "a.pb.gz: is not a net", 1),
        (["key-net", "half-net", "--db", "none.db"], "there is no store at none.db", 1),
    ],
)
def test_bad_input(db: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str, code: int) -> None:
    monkeypatch.chdir(db.parent)
    Path("a.pb.gz").write_text("hello")
    message, exit_code = refused("compare", "-q", *arguments)
    assert words in message
    assert exit_code == code


def refused(*arguments: str) -> tuple[str, int]:
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value), caught.value.exit_code


def test_nothing_to_compare(db: Path, tmp_path: Path) -> None:
    with Store.open(db, write=True) as store:
        oracle = find_oracle(store, None, ["key-net"])
        store.connection.execute("DELETE FROM net_values WHERE net_id = 2 AND position_id % 2")
        store.connection.execute("DELETE FROM net_values WHERE net_id = 1 AND position_id % 2 = 0")
        store.commit()
        with pytest.raises(ValueRepairError, match="has a value of each of key-net, half-net; give the nets' files"):
            comparing.compared(store, find_nets(store, ["key-net", "half-net"], oracle), oracle, OPTIONS)
        store.connection.execute("UPDATE deep_values SET w = NULL, d = NULL, l = NULL, mate = NULL")
        store.commit()
        wdl = Question(q_from="wdl")
        with pytest.raises(ValueRepairError, match="has a deep score from wdl"):
            comparing.compared(store, find_nets(store, ["key-net", "key-net"], oracle), oracle, wdl)
    with Store.open(tmp_path / "empty.db", create=True) as store:
        with pytest.raises(ValueRepairError, match=r"is scored yet; run vr mine first"):
            find_oracle(store, None, ["key-net", "half-net"])
        with pytest.raises(UsageError, match="threshold"):
            Question(threshold=0)
