"""Devices other than ONNX Runtime's CPU: OpenVINO, bound inputs, the canary, falling back and refusing to."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from valuerepair.archives import ReadReport, SampleOptions, sample
from valuerepair.candidates.labelling import open_stored
from valuerepair.cli import cli
from valuerepair.deep.mcts_oracle import identity_of
from valuerepair.doctor import examine
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.net_evaluator import NetEvaluator
from valuerepair.mcts.params import SearchParams
from valuerepair.nets import Net, RawOutputs, canary, open_net, openvino_session, providers
from valuerepair.nets import net as net_module
from valuerepair.nets import session as session_module
from valuerepair.nets.bound import SHAPES_KEPT, BoundSession
from valuerepair.nets.compact import CompactSession
from valuerepair.nets.devices import (
    BY_WORD,
    CPU,
    CUDA,
    DEVICES,
    OPENVINO,
    REFERENCE_DEVICES,
    TENSORRT,
    Device,
    device_of,
    split_key,
)
from valuerepair.nets.net import NetIdentity
from valuerepair.nets.planes import encode
from valuerepair.nets.providers import engine_key, provider_list
from valuerepair.nets.session import Session
from valuerepair.nets.weights import read_net_file, to_onnx
from valuerepair.positions import PositionBatch

GAMES = Path(__file__).parents[1] / "data" / "games.pgn.zst"
# Measured on 5,000 positions (docs/performance.md): 0.022 and 0.076 of Q at bf16, 5e-6 at float32.
MOST_BF16, MOST_F32 = {"maia-1900": 0.04, "meangirl-8": 0.12}, 1e-5
ROWS = 400

openvino_here = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="the extra openvino is not installed"
)


def bf16_here() -> None:
    if (reason := openvino_session.why_no_openvino("bf16")) is not None:
        pytest.skip(f"OpenVINO computes no bf16 here: {reason}")


@pytest.fixture(scope="module")
def games() -> PositionBatch:
    found: list[PositionBatch] = []
    for batch in sample([str(GAMES)], SampleOptions(per_game=10), ReadReport()):
        found.append(batch)
        if sum(map(len, found)) >= ROWS:
            break
    return PositionBatch.concat(found).take(np.arange(ROWS))


@pytest.fixture(scope="module", params=["maia-1900", "meangirl-8"])
def net_file(request: pytest.FixtureRequest, shared_data: Path) -> str:
    return str(shared_data / "nets" / f"{request.param}.pb.gz")


@pytest.fixture(scope="module")
def maia_file(shared_data: Path) -> str:
    return str(shared_data / "nets" / "maia-1900.pb.gz")


@pytest.fixture(scope="module")
def maia_onnx(maia_file: str) -> Path:
    return to_onnx(read_net_file(maia_file), print)


@pytest.fixture(scope="module")
def reference(net_file: str) -> Iterator[Net]:
    with open_net(net_file, device="cpu", threads=2, batch=64) as net:
        yield net


# -- words ------------------------------------------------------------------------------------------------------------


def test_words_mean_devices_and_back() -> None:
    assert [device.word for device in BY_WORD.values()] == list(BY_WORD)
    assert set(REFERENCE_DEVICES) == {"auto", "cpu", "openvino:f32", "cuda", "tensorrt"}
    for word in DEVICES[1:]:
        device = BY_WORD[word]
        assert (device.variant == "") == (word in REFERENCE_DEVICES)
        again = device_of(device.variant)
        assert again is None if word in REFERENCE_DEVICES else BY_WORD[str(again)].precision == device.precision
        assert split_key("ab" * 32 + device.variant) == ("ab" * 32, device.variant)


def test_values_of_another_precision_are_another_nets() -> None:
    names = [NetIdentity("n", "ab" * 32, "wdl", 1, 9, device.variant).key for device in BY_WORD.values()]
    assert len(set(names)) == 3
    assert {BY_WORD[word].variant for word in ("openvino", "cuda:f16", "tensorrt:f16")} == {"-bf16", "-f16"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eval", "--device", "gpu"], "'gpu' is not one of 'auto', 'cpu', 'openvino', 'openvino:f32', 'cuda', "),
        (["label", "--device", "openvino"], "'openvino' is not one of 'auto', 'cpu', 'openvino:f32', 'cuda', 'tens"),
    ],
)
def test_a_word_that_is_none_is_told(words: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert f"Invalid value for '--device': {said}" in done.stderr


# -- OpenVINO ---------------------------------------------------------------------------------------------------------


@openvino_here
@pytest.mark.parametrize("device", ["openvino:f32", "openvino"])
def test_openvino_agrees_with_onnx_runtime(device: str, net_file: str, reference: Net, games: PositionBatch) -> None:
    if device == "openvino":
        bf16_here()
    most = MOST_BF16[reference.identity.name] if device == "openvino" else MOST_F32
    theirs, (_, _, their_priors) = reference.evaluate_with_priors(games)
    with open_net(net_file, device=device, threads=2, batch=64) as net:
        ours, (_, _, our_priors) = net.evaluate_with_priors(games)
        assert net.identity.key == reference.identity.sha256 + BY_WORD[device].variant
    apart = np.abs(ours.q - theirs.q)
    assert apart.max() <= most
    assert np.abs(our_priors - their_priors).max() <= 2 * most
    if device == "openvino":
        assert apart.mean() > 1e-5, "this is float32 under another name"


@openvino_here
@pytest.mark.parametrize("device", ["openvino:f32", "openvino"])
def test_rows_do_not_depend_on_the_batch(device: str, maia_file: str, games: PositionBatch) -> None:
    """Batches of every size up to 40."""
    if device == "openvino":
        bf16_here()
    planes = encode(games.take(np.arange(40)))
    with open_net(maia_file, device=device, threads=2, batch=64) as net:
        whole = net.session.run(planes)
        assert whole.wdl is not None
        for n in range(1, 40):
            part = net.session.run(planes[:n])
            assert part.wdl is not None
            assert part.policy.shape == (n, 1858)
            assert np.abs(part.wdl - whole.wdl[:n]).max() <= 2e-6
            assert np.abs(part.policy - whole.policy[:n]).max() <= 2e-5


@openvino_here
@pytest.mark.parametrize("variant", ["", "-bf16"])
def test_a_stores_net_is_opened_as_its_values_were_computed(variant: str, maia_file: str) -> None:
    if variant:
        bf16_here()
    key = read_net_file(maia_file).sha256 + variant
    which = {"name": f"maia-1900{variant}", "sha256": key, "history_fill": "fen_only"}
    with open_stored(which, maia_file, device="auto", threads=1) as net:
        assert net.identity.key == key
    options = {"precision": "bf16", "device": "OpenVINO"} if variant else {"device": "CPU"}
    with open_net(maia_file, device="openvino" if variant else "cpu") as net:
        oracle = identity_of(net, SearchParams(), 100)
        assert oracle.options == options
        assert oracle.digest != replace(oracle, options={}).digest


@openvino_here
def test_openvino_serves_threads_at_once(maia_file: str, games: PositionBatch) -> None:
    planes = encode(games.take(np.arange(64)))
    with open_net(maia_file, device="openvino:f32", threads=2, batch=16) as net:
        cuts = [planes[i : i + 1 + i % 16] for i in range(48)]
        expected = [net.session.run(cut).policy for cut in cuts]
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda cut: net.session.run(cut).policy, cuts))
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        assert not NetEvaluator(net).compact  # unpacking here is faster on a processor


@openvino_here
def test_openvino_says_what_it_cannot_load(tmp_path: Path) -> None:
    path = tmp_path / "junk.onnx"
    path.write_bytes(b"\x08\x08not really")
    with pytest.raises(ValueRepairError, match=r"junk\.onnx: OpenVINO cannot load it: ") as error:
        Session(path, OPENVINO, 1, "0" * 64)
    assert "\n" not in str(error.value)


def test_without_the_package_openvino_is_refused_and_auto_is_not(
    maia_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvino_session, "version", lambda: "")
    providers.why_not.cache_clear()
    try:
        with pytest.raises(ValueRepairError) as error:
            open_net(maia_file, device="openvino")
        with open_net(maia_file, device="auto") as net:
            assert net.provider in (CPU, CUDA)
    finally:
        providers.why_not.cache_clear()
    assert str(error.value) == (
        "--device openvino: OpenVINO cannot be used: the package openvino is not installed; "
        "install it with `pip install valuerepair[openvino]`, or use --device cpu"
    )


@openvino_here
def test_a_processor_without_bf16_is_refused(maia_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class OldCore:
        def get_property(self, *_: str) -> list[str]:
            return ["FP32", "INT8"]

    monkeypatch.setattr(openvino_session, "_core", OldCore)
    providers.why_not.cache_clear()
    try:
        with pytest.raises(ValueRepairError) as error:
            open_net(maia_file, device="openvino")
        assert providers.choose_device("openvino:f32") == Device(OPENVINO)
    finally:
        providers.why_not.cache_clear()
    assert str(error.value) == (
        "--device openvino: OpenVINO cannot be used: this processor has no bfloat16; use --device openvino:f32 or cpu"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("processor : 0\nflags\t: fpu avx512_bf16 amx_bf16 amx_tile\n", True), ("flags : fpu avx512_bf16\n", False)],
)
def test_amx_is_looked_up(text: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    openvino_session.has_amx.cache_clear()
    try:
        monkeypatch.setattr(openvino_session, "CPU_FLAGS", tmp_path / "cpuinfo")
        assert openvino_session.has_amx() is expected
        openvino_session.has_amx.cache_clear()
        monkeypatch.setattr(openvino_session, "CPU_FLAGS", tmp_path / "gone")
        assert openvino_session.has_amx() is None
    finally:
        openvino_session.has_amx.cache_clear()


@pytest.mark.parametrize(
    ("reason", "amx", "said"),
    [
        (None, True, "works, at bf16 too (with AMX: faster than CPU)"),
        (None, False, "works, at bf16 too (no AMX, so no faster than CPU)"),
        ("no bfloat16", False, "works at float32 (--device openvino:f32); no bfloat16"),
    ],
)
def test_vr_doctor_says_what_openvino_is_good_for(
    reason: str | None, amx: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvino_session, "why_no_openvino", lambda precision: reason)
    monkeypatch.setattr(openvino_session, "has_amx", lambda: amx)
    monkeypatch.setattr(providers, "why_not", lambda *_: None)
    finding = next(each for each in examine(tmp_path / "no.db") if each.part == "OpenVINO")
    assert (finding.state, finding.detail, finding.advice) == ("ok", said, "")


def test_padded_rows_are_few_and_enough() -> None:
    padded = [openvino_session.padded_rows(n) for n in range(1, 513)]
    assert all(n <= p <= max(n, 1.13 * n) for n, p in enumerate(padded, 1))
    assert len(set(padded)) <= 64
    assert padded[63] == 64
    assert padded[511] == 512


# -- bound inputs -----------------------------------------------------------------------------------------------------


def test_bound_inputs_give_the_same(maia_onnx: Path, maia_file: str, games: PositionBatch) -> None:
    """On the CPU, which runs the same code of ONNX Runtime but for the copies."""
    file = read_net_file(maia_file)
    session = Session(maia_onnx, CPU, 2, file.sha256)
    planes = encode(games.take(np.arange(40)))
    sizes = [*range(1, SHAPES_KEPT + 5), 3, 1, 40, 40]
    expected = [session.run(planes[-n:]) for n in sizes]
    session._session = BoundSession(session._session, "cpu")
    kept = [session.run(planes[-n:]) for n in sizes]
    for one, other in zip(kept, expected, strict=True):  # all of them: no later run writes into an earlier answer
        assert np.array_equal(one.policy, other.policy)
        assert np.array_equal(one.wdl, other.wdl)  # type: ignore[arg-type]  # maia has WDL
    with ThreadPoolExecutor(4) as pool:
        for n, raw in zip(sizes, pool.map(lambda n: session.run(planes[-n:]), sizes), strict=True):
            assert np.array_equal(raw.policy, expected[sizes.index(n)].policy)


def test_a_session_on_a_gpu_has_bound_inputs(maia_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is needed: ONNX Runtime's session is made on the CPU and says that it is elsewhere."""
    asked: list[Any] = []
    honest = providers.new_session

    class Elsewhere:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def get_providers(self) -> list[str]:
            return [CUDA, CPU]

    def made(model: Any, options: Any, wanted: Any) -> Any:
        asked.append(wanted)
        return Elsewhere(honest(model, options, [CPU]))

    monkeypatch.setattr(session_module, "new_session", made)
    assert isinstance(session_module.load(maia_onnx, CUDA, "ab", "f32"), BoundSession)
    assert asked == [[(CUDA, {"use_tf32": "0"}), CPU]]  # TF32 is no float32
    monkeypatch.undo()
    assert not isinstance(session_module.load(maia_onnx, CPU, "ab"), BoundSession)


