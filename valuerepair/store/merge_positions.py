"""Merging positions: one row a board key, and one history for all values of it.

A net's value and a search belong to the history that they were made with. So where stores have a position with
different histories, one of them is kept, with the values of the stores that had it so; those of others are left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

from valuerepair.store.merge_catalogue import Parts, map_numbers

CHUNK = 20_000
# What a value depends on.
HISTORY = ("fen", "start_fen", "moves", "history_known")
_OF_GAME = ("played", "eval_cp", "eval_mate")
# The history that is kept: that of the deepest whole search, not counting audits of what a ladder cut (whether there
# was one is chance, and a choice by it would bend the weights); then what is known best; then anything that does not
# depend on the order of the stores.
_ORDER = (
    "nodes DESC, probability DESC, history_known DESC, length(moves) DESC, fen, start_fen, moves, "
    "source, game, digest, played, eval_cp, eval_mate, number"
)
_CLAIM = """
INSERT INTO work.claims
SELECT p.key, :number, coalesce((
        SELECT max(v.nodes) FROM {s}.oracles o CROSS JOIN {s}.deep_values v
        WHERE v.oracle_id = o.id AND v.stage = 'full' AND v.position_id = p.id AND NOT EXISTS (
            SELECT 1 FROM {s}.nets n CROSS JOIN {s}.screened c
            WHERE c.net_id = n.id AND c.oracle_id = o.id AND c.position_id = p.id AND c.cut_at NOT NULL)), -1),
    coalesce((
        SELECT max(c.probability) FROM {s}.nets n CROSS JOIN {s}.oracles o CROSS JOIN {s}.screened c
        WHERE c.net_id = n.id AND c.oracle_id = o.id AND c.position_id = p.id), 0),
    p.history_known, p.fen, p.start_fen, p.moves, g.source, g.number, g.digest, p.played, p.eval_cp, p.eval_mate
