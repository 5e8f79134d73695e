"""What each fault costs: every test notes what it tried and saw, and the run prints the rows at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

Note = Callable[..., None]
_ROWS: list[str] = []


@pytest.fixture
def note() -> Note:
    """Adds a row: the fault, how many times it was tried, what was lost, what was said, the exit code."""

    def add(fault: str, tried: int, said: str, code: str, lost: str = "nothing") -> None:
        _ROWS.append(" | ".join((fault, f"{tried:,}", lost, said.replace("\n", " "), code)))

    return add


@pytest.fixture(scope="session", autouse=True)
def rows() -> Iterator[None]:
    """Prints the rows at the end."""
    yield
    for row in _ROWS:
        print(row, file=sys.stderr)
