"""The text of ``--cluster``: which scheduler, or how many workers on this machine."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from valuerepair.errors import UsageError

EXAMPLE = "give tcp://HOST:8786, tls://HOST:8786, the scheduler's .json file, or local:4"
_LOCAL = re.compile(r"local:(\d+)(?:,dashboard=(\d+))?")
_REMOTE = re.compile(r"(?:tcp|tls|ws|wss)://[^/\s]+:(\d+)/?")
_PORTS = range(1, 65536)
# Workers of one thread that a core may have: more only wait for it, and each takes a second to start.
_A_CORE, _LEAST = 4, 8


@dataclass(frozen=True)
class ClusterAddress:
    """A scheduler's address, or `local` workers on this machine, with a dashboard on a port of 127.0.0.1 if asked."""

    scheduler: str = ""
    local: int = 0
    dashboard: int | None = None

    def __str__(self) -> str:
        return self.scheduler or f"local:{self.local}"


def parse_cluster(text: str) -> ClusterAddress:
    """Parses ``tcp://HOST:PORT``, ``local:N``, ``local:N,dashboard=PORT`` or a scheduler file. Raises UsageError."""
    if match := _LOCAL.fullmatch(text):
        workers, port = int(match[1]), None if match[2] is None else int(match[2])
        most = max(_LEAST, _A_CORE * (os.cpu_count() or 1))
        if not 1 <= workers <= most:
            raise UsageError(f"--cluster {text}: this machine can have 1 to {most} workers")
        if port is not None and port not in _PORTS:
            raise UsageError(f"--cluster {text}: a port is a number from 1 to 65535")
        return ClusterAddress(local=workers, dashboard=port)
    if match := _REMOTE.fullmatch(text):
        if int(match[1]) not in _PORTS:
            raise UsageError(f"--cluster {text}: a port is a number from 1 to 65535")
        return ClusterAddress(text.rstrip("/"))
    if text.endswith(".json"):
        return ClusterAddress(_address_in(text))
    raise UsageError(f"--cluster {text}: {EXAMPLE}")


def _address_in(path: str) -> str:
    """The address in the file that ``dask scheduler --scheduler-file`` writes."""
    try:
        address = json.loads(Path(path).expanduser().read_text("utf-8"))["address"]
    except OSError as error:
        raise UsageError(f"--cluster {path}: cannot be read: {error.strerror}; {EXAMPLE}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"--cluster {path}: is no scheduler file; {EXAMPLE}") from None
    if not isinstance(address, str) or not _REMOTE.fullmatch(address):
        raise UsageError(f"--cluster {path}: holds no scheduler address; {EXAMPLE}")
    return address
