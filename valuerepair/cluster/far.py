"""The net and the oracle of a cluster: what the pipeline holds in place of those on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from valuerepair.cluster.dispatcher import Dispatcher
from valuerepair.cluster.terms import Role
from valuerepair.cluster.worker import NetJob, SearchJob
from valuerepair.deep.oracle import ClimbOutcome, DeepFailure, DeepOutcome, GoOn, OracleIdentity
from valuerepair.errors import ValueRepairError
from valuerepair.nets import NetIdentity, NetValues
from valuerepair.nets.net import Priors
from valuerepair.positions import Origin, Position, PositionBatch


class ClusterNet:
    """A net on a cluster; see `mining.workers.FarNet`."""

    def __init__(self, dispatcher: Dispatcher, history_fill: str) -> None:
        """Waits for the first worker that has the net. Raises ValueRepairError."""
        self._dispatcher, self.history_fill = dispatcher, history_fill
        offer = dispatcher.agreed(Role.NET)
        assert isinstance(offer.identity, NetIdentity)
        self.identity, self.provider = offer.identity, offer.provider

    @property
    def at_once(self) -> int:
        return self._dispatcher.capacity(Role.NET)

    def answer(self, batch: PositionBatch, search: int | None) -> Future[tuple[NetValues, NDArray[np.float64] | None]]:
        """Values, and where `search` is not None signals with a small search of so many nodes."""
        return self._dispatcher.submit(Role.NET, NetJob(_slim(batch), search), _no_values)

    def evaluate(self, batch: PositionBatch) -> NetValues:
        """As `nets.Net.evaluate`. Raises ValueRepairError."""
        values, _ = self.answer(batch, None).result()
        return values

    def priors(self, batch: PositionBatch) -> Priors:
        """As `nets.Net.priors`. Raises ValueRepairError."""
        job = NetJob(_slim(batch), priors=True)
        found: Priors = self._dispatcher.submit(Role.NET, job, _no_values).result()
        return found


class ClusterOracle:
    """A deep evaluator on a cluster; see `deep.Climber`. `workers` are the searches that it does at once just now."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Waits for the first worker that has the engine. Raises ValueRepairError."""
        self._dispatcher = dispatcher
        identity = dispatcher.agreed(Role.SEARCH).identity
        assert isinstance(identity, OracleIdentity)
        self._identity = identity

    @property
    def identity(self) -> OracleIdentity:
        return self._identity

    @property
    def workers(self) -> int:
        return self._dispatcher.at_once(Role.SEARCH)

    @property
    def capacity(self) -> int:
        """Searches worth having submitted: the chunks in flight, and as many more."""
        return self._dispatcher.capacity(Role.SEARCH)

    def submit(self, position: Position) -> Future[DeepOutcome]:
        """Queues a search; see `deep.Oracle`."""
        return self._dispatcher.submit(Role.SEARCH, SearchJob(replace(position, origin=Origin())), DeepFailure)

    def climb(self, position: Position, rungs: Sequence[int], go_on: GoOn) -> Future[ClimbOutcome]:
        """Queues a search in steps; see `deep.Climber`. `go_on` is asked on the worker: it must be data, or pickle."""
        job = SearchJob(replace(position, origin=Origin()), tuple(rungs), go_on)
        return self._dispatcher.submit(Role.SEARCH, job, DeepFailure)

    def close(self, *, cancel: bool = False) -> None:
        """Cancels what has not begun; with `cancel` abandons what is in flight too, else waits for it."""
        self._dispatcher.cancel(Role.SEARCH, begun=cancel)
        while not cancel and self._dispatcher.busy(Role.SEARCH):
            time.sleep(0.05)

    def __enter__(self) -> ClusterOracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None)


def _slim(batch: PositionBatch) -> PositionBatch:
    """The batch without what the net does not ask for: headers are most of a position."""
    return replace(batch, origin=[Origin(played=origin.played) for origin in batch.origin])


def _no_values(reason: str, attempts: int) -> None:
    raise ValueRepairError(f"the net failed on {attempts} workers for the same positions, at last: {reason}")
