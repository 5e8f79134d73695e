"""The rooms: none imports from one above it, and no modules import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import valuerepair

ROOT = Path(valuerepair.__file__).parent

# From the ground up, each a module or a package directly below valuerepair/; rooms of one floor may use each other.
FLOORS = (
    {"errors", "stop", "arrays", "version"},
    {"text"},
    {"files", "progress", "rates"},
    {"chess"},
    {"question"},
    {"archives", "nets"},
    {"mcts"},
    {"engines"},
    {"store"},
    {"oracles"},
    {"mining"},
    {"measure"},
    {"cluster"},
    {"books"},
    {"play"},
    {"training"},
    {"report"},
    {"pipeline"},
    {"api"},
    {"doctor"},
    {"cli"},
)
HEIGHT = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def modules() -> dict[str, ast.Module]:
    """Every module below valuerepair/ by its dotted name, but the front and `python -m valuerepair`."""
    paths = [path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem not in ("__init__", "__main__")]
    names = {path: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in paths}
    return {name.removesuffix(".__init__"): ast.parse(path.read_text("utf-8")) for path, name in names.items()}


def imports(nodes: Iterable[ast.AST], known: set[str]) -> Iterator[str]:
    """The modules of the package that are imported there."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("valuerepair"):
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else str(node.module) for name in inside)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("valuerepair."))


def test_imports_lead_downwards_and_never_in_a_circle() -> None:
    trees = modules()
    known = set(trees)
    upward = [
        (name, target)
        for name, tree in trees.items()
        for target in imports(ast.walk(tree), known)
        if HEIGHT[target.split(".")[1]] > HEIGHT[name.split(".")[1]]
    ]
    assert not upward
    # A circle is of what is carried out when a module is loaded, not inside functions and not for type checkers alone.
    graph = {name: set(imports(tree.body, known)) & known for name, tree in trees.items()}
    assert sum(map(len, graph.values())) > 300
    while graph:  # of modules without a circle some import none of the others
        free = {name for name, targets in graph.items() if not targets & graph.keys() - {name}}
        assert free, f"a circle among {sorted(graph)}"
        graph = {name: targets for name, targets in graph.items() if name not in free}
