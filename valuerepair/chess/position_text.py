"""Positions as users type them: a FEN, an EPD line, or a UCI ``position`` line with moves."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import chess

from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.epd import numbered_lines, read_epd, read_move
from valuerepair.chess.positions import STARTPOS_FEN, Moves, Position, decode_moves
from valuerepair.errors import UsageError, ValueRepairError, one_line

_MOST_LINE = 1 << 20
_QUOTED = re.compile(r'"[^"]*"')
_COMMAND = re.compile(r"^\s*(?:position\s+)?(?:fen\s+)?")
_MOVES = re.compile(r"(?<!\S)moves(?!\S)")


def read_position(text: str, moves: Iterable[str] = ()) -> Position:
    """One position from text, with further moves (UCI or SAN) played on it.

    The text is ``startpos`` or a FEN of four to six fields, perhaps with ``moves ...`` after it and ``position`` or
    ``position fen`` before it; or an EPD line, whose operations hmvc and fmvn are the clock and the move number, and
    whose comment may have its history (`chess.epd.history_comment`). Raises ValueError with the reason for
    other text, an illegal position or an illegal move.
    """
    position, further = text, list(moves)
    if cut := _MOVES.search(_QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)):
        position, further = text[: cut.start()], text[cut.end() :].split() + further
    position = _COMMAND.sub("", position).strip()
    if position == "startpos":
        start, played = STARTPOS_FEN, further
    else:
        line = read_epd(position)
        start, played = line.start_fen, [*decode_moves(line.moves), *further]
    board = chess.Board(start)
    for word in played:
        if not (move := read_move(board, word)):
            raise ValueError(f"move {one_line(word)!r} is not legal in {board.fen()}")
        board.push(move)
    fen = board.fen()
    return Position(
        fen=fen,
        start_fen=start,
        moves=tuple(move.uci() for move in board.move_stack),
        ply=board.ply(),
        key=int(keys(parse_fens([fen]))[0]),
        history_known=bool(played) or start == STARTPOS_FEN,
    )


def read_argument(text: str, moves: Iterable[str]) -> Position:
    """`read_position` of a command-line argument; raises UsageError."""
    try:
        return read_position(text, moves)
    except ValueError as error:
        raise UsageError(f"position {text!r}: {error}") from None


def read_lines(lines: Iterable[str], source: str, moves: Iterable[str] = ()) -> Iterator[Position]:
    """A position for every line, without empty lines and ``#`` comments.

    Raises ValueRepairError with the source and the line number for the first line that is not a position.
    """
    further = list(moves)
    for number, text in numbered_lines(lines):
        try:
            yield read_position(text, further)
        except ValueError as error:
            raise ValueRepairError(f"{source}: line {number}: {one_line(error)}") from None


def read_positions(source: str, moves: Sequence[str] = ()) -> Iterator[Position]:
    """The positions of a text (empty: the initial position), a file with one on each line, or ``-``, standard input.

    Plays the further moves (UCI or SAN) on each position. Raises UsageError, or ValueRepairError for a wrong line of a
    file and for one without positions.
    """
    if source == "-":
        yield from _not_empty(read_lines(_lines(sys.stdin), "standard input", moves), source)
    elif Path(source).is_file():
        with open(source, encoding="utf-8", errors="replace") as lines:
            yield from _not_empty(read_lines(_lines(lines), source, moves), source)
    elif source and " " not in source and source != "startpos":
        raise UsageError(f"position {source!r}: neither a FEN nor an existing file")
    else:
        yield read_argument(source or "startpos", moves)


def _not_empty(positions: Iterator[Position], source: str) -> Iterator[Position]:
    """The positions. Raises ValueRepairError without any."""
    empty = True
    for position in positions:
        empty = False
        yield position
    if empty:
        raise ValueRepairError(f"{source}: no positions in it")


def _lines(text: TextIO) -> Iterator[str]:
    """The lines; an endless line comes in pieces, which are not positions."""
    return iter(lambda: text.readline(_MOST_LINE), "")


def san(position: Position, moves: Moves) -> list[str]:
    """The moves of a position in SAN."""
    board = chess.Board(position.fen)
    return [board.san(chess.Move.from_uci(uci)) for uci in decode_moves(moves)]
