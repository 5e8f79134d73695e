"""What is held out: recounted by python-chess, and laws of every split."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import chess
import numpy as np
import pytest

from tests.mining_doubles import random_games
from tests.scale.million import OWN, make
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.openings import UNKNOWN, family, named_positions
from valuerepair.chess.positions import decode_moves
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.store.merge import merge
from valuerepair.store.parts import FAMILIES, GAMES, NEITHER, PARTS, TRAIN, Split, choose, ensured, split_of
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store

ECOS = ("B90", "C42", "D37", "A00", "E97", "no code", "C00")
SPLITS = [(0.0, 0.1, 3), (0.15, 0.0, 4), (0.5, 0.3, 2**40), (0.3, 0.2, 6)]


def archive(path: Path, games: int, seed: int) -> Path:
    """Random games, most of them with the header of another opening than was played."""
    texts = random_games(path, games, seed, plies=90).read_text().split("[Event ")[1:]
    tags = [f'[ECO "{ECOS[i % len(ECOS)]}"]\n' if i % 3 else "" for i in range(len(texts))]
    path.write_text("".join(f"{tag}[Event {text}" for tag, text in zip(tags, texts, strict=True)))
    return path


def add(db: Path, archive: Path) -> None:
    """Draws positions of an archive into a store."""
    record = RunRecord(f"draw {archive.name}", "draw", {}, {})
    with Store.open(db, create=True) as store, store.running(record) as run:
        for batch in sample([str(archive)], SampleOptions(per_game=6), ReadReport()):
            store.add_positions(batch, run)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two archives."""
    folder = tmp_path_factory.mktemp("split")
    for name, games in (("one.pgn", 130), ("other.pgn", 30)):
        add(folder / "a.db", archive(folder / name, games, len(name)))
    return folder / "a.db"


@pytest.fixture(scope="module")
def path(sampled: Path) -> Path:
    """The same with every seventh position as one beside its game."""
    copied = Path(shutil.copy(sampled, sampled.with_name("beside.db")))
    with closing(sqlite3.connect(copied)) as connection, connection:
        connection.execute("UPDATE positions SET origin = 'neighbour' WHERE id % 7 = 0")
    return copied


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(path, tmp_path / "copy.db"))


class Row(NamedTuple):
    key: int
    game: int
    opening: str
    material: str
    is_beside: bool


def told(db: Path) -> list[Row]:
    """All positions of a store, by python-chess."""
    query = """
        SELECT p.key, g.key, json_extract(g.headers, '$.ECO'), p.moves, p.fen, p.start_fen, p.origin
        FROM positions p JOIN games g ON g.id = p.game_id ORDER BY p.id
    """
    rows = []
    with closing(sqlite3.connect(db)) as connection:
        for key, game, eco, moves, fen, start, origin in connection.execute(query):
            has_code = eco in ECOS and eco != "no code"
            code = eco if has_code else after(start, decode_moves(np.frombuffer(moves, "<u2")))[1]
            rows.append(Row(key, game, family(code), kinds(chess.Board(fen)), origin != "game"))
    return rows


def kinds(board: chess.Board) -> str:
    order = (chess.QUEEN, chess.ROOK, chess.BISHOP, chess.KNIGHT)
    sides = [[bool(board.pieces(kind, colour)) for kind in order] for colour in chess.COLORS]
    names = ["K" + "".join(letter for letter, on_board in zip("QRBN", side, strict=True) if on_board) for side in sides]
    return "v".join(name for _, name in sorted(zip(sides, names, strict=True), reverse=True))


@cache
def named() -> dict[str, str]:
    codes = {}
    for eco, _, moves in named_positions():
        board = chess.Board()
        for move in moves:
            board.push_uci(move)
        codes[" ".join(board.epd(en_passant="legal").split()[:4])] = eco
    return codes


@cache
def after(start: str, moves: tuple[str, ...]) -> tuple[chess.Board, str]:
    """The board after these moves, and the last name on the way; the positions of a game share most of theirs."""
    if not moves:
        return chess.Board(start), ""
    before, code = after(start, moves[:-1])
    board = before.copy(stack=False)
    board.push_uci(moves[-1])
    return board, named().get(" ".join(board.epd(en_passant="legal").split()[:4]), code)


def split(db: Path, games: float = 0.3, families: float = 0.2, seed: int = 0) -> Split:
    with Store.open(db, write=True) as store:
        chosen = choose(store, games=games, families=families, seed=seed)
        assert split_of(store) == chosen
    return chosen


def parts_of(db: Path) -> dict[int, str]:
    """The part of each position, by its key."""
    with closing(sqlite3.connect(db)) as connection:
        return dict(connection.execute("SELECT key, part FROM positions"))


@pytest.mark.parametrize(("games", "families", "seed"), SPLITS)
def test_every_position_is_where_its_own_count_says(games: float, families: float, seed: int, copy: Path) -> None:
    chosen = split(copy, games, families, seed)
    rows, parts = told(copy), parts_of(copy)

    def is_held(row: Row) -> bool:
        return row.opening in chosen.openings or row.material in chosen.materials

    broken = {row.game for row in rows if not row.is_beside and is_held(row)}
    held = {row.game for row in rows if parts[row.key] == GAMES}
    for row in rows:
        if row.game in broken:
            expected = FAMILIES if is_held(row) else NEITHER
        elif row.game in held:
            expected = GAMES
        else:
            expected = NEITHER if is_held(row) else TRAIN
        assert parts[row.key] == expected
    of_game: dict[int, set[str]] = {}
    for row in rows:
        of_game.setdefault(row.game, set()).add(parts[row.key])
    assert all(len(part_names - {NEITHER}) <= 1 for part_names in of_game.values())


