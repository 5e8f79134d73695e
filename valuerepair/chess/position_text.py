"""Positions as text: lines of EPD and FEN, and what users type, a UCI ``position`` line included.

A line of EPD has four FEN fields, perhaps the two counters of a FEN, and then operations (``bm Nf3; id "x";``). Without
counters, the operations `hmvc` and `fmvn` take their place. The last operation may lack its semicolon, and so may one
that ends with a quoted text.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

import chess

from valuerepair.arrays import Moves
from valuerepair.chess.board import keys, parse_fens, status_error
from valuerepair.chess.positions import STARTPOS_FEN, Position, decode_moves
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import check_input

PLACEMENT_AND_SIDE = r"[pnbrqkPNBRQK1-8]+(?:/[pnbrqkPNBRQK1-8]+){7}\s+[wb](?=[\s;]|$)"
MATE_IN = re.compile(r"#\s*([+-]?\d+)")  # of `bm`
_PLACEMENT_AND_SIDE = re.compile(PLACEMENT_AND_SIDE)
_NOT_A_POSITION = "not a position"
_BLANK = " \t\r\n"
_FIELDS = re.compile(r"[^\s;]+(?:\s+[^\s;]+){3}")
_COUNTER = re.compile(r"\s+(\d+|-)(?=[\s;]|$)")
# A backslash escapes a quotation mark, as python-chess writes it.
_STRING = r'"(?:[^"\\]|\\.)*"'
# A name, and then one quoted operand, or words (quoted ones may contain semicolons), or nothing.
_OPERATION = re.compile(
    rf'([^\s;]+)(?:\s+({_STRING})|\s+((?!["\s])(?:(?<=\s){_STRING}|[^;])*)(?=;|$)|(?=\s*(?:;|$)))[\s;]*'
)
_WORD = re.compile(r"[^\s;]+")
_NUMBER_OR_MOVE = re.compile(r"[^A-Za-z].*|(?!c\d$)[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8].*")
_ESCAPED = re.compile(r"\\(.)")
_CASTLING_BY_FILES = re.compile(r"[A-Ha-h]")
_MOVES = ("am", "bm", "pm", "pv", "sm")
# What users type.
_MOST_LINE = 1 << 20
_MOST_LOOKED_AT = 1 << 12
_QUOTED = re.compile(r'"[^"]*"')
_COMMAND = re.compile(r"^\s*(?:position\s+)?(?:fen\s+)?")
_MOVES_WORD = re.compile(r"(?<!\S)moves(?!\S)")


class WrongLine(ValueError):
    """A text is not a line of EPD: the reason, and its `kind`, by which wrong lines are counted."""

    def __init__(self, kind: str, reason: object) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class EpdLine:
    """The contents of a line of EPD.

    The FEN has six fields. `operations` are the operands by name, without quotation marks, and `best` are the moves of
    `bm` in UCI.
    """

    fen: str
    operations: Mapping[str, str]
    best: tuple[str, ...]


def numbered_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines that are neither empty nor ``#`` comments, with their numbers from 1; a byte order mark is dropped."""
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("\ufeff").strip(_BLANK)
        if text and text[0] != "#":
            yield number, text


def read_epd(text: str) -> EpdLine:
    """The line, as python-chess's `Board.set_epd` reads it; raises `WrongLine`.

    Unlike python-chess it accepts the counters of a FEN, operands that are neither moves, numbers nor quoted, moves in
    UCI, marks next to moves (``bm Qd1 +``), ``bm #2`` and anything after a semicolon; it rejects unclosed quotation
    marks.
    """
    fields, counters, operations_text = _split(text)
    operations = _operations(operations_text)
    for name, default in (("hmvc", "0"), ("fmvn", "1"))[len(counters) :]:
        if not (counter := operations.get(name, default)).isdecimal():
            raise WrongLine("wrong operation", f"{name} {counter[:20]!r} is not a number")
        counters.append(counter)
    number = counters[1] if counters[1].strip("0") else "1"  # as python-chess
    fen = " ".join([*fields, counters[0], number])
    _check_legal(fen)
    moves = {name: _read_moves(fen, name, operations[name]) for name in _MOVES if name in operations}
    best = moves.get("bm", ())
    return EpdLine(fen, operations, best)


def _split(text: str) -> tuple[list[str], list[str], str]:
    """The four fields of a line, its counters (up to two; - stands for the default), and the rest."""
    text = text.strip(_BLANK)
    fields = _FIELDS.match(text)
    if fields is None:
        raise WrongLine(_NOT_A_POSITION, "a FEN has at least four fields (board, side to move, castling, en passant)")
    if not _PLACEMENT_AND_SIDE.match(text):
        raise WrongLine(_NOT_A_POSITION, status_error(fields[0]))
    at, counters = fields.end(), list[str]()
    while len(counters) < 2 and (counter := _COUNTER.match(text, at)):
        counters.append("01"[len(counters)] if counter[1] == "-" else counter[1])
        at = counter.end()
    return fields[0].split(), counters, text[at:]


