"""The scored positions of a store as columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess import values
from valuerepair.chess.origins import GAME
from valuerepair.question import QFrom
from valuerepair.store.pairs import Pair, judge_of
from valuerepair.store.store import Store

WHOLE = {"position_id", "ply", "pieces", "game", "game_id", "nodes", "depth", "time_ms", "side_code", "phase_code"}
FLAGS = ("history_known", "screened")
KEYS = ("key", "game_key")  # of 64 bits, which a float cannot hold
WORDS = ("kind", "part")
_WDL = ("deep_w", "deep_d", "deep_l")
_OF_Q = ("net_q", "cp", "mate", "deep_own_q")
# What most commands ask for is read at once: finding a row takes longer than reading a number.
_USUAL = (
    "position_id", *_OF_Q, "weight", "game_id", "side_code", "phase_code", "was_played", "nodes", "depth", "time_ms",
)  # fmt: skip
_SQL = {"net_best": "policy", "screened": "judge_id <> :judge", "was_played": "played IS NOT NULL"}
_FOR_WHITE = "CASE result WHEN '1-0' THEN 1.0 WHEN '0-1' THEN -1.0 WHEN '1/2-1/2' THEN 0.0 END"


def columns(
    store: Store, pair: Pair, names: Iterable[str], *, beside: bool = False, screened: bool = False
) -> dict[str, NDArray[Any]]:
    """Columns [n] by name, and position_id: a row for each position with both values, by position_id.

    `names` are some of `COLUMNS` and `MORE` that are numbers, kind or part; NaN for what is missing. Without `beside`
    only positions of games; with `screened` also those with only the value of the short search. The arrays are
    read-only, as they are returned again until the store changes.
    """
    names = ("position_id", *names)
    with store.snapshot():
        screened = screened and judge_of(store, pair[1]).short_id is not None
        state = (store.connection.execute("PRAGMA data_version").fetchone()[0], store.connection.total_changes)
        if store.cache.get("state") != state:
            store.cache = {"state": state}
        cached = store.cache.setdefault((pair, screened), {})
        missing = [name for name in dict.fromkeys((*names, "kind")) if name not in cached]
        if plain := [name for name in missing if name not in (*KEYS, *WORDS)]:
            plain += [name for name in _USUAL if name not in cached and name not in plain]
            cells = _numbers(store, pair, plain, np.float64, screened).reshape(-1, len(plain)).T
            for name, column in zip(plain, cells, strict=True):
                cached[name] = column.astype(np.int64 if name in WHOLE else bool if name in FLAGS else np.float64)
        for name in missing:
            if name in KEYS:
                cached[name] = _numbers(store, pair, [name], np.int64, screened).view(np.uint64)
            elif name in WORDS:
                cached[name] = _words(store, name, cached["position_id"])
            cached[name].flags.writeable = False
        if "of_games" not in cached:
            cached["of_games"] = cached["kind"] == GAME
    of_games = cached["of_games"]
    return {name: cached[name] if beside or of_games.all() else cached[name][of_games] for name in names}


def _numbers(store: Store, pair: Pair, names: Sequence[str], dtype: Any, screened: bool) -> NDArray[Any]:
    cells = ", ".join(cell_of(name, screened) for name in names)
    rows = store.connection.execute(f"SELECT {cells} {rows_of(True, screened)}", parameters_of(store, pair))
    return np.fromiter(chain.from_iterable(rows), dtype)


def cell_of(name: str, screened: bool) -> str:
    """A column as SQL."""
    if name == "weight" and screened:  # audits stand for them
        return "CASE WHEN judge_id = :judge THEN weight ELSE 0 END"
    return _SQL.get(name, name)


def rows_of(beside: bool, screened: bool) -> str:
    """The rows of the view that count, by position, as SQL."""
    judge = "judge_id = :judge"
    if screened:
        judge = f"""
            ({judge} OR judge_id = :short AND NOT EXISTS (SELECT 1 FROM deep_values f
            WHERE f.judge_id = :judge AND f.position_id = scored.position_id AND f.failed IS NULL))"""
    only = "" if beside else "AND kind = 'game'"
    return f"FROM scored WHERE net_id = :net AND {judge} {only} ORDER BY position_id"


def parameters_of(store: Store, pair: Pair) -> dict[str, Any]:
    """What `rows_of` leaves open."""
    return {"net": pair[0], "judge": pair[1], "short": judge_of(store, pair[1]).short_id}


def _words(store: Store, name: str, ids: Ids) -> NDArray[np.object_]:
    """Origin or part of each position; all but few are of games, and for training."""
    cell, usual = ("origin", GAME) if name == "kind" else ("part", "train")
    words = np.full(len(ids), usual, object)
    rows = store.connection.execute(f"SELECT id, {cell} FROM positions WHERE {cell} <> '{usual}'").fetchall()
    places = np.array([row[0] for row in rows], np.int64)
    _, of_ids, of_rows = np.intersect1d(ids, places, assume_unique=True, return_indices=True)
    words[of_ids] = np.array([row[1] for row in rows], object)[of_rows]
    return words


def results(store: Store, pair: Pair) -> Floats:
    """float64[n]: the results of the games of the rows of `columns`, 1, 0 or -1 for the side to move; NaN where it is
    unknown, and for positions in which no move was played."""
    read = columns(store, pair, ("game_id", "side_code", "was_played"))
    cells = store.connection.execute(f"SELECT id, {_FOR_WHITE} FROM games ORDER BY id")
    ids, for_white = np.array(cells.fetchall(), np.float64).reshape(-1, 2).T
    z = for_white[np.searchsorted(ids, read["game_id"])] * np.where(read["side_code"] == 0, 1, -1)
    return np.where(read["was_played"] == 1, z, np.nan)


def both_q(
    store: Store, pair: Pair, alpha: float, q_from: QFrom, *, beside: bool = False, screened: bool = False
) -> tuple[Floats, Floats]:
    """Net Q and judge Q, float64[n] each, of the rows of `columns`, from the side to move."""
    read = columns(store, pair, (*_OF_Q, *(_WDL if q_from == "wdl" else ())), beside=beside, screened=screened)
    unread = np.full(len(read["cp"]), np.nan)
    scores = [read["cp"], read["mate"], *(read.get(name, unread) for name in _WDL), read["deep_own_q"]]
    return read["net_q"], values.deep_q(np.stack(scores, 1), alpha, q_from)