def test_about_as_much_is_held_out_as_was_asked_for(copy: Path) -> None:
    rows = [row for row in told(copy) if not row.is_beside]
    for seed in range(6):
        chosen = split(copy, seed=seed)
        parts = parts_of(copy)
        of_part = [sum(parts[row.key] == part for row in rows) for part in PARTS]
        assert of_part[2] == pytest.approx(0.2 * len(rows), abs=0.02 * len(rows))
        whole = {row.game for row in rows} - {row.game for row in rows if parts[row.key] in (FAMILIES, NEITHER)}
        held = {row.game for row in rows if parts[row.key] == GAMES}
        assert abs(len(held) - 0.3 * len(whole)) < 4 * (0.21 * len(whole)) ** 0.5
        assert UNKNOWN not in chosen.openings
        assert chosen.openings
        assert chosen.materials
        for name in (*chosen.openings, *chosen.materials):
            assert sum(name in (row.opening, row.material) for row in rows) <= 0.1 * len(rows)


def test_other_seeds_hold_out_others_and_the_same_seed_the_same(copy: Path) -> None:
    found, held = [], []
    for games, seed in ((0.3, 1), (0.3, 2), (0.3, 3), (0.3, 1), (0.1, 1)):
        found.append(split(copy, games, seed=seed))
        held.append(parts_of(copy))
    assert (found[0], held[0]) == (found[3], held[3])
    assert len({chosen.openings for chosen in found}) == len({chosen.materials for chosen in found}) == 3
    of_games = [{key for key, part in parts.items() if part == GAMES} for parts in held]
    assert of_games[0] != of_games[1]
    assert of_games[4] < of_games[0]  # a smaller share is part of the larger


def test_what_comes_later_gets_its_part_and_changes_nobodys(sampled: Path, tmp_path: Path) -> None:
    """Drawn in one go or bit by bit, by mining or by merging, from a file of another name: a game is where it is."""
    db = Path(shutil.copy(sampled, tmp_path / "a.db"))
    chosen, before = split(db), parts_of(db)
    third = archive(tmp_path / "third.pgn", 40, 77)
    add(tmp_path / "third.db", third)
    assert {*parts_of(tmp_path / "third.db").values()} == {TRAIN}
    for first in (db, tmp_path / "third.db"):
        other = db if first != db else tmp_path / "third.db"
        merge([str(first), str(other)], str(tmp_path / f"merged-{first.name}"))
    add(db, third)
    assert before.items() <= parts_of(db).items()
    assert {*parts_of(db).values()} == {*PARTS}
    for name in ("merged-a.db", "merged-third.db"):
        assert parts_of(tmp_path / name) == parts_of(db)
        with Store.open(tmp_path / name) as store:
            assert split_of(store) == chosen
    renamed = Path(shutil.copy(sampled.with_name("one.pgn"), tmp_path / "renamed.pgn"))
    add(tmp_path / "elsewhere.db", renamed)
    split(tmp_path / "elsewhere.db", families=0)
    split(db, families=0)
    elsewhere, here = parts_of_games(tmp_path / "elsewhere.db"), parts_of_games(db)
    assert {*elsewhere.values()} == {TRAIN, GAMES}
    assert len(elsewhere) > 100
    assert elsewhere.items() <= here.items()


def parts_of_games(db: Path) -> dict[int, str]:
    """The part of each game, by its key, without held-out families; other positions of it are drawn by another name."""
    with closing(sqlite3.connect(db)) as connection:
        return dict(connection.execute("SELECT g.key, part FROM positions p JOIN games g ON g.id = p.game_id"))


def test_nothing_of_the_values_is_looked_at(tmp_path: Path) -> None:
    make(tmp_path / "a.db", 400, [OWN])
    first = split(tmp_path / "a.db", families=0.3)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.executescript("DELETE FROM deep_values; UPDATE net_values SET q = -q")
    assert split(tmp_path / "a.db", families=0.3) == first


def test_the_default_is_made_once_and_said(copy: Path) -> None:
    with Store.open(copy, write=True) as store:
        assert split_of(store) is None
        chosen, line = ensured(store)
        assert line.startswith("held out: 15 % of the games, ")
        assert ensured(store) == (chosen, "")
    assert {*parts_of(copy).values()} == {*PARTS}


@pytest.mark.parametrize(
    ("games", "families", "error", "said"),
    [
        (1.0, 0.1, UsageError, "lies in"),
        (0.1, -0.1, UsageError, "lies in"),
        (0.1, 0.000001, ValueRepairError, "small enough"),
    ],
)
def test_what_cannot_be_split_so(games: float, families: float, error: type[Exception], said: str, copy: Path) -> None:
    with Store.open(copy, write=True) as store:
        with pytest.raises(error, match=said):
            choose(store, games=games, families=families)
        assert split_of(store) is None


def test_a_store_without_positions_of_games(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db", create=True) as store, pytest.raises(ValueRepairError, match="mine first"):
        choose(store)
