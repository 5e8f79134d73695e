"""The judge's values of a store's positions: as columns to learn from, and as a table by board."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags
from valuerepair.chess.positions import encode_moves
from valuerepair.chess.rows import Index, Keys
from valuerepair.errors import ValueRepairError
from valuerepair.nets.planes import BOARD_PLANES, CLASSICAL, encode
from valuerepair.question import Question, is_candidate
from valuerepair.store import parts, view
from valuerepair.store.rows import unsigned
from valuerepair.store.store import Store
from valuerepair.training.samples import wdl_of

log = logging.getLogger(__name__)


LOW_CLOCK = 20  # plies: 80 more to the 50-move rule, beyond what a search sees
_POSITIONS_READ = 2048  # positions of a store that are read together


@contextmanager
def open_to_learn(path: str | os.PathLike[str]) -> Iterator[Store]:
    """A store, open for reading; if it has no split yet, it gets the default one, which a line says.

    Raises ValueRepairError, also for a store without positions of games.
    """
    with Store.open(path) as store:
        is_split = parts.split_of(store) is not None
    if not is_split:
        with Store.open(path, write=True) as store:
            _, line = parts.ensured(store)
        log.info(line)
    with Store.open(path) as store:
        yield store


def held_out_keys(store: Store | None) -> Keys:
    """uint64[n], ascending: the board keys of the positions that are not for training; none without a store."""
    if store is None:
        return np.empty(0, np.uint64)
    rows = store.connection.execute("SELECT key FROM positions WHERE part <> ?", (parts.TRAIN,)).fetchall()
    return np.sort(unsigned([key for (key,) in rows]))


class JudgedPositions:
    """The positions of a store's part ``train`` that have a net Q and a deep Q, of any origin.

    A position that screening left out has the value of the short search, and is not a candidate (docs/methods.md,
    "Training"). So every sampled position is included, and all count alike.

    Columns [n] by position_id, values from the side to move: `ids` int64, `keys` uint64 of the positions, `best` uint16
    the judge's moves as in `chess.positions` (0: none), `nodes` int64 of its search, `games` uint64 keys of games,
    `net_d` the net's probability of a draw (NaN without W/D/L), `deep_q` in [-1, 1], `disagreement` net Q - deep Q,
    `screened` bool for values of the short search, `kind` object the origins, `is_candidate` bool. `attrs`
    (`view.frame`) name the net and the judge of these values.
    """

    def __init__(self, store: Store, question: Question) -> None:
        """Raises ValueRepairError if the store has no such position."""
        import pandas as pd

        self.path = store.path
        self.question = replace(question, beside=True)
        names = ("position_id", "key", "game_key", "net_d", "deep_q", "disagreement", "screened", "deep_best", "nodes")
        judged = ("deep_w", "deep_d", "deep_l")
        frame = view.frame(store, self.question, only=(*names, *judged, "kind", "part"), screened=True)
        self.attrs = frame.attrs
        usable = frame[frame["deep_q"].notna() & frame["disagreement"].notna()]
        if usable.empty:
            raise ValueRepairError(f"{self.path}: none of its {len(frame):,} scored positions has a deep Q to learn")
        usable = usable[usable["part"] == parts.TRAIN]
        if usable.empty:
            raise ValueRepairError(f"{self.path}: all of its scored positions are held out, or of games that are")
        self.ids = usable["position_id"].to_numpy(np.int64)
        self.keys, self.games, self.net_d, self.deep_q, self.disagreement, self.screened = (
            usable[name].to_numpy() for name in ("key", "game_key", "net_d", "deep_q", "disagreement", "screened")
        )
        self.is_candidate = ~self.screened & is_candidate(self.disagreement, question.threshold)
        self.nodes = usable["nodes"].to_numpy(np.int64)
        self._wdl = usable[list(judged)].to_numpy(np.float64)
        codes, moves = pd.factorize(usable["deep_best"])
        # A missing move's code is -1, which is the 0 at the end.
        self.best = np.append(encode_moves(moves), np.uint16(0))[codes]
        self.kind = usable["kind"].to_numpy(object)

    def wdl(self, rows: Index) -> NDArray[np.float32]:
        """float32[n, 3] win, draw and loss of these rows, from the side to move: the target of the value head.

        They have the Q `deep_q`, and the net's own probability of a draw, limited to the room that this Q leaves: 0 for
        a mate, and for a net without W/D/L. If the question takes Q from the judge's W/D/L, they are the judge's W/D/L,
        if it gave one.
        """
        by_net = wdl_of(self.deep_q[rows], np.nan_to_num(self.net_d[rows]))
        if self.question.q_from != "wdl":
            return by_net
        by_judge = self._wdl[rows]
        total = by_judge.sum(1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > 0, by_judge / total, by_net).astype(np.float32)


@dataclass(frozen=True, slots=True)
class JudgedBoards:
    """The judge's values of n boards, by ascending `keys` uint64 (`chess.board.keys`); `attrs` as in `JudgedPositions`.

    `clock` int64 is the half-move clock when the board was judged, `repeated` bool whether it had occurred before.
    `wdl` float32[n, 3] from the side to move, `best` uint16 the judge's move (0: none), `nodes` int64 of its search.
    """

    keys: Keys
    clock: Index
    repeated: Flags
    wdl: NDArray[np.float32]
    best: NDArray[np.uint16]
    nodes: Index
    attrs: dict[Any, Any]

    @staticmethod
    def of(store: Store, question: Question) -> JudgedBoards:
        """The boards of `JudgedPositions`. Raises ValueRepairError without boards."""
        positions = JudgedPositions(store, question)
        rows = np.argsort(positions.keys)
        clock, repeated = np.empty(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        for begin in range(0, len(rows), _POSITIONS_READ):
            part = slice(begin, begin + _POSITIONS_READ)
            batch = store.positions(positions.ids[rows[part]])
            clock[part] = [int(fen.split(" ")[4]) for fen in batch.fen]
            late = np.flatnonzero(clock[part] >= 4)  # plies of the quickest repetition
            if len(late):
                planes = encode(batch.take(late), CLASSICAL)
                repeated[begin + late] = planes[:, BOARD_PLANES - 1, 0, 0] > 0
        return JudgedBoards(
            positions.keys[rows].astype(np.uint64),
            clock,
            repeated,
            positions.wdl(rows),
            positions.best[rows],
            positions.nodes[rows],
            positions.attrs,
        )

    def rows(self, keys: Keys, clock: Index, repeated: Flags) -> tuple[Index, Flags]:
        """[n] the rows of these boards, -1 without a value; and a mask of the boards that have none because they were
        judged with another history: repeated instead of new or the reverse, or another clock, unless both are low."""
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        is_judged = self.keys[rows] == keys
        is_alike = (self.clock[rows] == clock) | (np.maximum(self.clock[rows], clock) <= LOW_CLOCK)
        is_alike &= self.repeated[rows] == repeated
        return np.where(is_judged & is_alike, rows, -1), is_judged & ~is_alike

    def digest(self) -> str:
        """SHA-256 of all values."""
        columns = (self.keys, self.clock, self.repeated, self.wdl, self.best, self.nodes)
        return hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).hexdigest()
