"""The rooms' arrows: a room imports only from rooms above it; nothing imports cli but cli."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import valuerepair

ROOT = Path(valuerepair.__file__).parent

# Top to bottom. A name here is a module or a package directly below valuerepair/.
ROOMS = (
    "errors",
    "chess",
    "intervals",
    "files",
    "archives",
    "nets",
    "engines",
    "mcts",
    "store",
    "oracles",
    "screening",
    "judge",
    "runs",
    "cluster",
    "books",
    "play",
    "training",
    "report",
    "api",
    "selftest",
    "doctor",
    "cli",
)

# Arrows upward that still stand.
MAY_STILL = {"screening/ladder.py": {"runs"}}


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imported_rooms(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import at line {node.lineno}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("valuerepair.")}
    return rooms - {"__version__"}


def test_every_file_lies_in_a_known_room() -> None:
    known = {*ROOMS, "__init__", "__main__"}
    assert {_room(p) for p in ROOT.rglob("*.py")} <= known


def test_rooms_import_only_from_rooms_above() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        room = _room(path)
        if room.startswith("__"):
            continue
        allowed = {*ROOMS[: ROOMS.index(room) + 1], *MAY_STILL.get(path.relative_to(ROOT).as_posix(), ())}
        wrong += [f"{path.relative_to(ROOT)} imports {r}" for r in sorted(_imported_rooms(path) - allowed)]
    assert not wrong


def test_the_package_imports_neither_its_tests_nor_its_benchmarks() -> None:
    outside = re.compile(r"^\s*(from|import) (tests|benchmarks)\b", re.MULTILINE)
    assert not [path for path in ROOT.rglob("*.py") if outside.search(path.read_text("utf-8"))]
