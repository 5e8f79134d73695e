"""Measures of a net on games held out, compared with the net that training began with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import calibration, signals
from valuerepair.arrays import Floats
from valuerepair.chess.origins import KINDS
from valuerepair.errors import ValueRepairError
from valuerepair.question import is_candidate
from valuerepair.training.learner import Answers, Learner
from valuerepair.training.losses import LossWeights
from valuerepair.training.samples import Samples
from valuerepair.training.sources import Held

# `loss` is what training minimizes, over all positions; then its parts.
MEASURES = (
    *("loss", "value", "policy", "moves_left", "policy_kl"),
    *("top_1", "judge_move", "mean_dq", "rate", "rate_calibrated", "newly_wrong"),
)
# For each of several kinds of positions: mean |net Q - deep Q|, mean of its square, share of candidates.
OF_KINDS = ("mean_dq", "squared", "rate")


class Validation:
    """Positions of games held out, and the old net's answers for them."""

    def __init__(
        self,
        held: Sequence[Held],
        learner: Learner,
        weights: LossWeights,
        threshold: float,
        batch: int,
        old: Mapping[str, Any],
    ) -> None:
        """`old` are the trained parameters before the first step."""
        self._samples = Samples.concat([part.samples for part in held])
        self._game = np.concatenate([part.game for part in held])
        kind = np.concatenate([part.kind for part in held])
        among = {name: kind == name for name in KINDS}
        # With only one kind its measures would equal those of all positions.
        self._kinds = {name: rows for name, rows in among.items() if rows.any() and not rows.all()}
        self._learner, self._weights, self._threshold, self._batch = learner, weights, threshold, batch
        self._deep, self._weight = (
            column.astype(np.float64) for column in (self._samples.deep_q, self._samples.weight)
        )
        self._old = self._answers(old)

    def measure(self, parameters: Mapping[str, Any]) -> dict[str, float]:
        """`MEASURES` of the net with these trained parameters, means by weight; NaN for unknown values.

        With several kinds of positions also `OF_KINDS` of each: ``mean_dq_aside`` and so on.
        """
        new = self._answers(parameters)
        means = {name: self._mean(values) for name, values in new.parts.items()}
        measures = dict.fromkeys(MEASURES, np.nan) | means
        measures["loss"] = self._sum(means)
        legal = np.isfinite(new.log_policy) & (new.log_policy > -1e9)
        if legal.any():
            old_log, new_log = self._old.log_policy.astype(np.float64), new.log_policy.astype(np.float64)
            measures["policy_kl"] = self._mean((np.where(legal, np.exp(old_log) * (old_log - new_log), 0)).sum(1))
            first, judged = new_log.argmax(1), self._samples.judged
            measures["top_1"] = self._mean((old_log.argmax(1) == first).astype(np.float64))
            if new_log.any():  # zeros stand for the policy if only the value head is computed
                measures["judge_move"] = self._mean(judged == first, judged >= 0)
        disagreement, before = new.q - self._deep, self._old.q - self._deep
        is_known = ~np.isnan(disagreement) & (self._weight > 0)
        if is_known.any():
            wrong = is_candidate(disagreement, self._threshold)
            measures["mean_dq"] = self._mean(np.abs(disagreement), is_known)
            measures["rate"] = self._mean(wrong, is_known)
            measures["newly_wrong"] = self._mean(wrong & ~is_candidate(before, self._threshold), is_known)
            measures["rate_calibrated"] = self._calibrated_rate(new.q, is_known)
        for kind, rows in self._kinds.items():
            columns = (np.abs(disagreement), disagreement**2, is_candidate(disagreement, self._threshold))
            for name, column in zip(OF_KINDS, columns, strict=True):
                measures[f"{name}_{kind}"] = self._mean(column, is_known & rows)
        return measures

    def loss(self, parameters: Mapping[str, Any]) -> float:
        """The loss that training minimizes, of the net with these trained parameters."""
        return self._sum({name: self._mean(values) for name, values in self._answers(parameters).parts.items()})

    def factor_in_q(self, parameters: Mapping[str, Any]) -> float:
        """The factor of the change in Q, from the old net to that with these trained parameters, with the least squared
        error from deep Q; NaN without a known deep Q, or if Q has not changed."""
        is_known = ~np.isnan(self._deep)
        step, distance = self._answers(parameters).q - self._old.q, self._deep - self._old.q
        square = self._mean(step**2, is_known)
        return self._mean(step * distance, is_known) / square if square > 0 else np.nan

    def _sum(self, means: Mapping[str, float]) -> float:
        return float(sum(getattr(self._weights, name) * value for name, value in means.items()))

    def _calibrated_rate(self, q: Floats, is_known: NDArray[np.bool_]) -> float:
        """The rate of candidates if the curve of other games judges each position; NaN with too few positions."""
        game = self._game.view(np.int64)
        try:
            curve = calibration.fit(q, self._deep, np.where(is_known, self._weight, 0), game, resamples=0)
        except ValueRepairError:
            return np.nan
        disagreement = curve.expected(q, calibration.fold_of(game)) - self._deep
        return self._mean(is_candidate(disagreement, self._threshold), is_known)

    def _mean(self, values: NDArray[Any], among: NDArray[np.bool_] | None = None) -> float:
        weight = self._weight if among is None else np.where(among, self._weight, 0)
        total = weight.sum()
        return float(np.where(weight > 0, values, 0) @ weight / total) if total else np.nan

    def _answers(self, parameters: Mapping[str, Any]) -> Answers:
        batches = []
        for begin in range(0, len(self._samples), self._batch):
            signals.check()
            rows = np.arange(begin, min(begin + self._batch, len(self._samples)))
            answer = self._learner.evaluate(parameters, self._samples.take(rows).batch(self._batch))
            parts = {name: np.asarray(values, np.float64)[: len(rows)] for name, values in answer.parts.items()}
            batches.append(
                (np.asarray(answer.q, np.float64)[: len(rows)], np.asarray(answer.log_policy)[: len(rows)], parts)
            )
        q, log_policy, losses = zip(*batches, strict=True)
        return Answers(
            np.concatenate(q),
            np.concatenate(log_policy),
            {name: np.concatenate([part[name] for part in losses]) for name in losses[0]},
        )
