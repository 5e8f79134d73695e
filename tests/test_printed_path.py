"""The lines that the program prints after ``next:`` run in a shell as they are, with a net of one's own, to the end of
the loop; and none of them takes a position that is held out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import chess
import chess.pgn
import numpy as np
import pytest
from valuerepair.judge.split import JUDGED, PARTS, Split, known_split, read_split

from tests import random_nets
from tests.chunk_games import run
from tests.vr_runs import Done, here
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.positions import Position
from valuerepair.question import Question
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[1]
NET_NAME = "my-net.pb.gz"
CALLED = "vr is called with:"
# What makes the printed lines quick: a line is run as it was printed, and what it leaves open is small.
SMALL = """
[books]
limit = 4
[expand]
positions = 40
"""


def prepared(folder: Path, config: str = SMALL) -> Path:
    """A folder with games, a net unknown to the program, and a `vr` that prints its arguments."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "data" / "wild.pgn.zst", folder / "games.pgn.zst")
    kind = replace(random_nets.BY_NAME["se-dense-policy"], blocks=1, moves_left=False)
    random_nets.write(kind, folder / NET_NAME)
    (folder / "valuerepair.toml").write_text(config)
    (folder / "bin").mkdir()
    shim = folder / "bin" / "vr"
    shim.write_text(f"#!/bin/sh\nprintf '{CALLED}'\nprintf '%s\\0' \"$@\"\n")
    shim.chmod(0o755)
    return folder


