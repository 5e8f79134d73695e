"""Which ladder decides how much a position weighs: simulated ladders of two nets, whose choice must show the truth."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import valuerepair as vr
from tests.vr_runs import here
from valuerepair.arrays import Flags, Floats
from valuerepair.store.connection import StoreConnection
from valuerepair.store.selection import selection_weights
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"
A, B, OTHER_RUN = 1, 2, 9
POSITIONS, DRAWS = 400, 300
TABLES = """
CREATE TABLE nets (id INTEGER PRIMARY KEY);
CREATE TABLE net_values (net_id, position_id, run_id, PRIMARY KEY (net_id, position_id)) WITHOUT ROWID;
CREATE TABLE screened (net_id, oracle_id, position_id, screen_id, cut_at, searched, probability, run_id,
    PRIMARY KEY (net_id, oracle_id, position_id)) WITHOUT ROWID;
INSERT INTO nets VALUES (1), (2), (3);
"""


@pytest.fixture
def memory() -> Iterator[StoreConnection]:
    with closing(sqlite3.connect(":memory:", factory=StoreConnection)) as opened:
        opened.executescript(TABLES)
        yield opened


@dataclass
class Ladders:
    """Two ladders on the same positions, whose runs and screens have the number of their net.

    `keeps` [2, n]: what each would not cut; it keeps most of the positions that its own net is `wrong` on [2, n].
    `probability` [2, n]: of an audit, the smaller the later a position comes.
    """

    rng: np.random.Generator
    connection: StoreConnection
    known: Flags = field(init=False)

    def __post_init__(self) -> None:
        shared = self.rng.random(POSITIONS) < 0.1
        self.wrong = np.stack([shared | (self.rng.random(POSITIONS) < rate) for rate in (0.05, 0.3)])
        self.keeps = np.where(self.wrong, self.rng.random((2, POSITIONS)) < 0.8, self.rng.random((2, POSITIONS)) < 0.15)
        self.probability = np.linspace([0.6, 0.5], [0.1, 0.2], POSITIONS).T
        self.clear()

    def clear(self) -> None:
        self.known = np.zeros(POSITIONS, np.bool_)
        self.connection.executescript("DELETE FROM screened; DELETE FROM net_values")

    def mine(self, net: int, among: Flags, drawn: Floats | None = None, *, values: bool = True) -> None:
        """A run with a ladder: what is known already gets the net's value only, as in `vr mine`."""
        drawn = self.rng.random(POSITIONS) if drawn is None else drawn
        keeps, p = self.keeps[net - 1], self.probability[net - 1]
        climbs = among & ~self.known
        searched = climbs & (keeps | (drawn < p))
        rows = [
            (net, i + 1, net, None if keeps[i] else 10, int(searched[i]), 1.0 if keeps[i] else p[i], net)
            for i in np.flatnonzero(climbs).tolist()
        ]
        self.connection.executemany("INSERT INTO screened VALUES (?, 1, ?, ?, ?, ?, ?, ?)", rows)
        self.known |= searched
        if values:
            self.give_values(net, among, net)

    def give_values(self, net: int, among: Flags, run_id: int) -> None:
        rows = [(net, i + 1, run_id) for i in np.flatnonzero(among).tolist()]
        self.connection.executemany("INSERT OR IGNORE INTO net_values VALUES (?, ?, ?)", rows)

    def weighted(self, net: int | None = None) -> tuple[float, float]:
        """The number of positions that B is wrong on, and of all, by weight."""
        rows = np.flatnonzero(self.known)
        weight = selection_weights(self.connection, rows + 1, 1, net)
        return float(weight @ self.wrong[1, rows]), float(weight.sum())


EVERY = np.ones(POSITIONS, np.bool_)


def one_after_the_other(ladders: Ladders) -> None:
    ladders.mine(A, EVERY)
    ladders.mine(B, EVERY)


def values_before(ladders: Ladders) -> None:
    """Nobody records which of A's audited positions the run with B's ladder met."""
    ladders.mine(A, EVERY)
    ladders.give_values(B, ladders.known, OTHER_RUN)
    ladders.mine(B, EVERY)


def a_part_again(ladders: Ladders) -> None:
    """B's ladder met half of the positions; the other half has B's values by `vr compare`."""
    ladders.mine(A, EVERY)
    ladders.mine(B, ladders.rng.random(POSITIONS) < 0.5)
    ladders.give_values(B, ladders.known, OTHER_RUN)


def a_part_with_values_before(ladders: Ladders) -> None:
    ladders.mine(A, EVERY)
    ladders.give_values(B, ladders.known, OTHER_RUN)
    ladders.mine(B, ladders.rng.random(POSITIONS) < 0.5)


def parts_of_both(ladders: Ladders) -> None:
    """A third of the positions each: of A's ladder, of both, of B's."""
    third = np.arange(POSITIONS) % 3
    ladders.mine(A, third < 2)
    ladders.mine(B, third > 0)


def one_ladder(ladders: Ladders) -> None:
    ladders.mine(A, EVERY)


