"""The loop of training: steps, judgements on games held out, checkpoints, when to stop, and the amplitude step.

If a net has learned the right direction, but has moved too far in it, one number, lambda, corrects it: its parameters
become old + lambda (new - old). Noise in the labels and many passes make training move too far (docs/methods.md, "The
amplitude step").
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.chess.origins import KINDS
from valuerepair.errors import ValueRepairError
from valuerepair.progress import Progress
from valuerepair.question import is_candidate
from valuerepair.training import checkpoint
from valuerepair.training.learner import Answers, Learner, State, TrainableNet
from valuerepair.training.losses import LossWeights
from valuerepair.training.options import TrainOptions
from valuerepair.training.samples import Samples
from valuerepair.training.sources import Held, TrainingStream

# `loss` is what training minimizes, over all positions; then its parts; then the measures of the judged positions.
MEASURES = (
    *("loss", "value", "policy", "moves_left", "policy_kl"),
    *("judge_move", "mean_dq", "rate"),
)
OF_KINDS = ("mean_dq", "rate")  # for each of several kinds of positions


class Validation:
    """Positions of games held out, and the old net's answers for them."""

    def __init__(
        self,
        held: Sequence[Held],
        learner: Learner,
        weights: LossWeights,
        options: TrainOptions,
        old: Mapping[str, Any],
    ) -> None:
        """`old` are the trained parameters before the first step."""
        self._samples = Samples.concat([part.samples for part in held])
        kind = np.concatenate([part.kind for part in held])
        among = {name: kind == name for name in KINDS}
        # With only one kind its measures would equal those of all positions.
        self._kinds = {name: rows for name, rows in among.items() if rows.any() and not rows.all()}
        self._learner, self._weights, self._threshold, self._batch = learner, weights, options.threshold, options.batch
        self._deep, self._weight = (
            column.astype(np.float64) for column in (self._samples.deep_q, self._samples.weight)
        )
        self._old = self._answers(old)

    def measure(self, parameters: Mapping[str, Any]) -> dict[str, float]:
        """`MEASURES` of the net with these trained parameters, means by weight; NaN for unknown values.

        With several kinds of positions also `OF_KINDS` of each: ``mean_dq_search`` and so on.
        """
        new = self._answers(parameters)
        means = {name: self._mean(values) for name, values in new.parts.items()}
        measures = dict.fromkeys(MEASURES, np.nan) | means
        measures["loss"] = self._sum(means)
        legal = np.isfinite(new.log_policy) & (new.log_policy > -1e9)
        if legal.any():
            old_log, new_log = self._old.log_policy.astype(np.float64), new.log_policy.astype(np.float64)
            measures["policy_kl"] = self._mean((np.where(legal, np.exp(old_log) * (old_log - new_log), 0)).sum(1))
            judged = self._samples.judged
            measures["judge_move"] = self._mean(judged == new_log.argmax(1), judged >= 0)
        disagreement = new.q - self._deep
        is_known = ~np.isnan(disagreement)
        columns = np.abs(disagreement), is_candidate(disagreement, self._threshold)
        for name, column in zip(OF_KINDS, columns, strict=True):
            measures[name] = self._mean(column, is_known)
            measures |= {f"{name}_{kind}": self._mean(column, is_known & rows) for kind, rows in self._kinds.items()}
        return measures

    def loss(self, parameters: Mapping[str, Any]) -> float:
        """The loss that training minimizes, of the net with these trained parameters."""
        return self._sum({name: self._mean(values) for name, values in self._answers(parameters).parts.items()})

    def _sum(self, means: Mapping[str, float]) -> float:
        return float(sum(getattr(self._weights, name) * value for name, value in means.items()))

    def _mean(self, values: NDArray[Any], among: NDArray[np.bool_] | None = None) -> float:
        weight = self._weight if among is None else np.where(among, self._weight, 0)
        total = weight.sum()
        return float(np.where(weight > 0, values, 0) @ weight / total) if total else np.nan

    def _answers(self, parameters: Mapping[str, Any]) -> Answers:
        batches = []
        for begin in range(0, len(self._samples), self._batch):
            if stop.asked():
                raise KeyboardInterrupt
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


Trained = dict[str, NDArray[np.float32]]

CHECKPOINT_S = 60.0
FARTHEST = 2.0
LOW = 0.6  # training warns about an amplitude below it
_NEAR = 0.01  # the precision of lambda


@dataclass(slots=True)
class Fitted:
    """The result of a training: the trained parameters, those of the best judgement, and the rows of the curve.

    `stopped` is the reason for an end before the last step, else "". The parameters are those after the amplitude step.
    `amplitude` is None without that step: no games are held out, or no judgement was better than the old net.
    """

    parameters: Trained
    curve: list[dict[str, float]]
    best_step: int
    stopped: str = ""
    amplitude: Amplitude | None = None


@dataclass(slots=True)
class _TrainingState:
    """The state of a training. `total` is the sum of the losses of `counted` steps, those since the last judgement."""

    state: State
    best: Trained
    step: int = 0
    best_step: int = 0
    best_loss: float = math.inf
    total: float = 0.0
    counted: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)


