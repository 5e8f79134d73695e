"""The losses against a few lines of NumPy at float64, and their gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scipy.stats import entropy

from valuerepair.arrays import Floats

jax: Any = pytest.importorskip("jax")

from valuerepair.training import losses  # noqa: E402  # needs JAX

N, MOVES = 7, 1858


@contextmanager
def at_float64() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.fixture
def dice() -> np.random.Generator:
    return np.random.default_rng(5)


def exact(function: Callable[..., Any], *arrays: Any) -> Floats:
    """The result at float64."""
    with at_float64():
        return np.asarray(function(*(jax.numpy.asarray(array) for array in arrays)), np.float64)


def shares_of(dice: np.random.Generator) -> Floats:
    """Shares of visits over some 30 legal moves, -1 elsewhere; the last position has none."""
    shares = np.full((N, MOVES), -1.0)
    for row in shares:
        legal = dice.choice(MOVES, 30, replace=False)
        row[legal] = dice.dirichlet(np.ones(30))
    shares[-1, shares[-1] >= 0] = 0
    return shares


def softmax(x: Floats) -> Floats:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def check_gradient(function: Callable[[Any], Any], at: Floats, dice: np.random.Generator) -> None:
    """The gradient of the sum against central differences, in directions drawn at random."""
    with at_float64():
        gradient = np.asarray(jax.grad(lambda x: function(x).sum())(jax.numpy.asarray(at)))
    for _ in range(5):
        along, step = dice.normal(size=at.shape), 1e-5
        ahead, behind = (exact(function, at + side * step * along).sum() for side in (1, -1))
        assert (gradient * along).sum() == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-8)


def test_policy_is_cross_entropy_over_legal_moves(dice: np.random.Generator) -> None:
    logits, shares = dice.normal(0, 3, (N, MOVES)), shares_of(dice)
    expected = []
    for x, share in zip(logits, shares, strict=True):
        legal = share >= 0
        expected.append(-(share[legal] * np.log(softmax(x[legal]))).sum())
    assert expected[-1] == 0
    np.testing.assert_allclose(exact(losses.policy, logits, shares), expected, rtol=1e-12)
    check_gradient(lambda x: losses.policy(x, jax.numpy.asarray(shares)), logits, dice)


def test_policy_kl_is_that_of_two_softmaxes(dice: np.random.Generator) -> None:
    new, old = dice.normal(0, 3, (2, N, MOVES))
    legal = shares_of(dice) >= 0
    expected = []
    for x, y, moves in zip(new, old, legal, strict=True):
        p, q = softmax(y[moves]), softmax(x[moves])
        expected.append((p * np.log(p / q)).sum())
    nothing = np.zeros((N, MOVES))
    np.testing.assert_allclose(exact(losses.policy_kl, new, old, legal, nothing), expected, rtol=1e-10)
    np.testing.assert_array_equal(exact(losses.policy_kl, old, old, legal, nothing), 0)
    constants = tuple(map(jax.numpy.asarray, (old, legal, nothing)))
    check_gradient(lambda x: losses.policy_kl(x, *constants), new, dice)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_share_of_the_target_is_on_the_judge_s_move(share: float, dice: np.random.Generator) -> None:
    """KL of the mixture, by scipy; the last position has no judge's move. At the target there is nothing to learn."""
    new, old = dice.normal(0, 3, (2, N, MOVES))
    legal, judged = shares_of(dice) >= 0, np.zeros((N, MOVES))
    best = [dice.choice(np.flatnonzero(moves)) for moves in legal]
    judged[np.arange(N - 1), best[:-1]] = share
    targets = [(1 - judged[i].sum()) * softmax(old[i, moves]) + judged[i, moves] for i, moves in enumerate(legal)]
    expected = [entropy(t, softmax(new[i, moves])) for i, (t, moves) in enumerate(zip(targets, legal, strict=True))]
    np.testing.assert_allclose(exact(losses.policy_kl, new, old, legal, judged), expected, rtol=1e-10)
    constants = tuple(map(jax.numpy.asarray, (old, legal, judged)))
    check_gradient(lambda x: losses.policy_kl(x, *constants), new, dice)
    for i, moves in enumerate(legal):
        new[i, moves] = np.log(np.maximum(targets[i], 1e-12))
    np.testing.assert_allclose(exact(losses.policy_kl, new, old, legal, judged), 0, atol=1e-9)


def test_wdl_is_cross_entropy(dice: np.random.Generator) -> None:
    logits, target = dice.normal(0, 2, (N, 3)), dice.dirichlet(np.ones(3), N)
    expected = [-(t * np.log(softmax(x))).sum() for x, t in zip(logits, target, strict=True)]
    np.testing.assert_allclose(exact(losses.wdl, logits, target), expected, rtol=1e-12)
    check_gradient(lambda x: losses.wdl(x, jax.numpy.asarray(target)), logits, dice)


def test_scalar_is_squared_error(dice: np.random.Generator) -> None:
    value, target = dice.uniform(-1, 1, N), dice.dirichlet(np.ones(3), N)
    np.testing.assert_allclose(exact(losses.scalar, value, target), (value - target[:, 0] + target[:, 2]) ** 2)
    check_gradient(lambda x: losses.scalar(x, jax.numpy.asarray(target)), value, dice)


def test_moves_left_is_hubers_loss(dice: np.random.Generator) -> None:
    off = np.array([0, 3, -9.9, 10, 11, -60, 5])
    target = dice.uniform(0, 100, N)
    plies = target + off
    target[-1] = np.nan
    # Huber, Ann. Math. Stat. 35 (1964), of the error in 20 plies, with delta 0.5.
    e = np.abs(off) / 20
    expected = np.where(e <= 0.5, e**2 / 2, 0.5 * (e - 0.25))
    expected[-1] = 0
    np.testing.assert_allclose(exact(losses.moves_left, plies, target), expected, rtol=1e-9, atol=1e-15)
    check_gradient(lambda x: losses.moves_left(x, jax.numpy.asarray(target)), plies + 1e-3, dice)
    gradient = np.asarray(
        jax.grad(lambda x: losses.moves_left(x, jax.numpy.asarray(target)).sum())(jax.numpy.asarray(plies))
    )
    assert gradient[-1] == 0


def test_the_mean_is_by_weight_and_what_weighs_nothing_may_be_anything(dice: np.random.Generator) -> None:
    errors, weight = dice.uniform(size=N), dice.uniform(size=N)
    assert exact(losses.mean, errors, weight) == pytest.approx(np.average(errors, weights=weight))
    errors[0], weight[0] = np.nan, 0
    assert exact(losses.mean, errors, weight) == pytest.approx(np.average(errors[1:], weights=weight[1:]))
    assert exact(losses.mean, errors, np.zeros(N)) == 0


def test_float32_stays_float32_and_finite_for_large_logits() -> None:
    logits, target = np.array([[300, -300, 0]], np.float32), np.array([[0, 1, 0]], np.float32)
    loss = losses.wdl(jax.numpy.asarray(logits), jax.numpy.asarray(target))
    assert loss.dtype == np.float32
    assert float(loss[0]) == 600