def merged(ladders: Ladders, *, one_seed: bool) -> None:
    """Two stores, in which each ladder met all: what one of them kept is settled (`merge_rows`)."""
    drawn = ladders.rng.random((2, POSITIONS))
    ladders.mine(A, EVERY, drawn[0])
    of_first, ladders.known = ladders.known, np.zeros(POSITIONS, np.bool_)
    ladders.mine(B, EVERY, drawn[0 if one_seed else 1])
    ladders.known |= of_first
    for net, other in ((A, B), (B, A)):
        kept = f"position_id IN (SELECT position_id FROM screened WHERE net_id = {other} AND cut_at IS NULL)"
        of_kept = f"net_id = {net} AND cut_at NOT NULL AND {kept}"
        ladders.connection.execute(f"DELETE FROM screened WHERE NOT searched AND {of_kept}")
        ladders.connection.execute(f"UPDATE screened SET cut_at = NULL, probability = 1 WHERE {of_kept}")


def merged_of_one_seed(ladders: Ladders) -> None:
    merged(ladders, one_seed=True)


def merged_of_two_seeds(ladders: Ladders) -> None:
    merged(ladders, one_seed=False)


WAYS = (one_ladder, one_after_the_other, values_before, a_part_again, a_part_with_values_before, parts_of_both,
        merged_of_one_seed, merged_of_two_seeds)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow
def test_on_average_the_weights_show_the_truth(way: Callable[[Ladders], None], memory: StoreConnection) -> None:
    """Whichever ladder met a position when, and of whichever net is asked; a net without a ladder is 3."""
    ladders = Ladders(np.random.default_rng(5), memory)
    estimates = []
    for _ in range(DRAWS):
        ladders.clear()
        way(ladders)
        estimates.append([ladders.weighted(net) for net in (None, A, B, 3)])
    wrong, counted = np.moveaxis(np.array(estimates), 2, 0)
    errors = wrong.std(0, ddof=1) / np.sqrt(DRAWS)
    assert (np.abs(wrong.mean(0) - ladders.wrong[1].sum()) < 3.5 * errors).all(), (wrong.mean(0), errors)
    np.testing.assert_allclose(counted.mean(0), POSITIONS, rtol=0.01)
    assert errors.max() < 0.012 * ladders.wrong[1].sum()  # a fraction of what counting a stratum twice is off by


def test_audited_positions_whose_neighbours_were_judged_again_weigh_1(memory: StoreConnection) -> None:
    """By hand: A audits 1 of 1 to 4; B's ladder keeps 2, audits 3 and cuts 4."""
    rows = "(1, 1, 1, 1, 10, 1, 0.25, 1), (1, 1, 2, 1, 10, 0, 0.25, 1), (1, 1, 3, 1, 10, 0, 0.25, 1)"
    memory.execute(f"INSERT INTO screened VALUES {rows}, (1, 1, 4, 1, 10, 0, 0.25, 1)")
    positions = np.array([1, 2, 3, 7])
    for net in (None, A, B):
        assert selection_weights(memory, positions, 1, net).tolist() == [4, 0, 0, 1]
    memory.execute(
        "INSERT INTO screened VALUES (2, 1, 2, 2, NULL, 1, 1.0, 2), (2, 1, 3, 2, 20, 1, 0.5, 2),"
        "(2, 1, 4, 2, 20, 0, 0.5, 2)"
    )
    for net in (None, B, 3):
        assert selection_weights(memory, positions, 1, net).tolist() == [1, 1, 2, 1]
    assert selection_weights(memory, positions, 1, A).tolist() == [4, 0, 0, 1]
    assert selection_weights(memory, positions, 2).tolist() == [1, 1, 1, 1]


# -- the sample: maia-1900's ladder chose what the other nets were measured on ---------------------------------------


@pytest.mark.parametrize("net", ["maia-1100", "meangirl-8"])
def test_a_net_that_was_only_compared_is_judged_by_the_ladder_that_chose(net: str) -> None:
    question = vr.Question(net=net, threshold=0.35, alpha=318.0)
    with Store.open(SAMPLE) as store:
        of_net, own = store.frame(question), store.frame(vr.Question(net="maia-1900", alpha=318.0))
        assert of_net["weight"].tolist() == own["weight"].tolist()
    compared = vr.compare(SAMPLE, ["maia-1900", net], vr.Question(threshold=0.35, alpha=318.0))
    scored = vr.stats(SAMPLE, question).figures["scored"]
    (at,) = [row for row in scored["by_threshold"] if row["threshold"] == 0.35]
    assert at["rate"] == pytest.approx(compared.nets[1].candidates.rate)
    assert scored["screened_for"] == ["maia-1900"]


def test_stats_say_whose_ladder_chose(tmp_path: Path) -> None:
    db = shutil.copy(SAMPLE, tmp_path / "sample.db")
    assert "screened for maia-1900:" in here("stats", "--db", db, "--net", "maia-1100", cwd=tmp_path).stdout
    assert "screened for" not in here("stats", "--db", db, "--net", "maia-1900", cwd=tmp_path).stdout


def test_show_has_the_weight_of_the_frame(tmp_path: Path) -> None:
    with Store.open(SAMPLE) as store:
        frame = store.frame(vr.Question(net="maia-1100"))
    drawn = frame[frame["weight"] != 1].iloc[0]
    shown = vr.show(SAMPLE, int(drawn["position_id"]), vr.Question(net="maia-1100"))
    assert shown.facts["weight"] == pytest.approx(drawn["weight"])
