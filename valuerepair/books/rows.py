"""Rows of the store for a book: whether lc0 can play on from them, their labels, and which are held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
from valuerepair.books.options import BookOptions
from valuerepair.chess.positions import encode_moves
from valuerepair.chess.reached import reached
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.labelled import labels_of, names
from valuerepair.judge.labels import KINDS, NAMES
from valuerepair.judge.material import near_keys
from valuerepair.judge.split import HELD_OUT, PARTS, TRAIN, Split
from valuerepair.judge.verdict import evidence
from valuerepair.store.columns import GAME_KEY, games_of
from valuerepair.store.queries import header_of_games

if TYPE_CHECKING:
    from valuerepair.store.store import Store


@lru_cache(4096)
def file_name(source: object) -> str:
    """A file's name without its folder."""
    return PurePath(str(source)).name


def game_name(row: Mapping[Any, Any]) -> str:
    """A row's file and the number of the game in it; without the folder, because a book may be published."""
    return f"{file_name(row['source'])}#{row['game']}"


def playable(rows: pd.DataFrame) -> pd.Series[bool]:
    """`can_continue` of each row."""
    fens, starts, moves = (rows[name].tolist() for name in ("fen", "start_fen", "moves"))
    mask: pd.Series[bool] = pd.Series(can_continue(fens, starts, moves), rows.index, dtype=bool)
    return mask


def can_continue(fens: Sequence[str], starts: Sequence[str], moves: Sequence[str]) -> NDArray[np.bool_]:
    """[n] whether lc0 plays a game from each of `fens`, reached from `starts` by `moves` (UCI, joined by blanks).

    False at the end of a game, at a third repetition, and beyond lc0's limit of game plies.
    """
    begins = [start if line else fen for fen, start, line in zip(fens, starts, moves, strict=True)]
    _, over = reached(begins, [encode_moves(line.split()) for line in moves])
    game_plies = np.array([int(fen.split()[5]) for fen in fens], np.int64)
    return ~over & (game_plies < GAME_PLY_LIMIT)


def add_knowledge(
    store: Store, rows: pd.DataFrame, options: BookOptions, split: Split | None
) -> tuple[pd.DataFrame, dict[str, Any], list[str]]:
    """`rows` of `Store.candidates` with the columns for `choose_rows`; which oracle gave the verdicts, for the
    manifest; and the FENs of all positions in the store that the `split` holds out, candidates or not.

    Adds the columns `eco_header` and `GAME_KEY`; `verdict` for `options.confirmed`, by the oracle that took a second
    look at most of the rows; `labels`, a set of names per row, for `options.labels`; `part`, a name of
    `judge.split.PARTS`, for the `split`. Raises UsageError for an unknown label.
    """
    for label in options.labels:
        kind, colon, word = label.partition(":")
        if label not in NAMES and not (colon and word and kind in KINDS):
            families = ", ".join(f"{kind}:NAME" for kind in KINDS)
            raise UsageError(f"--label {label}: no such label; the labels are {', '.join(NAMES)} and {families}")
    columns: dict[str, Any] = {
        "eco_header": header_of_games(store.connection, "ECO", rows["game_id"].tolist()),
        GAME_KEY: games_of(store.connection, rows["position_id"].to_numpy(np.int64)),
    }
    confirmed: dict[str, Any] = {}
    held_fens: list[str] = []
    if options.confirmed:
        looks = evidence(store, rows)
        columns["verdict"] = looks["verdict"]
        confirmed["confirmed"] = {key: looks.attrs[key] for key in ("second", "alpha")}
    if options.labels:
        columns["labels"] = names(labels_of(store, rows))
    if split is not None:
        ids = store.connection.numbers("SELECT id FROM positions ORDER BY id", {}, np.int64)[0]
        parts = split.parts(store, ids)
        of_rows = parts[np.searchsorted(ids, rows["position_id"].to_numpy(np.int64))]
        columns["part"] = [PARTS[part] for part in of_rows.tolist()]
        query = "SELECT p.fen FROM json_each(:ids) j JOIN positions p ON p.id = j.value"
        held = store.connection.rows_of(ids[np.isin(parts, HELD_OUT)].tolist(), query)
        held_fens = [fen for (fen,) in held]
    return rows.assign(**columns), confirmed, held_fens


NEAR_HELD = "near-duplicate of a held-out position"


def sides(rows: pd.DataFrame, near_held: Set[str]) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """The rows of the book, those of the holdout, and the number of near-duplicates of held-out positions.

    Divides them by their column `part`, if they have one: the part ``train`` is the book.

    A split has each game and each root on one side. Rows with one of the `near_keys` `near_held` are left out of the
    book. Raises ValueRepairError if the book would be empty; the holdout may be.
    """
    if "part" not in rows:
        return rows, rows.iloc[:0], 0
    is_held = rows["part"] != PARTS[TRAIN]
    near = ~is_held & pd.Series(near_keys(rows["fen"].tolist()), rows.index).isin(near_held)
    book = rows[~is_held & ~near]
    if book.empty:
        raise ValueRepairError(
            f"--split leaves the book empty: each of {len(rows):,} candidates is held out or too near to one that is"
        )
    return book, rows[is_held], int(near.sum())
