"""Nets written back: what lc0 and we read of them is what was trained, and what did not change stays byte for byte."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import lc0_oracle, random_nets
from tests.random_nets import BY_NAME, KINDS
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.nets.conversion import lc0_q
from valuerepair.nets.net import describe_net
from valuerepair.nets.planes import encode
from valuerepair.nets.protobuf import LC0
from valuerepair.nets.weights import read_net_file, unpack

pytest.importorskip("jax", reason="pip install 'valuerepair[train]'")

import jax

from valuerepair.training import write_net as writing  # after the check that jax is here
from valuerepair.training.graph import NetGraph
from valuerepair.training.write_net import check_written, rounded_together, write_net

REAL = ("maia-1900", "maia-1100", "meangirl-8")
# Of each kind of body and policy head; other tests here write dense embeddings and policies.
EACH_LAYER = ("meangirl-8", "se-convolution-policy", "map-smolgen")
NOTES = {"steps": 300, "lr": 1e-4}


@pytest.fixture(scope="module", autouse=True)
def lc0_is_here(lc0: str) -> None:
    """The converter."""


@pytest.fixture(scope="module")
def positions() -> PositionBatch:
    """With half-move clocks as in games."""
    return PositionBatch.from_positions([p for p in lc0_oracle.varied() if int(p.fen.split()[4]) <= 30])


def net_of(name: str, folder: Path, shared_data: Path) -> Path:
    if name in REAL:
        return shared_data / "nets" / f"{name}.pb.gz"
    return random_nets.write(BY_NAME[name], folder / f"{name}.pb.gz")


def planes_for(path: Path, positions: PositionBatch) -> Any:
    header = read_net_file(path).header
    assert header is not None
    return encode(positions, input_format=header.input_format)


def trained(net: NetGraph, seed: int = 0, by: float = 0.02) -> dict[str, Any]:
    """All parameters a little different."""
    chance = np.random.default_rng(seed)
    return {
        name: (value * chance.normal(1, by, value.shape)).astype(np.float32) for name, value in net.parameters.items()
    }


@pytest.mark.parametrize(
    "name",
    [
        name if name in EACH_LAYER else pytest.param(name, marks=pytest.mark.slow)
        for name in ("maia-1900", "meangirl-8", *(kind.name for kind in KINDS))
    ],
)
def test_what_is_read_is_what_was_trained(
    name: str, tmp_path: Path, shared_data: Path, positions: PositionBatch
) -> None:
    """With every layer changed, by lc0's reader and ours."""
    path, new = net_of(name, tmp_path, shared_data), tmp_path / "new.pb.gz"
    net, planes = NetGraph.open(path), planes_for(path, positions)
    parameters = trained(net)
    write_net(path, parameters, frozenset(parameters), new, NOTES)
    q, p = check_written(new, net, parameters, planes)
    assert q <= 3e-3
    assert p <= 3e-3
    before = lc0_q(path, planes)
    assert np.abs(lc0_q(new, planes) - before).max() > 0.01  # it was another net


