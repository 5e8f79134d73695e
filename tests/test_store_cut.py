"""What a ladder cut, read by the value of its last rung: against plain SQL over the tables."""

from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pytest

import valuerepair as vr
from tests.cli_tree import SAMPLE
from tests.expanded_store import expanded_store
from valuerepair.question import Question
from valuerepair.store.rows import EXPANDED, DeepResult, RunRecord
from valuerepair.store.store import Store

ALPHA = 170.0
QUESTION = Question(alpha=ALPHA)


def last_rungs(path: Path) -> dict[int, tuple[Any, ...]]:
    """rung, cp, mate, nodes, best_move of each position that was not searched in full, row by row."""
    with sqlite3.connect(path) as sql:
        rows = sql.execute("SELECT position_id, stage, cp, mate, nodes, best_move FROM deep_values").fetchall()
    full = {row[0] for row in rows if row[1] == "full"}
    found: dict[int, tuple[Any, ...]] = {}
    for position, stage, *cells in rows:
        if stage.isdecimal() and position not in full and int(stage) > found.get(position, (0,))[0]:
            found[position] = (int(stage), *cells)
    return found


@pytest.fixture(scope="module")
def both() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frame without what was cut, and with it."""
    with Store.open(SAMPLE) as store:
        return store.frame(QUESTION), store.frame(QUESTION, cut=True)


def test_what_was_cut_has_the_value_of_its_deepest_rung(both: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, frame = both
    cut = frame[frame["rung"].notna()].set_index("position_id")
    expected = last_rungs(SAMPLE)
    assert sorted(cut.index) == sorted(expected)
    assert len(set(cut["rung"])) > 3
    for position, (rung, cp, mate, nodes, best) in expected.items():
        row = cut.loc[position]
        q = math.tanh(cp / (2 * ALPHA)) if mate is None else math.copysign(1, mate)
        assert (row["rung"], row["nodes"], row["deep_best"]) == (rung, nodes, best)
        assert row["deep_q"] == pytest.approx(q, abs=1e-12)
        assert row["disagreement"] == pytest.approx(row["net_q"] - q, abs=1e-12)
        assert best is None or chess.Move.from_uci(best) in chess.Board(row["fen"]).legal_moves


@pytest.mark.parametrize("question", [QUESTION, Question(expanded="all")])
def test_other_rows_and_rates_stay_as_they_are(question: Question) -> None:
    with Store.open(SAMPLE) as store:
        plain, with_cut = store.frame(question), store.frame(question, cut=True)
        assert "rung" not in plain
        full = with_cut[with_cut["rung"].isna()].drop(columns="rung").reset_index(drop=True)
        pd.testing.assert_frame_equal(full, plain)
        wrong = [np.average(f["disagreement"].abs() >= 0.2, weights=f["weight"]) for f in (plain, with_cut)]
        assert wrong[0] == pytest.approx(wrong[1], abs=1e-12)
        assert with_cut["weight"][with_cut["rung"].notna()].eq(0).all()
        # Whoever read what was cut before: the columns are kept apart.
        assert store.frame(question)["position_id"].equals(plain["position_id"])
        assert set(store.candidates(question)["position_id"]) <= set(plain["position_id"])


def test_single_columns_are_those_of_whole_rows(both: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    names = ["position_id", "deep_q", "weight", "nodes", "rung", "ply"]
    with vr.open_store(SAMPLE) as store:
        found = store.frame(QUESTION, only=names, cut=True)
        assert set(found.columns) == set(names)
        pd.testing.assert_frame_equal(found[names], both[1][names], check_like=True)
        labelled = store.frame(QUESTION, cut=True, labels=True)
    assert len(labelled) == len(both[1])
    assert labelled["labels"].map(len).sum() > 0


def test_a_later_search_in_full_takes_the_place_of_the_rung(tmp_path: Path) -> None:
    db = tmp_path / "copy.db"
    shutil.copy(SAMPLE, db)
    number = min(last_rungs(SAMPLE))
    with Store.open(db, write=True) as store:
        _, oracle = store.pick()
        run = store.begin_run(RunRecord("later", "vr mine", {}, 0, {}))
        store.add_deep(number, oracle, DeepResult(cp=17, nodes=50_000, best_move="a2a3"), run)
        store.commit()
        row = store.frame(QUESTION, cut=True).set_index("position_id").loc[number]
    assert math.isnan(row["rung"])
    assert (row["cp"], row["nodes"]) == (17, 50_000)


def test_what_was_reached_and_cut_is_not_among_what_was_sampled(tmp_path: Path) -> None:
    """`expanded_store` has positions that the ladder of vr expand cut; give one the value of a rung."""
    db = expanded_store(tmp_path)
    with sqlite3.connect(db) as sql:
        query = "SELECT position_id FROM expanded WHERE cut_at IS NOT NULL AND NOT searched"
        reached = [number for (number,) in sql.execute(query)]
    assert reached
    with Store.open(db, write=True) as store:
        _, oracle = store.pick()
        run = store.begin_run(RunRecord("rungs", "vr expand", {}, 0, {}))
        for number in reached:
            store.add_deep(number, oracle, DeepResult(cp=3, nodes=100), run, "100")
        store.commit()
        for words in ("no", "searched", "all"):
            question = Question(expanded=words)
            found = store.frame(question, cut=True)
            assert found["rung"].isna().all()
            assert found["position_id"].equals(store.frame(question)["position_id"])


def test_a_value_of_expansion_comes_before_a_rung(tmp_path: Path) -> None:
    db = tmp_path / "copy.db"
    shutil.copy(SAMPLE, db)
    number = min(last_rungs(SAMPLE))
    with Store.open(db, write=True) as store:
        _, oracle = store.pick()
        run = store.begin_run(RunRecord("reached", "vr expand", {}, 0, {}))
        store.add_deep(number, oracle, DeepResult(cp=17, nodes=50_000), run, EXPANDED)
        store.commit()
        rows = {
            words: store.frame(Question(expanded=words), cut=True).set_index("position_id").loc[number]
            for words in ("no", "searched")
        }
    assert rows["no"]["rung"] == last_rungs(SAMPLE)[number][0]
    assert math.isnan(rows["searched"]["rung"])
    assert rows["searched"]["cp"] == 17
