"""Beside the games: what is told of the nets is recounted, and positions of searches are reached as they say."""

from __future__ import annotations

import chess
import numpy as np
import pytest

from benchmarks.proof.aside import aside_table, in_searches
from tests.cli_tree import SAMPLE
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import open_net
from valuerepair.oracles.searching import search_positions
from valuerepair.store.store import Store


def test_what_is_told_is_recounted() -> None:
    rng, n = np.random.default_rng(2), 900
    game, deep = rng.integers(0, 300, n), rng.uniform(-1, 1, n)
    nets = {
        "original": 0.5 * deep[None] + rng.normal(0, 0.2, (1, n)),
        "control": 0.8 * deep + rng.normal(0, 0.2, (3, n)),
        "5": deep + rng.normal(0, 0.1, (3, n)),
    }
    rows = aside_table({("aside", "raw"): nets}, {"aside": deep}, {"aside": game}).to_dict("records")
    of = {(row["arm"], row["against"], row["measure"]): row for row in rows}
    rate = {name: (np.abs(q - deep) >= 0.3).mean() for name, q in nets.items()}
    for name, q in nets.items():
        assert of[name, "", "rate"]["value"] == pytest.approx(rate[name])
        assert of[name, "", "mean_dq"]["value"] == pytest.approx(np.abs(q - deep).mean())
        slope = np.mean([np.linalg.lstsq(one[:, None], deep, rcond=None)[0][0] for one in q])
        row = of[name, "", "slope"]
        assert row["value"] == pytest.approx(slope)
        factor, noise = {"original": (0.5, 0.2), "control": (0.8, 0.2), "5": (1.0, 0.1)}[name]
        assert row["low"] < factor / 3 / (factor**2 / 3 + noise**2) < row["high"]
    for other in ("original", "control"):
        row = of["5", other, "rate"]
        assert row["value"] == pytest.approx(rate["5"] / rate[other] - 1)
        assert row["high"] < 0
    assert ("original", "control", "rate") not in of


def test_positions_of_searches_are_nodes_of_these(maia_file: str) -> None:
    """Each is reached by legal moves that the same search made, and is no root."""
    with Store.open(SAMPLE) as store:
        positions = store.positions(np.arange(1, 7))
    reached, rows = in_searches(maia_file, positions, np.random.default_rng(3))
    assert len(reached) == len(rows) >= 5
    with open_net(maia_file) as net:
        searched = list(search_positions(net, SearchParams(), positions, nodes=100, tree_nodes=100))
    for i, row in enumerate(rows):
        tree = searched[row].tree
        assert tree is not None
        made = set[str]()
        for node in tree.nodes:
            board, line, at = chess.Board(positions.fen[row]), list[str](), node
            while at.parent is not None:
                line.append(at.move)
                at = tree.nodes[at.parent]
            for move in line[::-1]:
                board.push_uci(move)
            if line:
                made.add(board.epd())
        assert chess.Board(reached.fen[i]).epd() in made
