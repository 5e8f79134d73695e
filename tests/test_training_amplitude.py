"""The amplitude step: lambda is the one that least squares give where a net is linear, and what is written is it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

jax: Any = pytest.importorskip("jax")

from tests.linear_net import LinearNet  # noqa: E402
from tests.training_doubles import InMemory, as_held, positions  # noqa: E402
from valuerepair.training.fit import (  # noqa: E402
    Fitted,
    Validation,
    find_amplitude,
    fit,
)
from valuerepair.training.learner import Learner, planes_of  # noqa: E402
from valuerepair.training.losses import LossWeights  # noqa: E402
from valuerepair.training.options import TrainOptions  # noqa: E402
from valuerepair.training.samples import Samples  # noqa: E402
from valuerepair.training.sources import TrainingStream  # noqa: E402

ONLY_VALUE = LossWeights(policy=0, moves_left=0)


class StraightNet(LinearNet):
    """Its Q is linear in the parameters of the value head, all else stays: what a lambda does can be solved for."""

    def __init__(self) -> None:
        super().__init__("scalar", moves_left=False)

    def forward(self, parameters: Any, planes: Any) -> Any:
        heads = super().forward(parameters, planes)
        assert heads.value is not None
        return heads._replace(value=jax.numpy.arctanh(jax.numpy.clip(heads.value, -0.999999, 0.999999)))


@pytest.fixture(scope="module")
def samples() -> Samples:
    return positions(600)


def learning(samples: Samples, q: NDArray[np.float64]) -> Samples:
    """The same positions with these Q to learn, and judged by them."""
    wdl = np.stack([(1 + q) / 2, 0 * q, (1 - q) / 2], 1)
    return replace(samples, wdl=wdl.astype(np.float32), deep_q=q.astype(np.float32))


def q_of(net: LinearNet, parameters: Any, samples: Samples) -> NDArray[np.float64]:
    batch = samples.batch()
    planes = planes_of(jax.numpy.asarray(batch.bits), jax.numpy.asarray(batch.rule50))
    return np.asarray(net.forward({**net.parameters, **parameters}, planes).value, np.float64)


def of_value(net: LinearNet) -> dict[str, NDArray[np.float32]]:
    return {name: value for name, value in net.parameters.items() if name.startswith("value/")}


@pytest.mark.parametrize("factor", [0.37, 0.8, 1.0, 1.45])
@pytest.mark.slow
def test_lambda_is_that_of_least_squares(factor: float, samples: Samples) -> None:
    """Labels are old + factor (new - old) and noise; the solution is numpy's, of the noisy ones."""
    net = StraightNet()
    old = of_value(net)
    dice = np.random.default_rng(7)
    new = {name: (value + dice.normal(0, 0.05, value.shape)).astype(np.float32) for name, value in old.items()}
    before, after = q_of(net, old, samples), q_of(net, new, samples)
    weight = dice.uniform(0.5, 3, len(samples))
    labels = before + factor * (after - before) + dice.normal(0, 0.05, len(samples))
    root = np.sqrt(weight)
    solved = np.linalg.lstsq((root * (after - before))[:, None], root * (labels - before))[0][0]
    assert solved == pytest.approx(factor, abs=0.1)
    held = replace(learning(samples, labels), weight=weight.astype(np.float32))
    learner = Learner(net, TrainOptions(only="value"), ONLY_VALUE)
    amplitude = find_amplitude(
        Validation([as_held(held)], learner, ONLY_VALUE, TrainOptions(), old), old, new, quiet=True
    )
    assert amplitude.factor == pytest.approx(solved, abs=0.011)
    np.testing.assert_allclose(
        q_of(net, amplitude.parameters, samples), before + amplitude.factor * (after - before), atol=1e-5
    )
    assert amplitude.measures["mean_dq"] == pytest.approx(
        np.average(np.abs(before + amplitude.factor * (after - before) - labels), weights=weight), abs=1e-4
    )


def trained(held: Samples | None, samples: Samples, folder: Path, net: LinearNet | None = None, **words: Any) -> Fitted:
    options = TrainOptions(
        **{"only": "value", "steps": 300, "batch": 128, "lr": 1e-2, "warmup": 0, "every": 300, "patience": 0, **words}
    )
    return fit(
        net or StraightNet(),
        TrainingStream([InMemory(samples)], options.batch, 0),
        [] if held is None else [as_held(held)],
        options,
        policy_kl=0.0,
        checkpoint=folder / "checkpoint",
        identity={"held": held is not None},
        quiet=True,
    )


def too_far(samples: Samples) -> tuple[Samples, Samples]:
    """What is trained on says a correction 1.7 times as large as what is held out."""
    net = StraightNet()
    other = {name: value + np.float32(0.1) for name, value in of_value(net).items()}
    before = q_of(net, of_value(net), samples)
    step = q_of(net, other, samples) - before
    return learning(samples, before + 1.7 * step), learning(samples, before + step)


@pytest.mark.slow
def test_training_that_went_too_far_is_taken_back(samples: Samples, tmp_path: Path) -> None:
    train, held = too_far(samples)
    outcome = trained(held, train, tmp_path)
    assert outcome.amplitude is not None
    assert outcome.amplitude.factor == pytest.approx(1 / 1.7, abs=0.03)
    last = outcome.curve[-1]
    assert outcome.amplitude.measures["mean_dq"] < 0.1 * last["mean_dq"]
    assert outcome.amplitude.measures["loss"] < 0.02 * last["loss"]
    net = StraightNet()
    off = np.abs(q_of(net, outcome.parameters, samples) - held.deep_q)
    assert off.mean() == pytest.approx(outcome.amplitude.measures["mean_dq"], abs=1e-5)


@pytest.mark.slow
def test_without_games_held_out_and_without_a_gain_there_is_no_amplitude(samples: Samples, tmp_path: Path) -> None:
    train, _ = too_far(samples)
    for name in ("none", "no-gain"):
        (tmp_path / name).mkdir()
    assert trained(None, train, tmp_path / "none").amplitude is None
    net = StraightNet()
    before = q_of(net, of_value(net), samples)
    as_it_was = trained(learning(samples, before), train, tmp_path / "no-gain")
    assert (as_it_was.best_step, as_it_was.amplitude) == (0, None)
    np.testing.assert_array_equal(as_it_was.parameters["value/w"], net.parameters["value/w"])


@pytest.mark.parametrize("held_out", [True, False])
def test_a_given_amplitude_is_that_part_of_the_change(held_out: bool, samples: Samples, tmp_path: Path) -> None:
    net = StraightNet()
    labels = np.clip(q_of(net, of_value(net), samples) + 0.3, -0.9, 0.9)
    learned = learning(samples, labels)
    held = learned if held_out else None
    whole, half = (trained(held, learned, tmp_path, net, amplitude=part) for part in (1.0, 0.5))
    old = of_value(net)
    assert whole.amplitude is not None
    assert half.amplitude is not None
    assert (whole.amplitude.factor, half.amplitude.factor) == (1.0, 0.5)
    assert np.isfinite(half.amplitude.of_held_out) == held_out
    for name, value in half.parameters.items():
        np.testing.assert_allclose(value, (old[name] + whole.parameters[name]) / 2, rtol=1e-5, atol=1e-6)
    assert bool(half.amplitude.measures) == held_out
