"""The numbers of scored positions, a column at a time.

Each table is walked once, in the order of its key, and put beside the others here: SQLite would look every position up
in every other table, and a million rows of Python objects would take ten times the memory of the arrays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import values
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import PHASES
from valuerepair.question import Expanded, QFrom
from valuerepair.store.connection import StoreConnection
from valuerepair.store.rows import EXPANDED, INFERRED, is_value, unsigned

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

NET_ROWS = "FROM net_values WHERE net_id = :net ORDER BY position_id"
# A value counts that `is_value` says.
DEEP_ROWS = "FROM deep_values v WHERE {counts} ORDER BY position_id"
POSITION_ROWS = "FROM positions ORDER BY id"
# By way of the index on both, whose entries are a few bytes: a position's row holds its whole history.
WORD_ROWS = "SELECT id FROM positions WHERE phase = :phase AND side = :side ORDER BY id"
KIND_ROWS = "SELECT id, kind FROM positions WHERE kind IS NOT 'game'"
GAMES = "SELECT id, number, source, digest FROM games"
CUTS = """
SELECT position_id, searched, probability FROM screened
WHERE net_id = :net AND oracle_id = :oracle AND cut_at IS NOT NULL ORDER BY position_id
"""
# Column -> what it is in its table.
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
# The same as numbers, int8: of "wb" and of `PHASES`, -1 for neither. A million words take pandas long to look at.
CODES = ("side_code", "phase_code")
_GAME = ("game", "source")
# How a position came about, one of `chess.origins.KINDS`; None of one that was only reached from candidates.
KIND = "kind"
# A whole number that a game has in whatever store it is: `calibration.fold_of` goes by it.
GAME_KEY = "game_key"
_SIDES = ("w", "b")
_WHOLE = frozenset({"position_id", "ply", "pieces", "game", "game_id", "nodes", "depth", "time_ms"})
# What net Q and deep Q are made of, beside W/D/L.
OF_Q = ("net_q", "cp", "mate", "deep_own_q")
# Of positions that a ladder cut: the nodes of their last rung, NaN of those that were searched in full.
OF_CUT = ("rung",)
_OF_SEARCH = (name for name in _DEEP if name not in OF_CUT)
NUMBERS = ("position_id", "key", *_POSITION, *_GAME, *_NET, *_OF_SEARCH, "weight", *_WORDS, KIND)
# Of positions reached from candidates: the sampled one that it began with, the step, whether the value is inferred.
OF_EXPANDED = ("root_id", "step", "inferred")
# Where several nets reached a position, this one's way counts, else that of the first. SQLite takes bare columns from
# the row of the MIN.
_ROOTS = f"""
WITH reached AS MATERIALIZED (
    SELECT position_id, root_id, step, MIN((net_id <> :net) * 1000000000 + net_id) FROM expanded
    WHERE oracle_id = :oracle GROUP BY position_id)
SELECT v.position_id, v.stage = '{INFERRED}', e.root_id AS "expanded.root_id", e.step AS "expanded.step"
FROM deep_values v
LEFT JOIN reached e ON e.position_id = v.position_id
WHERE {{counts}} AND v.stage IN ('{EXPANDED}', '{INFERRED}') ORDER BY v.position_id
"""


class _Kept(NamedTuple):
    """Columns by name of the rows scored by a net and an oracle, and the state of the store that they are of.

    The columns are by the `Question.expanded` that they were read for, and whether with what a ladder cut.
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
    """Columns by name, and position_id; [n] each, a row for each position scored by both, by position_id.

    `names` are some of `NUMBERS`, `CODES`, `OF_EXPANDED`, `OF_CUT` and `GAME_KEY`: those of `queries.frame`, with
    `deep_own_q`, the Q that an engine gives itself. Whole numbers that may be missing are floats, NaN for nothing;
    side, phase, kind, source and step are objects. `expanded` as in `Question`, `cut` as in `queries.frame`.
    The arrays are not to be written to: they may be given again, as long as nothing in the store has changed.
    """
    kept = _kept(connection, (net_id, oracle_id)).columns.setdefault((expanded, cut), {})
    wanted = [name for name in names if name not in kept]
    if "position_id" not in kept:
        wanted += [name for name in ("net_q",) if name not in wanted]
    if wanted:
        reader = _Reader(connection, {"net": net_id, "oracle": oracle_id}, kept, expanded, cut)
        for name, column in reader.read(wanted):
            column.flags.writeable = False
            kept[name] = column
    return MappingProxyType(kept)


