"""Weights of two kinds of positions: each kind has its share of what is drawn, and only what is trained on is drawn."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from benchmarks.proof.beside import command
from tests.cli_tree import SAMPLE
from valuerepair.errors import ValueRepairError
from valuerepair.judge.split import PARTS, choose_split, write_split
from valuerepair.question import Question
from valuerepair.store.store import Store


def test_each_kind_has_its_share(tmp_path: Path) -> None:
    games, split, output = tmp_path / "games.db", tmp_path / "split.json", tmp_path / "w.parquet"
    with Store.open(SAMPLE) as store:
        chosen = choose_split(store, seed=1)
        write_split(split, chosen)
        there = store.frame(Question(), text=False)
        net, ids = there.attrs["net"]["name"], there["position_id"].to_numpy(np.int64)
        parts = np.array(PARTS)[chosen.parts(store, ids)]
    shutil.copy(SAMPLE, games)
    with sqlite3.connect(games) as db:  # the others were not in the games
        for table, column in (("net_values", "position_id"), ("deep_values", "position_id"), ("positions", "id")):
            db.execute(f"DELETE FROM {table} WHERE {column} % 3 = 0")
    words = ["--db", SAMPLE, "--games", games, "--split", split, "--net", net, "--share", "0.7", "-o", output]
    done = CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = pd.read_parquet(output).set_index("position_id")["weight"]
    assert set(found.index) == set(ids[(parts == "train") & there["deep_q"].notna()].tolist())
    beside = found[found.index % 3 == 0]
    assert 0 < len(beside) < len(found) / 2
    assert (beside.sum(), found.sum()) == (pytest.approx(0.7), pytest.approx(1.0))
    assert beside.nunique() == 1
    more = [
        *map(str, words[:-1]),
        str(tmp_path / "x.parquet"),
        "--candidates",
        "3",
        "--threshold",
        "0.4",
        "--alpha",
        "300",
    ]
    assert CliRunner().invoke(command, more, catch_exceptions=False).exit_code == 0
    with Store.open(SAMPLE) as store:
        asked = Question(net=net, alpha=300.0, threshold=0.4, calibration="fitted")
        candidates = set(store.candidates(asked)["position_id"].tolist())
    often = pd.read_parquet(tmp_path / "x.parquet").set_index("position_id")["weight"] / found
    assert {number for number, times in often.items() if times == pytest.approx(3)} == candidates & set(found.index)
    assert set(often.round(6)) == {1.0, 3.0}
    with pytest.raises(ValueRepairError, match="of one kind alone"):
        CliRunner().invoke(command, [str(SAMPLE if w == games else w) for w in words], catch_exceptions=False)
