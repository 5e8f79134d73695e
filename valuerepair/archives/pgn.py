"""Parses sampled games with the Rust PGN reader, a block at a time, and chooses positions in them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import chess
import chess.pgn
import numpy as np
import pyarrow as pa
import rust_pgn_reader_python_binding as rust
from numpy.typing import NDArray

from valuerepair.archives.headers import int_of_text, is_plausible, position_headers, read_headers, variant_reject
from valuerepair.archives.open import Source, read_text
from valuerepair.archives.options import (
    COMMENT_KINDS,
    CUTECHESS,
    EVAL,
    NONE_RECORDED,
    OTHER_KIND,
    SELFPLAY,
    TCEC,
    RecordedOptions,
    SampleOptions,
)
from valuerepair.archives.rows import Rejected, Rows, Sieve
from valuerepair.archives.select import game_hashes, game_keys, lowest_of_each, ply_priorities
from valuerepair.archives.split import (
    CLOSE_BRACE,
    CLOSE_PAREN,
    NEWLINE,
    OPEN_BRACE,
    OPEN_PAREN,
    PERCENT,
    SEMICOLON,
    SPACE,
    Starts,
    is_mark,
    is_result,
    pass_blanks,
    tag_line_rest,
    tag_name_end,
)
from valuerepair.arrays import Bytes
from valuerepair.chess import board
from valuerepair.chess.jit import kernel
from valuerepair.chess.origins import Recorded
from valuerepair.chess.positions import cuts_of
from valuerepair.chess.rows import Boards, Index
from valuerepair.errors import ValueRepairError

# Flags that `census` sets for a game's movetext.
OPEN_COMMENT = 1  # a comment without its end
OPEN_VARIATION = 2  # a variation without its end
MOVES_AFTER_RESULT = 4
BLANK_LINE = 8  # an empty line between moves: where the Rust reader stops
NULL_MOVE = 16
NUL_BYTE = 32
HAS_TAGS = 64
HAS_START = 128  # a FEN or Variant tag, or a tag with the same initial

_BLANKS = np.zeros(256, np.bool_)  # control characters too, but not NUL; and not the end of a line
_BLANKS[1:33] = True
_BLANKS[NEWLINE] = False
_DELIMITS = _BLANKS.copy()  # bytes that end a token
_DELIMITS[NEWLINE] = True
_DELIMITS[[OPEN_BRACE, CLOSE_BRACE, OPEN_PAREN, CLOSE_PAREN, SEMICOLON]] = True


@kernel
def _pass_line(data: Bytes, at: int, end: int) -> int:
    while at < end and data[at] != NEWLINE:
        at += 1
    return at


@kernel
def _movetext_begin(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the movetext of the game data[at:end] begins, and flags for the tags before it."""
    flags = 0
    while at < end:
        if is_mark(data, at, end):
            at += 3
        elif data[at] == PERCENT:
            at = _pass_line(data, at, end)
        elif tag_name_end(data, at, end) >= 0:
            flags |= HAS_TAGS
            # [F, [f, [V and [v may be FEN or Variant; `_readable` then reads the tags themselves.
            initial = data[at + 1] | 32
            flags |= HAS_START if initial == 102 or initial == 118 or initial == SPACE else 0
            eol = _pass_line(data, at, end)
            at = tag_line_rest(data, at, eol)
            if pass_blanks(data, at, eol) < eol:
                break
        elif data[at] == NEWLINE:
            at += 1
        else:
            text = pass_blanks(data, at, end)
            if text < end and data[text] != NEWLINE:
                break
            at = text
    return at, flags


