"""From ``--deep`` to a running oracle: finding the engine and the net, default options, time limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from valuerepair.cores import usable_cores
from valuerepair.engines.find import find_engine
from valuerepair.engines.spec import MCTS, STOCKFISH, EngineSpec, engine_path
from valuerepair.engines.uci import EngineSetup
from valuerepair.errors import UsageError
from valuerepair.oracles.oracle import Oracle
from valuerepair.oracles.spec import DEFAULT_NODES, RECORDED, parse_spec
from valuerepair.oracles.uci_oracle import UciOracle, UciOracleSetup, by_content

if TYPE_CHECKING:
    from valuerepair.nets.net import Net

log = logging.getLogger(__name__)

START_SECONDS = 300.0
# The hash is cleared before every search, which costs some 1.4 ms at 16 MB and 6 ms at 64 MB.
_SMALL_HASH_NODES = 2_000_000
# lc0 without anything that makes a search depend on time, batching or what was searched before. Without a cache of
# evaluations prefetching is lost work: it makes a search on the CPU 25 times slower, and changes nothing in it.
_LC0_PLAIN = {
    "Threads": "1",
    "MinibatchSize": "1",
    "SmartPruningFactor": "0",
    "NNCacheSize": "0",
    "MaxPrefetch": "0",
    "TaskWorkers": "0",
    "SolidTreeThreshold": "2000000000",
    "MovesLeftMaxEffect": "0",
    "VerboseMoveStats": "true",
    "UCI_ShowWDL": "true",
}
CPU_BACKENDS = ("eigen", "blas", "dnnl", "mkl", "trivial", "random", "onnx-cpu")
_GPU_WORKERS = 2


def open_oracle(
    spec: str | EngineSpec | None,
    *,
    net_path: str | None,
    net: Net | None = None,
    workers: int | None = None,
) -> Oracle:
    """Opens the deep evaluator of a ``--deep``, text or parsed, with `workers` searches at once.

    None is Stockfish at 1,000,000 nodes where it is on the machine, else the project's own search with the net at
    200 nodes. `net_path` is the net of lc0 and of the own search where the text gives no weights; `net`, that
    file opened, is then shared and must outlive the oracle. By default an engine a core searches, or as many trees
    as fill the net's batches. The first search is made here, so that a
    missing or wrong engine is known at once. Raises UsageError and ValueRepairError.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"--jobs {workers}: must be at least 1")
    parsed = chosen_spec(spec)
    if parsed.kind == RECORDED:
        raise UsageError("--deep recorded: recorded evaluations belong to archives, and only vr mine reads those")
    if parsed.kind == "mcts":
        return _mcts(parsed, net_path, net, workers)
    return _engines(parsed, net_path, workers)


def chosen_spec(spec: str | EngineSpec | None) -> EngineSpec:
    """What a ``--deep`` asks for; for None what this machine has. Raises UsageError."""
    if spec is not None:
        return parse_spec(spec) if isinstance(spec, str) else spec
    if find_engine("stockfish") is not None:
        return EngineSpec(STOCKFISH, {"nodes": DEFAULT_NODES[STOCKFISH]})
    log.info(
        f"no Stockfish on this machine (apt-get install stockfish): the deep search is {DEFAULT_NODES['mcts']:,} nodes "
        "of the built-in MCTS with the same net"
    )
    return EngineSpec(MCTS, {"nodes": DEFAULT_NODES[MCTS]})


def _mcts(spec: EngineSpec, net_path: str | None, shared: Net | None, workers: int | None) -> Oracle:
    """The project's own search, with the net that is open already unless another is named."""
    from valuerepair.nets.net import open_net
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file
    from valuerepair.oracles.mcts_oracle import open_mcts, search_params

    if shared is None:
        net = open_net(spec.weights or net_path)
    elif spec.weights is None or read_net_file(locate(spec.weights)).sha256 == shared.identity.sha256:
        net = shared
    else:
        net = open_net(spec.weights, history_fill=shared.history_fill, **shared.opened_with)
    own = net is not shared
    try:
        params = search_params(spec.options, net)
        return open_mcts(params, spec.limits["nodes"], spec.trees or workers, net, owned=own)
    except BaseException:
        if own:
            net.close()
        raise


