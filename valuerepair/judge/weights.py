"""How much each candidate counts: soft weights by disagreement, the effective sample size, and figures.

The weights are for training, not for estimates: rates of an archive use the inverse probabilities of `Store.frame`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuerepair.question import is_candidate

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_SOFTNESS = 0.1
_LARGEST = 5  # families named one by one


def weights_of(disagreement: ArrayLike, threshold: float, softness: float = DEFAULT_SOFTNESS) -> NDArray[np.float64]:
    """[n] weights in [0, 1] of `disagreement` [n] (net Q - deep Q, side to move): a threshold with a soft edge.

    ``w = 1 / (1 + exp(-(|disagreement| - threshold) / softness))``: a half at the threshold, near 1 where the net is
    wrong beyond doubt. `softness` is in Q; 0 gives the hard edge, 1 from the threshold on and 0 below. NaN weighs 0.
    Raises ValueError for a negative softness.
    """
    if not softness >= 0:
        raise ValueError(f"softness {softness:g}: must not be negative")
    candidate = is_candidate(np.asarray(disagreement, np.float64), threshold)
    if softness == 0:
        return candidate.astype(np.float64)
    beyond = np.abs(np.asarray(disagreement, np.float64)) - threshold
    # exp of a number that is never positive: no overflow, and both branches agree to the last bits.
    with np.errstate(over="ignore"):  # a softness near 0 divides into infinity, whose weight is right
        small = np.exp(-np.abs(beyond) / softness)
    weights = np.where(candidate, 1 / (1 + small), small / (1 + small))
    return np.where(np.isnan(beyond), 0.0, weights)


def effective_sample_size(weights: ArrayLike) -> float:
    """Kish's ``(sum w)^2 / sum w^2`` (Survey Sampling, 1965) of weights [n]: n when all are equal, at least 1.

    Positions of weight 0 add nothing; 0 if all weights are 0.
    """
    w = np.asarray(weights, np.float64)
    if not (largest := float(w.max(initial=0.0))):
        return 0.0
    w = w / largest
    return fsum(w.tolist()) ** 2 / fsum((w**2).tolist())


def copies_by_weight(weights: ArrayLike, per_weight: int, start: float) -> NDArray[np.int64]:
    """[n] how often to repeat each position, in proportion to the weights: ``per_weight * w``, rounded up or down.

    Systematic sampling along the cumulated weights, as particle filters resample (G. Kitagawa, J. Comput. Graph. Stat.
    5, 1996): with `start` uniform in [0, 1) each expectation is exact, and the sum is within 1 of its expectation.
    """
    ends = np.floor(np.cumsum(per_weight * np.asarray(weights, np.float64)) + start)
    return np.diff(ends, prepend=0.0).astype(np.int64)


def diversity_of(weights: ArrayLike, games: Iterable[str], families: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Figures of n weighted positions, JSON-able: effective numbers of positions and games, and Hill numbers.

    `games` [n] names the game of each; a game counts by the sum of its weights. `families` holds a list [n] by kind
    (opening, material, and root for positions of vr expand); of each kind: `families` (how many occur), `hill` (of
    order 1, 2, 3, with families counted by weight) and `largest` (the shares of the heaviest).
    """
    w = np.asarray(weights, np.float64)
    diversity: dict[str, Any] = {
        "positions": len(w),
        "weight": fsum(w.tolist()),
        "effective_positions": effective_sample_size(w),
        "effective_games": effective_sample_size(list(family_masses(games, w).values())),
    }
    for kind, names in families.items():
        masses = family_masses(names, w)
        total = fsum(masses.values())
        diversity[kind] = {
            "families": len(masses),
            "hill": list(hill_numbers(list(masses.values()), ORDERS)),
            "largest": {name: mass / total for name, mass in list(masses.items())[:_LARGEST] if total},
        }
    return diversity


# -- vr stats ---------------------------------------------------------------------------------------------------------


