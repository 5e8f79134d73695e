"""The scale of Q for readers of a store: which alpha judges a net and a judge, and what training by it does.

See docs/methods.md, "Alpha".
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from valuerepair.chess import values
from valuerepair.engines.kinds import kind_of
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.question import QFrom, Question
from valuerepair.store.columns import both_q, columns, results
from valuerepair.store.pairs import Pair, judge_of, net_key, pick
from valuerepair.store.store import Store

# A slope that differs from 1 by less leaves the scale as it is.
_SLOPE_ALIKE = 0.05
# The columns that `values.fit_alpha` takes, in its order.
_TO_FIT = ("net_q", "cp", "mate", "weight", "game_id")


def alpha(store: Store, pair: Pair, requested: float | None = None) -> values.Alpha:
    """The alpha of all commands: `requested`, else the one in use with this net and judge, else a fit to the slope of
    1, which needs `values.AUTO_MIN_POSITIONS` positions with a centipawn score, else the default."""
    chosen = chosen_alpha(store, pair, requested)
    if chosen is not None:
        return chosen
    scored = columns(store, pair, _TO_FIT)  # empties the store's cache if the store has changed
    if ("alpha", pair) not in store.cache:
        store.cache["alpha", pair] = values.auto_alpha(*(scored[name] for name in _TO_FIT))
    fitted: values.Alpha = store.cache["alpha", pair]
    return fitted


def chosen_alpha(store: Store, pair: Pair, requested: float | None = None) -> values.Alpha | None:
    """The requested alpha, else the one in use, else None. For a judge that gives Q itself, alpha has no effect."""
    if requested is not None and not 0 < requested < float("inf"):
        raise UsageError(f"alpha must be a positive number of centipawns, not {requested:g}")
    judge = judge_of(store, pair[1])
    if kind_of(judge.kind).gives_q(judge.options):
        return values.Alpha(float(requested or values.DEFAULT_ALPHA), values.OWN_Q)
    if requested is not None:
        return values.Alpha(float(requested), "given")
    used = store.setting("alpha")
    if used is None or (used["net"], used["judge"]) != (net_key(store, pair[0]), judge.digest):
        return None
    return values.Alpha(used["value"], used["origin"])


def use_alpha(store: Store, pair: Pair, used: values.Alpha, q_from: QFrom = "cp") -> None:
    """Puts an alpha in use with this net and this judge: a slope of 1 is that of one net; or Q from W/D/L.

    Raises UsageError for no such number, ValueRepairError for a judge that gives Q itself.
    """
    if not 0 < used.value < math.inf:
        raise UsageError(f"alpha must be a positive number of centipawns, not {used.value:g}")
    judge = judge_of(store, pair[1])
    if kind_of(judge.kind).gives_q(judge.options):
        raise ValueRepairError(f"not put in use: {judge.label} gives Q itself, so that no alpha has an effect")
    names = {"net": net_key(store, pair[0]), "judge": judge.digest}
    store.use(alpha={**asdict(used), **names, "q_from": q_from})


def fits(store: Store, pair: Pair) -> dict[values.FitTo, values.AlphaFit]:
    """The fits of alpha by positions of games: to the ``slope`` of judge Q on net Q, and to the ``results`` of the
    positions' games if enough of them have one. Empty with fewer than `values.AUTO_MIN_POSITIONS` scores in centipawns,
    or if all are 0. Fits use the rows' weights; intervals are by games."""
    scored = columns(store, pair, _TO_FIT)
    cp = scored["cp"]
    if np.count_nonzero(~np.isnan(cp)) < values.AUTO_MIN_POSITIONS or np.count_nonzero(np.nan_to_num(cp)) < 2:
        return {}
    found: dict[values.FitTo, values.AlphaFit] = {"slope": values.fit_alpha(*(scored[name] for name in _TO_FIT))}
    result = results(store, pair)
    if np.count_nonzero(~(np.isnan(result) | np.isnan(cp))) >= values.AUTO_MIN_POSITIONS:
        found["results"] = values.fit_alpha_to_results(result, cp, scored["weight"], scored["game_id"])
    return found


