"""Labels at equal nodes: as many nodes for each arm, positions apart, and an error that is least squares' own."""

from __future__ import annotations

import sqlite3
from itertools import product
from pathlib import Path

import chess.pgn
import numpy as np
import pandas as pd
import pytest
import zstandard

from benchmarks.proof import games, labels, page
from benchmarks.proof.analysis import Arm, Drawn, estimate, relative
from benchmarks.proof.labels import ARMS, FLAT, LADDER, SEEDS, SHARES, Labels, spent, squared_errors
from benchmarks.proof.tables import write_table
from tests.cli_tree import SAMPLE, parse
from valuerepair.calibration import fold_of
from valuerepair.cli import cli

GAMES = Path(__file__).parents[1] / "data" / "games.pgn.zst"
LABELS = Labels(Path("data"), Path("out"), 0.1)
STEPS = [step for phase in LABELS.phases(Path("results")) for step in phase]


def test_every_command_is_one(tmp_path: Path) -> None:
    archives, folder = tmp_path / "data" / "pgn", tmp_path / "out"
    archives.mkdir(parents=True)
    (folder / "nets").mkdir(parents=True)
    (archives / "otb-masters.pgn.zst").touch()
    programs = {"valuerepair": cli, "benchmarks.proof.games": games.command, "benchmarks.proof.labels": labels.command}
    for phase in Labels(tmp_path / "data", folder).phases(tmp_path):
        for step in phase:
            parse(list(step.command), programs[step.program])


def test_steps_make_each_thing_once_and_measure_after_each_seed() -> None:
    made = [step.output for step in STEPS if step.part != "measure"]
    assert len(set(made)) == len(made)
    assert sum(step.part == "measure" for step in STEPS) == len(SEEDS)
    assert sum(step.command[0] == "train" for step in STEPS) == len(ARMS) * len(SHARES) * len(SEEDS)


def test_arms_have_as_many_nodes_and_differ_in_nothing_else() -> None:
    for share in SHARES:
        budgets = {arm: LABELS.positions(arm, share) * nodes for arm, nodes in FLAT.items()}
        assert set(budgets.values()) == {round(2_000_000 * share)}
    left = set()
    for step in STEPS:
        if step.command[0] == "train":
            own = ("--store", "-o", "--seed")
            left.add(tuple(w for k, w in enumerate(step.command) if step.command[k - 1] not in own))
    assert len(left) == 1
    mined = [step.command for step in STEPS if step.command[0] == "mine" and "train.pgn" in step.command[1]]
    assert len(mined) == len(list(product(ARMS, SHARES, SEEDS)))
    assert not any("test.pgn" in word for words in mined for word in words)
    screened = [words for words in mined if "off" not in words]
    assert len(screened) == len(SHARES) * len(SEEDS)
    assert all(f"labels-{LADDER}-" in words[words.index("--db") + 1] for words in screened)


def test_nodes_are_counted_once_along_a_ladder() -> None:
    """A position has cost its full search, if it had one, else its last rung; second looks and others apart."""
    with sqlite3.connect(SAMPLE) as sql:
        rows = sql.execute("SELECT oracle_id, position_id, stage, nodes FROM deep_values").fetchall()
    cost: dict[tuple[int, int], int] = {}
    for oracle, position, _, nodes in rows:
        cost[oracle, position] = max(cost.get((oracle, position), 0), nodes)
    climbed = {(oracle, position) for oracle, position, stage, _ in rows if stage.isdigit()}
    full = {(oracle, position): nodes for oracle, position, stage, nodes in rows if stage == "full"}
    assert all(cost[at] == full[at] for at in climbed & set(full))
    cost_of_labels = spent(SAMPLE)
    assert (cost_of_labels.nodes, cost_of_labels.positions) == (sum(cost.values()), len(cost))


