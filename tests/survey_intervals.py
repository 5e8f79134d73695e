"""Korn and Graubard's interval as docs/methods.md writes it, by scipy's distributions, for tests."""

from __future__ import annotations

from scipy.stats import beta, norm, t


def korn_graubard(rate: float, fewer: int, rows: float, games: float, ratio: float) -> tuple[float, float]:
    """`fewer`: the candidates, or the others; `ratio`: how many times the variance of `games` is that of `rows`."""
    effect = (fewer * ratio * games / (games - 1) + 1 + 0.1 * (rows / games - 1)) / (fewer + 1)
    n = rows / max(effect, 1) * (norm.ppf(0.975) / t.ppf(0.975, games - 1)) ** 2
    low = beta.ppf(0.025, rate * n, n - rate * n + 1) if rate > 0 else 0.0
    return float(low), float(beta.ppf(0.975, rate * n + 1, n - rate * n)) if rate < 1 else 1.0
