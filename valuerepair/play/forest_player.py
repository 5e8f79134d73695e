"""The built-in MCTS as a player: the searches of many games share the net's batches."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.evaluator import Evaluations, Evaluator, Leaves, NetEvaluator
from valuerepair.mcts.forest import Forest, warm_up
from valuerepair.mcts.outcome import choose_move
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult, score_of
from valuerepair.mcts.select import random_word
from valuerepair.mcts.tree import RANDOM
from valuerepair.oracles.mcts_oracle import identity_of
from valuerepair.play.game import Thought
from valuerepair.play.time_control import Clock

if TYPE_CHECKING:
    from valuerepair.nets.net import Net

DEFAULT_ENTRIES = 200_000  # some 500 bytes each


class _Kept(NamedTuple):
    q: float
    d: float
    m: float
    logits: NDArray[np.float32]


class CachedEvaluator:
    """An `Evaluator` that asks another one only about what it has not asked lately. For one thread.

    A search begins without a tree, as in ``lc0 selfplay``, but half of what it asks for an earlier one has asked: kept,
    self-play takes half the time (docs/performance.md). lc0 looks positions up by the position alone; here the key is
    the net's whole input, history and clock included, so that an answer is what the net would say.

    At least the last `entries` / 2 answers are kept, at most `entries`; 0 for none. `rows` counts leaves, `hits` those
    that were known, `runs` the calls that had to be made.
    """

    def __init__(self, evaluator: Evaluator, entries: int) -> None:
        self._evaluator, self._half = evaluator, entries // 2
        self._young: dict[bytes, _Kept] = {}
        self._old: dict[bytes, _Kept] = {}
        self.rows = self.hits = self.runs = 0

    def __call__(self, leaves: Leaves) -> Evaluations:
        """The answers for all leaves, in their order; two equal leaves of one call are asked about once."""
        n = len(leaves.masks)
        self.rows += n
        if not self._half:
            return self._ask(leaves)
        found: list[_Kept | None] = []
        new: dict[bytes, int] = {}  # key -> its first row
        keys = _keys_of(leaves)
        for row, key in enumerate(keys):
            kept = self._young.get(key) or self._old.get(key)
            found.append(kept)
            if kept is None:
                new.setdefault(key, row)
        self.hits += n - len(new)
        if len(new) < n:
            return self._merged(leaves, keys, found, new)
        answer = self._ask(leaves)
        self._keep(keys, answer, leaves.offsets)
        return answer

    def _merged(
        self, leaves: Leaves, keys: list[bytes], found: list[_Kept | None], new: dict[bytes, int]
    ) -> Evaluations:
        """The whole answer where only the rows of `new` must be asked about."""
        fresh: dict[bytes, _Kept] = {}
        if new:
            part = _rows_of(leaves, list(new.values()))
            fresh = self._keep(list(new), self._ask(part), part.offsets)
        every = [kept or fresh[key] for kept, key in zip(found, keys, strict=True)]
        values = np.array([kept[:3] for kept in every], np.float32)
        logits = np.concatenate([kept.logits for kept in every])
        return Evaluations(values[:, 0].copy(), values[:, 1].copy(), values[:, 2].copy(), logits)

    def _ask(self, leaves: Leaves) -> Evaluations:
        self.runs += 1
        return self._evaluator(leaves)

    def _keep(self, keys: list[bytes], answer: Evaluations, offsets: NDArray[np.int64]) -> dict[bytes, _Kept]:
        cuts = offsets.tolist()
        values = zip(answer.q.tolist(), answer.d.tolist(), answer.m.tolist(), strict=True)
        logits = answer.logits.copy()  # cut into views below
        kept = {
            key: _Kept(q, d, m, logits[cuts[i] : cuts[i + 1]])
            for i, (key, (q, d, m)) in enumerate(zip(keys, values, strict=True))
        }
        if len(self._young) + len(kept) > self._half:
            self._old, self._young = self._young, {}
        self._young.update(kept)
        return kept


def _keys_of(leaves: Leaves) -> list[bytes]:
    """16 bytes of each row's planes, clock and legal moves."""
    cuts, masks, clocks = leaves.offsets.tolist(), leaves.masks, leaves.rule50.tolist()
    found = []
    for row, clock in enumerate(clocks):
        digest = hashlib.blake2b(masks[row].data, digest_size=16)
        digest.update(leaves.indices[cuts[row] : cuts[row + 1]].data)
        digest.update(b"%d" % round(1000 * clock))
        found.append(digest.digest())
    return found


def _rows_of(leaves: Leaves, rows: list[int]) -> Leaves:
    cuts = leaves.offsets
    counts = np.array([0, *(int(cuts[row + 1] - cuts[row]) for row in rows)], np.int64)
    indices = np.concatenate([leaves.indices[cuts[row] : cuts[row + 1]] for row in rows])
    return Leaves(leaves.masks[rows], leaves.rule50[rows], indices, np.cumsum(counts))


