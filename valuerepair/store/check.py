"""`vr doctor FILE`: is the file undamaged, are its positions and moves legal, are its keys and digests right?"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from valuerepair.chess import origins
from valuerepair.chess.board import fens, keys, legal_moves, parse_fens, replay
from valuerepair.chess.positions import PHASES, boards, encode_move, joined, phases, piece_counts
from valuerepair.errors import ValueRepairError
from valuerepair.progress import Progress
from valuerepair.store import schema
from valuerepair.store.cells import columns, columns_of, from_json, is_other_type
from valuerepair.store.rows import (
    AFTER,
    EXPANDED,
    FULL,
    INFERRED,
    REJUDGED,
    SECOND,
    STEPS,
    OracleIdentity,
    engine_words,
    unsigned,
)
from valuerepair.store.store import Store

_SHOWN = 100
# How far sums may be off: of a net's float32 probabilities, and of per mille that engines round one by one.
_SUM_OFF, _PER_MILLE_OFF = 1e-3, 3


FORM, WHOLE = "tables, indices and version", "SQLite: the file is whole"
KINDS = "cells have the type of their column"
# If one of these fails, no other check is run: queries rely on them, and a view in place of a table might run forever.
FATAL = (FORM, WHOLE, KINDS)


@dataclass
class StoreCheck:
    """The result of a check: how many rows were checked, how many are wrong, and the first of these as an example."""

    name: str
    checked: int = 0
    wrong: int = 0
    example: str = ""

    def add(self, checked: int, wrong: Sequence[str]) -> StoreCheck:
        """Adds rows; `wrong` has a text for each wrong one. Returns itself."""
        self.checked += checked
        self.wrong += len(wrong)
        self.example = self.example or next(iter(wrong), "")
        return self

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
     f"('{FULL}', '{SECOND}', '{EXPANDED}', '{INFERRED}', '{REJUDGED}') "
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
    yield StoreCheck(WHOLE).add(1, damaged)
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
    return StoreCheck(FORM).add(objects + 1, different)


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
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):  # perhaps millions
        wrong += 1
        example = example or f"a row of {table} without its row in {parent}"
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
    return StoreCheck("rows that others point to", rows, wrong, example)


def check_store(store: Store, progress: Progress | None = None) -> Iterator[StoreCheck]:
    """All checks, one after the other: the database, then the boards, moves, keys and digests of all rows.

    A file that is damaged, or has text in a column of numbers, is not checked further.
    """
    bar = progress or Progress("checking", quiet=True)
    for check in integrity_checks(store):
        yield check
        if check.wrong and check.name in FATAL:
            return
    counts = [store.connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in _TABLES]
    bar.set_total(sum(counts))
    yield from position_checks(store, bar.advance)
    yield from move_checks(store, bar.advance)
    yield play_check(store, bar.advance)
    yield digest_check(store)


_TABLES = ("positions", "net_values", "priors", "deep_values", "plays")
CHUNK = 5000
_NO_MOVE = 0xFFFF  # legal in no position
_ROW = re.compile(r"row (\d+)")
_POSITIONS = (
    "SELECT id, key, fen, start_fen, moves, history_known, side, phase, pieces, played FROM positions "
    "WHERE id > ? ORDER BY id LIMIT ?"
)
_NAMES = (
    "positions: FEN",
    "positions: key of the FEN",
    "positions: side, phase, pieces",
    "positions: moves lead to the FEN",
    "moves played are legal",
)


def accepted_rows(count: int, make: Callable[[list[int]], Any]) -> tuple[list[int], dict[int, str], Any]:
    """The rows that `make` accepts, the reason for each row that it refuses, and its result for the accepted rows.

    `make` raises ValueError ``row i: reason`` for the i-th of the rows that it gets.
    """
    rows, bad = list(range(count)), dict[int, str]()
    while True:
        try:
            return rows, bad, make(rows)
        except ValueError as error:
            match = _ROW.match(str(error))
            if match is None:
                raise
            refused = int(match[1])
            bad[rows[refused]] = str(error)
            del rows[refused]


def position_checks(store: Store, advance: Callable[[int], None]) -> list[StoreCheck]:
    """All positions: FEN, key, facts, history and the move played."""
    counts = [StoreCheck(name) for name in _NAMES]
    after = 0
    while rows := store.connection.execute(_POSITIONS, (after, CHUNK)).fetchall():
        after = rows[-1][0]
        _check_positions(rows, counts)
        advance(len(rows))
    return counts


def _check_positions(rows: list[tuple[Any, ...]], counts: list[StoreCheck]) -> None:
    good, bad, parsed = accepted_rows(len(rows), lambda indices: parse_fens([rows[i][2] for i in indices]))
    counts[0].add(len(rows), [f"position {rows[i][0]}: {why}" for i, why in bad.items()])
    rows = [rows[i] for i in good]
    if not rows:
        return
    named = [f"position {row[0]}: {row[2]}" for row in rows]
    wrong_keys = keys(parsed) != unsigned([row[1] for row in rows])
    counts[1].add(len(rows), [named[i] for i in np.flatnonzero(wrong_keys)])
    men = boards([row[2] for row in rows])
    sides, phase_names = (row[2].split(" ", 2)[1] for row in rows), (PHASES[phase] for phase in phases(men).tolist())
    facts = zip(sides, phase_names, piece_counts(men).tolist(), strict=True)
    wrong_facts = [name for name, row, right in zip(named, rows, facts, strict=True) if row[6:9] != right]
    counts[2].add(len(rows), wrong_facts)
    _check_histories(rows, fens(parsed), named, counts[3])
    played = [(i, row[9]) for i, row in enumerate(rows) if row[9]]
    counts[4].add(len(played), [f"{named[i]}: {move}" for i, move in _illegal(parsed, played)])


def _check_histories(rows: list[tuple[Any, ...]], expected: list[str], named: list[str], count: StoreCheck) -> None:
    """Plays the moves from the start. They must lead to the FEN, apart from an en-passant square where no capture is
    legal."""
    # An odd byte at the end, half a move, is completed to a move that is never legal.
    moves = [np.frombuffer(row[4] + b"\xff" * (len(row[4]) % 2), "<u2").astype(np.uint16) for row in rows]

    def played(indices: list[int]) -> list[str]:
        start = parse_fens([rows[i][3] for i in indices])
        return fens(replay(start, *joined([moves[i] for i in indices])))

    good, bad, reached = accepted_rows(len(rows), played)
    wrong = [f"{named[i]}: {why}" for i, why in bad.items()]
    wrong += [
        f"{named[i]}: the moves lead to {fen}" for i, fen in zip(good, reached, strict=True) if fen != expected[i]
    ]
    count.add(len(rows), wrong)


def play_check(store: Store, advance: Callable[[int], None]) -> StoreCheck:
    """Whether the key of each game played from a book, by which its position is found, is that of its FEN."""
    count = StoreCheck("games played: key of the FEN")
    cursor = store.connection.execute("SELECT number, fen, key FROM plays")
    while rows := cursor.fetchmany(CHUNK):
        count.add(len(rows), _wrong_keys(rows))
        advance(len(rows))
    return count


def _wrong_keys(rows: list[tuple[Any, ...]]) -> list[str]:
    """A text for each game whose key is not that of its FEN."""
    good, bad, parsed = accepted_rows(len(rows), lambda indices: parse_fens([rows[i][1] for i in indices]))
    wrong = np.flatnonzero(keys(parsed) != unsigned([rows[i][2] for i in good]))
    named = [f"game {rows[good[k]][0]}: {rows[good[k]][1]}" for k in wrong]
    return [*(f"game {rows[i][0]}: {why}" for i, why in bad.items()), *named]


def _illegal(parsed: Any, named_moves: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The moves (row, UCI) that are not legal on their boards."""
    if not named_moves:
        return []
    moves, offsets = legal_moves(parsed[[i for i, _ in named_moves]])
    wrong = []
    for k, (i, uci) in enumerate(named_moves):
        try:
            legal = encode_move(uci) in moves[offsets[k] : offsets[k + 1]]
        except ValueError:
            legal = False
        if not legal:
            wrong.append((i, uci))
    return wrong


