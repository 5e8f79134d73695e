"""Run as a program, never imported: ends the engines when our process ends, however that happens.

Two jobs, both with the standard library only (``python -I -S guard.py ...`` starts in some 15 ms):

``launch FD PARENT PROGRAM ARG...`` writes its own process id to FD (the reaper's pipe), asks Linux to kill it when
the thread that started it dies, and becomes the engine. So the reaper knows the engine before it exists.

``reap`` reads ``+pid`` and ``-pid`` lines from standard input. When all of its writers have ended, which happens at the
end of our process, even by kill -9, it kills the remaining process groups. This also reaches children of wrapper
scripts, which the kernel's parent-death signal does not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

CANNOT_RUN = 126  # the exit code of shells for a program that exists but cannot run
_PR_SET_PDEATHSIG = 1


def launch(pipe: int, parent: int, command: list[str]) -> None:
    """Becomes `command`. Exits with 126 and one line on standard error when that is impossible."""
    with contextlib.suppress(OSError):  # without a reaper there is still the parent-death signal
        os.write(pipe, b"+%d\n" % os.getpid())
    os.close(pipe)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # If memory runs out, the kernel kills an engine, which we restart, and not us.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("800")
    if os.getppid() != parent:
        sys.exit(CANNOT_RUN)  # our parent died before the request to be killed with it took effect
    # Python ignores SIGPIPE, and an ignored signal stays ignored in the program it becomes.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot run: {error.strerror}\n")
        sys.exit(CANNOT_RUN)


def reap() -> None:
    """Records process groups until standard input ends, then kills the remaining ones."""
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        group = int(line[1:])
        if line[:1] == b"+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(OSError):  # the group has ended
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "reap":
        reap()
    else:
        launch(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
