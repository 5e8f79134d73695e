"""A position as text: pieces of Unicode on coloured squares, or as plain as the terminal is."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import chess

# 256-colour numbers: black ink on grey squares, which stands out on light and on dark terminals alike. Which side a
# piece is of, its shape says (outlined, filled), not its colour.
_INK, _LIGHT, _DARK = 16, 255, 250
# Squares of a move: the net's, the search's, or of both; near to vermillion, blue and green of the plots.
NET, DEEP, BOTH = 216, 117, 150


def board_lines(
    fen: str,
    *,
    white_below: bool,
    colours: bool = False,
    unicode: bool = True,
    net: str | None = None,
    deep: str | None = None,
) -> list[str]:
    """The board, eight ranks and the files' letters, White below or above.

    With `colours` the squares are coloured by escape sequences, those of the moves `net` and `deep` (UCI) too. Without
    `unicode` pieces are letters, White's upper case.
    """
    board = chess.Board(fen)
    marks = _marks(net, deep) if colours else {}
    ranks: Sequence[int] = range(8) if white_below else range(7, -1, -1)
    files = range(8) if white_below else range(7, -1, -1)
    lines = []
    for rank in reversed(ranks):
        cells = [_cell(board, chess.square(file, rank), colours, unicode, marks) for file in files]
        end = "\x1b[0m" if colours else ""
        lines.append(f" {rank + 1} " + "".join(cells) + end)
    return [*lines, "   " + "".join(f" {chess.FILE_NAMES[file]} " for file in files)]


def _marks(net: str | None, deep: str | None) -> dict[int, int]:
    """Squares of the moves and their colours."""
    squares = {who: _squares(move) for who, move in ((NET, net), (DEEP, deep))}
    marks = dict.fromkeys(squares[NET], NET) | dict.fromkeys(squares[DEEP], DEEP)
    return marks | dict.fromkeys(squares[NET] & squares[DEEP], BOTH)


def _squares(move: str | None) -> set[int]:
    return {chess.parse_square(move[:2]), chess.parse_square(move[2:4])} if move else set()


def _cell(board: chess.Board, square: int, colours: bool, unicode: bool, marks: Mapping[int, int]) -> str:
    piece = board.piece_at(square)
    empty = " " if colours else "·" if unicode else "."
    text = empty if piece is None else piece.unicode_symbol() if unicode else piece.symbol()
    if not colours:
        return f" {text} "
    light = bool(chess.BB_SQUARES[square] & chess.BB_LIGHT_SQUARES)
    ground = marks.get(square, _LIGHT if light else _DARK)
    return f"\x1b[38;5;{_INK};48;5;{ground}m {text} "


def can_show(text: str) -> bool:
    """Whether the encoding of standard output has these characters."""
    return encodable(text) == text


def encodable(text: str) -> str:
    """`text` with escapes for what the encoding of standard output has not."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)
