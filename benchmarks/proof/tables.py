"""The tables and pictures of docs/proof: `python -m benchmarks.proof.tables`.

Nets are named by an index, the nets.csv that `python -m benchmarks.proof` writes: a row a net, with the columns `arm`,
`seed` (of training) and `net`, a file or a name that the registry knows. What an arm is held against follows from its
name, as docs/proof/first-experiment.md has it.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.proof.analysis import (
    COLUMNS,
    PRIMARY_THRESHOLD,
    THRESHOLDS,
    Arm,
    Curves,
    HeldOut,
    Judged,
    Measured,
    difference,
    drawn_seeds,
    estimate,
    fit_curves,
    measure,
    primary,
    relative,
    same,
    validation_rate,
)
from benchmarks.proof.arms import ALPHA, OTHERS, RESULTS
from benchmarks.proof.nets import Answers, answers, policy_kl
from benchmarks.proof.positions import TEST_SETS, VALIDATION, Positions, read_positions
from valuerepair.arrays import Floats, Ids
from valuerepair.calibration import read_curve
from valuerepair.chess.positions import decode_move
from valuerepair.chess.progress import Progress
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import written_whole
from valuerepair.intervals import Interval
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

ORIGINAL, CONTROL, SAMPLED = "original", "control", "sampled"
INDEX = ("arm", "seed", "net")
_VALUE, _LONG = "value-", "long-"
_DIGITS = "%.5g"


# -- arms -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Net:
    """A row of the index; `file` is the net's."""

    arm: str
    seed: int
    file: Path

    @property
    def sha256(self) -> str:
        return read_net_file(self.file).sha256


def original_of(arm: str) -> str:
    """The arm that is the net which training of this one began with."""
    return next((before for before in OTHERS if arm.startswith(before)), "") + ORIGINAL


def against(arm: str) -> tuple[str, ...]:
    """The arms that this one is held against, its control first and its original last; none for an original."""
    old = original_of(arm)
    if arm == old:
        return ()
    if arm.startswith("z"):
        return tuple(other for other in ("z-control", old) if other != arm)
    before = next((part for part in (*OTHERS, _VALUE, _LONG, RESULTS) if arm.startswith(part)), "")
    wanted = [before + CONTROL, *([] if before in OTHERS else [before + SAMPLED]), old]
    # The control is not held against what is stricter than itself.
    return (old,) if arm == wanted[0] else tuple(other for other in wanted if other != arm)


def point(arm: str) -> tuple[str, str, float] | None:
    """The curve that an arm is a point of, ``share`` or ``candidates``, the line and where; None for other arms."""
    number = arm.removeprefix(_VALUE)
    if number.isdigit():
        return "share", "value head alone" if number != arm else "whole net", float(number)
    if number == arm and arm.removesuffix("k").isdigit():
        return "candidates", "whole net", 1000 * float(arm.removesuffix("k"))
    return None


