"""The effect of another alpha: the fits of a store, and the candidates at each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from valuerepair.arrays import Floats
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
from valuerepair.play.game import Z
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Rate, weighted
from valuerepair.store.scale import are_alike
from valuerepair.store.screening import screens
from valuerepair.text import finite, json_fields, table_lines

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store


@dataclass(frozen=True, slots=True)
class AlphaTable:
    """The fits of one net and oracle, the alpha in use now, and the candidate rates.

    `fits` are to the ``slope`` of deep Q given net Q, and to the ``results`` of games if enough positions have one
    (`with_result`). `rates` are at the default alpha (``default``), at the one in use (``now``), and at each fit, by
    its name; `slopes` are the factors by which training with each of these alphas makes the net's Q steeper. The ladder
    cut positions by the alpha `cut_by`, None without a ladder.
    """

    net: str
    oracle: str
    threshold: float
    now: Alpha
    fits: dict[FitTo, AlphaFit]
    rates: dict[str, Rate]
    slopes: dict[str, Slope]
    with_result: int
    cut_by: float | None

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

    def saved_lines(self, name: FitTo | None) -> list[str]:
        """The effect of the fit that was saved, or, if none was (None), how to save one."""
        if name is None:
            advice = "vr stats --save-alpha slope (or results) saves it for this net and oracle"
            return [f"in use now: {self.now.source()}", f"not saved; {advice}"]
        fit = Alpha(self.fits[name].alpha, "")
        before, after = self.rates["now"].count, self.rates[name].count
        instead = "as many as" if after == before else f"instead of {before:,}"
        line = (
            f"saved: alpha {fit.shown} ({name}) for this net and oracle; by it {after:,} positions are candidates at "
            f"{self.threshold:g}, {instead} by {self.now.source()}"
        )
        if self.cut_by is None or are_alike(self.cut_by, fit.value):
            return [line]
        cut_by = Alpha(self.cut_by, "").shown
        return [
            line,
            f"screening cut positions by alpha {cut_by}: run the same vr mine again to judge these by {fit.shown}",
        ]

    def saveable(self, name: FitTo) -> AlphaFit:
        """The fit of that name. Raises ValueRepairError if it is missing, has too few scores, or lies at a bound, where
        no alpha is better than another."""
        check_word("--save-alpha", name, get_args(FitTo))
        if name not in self.fits:
            raise ValueRepairError(_too_few(self.with_result, "positions with a score in centipawns and a result"))
        fit = self.fits[name]
        if fit.n < AUTO_MIN_POSITIONS:
            raise ValueRepairError(_too_few(fit.n, "positions with a score in centipawns"))
        if fit.at_bound:
            low, high = ALPHA_BOUNDS
            raise ValueRepairError(
                f"not saved: the {fit.n:,} scores determine no alpha between {low:g} and {high:g} ({name}); "
                "mine more positions"
            )
        return fit


def _too_few(count: int, positions: str) -> str:
    more = f"mine until there are {AUTO_MIN_POSITIONS - count:,} more (positions that screening cut have none)"
    return f"not saved: {count:,} {positions}, and a fit needs {AUTO_MIN_POSITIONS}; {more}"


def _results(frame: pd.DataFrame) -> Floats:
    """[n] 1, 0 or -1 for the side to move; NaN without a result, and for positions without a played move."""
    z = frame["result"].map(Z).to_numpy(np.float64) * np.where(frame["side"] == "w", 1, -1)
    return np.where(frame["played"].notna(), z, np.nan)


def has_enough(store: Store, question: Question) -> bool:
    """Whether the question's net and oracle have enough scores in centipawns for a fit."""
    if store.pair_of(question) is None:
        return False
    cp = store.frame(replace(question, q_from="cp", expanded="no"), only=("cp",))["cp"]
    return int(cp.notna().sum()) >= AUTO_MIN_POSITIONS and int((cp.fillna(0) != 0).sum()) > 1


def alpha_table(store: Store, question: Question) -> AlphaTable:
    """Fits alpha to the scores of the question's net and oracle, and to the results of the positions' games.

    The question's own alpha plays no part. Fits and rates use the rows' weights, as `Store.alpha` does; intervals are
    by games. Raises ValueRepairError without scores to fit.
    """
    net_id, oracle_id = store.pick(question.net, question.oracle)
    now = store.alpha(net_id, oracle_id)
    columns = ("net_q", "cp", "mate", "weight", "result", "side", "played", "game_id")
    frame = store.frame(replace(question, alpha=DEFAULT_ALPHA, q_from="cp", expanded="no"), only=columns)
    q, cp = frame["net_q"].to_numpy(np.float64), frame["cp"].to_numpy(np.float64)
    weight = frame["weight"].to_numpy(np.float64)
    game = frame["game_id"].to_numpy(np.int64)
    if (other_than_0 := np.count_nonzero(np.nan_to_num(cp))) < 2:
        raise ValueRepairError(
            f"no alpha can be fitted: {np.count_nonzero(~np.isnan(cp)):,} scored positions have a centipawn score, "
            f"{other_than_0} of them other than 0; mine more positions, or give --alpha"
        )
    mate = frame["mate"].to_numpy(np.float64)
    fits: dict[FitTo, AlphaFit] = {"slope": fit_alpha(q, cp, mate, weight, game)}
    result = _results(frame)
    with_result = int(np.count_nonzero(~(np.isnan(result) | np.isnan(cp))))
    if with_result >= AUTO_MIN_POSITIONS:
        fits["results"] = fit_alpha_to_results(result, cp, weight, game)
    alphas: dict[str, float] = {"default": DEFAULT_ALPHA, "now": now.value}
    alphas |= {name: fit.alpha for name, fit in fits.items()}
    rates, slopes = {}, {}
    for name, value in alphas.items():
        alpha_question = replace(question, alpha=value, q_from="cp", expanded="no")
        scores = store.frame(alpha_question, only=("deep_q", "disagreement"))
        disagreement = scores["disagreement"].to_numpy(np.float64)
        scored = ~np.isnan(disagreement)
        rates[name] = weighted(is_candidate(disagreement[scored], question.threshold), weight[scored], game[scored])
        slopes[name] = slope_of(q, scores["deep_q"].to_numpy(np.float64), weight, game)
    attrs = frame.attrs
    names = attrs["net"]["name"], attrs["oracle"]["label"]
    ladders = screens(store, net_id, oracle_id)
    cut_by = ladders[0].alpha if ladders else None
    return AlphaTable(*names, question.threshold, now, fits, rates, slopes, with_result, cut_by)
