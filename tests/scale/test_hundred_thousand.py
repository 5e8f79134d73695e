"""The commands on a store of a hundred thousand positions: their answers against SQL and NumPy of our own."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scale.million import default_archive, make

POSITIONS, ALPHA, THRESHOLD = 100_000, 200.0, 0.55
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("scale") / "store.db"
    make(store, POSITIONS, [default_archive()])
    return store


def vr(*words: str | Path) -> str:
    command = [sys.executable, "-m", "valuerepair", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def stats(path: Path) -> Any:
    return json.loads(vr("stats", "--db", path, "--use", f"alpha={ALPHA:g}", "--threshold", f"{THRESHOLD:g}", "--json"))


@pytest.fixture(scope="module")
def differences(path: Path) -> Any:
    """net Q - judge's Q, phase, side of all positions with a full search, by one join and the formula of
    docs/methods.md."""
    rows = sqlite3.connect(path).execute(
        "SELECT n.q, v.cp, v.mate, p.phase, p.side, v.weight, p.id FROM judges j CROSS JOIN nets "
        "CROSS JOIN deep_values v ON v.judge_id = j.id "
        "CROSS JOIN net_values n ON n.net_id = nets.id AND n.position_id = v.position_id "
        "CROSS JOIN positions p ON p.id = v.position_id WHERE j.short_id NOTNULL ORDER BY p.id"
    )
    judged = []
    for net_q, cp, mate, *facts in rows:
        deep = (1.0 if mate > 0 else -1.0) if cp is None else float(np.tanh(cp / (2 * ALPHA)))
        judged.append((net_q - deep, *facts))
    return judged


def test_stats_say_what_sql_says(stats: Any, differences: Any) -> None:
    scored = stats["scored"]
    assert (stats["positions"], scored["positions"]) == (POSITIONS * 6 // 5, POSITIONS) == (120_000, len(differences))
    off = np.array([abs(row[0]) for row in differences])
    for row in scored["by_threshold"]:
        assert row["candidates"] == int((off >= row["threshold"]).sum())
    bad = [row for row in differences if abs(row[0]) >= THRESHOLD]
    assert {row["phase"]: row["candidates"] for row in scored["by_phase"]} == {
        phase: sum(row[1] == code for row in bad) for code, phase in enumerate(("opening", "middlegame", "endgame"))
    }
    assert {row["side"]: row["candidates"] for row in scored["by_side"]} == {
        side: sum(row[2] == code for row in bad) for code, side in enumerate(("White", "Black"))
    }
    assert scored["by_label"][0]["total"] == len(bad)


def test_screening_is_counted_as_sql_counts(stats: Any, differences: Any) -> None:
    audits = [row for row in differences if row[3] > 1]
    screening = stats["scored"]["screening"]
    assert (screening["positions"], screening["left_out"]) == (POSITIONS * 6 // 5, POSITIONS // 5)
    assert (screening["audits"], screening["audit_hits"]) == (
        len(audits), sum(abs(row[0]) >= THRESHOLD for row in audits)
    )  # fmt: skip
    assert sum(row[3] for row in differences) == pytest.approx(POSITIONS * 6 // 5)


def test_books_hold_candidates_only(path: Path, differences: Any, tmp_path: Path) -> None:
    vr("books", "--db", path, "-o", tmp_path, "--quiet")
    fens = {" ".join(line.split(" ")[:4]) for line in (tmp_path / "book.epd").read_text().splitlines()}
    off = {row[4]: abs(row[0]) for row in differences}
    stored = {" ".join(fen.split(" ")[:4]): number
              for number, fen in sqlite3.connect(path).execute("SELECT id, fen FROM positions")}  # fmt: skip
    assert len(fens) > 1_000
    assert all(off[stored[fen]] >= THRESHOLD for fen in fens if fen in stored)


def test_plot_and_report_are_made(path: Path, tmp_path: Path) -> None:
    vr("plot", "scatter", "--db", path, "-o", tmp_path / "p.png")
    vr("report", "--db", path, "-o", tmp_path / "r.html", "--quiet")
    assert (tmp_path / "p.png").stat().st_size > 10_000
    assert (tmp_path / "r.html").stat().st_size < 30_000_000
