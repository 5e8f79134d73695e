"""How fast this machine does the work of a repair, measured by a separate process: half a minute, if it is idle.

Measuring takes the same time for every budget: rates of one second are noise, and the next budget uses the same rates.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Annotated, Any

import msgspec

from valuerepair import signals
from valuerepair.archives.open import find_sources, total_bytes
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.progress import Progress
from valuerepair.cores import usable_cores
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import written_whole
from valuerepair.inputs import Count, Record, Seconds, read_json
from valuerepair.nets.net import Net
from valuerepair.oracles.oracle import Oracle
from valuerepair.pipeline.settings import Settings

log = logging.getLogger(__name__)

FILE = "rates.json"
_POSITIONS = 512
_BYTES, _FILES = 32_000_000, 4  # unpacked bytes, of at most this number of archive files
_JUDGE_S, _NET_S, _TRAIN_S = 6.0, 1.0, 4.0
_BUSY = 0.4  # load average of the last minute per core, above which the user is warned that rates may be too low
_GAMES = 128  # at once, the most that a match plays
_Rate = Annotated[float, msgspec.Meta(gt=0, le=1e12)]


@dataclass(frozen=True, slots=True)
class Rates:
    """The measured rates. `positions` is about the number in the archives; `read` is the time to read them (s), `start`
    that of a command before its work begins (s), `compile` that of a trainer (s). In a second: `searches` and `nodes`
    of the judge, positions that the net evaluates (`net`), that a trainer learns from (`train`) and judges by
    (`judge`), and `moves` of games that our own search plays."""

    positions: Count
    read: Seconds
    start: Seconds
    compile: Seconds
    searches: _Rate
    nodes: _Rate
    net: _Rate
    train: _Rate
    judge: _Rate
    moves: _Rate


class _SavedRates(Record):
    of: dict[str, Any]
    rates: Rates


def rates(settings: Settings, folder: Path, *, quiet: bool = False) -> Rates:
    """The rates that the folder has for these settings; without any they are measured, and saved there.

    Raises UsageError and ValueRepairError if something is missing: an archive, the net, the engine, or JAX.
    """
    conditions = {
        "archives": list(settings.archives),
        "net": settings.net,
        "deep": settings.deep,
        "only": settings.train.only,
        "batch": settings.train.batch,
        "nodes": settings.play.match_nodes,
    }
    if settings.store:
        conditions["store"] = settings.store
    path = folder / FILE
    if path.is_file():
        with suppress(ValueRepairError):  # of another version, or damaged: measured again
            saved = read_json(path, _SavedRates, "rates of this machine")
            if saved.of == conditions:
                measured_at = time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
                log.info(f"planned by the rates of this machine of {measured_at} ({path}; remove it to measure again)")
                return saved.rates
    if not settings.store and total_bytes(settings.archives) is None:
        raise UsageError(
            f"{' '.join(settings.archives)}: give files or folders; input that can be read only once cannot be planned"
        )
    with Progress("measuring this machine", quiet=quiet) as progress:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # not on Windows
        progress.stage("judge, net, training, games")
        measured = _measured_apart(conditions)
    if load > _BUSY * usable_cores():
        log.warning(
            f"warning: this machine was busy while it was measured (load {load:.1f}, {usable_cores()} cores); "
            f"when it is idle, remove {path} to measure again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as partial:
        partial.write_text(json.dumps({"of": conditions, "rates": asdict(measured)}, indent=2) + "\n", "utf-8")
    return measured


def _measured_apart(conditions: Mapping[str, Any]) -> Rates:
    """The rates, measured by another process, so that the memory of engines, net and trainer is free when it ends."""
    command = [sys.executable, "-m", __name__]
    start = time.monotonic()
    process = signals.run(command, text=json.dumps(conditions))
    seconds = time.monotonic() - start
    try:
        measured = json.loads(process.stdout)
    except ValueError:
        last_line = " ".join(process.stderr.splitlines()[-1:])
        raise ValueRepairError(f"measuring this machine failed (exit code {process.returncode}): {last_line}") from None
    if "error" in measured:
        raise (UsageError if measured["code"] == UsageError.exit_code else ValueRepairError)(measured["error"])
    return Rates(start=seconds - measured.pop("worked") + measured.pop("opened"), **measured)


# -- the process that measures ----------------------------------------------------------------------------------------


def main() -> None:
    """Reads the conditions from standard input; writes the rates, or the error, to standard output."""
    signals.install()
    conditions = json.loads(sys.stdin.read())
    try:
        measured: dict[str, Any] = _measure(conditions)
    except ValueRepairError as error:
        measured = {"error": str(error), "code": error.exit_code}
    except OSError as error:
        measured = {"error": f"{error.filename or ''}: {error.strerror or error}", "code": 1}
    json.dump(measured, sys.stdout)


def _measure(conditions: Mapping[str, Any]) -> dict[str, Any]:
    from valuerepair.nets.net import open_net
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file
    from valuerepair.oracles.open import open_oracle
    from valuerepair.training.train import check_jax

    start = time.monotonic()
    check_jax()
    file = read_net_file(locate(conditions["net"]))
    if file.header is None:
        raise UsageError(
            f"--net {conditions['net']}: an ONNX file cannot be trained; give the .pb.gz that it was made of"
        )
    batch, measured = (
        _read_store(conditions["store"], conditions["net"]) if "store" in conditions else _read(conditions["archives"])
    )
    with open_net(conditions["net"]):
        pass  # a net is converted the first time it is opened
    opening = time.monotonic()
    with open_net(conditions["net"]) as net:
        net.evaluate(batch)
        opened = time.monotonic() - opening
        measured["net"] = len(batch) * _rate(lambda: net.evaluate(batch), _NET_S)
        oracle = open_oracle(conditions["deep"], net_path=conditions["net"], net=net)
        try:
            measured |= _judge(oracle, batch, _JUDGE_S)
        finally:
            oracle.close(cancel=True)
        measured["moves"] = _moves(net, batch, conditions["nodes"])
    measured |= _training(str(file.path), file.header.input_format, batch, conditions)
    return {**measured, "opened": opened, "worked": time.monotonic() - start}


def _rate(work: Callable[[], object], seconds: float) -> float:
    """How often `work` can be done in a second, measured over some seconds."""
    start, count, spent = time.monotonic(), 0, 0.0
    while spent < seconds or count < 2:
        work()
        count, spent = count + 1, time.monotonic() - start
    return count / spent


def _read(archives: list[str]) -> tuple[PositionBatch, dict[str, Any]]:
    """Some positions, the number of all, and the time to read all, estimated from parts of some of the files."""
    files = [source.path for source in find_sources(archives)]
    chosen = files[:: -(-len(files) // _FILES)]
    # One by one: a byte of one file may hold ten times as many positions as a byte of another.
    parts, failed = [], None
    for path in chosen:
        try:
            parts.append(_part(path, len(chosen)))
        except ValueRepairError as error:  # a file without games, among others
            failed = error
    if failed is not None and not parts:
        raise failed
    batch = PositionBatch.concat([batch_read for batches, _, _ in parts for batch_read in batches])
    if not len(batch):
        raise UsageError(f"{' '.join(archives)}: no position that vr mine would take (the first is after 8 plies)")
    factor = (total_bytes(files) or 1) / (total_bytes(chosen) or 1)
    positions, read = sum(count for _, count, _ in parts), sum(seconds for _, _, seconds in parts)
    return batch, {"positions": int(factor * positions), "read": factor * read}


def _read_store(path: str, net: str) -> tuple[PositionBatch, dict[str, Any]]:
    """As `_read`, for the positions of a store that training learns from, in games and beside them."""
    from valuerepair.nets.registry import locate
    from valuerepair.question import Question
    from valuerepair.store.store import Store
    from valuerepair.training.judged import JudgedPositions

    with Store.open(path) as store:
        start = time.monotonic()
        ids = JudgedPositions(store, Question(net=str(locate(net)))).ids
        chosen = ids[:: max(1, len(ids) // _POSITIONS)][:_POSITIONS]
        return store.positions(chosen), {"positions": len(ids), "read": time.monotonic() - start}


def _part(path: str, files: int) -> tuple[list[PositionBatch], float, float]:
    """Some positions of one of `files` files, and estimates: how many it has, and how many seconds it takes to read."""
    from valuerepair.archives.options import SampleOptions
    from valuerepair.archives.rows import ReadReport
    from valuerepair.archives.sampling import sample

    size, read, report = total_bytes([path]), list[int](), ReadReport()
    options = SampleOptions(positions=max(1, _POSITIONS // files), per_game=None, max_bytes=_BYTES // files)
    start = time.monotonic()
    batches = list(sample([path], options, report, on_bytes=read.append))
    seconds = time.monotonic() - start
    share = min(1.0, sum(read) / size) if size else 1.0
    if share > 0.99:
        share = 1.0
    return batches, (report.positions + report.not_drawn) / share, seconds / share


def _judge(oracle: Oracle, batch: PositionBatch, seconds: float) -> dict[str, float]:
    """Searches and nodes per second, measured over some seconds with all workers busy.

    The first searches only warm up: they start engines, fill tables and load kernels.
    """
    from valuerepair.store.rows import DeepResult

    positions = chain.from_iterable(repeat(batch))
    waiting = deque(oracle.submit(position) for position in islice(positions, 2 * oracle.workers))
    for _ in range(oracle.workers):
        waiting.popleft().result()
    start, spent, searches, nodes = time.monotonic(), 0.0, 0, 0
    while spent < seconds or searches < oracle.workers:
        waiting.append(oracle.submit(next(positions)))
        result = waiting.popleft().result()
        searches, nodes = searches + 1, nodes + (result.nodes if isinstance(result, DeepResult) else 0)
        spent = time.monotonic() - start
    return {"searches": searches / spent, "nodes": max(nodes, 1) / spent}


def _moves(net: Net, batch: PositionBatch, nodes: int) -> float:
    """Moves per second, with as many searches at once as a match has games."""
    from valuerepair.mcts.params import SearchParams
    from valuerepair.oracles.searching import search_positions

    chosen = list(islice(batch, _GAMES))
    for _ in search_positions(net, SearchParams(), chosen[:2], nodes=2):
        pass  # loads the kernels
    start = time.monotonic()
    searches = sum(1 for _ in search_positions(net, SearchParams(), chosen, nodes=nodes))
    return searches / (time.monotonic() - start)


def _training(net: str, form: int, batch: PositionBatch, conditions: Mapping[str, Any]) -> dict[str, float]:
    import numpy as np

    from valuerepair.training.graph import NetGraph
    from valuerepair.training.learner import Learner
    from valuerepair.training.losses import LossWeights
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.samples import of_positions, wdl_of

    start = time.monotonic()
    graph = NetGraph.open(net)
    size, only = conditions["batch"], conditions["only"]
    weights = LossWeights(policy=float(only != "value"), moves_left=0.0, policy_kl=float(only != "value"))
    learner = Learner(graph, TrainOptions(only=only, batch=size), weights)
    zeros = np.zeros(len(batch))
    samples = of_positions(batch, zeros, wdl_of(zeros, zeros), "fen_only", form)
    step_batch = samples.take(np.arange(size) % len(batch)).batch()
    state = learner.begin()

    def step() -> None:
        nonlocal state
        state, losses = learner.step(state, step_batch, 0)
        float(losses["loss"])

    def judge() -> None:
        np.asarray(learner.evaluate(state.parameters, step_batch).q)

    step()
    judge()
    compiled = time.monotonic() - start
    return {"compile": compiled, "train": size * _rate(step, _TRAIN_S), "judge": size * _rate(judge, _TRAIN_S / 2)}


if __name__ == "__main__":
    main()
