"""The longer look at candidates: what it says is Stockfish's word, and what is told of it is recounted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chess.engine
import numpy as np
import pytest

from benchmarks.proof.noise import look, noise_table
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.engines.spec import find_engine
from valuerepair.oracles.open import open_oracle
from valuerepair.runs.options import MineOptions
from valuerepair.store.store import Store


def test_the_longer_look_is_the_engine_s(tmp_path: Path) -> None:
    engine = find_engine("stockfish")
    if engine is None:
        pytest.skip("needs Stockfish")
    db = tmp_path / "s.db"
    mine_by_key(random_games(tmp_path / "a.pgn", 4), db, options=MineOptions(sample=SampleOptions(per_game=3)))
    with Store.open(db) as store:
        rows = store.connection.execute("SELECT id, fen FROM positions ORDER BY id").fetchall()[:6]
    ids = np.array([row[0] for row in rows], np.int64)
    with open_oracle("stockfish:nodes=3000", net_path=None) as oracle:
        looked = look(oracle, db, ids, 170.0, tmp_path / "kept")
        again = look(oracle, tmp_path / "gone.db", ids, 340.0, tmp_path / "kept")
    with chess.engine.SimpleEngine.popen_uci(str(engine)) as alone:
        for (_, fen), q, wider in zip(rows, looked, again, strict=True):
            alone.configure({"Hash": 16, "Clear Hash": None})
            score = alone.analyse(chess.Board(fen), chess.engine.Limit(nodes=3000), game=object())["score"].relative
            if mate := score.mate():
                assert q == wider == np.sign(mate)
            else:
                cp = score.score()
                assert cp is not None
                assert (q, wider) == pytest.approx((np.tanh(cp / 340), np.tanh(cp / 680)))


def test_what_is_left_is_counted_by_each_look() -> None:
    rng, n = np.random.default_rng(3), 600
    game = rng.integers(0, 200, n)
    first, longer = rng.uniform(0.3, 1, n), rng.uniform(0, 1, n)
    control = [rng.uniform(0, 1, (2, 1, n)) for _ in range(2)]
    better = [np.maximum(errors - 0.15, 0) for errors in control]
    off: Any = {
        "original": (first[None, None], longer[None, None]),
        "control": tuple(control),
        "10": tuple(better),
        "same": (control[0][::-1], control[1][::-1]),
    }
    rows = noise_table(off, game).to_dict("records")
    of = {(row["measure"], row["look"], row["arm"], row["against"]): row for row in rows}
    confirmed = longer >= 0.3
    whole = of["confirmed", 2, "original", ""]
    assert (whole["value"], whole["positions"]) == (pytest.approx(confirmed.mean()), n)
    assert whole["low"] < whole["value"] < whole["high"]
    for number, distance in ((1, first), (2, longer)):
        assert of["mean_dq", number, "original", ""]["value"] == pytest.approx(distance.mean())
    for number, which in ((1, np.ones(n, bool)), (2, confirmed)):
        shares = {name: (off[name][number - 1][..., which] >= 0.3).mean() for name in off}
        assert ("still", number, "original", "") not in of
        for name, share in list(shares.items())[1:]:
            row = of["still", number, name, ""]
            assert (row["value"], row["positions"]) == (pytest.approx(share), which.sum())
            assert (row["seeds"], row["games"]) == (len(off[name][0]), len(set(game[which])))
        against = of["still", number, "10", "control"]
        assert against["value"] == pytest.approx(shares["10"] / shares["control"] - 1)
        assert against["high"] < 0
        same = of["still", number, "same", "control"]
        assert same["low"] < 0 < same["high"]
        assert same["value"] == pytest.approx(0, abs=1e-12)
    assert ("still", 1, "control", "control") not in of
