"""Speed of writing training records and of steps of training."""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count, cycle, groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.comparison import BenchData, Comparison, compare
from benchmarks.search import TableEvaluator
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.cores import usable_cores
from valuerepair.mcts.forest import Forest
from valuerepair.nets.registry import locate
from valuerepair.play.game import DRAW_AGREED, GameRecord, Thought
from valuerepair.training.chunk_files import RandomReader, read_index, unpack
from valuerepair.training.game_chunks import GameChunkOptions, write_game_chunks
from valuerepair.training.records import ChunkWriter, RecordFacts, compressed, game_records

if TYPE_CHECKING:
    import jax

    from valuerepair.training.graph import NetGraph
    from valuerepair.training.learner import Learner
    from valuerepair.training.options import Only
    from valuerepair.training.samples import Batch, Samples

GAMES, TREES, NODES, REPEATS = 40, 64, 100, 2
LC0_LEVEL = 6  # gzopen's, which lc0's TrainingDataWriter leaves as it is


def chunks(data: BenchData) -> Comparison:
    """Records/s from searched games to files, 100 visits a move, against gzip at lc0's level of the same records."""
    games, facts = searched_games(data.archive), RecordFacts()
    finished = [game_records(game, facts).tobytes() for game in games]
    records = sum(len(game.thoughts) for game in games)

    def ours() -> float:
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder:
                writer = ChunkWriter(folder, facts)
                for game in games:
                    writer.write(game)
        return REPEATS * records

    def theirs() -> float:
        for _ in range(REPEATS):
            for content in finished:
                gzip.compress(content, LC0_LEVEL)
        return REPEATS * records

    return compare("training-records", "records", "gzip as lc0 does it", ours, theirs, target=0.8, floor=20_000)


ARCHIVE_GAMES = 400


def game_chunks(data: BenchData) -> Comparison:
    """Records/s of a whole `vr chunks` of the first games of an archive, against packing the same records alone, at the
    same level of zlib and on as many threads."""
    options, number = GameChunkOptions(games=ARCHIVE_GAMES), count()
    with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder:

        def ours() -> float:
            summary = write_game_chunks([data.archive], f"{folder}/{next(number)}", None, options)
            assert summary.manifest is not None
            return float(summary.manifest["records"])

        ours()
        index = read_index([f"{folder}/0"])
        reader = RandomReader(index.archives)
        where = zip(index.archive.tolist(), index.offset.tolist(), index.size.tolist(), strict=True)
        finished = [unpack(reader.read(*place)).tobytes() for place in where]
        reader.close()

        def theirs() -> float:
            with ThreadPoolExecutor(usable_cores()) as pool:
                for _ in pool.map(compressed, finished):
                    pass
            return float(index.positions)

        return compare("game-chunks", "records", "zlib alone", ours, theirs, target=0.5, floor=10_000)


STEP_BATCH = 256


def steps(data: BenchData) -> Comparison:
    """Positions/s of forward and backward of a whole net, against the same with JAX's own convolutions."""
    import jax

    from valuerepair.training.graph import NetGraph

    planes, target = _training_batch()

    def work(*, by_winograd: bool) -> Callable[[], float]:
        net = NetGraph.open(str(locate(data.net)), by_winograd=by_winograd)
        step = jax.jit(jax.value_and_grad(partial(_loss, net)))
        parameters = jax.device_put(net.parameters)
        float(step(parameters, planes, target)[0])

        def some() -> float:
            begin, done = time.perf_counter(), 0
            while time.perf_counter() - begin < data.seconds:
                float(step(parameters, planes, target)[0])
                done += STEP_BATCH
            return done

        return some

    ours, theirs = work(by_winograd=True), work(by_winograd=False)
    return compare("training-steps", "positions", "JAX's own convolutions", ours, theirs, target=1.9)


def value_head(data: BenchData) -> Comparison:
    """Positions/s of whole steps of `vr train --only value`, whose trunk has computed them before, against the net."""
    from valuerepair.training.graph import NetGraph
    from valuerepair.training.learner import Learner
    from valuerepair.training.losses import LossWeights
    from valuerepair.training.options import TrainOptions

    samples, weights = _real_positions(data, 2 * STEP_BATCH), LossWeights(policy=0, moves_left=0)

    def work(only: Only) -> Callable[[], float]:
        learner = Learner(NetGraph.open(str(locate(data.net))), TrainOptions(only=only, batch=STEP_BATCH), weights)
        if learner.room:
            learner.keep([samples])
        return _stepping(learner, cycle(_batches(samples)), data.seconds)

    return compare("training-value", "positions", "steps of the whole net", work("value"), work("all"), target=10)


