"""Lines to play from: ordinary positions for self-play, openings for matches."""

from __future__ import annotations

from pathlib import Path

import chess.pgn
import numpy as np
import pandas as pd

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
from valuerepair.files import written_whole
from valuerepair.judge.split import PARTS, read_split, seeded_hash
from valuerepair.question import Question
from valuerepair.store.store import Store

OPENING_PLIES = (8, 24)
_LEVEL = 0.3  # |deep Q| of an opening, at most
_ROOM = 200  # plies that a game from an ordinary position has left, at least


def write_ordinary(store: str, split: str, question: Question, count: int, path: Path) -> None:
    """`count` positions of the part that is trained on, of those that are no candidates, drawn by hash."""
    rows = _rows(store, split, question, "train")
    fits = (rows["disagreement"].abs() < question.threshold) & (rows["ply"] < GAME_PLY_LIMIT - _ROOM)
    _write(_drawn(rows[fits], count), path)


def write_openings(store: str, split: str, question: Question, count: int, path: Path) -> None:
    """`count` positions early in held-out games that are about level, one of a game, drawn by hash."""
    _write(_drawn(_level(_rows(store, split, question, "games")), count), path)


def write_level(store: str, question: Question, path: Path) -> None:
    """All positions of a store that are early in games and about level, one of a game, ordered by hash."""
    with Store.open(store) as opened:
        rows = _level(opened.frame(question))
    _write(_drawn(rows, len(rows)), path)


def _level(rows: pd.DataFrame) -> pd.DataFrame:
    fits = rows["ply"].between(*OPENING_PLIES) & (rows["deep_q"].abs() <= _LEVEL)
    found: pd.DataFrame = rows[fits].drop_duplicates("game_id")
    return found


def _rows(store: str, split: str, question: Question, part: str) -> pd.DataFrame:
    with Store.open(store) as opened:
        frame = opened.frame(question)
        parts = read_split(split).parts(opened, frame["position_id"].to_numpy(np.int64))
    found: pd.DataFrame = frame[parts == PARTS.index(part)]
    return found


def _drawn(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    order = [seeded_hash(0, fen) for fen in rows["fen"]]
    found: pd.DataFrame = rows.iloc[np.argsort(order, kind="stable")[:count]]
    return found


def _write(rows: pd.DataFrame, path: Path) -> None:
    with written_whole(path, None) as partial, open(partial, "w") as file:
        for start, moves in zip(rows["start_fen"], rows["moves"], strict=True):
            game = chess.pgn.Game()
            game.setup(start)
            node: chess.pgn.GameNode = game
            for move in moves.split():
                node = node.add_variation(chess.Move.from_uci(move))
            print(game, file=file, end="\n\n")
