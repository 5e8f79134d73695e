"""Runs every `vr … --help` of an installed `vr`; fails when one fails or is too slow three times.

What counts is the processor's time: other work on the machine is not our slowness.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys

LIMIT_S, LIMIT_OF_GROUP_S = 0.3, 0.15


def used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def best_time(command: list[str], limit: float) -> float:
    """The first that is fast enough, else the best of three."""
    best = float("inf")
    for _ in range(3):
        start = used()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        best = min(best, used() - start)
        if best <= limit:
            break
    return best


vr = sys.argv[1]
listing = subprocess.run([vr, "--help"], check=True, capture_output=True, text=True).stdout
# A command's line begins after two spaces, and its help after two more at least.
commands = re.findall(r"^  ([a-z]+)  ", listing, flags=re.MULTILINE)
assert len(commands) > 20, listing
slow = False
for arguments in [[], *([name] for name in commands)]:
    limit = LIMIT_S if arguments else LIMIT_OF_GROUP_S
    seconds = best_time([vr, *arguments, "--help"], limit)
    slow |= seconds > limit
    print(f"{seconds:6.2f} s  vr {' '.join([*arguments, '--help'])}")
sys.exit("too slow" if slow else 0)
