"""Whether a store is intact as a database: checks by SQLite, by the schema, and by arithmetic on its rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from valuerepair.chess import origins
from valuerepair.store import schema
from valuerepair.store.cells import columns, columns_of, is_other_type
from valuerepair.store.families import STEPS
from valuerepair.store.rows import AFTER, CHOSEN, EXPANDED, FULL, INFERRED, REJUDGED, SECOND
from valuerepair.store.store import Store

_SHOWN = 100
# How far sums may be off: of a net's float32 probabilities, and of per mille that engines round one by one.
_SUM_OFF, _PER_MILLE_OFF = 1e-3, 3


FORM, WHOLE = "tables, indices and version", "SQLite: the file is whole"
KINDS = "cells have the type of their column"
# If one of these fails, no other check is run: queries rely on them, and something else in the place of a table (a
# view) might run without end.
FATAL = (FORM, WHOLE, KINDS)


@dataclass(frozen=True)
class StoreCheck:
    """The result of a check: the rows checked, how many of them are wrong, and an example."""

    name: str
    checked: int
    wrong: int
    example: str

    def lines(self) -> list[str]:
        """A row of the table: name, rows checked, rows wrong, and an example."""
        state = f"{self.wrong:,} WRONG" if self.wrong else "ok"
        example = f"e.g. {self.example}" if self.example else ""
        return [f"{self.name:<52} {self.checked:>11,}  {state:<12} {example}".rstrip()]

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


_OF_CELLS = re.compile(r"(TEXT|NUMERIC|non-\w+) value in ")
_NOT_OBJECT = "CASE WHEN json_valid({0}) THEN json_type({0}) <> 'object' ELSE 1 END"
# Name; the rows to check; the SQL condition of a wrong row; the SQL text that shows it.
_RULES = (
    ("net values: W + D + L is 1, Q is W - L", "net_values WHERE coalesce(w, d, l) NOT NULL",
     f"NOT coalesce(abs(w + d + l - 1) <= {_SUM_OFF} AND abs(w - l - q) <= {_SUM_OFF} "
     f"AND min(w, d, l) >= -{_SUM_OFF}, 0)",
     "'position ' || position_id || coalesce(': ' || w || ' ' || d || ' ' || l || ', Q ' || q, ': not all')"),
    # The policy of the position with most legal moves (218) has an entropy of 5.4 at most.
    ("net values: Q in [-1, 1], policy", "net_values WHERE 1", "NOT abs(q) <= 1.000001 "
     "OR NOT coalesce(best_p, 0) BETWEEN 0 AND 1.000001 OR NOT coalesce(entropy, 0) BETWEEN -1e-5 AND 5.5",
     "'position ' || position_id || ': Q ' || q || coalesce(', prior ' || best_p || ', entropy ' || entropy, '')"),
    ("deep values: W + D + L is 1000", "deep_values WHERE coalesce(w, d, l) NOT NULL",
     f"NOT coalesce(abs(w + d + l - 1000) <= {_PER_MILLE_OFF} AND min(w, d, l) >= 0, 0)",
     "'position ' || position_id || coalesce(': ' || w || ' ' || d || ' ' || l, ': not all')"),
    ("deep values: a score and a known stage", "deep_values WHERE 1",
     "(cp IS NULL AND mate IS NULL AND q IS NULL AND w IS NULL) OR (cp NOT NULL AND mate NOT NULL) OR NOT "
     "coalesce(abs(q), 0) <= 1.000001 OR min(nodes, depth, seldepth, time_ms) < 0 OR NOT (stage IN "
     f"('{FULL}', '{SECOND}', '{EXPANDED}', '{INFERRED}', '{CHOSEN}', '{REJUDGED}') "
     f"OR stage GLOB '{AFTER}*' OR (stage GLOB '[0-9]*' AND stage NOT GLOB '*[^0-9]*'))",
     "'position ' || position_id || ', stage ' || stage"),
    ("positions: known kinds; beside games there are no full searches", "positions WHERE 1",
     f"coalesce(kind, 'game') NOT IN ({', '.join(map(repr, origins.KINDS))}) OR (kind IS NOT 'game' AND EXISTS ("
     "SELECT 1 FROM oracles o CROSS JOIN deep_values v ON v.oracle_id = o.id AND v.stage = 'full' "
     "AND v.position_id = positions.id))",
     "'position ' || id || ': ' || coalesce(kind, 'no kind')"),
    ("a value or a failure, not both", "failures f WHERE 1",
     "EXISTS (SELECT 1 FROM deep_values v WHERE v.oracle_id = f.oracle_id AND v.stage = f.stage "
     "AND v.position_id = f.position_id)", "'position ' || position_id || ': ' || reason"),
    ("priors: probabilities, with net values", "priors WHERE 1",
     "NOT p BETWEEN 0 AND 1.000001 OR rank < 1 OR NOT EXISTS (SELECT 1 FROM net_values n "
     "WHERE n.net_id = priors.net_id AND n.position_id = priors.position_id)", "'position ' || position_id"),
    ("screening: chances, with searches", "screened WHERE 1",
     "NOT probability > 0 OR NOT probability <= 1 OR NOT coalesce(chance, 0) BETWEEN 0 AND 1 OR min(nodes, "
     "coalesce(cut_at, 0)) < 0 OR searched NOT IN (0, 1) OR (NOT searched AND cut_at IS NULL) OR (searched "
     "AND NOT EXISTS (SELECT 1 FROM deep_values v WHERE v.oracle_id = screened.oracle_id "
     "AND v.stage = 'full' AND v.position_id = screened.position_id))", "'position ' || position_id"),
    ("expanded: steps and chances, with searches", "expanded WHERE 1",
     f"step NOT IN {STEPS} OR distance < 1 OR round < 1 OR drawn NOT IN (0, 1) "
     "OR NOT probability > 0 OR NOT probability <= 1 OR NOT coalesce(chance, 0) BETWEEN 0 AND 1 OR nodes < 0 "
     "OR searched NOT IN (0, 1) OR (searched AND NOT EXISTS (SELECT 1 FROM deep_values v "
     "WHERE v.oracle_id = expanded.oracle_id AND v.stage IN ('full', 'expanded') "
     "AND v.position_id = expanded.position_id))", "'position ' || position_id"),
    ("calibrations", "calibrations WHERE 1", f"NOT alpha > 0 OR q_from NOT IN ('cp', 'wdl') OR n < 2 OR games < 2 OR "
     f"{_NOT_OBJECT.format('curve')}", "'of net ' || net_id"),
    ("alpha fits", "alpha_fits WHERE 1", "NOT alpha > 0 OR n < 2 OR low > alpha OR high < alpha", "'alpha ' || alpha"),
    ("games played: result and z", "plays WHERE 1",
     "result NOT IN ('1-0', '0-1', '1/2-1/2', '*') OR plies < 0 OR (result = '1/2-1/2' AND z IS NOT 0) "
     "OR (result = '*') <> (z IS NULL) OR NOT coalesce(abs(z), 0) <= 1 "
     "OR (result IN ('1-0', '0-1') AND z IS NOT CASE WHEN (result = '1-0') = (fen LIKE '% w %') THEN 1 ELSE -1 END)",
     "'game ' || number || ': ' || result || ', z ' || coalesce(z, 'missing')"),
    ("runs: JSON", "runs WHERE 1", " OR ".join(_NOT_OBJECT.format(name) for name in ("options", "versions", "counts")),
     "'run ' || id"),
    ("games: headers are JSON", "games WHERE 1", _NOT_OBJECT.format("headers"), "source || ' ' || number"),
    ("oracles: JSON", "oracles WHERE 1", f"{_NOT_OBJECT.format('limits')} OR {_NOT_OBJECT.format('options')}", "label"),
    ("files: nets and the split", "files WHERE 1",
     "role NOT IN ('net', 'split') OR (length(sha256) <> CASE role WHEN 'net' THEN 64 ELSE 0 END) OR path = ''",
     "role || ' ' || path"),
    # A model's JSON has infinities, which SQLite's own reader refuses.
    ("screens: models", "screens WHERE 1",
     "NOT (model LIKE '{%}') OR NOT recall BETWEEN 0 AND 1 OR NOT min(threshold, alpha) > 0",
     "'screen ' || id"),
)  # fmt: skip


def integrity_checks(store: Store) -> Iterator[StoreCheck]:
    """The checks that need only the database, in order; a failed one of `FATAL` is the last."""
    connection = store.connection
    form = _form(connection)
    yield form
    if form.wrong:
        return
    messages = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
    wrong = [line for line in messages if line != "ok"]
    # `_kinds` finds these, too, and says in which column.
    damaged = [line for line in wrong if not _OF_CELLS.match(line)]
    yield StoreCheck(WHOLE, 1, len(damaged), damaged[0] if damaged else "")
    if damaged:
        return
    kinds = _kinds(connection)
    yield kinds
    if kinds.wrong:
        return
    yield _references(connection)
    for name, rows, condition, example in _RULES:
        (checked,) = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()
        count, shown = connection.execute(f"SELECT count(*), min({example}) FROM {rows} AND ({condition})").fetchone()
        yield StoreCheck(name, checked, count, shown or "")


def _form(connection: sqlite3.Connection) -> StoreCheck:
    """Whether the store has the tables, columns and indices of its version, and no views or triggers."""
    different = schema.differences(connection, schema.SCHEMA_VERSION)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (schema.APPLICATION_ID, schema.SCHEMA_VERSION):
        different.append(f"application_id {application:#x}, user_version {version}")
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return StoreCheck(FORM, objects + 1, len(different), different[0] if different else "")


def _kinds(connection: sqlite3.Connection) -> StoreCheck:
    """Whether cells have the type of their column; SQLite itself accepts a text in a column of numbers."""
    checked, wrong, example = 0, 0, ""
    for table in dict.fromkeys(column.table for column in columns().values()):
        first = " ".join(
            f"WHEN {is_other_type(column)} THEN '{column.name}: ' || typeof({column.name})"
            for column in columns_of(table)
        )
        count, wrong_cells, shown = connection.execute(
            f"SELECT count(*), count(odd), min(odd) FROM (SELECT CASE {first} END AS odd FROM {table})"
        ).fetchone()
        checked, wrong = checked + count, wrong + wrong_cells
        example = example or (f"{table}.{shown}" if wrong_cells else "")
    return StoreCheck(KINDS, checked, wrong, example)


def _references(connection: sqlite3.Connection) -> StoreCheck:
    """Rows whose position, run, net, game, oracle or screen is missing."""
    wrong, example = 0, ""
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        wrong, example = wrong + 1, example or f"a row of {table} without its row in {parent}"
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
    return StoreCheck("rows that others point to", rows, wrong, example)