def read_index(path: str | Path) -> list[Net]:
    """The nets of an index. Raises UsageError for what is missing in it."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if missing := [name for name in INDEX if not rows or name not in rows[0]]:
        raise UsageError(f"{path}: has no column {missing[0]}; an index of nets has {', '.join(INDEX)}")
    nets = [Net(row["arm"], int(row["seed"]), Path(locate(row["net"]))) for row in rows]
    arms = {net.arm for net in nets}
    for arm in arms:
        if original_of(arm) not in arms:
            raise UsageError(f"{path}: has {arm}, but not {original_of(arm)}, which that began with")
    return nets


def places(nets: Sequence[Net]) -> dict[str, list[int]]:
    """Arm -> the places of its seeds, as they follow in the index."""
    by_arm: dict[str, list[int]] = {}
    for i, net in enumerate(nets):
        by_arm.setdefault(net.arm, []).append(i)
    return by_arm


# -- what the nets say ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """What all nets of an index say of all positions: `answers` in the order of `nets`, `curves` by validation."""

    nets: list[Net]
    positions: Positions
    answers: list[Answers]
    curves: list[Curves]

    def old(self, i: int) -> int:
        """The place of the net that training of net `i` began with."""
        return places(self.nets)[original_of(self.nets[i].arm)][0]

    def judged(self, name: str) -> tuple[list[Judged], HeldOut]:
        """The nets on a test set."""
        rows = np.flatnonzero(self.positions.sets == name)
        held_out = self.positions.take(rows)
        answers_there = [net_answers.take(rows) for net_answers in self.answers]
        nets = []
        for i, one in enumerate(answers_there):
            was = answers_there[self.old(i)]
            judged = Judged(
                one.q.astype(np.float64), one.best == was.best, policy_kl(was, one), self.curves[i], self.old(i)
            )
            nets.append(judged)
        return nets, HeldOut(held_out.deep_q, held_out.weight, held_out.game)


def places_of(evaluated: Said, arms: Iterable[str]) -> dict[str, list[int]]:
    """`places` of the nets. Raises UsageError for an arm that is not among them."""
    of = places(evaluated.nets)
    for arm in arms:
        if arm not in of:
            raise UsageError(f"no arm {arm} in the index; it has {', '.join(of)}")
    return of


def ask(nets: list[Net], db: str | Path, positions: Positions, kept: Path, *, threads: int | None = None) -> Said:
    """Asks every net that was not asked before, and draws its curves by the validation games."""
    every_answer, curves = [], []
    rows = np.flatnonzero(positions.sets == VALIDATION)
    validation = positions.take(rows)
    with Progress("nets", len(nets), "nets") as progress:
        for net in nets:
            net_answers = answers(net.file, db, positions.ids, kept, threads=threads)
            every_answer.append(net_answers)
            q = net_answers.q[rows].astype(np.float64)
            curves.append(fit_curves(q, validation.deep_q, validation.weight, validation.game))
            progress.advance()
    return Said(nets, positions, every_answer, curves)


def validation_rates(evaluated: Said, threshold: float = PRIMARY_THRESHOLD) -> list[float]:
    """Of each net, see `analysis.validation_rate`."""
    rows = np.flatnonzero(evaluated.positions.sets == VALIDATION)
    validation = evaluated.positions.take(rows)
    values = (net_answers.q[rows].astype(np.float64) for net_answers in evaluated.answers)
    return [validation_rate(q, validation.deep_q, validation.weight, validation.game, threshold) for q in values]


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tables:
    """The results. `measures`: a row an arm, test set and measure; `differences`: and what it is held against, with the
    difference and with that as a part of the other arm's; `nets`: a row a net, with the primary measure's rates."""

    measures: pd.DataFrame
    differences: pd.DataFrame
    nets: pd.DataFrame

    def write(self, folder: Path) -> None:
        """Into measures.csv, differences.csv and nets.csv."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("measures", "differences", "nets"):
            write_table(getattr(self, name), folder / f"{name}.csv")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """A table as a CSV with five digits."""
    with written_whole(path, None) as partial:
        frame.to_csv(partial, index=False, float_format=_DIGITS, lineterminator="\n")


def tables(evaluated: Said, best: str | None, *, threshold: float = PRIMARY_THRESHOLD, seed: int = 0) -> Tables:
    """All measures of all arms on all test sets; arms are held against `best`, too, the one with the best share. Nets
    have their rates at `threshold`."""
    import pandas as pd

    measures: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    rates = zip(evaluated.nets, validation_rates(evaluated, threshold), strict=True)
    nets: list[dict[str, Any]] = [
        {"arm": net.arm, "seed": net.seed, "sha256": net.sha256, f"{VALIDATION}_rate": rate} for net, rate in rates
    ]
    with Progress("test sets", len(TEST_SETS), "sets") as progress:
        for name in TEST_SETS:
            judged, held = evaluated.judged(name)
            measured = measure(judged, held, seed=seed)
            for row, values in zip(nets, measured.values, strict=True):
                row[f"{name}_rate"] = values[primary(threshold)]
            sizes = {"positions": held.positions, "games": held.games}
            measures += ({**row, **sizes} for row in _measures(evaluated.nets, measured, name))
            differences += ({**row, **sizes} for row in _differences(evaluated.nets, measured, name, best))
            progress.advance()
    return Tables(pd.DataFrame(measures), pd.DataFrame(differences), pd.DataFrame(nets))


