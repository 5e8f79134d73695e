"""Checks that a device computes a net correctly: compares a few fixed positions with the CPU at float32.

A device may load a net, report its name, be fast and yet return noise: with the wrong driver, an engine cached for
another card, or an operator that overflows in half precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from valuerepair.chess.position_text import read_position
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.nets.devices import Precision
from valuerepair.nets.planes import encode
from valuerepair.nets.policy import legal_priors
from valuerepair.nets.session import Session


class Bound(NamedTuple):
    """How far Q and a prior may be from those of the CPU at float32."""

    q: float
    prior: float


# At float32 a hundred times the rounding error, at float16 two to four times the largest difference measured on 5,000
# positions (docs/performance.md). Real faults are much larger.
BOUNDS: Mapping[Precision, Bound] = {"f32": Bound(5e-4, 5e-4), "f16": Bound(0.04, 0.04)}

_LINES = (
    "startpos",
    "startpos moves e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6 e1g1",
    "startpos moves d2d4 g8f6 c2c4 e7e6 b1c3 f8b4 e2e3 e8g8 f1d3 d7d5 g1f3 c7c5 e1g1",
    "r3k2r/pp1n1ppp/2p1bn2/q2pp3/1b1PP3/2NB1N2/PPPQ1PPP/R3K2R b Kq - 34 28",
    "8/5pk1/6p1/7p/1p5P/1P3KP1/5P2/8 w - - 0 45 moves f3e4 f7f5 e4d4",
    "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 30",
    "8/1P4k1/8/8/8/8/6K1/8 w - - 3 60",
    "r1bq1rk1/ppp2ppp/2n5/3np3/1b6/2NP1NP1/PPQBPPBP/R3K2R b KQ - 5 9 moves d8d6 e1g1",
)


def positions() -> PositionBatch:
    """The positions to compare: openings and endgames, both sides, with history and without."""
    return PositionBatch.from_positions([read_position(line) for line in _LINES])


def differences(session: Session, reference: Session, input_format: int) -> Bound:
    """The largest differences of Q and of a legal prior between two sessions of one net; NaN if either has NaN."""
    batch = positions()
    planes = encode(batch, input_format=input_format)
    answer, expected = session.run(planes), reference.run(planes)
    priors = [legal_priors(batch, raw.policy, input_format)[2].astype(np.float64) for raw in (answer, expected)]
    return Bound(
        float(np.abs(answer.q.astype(np.float64) - expected.q).max()), float(np.abs(priors[0] - priors[1]).max())
    )


def check(session: Session, reference: Path, input_format: int) -> None:
    """Compares a session with the CPU at float32, which runs the file `reference`.

    Raises ValueRepairError if the differences exceed `BOUNDS`.
    """
    bound, name = BOUNDS[session.device.precision], f"{session.onnx.name}: {session.device.name} computes it wrongly"
    try:
        largest = differences(session, Session(reference), input_format)
    except ValueRepairError as error:  # not a number, or another shape
        raise ValueRepairError(f"{name}: {error}; use --device cpu") from None
    if not (largest.q <= bound.q and largest.prior <= bound.prior):  # NaN fails too
        raise ValueRepairError(
            f"{name}: Q is up to {largest.q:.2g} and priors are up to {largest.prior:.2g} from the CPU's (at most "
            f"{bound.q:g}); use --device cpu"
        )
