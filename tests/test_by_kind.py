"""Nets by kind of position: the error against numpy's least squares, intervals by simulation, and what is claimed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from statsmodels.api import WLS

from tests.test_compare import OtherNet, add, compared, db, mined
from valuerepair.arrays import Floats, Ids
from valuerepair.measure.by_kind import KindRow, better_judge, rows_by_kind
from valuerepair.store.store import Store

__all__ = ["db", "mined"]


def drawn(
    rng: np.random.Generator, games: int, noise: tuple[float, float], times: tuple[float, float] = (1.0, 1.0)
) -> tuple[tuple[Floats, Floats], Floats, Floats, Ids]:
    """Five positions of each game, whose errors are alike within a game; both nets' Q are deep Q and such noise."""
    game = np.repeat(np.arange(1, games + 1), 5)
    deep = rng.normal(0, 0.4, len(game)).clip(-1, 1)
    of_game = rng.normal(0, 1, games)[game - 1]
    size = zip(noise, times, strict=True)
    nets = [s * (deep + n * (0.7 * of_game + 0.7 * rng.normal(0, 1, len(game)))) for n, s in size]
    return (nets[0], nets[1]), deep, np.ones(len(game)), game


def rows(kinds: dict[str, tuple[float, float]], games: int = 300) -> list[KindRow]:
    rng = np.random.default_rng(1)
    parts = [drawn(rng, games, noise) for noise in kinds.values()]
    net_q = tuple(np.concatenate([part[0][i] for part in parts]) for i in (0, 1))
    deep, weight, game = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    kind = np.repeat(np.array([*kinds], object), 5 * games)
    return rows_by_kind((net_q[0], net_q[1]), deep, weight, game, kind)


def only(found: list[KindRow]) -> KindRow:
    (row,) = found
    return row


def plain(count: int) -> NDArray[np.object_]:
    return np.full(count, "game", object)


def test_errors_are_those_of_least_squares_through_zero() -> None:
    """Against statsmodels' weighted regression without an intercept."""
    rng = np.random.default_rng(0)
    net_q, deep, _, game = drawn(rng, 80, (0.3, 0.2), (0.7, 1.4))
    weight = rng.uniform(0.5, 3, len(deep))
    row = only(rows_by_kind(net_q, deep, weight, game, plain(len(deep))))
    for i, q in enumerate(net_q):
        predicted = WLS(deep, q, weight).fit().params[0] * q
        assert row.squared_error[i] == pytest.approx(np.average((predicted - deep) ** 2, weights=weight))
        assert row.scale[i] == pytest.approx(WLS(deep, q, weight).fit().params[0])
        for at in row.candidates:
            wrong = np.abs(predicted - deep) >= at.threshold
            rate = (at.first, at.second)[i]
            assert rate.count == wrong.sum()
            assert rate.rate == pytest.approx(np.average(wrong, weights=weight))
    assert row.change.difference == pytest.approx(row.squared_error[1] - row.squared_error[0])
    assert [at.threshold for at in row.candidates] == [0.3, 0.55]


def test_another_scale_is_no_better_judge() -> None:
    (net_q, _), deep, weight, game = drawn(np.random.default_rng(2), 60, (0.3, 0.3))
    row = only(rows_by_kind((net_q, 1.45 * net_q), deep, weight, game, plain(len(deep))))
    assert row.change.difference == pytest.approx(0, abs=1e-12)
    assert abs(row.change.low) + abs(row.change.high) < 1e-12
    assert row.scale[0] == pytest.approx(1.45 * row.scale[1])


def test_intervals_hold_the_truth() -> None:
    """Of equally good nets in 95 of 100 cases: other errors, as large."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        (first, _), deep, weight, game = drawn(rng, 60, (0.3, 0.3))
        others, deep_of_others, *_ = drawn(rng, 60, (0.3, 0.3))
        second = deep + others[0] - deep_of_others  # errs as much, elsewhere
        row = only(rows_by_kind((first, second), deep, weight, game, plain(len(deep))))
        held += row.change.low <= 0 <= row.change.high
    assert 0.90 <= held / 300 <= 0.98


def test_better_only_if_better_of_each_kind() -> None:
    better = rows({"game": (0.3, 0.2), "random_move": (0.4, 0.2), "search_node": (0.3, 0.25)})
    assert [row.kind for row in better] == ["game", "random_move", "search_node"]
    found = better_judge(better, held_out=True)
    assert found.shown
    assert found.notes == []
    worse = rows({"random_move": (0.3, 0.4), "policy_move": (0.3, 0.3), "game": (0.3, 0.2)})
    found = better_judge(worse, held_out=True)
    assert not found.shown
    assert found.kinds == {"game": "better", "random_move": "worse", "policy_move": "not shown"}


def test_positions_of_games_alone_say_so() -> None:
    found = better_judge(rows({"game": (0.3, 0.2)}), held_out=False)
    assert (found.shown, found.beside, found.held_out) == (True, False, False)
    assert len(found.notes) == 2


def test_few_games_show_nothing() -> None:
    row = only(rows({"game": (0.3, 0.1)}, games=15))
    assert row.finding == "too few games"
    assert np.isnan(row.change.low)
    assert np.isnan(row.candidates[0].change.low)
    assert not better_judge([row], held_out=True).shown


def test_positions_beside_the_games_have_rows_and_change_nothing_else(db: Path) -> None:
    plain_result = compared(db, "key-net", "half-net")
    assert [row.kind for row in plain_result.comparisons[0].by_kind] == ["game"]
    with Store.open(db, write=True) as store:
        for row, kind in ((0, "random_move"), (1, "neighbour")):
            store.connection.execute("UPDATE positions SET origin = ? WHERE id % 3 = ?", (kind, row))
        (scored,) = store.connection.execute("SELECT count(*) FROM deep_values WHERE position_id % 3 <> 1").fetchone()
        store.commit()
    found = compared(db, "key-net", "half-net")
    by = {row.kind: row.positions for row in found.comparisons[0].by_kind}
    assert by["random_move"] > 100
    assert sum(by.values()) == scored
    assert found.positions == by["game"] == sum(found.comparisons[0].counts.values())
    assert (found.scores.kind == "game").all()
    assert add(db, OtherNet("third", "c", np.negative)) == scored
    assert found.lines()[-2] == found.comparisons[0].judge.sentence
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))["comparisons"][0]
    assert told["by_kind"][1]["kind"] == "random_move"
    assert told["by_kind"][1]["change"].keys() == {"difference", "low", "high"}
    assert told["judge"]["kinds"].keys() == {"game", "random_move"}
