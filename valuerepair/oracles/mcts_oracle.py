"""The judge that searches with the net itself: a forest of this project's own Monte-Carlo trees."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import chess

from valuerepair.chess.board import status_error
from valuerepair.chess.positions import Position
from valuerepair.engines.kinds import JUDGING, OWN_SEARCH
from valuerepair.errors import UsageError
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest, forest_bytes, warm_up
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.pool import ForestPool
from valuerepair.mcts.result import SearchResult, score_of
from valuerepair.nets.devices import NAMES
from valuerepair.nets.net import Net
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome, Judge, finished, game_over
from valuerepair.store.rows import DeepResult, JudgeIdentity
from valuerepair.text import size_words

log = logging.getLogger(__name__)

# The search's name in digests, with the release that first gave these values (`rows.engine_words` is for people). It
# changes only when the same net, options and nodes give other values: the store then keeps the two apart.
SEARCH = "valuerepair 0.1.0 search 1"
_MOST_MEMORY = 4 << 30
_SHARE_OF_MEMORY = 0.5


class MctsJudge(Judge):
    """Searches positions with a net, each in its own tree: `workers` is the number of trees.

    A result's `q` is `SearchResult.q`, Q of the best move of the root, ±1 or 0 if that is proven; with a single node
    it is the net's own value. `cp` and `wdl` are as lc0 shows them; `nodes` are the root's visits,
    `time_ms` is a tree's share of the time of the rounds it took part in.
    """

    def __init__(self, net: Net, params: SearchParams, nodes: int, trees: int, *, owned: bool = False) -> None:
        """Makes the trees and searches two nodes, so that errors show at once.

        The `trees` are spread over the net's streams, one thread each. With `owned`, `close` also closes the net.
        Raises UsageError and ValueRepairError.
        """
        self._net, self._owned = net, owned
        self._params, self._nodes, self._trees = params, nodes, trees
        self.identity = identity_of(net, params, nodes)
        evaluator = NetEvaluator(net)
        threads = min(evaluator.streams, trees)
        forests = [
            Forest(evaluator, params, trees=trees // threads + (i < trees % threads), nodes=nodes)
            for i in range(threads)
        ]
        warm_up(evaluator, params)
        self._pool = ForestPool(forests)

    @property
    def workers(self) -> int:
        return self._trees

    def submit(self, position: Position, nodes: int | None = None) -> Future[DeepOutcome]:
        """Queues a search; see `Judge`. An illegal position or one without a move is a DeepFailure at once."""
        if reason := cannot_be_searched(position):
            return finished(DeepFailure(reason))
        return self._pool.submit(position, nodes or self._nodes, self._result, DeepFailure)

    def close(self, *, cancel: bool = False) -> None:
        """Cancels queued searches; finishes the searches in flight, or with `cancel` abandons them."""
        self._pool.close(cancel=cancel)
        if self._owned:
            self._net.close()

    def _result(self, result: SearchResult, seconds: float) -> DeepResult:
        best = result.best
        has_wdl = self._net.identity.value_head == "wdl"
        score = score_of(best, result, has_wdl=has_wdl, lc0_floats=self._params.lc0_floats)
        return DeepResult(
            cp=score.cp,
            mate=score.mate,
            wdl=score.wdl if has_wdl else None,
            q=result.q,
            depth=result.depth,
            seldepth=result.seldepth,
            nodes=result.nodes,
            time_ms=round(1000 * seconds),
            best_move=result.best_move,
            pv=best.pv,
        )


def cannot_be_searched(position: Position) -> str | None:
    """Why a position cannot be searched: it is not legal, or has no legal move; else None."""
    if reason := status_error(position.fen):
        return reason if reason.startswith("not a legal") else f"not a legal FEN: {reason}"
    return game_over(chess.Board(position.fen))


def identity_of(net: Net, params: SearchParams, nodes: int) -> JudgeIdentity:
    """What the values depend on: the net, the nodes, every parameter that differs from its default, and the device."""
    options = {k: v for k, v in params.changes().items() if not k.startswith("temp")}  # no value depends on those
    options["device"] = NAMES[net.provider]
    if (precision := net.session.device.precision) != "f32":
        options["precision"] = precision
    if net.has_moves_left and params.moves_left_max_effect > 0:
        options["moves_left"] = "1"  # versions without it gave other values
    return JudgeIdentity(
        OWN_SEARCH.name,
        SEARCH,
        net.identity.sha256,
        {"nodes": nodes},
        options,
        net.identity.name,
        # The net's name shows it too.
        plain={"device": "CPU", **{k: v for k, v in options.items() if k == "precision"}},
        net_path=net.identity.path or None,
    )


def open_mcts(params: SearchParams, nodes: int, trees: int | None, net: Net, *, owned: bool = False) -> MctsJudge:
    """A judge with `trees` trees, by default as many as fill the net's batches and fit into memory.

    Raises UsageError if `trees` need more memory than is free.
    """
    count = trees if trees is not None else _affordable(net.session.streams * net.batch_size, nodes)
    need, free = forest_bytes(count, nodes), available_memory()
    if free is not None and need > free:
        fewer = "fewer trees or nodes" if count > 1 else "fewer nodes"
        trees_need = f"{count} trees of {nodes:,} nodes need" if count > 1 else f"a tree of {nodes:,} nodes needs"
        raise UsageError(f"--deep mcts: {trees_need} {size_words(need)}, and {size_words(free)} are free: take {fewer}")
    judge = MctsJudge(net, params, nodes, count, owned=owned)
    at_once = "1 tree" if count == 1 else f"{count} trees at once"
    log.info(f"deep search: {judge.identity.label}, {at_once}, about {size_words(need)} of memory ({net.where})")
    return judge


def _affordable(trees: int, nodes: int) -> int:
    """The number of trees, at most `trees`, that leaves half of the memory free; at least one."""
    most = min(_MOST_MEMORY, _SHARE_OF_MEMORY * (available_memory() or _MOST_MEMORY))
    return max(1, min(trees, int(most // forest_bytes(1, nodes))))


def search_params(settings: Mapping[str, str]) -> SearchParams:
    """The parameters of `settings`; by default those for judging."""
    return SearchParams().with_settings(JUDGING).with_settings(settings, "--deep mcts: ")


def available_memory() -> int | None:
    """Bytes available without swapping, within a container's limit; None if the system does not say."""
    sizes = list[int]()
    with suppress(OSError, ValueError):  # no Linux
        words = Path("/proc/meminfo").read_text().split()
        sizes.append(1024 * int(words[words.index("MemAvailable:") + 1]))
    with suppress(OSError, ValueError):  # no control group, or the limit is "max"
        limit, used = (int(Path("/sys/fs/cgroup", name).read_text()) for name in ("memory.max", "memory.current"))
        sizes.append(max(0, limit - used))
    return min(sizes, default=None)
