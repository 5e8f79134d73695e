"""The results of second looks: verdicts, the worst cases of each, and the text of both."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valuerepair.chess import values
from valuerepair.chess.progress import format_duration, format_rate
from valuerepair.judge import verdict
from valuerepair.judge.split import split_file
from valuerepair.runs.summary import NOT_DONE, next_command
from valuerepair.store import db_option
from valuerepair.store.store import Store
from valuerepair.text import finite, formatted

if TYPE_CHECKING:
    import pandas as pd

# In the order of the text: what the search got wrong deserves more attention than what it got right.
_RESOLVED = (verdict.NET_RIGHT, verdict.SEARCH_RIGHT)
_Q_OF_FRAME = ("net_q", "calibrated_q", "deep_q", "disagreement")


@dataclass(frozen=True)
class ConfirmSummary:
    """The figures of one run of second looks.

    It made `searches` in `seconds`, of `nodes` nodes in total, `workers` at a time; `failed` second looks have failed,
    in this run or before. `state` is ``finished``, ``interrupted`` (by a signal) or ``limited`` (by ``--limit``).
    """

    state: str
    searches: int
    failed: int
    nodes: int
    seconds: float
    workers: int


@dataclass(frozen=True)
class Confirmed:
    """The results of second looks: the `summary` of this run, and the `report` on those of all runs, JSON-able."""

    summary: ConfirmSummary
    report: dict[str, Any]

    @property
    def verdicts(self) -> dict[str, Any]:
        """How often the search is right about the candidates, as `judge.verdict.figures` counts it."""
        verdicts: dict[str, Any] = self.report["verdicts"]
        return verdicts

    def as_json(self) -> dict[str, Any]:
        """The report."""
        return self.report

    def lines(self) -> list[str]:
        """The report as text for a terminal, with the next command."""
        report = self.report
        first = report["alpha_of_first"]
        source = values.Alpha(**first).source(report["q_from"])
        calibrated = ", net Q calibrated" if report["calibration"] else ""
        seconds, nodes = report["seconds"], report["nodes"]
        speed = f", {format_rate(nodes / seconds)}" if nodes and seconds else ""
        shown = [
            f"{report['net']['name']} against {report['oracle']['label']}, {source}{calibrated}",
            f"searches: {report['searches']:,}, {self.summary.workers} at once, {report['failed']:,} failed; "
            f"{format_duration(seconds)}{speed}",
            *verdict.lines(report["verdicts"]),
        ]
        for resolved in _RESOLVED:
            worst = [case for case in report["cases"] if case["verdict"] == resolved]
            if worst:
                shown += [
                    "",
                    f"{resolved}, the largest disagreements (Q of the side to move; in brackets after the move)",
                ]
                shown += [line for case in worst for line in _case_lines(case)]
        return [*shown, "", *_next(report)]


def confirm_cases(frame: pd.DataFrame, evidence: pd.DataFrame, count: int) -> list[dict[str, Any]]:
    """The `count` worst candidates of each resolved verdict, by disagreement; *net right* first.

    `evidence` is `verdict.evidence` of `frame`. Values are Q of the candidate's side to move, also those after a move,
    None if unknown; moves are UCI.
    """
    order = frame["disagreement"].abs().sort_values(ascending=False, kind="stable").index
    cases: list[dict[str, Any]] = []
    for resolved in _RESOLVED:
        worst = [row for row in order if evidence["verdict"][row] == resolved][:count]
        cases += [_case(resolved, frame.loc[row], evidence.loc[row]) for row in worst]
    return cases


def _case(verdict: str, row: pd.Series[Any], evidence: pd.Series[Any]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "fen": row["fen"],
        **{name: finite(row[name]) for name in _Q_OF_FRAME if name in row},
        **{name: finite(evidence[name]) for name in ("second_q", "after_net_q", "after_deep_q", "after_second_q")},
        # An inferred value has no best move.
        **{name: best if isinstance(best := row[name], str) else None for name in ("net_best", "deep_best")},
        "second_best": evidence["second_best"],
    }


def confirm_report(
    store: Store, frame: pd.DataFrame, threshold: float, summary: ConfirmSummary, second: str, count: int
) -> dict[str, Any]:
    """The report after a run, JSON-able; `second` is the digest of the oracle of the second looks."""
    return {
        "store": store.path,
        "pair_options": store.pair_options(*store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])),
        **{str(name): value for name, value in frame.attrs.items() if name in ("net", "oracle", "q_from", "expanded")},
        "calibration": frame.attrs["calibration"],
        "split": split_file(store),
        "alpha_of_first": frame.attrs["alpha"],
        "state": summary.state,
        "searches": summary.searches,
        "failed": summary.failed,
        "nodes": summary.nodes,
        "seconds": summary.seconds,
        "verdicts": verdict.figures(store, frame, threshold, second),
        "cases": confirm_cases(frame, verdict.evidence(store, frame, second), count),
    }


def _case_lines(case: dict[str, Any]) -> list[str]:
    def move(name: str) -> str:
        value = case.get(f"after_{name}_q")
        return f"{case[f'{name}_best'] or '-'}" + ("" if value is None else f" ({value:+.2f})")

    values = "  ".join(
        f"{name} {formatted(case[f'{name}_q'], '+.2f')} {move(name)}" for name in ("net", "deep", "second")
    )
    return [f"  {case['fen']}", f"    {values}"]


def _next(report: dict[str, Any]) -> list[str]:
    if report["state"] == "interrupted":
        return [NOT_DONE]
    if report["state"] == "limited":
        return ["done for this --limit: give a larger one, or none, to look at the other candidates"]
    if (report["verdicts"].get("rates") or {}).get(verdict.SEARCH_RIGHT, {}).get("count"):
        alpha, calibrated = values.Alpha(**report["alpha_of_first"]), bool(report["calibration"])
        question = (report["store"], report["pair_options"], report["verdicts"]["threshold"], alpha, report["q_from"])
        options = {"calibrated": calibrated, "expanded": report["expanded"], "split": report["split"]}
        return [f"next: {next_command('vr books', *question, **options)} --confirmed"]
    return [f"next: {shlex.join(['vr', 'stats', *db_option(report['store'])])}"]
