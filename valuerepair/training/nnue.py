"""Positions with scores as the trainers of alpha-beta engines' nets (NNUE) read them.

| format | what it is                                                                 | score and result are |
|--------|----------------------------------------------------------------------------|----------------------|
| plain  | Stockfish's text: lines ``fen``, ``move``, ``score``, ``ply``, ``result``, ``e`` | the side to move's   |
| bin    | Stockfish's and nnue-pytorch's records of 40 bytes, ``PackedSfenValue``    | the side to move's   |
| text   | bullet's lines ``FEN | score | result``                                    | White's              |

Sources: Stockfish's branch ``tools`` (its pages on ``convert`` and ``generate_training_data``; sfen_packer.cpp,
packed_sfen.h, nnue_data_binpack_format.h), nnue-pytorch (training_data_loader.cpp), bullet (its page on training data;
simple.rs among its examples).
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair import outputs
from valuerepair.chess.board import in_check, parse_fens
from valuerepair.chess.values import OWN_Q, q_to_cp
from valuerepair.errors import UsageError
from valuerepair.files import written_whole

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["plain", "bin", "text"]
FORMATS: tuple[Format, ...] = ("plain", "bin", "text")
CENTIPAWNS = 100.0

# Stockfish's VALUE_MATE: a mate in n plies is VALUE_MATE - n. In Stockfish all other scores are below those of mates
# and tablebases (MAX_PLY is 246).
_MATE = 32_000
_MOST = _MATE - 2 * 246 - 1
_LARGEST_OF_TEXT = 10_000  # as bullet's own example of a filter
_RESULTS = {"1-0": 1, "1/2-1/2": 0, "0-1": -1}  # White's
_OF_WHITE = {1: "1.0", 0: "0.5", -1: "0.0"}
_PADDING = 0xFF  # what Stockfish's `convert` writes
_RECORD = struct.Struct("<32shHHbB")
# The content of a square and its bits from the lowest on: empty is 0; else four bits for the man and one for Black.
_EMPTY = (0, 1)
_MEN = {
    letter: (code | black << 4, 5)
    for black, letters in enumerate(("PNBRQ", "pnbrq"))
    for letter, code in zip(letters, (0b0001, 0b0011, 0b0101, 0b0111, 0b1001), strict=True)
}
_KNIGHT_TO_QUEEN = "nbrq"
_PROMOTION, _EN_PASSANT, _CASTLING = 1 << 14, 2 << 14, 3 << 14
_LAST_MOVE = 32_768  # the record's ply has 16 bits
_CHUNK = 4096


class Entry(NamedTuple):
    """A position of standard chess: all six fields of a FEN, en passant only where a pawn may capture.

    `move` is UCI, castling as the king's move; `score` and `result` (1, 0, -1) are the side to move's.
    """

    fen: str
    move: str
    score: int
    result: int

    @property
    def black(self) -> bool:
        """Whether Black is to move."""
        return self.fen.split()[1] == "b"

    @property
    def kind_of_move(self) -> int:
        """0 for a move without a flag, else `_PROMOTION`, `_EN_PASSANT`, `_CASTLING`."""
        placement, _, _, en_passant, *_ = self.fen.split()
        origin, target = self.move[:2], self.move[2:4]
        man = _squares(placement)[_square(origin)]
        if len(self.move) == 5:
            return _PROMOTION
        if man in "Pp" and target == en_passant:
            return _EN_PASSANT
        return _CASTLING if man in "Kk" and abs(ord(origin[0]) - ord(target[0])) == 2 else 0

    @property
    def is_quiet(self) -> bool:
        """Whether `move` neither captures nor promotes."""
        empty = _squares(self.fen.split()[0])[_square(self.move[2:4])] == "."
        return empty and self.kind_of_move in (0, _CASTLING)


@dataclass(frozen=True, slots=True)
class WrittenPositions:
    """Counts of the rows: `positions` written, `without_result` of them as draws, and others `left_out` by reason."""

    positions: int
    without_result: int
    left_out: Mapping[str, int]

    def lines(self) -> list[str]:
        """For the user; empty if all rows were written with a result."""
        lines = []
        if self.left_out:
            reasons = ", ".join(f"{number:,} {reason}" for reason, number in sorted(self.left_out.items()))
            lines.append(f"left out: {reasons}")
        if self.without_result:
            lines.append(f"without a result: {self.without_result:,}, written as draws, as Stockfish's tools do")
        return lines


def write_stream(frame: pd.DataFrame, kind: Format, stream: IO[bytes], pawn: float = CENTIPAWNS) -> WrittenPositions:
    """Writes the rows of a frame of `Store.frame` or `Store.candidates` in a format of `FORMATS`, later plies first.

    The score is the deep search's centipawns times `pawn` / 100, within ±31,507. It comes from Q and the frame's alpha
    if there are no centipawns, or if a net searched: its Q is not a function of its centipawns. A mate is 32,000 less
    its plies. The move is the search's best, else the played one; a row with neither, or without a score, is left out.
    The result is the game's; positions that are not in a game (`vr expand`, `--off-game`) have none. ``text`` has
    no move for a trainer to filter by, so it leaves out positions in check, positions with a move that captures or
    promotes, and scores beyond 10,000. Raises UsageError if `pawn` is not a positive number.
    """
    if not 0 < pawn < np.inf:
        raise UsageError(f"--pawn {pawn:g}: must be a positive number, the units of score that a pawn has")
    left_out: Counter[str] = Counter()
    positions = without_result = 0
    # Later plies first: nnue-pytorch takes a score of 0 for missing if it comes after a large score at an earlier ply.
    plies = np.array([_ply(fen) for fen in frame["fen"]], np.int64)
    ordered = frame.iloc[np.argsort(-plies, kind="stable")]
    for begin in range(0, len(ordered), _CHUNK):
        part = ordered.iloc[begin : begin + _CHUNK]
        results = game_results(part)
        entries = _entries(part, results, scores(part, frame.attrs["alpha"], pawn))
        checked = in_check(parse_fens(part["fen"].tolist())).tolist()
        for entry, result, check in zip(entries, results, checked, strict=True):
            if entry is None:
                left_out["without a move or score"] += 1
                continue
            if kind == "text" and (reason := _noise(entry, check)) is not None:
                left_out[reason] += 1
                continue
            stream.write(_ENCODERS[kind](entry))
            positions += 1
            without_result += result is None
    return WrittenPositions(positions, without_result, dict(left_out))


def write_positions(
    frame: pd.DataFrame, path: str | os.PathLike[str], kind: Format | None = None, pawn: float = CENTIPAWNS
) -> WrittenPositions:
    """Writes a frame by `write_stream` to a file, which appears complete or not at all.

    `kind` is by default the format of the file's ending.
    """
    form = format_of(path, kind)
    with written_whole(path, outputs.TRAINERS[form]) as partial, partial.open("wb") as stream:
        return write_stream(frame, form, stream, pawn)


def format_of(path: str | os.PathLike[str] | None, requested: str | None) -> Format:
    """The requested format, else the one of the file's ending. Raises UsageError without a known format."""
    name = requested or (os.path.splitext(path)[1].removeprefix(".") if path is not None else "")
    for form in FORMATS:
        if form == name:
            return form
    raise UsageError(f"no format {name or 'given'}; there are {', '.join(FORMATS)}")


