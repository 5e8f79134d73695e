"""What the games of a setting show: W/D/L, (w + l) / d, repeated games, positions where net and search disagree."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from valuerepair.intervals import wilson_bounds
from valuerepair.play.elo import ByOpening, Interval, Pentanomial, Score
from valuerepair.play.experiment import Played
from valuerepair.play.pairs import Tally

Floats = NDArray[np.float64]

# Games that are the same up to so many plies after the book; the whole game counts beside them.
REPEAT_PLIES = (10, 20, 40)
WHOLE = "whole"
# How much games of an opening are alike can be told from so many openings; with fewer, only copies are told apart.
_FEWEST_OPENINGS = 8


@dataclass(frozen=True, slots=True)
class Sweep:
    """The self-play games of one setting. Intervals are at 0.95.

    `score` is White's. `ratio` is (w + l) / d. `repeats` are, to each of `REPEAT_PLIES` and `WHOLE`, the shares of the
    games that are identical to an earlier one from the same opening, among those that have an earlier one.
    `interesting` are positions a thousand, of those searched, in which the net's own value and the search's are at
    least `threshold` apart. `plies` is the mean length after the book. `planned` games are to be played: as long as
    some of them are not over, those that are over are the shorter ones.
    """

    name: str
    score: Score
    undecided: int
    openings: int
    ratio: Interval
    repeats: dict[str, float]
    interesting: Interval
    threshold: float
    positions: int
    plies: float
    nodes: int
    planned: int

    @property
    def games(self) -> int:
        return self.score.games + self.undecided

    @property
    def shares(self) -> tuple[float, float, float]:
        """White's wins, draws and losses over the decided games; NaN without any."""
        games = self.score.games or math.nan
        return self.score.wins / games, self.score.draws / games, self.score.losses / games


@dataclass(frozen=True, slots=True)
class Match:
    """The games of one contestant against another, from the first one's side; see `play.pairs.Tally` and `Sweep`.

    `openings` is what intervals are made from where openings come again, None where none does.
    """

    name: str
    first: str
    second: str
    score: Score
    as_white: Score
    as_black: Score
    pairs: Pentanomial
    undecided: int
    planned: int
    openings: ByOpening | None = None


def sweep_of(name: str, games: Sequence[Played], threshold: float, *, planned: int = 0) -> Sweep:
    """What self-play games show; `planned` of them unless there are more. For the intervals see `_share`."""
    results = {result: sum(game.result == result for game in games) for result in ("1-0", "1/2-1/2", "0-1")}
    gaps = [np.array([gap for gap in game.gaps if gap is not None]) for game in games]
    hits = np.array([float((np.abs(gap) >= threshold).sum()) for gap in gaps])
    positions = np.array([float(len(gap)) for gap in gaps])
    draws = np.array([float(game.result == "1/2-1/2") for game in games])
    decisive = np.array([float(game.result in ("1-0", "0-1")) for game in games])
    score = Score(results["1-0"], results["1/2-1/2"], results["0-1"])
    drawn, found = _share(draws, draws + decisive, games), _share(hits, positions, games)
    return Sweep(
        name,
        score,
        len(games) - sum(results.values()),
        len({game.opening for game in games}),
        Interval(score.decisive_ratio, _odds(drawn.high), _odds(drawn.low)),
        repeats_of(games),
        Interval(*(1000 * bound for bound in found)),
        threshold,
        int(positions.sum()),
        float(np.mean([len(game.moves) for game in games])) if games else math.nan,
        sum(game.nodes for game in games),
        max(planned, len(games)),
    )


def match_of(name: str, games: Sequence[Played], first: str, second: str, planned: int = 0) -> Match:
    """What a match shows; undecided games are counted apart."""
    tally = Tally(first)
    for game in games:
        tally.add_result(game.number, game.white == first, game.result)
    return Match(
        name,
        first,
        second,
        tally.score,
        tally.as_white,
        tally.as_black,
        tally.pairs,
        tally.undecided,
        max(planned, len(games)),
        ByOpening.of((game.opening, game.white == first, _points(game, first)) for game in games if game.result != "*"),
    )


def _points(game: Played, first: str) -> float:
    white = {"1-0": 1.0, "0-1": 0.0}.get(game.result, 0.5)
    return white if game.white == first else 1 - white


def repeats_of(games: Sequence[Played]) -> dict[str, float]:
    """Shares of games that are identical to an earlier one of their opening, to so many plies and as a whole.

    NaN where no opening was played twice. A game that ended before ply n is identical to ply n only as a whole.
    """
    again = sum(len(of_one) - 1 for of_one in _by_opening(games).values())

    def share(plies: int | None) -> float:
        distinct = len({(game.opening, game.moves[:plies]) for game in games})
        return (len(games) - distinct) / again if again else math.nan

    return {str(plies): share(plies) for plies in REPEAT_PLIES} | {WHOLE: share(None)}


def equal_ratio_temperature(target: float, sweeps: Sequence[tuple[float, float]]) -> tuple[float, bool]:
    """The temperature whose (w + l) / d is `target`, and whether it lies within those measured.

    `sweeps` are (temperature, ratio). Between two of them the logarithm of the ratio is taken to be a straight line;
    of several crossings the lowest counts. Outside, the temperature of the nearest ratio is given. Raises ValueError
    without a ratio that is a number above 0.
    """
    points = sorted((tau, math.log(ratio)) for tau, ratio in sweeps if 0 < ratio < math.inf)
    if not points or not 0 < target < math.inf:
        raise ValueError("no temperature of equal ratio: a ratio is 0 or has no draws")
    wanted = math.log(target)
    for (tau, low), (next_tau, high) in pairwise(points):
        if min(low, high) <= wanted <= max(low, high):
            return (tau + (next_tau - tau) * (wanted - low) / (high - low) if high != low else tau), True
    return min(points, key=lambda point: abs(point[1] - wanted))[0], False


def _by_opening(games: Sequence[Played]) -> dict[int, list[int]]:
    """The places of the games of each opening."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, game in enumerate(games):
        places[game.opening].append(place)
    return dict(places)


def _share(hits: Floats, of: Floats, games: Sequence[Played]) -> Interval:
    """sum(hits) / sum(of), each counted by game, with Wilson's interval at 0.95; NaN without any.

    It is that of an effective number, with which games of one opening would differ from those of others as they do
    (Kish's design effect), at most as many as there are in games that are no copies: repeated games add nothing.
    """
    if not of.sum():
        return Interval(math.nan, math.nan, math.nan)
    share, places = float(hits.sum() / of.sum()), _by_opening(games)
    copies = dict[object, list[int]]()
    for place, game in enumerate(games):
        copies.setdefault((game.opening, game.moves), []).append(place)
    groups = places.values() if len(places) >= _FEWEST_OPENINGS else copies.values()
    spread = sum(float(hits[group].sum() - share * of[group].sum()) ** 2 for group in groups)
    size = sum(float(of[group].max()) for group in copies.values())
    if spread > 0:
        size = min(size, share * (1 - share) * float(of.sum()) ** 2 / spread)
    return Interval(share, *wilson_bounds(share, size))


def _odds(draws: float) -> float:
    """(w + l) / d of a share of draws."""
    return (1 - draws) / draws if draws else math.inf
