"""Evaluations kept from one search to the next: the move after a search asks for much of what it saw again.

A search begins without a tree, as in ``lc0 selfplay``, but the net need not be asked twice about the same input. lc0
looks positions up by the position alone; here the key is the net's whole input, history and clock included, so that
an answer is what the net would say.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.mcts.evaluator import Evaluations, Evaluator, Leaves

DEFAULT_ENTRIES = 200_000  # some 500 bytes each


class _Kept(NamedTuple):
    q: float
    d: float
    m: float
    logits: NDArray[np.float32]


class CachedEvaluator:
    """An `Evaluator` that asks another one only about what it has not asked lately. For one thread.

    At least the last `entries` / 2 answers are kept, at most `entries`; 0 for none. `rows` counts leaves, `hits` those
    that were known, `runs` the calls that had to be made and `asked` the leaves in them.
    """

    def __init__(self, evaluator: Evaluator, entries: int = DEFAULT_ENTRIES) -> None:
        self._evaluator, self._half = evaluator, entries // 2
        self._young: dict[bytes, _Kept] = {}
        self._old: dict[bytes, _Kept] = {}
        self.rows = self.hits = self.runs = self.asked = 0

    def __call__(self, leaves: Leaves) -> Evaluations:
        """The answers for all leaves, in their order; two equal leaves of one call are asked about once."""
        n = len(leaves.masks)
        self.rows += n
        if not self._half:
            return self._ask(leaves)
        found: list[_Kept | None] = []
        new: dict[bytes, int] = {}  # key -> its first row
        keys = _keys_of(leaves)
        for row, key in enumerate(keys):
            kept = self._young.get(key) or self._old.get(key)
            found.append(kept)
            if kept is None:
                new.setdefault(key, row)
        self.hits += n - len(new)
        if len(new) < n:
            return self._merged(leaves, keys, found, new)
        answer = self._ask(leaves)
        self._keep(keys, answer, leaves.offsets)
        return answer

    def _merged(
        self, leaves: Leaves, keys: list[bytes], found: list[_Kept | None], new: dict[bytes, int]
    ) -> Evaluations:
        """The whole answer where only the rows of `new` must be asked about."""
        fresh: dict[bytes, _Kept] = {}
        if new:
            part = _rows_of(leaves, list(new.values()))
            fresh = self._keep(list(new), self._ask(part), part.offsets)
        every = [kept or fresh[key] for kept, key in zip(found, keys, strict=True)]
        values = np.array([kept[:3] for kept in every], np.float32)
        logits = np.concatenate([kept.logits for kept in every])
        return Evaluations(values[:, 0].copy(), values[:, 1].copy(), values[:, 2].copy(), logits)

    def _ask(self, leaves: Leaves) -> Evaluations:
        self.runs += 1
        self.asked += len(leaves.masks)
        return self._evaluator(leaves)

    def _keep(self, keys: list[bytes], answer: Evaluations, offsets: NDArray[np.int64]) -> dict[bytes, _Kept]:
        cuts = offsets.tolist()
        values = zip(answer.q.tolist(), answer.d.tolist(), answer.m.tolist(), strict=True)
        logits = answer.logits.copy()  # cut into views below
        kept = {
            key: _Kept(q, d, m, logits[cuts[i] : cuts[i + 1]])
            for i, (key, (q, d, m)) in enumerate(zip(keys, values, strict=True))
        }
        if len(self._young) + len(kept) > self._half:
            self._old, self._young = self._young, {}
        self._young.update(kept)
        return kept


def _keys_of(leaves: Leaves) -> list[bytes]:
    """16 bytes of each row's planes, clock and legal moves."""
    cuts, masks, clocks = leaves.offsets.tolist(), leaves.masks, leaves.rule50.tolist()
    found = []
    for row, clock in enumerate(clocks):
        digest = hashlib.blake2b(masks[row].data, digest_size=16)
        digest.update(leaves.indices[cuts[row] : cuts[row + 1]].data)
        digest.update(b"%d" % round(1000 * clock))
        found.append(digest.digest())
    return found


def _rows_of(leaves: Leaves, rows: list[int]) -> Leaves:
    cuts = leaves.offsets
    counts = np.array([0, *(int(cuts[row + 1] - cuts[row]) for row in rows)], np.int64)
    indices = np.concatenate([leaves.indices[cuts[row] : cuts[row + 1]] for row in rows])
    return Leaves(leaves.masks[rows], leaves.rule50[rows], indices, np.cumsum(counts))
