"""PGN and EPD text that lc0's book reader and other tools read as intended.

The default entry has all moves from the initial position. If lc0 would misread that, the entry begins later: at the
first position after the obstacle with White to move, as a FEN tag, or at the position itself, as a FEN tag and ``*``.
Obstacles are a FEN start with Black to move (lc0 mirrors the moves) and a piece's move to the square of a possible e.p.
capture (`Nd6` after `d7d5` next to a pawn on e5: lc0 0.32.1 throws).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Ids, Moves
from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
from valuerepair.chess.board import (
    bitboards,
    fens,
    has_legal_move,
    in_check,
    legal_moves,
    parse_fens,
    replay,
    white_to_move,
)
from valuerepair.chess.openings import boards_by_ply
from valuerepair.chess.positions import STARTPOS_FEN, decode_move, encode_lines
from valuerepair.chess.rows import EP_SHIFT, NUMBER_SHIFT, PAWNS, STATE, THEM, US, Boards

WRAP_COLUMNS = 79
_LINE = re.compile(rf"(.{{1,{WRAP_COLUMNS}}}|\S+)(?: |$)")  # breaks lines as textwrap does, 20 times as fast
MAX_TAG_LENGTH = 200
_LINES_AT_ONCE = 5000  # so that progress shows


@dataclass(frozen=True, slots=True)
class BookLine:
    """The moves of an entry: their start (a FEN with legal e.p. only), the SAN moves, and the position they reach."""

    start_fen: str
    sans: tuple[str, ...]
    fen: str


def book_lines(
    start_fens: Sequence[str],
    moves: Sequence[list[str]],
    positions: Sequence[str],
    on_line: Callable[[], None] = lambda: None,
) -> list[BookLine]:
    """The line of each of `positions` (FENs), reached from `start_fens` by `moves` (UCI); with no moves, the position
    alone. The moves must lead there: the store checks the histories that it reads. Calls `on_line` after each line.
    """
    lines = []
    for first in range(0, len(positions), _LINES_AT_ONCE):
        part = slice(first, first + _LINES_AT_ONCE)
        for line in _side_by_side(start_fens[part], moves[part], positions[part]):
            lines.append(line)
            on_line()
    return lines


def san_flags(fens: Sequence[str], lines: Sequence[Sequence[str]]) -> NDArray[np.uint8]:
    """[k] what the SAN of each move has that the board before it does not show, for all lines of moves (UCI) from
    `fens`: 1 the file, 2 the rank that it came from, 4 check, 8 mate. 0 from the first illegal move of a line on."""
    flat, cuts = encode_lines(lines)
    flags, numbers, earlier = np.zeros(len(flat), np.uint8), np.zeros(0, np.int64), parse_fens([])
    for ply, (rows, boards) in enumerate(boards_by_ply(fens, lines)):
        if ply:
            played = cuts[rows] + ply - 1  # the moves that lead to this ply
            words, _, _ = _ply(earlier[np.searchsorted(numbers, rows)], flat[played])
            flags[played] = words >> 20
        numbers, earlier = rows, boards
    return flags


def _side_by_side(start_fens: Sequence[str], moves: Sequence[list[str]], positions: Sequence[str]) -> list[BookLine]:
    """`book_lines`, ply by ply for all lines."""
    flat, cuts = encode_lines(moves)
    words = np.zeros(len(flat), np.int64)
    boards = parse_fens([start if line else fen for start, line, fen in zip(start_fens, moves, positions, strict=True)])
    boards[:, STATE] |= (boards[:, STATE] >> NUMBER_SHIFT == 0).astype(np.uint64) << NUMBER_SHIFT  # move 0 is move 1
    rows, lengths = np.arange(len(moves)), np.diff(cuts)
    first = np.where(white_to_move(boards), 0, 1)  # the ply from which lc0 reads all moves correctly
    starts, ends = [""] * len(moves), [""] * len(moves)
    ply = 0
    while len(rows):
        for plies, texts in ((first, starts), (lengths, ends)):
            reached = plies[rows] == ply
            for i, fen in zip(rows[reached].tolist(), fens(boards[reached]), strict=True):
                texts[i] = fen
        unfinished = lengths[rows] > ply
        rows, boards = rows[unfinished], boards[unfinished]
        following, turn = cuts[rows] + ply, white_to_move(boards)
        words[following], unreadable, boards = _ply(boards, flat[following])
        ply += 1
        # lc0 can read on from the next position with White to move.
        first[rows[unreadable]] = np.where(turn, ply + 1, ply)[unreadable]
    sans = _texts(words)
    return [
        _line(start, tuple(sans[begin:end]), fen)
        for start, fen, begin, end in zip(starts, ends, (cuts[:-1] + first).tolist(), cuts[1:].tolist(), strict=True)
    ]


def _line(start: str, sans: tuple[str, ...], fen: str) -> BookLine:
    """The line, or the position alone if there are no moves or too many for lc0."""
    if not sans or _move_number(start) + len(sans) >= GAME_PLY_LIMIT:
        return BookLine(fen, (), fen)
    return BookLine(start, sans, fen)


def _move_number(fen: str) -> int:
    return int(fen.split()[5])


def pgn_entry(line: BookLine, tags: Mapping[str, str]) -> str:
    """One PGN game: `tags`, a FEN tag if the line does not begin at the initial position, the moves, ``*``.

    Result is always ``*``: the game that follows is not yet played. Moves are wrapped, tags never.
    """
    return "\n".join([*tag_lines(tags, line.start_fen), "", *_movetext(line), "", ""])


def tag_lines(tags: Mapping[str, str], start_fen: str = STARTPOS_FEN, whole: Container[str] = frozenset()) -> list[str]:
    """The lines of PGN tags; with the tags of the start if it is not the initial position.

    Values are cut to `MAX_TAG_LENGTH` characters, except those of the tags that are `whole`.
    """
    lines = [f'[{name} "{tag_value(text, None if name in whole else MAX_TAG_LENGTH)}"]' for name, text in tags.items()]
    return lines if start_fen == STARTPOS_FEN else [*lines, '[SetUp "1"]', f'[FEN "{start_fen}"]']


def _movetext(line: BookLine) -> list[str]:
    number = _move_number(line.start_fen)
    words = [*line.sans, "*"]
    for i in range(0, len(line.sans), 2):
        words[i] = f"{number + i // 2}. {words[i]}"
    return _LINE.findall(" ".join(words))


@lru_cache(65_536)  # most texts repeat those of the previous entry
def tag_value(text: str, most: int | None) -> str:
    """`text` for the quotes of a tag: one line of `most` characters, `"` and `\\` escaped, no control characters."""
    return one_line(text)[:most].replace("\\", "\\\\").replace('"', '\\"')


def one_line(text: str) -> str:
    """Without line breaks, control characters and lone surrogates, which break readers or the encoding."""
    if text.isascii() and text.isprintable():  # nearly every text
        return " ".join(text.split())
    printable = (" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join("".join(printable).split())


def epd_entry(fen: str, operations: Mapping[str, str | int]) -> str:
    """One EPD line: the four fields of `fen`, then `hmvc`, `fmvn` and `operations` by name.

    `fen` has six fields and an e.p. square only where a capture is legal, as `BookLine.fen` has. A text operand is
    quoted; EPD has no escapes, so quotes become ' and semicolons become commas.
    """
    *position, halfmoves, number = fen.split()
    texts = {name: f'"{epd_text(value)}"' if isinstance(value, str) else value for name, value in operations.items()}
    operands = {"hmvc": int(halfmoves), "fmvn": int(number), **texts}
    return " ".join([*position, *(f"{name} {operands[name]};" for name in sorted(operands))])


def epd_text(text: str, most: int = MAX_TAG_LENGTH) -> str:
    """`text` for the quotes of an EPD operand, cut to the given number of characters."""
    return one_line(text)[:most].replace('"', "'").replace(";", ",").replace("\\", "/")


PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(6)
_LETTERS = ("", "N", "B", "R", "Q", "K")
# Flags of a SAN word, above the 16 bits of the move and the three of the piece.
_TAKES, _FILE, _RANK, _CHECK, _MATE = (1 << bit for bit in range(19, 24))
_ONE = np.uint64(1)
_EP_MASK = np.uint64(15)


def _ply(boards: Boards, moves: Moves) -> tuple[Ids, Flags, Boards]:
    """One ply of each line: the words of its moves, which of them lc0 cannot read, and the boards after them."""
    listed, offsets = legal_moves(boards)
    numbers = np.repeat(np.arange(len(boards)), np.diff(offsets))
    words, kinds = _plain_words(boards, moves)
    words |= _disambiguation(boards, moves, kinds, listed, numbers)
    after = replay(boards, moves, np.arange(len(boards) + 1))
    checks = np.flatnonzero(in_check(after))
    words[checks] |= np.where(has_legal_move(after[checks]), _CHECK, _MATE)
    return words, _on_ep_square(boards, moves, kinds), after


def _squares(boards: Boards, moves: Moves) -> tuple[Ids, Ids]:
    """Origin and target squares [n] as boards are stored: the mover's pawns move up."""
    turn = np.where(white_to_move(boards), 0, 56)
    numbers = moves.astype(np.int64)
    return numbers & 63 ^ turn, numbers >> 6 & 63 ^ turn


