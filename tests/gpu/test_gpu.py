"""On a machine with an NVIDIA GPU: `pytest -m gpu tests/gpu`. What a GPU computes, against the CPU at float32."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from tests.parity.device_parity import GAMES, differences, real_positions
from valuerepair.chess.positions import PositionBatch
from valuerepair.nets import canary, devices
from valuerepair.nets.devices import BY_WORD
from valuerepair.nets.net import Net, open_net

pytestmark = pytest.mark.gpu
POSITIONS = 1000
ON_GPU = ("cuda", "cuda:f16")


@pytest.fixture(params=ON_GPU)
def net(request: pytest.FixtureRequest, net_file: str) -> Iterator[Net]:
    device = BY_WORD[request.param]
    if (reason := devices.why_not(device.provider)) is not None:
        pytest.skip(f"{request.param} does not run here: {reason}")
    with open_net(net_file, device=request.param, threads=3) as opened:
        yield opened


@cache
def read_games() -> PositionBatch:
    return real_positions(str(GAMES), POSITIONS)


@pytest.fixture
def games(net: Net) -> PositionBatch:
    """Not for the whole module: reading them takes seconds, and without a GPU there is no `net` to read them for."""
    return read_games()


def test_values_stay_within_the_bound(net: Net, net_file: str, games: PositionBatch) -> None:
    with open_net(net_file, device="cpu") as reference:
        found = differences(net.evaluate_with_priors(games), reference.evaluate_with_priors(games))
    bound = canary.BOUNDS[net.session.device.precision]
    assert found.largest <= bound.q
    assert found.prior <= bound.prior
    # Half precision that changes nothing would be float32 under another name, and slower.
    assert (found.mean > 1e-5) == (net.session.device.precision == "f16")


def test_any_batch_gives_the_same(net: Net, games: PositionBatch) -> None:
    whole = net.evaluate(games.take(np.arange(64))).q
    most = canary.BOUNDS[net.session.device.precision].q
    for n in (1, 2, 3, 7, 8, 9, 31, 63):
        assert np.abs(net.evaluate(games.take(np.arange(n))).q - whole[:n]).max() <= most
