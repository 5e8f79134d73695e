"""Verdicts of second looks: laws of the rule, what they are made of, the alpha they are asked for, their figures."""

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
from valuerepair.judge import verdict
from valuerepair.judge.verdict import NET_RIGHT, SEARCH_RIGHT, UNRESOLVED, decide, evidence, figures
from valuerepair.question import Question
from valuerepair.rates import weighted
from valuerepair.report.stats import store_figures
from valuerepair.store.rows import AFTER, SECOND, DeepResult, OracleIdentity, RunRecord
from valuerepair.store.store import Store

NAN = float("nan")
E4, E5 = "e2e4", "e7e5"
DEEPER = replace(STOCKFISH, limits={"nodes": 10_000})
OTHER = OracleIdentity("uci", "Other 1.0", "aa" * 32, {"nodes": 10_000}, {})
OWN_Q = OracleIdentity("mcts", "valuerepair search", "bb" * 32, {"nodes": 800}, {}, "some-net")

qs = st.integers(-1000, 1000).map(lambda q: q / 1000)
maybe = st.one_of(st.just(NAN), qs)
STRENGTH = {NET_RIGHT: -1, UNRESOLVED: 0, SEARCH_RIGHT: 1}


def one(net: float, deep: float, second: float, bound: float = NAN, claimed: float = NAN) -> int:
    return int(decide(*(np.array([q], np.float64) for q in (net, deep, second, bound, claimed)))[0])


# -- the rule ---------------------------------------------------------------------------------------------------------


@given(qs, qs, qs, maybe, maybe)
def test_net_and_search_change_places(net: float, deep: float, second: float, bound: float, claimed: float) -> None:
    assert one(net, deep, second, bound, claimed) == -one(deep, net, second, bound, claimed)


@given(qs, qs, qs)
def test_without_moves_the_rule_is_the_same_for_both_signs(net: float, deep: float, second: float) -> None:
    assert one(net, deep, second) == one(-net, -deep, -second)


@given(qs, qs, qs, qs, maybe, maybe)
def test_a_second_look_nearer_to_the_search_is_never_worse_for_it(
    net: float, deep: float, second: float, other: float, bound: float, claimed: float
) -> None:
    nearer, farther = sorted((second, other), reverse=deep > net)
    assert one(net, deep, nearer, bound, claimed) >= one(net, deep, farther, bound, claimed)


@given(qs, qs, qs, maybe, maybe)
def test_moves_only_take_a_verdict_back(net: float, deep: float, second: float, bound: float, claimed: float) -> None:
    assert one(net, deep, second, bound, claimed) in (0, one(net, deep, second))


@given(qs, qs, qs, maybe, maybe, qs)
def test_a_better_move_never_supports_the_lower_value(
    net: float, deep: float, second: float, bound: float, claimed: float, more: float
) -> None:
    lower_is_right = -1 if net < deep else 1
    before = one(net, deep, second, bound, claimed)
    after = one(net, deep, second, np.fmax(bound, more), claimed)
    assert after == before or before == lower_is_right


@given(qs, qs.filter(bool))
def test_a_look_at_one_of_the_two_values_decides_for_it(net: float, apart: float) -> None:
    deep = net + apart
    assert one(net, deep, deep) == 1
    assert one(net, deep, net) == -1
    assert one(net, deep, (net + deep) / 2) == 0


@pytest.mark.parametrize(
    ("second", "bound", "claimed", "decided"),
    [
        (-0.2, NAN, NAN, 1),  # the search's third of net +0.8, search -0.4 ends at 0
        (0.0, NAN, NAN, 1),
        (0.01, NAN, NAN, 0),
        (0.39, NAN, NAN, 0),
        (0.4, NAN, NAN, -1),
        (-1.0, NAN, NAN, 1),  # beyond the search's value
        (-0.3, 0.1, -0.3, 1),  # a move that brings more than the look, but not the net's value
        (-0.3, 0.3, NAN, 0),  # a move brings more than the middle, 0.2: the position cannot be worth -0.3
        (0.9, -0.5, NAN, -1),  # moves that the look does not choose say nothing against it
        (0.9, 0.8, 0.8, -1),
        (0.9, 0.1, 0.1, 0),  # its own move does not lead where it says
        (NAN, 0.3, NAN, 0),
    ],
)
def test_worked_examples(second: float, bound: float, claimed: float, decided: int) -> None:
    assert one(0.8, -0.4, second, bound, claimed) == decided