def _kinds(boards: Boards, squares: Ids) -> Ids:
    """[n] the kind of the mover's man on each square."""
    kinds: Ids = (bitboards(boards)[0] >> squares.astype(np.uint64) & _ONE).argmax(0)
    return kinds


def _plain_words(boards: Boards, moves: Moves) -> tuple[Ids, Ids]:
    """The words of moves without disambiguation, check and mate; and the kinds of the moving pieces."""
    origin, target = _squares(boards, moves)
    kinds = _kinds(boards, origin)
    takes = (boards[:, THEM] >> target.astype(np.uint64) & _ONE) != 0
    takes |= (kinds == PAWN) & ((origin ^ target) & 7 != 0)
    return moves.astype(np.int64) | kinds << 16 | np.where(takes, _TAKES, 0), kinds


def _disambiguation(boards: Boards, moves: Moves, kinds: Ids, listed: Moves, numbers: Ids) -> Ids:
    """The flags for file or rank, if another piece of the same kind may go to the same square."""
    shared = (kinds >= KNIGHT) & (kinds <= QUEEN)
    rivals = np.flatnonzero(shared[numbers] & ((listed ^ moves[numbers]) >> 6 & 63 == 0) & (listed != moves[numbers]))
    owners = numbers[rivals]
    origin = _squares(boards[owners], listed[rivals])[0]
    same_kind = _kinds(boards[owners], origin) == kinds[owners]
    owners, origin = owners[same_kind], origin[same_kind]
    unlike = origin ^ _squares(boards[owners], moves[owners])[0]
    words = np.zeros(len(boards), np.int64)
    # As in python-chess: the rank if another stands on the file; the file if one stands on the rank, or none on either.
    np.bitwise_or.at(words, owners, np.where(unlike & 7 == 0, _RANK, 0) | np.where(unlike & 56 == 0, _FILE, 0))
    words[owners] |= np.where(words[owners] & _RANK, 0, _FILE)
    return words


