"""What the store makes of the ladder's records: weights, rates, recall, and stores of older versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.mining_doubles import mine_by_key, random_games
from valuerepair.question import Question
from valuerepair.rates import weighted, wilson
from valuerepair.screening.recall import figures, one_line
from valuerepair.store import screening
from valuerepair.store.rows import Run
from valuerepair.store.screening import Passage, PassageColumns, ScreenFacts
from valuerepair.store.store import Store

SCREEN = 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some hundred positions searched in full without a ladder."""
    folder = tmp_path_factory.mktemp("screening")
    mine_by_key(random_games(folder / "random.pgn", 30), folder / "a.db")
    return folder / "a.db"


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Any:
    (tmp_path / "b.db").write_bytes(made.read_bytes())
    with Store.open(tmp_path / "b.db", write=True) as opened:
        screening.add_screen(opened, 1, 1, ScreenFacts(0, 0.5, 200.0, True, "cp", 0.98, "{}", ""))
        yield opened


def add(store: Store, position: int, cut_at: int | None, searched: bool, probability: float = 1.0) -> None:
    passage = Passage(position, SCREEN, cut_at, None if cut_at is None else 0.01, 100, searched, probability)
    screening.add_passage(store, 1, 1, passage, Run(1))


def unsearched(store: Store, position: int) -> None:
    store.connection.execute("DELETE FROM deep_values WHERE position_id = ?", (position,))


# -- rates ------------------------------------------------------------------------------------------------------------


def test_equal_weights_are_wilsons_interval() -> None:
    for hits, total in ((0, 7), (3, 7), (7, 7), (20, 900)):
        mask = np.arange(total) < hits
        for weight in (1.0, 4.5):
            found, expected = weighted(mask, np.full(total, weight)), wilson(hits, total)
            assert (found.count, found.total) == (hits, total)
            assert (found.rate, found.low, found.high) == pytest.approx((expected.rate, expected.low, expected.high))


def test_a_rate_says_whether_it_is_weighted() -> None:
    """9 of 88 rows are no 4.5 %: the words must not let it read as their quotient."""
    hits = np.arange(88) < 9
    assert str(weighted(hits, np.ones(88))).startswith("9 of 88, 10.23 %")
    cut = np.where(hits, 1.0, 191 / 79)
    assert str(weighted(hits, cut)).startswith("9 of 88, weighted 4.50 %")


def test_weighted_rates_by_hand() -> None:
    found = weighted(np.array([True, False, True, False]), np.array([1.0, 1.0, 10.0, 10.0]))
    assert found.rate == pytest.approx(11 / 22)
    # Each stratum is 1 of 2; the bounds of both together are recovered from theirs.
    off = 0.5 - _wilson(0.5, 2)[0]
    spread = np.hypot(2 / 22 * off, 20 / 22 * off)
    assert (found.low, found.high) == pytest.approx((0.5 - spread, 0.5 + spread))
    # What ten drawn rows say of nothing but misses leaves the lower bound to the others.
    rare = weighted(np.arange(110) < 20, np.repeat([1.0, 9.0], [100, 10]))
    assert (rare.rate, rare.low) == pytest.approx((20 / 190, 100 / 190 * _wilson(0.2, 100)[0]))
    assert rare.high > 100 / 190 * _wilson(0.2, 100)[1]
    # A row of weight 0 is a row, and weighs nothing.
    more = weighted(np.array([True, False, True, False, True]), np.array([1.0, 1.0, 10.0, 10.0, 0.0]))
    assert (more.count, more.total, more.rate, more.low) == (3, 5, found.rate, found.low)


def test_intervals_of_drawn_rows_hold_the_truth() -> None:
    """300 rows of 2,000 at 0.3, the others at 0.01, of which one in twenty is drawn."""
    rng, held = np.random.default_rng(4), 0
    for _ in range(2000):
        single, others = rng.random(300) < 0.3, rng.random(1700) < 0.01
        drawn = others[rng.random(1700) < 0.05]
        hits = np.concatenate([single, drawn])
        found = weighted(hits, np.repeat([1.0, 1700 / len(drawn)], [300, len(drawn)]))
        held += found.low <= (300 * 0.3 + 1700 * 0.01) / 2000 <= found.high
    assert 0.93 <= held / 2000 <= 0.99


def _wilson(p: float, n: float) -> tuple[float, float]:
    z = 1.959963984540054
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (p + z * z / (2 * n) - half) / (1 + z * z / n), (p + z * z / (2 * n) + half) / (1 + z * z / n)


