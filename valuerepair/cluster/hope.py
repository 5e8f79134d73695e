"""Whether a role still has, or will have, workers: when to wait, and when to say that there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from valuerepair.cluster.members import Lane
from valuerepair.cluster.terms import Role
from valuerepair.errors import ValueRepairError

ALL_REFUSED_S = 5.0
NO_WORKER_S = 600.0
# A net that so many chunks were lost over, and that none has an answer of, is no matter of single positions.
_HOPELESS_LOSSES = 12


class Hope:
    """Looks after one role. A queueing system may take its time, but workers that were all refused are no hope."""

    def __init__(self, role: Role, where: str, say: Callable[[str], None]) -> None:
        self._role, self._where, self._say = role, where, say
        self._since: float | None = None
        self._said = False
        self._lost, self._answered = 0, False

    def note_loss(self) -> None:
        """A chunk was lost."""
        self._lost += 1

    def note_answer(self) -> None:
        """A chunk was answered."""
        self._answered = True

    def check(self, lanes: Sequence[Lane]) -> None:
        """Raises ValueRepairError when no worker is left for the role, and none is to be expected.

        Also where the net is what workers die of; that engines fail always the writer finds out.
        """
        if self._role is Role.NET and self._lost >= _HOPELESS_LOSSES and not self._answered:
            raise ValueRepairError(
                f"--cluster {self._where}: the net was tried {self._lost} times, and no worker has come through; see "
                "the workers' own logs, and whether their memory is enough"
            )
        if any(lane.ready or (lane.offer is None and not lane.refusal) for lane in lanes):
            self._since, self._said = None, False
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        refused = [lane for lane in lanes if lane.refusal]
        if refused and now - self._since > ALL_REFUSED_S:
            last = refused[-1]
            raise ValueRepairError(
                f"--cluster {self._where}: no worker is left for the {self._role.value}: {len(refused)} refused, "
                f"at last {last.member}: {last.refusal}"
            )
        if now - self._since > ALL_REFUSED_S and not self._said and self._role is Role.SEARCH:
            self._said = True
            self._say(f"--cluster {self._where}: no worker is there: waiting {NO_WORKER_S / 60:.0f} minutes for one")
        if now - self._since > NO_WORKER_S:
            raise ValueRepairError(
                f"--cluster {self._where}: no worker for {NO_WORKER_S / 60:.0f} minutes; "
                "start some (`dask worker ADDRESS`) and give the same command again"
            )
