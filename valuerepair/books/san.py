"""Lines from the initial position in SAN, of many games side by side, ply by ply.

What `emit.LineWriter` does one move at a time, for the lines without anything special: those are nearly all of them. It
keeps the word on all others, and is the oracle of these in the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import Boards, Moves, fens, has_legal_move, in_check, legal_moves, parse_fens, replay
from valuerepair.board.rows import (
    BLACK_SHIFT,
    EP_SHIFT,
    KINGS,
    KNIGHTS,
    PAWNS,
    SLANTED,
    STATE,
    STRAIGHT,
    THEM,
)
from valuerepair.books.emit import BookLine
from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
from valuerepair.positions import STARTPOS_FEN, decode_move, encode_move

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(6)
_LETTERS = ("", "N", "B", "R", "Q", "K")
# What a word of SAN says beside the move, above its 16 bits and the three of the piece.
_TAKES, _FILE, _RANK, _CHECK, _MATE = (1 << bit for bit in range(19, 24))
_ONE, _TURN = np.uint64(1), 56
_EP_MASK = np.uint64(15)


def plain_lines(moves: Sequence[Sequence[str]], positions: Sequence[str]) -> list[BookLine | None]:
    """The entry of each of `positions` (FENs) that line i of `moves` (UCI) reaches from the initial position.

    None where `LineWriter` has to look: a move that is not legal, another position reached, no move at all, an end
    beyond lc0's limit, or a piece's move to the square of a possible e.p. capture.
    """
    lengths = np.array([len(line) for line in moves], np.int64)
    found: list[BookLine | None] = [None] * len(moves)
    try:
        numbers = {move: encode_move(move) for move in set(chain.from_iterable(moves))}
        flat = np.fromiter(map(numbers.__getitem__, chain.from_iterable(moves)), np.uint16, int(lengths.sum()))
    except ValueError:
        return found
    starts = np.cumsum(lengths) - lengths
    spoken = np.zeros(len(flat), np.int64)
    rows = np.flatnonzero((lengths > 0) & (lengths + 1 < GAME_PLY_LIMIT))
    boards = np.repeat(parse_fens([STARTPOS_FEN]), len(rows), axis=0)
    reached = [""] * len(moves)
    ply = 0
    while len(rows):
        words, rows, boards = _ply(rows, boards, flat[starts[rows] + ply])
        spoken[starts[rows] + ply] = words
        ply += 1
        over = lengths[rows] == ply
        for i, fen in zip(rows[over].tolist(), fens(boards[over]), strict=True):
            reached[i] = fen
        rows, boards = rows[~over], boards[~over]
    texts = _texts(spoken)
    for i, (start, length, fen) in enumerate(zip(starts.tolist(), lengths.tolist(), positions, strict=True)):
        if length and reached[i] == fen:
            found[i] = BookLine(STARTPOS_FEN, tuple(texts[start : start + length]), fen)
    return found


def _ply(rows: Ints, boards: Boards, moves: Moves) -> tuple[Ints, Ints, Boards]:
    """The words of one move of each line, the lines that go on and the boards behind it."""
    listed, offsets = legal_moves(boards)
    numbers = np.repeat(np.arange(len(boards)), np.diff(offsets))
    legal = np.zeros(len(boards), np.bool_)
    legal[numbers[listed == moves[numbers]]] = True
    words, kinds = _before(boards, moves)
    words |= _which(boards, moves, kinds, listed, numbers)
    going = np.flatnonzero(legal & ~_on_ep_square(boards, moves, kinds))
    after = replay(boards[going], moves[going], np.arange(len(going) + 1))
    words = words[going]
    checks = np.flatnonzero(in_check(after))
    words[checks] |= np.where(has_legal_move(after[checks]), _CHECK, _MATE)
    return words, rows[going], after


def _squares(boards: Boards, moves: Moves) -> tuple[Ints, Ints]:
    """Origin and target as the boards lie in memory: the mover's pawns go up."""
    turn = (boards[:, STATE] >> BLACK_SHIFT & _ONE).astype(np.int64) * _TURN
    numbers = moves.astype(np.int64)
    return numbers & 63 ^ turn, numbers >> 6 & 63 ^ turn


def _kinds(boards: Boards, squares: Ints) -> Ints:
    bits = _ONE << squares.astype(np.uint64)
    there = {name: (boards[:, name] & bits) != 0 for name in (PAWNS, KNIGHTS, SLANTED, STRAIGHT, KINGS)}
    sliders = np.where(there[SLANTED], np.where(there[STRAIGHT], QUEEN, BISHOP), ROOK)
    return np.select([there[PAWNS], there[KNIGHTS], there[KINGS]], [PAWN, KNIGHT, KING], sliders)


def _before(boards: Boards, moves: Moves) -> tuple[Ints, Ints]:
    """What a word says by the board before the move, but for other pieces that could go there; and the moving piece."""
    origin, target = _squares(boards, moves)
    kinds = _kinds(boards, origin)
    takes = (boards[:, THEM] >> target.astype(np.uint64) & _ONE) != 0
    takes |= (kinds == PAWN) & ((origin ^ target) & 7 != 0)
    return moves.astype(np.int64) | kinds << 16 | np.where(takes, _TAKES, 0), kinds


def _which(boards: Boards, moves: Moves, kinds: Ints, listed: Moves, numbers: Ints) -> Ints:
    """Whether file or rank must be named, for another piece of the kind that may go to the same square."""
    asked = (kinds >= KNIGHT) & (kinds <= QUEEN)
    rivals = np.flatnonzero(asked[numbers] & ((listed ^ moves[numbers]) >> 6 & 63 == 0) & (listed != moves[numbers]))
    owners = numbers[rivals]
    origin = _squares(boards[owners], listed[rivals])[0]
    same = _kinds(boards[owners], origin) == kinds[owners]
    owners, origin = owners[same], origin[same]
    unlike = origin ^ _squares(boards[owners], moves[owners])[0]
    words = np.zeros(len(boards), np.int64)
    # As python-chess: by the file, unless only the rank tells the two apart.
    by_rank = unlike & 7 == 0
    np.bitwise_or.at(words, owners, np.where(by_rank, _RANK, _FILE))
    return words


def _on_ep_square(boards: Boards, moves: Moves, kinds: Ints) -> Flags:
    """A piece's move to where a pawn might take e.p.: lc0 throws there."""
    file = (boards[:, STATE] >> EP_SHIFT & _EP_MASK).astype(np.int64) - 1
    return np.asarray((file >= 0) & (kinds != PAWN) & (_squares(boards, moves)[1] == 40 + file))


def _texts(words: Ints) -> list[str]:
    """SAN of each word; there are some thousand different ones."""
    kinds, numbers = np.unique(words, return_inverse=True)
    texts = np.empty(len(kinds), object)
    texts[:] = [_text(word) for word in kinds.tolist()]
    spoken: list[str] = texts[numbers].tolist()
    return spoken


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
