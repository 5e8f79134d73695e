"""What a judge is: a deep search of one position after another. All scores are from the side to move."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, TypeVar

import chess

from valuerepair.chess.positions import Position
from valuerepair.engines.kinds import usual_hash
from valuerepair.store.rows import DeepResult, JudgeIdentity


@dataclass(frozen=True, slots=True)
class DeepFailure:
    """A position that could not be searched: the reason, and the number of attempts (0: it can never be searched)."""

    reason: str
    attempts: int = 0


DeepOutcome: TypeAlias = DeepResult | DeepFailure
T = TypeVar("T")
Self = TypeVar("Self", bound="Judge")


class Judge(Protocol):
    """A deep search. What it says depends on its `identity` and the position alone: each search starts from an empty
    hash table. As a context manager it abandons the searches in flight after an error.

    `identity` is what its values depend on.
    """

    identity: JudgeIdentity

    @property
    def workers(self) -> int:
        """How many searches run at once."""

    @property
    def capacity(self) -> int:
        """How many searches should be submitted at a time; this changes as workers come and go."""
        return 2 * self.workers

    def submit(self, position: Position, nodes: int | None = None) -> Future[DeepOutcome]:
        """Queues a search, of so many `nodes` if they are given. The future can be cancelled until the search begins.

        It holds a DeepResult or a DeepFailure, and raises ValueRepairError only if the judge as a whole is broken,
        CancelledError if it was closed before the search ended.
        """

    def close(self, *, cancel: bool = False) -> None:
        """Cancels queued searches; finishes the searches in flight, or with `cancel` abandons them."""

    def shorter(self, nodes: int) -> Judge:
        """The same engines, shared, with so many nodes a search; of a judge that is limited by nodes.

        Its identity is that of such a judge opened by itself, unless that would have a smaller hash table. It needs no
        `close`.
        """
        return ShorterJudge(self, nodes)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(cancel=kind is not None)


class ShorterJudge(Judge):
    """The searches of another judge with fewer nodes; see `Judge.shorter`."""

    def __init__(self, judge: Judge, nodes: int) -> None:
        self._judge, self._nodes = judge, nodes
        self.identity = shorter_identity(judge.identity, nodes)

    @property
    def workers(self) -> int:
        return self._judge.workers

    @property
    def capacity(self) -> int:
        return self._judge.capacity

    def submit(self, position: Position, nodes: int | None = None) -> Future[DeepOutcome]:
        """As `Judge.submit`."""
        return self._judge.submit(position, nodes or self._nodes)

    def close(self, *, cancel: bool = False) -> None:
        """Leaves the engines to the judge that they belong to."""


def shorter_identity(identity: JudgeIdentity, nodes: int) -> JudgeIdentity:
    """The identity of a judge of the same options that searches so many nodes."""
    plain = identity.plain
    if plain is not None and "Hash" in plain:
        plain = {**plain, "Hash": usual_hash({"nodes": nodes})}
    return replace(identity, limits={**identity.limits, "nodes": nodes}, plain=plain)


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
