"""A store with something for every kind of plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.mining_doubles import KeyOracle, mine_by_key, random_games
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.plays import Play, add_plays
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store

THRESHOLD = 0.55
QUESTION = Question(alpha=200.0, threshold=THRESHOLD)


def plotted_store(folder: Path) -> Path:
    """A store that was screened, with games played from some of its positions."""
    archive = random_games(folder / "random.pgn", 100)
    mine_by_key(archive, folder / "screened.db", oracle=KeyOracle(nodes=200_000))
    play_games(folder / "screened.db")
    return folder / "screened.db"


def play_games(db: Path) -> None:
    """Three games of known results from every third position, and undecided ones from others."""
    rng = np.random.default_rng(0)
    played = RunRecord("played", "selfplay", {}, {})
    with Store.open(db, write=True) as store, store.running(played) as run:
        frame = view.frame(store)
        plays: list[Play] = []
        for i, (key, fen, q) in enumerate(zip(frame["key"], frame["fen"], frame["deep_q"], strict=True)):
            for _ in range(3 if i % 3 == 0 else i % 3 - 1):
                z = float(rng.choice([-1, 0, 1], p=[(1 - q) / 2 * 0.8, 0.2, (1 + q) / 2 * 0.8])) if i % 3 == 0 else None
                result = "*" if z is None else {1: "1-0", 0: "1/2-1/2", -1: "0-1"}[int(z)]
                plays.append(Play(len(plays), i, int(key), fen, "own", "own", result, z, 40, "checkmate"))
        add_plays(store, run, plays)


def frame_of(db: Path) -> pd.DataFrame:
    """Its positions at alpha 200; they have unequal weights."""
    with Store.open(db) as store:
        found = view.frame(store, QUESTION)
    assert set(found["weight"]) != {1.0}
    assert (found["weight"] > 1).sum() > 10
    return found


def hajek(hits: pd.Series[bool], weight: pd.Series[float]) -> float:
    """The weighted share of what hits."""
    return float((hits * weight).sum() / weight.sum())
