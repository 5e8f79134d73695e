"""Training the value head alone: the rest of the net gives it the same inputs in each step, computed only once."""

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

# Positions that go through the net together, as in `training.graph` on a CPU.
TOGETHER = 64
ROOM = 1 << 30  # bytes for the kept inputs


# The values that cross the cut: first those with an entry for each position, then those that all positions share.
Crossing = tuple[list[Any], list[Any]]


class _Cut(NamedTuple):
    """A function of (trained, frozen, planes), cut in two: the part that needs no trained parameter, and the rest."""

    before: Any
    after: Any
    shapes: tuple[tuple[int, ...], ...]


def _cut(function: Callable[..., Any], trained: Any, frozen: Any, rows: int) -> _Cut:
    planes = np.zeros((rows, PLANES, 8, 8), np.float32)
    closed = jax.make_jaxpr(function)(trained, frozen, planes)
    function_graph, count = closed.jaxpr, len(jax.tree.leaves(trained))
    inputs = function_graph.invars
    changing: set[Any] = set(inputs[:count])
    first, second, between = [], [], dict[Any, None]()
    for equation in function_graph.eqns:
        variables = [variable for variable in equation.invars if isinstance(variable, core.Var)]
        if not changing.isdisjoint(variables):
            second.append(equation)
            changing.update(equation.outvars)
            between.update(dict.fromkeys(variable for variable in variables if variable not in changing))
        else:
            first.append(equation)
    crossing = [variable for variable in between if variable not in function_graph.constvars]
    before = function_graph.replace(eqns=first, invars=inputs[count:], outvars=crossing)
    after = function_graph.replace(eqns=second, invars=[*inputs[:count], *crossing])
    first_half, second_half = (core.jaxpr_as_fun(core.ClosedJaxpr(half, closed.consts)) for half in (before, after))
    return _Cut(first_half, second_half, tuple(variable.aval.shape for variable in crossing))


class _Axis(NamedTuple):
    """The axis of a value that counts positions, with `per_position` entries for each: 64 if it counts squares."""

    axis: int
    per_position: int

    def first(self, value: Any) -> Any:
        """[positions, per_position, ...]"""
        moved = jax.numpy.moveaxis(value, self.axis, 0)
        return moved.reshape(-1, self.per_position, *moved.shape[1:])

    def back(self, value: Any) -> Any:
        """The inverse of `first`."""
        return jax.numpy.moveaxis(value.reshape(-1, *value.shape[2:]), 0, self.axis)


def _counting(shape: Sequence[int], one_more: Sequence[int]) -> _Axis | None:
    """The axis that counts positions, from a shape and that for one position more; None: all positions share it."""
    differing = [(i, b - a) for i, (a, b) in enumerate(zip(shape, one_more, strict=True)) if a != b]
    return _Axis(*differing[0]) if differing else None


class ValueHeadInputs:
    """The inputs of the value head, for each position that was added."""

    def __init__(self, function: Callable[..., Any], trained: Any, frozen: Any, batch: int) -> None:
        """`function` gives the value head's output [n, ...] from trained and frozen parameters and planes."""
        self._rows = TOGETHER if batch % TOGETHER == 0 else batch
        self._cut = _cut(function, trained, frozen, self._rows)
        # One position more shows the axes that count positions.
        other = _cut(function, trained, frozen, self._rows + 1)
        self._axes = [_counting(*pair) for pair in zip(self._cut.shapes, other.shapes, strict=True)]
        sized = [shape for shape, axis in zip(self._cut.shapes, self._axes, strict=True) if axis is not None]
        self.capacity = ROOM * self._rows // (4 * sum(math.prod(shape) for shape in sized))
        self._frozen = frozen
        self._before = jax.jit(self._computed)
        self._places: dict[int, int] = {}
        self._tables: list[NDArray[np.float32]] = []
        self._shared: list[Any] = []

    def add(self, batch: Batch, planes: Any, count: int) -> None:
        """Keeps the head's inputs for the first `count` positions of a batch with these planes.

        Rounding depends on the positions that go through the net together: always add the same ones together.
        """
        assert batch.key is not None
        values, self._shared = self._before(self._frozen, planes)
        if not self._tables:
            # The system allocates this memory only when it is written.
            self._tables = [np.empty((self.capacity, *value.shape[1:]), np.float32) for value in values]
        for row, key in enumerate(batch.key[:count].tolist()):
            if key not in self._places:
                place = self._places[key] = len(self._places)
                for table, value in zip(self._tables, values, strict=True):
                    table[place] = value[row]

    def of(self, batch: Batch, planes: Callable[[Batch], Any]) -> Crossing:
        """The head's inputs for a batch: kept or computed now."""
        assert batch.key is not None
        places = [self._places.get(key, -1) for key in batch.key.tolist()]
        if -1 in places:
            crossing: Crossing = self._before(self._frozen, planes(batch))
            return crossing
        return [table[places] for table in self._tables], self._shared

    def value(self, trained: Any, crossing: Crossing) -> Any:
        """The value head's output; runs inside compiled code."""
        (kept, shared), leaves, outputs = crossing, jax.tree.leaves(trained), []
        for begin in range(0, len(kept[0]), self._rows):
            own, common = iter(kept), iter(shared)
            rows = slice(begin, begin + self._rows)
            part = [next(common) if axis is None else axis.back(next(own)[rows]) for axis in self._axes]
            outputs.append(self._cut.after(*leaves, *part)[0])
        return jax.numpy.concatenate(outputs)

    def _computed(self, frozen: Any, planes: Any) -> Crossing:
        leaves, parts, shared = jax.tree.leaves(frozen), [], []
        for begin in range(0, len(planes), self._rows):
            values = list(zip(self._cut.before(*leaves, planes[begin : begin + self._rows]), self._axes, strict=True))
            parts.append([axis.first(x) for x, axis in values if axis is not None])
            shared = [x for x, axis in values if axis is None]
        return [jax.numpy.concatenate(columns) for columns in zip(*parts, strict=True)], shared
