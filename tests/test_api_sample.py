"""data/sample.db: what it holds, that it names nothing of the machine it was made on, that reading leaves it alone.

The figures were made by the first edition, before the store was converted: converting and reading changed nothing.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from statsmodels.regression.linear_model import WLS

import valuerepair as vr
from valuerepair.question import Question
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.store import Store

DATA = Path(__file__).parents[1] / "data"
SAMPLE = DATA / "sample.db"
JUDGE = "stockfish nodes=50000"
# Net -> alpha, candidates at 0.35 and at 0.55, the three largest, digest of all values.
FIGURES = {
    "maia-1900": (317.71006152277306, 66, 14, [588, 1306, 790], "ed88245aa3a7a353"),
    "maia-1100": (532.504602965692, 45, 7, [1036, 382, 1455], "6f62d19580727e08"),
    "meangirl-8": (205.93401845449299, 82, 32, [1162, 291, 573], "f38e1937647cd4ac"),
}
NUMBERS = ("position_id", "key", "net_q", "deep_q", "weight", "cp", "mate", "nodes")
WORDS = ("fen", "moves", "net_best", "deep_best", "pv", "kind", "played", "side", "phase")


@pytest.fixture(scope="module")
def sql() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{SAMPLE}?mode=ro", uri=True)
    yield connection
    connection.close()


def test_a_store_is_converted_by_the_names_of_columns(sql: sqlite3.Connection, tmp_path: Path) -> None:
    subprocess.run([sys.executable, DATA / "convert_store.py", SAMPLE, tmp_path / "new.db"], check=True)
    with sqlite3.connect(tmp_path / "new.db") as new:
        rows = [[line for line in store.iterdump() if line.startswith("INSERT")] for store in (new, sql)]
    assert sorted(rows[0]) == sorted(rows[1])
    assert len(rows[0]) > 5000


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


@pytest.mark.parametrize("net", FIGURES)
def test_values(net: str) -> None:
    alpha, loose, strict, largest, digest = FIGURES[net]
    with Store.open(SAMPLE) as store:
        frame = view.frame(store, Question(net=net, oracle=JUDGE))
        candidates = {at: view.candidates(store, Question(net=net, oracle=JUDGE, threshold=at)) for at in (0.35, 0.55)}
    assert (len(frame), frame.weight.sum()) == (638, 1500.0)  # 133 of them are audits of the 995 that screening left
    assert frame.attrs["alpha"]["value"] == pytest.approx(alpha, rel=1e-12)
    assert (len(candidates[0.35]), len(candidates[0.55])) == (loose, strict)
    assert candidates[0.35].position_id.tolist()[:3] == largest
    content = hashlib.sha256()
    for name in NUMBERS:
        column = frame[name].to_numpy()
        content.update(np.ascontiguousarray(column if name == "key" else column.astype(np.float64).round(9)).tobytes())
    for name in WORDS:
        content.update("\n".join(map(str, frame[name])).encode())
    assert content.hexdigest()[:16] == digest


def test_by_default_the_pair_of_most_values() -> None:
    with Store.open(SAMPLE) as store:
        frame = view.frame(store)
        assert store.connection.execute("SELECT count(*) FROM positions").fetchone() == (1500,)
    assert (frame.attrs["net"]["name"], frame.attrs["oracle"]["label"]) == ("maia-1900", "stockfish 15.1 nodes=50000")
    assert len(frame) == 638


def test_second_looks_are_values_of_their_judge() -> None:
    with Store.open(SAMPLE) as store:
        frame = view.frame(store, Question(net="maia-1900", oracle="stockfish nodes=200000", alpha=317.71))
        first = view.candidates(store, Question(net="maia-1900", oracle=JUDGE, threshold=0.35))
    assert sorted(first.position_id) == frame.position_id.tolist()
