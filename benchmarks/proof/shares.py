"""Amplitude and arbitration (B2): does it matter how often candidates are drawn, once that is undone?

Value heads learn from the same store. Candidates are drawn as they come, as 10 or 20 per cent, or not at all; their
weights undo this, as `vr train` has it, or do not. All are judged on games that none has learned from, on families of
positions that none has seen, where two nets differ in their verdict or are near the threshold by a deeper judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.analysis import Drawn, estimate, relative, same
from benchmarks.proof.arms import NET, Step
from benchmarks.proof.games import TEST, TRAIN, dividing
from benchmarks.proof.nets import answers
from valuerepair import calibration
from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.judge.split import read_split
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question, is_candidate
from valuerepair.store.store import Store
from valuerepair.training.drawing import StoreDraw
from valuerepair.training.train import read_curve

if TYPE_CHECKING:
    import pandas as pd

PART = "shares"
SEEDS = (0, 1, 2, 3, 4, 5)
ORIGINAL, SAMPLED, CONTROL = "original", "sampled", "control"
# The share of candidates among what is drawn, in per cent; None: as many as there are.
SHARES: dict[str, int | None] = {SAMPLED: None, CONTROL: 0, "10": 10, "20": 20, "10-as-drawn": 10, "20-as-drawn": 20}
_AS_DRAWN = "-as-drawn"
SETS = ("families", "games")
THRESHOLDS = (0.55, 0.3)
ALPHA = 170.0
# Positions to learn from and to judge by, with the judge's nodes of each; those that a deeper judge sees, at most.
_LEARNED, _NODES = 200_000, 4_000
_JUDGED, _TEST_NODES = 100_000, 20_000
_ARBITRATED, _ARBITER_NODES = 1_500, 1_000_000
_NEAR = 0.1  # a deeper judge's Q may be so far from the first one's
_FAMILIES = 0.2  # of the positions that are learned from
_STEPS, _LR = 1_000, 3e-4
_SEED = 47


@dataclass(frozen=True, slots=True)
class Shares:
    """Where everything lies: `data` with the archive, `out` for all that is made. `scale` multiplies all sizes."""

    data: Path
    out: Path
    scale: float = 1.0

    def phases(self, results: Path) -> Iterator[Iterable[Step]]:
        """All of it, in phases: what one has made says what is in the next."""
        yield [dividing(self.data, self.out)]
        split = ["split", "--db", str(self.learned), "--games", "0", "--families", f"{_FAMILIES:g}"]
        yield [
            self._mined(self.learned, TRAIN, _LEARNED, _NODES),
            self._mined(self.test, TEST, _JUDGED, _TEST_NODES),
            Step(PART, "split", self.split, [*split, "--seed", str(_SEED), "-o", str(self.split)]),
        ]
        yield [self._trained(arm, seed) for seed, arm in product(SEEDS, SHARES)]
        count = str(self._sized(_ARBITRATED))
        unsure = ["unsure", str(self.out), count, "-o", str(self.unsure)]
        yield [
            Step(PART, "unsure", self.unsure, unsure, "benchmarks.proof.shares"),
            self._mined(self.arbiter, self.unsure.name, _ARBITRATED, _ARBITER_NODES),
        ]
        words = ["tables", str(self.out), "-o", str(results)]
        yield [Step("measure", "shares-tables", results / "shares.done", words, "benchmarks.proof.shares")]

    @property
    def learned(self) -> Path:
        return self.out / "shares.db"

    @property
    def test(self) -> Path:
        return self.out / "shares-test.db"

    @property
    def arbiter(self) -> Path:
        """What the deeper judge says of unsure positions."""
        return self.out / "shares-arbiter.db"

    @property
    def split(self) -> Path:
        return self.out / "shares-split.json"

    @property
    def unsure(self) -> Path:
        """Positions that a deeper judge is to decide, as FENs."""
        return self.out / "shares-unsure.epd"

    def net(self, arm: str, seed: int) -> Path:
        return self.out / "nets" / f"shares-{arm}-{seed}.pb.gz"

    def nets(self) -> dict[str, list[Path]]:
        """The nets of each arm, the original first. Raises ValueRepairError where one is missing."""
        nets = {arm: [self.net(arm, seed) for seed in SEEDS] for arm in SHARES}
        for net in (net for arm in nets.values() for net in arm):
            if not net.exists():
                raise ValueRepairError(f"{net}: has not been trained yet")
        return {ORIGINAL: [Path(locate(NET))], **nets}

    def _mined(self, db: Path, archive: str, positions: int, nodes: int) -> Step:
        words = ["mine", str(self.out / archive), "--db", str(db), "--positions", str(self._sized(positions))]
        words += ["--screen", "off", "--deep", f"stockfish:nodes={nodes}", "--seed", str(_SEED)]
        return Step(PART, f"mine-{db.stem}", self.out / "done" / f"mine-{db.stem}", words)

    def _trained(self, arm: str, seed: int) -> Step:
        share = SHARES[arm]
        words = ["train", "--net", NET, "--store", str(self.learned), "--split", str(self.split)]
        words += ["-o", str(self.net(arm, seed)), "--only", "value", "--lr", f"{_LR:g}", "--seed", str(seed)]
        words += ["--alpha", f"{ALPHA:g}", "--threshold", f"{THRESHOLDS[0]:g}", "--set", "patience=0"]
        words += ["--steps", str(max(20, round(min(1.0, self.scale) * _STEPS)))]
        words += [] if share is None else ["--share", f"{share / 100:g}"]
        program = "benchmarks.proof.shares" if arm.endswith(_AS_DRAWN) else "valuerepair"
        return Step(PART, self.net(arm, seed).name, self.net(arm, seed), words, program)

    def _sized(self, size: int) -> int:
        return max(100, round(self.scale * size))


def as_drawn(drawn: StoreDraw) -> Floats:
    """[n] the weights of a draw whose rows count as they are drawn (`StoreDraw.inverse` undoes how they are)."""
    weights = np.zeros(len(drawn.ids))
    weights[drawn.rows()] = 1.0
    return weights


# -- measures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Positions of held-out games that no net has learned: `ids`, `keys`, `deep_q`, `game` and `sets` [n], one of
    `SETS`; `expected`, of each arm [nets, n], the deep Q to be expected given a net's Q."""

    ids: Ids
    keys: Ids
    deep_q: Floats
    game: Ids
    sets: np.typing.NDArray[np.str_]
    expected: dict[str, Floats]

    def wrong(self, threshold: float, deep_q: Floats) -> dict[str, Flags]:
        """Of each arm [nets, n]: which positions are candidates by this deep Q."""
        return {arm: is_candidate(expected - deep_q, threshold) for arm, expected in self.expected.items()}

    def unsure(self) -> Flags:
        """[n] families' positions whose verdict at the first threshold a deeper judge may change for some nets alone:
        nets differ in it already, or one of them is near the threshold."""
        off = np.abs(np.concatenate(list(self.expected.values())) - self.deep_q)
        wrong = is_candidate(off, THRESHOLDS[0])
        near = (np.abs(off - THRESHOLDS[0]) < _NEAR).any(0)
        unsure: Flags = (self.sets == SETS[0]) & (near | (wrong.any(0) & ~wrong.all(0)))
        return unsure


