"""From a command line's words to a net and an oracle on a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from valuerepair import __version__
from valuerepair.archives.options import SampleOptions
from valuerepair.cluster.address import ClusterAddress, parse_cluster
from valuerepair.cluster.terms import NetFileFacts, Offer, Role, Terms
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.oracles.spec import RECORDED
from valuerepair.runs.evaluators import Opened, open_evaluators


def evaluators(cluster: str | None) -> Callable[..., AbstractContextManager[Opened]]:
    """What opens net and oracle: on this machine, or for a ``--cluster`` there. Raises UsageError."""
    return open_evaluators if cluster is None else partial(open_on_cluster, parse_cluster(cluster))


@contextmanager
def open_on_cluster(
    where: str | ClusterAddress,
    archives: Sequence[str],
    sample: SampleOptions,
    deep: str | None,
    net: str | None,
    workers: int | None = None,
    say: Callable[[str], None] = lambda line: None,
    *,
    device: str = "auto",
    threads: int | None = None,
    history_fill: Any = "fen_only",
    winograd: bool = False,
) -> Iterator[Opened]:
    """Opens net and oracle on the workers of a cluster, as `mining.open_evaluators` does on this machine.

    `workers` searches run at once on each worker (default: one a thread of it), and the net on `threads` of each.
    Where this machine has the engine too, workers must have the same one; else the one that most of them have. Raises
    UsageError and ValueRepairError.
    """
    from valuerepair.cluster.dispatcher import Dispatcher
    from valuerepair.cluster.far import ClusterNet, ClusterOracle
    from valuerepair.oracles.open import chosen_spec

    where = parse_cluster(where) if isinstance(where, str) else where
    spec = chosen_spec(deep, say)
    if spec.kind == RECORDED:
        raise UsageError(
            f"--cluster {where} with --deep recorded: recorded evaluations are read on this machine and need no "
            "searches, and the net alone is no work for a cluster: leave --cluster out"
        )
    for name, number in (("--jobs", workers), ("--threads", threads)):
        if number is not None and number < 1:
            raise UsageError(f"{name} {number}: must be at least 1")
    _check_installed()
    facts = _net_facts(net, say)
    weights = _net_facts(spec.weights, say) if spec.weights is not None else None
    terms = Terms(
        session=uuid.uuid4().hex,
        version=__version__,
        net=facts,
        device=device,
        history_fill=history_fill,
        winograd=winograd,
        threads=threads,
        deep=spec,
        weights=None if weights == facts else weights,
        searches=workers,
    )
    dispatcher = Dispatcher(where, terms, _own_engine(terms, say), say)
    try:
        dispatcher.start()
        far_net, oracle = ClusterNet(dispatcher, history_fill), ClusterOracle(dispatcher)
        say(f"deep search: {oracle.identity.label}, {oracle.workers} at once on the cluster {where}, so far")
        say(f"net: {far_net.identity.name} on the cluster")
        yield Opened(far_net, oracle, sample)
    finally:
        dispatcher.close()


def _check_installed() -> None:
    try:
        import distributed  # noqa: F401  # to see whether it is there
    except ImportError:
        raise ValueRepairError("--cluster: needs Dask: pip install 'valuerepair[cluster]'") from None


def _net_facts(net: str | None, say: Callable[[str], None]) -> NetFileFacts:
    from valuerepair.nets.registry import locate
    from valuerepair.nets.weights import read_net_file

    file = read_net_file(locate(net, say))
    return NetFileFacts(str(file.path.absolute()), file.path.name, file.sha256, file.size)


def _own_engine(terms: Terms, say: Callable[[str], None]) -> dict[Role, Offer]:
    """This machine's engine, which is then what all workers must have; nothing where it has none."""
    from valuerepair.oracles.open import open_oracle

    if terms.deep.kind == "mcts":
        return {}  # its identity says on which kind of device it runs
    try:
        with open_oracle(terms.deep, net_path=terms.net.path, workers=1) as oracle:
            return {Role.SEARCH: Offer(oracle.identity)}
    except UsageError:
        raise
    except ValueRepairError as error:
        say(f"this machine is no measure for the workers' engines ({error}): what most of them have is")
        return {}
