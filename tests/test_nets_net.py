"""The net: order, batches, reduction of heads and priors; ONNX files of other shapes; devices."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import lc0_oracle
from valuerepair.chess.positions import Position, PositionBatch, decode_move
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets import devices, protobuf
from valuerepair.nets.net import Net, interpret, open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.session import RawOutputs, Session
from valuerepair.nets.weights import read_net_file

MATED = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
STALEMATED = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"


def bare(*fens: str) -> PositionBatch:
    return PositionBatch.from_positions([Position(fen, fen, history_known=False) for fen in fens])


@pytest.fixture(scope="module")
def maia(maia_file: str) -> Iterator[Net]:
    with open_net(maia_file, device="cpu", threads=2) as net:
        net.session.batch_size = 16  # so that the tests' positions are several batches
        yield net


@pytest.fixture(scope="module")
def varied() -> PositionBatch:
    return PositionBatch.from_positions(lc0_oracle.varied())


def test_a_batch_equals_its_positions_alone_in_order(maia: Net, varied: PositionBatch) -> None:
    together = maia.evaluate(varied)
    for row in range(0, len(varied), 7):
        alone = maia.evaluate(varied.take([row]))
        assert together.q[row] == pytest.approx(alone.q[0], abs=2e-6)
        assert together.wdl[row] == pytest.approx(alone.wdl[0], abs=2e-6)
        assert together.best_move[row] == alone.best_move[0]


def test_heads_agree_with_each_other(maia: Net, varied: PositionBatch) -> None:
    values, (moves, _, p) = maia.evaluate_with_priors(varied)
    again = maia.priors(varied)
    assert np.array_equal(moves, again[0])
    assert p == pytest.approx(again[2], abs=2e-6)
    assert values.wdl.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(values.q, values.wdl[:, 0] - values.wdl[:, 2])
    assert np.isnan(values.moves_left).all()
    raw = maia.session.run(encode(varied))
    assert raw.wdl == pytest.approx(values.wdl, abs=2e-6)
    assert raw.value is None
    assert raw.policy.shape == (len(varied), 1858)


def test_mate_and_stalemate_have_no_best_move(maia: Net) -> None:
    start = Position("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")
    batch = PositionBatch.concat([bare(MATED), PositionBatch.from_positions([start]), bare(STALEMATED)])
    values = maia.evaluate(batch)
    assert values.best_move.tolist()[::2] == [0, 0]
    assert np.isnan(values.best_p[::2]).all()
    assert decode_move(int(values.best_move[1])) == "e2e4"  # 56 % by lc0 too
    nothing = maia.evaluate(batch.take([]))
    assert len(nothing.q) == 0
    assert nothing.wdl.shape == (0, 3)


@given(st.lists(st.lists(st.integers(-4, 4), max_size=12), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_the_best_moves_are_those_of_a_stable_sort(rows: list[list[int]]) -> None:
    softmax = [np.exp(r) / np.exp(r).sum() for r in (np.array(row, np.float64) for row in rows)]
    p = np.concatenate(softmax).astype(np.float32)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    moves = np.arange(1, len(p) + 1, dtype=np.uint16)
    raw = RawOutputs(np.zeros((len(rows), 1858), np.float32), None, np.zeros(len(rows), np.float32), None)
    values = interpret(raw, (moves, offsets, p))
    for i in range(len(rows)):
        shares = p[offsets[i] : offsets[i + 1]]
        order = np.argsort(-shares, kind="stable")[:8]
        none = 8 - len(order)
        assert values.moves[i].tolist() == [*moves[offsets[i] + order].tolist(), *[0] * none]
        np.testing.assert_array_equal(values.priors[i], np.append(shares[order], np.full(none, np.nan, np.float32)))


def test_scalar_head(shared_data: Path, varied: PositionBatch) -> None:
    with open_net(str(shared_data / "nets" / "meangirl-8.pb.gz")) as net:
        values = net.evaluate(varied)
        assert net.identity.value_head == "scalar"
    assert np.isnan(values.wdl).all()
    assert (np.abs(values.q) <= 1).all()
    assert values.q.std() > 0.05


def test_an_onnx_file_is_a_net(maia: Net, maia_onnx: Path, varied: PositionBatch) -> None:
    with open_net(str(maia_onnx), device="cpu", threads=2) as net:
        assert net.evaluate(varied).q == pytest.approx(maia.evaluate(varied).q, abs=2e-6)
        assert net.identity.sha256 == read_net_file(maia_onnx).sha256
        assert net.identity.value_head == "wdl"


def exported(lc0: str, maia_file: str, folder: Path, option: str) -> str:
    path = folder / "export.onnx"
    command = [lc0, "leela2onnx", f"--input={maia_file}", f"--output={path}", option]
    subprocess.run(command, check=True, capture_output=True)
    return str(path)


def test_lc0s_exports(maia: Net, maia_file: str, lc0: str, tmp_path: Path, varied: PositionBatch) -> None:
    """In float16 it is a net, too; with a fixed batch it is refused."""
    with open_net(exported(lc0, maia_file, tmp_path, "--onnx-data-type=f16"), device="cpu") as net:
        assert net.evaluate(varied).q == pytest.approx(maia.evaluate(varied).q, abs=4e-3)
    with pytest.raises(ValueRepairError, match=r"for any batch size; its inputs are /input/planes \[16,112,8,8\]"):
        open_net(exported(lc0, maia_file, tmp_path, "--onnx-batch-size=16"), device="cpu")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            protobuf.model({"x": ("n", 3, 224, 224)}, {"y": ("n", 3, 224, 224)}, [("Relu", ["x"], ["y"])], {}),
            "is not an lc0 net",
        ),
        (
            protobuf.model(
                {"/input/planes": ("n", 112, 8, 8)}, {"y": ("n", 112, 8, 8)}, [("Relu", ["/input/planes"], ["y"])], {}
            ),
            "is not an lc0 net",
        ),
        (b"\x08\x08not really", "ONNX Runtime cannot load it: "),
        (b"", "is empty"),
    ],
    ids=["other input", "no policy", "junk", "empty"],
)
def test_onnx_files_that_are_no_nets(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueRepairError) as error:
        open_net(str(path), device="cpu")
    assert str(error.value).startswith(f"{path}: {said}")
    assert "\n" not in str(error.value)


def test_wdl_that_is_none_is_refused(maia_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits instead of probabilities would give a wrong Q without a word."""
    honest = Session.run

    def logits(self: Session, planes: Any, options: Any = None) -> RawOutputs:
        raw = honest(self, planes, options)
        assert raw.wdl is not None
        return RawOutputs(raw.policy, np.log(raw.wdl), raw.value, raw.mlh)

    monkeypatch.setattr(Session, "run", logits)
    with pytest.raises(ValueRepairError, match="gives no probabilities"):
        Session(maia_onnx)


