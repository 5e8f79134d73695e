"""The messages between driver and workers before work begins: what a worker must open, and what it offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import NetIdentity
from valuerepair.nets.weights import NetFile
from valuerepair.store.rows import OracleIdentity


class Role(Enum):
    """What a worker is used for."""

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

    def is_for_gpu(self, role: Role) -> bool:
        """Whether a role is work for graphics cards: the net, our own search, or lc0 with a GPU backend."""
        return role is Role.NET or self.deep.kind.on_gpu(self.deep.options)


class Offer(NamedTuple):
    """What a worker has for a role. `at_once` counts searches at a time, 1 for a net; `provider` is the net's."""

    identity: NetIdentity | OracleIdentity
    at_once: int = 1
    provider: str = ""


class WorkerFailed(Exception):
    """A worker cannot go on with a role; `reason` is empty if the worker does not know the session."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason


def reason_of(error: Exception) -> str:
    """An error on a worker in one line."""
    line = " ".join(str(error).split())
    if isinstance(error, ImportError) or "deserialization" in line:
        return f"it cannot import what the driver has ({line}); install the same valuerepair there and at the scheduler"
    return line if isinstance(error, ValueRepairError) else f"{type(error).__name__}: {line}"


def difference(mine: NetIdentity | OracleIdentity, wanted: NetIdentity | OracleIdentity) -> str | None:
    """How a worker's net or engine differs from the agreed one, in one line; None if it does not."""
    if mine == wanted:
        return None
    if isinstance(mine, NetIdentity) or isinstance(wanted, NetIdentity):
        its = f"its net {mine.name}" if isinstance(mine, NetIdentity) else "its net"
    elif mine.engine != wanted.engine:
        return f"its engine is {mine.engine}, not {wanted.engine}"
    else:
        its = f"its {mine.engine}"
        for name in sorted({*mine.options, *wanted.options}):
            if mine.sha256 == wanted.sha256 and mine.options.get(name) != wanted.options.get(name):
                return f"{its} has {name}={mine.options.get(name)}, not {wanted.options.get(name)}"
    if mine.sha256 != wanted.sha256:
        return f"{its} is another file: SHA-256 {mine.sha256[:12]}, not {wanted.sha256[:12]}"
    return f"{its} is {mine}, not {wanted}"
