"""Speed of mining recorded evaluations: training chunks by the second, lichess's dump against reading it alone, and
rows into a store that has many positions already against inserting the same ones.

The archives are made here from the games of the archive at hand: chunks as lc0 writes them with 800 visits a move, and
lines as those of the dump. Whole runs of mining are timed, into a store of their own.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from benchmarks.comparison import BenchData, Comparison, Work, compare, sampled
from valuerepair.archives.chunks import per_mille
from valuerepair.archives.options import CHUNKS, SampleOptions
from valuerepair.chess import v6
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.origins import Origins, QColumns
from valuerepair.chess.positions import PositionBatch, decode_move
from valuerepair.mining.judges import open_run
from valuerepair.mining.mine import MineOptions, mine
from valuerepair.nets.net import NetIdentity
from valuerepair.nets.planes import encode
from valuerepair.nets.policy import policy_indices
from valuerepair.oracles.recorded import deep_columns, net_values
from valuerepair.store.rows import JudgeIdentity, RunRecord
from valuerepair.store.store import Store

GAMES, COPIES = 60, 40  # distinct chunks, and how often each is in the tar
LINES, REPEATS = 20_000, 20
VISITS = 800
WHOLE_GAMES = SampleOptions(per_game=None, min_ply=0)
DRAWN = 200  # positions of the dump that are evaluated
STORED, ADDED = 100_000, 20_000  # positions in the store, and how many more are mined
_TABLES = ("positions", "net_values", "deep_values")


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
                return sum(1 for line in io.BufferedReader(stream, 1 << 20) if msgspec.json.decode(line))

        with _mining(path, SampleOptions(per_game=None, positions=DRAWN), data.net) as ours:
            return compare("recorded-dump", "lines", "zstd and msgspec alone", ours, theirs, target=0.5)


def rows(data: BenchData) -> Comparison:
    """Rows/s of ``vr mine CHUNKS.tar --deep recorded --per-game 1000`` into a store of `STORED` positions, three rows a
    position, against inserting the same rows by bare sqlite3; both into a copy of the store, which is counted too."""
    with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder:
        path, full, copy = (Path(folder, name) for name in ("chunks.tar", "full.db", "copy.db"))
        positions = sampled(data.archive, STORED + ADDED, WHOLE_GAMES)
        cut = max(len(positions) - ADDED, len(positions) // 2)
        _fill(full, positions.take(np.arange(cut)))
        new = _by_game(positions.take(np.arange(cut, len(positions))))
        _pack(path, (gzip.compress(chunk.tobytes(), 6) for chunk in new))
        options = MineOptions(sample=SampleOptions(per_game=1000))
        with open_run([str(path)], "recorded", None) as opened:

            def ours() -> float:
                _copy(full, copy)
                with Store.open(copy, write=True) as store:
                    summary = mine([str(path)], options, store, *opened)
                return len(_TABLES) * summary.scored

            ours()
            catalogue, added = _rows_after(copy, cut)

            def theirs() -> float:
                _copy(full, copy)
                _insert(copy, catalogue)
                _insert(copy, added)
                return sum(map(len, added.values()))

            return compare("recorded-rows", "rows", "sqlite3 alone", ours, theirs, target=0.3, floor=20_000)


def _fill(path: Path, batch: PositionBatch) -> None:
    """A new store with these positions and made-up values of them."""
    dice = np.random.default_rng(0)
    with Store.open(path, create=True) as store, store.running(RunRecord("filled", "", {}, {})) as run:
        net_id = store.add_net(NetIdentity("made up", "0" * 64, "wdl", 1, 0))
        judge_id = store.add_judge(JudgeIdentity("recorded", "recorded", "", {}, {"kind": CHUNKS}))
        for begin in range(0, len(batch), 1024):
            part = batch.take(np.arange(begin, min(begin + 1024, len(batch))))
            ids, n = store.add_positions(part, run), len(part)
            q = dice.uniform(-1, 1, n)
            wdl = per_mille(q, dice.uniform(0, 1, n) * (1 - np.abs(q)))
            net_q, d = q.astype(np.float32), (wdl[:, 1] / 1000).astype(np.float32)
            recorded = QColumns(CHUNKS, q, wdl, np.full(n, VISITS), [None] * n, net_q, d)
            with_values = replace(part, origin=Origins(part.origin.game, part.origin.played, recorded))
            store.add_net_values(ids, net_id, net_values(with_values))
            store.add_deep_columns(ids, judge_id, deep_columns(recorded), run)


def _copy(store: Path, to: Path) -> None:
    """A copy of a closed store in place of an earlier one."""
    for suffix in ("-wal", "-shm", ""):
        Path(f"{to}{suffix}").unlink(missing_ok=True)
    shutil.copyfile(store, to)


_Rows = dict[str, list[tuple[object, ...]]]


def _rows_after(path: Path, newest: int) -> tuple[_Rows, _Rows]:
    """What a run has added to a store whose positions went up to `newest`: what its rows refer to, and these."""
    with closing(sqlite3.connect(path)) as connection:
        first = {
            "games": "id >= (SELECT min(game_id) FROM positions WHERE id > ?)",
            **dict.fromkeys(("runs", "nets", "judges"), "id > 1 AND ?"),
            "positions": "id > ?",
            **dict.fromkeys(_TABLES[1:], "position_id > ?"),
        }
        added = {
            table: connection.execute(f"SELECT * FROM {table} WHERE {where}", (newest,)).fetchall()
            for table, where in first.items()
        }
    return {t: r for t, r in added.items() if t not in _TABLES}, {t: added[t] for t in _TABLES}


def _insert(path: Path, rows: _Rows) -> None:
    """Inserts rows in one transaction, into a file that is kept as a store is."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON", "cache_size = -65536"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN IMMEDIATE")
        for table, content in rows.items():
            places = ", ".join("?" * len(content[0])) if content else ""
            connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", content)
        connection.execute("COMMIT")


