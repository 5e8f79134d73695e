"""What the screening ladder saved and what it missed, by those of its cuts that were searched in full all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import floor, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.calibration import TooLittle
from valuerepair.intervals import weighted
from valuerepair.question import Question, is_candidate
from valuerepair.screening.model import is_calibrated
from valuerepair.store import screening

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

# A lower end of the recall below this says nothing.
LEAST_TOLD = 50  # per cent


def figures(
    store: Store, net_id: int, oracle_id: int, frame: pd.DataFrame | Mapping[str, NDArray[Any]], threshold: float
) -> dict[str, Any] | None:
    """The ladder's figures, JSON-able; None where nothing was screened.

    `frame` is that of this net and oracle, or its columns position_id and disagreement by name. `positions` went up
    the ladder, `cut` left it; `audited` would have, but were searched in full, and `audit_hits` of these are
    candidates. Their rate, weighted by inverse probability, times all that left or would have is what such positions
    hold; less the candidates known among these it is `missed`, with Wilson's 95 % bounds of the rate. `recall` is
    found / (found + missed), `recall_said` is what may be said of it. `nodes` were spent on all, `brute_nodes` are as
    many whole searches.
    """
    ways = screening.ways(store, net_id, oracle_id)
    if not len(ways.ids):
        return None
    off, numbers = np.asarray(frame["disagreement"], np.float64), np.asarray(frame["position_id"])
    candidate, known = (np.isin(ways.ids, numbers[of]) for of in (is_candidate(off, threshold), ~np.isnan(off)))
    leaving = ~np.isnan(ways.cut_at)
    audited = leaving & ways.searched & known
    hits = candidate[audited]
    rate = weighted(hits, 1 / ways.probability[audited])
    found, left = int(candidate.sum()), int(leaving.sum())
    cut = leaving & ~ways.searched & ~known
    known_hits = int((candidate & leaving).sum())
    missed = {  # NaN where nothing was audited
        name: float(np.clip(value * left - known_hits, 0, cut.sum())) if cut.any() else 0.0
        for name, value in (("missed", rate.rate), ("missed_low", rate.low), ("missed_high", rate.high))
    }
    whole = ways.nodes[ways.searched]
    brute = round(float(np.median(whole)) * len(ways.ids)) if len(whole) else None
    spent = int(ways.nodes.sum())
    told = {
        "positions": len(ways.ids),
        "cut": int(cut.sum()),
        "audited": int(audited.sum()),
        "audit_hits": int(hits.sum()),
        "found": found,
        **{name: None if isnan(value) else value for name, value in missed.items()},
        "recall": _recall(found, missed["missed"]),
        "recall_low": _recall(found, missed["missed_high"]),
        "recall_high": _recall(found, missed["missed_low"]),
        "nodes": spent,
        "brute_nodes": brute,
        "saving": brute / spent if brute and spent else None,
        "left_at": _left_at(ways.cut_at[cut]),
        "screens": [
            {
                "threshold": s.threshold,
                "alpha": s.alpha,
                "calibration": "fitted" if is_calibrated(s.model) else "none",
                "recall": s.recall,
                "fitted": s.fitted,
            }
            for s in screening.screens(store, net_id, oracle_id)
        ],
    }
    return told | {"recall_said": recall_words(told)}


def _recall(found: int, missed: float) -> float | None:
    return None if isnan(missed) or found + missed == 0 else found / (found + missed)


def _left_at(nodes: NDArray[np.float64]) -> list[dict[str, int]]:
    """How many left at each rung."""
    rungs, counts = np.unique(nodes, return_counts=True)
    return [{"nodes": int(rung), "positions": int(count)} for rung, count in zip(rungs, counts, strict=True)]


def recall_line(store: Store, net_id: int, oracle_id: int, question: Question) -> str | None:
    """The ladder's figures in one line, for the end of a run; None where nothing was screened, or where too little was
    to say which candidates are beyond scale, if these are asked for."""
    if not screening.any_passage(store, net_id, oracle_id):
        return None
    net, oracle = store.names(net_id, oracle_id)
    try:
        frame = store.frame(replace(question, net=net, oracle=oracle), only=("position_id", "disagreement"))
    except TooLittle:
        return None
    found = figures(store, net_id, oracle_id, frame, question.threshold)
    return None if found is None else "screening: " + one_line(found)


def recall_words(found: dict[str, Any]) -> str:
    """What the audit says of the recall: the interval's lower end alone where no cut is known to have missed anything.

    Of five audits without a candidate 100 % is no estimate, and a lower end below one half says nothing.
    """
    audits = f"{found['audited']:,} audit{'s' * (found['audited'] != 1)}"
    if not found["cut"]:
        return "recall 100 %: nothing was cut"
    if found["recall"] is None:
        return f"recall unknown ({audits})"
    low, high = 100 * found["recall_low"], 100 * found["recall_high"]
    if low < LEAST_TOLD:
        return f"recall unknown, too few audits: {found['audited']:,} (95 %: at least {floor(low)} %)"
    if found["recall"] == 1:
        return f"recall at least {floor(low)} % (95 %, from {audits})"
    return f"recall {100 * found['recall']:.1f} % (95 %: {low:.1f} to {high:.1f})"


def one_line(found: dict[str, Any]) -> str:
    """Nodes and recall, with the interval."""
    saving = (
        f"1/{found['saving']:.1f} of the nodes of searching everything in full" if found["saving"] else "no search yet"
    )
    if not found["cut"]:
        return f"nothing was cut; {saving}"
    of = f"{found['audit_hits']:,} of {found['audited']:,} cut positions that were searched anyway are candidates"
    cut = f"{found['cut']:,} of {found['positions']:,} positions cut; " if found["recall"] is None else ""
    return f"{cut}{saving}; {found['recall_said']}: {of}"


def lines(found: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal."""
    spent = f"{found['nodes'] / 1e6:,.1f} Mnodes" if found["nodes"] >= 1e6 else f"{found['nodes']:,} nodes"
    shown = ["", f"screening of {found['positions']:,} positions: {spent} in all", f"  {one_line(found)}"]
    for left in found["left_at"]:
        at = "before any search" if left["nodes"] == 0 else f"at {left['nodes']:,} nodes"
        shown.append(f"  left {at:<22}{left['positions']:>9,}")
    return shown
