"""The screening ladder: what is known of a position at each rung, and the model that says whether to search deeper.

A position is a candidate when ``|q_net - q_full| >= threshold``. Screening asks, before the oracle's whole search and
after each shorter one, how likely that still is; a position leaves the ladder where its chance is below the rung's cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.deep.signals import COLUMN

Floats = NDArray[np.float64]

# Rungs, as shares of the oracle's nodes: 5,000, 10,000, 20,000, 50,000 ... of a million. A search goes on where the
# last rung left it, so a further rung costs next to nothing.
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# The position is judged before any search too.
NO_NODES = 0
# How uncertain a chance may be is added to it, in standard errors of its log odds: with little to learn from, the
# ladder cuts less.
CAUTION = 1.0

NET_FEATURES = (
    *("entropy", "draws", "men", "plies", "in check", "runners"),
    *("jump before", "jump 2 before", "jump after"),
)
SEARCH_FEATURES = ("search change", "search away")
AHEAD = ("margin", "log-odds margin", "root of log-odds margin", "other margin", "out of reach")
RUNG_FEATURES = ("change", "away", "slope", "new best move", "other than net's")
# Far beyond any distance that a search bridges, in log odds.
_FAR = 3.0
_LARGEST_Q = 0.995


def rungs_of(nodes: int) -> tuple[int, ...]:
    """The rungs below a search of so many nodes."""
    return tuple(sorted({rung for share in SHARES if 0 < (rung := round(share * nodes)) < nodes}))


def feature_names(searched: bool) -> tuple[str, ...]:
    """The features of a rung: of one where the oracle has searched already, or of the first, where nothing has."""
    return (*AHEAD, *(RUNG_FEATURES if searched else ()), *NET_FEATURES, *SEARCH_FEATURES)


def features(signals: Floats, q: Floats, best: NDArray[np.int64], threshold: float | Floats) -> Floats:
    """[n, len(feature_names(k > 0))] features after k rungs, NaN for what is not known.

    `signals` are [n, len(SIGNALS)], `q` [n, k] the oracle's values of the rungs so far (side to move), `best` [n, k]
    its best moves as numbers. The *margin* is how much further from the net's value the oracle has to come for a
    candidate, negative where it is there; beside it the same in log odds (half of ``cp / alpha``), where a search moves
    more evenly, its root (with its sign: chances fall more slowly than a search far from the border suggests), and the
    same for the other side of the net's value. *Away* is how far the last rung moved from the net's value.
    """
    net = signals[:, COLUMN["q"]]
    now = q[:, -1] if q.shape[1] else net
    side = np.where(net >= now, 1.0, -1.0)  # 1: the net is optimistic
    margin = threshold - np.abs(net - now)
    near, far, unreachable = _log_odds_margins(side * net, side * now, threshold)
    columns = [margin, near, np.sign(near) * np.sqrt(np.abs(near)), far, unreachable]
    if q.shape[1]:
        before = q[:, -2] if q.shape[1] > 1 else now
        other = best[:, -2] if q.shape[1] > 1 else best[:, -1]
        columns += [
            np.sqrt(np.abs(now - before)),
            side * (before - now),
            1 - now**2,
            np.asarray(best[:, -1] != other, np.float64),
            np.asarray(best[:, -1] != signals[:, COLUMN["best_move"]], np.float64),
        ]
    columns += [
        signals[:, COLUMN["entropy"]],
        signals[:, COLUMN["d"]],
        signals[:, COLUMN["pieces"]] / 32,
        signals[:, COLUMN["ply"]] / 100,
        signals[:, COLUMN["check"]],
        signals[:, COLUMN["runners"]],
        *(np.abs(net - signals[:, COLUMN[name]]) for name in ("before", "before_2", "after")),
    ]
    searched = signals[:, COLUMN["search"]]
    columns += [np.abs(net - searched), side * (net - searched)]
    return np.stack(np.broadcast_arrays(*columns), 1).astype(np.float64)


def _log_odds_margins(net: Floats, now: Floats, threshold: float | Floats) -> tuple[Floats, Floats, Floats]:
    """[n] log odds from `now` to the nearer border, to the other one, and 1.0 where the nearer one cannot be reached.

    Both values are from the side that makes ``net >= now``, so the nearer border is ``net - threshold``.
    """
    margins = []
    for border, place in ((net - threshold, now), (-net - threshold, -now)):
        distance = np.arctanh(np.clip(place, -_LARGEST_Q, _LARGEST_Q)) - np.arctanh(
            np.clip(border, -_LARGEST_Q, _LARGEST_Q)
        )
        margins.append(np.where(border <= -1, _FAR, np.clip(distance, -_FAR, _FAR)))
    return margins[0], margins[1], np.asarray(net - threshold <= -1, np.float64)


@dataclass(frozen=True)
class RungModel:
    """A logistic model of one rung over standardised features; what is not known counts as the mean.

    `nodes` of the oracle have been spent there, 0 on the first. `covariance` is that of the coefficients, the intercept
    first. A position leaves below `cut`, a chance with `CAUTION` added.
    """

    nodes: int
    names: tuple[str, ...]
    centre: Floats
    scale: Floats
    coefficients: Floats
    covariance: Floats
    cut: float

    def design(self, rows: Floats) -> Floats:
        """[n, 1 + features] standardised, with the intercept's column."""
        z = np.nan_to_num((rows - self.centre) / self.scale, nan=0.0)
        return np.concatenate([np.ones((len(z), 1)), z], 1)

    def chances(self, rows: Floats, caution: float = CAUTION) -> Floats:
        """[n] chances that these rows [n, features] are candidates, with `caution` standard errors added."""
        x = self.design(rows)
        log_odds = x @ self.coefficients
        if caution:
            log_odds = log_odds + caution * np.sqrt(np.einsum("ij,jk,ik->i", x, self.covariance, x))
        chances: Floats = 1 / (1 + np.exp(-np.clip(log_odds, -40, 40)))
        return chances


