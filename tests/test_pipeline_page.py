"""What a repair claims, by figures made by hand: of kinds of positions, of a match, of a control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from valuerepair.pipeline.page import CONTROLLING, NEW, OLD, NetComparison, RepairOutcome

BETTER = {"difference": -0.0089, "low": -0.0113, "high": -0.0066}
UNCLEAR = {"difference": -0.0007, "low": -0.0057, "high": 0.0046}
WORSE = {"difference": 0.0068, "low": 0.0020, "high": 0.0122}
TOO_FEW = {"difference": -0.0100, "low": None, "high": None}
BESIDE = ("random_move", "policy_move", "search_node")


Figures: TypeAlias = Mapping[str, float | None]


def row(origin: str, change: Figures, share: Figures) -> dict[str, Any]:
    candidates = [{"threshold": threshold, "first": {"rate": 0.04}, "change": share} for threshold in (0.3, 0.55)]
    return {
        "origin": origin, "positions": 2200, "squared_error": [0.0662, 0.0573], "change": change,
        "candidates": candidates,
    }  # fmt: skip


def judged(part: str, kinds: Mapping[str, Figures], first: str = OLD, share: Figures | None = None) -> NetComparison:
    share = share or {"difference": -0.001, "low": -0.0041, "high": 0.0036}
    figures = {
        "by_origin": [row(kind, change, share) for kind, change in kinds.items()],
    }
    return NetComparison(part, first, NEW, figures)


def match(low: float | None, value: float, high: float | None) -> dict[str, Any]:
    elo = [{"level": 0.9, "value": 0, "low": 1, "high": 2}, {"level": 0.95, "value": value, "low": low, "high": high}]
    score = {"wins": 200, "draws": 90, "losses": 100}
    return {"games": 390, "score": score, "elo": elo, "effective_root_moves": [3.434, 3.466]}


def outcome(*pairs: NetComparison, elo: dict[str, Any] | None = None) -> RepairOutcome:
    return RepairOutcome(Path("r"), Path("a"), None, pairs, None, {OLD: elo or match(60, 91, 124)}, 3540)


ALL: Mapping[str, Figures] = dict.fromkeys(("game", *BESIDE), BETTER)


def test_a_better_judge_is_one_of_every_kind_on_games_and_on_families() -> None:
    report = outcome(judged("games", ALL), judged("families", ALL))
    assert report.better_judge.shown
    assert report.better_judge.line.startswith("better judge: shown; ")
    assert report.owed_to_candidates is None
    assert len(report.claims) == 2


@pytest.mark.parametrize("part", ["games", "families"])
@pytest.mark.parametrize("kind", ["game", *BESIDE])
@pytest.mark.parametrize("change", [UNCLEAR, WORSE, TOO_FEW])
def test_one_kind_that_is_not_shown_is_enough_and_is_named(part: str, kind: str, change: Figures) -> None:
    one = {**ALL, kind: change}
    verdict = outcome(*(judged(name, one if name == part else ALL) for name in ("games", "families"))).better_judge
    assert not verdict.shown
    assert f"{change['difference']:+.4f}" in verdict.why
    assert verdict.why.count("95 %") + verdict.why.count("too few games") == 1
    words = {"game": "in games", "random_move": "random legal", "policy_move": "policy's", "search_node": "in searches"}
    assert words[kind] in verdict.why
    assert ("families" in verdict.why) == (part == "families")


def test_better_on_games_alone_is_not_better() -> None:
    """Training on positions of games alone made a net a better judge of games, and a worse one beside them."""
    verdict = outcome(judged("games", {"game": BETTER}), judged("families", {"game": BETTER})).better_judge
    assert not verdict.shown
    assert "no position was judged" in verdict.why


def test_the_deeper_judge_can_only_take_it_back() -> None:
    """It judges few positions: it need not show it once more, but it must not show the opposite."""
    pairs = [judged(part, ALL) for part in ("games", "families")]
    for change, shown in ((UNCLEAR, True), (BETTER, True), (WORSE, False)):
        again = {"judge": "deep", "comparisons": [{"by_origin": [row("random_move", change, change)]}]}
        report = replace(outcome(*pairs), rejudged=again)
        assert report.better_judge.shown is shown
        assert ("by the deeper judge, after a random legal move (+0.0068" in report.better_judge.why) is not shown
        assert any("by a deeper judge, deep (" in line for line in report.lines())


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(60, 124, True), (0.1, 9, True), (-13, 65, False), (-72, -33, False), (None, None, False)],
)
def test_a_better_player_wins_with_the_whole_interval(low: float | None, high: float | None, shown: bool) -> None:
    verdict = outcome(judged("games", ALL), elo=match(low, 26, high)).better_player
    assert verdict.shown is shown


def test_how_broadly_both_searched_stands_beside_the_result() -> None:
    elo = match(60, 91, 124)
    line = outcome(judged("games", ALL), elo=elo).better_player.line
    assert all(figure in line for figure in ("Elo +91 ", "+60 to +124", "390 games", "3.43", "3.47"))
    elo["advised"] = {"player": "repaired", "q_scale": 0.81}
    assert "q_scale=0.81" in outcome(judged("games", ALL), elo=elo).better_player.line


def test_what_is_owed_to_candidates_is_shown_against_the_control() -> None:
    few: Figures = {"difference": -0.005, "low": -0.008, "high": -0.002}
    for share, shown in ((None, False), (few, True)):
        pairs = [judged(part, ALL, first, share) for part in ("games", "families") for first in (OLD, CONTROLLING)]
        claim = outcome(*pairs).owed_to_candidates
        assert claim is not None
        assert claim.shown is shown
        assert "on opening and material families that training never saw" in claim.why
    nothing: Figures = {"difference": -0.005, "low": None, "high": None}
    claim = outcome(judged("families", ALL, CONTROLLING, nothing), judged("families", ALL)).owed_to_candidates
    assert claim is not None
    assert not claim.shown


def test_both_thresholds_and_every_kind_stand_in_the_last_lines() -> None:
    report = outcome(judged("games", ALL), judged("families", ALL))
    lines = report.lines()
    heads = [line for line in lines if "candidates at 0.3" in line]
    assert len(heads) == 2
    assert all("candidates at 0.55" in line for line in heads)
    for words in ("in games", "after a random legal move", "after the policy's 3rd to 6th move", "in searches"):
        assert sum(line.startswith(words) for line in lines) == 2
    (line,) = {line for line in lines if line.startswith("in searches")}
    assert "0.0662   0.0573   -0.0089, 95 %: -0.0113 to -0.0066  -0.10 points (-0.41 to +0.36)" in line
