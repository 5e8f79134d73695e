"""Which positions a page shows one by one, and how many each of them stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_POINTS = 100_000
# The largest disagreements are always shown, however many candidates there are.
WORST = 1_000
# Where candidates alone would fill the page, this share of it is left to the rest: rates need both.
REST_SHARE = 0.2

STRATA = ("worst", "candidates", "rest")


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows [n] of the frame, ascending, with the stratum [n] of each (an index into `STRATA`).

    `shown` and `of` count rows by stratum, `of` those of the whole store. ``of / shown`` is how many rows each row of
    the stratum stands for, the inverse of its chance of being drawn (D. G. Horvitz & D. J. Thompson, JASA 47, 1952).
    """

    rows: NDArray[np.int64]
    stratum: NDArray[np.uint8]
    shown: tuple[int, int, int]
    of: tuple[int, int, int]

    @property
    def factors(self) -> tuple[float, float, float]:
        """How many rows each shown row of a stratum stands for; 1 where the stratum has none."""
        worst, candidates, rest = (of / shown if shown else 1.0 for shown, of in zip(self.shown, self.of, strict=True))
        return worst, candidates, rest

    @property
    def complete(self) -> bool:
        return self.shown == self.of


def choose(frame: pd.DataFrame, threshold: float, limit: int = DEFAULT_POINTS, seed: int = 0) -> Shown:
    """At most about `limit` rows of a store's frame that have a disagreement: all candidates, and a sample of the rest.

    Where the candidates are more than the page holds, the `WORST` of them are shown and the others sampled too, so that
    `REST_SHARE` of the page is left to the rest. Samples are drawn without replacement, each row with the same chance.
    The `WORST` are shown even beyond `limit`.
    """
    size = np.abs(frame["disagreement"].to_numpy(np.float64))
    candidates, rest = np.flatnonzero(size >= threshold), np.flatnonzero(size < threshold)
    dice = np.random.default_rng(seed)
    worst = candidates[np.argsort(-size[candidates], kind="stable")[:WORST]]
    others = np.setdiff1d(candidates, worst)
    room = max(limit - len(worst), 0)
    # Never none of a stratum that has any: nothing would stand for its rows.
    for_rest = min(len(rest), max(room - len(others), round(REST_SHARE * limit), 1))
    strata = (worst, _sample(others, max(room - for_rest, 1), dice), _sample(rest, for_rest, dice))
    rows = np.concatenate(strata)
    stratum = np.repeat(np.arange(len(STRATA), dtype=np.uint8), [len(part) for part in strata])
    order = np.argsort(rows, kind="stable")
    shown, of = [len(part) for part in strata], (len(worst), len(others), len(rest))
    return Shown(rows[order], stratum[order], (shown[0], shown[1], shown[2]), of)


def _sample(rows: NDArray[np.int64], count: int, dice: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= count else dice.choice(rows, count, replace=False)
