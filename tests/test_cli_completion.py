"""Completion as shells ask for it: the protocol, and real bash, zsh and fish with the script of `vr completion`."""

from __future__ import annotations

import os
import pty
import resource
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from valuerepair.cli import COMMANDS

BIN = Path(sys.executable).parent
LIMIT_S = 0.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store of two nets and two deep searches, an archive and a configuration."""
    with sqlite3.connect(tmp_path / "valuerepair.db") as connection:
        connection.execute("CREATE TABLE nets (id INTEGER PRIMARY KEY, name TEXT, sha256 TEXT)")
        connection.execute("CREATE TABLE oracles (id INTEGER PRIMARY KEY, label TEXT, digest TEXT)")
        connection.execute("INSERT INTO nets (name, sha256) VALUES ('maia-1900', 'e2f5'), ('repaired', 'aa11')")
        connection.execute(
            "INSERT INTO oracles (label, digest) VALUES ('stockfish 15.1 nodes=1000', '0123456789abcdef')"
        )
        connection.execute("INSERT INTO oracles (label, digest) VALUES ('lc0 nodes=800', 'fedcba9876543210')")
    (tmp_path / "valuerepair.db").rename(tmp_path / "own.db")
    (tmp_path / "valuerepair.toml").write_text('[defaults]\ndb = "own.db"\n')
    (tmp_path / "games.pgn").touch()
    (tmp_path / "gather").mkdir()
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb"}


def asked(folder: Path, line: str) -> list[tuple[str, str]]:
    """(kind, word) of what is offered for the last word of the line, by bash's protocol."""
    words = line.split(" ")
    protocol = {"_VR_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [BIN / "vr"], cwd=folder, env=environment() | protocol, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    offered = (row.partition(",") for row in done.stdout.splitlines() if row)
    return [(kind, word) for kind, _, word in offered]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vr mi", ["mine", "mix"]),
        ("vr ", [name for section in COMMANDS.values() for name in section]),
        ("vr books c", ["check"]),
        ("vr stats --thr", ["--threshold"]),
        ("vr stats --net ", ["maia-1900", "repaired"]),
        ("vr stats --net rep", ["repaired"]),
        ("vr stats --db none.db --net ", ["maia-1900"]),
        ("vr stats --oracle ", ["0123456789ab", "fedcba987654"]),
        ("vr stats --oracle f", ["fedcba987654"]),
        ("vr eval --device c", ["cpu", "cuda", "cuda:f16"]),
        ("vr books --order d", ["disagreement"]),
        ("vr mine --deep l", ["lc0:nodes="]),
        ("vr nets pull m", ["maia-1900"]),
        ("vr completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_the_protocol(folder: Path, line: str, words: list[str]) -> None:
    assert [word for kind, word in asked(folder, line) if kind == "plain"] == words


@pytest.mark.parametrize(
    "line", ["vr mine ", "vr mine --db ", "vr books check ", "vr stats --net ", "vr --config ", "vr match a b -o "]
)
def test_files_are_left_to_the_shell(folder: Path, line: str) -> None:
    assert ("file", "") in asked(folder, line)


def test_a_broken_store_offers_nothing_and_says_nothing(folder: Path) -> None:
    (folder / "own.db").write_text("no database")
    assert asked(folder, "vr stats --oracle ") == []


@pytest.mark.parametrize("line", ["vr mi", "vr stats --net ", "vr stats --oracle ", "vr mine --"])
def test_answers_come_at_once(folder: Path, line: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert asked(folder, line)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The processor's time, not the clock's: other work on the machine is not our slowness.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < LIMIT_S


def test_commands_are_completed_without_importing_them() -> None:
    program = (
        "import sys\nfrom valuerepair.cli import cli\nfrom click.shell_completion import BashComplete\n"
        "found = BashComplete(cli, {}, 'vr', '_VR_COMPLETE').get_completions([], 'mi')\n"
        "assert [item.value for item in found] == ['mine', 'mix'], found\n"
        "loaded = [m for m in sys.modules if m in ('valuerepair.cli.mine', 'valuerepair.cli.mix', 'numpy', 'pandas')]\n"
        "sys.exit(' '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_for_its_shell(shell: str, tmp_path: Path) -> None:
    done = subprocess.run([BIN / "vr", "completion", shell], capture_output=True, text=True, check=True)
    assert "_VR_COMPLETE" in done.stdout
    program = shutil.which(shell)
    if program is not None:
        script = tmp_path / "script"
        script.write_text(done.stdout)
        subprocess.run([program, "-n", script], check=True)


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(cwd)
            own = {"TERM": "vt100", "HOME": str(cwd), "PATH": f"{cwd / 'bin'}{os.pathsep}{os.environ['PATH']}"}
            os.execvpe(command[0], command, environment() | own)
        self.pid, self.seen = pid, ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait_for(self, text: str, seconds: float = 30.0) -> str:
        """All that was shown since the last call, once it holds the text."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} on the terminal: {self.seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
        before, self.seen = self.seen, ""
        return before

    def close(self) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


# Answers the shell's questions as vr does, and else says what it was called with.
STAND_IN = """#!/bin/sh
case "$*$_VR_COMPLETE" in
  completion*|*_source|*_complete) exec {vr} "$@" ;;
esac
echo "was <$*>"
"""
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(vr completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -Uz compinit; compinit -u; eval "$(vr completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "vr completion fish | source"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_in_a_real_shell(shell: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    stand_in = folder / "bin" / "vr"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN.format(vr=BIN / "vr"))
    stand_in.chmod(0o755)
    command, setup = SHELLS[shell]
    terminal = Terminal(command, folder)
    try:
        terminal.type(f"{setup}; echo rea''dy\n")
        terminal.wait_for("ready")
        for typed, completed in (
            ("vr remea", "remeasure"),
            ("vr stats --net rep", "stats --net repaired"),
            ("vr mine game", "mine games.pgn"),
        ):
            terminal.type(f"{typed}\t\n")
            terminal.wait_for(f"was <{completed}>")
    finally:
        terminal.close()