@contextmanager
def _mining(path: Path, options: SampleOptions, net: str | None) -> Iterator[Work]:
    """Whole runs on one archive, each into a new store; they give the positions looked at.

    The net is open before the clock starts; a run of hours opens it once.
    """
    with open_run([str(path)], "recorded", net) as opened:

        def run() -> float:
            name = path.parent / f"{len(os.listdir(path.parent))}.db"
            with Store.open(name, create=True) as store:
                summary = mine([str(path)], MineOptions(sample=options), store, *opened)
            return summary.report.looked_at

        yield run


def _write_tar(archive: str, path: Path) -> tuple[list[bytes], int]:
    """Chunks of the first games, many times over; gives the packed chunks and the number of records in the tar."""
    batch = sampled(archive, 120 * GAMES, WHOLE_GAMES)
    made = list(islice(_by_game(batch), GAMES))
    packed = [gzip.compress(chunk.tobytes(), 6) for chunk in made]
    _pack(path, packed * COPIES)
    return packed, sum(map(len, made)) * COPIES


def _by_game(batch: PositionBatch) -> Iterator[NDArray[np.void]]:
    """The records of each game in turn; the games of a batch lie together."""
    games = np.array([origin.number for origin in batch.origin.game])
    dice = np.random.default_rng(0)
    for part in np.split(np.arange(len(batch)), np.flatnonzero(np.diff(games)) + 1):
        yield _records(batch.take(part), dice)


def _pack(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes packed chunks into a tar archive."""
    with tarfile.open(path, "w") as tar:
        for i, chunk in enumerate(chunks):
            member = tarfile.TarInfo(f"training.{i}.gz")
            member.size = len(chunk)
            tar.addfile(member, io.BytesIO(chunk))


def _records(batch: PositionBatch, dice: np.random.Generator) -> NDArray[np.void]:
    """Records of consecutive positions of a game, with made-up visits and values."""
    records = np.zeros(len(batch), v6.RECORD)
    boards = parse_fens(batch.fen)
    moves, cuts = legal_moves(boards)
    indices = policy_indices(boards, moves, cuts)
    planes = encode(batch)
    records["version"], records["input_format"], records["visits"] = v6.VERSION, 1, VISITS
    bits = np.packbits(planes[:, : v6.HISTORY_PLANES].astype(np.bool_), axis=3)
    records["planes"] = bits.reshape(len(batch), -1).view("<u8")
    for k, name in enumerate(("castling_us_ooo", "castling_us_oo", "castling_them_ooo", "castling_them_oo")):
        records[name] = planes[:, v6.HISTORY_PLANES + k, 0, 0]
    records["side_to_move_or_enpassant"] = [" b " in fen for fen in batch.fen]
    records["rule50_count"] = [int(fen.split()[4]) for fen in batch.fen]
    records["probabilities"] = -1
    for i, origin in enumerate(batch.origin):
        legal_indices = indices[cuts[i] : cuts[i + 1]]
        shares = dice.multinomial(VISITS, dice.dirichlet(np.full(len(legal_indices), 0.3))) / VISITS
        records["probabilities"][i, legal_indices] = shares
        played = [decode_move(m) for m in moves[cuts[i] : cuts[i + 1]].tolist()].index(origin.played or "")
        records["played_idx"][i], records["best_idx"][i] = legal_indices[played], legal_indices[shares.argmax()]
    for name in ("orig_q", "best_q", "root_q", "played_q"):
        records[name] = dice.uniform(-1, 1, len(batch))
    for name in ("orig_d", "best_d", "root_d", "played_d"):
        records[name] = dice.uniform(0, 1, len(batch)) * (1 - np.abs(records[name[:-1] + "q"]))
    return records


def _write_dump(archive: str, path: Path) -> None:
    """Lines like those of the dump: one to four evaluations, one to five lines of moves in each."""
    batch = sampled(archive, LINES, WHOLE_GAMES)
    dice = np.random.default_rng(0)
    lines = []
    for position in (batch[i] for i in range(min(LINES, len(batch)))):
        evaluations = []
        for _ in range(dice.integers(1, 5)):
            line = " ".join([position.origin.played or "", *_SHUFFLE[: dice.integers(0, 10)]])
            pvs = [{"cp": int(dice.integers(-300, 300)), "line": line} for _ in range(dice.integers(1, 6))]
            depth, nodes = int(dice.integers(15, 50)), int(dice.integers(1000, 10**6))
            evaluations.append({"pvs": pvs, "knodes": nodes, "depth": depth})
        lines.append(msgspec.json.encode({"fen": position.fen.rsplit(" ", 2)[0], "evals": evaluations}))
    with path.open("wb") as file, zstandard.ZstdCompressor(level=3).stream_writer(file) as packer:
        for _ in range(REPEATS):
            packer.write(b"\n".join(lines) + b"\n")


_SHUFFLE = ("g8f6", "g1f3", "f6g8", "f3g1", "b8c6", "b1c3", "c6b8", "c3b1", "a7a6", "a2a3")