def from_files(data: BenchData) -> Comparison:
    """Positions/s of steps on chunks in files, against the same on positions in memory: does training ever wait?"""
    from valuerepair.training.graph import NetGraph
    from valuerepair.training.learner import Learner
    from valuerepair.training.losses import LossWeights
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.sources import ChunkSource, TrainingStream

    with tempfile.TemporaryDirectory(prefix="vr-bench-") as folder:
        writer = ChunkWriter(folder, RecordFacts())
        for game in searched_games(data.archive):
            writer.write(game)
        stream = TrainingStream([ChunkSource([folder], 1)], STEP_BATCH, 0)
        learner = Learner(NetGraph.open(str(locate(data.net))), TrainOptions(batch=STEP_BATCH), LossWeights())
        with closing(stream.batches()) as batches:
            in_memory = cycle([next(batches) for _ in range(8)])
            ours, theirs = (_stepping(learner, source, data.seconds) for source in (batches, in_memory))
            return compare("training-files", "positions", "positions in memory", ours, theirs, target=0.95)


def _stepping(learner: Learner, batches: Iterator[Batch], seconds: float) -> Callable[[], float]:
    """Takes steps for so long, and says how many positions these had."""
    state, losses = learner.step(learner.begin(), next(batches), 0)
    float(losses["loss"])

    def some() -> float:
        nonlocal state
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            state, losses = learner.step(state, next(batches), done)
            float(losses["loss"])
            done += 1
        return done * STEP_BATCH

    return some


def _real_positions(data: BenchData, count: int) -> Samples:
    from valuerepair.training.samples import of_positions, wdl_of

    options = SampleOptions(per_game=None, positions=count)
    batch = PositionBatch.concat(list(sample([data.archive], options, ReadReport())))
    return of_positions(
        batch, np.zeros(len(batch)), wdl_of(np.zeros(len(batch)), np.full(len(batch), 0.3)), "fen_only", 1
    )


def _batches(samples: Samples) -> list[Batch]:
    starts = range(0, len(samples) - STEP_BATCH + 1, STEP_BATCH)
    return [samples.take(np.arange(at, at + STEP_BATCH)).batch() for at in starts]


def _training_batch() -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Planes as dense as those of positions, and a move for each."""
    chance = np.random.default_rng(0)
    planes = (chance.random((STEP_BATCH, 112, 8, 8)) < 0.1).astype(np.float32)
    return planes, chance.integers(0, 1858, STEP_BATCH).astype(np.int32)


def _loss(net: NetGraph, parameters: Mapping[str, jax.Array], planes: jax.Array, move: jax.Array) -> jax.Array:
    import jax
    import jax.numpy as jnp

    heads = net.forward(parameters, planes)
    assert heads.policy is not None
    policy = -jnp.take_along_axis(jax.nn.log_softmax(heads.policy), move[:, None], axis=1).mean()
    if heads.wdl is not None:
        return policy - jax.nn.log_softmax(heads.wdl)[:, 0].mean()
    assert heads.value is not None
    return policy + jnp.square(heads.value - 1).mean()


def searched_games(archive: str) -> list[GameRecord]:
    """The first games of an archive with a search of every position by an evaluator that takes next to no time."""
    positions: list[Position] = []
    games = 0
    for batch in sample([archive], SampleOptions(per_game=None, min_ply=0), ReadReport()):
        positions += list(batch)
        games = len({position.origin.game for position in positions})
        if games > GAMES:
            break
    forest = Forest(TableEvaluator(), trees=TREES, nodes=NODES)
    searches = dict(forest.search(positions, NODES))
    grouped = groupby(range(len(positions)), lambda i: positions[i].origin.game)
    records = []
    for number, (_, members) in zip(range(GAMES), grouped, strict=False):
        of_game = list(members)
        thoughts = tuple(Thought(positions[i].origin.played or "", search=searches[i]) for i in of_game)
        first = positions[of_game[0]]
        records.append(
            GameRecord(number, number, first.start_fen, first.moves, thoughts, "", "", "1/2-1/2", DRAW_AGREED)
        )
    return records
