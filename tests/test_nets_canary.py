"""GPUs without one: bound inputs, the files and settings they get, the canary, falling back and refusing to."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parity.device_parity import GAMES, real_positions
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.params import SearchParams
from valuerepair.nets import canary, devices
from valuerepair.nets import net as net_module
from valuerepair.nets import session as session_module
from valuerepair.nets.conversion import VERSION, find_lc0, to_onnx
from valuerepair.nets.devices import (
    CPU,
    CUDA,
    ON_CPU,
    Device,
)
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.session import RawOutputs, Session
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles import mcts_oracle


@pytest.fixture(scope="module")
def games() -> PositionBatch:
    return real_positions(str(GAMES), 64)


@dataclass
class Elsewhere:
    """ONNX Runtime's session on the CPU, which says that it is on CUDA; `rows` of each run."""

    inner: Any
    rows: list[int]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def get_providers(self) -> list[str]:
        return [CUDA, CPU]

    def run(self, outputs: Any, feed: Any, options: Any = None) -> Any:
        self.rows.append(len(next(iter(feed.values()))))
        return self.inner.run(outputs, feed, options)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Elsewhere]:
    """The sessions that are loaded for CUDA, which no test here needs."""
    loaded: list[Elsewhere] = []
    honest = devices.new_session

    def load(model: Any, options: Any, wanted: Any) -> Any:
        if wanted == [CPU]:
            return honest(model, options, wanted)
        assert wanted == [(CUDA, {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}), CPU]  # TF32 is no float32
        loaded.append(Elsewhere(honest(model, options, [CPU]), []))
        return loaded[-1]

    monkeypatch.setattr(session_module, "new_session", load)
    return loaded


