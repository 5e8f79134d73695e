"""SPRT: fastchess's own cases (whose values come from other tools), laws, and error rates in simulated matches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from valuerepair.errors import UsageError
from valuerepair.play.elo import MatchScore, Pentanomial, Sprt, share_of, with_mean

# app/tests/sprt_test.cpp of fastchess: (wins, draws, losses) or pairs by points, elo0, elo1, model, LLR.
CASES = [
    (MatchScore(36433, 68692, 36027), 0, 2, "normalized", 0.92),
    (MatchScore(10871, 20431, 10650), -1.75, 0.25, "normalized", 2.30),
    (MatchScore(4250, 0, 0), 0, 10, "normalized", 120.56),
    (MatchScore(21404, 40708, 21184), 0.5, 2.5, "logistic", -1.57),
    (MatchScore(57433, 106593, 57030), 0, 2, "logistic", -2.59),
    (Pentanomial((365, 16618, 36229, 16974, 390)), 0, 2, "normalized", 2.25),
    (Pentanomial((127, 4883, 10712, 5150, 104)), -1.75, 0.25, "normalized", 3.01),
    (Pentanomial((0, 0, 0, 0, 5550)), 0, 5, "normalized", 111.82),
    (Pentanomial((223, 9863, 21279, 10037, 246)), 0.5, 2.5, "logistic", -3.07),
    (Pentanomial((871, 26175, 55983, 26678, 821)), 0, 2, "logistic", -4.98),
]


@pytest.mark.parametrize(("results", "elo0", "elo1", "model", "llr"), CASES)
def test_llr_of_fastchess(results: MatchScore | Pentanomial, elo0: float, elo1: float, model: str, llr: float) -> None:
    """To the last digit given; where no game was lost its root is found to 0.02 % only (it stops at 1e-4)."""
    assert Sprt(elo0, elo1, model=model).llr(results) == pytest.approx(llr, abs=0.0051, rel=2.1e-4)


# Lines that fishtest printed of finished tests, in pull requests of github.com/official-stockfish/Stockfish (3209,
# 2971, 6019, 4403, 5960, 6633, 4194): braces stood for logistic Elo then, angles stand for normalized Elo now.
FISHTEST = [
    ("{-0.25,1.25}", (253, 4282, 17604, 4431, 286), 2.94),
    ("{0.25,1.25}", (58, 3302, 33130, 3518, 84), 2.97),
    ("{-0.50,1.50}", (17, 253, 1042, 337, 39), 2.96),
    ("{0.25,1.75}", (11, 407, 3238, 513, 11), 2.93),
    ("<0.00,2.00>", (320, 12431, 27275, 12858, 316), 2.95),
    ("<0.50,2.50>", (197, 45541, 117722, 46579, 228), 2.96),
    ("<-1.75,0.25>", (1402, 55789, 136915, 55460, 1426), 2.96),
    ("<-1.75,0.25>", (44, 11252, 34531, 10903, 50), -2.94),
    ("<0.00,2.00>", (478, 19228, 42113, 19677, 504), 2.93),
    ("<0.50,2.50>", (54, 15038, 38898, 15525, 73), 2.94),
    ("<-1.75,0.25>", (677, 25001, 61196, 24940, 714), 2.95),
    ("<0.00,2.00>", (371, 10263, 24989, 10642, 379), 2.95),
]


@pytest.mark.parametrize(("ends", "pairs", "llr"), FISHTEST)
def test_llr_of_fishtest(ends: str, pairs: tuple[int, int, int, int, int], llr: float) -> None:
    elo0, elo1 = (float(elo) for elo in ends[1:-1].split(","))
    test = Sprt(elo0, elo1, model="logistic" if ends.startswith("{") else "normalized")
    assert test.llr(Pentanomial(pairs)) == pytest.approx(llr, abs=0.0051)


def test_bounds_and_verdicts() -> None:
    test = Sprt(0, 5)
    assert test.bounds == pytest.approx((-2.944, 2.944), abs=5e-4)
    # Wald's, with unequal risks: log(beta / (1 - alpha)) and log((1 - beta) / alpha).
    assert Sprt(0, 5, alpha=0.01, beta=0.2).bounds == pytest.approx((-1.5994, 4.3820), abs=5e-5)
    assert test.verdict(MatchScore()) == ""
    assert test.verdict(MatchScore(600, 500, 400)) == "H1"
    assert test.verdict(MatchScore(400, 500, 600)) == "H0"
    assert test.verdict(MatchScore(101, 100, 100)) == ""


counts = st.integers(0, 2000)


models = st.sampled_from(["normalized", "logistic"])


@given(st.tuples(counts, counts, counts), st.floats(-50, 50), st.floats(0.5, 30), models)
def test_the_other_side_sees_the_reverse(games: tuple[int, int, int], low: float, width: float, model: str) -> None:
    score = MatchScore(*games)
    ours = Sprt(low, low + width, model=model).llr(score)
    theirs = Sprt(-low - width, -low, model=model).llr(MatchScore(*games[::-1]))
    assert ours == pytest.approx(-theirs, abs=1e-4 * max(1, abs(ours)))


near_even = st.integers(950, 1050)


@given(st.tuples(near_even, near_even, near_even))
def test_independent_games_give_the_same_ratio_as_pairs(games: tuple[int, int, int]) -> None:
    """Pairs drawn from independent games say what the games say, nearly so where the score is not far from even."""
    w, d, x = games
    n = w + d + x
    pairs = [x * x, 2 * x * d, 2 * w * x + d * d, 2 * w * d, w * w]
    scale = 200_000 / n**2
    a, b, c, e, f = (round(count * scale) for count in pairs)
    test = Sprt(-2, 2, model="logistic")
    total = a + b + c + e + f
    games_of = MatchScore(*(round(2 * total * count / n) for count in (w, d, x)))
    ours, theirs = test.llr(Pentanomial((a, b, c, e, f))), test.llr(games_of)
    assert ours == pytest.approx(theirs, rel=0.02, abs=0.05)


@pytest.mark.parametrize(("settings", "message"), [
    ({"elo0": 5, "elo1": 0}, "elo0=5 must be less than elo1=0"),
    ({"elo0": 0, "elo1": 4001}, "must be from -4000 to 4000"),
    ({"elo0": -1e9, "elo1": 0}, "must be from -4000 to 4000"),
    ({"elo0": 0, "elo1": 5, "alpha": 0}, "alpha=0 must be between 0 and 1"),
    ({"elo0": 0, "elo1": 5, "beta": 1}, "beta=1 must be between 0 and 1"),
    ({"elo0": 0, "elo1": 5, "alpha": 0.6, "beta": 0.5}, "add up to less than 1"),
    ({"elo0": 0, "elo1": 5, "model": "linear"}, "must be one of normalized, logistic"),
])  # fmt: skip
def test_what_is_no_test(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sprt(**settings)


SHARES = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.slow
def test_whatever_never_came_the_chances_are_chances() -> None:
    """Of all kinds of pentanomials, many with zeros: they add up to 1 and have the mean, or the t-value, asked for."""
    for counts in itertools.product((0, 1, 10, 60), repeat=5):
        if sum(count > 0 for count in counts) < 2:
            continue
        shares = [count / sum(counts) for count in counts]
        came = [share for share, count in zip(SHARES, counts, strict=True) if count]
        for mean in (0.3, 0.5, 0.507, 0.6, 0.8):
            if not came[0] < mean < came[-1]:
                with pytest.raises(ValueError, match="no such distribution"):
                    with_mean(SHARES, shares, mean)
                continue
            chances = with_mean(SHARES, shares, mean)
            assert min(chances) >= 0
            assert [chance > 0 for chance in chances] == [count > 0 for count in counts]
            assert (sum(chances), np.dot(chances, SHARES)) == pytest.approx((1, mean), abs=1e-9)
        even = [(count + reverse) / 2 for count, reverse in zip(shares, shares[::-1], strict=True)]
        for normalized in (-40.0, 0.0, 5.0, 80.0):
            chances = Sprt(0, 5).at(normalized, even)
            share = np.dot(chances, SHARES)
            deviation = math.sqrt(2 * np.dot(chances, (np.array(SHARES) - share) ** 2))  # of a game
            assert sum(chances) == pytest.approx(1, abs=1e-9)
            assert (share - 0.5) / deviation * 800 / math.log(10) == pytest.approx(normalized, abs=1e-4)


def test_the_chances_with_a_mean_are_the_most_likely_ones() -> None:
    """Against a general optimiser; one outcome never came, and is not in it."""
    observed = np.array([0.05, 0.25, 0.55, 0.15])
    shares = np.array(SHARES[:4])
    best = minimize(
        lambda chances: -float(observed @ np.log(chances)),
        observed,
        bounds=[(1e-9, 1)] * 4,
        constraints=[
            {"type": "eq", "fun": lambda chances: chances.sum() - 1},
            {"type": "eq", "fun": lambda chances: chances @ shares - 0.52},
        ],
        options={"ftol": 1e-15},
    )
    assert with_mean(SHARES, [*observed.tolist(), 0.0], 0.52) == pytest.approx([*best.x, 0.0], abs=1e-5)


@pytest.mark.parametrize("elo", [-500, 250, 700])
@pytest.mark.parametrize("observed", [[0.02, 0.03, 0.1, 0.25, 0.6], [0.1, 0.2, 0.4, 0.2, 0.1], [0.3, 0.5, 0.2]])
@pytest.mark.slow
def test_the_chances_far_from_even_are_the_most_likely_ones(observed: list[float], elo: float) -> None:
    """Against a general optimiser, begun at many points: the differences at which tests used to give up."""
    chances, shares, rng = np.array(observed), np.linspace(0, 1, len(observed)), np.random.default_rng(1)
    t = elo * math.log(10) / 800 * (math.sqrt(2) if len(observed) > 3 else 1)

    def beyond(p: Any) -> float:
        mean = float(p @ shares)
        return mean - 0.5 - t * math.sqrt(max(float(p @ (shares - mean) ** 2), 0.0))

    end = np.eye(len(observed))[-1 if elo > 0 else 0]
    found = [
        minimize(
            lambda p: -float(chances @ np.log(p)),
            0.8 * end + 0.2 * rng.dirichlet(np.ones(len(observed))),
            bounds=[(1e-9, 1)] * len(observed),
            constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "eq", "fun": beyond}],
            options={"ftol": 1e-15, "maxiter": 500},
        )
        for _ in range(8)
    ]
    best = min((each for each in found if abs(beyond(each.x)) < 1e-7), key=lambda each: float(each.fun))
    ours = np.array(Sprt(0, 5).at(elo, observed))
    assert beyond(ours) == pytest.approx(0, abs=1e-8)
    assert ours == pytest.approx(best.x, abs=1e-4)
    assert -float(chances @ np.log(ours)) == pytest.approx(best.fun, abs=1e-7)


@pytest.mark.parametrize("model", ["normalized", "logistic"])
def test_no_test_gives_up_in_the_middle_of_a_match(model: str) -> None:
    """Whatever has come so far, each difference that a test may have has a ratio."""
    for ends in ((0, 250), (0, 400), (-4000, 4000), (3900, 4000), (-4000, -3000)):
        test = Sprt(*ends, model=model)
        for counts in itertools.product((0, 1, 3000), repeat=3):
            assert math.isfinite(test.llr(MatchScore(*counts)))
        for a, b, c, d, e in itertools.product((0, 100), repeat=5):
            assert math.isfinite(test.llr(Pentanomial((a, b, c, d, e))))


def test_a_test_of_differences_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot make 700 logistic Elo"):
        Sprt(0, 700, model="logistic").at(700, [0, 0.2, 0.6, 0.2, 0])


@pytest.mark.slow
@pytest.mark.parametrize("elo", [0, 60])
def test_error_rates_in_simulated_matches(elo: float) -> None:
    """With alpha = beta = 0.1, tests that end are wrong in at most a tenth of the cases, and a bit for the margin."""
    rng, test, wrong, ended = np.random.default_rng(1), Sprt(0, 60, 0.1, 0.1, "logistic"), 0, 0
    win = share_of(elo) - 0.2
    for _ in range(150):
        games = rng.multinomial(5, (win, 0.4, 0.6 - win), size=120).cumsum(axis=0)
        verdict = next((v for w, d, x in games if (v := test.verdict(MatchScore(int(w), int(d), int(x))))), "")
        ended += bool(verdict)
        wrong += verdict == ("H0" if elo else "H1")
    assert ended > 120
    assert wrong / ended < 0.16
