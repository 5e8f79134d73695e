"""Figures of weighted training positions, gathered in one pass: nothing is kept of a position but its counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.store.phases import PHASES

Floats = NDArray[np.float64]

# Weights fall into bins of equal ratio, 0.35 % wide; the first is for 0 and what is below.
SMALLEST, LARGEST = 1e-6, 1e3
GAP_BINS = 200  # of |net Q - deep Q| in [0, 2]
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
BANDS = (0.0, 0.1, 0.2, 0.4, 0.55, 0.8, 2.0)
_STEPS = int(np.log(LARGEST / SMALLEST) / np.log(1.0035)) + 1


class WeightTally:
    """Counts positions and weights: by weight, by disagreement, by phase, by game."""

    def __init__(self) -> None:
        self.games = self.positions = self.unknown = 0
        self.sum = self.squares = self.game_squares = 0.0
        self.largest = 0.0
        self._counts, self._sums = np.zeros(_STEPS + 2, np.int64), np.zeros(_STEPS + 2)
        # [bins + 1]: the last is for positions whose disagreement is not known.
        self.gap_counts, self.gap_sums = np.zeros(GAP_BINS + 1, np.int64), np.zeros(GAP_BINS + 1)
        self.phase_counts, self.phase_sums = np.zeros(len(PHASES), np.int64), np.zeros(len(PHASES))

    def add(self, weights: Floats, gap: Floats, phases: NDArray[np.int64]) -> None:
        """One game: [n] weights, disagreements (NaN where not known) and indices of phases."""
        self.games += 1
        self.positions += len(weights)
        total = float(weights.sum())
        self.sum += total
        self.squares += float((weights**2).sum())
        self.game_squares += total**2
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        _count(self._counts, self._sums, _bins(weights), weights)
        unknown = np.isnan(gap)
        self.unknown += int(unknown.sum())
        size = np.minimum(np.abs(np.where(unknown, 0.0, gap)) * (GAP_BINS / 2), GAP_BINS - 1).astype(np.int64)
        _count(self.gap_counts, self.gap_sums, np.where(unknown, GAP_BINS, size), weights)
        _count(self.phase_counts, self.phase_sums, phases, weights)

    @property
    def mean(self) -> float:
        """Of all weights."""
        return self.sum / self.positions

    def histogram(self, bins: int = 48) -> tuple[Floats, NDArray[np.int64], int]:
        """[bins + 1] edges of equal ratio from 1e-6 to the largest weight, [bins] positions, and how many weigh 0."""
        edges = np.geomspace(SMALLEST, max(self.largest, 10 * SMALLEST) * 1.0001, bins + 1)
        kept = self._counts[1:] > 0
        counts = np.histogram(_centres()[kept], edges, weights=self._counts[1:][kept])[0]
        return edges, counts.astype(np.int64), int(self._counts[0])

    def quantile(self, share: float) -> float:
        """The weight that this share of positions does not exceed, to half a per cent."""
        at = int(np.searchsorted(np.cumsum(self._counts), share * self.positions))
        return float(self._sums[at] / self._counts[at]) if self._counts[at] else 0.0

    def kept(self, factor: float) -> float:
        """The share of positions kept when each is with the chance ``min(1, factor * weight)``."""
        filled = self._counts > 0
        means = self._sums[filled] / self._counts[filled]
        return float((self._counts[filled] * np.minimum(factor * means, 1.0)).sum() / self.positions)

    def factor(self, share: float) -> float | None:
        """What to multiply weights by so that `share` of the positions is kept; None when too many weigh 0."""
        if self._counts[1:].sum() < share * self.positions:
            return None
        low, high = 0.0, 1 / SMALLEST
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.kept(middle) < share else (low, middle)
        return high

    def figures(self) -> dict[str, Any]:
        """All of it, JSON-able. Effective numbers are Kish's (`candidates.weights.effective_sample_size`)."""
        return {
            "games": self.games,
            "positions": self.positions,
            "net_unknown": self.unknown,
            "mean": self.mean,
            "largest": self.largest,
            "quantiles": {f"{share:g}": self.quantile(share) for share in QUANTILES},
            "effective_positions": self.sum**2 / self.squares if self.squares else 0.0,
            "effective_games": self.sum**2 / self.game_squares if self.game_squares else 0.0,
            "phases": [
                {"phase": name, "positions": int(n), "mean": _ratio(w, n), "share_of_weight": _ratio(w, self.sum)}
                for name, n, w in zip(PHASES, self.phase_counts.tolist(), self.phase_sums.tolist(), strict=True)
            ],
            "disagreement": self._bands(),
        }

    def _bands(self) -> list[dict[str, Any]]:
        """By |net Q - deep Q|, and at the end those where it is not known."""
        cuts = [round(edge * GAP_BINS / 2) for edge in BANDS]
        ranges = [(*edges, slice(*cut)) for edges, cut in zip(_pairs(BANDS), _pairs(cuts), strict=True)]
        rows = []
        for low, high, part in (*ranges, (None, None, slice(GAP_BINS, None))):
            n, w = int(self.gap_counts[part].sum()), float(self.gap_sums[part].sum())
            if low is not None or n:
                rows.append(
                    {
                        "from": low,
                        "to": high,
                        "positions": n,
                        "mean": _ratio(w, n),
                        "share_of_weight": _ratio(w, self.sum),
                    }
                )
        return rows


def lines(figures: dict[str, Any], kept: float) -> list[str]:
    """`WeightTally.figures` for a terminal; `kept` is the share that a draw by these weights keeps."""
    n = figures["positions"]
    shown = [
        f"{n:,} positions of {figures['games']:,} games"
        + (f", {figures['net_unknown']:,} without the net's value" if figures["net_unknown"] else ""),
        f"mean weight {figures['mean']:.4f}, largest {figures['largest']:.4f}; drawn by weight, {kept:.1%} are kept",
        f"by weight they count for {figures['effective_positions']:,.1f} positions, "
        f"their games for {figures['effective_games']:,.1f}",
        "quantiles: " + ", ".join(f"{float(q):.0%} {value:.4f}" for q, value in figures["quantiles"].items()),
        "",
        f"{'':20}{'positions':>12}{'share':>9}{'mean':>9}{'of weight':>11}",
    ]
    rows = [(row["phase"], row) for row in figures["phases"]]
    rows += [
        ("not known" if row["from"] is None else f"|net - deep| {row['from']:g}-{row['to']:g}", row)
        for row in figures["disagreement"]
    ]
    for name, row in rows:
        share = row["positions"] / n
        shown.append(f"{name:20}{row['positions']:>12,}{share:>9.1%}{row['mean']:>9.4f}{row['share_of_weight']:>11.1%}")
    return shown


def _bins(weights: Floats) -> NDArray[np.int64]:
    bounded = np.clip(weights, SMALLEST, LARGEST)
    return np.where(weights <= SMALLEST, 0, 1 + (np.log(bounded / SMALLEST) / np.log(1.0035)).astype(np.int64))


def _centres() -> Floats:
    return np.asarray(SMALLEST * 1.0035 ** (np.arange(_STEPS + 1) + 0.5), np.float64)


def _count(counts: NDArray[np.int64], sums: Floats, bins: NDArray[np.int64], weights: Floats) -> None:
    counts += np.bincount(bins, minlength=len(counts))
    sums += np.bincount(bins, weights, len(sums))


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _pairs(values: Any) -> list[tuple[Any, Any]]:
    return list(pairwise(values))
