"""A store with something for every kind of plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.climbing_doubles import THRESHOLD, ClimbingOracle, climb_by_key, ladder_options, options_for
from tests.mining_doubles import random_games
from valuerepair.question import Question
from valuerepair.store.plays import Play, add_plays
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store

QUESTION = Question(alpha=200.0, threshold=THRESHOLD)


def plotted_store(folder: Path) -> Path:
    """A store that was screened, with games played from some of its positions."""
    archive = random_games(folder / "random.pgn", 100)
    climb_by_key(archive, folder / "screened.db", options_for(ladder_options(audit=0.15)), ClimbingOracle())
    play_games(folder / "screened.db")
    return folder / "screened.db"


def play_games(db: Path) -> None:
    """Three games of known results from every third position, and undecided ones from others."""
    rng = np.random.default_rng(0)
    with Store.open(db, write=True) as store:
        frame = store.frame()
        run = store.begin_run(RunRecord("played", "selfplay", {}, 0, {}))
        plays: list[Play] = []
        for i, (key, fen, q) in enumerate(zip(frame["key"], frame["fen"], frame["deep_q"], strict=True)):
            for _ in range(3 if i % 3 == 0 else i % 3 - 1):
                z = float(rng.choice([-1, 0, 1], p=[(1 - q) / 2 * 0.8, 0.2, (1 + q) / 2 * 0.8])) if i % 3 == 0 else None
                result = "*" if z is None else {1: "1-0", 0: "1/2-1/2", -1: "0-1"}[int(z)]
                plays.append(Play(len(plays), i, int(key), fen, "own", "own", result, z, 40, "checkmate"))
        add_plays(store, run, plays)
        store.commit()


def frame_of(db: Path) -> pd.DataFrame:
    """Its positions at alpha 200; they have unequal weights."""
    with Store.open(db) as store:
        found = store.frame(QUESTION)
    assert set(found["weight"]) != {1.0}
    assert (found["weight"] > 1).sum() > 10
    return found


def hajek(hits: pd.Series[bool], weight: pd.Series[float]) -> float:
    """The weighted share of what hits."""
    return float((hits * weight).sum() / weight.sum())
