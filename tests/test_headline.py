"""The sentence at the head of `vr stats` and of the report, against pandas on the same rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mining_doubles import mine_by_key, random_games
from valuerepair.question import Question
from valuerepair.report.stats import headline, store_figures
from valuerepair.store import view
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"
SENTENCE = re.compile(
    r"([\d,]+) of ([\d,]+) positions of these games are misjudged by ([\d.]+) or more \((.+) to (.+)\)"
)


def figures_of(path: Path, **question: Any) -> dict[str, Any]:
    with Store.open(path) as store:
        return store_figures(store, Question(**question))


def numbers(sentence: str) -> list[float]:
    found = SENTENCE.fullmatch(sentence)
    assert found, sentence
    return [float(text.replace(",", "")) for text in found.groups()]


@pytest.mark.parametrize("threshold", [0.3, 0.375, 0.55, 0.7])
def test_the_share_is_weighted_as_pandas_weighs_it(threshold: float) -> None:
    """A screened store: cut positions are stood for by weight, so that the share of its rows is another number."""
    with Store.open(SAMPLE) as store:
        frame = view.frame(store)
        frame = frame[frame["disagreement"].notna()]
    off = frame["disagreement"].abs() >= threshold
    rate = np.average(off, weights=frame["weight"])
    assert abs(rate - off.mean()) > rate / 2
    count, per, said, low, high = numbers(headline(figures_of(SAMPLE, threshold=threshold)))
    assert said == threshold
    assert count == pytest.approx(rate * per, abs=0.5)
    assert low < count < high
    assert count >= 5  # few digits would say little: a rarer candidate is said of more positions
    assert per == 1_000 or rate * per < 50


def test_the_interval_is_that_of_the_table() -> None:
    figures = figures_of(SAMPLE, threshold=0.55)
    (row,) = (row for row in figures["scored"]["by_threshold"] if row["threshold"] == 0.55)
    assert numbers(headline(figures))[3:] == [round(1000 * row["low"]), round(1000 * row["high"])]


@pytest.mark.parametrize("origin", ["neighbour", "search_node"])
def test_only_positions_of_games_count(tmp_path: Path, origin: str) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path / "a.db"))
    with Store.open(path, write=True) as store:
        store.connection.execute("UPDATE positions SET origin = ? WHERE id % 2", (origin,))
        others = view.frame(store)
        figures = store_figures(store, Question(beside=True))
    assert headline(figures) == headline(figures_of(path))
    assert figures["scored"]["positions"] == len(others) < 400
    of_origin = [row["kind"] for row in figures["scored"]["beside"]]
    assert of_origin == ([origin] if origin != "neighbour" else [])


def test_nothing_scored_says_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new.db", create=True) as store:
        assert headline(store_figures(store)) == ""


# -- screening --------------------------------------------------------------------------------------------------------


def test_what_screening_left_out_lost_and_saved(plotted_db: Path) -> None:
    """Recounted from the tables: the candidates that were searched because they are doubtful, among all by weight."""
    figures = figures_of(plotted_db, threshold=0.3, alpha=170.0)
    with Store.open(plotted_db) as store:
        frame = view.frame(store, Question(threshold=0.3, alpha=170.0), screened=True)
        spent, short, kept = store.connection.execute(
            "SELECT sum(nodes), count(DISTINCT CASE WHEN judge_id = 2 THEN position_id END), count(*) FROM deep_values "
            "WHERE failed IS NULL"
        ).fetchone()
    said = figures["scored"]["screening"]
    wrong = frame["disagreement"].abs() >= 0.3
    left_out, audits = frame["screened"].astype(bool), frame["weight"] > 1
    assert said["positions"] == len(frame) == short
    assert said["left_out"] == left_out.sum() == 2 * short - kept > 20
    assert (said["audits"], said["audit_hits"]) == (audits.sum(), (wrong & audits).sum())
    assert said["found"] == (wrong & ~audits & ~left_out).sum()
    missed = frame["weight"][wrong & audits].sum()
    assert said["recall"] == pytest.approx(said["found"] / (said["found"] + missed))
    assert said["recall_low"] < said["recall"] <= said["recall_high"] <= 1
    assert said["nodes"] == spent
    assert said["full_nodes"] == 100 * len(frame)
    assert "positions left out" in said["words"][0]
    # At a lower threshold than it screened for, it lost more.
    lower = figures_of(plotted_db, threshold=0.05, alpha=170.0)["scored"]["screening"]
    assert lower["recall"] < said["recall"]


def test_without_screening_there_are_no_such_figures(tmp_path: Path) -> None:
    mine_by_key(random_games(tmp_path / "random.pgn", 5), tmp_path / "a.db")
    assert figures_of(tmp_path / "a.db")["scored"]["screening"] is None
