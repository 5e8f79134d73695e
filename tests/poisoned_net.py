"""A preload for Dask's workers: the net kills the process that runs it on one position, whose key VR_POISON says."""

from __future__ import annotations

import os
import signal
from unittest import mock

from valuerepair.chess.positions import PositionBatch
from valuerepair.nets.net import Net, NetValues


def dask_setup(worker: object) -> None:
    """Called in the worker's process."""
    poison, evaluate = int(os.environ["VR_POISON"]), Net.evaluate

    def poisoned(net: Net, batch: PositionBatch) -> NetValues:
        if poison in batch.key.tolist():
            os.kill(os.getpid(), signal.SIGKILL)
        return evaluate(net, batch)

    mock.patch.object(Net, "evaluate", poisoned).start()
