"""A preload of Dask for workers on this machine: the driver ends them, and says what there is to say of them."""

from __future__ import annotations

import logging
import signal
import warnings


def dask_setup(worker: object) -> None:
    """Called in the worker's main thread. Ctrl-C in the terminal is for the driver, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quiet()


def quiet() -> None:
    """Dask's own lines, of this process, would stand between ours; what they say is said in ours.

    Workers that end while a heartbeat is on its way log a traceback.
    """
    import distributed  # noqa: F401  # it sets levels when it is imported

    dask = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]
    for name in ("distributed", "tornado", "tornado.application", *dask):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message="Creating scratch directories is taking")
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")  # of connections that fail
