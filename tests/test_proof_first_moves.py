"""Q before and after the net's own first move, against python-chess and a simulation with known means."""

from __future__ import annotations

from pathlib import Path

import chess
import chess.engine
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import valuerepair as vr
from benchmarks.proof.first_moves import command, drawn, table_of

GAMES = str(Path(__file__).parents[1] / "data" / "games.pgn.zst")


def test_the_means_of_known_changes() -> None:
    dice = np.random.default_rng(1)
    judge_before, judged = dice.normal(0.01, 0.4, 6_000), dice.normal(-0.1, 0.2, 6_000)
    change = -0.14 + 0.5 * (judged + 0.1) + dice.normal(0, 0.1, 6_000)
    before = judge_before + dice.normal(0.04, 0.2, 6_000)
    columns = {
        "before": before, "after": before + change, "judge_before": judge_before,
        "judge_after": judge_before + judged, "game": np.arange(6_000) // 3,
    }  # fmt: skip
    (row,) = table_of({"net": columns}).to_dict("records")
    assert (row["net"], row["positions"], row["games"]) == ("net", 6_000, 2_000)
    for name, truth in (("bias", 0.04), ("change", -0.14), ("judged", -0.1)):
        assert row[f"{name}_low"] < truth < row[f"{name}_high"]
        assert row[f"{name}_high"] - row[f"{name}_low"] < 0.03
    assert row["correlation"] == pytest.approx(0.1 / np.hypot(0.1, 0.1), abs=0.03)


def test_what_the_net_says_before_and_after_its_first_move(tmp_path: Path, stockfish: str) -> None:
    words = [GAMES, "--net", "maia-1900", "--count", "40", "--deep", f"uci:{stockfish},nodes=2000", "-o", str(tmp_path)]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (row,) = pd.read_csv(tmp_path / "first-moves.csv").to_dict("records")
    changes = []
    for position in drawn(GAMES, 40, 34):
        board = chess.Board(position.start_fen)
        for move in position.moves:
            board.push_uci(move)
        (before,) = vr.evaluate_each([board], "maia-1900")
        board.push_uci(before.top[0][0])
        if not board.is_game_over():
            (after,) = vr.evaluate_each([board], "maia-1900")
            changes.append(-after.q - before.q)
    assert row["positions"] == len(changes)
    assert row["change"] == pytest.approx(np.mean(changes), abs=1e-4)
