"""The text of ``--cluster``, the workers it starts on this machine, and Dask's client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import read_json

EXAMPLE = "give tcp://HOST:8786, tls://HOST:8786, the scheduler's .json file, or local:4"
_LOCAL = re.compile(r"local:(\d+)(?:,dashboard=(\d+))?")
_REMOTE = re.compile(r"(?:tcp|tls|ws|wss)://[^/\s]+:(\d+)/?")
# The most workers on this machine: this many per core, or this many in all if that is more. Further ones would only
# wait for a core, and each takes a second to start.
_PER_CORE, _MOST_ANYWHERE = 4, 8
# Tasks that a worker of this machine runs at a time: two searches, one batch of the net, one spare.
_LOCAL_THREADS = 4


@dataclass(frozen=True)
class ClusterAddress:
    """A scheduler's address, or a number of `local` workers, with an optional `dashboard` (a port of 127.0.0.1)."""

    scheduler: str = ""
    local: int = 0
    dashboard: int | None = None

    def __str__(self) -> str:
        return self.scheduler or f"local:{self.local}"


def parse_cluster(text: str) -> ClusterAddress:
    """Parses ``tcp://HOST:PORT``, ``local:N``, ``local:N,dashboard=PORT`` or a scheduler file. Raises UsageError."""
    scheduler = _address_in(text) if text.endswith(".json") else text
    local, remote = _LOCAL.fullmatch(text), _REMOTE.fullmatch(scheduler)
    port = remote[1] if remote else local[2] if local else None
    if port is not None and not 1 <= int(port) <= 65535:
        raise UsageError(f"--cluster {text}: a port is a number from 1 to 65535")
    if remote:
        return ClusterAddress(scheduler.rstrip("/"))
    most = max(_MOST_ANYWHERE, _PER_CORE * (os.cpu_count() or 1))
    if local and not 1 <= int(local[1]) <= most:
        raise UsageError(f"--cluster {text}: this machine can have 1 to {most} workers")
    if local:
        return ClusterAddress(local=int(local[1]), dashboard=None if port is None else int(port))
    raise UsageError(f"--cluster {text}: {EXAMPLE}")


def _address_in(path: str) -> str:
    """The address in the file that ``dask scheduler --scheduler-file`` writes."""
    try:
        return str(read_json(Path(path).expanduser(), "a scheduler file").get("address"))
    except OSError as error:
        raise UsageError(f"--cluster {path}: cannot be read: {error.strerror}; {EXAMPLE}") from None
    except ValueRepairError as error:
        raise UsageError(f"--cluster {error}; {EXAMPLE}") from None


@asynccontextmanager
async def scheduler_of(where: ClusterAddress) -> AsyncIterator[str]:
    """The scheduler's address. Starts `local` workers, which end with the block. Raises ValueRepairError."""
    from multiprocessing import util

    import dask
    from distributed import LocalCluster

    silence_dask()
    _check_certificates(str(where))
    if not where.local:
        yield where.scheduler
        return
    try:
        # Dask would silently choose another port. Even without a dashboard it serves some pages, on any port.
        socket.create_server(("127.0.0.1", where.dashboard or 0)).close()
    except OSError as error:
        why = f"port {where.dashboard} of this machine cannot be used ({error.strerror}); give another"
        raise ValueRepairError(f"--cluster {where}: {why}") from None
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        async with LocalCluster(  # type: ignore[no-untyped-call]  # half of the package is untyped
            n_workers=where.local,
            threads_per_worker=_LOCAL_THREADS,
            processes=True,
            host="127.0.0.1",
            dashboard_address=f"127.0.0.1:{where.dashboard or 0}",
            scheduler_kwargs={"dashboard": where.dashboard is not None},
            worker_dashboard_address=None,
            memory_limit=0,
            preload=[__name__],
            asynchronous=True,
        ) as cluster:
            yield str(cluster.scheduler_address)
    # Releases the semaphores of its queues. Python does so when it exits, but `vr` ends without that.
    util._run_finalizers()  # type: ignore[attr-defined]  # typeshed leaves it out


@asynccontextmanager
async def connected(address: str, patience: float, return_s: float) -> AsyncIterator[Any]:
    """A client of Dask, with TLS as in Dask's configuration. Raises ValueRepairError if no scheduler answers.

    Waits `patience` seconds for the first answer. A client that loses its scheduler tries for `return_s` seconds to
    reach it again.
    """
    from distributed import Client

    client: Any = Client(address, asynchronous=True, timeout=return_s, set_as_default=False)  # type: ignore[no-untyped-call]  # as above
    try:
        try:
            await asyncio.wait_for(client, patience)
        except (OSError, asyncio.TimeoutError):
            advice = "start one with `dask scheduler`, or check the address"
            raise ValueRepairError(f"--cluster: no scheduler answers at {address}; {advice}") from None
        yield client
    finally:
        with contextlib.suppress(Exception):  # a client may be in any state by now
            await asyncio.wait_for(client.close(timeout=2), 10)


def _check_certificates(address: str) -> None:
    """Raises ValueRepairError if the address or Dask's configuration requires certificates that are missing."""
    import dask
    from distributed.security import Security

    if address.startswith(("tls:", "wss:")) or dask.config.get("distributed.comm.require-encryption"):
        try:
            arguments = Security().get_connection_args("client")  # type: ignore[no-untyped-call]  # as above
        except OSError as error:
            raise ValueRepairError(f"--cluster {address}: the certificates cannot be read: {error}") from None
        if arguments.get("ssl_context") is None:
            advice = "name yours in Dask's configuration (distributed.comm.tls)"
            raise ValueRepairError(f"--cluster {address}: no certificate is set; {advice}")


def dask_setup(worker: object) -> None:
    """Dask calls this in each local worker."""
    silence_dask()


def silence_dask() -> None:
    """Silences Dask's own log lines in this process; a worker that ends during a heartbeat would log a traceback."""
    import distributed  # noqa: F401  # its import sets the levels

    dask = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]
    for name in ("distributed", "tornado", "tornado.application", *dask):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message="Creating scratch directories is taking")
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")  # of connections that fail
