"""Labels at equal nodes: where to spend a judge's nodes, on more positions or on deeper searches (B4).

Each arm has as many nodes of Stockfish for its labels as the others: so many positions at 1,000, 2,000 or 4,000 nodes
each, or a ladder that searches every position with 1,000 nodes and those with 4,000 where net and judge may differ.
The same net learns from each, and is judged by 200,000 nodes on games that no arm has seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.analysis import Arm, Drawn, estimate, relative, same
from benchmarks.proof.arms import NET, Step
from benchmarks.proof.games import TEST, TRAIN, dividing
from benchmarks.proof.nets import answers
from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.calibration import FOLDS, fold_of
from valuerepair.errors import ValueRepairError
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

SEEDS = (0, 1, 2, 3)
# Shares of the largest budget: what the ladder does with 0.7 (goal) and 0.5 (moonshot) of it stands against the rest.
SHARES = (0.5, 0.7, 1.0)
BUDGET = 20_000_000  # nodes of an arm and a seed
FLAT = {"1000": 1_000, "2000": 2_000, "4000": 4_000}
LADDER = "ladder"
ARMS = (*FLAT, LADDER)
# Nodes of a position by the ladder: 1,854 were seen on 4,000, fewer are needed of more. So it never has more
# nodes than the others. What it has had is in the table.
LADDER_COST = 1_900
_LADDER = (
    *("--screen", "1000,recall=0.8,audit=0", "--deep", "stockfish:nodes=4000"),
    *("--threshold", "0.4"),
)
TEST_POSITIONS, TEST_NODES = 8_000, 200_000
ALPHA = 170.0
STEPS, LR = 400, 3e-4


@dataclass(frozen=True, slots=True)
class Labels:
    """Where everything lies: `data` with the archive, `out` for all that is made. `scale` multiplies all sizes."""

    data: Path
    out: Path
    scale: float = 1.0

    @property
    def test(self) -> Path:
        return self.out / "labels-test.db"

    def store(self, arm: str, share: float, seed: int) -> Path:
        """The labels that an arm has by a share of the budget; those of smaller shares are among them."""
        return self.out / f"labels-{arm}-{share:g}-{seed}.db"

    def net(self, arm: str, share: float, seed: int) -> Path:
        return self.out / "nets" / f"labels-{arm}-{share:g}-{seed}.pb.gz"

    def positions(self, arm: str, share: float) -> int:
        """How many positions a share of the budget labels."""
        return max(1, round(self.scale * share * BUDGET / FLAT.get(arm, LADDER_COST)))

    def judging(self) -> Iterator[Step]:
        """The games in two files; and those that are held out, judged."""
        yield dividing(self.data, self.out)
        count = max(1, round(self.scale * TEST_POSITIONS))
        words = ["mine", str(self.out / TEST), "--db", str(self.test), "--positions", str(count)]
        words += ["--screen", "off", "--deep", f"stockfish:nodes={TEST_NODES}", "--alpha", f"{ALPHA:g}"]
        yield Step("labels", "labels-test", self.out / "done" / "labels-test", words)

    def seed(self, seed: int) -> Iterator[Step]:
        """The labels and the nets of one seed. A store is mined share by share, each time from a copy of the last."""
        for arm in ARMS:
            deep = _LADDER if arm == LADDER else ("--screen", "off", "--deep", f"stockfish:nodes={FLAT[arm]}")
            for before, share in pairwise((0.0, *SHARES)):
                db = self.store(arm, share, seed)
                name = db.stem
                if before:
                    copy = ["store", "merge", str(self.store(arm, before, seed)), "-o", str(db)]
                    yield Step("labels", f"copy-{name}", db, copy)
                mine = ["mine", str(self.out / TRAIN), "--db", str(db), *deep, "--alpha", f"{ALPHA:g}"]
                mine += ["--positions", str(self.positions(arm, share)), "--seed", str(seed)]
                yield Step("labels", f"mine-{name}", self.out / "done" / f"mine-{name}", mine)
        for share, arm in product(SHARES, ARMS):
            yield self._training(arm, share, seed)

    def _training(self, arm: str, share: float, seed: int) -> Step:
        output = self.net(arm, share, seed)
        steps = max(20, round(min(1.0, self.scale) * STEPS))
        words = ["train", "--net", NET, "--store", str(self.store(arm, share, seed)), "-o", str(output)]
        words += ["--only", "value", "--steps", str(steps), "--lr", f"{LR:g}", "--set", f"every={steps // 10}"]
        words += ["--set", "patience=0", "--seed", str(seed), "--alpha", f"{ALPHA:g}", "--threshold", "0.55"]
        return Step("labels", output.name, output, words)

    def measuring(self, results: Path) -> Iterator[Step]:
        words = [str(self.out), "-o", str(results)]
        yield Step("measure", "labels-measure", results / "labels.done", words, "benchmarks.proof.labels")

    def phases(self, results: Path) -> Iterator[Iterable[Step]]:
        """In their order. What one makes is there before the next begins; measured is after each seed."""
        yield self.judging()
        for seed in SEEDS:
            yield self.seed(seed)
            yield self.measuring(results)


# -- measures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spent:
    """What labels have cost: judge's nodes, and positions that have one."""

    nodes: int
    positions: int


def spent(store: Path) -> Spent:
    """A search by rungs counts its nodes from the first rung on, so the most that a position has are all of them."""
    query = "SELECT sum(n), count(*) FROM (SELECT max(nodes) n FROM deep_values GROUP BY oracle_id, position_id)"
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as sql:
        nodes, positions = sql.execute(query).fetchone()
    return Spent(int(nodes or 0), int(positions))