def _engines(spec: EngineSpec, net_path: str | None, workers: int | None) -> Oracle:
    """UCI engines: lc0 with a net, Stockfish, or any other."""
    setup = _lc0(spec, net_path) if spec.kind == "lc0" else alpha_beta_setup(spec)
    threads = next((v for k, v in setup.engine.options.items() if k.lower() == "threads"), "1")
    count = workers or max(1, usable_cores() // max(1, int(threads) if threads.isdecimal() else 1))
    oracle = UciOracle(setup, count)
    backend = oracle.identity.options.get("Backend", "eigen")
    if workers is None and count > _GPU_WORKERS and backend not in CPU_BACKENDS:
        # Each process on a graphics card takes its own share of memory there.
        oracle.close(cancel=True)
        count = _GPU_WORKERS
        oracle = UciOracle(setup, count)
    engines = "1 engine" if count == 1 else f"{count} engines at once"
    log.info(f"deep search: {oracle.identity.label}, {engines} ({setup.engine.path})")
    return oracle


def alpha_beta_setup(spec: EngineSpec, hash_mb: str | None = None) -> UciOracleSetup:
    """Stockfish, or any unknown engine; its hash is `hash_mb`, by default as much as its limit needs."""
    path = engine_path(spec, lambda: find_engine(spec.kind))
    nodes = spec.limits.get("nodes")
    hash_mb = hash_mb or ("16" if nodes is not None and nodes <= _SMALL_HASH_NODES else "64")
    usual = {"Threads": "1", "Hash": hash_mb, "UCI_ShowWDL": "true"}
    required = dict(spec.options)
    offered = {name: value for name, value in usual.items() if name.lower() not in {n.lower() for n in required}}
    # Some 20,000 nodes a second on a busy machine; of an unknown engine, which may run a net, much less is expected.
    slow = 60 + (nodes or 0) / 20_000 if spec.kind == "stockfish" else 600 + (nodes or 0) / 5_000
    # An engine that an interpreter runs is one of its arguments.
    named = [by_content(word, "") for word in spec.arguments]
    program = {"program": " ".join(new for new, old in zip(named, spec.arguments, strict=True) if new != old)}
    identity = program if program["program"] else {}
    return UciOracleSetup(
        spec.kind,
        EngineSetup(path, spec.arguments, required, offered, spec.start_timeout or START_SECONDS),
        spec.limits,
        _first_seconds(spec.limits, slow),
        spec.timeout,
        identity_options=identity,
        plain={**usual, **identity},
    )


def _lc0(spec: EngineSpec, net_path: str | None) -> UciOracleSetup:
    from valuerepair.nets.registry import locate, path_to_keep
    from valuerepair.nets.weights import read_net_file

    path = engine_path(spec, _find_lc0)
    wanted = spec.weights or net_path
    if wanted is None:
        raise UsageError("--deep lc0: needs a net: lc0:nodes=1000,weights=FILE.pb.gz")
    net = read_net_file(locate(wanted))
    if net.header is None:
        raise UsageError(f"--deep lc0: {net.path} is no lc0 net; lc0 needs the .pb.gz: weights=FILE.pb.gz")
    given = {name.lower() for name in spec.options}
    if "weightsfile" in given:  # the identity would name another net
        raise UsageError("--deep lc0: option.WeightsFile has no place here: give the net as weights=FILE.pb.gz")
    if "verbosemovestats" in given:  # the exact Q is read from them
        raise UsageError("--deep lc0: option.VerboseMoveStats has no place here: it is always on")
    plain = {name: value for name, value in _LC0_PLAIN.items() if name.lower() not in given}
    required = {"WeightsFile": str(Path(net.path).absolute()), **spec.options}
    # An lc0.config beside the binary or in the working directory would change the search unseen: an empty name is none.
    arguments = spec.arguments or ("--config=",)
    identity: Mapping[str, str | None] = {"WeightsFile": f"sha256:{net.sha256}", "VerboseMoveStats": None}
    nodes = spec.limits.get("nodes", 0)
    return UciOracleSetup(
        "lc0",
        EngineSetup(path, arguments, required, plain, spec.start_timeout or START_SECONDS),
        spec.limits,
        _first_seconds(spec.limits, 60 + nodes / 5),
        spec.timeout,
        net=net.name,
        identity_options=identity,
        plain={**_LC0_PLAIN, "WeightsFile": f"sha256:{net.sha256}", "Backend": "eigen", "HistoryFill": "fen_only"},
        recorded_defaults=("Backend", "HistoryFill"),
        net_file=(net.sha256, kept) if (kept := path_to_keep(net.sha256, net.path)) else None,
    )


def _find_lc0() -> str | None:
    from valuerepair.nets.conversion import find_lc0

    return find_lc0() or find_engine("lc0")


def _first_seconds(limits: Mapping[str, int], by_nodes: float) -> float:
    """Time for the first searches: by nodes; else by the clock; else half an hour, as a depth can take any time."""
    if "nodes" in limits:
        return by_nodes + limits.get("movetime", 0) / 1000
    return 60 + limits["movetime"] / 1000 if "movetime" in limits else 1800.0
