"""What a deep evaluator is, and what it answers. All scores are from the side to move."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias, TypeVar

from valuerepair.chess.positions import Position


@dataclass(frozen=True, slots=True)
class DeepResult:
    """The outcome of one deep search, raw: Q is made of it later, for any alpha.

    `cp` is centipawns, `mate` moves to mate (negative: the side to move is mated); one of them is None. `wdl` is the
    engine's win, draw and loss per mille. `q` in [-1, 1] is there only where the evaluator has a Q of its own.
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


@dataclass(frozen=True, slots=True)
class DeepFailure:
    """A position that could not be searched: why, and how often it was tried (0: it cannot be searched at all)."""

    reason: str
    attempts: int


DeepOutcome: TypeAlias = DeepResult | DeepFailure


@dataclass(frozen=True, slots=True)
class Climb:
    """Searches of one position, each deeper than the one before; `whole`: the last one is the oracle's whole search."""

    results: tuple[DeepResult, ...]
    whole: bool


ClimbOutcome: TypeAlias = Climb | DeepFailure
# Asked after each rung, with the results so far: whether to search deeper.
GoOn: TypeAlias = Callable[[Sequence[DeepResult]], bool]


@dataclass(frozen=True)
class OracleIdentity:
    """Everything an oracle's values depend on; two with the same `digest` give the same values.

    `kind` is ``stockfish``, ``mcts``, ``lc0``, ``uci``; `engine` the name and version the engine gives; `sha256` of its
    binary, or of the net where the search is our own. `limits` bound one search (``nodes``, ``depth``, ``movetime`` in
    ms). `options` are those set, and for lc0 its backend and the SHA-256 of its net. `net` is the net's name where
    there is one. `plain` are the options that are usual for the kind, so that the label need not name them; None where
    that is not known: it names none then.
    """

    kind: str
    engine: str
    sha256: str
    limits: Mapping[str, int]
    options: Mapping[str, str]
    net: str = ""
    plain: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the canonical JSON of all fields but `plain`."""
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
        words = [self.engine.lower(), self.net, *(f"{k}={v}" for k, v in self.limits.items()), *unusual]
        return " ".join(w for w in words if w)


Self = TypeVar("Self", bound="Oracle")


class Oracle(ABC):
    """A deep evaluator, a context manager; what is left in flight at its end is given up after an error."""

    identity: OracleIdentity

    @property
    @abstractmethod
    def workers(self) -> int:
        """So many searches run at once."""

    @property
    def capacity(self) -> int:
        """So many searches are worth having submitted at once; where workers come and go that changes by the minute."""
        return 2 * self.workers

    @property
    def under_way(self) -> Sequence[int]:
        """Nodes so far of each search that has begun and is not finished; empty where that is not known."""
        return ()

    @abstractmethod
    def submit(self, position: Position) -> Future[DeepOutcome]:
        """Queues a search. The future can be cancelled until the search begins.

        It holds a DeepResult or a DeepFailure, and raises ValueRepairError only when the evaluator as a whole is
        broken, CancelledError when it was closed before or in the middle.
        """

    @abstractmethod
    def climb(self, position: Position, rungs: Sequence[int], go_on: GoOn) -> Future[ClimbOutcome]:
        """Queues a search that stops at each of `rungs`, total nodes, ascending and below the oracle's own.

        Each step goes on with what the one before left in hash tables or tree. After it `go_on`, called in another
        thread, says whether to go on; keep it short. Nodes and time of results are those of all searches of the
        position so far. The future is as that of `submit`.
        """

    @abstractmethod
    def close(self, *, cancel: bool = False) -> None:
        """Cancels what has not begun; finishes the searches in flight, or with `cancel` abandons them."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None)
