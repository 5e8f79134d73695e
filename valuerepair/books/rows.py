"""Rows of the store's frame as a book sees them: their games, a hash to order and split by, whether lc0 plays on."""

from __future__ import annotations

import hashlib
from pathlib import PurePath

import chess
import pandas as pd

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT, no_game


def games_of(rows: pd.DataFrame) -> pd.Series[str]:
    """One text a game: the name of its file (without the folder, which may be spelled many ways) and its number."""
    names = rows["source"].map(lambda source: PurePath(str(source)).name)
    games: pd.Series[str] = names + "\n" + rows["game"].astype(str)
    return games


def seeded_hash(seed: int, text: str) -> int:
    """63 bits that depend on seed and text only."""
    digest = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def playable(rows: pd.DataFrame) -> pd.Series[bool]:
    """Where lc0 would play on: not over, no third repetition, not beyond its limit of game plies."""
    verdicts = [
        can_go_on(fen, start, moves)
        for fen, start, moves in zip(rows["fen"], rows["start_fen"], rows["moves"], strict=True)
    ]
    found: pd.Series[bool] = pd.Series(verdicts, rows.index, dtype=bool)
    return found


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
