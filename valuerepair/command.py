"""The command that a run is recorded under: as it was typed, or the call from Python that does the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

_typed: str | None = None


@contextmanager
def typed(command: str) -> Iterator[None]:
    """Within, all that runs was asked for by this command line."""
    global _typed
    before, _typed = _typed, command
    try:
        yield
    finally:
        _typed = before


def recorded_command(*words: str) -> str:
    """What was typed; in Python the command of these `words`, and that Python called it."""
    return f"{shlex.join(['vr', *words])} (from Python)" if _typed is None else _typed
