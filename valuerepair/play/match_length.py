"""Plans a match: how many games show a difference, and how many an SPRT takes to decide."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from valuerepair.errors import UsageError, ValueRepairError, check_least
from valuerepair.play.elo import (
    FEW,
    FEWEST,
    LEVELS,
    ByOpening,
    MatchScore,
    Pentanomial,
    elo_of,
    few,
    moments,
    share_interval,
    share_of,
)
from valuerepair.play.sprt import Sprt, with_mean
from valuerepair.text import table_lines

if TYPE_CHECKING:
    from valuerepair.play.crosstable import Crosstable
    from valuerepair.play.standing import Standing

# The chances that a match shows the difference. At 0.5 its interval is as wide as the difference.
POWERS = (0.5, 0.8, 0.95)
_MOST_GAMES = 10**12
_MOST_ELO = 1000


@dataclass(frozen=True, slots=True)
class ResultChances:
    """The chances of each result of a game (loss, draw, win), and of a pair of games with one opening, by points.

    `pair` is None if the two games of a pair are independent. If not `paired`, the pairs are not known, and the games
    of matches are counted one by one.
    """

    game: tuple[float, ...]
    pair: tuple[float, ...] | None = None
    paired: bool = True

    @staticmethod
    def of_draws(draws: float) -> ResultChances:
        """The chances of even players with this share of draws and independent games. Raises UsageError.

        Games of one opening are seldom independent: the player with its better side wins. A match then needs fewer
        games.
        """
        if not 0 <= draws < 1:
            raise UsageError(f"--draws {draws:g}: must be a share of the games, from 0 to below 1")
        return ResultChances(((1 - draws) / 2, draws, (1 - draws) / 2))

    @staticmethod
    def of_match(match: Standing) -> ResultChances:
        """The chances of even players: each outcome gets the mean of its own and its reverse's frequency in a match.

        Raises ValueRepairError if the match has too few games.
        """
        tally = match.tally
        if few(tally.pairs if match.paired else tally.score):
            raise ValueRepairError(f"{' against '.join(match.names)}: {_too_few(match)}; give --draws instead")
        pair = _even(tally.pairs) if match.paired else None
        return ResultChances(_even(tally.score), pair, match.paired)

    def at(self, elo: float) -> ResultChances:
        """The most likely chances at a difference of `elo`, given these. Raises UsageError if no chances give it."""
        return ResultChances(_chances_at(self.game, elo), self.pair and _chances_at(self.pair, elo), self.paired)

    @property
    def counted(self) -> tuple[float, ...]:
        """The chances of the units of intervals: pairs, or games."""
        if not self.paired:
            return self.game
        lost, drawn, won = self.game
        independent = (lost * lost, 2 * lost * drawn, 2 * lost * won + drawn * drawn, 2 * drawn * won, won * won)
        return self.pair or independent


@dataclass(frozen=True, slots=True)
class _Expected:
    """The expected counts of outcomes among n, not rounded, as `Results`."""

    chances: tuple[float, ...]
    n: float

    @property
    def outcomes(self) -> Sequence[tuple[float, float]]:
        last = len(self.chances) - 1
        return tuple((i / last, self.n * chance) for i, chance in enumerate(self.chances))


@dataclass(frozen=True, slots=True)
class SprtLength:
    """The mean number of games until a sequential test decides if the difference is `elo`, and the chance of H1.

    `of_model` is that difference in the Elo of the test's model, if it came from the test.
    """

    elo: float
    games: int
    h1: float
    of_model: float | None = None


@dataclass(frozen=True)
class MatchLength:
    """The length of a match that shows a difference of `elo`, if games have these `outcomes` (at 0 Elo).

    `games` has, by level, a number of games for each of `POWERS`, which are the chances that a match of this length
    shows the difference at this level; it is empty without `elo`. `tests` are the lengths of an SPRT at its elo0, in
    the middle, at its elo1, and at `elo`. Hours are for `seconds` per game, `jobs` games at a time. `repeated`: the
    games that gave the outcomes repeated openings; the plan assumes new openings.
    """

    elo: float | None
    outcomes: ResultChances
    games: dict[float, tuple[int, ...]]
    sprt: Sprt | None
    tests: tuple[SprtLength, ...]
    seconds: float | None
    jobs: int
    repeated: bool

    def hours(self, games: int) -> float | None:
        """The hours that the games take; None if the duration of a game is not known."""
        return None if self.seconds is None else games * self.seconds / self.jobs / 3600

    def lines(self) -> list[str]:
        """As text."""
        lines = []
        drawn = f"{100 * self.outcomes.game[1]:.1f} % of them drawn"
        if not self.outcomes.paired:
            drawn += "; no pairs, so counted game by game"
        if self.elo is not None:
            lines.append(f"games to show a difference of {self.elo:g} Elo, {drawn}")
            columns = f":<8 | interval ±{self.elo:g}:>21 | shown in 80 of 100:>21 | in 95 of 100:>21"
            rows = ((f"at {level:.2f}:", *map(self._text, games)) for level, games in self.games.items())
            lines += table_lines(columns, rows, "  ")
        if self.sprt is not None:
            lines.append(f"{self.sprt}: games on average until it decides" + (f", {drawn}" if not lines else ""))
            differences = [_difference(test, self.sprt) for test in self.tests]
            width = max(map(len, differences))
            lines += [
                f"  {difference:<{width}}{self._text(test.games):>20}, H1 accepted in {100 * test.h1:.1f} %"
                for difference, test in zip(differences, self.tests, strict=True)
            ]
        if self.repeated:
            lines.append("openings are repeated in these games; the plan takes each pair as one of a new opening")
        if self.seconds is not None:
            lines.append(f"hours: {self.seconds:,.1f} s per game, {self.jobs} at once")
        return lines

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        return {
            "elo": self.elo,
            "draws": self.outcomes.game[1],
            "intervals_of": "pairs" if self.outcomes.paired else "games",
            "games": [
                {"level": level, "shown_in": power, "games": games, "hours": self.hours(games)}
                for level, lengths in self.games.items()
                for power, games in zip(POWERS, lengths, strict=True)
            ],
            "sprt": [
                {"elo": test.elo, "of_model": test.of_model, "games": test.games}
                | {"hours": self.hours(test.games), "h1_accepted": test.h1}
                for test in self.tests
            ],
            "repeated_openings": self.repeated,
            "seconds_a_game": self.seconds,
            "jobs": self.jobs,
        }

    def _text(self, games: int) -> str:
        hours = self.hours(games)
        return f"{games:,}" + ("" if hours is None else f" ({hours:,.{1 if hours < 100 else 0}f} h)")


def match_length(
    elo: float | None,
    *,
    draws: float | None = None,
    like: Crosstable | None = None,
    sprt: Sprt | None = None,
    seconds: float | None = None,
    jobs: int = 1,
) -> MatchLength:
    """The length of a match that shows the difference `elo`, and of an `sprt`; one of the two may be missing.

    Give either `draws`, the share of drawn games, or `like`, whose games may also have the time of a game (`seconds`).
    Raises UsageError for invalid arguments, ValueRepairError if `like` has too few games.
    """
    if elo is None and sprt is None:
        raise UsageError("a plan needs a difference (--resolve 5), a test (--sprt elo0=0,elo1=5) or both")
    if elo is not None and not 0 < elo <= _MOST_ELO:
        raise UsageError(f"--resolve {elo:g}: must be a difference of Elo above 0, and at most {_MOST_ELO}")
    check_least("--jobs", jobs)
    if seconds is not None and not 0 < seconds < math.inf:
        raise UsageError(f"--game-time {seconds:g}: must be seconds above 0")
    if (draws is None) == (like is None):
        raise UsageError("a plan needs the share of draws (--draws 0.6) or the PGN of some games, one of the two")
    outcomes = ResultChances.of_match(like.one()) if like is not None else ResultChances.of_draws(draws or 0.0)
    if seconds is None and like is not None:
        seconds = like.seconds
    games = {} if elo is None else {level: _games(outcomes, elo, level) for level in LEVELS}
    tests = () if sprt is None else _tests(sprt, outcomes, elo)
    repeated = like is not None and isinstance(like.one().results, ByOpening)
    return MatchLength(elo, outcomes, games, sprt, tests, seconds, jobs, repeated)


def _games(outcomes: ResultChances, elo: float, level: float) -> tuple[int, ...]:
    """The games that show the difference at the level, for each of `POWERS`."""
    chances, per_outcome = outcomes.at(elo).counted, 2 if outcomes.paired else 1
    return tuple(per_outcome * needed(chances, elo, level, power) for power in POWERS)


def _tests(sprt: Sprt, outcomes: ResultChances, elo: float | None) -> tuple[SprtLength, ...]:
    """The length of the test at its own two differences, in the middle, and at `elo` if it is another one."""
    chances = outcomes.game if sprt.model == "bayesian" else outcomes.counted
    lengths = []
    for of_model in (sprt.elo0, (sprt.elo0 + sprt.elo1) / 2, sprt.elo1):
        _, share, _ = moments(_Expected(tuple(sprt.at(of_model, chances)), 1.0))
        lengths.append(replace(sprt_length(sprt, outcomes, elo_of(share)), of_model=of_model))
    if elo is not None and not any(math.isclose(test.elo, elo) for test in lengths):
        lengths.append(sprt_length(sprt, outcomes, elo))
    return tuple(lengths)


def needed(chances: tuple[float, ...], elo: float, level: float, power: float) -> int:
    """The fewest outcomes with which the interval of that level is above 0 with the chance `power`.

    `chances` are those of the outcomes at `elo`. The interval is that of `play.elo` for the expected outcomes, with a
    normally distributed mean.
    """
    deviation = math.sqrt(moments(_Expected(chances, 1.0))[2])

    def shown(n: int) -> bool:
        _, low, _ = share_interval(_Expected(chances, n), level)
        return low - NormalDist().inv_cdf(power) * deviation / math.sqrt(n) > 0.5

    return FEWEST + bisect_left(range(FEWEST, _MOST_GAMES), True, key=shown)


def sprt_length(sprt: Sprt, outcomes: ResultChances, elo: float) -> SprtLength:
    """The length of a test if the difference is `elo`.

    Wald's formulas ("Sequential Tests of Statistical Hypotheses", 1945) for a ratio that is a Brownian motion, with
    mean and variance of the increment by one outcome.
    """
    at_elo = outcomes.at(elo)
    chances = at_elo.game if sprt.model == "bayesian" else at_elo.counted
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


def _difference(test: SprtLength, sprt: Sprt) -> str:
    """``at +5.0 normalized (+3.2 Elo):``, or plain Elo alone if it is the test's model."""
    plain = f"{round(test.elo, 1) + 0.0:+.1f} Elo"  # no -0.0
    if test.of_model is None or sprt.model == "logistic":
        return f"at {plain}:"
    return f"at {test.of_model:+g} {sprt.model} ({plain}):"


