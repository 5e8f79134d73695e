"""The screening ladder of a store as a table: its cuts, what nodes they cost, what each kind of feature brings."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict, dataclass
from typing import Any

from valuerepair.deep.screen import AHEAD, NET_FEATURES, RUNG_FEATURES, SEARCH_FEATURES, Screen
from valuerepair.deep.screen_fit import Calibration, CurvePoint, Learner, curve, enough, fit_screen
from valuerepair.deep.screen_prior import package_prior
from valuerepair.errors import ValueRepairError
from valuerepair.mining.screening import read_calibration
from valuerepair.store import Store
from valuerepair.store.queries import QFrom
from valuerepair.store.screening import screens, stored_rungs

log = logging.getLogger(__name__)

RECALLS = (0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99)
_GROUPS = {
    "margins in log odds": AHEAD[1:],
    "change since the last rung": RUNG_FEATURES[:2],
    "slope, best moves": RUNG_FEATURES[2:],
    "entropy, draws": NET_FEATURES[:2],
    "men, plies, check, runners": NET_FEATURES[2:6],
    "jumps to neighbouring plies": NET_FEATURES[6:],
    "small search of the net": SEARCH_FEATURES,
}


@dataclass(frozen=True)
class ScreenTable:
    """A ladder fitted to what a store has now, and its cross-validated curve.

    `stored` is when the store's own was fitted, None where there is none. `without` says what the curve's point at the
    wanted recall becomes when a kind of feature is left out.
    """

    screen: Screen
    stored: str | None
    points: list[CurvePoint]
    without: dict[str, CurvePoint]

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
            "without": {name: asdict(point) for name, point in self.without.items()},
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
        shown += [
            f"  {'before any search' if r.nodes == 0 else f'{r.nodes:,} nodes':<20}{r.cut:>9.4f}" for r in screen.rungs
        ]
        shown += ["", "nodes against recall, cross-validated", "  wanted   nodes   recall  candidates"]
        shown += [f"  {_point(point)}" for point in self.points]
        if self.without:
            shown += ["", f"learned from nothing, at a wanted recall of {screen.recall:g}, without"]
            shown += [f"  {name:<30}{_short(point)}" for name, point in self.without.items()]
        return shown


def _point(point: CurvePoint) -> str:
    return f"{point.wanted:>6g}  1/{1 / point.share:<6.1f}{point.recall:>6.3f}  {point.found:,} of {point.positives:,}"


def _short(point: CurvePoint) -> str:
    return f"1/{1 / point.share:<6.1f}{point.recall:>6.3f}"


def screen_table(
    store: Store,
    net: str | None,
    oracle: str | None,
    alpha: float | None,
    q_from: QFrom,
    threshold: float,
    recall: float,
    *,
    features: bool = False,
    from_nothing: bool = False,
) -> ScreenTable:
    """Fits the ladder to what the store has and measures it. With `features` every kind of them is left out once.

    It begins at the package's models, as in `vr mine`, or `from_nothing`, as it does without a kind of features.

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
    prior = () if from_nothing else package_prior()
    # Nothing else is said until it is done; on a terminal somebody waits for it.
    level = logging.WARNING if sys.stderr.isatty() else logging.INFO
    times = f", {1 + len(_GROUPS)} times more without some features" if features else ""
    log.log(level, "cross-validating the ladder on %d positions%s: up to a minute each time", len(data), times)
    screen = fit_screen(data, threshold, recall, used.value, q_from, prior)
    recalls = sorted({*RECALLS, recall})
    return ScreenTable(
        screen, stored, curve(data, threshold, recalls, Learner(prior)), _ablations(data, threshold, recall, features)
    )


def _ablations(data: Calibration, threshold: float, recall: float, wanted: bool) -> dict[str, CurvePoint]:
    groups = {"nothing": (), **_GROUPS} if wanted else {}
    return {name: curve(data, threshold, [recall], Learner((), without))[0] for name, without in groups.items()}
