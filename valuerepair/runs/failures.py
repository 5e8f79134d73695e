"""Positions on which the oracle or the net failed: recorded only once one succeeds, as always failing is a fault."""

from __future__ import annotations

import json
from collections.abc import Mapping

import chess
import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import NetIdentity
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.store.rows import FULL, NET, Run
from valuerepair.store.screening import forget_passage
from valuerepair.store.store import Store
from valuerepair.text import quantity

# An engine that fails on this many positions and has not scored one is broken as a whole.
HOPELESS = 10


class Failures:
    """The failures of a run. `count` includes those of earlier runs that are not tried again; `earlier` counts these.

    `who` names what failed, `remedy` says what to do if it always fails.
    """

    def __init__(
        self,
        store: Store,
        oracle_id: int,
        run: Run,
        who: str,
        remedy: str = "fix the engine or choose another with --deep",
    ) -> None:
        self.count = self.earlier = 0
        self._store, self._oracle_id, self._run = store, oracle_id, run
        self._who, self._remedy, self._last = who, remedy, ""
        self._held: list[tuple[int, DeepFailure, str]] = []

    @property
    def held(self) -> bool:
        """Whether failures are not recorded yet, because nothing has succeeded."""
        return bool(self._held)

    def add(self, position_id: int, failure: DeepFailure, stage: str = FULL) -> None:
        """Holds a failure back until `record`."""
        self.count += 1
        self._last = failure.reason
        self._held.append((position_id, failure, stage))

    def add_earlier(self, reason: str) -> None:
        """Counts a failure that an earlier run recorded and this one does not try again."""
        self.count += 1
        self.earlier += 1
        self._last = reason

    def check(self) -> None:
        """Raises ValueRepairError if too many failures are held back."""
        if len(self._held) >= HOPELESS:
            raise self.hopeless()

    def record(self) -> None:
        """Records the failures held back."""
        for position_id, failure, stage in self._held:
            self._store.add_failure(position_id, self._oracle_id, failure.reason, failure.attempts, self._run, stage)
            if stage == FULL:
                forget_passage(self._store, self._oracle_id, position_id)  # an earlier ladder may have cut it
        self._held.clear()

    def hopeless(self) -> ValueRepairError:
        """The error of a run in which everything failed."""
        remedy = self._remedy + (", then --retry-failed" if self.earlier else "")
        return ValueRepairError(
            f"{self._who} failed on each of the {self.count} positions it was given; the last error: {self._last}; "
            f"{remedy}"
        )


class NetFailures(Failures):
    """The positions that a net failed to evaluate: rows of the table ``failures`` with the stage `NET` and the net's
    key. They are failures of the net, whichever oracle it was mined with."""

    def __init__(self, store: Store, net: NetIdentity, oracle_id: int, run: Run) -> None:
        super().__init__(store, oracle_id, run, f"the net ({net.name})", "fix it or choose another with --net")
        self._stage, self._works = NET + net.key, False

    def recorded(self, ids: NDArray[np.int64]) -> dict[int, str]:
        """The positions among `ids` on which the net failed in earlier runs, with the reasons."""
        query = """
            SELECT f.position_id, f.reason FROM oracles o CROSS JOIN failures f ON f.oracle_id = o.id
            WHERE f.stage = ? AND f.position_id IN (SELECT value FROM json_each(?))
        """
        return dict(self._store.connection.execute(query, (self._stage, json.dumps(ids.tolist()))).fetchall())

    def take(self, evaluated: NDArray[np.int64], failed: Mapping[int, tuple[str, int]]) -> None:
        """Takes a batch: deletes earlier failures of the `evaluated` positions, and adds the `failed` ones.

        Raises ValueRepairError when many have failed and none was ever evaluated.
        """
        self._works = self._works or bool(len(evaluated))
        query = """
            DELETE FROM failures WHERE oracle_id IN (SELECT id FROM oracles) AND stage = ?
            AND position_id IN (SELECT value FROM json_each(?))
        """
        with self._store.writing() as connection:
            connection.execute(query, (self._stage, json.dumps(evaluated.tolist())))
        for position_id, (reason, attempts) in failed.items():
            self.add(position_id, DeepFailure(reason, attempts), self._stage)
        if self._works:
            self.record()
        self.check()

    def remarks(self) -> list[str]:
        """A remark on the store's positions on which the net failed: how many, why, and what helps."""
        query = """
            SELECT DISTINCT p.id, p.fen, f.reason FROM oracles o CROSS JOIN failures f ON f.oracle_id = o.id
            JOIN positions p ON p.id = f.position_id WHERE f.stage = ? ORDER BY p.id
        """
        lost = self._store.connection.execute(query, (self._stage,)).fetchall() if self.count else []
        if not lost:
            return []
        position_id, fen, reason = lost[0]
        all_in_check = all(chess.Board(fen).is_check() for _, fen, _ in lost)
        helps = "; every one is in check: vr mine --no-check draws no such positions" if all_in_check else ""
        return [f"the net failed on {quantity(len(lost), 'position')} (first {position_id}, {fen}): {reason}{helps}"]
