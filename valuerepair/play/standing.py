"""The standing of a match, as figures and text: results by colour and by pairs, endings, faults, the test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.measure.q_scale import QScale, q_scale_of_sums
from valuerepair.play.breadth import Breadth
from valuerepair.play.elo import (
    FEWEST,
    GO_ON,
    H0,
    H1,
    LEVELS,
    NOT_SHOWN,
    ByOpening,
    Estimate,
    MatchScore,
    Pentanomial,
    Sprt,
    bounds_words,
    elo_interval,
    elo_words,
    few_words,
    los,
    los_words,
    moments,
    normalized_elo,
    unit_of,
    verdict,
)
from valuerepair.play.game import CRASHED, ILLEGAL_MOVE, OUT_OF_TIME
from valuerepair.play.openings import opening_of
from valuerepair.play.pgn import WrittenGame
from valuerepair.text import finite, quantity

POINTS = {"1-0": 1.0, "1/2-1/2": 0.5, "0-1": 0.0}  # of White
FAULTS = (CRASHED, OUT_OF_TIME, ILLEGAL_MOVE)
_PLURAL = {CRASHED: "crashes", OUT_OF_TIME: "losses on time", ILLEGAL_MOVE: "illegal moves"}


class Tally:
    """Counts games of one player, the first, against another, in any order.

    Games 2k and 2k + 1 are a pair: one opening, each player White once. Undecided games are counted separately; scores
    exclude them, `counted` and `pairs` their pairs too.
    """

    def __init__(self) -> None:
        self._colours: Counter[tuple[bool, int]] = Counter()
        self._waiting: dict[int, int] = {}
        self._pairs = [0] * 5
        self._incomplete: set[int] = set()  # pairs with an undecided game
        self._alone: Counter[int] = Counter()  # the decided games of these, by half points
        self.undecided = 0

    def add(self, number: int, first_is_white: bool, result: str) -> None:
        """Counts the game with this number: `result` is 1-0, 0-1, 1/2-1/2 or *."""
        pair = number // 2
        if result not in POINTS:
            self.undecided += 1
            self._incomplete.add(pair)
            if pair in self._waiting:
                self._alone[self._waiting.pop(pair)] += 1
            return
        half_points = round(2 * (POINTS[result] if first_is_white else 1 - POINTS[result]))
        self._colours[first_is_white, half_points] += 1
        if self.is_incomplete(number):
            self._alone[half_points] += 1
            return
        other = self._waiting.pop(pair, None)
        if other is None:
            self._waiting[pair] = half_points
        else:
            self._pairs[half_points + other] += 1

    def is_incomplete(self, number: int) -> bool:
        """Whether a game of the pair of the game with this number has no result."""
        return number // 2 in self._incomplete

    @property
    def as_white(self) -> MatchScore:
        """The first player's games with White."""
        return self._score(True)

    @property
    def as_black(self) -> MatchScore:
        """The first player's games with Black."""
        return self._score(False)

    @property
    def score(self) -> MatchScore:
        """All decided games."""
        return self.as_white + self.as_black

    @property
    def counted(self) -> MatchScore:
        """The decided games, except those whose pair has a game without a result.

        How long a game lasts depends on who is winning, so counting them would favour a side.
        """
        score, alone = self.score, self._alone
        return MatchScore(score.wins - alone[2], score.draws - alone[1], score.losses - alone[0])

    @property
    def pairs(self) -> Pentanomial:
        """The pairs whose games are both decided."""
        a, b, c, d, e = self._pairs
        return Pentanomial((a, b, c, d, e))

    def _score(self, white: bool) -> MatchScore:
        return MatchScore(self._colours[white, 2], self._colours[white, 1], self._colours[white, 0])


@dataclass(frozen=True)
class Played:
    """The facts of a game that a match counts; the first player has White in games of even `number`, from 0.

    `breadth` has White's searches and Black's.
    """

    number: int
    opening: Hashable
    result: str
    ending: str
    plies: int
    breadth: tuple[Breadth, Breadth] = (Breadth(), Breadth())

    @staticmethod
    def of_written(game: WrittenGame) -> Played:
        """Parses a written game; raises KeyError and ValueError for tags of other programs."""
        tags = game.tags
        ending = tags["Ending"].partition(": ")[0]
        white, black = (Breadth.of_tag(tags.get(f"{colour}Breadth", "")) for colour in ("White", "Black"))
        opening = opening_of(tags.get("FEN", ""), game.sans[: int(tags["BookPlies"])])
        return Played(game.number, opening, tags["Result"], ending, int(tags["PlyCount"]), (white, black))


