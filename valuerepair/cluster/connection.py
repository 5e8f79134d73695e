"""Dask as the driver uses it: a client, workers on this machine, and one task on one worker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from valuerepair.cluster.address import ClusterAddress
from valuerepair.errors import ValueRepairError

CONNECT_S = 15.0
# A scheduler that was there and is gone may come back within this time: its supervisor starts it anew.
RETURN_S = 120.0
_ATTEMPT_S = 3.0
_ANSWER_S = 30.0


class SchedulerGone(Exception):
    """The scheduler does not answer, has forgotten us, or is another one."""


class Connection:
    """A connected client. Its methods raise SchedulerGone when the scheduler is lost."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._id = ""

    async def workers(self) -> dict[str, dict[str, Any]]:
        """The scheduler's facts of each worker, by address."""
        if self._client.status != "running":
            raise SchedulerGone
        try:
            facts = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), _ANSWER_S)
        except (OSError, asyncio.TimeoutError):
            raise SchedulerGone from None
        if facts["id"] != (self._id or facts["id"]):
            raise SchedulerGone
        self._id = facts["id"]
        found: dict[str, dict[str, Any]] = facts["workers"]
        return found

    async def task(self, address: str, gpu: bool, priority: int, function: Callable[..., Any], *given: Any) -> Any:
        """What a function gives on one worker, and never on another; the result is released there at once.

        With `gpu` it counts against the worker's resource GPU. Raises what the function raises, SchedulerGone, and
        KilledWorker where the scheduler saw the worker go.
        """
        from concurrent.futures import CancelledError

        future = self._client.submit(
            function,
            *given,
            pure=False,
            retries=0,
            workers=[address],
            allow_other_workers=False,
            priority=priority,
            resources={"GPU": 1} if gpu else None,
        )
        try:
            return await future
        except CancelledError:
            raise SchedulerGone from None
        finally:
            future.release()

    async def close(self) -> None:
        """Ends the connection, whatever state it is in."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._client.close(timeout=2), 10)


def _check_certificates(address: str) -> None:
    """Raises ValueRepairError where an address, or Dask's configuration, asks for certificates that are not there."""
    import dask
    from distributed.security import Security

    if not (address.startswith(("tls:", "wss:")) or dask.config.get("distributed.comm.require-encryption")):
        return
    try:
        # Not typed, as half of the package.
        certified = Security().get_connection_args("client").get("ssl_context") is not None  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ValueRepairError(f"--cluster {address}: the certificates cannot be read: {error}") from None
    if not certified:
        raise ValueRepairError(
            f"--cluster {address}: no certificate is set; name yours in Dask's configuration (distributed.comm.tls)"
        )


async def _client(address: str) -> Any:
    from distributed import Client

    # Not typed either.
    return await Client(address, asynchronous=True, timeout=_ATTEMPT_S, set_as_default=False)  # type: ignore[no-untyped-call]


async def connect(address: str, patience: float) -> Connection:
    """Connects, trying for so many seconds. Raises SchedulerGone. TLS is as Dask's configuration says."""
    _check_certificates(address)
    deadline = time.monotonic() + patience
    while True:
        try:
            client = await asyncio.wait_for(_client(address), 3 * _ATTEMPT_S)
        except (OSError, asyncio.TimeoutError):
            if time.monotonic() > deadline:
                raise SchedulerGone from None
            await asyncio.sleep(0.5)
        except (ValueError, RuntimeError, TypeError) as error:
            raise ValueRepairError(f"--cluster {address}: {error}") from None
        else:
            return Connection(client)


def _check_dashboard(where: ClusterAddress) -> None:
    """Raises ValueRepairError for a port that is taken: Dask would choose another, and not say so."""
    if where.dashboard is None:
        return
    try:
        with socket.create_server(("127.0.0.1", where.dashboard)):
            pass
    except OSError as error:
        raise ValueRepairError(
            f"--cluster {where}: port {where.dashboard} of this machine cannot be used ({error.strerror}); give another"
        ) from None


@asynccontextmanager
async def scheduler_of(where: ClusterAddress) -> AsyncIterator[str]:
    """The scheduler's address; workers on this machine are started here, and ended with the block."""
    if not where.local:
        yield where.scheduler
        return
    import dask
    from distributed import LocalCluster

    calm = {
        "distributed.worker.profile.enabled": False,
        "distributed.scheduler.allowed-failures": 0,
    }
    _check_certificates(str(where))
    _check_dashboard(where)
    # Without a dashboard a few pages are served all the same: any port does, where Dask would say that 8787 is taken.
    shown = where.dashboard is not None
    with dask.config.set(calm):
        async with LocalCluster(  # type: ignore[no-untyped-call]  # not typed either
            n_workers=where.local,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=f"127.0.0.1:{where.dashboard or 0}",
            scheduler_kwargs={"dashboard": shown},
            worker_dashboard_address=None,
            memory_limit=0,
            preload=["valuerepair.cluster.shield"],
            asynchronous=True,
        ) as cluster:
            yield str(cluster.scheduler_address)
