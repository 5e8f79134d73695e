"""Existing training chunks with the judge's values in place of the search's.

A record gets the store's value of its position: of the same key (`chess.board.keys`), repeated before or not as the
stored one, and with the same half-move clock, unless both clocks are low. Its other fields and all other records keep
their bytes.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.chunks import ChunkRecords, boards_of
from valuerepair.archives.select import scrambled
from valuerepair.arrays import Flags
from valuerepair.chess import v6
from valuerepair.chess.rows import Keys
from valuerepair.chess.v6 import Records
from valuerepair.files import check_new_folder, check_room, whole_folder
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.text import quantity
from valuerepair.training.chunk_files import (
    HELD_OUT,
    READABLE_FORMATS,
    Archives,
    ChunkFile,
    LeftOut,
    are_among,
    blocks,
    check_finite,
    digest_of,
    find_archives,
    in_order,
    name_of,
    pack,
    put_files,
    read_archives,
    refuse_equal_names,
    unpack,
    unpack_or_reason,
)
from valuerepair.training.judged import JudgedBoards, held_out_keys
from valuerepair.training.samples import chances, sampled_results
from valuerepair.training.store_chunks import Result

_NO_MATE = 1 - 1e-4  # lc0's deblunder takes a played_q of -1 as a blunder into mate


@dataclass(slots=True)
class Rescored:
    """Counts of what was written to `folder`.

    `chunks` and their `records`; `changed_chunks` and `changed_records` have the judge's value; `mean_change` is the
    mean abs(new - old) by field (``q``, ``result``). `positions`: those that the store has judged; `otherwise`: records
    of judged positions with another history. `held_out`: chunks with a position that is held out; they are not
    written. `left_out`: files that are not usable chunks, by reason, and the first few; `broken_off`: tars that break
    off, each with the place.
    """

    folder: str
    positions: int
    chunks: int = 0
    records: int = 0
    changed_chunks: int = 0
    changed_records: int = 0
    otherwise: int = 0
    mean_change: dict[str, float] = field(default_factory=dict)
    held_out: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    left_out_first: list[str] = field(default_factory=list)
    broken_off: list[tuple[str, str]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For a terminal."""
        changes = ", ".join(f"of {name} {change:.4f}" for name, change in self.mean_change.items())
        lines = [
            f"{self.folder}: {self.changed_records:,} of {self.records:,} records of {self.changed_chunks:,} of "
            f"{self.chunks:,} chunks have the judge's value" + (f"; mean |change| {changes}" if changes else "")
        ]
        if self.otherwise:
            lines.append(
                f"{quantity(self.otherwise, 'record')} of judged positions keep their values: they were repeated, or "
                "had another count of moves without a capture or a pawn's move"
            )
        if self.held_out:
            lines.append(f"left out: {quantity(self.held_out, 'chunk')} {HELD_OUT}")
        lines += LeftOut(self.left_out, self.left_out_first).lines()
        if not self.changed_records:
            lines.append(f"none of the {self.positions:,} judged positions is in these chunks: vr mine CHUNKS first")
        return lines


def rescore(
    chunks: Sequence[str],
    store: Store,
    out: str | Path,
    question: Question,
    *,
    result: Result = "game",
    progress: Progress,
) -> Rescored:
    """Writes the chunks to the new folder `out`, under their names, with the judge's values.

    best_*, root_*, and played_*, which keeps its distance from best_*; and with `result` ``judge`` result_*: a win, a
    draw or a loss with the judge's chances of each, because lc0's rescorer accepts no other results. W/D/L come from
    the judge's Q with the net's own draws, or with `question.q_from` ``wdl`` from the judge. Only positions of the
    store's part ``train`` give their values, and chunks with another position of the store are not written.
    `out` appears complete or not at all; files that are not usable chunks are left out.

    Raises UsageError if two files would get one name or `out` is not empty, ValueRepairError without judged positions
    or chunks.
    """
    check_new_folder(out, chunks)
    archives = find_archives(chunks)
    refuse_equal_names(archives)
    judged, held_out = JudgedBoards.of(store, question), held_out_keys(store)
    rescored = Rescored(os.fspath(out), len(judged.nodes))
    progress.set_total(archives.total_bytes())
    with whole_folder(out) as partial:
        check_room(partial, archives.total_bytes())
        _write(archives, judged, held_out, result, rescored, partial, progress.advance)
        if not rescored.chunks:
            raise LeftOut(rescored.left_out, broken_off=rescored.broken_off).none_usable(chunks)
    return rescored


# -- chunks -----------------------------------------------------------------------------------------------------------


class _Chunk(NamedTuple):
    """A packed chunk to write; the numbers of its records, of changed ones, and of judged ones with another history;
    and the sums of the changes by field."""

    content: bytes
    records: int
    changed: int = 0
    otherwise: int = 0
    change: Mapping[str, float] = {}


