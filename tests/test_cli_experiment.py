"""`vr experiment` as a user types it: with a real net, stopped and gone on with, reported, in every form."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.play.figures import PlayedGame
from valuerepair.play.pgn import read_written

ODDS = """rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1
rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1
"""
# A bare king against two queens: such games are short.
ENDINGS = "7k/8/8/8/8/3Q4/2Q5/K7 w - - 0 1\n7K/8/8/8/8/3q4/2q5/k7 b - - 0 1\n"


@pytest.fixture
def maia(shared_data: Path, tmp_path: Path) -> list[str]:
    (tmp_path / "endings.epd").write_text(ENDINGS)
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    return ["--net", net, "--openings", str(tmp_path / "endings.epd")]


def vr(*words: str) -> str:
    """Standard output of a command that must succeed."""
    result = CliRunner().invoke(cli, ["experiment", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_sweep_and_its_match_in_one_command(maia: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    settings = ["n_scl=2", "n_scl=inf", "temperature=1"]
    words = ["selfplay", *settings, "-o", str(folder), "--nodes", "8", "--match", "n_scl=2", "--match-games", "4"]
    table = vr(*words, "--games", "4", *maia)
    assert all(name in table for name in settings)
    assert (folder / "plot.png").stat().st_size > 10_000
    files = {path: path.read_bytes() for path in folder.glob("*.pgn")}
    assert {path.stem for path in files} >= set(settings)
    games = [PlayedGame.of_written(game) for game in read_written(folder / "temperature=1.pgn")[0]]
    assert all(len(game.gaps) == game.plies > 0 for game in games)
    vr(*words, "--games", "4", *maia)
    rows = rows_of(folder)
    assert [row["games"] for row in rows][:3] == ["4"] * 3
    assert int(rows[0]["positions"]) == sum(
        PlayedGame.of_written(g).plies for g in read_written(folder / "n_scl=2.pgn")[0]
    )
    # More games are added to those that are there, and the same search repeats itself.
    vr("selfplay", "n_scl=inf", "-o", str(folder), "--nodes", "8", "--games", "6", *maia)
    more = next(row for row in rows_of(folder) if row["setting"] == "n_scl=inf")
    assert (more["games"], more["repeats_whole"]) == ("6", "1.0")
    assert (folder / "n_scl=inf.pgn").read_bytes().startswith(files[folder / "n_scl=inf.pgn"])


@pytest.mark.slow
def test_a_table_loses_no_row(maia: list[str], tmp_path: Path) -> None:
    """A second experiment of the same kind in the folder adds its rows and replaces the rows of the same settings."""
    for command, end in (("selfplay", ""), ("match", " against plain")):
        few = ["-o", str(tmp_path / command), "--nodes", "2", *maia]
        for settings, games in ((["n_scl=2", "n_scl=3"], "2"), (["n_scl=4", "n_scl=3"], "4")):
            vr(command, *settings, *few, "--games", games)
        rows = {row["setting"]: row["games"] for row in rows_of(tmp_path / command)}
        assert rows == {f"n_scl=4{end}": "4", f"n_scl=3{end}": "4", f"n_scl=2{end}": "2"}
    plot = CliRunner().invoke(cli, ["plot", "sweep", str(tmp_path / "selfplay"), "-o", str(tmp_path / "p.png")])
    assert plot.exit_code == 0, plot.output
    assert "10 games at 3 settings" in plot.stdout + plot.stderr, repr(plot.output)


def test_odds(maia: list[str], tmp_path: Path) -> None:
    book, folder = tmp_path / "queens.epd", tmp_path / "out"
    book.write_text(ODDS)
    words = ["match", "nodes=2", "nodes=2,n_scl=2", "--against", "nodes=1", "--odds", "--games", "2", *maia[:2]]
    lines = vr(*words, "-o", str(folder), "--openings", str(book)).splitlines()
    assert [line.split(" against ")[0] for line in lines[1:3]] == ["nodes=2", "nodes=2 n_scl=2"]
    games = read_written(folder / "nodes=2-against-nodes=1.pgn")[0]
    assert sorted((game.tags["BookLine"], game.tags["White"]) for game in games) == [("1", "nodes=2"), ("2", "nodes=1")]


@pytest.mark.slow
def test_ctrl_c_keeps_games_and_the_same_command_goes_on(maia: list[str], tmp_path: Path) -> None:
    words = ["match", "lookahead=1", "-o", str(tmp_path / "out"), "--nodes", "30", *maia, "--games"]
    command = [sys.executable, "-m", "valuerepair", "experiment", *words, "600"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    games, deadline = tmp_path / "out" / "lookahead=1-against-plain.pgn", time.monotonic() + 120
    while not games.exists() or games.read_bytes().count(b"[Event ") < 4:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "run the same command again" in errors
    assert "not all games of the setting are over" in out
    kept = games.read_bytes()
    assert 4 <= kept.count(b"[Event ") < 600
    numbers = {game.number for game in read_written(games)[0]}
    vr(*words, str(2 * (max(numbers) // 2) + 2), *maia)
    assert games.read_bytes().startswith(kept)


@pytest.mark.parametrize(("words", "message"), [
    (["selfplay", "n_scl=0"], "n_scl=0: must be a whole number of at least 1, or inf"),
    (["selfplay", "stockfish"], "only the built-in search plays itself"),
    (["selfplay", "--match", "n_scl=9"], "--match n_scl=9: is not one of the settings"),
    (["selfplay", "--games", "0"], "--games 0: must be at least 1"),
    (["selfplay", "net=missing.pb.gz"], "missing.pb.gz"),
    (["match", "nodes=5", "--odds", "--games", "2"], "gives no odds"),
])  # fmt: skip
def test_wrong_words(words: list[str], message: str, maia: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["experiment", *words, "-o", str(tmp_path / "out"), *maia[:2]])
    assert isinstance(result.exception, ValueRepairError), result.output
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()
