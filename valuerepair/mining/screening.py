"""Screening: a short search first, and the full one where net and short search differ, or for an audit.

A position is doubtful if |net Q - short Q| is at least `margin` times the threshold. Of the others a fixed share is
searched in full, too, drawn by the hash of the position's key: these audits stand for all that were left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import in_share, salt, scrambled
from valuerepair.arrays import Flags
from valuerepair.chess import values
from valuerepair.oracles.oracle import Judge
from valuerepair.question import QFrom, is_candidate
from valuerepair.rates import weighted
from valuerepair.store.columns import both_q, columns
from valuerepair.store.pairs import Pair, judge_of
from valuerepair.store.rows import DeepResult, JudgeIdentity, StoredJudge, unsigned
from valuerepair.store.store import LEFT, Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    from valuerepair.mining.search import Task

MARGIN = 0.5
AUDITED = 0.02  # of the positions that are not doubtful
FEWEST_AUDITS = 30  # of the positions of one origin that one run drew: each origin has rates of its own
_FEWEST_NODES, _SHORTEST, _SHARE = 100_000, 20_000, 20


def short_nodes(judge: JudgeIdentity) -> int | None:
    """The nodes of the short search that screens for a judge: the larger of 20,000 and a twentieth of its own.

    None if there is no screening: it is not limited by nodes alone, has fewer than 100,000, or is the own search.
    """
    nodes = judge.limits.get("nodes", 0)
    if set(judge.limits) != {"nodes"} or nodes < _FEWEST_NODES or judge.kind == "mcts":
        return None
    return max(_SHORTEST, nodes // _SHARE)


@dataclass(frozen=True, slots=True)
class Screening:
    """The short search, its `judge_id` in the store, and when a position is doubtful: by `alpha` and `q_from`, from
    `margin` times the `threshold` on."""

    judge: Judge
    judge_id: int
    threshold: float
    alpha: float
    q_from: QFrom = "cp"
    margin: float = MARGIN

    def is_doubtful(self, net_q: NDArray[np.float64] | float, scores: object) -> Flags:
        """bool[n]: whether net Q [n] and the short search's raw `scores` [n, 6] (`chess.values.deep_q`) differ so much
        that the position is searched in full; so is one without a score of this kind."""
        disagreement = net_q - values.deep_q(np.asarray(scores, np.float64), self.alpha, self.q_from)
        return is_candidate(disagreement, self.margin * self.threshold) | np.isnan(disagreement)

    def weight(self, task: Task, short: DeepResult) -> float:
        """The weight of the full search that a position gets after its short one; 0: none."""
        if bool(self.is_doubtful(task.net_q, short.scores)):
            return 1.0
        return 1 / AUDITED if is_audited(np.array([task.position.key], np.uint64))[0] else 0.0


def is_audited(keys: NDArray[np.uint64]) -> Flags:
    """bool[n]: which positions, by their board keys, are searched in full although they are not doubtful."""
    return in_share(_draws(keys), AUDITED)


def _draws(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return scrambled(keys ^ salt("audit"))


def audits_to_come(store: Store, full_id: int, short_id: int) -> Iterator[int]:
    """The positions that must be audited, too, so that those of one run and origin have `FEWEST_AUDITS`: by their
    draws."""
    pair = {"full": full_id, "short": short_id}
    query = f"SELECT p.run_id, p.origin, count(*), count(f.position_id) {LEFT} GROUP BY p.run_id, p.origin"
    for run_id, origin, positions, audits in store.connection.execute(query, pair).fetchall():
        missing = min(FEWEST_AUDITS, positions) - audits
        if missing > 0:
            left_out = "f.position_id IS NULL AND p.run_id = :run AND p.origin = :origin"
            rows = f"SELECT p.id, p.key {LEFT} AND {left_out} ORDER BY p.id"
            found = store.connection.execute(rows, {**pair, "run": run_id, "origin": origin}).fetchall()
            order = np.argsort(_draws(unsigned([key for _, key in found])), kind="stable")
            yield from (found[i][0] for i in order[:missing].tolist())


def settle_doubtful(store: Store, full_id: int, ids: list[int]) -> None:
    """Has audited positions that turned out doubtful for another net stand for themselves alone."""
    with store.writing() as connection:
        connection.execute(
            "UPDATE deep_values SET weight = 1 WHERE judge_id = ? AND position_id IN (SELECT value FROM json_each(?))",
            (full_id, json.dumps(ids)),
        )


@dataclass(frozen=True, slots=True)
class Screened:
    """What screening left out, lost and saved, of the positions of games with values of one net and one judge.

    `positions` have a short or a full search, `left_out` only a short one. Of the full searches `audits` stand for all
    positions that are not doubtful, and `audit_hits` of them are candidates; `found` are the other candidates. `recall`
    is the share of `found` among all candidates by weight, with its 95 % interval by the audits' games; None without
    audits or candidates. `nodes` are those of all searches, `full_nodes` those of as many full searches.
    """

    positions: int
    left_out: int
    audits: int
    audit_hits: int
    found: int
    recall: float | None
    recall_low: float | None
    recall_high: float | None
    nodes: int
    full_nodes: int

    def lines(self) -> list[str]:
        """The figures as text for a terminal."""
        if not self.left_out and not self.audits:  # all was searched in full afterwards
            return [f"screening: 0 of {self.positions:,} positions left out"]
        are = "is a candidate" if self.audit_hits == 1 else "are candidates"
        hits = f"{self.audit_hits:,} of {quantity(self.audits, 'audit')} {are}"
        left_out = f"screening: {self.left_out:,} of {self.positions:,} positions left out; {hits}"
        saving = f"; 1/{self.full_nodes / self.nodes:.1f} of the nodes of full searches" if self.nodes else ""
        return [left_out, f"  {self._recall_words()}{saving}"]

    def _recall_words(self) -> str:
        if self.recall is None or self.recall_low is None or self.recall_high is None:
            return "recall unknown"
        if not self.audit_hits:
            return f"recall at least {math.floor(100 * self.recall_low)} % (95 %)"
        return f"recall {100 * self.recall:.1f} % (95 %: {100 * self.recall_low:.1f} to {100 * self.recall_high:.1f})"


def not_finished(left_out: int, audits: int) -> str:
    """What must be known of rates if screening left positions out while none of them was audited; else empty."""
    if not left_out or audits:
        return ""
    return (
        f"screening is not finished: {left_out:,} positions were left out, and none of them audited, "
        "so that rates count the doubtful ones alone; run the same vr mine again"
    )


def not_finished_by(store: Store, judge: StoredJudge) -> str:
    """`not_finished` of all positions that a judge screened."""
    query = f"SELECT count(*), count(f.position_id) {LEFT}"
    all_left, audits = store.connection.execute(query, {"full": judge.id, "short": judge.short_id}).fetchone()
    return not_finished(all_left - audits, audits)


def screened_of(store: Store, pair: Pair, alpha: float, q_from: QFrom, threshold: float) -> Screened | None:
    """The figures of screening at an alpha and a threshold; None if nothing was screened, or for another net."""
    short_id = judge_of(store, pair[1]).short_id
    if short_id is None:
        return None
    query = """
        SELECT count(*), count(n.position_id), count(f.position_id), coalesce(sum(s.nodes), 0) FROM deep_values s
        JOIN positions p ON p.id = s.position_id AND p.origin = 'game'
        LEFT JOIN net_values n ON n.net_id = ? AND n.position_id = s.position_id
        LEFT JOIN deep_values f ON f.judge_id = ? AND f.position_id = s.position_id AND f.failed IS NULL
        WHERE s.judge_id = ? AND s.failed IS NULL
    """
    short, of_net, both, short_nodes = store.connection.execute(query, (*pair, short_id)).fetchone()
    if of_net < short:  # its values were computed later, where there was a full search
        return None
    left_out = short - both
    read = columns(store, pair, ("weight", "nodes", "game_id"))
    net_q, deep_q = both_q(store, pair, alpha, q_from)
    hits, weight = is_candidate(net_q - deep_q, threshold), read["weight"]
    audited = weight > 1
    found = int((hits & ~audited).sum())
    rate = weighted(hits[audited], weight[audited], read["game_id"][audited])
    stood_for = float(weight[audited].sum())

    def recall(missed: float) -> float | None:
        other = missed * stood_for if left_out else 0.0
        return found / (found + other) if found + other > 0 else None

    is_known = bool(audited.any()) or not left_out
    positions, nodes = len(hits) + left_out, read["nodes"]
    return Screened(
        positions=positions,
        left_out=left_out,
        audits=int(audited.sum()),
        audit_hits=int((hits & audited).sum()),
        found=found,
        recall=recall(rate.rate) if is_known else None,
        recall_low=recall(rate.high) if is_known else None,
        recall_high=recall(rate.low) if is_known else None,
        nodes=short_nodes + int(nodes.sum()),
        full_nodes=round(float(np.median(nodes)) * positions) if len(nodes) else 0,
    )
