"""The judge's values of a store's positions: as columns to learn from, and as a table by board."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags
from valuerepair.chess.positions import encode_moves
from valuerepair.chess.rows import Index, Keys
from valuerepair.errors import ValueRepairError
from valuerepair.judge.split import PARTS, TRAIN, Split, keys_of_games, warning_of_held_out
from valuerepair.nets.planes import BOARD_PLANES, CLASSICAL, encode
from valuerepair.question import Question, is_candidate
from valuerepair.store.store import Store
from valuerepair.training.samples import wdl_of

log = logging.getLogger(__name__)


LOW_CLOCK = 20  # plies: 80 more to the 50-move rule, beyond what a search sees
_POSITIONS_READ = 2048  # positions of a store that are read together


class JudgedPositions:
    """The positions of a store with a deep Q, for training; with a `split` only those of its part ``train``.

    A position that the ladder cut has the value of its last rung, and is not a candidate (docs/methods.md,
    "Training"). So every sampled position is included, and all count alike. Positions beside the games are included,
    too; positions that `vr expand` reached are included, candidates or not, if the question includes them.

    Columns [n] by position_id, values from the side to move: `ids` int64, `keys` uint64 of the positions, `best` uint16
    the judge's moves as in `chess.positions` (0: none), `nodes` int64 of its searches, `games` uint64 keys of games,
    `net_d` the net's probability of a draw (NaN without W/D/L), `deep_q` in [-1, 1], `disagreement` net Q - deep Q,
    `rung` the nodes of the last rung (NaN: searched in full), `kind` as in `queries.frame`, `is_candidate` bool and
    `is_reached` bool for positions of `vr expand`. `attrs` (`queries.frame`) name the
    net and the oracle of these values.
    """

    def __init__(self, store: Store, question: Question, *, split: Split | None = None) -> None:
        """Raises ValueRepairError if the store has no such position."""
        import pandas as pd

        self.path = store.path
        # "searched" also reads positions beside the games; those of `vr expand` are dropped below if not requested.
        self.question = question if question.expanded != "no" else replace(question, expanded="searched")
        names = ("position_id", "key", "game_id", "net_d", "deep_q", "disagreement", "rung", "deep_best")
        judged = ("deep_w", "deep_d", "deep_l")
        frame = store.frame(self.question, only=(*names, "nodes", *judged, "kind"), cut=True)
        self.attrs = frame.attrs
        in_question = frame["kind"].notna() | (question.expanded != "no")
        usable = frame[frame["deep_q"].notna() & frame["disagreement"].notna() & in_question]
        if usable.empty:
            raise ValueRepairError(f"{self.path}: none of its {len(frame):,} scored positions has a deep Q to learn")
        ids = usable["position_id"].to_numpy(np.int64)
        if split is not None:
            in_part = split.among(store, ids, PARTS[TRAIN])
            usable, ids = usable[in_part], ids[in_part]
            if usable.empty:
                raise ValueRepairError(f"{self.path}: none of its scored positions is in the split's part to train on")
        if (warning := warning_of_held_out(store, ids, split)) is not None:
            log.warning(warning)
        self.ids = ids
        self.games = keys_of_games(store, usable["game_id"].to_numpy(np.int64))
        self.keys, self.net_d, self.deep_q, self.rung, self.disagreement = (
            usable[name].to_numpy() for name in ("key", "net_d", "deep_q", "rung", "disagreement")
        )
        self.is_candidate = np.isnan(self.rung) & is_candidate(self.disagreement, question.threshold)
        self.nodes = usable["nodes"].to_numpy(np.int64)
        self._wdl = usable[list(judged)].to_numpy(np.float64)
        codes, moves = pd.factorize(usable["deep_best"])
        # A missing move's code is -1, which is the 0 at the end.
        self.best = np.append(encode_moves(moves), np.uint16(0))[codes]
        self.kind = usable["kind"].to_numpy(object)
        self.is_reached = usable["kind"].isna().to_numpy()

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
    def of(store: Store, question: Question, *, split: Split | None = None) -> JudgedBoards:
        """The boards of `JudgedPositions`. Raises ValueRepairError without boards."""
        positions = JudgedPositions(store, question, split=split)
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
