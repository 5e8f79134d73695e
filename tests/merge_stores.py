"""What a store says, by what things are and not by their numbers, and small stores to merge, drawn or mined."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

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
        found = {}
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = [c for c in columns if c not in without and not (c == "id" and table in _IDS)]
            rows = connection.execute(f"SELECT {', '.join(kept)} FROM {table}")
            found[table] = Counter(
                tuple(names[c].get(cell, cell) if c in names else cell for c, cell in zip(kept, row, strict=True))
                for row in rows
            )
        return found
