"""Nets in JAX: values as ONNX Runtime's and lc0's, gradients as by finite differences, Winograd as convolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import lc0_oracle, random_nets
from tests.linear_net import LinearNet
from tests.parity.float64 import q_in_double
from tests.random_nets import BY_NAME, KINDS
from valuerepair.chess.positions import PositionBatch
from valuerepair.nets import conversion
from valuerepair.nets.conversion import lc0_q, to_onnx
from valuerepair.nets.planes import encode
from valuerepair.nets.session import RawOutputs, Session
from valuerepair.nets.weights import read_net_file

jax = pytest.importorskip("jax", reason="pip install 'valuerepair[train]'")
jnp = jax.numpy

from valuerepair.training import graph  # noqa: E402  # after the check that jax is here
from valuerepair.training.graph import CLOCK, HeadOutputs, NetGraph, Parameters  # noqa: E402
from valuerepair.training.write_net import check_written, write_net  # noqa: E402

REAL = ("maia-1900", "meangirl-8")
# Of each kind of body, embedding and value head; the others are slow tests.
EACH_LAYER = ("maia-1900", "se-convolution-policy", "map-smolgen", "dense-heads")


@pytest.fixture(scope="module", autouse=True)
def lc0_is_here(lc0: str) -> None:
    """The converter."""


@pytest.fixture(scope="module")
def positions() -> PositionBatch:
    return PositionBatch.from_positions(lc0_oracle.varied()[::5])


@pytest.fixture(
    scope="module",
    params=[
        name if name in EACH_LAYER else pytest.param(name, marks=pytest.mark.slow)
        for name in (*REAL, *(kind.name for kind in KINDS))
    ],
)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param in REAL:
        folder: Path = request.getfixturevalue("shared_data")
        return folder / "nets" / f"{request.param}.pb.gz"
    kind = BY_NAME[request.param]
    return random_nets.write(kind, tmp_path_factory.mktemp("nets") / f"{kind.name}.pb.gz")


@pytest.fixture
def double() -> Iterator[None]:
    """JAX in double precision."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def q_of(heads: HeadOutputs) -> Any:
    if heads.wdl is None:
        return np.asarray(heads.value)
    wdl = jax.nn.softmax(heads.wdl)
    return np.asarray(wdl[:, 0] - wdl[:, 2])


def by_onnx_runtime(path: Path, planes: Any) -> RawOutputs:
    file = read_net_file(path)
    return Session(to_onnx(file)).run(planes)


def test_it_computes_what_onnx_runtime_and_lc0_compute(path: Path, positions: PositionBatch) -> None:
    header = read_net_file(path).header
    assert header is not None
    planes = encode(positions, input_format=header.input_format)
    net = NetGraph.open(path, by_winograd=True)
    ours, theirs = jax.jit(net.forward)(net.parameters, planes), by_onnx_runtime(path, planes)
    q = q_of(ours)
    assert np.abs(q - theirs.q).max() <= 1e-5
    assert np.abs(q - lc0_q(path, planes)).max() <= 1e-4
    assert np.abs(np.asarray(ours.policy) - theirs.policy).max() <= 1e-4
    assert (ours.moves_left is None, ours.wdl is None) == (theirs.mlh is None, theirs.wdl is None)
    if theirs.mlh is not None:
        assert np.abs(np.asarray(ours.moves_left) - theirs.mlh).max() <= 1e-4


def test_without_winograd_it_is_the_same(tmp_path: Path, positions: PositionBatch) -> None:
    """As on a GPU: JAX's own convolutions."""
    kind = BY_NAME["se-convolution-policy"]
    path = random_nets.write(kind, tmp_path / "net.pb.gz")
    planes, net = encode(positions, input_format=kind.input_format), NetGraph.open(path, by_winograd=False)
    ours = jax.jit(net.forward)(net.parameters, planes)
    assert "conv_general_dilated" in str(jax.make_jaxpr(net.forward)(net.parameters, planes))
    theirs = by_onnx_runtime(path, planes)
    assert np.abs(q_of(ours) - theirs.q).max() <= 1e-5
    assert np.abs(np.asarray(ours.policy) - theirs.policy).max() <= 1e-4


