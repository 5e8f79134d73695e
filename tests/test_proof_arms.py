"""The proof's commands are commands of `vr`, and its arms differ in what they are named for, and in nothing else."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest

from benchmarks.proof.__main__ import PARTS, steps_of
from benchmarks.proof.arms import SEEDS, SHARES, Proof, Setting, Step, write_index
from tests.cli_tree import parse
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.params import SearchParams
from valuerepair.training.options import TrainOptions

PROOF = Proof(Path("data"), Path("out"), Setting(all=1e-4, value=3e-4, share=0.2), 0.036, 113.0, 0.078)


def trainings(part: str) -> list[Step]:
    return [step for step in steps_of(PROOF, part, Path("results")) if step.command[0] == "train"]


@pytest.mark.parametrize("part", PARTS)
def test_every_command_is_one(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check_output", "check_regular", "check_folder"):  # folders are made as the steps are run
        monkeypatch.setattr(f"valuerepair.cli.files.{check}", lambda *_: None)
    steps = list(steps_of(PROOF, part, Path("results")))
    assert steps
    for step in steps:
        program = cli if step.program == "valuerepair" else import_module(step.program).command
        if step.program != "valuerepair" and {"--split", str(PROOF.out)} & set(step.command):  # what is not there
            with pytest.raises(click.BadParameter, match="does not exist"):
                parse(list(step.command), program)
        else:
            parse(list(step.command), program)
        for word, setting in pairwise(step.command):
            if word == "--set":
                options: Any = TrainOptions() if step.command[0] == "train" else SearchParams()
                options.with_settings(dict([setting.split("=")]))


@pytest.mark.parametrize("part", ["main", "value", "further", "ways", "aside", "scale", "results", "long", "games"])
def test_no_two_steps_make_the_same(part: str) -> None:
    outputs = [step.output for step in steps_of(PROOF, part, Path("results"))]
    assert len(set(outputs)) == len(outputs)


@pytest.mark.parametrize("part", ["main", "value"])
def test_arms_differ_in_their_candidates_alone(part: str) -> None:
    found = trainings(part)
    assert len(found) == len(SEEDS) * (2 + len(SHARES))
    own = ("--output", "-o", "--share", "--expanded", "--seed")
    left = {tuple(w for k, w in enumerate(step.command) if step.command[k - 1] not in own) for step in found}
    assert len(left) == 1
    for step in found:
        words = list(step.command)
        arm, seed = step.output.name.removesuffix(".pb.gz").rsplit("-", 1)
        assert words[words.index("--seed") + 1] == seed
        share = float(words[words.index("--share") + 1])
        assert (
            share == {"control": 0.0, "sampled": 0.036}.get(arm.split("-")[-1])
            or share == int(arm.split("-")[-1]) / 100
        )


def test_arms_by_results_differ_in_their_share_alone() -> None:
    left = set()
    for step in (found := trainings("results")):
        words = list(step.command)
        assert words[words.index("--alpha") + 1] == "113"
        assert words[words.index("--threshold") + 1] == "0.55"
        left.add(tuple(w for k, w in enumerate(words) if words[k - 1] not in ("-o", "--share", "--seed")))
    assert len(left) == 1
    assert {step.output.name.removesuffix(".pb.gz").rsplit("-", 1)[0] for step in found} == {
        "results-control",
        "results-sampled",
        "results-15",
    }
    assert {
        words[k + 1] for step in found for words in [list(step.command)] for k, w in enumerate(words) if w == "--share"
    } == {"0", "0.078", "0.15"}


@pytest.mark.parametrize("part", ["main", "value", "further", "ways", "aside", "long"])
def test_everything_is_trained_by_one_alpha(part: str) -> None:
    """That of candidates, which `vr train` would not take by itself."""
    for step in trainings(part):
        words = list(step.command)
        assert words[words.index("--alpha") + 1] == "393"


@pytest.mark.parametrize(("part", "program"), [("ways", "likely"), ("aside", "beside")])
def test_what_is_drawn_by_weights_is_drawn_by_those_made_before(part: str, program: str) -> None:
    steps = list(steps_of(PROOF, part, Path("results")))
    (weights,) = (step for step in steps if step.program == f"benchmarks.proof.{program}")
    drawn = [list(step.command) for step in steps if "--draw" in step.command]
    assert len(drawn) == len(SEEDS)
    assert {words[words.index("--draw") + 1] for words in drawn} == {str(weights.output)}
    assert {words[words.index("--store") + 1] for words in drawn} == {
        weights.command[weights.command.index("--db") + 1]
    }


def test_weights_and_targets_are_of_one_alpha() -> None:
    """Where candidates are drawn more often, they are those by the alpha of the targets."""
    steps = {step.output.stem: list(step.command) for step in steps_of(PROOF, "scale", Path("results"))}
    words, trained = steps["aside-x3"], steps["aside-170-x3-0.pb"]
    assert trained[trained.index("--draw") + 1].endswith("aside-x3.parquet")
    assert words[words.index("--alpha") + 1] == "170"
    for net in ("sampled-170-0.pb", "aside-170-0.pb", "aside-170-x3-0.pb"):
        assert steps[net][steps[net].index("--alpha") + 1] == "170"


def test_nets_of_another_step_than_the_last_are_refused(tmp_path: Path) -> None:
    """`vr train` writes the step that validation likes best; the plan says the last one."""
    proof = Proof(tmp_path, tmp_path, PROOF.setting)
    step = next(step for step in proof.main() if step.output.name == "control-0.pb.gz")
    step.output.parent.mkdir()
    step.output.touch()
    curve: dict[str, Any] = {"output": "control-0.pb.gz", "net": {"name": "maia-1900"}, "options": {"steps": 1000}}
    curve |= {"written": {"step": 1000}, "curve": [{"step": 0, "train_loss": None}]}
    written = step.output.with_name("control-0.training.json")
    written.write_text(json.dumps(curve))
    write_index(proof, [step], proof.index)
    assert ("control", 0, str(step.output)) in _rows(proof.index)
    written.write_text(json.dumps(curve | {"written": {"step": 0}}))
    with pytest.raises(ValueRepairError, match="validation chose another step than the last"):
        write_index(proof, [step], proof.index)


def _rows(index: Path) -> list[tuple[str, int, str]]:
    with open(index, newline="") as file:
        return [(row["arm"], int(row["seed"]), row["net"]) for row in csv.DictReader(file)]
