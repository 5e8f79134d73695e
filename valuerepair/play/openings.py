"""Openings of games: the lines of a book, or built-in ones."""

from __future__ import annotations

import hashlib
import io
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import chess
import chess.pgn

from valuerepair.books.check import MAX_BOOK, BookCheck, ReadEntry
from valuerepair.chess.board import keys, parse_fens, status_error
from valuerepair.chess.position_text import WrongLine, numbered_lines, read_epd
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import read_regular, unpack_gzip

_GZIP_MAGIC = b"\x1f\x8b"
_TAG = re.compile(r"\[\s*(\w+)\s+\"((?:[^\"\\]|\\.)*)\"\s*\]")
_ESCAPED = re.compile(r"\\(.)")
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

    With `strict`, lc0's reader must accept the book and understand it as written, and each line must allow a game (`vr
    doctor`); EPD, which lc0 does not read at all, must have legal positions. Raises ValueRepairError with the
    first bad line, also for a book without lines.
    """
    name = str(path)
    content = _content(Path(path))
    suffix = Path(path).name.lower().removesuffix(".gz")
    if suffix.endswith(".pgn"):
        lines = list(_strict_lines(name, content) if strict else _pgn_lines(name, content))
    else:
        if strict and suffix.endswith(".epd"):
            _check(name)
        lines = list(_epd_lines(name, content))
    if not lines:
        raise ValueRepairError(f"{name}: no opening in it; give a book of games (PGN) or positions (EPD, FEN)")
    board_keys = keys(parse_fens([fen for _, _, fen, _ in lines])).tolist()
    return [Opening(i, *line[:3], key, line[3]) for i, (line, key) in enumerate(zip(lines, board_keys, strict=True))]


def _content(path: Path) -> str:
    try:
        raw = read_regular(path, MAX_BOOK)
        if raw.startswith(_GZIP_MAGIC):
            raw = unpack_gzip(raw, MAX_BOOK)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except ValueError as error:
        raise ValueRepairError(f"{path}: {error}") from None
    if b"\0" in raw:
        raise ValueRepairError(f"{path}: is not text; give a book of games (PGN) or positions (EPD, FEN)")
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _check(name: str, on_entry: Callable[[ReadEntry], None] | None = None) -> None:
    """Raises ValueRepairError for a book that lc0 would refuse or misread."""
    problem = next(iter(BookCheck(name, on_entry)), None)
    if problem is not None:
        where = f"{name}:{problem.line}" if problem.line else name
        raise ValueRepairError(f"{where}: {problem.reason}; `vr doctor {name}` lists all errors")


def _strict_lines(name: str, content: str) -> Iterator[_Line]:
    """The entries of a book without problems, as lc0 reads them."""
    entries: list[ReadEntry] = []
    _check(name, entries.append)
    text = content.split("\n")
    for entry in entries:
        start = chess.Board(entry.start_fen).fen()  # six fields, an e.p. square only where a capture is legal
        yield start, entry.moves, entry.fen, _tags_above(text, entry.line)


def _tags_above(text: list[str], line: int) -> dict[str, str]:
    """The tags of the entry whose moves begin at this 1-based line: the lines above it are tags and empty lines."""
    index, tags = line - 2, []
    while index >= 0 and (not text[index].strip() or text[index].startswith("[")):
        tags += _TAG.findall(text[index])
        index -= 1
    return _unescaped(reversed(tags))


def _unescaped(tags: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The tags with escapes resolved; python-chess leaves the backslashes in place."""
    return {name: _ESCAPED.sub(r"\1", value) for name, value in tags}


class _Quiet(chess.pgn.GameBuilder[chess.pgn.Game]):
    """Keeps the errors of a game without logging them: the reader reports the first one itself."""

    def handle_error(self, error: Exception) -> None:
        self.game.errors.append(error)


def _pgn_lines(name: str, content: str) -> Iterator[_Line]:
    text, number = io.StringIO(content), 0
    while (game := chess.pgn.read_game(text, Visitor=_Quiet)) is not None:
        number += 1
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
        yield start, tuple(moves), board.fen(), _unescaped(game.headers.items())


def _epd_lines(name: str, content: str) -> Iterator[_Line]:
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
    from valuerepair.books.select import can_continue  # imports pandas, which is slow; other commands do not need it

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