def squared_errors(q: Floats, deep_q: Floats, game: Ids) -> Floats:
    """[n] squares of (k · Q - deep Q), k being fitted to other games by least squares through 0; all [n]."""
    fold = fold_of(game)
    above, below = (np.bincount(fold, q * by, FOLDS) for by in (deep_q, q))
    scale = (above.sum() - above) / (below.sum() - below)
    errors: Floats = (scale[fold] * q - deep_q) ** 2
    return errors


@dataclass(frozen=True, slots=True)
class TestSet:
    """Held-out positions: `ids`, deep Q and `game` [n]."""

    ids: Ids
    deep_q: Floats
    game: Ids


def read_test(labels: Labels) -> TestSet:
    """Those whose position no arm has learned: openings are played in many games."""
    wanted = ("position_id", "key", "game_id", "deep_q")
    with Store.open(labels.test) as store:
        frame = store.frame(Question(net=NET, alpha=ALPHA), text=False, only=wanted)
    frame = frame[frame["deep_q"].notna()].sort_values("position_id")
    seen: Flags = np.zeros(len(frame), np.bool_)
    for path in (labels.store(arm, 1.0, seed) for arm, seed in product(ARMS, SEEDS)):
        if path.exists():
            with Store.open(path) as store:
                seen |= frame["key"].isin(store.frame(Question(net=NET), text=False, only=("key",))["key"]).to_numpy()
    frame = frame[~seen]
    return TestSet(*(frame[name].to_numpy() for name in ("position_id", "deep_q", "game_id")))


def table(labels: Labels) -> pd.DataFrame:
    """A row for each arm and share of the budget, and for each comparison; intervals are over games and seeds.

    Columns: `arm`, `share`, `seeds`, `positions` and `nodes` (means of the seeds), `error` (the mean square that is
    left, each net's Q times one number), `against` and `against_share` of a comparison, whose `value` is the error less
    the other's, as a part of it; of an arm alone the error itself. `low` and `high` of the value.
    """
    import pandas as pd

    test = read_test(labels)
    drawn = Drawn(test.game)

    def errors(net: str | Path) -> Floats:
        q = answers(net, labels.test, test.ids, labels.out / "kept").q.astype(np.float64)
        return squared_errors(q, test.deep_q, test.game)

    arms = {("original", 0.0): drawn.arm("original", errors(locate(NET))[None])}
    costs: dict[tuple[str, float], list[Spent]] = {("original", 0.0): []}
    for share, arm in product(SHARES, ARMS):
        seeds = [seed for seed in SEEDS if labels.net(arm, share, seed).exists()]
        if seeds:
            nets = np.stack([errors(labels.net(arm, share, seed)) for seed in seeds])
            arms[arm, share] = drawn.arm(f"{arm} {share:g}", nets)
            costs[arm, share] = [spent(labels.store(arm, share, seed)) for seed in seeds]
    if len(arms) == 1:
        raise ValueRepairError(f"{labels.out}: no net has been trained yet")
    rows = [row(at, arms, costs, None) for at in arms]
    rows += [row(at, arms, costs, other) for at, other in pairs(arms)]
    found: pd.DataFrame = pd.DataFrame(rows)
    return found


def pairs(arms: Iterable[tuple[str, float]]) -> Iterator[tuple[tuple[str, float], tuple[str, float]]]:
    """The ladder against the others at its own share of the budget, and at all of it; and, to see what a part of the
    budget is worth, each of the others against itself with all of it; each with all of it against the original."""
    there = set(arms)
    original = ("original", 0.0)
    yield from (((arm, 1.0), original) for arm in ARMS if there.issuperset({(arm, 1.0), original}))
    for share, flat in product(SHARES, FLAT):
        wanted = [((LADDER, share), other) for other in dict.fromkeys(((flat, share), (flat, 1.0)))]
        wanted += [((flat, share), (flat, 1.0))] if share < 1 else []
        yield from (pair for pair in wanted if there.issuperset(pair))


def row(
    at: tuple[str, float],
    arms: dict[tuple[str, float], Arm],
    costs: dict[tuple[str, float], list[Spent]],
    other: tuple[str, float] | None,
) -> dict[str, Any]:
    found = estimate(same, arms[at]) if other is None else estimate(relative, arms[at], arms[other])
    mean = {name: np.mean([getattr(cost, name) for cost in costs[at]] or [0]) for name in ("positions", "nodes")}
    against, against_share = other or ("", np.nan)
    return {
        "arm": at[0],
        "share": at[1],
        "seeds": arms[at].seeds,
        **{name: round(float(value)) for name, value in mean.items()},
        "error": arms[at].values.mean(),
        "against": against,
        "against_share": against_share,
        **tables.bounds(found, "value", ""),
    }


def hashes(labels: Labels) -> pd.DataFrame:
    """The nets that are there: `arm`, `share`, `seed`, `sha256`."""
    import pandas as pd

    nets = [(at, labels.net(*at)) for at in product(ARMS, SHARES, SEEDS)]
    rows = [(*at, read_net_file(net).sha256) for at, net in nets if net.exists()]
    found: pd.DataFrame = pd.DataFrame(rows, columns=["arm", "share", "seed", "sha256"])
    return found


# -- from the command line --------------------------------------------------------------------------------------------


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(folder: Path, output: Path) -> None:
    """Write labels.csv, the errors of all nets of FOLDER that are there and what they cost, and the nets' SHA-256."""
    labels = Labels(Path(), folder)
    found = table(labels)
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(found, output / "labels.csv")
    tables.write_table(hashes(labels), output / "labels-nets.csv")
    click.echo(found.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "labels")
