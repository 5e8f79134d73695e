"""From ``--deep`` to a running judge: finding the engine and the net, default options, time limits."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from valuerepair.engines.kinds import chosen_spec
from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import UsageError, check_least
from valuerepair.nets.devices import usable_cores
from valuerepair.nets.net import Net
from valuerepair.oracles.oracle import Judge
from valuerepair.oracles.uci_oracle import UciJudge

log = logging.getLogger(__name__)

_GPU_WORKERS = 2


@contextmanager
def without_remarks() -> Iterator[None]:
    """Judges opened inside log nothing: they are only looked at, or serve another purpose than deep searches."""
    logger = logging.getLogger("valuerepair.oracles")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def open_judge(
    spec: str | EngineSpec | None,
    *,
    net_path: str | None,
    net: Net | None = None,
    workers: int | None = None,
) -> Judge:
    """Opens the deep evaluator that `spec`, the text of ``--deep`` or its parsed form, names.

    None is Stockfish at 1,000,000 nodes if it is installed, else the project's own search with the net at 200 nodes.
    `net_path` is the net of lc0 and of our own search if `spec` gives no weights. `net` is the net of that file if the
    caller has opened it: the judge shares it, so it must outlive the judge. `workers` is the number of searches at
    once, by default one engine per core, or as many trees as fill the net's batches. The first search is made here, so
    that a missing or wrong engine shows at once. Raises UsageError and ValueRepairError.
    """
    check_least("--jobs", workers)
    parsed = chosen_spec(spec)
    if not parsed.kind.searches:
        raise UsageError("--deep recorded: recorded evaluations belong to archives, and only vr mine reads those")
    if parsed.kind.built_in:
        return _own_search(parsed, net_path, net, workers)
    return _engines(parsed, net_path, workers)


def _own_search(spec: EngineSpec, net_path: str | None, shared: Net | None, workers: int | None) -> Judge:
    """The project's own search, with the `shared` net unless the spec names another."""
    from valuerepair.nets.net import open_net
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file
    from valuerepair.oracles.mcts_oracle import open_mcts, search_params

    if shared is None:
        net = open_net(spec.weights or net_path)
    elif spec.weights is None or read_net_file(locate(spec.weights)).sha256 == shared.identity.sha256:
        net = shared
    else:
        net = open_net(spec.weights, **shared.opened_with)
    is_owned = net is not shared
    try:
        params = search_params(spec.options)
        return open_mcts(params, spec.limits["nodes"], spec.trees or workers, net, owned=is_owned)
    except BaseException:
        if is_owned:
            net.close()
        raise


def _engines(spec: EngineSpec, net_path: str | None, workers: int | None) -> Judge:
    """A pool of UCI engines."""
    setup = spec.kind.judge(spec, net_path)
    threads = next((v for k, v in setup.engine.options.items() if k.lower() == "threads"), "1")
    count = workers or max(1, usable_cores() // max(1, int(threads) if threads.isdecimal() else 1))
    judge = UciJudge(setup, count)
    if workers is None and count > _GPU_WORKERS and spec.kind.on_gpu(judge.identity.options):
        # Each process takes its own share of the graphics card's memory.
        judge.close(cancel=True)
        count = _GPU_WORKERS
        judge = UciJudge(setup, count)
    engines = "1 engine" if count == 1 else f"{count} engines at once"
    log.info(f"deep search: {judge.identity.label}, {engines} ({setup.engine.path})")
    return judge