class Standing:
    """Counts games as they end, in any order. `names` are the two players; all is from the first one's side."""

    def __init__(self, names: tuple[str, str], sprt: Sprt | None = None, *, paired: bool = True) -> None:
        self.names, self.sprt = names, sprt
        self.tally = Tally()
        self.paired = paired  # whether each opening is played with both colours
        self.endings: Counter[str] = Counter()
        self.faults: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self.games = self.plies = 0
        self.breadth = Breadth(), Breadth()
        # By opening, the sums of squared Q of both players, both scaled to their mean number of roots.
        self._q_squares: dict[Hashable, NDArray[np.float64]] = {}
        # Number, opening, whether the first player is White, and its points, for each decided game.
        self._decided: list[tuple[int, Hashable, bool, float]] = []
        self.verdict = GO_ON  # of the SPRT

    def add(self, game: Played) -> None:
        """Counts a game."""
        first_is_white = game.number % 2 == 0
        points = None
        if game.result in POINTS:
            points = POINTS[game.result] if first_is_white else 1 - POINTS[game.result]
            self._decided.append((game.number, game.opening, first_is_white, points))
        self.tally.add(game.number, first_is_white, game.result)
        self._add_breadth(game.opening, *(game.breadth if first_is_white else reversed(game.breadth)))
        self.games += 1
        self.plies += game.plies
        self.endings[game.ending] += 1
        if game.ending in FAULTS and points in (0, 1):
            self.faults[0 if points == 0 else 1][game.ending] += 1
        if self.sprt is not None:
            self.verdict = self.sprt.verdict(self.tested)

    def _add_breadth(self, opening: Hashable, first: Breadth, second: Breadth) -> None:
        self.breadth = self.breadth[0] + first, self.breadth[1] + second
        if first.roots and second.roots:
            means = np.array([first.squares / first.roots, second.squares / second.roots])
            before = self._q_squares.get(opening, np.zeros(2))
            self._q_squares[opening] = before + means * (first.roots + second.roots) / 2

    @property
    def q_scale(self) -> QScale | None:
        """The factor that makes the first player's Q, as used in the search, as steep as the second's.

        It compares the values that each net gives the positions in which it moves, which alternate in the same games;
        the interval is over openings. None if a player is not our own search, and before the first moves.
        """
        sums = np.array([*self._q_squares.values()]).reshape(-1, 2).T
        return q_scale_of_sums(*sums) if sums.any(1).all() else None

    @property
    def results(self) -> MatchScore | Pentanomial | ByOpening:
        """The results for intervals: by opening if some are repeated, else pairs, or games before the first pair.

        Games without a result are left out, with their pairs.
        """
        counted = (game[1:] for game in self._decided if not self.tally.is_incomplete(game[0]))
        if (openings := ByOpening.of(counted)) is not None:
            return openings
        return self.tally.pairs if self.tally.pairs.pairs else self.tally.counted

    @property
    def unit(self) -> str:
        """The unit of the intervals: openings, pairs or games."""
        return unit_of(self.results)

    @property
    def counted_units(self) -> str:
        """The unit with its number: ``290 pairs``."""
        results = self.results
        count = len(results.games) if isinstance(results, ByOpening) else int(moments(results)[0])
        return quantity(count, self.unit.removesuffix("s"))

    @property
    def tested(self) -> MatchScore | Pentanomial:
        """The results for the SPRT: pairs, or games if each opening is played once."""
        return self.tally.pairs if self.paired else self.tally.counted

    @property
    def levels(self) -> dict[float, tuple[Estimate, str]]:
        """Elo with its interval and a verdict, at each level."""
        results = self.results
        return {level: (elo_interval(results, level), verdict(results, level)) for level in LEVELS}

    @property
    def normalized(self) -> Estimate:
        """Normalized Elo with its interval at 0.95; the deviation of a game comes from whole pairs, else from games."""
        pairs = self.tally.pairs
        return normalized_elo(self.results, pairs if pairs.pairs else self.tally.counted)

    def as_json(self) -> dict[str, Any]:
        """All figures, from the first player's side; infinite Elo is None."""
        score, tally = self.tally.score, self.tally
        figures: dict[str, Any] = {
            "players": list(self.names),
            "games": self.games,
            "undecided": tally.undecided,
            "score": asdict(score),
            "as_white": asdict(tally.as_white),
            "as_black": asdict(tally.as_black),
            "pentanomial": list(tally.pairs.counts),
            "intervals_of": self.unit,
            "elo": [
                {"level": level, **_interval(interval), "verdict": finding}
                for level, (interval, finding) in self.levels.items()
            ],
            "normalized_elo": _interval(self.normalized),
            "los": los(self.results),
            "endings": dict(self.endings),
            "faults": {name: dict(faults) for name, faults in zip(self.names, self.faults, strict=True)},
            "mean_plies": self.plies / self.games if self.plies else None,
            "effective_root_moves": [breadth.mean for breadth in self.breadth],
            "searches": [breadth.searches for breadth in self.breadth],
            "q_scale": None if (scale := self.q_scale) is None else _interval(scale),
        }
        if (sprt := self.sprt) is not None:
            low, high = sprt.bounds
            test = {"llr": sprt.llr(self.tested), "low": low, "high": high, "accepted": self.verdict}
            figures["sprt"] = {**asdict(sprt), **test}
        return figures


def _interval(interval: Estimate | QScale) -> dict[str, float | None]:
    """Value and bounds; None if infinite or unknown."""
    return {name: finite(getattr(interval, name)) for name in ("value", "low", "high")}


