"""Figures of the games of a run: results, length, repetition, wrong resignations."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from valuerepair.play.game import RESIGNED, Z
from valuerepair.play.openings import opening_of
from valuerepair.play.pgn import WrittenGame
from valuerepair.question import is_candidate
from valuerepair.rates import Rate, weighted, wilson
from valuerepair.store.plays import Play
from valuerepair.text import quantity

# Games are compared up to this many plies after the book.
DEPTHS = (10, 20, 40, 80)
_VALUES = re.compile(r"\bq=(\S+)[^}]*?\bnet=([^\s}]+)")


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game, read from its PGN: `opening` is the number of its line in the book, `sans` are all moves in SAN.

    `would_resign` is the ply and the colour of the first resignation that was due and not taken. `gaps` are the net's
    own value less the search's, for the side to move, in each position that our own search searched.
    """

    number: int
    opening: int
    start_fen: str
    white: str
    black: str
    result: str
    ending: str
    book_plies: int
    sans: tuple[str, ...]
    would_resign: tuple[int, str] | None
    gaps: tuple[float, ...] = ()

    @staticmethod
    def of_written(game: WrittenGame) -> PlayedGame:
        """Parses a written game."""
        tags = game.tags
        moves = game.text.split("\n\n", 1)[1]
        due = tags.get("WouldResign", "").split()
        return PlayedGame(
            game.number,
            int(tags["BookLine"]) - 1,
            tags.get("FEN", ""),
            tags["White"],
            tags["Black"],
            tags["Result"],
            tags["Ending"].split(":", 1)[0],
            int(tags["BookPlies"]),
            game.sans,
            (int(due[0]), due[1]) if len(due) == 2 else None,
            tuple(float(net) - float(q) for q, net in _VALUES.findall(moves)),
        )

    @property
    def beginning(self) -> tuple[str, ...]:
        """What the game began with (`openings.opening_of`)."""
        return opening_of(self.start_fen, self.sans[: self.book_plies])

    @property
    def plies(self) -> int:
        """Moves played after the book."""
        return len(self.sans) - self.book_plies

    @property
    def z(self) -> float | None:
        """For White; None for an undecided game."""
        return Z.get(self.result)

    def play(self, key: int, fen: str) -> Play:
        """The game as a row of the store; `key` and `fen` are those of the position where the book ends."""
        white = fen.split(" ", 2)[1] == "w"
        z = self.z if self.z is None or white else 0.0 - self.z
        ending = self.ending
        return Play(self.number, self.opening, key, fen, self.white, self.black, self.result, z, self.plies, ending)


def figures(games: Sequence[PlayedGame]) -> dict[str, Any]:
    """Figures of the games of a run, JSON-able; rates are fractions with Wilson's 95 % interval.

    `decisive_ratio` is (wins + losses) / draws, None without draws; its bounds come from `share_by_game` of draws, and
    are None for games of one opening.
    `repeated` are shares of games that equal an earlier one: up to a number of plies after the book (a game that ended
    before counts with all its moves), and `whole`. `resign` counts the games in which a resignation was due and not
    taken, and those of them that were not lost; None without due resignations.
    """
    decided = [game for game in games if game.z is not None]
    counts = Counter(game.result for game in games)
    wins, draws, losses = counts["1-0"], counts["1/2-1/2"], counts["0-1"]
    share = share_by_game([game.z == 0 for game in decided], [1] * len(decided), decided)
    lengths = [game.plies for game in games]
    return {
        "games": len(games),
        "wins": wins,
        "draws": draws,
        "losses": losses,
        "undecided": len(games) - len(decided),
        "decisive_ratio": (wins + losses) / draws if draws else None,
        "decisive_ratio_low": _odds(share.high),
        "decisive_ratio_high": _odds(share.low) if draws else None,
        "mean_plies": sum(lengths) / len(lengths) if lengths else None,
        "longest": max(lengths, default=None),
        "endings": dict(sorted(Counter(game.ending for game in games).items())),
        "repeated": {**{str(depth): repeated(games, depth) for depth in DEPTHS}, "whole": repeated(games)},
        "resign": _resignations(games),
    }


def disagreements(games: Sequence[PlayedGame], threshold: float) -> Rate:
    """The rate of searched positions in which the net's own value and the search's are at least `threshold` apart."""
    hits = [sum(is_candidate(gap, threshold) for gap in game.gaps) for game in games]
    return share_by_game(hits, [len(game.gaps) for game in games], games)


