"""Fits the screening ladder to positions that were searched in full: they show what each cut would lose.

At each rung a logistic model gives the chance that a position below the threshold there is a candidate at full nodes.
Candidates are rare, so the model learns from several thresholds around the given one: each position is one row for each
threshold, with the margins to it. The cuts are the cheapest that keep the wanted share of the candidates. They are
computed backward from the last rung, with chances from models that were fitted to other games.

A ladder begins with positions that come with the package. Each was searched at all rungs and in full, without cuts;
data/make_screen_package.py makes the file. They show how far a search still moves after a rung, not what a net
misjudges, so the fit also uses positions of the net and engine in question as soon as some are searched in full.
Oracles of other sizes use the rungs with the nearest numbers of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from valuerepair.arrays import Floats, Ids
from valuerepair.chess import values
from valuerepair.engines.kinds import OWN_SEARCH, STOCKFISH, kind_of
from valuerepair.question import Question, is_candidate
from valuerepair.screening.model import FEATURES, RungModel, Screen, features

# The thresholds to learn from, as multiples of the given one; each row counts for less than a position.
_SPREAD = (0.55, 0.64, 0.73, 0.82, 0.91, 1.0, 1.09, 1.18, 1.27)
_ROW_WEIGHT = 0.25
# A weak pull to 0 keeps coefficients finite where few positions separate perfectly: one row of this weight and half a
# candidate, a standard deviation from the mean, for each feature (S. Greenland, Int. J. Epidemiol. 36, 2007).
_PULL = 4.0
_STEPS, _CLOSE = 30, 1e-4
FOLDS = 5
MIN_POSITIONS = 48
# Positions with a disagreement at or above the lowest neighbour of the threshold.
MIN_NEAR = 5
# The largest weight of a position in a fit: a screened position may represent many others.
LARGEST_WEIGHT = 10.0
_COLUMNS = ("net_q", "net_best", "q", "best", "weights", "game")
_PACKAGE = "package.npz"
# There mates are stored as these centipawns, and Q in these parts of 1.
MATE_CP = 32_000
Q_PARTS = 30_000


@dataclass(frozen=True)
class LadderRows:
    """Positions searched in full: `net_q` and `net_best` [n], `q` [n, k + 1] at each rung and in full, `best` [n, k].

    `rungs` are k node counts, `nodes` that of the full search; `weights` [n] are inverse probabilities of each
    position's full search. `game` [n] numbers the games that the positions are of or beside; positions of one game are
    alike, so they share a fold.
    """

    rungs: tuple[int, ...]
    nodes: int
    net_q: Floats
    net_best: Ids
    q: Floats
    best: Ids
    weights: Floats
    game: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.q)

    def take(self, rows: NDArray[np.bool_ | np.int64]) -> LadderRows:
        """The rows of a mask [n], or with these indices."""
        columns: Mapping[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns)

    @property
    def disagreement(self) -> Floats:
        """[n] |q_net - q_full|."""
        difference: Floats = np.abs(self.net_q - self.q[:, -1])
        return difference

    @property
    def costs(self) -> Floats:
        """[k + 1] nodes of each step of the ladder, as shares of the full search."""
        return np.diff([0, *self.rungs, self.nodes]) / self.nodes

    def features_after(self, k: int, threshold: float) -> Floats:
        """[n, features] the features after k rungs."""
        return features(self.net_q, self.net_best, self.q[:, :k], self.best[:, :k], threshold)

    def may_be_cut(self, k: int, threshold: float) -> NDArray[np.bool_]:
        """[n] whether a position may be cut after k rungs: the search is within the threshold of the net."""
        return ~is_candidate(self.net_q - self.q[:, k - 1], threshold)


def joined(own: LadderRows, others: LadderRows) -> LadderRows:
    """The rows of both, which have the same rungs and no game in common; games are numbered anew."""
    number_of = [np.unique(part.game, return_inverse=True)[1] for part in (own, others)]
    number_of[1] += len(np.unique(own.game))
    parts = [replace(part, game=numbers) for part, numbers in zip((own, others), number_of, strict=True)]
    columns: Mapping[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return replace(own, **columns)


def with_rate(climbed: LadderRows, threshold: float, rate: float) -> LadderRows:
    """The rows, with the candidates weighted so that they are the share `rate` of all."""
    positive = is_candidate(climbed.disagreement, threshold)
    now = float(climbed.weights @ positive) / float(climbed.weights.sum())
    if not 0 < now < 1:
        return climbed
    odds = rate / (1 - rate) / (now / (1 - now))
    return replace(climbed, weights=np.where(positive, odds, 1.0) * climbed.weights)


def enough(climbed: LadderRows, threshold: float) -> bool:
    """Whether there are enough rows to fit a ladder.

    At each rung some rows of two folds must be below the lowest threshold: each fold learns from the other ones.
    """
    lowest = _SPREAD[0] * threshold
    near_count = int(is_candidate(climbed.disagreement, lowest).sum())
    fold = _folds(climbed.game, seed=0)
    below = all(len(np.unique(fold[climbed.may_be_cut(k + 1, lowest)])) > 1 for k in range(len(climbed.rungs)))
    return len(climbed) >= MIN_POSITIONS and near_count >= MIN_NEAR and below


def fit_screen(climbed: LadderRows, question: Question, recall: float, price: float | None = None) -> Screen:
    """The ladder that is expected to keep the share `recall` of the candidates with the fewest nodes; with a `price` of
    a lost candidate, in full searches, the ladder with the lowest total cost.

    `question` is the question, with its alpha, by which the rows' Q were computed.
    """
    assert question.alpha is not None
    threshold = question.threshold
    models, chances = learn(climbed, threshold)
    cuts = choose_cuts(climbed, chances, recall, threshold) if price is None else cuts_at(climbed, chances, price)
    share, expected_recall = cost_and_recall(climbed, chances, cuts, threshold)
    return Screen(
        threshold,
        question.alpha,
        question.q_from,
        recall,
        tuple(replace(model, cut=float(cut)) for model, cut in zip(models, cuts, strict=True)),
        len(climbed),
        int(is_candidate(climbed.disagreement, threshold).sum()),
        share,
        expected_recall,
        price,
    )


def learn(climbed: LadderRows, threshold: float) -> tuple[list[RungModel], Floats]:
    """The models of all rungs, without cuts yet, and [n, k] the chances at each rung, with caution added.

    The chances of a row come from models fitted to the other folds. They are 1 where a position is already over the
    threshold: it is not cut there.
    """
    fold = _folds(climbed.game, seed=0)
    models = []
    chances = np.ones((len(climbed), len(climbed.rungs)))
    with threadpool_limits(limits=1, user_api="blas"):  # threads would compete with engines, for small products
        for k in range(1, len(climbed.rungs) + 1):
            learner = _Rung(climbed, k, threshold)
            model = learner.fit()
            models.append(model)
            may_be_cut = climbed.may_be_cut(k, threshold)
            rows = climbed.features_after(k, threshold)
            for held_out in range(FOLDS):
                fold_model = learner.fit(fold != held_out, model.coefficients)
                unseen = may_be_cut & (fold == held_out)
                chances[unseen, k - 1] = fold_model.chances(rows[unseen])
    return models, chances


def _folds(game: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """[n] the fold of each position: games in a random order, dealt out in turn."""
    _, first, games = np.unique(game, return_index=True, return_inverse=True)
    fold_of_game = np.random.default_rng(seed).permutation(np.arange(len(first)) % FOLDS)
    by_first_position = np.argsort(np.argsort(first))
    return fold_of_game[by_first_position[games]]


class _Rung:
    """The rows for the model of one rung: positions times thresholds that the search has not crossed yet."""

    def __init__(self, climbed: LadderRows, k: int, threshold: float) -> None:
        borders = np.array([share * threshold for share in _SPREAD if share * threshold < 2])
        ahead = ~is_candidate((climbed.net_q - climbed.q[:, k - 1])[:, None], borders)
        self._position, border_of_row = np.nonzero(ahead)
        rows = climbed.take(self._position)
        values = features(rows.net_q, rows.net_best, rows.q[:, :k], rows.best[:, :k], borders[border_of_row])
        self._y = is_candidate(rows.disagreement, borders[border_of_row]).astype(np.float64)
        self._weights = _ROW_WEIGHT * np.minimum(rows.weights, LARGEST_WEIGHT)
        centre, scale = values.mean(0), values.std(0)
        scale[scale < 1e-9] = np.inf  # a constant column becomes 0, and so does its coefficient
        size = 1 + len(FEATURES)
        no_covariance = np.zeros((size, size))
        self._model = RungModel(climbed.rungs[k - 1], centre, scale, np.zeros(size), no_covariance, 0.0)
        self._x = self._model.design(values)

    def fit(self, positions: NDArray[np.bool_] | None = None, start: Floats | None = None) -> RungModel:
        """The model of these positions (a mask; None: all)."""
        rows = slice(None) if positions is None else positions[self._position]
        begin = np.zeros(self._x.shape[1]) if start is None else start
        coefficients, covariance = fit_logistic(self._x[rows], self._y[rows], self._weights[rows], begin, _PULL)
        return replace(self._model, coefficients=coefficients, covariance=covariance)


def fit_logistic(x: Floats, y: Floats, weights: Floats, start: Floats, pull: float) -> tuple[Floats, Floats]:
    """Coefficients [p] of a logistic model of `y` [n] on `x` [n, p], and their covariance, by Newton's method.

    The first step begins at `start`. For each column of `x` but the first, one row of half a candidate with weight
    `pull` pulls its coefficient to 0.
    """
    pulling = np.eye(x.shape[1])[1:]
    x = np.concatenate([x, pulling])
    y = np.concatenate([y, np.full(len(pulling), 0.5)])
    weights = np.concatenate([weights, np.full(len(pulling), pull)])

    def loss(beta: Floats) -> float:
        z = x @ beta
        return float(weights @ (np.logaddexp(0, z) - y * z))

    beta, now = start, loss(start)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -40, 40)))
        # If all chances are 0 or 1 there is no curvature; a trace of it keeps the system solvable.
        information = x.T @ (x * (weights * np.maximum(p * (1 - p), 1e-12))[:, None])
        step = np.linalg.solve(information, x.T @ (weights * (y - p)))
        while (after := loss(beta + step)) > now + 1e-12 * abs(now):
            step = step / 2  # too far: the quadratic does not fit the loss there
        beta, now = beta + step, after
        if np.abs(step).max() < _CLOSE:
            break
    return beta, np.linalg.inv(information)


def choose_cuts(climbed: LadderRows, chances: Floats, recall: float, threshold: float) -> Floats:
    """[k] the cuts with the fewest expected nodes that lose at most ``1 - recall`` of the candidates.

    The same cautious chances give the expected loss. A bisection finds the lowest price of a lost candidate, in full
    searches, at which the loss is small enough.
    """
    candidates = float(climbed.weights @ is_candidate(climbed.disagreement, threshold))
    low, high = -3.0, 9.0
    for _ in range(40):
        price = (low + high) / 2
        lost = _expected_loss(climbed, chances, cuts_at(climbed, chances, 10**price))
        if lost <= (1 - recall) * candidates:
            high = price
        else:
            low = price
    return cuts_at(climbed, chances, 10**high)


def cuts_at(climbed: LadderRows, chances: Floats, price: float) -> Floats:
    """[k] the best cuts if a lost candidate costs `price` full searches, found backward from the last rung."""
    costs, weights = climbed.costs, climbed.weights
    cuts = np.zeros(chances.shape[1])
    ahead = np.full(len(weights), costs[-1])  # expected cost (nodes and losses) of a row that stays on the ladder
    for k in range(len(cuts) - 1, -1, -1):
        chance = chances[:, k]
        order = np.argsort(chance)
        gains = (weights * (ahead - price * chance))[order]
        gains[chance[order] >= 1] = -np.inf
        best = int(np.argmax(np.concatenate([[0.0], np.cumsum(gains)])))
        cuts[k] = chance[order[best]] if best < len(order) else np.nextafter(chance[order[-1]], 2.0)
        ahead = np.where(chance < cuts[k], price * chance, ahead) + costs[k]
    return cuts


def _exit_rungs(chances: Floats, cuts: Floats) -> NDArray[np.int64]:
    """[n] the rung at which each row leaves the ladder; the number of rungs if it stays to the end."""
    below = chances < cuts
    return np.where(below.any(1), below.argmax(1), len(cuts))


def _expected_loss(climbed: LadderRows, chances: Floats, cuts: Floats) -> float:
    exits = _exit_rungs(chances, cuts)
    cut = np.flatnonzero(exits < len(cuts))
    return float(climbed.weights[cut] @ chances[cut, exits[cut]])


def cost_and_recall(climbed: LadderRows, chances: Floats, cuts: Floats, threshold: float) -> tuple[float, float]:
    """(the share of full searches' nodes that these cuts cost, the share of candidates they keep; NaN without any)."""
    spent = np.cumsum(climbed.costs)
    exits = _exit_rungs(chances, cuts)
    weights = climbed.weights
    share = float(weights @ spent[exits] / weights.sum())
    positive = is_candidate(climbed.disagreement, threshold)
    if not positive.any():
        return share, float("nan")
    return share, float(weights[positive & (exits == len(cuts))].sum() / weights[positive].sum())


@dataclass(frozen=True)
class CurvePoint:
    """The cost of a `wanted` recall, cross-validated: the share of brute force's nodes, and the resulting recall."""

    wanted: float
    share: float
    recall: float
    found: int
    positives: int


def curve(
    own: LadderRows,
    package: LadderRows | None,
    threshold: float,
    recalls: Sequence[float],
) -> list[CurvePoint]:
    """Nodes against recall of the positions `own`, with models and cuts both out of sample.

    The chances of a fold come from models of the other folds, and the chances of the other folds choose its cuts. The
    positions of the `package` are used for fitting only.
    """
    data = own if package is None else joined(own, package)
    _, chances = learn(data, threshold)
    is_own = np.arange(len(data)) < len(own)
    fold = _folds(data.game, seed=1)
    positive = is_candidate(own.disagreement, threshold)
    points = []
    for wanted in recalls:
        spent, survives = np.empty(len(own)), np.empty(len(own), np.bool_)
        for held_out in range(FOLDS):
            training, rows = fold != held_out, is_own & (fold == held_out)
            cuts = choose_cuts(data.take(training), chances[training], wanted, threshold)
            exits = _exit_rungs(chances[rows], cuts)
            spent[rows[: len(own)]] = np.cumsum(data.costs)[exits]
            survives[rows[: len(own)]] = exits == len(cuts)
        total = own.weights[positive].sum()
        points.append(
            CurvePoint(
                wanted,
                float(own.weights @ spent / own.weights.sum()),
                float(own.weights[positive & survives].sum() / total) if total else float("nan"),
                int((positive & survives).sum()),
                int(positive.sum()),
            )
        )
    return points


class PackagePositions(NamedTuple):
    """Positions of one kind of oracle: `net_q`, `net_best` [n]; `nodes` [m] of searches, the last in full; `score` and
    `best` [n, m]. Scores are centipawns, or Q in `Q_PARTS` of a search with a net; moves are numbers."""

    net_q: NDArray[np.float32]
    net_best: NDArray[np.uint16]
    nodes: NDArray[np.int64]
    score: NDArray[np.int16]
    best: NDArray[np.uint16]


@cache
def package_positions(kind: str) -> PackagePositions:
    """The package's positions of a kind of oracle that is `in_package`."""
    with files("valuerepair.screening").joinpath(_PACKAGE).open("rb") as stream, np.load(stream) as content:
        return PackagePositions(*(content[f"{kind}_{name}"] for name in PackagePositions._fields))


def package_rows(kind: str, nodes: int, rungs: Sequence[int], question: Question) -> LadderRows | None:
    """The package's positions as if an oracle of this kind had searched them at these rungs; None without any.

    Kinds that are not in the package borrow the positions of our own search or of Stockfish; those of Stockfish have no
    W/D/L.
    """
    assert question.alpha is not None
    engine = kind_of(kind)
    if not engine.searches or (question.q_from == "wdl" and not engine.own_q):
        return None
    positions = package_positions((OWN_SEARCH if engine.own_q else STOCKFISH).name)
    full = int(np.argmin(np.abs(np.log(positions.nodes / nodes))))
    scale = positions.nodes[full] / nodes
    columns = [int(np.argmin(np.abs(np.log(positions.nodes / (scale * rung))))) for rung in rungs]
    score = positions.score[:, [*columns, full]].astype(np.float64)
    if engine.own_q:
        q = score / Q_PARTS
    else:
        q = np.where(np.abs(score) >= MATE_CP, np.sign(score), values.cp_to_q(score, question.alpha))
    net_q, net_best = positions.net_q.astype(np.float64), positions.net_best.astype(np.int64)
    games = np.arange(len(net_q))
    best = positions.best[:, columns].astype(np.int64)
    return LadderRows(tuple(rungs), nodes, net_q, net_best, q, best, np.ones(len(q)), games)