_WDL = ("deep_w", "deep_d", "deep_l")


def shares(q_from: QFrom) -> tuple[str, ...]:
    """The columns of W/D/L that deep Q is made of, if it is."""
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
    """net Q and deep Q [n] of the rows of `columns`."""
    wdl = shares(q_from)
    found = columns(connection, net_id, oracle_id, (*OF_Q, *wdl), expanded, cut)
    unread = np.full(len(found["cp"]), np.nan)
    scores = [found["cp"], found["mate"], *(found[name] if wdl else unread for name in _WDL), found["deep_own_q"]]
    return found["net_q"], values.deep_q(np.stack(scores, 1), alpha, q_from)


def facts(connection: StoreConnection, net_id: int, oracle_id: int) -> dict[str, Any]:
    """What was found out about these rows, to be added to; empty again once the store changes."""
    return _kept(connection, (net_id, oracle_id)).facts


def _kept(connection: StoreConnection, pair: tuple[int, int]) -> _Kept:
    """What is known already and still true."""
    # The first changes when another connection commits, the second when this one writes.
    state = (int(connection.execute("PRAGMA data_version").fetchone()[0]), connection.total_changes)
    kept: _Kept | None = connection.kept
    if kept is None or kept.state != state or kept.pair != pair:
        connection.kept = kept = _Kept(state, pair, {}, {})
    return kept


