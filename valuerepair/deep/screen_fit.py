"""Learning the screening ladder: positions that nothing was cut of say what each cut would have lost.

At every rung a logistic model (statsmodels) gives the chance that a position is a candidate at full nodes. Candidates
are rare, so it learns from several thresholds around the one asked for at once: each position is a row for each of
them, with the margins to that threshold. The cuts are then the cheapest that keep the wanted share of the expected
candidates, found backward from the last rung on chances by models which have not seen the position.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from valuerepair.deep.screen import CAUTION, NO_NODES, RungModel, Screen, feature_names, features

Floats = NDArray[np.float64]
# Models of other data, each with the share of the nodes that its rung is at.
Prior: TypeAlias = "Sequence[tuple[float, RungModel]]"

# The threshold's neighbours that help to learn, as its multiples; a row of each counts less than a position.
_SPREAD = (0.55, 0.64, 0.73, 0.82, 0.91, 1.0, 1.09, 1.18, 1.27)
_ROW_WEIGHT = 0.25
# What is learned begins at the models that come with the package, as if so many rows a standard deviation from the mean
# of each feature agreed with them; without these, at nothing, with a weaker pull that only keeps coefficients finite
# where few positions separate perfectly (S. Greenland, Int. J. Epidemiol. 36, 2007).
_PRIOR_WEIGHT = 60.0
_PULL = 4.0
FOLDS = 5
MIN_POSITIONS = 48
# Positions with a disagreement at or above the lowest neighbour of the threshold.
MIN_NEAR = 5
# Positions that stand for many others count for so many at most in a fit.
LARGEST_WEIGHT = 10.0


@dataclass(frozen=True)
class Calibration:
    """Positions searched in full: `signals` [n, len(SIGNALS)], `q` [n, k + 1] at each rung and in full, `best` [n, k].

    `rungs` are k node counts, `nodes` those of the full search; `weights` [n] are inverse probabilities that such a
    position was searched in full.
    """

    rungs: tuple[int, ...]
    nodes: int
    signals: Floats
    q: Floats
    best: NDArray[np.int64]
    weights: Floats

    def __len__(self) -> int:
        return len(self.q)

    def take(self, rows: NDArray[np.bool_]) -> Calibration:
        """The rows of a mask [n]."""
        return replace(
            self, signals=self.signals[rows], q=self.q[rows], best=self.best[rows], weights=self.weights[rows]
        )

    @property
    def disagreement(self) -> Floats:
        """[n] |q_net - q_full|."""
        off: Floats = np.abs(self.signals[:, 0] - self.q[:, -1])
        return off

    @property
    def costs(self) -> Floats:
        """[k + 2] nodes of each step of the ladder, as shares of the full search; the first step costs none."""
        return np.diff([0, NO_NODES, *self.rungs, self.nodes]) / self.nodes


def enough(calibration: Calibration, threshold: float) -> bool:
    """Whether there is enough to learn from at all."""
    near = int((calibration.disagreement >= _SPREAD[0] * threshold).sum())
    return len(calibration) >= MIN_POSITIONS and near >= MIN_NEAR


def fit_screen(
    calibration: Calibration, threshold: float, recall: float, alpha: float, q_from: str, prior: Prior = ()
) -> Screen:
    """The ladder that is expected to keep `recall` of the candidates at the least nodes; it begins at `prior`."""
    learner = Learner(prior)
    models = fit_rungs(calibration, threshold, learner)
    chances = cross_fitted(calibration, threshold, learner)
    cuts = choose_cuts(calibration, chances, recall)
    point = survivors(calibration, chances, cuts, threshold)
    return Screen(
        threshold,
        alpha,
        q_from,
        recall,
        tuple(replace(model, cut=float(cut)) for model, cut in zip(models, cuts, strict=True)),
        len(calibration),
        int((calibration.disagreement >= threshold).sum()),
        *point,
    )


@dataclass(frozen=True)
class Learner:
    """How models are fitted: beginning at `prior`, models of other data by share of the nodes; features `without`."""

    prior: Prior = ()
    without: Sequence[str] = ()

    def start(self, share: float, names: tuple[str, ...]) -> RungModel | None:
        """The model to begin with for a rung at this share of the nodes, if there is one with the same features."""
        fitting = [
            (abs(np.log(known / share)) if share and known else abs(known - share), m) for known, m in self.prior
        ]
        near = [(distance, model) for distance, model in fitting if model.names == names]
        return min(near, key=lambda pair: pair[0])[1] if near else None


FROM_NOTHING = Learner()


def fit_rungs(calibration: Calibration, threshold: float, learner: Learner = FROM_NOTHING) -> list[RungModel]:
    """The models of all rungs, which cut nothing yet."""
    return [_fit_rung(calibration, k, threshold, learner) for k in range(len(calibration.rungs) + 1)]


def _fit_rung(calibration: Calibration, k: int, threshold: float, learner: Learner) -> RungModel:
    names = feature_names(k > 0)
    shares = [share for share in _SPREAD if share * threshold < 2]
    rows = np.concatenate([_rows(calibration, k, share * threshold) for share in shares])
    y = np.concatenate([calibration.disagreement >= share * threshold for share in shares]).astype(np.float64)
    weights = np.tile(_ROW_WEIGHT * np.minimum(calibration.weights, LARGEST_WEIGHT), len(shares))
    nodes = NO_NODES if k == 0 else calibration.rungs[k - 1]
    start = learner.start(nodes / calibration.nodes, names)
    if start is None:
        centre, scale = _standard(rows)
        scale[[name in learner.without for name in names]] = np.inf  # the column becomes 0, and its coefficient too
        start = RungModel(nodes, names, centre, scale, np.zeros(len(names) + 1), np.empty(0), 0.0)
        pull = _PULL
    else:
        start, pull = replace(start, nodes=nodes), _PRIOR_WEIGHT
    step, covariance = _logistic(start.design(rows), y, weights, start.coefficients, pull)
    return replace(start, coefficients=start.coefficients + step, covariance=covariance)


def _logistic(x: Floats, y: Floats, weights: Floats, start: Floats, pull: float) -> tuple[Floats, Floats]:
    """Steps from `start`, the coefficients [k] of a logistic model, and their covariance.

    One row of half a candidate for each column of `x` [n, k] but the first pulls its step to 0 with weight `pull`.
    """
    import statsmodels.api as sm

    held = np.eye(x.shape[1])[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chances of 0 and 1 are what perfect separation gives
        model = sm.GLM(
            np.concatenate([y, np.full(len(held), 0.5)]),
            np.concatenate([x, held]),
            family=sm.families.Binomial(),
            offset=np.concatenate([x @ start, np.zeros(len(held))]),
            var_weights=np.concatenate([weights, np.full(len(held), pull)]),
        )
        # Newton's method is several times faster, and may run away where iterated least squares does not.
        fitted = model.fit(method="newton")
        if not (np.isfinite(fitted.params).all() and fitted.mle_retvals["converged"]):
            fitted = model.fit()
    return np.asarray(fitted.params), np.asarray(fitted.normalized_cov_params)


def _rows(calibration: Calibration, k: int, threshold: float) -> Floats:
    return features(calibration.signals, calibration.q[:, :k], calibration.best[:, :k], threshold)


def _standard(rows: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the columns; a column that says nothing gets 0 and infinity."""
    known = ~np.isnan(rows)
    count = np.maximum(known.sum(0), 1)
    centre = np.where(known, rows, 0).sum(0) / count
    scale = np.sqrt((np.where(known, rows - centre, 0) ** 2).sum(0) / count)
    scale[scale < 1e-9] = np.inf
    return centre, scale


