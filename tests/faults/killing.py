"""Kills a command at random moments, again and again, and lets it go on: the harness of the kill tests."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable

KILLS = int(os.environ.get("VALUEREPAIR_FAULT_KILLS", "20"))

Start = Callable[[int], "subprocess.Popen[str]"]


def killed_often(start: Start, check: Callable[[int], None], kills: int, within: float, seed: int) -> int:
    """Starts run after run, kills each at a random moment, and starts it again until it is done, `kills` kills in all.

    `start` begins (or goes on with) the run of a number; `check` is called with the number when it ended by itself.
    A quarter of the kills come in the first tenth of the time: while it opens its files. Returns the runs.
    """
    dice, killed, run = random.Random(seed), 0, 0
    while True:
        process = start(run)
        wait = dice.uniform(0, within if dice.random() < 0.75 else within / 10)
        begun = time.monotonic()
        while killed < kills and process.poll() is None and time.monotonic() - begun < wait:
            time.sleep(0.005)
        if killed < kills and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += 1
            continue
        said = process.communicate(timeout=600)
        assert process.returncode == 0, said
        check(run)
        run += 1
        if killed >= kills:
            return run
