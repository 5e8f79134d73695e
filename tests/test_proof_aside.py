"""A random move aside: the moves are legal and drawn evenly, and what is told of the nets is recounted."""

from __future__ import annotations

from collections import Counter

import chess
import numpy as np
import pytest

from benchmarks.proof.aside import aside, aside_table
from valuerepair.chess.positions import Position


def test_moves_are_legal_even_and_lead_on() -> None:
    mate_in_one = Position("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1", "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1")
    mated = Position("R5k1/5ppp/8/8/8/8/8/6K1 b - - 1 1", "R5k1/5ppp/8/8/8/8/8/6K1 b - - 1 1")
    kept, found = aside([Position(chess.STARTING_FEN)] * 4000 + [mate_in_one] * 200 + [mated], np.random.default_rng(1))
    assert 4200 not in kept
    reached = dict(zip(kept, found, strict=True))
    assert set(range(4000)) <= set(kept)
    assert 150 < sum(i >= 4000 for i in kept) < 200  # some of the drawn moves mate
    moves = Counter(position.moves[-1] for i, position in reached.items() if i < 4000)
    assert set(moves) == {move.uci() for move in chess.Board().legal_moves}
    assert all(140 < count < 260 for count in moves.values())
    for position in found[::97]:
        board = chess.Board(position.start_fen)
        board.push_uci(position.moves[0])
        assert board.fen() == position.fen


def test_what_is_told_is_recounted() -> None:
    rng, n = np.random.default_rng(2), 900
    game, deep = rng.integers(0, 300, n), rng.uniform(-1, 1, n)
    nets = {
        "original": 0.5 * deep[None] + rng.normal(0, 0.2, (1, n)),
        "control": 0.8 * deep + rng.normal(0, 0.2, (3, n)),
        "5": deep + rng.normal(0, 0.1, (3, n)),
    }
    rows = aside_table({("aside", "raw"): nets}, {"aside": deep}, game).to_dict("records")
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
