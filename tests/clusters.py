"""Real Dask schedulers and workers on this machine, as processes of their own that a test may kill."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from valuerepair.files import cache_root

START_S = 60.0
# Losses are to be seen in the time of a test.
CALM = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",  # the least that Dask takes
    "OPENBLAS_NUM_THREADS": "1",
}


def free_port() -> int:
    """A port below those that the system gives to clients: a client may otherwise meet itself there."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(20_000, 30_000)))
            return int(probe.getsockname()[1])


class Machines:
    """A scheduler and its workers; all of them are killed at the end. `cache` is the workers' cache of nets."""

    def __init__(
        self, folder: Path, host: str = "127.0.0.1", protocol: str = "tcp", config: Path | None = None
    ) -> None:
        """`config` is a folder of Dask's configuration, beside which nothing is read."""
        self.folder, self.host, self._protocol = folder, host, protocol
        self._environment = {} if config is None else {"DASK_CONFIG": str(config)}
        self.port = free_port()
        self.address = f"{protocol}://{host}:{self.port}"
        self.cache = folder / "worker-cache"
        self.cache.mkdir(parents=True)
        # Compiled kernels and converted nets are those of this user: to make them takes a minute.
        for part in cache_root().glob("*"):
            if part.name != "cluster":
                (self.cache / part.name).symlink_to(part)
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def start_scheduler(self) -> None:
        options = ["--host", self.host, "--port", str(self.port), "--no-dashboard", "--no-show"]
        options += ["--protocol", self._protocol]
        self.scheduler = self._start("scheduler", ["distributed.cli.dask_scheduler", *options])
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1):
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "scheduler.log").read_text())

    def start_worker(
        self,
        name: str,
        *options: str,
        nanny: bool = False,
        environment: Mapping[str, str] | None = None,
        enter: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Starts one; it need not be there yet when this returns. `enter` is put before its command line."""
        command = ["distributed.cli.dask_worker", self.address, "--name", name, "--nthreads", "1", "--no-dashboard"]
        command += ["--nanny" if nanny else "--no-nanny", "--memory-limit", "0", "--local-directory", str(self.folder)]
        process = self._start(name, [*command, *options], enter, environment)
        self.workers[name] = process
        return process

    def _start(
        self, name: str, module: list[str], enter: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        own = {**os.environ, **CALM, "VALUEREPAIR_CACHE": str(self.cache), **self._environment, **(environment or {})}
        own["PYTHONPATH"] = str(Path(__file__).parents[1])
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*enter, sys.executable, "-m", *module],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env=own,
                start_new_session=True,
            )

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        kill(self.scheduler)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def __enter__(self) -> Machines:
        self.start_scheduler()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.workers.values(), self.scheduler):
            if process is not None:
                kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the process and all of its session (a nanny's workers)."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def machines(folder: Path, workers: int, *, nanny: bool = False) -> Iterator[Machines]:
    """A scheduler with so many alike workers."""
    with Machines(folder) as found:
        for number in range(workers):
            found.start_worker(f"w{number}", nanny=nanny)
        yield found
