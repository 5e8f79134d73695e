"""A preload of Dask for workers on this machine: Ctrl-C in the terminal is for the driver, which ends them itself."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Called in the worker's main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
