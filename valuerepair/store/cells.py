"""What the cells of each column of a store may contain.

Anybody may have written to the file, and SQLite accepts a text in a column of numbers. `connection.StoreConnection`
checks every row that is read against these kinds, so that readers find what they expect.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from valuerepair.chess.origins import KINDS
from valuerepair.chess.positions import PHASES
from valuerepair.errors import ValueRepairError, one_line
from valuerepair.store import schema
from valuerepair.store.rows import STEPS

_UCI = r"[a-h][1-8][a-h][1-8][nbrq]?"
_PROMOTIONS = 0x5000  # moves are numbers below: `chess.positions`
_ROUNDED = 1e-3  # the rounding error of sums of float32
Check = Callable[[Sequence[Any]], "Wrong | None"]


class Wrong(NamedTuple):
    """A cell that its column cannot have, and why, in words that follow 'is'."""

    cell: object
    why: str


@dataclass(frozen=True, slots=True)
class Kind:
    """Cells of one SQLite type; numbers are from `low` to `high`; `check` looks at all cells that are not NULL."""

    type: type
    words: str
    low: float | None = None
    high: float | None = None
    check: Check | None = None

    def first_wrong(self, cells: Sequence[Any]) -> Wrong | None:
        """The first cell that is not of this kind, if any.

        NULL is of every kind: SQLite itself refuses it where a column forbids it, and a join gives it for missing rows.
        """
        types = set(map(type, cells))
        if not types <= {self.type, NoneType}:
            return Wrong(next(c for c in cells if type(c) not in (self.type, NoneType)), f"not {self.words}")
        present = [cell for cell in cells if cell is not None] if NoneType in types else cells
        if not present:
            return None
        if self.low is not None and self.high is not None:
            low, high = self.low, self.high
            if min(present) < low or max(present) > high:
                return Wrong(next(cell for cell in present if not low <= cell <= high), f"not {self.words}")
        return None if self.check is None else self.check(present)


def _whole(low: int, high: int, words: str = "") -> Kind:
    return Kind(int, words or f"a whole number from {low} to {high}", low, high)


def _real(low: float, high: float, words: str = "") -> Kind:
    return Kind(float, words or f"a number from {low:g} to {high:g}", low, high)


def _one_of(*words: str) -> Kind:
    allowed = frozenset(words)

    def check(cells: Sequence[Any]) -> Wrong | None:
        unknown = set(cells) - allowed
        return Wrong(min(unknown), f"none of {', '.join(sorted(allowed))}") if unknown else None

    return Kind(str, "a text", check=check)


def _matching(pattern: str, words: str) -> Kind:
    match = re.compile(pattern).fullmatch

    def check(cells: Sequence[Any]) -> Wrong | None:
        return next((Wrong(cell, f"not {words}") for cell in cells if not match(cell)), None)

    return Kind(str, "a text", check=check)


def _read_by(read: Callable[[str], object]) -> Kind:
    """Texts that `read` accepts; it raises ValueRepairError for others."""

    def check(texts: Sequence[Any]) -> Wrong | None:
        for text in dict.fromkeys(texts):
            try:
                read(text)
            except ValueRepairError as error:
                return Wrong(text, str(error))
        return None

    return Kind(str, "a text", check=check)


def from_json(text: str | bytes, kind: Any, where: str) -> Any:
    """A JSON text as a value of a type. Raises ValueRepairError, whose message begins with `where`."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueRepairError(f"{where}: {one_line(error)}") from None


def _json(kind: Any) -> Kind:
    return _read_by(lambda text: from_json(text, kind, "not the JSON that belongs there"))


def _read_model(text: str) -> None:
    """Checks that a text is a JSON object, perhaps with Python's infinities; `screening.model` checks its fields."""
    try:
        model = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueRepairError(f"no JSON: {error}") from None
    if not isinstance(model, dict):
        raise ValueRepairError("no JSON object")


# A FEN in which dots replace the digits from 1 to 8, each by that number of dots; and lines of these texts.
_RANK = "[.pnbrqkPNBRQK]{8}"
_FEN_TEXT = (
    rf"(?=[^ K]*K[^ K]* )(?=[^ k]*k[^ k]* ){_RANK}(?:/{_RANK}){{7}}"
    r" [wb] (?:-|[KQkqA-Ha-h]{1,4}) (?:-|[a-h](?:\.{3}|\.{6})) [.09]+ [.09]+"
)
_FEN_LINES = re.compile(rf"(?:{_FEN_TEXT}\n)*")


