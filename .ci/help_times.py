"""Runs every `vr … --help` of an installed `vr`; fails when one fails or its best of three takes over 0.5 s."""

from __future__ import annotations

import re
import subprocess
import sys
import time

LIMIT_S = 0.5


def best_of_three(command: list[str]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


vr = sys.argv[1]
listing = subprocess.run([vr, "--help"], check=True, capture_output=True, text=True).stdout
# A command's line begins after two spaces, and its help after two more at least.
commands = re.findall(r"^  ([a-z]+)  ", listing, flags=re.MULTILINE)
assert len(commands) > 20, listing
slow = False
for arguments in [[], *([name] for name in commands)]:
    seconds = best_of_three([vr, *arguments, "--help"])
    slow |= seconds > LIMIT_S
    print(f"{seconds:6.2f} s  vr {' '.join([*arguments, '--help'])}")
sys.exit("slower than half a second" if slow else 0)
