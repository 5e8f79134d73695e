"""A source of positions that are held in memory, each a game of its own unless it is said otherwise."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cli_tree import SAMPLE
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import PositionBatch
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.judged import JudgedPositions
from valuerepair.training.samples import Samples, of_positions, wdl_of
from valuerepair.training.sources import Held, Pass, StoreSource

GAMES = Path(__file__).parents[1] / "data" / "games.pgn.zst"


def positions(count: int) -> Samples:
    """Real positions of some hundred games, with values and a judge's moves drawn at random."""
    options = SampleOptions(per_game=None, positions=count)
    batch = PositionBatch.concat(list(sample([str(GAMES)], options, ReadReport())))
    q = np.random.default_rng(4).uniform(-0.9, 0.9, len(batch))
    moves, cuts = legal_moves(parse_fens(batch.fen))
    best = moves[cuts[:-1] + np.random.default_rng(5).integers(0, np.diff(cuts))]
    return of_positions(batch, q, wdl_of(q, np.full(len(batch), 0.3)), 1, best)


def store_source(path: str | Path, question: Question, **options: Any) -> StoreSource:
    """A store's positions for a net of lc0's classical input format, by options of `StoreSource`."""
    with Store.open(path) as store:
        return StoreSource(JudgedPositions(store, question), 1, **options)


def copy_of_sample(folder: Path) -> Path:
    """A copy of the sample's store, which training gives a split."""
    return Path(shutil.copy(SAMPLE, folder / "sample.db"))


def store_beside_games(folder: Path) -> Path:
    """The sample's store as if a third of its positions had been drawn beside the games, in two ways."""
    db = copy_of_sample(folder)
    with sqlite3.connect(db) as sql:
        sql.execute(
            "UPDATE positions SET origin = CASE id % 6 WHEN 0 THEN 'random_move' ELSE 'search_node' END, played = NULL "
            "WHERE id % 3 = 0"
        )
    return db


def store_with_screening(folder: Path) -> Path:
    """The sample's store as if screening had left out every third position, by what now is the short search."""
    db = copy_of_sample(folder)
    with sqlite3.connect(db) as sql:
        columns = "judges (id, digest, label, kind, engine, sha256, limits, options)"
        sql.execute(
            f"INSERT INTO {columns} SELECT 99, 'short', 'short', kind, engine, '', limits, options FROM judges LIMIT 1"
        )
        sql.execute("UPDATE judges SET short_id = 99 WHERE id = 1")
        sql.execute("UPDATE deep_values SET judge_id = 99 WHERE judge_id = 1 AND position_id % 3 = 0")
    return db


def learn(samples: Samples, wdl: NDArray[np.float64]) -> Samples:
    """The same positions with other values to learn, and judged by these."""
    return replace(samples, wdl=wdl.astype(np.float32), deep_q=(wdl[:, 0] - wdl[:, 2]).astype(np.float32))


class InMemory:
    """Every position a unit; the keys are their numbers."""

    name, identity = "memory", "memory"

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self.games, self.held_games = len(samples), 0

    def units(self) -> Pass:
        rows = np.arange(len(self._samples))
        return Pass(rows, rows.astype(np.uint64), np.ones(len(rows), np.int64))

    def read(self, units: NDArray[np.int64]) -> Samples:
        return self._samples.take(np.sort(units))

    def held_out(self) -> Held:
        return Held(self._samples, np.full(len(self._samples), "game", object))


def as_held(samples: Samples) -> Held:
    return InMemory(samples).held_out()
