"""The losses of training: one number per position and head, in JAX, by the formulas of lc0's trainers.

Each function takes the net's outputs for n positions and their targets, and returns [n]; formulas and sources are in
docs/methods.md, "Training". Values are from the side to move.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

Array = jax.Array

# As in lczero-training: errors of moves left are in units of 20 plies, and are squared up to 10 plies.
MOVES_LEFT_SCALE = 20.0
MOVES_LEFT_DELTA = 10.0 / MOVES_LEFT_SCALE
# A logit this low has no effect and a gradient of 0; an infinite one would give NaN.
OUT = -1e10


@dataclass(frozen=True, slots=True)
class LossWeights:
    """The factor of each loss in the sum that training minimizes; 0 leaves it out."""

    policy: float = 1.0
    value: float = 1.0
    moves_left: float = 1.0
    policy_kl: float = 0.0


def policy(logits: Array, shares: Array) -> Array:
    """Cross-entropy of the legal moves' softmax on the shares of visits; both [n, 1858], shares -1 where illegal.

    0 for a position without shares of visits: all of its legal moves have 0.
    """
    return -jnp.sum(jnp.maximum(shares, 0) * _log_softmax(logits, shares >= 0), axis=1)


def policy_kl(logits: Array, old: Array, legal: Array, judged: Array) -> Array:
    """KL(target || policy) over the legal moves, in nats. All are [n, m]: `logits` and `old` are logits.

    `legal` is a mask, and `judged` has the judge's shares of moves. The target is `judged` plus the old policy with the
    remaining share; in a row without judged moves it is the old policy.
    """
    old_log_p, log_p = _log_softmax(old, legal), _log_softmax(logits, legal)
    old_share = 1 - jnp.sum(judged, axis=1, keepdims=True)
    target = jnp.where(legal, judged + old_share * jnp.exp(old_log_p), 0)
    # This form makes the divergence of a policy from itself exactly 0.
    log_target = jnp.where((judged > 0) | (old_share < 1), jnp.log(jnp.where(target > 0, target, 1)), old_log_p)
    return jnp.sum(jnp.where(legal, target * (log_target - log_p), 0), axis=1)


def wdl(logits: Array, target: Array) -> Array:
    """Cross-entropy of win, draw, loss; both [n, 3]."""
    return -jnp.sum(target * jax.nn.log_softmax(logits, axis=1), axis=1)


def scalar(value: Array, target: Array) -> Array:
    """Squared error of Q; `value` [n], `target` [n, 3] as for `wdl`."""
    return jnp.square(value - q_of(target))


def moves_left(plies: Array, target: Array) -> Array:
    """Huber's loss of the plies left, both [n]; 0 where the target is NaN."""
    has_target = ~jnp.isnan(target)
    error = jnp.abs(plies - jnp.where(has_target, target, plies)) / MOVES_LEFT_SCALE
    small = jnp.minimum(error, MOVES_LEFT_DELTA)
    return small * (error - small / 2)


def q_of(probabilities: Array) -> Array:
    """Q = W - L of [n, 3]."""
    return probabilities[:, 0] - probabilities[:, 2]


def mean(losses: Array, weight: Array) -> Array:
    """The mean of [n] by weight; 0 where all weights are 0."""
    total = jnp.sum(weight)
    return jnp.sum(jnp.where(weight > 0, losses, 0) * weight) / jnp.where(total > 0, total, 1)


def _log_softmax(logits: Array, legal: Array) -> Array:
    return jax.nn.log_softmax(jnp.where(legal, logits, OUT), axis=1)
