"""The value head alone: what the rest of the net makes of a position stays the same, and is computed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core
from numpy.typing import NDArray

from valuerepair.nets.planes import PLANES
from valuerepair.training.samples import Batch

# Positions that go through the net together, as `training.graph` has them on a CPU.
TOGETHER = 64
ROOM = 1 << 30  # bytes for what is kept


# What crosses the cut: values with an entry for each position, which come first, and values that are the same for all.
Crossing = tuple[list[Any], list[Any]]


class _Cut(NamedTuple):
    """A function of (trained, frozen, planes) in two: what needs no trained parameter, and the rest."""

    before: Any
    after: Any
    shapes: tuple[tuple[int, ...], ...]


def _cut(function: Callable[..., Any], trained: Any, frozen: Any, rows: int) -> _Cut:
    planes = np.zeros((rows, PLANES, 8, 8), np.float32)
    closed = jax.make_jaxpr(function)(trained, frozen, planes)
    whole, count = closed.jaxpr, len(jax.tree.leaves(trained))
    changing: set[Any] = set(whole.invars[:count])
    first, second, between = [], [], dict[Any, None]()
    for equation in whole.eqns:
        variables = [each for each in equation.invars if isinstance(each, core.Var)]
        if not changing.isdisjoint(variables):
            second.append(equation)
            changing.update(equation.outvars)
            between.update(dict.fromkeys(each for each in variables if each not in changing))
        else:
            first.append(equation)
    crossing = [each for each in between if each not in whole.constvars]
    before = whole.replace(eqns=first, invars=whole.invars[count:], outvars=crossing)
    after = whole.replace(eqns=second, invars=[*whole.invars[:count], *crossing])
    first_half, second_half = (core.jaxpr_as_fun(core.ClosedJaxpr(half, closed.consts)) for half in (before, after))
    return _Cut(first_half, second_half, tuple(each.aval.shape for each in crossing))


class _Axis(NamedTuple):
    """The axis of a value that counts positions, `each` entries of it for each: 64 where it is one of squares."""

    axis: int
    each: int

    def first(self, value: Any) -> Any:
        """[positions, each, ...]"""
        moved = jax.numpy.moveaxis(value, self.axis, 0)
        return moved.reshape(-1, self.each, *moved.shape[1:])

    def back(self, value: Any) -> Any:
        """As it was."""
        return jax.numpy.moveaxis(value.reshape(-1, *value.shape[2:]), 0, self.axis)


def _counting(shape: Sequence[int], one_more: Sequence[int]) -> _Axis | None:
    """Where a value counts positions, by its shape and that of one position more; None: it is the same for all."""
    differing = [(i, b - a) for i, (a, b) in enumerate(zip(shape, one_more, strict=True)) if a != b]
    return _Axis(*differing[0]) if differing else None


class ValueHeadInputs:
    """What the value head is given, of each position that was added."""

    def __init__(self, function: Callable[..., Any], trained: Any, frozen: Any, batch: int) -> None:
        """`function` gives the value head's output [n, ...] from trained and frozen parameters and planes."""
        self._rows = TOGETHER if batch % TOGETHER == 0 else batch
        self._cut = _cut(function, trained, frozen, self._rows)
        # One position more shows where they are counted.
        other = _cut(function, trained, frozen, self._rows + 1)
        self._axes = [_counting(*pair) for pair in zip(self._cut.shapes, other.shapes, strict=True)]
        sized = [shape for shape, axis in zip(self._cut.shapes, self._axes, strict=True) if axis is not None]
        self.capacity = ROOM * self._rows // (4 * sum(math.prod(shape) for shape in sized))
        self._frozen = frozen
        self._before = jax.jit(self._made)
        self._places: dict[int, int] = {}
        self._tables: list[NDArray[np.float32]] = []
        self._shared: list[Any] = []

    def add(self, batch: Batch, planes: Any, count: int) -> None:
        """Keeps what the head is given of the first `count` positions of a batch with these planes.

        Rounding depends on the positions that go through the net beside one: always add the same ones together.
        """
        assert batch.key is not None
        made, self._shared = self._before(self._frozen, planes)
        if not self._tables:
            # Memory is taken only as it is written to.
            self._tables = [np.empty((self.capacity, *each.shape[1:]), np.float32) for each in made]
        for row, key in enumerate(batch.key[:count].tolist()):
            if key not in self._places:
                place = self._places[key] = len(self._places)
                for table, each in zip(self._tables, made, strict=True):
                    table[place] = each[row]

    def of(self, batch: Batch, planes: Callable[[Batch], Any]) -> Crossing:
        """What the head is given for a batch: as it was kept, or made now."""
        assert batch.key is not None
        places = [self._places.get(key, -1) for key in batch.key.tolist()]
        if -1 in places:
            made: Crossing = self._before(self._frozen, planes(batch))
            return made
        return [table[places] for table in self._tables], self._shared

    def value(self, trained: Any, crossing: Crossing) -> Any:
        """The value head's output; within what is compiled."""
        (each, shared), leaves, found = crossing, jax.tree.leaves(trained), []
        for at in range(0, len(each[0]), self._rows):
            own, common = iter(each), iter(shared)
            part = [next(common) if axis is None else axis.back(next(own)[at : at + self._rows]) for axis in self._axes]
            found.append(self._cut.after(*leaves, *part)[0])
        return jax.numpy.concatenate(found)

    def _made(self, frozen: Any, planes: Any) -> Crossing:
        leaves, parts, shared = jax.tree.leaves(frozen), [], []
        for at in range(0, len(planes), self._rows):
            made = list(zip(self._cut.before(*leaves, planes[at : at + self._rows]), self._axes, strict=True))
            parts.append([axis.first(x) for x, axis in made if axis is not None])
            shared = [x for x, axis in made if axis is None]
        return [jax.numpy.concatenate(each) for each in zip(*parts, strict=True)], shared
