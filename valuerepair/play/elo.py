"""Elo of the results of games with its interval, likelihood of superiority, a verdict at each level, and the SPRT.

Everything is from the first player's side: wins are its wins, Elo above 0 means that it is stronger. The sequential
probability ratio test, which says when to stop a match, has the generalised log-likelihood ratio of a multinomial
distribution, exact in the sense of Michel Van den Bergh, "Comparing the approximations for the generalized log
likelihood ratio of a multinomial distribution" and "Comments on normalized Elo" (cantate.be/Fishtest), as fastchess
computes it: of games (trinomial) or of pairs (pentanomial).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, Protocol

from valuerepair.errors import UsageError, check_word, finite, pairs_of, settings_of

LEVELS = (0.90, 0.95, 0.97, 0.99)
BETTER, WORSE, NOT_SHOWN = "better", "worse", "not shown"
# With fewer outcomes that differ from the most frequent one, intervals are exact instead of normal.
FEW = 30
# The fewest outcomes that can show a difference at 0.90: equal players win 5 of 5 once in 32 times.
FEWEST = 5
# Normalized Elo of a difference of one standard deviation of a game's result ("Comments on normalized Elo", fastchess).
NORMALIZED_UNIT = 800 / math.log(10)
MODELS = ("normalized", "logistic")
# Verdicts: the first player is not stronger than elo0, it is at least elo1 stronger, or the match continues.
H0, H1, GO_ON = "H0", "H1", ""
# The count of an outcome that never occurred, so that no logarithm of 0 arises (as in fastchess).
_NEVER = 1e-3
# Up to here every difference can be made of outcomes that all occurred; far beyond, shares round to 0 and 1.
_MOST_ELO = 4000
_EXAMPLE = "for example elo0=0,elo1=5"
_SPRT = ("elo0", "elo1", "alpha", "beta")


class Results(Protocol):
    """Counts of outcomes, each worth a share of the points, from which intervals are computed."""

    @property
    def outcomes(self) -> Sequence[tuple[float, float]]:
        """(share of the points in [0, 1], count), from the worst to the best outcome."""
        ...


@dataclass(frozen=True, slots=True)
class MatchScore:
    """Games by their result for the first player."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """1 for a win, 1/2 for a draw."""
        return self.wins + self.draws / 2

    @property
    def outcomes(self) -> Sequence[tuple[float, int]]:
        return (0.0, self.losses), (0.5, self.draws), (1.0, self.wins)

    def __add__(self, other: MatchScore) -> MatchScore:
        return MatchScore(self.wins + other.wins, self.draws + other.draws, self.losses + other.losses)

    def __str__(self) -> str:
        return f"+{self.wins:,} -{self.losses:,} ={self.draws:,}"


@dataclass(frozen=True, slots=True)
class Pentanomial:
    """Pairs of games, one opening with both colours, by the first player's points of the two: 0, 1/2, 1, 3/2, 2."""

    counts: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)

    @property
    def pairs(self) -> int:
        return sum(self.counts)

    @property
    def outcomes(self) -> Sequence[tuple[float, int]]:
        return tuple(zip((0.0, 0.25, 0.5, 0.75, 1.0), self.counts, strict=True))

    def __str__(self) -> str:
        return ", ".join(f"{count:,}" for count in self.counts)


