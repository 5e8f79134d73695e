"""Matches of the scripted engine: its sides as text, a small book, and what a PGN file says to python-chess."""

from __future__ import annotations

import sys
from pathlib import Path

import chess.pgn

FAKE = str(Path(__file__).with_name("fake_engine.py"))
LINES = ("1. e4 e5", "1. d4 d5", "1. c4 c5", "1. Nf3 Nf6")


def fake_side(name: str, *what: str, settings: str = "") -> str:
    """A side that plays legal moves, and does what it is told; ``settings`` are more of the side's own."""
    arguments = ",".join(f"arg={text}" for text in (FAKE, "play", f"salt={name}", *what))
    return f"{sys.executable},{arguments},name={name}" + (f",{settings}" if settings else "")


def write_book(path: Path, lines: int = len(LINES)) -> Path:
    """The first so many of `LINES`."""
    path.write_text("".join(f'[Event "{line}"]\n\n{line} *\n\n' for line in LINES[:lines]))
    return path


def read_games(path: Path) -> list[chess.pgn.Game]:
    """All games of a PGN file, which must have none with errors."""
    games = []
    with path.open() as file:
        while (game := chess.pgn.read_game(file)) is not None:
            assert game.errors == []
            games.append(game)
    return games
