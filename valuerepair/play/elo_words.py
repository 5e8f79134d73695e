"""Elo and LOS in words: no figure is said where few games give none."""

from __future__ import annotations

import math

from valuerepair.play.elo import FEWEST, ByOpening, Interval, Pentanomial, Results, few, los, moments


def elo_words(elo: Interval) -> str:
    """``+12.3 (-4.0 to +28.9)``; of games that were all won or all lost, which give no estimate, the bound alone."""
    if math.isinf(elo.value):
        return f"{bounds_words(elo)} ({_all_same(elo.value)})"
    return "-" if math.isnan(elo.value) else f"{value_words(elo.value)} ({bounds_words(elo)})"


def value_words(elo: float) -> str:
    """``+12.3``, or that there is no estimate, as all games were won or all lost."""
    return f"unknown, {_all_same(elo)}" if math.isinf(elo) else f"{round(elo, 1) + 0.0:+.1f}"  # no -0.0


def bounds_words(elo: Interval) -> str:
    """``-4.0 to +28.9``, or the one bound that there is."""
    low, high = value_words(elo.low), value_words(elo.high)
    if math.isinf(elo.high):
        return f"above {low}"
    return f"below {high}" if math.isinf(elo.low) else f"{low} to {high}"


def _all_same(elo: float) -> str:
    return "all won" if elo > 0 else "all lost"


def los_words(results: Results) -> str:
    """Per cent; of few games never all or nothing."""
    superior = 100 * los(results)
    if few(results) and not 0.05 < superior < 99.95:
        return "above 99.9 %" if superior > 50 else "below 0.1 %"
    return f"{superior:.1f} %"


def few_words(results: Results) -> str | None:
    """What is to be said where there are few of what `results` counts; None where there are enough."""
    n, of = moments(results)[0], counted_words(results)
    if n < FEWEST:
        return f"too few {of} to show anything: it takes {FEWEST} at least"
    return f"few {of}: exact intervals, wider than those of many" if few(results) else None


def counted_words(results: Results) -> str:
    """The word for what intervals are made of: openings, pairs, games."""
    if isinstance(results, ByOpening):
        return "openings"
    return "pairs" if isinstance(results, Pentanomial) else "games"
