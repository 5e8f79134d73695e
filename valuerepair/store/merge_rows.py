"""Merges the rows of stores: runs, nets and oracles first; then positions; then the values that belong to them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from valuerepair.chess.origins import KINDS
from valuerepair.store.cells import columns_of
from valuerepair.store.connection import StoreConnection
from valuerepair.store.merge_sources import RULES, SCREENED, Rule, SourceStore

_STATES = ("running", "interrupted", "limited", "finished")
_SCREEN = "expanded, threshold, alpha, alpha_given, q_from, recall, model, fitted"
# The columns by which rows of different stores are recognised as the same.
_SAME_BY = {
    "runs": ("identity",),
    "nets": ("sha256", "history_fill"),
    "oracles": ("digest",),
    "games": ("source", "number", "digest"),
}
# The temporary tables, which `_create` makes in the file that is attached as ``work``. ``main`` is the merged store,
# ``source`` the source that is attached. Unless another function is named, `_map_numbers` fills a map.
_MAP = "(src INTEGER PRIMARY KEY, dst INTEGER NOT NULL)"
_WORK = {
    # Made again for each source: the number of a row in the source, and in the merged store.
    "runs": _MAP,
    "nets": _MAP,
    "oracles": _MAP,
    "games": _MAP,
    "screens": _MAP,
    "positions": _MAP,  # whose history was kept (`_map_positions`)
    "same_key": _MAP,  # that others were reached from, whichever history was kept (`_map_origins`)
    # Made again for each source: positions that left a ladder in one of the two stores and that the other settles
    # (`_settle`).
    "settled_main": "(net_id INTEGER, oracle_id INTEGER, position_id INTEGER, "
    "PRIMARY KEY (net_id, oracle_id, position_id)) WITHOUT ROWID",
    "settled_source": "(oracle_id INTEGER, position_id INTEGER, PRIMARY KEY (oracle_id, position_id)) WITHOUT ROWID",
    # Made once: the positions that stores have with different cells (`_add_new`).
    "contested": "(key INTEGER PRIMARY KEY)",
    # The row of a contested position in a store, by the number of the source, -1 for the merged store; the row that is
    # kept; and positions of the merged store whose values are of a history that is not kept (`_settle_contested`).
    "claims": "(key INTEGER, number INTEGER, nodes INTEGER, probability REAL, history_known INTEGER, fen TEXT, "
    "start_fen TEXT, moves BLOB, source TEXT, game INTEGER, digest INTEGER, played TEXT, eval_cp INTEGER, "
    "eval_mate INTEGER)",
    "winners": "(key INTEGER PRIMARY KEY, number INTEGER NOT NULL)",
    "stale": "(position_id INTEGER PRIMARY KEY)",
}


def _create(connection: StoreConnection, *names: str) -> None:
    """Makes empty temporary tables, which replace those of an earlier source."""
    for name in names:
        connection.execute(f"DROP TABLE IF EXISTS work.{name}")
        connection.execute(f"CREATE TABLE work.{name} {_WORK[name]}")


def _names(table: str) -> list[str]:
    """The columns of a table without the number of its rows."""
    return [column.name for column in columns_of(table) if column.name != "id"]


class Sources:
    """The sources of a merge; one at a time is attached to the merged store's connection, as ``source``.

    SQLite attaches and detaches only outside of a transaction.
    """

    def __init__(self, connection: StoreConnection, stores: Sequence[SourceStore]) -> None:
        self.connection, self.stores = connection, stores
        self._attached: int | None = None

    def use(self, number: int) -> str:
        """Attaches a source; returns its name in SQL."""
        if self._attached != number:
            if self._attached is not None:
                self.connection.execute("DETACH source")
            self._attached = None
            self.connection.execute("ATTACH ? AS source", (self.stores[number].address,))
            self._attached = number
            self.connection.path, self.connection.schema = self.stores[number].path, "source"
        return "source"


def add_catalogue(sources: Sources) -> None:
    """Adds the runs, nets, oracles and screens of all sources to the store that is ``main``."""
    connection = sources.connection
    runs: dict[str, tuple[Any, ...]] = {}
    nets: dict[tuple[str, str], tuple[Any, ...]] = {}
    oracles: dict[str, tuple[Any, ...]] = {}
    screens: dict[tuple[str, str], tuple[int, int]] = {}
    for number in range(-1, len(sources.stores)):
        schema = "main" if number < 0 else sources.use(number)
        for row in connection.execute(f"SELECT {', '.join(_names('runs'))} FROM {schema}.runs"):
            runs[row[0]] = max(runs.get(row[0], row), row, key=_run_order)
        for row in connection.execute(f"SELECT {', '.join(_names('nets'))} FROM {schema}.nets"):
            nets[row[1], row[2]] = min(nets.get((row[1], row[2]), row), row)
        for row in connection.execute(f"SELECT {', '.join(_names('oracles'))} FROM {schema}.oracles"):
            oracles[row[0]] = min(oracles.get(row[0], row), row)
        for row in _screen_rows(connection, schema):
            screens.setdefault((row[-1], _screen_digest(row)), (number, row[0]))
    _insert(connection, "runs", sorted(runs.values(), key=lambda run: (run[5], run[0])))
    _insert(connection, "nets", sorted(nets.values()))
    _insert(connection, "oracles", sorted(oracles.values(), key=lambda row: (row[1], row[0])))
    _add_screens(sources, screens)


def _run_order(run: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sorts two records of one run; the one that got further comes last and is kept."""
    state, finished = run[7], run[6] or ""
    return (_STATES.index(state) if state in _STATES else -1, finished, len(run[8]), *map(str, run))