@dataclass(frozen=True, slots=True)
class ByOpening:
    """Openings that were played repeatedly: by opening the number of decided games and the first player's points.

    Repeated games may be copies, as games by nodes and without temperature are. Copies carry no information; counted as
    games or pairs they would make intervals arbitrarily narrow. So the unit is the opening.
    """

    games: tuple[int, ...]
    points: tuple[float, ...]

    @staticmethod
    def of(games: Iterable[tuple[Hashable, bool, float]]) -> ByOpening | None:
        """From (opening, whether the first player is White, its points); None if no opening is repeated."""
        played = list(games)
        if len({(opening, white) for opening, white, _ in played}) == len(played):
            return None
        points = defaultdict[Hashable, list[float]](list)
        for opening, _, share in played:
            points[opening].append(share)
        return ByOpening(tuple(map(len, points.values())), tuple(map(sum, points.values())))

    @property
    def effective(self) -> float:
        """The number of openings of equal size that would vary as much (Kish, "Survey Sampling", 1965)."""
        return sum(self.games) ** 2 / sum(games**2 for games in self.games) if self.games else 0

    @property
    def outcomes(self) -> Sequence[tuple[float, float]]:
        per_game = self.effective / max(sum(self.games), 1)
        return tuple(sorted((p / g, g * per_game) for g, p in zip(self.games, self.points, strict=True)))

    def moments(self) -> tuple[float, float, float]:
        """As `moments`: the effective number, the share of the points of all games, and that number times its variance.

        The variance is the jackknife's, from the shares without one opening each (Miller, Biometrika 61, 1974). With
        equally many games per opening it is that of their mean; where one opening has most of the games, the usual
        variance of a ratio (Cochran, "Sampling Techniques", 1977, section 2.11) would be far too small.
        """
        openings, games, points = len(self.games), sum(self.games), sum(self.points)
        if openings < 2:
            return openings, points / games if games else math.nan, 0.0 if games else math.nan
        # Sums of halves are exact, so that openings with equal shares have exactly no spread.
        changes = ((p * games - points * g) / (games - g) for g, p in zip(self.games, self.points, strict=True))
        variance = (openings - 1) / openings * sum(change**2 for change in changes) / games**2
        return self.effective, points / games, self.effective * variance


class Estimate(NamedTuple):
    """An estimate and the bounds that hold the true value with the level's probability."""

    value: float
    low: float
    high: float


def elo_of(share: float) -> float:
    """The Elo difference at which this share of the points is expected: ``400 log10(s / (1 - s))``.

    It is ±inf for 0 and 1, NaN for NaN.
    """
    if share <= 0:
        return -math.inf
    return math.inf if share >= 1 else 0.0 - 400 * math.log10(1 / share - 1)  # 0 for an even share, not -0


def share_of(elo: float) -> float:
    """The share of the points that is expected at an Elo difference, the inverse of `elo_of`."""
    return 1 / (1 + math.pow(10, -elo / 400))


def share_interval(results: Results, level: float = 0.95) -> Estimate:
    """The share of the points with its interval, within [0, 1]; NaN without a game.

    The normal interval, ``share ± z sqrt(variance / n)``, with the observed variance, as in fastchess and cutechess;
    for openings with Student's t instead of z; for `few` outcomes the exact interval (Clopper and Pearson) of an
    equivalent number of won and lost games (`_won_lost`).
    """
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, not {level!r}")
    n, mean, variance = moments(results)
    if not n:
        return Estimate(math.nan, math.nan, math.nan)
    if few(results):
        from scipy.special import betaincinv  # only few games need scipy

        won, lost = _won_lost(results)
        low = float(betaincinv(won, lost + 1, (1 - level) / 2)) if won else 0.0
        high = float(betaincinv(won + 1, lost, (1 + level) / 2)) if lost else 1.0
        return Estimate(mean, low, high)
    margin = _quantile(results, (1 + level) / 2) * math.sqrt(variance / n)
    return Estimate(mean, max(mean - margin, 0.0), min(mean + margin, 1.0))


def few(results: Results) -> bool:
    """Whether fewer than `FEW` outcomes differ from the most frequent one: too few for a normal distribution.

    For openings, whose shares are seldom equal: whether they count as fewer than `FEWEST`, or all have the same share,
    perhaps by chance, so that a normal interval would have no width.
    """
    if isinstance(results, ByOpening):
        openings, _, variance = results.moments()
        return openings < FEWEST or variance == 0
    counts: dict[float, float] = {}
    for share, count in results.outcomes:
        counts[share] = counts.get(share, 0) + count
    return sum(counts.values()) - max(counts.values(), default=0) < FEW


def elo_interval(results: Results, level: float = 0.95) -> Estimate:
    """Elo with its interval: the bounds of the share of the points converted to Elo, so it is not symmetric."""
    return Estimate(*map(elo_of, share_interval(results, level)))


