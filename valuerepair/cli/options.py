"""The options that several commands have, each defined once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource

from valuerepair.cli.files import File, Output, OutputFolder
from valuerepair.errors import pairs_of
from valuerepair.nets.devices import DEVICES, REFERENCE_DEVICES
from valuerepair.question import DEFAULT_THRESHOLD, Expanded, QFrom, Question, Worst
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


@dataclass(frozen=True)
class AlphaOption:
    """Where deep Q comes from: centipawns by this alpha (None: auto), or the engine's W/D/L."""

    alpha: float | None = None
    q_from: QFrom = "cp"

    def __str__(self) -> str:
        return "wdl" if self.q_from == "wdl" else "auto" if self.alpha is None else f"{self.alpha:g}"


def _parse_alpha(value: Any) -> AlphaOption:
    if isinstance(value, AlphaOption):
        return value
    if value in ("auto", "wdl"):
        return AlphaOption() if value == "auto" else AlphaOption(None, "wdl")
    try:
        return AlphaOption(float(value))
    except ValueError:
        raise click.BadParameter(f"{value}: give a number of centipawns, auto or wdl") from None


DB = click.option("--db", type=FILE, default=DEFAULT_PATH, envvar="VR_DB", help="The store.")
JSON = click.option("--json", is_flag=True, help="Print one JSON object.")
JSON_LINES = click.option("--json", is_flag=True, help="Print one JSON object per line.")
SEED = functools.partial(click.option, "--seed", type=click.IntRange(0), default=0)
JOBS = functools.partial(click.option, "--jobs", type=int)
NET = click.option("--net", metavar="NET", help="Net by name or file.  [default: maia-1900]")
DEEP = functools.partial(click.option, "--deep", metavar="SPEC")


def alpha_option(
    auto: str = "the saved one, else a fit to 300 or more positions, else 170",
) -> Callable[[Command], Command]:
    """``--alpha``; `auto` says what the value ``auto`` means in this command, by default that of `Store.alpha`."""
    help = f"Scale from centipawns to Q; wdl: take Q from the engine's W/D/L; auto: {auto}."
    return click.option("--alpha", type=_parse_alpha, metavar="ALPHA", default="auto", help=help)


ALPHA = alpha_option()


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


SPLIT = functools.partial(click.option, "--split", type=FILE, metavar="FILE")
_HELD_OUT = ("games", "families", "held-out")


def part_option(*others: str, help: str, default: str) -> Callable[[Command], Command]:
    """``--part``: a held-out part of ``--split``, all of these, or one of the `others`; by default `default`."""
    return click.option(
        "--part",
        type=click.Choice([*others, *_HELD_OUT]),
        help=f"{help}; held-out: all held-out parts.  [default: {default}]",
    )


ORACLE = click.option(
    "--oracle",
    help="Deep search in the store, by label or digest.  [default: the one with the most scored positions]",
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


_WHICH_EXPANDED = "exclude them, include the searched ones, or include all, also those with inferred values."
EXPANDED = "Positions beside the games (vr mine --off-game) and those of vr expand: " + _WHICH_EXPANDED
EXPANDED_TO_LEARN = (
    "Positions of vr expand: "
    + _WHICH_EXPANDED
    + " Positions beside the games (vr mine --off-game) are always learned."
)


def question(
    threshold: str | None = "Smallest |net Q - deep Q| of a candidate.",
    *,
    default: float | None = DEFAULT_THRESHOLD,
    scale: bool = True,
    oracle: bool = True,
    net: str | None = "Net in the store, by name, file or SHA-256.  [default: the one with the most scored positions]",
    expanded: str | None = EXPANDED,
) -> Callable[[Command], Callable[..., Any]]:
    """The options that make up a `Question`; the command gets them as one `question`.

    If the `default` is None, the command also gets `candidates_only`: whether a threshold was given. The flags leave
    options out if they are False: the question then uses the store's alpha (`scale`) or
    the oracle with the most scored positions (`oracle`). `threshold`, `net` and `expanded` are the help of these
    options; None leaves them out, too.
    """
    text, bracket, default_words = (threshold or "").partition("  [default: ")
    options = {
        "threshold": threshold
        and click.option(
            "--threshold",
            type=parse_threshold,
            metavar="THRESHOLD",
            default=default,
            help=f"{text} Or a share of the positions: worst:2%.{bracket}{default_words}",
        ),
        "net": net and click.option("--net", help=net),
        "oracle": oracle and ORACLE,
        "alpha": scale and ALPHA,
        "expanded": expanded
        and click.option("--expanded", type=click.Choice(get_args(Expanded)), default="no", help=expanded),
    }
    fields = [name for name in ("net", "oracle", "expanded") if options[name]]

    def decorate(command: Command) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_question(*positional: Any, **named: Any) -> Any:
            alpha: AlphaOption = named.pop("alpha", AlphaOption())
            share_or_size = named.pop("threshold", None)
            if threshold and default is None:
                named["candidates_only"] = share_or_size is not None
            question = Question(alpha=alpha.alpha, q_from=alpha.q_from, **{name: named.pop(name) for name in fields})
            if isinstance(share_or_size, Worst):
                return command(*positional, question=Worst(share_or_size.share, question), **named)
            if share_or_size is not None:
                question = replace(question, threshold=share_or_size)
            return command(*positional, question=question, **named)

        return several(*(option for option in options.values() if option))(with_question)

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
