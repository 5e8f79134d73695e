"""Speed of mining recorded evaluations: training chunks by the second, and lichess's dump against reading it alone.

Both archives are made here from the games of the archive at hand: chunks as lc0 writes them with 800 visits a move, and
lines as those of the dump. Whole runs of mining are timed, into a store of their own.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from valuerepair import v6
from valuerepair.archives import ReadReport, SampleOptions, sample
from valuerepair.bench.ratio import BenchData, Comparison, Work, compare
from valuerepair.board import legal_moves, parse_fens
from valuerepair.mining import MineOptions, mine, open_evaluators
from valuerepair.nets.planes import encode
from valuerepair.nets.policy import policy_indices
from valuerepair.positions import PositionBatch, decode_move
from valuerepair.store import Store

GAMES, COPIES = 60, 40  # distinct chunks, and how often each is in the tar
LINES, REPEATS = 20_000, 20
VISITS = 800
DRAWN = 200  # positions of the dump that are evaluated


def chunks(data: BenchData) -> Comparison:
    """Records/s of ``vr mine CHUNKS.tar --deep recorded``, one position a game, against unpacking on one thread."""
    with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder:
        path = Path(folder, "chunks.tar")
        packed, records = _write_tar(data.archive, path)

        def theirs() -> float:
            for chunk in packed * COPIES:
                zlib.decompress(chunk, 31)
            return records

        with _mining(path, SampleOptions(), None) as ours:
            return compare("recorded-chunks", "records", "zlib alone", ours, theirs, target=0.5, floor=50_000)


def dump(data: BenchData) -> Comparison:
    """Lines/s of ``vr mine DUMP.jsonl.zst --deep recorded --positions 200``, against unpacking and parsing alone."""
    with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder:
        path = Path(folder, "dump.jsonl.zst")
        _write_dump(data.archive, path)

        def theirs() -> float:
            with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
                return sum(1 for line in io.BufferedReader(stream, 1 << 20) if orjson.loads(line))

        with _mining(path, SampleOptions(per_game=None, positions=DRAWN), data.net) as ours:
            return compare("recorded-dump", "lines", "zstd and orjson alone", ours, theirs, target=0.5)


@contextmanager
def _mining(path: Path, options: SampleOptions, net: str | None) -> Iterator[Work]:
    """Whole runs on one archive, each into a new store; they give the positions looked at.

    The net is open before the clock starts; a run of hours opens it once.
    """
    with open_evaluators([str(path)], options, "recorded", net) as opened:

        def run() -> float:
            name = path.parent / f"{len(os.listdir(path.parent))}.db"
            with Store.open(name, create=True) as store:
                summary = mine([str(path)], MineOptions(sample=opened.sample), store, opened.net, opened.oracle)
            return summary.report.looked_at

        yield run


def _positions(archive: str, count: int, per_game: int | None) -> PositionBatch:
    """The first positions of an archive, in the order of its games."""
    found: list[PositionBatch] = []
    for batch in sample([archive], SampleOptions(per_game=per_game, min_ply=0), ReadReport()):
        found.append(batch)
        if sum(map(len, found)) >= count:
            break
    return PositionBatch.concat(found)


def _write_tar(archive: str, path: Path) -> tuple[list[bytes], int]:
    """Chunks of the first games, many times over; gives the packed chunks and the number of records in the tar."""
    batch = _positions(archive, 120 * GAMES, None)
    games = np.array([origin.game for origin in batch.origin])
    numbers = np.unique(games)[:GAMES]
    dice = np.random.default_rng(0)
    packed, records = [], 0
    for number in numbers.tolist():
        made = _records(batch.take(np.flatnonzero(games == number)), dice)
        packed.append(gzip.compress(made.tobytes(), 6))
        records += len(made)
    with tarfile.open(path, "w") as tar:
        for i, chunk in enumerate(packed * COPIES):
            member = tarfile.TarInfo(f"training.{i}.gz")
            member.size = len(chunk)
            tar.addfile(member, io.BytesIO(chunk))
    return packed, records * COPIES


def _records(batch: PositionBatch, dice: np.random.Generator) -> NDArray[np.void]:
    """Records of consecutive positions of a game, with made-up visits and values."""
    records = np.zeros(len(batch), v6.RECORD)
    boards = parse_fens(batch.fen)
    moves, cuts = legal_moves(boards)
    indices = policy_indices(boards, moves, cuts)
    planes = encode(batch, "no")
    records["version"], records["input_format"], records["visits"] = v6.VERSION, 1, VISITS
    bits = np.packbits(planes[:, : v6.HISTORY_PLANES].astype(np.bool_), axis=3)
    records["planes"] = bits.reshape(len(batch), -1).view("<u8")
    for k, name in enumerate(("castling_us_ooo", "castling_us_oo", "castling_them_ooo", "castling_them_oo")):
        records[name] = planes[:, v6.HISTORY_PLANES + k, 0, 0]
    records["side_to_move_or_enpassant"] = [" b " in fen for fen in batch.fen]
    records["rule50_count"] = [int(fen.split()[4]) for fen in batch.fen]
    records["probabilities"] = -1
    for i, origin in enumerate(batch.origin):
        found = indices[cuts[i] : cuts[i + 1]]
        shares = dice.multinomial(VISITS, dice.dirichlet(np.full(len(found), 0.3))) / VISITS
        records["probabilities"][i, found] = shares
        played = [decode_move(m) for m in moves[cuts[i] : cuts[i + 1]].tolist()].index(origin.played or "")
        records["played_idx"][i], records["best_idx"][i] = found[played], found[shares.argmax()]
    for name in ("orig_q", "best_q", "root_q", "played_q"):
        records[name] = dice.uniform(-1, 1, len(batch))
    for name in ("orig_d", "best_d", "root_d", "played_d"):
        records[name] = dice.uniform(0, 1, len(batch)) * (1 - np.abs(records[name[:-1] + "q"]))
    return records


def _write_dump(archive: str, path: Path) -> None:
    """Lines like those of the dump: one to four evaluations, one to five lines of moves in each."""
    batch = _positions(archive, LINES, None)
    dice = np.random.default_rng(0)
    lines = []
    for position in (batch[i] for i in range(min(LINES, len(batch)))):
        evaluations = []
        for _ in range(dice.integers(1, 5)):
            line = " ".join([position.origin.played or "", *_SHUFFLE[: dice.integers(0, 10)]])
            pvs = [{"cp": int(dice.integers(-300, 300)), "line": line} for _ in range(dice.integers(1, 6))]
            depth, nodes = int(dice.integers(15, 50)), int(dice.integers(1000, 10**6))
            evaluations.append({"pvs": pvs, "knodes": nodes, "depth": depth})
        lines.append(orjson.dumps({"fen": position.fen.rsplit(" ", 2)[0], "evals": evaluations}))
    with path.open("wb") as file, zstandard.ZstdCompressor(level=3).stream_writer(file) as packer:
        for _ in range(REPEATS):
            packer.write(b"\n".join(lines) + b"\n")


_SHUFFLE = ("g8f6", "g1f3", "f6g8", "f3g1", "b8c6", "b1c3", "c6b8", "c3b1", "a7a6", "a2a3")

BENCHES: dict[str, Callable[[BenchData], Comparison]] = {"recorded-chunks": chunks, "recorded-dump": dump}
