"""kill -9 at random moments in mining, self-play and matches, and Ctrl-C held down: all goes on where it was."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import Note
from tests.faults.killing import KILLS, killed_often
from tests.match_doubles import fake_side, read_games, write_book
from tests.mining_doubles import dump, mine_by_key, random_games
from valuerepair.play.pgn import read_written
from valuerepair.store.store import Store

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]


def start(*command: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
    pipe: Any = subprocess.PIPE
    return subprocess.Popen([sys.executable, *command], stdout=pipe, stderr=pipe, text=True, cwd=cwd)


def killed_and_compared(
    playing: Callable[[int | str], subprocess.Popen[str]],
    written: Callable[[int | str], Any],
    wanted: Callable[[Any], bool],
    within: float,
    seed: int,
) -> int:
    """Kills runs that write games at random moments; each ends with what an undisturbed one wrote. Returns the runs."""
    printed = playing("whole").communicate(timeout=300)
    whole = written("whole")
    assert wanted(whole), printed

    def check(run: int) -> None:
        assert written(run) == whole

    return killed_often(playing, check, KILLS, within, seed)


def test_kill_9_in_mining(tmp_path: Path, note: Note) -> None:
    archive = random_games(tmp_path / "random.pgn", 100)
    mine_by_key(archive, tmp_path / "whole.db")
    whole = dump(tmp_path / "whole.db")

    def mining(run: int) -> subprocess.Popen[str]:
        return start("-m", "tests.mining_doubles", str(archive), str(tmp_path / f"{run}.db"), "0.01")

    def check(run: int) -> None:
        assert dump(tmp_path / f"{run}.db") == whole
        with Store.open(tmp_path / f"{run}.db") as store:
            assert store.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"

    runs = killed_often(mining, check, KILLS, within=9.0, seed=1)
    outcome = f"each of {runs} stores in the end that of an undisturbed run, every position once"
    note(
        "`kill -9` of mining (stand-ins for net and engine) at random moments",
        KILLS,
        f"nothing can be said; {outcome}",
        "-9; 0 when it goes on",
    )


def test_kill_9_in_self_play(tmp_path: Path, shared_data: Path, note: Note) -> None:
    net = str(shared_data / "nets" / "maia-1100.pb.gz")
    write_book(tmp_path / "book.pgn")
    fixed = ["--nodes", "4", "--device", "cpu", "--temperature", "0.8", "--repeat", "3"]

    def playing(run: int | str) -> subprocess.Popen[str]:
        files = ["-o", f"{run}.pgn", "--db", f"{run}.db", "--training", f"chunks{run}"]
        return start("-m", "valuerepair", "selfplay", "book.pgn", "--net", net, *fixed, *files, cwd=tmp_path)

    def written(run: int | str) -> tuple[list[str], dict[str, bytes]]:
        chunks = {path.name: path.read_bytes() for path in sorted((tmp_path / f"chunks{run}").glob("*.gz"))}
        return sorted(game.text for game in read_written(tmp_path / f"{run}.pgn")[0]), chunks

    runs = killed_and_compared(playing, written, lambda whole: [*map(len, whole)] == [12, 12], within=12.0, seed=2)
    said_of = f"{runs} times in the end the games and records of an undisturbed run, each once"
    note("`kill -9` of `vr selfplay` at random moments", KILLS, f"nothing can be said; {said_of}", "-9; 0 after")


def test_kill_9_in_matches(tmp_path: Path, note: Note) -> None:
    write_book(tmp_path / "book.pgn")
    sides = fake_side("one", "think=0.002"), fake_side("two", "think=0.002")

    def playing(run: int | str) -> subprocess.Popen[str]:
        fixed = ("--openings", "book.pgn", "--nodes", "9", "--jobs", "2", "-o", f"{run}.pgn")
        return start("-m", "valuerepair", "match", *sides, *fixed, cwd=tmp_path)

    def moves(run: int | str) -> dict[int, tuple[str, str]]:
        games = read_games(tmp_path / f"{run}.pgn")
        results = {
            int(g.headers["Round"]): (g.headers["Result"], " ".join(map(str, g.mainline_moves()))) for g in games
        }
        assert len(results) == len(games)
        return results

    runs = killed_and_compared(playing, moves, lambda whole: len(whole) == 8, within=8.0, seed=3)
    said_of = f"{runs} times in the end the games of an undisturbed run, each once"
    note("`kill -9` of `vr match` at random moments", KILLS, f"nothing can be said; {said_of}", "-9; 0 after")


def test_ctrl_c_held_down(tmp_path: Path, note: Note) -> None:
    write_book(tmp_path / "book.pgn")
    sides = fake_side("one", "think=0.02"), fake_side("two", "think=0.02")
    command = ("-m", "valuerepair", "match", *sides, "--openings", "book.pgn", "--nodes", "9", "-o", "m.pgn")
    dice, codes, printed = random.Random(4), set(), []
    for _ in range(5):
        process = start(*command, cwd=tmp_path)
        time.sleep(dice.uniform(3, 8))
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            time.sleep(dice.uniform(0, 0.1))
        _, errors = process.communicate(timeout=60)
        codes.add(process.returncode)
        printed.append(errors)
        assert not re.search(r"^Traceback", errors, re.MULTILINE) or process.returncode in (-2, 130), errors
    assert codes <= {0, 130, -2}, codes
    assert start(*command, cwd=tmp_path).wait(timeout=300) == 0
    rounds = sorted(int(game.headers["Round"]) for game in read_games(tmp_path / "m.pgn"))
    assert rounds == list(range(1, 9))
    last = Counter((errors.strip().splitlines() or [""])[-1] for errors in printed).most_common(1)[0][0]
    shown = ", ".join("ended by SIGINT, which a shell shows as 130" if c == -2 else str(c) for c in sorted(codes))
    note("20 SIGINTs within two seconds, in `vr match`", 5, last, shown)