# -- from the store ---------------------------------------------------------------------------------------------------


def candidates() -> list[Candidate]:
    """Five positions after one move each: the net says +0.9 and e7e5, the first look -50 centipawns and d7d5."""
    first = DeepResult(cp=-50, wdl=(200, 400, 400), best_move="d7d5")
    moves = ("e2e4", "d2d4", "c2c4", "g1f3", "b1c3")
    return [Candidate(position_of(chess.STARTING_FEN, move), 0.9, first, E5) for move in moves]


def add(path: Path, oracle: OracleIdentity, looks: dict[int, dict[str, DeepResult]]) -> None:
    """Adds looks: position -> stage -> result."""
    with Store.open(path, write=True) as store:
        run = store.begin_run(RunRecord("second " + oracle.digest, "vr confirm", {}, 0, {}))
        oracle_id = store.add_oracle(oracle)
        for position_id, stages in looks.items():
            for stage, result in stages.items():
                store.add_deep(position_id, oracle_id, result, run, stage)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_store(tmp_path / "a.db", candidates())


def test_nothing_looked_at(path: Path) -> None:
    with Store.open(path) as store:
        frame = store.candidates(Question(threshold=0.55))
        assert evidence(store, frame)["verdict"].tolist() == [None] * 5
        assert evidence(store, frame).attrs == {"second": None, "alpha": None}
        verdict_figures = figures(store, frame, 0.55)
    assert (verdict_figures["candidates"], verdict_figures["looked"], verdict_figures["second"]) == (5, 0, None)
    assert verdict.lines(verdict_figures) == ["second looks: none yet at the 5 candidates at 0.55 (vr confirm)"]
    assert verdict.lines({**verdict_figures, "candidates": 0}) == []


def test_looked_at_others_alone(path: Path) -> None:
    """The oracle of most looks has looked, but at none of these."""
    add(path, DEEPER, {1: {SECOND: DeepResult(cp=-60)}})
    with Store.open(path) as store:
        frame = store.candidates(Question(threshold=0.55, alpha=170))
        verdict_figures = figures(store, frame[frame["position_id"] != 1], 0.55, DEEPER.digest)
        of_one = figures(store, frame, 0.55, DEEPER.digest)
    assert (verdict_figures["candidates"], verdict_figures["looked"]) == (4, 0)
    assert verdict.lines(verdict_figures) == ["second looks: none yet at the 4 candidates at 0.55 (vr confirm)"]
    assert verdict.lines(of_one)[1].startswith("1 of 5 candidates at 0.55 looked at: ")


def test_values_after_moves_are_turned_to_the_candidates_side(path: Path) -> None:
    looks = {SECOND: DeepResult(cp=-60, best_move="d7d5", nodes=7), AFTER + E5: DeepResult(cp=250)}
    looks[AFTER + "d7d5"] = DeepResult(mate=-3)
    add(path, DEEPER, {2: looks})
    with Store.open(path) as store:
        row = evidence(store, store.frame(Question(alpha=200))).iloc[1]
    assert row["second_q"] == values.cp_to_q(-60, 200)
    assert row["after_net_q"] == -values.cp_to_q(250, 200)
    assert row["after_deep_q"] == row["after_second_q"] == 1.0
    assert (row["second_best"], row["second_nodes"], row["looked"]) == ("d7d5", 7, True)
    # The move that the look itself prefers wins: it cannot be worth -60 centipawns.
    assert row["verdict"] == UNRESOLVED


def test_verdicts_go_with_the_frame_however_it_is_cut_and_sorted(path: Path) -> None:
    scores = {1: -60, 2: 900, 4: 100, 5: -50}
    add(path, DEEPER, {i: {SECOND: DeepResult(cp=cp)} for i, cp in scores.items()})
    expected = {1: SEARCH_RIGHT, 2: NET_RIGHT, 3: None, 4: UNRESOLVED, 5: SEARCH_RIGHT}
    with Store.open(path) as store:
        frame = store.frame()
        for part in (frame, frame.iloc[::-1], frame.iloc[[4, 1]], frame.iloc[:0], store.frame(text=False)):
            verdicts = evidence(store, part)["verdict"]
            assert list(verdicts.index) == list(part.index)
            assert verdicts.tolist() == [expected[i] for i in part["position_id"]]


