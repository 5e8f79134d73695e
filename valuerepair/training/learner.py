"""The steps of training in JAX: the change of a net's parameters by a batch, and its evaluation of positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend import core
from numpy.typing import NDArray

from valuerepair import signals
from valuerepair.errors import ValueRepairError
from valuerepair.nets.planes import CLOCK_PLANE, PLANES
from valuerepair.training import losses
from valuerepair.training.graph import HeadOutputs
from valuerepair.training.losses import LossWeights
from valuerepair.training.options import Only, TrainOptions
from valuerepair.training.samples import Batch, Samples

Array = jax.Array
Parameters = dict[str, Array]
# The inputs of the value head: first those with an entry for each position, then those that all positions share.
Crossing = tuple[list[Any], list[Any]]

# The number of positions for which the inputs of the value head are computed together.
TOGETHER = 64
ROOM = 1 << 30  # bytes for the kept inputs


class TrainableNet(Protocol):
    """A net as a function of its parameters; `training.graph.NetGraph` is one."""

    @property
    def parameters(self) -> Mapping[str, NDArray[np.float32]]: ...
    def forward(self, parameters: Mapping[str, Any], planes: Any) -> HeadOutputs: ...
    def of_head(self, name: str) -> frozenset[str]: ...


class State(NamedTuple):
    """The state that a step changes: the trained parameters, their moments in Adam, and their average."""

    parameters: Parameters
    moments: Any
    average: Parameters


class Answers(NamedTuple):
    """A net's answers for n positions: Q [n], log of the policy [n, 224], each loss [n]; arrays of JAX or NumPy."""

    q: Any
    log_policy: Any
    parts: dict[str, Any]


def planes_of(bits: Array, rule50: Array) -> Array:
    """float32[n, 112, 8, 8] from bit planes uint32[n, 112, 2] and the factor of the clock's plane."""
    ones = bits[..., None] >> jnp.arange(32, dtype=jnp.uint32) & 1
    planes = ones.astype(jnp.float32).reshape(len(bits), PLANES, 8, 8)
    return planes.at[:, CLOCK_PLANE].multiply(rule50[:, None, None])


def trained_names(net: TrainableNet, only: Only) -> list[str]:
    """The parameters that change, sorted. Raises ValueRepairError for a net without this head."""
    if only == "all":
        return sorted(net.parameters)
    heads = ("value",) if only == "value" else ("policy", "value", "moves_left")
    names = sorted(frozenset().union(*(net.of_head(head) for head in heads)))
    if not names:
        raise ValueRepairError(f"--only {only}: the net has no separate parameters for that; use --only all")
    return names


