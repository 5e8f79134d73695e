"""The watchdog process of this process: it kills our engines when we are gone (see `guard`)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

GUARD = str(Path(__file__).with_name("guard.py"))


def guard_command(*arguments: str) -> list[str]:
    """The command line that runs `guard` without this package, site-packages or the user's environment."""
    return [sys.executable, "-I", "-S", GUARD, *arguments]


class Reaper:
    """Starts the watchdog with the first engine and ends it with the last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._engines: set[int] = set()
        self._starting = 0

    def start_engine(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Starts `command` under the guard, in a session of its own, with pipes for all three streams.

        A session of its own keeps the terminal's Ctrl-C and hang-up away from the engine: we end it ourselves.
        The calling thread must live as long as the engine: on Linux the engine dies with it.
        """
        pipe = self._open()
        try:
            engine = subprocess.Popen(
                guard_command("launch", str(pipe), str(os.getpid()), *command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=(pipe,),
            )
        except BaseException:
            self._done(None)
            raise
        finally:
            os.close(pipe)
        with self._lock:
            self._starting -= 1
            self._engines.add(engine.pid)
        return engine

    def forget(self, pid: int) -> None:
        """Says that the engine with this process id, and its group, are gone."""
        self._done(pid)

    def _open(self) -> int:
        """A copy of the pipe to a live watchdog; starts one where there is none, or it was killed, or we are a fork."""
        with self._lock:
            if self._owner != os.getpid():
                self._process, self._engines, self._starting, self._owner = None, set(), 0, os.getpid()
            if self._process is None or self._process.poll() is not None:
                self._process = subprocess.Popen(
                    guard_command("reap"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    start_new_session=True,
                )
                for pid in self._engines:
                    self._tell(b"+%d\n" % pid)
            self._starting += 1
            assert self._process.stdin is not None
            return os.dup(self._process.stdin.fileno())

    def _done(self, pid: int | None) -> None:
        with self._lock:
            if pid is None:
                self._starting -= 1
            elif pid in self._engines:
                self._engines.discard(pid)
                self._tell(b"-%d\n" % pid)
            if self._engines or self._starting or self._process is None or self._owner != os.getpid():
                return
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _tell(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # killed by someone: the next engine starts another
            self._process.stdin.write(line)


REAPER = Reaper()
