"""Positions that were reached from candidates: how the store records them, their outcomes, and their families.

A family is the positions that were reached from one sampled candidate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess import values
from valuerepair.chess.origins import OriginGame
from valuerepair.chess.positions import encode_moves
from valuerepair.question import QFrom
from valuerepair.store.cells import beside_sum
from valuerepair.store.rows import (
    EXPANDED,
    FULL,
    GAME,
    INFERRED,
    PARENT,
    DeepResult,
    Run,
    signed,
    unsigned,
    value_condition,
)

if TYPE_CHECKING:
    from valuerepair.store.store import Store


class Reached(NamedTuple):
    """How a position was reached; the fields are the columns of the table ``expanded``."""

    position_id: int
    root_id: int
    parent_id: int
    step: str
    distance: int
    round: int
    drawn: bool


@dataclass(frozen=True, slots=True)
class ExpansionSource:
    """A misjudged position from which others are reached.

    `root_id` is the sampled candidate that it was reached from, or itself; its neighbours are `round` steps away from
    that candidate. `moves` lead to it from `start_fen`, `following` are the moves played after it, if known. `deep` is
    its deep value, `deep_q` the same as Q, both for its side to move. `searched` is false for a value inferred from
    another position's line. `in_game`: it occurred in a game; otherwise only the beginning of `moves` was played.
    """

    position_id: int
    root_id: int
    round: int
    start_fen: str
    moves: Moves
    following: Moves
    ply: int
    history_known: bool
    game: OriginGame
    deep: DeepResult
    deep_q: float
    searched: bool
    in_game: bool


class NeighbourOutcome(NamedTuple):
    """The outcome of a position that was due to be searched.

    `deep` is its score (cp, mate, win, draw, loss, q), None if it was `cut` or could not be searched (`failed` is the
    reason). `run_id` is the run that reached it, None for the current one.
    """

    deep: tuple[float | None, ...] | None
    nodes: int
    cut: bool = False
    failed: str | None = None
    run_id: int | None = None


def add_reached(store: Store, net_id: int, oracle_id: int, rows: Iterable[Reached], run: Run) -> None:
    """Records how positions were reached; existing rows do not change."""
    with store.writing() as connection:
        connection.executemany(
            "INSERT OR IGNORE INTO expanded (net_id, oracle_id, position_id, root_id, parent_id, step, distance, "
            "round, drawn, nodes, searched, probability, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 1, ?)",
            ((net_id, oracle_id, *row, run.id) for row in rows),
        )


def add_search(store: Store, net_id: int, oracle_id: int, position_id: int, nodes: int) -> None:
    """Records that a position was searched in full, without a ladder."""
    with store.writing() as connection:
        connection.execute(
            "UPDATE expanded SET nodes = ?, searched = 1 WHERE net_id = ? AND oracle_id = ? AND position_id = ?",
            (nodes, net_id, oracle_id, position_id),
        )


# Joined with nets and oracles so that SQLite can use the primary key of the table.
MET_BEFORE = """
SELECT p.key, e.step FROM positions p
LEFT JOIN expanded e ON e.net_id = :net AND e.oracle_id = :oracle AND e.position_id = p.id
WHERE p.key IN (SELECT value FROM json_each(:keys)) AND CASE WHEN e.run_id IS NULL
THEN NOT EXISTS (SELECT 1 FROM nets n CROSS JOIN oracles o CROSS JOIN expanded x
                 ON x.net_id = n.id AND x.oracle_id = o.id AND x.position_id = p.id)
ELSE e.step = 'line' AND e.run_id <> :run END
"""


def met_before(
    store: Store, net_id: int, oracle_id: int, keys: NDArray[np.uint64], run: Run
) -> tuple[set[int], set[int]]:
    """The board keys that came from an archive, and those that another run than `run` reached by a line."""
    parameters = {"net": net_id, "oracle": oracle_id, "keys": json.dumps(signed(keys)), "run": run.id}
    rows = store.connection.execute(MET_BEFORE, parameters).fetchall()
    archive = [key for key, step in rows if step is None]
    lines = [key for key, step in rows if step is not None]
    return set(unsigned(archive).tolist()), set(unsigned(lines).tolist())


def not_inferred(store: Store, oracle_id: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices in `ids` [n] of the positions that have no inferred value."""
    return _rows_without(store, f"deep_values WHERE oracle_id = ? AND stage = '{INFERRED}'", (oracle_id,), ids)


