"""How many games a match takes, before it is begun: until a difference is shown, and until an SPRT decides."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.elo import FEWEST, LEVELS, few, share_interval, share_of
from valuerepair.play.sprt import Sprt, with_mean

if TYPE_CHECKING:
    from valuerepair.play.crosstable import Crosstable
    from valuerepair.play.standing import Standing

# How often a match of that length shows the difference. In one of two its interval is as wide as the difference.
POWERS = (0.5, 0.8, 0.95)
_MOST_GAMES = 10**12
_MOST_ELO = 1000


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The chances of each result of a game (loss, draw, win), and of a pair of games with one opening, by points.

    `pair` is None where the two games of a pair have nothing to do with each other; without `paired` matches are
    counted game by game, as nothing said what the pairs are.
    """

    game: tuple[float, ...]
    pair: tuple[float, ...] | None = None
    paired: bool = True

    @staticmethod
    def of_draws(draws: float) -> Outcomes:
        """Of even players with this share of draws and independent games.

        Games of one opening are not, as a rule: who has the better side of it wins. Then fewer are needed.
        """
        if not 0 <= draws < 1:
            raise UsageError(f"--draws {draws:g}: must be a share of the games, from 0 to below 1")
        return Outcomes(((1 - draws) / 2, draws, (1 - draws) / 2))

    @staticmethod
    def of_match(match: Standing) -> Outcomes:
        """As they were in a match. Raises ValueRepairError where it has too few games to tell."""
        games, pairs = match.tally.score, match.tally.pairs
        if few(pairs if match.paired else games):
            raise ValueRepairError(f"{' against '.join(match.names)}: too few games to plan by; give --draws instead")
        game = (games.losses / games.games, games.draws / games.games, games.wins / games.games)
        if not match.paired:
            return Outcomes(game, paired=False)
        return Outcomes(game, tuple(count / pairs.pairs for count in pairs.counts))

    def at(self, elo: float) -> Outcomes:
        """The same were the difference `elo`: the most likely chances that give its share of the points."""
        return Outcomes(_at(self.game, elo), self.pair and _at(self.pair, elo), self.paired)

    @property
    def counted(self) -> tuple[float, ...]:
        """Those that intervals are made of: of pairs, or of games."""
        if not self.paired:
            return self.game
        lost, drawn, won = self.game
        independent = (lost * lost, 2 * lost * drawn, 2 * lost * won + drawn * drawn, 2 * drawn * won, won * won)
        return self.pair or independent


@dataclass(frozen=True, slots=True)
class _Expected:
    """The expected numbers of outcomes among n, not rounded: results that intervals can be made of."""

    chances: tuple[float, ...]
    n: float

    @property
    def outcomes(self) -> Sequence[tuple[float, float]]:
        last = len(self.chances) - 1
        return tuple((i / last, self.n * chance) for i, chance in enumerate(self.chances))


@dataclass(frozen=True, slots=True)
class SprtLength:
    """Of a sequential test: games on average until it decides if the difference is `elo`, and how often H1 wins."""

    elo: float
    games: int
    h1: float


@dataclass(frozen=True)
class MatchLength:
    """How long a match must be to show a difference of `elo`, where games come out as `outcomes` (at 0 Elo).

    `games` are, by level, those for each of `POWERS`: so often a match of that length shows the difference at that
    level. `tests` say how long an SPRT takes. `seconds` a game, `jobs` at once, say how long that is.
    """

    elo: float
    outcomes: Outcomes
    games: dict[float, tuple[int, ...]]
    sprt: Sprt | None
    tests: tuple[SprtLength, ...]
    seconds: float | None
    jobs: int

    def hours(self, games: int) -> float | None:
        """How long so many games take; None where nothing says how long one takes."""
        return None if self.seconds is None else games * self.seconds / self.jobs / 3600

    def lines(self) -> list[str]:
        """As text."""
        pairs = "" if self.outcomes.paired else "; no pairs, so counted game by game"
        lines = [
            f"games to show a difference of {self.elo:g} Elo, {100 * self.outcomes.game[1]:.1f} % of them drawn{pairs}",
            f"  {'':8}{f'interval ±{self.elo:g}':>22}{'shown in 80 of 100':>22}{'in 95 of 100':>22}",
        ]
        for level, each in self.games.items():
            lines.append(f"  at {level:.2f}:" + "".join(f"{self._said(games):>22}" for games in each))
        if self.sprt is not None:
            lines.append(f"{self.sprt}: games on average until it decides")
            lines += [
                f"  at {test.elo:+.1f} Elo:{self._said(test.games):>22}, H1 accepted in {100 * test.h1:.1f} %"
                for test in self.tests
            ]
        if self.seconds is not None:
            lines.append(f"hours: {self.seconds:,.1f} s a game, {self.jobs} at once")
        return lines

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        return {
            "elo": self.elo,
            "draws": self.outcomes.game[1],
            "intervals_of": "pairs" if self.outcomes.paired else "games",
            "games": [
                {"level": level, "shown_in": power, "games": games, "hours": self.hours(games)}
                for level, each in self.games.items()
                for power, games in zip(POWERS, each, strict=True)
            ],
            "sprt": [
                {"elo": test.elo, "games": test.games, "hours": self.hours(test.games), "h1_accepted": test.h1}
                for test in self.tests
            ],
            "seconds_a_game": self.seconds,
            "jobs": self.jobs,
        }

    def _said(self, games: int) -> str:
        hours = self.hours(games)
        return f"{games:,}" + ("" if hours is None else f" ({hours:,.{1 if hours < 100 else 0}f} h)")