def _check_fens(fens: Sequence[Any]) -> Wrong | None:
    """Checks texts by a pattern: the kernels would take a second to load, and notebooks that read frames need none."""
    different = list(dict.fromkeys(fens))  # nearly all games begin alike
    if _are_fens(different):
        return None
    return next(Wrong(fen, "no position") for fen in different if not _are_fens([fen]))


def _are_fens(texts: list[str]) -> bool:
    """Whether all texts are FENs; checking all at once is faster than one by one."""
    lines = "\n".join([*texts, ""])
    for number in range(1, 9):
        lines = lines.replace(str(number), "." * number)
    return lines.count("\n") == len(texts) and _FEN_LINES.fullmatch(lines) is not None


def _check_moves(blobs: Sequence[Any]) -> Wrong | None:
    for blob in blobs:
        if len(blob) % 2:
            return Wrong(blob, "half a move too long")
    moves = np.frombuffer(b"".join(blobs), "<u2")
    if len(moves) and moves.max() >= _PROMOTIONS:
        other = (blob for blob in blobs if blob and np.frombuffer(blob, "<u2").max() >= _PROMOTIONS)
        return Wrong(next(other), "no moves: one promotes to a piece that does not exist")
    return None


_BIT, _COUNT = _whole(0, 1, "0 or 1"), _whole(0, (1 << 63) - 1, "a count")
_SMALL = _whole(-(1 << 31), (1 << 31) - 1)
_FINITE = _real(-math.nextafter(math.inf, 0), math.nextafter(math.inf, 0), "a finite number")
_ABOVE_0 = _real(math.nextafter(0, 1), math.nextafter(math.inf, 0), "a finite number above 0")
_SHARE, _CHANCE = _real(-_ROUNDED, 1 + _ROUNDED, "a number from 0 to 1"), _real(0, 1)
_ABOVE_0_TO_1 = _real(math.nextafter(0, 1), 1, "a number above 0, up to 1")
# Means of 32-bit floats, as in chunks, drift a little beyond 1.
_Q = _real(-1.001, 1.001, "a number from -1 to 1")
_MOVE = _whole(0, _PROMOTIONS - 1, "a move")
_FEN = Kind(str, "a text", check=_check_fens)
_UCI_MOVE = _matching(_UCI, "a move in UCI")
_RESULT = _one_of("1-0", "0-1", "1/2-1/2", "*")
_BY_TYPE = {
    "INTEGER": Kind(int, "a whole number"),
    "REAL": _FINITE,
    "TEXT": Kind(str, "a text"),
    "BLOB": Kind(bytes, "bytes"),
}
# Columns of JSON, which SQLite's own functions read too -> the type of what they hold.
JSON: Mapping[str, Any] = {
    "runs.options": dict[str, Any],
    "runs.versions": dict[str, Any],
    "runs.counts": dict[str, Any],
    "games.headers": dict[str, str],
    "oracles.limits": dict[str, int],
    "oracles.options": dict[str, str],
}
# The way of a position up a screening ladder.
_OF_PASSAGE = {
    "cut_at": _COUNT,
    "chance": _CHANCE,
    "nodes": _COUNT,
    "searched": _BIT,
    "probability": _ABOVE_0_TO_1,
}
_NARROWER: Mapping[str, Kind] = {
    **{name: _json(kind) for name, kind in JSON.items()},
    **{f"{table}.{name}": kind for table in ("screened", "expanded") for name, kind in _OF_PASSAGE.items()},
    **dict.fromkeys(("positions.fen", "positions.start_fen", "plays.fen"), _FEN),
    **dict.fromkeys(("positions.played", "deep_values.best_move"), _UCI_MOVE),
    **dict.fromkeys(("positions.ply", "nets.input_format"), _SMALL),
    **dict.fromkeys(("positions.history_known", "screens.alpha_given", "expanded.drawn"), _BIT),
    **dict.fromkeys(("net_values.q", "net_values.w", "net_values.d", "net_values.l", "deep_values.q"), _Q),
    **dict.fromkeys(("net_values.best_move", "priors.move"), _MOVE),
    **dict.fromkeys(("net_values.best_p", "priors.p"), _SHARE),
    # Per mille, rounded separately.
    **dict.fromkeys(("deep_values.w", "deep_values.d", "deep_values.l"), _whole(-3, 1003)),
    **dict.fromkeys((f"deep_values.{name}" for name in ("depth", "seldepth", "nodes", "time_ms")), _COUNT),
    **dict.fromkeys(("alpha_fits.alpha", "screens.threshold", "screens.alpha"), _ABOVE_0),
    "screens.q_from": _one_of("cp", "wdl"),
    "positions.moves": Kind(bytes, "bytes", check=_check_moves),
    "positions.side": _one_of("w", "b"),
    "positions.phase": _one_of(*PHASES),
    "positions.pieces": _whole(2, 32),
    "positions.kind": _one_of(*KINDS),
    "net_values.entropy": _real(-1e-5, 5.5),  # of the position with most legal moves (218): 5.4
    "deep_values.pv": _matching(f"(?:{_UCI}(?: {_UCI})*)?", "a line of moves in UCI"),
    "screens.recall": _CHANCE,
    "screens.model": _read_by(_read_model),
    "expanded.step": _one_of(*STEPS),
    "plays.result": _RESULT,
    "plays.z": _real(-1, 1),
    "plays.plies": _COUNT,
}


