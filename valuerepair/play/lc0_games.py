"""lc0's `gameready` lines, and the training records that go with them, as games."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import v6
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.errors import ValueRepairError
from valuerepair.play.game import Game
from valuerepair.play.lc0_options import Lc0Settings
from valuerepair.play.openings import Opening
from valuerepair.play.record import DRAW_AGREED, RESIGNED, TABLEBASE, GameRecord, Thought

_RESULTS = {"whitewon": "1-0", "blackwon": "0-1", "draw": "1/2-1/2"}


@dataclass(frozen=True, slots=True)
class ReadyGame:
    """A ``gameready`` line: the game's number in lc0's run, book plies, all moves as lc0 writes them, the result.

    `start_fen` is where lc0's moves begin, `chunk` the file of the records, None where nothing was played.
    """

    game: int
    book_plies: int
    moves: tuple[str, ...]
    result: str
    start_fen: str
    chunk: Path | None


def parse_ready(line: str) -> ReadyGame:
    """Reads ``gameready [trainingfile PATH] gameid N play_start_ply K ... result R moves ... [from_fen FEN]``.

    Raises ValueRepairError for a line that is cut or otherwise.
    """
    head, _, fen = line.partition(" from_fen ")
    head, _, moves = head.partition(" moves ")
    before, _, facts = head.rpartition(" gameid ")
    _, _, path = before.partition(" trainingfile ")  # which may hold blanks
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
    """The game as one that began with the opening. Raises ValueRepairError where lc0 played something else."""
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
    who = settings.name
    return GameRecord(
        number, opening.number, opening.start_fen, opening.moves, thoughts, who, who, ready.result, ending
    )


def _book_end(opening: Opening, ready: ReadyGame) -> chess.Board:
    """The board where the book ends, as lc0 understood the book."""
    board = chess.Board(ready.start_fen)
    try:
        for move in ready.moves[: ready.book_plies]:
            board.push_uci(move)
    except ValueError:
        board.clear()
    wanted = chess.Board(opening.fen)
    if board.epd() != wanted.epd():
        raise ValueRepairError(
            f"lc0 began game {ready.game} at {board.fen()}, not at the book's {wanted.fen()}: it misread the book"
        )
    return board


def _ending(game: Game, result: str, settings: Lc0Settings) -> str:
    """lc0 does not say how a game ended: by the rules if they end it, else by what was switched on."""
    over = game.ending()
    if over is not None and over[0] == result:
        return over[1]
    if settings.syzygy and game.fresh:
        return TABLEBASE
    return DRAW_AGREED if result == "1/2-1/2" else RESIGNED


def _thoughts(moves: Sequence[str], chunk: Path | None) -> tuple[Thought, ...]:
    """The moves with the value of the search's choice and the root's visits; without them where records are missing."""
    records = _records(chunk) if chunk is not None else None
    if records is None or len(records) != len(moves):
        return tuple(Thought(move) for move in moves)
    values = zip(*(records[name].tolist() for name in ("best_q", "best_d", "visits")), strict=True)
    return tuple(
        Thought(move, q=min(max(q, -1.0), 1.0), wdl=_wdl(q, d), nodes=visits)
        for move, (q, d, visits) in zip(moves, values, strict=True)
    )


def _wdl(q: float, d: float) -> tuple[int, int, int]:
    """Per mille that add up to 1000, of q = w - l and d."""
    win, loss = (round(1000 * min(max((1 - d + side * q) / 2, 0.0), 1.0)) for side in (1, -1))
    return win, 1000 - win - loss, loss


def _records(chunk: Path) -> NDArray[np.void] | None:
    try:
        data = gzip.decompress(chunk.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise ValueRepairError(f"{chunk}: lc0's training records cannot be read: {error}") from None
    if len(data) % v6.RECORD.itemsize:
        return None
    return np.frombuffer(data, v6.RECORD)
