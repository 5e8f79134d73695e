"""Child processes that speak in lines: starts, writes to, reads with a deadline, ends. Not UCI."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Sequence

log = logging.getLogger(__name__)
# The log level of every line between `vr` and engines: below all other details.
LINES = 5
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20
_STDERR_KEPT = 4000
# What is already in the pipe is read even after a deadline, as we may have been late, not the engine; but not for
# longer than this: an engine may write without end.
_LATE_S = 1.0


class EngineFailure(Exception):
    """The engine failed to do its task and cannot be used any longer; the message gives the reason to the user."""


class EngineExited(EngineFailure):
    """The engine's process ended by itself or was killed."""


class EngineTimeout(EngineFailure):
    """The engine did not answer in time."""


class LineProcess:
    """A child process. One thread sends and reads; any thread may `kill`.

    It has a session of its own, which keeps the terminal's Ctrl-C away from it, and ends with its standard input if
    this process dies.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Starts the command. Raises EngineFailure if the system cannot."""
        try:
            self._popen = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineFailure(f"cannot run: {error.strerror}") from None
        self.pid = self._popen.pid
        log.debug("engine %d: %s", self.pid, shlex.join(command))
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._streams = (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        self._stdin, self._stdout, self._stderr = (stream.fileno() for stream in self._streams)
        self._poll = select.poll()
        self._poll.register(self._stdout, select.POLLIN)
        self._poll.register(self._stderr, select.POLLIN)
        self._buffer = b""
        self._lines: list[bytes] = []  # complete lines, last first
        self._errors = b""
        self._lock = threading.Lock()
        self._killed = False

    def send(self, *lines: str) -> None:
        """Writes lines. Raises EngineExited."""
        for line in lines if log.isEnabledFor(LINES) else ():
            log.log(LINES, "%d < %s", self.pid, line)
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            while data:
                data = data[os.write(self._stdin, data) :]
        except OSError:
            raise EngineExited(self._how_it_ended()) from None

    def read_line(self, deadline: float) -> str:
        """The next line of standard output, without its end; bytes that are not UTF-8 become U+FFFD.

        `deadline` is a time of `time.monotonic`. Raises EngineExited at the end of the output, and EngineTimeout.
        """
        while not self._lines:
            self._fill(deadline)
        line = self._lines.pop().decode("utf-8", "replace").rstrip("\r")
        log.log(LINES, "%d > %s", self.pid, line)
        return line

    def _fill(self, deadline: float) -> None:
        remaining = deadline - time.monotonic()
        ready = self._poll.poll(max(0.0, remaining) * 1000)
        if not ready or remaining < -_LATE_S:
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
            return "closed its output"
        with contextlib.suppress(OSError):
            os.set_blocking(self._stderr, False)
            self._errors += os.read(self._stderr, _CHUNK)
        text = self._errors.decode("utf-8", "replace").strip()
        last_words = f": {text.splitlines()[-1].strip()[:200]}" if text else ""
        if code >= 0:
            return f"exited with code {code}{last_words}"
        names = {number.value: number.name for number in signal.Signals}
        out_of_memory = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"was killed by {names.get(-code, -code)}{out_of_memory}{last_words}"

    def close(self, *lines: str, grace: float = 1.0) -> None:
        """Sends `lines`, waits up to `grace` seconds for the end, then kills the rest of the group."""
        with contextlib.suppress(EngineFailure, subprocess.TimeoutExpired):
            self.send(*lines)
            self._popen.wait(grace)
        self.kill()
        for stream in self._streams:
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
