"""How far a report is: its steps, and how much of the work each of them is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from valuerepair.store.connect import store_errors

if TYPE_CHECKING:
    from valuerepair.store import Store

# Step -> processor time, in seconds: of a million positions, of a hundred thousand shown ones, and of any report.
# As measured (docs/performance.md); only their proportions matter.
STEPS = {
    "values": (4.0, 0.0, 0.1),
    "positions": (0.0, 3.0, 0.0),
    "labels": (0.0, 12.0, 0.5),
    "figures": (4.0, 1.0, 0.2),
    "lowess": (2.0, 0.0, 0.1),
    "books": (0.0, 4.0, 0.3),
    "packing": (0.0, 5.5, 0.3),
}


class Steps:
    """Tells `on_step` what comes next and the share of the work that is done, by the store's size."""

    def __init__(self, store: Store, points: int, on_step: Callable[[str, float], None]) -> None:
        with store_errors(store.path):
            positions = int(store.connection.execute("SELECT count(*) FROM positions").fetchone()[0])
        shown = min(positions, points)
        self._costs = {
            step: of_all * positions / 1e6 + of_shown * shown / 1e5 + always
            for step, (of_all, of_shown, always) in STEPS.items()
        }
        self._on_step = on_step

    def begin(self, step: str) -> None:
        """The next step begins."""
        before = list(self._costs.values())[: list(self._costs).index(step)]
        self._on_step(step, sum(before) / sum(self._costs.values()))
