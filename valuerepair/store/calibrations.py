"""Which calibration judges the positions of a net and an oracle: the stored one, or a fit to the scored positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.calibration import Calibration, fit, fold_of
from valuerepair.chess import values
from valuerepair.question import Expanded, QFrom
from valuerepair.store.columns import GAME_KEY, Ids, both_q, columns, facts, games_of
from valuerepair.store.connection import StoreConnection
from valuerepair.store.rows import now
from valuerepair.text import positions_of_games

Floats = NDArray[np.float64]


class UsedCalibration(NamedTuple):
    """A calibration in use, and where it comes from, in words."""

    calibration: Calibration
    origin: str

    def figures(self) -> dict[str, Any]:
        """What it is, JSON-able."""
        return {"origin": self.origin, **self.calibration.figures()}


def used(
    connection: StoreConnection, net_id: int, oracle_id: int, alpha: values.Alpha, q_from: QFrom
) -> UsedCalibration:
    """The stored calibration if it was fitted to this alpha and `q_from`, else a fit to the scored positions.

    Raises TooFewPositions if no calibration is stored and the data are too few to fit one.
    """
    cache = facts(connection, net_id, oracle_id)
    name = f"calibration {alpha.value!r} {q_from}"
    if name not in cache:
        chosen = stored(connection, net_id, oracle_id, alpha.value, q_from, own_q=alpha.origin == values.OWN_Q)
        if chosen is None:
            row = _row(connection, net_id, oracle_id)
            reason = f", for the stored one is of {values.Alpha(row[0], row[3][:10]).source(row[1])}" if row else ""
            chosen = _with_origin(fitted(connection, net_id, oracle_id, alpha, q_from), "fitted", reason)
        cache[name] = chosen
    calibration: UsedCalibration = cache[name]
    return calibration


def stored(
    connection: StoreConnection, net_id: int, oracle_id: int, alpha: float, q_from: QFrom, *, own_q: bool
) -> UsedCalibration | None:
    """The stored calibration, if it is of this `q_from` and alpha; with `own_q` alpha has no effect."""
    row = _row(connection, net_id, oracle_id)
    if row is None or row[1] != q_from or (row[0] != alpha and q_from == "cp" and not own_q):
        return None
    return _with_origin(Calibration.from_json(row[2]), f"stored fit of {row[3][:10]}")


def _row(connection: StoreConnection, net_id: int, oracle_id: int) -> tuple[Any, ...] | None:
    query = "SELECT alpha, q_from, curve, fitted FROM calibrations WHERE net_id = ? AND oracle_id = ?"
    row: tuple[Any, ...] | None = connection.execute(query, (net_id, oracle_id)).fetchone()
    return row


def fitted(connection: StoreConnection, net_id: int, oracle_id: int, alpha: values.Alpha, q_from: QFrom) -> Calibration:
    """A fit to all sampled positions that both have scored. Raises TooFewPositions if these are too few."""
    scored = columns(connection, net_id, oracle_id, ("weight", GAME_KEY))
    net_q, deep_q = both_q(connection, net_id, oracle_id, alpha.value, q_from)
    return fit(net_q, deep_q, scored["weight"], scored[GAME_KEY], alpha=alpha.value, q_from=q_from)


def calibrated_q(
    connection: StoreConnection,
    net_id: int,
    oracle_id: int,
    calibration: Calibration,
    expanded: Expanded,
    cut: bool,
) -> Floats:
    """[n] the expected deep Q of each row of `columns`, by the curve that was fitted without its game."""
    scored = columns(connection, net_id, oracle_id, ("net_q", GAME_KEY), expanded, cut)
    return calibration.expected(scored["net_q"], fold_of(scored[GAME_KEY]))


def calibrated_of(
    connection: StoreConnection, calibration: Calibration, ids: Ids | Sequence[int], net_q: Floats | Sequence[float]
) -> Floats:
    """[n] the expected deep Q of a few positions with these net values, `net_q` [n], as in `calibrated_q`."""
    return calibration.expected(net_q, fold_of(games_of(connection, ids)))


def keep(connection: StoreConnection, net_id: int, oracle_id: int, calibration: Calibration) -> None:
    """Stores a calibration for this net and oracle; it replaces an earlier one."""
    scale = (calibration.alpha, calibration.q_from)
    row = (net_id, oracle_id, *scale, calibration.as_json(), calibration.positions, calibration.games, now())
    connection.execute("INSERT OR REPLACE INTO calibrations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _with_origin(calibration: Calibration, how: str, reason: str = "") -> UsedCalibration:
    data = positions_of_games(calibration.positions, calibration.games)
    return UsedCalibration(calibration, f"{how} on {data} ({calibration.method}){reason}")