def normalized_elo(results: Results, played: Results | None = None) -> Estimate:
    """Normalized Elo with its 95 % interval: the share above one half in standard deviations of a game, times 347.4.

    The deviation is that of the games or pairs `played`, by default the results themselves; for pairs it is multiplied
    by sqrt(2). NaN where all outcomes are the same.
    """
    played = results if played is None else played
    variance = moments(played)[2] * (2 if isinstance(played, Pentanomial) else 1)
    if not variance > 0:
        return Estimate(math.nan, math.nan, math.nan)
    unit = NORMALIZED_UNIT / math.sqrt(variance)
    return Estimate(*((bound - 0.5) * unit for bound in share_interval(results, 0.95)))


def los(results: Results) -> float:
    """Likelihood that the first player is the stronger one, in [0, 1]; 1/2 for an even score and without games.

    It is above 0.95 where the interval at 0.90 is above 0, and so at each level: ``Phi((share - 1/2) / sqrt(variance /
    n))`` as fastchess prints it; for openings Student's t; for `few` outcomes the chance that equal players do worse.
    """
    n, mean, variance = moments(results)
    if not n or mean == 0.5:
        return 0.5
    if few(results):
        from scipy.special import betainc

        better, worse = sorted(_won_lost(results), reverse=True)
        superior = max(1 - float(betainc(better, worse + 1, 0.5)), 0.5)
        return superior if mean > 0.5 else 1 - superior
    deviations = (mean - 0.5) / math.sqrt(variance / n)
    if isinstance(results, ByOpening):
        from scipy.special import stdtr

        return float(stdtr(n - 1, deviations))
    return NormalDist().cdf(deviations)


def verdict(results: Results, level: float) -> str:
    """`BETTER` where the whole interval of that level is above 0 Elo, `WORSE` below, else `NOT_SHOWN`."""
    _, low, high = share_interval(results, level)
    if low > 0.5:
        return BETTER
    return WORSE if high < 0.5 else NOT_SHOWN


def moments(results: Results) -> tuple[float, float, float]:
    """(number of outcomes, mean share of the points, variance of an outcome); the last two are NaN without outcomes."""
    return results.moments() if isinstance(results, ByOpening) else _moments(results.outcomes)


def _quantile(results: Results, chance: float) -> float:
    """A quantile of the share's distribution in standard errors: normal; for openings Student's t."""
    if not isinstance(results, ByOpening):
        return NormalDist().inv_cdf(chance)
    from scipy.special import stdtrit

    return float(stdtrit(results.effective - 1, chance))


def _moments(outcomes: Iterable[tuple[float, float]]) -> tuple[float, float, float]:
    outcomes = tuple(outcomes)
    n = sum(count for _, count in outcomes)
    if not n:
        return 0, math.nan, math.nan
    mean = sum(share * count for share, count in outcomes) / n
    return n, mean, sum(count * (share - mean) ** 2 for share, count in outcomes) / n


def _won_lost(results: Results) -> tuple[float, float]:
    """(won, lost) of the equivalent number of games without draws, which determine the share as precisely.

    Their number is n times the variance of games without draws over that of the outcomes. The latter includes one more
    outcome at either end: otherwise outcomes that are all equal by chance would count as certain.
    """
    n, mean, _ = moments(results)
    _, smoothed, variance = _moments((*results.outcomes, (0.0, 1), (1.0, 1)))
    size = n * smoothed * (1 - smoothed) / variance
    return size * mean, size * (1 - mean)


def elo_words(elo: Estimate, level: str = "") -> str:
    """``+12.3 (-4.0 to +28.9)``; only the bound if all games were won or all lost, which gives no estimate.

    `level` names the interval: ``+12.3 (95 %: -4.0 to +28.9)``.
    """
    if math.isinf(elo.value):
        return f"{bounds_words(elo)} ({f'{level}, ' if level else ''}{_all_same(elo.value)})"
    prefix = f"{level}: " if level else ""
    return "-" if math.isnan(elo.value) else f"{value_words(elo.value)} ({prefix}{bounds_words(elo)})"


def value_words(elo: float) -> str:
    """``+12.3``; for an infinite value the reason: all games were won, or all lost."""
    return f"unknown, {_all_same(elo)}" if math.isinf(elo) else f"{round(elo, 1) + 0.0:+.1f}"  # no -0.0


