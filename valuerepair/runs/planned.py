"""The plan of an expansion: the searches to make, and the candidates to look around."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from valuerepair.chess.positions import Position
from valuerepair.store.reached import NeighbourOutcome

# The sources whose neighbours are looked at together: few at first, so that the engines start at once.
_FIRST_WINDOW, _WINDOW = 32, 256
# A family gets no more sources once it is `_LARGEST` times the mean family, whose size counts as at least `_SMALL`.
_LARGEST, _SMALL = 2.0, 4.0


@dataclass(eq=False)
class PlannedSearch:
    """A position that is searched, or was.

    `judged` is the net's Q by the question, `net_best` its move; `group` is that of `allocation.groups_of`,
    None for an audit of what was inferred. `root` is the sampled candidate that it was reached from, in round `round`;
    `outcome` is None until the position has one.
    """

    position_id: int
    position: Position
    judged: float
    net_q: float
    net_best: int
    group: int | None
    root: int
    round: int
    outcome: NeighbourOutcome | None = None


class PlannedSearches:
    """The searches that an expansion has planned and not learned from yet, batch by batch.

    `audits` wait for a batch; those `waiting` are in one and have not begun. A batch rests on the results of all
    batches but the one before it, so two are open while the next one is planned.
    """

    def __init__(self) -> None:
        self.audits: deque[PlannedSearch] = deque()
        self.waiting: deque[PlannedSearch] = deque()
        self._batches: deque[list[PlannedSearch]] = deque()

    def __iter__(self) -> Iterator[PlannedSearch]:
        for batch in self._batches:
            yield from batch

    @property
    def is_over(self) -> bool:
        """Whether nothing is planned."""
        return not any(self._batches)

    @property
    def may_plan(self) -> bool:
        """Whether the results that the next batch rests on are there."""
        return len(self._batches) < 2 or all(search.outcome for search in self._batches[0])

    def add(self, batch: list[PlannedSearch]) -> None:
        """Adds a batch, whose searches without an outcome are to be made."""
        self._batches.append(batch)
        self.waiting.extend(search for search in batch if search.outcome is None)

    def take_oldest(self) -> list[PlannedSearch]:
        """Takes out the batch to learn from; empty as long as fewer than two are open."""
        return self._batches.popleft() if len(self._batches) > 1 else []


class SourceQueue:
    """The candidates to look around, each with its root and its round, in order. `rounds` is the last round."""

    def __init__(self, roots: Sequence[int], rounds: int) -> None:
        self._rounds = rounds
        self._waiting = deque((number, number, 1) for number in roots)
        self._window_size = _FIRST_WINDOW
        self._families: Counter[int] = Counter()  # candidates found, by root

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def round(self) -> int:
        """The round of the next one."""
        return self._waiting[0][2]

    def take_window(self) -> list[tuple[int, int, int]]:
        """Takes the next ones (position, root, round), whose neighbours are looked at together."""
        window = [self._waiting.popleft() for _ in range(min(self._window_size, len(self._waiting)))]
        self._window_size = min(2 * self._window_size, _WINDOW)
        return window

    def add(self, position_id: int, root: int, round_: int) -> None:
        """Adds a candidate found in a round, unless it was the last round, or its family is far larger than others."""
        self._families[root] += 1
        mean = self._families.total() / len(self._families)
        if round_ < self._rounds and self._families[root] <= _LARGEST * max(mean, _SMALL):
            self._waiting.append((position_id, root, round_ + 1))