def not_reached(store: Store, net_id: int, oracle_id: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices in `ids` [n] of the positions that were not reached before, for this net and oracle."""
    return _rows_without(store, "expanded WHERE net_id = ? AND oracle_id = ?", (net_id, oracle_id), ids)


def _rows_without(store: Store, where: str, parameters: tuple[int, ...], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices in `ids` [n] of the positions without a row in `where`, a table with a condition."""
    query = f"""
        SELECT j.key FROM json_each(?) j
        WHERE NOT EXISTS (SELECT 1 FROM {where} AND position_id = j.value) ORDER BY j.key
    """
    rows = store.connection.execute(query, (json.dumps(ids.tolist()), *parameters)).fetchall()
    return np.array([row for (row,) in rows], np.int64)


def outcomes(store: Store, net_id: int, oracle_id: int, ids: Sequence[int]) -> dict[int, NeighbourOutcome]:
    """The outcomes of the positions `ids` that are finished, by position."""
    query = f"""
        SELECT j.value, v.position_id IS NOT NULL, v.cp, v.mate, v.w, v.d, v.l, v.q,
               coalesce(nullif(e.nodes, 0), v.nodes, 0) AS "deep_values.nodes", e.cut_at, f.reason, e.run_id
        FROM json_each(:ids) j
        LEFT JOIN expanded e ON e.net_id = :net AND e.oracle_id = :oracle AND e.position_id = j.value
        LEFT JOIN deep_values v ON {value_condition("searched", "j.value")} AND v.position_id = j.value
        LEFT JOIN failures f ON f.oracle_id = :oracle AND f.stage = '{EXPANDED}' AND f.position_id = j.value
    """
    parameters = {"net": net_id, "oracle": oracle_id, "ids": json.dumps([*ids])}
    by_position = {}
    for number, searched, *deep, nodes, cut_at, failed, run_id in store.connection.execute(query, parameters):
        if searched:
            by_position[number] = NeighbourOutcome(tuple(deep), nodes, run_id=run_id)
        elif failed is not None:
            by_position[number] = NeighbourOutcome(None, 0, failed=failed, run_id=run_id)
        elif cut_at is not None:
            by_position[number] = NeighbourOutcome(None, nodes, cut=True, run_id=run_id)
    return by_position


def done_before(store: Store, run: Run) -> int:
    """The number of positions that a run has searched so far, including those that were cut."""
    query = "SELECT count(*) FROM expanded WHERE run_id = ? AND (searched OR cut_at NOT NULL)"
    return int(store.connection.execute(query, (run.id,)).fetchone()[0])


def sources(
    store: Store, net_id: int, oracle_id: int, queued: Sequence[tuple[int, int, int]], alpha: float, q_from: QFrom
) -> list[ExpansionSource]:
    """The sources of these position_ids, root_ids and rounds; the positions have a deep value."""
    query = f"""
        SELECT p.start_fen, p.moves, p.played, p.ply, p.history_known,
               g.source, g.number, g.byte_offset, g.headers, g.result,
               v.stage, e.step, v.depth, v.seldepth, v.best_move, v.pv, v.cp, v.mate, v.w, v.d, v.l, v.q
        FROM json_each(:ids) j
        CROSS JOIN positions p ON p.id = j.value
        CROSS JOIN games g ON g.id = p.game_id
        CROSS JOIN deep_values v ON {value_condition("all", "p.id")} AND v.position_id = p.id
        LEFT JOIN expanded e ON e.net_id = :net AND e.oracle_id = :oracle AND e.position_id = p.id
    """
    rows = store.connection.rows_of([number for number, _, _ in queued], query, {"net": net_id, "oracle": oracle_id})
    deep_q = values.deep_q(np.array([row[-6:] for row in rows], np.float64).reshape(-1, 6), alpha, q_from)
    expansion_sources = []
    for numbers, row, q in zip(queued, rows, deep_q.tolist(), strict=True):
        start_fen, moves, played, ply, history_known, source, game, offset, headers, result = row[:10]
        stage, step, depth, seldepth, best, line, cp, mate, win, draw, loss, own_q = row[10:]
        wdl = None if win is None else (win, draw, loss)
        expansion_sources.append(
            ExpansionSource(
                *numbers,
                start_fen,
                np.frombuffer(moves, "<u2").astype(np.uint16),
                encode_moves([played] if played else []),
                ply,
                bool(history_known),
                OriginGame(source, game, offset, json.loads(headers), result),
                DeepResult(cp, mate, wdl, own_q, depth, seldepth, best_move=best, pv=tuple(line.split())),
                q,
                stage != INFERRED,
                stage == FULL or step in (None, PARENT, GAME),
            )
        )
    return expansion_sources


def games_by_archive(store: Store, ids: Sequence[int]) -> dict[str, dict[int, int]]:
    """The games of positions: archive by name, number of the game, and the digest that identifies it."""
    query = """
        SELECT DISTINCT g.source, g.number, g.digest FROM json_each(?) j
        CROSS JOIN positions p ON p.id = j.value CROSS JOIN games g ON g.id = p.game_id ORDER BY g.source, g.number
    """
    by_archive: dict[str, dict[int, int]] = {}
    for source, number, digest in store.connection.execute(query, (json.dumps([*ids]),)):
        by_archive.setdefault(source, {})[number] = digest
    return by_archive


def sampled_nodes(store: Store, net_id: int, oracle_id: int) -> int:
    """The nodes spent on sampled positions, including those that a ladder cut."""
    screened = f"""
        SELECT coalesce(sum(nodes), 0), {beside_sum("nodes", "screened.nodes")} FROM screened
        WHERE net_id = :net AND oracle_id = :oracle
    """
    unscreened = f"""
        SELECT coalesce(sum(v.nodes), 0), {beside_sum("v.nodes", "deep_values.nodes")} FROM deep_values v
        WHERE v.oracle_id = :oracle AND v.stage = '{FULL}' AND NOT EXISTS (
            SELECT 1 FROM screened c
            WHERE c.net_id = :net AND c.oracle_id = :oracle AND c.position_id = v.position_id)
    """
    pair = {"net": net_id, "oracle": oracle_id}
    return sum(int(store.connection.execute(query, pair).fetchone()[0]) for query in (screened, unscreened))
