"""Devices other than ONNX Runtime's CPU: the words for them, and OpenVINO."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.cli import cli
from valuerepair.doctor import examine
from valuerepair.errors import ValueRepairError
from valuerepair.judge.labelled import open_stored
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.params import SearchParams
from valuerepair.nets import openvino_session, providers
from valuerepair.nets.devices import (
    BY_WORD,
    CPU,
    CUDA,
    DEVICES,
    OPENVINO,
    REFERENCE_DEVICES,
    Device,
    device_of,
    split_key,
)
from valuerepair.nets.net import Net, NetIdentity, open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.session import Session
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles.mcts_oracle import identity_of
from valuerepair.store.store import Store

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
        (
            ["remeasure", "--device", "openvino"],
            "'openvino' is not one of 'auto', 'cpu', 'openvino:f32', 'cuda', 'tens",
        ),
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
def test_a_stores_net_is_opened_as_its_values_were_computed(variant: str, maia_file: str, tmp_path: Path) -> None:
    if variant:
        bf16_here()
    key = read_net_file(maia_file).sha256 + variant
    which = {"name": f"maia-1900{variant}", "sha256": key, "history_fill": "fen_only"}
    with (
        Store.open(tmp_path / "a.db", create=True) as store,
        open_stored(store, which, maia_file, device="auto", threads=1) as net,
    ):
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
        "install it with `pip install 'valuerepair[openvino]'`, or use --device cpu"
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
