"""Bars on real (pseudo) terminals."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

PLAIN = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
BAR = (
    "from valuerepair.progress import Progress\nwith Progress('Mining', 3, 'positions') as p:\n"
    "    p.advance(); p.say('a remark'); p.advance(2)"
)


def environment(**extra: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in PLAIN} | extra


def on_a_terminal(command: list[str], **extra: str) -> str:
    """What a command shows when all its streams are a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**extra))
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # Linux says EIO where all that wrote to it is gone
        while data := os.read(ours, 65536):
            shown += data
    os.close(ours)
    assert process.wait(60) == 0, shown
    return shown.decode()


def test_bars_need_a_terminal_that_can() -> None:
    command = [sys.executable, "-c", BAR]
    assert "3/3" in (able := on_a_terminal(command, TERM="xterm"))
    assert "\r" in able.replace("\r\n", "")
    dumb = on_a_terminal(command, TERM="dumb")
    assert dumb == "a remark\r\n"