def test_it_is_compared_at_full_precision(
    tmp_path: Path, shared_data: Path, positions: PositionBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU JAX multiplies in TF32 by default, which is off by 4e-3 in Q (an H100, maia-1900)."""
    path = shared_data / "nets" / "maia-1900.pb.gz"
    net, seen = NetGraph.open(path), list[Any]()
    forward = net.forward

    def recorded(parameters: Any, planes: Any) -> Any:
        seen.append(jax.config.jax_default_matmul_precision)  # type: ignore[attr-defined]  # made as JAX is loaded
        return forward(parameters, planes)

    monkeypatch.setattr(net, "forward", recorded)
    check_written(path, net, net.parameters, planes_for(path, positions))
    assert seen
    assert set(seen) == {"highest"}


@pytest.mark.parametrize("name", ["maia-1900", "maia-1100"])
@pytest.mark.slow
def test_high_clocks_cost_little(name: str, tmp_path: Path, shared_data: Path) -> None:
    """With each weight rounded by itself these were 2.9e-3 and 4.2e-3."""
    path, new = shared_data / "nets" / f"{name}.pb.gz", tmp_path / "new.pb.gz"
    long = PositionBatch.from_positions([p for p in lc0_oracle.varied() if int(p.fen.split()[4]) > 30])
    assert len(long) > 15
    net = NetGraph.open(path)
    write_net(path, net.parameters, frozenset(net.parameters), new, NOTES)
    assert check_written(new, net, net.parameters, planes_for(path, long))[0] < 1.5e-3


@pytest.mark.parametrize("name", ["maia-1900", "se-dense-policy", "dense-heads"])
def test_what_did_not_change_stays_byte_for_byte(name: str, tmp_path: Path, shared_data: Path) -> None:
    path, new = net_of(name, tmp_path, shared_data), tmp_path / "new.pb.gz"
    net = NetGraph.open(path)
    parameters = net.parameters | {k: v for k, v in trained(net).items() if k in net.of_head("value")}
    write_net(path, parameters, net.of_head("value"), new, NOTES)
    old, now = (LC0.Net.FromString(unpack(file.read_bytes())) for file in (path, new))
    value = {"value", "ip1_val_w", "ip1_val_b", "ip2_val_w", "ip2_val_b"}
    for field in {"value_heads"} if name == "dense-heads" else value:
        assert getattr(old.weights, field) != getattr(now.weights, field)
        now.weights.ClearField(field)
        getattr(now.weights, field).CopyFrom(getattr(old.weights, field))
    now.training_params.CopyFrom(old.training_params)
    assert now.SerializeToString() == old.SerializeToString()
    if name == "maia-1900":  # lc0's own nets have their fields in order
        assert old.SerializeToString() == unpack(path.read_bytes())


def test_the_training_is_noted(tmp_path: Path, shared_data: Path, lc0: str) -> None:
    path, new = shared_data / "nets" / "maia-1900.pb.gz", tmp_path / "new.pb.gz"
    net = NetGraph.open(path)
    for source, notes in ((path, NOTES), (new, {**NOTES, "lambda": 0.81})):
        write_net(source, net.parameters, frozenset({"/value/dense2/add/w"}), new, notes)
    header = read_net_file(new).header
    assert header is not None
    assert header.training_steps == 400_000 + 600
    said = subprocess.run([lc0, "describenet", f"--weights={new}"], capture_output=True, text=True, check=True).stdout
    theirs = dict(re.findall(r"^ *([\w ]+): (.+)$", said, re.M))
    assert theirs["Training steps"] == "400600"
    assert float(theirs["Learning rate"]) == pytest.approx(1e-4)
    once = r"valuerepair \S+: 300 steps at 0\.0001 from"
    twice = rf"{once} maia-1900 e2f565f42d7c; {once} new \w{{12}}, lambda 0\.81"
    assert re.fullmatch(twice, theirs["Lc0 Params"])
    described = describe_net(str(new))
    assert described.facts["training"] == theirs["Lc0 Params"]
    assert theirs["Lc0 Params"] in described.lines()[-1]


def test_the_same_parameters_make_the_same_file(tmp_path: Path) -> None:
    path = random_nets.write(BY_NAME["se-dense-policy"], tmp_path / "net.pb.gz")
    net = NetGraph.open(path)
    for name in ("a.pb.gz", "b.pb.gz"):
        write_net(path, trained(net), frozenset(net.parameters), tmp_path / name, NOTES)
    written = (tmp_path / "a.pb.gz").read_bytes()
    assert written == (tmp_path / "b.pb.gz").read_bytes()
    assert written[4:8] == bytes(4)  # gzip's time
    assert gzip.decompress(written).startswith(b"\x0d\xc0\x01\x00\x00")


def test_a_written_net_that_is_another_is_found_out(tmp_path: Path, positions: PositionBatch) -> None:
    path, new = random_nets.write(BY_NAME["se-dense-policy"], tmp_path / "net.pb.gz"), tmp_path / "new.pb.gz"
    net = NetGraph.open(path)
    write_net(path, trained(net), frozenset(net.parameters), new, NOTES)
    q, p = check_written(new, net, trained(net, seed=1), planes_for(path, positions))
    assert min(q, p) > 5e-3


def test_an_embedding_that_policy_heads_share_changes_for_the_trained_head_alone(tmp_path: Path) -> None:
    path, new = random_nets.write(BY_NAME["dense-heads"], tmp_path / "net.pb.gz"), tmp_path / "new.pb.gz"
    net = NetGraph.open(path)
    parameters, own = trained(net), net.of_head("policy")
    assert {"/policy/dense1/matmul/w", "/policy/dense1/add/w"} <= own
    write_net(path, parameters, own, new, NOTES)
    written = NetGraph.open(new).parameters
    assert all(np.abs(written[name] - parameters[name]).max() < 1e-4 for name in own)
    before, after = (LC0.Net.FromString(unpack(file.read_bytes())).weights for file in (path, new))
    assert after.policy_heads.vanilla.HasField("ip_pol_w")
    after.policy_heads.vanilla.CopyFrom(before.policy_heads.vanilla)
    assert after == before  # the embedding of all others, and their own layers


def test_a_parameter_that_is_not_in_its_field_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, new = random_nets.write(BY_NAME["map"], tmp_path / "net.pb.gz"), tmp_path / "new.pb.gz"
    net, name = NetGraph.open(path), "/value/dense1/add/w"
    for alone in ("ip2_val_b", "ip_mov_w", "none"):  # a layer of another size, none, and no field at all
        monkeypatch.setitem(writing._VALUE, name, alone)
        with pytest.raises(ValueRepairError, match=f"{path}: the parameter {name}"):
            write_net(path, net.parameters, frozenset({name}), new, NOTES)
    with pytest.raises(ValueRepairError, match="/value/none/w"):
        writing.place_of("/value/none/w", LC0.Weights())
    assert not new.exists()


def test_layers_of_other_encodings_are_not_read() -> None:
    layer = writing.encoded(np.arange(5, dtype=np.float32))
    assert writing.decoded(layer) == pytest.approx(np.arange(5), abs=4 / 65535)
    values, layer.encoding = writing.decoded(layer), 1
    assert np.array_equal(writing.decoded(layer), values)
    layer.encoding = 3
    with pytest.raises(ValueError, match="the encoding is not LINEAR16"):
        writing.decoded(layer)


def test_weights_of_the_clock_are_rounded_so_that_their_sums_are_right() -> None:
    """Less than half as far off over the board's squares as each weight rounded by itself; the clock makes 99 of it."""
    steps = np.random.default_rng(0).uniform(0, 1000, (200, 3, 3))
    padded = np.pad(np.ones((8, 8)), 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(64, 9)

    def error(rounded: Any) -> Any:
        return np.sqrt(np.square((rounded - steps).reshape(200, 9) @ windows.T).mean(axis=1))

    ours, plain = error(rounded_together(steps)), error(np.rint(steps))
    assert np.abs(rounded_together(steps) - steps).max() < 1
    assert (ours <= plain + 1e-9).all()
    assert ours.mean() < 0.5 * plain.mean()