@pytest.mark.parametrize("name", ["se-convolution-policy", "map-smolgen", "resnet-attention-policy"])
@pytest.mark.slow
def test_in_double_precision_it_is_the_graph_to_all_digits(
    name: str, tmp_path: Path, positions: PositionBatch, double: None
) -> None:
    """Of ONNX's own reference implementation; and gradients of all heads along a random direction in each parameter."""
    kind = replace(BY_NAME[name], blocks=1)
    path = random_nets.write(kind, tmp_path / "net.pb.gz")
    planes = encode(positions.take(np.arange(3)), input_format=kind.input_format).astype(np.float64)
    net = NetGraph.open(path)
    parameters = {name: value.astype(np.float64) for name, value in net.parameters.items()}
    exact = q_in_double(to_onnx(read_net_file(path)), planes.astype(np.float32))
    chance = np.random.default_rng(1)
    weights = [chance.normal(size=(3, size)) for size in (1858, 3)] + [chance.normal(size=3) for _ in range(2)]

    def sum_of_heads(parameters: Any) -> Any:
        heads = net.forward(parameters, planes)
        return sum((head * w).sum() for head, w in zip(heads, weights, strict=True) if head is not None), heads

    figure = jax.jit(jax.value_and_grad(sum_of_heads, has_aux=True))  # compiled once for both
    (_, heads), gradient = figure(parameters)
    assert np.abs(q_of(heads) - exact).max() < 2e-7  # ONNX's constants are float32
    for name, value in parameters.items():
        step = chance.normal(size=value.shape) * (1e-6 * np.abs(value).mean())
        ahead, back = (float(figure({**parameters, name: value + sign * step})[0][0]) for sign in (1, -1))
        assert (np.asarray(gradient[name]) * step).sum() * 2 == pytest.approx(ahead - back, rel=2e-3, abs=1e-9), name