def test_engines_of_tensorrt_are_kept_by_net_precision_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path))

    def settings(precision: Any) -> dict[str, str]:
        first = provider_list(TENSORRT, "ab" * 32, precision)[0]
        assert isinstance(first, tuple)
        assert first[0] == TENSORRT
        return first[1]

    half, single = settings("f16"), settings("f32")
    assert (half["trt_fp16_enable"], single["trt_fp16_enable"]) == ("1", "0")
    folders = {found["trt_engine_cache_path"] for found in (half, single)}
    assert len(folders) == 2
    assert all(Path(folder).is_relative_to(tmp_path / "tensorrt") for folder in folders)
    assert all(f"ort{onnxruntime.__version__}" in folder and "ab" * 32 in folder for folder in folders)
    before = engine_key("ab" * 32, "f16")
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "99.1")
    assert engine_key("ab" * 32, "f16") not in (before, "")
    assert engine_key("ab" * 32, "f16").endswith("-trt99.1")


# -- float16 ----------------------------------------------------------------------------------------------------------


def test_float16_weights_stay_within_the_canarys_bound(net_file: str, reference: Net) -> None:
    """The file that CUDA and TensorRT get at f16, run by the CPU, which rounds each layer's output to float16 too."""
    file = read_net_file(net_file)
    half = Session(to_onnx(file, print, half=True), CPU, 1, file.sha256, "-f16", "f16")
    found = canary.apart(half, reference.session, 1)
    assert 1e-5 < found.q <= canary.BOUNDS["f16"].q
    assert found.prior <= canary.BOUNDS["f16"].prior
    assert to_onnx(file, print).name == f"{file.sha256}.onnx"


