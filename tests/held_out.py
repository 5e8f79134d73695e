"""What is held out of a store, put there without a draw of families, and read again by SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import chess
import numpy as np

from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.chess.rows import Keys
from valuerepair.store import parts
from valuerepair.store.parts import Split
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store

NO_KEYS: Keys = np.empty(0, np.uint64)


def split(games: float = 0.0, openings: Iterable[str] = (), materials: Iterable[str] = (), seed: int = 0) -> Split:
    return Split(games, seed, frozenset(openings), frozenset(materials))


def hold_out(path: Path, held: Split) -> Path:
    """Puts a split into a store."""
    with Store.open(path, write=True) as store, store.writing() as connection:
        store.use(split={"games": held.games, "families": 0.1, "seed": held.seed})
        connection.execute("DELETE FROM held_families")
        kinds = {"opening": held.openings, "material": held.materials}
        rows = [(kind, name) for kind, names in kinds.items() for name in names]
        connection.executemany("INSERT INTO held_families VALUES (?, ?)", rows)
        parts.assign(store)
        assert parts.split_of(store) == held
    return path


def store_of(path: Path, *positions: Position) -> Path:
    """A store of these positions, without values."""
    with Store.open(path, create=True) as store, store.running(RunRecord.of("drawn", "vr mine", {})) as run:
        store.add_positions(PositionBatch.from_positions(positions), run)
    return path


def part_of(path: Path) -> dict[str, str]:
    """The part of each position, by its FEN without clocks."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT fen, part FROM positions").fetchall()
    return {without_clocks(fen): part for fen, part in rows}


def without_clocks(fen: str) -> str:
    return fen.rsplit(" ", 2)[0]


def material_of(fen: str) -> str:
    """The material family of a position, as ``KRvKR``, by python-chess."""
    board = chess.Board(f"{fen} 0 1")
    order = (chess.QUEEN, chess.ROOK, chess.BISHOP, chess.KNIGHT)
    sides = [[bool(board.pieces(kind, colour)) for kind in order] for colour in chess.COLORS]
    names = ["K" + "".join(letter for letter, on_board in zip("QRBN", side, strict=True) if on_board) for side in sides]
    return "v".join(name for _, name in sorted(zip(sides, names, strict=True), reverse=True))
