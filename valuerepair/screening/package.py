"""The positions that a ladder begins with before it has learned anything: they come with the package.

Each was searched in full by way of all rungs, nothing cut; data/make_screen_package.py makes the file. They say how far
a search still moves from a rung on, not what a net misjudges: another net or engine counts beside them as soon as
positions of its own are searched in full. Oracles of other sizes take the rungs of the nearest numbers of nodes.
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
    """What the package has of a kind of oracle that is `in_package`."""
    with files("valuerepair.screening").joinpath(_FILE).open("rb") as stream, np.load(stream) as content:
        return PackagePositions(*(content[f"{kind}_{name}"] for name in PackagePositions._fields))


def package_rows(kind: str, nodes: int, rungs: Sequence[int], question: Question) -> LadderRows | None:
    """The package's positions as if searched by an oracle of this kind with these rungs; None where there are none.

    Kinds that are not in it borrow those of the own search or of Stockfish; of Stockfish there are no W/D/L. For
    candidates beyond scale net Q goes through a curve of these positions, each as if it were a game of its own.
    """
    assert question.alpha is not None
    engine = kind_of(kind)
    if not engine.searches or (question.q_from == "wdl" and not engine.own_q):
        return None
    found = package_positions((OWN_SEARCH if engine.own_q else STOCKFISH).name)
    whole = int(np.argmin(np.abs(np.log(found.nodes / nodes))))
    scale = found.nodes[whole] / nodes
    at = [int(np.argmin(np.abs(np.log(found.nodes / (scale * rung))))) for rung in rungs]
    score = found.score[:, [*at, whole]].astype(np.float64)
    if engine.own_q:
        q = score / Q_PARTS
    else:
        q = np.where(np.abs(score) >= MATE_CP, np.sign(score), values.cp_to_q(score, question.alpha))
    net_q, net_best = found.net_q.astype(np.float64), found.net_best.astype(np.int64)
    if question.calibration == "fitted":
        games = np.arange(len(net_q))
        net_q = fit(net_q, q[:, -1], np.ones(len(q)), games, resamples=0).expected(net_q, fold_of(games))
    best = found.best[:, at].astype(np.int64)
    return LadderRows(tuple(rungs), nodes, net_q, net_best, q, best, np.ones(len(q)))
