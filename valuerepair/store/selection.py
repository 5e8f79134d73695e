"""How many positions each position that was searched in full represents.

The ladders of an oracle chose which positions are searched in full, each by one net's signals, and all nets are judged
on this choice. docs/methods.md, "Comparing nets", says why the weights are right.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.store.connection import StoreConnection

OF_LADDER = """
SELECT position_id, screen_id, cut_at, searched, probability FROM screened
WHERE net_id = :net AND oracle_id = :oracle ORDER BY position_id
"""
# Where a run with a ladder finds a value of the oracle, it records the net's value only.
MET_WITHOUT_PASSAGE = """
SELECT n.position_id FROM json_each(:ids) j CROSS JOIN net_values n ON n.net_id = :net AND n.position_id = j.value
WHERE n.run_id IN (SELECT run_id FROM screened WHERE net_id = :net AND oracle_id = :oracle)
AND NOT EXISTS (
    SELECT 1 FROM screened s WHERE s.net_id = :net AND s.oracle_id = :oracle AND s.position_id = n.position_id)
ORDER BY n.position_id
"""


def audit_weights(probability: Floats) -> Floats:
    """[n] the weights of positions that the screening ladder cut or would have cut: how many of them each represents.

    A position leaves the ladder where its screen would cut it (the column `cut_at`). Then it is *audited* with a known
    `probability` [n], which means that it is searched in full all the same, or else it is *cut*. Audited positions
    represent all that left the ladder, themselves included: in proportion to the inverse of their probability, scaled
    so that their weights sum to n. A cut position has the probability infinity here, and so represents none.
    """
    return np.asarray(len(probability) / (float((1 / probability).sum()) or 1.0) / probability)


def selection_weights(connection: StoreConnection, ids: Ids, oracle_id: int, net_id: int | None = None) -> Floats:
    """[n] how many positions each of the `ids`, ascending, represents; 0 if audited positions represent it.

    The ladder that judged a position last decides; with a `net_id` that net's own ladder goes first. A position weighs
    1 if it did not leave this ladder, or if no ladder met it. Others have the ladder's `audit_weights`; but an audited
    position that another ladder has judged since weighs 1, because that ladder's audits represent what it cut.
    """
    weights = np.ones(len(ids))
    passages = _passages(connection, oracle_id, net_id)
    nets = np.unique(passages.net).tolist()
    for net in nets:
        of_net = passages.net == net
        audited = passages.ids[of_net & passages.left_ladder & passages.searched]
        others = [] if net == net_id else [other for other in nets if other != net]
        met = [_met_without_passage(connection, audited, other, oracle_id) for other in others]
        positions, of_positions = _weights_by(passages, of_net, np.concatenate([np.empty(0, np.int64), *met]))
        _, places, of_rows = np.intersect1d(ids, positions, assume_unique=True, return_indices=True)
        weights[places] = of_positions[of_rows]
    return weights


def other_ladders(connection: StoreConnection, oracle_id: int, net_id: int) -> list[int]:
    """The nets whose ladders chose the positions that judge this net; empty if the net has a ladder itself."""
    query = """
        SELECT id FROM nets WHERE EXISTS (
            SELECT 1 FROM screened s WHERE s.net_id = nets.id AND s.oracle_id = ? AND s.cut_at NOT NULL)
        ORDER BY id
    """
    nets = [net for (net,) in connection.execute(query, (oracle_id,))]
    return [] if net_id in nets else nets


class _Passages(NamedTuple):
    """The passages of all ladders of an oracle as columns, by position.

    Each row has the position (`ids`), the ladder's net, whether the position left that ladder (`left_ladder`), whether
    it was `searched` in full there, with what probability if it left, and whether this passage `decides` its weight.
    """

    ids: Ids
    net: Ids
    left_ladder: Flags
    searched: Flags
    probability: Floats
    decides: Flags


def _passages(connection: StoreConnection, oracle_id: int, own: int | None) -> _Passages:
    parts = []
    for (net,) in connection.execute("SELECT id FROM nets ORDER BY id").fetchall():
        part = connection.numbers(OF_LADDER, {"net": net, "oracle": oracle_id})
        connection.check_ascending(part[0])
        parts.append(np.stack([*part, np.full(part.shape[1], net)]))
    ids, screen, cut_at, searched, probability, net = np.concatenate(parts, 1) if parts else np.empty((6, 0))
    left_ladder = ~np.isnan(cut_at)
    # The net's own ladder, then any that kept the position, then the latest.
    rank = np.where(net == own, 0, np.where(left_ladder, 2, 1))
    order = np.lexsort((-np.nan_to_num(screen), rank, ids))
    positions, nets = ids[order].astype(np.int64), net[order].astype(np.int64)
    decides = np.diff(positions, prepend=-1) != 0
    return _Passages(positions, nets, left_ladder[order], searched[order] != 0, probability[order], decides)


def _met_without_passage(connection: StoreConnection, ids: Ids, net_id: int, oracle_id: int) -> Ids:
    parameters = {"ids": json.dumps(ids.tolist()), "net": net_id, "oracle": oracle_id}
    met: Ids = connection.numbers(MET_WITHOUT_PASSAGE, parameters, np.int64)[0]
    return met


def _weights_by(passages: _Passages, of_net: Flags, met: Ids) -> tuple[Ids, Floats]:
    """The positions for which this net's ladder decides and that left it, and the weight of each.

    Later ladders met the audited positions `met`, so these weigh 1. They met others without recording it, if their net
    had the values already. So the share of the other audited positions that no later ladder met is estimated: among
    the positions that none met, the ratio of audited to cut ones is that among all positions that left.
    """
    of_left = of_net & passages.left_ladder
    audited, cut = of_left & passages.searched, of_left & ~passages.searched
    remain = of_left & passages.decides & ~np.isin(passages.ids, met)
    audits, unmet = int((remain & audited).sum()), int((remain & cut).sum())
    share = min(1.0, audited.sum() * unmet / (cut.sum() * audits)) if audits and cut.any() else 1.0
    p = passages.probability[remain]
    # An audited position represents itself and, unless a later ladder met it, 1 / p - 1 cut ones.
    probability = np.where(passages.searched[remain], p / (p + share * (1 - p)), np.inf)
    return passages.ids[remain], audit_weights(probability)
