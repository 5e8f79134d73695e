"""The records that are written to and read from a store."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.origins import OriginGame, Origins
from valuerepair.chess.positions import PHASES, PositionBatch, boards, cuts_of, phases, piece_counts
from valuerepair.version import __version__

# The stage of a deep value says which search it is of. A number, as text, is a rung of the screening ladder, in nodes.
FULL = "full"  # the full search of a position of the archive
EXPANDED = "expanded"  # the full search of any other position: in no game, or reached from a candidate
INFERRED = "inferred"  # no search: the position is on the expected line of another position's search
SECOND = "second"  # a second look at a candidate
AFTER = "after:"  # and a UCI move: a look at the position after that move, from the side to move there
REJUDGED = "rejudged"  # a full search of a position that another oracle judged, drawn to check that oracle
# How a position was reached, in the order of tables and trees.
LINE, PARENT, CHILD, GAME = STEPS = ("line", "parent", "child", "game")

# `Question.expanded` -> the stages in order of preference: a position's value is that of the first stage it has.
_STAGES: Mapping[str, tuple[str, ...]] = {
    "no": (FULL,),
    "searched": (FULL, EXPANDED),
    "all": (FULL, EXPANDED, INFERRED),
}


# The sampled positions that a ladder cut, whichever net it was for, including those that were searched in full since.
# The nets are named so that SQLite can use the primary key of the table.
CUT = "SELECT position_id FROM screened WHERE net_id IN (SELECT id FROM nets) AND oracle_id = :oracle AND NOT searched"


def value_condition(expanded: str, position: str, row: str = "v", rungs: Sequence[int] = ()) -> str:
    """The SQL condition that a `row` of deep_values is the value that counts for a `position` and ``:oracle``.

    `expanded` is as in `Question`. If a position has several values, the one whose stage comes first in `_STAGES`
    counts. With `rungs`, a position of the archive that the ladder cut, without a value of these stages, counts with
    its deepest rung.
    """
    *first, last = (*_STAGES[expanded], *(str(rung) for rung in sorted(rungs, reverse=True)))
    whens = "".join(
        f" WHEN EXISTS (SELECT 1 FROM deep_values w WHERE w.oracle_id = :oracle AND w.stage = '{stage}' "
        f"AND w.position_id = {position}) THEN '{stage}'"
        for stage in first
    )
    stage = f"CASE{whens} ELSE '{last}' END" if whens else f"'{last}'"
    only_cut = f" AND ({row}.stage NOT GLOB '[0-9]*' OR {position} IN ({CUT}))" if rungs else ""
    return f"{row}.oracle_id = :oracle AND {row}.stage = {stage}{only_cut}"


@dataclass(frozen=True, slots=True)
class DeepResult:
    """The outcome of one deep search, from the side to move; Q is computed from it later, for any alpha.

    `cp` is centipawns, `mate` moves to mate (negative: the side to move is mated); one of them is None. `wdl` is the
    engine's win, draw and loss per mille. `q` in [-1, 1] is None unless the evaluator has a Q of its own.
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


def engine_words(engine: str) -> str:
    """The name of an engine in labels. The name of our own search contains the first release that gave these values;
    digests include the release, and labels leave it out."""
    return engine.lower().replace("valuerepair 0.1.0 search", "valuerepair search")


@dataclass(frozen=True)
class OracleIdentity:
    """Everything an oracle's values depend on; two with the same `digest` give the same values, searched the same way
    (at once, or by the rungs of a ladder).

    `kind` is ``stockfish``, ``mcts``, ``lc0``, ``uci``; `engine` the name and version the engine gives; `sha256` of its
    binary, or of the net if the search is our own. `limits` bound one search (``nodes``, ``depth``, ``movetime`` in
    ms). `options` are those set, and for lc0 its backend and the SHA-256 of its net. `net` is the net's name, if any.
    `plain` are the usual options of the kind, which the label does not name; None if they are unknown: then the label
    names no options. `net_file` is the SHA-256 of the net that it searches with and the path of the file; None if there
    is no file, or it is found by its name.
    """

    kind: str
    engine: str
    sha256: str
    limits: Mapping[str, int]
    options: Mapping[str, str]
    net: str = ""
    plain: Mapping[str, str] | None = field(default=None, compare=False, repr=False)
    net_file: tuple[str, str] | None = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the canonical JSON of all fields but `plain` and `net_file`."""
        content = {
            "kind": self.kind,
            "engine": self.engine,
            "sha256": self.sha256,
            "limits": dict(self.limits),
            "options": dict(self.options),
            "net": self.net,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def label(self) -> str:
        """For people: ``stockfish 15.1 nodes=1000000``, then options that are not the usual ones."""
        plain = self.options if self.plain is None else self.plain
        unusual = [f"{k}={v}" for k, v in self.options.items() if plain.get(k) != v]
        words = [engine_words(self.engine), self.net, *(f"{k}={v}" for k, v in self.limits.items()), *unusual]
        return " ".join(w for w in words if w)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The description of a run. Runs with the same `identity` are the same work, which a repeated command resumes."""

    identity: str
    command: str
    options: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]

    @staticmethod
    def of(
        work: object, command: str, options: Mapping[str, Any], seed: int = 0, provider: str | None = None
    ) -> RunRecord:
        """A run of this version that is identified by `work`, JSON-able: everything that its results depend on.

        `provider` computes the net, if a net is evaluated.
        """
        identity = hashlib.sha256(json_text(work).encode()).hexdigest()
        versions = {"valuerepair": __version__, "python": platform.python_version()}
        if provider is not None:
            versions["provider"] = provider
        return RunRecord(identity, command, options, seed, versions)


