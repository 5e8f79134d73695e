"""`python -m benchmarks.proof --data FOLDER -o DIR [PARTS]`: runs the proof, or some of its parts.

What is there already is not made again, so that a run that was stopped goes on. Days of two cores in all.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path
from queue import Queue

import click
import numpy as np

from benchmarks.proof.analysis import PRIMARY_THRESHOLD
from benchmarks.proof.another import Another
from benchmarks.proof.arms import ALPHA, NET, RESULTS_THRESHOLD, SECOND, SHARES, Proof, Setting, Step, write_index
from benchmarks.proof.labels import Labels
from benchmarks.proof.lines import write_openings, write_ordinary
from benchmarks.proof.player import Player
from benchmarks.proof.policy import PolicyTargets
from benchmarks.proof.positions import VALIDATION, read_positions
from benchmarks.proof.shares import Shares
from benchmarks.proof.starts import Starts
from benchmarks.proof.tables import ask, places, read_index, validation_rates
from valuerepair.files import written_whole
from valuerepair.question import Question
from valuerepair.report.alpha_table import alpha_table
from valuerepair.store.store import Store
from valuerepair.training.train import Training, read_curve

QUESTION = Question(threshold=PRIMARY_THRESHOLD, calibration="fitted", alpha=ALPHA)
PARTS = (
    "mine",
    "expand",
    "pilot",
    "main",
    "value",
    "further",
    "ways",
    "aside",
    "scale",
    "results",
    "games",
    "matches",
    "long",
    "measure",
)
# Parts of the second plan: each runs in phases, and needs none of the others.
LATER: dict[str, Callable[[Path, Path, float, Path], Iterable[Iterable[Step]]]] = {
    "labels": lambda data, out, scale, results: Labels(data, out, scale).phases(results),
    "mixture": lambda data, out, scale, results: Player(data, out, scale).mixing(results),
    "player": lambda data, out, scale, results: Player(data, out, scale).playing(results),
    "flatter": lambda data, out, scale, results: Player(data, out, scale).flattened(results),
    "deeper": lambda data, out, scale, results: Player(data, out, scale).deepened(results),
    "own": lambda data, out, scale, results: Player(data, out, scale).of_own_games(results),
    "surprise": lambda data, out, scale, results: Player(data, out, scale).surprised(results),
    "shares": lambda data, out, scale, results: Shares(data, out, scale).phases(results),
    "starts": lambda data, out, scale, results: Starts(data, out, scale).phases(results),
    "policy": lambda data, out, scale, results: PolicyTargets(Player(data, out, scale)).phases(results),
    "repeated": lambda data, out, scale, results: Player(data, out, scale).repeated(results),
    "settled": lambda data, out, scale, results: Player(data, out, scale).settled(results),
    "narrowest": lambda data, out, scale, results: Player(data, out, scale).narrowed(results),
    "shifted": lambda data, out, scale, results: Player(data, out, scale).shifting(results),
    "half": lambda data, out, scale, results: Player(data, out, scale).halving(results),
    "recipe": lambda data, out, scale, results: Player(data, out, scale).recipe(results),
    "whole": lambda data, out, scale, results: Player(data, out, scale).whole(results),
    "another": lambda data, out, scale, results: Another(data, out).first_round(results),
    "again": lambda data, out, scale, results: Another(data, out).second_round(results),
}
# Trained by the store's alpha; by others are scale, which only plays, and results.
_TRAINED = ("main", "value", "further", "ways", "aside", "games", "long")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice((*PARTS, *LATER)))
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True,
              envvar="VALUEREPAIR_TEST_DATA", help="Folder of the archives and nets: tests/README.md.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--results", type=click.Path(file_okay=False, path_type=Path), default="docs/proof", show_default=True)
@click.option("--scale", default=1.0, show_default=True, help=f"Multiplies the sizes of {', '.join(LATER)}.")
@click.option("--print", "printed", is_flag=True, help="Print the commands, and run none.")
def command(parts: tuple[str, ...], data: Path, output: Path, results: Path, scale: float, printed: bool) -> None:
    """Run the proof of docs/proof.md, or some PARTS of it."""
    proof = Proof(data, output)
    for folder in ("nets", "logs", "done"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    for part in parts or (*PARTS, *LATER):
        if part in LATER:
            for phase in LATER[part](data, output, scale, results / SECOND):
                show_or_run(phase, output, printed)
            continue
        if part not in ("mine", "expand"):
            look(proof)
        if part not in ("mine", "expand", "pilot"):
            proof.setting = read_setting(output)
        show_or_run(steps_of(proof, part, results), output, printed)
        if printed:
            continue
        if part == "pilot":
            choose_rates(proof)
        if part in (*_TRAINED, "results"):
            index(proof)
        if part == "main":
            choose_share(proof)


def show_or_run(steps: Iterable[Step], output: Path, printed: bool) -> None:
    """Prints the commands of the steps, or runs those whose output is not there."""
    if printed:
        click.echo("\n".join(f"python -m {step.program} {' '.join(step.command)}" for step in steps))
    else:
        run_all([step for step in steps if not step.output.exists()], output)


def steps_of(proof: Proof, part: str, results: Path) -> Iterable[Step]:
    made: dict[str, Callable[[], Iterable[Step]]] = {
        "mine": proof.mining,
        "expand": proof.expanding,
        "pilot": proof.pilot,
        "main": proof.main,
        "value": proof.value,
        "further": proof.further,
        "ways": proof.ways,
        "aside": proof.aside,
        "scale": proof.scale,
        "results": proof.results,
        "long": proof.long,
        "games": proof.games,
        "matches": proof.matches,
        "measure": lambda: proof.measuring(results),
    }
    return made[part]()


def index(proof: Proof) -> None:
    """Notes the nets that there are."""
    assert proof.setting is not None
    parts = _TRAINED if proof.setting.share is not None else ("main", "value")
    write_index(proof, [step for part in parts for step in steps_of(proof, part, proof.out)], proof.index)
    write_index(proof, list(proof.results()), proof.results_index)


def run_all(steps: Sequence[Step], output: Path) -> None:
    """Runs steps in order, then trainings side by side, each on a core of its own; one alone has all of them."""
    trainings = [step for step in steps if step.command[0] == "train"]
    for step in steps:
        if step not in trainings or len(trainings) == 1:
            run(step, output)
    if len(trainings) < 2:
        return
    cores: Queue[int] = Queue()
    for core in os.sched_getaffinity(0):
        cores.put(core)

    def train(step: Step) -> None:
        core = cores.get()
        try:
            run(step, output, core)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(cores.qsize()) as pool:
        try:
            for done in as_completed([pool.submit(train, step) for step in trainings]):
                done.result()
        except BaseException:  # Ctrl-C, too: what waits is not begun
            pool.shutdown(cancel_futures=True)
            raise


def run(step: Step, output: Path, core: int | None = None) -> None:
    """Runs a step; how long it took goes to hours.csv."""
    if step.name == "play-z-control":
        write_ordinary(*_of(output), QUESTION, 1_000, output / "ordinary.pgn")
    if step.part == "matches":
        write_openings(*_of(output), QUESTION, 1_000, output / "openings.pgn")
    click.echo(f"{time.strftime('%H:%M:%S')} {step.program} {' '.join(step.command)}")
    began = time.monotonic()
    pinned = ["taskset", "-c", str(core)] if core is not None else []
    line = [*pinned, sys.executable, "-m", step.program, *step.command]
    with open(output / "logs" / f"{step.name}.log", "a") as log:
        if step.saves:
            with written_whole(step.output, None) as partial, open(partial, "w") as said:
                subprocess.run(line, check=True, stdout=said, stderr=log)
        else:
            subprocess.run(line, check=True, stdout=log, stderr=log)
    with open(output / "hours.csv", "a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow((step.part, step.name, round(time.monotonic() - began, 1)))
    if step.part != "measure" and not step.output.exists():
        step.output.touch()


def _of(output: Path) -> tuple[str, str]:
    return str(output / "proof.db"), str(output / "split.json")


def look(proof: Proof) -> None:
    """The share of candidates among the positions as sampled; the same by the alpha of results, in whole centipawns."""
    if proof.results_alpha:
        return
    with Store.open(proof.store) as store:
        proof.sampled = _candidates(store, QUESTION)
        proof.results_alpha = float(round(alpha_table(store, QUESTION).fits["results"].alpha))
        by_results = replace(QUESTION, alpha=proof.results_alpha, threshold=RESULTS_THRESHOLD)
        proof.results_sampled = _candidates(store, by_results)


def _candidates(store: Store, question: Question) -> float:
    """The share of candidates."""
    frame = store.frame(question, text=False, only=("disagreement",))
    return float((frame["disagreement"].dropna().abs() >= question.threshold).mean())


def choose_rates(proof: Proof) -> None:
    """The learning rates with the lowest validation loss."""
    best: dict[str, tuple[float, float]] = {}
    for step in proof.pilot():
        found = read_curve(step.output)
        options = found.about["options"]
        reached = last(found, "loss"), float(options["lr"])
        best[options["only"]] = min(reached, best.get(options["only"], reached))
    write_setting(proof, Setting(**{only: lr for only, (_, lr) in best.items()}))


def choose_share(proof: Proof) -> None:
    """The share with the lowest rate of candidates, recalibrated, on the validation games: the mean over the seeds."""
    question = Question(net=NET)
    positions = read_positions(proof.store, proof.split, question)
    positions = positions.take(positions.sets == VALIDATION)
    said = ask(read_index(proof.index), proof.store, positions, proof.out / "kept")
    rates = np.array(validation_rates(said))
    of = places(said.nets)
    assert proof.setting is not None
    best = min(SHARES, key=lambda share: float(rates[of[f"{round(100 * share)}"]].mean()))
    write_setting(proof, replace(proof.setting, share=best))


def last(training: Training, measure: str) -> float:
    return float(training.rows[-1][measure])


def write_setting(proof: Proof, setting: Setting) -> None:
    (proof.out / "setting.json").write_text(json.dumps(asdict(setting), indent=1) + "\n")


def read_setting(output: Path) -> Setting:
    return Setting(**json.loads((output / "setting.json").read_text()))


if __name__ == "__main__":
    command()
