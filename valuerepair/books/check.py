"""Checks whether lc0 reads a book, PGN or EPD, and reads the intended lines: `BookCheck`, line by line.

The PGN check walks the file exactly as lc0's reader does (lines, comments, words) and reports every place where lc0
would throw, silently read something else, or play no game.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import chess

from valuerepair.books.lc0_reader import RESULTS, Refused, explain, no_game, read_move, start_board
from valuerepair.chess.position_text import WrongLine, numbered_lines, read_epd
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import open_regular
from valuerepair.text import quantity

MAX_LINE = 1 << 24  # bytes
MAX_BOOK = 512 << 20  # bytes, unpacked
_GZIP_MAGIC = b"\x1f\x8b"
_OTHER_MAGIC = {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_FEN_TAG = re.compile(r"\[\s*FEN\s*\"", re.IGNORECASE)
_VARIANT_TAG = re.compile(r"\[\s*Variant\s+\"([^\"]*)\"", re.IGNORECASE)
_STANDARD_VARIANTS = {"", "standard", "chess", "normal", "from position"}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a 1-based `line`; 0 means the file as a whole."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry of a book: the line where it begins, its start, its moves (UCI) and the position that they reach."""

    line: int
    start_fen: str
    moves: tuple[str, ...]
    fen: str


def check_book(path: str | Path) -> list[Problem]:
    """All problems of a `.pgn`, `.pgn.gz`, `.epd` or `.epd.gz` book; an empty list for a book that lc0 reads correctly.

    Raises as `BookCheck`.
    """
    return list(BookCheck(path))


class BookCheck:
    """Iterates over a book's problems, and counts problems, entries, and the side to move where the entries end.

    Iterate once; the counts are complete at the end. Calls `on_entry` with every readable entry. Raises UsageError for
    a missing file and for another kind of file, ValueRepairError for a file that is no book or is packed in a way that
    lc0 does not read.
    """

    def __init__(self, path: str | Path, on_entry: Callable[[ReadEntry], None] | None = None) -> None:
        self.path = Path(path)
        self.entries = self.white_to_move = self.black_to_move = self.problems = 0
        self._on_entry = on_entry
        name = self.path.name.lower().removesuffix(".gz")
        if not name.endswith((".pgn", ".epd")):
            raise UsageError(f"{path}: not a book by its name; a book ends in .pgn, .pgn.gz, .epd or .epd.gz")
        self._epd = name.endswith(".epd")

    def __iter__(self) -> Iterator[Problem]:
        problems: list[Problem] = []

        def problem(line: int, reason: str) -> None:
            self.problems += 1
            problems.append(Problem(line, reason))

        reader = _EpdCheck(self, problem) if self._epd else _PgnCheck(self, problem)
        number = size = 0
        with _open_book(self.path) as file:
            try:
                while line := file.readline(MAX_LINE + 1):
                    number += 1
                    size += len(line)
                    if size > MAX_BOOK:
                        raise ValueRepairError(
                            f"{self.path}: unpacks to more than {MAX_BOOK >> 20} MiB; this is not a book"
                        )
                    if len(line) > MAX_LINE:
                        raise ValueRepairError(f"{self.path}: line {number} is longer than 16 MiB; this is not a book")
                    reader.line(number, line.removesuffix(b"\n"))
                    yield from problems
                    problems.clear()
            except (EOFError, gzip.BadGzipFile, zlib.error):
                problem(number, "after this line the compressed data is cut off or damaged; lc0 stops without an error")
        reader.end()
        yield from problems

    def as_json(self) -> dict[str, int]:
        """The counts."""
        return {name: getattr(self, name) for name in ("entries", "white_to_move", "black_to_move", "problems")}

    def lines(self) -> list[str]:
        """The counts as text for a terminal."""
        sides = f"{self.white_to_move:,} white and {self.black_to_move:,} black to move"
        problems = f"{self.problems or 'no'} problem{'s' * (self.problems != 1)}"
        return [f"{self.path}: {quantity(self.entries, 'entry')}, {sides}; {problems}"]

    def count(self, line: int, start_fen: str, moves: tuple[str, ...], board: chess.Board) -> None:
        """Counts a readable entry whose last position is `board`."""
        if board.turn == chess.WHITE:
            self.white_to_move += 1
        else:
            self.black_to_move += 1
        if self._on_entry is not None:
            self._on_entry(ReadEntry(line, start_fen, moves, board.fen()))


