"""The positions that nets are measured on: what the judge says of them, and which set each belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.chess.positions import encode_move
from valuerepair.errors import ValueRepairError
from valuerepair.judge.split import PARTS, keys_of_games, read_split
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.drawing import is_held

TEST_SETS = ("games", "families", "archives")
VALIDATION = "validation"
# As `vr train` holds games out of what it trains on.
VALIDATION_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Positions:
    """Positions of a store that the judge has scored, `ids` [n] ascending.

    `game` [n] whole numbers of games, the same in any store; `deep_q` [n] from the side to move; `weight` [n] how many
    positions a row stands for; `deep_best` uint16[n] the judge's move, 0 where it has none; `sets` [n] one of
    `TEST_SETS` or `VALIDATION`.
    """

    ids: Ids
    game: Ids
    deep_q: Floats
    weight: Floats
    deep_best: NDArray[np.uint16]
    sets: NDArray[np.str_]

    def take(self, rows: Flags | Ids) -> Positions:
        """Some of them."""
        return Positions(*(getattr(self, name)[rows] for name in Positions.__slots__))

    def of(self, name: str) -> Positions:
        """Those of a set."""
        return self.take(self.sets == name)


def alpha_of(store: Store, question: Question) -> float:
    """The alpha that makes deep Q of the judge's centipawns."""
    return float(store.frame(question, text=False, only=("deep_q",)).attrs["alpha"]["value"])


def read_positions(db: str | Path, split: str | Path, question: Question) -> Positions:
    """The test sets of a split, and of the games that are trained on those that `vr train` judges by.

    `question` says whose alpha makes deep Q; sampled positions only. Raises ValueRepairError where a set is empty.
    """
    held_out = read_split(split)
    wanted = ("position_id", "game_id", "deep_q", "weight", "deep_best")
    with Store.open(db) as store:
        frame = store.frame(question, only=wanted)
        frame = frame[frame["deep_q"].notna() & (frame["weight"] > 0)]
        ids = frame["position_id"].to_numpy(np.int64)
        part = np.array(PARTS)[held_out.parts(store, ids)]
        keys = keys_of_games(store, frame["game_id"].to_numpy(np.int64))
    sets = np.where(part == "train", np.where(is_held(keys, VALIDATION_SHARE), VALIDATION, ""), part)
    best = np.array([encode_move(move) if isinstance(move, str) else 0 for move in frame["deep_best"]], np.uint16)
    deep_q, weight = (frame[name].to_numpy(np.float64) for name in ("deep_q", "weight"))
    found = Positions(ids, keys.view(np.int64), deep_q, weight, best, sets).take(
        np.isin(sets, [VALIDATION, *TEST_SETS])
    )
    for name in (VALIDATION, *TEST_SETS):
        if not (found.sets == name).any():
            raise ValueRepairError(f"{split}: no judged position of {db} is among {name}; hold out more, or mine more")
    return found