class Column(NamedTuple):
    """A column of the store: the `kind` of its cells, and the `key` columns, which identify a row of its table.

    `parent` is the table that its cells refer to, if any.
    """

    table: str
    name: str
    kind: Kind
    key: tuple[str, ...]
    parent: str | None


@cache
def columns() -> Mapping[str, Column]:
    """All columns of the tables of the current version, by table and column: ``positions.fen``."""
    by_name: dict[str, Column] = {}
    with schema.empty_store() as empty:
        tables = [name for (name,) in empty.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            described = empty.execute(f"PRAGMA table_info({table})").fetchall()
            key = tuple(name for _, name, _, _, _, part in described if part)
            parents = {row[3]: row[2] for row in empty.execute(f"PRAGMA foreign_key_list({table})")}
            for _, name, declared, *_ in described:
                kind = _NARROWER.get(f"{table}.{name}", _BY_TYPE[declared])
                by_name[f"{table}.{name}"] = Column(table, name, kind, key, parents.get(name))
    return by_name


def columns_of(table: str) -> list[Column]:
    """The columns of a table, in its order."""
    return [column for column in columns().values() if column.table == table]


_SQL_TYPES = {int: "integer", float: "real", str: "text", bytes: "blob"}


def beside_sum(cell: str, name: str) -> str:
    """SQL to select next to a sum or a mean of the column `name`, for which SQLite would count a text as 0.

    It selects a cell of another type, which `connection.StoreCursor` then refuses, or NULL if there is no such cell.
    """
    return f"max(CASE WHEN typeof({cell}) <> '{_SQL_TYPES[columns()[name].kind.type]}' THEN {cell} END) AS \"{name}\""


def is_other_type(column: Column) -> str:
    """SQL of the condition that a cell of the column is of another type."""
    return f"typeof({column.name}) NOT IN ('{_SQL_TYPES[column.kind.type]}', 'null')"


def rows_in_doubt(table: str) -> tuple[str, list[float]]:
    """SQL of the condition that a cell of the row is out of bounds or not of its column's type, and its parameters.

    The contents of texts and blobs are not checked.
    """
    conditions, bounds = [], list[float]()
    for column in columns_of(table):
        conditions.append(is_other_type(column))
        kind = column.kind
        if kind.low is not None and kind.high is not None:
            conditions.append(f"{column.name} NOT BETWEEN ? AND ?")
            bounds += [kind.low, kind.high]
    return " OR ".join(conditions), bounds


def check_histories(
    starts: Sequence[str | None], moves: Sequence[bytes | None], fens: Sequence[str | None] | None
) -> int | None:
    """The first row whose moves cannot be played from its start, or, if `fens` are given, do not lead to its FEN.

    The cells are of their kinds; rows with NULL are skipped.
    """
    from valuerepair.chess.board import keys, parse_fens, replay
    from valuerepair.chess.positions import cuts_of

    rows = [i for i, (start, blob) in enumerate(zip(starts, moves, strict=True)) if None not in (start, blob)]
    flat = np.frombuffer(b"".join([moves[i] or b"" for i in rows]), "<u2").astype(np.uint16)
    cuts = cuts_of([len(moves[i] or b"") // 2 for i in rows])
    try:
        reached = replay(parse_fens([starts[i] or "" for i in rows]), flat, cuts)
        expected = keys(reached if fens is None else parse_fens([fens[i] or "" for i in rows]))
    except ValueError as error:  # "row 3: reason", "row 3, ply 2: reason"
        return rows[int(re.findall(r"\d+", str(error))[0])]
    wrong = np.flatnonzero(keys(reached) != expected)
    return rows[wrong[0]] if len(wrong) else None
