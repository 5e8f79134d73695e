"""The scored positions of a store as columns.

Each table is read once, in the order of its key, and joined here: a join in SQLite would look up every position in
every other table, and a million rows of Python objects would take ten times the memory of the arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from itertools import product
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess import values
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import PHASES
from valuerepair.question import Expanded, QFrom
from valuerepair.store.connection import StoreConnection
from valuerepair.store.rows import EXPANDED, INFERRED, unsigned, value_condition
from valuerepair.store.selection import selection_weights

NET_ROWS = "FROM net_values WHERE net_id = :net ORDER BY position_id"
# The deep value of each position; {counts} is `value_condition`.
DEEP_ROWS = "FROM deep_values v WHERE {counts} ORDER BY position_id"
POSITION_ROWS = "FROM positions ORDER BY id"
# Read from the index on phase and side, whose entries have a few bytes; a position's row has its whole history.
WORD_ROWS = "SELECT id FROM positions WHERE phase = :phase AND side = :side ORDER BY id"
KIND_ROWS = "SELECT id, kind FROM positions WHERE kind IS NOT 'game'"
GAMES = "SELECT id, number, source, digest FROM games"
# The name of a column -> its cell in the table.
_NET = {"net_q": "q", "net_w": "w", "net_d": "d", "net_l": "l", "net_entropy": "entropy"}
_DEEP = {
    "nodes": "nodes", "depth": "depth", "time_ms": "time_ms", "cp": "cp", "mate": "mate",
    "deep_w": "w", "deep_d": "d", "deep_l": "l", "deep_own_q": "q",
    "rung": "CASE WHEN v.stage GLOB '[0-9]*' THEN CAST(v.stage AS INTEGER) END",
}  # fmt: skip
_POSITION = {
    "ply": "ply", "pieces": "pieces", "history_known": "history_known", "eval_cp": "eval_cp", "eval_mate": "eval_mate",
    "game_id": "game_id",
}  # fmt: skip
_WORDS = ("side", "phase")
# The same two as int8 indices into "wb" and `PHASES`, -1 for neither: pandas is slow with a million words.
CODES = ("side_code", "phase_code")
_GAME = ("game", "source")
# One of `chess.origins.KINDS`; None for a position that was only reached from candidates.
KIND = "kind"
# A 64-bit key of a game, the same in all stores; `rates.fold_of` uses it.
GAME_KEY = "game_key"
_SIDES = ("w", "b")
_WHOLE = frozenset({"position_id", "ply", "pieces", "game", "game_id", "nodes", "depth", "time_ms"})
# The columns that net Q and deep Q are computed from, without W/D/L.
OF_Q = ("net_q", "cp", "mate", "deep_own_q")
# The nodes of the last rung of a position that a ladder cut; NaN for a position that was searched in full.
OF_CUT = ("rung",)
_OF_SEARCH = (name for name in _DEEP if name not in OF_CUT)
NUMBERS = ("position_id", "key", *_POSITION, *_GAME, *_NET, *_OF_SEARCH, "weight", *_WORDS, KIND)
# For positions reached from candidates: the sampled root, the step, whether the value is inferred.
OF_EXPANDED = ("root_id", "step", "inferred")
# If several nets reached a position, the row of this net counts, else that of the first net. SQLite takes bare columns
# from the row of the MIN.
_ROOTS = f"""
WITH reached AS MATERIALIZED (
    SELECT position_id, root_id, step, MIN((net_id <> :net) * 1000000000 + net_id) FROM expanded
    WHERE oracle_id = :oracle GROUP BY position_id)
