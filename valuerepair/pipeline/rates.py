"""How fast this machine does what a repair consists of, measured by a process of its own: half a minute, if it is idle.

It takes the same time for every budget: rates of a second are noise, and they are kept for the next budget, too.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from valuerepair import signals
from valuerepair.archives.open import find_sources, total_bytes
from valuerepair.chess.progress import Progress
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import written_whole
from valuerepair.inputs import Count, Record, Seconds, read_json
from valuerepair.pipeline.settings import Settings

if TYPE_CHECKING:
    from valuerepair.chess.positions import PositionBatch
    from valuerepair.nets.net import Net
    from valuerepair.oracles.oracle import Oracle

FILE = "rates.json"
_POSITIONS = 512
_BYTES, _FILES = 32_000_000, 4  # unpacked, of at most so many files of the archives
_JUDGE_S, _NET_S, _TRAIN_S = 6.0, 1.0, 4.0
_GAMES = 128  # at once, as a match has them at most
_Rate = Annotated[float, msgspec.Meta(gt=0, le=1e12)]


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured. `positions` are in the archives, about so many; `read` is the time to read them (s), `start`
    that of a command before its work begins (s), `compile` that of a trainer (s). In a second: `searches` and `nodes`
    of the judge, positions the net evaluates (`net`), those a trainer learns from (`train`) and those it judges by
    (`judge`), and `moves` of games that the own search plays."""

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


class _Kept(Record):
    of: dict[str, Any]
    rates: Rates


def rates(settings: Settings, folder: Path, *, quiet: bool = False) -> Rates:
    """The rates that the folder keeps for these settings; else they are measured, and kept there.

    Raises UsageError and ValueRepairError for what will not run: a missing archive, net or engine, or no JAX.
    """
    asked = {
        "archives": list(settings.archives),
        "net": settings.net,
        "deep": settings.deep,
        "only": settings.train.only,
        "batch": settings.train.batch,
        "nodes": settings.play.match_nodes,
    }
    if settings.store:
        asked["store"] = settings.store
    path = folder / FILE
    if path.is_file():
        with suppress(ValueRepairError):  # another version's, or torn: they are measured again
            kept = read_json(path, _Kept, "rates of this machine")
            if kept.of == asked:
                return kept.rates
    if not settings.store and total_bytes(settings.archives) is None:
        raise UsageError(f"{' '.join(settings.archives)}: give files or folders; what is read once cannot be planned")
    with Progress("measuring this machine", quiet=quiet) as progress:
        progress.stage("judge, net, training, games")
        found = _measured_apart(asked)
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(path, None) as partial:
        partial.write_text(json.dumps({"of": asked, "rates": asdict(found)}, indent=2) + "\n", "utf-8")
    return found


def _measured_apart(asked: Mapping[str, Any]) -> Rates:
    """Measured by another process, so that the memory of engines, net and trainer is free when it ends."""
    command = [sys.executable, "-m", __name__]
    begun = time.monotonic()
    done = signals.run(command, text=json.dumps(asked))
    whole = time.monotonic() - begun
    try:
        found = json.loads(done.stdout)
    except ValueError:
        said = " ".join(done.stderr.splitlines()[-1:])
        raise ValueRepairError(f"measuring this machine failed (exit code {done.returncode}): {said}") from None
    if "error" in found:
        raise (UsageError if found["code"] == UsageError.exit_code else ValueRepairError)(found["error"])
    return Rates(start=whole - found.pop("worked") + found.pop("opened"), **found)


# -- the process that measures ----------------------------------------------------------------------------------------


def main() -> None:
    """Reads what is asked from standard input, writes the rates, or the error, to standard output."""
    signals.install()
    asked = json.loads(sys.stdin.read())
    try:
        found: dict[str, Any] = _measure(asked)
    except ValueRepairError as error:
        found = {"error": str(error), "code": error.exit_code}
    except OSError as error:
        found = {"error": f"{error.filename or ''}: {error.strerror or error}", "code": 1}
    json.dump(found, sys.stdout)


def _measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    from valuerepair.nets.net import open_net
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file
    from valuerepair.oracles.open import open_oracle
    from valuerepair.training.train import check_jax

    begun = time.monotonic()
    check_jax()
    file = read_net_file(locate(asked["net"]))
    if file.header is None:
        raise UsageError(f"--net {asked['net']}: an ONNX file cannot be trained; give the .pb.gz that it was made of")
    batch, found = _read_store(asked["store"], asked["net"]) if "store" in asked else _read(asked["archives"])
    with open_net(asked["net"]):
        pass  # the first time a net is converted
    opening = time.monotonic()
    with open_net(asked["net"]) as net:
        net.evaluate(batch)
        opened = time.monotonic() - opening
        found["net"] = len(batch) * _rate(lambda: net.evaluate(batch), _NET_S)
        oracle = open_oracle(asked["deep"], net_path=asked["net"], net=net)
        try:
            found |= _judge(oracle, batch, _JUDGE_S)
        finally:
            oracle.close(cancel=True)
        found["moves"] = _moves(net, batch, asked["nodes"])
    found |= _training(str(file.path), file.header.input_format, batch, asked)
    return {**found, "opened": opened, "worked": time.monotonic() - begun}


def _rate(work: Callable[[], object], seconds: float) -> float:
    """How often a second `work` can be done, measured over some seconds."""
    begun, done, spent = time.monotonic(), 0, 0.0
    while spent < seconds or done < 2:
        work()
        done, spent = done + 1, time.monotonic() - begun
    return done / spent


