"""Tables for docs/performance.md, on a machine with an NVIDIA GPU, in some five minutes:

    python -m tests.gpu.measure
    python -m tests.gpu.measure --net BT4.pb.gz --device cuda:f16

First how far each device is from the CPU at float32, then positions a second, from history to values: with one stream
and with more, and with several sessions of one stream each. Measurements that are compared alternate; the median of the
repeats counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import numpy as np

from tests.parity.device_parity import GAMES, HEADER, differences, real_positions
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.nets import providers
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.options import BY_WORD

DEVICES = ("cuda", "cuda:f16", "tensorrt", "tensorrt:f16")
STREAMS = (1, 2, 3)
RATES = "| net | device | batch | way | positions/s | ratio to 1 stream |\n|---|---|---|---|---|---|"
Ways = dict[str, Callable[[], object]]


def main() -> None:
    given = _parser().parse_args()
    batch = real_positions(given.archive, given.positions)
    usable = [word for word in given.device or DEVICES if _usable(word)]
    for name in given.net or ["maia-1900"]:
        print(f"\n{HEADER}", flush=True)
        with open_net(name, device="cpu") as net:
            reference = net.evaluate_with_priors(batch)
        for word in usable:
            with open_net(name, device=word) as net:
                print(differences(net.evaluate_with_priors(batch), reference).row(net.identity.name, word), flush=True)
        print(f"\n{RATES}", flush=True)
        for word in usable:
            _print_rates(name, word, batch, given.seconds, given.repeats)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", action="append")
    parser.add_argument("--device", action="append", choices=list(BY_WORD))
    parser.add_argument("--archive", default=str(GAMES))
    parser.add_argument("--positions", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    parser.add_argument("--repeats", type=int, default=5)
    return parser


def _usable(word: str) -> bool:
    try:
        providers.choose_device(word)
    except ValueRepairError as error:
        print(f"left out: {error}")
        return False
    return True


def _print_rates(name: str, word: str, batch: PositionBatch, seconds: float, repeats: int) -> None:
    with ExitStack() as stack:
        nets = {n: stack.enter_context(open_net(name, device=word, threads=n)) for n in STREAMS}
        nets[1].tune()
        size = nets[1].batch_size
        for net in nets.values():
            net.session.set_batch(size)
        many = np.arange(8 * size) % len(batch)
        ways = _ways(stack, name, word, nets, batch.take(many), size)
        rates = measured(ways, len(many), seconds, repeats)
    one = rates["1 stream"]
    for way, rate in rates.items():
        print(f"| {name} | `{word}` | {size} | {way} | {rate:,.0f} | {rate / one:.2f} |", flush=True)


def _ways(stack: ExitStack, name: str, word: str, nets: Mapping[int, Net], batch: PositionBatch, size: int) -> Ways:
    """The ways of evaluating a batch that are compared."""
    ways: Ways = {}
    for n, net in nets.items():
        ways["1 stream" if n == 1 else f"{n} streams"] = partial(net.evaluate, batch)
    others = [stack.enter_context(open_net(name, device=word, threads=1, batch=size)) for _ in range(STREAMS[-1])]
    pool = stack.enter_context(ThreadPoolExecutor(len(others)))
    cuts = [batch.take(part) for part in np.array_split(np.arange(len(batch)), len(others))]
    ways[f"{len(others)} sessions"] = lambda: list(pool.map(lambda net, cut: net.evaluate(cut), others, cuts))
    return ways


def measured(ways: Ways, rows: int, seconds: float, repeats: int) -> dict[str, float]:
    """Rows a second of each way: the median of repeats, which go round all ways."""
    for work in ways.values():
        work()
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, work in ways.items():
            start, done = time.perf_counter(), 0
            while not done or time.perf_counter() - start < seconds:
                work()
                done += rows
            found[way].append(done / (time.perf_counter() - start))
    return {way: statistics.median(rates) for way, rates in found.items()}


if __name__ == "__main__":
    main()