SELECT v.position_id, v.stage = '{INFERRED}', e.root_id AS "expanded.root_id", e.step AS "expanded.step"
FROM deep_values v
LEFT JOIN reached e ON e.position_id = v.position_id
WHERE {{counts}} AND v.stage IN ('{EXPANDED}', '{INFERRED}') ORDER BY v.position_id
"""


class _Cache(NamedTuple):
    """The columns read so far for a pair of net and oracle, and the `state` of the store when they were read.

    `columns` are by `Question.expanded` and by whether positions that a ladder cut are included; then by name.
    """

    state: tuple[int, int]
    pair: tuple[int, int]
    columns: dict[tuple[Expanded, bool], dict[str, NDArray[Any]]]
    facts: dict[str, Any]


def columns(
    connection: StoreConnection,
    net_id: int,
    oracle_id: int,
    names: Iterable[str],
    expanded: Expanded = "no",
    cut: bool = False,
) -> Mapping[str, NDArray[Any]]:
    """Columns [n] by name, and position_id: a row for each position scored by both net and oracle, by position_id.

    `names` are some of `NUMBERS`, `CODES`, `OF_EXPANDED`, `OF_CUT` and `GAME_KEY`: those of `queries.frame`, with
    `deep_own_q`, the Q that an engine reports itself. Integers that may be missing are floats, NaN if missing; side,
    phase, kind, source and step are objects. `expanded` is as in `Question`, `cut` as in `queries.frame`. The arrays
    are read-only, as they are returned again until the store changes.
    """
    cached = _cache(connection, (net_id, oracle_id)).columns.setdefault((expanded, cut), {})
    missing, ids = [name for name in names if name not in cached], cached.get("position_id")
    if missing or ids is None:
        reader = _ColumnReader(connection, {"net": net_id, "oracle": oracle_id}, expanded, cut)
        for name, column in reader.read(missing, ids):
            column.flags.writeable = False
            cached[name] = column
    return MappingProxyType(cached)


_WDL = ("deep_w", "deep_d", "deep_l")


def shares(q_from: QFrom) -> tuple[str, ...]:
    """The columns of W/D/L that deep Q is computed from, for this `q_from`."""
    return _WDL if q_from == "wdl" else ()


def both_q(
    connection: StoreConnection,
    net_id: int,
    oracle_id: int,
    alpha: float,
    q_from: QFrom,
    expanded: Expanded = "no",
    cut: bool = False,
) -> tuple[Floats, Floats]:
    """Net Q and deep Q, float64[n] each, of the rows of `columns`, from the side to move."""
    wdl = shares(q_from)
    read = columns(connection, net_id, oracle_id, (*OF_Q, *wdl), expanded, cut)
    unread = np.full(len(read["cp"]), np.nan)
    scores = [read["cp"], read["mate"], *(read[name] if wdl else unread for name in _WDL), read["deep_own_q"]]
    return read["net_q"], values.deep_q(np.stack(scores, 1), alpha, q_from)


def facts(connection: StoreConnection, net_id: int, oracle_id: int) -> dict[str, Any]:
    """A cache of results computed from these rows, to which callers add; emptied when the store changes."""
    return _cache(connection, (net_id, oracle_id)).facts


def _cache(connection: StoreConnection, pair: tuple[int, int]) -> _Cache:
    """The cache of this pair; a new one if the store has changed or the last one was of another pair."""
    # The first changes when another connection commits, the second when this one writes.
    state = (int(connection.execute("PRAGMA data_version").fetchone()[0]), connection.total_changes)
    cache: _Cache | None = connection.cache
    if cache is None or cache.state != state or cache.pair != pair:
        connection.cache = cache = _Cache(state, pair, {}, {})
    return cache


class _ColumnReader:
    """Reads columns of the scored positions: those with a value of the net and one of the oracle, by position_id.

    Each table is read whole, in the order of its key, and reduced to these positions. Their ids are the arguments
    `ids` [n].
    """

    def __init__(self, connection: StoreConnection, pair: Mapping[str, int], expanded: Expanded, cut: bool) -> None:
        self._connection, self._pair = connection, pair
        self._only_sampled, self._with_cut = expanded == "no", cut
        rungs = stored_rungs(connection, pair["oracle"]) if cut else ()
        self._counts = value_condition(expanded, "v.position_id", rungs=rungs)
        self._deep_rows = DEEP_ROWS.format(counts=self._counts)

    def read(self, names: Iterable[str], ids: Ids | None) -> Iterator[tuple[str, NDArray[Any]]]:
        """The columns `names` by name. Without `ids` it determines the ids and yields them first, as position_id."""
        wanted = {*names}
        values = [
            self._table(cells, wanted, rows)
            for cells, rows in ((_NET, NET_ROWS), (_DEEP, self._deep_rows))
            if ids is None or wanted & cells.keys()
        ]
        if ids is None:
            (net_ids, _), (deep_ids, _) = values
            ids = deep_ids[_common(net_ids, deep_ids)[1]]
            yield "position_id", ids
        for table in values:
            yield from self._reduced(*table, ids)
        if wanted & {*_WORDS, *CODES}:
            yield from self._words(wanted, ids)
        if KIND in wanted:
            yield KIND, self._kinds(ids)
        if "key" in wanted:
            yield "key", self._keys(ids)
        if wanted & {*_POSITION, *_GAME, GAME_KEY}:
            yield from self._of_positions(wanted, ids)
        if "weight" in wanted:
            yield "weight", self._weights(ids)
        if wanted & {*OF_EXPANDED}:
            yield from zip(OF_EXPANDED, self._roots(ids), strict=True)

    def _table(
        self, cells: Mapping[str, str], wanted: Container[str], rows: str, key: str = "position_id"
    ) -> tuple[Ids, dict[str, Floats]]:
        """The `key` of all `rows` of a table, ascending, and the `wanted` columns of `cells`, by name."""
        names = [name for name in cells if name in wanted]
        query = f"SELECT {', '.join([key, *(cells[name] for name in names)])} {rows}"
        numbers, *columns = self._connection.numbers(query, self._pair)
        self._connection.check_ascending(numbers)
        return numbers.astype(np.int64), dict(zip(names, columns, strict=True))

    def _reduced(self, numbers: Ids, columns: Mapping[str, Floats], ids: Ids) -> Iterator[tuple[str, NDArray[Any]]]:
        """Columns of a `_table` with the keys `numbers`, reduced to the scored positions, which are among them."""
        places = None if len(numbers) == len(ids) else _rows_of(self._connection, numbers, ids)
        for name, column in columns.items():
            cells = column if places is None else column[places]
            yield name, cells.astype(np.int64) if name in _WHOLE else cells.astype(np.float64)

    def _words(self, wanted: Container[str], ids: Ids) -> Iterator[tuple[str, NDArray[Any]]]:
        """Side to move and phase: both as codes, and the `wanted` ones as words."""
        side, phase = np.full(len(ids), -1, np.int8), np.full(len(ids), -1, np.int8)
        for (i, side_word), (k, phase_word) in product(enumerate(_SIDES), enumerate(PHASES)):
            parameters = {"side": side_word, "phase": phase_word}
            (with_both,) = self._connection.numbers(WORD_ROWS, parameters, np.int64)
            rows = _common(ids, with_both)[0]
            side[rows], phase[rows] = i, k
        for name, code_name, words, codes in zip(_WORDS, CODES, (_SIDES, PHASES), (side, phase), strict=True):
            yield code_name, codes
            if name in wanted:
                yield name, np.array([*words, None], object)[codes]

    def _kinds(self, ids: Ids) -> NDArray[np.object_]:
        kinds = np.full(len(ids), GAME, object)
        if not self._only_sampled:  # otherwise all rows are of games
            rows = self._connection.execute(KIND_ROWS).fetchall()
            places, of_rows = _common(ids, np.array([row[0] for row in rows], np.int64))
            kinds[places] = np.array([row[1] for row in rows], object)[of_rows]
        return kinds

    def _keys(self, ids: Ids) -> NDArray[np.uint64]:
        numbers, keys = self._connection.numbers(f"SELECT id, key {POSITION_ROWS}", {}, np.int64)
        of_rows: NDArray[np.uint64] = keys[_rows_of(self._connection, numbers, ids)].view(np.uint64)
        return of_rows

    def _of_positions(self, wanted: Set[str], ids: Ids) -> Iterator[tuple[str, NDArray[Any]]]:
        """The `wanted` columns of the tables of positions and games."""
        of_games = wanted & {*_GAME, GAME_KEY}
        table = self._table(_POSITION, {*wanted, "game_id"} if of_games else wanted, POSITION_ROWS, "id")
        for name, column in self._reduced(*table, ids):
            yield name, column != 0 if name == "history_known" else column
            if name == "game_id" and of_games:
                yield from self._of_games(column, of_games)

    def _of_games(self, game_ids: Ids, wanted: Container[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        rows = self._connection.execute(GAMES).fetchall()
        ids, numbers, digests = (np.array([row[i] for row in rows], np.int64) for i in (0, 1, 3))
        order = np.argsort(ids)
        places = order[_rows_of(self._connection, ids[order], game_ids)]
        sources = np.array([row[2] for row in rows], object)
        if "game" in wanted:
            yield "game", numbers[places]
        if "source" in wanted:
            yield "source", sources[places]
        if GAME_KEY in wanted:
            yield GAME_KEY, game_keys(sources.tolist(), numbers, digests)[places]

    def _weights(self, ids: Ids) -> Floats:
        """How many positions each row stands for (`selection_weights`); a position reached from a candidate: 1."""
        weights = selection_weights(self._connection, ids, self._pair["oracle"], self._pair["net"])
        if self._with_cut:
            deep_ids, deep = self._table(_DEEP, OF_CUT, self._deep_rows)
            weights[_common(ids, deep_ids[~np.isnan(deep["rung"])])[0]] = 0
        if not self._only_sampled:
            weights[_common(ids, self._reached()[0])[0]] = 1
        return weights

    def _roots(self, ids: Ids) -> tuple[NDArray[Any], ...]:
        """`OF_EXPANDED`; a sampled position is its own root."""
        root, step, inferred = ids.copy(), np.full(len(ids), None, object), np.zeros(len(ids), np.bool_)
        reached, rows = self._reached()
        places, of_rows = _common(ids, reached)
        for place, i in zip(places.tolist(), of_rows.tolist(), strict=True):
            _, is_inferred, root_id, step[place] = rows[i]
            inferred[place] = bool(is_inferred)
            root[place] = root_id or root[place]
        return root, step, inferred

    def _reached(self) -> tuple[Ids, list[tuple[Any, ...]]]:
        """The ids of positions whose value comes from expanding candidates, ascending, and their rows of `_ROOTS`."""
        query = _ROOTS.format(counts=self._counts)
        rows = [] if self._only_sampled else self._connection.execute(query, self._pair).fetchall()
        return np.array([row[0] for row in rows], np.int64), rows


def _rows_of(connection: StoreConnection, numbers: Ids, ids: Ids) -> NDArray[np.intp]:
    """[n] the indices of `ids` in the ascending `numbers`. Raises ValueRepairError if one is missing."""
    places = np.searchsorted(numbers, ids)
    if len(ids) and (not len(numbers) or (numbers[np.minimum(places, len(numbers) - 1)] != ids).any()):
        raise connection.lost()
    return places


_ODD = 0x9E3779B97F4A7C1  # a factor that puts neighbouring numbers far apart


def game_keys(sources: Sequence[str], numbers: Ids, digests: Ids) -> Ids:
    """int64[n] a key of each game, made of its archive's name without the folder, its number there and its digest."""
    of_source = {source: _digest(PurePath(source).name) for source in set(sources)}
    # Wraps around, as sums of int64 arrays do.
    keys: Ids = digests + numbers * _ODD + np.array([of_source[source] for source in sources], np.int64)
    return keys