# -- weights ----------------------------------------------------------------------------------------------------------


def test_weights_of_the_frame(store: Store) -> None:
    a, b, c, d = store.frame(Question(alpha=200.0))["position_id"].tolist()[:4]
    add(store, a, None, True)
    add(store, b, 20, True, 0.05)
    add(store, c, 20, False, 0.05)  # cut, and searched for another net: b stands for it already
    add(store, d, 20, False, 0.05)
    unsearched(store, d)
    frame = store.frame(Question(alpha=200.0)).set_index("position_id")
    assert frame.loc[[a, b, c], "weight"].tolist() == pytest.approx([1, 3, 0])  # b, c and d
    assert d not in frame.index
    assert (frame["weight"].sum(), len(frame)) == (pytest.approx(len(frame) - 2 + 3), len(frame))


def test_positions_that_are_settled_stand_for_themselves(store: Store) -> None:
    a, b, c, d, e = store.frame(Question(alpha=200.0))["position_id"].tolist()[:5]
    for position, searched in ((a, True), (b, True), (c, False), (d, False)):
        add(store, position, 20, searched, 0.1)
    add(store, e, None, True)
    unsearched(store, d)
    screening.settle(store, 1, np.array([a, c, d, e]), 1, [SCREEN])
    assert [p.probability for p in screening.passages(store, 1, 1)] == [0.1] * 4 + [1.0]
    screening.settle(store, 1, np.array([a, c, d, e]), 2)
    assert [p.probability for p in screening.passages(store, 1, 1)] == [0.1] * 4 + [1.0]
    screening.settle(store, 1, np.array([a, c, d, e]))
    left = {p.position_id: p for p in screening.passages(store, 1, 1)}
    assert c not in left
    assert (left[a].cut_at, left[a].chance, left[a].probability) == (None, None, 1.0)
    assert (left[b].cut_at, left[b].probability) == (20, 0.1)
    assert screening.cut_before(store, 1, np.array([a, b, d, e])) == [(d, SCREEN)]
    assert store.frame(Question(alpha=200.0)).set_index("position_id").loc[[a, b, c, e], "weight"].tolist() == [
        1,
        2,
        1,
        1,
    ]  # b and d
    screening.forget_passage(store, 1, b)
    assert b not in {p.position_id for p in screening.passages(store, 1, 1)}


# -- recall -----------------------------------------------------------------------------------------------------------


