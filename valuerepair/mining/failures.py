"""Positions that the oracle failed on: held back until one succeeds, for an engine that fails always is broken."""

from __future__ import annotations

from valuerepair.deep.oracle import DeepFailure
from valuerepair.errors import ValueRepairError
from valuerepair.store import Store
from valuerepair.store.rows import Run
from valuerepair.store.screening import forget_passage

# An engine that fails on so many positions and has not scored one is broken as a whole.
HOPELESS = 10


class Failures:
    """The failures of a run; `count` has those of earlier runs too, `earlier` only these."""

    def __init__(self, oracle: str) -> None:
        self.count = self.earlier = 0
        self._oracle, self._last = oracle, ""
        self._held: list[tuple[int, DeepFailure]] = []

    def add(self, position_id: int, failure: DeepFailure) -> None:
        """Holds a failure back until `record`."""
        self.count += 1
        self._last = failure.reason
        self._held.append((position_id, failure))

    def add_earlier(self, reason: str) -> None:
        """Counts a failure that an earlier run recorded, and that is not tried again."""
        self.count += 1
        self.earlier += 1
        self._last = reason

    def check(self) -> None:
        """Raises ValueRepairError when there are too many for an engine that has scored nothing."""
        if len(self._held) >= HOPELESS:
            raise self.hopeless()

    def record(self, store: Store, oracle_id: int, run: Run) -> None:
        """Records what is held back."""
        for position_id, failure in self._held:
            store.add_failure(position_id, oracle_id, failure.reason, failure.attempts, run)
            forget_passage(store, oracle_id, position_id)  # an earlier ladder may have cut it
        self._held.clear()

    def hopeless(self) -> ValueRepairError:
        """What to say when all failed."""
        return ValueRepairError(
            f"the deep search ({self._oracle}) failed on each of the {self.count} positions it was given, at last: "
            f"{self._last}; mend the engine or choose another with --deep"
            + (", then --retry-failed" if self.earlier else "")
        )
