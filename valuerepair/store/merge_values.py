"""Merging the rows that belong to positions, nets, oracles and runs, in pieces of bounded size."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from valuerepair.store.merge_rules import RULES, SCREENED, Rule

CHUNK = 20_000
Found = Callable[[str, int, str], None]
# A ladder's cut of a position that another store searched in full without the help of chance, where no ladder cut it:
# such a position stands for itself. Which they are does not depend on who was audited, so the audited ones among the
# others stand for these others (`screening.settle` does the same within a store).
_WHOLE = """
EXISTS (SELECT 1 FROM {s}.deep_values v
        WHERE v.oracle_id = {oracle} AND v.stage = 'full' AND v.position_id = {position})
AND NOT EXISTS (SELECT 1 FROM {s}.nets n CROSS JOIN {s}.screened k WHERE k.net_id = n.id
                AND k.oracle_id = {oracle} AND k.position_id = {position} AND k.cut_at NOT NULL)
"""
_WHOLE_HERE = f"""
INSERT INTO work.whole_here
SELECT c.net_id, c.oracle_id, c.position_id FROM work.oracles o
CROSS JOIN main.screened c ON c.oracle_id = o.dst AND c.cut_at NOT NULL
CROSS JOIN main.positions p ON p.id = c.position_id
CROSS JOIN part.positions s ON s.key = p.key
CROSS JOIN work.positions m ON m.src = s.id
WHERE {_WHOLE.format(s="part", oracle="o.src", position="s.id")}
"""
_WHOLE_THERE = f"""
INSERT OR IGNORE INTO work.whole_there
SELECT o.dst, p.dst FROM part.screened c
CROSS JOIN work.oracles o ON o.src = c.oracle_id CROSS JOIN work.positions p ON p.src = c.position_id
WHERE c.cut_at NOT NULL AND {_WHOLE.format(s="main", oracle="o.dst", position="p.dst")}
"""
# Cuts of the merged store that the source searched (net, oracle, position), and the other way round.
_TABLES = (
    "CREATE TABLE work.whole_here (net_id INTEGER, oracle_id INTEGER, position_id INTEGER, "
    "PRIMARY KEY (net_id, oracle_id, position_id)) WITHOUT ROWID",
    "CREATE TABLE work.whole_there (oracle_id INTEGER, position_id INTEGER, "
    "PRIMARY KEY (oracle_id, position_id)) WITHOUT ROWID",
)


def merge_values(connection: sqlite3.Connection, begin: Callable[[], None], advance: Callable[[int], None],
                 found: Found) -> None:  # fmt: skip
    """Adds all rows of the source that is attached; contradictions are told to `found` (kind, how many, an example)."""
    begin()
    _settle(connection)
    # Screening first: what it says of whole searches concerns those that are there before this source's come.
    for rule in (SCREENED, *RULES):
        merged = _Merging(connection, rule)
        for low, high, count in _key_ranges(connection, rule):
            begin()
            merged.add(low, high, found)
            advance(count)
    _values_beat_failures(connection, found)


def _settle(connection: sqlite3.Connection) -> None:
    """Settles the cuts of the merged store that the source searched in full, and notes those of the source.

    Both are found out before anything of the source is added: what is added changes the answer.
    """
    for name in ("whole_here", "whole_there"):
        connection.execute(f"DROP TABLE IF EXISTS work.{name}")
    for statement in (*_TABLES, _WHOLE_HERE, _WHOLE_THERE):
        connection.execute(statement)
    these = "(net_id, oracle_id, position_id) IN (SELECT net_id, oracle_id, position_id FROM work.whole_here)"
    connection.execute(
        f"UPDATE main.screened SET cut_at = NULL, chance = NULL, probability = 1 WHERE searched AND {these}"
    )
    connection.execute(f"DELETE FROM main.screened WHERE NOT searched AND {these}")


def _values_beat_failures(connection: sqlite3.Connection, found: Found) -> None:
    """Takes back failures on what has a value from another store."""
    same = (
        "EXISTS (SELECT 1 FROM main.deep_values v WHERE v.oracle_id = f.oracle_id AND v.stage = f.stage "
        "AND v.position_id = f.position_id)"
    )
    count, example = connection.execute(
        "SELECT count(*), min(o.label || ': ' || p.fen || ': ' || f.reason) FROM main.failures f "
        f"JOIN main.positions p ON p.id = f.position_id JOIN main.oracles o ON o.id = f.oracle_id WHERE {same}"
    ).fetchone()
    if count:
        found("a value here, a failure there", count, example)
        connection.execute(f"DELETE FROM main.failures AS f WHERE {same}")


# -- one table --------------------------------------------------------------------------------------------------------


def _key_ranges(connection: sqlite3.Connection, rule: Rule) -> Iterator[tuple[Any, Any, int]]:
    """(low, high] ranges of the keys of a source's table, low None at first, and how many rows each has."""
    key, low = ", ".join(rule.key), None
    while True:
        beyond = "" if low is None else f"WHERE ({key}) > ({', '.join('?' * len(low))})"
        inner = f"SELECT {key} FROM part.{rule.table} {beyond} ORDER BY {key} LIMIT {CHUNK}"
        (count,) = connection.execute(f"SELECT count(*) FROM ({inner})", low or ()).fetchone()
        if not count:
            return
        high = connection.execute(
            f"{inner[: inner.rindex(' LIMIT')]} LIMIT 1 OFFSET ?", (*(low or ()), count - 1)
        ).fetchone()
        yield low, high, count
        low = high