def games_of(connection: StoreConnection, ids: Ids | Sequence[int]) -> Ids:
    """int64[n] `GAME_KEY` of a few positions."""
    query = """
        SELECT g.source, g.number, g.digest FROM json_each(:ids) j JOIN positions p ON p.id = j.value
        JOIN games g ON g.id = p.game_id
    """
    games = connection.rows_of(np.asarray(ids, np.int64).tolist(), query)
    numbers, digests = (np.array([game[i] for game in games], np.int64) for i in (1, 2))
    return game_keys([game[0] for game in games], numbers, digests)


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


# Jumps from each stage to the next in the index; DISTINCT would read every row.
STAGES = """
WITH RECURSIVE stages(stage) AS (
    SELECT min(stage) FROM deep_values WHERE oracle_id = :oracle
    UNION ALL
    SELECT (SELECT min(v.stage) FROM deep_values v WHERE v.oracle_id = :oracle AND v.stage > stages.stage)
    FROM stages WHERE stage IS NOT NULL
)
SELECT stage AS "deep_values.stage" FROM stages WHERE stage IS NOT NULL
"""


def stored_rungs(connection: StoreConnection, oracle_id: int) -> tuple[int, ...]:
    """The nodes of each of an oracle's rungs below the full search that the store has results of, ascending."""
    stages = [stage for (stage,) in connection.execute(STAGES, {"oracle": oracle_id})]
    return tuple(sorted(int(stage) for stage in stages if stage.isdecimal()))


# The cell of each column in a join of net values (n), deep values (v), positions (p) and games (g).
CELLS = {
    **{name: f"n.{cell}" for name, cell in _NET.items()},
    **{name: f"v.{cell}" for name, cell in _DEEP.items()},
    **{name: f"p.{cell}" for name, cell in _POSITION.items()},
    "key": "p.key",
    "side": "p.side",
    KIND: "p.kind",
    "phase": "p.phase",
    "game": "g.number",
    "source": "g.source",
}


def typed(name: str, cells: NDArray[np.object_]) -> NDArray[Any]:
    """Cells [n] as SQLite returns them, as an array of the column's type."""
    if name == "key":
        return unsigned(cells.tolist())
    if name in (*_WORDS, KIND, "source"):
        return cells
    return cells.astype(np.int64 if name in _WHOLE else np.bool_ if name == "history_known" else np.float64)


def _common(ids: Ids, others: Ids) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indices, in each array, of the ids that are in both."""
    _, of_some, of_others = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
    return of_some, of_others
