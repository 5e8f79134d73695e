"""Each option of the search needs as many nodes as before for a known combination, and no fewer suffice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import valuerepair as vr
from tests.parity.search_cases import (
    CASE,
    CASE_MOVE,
    OPTIONS,
    Course,
    Remembering,
    courses,
    short_mates,
)
from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.net import Net
from valuerepair.oracles.searching import search_positions

# For each option, the fewest nodes from which Qc4 is the best move, and from which it is proven to win.
FEWEST = {
    "defaults (sticky endgames)": (1270, 1270),
    "sticky endgames off": (2422, math.inf),
    "look-ahead": (361, 361),
    "auto-extend": (966, 966),
    "certainty": (1270, 1270),
    "certainty, look-ahead": (361, 361),
    "certainty, look-ahead, auto-extend": (76, 76),
    "search-contempt, N_scl = 50": (2819, 2819),
    "search-contempt, N_scl = 5": (3683, 3683),
}
FEW = ["certainty, look-ahead, auto-extend", "look-ahead"]
NAMES = [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in OPTIONS]
CASE_POSITION = Position(CASE, CASE, history_known=False)


@pytest.fixture(scope="module")
def net(shared_data: Path) -> Iterator[Net]:
    with vr.open_net(str(shared_data / "nets" / "maia-1900.pb.gz"), device="cpu", threads=1) as net:
        yield net


def searched(position: Position, name: str, nodes: float, net: Net) -> SearchResult:
    [found] = search_positions(net, OPTIONS[name], [position], int(nodes))
    assert found.result is not None
    return found.result


def course_of(position: Position, name: str, nodes: int, net: Net) -> Course:
    (course,) = courses([position], OPTIONS[name], nodes, Remembering(NetEvaluator(net)))
    return course


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_so_many_nodes_suffice_and_one_less_does_not(net: Net, name: str) -> None:
    best, proven = FEWEST[name]
    assert searched(CASE_POSITION, name, best, net).best_move == CASE_MOVE
    assert searched(CASE_POSITION, name, best - 1, net).best_move != CASE_MOVE
    if proven < math.inf:
        assert searched(CASE_POSITION, name, proven, net).certain == 1
        assert searched(CASE_POSITION, name, proven - 1, net).certain != 1


@pytest.mark.parametrize("name", NAMES)
def test_the_courses_are_those_of_the_searches(net: Net, name: str) -> None:
    limit = 400 if name in FEW else 10_000
    course = course_of(CASE_POSITION, name, limit, net)
    assert (course.settled({CASE_MOVE}), course.proven) == FEWEST[name]


@pytest.mark.parametrize("name", ["defaults (sticky endgames)", FEW[0]])
@pytest.mark.slow
def test_mates_are_proven_from_the_fewest_nodes_that_suffice(net: Net, shared_data: Path, name: str) -> None:
    """Of trees that grow together, too."""
    mates = [position for position, _ in short_mates(shared_data / "epd" / "matetrack.epd", 3)][:12]
    found = courses(mates, OPTIONS[name], 120, Remembering(NetEvaluator(net)))
    assert {course.proven == math.inf for course in found} == {True, False}
    for position, course in zip(mates, found, strict=True):
        if course.proven < math.inf:
            assert searched(position, name, course.proven, net).certain == 1
        fewer = min(course.proven, 121) - 1
        assert fewer < 1 or searched(position, name, fewer, net).certain != 1


def test_every_number_of_nodes_is_looked_at(net: Net) -> None:
    """The best move of a search of n nodes, for all n."""
    course = course_of(CASE_POSITION, FEW[0], 40, net)
    changes = dict(course.best)
    move = ""
    for nodes in range(1, 41):
        move = changes.get(nodes, move)
        assert searched(CASE_POSITION, FEW[0], nodes, net).best_move == move
