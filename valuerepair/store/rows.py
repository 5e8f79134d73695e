"""What goes into and comes out of a store, row by row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from valuerepair.positions import Origin, PositionBatch
from valuerepair.store.phases import PHASES, boards, phases, piece_counts

# Stages of a deep value. FULL is the whole search of the oracle; a number, as text, is a rung of the screening ladder,
# in nodes; SECOND is a second look at a candidate; AFTER and a UCI move, the look at the position after that move,
# whose value is from the side to move there. NET and a net's SHA-256 is no search: the failure of that net on the
# position, which has then no value of it; the oracle is the one that it was mined with.
FULL = "full"
SECOND = "second"
AFTER = "after:"
NET = "net:"


class OracleFacts(Protocol):
    """What the store keeps of an oracle; `valuerepair.deep.OracleIdentity` has it all."""

    @property
    def kind(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def limits(self) -> Mapping[str, Any]: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def digest(self) -> str: ...
    @property
    def label(self) -> str: ...


class DeepScore(Protocol):
    """One deep search's outcome, from the side to move; `valuerepair.deep.DeepResult` has it all."""

    @property
    def cp(self) -> int | None: ...
    @property
    def mate(self) -> int | None: ...
    @property
    def wdl(self) -> tuple[int, int, int] | None: ...
    @property
    def q(self) -> float | None: ...
    @property
    def depth(self) -> int: ...
    @property
    def seldepth(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def time_ms(self) -> int: ...
    @property
    def best_move(self) -> str | None: ...
    @property
    def pv(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run is: `identity` says which runs are the same work, so that a repeated command goes on with it."""

    identity: str
    command: str
    options: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """A run in the store. `resumed`: this work was begun before; `state` is how it ended then, `scored` what it has."""

    id: int
    resumed: bool = False
    state: str = "running"
    scored: int = 0
    counts: Mapping[str, Any] = field(default_factory=dict)


class Admission(NamedTuple):
    """Positions as the store has them: their ids [n] and the batch, with the history that the store keeps of each."""

    ids: NDArray[np.int64]
    batch: PositionBatch


class Known(NamedTuple):
    """What the store has of one position for a net and an oracle; None where it has nothing. `failure` is a reason,
    `weight` what the position stands for where it was screened.
    """

    net_q: float | None
    deep: tuple[float | None, float | None, float | None, float | None, float | None, float | None] | None
    failure: str | None
    weight: float = 1.0


def signed(keys: NDArray[np.uint64]) -> list[int]:
    """Board keys as SQLite's signed 64-bit integers."""
    numbers: list[int] = keys.view(np.int64).tolist()
    return numbers


def unsigned(keys: list[int]) -> NDArray[np.uint64]:
    """The inverse of `signed`."""
    return np.array(keys, np.int64).view(np.uint64)


def or_none(values: NDArray[Any]) -> list[float | None]:
    """Numbers with None for NaN."""
    return [None if v != v else v for v in values.astype(np.float64).tolist()]


def json_text(value: object) -> str:
    """Canonical JSON: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def game_row(
    origin: Origin,
) -> tuple[str, int, int, int, str | None, str | None, str | None, str | None, str | None, str]:
    """source, number, digest, byte offset, white, black, event, date, result, headers of the position's game."""
    headers = dict(origin.headers)
    text = json_text(headers)
    digest = hashlib.sha256(f"{origin.offset}\n{text}".encode()).digest()[:8]
    return (
        origin.source,
        origin.game,
        int.from_bytes(digest, "big", signed=True),
        origin.offset,
        headers.get("White"),
        headers.get("Black"),
        headers.get("Event"),
        headers.get("Date") or headers.get("UTCDate"),
        origin.result or headers.get("Result"),
        text,
    )


def position_rows(
    batch: PositionBatch, run_id: int, game_id: Callable[[tuple[Any, ...]], int]
) -> Iterator[tuple[Any, ...]]:
    """The rows of the table of positions, in the order of its columns after id; `game_id` numbers a `game_row`."""
    men = boards(batch.fen)
    phase, pieces = phases(men).tolist(), piece_counts(men).tolist()
    keys, moves = signed(batch.key), batch.moves.astype("<u2")
    game: tuple[Any, ...] = ()
    number = 0
    for i, origin in enumerate(batch.origin):
        # Positions of one game lie together in a batch.
        if (row := game_row(origin)) != game:
            game, number = row, game_id(row)
        yield (
            keys[i],
            batch.fen[i],
            batch.start_fen[i],
            moves[batch.offsets[i] : batch.offsets[i + 1]].tobytes(),
            int(batch.history_known[i]),
            int(batch.ply[i]),
            batch.fen[i].split(" ", 2)[1],
            PHASES[phase[i]],
            pieces[i],
            number,
            origin.played,
            origin.eval_cp,
            origin.eval_mate,
            run_id,
        )


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
