"""The table of faults: each test notes what it tried and saw, and the run writes docs/reliability.md's table.

``VALUEREPAIR_FAULT_TABLE=docs/reliability.md pytest -m faults`` puts it there, between two marks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.table import Row, write_table

Note = Callable[..., None]
_ROWS: list[Row] = []


@pytest.fixture
def note() -> Note:
    """Adds a row: the fault, how many times it was tried, what was lost, what was said, the exit code."""

    def add(fault: str, tried: int, said: str, code: str, lost: str = "nothing") -> None:
        _ROWS.append(Row(fault, tried, lost, said, code))

    return add


@pytest.fixture(scope="session", autouse=True)
def table() -> Iterator[None]:
    """Writes the table at the end, where one was asked for."""
    yield
    path = os.environ.get("VALUEREPAIR_FAULT_TABLE")
    if path and _ROWS:
        write_table(Path(path), _ROWS)
    for row in _ROWS:
        print(row.line(), file=sys.stderr)