def match_length(
    elo: float,
    *,
    draws: float | None = None,
    like: Crosstable | None = None,
    sprt: Sprt | None = None,
    seconds: float | None = None,
    jobs: int = 1,
) -> MatchLength:
    """How long a match must be to show this difference, and how long an SPRT takes.

    Games come out with this share of `draws`, or as they did in `like`, which may also say what a game takes. Raises
    UsageError for what makes no sense, ValueRepairError where `like` has too few games.
    """
    if not 0 < elo <= _MOST_ELO:
        raise UsageError(f"--resolve {elo:g}: must be a difference of Elo above 0, and at most {_MOST_ELO}")
    if jobs < 1:
        raise UsageError(f"--jobs {jobs}: must be at least 1")
    if seconds is not None and not 0 < seconds < math.inf:
        raise UsageError(f"--game-time {seconds:g}: must be seconds above 0")
    if (draws is None) == (like is None):
        raise UsageError("a plan needs the share of draws (--draws 0.6) or the PGN of some games, one of the two")
    outcomes = Outcomes.of_match(like.one()) if like is not None else Outcomes.of_draws(draws or 0.0)
    if seconds is None and like is not None:
        seconds = like.seconds
    there, per_outcome = outcomes.at(elo).counted, 2 if outcomes.paired else 1
    games = {level: tuple(per_outcome * needed(there, elo, level, power) for power in POWERS) for level in LEVELS}
    tests = () if sprt is None else tuple(sprt_length(sprt, outcomes, true) for true in (0.0, elo / 2, elo))
    return MatchLength(elo, outcomes, games, sprt, tests, seconds, jobs)


def needed(chances: tuple[float, ...], elo: float, level: float, power: float) -> int:
    """The fewest outcomes with which the interval of that level is above 0 with the chance `power`.

    `chances` are those of the outcomes at `elo`. The interval is that of `play.elo`, of the outcomes to be expected;
    their mean is taken to be normally distributed.
    """
    deviation = math.sqrt(sum(p * (i / (len(chances) - 1)) ** 2 for i, p in enumerate(chances)) - share_of(elo) ** 2)

    def shown(n: int) -> bool:
        _, low, _ = share_interval(_Expected(chances, n), level)
        return low - NormalDist().inv_cdf(power) * deviation / math.sqrt(n) > 0.5

    return FEWEST + bisect_left(range(FEWEST, _MOST_GAMES), True, key=shown)


def sprt_length(sprt: Sprt, outcomes: Outcomes, elo: float) -> SprtLength:
    """How long a test takes if the difference is `elo`.

    Wald's formulas ("Sequential Tests of Statistical Hypotheses", 1945) for a ratio that is a Brownian motion, whose
    mean and variance are those of what one outcome adds.
    """
    there = outcomes.at(elo)
    chances = there.game if sprt.model == "bayesian" else there.counted
    adds = sprt.increments(chances)
    mean = sum(p * add for p, add in zip(chances, adds, strict=True))
    variance = sum(p * add * add for p, add in zip(chances, adds, strict=True)) - mean * mean
    low, high = sprt.bounds
    if abs(mean) * (high - low) < 1e-4 * variance:
        h1, length = -low / (high - low), -low * high / variance
    else:
        # (1 - e^-b) / (e^-a - e^-b), written so that no power is large: far from its bounds e^-b is beyond any float.
        a, b = (2 * mean * bound / variance for bound in (high, low))
        h1 = math.expm1(b) / math.expm1(b - a) if mean > 0 else math.exp(a) * math.expm1(-b) / math.expm1(a - b)
        length = (h1 * high + (1 - h1) * low) / mean
    return SprtLength(elo, math.ceil(length) * (1 if len(chances) == 3 else 2), h1)


def _at(chances: tuple[float, ...], elo: float) -> tuple[float, ...]:
    """The most likely chances with the share of the points that `elo` expects, given these."""
    shares = [i / (len(chances) - 1) for i in range(len(chances))]
    return tuple(with_mean(shares, chances, share_of(elo)))
