"""The screening ladder in the store: screens, and how far each position came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.store.columns import games_of, stored_rungs
from valuerepair.store.rows import EXPANDED, FULL, Run, now

if TYPE_CHECKING:
    from valuerepair.store.store import Store


@dataclass(frozen=True, slots=True)
class Passage:
    """A position's way up the ladder; the fields are the columns of the table ``screened``.

    With a `cut_at` it left the ladder there: it was audited if it was `searched`, with this `probability`, and cut
    otherwise (`store.selection.audit_weights`). The probability of others is 1.
    """

    position_id: int
    screen_id: int | None
    cut_at: int | None
    chance: float | None
    nodes: int
    searched: bool
    probability: float


class Population(NamedTuple):
    """The positions that a ladder is for: the table of their passages, and the stage of their full searches."""

    table: str
    stage: str


SAMPLED = Population("screened", FULL)
REACHED = Population("expanded", EXPANDED)  # from candidates


class ScreenFacts(NamedTuple):
    """A stored screen: what it was fitted for, and its model as JSON."""

    id: int
    threshold: float
    alpha: float
    alpha_given: bool
    q_from: str
    recall: float
    model: str
    fitted: str


def add_screen(store: Store, net_id: int, oracle_id: int, facts: ScreenFacts, population: Population = SAMPLED) -> int:
    """Records a screen and returns its id; the `id` of `facts` is not used."""
    names = "net_id, oracle_id, threshold, alpha, alpha_given, q_from, recall, model, fitted, expanded"
    with store.writing() as connection:
        cursor = connection.execute(
            f"INSERT INTO screens ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (net_id, oracle_id, *facts[1:7], now(), population is REACHED),
        )
        return int(cursor.lastrowid or 0)


def screens(store: Store, net_id: int, oracle_id: int, population: Population = SAMPLED) -> list[ScreenFacts]:
    """All screens of a net and an oracle for this population, the newest first."""
    query = """
        SELECT id, threshold, alpha, alpha_given, q_from, recall, model, fitted FROM screens
        WHERE net_id = ? AND oracle_id = ? AND expanded = ? ORDER BY id DESC
    """
    parameters = net_id, oracle_id, population is REACHED
    return [
        ScreenFacts(number, threshold, alpha, bool(alpha_given), *facts)
        for number, threshold, alpha, alpha_given, *facts in store.connection.execute(query, parameters)
    ]


_OF_PASSAGE = "screen_id, cut_at, chance, nodes, searched, probability, run_id"


def add_passage(
    store: Store, net_id: int, oracle_id: int, passage: Passage, run: Run, population: Population = SAMPLED
) -> None:
    """Records a position's way up the ladder. A position reached from a candidate has a row already."""
    position_id, *way = astuple(passage)
    with store.writing() as connection:
        if population is REACHED:
            connection.execute(
                f"UPDATE expanded SET ({_OF_PASSAGE}) = (?, ?, ?, ?, ?, ?, ?) "
                "WHERE net_id = ? AND oracle_id = ? AND position_id = ?",
                (*way, run.id, net_id, oracle_id, position_id),
            )
        else:
            connection.execute(
                f"INSERT OR REPLACE INTO screened (net_id, oracle_id, position_id, {_OF_PASSAGE}) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (net_id, oracle_id, position_id, *way, run.id),
            )


def passages(store: Store, net_id: int, oracle_id: int) -> list[Passage]:
    """How far each position that went up the ladder came, by position."""
    query = """
        SELECT position_id, screen_id, cut_at, chance, nodes, searched, probability FROM screened
        WHERE net_id = ? AND oracle_id = ? ORDER BY position_id
    """
    rows = store.connection.execute(query, (net_id, oracle_id))
    return [
        Passage(position, screen, cut, chance, nodes, bool(searched), probability)
        for position, screen, cut, chance, nodes, searched, probability in rows
    ]


class PassageColumns(NamedTuple):
    """The passages of n positions as columns [n], by position: `ids`, `cut_at` (NaN: not cut), `nodes`, `searched`,
    `probability`."""

    ids: NDArray[np.int64]
    cut_at: Floats
    nodes: NDArray[np.int64]
    searched: NDArray[np.bool_]
    probability: Floats


PASSAGES = """
SELECT position_id, cut_at, nodes, searched, probability FROM screened
WHERE net_id = :net AND oracle_id = :oracle ORDER BY position_id
"""


def passage_columns(store: Store, net_id: int, oracle_id: int) -> PassageColumns:
    """`passages` as columns, for large stores."""
    parameters = {"net": net_id, "oracle": oracle_id}
    ids, cut_at, nodes, searched, probability = store.connection.numbers(PASSAGES, parameters)
    return PassageColumns(ids.astype(np.int64), cut_at, nodes.astype(np.int64), searched != 0, probability)


