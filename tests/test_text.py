"""Results as text and JSON: aligned tables, counts, numbers that JSON does not have."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from valuerepair.rates import Interval, Rate, wilson
from valuerepair.text import formatted, json_fields, positions_of_games, quantity, table_lines


@dataclass(frozen=True)
class Result:
    name: str
    rate: Rate
    changes: tuple[Interval, ...]
    by_part: dict[str, Any]


def test_fields_of_nested_dataclasses_are_json_without_nan_and_infinity() -> None:
    numpy_number = np.float64(0.25)
    result = Result("a", wilson(0, 0), (Interval(-0.5, nan, inf),), {"all": [1, True, None, numpy_number, -inf]})
    text = json.dumps(json_fields(result), allow_nan=False)  # raises ValueError for NaN and the infinities
    assert json.loads(text) == {
        "name": "a",
        "rate": {"count": 0, "total": 0, "rate": None, "low": None, "high": None, "few_drawn": 0},
        "changes": [{"difference": -0.5, "low": None, "high": None}],
        "by_part": {"all": [1, True, None, 0.25, None]},
    }


@pytest.mark.parametrize("rate", [wilson(0, 0), wilson(9, 88)])
def test_a_rate_is_read_back_from_its_figures(rate: Rate) -> None:
    row = json.loads(json.dumps({"hits": rate.count, "of": rate.total, **rate.figures()}, allow_nan=False))
    assert str(Rate.of_figures(row, "hits", "of")) == str(rate)


def test_an_interval_says_what_is_not_known_also_when_read_back() -> None:
    for interval, words, points in (
        (Interval(-0.0125, -0.02, 0.001), "-0.0125, 95 %: -0.0200 to +0.0010", "-1.25 points (-2.00 to +0.10)"),
        (Interval(0.5, nan, nan), "+0.5000, too few games for an interval",
         "+50.00 points (too few games for an interval)"),
    ):  # fmt: skip
        read = Interval.of_figures(json.loads(json.dumps(json_fields(interval), allow_nan=False)))
        assert (read.for_brackets, read.points) == (words, points)


def test_columns_are_aligned_and_grow_with_their_cells() -> None:
    columns = "name:<6 | games:>7, | Elo:>6.1f | verdict:<"
    rows = [("a", 1234, 5.25, "better"), ("longer name", 7, -12345.678, ""), ("b",)]
    assert table_lines(columns, rows, "  ") == [
        "  name          games      Elo  verdict",
        "  a             1,234      5.2  better",
        "  longer name       7 -12345.7",
        "  b",
    ]


def test_a_table_without_heads_has_rows_only() -> None:
    assert table_lines(":<4 | :<", [("w", "1 of 2"), ("b", "none")]) == ["w     1 of 2", "b     none"]
    assert table_lines(":<4", []) == []


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [(0, "game", "0 games"), (1, "ply", "1 ply"), (2, "ply", "2 plies"), (1000, "node", "1,000 nodes")],
)
def test_counts_have_the_plural_of_their_noun(number: int, noun: str, words: str) -> None:
    assert quantity(number, noun) == words
    assert positions_of_games(1, 1) == "1 position of 1 game"


def test_per_cent_has_a_blank_before_the_sign_in_words_as_in_tables() -> None:
    assert formatted(0.3333, ".2%") == "33.33 %"
    assert table_lines("share:<8.2%", [(0.3333,)])[1] == "33.33 %"
