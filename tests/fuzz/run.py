"""``python -m tests.fuzz.run TARGET COUNT [SEED]``: so many mutants through a target, bounded in time and memory.

The first failing input is written to ``fuzz-TARGET-SEED-NUMBER.bin`` of the working directory, and its trace printed.
"""

from __future__ import annotations

import faulthandler
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutate import mutant
from tests.fuzz.targets import TARGETS

SLOWEST_S = 20.0  # of one input, on a machine that is busy with other things
MOST_MEMORY = 768 << 20  # bytes that all inputs together may add to the peak of the seeds


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True)
class Mutating:
    """What is damaged by `damage`, one way or several, and given to `run`, which raises for a fault."""

    name: str
    seeds: Sequence[bytes]
    run: Callable[[bytes], object]
    damage: Sequence[Callable[..., bytes]]

    @staticmethod
    def of(name: str) -> Mutating:
        """The target of this name."""
        target = TARGETS[name]
        return Mutating(name, target.seeds(), target.run, target.damage)


def fuzz(target: Mutating, count: int, seed: int = 0, *, keep_going: bool = False) -> int:
    """Runs the seeds, then `count` mutants; returns how many mutants ran. Raises what the target raises."""
    name, failed = target.name, 0
    for data in target.seeds:
        target.run(data)
    before = peak()
    for number in range(count):
        data = mutant(random.Random(f"{name} {seed} {number}"), target.seeds, target.damage)
        started = time.monotonic()
        faulthandler.dump_traceback_later(10 * SLOWEST_S, exit=True)
        try:
            target.run(data)
            seconds = time.monotonic() - started
            assert seconds < SLOWEST_S, f"took {seconds:.0f} s"
            assert peak() - before < MOST_MEMORY, f"took {(peak() - before) >> 20} MiB"
        except Exception as error:
            path = Path(f"fuzz-{name}-{seed}-{number}.bin")
            path.write_bytes(data)
            print(f"{path}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            failed += 1
            if not keep_going:
                raise
        finally:
            faulthandler.cancel_dump_traceback_later()
    said = f"{count:,} mutants of {len(target.seeds)} inputs, seed {seed}: {failed} faults"
    print(f"{name}: {said}, {(peak() - before) >> 20} MiB more at most")
    return count


if __name__ == "__main__":
    fuzz(Mutating.of(sys.argv[1]), int(sys.argv[2]), int((sys.argv[3:] or ["0"])[0]), keep_going=True)