@kernel
def _count_moves(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The number of tokens in the places of moves in the main line of data[at:end], and the flags."""
    count, flags, depth = 0, 0, 0
    result, line_start, blank = False, False, False
    while at < end:
        byte = data[at]
        if byte == NEWLINE:
            blank = blank or line_start
            line_start = True
            at += 1
            continue
        if _BLANKS[byte]:
            at += 1
            continue
        if line_start and (byte == PERCENT or is_mark(data, at, end)):
            at = _pass_line(data, at, end) if byte == PERCENT else at + 3
            continue
        if blank:
            flags |= BLANK_LINE
        line_start, blank = False, False
        if byte == OPEN_BRACE:
            while at < end and data[at] != CLOSE_BRACE:
                at += 1
            if at == end:
                flags |= OPEN_COMMENT
            at += 1
        elif byte == SEMICOLON:
            at = _pass_line(data, at, end)
        elif (byte == OPEN_PAREN) | (byte == CLOSE_PAREN) | (byte == CLOSE_BRACE):
            depth = max(depth + (1 if byte == OPEN_PAREN else -1 if byte == CLOSE_PAREN else 0), 0)
            at += 1
        else:
            token = at
            while at < end and not _DELIMITS[data[at]]:
                if data[at] == 0:
                    flags |= NUL_BYTE
                at += 1
            if at == token:  # a control character: it ends a token and is not one itself
                at += 1
                continue
            if depth > 0:
                continue
            if is_result(data, token, at):
                result = True
                continue
            token = _pass_number(data, token, at)
            if _begins_move(data, token, at):
                count += 1
                flags |= MOVES_AFTER_RESULT if result else 0
                flags |= NULL_MOVE if _is_null_move(data, token, at) else 0
    return count, flags | (OPEN_VARIATION if depth > 0 else 0)


@kernel
def census(data: Bytes, starts: Starts, ends: Starts, moves: Starts, flags: Starts, bodies: Starts) -> None:
    """Counts the moves of the main line of each game data[starts[i]:ends[i]] and flags oddities of its text.

    Writes the number of tokens in the places of moves (legal or not), the flags above, and the start of the movetext.
    """
    for g in range(len(starts)):
        body, tags = _movetext_begin(data, starts[g], ends[g])
        count, text_flags = _count_moves(data, body, ends[g])
        moves[g], flags[g], bodies[g] = count, text_flags | tags, body


@kernel
def _pass_number(data: Bytes, at: int, end: int) -> int:
    """Where a token continues after its move number (``12.``); castling written with zeros is not a number."""
    if data[at] == 48 and at + 1 < end and data[at + 1] == 45:
        return at
    while at < end and (48 <= data[at] <= 57 or data[at] == 46):
        at += 1
    return at


@kernel
def _begins_move(data: Bytes, at: int, end: int) -> bool:
    """Whether the token begins like a move: with a letter or a figurine, a zero (castling), or ``--`` (a null move)."""
    if at == end:
        return False
    byte = data[at]
    if byte == 101 and end - at <= 4 and data[end - 1] in (46, 112):  # `e.p.`, `ep`
        return False
    if byte == 45:
        return end - at >= 2 and data[at + 1] == 45
    if byte == 0xE2:
        return end - at > 2 and data[at + 1] == 0x99
    return bool(byte == 48 or byte == 64) or 65 <= byte <= 90 or 97 <= byte <= 122


@kernel
def _is_null_move(data: Bytes, at: int, end: int) -> bool:
    """Whether the token is ``--`` or ``Z0``."""
    if end - at < 2:
        return False
    return bool((data[at] == 45 and data[at + 1] == 45) or (data[at] == 90 and data[at + 1] == 48))


MAX_TEXT = 1 << 20  # bytes; longer texts are unlikely to be games

_MOST_CLOCK = 65_535
_NOT_MOVES = re.compile(rb"\{[^}]*\}|;[^\n]*|^%[^\n]*", re.MULTILINE)
_VARIATION = re.compile(rb"\([^()]*\)")
_LETTERS = re.compile(rb"[A-Za-z]|\xe2\x99")  # figurines begin with these two bytes in UTF-8
_MOVE = re.compile(
    rb"(?:\d+\.*)?(?:[NBRQKP]?[a-h]?[1-8]?[-x:]?[a-h][1-8](?:=?[NBRQnbrq])?|[O0]-[O0](?:-[O0])?|e\.p\.|ep)[^A-Za-z]*"
)


class _Strict(chess.pgn.GameBuilder[chess.pgn.Game]):
    """Raises ValueError at the first error, after which python-chess may lose count of the variations."""

    def handle_error(self, error: Exception) -> None:
        raise ValueError(str(error)) from error


def rewrite(text: bytes, body: int, moves: int) -> bytes | None:
    """The game with its main line in strict SAN; None if it cannot be read as a main line of `moves` moves.

    `body` is the start of the movetext. Headers and comments stay unchanged, variations are dropped.
    """
    if len(text) > MAX_TEXT or not _only_moves(text[body:]):
        return None
    try:
        game = chess.pgn.read_game(io.StringIO(read_text(text)), Visitor=_Strict)
    except ValueError:
        return None
    if game is None or game.end().ply() - game.ply() != moves:
        return None
    if any(not move for move in game.mainline_moves()):
        return None
    exporter = chess.pgn.StringExporter(columns=None, headers=False, variations=False)
    return text[:body].rstrip() + b"\n\n" + game.accept(exporter).encode() + b"\n"


def _only_moves(movetext: bytes) -> bool:
    """Whether every word of the main line that has letters is a move."""
    movetext = _NOT_MOVES.sub(b" ", movetext)
    removed = 1
    while removed:  # the innermost variations first
        movetext, removed = _VARIATION.subn(b" ", movetext)
    return all(_MOVE.fullmatch(word) for word in movetext.split() if _LETTERS.search(word))


# `0.17` in pawns or `#-3` in moves, perhaps with the depth after a comma.
_EVAL = re.compile(r"\[%eval\s+(?:#(?P<mate>[+-]?\d+)|(?P<pawns>[+-]?\d*\.?\d+))(?:,\s*(?P<depth>\d+))?")
# `+0.65/12 1.2s`, `-M6/64 0.16s`: M counts plies. Pawns need decimals: `{1/2-1/2 agreed}` is not an evaluation.
_CUTECHESS = re.compile(
    r"\s*(?P<sign>[+-]?)(?:M(?P<plies>\d+)|(?P<pawns>\d+\.\d+))/(?P<depth>\d+)(?:,?\s+(?P<seconds>\d+(?:\.\d+)?)s)?"
)
# `wv=-0.32`, `wv=M4`: M counts plies here too.
_TCEC = re.compile(r"\bwv=(?P<sign>[+-]?)(?:M(?P<plies>\d+)|(?P<pawns>\d+(?:\.\d+)?))")
# `q=-0.0622 wdl=442/54/504 n=200 net=+0.0875` (play/pgn.py); only searches of our own have `net`.
_SELFPLAY = re.compile(
    r"\bq=(?P<q>[+-]\d\.\d+)(?:\s+wdl=(?P<w>\d+)/(?P<d>\d+)/(?P<l>\d+))?(?:\s+n=(?P<nodes>\d+))?"
    r"\s+net=(?P<net>[+-]\d\.\d+)"
)
_FIELD = re.compile(r"(?<![\w.])(d|sd|mt|n)=(\d+)")
_MARKS = {
    EVAL: re.compile(rb"\[%eval\s"),
    CUTECHESS: re.compile(rb"\{\s*[+-]?(?:M\d+|\d+\.\d+)/\d+"),
    TCEC: re.compile(rb"[{, ]wv=[+-]?M?\d"),
    # From the brace on: the match then begins before an [%eval] inside the same comment.
    SELFPLAY: re.compile(rb"\{(?:\[%[^\]]*\]\s*)*q=[+-]\d[^}]*\snet=[+-]\d"),
}


def first_kind(text: bytes, wanted: str | None = None) -> tuple[str, int] | None:
    """The kind of the first evaluation in PGN text (of any kind, or of the wanted one), and its offset; None if there
    is no evaluation."""
    marks = [(kind, mark) for kind, mark in _MARKS.items() if wanted in (None, kind)]
    matches = [(match.start(), kind) for kind, mark in marks if (match := mark.search(text))]
    if not matches:
        return None
    at, kind = min(matches)
    return kind, at


def game_reject(text: bytes, kind: str) -> str | None:
    """Why a game is left out for lack of an evaluation of this kind; None if it has one."""
    if kind in _MARKS and _MARKS[kind].search(text):
        return None
    return OTHER_KIND if any(mark.search(text) for mark in _MARKS.values()) else NONE_RECORDED


def read_comments(kind: str, comments: Iterable[str | None], signs: Iterable[int]) -> list[Recorded | None]:
    """The evaluations in the comments; the sign turns a score as written into the side to move's."""
    return [_read(kind, text, sign) if text else None for text, sign in zip(comments, signs, strict=True)]


def _read(kind: str, text: str, sign: int) -> Recorded | None:
    """The evaluation in a comment; None if it has none, or has a number that Python cannot read (5,000 digits)."""
    try:
        recorded = _READERS[kind](text, sign)
    except (ValueError, OverflowError):
        return None
    return recorded if recorded is not None and is_plausible(recorded) else None


def _read_eval(text: str, sign: int) -> Recorded | None:
    match = _EVAL.search(text)
    if match is None:
        return None
    depth = int(match["depth"] or 0)
    if match["mate"]:
        return Recorded(EVAL, mate=sign * int(match["mate"]), depth=depth)
    return Recorded(EVAL, cp=sign * round(100 * float(match["pawns"])), depth=depth)


def _read_cutechess(text: str, sign: int) -> Recorded | None:
    match = _CUTECHESS.match(text)
    if match is None:
        return None
    cp, mate = _score(match, sign)
    fields = dict(_FIELD.findall(text)) if "=" in text else {}
    return Recorded(
        CUTECHESS,
        cp,
        mate,
        depth=int(match["depth"]),
        seldepth=int(fields.get("sd", 0)),
        nodes=int(fields.get("n", 0)),
        time_ms=round(1000 * float(match["seconds"] or 0)),
    )


def _read_tcec(text: str, sign: int) -> Recorded | None:
    match = _TCEC.search(text)
    fields = dict(_FIELD.findall(text)) if match else {}
    # An engine with only one legal move plays it without a search, and its 0.00 means nothing.
    if match is None or fields.get("n") == "0":
        return None
    cp, mate = _score(match, sign)
    depth, seldepth, nodes, milliseconds = (int(fields.get(name, 0)) for name in ("d", "sd", "n", "mt"))
    return Recorded(TCEC, cp, mate, depth=depth, seldepth=seldepth, nodes=nodes, time_ms=milliseconds)


def _read_selfplay(text: str, sign: int) -> Recorded | None:
    match = _SELFPLAY.search(text)
    if match is None:
        return None
    wdl = (int(match["w"]), int(match["d"]), int(match["l"])) if match["w"] else None
    q, net_q = sign * float(match["q"]), sign * float(match["net"])
    if max(abs(q), abs(net_q)) > 1 or (wdl is not None and not 997 <= sum(wdl) <= 1003):
        return None
    return Recorded(SELFPLAY, q=q, wdl=wdl, nodes=int(match["nodes"] or 0), net_q=net_q)


def _score(match: re.Match[str], sign: int) -> tuple[int | None, int | None]:
    """(centipawns, moves to mate), one of them None, from the side to move; the text counts mates in plies."""
    if match["sign"] == "-":
        sign = -sign
    if match["plies"]:
        return None, sign * ((int(match["plies"]) + 1) // 2)
    return sign * round(100 * float(match["pawns"])), None


_READERS = {EVAL: _read_eval, CUTECHESS: _read_cutechess, TCEC: _read_tcec, SELFPLAY: _read_selfplay}


_EMPTY_LINES = re.compile(rb"\n(?:[ \t\r]*\n)+")
_TEXT_REJECTS = (
    (NUL_BYTE, "not text"),
    (OPEN_COMMENT, "comment never closed"),
    (OPEN_VARIATION, "variation never closed"),
    (MOVES_AFTER_RESULT, "moves after the result"),
    (NULL_MOVE, "null move"),
)
MAX_NUMBER = 60_000  # of a full move at the start of a game: boards count to 65,535
_UCI = re.compile(rb"\s*[a-h][1-8][a-h][1-8]\b")
_RESULTS = {"White": "1-0", "Black": "0-1", "Draw": "1/2-1/2"}


@dataclass(slots=True)
class GameBlock:
    """Texts of games of one archive, with their numbers and byte offsets in it."""

    source: Source
    games: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, text: bytes, number: int, offset: int) -> None:
        self.games.append(text)
        self.numbers.append(number)
        self.offsets.append(offset)
        self.size += len(text)

    def parse(self, options: SampleOptions) -> Rows:
        """The positions drawn from the block, what was left out, and why; called in any thread."""
        rows = Rows(self.source)
        readable = _readable(self, rows, options.recorded)
        if readable.games:
            parsed = _Parsed(self, readable, options)
            if _rewrite_rejected(self, readable, parsed):
                parsed = _Parsed(self, readable, options)
            parsed.count(rows)
            _draw(parsed, options, rows)
        return rows


@dataclass(frozen=True, slots=True)
class _Readable:
    """The games (indices in the block) to parse, the number of moves in the text of each, and the start of its
    movetext."""

    games: list[int]
    counts: Index
    bodies: Index


def _readable(block: GameBlock, rows: Rows, recorded: RecordedOptions | None) -> _Readable:
    """Rejects texts that are not readable games of standard chess, or that lack the wanted recorded evaluation.

    Repairs two faults in the block: empty lines between moves, and texts that are not UTF-8.
    """
    joined = b"".join(block.games)
    counts, flags, bodies = _census(block.games, joined)
    ascii_only = joined.isascii()
    readable: list[int] = []
    for i, flag in enumerate(flags.tolist()):
        reason = variant_reject(read_headers(block.games[i])) if flag & HAS_START else None
        if reason is None and flag & ~(HAS_TAGS | HAS_START):
            reason = next((reason for bit, reason in _TEXT_REJECTS if flag & bit), None)
            if flag & BLANK_LINE:
                body = int(bodies[i])
                text = block.games[i]
                block.games[i] = text[:body] + _EMPTY_LINES.sub(b"\n", text[body:])
        if reason is None and counts[i] == 0:
            reason = "no moves" if flag & HAS_TAGS else "not a game"
        if reason is None and recorded is not None:
            reason = game_reject(block.games[i], recorded.kind)
        if reason is not None:
            rows.rejected.append(Rejected(reason, block.offsets[i]))
            continue
        if not ascii_only:
            block.games[i], bodies[i] = _as_utf8(block.games[i], int(bodies[i]))
        readable.append(i)
    return _Readable(readable, counts[readable], bodies[readable])


def _as_utf8(text: bytes, body: int) -> tuple[bytes, int]:
    """A game in UTF-8, and where its movetext then begins: letters of Latin-1 become two bytes each."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return read_text(text).encode(), len(text[:body].decode("latin-1").encode())
    return text, body


def _rewrite_rejected(block: GameBlock, readable: _Readable, parsed: _Parsed) -> bool:
    """Rewrites the rejected games that python-chess can read; returns whether there are any."""
    any_rewritten = False
    for g in np.flatnonzero(~parsed.good).tolist():
        i = readable.games[g]
        if parsed.legal_start[g] and (parsed.headers[g] or parsed.length(g) or _UCI.match(block.games[i])):
            text = rewrite(block.games[i], int(readable.bodies[g]), int(readable.counts[g]))
            if text is not None:
                block.games[i] = text
                any_rewritten = True
    return any_rewritten


def _census(texts: list[bytes], joined: bytes) -> tuple[Index, Index, Index]:
    cuts = cuts_of([len(text) for text in texts])
    counts, flags, bodies = (np.empty(len(texts), np.int64) for _ in range(3))
    data = np.frombuffer(bytearray(joined), np.uint8)
    census(data, cuts[:-1].copy(), cuts[1:].copy(), counts, flags, bodies)
    return counts, flags, bodies - cuts[:-1]


class _Parsed:
    """The reader's results for the readable games, as arrays over games (g), moves (m) and positions.

    A game has one position more than moves, or no position if its start is illegal; `positions_of` gives the position
    in which a move is played.
    """

    def __init__(self, block: GameBlock, readable: _Readable, options: SampleOptions) -> None:
        games = readable.games
        texts = [block.games[i] for i in games]
        joined = b"".join(texts)
        self.wanted = _wanted_evaluations(texts, joined, options)
        if _ANOTHER_COMMENT.search(joined) or _WHOLE_NUMBER.search(joined):
            for i, (wanted, body) in enumerate(zip(self.wanted, readable.bodies.tolist(), strict=True)):
                if wanted is not None and wanted.kind == EVAL:
                    movetext = _COMMENTS.sub(_merged_comments, texts[i][body:])
                    texts[i] = texts[i][:body] + _in_pawns(movetext)
            joined = b"".join(texts)
        cuts = cuts_of([len(text) for text in texts]).astype(np.int32)
        array = pa.StringArray.from_buffers(len(texts), pa.py_buffer(cuts), pa.py_buffer(joined))
        wants_comments = any(wanted.kind in COMMENT_KINDS for wanted in self.wanted if wanted is not None)
        read = rust.parse_games(pa.chunked_array([array]), num_threads=1, store_comments=wants_comments)
        if len(read) != len(texts) or read.num_chunks != 1:
            raise ValueRepairError(
                f"{block.source.path}: the PGN reader gave {len(read)} of {len(texts)} games from byte "
                f"{block.offsets[games[0]]}; please report this archive"
            )
        self.chunk = read.chunks[0]
        self.block, self.games = block, games
        self.headers = [
            position_headers(text[:body]) for text, body in zip(texts, readable.bodies.tolist(), strict=True)
        ]
        self.cuts = self.chunk.move_offsets.astype(np.int64)
        # bool[games]: read to the end.
        self.good = self.chunk.valid & (np.diff(self.cuts) == readable.counts)
        self.moves = _moves(self.chunk)
        self.game_of_move = np.repeat(np.arange(len(games)), np.diff(self.cuts))
        self.ply_in_game = np.arange(len(self.moves)) - self.cuts[self.game_of_move]
        self.first_positions = self.chunk.position_offsets[:-1].astype(np.int64)
        # bool[games]: the reader accepts the start. Other games have no positions, and nothing reads their rows.
        self.legal_start = np.diff(self.chunk.position_offsets) > 0
        start_clocks = np.array([_start_clock(headers) for headers in self.headers], np.int64)
        begins = self.first_positions[self.legal_start]
        self._clocks = _clocks(self.chunk.halfmove_clock, begins, start_clocks[self.legal_start])
        self.black_start = np.zeros(len(games), np.bool_)
        self.black_start[self.legal_start] = ~self.chunk.turn[self.first_positions[self.legal_start]]
        self.start_numbers = np.array([_start_number(headers) for headers in self.headers], np.int64)

    def length(self, g: int) -> int:
        """The number of moves that the reader found in a game."""
        return int(self.cuts[g + 1] - self.cuts[g])

    def count(self, rows: Rows) -> None:
        """Counts the good games, and rejects the others with the reader's reason."""
        rows.parsed = int(self.good.sum())
        errors = self.chunk.parse_errors if not self.good.all() else []
        for g in np.flatnonzero(~self.good).tolist():
            reason, detail = _reason(errors[g])
            if not self.headers[g] and not self.length(g):
                reason = "not a game"
            rows.rejected.append(Rejected(reason, self.block.offsets[self.games[g]], detail))

    def positions_of(self, moves: Index) -> Index:
        """The positions in which these moves are played."""
        return self.first_positions[self.game_of_move[moves]] + self.ply_in_game[moves]

    def boards(self, moves: Index) -> Boards:
        """The boards in which these moves are played."""
        return self._boards(self.positions_of(moves), self.numbers(moves))

    def numbers(self, moves: Index) -> Index:
        """The full-move numbers of these moves."""
        g = self.game_of_move[moves]
        return self.start_numbers[g] + (self.ply_in_game[moves] + self.black_start[g]) // 2

    def plies(self, moves: Index) -> NDArray[np.int32]:
        """Half-moves before these moves since move 1, White to move, by the full-move number."""
        black = ~self.chunk.turn[self.positions_of(moves)]
        return (2 * (self.numbers(moves) - 1) + black).astype(np.int32)

    def start_board(self, g: int) -> Boards:
        return self._boards(self.first_positions[g : g + 1], self.start_numbers[g : g + 1])

    def _boards(self, positions: Index, numbers: Index) -> Boards:
        chunk = self.chunk
        return board.from_reader(
            self.squares(positions),
            chunk.castling[positions],
            chunk.en_passant[positions],
            self._clocks[positions],
            chunk.turn[positions],
            numbers.astype(np.int32),
        )

    def squares(self, positions: Index) -> NDArray[np.uint8]:
        """uint8[n, 64]: the men on the squares of these positions, as in `board.from_reader`."""
        return self.chunk.boards[positions].reshape(-1, 64)


def _draw(parsed: _Parsed, options: SampleOptions, rows: Rows) -> None:
    """Filters the plies of the good games, draws `per_game` of each, and fills the rows."""
    moves = np.flatnonzero(parsed.good[parsed.game_of_move])
    rows.looked_at = len(moves)
    moves = _eligible(parsed, moves, options, rows)
    if options.per_game is not None:
        drawn = _lowest_per_game(parsed, moves, options)
        rows.not_drawn = len(moves) - len(drawn)
        moves = drawn
    g = parsed.game_of_move[moves]
    rows.boards = parsed.boards(moves)
    rows.keys = board.keys(rows.boards)
    rows.ply = parsed.plies(moves)
    rows.moves, rows.begin, rows.end = parsed.moves, parsed.cuts[g], moves
    rows.game = g
    rows.played = parsed.moves[moves]
    block = parsed.block
    rows.numbers = [block.numbers[i] for i in parsed.games]
    rows.offsets = [block.offsets[i] for i in parsed.games]
    rows.headers = parsed.headers
    rows.results = [_result(h, outcome) for h, outcome in zip(rows.headers, parsed.chunk.outcome, strict=True)]
    with_fen = {int(i) for i in np.unique(g) if "FEN" in parsed.headers[i]}
    rows.starts = {i: board.fens(parsed.start_board(i))[0] for i in with_fen}
    rows.game_keys = game_keys(parsed.moves, parsed.cuts, rows.starts)
    rows.games_once = options.per_game is not None
    if any(parsed.wanted):
        rows.recorded = _recorded(parsed, moves)
        rows.final = _final(parsed) if options.every_evaluation else {}


def _eligible(parsed: _Parsed, moves: Index, options: SampleOptions, rows: Rows) -> Index:
    """The moves whose positions pass all filters; each filter counts the positions that it rejects."""
    sieve = Sieve(moves, rows.rejected_positions)
    ply = parsed.plies(moves)
    sieve.keep(ply >= options.min_ply, f"before ply {options.min_ply}")
    if options.max_ply is not None:
        sieve.keep(ply[ply >= options.min_ply] <= options.max_ply, f"after ply {options.max_ply}")
    sieve.keep_pieces(lambda passed: np.count_nonzero(parsed.squares(parsed.positions_of(passed)), axis=1), options)
    if options.quiet:
        sieve.keep(~_forcing(parsed, sieve.rows), "capture or promotion played")
    if options.quiet or options.no_check:
        sieve.keep(~board.in_check(parsed.boards(sieve.rows)), "in check")
    if options.recorded is not None:
        sieve.keep_unless(map(options.recorded.reject, _recorded(parsed, sieve.rows)))
    return sieve.rows


def _forcing(parsed: _Parsed, moves: Index) -> NDArray[np.bool_]:
    """bool[n]: the move is a capture, en passant included, or a promotion."""
    chunk = parsed.chunk
    squares = parsed.squares(parsed.positions_of(moves))
    row = np.arange(len(moves))
    origin, target = chunk.from_squares[moves], chunk.to_squares[moves]
    pawn = np.isin(squares[row, origin], (1, 7))
    capture = (squares[row, target] != 0) | (pawn & ((origin ^ target) & 7 != 0))
    forcing: NDArray[np.bool_] = capture | (chunk.promotions[moves] > 0)
    return forcing


def _lowest_per_game(parsed: _Parsed, moves: Index, options: SampleOptions) -> Index:
    """The `per_game` moves of lowest priority of each game, in game order."""
    numbers = np.array(parsed.block.numbers, np.int64)[parsed.games]
    hashes = game_hashes(options.seed, parsed.block.source.identity, numbers)
    g = parsed.game_of_move[moves]
    priority = ply_priorities(hashes[g], parsed.ply_in_game[moves])
    return moves[lowest_of_each(g, priority, options.per_game or 0)]


_ANOTHER_COMMENT = re.compile(rb"[})](?:\s|\$\d+)*\{")
_COMMENTS = re.compile(rb"(\)(?:\s|\$\d+)*)?\{[^}]*\}(?:(?:\s|\$\d+)*\{[^}]*\})*|;[^\n]*|^%[^\n]*", re.MULTILINE)


def _merged_comments(comments: re.Match[bytes]) -> bytes:
    """The comments of a move as one, because the reader returns only the last; comments after a variation, which belong
    to the next move, are removed."""
    text = comments[0]
    if comments[1]:
        return b")"
    return text if b"}" not in text[:-1] or text[:1] != b"{" else b"{" + text[1:-1].translate(_NO_BRACES) + b"}"


_NO_BRACES = bytes.maketrans(b"{}", b"  ")
_WHOLE_NUMBER = re.compile(rb"(\[%eval\s+[+-]?)(\d{1,6})(?=\s*[,\]])")
_DECIMALS = re.compile(rb"\[%eval\s+[+-]?\d*\.\d")


def _in_pawns(movetext: bytes) -> bytes:
    """The movetext with evaluations in pawns. ChessBase and ChessOK write whole centipawns, ``[%eval 14,24]``; games
    with an evaluation with decimals are in pawns."""
    if _DECIMALS.search(movetext):
        return movetext
    return _WHOLE_NUMBER.sub(lambda match: match[1] + b"%d.%02d" % divmod(int(match[2]), 100), movetext)


def _clocks(read: NDArray[np.uint8], starts: Index, start_clocks: Index) -> NDArray[np.uint16]:
    """The half-move clock of each position; the clock that was `read` stops at 255.

    The games begin at the positions `starts`, with the clocks `start_clocks` of their FENs.
    """
    clocks, full = read.astype(np.uint16), read == 255
    if full.any():
        begins = full & ~np.append(False, full[:-1])
        begins[starts] = True
        at_begin = np.full(len(read), 255)
        at_begin[starts] = np.maximum(start_clocks, 255)
        rows = np.arange(len(read))
        begin = np.maximum.accumulate(np.where(begins, rows, 0))
        clocks[full] = np.minimum(at_begin[begin] + rows - begin, _MOST_CLOCK)[full]
    return clocks


def _start_clock(headers: dict[str, str]) -> int:
    """The half-move clock of the game's start position; 0 if its FEN has none."""
    fields = headers.get("FEN", "").split()
    return min((int_of_text(fields[4]) if len(fields) > 4 else None) or 0, _MOST_CLOCK)


def _moves(chunk: rust.PyChunkView) -> NDArray[np.uint16]:
    """The reader's moves as the project's 16-bit moves."""
    promotion = np.maximum(chunk.promotions, 1).astype(np.uint16) - np.uint16(1)
    packed: NDArray[np.uint16] = chunk.from_squares + (chunk.to_squares.astype(np.uint16) << 6) + (promotion << 12)
    return packed


def _start_number(headers: dict[str, str]) -> int:
    """The full-move number of the game's start position; 1 if its FEN has none, or one that no game reaches."""
    fields = headers.get("FEN", "").split()
    number = int_of_text(fields[5]) if len(fields) > 5 else None
    return number if number is not None and 0 < number <= MAX_NUMBER else 1


def _reason(error: str | None) -> tuple[str, str]:
    """The reader's message as a reason, by which games are counted, and a detail to show."""
    if error is None:
        return "reader stopped before the end", ""
    detail = error.split(" (")[0]
    if "FEN" in error.split(":")[0]:
        return "illegal start position", error.split(": ", 1)[-1]
    if error.startswith("illegal move"):
        return "illegal move", detail.removeprefix("illegal move ")
    return "unreadable move", detail.removeprefix("failed to parse SAN ")


def _result(headers: dict[str, str], outcome: str | None) -> str:
    """The Result tag if it is a result, otherwise the result at the end of the movetext, otherwise ``*``."""
    tag = headers.get("Result", "")
    return tag if tag in _RESULTS.values() else _RESULTS.get(outcome or "", "*")


def _wanted_evaluations(texts: Sequence[bytes], joined: bytes, options: SampleOptions) -> list[RecordedOptions | None]:
    """Which evaluations to read from the comments of each game; by default those that lichess writes."""
    if options.every_evaluation and options.recorded is None:
        kinds = [first_kind(text) if b"{" in text else None for text in texts]
        return [None if kind is None else RecordedOptions(kind[0]) for kind in kinds]
    return [options.recorded or (RecordedOptions(EVAL) if b"%eval" in joined else None)] * len(texts)


def _recorded(parsed: _Parsed, moves: Index) -> list[Recorded | None]:
    """The evaluations recorded for the positions in which these moves are played."""
    kinds = list(dict.fromkeys(parsed.wanted))
    if len(kinds) == 1 and kinds[0] is not None:
        return _recorded_as(parsed, moves, kinds[0])
    evaluations: list[Recorded | None] = [None] * len(moves)
    number = np.array([kinds.index(kind) for kind in parsed.wanted])[parsed.game_of_move[moves]]
    for i, kind in enumerate(kinds):
        rows = np.flatnonzero(number == i)
        if kind is not None and len(rows):
            for row, evaluation in zip(rows.tolist(), _recorded_as(parsed, moves[rows], kind), strict=True):
                evaluations[row] = evaluation
    return evaluations


def _recorded_as(parsed: _Parsed, moves: Index, kind: RecordedOptions) -> list[Recorded | None]:
    """The evaluations of one kind."""
    white = parsed.chunk.turn[parsed.positions_of(moves)].tolist()
    signs = [kind.sign(side) for side in white]
    if kind.kind != EVAL:
        comments: list[str | None] = parsed.chunk.comments
        recorded = read_comments(kind.kind, [comments[m] for m in moves.tolist()], signs)
        games = parsed.game_of_move[moves].tolist()
        scaled = {g: _scaled_sides(parsed.block.games[parsed.games[g]]) for g in set(games)}
        sides = ["White" if side else "Black" for side in white]
        return [
            r and replace(r, by=parsed.headers[g].get(side, ""), is_scaled=kind.kind == SELFPLAY and side in scaled[g])
            for r, g, side in zip(recorded, games, sides, strict=True)
        ]
    return _evaluations_after(parsed, np.where(parsed.ply_in_game[moves] == 0, -1, moves - 1), signs)


def _scaled_sides(text: bytes) -> set[str]:
    """The sides whose search had a `q_scale`, by the tags of self-play and of matches."""
    headers = read_headers(text) if b"q_scale=" in text else {}
    tags = {"White": ("Search", "WhiteSide"), "Black": ("Search", "BlackSide")}
    return {side for side, names in tags.items() if any("q_scale=" in headers.get(name, "") for name in names)}


def _evaluations_after(parsed: _Parsed, moves: Index, signs: Sequence[int]) -> list[Recorded | None]:
    """The evaluations that lichess writes after these moves, of the positions that they lead to; None for move -1."""
    comments: list[str | None] = parsed.chunk.comments
    recorded = read_comments(EVAL, [None if m < 0 else comments[m] for m in moves.tolist()], signs)
    # Of the comments before and after a variation the reader returns only the later, but it also gives evaluations in
    # pawns from the earlier.
    pawns = parsed.chunk.evals[np.maximum(moves, 0)]
    for i in np.flatnonzero(np.isfinite(pawns) & (moves >= 0)).tolist():
        if recorded[i] is None:
            evaluation = Recorded(EVAL, cp=signs[i] * round(100 * float(pawns[i])))
            recorded[i] = evaluation if is_plausible(evaluation) else None
    return recorded


def _final(parsed: _Parsed) -> dict[int, Recorded]:
    """The evaluations that lichess writes after the last moves of games, by game."""
    is_wanted = [wanted is not None and wanted.kind == EVAL for wanted in parsed.wanted]
    games = np.flatnonzero(parsed.good & np.array(is_wanted) & (np.diff(parsed.cuts) > 0))
    last = parsed.cuts[games + 1] - 1
    white_moved = parsed.chunk.turn[parsed.positions_of(last)].tolist()
    signs = [-1 if white else 1 for white in white_moved]
    evaluations = zip(games.tolist(), _evaluations_after(parsed, last, signs), strict=True)
    return {g: evaluation for g, evaluation in evaluations if evaluation is not None}
