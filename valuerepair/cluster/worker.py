"""What runs on a worker, as tasks of Dask: a `Bench` of net and engines that is held for a driver's session.

A bench is closed when its driver leaves, when the worker ends, and when nothing was asked of it for `IDLE_S`: a driver
that was killed cannot leave.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from valuerepair import __version__
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.cluster.terms import Answer, Missing, NetFileFacts, Offer, Refusal, Role, Terms
from valuerepair.errors import ValueRepairError
from valuerepair.files import cache_folder, written_whole
from valuerepair.oracles.oracle import Climber, ClimbOutcome, DeepOutcome, GoOn
from valuerepair.oracles.uci_oracle import file_sha256

if TYPE_CHECKING:
    from valuerepair.nets.net import Net, NetValues

IDLE_S = 900.0
_CHECK_S = 30.0


class SearchJob(NamedTuple):
    """A position to search; with `rungs` it climbs, and `go_on` is asked at each."""

    position: Position
    rungs: tuple[int, ...] | None = None
    go_on: GoOn | None = None


class NetJob(NamedTuple):
    """A batch for the net: values, or only `priors`."""

    batch: PositionBatch
    priors: bool = False


class NetAnswer(NamedTuple):
    """What becomes of a `NetJob` without `priors`: values of the rows that have some, and of each of the others why it
    has none, and how often it was tried."""

    values: NetValues
    failed: Mapping[int, tuple[str, int]]


class Done(NamedTuple):
    """A chunk's answers, in order, and how long the bench worked on it; `broken`: why it cannot go on."""

    answers: Sequence[Any]
    seconds: float
    broken: str = ""


class Bench:
    """Net and engines for one session."""

    def __init__(self, terms: Terms, threads: int, gpu: bool) -> None:
        self.terms, self._threads, self._gpu = terms, terms.threads or threads, gpu
        self.used = self.ended = time.monotonic()
        self._opening, self._evaluating = threading.Lock(), threading.Lock()
        self._net: Net | None = None
        self._oracle: Climber | None = None
        self._slots = threads
        self._busy = 0

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Bench]:
        """Within, the bench is not idle, however long it takes."""
        with _lock:
            self._busy += 1
        try:
            yield self
        finally:
            with _lock:
                self._busy -= 1
                self.used = time.monotonic()

    @property
    def idle(self) -> bool:
        """Nobody has asked anything of it for a long time."""
        return not self._busy and time.monotonic() - self.used > IDLE_S

    def offer(self, role: Role) -> Offer:
        """Opens what a role needs, if it is not open yet. Raises ValueRepairError."""
        with self._opening:
            if role is Role.NET:
                net = self._open_net()
                return Offer(net.identity, 1, net.provider)
            oracle = self._open_oracle()
            return Offer(replace(oracle.identity, plain=dict(oracle.identity.plain or {})), oracle.workers)

    def _open_net(self) -> Net:
        from valuerepair.nets.devices import CPU
        from valuerepair.nets.net import open_net

        if self._net is None:
            terms, path = self.terms, _have(self.terms.net)
            net = open_net(
                str(path),
                device=terms.device,
                threads=self._threads,
                history_fill=terms.history_fill,
                winograd=terms.winograd,
            )
            if self._gpu and terms.device == "auto" and net.provider == CPU:
                net.close()
                raise ValueRepairError("it has the resource GPU, but ONNX Runtime runs on its CPU (see `vr doctor`)")
            self._net = net
        return self._net

    def _open_oracle(self) -> Climber:
        from valuerepair.oracles.open import open_oracle

        if self._oracle is None:
            terms, spec = self.terms, self.terms.deep
            if terms.weights is not None:
                spec = replace(spec, weights=str(_have(terms.weights)))
            own = spec.kind == "mcts"
            # Of trees as many as are good; of lc0 on a graphics card too.
            count = terms.searches or (None if own or (self._gpu and spec.kind == "lc0") else self._slots)
            path = str(_have(terms.net)) if terms.files(Role.SEARCH) else None
            net = self._open_net() if own else None
            self._oracle = cast("Climber", open_oracle(spec, net_path=path, net=net, workers=count))
        return self._oracle

    def evaluate(self, jobs: Sequence[NetJob]) -> Done:
        """Each batch by itself: values depend on the batch in the last bits."""
        started = time.monotonic()
        with self._evaluating:
            net = self._open_net()
            answers = [net.priors(job.batch) if job.priors else NetAnswer(net.evaluate(job.batch), {}) for job in jobs]
        return Done(answers, time.monotonic() - started)

    def search(self, jobs: Sequence[SearchJob]) -> Done:
        """All at once: the engines take them one by one, behind those of the chunk before."""
        started = time.monotonic()
        oracle = self._open_oracle()
        futures: list[Future[DeepOutcome] | Future[ClimbOutcome]] = [
            oracle.submit(job.position)
            if job.rungs is None or job.go_on is None
            else oracle.climb(job.position, job.rungs, job.go_on)
            for job in jobs
        ]
        answers, broken = [], ""
        for future in futures:
            try:
                answers.append(future.result())
            except (ValueRepairError, CancelledError) as error:
                broken = str(error) or "the search was given up"
                break
        now = time.monotonic()
        seconds, self.ended = now - max(started, self.ended), now
        return Done(answers, seconds, broken)

    def close(self) -> None:
        """Gives up what is being searched, and ends engines and net."""
        if self._oracle is not None:
            self._oracle.close(cancel=True)
        if self._net is not None:
            self._net.close()


