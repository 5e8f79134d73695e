"""Whether a position is a candidate is decided in one place, `question.is_candidate`, which the house asks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import valuerepair
from valuerepair.question import is_candidate

_HOUSE = Path(valuerepair.__file__).parent
_HOME = "question.py"
_OTHER_DECISIONS = {
    "mcts/select.py:puct",  # lc0's Q from which it counts the moves left
    "mcts/uci_server.py:_left_utility",
    "judge/verdict.py:figures",  # the edges of a table
    "api/calls.py:_log_if_cut",  # of two thresholds
    "judge/rejudged.py:strata_of",  # how near to the threshold
    "judge/verdict.py:decide",  # how near to the middle of two values
    "api/calls.py:worst_threshold",  # whether there is a disagreement at all
    "nets/conversion.py:_check",  # what rounding may do
    "oracles/uci_oracle.py:exact_q",
}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_NUMBER = re.compile(r"(?:np\.float32\()?-?[\d.]+\)?")
_ABOUT = re.compile(r"threshold\b")
_BY_NAME = re.compile(r"\bsizes?\b(\[.*\])? [<>]=? (at|limit)\b|\b(at|limit) [<>]=? sizes?\b")
_Q = re.compile(r"\b(?:\w+_)?q\b|deep|\bnet\b")
_DISAGREEMENT = re.compile(r"disagreement|\b(?:off|gap)\b")
_IN_SCRIPT = re.compile(r"[<>]=?\s*-?(?:this\.)?threshold\b|\bthreshold\s*[<>]=?(?!=)")
_SQL = re.compile(r"\b(?:SELECT|WHERE|HAVING)\b.*(?:[<>]=?\s*[:{?(]*\w*threshold|threshold\w*\s*[<>])", re.I | re.S)


def _is_size(node: ast.AST, sizes: set[str]) -> bool:
    """Whether an expression holds the absolute value of a disagreement, or a name that is one of these sizes."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id in sizes:
            return True
        if isinstance(inner, ast.Call) and ast.unparse(inner.func).rpartition(".")[2] == "abs":
            operand = inner.args[0] if inner.args else inner.func  # np.abs(x), or x.abs()
            of_q = any(isinstance(part, ast.Sub) for part in ast.walk(operand)) and _Q.search(ast.unparse(operand))
            if of_q or _DISAGREEMENT.search(ast.unparse(operand)):
                return True
    return False


def _sizes_in(scope: ast.AST) -> set[str]:
    """The names that a module or a function gives to sizes of disagreements."""
    sizes: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            names = node.targets[0] if isinstance(node, ast.Assign) else node.target
            pairs = [(names, node.value)]
            if isinstance(names, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(names.elts, node.value.elts, strict=False))
            sizes |= {name.id for name, value in pairs if isinstance(name, ast.Name) and _is_size(value, set())}
    return sizes


def _decides(node: ast.AST, sizes: set[str]) -> bool:
    """Whether a comparison, or a query, is about a threshold or about the size of a disagreement."""
    if isinstance(node, ast.Compare) and any(isinstance(op, _ORDERED) for op in node.ops):
        sides = [node.left, *node.comparators]
        if sum(_is_size(side, sizes) for side in sides) == 1:  # two sizes are compared with each other
            return True
        if _BY_NAME.search(ast.unparse(node)):
            return True
        words = [ast.unparse(side) for side in sides]
        if any(_NUMBER.fullmatch(side) for side in words):  # a check of the threshold itself
            return False
        return any(_ABOUT.search(side) for side in words)
    return isinstance(node, ast.Constant | ast.JoinedStr) and _SQL.search(ast.unparse(node)) is not None


def _decisions(source: str) -> Iterator[tuple[str, int]]:
    """The function and the line of each such comparison or query."""

    def walk(node: ast.AST, function: str, sizes: set[str]) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            inside, sizes_inside = function, sizes
            if isinstance(child, ast.FunctionDef):
                inside, sizes_inside = child.name, _sizes_in(child)
            if _decides(child, sizes_inside):
                yield inside, getattr(child, "lineno", 0)
            if not isinstance(child, ast.JoinedStr):
                yield from walk(child, inside, sizes_inside)

    tree = ast.parse(source)
    yield from walk(tree, "", _sizes_in(tree))


def test_the_comparison_stands_in_one_place() -> None:
    for path in _HOUSE.rglob("*.py"):
        name = path.relative_to(_HOUSE).as_posix()
        for function, line in _decisions(path.read_text("utf-8")):
            allowed = name == _HOME or f"{name}:{function}" in _OTHER_DECISIONS
            assert allowed, f"valuerepair/{name}:{line}: question.is_candidate decides this"


def test_the_pages_scripts_compare_in_one_place_too() -> None:
    """The reader of a page moves the threshold, so its scripts compare: `Points.isCandidate`."""
    scripts = {path.name: path.read_text("utf-8") for path in (_HOUSE / "report" / "page_template").glob("*.js")}
    comparing = {name: len(_IN_SCRIPT.findall(text)) for name, text in scripts.items() if _IN_SCRIPT.search(text)}
    assert comparing == {"data.js": 1}


@pytest.mark.parametrize(
    "source",
    [
        "wrong = np.abs(off) >= question.threshold",
        "found = off[rows] < self._threshold",
        "hits = frame[frame['disagreement'].abs() >= at]",
        "ids = connection.execute('SELECT id FROM scored WHERE abs(net - deep) >= :threshold')",
        "ids = connection.execute(f'SELECT id FROM scored WHERE abs(net - deep) >= {threshold}')",
        "wrong = size >= rows['threshold'].to_numpy()",
        "hits = frame[frame['disagreement'].abs() >= 0.55]",
        "hits = frame[off.abs() >= 0.55]",
        "wrong = np.abs(net_q - deep_q) >= limit",
        "wrong = abs(net_q - deep_q)[rows] > 0.3",
        "size = np.abs(disagreement)\nwrong = size >= at",
        "size: Floats = np.abs(frame['net_q'] - frame['deep_q'])\nwrong = size[rows] >= 0.55",
        "wrong = size >= at",
    ],
)
def test_a_comparison_elsewhere_would_be_noticed(source: str) -> None:
    assert list(_decisions(source))
    assert not list(_decisions("wrong = is_candidate(off, question.threshold)"))


def test_bootstraps_over_games_are_drawn_and_bounded_in_one_place() -> None:
    drawing = {}
    for path in _HOUSE.rglob("*.py"):
        if calls := re.findall(r"\w*percentile\(|multinomial\(", path.read_text("utf-8")):
            drawing[path.relative_to(_HOUSE).as_posix()] = calls
    assert drawing == {"intervals.py": ["nanpercentile("]}


def test_a_candidate() -> None:
    off = [0.55, -0.55, 0.5499, -0.5499, 2.0, float("nan")]
    expected = [True, True, False, False, True, False]
    assert [is_candidate(one, 0.55) for one in off] == expected
    assert is_candidate(np.array(off), 0.55).tolist() == expected
    assert is_candidate(pd.Series(off), 0.55).tolist() == expected
    assert is_candidate(np.array([[0.3], [0.7]]), np.array([0.2, 0.5])).tolist() == [[True, False], [True, True]]
