"""The interface of deep evaluators and their results. All scores are from the side to move."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import chess

from valuerepair.chess.positions import Position
from valuerepair.store.rows import DeepResult, OracleIdentity


@dataclass(frozen=True, slots=True)
class DeepFailure:
    """A position that could not be searched: the reason, and the number of attempts (0: it can never be searched)."""

    reason: str
    attempts: int = 0


DeepOutcome: TypeAlias = DeepResult | DeepFailure


@dataclass(frozen=True, slots=True)
class Climb:
    """Searches of one position, each deeper than the one before; `whole`: the last one is the oracle's whole search."""

    results: tuple[DeepResult, ...]
    whole: bool


ClimbOutcome: TypeAlias = Climb | DeepFailure
# Called after each rung with the results so far; returns whether to search deeper.
GoOn: TypeAlias = Callable[[Sequence[DeepResult]], bool]


T = TypeVar("T")
Self = TypeVar("Self", bound="Oracle")


def game_over(board: chess.Board) -> str | None:
    """Why a position without a legal move cannot be searched; None if it has a legal move."""
    if any(board.generate_legal_moves()):
        return None
    return "game over: " + ("checkmate" if board.is_check() else "stalemate")


def finished(outcome: T) -> Future[T]:
    """A future that already holds this outcome, for a position that needs no search."""
    future: Future[T] = Future()
    future.set_result(outcome)
    return future


class Oracle(ABC):
    """A deep evaluator. As a context manager it abandons the searches in flight after an error."""

    identity: OracleIdentity

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many searches run at once."""

    @property
    def capacity(self) -> int:
        """How many searches should be submitted at a time; this changes as workers come and go."""
        return 2 * self.workers

    @property
    def under_way(self) -> Sequence[int]:
        """The nodes so far of each search in flight; empty if unknown."""
        return ()

    @abstractmethod
    def submit(self, position: Position) -> Future[DeepOutcome]:
        """Queues a search. The future can be cancelled until the search begins.

        It holds a DeepResult or a DeepFailure, and raises ValueRepairError only if the evaluator as a whole is broken,
        CancelledError if it was closed before the search ended.
        """

    @abstractmethod
    def climb(self, position: Position, rungs: Sequence[int], go_on: GoOn) -> Future[ClimbOutcome]:
        """Queues a search that pauses at each of `rungs`: total nodes, ascending, all below the oracle's own.

        Each step continues with the hash tables or the tree of the step before. After each step `go_on` decides whether
        to search deeper. It is called in another thread, and must be fast. Nodes and time of a result are those of all
        searches of the position so far. The future behaves as that of `submit`.
        """

    @abstractmethod
    def close(self, *, cancel: bool = False) -> None:
        """Cancels queued searches; finishes the searches in flight, or with `cancel` abandons them."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(cancel=kind is not None)
