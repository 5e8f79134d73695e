"""What a store says, by what things are and not by their numbers, and small stores to merge, drawn or mined."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from valuerepair.store import schema

_IDS = {
    "runs": "SELECT id, identity FROM runs",
    "nets": "SELECT id, sha256 || ' ' || history_fill FROM nets",
    "oracles": "SELECT id, digest FROM oracles",
    "games": "SELECT id, source || ' ' || number || ' ' || digest FROM games",
    "positions": "SELECT id, key FROM positions",
    "screens": "SELECT id, fitted || threshold || recall FROM screens",
}


def contents(path: Path | str, without: tuple[str, ...] = ()) -> dict[str, Counter[tuple[object, ...]]]:
    """The rows of all tables with natural keys in place of numbers; `without` names columns to leave out."""
    with closing(sqlite3.connect(path)) as connection:
        names = {f"{table[:-1]}_id": dict(connection.execute(query)) for table, query in _IDS.items()}
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        by_table = {}
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = [c for c in columns if c not in without and not (c == "id" and table in _IDS)]
            rows = connection.execute(f"SELECT {', '.join(kept)} FROM {table}")
            by_table[table] = Counter(
                tuple(names[c].get(cell, cell) if c in names else cell for c, cell in zip(kept, row, strict=True))
                for row in rows
            )
        return by_table


# -- drawn stores -----------------------------------------------------------------------------------------------------

FENS = ["4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "4k3/4p3/8/8/8/8/8/4K3 b - - 0 1", "r3k3/8/8/8/8/8/8/4K2R w K - 3 9"]
RUNS = [("run a", "2026-01-01"), ("run b", "2026-01-02"), ("run c", "2026-01-02")]
NETS = [("net x", "aa"), ("net y", "bb")]
ORACLES = [("oracle p", "pp"), ("oracle q", "qq")]
NODES = 100


@dataclass(frozen=True)
class Row:
    """What a drawn store has of one position; `key` and `history` are numbers."""

    key: int
    history: int
    game: int
    run: int
    net_q: dict[int, float] = field(default_factory=dict)
    # Oracle -> (what became of it: full, failed or nothing; centipawns; nodes).
    deep: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    # (net, oracle) -> (cut, audited, probability); where it says that there is no search, there is none.
    passages: dict[tuple[int, int], tuple[bool, bool, float]] = field(default_factory=dict)
    kind: str | None = "game"  # whole searches of others are not of the archive


def write_store(path: Path, rows: list[Row], fits: dict[tuple[int, int], tuple[float, int]], plays: int = 0) -> Path:
    """A store with these positions, and everything that belongs to them."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        schema.migrate(connection, str(path))
        connection.execute("BEGIN")
        row: tuple[int | float | str, ...]
        for number, (identity, started) in enumerate(RUNS, 1):
            row = (number, identity, started)
            connection.execute(
                "INSERT INTO runs VALUES (?, ?, 'vr mine', '{}', 0, '{}', ?, NULL, 'finished', '{}')", row
            )
        for number, (name, sha256) in enumerate(NETS, 1):
            connection.execute("INSERT INTO nets VALUES (?, ?, ?, 'fen_only', 'wdl', 1, 9)", (number, name, sha256))
        for number, (label, digest) in enumerate(ORACLES, 1):
            row = (number, digest, label)
            connection.execute("INSERT INTO oracles VALUES (?, ?, ?, 'stockfish', 'S', 'ee', '{}', '{}')", row)
        for number in range(1, 4):
            row = (number, "a.pgn", number)
            connection.execute("INSERT INTO games VALUES (?, ?, ?, 7, 0, 'W', 'B', 'E', 'D', '1-0', '{}')", row)
        for (net, oracle), (alpha, n) in fits.items():
            row = (net, oracle, alpha, n)
            connection.execute("INSERT INTO alpha_fits VALUES (?, ?, ?, NULL, NULL, 'l1', ?, 0.1, '2026')", row)
        for number in range(plays):
            row = (number, number, FENS[0])
            connection.execute("INSERT INTO plays VALUES (3, ?, ?, 5, ?, 'a', 'b', '1-0', 1.0, 40, 'mate')", row)
        for number, drawn in enumerate(rows, 1):
            _write_row(connection, number, drawn)
        connection.execute("COMMIT")
    return path


