"""Stand-ins for the screening ladder: a net and an oracle that climbs, whose values follow from the key."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.asked import with_question
from tests.mining_doubles import KeyNet, mine_by_key
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.nets.net import NetValues
from valuerepair.oracles.oracle import Climb, ClimbOutcome, DeepFailure, DeepOutcome, GoOn, Oracle
from valuerepair.progress import remarks_to
from valuerepair.runs.options import MineOptions
from valuerepair.runs.summary import MineSummary
from valuerepair.screening.fit import LadderRows
from valuerepair.screening.model import FEATURES, RungModel, Screen, ScreenOptions
from valuerepair.store.rows import DeepResult, OracleIdentity

ALPHA = 200.0
NODES, RUNGS = 1000, (10, 100)
THRESHOLD = 0.5
FAILS_EVERY = 37


def uniform(key: int, what: str) -> float:
    """A number in (0, 1) for a key and a purpose."""
    digest = hashlib.blake2b(f"{what} {key}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


def net_q(key: int) -> float:
    """The net's value, in [-0.7, 0.7]."""
    return float(np.float32(1.4 * uniform(key, "net") - 0.7))


def true_q(key: int) -> float:
    """The whole search's value: mostly near the net's, now and then far."""
    u = uniform(key, "truth")
    off = 0.25 * (2 * uniform(key, "small") - 1) if u > 0.12 else math.copysign(0.5 + 0.3 * u / 0.12, u - 0.06)
    return max(-0.98, min(0.98, net_q(key) + off))


def rung_q(key: int, nodes: int) -> float:
    """The value after so many nodes, the nearer to the whole search's the more there are."""
    noise = (2 * uniform(key, f"noise {nodes}") - 1) * 0.5 / math.log10(nodes) if nodes < NODES else 0.0
    return max(-0.99, min(0.99, true_q(key) + noise))


def rung_result(position: Position, nodes: int) -> DeepResult:
    cp = round(2 * ALPHA * math.atanh(rung_q(position.key, nodes)))
    move = next(iter(chess.Board(position.fen).legal_moves)).uci()
    return DeepResult(cp=cp, depth=len(str(nodes)), seldepth=9, nodes=nodes, time_ms=1, best_move=move, pv=(move,))


class ShiftedNet(KeyNet):
    """A net with `net_q` of the key, and a draw probability."""

    def evaluate(self, batch: PositionBatch) -> NetValues:
        self.rows += len(batch)
        q = np.array([net_q(key) for key in batch.key.tolist()], np.float32)
        d = (1 - np.abs(q)) / np.float32(2)
        wdl = np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], 1, dtype=np.float32)
        moves = (batch.key % np.uint64(4096)).astype(np.uint16)
        nothing = np.full(len(batch), np.nan, np.float32)
        return NetValues(q, wdl, moves, np.full_like(q, 0.5), np.ones_like(q), nothing)


class ClimbingOracle(Oracle):
    """An oracle that searches in steps; every thirty-seventh key fails where `fails`. `tops` are the nodes of each."""

    workers = 2
    whole, fails_every = NODES, FAILS_EVERY

    def __init__(self, workers: int = 2, delay: float = 0.0, fails: bool = True) -> None:
        usual = {"Hash": "16"}
        self.identity = OracleIdentity("uci", "Climber 1.0", "ef" * 32, {"nodes": NODES}, usual, plain=usual)
        self.workers, self._delay, self._fails = workers, delay, fails
        self.tops: dict[int, list[int]] = {}
        self._pool = ThreadPoolExecutor(workers)

    def submit(self, position: Position) -> Future[DeepOutcome]:
        return self._pool.submit(self._search, position)

    def climb(self, position: Position, rungs: Sequence[int], go_on: GoOn) -> Future[ClimbOutcome]:
        return self._pool.submit(self._climb, position, rungs, go_on)

    def _search(self, position: Position) -> DeepOutcome:
        time.sleep(self._delay * uniform(position.key, "delay"))
        self.tops.setdefault(position.key, []).append(self.whole)
        failing = self._fails and position.key % self.fails_every == 0
        return DeepFailure("crashed", 3) if failing else self._result(position, self.whole)

    def _result(self, position: Position, nodes: int) -> DeepResult:
        return rung_result(position, nodes)

    def _climb(self, position: Position, rungs: Sequence[int], go_on: GoOn) -> ClimbOutcome:
        results: list[DeepResult] = []
        for nodes in rungs:
            results.append(self._result(position, nodes))
            if not go_on(results):
                self.tops.setdefault(position.key, []).append(nodes)
                return Climb(tuple(results), whole=False)
        whole = self._search(position)
        return whole if isinstance(whole, DeepFailure) else Climb((*results, whole), whole=True)

    def close(self, *, cancel: bool = False) -> None:
        self._pool.shutdown(wait=not cancel, cancel_futures=True)


def options_for(screen: ScreenOptions | None, **changes: Any) -> MineOptions:
    """Options of a run on random games with the stand-ins, by the ladder `screen`."""
    usual = {"sample": SampleOptions(per_game=4), "threshold": THRESHOLD, "alpha": ALPHA}
    return MineOptions(screen=screen, **with_question(**{**usual, **changes}))


def ladder_options(**changes: Any) -> ScreenOptions:
    """A ladder of two rungs."""
    return ScreenOptions(**{"rungs": RUNGS, "recall": 0.9, **changes})


def steep(q: ArrayLike) -> NDArray[np.float64]:
    """Q that is far from 0 sooner."""
    return np.asarray(np.tanh(3.0 * np.arctanh(np.asarray(q, np.float64))))


def climb_by_key(
    archive: Path,
    db: Path,
    options: MineOptions,
    oracle: ClimbingOracle | None = None,
    said: list[str] | None = None,
    net: ShiftedNet | None = None,
) -> MineSummary:
    """Mines with the stand-ins."""
    with remarks_to((list[str]() if said is None else said).append):
        return mine_by_key(archive, db, net=net or ShiftedNet(), oracle=oracle or ClimbingOracle(), options=options)


def fixed_screen(margin: float = 0.3) -> Screen:
    """A screen that cuts what is further than `margin` from being a candidate after a rung."""

    def rung(nodes: int) -> RungModel:
        coefficients = np.zeros(1 + len(FEATURES))
        coefficients[:2] = (20 * margin, -20)
        none = np.zeros((len(coefficients),) * 2)
        return RungModel(nodes, np.zeros(len(FEATURES)), np.ones(len(FEATURES)), coefficients, none, 0.5)

    return Screen(THRESHOLD, ALPHA, "cp", 0.9, tuple(map(rung, RUNGS)), 64, 8, 0.3, 0.9)


def latent_walk(n: int, seed: int) -> LadderRows:
    """Positions of n games, whose values at the rungs are a walk that ends at the whole search's: heavy tails about the
    net's."""
    rng = np.random.default_rng(seed)
    net_q = rng.uniform(-0.8, 0.8, n)
    whole = np.clip(net_q + 0.2 * rng.standard_t(3, n), -0.99, 0.99)
    steps = rng.normal(0, [0.12, 0.07], (n, 2))
    rungs = np.clip(whole[:, None] + np.cumsum(steps[:, ::-1], 1)[:, ::-1], -0.99, 0.99)
    net_best, best = rng.integers(1, 4, n), rng.integers(1, 4, (n, 2))
    q = np.concatenate([rungs, whole[:, None]], 1)
    return LadderRows(RUNGS, NODES, net_q, net_best, q, best, np.ones(n), game=np.arange(n))
