"""What a store says, by what things are and not by their numbers, and small stores that are drawn."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from valuerepair.store.rows import Run
from valuerepair.store.store import Store

_NAMES = {"runs": "identity", "nets": "sha256", "judges": "digest", "games": "key", "positions": "key"}
_ID_OF = {"parent_id": "positions", "short_id": "judges"} | {f"{table[:-1]}_id": table for table in _NAMES}
FENS = ["4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "4k3/4p3/8/8/8/8/8/4K3 b - - 0 1", "r3k3/8/8/8/8/8/8/4K2R w K - 3 9"]


def contents(path: Path | str, without: tuple[str, ...] = ()) -> dict[str, Counter[tuple[object, ...]]]:
    """The rows of all tables with natural keys in place of numbers; `without` names columns, table.column."""
    with closing(sqlite3.connect(path)) as connection:
        named = {table: dict(connection.execute(f"SELECT id, {name} FROM {table}")) for table, name in _NAMES.items()}
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        by_table = {}
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = [c for c in columns if c != "id" and f"{table}.{c}" not in without]
            rows = connection.execute(f"SELECT {', '.join(kept)} FROM {table}")
            by_table[table] = Counter(
                tuple(named[_ID_OF[c]].get(cell) if c in _ID_OF else cell for c, cell in zip(kept, row, strict=True))
                for row in rows
            )
        return by_table


@dataclass(frozen=True)
class Row:
    """What a drawn store has of one position. `deep`: judge -> searched, audited or failed; judge 2 is the short search
    of judge 1. Values follow from key and history."""

    key: int
    history: int = 0  # plies
    game: int = 1
    run: int = 1
    origin: str = "game"
    nets: tuple[int, ...] = ()
    deep: dict[int, str] = field(default_factory=dict)


def write_store(path: Path, rows: list[Row], settings: dict[str, object] | None = None, plays: int = 0) -> Path:
    """A store with these positions, and everything that belongs to them."""
    with Store.open(path, create=True) as store, store.writing() as connection:

        def add(table: str, rows: list[tuple[object, ...]]) -> None:
            if rows:
                connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

        started = ("2026-01-01", None, "finished", "{}")
        add("runs", [(i, f"run {i}", "vr mine", "{}", "{}", *started) for i in (1, 2, 3)])
        add("nets", [(i, f"net {i}" * 4, f"net {i}", "wdl", 1, 9, None) for i in (1, 2)])
        judge = ("stockfish", "S", "ee", "{}", "{}", None)
        add("judges", [(2, "short", "short", *judge, None), (1, "full", "full", *judge, 2)])
        add("games", [(i, 100 + i, "a.pgn", i, "W", "B", "E", "D", "1-0", "{}") for i in (1, 2, 3)])
        add("plays", [(3, i, i, 5, FENS[0], "a", "b", "1-0", 1.0, 40, "mate") for i in range(plays)])
        for i, row in enumerate(rows, 1):
            position = {
                "id": i, "key": row.key, "fen": FENS[row.key % 3], "start_fen": FENS[0], "history_known": 1, "ply": 40,
                "moves": bytes([12, 7]) * row.history, "side": 0, "phase": 2, "pieces": 3, "origin": row.origin,
                "game_id": row.game, "played": "e2e4", "run_id": row.run,
            }  # fmt: skip
            add(f"positions ({', '.join(position)})", [tuple(position.values())])
            value = 0.1 * row.key + 0.01 * row.history
            add("net_values", [(net, i, value / net, 0.3, 0.4, 0.3, b"abcdef") for net in row.nets])
            for number, state in row.deep.items():
                if state == "failed":
                    store.add_failure(i, number, "crashed", Run(row.run))
                else:
                    score = (int(100 * value) + number, None, 300, 400, 300, None, 9, 9, 100, 5, "e2e4", "")
                    weight = 5.0 if state == "audited" else 1.0
                    add("deep_values", [(number, i, *score, weight, None, row.run)])
        store.use(**(settings or {}))
    return path
