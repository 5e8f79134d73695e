"""What a driver asks of workers, what a worker answers, and what differs between two answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from valuerepair.engines.spec import EngineSpec
from valuerepair.nets.net import NetIdentity
from valuerepair.nets.planes import HistoryFill
from valuerepair.oracles.oracle import OracleIdentity


class Role(Enum):
    """What a worker is used for."""

    NET = "net"
    SEARCH = "deep search"


@dataclass(frozen=True)
class NetFileFacts:
    """A net file by its SHA-256. `path` is where the driver has it; a worker may have it there too."""

    path: str
    file_name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Terms:
    """All that a worker needs to know. `weights` is the net that `deep` names itself, `searches` its ``--jobs``."""

    session: str
    version: str
    net: NetFileFacts
    device: str
    history_fill: HistoryFill
    winograd: bool
    threads: int | None
    deep: EngineSpec
    weights: NetFileFacts | None
    searches: int | None

    def files(self, role: Role) -> Sequence[NetFileFacts]:
        """The net files that a role may need."""
        if role is Role.NET:
            return (self.net,)
        if self.deep.kind not in ("mcts", "lc0"):
            return ()
        own = self.weights or self.net
        # The own search takes its device and threads from the open net.
        return (self.net, own) if self.deep.kind == "mcts" and own != self.net else (own,)

    @property
    def searches_on_gpu(self) -> bool:
        """Whether the deep search is work for a graphics card: the own search, or lc0 with a backend that is."""
        from valuerepair.oracles.open import CPU_BACKENDS

        if self.deep.kind == "lc0":
            backend = next((v for k, v in self.deep.options.items() if k.lower() == "backend"), "eigen")
            return backend not in CPU_BACKENDS
        return self.deep.kind == "mcts"


@dataclass(frozen=True)
class Offer:
    """What a worker has for a role. `at_once`: searches at once, or 1; `provider` and `batch` are the net's."""

    identity: NetIdentity | OracleIdentity
    at_once: int = 1
    provider: str = ""


@dataclass(frozen=True)
class Missing:
    """Files that are to be sent first."""

    files: tuple[NetFileFacts, ...]


@dataclass(frozen=True)
class Refusal:
    """Why a worker is of no use."""

    reason: str


Answer: TypeAlias = "Offer | Missing | Refusal"


def difference(offer: Offer, agreed: Offer) -> str | None:
    """What of an offer is otherwise than agreed, in one line; None: nothing that a value depends on."""
    mine, wanted = offer.identity, agreed.identity
    if isinstance(mine, NetIdentity) and isinstance(wanted, NetIdentity):
        return _net_difference(mine, wanted)
    assert isinstance(mine, OracleIdentity)
    assert isinstance(wanted, OracleIdentity)
    if mine.digest == wanted.digest:
        return None
    if mine.engine != wanted.engine:
        return f"its engine is {mine.engine}, not {wanted.engine}"
    if mine.sha256 != wanted.sha256:
        return f"its {mine.engine} is another file: SHA-256 {mine.sha256[:12]}, not {wanted.sha256[:12]}"
    for name in sorted({*mine.options, *wanted.options}):
        if mine.options.get(name) != wanted.options.get(name):
            return f"its {mine.engine} has {name}={mine.options.get(name)}, not {wanted.options.get(name)}"
    return f"its {mine.engine} is {mine.label}, not {wanted.label}"


def _net_difference(mine: NetIdentity, wanted: NetIdentity) -> str | None:
    if mine == wanted:
        return None
    if mine.sha256 != wanted.sha256:
        return f"its net {mine.name} is another file: SHA-256 {mine.sha256[:12]}, not {wanted.sha256[:12]}"
    if mine.variant != wanted.variant:
        return f"it computes {mine.name}{mine.variant}, not {wanted.name}{wanted.variant}"
    return f"it reads the net otherwise: {mine}, not {wanted}"
