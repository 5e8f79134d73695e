"""The steps of training in JAX: the change of a net's parameters by a batch, and its evaluation of positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.nets.planes import CLOCK_PLANE, PLANES
from valuerepair.training import losses
from valuerepair.training.graph import HeadOutputs
from valuerepair.training.losses import LossWeights
from valuerepair.training.options import Only, TrainOptions
from valuerepair.training.samples import Batch

Array = jax.Array
Parameters = dict[str, Array]


class TrainableNet(Protocol):
    """A net as a function of its parameters; `training.graph.NetGraph` is one."""

    @property
    def parameters(self) -> Mapping[str, NDArray[np.float32]]: ...
    def forward(self, parameters: Mapping[str, Any], planes: Any) -> HeadOutputs: ...
    def of_head(self, name: str) -> frozenset[str]: ...


class State(NamedTuple):
    """The state that a step changes: the trained parameters, and their moments in Adam."""

    parameters: Parameters
    moments: Any


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
        self._has_wdl = self._check_heads()

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
        return State(parameters, self._optimizer.init(parameters))

    def step(self, state: State, batch: Batch, number: int) -> tuple[State, dict[str, Array]]:
        """The state after step `number`, from 0 on, and the losses before it; `state` cannot be used again."""
        rate = np.float32(self._options.rate(number))
        result: tuple[State, dict[str, Array]] = self._step(state, self._frozen, self._old, batch, rate)
        return result

    def evaluate(self, parameters: Mapping[str, Any], batch: Batch) -> Answers:
        """The answers of the net with these trained parameters for a batch."""
        answers: Answers = self._judge(dict(parameters), self._frozen, self._old, batch)
        return answers

    def _one_step(
        self, state: State, frozen: Parameters, old: Parameters, batch: Any, rate: Any
    ) -> tuple[State, dict[str, Array]]:
        def loss(parameters: Parameters) -> tuple[Array, dict[str, Array]]:
            parts = self._evaluate(parameters, frozen, old, batch).parts
            means = {name: losses.mean(values, batch.weight) for name, values in parts.items()}
            total = jnp.zeros((), jnp.float32) + sum(getattr(self._weights, name) * means[name] for name in means)
            return total, {"loss": total, **means}

        gradient, result = jax.grad(loss, has_aux=True)(state.parameters)
        updates, moments = self._optimizer.update(gradient, state.moments, state.parameters)
        parameters = {name: value - rate * updates[name] for name, value in state.parameters.items()}
        return State(parameters, moments), result

    def _evaluate(self, parameters: Parameters, frozen: Parameters, old: Parameters, batch: Any) -> Answers:
        """The answers for a `Batch` of JAX's arrays."""
        legal = batch.shares >= 0
        policy = jnp.zeros(batch.shares.shape, jnp.float32)
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
        if self._has_wdl:
            q, value = losses.q_of(jax.nn.softmax(heads.wdl, axis=1)), losses.wdl(heads.wdl, batch.wdl)
        else:
            q, value = heads.value, losses.scalar(heads.value, batch.wdl)
        return Answers(q, policy, {"value": value * batch.value_weight, **parts})
