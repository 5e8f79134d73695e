"""Verdicts of second looks: laws of the rule, the alpha they are asked for, their figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.confirm_doubles import STOCKFISH, Candidate, make_store, position_of
from valuerepair.chess import values
from valuerepair.errors import ValueRepairError
from valuerepair.mining import verdict
from valuerepair.mining.verdict import NET_RIGHT, SEARCH_RIGHT, UNRESOLVED, decide, evidence, figures
from valuerepair.question import Question
from valuerepair.rates import weighted
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.alpha import use_alpha
from valuerepair.store.pairs import pick
from valuerepair.store.rows import DeepResult, JudgeIdentity, RunRecord
from valuerepair.store.store import Store

NAN = float("nan")
DEEPER = replace(STOCKFISH, limits={"nodes": 10_000})
OTHER = JudgeIdentity("uci", "Other 1.0", "aa" * 32, {"nodes": 10_000}, {})
OWN_Q = JudgeIdentity("mcts", "valuerepair search", "bb" * 32, {"nodes": 800}, {}, "some-net")

qs = st.integers(-1000, 1000).map(lambda q: q / 1000)


def one(net: float, deep: float, second: float) -> int:
    return int(decide(*(np.array([q], np.float64) for q in (net, deep, second)))[0])


# -- the rule ---------------------------------------------------------------------------------------------------------


@given(qs, qs, qs)
def test_net_and_search_change_places(net: float, deep: float, second: float) -> None:
    assert one(net, deep, second) == -one(deep, net, second) == one(-net, -deep, -second)


@given(qs, qs, qs, qs)
def test_a_second_look_nearer_to_the_search_is_never_worse_for_it(
    net: float, deep: float, second: float, other: float
) -> None:
    nearer, farther = sorted((second, other), reverse=deep > net)
    assert one(net, deep, nearer) >= one(net, deep, farther)


@given(qs, qs.filter(bool))
def test_a_look_at_one_of_the_two_values_decides_for_it(net: float, apart: float) -> None:
    deep = net + apart
    assert one(net, deep, deep) == 1
    assert one(net, deep, net) == -1
    assert one(net, deep, (net + deep) / 2) == 0


@pytest.mark.parametrize(
    ("second", "decided"),
    [
        (-0.2, 1),  # the search's third of net +0.8, search -0.4 ends at 0
        (0.0, 1),
        (0.01, 0),
        (0.39, 0),
        (0.4, -1),
        (-1.0, 1),  # beyond the search's value
        (NAN, 0),
    ],
)
def test_worked_examples(second: float, decided: int) -> None:
    assert one(0.8, -0.4, second) == decided


# -- from the store ---------------------------------------------------------------------------------------------------


def candidates() -> list[Candidate]:
    """Five positions after one move each: the net says +0.9 and e7e5, the first look -50 centipawns and d7d5."""
    first = DeepResult(cp=-50, wdl=(200, 400, 400), best_move="d7d5")
    moves = ("e2e4", "d2d4", "c2c4", "g1f3", "b1c3")
    return [Candidate(position_of(chess.STARTING_FEN, move), 0.9, first, "e7e5") for move in moves]


def add(path: Path, judge: JudgeIdentity, looks: dict[int, DeepResult], first: JudgeIdentity = STOCKFISH) -> None:
    """Adds second looks: position -> result."""
    judges = {"first": first.digest, "second": judge.digest}
    record = RunRecord("second " + judge.digest, "vr confirm", judges, {})
    with Store.open(path, write=True) as store, store.running(record) as run:
        for position_id, result in looks.items():
            store.add_deep(position_id, store.add_judge(judge), result, run)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_store(tmp_path / "a.db", candidates())


def test_nothing_looked_at(path: Path) -> None:
    with Store.open(path) as store:
        frame = view.candidates(store, Question(threshold=0.55))
        assert evidence(store, frame)["verdict"].tolist() == [None] * 5
        assert evidence(store, frame).attrs == {"second": None, "alpha": None}
        verdict_figures = figures(store, frame, 0.55)
    assert (verdict_figures["candidates"], verdict_figures["looked"], verdict_figures["second"]) == (5, 0, None)
    assert verdict.lines(verdict_figures) == ["second looks: none yet at the 5 candidates at 0.55 (vr confirm)"]
    assert verdict.lines({**verdict_figures, "candidates": 0}) == []


def test_looked_at_others_alone(path: Path) -> None:
    """The oracle of most looks has looked, but at none of these."""
    add(path, DEEPER, {1: DeepResult(cp=-60)})
    with Store.open(path) as store:
        frame = view.candidates(store, Question(threshold=0.55, alpha=170))
        verdict_figures = figures(store, frame[frame["position_id"] != 1], 0.55, DEEPER.digest)
        of_one = figures(store, frame, 0.55, DEEPER.digest)
    assert (verdict_figures["candidates"], verdict_figures["looked"]) == (4, 0)
    assert verdict.lines(verdict_figures) == ["second looks: none yet at the 4 candidates at 0.55 (vr confirm)"]
    assert verdict.lines(of_one)[1].startswith("1 of 5 candidates at 0.55 looked at: ")


def test_what_a_look_says(path: Path) -> None:
    add(path, DEEPER, {2: DeepResult(cp=-60, best_move="d7d5", nodes=7)})
    with Store.open(path) as store:
        row = evidence(store, view.frame(store, Question(alpha=200))).iloc[1]
    assert row.to_dict() == {
        "second_q": values.cp_to_q(-60, 200), "second_best": "d7d5", "second_nodes": 7, "looked": True,
        "verdict": SEARCH_RIGHT,
    }  # fmt: skip


def test_verdicts_go_with_the_frame_however_it_is_cut_and_sorted(path: Path) -> None:
    scores = {1: -60, 2: 900, 4: 100, 5: -50}
    add(path, DEEPER, {i: DeepResult(cp=cp) for i, cp in scores.items()})
    expected = {1: SEARCH_RIGHT, 2: NET_RIGHT, 3: None, 4: UNRESOLVED, 5: SEARCH_RIGHT}
    with Store.open(path) as store:
        frame = view.frame(store)
        for part in (frame, frame.iloc[::-1], frame.iloc[[4, 1]], frame.iloc[:0], view.frame(store, text=False)):
            verdicts = evidence(store, part)["verdict"]
            assert list(verdicts.index) == list(part.index)
            assert verdicts.tolist() == [expected[i] for i in part["position_id"]]


def test_second_looks_never_mix_into_what_was_mined(path: Path) -> None:
    def said() -> list[object]:
        with Store.open(path) as store:
            stats = {**store_stats(store).as_json()["scored"], "confirmed": None}
            return [view.frame(store).to_json(), view.candidates(store).to_json(), pick(store), json.dumps(stats)]

    before = said()
    add(path, DEEPER, dict.fromkeys(range(1, 6), DeepResult(cp=800)))
    assert said() == before


def test_the_verdict_is_asked_for_an_alpha(path: Path) -> None:
    add(path, DEEPER, {1: DeepResult(cp=90)})
    with Store.open(path) as store:
        verdicts = {
            a: evidence(store, view.frame(store, Question(alpha=a)))["verdict"].iloc[0] for a in (20, 170, 2000)
        }
    assert verdicts == {20: NET_RIGHT, 170: UNRESOLVED, 2000: SEARCH_RIGHT}


def test_wdl_is_asked_of_both_looks(path: Path) -> None:
    add(path, DEEPER, {1: DeepResult(cp=-50, wdl=(900, 100, 0)), 2: DeepResult(cp=-50)})
    with Store.open(path) as store:
        frame = view.frame(store, Question(q_from="wdl"))
        looked_at = evidence(store, frame)
        assert looked_at["verdict"].tolist()[:3] == [NET_RIGHT, UNRESOLVED, None]
        assert np.isnan(looked_at["second_q"].iloc[1])
        counted = figures(store, frame, 0.55)
    assert counted["without_q"] == 1
    assert any("1 looks have no Q of the requested kind" in line for line in verdict.lines(counted))


@pytest.mark.parametrize(
    ("second", "fitted", "alpha", "origin"),
    [
        (DEEPER, None, 240.0, "the first look's"),
        (DEEPER, 300.0, 240.0, "the first look's"),
        (OTHER, None, 240.0, "the first look's, of another engine"),
        (OTHER, 300.0, 300.0, "stored fit"),
        (OWN_Q, 300.0, 240.0, "the search's own Q"),
    ],
)
def test_which_alpha_a_second_look_has(
    path: Path, second: JudgeIdentity, fitted: float | None, alpha: float, origin: str
) -> None:
    add(path, second, {1: DeepResult(cp=90, q=0.5 if second is OWN_Q else None)})
    with Store.open(path, write=True) as store:
        if fitted is not None:
            use_alpha(store, (1, 2), values.Alpha(fitted, "stored fit"))
        looked_at = evidence(store, view.frame(store, Question(alpha=240)))
    assert looked_at.attrs["alpha"]["value"] == alpha
    assert looked_at.attrs["alpha"]["origin"].startswith(origin)
    assert looked_at["second_q"].iloc[0] == (0.5 if second is OWN_Q else values.cp_to_q(90, alpha))


def test_the_first_looks_own_q_lends_no_alpha(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", [replace(row, first=DeepResult(cp=1, q=0.1)) for row in candidates()], OWN_Q)
    add(path, OTHER, {1: DeepResult(cp=90)}, first=OWN_Q)
    with Store.open(path) as store:
        looked_at = evidence(store, view.frame(store, Question(alpha=240)))
    assert looked_at.attrs["alpha"]["value"] == values.DEFAULT_ALPHA


def test_the_oracle_of_most_looks_is_asked_unless_another_is_named(path: Path) -> None:
    add(path, DEEPER, {1: DeepResult(cp=-50), 2: DeepResult(cp=-50)})
    add(path, OTHER, {1: DeepResult(mate=2)})
    with Store.open(path) as store:
        frame = view.frame(store)
        assert evidence(store, frame)["verdict"].iloc[0] == SEARCH_RIGHT
        assert evidence(store, frame, "other 1.0 nodes=10000")["verdict"].iloc[0] == NET_RIGHT
        assert evidence(store, frame, OTHER.digest)["verdict"].iloc[1] is None
        # Of the rows asked about: the newer oracle looked at as many of these as the other one.
        assert evidence(store, frame.iloc[:1])["verdict"].iloc[0] == NET_RIGHT
        assert evidence(store, frame, STOCKFISH.digest)["verdict"].tolist() == [None] * 5
        with pytest.raises(ValueRepairError, match="no judge komodo in"):
            evidence(store, frame, "komodo")


def test_figures_are_shares_of_those_looked_at(path: Path) -> None:
    add(path, DEEPER, {i: DeepResult(cp=cp) for i, cp in ((1, -60), (2, 900), (3, 100), (4, -50))})
    with Store.open(path) as store:
        frame = view.frame(store, Question(alpha=170))
        verdict_figures = figures(store, frame, 0.55)
        weighty = frame.assign(weight=[1.0, 5.0, 2.0, 1.0, 9.0])
        weighty.attrs = frame.attrs
        heavy = figures(store, weighty, 0.55)
    assert json.loads(json.dumps(verdict_figures)) == verdict_figures
    assert (verdict_figures["candidates"], verdict_figures["looked"]) == (5, 4)
    counts = {kind: verdict_figures["rates"][kind]["count"] for kind in verdict.VERDICTS}
    assert counts == {SEARCH_RIGHT: 2, NET_RIGHT: 1, UNRESOLVED: 1}
    assert verdict_figures["rates"][SEARCH_RIGHT]["rate"] == 0.5
    hits, games = np.array([True, False, False, True]), frame["game_id"].to_numpy()[:4]
    expected = weighted(hits, np.array([1.0, 5.0, 2.0, 1.0]), games)
    assert heavy["rates"][SEARCH_RIGHT]["rate"] == expected.rate == 2 / 9
    assert (heavy["rates"][SEARCH_RIGHT]["low"], heavy["rates"][SEARCH_RIGHT]["high"]) == (expected.low, expected.high)
    assert [row[SEARCH_RIGHT]["total"] for row in verdict_figures["by_sign"]] == [4, 0]
    assert [(row["low"], row["high"], row[NET_RIGHT]["total"]) for row in verdict_figures["by_size"]] == [
        (0.55, 0.7, 0),
        (0.7, 1.0, 0),
        (1.0, 1.4, 4),
        (1.4, 2.0, 0),
    ]
    lines = verdict.lines(verdict_figures)
    assert lines[0] == "second looks by stockfish 15.1 nodes=10000, alpha 170 (the first look's)"
    assert lines[1].startswith("4 of 5 candidates at 0.55 looked at: the shares are of these")
    # All are of one game, which does not tell how games differ.
    assert any(line.startswith("  search right  2 of 4, 50.00 % (95 %: 0.00 to 100.00)") for line in lines)