def frame_of(values: dict[int, float]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame({"position_id": list(values), "disagreement": list(values.values())})
    return frame


def columns_of(passages: list[Passage]) -> PassageColumns:
    """As columns, by position."""
    rows = sorted(passages, key=lambda p: p.position_id)
    cut_at = [np.nan if p.cut_at is None else p.cut_at for p in rows]
    numbers = (np.array([getattr(p, name) for p in rows]) for name in ("nodes", "searched", "probability"))
    nodes, searched, probability = numbers
    ids = np.array([p.position_id for p in rows], np.int64)
    return PassageColumns(ids, np.array(cut_at, np.float64), nodes, searched.astype(np.bool_), probability)


def test_columns_of_passages_are_the_passages(store: Store) -> None:
    a, b, c, d = store.frame(Question(alpha=200.0))["position_id"].tolist()[:4]
    add(store, d, None, True)
    add(store, a, 20, True, 0.05)
    add(store, c, 20, False, 0.05)
    for found, expected in zip(
        screening.passage_columns(store, 1, 1), columns_of(screening.passages(store, 1, 1)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert screening.any_passage(store, 1, 1)
    assert not screening.any_passage(store, 1, 2)
    assert b not in screening.passage_columns(store, 1, 1).ids


def figures_of(monkeypatch: pytest.MonkeyPatch, passages: list[Passage], values: dict[int, float]) -> Any:
    monkeypatch.setattr(screening, "passage_columns", lambda *_: columns_of(passages))
    monkeypatch.setattr(screening, "searched_since", lambda *_: columns_of([]))
    monkeypatch.setattr(screening, "screens", lambda *_: [])
    return figures(None, 1, 1, frame_of(values), 0.5)  # type: ignore[arg-type]  # what it asks the store is replaced


def test_recall_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 go through, 4 of these candidates; of 80 that leave 10 are searched, 1 of these a candidate: 7 are missed."""
    through = [Passage(i, 1, None, None, 1000, True, 1.0) for i in range(20)]
    leave = [Passage(i, 1, 10, 0.01, 1000 if i < 30 else 10, i < 30, 0.125) for i in range(20, 100)]
    values = {i: 0.9 if i < 4 or i == 20 else -0.1 for i in range(30)}
    found = figures_of(monkeypatch, through + leave, values)
    assert (found["positions"], found["cut"], found["audited"], found["audit_hits"]) == (100, 70, 10, 1)
    assert (found["found"], found["missed"]) == (5, pytest.approx(80 * 0.1 - 1))
    assert found["recall"] == pytest.approx(5 / 12)
    low, high = _wilson(0.1, 10)
    assert found["recall_low"] == pytest.approx(5 / (5 + 80 * high - 1))
    assert found["recall_high"] == pytest.approx(5 / (5 + max(0, 80 * low - 1)))
    assert (found["nodes"], found["brute_nodes"]) == (30 * 1000 + 70 * 10, 100_000)
    assert found["saving"] == pytest.approx(100_000 / 30_700)
    assert found["left_at"] == [{"nodes": 10, "positions": 70}]
    # One of the cut was searched for another net, and is a candidate: one less is missed.
    found = figures_of(monkeypatch, through + leave, {**values, 50: 0.9})
    assert (found["cut"], found["found"], found["missed"]) == (69, 6, pytest.approx(6))
    assert found["left_at"] == [{"nodes": 10, "positions": 69}]


def test_without_audits_recall_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [Passage(0, 1, None, None, 1000, True, 1.0), Passage(1, 1, 0, 0.01, 0, False, 0.02)]
    found = figures_of(monkeypatch, passages, {0: 0.9})
    assert (found["recall"], found["recall_low"], found["missed"]) == (None, None, None)
    assert "recall unknown (0 audits): 0 of 0 cut positions" in one_line(found)


@pytest.mark.parametrize(("candidates", "audited", "hits", "said"), [
    (40, 5, 0, "; recall at least {low} % (95 %, from 5 audits): none of 5 cut"),
    (400, 50, 0, "; recall at least {low} % (95 %, from 50 audits): none of 50 cut"),
    (4, 5, 0, "; recall at least {low} % (95 %), too few audits for a figure: none of 5 cut"),
    (40, 1, 0, "; recall at least {low} % (95 %), too few audits for a figure: none of 1 cut"),
    (400, 5, 1, "; recall 97.3 % (95 %: {low}."),
])  # fmt: skip
def test_no_recall_of_100_per_cent_out_of_a_few_audits(
    monkeypatch: pytest.MonkeyPatch, candidates: int, audited: int, hits: int, said: str
) -> None:
    """60 leave, some of these are audited; the lower end is that of Wilson's interval, by hand."""
    through = [Passage(-i - 1, 1, None, None, 1000, True, 1.0) for i in range(candidates)]
    leave = [Passage(i, 1, 10, 0.01, 10, i < audited, audited / 60) for i in range(60)]
    values = {-i - 1: 0.9 for i in range(candidates)} | {i: 0.9 if i < hits else 0.1 for i in range(audited)}
    found = figures_of(monkeypatch, through + leave, values)
    missed = min(60 * _wilson(hits / audited, audited)[1] - hits, 60 - audited)
    low = int(100 * (candidates + hits) / (candidates + hits + missed))
    assert said.format(low=low) in one_line(found)
    assert "100" not in one_line(found)


def test_where_nothing_was_cut_nothing_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = figures_of(monkeypatch, [Passage(0, None, None, None, 1000, True, 1.0)], {0: 0.9})
    assert (found["recall"], found["missed"]) == (1.0, 0)
    assert figures_of(monkeypatch, [], {}) is None


@pytest.mark.slow
def test_the_interval_holds_the_true_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 positions that leave with 1.5 % candidates among them, audited by falling shares: 95 % hold."""
    rng, held, inside = np.random.default_rng(8), 0, 200
    for _ in range(inside):
        share = 0.03 + 0.3 / np.sqrt(np.arange(1, 2001))
        hit, kept = rng.random(2000) < 0.015, rng.random(2000) < share
        through = [Passage(-i - 1, 1, None, None, 1000, True, 1.0) for i in range(100)]
        leave = [Passage(i, 1, 10, 0.0, 10, bool(kept[i]), float(share[i])) for i in range(2000)]
        values = {-i - 1: 0.9 for i in range(100)} | {i: 0.9 * bool(hit[i]) for i in np.flatnonzero(kept).tolist()}
        found = figures_of(monkeypatch, through + leave, values)
        known = 100 + int((hit & kept).sum())
        truth = known / (known + int((hit & ~kept).sum()))
        held += found["recall_low"] <= truth <= found["recall_high"]
    assert held / inside >= 0.91