def figures(frame: pd.DataFrame, threshold: float, labels: pd.DataFrame) -> dict[str, Any]:
    """Weights and diversity of the candidates at `threshold` in `frame` (see `Store.frame`), JSON-able.

    They are those of a book of all candidates: with the weights of training, and each candidate once. `labels` are
    those of the frame's rows (`labelled.labels_of`), which include the families.
    """
    from valuerepair.judge.openings import UNKNOWN

    rows = frame[is_candidate(frame["disagreement"], threshold)]
    row_labels = labels.loc[rows.index]
    families = {kind: row_labels[f"{kind}_family"].fillna(UNKNOWN).tolist() for kind in ("opening", "material")}
    if "root_id" in rows:
        families["root"] = [str(root) for root in rows["root_id"].tolist()]
    games = [f"{source}\n{game}" for source, game in zip(rows["source"], rows["game"], strict=True)]
    weights = weights_of(rows["disagreement"].to_numpy(), threshold)
    return {"threshold": threshold, "softness": DEFAULT_SOFTNESS, **diversity_of(weights, games, families)}


def lines(diversity: dict[str, Any]) -> list[str]:
    """`figures` as text for a terminal."""
    if not diversity["positions"]:
        return []
    title = f"diversity at {diversity['threshold']:g}, candidates weighted with softness {diversity['softness']:g}"
    return [title, *(f"  {line}" for line in diversity_lines(diversity))]


_KINDS = {"opening": "opening families", "material": "material families", "root": "roots"}


def diversity_lines(diversity: dict[str, Any]) -> list[str]:
    """The figures of `diversity_of` as text."""
    text = [
        f"by weight {diversity['positions']:,} positions count for {diversity['effective_positions']:,.1f}, "
        f"their games for {diversity['effective_games']:,.1f}"
    ]
    for kind, words in _KINDS.items():
        if kind in diversity:
            hill = ", ".join(f"{number:,.1f}" for number in diversity[kind]["hill"])
            text.append(f"{diversity[kind]['families']:,} {words} count for {hill} (Hill numbers of order 1, 2, 3)")
    return text


ORDERS = (1.0, 2.0, 3.0)


def hill_numbers(abundances: ArrayLike, orders: Sequence[float] = ORDERS) -> tuple[float, ...]:
    """The effective number of families of abundances [n] (counts or sums of weights), one number for each order.

    ``D_q = (sum p^q)^(1 / (1 - q))`` over the shares p of the families that occur, and ``exp(-sum p log p)`` for q = 1
    (M. O. Hill, Diversity and evenness, Ecology 54, 1973). Order 0 counts the families, 1 weighs each by its share, 2
    is one over the chance that two draws are of the same family; higher orders depend on the largest ones only. n equal
    families give n. All are 0 if no family occurs. Raises ValueError for negative or infinite abundances.
    """
    masses = np.asarray(abundances, np.float64)
    if not (np.isfinite(masses).all() and (masses >= 0).all()):
        raise ValueError("abundances must be finite and not negative")
    if not masses.any():
        return (0.0,) * len(orders)
    # Divided by the largest first: a sum of huge numbers would overflow.
    shares = masses / masses.max()
    shares /= shares.sum()
    return tuple(_of_order(shares[shares > 0], order) for order in orders)


def family_masses(families: Iterable[str], weights: ArrayLike) -> dict[str, float]:
    """The sum of `weights` [n] of each of the `families` [n], the heaviest first, equal ones by name.

    Exactly rounded, so that the order of the rows changes nothing.
    """
    members: dict[str, list[float]] = {}
    for family, weight in zip(families, np.asarray(weights, np.float64).tolist(), strict=True):
        members.setdefault(family, []).append(weight)
    masses = {family: fsum(family_weights) for family, family_weights in members.items()}
    return dict(sorted(masses.items(), key=lambda item: (-item[1], item[0])))


def _of_order(shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]], order: float) -> float:
    logs = np.log(shares)
    if order == 1:
        return float(np.exp(-(shares * logs).sum()))
    # p^q with the largest share taken out: high orders of many families would underflow.
    largest = logs.max()
    power_sum = order * largest + np.log(np.exp(order * (logs - largest)).sum())
    return float(np.exp(power_sum / (1 - order)))
