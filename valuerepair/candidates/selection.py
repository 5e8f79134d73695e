"""How a store's positions came to be searched in full, whichever net their screening followed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.store import Store
from valuerepair.store.connect import store_errors

# What any net's ladder cut and did not audit, and something else had searched, stands for nothing (see `Store.frame`).
_QUERY = """
    SELECT position_id, max(cut_at IS NULL), max(searched), max(probability) FROM screened
    WHERE oracle_id = ? GROUP BY position_id
"""


def selection_weights(store: Store, oracle_id: int, position_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """[n] how many positions each stands for that was searched in full by this oracle: 1 without screening.

    Where a ladder would have cut it, the inverse probability of its search, scaled so that all such together stand for
    all that ladders cut or would have cut, as in `Store.frame`: with one net's ladder the weights are the same.

    A ladder chooses by one net's signals, and the positions are a sample chosen so for every other net too: its own
    weights in `Store.frame`, of a net that screened nothing, would all be 1. Where ladders of several nets met a
    position, one that did not cut it is enough; else the largest of their probabilities counts, for audits are drawn
    by seed and position, so that with one seed the smaller draw is part of the larger.
    """
    with store_errors(store.path):
        rows = store.connection.execute(_QUERY, (oracle_id,)).fetchall()
    cut = [(position, 1.0 / p if searched else 0.0) for position, whole, searched, p in rows if not whole]
    standing = sum(inverse for _, inverse in cut) or 1.0  # where none was searched, none stands for any
    weight = {position: len(cut) / standing * inverse for position, inverse in cut}
    return np.array([weight.get(position, 1.0) for position in position_ids.tolist()], np.float64)