def _open_book(path: Path) -> BinaryIO | gzip.GzipFile:
    try:
        file = open_regular(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    head = file.read(6)
    file.seek(0)
    for magic, name in _OTHER_MAGIC.items():
        if head.startswith(magic):
            raise ValueRepairError(f"{path}: compressed with {name}, which lc0 cannot read; unpack it or use gzip")
    return gzip.GzipFile(fileobj=file) if head.startswith(_GZIP_MAGIC) else file


@dataclass(slots=True)
class _BookEntry:
    """The entry being read: its tags, then its moves."""

    tags_line: int = 0  # first tag line, 0 for none
    tags_closed: bool = False  # a blank line came after them
    fen_line: int = 0
    line: int = 0  # first movetext line, 0 before it
    failed: bool = False  # a move could not be read, so the moves after it mean nothing
    result: bool = False  # a result came
    joined: bool = False  # a move came after it, which is reported once
    first_word: str = ""
    first_number: int | None = None
    last_number: int = 0
    last_number_at: int = 0  # plies before that number
    moves: list[str] = field(default_factory=list)


class _PgnCheck:
    """lc0's `PgnReader::AddPgnFile`, line by line, and the faults that it does not notice."""

    def __init__(self, book: BookCheck, problem: Callable[[int, str], None]) -> None:
        self._book, self._problem = book, problem
        self._entry = _BookEntry()
        self._board = chess.Board()
        self._start_fen = chess.STARTING_FEN
        self._fen_line = 0  # where lc0's current start position comes from
        self._comment_line = 0  # where the open brace comment began, 0 outside
        self._ended = True  # the previous entry had a result

    def line(self, number: int, raw: bytes) -> None:
        raw = raw.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r")
        if b"\0" in raw:
            self._problem(number, "a NUL byte: lc0 drops the rest of the line and joins the next to it")
            raw = raw[: raw.index(b"\0")]
        text = raw.decode("latin-1")
        if text and text[0] != "[":
            self._movetext(number, text)
            return
        if self._comment_line:
            line_kind = "a line that begins with '['" if text else "an empty line"
            self._problem(
                number, f"{line_kind} inside the comment of line {self._comment_line}: lc0 ends the game here"
            )
        if self._entry.line:
            self._flush()
        if text:
            self._tag(number, text)
        elif self._entry.tags_line:
            self._entry.tags_closed = True

    def end(self) -> None:
        if self._entry.line:
            self._flush()
        elif self._entry.tags_line:
            self._no_movetext()
        if self._comment_line:
            self._problem(self._comment_line, "a comment that is never closed: lc0 drops all that follows")
        if not self._book.entries:
            self._problem(0, "no entry: lc0 would play every game from the initial position")

    def _tag(self, number: int, text: str) -> None:
        entry = self._entry
        if entry.tags_line and entry.tags_closed:
            self._no_movetext()
            # lc0 keeps the start position, even one that cannot be read.
            entry = self._entry = _BookEntry(failed=entry.failed)
        if not entry.tags_line:
            entry.tags_line = number
        if not text.rstrip().endswith("]"):
            self._problem(number, "a line that begins with '[' must be a whole tag: lc0 ignores the rest of it")
        variant = _VARIANT_TAG.match(text)
        if variant and variant[1].lower() not in _STANDARD_VARIANTS:
            self._problem(number, f"variant {variant[1]}: lc0 plays standard chess")
        if text[:6].upper() == '[FEN "':
            if entry.fen_line:
                self._problem(number, "a second FEN tag in one entry")
            self._fen_tag(number, text[6:].split('"')[0])
        elif _FEN_TAG.search(text):
            self._problem(number, 'lc0 does not see this FEN tag: it must begin the line as [FEN "')

    def _fen_tag(self, number: int, fen: str) -> None:
        self._entry.fen_line = self._fen_line = number
        self._entry.failed = False
        try:
            self._board = start_board(fen)
        except Refused as reason:
            self._problem(number, str(reason))
            self._entry.failed = True
        self._start_fen = fen

    def _no_movetext(self) -> None:
        consequence = " and starts the next entry from its FEN, unless that has its own" if self._entry.fen_line else ""
        reason = f"an entry without movetext (write at least *): lc0 drops it{consequence}"
        self._problem(self._entry.tags_line, reason)

    def _movetext(self, number: int, text: str) -> None:
        entry = self._entry
        if not entry.line:
            entry.line = number
            self._book.entries += 1
            if self._fen_line != entry.fen_line:
                self._problem(number, f"starts from the FEN of line {self._fen_line}, whose entry has no movetext")
        if text[0] == "%" and not self._comment_line:
            self._problem(number, "an escape line (%): lc0 takes it for moves")
            entry.failed = True
            return
        if text.lstrip()[:1] == "[" and not self._comment_line:
            self._problem(number, "a tag must begin its line: lc0 takes this one for moves")
            entry.failed = True
            return
        for word in self._without_comments(number, text).split():
            self._word(number, word)

    def _without_comments(self, number: int, text: str) -> str:
        """The line without comments, by lc0's own loop (a brace counts even after a semicolon)."""
        offset = 0
        while True:
            brace = text.find("}" if self._comment_line else "{", offset)
            if brace < 0:
                break
            if self._comment_line:
                text = text[:offset] + text[brace + 1 :]
                self._comment_line = 0
            else:
                if ";" in text[:brace]:
                    self._problem(number, "a brace after a semicolon: lc0 opens a comment there")
                offset, self._comment_line = brace, number
        if self._comment_line:
            text = text[:offset]
        return text.split(";", 1)[0]

    def _word(self, number: int, word: str) -> None:
        entry = self._entry
        entry.first_word = entry.first_word or word
        if entry.failed:
            return
        if word in ("(", ")"):
            self._fail(number, explain(word))
            return
        written = word
        prefix, dot, move = word.partition(".")
        if dot and len(word) > 1 and (not prefix or (prefix.isascii() and prefix.isdigit())):
            self._move_number(number, prefix)
            word = move
        if word in RESULTS:
            entry.result = True
        elif len(word) > 1 and word[0] == ".":
            self._fail(number, explain(written))
        elif len(word) > 1:
            self._move(number, word)

    def _move_number(self, number: int, digits: str) -> None:
        if not digits:
            return
        value = int(digits[:9])
        if self._entry.first_number is None and not self._entry.moves:
            self._entry.first_number = value
        entry = self._entry
        if value < entry.last_number or (value == entry.last_number and len(entry.moves) > entry.last_number_at + 1):
            reason = f"move number {value} comes after {entry.last_number}: two games in one entry"
            self._problem(number, reason)
        entry.last_number, entry.last_number_at = value, len(entry.moves)

    def _move(self, number: int, word: str) -> None:
        entry, board = self._entry, self._board
        if entry.result and not entry.joined:
            self._problem(number, f"{word[:24]} comes after the result: lc0 continues the same game")
            entry.joined = True
        try:
            move = read_move(word, board, ep_as_given=not entry.moves)
        except Refused as reason:
            self._fail(number, str(reason))
            return
        if not entry.moves and board.turn == chess.BLACK:
            self._problem(number, "moves after a FEN with Black to move: lc0 plays them mirrored")
        entry.moves.append(move.uci())
        board.push(move)

    def _fail(self, number: int, reason: str) -> None:
        self._problem(number, reason)
        self._entry.failed = True

    def _flush(self) -> None:
        entry = self._entry
        self._report_accidental(entry)
        if not entry.failed:
            fields = self._start_fen.split()
            over = no_game(self._board, (int(fields[5]) if len(fields) > 5 else 1) + len(entry.moves))
            if over is not None:
                self._problem(entry.line, f"lc0 plays no game from the end of this entry: {over}")
            self._book.count(entry.line, self._start_fen, tuple(entry.moves), self._board)
        self._ended = entry.result
        self._entry = _BookEntry()
        self._board, self._start_fen, self._fen_line = chess.Board(), chess.STARTING_FEN, 0

    def _report_accidental(self, entry: _BookEntry) -> None:
        """Reports an entry that exists only because of an empty line: lc0 starts it from the initial position."""
        if not entry.tags_line and not entry.first_word:
            self._problem(entry.line, "blanks or a comment on their own: lc0 adds an entry from the initial position")
        elif not self._fen_line and entry.first_number not in (None, 1):
            reason = f"begins with move {entry.first_number}, but lc0 starts it from the initial position"
            self._problem(entry.line, reason)
        elif not entry.tags_line and not self._ended and entry.first_number is None:
            self._problem(entry.line, "an empty line inside movetext: lc0 starts a new game here")


class _EpdCheck:
    """An EPD book: one position a line, as an EPD (four fields and operations) or a FEN (six fields)."""

    def __init__(self, book: BookCheck, problem: Callable[[int, str], None]) -> None:
        self._book, self._problem = book, problem

    def line(self, number: int, raw: bytes) -> None:
        for _, text in numbered_lines([raw.decode("utf-8", "replace")]):
            self._book.entries += 1
            if "\r" in text:
                self._problem(number, "a carriage return alone does not end a line; write a line feed")
                return
            try:
                board = chess.Board(read_epd(text).fen)
            except WrongLine as reason:
                self._problem(number, one_line(reason))
                return
            over = no_game(board, 1)
            if over is not None:
                self._problem(number, f"no game can be played from here: {over}")
            self._book.count(number, board.fen(), (), board)

    def end(self) -> None:
        if not self._book.entries:
            self._problem(0, "no position")