ON_RUNGS = """
SELECT position_id FROM deep_values WHERE oracle_id = :oracle AND stage IN (SELECT value FROM json_each(:rungs))
"""
# A position with rungs but without a passage for any net was searched in full outside the ladder since. It left the
# ladder at its deepest rung, and the run of that search tells for which net and oracle the ladder was.
SINCE = """
SELECT v.position_id, max(CAST(v.stage AS INTEGER)), max(v.nodes) FROM json_each(:ids) i
CROSS JOIN deep_values v ON v.oracle_id = :oracle AND v.stage IN (SELECT value FROM json_each(:rungs))
    AND v.position_id = i.value
WHERE NOT EXISTS (
    SELECT 1 FROM screened s WHERE s.net_id IN (SELECT id FROM nets) AND s.oracle_id = :oracle
    AND s.position_id = v.position_id)
AND v.run_id IN (SELECT run_id FROM screened WHERE net_id = :net AND oracle_id = :oracle)
GROUP BY v.position_id ORDER BY v.position_id
"""


def searched_since(store: Store, net_id: int, oracle_id: int, ids: NDArray[np.int64]) -> PassageColumns:
    """The passages of positions that the ladder cut and that were since searched in full outside it, by position.

    The table no longer has a row of them; here they are `searched`, with only the `nodes` of the ladder. `ids` [n] are
    the positions searched in full that have no passage; most of them may never have been on the ladder.
    """
    rungs = json.dumps([str(rung) for rung in stored_rungs(store.connection, oracle_id)])
    (on_ladder,) = store.connection.numbers(ON_RUNGS, {"oracle": oracle_id, "rungs": rungs})
    chosen = json.dumps(ids[np.isin(ids, on_ladder.astype(np.int64))].tolist())
    parameters = {"net": net_id, "oracle": oracle_id, "ids": chosen, "rungs": rungs}
    numbers, cut_at, nodes = store.connection.numbers(SINCE, parameters)
    ones = np.ones(len(numbers))
    return PassageColumns(numbers.astype(np.int64), cut_at, nodes.astype(np.int64), ones != 0, ones)


def any_passage(store: Store, net_id: int, oracle_id: int) -> bool:
    """Whether any position went up a ladder."""
    query = "SELECT EXISTS (SELECT 1 FROM screened WHERE net_id = ? AND oracle_id = ?)"
    return bool(store.connection.execute(query, (net_id, oracle_id)).fetchone()[0])


def cut_below(store: Store, net_id: int, oracle_id: int) -> float:
    """The highest threshold of a screen that cut positions that were not searched in full since; 0 without one."""
    query = """
        SELECT coalesce(max(s.threshold), 0.0) FROM screened p JOIN screens s ON s.id = p.screen_id
        WHERE p.net_id = ? AND p.oracle_id = ? AND p.cut_at IS NOT NULL AND NOT p.searched
    """
    return float(store.connection.execute(query, (net_id, oracle_id)).fetchone()[0])


def forget_passage(store: Store, oracle_id: int, position_id: int) -> None:
    """Forgets that a position was screened: it is searched in full whatever its chances."""
    with store.writing() as connection:
        # The nets are named so that SQLite can use the primary key of the table.
        connection.execute(
            "DELETE FROM screened WHERE net_id IN (SELECT id FROM nets) AND oracle_id = ? AND position_id = ?",
            (oracle_id, position_id),
        )


def settle(
    store: Store, oracle_id: int, ids: NDArray[np.int64], net_id: int | None = None, screen_ids: Sequence[int] = ()
) -> None:
    """Gives the positions `ids` [n] that were searched in full the weight 1, audited or not, for one net or for all.

    This is needed when a run judges or searches again the cut positions that audited ones represented. Positions that
    left the ladder by one of the screens `screen_ids` do not change.
    """
    where = """
        net_id IN (SELECT id FROM nets WHERE id = coalesce(:net, id)) AND oracle_id = :oracle
        AND position_id IN (SELECT value FROM json_each(:ids)) AND cut_at IS NOT NULL
        AND screen_id NOT IN (SELECT value FROM json_each(:screens))
    """
    parameters = {
        "net": net_id,
        "oracle": oracle_id,
        "ids": json.dumps(ids.tolist()),
        "screens": json.dumps([*screen_ids]),
    }
    with store.writing() as connection:
        connection.execute(
            f"UPDATE screened SET cut_at = NULL, chance = NULL, probability = 1 WHERE searched AND {where}",
            parameters,
        )
        connection.execute(
            f"""
            DELETE FROM screened WHERE NOT searched AND {where} AND EXISTS (
                SELECT 1 FROM deep_values v WHERE v.oracle_id = :oracle AND v.stage = '{FULL}'
                AND v.position_id = screened.position_id)
            """,
            parameters,
        )


