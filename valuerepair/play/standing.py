"""Where a match stands: results, how games ended, who failed, and what the test says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isfinite
from typing import Any

from valuerepair.play.elo import ByOpening, Interval, Pentanomial, Score, los, normalized_elo, verdicts
from valuerepair.play.elo_words import counted_words
from valuerepair.play.pairs import Tally
from valuerepair.play.pgn import WrittenGame
from valuerepair.play.record import CRASHED, ILLEGAL_MOVE, OUT_OF_TIME, GameRecord
from valuerepair.play.sprt import GO_ON, Sprt

POINTS = {"1-0": 1.0, "1/2-1/2": 0.5, "0-1": 0.0}  # of White
FAULTS = (CRASHED, OUT_OF_TIME, ILLEGAL_MOVE)


@dataclass(frozen=True)
class Played:
    """Of a game what a match counts; `number` from 0, the first player has White in even ones."""

    number: int
    opening: int
    result: str
    ending: str
    plies: int

    @staticmethod
    def of_record(record: GameRecord) -> Played:
        """A game that has just been played."""
        return Played(record.number, record.opening, record.result, record.ending, len(record.moves))

    @staticmethod
    def of_written(game: WrittenGame) -> Played:
        """A game that an earlier run wrote; raises KeyError and ValueError for tags that are no match's."""
        tags = game.tags
        ending = tags["Ending"].partition(": ")[0]
        return Played(game.number, int(tags["BookLine"]) - 1, tags["Result"], ending, int(tags["PlyCount"]))


class Standing:
    """Counts games as they end, in any order. `names` are the two players'; all is from the first one's side."""

    def __init__(self, names: tuple[str, str], sprt: Sprt | None = None) -> None:
        self.names, self.sprt = names, sprt
        self.tally = Tally(names[0])
        self.endings: Counter[str] = Counter()
        self.faults: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self.games = self.plies = 0
        self._decided: list[tuple[int, bool, float]] = []  # opening, whether the first is White, its points
        self.verdict = GO_ON  # what the SPRT has found

    def add(self, game: Played) -> None:
        """Counts a game."""
        first_is_white = game.number % 2 == 0
        if game.result in POINTS:
            white = POINTS[game.result]
            self._decided.append((game.opening, first_is_white, white if first_is_white else 1 - white))
        self.tally.add_result(game.number, first_is_white, game.result)
        self.games += 1
        self.plies += game.plies
        self.endings[game.ending] += 1
        if game.ending in FAULTS:
            white_lost = game.result == "0-1"
            self.faults[0 if white_lost == first_is_white else 1][game.ending] += 1
        if self.sprt is not None:
            self.verdict = self.sprt.verdict(self.tested)

    @property
    def results(self) -> Score | Pentanomial | ByOpening:
        """What intervals are made of: openings, where some came again; pairs, or games while no pair is complete."""
        if (openings := ByOpening.of(self._decided)) is not None:
            return openings
        return self.tally.pairs if self.tally.pairs.pairs else self.tally.score

    @property
    def of(self) -> str:
        """The word for what intervals are made of: openings, pairs, games."""
        return counted_words(self.results)

    @property
    def tested(self) -> Score | Pentanomial:
        """What the SPRT is made of: pairs, but games under the bayesian model."""
        of_games = self.sprt is not None and self.sprt.model == "bayesian"
        return self.tally.score if of_games else self.tally.pairs

    @property
    def levels(self) -> dict[float, tuple[Interval, str]]:
        """Elo with its interval and a verdict, at each level."""
        return verdicts(self.results)

    @property
    def normalized(self) -> Interval | None:
        """Normalized Elo with its interval at 0.95; None where openings come again, as it is one of games."""
        results = self.results
        return None if isinstance(results, ByOpening) else normalized_elo(results)

    def as_json(self) -> dict[str, Any]:
        """All figures, from the first player's side; infinite Elo is None."""
        score, tally = self.tally.score, self.tally
        rows: dict[str, Any] = {
            "players": list(self.names),
            "games": self.games,
            "undecided": tally.undecided,
            "score": _score(score),
            "as_white": _score(tally.as_white),
            "as_black": _score(tally.as_black),
            "pentanomial": list(tally.pairs.counts),
            "intervals_of": self.of,
            "elo": [
                {"level": level, **_interval(interval), "verdict": verdict}
                for level, (interval, verdict) in self.levels.items()
            ],
            "normalized_elo": None if (known := self.normalized) is None else _interval(known),
            "los": los(self.results),
            "endings": dict(self.endings),
            "faults": {name: dict(faults) for name, faults in zip(self.names, self.faults, strict=True)},
            "mean_plies": self.plies / self.games if self.games else None,
        }
        if (sprt := self.sprt) is not None:
            low, high = sprt.bounds
            test = {"elo0": sprt.elo0, "elo1": sprt.elo1, "alpha": sprt.alpha, "beta": sprt.beta, "model": sprt.model}
            rows["sprt"] = {**test, "llr": sprt.llr(self.tested), "low": low, "high": high, "accepted": self.verdict}
        return rows


def _score(score: Score) -> dict[str, int]:
    return {"wins": score.wins, "draws": score.draws, "losses": score.losses}


def _interval(interval: Interval) -> dict[str, float | None]:
    """Its value and bounds; None where they are infinite or unknown."""
    return {name: value if isfinite(value) else None for name, value in interval._asdict().items()}