def test_an_onnx_file_has_its_own_precision(maia_onnx: Path) -> None:
    with pytest.raises(ValueRepairError, match="an ONNX file is run in the precision it has"):
        to_onnx(read_net_file(maia_onnx), print, half=True)


# -- the canary -------------------------------------------------------------------------------------------------------


def test_the_canarys_positions_are_unlike() -> None:
    batch = canary.positions()
    planes = encode(batch)
    assert len(batch) == 8
    assert {fen.split()[1] for fen in batch.fen} == {"w", "b"}
    assert len({plane.tobytes() for plane in planes}) == len(batch)


class NoiseSession:
    """Computes, and gives noise, zeros, or not a number."""

    def __init__(self, inner: Any, kind: str) -> None:
        self._inner, self._kind = inner, kind
        self.get_inputs, self.get_outputs = inner.get_inputs, inner.get_outputs

    def run(self, wanted: Any, fed: Any) -> list[Any]:
        chance = np.random.default_rng(1)
        answers = []
        for name, honest in zip(wanted, self._inner.run(wanted, fed), strict=True):
            found = {
                "noise": honest + chance.normal(0, 0.5, honest.shape),
                "one answer": np.broadcast_to(honest[:1], honest.shape),
                "not a number": np.where(np.arange(len(honest))[:, None] == 3, np.nan, honest),
                "honest": honest,
            }[self._kind]
            if "wdl" in name and self._kind == "noise":
                found = np.abs(found) / np.abs(found).sum(1, keepdims=True)
            answers.append(np.asarray(found, np.float32))
        return answers