@pytest.mark.slow
def test_encoders_behind_residual_blocks(
    tmp_path: Path, positions: PositionBatch, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """lc0's CPU backend is wrong for these nets, so that the conversion is not checked, and nothing is refused."""
    monkeypatch.setattr(conversion, "cache_folder", lambda part: tmp_path)
    path, new = random_nets.write(BY_NAME["mixed"], tmp_path / "net.pb.gz"), tmp_path / "new.pb.gz"
    net, planes = NetGraph.open(path), encode(positions)
    reason = "lc0's CPU backend is wrong where encoders follow residual blocks"
    assert said[-1] == f"net.pb.gz: its conversion is not checked: {reason}"
    theirs = by_onnx_runtime(path, planes)
    ours = jax.jit(net.forward)(net.parameters, planes)
    assert np.ptp(theirs.q) > 0.1
    assert np.abs(q_of(ours) - theirs.q).max() <= 1e-5
    write_net(path, net.parameters, frozenset(net.parameters), new, {})
    assert max(check_written(new, net, net.parameters, planes)) < 1e-3


def test_winograd_is_the_convolution(double: None) -> None:
    from scipy.signal import correlate2d

    chance = np.random.default_rng(0)
    boards, kernel = chance.normal(size=(5, 6, 8, 8)), chance.normal(size=(7, 6, 3, 3))
    expected = np.zeros((5, 7, 8, 8))
    for n, o, i in np.ndindex(5, 7, 6):
        expected[n, o] += correlate2d(boards[n, i], kernel[o, i], mode="same")
    convolved = graph.convolve(jnp.asarray(boards.transpose(2, 3, 0, 1)), jnp.asarray(kernel))
    assert np.asarray(convolved).transpose(2, 3, 0, 1) == pytest.approx(expected, abs=1e-12)


def test_single_precision_loses_little_by_winograd() -> None:
    """Ten times what the plain convolution loses, at most: the points are why (the textbook's lose four times more)."""
    chance = np.random.default_rng(0)
    boards, kernel = chance.normal(size=(64, 64, 8, 8)), chance.normal(size=(64, 64, 3, 3)) / 24
    single = [jnp.asarray(x.astype(np.float32)) for x in (boards, kernel)]
    plain = np.asarray(jax.lax.conv(*single, (1, 1), "SAME"))
    convolved = np.asarray(graph.convolve(jnp.transpose(single[0], (2, 3, 0, 1)), single[1])).transpose(2, 3, 0, 1)
    assert np.abs(convolved - plain).max() < 2e-5 * np.abs(plain).max()


class LinearGraph(NetGraph):
    """`LinearNet`, which is compiled in a sixth of the time, by the chunks of every net."""

    def __init__(self) -> None:
        self._by_winograd, self._linear = True, LinearNet()
        self.parameters = self._linear.parameters

    def _run(self, parameters: Parameters, planes: Any) -> HeadOutputs:
        return self._linear.forward(parameters, planes)


@pytest.mark.parametrize("kind", ["linear", pytest.param("se-dense-policy", marks=pytest.mark.slow)])
def test_chunks_change_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, positions: PositionBatch
) -> None:
    """Batches of a pair of chunks, of several pairs, and of a number that fits none."""
    if kind == "linear":
        net: NetGraph = LinearGraph()
    else:
        path = random_nets.write(replace(BY_NAME[kind], blocks=1), tmp_path / "net.pb.gz")
        net = NetGraph.open(path, by_winograd=True)
    planes = encode(positions)[:8]

    def by_chunks(size: int) -> Any:
        monkeypatch.setattr(graph, "CHUNK", size)

        def figure(parameters: Any) -> Any:
            heads: Any = net.forward(parameters, planes)
            return (heads.wdl[:, 0] + heads.policy[:, 7] + heads.moves_left / 30).sum()

        return jax.tree.map(np.asarray, jax.jit(jax.value_and_grad(figure))(net.parameters))

    whole = by_chunks(5)
    for size in (4, 2):
        value, gradient = by_chunks(size)
        assert float(value) == pytest.approx(float(whole[0]), rel=1e-5)
        for name, expected in whole[1].items():
            assert np.abs(gradient[name] - expected).max() <= 1e-4 * np.abs(expected).max() + 1e-6, name


def test_heads_own_their_parameters(path: Path) -> None:
    net = NetGraph.open(path)
    parts = {name: net.of_head(name) for name in ("policy", "value", "moves_left")}
    assert sum(map(len, parts.values())) == len(frozenset().union(*parts.values())) < len(net.parameters)
    beginnings = {"policy": ("/policy/", "/output/policy"), "value": ("/value/",), "moves_left": ("/mlh/",)}
    for head, begin in beginnings.items():
        assert parts[head] == {name for name in net.parameters if name.startswith(begin)}
    assert bool(parts["moves_left"]) == ("/output/mlh" in net.outputs)
    # What no training changes: lc0's table of squares, and factors that follow from the shapes.
    assert not [name for name in net.parameters if name.endswith(("/scale/w", "alpha/w", "pos_encoding"))]


@pytest.mark.parametrize(
    ("name", "first", "largest_clock"),
    [
        ("se-dense-policy", "/inputconv/w/kernel", CLOCK),
        ("map", "/attn_body/matmul/w", CLOCK),
        ("map-heads", "/attn_body/matmul/w", 1.0),  # counts hectoplies
    ],
)
def test_weights_of_the_clock_are_as_large_as_others(
    name: str, first: str, largest_clock: float, tmp_path: Path
) -> None:
    path = random_nets.write(BY_NAME[name], tmp_path / "net.pb.gz")
    initial = graph.read_graph(to_onnx(read_net_file(path)).read_bytes())[1][first]
    ours = NetGraph.open(path).parameters[first]
    planes = 1 if first == "/inputconv/w/kernel" else 0
    assert np.take(ours, 109, planes) == pytest.approx(np.take(initial, 109, planes) * largest_clock)
    others = [i for i in range(initial.shape[planes]) if i != 109]
    assert np.array_equal(np.take(ours, others, planes), np.take(initial, others, planes))
