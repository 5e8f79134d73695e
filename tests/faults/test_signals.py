"""SIGINT and SIGTERM at any moment of every long command: one line, nothing left, and the same command goes on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import random_nets
from tests.faults.conftest import Note
from tests.faults.storm import SIGNALS, Command, weather
from tests.match_doubles import write_book
from tests.mining_doubles import dump
from tests.test_pipeline_whole import NETS, tiny
from valuerepair.pipeline import settings as toml

pytestmark = pytest.mark.faults
GAMES = str(Path(__file__).parents[2] / "data" / "wild.pgn.zst")
DEEP = ("--deep", "mcts:nodes=8", "--device", "cpu")
ASKED = ("--threshold", "0.1")


def vr(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "valuerepair", *words], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands are given: nets, a store, a book, chunks."""
    folder = tmp_path_factory.mktemp("inputs")
    kind = replace(random_nets.BY_NAME["se-dense-policy"], blocks=1, moves_left=False)
    random_nets.write(kind, folder / "net.pb.gz")
    random_nets.write(kind, folder / "other.pb.gz", seed=2)
    vr(folder, "mine", GAMES, "--positions", "150", "--net", "net.pb.gz", *DEEP, "--db", "mined.db")
    vr(folder, "chunks", GAMES, "--games", "12", "-o", "some", "--form", "files")
    vr(folder, "chunks", GAMES, "--games", "40", "-o", "normal", "--form", "files")
    write_book(folder / "book.pgn")
    (folder / "repair").mkdir()
    toml.write(replace(tiny(folder), net=str(folder / "net.pb.gz")), folder / "repair" / toml.FILE)
    vr(folder, "repair", "-o", "repair", "--plan")  # measures this machine
    return folder


def store(folder: Path, name: str = "mined.db") -> Any:
    """All that a store says, but its runs, whose counts are of the last call, and where its nets lie."""
    return {table: rows for table, rows in dump(folder / name).items() if table not in ("runs", "files")}


def games(name: str) -> Callable[[Path], Any]:
    def of(folder: Path) -> list[str]:
        text = re.sub(r"\[(Date|Chunk) .*\]\n|\{[^}]*\}", "", (folder / name).read_text())
        # On a busy machine games end in another order, so any may be the first.
        return sorted(" ".join(game.split()) for game in f"\n\n{text}".split("\n\n[Event ")[1:])

    return of


def files(*names: str) -> Callable[[Path], Any]:
    def of(folder: Path) -> Mapping[str, bytes]:
        paths = [path for name in names for path in ([folder / name, *(folder / name).rglob("*")])]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}

    return of


NET = ("--net", "net.pb.gz", "--device", "cpu")
COMMANDS = {
    "mine": Command(
        ("mine", GAMES, "--positions", "300", *NET, "--deep", "mcts:nodes=8", "--db", "new.db"),
        lambda folder: store(folder, "new.db"),
    ),
    "confirm": Command(("confirm", "--db", "mined.db", *ASKED, "--nodes", "60"), store),
    "expand": Command(("expand", "--db", "mined.db", *ASKED, "--positions", "60"), store),
    "selfplay": Command(
        [
            *("selfplay", "book.pgn", *NET, "--nodes", "4", "--repeat", "6", "--temperature", "0.8", "--seed", "1"),
            *("-o", "s.pgn", "--db", "s.db", "--training", "trained"),
        ],
        games("s.pgn"),
    ),
    "match": Command(
        ("match", "net=net.pb.gz", "net=other.pb.gz", "--openings", "book.pgn", "--nodes", "4", "-o", "m.pgn"),
        games("m.pgn"),
    ),
    "experiment": Command(
        [
            *("experiment", "selfplay", "temperature=0.5", "temperature=1", "--nodes", "4", "--games", "8"),
            *("--net", "net.pb.gz"),
            *("--lines", "4", "-o", "tried"),
        ],
        lambda folder: [games(f"tried/{path.name}")(folder) for path in sorted((folder / "tried").glob("*.pgn"))],
    ),
    "train": Command(
        ("train", "--net", "net.pb.gz", "--store", "mined.db", "--steps", "30", "--set", "batch=32", "-o", "t.pb.gz"),
        files("t.pb.gz"),
    ),
    "repair": Command(("repair", "-o", "repair"), files(*(f"repair/{name}" for name in NETS))),
    "remeasure": Command(("remeasure", *NET, "--net", "other.pb.gz", "--db", "mined.db", *ASKED), store),
    "export": Command(("export", "--db", "mined.db", "--format", "chunks", "-o", "written"), files("written")),
    "chunks": Command(("chunks", GAMES, "--games", "400", "-o", "written"), files("written")),
    "mix": Command(("mix", "--repair", "some", "--normal", "normal", "--share", "0.2", "-o", "mixed"), files("mixed")),
    "rescore": Command(("rescore", "normal", "--db", "mined.db", "-o", "written"), files("written")),
    "store merge": Command(
        ("merge", "mined.db", "copy.db", "-o", "merged.db"), lambda folder: store(folder, "merged.db")
    ),
    "report": Command(
        ("report", "--db", "mined.db", *ASKED, "-o", "r.html"), lambda folder: (folder / "r.html").exists()
    ),
    "stats": Command(("stats", "--db", "mined.db", *ASKED), store),
    "search": Command(("search", "startpos", *NET, "--nodes", "3000"), files("net.pb.gz")),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment(name: str, inputs: Path, tmp_path: Path, note: Note) -> None:
    shutil.copy(inputs / "mined.db", inputs / "copy.db")
    share = max(2, SIGNALS // len(COMMANDS))
    outcomes = weather(COMMANDS[name], inputs, tmp_path, share, seed=len(name))
    codes = ", ".join(f"{number} times {code}" for code, number in sorted(outcomes.codes.items()))
    note(
        f"SIGINT or SIGTERM at any moment of `vr {name}`",
        share,
        f"vr: interrupted; {outcomes.finished} times in the end the result of an undisturbed run",
        codes,
    )
    print(f"{name}: {share} signals, {codes}, at most {outcomes.slowest:.1f} s", file=sys.stderr)
    assert not outcomes.wrong, "\n\n".join(outcomes.wrong)