class _Part(NamedTuple):
    """Some positions of a file; how many it has, and the seconds to read it, about."""

    batches: list[PositionBatch]
    positions: float
    seconds: float


def _read(archives: list[str]) -> tuple[PositionBatch, dict[str, Any]]:
    """Some positions, how many there are in all, and how long reading all takes, by parts of some of the files."""
    from valuerepair.chess.positions import PositionBatch

    files = [source.path for source in find_sources(archives)]
    some = files[:: -(-len(files) // _FILES)]
    # One by one: a byte of one file may hold ten times as much as one of another.
    parts, failed = [], None
    for path in some:
        try:
            parts.append(_part(path, len(some)))
        except ValueRepairError as error:  # a file without games, beside others
            failed = error
    if failed is not None and not parts:
        raise failed
    batch = PositionBatch.concat([one for part in parts for one in part.batches])
    if not len(batch):
        raise UsageError(f"{' '.join(archives)}: no position that vr mine would take (the first is after 8 plies)")
    more = (total_bytes(files) or 1) / (total_bytes(some) or 1)
    positions, read = (more * sum(each) for each in zip(*((p.positions, p.seconds) for p in parts), strict=True))
    return batch, {"positions": int(positions), "read": read}


def _read_store(path: str, net: str) -> tuple[PositionBatch, dict[str, Any]]:
    """As `_read`, of the positions of a store that training learns from, in games and beside them."""
    from valuerepair.nets.registry import locate
    from valuerepair.question import Question
    from valuerepair.store.store import Store
    from valuerepair.training.judged import JudgedPositions

    with Store.open(path) as store:
        begun = time.monotonic()
        ids = JudgedPositions(store, Question(net=str(locate(net)))).ids
        some = ids[:: max(1, len(ids) // _POSITIONS)][:_POSITIONS]
        return store.positions(some), {"positions": len(ids), "read": time.monotonic() - begun}


def _part(path: str, of: int) -> _Part:
    """What a part of one `of` so many files says of it."""
    from valuerepair.archives.options import SampleOptions
    from valuerepair.archives.rows import ReadReport
    from valuerepair.archives.sampling import sample

    size, read, report = total_bytes([path]), [0], ReadReport()
    options = SampleOptions(positions=max(1, _POSITIONS // of), per_game=None, max_bytes=_BYTES // of)

    def on_bytes(count: int) -> None:
        read[0] += count

    begun = time.monotonic()
    batches = list(sample([path], options, report, on_bytes=on_bytes))
    seconds = time.monotonic() - begun
    share = min(1.0, read[0] / size) if size else 1.0
    if share > 0.99:
        share = 1.0
    return _Part(batches, (report.positions + report.not_drawn) / share, seconds / share)


def _judge(oracle: Oracle, batch: PositionBatch, seconds: float) -> dict[str, float]:
    """Searches a second while as many as run at once are under way, over some seconds.

    The first searches only warm up: engines start with them, tables are filled, kernels are loaded.
    """
    from valuerepair.store.rows import DeepResult

    positions = chain.from_iterable(repeat(batch))
    waiting = deque(oracle.submit(position) for position in islice(positions, 2 * oracle.workers))
    for _ in range(oracle.workers):
        waiting.popleft().result()
    begun, spent, done, nodes = time.monotonic(), 0.0, 0, 0
    while spent < seconds or done < oracle.workers:
        waiting.append(oracle.submit(next(positions)))
        result = waiting.popleft().result()
        done, nodes = done + 1, nodes + (result.nodes if isinstance(result, DeepResult) else 0)
        spent = time.monotonic() - begun
    return {"searches": done / spent, "nodes": max(nodes, 1) / spent}


def _moves(net: Net, batch: PositionBatch, nodes: int) -> float:
    """By as many searches at once as a match has games."""
    from valuerepair.mcts.params import SearchParams
    from valuerepair.oracles.searching import search_positions

    some = list(islice(batch, _GAMES))
    for _ in search_positions(net, SearchParams(), some[:2], nodes=2):
        pass  # kernels are loaded
    begun = time.monotonic()
    done = sum(1 for _ in search_positions(net, SearchParams(), some, nodes=nodes))
    return done / (time.monotonic() - begun)


def _training(net: str, form: int, batch: PositionBatch, asked: Mapping[str, Any]) -> dict[str, float]:
    import numpy as np

    from valuerepair.training.graph import NetGraph
    from valuerepair.training.learner import Learner
    from valuerepair.training.losses import LossWeights
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.samples import of_positions, wdl_of

    begun = time.monotonic()
    graph = NetGraph.open(net)
    size, only = asked["batch"], asked["only"]
    weights = LossWeights(policy=float(only != "value"), moves_left=0.0, policy_kl=float(only != "value"))
    learner = Learner(graph, TrainOptions(only=only, batch=size), weights)
    nothing = np.zeros(len(batch))
    samples = of_positions(batch, nothing, wdl_of(nothing, nothing), "fen_only", form)
    one = samples.take(np.arange(size) % len(batch)).batch()
    if only == "value":
        learner.keep([samples])  # as a training does
    state = learner.begin()

    def step() -> None:
        nonlocal state
        state, said = learner.step(state, one, 0)
        float(said["loss"])

    def judge() -> None:
        np.asarray(learner.evaluate(learner.judged(state), one).q)

    step()
    judge()
    compiled = time.monotonic() - begun
    return {"compile": compiled, "train": size * _rate(step, _TRAIN_S), "judge": size * _rate(judge, _TRAIN_S / 2)}


if __name__ == "__main__":
    main()
