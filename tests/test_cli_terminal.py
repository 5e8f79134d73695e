"""Colours and bars on real (pseudo) terminals and without one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.cli_tree import SAMPLE
from valuerepair.chess import progress
from valuerepair.cli import wants_colour

ESCAPE = "\x1b["
PLAIN = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
BAR = (
    "from valuerepair.chess.progress import Progress\nwith Progress('Mining', 3, 'positions') as p:\n"
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


def test_one_unit_of_an_unknown_number_is_one(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.0)
    with progress.Progress("reading", None, "games") as games:
        games.advance()
        games.advance()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("reading: 1 game, ")
    assert second.startswith("reading: 2 games, ")


@pytest.mark.parametrize(
    ("extra", "coloured"),
    [
        ({}, None),
        ({"TERM": "xterm"}, None),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, None),
        ({"CLICOLOR": "0"}, False),
        ({"CLICOLOR": "1"}, None),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0"}, None),
        ({"FORCE_COLOR": "1", "CLICOLOR": "0"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_what_the_environment_says_of_colours(
    extra: dict[str, str], coloured: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*PLAIN, "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in extra.items():
        monkeypatch.setenv(name, value)
    assert wants_colour() is coloured


def test_colours_in_a_pipe_where_they_are_forced() -> None:
    """On a terminal: tests/test_views_show.py."""
    command = [sys.executable, "-m", "valuerepair", "show", "1", "--db", str(SAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(FORCE_COLOR="1"), check=True)
    assert ESCAPE in done.stdout
    assert done.stderr == ""


def test_no_table_has_escapes_in_a_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "valuerepair", "nets", "list"]
    own = environment(TERM="xterm-256color")
    done = subprocess.run(command, capture_output=True, text=True, env=own, cwd=tmp_path, check=True)
    assert ESCAPE not in done.stdout + done.stderr


def test_bars_need_a_terminal_that_can() -> None:
    command = [sys.executable, "-c", BAR]
    assert "3/3" in (able := on_a_terminal(command, TERM="xterm"))
    assert "\r" in able.replace("\r\n", "")
    dumb = on_a_terminal(command, TERM="dumb")
    assert dumb == "a remark\r\n"


@pytest.mark.parametrize(("level", "option", "shown_as"), [("debug", "'-v'", "x: a file"), ("info", "", "a file")])
def test_remarks_and_details_leave_the_bar_whole(level: str, option: str, shown_as: str) -> None:
    program = BAR.replace("p.advance();", f"p.advance(); logging.getLogger('valuerepair.x').{level}('a file');")
    program = (
        "import click, logging\nfrom valuerepair.cli import printing\n"
        f"def bar():\n{textwrap.indent(program, '    ')}\n"
        f"c = click.Command('c', callback=bar)\nprinting.add_options(c)\nc.main([{option}], standalone_mode=False)\n"
    )
    shown = on_a_terminal([sys.executable, "-c", program], TERM="xterm")
    line = next(line for line in shown.split("\n") if "a file" in line)
    assert line.rstrip("\r").rpartition("\r")[2].endswith(shown_as)
    assert "Mining" not in line.rstrip("\r").rpartition("\r")[2]
