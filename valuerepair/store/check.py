"""Whether a store is sound: SQLite's own checks, and that each history leads to its position."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

import numpy as np

from valuerepair.chess.board import fens, keys, parse_fens, replay
from valuerepair.chess.positions import joined
from valuerepair.store.rows import unsigned
from valuerepair.store.store import Store

_AT_ONCE = 10_000


def faults(store: Store) -> Iterator[str]:
    """What is wrong with a store, a line each; of positions the first in each ten thousand."""
    try:
        with store.snapshot():
            for (line,) in store.connection.execute("PRAGMA integrity_check(1)"):
                if line != "ok":
                    yield f"the file is damaged: {line.strip().splitlines()[-1]}"
                    return
            for table, _, to, _ in store.connection.execute("PRAGMA foreign_key_check").fetchall()[:1]:
                yield f"a row of {table} points to none of {to}"
            yield from _histories(store)
    except sqlite3.DatabaseError as error:
        yield f"the file is damaged: {error}"


def _histories(store: Store) -> Iterator[str]:
    query = "SELECT id, key, fen, start_fen, moves FROM positions WHERE id > ? ORDER BY id LIMIT ?"
    last = 0
    while rows := store.connection.execute(query, (last, _AT_ONCE)).fetchall():
        ids, stored, texts, starts, moves = zip(*rows, strict=True)
        last = ids[-1]
        try:
            reached = replay(parse_fens(starts), *joined([np.frombuffer(m, "<u2").astype(np.uint16) for m in moves]))
            wanted = parse_fens(texts)
        except ValueError as error:  # row i: why
            row = re.match(r"row (\d+)", str(error))
            yield f"position {ids[int(row[1])]}: {error}" if row else f"a position after {ids[0]}: {error}"
            continue
        is_wrong = (keys(wanted) != unsigned(stored)) | (np.array(fens(reached)) != np.array(fens(wanted)))
        if is_wrong.any():
            yield f"position {ids[int(np.argmax(is_wrong))]}: its moves lead elsewhere, or its key is another's"
