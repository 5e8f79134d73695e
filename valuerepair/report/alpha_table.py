"""What another alpha would change: the fits of a store, and the candidates at each."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.chess.values import (
    ALPHA_BOUNDS,
    AUTO_MIN_POSITIONS,
    DEFAULT_ALPHA,
    Alpha,
    AlphaFit,
    FitTo,
    Floats,
    Norm,
    fit_alpha,
    fit_alpha_to_results,
)
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import Rate, weighted
from valuerepair.question import Question

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

NORMS: tuple[Norm, ...] = ("l1", "l2")
_RESULTS = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}


@dataclass(frozen=True, slots=True)
class AlphaTable:
    """The fits of one net and oracle, the alpha in use now, and the candidate rates.

    `fits` are to the net's Q by norm, and to the ``results`` of games, where enough positions stood in some.

    `rates` has the rate at the default alpha under ``default``, at the one in use under ``now``, and at each fit under
    its name.
    """

    net: str
    oracle: str
    threshold: float
    now: Alpha
    fits: dict[FitTo, AlphaFit]
    rates: dict[str, Rate]

    def lines(self) -> list[str]:
        """The table in words."""
        rows = [("default", f"{DEFAULT_ALPHA:.0f}", "", "", self.rates["default"])]
        for name, fit in self.fits.items():
            interval = "" if math.isnan(fit.low) else f"{fit.low:.0f} to {fit.high:.0f}"
            rows.append((f"fit {name}", f"{fit.alpha:.0f}", interval, f"{fit.residual:.4f}", self.rates[name]))
        head = f"{'':<11} {'alpha':>6}  {'95 % interval':<15} {'residual':>8}  candidates at {self.threshold:g}"
        positions = next(iter(self.fits.values())).n
        return [
            f"{self.net}, {self.oracle}: {positions:,} positions with a centipawn score",
            head,
            *(f"{name:<11} {alpha:>6}  {interval:<15} {rest:>8}  {rate}" for name, alpha, interval, rest, rate in rows),
            f"in use now: {self.now.source(digits='.0f')}",
            *(f"{name}: the scores determine no alpha" for name, fit in self.fits.items() if fit.at_bound),
        ]

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON-able data; a missing interval is None."""
        names = ("alpha", "low", "high", "n", "residual", "at_bound")
        fits = {norm: {name: _known(getattr(fit, name)) for name in names} for norm, fit in self.fits.items()}
        return {
            "net": self.net,
            "oracle": self.oracle,
            "threshold": self.threshold,
            "now": {"alpha": self.now.value, "origin": self.now.origin},
            "fits": fits,
            "candidates": {name: asdict(rate) for name, rate in self.rates.items()},
        }

    def saveable(self, name: FitTo) -> AlphaFit:
        """The fit of that name. Raises ValueRepairError when there is none, when it is of too few scores, and when it
        lies at a bound, where no alpha is better than another."""
        if name not in self.fits:
            raise ValueRepairError(
                f"not saved: fewer than {AUTO_MIN_POSITIONS} scored positions stood in a game with a result"
            )
        fit = self.fits[name]
        if fit.n < AUTO_MIN_POSITIONS:
            raise ValueRepairError(f"not saved: {fit.n:,} scores in centipawns, and a fit takes {AUTO_MIN_POSITIONS}")
        if fit.at_bound:
            low, high = ALPHA_BOUNDS
            raise ValueRepairError(
                f"not saved: the {fit.n:,} scores determine no alpha between {low:g} and {high:g} ({name}); "
                "mine more positions"
            )
        return fit


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _results(frame: pd.DataFrame) -> Floats:
    """[n] 1, 0 or -1 for the side to move; NaN without a result, and where no move of the game was played."""
    found = frame["result"].map(_RESULTS).to_numpy(np.float64) * np.where(frame["side"] == "w", 1, -1)
    return np.where(frame["played"].notna(), found, np.nan)


def alpha_table(store: Store, question: Question) -> AlphaTable:
    """Fits alpha to what the question's net and oracle have scored, in both norms, and to the results of the games that
    positions stood in; the question's own alpha plays no part.

    Fits and rates have the rows' weights, as `Store.alpha` has, and intervals by games. Raises ValueRepairError when
    there is nothing to fit.
    """
    net_id, oracle_id = store.pick(question.net, question.oracle)
    now = store.alpha(net_id, oracle_id)
    wanted = ("net_q", "cp", "weight", "result", "side", "played", "game_id")
    frame = store.frame(replace(question, alpha=DEFAULT_ALPHA, q_from="cp", expanded="no"), only=wanted)
    q, cp = frame["net_q"].to_numpy(np.float64), frame["cp"].to_numpy(np.float64)
    weight = frame["weight"].to_numpy(np.float64)
    game = frame["game_id"].to_numpy(np.int64)
    fits: dict[FitTo, AlphaFit] = {norm: fit_alpha(q, cp, weight, norm, game=game) for norm in NORMS}
    result = _results(frame)
    if np.count_nonzero(~(np.isnan(result) | np.isnan(cp))) >= AUTO_MIN_POSITIONS:
        fits["results"] = fit_alpha_to_results(result, cp, weight, game)
    alphas: dict[str, float] = {"default": DEFAULT_ALPHA, "now": now.value}
    alphas |= {name: fit.alpha for name, fit in fits.items()}
    rates = {}
    for name, value in alphas.items():
        asked = replace(question, alpha=value, q_from="cp")
        size = np.abs(store.frame(asked, only=("disagreement",))["disagreement"].to_numpy(np.float64))
        scored = ~np.isnan(size)
        rates[name] = weighted(size[scored] >= question.threshold, weight[scored], game[scored])
    attrs = frame.attrs
    return AlphaTable(attrs["net"]["name"], attrs["oracle"]["label"], question.threshold, now, fits, rates)
