"""Seeded choice without state: the priority of a game or position depends only on the seed and on its identity.

The choice is therefore the same in any order and on any number of threads, and the lowest N priorities of a stream are
a uniform sample of it in one pass (bottom-k sampling). Mixing is SplitMix64's finaliser (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.jit import allocating_kernel
from valuerepair.chess.positions import PositionBatch

U64 = NDArray[np.uint64]


def scrambled(values: U64) -> U64:
    """A bijection of 64-bit numbers whose output bits all depend on all input bits."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ z >> np.uint64(31))


def salt(*parts: object) -> U64:
    """uint64[1]: a hash of the texts of the parts."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def game_hashes(seed: int, identity: str, numbers: NDArray[np.int64]) -> U64:
    """uint64[n]: a hash of each game, from the seed, the identity of its archive and its number there."""
    return scrambled(numbers.astype(np.uint64) ^ salt(seed, identity))


def in_share(hashes: U64, share: float) -> NDArray[np.bool_]:
    """bool[n]: which hashes are in the share; a larger share contains a smaller one."""
    if share >= 1:
        return np.ones(len(hashes), np.bool_)
    chosen: NDArray[np.bool_] = scrambled(hashes) < np.uint64(share * 2.0**64)
    return chosen


def ply_priorities(hashes: U64, plies: NDArray[np.int64]) -> U64:
    """uint64[n]: the priority of each position, from the hash of its game and its ply."""
    return scrambled(hashes ^ scrambled(plies.astype(np.uint64)))


def key_priorities(seed: int, keys: U64) -> U64:
    """uint64[n]: the priority of each position, from its board key alone: equal positions have the same priority."""
    return scrambled(keys ^ salt(seed, "positions"))


def move_hashes(moves: NDArray[np.uint16], cuts: NDArray[np.int64]) -> U64:
    """uint64[n]: a hash of the moves of each of n games; those of game g are ``moves[cuts[g]:cuts[g + 1]]``."""
    ply = np.arange(len(moves)) - np.repeat(cuts[:-1], np.diff(cuts))
    mixed = scrambled(moves.astype(np.uint64) << np.uint64(32) | ply.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    hashes: U64 = sums[cuts[1:]] - sums[cuts[:-1]]
    return hashes


def game_keys(moves: NDArray[np.uint16], cuts: NDArray[np.int64], starts: Mapping[int, str]) -> U64:
    """uint64[n]: the keys of n games, by their moves, as in `move_hashes`; `starts` has the FENs of the games that do
    not begin at the initial position."""
    keys = move_hashes(moves, cuts)
    for g, fen in starts.items():
        keys[g : g + 1] ^= salt(fen)
    return keys


def line_keys(keys: U64) -> U64:
    """uint64[n]: the keys of "games" of a single board each, by the boards' keys."""
    return scrambled(keys ^ salt("line"))


def lowest_of_each(groups: NDArray[np.int64], priorities: U64, count: int) -> NDArray[np.int64]:
    """The rows with the `count` lowest priorities of each group, ascending; `groups` must be sorted."""
    rows = np.empty(len(groups), np.int64)
    return rows[: _lowest_of_each(groups, priorities, count, rows)]


@allocating_kernel
def _lowest_of_each(groups: NDArray[np.int64], priorities: U64, count: int, rows: NDArray[np.int64]) -> int:
    n, begin = 0, 0
    while begin < len(groups):
        end = begin
        while end < len(groups) and groups[end] == groups[begin]:
            end += 1
        limit = priorities[begin:end].min() if count == 1 else np.sort(priorities[begin:end])[:count][-1]
        for i in range(begin, end):
            if priorities[i] <= limit:
                rows[n] = i
                n += 1
        begin = end
    return n


class KeySet:
    """A growing set of 64-bit keys in one flat table: 10 to 20 bytes a key."""

    def __init__(self) -> None:
        self._table = np.zeros(1 << 12, np.uint64)
        self.size = 0

    def add(self, keys: U64) -> NDArray[np.bool_]:
        """Adds the keys and returns bool[n]: which keys are new to the set (of equal keys, only the first)."""
        while (self.size + len(keys)) * 5 > len(self._table) * 4:
            grown = np.zeros(2 * len(self._table), np.uint64)
            _insert(grown, self._table[self._table != 0])
            self._table = grown
        fresh = _insert(self._table, np.ascontiguousarray(keys))
        self.size += int(fresh.sum())
        return fresh


@allocating_kernel
def _insert(table: U64, keys: U64) -> NDArray[np.bool_]:
    """Open addressing, linear probing; len(table) is a power of two. 0 marks a free slot, so key 0 is stored as 1."""
    fresh = np.zeros(len(keys), np.bool_)
    mask = np.uint64(len(table) - 1)
    one = np.uint64(1)
    for i in range(len(keys)):
        key = keys[i] if keys[i] != 0 else one
        slot = (key ^ (key >> np.uint64(29))) & mask
        while table[slot] != 0 and table[slot] != key:
            slot = (slot + one) & mask
        if table[slot] == 0:
            table[slot] = key
            fresh[i] = True
    return fresh


class LowestPriorities:
    """Keeps the `count` distinct positions with the lowest priorities of a stream of batches."""

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed = count, seed
        self._batches: list[PositionBatch] = []
        self._rows = 0
        self._limit = np.uint64(0xFFFFFFFFFFFFFFFF)
        self.duplicates = 0  # among the added positions
        self.dropped = 0  # positions whose priority is too high

    def wanted(self, keys: U64) -> NDArray[np.bool_]:
        """bool[n]: which positions may still have one of the lowest priorities; counts the others as dropped."""
        low: NDArray[np.bool_] = key_priorities(self._seed, keys) <= self._limit
        self.dropped += int((~low).sum())
        return low

    def add(self, batch: PositionBatch) -> None:
        """Adds positions that `wanted` accepted."""
        self._batches.append(batch)
        self._rows += len(batch)
        if self._rows > 2 * self._count + 4096:
            self._reduce()

    def result(self) -> PositionBatch:
        """The chosen positions in ascending order of priority; for every n, the first n are a uniform sample."""
        self._reduce()
        return PositionBatch.concat(self._batches)

    def _reduce(self) -> None:
        """Drops duplicates and all but the `count` lowest priorities."""
        if not self._batches:
            return
        rows = PositionBatch.concat(self._batches)
        _, first = np.unique(rows.key, return_index=True)
        self.duplicates += len(rows) - len(first)
        priorities = key_priorities(self._seed, rows.key[first])
        order = np.argsort(priorities, kind="stable")
        lowest = order[: self._count]
        self.dropped += len(order) - len(lowest)
        if len(lowest) == self._count:
            self._limit = priorities[lowest[-1]]
        self._batches = [rows.take(first[lowest])]
        self._rows = len(lowest)
