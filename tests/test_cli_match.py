"""`vr match` as a command: real engines, kill and resume, Ctrl-C, what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.match_doubles import FAKE, fake_side, read_games, write_book
from tests.vr_runs import here


def vr(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "valuerepair", "match", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_games(path: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Until so many games are written."""
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count('[Event "') < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def engines(mark: str) -> list[int]:
    """Processes of the scripted engine with this on their command line."""
    numbers = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = process.info["cmdline"] or []
        if FAKE in line and mark in line:
            numbers.append(process.info["pid"])
    return numbers


def wait_for_no_engine(mark: str) -> None:
    deadline = time.monotonic() + 10
    while engines(mark):
        assert time.monotonic() < deadline, f"left behind: {engines(mark)}"
        time.sleep(0.05)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 130)])
@pytest.mark.slow
def test_a_stopped_match_goes_on_and_all_games_are_kept(tmp_path: Path, number: signal.Signals, code: int) -> None:
    write_book(tmp_path / "book.pgn", 3)
    mark = f"mark={number.name}{os.getpid()}"
    sides = fake_side("one", mark, "think=0.005"), fake_side("two", mark, "think=0.005")
    command = (*sides, "--openings", "book.pgn", "--nodes", "9", "--jobs", "2", "-o", "m.pgn")
    process = vr(*command, cwd=tmp_path)
    wait_for_games(tmp_path / "m.pgn", 2, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    wait_for_no_engine(mark)
    kept = (tmp_path / "m.pgn").read_text()
    whole = kept[: kept.rindex("\n\n") + 2]
    if number is not signal.SIGKILL:
        assert kept == whole
        assert "one against two: " in out
        assert err.rstrip().endswith("vr: interrupted")
    done = here("match", *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "games are played already; resuming" in done.stderr
    assert (tmp_path / "m.pgn").read_text().startswith(whole)
    rounds = [int(game.headers["Round"]) for game in read_games(tmp_path / "m.pgn")]
    assert sorted(rounds) == list(range(1, 7))
    assert done.stdout.startswith("one against two: 6 games\n")
    again = here("match", *command, cwd=tmp_path)
    assert "m.pgn: 6 of 6 games are played already\n" in again.stderr
    assert again.stdout == done.stdout
    wait_for_no_engine(mark)


def test_stockfish_against_itself(tmp_path: Path, stockfish: str) -> None:
    sides = f"{stockfish},nodes=300", "stockfish:nodes=20"
    done = here("match", *sides, "--games", "12", "--json", "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    games = read_games(tmp_path / "match.pgn")
    assert len(games) == result["games"] == result["planned"] == 12
    assert result["faults"] == {name: {} for name in result["players"]}
    first = result["players"][0]
    colours = {"as_white": "White", "as_black": "Black"}
    for key, colour in colours.items():
        wins = {"White": "1-0", "Black": "0-1"}[colour]
        own = [game.headers["Result"] for game in games if game.headers[colour] == first]
        assert result[key] == {
            "wins": own.count(wins),
            "draws": own.count("1/2-1/2"),
            "losses": len(own) - own.count(wins) - own.count("1/2-1/2"),
        }
    for game in games:
        outcome = game.end().board().outcome(claim_draw=True)
        assert outcome is not None
        assert outcome.result() == game.headers["Result"]
    assert result["score"]["wins"] > result["score"]["losses"], "300 nodes are better than 20"
    assert [row["level"] for row in result["elo"]] == [0.9, 0.95, 0.97, 0.99]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("nosuch", "nosuch", "--nodes", "1"), 1, "nosuch: no such engine"),
        (("net=x,nods=1", "stockfish"), 2, "did you mean nodes?"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    done = here("match", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    assert done.stderr.startswith("vr: ")
    assert complaint in done.stderr
    assert list(tmp_path.iterdir()) == []
