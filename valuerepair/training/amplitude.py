"""The amplitude step: how far to go from the old net to the trained one, by games held out.

A net that has learned the right direction and gone too far in it is corrected by one number, lambda: its parameters
become old + lambda (new - old). Training goes too far by noise in the labels, by many passes, and by drawing candidates
by the judge's values (docs/methods/training.md, "The amplitude step").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.progress import Progress
from valuerepair.training.validation import Validation

Trained = dict[str, NDArray[np.float32]]

FARTHEST = 2.0
LOW = 0.6  # training warns below it
_NEAR = 0.01  # the precision of lambda


@dataclass(frozen=True, slots=True)
class Amplitude:
    """`factor` is lambda; `factor_in_q` the factor of Q with the least squared error; `measures` are
    `validation.MEASURES` of the net with these `parameters`."""

    factor: float
    factor_in_q: float
    measures: dict[str, float]
    parameters: Trained


def find_amplitude(
    validation: Validation, old: Mapping[str, Any], new: Mapping[str, Any], *, quiet: bool = False
) -> Amplitude:
    """The lambda from 0 to `FARTHEST` with the least loss of the positions held out, to two decimals.

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
    return Amplitude(best, validation.factor_in_q(new), measures[best], interpolate(old, new, best))


def interpolate(old: Mapping[str, Any], new: Mapping[str, Any], factor: float) -> Trained:
    """``old + factor (new - old)``; with a factor of 1 exactly the new parameters, beyond 1 an extrapolation."""
    scale = np.float32(factor)
    return {
        name: np.asarray(value if factor == 1 else old[name] + scale * (value - old[name]), np.float32)
        for name, value in new.items()
    }
