"""Self-play by the real `lc0 selfplay`: one process plays a game from each line of a book, we collect what it says.

lc0 reports a game when it is over, in a line that begins with ``gameready``; what it thought of its moves is in the
training records that it writes beside (lc0 src/selfplay/loop.cc, tournament.cc). Games that reach ply 450 are dropped
by lc0 without a word.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from valuerepair.books.check import check_book
from valuerepair.books.emit import LineWriter, pgn_entry
from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
from valuerepair.engines.process import EngineExited, EngineFailure, EngineTimeout, LineProcess
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.lc0_games import ReadyGame, game_record, parse_ready
from valuerepair.play.lc0_options import Lc0Settings, arguments
from valuerepair.play.openings import Opening
from valuerepair.play.record import TOO_LONG, GameRecord

_LISTEN_S = 0.5  # so often it is asked whether to stop
_READY, _FINAL = "gameready ", "tournamentstatus final"


def play_with_lc0(
    openings: Sequence[Opening],
    settings: Lc0Settings,
    *,
    numbers: Sequence[int] | None = None,
    chunks: str | Path | None = None,
    resume: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[GameRecord]:
    """Has lc0 play one game from each opening, in order, and yields them as they end.

    `numbers` [n] are those of the games in their run (from 0 on where not given): to go on with a run that was
    stopped, give the openings that are left and theirs. With `chunks` the training records of game 7 go to
    game_000007.gz in that folder, which must be empty unless `resume` is set. The thoughts of a record have the value
    of the move that lc0's search chose and the visits of its root. A game that lc0 dropped, for being too long,
    comes last, undecided and without moves.

    lc0 is gone when the iterator ends, is closed, or raises; `stop` is asked twice a second and ends it early. Raises
    UsageError for settings that make no sense, ValueRepairError for a missing lc0, an opening that lc0 would misread,
    and when lc0 dies: the games yielded before are whole.
    """
    command = arguments(settings, len(openings))
    games = list(range(len(openings))) if numbers is None else list(numbers)
    if len(games) != len(openings):
        raise ValueError(f"{len(games)} numbers for {len(openings)} openings")
    folder = _chunk_folder(chunks, resume)
    if not openings:
        return iter(())
    return _play(openings, games, settings, command, folder, stop)


def _play(
    openings: Sequence[Opening],
    numbers: Sequence[int],
    settings: Lc0Settings,
    command: list[str],
    folder: Path | None,
    stop: Callable[[], bool],
) -> Iterator[GameRecord]:
    waiting = dict(enumerate(zip(numbers, openings, strict=True)))
    with _workplace(folder) as place:
        book = place / "book.pgn"
        write_book(book, openings)
        (place / "lc0").mkdir()
        process = LineProcess([_env(), f"XDG_CACHE_HOME={place}", *command, f"--openings-pgn={book}"])
        try:
            for ready in _ready_games(process, stop, len(openings)):
                number, opening = waiting.pop(ready.game)
                record = game_record(number, opening, ready, settings)
                if ready.chunk is not None and folder is not None:
                    os.replace(ready.chunk, chunk_path(folder, number))
                yield record
        finally:
            process.close(grace=0)
    if not stop():
        for number, opening in waiting.values():
            detail = f"lc0 drops games that reach ply {GAME_PLY_LIMIT}"
            start, book_moves = opening.start_fen, opening.moves
            who = settings.name
            yield GameRecord(number, opening.number, start, book_moves, (), who, who, "*", TOO_LONG, detail)


def _ready_games(process: LineProcess, stop: Callable[[], bool], games: int) -> Iterator[ReadyGame]:
    """The games as lc0 reports them, until it has played all or is to stop."""
    done = 0
    while not stop():
        try:
            line = process.read_line(time.monotonic() + _LISTEN_S)
        except EngineTimeout:
            continue
        except EngineFailure as failure:
            how = "lc0" if isinstance(failure, EngineExited) else "lc0's output"
            raise ValueRepairError(
                f"{how} {failure} after {done:,} of {games:,} games; they are kept, and the same command goes on"
            ) from None
        if line.startswith(_READY):
            done += 1
            yield parse_ready(line)
        elif line.startswith(_FINAL):
            return


def chunk_path(folder: str | Path, number: int) -> Path:
    """Where the training records of a game of a run lie: named as lc0 does, whichever process played it."""
    return Path(folder) / f"game_{number:06d}.gz"


class Lc0Chunks:
    """The training records that lc0 left in a folder, by the numbers of their games."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = folder

    def path(self, number: int) -> Path:
        """The file of a game of the run."""
        return chunk_path(self._folder, number)

    def write(self, game: GameRecord) -> Path | None:
        """The file of a game that lc0 has played; None where it wrote none."""
        path = self.path(game.number)
        return path if path.exists() else None


def write_book(path: Path, openings: Sequence[Opening]) -> None:
    """Writes a book with one entry an opening, such that lc0 reads it right; checked by its reader's rules.

    Raises ValueRepairError for an opening that leads nowhere lc0 could play from.
    """
    writer, tags = LineWriter(), {"Event": "?", "Result": "*"}
    lines = [writer.line(each.start_fen, list(each.moves), each.fen) for each in openings]
    path.write_text("".join(pgn_entry(line, tags) for line in lines), "utf-8")
    problems = check_book(path)
    if problems:
        text = path.read_text("utf-8").split("\n")[: problems[0].line]
        at = max(sum(line.startswith("[Event ") for line in text) - 1, 0)
        raise ValueRepairError(f"opening {openings[at].number + 1} of the book: {problems[0].reason}")


def _chunk_folder(chunks: str | Path | None, resume: bool) -> Path | None:
    if chunks is None:
        return None
    folder = Path(chunks).absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{chunks}: is a file; training records need a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        left = [path for path in folder.iterdir() if not path.name.startswith(".lc0-")]
    except OSError as error:
        raise ValueRepairError(f"{chunks}: {error.strerror}: training records cannot be written there") from None
    if left and not resume:
        raise UsageError(f"{chunks}: the folder is not empty; training records need one of their own")
    return folder


@contextlib.contextmanager
def _workplace(folder: Path | None) -> Iterator[Path]:
    """Where lc0 writes: on the disk of the chunks, so that they need only be renamed; gone afterwards."""
    if folder is not None:
        for killed in folder.glob(".lc0-*"):  # one run at a time writes to a folder
            shutil.rmtree(killed, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=".lc0-", dir=folder))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _env() -> str:
    """The program that starts another with a changed environment, and becomes it."""
    return shutil.which("env") or "/usr/bin/env"