def test_on_cuda_each_size_of_a_batch_has_a_session(
    maia_onnx: Path, games: PositionBatch, sessions: list[Elsewhere], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise cuDNN plans anew for each change of size. The values are those of the CPU."""
    monkeypatch.setattr(session_module, "GPU_BATCHES", (4, 16, 32))
    session = Session(maia_onnx, Device(CUDA), threads=3)
    planes = encode(games.take(np.arange(40)))
    parts = [planes[:n] for n in (1, 4, 5, 16, 17, 32, 3, 40, 2)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(session.run, parts))
    on_cpu = Session(maia_onnx)
    for part, answer in zip(parts, answers, strict=True):
        assert np.abs(answer.q - on_cpu.run(part).q).max() < 1e-5
    assert sorted(sorted(set(loaded.rows)) for loaded in sessions) == [[4], [16], [32]]


# -- float16 ----------------------------------------------------------------------------------------------------------


def test_float16_weights_stay_within_the_canarys_bound(net_file: str, reference: Net) -> None:
    """The file that CUDA gets at f16, run by the CPU, which rounds each layer's output to float16 too."""
    file = read_net_file(net_file)
    half = Session(to_onnx(file, half=True), Device(CPU, "f16"))
    difference = canary.differences(half, reference.session, 1)
    assert 1e-5 < difference.q <= canary.BOUNDS["f16"].q
    assert difference.prior <= canary.BOUNDS["f16"].prior
    assert to_onnx(file).name == f"{file.sha256}-{VERSION}.onnx"
    identity = replace(reference.identity, variant="-f16")
    options = mcts_oracle.identity_of(Net(identity, half), SearchParams(), 100).options
    assert options == {"precision": "f16", "device": "CPU"}


def test_the_device_casts_planes_to_float16(maia_file: str, games: PositionBatch, tmp_path: Path) -> None:
    """Values are those of lc0's own export in float16, which is given planes in float16."""
    file, exported = read_net_file(maia_file), tmp_path / "half.onnx"
    lc0 = find_lc0()
    assert lc0 is not None
    subprocess.run(
        [lc0, "leela2onnx", f"--input={maia_file}", f"--output={exported}", "--onnx-data-type=f16"],
        check=True, capture_output=True,
    )  # fmt: skip
    plain, cast = Session(exported), Session(to_onnx(file, half=True))
    assert (plain.dtype, cast.dtype) == (np.float16, np.float32)
    planes = encode(games)
    one, other = plain.run(planes), cast.run(planes)
    assert np.array_equal(one.q, other.q)
    assert np.array_equal(one.policy, other.policy)


def test_an_onnx_file_has_its_own_precision(maia_onnx: Path) -> None:
    with pytest.raises(ValueRepairError, match="an ONNX file is run in the precision it has"):
        to_onnx(read_net_file(maia_onnx), half=True)


# -- the canary -------------------------------------------------------------------------------------------------------


class NoiseSession:
    """Computes, and gives noise, zeros, or not a number."""

    def __init__(self, inner: Any, kind: str) -> None:
        self._inner, self._kind = inner, kind
        self.get_inputs, self.get_outputs = inner.get_inputs, inner.get_outputs

    def run(self, wanted: Any, fed: Any, options: Any = None) -> list[Any]:
        chance = np.random.default_rng(1)
        answers = []
        for name, honest in zip(wanted, self._inner.run(wanted, fed), strict=True):
            answer = {
                "noise": honest + chance.normal(0, 0.5, honest.shape),
                "one answer": np.broadcast_to(honest[:1], honest.shape),
                "not a number": np.where(np.arange(len(honest))[:, None] == 3, np.nan, honest),
                "honest": honest,
            }[self._kind]
            if "wdl" in name and self._kind == "noise":
                answer = np.abs(answer) / np.abs(answer).sum(1, keepdims=True)
            answers.append(np.asarray(answer, np.float32))
        return answers


def gpu_like(kind: str, monkeypatch: pytest.MonkeyPatch, precision: Any = "f32") -> None:
    """A GPU by name: ONNX Runtime's CPU session behind a `NoiseSession`."""
    honest = session_module.load

    def loaded(onnx: Path, provider: str) -> Any:
        inner = honest(onnx, CPU)
        return inner if provider == CPU else NoiseSession(inner, kind)

    monkeypatch.setattr(session_module, "load", loaded)
    monkeypatch.setattr(net_module, "choose_device", lambda word: Device(CPU if word == "cpu" else CUDA, precision))


@pytest.mark.parametrize("kind", ["noise", "one answer", "not a number"])
def test_a_device_that_computes_wrongly_is_refused(kind: str, maia_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_like(kind, monkeypatch)
    with pytest.raises(ValueRepairError, match=r"CUDA computes it wrongly: .*; use --device cpu$") as error:
        open_net(maia_file, device="cuda")
    assert "\n" not in str(error.value)


def test_auto_falls_back_and_says_so(maia_file: str, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    gpu_like("noise", monkeypatch)
    with open_net(maia_file, device="auto") as net:
        assert net.provider == CPU
    assert len(said) == 1
    assert "CUDA computes it wrongly" in said[0]
    assert said[0].endswith("; so the CPU runs it")


def test_a_device_that_computes_is_taken(maia_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_like("honest", monkeypatch, "f16")
    with open_net(maia_file, device="cuda:f16") as net:
        assert net.identity.name == "maia-1900-f16"
        assert net.identity.variant == "-f16"
        assert net.session.onnx.name.endswith("-f16.onnx")
        assert net.opened_with == {"device": "cuda:f16", "threads": net.session.threads}


@pytest.mark.parametrize(("off", "refused"), [(0.0, False), (0.0004, False), (0.0006, True), (float("nan"), True)])
def test_how_far_q_may_be_from_the_cpus(off: float, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """W as the CPU says it and L other by `off`: Q, which is W - L, is other by that."""

    class Fixed:
        onnx, device = Path("net.onnx"), ON_CPU

        def __init__(self, loss: float) -> None:
            self.loss = loss

        def run(self, planes: Any) -> RawOutputs:
            wdl = np.tile(np.array([0.5, 0.5 - self.loss, self.loss], np.float32), (len(planes), 1))
            return RawOutputs(np.zeros((len(planes), 1858), np.float32), wdl, None, None)

    monkeypatch.setattr(canary, "Session", lambda *arguments: Fixed(0.25))
    session: Any = Fixed(0.25 + off)
    if not refused:
        canary.check(session, Path("net.onnx"), 1)
        return
    with pytest.raises(ValueRepairError, match=r"computes it wrongly"):
        canary.check(session, Path("net.onnx"), 1)
