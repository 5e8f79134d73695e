"""`vr store check`: is the file undamaged, are its positions and moves legal, are its keys and digests right?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from valuerepair.chess.board import fens, keys, legal_moves, parse_fens, replay
from valuerepair.chess.positions import PHASES, boards, encode_move, joined, phases, piece_counts
from valuerepair.chess.progress import Progress
from valuerepair.errors import ValueRepairError
from valuerepair.inputs import from_json
from valuerepair.store.integrity import FATAL, StoreCheck, integrity_checks
from valuerepair.store.rows import AFTER, OracleIdentity, engine_words, unsigned
from valuerepair.store.store import Store


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


class _Count:
    """Counts the rows that a check finds wrong, and keeps the first as the example."""

    def __init__(self, name: str) -> None:
        self.name, self.checked, self.wrong, self.example = name, 0, 0, ""

    def take(self, checked: int, wrong: Sequence[str]) -> None:
        self.checked += checked
        self.wrong += len(wrong)
        self.example = self.example or (wrong[0] if wrong else "")

    @property
    def check(self) -> StoreCheck:
        return StoreCheck(self.name, self.checked, self.wrong, self.example)


def sound(count: int, make: Callable[[list[int]], Any]) -> tuple[list[int], dict[int, str], Any]:
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
            at = int(match[1])
            bad[rows[at]] = str(error)
            del rows[at]


def position_checks(store: Store, advance: Callable[[int], None]) -> list[StoreCheck]:
    """All positions: FEN, key, facts, history and the move played."""
    counts = [_Count(name) for name in _NAMES]
    after = 0
    while rows := store.connection.execute(_POSITIONS, (after, CHUNK)).fetchall():
        after = rows[-1][0]
        _check_positions(rows, counts)
        advance(len(rows))
    return [count.check for count in counts]


def _check_positions(rows: list[tuple[Any, ...]], counts: list[_Count]) -> None:
    good, bad, parsed = sound(len(rows), lambda kept: parse_fens([rows[i][2] for i in kept]))
    counts[0].take(len(rows), [f"position {rows[i][0]}: {why}" for i, why in bad.items()])
    rows = [rows[i] for i in good]
    if not rows:
        return
    named = [f"position {row[0]}: {row[2]}" for row in rows]
    other = keys(parsed) != unsigned([row[1] for row in rows])
    counts[1].take(len(rows), [named[i] for i in np.flatnonzero(other)])
    men = boards([row[2] for row in rows])
    sides, phase_names = (row[2].split(" ", 2)[1] for row in rows), (PHASES[phase] for phase in phases(men).tolist())
    facts = zip(sides, phase_names, piece_counts(men).tolist(), strict=True)
    other_facts = [name for name, row, right in zip(named, rows, facts, strict=True) if row[6:9] != right]
    counts[2].take(len(rows), other_facts)
    _check_histories(rows, fens(parsed), named, counts[3])
    played = [(i, row[9]) for i, row in enumerate(rows) if row[9]]
    counts[4].take(len(played), [f"{named[i]}: {move}" for i, move in _illegal(parsed, played)])


def _check_histories(rows: list[tuple[Any, ...]], expected: list[str], named: list[str], count: _Count) -> None:
    """Plays the moves from the start; they must lead to the FEN, except for an en-passant square nobody can use."""
    # An odd byte at the end, half a move, is completed to a move that is never legal.
    moves = [np.frombuffer(row[4] + b"\xff" * (len(row[4]) % 2), "<u2").astype(np.uint16) for row in rows]

    def played(kept: list[int]) -> list[str]:
        start = parse_fens([rows[i][3] for i in kept])
        return fens(replay(start, *joined([moves[i] for i in kept])))

    good, bad, reached = sound(len(rows), played)
    wrong = [f"{named[i]}: {why}" for i, why in bad.items()]
    wrong += [
        f"{named[i]}: the moves lead to {fen}" for i, fen in zip(good, reached, strict=True) if fen != expected[i]
    ]
    count.take(len(rows), wrong)


def play_check(store: Store, advance: Callable[[int], None]) -> StoreCheck:
    """Whether the key of each game played from a book, by which its position is found, is that of its FEN."""
    count = _Count("games played: key of the FEN")
    cursor = store.connection.execute("SELECT number, fen, key FROM plays")
    while rows := cursor.fetchmany(CHUNK):
        count.take(len(rows), _other_keys(rows))
        advance(len(rows))
    return count.check


def _other_keys(rows: list[tuple[Any, ...]]) -> list[str]:
    good, bad, parsed = sound(len(rows), lambda kept: parse_fens([rows[i][1] for i in kept]))
    other = np.flatnonzero(keys(parsed) != unsigned([rows[i][2] for i in good]))
    named = [f"game {rows[good[k]][0]}: {rows[good[k]][1]}" for k in other]
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
    for name, table, columns in _MOVES:
        counts.append(_Count(name))
        for rows in _pages(store, table, columns):
            _check_lines(rows, counts[-1], plain=table != "deep_values")
            advance(len(rows))
    return [count.check for count in counts]


_MOVES = (
    ("net values: the best move is legal", "net_values", "best_move, NULL, ''"),
    ("priors: the moves are legal", "priors", "move, NULL, ''"),
    ("deep values: best move and line are legal", "deep_values", "best_move, stage, pv"),
)


def _pages(store: Store, table: str, columns: str) -> Iterator[list[tuple[Any, ...]]]:
    """Rows (position, FEN, move, stage, line), in pages."""
    query = f"SELECT p.id, p.fen, {columns} FROM {table} t JOIN positions p ON p.id = t.position_id"
    cursor = store.connection.execute(query)
    while rows := cursor.fetchmany(CHUNK):
        yield rows


def _check_lines(rows: list[tuple[Any, ...]], count: _Count, *, plain: bool) -> None:
    good, _, parsed = sound(len(rows), lambda kept: parse_fens([rows[i][1] for i in kept]))
    lines = [np.array(_line(rows[i], plain), np.uint16) for i in good]

    def played(kept: list[int]) -> None:
        if kept:
            replay(parsed[kept], *joined([lines[k] for k in kept]))

    _, bad, _ = sound(len(good), played)
    wrong = [
        f"position {rows[good[k]][0]}: {why.split(': ')[0].partition(', ')[2]} not legal" for k, why in bad.items()
    ]
    if not plain:
        ahead = [k for k, i in enumerate(good) if not str(rows[i][3]).startswith(AFTER) and rows[i][2]]
        bests = [(k, rows[good[k]][2]) for k in ahead if k not in bad]
        wrong += [f"position {rows[good[k]][0]}: best move {move}" for k, move in _illegal(parsed, bests)]
    count.take(len(good), wrong)


def _line(row: tuple[Any, ...], plain: bool) -> list[int]:
    """The moves to play from the position: the net's best one, or the move after which was searched and the line."""
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
    return StoreCheck("oracles: digests", len(rows), len(wrong), wrong[0] if wrong else "")


def _is_digest(digest: str, label: str, kind: str, engine: str, sha256: str, limits: str, options: str) -> bool:
    """Whether an oracle has the digest of its columns.

    No column has the name of its net, which is in the label, after the engine.
    """
    try:
        facts = from_json(limits, dict[str, Any], ""), from_json(options, dict[str, Any], "")
    except ValueRepairError:
        return False
    words = label.removeprefix(engine_words(engine)).strip().split(" ")
    nets = (" ".join(words[:count]) for count in range(len(words) + 1))
    return any(OracleIdentity(kind, engine, sha256, *facts, net).digest == digest for net in nets)
