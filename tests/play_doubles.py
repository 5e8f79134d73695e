"""Players for tests: they answer at once or after a while, by what a seed and the position say."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import chess

from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.play.game import GameRecord, Thought
from valuerepair.play.openings import Opening

Answer = Callable[[Position, int], Thought]

INITIAL = Opening(0, STARTPOS_FEN, (), STARTPOS_FEN, 0)


def white_played(game: GameRecord, i: int) -> bool:
    """Whether `thoughts[i]` is White's move."""
    return (game.start_fen.split()[1] == "w") == ((len(game.book) + i) % 2 == 0)


def random_move(position: Position, seed: int) -> Thought:
    """A legal move by the game's seed and the ply."""
    moves = sorted(move.uci() for move in chess.Board(position.fen).legal_moves)
    chance = random.Random(f"{seed} {len(position.moves)}")
    return Thought(chance.choice(moves), q=chance.uniform(-1, 1), nodes=1)


class ScriptedPlayer:
    """Answers with `answer` (which may raise a Fault), each after `delay` seconds in one of `threads` threads."""

    def __init__(self, name: str, answer: Answer = random_move, delay: float = 0.0, threads: int = 4) -> None:
        self._name, self._answer, self._delay = name, answer, delay
        self._pool = ThreadPoolExecutor(threads)
        self.thinking: set[int] = set()
        self.most = 0
        self.forgotten: list[int] = []
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    def think(self, game: int, position: Position, seed: int) -> Future[Thought]:
        with self._lock:
            assert game not in self.thinking
            self.thinking.add(game)
            self.most = max(self.most, len(self.thinking))

        def work() -> Thought:
            if self._delay:
                time.sleep(self._delay * random.random())
            try:
                return self._answer(position, seed)
            finally:
                with self._lock:
                    self.thinking.discard(game)

        return self._pool.submit(work)

    def forget(self, game: int) -> None:
        self.forgotten.append(game)

    def close(self, *, cancel: bool = False) -> None:
        self._pool.shutdown(wait=True, cancel_futures=cancel)
