"""Elo and its interval over the games of a match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from valuerepair.errors import ValueRepairError
from valuerepair.play.elo import Estimate, elo_interval, elo_words, few_words
from valuerepair.play.pgn import read_written
from valuerepair.play.standing import Played, Standing
from valuerepair.report import style
from valuerepair.text import printable, quantity

_POINTS = 300
_LEVELS = ((0.99, 0.12), (0.95, 0.22))  # level, opacity of its band
_OPEN = 400.0  # Elo: how far the scale extends beyond a finite bound if the other one is infinite


class CoursePoint(NamedTuple):
    """Elo after a number of games, with its interval at each level of the plot."""

    games: int
    intervals: tuple[Estimate, ...]


def drawing(path: str) -> style.Drawing:
    """Elo of the first player after each pair of a match's PGN, with bands at 0.95 and 0.99.

    Games are in the order of their numbers, not of their ends: short games end first, and would bias the result. The
    last point is the match's result. Artists have a gid: ``elo``, ``band-0.95``, ``band-0.99``, ``zero``. Raises
    ValueRepairError for a file that `vr match` did not write, and for one without a decided game.
    """
    standing, course = course_of(path)
    first, second = (style.for_figure(name) for name in standing.names)
    last = elo_interval(standing.results, 0.95)
    score = standing.tally.score
    words = f"{quantity(standing.games, 'game')}, {score}: Elo {elo_words(last)} at 0.95, of {standing.unit}"
    with style.house_style():
        figure, axes = style.new_figure(7.6, 4.8)
        axes.axhline(0, color=style.GREY, lw=0.8, ls="--", gid="zero")
        _draw_course(axes, course)
        axes.set(xlabel="games", ylabel=f"Elo of {first}")
        axes.legend(loc="best")
        style.title(axes, "Elo over the games of a match", f"{first} against {second}", words)
    first, second = (printable(name) for name in standing.names)
    remark = few_words(standing.results)
    return figure.described(f"{first} against {second}: {words}" + (f"; {remark}" if remark else ""))


def course_of(path: str) -> tuple[Standing, list[CoursePoint]]:
    """The standing after all games of a match's PGN, and its course: a point for each pair, and the end.

    A long match has about `_POINTS` points after its first `_POINTS` games, not one for each pair.
    """
    if not Path(path).is_file():
        raise ValueRepairError(f"{path}: no such file")
    written, _ = read_written(Path(path))
    written.sort(key=lambda game: game.number)
    if not written or any("BookOrder" not in game.tags for game in written):
        raise ValueRepairError(f"{path}: not the games of vr match")
    white, black = (written[0].tags[colour] for colour in ("White", "Black"))
    standing = Standing((black, white) if written[0].number % 2 else (white, black))
    games, course = [Played.of_written(game) for game in written], list[CoursePoint]()
    for i, game in enumerate(games):
        pairs = standing.tally.pairs.pairs
        standing.add(game)
        is_complete = standing.tally.pairs.pairs > pairs or not standing.tally.pairs.pairs
        is_due = i < _POINTS or pairs % (1 + len(games) // (2 * _POINTS)) == 0
        if standing.tally.score.games and ((is_complete and is_due) or i + 1 == len(games)):
            results = standing.results  # read once: the property counts all games
            course.append(CoursePoint(i + 1, tuple(elo_interval(results, level) for level, _ in _LEVELS)))
    if not course:
        raise ValueRepairError(f"{path}: {quantity(len(games), 'game')}, none decided")
    return standing, course


def _draw_course(axes: Axes, course: Sequence[CoursePoint]) -> None:
    """Draws line and bands. Infinite bounds (all won, all lost) end at the edge; infinite values have no point."""
    x = [point.games for point in course]
    bottom, top = _edges(course)
    for i, (level, opacity) in enumerate(_LEVELS):
        low, high = (
            np.nan_to_num([getattr(point.intervals[i], end) for point in course], posinf=top, neginf=bottom)
            for end in ("low", "high")
        )
        axes.fill_between(
            x, low, high, color=style.BLUE, alpha=opacity, lw=0, gid=f"band-{level}", label=f"interval at {level}"
        )
    values = np.array([point.intervals[0].value for point in course])
    values[np.isinf(values)] = np.nan
    axes.plot(x, values, color=style.INK, lw=1.4, gid="elo", label="Elo")
    axes.plot(x[-1], values[-1], "o", color=style.INK, ms=4)
    axes.set_ylim(bottom, top)


def _edges(course: Sequence[CoursePoint]) -> tuple[float, float]:
    """The ends of the scale: 0 and the widest intervals of the later half of the games, with a margin.

    The first games' intervals are so wide that they would flatten the rest; the picture cuts them off. If a bound is
    infinite, the scale ends `_OPEN` beyond the other one.
    """
    later = [point.intervals[0] for point in course if 2 * point.games >= course[-1].games]
    lows = [bound.low if math.isfinite(bound.low) else bound.high - _OPEN for bound in later]
    highs = [bound.high if math.isfinite(bound.high) else bound.low + _OPEN for bound in later]
    bounds = [bound for bound in (*lows, *highs) if math.isfinite(bound)] or [-_OPEN, _OPEN]
    bottom, top = min(0.0, *bounds), max(0.0, *bounds)
    margin = max(0.08 * (top - bottom), 10.0)
    return bottom - margin, top + margin
