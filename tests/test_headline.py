"""The sentence at the head of `vr stats` and of the report, against pandas on the same rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.expanded_store import expanded_store
from valuerepair.question import Expanded, Question
from valuerepair.report.stats import headline, store_figures
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
        frame = store.frame()
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


@pytest.mark.parametrize("expanded", ["searched", "all"])
def test_positions_reached_from_candidates_do_not_count(tmp_path: Path, expanded: Expanded) -> None:
    path = expanded_store(tmp_path)
    assert headline(figures_of(path, expanded=expanded)) == headline(figures_of(path))


def test_nothing_scored_says_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new.db", create=True) as store:
        assert headline(store_figures(store)) == ""