@dataclass(frozen=True)
class Chances:
    """[n, k + 1] chances by models that have not seen the row: as they are, and with caution added."""

    plain: Floats
    cautious: Floats


def cross_fitted(calibration: Calibration, threshold: float, learner: Learner = FROM_NOTHING, seed: int = 0) -> Chances:
    """Chances of every row at every rung by models of the other folds."""
    fold = np.random.default_rng(seed).permutation(np.arange(len(calibration)) % FOLDS)
    plain = np.empty((len(calibration), len(calibration.rungs) + 1))
    cautious = plain.copy()
    for held in range(FOLDS):
        rows = fold == held
        for k, model in enumerate(fit_rungs(calibration.take(~rows), threshold, learner)):
            unseen = _rows(calibration.take(rows), k, threshold)
            plain[rows, k] = model.chances(unseen, 0.0)
            cautious[rows, k] = model.chances(unseen, CAUTION)
    return Chances(plain, cautious)


def choose_cuts(calibration: Calibration, chances: Chances, recall: float) -> Floats:
    """[k + 1] cuts of least expected nodes that lose at most ``1 - recall`` of the candidates expected.

    Losses are counted cautiously, what is expected is not. The price of a lost candidate, in full searches, is raised
    until the loss is small enough.
    """
    weights = calibration.weights
    expected = float(weights @ chances.plain[:, -1])
    low, high = -3.0, 9.0
    for _ in range(40):
        price = (low + high) / 2
        lost = _expected_loss(calibration, chances, _cuts_at(calibration, chances, 10**price))
        if lost <= (1 - recall) * expected:
            high = price
        else:
            low = price
    return _cuts_at(calibration, chances, 10**high)


