"""The built-in MCTS as a player: the searches of many games share the net's batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.evaluator import Evaluations, LeafEvaluator, Leaves, NetEvaluator
from valuerepair.mcts.forest import Forest, forest_bytes, warm_up
from valuerepair.mcts.outcome import choose_move
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.pool import ForestPool
from valuerepair.mcts.result import SearchResult, score_of
from valuerepair.nets.net import Net
from valuerepair.oracles.mcts_oracle import available_memory, identity_of
from valuerepair.play.game import Thought

DEFAULT_ENTRIES = 200_000  # about 500 bytes each
# The cache answers some leaves at once, so the batches need twice as many trees to be full.
TREES_A_BATCH = 2
_SHARE_OF_MEMORY = 0.5


class _Cached(NamedTuple):
    q: float
    d: float
    m: float
    logits: NDArray[np.float32]


class CachedEvaluator(LeafEvaluator):
    """Caches the latest answers of another evaluator. For one thread.

    Each search begins without a tree, as in ``lc0 selfplay``, but earlier searches have evaluated half of its
    positions: with the cache self-play takes half the time (docs/performance.md). lc0's key is the position alone; here
    it is the net's whole input, with history and clock, so that a cached answer is exactly the net's.

    It keeps at least the last `entries` / 2 answers, at most `entries`; 0 turns the cache off. `rows` counts leaves,
    `hits` the leaves in the cache, `runs` the calls of the other evaluator.
    """

    def __init__(self, evaluator: LeafEvaluator, entries: int) -> None:
        self.input_format, self.moves_left = evaluator.input_format, evaluator.moves_left
        self._evaluator, self._half = evaluator, entries // 2
        self._young: dict[bytes, _Cached] = {}
        self._old: dict[bytes, _Cached] = {}
        self.rows = self.hits = self.runs = 0

    def __call__(self, leaves: Leaves) -> Evaluations:
        """The answers for all leaves, in their order; equal leaves of one call are evaluated once."""
        n = len(leaves.masks)
        self.rows += n
        if not self._half:
            return self._evaluate(leaves)
        cached: list[_Cached | None] = []
        new: dict[bytes, int] = {}  # key -> its first row
        keys = _keys_of(leaves)
        for row, key in enumerate(keys):
            entry = self._young.get(key) or self._old.get(key)
            cached.append(entry)
            if entry is None:
                new.setdefault(key, row)
        self.hits += n - len(new)
        if len(new) < n:
            return self._merged(leaves, keys, cached, new)
        answer = self._evaluate(leaves)
        self._store(keys, answer, leaves.offsets)
        return answer

    def _merged(
        self, leaves: Leaves, keys: list[bytes], cached: list[_Cached | None], new: dict[bytes, int]
    ) -> Evaluations:
        """The answers for all leaves; evaluates only the rows `new`."""
        fresh: dict[bytes, _Cached] = {}
        if new:
            part = leaves.take(list(new.values()))
            fresh = self._store(list(new), self._evaluate(part), part.offsets)
        entries = [entry or fresh[key] for entry, key in zip(cached, keys, strict=True)]
        values = np.array([entry[:3] for entry in entries], np.float32)
        logits = np.concatenate([entry.logits for entry in entries])
        return Evaluations(values[:, 0].copy(), values[:, 1].copy(), values[:, 2].copy(), logits)

    def _evaluate(self, leaves: Leaves) -> Evaluations:
        self.runs += 1
        return self._evaluator(leaves)

    def _store(self, keys: list[bytes], answer: Evaluations, offsets: NDArray[np.int64]) -> dict[bytes, _Cached]:
        cuts = offsets.tolist()
        values = zip(answer.q.tolist(), answer.d.tolist(), answer.m.tolist(), strict=True)
        logits = answer.logits.copy()  # cut into views below
        entries = {
            key: _Cached(q, d, m, logits[cuts[i] : cuts[i + 1]])
            for i, (key, (q, d, m)) in enumerate(zip(keys, values, strict=True))
        }
        if len(self._young) + len(entries) > self._half:
            self._old, self._young = self._young, {}
        self._young.update(entries)
        return entries


def _keys_of(leaves: Leaves) -> list[bytes]:
    """A digest of 16 bytes of each row's planes, clock and legal moves."""
    cuts, masks, clocks = leaves.offsets.tolist(), leaves.masks, leaves.rule50.tolist()
    keys = []
    for row, clock in enumerate(clocks):
        digest = hashlib.blake2b(masks[row].data, digest_size=16)
        digest.update(leaves.indices[cuts[row] : cuts[row + 1]].data)
        digest.update(b"%d" % round(1000 * clock))
        keys.append(digest.digest())
    return keys