def scores(frame: pd.DataFrame, alpha: Mapping[str, Any], pawn: float = CENTIPAWNS) -> NDArray[np.float64]:
    """[n] the scores that `write_stream` writes, from the side to move; NaN for a row without a score.

    `alpha` comes from the frame's attrs.
    """
    cp, mate, deep_q = (frame[name].to_numpy(np.float64) for name in ("cp", "mate", "deep_q"))
    by_q = np.isnan(cp) | (alpha["origin"] == OWN_Q)
    units = np.where(by_q, q_to_cp(deep_q, alpha["value"]), cp) * pawn / CENTIPAWNS
    plies = np.where(mate > 0, 2 * mate - 1, -2 * mate)
    mates = np.where(mate > 0, _MATE - plies, plies - _MATE)
    return np.rint(np.where(np.isnan(mate), np.clip(units, -_MOST, _MOST), mates))


def game_results(frame: pd.DataFrame) -> list[int | None]:
    """[n] the games' results for White, None without a result.

    Positions of a game have a played move, so a position without one is not in its game.
    """
    in_game = frame["played"].notna()
    if "step" in frame:
        in_game &= frame["step"].isna()
    return [_RESULTS.get(word) if is_in else None for word, is_in in zip(frame["result"], in_game, strict=True)]


