"""Runs every `vr … --help` of an installed `vr`; fails when one fails or takes over 0.5 s three times."""

from __future__ import annotations

import re
import subprocess
import sys
import time

LIMIT_S = 0.5


def best_time(command: list[str]) -> float:
    """The first that is fast enough, else the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
        if best <= LIMIT_S:
            break
    return best


vr = sys.argv[1]
listing = subprocess.run([vr, "--help"], check=True, capture_output=True, text=True).stdout
# A command's line begins after two spaces, and its help after two more at least.
commands = re.findall(r"^  ([a-z]+)  ", listing, flags=re.MULTILINE)
assert len(commands) > 20, listing
slow = False
for arguments in [[], *([name] for name in commands)]:
    seconds = best_time([vr, *arguments, "--help"])
    slow |= seconds > LIMIT_S
    print(f"{seconds:6.2f} s  vr {' '.join([*arguments, '--help'])}")
sys.exit("slower than half a second" if slow else 0)
