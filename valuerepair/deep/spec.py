"""The text of ``--deep``: which evaluator, how deep, with which options."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from valuerepair.archives.recorded_options import KINDS as RECORDED_KINDS
from valuerepair.archives.recorded_options import VIEWS
from valuerepair.errors import UsageError
from valuerepair.mcts.params import PARAMETERS, SearchParams

LIMITS = ("nodes", "depth", "movetime")
DEFAULT_NODES = {"stockfish": 1_000_000, "mcts": 200, "lc0": 1_000}
# What the own search judges with beside lc0's own settings; measured: docs/methods.md, "The own search as a judge".
JUDGING: Mapping[str, str] = {"certainty": "1", "lookahead": "1", "auto_extend": "1"}
RECORDED = "recorded"
KINDS = ("stockfish", "mcts", "lc0", "uci", RECORDED)
EXAMPLE = "for example stockfish:nodes=1000000, mcts:nodes=1000 or uci:/path/engine,nodes=1000000"

_SETTINGS = (*LIMITS, "path", "weights", "hash", "timeout", "start-timeout", "arg", "option.NAME")
_RECORDED_SETTINGS: Mapping[str, Sequence[str]] = {
    "kind": tuple(RECORDED_KINDS),
    "view": VIEWS,
    **dict.fromkeys(("by", "net", "min-depth", "min-nodes"), ()),
}
_MCTS_SETTINGS = ("nodes", "weights", "trees", *PARAMETERS)
_NUMBER = re.compile(r"(\d[\d_]*)([kM]?)")


@dataclass(frozen=True)
class DeepSpec:
    """A parsed ``--deep``.

    `limits` are nodes, depth, movetime (ms), at least one (recorded: none). `path` is the engine's, None to look for
    it. `weights` is a net's name or file (mcts, lc0). `options` are UCI options by name, for mcts parameters of the
    search, for recorded its settings.
    `timeout` and `start_timeout` are in seconds. `trees` are searched at once (mcts), None for as many as are good.
    """

    kind: str
    limits: Mapping[str, int]
    path: str | None = None
    weights: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    timeout: float | None = None
    start_timeout: float | None = None
    trees: int | None = None


def parse_spec(text: str) -> DeepSpec:
    """Parses ``KIND[:SETTING,...]``; a comma inside a value is written ``\\,``. For ``uci`` the engine comes first.

    Numbers may end in k or M. Raises UsageError, which says what is wrong and what there is.
    """
    kind, _, rest = text.strip().partition(":")
    if kind not in KINDS:
        raise UsageError(f"--deep {text!r}: {kind!r} is none of {', '.join(KINDS)}; {EXAMPLE}")
    items = [item.replace("\\,", ",").strip() for item in re.split(r"(?<!\\),", rest)] if rest else []
    spec = DeepSpec(kind, {})
    if kind == "uci":
        if not items or not items[0] or _is_setting(items[0]):
            raise UsageError(f"--deep {text!r}: say which engine: uci:/path/engine,nodes=1000000")
        spec = replace(spec, path=items.pop(0))
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not value:
            raise UsageError(f"--deep {text!r}: {item!r} is not NAME=VALUE; {EXAMPLE}")
        take = {"mcts": _with_mcts_setting, RECORDED: _with_recorded_setting}.get(kind, _with_setting)
        spec = take(spec, text, name.strip(), value.strip())
    if not spec.limits and kind != RECORDED:
        if kind == "uci":
            raise UsageError(f"--deep {text!r}: say how deep: nodes=N, depth=N or movetime=MILLISECONDS")
        spec = replace(spec, limits={"nodes": DEFAULT_NODES[kind]})
    return spec


def _is_setting(item: str) -> bool:
    name, equals, _ = item.partition("=")
    return bool(equals) and (name in _SETTINGS or name.startswith("option."))


def _with_setting(spec: DeepSpec, text: str, name: str, value: str) -> DeepSpec:
    if name in LIMITS:
        return replace(spec, limits={**spec.limits, name: _whole(text, name, value)})
    if name == "hash":
        return replace(spec, options={**spec.options, "Hash": str(_whole(text, name, value))})
    if name.startswith("option.") and len(name) > len("option."):
        return replace(spec, options={**spec.options, name[len("option.") :]: value})
    if name == "timeout":
        return replace(spec, timeout=_seconds(text, name, value))
    if name == "start-timeout":
        return replace(spec, start_timeout=_seconds(text, name, value))
    if name == "arg":
        return replace(spec, arguments=(*spec.arguments, value))
    if name == "path" and spec.kind != "uci":
        return replace(spec, path=value)
    if name == "weights":
        if spec.kind != "lc0":
            raise UsageError(f"--deep {text!r}: weights= is for lc0; other engines take option.NAME=VALUE")
        return replace(spec, weights=value)
    near = difflib.get_close_matches(name, _SETTINGS, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_SETTINGS)}"
    raise UsageError(f"--deep {text!r}: no setting {name!r}; {hint}")


def _with_mcts_setting(spec: DeepSpec, text: str, name: str, value: str) -> DeepSpec:
    where = f"--deep {text!r}: "
    if name == "nodes":
        return replace(spec, limits={"nodes": _whole(text, name, value)})
    if name == "trees":
        return replace(spec, trees=_whole(text, name, value))
    if name == "weights":
        return replace(spec, weights=value)
    key = name.lower().replace("-", "_")
    if key not in PARAMETERS:
        near = difflib.get_close_matches(key, _MCTS_SETTINGS, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_MCTS_SETTINGS)}"
        raise UsageError(f"{where}no setting {name!r} of mcts; {hint}")
    options = {**spec.options, key: value}
    SearchParams().with_settings(options, where)
    return replace(spec, options=options)


def _with_recorded_setting(spec: DeepSpec, text: str, name: str, value: str) -> DeepSpec:
    if name not in _RECORDED_SETTINGS:
        near = difflib.get_close_matches(name, _RECORDED_SETTINGS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_RECORDED_SETTINGS)}"
        raise UsageError(f"--deep {text!r}: no setting {name!r} of recorded; {hint}")
    choices = _RECORDED_SETTINGS[name]
    if choices and value not in choices:
        raise UsageError(f"--deep {text!r}: {name}={value}: give one of {', '.join(choices)}")
    if name.startswith("min-"):
        value = str(_whole(text, name, value))
    return replace(spec, options={**spec.options, name: value})


def _whole(text: str, name: str, value: str) -> int:
    match = _NUMBER.fullmatch(value)
    number = int(match[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[match[2]] if match else 0
    # Engines keep limits in 32 or 64 signed bits, and wrap around beyond them.
    most = 2**31 - 1 if name != "nodes" else 2**62
    if not 0 < number <= most:
        raise UsageError(f"--deep {text!r}: {name}={value}: must be a whole number of at least 1")
    return number


def _seconds(text: str, name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e7:
        raise UsageError(f"--deep {text!r}: {name}={value}: must be a number of seconds above 0")
    return seconds
