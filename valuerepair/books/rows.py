"""Rows of the store for a book: whether lc0 can play on from them, their labels, and which are held out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import chess
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT, no_game
from valuerepair.books.options import BookOptions
from valuerepair.chess.board import has_legal_move, insufficient_material, keys, parse_fens
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.labelled import labels_of, names
from valuerepair.judge.labels import KINDS, NAMES
from valuerepair.judge.material import near_keys
from valuerepair.judge.openings import plies
from valuerepair.judge.split import PARTS, TRAIN, Split
from valuerepair.judge.verdict import evidence
from valuerepair.store.queries import header_of_games

if TYPE_CHECKING:
    from valuerepair.store.store import Store


def games_of(rows: pd.DataFrame) -> pd.Series[str]:
    """One text a game: the name of its file (without the folder, which may be spelled many ways) and its number."""
    names = [f"{file_name(source)}\n{game}" for source, game in zip(rows["source"].tolist(), rows["game"], strict=True)]
    return pd.Series(names, rows.index, dtype=object)


@lru_cache(4096)
def file_name(source: object) -> str:
    """A file's name without its folder."""
    return PurePath(str(source)).name


def playable(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether lc0 would play on: no end of the game, no third repetition, not beyond its limit of game plies."""
    fens, starts, moves = (rows[name].tolist() for name in ("fen", "start_fen", "moves"))
    mask: pd.Series[bool] = pd.Series(go_on(fens, starts, moves), rows.index, dtype=bool)
    return mask


def go_on(fens: list[str], starts: list[str], moves: list[str]) -> list[bool]:
    """`can_go_on` of each line: whether a game can be played from its end."""
    return [
        sure or can_go_on(fen, start, line)
        for sure, fen, start, line in zip(_surely_go_on(fens, starts, moves), fens, starts, moves, strict=True)
    ]


def _surely_go_on(fens: list[str], starts: list[str], moves: list[str]) -> list[bool]:
    """True where the compiled rules show `can_go_on`; the caller checks the other lines one by one."""
    try:
        boards = parse_fens(fens)
        clocks, numbers = (np.array([int(fen.split()[i]) for fen in fens], np.int64) for i in (4, 5))
    except (ValueError, IndexError):
        return [False] * len(fens)
    sure = has_legal_move(boards) & ~insufficient_material(boards) & (clocks < 100) & (numbers < GAME_PLY_LIMIT)
    at = np.flatnonzero(sure & (clocks >= 8))
    if len(at):
        lines = [moves[i].split() for i in at.tolist()]
        sure[at] = _not_repeated([starts[i] for i in at.tolist()], lines, keys(boards[at]))
    going_on: list[bool] = sure.tolist()
    return going_on


def _not_repeated(starts: list[str], lines: list[list[str]], last: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """[n] whether each line leads to the position `last` (keys [n]), which occurs at most twice in it."""
    lengths = np.array([len(line) for line in lines])
    times, is_last = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.bool_)
    try:
        for ply, (rows, boards) in enumerate(plies(starts, lines)):
            met = keys(boards) == last[rows]
            times[rows] += met
            is_last[rows] = met & (lengths[rows] == ply)
    except ValueError:
        return np.zeros(len(lines), np.bool_)
    return np.asarray((is_last & (times < 3)) | (lengths == 0))


def can_go_on(fen: str, start_fen: str, moves: str) -> bool:
    """Whether lc0 plays a game from `fen`, reached from `start_fen` by `moves` (UCI, joined by blanks)."""
    halfmoves, number = (int(x) for x in fen.split()[4:6])
    if number >= GAME_PLY_LIMIT:
        return False
    if halfmoves < 8 or not moves:
        return no_game(chess.Board(fen), number) is None
    board = chess.Board(start_fen)
    for move in moves.split():
        board.push_uci(move)
    return no_game(board, number) is None


def add_knowledge(
    store: Store, rows: pd.DataFrame, options: BookOptions, split: Split | None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """`rows` of `Store.candidates` with the columns for `choose_rows`; and for the manifest, who gave the verdicts.

    Adds the columns `eco_header`; `verdict` for `options.confirmed`, by the oracle that took a second look at most of
    the rows; `labels`, a set of names a row, for `options.labels`; `part`, a name of `judge.split.PARTS`, for
    the `split`. Raises UsageError for an unknown label.
    """
    for label in options.labels:
        _check_label(label)
    columns: dict[str, Any] = {"eco_header": header_of_games(store.connection, "ECO", rows["game_id"].tolist())}
    about: dict[str, Any] = {}
    if options.confirmed:
        looks = evidence(store, rows)
        columns["verdict"] = looks["verdict"]
        about["confirmed"] = {key: looks.attrs[key] for key in ("second", "alpha")}
    if options.labels:
        columns["labels"] = names(labels_of(store, rows))
    if split is not None:
        parts = split.parts(store, rows["position_id"].to_numpy(np.int64))
        columns["part"] = [PARTS[part] for part in parts.tolist()]
    return rows.assign(**columns), about


def _check_label(label: str) -> None:
    kind, colon, word = label.partition(":")
    if label not in NAMES and not (colon and word and kind in KINDS):
        families = ", ".join(f"{kind}:NAME" for kind in KINDS)
        raise UsageError(f"--label {label}: no such label; there are {', '.join(NAMES)} and {families}")


NEAR_HELD = "near-duplicate of the holdout"


@dataclass(frozen=True, slots=True)
class Sides:
    """The rows of the book and of the holdout; `left_out` counts the rows too near to the holdout, by reason."""

    book: pd.DataFrame
    holdout: pd.DataFrame
    left_out: dict[str, int]


def sides(rows: pd.DataFrame, options: BookOptions) -> Sides:
    """Divides rows by their column `part`, if they have one: the part ``train`` is the book.

    A split has each game and each root on one side. Near-duplicates of the holdout are left out of the book, unless
    they are to be kept. Raises ValueRepairError when the book stays empty; the holdout may.
    """
    if "part" not in rows:
        return Sides(rows, rows.iloc[:0], {})
    is_held = rows["part"] != PARTS[TRAIN]
    near: pd.Series[bool] = pd.Series(False, rows.index)
    if options.near_duplicates != "keep":
        keys = pd.Series(near_keys(rows["fen"].tolist()), rows.index)
        near = ~is_held & keys.isin(set(keys[is_held]))
    book = rows[~is_held & ~near]
    if book.empty:
        raise ValueRepairError(
            f"--split leaves the book empty: none of {len(rows):,} candidates is train, or far from the holdout"
        )
    return Sides(book, rows[is_held], {NEAR_HELD: int(near.sum())} if near.any() else {})