@pytest.fixture
def no_cuda() -> None:
    if devices.why_not(devices.CUDA) is None:
        pytest.skip("CUDA runs on this machine")


@pytest.mark.usefixtures("no_cuda")
@pytest.mark.parametrize("device", ["cuda", "cuda:f16"])
def test_a_device_that_does_not_run_is_an_error(device: str, maia_file: str) -> None:
    with pytest.raises(
        ValueRepairError, match=f"^--device {device}: .* cannot be used: .*; install .* or use --device"
    ):
        open_net(maia_file, device=device)


@pytest.mark.usefixtures("no_cuda")
def test_a_listed_provider_must_run_the_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package built with CUDA lists it even where it cannot run."""
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [devices.CUDA, devices.CPU])
    devices.why_not.cache_clear()
    try:
        assert devices.why_not(devices.CUDA)
        assert devices.choose_device("auto") == devices.Device(devices.CPU)
    finally:
        devices.why_not.cache_clear()


@pytest.mark.usefixtures("no_cuda")
def test_a_session_that_falls_back_is_an_error(maia_onnx: Path) -> None:
    """Should the canary run and the net's own session still fall back."""
    with pytest.raises(
        ValueRepairError, match=r"was to run on CUDA but ONNX Runtime fell back to CPU; see `vr doctor`"
    ):
        Session(maia_onnx, devices.Device(devices.CUDA))


def test_wrong_arguments(maia_file: str) -> None:
    with pytest.raises(UsageError, match="--device 'gpu': must be one of auto, cpu, cuda, cuda:f16"):
        open_net(maia_file, device="gpu")
    with pytest.raises(UsageError, match="threads 0: must be at least 1"):
        open_net(maia_file, threads=0)