# -- moves of nets and searches ---------------------------------------------------------------------------------------


def move_checks(store: Store, advance: Callable[[int], None]) -> list[StoreCheck]:
    """Whether the moves of nets and searches, and the searches' lines, are legal in their positions."""
    counts = []
    for name, table, cells in _MOVES:
        counts.append(StoreCheck(name))
        for rows in _pages(store, table, cells):
            _check_lines(rows, counts[-1], plain=table != "deep_values")
            advance(len(rows))
    return counts


_MOVES = (
    ("net values: the best move is legal", "net_values", "best_move, NULL, ''"),
    ("priors: the moves are legal", "priors", "move, NULL, ''"),
    ("deep values: best move and line are legal", "deep_values", "best_move, stage, pv"),
)


def _pages(store: Store, table: str, cells: str) -> Iterator[list[tuple[Any, ...]]]:
    """Rows (position, FEN, move, stage, line), in pages."""
    query = f"SELECT p.id, p.fen, {cells} FROM {table} t JOIN positions p ON p.id = t.position_id"
    cursor = store.connection.execute(query)
    while rows := cursor.fetchmany(CHUNK):
        yield rows


def _check_lines(rows: list[tuple[Any, ...]], count: StoreCheck, *, plain: bool) -> None:
    good, _, parsed = accepted_rows(len(rows), lambda indices: parse_fens([rows[i][1] for i in indices]))
    lines = [np.array(_line(rows[i], plain), np.uint16) for i in good]

    def played(indices: list[int]) -> None:
        if indices:
            replay(parsed[indices], *joined([lines[k] for k in indices]))

    _, bad, _ = accepted_rows(len(good), played)
    wrong = [
        f"position {rows[good[k]][0]}: {why.split(': ')[0].partition(', ')[2]} not legal" for k, why in bad.items()
    ]
    if not plain:
        of_positions = [k for k, i in enumerate(good) if not str(rows[i][3]).startswith(AFTER) and rows[i][2]]
        best_moves = [(k, rows[good[k]][2]) for k in of_positions if k not in bad]
        wrong += [f"position {rows[good[k]][0]}: best move {move}" for k, move in _illegal(parsed, best_moves)]
    count.add(len(good), wrong)


