"""How many families a set of positions really covers: Hill numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

import numpy as np
from numpy.typing import ArrayLike

ORDERS = (1.0, 2.0, 3.0)


def hill_numbers(abundances: ArrayLike, orders: Sequence[float] = ORDERS) -> tuple[float, ...]:
    """The effective number of families of abundances [n] (counts or sums of weights), one number an order.

    ``D_q = (sum p^q)^(1 / (1 - q))`` over the shares p of the families that occur, and ``exp(-sum p log p)`` for
    q = 1 (M. O. Hill, Diversity and evenness, Ecology 54, 1973). Order 0 counts the families, 1 weighs each by its
    share, 2 is one over the chance that two draws meet in one family; higher orders see the largest ones only. n equal
    families give n. All are 0 where nothing occurs. Raises ValueError for negative or infinite abundances.
    """
    masses = np.asarray(abundances, np.float64)
    if not (np.isfinite(masses).all() and (masses >= 0).all()):
        raise ValueError("abundances must be finite and not negative")
    if not masses.any():
        return (0.0,) * len(orders)
    # Divided by the largest first: a sum of huge numbers would overflow.
    shares = masses / masses.max()
    shares = shares[shares > 0] / shares.sum()
    return tuple(_of_order(shares, order) for order in orders)


def family_masses(families: Iterable[str], weights: ArrayLike) -> dict[str, float]:
    """The sum of `weights` [n] of each of the `families` [n], the heaviest first, equal ones by name.

    Exactly rounded, so that the order of the rows changes nothing.
    """
    members: dict[str, list[float]] = {}
    for family, weight in zip(families, np.asarray(weights, np.float64).tolist(), strict=True):
        members.setdefault(family, []).append(weight)
    masses = {family: fsum(each) for family, each in members.items()}
    return dict(sorted(masses.items(), key=lambda item: (-item[1], item[0])))


def _of_order(shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]], order: float) -> float:
    logs = np.log(shares)
    if order == 1:
        return float(np.exp(-(shares * logs).sum()))
    # p^q with the largest share taken out: high orders of many families would underflow.
    largest = logs.max()
    power_sum = order * largest + np.log(np.exp(order * (logs - largest)).sum())
    return float(np.exp(power_sum / (1 - order)))
