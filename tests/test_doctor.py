"""What vr doctor prints: plain lines, and advice that is about the thing that is missing."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import onnxruntime
import pytest
from click.testing import CliRunner

from valuerepair.cli import cli
from valuerepair.doctor import Finding, examine
from valuerepair.errors import ValueRepairError
from valuerepair.nets import providers
from valuerepair.nets.options import CPU, CUDA


def found(part: str, db: Path) -> Finding:
    return next(finding for finding in examine(db) if finding.part == part)


def test_each_device_has_its_own_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(providers, "why_not", lambda *_: "because")
    assert "driver" in found("TensorRT", tmp_path / "no.db").advice
    assert "valuerepair[gpu]" in found("CUDA", tmp_path / "no.db").advice


@pytest.fixture
def cuda_13(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An ONNX Runtime that was built with CUDA 13; what was found out about devices is forgotten afterwards."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(onnxruntime, "cuda_version", "13.0", raising=False)
    providers.why_not.cache_clear()
    yield monkeypatch
    providers.why_not.cache_clear()


NO_DRIVER = "there is no NVIDIA driver on this machine"
OLD_DRIVER = "the NVIDIA driver is of CUDA 12.8; the installed onnxruntime needs one 580 or later (for CUDA 13)"
DRIVER = "install NVIDIA's driver, 580 or later (for CUDA 13), if this machine has an NVIDIA GPU"


@pytest.mark.parametrize(("driver", "reason"), [(None, NO_DRIVER), (12080, OLD_DRIVER)])
@pytest.mark.parametrize(("installed", "extra"), [(True, ""), (False, ", and run `pip install 'valuerepair[gpu]'`")])
def test_without_a_driver_for_this_cuda_the_driver_is_what_is_missing(
    cuda_13: pytest.MonkeyPatch, tmp_path: Path, driver: int | None, reason: str, installed: bool, extra: str
) -> None:
    """The extra is advised only where its libraries are not there."""
    cuda_13.setattr(providers, "_driver_cuda", lambda: driver)
    version = importlib.metadata.version
    names = {"nvidia-cudnn-cu13": "9.28.1.4"} if installed else {}

    def of(name: str) -> str:
        if name.startswith("nvidia-") and name not in names:
            raise importlib.metadata.PackageNotFoundError(name)
        return names.get(name) or version(name)

    cuda_13.setattr(importlib.metadata, "version", of)
    said = found("CUDA", tmp_path / "no.db")
    assert (said.state, said.detail, said.advice) == ("absent", reason, f"{DRIVER}{extra}; the CPU works without it")
    with pytest.raises(ValueRepairError) as error:
        providers.choose_device("cuda")
    assert str(error.value) == f"--device cuda: CUDA cannot be used: {reason}; {DRIVER}{extra}, or use --device cpu"


def test_with_a_driver_for_this_cuda_the_extra_is_advised(cuda_13: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cuda_13.setattr(providers, "_driver_cuda", lambda: 13000)
    cuda_13.setattr(providers, "new_session", lambda *_: (_ for _ in ()).throw(RuntimeError("libcudnn.so.9: no file")))
    said = found("CUDA", tmp_path / "no.db")
    assert (said.state, said.detail) == ("absent", "libcudnn.so.9: no file")
    assert said.advice == "install it with `pip install 'valuerepair[gpu]'`; the CPU works without it"


def test_the_output_has_no_colours_of_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALUEREPAIR_DB", str(tmp_path / "no.db"))
    done = CliRunner().invoke(cli, ["doctor"], color=True)
    assert done.exit_code == 0
    assert "\x1b" not in done.output
    assert "no.db here yet" in done.output
