"""A side of a match as text: a configuration of the project's own search, or a UCI engine."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from valuerepair.errors import UsageError
from valuerepair.mcts.params import PARAMETERS, SearchParams
from valuerepair.play.time_control import count, milliseconds

NET, STOCKFISH, LC0, UCI = "net", "stockfish", "lc0", "uci"
KINDS = (STOCKFISH, LC0, UCI)
LIMITS = ("nodes", "depth", "movetime")
EXAMPLE = "for example net=maia-1900,nodes=800,n_scl=5 or stockfish:nodes=1000 or /path/engine,option.Hash=16"
# Short words for what they stand for.
_ALIASES = {"contempt": "n_scl", "weights": "net"}
_NET_SETTINGS = ("net", "nodes", "movetime", "name", *PARAMETERS, "contempt")
_ENGINE_SETTINGS = (*LIMITS, "name", "hash", "timeout", "start-timeout", "arg", "option.NAME")
_MORE_SETTINGS = {STOCKFISH: ("path",), LC0: ("path", "weights"), UCI: ()}


@dataclass(frozen=True)
class Side:
    """A parsed side of a match.

    `kind` is `NET` (the own search) or one of `KINDS`. `limits` are its own, in place of the match's: nodes, depth,
    movetime (ms). `net` is a net's name or file (own search, lc0), None for the default. `options` are parameters of
    the own search, or UCI options by name. `path` is the engine's, None to look for it; `timeout` and `start_timeout`
    are in seconds. `name` is for tables and PGN, None to take the engine's or the net's.
    """

    text: str
    kind: str
    limits: Mapping[str, int] = field(default_factory=dict)
    name: str | None = None
    net: str | None = None
    path: str | None = None
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    start_timeout: float | None = None

    @property
    def params(self) -> SearchParams:
        """Parameters of the own search."""
        return SearchParams().with_settings(self.options, f"side {self.text!r}: ")


def parse_side(text: str) -> Side:
    """Reads a side; a comma inside a value is written ``\\,``.

    ``net=NET,nodes=N,...`` with any parameter of the search (`contempt` is `n_scl`) is the own search; ``stockfish``,
    ``lc0`` and ``uci`` are engines as in ``--deep``, ``KIND:SETTING,...``; anything that begins with a path or a name
    is a UCI engine. Raises UsageError, which says what is wrong and what there is.
    """
    items = [item.replace("\\,", ",").strip() for item in re.split(r"(?<!\\),", text.strip())]
    if not items[0]:
        raise UsageError(f"side {text!r}: says nothing; {EXAMPLE}")
    side, items = _begun(text, items)
    take = _with_net_setting if side.kind == NET else _with_engine_setting
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value:
            raise UsageError(f"side {text!r}: {item!r} is not NAME=VALUE; {EXAMPLE}")
        side = replace(side, name=_printable(side, value)) if name == "name" else take(side, name, value)
    if side.kind == NET:
        SearchParams().with_settings(side.options, f"side {text!r}: ")
    return side


def _begun(text: str, items: list[str]) -> tuple[Side, list[str]]:
    """What kind of side the first item says, and the settings that follow."""
    kind, colon, first = items[0].partition(":")
    if colon and kind in (*KINDS, "mcts") and os.sep not in kind:
        items = [first, *items[1:]] if first else items[1:]
        if kind == "mcts":
            return Side(text, NET), items
    elif items[0] in (STOCKFISH, LC0):
        kind, items = items[0], items[1:]
    elif "=" not in items[0] or items[0].startswith((os.sep, ".", "~")):
        if items[0].endswith((".pb.gz", ".pb", ".onnx")):
            raise UsageError(f"side {text!r}: a net is given as net={items[0]}")
        kind = UCI
    else:
        return Side(text, NET), items
    if kind != UCI:
        return Side(text, kind), items
    if not items or not items[0] or _is_setting(items[0]):
        raise UsageError(f"side {text!r}: say which engine: uci:/path/engine,nodes=1000")
    return Side(text, UCI, path=items[0]), items[1:]


def _is_setting(item: str) -> bool:
    name, equals, _ = item.partition("=")
    return bool(equals) and (name in _ENGINE_SETTINGS or name.startswith("option."))


def _with_net_setting(side: Side, name: str, value: str) -> Side:
    key = name.lower().replace("-", "_")
    key = _ALIASES.get(key, key)
    if key == "net":
        return replace(side, net=value)
    if key in ("nodes", "movetime"):
        return _with_limit(side, key, value)
    if key not in PARAMETERS:
        raise _unknown(side, name, _NET_SETTINGS)
    return replace(side, options={**side.options, key: value})


def _with_engine_setting(side: Side, name: str, value: str) -> Side:
    if name in LIMITS:
        return _with_limit(side, name, value)
    if name == "hash":
        hash_mb = str(count(value, f"side {side.text!r}: {name}={value}"))
        return replace(side, options={**side.options, "Hash": hash_mb})
    if name.startswith("option.") and len(name) > len("option."):
        return replace(side, options={**side.options, name[len("option.") :]: value})
    if name == "arg":
        return replace(side, arguments=(*side.arguments, value))
    if name == "timeout":
        return replace(side, timeout=_seconds(side, name, value))
    if name == "start-timeout":
        return replace(side, start_timeout=_seconds(side, name, value))
    if name == "path" and side.kind != UCI:
        return replace(side, path=value)
    if name == "weights" and side.kind == LC0:
        return replace(side, net=value)
    if name == "weights":
        raise UsageError(f"side {side.text!r}: weights= is for lc0; other engines take option.NAME=VALUE")
    raise _unknown(side, name, (*_ENGINE_SETTINGS, *_MORE_SETTINGS[side.kind]))


def _with_limit(side: Side, name: str, value: str) -> Side:
    where = f"side {side.text!r}: {name}={value}"
    number = milliseconds(value, where) if name == "movetime" else count(value, where)
    return replace(side, limits={**side.limits, name: number})


def _unknown(side: Side, name: str, known: tuple[str, ...]) -> UsageError:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return UsageError(f"side {side.text!r}: no setting {name!r}; {hint}")


def _seconds(side: Side, name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e7:
        raise UsageError(f"side {side.text!r}: {name}={value}: must be a number of seconds above 0")
    return seconds


def _printable(side: Side, value: str) -> str:
    if len(value) > 100 or not value.isprintable():
        raise UsageError(f"side {side.text!r}: name={value[:40]!r}: must be at most 100 printable characters")
    return value