def _on_ep_square(boards: Boards, moves: Moves, kinds: Ids) -> Flags:
    """[n] whether a piece moves to the square of a possible e.p. capture: lc0 looks for one there and throws."""
    file = (boards[:, STATE] >> EP_SHIFT & _EP_MASK).astype(np.int64) - 1
    fifth_rank = ((boards[:, US] & boards[:, PAWNS]) >> np.uint64(32)).astype(np.int64) & 255
    adjacent_files = 5 << file.clip(0) >> 1
    return np.asarray(
        (file >= 0) & (fifth_rank & adjacent_files != 0) & (kinds != PAWN) & (_squares(boards, moves)[1] == 40 + file)
    )


def _texts(words: Ids) -> list[str]:
    """The SAN of each word; there are a few thousand different words."""
    distinct, indices = np.unique(words, return_inverse=True)
    texts = [_text(word) for word in distinct.tolist()]
    return [texts[i] for i in indices.tolist()]


@cache
def _text(word: int) -> str:
    uci, kind = decode_move(word & 0xFFFF), word >> 16 & 7
    suffix = "#" if word & _MATE else "+" if word & _CHECK else ""
    if kind == KING and abs(ord(uci[0]) - ord(uci[2])) == 2:
        return ("O-O" if uci[2] == "g" else "O-O-O") + suffix
    takes = "x" if word & _TAKES else ""
    if kind == PAWN:
        promoted = f"={uci[4].upper()}" if uci[4:] else ""
        return (uci[0] + takes if takes else "") + uci[2:4] + promoted + suffix
    origin = (uci[0] if word & _FILE else "") + (uci[1] if word & _RANK else "")
    return _LETTERS[kind] + origin + takes + uci[2:4] + suffix