def test_games_are_divided_whole(tmp_path: Path) -> None:
    text = zstandard.ZstdDecompressor().stream_reader(GAMES.open("rb")).read()
    train, test = tmp_path / "train.pgn", tmp_path / "test.pgn"
    counts = games.divide(GAMES, train, test)
    parts = [path.read_bytes() for path in (train, test)]
    assert sum(map(len, parts)) == len(text)
    for path, part, count in zip((train, test), parts, counts, strict=True):
        assert part.count(b"[Event ") == count
        with path.open() as file:
            read_games = [chess.pgn.read_game(file) for _ in range(count + 1)]
        assert [game is None for game in read_games] == [False] * count + [True]
        assert not any(game.errors for game in read_games if game)
    assert 0.08 < counts[1] / sum(counts) < 0.12


def test_the_error_is_what_least_squares_of_other_games_leave() -> None:
    dice = np.random.default_rng(4)
    game, q = np.repeat(np.arange(100), 5), dice.uniform(-1, 1, 500)
    deep_q = 0.7 * q + dice.normal(0, 0.1, 500)
    errors, fold = squared_errors(q, deep_q, game), fold_of(game)
    for part in np.unique(fold):
        in_part = fold == part
        scale = np.linalg.lstsq(q[~in_part, None], deep_q[~in_part])[0][0]
        np.testing.assert_allclose(errors[in_part], (scale * q[in_part] - deep_q[in_part]) ** 2)
    np.testing.assert_allclose(squared_errors(3 * q, deep_q, game), errors)


@pytest.mark.parametrize("better", [0.0, 0.05])
def test_a_comparison_holds_the_truth(better: float) -> None:
    """Nets of one arm differ by their seeds, and positions of one game are alike."""
    dice, held, shown, repeats = np.random.default_rng(9), 0, 0, 60
    game = np.repeat(np.arange(150), 4)
    for _ in range(repeats):
        shared = 1 + 0.5 * dice.normal(size=150)[game] + 0.3 * dice.normal(size=600)
        drawn = Drawn(game, draws=400)
        errors = [
            level * shared + dice.normal(0, 0.03, (4, 1)) + 0.1 * dice.normal(size=(4, 600))
            for level in (1 - better, 1.0)
        ]
        ladder, flat = (
            drawn.arm(name, errors_of_arm) for name, errors_of_arm in zip(("ladder 0.7", "1000 1"), errors, strict=True)
        )
        interval = estimate(relative, ladder, flat)
        held += interval.low <= -better <= interval.high
        shown += interval.high < 0
    assert held / repeats >= 0.9
    assert shown / repeats <= 0.1 or better


def test_the_table_has_costs_and_comparisons(tmp_path: Path) -> None:
    """As `table` writes it, with the ladder's own share of the budget against the others' at that and at all of it."""
    dice = np.random.default_rng(2)
    arms = {}
    for arm, share in [("original", 0.0), *product(ARMS, SHARES)]:
        error = 0.06 - 0.01 * share
        arms[arm, share] = Arm(np.full(2, error), error + dice.normal(0, 1e-5, (50, 2)), np.zeros((50, 2)))
    costs = {at: [labels.Spent(40_000_000, 20_000), labels.Spent(39_000_000, 19_000)] for at in arms}
    pairs = list(labels.pairs(arms))
    assert len(set(pairs)) == len(pairs) == 7 * len(FLAT) + len(ARMS)
    assert sum(at[0] == LADDER for at, _ in pairs) == 5 * len(FLAT) + 1
    rows = [labels.row(at, arms, costs, None) for at in arms] + [labels.row(at, arms, costs, to) for at, to in pairs]
    write_table(pd.DataFrame(rows), tmp_path / "labels.csv")
    shown = page.labels(tmp_path)
    assert len(shown) == 2 + len(arms)
    assert shown[3].startswith("| `1000` | 2 | 19,500 | 39.5 million | 0.0550 (")
    assert page.labels_compared(tmp_path)[3 + len(ARMS)].startswith("| `ladder` | 0.5 | `1000` | 1 | **+10.0 (")
