"""The examples of docs/python.md say what happens: all are run, on data/sample.db."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data/ in it as in the repository, for examples that write."""
    (tmp_path / "data").mkdir()
    for name in ("sample.db", "games.pgn.zst"):
        shutil.copy(ROOT / "data" / name, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_examples(path: Path) -> doctest.TestResults:
    text = path.read_text("utf-8")
    blocks = re.finditer(r"^```pycon\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [""] * (text.count("\n") + 1)  # what is outside the blocks is blank, so that line numbers stay
    for block in blocks:
        first = text.count("\n", 0, block.start(1))
        for i, line in enumerate(block[1].splitlines()):
            lines[first + i] = line
    test = doctest.DocTestParser().get_doctest("\n".join(lines), {}, path.name, str(path), 0)
    assert test.examples, f"{path.name} has no examples"
    return doctest.DocTestRunner(optionflags=FLAGS).run(test)


def test_the_examples_say_what_happens(workplace: Path) -> None:
    found = run_examples(ROOT / "docs" / "python.md")
    assert found.failed == 0, f"{found.failed} of {found.attempted} examples (shown above)"
