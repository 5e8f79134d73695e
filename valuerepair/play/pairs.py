"""The tally of a match: results by colour, and pairs of games that share an opening."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from valuerepair.play.elo import Pentanomial, Score
from valuerepair.play.record import GameRecord

_FIRST_WINS = {"1-0": (2, 0), "0-1": (0, 2), "1/2-1/2": (1, 1)}


class Tally:
    """Counts games of the player named `first` against another, as they come, in any order.

    Games 2k and 2k + 1 are a pair: one opening, each player White once. Undecided games are counted apart; neither
    they nor pairs with one of them have a place in the scores.
    """

    def __init__(self, first: str) -> None:
        self.first = first
        self._colours: Counter[tuple[bool, int]] = Counter()
        self._waiting: dict[int, int] = {}
        self._pairs = [0] * 5
        self.undecided = 0

    def add(self, record: GameRecord) -> None:
        """Counts a game of `first`, which plays White where the record says so."""
        self.add_result(record.number, record.white == self.first, record.result)

    def add_result(self, number: int, first_is_white: bool, result: str) -> None:
        """Counts the game with this number: `result` is 1-0, 0-1, 1/2-1/2 or *."""
        if result not in _FIRST_WINS:
            self.undecided += 1
            return
        half_points = _FIRST_WINS[result][0 if first_is_white else 1]
        self._colours[first_is_white, half_points] += 1
        other = self._waiting.pop(number // 2, None)
        if other is None:
            self._waiting[number // 2] = half_points
        else:
            self._pairs[half_points + other] += 1

    @property
    def as_white(self) -> Score:
        """The first player's games with White."""
        return self._score(True)

    @property
    def as_black(self) -> Score:
        """The first player's games with Black."""
        return self._score(False)

    @property
    def score(self) -> Score:
        """All decided games."""
        return self.as_white + self.as_black

    @property
    def pairs(self) -> Pentanomial:
        """The pairs of which both games are decided."""
        a, b, c, d, e = self._pairs
        return Pentanomial((a, b, c, d, e))

    def _score(self, white: bool) -> Score:
        return Score(self._colours[white, 2], self._colours[white, 1], self._colours[white, 0])


def tally(records: Iterable[GameRecord], first: str) -> Tally:
    """The tally of these games."""
    counted = Tally(first)
    for record in records:
        counted.add(record)
    return counted
