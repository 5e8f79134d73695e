"""Positions of a store that a deeper judge looks at again: candidates (`vr confirm`), or a sample of a comparison.

Its values go into the store as any judge's; `mining.verdict` computes from them who was right.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valuerepair import stop
from valuerepair.arrays import Ids
from valuerepair.chess import values
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.mining import verdict
from valuerepair.mining.judges import open_deeper
from valuerepair.mining.search import SearchCounts, Task, search
from valuerepair.mining.summary import NOT_DONE, next_command
from valuerepair.oracles.oracle import Judge
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store import db_option, view
from valuerepair.store.pairs import judge_of, pick
from valuerepair.store.rows import RunRecord, StoredJudge
from valuerepair.store.store import Store
from valuerepair.text import finite, format_duration, format_rate, formatted

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

_AT_ONCE = 256  # positions that are read from the store together
_WORST = 5  # cases of each verdict
# In the order of the text: what the search got wrong deserves more attention than what it got right.
_RESOLVED = (verdict.NET_RIGHT, verdict.SEARCH_RIGHT)


def search_again(
    store: Store, first: StoredJudge, judge: Judge, ids: Ids, progress: Progress, command: str = ""
) -> SearchCounts:
    """Has a judge search the positions `ids` [n], in this order, that it has no value of, after `first` did.

    The same call resumes, however it ended; a failure is tried again. Raises ValueRepairError if the judge is broken.
    """
    number = store.add_judge(judge.identity)
    missing = ids[store.without_value(number, ids)]
    if len(missing) < len(ids):
        log.info(f"{len(ids) - len(missing):,} of {len(ids):,} positions were searched before")
    progress.set_total(len(missing))

    def tasks() -> Iterator[Task]:
        for begin in range(0, len(missing), _AT_ONCE):
            block = missing[begin : begin + _AT_ONCE]
            yield from (Task(i, position) for i, position in zip(block.tolist(), store.positions(block), strict=True))

    judges = {"first": first.digest, "second": judge.identity.digest}
    with stop.flag(), store.running(RunRecord.of({"again": judges}, command, judges)) as run:
        done = search(store, run, judge, number, tasks(), progress)
        run.counts["searched"] = run.counts.get("searched", 0) + done.searched
        run.state = "interrupted" if done.stopped else "finished"
    return done


# -- second looks at candidates ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Confirmed:
    """Second looks at the candidates of a question.

    `net` and `judge` are names, `alpha` and `q_from` of the first look. `done` is what this call searched, `workers` at
    a time. `verdicts` is `mining.verdict.figures` of all looks; `cases` are the `_WORST` candidates of each verdict
    with the largest disagreements, *net right* first, with Q and moves of net, judge and second look, for the side to
    move.
    `state` is ``finished``, ``interrupted`` (by a signal) or ``limited`` (by the limit).
    """

    state: str
    store: str
    net: str
    judge: str
    alpha: values.Alpha
    q_from: str
    done: SearchCounts
    workers: int
    verdicts: dict[str, Any]
    cases: list[dict[str, Any]]

    def lines(self) -> list[str]:
        """The results for a terminal, with the next command."""
        done = self.done
        speed = f", {format_rate(done.nodes / done.seconds)}" if done.nodes and done.seconds else ""
        text = [
            f"{self.net} against {self.judge}, {self.alpha.source(self.q_from)}",
            f"searched again: {done.searched:,}, {self.workers} at once, {done.failed:,} failed; "
            f"{format_duration(done.seconds)}{speed}",
            *verdict.lines(self.verdicts),
        ]
        for resolved in _RESOLVED:
            worst = [case for case in self.cases if case["verdict"] == resolved]
            if worst:
                text += ["", f"{resolved}, the largest disagreements (Q of the side to move)"]
                text += [line for case in worst for line in _case_lines(case)]
        return [*text, "", self._next()]

    def _next(self) -> str:
        if self.state == "interrupted":
            return NOT_DONE
        if self.state == "limited":
            return "done for this --limit: give a larger one, or none, to look at the other candidates"
        if self.verdicts["looked"] and self.verdicts["rates"][verdict.SEARCH_RIGHT]["count"]:
            return f"next: {next_command('vr books', self.store, self.verdicts['threshold'])} --confirmed"
        return f"next: {shlex.join(['vr', 'stats', *db_option(self.store)])}"


def confirm(
    store: Store,
    question: Question,
    deep: str | None = None,
    *,
    limit: int | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Confirmed:
    """Searches the candidates of a question again, deeper, the largest disagreements first; the store must be writable.

    `deep` is the search, None for the first one with ten times its limits (`mining.judges.deeper_spec`). Only the first
    `limit` candidates are looked at. If `question.net` is the net's file, a search with that net uses it. Raises
    UsageError for a limit below 1 and a search that is no deeper, ValueRepairError without candidates and for a broken
    judge.
    """
    check_least("--limit", limit)
    frame = view.candidates(store, question)
    if not len(frame):
        raise ValueRepairError(
            f"{store.path}: no candidates at {question.threshold:g} to look at; mine more, or lower --threshold"
        )
    net, first = frame.attrs["net"], judge_of(store, pick(store, question.net, frame.attrs["oracle"]["digest"])[1])
    ids = frame["position_id"].to_numpy()[:limit]
    with open_deeper(store, first, deep, net, question.net) as judge:
        done = search_again(store, first, judge, ids, progress or Progress("confirming", quiet=True), command)
        second, workers = judge.identity.digest, judge.workers
    return Confirmed(
        state="interrupted" if done.stopped else "limited" if len(ids) < len(frame) else "finished",
        store=store.path,
        net=net["name"],
        judge=first.label,
        alpha=values.Alpha(**frame.attrs["alpha"]),
        q_from=question.q_from,
        done=done,
        workers=workers,
        verdicts=verdict.figures(store, frame, question.threshold, second),
        cases=worst_cases(frame, verdict.evidence(store, frame, second)),
    )


def worst_cases(frame: pd.DataFrame, evidence: pd.DataFrame) -> list[dict[str, Any]]:
    """The worst candidates of each verdict, JSON-able; `frame` is ordered, `evidence` is `verdict.evidence` of it."""
    rows = frame.join(evidence).astype(object).to_dict("records")
    names = ("net_q", "deep_q", "disagreement", "second_q")
    return [
        {
            "verdict": resolved,
            "fen": row["fen"],
            **{name: finite(row[name]) for name in names},
            **{f"{name}_best": row[f"{name}_best"] for name in ("net", "deep", "second")},
        }
        for resolved in _RESOLVED
        for row in [row for row in rows if row["verdict"] == resolved][:_WORST]
    ]


def _case_lines(case: dict[str, Any]) -> list[str]:
    looks = (f"{name} {formatted(case[f'{name}_q'], '+.2f')} {case[f'{name}_best'] or '-'}" for name in _LOOKS)
    return [f"  {case['fen']}", f"    {'  '.join(looks)}"]


_LOOKS = ("net", "deep", "second")
