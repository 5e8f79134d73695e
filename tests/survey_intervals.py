"""The interval of a rate by games as docs/methods.md writes it, by scipy and statsmodels, for tests."""

from __future__ import annotations

from scipy.stats import norm, t
from statsmodels.stats.proportion import proportion_confint


def wilson_by_games(rate: float, fewer: int, rows: float, games: float, ratio: float) -> tuple[float, float]:
    """`fewer`: the candidates, or the others; `ratio`: how many times the variance of `games` is that of `rows`."""
    effect = (fewer * ratio * games / (games - 1) + 1 + 0.1 * (rows / games - 1)) / (fewer + 1)
    n = rows / max(effect, 1) * (norm.ppf(0.975) / t.ppf(0.975, games - 1)) ** 2
    low, high = proportion_confint(rate * n, n, method="wilson")
    return float(low), float(high)
