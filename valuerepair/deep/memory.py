"""How much memory this process may still take."""

from __future__ import annotations

import re
from pathlib import Path


def available_memory() -> int | None:
    """Bytes that can be taken without swapping, within a container's limit; None where the system does not say."""
    found = [size for size in (_system(), _container()) if size is not None]
    return min(found) if found else None


def _system(path: Path = Path("/proc/meminfo")) -> int | None:
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _container(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    try:
        limit, used = ((folder / name).read_text() for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None  # no control group, or the limit is "max"