@dataclass(frozen=True)
class Screen:
    """A ladder fitted for one net and oracle, alpha and threshold. `rungs` begin with the one before any search.

    `positions` and `positives` (candidates) are those of its calibration; `expected_share` and `expected_recall` what
    it made of them, by models that had not seen them: nodes against searching everything in full, and candidates kept.
    """

    threshold: float
    alpha: float
    q_from: str
    recall: float
    rungs: tuple[RungModel, ...]
    positions: int
    positives: int
    expected_share: float
    expected_recall: float

    def to_json(self) -> str:
        """The model as text; `from_json` is the inverse."""

        def plain(value: Any) -> Any:
            return value.tolist() if isinstance(value, np.ndarray) else value

        content = asdict(self)
        content["rungs"] = [{name: plain(value) for name, value in rung.items()} for rung in content["rungs"]]
        return json.dumps(content)

    @staticmethod
    def from_json(text: str) -> Screen:
        content: dict[str, Any] = json.loads(text)
        rungs = tuple(RungModel(**_arrays(rung)) for rung in content.pop("rungs"))
        return Screen(rungs=rungs, **content)


def _arrays(rung: Mapping[str, Any]) -> dict[str, Any]:
    arrays = {name: np.array(rung[name]) for name in ("centre", "scale", "coefficients", "covariance")}
    return {"nodes": rung["nodes"], "names": tuple(rung["names"]), "cut": rung["cut"], **arrays}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a position would leave the ladder: at so many nodes, with which chance; both None: it does not."""

    cut_at: int | None = None
    chance: float | None = None


def judge(screen: Screen, signals: Floats, q: Sequence[float], best: Sequence[int]) -> Verdict:
    """Whether a position leaves the ladder after ``len(q)`` rungs. `signals` is a row of its signals."""
    rung = screen.rungs[len(q)]
    row = features(
        signals[None, :], np.array([q], np.float64).reshape(1, -1), np.array([best], np.int64), screen.threshold
    )
    chance = float(rung.chances(row)[0])
    return Verdict(rung.nodes, chance) if chance < rung.cut else Verdict()
