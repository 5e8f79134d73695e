"""What the notebooks should say about a store, from its tables alone: SQL and arithmetic, nothing of the package."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats


@dataclass(frozen=True)
class Facts:
    """The positions that the oracle with most full searches has scored and that maia-1900 has a value of: arrays [n].

    `q` is net Q, `deep` deep Q at `alpha`; `off` their difference. `weight` is 1 for what the ladder would not have
    cut, else the inverse probability of the search, scaled so that those rows stand for all that were cut.
    """

    ids: list[int]
    q: Floats
    cp: Floats
    mate: Floats
    phase: NDArray[np.object_]
    side: NDArray[np.object_]
    weight: Floats
    alpha: float

    @property
    def deep(self) -> Floats:
        return self.deep_at(self.alpha)

    @property
    def off(self) -> Floats:
        return self.q - self.deep

    def deep_at(self, alpha: float) -> Floats:
        """2 / (1 + exp(-cp / alpha)) - 1, and +-1 for mates."""
        logistic = np.array([2 / (1 + math.exp(-cp / alpha)) - 1 if cp == cp else np.nan for cp in self.cp])
        return np.where(np.isnan(self.mate), logistic, np.where(self.mate > 0, 1.0, -1.0))

    def share(self, flags: NDArray[np.bool_]) -> float:
        """The weighted share of rows."""
        return float(self.weight[flags].sum() / self.weight.sum())


def read_facts(path: Path, net: str = "maia-1900") -> Facts:
    """The facts of one net; positions, weights and alpha are those of maia-1900 and its ladder."""
    sql = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    (oracle,) = sql.execute(
        "SELECT oracle_id FROM deep_values WHERE stage = 'full' GROUP BY oracle_id ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    query = """
        SELECT p.id, n.q, v.cp, v.mate, p.phase, p.side, c.cut_at, c.probability
        FROM deep_values v JOIN positions p ON p.id = v.position_id
        JOIN net_values n ON n.position_id = p.id AND n.net_id = (SELECT id FROM nets WHERE name = ?)
        LEFT JOIN screened c ON c.position_id = p.id AND c.oracle_id = v.oracle_id
        WHERE v.oracle_id = ? AND v.stage = 'full' ORDER BY p.id
    """
    ids, q, cp, mate, phase, side, cut_at, chance = zip(*sql.execute(query, (net, oracle)), strict=True)
    (cut,) = sql.execute("SELECT count(*) FROM screened WHERE cut_at IS NOT NULL").fetchone()
    inverse = np.array([1.0 if at is None else 1 / p for at, p in zip(cut_at, chance, strict=True)])
    stands = np.array([at is not None for at in cut_at])
    weight = np.where(stands, inverse * cut / inverse[stands].sum(), 1.0)
    (alpha,) = sql.execute("SELECT alpha FROM alpha_fits WHERE oracle_id = ?", (oracle,)).fetchone()
    sql.close()
    return Facts(
        list(ids),
        np.array(q, float),
        np.array(cp, float),
        np.array(mate, float),
        np.array(phase, object),
        np.array(side, object),
        weight,
        float(alpha),
    )


def results(path: Path) -> dict[int, float]:
    """The result of each position's game, for its side to move; games that were broken off have none."""
    points = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}
    sql = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    query = "SELECT p.id, p.side, g.result FROM games g JOIN positions p ON p.game_id = g.id WHERE g.result <> '*'"
    by_position = {number: points[result] * (1 if side == "w" else -1) for number, side, result in sql.execute(query)}
    sql.close()
    return by_position


def priors(path: Path) -> dict[int, tuple[float, int]]:
    """Prior and rank that maia-1900 gives the best move of the first deep search, by position."""
    sql = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    kept: dict[tuple[int, int], tuple[float, int]] = {}
    query = "SELECT position_id, move, p, rank FROM priors JOIN nets n ON n.id = net_id AND n.name = 'maia-1900'"
    for number, move, p, rank in sql.execute(query):
        kept[number, move] = (p, rank)
    best = sql.execute("SELECT position_id, best_move FROM deep_values WHERE stage = 'full' AND best_move NOT NULL")
    by_position = {number: kept.get((number, _number_of(move))) for number, move in best}
    sql.close()
    return {number: prior for number, prior in by_position.items() if prior is not None}


def _number_of(uci: str) -> int:
    """from + 64 * to + 4096 * promotion, squares counted a1, b1, ... h8."""
    squares = ["abcdefgh".index(uci[i]) + 8 * (int(uci[i + 1]) - 1) for i in (0, 2)]
    return squares[0] + 64 * squares[1] + 4096 * " nbrq".index(uci[4:] or " ")
