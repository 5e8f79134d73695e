"""`vr experiment` as a user types it: with a real net, stopped and gone on with, reported, in every form."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError

ODDS = """rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1
rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1
"""
QUICK = ["--max-plies", "24", "--openings", "8", "--jobs", "8", "--device", "cpu"]


@pytest.fixture
def maia(shared_data: Path) -> list[str]:
    return ["--net", str(shared_data / "nets" / "maia-1900.pb.gz")]


def vr(*words: str) -> str:
    """Standard output of a command that must succeed."""
    result = CliRunner().invoke(cli, ["experiment", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_contempt_in_one_command(maia: list[str], tmp_path: Path) -> None:
    sweep = ["contempt", "-o", str(tmp_path), "--nodes", "8", "--n-scl", "2,inf", "--temperature", "0.5,1"]
    words = [*sweep, "--games", "8", "--match", "2", "--match-games", "4", *maia, *QUICK]
    table = vr(*words)
    assert all(name in table for name in ("N_scl=2", "N_scl=inf", "tau=0.5", "tau=1"))
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    rows = json.loads(vr(*words, "--report", "--json"))
    assert [row["games"] for row in rows][:4] == [8] * 4
    assert all(row["positions"] > 8 * 8 for row in rows[:4])
    with (tmp_path / "table.csv").open(newline="") as file:
        assert [row["setting"] for row in csv.DictReader(file)] == [row["setting"] for row in rows]


def test_plain_search_repeats_itself_and_temperature_does_not(maia: list[str], tmp_path: Path) -> None:
    words = ["contempt", "-o", str(tmp_path), "--nodes", "8", "--n-scl", "inf", "--temperature", "1", "--games", "16"]
    plain, drawn = json.loads(vr(*words, "--match-games", "0", "--json", *maia, *QUICK))
    assert plain["repeats_whole"] == 1
    assert drawn["repeats_20"] < 0.5


def test_odds_from_epd(maia: list[str], tmp_path: Path) -> None:
    book = tmp_path / "queens.epd"
    book.write_text(ODDS)
    words = ["odds", str(book), "-o", str(tmp_path / "out"), "--nodes", "4,8", "--n-scl", "2,inf", "--games", "2"]
    lines = vr(*words, *maia, *QUICK).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["queens", f"N_scl={n},"] for n in ("inf", "2")] * 2


def test_options_against_themselves_without(maia: list[str], tmp_path: Path) -> None:
    out = vr("options", "certainty", "-o", str(tmp_path), "--nodes", "8", "--games", "4", *maia, *QUICK)
    assert "certainty against without certainty" in out


def test_ctrl_c_keeps_games_and_the_same_command_goes_on(maia: list[str], tmp_path: Path) -> None:
    words = ["options", "lookahead", "-o", str(tmp_path), "--nodes", "30", "--games", "60", *maia, *QUICK]
    command = [sys.executable, "-m", "valuerepair", "experiment", *words]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    games, deadline = tmp_path / "games" / "option-lookahead.jsonl", time.monotonic() + 90
    while not games.exists() or games.read_bytes().count(b"\n") < 4:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "give the same command again to go on" in errors
    kept = games.read_bytes()
    assert 4 <= kept.count(b"\n") < 61
    vr(*words[:7], str(kept.count(b"\n") + 3), *maia, *QUICK)
    assert games.read_bytes().startswith(kept)


@pytest.mark.parametrize(("words", "message"), [
    (["contempt", "--n-scl", "0"], "n_scl=0: must be a whole number of at least 1, or inf"),
    (["contempt", "--temperature", "x"], "--temperature x: must be numbers, separated by commas"),
    (["contempt", "--plot", "a.gif"], "a.gif: a plot's name ends in .png, .svg or .pdf"),
    (["contempt", "--report"], "no games of an experiment there to report on"),
    (["contempt", "--jobs", "0"], "--jobs 0: must be at least 1"),
    (["options", "--set", "cpukt=1"], "did you mean cpuct?"),
    (["odds", "nosuch.epd"], "nosuch.epd: no such file"),
])  # fmt: skip
def test_wrong_words(words: list[str], message: str, maia: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["experiment", *words, "-o", str(tmp_path / "out"), *maia])
    assert isinstance(result.exception, ValueRepairError), result.output
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()
