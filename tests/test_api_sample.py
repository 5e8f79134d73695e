"""data/sample.db: what it holds, that it names nothing of the machine it was made on, that reading leaves it alone."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from statsmodels.regression.linear_model import WLS

import valuerepair as vr
from valuerepair.question import Question
from valuerepair.report.stats import store_stats

DATA = Path(__file__).parents[1] / "data"
SAMPLE = DATA / "sample.db"


@pytest.fixture(scope="module")
def sql() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{SAMPLE}?mode=ro", uri=True)
    yield connection
    connection.close()


def count(sql: sqlite3.Connection, query: str) -> int:
    return int(sql.execute(f"SELECT count(*) FROM {query}").fetchone()[0])


def test_it_is_small_and_names_no_place(sql: sqlite3.Connection) -> None:
    assert SAMPLE.stat().st_size <= 2 << 20
    content = "\n".join(sql.iterdump())
    # What is neither an option's value nor a piece placement: a path from the root of some machine.
    paths = re.findall(r"(?<![\w./])/(?:home|root|tmp|usr|work|Users|var|opt|mnt|etc|srv|data)\b[\w./-]*", content)
    assert paths == []
    assert not re.search(r"(?i)https?://|@[a-z]+\.", content)


def test_it_has_what_figures_report_and_notebooks_read(sql: sqlite3.Connection) -> None:
    assert count(sql, "positions") == 1500
    assert [row[0] for row in sql.execute("SELECT DISTINCT source FROM games")] == ["data/games.pgn.zst"]
    assert {row[0] for row in sql.execute("SELECT name FROM nets")} == {"maia-1900", "maia-1100", "meangirl-8"}
    assert {row[0] for row in sql.execute("SELECT name FROM settings")} >= {"net", "judge", "alpha"}
    judged = "deep_values v JOIN judges j ON j.id = v.judge_id WHERE j.label ="
    assert count(sql, f"{judged} 'stockfish 15.1 nodes=50000' AND weight > 1") > 100  # audited
    assert count(sql, f"{judged} 'stockfish 15.1 nodes=50000'") == 638
    assert count(sql, f"{judged} 'stockfish 15.1 nodes=200000'") > 50  # second looks
    assert count(sql, "plays WHERE z IS NOT NULL") >= 40
    per_net = sql.execute("SELECT count(*) FROM net_values GROUP BY net_id").fetchall()
    assert min(n for (n,) in per_net) >= 538
    assert count(sql, "net_values WHERE policy IS NOT NULL") > 1000


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_sample", DATA / "make_sample.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_reading_writes_nothing_beside_it(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with vr.open_store(path) as store:
        frame = store.frame(labels=True, verdicts=True, outcomes=True)
        assert list(tmp_path.iterdir()) == [path]
        store_stats(store)
    vr.plot("scatter", path, question=Question(threshold=0.35))
    vr.compare(path, ["maia-1900", "maia-1100"], vr.Question(threshold=0.35))
    assert list(tmp_path.iterdir()) == [path]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert len(frame)


def test_weights_stand_for_all_positions(sql: sqlite3.Connection) -> None:
    with vr.open_store(SAMPLE) as store:
        assert store.frame(text=False)["weight"].sum() == pytest.approx(count(sql, "positions"))


def test_the_fit_of_alpha_has_the_weights_of_screening() -> None:
    with vr.open_store(SAMPLE) as store:
        told = store_stats(store, Question(threshold=0.35)).scored
        frame = store.frame(text=False)
    scored = frame[frame["deep_q"].notna()]

    def slope(alpha: float, weight: NDArray[np.float64]) -> float:
        q = scored["cp"].map(lambda cp: np.tanh(cp / (2 * alpha))).fillna(np.sign(scored["mate"]))
        return float(WLS(q, scored["net_q"], weights=weight).fit().params.iloc[0])

    weight = scored["weight"].to_numpy(np.float64)
    by_weight, without = (brentq(lambda a, w: slope(a, w) - 1, 100, 700, (w,)) for w in (weight, np.ones(len(weight))))
    assert told is not None
    assert told.fits["slope"].alpha == pytest.approx(by_weight, abs=0.01)
    assert abs(by_weight - without) > 3  # else this would show nothing
    share = frame["weight"][frame["disagreement"].abs() >= 0.35].sum() / frame["weight"].sum()
    assert told.rate.rate == pytest.approx(share)
