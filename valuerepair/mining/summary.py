"""What a run came to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from valuerepair.archives import ReadReport
from valuerepair.progress import format_duration, format_rate
from valuerepair.store import DEFAULT_PATH
from valuerepair.store.rates import Rate
from valuerepair.store.rows import Run
from valuerepair.values import Alpha


def resume_line(run: Run) -> str:
    """What a run says that goes on with an earlier one's work."""
    sampled = run.counts.get("sampled")
    of_all = f" of {sampled:,}" if sampled and run.state == "finished" else ""
    what = "this run is complete; looking for new positions" if run.state == "finished" else "resuming"
    return f"{what}: {run.scored:,}{of_all} already scored"


def nothing_sampled(paths: Sequence[str], report: ReadReport) -> str:
    """The error of a run that sampled no position."""
    names = ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")
    reasons = (report.rejected + report.rejected_positions).most_common(4)
    why = f" ({', '.join(f'{count:,} {reason}' for reason, count in reasons)})" if reasons else ""
    return f"{names}: no position to mine in {report.games:,} games{why}; relax --min-ply or other filters"


@dataclass(frozen=True)
class MineSummary:
    """The end of one run.

    `sampled` positions were drawn; `scored` of them have net and deep value, `earlier` of these from before; `failed`
    could not be searched, `cut` left the screening ladder before the whole search. `candidates` are those at the
    threshold, at `alpha`. `nodes` and `seconds` are of this time only. `recorded`:
    it has recorded evaluations only. `remarks` is what else there is to say of these, or of the ladder. `state` is
    ``finished``, ``interrupted`` (by a signal) or ``limited`` (by ``--limit``).
    """

    run_id: int
    state: str
    store: str
    report: ReadReport
    sampled: int
    scored: int
    earlier: int
    cut: int
    failed: int
    candidates: Rate
    threshold: float
    alpha: Alpha
    q_from: str
    net: str
    provider: str
    oracle: str
    workers: int
    nodes: int
    seconds: float
    recorded: bool = False
    remarks: Sequence[str] = ()

    def counts(self) -> dict[str, Any]:
        """What the store keeps of it: nothing that depends on how often the run was interrupted."""
        return {
            "sampled": self.sampled,
            "scored": self.scored,
            "cut": self.cut,
            "failed": self.failed,
            "games": self.report.games,
            "games_rejected": dict(self.report.rejected),
            "positions_rejected": dict(self.report.rejected_positions),
            "truncated": [list(cut) for cut in self.report.truncated],
        }

    def lines(self) -> list[str]:
        """The summary for a terminal, with what to do next."""
        speed = f", {format_rate(self.nodes / self.seconds)}" if self.seconds and self.nodes else ""
        if self.recorded and self.seconds:
            speed = f", {self.report.looked_at / self.seconds:,.0f} positions looked at a second"
        cut = f"{self.cut:,} cut by screening, " if self.cut else ""
        scored = f"scored: {self.scored:,} of {self.sampled:,}, {cut}{self.failed:,} failed"
        earlier = f", {self.earlier:,} of them before" if self.earlier else ""
        at_once = "" if self.recorded else f", {self.workers} at once"
        return [
            *self.report.lines(),
            f"net: {self.net} on {self.provider}",
            f"deep: {self.oracle}{at_once}",
            *self.remarks,
            f"{scored}{earlier}; {format_duration(self.seconds)}{speed}",
            f"deep Q from: {self.alpha.source(self.q_from)}",
            f"candidates at {self.threshold:g}: {self.candidates}",
            *self._next(),
        ]

    def _next(self) -> list[str]:
        option = "" if self.store == DEFAULT_PATH else f" --db {shlex.quote(self.store)}"
        lines = []
        if self.state != "finished":
            lines.append("not done yet: give the same command again to go on where it stopped")
        if self.candidates.count:
            lines.append(f"next: vr books{option} --threshold {self.threshold:g}")
        else:
            lines.append(f"no candidates at {self.threshold:g}: mine more, or see other thresholds by vr stats{option}")
        return lines