def arm_of(measured: Measured, at: list[int], name: str, column: int) -> Arm:
    """The nets `at` these places, by the measure in this `column`."""
    return Arm(
        measured.values[at, column], measured.drawn[:, at, column], drawn_seeds(name, len(at), len(measured.drawn))
    )


def _measures(nets: Sequence[Net], measured: Measured, name: str) -> Iterator[dict[str, Any]]:
    for arm, at in places(nets).items():
        for i, column in enumerate(COLUMNS):
            value = bounds(estimate(same, arm_of(measured, at, arm, i)), "value", "")
            yield {"arm": arm, "set": name, **column._asdict(), **value, "seeds": len(at)}


def _differences(nets: Sequence[Net], measured: Measured, name: str, best: str | None) -> Iterator[dict[str, Any]]:
    of = places(nets)
    for arm, at in of.items():
        others = against(arm)
        if best is not None and original_of(arm) == original_of(best) and arm not in (best, *against(best)):
            others += (best,)
        for other in (rival for rival in others if rival in of):
            for i, column in enumerate(COLUMNS):
                pair = arm_of(measured, at, arm, i), arm_of(measured, of[other], other, i)
                yield {
                    "arm": arm,
                    "against": other,
                    "set": name,
                    **column._asdict(),
                    **bounds(estimate(difference, *pair), "difference", ""),
                    **bounds(estimate(relative, *pair), "relative", "relative_"),
                    "seeds": len(at),
                    "other_seeds": len(of[other]),
                }


def bounds(interval: Interval, name: str, before: str) -> dict[str, float]:
    """Value and interval as cells."""
    return {name: interval.difference, f"{before}low": interval.low, f"{before}high": interval.high}


# -- boards -----------------------------------------------------------------------------------------------------------

BOARDS_SET = "families"


def boards(evaluated: Said, db: str | Path, control: str, repaired: str, *, count: int, seed: int) -> pd.DataFrame:
    """`count` candidates of the original, recalibrated, on the held-out families, drawn at random.

    Of each its FEN, deep Q and the judge's move; and of the original, and the first seeds of the two arms, Q as it is,
    recalibrated, and the policy's first move: ``original_q``, ``original_recalibrated``, ``original_best``, and so on.
    """
    import pandas as pd

    of = places_of(evaluated, (control, repaired))
    rows = np.flatnonzero(evaluated.positions.sets == BOARDS_SET)
    held = evaluated.positions.take(rows)
    shown: dict[str, tuple[Answers, Floats]] = {}
    for who, arm in (("original", ORIGINAL), ("control", control), ("repaired", repaired)):
        i = of[arm][0]
        net_answers = evaluated.answers[i].take(rows)
        shown[who] = net_answers, read_curve(evaluated.curves[i].whole, net_answers.q)
    candidates = np.flatnonzero(np.abs(shown["original"][1] - held.deep_q) >= PRIMARY_THRESHOLD)
    chosen = np.random.default_rng(seed).choice(candidates, min(count, len(candidates)), replace=False)
    with Store.open(db) as store:
        fens_there = fens(store, held.ids[chosen])
    columns = {
        "fen": fens_there,
        "deep_q": held.deep_q[chosen],
        "deep_best": _moves(held.deep_best[chosen]),
    }
    for who, (net_answers, recalibrated) in shown.items():
        columns |= {
            f"{who}_q": net_answers.q[chosen].astype(np.float64),
            f"{who}_recalibrated": recalibrated[chosen],
            f"{who}_best": _moves(net_answers.best[chosen]),
        }
    table: pd.DataFrame = pd.DataFrame(columns)
    return table


def _moves(moves: NDArray[np.uint16]) -> list[str]:
    return [decode_move(move) if move else "" for move in moves.tolist()]


def fens(store: Store, ids: Ids) -> list[str]:
    """[n] of these positions."""
    query = "SELECT p.fen FROM json_each(?) j JOIN positions p ON p.id = j.value ORDER BY j.key"
    return [str(row[0]) for row in store.connection.execute(query, (str(ids.tolist()),))]


