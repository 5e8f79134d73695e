"""Signals at any moment of a command: what is left when it has ended, and whether the same command goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

# For all commands together.
SIGNALS = int(os.environ.get("VALUEREPAIR_FAULT_SIGNALS", "42"))
SLOWEST_S = 10.0
# What a run leaves on purpose, for the same command to go on from.
_TO_GO_ON = (".checkpoint", "unfinished.json")
_LEFT = ("-wal", "-shm", "-journal", ".lock", ".part")


@dataclass(frozen=True)
class Command:
    """The words of a command, and what must be the same in the end however often it was ended."""

    words: Sequence[str]
    result: Callable[[Path], Any]


@dataclass
class Outcomes:
    """What signals did: how often each outcome was seen, what was wrong, and the longest that one took."""

    codes: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0
    finished: int = 0


def weather(command: Command, inputs: Path, place: Path, signals: int, seed: int) -> Outcomes:
    """Ends a command by `signals` signals, each at its own moment, and starts it again until it is done, again and
    again; each time the result must be that of a run that nothing disturbed."""
    dice, outcomes = random.Random(seed), Outcomes()
    folder = _fresh(inputs, place / "whole")
    for _ in range(2):  # once to fill the caches, once for the time
        folder = _fresh(inputs, folder)
        begun = time.monotonic()
        process = _start(command, folder)
        printed = process.communicate(timeout=300)
        assert process.returncode == 0, printed
        took = time.monotonic() - begun
    whole = command.result(folder)
    number, sent = 0, 0
    folder = _fresh(inputs, place / str(number))
    # A third in the first tenth, the others anywhere; one in ten twice.
    moments = [((i + dice.random()) / signals) ** 2 * took for i in range(signals)]
    dice.shuffle(moments)
    while sent < signals:
        process = _start(command, folder)
        if _strike(
            process, moments[sent], dice, outcomes, f"{command.words[0]} at {moments[sent]:.3f} s of {took:.1f}"
        ):
            sent += 1
            outcomes.wrong += [f"{command.words[0]} at {moments[sent - 1]:.3f} s left {name}" for name in _left(folder)]
        if process.returncode == 0:
            _compare(command, folder, whole, outcomes)
            shutil.rmtree(folder)
            number += 1
            folder = _fresh(inputs, place / str(number))
    process = _start(command, folder)
    printed = process.communicate(timeout=300)
    if process.returncode:
        outcomes.wrong.append(f"{command.words[0]} did not go on: {printed}")
    _compare(command, folder, whole, outcomes)
    return outcomes


def _compare(command: Command, folder: Path, whole: Any, outcomes: Outcomes) -> None:
    outcomes.finished += 1
    if command.result(folder) != whole:
        outcomes.wrong.append(f"{command.words[0]} in {folder} came to another result")


def _fresh(inputs: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(inputs, folder))


def _start(command: Command, folder: Path) -> subprocess.Popen[str]:
    """Starts it, and waits until its first lines have taken the signals over."""
    words = [sys.executable, "-m", "valuerepair", *command.words]
    pipe: Any = subprocess.PIPE
    process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, cwd=folder, start_new_session=True)
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None and not _catches(status, signal.SIGTERM):
        time.sleep(0.0005)
    return process


def _catches(status: Path, number: int) -> bool:
    caught = next((line for line in status.read_text().splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def _strike(process: subprocess.Popen[str], wait: float, dice: random.Random, outcomes: Outcomes, what: str) -> bool:
    """Sends a signal after a while; False where the process ended before it. SIGINT goes to all of its group, as from
    a terminal."""
    number = dice.choice((signal.SIGINT, signal.SIGTERM))
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        pass
    else:
        process.communicate()
        return False
    family = psutil.Process(process.pid).children(recursive=True)
    signal_time = time.monotonic()
    send = os.killpg if number == signal.SIGINT else os.kill
    send(process.pid, number)
    if dice.random() < 0.1:
        time.sleep(dice.uniform(0, 0.5))
        if process.poll() is None:
            send(process.pid, number)
    try:
        _, printed = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        _, printed = process.communicate()
    outcomes.codes[process.returncode] += 1
    seconds = time.monotonic() - signal_time
    outcomes.slowest = max(outcomes.slowest, seconds)
    faults = {
        "a traceback": "Traceback" in printed,
        "something ignored": "ignored" in printed,
        f"exit code {process.returncode}": process.returncode not in (0, 130),
        "another last line": process.returncode == 130 and printed.splitlines()[-1:] != ["vr: interrupted"],
        f"{seconds:.1f} s": seconds > SLOWEST_S,
        "a process": bool(psutil.wait_procs(family, timeout=2)[1]),
    }
    outcomes.wrong += [
        f"{what}, by {number.name}: {fault}: {printed[-3000:]}" for fault, is_there in faults.items() if is_there
    ]
    return True


def _left(folder: Path) -> list[str]:
    """Files that are nobody's."""
    unfinished = [path.relative_to(folder) for path in folder.rglob("*") if path.name.endswith(_LEFT)]
    return [str(path) for path in unfinished if not path.name.endswith(_TO_GO_ON)]
