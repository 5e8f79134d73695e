"""Each option needs as many nodes as docs/methods/search.md says, and no fewer suffice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import chess.engine
import pytest

import valuerepair as vr
from tests.parity.search_cases import (
    CASE,
    CASE_MOVE,
    OPTIONS,
    Course,
    Judge,
    Remembering,
    courses,
    report_mates,
    short_mates,
)
from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.net import Net
from valuerepair.oracles.searching import search_positions

PAGE = (Path(__file__).parents[1] / "docs" / "methods" / "search.md").read_text("utf-8")
CASE_TABLE, MATES_TABLE = (
    PAGE[PAGE.index(head) :].split("\n\n")[0] for head in ("| options | Qc4 is best", "| options | a win is proven")
)
PRINTED = {
    name: tuple(math.inf if cell == "-" else int(cell.replace(",", "")) for cell in cells)
    for name, *cells in (line.strip("| ").split(" | ") for line in CASE_TABLE.splitlines()[2:])
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


def test_the_page_has_every_option() -> None:
    assert list(PRINTED) == list(OPTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_the_printed_nodes_suffice_and_one_less_does_not(net: Net, name: str) -> None:
    best, proven = PRINTED[name]
    assert searched(CASE_POSITION, name, best, net).best_move == CASE_MOVE
    assert searched(CASE_POSITION, name, best - 1, net).best_move != CASE_MOVE
    if proven < math.inf:
        assert searched(CASE_POSITION, name, proven, net).certain == 1
        assert searched(CASE_POSITION, name, proven - 1, net).certain != 1


@pytest.mark.parametrize("name", NAMES)
def test_the_harness_prints_what_the_page_does(net: Net, name: str) -> None:
    limit = 400 if name in FEW else 10_000
    course = course_of(CASE_POSITION, name, limit, net)
    assert (course.settled({CASE_MOVE}), course.proven) == PRINTED[name]


@pytest.mark.parametrize("name", ["defaults (sticky endgames)", FEW[0]])
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


@pytest.mark.slow
def test_the_table_of_mates(net: Net, shared_data: Path, stockfish: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command of the page, with its figures; it takes minutes."""
    with chess.engine.SimpleEngine.popen_uci(stockfish) as engine:
        report_mates(
            Remembering(NetEvaluator(net)),
            Judge(engine),
            list(short_mates(shared_data / "epd" / "matetrack.epd", 4)),
            800,
        )
    assert capsys.readouterr().out.split("\n\n")[1].strip() == MATES_TABLE.strip()


def test_every_number_of_nodes_is_looked_at(net: Net) -> None:
    """The best move of a search of n nodes, for all n."""
    course = course_of(CASE_POSITION, FEW[0], 40, net)
    changes = dict(course.best)
    move = ""
    for nodes in range(1, 41):
        move = changes.get(nodes, move)
        assert searched(CASE_POSITION, FEW[0], nodes, net).best_move == move
