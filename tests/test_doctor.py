"""`vr doctor`: plain lines, advice that is about the thing that is missing, and verdicts about files."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import onnxruntime
import pytest
from click.testing import CliRunner

from tests.cli_tree import SAMPLE, vr
from valuerepair.cli import cli
from valuerepair.doctor import PERFT_4, Finding, examine
from valuerepair.errors import ValueRepairError
from valuerepair.nets import providers
from valuerepair.nets.options import CPU, CUDA
from valuerepair.store.store import Store


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
    monkeypatch.setenv("VR_DB", str(tmp_path / "no.db"))
    done = CliRunner().invoke(cli, ["doctor"], color=True)
    assert done.exit_code == 0
    assert "\x1b" not in done.output
    assert "no.db here yet" in done.output


def test_the_rules_are_compared_with_published_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = found("rules of chess", tmp_path / "no.db")
    assert right.state == "ok"
    assert f"{sum(PERFT_4.values()):,} leaves" in right.detail
    fen = "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1"
    monkeypatch.setitem(PERFT_4, fen, 43_239)
    wrong = found("rules of chess", tmp_path / "no.db")
    assert (wrong.state, wrong.stops_mining) == ("broken", True)
    assert f"{fen}: perft 4 gives 43,238, not 43,239" in wrong.detail


def test_files_are_checked_by_what_they_are(tmp_path: Path, maia_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One verdict for each file, and exit code 1 if one is unsound."""
    book, store = tmp_path / "book.epd", tmp_path / "v.db"
    book.write_text("6k1/5ppp/8/8/8/8/8/R5K1 w - -\n")
    shutil.copy(SAMPLE, store)
    with Store.open(store, write=True):
        pass  # brought to the present version
    code, out, _ = vr(["doctor", str(book), str(store), maia_file, "--json", "-q"], capsys)
    checked = [json.loads(line) for line in out.splitlines()]
    assert (code, [(file["kind"], file["sound"]) for file in checked]) == (
        0,
        [("book", True), ("store", True), ("net", True)],
    )
    book.write_text("6k1/5ppp/8/8/8/8/8/R5K1 w - -\nnonsense\n")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE alpha_fits SET alpha = -3")
    code, out, _ = vr(["doctor", str(book), str(store), "-q"], capsys)
    assert code == 1
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        f"{book}: book, NOT SOUND",
        f"{store}: store, NOT SOUND",
    ]
    assert "line 2: " in out
    assert "alpha fits" in out
