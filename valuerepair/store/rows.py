"""What is written to a store and read from it: results of searches, who searched, runs."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.version import __version__

# A move with its prior in the cell net_values.policy.
POLICY = np.dtype([("move", "<u2"), ("p", "<f4")])


@dataclass(frozen=True, slots=True)
class DeepResult:
    """The outcome of one deep search, from the side to move; Q is computed from it later, for any alpha.

    `cp` is centipawns, `mate` moves to mate (negative: the side to move is mated); one of them is None. `wdl` is the
    engine's win, draw and loss per mille. `q` in [-1, 1] is None unless the judge has a Q of its own.
    """

    cp: int | None = None
    mate: int | None = None
    wdl: tuple[int, int, int] | None = None
    q: float | None = None
    depth: int = 0
    seldepth: int = 0
    nodes: int = 0
    time_ms: int = 0
    best_move: str | None = None
    pv: tuple[str, ...] = ()

    @property
    def scores(self) -> tuple[float | None, ...]:
        """What Q is computed from: cp, mate, W, D, L and own Q, see `chess.values.deep_q`."""
        return (self.cp, self.mate, *(self.wdl or (None, None, None)), self.q)


class DeepColumns(NamedTuple):
    """n outcomes of deep searches, each column a list of n as in `DeepResult`, `pv` with blanks between the moves."""

    cp: Sequence[int | None]
    mate: Sequence[int | None]
    win: Sequence[int | None]
    draw: Sequence[int | None]
    loss: Sequence[int | None]
    q: Sequence[float | None]
    depth: Sequence[int]
    seldepth: Sequence[int]
    nodes: Sequence[int]
    time_ms: Sequence[int]
    best_move: Sequence[str | None]
    pv: Sequence[str]

    @staticmethod
    def of(scores: Sequence[DeepResult]) -> DeepColumns:
        """The columns of any outcomes."""
        rows = [
            (s.cp, s.mate, *(s.wdl or (None,) * 3), s.q, s.depth, s.seldepth, s.nodes, s.time_ms, s.best_move,
             " ".join(s.pv))
            for s in scores
        ]  # fmt: skip
        return DeepColumns(*(list(column) for column in (zip(*rows, strict=True) if rows else [()] * 12)))


def engine_words(engine: str) -> str:
    """The name of an engine in labels. The name of our own search contains the first release that gave these values;
    digests include the release, and labels leave it out."""
    return engine.lower().replace("valuerepair 0.1.0 search", "valuerepair search")


@dataclass(frozen=True)
class JudgeIdentity:
    """Everything a judge's values depend on: two with the same `digest` give the same values.

    `kind` is ``stockfish``, ``mcts``, ``lc0``, ``uci`` or ``recorded``; `engine` the name and version that the engine
    gives; `sha256` of its program, or of the net if the search is our own. `limits` bound one search (``nodes``,
    ``depth``, ``movetime`` in ms). `options` are those set, and for lc0 its backend and the SHA-256 of its net. `net`
    is the net's name, if any. `plain` are the usual options of the kind, which the label does not name; None if they
    are unknown: then the label names no options. `net_path` is the file of the net that it searches with; None if
    there is none, or it is found by its name.
    """

    kind: str
    engine: str
    sha256: str
    limits: Mapping[str, int]
    options: Mapping[str, str]
    net: str = ""
    plain: Mapping[str, str] | None = field(default=None, compare=False, repr=False)
    net_path: str | None = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the name that the engine gives, its limits and its options. The program itself is not
        part of it: the same release on another machine is the same judge."""
        content: dict[str, Any] = {"kind": self.kind, "engine": self.engine, "net": self.net}
        content |= {"limits": dict(self.limits), "options": dict(self.options)}
        if self.kind == "mcts":
            content["sha256"] = self.sha256
        return hashlib.sha256(json_text(content).encode()).hexdigest()

    @property
    def label(self) -> str:
        """For people: ``stockfish 15.1 nodes=1000000``, then options that are not the usual ones."""
        plain = self.options if self.plain is None else self.plain
        unusual = [f"{k}={v}" for k, v in self.options.items() if plain.get(k) != v]
        words = [engine_words(self.engine), self.net, *(f"{k}={v}" for k, v in self.limits.items()), *unusual]
        return " ".join(w for w in words if w)


@dataclass(frozen=True, slots=True)
class StoredJudge:
    """A judge as the store describes it; `id` is its number there, `short_id` that of the short search that screens
    for it, if any; the other fields are as in `JudgeIdentity`."""

    id: int
    label: str
    digest: str
    kind: str
    engine: str
    sha256: str
    limits: Mapping[str, Any]
    options: Mapping[str, Any]
    short_id: int | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The description of a run. Runs with the same `identity` are the same work, which a repeated command resumes."""

    identity: str
    command: str
    options: Mapping[str, Any]
    versions: Mapping[str, str]

    @staticmethod
    def of(work: object, command: str, options: Mapping[str, Any], provider: str | None = None) -> RunRecord:
        """A run of this version that is identified by `work`, JSON-able: everything that its results depend on.

        `provider` computes the net, if a net is evaluated.
        """
        identity = hashlib.sha256(json_text(work).encode()).hexdigest()
        versions = {"valuerepair": __version__, "python": platform.python_version()}
        if provider is not None:
            versions["provider"] = provider
        return RunRecord(identity, command, options, versions)


@dataclass(slots=True)
class Run:
    """A run in the store. `resumed`: it was begun before, with these `options` and `counts`. The store keeps `counts`
    and `state` (``finished``, ``interrupted``) as they are when the run ends."""

    id: int
    resumed: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    state: str = "finished"


def signed(keys: NDArray[np.uint64]) -> list[int]:
    """Board keys as SQLite's signed 64-bit integers."""
    numbers: list[int] = keys.view(np.int64).tolist()
    return numbers


def unsigned(keys: Sequence[int]) -> NDArray[np.uint64]:
    """The inverse of `signed`."""
    return np.array(keys, np.int64).view(np.uint64)


def or_none(values: NDArray[Any]) -> list[float | None]:
    """Numbers with None for NaN."""
    missing, numbers = np.isnan(values), values.astype(np.float64).tolist()
    return [None if v != v else v for v in numbers] if missing.any() else numbers


def json_text(value: object) -> str:
    """Canonical JSON: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
