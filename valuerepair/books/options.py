"""The options of a book, checked on creation."""

from __future__ import annotations

from dataclasses import dataclass

from valuerepair.errors import UsageError, check_least

MAX_PARENTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BookOptions:
    """Which candidates a book has. Raises UsageError for values that make no sense.

    `confirmed` keeps candidates where a second look confirmed the search, `labels` those with all these labels. `limit`
    keeps the first positions, parents not counted. `parents`: positions up to this many plies earlier are written too.
    """

    confirmed: bool = False
    labels: tuple[str, ...] = ()
    limit: int | None = None
    parents: int = 0

    def __post_init__(self) -> None:
        check_least("--limit", self.limit)
        if not 0 <= self.parents <= MAX_PARENTS:
            raise UsageError(f"--parents {self.parents}: must be a number of plies from 0 to {MAX_PARENTS}")
