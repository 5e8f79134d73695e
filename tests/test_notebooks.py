"""Both notebooks run on data/sample.db, and their numbers are those of the store's tables: SQL and arithmetic alone."""

from __future__ import annotations

import re
import shutil
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from valuerepair.arrays import Floats

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "sample.db"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
THRESHOLD = 0.35


@cache
def executed(path: Path, folder: Path) -> Any:
    """The notebook after a run from its first cell to its last, in a folder that has a copy of the sample store."""
    from nbclient import NotebookClient

    (folder / "data").mkdir()
    (folder / "notebooks").mkdir()
    shutil.copy(SAMPLE, folder / "data")
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # nbformat ships no hints
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("VR_DB", raising=False)
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder / "notebooks")}}).execute()
    assert (folder / "data" / "sample.db").read_bytes() == SAMPLE.read_bytes()
    return notebook


def said(notebook: Any) -> str:
    """All that the cells print."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output["text"] for output in outputs if output.output_type == "stream" and output.name == "stdout")


def numbers(text: str, pattern: str) -> list[float]:
    """The groups of the pattern's only match, as numbers."""
    [match] = re.finditer(pattern, text)
    return [float(group.replace(",", "")) for group in match.groups()]


def facts(net: str) -> tuple[Floats, Floats]:
    """Net Q less deep Q, and the weight, of each position of the judge with most values, by the alpha in use."""
    with sqlite3.connect(f"file:{SAMPLE}?mode=ro", uri=True) as sql:
        rows = sql.execute(
            "SELECT n.q, v.cp, v.mate, v.weight FROM deep_values v "
            "JOIN net_values n ON n.position_id = v.position_id AND n.net_id = (SELECT id FROM nets WHERE name = ?) "
            "WHERE v.judge_id = (SELECT judge_id FROM deep_values GROUP BY 1 ORDER BY count(*) DESC LIMIT 1) "
            "ORDER BY v.position_id",
            (net,),
        ).fetchall()
        (alpha,) = sql.execute("SELECT json_extract(value, '$.value') FROM settings WHERE name = 'alpha'").fetchone()
    q, cp, mate, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    deep = np.where(np.isnan(mate), 2 / (1 + np.exp(-cp / alpha)) - 1, np.sign(mate))
    return q - deep, weight


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_saved_is_a_whole_run(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # as above
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert path.stat().st_size < 300_000
    assert not re.search(r"/(home|tmp|work|usr)/", path.read_text("utf-8"))


def test_scatter(tmp_path: Path) -> None:
    notebook = executed(NOTEBOOKS[0], tmp_path)
    text, (apart, weight) = said(notebook), facts("maia-1900")
    off = np.abs(apart) >= THRESHOLD
    assert numbers(text, r"candidates: (\d+) of (\d+) rows") == [off.sum(), len(off)]
    assert numbers(text, r"by weight: ([\d.]+) of ([\d.]+) positions") == [
        pytest.approx(weight[off].sum(), abs=0.05), pytest.approx(weight.sum(), abs=0.05)
    ]  # fmt: skip
    [boards] = [o["data"]["image/svg+xml"] for c in notebook.cells for o in c.get("outputs", [])
                if "image/svg+xml" in o.get("data", {})]  # fmt: skip
    captions = re.findall(r"net ([-+.\d]+), deep ([-+.\d]+)", boards)
    worst = np.sort(np.abs(apart))[::-1][:12]
    assert [abs(float(net) - float(deep)) for net, deep in captions] == pytest.approx(worst, abs=0.011)


@pytest.mark.slow
def test_before_and_after(tmp_path: Path) -> None:
    text, (apart, weight) = said(executed(NOTEBOOKS[1], tmp_path)), facts("maia-1900")
    off = np.abs(apart) >= THRESHOLD
    for net in ("maia-1100", "meangirl-8"):
        off_after = np.abs(facts(net)[0]) >= THRESHOLD
        pattern = rf"of (\d+) candidates of maia-1900, {net} is right on (\d+); of (\d+) of {net}, maia-1900 on (\d+)"
        counts = off.sum(), (off & ~off_after).sum(), off_after.sum(), (off_after & ~off).sum()
        assert numbers(text, pattern) == [*counts]
        change = 100 * np.average(off_after.astype(float) - off, weights=weight)
        assert numbers(text, rf"{net} less .* candidates ([-+.\d]+) points") == [pytest.approx(change, abs=0.006)]