@dataclass(frozen=True, slots=True)
class Run:
    """A run in the store. `resumed`: it was begun before, ended in this `state` and has `scored` deep values so far."""

    id: int
    resumed: bool = False
    state: str = "running"
    scored: int = 0
    counts: dict[str, Any] = field(default_factory=dict)


class Admission(NamedTuple):
    """Positions as the store has them: their `ids` [n]; the `batch`, with the history that the store has of each; and
    `fresh`, bool[n], whether they are new in the store, which then has no values of them.
    """

    ids: NDArray[np.int64]
    batch: PositionBatch
    fresh: NDArray[np.bool_]


class StoredValues(NamedTuple):
    """The values that the store has of one position for a net and an oracle; None for what it lacks.

    `deep` is cp, mate, win, draw, loss, own Q; `failure` is the reason why the oracle has no value.
    """

    net_q: float | None
    deep: tuple[float | None, ...] | None
    failure: str | None


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


def signed(keys: NDArray[np.uint64]) -> list[int]:
    """Board keys as SQLite's signed 64-bit integers."""
    numbers: list[int] = keys.view(np.int64).tolist()
    return numbers


def unsigned(keys: list[int]) -> NDArray[np.uint64]:
    """The inverse of `signed`."""
    return np.array(keys, np.int64).view(np.uint64)


def or_none(values: NDArray[Any]) -> list[float | None]:
    """Numbers with None for NaN."""
    missing, numbers = np.isnan(values), values.astype(np.float64).tolist()
    return [None if v != v else v for v in numbers] if missing.any() else numbers


def json_text(value: object) -> str:
    """Canonical JSON: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def game_row(
    game: OriginGame,
) -> tuple[str, int, int, int, str | None, str | None, str | None, str | None, str | None, str]:
    """source, number, digest, byte offset, white, black, event, date, result, headers of a game."""
    headers = dict(game.headers)
    text = json_text(headers)
    digest = hashlib.sha256(f"{game.offset}\n{text}".encode()).digest()[:8]
    return (
        game.source,
        game.number,
        int.from_bytes(digest, "big", signed=True),
        game.offset,
        headers.get("White"),
        headers.get("Black"),
        headers.get("Event"),
        headers.get("Date") or headers.get("UTCDate"),
        game.result or headers.get("Result"),
        text,
    )


def position_rows(
    batch: PositionBatch, ids: Sequence[int], games: Sequence[int], run_id: int, *, reached: bool
) -> Iterator[tuple[Any, ...]]:
    """The rows of the table of positions, with these `ids` and the ids of their `games`, in the order of its columns.

    Positions that were only `reached` from candidates have no kind.
    """
    men, n = boards(batch.fen), len(batch)
    data, cuts = batch.moves.astype("<u2").tobytes(), (2 * batch.offsets).tolist()
    origins = batch.origin
    return zip(
        ids,
        signed(batch.key),
        batch.fen,
        batch.start_fen,
        [data[a:b] for a, b in pairwise(cuts)],
        batch.history_known.astype(np.int64).tolist(),
        batch.ply.tolist(),
        [fen.split(" ", 2)[1] for fen in batch.fen],
        [PHASES[phase] for phase in phases(men).tolist()],
        piece_counts(men).tolist(),
        games,
        origins.played,
        origins.scores("cp"),
        origins.scores("mate"),
        [run_id] * n,
        [None] * n if reached else origins.kind,
        strict=True,
    )


# The columns of the table of positions (p) that `position_batch` reads.
POSITION_CELLS = "p.fen, p.start_fen, p.moves, p.ply, p.key, p.history_known"


def position_batch(rows: Sequence[tuple[Any, ...]]) -> PositionBatch:
    """The positions of one or more rows of `POSITION_CELLS`, without their origins."""
    fens, starts, moves, plies, keys, histories_known = (list(column) for column in zip(*rows, strict=True))
    return PositionBatch(
        fens,
        starts,
        np.frombuffer(b"".join(moves), "<u2").astype(np.uint16),
        cuts_of([len(blob) // 2 for blob in moves]),
        np.array(plies, np.int32),
        unsigned(keys),
        np.array(histories_known, np.bool_),
        Origins.unknown(len(rows)),
    )


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
