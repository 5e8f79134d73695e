"""The driver's side of a cluster: one thread with an event loop that hands out chunks and takes them back."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from valuerepair.cluster import worker
from valuerepair.cluster.address import ClusterAddress
from valuerepair.cluster.chunks import IN_FLIGHT, Chunk, Job, Seam, end, take
from valuerepair.cluster.connection import CONNECT_S, RETURN_S, Connection, SchedulerGone, connect, scheduler_of
from valuerepair.cluster.hope import Hope
from valuerepair.cluster.joining import Usher
from valuerepair.cluster.members import Lane, Member, Members
from valuerepair.cluster.shield import quiet
from valuerepair.cluster.terms import Offer, Role, Terms
from valuerepair.errors import ValueRepairError

_POLL_S = 0.5
_LINGER_S = 0.02  # positions come one by one: so long a chunk waits for more of them
_LEAVE_S = 10.0
_LOSSES_SAID = 10
_PRIORITY = {Role.NET: 10, Role.SEARCH: 0}
_WORK: Mapping[Role, Callable[..., worker.Done]] = {Role.NET: worker.evaluate, Role.SEARCH: worker.search}


class Dispatcher:
    """Runs jobs on a cluster, for one session. Public methods may be called from any thread; the others are the loop's.

    When the cluster is of no use any more, futures raise ValueRepairError.
    """

    def __init__(
        self, where: ClusterAddress, terms: Terms, wanted: Mapping[Role, Offer], say: Callable[[str], None]
    ) -> None:
        self._where, self._terms, self._wanted, self._say = where, terms, wanted, say
        self._gpu_work = {Role.NET: True, Role.SEARCH: terms.searches_on_gpu}
        self._members = Members()
        self._pending: dict[Role, deque[Job]] = {role: deque() for role in Role}
        self._redo: dict[Role, deque[Chunk]] = {role: deque() for role in Role}
        self._dead: list[Member] = []  # the scheduler saw them go: no chunk is to be lost for nothing there
        self._guests: dict[Lane, Chunk] = {}  # chunks that wait until a worker has nothing else in hand
        self._looks: dict[Lane, asyncio.Task[None]] = {}
        self._capacity = dict.fromkeys(Role, 2)
        self._at_once = dict.fromkeys(Role, 0)
        self._hopes = {role: Hope(role, str(where), say) for role in Role}
        self._losses_said = 0
        self._error: Exception | None = None
        self._closing = False
        self._settled = {role: threading.Event() for role in Role}
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="cluster", daemon=True)

    # -- any thread ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connects. Raises ValueRepairError when no scheduler answers."""
        self._thread.start()
        self._wait(self._started)

    def agreed(self, role: Role) -> Offer:
        """What all workers have for a role; waits until the first are there. Raises ValueRepairError."""
        self._wait(self._settled[role])
        return self._usher.agreed[role]

    def _wait(self, event: threading.Event) -> None:
        while not event.wait(0.2):
            if self._error is not None:
                raise self._error
            if not self._thread.is_alive():
                raise ValueRepairError(f"--cluster {self._where}: the connection was ended")
        if self._error is not None:
            raise self._error

    def capacity(self, role: Role) -> int:
        """Jobs worth having submitted."""
        return self._capacity[role]

    def at_once(self, role: Role) -> int:
        """Jobs that all workers together do at once."""
        return self._at_once[role]

    def submit(
        self, role: Role, payload: Any, fail: Callable[[str, int], Any], seam: Seam | None = None
    ) -> Future[Any]:
        """Queues a job. Its future can be cancelled until it goes to a worker."""
        job = Job(payload, Future(), fail, seam)
        if self._error is not None:
            job.future.set_exception(self._error)
        else:
            self._loop.call_soon_threadsafe(self._arrive, role, job)
        return job.future

    def busy(self, role: Role) -> bool:
        """Whether jobs are on workers, or wait to go to one again."""
        return self._thread.is_alive() and bool(self._redo[role] or self._chunks(role))

    def cancel(self, role: Role, *, begun: bool) -> None:
        """Cancels the jobs of a role that have not gone to a worker, and with `begun` gives up the others too."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError, TimeoutError):  # the loop has ended
                asyncio.run_coroutine_threadsafe(self._cancel(role, begun), self._loop).result(10)

    def close(self) -> None:
        """Leaves the cluster; workers close what they have for this session. Jobs that are not done are cancelled."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop)
            self._thread.join(3 * _LEAVE_S)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        asyncio.run(self._guarded())

    async def _guarded(self) -> None:
        try:
            await self._main()
        except ValueRepairError as error:
            self._error = error
        except Exception as error:
            self._error = ValueRepairError(f"--cluster {self._where}: {type(error).__name__}: {error}")
        self._give_up(self._error or CancelledError())

    async def _main(self) -> None:
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._usher = Usher(self._terms, self._wanted, self._say)
        quiet()
        async with scheduler_of(self._where) as address:
            patience, how = CONNECT_S, "start one with `dask scheduler`, or see whether the address is right"
            while not self._closing:
                try:
                    connection = await self._connect(address, patience)
                except SchedulerGone:
                    raise ValueRepairError(f"--cluster: no scheduler answers at {address}; {how}") from None
                except CancelledError:
                    return
                if self._started.is_set():
                    self._say(f"the scheduler at {address} is back")
                self._started.set()
                try:
                    await self._serve(connection)
                except SchedulerGone:
                    self._recall_all()
                    self._say(f"the scheduler at {address} is gone: waiting {RETURN_S / 60:.0f} minutes for its return")
                finally:
                    await connection.close()
                patience, how = RETURN_S, "what was scored is kept: give the same command when there is one again"

    async def _connect(self, address: str, patience: float) -> Connection:
        """Connects. Raises SchedulerGone, and CancelledError when the end comes first."""
        attempt = asyncio.create_task(connect(address, patience))
        while not attempt.done():
            if self._closing:
                attempt.cancel()
                raise CancelledError
            await asyncio.wait([attempt], timeout=_POLL_S)
        return attempt.result()

    async def _serve(self, connection: Connection) -> None:
        """Works until the end, or until the scheduler is lost."""
        self._connection = connection
        watch = asyncio.create_task(self._watch())
        try:
            while not self._closing:
                if watch.done():
                    watch.result()
                while self._dead:
                    self._lose(self._dead.pop())
                self._look_at_newcomers()
                for role in Role:
                    self._feed(role)
                self._wake.clear()
                await self._wake.wait()
                await asyncio.sleep(0)  # all that has arrived counts
            await self._leave()
        except ValueRepairError as error:
            self._give_up(error)
            await self._leave()
            raise
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _watch(self) -> None:
        try:
            while True:
                workers = await self._connection.workers()
                _, gone = self._members.update(workers)
                for member in gone:
                    self._lose(member)
                self._check_hope()
                self._wake.set()
                await asyncio.sleep(max(_POLL_S, len(workers) / 200))
        finally:
            self._wake.set()

    def _arrive(self, role: Role, job: Job) -> None:
        if self._error is not None:
            job.future.set_exception(self._error)
            return
        if not self._pending[role]:
            self._loop.call_later(_LINGER_S, self._wake.set)
        self._pending[role].append(job)

    def _stop(self) -> None:
        self._closing = True
        self._wake.set()

    # -- workers ------------------------------------------------------------------------------------------------------

    def _look_at_newcomers(self) -> None:
        for role in Role:
            for member in self._members.fit_for(role, self._gpu_work[role]):
                if role not in member.lanes:
                    lane = member.lanes[role] = Lane(member, role)
                    self._looks[lane] = asyncio.create_task(self._look(lane))
            lanes = [member.lanes[role] for member in self._members.all() if role in member.lanes]
            self._usher.settle(role, lanes)
            ready = self._members.ready(role, self._gpu_work[role])
            self._at_once[role] = sum(lane.at_once for lane in ready)
            self._capacity[role] = max(2, sum(2 * IN_FLIGHT * lane.pace.size for lane in ready))
            if ready:
                self._settled[role].set()

    async def _look(self, lane: Lane) -> None:
        try:
            await self._usher.look(self._connection, lane)
        except Exception:  # it ended over this, or the scheduler did; `_watch` sees that too
            await asyncio.sleep(_POLL_S)
            lane.member.lanes.pop(lane.role, None)
        finally:
            self._looks.pop(lane, None)
            self._wake.set()

    def _lose(self, member: Member) -> None:
        """What a lost worker had in hand is done again."""
        for role, lane in member.lanes.items():
            if lane in self._looks:
                self._looks[lane].cancel()
                self._usher.note_loss(role)
            self._return_guest(lane)
            for chunk, task in list(lane.chunks.items()):
                task.cancel()
                self._count_loss(member, chunk, role, "its worker was lost")

    def _count_loss(self, member: Member, chunk: Chunk, role: Role, reason: str) -> None:
        self._hopes[role].note_loss()
        again = chunk.lost(f"{reason}, at last {member}")
        self._redo[role].extend(again)
        self._losses_said += 1
        if self._losses_said <= _LOSSES_SAID:
            what = "goes to another" if again else "is over"
            more = "; further ones are not told" if self._losses_said == _LOSSES_SAID else ""
            self._say(f"worker {member}: {reason}: a chunk of {len(chunk.jobs)} for the {role.value} {what}{more}")

    def _check_hope(self) -> None:
        for role in Role:
            self._hopes[role].check([m.lanes[role] for m in self._members.all() if role in m.lanes])

    # -- chunks -------------------------------------------------------------------------------------------------------

    def _feed(self, role: Role) -> None:
        """Gives chunks to workers that have room: those that were lost before alone, others two at a time."""
        for lane, chunk in list(self._guests.items()):
            if lane.role is role and not lane.member.in_hand:
                del self._guests[lane]
                self._launch(lane, chunk)
        lanes = self._members.ready(role, self._gpu_work[role])
        while self._redo[role]:
            free = [lane for lane in lanes if not lane.member.reserved]
            if not free:
                break
            lane = min(free, key=lambda lane: lane.member.in_hand)
            lane.member.reserved = True
            self._guests[lane] = self._redo[role].popleft()
            if not lane.member.in_hand:
                self._launch(lane, self._guests.pop(lane))
        pending = self._pending[role]
        while pending and any(lane.room for lane in lanes):
            lane = max(lanes, key=lambda lane: lane.room)
            # Towards the end chunks get smaller and smaller, so that all workers end at the same time.
            chunk = take(pending, min(lane.pace.size, -(-len(pending) // (IN_FLIGHT * len(lanes)))))
            if chunk.jobs:
                self._launch(lane, chunk)

    def _launch(self, lane: Lane, chunk: Chunk) -> None:
        lane.chunks[chunk] = asyncio.create_task(self._run(lane, chunk))

    async def _run(self, lane: Lane, chunk: Chunk) -> None:
        """Has a chunk done, and sees to what becomes of it."""
        member, role = lane.member, lane.role
        gpu, work = member.gpu and role is Role.NET, _WORK[role]
        given = self._terms.session, [job.payload for job in chunk.jobs]
        try:
            done = await self._connection.task(member.address, gpu, _PRIORITY[role], work, *given)
        except SchedulerGone:
            await asyncio.sleep(_POLL_S)  # `_watch` will see it too, and recall all
            self._bring_back(role, chunk)
        except worker.NoBench:
            self._count_loss(member, chunk, role, "it was started anew")
            self._members.forget(member)
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                self._dead.append(member)
                self._members.forget(member)
                self._count_loss(member, chunk, role, "its worker was lost")
            else:
                self._count_loss(member, chunk, role, " ".join([f"{type(error).__name__}:", *str(error).split()]))
        else:
            self._take_answers(lane, chunk, done)
        finally:
            lane.chunks.pop(chunk, None)
            if chunk.losses:
                member.reserved = False
            self._wake.set()

    def _take_answers(self, lane: Lane, chunk: Chunk, done: worker.Done) -> None:
        lane.pace.learn(len(done.answers), done.seconds)
        if done.answers:
            self._hopes[lane.role].note_answer()
        for job, answer in zip(chunk.jobs, done.answers, strict=False):
            job.future.set_result(answer)
        if done.broken:
            self._bring_back(lane.role, Chunk(chunk.jobs[len(done.answers) :], chunk.losses))
            if not lane.refusal and not self._closing:
                self._usher.refuse(lane, done.broken)

    def _bring_back(self, role: Role, chunk: Chunk) -> None:
        """A chunk that is to be done again, and no worker's fault."""
        if chunk.losses:
            self._redo[role].appendleft(chunk)
        else:
            self._pending[role].extendleft(reversed(chunk.jobs))

    def _return_guest(self, lane: Lane) -> None:
        if lane in self._guests:
            self._redo[lane.role].appendleft(self._guests.pop(lane))

    def _recall_all(self) -> None:
        """The scheduler is lost, and all workers with it."""
        for member in self._members.clear():
            for role, lane in member.lanes.items():
                if lane in self._looks:
                    self._looks.pop(lane).cancel()
                self._return_guest(lane)
                for chunk, task in list(lane.chunks.items()):
                    task.cancel()
                    self._bring_back(role, chunk)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _chunks(self, role: Role) -> list[Chunk]:
        """What is at work, or about to be, on workers."""
        lanes = [member.lanes[role] for member in self._members.all() if role in member.lanes]
        waiting = [chunk for lane, chunk in list(self._guests.items()) if lane.role is role]
        return [*waiting, *(chunk for lane in lanes for chunk in list(lane.chunks))]

    async def _cancel(self, role: Role, begun: bool) -> None:
        for job in self._pending[role]:
            job.future.cancel()
        self._pending[role].clear()
        if not begun:
            return
        given_up = [*self._redo[role], *self._chunks(role)]
        self._redo[role].clear()
        for member in self._members.all():
            if lane := member.lanes.get(role):
                if self._guests.pop(lane, None):
                    member.reserved = False
                for task in lane.chunks.values():
                    task.cancel()
        end([job for chunk in given_up for job in chunk.jobs], CancelledError())

    async def _leave(self) -> None:
        """Has all workers close what they have for this session; those that do not answer soon do it later."""
        for role in Role:
            await self._cancel(role, begun=True)
        tasks = [
            asyncio.create_task(self._connection.task(m.address, False, 30, worker.leave, self._terms.session))
            for m in self._members.all()
            if any(lane.offer is not None for lane in m.lanes.values())
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=_LEAVE_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _give_up(self, error: Exception) -> None:
        """Ends every job there is with an error."""
        for role in Role:
            chunks = [*self._redo[role], *self._chunks(role)]
            end([*self._pending[role], *(job for chunk in chunks for job in chunk.jobs)], error)
