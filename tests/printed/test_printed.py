"""What ten commands print, word for word: the one place where wording is tested.

``pytest tests/printed --update-printed`` writes the texts anew; look at the change before you commit it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli_tree import SAMPLE
from tests.match_doubles import fake_side, write_book
from tests.vr_runs import here

HERE = Path(__file__).parent
GAMES = SAMPLE.with_name("games.pgn.zst")
MINE = f"mine {GAMES} --positions 12 --deep mcts:nodes=8 --screen off --device cpu --jobs 1"
SIDES = f"{fake_side('one')} {fake_side('two')}"


def as_it_is(text: str) -> str:
    return text


def without_numbers(text: str) -> str:
    """For what depends on the machine and on the time of day."""
    return re.sub(r"\d[\d,]*(\.\d+)?", "#", text)


CASES: dict[str, tuple[str, Callable[[str], str]]] = {
    "help": ("--help", as_it_is),
    "mine": (f"{MINE} --db new.db", without_numbers),
    "stats": ("stats --threshold 0.35 --worst 3", as_it_is),
    "show": ("show 588", as_it_is),
    "books": ("books --threshold 0.35 -o book", as_it_is),
    "compare": ("compare maia-1900 maia-1100 --threshold 0.35 --device cpu", as_it_is),
    "match": (f"match {SIDES} --openings book.pgn --nodes 9 --games 4 --jobs 1", without_numbers),
    "eval": ("eval startpos moves e2e4 e7e5 --device cpu", as_it_is),
    "merge": ("merge valuerepair.db copy.db -o all.db", as_it_is),
    "doctor": ("doctor valuerepair.db book.pgn", as_it_is),
}


@pytest.mark.usefixtures("maia_file")
@pytest.mark.parametrize("name", CASES)
def test_what_a_command_prints(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "112")
    call, masked = CASES[name]
    for copy in ("valuerepair.db", "copy.db"):
        shutil.copy(SAMPLE, tmp_path / copy)
    write_book(tmp_path / "book.pgn")
    done = here(*call.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = f"$ vr {call}\n{done.stdout}".replace(str(GAMES), "games.pgn.zst").replace(SIDES, "ONE TWO")
    text = masked(text.replace(str(tmp_path), "."))
    golden = HERE / f"{name}.txt"
    if request.config.getoption("--update-printed"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")
