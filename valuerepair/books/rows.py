"""Rows of the store's frame as a book sees them: their games, a hash to order and split by, whether lc0 plays on."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import PurePath

import chess
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from valuerepair.board import has_legal_move, insufficient_material, keys, parse_fens
from valuerepair.books.lc0_reader import GAME_PLY_LIMIT, no_game
from valuerepair.candidates.replaying import plies


def games_of(rows: pd.DataFrame) -> pd.Series[str]:
    """One text a game: the name of its file (without the folder, which may be spelled many ways) and its number."""
    names = [f"{file_name(source)}\n{game}" for source, game in zip(rows["source"].tolist(), rows["game"], strict=True)]
    return pd.Series(names, rows.index, dtype=object)


@lru_cache(4096)
def file_name(source: object) -> str:
    """A file's name without its folder."""
    return PurePath(str(source)).name


def seeded_hash(seed: int, text: str) -> int:
    """63 bits that depend on seed and text only."""
    digest = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def playable(rows: pd.DataFrame) -> pd.Series[bool]:
    """Where lc0 would play on: not over, no third repetition, not beyond its limit of game plies."""
    fens, starts, moves = (rows[name].tolist() for name in ("fen", "start_fen", "moves"))
    verdicts = [
        sure or can_go_on(fen, start, line)
        for sure, fen, start, line in zip(_surely_go_on(fens, starts, moves), fens, starts, moves, strict=True)
    ]
    found: pd.Series[bool] = pd.Series(verdicts, rows.index, dtype=bool)
    return found


def _surely_go_on(fens: list[str], starts: list[str], moves: list[str]) -> list[bool]:
    """`can_go_on` where the compiled rules say so for all at once; what they doubt is looked at one by one."""
    try:
        boards = parse_fens(fens)
        clocks, numbers = (np.array([int(fen.split()[i]) for fen in fens], np.int64) for i in (4, 5))
    except (ValueError, IndexError):
        return [False] * len(fens)
    sure = has_legal_move(boards) & ~insufficient_material(boards) & (clocks < 100) & (numbers < GAME_PLY_LIMIT)
    asked = np.array([i for i in np.flatnonzero(sure & (clocks >= 8)).tolist() if isinstance(moves[i], str)], np.int64)
    if len(asked):
        lines = [moves[i].split() for i in asked.tolist()]
        sure[asked] = _not_repeated([starts[i] for i in asked.tolist()], lines, keys(boards[asked]))
    whole: list[bool] = sure.tolist()
    return whole


def _not_repeated(starts: list[str], lines: list[list[str]], last: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """[n] whether each line leads to the position `last` (keys [n]) and no more than for the second time."""
    lengths = np.array([len(line) for line in lines])
    times, there = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.bool_)
    try:
        for ply, (rows, boards) in enumerate(plies(starts, lines)):
            met = keys(boards) == last[rows]
            times[rows] += met
            there[rows] = met & (lengths[rows] == ply)
    except ValueError:
        return np.zeros(len(lines), np.bool_)
    return np.asarray((there & (times < 3)) | (lengths == 0))


def can_go_on(fen: str, start_fen: str, moves: str) -> bool:
    """Whether lc0 plays a game from `fen`, reached from `start_fen` by `moves` (UCI, joined by blanks)."""
    halfmoves, number = (int(x) for x in fen.split()[4:6])
    if number >= GAME_PLY_LIMIT:
        return False
    if halfmoves < 8 or not isinstance(moves, str) or not moves:
        return no_game(chess.Board(fen), number) is None
    board = chess.Board(start_fen)
    for move in moves.split():
        board.push_uci(move)
    return no_game(board, number) is None
