"""Stand-ins for mining: a net and an oracle whose answers follow from the board key, and archives of random games.

``python -m tests.mining_doubles ARCHIVE STORE DELAY`` mines with them, for tests that kill it.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.mining.mine import MineOptions, mine
from valuerepair.mining.summary import MineSummary
from valuerepair.nets.net import Evaluator, NetIdentity, NetValues
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome, Judge
from valuerepair.progress import Progress, remarks_to
from valuerepair.store.rows import DeepResult, JudgeIdentity
from valuerepair.store.store import Store

FAILS_EVERY = 19


class KeyNet:
    """A net whose Q is a hash of the key in [-1, 1]."""

    identity = NetIdentity("key-net", "ab" * 32, "wdl", 1, 1000)
    provider = "CPUExecutionProvider"

    def __init__(self) -> None:
        self.rows = 0

    def evaluate(self, batch: PositionBatch) -> NetValues:
        self.rows += len(batch)
        q = key_q(batch.key)
        rest = (1 - np.abs(q)) / 2
        wdl = np.stack([np.maximum(q, 0) + rest, np.zeros_like(q), np.maximum(-q, 0) + rest], 1)
        moves, priors = np.zeros((len(batch), 8), np.uint16), np.full((len(batch), 8), np.nan, np.float32)
        moves[:, 0], priors[:, 0] = batch.key % np.uint64(4095) + np.uint64(1), 0.5
        return NetValues(q, wdl, moves, priors, np.full(len(batch), np.nan, np.float32))


def key_q(keys: NDArray[np.uint64]) -> NDArray[np.float32]:
    return np.asarray((keys >> np.uint64(20)) % np.uint64(2001) / 1000.0 - 1.0, np.float32)


class KeyOracle(Judge):
    """A judge whose score follows from the key; every nineteenth key fails, every eleventh is a mate."""

    workers = 2

    def __init__(
        self,
        workers: int = 2,
        delay: float = 0.0,
        answer: Callable[[Position], DeepOutcome] | None = None,
        nodes: int = 100,
    ) -> None:
        usual = {"Hash": "16"}
        self.identity = JudgeIdentity("uci", "Key 1.0", "cd" * 32, {"nodes": nodes}, usual, plain=usual)
        self.workers = workers
        self.searched: list[Position] = []
        self.searched_short: list[Position] = []
        self._delay, self._answer = delay, answer or key_outcome
        self._pool = ThreadPoolExecutor(workers)

    def submit(self, position: Position, nodes: int | None = None) -> Future[DeepOutcome]:
        return self._pool.submit(self._search, position, nodes)

    def _search(self, position: Position, nodes: int | None) -> DeepOutcome:
        time.sleep(self._delay)
        (self.searched if nodes is None else self.searched_short).append(position)
        return self._answer(position)

    def close(self, *, cancel: bool = False) -> None:
        self._pool.shutdown(wait=not cancel, cancel_futures=True)


def key_outcome(position: Position) -> DeepOutcome:
    if position.key % FAILS_EVERY == 0:
        return DeepFailure("crashed", 3)
    moves = tuple(m.uci() for m in list(chess.Board(position.fen).legal_moves)[:2])
    if position.key % 11 == 0:
        return DeepResult(mate=3 if position.key & 1 else -2, depth=9, seldepth=9, nodes=50, time_ms=1, pv=moves[:1])
    cp = position.key % 1201 - 600
    return DeepResult(
        cp=cp, wdl=(300, 400, 300), depth=12, seldepth=20, nodes=100, time_ms=2, best_move=moves[0], pv=moves[:1]
    )


@cache
def _random_texts(seed: int, plies: int) -> tuple[list[str], Iterator[str]]:
    """The games made so far with this seed, and those still to be made."""
    return [], _random_text(random.Random(seed), plies)


def _random_text(dice: random.Random, plies: int) -> Iterator[str]:
    for number in itertools.count():
        board = chess.Board()
        while not board.is_game_over() and board.ply() < plies:
            board.push(dice.choice(list(board.legal_moves)))
        game = chess.pgn.Game.from_board(board)
        game.headers.update({"White": f"W{number}", "Black": f"B{number}", "Event": "Random", "Date": "2024.01.02"})
        yield f"{game}\n\n"


def random_games(path: Path, games: int, seed: int = 0, plies: int = 60) -> Path:
    """Writes a PGN archive of games of random moves."""
    made, more = _random_texts(seed, plies)
    made += itertools.islice(more, max(games - len(made), 0))
    path.write_text("".join(made[:games]))
    return path


def mine_by_key(
    archive: Path,
    store: Path,
    *,
    delay: float = 0.0,
    net: Evaluator | None = None,
    oracle: Judge | None = None,
    options: MineOptions | None = None,
) -> MineSummary:
    """Mines with the stand-ins."""
    options = options or MineOptions(sample=SampleOptions(per_game=4))
    with Store.open(store, create=True) as opened, oracle or KeyOracle(delay=delay) as deep:
        progress = Progress("mining", quiet=True)
        return mine([str(archive)], options, opened, net or KeyNet(), deep, progress=progress)


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All a store says, without what depends on the clock."""
    clock = {"started", "finished", "time_ms", "fitted", "command", "options"}
    with Store.open(path) as store:
        tables = {}
        for (table,) in store.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [row[1] for row in store.connection.execute(f"PRAGMA table_info({table})") if row[1] not in clock]
            rows = store.connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
            tables[table] = sorted(rows, key=repr)
        return tables


def rows(db: Path, table: str = "deep_values") -> int:
    if not db.exists():
        return 0
    try:
        with Store.open(db) as store:
            return int(store.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except ValueRepairError:
        return 0  # Killed before the tables were there.


def wait_for(process: subprocess.Popen[Any], db: Path, count: int, table: str = "deep_values") -> None:
    """Until the store has so many rows, or the process is done."""
    while process.poll() is None and rows(db, table) < count:
        time.sleep(0.05)


if __name__ == "__main__":
    print("started", flush=True)
    with remarks_to(print):
        result = mine_by_key(Path(sys.argv[1]), Path(sys.argv[2]), delay=float(sys.argv[3]))
    print("\n".join(result.lines()))
    sys.exit(130 if result.state == "interrupted" else 0)