FROM work.contested k CROSS JOIN {s}.positions p ON p.key = k.key JOIN {s}.games g ON g.id = p.game_id
"""
_TABLES = """
CREATE TABLE work.contested (key INTEGER PRIMARY KEY);
CREATE TABLE work.claims (
    key INTEGER, number INTEGER, nodes INTEGER, probability REAL, history_known INTEGER, fen TEXT, start_fen TEXT,
    moves BLOB, source TEXT, game INTEGER, digest INTEGER, played TEXT, eval_cp INTEGER, eval_mate INTEGER
);
CREATE TABLE work.winners (key INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE work.lost (position_id INTEGER PRIMARY KEY);
"""
_VALUES = ("net_values", "priors", "deep_values", "failures", "screened")


def add_positions(parts: Parts, begin: Callable[[], None], advance: Callable[[int], None]) -> tuple[int, str]:
    """Adds the games and positions of all sources; how many positions had several histories, and the FEN of one."""
    connection = parts.connection
    for statement in _TABLES.split(";\n"):
        connection.execute(statement)
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM main.positions").fetchone()
    for number in range(len(parts.sources)):
        parts.use(number)
        begin()
        _add_games(connection)
        map_numbers(connection)
        (empty,) = connection.execute("SELECT NOT EXISTS (SELECT 1 FROM main.positions)").fetchone()
        for low, high, count in id_ranges(connection, "part.positions"):
            begin()
            _add_new(connection, low, high, first=bool(empty))
            advance(count)
    return _settle_contested(parts, begin, newest)


def id_ranges(connection: sqlite3.Connection, table: str) -> Iterator[tuple[int, int, int]]:
    """(low, high] ranges of the ids of a table, and how many rows each has."""
    low = 0
    while True:
        query = f"SELECT max(id), count(*) FROM (SELECT id FROM {table} WHERE id > ? ORDER BY id LIMIT {CHUNK})"
        high, count = connection.execute(query, (low,)).fetchone()
        if not count:
            return
        yield low, high, count
        low = high


def _add_games(connection: sqlite3.Connection) -> None:
    names = "source, number, digest, byte_offset, white, black, event, date, result, headers"
    for low, high, _ in id_ranges(connection, "part.games"):
        connection.execute(
            f"INSERT OR IGNORE INTO main.games ({names}) SELECT {names} FROM part.games WHERE id > ? AND id <= ? "
            "ORDER BY id",
            (low, high),
        )


def _add_new(connection: sqlite3.Connection, low: int, high: int, *, first: bool) -> None:
    """Adds positions that no store had so far; those that another one has differently are noted."""
    columns = [row[1] for row in connection.execute("PRAGMA main.table_info(positions)") if row[1] != "id"]
    picked = ["r.dst" if name == "run_id" else "g.dst" if name == "game_id" else f"s.{name}" for name in columns]
    rows = "part.positions s CROSS JOIN work.games g ON g.src = s.game_id CROSS JOIN work.runs r ON r.src = s.run_id"
    if not first:
        differs = " OR ".join(f"s.{name} IS NOT d.{name}" for name in (*HISTORY, *_OF_GAME))
        connection.execute(
            f"INSERT OR IGNORE INTO work.contested SELECT s.key FROM {rows} CROSS JOIN main.positions d "
            f"ON d.key = s.key WHERE s.id > ? AND s.id <= ? AND (g.dst <> d.game_id OR {differs})",
            (low, high),
        )
        # Whatever its history is in the end, a position belongs to the oldest run that met it.
        connection.execute(
            f"UPDATE main.positions SET run_id = x.run FROM (SELECT s.key AS key, a.id AS run FROM {rows} "
            "CROSS JOIN main.positions d ON d.key = s.key CROSS JOIN main.runs a ON a.id = r.dst "
            "CROSS JOIN main.runs b ON b.id = d.run_id WHERE s.id > ? AND s.id <= ? AND a.id <> b.id "
            "AND (a.started, a.identity) < (b.started, b.identity)) x WHERE main.positions.key = x.key",
            (low, high),
        )
    connection.execute(
        f"INSERT OR IGNORE INTO main.positions ({', '.join(columns)}) SELECT {', '.join(picked)} FROM {rows} "
        "WHERE s.id > ? AND s.id <= ? ORDER BY s.id",
        (low, high),
    )


# -- positions of several stores --------------------------------------------------------------------------------------


def _settle_contested(parts: Parts, begin: Callable[[], None], newest: int) -> tuple[int, str]:
    """Gives each position that stores have differently the row of one of them. `newest` is the last that was there."""
    connection = parts.connection
    if not connection.execute("SELECT EXISTS (SELECT 1 FROM work.contested)").fetchone()[0]:
        return 0, ""
    begin()
    if newest:
        # Of the merged store only what was there before is a claim of its own.
        connection.execute(_CLAIM.format(s="main") + " WHERE p.id <= :newest", {"number": -1, "newest": newest})
    for number in range(len(parts.sources)):
        schema = parts.use(number)
        begin()
        connection.execute(_CLAIM.format(s=schema), {"number": number})
    connection.execute(
        "INSERT INTO work.winners SELECT key, number FROM (SELECT key, number, row_number() OVER "
        f"(PARTITION BY key ORDER BY {_ORDER}) AS place FROM work.claims) WHERE place = 1"
    )
    several = " OR ".join(f"min({name}) <> max({name})" for name in HISTORY)
    count, example = connection.execute(
        f"SELECT count(*), min(fen) FROM (SELECT min(fen) AS fen FROM work.claims GROUP BY key HAVING {several})"
    ).fetchone()
    for number in range(len(parts.sources)):
        parts.use(number)
        begin()
        map_numbers(connection)
        _take_over(connection, number, newest)
    if connection.execute("SELECT EXISTS (SELECT 1 FROM work.lost)").fetchone()[0]:
        for table in _VALUES:
            connection.execute(f"DELETE FROM main.{table} WHERE position_id IN (SELECT position_id FROM work.lost)")
    return count, example or ""


def _take_over(connection: sqlite3.Connection, number: int, newest: int) -> None:
    """Gives the positions that this source has won its rows; notes those whose values are of another history."""
    won = "work.winners w CROSS JOIN part.positions s ON s.key = w.key CROSS JOIN main.positions d ON d.key = w.key"
    differs = " OR ".join(f"s.{name} IS NOT d.{name}" for name in HISTORY)
    connection.execute(
        f"INSERT INTO work.lost SELECT d.id FROM {won} WHERE w.number = ? AND d.id <= ? AND ({differs})",
        (number, newest),
    )
    plain = (*HISTORY, "ply", *_OF_GAME)
    connection.execute(
        f"UPDATE main.positions SET ({', '.join(plain)}, game_id) = (SELECT "
        f"{', '.join('s.' + name for name in plain)}, (SELECT dst FROM work.games WHERE src = s.game_id) "
        "FROM part.positions s WHERE s.key = main.positions.key) "
        "WHERE key IN (SELECT key FROM work.winners WHERE number = ?)",
        (number,),
    )


def map_positions(connection: sqlite3.Connection, low: int, high: int) -> None:
    """Adds to ``work.positions`` the source's numbers of positions in (low, high] that kept the source's history."""
    same = " AND ".join(f"d.{name} = s.{name}" for name in HISTORY)
    connection.execute(
        "INSERT INTO work.positions SELECT s.id, d.id FROM part.positions s CROSS JOIN main.positions d "
        f"ON d.key = s.key AND {same} WHERE s.id > ? AND s.id <= ?",
        (low, high),
    )
