"""Every notebook runs from top to bottom on a store, and what is saved in it stays small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.mining_doubles import mine_by_key, random_games

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SAVED_LIMIT = 250_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebooks")
    mine_by_key(random_games(folder / "random.pgn", 40), folder / "random.db")
    return folder / "random.db"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # nbformat ships no hints


def by_type(notebook: Any, kind: str) -> list[str]:
    """All outputs of that MIME type."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs(path: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    monkeypatch.setenv("VALUEREPAIR_DB", str(store))
    notebook = read(path)
    for cell in notebook.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert by_type(notebook, "image/png")
    assert sum(svg.count("<svg") - 1 for svg in by_type(notebook, "image/svg+xml")) == 20
    assert "key-net" in str(notebook)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_what_is_saved_is_whole_and_small(path: Path) -> None:
    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    imports = [line for line in code[0].source.splitlines() if "valuerepair" in line]
    assert len(imports) == 1
    assert imports[0].startswith("from valuerepair import ")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert by_type(notebook, "image/png")
    assert path.stat().st_size < SAVED_LIMIT
    assert str(Path.home()) not in path.read_text("utf-8")


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS][:1] == ["01-scatter.ipynb"]
