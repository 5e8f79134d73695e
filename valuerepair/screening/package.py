"""The positions that come with the package, with which a ladder begins before it has positions of its own.

Each was searched at all rungs and in full, without cuts; data/make_screen_package.py makes the file. They show how far
a search still moves after a rung, not what a net misjudges, so the fit also uses positions of the net and engine in
question as soon as some are searched in full. Oracles of other sizes use the rungs with the nearest numbers of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.calibration import fit, fold_of
from valuerepair.chess import values
from valuerepair.engines.kinds import OWN_SEARCH, STOCKFISH, kind_of
from valuerepair.question import Question
from valuerepair.screening.fit import LadderRows

_FILE = "package.npz"
# Mates are stored as these centipawns, and Q in these parts of 1.
MATE_CP = 32_000
Q_PARTS = 30_000


class PackagePositions(NamedTuple):
    """Positions of one kind of oracle: `net_q`, `net_best` [n]; `nodes` [m] of searches, the last in full; `score` and
    `best` [n, m]. Scores are centipawns, or Q in `Q_PARTS` of a search with a net; moves are numbers."""

    net_q: NDArray[np.float32]
    net_best: NDArray[np.uint16]
    nodes: NDArray[np.int64]
    score: NDArray[np.int16]
    best: NDArray[np.uint16]


@cache
def package_positions(kind: str) -> PackagePositions:
    """The package's positions of a kind of oracle that is `in_package`."""
    with files("valuerepair.screening").joinpath(_FILE).open("rb") as stream, np.load(stream) as content:
        return PackagePositions(*(content[f"{kind}_{name}"] for name in PackagePositions._fields))


def package_rows(kind: str, nodes: int, rungs: Sequence[int], question: Question) -> LadderRows | None:
    """The package's positions as if an oracle of this kind had searched them at these rungs; None without any.

    Kinds that are not in the package borrow the positions of our own search or of Stockfish; those of Stockfish have no
    W/D/L. For candidates beyond scale, net Q is calibrated on these positions, with each position as a game of its own.
    """
    assert question.alpha is not None
    engine = kind_of(kind)
    if not engine.searches or (question.q_from == "wdl" and not engine.own_q):
        return None
    positions = package_positions((OWN_SEARCH if engine.own_q else STOCKFISH).name)
    full = int(np.argmin(np.abs(np.log(positions.nodes / nodes))))
    scale = positions.nodes[full] / nodes
    at = [int(np.argmin(np.abs(np.log(positions.nodes / (scale * rung))))) for rung in rungs]
    score = positions.score[:, [*at, full]].astype(np.float64)
    if engine.own_q:
        q = score / Q_PARTS
    else:
        q = np.where(np.abs(score) >= MATE_CP, np.sign(score), values.cp_to_q(score, question.alpha))
    net_q, net_best = positions.net_q.astype(np.float64), positions.net_best.astype(np.int64)
    games = np.arange(len(net_q))
    if question.calibration == "fitted":
        net_q = fit(net_q, q[:, -1], np.ones(len(q)), games, resamples=0).expected(net_q, fold_of(games))
    best = positions.best[:, at].astype(np.int64)
    return LadderRows(tuple(rungs), nodes, net_q, net_best, q, best, np.ones(len(q)), games)