def shell(line: str, folder: Path) -> Done:
    """The line, in bash, with less to search; what bash has `vr` called with runs in this process."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    bash = ["bash", "-c", line.replace("--nodes 800", "--nodes 4")]
    done = subprocess.run(
        bash, capture_output=True, text=True, cwd=folder, env={**os.environ, "PATH": path}, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.endswith("\0")
    assert done.stdout.count(CALLED) == 1, "bash calls it once"
    return here(*done.stdout.removeprefix(CALLED).removesuffix("\0").split("\0"), cwd=folder)


def printed(done: Done) -> str:
    """The command after ``next:``, which is the last line."""
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert last.startswith("next: vr "), done.stdout
    return last.removeprefix("next: ")


def followed(line: str, folder: Path) -> list[str]:
    """The lines that are printed from this one on, each run, to the one that prints none."""
    lines = []
    while True:
        lines.append(line)
        done = shell(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        nexts = [printed_line for printed_line in done.stdout.splitlines() if printed_line.startswith("next:")]
        if not nexts:
            return lines
        assert nexts == done.stdout.splitlines()[-1:]
        line = nexts[0].removeprefix("next: ")


MINE = ("mine", "games.pgn.zst", "--net", NET_NAME, "--deep", "mcts:nodes=4", "--threshold", "0.1", "--screen", "off")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """The folder after the whole loop, and the lines that each of its commands led to."""
    folder = prepared(tmp_path_factory.mktemp("loop") / "a folder")
    lines = {"mine": followed(printed(here(*MINE, "--positions", "300", cwd=folder)), folder)}
    lines["split"] = followed(printed(here("split", cwd=folder)), folder)
    again = here(*MINE, "--positions", "320", cwd=folder)
    lines["mine again"] = followed(printed(again), folder)
    few = ("--threshold", "worst:1%", "--deep", "mcts:nodes=12")
    lines["confirm"] = followed(printed(here("confirm", "--expanded", "all", *few, cwd=folder)), folder)
    return folder, lines


def test_each_command_leads_to_the_end_of_the_loop(loop: tuple[Path, dict[str, list[str]]]) -> None:
    _, lines = loop
    words = {name: [line.split()[1] for line in run] for name, run in lines.items()}
    assert words["mine"] == words["mine again"] == words["confirm"] == ["books", "selfplay", "stats"]
    assert words["split"] == ["expand", "books", "selfplay", "stats"]
    assert all(f"--net {NET_NAME}" in line for run in lines.values() for line in run if " selfplay " in line)


def test_what_is_printed_after_a_split_names_it(loop: tuple[Path, dict[str, list[str]]]) -> None:
    _, lines = loop
    assert "--split" not in lines["mine"][0]
    after = [line for name in ("split", "mine again", "confirm") for line in lines[name]]
    for line in after:
        assert ("--split split.json" in line) == (line.split()[1] in ("expand", "books", "selfplay")), line


def held_out(folder: Path, parts_of: Sequence[str] = PARTS[1:]) -> set[int]:
    """The keys of the positions of the store that are in these parts, by default in any other than train."""
    with Store.open(folder / "valuerepair.db") as store:
        split = known_split(store)
        assert split is not None
        rows = store.connection.execute("SELECT id, key FROM positions ORDER BY id").fetchall()
        parts = read_split(folder / "split.json").parts(store, np.array([number for number, _ in rows], np.int64))
    held = {key for (_, key), part in zip(rows, parts.tolist(), strict=True) if PARTS[part] in parts_of}
    assert len(held) > 20
    return held


def keys_of(boards: Iterable[chess.Board]) -> set[int]:
    fens = [board.fen(en_passant="fen") for board in boards]
    return set(keys(parse_fens(fens)).view(np.int64).tolist())


def of_book(path: Path) -> Iterator[chess.Board]:
    with path.open() as file:
        for game in iter(lambda: chess.pgn.read_game(file), None):
            assert game is not None
            yield game.end().board()


def of_held_families(records: Sequence[Position], split: Split) -> list[str]:
    """The FENs of training records whose pieces are those of a held-out family, whichever side has which."""
    families = {frozenset(name.replace("K", "").split("v")) for name in split.materials}
    assert families
    return [record.fen for record in records if frozenset(map("".join, pieces_of(record.fen))) in families]


def pieces_of(fen: str) -> list[list[str]]:
    """The kinds of pieces of White and of Black, beside king and pawns."""
    men = fen.split()[0]
    return [[piece for piece in "QRBN" if change(piece) in men] for change in (str.upper, str.lower)]


def test_nothing_that_is_held_out_is_in_a_book_or_a_chunk(loop: tuple[Path, dict[str, list[str]]]) -> None:
    """The book that was written last, read by python-chess, and the chunks of all games from books after the split."""
    folder, _ = loop
    held = held_out(folder)
    # The games from the book of before the split are those without a digest in their name.
    books = keys_of(of_book(folder / "valuerepair-books" / "book.pgn"))
    chunks = list(folder.glob("book-chunks-*"))
    records, _ = run(*chunks)
    assert books
    assert records
    assert len(chunks) >= 2  # one and the same book goes on with its games
    assert not books & held
    assert not {int(np.uint64(record.key).view(np.int64)) for record in records} & held_out(folder, JUDGED)
    assert not of_held_families(records, read_split(folder / "split.json"))
    # What is counted is able to find something: without the split the same book has positions that are held out.
    command = ("books", "--threshold", "0.05", "-o", "all-of-it", "--limit", "300")
    done = here(*command, cwd=folder)
    leaked = keys_of(of_book(folder / "all-of-it" / "book.pgn")) & held
    assert leaked
    leak = re.search(
        r"^warning: ([\d,]+) of these ([\d,]+) positions are not for training by split.json", done.stderr, re.M
    )
    assert leak is not None
    assert int(leak[1].replace(",", "")) >= len(leaked)
    assert not re.search("not for training", here(*command, "--split", "split.json", cwd=folder).stderr)


def test_training_learns_nothing_that_is_held_out_and_leads_to_the_comparison(
    loop: tuple[Path, dict[str, list[str]]],
) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    folder, _ = loop
    command = ("train", "--db", "valuerepair.db", "--net", NET_NAME, "--steps", "8", "--set", "batch=64")
    done = here(*command, "--split", "split.json", "-o", "trained.pb.gz", cwd=folder)
    line = printed(done)
    assert "not for training" not in done.stderr
    assert line.split()[1] == "compare"
    assert followed(line, folder) == [line]
    again = shell(f"{line} --json", folder)
    assert again.returncode == 0, again.stderr
    without = here(*command, "-o", "careless.pb.gz", cwd=folder)
    assert without.returncode == 0
    assert "not for training by split.json; --split split.json leaves them out" in without.stderr
    assert "next:" not in without.stdout


def test_a_folder_and_a_store_with_blanks(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "of mine")
    command = (*MINE, "--positions", "60", "--db", "my store.db")
    books = printed(here(*command, cwd=folder))
    assert "--db 'my store.db'" in books
    lines = followed(f"{books} -o 'a book'", folder)
    assert [line.split()[1] for line in lines] == ["books", "selfplay", "stats"]
    assert "'a book/book.pgn'" in lines[1]


def test_a_split_that_cannot_be_read_is_missed(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "gone")
    assert here(*MINE, "--positions", "100", cwd=folder).returncode == 0
    assert here("split", cwd=folder).returncode == 0
    (folder / "split.json").unlink()
    done = here("books", "--threshold", "0.05", cwd=folder)
    assert done.returncode == 0
    assert str(folder / "split.json") in done.stderr
    with Store.open(folder / "valuerepair.db") as store:
        assert known_split(store) is None
        assert len(store.candidates(Question(threshold=0.05)))