def read_verdicts(shares: Shares) -> Verdicts:
    """The test positions, and what all nets say of them, recalibrated by the curve of other games."""
    wanted = ("position_id", "key", "game_id", "deep_q")
    question = Question(net=NET, alpha=ALPHA)
    with Store.open(shares.learned) as store:
        learned = store.frame(Question(net=NET), text=False, only=("key",))["key"]
    with Store.open(shares.test) as store:
        frame = store.frame(question, text=False, only=wanted).sort_values("position_id")
        frame = frame[frame["deep_q"].notna() & ~frame["key"].isin(learned)]
        ids, keys, game, deep_q = (frame[name].to_numpy() for name in ("position_id", "key", "game_id", "deep_q"))
        split = read_split(shares.split)
        sets = np.where(split.among(store, ids, "families"), "families", "")
        sets[split.among(store, ids, "train")] = "games"
    kept = sets != ""
    ids, keys, game, deep_q, sets = (column[kept] for column in (ids, keys, game, deep_q, sets))

    def expected(net: Path) -> Floats:
        q = answers(net, shares.test, ids, shares.out / "kept").q.astype(np.float64)
        fitted = calibration.fit(q, deep_q, np.ones(len(q)), game, resamples=0)
        return fitted.expected(q, calibration.fold_of(game))

    return Verdicts(ids, keys, deep_q, game, sets, {
        arm: np.stack([expected(net) for net in nets]) for arm, nets in shares.nets().items()
    })  # fmt: skip


def arbitrated(verdicts: Verdicts, deeper: Mapping[int, float]) -> dict[str, Floats]:
    """Of each arm [nets, n]: numbers whose mean over the families is the rate of candidates by the deeper judge.

    `deeper`: deep Q by key, of positions drawn evenly from those that are `unsure`; of all others the first judge is
    believed. A position that was drawn stands for those that were not: it counts by its first verdict, and by the
    change of its verdict over its chance. Raises ValueRepairError where none was drawn.
    """
    unsure = verdicts.unsure()
    q = np.array([deeper.get(key, np.nan) for key in verdicts.keys.tolist()])
    drawn = unsure & ~np.isnan(q)
    if not drawn.any():
        raise ValueRepairError("the deeper judge has seen none of the positions that it is to decide")
    first, second = (
        verdicts.wrong(THRESHOLDS[0], deep_q) for deep_q in (verdicts.deep_q, np.where(drawn, q, verdicts.deep_q))
    )
    times = unsure.sum() / drawn.sum()
    return {arm: first[arm] + times * (second[arm].astype(np.float64) - first[arm]) for arm in first}


