"""A net and a judge that work on a cluster, opened as `mining.judges` opens those of this machine."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from valuerepair.archives.select import U64
from valuerepair.arrays import Moves
from valuerepair.chess.origins import Origin, Origins
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.cluster.connection import ClusterAddress
from valuerepair.cluster.protocol import Assignment, Offer, Role
from valuerepair.engines.kinds import chosen_spec
from valuerepair.errors import UsageError, ValueRepairError, check_least
from valuerepair.mining.judges import Opened
from valuerepair.nets.net import NetIdentity, NetValues, Priors
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import NetFile, read_net_file
from valuerepair.oracles.open import open_judge, without_remarks
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome, Judge
from valuerepair.store.rows import JudgeIdentity
from valuerepair.version import __version__

if TYPE_CHECKING:
    from valuerepair.cluster.dispatcher import Dispatcher

log = logging.getLogger(__name__)


@contextmanager
def open_on_cluster(
    address: ClusterAddress,
    deep: str | None,
    net: str | None,
    workers: int | None = None,
    **net_options: Any,
) -> Iterator[Opened]:
    """Opens net and judge on the workers of a cluster, as `mining.judges.open_run` does on this machine.

    Each worker runs `workers` searches at a time (default: one for each of its threads), and the net on `threads`
    threads. Workers must have the engine of this machine; if it has none, the one that most of them have. Raises
    UsageError and ValueRepairError.
    """
    spec = chosen_spec(deep)
    if not spec.kind.searches:
        raise UsageError(
            f"--cluster {address} with --deep recorded: recorded evaluations are read on this machine and need no "
            "searches, and the net alone needs no cluster: leave --cluster out"
        )
    check_least("--jobs", workers)
    check_least("threads", net_options.get("threads"))
    try:
        import distributed  # noqa: F401  # checks that it is installed
    except ImportError:
        raise ValueRepairError("--cluster: needs Dask: pip install 'valuerepair[cluster]'") from None
    from valuerepair.cluster.dispatcher import Dispatcher

    assignment = Assignment(
        session=f"valuerepair-{uuid.uuid4().hex}",
        version=__version__,
        net=_net_file(net),
        net_options={name: value for name, value in net_options.items() if value is not None},
        deep=spec,
        weights=_net_file(spec.weights) if spec.weights is not None else None,
        searches=workers,
        cores=1 if address.local else None,
    )
    dispatcher = Dispatcher(address, assignment, _own_engine(assignment))
    try:
        dispatcher.start()
        cluster_net = ClusterNet(dispatcher)
        judge = ClusterJudge(dispatcher)
        log.info(f"deep search: {judge.identity.label}, {judge.workers} at once on the cluster {address}, so far")
        log.info(f"net: {cluster_net.identity.name} on the cluster")
        yield Opened(cluster_net, judge)
    finally:
        dispatcher.close()


def _net_file(net: str | None) -> NetFile:
    file = read_net_file(locate(net))
    return replace(file, path=file.path.absolute())


def _own_engine(assignment: Assignment) -> dict[Role, Offer]:
    """The engine of this machine, which all workers must have; empty if this machine cannot open it."""
    if assignment.deep.kind.built_in:
        return {}  # its identity names the kind of device, which may differ here
    try:
        with (
            without_remarks(),
            open_judge(assignment.deep, net_path=str(assignment.net.path), workers=1) as judge,
        ):
            return {Role.SEARCH: Offer(judge.identity)}
    except UsageError:
        raise
    except ValueRepairError as error:
        log.info(f"this machine cannot open the engine ({error}): workers must have the one that most of them have")
        return {}


_TREES = 64  # short searches in one job


class ClusterNet:
    """A net on a cluster."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Waits for the first worker that has the net. Raises ValueRepairError."""
        self._dispatcher = dispatcher
        offer = dispatcher.agreed(Role.NET)
        assert isinstance(offer.identity, NetIdentity)
        self.identity, self.provider = offer.identity, offer.provider

    @property
    def at_once(self) -> int:
        """Batches to have submitted at a time; changes as workers come and go."""
        return self._dispatcher.capacity(Role.NET)

    def answer(self, batch: PositionBatch) -> Future[NetValues]:
        """Queues a batch. The future gives its values, or raises ValueRepairError for a position that kills workers.

        A batch that kills workers is repeated position by position: values may then differ in their last bits.
        """
        return self._dispatcher.submit(Role.NET, ("evaluate", _bare(batch)), _raise_failed)

    def evaluate(self, batch: PositionBatch) -> NetValues:
        """As `nets.net.Net.evaluate`. Raises ValueRepairError, also for a position that kills workers."""
        return self.answer(batch).result()

    def priors(self, batch: PositionBatch) -> Priors:
        """As `nets.net.Net.priors`. Raises ValueRepairError, also for a position that kills workers."""
        priors: Priors = self._dispatcher.submit(Role.NET, ("priors", _bare(batch)), _raise_failed).result()
        return priors

    def search_lines(self, batch: PositionBatch, draws: U64) -> list[Moves]:
        """As `mining.off_game.searched_lines`. Raises ValueRepairError, also for a position that kills workers."""
        cuts = [slice(i, min(i + _TREES, len(batch))) for i in range(0, len(batch), _TREES)]
        parts = [_bare(batch.take(np.arange(cut.start, cut.stop))) for cut in cuts]
        calls = [("search_lines", part, draws[cut]) for part, cut in zip(parts, cuts, strict=True)]
        futures = [self._dispatcher.submit(Role.NET, call, _raise_failed) for call in calls]
        return [line for future in futures for line in future.result()]


def _bare(batch: PositionBatch) -> PositionBatch:
    """The batch without its origins, which no net reads and which take most of a position's bytes."""
    return replace(batch, origin=Origins.unknown(len(batch)))


def _raise_failed(reason: str, attempts: int) -> NoReturn:
    raise ValueRepairError(f"the net failed on {attempts} workers for the same position; the last error: {reason}")


class ClusterJudge(Judge):
    """A judge on a cluster. `workers` is the number of searches that it now runs at a time."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Waits for the first worker that has the engine. Raises ValueRepairError."""
        self._dispatcher, identity = dispatcher, dispatcher.agreed(Role.SEARCH).identity
        assert isinstance(identity, JudgeIdentity)
        self.identity = identity

    @property
    def workers(self) -> int:
        return self._dispatcher.at_once(Role.SEARCH)

    @property
    def capacity(self) -> int:
        return self._dispatcher.capacity(Role.SEARCH)

    def submit(self, position: Position, nodes: int | None = None) -> Future[DeepOutcome]:
        """As `Judge.submit`."""
        return self._dispatcher.submit(Role.SEARCH, ("submit", replace(position, origin=Origin()), nodes), DeepFailure)

    def close(self, *, cancel: bool = False) -> None:
        """Leaves the cluster, which ends the net as well. Abandons searches in flight: wait for their futures first."""
        self._dispatcher.close()