def _insert(connection: StoreConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    names = _names(table)
    update = ", ".join(f"{name} = excluded.{name}" for name in names)
    connection.executemany(
        f"INSERT INTO main.{table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT ({', '.join(_SAME_BY[table])}) DO UPDATE SET {update}",
        rows,
    )


# -- screens ----------------------------------------------------------------------------------------------------------


def _screen_rows(connection: StoreConnection, schema: str, number: int | None = None) -> sqlite3.Cursor:
    """Rows of all screens, or of one: id, the net's hash and history fill, the oracle's digest, and `_SCREEN`."""
    return connection.execute(
        f"SELECT c.id, n.sha256, n.history_fill, o.digest, {', '.join('c.' + n for n in _SCREEN.split(', '))} "
        f"FROM {schema}.screens c JOIN {schema}.nets n ON n.id = c.net_id "
        f"JOIN {schema}.oracles o ON o.id = c.oracle_id WHERE c.id = coalesce(?, c.id) ORDER BY c.id",
        (number,),
    )


def _screen_digest(row: tuple[Any, ...]) -> str:
    """A digest of a screen without its id, to recognise equal ones; the models themselves are long."""
    return hashlib.sha256(repr(row[1:]).encode()).hexdigest()


def _add_screens(sources: Sources, screens: dict[tuple[str, str], tuple[int, int]]) -> None:
    """Adds screens in the order in which they were fitted; the last one is then in use."""
    connection = sources.connection
    for _, (source, number) in sorted(screens.items()):
        if source < 0:
            continue
        row = _screen_rows(connection, sources.use(source), number).fetchone()
        marks = ", ".join("?" * len(row[4:]))
        connection.execute(
            f"INSERT INTO main.screens (net_id, oracle_id, {_SCREEN}) SELECT n.id, o.id, {marks} "
            "FROM main.nets n, main.oracles o WHERE n.sha256 = ? AND n.history_fill = ? AND o.digest = ?",
            (*row[4:], *row[1:4]),
        )


# -- numbers ----------------------------------------------------------------------------------------------------------


def _map_numbers(connection: StoreConnection) -> None:
    """Fills the maps of runs, nets, oracles, games and screens for the attached source."""
    _create(connection, *_SAME_BY, "screens")
    for table, names in _SAME_BY.items():
        same_row = " AND ".join(f"d.{name} = s.{name}" for name in names)
        # CROSS JOIN has SQLite scan the source and use the index of the merged store.
        connection.execute(
            f"INSERT INTO work.{table} SELECT s.id, d.id FROM source.{table} s CROSS JOIN main.{table} d ON {same_row}"
        )
    screens = {_screen_digest(row): row[0] for row in _screen_rows(connection, "main")}
    rows = [(row[0], screens[_screen_digest(row)]) for row in _screen_rows(connection, "source")]
    connection.executemany("INSERT INTO work.screens VALUES (?, ?)", rows)


CHUNK = 20_000
# The columns of a position that its values depend on.
HISTORY = ("fen", "start_fen", "moves", "history_known")
_OF_GAME = ("played", "eval_cp", "eval_mate")
# Which claim wins: that of the deepest full search, without audits (whether there was one is random, and choosing by it
# would bias the weights); then the most complete history; then an order that is not that of the stores.
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
_VALUES = ("net_values", "priors", "deep_values", "failures", "screened", "expanded")


def add_positions(sources: Sources, advance: Callable[[int], None]) -> tuple[int, str]:
    """Adds the games and positions of all sources.

    Returns how many positions had several histories, and the FEN of one of them.
    """
    connection = sources.connection
    _create(connection, "contested", "claims", "winners", "stale")
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM main.positions").fetchone()
    for number in range(len(sources.stores)):
        sources.use(number)
        _add_games(connection)
        _map_numbers(connection)
        (empty,) = connection.execute("SELECT NOT EXISTS (SELECT 1 FROM main.positions)").fetchone()
        for low, high, count in _ranges(connection, "source.positions"):
            _add_new(connection, (*low, *high), first=bool(empty))
            advance(count)
        if not empty:
            _settle_kinds(connection)
    return _settle_contested(sources, newest)


def _ranges(connection: StoreConnection, table: str, key: Sequence[str] = ("id",), low: Any = (0,)) -> Iterator[Any]:
    """Ranges (low, high] of the keys of a table, from `low` on (None: the first), with the number of rows in each."""
    names = ", ".join(key)
    while True:
        beyond = "" if low is None else f"WHERE ({names}) > ({', '.join('?' * len(low))})"
        inner = f"SELECT {names} FROM {table} {beyond} ORDER BY {names} LIMIT {CHUNK}"
        (count,) = connection.execute(f"SELECT count(*) FROM ({inner})", low or ()).fetchone()
        if not count:
            return
        high = connection.execute(
            f"{inner[: inner.rindex(' LIMIT')]} LIMIT 1 OFFSET ?", (*(low or ()), count - 1)
        ).fetchone()
        yield low, high, count
        low = high


def _add_games(connection: StoreConnection) -> None:
    names = ", ".join(_names("games"))
    for low, high, _ in _ranges(connection, "source.games"):
        connection.execute(
            f"INSERT OR IGNORE INTO main.games ({names}) SELECT {names} FROM source.games WHERE id > ? AND id <= ? "
            "ORDER BY id",
            (*low, *high),
        )


def _add_new(connection: StoreConnection, ids: tuple[int, int], *, first: bool) -> None:
    """Adds positions with ids in a range that are new, and notes those that the merged store has with other cells as
    contested."""
    columns = _names("positions")
    cells = ["r.dst" if name == "run_id" else "g.dst" if name == "game_id" else f"s.{name}" for name in columns]
    rows = "source.positions s CROSS JOIN work.games g ON g.src = s.game_id CROSS JOIN work.runs r ON r.src = s.run_id"
    both, in_range = f"{rows} CROSS JOIN main.positions d ON d.key = s.key", "s.id > ? AND s.id <= ?"
    if not first:
        differs = " OR ".join(f"s.{name} IS NOT d.{name}" for name in (*HISTORY, *_OF_GAME))
        connection.execute(
            f"INSERT OR IGNORE INTO work.contested SELECT s.key FROM {both} "
            f"WHERE {in_range} AND (g.dst <> d.game_id OR {differs})",
            ids,
        )
        # Whichever history is kept, a position belongs to the oldest run that reached it.
        older = f"""
            SELECT s.key AS key, new.id AS run FROM {both}
            CROSS JOIN main.runs new ON new.id = r.dst CROSS JOIN main.runs old ON old.id = d.run_id
            WHERE {in_range} AND (new.started, new.identity) < (old.started, old.identity)
        """
        connection.execute(
            f"UPDATE main.positions SET run_id = older.run FROM ({older}) older WHERE main.positions.key = older.key",
            ids,
        )
    connection.execute(
        f"INSERT OR IGNORE INTO main.positions ({', '.join(columns)}) SELECT {', '.join(cells)} FROM {rows} "
        f"WHERE {in_range} ORDER BY s.id",
        ids,
    )


def _settle_kinds(connection: StoreConnection) -> None:
    """Keeps the first of `KINDS` if stores disagree: a position that occurred in a game of one store is a game's."""
    rank = " ".join(f"WHEN '{kind}' THEN {place}" for place, kind in enumerate(KINDS))
    connection.execute(
        "UPDATE main.positions SET kind = s.kind FROM source.positions s "
        "WHERE main.positions.kind IS NOT 'game' AND s.key = main.positions.key AND s.kind NOT NULL "
        f"AND CASE s.kind {rank} END < CASE main.positions.kind {rank} ELSE {len(KINDS)} END"
    )


# -- positions of several stores --------------------------------------------------------------------------------------


def _settle_contested(sources: Sources, newest: int) -> tuple[int, str]:
    """Gives each contested position the row of one store. `newest` is the last id of the merged store before the merge.

    Returns how many positions had several histories, and the FEN of one of them.
    """
    connection = sources.connection
    if not connection.execute("SELECT EXISTS (SELECT 1 FROM work.contested)").fetchone()[0]:
        return 0, ""
    if newest:
        # Only rows that the merged store had before the merge are its own claims.
        connection.execute(_CLAIM.format(s="main") + " WHERE p.id <= :newest", {"number": -1, "newest": newest})
    for number in range(len(sources.stores)):
        schema = sources.use(number)
        connection.execute(_CLAIM.format(s=schema), {"number": number})
    connection.execute(
        "INSERT INTO work.winners SELECT key, number FROM (SELECT key, number, row_number() OVER "
        f"(PARTITION BY key ORDER BY {_ORDER}) AS place FROM work.claims) WHERE place = 1"
    )
    several = " OR ".join(f"min({name}) <> max({name})" for name in HISTORY)
    count, example = connection.execute(
        f"SELECT count(*), min(fen) FROM (SELECT min(fen) AS fen FROM work.claims GROUP BY key HAVING {several})"
    ).fetchone()
    for number in range(len(sources.stores)):
        sources.use(number)
        _map_numbers(connection)
        _take_over(connection, number, newest)
    if connection.execute("SELECT EXISTS (SELECT 1 FROM work.stale)").fetchone()[0]:
        for table in _VALUES:
            connection.execute(f"DELETE FROM main.{table} WHERE position_id IN (SELECT position_id FROM work.stale)")
    return count, example or ""


def _take_over(connection: StoreConnection, number: int, newest: int) -> None:
    """Gives the positions that this source won its rows, and notes positions whose old values had another history."""
    won = "work.winners w CROSS JOIN source.positions s ON s.key = w.key CROSS JOIN main.positions d ON d.key = w.key"
    differs = " OR ".join(f"s.{name} IS NOT d.{name}" for name in HISTORY)
    connection.execute(
        f"INSERT INTO work.stale SELECT d.id FROM {won} WHERE w.number = ? AND d.id <= ? AND ({differs})",
        (number, newest),
    )
    same_name = (*HISTORY, "ply", *_OF_GAME)
    cells = [*(f"s.{name}" for name in same_name), "(SELECT dst FROM work.games WHERE src = s.game_id)"]
    connection.execute(
        f"UPDATE main.positions SET ({', '.join(same_name)}, game_id) = "
        f"(SELECT {', '.join(cells)} FROM source.positions s WHERE s.key = main.positions.key) "
        "WHERE key IN (SELECT key FROM work.winners WHERE number = ?)",
        (number,),
    )


def _map_positions(connection: StoreConnection) -> None:
    """Fills the map of positions: those of the source whose history was kept."""
    _create(connection, "positions")
    same = " AND ".join(f"d.{name} = s.{name}" for name in HISTORY)
    for low, high, _ in _ranges(connection, "source.positions"):
        connection.execute(
            "INSERT INTO work.positions SELECT s.id, d.id FROM source.positions s CROSS JOIN main.positions d "
            f"ON d.key = s.key AND {same} WHERE s.id > ? AND s.id <= ?",
            (*low, *high),
        )


def _map_origins(connection: StoreConnection) -> None:
    """Fills the map ``same_key``: the neighbours of a position do not depend on its history."""
    _create(connection, "same_key")
    connection.execute(
        "INSERT INTO work.same_key SELECT s.id, d.id "
        "FROM (SELECT root_id AS id FROM source.expanded UNION SELECT parent_id FROM source.expanded) e "
        "CROSS JOIN source.positions s ON s.id = e.id CROSS JOIN main.positions d ON d.key = s.key"
    )


OnContradiction = Callable[[str, int, str], None]
# A position that left one store's ladder is settled by the other store if that searched it in full and it left no
# ladder there: it then weighs 1, and the other audits stand for the other cut positions (`audit_weights`).
# `screening.settle` does the same within a store.
_SETTLES = """
EXISTS (SELECT 1 FROM {s}.deep_values v
        WHERE v.oracle_id = {oracle} AND v.stage = 'full' AND v.position_id = {position})
AND NOT EXISTS (SELECT 1 FROM {s}.nets n CROSS JOIN {s}.screened k WHERE k.net_id = n.id
                AND k.oracle_id = {oracle} AND k.position_id = {position} AND k.cut_at NOT NULL)
"""
_SETTLED_MAIN = f"""
INSERT INTO work.settled_main
SELECT c.net_id, c.oracle_id, c.position_id FROM work.oracles o
CROSS JOIN main.screened c ON c.oracle_id = o.dst AND c.cut_at NOT NULL
CROSS JOIN main.positions p ON p.id = c.position_id
CROSS JOIN source.positions s ON s.key = p.key
CROSS JOIN work.positions m ON m.src = s.id
WHERE {_SETTLES.format(s="source", oracle="o.src", position="s.id")}
"""
_SETTLED_SOURCE = f"""
INSERT OR IGNORE INTO work.settled_source
SELECT o.dst, p.dst FROM source.screened c
CROSS JOIN work.oracles o ON o.src = c.oracle_id CROSS JOIN work.positions p ON p.src = c.position_id
WHERE c.cut_at NOT NULL AND {_SETTLES.format(s="main", oracle="o.dst", position="p.dst")}
"""


def merge_values(connection: StoreConnection, advance: Callable[[int], None], contradiction: OnContradiction) -> None:
    """Adds all rows of the attached source; calls `contradiction` with the kind, number and an example of each."""
    _map_numbers(connection)
    _map_positions(connection)
    _map_origins(connection)
    _settle(connection)
    # Screening first: its rules need the full searches as they are before those of this source are added.
    for rule in (SCREENED, *RULES):
        merged = _Merging(connection, rule)
        for low, high, count in _ranges(connection, f"source.{rule.table}", rule.key, None):
            merged.add(low, high, contradiction)
            advance(count)
    _values_beat_failures(connection, contradiction)


def _settle(connection: StoreConnection) -> None:
    """Settles positions that left a ladder in the merged store, and notes those that left one in the source.

    Both must be determined before rows of the source are added, which change the result.
    """
    _create(connection, "settled_main", "settled_source")
    connection.execute(_SETTLED_MAIN)
    connection.execute(_SETTLED_SOURCE)
    settled = "(net_id, oracle_id, position_id) IN (SELECT net_id, oracle_id, position_id FROM work.settled_main)"
    connection.execute(
        f"UPDATE main.screened SET cut_at = NULL, chance = NULL, probability = 1 WHERE searched AND {settled}"
    )
    connection.execute(f"DELETE FROM main.screened WHERE NOT searched AND {settled}")


def _values_beat_failures(connection: StoreConnection, contradiction: OnContradiction) -> None:
    """Deletes failures of searches that another store has a value of."""
    same = (
        "EXISTS (SELECT 1 FROM main.deep_values v WHERE v.oracle_id = f.oracle_id AND v.stage = f.stage "
        "AND v.position_id = f.position_id)"
    )
    count, example = connection.execute(
        "SELECT count(*), min(o.label || ': ' || p.fen || ': ' || f.reason) FROM main.failures f "
        f"JOIN main.positions p ON p.id = f.position_id JOIN main.oracles o ON o.id = f.oracle_id WHERE {same}"
    ).fetchone()
    if count:
        contradiction("a value here, a failure there", count, example)
        connection.execute(f"DELETE FROM main.failures AS f WHERE {same}")


# -- one table --------------------------------------------------------------------------------------------------------


class _Merging:
    """The statements that merge one table of a source."""

    def __init__(self, connection: StoreConnection, rule: Rule) -> None:
        self._connection, self._rule = connection, rule
        (self._empty,) = connection.execute(f"SELECT NOT EXISTS (SELECT 1 FROM main.{rule.table})").fetchone()
        joins = []
        for column, table in rule.mapped.items():
            # A position that was searched before a screen was fitted has no screen.
            kind = "LEFT" if column == "screen_id" else "CROSS"
            joins.append(f"{kind} JOIN work.{table} AS m_{column} ON m_{column}.src = n.{column}")
        self._from = f"source.{rule.table} n {' '.join(joins)}"
        self._new = {name: f"m_{name}.dst" if name in rule.mapped else f"n.{name}" for name in rule.columns}
        self._condition = "TRUE"
        if rule is SCREENED:
            settled = (
                "(n.cut_at NOT NULL AND EXISTS (SELECT 1 FROM work.settled_source p "
                "WHERE p.oracle_id = m_oracle_id.dst AND p.position_id = m_position_id.dst))"
            )
            self._new |= {name: f"CASE WHEN NOT {settled} THEN n.{name} END" for name in ("cut_at", "chance")}
            self._new["probability"] = f"CASE WHEN {settled} THEN 1.0 ELSE n.probability END"
            self._condition = f"(n.searched OR NOT {settled})"

    def add(self, low: Any, high: Any, contradiction: OnContradiction) -> None:
        """Merges the rows of a range of keys."""
        if not self._empty and self._rule.differs:
            self._count_contradictions(low, high, contradiction)
        where, values = self._range(low, high)
        rule = self._rule
        update = ", ".join(f"{name} = excluded.{name}" for name in rule.columns if name not in rule.key)
        self._connection.execute(
            f"INSERT INTO main.{rule.table} AS t ({', '.join(rule.columns)}) "
            f"SELECT {', '.join(self._new.values())} FROM {self._from} WHERE {where} AND {self._condition} "
            f"ON CONFLICT ({', '.join(rule.key)}) DO UPDATE SET {update} WHERE {rule.better}",
            values,
        )

    def _count_contradictions(self, low: Any, high: Any, contradiction: OnContradiction) -> None:
        rule = self._rule
        where, values = self._range(low, high)
        same = " AND ".join(f"t.{name} = {self._new[name]}" for name in rule.key)
        example = "(SELECT fen FROM main.positions WHERE id = t.position_id)" if "position_id" in rule.key else "''"
        count, example_fen = self._connection.execute(
            f"SELECT count(*), min({example}) FROM {self._from} CROSS JOIN main.{rule.table} t ON {same} "
            f"WHERE {where} AND {rule.differs}",
            values,
        ).fetchone()
        if count:
            contradiction(rule.kind, count, example_fen)

    def _range(self, low: Any, high: Any) -> tuple[str, tuple[Any, ...]]:
        key = ", ".join(f"n.{name}" for name in self._rule.key)
        marks = ", ".join("?" * len(high))
        if low is None:
            return f"({key}) <= ({marks})", tuple(high)
        return f"({key}) > ({marks}) AND ({key}) <= ({marks})", (*low, *high)