def progress_note(standing: Standing) -> str:
    """Results so far, and the test.

    The score counts all games, Elo with its interval at 0.95 only complete pairs; each is shown with its number.
    """
    score, (counted, _, _) = standing.tally.score, moments(standing.results)
    words = [f"{score} in {quantity(score.games, 'game')}"]
    if counted >= FEWEST:
        words.append(f"Elo {elo_words(elo_interval(standing.results, 0.95))} in {counted:,.0f} {standing.unit}")
    elif counted:
        words.append(f"Elo: too few {standing.unit} yet")
    if standing.sprt is not None:
        words.append(f"LLR {standing.sprt.llr(standing.tested):.2f} ({_bounds(standing.sprt)})")
    faults = sum(sum(counts.values()) for counts in standing.faults)
    if faults:
        words.append(f"{faults} faults")
    return ", ".join(words)


def report_lines(standing: Standing) -> list[str]:
    """The table, from the first player's side."""
    first, second = standing.names
    tally, results = standing.tally, standing.results
    undecided = f", {tally.undecided:,} undecided" if tally.undecided else ""
    lines = [f"{first} against {second}: {quantity(standing.games, 'game')}{undecided}"]
    for colour, score in (("all", tally.score), ("White", tally.as_white), ("Black", tally.as_black)):
        lines.append(f"  {colour:<6} {score_words(score)}")
    if standing.paired:
        pairs = tally.pairs
        lines.append(f"{quantity(pairs.pairs, 'pair')} with 0, 1/2, 1, 3/2, 2 points: {pairs}")
    else:
        lines.append("no pairs: each opening is played once")
    if moments(results)[0]:
        interval, finding = standing.levels[0.95]
        lines.append(
            f"Elo {elo_words(interval, '95 %')}, LOS {los_words(results)} (of {_counted(standing)}): "
            f"{_verdict_words(first, finding)}"
        )
        if (remark := few_words(results)) is not None:
            lines.append(f"  {remark}")
    elif tally.score.games:
        lines.append("no Elo: each decided game has a pair whose other game has no result")
    if standing.sprt is not None:
        lines.append(_sprt_line(standing.sprt, standing))
    lines += _breadth_line(standing)
    endings = (f"{ending} {count:,}" for ending, count in standing.endings.most_common())
    lines.append("endings: " + (", ".join(endings) or "none"))
    lines.append("faults: " + _faults(standing))
    return lines


def _counted(standing: Standing) -> str:
    """The units of the intervals and their games, without those of incomplete pairs."""
    results = standing.results
    if isinstance(results, MatchScore):
        return standing.counted_units
    games = 2 * results.pairs if isinstance(results, Pentanomial) else sum(results.games)
    return f"{standing.counted_units}, {quantity(games, 'game')}"


def _verdict_words(first: str, verdict: str) -> str:
    return "no difference shown" if verdict == NOT_SHOWN else f"{first} is {verdict}"


def level_lines(standing: Standing) -> list[str]:
    """Normalized Elo, and the interval and verdict at each level; empty without games."""
    normalized, lines = standing.normalized, list[str]()
    if not moments(standing.results)[0]:
        return lines
    if not math.isnan(normalized.value):
        lines.append(f"normalized Elo {elo_words(normalized, '95 %')}")
    for level, (interval, finding) in standing.levels.items():
        lines.append(f"at {level:.2f}: {bounds_words(interval):>20}  {_verdict_words(standing.names[0], finding)}")
    return lines


def score_words(score: MatchScore) -> str:
    """Wins, losses, draws and the share of the points, as columns."""
    share = f"{100 * score.points / score.games:5.1f} %" if score.games else "    -"
    return f"{score!s:<22} {share}"


def _bounds(sprt: Sprt) -> str:
    return "{:.2f} to {:.2f}".format(*sprt.bounds)


def _sprt_line(sprt: Sprt, standing: Standing) -> str:
    accepted = {H0: "H0 accepted: not stronger than elo0", H1: "H1 accepted: at least elo1"}.get(standing.verdict)
    test = f"SPRT elo0={sprt.elo0:g} elo1={sprt.elo1:g} {sprt.model}"
    return f"{test}: LLR {sprt.llr(standing.tested):.2f} ({_bounds(sprt)}), {accepted or 'not decided'}"


def _breadth_line(standing: Standing) -> list[str]:
    """The effective root moves of the sides that our own search plays."""
    words = [
        f"{name} {breadth.mean:.2f} ({breadth.searches:,} searches)"
        for name, breadth in zip(standing.names, standing.breadth, strict=True)
        if breadth.mean is not None
    ]
    return ["effective root moves: " + ", ".join(words)] if words else []


def _faults(standing: Standing) -> str:
    words = []
    for fault in FAULTS:
        counts = [faults[fault] for faults in standing.faults]
        players = [f"{name} {count:,}" for name, count in zip(standing.names, counts, strict=True) if count]
        words.append(f"{_PLURAL[fault]} {sum(counts):,}" + (f" ({', '.join(players)})" if players else ""))
    return ", ".join(words)