def bounds_words(elo: Estimate) -> str:
    """``-4.0 to +28.9``, or the only finite bound."""
    low, high = value_words(elo.low), value_words(elo.high)
    if math.isinf(elo.low) and math.isinf(elo.high):
        return "without bounds"
    if math.isinf(elo.high):
        return f"above {low}"
    return f"below {high}" if math.isinf(elo.low) else f"{low} to {high}"


def _all_same(elo: float) -> str:
    return "all won" if elo > 0 else "all lost"


def los_words(results: Results) -> str:
    """The likelihood of superiority in per cent; for few games never 0 or 100."""
    superior = 100 * los(results)
    if few(results) and not 0.05 < superior < 99.95:
        return "above 99.9 %" if superior > 50 else "below 0.1 %"
    return f"{superior:.1f} %"


def few_words(results: Results) -> str | None:
    """A remark on too few outcomes; None if there are enough."""
    n, unit = moments(results)[0], unit_of(results)
    if n < FEWEST:
        uneven = isinstance(results, ByOpening) and len(results.games) >= FEWEST
        counts = f"; with numbers of games as uneven as these they count as {n:.1f}" if uneven else ""
        return f"too few {unit} to show a difference: at least {FEWEST} are needed{counts}"
    if isinstance(results, ByOpening) and few(results):
        return "all openings have the same share of the points: exact intervals, as no spread was seen"
    return f"few {unit}: exact intervals, wider than those of many" if few(results) else None


def unit_of(results: Results) -> str:
    """The unit of the intervals: openings, pairs or games."""
    if isinstance(results, ByOpening):
        return "openings"
    return "pairs" if isinstance(results, Pentanomial) else "games"


@dataclass(frozen=True, slots=True)
class Sprt:
    """A test of H1 (Elo is `elo1`) against H0 (Elo is `elo0`), from the first player's side.

    `alpha` is the chance to accept H1 when H0 holds, `beta` the reverse. `model` defines Elo: `normalized` (in standard
    deviations of a game, so that draws do not matter), or `logistic`. Raises UsageError for invalid values, also for
    Elo beyond 4000.
    """

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05
    model: str = "normalized"

    def __post_init__(self) -> None:
        check_word("SPRT model", self.model, MODELS)
        if not self.elo0 < self.elo1 or not math.isfinite(self.elo1 - self.elo0):
            raise UsageError(f"SPRT: elo0={self.elo0:g} must be less than elo1={self.elo1:g}")
        if max(-self.elo0, self.elo1) > _MOST_ELO:
            raise UsageError(
                f"SPRT: elo0={self.elo0:g} and elo1={self.elo1:g} must be from -{_MOST_ELO} to {_MOST_ELO}"
            )
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 1:
                raise UsageError(f"SPRT: {name}={value:g} must be between 0 and 1")
        if self.alpha + self.beta >= 1:
            raise UsageError(f"SPRT: alpha={self.alpha:g} and beta={self.beta:g} must add up to less than 1")

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper): H0 is accepted at or below the lower bound, H1 at or above the upper one (Wald)."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def llr(self, results: MatchScore | Pentanomial) -> float:
        """log(likelihood under H1 / likelihood under H0), of games or of pairs; 0 without results."""
        counts = [count for _, count in results.outcomes]
        if not any(counts):
            return 0.0
        weights = [count or _NEVER for count in counts]
        total = float(sum(weights))
        observed = [weight / total for weight in weights]
        ends = self.at(self.elo0, observed), self.at(self.elo1, observed)
        return total * math.fsum(p * math.log(h1 / h0) for p, h0, h1 in zip(observed, *ends, strict=True))

    def at(self, elo: float, observed: Sequence[float]) -> list[float]:
        """The most likely chances of the outcomes at a difference of `elo` (of the model), given the observed chances.

        Raises UsageError if these outcomes cannot have that difference.
        """
        shares = [i / (len(observed) - 1) for i in range(len(observed))]
        try:
            if self.model == "normalized":
                per_outcome = math.sqrt(2.0) if len(observed) > 3 else 1.0
                return _normalized(shares, observed, per_outcome * elo / NORMALIZED_UNIT)
            return with_mean(shares, observed, share_of(elo))
        except ValueError:
            raise UsageError(f"SPRT: the outcomes of these games cannot make {elo:g} {self.model} Elo") from None

    def verdict(self, results: MatchScore | Pentanomial) -> str:
        """`H0`, `H1` or `GO_ON`, from all games so far."""
        llr, (low, high) = self.llr(results), self.bounds
        if llr >= high:
            return H1
        return H0 if llr <= low else GO_ON