def fit(
    net: TrainableNet,
    stream: TrainingStream,
    held: Sequence[Held],
    options: TrainOptions,
    *,
    policy_kl: float,
    checkpoint: Path,
    identity: Mapping[str, Any],
    on_curve: Callable[[list[dict[str, float]]], None] = lambda rows: None,
    quiet: bool = False,
) -> Fitted:
    """Trains a net, or resumes from the checkpoint of the same `identity`.

    It ends with the amplitude step. Interruptions do not change the result. `on_curve` gets the curve after each
    judgement. Raises ValueRepairError if the loss is not a number, UsageError for a checkpoint of another training, and
    KeyboardInterrupt after an interruption, when the checkpoint is written.
    """
    value_only = options.only == "value"
    weights = LossWeights(policy=0.0, moves_left=0.0) if value_only else LossWeights(policy_kl=policy_kl)
    learner = Learner(net, options, weights)
    old = {name: net.parameters[name] for name in learner.trained}
    validation = Validation(held, learner, weights, options, old) if held else None
    fitted = _TrainingSteps(learner, options, validation, checkpoint, identity, on_curve, quiet).run(stream)
    if fitted.best_step and validation is not None:
        fitted.amplitude = find_amplitude(validation, old, fitted.parameters, quiet=quiet)
    if fitted.best_step and options.amplitude is not None:
        fitted.amplitude = _amplitude_of(options.amplitude, fitted, validation, old)
    if fitted.amplitude is not None:
        fitted.parameters = fitted.amplitude.parameters
    return fitted