_benches: dict[str, Bench] = {}
_lock = threading.Lock()
_watching = threading.Event()


class NoBench(Exception):
    """The bench is not there: the worker was started anew at the same address, or had nothing to do for too long."""


def look(terms: Terms, role: Role, gpu: bool) -> Answer:
    """Opens net or engines for a role; the task that each worker gets first."""
    if terms.version != __version__:
        return Refusal(f"it has valuerepair {__version__}, the driver {terms.version}")
    try:
        if missing := tuple(file for file in terms.files(role) if _found(file) is None):
            return Missing(missing)
        with _lock:
            bench = _benches.get(terms.session)
            if bench is None:
                bench = _benches[terms.session] = Bench(terms, _threads(), gpu)
        _close_with_worker()
        with bench.at_work():
            offer = bench.offer(role)
    except ValueRepairError as error:
        return Refusal(str(error))
    return offer


def keep(session: str, file: NetFileFacts, part: int, content: bytes, last: bool) -> str:
    """Adds a piece of a net file to the cache; after the last one says what is wrong with it, or nothing."""
    target = _cached(file)
    growing = target.with_name(f".{target.name}.{session}")
    with growing.open("ab" if part else "wb") as stream:
        stream.write(content)
    if not last:
        return ""
    found = hashlib.sha256(growing.read_bytes()).hexdigest()
    if found != file.sha256:
        growing.unlink(missing_ok=True)
        return f"{file.file_name} came with SHA-256 {found[:12]}, not {file.sha256[:12]}"
    with written_whole(target) as temporary:
        os.replace(growing, temporary)
    return ""


def evaluate(session: str, jobs: Sequence[NetJob]) -> Done:
    """A chunk for the net."""
    with _bench(session).at_work() as bench:
        return bench.evaluate(jobs)


def search(session: str, jobs: Sequence[SearchJob]) -> Done:
    """A chunk for the engines. It only waits for them, so it leaves Dask's thread to others."""
    from distributed import secede

    with _bench(session).at_work() as bench:
        secede()  # type: ignore[no-untyped-call]  # the package has hints for half of its functions
        return bench.search(jobs)


def leave(session: str) -> None:
    """The driver goes."""
    with _lock:
        bench = _benches.pop(session, None)
    if bench is not None:
        bench.close()


def _bench(session: str) -> Bench:
    with _lock:
        bench = _benches.get(session)
    if bench is None:
        raise NoBench
    return bench


def _threads() -> int:
    from distributed import get_worker

    return int(get_worker().state.nthreads)


def _close_with_worker() -> None:
    """Has all benches closed with the worker's end, and idle ones by and by."""
    import asyncio

    from distributed import WorkerPlugin, get_worker

    class Closer(WorkerPlugin):
        def teardown(self, worker: object) -> None:
            for session in list(_benches):
                leave(session)

    with _lock:
        if _watching.is_set():
            return
        _watching.set()
    worker: Any = get_worker()
    adding = worker.plugin_add(plugin=Closer(), name="valuerepair")
    asyncio.run_coroutine_threadsafe(adding, worker.loop.asyncio_loop).result(60)
    threading.Thread(target=_close_idle, name="idle-benches", daemon=True).start()


def _close_idle() -> None:
    while True:
        time.sleep(_CHECK_S)
        for session, bench in list(_benches.items()):
            if bench.idle:
                with contextlib.suppress(Exception):  # an engine that cannot be ended is no reason to keep the others
                    leave(session)


def _cached(file: NetFileFacts) -> Path:
    folder = cache_folder("cluster") / file.sha256[:32]
    folder.mkdir(exist_ok=True)
    return folder / Path(file.file_name).name  # a name only: nothing is written elsewhere


def _found(file: NetFileFacts) -> Path | None:
    """The file here: in the cache, or where the driver has it (a shared folder); checked by its hash."""
    for path in (_cached(file), Path(file.path)):
        with contextlib.suppress(OSError, ValueRepairError):
            if path.is_file() and path.stat().st_size == file.size and file_sha256(str(path)) == file.sha256:
                return path
    return None


def _have(file: NetFileFacts) -> Path:
    path = _found(file)
    if path is None:
        raise ValueRepairError(f"{file.file_name} has vanished from its cache")
    return path