def _entries(frame: pd.DataFrame, results: list[int | None], scores: NDArray[np.float64]) -> Iterator[Entry | None]:
    """Each row's position, None without a move or a score."""
    columns = (frame["fen"], frame["deep_best"], frame["played"], scores.tolist(), results)
    for fen, best, played, score, result in zip(*columns, strict=True):
        move = next((move for move in (best, played) if isinstance(move, str)), None)
        side = -1 if fen.split()[1] == "b" else 1
        yield Entry(fen, move, int(score), side * (result or 0)) if move and not isnan(score) else None


def _noise(entry: Entry, check: bool) -> str | None:
    """The reason to skip an entry, as in bullet's example of a filter; None to keep it."""
    if check:
        return "in check"
    if not entry.is_quiet:
        return "whose best move captures or promotes"
    return "scored beyond 10,000" if abs(entry.score) > _LARGEST_OF_TEXT else None


def _plain(entry: Entry) -> bytes:
    return (
        f"fen {entry.fen}\nmove {entry.move}\nscore {entry.score}\nply {_ply(entry.fen)}\nresult {entry.result}\ne\n"
    ).encode()


def _text(entry: Entry) -> bytes:
    side = -1 if entry.black else 1
    return f"{entry.fen} | {side * entry.score} | {_OF_WHITE[side * entry.result]}\n".encode()


def _bin(entry: Entry) -> bytes:
    return _RECORD.pack(_packed(entry.fen), entry.score, _move(entry), _ply(entry.fen), entry.result, _PADDING)


def _ply(fen: str) -> int:
    """Half-moves of the game before a position, from the move number, as Stockfish counts them."""
    _, side, *_, number = fen.split()
    return max(2 * (min(int(number), _LAST_MOVE) - 1), 0) + (side == "b")


def _packed(fen: str) -> bytes:
    """32 bytes, filled from the lowest bit on: side to move, kings, men, castling, en passant, clock, number."""
    placement, side, castling, en_passant, clock, number = fen.split()
    men = _squares(placement)
    rule50, full = min(int(clock), 127), min(int(number), _LAST_MOVE)
    fields = [(side == "b", 1), (men.index("K") ^ 56, 6), (men.index("k") ^ 56, 6)]
    fields += [_MEN.get(man, _EMPTY) for man in men if man not in "Kk"]
    fields += [(right in castling, 1) for right in "KQkq"]
    fields += [(0, 1)] if en_passant == "-" else [(1, 1), (_square(en_passant) ^ 56, 6)]
    # Six bits for the clock and eight for the number were too few: later versions added their high bits at the end.
    fields += [(rule50 & 63, 6), (full & 255, 8), (full >> 8, 8), (rule50 >> 6, 1)]
    bits = shift = 0
    for value, width in fields:
        bits |= value << shift
        shift += width
    return bits.to_bytes(32, "little")


def _move(entry: Entry) -> int:
    """Stockfish's 16 bits: to, from, promoted man, kind of move; castling is the king that takes its rook."""
    origin, target = (_square(name) ^ 56 for name in (entry.move[:2], entry.move[2:4]))
    kind = entry.kind_of_move
    if kind == _CASTLING:
        target = origin + 3 if target > origin else origin - 4
    promoted = _KNIGHT_TO_QUEEN.index(entry.move[4]) if kind == _PROMOTION else 0
    return target | origin << 6 | promoted << 12 | kind


@lru_cache(maxsize=4)
def _squares(placement: str) -> str:
    """64 letters, ``.`` for an empty square, from a8 to h1."""
    return "".join("." * int(c) if c.isdigit() else c for c in placement if c != "/")


def _square(name: str) -> int:
    """The place of a square in `_squares`; a1 = 0 is this ^ 56."""
    return "abcdefgh".index(name[0]) + 8 * (8 - int(name[1]))


_ENCODERS = {"plain": _plain, "bin": _bin, "text": _text}
