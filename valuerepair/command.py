"""The command that a run is recorded under: the typed command line, or for a call from Python the equivalent one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

_typed: str | None = None


@contextmanager
def typed(command: str) -> Iterator[None]:
    """Within the block, runs are recorded under this command line."""
    global _typed
    previous, _typed = _typed, command
    try:
        yield
    finally:
        _typed = previous


def recorded_command(*words: str) -> str:
    """The typed command line; in Python the command of these `words`, with a note that Python called it."""
    return f"{shlex.join(['vr', *words])} (from Python)" if _typed is None else _typed
