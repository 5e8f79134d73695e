"""The workers of a cluster as the driver sees them: what each is used for, and what it has in hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from valuerepair.cluster.chunks import IN_FLIGHT, Chunk, Pace
from valuerepair.cluster.terms import Offer, Role

# A worker that has not been heard of for so long is taken for lost, whatever the scheduler thinks.
SILENT_S = 60.0
_NAME = 80


@dataclass(eq=False)
class Lane:
    """One role of one worker. Without an offer it is still being looked at; refused or lost it takes no work."""

    member: Member
    role: Role
    offer: Offer | None = None
    agreed: bool = False
    refusal: str = ""
    pace: Pace = field(default_factory=lambda: Pace(1))
    chunks: dict[Chunk, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """It takes work."""
        return self.agreed and not self.refusal and not self.member.lost

    @property
    def room(self) -> int:
        """Chunks that it takes now."""
        return 0 if not self.ready or self.member.reserved else max(0, IN_FLIGHT - len(self.chunks))

    @property
    def at_once(self) -> int:
        """Searches at once."""
        return self.offer.at_once if self.offer is not None else 0


@dataclass(eq=False)
class Member:
    """A worker: its address, name and host, whether it has the resource GPU; `folder` is a new one with each process.

    `reserved`: a chunk that may be what kills workers waits until this one has nothing else in hand, or is at work
    there, alone.
    """

    address: str
    name: str
    host: str
    gpu: bool
    folder: str = ""
    lanes: dict[Role, Lane] = field(default_factory=dict)
    lost: bool = False
    reserved: bool = False
    heard: float = field(default_factory=time.monotonic)
    last_seen: float = 0.0

    @staticmethod
    def from_scheduler(address: str, facts: Mapping[str, Any]) -> Member:
        """A worker as the scheduler describes it."""
        gpu = float(facts.get("resources", {}).get("GPU", 0)) >= 1
        name = "".join(c if c.isprintable() else "?" for c in str(facts.get("name", ""))[:_NAME]) or address
        return Member(address, name, str(facts.get("host", address)), gpu, _folder(facts))

    def hear(self, last_seen: float) -> None:
        """Notes the scheduler's time of the last sign of life."""
        if last_seen != self.last_seen:
            self.last_seen, self.heard = last_seen, time.monotonic()

    @property
    def silent(self) -> bool:
        return time.monotonic() - self.heard > SILENT_S

    @property
    def in_hand(self) -> int:
        """Chunks of all roles."""
        return sum(len(lane.chunks) for lane in self.lanes.values())

    def __str__(self) -> str:
        return self.address if self.name == self.address else f"{self.name} ({self.address})"


class Members:
    """All workers, those refused too."""

    def __init__(self) -> None:
        self._by_address: dict[str, Member] = {}

    def update(self, workers: Mapping[str, Mapping[str, Any]]) -> tuple[list[Member], list[Member]]:
        """Takes what the scheduler says: (those that came, those that are lost)."""
        came, gone = [], []
        for address, facts in workers.items():
            known = self._by_address.get(address)
            heard = float(facts.get("last_seen", 0.0))
            if known is not None and known.folder != _folder(facts):  # another process has its port
                gone.append(known)
                known = None
            if known is None or (known.lost and heard != known.last_seen):  # a silent one may come back
                self._by_address[address] = Member.from_scheduler(address, facts)
                came.append(self._by_address[address])
            self._by_address[address].hear(heard)
        for address, member in list(self._by_address.items()):
            if address not in workers:
                del self._by_address[address]
                gone.append(member)
            elif member.silent and not member.lost:
                gone.append(member)
        for member in gone:
            member.lost = True
        return came, gone

    def clear(self) -> list[Member]:
        """Forgets all, and gives them."""
        gone, self._by_address = list(self._by_address.values()), {}
        for member in gone:
            member.lost = True
        return gone

    def forget(self, member: Member) -> None:
        """Forgets one: it is looked at anew when the scheduler names it again."""
        member.lost = True
        if self._by_address.get(member.address) is member:
            del self._by_address[member.address]

    def all(self) -> list[Member]:
        """Those that are there."""
        return list(self._by_address.values())

    def fit_for(self, role: Role, gpu_work: bool) -> list[Member]:
        """Who does a role: work for graphics cards goes to those that have one, other work to the others, if any."""
        there = [member for member in self._by_address.values() if not member.lost]
        wanted = [member for member in there if member.gpu == gpu_work and _usable(member, role)]
        return wanted or there

    def ready(self, role: Role, gpu_work: bool) -> list[Lane]:
        """The lanes that take work of a role."""
        lanes = (member.lanes.get(role) for member in self.fit_for(role, gpu_work))
        return [lane for lane in lanes if lane is not None and lane.ready]


def _usable(member: Member, role: Role) -> bool:
    """Not refused for the role."""
    lane = member.lanes.get(role)
    return lane is None or not lane.refusal


def _folder(facts: Mapping[str, Any]) -> str:
    return str(facts.get("local_directory", ""))