def share_by_game(hits: Sequence[float], counts: Sequence[int], games: Sequence[PlayedGame]) -> Rate:
    """sum(hits) / sum(counts), both by game, with its 95 % interval; NaN if the sum of the counts is 0.

    The interval is that of `weighted` for games clustered by opening; copies of a game are one game with their weight.
    It has no bounds (NaN) for games of one opening, which do not show how openings differ.
    """
    total = sum(counts)
    if not total:
        return Rate(0, 0, math.nan, math.nan, math.nan)
    copies, first_line = defaultdict[tuple[int, tuple[str, ...]], list[int]](list), dict[tuple[str, ...], int]()
    for game in games:
        first_line[game.beginning] = min(game.opening, first_line.get(game.beginning, game.opening))
    for place, game in enumerate(games):
        copies[first_line[game.beginning], game.sans].append(place)
    flags, weights, openings = list[bool](), list[float](), list[int]()
    for (opening, _), places in copies.items():
        hit, count = (sum(numbers[i] for i in places) for numbers in (hits, counts))
        for flag, mass in ((True, hit), (False, count - hit)):
            rows = math.ceil(mass / len(places))
            flags += [flag] * rows
            weights += [mass / rows / total] * rows if rows else []
            openings += [opening] * rows
    rate = weighted(np.array(flags), np.array(weights), np.array(openings))
    low, high = (rate.low, rate.high) if len(set(openings)) > 1 else (math.nan, math.nan)
    return Rate(round(sum(hits)), total, sum(hits) / total, low, high)


def _odds(share: float) -> float | None:
    """The number of wins and losses per draw, at this share of draws; None if infinite or unknown."""
    return (1 - share) / share if share > 0 else None


def repeated(games: Sequence[PlayedGame], depth: int | None = None) -> float | None:
    """The share of games that equal an earlier one, up to `depth` plies after the book or as a whole."""
    if not games:
        return None
    ends = [None if depth is None else game.book_plies + depth for game in games]
    different = {opening_of(game.start_fen, game.sans[:end]) for game, end in zip(games, ends, strict=True)}
    return 1 - len(different) / len(games)


def _resignations(games: Sequence[PlayedGame]) -> dict[str, Any] | None:
    due = [game for game in games if game.would_resign is not None and game.z is not None]
    if not due:
        return None
    signs = [1 if game.would_resign and game.would_resign[1] == "white" else -1 for game in due]
    outcomes = [sign * (game.z or 0.0) for sign, game in zip(signs, due, strict=True)]
    wrong = wilson(sum(z >= 0 for z in outcomes), len(due))
    return {
        "due": len(due),
        "taken": sum(game.ending == RESIGNED for game in games),
        "won": sum(z > 0 for z in outcomes),
        "drawn": sum(z == 0 for z in outcomes),
        **wrong.figures(),
    }


def lines(figures: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal."""
    games = figures["games"]
    if not games:
        return ["no game is finished"]
    numbers = (figures[f"decisive_ratio{end}"] for end in ("", "_low", "_high"))
    ratio, low, high = ("infinite" if number is None else f"{number:.3g}" for number in numbers)
    interval = f"95 %: {low} to {high}"
    if figures["undecided"] == games:
        ratio, interval = "unknown", "95 %: 0 to infinite"
    elif figures["decisive_ratio_low"] is None:
        interval = "no interval: all of one opening"
    undecided = f", {figures['undecided']:,} undecided" if figures["undecided"] else ""
    endings = ", ".join(f"{ending} {count:,}" for ending, count in figures["endings"].items())
    repeats = ", ".join(
        f"{100 * share:.1f} % {'whole' if depth == 'whole' else f'to ply {depth}'}"
        for depth, share in figures["repeated"].items()
    )
    text = [
        f"{quantity(games, 'game')}: White won {figures['wins']:,}, drew {figures['draws']:,}, lost "
        f"{figures['losses']:,}{undecided}; (w+l)/d {ratio} ({interval})",
        f"  {figures['mean_plies']:.1f} plies after the book on average, {figures['longest']:,} at most; {endings}",
        f"  the same as an earlier game: {repeats}",
    ]
    resign = figures["resign"]
    if resign is not None:
        wrong = Rate.of_figures({**resign, "wrong": resign["won"] + resign["drawn"]}, "wrong", "due")
        text.append(
            f"  resignations due but not taken: {resign['due']:,}; wrong: {wrong} "
            f"({resign['won']:,} won, {resign['drawn']:,} drawn)"
        )
    return text
