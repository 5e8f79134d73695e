"""How Elo and its interval came about, game by game of a match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from valuerepair.errors import ValueRepairError
from valuerepair.play.elo import Estimate, elo_interval, elo_words, few_words
from valuerepair.play.match_pgn import read_match
from valuerepair.play.standing import Standing
from valuerepair.report import style
from valuerepair.report.drawing import Drawing, for_figure, printable

_POINTS = 300
_LEVELS = ((0.99, 0.12), (0.95, 0.22))  # level, opacity of its band


class Course(NamedTuple):
    """Elo after so many games, with its interval at each level of the plot."""

    games: int
    intervals: tuple[Estimate, ...]


def drawing(path: str) -> Drawing:
    """Elo of the first player after each pair of a match's PGN, with bands at 0.95 and 0.99.

    Games of `vr match` are taken in the order of their numbers, not as they ended: the short ones end first, and what
    is said of these alone leans to them. The last point is what it says. Those of other programs: `read_match`. Artists
    carry a gid: ``elo``, ``band-0.95``, ``band-0.99``, ``zero``. Raises ValueRepairError for a file that is no match's,
    or without a decided game.
    """
    standing, course = course_of(path)
    first, second = (for_figure(name) for name in standing.names)
    last = elo_interval(standing.results, 0.95)
    score = standing.tally.score
    words = f"{standing.games:,} games, {score}: Elo {elo_words(last)} at 0.95, of {standing.of}"
    with style.house_style():
        figure, axes = style.new_figure(7.6, 4.8)
        axes.axhline(0, color=style.GREY, lw=0.8, ls="--", gid="zero")
        _draw_course(axes, course)
        axes.set(xlabel="games", ylabel=f"Elo of {first}")
        axes.legend(loc="best")
        style.title(axes, "Elo over the games of a match", f"{first} against {second}", words)
    first, second = (printable(name) for name in standing.names)
    remark = few_words(standing.results)
    return Drawing(figure, f"{first} against {second}: {words}" + (f"; {remark}" if remark else ""))


def course_of(path: str) -> tuple[Standing, list[Course]]:
    """The standing after all games of a match's PGN, and the course to it: a point a pair, and the end.

    After the first `_POINTS` games of a long match there are about as many points more, not one a pair.
    """
    names, games, _ = read_match(path)
    standing = Standing(names)
    course = []
    for i, game in enumerate(games):
        pairs = standing.tally.pairs.pairs
        standing.add(game)
        whole = standing.tally.pairs.pairs > pairs or not standing.tally.pairs.pairs
        due = i < _POINTS or pairs % (1 + len(games) // (2 * _POINTS)) == 0
        if standing.tally.score.games and ((whole and due) or i + 1 == len(games)):
            results = standing.results  # counted anew each time
            course.append(Course(i + 1, tuple(elo_interval(results, level) for level, _ in _LEVELS)))
    if not course:
        raise ValueRepairError(f"{path}: none of its {len(games):,} games is decided")
    return standing, course


def _draw_course(axes: Axes, course: Sequence[Course]) -> None:
    """The line and its bands. Infinite bounds (all won, all lost so far) end at the edge; such values are not drawn."""
    x = [point.games for point in course]
    edge = _edge(course)
    for k, (level, opacity) in enumerate(_LEVELS):
        low, high = (
            np.clip([getattr(point.intervals[k], end) for point in course], -edge, edge) for end in ("low", "high")
        )
        axes.fill_between(
            x, low, high, color=style.BLUE, alpha=opacity, lw=0, gid=f"band-{level}", label=f"interval at {level}"
        )
    values = np.array([point.intervals[0].value for point in course])
    values[np.isinf(values)] = np.nan
    axes.plot(x, np.clip(values, -edge, edge), color=style.INK, lw=1.4, gid="elo", label="Elo")
    axes.plot(x[-1], np.clip(values[-1], -edge, edge), "o", color=style.INK, ms=4)
    axes.set_ylim(-edge, edge)


def _edge(course: Sequence[Course]) -> float:
    """How far the scale reaches: the widest interval of the course's later nine tenths that is finite, and some air."""
    later = course[len(course) // 10 :]
    bounds = [abs(bound) for point in later for bound in point.intervals[-1] if math.isfinite(bound)]
    return float(np.clip(1.15 * max(bounds, default=1200.0), 20.0, 1200.0))
