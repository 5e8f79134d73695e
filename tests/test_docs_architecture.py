"""docs/architecture.md names files, functions and rooms: all of them are there, and no room is forgotten.

CONTRIBUTING.md names the tests of each room: no test file is forgotten.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "valuerepair"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def names_in(path: Path) -> set[str]:
    """What a module defines at its top, and the methods of its classes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def missing(page: str) -> list[str]:
    """What the page names and is not there."""
    wrong = []
    for file, name in re.findall(r"`((?:\w+/)*\w+\.py)(?::(\w+))?`", page):
        path = next((root / file for root in (PACKAGE, ROOT) if (root / file).is_file()), None)
        if path is None or (name and name not in names_in(path)):
            wrong.append(f"{file}:{name}")
    return wrong


def test_what_the_page_names_is_there() -> None:
    assert len(re.findall(r"`(?:\w+/)*\w+\.py", PAGE)) > 60
    assert not missing(PAGE)
    assert missing("`cli/mine.py:nothing`, `cli/nowhere.py`") == ["cli/mine.py:nothing", "cli/nowhere.py:"]


def test_every_room_is_in_the_table_in_the_order_of_the_arrows() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    listed = [name.removesuffix(".py") for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= set(listed)
    from tests.test_architecture import FLOORS

    floor = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
    heights = [floor[name] for name in listed]
    assert heights == sorted(heights)


def test_every_test_file_is_in_one_row_of_contributing() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| (.*) \| `(tests/.*)` \|$", page, re.MULTILINE)
    listed = []
    for _, patterns in rows:
        for pattern in patterns.split():
            paths = list(ROOT.glob(pattern))
            assert paths, pattern
            listed += [path.name for path in paths if path.is_file()]
    assert sorted(listed) == sorted(path.name for path in (ROOT / "tests").glob("test_*.py"))
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= {name for names, _ in rows for name in re.findall(r"`([\w.]+)`", names)}
