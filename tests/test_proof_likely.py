"""Chances that positions are candidates: they are as often as they say, and say so without their own game's help."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from benchmarks.proof.likely import MOST, chances, command, ranked, seen
from tests.cli_tree import SAMPLE
from valuerepair.judge.split import PARTS, choose_split, write_split
from valuerepair.question import Question
from valuerepair.store.store import Store

FENS = (
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 w - - 0 1",
    "6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 b - - 0 1",
)


def frame(n: int, rng: np.random.Generator) -> pd.DataFrame:
    columns = {"net_q": rng.uniform(-1, 1, n), "net_d": rng.uniform(0, 0.6, n), "net_entropy": rng.uniform(0, 3, n)}
    made: pd.DataFrame = pd.DataFrame({**columns, "ply": rng.integers(0, 150, n), "fen": rng.choice(FENS, n)})
    return made


def test_material_is_that_of_the_side_to_move() -> None:
    shown = seen(frame(len(FENS), np.random.default_rng(0)).assign(fen=FENS))
    for fen, row in zip(FENS, shown.itertuples(), strict=True):
        board = chess.Board(fen)
        mine = {
            side: sum(
                len(board.pieces(kind, side)) * worth for kind, worth in zip(range(1, 6), (1, 3, 3, 5, 9), strict=True)
            )
            for side in chess.COLORS
        }
        assert row.balance == np.clip(mine[board.turn] - mine[not board.turn], -9, 9)
        assert row.p == len(board.pieces(chess.PAWN, True)) + len(board.pieces(chess.PAWN, False))


def test_positions_are_candidates_as_often_as_is_said() -> None:
    rng, n = np.random.default_rng(1), 20_000
    positions = frame(n, rng)
    true = 1 / (1 + np.exp(4 - 2 * positions["net_entropy"] * positions["net_q"].abs() - (positions["fen"] == FENS[0])))
    candidate = rng.random(n) < true.to_numpy()
    chance = chances(seen(positions), candidate, rng.integers(0, 2000, n))
    for part in np.array_split(np.argsort(chance), 10):
        assert candidate[part].mean() == pytest.approx(
            chance[part].mean(), abs=4 * np.sqrt(chance[part].mean() / len(part))
        )
    assert ranked(chance, candidate) == pytest.approx(ranked(true.to_numpy(), candidate), abs=0.01)
    nothing = chances(seen(positions), rng.random(n) < 0.05, np.arange(n))
    assert ranked(nothing, rng.random(n) < 0.05) == pytest.approx(0.5, abs=0.03)


def test_weights_are_of_the_part_to_train_on(tmp_path: Path) -> None:
    split, output = tmp_path / "split.json", tmp_path / "w.parquet"
    with Store.open(SAMPLE) as store:
        chosen = choose_split(store, seed=1)
        write_split(split, chosen)
        positions = store.frame(Question(), text=False)
        net, ids = positions.attrs["net"]["name"], positions["position_id"].to_numpy(np.int64)
        train = set(ids[np.array(PARTS)[chosen.parts(store, ids)] == "train"].tolist())
    words = ["--db", SAMPLE, "--split", split, "--net", net, "-o", output]
    done = CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0
    table = pd.read_parquet(output)
    assert set(table["position_id"]) <= train
    assert len(table) > len(train) / 2
    assert 0 < table["weight"].min() < 0.5 < 1.5 < table["weight"].max() <= MOST
