"""The messages between driver and workers before work begins: a worker's assignment, and its offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import NetIdentity
from valuerepair.nets.weights import NetFile
from valuerepair.store.rows import JudgeIdentity


class Role(Enum):
    """A use of a worker."""

    NET = "net"
    SEARCH = "deep search"


@dataclass(frozen=True)
class Assignment:
    """What workers open for a driver's session. `weights` is the net that `deep` itself names.

    A net file is identified by its SHA-256; a worker looks for it at the driver's path, too. Each worker runs
    `searches` at a time (None: a good number) on `cores` cores (None: one for each of its threads).
    """

    session: str
    version: str
    net: NetFile
    net_options: Mapping[str, Any]
    deep: EngineSpec
    weights: NetFile | None
    searches: int | None
    cores: int | None


class Offer(NamedTuple):
    """A net or engine of a worker. `at_once` counts searches at a time, 1 for a net; `provider` is the net's."""

    identity: NetIdentity | JudgeIdentity
    at_once: int = 1
    provider: str = ""


class WorkerFailed(Exception):
    """A worker cannot continue a role; `reason` is empty if the worker does not know the session."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason


def reason_of(error: Exception) -> str:
    """An error on a worker in one line."""
    line = " ".join(str(error).split())
    if isinstance(error, ImportError) or "deserialization" in line:
        return f"it cannot import what the driver has ({line}); install the same valuerepair there and at the scheduler"
    return line if isinstance(error, ValueRepairError) else f"{type(error).__name__}: {line}"


def difference(offered: NetIdentity | JudgeIdentity, agreed: NetIdentity | JudgeIdentity) -> str | None:
    """How a worker's net or engine differs from the agreed one, in one line; None if both give the same values."""
    if isinstance(offered, NetIdentity) or isinstance(agreed, NetIdentity):
        if offered == agreed:
            return None
        subject = f"its net {offered.name}" if isinstance(offered, NetIdentity) else "its net"
    elif offered.digest == agreed.digest:
        return None
    elif offered.engine != agreed.engine:
        return f"its engine is {offered.engine}, not {agreed.engine}"
    else:
        subject = f"its {offered.engine}"
        for name in sorted({*offered.options, *agreed.options}):
            if offered.options.get(name) != agreed.options.get(name):
                return f"{subject} has {name}={offered.options.get(name)}, not {agreed.options.get(name)}"
    if offered.sha256 != agreed.sha256:
        return f"{subject} is another file: SHA-256 {offered.sha256[:12]}, not {agreed.sha256[:12]}"
    return f"{subject} is {offered}, not {agreed}"
