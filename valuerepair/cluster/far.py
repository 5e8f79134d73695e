"""The net and the oracle of a cluster: what the pipeline holds in place of those on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import fields, replace
from types import TracebackType
from typing import NoReturn

import numpy as np

from valuerepair.chess.origins import Origin
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.cluster.chunks import Seam
from valuerepair.cluster.dispatcher import Dispatcher
from valuerepair.cluster.terms import Role
from valuerepair.cluster.worker import NetAnswer, NetJob, SearchJob
from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import NetIdentity, NetValues, Priors
from valuerepair.oracles.oracle import ClimbOutcome, DeepFailure, DeepOutcome, GoOn, OracleIdentity


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

    def answer(self, batch: PositionBatch) -> Future[NetAnswer]:
        """Values.

        A batch that workers die of is cut down to the positions that kill them: these are `failed`, and the others'
        values may differ in their last bits from those of the whole batch.
        """
        return self._dispatcher.submit(Role.NET, NetJob(_slim(batch)), _no_value, Seam(_halves, _joined))

    def evaluate(self, batch: PositionBatch) -> NetValues:
        """As `nets.Net.evaluate`. Raises ValueRepairError, for a position that kills workers too."""
        answer = self.answer(batch).result()
        for reason, attempts in answer.failed.values():
            _raise_failed(reason, attempts)
        return answer.values

    def priors(self, batch: PositionBatch) -> Priors:
        """As `nets.Net.priors`. Raises ValueRepairError, for a position that kills workers too."""
        job = NetJob(_slim(batch), priors=True)
        found: Priors = self._dispatcher.submit(Role.NET, job, _raise_failed, Seam(_halves, _joined_priors)).result()
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
    return replace(batch, origin=[Origin()] * len(batch))


def _raise_failed(reason: str, attempts: int) -> NoReturn:
    raise ValueRepairError(f"the net failed on {attempts} workers for the same position, at last: {reason}")


def _no_value(reason: str, attempts: int) -> NetAnswer:
    nothing = np.empty(0, np.float32)
    values = NetValues(nothing, np.empty((0, 3), np.float32), np.empty(0, np.uint16), nothing, nothing, nothing)
    return NetAnswer(values, {0: (reason, attempts)})


def _halves(job: NetJob) -> tuple[NetJob, NetJob] | None:
    rows, half = np.arange(len(job.batch)), len(job.batch) // 2
    if not half:
        return None
    return job._replace(batch=job.batch.take(rows[:half])), job._replace(batch=job.batch.take(rows[half:]))


def _joined(first: NetAnswer, second: NetAnswer) -> NetAnswer:
    columns = (field.name for field in fields(NetValues))
    values = {name: np.concatenate([getattr(half.values, name) for half in (first, second)]) for name in columns}
    begin = len(first.values.q) + len(first.failed)
    failed = {**first.failed, **{begin + row: why for row, why in second.failed.items()}}
    return NetAnswer(NetValues(**values), failed)


def _joined_priors(first: Priors, second: Priors) -> Priors:
    offsets = np.concatenate([first[1], second[1][1:] + first[1][-1]])
    return np.concatenate([first[0], second[0]]), offsets, np.concatenate([first[2], second[2]])
