"""One EPD line as other tools read it: four fields or a whole FEN, then operations."""

from __future__ import annotations

import re

import chess

from valuerepair.books.lc0_reader import Refused, start_board

_CLOCKS = re.compile(r"(\d{1,4})\s+(\d{1,4})\s*(?:;|$)")
_OPERATION = re.compile(r"\s*([A-Za-z]\w*)((?:\s+|(?=\"))(?:\"[^\"]*\"|[^\";])*)?(?:;|$)")
_MOVE_OPCODES = frozenset({"am", "bm", "pm", "pv", "sm"})


def epd_board(text: str) -> chess.Board:
    """The position of an EPD or FEN line, its clocks from the FEN or from `hmvc` and `fmvn`.

    Raises `Refused` for an illegal position, an operation without a name, an open quote, a clock that is no number,
    and for a `bm`, `am`, `pm`, `sm` or `pv` that is illegal in the position.
    """
    control = next((c for c in text if ord(c) < 32 and c != "\t"), None)
    if control is not None:
        raise Refused(f"a control character (byte {ord(control)})")
    fields = text.split(None, 4)
    if len(fields) < 4:
        raise Refused("an EPD line has four fields: placement, side to move, castling, e.p. square")
    fields[3] = fields[3].rstrip(";")
    rest = fields[4] if len(fields) == 5 else ""
    clocks = _CLOCKS.match(rest)
    halfmoves, number = clocks.groups() if clocks else ("0", "1")
    board = start_board(" ".join([*fields[:4], halfmoves, number]))
    _apply(board, rest[clocks.end() :] if clocks else rest)
    return board


def _apply(board: chess.Board, operations: str) -> None:
    position, text = 0, operations.strip().lstrip("; ")
    while position < len(text):
        operation = _OPERATION.match(text, position)
        if operation is None:
            raise Refused(f"cannot read the operations from {text[position : position + 20]!r}")
        position = operation.end()
        _operation(board, operation[1], (operation[2] or "").strip())


def _operation(board: chess.Board, opcode: str, operand: str) -> None:
    if opcode in ("hmvc", "fmvn"):
        if not (operand.isascii() and operand.isdigit()):
            raise Refused(f"{opcode} {operand}: no number")
        if opcode == "hmvc":
            board.halfmove_clock = int(operand)
        else:
            board.fullmove_number = max(1, int(operand))
    elif opcode in _MOVE_OPCODES:
        line = board.copy(stack=False)
        for san in operand.split():
            try:
                move = line.parse_san(san)
            except ValueError:
                raise Refused(f"{opcode} {san[:20]}: no legal move") from None
            if opcode == "pv":
                line.push(move)