def table(verdicts: Verdicts, deeper: Mapping[int, float], lambdas: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """A row for each arm by judge, set and threshold, and for each comparison; intervals are over games and seeds.

    Columns: `arm`, `against` (empty for an arm alone), `judge` (``deeper`` or ``first``), `set`, `threshold`,
    `positions`, `games`, `nets`, `amplitude` (the mean lambda of its nets); `value`, `low` and `high`: the rate of
    candidates, or the arm's less the other's as a part of it.
    """
    import pandas as pd

    judged = [("deeper", SETS[0], THRESHOLDS[0]), *(("first", *at) for at in product(SETS, THRESHOLDS))]
    rows = []
    for judge, name, threshold in judged:
        held = verdicts.sets == name
        drawn = Drawn(verdicts.game[held])
        numbers: Mapping[str, Floats | Flags] = (
            arbitrated(verdicts, deeper) if judge == "deeper" else verdicts.wrong(threshold, verdicts.deep_q)
        )
        arms = {arm: drawn.arm(arm, of[:, held]) for arm, of in numbers.items()}
        about = {"judge": judge, "set": name, "threshold": threshold, "positions": held.sum()}
        about["games"] = len(np.unique(verdicts.game[held]))
        for arm, other in pairs():
            row = {"arm": arm, "against": other, **about, "nets": arms[arm].seeds}
            row["amplitude"] = np.mean(lambdas[arm]) if arm in lambdas else np.nan
            interval = estimate(relative, arms[arm], arms[other]) if other else estimate(same, arms[arm])
            rows.append(row | tables.bounds(interval, "value", ""))
    found: pd.DataFrame = pd.DataFrame(rows)
    return found


def pairs() -> Iterator[tuple[str, str]]:
    """Each arm alone; each against what was drawn as it comes, and that and the control against the original; what
    counts as it was drawn against the same with weights that undo it."""
    yield from ((arm, "") for arm in (ORIGINAL, *SHARES))
    yield from ((arm, ORIGINAL) for arm in (SAMPLED, CONTROL))
    yield from ((arm, SAMPLED) for arm in SHARES if arm != SAMPLED)
    yield from ((arm, arm.removesuffix(_AS_DRAWN)) for arm in SHARES if arm.endswith(_AS_DRAWN))


def hashes(shares: Shares) -> pd.DataFrame:
    """The trained nets: `arm`, `seed`, `sha256`, `lambda`."""
    import pandas as pd

    rows = [
        (arm, seed, read_net_file(net).sha256, amplitude_of(net))
        for arm, nets in shares.nets().items()
        if arm != ORIGINAL
        for seed, net in zip(SEEDS, nets, strict=True)
    ]
    found: pd.DataFrame = pd.DataFrame(rows, columns=["arm", "seed", "sha256", "lambda"])
    return found


def amplitude_of(net: Path) -> float:
    """The lambda of the amplitude step."""
    return float(read_curve(net).about["amplitude"]["lambda"])


# -- from the command line --------------------------------------------------------------------------------------------


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """Steps of `python -m benchmarks.proof shares`."""


@command.command("train", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def train_as_drawn(words: tuple[str, ...]) -> None:
    """Run `vr train WORDS` with positions that count as they are drawn: no weights undo it."""
    with patch.object(StoreDraw, "_inverse", as_drawn):
        cli(["train", *words], prog_name="vr")


@command.command("unsure")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("count", type=click.IntRange(1))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="FENs.")
def write_unsure(folder: Path, count: int, output: Path) -> None:
    """Write at most COUNT positions, evenly drawn, of those that a deeper judge is to decide for the nets of FOLDER."""
    shares = Shares(Path(), folder)
    verdicts = read_verdicts(shares)
    ids = verdicts.ids[verdicts.unsure()]
    drawn = np.sort(np.random.default_rng(_SEED).permutation(ids)[:count])
    with Store.open(shares.test) as store:
        fens = tables.fens(store, drawn)
    with written_whole(output, None) as partial:
        partial.write_text("".join(f"{fen}\n" for fen in fens), "utf-8")
    click.echo(f"{output}: {len(fens):,} of {len(ids):,} positions that are unsure, of {len(verdicts.ids):,}")


@command.command("tables")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def write_tables(folder: Path, output: Path) -> None:
    """Write shares.csv, and shares-nets.csv with the nets' SHA-256 and lambda."""
    shares = Shares(Path(), folder)
    with Store.open(shares.arbiter) as store:
        frame = store.frame(Question(net=NET, alpha=ALPHA), text=False, only=("key", "deep_q")).dropna()
    deeper = dict(zip(frame["key"].tolist(), frame["deep_q"].tolist(), strict=True))
    nets = hashes(shares)
    lambdas = {str(arm): list(of["lambda"]) for arm, of in nets.groupby("arm")}
    found = table(read_verdicts(shares), deeper, lambdas)
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(found, output / "shares.csv")
    tables.write_table(nets, output / "shares-nets.csv")
    click.echo(found.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "shares")
