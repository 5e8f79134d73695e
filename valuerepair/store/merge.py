"""`vr merge`: stores into one, matched by what their rows are of: nothing depends on their numbers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import scratch_folder
from valuerepair.store import parts
from valuerepair.store.pairs import judges
from valuerepair.store.store import POSITION, Store, address_of

# Table, how its rows are known, and what else it has.
_NAMED = (
    ("runs", "identity", "command, options, versions, started, finished, state, counts"),
    ("nets", "sha256", "name, value_head, input_format, size, path"),
    ("judges", "digest", "label, kind, engine, sha256, limits, options, net_path"),
    ("games", "key", "source, number, white, black, event, date, result, headers"),
)
# Of two rows of one position the greater stays: one of a game, with the longer history; else any, but the same one in
# whatever order the stores come.
_RANK = """
({0}.origin = 'game', {0}.history_known, length({0}.moves), {0}.moves, {0}.start_fen,
(SELECT key FROM {1}.games WHERE id = {0}.game_id), {0}.origin,
(SELECT identity FROM {1}.runs WHERE id = {0}.run_id))
"""
_SCORE = "cp, mate, w, d, l, q, depth, seldepth, nodes, time_ms, best_move, pv, weight, failed"
_OTHER_SCORE = "t.cp IS NOT v.cp OR t.mate IS NOT v.mate OR coalesce(abs(t.q - v.q) > 1e-3, t.q IS NOT v.q)"


@dataclass
class Merged:
    """The outcome of a merge: how many rows each table of the result has and how many are new, and contradictions
    between stores, by their kind."""

    output: str
    sources: list[str]
    rows: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    contradictions: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The account for a terminal."""
        counts = (f"{n:,} {name.replace('_', ' ')} ({self.added[name]:,} new)" for name, n in self.rows.items() if n)
        told = [f"{n:,} {kind}" for kind, n in self.contradictions.items() if n]
        contradictions = f"; contradictions, where the first was kept: {', '.join(told)}" if told else ""
        return [f"{self.output}: {', '.join(counts)}{contradictions}"]

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def merge(paths: Sequence[str], output: str) -> Merged:
    """Merges the stores at `paths` into the store `output`, which is added to if it exists.

    Of one position the row of a game stays, with the longest history, and the values of that history. Of two values by
    the same net or judge the first store's stays, but a score in place of a failure. What is held out and in use is as
    in the first store that says so. Either the merge is complete or nothing has changed. Raises UsageError for a store
    that is named twice, ValueRepairError for a file that is no store.
    """
    places = [os.path.realpath(path) for path in (*paths, output)]
    if len({*places}) < len(places):
        raise UsageError("a store is named twice, or is merged into itself")
    folder = os.path.dirname(places[-1])
    if not os.path.isdir(folder):
        raise UsageError(f"{output}: there is no folder {folder}; make it, or give another --output")
    for path in paths:
        Store.open(path).close()
    merged = Merged(output, [*paths])
    if os.path.exists(output) and len(paths) == 1:
        _add(paths, output, merged)
        return merged
    with scratch_folder(output) as scratch:
        together = os.path.join(scratch, "merged.db")
        _add(paths, together, merged)
        if not os.path.exists(together):
            raise ValueRepairError(f"{', '.join(paths)}: no positions to merge")
        if os.path.exists(output):
            _add([together], output, merged)
        else:
            for end in ("-wal", "-journal"):  # of a store that is gone, which SQLite would play into the new one
                Path(places[-1] + end).unlink(missing_ok=True)
            os.replace(together, places[-1])
    return merged


def _add(paths: Sequence[str], output: str, merged: Merged) -> None:
    """Adds stores to a store; what one of them adds appears at once."""
    with Store.open(output, create=True) as store:
        before = store.counts()
        for path in paths:
            store.connection.execute("ATTACH ? AS other", (address_of(path),))
            try:
                store.connection.execute("BEGIN")  # what is only read may be written by another meanwhile
                with store.writing() as connection:
                    _merge(store, connection, merged.contradictions)
                    for judge in judges(store) if path == paths[-1] else ():
                        if judge.short_id is not None:
                            store.weigh_audits(judge.id, judge.short_id)
                store.commit()
            except sqlite3.DatabaseError as error:
                raise ValueRepairError(f"{path} into {output}: {error}; nothing of it was kept") from error
            finally:
                if store.connection.in_transaction:
                    store.connection.execute("ROLLBACK")
                store.connection.execute("DETACH other")
        merged.rows = store.counts()
        merged.added = {table: n - before[table] for table, n in merged.rows.items()}