class Learner:
    """Trains the parameters of a net that `options.only` names; the others stay unchanged."""

    def __init__(self, net: TrainableNet, options: TrainOptions, weights: LossWeights) -> None:
        """Raises ValueRepairError for a net without a required head."""
        self._net, self._options, self._weights = net, options, weights
        self.trained = trained_names(net, options.only)
        self._old = {name: jnp.asarray(value) for name, value in net.parameters.items()}
        self._frozen = {name: value for name, value in self._old.items() if name not in set(self.trained)}
        self._optimizer = optax.scale_by_adam()
        self._step = jax.jit(self._one_step, donate_argnums=0)
        self._judge = jax.jit(self._evaluate)
        self._planes = jax.jit(planes_of)
        self._has_wdl = self._check_heads()
        self._cached_inputs: ValueHeadInputs | None = None
        if options.only == "value":
            trained = {name: self._old[name] for name in self.trained}
            self._cached_inputs = ValueHeadInputs(self._value, trained, self._frozen, options.batch)

    def _value(self, trained: Parameters, frozen: Parameters, planes: Array) -> Any:
        heads = self._net.forward({**frozen, **trained}, planes)
        return heads.wdl if self._has_wdl else heads.value

    def _check_heads(self) -> bool:
        heads = jax.eval_shape(self._net.forward, self._old, np.zeros((1, PLANES, 8, 8), np.float32))
        if heads.wdl is None and heads.value is None:
            raise ValueRepairError("the net has no value head, which training needs")
        if heads.policy is None and (self._weights.policy or self._weights.policy_kl):
            raise ValueRepairError("the net has no policy head; use --only value")
        return heads.wdl is not None

    def begin(self) -> State:
        """The state before the first step."""
        parameters = {name: jnp.array(self._old[name]) for name in self.trained}
        average = {} if self._options.average == "none" else {k: jnp.array(v) for k, v in parameters.items()}
        return State(parameters, self._optimizer.init(parameters), average)

    def step(self, state: State, batch: Batch, number: int) -> tuple[State, dict[str, Array]]:
        """The state after step `number`, from 0 on, and the losses before it; `state` cannot be used again."""
        rate, blend = np.float32(self._options.rate(number)), np.float32(self._options.blend(number))
        inputs = batch._replace(key=None), self._head_inputs(batch)
        result: tuple[State, dict[str, Array]] = signals.in_thread(
            lambda: self._step(state, self._frozen, self._old, *inputs, rate, blend)
        )
        return result

    def judged(self, state: State) -> Parameters:
        """The parameters to judge and write: their average, if the options ask for one."""
        return state.average or state.parameters

    def evaluate(self, parameters: Mapping[str, Any], batch: Batch) -> Answers:
        """The answers of the net with these trained parameters for a batch."""
        inputs = batch._replace(key=None), self._head_inputs(batch)
        answers: Answers = signals.in_thread(lambda: self._judge(dict(parameters), self._frozen, self._old, *inputs))
        return answers

    @property
    def room(self) -> int:
        """The number of positions that `keep` has room for."""
        return 0 if self._cached_inputs is None else self._cached_inputs.capacity

    def keep(self, parts: Sequence[Samples]) -> None:
        """Computes the value head's inputs for these positions once; they must fit in `room`."""
        assert self._cached_inputs is not None
        size = self._options.batch
        for part in parts:
            for begin in range(0, len(part), size):
                signals.check()
                samples = part.take(np.arange(begin, min(begin + size, len(part))))
                batch = samples.batch(size)
                self._cached_inputs.add(batch, self._planes(batch.bits, batch.rule50), len(samples))

    def _head_inputs(self, batch: Batch) -> Any:
        """The value head's inputs if only it is trained, else None."""
        if self._cached_inputs is None:
            return None
        return self._cached_inputs.inputs_of(batch, lambda positions: self._planes(positions.bits, positions.rule50))

    def _one_step(
        self, state: State, frozen: Parameters, old: Parameters, batch: Any, head_inputs: Any, rate: Any, blend: Any
    ) -> tuple[State, dict[str, Array]]:
        def loss(parameters: Parameters) -> tuple[Array, dict[str, Array]]:
            parts = self._evaluate(parameters, frozen, old, batch, head_inputs).parts
            means = {name: losses.mean(values, batch.weight) for name, values in parts.items()}
            total = jnp.zeros((), jnp.float32) + sum(getattr(self._weights, name) * means[name] for name in means)
            return total, {"loss": total, **means}

        gradient, result = jax.grad(loss, has_aux=True)(state.parameters)
        updates, moments = self._optimizer.update(gradient, state.moments, state.parameters)
        parameters = {name: value - rate * updates[name] for name, value in state.parameters.items()}
        # This form makes an average of equal parameters exactly these parameters.
        average = {
            name: jnp.where(blend == 1, parameters[name], value + blend * (parameters[name] - value))
            for name, value in state.average.items()
        }
        return State(parameters, moments, average), result

    def _evaluate(
        self, parameters: Parameters, frozen: Parameters, old: Parameters, batch: Any, head_inputs: Any
    ) -> Answers:
        """The answers for a `Batch` of JAX's arrays, without the policy if only the value head is trained."""
        legal = batch.shares >= 0
        policy = jnp.zeros(batch.shares.shape, jnp.float32)
        if head_inputs is not None:
            assert self._cached_inputs is not None
            return self._answers(self._cached_inputs.value(parameters, head_inputs), policy, {}, batch)
        planes = planes_of(batch.bits, batch.rule50)
        heads: Any = self._net.forward({**frozen, **parameters}, planes)
        # Only the positions of a store, which have no targets for the other heads, need the old net's answers.
        old_heads: Any = jax.lax.stop_gradient(self._net.forward(old, planes)) if self._weights.policy_kl else None
        parts: dict[str, Array] = {}
        if heads.policy is not None:
            logits = jnp.take_along_axis(heads.policy, batch.moves, axis=1)
            policy = jax.nn.log_softmax(jnp.where(legal, logits, losses.OUT), axis=1)
            if self._weights.policy:
                parts["policy"] = losses.policy(logits, batch.shares)
            if old_heads is not None:
                old_logits = jnp.take_along_axis(old_heads.policy, batch.moves, axis=1)
                judged = self._options.policy_share * jax.nn.one_hot(batch.judged, batch.shares.shape[1])
                parts["policy_kl"] = losses.policy_kl(logits, old_logits, legal, judged)
        if heads.moves_left is not None and self._weights.moves_left:
            plies = batch.moves_left
            if old_heads is not None:
                plies = jnp.where(jnp.isnan(plies), old_heads.moves_left, plies)
            parts["moves_left"] = losses.moves_left(heads.moves_left, plies)
        return self._answers(heads.wdl if self._has_wdl else heads.value, policy, parts, batch)

    def _answers(self, value: Any, policy: Array, parts: dict[str, Array], batch: Any) -> Answers:
        if self._has_wdl:
            q, loss = losses.q_of(jax.nn.softmax(value, axis=1)), losses.wdl(value, batch.wdl)
        else:
            q, loss = value, losses.scalar(value, batch.wdl)
        return Answers(q, policy, {"value": loss * batch.value_weight, **parts})