class _Reader:
    """Reads columns of the rows that both tables of values have; `known` are those that were read before."""

    def __init__(
        self,
        connection: StoreConnection,
        asked: Mapping[str, int],
        known: Mapping[str, NDArray[Any]],
        expanded: Expanded,
        cut: bool,
    ) -> None:
        self._connection, self._asked = connection, asked
        self._only_sampled, self._with_cut = expanded == "no", cut
        self._counts = is_value(
            expanded, "v.position_id", rungs=stored_rungs(connection, asked["oracle"]) if cut else ()
        )
        self._deep_rows = DEEP_ROWS.format(counts=self._counts)
        self._ids: Ids | None = known.get("position_id")

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        net, deep = ([name for name in names if name in of] for of in (_NET, _DEEP))
        if self._ids is None:
            yield from self._both(net, deep)
        else:
            for of, chosen, rows in ((_NET, net, NET_ROWS), (_DEEP, deep, self._deep_rows)):
                if chosen:
                    ids, found = self._table("position_id", of, chosen, rows)
                    yield from self._at(ids, found)
        assert self._ids is not None
        yield from self._of_positions(names)
        if "weight" in names:
            yield "weight", self._weights(self._ids)
        if set(names) & set(OF_EXPANDED):
            yield from zip(OF_EXPANDED, self._roots(self._ids), strict=True)

    def _both(self, net: Sequence[str], deep: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        """The rows that both have, and their columns."""
        net_ids, of_net = self._table("position_id", _NET, net, NET_ROWS)
        deep_ids, of_deep = self._table("position_id", _DEEP, deep, self._deep_rows)
        self._ids = deep_ids[_places(net_ids, deep_ids)[1]]
        yield "position_id", self._ids
        yield from self._at(net_ids, of_net)
        yield from self._at(deep_ids, of_deep)

    def _at(self, ids: Ids, found: Mapping[str, Floats]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Columns of the rows `ids`, brought into the order of the scored ones, which are all among them."""
        assert self._ids is not None
        places = None if len(ids) == len(self._ids) else _found(self._connection, ids, self._ids)
        for name, column in found.items():
            cells = column if places is None else column[places]
            yield name, cells.astype(np.int64) if name in _WHOLE else cells.astype(np.float64)

    def _of_positions(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        assert self._ids is not None
        if set(names) & {*_WORDS, *CODES}:
            for name, code_name, words, code in zip(
                _WORDS, CODES, (_SIDES, PHASES), self._codes(self._ids), strict=True
            ):
                yield code_name, code
                if set(names) & set(_WORDS):
                    yield name, np.array([*words, None], object)[code]
        if KIND in names:
            yield KIND, self._kinds(self._ids)
        if "key" in names:
            ids, keys = self._connection.numbers(f"SELECT id, key {POSITION_ROWS}", {}, 2, np.int64)
            yield "key", keys[_found(self._connection, ids, self._ids)].view(np.uint64)
        wanted = {name for name in names if name in _POSITION}
        of_games = [name for name in names if name in (*_GAME, GAME_KEY)]
        wanted |= {"game_id"} if of_games else set()
        if not wanted:
            return
        ids, cells = self._table("id", _POSITION, sorted(wanted), POSITION_ROWS)
        for name, column in self._at(ids, cells):
            yield name, column != 0 if name == "history_known" else column
            if name == "game_id" and of_games:
                yield from self._of_games(column, of_games)

    def _codes(self, ids: Ids) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Side to move and phase."""
        side, phase = np.full(len(ids), -1, np.int8), np.full(len(ids), -1, np.int8)
        for (i, one), (k, other) in product(enumerate(_SIDES), enumerate(PHASES)):
            (found,) = self._connection.numbers(WORD_ROWS, {"side": one, "phase": other}, 1, np.int64)
            rows = _places(ids, found)[0]
            side[rows], phase[rows] = i, k
        return side, phase

    def _kinds(self, ids: Ids) -> NDArray[np.object_]:
        found = np.full(len(ids), GAME, object)
        if not self._only_sampled:  # these all stood in games
            rows = self._connection.execute(KIND_ROWS).fetchall()
            places, there = _places(ids, np.array([row[0] for row in rows], np.int64))
            found[places] = np.array([row[1] for row in rows], object)[there]
        return found

    def _of_games(self, game_ids: Ids, names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        rows = self._connection.execute(GAMES).fetchall()
        ids, numbers, digests = (np.array([row[i] for row in rows], np.int64) for i in (0, 1, 3))
        order = np.argsort(ids)
        places = order[_found(self._connection, ids[order], game_ids)]
        sources = np.empty(len(rows), object)
        sources[:] = [row[2] for row in rows]
        if "game" in names:
            yield "game", numbers[places]
        if "source" in names:
            yield "source", sources[places]
        if GAME_KEY in names:
            yield GAME_KEY, game_keys(sources.tolist(), numbers, digests)[places]

    def _weights(self, ids: Ids) -> Floats:
        """How many positions each row stands for, see `queries.frame`.

        One that the ladder would have cut but had searched all the same stands for all like it; together for all that
        it cut or would have cut. Those reached from candidates stand for themselves.
        """
        weights = np.ones(len(ids))
        numbers, found = self._table("position_id", _CUT, tuple(_CUT), CUTS)
        searched, probability = found["searched"] != 0, found["probability"]
        standing = float((searched / probability).sum()) or 1.0  # where none was searched, none stands for any
        each = np.where(searched, len(numbers) / standing / probability, 0.0)
        of_cuts, of_rows = _places(numbers, ids)
        weights[of_rows] = each[of_cuts]
        if self._with_cut:
            cut_ids, found = self._table("position_id", _DEEP, ["rung"], self._deep_rows)
            weights[_places(ids, cut_ids[~np.isnan(found["rung"])])[0]] = 0
        if not self._only_sampled:
            weights[_places(ids, self._reached()[0])[0]] = 1
        return weights

    def _reached(self) -> tuple[Ids, list[tuple[Any, ...]]]:
        """The positions that count by a value that is no sampled one's, ascending; and their rows of `_ROOTS`."""
        rows = [] if self._only_sampled else self._connection.execute(_ROOTS.format(counts=self._counts), self._asked)
        found = list(rows)
        return np.array([row[0] for row in found], np.int64), found

    def _roots(self, ids: Ids) -> tuple[NDArray[Any], ...]:
        """`OF_EXPANDED`; a sampled position is its own root."""
        root, step, inferred = ids.copy(), np.full(len(ids), None, object), np.zeros(len(ids), np.bool_)
        reached, rows = self._reached()
        places, there = _places(ids, reached)
        for place, i in zip(places.tolist(), there.tolist(), strict=True):
            inferred[place], step[place] = bool(rows[i][1]), rows[i][3]
            root[place] = rows[i][2] or root[place]
        return root, step, inferred

    def _table(
        self, number: str, of: Mapping[str, str], names: Sequence[str], rows: str
    ) -> tuple[Ids, dict[str, Floats]]:
        """Positions' numbers, ascending, and columns of a table, or of what `rows` selects."""
        query = rows if rows is CUTS else f"SELECT {', '.join([number, *(of[name] for name in names)])} {rows}"
        ids, *cells = self._connection.numbers(query, self._asked, 1 + len(names))
        numbers = ids.astype(np.int64)
        self._connection.check_ascending(numbers)
        return numbers, dict(zip(names, cells, strict=True))


def _found(connection: StoreConnection, numbers: Ids, wanted: Ids) -> NDArray[np.intp]:
    """[n] where the `wanted` numbers stand among `numbers`, ascending. Raises ValueRepairError where one does not."""
    places = np.searchsorted(numbers, wanted)
    if len(wanted) and (not len(numbers) or (numbers[np.minimum(places, len(numbers) - 1)] != wanted).any()):
        raise connection.lost()
    return places


def game_keys(sources: Sequence[str], numbers: Ids, digests: Ids) -> Ids:
    """[n] a whole number for each game, by its archive's name without the folder, its place there and its headers."""
    of_source = {source: _digest(PurePath(source).name) for source in set(sources)}
    # Wraps around, as sums of int64 arrays do.
    keys: Ids = digests + numbers * _ODD + np.array([of_source[source] for source in sources], np.int64)
    return keys


def game_ids(connection: StoreConnection, ids: Ids) -> Ids:
    """[n] the numbers of the games of positions."""
    query = "SELECT p.game_id FROM json_each(:ids) j JOIN positions p ON p.id = j.value ORDER BY j.key"
    found: Ids = connection.numbers(query, {"ids": json.dumps(ids.tolist())}, 1, np.int64)[0]
    return found


def games_of(connection: StoreConnection, ids: Ids | Sequence[int]) -> Ids:
    """[n] `GAME_KEY` of a few positions."""
    query = """
        SELECT g.source, g.number, g.digest FROM json_each(:ids) j JOIN positions p ON p.id = j.value
        JOIN games g ON g.id = p.game_id
    """
    found = connection.rows_of(np.asarray(ids, np.int64).tolist(), query)
    numbers, digests = (np.array([row[i] for row in found], np.int64) for i in (1, 2))
    return game_keys([row[0] for row in found], numbers, digests)


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


# From each stage to the next one: DISTINCT would look at every row.
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
    """The nodes of the rungs below the whole search that an oracle has results of."""
    stages = [stage for (stage,) in connection.execute(STAGES, {"oracle": oracle_id})]
    return tuple(sorted(int(stage) for stage in stages if stage.isdecimal()))


_ODD = 0x9E3779B97F4A7C1  # neighbouring numbers lie far apart
_CUT = {"searched": "searched", "probability": "probability"}
# Where a join has the cells of a column: of net values (n), deep values (v), positions (p) and games (g).
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
    """The column of cells [n] as SQLite gives them."""
    if name == "key":
        return unsigned(cells.tolist())
    if name in (*_WORDS, KIND, "source"):
        return cells
    return cells.astype(np.int64 if name in _WHOLE else np.bool_ if name == "history_known" else np.float64)


def _places(some: Ids, others: Ids) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the numbers that both have stand in each."""
    _, of_some, of_others = np.intersect1d(some, others, assume_unique=True, return_indices=True)
    return of_some, of_others
