"""The text of an engine and its search, as in ``--deep`` and in the sides of a match: ``stockfish:nodes=1000``.

Also finds the programs of engines.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from valuerepair.errors import UsageError, nearest

if TYPE_CHECKING:
    from valuerepair.engines.kinds import EngineKind

LIMITS = ("nodes", "depth", "movetime")
MOST_MS = 2**31 - 1  # engines keep times and depths in 32 bits
_MOST_NODES = 2**62
_ENGINE_SETTINGS = (*LIMITS, "name", "hash", "timeout", "start-timeout", "arg", "option.NAME")
_SUFFIX = {"": 1, "k": 1_000, "M": 1_000_000}
_COUNT = re.compile(r"(\d[\d_]*)([kM]?)")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|)")
# Debian and its derivatives install games here; the PATH of root and of services lacks these folders.
GAME_FOLDERS = ("/usr/games", "/usr/local/games")
# The path of the Stockfish to use, or `NO_STOCKFISH` to use none.
STOCKFISH_VARIABLE = "VALUEREPAIR_STOCKFISH"
NO_STOCKFISH = "none"


@dataclass(frozen=True)
class EngineSpec:
    """The parsed text of an engine.

    `limits` are nodes, depth, movetime (ms). `path` is the engine's, None to look for it. `weights` is a net's name or
    file (mcts, lc0), None for the default. `options` are UCI options by name, for mcts parameters of the search.
    `arguments` are passed to the program. `timeout` and `start_timeout` are in seconds. `trees` is the number of trees
    searched at once (mcts), None for as many as fill the net's batches. `name` is for tables and PGN. `where`
    begins messages: ``--deep 'TEXT': ``.
    """

    kind: EngineKind
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

    @property
    def text(self) -> str:
        """The text of this spec, ``KIND:SETTING,...``."""
        words = ",".join(word.replace(",", "\\,") for word in self.kind.words(self))
        return f"{self.kind}:{words}" if words else self.kind.name


def count(text: str, where: str, most: int = _MOST_NODES) -> int:
    """A whole number of at least 1, optionally with k or M. Raises UsageError, whose message begins with `where`."""
    match = _COUNT.fullmatch(text)
    number = int(match[1]) * _SUFFIX[match[2]] if match else 0
    if not 0 < number <= most:
        raise UsageError(f"{where}: must be a whole number of at least 1")
    return number


def milliseconds(text: str, where: str) -> int:
    """Milliseconds of ``100ms``, ``0.1s`` or ``100``. Raises UsageError, whose message begins with `where`."""
    match = _TIME.fullmatch(text)
    number = float(match[1]) * (1000 if match[2] == "s" else 1) if match else math.nan
    if not 1 <= number <= MOST_MS:
        raise UsageError(f"{where}: must be a time of at least 1 ms, as 100ms or 0.1s")
    return round(number)


def is_path(text: str) -> bool:
    """Whether a text begins like a path."""
    return text.startswith((os.sep, ".", "~"))


def unknown_setting(where: str, name: str, names: Collection[str], kind: EngineKind | None = None) -> UsageError:
    """The error for an unknown setting, with the most similar of `names`; `kind` if only this kind has them."""
    of_kind = f" of {kind}" if kind is not None else ""
    return UsageError(f"{where}no setting {name!r}{of_kind}{nearest(name, names, listed=True)}")


def is_setting(item: str) -> bool:
    """Whether a word is a setting that all engines have."""
    name, equals, _ = item.partition("=")
    return bool(equals) and (name in _ENGINE_SETTINGS or name.startswith("option."))


def with_setting(spec: EngineSpec, name: str, value: str, others: Collection[str]) -> EngineSpec:
    """A spec with one of the settings that all engines have. `others` are the settings of its kind, for messages.

    Raises UsageError.
    """
    where = f"{spec.where}{name}={value}"
    if name in LIMITS:
        return with_limit(spec, name, value)
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
    if name == "name":
        return with_name(spec, value)
    raise unknown_setting(spec.where, name, (*_ENGINE_SETTINGS, *others))


def with_limit(spec: EngineSpec, name: str, value: str) -> EngineSpec:
    """A spec with one of `LIMITS`. Raises UsageError."""
    where = f"{spec.where}{name}={value}"
    if name == "movetime":
        number = milliseconds(value, where)
    else:
        number = count(value, where, _MOST_NODES if name == "nodes" else MOST_MS)
    return replace(spec, limits={**spec.limits, name: number})


def with_name(spec: EngineSpec, value: str) -> EngineSpec:
    """A spec with a name for tables and PGN. Raises UsageError."""
    if len(value) > 100:
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


def find_engine(name: str) -> str | None:
    """Absolute path of the engine `name`, or None.

    A name with a slash is a path. Other names are looked up on PATH, next to the running Python (a virtual environment
    that is not activated), and in the folders for games. `STOCKFISH_VARIABLE` overrides which engine ``stockfish`` is,
    and whether there is one. Raises UsageError if it names an engine that does not exist.
    """
    chosen = os.environ.get(STOCKFISH_VARIABLE, "") if name == "stockfish" else ""
    if not chosen:
        return _located(name)
    if chosen == NO_STOCKFISH:
        return None
    if (path := _located(chosen)) is None:
        raise UsageError(f"{STOCKFISH_VARIABLE}={chosen}: no such engine; give its path, or {NO_STOCKFISH}")
    return path


def _located(name: str) -> str | None:
    if os.sep in name:
        path = Path(name).expanduser()
        return str(path.absolute()) if path.is_file() and os.access(path, os.X_OK) else None
    folders = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent), *GAME_FOLDERS]
    path_found = shutil.which(name, path=os.pathsep.join(folders))
    return str(Path(path_found).absolute()) if path_found else None
