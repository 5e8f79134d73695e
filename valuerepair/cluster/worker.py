"""What runs on a worker: a Dask plugin that holds net and engines for a driver's session, and the task for them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from valuerepair.chess.positions import PositionBatch
from valuerepair.cluster.protocol import Assignment, Offer, Role, WorkerFailed, reason_of
from valuerepair.errors import ValueRepairError
from valuerepair.files import cache_folder, file_sha256, written_whole
from valuerepair.mining.off_game import searched_lines
from valuerepair.nets.devices import CPU
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.weights import NetFile
from valuerepair.oracles.open import open_judge
from valuerepair.oracles.oracle import Judge
from valuerepair.version import __version__

# A driver that was killed cannot call `leave`.
IDLE_S = 900.0
_CHECK_S = 30.0


class WorkerEvaluators(WorkerPlugin):
    """Net and engines of one worker: opened by the first task, closed when the driver leaves or the worker ends.

    They are also closed after `IDLE_S` seconds without a task; the next task opens them again.
    """

    def __init__(self, assignment: Assignment, worker: Any) -> None:
        self._assignment, self._worker = assignment, worker
        self._gpu = worker.state.total_resources.get("GPU", 0) >= 1
        self._cores = assignment.cores or worker.state.nthreads
        self._opening, self._evaluating = threading.RLock(), threading.Lock()
        self._net: Net | None = None
        self._judge: Judge | None = None
        self._last_used, self._driver_left = time.monotonic(), False

    def setup(self, worker: Any) -> None:
        """Dask calls this when the plugin is added."""
        from tornado.ioloop import PeriodicCallback

        self._watch = PeriodicCallback(self._close_if_idle, 1000 * _CHECK_S)
        self._watch.start()

    async def teardown(self, worker: Any) -> None:
        """Dask calls this when the plugin is removed, and when the worker ends."""
        self._driver_left = True
        self._watch.stop()
        await asyncio.to_thread(self._close)

    async def _close_if_idle(self) -> None:
        if not self._worker.state.executing and time.monotonic() - self._last_used > IDLE_S:
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        """Aborts running searches, and closes engines and net."""
        with self._opening:
            judge, net, self._judge, self._net = self._judge, self._net, None, None
        if judge is not None:
            judge.close(cancel=True)
        if net is not None:
            net.close()

    def offer(self, role: Role) -> Offer | str:
        """Opens the role's net or engines, and describes them; if they cannot be opened, the reason."""
        try:
            if role is Role.NET:
                net = self._open_net()
                return Offer(net.identity, 1, net.provider)
            judge = self._open_judge()
            return Offer(replace(judge.identity, plain=dict(judge.identity.plain or {})), judge.workers)
        except Exception as error:
            return reason_of(error)

    def _open_net(self) -> Net:
        options = {"threads": self._cores, **self._assignment.net_options}
        with self._opening:
            self._check_driver()
            if self._net is None:
                net = open_net(_local_path(self._assignment.net), **options)
                if self._gpu and options.get("device", "auto") == "auto" and net.provider == CPU:
                    net.close()
                    raise ValueRepairError("it has the resource GPU, but its net runs on the CPU (see `vr doctor`)")
                self._net = net
            return self._net

    def _open_judge(self) -> Judge:
        assignment, spec = self._assignment, self._assignment.deep
        with self._opening:
            self._check_driver()
            if self._judge is None:
                if assignment.weights is not None:
                    spec = replace(spec, weights=_local_path(assignment.weights))
                # Our own search, and lc0 on a graphics card, choose the number of simultaneous searches themselves.
                chooses_itself = spec.kind.takes_net and (self._gpu or spec.kind.built_in)
                searches = assignment.searches or (None if chooses_itself else self._cores)
                net = self._open_net() if spec.kind.built_in else None
                self._judge = open_judge(spec, net_path=_local_path(assignment.net), net=net, workers=searches)
            return self._judge

    def _check_driver(self) -> None:
        if self._driver_left:  # nobody would close them later
            raise ValueRepairError("its driver has disconnected")

    def work(self, role: Role, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results of calls of the net or the judge; each of `calls` is a method's name and its arguments."""
        self._last_used = time.monotonic()
        try:
            if role is Role.NET:
                # One batch after the other: the last bits of a value depend on its batch.
                with self._evaluating:
                    net = self._open_net()
                    return [_call_net(net, *call) for call in calls]
            judge = self._open_judge()
            futures = [getattr(judge, method)(*arguments) for method, *arguments in calls]
            return [future.result() for future in futures]
        finally:
            self._last_used = time.monotonic()


def _call_net(net: Net, method: str, batch: PositionBatch, *arguments: Any) -> Any:
    """The result of a method of `ClusterNet`, by the net of this worker."""
    if method == "search_lines":
        return searched_lines(net, batch, *arguments)
    return net.evaluate(batch) if method == "evaluate" else net.priors(batch)


def work(session: str, role: Role, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The task that Dask runs: `WorkerEvaluators.work`. Raises WorkerFailed."""
    worker = get_worker()
    evaluators = worker.plugins.get(session)
    if not isinstance(evaluators, WorkerEvaluators):  # the driver knew another process at this address
        raise WorkerFailed(worker.address, "")
    try:
        return evaluators.work(role, calls)
    except Exception as error:
        raise WorkerFailed(worker.address, reason_of(error)) from None


async def join(assignment: Assignment, files_sent: bool, dask_worker: Any) -> dict[Role, Offer | str] | list[NetFile]:
    """Opens net and engines. Returns an offer for each role, or the reason why it cannot be opened.

    Before the driver has sent net files (`files_sent` is False), returns the files that this machine lacks, if any, and
    opens nothing. This function, `keep` and `leave` run in the worker's event loop, while its tasks run.
    """
    if assignment.version != __version__:
        return dict.fromkeys(Role, f"it has valuerepair {__version__}, the driver {assignment.version}")
    files = [file for file in (assignment.net, assignment.weights) if file is not None]
    if not files_sent:
        paths = await asyncio.gather(*(asyncio.to_thread(_find, file) for file in files))
        if missing := [file for file, path in zip(files, paths, strict=True) if path is None]:
            return missing
    if assignment.session not in dask_worker.plugins:
        await dask_worker.plugin_add(WorkerEvaluators(assignment, dask_worker), name=assignment.session)
    evaluators = dask_worker.plugins[assignment.session]
    return {role: await asyncio.to_thread(evaluators.offer, role) for role in Role}


async def keep(file: NetFile, content: bytes) -> None:
    """Puts a net file into the cache. Raises ValueRepairError."""
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != file.sha256:
        raise ValueRepairError(f"{file.path.name} came with SHA-256 {sha256[:12]}, not {file.sha256[:12]}")
    try:
        with written_whole(_cached(file)) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise ValueRepairError(f"{file.path.name} cannot be kept: {error.strerror}") from None


async def leave(session: str, dask_worker: Any) -> None:
    """Ends a session: closes what this worker has open for it."""
    if session in dask_worker.plugins:
        await dask_worker.plugin_remove(session)


def _cached(file: NetFile) -> Path:
    folder = cache_folder("cluster") / file.sha256[:32]
    folder.mkdir(exist_ok=True)
    return folder / file.path.name  # a name only: nothing is written elsewhere


def _find(file: NetFile) -> Path | None:
    """The same file on this machine: in the cache, or at the driver's path (a shared folder); None if it is in neither.

    Its hash is compared: another net may lie at that path here, and nets of one architecture often have the same size.
    """
    for path in (_cached(file), file.path):
        with contextlib.suppress(OSError, ValueRepairError):
            if path.stat().st_size == file.size and file_sha256(str(path)) == file.sha256:
                return path
    return None


def _local_path(file: NetFile) -> str:
    if (path := _find(file)) is None:
        raise ValueRepairError(f"{file.path.name} has vanished from its cache")
    return str(path)