class _TrainingSteps:
    def __init__(
        self,
        learner: Learner,
        options: TrainOptions,
        validation: Validation | None,
        path: Path,
        identity: Mapping[str, Any],
        on_curve: Callable[[list[dict[str, float]]], None],
        quiet: bool,
    ) -> None:
        self._learner, self._options, self._validation = learner, options, validation
        self._path, self._identity, self._on_curve, self._quiet = path, identity, on_curve, quiet

    def run(self, stream: TrainingStream) -> Fitted:
        run, stopped = self._restored(), ""
        remaining = self._options.total_steps - run.step
        with (
            Progress("Training", remaining, "steps", quiet=self._quiet) as progress,
            closing(stream.batches(run.step)) as batches,
            stop.flag(),
        ):
            if remaining:
                progress.say("compiling the net for training: up to a minute")
                progress.stage("compiling")
            if self._is_due(run):
                self._judge(run)
            if run.step:
                progress.say(f"resuming after step {run.step:,} of {self._options.total_steps:,}")
            saved = started = time.monotonic()
            pending: tuple[int, Any] | None = None
            stopped = self._reason_to_stop(run)
            for done, batch in enumerate(batches if remaining else (), 1):
                if stopped or done > remaining:
                    break
                run.state, losses = self._learner.step(run.state, batch, run.step)
                run.step += 1
                # The loss of the step before: the loss of this step is still being computed.
                self._count(run, pending)
                pending = (run.step, losses["loss"])
                if self._is_due(run) or stop.asked() or time.monotonic() - saved >= CHECKPOINT_S:
                    self._count(run, pending)
                    pending = None
                    self._save(run)
                    saved = time.monotonic()
                    if stop.asked():
                        raise KeyboardInterrupt
                    if self._is_due(run):
                        self._judge(run)
                speed = done * self._options.batch / (time.monotonic() - started)
                progress.note(f"{self._loss_text(run)}, {speed:,.0f} positions/s")
                progress.advance()
                progress.stage("")  # the first step compiles, and is not in the rate
                stopped = self._reason_to_stop(run)
        if self._validation is None:
            run.best, run.best_step = _copied(run.state.parameters), run.step
        return Fitted(run.best, run.curve, run.best_step, stopped)

    def _count(self, run: _TrainingState, pending: tuple[int, Any] | None) -> None:
        """Adds the loss of a step. Raises ValueRepairError if it is not a number."""
        if pending is None:
            return
        step, loss = pending[0], float(pending[1])
        if not math.isfinite(loss):
            remark = f"the checkpoint of an earlier step is kept, {self._path}; " if self._path.exists() else ""
            raise ValueRepairError(f"step {step:,}: the loss is {loss}, training stops; {remark}try a lower --lr")
        run.total, run.counted = run.total + loss, run.counted + 1

    def _is_due(self, run: _TrainingState) -> bool:
        """Whether a judgement is due: before the first step, after the last, and in between."""
        is_time = run.step % self._options.interval == 0 or run.step == self._options.total_steps
        return is_time and not (run.curve and run.curve[-1]["step"] == run.step)

    def _judge(self, run: _TrainingState) -> None:
        """Adds a row to the curve, and keeps the parameters if they are the best so far."""
        row: dict[str, float] = {
            "step": run.step,
            "lr": self._options.rate(run.step - 1) if run.step else 0.0,
            "train_loss": run.total / run.counted if run.counted else math.nan,
        }
        if self._validation is not None:
            row |= self._validation.measure(run.state.parameters)
            if not math.isfinite(row["loss"]):
                raise ValueRepairError(
                    f"step {run.step:,}: the loss of held-out games is not a number; try a lower --lr"
                )
            if row["loss"] < run.best_loss:
                run.best, run.best_loss, run.best_step = _copied(run.state.parameters), row["loss"], run.step
        run.curve.append(row)
        run.total, run.counted = 0.0, 0
        self._on_curve(run.curve)

    def _reason_to_stop(self, run: _TrainingState) -> str:
        judgements = sum(row["step"] > run.best_step for row in run.curve)
        if self._validation is None or not self._options.patience or judgements < self._options.patience:
            return ""
        return f"no better on held-out games since step {run.best_step:,}"

    def _loss_text(self, run: _TrainingState) -> str:
        last = run.curve[-1]
        return f"held-out loss {last['loss']:.4f}" if "loss" in last else f"loss {last['train_loss']:.4f}"

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _arrays(self, run: _TrainingState) -> dict[str, NDArray[Any]]:
        """The arrays of a checkpoint: the state's in their order, then the best parameters."""
        state = {f"state{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(run.state))}
        return state | {f"best{i}": run.best[name] for i, name in enumerate(self._learner.trained)}

    def _save(self, run: _TrainingState) -> None:
        arrays = self._arrays(run)
        if not all(np.isfinite(array).all() for name, array in arrays.items() if name.startswith("state")):
            raise ValueRepairError(f"step {run.step:,}: parameters are NaN or infinite; try a lower --lr")
        curve: list[dict[str, int | float | None]] = [dict(row) for row in run.curve]
        notes = checkpoint.Notes(run.step, run.best_step, run.best_loss, run.total, run.counted, curve)
        checkpoint.save(self._path, self._identity, notes, arrays)

    def _restored(self) -> _TrainingState:
        initial = self._learner.begin()
        run = _TrainingState(initial, _copied(initial.parameters))
        if not self._path.exists():
            return run
        notes, arrays = checkpoint.load(self._path, self._identity, self._arrays(run))
        state = [jax.numpy.asarray(array) for name, array in arrays.items() if name.startswith("state")]
        best = {name: arrays[f"best{i}"] for i, name in enumerate(self._learner.trained)}
        return _TrainingState(
            jax.tree.unflatten(jax.tree.structure(initial), state),
            best,
            notes.step,
            notes.best_step,
            math.inf if notes.best_loss is None else notes.best_loss,
            notes.total,
            notes.counted,
            [{name: math.nan if value is None else value for name, value in row.items()} for row in notes.curve],
        )


def _copied(parameters: Mapping[str, Any]) -> Trained:
    """Copies in NumPy, which the next step does not change."""
    return {name: np.array(value, np.float32, copy=True) for name, value in parameters.items()}


@dataclass(frozen=True, slots=True)
class Amplitude:
    """The amplitude step: `factor` is lambda, `of_held_out` the lambda with the least loss on the held-out games (NaN
    without them); `measures` are `MEASURES` of the net with the new `parameters`."""

    factor: float
    of_held_out: float
    measures: dict[str, float]
    parameters: Trained


def find_amplitude(
    validation: Validation, old: Mapping[str, Any], new: Mapping[str, Any], *, quiet: bool = False
) -> Amplitude:
    """The lambda from 0 to `FARTHEST` with the least loss on the positions held out, to two decimals.

    `old` and `new` are the trained parameters before and after training, in the form that is written. The loss is never
    larger than that of the new net.
    """
    from scipy.optimize import minimize_scalar

    with Progress("Amplitude", None, "nets", quiet=quiet) as progress:

        def loss(factor: float) -> float:
            progress.advance()
            return validation.loss(interpolate(old, new, factor))

        minimum = minimize_scalar(loss, bounds=(0, FARTHEST), method="bounded", options={"xatol": _NEAR})
        factor = round(float(minimum.x), 2)
        measures = {candidate: validation.measure(interpolate(old, new, candidate)) for candidate in (factor, 1.0)}
    best = min(measures, key=lambda candidate: measures[candidate]["loss"])
    return Amplitude(best, best, measures[best], interpolate(old, new, best))


def _amplitude_of(factor: float, fitted: Fitted, validation: Validation | None, old: Mapping[str, Any]) -> Amplitude:
    """The amplitude step with this lambda, not that of the held-out games. Without these there are no measures."""
    parameters = interpolate(old, fitted.parameters, factor)
    if validation is None or fitted.amplitude is None:
        return Amplitude(factor, math.nan, {}, parameters)
    return replace(fitted.amplitude, factor=factor, measures=validation.measure(parameters), parameters=parameters)


def interpolate(old: Mapping[str, Any], new: Mapping[str, Any], factor: float) -> Trained:
    """``old + factor (new - old)``; with a factor of 1 exactly the new parameters, beyond 1 an extrapolation."""
    scale = np.float32(factor)
    return {
        name: np.asarray(value if factor == 1 else old[name] + scale * (value - old[name]), np.float32)
        for name, value in new.items()
    }
