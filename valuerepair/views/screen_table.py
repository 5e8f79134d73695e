"""The screening ladder of a store as a table: its cuts, and what nodes they cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from valuerepair.deep.screen import Screen
from valuerepair.deep.screen_fit import CurvePoint, curve, enough, fit_screen, joined
from valuerepair.deep.screen_package import package_calibration
from valuerepair.errors import ValueRepairError
from valuerepair.mining.screening import read_calibration
from valuerepair.store import Store
from valuerepair.store.queries import QFrom
from valuerepair.store.screening import screens, stored_rungs

RECALLS = (0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99)


@dataclass(frozen=True)
class ScreenTable:
    """A ladder fitted to what a store has now, and its cross-validated curve.

    `stored` is when the store's own was fitted, None where there is none.
    """

    screen: Screen
    stored: str | None
    points: list[CurvePoint]

    def as_dict(self) -> dict[str, Any]:
        """The table, JSON-able."""
        screen = self.screen
        return {
            "threshold": screen.threshold,
            "alpha": screen.alpha,
            "recall": screen.recall,
            "positions": screen.positions,
            "candidates": screen.positives,
            "stored": self.stored,
            "cuts": [{"nodes": rung.nodes, "chance": rung.cut} for rung in screen.rungs],
            "curve": [asdict(point) for point in self.points],
        }

    def lines(self) -> list[str]:
        """The table for a terminal."""
        screen = self.screen
        shown = [
            f"screening at threshold {screen.threshold:g}, alpha {screen.alpha:.0f}: {screen.positions:,} positions "
            f"searched in full, {screen.positives:,} of them candidates",
            f"in use: fitted {self.stored}" if self.stored else "in use: nothing fitted yet; vr mine does it",
            "",
            f"cuts for a recall of {screen.recall:g}: a position leaves below this chance of a candidate",
        ]
        shown += [f"  {f'{rung.nodes:,} nodes':<20}{rung.cut:>9.4f}" for rung in screen.rungs]
        shown += ["", "nodes against recall, cross-validated", "  wanted   nodes   recall  candidates"]
        shown += [f"  {_point(point)}" for point in self.points]
        return shown


def _point(point: CurvePoint) -> str:
    return f"{point.wanted:>6g}  1/{1 / point.share:<6.1f}{point.recall:>6.3f}  {point.found:,} of {point.positives:,}"


def screen_table(
    store: Store,
    net: str | None,
    oracle: str | None,
    alpha: float | None,
    q_from: QFrom,
    threshold: float,
    recall: float,
) -> ScreenTable:
    """Fits the ladder to what the store and the package have, as `vr mine` does, and measures it on the store's.

    Raises ValueRepairError where too little was searched in full by way of the rungs.
    """
    net_id, oracle_id = store.pick(net, oracle)
    rungs = stored_rungs(store, oracle_id)
    facts = next(row for row in store.oracles().to_dict("records") if row["id"] == oracle_id)
    if not rungs or "nodes" not in facts["limits"]:
        raise ValueRepairError(
            f"{store.path}: nothing was screened with {facts['label']}; vr mine --screen auto does it"
        )
    used = store.alpha(net_id, oracle_id, alpha)
    nodes = int(facts["limits"]["nodes"])
    data = read_calibration(store, net_id, oracle_id, rungs, nodes, used.value, q_from)
    if not enough(data, threshold):
        raise ValueRepairError(
            f"{store.path}: {len(data):,} positions were searched in full by way of all rungs, too few near the "
            f"threshold {threshold:g} to fit a ladder; mine more, or give a lower --threshold"
        )
    stored = next((s.fitted for s in screens(store, net_id, oracle_id) if s.threshold == threshold), None)
    package = package_calibration(facts["kind"], nodes, rungs, used.value, q_from)
    whole = data if package is None else joined(data, package)
    fitted = fit_screen(whole, threshold, recall, used.value, q_from)
    screen = replace(fitted, positions=len(data), positives=int((data.disagreement >= threshold).sum()))
    return ScreenTable(screen, stored, curve(data, package, threshold, sorted({*RECALLS, recall})))
