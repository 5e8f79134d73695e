"""Child processes that speak in lines, under a watchdog: starts, writes to, reads with a deadline, ends. Not UCI."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from valuerepair.engines.guard import CANNOT_RUN

log = logging.getLogger(__name__)
# The log level of every line between `vr` and engines: below all other details.
LINES = 5
GUARD = str(Path(__file__).with_name("guard.py"))
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20
_STDERR_KEPT = 4000
_LOOK_S = 0.1  # between two looks at the clock while we wait for an engine
_STOPPED_S = 0.5  # a longer time between two looks means that this program was stopped
# Even after a deadline, output that is already in the pipe is read: we may have been late, not the engine. An engine
# that writes without end gets no more than this number of reads.
_LATE_READS = 16


class EngineFailure(Exception):
    """The engine failed to do its task and cannot be used any longer; the message gives the reason to the user."""


class EngineExited(EngineFailure):
    """The engine's process ended by itself or was killed."""


class EngineTimeout(EngineFailure):
    """The engine did not answer in time."""


def guard_command(*arguments: str) -> list[str]:
    """The command line that runs `guard` without this package, site-packages or the user's environment."""
    return [sys.executable, "-I", "-S", GUARD, *arguments]


class Reaper:
    """The watchdog of this process, which kills our engines after our end (see `guard`).

    It starts with the first engine and ends with the last. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._engines: set[int] = set()
        self._starting = 0

    def start_engine(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Starts `command` under the guard, in a new session, with pipes for all three streams.

        The new session keeps the terminal's Ctrl-C and hang-up away from the engine: we end it ourselves.
        The calling thread must live as long as the engine: on Linux the engine dies with it. Raises EngineFailure on a
        system without process groups.
        """
        if not hasattr(os, "killpg"):
            raise EngineFailure("cannot be run: this system has no process groups; use Linux, macOS, or WSL on Windows")
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
            self.forget(None)
            raise
        finally:
            os.close(pipe)
        with self._lock:
            self._starting -= 1
            self._engines.add(engine.pid)
        return engine

    def _open(self) -> int:
        """A copy of the pipe to a live watchdog; starts one if it is missing or was killed, or if we are a fork."""
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
                    self._write(b"+%d\n" % pid)
            self._starting += 1
            assert self._process.stdin is not None
            return os.dup(self._process.stdin.fileno())

    def forget(self, pid: int | None) -> None:
        """Reports to the watchdog that the engine with this process id and its group have ended; None: it did not
        start."""
        with self._lock:
            if pid is None:
                self._starting -= 1
            elif pid in self._engines:
                self._engines.discard(pid)
                self._write(b"-%d\n" % pid)
            if self._engines or self._starting or self._process is None or self._owner != os.getpid():
                return
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the watchdog was killed: the next engine starts another one
            self._process.stdin.write(line)


REAPER = Reaper()


class LineProcess:
    """A supervised child. One thread, which must outlive it, sends and reads; any thread may `kill`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._popen = REAPER.start_engine(list(command))
        self.pid = self._popen.pid
        log.debug("engine %d: %s", self.pid, shlex.join(command))
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._stdin, self._stdout, self._stderr = (
            s.fileno() for s in (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        )
        os.set_blocking(self._stdin, False)
        self._poll = select.poll()
        self._poll.register(self._stdout, select.POLLIN)
        self._poll.register(self._stderr, select.POLLIN)
        self._buffer = b""
        self._lines: list[bytes] = []  # complete lines, last first
        self._errors = b""
        self._late = 0
        self._looked_at = time.monotonic()
        self._stopped = 0.0  # seconds
        self._lock = threading.Lock()
        self._killed = False

    def now(self) -> float:
        """Seconds on a clock that pauses while this program is stopped (Ctrl-Z), though engines go on working.

        Any longer time between two calls counts as such a stop. So use it only while waiting for the engine's answer.
        """
        passed = time.monotonic() - self._looked_at
        self._looked_at += passed
        if passed > _STOPPED_S:
            self._stopped += passed
        return self._looked_at - self._stopped

    def send(self, *lines: str, seconds: float = 30.0) -> None:
        """Writes lines. Raises EngineExited, or EngineTimeout when the engine does not read for `seconds`."""
        for line in lines if log.isEnabledFor(LINES) else ():
            log.log(LINES, "%d < %s", self.pid, line)
        data = "".join(f"{line}\n" for line in lines).encode()
        deadline = time.monotonic() + seconds
        while data:
            try:
                data = data[os.write(self._stdin, data) :]
            except BlockingIOError:
                room = select.poll()
                room.register(self._stdin, select.POLLOUT)
                if not room.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise EngineTimeout("does not read its input") from None
            except OSError:
                raise EngineExited(self._how_it_ended()) from None

    def read_line(self, deadline: float) -> str:
        """The next line of standard output, without its end; bytes that are not UTF-8 become U+FFFD.

        `deadline` is a time of `now`; a line that is already there is read even after it. Raises EngineExited at the
        end of the output, and EngineTimeout.
        """
        while not self._lines:
            self._fill(deadline)
        line = self._lines.pop().decode("utf-8", "replace").rstrip("\r")
        log.log(LINES, "%d > %s", self.pid, line)
        return line

    def _fill(self, deadline: float) -> None:
        remaining = deadline - self.now()
        self._late = 0 if remaining > 0 else self._late + 1
        ready = self._poll.poll(max(0.0, min(remaining, _LOOK_S)) * 1000)
        if remaining <= 0 and (not ready or self._late > _LATE_READS):
            raise EngineTimeout("no answer in time")
        for fd, _ in ready:
            data = os.read(fd, _CHUNK)
            if fd == self._stderr:
                self._errors = (self._errors + data)[-_STDERR_KEPT:]
                if not data:
                    self._poll.unregister(self._stderr)
            elif not data:
                raise EngineExited(self._how_it_ended())
            else:
                self._split(data)

    def _split(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._lines = lines[::-1]
        if len(self._buffer) > _LONGEST_LINE:
            raise EngineFailure("wrote a line of more than a mebibyte")

    def _how_it_ended(self) -> str:
        """Waits a moment for the exit status; returns it with the last line of standard error, in words."""
        try:
            code = self._popen.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return "closed its output" + self._last_words()
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = str(-code)
            out_of_memory = " (out of memory?)" if -code == signal.SIGKILL else ""
            return f"was killed by {name}{out_of_memory}" + self._last_words()
        if code == CANNOT_RUN:
            return self._last_words().lstrip(": ") or "cannot run"
        return f"exited with code {code}" + self._last_words()

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            os.set_blocking(self._stderr, False)
            self._errors += os.read(self._stderr, _CHUNK)
        text = self._errors.decode("utf-8", "replace").strip()
        return f": {text.splitlines()[-1].strip()[:200]}" if text else ""

    def close(self, *lines: str, grace: float = 1.0) -> None:
        """Sends `lines`, waits up to `grace` seconds for the end, then kills the rest of the group."""
        with contextlib.suppress(EngineFailure):
            self.send(*lines, seconds=grace / 2)
            deadline = self.now() + grace
            while True:
                self.read_line(deadline)
                self._lines.clear()
        self.kill()
        with self._lock:
            for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def kill(self) -> None:
        """Kills the process and its group, and reads its exit status. Does nothing the second time."""
        with self._lock:
            if self._killed:
                return
            self._killed = True
            # The group's number is in use as long as it has a process, so this cannot kill another program.
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            # A process stuck in the kernel (dead network mount) does not die at once: do not wait for it any longer.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout=5)
        REAPER.forget(self.pid)