class _Merging:
    """The statements that merge one table of a source."""

    def __init__(self, connection: sqlite3.Connection, rule: Rule) -> None:
        self._connection, self._rule = connection, rule
        self._columns = [row[1] for row in connection.execute(f"PRAGMA main.table_info({rule.table})")]
        (self._empty,) = connection.execute(f"SELECT NOT EXISTS (SELECT 1 FROM main.{rule.table})").fetchone()
        joins = []
        for column, table in rule.mapped.items():
            # A passage may have gone by before there was a screen.
            kind = "LEFT" if column == "screen_id" else "CROSS"
            joins.append(f"{kind} JOIN work.{table} AS m_{column} ON m_{column}.src = n.{column}")
        self._from = f"part.{rule.table} n {' '.join(joins)}"
        self._new = {name: f"m_{name}.dst" if name in rule.mapped else f"n.{name}" for name in self._columns}

    def add(self, low: Any, high: Any, found: Found) -> None:
        """Merges the rows of a range of keys."""
        if not self._empty and self._rule.differs:
            self._count_contradictions(low, high, found)
        where, values = self._range(low, high)
        new = {**self._new}
        if self._rule is SCREENED:
            settled = "EXISTS (SELECT 1 FROM work.whole_there a "
            settled += "WHERE a.oracle_id = m_oracle_id.dst AND a.position_id = m_position_id.dst)"
            settled = f"(n.cut_at NOT NULL AND {settled})"
            new["cut_at"], new["chance"] = (f"CASE WHEN NOT {settled} THEN n.{c} END" for c in ("cut_at", "chance"))
            new["probability"] = f"CASE WHEN {settled} THEN 1.0 ELSE n.probability END"
            where += f" AND (n.searched OR NOT {settled})"
        update = ", ".join(f"{name} = excluded.{name}" for name in self._columns if name not in self._rule.key)
        self._connection.execute(
            f"INSERT INTO main.{self._rule.table} AS t ({', '.join(self._columns)}) "
            f"SELECT {', '.join(new.values())} FROM {self._from} WHERE {where} "
            f"ON CONFLICT ({', '.join(self._rule.key)}) DO UPDATE SET {update} "
            f"WHERE {self._rule.better(self._columns)}",
            values,
        )

    def _count_contradictions(self, low: Any, high: Any, found: Found) -> None:
        rule = self._rule
        where, values = self._range(low, high)
        same = " AND ".join(f"t.{name} = {self._new[name]}" for name in rule.key)
        example = "(SELECT fen FROM main.positions WHERE id = t.position_id)" if rule.by_position else "''"
        count, named = self._connection.execute(
            f"SELECT count(*), min({example}) FROM {self._from} CROSS JOIN main.{rule.table} t ON {same} "
            f"WHERE {where} AND {rule.differs}",
            values,
        ).fetchone()
        if count:
            found(rule.kind, count, named)

    def _range(self, low: Any, high: Any) -> tuple[str, tuple[Any, ...]]:
        key = ", ".join(f"n.{name}" for name in self._rule.key)
        marks = ", ".join("?" * len(high))
        if low is None:
            return f"({key}) <= ({marks})", tuple(high)
        return f"({key}) > ({marks}) AND ({key}) <= ({marks})", (*low, *high)