def _write_row(connection: sqlite3.Connection, number: int, row: Row) -> None:
    moves = bytes([12, 7]) * row.history
    connection.execute(
        "INSERT INTO positions VALUES (?, ?, ?, ?, ?, 1, 40, 'w', 'endgame', 3, ?, 'e2e4', NULL, NULL, ?, ?)",
        (number, row.key, FENS[row.key % len(FENS)], FENS[0], moves, row.game, row.run, row.kind),
    )
    stage = "full" if row.kind == "game" else "expanded"
    values: tuple[int | float, ...]
    for net, q in row.net_q.items():
        values = (net, number, q, row.run)
        connection.execute("INSERT INTO net_values VALUES (?, ?, ?, .3, .4, .3, 100, .4, 1.5, NULL, ?)", values)
        connection.execute("INSERT INTO priors VALUES (?, ?, 100, 0.4, 1)", (net, number))
    for oracle, (state, cp, nodes) in row.deep.items():
        if state == "full":
            connection.execute(
                "INSERT INTO deep_values VALUES (?, ?, ?, ?, NULL, 300, 400, 300, NULL, 9, 9, ?, ?, 'e2e4', '', ?)",
                (oracle, stage, number, cp, nodes, abs(cp), row.run),
            )
        elif state == "failed":
            failed = (oracle, stage, number, row.run)
            connection.execute("INSERT INTO failures VALUES (?, ?, ?, 'crashed', 3, ?)", failed)
    for (net, oracle), (cut, audited, probability) in row.passages.items() if row.kind == "game" else ():
        searched = row.deep.get(oracle, ("", 0, 0))[0] == "full"
        if not cut and not searched:
            continue
        connection.execute(
            "INSERT INTO screened VALUES (?, ?, ?, NULL, ?, ?, 50, ?, ?, ?)",
            (net, oracle, number, 10 if cut else None, 0.01 if cut else None, searched and (audited or not cut),
             probability if cut else 1.0, row.run),
        )  # fmt: skip


def large_store(path: Path, low: int, high: int) -> Path:
    """A store of the positions with these keys, each with a net value and a deep one; a third has its own history."""
    positions, nets, deep, games = [], [], [], []
    for number, key in enumerate(range(low, high), 1):
        dice = random.Random(key)
        moves = dice.randbytes(80) if dice.random() < 0.67 else random.Random(f"{path} {key}").randbytes(80)
        games.append((number, str(path), number))
        positions.append((number, dice.getrandbits(63), FENS[key % 3], FENS[0], moves, number))
        nets.append((number, dice.random()))
        deep.append((number, dice.randrange(-500, 500)))
    write_store(path, [], {})
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        connection.execute("DELETE FROM games")
        connection.executemany("INSERT INTO games VALUES (?, ?, ?, 7, 0, 'W', 'B', 'E', 'D', '1-0', '{}')", games)
        connection.executemany(
            "INSERT INTO positions VALUES (?, ?, ?, ?, ?, 1, 40, 'w', 'endgame', 3, ?, 'e2e4', NULL, NULL, 1, 'game')",
            positions,
        )
        connection.executemany("INSERT INTO net_values VALUES (1, ?, ?, .3, .4, .3, 100, .4, 1.5, NULL, 1)", nets)
        connection.executemany(
            "INSERT INTO deep_values VALUES (1, 'full', ?, ?, NULL, 300, 400, 300, NULL, 9, 9, 100000, 90, 'e2e4', "
            "'e2e4 e7e5 g1f3', 1)",
            deep,
        )
        connection.execute("COMMIT")
    return path
