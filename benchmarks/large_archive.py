"""A large archive, made of real games, and `vr mine` on it: speed over the run, memory, and what a kill costs.

The games are as lichess publishes them: seventeen tags, a clock after every move, in 6 games of 100 an evaluation too,
some 2.3 kB each. Openings are those of a real archive, cut at a random ply as a sample of it draws them; behind the cut
random legal moves follow. So openings repeat and what comes after does not, as in a month of a public database, where
a text repeated as it is would be "seen before".
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numba
import numpy as np
import psutil
import zstandard
from numpy.typing import NDArray

from benchmarks.comparison import sampled
from valuerepair.archives.options import SampleOptions
from valuerepair.arrays import Bytes
from valuerepair.chess.board import parse_fens
from valuerepair.chess.make import black_to_move, kind_at, make
from valuerepair.chess.movegen import MAX_MOVES, legal
from valuerepair.chess.positions import STARTPOS_FEN, PositionBatch
from valuerepair.chess.rows import FLIP, THEM, Boards

OPENINGS = 50_000
FRAME_GAMES = 20_000  # a zstd frame each, some 45 MB
GAME_BYTES = 16_000  # no game is longer
EVALUATED = 0.06  # of the games; database.lichess.org: "about 6%"
TAIL = 5, 45  # plies of random moves behind the opening


def write_archive(openings: str, path: Path, size: int, seed: int = 0) -> int:
    """Writes an archive of `size` bytes, unpacked, and returns the number of its games."""
    cut = sampled(openings, OPENINGS, SampleOptions(seed=seed))
    games = written = 0
    with path.open("wb") as file:
        while written < size:
            dice = np.random.default_rng([seed, games])
            text = _games(cut, dice.integers(0, len(cut), FRAME_GAMES), dice, games)
            file.write(zstandard.ZstdCompressor(level=3).compress(text))
            games += FRAME_GAMES
            written += len(text)
    return games


def _games(cut: PositionBatch, rows: NDArray[np.int64], dice: np.random.Generator, first: int) -> bytes:
    """The text of games that begin as these rows."""
    results = [("1-0", "0-1", "1/2-1/2")[i] for i in dice.integers(0, 3, len(rows)).tolist()]
    elos = dice.integers(900, 2600, (len(rows), 2)).tolist()
    heads = [_tags(first + i, results[i], elos[i]) for i in range(len(rows))]
    ends = [f"{result}\n\n\n".encode() for result in results]
    out = np.empty(len(rows) * GAME_BYTES, np.uint8)
    size = _write_games(
        cut.moves,
        cut.offsets[rows],
        cut.offsets[rows + 1],
        dice.integers(*TAIL, len(rows)),
        dice.random(len(rows)) < EVALUATED,
        *_joined(heads),
        *_joined(ends),
        parse_fens([STARTPOS_FEN]),
        int(dice.integers(1 << 31)),
        out,
    )
    return out[:size].tobytes()


def _tags(number: int, result: str, elos: Sequence[int]) -> bytes:
    white, black = (f"player{number * 7919 + side * 104729 & 0xFFFFF:x}" for side in (0, 1))
    day, second = number // 86_400 % 28 + 1, number % 86_400
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return (
        f'[Event "Rated Blitz game"]\n[Site "https://example.org/{number:08x}"]\n[Date "2026.08.{day:02}"]\n'
        f'[Round "-"]\n[White "{white}"]\n[Black "{black}"]\n[Result "{result}"]\n[UTCDate "2026.08.{day:02}"]\n'
        f'[UTCTime "{clock}"]\n[WhiteElo "{elos[0]}"]\n[BlackElo "{elos[1]}"]\n[WhiteRatingDiff "+6"]\n'
        f'[BlackRatingDiff "-6"]\n[ECO "B50"]\n[Opening "Sicilian Defense: Modern Variations"]\n'
        f'[TimeControl "180+2"]\n[Termination "Normal"]\n\n'
    ).encode()


def _joined(texts: list[bytes]) -> tuple[Bytes, NDArray[np.int64]]:
    cuts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), cuts


def _text(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


_PIECES, _CASTLING, _DOTS = _text("PNBRQK"), _text("O-O-O"), _text("... ")
_OPEN, _EVAL, _CLOCK, _CLOSE = _text("{ "), _text("[%eval "), _text("[%clk 0:"), _text("] } ")


@numba.njit(nogil=True)
def _put(out: Bytes, at: int, text: Bytes, begin: int, end: int) -> int:
    out[at : at + end - begin] = text[begin:end]
    return at + end - begin


@numba.njit(nogil=True)
def _put_number(out: Bytes, at: int, number: int, digits: int) -> int:
    """A number of at least so many digits."""
    size = max(digits, 1 if number < 10 else 2 if number < 100 else 3)
    for i in range(size):
        out[at + size - 1 - i] = 48 + number % 10
        number //= 10
    return at + size


@numba.njit(nogil=True)
def _put_move(out: Bytes, at: int, row: Boards, move: int, rivals: NDArray[np.uint16]) -> int:
    """SAN without its check marks of the mover-relative `move`, one of the legal moves `rivals`."""
    origin, goal, turn = move & 63, move >> 6 & 63, 56 * black_to_move(row, 0)
    kind = kind_at(row, 0, np.uint64(1) << np.uint64(origin))
    captures = row[0, THEM] >> np.uint64(goal) & np.uint64(1) or (kind == 0 and (goal - origin) & 7)
    if kind == 5 and abs(goal - origin) == 2:
        return _put(out, at, _CASTLING, 0, 3 if goal > origin else 5)
    file, rank = kind == 0 and captures, False
    if kind:
        out[at] = _PIECES[kind]
        at += 1
        for i in range(len(rivals)):
            other = np.int64(rivals[i]) & 63
            same = np.int64(rivals[i]) >> 6 & 63 == goal and other != origin
            if same and kind_at(row, 0, np.uint64(1) << np.uint64(other)) == kind:
                file, rank = True, True
    if file:
        out[at] = 97 + (origin & 7)
        at += 1
    if rank:
        out[at] = 49 + ((origin ^ turn) >> 3)
        at += 1
    if captures:
        out[at] = 120
        at += 1
    out[at], out[at + 1] = 97 + (goal & 7), 49 + ((goal ^ turn) >> 3)
    at += 2
    if move >> 12:
        out[at], out[at + 1] = 61, _PIECES[move >> 12]
        at += 2
    return at


@numba.njit(nogil=True)
def _put_comment(out: Bytes, at: int, ply: int, cp: int, evaluated: bool) -> int:
    at = _put(out, at, _OPEN, 0, 2)
    if evaluated:
        at = _put(out, at, _EVAL, 0, 7)
        if cp < 0:
            out[at] = 45
            at += 1
        at = _put_number(out, at, abs(cp) // 100, 1)
        out[at] = 46
        at = _put_number(out, at + 1, abs(cp) % 100, 2)
        out[at], out[at + 1] = 93, 32
        at += 2
    at = _put(out, at, _CLOCK, 0, 8)
    left = max(180 - ply, 0)
    at = _put_number(out, at, left // 60, 2)
    out[at] = 58
    at = _put_number(out, at + 1, left % 60, 2)
    return _put(out, at, _CLOSE, 0, 4)


@numba.njit(nogil=True)
def _write_games(
    moves: NDArray[np.uint16],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    tails: NDArray[np.int64],
    evaluated: NDArray[np.bool_],
    heads: Bytes,
    head_cuts: NDArray[np.int64],
    ends: Bytes,
    end_cuts: NDArray[np.int64],
    start: NDArray[np.uint64],
    seed: int,
    out: Bytes,
) -> int:
    """Writes games of moves[begin[i]:end[i]] and `tails` random moves after them; returns the length of the text."""
    np.random.seed(seed)  # noqa: NPY002  # seeds the generator of compiled code, which is not NumPy's
    buffer = np.empty(MAX_MOVES, np.uint16)
    at = 0
    for g in range(len(begin)):
        at = _put(out, at, heads, head_cuts[g], head_cuts[g + 1])
        row, known, cp = start.copy(), end[g] - begin[g], 20
        for ply in range(known + tails[g]):
            count = legal(row, 0, buffer, 0)
            if count == 0:
                break
            move = np.int64(buffer[np.random.randint(0, count)])  # noqa: NPY002  # compiled: the generator seeded above
            if ply < known:
                move = np.int64(moves[begin[g] + ply]) ^ FLIP * black_to_move(row, 0)
            if ply % 2 == 0:
                at = _put_number(out, at, ply // 2 + 1, 1)
                out[at], out[at + 1] = 46, 32
                at += 2
            else:
                at = _put_number(out, at, ply // 2 + 1, 1)
                at = _put(out, at, _DOTS, 0, 4)
            at = _put_move(out, at, row, move, buffer[:count])
            make(row, 0, 0, move)
            out[at] = 32
            cp = min(max(cp + np.random.randint(-60, 61), -999), 999)  # noqa: NPY002  # compiled: the generator seeded above
            at = _put_comment(out, at + 1, ply, cp, evaluated[g])
        at = _put(out, at, ends, end_cuts[g], end_cuts[g + 1])
    return at


@dataclass(frozen=True, slots=True)
class Moment:
    """A run at one second: `read` bytes of the archive, processor `seconds`, resident bytes of the run and its engines,
    `written` bytes to the disk."""

    at: float
    read: int
    seconds: float
    resident: int
    engines: int
    written: int


def watch(command: Sequence[str], archive: Path, kill_at: int | None = None) -> list[Moment]:
    """Runs a command to its end, or kills its process group when so many bytes of the archive are read."""
    found: list[Moment] = []
    started = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True)
    while process.poll() is None:
        time.sleep(1)
        try:
            run = psutil.Process(process.pid)
            read = max([file.position for file in run.open_files() if file.path == str(archive)], default=0)
            times, engines = run.cpu_times(), sum(child.memory_info().rss for child in run.children(recursive=True))
            spent = times.user + times.system
            written = run.io_counters().write_bytes
            found.append(Moment(time.monotonic() - started, read, spent, run.memory_info().rss, engines, written))
        except psutil.Error:
            continue
        if kill_at is not None and read >= kill_at:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(process.returncode)
    return found


def tell(name: str, moments: Sequence[Moment], size: int, games: int) -> None:
    """Prints rates of the first and the last tenth of what was read, where that took a while, and the most memory."""
    reading = [moment for moment in moments if moment.read]
    per_byte, begin, reached = games / size, reading[0].read, reading[-1].read
    for part, low, high in (("first tenth", 0.0, 0.1), ("all", 0.0, 1.0), ("last tenth", 0.9, 1.0)):
        inside = [m for m in reading if low <= (m.read - begin) / max(reached - begin, 1) <= high]
        a, b = inside[0], inside[-1]
        if b.seconds == a.seconds:
            continue
        count = (b.read - a.read) * per_byte
        click.echo(
            f"{name}, {part}: {count:,.0f} games, {count / (b.at - a.at):,.0f}/s by the clock, "
            f"{count / (b.seconds - a.seconds):,.0f} a second of processor time, {b.resident >> 20:,} MiB resident"
        )
    most, last = max(m.resident for m in moments), moments[-1]
    click.echo(
        f"{name}: {last.at:,.0f} s, {last.seconds:,.0f} s of processor time, at most {most >> 20:,} MiB and "
        f"{max(m.engines for m in moments) >> 20:,} of its engines, {last.written / 1e6:,.0f} MB written"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--archive", default="data/games.pgn.zst", show_default=True, help="Real games: where openings are from.")
@click.option("--gigabytes", default=10.0, show_default=True, help="Size of the large archive, unpacked.")
@click.option("--positions", default=100_000, show_default=True)
@click.option("--deep", default="stockfish:nodes=50", show_default=True, help="As of vr mine.")
@click.option("--limit", type=int, default=None, help="As of vr mine.")
def command(folder: Path, archive: str, gigabytes: float, positions: int, deep: str, limit: int | None) -> None:
    """Make a large archive in FOLDER, mine it, kill the run in the middle of the reading, and let it go on.

    \b
    Example:
      python -m benchmarks.large_archive /scratch/large --archive otb-masters.pgn.zst
      python -m benchmarks.large_archive /scratch/large --deep recorded
    """
    path = folder.absolute() / "large.pgn.zst"
    folder.mkdir(parents=True, exist_ok=True)
    count = path.with_suffix(".games")
    if not count.exists():
        count.write_text(str(write_archive(archive, path, int(gigabytes * 1e9))))
    store = folder / f"{deep.partition(':')[0]}.db"
    run = [sys.executable, "-m", "valuerepair", "mine", str(path), "--positions", str(positions), "--deep", deep]
    run += ["--db", str(store), *(() if limit is None else ("--limit", str(limit)))]
    size, games = path.stat().st_size, int(count.read_text())
    tell("until killed", watch(run, path, kill_at=size // 2), size, games)
    resumed = watch(run, path)
    again = next((m.at for m in resumed if m.read >= size // 2), 0.0)
    tell("gone on", resumed, size, games)
    click.echo(f"where it was killed it was again after {again:,.0f} s; {store.stat().st_size / 1e6:,.0f} MB of store")


if __name__ == "__main__":
    command(prog_name="python -m benchmarks.large_archive")
