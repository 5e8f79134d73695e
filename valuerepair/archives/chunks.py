"""lc0's training chunks in files and tar archives, and the positions drawn from their records."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives import chunk_boards
from valuerepair.archives.headers import header_reject
from valuerepair.archives.open import (
    HEAD,
    MAX_PACKED,
    MAX_RECORDS,
    OnBytes,
    Source,
    Stream,
    TarError,
    TarMember,
    bare_name,
    chunk_version,
    looks_like_tar,
    members,
    named_as_chunk,
    unpacked,
)
from valuerepair.archives.options import CHUNKS, OTHER_KIND, RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport, Rejected, Rows, Sieve
from valuerepair.archives.select import game_hashes, game_keys, in_share, lowest_of_each, ply_priorities
from valuerepair.chess import board, v6
from valuerepair.chess.origins import QColumns
from valuerepair.chess.positions import STARTPOS_FEN, cut_out, cuts_of, decode_move
from valuerepair.chess.rows import ROW, Index

BLOCK_CHUNKS = 16
_NO_CHUNK, _OTHER_VERSION = "no training chunk", "training data of version"
UNREADABLE = (_NO_CHUNK, _OTHER_VERSION)  # how the reasons to reject files without readable chunks begin


@dataclass(slots=True)
class ChunkBlock:
    """Packed chunks: (archive, number in it, file).

    A block may hold chunks of several archives, so that a folder of single chunks is read as fast as a tar of them.
    """

    chunks: list[tuple[Source, int, TarMember]] = field(default_factory=list)

    def parse(self, options: SampleOptions) -> Rows:
        """The positions drawn from the block, what was left out, and why; called in any thread."""
        rows, readable = Rows(self.chunks[0][0]), list[ChunkRecords]()
        for source, number, member in self.chunks:
            chunk = _chunk(source, member, options, rows)
            if chunk is not None:
                readable.append(chunk)
                rows.sources.append(source)
                rows.numbers.append(number)
                rows.offsets.append(member.offset)
        rows.parsed = len(readable)
        if readable:
            draw(readable, options, rows)
        return rows


def holds_chunks(source: Source) -> bool:
    """Whether the archive is a training chunk or a tar archive, packed or not; standard input and pipes never count."""
    if source.read_once:
        return False
    try:
        with open(source.path, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return False  # the error is reported when it is read
    beginning = unpacked(head)
    if chunk_version(beginning) is not None or looks_like_tar(head):
        return True
    if not beginning and named_as_chunk(os.path.basename(source.path)):
        return True  # too short to unpack anything
    if not bare_name(source.path).endswith(".tar"):
        return False
    with Stream(source) as stream:
        return looks_like_tar(stream.read(HEAD))


# -- reading ----------------------------------------------------------------------------------------------------------


def read_blocks(
    sources: Iterable[Source], options: SampleOptions, report: ReadReport, on_bytes: OnBytes | None
) -> Iterator[ChunkBlock]:
    """The chunks in the share to parse, in blocks; counts the other chunks, and files that are not chunks."""
    block = ChunkBlock()
    for source in sources:
        for number, member in _chunks(source, options, report, on_bytes):
            block.chunks.append((source, number, member))
            if len(block.chunks) >= BLOCK_CHUNKS:
                yield block
                block = ChunkBlock()
    if block.chunks:
        yield block


def _chunks(
    source: Source, options: SampleOptions, report: ReadReport, on_bytes: OnBytes | None
) -> Iterator[tuple[int, TarMember]]:
    """(number, file) of the chunks of one archive that are in the share to parse."""
    for number, member in enumerate(_members(source, options, report, on_bytes), 1):
        report.games += 1
        version = chunk_version(unpacked(member.content[:HEAD]))
        if version is None and (broken := _unpack(member.content)[1]):
            report.truncated.append((_where(source, member), broken))
            report.reject("cut off", source.path, member.offset, member.name)
        elif version != v6.VERSION:
            reason = _NO_CHUNK if version is None else f"{_OTHER_VERSION} {version}"
            report.reject(reason, source.path, member.offset, member.name)
        elif member.size > MAX_PACKED:
            report.reject("longer than a game", source.path, member.offset, member.name)
        elif options.game_share < 1 and not in_share(_game_hash(source, number, options), options.game_share)[0]:
            report.not_sampled += 1
        else:
            yield number, member


def _game_hash(source: Source, number: int, options: SampleOptions) -> NDArray[np.uint64]:
    """uint64[1] the hash of a chunk, which is one game."""
    return game_hashes(options.seed, source.identity, np.array([number]))


def _members(
    source: Source, options: SampleOptions, report: ReadReport, on_bytes: OnBytes | None
) -> Iterator[TarMember]:
    """The files of a tar archive, or the file itself if it is a chunk."""
    with open(source.path, "rb") as file:
        content = file.read(HEAD)
        tar = looks_like_tar(content) or bare_name(source.path).endswith(".tar")
        if not tar:
            content += file.read(MAX_PACKED + 1 - len(content))
    if not tar:
        if on_bytes is not None:
            on_bytes(len(content))
        yield TarMember("", 0, len(content), content)
        return
    with Stream(source, on_bytes, options.max_bytes) as stream:
        try:
            yield from members(stream.read, MAX_PACKED)
            if stream.broken:
                report.truncated.append((source.path, stream.broken))
        except TarError as error:
            report.truncated.append((source.path, f"{error}: {stream.broken}" if stream.broken else str(error)))


def _unpack(content: bytes) -> tuple[bytes, str]:
    """The records of a chunk, and how its gzip stream breaks off (empty if it does not)."""
    if content[:2] != b"\x1f\x8b":
        return content, ""
    parts, room = [], MAX_RECORDS * v6.RECORD.itemsize + 1
    while content and room > 0:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(content, room))
        except zlib.error as error:
            return b"".join(parts), str(error)
        room -= len(parts[-1])
        if not member.eof:
            return b"".join(parts), "the gzip stream breaks off" if room > 0 else ""
        content = member.unused_data.lstrip(b"\0")
    return b"".join(parts), ""


# -- decoding ---------------------------------------------------------------------------------------------------------


def _chunk(source: Source, member: TarMember, options: SampleOptions, rows: Rows) -> ChunkRecords | None:
    """The complete records of a chunk; if they cannot be used, counts the reason and returns None."""
    data, broken = _unpack(member.content)
    count, trailing = divmod(len(data), v6.RECORD.itemsize)
    if broken or trailing:
        how = broken or f"{trailing:,} trailing bytes after the last whole record"
        rows.truncated.append((_where(source, member), f"{how} ({count:,} whole records)"))
    reason = _bad_records(data, count) or (
        OTHER_KIND if options.recorded is not None and options.recorded.kind != CHUNKS else None
    )
    if reason is None:
        chunk = ChunkRecords.of(data, count)
        reason = header_reject(f'[Result "{chunk.result}"]\n'.encode(), options)
        if reason is None:
            return chunk
    rows.rejected.append(Rejected(reason, member.offset, member.name, source))
    return None


def _where(source: Source, member: TarMember) -> str:
    return f"{source.path}: {member.name}" if member.name else source.path


def _bad_records(data: bytes, n: int) -> str | None:
    """Why the records of a chunk cannot be used; None if they can."""
    if not 0 < n <= MAX_RECORDS:
        return "longer than a game" if n else "cut off"
    records = np.frombuffer(data, v6.RECORD, n)
    formats = records["input_format"]
    if (records["version"] != v6.VERSION).any() or (formats != formats[0]).any():
        return "damaged records"
    if formats[0] not in (*STANDARD_FORMATS, *CANONICAL_FORMATS):
        return f"unknown input format {formats[0]}"
    return None


Facts = NDArray[np.void]  # of v6.FACTS

# lc0's input formats: the standard ones have the side to move, the canonical ones a symmetry and the e.p. file.
STANDARD_FORMATS, CANONICAL_FORMATS = (1, 2), (3, 4, 132, 5, 133)
_REPEATS_ONLY = (5, 133)  # their older boards are only those that repeat a position
_RESULTS = {1.0: "1-0", 0.0: "1/2-1/2", -1.0: "0-1"}
_OUTSIDE = 1e-3  # the most that a value may be outside its range: 32-bit means drift


@dataclass(frozen=True, slots=True)
class ChunkRecords:
    """n records of one game: their input format, [n] v6.FACTS, [n, 104] planes, [n] numbers of legal moves."""

    input_format: int
    facts: Facts
    planes: NDArray[np.uint64]
    legal: Index

    @staticmethod
    def of(data: bytes, n: int) -> ChunkRecords:
        """The first n records of a chunk's bytes. Of the policy, most of the bytes, only the moves are counted."""
        size, records = v6.RECORD.itemsize, np.frombuffer(data, v6.RECORD, n)
        raw = np.frombuffer(data, np.uint8, n * size).reshape(n, size)
        legal = np.empty(n, np.int64)
        chunk_boards.count_legal_moves(np.frombuffer(data, "<u4", n * size // 4), legal)
        facts = raw[:, -v6.FACTS.itemsize :].copy().view(v6.FACTS)[:, 0]
        return ChunkRecords(int(records["input_format"][0]), facts, np.ascontiguousarray(records["planes"]), legal)

    @property
    def result(self) -> str:
        """The game's result; ``*`` for a game that was stopped undecided, and for a value that is not a result."""
        last = self.facts[-1]
        info, stm = int(last["invariance_info"]), int(last["side_to_move_or_enpassant"])
        if info & v6.TOO_LONG:
            return "*"
        black = info & v6.BLACK_TO_MOVE if self.input_format in CANONICAL_FORMATS else stm
        return _RESULTS.get(float(last["result_q"]) * (-1 if black else 1), "*")


class _Decoded:
    """The records of several chunks, with boards and histories, as arrays over records; the chunks begin at `cuts`."""

    def __init__(self, chunks: Sequence[ChunkRecords]) -> None:
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
        self.rows = np.empty((n + chunk_boards.SCRATCH, ROW), np.uint64)
        self.wrong, self.begin, self.end, self.start = (np.zeros(n, np.int64) for _ in range(4))
        self.moves = np.empty(8 * n, np.uint16)
        self.starts = np.empty((n, ROW), np.uint64)
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
        """[n, 104] as in the records, with the symmetry of canonical formats undone."""
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
        """[n, 4] KQkq from the mover: 0 for no right, 1 for a right with the rook at home, 2 for other rights."""
        names = ("castling_us_oo", "castling_us_ooo", "castling_them_oo", "castling_them_ooo")
        recorded = np.stack([self.facts[name] for name in names], 1)
        at_home = np.array([128, 1, 128, 1], np.uint8)
        at_usual_home = np.where((self.format >= 2)[:, None], at_home, 1)
        return np.where(recorded == 0, 0, np.where(recorded == at_usual_home, 1, 2)).astype(np.uint8)

    def _ep_files(self) -> Index:
        """[n] en-passant files, -1 for none; `EP_UNKNOWN` for standard formats, which do not record them."""
        files = np.full(len(self.facts), chunk_boards.EP_UNKNOWN, np.int64)
        mask = self.facts["side_to_move_or_enpassant"][self.canonical].astype(np.int64)
        file = np.where(mask > 0, np.log2(np.maximum(mask, 1)).astype(np.int64), -1)
        flipped = self.transform[self.canonical] & v6.FLIPPED
        files[self.canonical] = np.where((flipped > 0) & (file >= 0), 7 - file, file)
        return files

    def ply(self, records: Index) -> NDArray[np.int32]:
        """Half-moves from the start of each record's known history, and one more if Black began it."""
        lengths = (self.end - self.begin)[records]
        begun_by_black = self.black[records] ^ lengths & 1
        return (lengths + begun_by_black).astype(np.int32)

    def games(self, starts: Index) -> tuple[NDArray[np.uint16], Index]:
        """The moves of the games that begin at these starts, up to the last record's, and where each game's begin."""
        fine = np.flatnonzero(self.wrong == chunk_boards.FINE)
        last = np.zeros(len(self.start), np.int64)
        last[self.start[fine]] = fine  # of equal indices the last one counts
        ends = last[starts]
        moves, cuts = cut_out(self.moves, self.begin[ends], self.end[ends])
        played, at = self.played[ends], cuts[1:]
        known = played != chunk_boards.NO_MOVE
        return np.insert(moves, at[known], played[known]), cuts + np.append(0, np.cumsum(known))

    def move(self, records: Index, name: str) -> NDArray[np.uint16]:
        """The moves at the policy indices in field `name` of these records; `NO_MOVE` if the move is not legal."""
        out = np.empty(len(records), np.uint16)
        indices = self.facts[name][records].astype(np.int64)
        chunk_boards.recorded_moves(self.rows, records, indices, self.transform[records], v6.POLICY_MOVES, out)
        return out


def _untransformed(bits: NDArray[np.uint8], transforms: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Undoes transposition, mirror and flip of [n, planes, rank, file], in this order."""
    for i, transform in enumerate(transforms.tolist()):
        if transform & v6.TRANSPOSED:  # reflected in the diagonal h1-a8
            bits[i] = bits[i].swapaxes(1, 2)[:, ::-1, ::-1].copy()
        if transform & v6.MIRRORED:
            bits[i] = bits[i, :, ::-1].copy()
        if transform & v6.FLIPPED:
            bits[i] = bits[i, :, :, ::-1].copy()
    return bits


def draw(chunks: Sequence[ChunkRecords], options: SampleOptions, rows: Rows) -> None:
    """Filters the records of chunks, draws `per_game` of each chunk, and fills the rows."""
    decoded = _Decoded(chunks)
    rows.looked_at = len(decoded.facts)
    drawn = _eligible(decoded, options, rows)
    if options.per_game is not None:
        games = zip(rows.sources, rows.numbers, strict=True)
        hashes = np.concatenate([_game_hash(source, number, options) for source, number in games])
        eligible, c = drawn, decoded.chunk[drawn]
        priority = ply_priorities(hashes[c], eligible - decoded.cuts[c])
        drawn = eligible[lowest_of_each(c, priority, options.per_game)]
        rows.not_drawn = len(eligible) - len(drawn)
    rows.boards = decoded.rows[drawn]
    rows.keys = board.keys(rows.boards)
    rows.ply = decoded.ply(drawn)
    rows.moves, rows.begin, rows.end = decoded.moves, decoded.begin[drawn], decoded.end[drawn]
    rows.played = decoded.played[drawn]
    # If the records of a chunk do not follow each other, it has several starts; each of them counts as a game.
    starts, rows.game = np.unique(decoded.start[drawn], return_inverse=True)
    of_start = dict(zip(decoded.start[drawn].tolist(), decoded.chunk[drawn].tolist(), strict=True))
    chunk = [of_start[start] for start in starts.tolist()]
    rows.sources = [rows.sources[c] for c in chunk]
    rows.numbers = [rows.numbers[c] for c in chunk]
    rows.offsets = [rows.offsets[c] for c in chunk]
    rows.headers = [{} for _ in chunk]
    rows.results = [chunks[c].result for c in chunk]
    rows.starts = {g: fen for g, fen in enumerate(board.fens(decoded.starts[starts])) if fen != STARTPOS_FEN}
    rows.game_keys = game_keys(*decoded.games(starts), rows.starts)
    rows.history_known = (rows.end > rows.begin) | ~np.isin(rows.game, np.array(list(rows.starts), np.int64))
    rows.recorded = _evaluations(decoded, drawn)


class RecordBoards(NamedTuple):
    """The positions of n records: their `keys` uint64[n], as from `draw`; `clock` int64[n], half-moves since a capture
    or a pawn's move; `repeated` bool[n], the position occurred before; `usable` bool[n], the position is legal in
    standard chess and the record is not a placeholder of lc0's rescorer."""

    keys: NDArray[np.uint64]
    clock: Index
    repeated: NDArray[np.bool_]
    usable: NDArray[np.bool_]


def boards_of(chunks: Sequence[ChunkRecords]) -> RecordBoards:
    """The positions of all records of the chunks, in order."""
    decoded = _Decoded(chunks)
    facts = decoded.facts
    deleted = facts["invariance_info"] & v6.DELETED != 0
    repeated = np.concatenate([chunk.planes[:, v6.REPEATED_PLANE] for chunk in chunks]) != 0
    return RecordBoards(
        board.keys(decoded.rows[: len(facts)]),
        facts["rule50_count"].astype(np.int64),
        repeated,
        (decoded.wrong == chunk_boards.FINE) & ~deleted,
    )


def _eligible(decoded: _Decoded, options: SampleOptions, rows: Rows) -> Index:
    """The records whose positions pass all filters; each filter counts the positions that it rejects."""
    facts = decoded.facts
    sieve = Sieve(np.arange(len(facts)), rows.rejected_positions)
    for code, reason in enumerate(chunk_boards.REASONS[1:], 1):
        sieve.keep(decoded.wrong[sieve.rows] != code, reason)
    sieve.keep(facts["invariance_info"][sieve.rows] & v6.DELETED == 0, "deleted by lc0's rescorer")
    sieve.keep(decoded.played[sieve.rows] != chunk_boards.NO_MOVE, "illegal move played")
    if options.recorded is not None:
        _keep_recorded(sieve, decoded, options.recorded)
    sieve.keep(decoded.ply(sieve.rows) >= options.min_ply, f"before ply {options.min_ply}")
    if options.max_ply is not None:
        sieve.keep(decoded.ply(sieve.rows) <= options.max_ply, f"after ply {options.max_ply}")
    sieve.keep_pieces(lambda passed: board.piece_counts(decoded.rows[passed]), options)
    if options.quiet:
        forcing = np.empty(len(sieve.rows), np.bool_)
        chunk_boards.forcing_moves(decoded.rows, sieve.rows, decoded.played, forcing)
        sieve.keep(~forcing, "capture or promotion played")
    if options.quiet or options.no_check:
        sieve.keep(~board.in_check(decoded.rows[sieve.rows]), "in check")
    return sieve.rows


def _keep_recorded(sieve: Sieve, decoded: _Decoded, wanted: RecordedOptions) -> None:
    """Leaves out records that lack the net's or the search's value, and records of too short searches."""
    facts, is_last = decoded.facts, np.zeros(len(decoded.facts), np.bool_)
    is_last[decoded.cuts[1:] - 1] = True
    sieve.keep(v6.were_searched(facts, is_last)[sieve.rows], "no evaluation")
    sieve.keep(~np.isnan(facts["orig_q"][sieve.rows]), "no value of the net (NaN)")
    q, d = (np.stack([facts[f"{value}_{letter}"][sieve.rows] for value in ("orig", "best")], 1) for letter in "qd")
    fits = (np.abs(q) <= 1 + _OUTSIDE).all(1) & (np.abs(d - 0.5) <= 0.5 + _OUTSIDE).all(1)
    sieve.keep(fits, "values out of range")
    if wanted.min_nodes is not None:
        enough = facts["visits"][sieve.rows] >= wanted.min_nodes
        sieve.keep(enough, f"evaluation of fewer than {wanted.min_nodes:,} nodes")


def _evaluations(decoded: _Decoded, records: Index) -> QColumns:
    """The evaluations in these records."""
    facts = decoded.facts[records]
    q, d = np.clip(facts["best_q"].astype(np.float64), -1.0, 1.0), facts["best_d"].astype(np.float64)
    moves = decoded.move(records, "best_idx").tolist()
    best = [None if move == chunk_boards.NO_MOVE else decode_move(move) for move in moves]
    nodes = facts["visits"].astype(np.int64)
    return QColumns(CHUNKS, q, per_mille(q, d), nodes, best, facts["orig_q"], facts["orig_d"])


def per_mille(q: NDArray[np.float64], d: NDArray[np.float64]) -> Index:
    """[n, 3] win, draw and loss for q = w - l and d, in whole per mille that add up to 1000; NaN gives 0, 1000, 0."""
    win, loss = (np.rint(1000 * np.clip(np.nan_to_num((1 - d + side * q) / 2), 0.0, 1.0)) for side in (1, -1))
    return np.stack([win, 1000 - win - loss, loss], 1).astype(np.int64)
