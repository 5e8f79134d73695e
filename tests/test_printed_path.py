"""The lines that the program prints after ``next:`` run in a shell as they are, with a net of one's own, to the end of
the loop; and none of them takes a position that is held out."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import chess
import chess.pgn
import numpy as np
import pytest

from tests import random_nets
from tests.chunk_games import run
from tests.fake_engine import __file__ as fake_engine
from tests.vr_runs import Done, here
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.positions import Position
from valuerepair.judge.split import JUDGED, PARTS, Split, known_split, read_split
from valuerepair.question import Question
from valuerepair.store.files import find_net, net_option
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[1]
NET_NAME = "my-net.pb.gz"
CALLED = "vr is called with:"
# What makes the printed lines quick: a line is run as it was printed, and what it leaves open is small.
SMALL = """
[books]
limit = 4
[selfplay]
draw = "1,2,1"
[expand]
positions = 40
[train]
steps = 4
set = ["batch=32", "every=2"]
lr = 0.000005
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
    """The line, in bash; what bash has `vr` called with runs in this process."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    bash = ["bash", "-c", line]
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
    lines["split"] = followed(printed(here("split", "--threshold", "0.1", cwd=folder)), folder)
    again = here(*MINE, "--positions", "320", cwd=folder)
    lines["mine again"] = followed(printed(again), folder)
    few = ("--threshold", "worst:1%", "--nodes", "12")
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
    options = ("--net", NET_NAME, "--threshold", "0.1", "--steps", "8", "--set", "batch=64")
    command = ("train", "--store", "valuerepair.db", *options)
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


def test_an_engine_as_net_leads_to_positions_for_its_trainer(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "engine")
    engine = f"uci:{sys.executable},arg=-I,arg={fake_engine},arg=play"
    command = ("mine", "games.pgn.zst", "--net", engine, "--deep", f"{engine},nodes=50", "--positions", "40")
    differ = ("--threshold", "0.05", "--alpha", "60")  # both give the same score, and the net's is by 170
    done = here(*command, "--screen", "off", *differ, cwd=folder)
    lines = followed(printed(done), folder)
    assert [line.split()[1] for line in lines] == ["books", "export"]
    assert (folder / "candidates.plain").stat().st_size > 0
    split = printed(here("split", *differ, cwd=folder))
    assert split.startswith("vr books ")  # an engine has no policy, by which vr expand goes
    assert [line.split()[1] for line in followed(split, folder)] == ["books", "export"]


def test_a_net_is_found_again_where_it_lay_and_only_if_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = prepared(tmp_path / "here")
    assert here(*MINE, "--positions", "60", cwd=folder).returncode == 0
    monkeypatch.chdir(tmp_path)  # another folder than that of the mining
    with Store.open(folder / "valuerepair.db") as store:
        key = str(store.nets()["sha256"][0])
        assert net_option(store, key) == str(Path("here") / NET_NAME)
    labels = ("stats", "--labels", "--threshold", "0.05", "--db", str(folder / "valuerepair.db"))
    assert here(*labels, cwd=tmp_path).returncode == 0
    # Store and net moved together, and a net trained anew in its old place.
    moved = folder.rename(tmp_path / "there")
    with Store.open(moved / "valuerepair.db") as store:
        net_path = find_net(store, key)
        assert net_path is not None
        assert Path(net_path) == moved / NET_NAME
    folder.mkdir()
    (moved / NET_NAME).rename(folder / NET_NAME)
    kind = replace(random_nets.BY_NAME["se-dense-policy"], blocks=2, moves_left=False)
    random_nets.write(kind, folder / NET_NAME)
    with Store.open(moved / "valuerepair.db") as store:
        assert net_option(store, key) is None
    # Above what was asked for labels before, so that the net is needed.
    with sqlite3.connect(moved / "valuerepair.db") as connection:
        connection.execute("DELETE FROM priors")
    done = here(*labels[:-1], str(moved / "valuerepair.db"), cwd=tmp_path)
    assert done.returncode == 2
    assert f"{folder / NET_NAME} is no longer the net my-net ({key[:12]})" in done.stderr
    assert done.stderr.count("\n") == 1


def test_copies_of_a_net_are_told_apart(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "copies")
    assert here(*MINE, "--positions", "60", cwd=folder).returncode == 0
    shutil.copy(folder / NET_NAME, folder / "control.pb.gz")
    (folder / "later").mkdir()
    shutil.copy(folder / NET_NAME, folder / "later" / NET_NAME)
    nets = (NET_NAME, "control.pb.gz", f"later/{NET_NAME}")
    done = here("compare", *nets, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^A = (.*), B = (.*)$", done.stdout, re.M) == [
        (NET_NAME, "control"),
        (NET_NAME, f"later/{NET_NAME}"),
    ]
    assert done.stdout.count("the same net: the files have the same content, so there is nothing to compare") == 2


def test_a_book_of_a_net_that_is_gone_says_so_and_prints_no_command(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "gone")
    assert here(*MINE, "--positions", "60", cwd=folder).returncode == 0
    (folder / NET_NAME).unlink()
    done = here("books", "--threshold", "0.05", cwd=folder)
    assert done.returncode == 0
    assert "next:" not in done.stdout
    assert f"the net my-net is not at {folder / NET_NAME}: to play games from the book, vr selfplay" in done.stdout


@pytest.mark.parametrize(("text", "reason"), [(None, "No such file or directory"), ("{broken", "JSON is malformed")])
def test_a_split_that_cannot_be_read_is_missed(tmp_path: Path, text: str | None, reason: str) -> None:
    folder = prepared(tmp_path / "gone")
    assert here(*MINE, "--positions", "100", cwd=folder).returncode == 0
    assert here("split", "--threshold", "0.1", cwd=folder).returncode == 0
    if text is None:
        (folder / "split.json").unlink()
    else:
        (folder / "split.json").write_text(text)
    done = here("books", "--threshold", "0.05", cwd=folder)
    assert done.returncode == 0
    assert f"warning: what is held out of this store is unknown ({folder / 'split.json'}: " in done.stderr
    assert reason in done.stderr
    assert "now nothing is held out" in done.stderr
    with Store.open(folder / "valuerepair.db") as store:
        assert known_split(store) is None
        assert len(store.candidates(Question(threshold=0.05)))


# -- the pages --------------------------------------------------------------------------------------------------------

# What makes the README's own path quick: numbers in its lines, and options that they leave open.
SMALLER = {"--positions 5000": "--positions 3000", "nodes=20000": "nodes=300", "--nodes 800": "--nodes 8"}
QUICK = """
[expand]
positions = 100
[train]
steps = 6
set = ["batch=64", "every=3"]
"""


def readme_lines() -> list[str]:
    """The commands of README's path with a net of one's own, in their order, without comments."""
    text = (ROOT / "README.md").read_text("utf-8")
    begin, end = text.index("To train a net of your own"), text.index("## What is shown")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text[begin:end], re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


def test_readmes_path_names_only_what_is_there_or_was_made() -> None:
    """Files that a line reads are the games, the net, or what an earlier line wrote; nothing is written twice."""
    made = {"games.pgn.zst", NET_NAME, "valuerepair.db"}
    for line in readme_lines():
        words = shlex.split(line, comments=True)
        written = {words[i + 1] for i, word in enumerate(words) if word in ("-o", "--training")}
        assert not written & made, line
        named = {word for word in words[2:] if re.search(r"\.(pgn|zst|gz|db|json)$|-chunks$|^mixture$", word)} - written
        assert {word.split("/")[0] for word in named} <= {word.split("/")[0] for word in made}, line
        made |= written


@pytest.mark.slow
def test_readmes_path_runs_from_games_and_a_net_and_leaks_nothing(
    tmp_path: Path, shared_data: Path, stockfish: str
) -> None:
    """Every line as it stands but for the numbers above; then what each product holds of the held-out positions."""
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    folder = prepared(tmp_path / "own", QUICK)
    shutil.copy(shared_data / "nets" / "maia-1100.pb.gz", folder / NET_NAME)
    for line in readme_lines():
        for usual, small in SMALLER.items():
            line = line.replace(usual, small)
        done = shell(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        assert "not for training" not in done.stderr, line
        if " compare " in line:
            assert "A = " in done.stdout
    held = held_out(folder)
    assert not keys_of(of_book(folder / "book" / "book.pgn")) & held
    # The other positions of a game with a family's ending, `neither`, are not judged by: vr chunks has what is before.
    judged = held_out(folder, JUDGED)
    for chunks in ("book-chunks", "normal-chunks", "mixture"):
        records, _ = run(folder / chunks)
        assert len(records) > 300
        assert not {int(np.uint64(record.key).view(np.int64)) for record in records} & judged, chunks
        assert not of_held_families(records, read_split(folder / "split.json")), chunks
