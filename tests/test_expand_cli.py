"""`vr expand` as a user types it: real net, real Stockfish, an engine that says nonsense, bad input."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import chess
import chess.pgn
import pytest

import valuerepair as vr
from tests.vr_runs import here
from valuerepair.store.store import Store

FAKE = f"uci:{sys.executable},arg=-I,arg={Path(__file__).with_name('fake_engine.py')},arg=play,nodes=50"
WORDS = ("--positions", "60", "--screen", "off", "--threshold", "0.3", "--alpha", "170", "--jobs", "1", "--db", "a.db")
ASKED = ("--db", "a.db", "--threshold", "0.3", "--alpha", "170")


@pytest.fixture(scope="module")
def mined(shared_data: Path, maia_file: str, stockfish: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store: candidates by Stockfish."""
    folder = tmp_path_factory.mktemp("mined")
    archive = shared_data / "pgn" / "lichess-blitz.pgn"
    done = here("mine", archive, *WORDS, "--deep", "stockfish:nodes=2000", "--net", maia_file, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(mined: Path, tmp_path: Path) -> Path:
    shutil.copy(mined / "a.db", tmp_path / "a.db")
    return tmp_path


def cells(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path / "a.db")) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.slow
def test_it_finds_the_engine_again_and_books_take_what_it_found(folder: Path, maia_file: str) -> None:
    done = here("expand", *ASKED, "--net", maia_file, "--positions", "40", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "searched: 40 positions" in done.stdout
    assert "next: vr books --db a.db --threshold 0.3 --alpha 170 --expanded all" in done.stdout
    ((searched,),) = cells(folder, "SELECT count(*) FROM expanded WHERE searched OR cut_at NOT NULL")
    assert searched == 40
    assert cells(folder, "SELECT count(DISTINCT oracle_id) FROM deep_values") == [(1,)]
    # What Stockfish says of its line is mostly what it says of the position itself.
    frame = vr.open_store(folder / "a.db").frame(vr.Question(alpha=170.0, expanded="all"))
    assert frame["inferred"].sum() > 50
    books = here("books", *ASKED, "--net", maia_file, "--expanded", "all", "-o", "out", cwd=folder)
    assert books.returncode == 0, books.stderr
    with (folder / "out" / "book.pgn").open() as file:
        game = chess.pgn.read_game(file)
        while game is not None:
            assert not game.errors
            assert not game.end().board().is_game_over()
            game = chess.pgn.read_game(file)
    checked = here("doctor", "a.db", cwd=folder)
    assert checked.returncode == 0, checked.stdout


def test_python_does_the_same(folder: Path, maia_file: str) -> None:
    question = vr.Question(net=maia_file, threshold=0.3, alpha=170.0)
    summary = vr.expand(folder / "a.db", question, positions=10)
    assert (summary.state, summary.tally.planned) == ("limited", 10)


@pytest.mark.slow
def test_an_engine_of_ones_own_is_named_and_its_lines_may_be_nonsense(
    tmp_path: Path, shared_data: Path, maia_file: str
) -> None:
    """The fake engine's line is e2e4 e7e5 wherever it is."""
    archive = shared_data / "pgn" / "lichess-blitz.pgn"
    assert here("mine", archive, *WORDS, "--deep", FAKE, "--net", maia_file, cwd=tmp_path).returncode == 0
    words = (*ASKED, "--net", maia_file)
    lost = here("expand", *words, cwd=tmp_path)
    assert lost.returncode == 2
    assert "--deep uci:/path" in lost.stderr
    other = here("expand", *words, "--deep", FAKE.replace("nodes=50", "nodes=60"), cwd=tmp_path)
    assert other.returncode == 2
    assert "another one was found" in other.stderr
    done = here("expand", *words, "--deep", FAKE, "--positions", "30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with Store.open(tmp_path / "a.db") as store:
        for (pv,) in store.connection.execute("SELECT pv FROM deep_values WHERE stage = 'inferred'"):
            assert pv in ("e7e5", "")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--db", "none.db"), 1, "none.db"),
        (("--db", "a.db", "--positions", "0"), 2, "--positions 0"),
        (("--db", "a.db", "--threshold", "2"), 1, "no candidates at 2"),
        (("--db", "a.db", "--net", "leela"), 1, "leela"),
        (("--db", "a.db", "--deep", "stockfish:nodes=9"), 2, "another one was found"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    words: tuple[str, ...], code: int, said: str, folder: Path, maia_file: str
) -> None:
    net = () if "--net" in words else ("--net", maia_file)
    done = here("expand", *words, *net, cwd=folder)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_split_that_is_left_out_or_is_another_one_is_told(folder: Path, maia_file: str) -> None:
    for name, seed in (("split.json", "1"), ("other.json", "2")):
        done = here("split", "--db", "a.db", "--games", "0.5", "--seed", seed, "-o", name, cwd=folder)
        assert done.returncode == 0, done.stderr
    expand = ("expand", *ASKED, "--net", maia_file, "--positions", "2")
    without = here(*expand, cwd=folder)
    assert "are not for training by other.json; --split other.json leaves them out" in without.stderr
    same = here(*expand, "--split", "other.json", cwd=folder)
    assert (same.returncode, "warning" in same.stderr) == (0, False)
    another = here(*expand, "--split", "split.json", cwd=folder)
    assert "warning: until now other.json held out other positions of this store; " in another.stderr