def _line(row: tuple[Any, ...], plain: bool) -> list[int]:
    """The moves to play from the position: the net's best move; or the move that the stage names, and the line."""
    if plain:
        return [row[2] if 0 < row[2] < _NO_MOVE else _NO_MOVE] if row[2] else []
    first = [row[3].removeprefix(AFTER)] if row[3].startswith(AFTER) else []
    moves = []
    for uci in (*first, *row[4].split()):
        try:
            moves.append(encode_move(uci))
        except ValueError:
            moves.append(_NO_MOVE)
    return moves


# -- oracles ----------------------------------------------------------------------------------------------------------


def digest_check(store: Store) -> StoreCheck:
    """Whether the digests of oracles match their other columns."""
    rows = store.connection.execute(
        "SELECT digest, label, kind, engine, sha256, limits, options FROM oracles"
    ).fetchall()
    wrong = [f"{label} ({digest[:12]})" for digest, label, *facts in rows if not _is_digest(digest, label, *facts)]
    return StoreCheck("oracles: digests").add(len(rows), wrong)


def _is_digest(digest: str, label: str, kind: str, engine: str, sha256: str, limits: str, options: str) -> bool:
    """Whether an oracle has the digest of its columns.

    The digest also depends on the name of its net, which no column has: the label has it after the engine.
    """
    try:
        facts = from_json(limits, dict[str, Any], ""), from_json(options, dict[str, Any], "")
    except ValueRepairError:
        return False
    words = label.removeprefix(engine_words(engine)).strip().split(" ")
    nets = (" ".join(words[:count]) for count in range(len(words) + 1))
    return any(OracleIdentity(kind, engine, sha256, *facts, net).digest == digest for net in nets)
