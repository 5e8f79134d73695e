"""The driver's side of a cluster: a thread whose event loop hands batches of jobs to Dask and takes results back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import signal
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from distributed import KilledWorker

from valuerepair.cluster import worker
from valuerepair.cluster.connection import ClusterAddress, connected, scheduler_of
from valuerepair.cluster.protocol import Assignment, Offer, Role, WorkerFailed, difference, reason_of
from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import NetValues
from valuerepair.text import printable

log = logging.getLogger(__name__)

CONNECT_S = 15.0
# How long to wait for a scheduler that stopped answering: its supervisor may restart it.
RETURN_S = 120.0
ALL_REFUSED_S = 5.0
NO_WORKER_S = 600.0
_POLL_S = 0.5
_LINGER_S = 0.02  # positions come one by one, so a batch waits this long for more of them
_LEAVE_S = 10.0
# The first offers wait this long for those of slower workers before a majority settles what all must have.
_SETTLE_S = 60.0
_IN_FLIGHT = 3  # batches per worker: one at work, and enough to stay busy while the next is on its way
# Batches grow until their round trip takes this many seconds; by then sending them costs next to nothing.
_BATCH_S, _MOST_GROWTH = 3.0, 64
_CHOICE = 32  # Dask chooses among at most this many workers for a batch; naming more only makes messages longer
_LOSSES_LOGGED = 10
_SUSPICIOUS = 3  # workers that died with a job; fewer may have died of another job
_HOPELESS = 12  # workers that may die on the net before any batch has come back


@dataclass(eq=False)
class Job:
    """A method of net or judge with its arguments.

    `fail` makes the result of a job that is given up, from the reason and the number of lost workers. `lost` counts the
    workers that died with the job. After `_SUSPICIOUS` of them it becomes a `suspect`, which is tried alone; after as
    many more it is given up.
    """

    role: Role
    call: tuple[Any, ...]
    future: Future[Any]
    fail: Callable[[str, int], Any]
    lost: int = 0
    suspect: bool = False
    lost_before: int = 0  # `lost` when the job became a suspect

    def settle(self, outcome: Callable[[], Any]) -> None:
        """Ends the job with an outcome, or with the error that it raises."""
        try:
            self.future.set_result(outcome())
        except Exception as error:
            self.future.set_exception(error)

    def suspects(self) -> list[Job]:
        """The jobs to try alone: this one, or one for each of its positions; empty if it was alone already."""
        method, positions = self.call[:2]
        if method != "evaluate" or len(positions) < 2:
            was_alone, self.suspect, self.lost_before = self.suspect, True, self.lost
            return [] if was_alone else [self]
        calls = [(method, positions.take(np.array([row]))) for row in range(len(positions))]
        jobs = [Job(self.role, call, Future(), self.fail, self.lost, True, self.lost) for call in calls]

        def join() -> Any:
            return NetValues.concat([job.future.result() for job in jobs])

        def end(_: Future[Any]) -> None:
            if all(job.future.done() for job in jobs):
                self.settle(join)

        for job in jobs:
            job.future.add_done_callback(end)
        return jobs


@dataclass(eq=False)
class JobBatch:
    """Jobs of one role that go together to one of `workers`."""

    role: Role
    jobs: list[Job]
    workers: frozenset[str]


@dataclass(eq=False)
class RemoteWorker:
    """A worker as the driver sees it: by role its offer, or why it was refused; empty until it answers."""

    address: str
    name: str
    gpu: bool = False
    has: dict[Role, Offer | str] = field(default_factory=dict)
    joining: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        name = printable(self.name, 80)
        return self.address if name in ("", self.address) else f"{name} ({self.address})"


class Dispatcher:
    """Runs jobs on a cluster, for one session. Any thread may call public methods; private ones belong to the loop.

    Once the cluster can no longer be used, futures raise ValueRepairError.
    """

    def __init__(self, where: ClusterAddress, assignment: Assignment, own_offers: Mapping[Role, Offer]) -> None:
        """`own_offers`: the offers of the driver itself, which those of workers must equal."""
        self._where, self._assignment = where, assignment
        self._agreed = dict(own_offers)
        self._workers: dict[tuple[str, str], RemoteWorker] = {}  # by address and folder: each process has its own
        self._able: dict[Role, dict[str, Offer]] = {role: {} for role in Role}  # workers that get work, by address
        self._pending: dict[Role, deque[Job]] = {role: deque() for role in Role}
        self._suspects: deque[Job] = deque()
        self._in_flight: dict[JobBatch, asyncio.Task[None]] = {}
        self._growth = dict.fromkeys(Role, 1)
        self._first_offer = self._silent_since = 0.0
        self._hope_since = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._last_lost: RemoteWorker | None = None
        self._error: Exception | None = None
        self._is_closing = False
        self._settled = {role: threading.Event() for role in Role}
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="cluster", daemon=True)

    def start(self) -> None:
        """Connects. Raises ValueRepairError when no scheduler answers."""
        self._thread.start()
        self._wait(self._started)

    def agreed(self, role: Role) -> Offer:
        """The offer that all workers have in common for a role; waits for the first. Raises ValueRepairError."""
        self._wait(self._settled[role])
        return self._agreed[role]

    def _wait(self, event: threading.Event) -> None:
        while self._thread.is_alive() and not event.wait(0.2):
            continue
        if self._error is not None:
            raise self._error

    def at_once(self, role: Role) -> int:
        """Jobs that all workers together do at a time."""
        return sum(offer.at_once for offer in self._able[role].values())

    def capacity(self, role: Role) -> int:
        """Jobs to have submitted at a time: twice those in flight."""
        return max(2, 2 * _IN_FLIGHT * self._batch_size(role) * len(self._able[role]))

    def _batch_size(self, role: Role) -> int:
        """Half of what a worker does at a time, so that its engines stay busy while the next batch is on its way. This
        number grows with short round trips."""
        widest = max((offer.at_once for offer in self._able[role].values()), default=0)
        return math.ceil(widest / 2 * self._growth[role])

    def submit(self, role: Role, call: tuple[Any, ...], fail: Callable[[str, int], Any]) -> Future[Any]:
        """Queues a job. Its future can be cancelled until it goes to a worker."""
        job = Job(role, call, Future(), fail)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and `_error` says why
            self._loop.call_soon_threadsafe(self._arrive, job)
        if self._error is not None and not job.future.done():
            job.future.set_exception(self._error)
        return job.future

    def _arrive(self, job: Job) -> None:
        if not self._pending[job.role]:
            self._loop.call_later(_LINGER_S, self._wake.set)
        self._pending[job.role].append(job)

    def close(self) -> None:
        """Leaves the cluster: cancels unfinished jobs; workers close this session's net and engines."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._leave)
            self._thread.join(3 * _LEAVE_S)

    def _leave(self) -> None:
        # Before Python 3.12, wait_for loses a cancellation that comes at the moment at which its awaitable ends.
        self._is_closing = True
        self._task.cancel()

    async def _main(self) -> None:
        """Works until it is cancelled or the cluster can no longer be used."""
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C does not reach workers that this thread starts; it ends them
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.ensure_future(self._connect_and_serve())
        try:
            await self._task
        except asyncio.CancelledError:
            pass  # the driver closes
        except Exception as error:
            is_ours = isinstance(error, ValueRepairError)
            self._error = error if is_ours else ValueRepairError(f"--cluster {self._where}: {reason_of(error)}")
        for job in [*self._suspects, *(job for role in Role for job in self._pending[role])]:
            if not (self._error is None and job.future.cancel()) and not job.future.done():
                job.future.set_exception(self._error or CancelledError())

    async def _connect_and_serve(self) -> None:
        async with scheduler_of(self._where) as address, connected(address, CONNECT_S, RETURN_S) as self._client:
            self._started.set()
            next_look = 0.0
            try:
                while not self._is_closing:
                    if time.monotonic() >= next_look:
                        await self._look(address)
                        next_look = time.monotonic() + max(_POLL_S, len(self._workers) / 200)
                    if self._error is not None:
                        raise self._error
                    self._feed()
                    self._wake.clear()
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), _POLL_S)
                    await asyncio.sleep(0)  # so that all jobs that have arrived are queued
            finally:
                addresses = [remote.address for remote in self._workers.values()]
                self._forget_all()
                with contextlib.suppress(Exception):  # workers that do not answer close when idle
                    session = self._assignment.session
                    leaving = self._client.run(worker.leave, session, workers=addresses, on_error="ignore")
                    await asyncio.wait_for(leaving, _LEAVE_S)

    async def _look(self, address: str) -> None:
        """Updates the list of workers. Dask passes the batches of lost ones to others, if there are any."""
        try:
            if self._client.status != "running":
                raise OSError("Dask's client is looking for its scheduler")
            facts = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), 2 * CONNECT_S)
        except (OSError, asyncio.TimeoutError):
            if not self._silent_since:
                self._silent_since = time.monotonic()
                self._forget_all()
                log.info(f"the scheduler at {address} does not answer: waiting {RETURN_S / 60:.0f} minutes for it")
            if time.monotonic() > self._silent_since + RETURN_S:
                again = "what was scored is kept: run the same command once there is one"
                raise ValueRepairError(f"--cluster: no scheduler answers at {address}; {again}") from None
            return
        if self._silent_since:
            self._silent_since = 0.0
            log.info(f"the scheduler at {address} is back")
        present = {
            (worker_address, str(description.get("local_directory", ""))): description
            for worker_address, description in facts["workers"].items()
        }
        for process in self._workers.keys() - present.keys():
            lost = self._workers.pop(process)
            if lost.joining is not None and lost.joining.cancel() and not self._first_offer:
                self._counts["lost over the net"] += 1
            if any(isinstance(offer, Offer) for offer in lost.has.values()):
                self._last_lost = lost
                self._log_loss(f"worker {lost} was lost: its work goes to others")
        alive = {remote.address for remote in self._workers.values()}
        for batch in [batch for batch in self._in_flight if alive.isdisjoint(batch.workers)]:
            self._take_back(batch, min(2, len(batch.workers)))  # Dask has tried several, one after another
        for process in present.keys() - self._workers.keys():
            gpu = float(present[process].get("resources", {}).get("GPU", 0)) >= 1
            new = self._workers[process] = RemoteWorker(process[0], str(present[process].get("name", "")), gpu)
            new.joining = asyncio.create_task(self._join(process, new))
        for role in Role:
            self._settle(role)
        self._check_any_left()

    def _log_loss(self, line: str) -> None:
        self._counts["losses"] += 1
        if self._counts["losses"] <= _LOSSES_LOGGED:
            log.info(line + ("; further losses are not shown" if self._counts["losses"] == _LOSSES_LOGGED else ""))

    async def _join(self, process: tuple[str, str], new: RemoteWorker) -> None:
        """Has a worker open net and engines, and sends it the net files that it lacks."""

        async def ask(function: Callable[..., Any], *arguments: Any) -> Any:
            return (await self._client.run(function, *arguments, workers=[new.address]))[new.address]

        try:
            answer = await ask(worker.join, self._assignment, False)
            if isinstance(answer, list):
                for file in answer:
                    log.info(f"sending {file.path.name} ({file.size / 1e6:,.1f} MB) to {new.address}")
                    await ask(worker.keep, file, await asyncio.to_thread(file.path.read_bytes))
                answer = await ask(worker.join, self._assignment, True)
        except OSError:  # the worker or the scheduler has ended, which `_look` sees, too
            await asyncio.sleep(_POLL_S)
            self._workers.pop(process, None)
            return
        except Exception as error:
            answer = dict.fromkeys(Role, reason_of(error))
        self._first_offer = self._first_offer or time.monotonic()
        for role, offer in answer.items():
            new.has[role] = offer
            if isinstance(offer, str):
                self._refuse(new, role, offer)
            self._settle(role)

    def _refuse(self, refused: RemoteWorker, role: Role, reason: str) -> None:
        """Gives a worker no more work of a role, and says why."""
        refused.has[role] = reason
        log.info(f"worker {refused} is refused for the {role.value}: {reason}")

    def _settle(self, role: Role) -> None:
        """Accepts or refuses workers with offers; the first time, a majority decides what all must have."""
        workers = sorted(self._workers.values(), key=lambda remote: remote.address)
        offers = [offer for remote in workers if isinstance(offer := remote.has.get(role), Offer)]
        if offers and role not in self._agreed:
            if any(role not in remote.has for remote in workers) and time.monotonic() < self._first_offer + _SETTLE_S:
                return
            identities = [offer.identity for offer in offers]
            self._agreed[role] = offers[identities.index(max(identities, key=identities.count))]
        able: dict[bool, dict[str, Offer]] = {True: {}, False: {}}
        for remote in workers:
            if isinstance(offer := remote.has.get(role), Offer):
                if reason := difference(offer.identity, self._agreed[role].identity):
                    self._refuse(remote, role, reason)
                else:
                    able[remote.gpu][remote.address] = offer
        # Workers with a graphics card get the work for it (the net, our own search, lc0 with a GPU backend), the others
        # get the other work; workers that are all of one sort get all work.
        deep = self._assignment.deep
        gpu = role is Role.NET or deep.kind.on_gpu(deep.options)
        self._able[role] = able[gpu] or able[not gpu]
        if self._able[role]:
            self._settled[role].set()
        self._wake.set()

    def _check_any_left(self) -> None:
        """Raises ValueRepairError when a role has no worker and can expect none.

        A queueing system may take its time, but if all workers were refused, or all died while they ran the net, others
        will not do better. If engines always fail, the writer notices by itself.
        """
        where, now, minutes = f"--cluster {self._where}", time.monotonic(), f"{NO_WORKER_S / 60:.0f} minutes"
        if (lost := self._counts["lost over the net"]) >= _HOPELESS and not self._counts["net"]:
            why = "see the workers' own logs, and whether they have enough memory"
            raise ValueRepairError(f"{where}: {lost} workers were lost on the net, and none succeeded; {why}")
        workers, waited = self._workers.values(), now - self._hope_since
        hopeless = [role for role in Role if all(isinstance(remote.has.get(role), str) for remote in workers)]
        if not hopeless:
            self._hope_since, self._counts["no worker logged"] = now, 0
        elif workers and waited > ALL_REFUSED_S:
            *_, last = workers
            raise ValueRepairError(
                f"{where}: no worker is left for the {hopeless[0].value}: {len(workers)} refused, the last one {last}: "
                f"{last.has[hopeless[0]]}"
            )
        elif waited > NO_WORKER_S:
            again = "start some (`dask worker ADDRESS`) and run the same command again"
            raise ValueRepairError(f"{where}: no worker for {minutes}; {again}")
        elif waited > ALL_REFUSED_S and not self._counts["no worker logged"]:
            self._counts["no worker logged"] = 1
            log.info(f"{where}: there is no worker yet: waiting {minutes} for one")

    def _feed(self) -> None:
        """Keeps a few batches per worker in flight. A suspect runs alone on the cluster, so any crash is its own."""
        if self._suspects:
            if not self._in_flight and self._able[self._suspects[0].role]:
                self._launch([self._suspects.popleft()])
            return
        for role in Role:
            pending, most = self._pending[role], _IN_FLIGHT * len(self._able[role])
            room = most - sum(batch.role is role for batch in self._in_flight)
            while pending and room > 0:
                # Towards the end batches shrink, so that all workers finish at the same time.
                size = min(self._batch_size(role), math.ceil(len(pending) / most))
                jobs = [pending.popleft() for _ in range(size)]
                jobs = [job for job in jobs if job.future.running() or job.future.set_running_or_notify_cancel()]
                if jobs:
                    self._launch(jobs)
                    room -= 1

    def _launch(self, jobs: list[Job]) -> None:
        able = list(self._able[jobs[0].role])
        batch = JobBatch(jobs[0].role, jobs, frozenset(random.sample(able, min(_CHOICE, len(able)))))
        self._in_flight[batch] = asyncio.create_task(self._run(batch))

    async def _run(self, batch: JobBatch) -> None:
        """Submits a batch to Dask and settles its jobs, or takes them back."""
        started = time.monotonic()
        future = self._client.submit(
            worker.work,
            *(self._assignment.session, batch.role, [job.call for job in batch.jobs]),
            key=f"vr-{batch.role.name.lower()}-{uuid.uuid4().hex}",
            workers=list(batch.workers),
            priority=10 if batch.role is Role.NET else 0,
        )
        try:
            answers = await future
        except CancelledError:  # the connection was lost, and with it perhaps the batches sent since
            self._forget_all()
        except KilledWorker as error:
            self._last_lost = RemoteWorker(error.last_worker.address, str(error.last_worker.name))
            self._take_back(batch, error.allowed_failures + 1)
        except WorkerFailed as error:
            self._take_back(batch)
            for failed in self._workers.values():
                if failed.address == error.address and error.reason and isinstance(failed.has.get(batch.role), Offer):
                    self._refuse(failed, batch.role, error.reason)
            self._settle(batch.role)
        except Exception as error:  # no worker got the batch
            self._error = ValueRepairError(f"--cluster {self._where}: {reason_of(error)}")
            self._take_back(batch)
        else:
            self._counts[batch.role.value] += 1
            if len(batch.jobs) == self._batch_size(batch.role):
                factor = min(2.0, _BATCH_S / (time.monotonic() - started))
                self._growth[batch.role] = max(1, min(int(self._growth[batch.role] * factor), _MOST_GROWTH))
            for job, answer in zip(batch.jobs, answers, strict=True):
                job.future.set_result(answer)
        finally:
            future.release()
            self._in_flight.pop(batch, None)
            self._wake.set()

    def _take_back(self, batch: JobBatch, lost: int = 0) -> None:
        """Queues a batch again after `lost` workers died with it. If too many did, its jobs become suspects."""
        if (task := self._in_flight.pop(batch, None)) is not None and task is not asyncio.current_task():
            task.cancel()
        self._counts["lost over the net"] += lost if batch.role is Role.NET else 0
        for job in reversed(batch.jobs):
            job.lost += lost
            if job.lost - job.lost_before < _SUSPICIOUS:
                (self._suspects if job.suspect else self._pending[job.role]).appendleft(job)
            elif suspects := job.suspects():
                self._log_loss(f"{job.lost} workers died with the same {job.role.value}: positions are tried alone")
                self._suspects.extendleft(reversed(suspects))
            else:
                reason = f"its worker was lost, the last one {self._last_lost}"
                self._log_loss(f"{job.lost} workers died with the same position: {reason}: it is given up")
                job.settle(partial(job.fail, reason, job.lost))

    def _forget_all(self) -> None:
        """Drops all workers and takes back their jobs."""
        for remote in self._workers.values():
            if remote.joining is not None:
                remote.joining.cancel()
        self._workers.clear()
        self._able = {role: {} for role in Role}
        for batch in list(self._in_flight):
            self._take_back(batch)