def _chances_at(chances: tuple[float, ...], elo: float) -> tuple[float, ...]:
    """The most likely chances with the share of the points at `elo`, given `chances`. Raises UsageError."""
    shares = [i / (len(chances) - 1) for i in range(len(chances))]
    try:
        return tuple(with_mean(shares, chances, share_of(elo)))
    except ValueError:
        raise UsageError(f"the outcomes of these games cannot make {elo:g} Elo; give --draws instead") from None


def _even(results: MatchScore | Pentanomial) -> tuple[float, ...]:
    """The chances of outcomes between even players: each is as likely as its reverse."""
    counts = [count for _, count in results.outcomes]
    return tuple((count + reverse) / (2 * sum(counts)) for count, reverse in zip(counts, counts[::-1], strict=True))


def _too_few(match: Standing) -> str:
    """Why a match has too few outcomes to plan by."""
    counts = sorted(count for _, count in (match.tally.pairs if match.paired else match.tally.score).outcomes)
    kind, others = "pairs" if match.paired else "games", sum(counts[:-1])
    if counts[-1] >= FEW and not others:
        return f"all {counts[-1]:,} {kind} had the same result, and a plan needs to know how results vary"
    return (
        f"too few games to plan by: {others:,} {kind} with another result than the most frequent one, of {FEW} needed"
    )
