"""Positions out of training records: boards, moves, histories and both values, filtered and drawn.

Boards come out of the planes (`chunk_boards`). Plies are counted from the oldest board that a chunk knows: records do
not say how many came before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import board, v6
from valuerepair.archives import chunk_boards
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.recorded_options import CHUNKS, RecordedOptions
from valuerepair.archives.rows import Rows, cuts_of
from valuerepair.archives.select import game_hashes, lowest_of_each, ply_priorities
from valuerepair.archives.sieve import Sieve
from valuerepair.origins import QColumns
from valuerepair.positions import STARTPOS_FEN, decode_move

Index = NDArray[np.int64]
Facts = NDArray[np.void]  # of v6.FACTS

# lc0's input formats: those that say whose move it is, and those that are seen through a symmetry and say en passant.
STANDARD_FORMATS, CANONICAL_FORMATS = (1, 2), (3, 4, 132, 5, 133)
_REPEATS_ONLY = (5, 133)  # their older boards are only those that occurred before
_RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}
_OUTSIDE = 1e-3  # by so much a value may leave its range: drift of 32-bit means


@dataclass(frozen=True, slots=True)
class Chunk:
    """n records of one game: their input format, [n] v6.FACTS, [n, 104] planes, [n] numbers of legal moves."""

    input_format: int
    facts: Facts
    planes: NDArray[np.uint64]
    legal: Index

    @staticmethod
    def of(data: bytes, n: int) -> Chunk:
        """The first n records of a chunk's bytes. The policy is most of them, and only counted."""
        size, records = v6.RECORD.itemsize, np.frombuffer(data, v6.RECORD, n)
        raw = np.frombuffer(data, np.uint8, n * size).reshape(n, size)
        legal = np.empty(n, np.int64)
        chunk_boards.count_legal_moves(np.frombuffer(data, "<u4", n * size // 4), legal)
        facts = raw[:, -v6.FACTS.itemsize :].copy().view(v6.FACTS)[:, 0]
        return Chunk(int(records["input_format"][0]), facts, np.ascontiguousarray(records["planes"]), legal)

    @property
    def result(self) -> str:
        """The game's result; ``*`` for one that was ended undecided."""
        last = self.facts[-1]
        info, stm = int(last["invariance_info"]), int(last["side_to_move_or_enpassant"])
        if info & v6.TOO_LONG:
            return "*"
        black = info & v6.BLACK_TO_MOVE if self.input_format in CANONICAL_FORMATS else stm
        return _RESULTS.get(round(float(last["result_q"])) * (-1 if black else 1), "*")


class _Decoded:
    """The records of some chunks, `cuts` saying where each begins, with boards and histories as arrays over records."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        lengths = [len(chunk.facts) for chunk in chunks]
        self.cuts = cuts_of(lengths)
        n = int(self.cuts[-1])
        self.facts: Facts = np.concatenate([chunk.facts.view(np.uint8) for chunk in chunks]).view(v6.FACTS)
        self.chunk = np.repeat(np.arange(len(chunks)), lengths)
        self.format = np.repeat([chunk.input_format for chunk in chunks], lengths)
        self.canonical = np.isin(self.format, CANONICAL_FORMATS)
        info, stm = self.facts["invariance_info"], self.facts["side_to_move_or_enpassant"]
        self.transform = np.where(self.canonical, info & np.uint8(7), 0).astype(np.uint8)
        self.black = np.where(self.canonical, info >> 7, stm != 0).astype(np.uint8)
        first = np.zeros(n, np.bool_)
        first[self.cuts[:-1]] = True
        self.rows = np.empty((n + chunk_boards.SCRATCH, board.ROW), np.uint64)
        self.wrong, self.begin, self.end, self.start = (np.zeros(n, np.int64) for _ in range(4))
        self.moves = np.empty(8 * n, np.uint16)
        self.starts = np.empty((n, board.ROW), np.uint64)
        chunk_boards.rebuild(
            self._planes(np.concatenate([chunk.planes for chunk in chunks])),
            self._castling(),
            self.black,
            np.ascontiguousarray(self.facts["rule50_count"]),
            self._ep_files(),
            (~np.isin(self.format, _REPEATS_ONLY)).astype(np.uint8),
            first,
            np.concatenate([chunk.legal for chunk in chunks]),
            self.rows,
            self.wrong,
            self.moves,
            self.begin,
            self.end,
            self.start,
            self.starts,
        )
        self.played = self.move(np.arange(n), "played_idx")

    def _planes(self, planes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """[n, 104] as in the records, but without the symmetry that canonical formats are seen through."""
        turned = np.flatnonzero(self.transform)
        if len(turned):
            bits = np.unpackbits(planes[turned].view(np.uint8), axis=1).reshape(-1, v6.HISTORY_PLANES, 8, 8)
            planes[turned] = (
                np.packbits(_untransformed(bits, self.transform[turned]), axis=3)
                .reshape(len(turned), -1)
                .view(np.uint64)
            )
        return planes

    def _castling(self) -> NDArray[np.uint8]:
        """[n, 4] KQkq from the mover: 1 for a right, in rook-file formats that with the rook at home, 2 for another."""
        names = ("castling_us_oo", "castling_us_ooo", "castling_them_oo", "castling_them_ooo")
        given = np.stack([self.facts[name] for name in names], 1)
        at_home = np.array([128, 1, 128, 1], np.uint8)
        usual = np.where((self.format >= 2)[:, None], at_home, 1)
        return np.where(given == 0, 0, np.where(given == usual, 1, 2)).astype(np.uint8)

    def _ep_files(self) -> Index:
        """[n] en-passant files, -1 for none; only canonical formats say."""
        files = np.full(len(self.facts), chunk_boards.EP_UNKNOWN, np.int64)
        mask = self.facts["side_to_move_or_enpassant"][self.canonical].astype(np.int64)
        file = np.where(mask > 0, np.log2(np.maximum(mask, 1)).astype(np.int64), -1)
        flipped = self.transform[self.canonical] & v6.FLIPPED
        files[self.canonical] = np.where((flipped > 0) & (file >= 0), 7 - file, file)
        return files

    def ply(self, at: Index) -> NDArray[np.int32]:
        """Half-moves from the start of the known history, one more where Black began."""
        begun_by_black = self.black[at] ^ (self.end - self.begin)[at] & 1
        return ((self.end - self.begin)[at] + begun_by_black).astype(np.int32)

    def move(self, at: Index, name: str) -> NDArray[np.uint16]:
        """The moves that records name by a policy index, `NO_MOVE` where that is not legal."""
        out = np.empty(len(at), np.uint16)
        indices = self.facts[name][at].astype(np.int64)
        chunk_boards.recorded_moves(self.rows, at, indices, self.transform[at], v6.POLICY_MOVES, out)
        return out


def _untransformed(bits: NDArray[np.uint8], transforms: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[n, planes, rank, file] before flip, mirror and transposition, taken back in the opposite order."""
    for i, transform in enumerate(transforms.tolist()):
        if transform & v6.TRANSPOSED:  # reflected in the diagonal h1-a8
            bits[i] = bits[i].swapaxes(1, 2)[:, ::-1, ::-1].copy()
        if transform & v6.MIRRORED:
            bits[i] = bits[i, :, ::-1].copy()
        if transform & v6.FLIPPED:
            bits[i] = bits[i, :, :, ::-1].copy()
    return bits


def draw(chunks: Sequence[Chunk], options: SampleOptions, rows: Rows) -> None:
    """Filters the records of some chunks, draws `per_game` of each, and fills the rows, which know their numbers."""
    decoded = _Decoded(chunks)
    rows.looked_at = len(decoded.facts)
    at = _eligible(decoded, options, rows)
    if options.per_game is not None:
        hashes = np.concatenate(
            [
                game_hashes(options.seed, source.identity, np.array([number]))
                for source, number in zip(rows.sources or [], rows.numbers, strict=True)
            ]
        )
        c = decoded.chunk[at]
        priority = ply_priorities(hashes[c], at - decoded.cuts[c])
        drawn = at[lowest_of_each(c, priority, options.per_game)]
        rows.not_drawn = len(at) - len(drawn)
        at = drawn
    rows.boards = decoded.rows[at]
    rows.keys = board.keys(rows.boards)
    rows.ply = decoded.ply(at)
    rows.moves, rows.begin, rows.end = decoded.moves, decoded.begin[at], decoded.end[at]
    rows.played = decoded.played[at]
    # A chunk whose records do not follow each other has several starts: each is a game of its own here.
    starts, rows.game = np.unique(decoded.start[at], return_inverse=True)
    of_start = dict(zip(decoded.start[at].tolist(), decoded.chunk[at].tolist(), strict=True))
    chunk = [of_start[start] for start in starts.tolist()]
    rows.sources = [rows.sources[c] for c in chunk] if rows.sources else None
    rows.numbers = [rows.numbers[c] for c in chunk]
    rows.offsets = [rows.offsets[c] for c in chunk]
    rows.headers = [{} for _ in chunk]
    rows.results = [chunks[c].result for c in chunk]
    rows.starts = {g: fen for g, fen in enumerate(board.fens(decoded.starts[starts])) if fen != STARTPOS_FEN}
    rows.history_known = (rows.end > rows.begin) | ~np.isin(rows.game, np.array(list(rows.starts), np.int64))
    rows.recorded = _values(decoded, at)


def _eligible(decoded: _Decoded, options: SampleOptions, rows: Rows) -> Index:
    """The records whose positions pass all filters; each filter counts what it rejects of what it is given."""
    sieve = _Records(decoded, rows)
    for code, reason in enumerate(chunk_boards.REASONS[1:], 1):
        sieve.keep(decoded.wrong[sieve.at] != code, reason)
    sieve.keep(sieve.fact("invariance_info") & v6.DELETED == 0, "deleted by lc0's rescorer")
    sieve.keep(decoded.played[sieve.at] != chunk_boards.NO_MOVE, "illegal move played")
    if options.recorded is not None:
        _keep_recorded(sieve, options.recorded)
    sieve.keep(decoded.ply(sieve.at) >= options.min_ply, f"before ply {options.min_ply}")
    if options.max_ply is not None:
        sieve.keep(decoded.ply(sieve.at) <= options.max_ply, f"after ply {options.max_ply}")
    sieve.keep_pieces(lambda at: board.piece_counts(decoded.rows[at]), options)
    if options.quiet:
        forcing = np.empty(len(sieve.at), np.bool_)
        chunk_boards.forcing_moves(decoded.rows, sieve.at, decoded.played, forcing)
        sieve.keep(~forcing, "capture or promotion played")
    if options.quiet or options.no_check:
        sieve.keep(~board.in_check(decoded.rows[sieve.at]), "in check")
    return sieve.at


class _Records(Sieve):
    """The records that passed all filters so far."""

    def __init__(self, decoded: _Decoded, rows: Rows) -> None:
        super().__init__(np.arange(len(decoded.facts)), rows.rejected_positions)
        self._decoded = decoded

    def fact(self, name: str) -> NDArray[Any]:
        """A field of the records."""
        values: NDArray[Any] = self._decoded.facts[name][self.at]
        return values


def _keep_recorded(sieve: _Records, wanted: RecordedOptions) -> None:
    """Leaves out records without both values, and searches that were too short."""
    sieve.keep(~np.isnan(sieve.fact("orig_q")), "no value of the net (NaN)")
    q, d = (np.stack([sieve.fact(f"{who}_{what}") for who in ("orig", "best")], 1) for what in "qd")
    fits = (np.abs(q) <= 1 + _OUTSIDE).all(1) & (np.abs(d - 0.5) <= 0.5 + _OUTSIDE).all(1)
    sieve.keep(fits, "values out of range")
    if wanted.min_nodes is not None:
        enough = sieve.fact("visits") >= wanted.min_nodes
        sieve.keep(enough, f"evaluation of fewer than {wanted.min_nodes:,} nodes")


def _values(decoded: _Decoded, at: Index) -> QColumns:
    """The evaluations of rows."""
    facts = decoded.facts[at]
    q, d = np.clip(facts["best_q"].astype(np.float64), -1.0, 1.0), facts["best_d"].astype(np.float64)
    moves = decoded.move(at, "best_idx").tolist()
    best = [None if move == chunk_boards.NO_MOVE else decode_move(move) for move in moves]
    nodes = facts["visits"].astype(np.int64)
    return QColumns(CHUNKS, q, per_mille(q, d), nodes, best, facts["orig_q"], facts["orig_d"])


def per_mille(q: NDArray[np.float64], d: NDArray[np.float64]) -> Index:
    """[n, 3] win, draw and loss of q = w - l and d, in whole per mille that add up to 1000; 0, 1000, 0 of NaN."""
    win, loss = (np.rint(1000 * np.clip(np.nan_to_num((1 - d + side * q) / 2), 0.0, 1.0)) for side in (1, -1))
    return np.stack([win, 1000 - win - loss, loss], 1).astype(np.int64)