class Fill(NamedTuple):
    """How a player's net was used: `leaves` asked for, those that were `known`, and its `runs` of `batch` at most."""

    leaves: int
    known: int
    runs: int
    batch: int

    @property
    def share(self) -> float:
        """How full the batches were, from 0 to 1; NaN before the first."""
        return (self.leaves - self.known) / (self.runs * self.batch) if self.runs else float("nan")


class ForestPlayer:
    """Plays with a net and search parameters, each move by `nodes` visits of its root; see `Player`.

    Searches of one game run in the same thread, one of as many as the net has streams. What a game's moves are depends
    on its positions and its seed only: the seed is for temperature, noise and search-contempt. With `reuse` the tree is
    kept from move to move and its visits count (as lc0 can, which does not by default either).
    """

    def __init__(
        self,
        net: Net,
        params: SearchParams,
        nodes: int,
        *,
        trees: int,
        name: str = "",
        reuse: bool = False,
        cache: int = DEFAULT_ENTRIES,
    ) -> None:
        """`trees` in all can be searched at once: the number of games this plays in at the same time.

        `cache` evaluations are kept, see `CachedEvaluator`. Raises UsageError for parameters or nodes that make no
        sense, and where the trees do not fit in memory.
        """
        self._net, self.name = net, name or net.identity.name
        self.params, self.nodes, self.reuse = params, nodes, reuse
        evaluator = NetEvaluator(net)
        streams = min(evaluator.streams, trees)
        warm_up(evaluator, params, evaluator.input_format)
        self._streams = [
            _ForestThread(CachedEvaluator(evaluator, cache // streams), evaluator, -(-trees // streams), self)
            for _ in range(streams)
        ]
        self._games: dict[int, _ForestThread] = {}

    @property
    def fill(self) -> Fill:
        """How full the net's batches have been so far."""
        every = [stream.evaluator for stream in self._streams]
        rows, hits, runs = (sum(getattr(e, what) for e in every) for what in ("rows", "hits", "runs"))
        return Fill(rows, hits, runs, min(self._net.batch_size, self._streams[0].trees))

    def think(self, game: int, position: Position, seed: int, clock: Clock | None = None) -> Future[Thought]:
        """Queues a search; the player's nodes are its only limit, whatever the clock."""
        stream = self._games.get(game)
        if stream is None:
            stream = self._games[game] = min(self._streams, key=lambda each: each.games)
            stream.games += 1
        asked = _MoveRequest(game, position, seed, Future())
        stream.put(asked)
        return asked.future

    def forget(self, game: int) -> None:
        stream = self._games.pop(game, None)
        if stream is not None:
            stream.games -= 1
            stream.forget(game)

    def close(self, *, cancel: bool = False) -> None:
        for stream in self._streams:
            stream.close(cancel)
        for stream in self._streams:
            stream.thread.join()

    def thought(self, position: Position, seed: int, result: SearchResult, seconds: float) -> Thought:
        """The move to play and its values; q, wdl, cp, mate and pv are those of the best move."""
        best, has_wdl = result.best, self._net.identity.value_head == "wdl"
        score = score_of(best, result, has_wdl=has_wdl, lc0_floats=self.params.lc0_floats)
        return Thought(
            choose_move(result, self.params, position.ply, seed),
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


def search_facts(net: Net, params: SearchParams, nodes: int) -> tuple[str, dict[str, object]]:
    """The search's name and revision, and what moves depend on beside the net: nodes, parameters, device."""
    known = identity_of(net, params, nodes)
    drawn = {name: text for name, text in params.changes().items() if name.startswith("temp")}
    return known.engine, {**known.limits, **known.options, **drawn}


@dataclass(eq=False, slots=True)
class _MoveRequest:
    """A move that is asked for; `slot` is its tree, `begun` the stream's clock when the search began."""

    game: int
    position: Position
    seed: int
    future: Future[Thought]
    slot: int = -1
    begun: float = 0.0


class _SeededForest(Forest):
    def plant(self, position: Position, nodes: int, seed: int) -> int:
        """`add`, with a seed of its own."""
        slot = self.add(position, nodes)
        self.reseed(slot, position, seed)
        return slot

    def reseed(self, slot: int, position: Position, seed: int) -> None:
        word = np.uint64(self.params.seed ^ seed) ^ np.uint64(position.key)
        self._trees.slots[slot, RANDOM] = np.uint64(random_word(word)).astype(np.int64)


class _ForestThread:
    """A thread with a forest and a cache of its own."""

    def __init__(self, evaluator: CachedEvaluator, net: NetEvaluator, trees: int, player: ForestPlayer) -> None:
        self.evaluator, self.trees, self.games = evaluator, trees, 0
        self._player, self._nodes = player, player.nodes
        self._forest = _SeededForest(
            evaluator,
            player.params,
            input_format=net.input_format,
            moves_left=net.moves_left,
            trees=trees,
            nodes=player.nodes,
        )
        self._wake = threading.Condition()
        self._waiting: deque[_MoveRequest] = deque()
        self._forgotten: list[int] = []
        self._closed = self._abandoned = False
        self._broken: ValueRepairError | None = None
        self._kept: dict[int, tuple[int, Position]] = {}  # game -> the tree of its last search, with `reuse`
        self._clock = 0.0  # seconds, each round's divided by the number of its trees
        self.thread = threading.Thread(target=self._work, name="play", daemon=True)
        self.thread.start()

    def put(self, asked: _MoveRequest) -> None:
        with self._wake:
            if self._broken is not None:
                asked.future.set_exception(self._broken)
                return
            if self._closed:
                raise RuntimeError("the player is closed")
            self._waiting.append(asked)
            self._wake.notify()

    def forget(self, game: int) -> None:
        if self._player.reuse:
            with self._wake:
                self._forgotten.append(game)

    def close(self, cancel: bool) -> None:
        with self._wake:
            self._closed = True
            self._abandoned |= cancel
            self._wake.notify()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        growing: list[_MoveRequest] = []
        try:
            while (coming := self._next(len(growing))) is not None:
                growing += self._begin(coming)
                if not growing:
                    continue
                begun = time.perf_counter()
                some_done = self._forest.play_round()
                self._clock += (time.perf_counter() - begun) / len(growing)
                if some_done:
                    growing = self._finish(growing)
        except BaseException as error:  # whatever it is, it belongs to those who wait for moves
            self._break(error, growing)
            return
        _refuse([*growing, *self._waiting], CancelledError())

    def _next(self, busy: int) -> list[_MoveRequest] | None:
        """Requests to begin now; waits while there is nothing to search. None at the end."""
        with self._wake:
            while True:
                if self._abandoned or (self._closed and not busy and not self._waiting):
                    return None
                for game in self._forgotten:
                    self._drop(game)
                self._forgotten.clear()
                count = min(len(self._waiting), self.trees - busy)
                if count or busy:
                    return [self._waiting.popleft() for _ in range(count)]
                self._wake.wait()

    def _begin(self, coming: Iterable[_MoveRequest]) -> list[_MoveRequest]:
        begun = []
        for asked in coming:
            if not asked.future.set_running_or_notify_cancel():
                continue
            asked.begun = self._clock
            try:
                asked.slot = self._kept_tree(asked) if self._player.reuse else -1
                if asked.slot < 0:
                    asked.slot = self._plant(asked)
            except ValueRepairError as error:  # an illegal position, which no game has
                asked.future.set_exception(error)
            else:
                begun.append(asked)
        return begun

    def _plant(self, asked: _MoveRequest) -> int:
        if not self._forest.free:
            self._drop(next(iter(self._kept)))
        return self._forest.plant(asked.position, self._nodes, asked.seed)

    def _kept_tree(self, asked: _MoveRequest) -> int:
        """The tree of this game's last search with the present position as its root; -1 where there is none."""
        kept = self._kept.pop(asked.game, None)
        if kept is None:
            return -1
        slot, before = kept
        further = asked.position.moves[len(before.moves) :]
        if not self._forest.advance(slot, asked.position, further):
            self._forest.release(slot)
            return -1
        self._forest.go_on(slot, self._nodes)
        self._forest.reseed(slot, asked.position, asked.seed)
        return slot

    def _finish(self, growing: list[_MoveRequest]) -> list[_MoveRequest]:
        """Answers requests whose trees are done; returns the others."""
        left = []
        for asked in growing:
            if not self._forest.is_done(asked.slot):
                left.append(asked)
                continue
            result = self._forest.result(asked.slot)
            if self._player.reuse:
                self._kept[asked.game] = asked.slot, asked.position
            else:
                self._forest.release(asked.slot)
            thought = self._player.thought(asked.position, asked.seed, result, self._clock - asked.begun)
            asked.future.set_result(thought)
        return left

    def _drop(self, game: int) -> None:
        if (kept := self._kept.pop(game, None)) is not None:
            self._forest.release(kept[0])

    def _break(self, error: BaseException, growing: list[_MoveRequest]) -> None:
        reason = str(error).strip().splitlines() or [""]
        broken = error if isinstance(error, ValueRepairError) else None
        if broken is None:
            broken = ValueRepairError(f"the search broke: {type(error).__name__}: {reason[0]}".rstrip(": "))
            broken.__cause__ = error
        with self._wake:
            self._broken = broken
            waiting = list(self._waiting)
            self._waiting.clear()
        _refuse([*growing, *waiting], broken)


def _refuse(asked: Iterable[_MoveRequest], error: BaseException) -> None:
    for each in asked:
        if not each.future.done():
            each.future.set_exception(error)
