"""Where the positions of a family stand in a picture: plies from the root across, lanes one below the other.

The game runs along lane 0. A line goes on in the lane of the position that it was reached from, or in one of its own;
each child has a lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import NamedTuple

from valuerepair.report.family import Leaf

_GAME = 0


class Place(NamedTuple):
    """`ply` from the root, `lane`, and the place in the list of the position that a stroke comes from (-1: none)."""

    ply: int
    lane: int
    after: int


def places(leaves: Sequence[Leaf]) -> list[Place]:
    """The places of a family's positions, in their order; no two have the same."""
    found = [Place(0, _GAME, -1)] * len(leaves)
    taken = {(0, _GAME)}
    for parent in _by_level(leaves):
        for branch in _branches(leaves, parent):
            here = found[parent]
            plies = [here.ply + _step(leaves[i]) for i in branch]
            lane = _lane(leaves[branch[0]].step, here, plies, taken)
            after = parent
            for i, ply in zip(branch, plies, strict=True):
                found[i] = Place(ply, lane, after)
                after = i
            # Another stroke may run along the game; a lane of its own belongs to a line all the way.
            first = here.ply + (1 if plies[-1] > here.ply else -1)
            way = range(min(first, plies[-1]), max(first, plies[-1]) + 1)
            taken |= {(ply, lane) for ply in (plies if lane == _GAME else way)}
    return found


def _by_level(leaves: Sequence[Leaf]) -> list[int]:
    """Nearer to the root first: what was reached in the first round has the lanes next to it."""
    return sorted(range(len(leaves)), key=lambda i: (leaves[i].level, i))


def _branches(leaves: Sequence[Leaf], parent: int) -> Iterator[list[int]]:
    """What was reached from a position, in rows that are drawn as one stroke."""
    mine = [i for i, leaf in enumerate(leaves) if leaf.after == parent]
    game = [i for i in mine if leaves[i].step in ("parent", "game")]
    for later in (False, True):
        yield from _distinct([i for i in game if leaves[i].later == later], leaves)
    yield from _distinct([i for i in mine if leaves[i].step == "line"], leaves)
    yield from ([i] for i in mine if leaves[i].step == "child")


def _distinct(row: Sequence[int], leaves: Sequence[Leaf]) -> Iterator[list[int]]:
    """The row, the nearest first, without any that is as far as the one before: such are rows of their own."""
    row = sorted(row, key=lambda i: _far(leaves[i]))
    kept = [i for k, i in enumerate(row) if k == 0 or _far(leaves[i]) != _far(leaves[row[k - 1]])]
    if kept:
        yield kept
    yield from ([i] for i in row if i not in kept)


def _far(leaf: Leaf) -> int:
    return max(leaf.distance or 1, 1)


def _step(leaf: Leaf) -> int:
    """Plies from what it was reached from."""
    if leaf.step == "child":
        return 1
    return _far(leaf) if leaf.later else -_far(leaf)


def _lane(step: str | None, here: Place, plies: Sequence[int], taken: set[tuple[int, int]]) -> int:
    """The nearest lane that is free all the way: lines above the game, children below, what they lead to beyond."""
    first = here.ply + (1 if plies[-1] > here.ply else -1)
    if step in ("parent", "game") and not any((ply, here.lane) in taken for ply in plies):
        return here.lane
    low, high = min(first, plies[-1]), max(first, plies[-1])
    away = -1 if here.lane < 0 or (here.lane == _GAME and step == "line") else 1
    own = [0] if step == "line" and here.lane != _GAME else []
    for lane in (here.lane + away * off for off in chain(own, count(1))):
        ends = {(ply, lane) for ply in range(low - 1, high + 2)} - {(here.ply, here.lane)}
        if lane != _GAME and not ends & taken:
            return lane
    raise AssertionError("there is always a lane further out")
