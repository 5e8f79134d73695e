"""The savings and losses of the screening ladder, judged by the cut positions that were searched in full anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import floor, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.question import Question, is_candidate
from valuerepair.rates import weighted
from valuerepair.store import screening
from valuerepair.text import format_nodes, json_fields, quantity

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

# If the lower bound of the recall is below this percentage, the recall counts as unknown.
LEAST_RECALL = 50


def figures(
    store: Store, net_id: int, oracle_id: int, frame: pd.DataFrame | Mapping[str, NDArray[Any]], threshold: float
) -> dict[str, Any] | None:
    """The ladder's figures for JSON; None if no position was screened.

    `frame` is the frame of this net and oracle, or its columns position_id and disagreement by name.

    Counts: `positions` on the ladder; of those that left it, `cut` and `audited` ones (`audit_weights`);
    `audit_hits`, the candidates among the audited; `found`, all candidates; `searched_since`, cut positions that were
    searched in full later, outside the ladder; `since_hits`, the candidates among these.

    Estimates: the weighted rate of `audit_hits`, times the number of positions that left, less the candidates known
    among these, is `missed`, with bounds from Wilson's 95 % interval of the rate. `recall` is
    found / (found + missed + since_hits); `recall_said` says it in words. `nodes` is the cost of all searches on the
    ladder, `brute_nodes` that of as many full searches.
    """
    passages = screening.passage_columns(store, net_id, oracle_id)
    if not len(passages.ids):
        return None
    disagreement, ids = np.asarray(frame["disagreement"], np.float64), np.asarray(frame["position_id"])
    scored_ids, candidate_ids = ids[~np.isnan(disagreement)], ids[is_candidate(disagreement, threshold)]
    outside = scored_ids[~np.isin(scored_ids, passages.ids)]
    since = screening.searched_since(store, net_id, oracle_id, outside)
    since_hits = int(np.isin(since.ids, candidate_ids).sum())
    candidate, scored = np.isin(passages.ids, candidate_ids), np.isin(passages.ids, scored_ids)
    exited = ~np.isnan(passages.cut_at)
    audited = exited & passages.searched & scored
    hits = candidate[audited]
    rate = weighted(hits, 1 / passages.probability[audited])
    candidates = int(candidate.sum())
    cut = exited & ~passages.searched & ~scored
    known_hits = int((candidate & exited).sum())
    missed = {  # NaN without audits
        name: float(np.clip(value * int(exited.sum()) - known_hits, 0, cut.sum())) if cut.any() else 0.0
        for name, value in (("missed", rate.rate), ("missed_low", rate.low), ("missed_high", rate.high))
    }
    rungs, left_counts = np.unique(np.concatenate([passages.cut_at[cut], since.cut_at]), return_counts=True)
    full_nodes = passages.nodes[passages.searched]
    positions, spent = len(passages.ids) + len(since.ids), int(passages.nodes.sum() + since.nodes.sum())
    brute = round(float(np.median(full_nodes)) * positions) if len(full_nodes) else None
    counts = {
        "positions": positions,
        "cut": int(cut.sum()),
        "searched_since": len(since.ids),
        "since_hits": since_hits,
        "audited": int(audited.sum()),
        "audit_hits": int(hits.sum()),
        "found": candidates,
        **json_fields(missed),
        "recall": _recall(candidates, missed["missed"] + since_hits),
        "recall_low": _recall(candidates, missed["missed_high"] + since_hits),
        "recall_high": _recall(candidates, missed["missed_low"] + since_hits),
        "nodes": spent,
        "brute_nodes": brute,
        "saving": brute / spent if brute and spent else None,
        "left_at": [
            {"nodes": int(rung), "positions": int(count)} for rung, count in zip(rungs, left_counts, strict=True)
        ],
        "screens": [_screen(facts) for facts in screening.screens(store, net_id, oracle_id)],
    }
    return counts | {"recall_said": recall_words(counts)}


def _screen(facts: screening.ScreenFacts) -> dict[str, Any]:
    return {
        "threshold": facts.threshold,
        "alpha": facts.alpha,
        "recall": facts.recall,
        "fitted": facts.fitted,
    }


def _recall(candidates: int, missed: float) -> float | None:
    return None if isnan(missed) or candidates + missed == 0 else candidates / (candidates + missed)


def recall_line(store: Store, net_id: int, oracle_id: int, question: Question) -> str | None:
    """The ladder's figures in one line, for the end of a run; None if no position was screened."""
    if not screening.any_passage(store, net_id, oracle_id):
        return None
    net, oracle = store.names(net_id, oracle_id)
    frame = store.frame(replace(question, net=net, oracle=oracle), only=("position_id", "disagreement"))
    ladder = figures(store, net_id, oracle_id, frame, question.threshold)
    return None if ladder is None else "screening: " + one_line(ladder)


def recall_words(counts: dict[str, Any]) -> str:
    """The recall in words: only the interval's lower bound if no audit was a candidate.

    After only five audits without a candidate, 100 % is not an estimate, and a lower bound below one half says nothing.
    """
    audits = quantity(counts["audited"], "audit")
    if not counts["cut"]:
        if not counts["searched_since"]:
            return "recall 100 %: nothing was cut"
        recall = "unknown without candidates" if counts["recall"] is None else f"{100 * counts['recall']:.1f} %"
        return f"recall {recall}, by searching all cut positions"
    if counts["recall"] is None:
        return f"recall unknown ({audits})"
    low, high = 100 * counts["recall_low"], 100 * counts["recall_high"]
    if low < LEAST_RECALL:
        return f"recall at least {floor(low)} % (95 %), too few audits for a figure"
    if counts["recall"] == 1:
        return f"recall at least {floor(low)} % (95 %, from {audits})"
    return f"recall {100 * counts['recall']:.1f} % (95 %: {low:.1f} to {high:.1f})"


def one_line(counts: dict[str, Any]) -> str:
    """Nodes and recall, with the interval."""
    saving = (
        f"1/{counts['saving']:.1f} of the nodes of searching everything in full"
        if counts["saving"]
        else "no search yet"
    )
    since = ""
    if counts["searched_since"]:
        since = (
            f"{counts['searched_since']:,} were cut and searched since: {counts['since_hits']:,} of them are candidates"
        )
    if not counts["cut"]:
        return f"{saving}; {counts['recall_said']}: {since}" if since else f"nothing was cut; {saving}"
    all_right = counts["audited"] and not counts["audit_hits"]
    hits, are = ("none", "is a candidate") if all_right else (f"{counts['audit_hits']:,}", "are candidates")
    audits = f"{hits} of {counts['audited']:,} cut positions that were searched in full {are}"
    cut = f"{counts['cut']:,} of {counts['positions']:,} positions cut; " if counts["recall"] is None else ""
    return f"{cut}{saving}; {counts['recall_said']}: {audits}{since and f'; {since}'}"


def lines(counts: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal."""
    spent = format_nodes(counts["nodes"])
    return ["", f"screening of {counts['positions']:,} positions: {spent} in all", f"  {one_line(counts)}"]


def cut_lines(counts: dict[str, Any]) -> list[str]:
    """How many positions were cut at which nodes, as text; 0: before any search."""
    return [f"cut at {rung['nodes']:,} nodes: {rung['positions']:,}" for rung in counts["left_at"]]
