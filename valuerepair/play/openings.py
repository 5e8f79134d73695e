"""Openings of games: the lines of a book, or built-in ones."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import chess
import chess.pgn

from valuerepair.books.check import can_continue, read_book, read_text, unescaped
from valuerepair.chess.board import keys, parse_fens, status_error
from valuerepair.chess.position_text import WrongLine, numbered_lines, read_epd
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.errors import ValueRepairError, one_line

_Line = tuple[str, tuple[str, ...], str, Mapping[str, str]]  # start_fen, moves, fen, tags
_LONGEST = 40  # plies of an opening; longer lines are probably complete games
_BUILT_IN_PLIES = range(6, 11)
_BUILT_IN_SHUFFLE = 1  # a seed; without shuffling the first lines would all be of one kind


@dataclass(frozen=True, slots=True)
class Opening:
    """One line of a book: its games begin at `start_fen` with `moves` (UCI), which lead to `fen`.

    `number` counts the lines from 0, `key` is the 64-bit key of `fen` (as in `Position.key`), `tags` are those of PGN.
    """

    number: int
    start_fen: str
    moves: tuple[str, ...]
    fen: str
    key: int
    tags: Mapping[str, str] = field(default_factory=dict)


def read_openings(path: str | Path, *, strict: bool = False) -> list[Opening]:
    """The lines of a book: PGN (its main lines; .pgn, .pgn.gz), else EPD or FEN, one position per line.

    With `strict`, `vr doctor` must find no problem: lc0 reads a PGN as it is written, and a game can be played from
    each line. Raises ValueRepairError with the first bad line, also for a book without lines, and with `strict`
    UsageError for another kind of file.
    """
    name = str(path)
    is_pgn = name.lower().removesuffix(".gz").endswith(".pgn")
    if strict:
        lines = list(_sound_lines(name))
    else:
        lines = list((_pgn_lines if is_pgn else _position_lines)(name, read_text(name)))
    if not lines:
        raise ValueRepairError(f"{name}: no opening in it; give a book of games (PGN) or positions (EPD, FEN)")
    board_keys = keys(parse_fens([fen for _, _, fen, _ in lines])).tolist()
    return [Opening(i, *line[:3], key, line[3]) for i, (line, key) in enumerate(zip(lines, board_keys, strict=True))]


def _sound_lines(name: str) -> Iterator[_Line]:
    """The entries of a book that lc0 reads as it is written. Raises ValueRepairError for another one."""
    for entry in read_book(name):
        if entry.problem:
            raise ValueRepairError(f"{name}:{entry.line}: {entry.problem}; `vr doctor {name}` lists all errors")
        yield entry.start_fen, entry.moves, entry.fen, entry.tags


class _Quiet(chess.pgn.GameBuilder[chess.pgn.Game]):
    """Keeps the errors of a game without logging them: the reader reports the first one itself."""

    def handle_error(self, error: Exception) -> None:
        self.game.errors.append(error)


def _pgn_lines(name: str, content: str) -> Iterator[_Line]:
    text, number = io.StringIO(content), 0
    while True:
        number += 1
        try:
            game = chess.pgn.read_game(text, Visitor=_Quiet)
        except IndexError:  # python-chess on an illegal move in a variation before the first move
            reason = "its moves and variations cannot be read"
            raise ValueRepairError(f"{name}: game {number}: {reason}; `vr doctor {name}` lists all errors") from None
        if game is None:
            return
        if game.errors:
            reason = str(game.errors[0]).splitlines()[0]
            raise ValueRepairError(f"{name}: game {number}: {reason}; `vr doctor {name}` lists all errors")
        try:
            board = game.board()
        except ValueError as error:
            raise ValueRepairError(f"{name}: game {number}: {error}") from None
        if board.chess960 or type(board) is not chess.Board:
            variant = "Chess960" if board.chess960 else type(board).uci_variant or "a variant"
            raise ValueRepairError(f"{name}: game {number}: {variant} is not supported, only standard chess")
        if illegal := status_error(board.fen()):
            raise ValueRepairError(f"{name}: game {number}: {board.fen()}: {illegal}")
        start, moves = board.fen(), []
        for move in game.mainline_moves():
            if not move:
                raise ValueRepairError(f"{name}: game {number}: a null move")
            moves.append(move.uci())
            board.push(move)
        tags = {name: unescaped(value) for name, value in game.headers.items()}
        yield start, tuple(moves), board.fen(), tags


def _position_lines(name: str, content: str) -> Iterator[_Line]:
    for number, text in numbered_lines(content.split("\n")):
        try:
            fen = chess.Board(read_epd(text).fen).fen()
        except WrongLine as reason:
            raise ValueRepairError(f"{name}:{number}: {one_line(reason)}") from None
        yield fen, (), fen, {}


@cache
def built_in_openings() -> tuple[Opening, ...]:
    """Openings for matches without a book: the shortest named line of each ECO code, 6 to 10 plies, even material.

    No line ends in check. Their order mixes the codes and is always the same.
    """
    from valuerepair.chess.openings import named_positions

    shortest: dict[str, tuple[str, tuple[str, ...], str]] = {}
    for eco, name, moves in named_positions():
        if len(moves) in _BUILT_IN_PLIES and (eco not in shortest or len(moves) < len(shortest[eco][1])):
            board = chess.Board()
            for move in moves:
                board.push_uci(move)
            if _is_even(board):
                shortest[eco] = name, moves, board.fen()
    order = sorted(shortest)
    random.Random(_BUILT_IN_SHUFFLE).shuffle(order)
    lines = [shortest[eco] for eco in order]
    board_keys = keys(parse_fens([fen for _, _, fen in lines])).tolist()
    return tuple(
        Opening(i, STARTPOS_FEN, moves, fen, board_keys[i], {"ECO": order[i], "Opening": name})
        for i, (name, moves, fen) in enumerate(lines)
    )


def _is_even(board: chess.Board) -> bool:
    counts = (len(board.pieces(kind, True)) - len(board.pieces(kind, False)) for kind in chess.PIECE_TYPES)
    return not any(counts) and not board.is_check()


def check_playable(openings: Sequence[Opening], book: str | None) -> None:
    """Raises ValueRepairError for the first line of a book that ends the game, so that none can be played from it."""
    fens, starts = [opening.fen for opening in openings], [opening.start_fen for opening in openings]
    moves = [" ".join(opening.moves) for opening in openings]
    for opening, playable in zip(openings, can_continue(fens, starts, moves), strict=True):
        if not playable:
            advice = "take it out" if len(opening.moves) <= _LONGEST else "these look like whole games, not openings"
            raise ValueRepairError(f"{book}: opening {opening.number + 1} ends the game ({opening.fen}); {advice}")


def book_digest(openings: Sequence[Opening]) -> str:
    """Identifies a book: SHA-256 of its lines, 12 hex digits."""
    text = "\n".join(f"{opening.start_fen} {' '.join(opening.moves)}" for opening in openings)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def opening_of(start_fen: str, moves: Sequence[str]) -> tuple[str, ...]:
    """What makes openings the same: the position at their start, without its counters, and their moves.

    A book may have a line more than once, and so may two books. An empty `start_fen` is the initial position.
    """
    return " ".join((start_fen or STARTPOS_FEN).split()[:4]), *moves


def white_material(fen: str) -> int:
    """White's material less Black's, in pawns (1, 3, 3, 5, 9)."""
    worth = {"p": 1, "n": 3, "b": 3, "r": 5, "q": 9}
    board = fen.split(" ", 1)[0]
    return sum(worth.get(letter.lower(), 0) * (1 if letter.isupper() else -1) for letter in board)