def _write(
    archives: Archives,
    judged: JudgedBoards,
    held_out: Keys,
    result: Result,
    rescored: Rescored,
    folder: Path,
    on_bytes: Callable[[int], None],
) -> None:
    """Writes the chunks and fills the counts of `rescored`."""
    left_out = LeftOut(rescored.left_out, rescored.left_out_first, rescored.broken_off)
    change: dict[str, float] = defaultdict(float)

    def work(block: Sequence[ChunkFile]) -> list[_Chunk | str]:
        return _rescored([chunk_file.content for chunk_file in block], judged, held_out, result)

    def written() -> Iterator[tuple[ChunkFile, bytes]]:
        for block, chunks in in_order(work, blocks(read_archives(archives, left_out.break_off))):
            for file, chunk in zip(block, chunks, strict=True):
                on_bytes(len(file.content))
                if chunk == HELD_OUT:
                    rescored.held_out += 1
                    continue
                if isinstance(chunk, str):
                    left_out.add(name_of(archives, file), chunk)
                    continue
                if not all(map(math.isfinite, chunk.change.values())):
                    check_finite(name_of(archives, file), unpack(file.content), ("best_q", "result_q"))
                rescored.chunks += 1
                rescored.records += chunk.records
                rescored.changed_chunks += chunk.changed > 0
                rescored.changed_records += chunk.changed
                rescored.otherwise += chunk.otherwise
                for name, total in chunk.change.items():
                    change[name] += total
                yield file, chunk.content

    put_files(archives, written(), folder)
    rescored.mean_change = {name: total / rescored.changed_records for name, total in change.items()}
    for path, name in zip(archives.paths, archives.names, strict=True):
        if (folder / name).exists():  # with the date of the original: the older trainer reads the newest files first
            stat = os.stat(path)
            os.utime(folder / name, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _rescored(packed: Sequence[bytes], judged: JudgedBoards, held_out: Keys, result: Result) -> list[_Chunk | str]:
    """Each packed chunk with the judge's values, or the reason why it is not written."""
    unpacked = [_readable_records(content) for content in packed]
    usable = [records for records in unpacked if not isinstance(records, str)]
    if not usable:
        return [str(reason) for reason in unpacked]
    boards = boards_of([ChunkRecords.of(records.tobytes(), len(records)) for records in usable])
    rows, is_otherwise = judged.rows(boards.keys, boards.clock, boards.repeated)
    cuts = np.cumsum([len(records) for records in usable])[:-1]
    rows_of_chunks = iter(np.split(np.where(boards.usable, rows, -1), cuts))
    otherwise = iter(np.split(boards.usable & is_otherwise, cuts))
    is_held_out = iter(np.split(boards.usable & are_among(boards.keys, held_out), cuts))
    chunks: list[_Chunk | str] = []
    for content, records in zip(packed, unpacked, strict=True):
        if isinstance(records, str):
            chunks.append(records)
            continue
        chunk = _chunk(content, records, next(rows_of_chunks), int(next(otherwise).sum()), judged, result)
        chunks.append(HELD_OUT if next(is_held_out).any() else chunk)
    return chunks


def _readable_records(content: bytes) -> Records | str:
    """The records of a chunk, or the reason why it cannot be used."""
    records = unpack_or_reason(content)
    if isinstance(records, str) or records["input_format"][0] in READABLE_FORMATS:
        return records
    return f"unknown input format {records['input_format'][0]}"


def _chunk(
    content: bytes,
    records: Records,
    judged_rows: NDArray[np.int64],
    otherwise: int,
    judged: JudgedBoards,
    result: Result,
) -> _Chunk:
    rows = np.flatnonzero(judged_rows >= 0)
    if result == "game":
        rows = rows[~_are_proven(records, rows)]
    if not len(rows):
        return _Chunk(content, len(records), otherwise=otherwise)
    changed, wdl = records.copy(), judged.wdl[judged_rows[rows]]
    chance = chances(judged.keys[judged_rows[rows]] ^ scrambled(rows.astype(np.uint64) ^ np.uint64(digest_of(content))))
    change = put_values(changed, rows, wdl, chance, result)
    return _Chunk(pack(changed), len(records), len(rows), otherwise, change)


def put_values(
    records: Records,
    rows: NDArray[np.int64],
    wdl: NDArray[np.float32],
    chance: NDArray[np.float64],
    result: Result,
) -> dict[str, float]:
    """Writes W/D/L [n, 3] into the records `rows` [n]; returns the sum of abs(new Q - old Q) of each kind of field.

    With `result` ``judge`` results are drawn by `chance` [n] in [0, 1). played_q keeps its distance from best_q, so
    that deblundering treats the played move as before. A win or loss that the search has proven keeps its values, which
    deblundering compares with 1; other proofs, such as of a repetition, are removed with the value that they prove.
    """
    change = {"q": _put_q(records, rows, wdl)}
    if result == "judge":
        z = sampled_results(wdl, chance)
        change["result"] = float(np.nansum(np.abs(z - records["result_q"][rows])))
        records["result_q"][rows], records["result_d"][rows] = z, z == 0
    return change


def _put_q(records: Records, rows: NDArray[np.int64], wdl: NDArray[np.float32]) -> float:
    """Writes best_*, root_* and played_*, and returns the sum of abs(new best_q - old best_q)."""
    is_proven = _are_proven(records, rows)
    rows, wdl = rows[~is_proven], wdl[~is_proven]
    q, d = wdl[:, 0] - wdl[:, 2], wdl[:, 1]
    best, played = records["best_q"][rows], records["played_q"][rows]
    moved = np.clip(q + np.nan_to_num(played - best), -_NO_MATE, 1)
    is_best = records["played_idx"][rows] == records["best_idx"][rows]
    played = np.where(is_best, q, np.where(played <= -1, played, moved))
    records["played_q"][rows] = played
    records["played_d"][rows] = np.where(is_best, d, np.minimum(records["played_d"][rows], 1 - np.abs(played)))
    for name in ("best", "root"):
        records[f"{name}_q"][rows], records[f"{name}_d"][rows] = q, d
    records["invariance_info"][rows] &= 0xFF ^ v6.BEST_PROVEN
    return float(np.nansum(np.abs(q - best)))


def _are_proven(records: Records, rows: NDArray[np.int64]) -> Flags:
    """bool[n]: which of these records have a win or loss that the search has proven."""
    is_won = np.abs(records["best_q"][rows]) == 1
    return np.asarray((records["invariance_info"][rows] & v6.BEST_PROVEN > 0) & is_won, np.bool_)