class Fill(NamedTuple):
    """How a player used its net: all `leaves`, those `cached`, and the net's `runs` of at most `batch` leaves."""

    leaves: int
    cached: int
    runs: int
    batch: int

    @property
    def share(self) -> float:
        """How full the batches were, from 0 to 1; NaN before the first."""
        return (self.leaves - self.cached) / (self.runs * self.batch) if self.runs else float("nan")


class ForestPlayer:
    """Plays with a net and search parameters, each move by `nodes` visits of its root; see `Player`.

    It has one thread per stream of the net; one of them does all searches of a game. Each search begins without a tree,
    as in lc0's self-play. A game's moves depend only on its positions and its seed, which temperature, noise and
    search-contempt use.
    """

    def __init__(
        self,
        net: Net,
        params: SearchParams,
        nodes: int,
        *,
        trees: int,
        name: str = "",
        cache: int = DEFAULT_ENTRIES,
    ) -> None:
        """Searches up to `trees` games at a time and keeps `cache` evaluations (see `CachedEvaluator`).

        Raises UsageError for invalid parameters or nodes, and if the trees do not fit in memory.
        """
        self._net, self.name = net, name or net.identity.name
        self.params, self.nodes = params, nodes
        evaluator = NetEvaluator(net)
        streams = min(evaluator.streams, trees)
        warm_up(evaluator, params)
        self._caches = [CachedEvaluator(evaluator, cache // streams) for _ in range(streams)]
        self._trees = -(-trees // streams)  # of a stream
        forests = [Forest(cached, params, trees=self._trees, nodes=nodes) for cached in self._caches]
        self._streams = [ForestPool([forest]) for forest in forests]
        self._games: dict[int, ForestPool] = {}  # the stream of each game, whose cache has its positions

    @property
    def fill(self) -> Fill:
        """How full the net's batches have been so far."""
        rows, hits, runs = (sum(getattr(cache, name) for cache in self._caches) for name in ("rows", "hits", "runs"))
        return Fill(rows, hits, runs, min(self._net.batch_size, self._trees))

    def think(self, game: int, position: Position, seed: int) -> Future[Thought]:
        """Queues a search."""
        stream = self._games.get(game)
        if stream is None:
            stream = self._games[game] = min(self._streams, key=[*self._games.values()].count)
        return stream.submit(position, self.nodes, partial(self._thought, position, seed), _refused, seed=seed)

    def forget(self, game: int) -> None:
        self._games.pop(game, None)

    def close(self, *, cancel: bool = False) -> None:
        for stream in self._streams:
            stream.close(cancel=cancel)

    def _thought(self, position: Position, seed: int, result: SearchResult, seconds: float) -> Thought:
        """The move to play, with the values of the best move."""
        best, has_wdl = result.best, self._net.identity.value_head == "wdl"
        score = score_of(best, result, has_wdl=has_wdl, lc0_floats=self.params.lc0_floats)
        return Thought(
            choose_move(result, self.params, position.ply, self.params.seed ^ seed),
            q=result.q,
            wdl=score.wdl if has_wdl else None,
            cp=score.cp,
            mate=score.mate,
            depth=result.depth,
            nodes=result.nodes,
            seconds=seconds,
            pv=best.pv,
            search=result,
        )


def _refused(reason: str) -> Thought:
    """Called for a position that cannot be searched; games do not have such positions."""
    raise ValueRepairError(reason)


def games_at_once(sides: Sequence[tuple[Net, int, SearchParams]]) -> int:
    """The number of games at a time that fill the batches of both sides' nets, as far as memory allows.

    `sides` has net, nodes and parameters of each `ForestPlayer`.
    """
    to_fill_batches = max(TREES_A_BATCH * net.session.streams * net.batch_size for net, _, _ in sides)
    memory = _SHARE_OF_MEMORY * (available_memory() or 8 << 30)
    bytes_a_game = sum(forest_bytes(1, nodes, params) for _, nodes, params in sides)
    return max(1, min(to_fill_batches, int(memory // bytes_a_game)))


def search_facts(net: Net, params: SearchParams, nodes: int) -> tuple[str, dict[str, object]]:
    """The search's name and revision, and what its moves depend on besides the net: nodes, parameters, device."""
    identity = identity_of(net, params, nodes)
    temperatures = {name: text for name, text in params.changes().items() if name.startswith("temp")}
    return identity.engine, {**identity.limits, **identity.options, **temperatures}
