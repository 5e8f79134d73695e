"""The sequential probability ratio test: when to stop a match.

The generalised log-likelihood ratio of a multinomial distribution, exact in the sense of Michel Van den Bergh,
"Comparing the approximations for the generalized log likelihood ratio of a multinomial distribution" and "Comments on
normalized Elo" (cantate.be/Fishtest), as fastchess computes it: of games (trinomial) or of pairs (pentanomial).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from valuerepair.errors import UsageError, check_word, pairs_of
from valuerepair.inputs import finite, settings_of
from valuerepair.play.elo import NORMALIZED_UNIT, MatchScore, Pentanomial, share_of

MODELS = ("normalized", "logistic")
# Verdicts: the first player is not stronger than elo0, it is at least elo1 stronger, or the match continues.
H0, H1, GO_ON = "H0", "H1", ""
# The count of an outcome that never occurred, so that no logarithm of 0 arises (as in fastchess).
_NEVER = 1e-3
# Up to here every difference can be made of outcomes that all occurred; far beyond, shares round to 0 and 1.
_MOST_ELO = 4000
_EXAMPLE = "for example elo0=0,elo1=5"
_SPRT = ("elo0", "elo1", "alpha", "beta")


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
    mean, deviation = _moments(shares, solved)
    while t * (mean - 0.5 - t * deviation) < 0:
        solved = [(p + (share == end)) / 2 for p, share in zip(solved, shares, strict=True)]
        mean, deviation = _moments(shares, solved)
    for _ in range(200):
        slopes = [s - 0.5 - 0.5 * t * deviation * (1 + ((s - mean) / deviation) ** 2) for s in shares]
        before, solved = solved, _tilted(slopes, observed)
        mean, deviation = _moments(shares, solved)
        if max(abs(a - b) for a, b in zip(before, solved, strict=True)) < 1e-9:
            break
    return solved


def _moments(shares: Sequence[float], chances: Sequence[float]) -> tuple[float, float]:
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