class _Cut(NamedTuple):
    """A function of (trained, frozen, planes), cut in two: the part that needs no trained parameter, and the rest.

    `shapes` are those of the values that the second part takes from the first.
    """

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
        moved = jnp.moveaxis(value, self.axis, 0)
        return moved.reshape(-1, self.per_position, *moved.shape[1:])

    def back(self, value: Any) -> Any:
        """The inverse of `first`."""
        return jnp.moveaxis(value.reshape(-1, *value.shape[2:]), 0, self.axis)


def _position_axis(shape: Sequence[int], one_more: Sequence[int]) -> _Axis | None:
    """The axis that counts positions, from a value's shape and its shape for one position more; None: all positions
    share the value."""
    differing = [(i, b - a) for i, (a, b) in enumerate(zip(shape, one_more, strict=True)) if a != b]
    return _Axis(*differing[0]) if differing else None


class ValueHeadInputs:
    """The inputs of the value head, for each position that was added.

    If the value head alone is trained, the rest of the net gives it the same inputs in each step, so they are computed
    only once.
    """

    def __init__(self, function: Callable[..., Any], trained: Any, frozen: Any, batch: int) -> None:
        """`function` gives the value head's output [n, ...] from trained and frozen parameters and planes."""
        self._rows = TOGETHER if batch % TOGETHER == 0 else batch
        self._cut = _cut(function, trained, frozen, self._rows)
        # One position more shows the axes that count positions.
        other = _cut(function, trained, frozen, self._rows + 1)
        self._axes = [_position_axis(*pair) for pair in zip(self._cut.shapes, other.shapes, strict=True)]
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

    def inputs_of(self, batch: Batch, planes: Callable[[Batch], Any]) -> Crossing:
        """The head's inputs for a batch: kept or computed now."""
        assert batch.key is not None
        places = [self._places.get(key, -1) for key in batch.key.tolist()]
        if -1 in places:
            crossing: Crossing = self._before(self._frozen, planes(batch))
            return crossing
        return [table[places] for table in self._tables], self._shared

    def value(self, trained: Any, crossing: Crossing) -> Any:
        """The value head's output; runs inside compiled code."""
        (by_position, shared), leaves, outputs = crossing, jax.tree.leaves(trained), []
        for begin in range(0, len(by_position[0]), self._rows):
            position_values, shared_values = iter(by_position), iter(shared)
            rows = slice(begin, begin + self._rows)
            part = [
                next(shared_values) if axis is None else axis.back(next(position_values)[rows]) for axis in self._axes
            ]
            outputs.append(self._cut.after(*leaves, *part)[0])
        return jnp.concatenate(outputs)

    def _computed(self, frozen: Any, planes: Any) -> Crossing:
        leaves, parts, shared = jax.tree.leaves(frozen), [], []
        for begin in range(0, len(planes), self._rows):
            values = list(zip(self._cut.before(*leaves, planes[begin : begin + self._rows]), self._axes, strict=True))
            parts.append([axis.first(x) for x, axis in values if axis is not None])
            shared = [x for x, axis in values if axis is None]
        return [jnp.concatenate(columns) for columns in zip(*parts, strict=True)], shared
