"""The options that several commands have, each defined once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from valuerepair.cli.files import File, Output, OutputFolder
from valuerepair.errors import pairs_of
from valuerepair.nets.devices import DEVICES, REFERENCE_DEVICES
from valuerepair.question import DEFAULT_THRESHOLD, Question, Worst
from valuerepair.store import DEFAULT_PATH

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = File()
ARCHIVE = FILE
NEW_FOLDER = OutputFolder()
GAMES_FILE = FILE  # of an earlier run, which is continued
OUTPUT = Output()


def parse_threshold(value: Any) -> float | Worst:
    """``0.55``, or ``worst:2%``: a type of options. Raises BadParameter."""
    if isinstance(value, Worst):
        return value
    text = str(value)
    with suppress(ValueError):
        if text.startswith("worst:"):
            share = float(text[6:].removesuffix("%")) / (100 if text.endswith("%") else 1)
            if 0 < share < 1:
                return Worst(share)
        elif 0 < float(text) <= 2:
            return float(text)
    raise click.BadParameter(
        f"{text}: give |net Q - deep Q|, above 0 and at most 2, or a share of the positions as worst:2%"
    )


DB = click.option("--db", type=FILE, default=DEFAULT_PATH, envvar="VR_DB", help="The store.")
JSON = click.option("--json", is_flag=True, help="Print one JSON object.")
JSON_LINES = click.option("--json", is_flag=True, help="Print one JSON object per line.")
SEED = functools.partial(click.option, "--seed", type=click.IntRange(0), default=0)
JOBS = functools.partial(click.option, "--jobs", type=int)
NET = click.option("--net", metavar="NET", help="Net by name or file.  [default: maia-1900]")
DEEP = functools.partial(click.option, "--deep", metavar="SPEC")


def _listed_by_help(context: click.Context, _: click.Parameter, settings: tuple[str, ...]) -> tuple[str, ...]:
    """The settings; ``help`` among them prints all parameters and ends the command."""
    if "help" in settings and not context.resilient_parsing:
        from valuerepair.mcts.params import SearchParams

        click.echo("\n".join(SearchParams().lines()))
        context.exit()
    return settings


SET = click.option(
    "--set",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_listed_by_help,
    help="A search parameter; may be repeated. help: list them all.",
)


_HELD_OUT = ("games", "families", "held-out")


def part_option(*others: str, help: str, default: str) -> Callable[[Command], Command]:
    """``--part``: a held-out part of the store, all of these, or one of the `others`; by default `default`."""
    return click.option(
        "--part",
        type=click.Choice([*others, *_HELD_OUT]),
        help=f"{help} (vr split); held-out: all that is held out.  [default: {default}]",
    )


def several(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """A decorator that adds all of these options, in this order."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


RESIGN = click.option(
    "--resign", default=0.0, help="Resign when the winning chance falls below this percentage; 0 disables it."
)


def device_option(*, reference: bool = False) -> Callable[[Command], Command]:
    """``--device``; with `reference` only devices that compute at float32, for the exact values of a net."""
    return click.option(
        "--device",
        type=click.Choice(REFERENCE_DEVICES if reference else DEVICES),
        default="auto",
        envvar="VR_DEVICE",
        help="Device for nets: auto is CUDA where it works, else the CPU.",
    )


def question(
    threshold: str | None = "Smallest |net Q - deep Q| of a candidate.",
    *,
    net: str | None = "Net in the store, by name, file or SHA-256.  [default: the one in use]",
    or_all: bool = False,
) -> Callable[[Command], Callable[..., Any]]:
    """The options ``--threshold`` and ``--net``, which the command gets as one `question`.

    `threshold` and `net` are their help; None leaves an option out. With `or_all` the command also gets
    `candidates_only`: whether a threshold was given.
    """
    usual = "all positions" if or_all else f"the one in use, at first {DEFAULT_THRESHOLD:g}"
    help = f"{threshold} Or a share of the positions: worst:2%.  [default: {usual}]"
    options = [
        threshold and click.option("--threshold", type=parse_threshold, metavar="THRESHOLD", help=help),
        net and click.option("--net", help=net),
    ]

    def decorate(command: Command) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_question(*positional: Any, **named: Any) -> Any:
            given = named.pop("threshold", None)
            if or_all:
                named["candidates_only"] = given is not None
            from valuerepair.api.calls import threshold_in_use

            asked = Question(net=named.pop("net") if net else None)
            if isinstance(given, Worst):
                return command(*positional, question=Worst(given.share, asked), **named)
            number = threshold_in_use(named["db"]) if given is None else given
            return command(*positional, question=replace(asked, threshold=number), **named)

        return several(*(option for option in options if option))(with_question)

    return decorate


def typed(*names: str) -> list[str]:
    """Those of the options `names` that were typed on the command line, as ``--name``.

    Defaults of a configuration file do not count: they may be meant for other commands.
    """
    source_of = click.get_current_context().get_parameter_source
    return [f"--{name.replace('_', '-')}" for name in names if source_of(name) is ParameterSource.COMMANDLINE]


def settings_of(
    options: Mapping[str, Any],
    names: tuple[str, ...] = (),
    *,
    listed: str = "`--set help` lists them all",
) -> dict[str, str]:
    """Parameters as text: from ``--set``, and from the options called `names`. Raises UsageError."""
    settings = {name: options[name] for name in names if options[name] is not None}
    return settings | dict(pairs_of(options["set"], "--set ", listed))
