"""The effect of another alpha: the fits of a store, and the candidates at each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from valuerepair.chess.values import (
    ALPHA_BOUNDS,
    AUTO_MIN_POSITIONS,
    DEFAULT_ALPHA,
    Alpha,
    AlphaFit,
    FitTo,
    Slope,
    fit_alpha,
    fit_alpha_to_results,
    slope_of,
)
from valuerepair.errors import ValueRepairError, check_word
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Rate, weighted
from valuerepair.store import alpha as alphas
from valuerepair.store.columns import both_q, columns, results
from valuerepair.store.pairs import judge_of, net_label, pair_of, pick
from valuerepair.text import finite, json_fields, table_lines

if TYPE_CHECKING:
    from valuerepair.store.store import Store


@dataclass(frozen=True, slots=True)
class AlphaTable:
    """The fits of one net and judge, the alpha in use now, and the candidate rates.

    `fits` are to the ``slope`` of deep Q given net Q, and to the ``results`` of games if enough positions have one
    (`with_result`). `rates` are at the default alpha (``default``), at the one in use (``now``), and at each fit, by
    its name; `slopes` are the factors by which training with each of these alphas makes the net's Q steeper.
    """

    net: str
    oracle: str
    threshold: float
    now: Alpha
    fits: dict[FitTo, AlphaFit]
    rates: dict[str, Rate]
    slopes: dict[str, Slope]
    with_result: int

    def lines(self) -> list[str]:
        """The table as text."""
        rows = {"default": ("default", f"{DEFAULT_ALPHA:.0f}", "", "")}
        for name, fit in self.fits.items():
            interval = "" if math.isnan(fit.low) else f"{fit.low:.0f} to {fit.high:.0f}"
            rows[name] = (f"fit {name}", f"{fit.alpha:.0f}", interval, f"{fit.residual:.4f}")
        header = f"candidates at {self.threshold:g}"
        columns = f":<11 | alpha:>6 | 95 % interval:<15 | residual:>8 | steeper:>8 | {header}:<"
        # A slope of 0 or less is no scale: deep Q does not rise with net Q.
        steeper = {name: f"{slope.value:.2f}" if slope.value > 0 else "-" for name, slope in self.slopes.items()}
        positions = self.fits["slope"].n
        return [
            f"{self.net}, {self.oracle}: {positions:,} positions with a centipawn score",
            *table_lines(columns, ((*row, steeper[name], self.rates[name]) for name, row in rows.items())),
            "steeper: how many times as steep the net's Q becomes by training with this alpha",
            f"in use now: {self.now.source()}; vr stats --use alpha=slope puts a fit in use",
            *(f"{name}: the scores determine no alpha" for name, fit in self.fits.items() if fit.at_bound),
        ]

    def as_json(self) -> dict[str, Any]:
        """The table as JSON-able data; a missing interval is None."""
        names = ("alpha", "low", "high", "n", "residual", "at_bound")
        fits = {target: {name: json_fields(getattr(fit, name)) for name in names} for target, fit in self.fits.items()}
        return {
            "net": self.net,
            "oracle": self.oracle,
            "threshold": self.threshold,
            "now": {"alpha": self.now.value, "origin": self.now.origin},
            "fits": fits,
            "candidates": json_fields(self.rates),
            "steeper": {name: finite(slope.value) for name, slope in self.slopes.items()},
        }

    def saveable(self, name: FitTo) -> AlphaFit:
        """The fit of that name. Raises ValueRepairError if it is missing, has too few scores, or lies at a bound, where
        no alpha is better than another."""
        check_word("--use alpha", name, get_args(FitTo))
        if name not in self.fits:
            raise ValueRepairError(_too_few(self.with_result, "positions with a score in centipawns and a result"))
        fit = self.fits[name]
        if fit.n < AUTO_MIN_POSITIONS:
            raise ValueRepairError(_too_few(fit.n, "positions with a score in centipawns"))
        if fit.at_bound:
            low, high = ALPHA_BOUNDS
            raise ValueRepairError(
                f"not put in use: the {fit.n:,} scores determine no alpha between {low:g} and {high:g} ({name}); "
                "mine more positions"
            )
        return fit


def _too_few(count: int, positions: str) -> str:
    more = f"mine until there are {AUTO_MIN_POSITIONS - count:,} more (positions that screening left out do not count)"
    return f"not put in use: {count:,} {positions}, and a fit needs {AUTO_MIN_POSITIONS}; {more}"


def has_enough(store: Store, question: Question) -> bool:
    """Whether the question's net and judge have enough scores in centipawns for a fit."""
    pair = pair_of(store, question.net, question.oracle)
    if pair is None:
        return False
    cp = columns(store, pair, ("cp",))["cp"]
    return int((~np.isnan(cp)).sum()) >= AUTO_MIN_POSITIONS and int((np.nan_to_num(cp) != 0).sum()) > 1


def alpha_table(store: Store, question: Question) -> AlphaTable:
    """Fits alpha to the scores of the question's net and judge, and to the results of the positions' games.

    The question's own alpha plays no part. Fits and rates use the rows' weights, as `store.alpha` does; intervals are
    by games. Raises ValueRepairError without scores to fit.
    """
    pair = pick(store, question.net, question.oracle)
    now = alphas.alpha(store, pair)
    read = columns(store, pair, ("net_q", "cp", "mate", "weight", "game_id"))
    q, cp, mate, weight, game = (read[name] for name in ("net_q", "cp", "mate", "weight", "game_id"))
    if (other_than_0 := np.count_nonzero(np.nan_to_num(cp))) < 2:
        raise ValueRepairError(
            f"no alpha can be fitted: {np.count_nonzero(~np.isnan(cp)):,} scored positions have a centipawn score, "
            f"{other_than_0} of them other than 0; mine more positions, or give --use alpha=NUMBER"
        )
    fits: dict[FitTo, AlphaFit] = {"slope": fit_alpha(q, cp, mate, weight, game)}
    result = results(store, pair)
    with_result = int(np.count_nonzero(~(np.isnan(result) | np.isnan(cp))))
    if with_result >= AUTO_MIN_POSITIONS:
        fits["results"] = fit_alpha_to_results(result, cp, weight, game)
    used: dict[str, float] = {"default": DEFAULT_ALPHA, "now": now.value}
    used |= {name: fit.alpha for name, fit in fits.items()}
    rates, slopes = {}, {}
    for name, value in used.items():
        net_q, deep_q = both_q(store, pair, value, "cp")
        disagreement = net_q - deep_q
        scored = ~np.isnan(disagreement)
        rates[name] = weighted(is_candidate(disagreement[scored], question.threshold), weight[scored], game[scored])
        slopes[name] = slope_of(q, deep_q, weight, game)
    net, judge = net_label(store, pair[0]), judge_of(store, pair[1]).label
    return AlphaTable(net, judge, question.threshold, now, fits, rates, slopes, with_result)
