"""PGN and EPD text that lc0's book reader and other tools read as it is meant.

The default entry is all moves from the initial position. Where lc0 would misread that, the entry begins later: at the
first position after the obstacle with White to move, given by a FEN tag, or at the position itself, as a FEN tag and
``*``. Obstacles: a FEN start with Black to move (the moves come out mirrored) and a piece's move to the square of a
possible e.p. capture (`Nd6` after `d7d5` beside a pawn on e5: lc0 0.32.1 throws).
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import chess

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
from valuerepair.errors import ValueRepairError
from valuerepair.positions import STARTPOS_FEN

WRAP_COLUMNS = 79
MAX_TAG_LENGTH = 200


@dataclass(frozen=True, slots=True)
class BookLine:
    """One entry's moves: where they start (a FEN with legal e.p. only), the SAN moves, and the position reached."""

    start_fen: str
    sans: tuple[str, ...]
    fen: str

    @property
    def needs_fen(self) -> bool:
        return self.start_fen != STARTPOS_FEN


class LineWriter:
    """Turns moves into SAN lines. Consecutive lines share the work on their common beginning, so send them sorted."""

    def __init__(self) -> None:
        self._given = ""  # the start as it came, and as python-chess writes it
        self._start = ""
        self._board = chess.Board()
        self._moves: list[str] = []
        self._sans: list[str] = []
        self._first: list[int] = [0]  # after n moves: the ply from which lc0 reads all of them rightly

    def line(self, start_fen: str, moves: list[str], fen: str, *, with_moves: bool = True) -> BookLine:
        """The entry for `fen`, reached from `start_fen` by `moves` (UCI).

        Raises ValueRepairError when the moves are illegal or lead elsewhere.
        """
        if not with_moves or not moves:
            board = _board(fen)
            return BookLine(board.fen(), (), board.fen())
        self._go_to(start_fen, moves)
        final = self._board.fen()
        if final != fen and _placement(final) != _placement(_board(fen).fen()):
            raise ValueRepairError(f"the moves recorded for {fen} lead to {final}; mine its game again")
        first = self._first[-1]
        start = self._fen_after(first)
        if first >= len(moves) or _move_number(start) + len(moves) - first >= GAME_PLY_LIMIT:
            return BookLine(final, (), final)
        return BookLine(start, tuple(self._sans[first:]), final)

    def _go_to(self, start_fen: str, moves: list[str]) -> None:
        if start_fen != self._given:
            self._given, self._board = start_fen, _board(start_fen)
            self._start = self._board.fen()
            self._moves, self._sans = [], []
            self._first = [0 if self._board.turn == chess.WHITE else 1]
        common = 0
        for known, wanted in zip(self._moves, moves, strict=False):
            if known != wanted:
                break
            common += 1
        while len(self._moves) > common:
            self._board.pop()
            self._moves.pop()
            self._sans.pop()
            self._first.pop()
        for move in moves[common:]:
            self._push(move)

    def _push(self, uci: str) -> None:
        board = self._board
        try:
            move = board.parse_uci(uci)
            san = board.san(move)
        except ValueError as error:
            raise ValueRepairError(f"a recorded move cannot be played: {error}; mine its game again") from None
        first = self._first[-1]
        if _unreadable(board, move):
            # White moves next, or after the answer: both are positions from which lc0 reads on.
            first = len(self._moves) + (1 if board.turn == chess.BLACK else 2)
        board.push(move)
        self._moves.append(uci)
        self._sans.append(san)
        self._first.append(first)

    def _fen_after(self, plies: int) -> str:
        if plies == 0:
            return self._start
        board = self._board.copy()
        while len(board.move_stack) > plies:
            board.pop()
        return board.fen()


def _unreadable(board: chess.Board, move: chess.Move) -> bool:
    """A piece's move to the e.p. square: lc0 looks for an e.p. capture there and throws."""
    return (
        move.to_square == board.ep_square
        and board.piece_type_at(move.from_square) != chess.PAWN
        and board.has_pseudo_legal_en_passant()
    )


def _board(fen: str) -> chess.Board:
    try:
        return chess.Board(fen)
    except ValueError as error:
        raise ValueRepairError(f"bad FEN in the store: {fen}: {error}") from None


def _placement(fen: str) -> list[str]:
    return fen.split()[:4]


def _move_number(fen: str) -> int:
    return int(fen.split()[5])


def pgn_entry(line: BookLine, tags: Mapping[str, str]) -> str:
    """One PGN game: `tags`, a FEN tag where the line does not begin at the initial position, the moves, ``*``.

    Result is always ``*``: the game that follows is not yet played. Moves are wrapped, tags never.
    """
    lines = [f'[{name} "{tag_value(text)}"]' for name, text in tags.items()]
    if line.needs_fen:
        lines += ['[SetUp "1"]', f'[FEN "{line.start_fen}"]']
    return "\n".join([*lines, "", *_movetext(line), "", ""])


def _movetext(line: BookLine) -> list[str]:
    number = _move_number(line.start_fen)
    words = [*line.sans, "*"]
    for i in range(0, len(line.sans), 2):
        words[i] = f"{number + i // 2}. {words[i]}"
    return wrapped(" ".join(words))


def wrapped(text: str) -> list[str]:
    """Words joined by single blanks in lines of at most `WRAP_COLUMNS`, as `textwrap` fills them: none is broken."""
    lines, start = [], 0
    while len(text) - start > WRAP_COLUMNS:
        end = text.rfind(" ", start, start + WRAP_COLUMNS + 1)
        if end < 0:  # a word longer than a line, which stays whole
            end = text.find(" ", start + WRAP_COLUMNS)
            if end < 0:
                break
        lines.append(text[start:end])
        start = end + 1
    return [*lines, text[start:]]


@lru_cache(65_536)  # most are those of the entry before
def tag_value(text: str) -> str:
    """`text` as it may stand between the quotes of a tag: one line, `"` and `\\` escaped, no control characters."""
    return _one_line(text)[:MAX_TAG_LENGTH].replace("\\", "\\\\").replace('"', '\\"')


def _one_line(text: str) -> str:
    """Without line breaks, control characters and half surrogates, which break readers or the encoding."""
    if text.isascii() and text.isprintable():  # as nearly all are
        return " ".join(text.split())
    printable = (" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join("".join(printable).split())


def epd_entry(fen: str, operations: Mapping[str, str | int]) -> str:
    """One EPD line: the four fields of `fen`, then `hmvc`, `fmvn` and `operations` by name.

    `fen` has six fields and an e.p. square only where a capture is legal, as `BookLine.fen` has. A text operand is
    quoted; EPD knows no escape in it, so quotes and semicolons become ' and a comma.
    """
    *position, halfmoves, number = fen.split()
    every: dict[str, str | int] = {"hmvc": int(halfmoves), "fmvn": int(number), **operations}
    return " ".join([*position, *(f"{name} {_operand(every[name])};" for name in sorted(every))])


def _operand(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    text = _one_line(value)[:MAX_TAG_LENGTH].replace('"', "'").replace(";", ",").replace("\\", "/")
    return f'"{text}"'


def signed(value: float) -> str:
    """A Q with its sign and three decimals; ``?`` for a missing one."""
    return "?" if math.isnan(value) else f"{value:+.3f}"