def _merge(store: Store, connection: sqlite3.Connection, told: dict[str, int]) -> None:
    def count(kind: str, query: str) -> None:
        told[kind] = told.get(kind, 0) + int(connection.execute(f"SELECT count(*) {query}").fetchone()[0])

    for table, key, names in _NAMED:
        connection.execute(
            f"INSERT OR IGNORE INTO main.{table} ({key}, {names}) SELECT {key}, {names} FROM other.{table} ORDER BY id"
        )
        _map(connection, table, f"SELECT t.id, m.id FROM other.{table} t JOIN main.{table} m USING ({key})")
    connection.execute("""
        UPDATE main.judges SET short_id = (SELECT s.ours FROM other.judges o JOIN of_judges s ON s.theirs = o.short_id
        WHERE o.digest = main.judges.digest) WHERE short_id IS NULL""")
    _merge_positions(connection, count)
    _merge_values(connection, count)
    connection.execute("""
        INSERT OR IGNORE INTO main.plays
        SELECT r.ours, number, opening, key, fen, white, black, result, z, plies, ending
        FROM other.plays p JOIN of_runs r ON r.theirs = p.run_id""")
    count("settings", "FROM other.settings t JOIN main.settings m USING (name) WHERE t.value <> m.value")
    is_first = store.setting("split") is None
    if is_first:
        connection.execute("INSERT OR IGNORE INTO main.held_families SELECT * FROM other.held_families")
    connection.execute("INSERT OR IGNORE INTO main.settings SELECT * FROM other.settings")
    changed = connection.execute("SELECT ours FROM of_games UNION SELECT game_id FROM better").fetchall()
    parts.assign(store, None if is_first else [row[0] for row in changed])
    for table in ("better", *(f"of_{table}" for table in ("runs", "nets", "judges", "games", "positions"))):
        connection.execute(f"DROP TABLE temp.{table}")


def _map(connection: sqlite3.Connection, table: str, query: str) -> None:
    """A table of numbers there and here."""
    connection.execute(f"CREATE TEMP TABLE of_{table} (theirs INTEGER PRIMARY KEY, ours INTEGER NOT NULL)")
    connection.execute(f"INSERT INTO temp.of_{table} {query}")


def _merge_positions(connection: sqlite3.Connection, count: Any) -> None:
    """Positions; of_positions then has those whose history is the one that is kept, and better those of the store that
    were replaced, with the games that they had."""
    is_other = "(t.moves <> m.moves OR t.start_fen <> m.start_fen)"
    both = "FROM other.positions t JOIN main.positions m USING (key)"
    count("other histories", f"{both} WHERE {is_other}")
    better = f"{_RANK.format('t', 'other')} > {_RANK.format('m', 'main')}"
    connection.execute(
        f"CREATE TEMP TABLE better AS SELECT m.id, m.game_id, {is_other} AS is_other {both} WHERE {better}"
    )
    for table in ("net_values", "deep_values"):
        replaced = "SELECT id FROM temp.better WHERE is_other"
        connection.execute(f"DELETE FROM main.{table} WHERE position_id IN ({replaced})")
    names = (*POSITION, "game_id", "run_id")
    updates = ", ".join(f"{name} = excluded.{name}" for name in names[1:]) + ", parent_id = NULL"
    connection.execute(f"""
        INSERT INTO main.positions ({", ".join(names)}) SELECT t.{", t.".join(POSITION)}, g.ours, r.ours
        FROM other.positions t JOIN of_games g ON g.theirs = t.game_id JOIN of_runs r ON r.theirs = t.run_id
        WHERE true ORDER BY t.id
        ON CONFLICT (key) DO UPDATE SET {updates} WHERE id IN (SELECT id FROM temp.better)""")
    connection.execute("""
        UPDATE main.positions SET parent_id = (SELECT m.id FROM other.positions t JOIN other.positions p
        ON p.id = t.parent_id JOIN main.positions m ON m.key = p.key WHERE t.key = main.positions.key)
        WHERE origin = 'neighbour' AND parent_id IS NULL""")
    _map(connection, "positions", f"SELECT t.id, m.id {both} WHERE NOT {is_other}")


def _merge_values(connection: sqlite3.Connection, count: Any) -> None:
    """The values of positions in of_positions."""
    both = """
        FROM other.net_values t JOIN of_nets n ON n.theirs = t.net_id JOIN of_positions p ON p.theirs = t.position_id
    """
    same = "JOIN main.net_values v ON v.net_id = n.ours AND v.position_id = p.ours"
    count("net values", f"{both} {same} WHERE abs(t.q - v.q) > 1e-3")  # less is another machine's rounding
    connection.execute(f"INSERT OR IGNORE INTO main.net_values SELECT n.ours, p.ours, t.q, w, d, l, policy {both}")
    both = """
        FROM other.deep_values t JOIN of_judges j ON j.theirs = t.judge_id
        JOIN of_positions p ON p.theirs = t.position_id JOIN of_runs r ON r.theirs = t.run_id
    """
    same = "JOIN main.deep_values v ON v.judge_id = j.ours AND v.position_id = p.ours"
    scored = "t.failed IS NULL AND v.failed IS NULL"
    count("deep values", f"{both} {same} WHERE {scored} AND ({_OTHER_SCORE})")
    count("scores and failures", f"{both} {same} WHERE (t.failed IS NULL) <> (v.failed IS NULL)")
    updates = ", ".join(f"{name} = excluded.{name}" for name in (*_SCORE.split(", "), "run_id"))
    connection.execute(f"""
        INSERT INTO main.deep_values (judge_id, position_id, {_SCORE}, run_id)
        SELECT j.ours, p.ours, t.{_SCORE.replace(", ", ", t.")}, r.ours {both} WHERE true
        ON CONFLICT (judge_id, position_id) DO UPDATE SET {updates} WHERE failed NOTNULL AND excluded.failed IS NULL""")
    # What one store searched for itself stands for itself, whatever it was in the other.
    connection.execute(f"""
        UPDATE main.deep_values SET weight = 1 WHERE weight > 1 AND (judge_id, position_id) IN (
        SELECT j.ours, p.ours {both} {same} WHERE v.weight > 1 AND t.weight = 1 AND t.failed IS NULL)""")
