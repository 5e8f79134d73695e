"""From archives to batches of sampled positions: splitting, parsing, drawing and deduplication."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.chunks import UNREADABLE, ChunkBlock, holds_chunks, read_blocks
from valuerepair.archives.epd import LineBlock, LineSplitter, looks_like_epd
from valuerepair.archives.evaluation_dump import DumpBlock, looks_like_dump
from valuerepair.archives.headers import header_reject
from valuerepair.archives.off_game import NetLines, beside
from valuerepair.archives.open import Source, chunk_version, find_sources, looks_like_tar
from valuerepair.archives.options import CHUNKS, DUMP, EPD, EVAL, RECORD_KINDS, RecordedOptions, SampleOptions
from valuerepair.archives.pgn import GameBlock, first_kind
from valuerepair.archives.rows import ReadReport, Rows
from valuerepair.archives.select import KeySet, LowestPriorities, game_hashes, in_share
from valuerepair.archives.split import HEADROOM, Piece, Pieces, SplitGames, Splitter
from valuerepair.chess import v6
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import UsageError, ValueRepairError

BLOCK_GAMES = 256
BLOCK_BYTES = 1 << 21
FIRST_BATCH_ROWS = 64  # the first batch is small: engines wait for it
BATCH_ROWS = 1024
RESULT_ROWS = 4096
_HEAD = 1 << 16  # bytes that identify the format of a text archive
NO_GAME = "a position without a game"
_EMPTY_REASONS = ("not a game", "not text", "not a position")

Block = GameBlock | LineBlock | ChunkBlock


def sample(
    paths: Sequence[str],
    options: SampleOptions,
    report: ReadReport,
    *,
    on_bytes: Callable[[int], None] | None = None,
    net: NetLines | None = None,
) -> Iterator[PositionBatch]:
    """Draws positions from archives, in batches of one to a few thousand rows, and fills `report`.

    `paths` are files (PGN, EPD, FEN or lichess's evaluation dump, packed or not, lc0's training chunks, tar archives of
    chunks; the content identifies the format), folders, or ``-`` for standard input; chunks cannot come from there or
    from a pipe. `on_bytes` is called, possibly from another thread, with the number of (packed) bytes as they are split
    into games. The batches depend on the archives, the seed and the other options, not on threads or timing. No two
    rows have the same key. `net` is needed for the kinds ``policy_move`` and ``search_node`` only.

    Raises UsageError for a missing path and ValueRepairError for a folder without archives, both before it reads; and
    ValueRepairError at the end if the files have no game. A stream that breaks off is not an error: it is listed in
    ``report.truncated``.
    """
    sources = find_sources(paths)
    batches = _sample(sources, options, report, on_bytes)
    return _beside(batches, options, report, net) if options.shares_beside else batches


def read_whole_games(
    paths: Sequence[str],
    options: SampleOptions,
    report: ReadReport,
    *,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Rows]:
    """All games of archives in order, in blocks; the rows of a block are all positions in which a move was played.

    `paths` are as in `sample`; of the `options` those apply that choose games: `game_share`, the filters by header,
    `max_bytes`. Lines of EPD and evaluation dumps are rejected. Repeated games are not removed.

    Raises UsageError for a missing path and for training chunks, ValueRepairError as `sample`.
    """
    sources = find_sources(paths)
    for source in sources:
        if holds_chunks(source):
            raise UsageError(f"{source.path}: holds training chunks already; vr mix and vr train read them directly")
    with closing(_blocks(sources, options, report, on_bytes)) as blocks:
        for rows in _parse(blocks, replace(options, per_game=None, min_ply=0, every_evaluation=True)):
            if rows.played is None:
                for offset in rows.offsets:
                    report.reject(NO_GAME, rows.source.path, offset)
                rows = Rows(rows.source, rejected=rows.rejected, truncated=rows.truncated)
            rows.count(report)
            report.positions += len(rows.keys)
            if len(rows.keys):
                yield rows
    _check_any_read(sources, report)


def _beside(
    drawn: Generator[PositionBatch], options: SampleOptions, report: ReadReport, net: NetLines | None
) -> Generator[PositionBatch]:
    """Plays moves from shares of the positions; of a position both in a game and beside one, the first counts."""
    seen = KeySet()
    with closing(drawn) as batches:
        for batch in _growing(batches):
            moved, _, left_out = beside(batch, options.shares_beside, options.seed, net)
            is_new = seen.add(moved.key)
            report.rejected_positions.update(+left_out)
            report.duplicates += int((~is_new).sum())
            report.positions -= len(batch) - int(is_new.sum())
            report.without_history -= int((~batch.history_known).sum() - (~moved.history_known[is_new]).sum())
            yield moved.take(np.flatnonzero(is_new))


def _growing(batches: Iterator[PositionBatch]) -> Iterator[PositionBatch]:
    """The batches, with the first ones in small parts: engines wait for them, and a search with the net takes long."""
    size = FIRST_BATCH_ROWS
    for batch in batches:
        begin = 0
        while begin < len(batch):
            end = min(begin + size, len(batch))
            yield batch.take(np.arange(begin, end))
            begin, size = end, min(2 * size, BATCH_ROWS)


def _sample(
    sources: Sequence[Source],
    options: SampleOptions,
    report: ReadReport,
    on_bytes: Callable[[int], None] | None,
) -> Generator[PositionBatch]:
    with closing(_blocks(sources, options, report, on_bytes)) as blocks:
        if options.positions is None:
            yield from _distinct(_parse(blocks, options), report)
        else:
            yield from _lowest(blocks, options, report)
    _check_any_read(sources, report)


def _check_any_read(sources: Sequence[Source], report: ReadReport) -> None:
    """Raises ValueRepairError if the archives had no game."""
    names = _names(sources)
    unread = {reason: count for reason, count in report.rejected.items() if reason.startswith(UNREADABLE)}
    if unread and report.games == sum(unread.values()):
        why = ", ".join(f"{count:,} x {reason}" for reason, count in unread.items())
        raise ValueRepairError(f"{names}: no training chunk of version {v6.VERSION} here: {why}")
    if report.games == sum(report.rejected[reason] for reason in _EMPTY_REASONS):
        if report.truncated:
            raise ValueRepairError(f"{names}: no games found; {report.truncated[0][1]}")
        problem = "the file is empty" if len(report.empty) == len(sources) == 1 else "this is not PGN, EPD or FEN"
        raise ValueRepairError(f"{names}: no games found; {problem}")


def _names(sources: Sequence[Source]) -> str:
    return ", ".join(source.path for source in sources[:3]) + (", ..." if len(sources) > 3 else "")


def _blocks(
    sources: Sequence[Source],
    options: SampleOptions,
    report: ReadReport,
    on_bytes: Callable[[int], None] | None,
) -> Generator[Block, None, None]:
    """The games to parse, in blocks; counts all others."""
    for are_chunks, group in groupby(sources, holds_chunks):
        if are_chunks:
            yield from read_blocks(group, options, report, on_bytes)
        else:
            with Pieces(list(group), on_bytes, most=options.max_bytes) as pieces:
                yield from _text_blocks(pieces, options, report)


def _text_blocks(pieces: Pieces, options: SampleOptions, report: ReadReport) -> Iterator[Block]:
    """The games or lines of text archives."""
    games = Splitter()
    lines: LineSplitter | None = None
    block = GameBlock(Source("", ""))
    for piece in pieces:
        if piece.first:
            data = piece.buffer[HEADROOM : HEADROOM + min(piece.length, _HEAD)].tobytes()
            games, lines = Splitter(), _line_splitter(piece.source, data)
            block = GameBlock(piece.source)
            if not piece.length and not piece.broken:
                report.empty.append(piece.source.path)
        report.bytes_read += piece.length
        if piece.broken:
            report.truncated.append((piece.source.path, piece.broken))
        if lines is not None:
            data = piece.buffer[HEADROOM : HEADROOM + piece.length].tobytes()
            complete = lines.feed(data, last=piece.last and not piece.broken)
            if piece.broken and lines.unfinished is not None:
                report.games += 1
                report.reject("cut off", piece.source.path, lines.unfinished)
            yield _lines_in_share(complete, options, report)
            continue
        for cut in games.feed(piece.buffer, piece.length, last=piece.last, cut=piece.broken is not None):
            for i in _wanted_games(cut, piece, options, report):
                text, number, offset = cut.text(i), cut.first + i, cut.offset(i)
                if (reason := header_reject(text, options)) is not None:
                    report.reject(reason, piece.source.path, offset)
                    continue
                block.add(text, number, offset)
                if len(block.games) >= BLOCK_GAMES or block.size >= BLOCK_BYTES:
                    yield block
                    block = GameBlock(piece.source)
        if piece.last and block.games:
            yield block
            block = GameBlock(piece.source)


def _line_splitter(source: Source, head: bytes) -> LineSplitter | None:
    """The splitter for a file with one position per line; None for a file of games."""
    if looks_like_dump(head):
        return LineSplitter(source, DumpBlock)
    if chunk_version(head) is not None or looks_like_tar(head):
        raise ValueRepairError(f"{source.path}: training chunks cannot come from here; give the file or a folder")
    return LineSplitter(source) if looks_like_epd(head) else None


def _wanted_games(games: SplitGames, piece: Piece, options: SampleOptions, report: ReadReport) -> list[int]:
    """The indices of the complete games that are in the share to parse."""
    report.games += len(games)
    numbers = np.arange(games.first, games.first + len(games))
    chosen = in_share(game_hashes(options.seed, piece.source.identity, numbers), options.game_share)
    bad = len(games) - 1 if games.unfinished or games.overlong else None
    if bad is not None:
        reason = "longer than 8 MiB" if games.overlong else "cut off"
        report.reject(reason, piece.source.path, games.offset(bad))
        chosen[bad] = True
    report.not_sampled += int((~chosen).sum())
    indices: list[int] = np.flatnonzero(chosen).tolist()
    return indices if bad is None else indices[:-1]


def _lines_in_share(block: LineBlock, options: SampleOptions, report: ReadReport) -> LineBlock:
    """The lines in the share to parse."""
    report.games += len(block.lines)
    if options.game_share >= 1:
        return block
    hashes = game_hashes(options.seed, block.source.identity, np.array(block.numbers, np.int64))
    chosen = np.flatnonzero(in_share(hashes, options.game_share)).tolist()
    report.not_sampled += len(block.lines) - len(chosen)
    return block.take(chosen)


def _parse(blocks: Iterator[Block], options: SampleOptions) -> Iterator[Rows]:
    """Parses blocks in threads and yields the results in the order of the blocks."""
    pool = ThreadPoolExecutor(options.threads, thread_name_prefix="pgn")
    pending: deque[Future[Rows]] = deque()
    try:
        for block in blocks:
            pending.append(pool.submit(block.parse, options))
            while pending and (len(pending) > 2 * options.threads or pending[0].done()):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _distinct(parsed: Iterator[Rows], report: ReadReport) -> Iterator[PositionBatch]:
    """The positions in batches, without repeated ones and without those of repeated games."""
    seen, games = KeySet(), KeySet()
    ready: list[PositionBatch] = []
    count, enough = 0, FIRST_BATCH_ROWS
    for rows in parsed:
        rows.count(report)
        fresh = _of_new_games(rows, games)
        fresh[fresh] = seen.add(rows.keys[fresh])
        report.duplicates += int((~fresh).sum())
        report.positions += int(fresh.sum())
        if fresh.any():
            ready.append(rows.batch(fresh))
            count += len(ready[-1])
            report.without_history += int((~ready[-1].history_known).sum())
        if count >= enough:
            yield PositionBatch.concat(ready)
            ready, count, enough = [], 0, BATCH_ROWS
    if ready:
        yield PositionBatch.concat(ready)


def _of_new_games(rows: Rows, games: KeySet) -> NDArray[np.bool_]:
    """bool[n]: whether each row's game has other moves than all of `games`; adds the games of the rows to `games`.

    Otherwise positions would be drawn from each copy of a game, and the copies could be in different parts of a split.
    """
    if not rows.games_once:
        return np.ones(len(rows.keys), np.bool_)
    drawn = np.unique(rows.game)
    is_new = np.zeros(len(rows.game_keys), np.bool_)
    is_new[drawn] = games.add(rows.game_keys[drawn])
    return is_new[rows.game]


def _lowest(blocks: Iterator[Block], options: SampleOptions, report: ReadReport) -> Iterator[PositionBatch]:
    """A uniform sample of all distinct positions, which is known after all archives are read."""
    lowest, games = LowestPriorities(options.positions or 0, options.seed), KeySet()
    for rows in _parse(blocks, options):
        rows.count(report)
        low = _of_new_games(rows, games)
        report.duplicates += int((~low).sum())
        low[low] = lowest.wanted(rows.keys[low])
        if low.any():
            lowest.add(rows.batch(low))
    chosen = lowest.result()
    report.not_drawn += lowest.dropped
    report.duplicates += lowest.duplicates
    report.positions += len(chosen)
    report.without_history += int((~chosen.history_known).sum())
    for begin in range(0, len(chosen), RESULT_ROWS):
        yield chosen.take(np.arange(begin, min(begin + RESULT_ROWS, len(chosen))))


MOST_SEARCHED = 1 << 26  # bytes of an archive that are searched for evaluations
_EPD_SCORE = re.compile(rb"[\s;](?:ce|dm)\s+[+-]?\d+|\bbm\s+#")


@dataclass(frozen=True, slots=True)
class FirstEvaluation:
    """A kind of `RECORD_KINDS`, whether its first evaluation has a depth, and the archive of that evaluation."""

    kind: str
    depth: bool
    archive: str


def depth_of(paths: Sequence[str], kind: str) -> bool | None:
    """Whether the first evaluation of this kind has a depth.

    None if unknown: the first `MOST_SEARCHED` bytes of the archives have no evaluation of this kind, or a pipe comes
    first.
    """
    for source in find_sources(paths):
        if source.read_once:
            return None
        if not holds_chunks(source) and (first := _first_in_text(source, kind)):
            return first.depth
    return None


def detect(paths: Sequence[str]) -> FirstEvaluation:
    """The kind of the first recorded evaluation in the archives.

    Raises UsageError for standard input or a pipe, which cannot be searched in advance, and ValueRepairError if no
    archive has evaluations.
    """
    sources = find_sources(paths)
    for source in sources:
        if source.read_once:
            kinds, name = ", ".join(RECORD_KINDS), "standard input" if source.path == "-" else source.path
            raise UsageError(f"--deep recorded: say what comes from {name}: recorded:kind=K, K one of {kinds}")
        if holds_chunks(source):
            return FirstEvaluation(CHUNKS, False, source.path)
        if first := _first_in_text(source):
            return first
    known_kinds = "; ".join(kind.description for kind in RECORD_KINDS.values())
    raise ValueRepairError(
        f"{_names(sources)}: no recorded evaluation in the first {MOST_SEARCHED >> 20} MiB; "
        f"the known kinds are {known_kinds}"
    )


def _first_in_text(source: Source, kind_wanted: str | None = None) -> FirstEvaluation | None:
    """The first evaluation (of any kind, or of `kind_wanted`) of a text archive that a run uses; None without one."""
    wanted = RecordedOptions(kind_wanted) if kind_wanted else None
    options = SampleOptions(per_game=None, min_ply=0, every_evaluation=True, recorded=wanted, max_bytes=MOST_SEARCHED)
    with closing(_blocks([source], options, ReadReport(), None)) as blocks:
        for block in blocks:
            of_lines = DUMP if isinstance(block, DumpBlock) else EPD
            if isinstance(block, LineBlock) and kind_wanted not in (None, of_lines):
                return None
            for recorded in _with_marks(block, kind_wanted).parse(options).recorded or ():
                if recorded is not None:
                    depth = recorded.kind not in (EVAL, EPD) or recorded.depth > 0
                    return FirstEvaluation(recorded.kind, depth, source.path)
    return None


def _with_marks(block: Block, kind: str | None) -> Block:
    """The games and lines of a block that seem to have an evaluation: parsing all of them would take long."""
    if isinstance(block, GameBlock):
        marked = GameBlock(block.source)
        for text, number, offset in zip(block.games, block.numbers, block.offsets, strict=True):
            if first_kind(text, kind):
                marked.add(text, number, offset)
        return marked
    if isinstance(block, LineBlock) and not isinstance(block, DumpBlock):
        return block.take([i for i, line in enumerate(block.lines) if _EPD_SCORE.search(line)])
    return block
