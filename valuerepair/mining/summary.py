"""What a run of mining did, in lines for the user, with what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from valuerepair.archives.options import CHUNKS, CUTECHESS, RECORD_KINDS, TCEC
from valuerepair.archives.rows import ReadReport
from valuerepair.arrays import Ids
from valuerepair.chess.origins import GAME, KINDS, Kind
from valuerepair.chess.values import DEFAULT_ALPHA, Alpha
from valuerepair.engines.kinds import kind_of
from valuerepair.mining.feed import Feed, Reader
from valuerepair.mining.search import SearchCounts
from valuerepair.nets.net import NetFacts
from valuerepair.oracles.oracle import Judge
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Rate, weighted, wilson
from valuerepair.store import db_option
from valuerepair.store.alpha import alpha as alpha_of
from valuerepair.store.columns import both_q, columns
from valuerepair.store.pairs import Pair, net_label
from valuerepair.store.rows import JudgeIdentity
from valuerepair.store.store import Store
from valuerepair.text import format_duration, format_rate, quantity

NOT_DONE = "not done yet: run the same command again to resume"
_NAMES_SHOWN = 3
_ENOUGH = 30  # positions tell whether values are from the wrong point of view


@dataclass(frozen=True)
class MineSummary:
    """The end of one run.

    `sampled` positions were drawn; `scored` of them have net and judge value, screening has `left_out` others, and
    `failed` could not be searched; `earlier` were done before. `candidates` is the rate at the threshold, by `alpha`,
    among the run's positions of games; `beside` has that of each other origin. `nodes` and `seconds` are of this run.
    `workers` is the number of searches at a time, None if evaluations were recorded and nothing was searched.
    `remarks` are on these; `turned` warns that values seem to be from another point of view: then no next command is
    proposed. `state` is ``finished``, ``interrupted`` (by a signal) or ``limited`` (by `limit`).
    """

    state: str
    store: str
    report: ReadReport
    sampled: int
    scored: int
    earlier: int
    left_out: int
    failed: int
    candidates: Rate
    beside: Mapping[Kind, Rate]
    threshold: float
    alpha: Alpha
    q_from: str
    net: str
    provider: str
    judge: str
    workers: int | None
    nodes: int
    seconds: float
    remarks: Sequence[str]
    turned: str

    def counts(self) -> dict[str, Any]:
        """The counts that the store records."""
        return {
            "sampled": self.sampled,
            "scored": self.scored,
            "left_out": self.left_out,
            "failed": self.failed,
            "games": self.report.games,
            "games_rejected": dict(self.report.rejected),
            "positions_rejected": dict(self.report.rejected_positions),
            "truncated": [list(cut) for cut in self.report.truncated],
        }

    def lines(self) -> list[str]:
        """The summary for a terminal, with what to do next."""
        speed = f", {format_rate(self.nodes / self.seconds)}" if self.seconds and self.nodes else ""
        if self.workers is None and self.seconds:
            speed = f", {quantity(round(self.report.looked_at / self.seconds), 'position')} read per second"
        left_out = f"{self.left_out:,} left out by screening, " if self.left_out else ""
        before = f", {self.earlier:,} of them before" if self.earlier else ""
        at_once = "" if self.workers is None else f", {self.workers} at once"
        return [
            *self.report.lines(),
            f"net: {self.net} on {self.provider}",
            f"deep: {self.judge}{at_once}",
            *self.remarks,
            *([self.turned] if self.turned else []),
            f"scored: {self.scored:,} of {self.sampled:,}, {left_out}{self.failed:,} failed{before}; "
            f"{format_duration(self.seconds)}{speed}",
            f"deep Q from: {self.alpha.source(self.q_from)}",
            *self._rate_lines(),
            *self._next(),
        ]

    def _rate_lines(self) -> list[str]:
        at = f"candidates at {self.threshold:g}"
        if self.state != "finished" and self.left_out:  # the audits that stand for these come last
            return [f"{at}: {self.candidates.count:,} so far; how often there is one, a finished run says"]
        return [
            f"{at}: {self.candidates}",
            *(f"beside the games ({kind}): {rate}" for kind, rate in self.beside.items()),
        ]

    def _next(self) -> list[str]:
        if self.state != "finished":
            return [NOT_DONE]
        if self.turned:
            return []
        if self.candidates.count or any(rate.count for rate in self.beside.values()):
            return [f"next: {next_command('vr books', self.store, self.threshold)}"]
        stats = shlex.join(["vr", "stats", *db_option(self.store)])
        return [f"no candidates at {self.threshold:g}: mine more, or see other thresholds by {stats}"]


def next_command(name: str, store: str, threshold: float) -> str:
    """The command `name` (``vr books``) for the net and judge in use, to be pasted into a shell."""
    return f"{name} {shlex.join([*db_option(store), '--threshold', f'{threshold:g}'])}"


def summary(
    store: Store,
    pair: Pair,
    question: Question,
    reader: Reader,
    feed: Feed,
    done: SearchCounts,
    seconds: float,
    judge: Judge,
    net: NetFacts,
) -> MineSummary:
    """The results of a run that has ended, by the alpha that now counts."""
    alpha = alpha_of(store, pair, question.alpha)
    report = reader.report
    is_search = kind_of(judge.identity.kind).searches
    seen = np.concatenate(feed.seen) if feed.seen else np.empty(0, np.int64)
    rates = _rates(store, pair, question, alpha.value, seen)
    scored, judged = (
        int(np.isin(columns(store, pair, (), beside=True, screened=screened)["position_id"], seen).sum())
        for screened in (False, True)
    )
    return MineSummary(
        state="interrupted" if done.stopped else "limited" if feed.limited else "finished",
        store=store.path,
        report=report,
        sampled=feed.sampled,
        scored=scored,
        earlier=feed.earlier,
        left_out=judged - scored,
        failed=done.failed + feed.without_evaluation,
        candidates=rates.pop(GAME, wilson(0, 0)),
        beside=rates,
        threshold=question.threshold,
        alpha=alpha,
        q_from=question.q_from,
        net=net_label(store, pair[0]),
        provider=net.provider,
        judge=judge.identity.label,
        workers=judge.workers if is_search else None,
        nodes=done.nodes,
        seconds=seconds,
        remarks=[] if is_search else of_recorded(store, pair, judge.identity),
        turned=turned(store, pair, question, judge.identity),
    )


def _rates(store: Store, pair: Pair, question: Question, alpha: float, seen: Ids) -> dict[Kind, Rate]:
    """The rate of candidates among these positions, by origin."""
    read = columns(store, pair, ("game_id", "kind", "weight"), beside=True)
    net_q, deep_q = both_q(store, pair, alpha, question.q_from, beside=True)
    usable = np.isin(read["position_id"], seen) & ~np.isnan(net_q - deep_q)
    return {
        kind: weighted(
            is_candidate((net_q - deep_q)[rows], question.threshold), read["weight"][rows], read["game_id"][rows]
        )
        for kind in KINDS
        for rows in [usable & (read["kind"] == kind)]
        if rows.any()
    }


def nothing_sampled(paths: Sequence[str], report: ReadReport) -> str:
    """The error of a run that sampled no position, with what rejected most."""
    names = ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")
    reasons = (report.rejected + report.rejected_positions).most_common(4)
    why = f" ({', '.join(f'{count:,} {reason}' for reason, count in reasons)})" if reasons else ""
    return f"{names}: no position to mine in {quantity(report.games, 'game')}{why}"


# -- remarks on recorded evaluations ----------------------------------------------------------------------------------


def of_recorded(store: Store, pair: Pair, judge: JudgeIdentity) -> list[str]:
    """Lines on the imported evaluations of a judge: depth and nodes, and a warning if they are of several players."""
    read = columns(store, pair, ("depth", "nodes"))
    lines = [f"recorded evaluations: {'; '.join(_extent(name, read[name]) for name in ('depth', 'nodes'))}"]
    if judge.options["kind"] in (CUTECHESS, TCEC) and "by" not in judge.options:
        query = "SELECT DISTINCT iif(side_code = 0, white, black) FROM scored WHERE net_id = ? AND judge_id = ?"
        players = sorted(name for (name,) in store.connection.execute(query, pair) if name)
        if len(players) > 1:
            named = ", ".join(players[:_NAMES_SHOWN]) + (", ..." if len(players) > _NAMES_SHOWN else "")
            lines.append(
                f"warning: evaluations by {len(players)} players ({named}) are in one judge, though the centipawns of "
                "players differ; recorded:by=NAME takes those of one player"
            )
    return lines


def _extent(name: str, column: Ids) -> str:
    positive = column[column > 0]
    if not len(positive):
        return f"{name} not recorded"
    missing = f" ({len(column) - len(positive):,} do not say)" if len(positive) < len(column) else ""
    return f"{name} {positive.min():,.0f} to {positive.max():,.0f}, median {np.median(positive):,.0f}{missing}"


def turned(store: Store, pair: Pair, question: Question, judge: JudgeIdentity) -> str:
    """A warning if the judge's Q, where one side moves, surely falls as the net's rises; else empty."""
    kind = kind_of(judge.kind)
    if (kind.searches and not kind.any_engine) or judge.options.get("kind") == CHUNKS:
        return ""  # Stockfish, lc0, the own search and training chunks score from the side to move
    side_code = columns(store, pair, ("side_code",), screened=True)["side_code"]
    net_q, deep_q = both_q(store, pair, DEFAULT_ALPHA, question.q_from, screened=True)
    for code, side in enumerate(("White", "Black")):
        rows = (side_code == code) & ~np.isnan(net_q + deep_q)
        count = int(rows.sum())
        if count < _ENOUGH or not net_q[rows].std() or not deep_q[rows].std():
            continue
        r = float(np.corrcoef(net_q[rows], deep_q[rows])[0, 1])
        if r < -3 / count**0.5:
            advice = "a UCI score is from the side to move: correct the engine and mine again"
            if not kind.searches:
                view = judge.options.get("view") or RECORD_KINDS[judge.options["kind"]].view
                advice = f"recorded:view={'mover' if view == 'white' else 'white'} reads them from the other one"
            return (
                f"warning: the judge's values contradict the net with {side} to move ({r:.2f}): they "
                f"seem to be from another point of view; {advice}"
            )
    return ""
