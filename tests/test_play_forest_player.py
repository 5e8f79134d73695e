"""The built-in MCTS as a player: the same moves whatever is played beside, and the same as a search alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mcts_doubles import FakeNet
from tests.play_doubles import INITIAL
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.mcts.evaluator import LeafEvaluator, NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Net, open_net
from valuerepair.play.forest_player import CachedEvaluator, ForestPlayer
from valuerepair.play.game import GameRecord
from valuerepair.play.referee import Rules
from valuerepair.play.runner import Pairing, play_games

HOT = SearchParams(temperature=1.0)


@pytest.fixture(scope="module")
def net(shared_data: Path) -> Iterator[Net]:
    with open_net(str(shared_data / "nets" / "maia-1900.pb.gz"), device="cpu", threads=2) as net:
        net.session.batch_size = 16
        yield net


@contextmanager
def player(net: Net, params: SearchParams = HOT, nodes: int = 12, **more: Any) -> Iterator[ForestPlayer]:
    made = ForestPlayer(net, params, nodes, **{"trees": 8, **more})
    try:
        yield made
    finally:
        made.close(cancel=True)


def games(one: ForestPlayer, count: int = 4, jobs: int = 8, seed: int = 5, plies: int = 10) -> list[GameRecord]:
    pairings = [Pairing(n, INITIAL, 0, 0) for n in range(count)]
    return sorted(play_games(pairings, [one], Rules(max_plies=plies), jobs, seed=seed), key=lambda game: game.number)


def moves_of(records: list[GameRecord]) -> list[tuple[str, ...]]:
    return [record.moves for record in records]


def test_moves_do_not_depend_on_the_company_nor_on_the_cache(net: Net) -> None:
    with player(net) as one:
        together = games(one)
        assert one.fill.cached > 0
        assert 0 < one.fill.share <= 1
        assert moves_of(games(one, seed=6)) != moves_of(together)
    with player(net, trees=1, cache=0) as alone:
        assert moves_of(games(alone, jobs=1)) == moves_of(together)
        assert alone.fill.cached == 0
    assert len(set(moves_of(together))) == 4
    for thought in (thought for record in together for thought in record.thoughts):
        assert thought.nodes == 12
        assert thought.search is not None
        assert thought.q == thought.search.best.q


def test_a_sides_seed_draws_its_moves(net: Net) -> None:
    """Temperature alone; without it the seed changes nothing."""
    for temperature, differs in ((1.0, True), (0.0, False)):
        moves = []
        for seed in (0, 1):
            with player(net, SearchParams(temperature=temperature, seed=seed)) as one:
                moves.append(moves_of(games(one)))
        assert (moves[0] != moves[1]) == differs


def test_a_move_is_that_of_a_search_alone(net: Net) -> None:
    with player(net, SearchParams(), 40) as one:
        (record,) = games(one, count=1, plies=6)
    evaluator = NetEvaluator(net)
    for i, thought in enumerate(record.thoughts):
        with player(net, SearchParams(), 40) as other:
            position = Position(STARTPOS_FEN, moves=record.moves[:i], ply=i)
            assert other.think(0, position, 0).result().move == thought.move
        forest = Forest(evaluator, SearchParams(), trees=1, nodes=40)
        ((_, result),) = forest.search([Position(STARTPOS_FEN, moves=record.moves[:i])], 40)
        assert thought.search is not None
        assert [(m.move, m.visits) for m in result.moves] == [(m.move, m.visits) for m in thought.search.moves]
        assert (thought.move, thought.q, thought.wdl is not None) == (result.best_move, result.best.q, True)


@pytest.mark.parametrize(
    "options", [{"noise_epsilon": 0.25}, {"temperature": 1.0}, {"n_scl": 3, "temperature": 1.0}], ids=str
)
def test_chance_is_of_the_game_not_of_the_position(net: Net, options: dict[str, Any]) -> None:
    with player(net, SearchParams(**options), 30) as one:
        records = games(one, count=6, plies=4)
        assert len({str(record.thoughts[0].search) for record in records}) > (1 if "n_scl" in options else 0)
        assert len(set(moves_of(records))) > 1
        assert moves_of(games(one, count=6, plies=4)) == moves_of(records)


def test_closing_gives_up_what_runs(net: Net) -> None:
    with player(net, nodes=1_000_000, trees=1) as one:
        future = one.think(0, Position(STARTPOS_FEN), 0)
    assert future.cancelled() or future.exception() is not None


@pytest.mark.parametrize("entries", [0, 50, 100_000])
def test_a_cache_changes_no_answer(entries: int) -> None:
    """Against the evaluator itself, over searches that follow each other."""
    plain, asked = FakeNet(), FakeNet()
    cached = CachedEvaluator(asked, entries)

    class Both(LeafEvaluator):
        def __call__(self, leaves: Any) -> Any:
            expected, got = plain(leaves), cached(leaves)
            for a, b in zip(expected, got, strict=True):
                np.testing.assert_array_equal(a, b)
                assert (a.dtype, b.flags.c_contiguous) == (b.dtype, True)
            return got

    for moves in ((), ("e2e4",), ("e2e4", "e7e5")):
        forest = Forest(Both(), SearchParams(), trees=5, nodes=60)
        list(forest.search([Position(STARTPOS_FEN, moves=moves)] * 3 + [Position(STARTPOS_FEN, moves=("d2d4",))], 60))
    assert cached.rows == sum(plain.sizes)
    assert sum(asked.sizes) == cached.rows - cached.hits
    assert len(cached._young) + len(cached._old) <= entries
    if entries > 1000:
        assert cached.hits > 2 / 3 * cached.rows