def _operations(text: str) -> dict[str, str]:
    """The operations. The first word after the fields must name an operation; after a semicolon any word may follow."""
    operations: dict[str, str] = {}
    text = text.strip()
    if (word := _WORD.match(text)) and (_NUMBER_OR_MOVE.fullmatch(word[0]) or word[0] == text):
        reason = f"{word[0][:20]!r} is one word too many: a FEN has six fields (and EPD operations end with ;)"
        raise WrongLine("wrong operation", reason)
    at = len(text) - len(text.lstrip("; \t"))
    while at < len(text):
        if (operation := _OPERATION.match(text, at)) is None:
            raise WrongLine("wrong operation", f"cannot read the operations from {text[at : at + 20]!r}")
        name, quoted, plain = operation.groups()
        operations[name] = _ESCAPED.sub(r"\1", quoted[1:-1]) if quoted else (plain or "").strip()
        at = operation.end()
    return operations


def _check_legal(fen: str) -> None:
    if reason := status_error(fen):
        kind = "Chess960" if _CASTLING_BY_FILES.search(fen.split()[2]) else "illegal position"
        raise WrongLine(kind, reason)
    try:
        parse_fens([fen])
    except ValueError as error:  # python-chess accepts counters above 65,535, boards do not
        raise WrongLine("illegal position", str(error).split(": ")[1]) from None


def _read_moves(fen: str, name: str, sans: str) -> tuple[str, ...]:
    """The moves of an operation in UCI: one after the other for `pv`, otherwise all in the position."""
    board, moves = chess.Board(fen), []
    for word in MATE_IN.sub(" ", sans).replace(",", " ").split():
        if san := word.rstrip("+#!?"):
            move = read_move(board, san)
            if not move:  # python-chess reads -- as a null move
                raise WrongLine("illegal move", f"{name} {word[:20]}: no legal move")
            moves.append(move.uci())
            if name == "pv":
                board.push(move)
    return tuple(moves)


def read_move(board: chess.Board, word: str) -> chess.Move:
    """A legal move in SAN or UCI; else the null move."""
    for parse in (board.parse_san, board.parse_uci):
        with suppress(ValueError):
            return parse(word)
    return chess.Move.null()


def read_position(text: str, moves: Iterable[str] = ()) -> Position:
    """One position from text, with further moves (UCI or SAN) played on it.

    The text is ``startpos`` or a FEN of four to six fields, perhaps with ``moves ...`` after it and ``position`` or
    ``position fen`` before it; or a line of EPD. Its operations hmvc and fmvn are the clock and the move number. Raises
    ValueError with the reason for another text, an illegal position or an illegal move.
    """
    position, further = text, list(moves)
    if cut := _MOVES_WORD.search(_QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)):
        position, further = text[: cut.start()], text[cut.end() :].split() + further
    position = _COMMAND.sub("", position).strip()
    if position == "startpos":
        start, played = STARTPOS_FEN, further
    else:
        start, played = read_epd(position).fen, further
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


def read_argument(text: str, moves: Iterable[str] = ()) -> Position:
    """`read_position` of a command-line argument; raises UsageError."""
    try:
        return read_position(text, moves)
    except ValueError as error:
        raise UsageError(f"position {text!r}: {error}") from None


def read_lines(lines: Iterable[str], source: str) -> Iterator[Position]:
    """The position of each line that is neither empty nor a ``#`` comment.

    Raises ValueRepairError for a line that is not a position, with its number, and at the end if there was no position.
    """
    number = 0
    for number, text in numbered_lines(lines):
        try:
            yield read_position(text)
        except ValueError as error:
            raise ValueRepairError(f"{source}: line {number}: {one_line(error)}") from None
    if not number:
        raise ValueRepairError(f"{source}: no positions in it")


def read_positions(source: str) -> Iterator[Position]:
    """The position in a text (empty: the initial position), or all in a file or standard input (``-``), one on a line.

    Raises UsageError for another text, and ValueRepairError for a file with a wrong line or without positions.
    """
    check_input(source)
    if source == "-":
        yield from read_lines(_lines(sys.stdin), "standard input")
    elif os.path.isfile(source):  # also of a text that is too long for a name
        with open(source, "rb") as file:
            head = file.read(_MOST_LOOKED_AT).removeprefix(codecs.BOM_UTF8).lstrip()
        if b"\0" in head:
            raise ValueRepairError(f"{source}: is not text; give lines of FEN or EPD, not packed, or games as .pgn")
        if head.startswith(b"["):
            raise ValueRepairError(f"{source}: holds games; those are read from files whose name ends in .pgn")
        with open(source, encoding="utf-8", errors="replace") as file:
            yield from read_lines(_lines(file), source)
    elif source and " " not in source and source != "startpos":
        raise UsageError(f"position {source!r}: neither a FEN nor an existing file")
    else:
        yield read_argument(source or "startpos")


def _lines(file: TextIO) -> Iterator[str]:
    """The lines; a line longer than `_MOST_LINE` comes in pieces, which are not positions."""
    return iter(lambda: file.readline(_MOST_LINE), "")


def san(position: Position, moves: Moves) -> list[str]:
    """The moves of a position in SAN."""
    board = chess.Board(position.fen)
    return [board.san(chess.Move.from_uci(uci)) for uci in decode_moves(moves)]
