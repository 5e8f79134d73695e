"""A comparison of nets by a program that knows nothing of the package: sqlite3, numpy, and Student's t of scipy.

Everything is written again from docs/methods.md: Q, the alpha of slope 1, least squares, counts, the sandwich by games.
"""

from __future__ import annotations

import sqlite3
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

Column = NDArray[Any]


def compare(path: Path, nets: list[str], thresholds: list[float]) -> dict[str, Any]:
    """What `vr compare --json` says of a store with one judge: {alpha, comparisons: [{origin: figures}]}."""
    with sqlite3.connect(path) as connection:
        positions = {row[0]: row[1:] for row in connection.execute("SELECT id, game_id, origin FROM positions")}
        q_of = {
            net: dict(connection.execute(
                "SELECT position_id, v.q FROM net_values v JOIN nets ON nets.id = net_id WHERE name = ?", (net,)
            )) for net in nets
        }  # fmt: skip
        short = "SELECT short_id FROM judges WHERE short_id IS NOT NULL"
        (judge,) = connection.execute(
            f"SELECT judge_id FROM deep_values WHERE judge_id NOT IN ({short}) GROUP BY 1 ORDER BY count(*) DESC"
        ).fetchone()
        deep = connection.execute(
            "SELECT position_id, cp, mate, weight FROM deep_values WHERE judge_id = ? AND failed IS NULL", (judge,)
        ).fetchall()
    deep = [row for row in deep if positions[row[0]][1] != "neighbour" and all(row[0] in q_of[net] for net in nets)]
    ids, cp, mate, weight = (np.array(column, float) for column in zip(*deep, strict=True))
    games, origin = (np.array(column) for column in zip(*(positions[i] for i in ids), strict=True))
    q = np.array([[q_of[net][i] for i in ids] for net in nets])
    in_game = origin == "game"
    alpha = slope_alpha(q[0][in_game], cp[in_game], mate[in_game], weight[in_game])
    deep_q = q_of_scores(cp, mate, alpha)
    comparisons = [
        {
            name: figures(q[[0, i]][:, rows], deep_q[rows], weight[rows], games[rows], thresholds)
            for name in sorted(set(origin))
            for rows in [origin == name]
        }
        for i in range(1, len(nets))
    ]
    return {"alpha": alpha, "comparisons": comparisons}


def q_of_scores(cp: Column, mate: Column, alpha: float) -> Column:
    return np.where(np.isnan(mate), 2 / (1 + np.exp(-cp / alpha)) - 1, np.where(mate > 0, 1, -1))


def slope_alpha(q: Column, cp: Column, mate: Column, weight: Column) -> float:
    """By bisection: the slope falls as alpha grows. 170 for fewer than 300 positions."""
    if np.sum(~np.isnan(cp)) < 300:
        return 170.0
    low, high = 10.0, 10_000.0
    for _ in range(60):
        middle = sqrt(low * high)
        slope = np.sum(weight * q * q_of_scores(cp, mate, middle)) / np.sum(weight * q * q)
        low, high = (middle, high) if slope > 1 else (low, middle)
    return low


def figures(q: Column, deep_q: Column, weight: Column, games: Column, thresholds: list[float]) -> dict[str, Any]:
    root = np.sqrt(weight)
    scale = [np.linalg.lstsq((root * net)[:, None], root * deep_q, rcond=None)[0][0] for net in q]
    first, second = ((s * net - deep_q) ** 2 for s, net in zip(scale, q, strict=True))
    found: dict[str, Any] = {
        "positions": len(deep_q),
        "games": len(set(games)),
        "scale": scale,
        "squared_error": [np.average(error, weights=weight) for error in (first, second)],
        "change": sandwich(second - first, weight, games),
    }
    for threshold in thresholds:
        wrong = np.abs(q - deep_q) >= threshold
        found[f"{threshold:g}"] = {
            "count": wrong.sum(1).tolist(),
            "rate": [np.average(net, weights=weight) for net in wrong],
            "repaired": np.sum(wrong[0] & ~wrong[1]),
            "newly_wrong": np.sum(wrong[1] & ~wrong[0]),
            "change": sandwich(wrong[1].astype(float) - wrong[0], weight, games),
        }
    return found


def sandwich(x: Column, weight: Column, games: Column) -> list[float]:
    """The weighted mean and its 95 % interval by games."""
    middle = np.sum(weight * x) / np.sum(weight)
    sums = [np.sum((weight * (x - middle))[games == game]) for game in set(games)]
    count = len(sums)
    half = t.ppf(0.975, count - 1) * sqrt(np.sum(np.square(sums)) * count / (count - 1)) / np.sum(weight)
    return [middle, middle - half, middle + half]