def cut_before(store: Store, oracle_id: int, ids: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The positions among `ids` [n] that a ladder of any net cut, each with the screen that cut it, ascending."""
    query = """
        SELECT s.position_id, s.screen_id FROM json_each(?) j CROSS JOIN nets n
        CROSS JOIN screened s ON s.net_id = n.id AND s.oracle_id = ? AND s.position_id = j.value
        WHERE NOT s.searched AND s.cut_at NOT NULL
    """
    return sorted(store.connection.execute(query, (json.dumps(ids.tolist()), oracle_id)).fetchall())


class ClimbedRows(NamedTuple):
    """Positions with all rungs and the full search, for `valuerepair.screening.fit`; NaN for missing numbers.

    `ids` [n] are the positions, `game` [n] the keys of their games (`columns.GAME_KEY`); `net_q` and `net_best` [n] the
    net's value and its best move as a number. `scores` [n, k + 1, 6]: cp, mate, w, d, l, own q at each rung and in
    full; `best` [n][k + 1] UCI moves. `probability` [n] of being searched in full.
    """

    ids: NDArray[np.int64]
    game: NDArray[np.int64]
    net_q: Floats
    net_best: NDArray[np.int64]
    scores: Floats
    best: list[list[str | None]]
    probability: Floats


def climbed(
    store: Store, net_id: int, oracle_id: int, screen_ids: Sequence[int], population: Population = SAMPLED
) -> list[int]:
    """The positions, ascending, that these screens cut, that were searched in full on a ladder, or that failed."""
    of_pair = f"{population.table} WHERE net_id = :net AND oracle_id = :oracle"
    failed = f"oracle_id = :oracle AND stage = '{population.stage}'"
    if population is REACHED:  # positions of a line are searched without the ladder
        of_pair += " AND step <> 'line'"
        failed += f" AND position_id IN (SELECT position_id FROM {of_pair})"
    query = f"""
        SELECT position_id FROM {of_pair} AND (searched OR screen_id IN (SELECT value FROM json_each(:screens)))
        UNION SELECT position_id FROM failures WHERE {failed} ORDER BY position_id
    """
    parameters = {"net": net_id, "oracle": oracle_id, "screens": json.dumps([*screen_ids])}
    return [position for (position,) in store.connection.execute(query, parameters)]


def climbed_rows(
    store: Store,
    net_id: int,
    oracle_id: int,
    rungs: Sequence[int],
    last: int | None = None,
    population: Population = SAMPLED,
) -> ClimbedRows:
    """The positions, up to the id `last`, that were searched on all these rungs and in full, by position."""
    facts = store.connection.execute(
        f"""
        SELECT c.position_id, c.probability, n.q, n.best_move
        FROM {population.table} c JOIN net_values n ON n.net_id = c.net_id AND n.position_id = c.position_id
        WHERE c.net_id = ? AND c.oracle_id = ? AND c.searched AND c.position_id <= coalesce(?, c.position_id)
        ORDER BY c.position_id
        """,
        (net_id, oracle_id, last),
    ).fetchall()
    stages = [*map(str, rungs), population.stage]
    place = {stage: i for i, stage in enumerate(stages)}
    row_of = {row[0]: i for i, row in enumerate(facts)}
    scores = np.full((len(facts), len(stages), 6), np.nan)
    best: list[list[str | None]] = [[None] * len(stages) for _ in facts]
    is_known = np.zeros((len(facts), len(stages)), np.bool_)
    query = f"""
        SELECT v.position_id, v.stage, v.cp, v.mate, v.w, v.d, v.l, v.q, v.best_move FROM deep_values v
        JOIN {population.table} c ON c.net_id = ? AND c.oracle_id = v.oracle_id AND c.position_id = v.position_id
        AND c.searched WHERE v.oracle_id = ? AND v.stage IN (SELECT value FROM json_each(?))
    """
    for position, stage, *numbers, move in store.connection.execute(query, (net_id, oracle_id, json.dumps(stages))):
        if (i := row_of.get(position)) is not None:
            k = place[stage]
            scores[i, k] = [np.nan if number is None else number for number in numbers]
            best[i][k], is_known[i, k] = move, True
    complete = np.flatnonzero(is_known.all(1))
    numbers = np.array([row[1:] for row in facts], np.float64).reshape(len(facts), 3)[complete]
    ids = np.array([row[0] for row in facts], np.int64)[complete]
    return ClimbedRows(
        ids,
        games_of(store.connection, ids),
        numbers[:, 1],
        numbers[:, 2].astype(np.int64),
        scores[complete],
        [best[i] for i in complete.tolist()],
        numbers[:, 0],
    )