def test_second_looks_never_mix_into_what_was_mined(path: Path) -> None:
    def said() -> list[object]:
        with Store.open(path) as store:
            stats = store_figures(store)["scored"]
            return [
                store.frame().to_json(),
                store.candidates(Question(threshold=0.55)).to_json(),
                store.pick(),
                json.dumps(stats),
            ]

    before = said()
    looks = {SECOND: DeepResult(cp=800), AFTER + E5: DeepResult(cp=-800)}
    add(path, DEEPER, dict.fromkeys(range(1, 6), looks))
    add(path, STOCKFISH, dict.fromkeys(range(1, 6), looks))
    assert said() == before
    with Store.open(path) as store:
        assert store.oracles()["scored"].tolist() == [5, 0]
        with pytest.raises(ValueRepairError, match="is scored by any net and nodes=10000 yet"):
            store.pick(oracle="nodes=10000")


def test_the_verdict_is_asked_for_an_alpha(path: Path) -> None:
    add(path, DEEPER, {1: {SECOND: DeepResult(cp=90)}})
    with Store.open(path) as store:
        verdicts = {a: evidence(store, store.frame(Question(alpha=a)))["verdict"].iloc[0] for a in (20, 170, 2000)}
    assert verdicts == {20: NET_RIGHT, 170: UNRESOLVED, 2000: SEARCH_RIGHT}


def test_wdl_is_asked_of_both_looks(path: Path) -> None:
    add(path, DEEPER, {1: {SECOND: DeepResult(cp=-50, wdl=(900, 100, 0))}, 2: {SECOND: DeepResult(cp=-50)}})
    with Store.open(path) as store:
        frame = store.frame(Question(q_from="wdl"))
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
    path: Path, second: OracleIdentity, fitted: float | None, alpha: float, origin: str
) -> None:
    add(path, second, {1: {SECOND: DeepResult(cp=90, q=0.5 if second is OWN_Q else None)}})
    with Store.open(path, write=True) as store:
        if fitted is not None:
            store.set_alpha(1, 2, values.AlphaFit(fitted, NAN, NAN, "slope", 400, 0.1))
        looked_at = evidence(store, store.frame(Question(alpha=240)))
    assert looked_at.attrs["alpha"]["value"] == alpha
    assert looked_at.attrs["alpha"]["origin"].startswith(origin)
    assert looked_at["second_q"].iloc[0] == (0.5 if second is OWN_Q else values.cp_to_q(90, alpha))


def test_the_first_looks_own_q_lends_no_alpha(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", [replace(row, first=DeepResult(cp=1, q=0.1)) for row in candidates()], OWN_Q)
    add(path, OTHER, {1: {SECOND: DeepResult(cp=90)}})
    with Store.open(path) as store:
        looked_at = evidence(store, store.frame(Question(alpha=240)))
    assert looked_at.attrs["alpha"]["value"] == values.DEFAULT_ALPHA


def test_the_oracle_of_most_looks_is_asked_unless_another_is_named(path: Path) -> None:
    add(path, DEEPER, {1: {SECOND: DeepResult(cp=-50)}, 2: {SECOND: DeepResult(cp=-50)}})
    add(path, OTHER, {1: {SECOND: DeepResult(mate=2)}})
    with Store.open(path) as store:
        frame = store.frame()
        assert evidence(store, frame)["verdict"].iloc[0] == SEARCH_RIGHT
        assert evidence(store, frame, "other 1.0 nodes=10000")["verdict"].iloc[0] == NET_RIGHT
        assert evidence(store, frame, OTHER.digest)["verdict"].iloc[1] is None
        # Of the rows asked about: the newer oracle looked at as many of these as the other one.
        assert evidence(store, frame.iloc[:1])["verdict"].iloc[0] == NET_RIGHT
        assert evidence(store, frame, STOCKFISH.digest)["verdict"].tolist() == [None] * 5
        with pytest.raises(ValueRepairError, match=r"komodo took no second look in .*; looks are by stockfish 15"):
            evidence(store, frame, "komodo")


def test_figures_are_shares_of_those_looked_at(path: Path) -> None:
    add(path, DEEPER, {i: {SECOND: DeepResult(cp=cp)} for i, cp in ((1, -60), (2, 900), (3, 100), (4, -50))})
    with Store.open(path) as store:
        frame = store.frame(Question(alpha=170))
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
