"""What nets say of the positions of a store: Q and policy, each net asked once and kept by its file's SHA-256."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess.progress import Progress
from valuerepair.files import written_whole
from valuerepair.nets.net import Net, NetValues, open_net
from valuerepair.nets.weights import read_net_file
from valuerepair.store.store import Store

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Answers:
    """A net at one node on the positions `ids` [n], ascending.

    `q` float32[n] from the side to move; `best` uint16[n] the move of the highest prior (`chess.positions`), 0 where
    there is none; `counts` int64[n] legal moves; `priors` float32 of these, one position after the other, in the order
    in which the rules of `chess.board` make them, which is the same for every net.
    """

    ids: Ids
    q: NDArray[np.float32]
    best: NDArray[np.uint16]
    counts: Ids
    priors: NDArray[np.float32]

    def of(self, ids: Ids) -> Answers:
        """Those of some of the positions, in the order of `ids`."""
        return self.take(np.searchsorted(self.ids, ids))

    def take(self, rows: NDArray[np.intp]) -> Answers:
        """Those of some rows, in this order."""
        starts, counts = (np.cumsum(self.counts) - self.counts)[rows], self.counts[rows]
        # Of each position from its first move on: as many numbers as it has moves.
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        priors = self.priors[np.repeat(starts, counts) + steps]
        return Answers(self.ids[rows], self.q[rows], self.best[rows], counts, priors)


def policy_kl(old: Answers, new: Answers) -> Floats:
    """[n] KL(old policy || new) of the legal moves, in nats, of the same positions."""
    tiny = np.finfo(np.float32).tiny
    p, q = (np.maximum(net_answers.priors.astype(np.float64), tiny) for net_answers in (old, new))
    row = np.repeat(np.arange(len(old.counts)), old.counts)
    return np.bincount(row, p * np.log(p / q), len(old.counts)).astype(np.float64)


def answers(net: str | Path, db: str | Path, ids: Ids, kept: Path, *, threads: int | None = None) -> Answers:
    """What a net file says of the positions `ids` [n] of a store, ascending and each once; in their order.

    The file of that name in the folder `kept` has what was asked before; only the rest goes through the net. The
    history of a position is the one that the store keeps, filled as `vr mine` fills it.
    """
    path = kept / f"{read_net_file(net).sha256}.npz"
    stored = _read(path)
    if stored is None or not np.isin(ids, stored.ids).all():
        missing = ids if stored is None else ids[~np.isin(ids, stored.ids)]
        with open_net(str(net), threads=threads) as opened:
            fresh = _asked(opened, db, missing)
        stored = fresh if stored is None else _joined(stored, fresh)
        kept.mkdir(parents=True, exist_ok=True)
        with written_whole(path, None) as partial, open(partial, "wb") as file:
            np.savez(file, **{field.name: getattr(stored, field.name) for field in fields(Answers)})
    return stored.of(ids)


def _read(path: Path) -> Answers | None:
    if not path.exists():
        return None
    with np.load(path) as read:
        return Answers(*(read[field.name] for field in fields(Answers)))


def _joined(stored: Answers, fresh: Answers) -> Answers:
    both = Answers(
        *(np.concatenate([getattr(part, field.name) for part in (stored, fresh)]) for field in fields(Answers))
    )
    return both.take(np.argsort(both.ids, kind="stable"))


def _asked(net: Net, db: str | Path, ids: Ids) -> Answers:
    """What the net says of positions of the store."""
    values, counts, priors = [], [], []
    with Store.open(db) as store, Progress(net.identity.name, len(ids), "positions") as progress:
        for begin in range(0, len(ids), _AT_ONCE):
            cut = ids[begin : begin + _AT_ONCE]
            net_values, (_, offsets, p) = net.evaluate_with_priors(store.positions(cut))
            values.append(net_values)
            counts.append(np.diff(offsets))
            priors.append(p)
            progress.advance(len(cut))
    every = NetValues.concat(values)
    return Answers(ids, every.q, every.best_move, np.concatenate(counts), np.concatenate(priors))