# -- from the command line --------------------------------------------------------------------------------------------

_PATH = click.Path(exists=True, dir_okay=False)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is measured, and by whom; `listen` takes them."""
    options = (
        click.option("--index", required=True, type=_PATH, help="CSV of the nets, see benchmarks/proof/tables.py."),
        click.option("--db", required=True, type=_PATH, help="The store with the judged positions."),
        click.option("--split", required=True, type=_PATH, help="What vr split wrote."),
        click.option("--net", default="maia-1900", show_default=True, help="The net that is repaired."),
        click.option("--alpha", default=ALPHA, show_default=True, help="Of deep Q."),
        click.option("--oracle", default=None, help="The judge.  [default: the one with most positions]"),
        click.option("--kept", required=True, type=_FOLDER, help="Folder where it is kept what nets said."),
        click.option("--threads", default=None, type=click.IntRange(1), help="Cores of the nets.  [default: all]"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def listen(options: dict[str, Any], only: Sequence[str]) -> Said:
    """What the nets of `source_options` say of the sets `only`."""
    question = Question(net=options["net"], oracle=options["oracle"], alpha=options["alpha"])
    positions = read_positions(options["db"], options["split"], question)
    positions = positions.take(np.isin(positions.sets, only))
    return ask(read_index(options["index"]), options["db"], positions, options["kept"], threads=options["threads"])


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """Measure the nets of the proof on what was held out."""


@command.command()
@source_options
def validate(**options: Any) -> None:
    """Rates of candidates on the validation games, by arm: what the best share is chosen by. Looks at no test set."""
    evaluated = listen(options, [VALIDATION])
    rates = validation_rates(evaluated)
    for arm, at in places(evaluated.nets).items():
        seeds = ", ".join(f"{100 * rates[i]:.3f}" for i in at)
        click.echo(f"{arm}: {100 * np.mean([rates[i] for i in at]):.3f} % ({seeds})")


@command.command()
@source_options
@click.option("--control", default="control", show_default=True, help="Arm of the boards beside the repaired one.")
@click.option(
    "--repaired",
    default=None,
    help="The arm with the best share: others are held against it, boards show it.  [default: neither]",
)
@click.option(
    "--threshold", default=PRIMARY_THRESHOLD, show_default=True, type=float, help=f"Of nets.csv, one of {THRESHOLDS}."
)
@click.option("--boards", "count", default=20, show_default=True, type=click.IntRange(1), help="Boards to draw.")
@click.option("--seed", default=18, show_default=True, help="Of the boards.")
@click.option("-o", "--output", required=True, type=_FOLDER, help="Folder.")
def write(
    control: str, repaired: str | None, threshold: float, count: int, seed: int, output: Path, **options: Any
) -> None:
    """Write measures.csv, differences.csv and nets.csv; with --repaired also curves.csv, boards.csv and pictures."""
    from benchmarks.proof.pictures import curve_table, draw_all

    if threshold not in THRESHOLDS:
        raise UsageError(f"--threshold {threshold:g}: is measured at {THRESHOLDS[0]:g} and {THRESHOLDS[1]:g} alone")
    evaluated = listen(options, [VALIDATION, *TEST_SETS])
    results = tables(evaluated, repaired, threshold=threshold)
    results.write(output)
    if repaired is not None:
        shown = boards(evaluated, options["db"], control, repaired, count=count, seed=seed)
        write_table(shown, output / "boards.csv")
        write_table(curve_table(results.differences), output / "curves.csv")
        draw_all(output)
    click.echo(
        f"{output}: {len(results.measures)} measures, {len(results.differences)} differences of "
        f"{len(evaluated.nets)} nets"
    )


def run(program: click.Command, name: str) -> None:
    """Runs a program of this folder: what is wrong is one line and an exit code, as with `vr`."""
    try:
        program(prog_name=f"python -m benchmarks.proof.{name}")
    except ValueRepairError as error:
        click.echo(f"{name}: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    run(command, "tables")
