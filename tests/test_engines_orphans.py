"""No engine outlives us: the parent is really killed, in the middle of searches, and its engines are looked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

FAKE = str(Path(__file__).with_name("fake_engine.py"))
# It searches on: of engines that answer at once the pool might never need the second.
DEAF = ("deaf", "hang-on=startpos")
PARENT = """
import sys, time
from valuerepair.engines.pool import EnginePool, TimeLimit, one_search
from valuerepair.engines.uci import EngineSetup
path, go, *arguments = sys.argv[1:]
pool = EnginePool(EngineSetup(path, tuple(arguments)), TimeLimit(timeout=600, first=600), 2)
futures = [pool.submit("position startpos", lambda: one_search(go, lambda r: r), lambda *_: None) for _ in range(2)]
print("searching", flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted", pool.counts.crashes, flush=True)
    pool.close(cancel=True)
"""


def start(*arguments: str, processes: int = 3) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A parent whose two engines search, and the `processes` below it: engines, reaper, engines' children."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    try:
        assert parent.stdout.readline() == "searching\n"
        deadline = time.monotonic() + 20
        while len(below := psutil.Process(parent.pid).children(recursive=True)) < processes:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.5)  # into the search
        assert psutil.Process(parent.pid).children(recursive=True) == below
    except AssertionError:
        parent.kill()  # else other tests would find its processes
        raise
    return parent, below


def gone(processes: list[psutil.Process], seconds: float = 5.0) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return all(p.status() == psutil.STATUS_ZOMBIE for p in alive)


@pytest.mark.parametrize("what", [["hang-on=startpos"], [*DEAF], [*DEAF, "child"]])
def test_kill_9_of_the_parent_leaves_nothing(what: list[str]) -> None:
    # With "child" each engine has a process of its own, as of a wrapper script.
    parent, below = start(sys.executable, "go nodes 5", "-I", "-S", FAKE, *what, processes=5 if "child" in what else 3)
    parent.kill()
    parent.wait()
    assert gone(below)


def test_kill_9_of_the_parent_ends_stockfish_in_the_middle_of_a_search(stockfish: str) -> None:
    parent, below = start(stockfish, "go infinite")
    deadline = time.monotonic() + 10
    while (begun := sum(p.name() == "stockfish" for p in below)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)  # one may be a Python still that is about to become it
    parent.kill()
    assert begun == 2
    parent.wait()
    assert gone(below, 2.0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the reaper alone ends them")
def test_kill_9_of_parent_and_reaper_together_still_ends_the_engines() -> None:
    parent, below = start(sys.executable, "go nodes 5", "-I", "-S", FAKE, *DEAF)
    reaper = next(p for p in below if p.cmdline()[-1] == "reap")
    reaper.kill()
    parent.kill()
    parent.wait()
    assert gone(below)


def test_ctrl_c_in_the_terminal_reaches_us_and_not_the_engines() -> None:
    parent, below = start(sys.executable, "go nodes 5", "-I", "-S", FAKE, "hang-on=startpos")
    assert all(os.getsid(p.pid) == p.pid for p in below)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "interrupted 0\n"
    assert parent.wait(5) == 0
    assert gone(below)


def test_an_exit_without_closing_leaves_nothing(stockfish: str) -> None:
    program = PARENT.split("print(")[0] + "time.sleep(0.3)"
    started = time.monotonic()
    before = {p.pid for p in psutil.process_iter() if p.name() == "stockfish"}
    subprocess.run([sys.executable, "-c", program, stockfish, "go infinite"], check=True, timeout=20)
    assert time.monotonic() - started < 15
    deadline = time.monotonic() + 3
    left = {1}
    while left and time.monotonic() < deadline:
        # Children of others' runs on this machine started meanwhile have a living parent that is not init.
        left = {
            p.pid
            for p in psutil.process_iter()
            if p.name() == "stockfish" and p.pid not in before and p.ppid() == 1 and p.status() != psutil.STATUS_ZOMBIE
        }
        time.sleep(0.05)
    assert not left
