"""Merging what there is little of: runs, nets, oracles and screens; and the numbers that they, and games, get.

All stores' rows are put in one order that does not depend on how the stores are given, for two of these orders mean
something: the run with the highest number is the newest, and so is the screen.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Any

from valuerepair.store.merge_sources import Source

_STATES = ("running", "interrupted", "limited", "finished")
_RUN = "identity, command, options, seed, versions, started, finished, state, counts"
_NET = "name, sha256, history_fill, value_head, input_format, size"
_ORACLE = "digest, label, kind, engine, sha256, limits, options"
_SCREEN = "threshold, alpha, alpha_given, q_from, recall, model, fitted"
# Of what both stores have: the source's alias is s, that of the merged store d.
_MAPS = {
    "runs": "d.identity = s.identity",
    "nets": "d.sha256 = s.sha256 AND d.history_fill = s.history_fill",
    "oracles": "d.digest = s.digest",
    "games": "d.source = s.source AND d.number = s.number AND d.digest = s.digest",
}


class Parts:
    """The sources, of which one at a time is attached to the merged store's connection, as ``part``.

    Another one cannot come within a transaction: `use` commits first, unless it is the one that is attached already.
    """

    def __init__(self, connection: sqlite3.Connection, sources: Sequence[Source]) -> None:
        self.connection, self.sources = connection, sources
        self._attached: int | None = None

    def use(self, number: int) -> str:
        """Attaches a source; gives its name in SQL."""
        if self._attached != number:
            if self._attached is not None:
                if self.connection.in_transaction:
                    self.connection.execute("COMMIT")
                self.connection.execute("DETACH part")
            self._attached = None
            self.connection.execute("ATTACH ? AS part", (self.sources[number].address,))
            self._attached = number
        return "part"


def add_catalogue(parts: Parts) -> None:
    """Adds the runs, nets, oracles and screens of all sources to the store that is ``main``."""
    connection = parts.connection
    runs: dict[str, tuple[Any, ...]] = {}
    nets: dict[tuple[str, str], tuple[Any, ...]] = {}
    oracles: dict[str, tuple[Any, ...]] = {}
    screens: dict[tuple[str, str], tuple[int, int]] = {}
    for number in range(-1, len(parts.sources)):
        schema = "main" if number < 0 else parts.use(number)
        for row in connection.execute(f"SELECT {_RUN} FROM {schema}.runs"):
            runs[row[0]] = max(runs.get(row[0], row), row, key=_run_order)
        for row in connection.execute(f"SELECT {_NET} FROM {schema}.nets"):
            nets[row[1], row[2]] = min(nets.get((row[1], row[2]), row), row)
        for row in connection.execute(f"SELECT {_ORACLE} FROM {schema}.oracles"):
            oracles[row[0]] = min(oracles.get(row[0], row), row)
        for row in _screen_rows(connection, schema):
            screens.setdefault((row[-1], _digest(row)), (number, row[0]))
    _insert(connection, "runs", _RUN, sorted(runs.values(), key=lambda run: (run[5], run[0])), "identity")
    _insert(connection, "nets", _NET, sorted(nets.values()), "sha256, history_fill")
    _insert(connection, "oracles", _ORACLE, sorted(oracles.values(), key=lambda row: (row[1], row[0])), "digest")
    _add_screens(parts, screens)


def _run_order(run: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of two states of one run the one that came further is kept."""
    state, finished = run[7], run[6] or ""
    return (_STATES.index(state) if state in _STATES else -1, finished, len(run[8]), *map(str, run))


def _insert(
    connection: sqlite3.Connection, table: str, columns: str, rows: Sequence[tuple[Any, ...]], key: str
) -> None:
    names = columns.split(", ")
    update = ", ".join(f"{name} = excluded.{name}" for name in names)
    connection.executemany(
        f"INSERT INTO main.{table} ({columns}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT ({key}) DO UPDATE SET {update}",
        rows,
    )


# -- screens ----------------------------------------------------------------------------------------------------------


def _screen_rows(connection: sqlite3.Connection, schema: str, number: int | None = None) -> sqlite3.Cursor:
    """id, net's hash and fill, oracle's digest and the rest of all screens, or of one."""
    return connection.execute(
        f"SELECT c.id, n.sha256, n.history_fill, o.digest, {', '.join('c.' + n for n in _SCREEN.split(', '))} "
        f"FROM {schema}.screens c JOIN {schema}.nets n ON n.id = c.net_id "
        f"JOIN {schema}.oracles o ON o.id = c.oracle_id WHERE c.id = coalesce(?, c.id) ORDER BY c.id",
        (number,),
    )


def _digest(row: tuple[Any, ...]) -> str:
    """Of all that a screen is but its number: models are long, and to be told apart only."""
    return hashlib.sha256(repr(row[1:]).encode()).hexdigest()


def _add_screens(parts: Parts, found: dict[tuple[str, str], tuple[int, int]]) -> None:
    """Adds screens in the order in which they were fitted: the last one is the one that goes on cutting."""
    connection = parts.connection
    connection.execute("CREATE TABLE work.known_screens (digest TEXT PRIMARY KEY, id INTEGER NOT NULL)")
    for _, (source, number) in sorted(found.items()):
        if source < 0:
            continue
        row = _screen_rows(connection, parts.use(source), number).fetchone()
        connection.execute(
            f"INSERT INTO main.screens (net_id, oracle_id, {_SCREEN}) SELECT n.id, o.id, ?, ?, ?, ?, ?, ?, ? "
            "FROM main.nets n, main.oracles o WHERE n.sha256 = ? AND n.history_fill = ? AND o.digest = ?",
            (*row[4:], *row[1:4]),
        )
    _remember_screens(connection)


def _remember_screens(connection: sqlite3.Connection) -> None:
    rows = [(_digest(row), row[0]) for row in _screen_rows(connection, "main")]
    connection.executemany("INSERT OR REPLACE INTO work.known_screens VALUES (?, ?)", rows)


# -- numbers ----------------------------------------------------------------------------------------------------------


def map_numbers(connection: sqlite3.Connection) -> None:
    """Fills ``work.runs``, ``nets``, ``oracles``, ``games`` and ``screens``: the source's numbers and the new ones."""
    for table, same in _MAPS.items():
        _empty_map(connection, table)
        # CROSS: the source is read through, and the merged store asked by its index.
        connection.execute(
            f"INSERT INTO work.{table} SELECT s.id, d.id FROM part.{table} s CROSS JOIN main.{table} d ON {same}"
        )
    _empty_map(connection, "screens")
    rows = [(row[0], _digest(row)) for row in _screen_rows(connection, "part")]
    connection.executemany("INSERT INTO work.screens SELECT ?, id FROM work.known_screens WHERE digest = ?", rows)


def _empty_map(connection: sqlite3.Connection, table: str) -> None:
    connection.execute(f"DROP TABLE IF EXISTS work.{table}")
    connection.execute(f"CREATE TABLE work.{table} (src INTEGER PRIMARY KEY, dst INTEGER NOT NULL)")
