"""What vr doctor prints: plain lines, and advice that is about the thing that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from valuerepair.cli import cli
from valuerepair.doctor import Finding, examine
from valuerepair.nets import providers


def found(part: str, db: Path) -> Finding:
    return next(finding for finding in examine(db) if finding.part == part)


def test_each_device_has_its_own_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(providers, "why_not", lambda *_: "because")
    assert "valuerepair[openvino]" in found("OpenVINO", tmp_path / "no.db").advice
    assert "valuerepair[gpu]" in found("CUDA", tmp_path / "no.db").advice


def test_the_output_has_no_colours_of_other_programs(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["doctor", "--db", str(tmp_path / "no.db")], color=True)
    assert done.exit_code == 0
    assert "\x1b" not in done.output
    assert "no.db here yet" in done.output
