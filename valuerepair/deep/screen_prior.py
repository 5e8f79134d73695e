"""The models that a ladder begins with before it has learned much: they come with the package.

They were learned from positions of master games, maia-1900 against Stockfish 15.1 at a million nodes, at two alphas
(see docs/methods.md). They speak of margins, not of nets: another net or oracle moves away from them as it is
calibrated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from valuerepair.deep.screen import RungModel
from valuerepair.deep.screen_fit import Calibration, Learner, Prior, fit_rungs

_FILE = "screen_prior.json"
_DIGITS = 5


@cache
def package_prior() -> Prior:
    """The models of the package, each with the share of the oracle's nodes that its rung is at."""
    content = json.loads(files("valuerepair.deep").joinpath(_FILE).read_text("utf-8"))
    return tuple((rung["share"], _model(rung)) for rung in content["rungs"])


def _model(rung: dict[str, object]) -> RungModel:
    centre, scale, coefficients = (np.array(rung[name], np.float64) for name in ("centre", "scale", "coefficients"))
    scale[scale == 0] = np.inf
    names = tuple(str(name) for name in np.atleast_1d(np.array(rung["names"])))
    return RungModel(0, names, centre, scale, coefficients, np.empty(0), 0.0)


def prior_text(calibrations: Sequence[Calibration], threshold: float, source: str) -> str:
    """The file of the models learned from these calibrations together, which have the same rungs."""
    first = calibrations[0]
    together = Calibration(
        first.rungs,
        first.nodes,
        *(np.concatenate([getattr(c, name) for c in calibrations]) for name in ("signals", "q", "best", "weights")),
    )
    rungs = [
        {
            "share": model.nodes / first.nodes,
            "names": model.names,
            "centre": _rounded(model.centre),
            "scale": _rounded(np.where(np.isinf(model.scale), 0, model.scale)),
            "coefficients": _rounded(model.coefficients),
        }
        for model in fit_rungs(together, threshold, Learner())
    ]
    return json.dumps({"source": source, "rungs": rungs}, indent=1) + "\n"


def _rounded(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
