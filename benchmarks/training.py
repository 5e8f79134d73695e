"""Speed of steps of training."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.comparison import BenchData, Comparison, compare
from valuerepair.nets.registry import locate

if TYPE_CHECKING:
    import jax

    from valuerepair.training.graph import NetGraph

STEP_BATCH = 256


def steps(data: BenchData) -> Comparison:
    """Positions/s of forward and backward of a whole net, against the same with JAX's own convolutions."""
    import jax

    from valuerepair.training.graph import NetGraph

    planes, target = _training_batch()

    def work(*, by_winograd: bool) -> Callable[[], float]:
        net = NetGraph.open(str(locate(data.net)), by_winograd=by_winograd)
        step = jax.jit(jax.value_and_grad(partial(_loss, net)))
        parameters = jax.device_put(net.parameters)
        float(step(parameters, planes, target)[0])

        def some() -> float:
            begin, done = time.perf_counter(), 0
            while time.perf_counter() - begin < data.seconds:
                float(step(parameters, planes, target)[0])
                done += STEP_BATCH
            return done

        return some

    ours, theirs = work(by_winograd=True), work(by_winograd=False)
    return compare("training-steps", "positions", "JAX's own convolutions", ours, theirs, target=1.9)


def _training_batch() -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Planes as dense as those of positions, and a move for each."""
    chance = np.random.default_rng(0)
    planes = (chance.random((STEP_BATCH, 112, 8, 8)) < 0.1).astype(np.float32)
    return planes, chance.integers(0, 1858, STEP_BATCH).astype(np.int32)


def _loss(net: NetGraph, parameters: Mapping[str, jax.Array], planes: jax.Array, move: jax.Array) -> jax.Array:
    import jax
    import jax.numpy as jnp

    heads = net.forward(parameters, planes)
    assert heads.policy is not None
    policy = -jnp.take_along_axis(jax.nn.log_softmax(heads.policy), move[:, None], axis=1).mean()
    if heads.wdl is not None:
        return policy - jax.nn.log_softmax(heads.wdl)[:, 0].mean()
    assert heads.value is not None
    return policy + jnp.square(heads.value - 1).mean()
