"""Handling of SIGINT and SIGTERM: a signal never raises an exception between two lines of other code.

The command line installs the handler before it does anything else (`install`). What a signal does depends on what is
open:

    state    begins with        a signal
    -------  -----------------  -------------------------------------------------------------------------------
    idle     nothing is open    ends the process at once
    held     `held`, `holding`  is counted; the main thread raises KeyboardInterrupt at the next check, in a wait
                                (`result_of`, `run`, `in_thread`) or at the end of the outermost `held`
    looping  `left_to_loop`     is counted and wakes the loop, which reads `count` and ends as it sees fit; only
                                `check` and waits raise, not `check_unless_looping` nor the end of a `held`
    ending   a signal in idle   changes nothing more; threads that would open something wait for the end
    done     `last_check`       is ignored; the command only reports what it made

Programs that import the package keep Python's own handling in all states but looping, which the main thread of any
program may enter.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    import sqlite3
    import subprocess
    from concurrent.futures import Future

P = ParamSpec("P")
T = TypeVar("T")

EXIT_CODE = 130
STAGE = "VALUEREPAIR_STAGE"  # in the environment of the stages of `vr repair`
_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_POLL_S = 0.1
_GRACE_S = 2.0  # for a child process to end by itself, and for compiled code to return


_count = 0  # signals since the handler was installed
_handled = 0  # signals that came before the end of the last loop, which handled them
_is_installed = _is_ending = False
# What keeps a signal from ending the process: the `wake` of each loop, None for each `held`. It is changed by single
# operations, which no other thread can interrupt.
_open: list[Callable[[], None] | None] = []
_connections: WeakSet[sqlite3.Connection] = WeakSet()


def install() -> None:
    """Takes over both signals for the rest of the process; a signal that the caller ignores (`nohup`) stays ignored."""
    global _is_installed
    _is_installed = True
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)


def count() -> int:
    """The signals so far. After the first nothing new begins; the second abandons running work."""
    return _count


def check() -> None:
    """Raises KeyboardInterrupt if a signal has come. Call it where nothing is half done. It raises only in the main
    thread, which ends the other threads."""
    if _count and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def last_check() -> None:
    """As `check`, just before an output that is never replaced gets its name: a command ignores later signals.

    If one still ended it, the same command would find its own output in the way.
    """
    if _is_installed:
        for number in _NUMBERS:
            signal.signal(number, signal.SIG_IGN)
    check()


def check_unless_looping() -> None:
    """As `check`, but not for a signal that a loop handles or has handled. For code that loops call, too."""
    if _count != _handled and not _wakes():
        check()


@contextmanager
def held() -> Iterator[None]:
    """Within the block signals are only counted, because something is open that must be closed. For any thread.

    Raises KeyboardInterrupt at the end of the outermost `held` if a signal came that no loop handled.
    """
    _open.append(None)
    while _is_ending:  # open nothing, raise nothing
        time.sleep(_POLL_S)
    try:
        yield
    except BaseException:
        _open.remove(None)
        raise
    _open.remove(None)
    if _is_installed and not _open and _count != _handled:
        check()
        _end_process()  # another thread than the main one


def holding(opened: Callable[P, AbstractContextManager[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Decorates a context manager so that it is `held` while it is open."""

    @wraps(opened)
    @contextmanager
    def held_and_opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        with held(), opened(*args, **kwargs) as resource:
            yield resource

    return held_and_opened


@contextmanager
def left_to_loop(wake: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Leaves signals to a loop that reads `count`; each signal also calls `wake`, which must be reentrant.

    In programs other than the command line it installs the handlers until it ends, and `count` begins at 0. Outside the
    main thread it does nothing.
    """
    global _count, _handled
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handlers = {} if _is_installed else {number: signal.signal(number, _on_signal) for number in _NUMBERS}
    _open.append(wake)
    try:
        yield
    finally:
        _open.remove(wake)
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        _count = _count if _is_installed else 0
        _handled = _count


def close_when_leaving(connection: sqlite3.Connection) -> None:
    """Closes a connection if a signal ends the process at once, because readers, too, leave files next to a store."""
    _connections.add(connection)


def keep_from_children() -> None:
    """Keeps Ctrl-C from the processes that this thread starts from now on; this process ends them itself."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


# -- waiting ----------------------------------------------------------------------------------------------------------


def result_of(future: Future[T]) -> T:
    """The result of a future, or its exception. Raises KeyboardInterrupt at a signal."""
    from concurrent.futures import wait

    while not wait([future], _POLL_S).done:
        check()
    return future.result()


def in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, run in another thread. For compiled code that may take long.

    After a signal it waits two more seconds, then raises KeyboardInterrupt; the thread ends with the process.
    """
    from concurrent.futures import Future, wait

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="compiled code", daemon=True).start()
    with suppress(KeyboardInterrupt):
        return result_of(future)
    wait([future], _GRACE_S)
    if not future.done():
        raise KeyboardInterrupt
    return future.result()


def run(command: Sequence[str], *, text: str = "", timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with `text` as its input. Raises OSError, subprocess.TimeoutExpired and, at a
    signal, KeyboardInterrupt; the process has ended by then.

    The command has a session of its own, so that Ctrl-C does not reach it directly.
    """
    import subprocess
    import tempfile

    start = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as stdin, held():
        stdin.write(text)  # not a pipe: `communicate` cannot resume writing to one after a timeout
        stdin.seek(0)
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
        with process:
            try:
                while True:
                    try:
                        out, err = process.communicate(timeout=_POLL_S)
                        break
                    except subprocess.TimeoutExpired:
                        check()
                        if timeout is not None and time.monotonic() - start > timeout:
                            raise subprocess.TimeoutExpired(command, timeout) from None
                check()
            except BaseException:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_S)
                process.kill()
                raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


# -- the handler ------------------------------------------------------------------------------------------------------


def _on_signal(number: int, frame: object) -> None:
    global _count
    _count += 1
    if not _open:
        _end_process()
    for wake in _wakes():
        wake()


def _wakes() -> list[Callable[[], None]]:
    """The `wake` functions of the running loops."""
    return [wake for wake in [*_open] if wake is not None]


def is_stage() -> bool:
    """Whether this process is a stage of `vr repair`, which itself says what comes next and that it was interrupted."""
    return STAGE in os.environ


def _end_process() -> None:
    """Ends the process at once, without unwinding, unless another thread has just opened something."""
    global _is_ending
    _is_ending = True
    if _open:
        _is_ending = False
        return
    for connection in list(_connections):
        with suppress(Exception):
            connection.close()
    if not is_stage():
        with suppress(OSError):
            os.write(2, b"\nvr: interrupted\n" if os.isatty(2) else b"vr: interrupted\n")
    os._exit(EXIT_CODE)
