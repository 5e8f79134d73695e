"""The text of ``--deep``: which evaluator, how deep, with which options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from valuerepair.archives.options import KINDS as RECORDED_KINDS
from valuerepair.archives.options import VIEWS
from valuerepair.engines.spec import (
    ENGINE_KINDS,
    LC0,
    MCTS,
    MOST_MS,
    STOCKFISH,
    EngineSpec,
    count,
    pairs_of,
    parse_engine,
    settings_of,
    unknown_setting,
)
from valuerepair.errors import UsageError
from valuerepair.mcts.params import PARAMETERS, SearchParams

DEFAULT_NODES = {STOCKFISH: 1_000_000, MCTS: 200, LC0: 1_000}
# What the own search judges with beside lc0's settings; measured: docs/methods/judges.md, "The own search as a judge".
JUDGING: Mapping[str, str] = {"certainty": "1", "lookahead": "1", "auto_extend": "1"}
RECORDED = "recorded"
KINDS = (*ENGINE_KINDS, RECORDED)
EXAMPLE = "for example stockfish:nodes=1000000, mcts:nodes=1000 or uci:/path/engine,nodes=1000000"
_RECORDED_SETTINGS: Mapping[str, Sequence[str]] = {
    "kind": tuple(RECORDED_KINDS),
    "view": VIEWS,
    **dict.fromkeys(("by", "net", "min-depth", "min-nodes"), ()),
}


def parse_spec(text: str) -> EngineSpec:
    """Parses ``KIND[:SETTING,...]``, see `parse_engine`; the options of ``recorded`` are its settings.

    An engine has at least one limit, recorded evaluations none. Raises UsageError, which says what is wrong and what
    there is.
    """
    kind, _, rest = text.strip().partition(":")
    where = f"--deep {text!r}: "
    if kind not in KINDS:
        raise UsageError(f"{where}{kind!r} is none of {', '.join(KINDS)}; {EXAMPLE}")
    if kind == RECORDED:
        return EngineSpec(kind, options=_recorded_settings(settings_of(rest), where), where=where)
    spec = parse_engine(kind, settings_of(rest), where, PARAMETERS, EXAMPLE)
    if spec.name is not None:
        raise UsageError(f"{where}name= is for the sides of a match")
    if kind == MCTS:
        if "movetime" in spec.limits:
            raise UsageError(f"{where}movetime= has no place here: the own search judges by nodes")
        SearchParams().with_settings(spec.options, where)
    if not spec.limits:
        if kind not in DEFAULT_NODES:
            raise UsageError(f"{where}say how deep: nodes=N, depth=N or movetime=MILLISECONDS")
        spec = replace(spec, limits={"nodes": DEFAULT_NODES[kind]})
    return spec


def _recorded_settings(items: list[str], where: str) -> dict[str, str]:
    settings = {}
    for name, value in pairs_of(items, where, EXAMPLE):
        if name not in _RECORDED_SETTINGS:
            raise unknown_setting(where, name, tuple(_RECORDED_SETTINGS), " of recorded")
        choices = _RECORDED_SETTINGS[name]
        if choices and value not in choices:
            raise UsageError(f"{where}{name}={value}: give one of {', '.join(choices)}")
        known = str(count(value, f"{where}{name}={value}", MOST_MS)) if name.startswith("min-") else value
        settings[name] = known
    return settings
