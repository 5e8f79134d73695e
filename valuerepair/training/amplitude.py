"""The amplitude step: how far to go from the old net to the trained one, by games held out.

A net that has learned the right direction and gone too far in it is mended by one number, lambda: its parameters become
old + lambda (new - old). Noise of the labels makes a training go too far, and so do many passes, and candidates drawn
by what the judge said of them (docs/methods/training.md, "The amplitude step").
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
LOW = 0.6  # of which a training is warned
_NEAR = 0.01  # how exactly lambda is sought


@dataclass(frozen=True, slots=True)
class Amplitude:
    """`factor` is lambda; `factor_in_q` that which the same in Q would have, by the least squared error; `measures` are
    those of `validation.MEASURES` of the net with these `parameters`."""

    factor: float
    factor_in_q: float
    measures: dict[str, float]
    parameters: Trained


def find_amplitude(
    validation: Validation, old: Mapping[str, Any], new: Mapping[str, Any], *, quiet: bool = False
) -> Amplitude:
    """The lambda from 0 to `FARTHEST` with the least loss of the positions held out, to two decimals.

    `old` and `new` are the trained parameters before and after training, which count as they are written. The loss is
    never larger than that of the new net.
    """
    from scipy.optimize import minimize_scalar

    with Progress("Amplitude", None, "nets", quiet=quiet) as progress:

        def loss(factor: float) -> float:
            progress.advance()
            return validation.loss(between(old, new, factor))

        found = minimize_scalar(loss, bounds=(0, FARTHEST), method="bounded", options={"xatol": _NEAR})
        factor = round(float(found.x), 2)
        measures = {each: validation.measure(between(old, new, each)) for each in (factor, 1.0)}
    best = min(measures, key=lambda each: measures[each]["loss"])
    return Amplitude(best, validation.factor_in_q(new), measures[best], between(old, new, best))


def between(old: Mapping[str, Any], new: Mapping[str, Any], factor: float) -> Trained:
    """old + factor (new - old); with a factor of 1 the new ones to the bit."""
    scale = np.float32(factor)
    return {
        name: np.asarray(value if factor == 1 else old[name] + scale * (value - old[name]), np.float32)
        for name, value in new.items()
    }
