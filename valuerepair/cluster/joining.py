"""Newcomers: each is looked at, gets the net files that it lacks, and is taken or refused."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from valuerepair.cluster import worker
from valuerepair.cluster.chunks import Pace
from valuerepair.cluster.connection import Connection, SchedulerGone
from valuerepair.cluster.members import Lane
from valuerepair.cluster.terms import Answer, Missing, NetFileFacts, Offer, Refusal, Role, Terms, difference
from valuerepair.errors import ValueRepairError
from valuerepair.oracles.oracle import OracleIdentity

_DOORS = 16  # newcomers looked at together
_PIECE = 4 << 20
_PRIORITY = 20
# The first offers wait so long for those of slower workers before they settle what all must have.
_SETTLE_S = 60.0
# Workers that were lost while they opened net or engines, with none that ever did.
_HOPELESS = 5


class Usher:
    """Looks at newcomers, and settles what all have to have. For the thread of the event loop."""

    def __init__(self, terms: Terms, wanted: Mapping[Role, Offer], say: Callable[[str], None]) -> None:
        """`wanted`: what is settled from the start, as the driver has it itself."""
        self._terms, self._say = terms, say
        self.agreed: dict[Role, Offer] = dict(wanted)
        self._doors = asyncio.Semaphore(_DOORS)
        self._hosts: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._first: dict[Role, float] = {}
        self._lost_looking: Counter[Role] = Counter()

    async def look(self, connection: Connection, lane: Lane) -> None:
        """Looks at one worker for one role; afterwards its lane has an offer or a refusal.

        Raises SchedulerGone, and KilledWorker for a worker that ends over it.
        """
        async with self._doors:
            try:
                answer = await self._ask(connection, lane)
                if isinstance(answer, Missing):
                    answer = await self._supply(connection, lane)
            except SchedulerGone:
                raise
            except Exception as error:
                if type(error).__name__ == "KilledWorker":
                    raise
                answer = Refusal(_told(error))
        if isinstance(answer, Offer):
            lane.offer, lane.pace = answer, Pace(answer.at_once)
            self._first.setdefault(lane.role, time.monotonic())
        else:
            self.refuse(lane, answer.reason if isinstance(answer, Refusal) else "it does not keep the net it was sent")

    async def _ask(self, connection: Connection, lane: Lane) -> Answer:
        member = lane.member
        answer: Answer = await connection.task(
            member.address, False, _PRIORITY, worker.look, self._terms, lane.role, member.gpu
        )
        return answer

    async def _supply(self, connection: Connection, lane: Lane) -> Answer:
        """Sends the files, once for all workers of a machine that share a cache."""
        async with self._hosts[lane.member.host]:
            answer = await self._ask(connection, lane)
            if not isinstance(answer, Missing):
                return answer
            for file in answer.files:
                if reason := await self._send(connection, lane.member.address, file):
                    return Refusal(reason)
        return await self._ask(connection, lane)

    async def _send(self, connection: Connection, address: str, file: NetFileFacts) -> str:
        self._say(f"sending {file.file_name} ({file.size / 1e6:,.1f} MB) to {address}")
        reason = ""
        with Path(file.path).open("rb") as stream:
            for start in range(0, file.size, _PIECE):
                piece, last = stream.read(_PIECE), start + _PIECE >= file.size
                reason = await connection.task(
                    address, False, _PRIORITY, worker.keep, self._terms.session, file, start, piece, last
                )
        return reason

    def refuse(self, lane: Lane, reason: str) -> None:
        """Has a worker take no more work of a role, and says why."""
        lane.refusal = reason
        self._say(f"worker {lane.member} is refused for the {lane.role.value}: {reason}")

    def note_loss(self, role: Role) -> None:
        """Counts a worker that was lost while it was looked at. Raises ValueRepairError when that is all they do."""
        self._lost_looking[role] += 1
        if role not in self._first and self._lost_looking[role] >= _HOPELESS:
            raise ValueRepairError(
                f"--cluster: {_HOPELESS} workers were lost while they opened the {role.value}, and none did; "
                "see the workers' own logs"
            )

    def settle(self, role: Role, lanes: Iterable[Lane]) -> None:
        """Takes or refuses the lanes with offers; the first time it decides, by majority, what all have to have."""
        offering = [lane for lane in lanes if lane.offer is not None and not lane.agreed and not lane.refusal]
        if not offering:
            return
        if role not in self.agreed:
            looking = any(lane.offer is None and not lane.refusal for lane in lanes)
            if looking and time.monotonic() - self._first[role] < _SETTLE_S:
                return
            self.agreed[role] = _majority(offering)
        for lane in offering:
            assert lane.offer is not None
            reason = difference(lane.offer, self.agreed[role])
            if reason is None:
                lane.agreed = True
            else:
                self.refuse(lane, reason)


def _majority(lanes: list[Lane]) -> Offer:
    """The offer that most make; of several the first by the workers' addresses."""
    offers = [lane.offer for lane in sorted(lanes, key=lambda lane: lane.member.address) if lane.offer is not None]

    def same(offer: Offer) -> Any:
        return offer.identity.digest if isinstance(offer.identity, OracleIdentity) else offer.identity

    votes = Counter(same(offer) for offer in offers)
    return max(offers, key=lambda offer: votes[same(offer)])


def _told(error: Exception) -> str:
    """An error of a task as a reason, in one line."""
    line = (str(error).strip().splitlines() or [""])[0]
    if isinstance(error, ImportError):
        return f"it cannot import what the driver has ({line}); install the same valuerepair there"
    if "deserialization" in line:
        return f"scheduler or worker cannot import valuerepair ({line}); install the same version there"
    return f"{type(error).__name__}: {line}"
