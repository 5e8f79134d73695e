"""`vr doctor`: plain lines, advice that is about the thing that is missing, and verdicts about files."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import onnxruntime
import pytest
from click.testing import CliRunner

from tests.cli_tree import SAMPLE, vr
from valuerepair import doctor
from valuerepair.cli import cli
from valuerepair.doctor import PERFT_4, Finding, examine
from valuerepair.errors import ValueRepairError
from valuerepair.nets import devices
from valuerepair.nets.devices import CPU, CUDA


def found(part: str, db: Path) -> Finding:
    return next(finding for finding in examine(db) if finding.part == part)


def test_why_a_device_does_not_run_is_said_in_onnx_runtimes_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(devices, "preload_libraries", lambda _: None)
    monkeypatch.setattr(
        devices, "new_session", lambda *_: (_ for _ in ()).throw(RuntimeError("libcudnn.so.9: no file\nmore"))
    )
    devices.why_not.cache_clear()
    monkeypatch.setattr(doctor, "NVIDIA_DRIVER", tmp_path)
    said = found("CUDA", tmp_path / "no.db")
    with pytest.raises(ValueRepairError, match=r"--device cuda: CUDA cannot be used: libcudnn.so.9: no file; install"):
        devices.choose_device("cuda")
    devices.why_not.cache_clear()
    assert (said.state, said.detail) == ("absent", "libcudnn.so.9: no file")
    assert "valuerepair[gpu]" in said.advice


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
    code, out, _ = vr(["doctor", str(book), str(store), maia_file, "--json", "-q"], capsys)
    checked = [json.loads(line) for line in out.splitlines()]
    assert (code, [(file["kind"], file["sound"]) for file in checked]) == (
        0,
        [("book", True), ("store", True), ("net", True)],
    )
    book.write_text("6k1/5ppp/8/8/8/8/8/R5K1 w - -\nnonsense\n")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE positions SET key = key + 1 WHERE id = 7")
    code, out, _ = vr(["doctor", str(book), str(store), "-q"], capsys)
    assert code == 1
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        f"{book}: book, NOT SOUND",
        f"{store}: store, NOT SOUND",
    ]
    assert "line 2: " in out
    assert "position 7: " in out
