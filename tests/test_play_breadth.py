"""Equal breadth in matches: effective root moves counted again, and nets that differ in the scale of Q alone."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from tests.linear_net import linear_onnx
from tests.match_doubles import fake_side, read_games, write_book
from tests.mcts_doubles import position, searched
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import open_net
from valuerepair.play.breadth import Breadth
from valuerepair.play.lineup import Lineup, parse_side
from valuerepair.play.match import MatchEnd, MatchPlan, play_match
from valuerepair.play.openings import read_openings
from valuerepair.play.referee import Rules
from valuerepair.progress import Progress

NODES = 20


def run(folder: Path, *sides: str, lines: int = 4, games: int | None = None, plies: int = 30) -> MatchEnd:
    openings = read_openings(write_book(folder / "book.pgn", lines))
    plan = MatchPlan(openings, games or 2 * lines, "book.pgn", nodes=NODES, rules=Rules(max_plies=plies))
    with (
        Lineup([parse_side(side) for side in sides], NODES, 2, plan.games, device="cpu", threads=1) as lineup,
        Progress("match", quiet=True) as progress,
    ):
        return play_match(plan, lineup, folder / "match.pgn", progress=progress)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same net with Q as it is and half as steep."""
    folder = tmp_path_factory.mktemp("nets")
    return {name: f"net={linear_onnx(folder / f'{name}.onnx', q)}" for name, q in (("steep", 1.0), ("flat", 0.5))}


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any))
def test_effective_moves_are_the_exponential_of_the_entropy(visits: list[int]) -> None:
    """As the Hill number of order 1; n of n equal ones."""
    plain = searched(position(), 2).result(0)
    result = replace(plain, moves=tuple(replace(plain.moves[0], visits=n) for n in visits))
    assert result.effective_moves == pytest.approx(np.exp(entropy(visits)))
    even = replace(plain, moves=tuple(replace(plain.moves[0], visits=7) for _ in visits))
    assert even.effective_moves == pytest.approx(len(visits))


def test_a_root_alone_has_no_breadth() -> None:
    assert math.isnan(searched(position(), 1).result(0).effective_moves)
    assert Breadth.of([]).mean is None


def test_effective_moves_are_those_of_each_moves_own_search(tmp_path: Path, nets: dict[str, str]) -> None:
    """The tags of every game, counted again: each position searched alone, by as many visits as the move had."""
    run(tmp_path, nets["steep"], nets["flat"], lines=1)
    for game in read_games(tmp_path / "match.pgn"):
        for colour in ("White", "Black"):
            found = re.fullmatch(
                r"(\S+) effective moves in (\d+) searches, net Q (\S+) in (\d+)", game.headers[f"{colour}Breadth"]
            )
            assert found is not None
            file = nets[game.headers[colour].split()[0]].removeprefix("net=")
            moves, own = again(game, file, colour == "White")
            assert (int(found[2]), int(found[4])) == (len(moves), len(own))
            assert float(found[1]) == pytest.approx(np.mean(moves), abs=1e-4)
            assert float(found[3]) == pytest.approx(np.sqrt(np.mean(np.square(own))), abs=1e-5)


def again(game: Any, file: str, white: bool) -> tuple[list[float], list[float]]:
    """Effective moves and the net's own Q of one side's roots."""
    moves, own, line = list[float](), list[float](), list[str]()
    with open_net(file, device="cpu", threads=1) as net:
        forest = Forest(NetEvaluator(net), SearchParams(), trees=1)
        for node in game.mainline():
            mover = node.parent.board()
            if node.comment != "book" and mover.turn == white:
                result = forest.search_one(position(moves=" ".join(line)), NODES)
                own.append(result.net_wl)
                if mover.legal_moves.count() > 1 and result.certain is None:
                    counts = [move.visits for move in result.moves]
                    assert sum(counts) == NODES - 1
                    moves.append(np.exp(entropy(counts)))
            line.append(node.move.uci())
    return moves, own


@pytest.mark.slow
def test_a_net_of_another_scale_is_found_and_mapped_plays_as_the_first(tmp_path: Path, nets: dict[str, str]) -> None:
    """Mapped, both sides are one player: the games of each pair are the same, move by move."""
    plain = run(tmp_path, nets["steep"], nets["flat"])
    assert plain.advised == (0, 0.5)
    first, second = (breadth.mean for breadth in plain.standing.breadth)
    assert first is not None
    assert second is not None
    assert first < second
    (advice,) = (line for line in plain.lines() if "equal breadth" in line)
    assert re.search(r"Q of steep is (1\.9|2\.0)\d .* give steep q_scale=0\.5", advice)
    assert plain.as_json()["advised"] == {"player": "steep", "q_scale": 0.5}
    (tmp_path / "other").mkdir()
    other = run(tmp_path / "other", nets["flat"], nets["steep"])
    assert other.advised == (1, 0.5)
    (tmp_path / "mapped").mkdir()
    mapped = run(tmp_path / "mapped", f"{nets['steep']},q_scale=0.5", nets["flat"])
    games = read_games(tmp_path / "mapped" / "match.pgn")
    by_number = {int(game.headers["Round"]): [move.uci() for move in game.mainline_moves()] for game in games}
    assert len(by_number) == 8
    for number in range(1, 8, 2):
        assert by_number[number] == by_number[number + 1]
    first, second = (breadth.mean for breadth in mapped.standing.breadth)
    assert first == pytest.approx(second)
    assert mapped.advised is None
    assert "equal breadth" not in "\n".join(mapped.lines())


@pytest.mark.slow
def test_a_resumed_match_has_the_breadth_of_all_its_games(tmp_path: Path, nets: dict[str, str]) -> None:
    sides = nets["steep"], nets["flat"]
    run(tmp_path, *sides, games=2)
    resumed = run(tmp_path, *sides)
    assert resumed.before == 2
    (tmp_path / "anew").mkdir()
    whole = run(tmp_path / "anew", *sides)
    a, b = (json.loads(json.dumps(end.as_json())) for end in (resumed, whole))
    assert a["effective_root_moves"] == pytest.approx(b["effective_root_moves"])
    assert a["searches"] == b["searches"]
    assert a["q_scale"]["value"] == pytest.approx(b["q_scale"]["value"])


def test_an_engine_does_not_say_its_visits(tmp_path: Path, nets: dict[str, str]) -> None:
    end = run(tmp_path, nets["steep"], fake_side("one"), lines=1)
    found = end.as_json()
    assert found["effective_root_moves"][0] > 1
    assert found["effective_root_moves"][1] is None
    assert found["q_scale"] is None
    assert "advised" not in found
    (line,) = (line for line in end.lines() if line.startswith("effective root moves"))
    assert "one" not in line
    for game in read_games(tmp_path / "match.pgn"):
        assert ("WhiteBreadth" in game.headers) == (game.headers["White"] == "steep")
    (tmp_path / "both").mkdir()
    both = run(tmp_path / "both", fake_side("one"), fake_side("two"), lines=1)
    assert both.as_json()["effective_root_moves"] == [None, None]
    assert not any(line.startswith("effective root moves") for line in both.lines())
