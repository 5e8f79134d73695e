"""The screening ladder: the features of a position at each rung, and the model that decides whether to search deeper.

A position is a candidate if ``|q_net - q_full| >= threshold``. After each of a few shorter searches (rungs) a model
gives the chance of that; if it is below the rung's cut, the position leaves the ladder. No position leaves it
before its first search, or while its last search differs from the net by the threshold or more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from valuerepair.arrays import Floats, Ids
from valuerepair.errors import UsageError
from valuerepair.question import QFrom, is_candidate

# Rungs, as shares of the oracle's nodes: 5,000, 10,000, 20,000, 50,000 ... of a million. A search resumes
# where the last rung ended, so another rung costs next to nothing.
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# How many standard errors are added to the log odds of a chance, so that a ladder fitted to few positions cuts less.
CAUTION = 1.0

FEATURES = (
    *("margin", "log-odds margin", "root of log-odds margin", "other margin", "out of reach"),
    *("change", "away", "slope", "new best move", "other than net's"),
)
# Far beyond any distance that a search bridges, in log odds.
_FAR = 3.0
_LARGEST_Q = 0.995


@dataclass(frozen=True)
class ScreenOptions:
    """How to screen: `recall` is the share of candidates to keep, `audit` the share of cut positions to search anyway.

    `price`: the cost of a lost candidate, in full searches, instead of `recall`. `rungs`: node counts below the
    oracle's own; None: `SHARES` of it. Raises UsageError for values out of range.
    """

    recall: float = 0.98
    audit: float = 0.02
    rungs: tuple[int, ...] | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        if not 0.5 <= self.recall < 1:
            raise UsageError(
                f"--screen recall={self.recall:g}: give a share from 0.5 to below 1; --screen off loses nothing"
            )
        if not 0 <= self.audit <= 1:
            raise UsageError(f"--screen audit={self.audit:g}: give a share from 0 to 1")
        if self.rungs is not None and (self.rungs[0] < 1 or any(b <= a for a, b in pairwise(self.rungs))):
            raise UsageError(f"--screen {','.join(map(str, self.rungs))}: give ascending numbers of nodes")


def parse_screen(text: str) -> ScreenOptions | None:
    """``--screen``: ``off`` (None), ``auto``, or nodes of the rungs (``5000,50000``); the latter two may end in
    ``,recall=0.98`` and ``,audit=0.02``. Raises UsageError."""
    if text == "off":
        return None
    rungs: list[int] = []
    shares: dict[str, float] = {}
    try:
        for word in text.split(","):
            name, equals, value = word.partition("=")
            if equals and name in ("recall", "audit"):
                shares[name] = float(value)
            elif word != "auto":
                rungs.append(int(word))
    except ValueError:
        raise UsageError(
            f"--screen {text}: give auto, off, or nodes of the rungs as 5000,50000; after them recall=0.98, audit=0.02"
        ) from None
    return ScreenOptions(rungs=tuple(rungs) or None, **shares)


def rungs_of(nodes: int) -> tuple[int, ...]:
    """The rungs below a search of this many nodes; more than one node each, which would be a net's own value."""
    return tuple(sorted({rung for share in SHARES if 1 < (rung := round(share * nodes)) < nodes}))


def features(net_q: Floats, net_best: Ids, q: Floats, best: Ids, threshold: float | Floats) -> Floats:
    """[n, len(FEATURES)] features at the last of k rungs.

    `net_q` [n] is the net's value, `net_best` [n] its policy's first choice as a number; `q` [n, k] are the oracle's
    values of the rungs so far, `best` [n, k] its best moves; all values are from the side to move. The *margin* is how
    much further from the net's value the oracle must move for a candidate; beyond the threshold it is negative. Three
    more columns are the margin in log odds (half of ``cp / alpha``), a scale on which searches move more evenly; its
    signed square root, because far from the border chances fall more slowly than the margin grows; and the margin, in
    log odds, to the border on the other side of the net's value. *Away* is how far the last rung moved from the net's
    value.
    """
    first = q.shape[1] == 1
    before, move = (net_q, best[:, -1]) if first else (q[:, -2], best[:, -2])
    columns = _columns(net_q, q[:, -1], before, best[:, -1] != move, best[:, -1] != net_best, threshold)
    rows: Floats = np.array(np.broadcast_arrays(*columns), np.float64).T
    return rows


