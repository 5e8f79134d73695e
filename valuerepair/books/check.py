"""Reads books, PGN, EPD and FEN, by the rules of lc0's reader: what each entry is, and why lc0 would not read it so.

lc0 0.32.1 (`src/chess/pgn.h`) reads less than the PGN standard allows: at most of the rest it throws, so that the book
does not load, and some of it it misreads in silence. Here an entry is sound only if it has nothing of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.board import status_error
from valuerepair.chess.position_text import WrongLine, numbered_lines, read_epd
from valuerepair.chess.positions import encode_moves
from valuerepair.chess.reached import boards_after
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import unpack_gzip
from valuerepair.text import printable

ENDINGS = (".pgn", ".epd", ".fen")  # each also with .gz
GAME_PLY_LIMIT = 450  # lc0 src/selfplay/game.cc: a game that reaches it is dropped without a result
_GZIP_MAGIC = b"\x1f\x8b"
_TAG = re.compile(r"\[\s*(\w+)\s+\"((?:[^\"\\]|\\.)*)\"\s*\]")
_FEN_TAG = re.compile(r"\[\s*FEN\s*\"", re.IGNORECASE)
_FEN = re.compile(r"[A-Za-z0-9/ -]+")
_ESCAPED = re.compile(r"\\(.)")
_COMMENT = re.compile(r"\{[^}]*(\}?)")  # with one that is not closed: in linear time
_TO_THE_END = re.compile(r";.*")
_NUMBER = re.compile(r"(\d*)\.(?!\.)")
_SAN = re.compile(r"(?:[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](?:=[QRBN])?|O-O(?:-O)?)(?![\w=-])")
_RESULTS = {"1-0", "0-1", "1/2-1/2", "*"}
_WORDS = "lc0 reads legal moves in SAN and White's move numbers, no variations, NAGs or other words"
_NO_MOVES = "an entry without a line of moves (write at least *): lc0 gives its FEN to the next entry"
_OVER = "lc0 plays no game from the end of this entry: it is over there, or too long for lc0"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a book, from its 1-based `line` on: `moves` (UCI) from `start_fen` lead to `fen`.

    `problem` says why lc0 does not read it so, or plays no game from it; empty for none. An entry that cannot be read
    has no FEN.
    """

    line: int
    start_fen: str = ""
    moves: tuple[str, ...] = ()
    fen: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


class _Unread(Exception):
    """lc0 refuses or misreads this; the message is the reason."""


def read_book(path: str | Path) -> list[Entry]:
    """The entries of a book of games (PGN) or of positions (EPD, FEN: which lc0 does not read), by its ending.

    Raises UsageError for a missing file and another kind of file, ValueRepairError for one that is damaged or not text.
    """
    name = Path(path).name.lower().removesuffix(".gz")
    if not name.endswith(ENDINGS):
        raise UsageError(f"{path}: not a book by its name; a book ends in {', '.join(ENDINGS)}, or these with .gz")
    lines = read_text(path).split("\n")
    entries = list(_pgn_entries(lines) if name.endswith(".pgn") else _position_entries(lines))
    if not entries:
        return [Entry(1, problem="no entry")]
    read = [i for i, entry in enumerate(entries) if entry.fen]
    plays = can_continue(
        [entries[i].fen for i in read],
        [entries[i].start_fen for i in read],
        [" ".join(entries[i].moves) for i in read],
    )
    for i, can_play in zip(read, plays.tolist(), strict=True):
        entry = entries[i]
        if not entry.problem and not (can_play and game_ply(entry.start_fen) + len(entry.moves) < GAME_PLY_LIMIT):
            entries[i] = replace(entry, problem=_OVER)
    return entries


def read_text(path: str | Path) -> str:
    """The text of a file, which may be packed with gzip. Raises UsageError and ValueRepairError."""
    try:
        raw = Path(path).read_bytes()
        if raw.startswith(_GZIP_MAGIC):
            raw = unpack_gzip(raw)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise ValueRepairError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueRepairError(f"{path}: {error}") from None
    if b"\0" in raw:
        raise ValueRepairError(f"{path}: is not text; give a book of games (PGN) or positions (EPD, FEN)")
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def can_continue(fens: Sequence[str], starts: Sequence[str], moves: Sequence[str]) -> NDArray[np.bool_]:
    """[n] whether lc0 plays a game from each of `fens`, reached from `starts` by `moves` (UCI, joined by blanks).

    False at the end of a game, at a third repetition, and beyond lc0's limit of game plies.
    """
    begins = [start if line else fen for fen, start, line in zip(fens, starts, moves, strict=True)]
    _, over = boards_after(begins, [encode_moves(line.split()) for line in moves])
    return ~over & (np.array([game_ply(fen) for fen in fens], np.int64) < GAME_PLY_LIMIT)


def game_ply(fen: str) -> int:
    """The ply of a game that begins at this FEN of six fields, as lc0 counts: the move number."""
    return int(fen.split()[5])


def on_ep_square(board: chess.Board, move: chess.Move) -> bool:
    """Whether a piece moves to the square of a possible e.p. capture: lc0 looks for a pawn's move there and throws."""
    if move.to_square != board.ep_square:
        return False
    return board.piece_type_at(move.from_square) != chess.PAWN and board.has_pseudo_legal_en_passant()


def unescaped(text: str) -> str:
    """The value of a tag without its backslashes, which python-chess leaves in place."""
    return _ESCAPED.sub(r"\1", text)


