"""The UCI options: all parameters of the search, under lc0's names where lc0 has them, and the engine's own options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from valuerepair.errors import UsageError, nearest
from valuerepair.mcts.params import CHOICES, PARAMETER_NAMES, RANGES, SearchParams
from valuerepair.nets.devices import DEVICES

_MOST_SPIN = 2**31 - 1  # GUIs keep numbers in 32 bits


@dataclass(frozen=True)
class EngineSettings:
    """The settings of a user: parameters of the search, the net, the output, and the use of time.

    `weights` is a net's name or file, empty for the default net. `threads` are those of the net, 0 for all cores.
    `minibatch` replaces the parameter `minibatch_size`: 0 is the fastest size, 1 the sequential search. `hash_mb` (MiB)
    limits the tree. `multipv` is the number of lines shown. `smart_pruning` is lc0's factor: a search by the clock ends
    when no other move can overtake the best one at the speed so far divided by it. 0 switches this off; searches by
    nodes never end early.
    """

    params: SearchParams = field(default_factory=SearchParams)
    weights: str = ""
    device: str = "auto"
    threads: int = 0
    minibatch: int = 0
    hash_mb: int = 512
    multipv: int = 1
    ponder: bool = False
    show_wdl: bool = False
    verbose: bool = False
    move_overhead_ms: int = 200
    smart_pruning: float = 1.33


@dataclass(frozen=True)
class _OwnOption:
    """An option of the engine itself: the field of `EngineSettings` that it sets, and its range or its choices."""

    name: str
    setting: str
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()


_ENGINE_OPTIONS = (
    _OwnOption("WeightsFile", "weights"),
    _OwnOption("Device", "device", choices=DEVICES),
    _OwnOption("Threads", "threads", 0, 1024),
    _OwnOption("MinibatchSize", "minibatch", 0, 1024),
    _OwnOption("Hash", "hash_mb", 1, 1 << 20),
    _OwnOption("MultiPV", "multipv", 1, 500),
    _OwnOption("Ponder", "ponder"),
    _OwnOption("UCI_ShowWDL", "show_wdl"),
    _OwnOption("VerboseMoveStats", "verbose"),
    _OwnOption("MoveOverheadMs", "move_overhead_ms", 0, 100_000),
    _OwnOption("SmartPruningFactor", "smart_pruning"),
)
# By the name in lower case: an option of the engine, or a parameter of the search.
_BY_NAME: Mapping[str, _OwnOption | str] = {option.name.lower(): option for option in _ENGINE_OPTIONS} | {
    name.lower(): parameter for parameter, name in PARAMETER_NAMES.items()
}
_ALL_NAMES = (*(option.name for option in _ENGINE_OPTIONS), *PARAMETER_NAMES.values())


def option_lines(settings: EngineSettings) -> list[str]:
    """The ``option name ...`` lines of the handshake, with `settings` as defaults."""
    lines = [
        _line(option.name, getattr(settings, option.setting), (option.low, option.high), option.choices)
        for option in _ENGINE_OPTIONS
    ]
    for parameter, name in PARAMETER_NAMES.items():
        value = getattr(settings.params, parameter)
        lines.append(_line(name, value, RANGES.get(parameter), CHOICES.get(parameter, ())))
    return lines


def _line(name: str, value: object, limits: tuple[float, float] | None, choices: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return f"option name {name} type check default {str(value).lower()}"
    if choices:
        return f"option name {name} type combo default {value} " + " ".join(f"var {choice}" for choice in choices)
    if isinstance(value, int) and limits is not None:
        return f"option name {name} type spin default {value} min {limits[0]:.0f} max {min(limits[1], _MOST_SPIN):.0f}"
    if isinstance(value, float):
        return f"option name {name} type string default {value:.6f}"
    return f"option name {name} type string default {value or '<empty>'}"


def with_option(settings: EngineSettings, name: str, value: str) -> EngineSettings:
    """The settings with one option changed; names and choices are case-insensitive, as in UCI.

    Raises UsageError for an unknown option, with the nearest one, or for a value that the option cannot have.
    """
    option = _BY_NAME.get(name.lower())
    if option is None:
        raise UsageError(f"no option {name!r}{nearest(name, _ALL_NAMES)}")
    if value == "<empty>":
        value = ""
    if isinstance(option, _OwnOption):
        change: dict[str, Any] = {option.setting: _setting_of(option, settings, value)}
        return replace(settings, **change)
    if option == "n_scl" and value == "0":
        value = "inf"
    value = _spelled(value, CHOICES.get(option, ()))
    try:
        return replace(settings, params=settings.params.with_settings({option: value}))
    except UsageError as error:
        reason = str(error).removeprefix(f"{option}={value}: ")
        raise UsageError(f"option {PARAMETER_NAMES[option]}={value}: {reason}") from None


def _spelled(text: str, choices: Sequence[str]) -> str:
    """The choice that a text means, as it is written here; any other text as it is."""
    return next((choice for choice in choices if choice.lower() == text.lower()), text)


def _setting_of(option: _OwnOption, settings: EngineSettings, text: str) -> str | int | float | bool:
    """The value that a text means, of the type that the setting has now. Raises UsageError."""
    current = getattr(settings, option.setting)
    message_start = f"option {option.name}={text}: "
    if isinstance(current, bool):
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{message_start}must be true or false")
        return text.lower() == "true"
    if isinstance(current, int):
        if not text.isdecimal() or not option.low <= int(text) <= option.high:
            raise UsageError(f"{message_start}must be a whole number from {option.low} to {option.high}")
        return int(text)
    if isinstance(current, float):
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 100:
            raise UsageError(f"{message_start}must be a number from 0 to 100")
        return number
    text = _spelled(text, option.choices)
    if option.choices and text not in option.choices:
        raise UsageError(f"{message_start}must be one of {', '.join(option.choices)}")
    return text