def _cuts_at(calibration: Calibration, chances: Chances, price: float) -> Floats:
    """The best cuts when a lost candidate costs as much as `price` full searches: backward from the last rung."""
    costs, weights = calibration.costs, calibration.weights
    cuts = np.zeros(chances.plain.shape[1])
    ahead = np.full(len(weights), costs[-1])  # nodes and losses still to come of a row that goes on
    for k in range(len(cuts) - 1, -1, -1):
        chance = chances.cautious[:, k]
        order = np.argsort(chance)
        gains = (weights * (ahead - price * chance))[order]
        best = int(np.argmax(np.concatenate([[0.0], np.cumsum(gains)])))
        cuts[k] = chance[order[best]] if best < len(order) else np.nextafter(chance[order[-1]], 2.0)
        ahead = np.where(chance < cuts[k], price * chance, ahead) + costs[k]
    return cuts


def _left_at(chances: Chances, cuts: Floats) -> NDArray[np.int64]:
    """[n] the rung at which each row leaves, the number of rungs where it does not."""
    below = chances.cautious < cuts
    return np.where(below.any(1), below.argmax(1), len(cuts))


def _expected_loss(calibration: Calibration, chances: Chances, cuts: Floats) -> float:
    left = _left_at(chances, cuts)
    cut = np.flatnonzero(left < len(cuts))
    return float(calibration.weights[cut] @ chances.cautious[cut, left[cut]])


def survivors(calibration: Calibration, chances: Chances, cuts: Floats, threshold: float) -> tuple[float, float]:
    """The share of nodes that these cuts cost, and of the candidates that they keep; NaN without candidates."""
    spent = np.cumsum(calibration.costs)
    left = _left_at(chances, cuts)
    weights = calibration.weights
    share = float(weights @ spent[left] / weights.sum())
    positive = calibration.disagreement >= threshold
    if not positive.any():
        return share, float("nan")
    return share, float(weights[positive & (left == len(cuts))].sum() / weights[positive].sum())


@dataclass(frozen=True)
class CurvePoint:
    """What a wanted recall costs: `share` of brute force's nodes, and the recall that came of it; cross-validated."""

    wanted: float
    share: float
    recall: float
    found: int
    positives: int


def curve(
    calibration: Calibration, threshold: float, recalls: Sequence[float], learner: Learner = FROM_NOTHING
) -> list[CurvePoint]:
    """Nodes against recall, out of sample in models and cuts alike.

    Chances come from models of the other folds, and the cuts used on a fold are chosen on the chances of the others.
    """
    chances = cross_fitted(calibration, threshold, learner)
    fold = np.random.default_rng(1).permutation(np.arange(len(calibration)) % FOLDS)
    points = []
    positive = calibration.disagreement >= threshold
    for wanted in recalls:
        spent, kept = np.empty(len(calibration)), np.empty(len(calibration), np.bool_)
        for held in range(FOLDS):
            rows = fold == held
            cuts = choose_cuts(calibration.take(~rows), _only(chances, ~rows), wanted)
            left = _left_at(_only(chances, rows), cuts)
            spent[rows], kept[rows] = np.cumsum(calibration.costs)[left], left == len(cuts)
        weights = calibration.weights
        total = weights[positive].sum()
        points.append(
            CurvePoint(
                wanted,
                float(weights @ spent / weights.sum()),
                float(weights[positive & kept].sum() / total) if total else float("nan"),
                int((positive & kept).sum()),
                int(positive.sum()),
            )
        )
    return points


def _only(chances: Chances, rows: NDArray[np.bool_]) -> Chances:
    return Chances(chances.plain[rows], chances.cautious[rows])