def _position_entries(lines: Sequence[str]) -> Iterator[Entry]:
    for number, text in numbered_lines(lines):
        try:
            fen = chess.Board(read_epd(text).fen).fen()
            yield Entry(number, fen, (), fen)
        except WrongLine as reason:
            yield Entry(number, problem=one_line(reason))


def _pgn_entries(lines: Sequence[str]) -> Iterator[Entry]:
    """lc0 ends a game at an empty line or a tag after moves, and drops tags without moves but keeps their FEN."""
    tags, text = dict[int, str](), dict[int, str]()  # by their numbers
    closed, ended = False, True  # an empty line came after the tags; the entry before has a result
    for number, raw in enumerate([*lines, ""], 1):
        line = raw.removesuffix("\r")
        if line and line[0] != "[":
            text[number] = line
            continue
        if text:
            entry, ended = _entry(tags, text, ended)
            yield entry
            tags, text = {}, {}
        elif closed and line:
            yield Entry(min(tags), problem=_NO_MOVES)
            tags = {}
        if line:
            tags[number] = line
        closed = bool(tags) and not line
    if tags:
        yield Entry(min(tags), problem=_NO_MOVES)


def _entry(tag_lines: Mapping[int, str], text: Mapping[int, str], ended: bool) -> tuple[Entry, bool]:
    """An entry of these lines, and whether it has a result. `ended`: the entry before it has one."""
    number, tags = min(text), dict[str, str]()
    try:
        tags = _tags(tag_lines.values())
        board = _start(tags)
        start = board.fen()
        words = _words("\n".join(text.values()))
        if not tag_lines and not words:
            raise _Unread("a line without moves: lc0 plays a game from the initial position")
        if not tag_lines and not ended and not words[0].startswith("1."):
            raise _Unread("an empty line inside the moves: lc0 begins another game here")
        if has_result := bool(words) and words[-1] in _RESULTS:
            words.pop()
        moves = _play(board, words, any_number="FEN" in tags)
        return Entry(number, start, moves, board.fen(), tags), has_result
    except _Unread as reason:
        return Entry(number, tags=tags, problem=str(reason)), True


def _tags(lines: Iterable[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for line in lines:
        if not line.rstrip().endswith("]"):
            raise _Unread("a line that begins with '[' must be a whole tag: lc0 ignores the rest of it")
        if _FEN_TAG.search(line):
            if line[:6].upper() != '[FEN "' or "FEN" in tags:
                raise _Unread('a FEN tag must be the only one of its entry and begin its line as [FEN "')
            tags["FEN"] = line[6:].split('"')[0]
        elif tag := _TAG.match(line):
            tags[tag[1]] = unescaped(tag[2])
    return tags


def _start(tags: Mapping[str, str]) -> chess.Board:
    fen = tags.get("FEN", chess.STARTING_FEN)
    reason = status_error(fen)
    if reason is None and not _FEN.fullmatch(fen):
        reason = "lc0 reads only letters, digits, /, - and blanks"
    if reason is None and len(fen.split()) == 4 and not fen.rstrip().endswith("-"):
        reason = "lc0 needs the clocks after an e.p. square"
    if reason is None and re.search(r" \d{5}", fen):
        reason = "a move counter of more than four digits"
    # python-chess drops the right to castle long in silence if there is no rook on that side.
    if reason is None and {*"".join(fen.split()[2:3])} & {*"Qq"} - {*chess.Board(fen).castling_xfen()}:
        reason = "a right to castle without a rook"
    if reason is not None:
        raise _Unread(f"bad FEN: {reason}")
    return chess.Board(fen)


def _words(text: str) -> list[str]:
    """The words of an entry without its comments, which lc0 takes out line by line."""
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n") if comment[1] else "{", text)
    if "{" in text or "}" in text:
        raise _Unread("lc0 cuts a comment that has an empty line or a line that begins with '[', or is never closed")
    return _TO_THE_END.sub("", text).split()


def _play(board: chess.Board, words: Iterable[str], any_number: bool) -> tuple[str, ...]:
    """Plays the moves on the board and returns them in UCI. `any_number`: the first move may have any number."""
    moves: list[str] = []
    shift = None if any_number else 0  # what the numbers of moves have in excess of the board's
    for word in words:
        move = word
        if number := _NUMBER.match(word):
            move = word[number.end() :]
            if number[1]:
                excess = int(number[1][:9]) - board.fullmove_number
                if excess != (excess if shift is None else shift):
                    raise _Unread(f"{printable(word, 24)}: not the number of the next move: two games in one entry")
                shift = excess
        if move:
            _push(board, move)
            moves.append(board.peek().uci())
    return tuple(moves)


def _push(board: chess.Board, word: str) -> None:
    """Plays a move on the board. Raises `_Unread` for one that lc0 does not read as it is meant."""
    try:
        san = _SAN.match(word)
        move = board.parse_san(san[0] if san else "")
    except ValueError:
        raise _Unread(f"{printable(word, 24)}: not a move here: {_WORDS}") from None
    if board.is_castling(move) and word[0] != "O":
        raise _Unread(f"{printable(word, 24)}: castling is written O-O or O-O-O: lc0 moves the king only")
    if on_ep_square(board, move):
        raise _Unread(f"{printable(word, 24)}: a piece's move to the e.p. square, which lc0 cannot read")
    if board.turn == chess.BLACK and not board.move_stack:
        raise _Unread("moves after a FEN with Black to move: lc0 plays them mirrored")
    board.push(move)
