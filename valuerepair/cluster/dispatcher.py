"""The driver's side of a cluster: a thread whose event loop hands chunks of jobs to Dask and takes results back."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from distributed import KilledWorker

from valuerepair.cluster import worker
from valuerepair.cluster.connection import ClusterAddress, connected, scheduler_of
from valuerepair.cluster.protocol import Assignment, Offer, Role, WorkerFailed, difference, reason_of
from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import NetValues

CONNECT_S = 15.0
# A scheduler that was there and is gone may come back within this time: its supervisor starts it anew.
RETURN_S = 120.0
ALL_REFUSED_S = 5.0
NO_WORKER_S = 600.0
_POLL_S = 0.5
_LINGER_S = 0.02  # positions come one by one: so long a chunk waits for more of them
_LEAVE_S = 10.0
# The first offers wait so long for those of slower workers before they settle what all must have.
_SETTLE_S = 60.0
_IN_FLIGHT = 3  # chunks a worker: at work, and enough to go on with while the next is on its way
_CHOICE = 32  # of so many workers Dask chooses one for a chunk; to name more would only be a longer message
_LOSSES_SAID = 10
_HOPELESS = 12  # workers lost over the net, where none has come through


@dataclass(eq=False)
class Job:
    """A method of net or oracle with its arguments. `fail` makes of a reason and a count what `future` holds then."""

    call: tuple[Any, ...]
    future: Future[Any]
    fail: Callable[[str, int], Any]

    def settle(self, outcome: Callable[[], Any]) -> None:
        """Ends with an outcome, or with the error that it raises."""
        try:
            self.future.set_result(outcome())
        except Exception as error:
            self.future.set_exception(error)

    def parts(self) -> list[Job]:
        """Of a batch to evaluate a job for each position, with the last of which this one ends; else none."""
        method, batch = self.call[:2]
        if method != "evaluate" or len(batch) < 2:
            return []
        calls = [(method, batch.take(np.array([row]))) for row in range(len(batch))]
        jobs = [Job(call, Future(), self.fail) for call in calls]

        def join() -> Any:
            values, failed = zip(*(job.future.result() for job in jobs), strict=True)
            return NetValues.concat(values), {row: why[0] for row, why in enumerate(failed) if why}

        def end(_: Future[Any]) -> None:
            if all(job.future.done() for job in jobs) and not self.future.done():
                self.settle(join)

        for job in jobs:
            job.future.add_done_callback(end)
        return jobs


@dataclass(eq=False)
class Chunk:
    """Jobs of a role that go to one of `workers` together. `lost`: how many workers died of them so far."""

    role: Role
    jobs: list[Job]
    lost: int = 0
    workers: frozenset[str] = frozenset()

    def split(self, reason: str, lost: int) -> list[Chunk]:
        """What is to be done again, by itself; a position that was by itself already fails with the reason."""
        parts = self.jobs if len(self.jobs) > 1 else self.jobs[0].parts()
        if not parts and self.lost:
            self.jobs[0].settle(lambda: self.jobs[0].fail(reason, self.lost + lost))
            return []
        return [Chunk(self.role, [job], self.lost + lost) for job in parts or self.jobs]


@dataclass(eq=False)
class RemoteWorker:
    """A worker as the driver sees it: for each role an offer, a refusal, or neither yet; `agreed`: it gets work."""

    address: str
    name: str
    gpu: bool
    offers: dict[Role, Offer] = field(default_factory=dict)
    refusals: dict[Role, str] = field(default_factory=dict)
    agreed: set[Role] = field(default_factory=set)
    joining: asyncio.Task[None] | None = None

    @staticmethod
    def from_scheduler(address: str, facts: Mapping[str, Any]) -> RemoteWorker:
        """A worker as the scheduler describes it."""
        name = "".join(c if c.isprintable() else "?" for c in str(facts.get("name", ""))[:80]) or address
        return RemoteWorker(address, name, float(facts.get("resources", {}).get("GPU", 0)) >= 1)

    def __str__(self) -> str:
        return self.address if self.name == self.address else f"{self.name} ({self.address})"


class Dispatcher:
    """Runs jobs on a cluster, for one session. Public methods may be called from any thread; the others are the loop's.

    When the cluster is of no use any more, futures raise ValueRepairError.
    """

    def __init__(
        self, where: ClusterAddress, assignment: Assignment, wanted: Mapping[Role, Offer], say: Callable[[str], None]
    ) -> None:
        """`wanted`: what is agreed on from the start, as the driver has it itself."""
        self._where, self._assignment, self._say = where, assignment, say
        self._agreed = dict(wanted)
        self._workers: dict[tuple[str, str], RemoteWorker] = {}  # by address and folder: each process has its own
        self._able: dict[Role, list[RemoteWorker]] = {role: [] for role in Role}
        self._pending: dict[Role, deque[Job]] = {role: deque() for role in Role}
        self._suspects: deque[Chunk] = deque()  # workers died of them
        self._in_flight: dict[Chunk, asyncio.Task[None]] = {}
        self._first_offer = self._gone_since = 0.0
        self._none_since = dict.fromkeys(Role, time.monotonic())
        self._counts: Counter[str] = Counter()
        self._error: ValueRepairError | None = None
        self._settled = {role: threading.Event() for role in Role}
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="cluster", daemon=True)

    def start(self) -> None:
        """Connects. Raises ValueRepairError when no scheduler answers."""
        self._thread.start()
        self._wait(self._started)

    def agreed(self, role: Role) -> Offer:
        """What all workers have for a role; waits until the first are there. Raises ValueRepairError."""
        self._wait(self._settled[role])
        return self._agreed[role]

    def _wait(self, event: threading.Event) -> None:
        while not event.wait(0.2) and self._thread.is_alive():
            pass
        if self._error is not None or not event.is_set():
            raise self._error or ValueRepairError(f"--cluster {self._where}: the connection was ended")

    def at_once(self, role: Role) -> int:
        """Jobs that all workers together do at once."""
        return sum(worker.offers[role].at_once for worker in self._able[role])

    def capacity(self, role: Role) -> int:
        """Jobs worth having submitted: those in flight, and as many more."""
        return max(2, 2 * _IN_FLIGHT * self.at_once(role))

    def submit(self, role: Role, call: tuple[Any, ...], fail: Callable[[str, int], Any]) -> Future[Any]:
        """Queues a job. Its future can be cancelled until it goes to a worker."""
        job = Job(call, Future(), fail)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and `_error` says why
            self._loop.call_soon_threadsafe(self._arrive, role, job)
        if self._error is not None and not job.future.done():
            job.future.set_exception(self._error)
        return job.future

    def busy(self, role: Role) -> bool:
        """Whether jobs are on workers, or wait to go to one again."""
        return self._thread.is_alive() and any(c.role is role for c in [*self._suspects, *self._in_flight])

    def cancel(self, role: Role, *, begun: bool) -> None:
        """Cancels the jobs of a role that have not gone to a worker, and with `begun` gives up the others too."""

        async def cancel() -> None:
            self._end_jobs(role, CancelledError(), begun)

        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError, TimeoutError):  # the loop has ended
                asyncio.run_coroutine_threadsafe(cancel(), self._loop).result(10)

    def close(self) -> None:
        """Leaves the cluster; workers close what they have for this session. Jobs that are not done are cancelled."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(3 * _LEAVE_S)

    async def _main(self) -> None:
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.ensure_future(self._serve())
        try:
            await self._task
        except asyncio.CancelledError:
            pass  # the driver closes
        except ValueRepairError as error:
            self._error = error
        except Exception as error:
            self._error = ValueRepairError(f"--cluster {self._where}: {reason_of(error)}")
        for role in Role:
            self._end_jobs(role, self._error or CancelledError(), begun=True)

    async def _serve(self) -> None:
        """Works until it is cancelled, or the cluster is of no use any more."""
        async with scheduler_of(self._where) as address, connected(address, CONNECT_S, RETURN_S) as self._client:
            self._started.set()
            next_look = 0.0
            try:
                while self._error is None:
                    if time.monotonic() >= next_look:
                        await self._look(address)
                        next_look = time.monotonic() + max(_POLL_S, len(self._workers) / 200)
                    self._feed()
                    self._wake.clear()
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), _POLL_S)
                    await asyncio.sleep(0)  # all that has arrived counts
            finally:
                there = [known.address for known in self._workers.values()]
                self._forget_all()
                with contextlib.suppress(Exception):  # those that do not answer close it later
                    leaving = self._client.run(worker.leave, self._assignment.session, workers=there, on_error="ignore")
                    await asyncio.wait_for(leaving, _LEAVE_S)

    def _arrive(self, role: Role, job: Job) -> None:
        if not self._pending[role]:
            self._loop.call_later(_LINGER_S, self._wake.set)
        self._pending[role].append(job)

    # -- workers ------------------------------------------------------------------------------------------------------

    async def _look(self, address: str) -> None:
        """Sees which workers there are. Dask has others do what lost ones had in hand, where there are any."""
        try:
            if self._client.status != "running":
                raise OSError("Dask's client is looking for its scheduler")
            facts = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), 2 * CONNECT_S)
        except (OSError, asyncio.TimeoutError):
            self._wait_for_scheduler(address)
            return
        if self._gone_since:
            self._gone_since = 0.0
            self._say(f"the scheduler at {address} is back")
        there = {(at, str(known.get("local_directory", ""))): known for at, known in facts["workers"].items()}
        for process in self._workers.keys() - there.keys():
            self._lose(self._workers.pop(process))
        alive = {known.address for known in self._workers.values()}
        for chunk in [chunk for chunk in self._in_flight if alive.isdisjoint(chunk.workers)]:
            self._take_back(chunk)
        for process in there.keys() - self._workers.keys():
            new = self._workers[process] = RemoteWorker.from_scheduler(process[0], there[process])
            new.joining = asyncio.create_task(self._join(process, new))
        for role in Role:
            self._settle(role)
            self._check_any_left(role)

    def _wait_for_scheduler(self, address: str) -> None:
        if not self._gone_since:
            self._gone_since = time.monotonic()
            self._forget_all()
            self._say(f"the scheduler at {address} is gone: waiting {RETURN_S / 60:.0f} minutes for its return")
        if time.monotonic() > self._gone_since + RETURN_S:
            again = "what was scored is kept: give the same command when there is one again"
            raise ValueRepairError(f"--cluster: no scheduler answers at {address}; {again}")

    def _lose(self, lost: RemoteWorker) -> None:
        if lost.joining is not None and lost.joining.cancel():
            self._counts["lost over the net"] += 1
        if lost.agreed:
            self._say_loss(f"worker {lost} was lost: what it had in hand goes to others")

    def _say_loss(self, line: str) -> None:
        self._counts["losses"] += 1
        if self._counts["losses"] <= _LOSSES_SAID:
            self._say(line + ("; further losses are not told" if self._counts["losses"] == _LOSSES_SAID else ""))

    async def _join(self, process: tuple[str, str], new: RemoteWorker) -> None:
        """Has a worker open net and engines, and sends it the net files that it lacks."""

        async def ask(function: Callable[..., Any], *given: Any) -> Any:
            return (await self._client.run(function, *given, workers=[new.address]))[new.address]

        try:
            answer = await ask(worker.join, self._assignment, False)
            if isinstance(answer, list):
                for file in answer:
                    self._say(f"sending {file.file_name} ({file.size / 1e6:,.1f} MB) to {new.address}")
                    await ask(worker.keep, file, await asyncio.to_thread(Path(file.path).read_bytes))
                answer = await ask(worker.join, self._assignment, True)
        except OSError:  # it ended over this, or the scheduler did; `_look` sees that too
            await asyncio.sleep(_POLL_S)
            self._workers.pop(process, None)
            return
        except Exception as error:
            answer = dict.fromkeys(Role, reason_of(error))
        self._first_offer = self._first_offer or time.monotonic()
        for role, found in answer.items():
            if isinstance(found, Offer):
                new.offers[role] = found
            else:
                self._refuse(new, role, found)
            self._settle(role)

    def _refuse(self, refused: RemoteWorker, role: Role, reason: str) -> None:
        """Has a worker take no more work of a role, and says why."""
        refused.refusals[role] = reason
        refused.agreed.discard(role)
        self._say(f"worker {refused} is refused for the {role.value}: {reason}")

    def _settle(self, role: Role) -> None:
        """Takes or refuses workers with offers; the first time it decides, by majority, what all have to have."""
        there = sorted(self._workers.values(), key=lambda known: known.address)
        offering = [w for w in there if role in w.offers and role not in w.refusals]
        if offering and role not in self._agreed:
            answered = all(role in w.offers or role in w.refusals for w in there)
            if not answered and time.monotonic() - self._first_offer < _SETTLE_S:
                return
            identities = [w.offers[role].identity for w in offering]
            self._agreed[role] = offering[identities.index(max(identities, key=identities.count))].offers[role]
        for new in offering:
            if reason := difference(new.offers[role].identity, self._agreed[role].identity):
                self._refuse(new, role, reason)
            else:
                new.agreed.add(role)
        agreed = [w for w in there if role in w.agreed]
        # Work for graphics cards goes to those that have one, other work to the others, where there are any.
        self._able[role] = [w for w in agreed if w.gpu == self._assignment.is_for_gpu(role)] or agreed
        if agreed:
            self._settled[role].set()
        self._wake.set()

    def _check_any_left(self, role: Role) -> None:
        """Raises ValueRepairError when no worker is left for the role, and none is to be expected.

        A queueing system may take its time, but workers that were all refused are no hope. Nor is a net that workers
        die of; that engines fail always the writer finds out.
        """
        where, now, minutes = f"--cluster {self._where}", time.monotonic(), f"{NO_WORKER_S / 60:.0f} minutes"
        if (lost := self._counts["lost over the net"]) >= _HOPELESS and not self._counts["net answers"]:
            why = "see the workers' own logs, and whether their memory is enough"
            raise ValueRepairError(f"{where}: {lost} workers were lost over the net, and none has come through; {why}")
        refused = [w for w in self._workers.values() if role in w.refusals]
        if len(refused) < len(self._workers):
            self._none_since[role] = now
            return
        waited = now - self._none_since[role]
        if refused and waited > ALL_REFUSED_S:
            last = f"{refused[-1]}: {refused[-1].refusals[role]}"
            raise ValueRepairError(
                f"{where}: no worker is left for the {role.value}: {len(refused)} refused, at last {last}"
            )
        if waited > NO_WORKER_S:
            again = "start some (`dask worker ADDRESS`) and give the same command again"
            raise ValueRepairError(f"{where}: no worker for {minutes}; {again}")
        if role is Role.NET and ALL_REFUSED_S < waited <= ALL_REFUSED_S + 2 * _POLL_S and not refused:
            self._say(f"{where}: no worker is there: waiting {minutes} for one")

    # -- chunks -------------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Keeps some chunks a worker in flight. What workers died of is alone on the cluster, one chunk after another.

        So nothing else can be what a worker dies of then, nor what is lost with it.
        """
        if self._suspects:
            if not self._in_flight and self._able[self._suspects[0].role]:
                self._launch(self._suspects.popleft())
            return
        for role in Role:
            able, pending = self._able[role], self._pending[role]
            most = _IN_FLIGHT * len(able)
            room = most - sum(chunk.role is role for chunk in self._in_flight)
            while pending and room > 0:
                # Half of what a worker does at once: engines go on with the others while the next chunk is on its way.
                # Towards the end chunks get smaller, so that all workers end at the same time.
                size = math.ceil(min(max(w.offers[role].at_once for w in able) / 2, len(pending) / most))
                jobs = [pending.popleft() for _ in range(size)]
                jobs = [job for job in jobs if job.future.running() or job.future.set_running_or_notify_cancel()]
                if jobs:
                    self._launch(Chunk(role, jobs))
                    room -= 1

    def _launch(self, chunk: Chunk) -> None:
        able = self._able[chunk.role]
        chunk.workers = frozenset(w.address for w in random.sample(able, min(_CHOICE, len(able))))
        self._in_flight[chunk] = asyncio.create_task(self._run(chunk))

    async def _run(self, chunk: Chunk) -> None:
        """Has Dask see to a chunk, and sees to what becomes of it."""
        future = self._client.submit(
            worker.work,
            *(self._assignment.session, chunk.role, [job.call for job in chunk.jobs]),
            key=f"vr-{chunk.role.name.lower()}-{uuid.uuid4().hex}",
            workers=list(chunk.workers),
            priority=10 if chunk.role is Role.NET else 0,
        )
        try:
            answers = await future
        except CancelledError:  # the scheduler is lost, which `_look` will see too
            await asyncio.sleep(_POLL_S)
            self._take_back(chunk)
        except KilledWorker as error:
            self._split(chunk, error)
        except WorkerFailed as error:
            self._take_back(chunk)
            for failed in self._workers.values():
                if failed.address == error.address and error.reason and chunk.role not in failed.refusals:
                    self._refuse(failed, chunk.role, error.reason)
            self._settle(chunk.role)
        except Exception as error:  # it came to no worker
            self._error = ValueRepairError(f"--cluster {self._where}: {reason_of(error)}")
        else:
            self._counts[f"{chunk.role.value} answers"] += 1
            for job, answer in zip(chunk.jobs, answers, strict=True):
                job.future.set_result(answer)
        finally:
            future.release()
            self._in_flight.pop(chunk, None)
            self._wake.set()

    def _split(self, chunk: Chunk, error: KilledWorker) -> None:
        """Has what workers died of done again, position by position."""
        lost = error.allowed_failures + 1
        self._counts["lost over the net"] += lost if chunk.role is Role.NET else 0
        last = RemoteWorker.from_scheduler(error.last_worker.address, {"name": error.last_worker.name})
        again = chunk.split(f"its worker was lost, at last {last}", lost)
        self._suspects.extendleft(reversed(again))
        what = f"{lost} workers were lost, at last {last}, over the same chunk for the {chunk.role.value}"
        self._say_loss(f"{what}: {'its positions are tried one by one' if again else 'its position is given up'}")

    def _take_back(self, chunk: Chunk) -> None:
        """A chunk that is to be done again, and is not what a worker died of."""
        if task := self._in_flight.pop(chunk, None):
            if task is not asyncio.current_task():
                task.cancel()
            if chunk.lost:
                self._suspects.appendleft(chunk)
            else:
                self._pending[chunk.role].extendleft(reversed(chunk.jobs))

    def _forget_all(self) -> None:
        """Workers are not there any more, for us."""
        for known in self._workers.values():
            if known.joining is not None:
                known.joining.cancel()
        self._workers.clear()
        self._able = {role: [] for role in Role}
        for chunk in list(self._in_flight):
            self._take_back(chunk)

    def _end_jobs(self, role: Role, error: Exception, begun: bool) -> None:
        """Ends the jobs of a role; without `begun` only those that have not gone to a worker yet."""
        chunks = [c for c in [*self._suspects, *self._in_flight] if c.role is role and begun]
        for chunk in chunks:
            if task := self._in_flight.pop(chunk, None):
                task.cancel()
        self._suspects = deque(chunk for chunk in self._suspects if chunk not in chunks)
        jobs = [*self._pending[role], *(job for chunk in chunks for job in chunk.jobs)]
        self._pending[role].clear()
        for job in jobs:
            if isinstance(error, CancelledError) and job.future.cancel():
                continue
            if not begun:
                self._pending[role].append(job)
            elif not job.future.done():
                job.future.set_exception(error)