def with_mean(shares: Sequence[float], observed: Sequence[float], mean: float) -> list[float]:
    """The most likely distribution of outcomes with this mean, given the observed one (first paper, proposition 1.1).

    Outcomes that never occurred have chance 0. Raises ValueError for a mean that the others cannot have.
    """
    return _tilted([share - mean for share in shares], observed)


def _normalized(shares: Sequence[float], observed: Sequence[float], t: float) -> list[float]:
    """The most likely distribution whose mean is `t` standard deviations above 1/2 (second paper, section 4.1).

    Iterates from the observed distribution, each step with mean and deviation of the last solution. If the observed
    mean is fewer than `t` deviations from 1/2, the start is first moved towards the extreme outcome on that side until
    its mean is as far: then every step has a solution, which for a large `t` it otherwise may not have. Outcomes that
    never occurred have no chance. Raises ValueError if the others cannot have this mean.
    """
    solved = list(observed)
    ends = [share for share, p in zip(shares, observed, strict=True) if p > 0]
    end = ends[-1] if t > 0 else ends[0]
    if t and t * (end - 0.5) <= 0:
        raise ValueError("no such distribution of these outcomes")
    mean, deviation = _distribution(shares, solved)
    while t * (mean - 0.5 - t * deviation) < 0:
        solved = [(p + (share == end)) / 2 for p, share in zip(solved, shares, strict=True)]
        mean, deviation = _distribution(shares, solved)
    for _ in range(200):
        slopes = [s - 0.5 - 0.5 * t * deviation * (1 + ((s - mean) / deviation) ** 2) for s in shares]
        before, solved = solved, _tilted(slopes, observed)
        mean, deviation = _distribution(shares, solved)
        if max(abs(a - b) for a, b in zip(before, solved, strict=True)) < 1e-9:
            break
    return solved


def _distribution(shares: Sequence[float], chances: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of a distribution of outcomes."""
    mean = sum(p * share for p, share in zip(chances, shares, strict=True))
    return mean, math.sqrt(sum(p * (share - mean) ** 2 for p, share in zip(chances, shares, strict=True)))


def _tilted(slopes: Sequence[float], observed: Sequence[float]) -> list[float]:
    """``observed / (1 + theta slope)`` with the theta for which the mean slope is 0 and no chance is negative.

    Skips outcomes that never occurred. Raises ValueError if the slopes of the others are not on both sides of 0.
    """
    terms = [(p, slope) for p, slope in zip(observed, slopes, strict=True) if p > 0]
    low, high = min(slope for _, slope in terms), max(slope for _, slope in terms)
    if not low < 0 < high:
        raise ValueError("no such distribution of these outcomes")
    theta = _falling_root(lambda t: sum(p * slope / (1 + t * slope) for p, slope in terms), -1 / high, -1 / low)
    return [p / (1 + theta * slope) if p > 0 else 0.0 for p, slope in zip(observed, slopes, strict=True)]


def _falling_root(f: Callable[[float], float], low: float, high: float) -> float:
    """The zero of `f`, which falls from infinity at `low` to minus infinity at `high`, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return (low + high) / 2


def parse_sprt(text: str) -> Sprt:
    """Reads ``elo0=0,elo1=5[,alpha=0.05,beta=0.05,model=normalized]``. Raises UsageError."""
    numbers: dict[str, float] = {}
    model = "normalized"
    for name, value in pairs_of(settings_of(text), f"--sprt {text}: ", _EXAMPLE):
        check_word(f"--sprt {text}: setting", name, (*_SPRT, "model"))
        if name == "model":
            model = value
        else:
            numbers[name] = finite(value, f"--sprt {text}: {name}={value}")
    if not {"elo0", "elo1"} <= numbers.keys():
        raise UsageError(f"--sprt {text}: elo0 and elo1 are needed, {_EXAMPLE}")
    return Sprt(**numbers, model=model)