def _columns(net_q: Any, now: Any, before: Any, new_best: Any, other: Any, threshold: Any) -> tuple[Any, ...]:
    """The features of one position, given numbers, or of many, given arrays."""
    side = np.copysign(1.0, net_q - now)  # 1: the net is optimistic
    optimist, below = side * net_q, side * now
    near, far = _log_odds(optimist - threshold, below), _log_odds(-optimist - threshold, -below)
    change = before - now
    return (
        threshold - abs(net_q - now),
        near,
        np.copysign(abs(near) ** 0.5, near),
        far,
        optimist - threshold <= -1,
        abs(change) ** 0.5,
        side * change,
        1 - now * now,
        new_best,
        other,
    )


def _log_odds(border: Any, place: Any) -> Any:
    """Log odds from a place down to a border; `_FAR` if no value is beyond the border."""
    inside = np.minimum(np.maximum(place, -_LARGEST_Q), _LARGEST_Q)
    distance = np.arctanh(inside) - np.arctanh(np.maximum(border, -_LARGEST_Q))
    return np.maximum(np.minimum(distance, _FAR), 2 * _FAR * (border <= -1) - _FAR)


@dataclass(frozen=True)
class RungModel:
    """A logistic model of one rung, after `nodes` of the oracle, over standardised features.

    `covariance` is that of the coefficients, the intercept first. A position leaves the ladder if its chance, with
    `CAUTION` added, is below `cut`.
    """

    nodes: int
    centre: Floats
    scale: Floats
    coefficients: Floats
    covariance: Floats
    cut: float

    def design(self, rows: Floats) -> Floats:
        """[n, 1 + features] standardised, with the intercept's column."""
        x = np.empty((len(rows), 1 + rows.shape[1]))
        x[:, 0] = 1
        x[:, 1:] = (rows - self.centre) / self.scale
        return x

    def chances(self, rows: Floats) -> Floats:
        """[n] the chances that these rows [n, features] are candidates, with `CAUTION` standard errors added."""
        x = self.design(rows)
        log_odds = x @ self.coefficients + CAUTION * np.sqrt(((x @ self.covariance) * x).sum(1))
        chances: Floats = 1 / (1 + np.exp(-np.clip(log_odds, -40, 40)))
        return chances


@dataclass(frozen=True)
class Screen:
    """A ladder fitted for one net, oracle, alpha and threshold.

    `positions` and `positives` (candidates) count the rows of its fit, without those of the package. `expected_share`
    (of the nodes of full searches) and `expected_recall` (share of candidates kept) are cross-validated over all rows.
    `price`: see `ScreenOptions`.
    """

    threshold: float
    alpha: float
    q_from: QFrom
    recall: float
    rungs: tuple[RungModel, ...]
    positions: int
    positives: int
    expected_share: float
    expected_recall: float
    price: float | None = None

    def to_json(self) -> str:
        """The model as JSON; `from_json` is the inverse."""
        content = asdict(self) | {"features": FEATURES}
        return json.dumps(content, default=lambda array: array.tolist())

    @staticmethod
    def from_json(text: str) -> Screen | None:
        """The screen of a text by `to_json`; None for a text of an earlier version, which had other features."""
        content: dict[str, Any] = json.loads(text)
        if tuple(content.pop("features", ())) != FEATURES:
            return None
        rungs: list[dict[str, Any]] = content["rungs"]
        for rung in rungs:
            rung.update({name: np.array(value) for name, value in rung.items() if isinstance(value, list)})
        content["rungs"] = tuple(RungModel(**rung) for rung in rungs)
        return Screen(**{field.name: content[field.name] for field in fields(Screen)})


@dataclass(frozen=True, slots=True)
class LadderCut:
    """Where a position leaves the ladder: after `cut_at` nodes, with this chance; both None: it stays."""

    cut_at: int | None = None
    chance: float | None = None


def judge(
    screen: Screen, rungs: int, net_q: float, net_best: int, q: Sequence[float], best: Sequence[int]
) -> LadderCut:
    """Whether a position leaves the ladder after `rungs` rungs; `q` and `best` are of the last two rungs, or one."""
    now = q[-1]
    if is_candidate(net_q - now, screen.threshold):
        return LadderCut()
    before, move = (q[0], best[0]) if len(q) > 1 else (net_q, best[-1])
    rung = screen.rungs[rungs - 1]
    row = _columns(net_q, now, before, best[-1] != move, best[-1] != net_best, screen.threshold)
    chance = float(rung.chances(np.array([row], np.float64))[0])
    return LadderCut(rung.nodes, chance) if chance < rung.cut else LadderCut()