def use_fit(store: Store, pair: Pair, name: values.FitTo) -> None:
    """Puts a fit in use. Raises ValueRepairError if there are too few scores for it, or if it lies at a bound, where no
    alpha is better than another."""
    fit = fits(store, pair).get(name)
    if fit is None:
        of = " and a result" if name == "results" else ""
        raise ValueRepairError(
            f"not put in use: a fit to the {name} needs {values.AUTO_MIN_POSITIONS} positions with a score in "
            f"centipawns{of}; mine more (those that screening left out do not count)"
        )
    if fit.at_bound:
        low, high = values.ALPHA_BOUNDS
        raise ValueRepairError(
            f"not put in use: the {fit.n:,} scores determine no alpha between {low:g} and {high:g} ({name}); "
            "mine more positions"
        )
    use_alpha(store, pair, values.Alpha(fit.alpha, f"fitted on {fit.n:,} positions ({name}), in use"))


def for_training(store: Store, question: Question) -> tuple[Question, list[str]]:
    """The question with the alpha to train by, if one is used; and lines for the user: what the training targets are
    computed from and why, and what training does to the scale of the net's Q."""
    pair = pick(store, question.net, question.oracle)
    trained_by = alpha(store, pair, question.alpha)
    trained = training_scale(store, pair, trained_by, question.q_from)
    value = trained_by.value if trained_by.is_of_centipawns(question.q_from) else None
    lines = [f"training targets: {trained_by.source(question.q_from)}"]
    if trained is not None:
        lines.append(trained.line())
    return replace(question, alpha=value), lines


@dataclass(frozen=True, slots=True)
class TrainingScale:
    """What training on deep Q does to the scale of a net's Q.

    `slope`: how many times as steep the net's Q becomes (`values.slope_of`), by `alpha`. `level` is the alpha that
    would leave it as it is; None if Q is not computed from centipawns, or no alpha does.
    """

    alpha: values.Alpha
    q_from: QFrom
    slope: values.Slope
    level: float | None

    def figures(self) -> dict[str, Any]:
        """The fields and the sentence of `line`, JSON-able."""
        return {
            "alpha": self.alpha.value,
            "origin": self.alpha.origin,
            "steeper": self.slope._asdict(),
            "level": self.level,
            "words": self.line(),
        }

    def line(self) -> str:
        """The scale as a sentence for the user."""
        of_centipawns = self.alpha.is_of_centipawns(self.q_from)
        source = f"alpha {self.alpha.shown}" if of_centipawns else self.alpha.source(self.q_from)
        if self.slope.value <= 0:
            return f"by {source} the scale of the net's Q cannot be determined: deep Q does not rise with net Q"
        steep = f"{self.slope.value:.2f} times as steep (95 %: {self.slope.low:.2f} to {self.slope.high:.2f})"
        if abs(self.slope.value - 1) < _SLOPE_ALIKE:
            return f"by {source} the net's Q would keep its scale: {steep}"
        level = (
            "" if self.level is None else f"; alpha {values.Alpha(self.level, '').shown} would leave its scale alone"
        )
        return f"by {source} the net's Q would become {steep}{level}"


def training_scale(store: Store, pair: Pair, trained_by: values.Alpha, q_from: QFrom) -> TrainingScale | None:
    """What training by this alpha does to the scale of the net's Q, by positions of games; None if fewer than
    `values.AUTO_MIN_POSITIONS` of them have both values."""
    scored = columns(store, pair, _TO_FIT)
    net_q, deep_q = both_q(store, pair, trained_by.value, q_from)
    if int((~np.isnan(net_q + deep_q)).sum()) < values.AUTO_MIN_POSITIONS:
        return None
    slope = values.slope_of(net_q, deep_q, scored["weight"], scored["game_id"])
    if math.isnan(slope.value):
        return None
    level = None
    if trained_by.is_of_centipawns(q_from):
        keeping = values.fit_alpha(*(scored[name] for name in _TO_FIT))
        level = None if keeping.at_bound else keeping.alpha
    return TrainingScale(trained_by, q_from, slope, level)
