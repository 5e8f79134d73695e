"""SIGINT and SIGTERM: the long loops end between two pieces of work, everything else ends at once.

``with stop.flag():`` marks a long loop. In it a first signal sets a flag that the loop reads (`asked`); a second one,
or any signal elsewhere, leaves by ``os._exit(130)``: every end is as good as kill -9, which loses nothing. Programs
that import the package keep their own handlers outside of `flag`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

EXIT_CODE = 130
STAGE = "VALUEREPAIR_STAGE"  # in the environment of the stages of `vr repair`
_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_GRACE_S = 1.0

_count = 0  # signals since the handler was installed, or since the outermost `flag` began
_flags = 0  # open ones
_is_installed = False
_undone: list[Callable[[], object]] = []


def install() -> None:
    """Takes over both signals for the rest of the process; a signal that the caller ignores (`nohup`) stays ignored."""
    global _is_installed
    _is_installed = True
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    begin, end = os.pipe()
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(begin,), name="signals", daemon=True).start()


@contextmanager
def flag() -> Iterator[None]:
    """Within the block a first signal makes `asked` true and does nothing else. For a loop in the main thread; in
    another thread it changes nothing."""
    global _count, _flags
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {}
    if not _is_installed and not _flags:
        _count, previous = 0, {number: signal.signal(number, _on_signal) for number in _NUMBERS}
    _flags += 1
    try:
        yield
    finally:
        _flags -= 1
        for number, handler in previous.items():
            signal.signal(number, handler)


def asked() -> bool:
    """Whether a signal has come, so that the loop ends; false outside of `flag`."""
    return _flags > 0 and _count > 0


def is_stage() -> bool:
    """Whether this process is a stage of `vr repair`, which itself says what comes next and that it was interrupted."""
    return STAGE in os.environ


@contextmanager
def undoing(undo: Callable[[], object]) -> Iterator[None]:
    """Within the block, `undo` is called if a signal ends the process: it removes a temporary file, closes a store, or
    kills a child process. At the end of the block it is not called."""
    _undone.append(undo)
    try:
        yield
    finally:
        _undone.remove(undo)


def run(command: Sequence[str], *, text: str = "", timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with captured output and `text` as input; a signal that ends this process kills the other.

    Raises OSError and subprocess.TimeoutExpired.
    """
    import subprocess

    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace") as process,
        undoing(process.kill),
    ):
        try:
            out, err = process.communicate(text, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _on_signal(number: int, frame: object) -> None:
    global _count
    _count += 1
    if not _flags or _count > 1:
        _leave()


def _watch(signals: int) -> None:
    """Leaves where the main thread is deep in compiled code and handles no signal."""
    seen = 0
    while number := os.read(signals, 1):
        seen += number[0] in _NUMBERS
        time.sleep(_GRACE_S)
        if _count < seen and (not _flags or seen > 1):
            _leave()


def _leave() -> None:
    for undo in reversed([*_undone]):
        with suppress(Exception):
            undo()
    if not is_stage():
        with suppress(OSError):
            os.write(2, b"\nvr: interrupted\n" if os.isatty(2) else b"vr: interrupted\n")
    os._exit(EXIT_CODE)