def gpu_like(kind: str, monkeypatch: pytest.MonkeyPatch, precision: Any = "f32") -> None:
    """A GPU by name: ONNX Runtime's CPU session behind a `NoiseSession`."""
    honest = session_module.load

    def loaded(onnx: Path, provider: str, *others: Any) -> Any:
        inner = honest(onnx, CPU, *others[:1])
        return inner if provider == CPU else NoiseSession(inner, kind)

    monkeypatch.setattr(session_module, "load", loaded)
    monkeypatch.setattr(net_module, "choose_device", lambda word: Device(CPU if word == "cpu" else CUDA, precision))


@pytest.mark.parametrize("kind", ["noise", "one answer", "not a number"])
def test_a_device_that_computes_wrongly_is_refused(kind: str, maia_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_like(kind, monkeypatch)
    with pytest.raises(ValueRepairError, match=r"CUDA computes it wrongly: Q is .*; use --device cpu$") as error:
        open_net(maia_file, device="cuda")
    assert "\n" not in str(error.value)


def test_auto_falls_back_and_says_so(maia_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_like("noise", monkeypatch)
    said: list[str] = []
    with open_net(maia_file, device="auto", say=said.append) as net:
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
        assert net.opened_with == {"device": "cuda:f16", "threads": net.session.threads, "winograd": False}


def test_bitboards_are_checked_and_kept_by_variant(maia_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The net of float16 has a wrapped file of its own."""
    gpu_like("honest", monkeypatch, "f16")
    with open_net(maia_file, device="cuda:f16") as net:
        monkeypatch.undo()
        monkeypatch.setattr(net.session, "provider", CPU)
        compact = CompactSession(net.session)
        raw = compact.run(np.zeros((2, 112), np.uint64), np.zeros(2, np.float32), np.zeros((2, 32), np.int32))
        assert isinstance(raw, RawOutputs)
        assert list(net.session.onnx.parent.glob(f"{net.identity.sha256}-f16-compact*.onnx"))
