"""What second looks came to: verdicts, costs and the worst cases, as lines and as JSON-able data."""

from __future__ import annotations

import shlex
from math import isnan
from typing import TYPE_CHECKING, Any

from valuerepair import values
from valuerepair.candidates import verdict
from valuerepair.candidates.confirm import ConfirmSummary
from valuerepair.progress import format_duration, format_rate
from valuerepair.store import DEFAULT_PATH

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

# What the search got wrong is worth more attention than what it got right.
_RESOLVED = (verdict.NET_RIGHT, verdict.SEARCH_RIGHT)


def cases(frame: pd.DataFrame, found: pd.DataFrame, count: int) -> list[dict[str, Any]]:
    """The `count` worst candidates of each resolved verdict, by disagreement; *net right* first.

    `found` is `verdict.evidence` of `frame`. Values are Q of the candidate's mover, those after moves too, None where
    nothing is known; moves are UCI.
    """
    order = frame["disagreement"].abs().sort_values(ascending=False, kind="stable").index
    picked: list[dict[str, Any]] = []
    for each in _RESOLVED:
        worst = [row for row in order if found["verdict"][row] == each][:count]
        picked += [_case(each, frame.loc[row], found.loc[row]) for row in worst]
    return picked


def _case(verdict: str, row: pd.Series[Any], found: pd.Series[Any]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        **{name: _plain(row[name]) for name in ("fen", "net_q", "deep_q", "disagreement")},
        **{name: _plain(found[name]) for name in ("second_q", "after_net_q", "after_deep_q", "after_second_q")},
        **{name: row[name] for name in ("net_best", "deep_best")},
        "second_best": found["second_best"],
    }


def _plain(cell: Any) -> Any:
    if isinstance(cell, str):
        return cell
    return None if isnan(cell) else float(cell)


def report(
    store: Store, frame: pd.DataFrame, threshold: float, summary: ConfirmSummary, second: str, count: int
) -> dict[str, Any]:
    """All there is to say after a run, JSON-able; `second` is the digest of the oracle that looked."""
    return {
        "store": store.path,
        **{str(name): value for name, value in frame.attrs.items() if name in ("net", "oracle", "q_from")},
        "alpha_of_first": frame.attrs["alpha"],
        "state": summary.state,
        "searches": summary.searches,
        "failed": summary.failed,
        "nodes": summary.nodes,
        "seconds": summary.seconds,
        "verdicts": verdict.figures(store, frame, threshold, second),
        "cases": cases(frame, verdict.evidence(store, frame, second), count),
    }


def lines(report: dict[str, Any], workers: int) -> list[str]:
    """A `report` as text for a terminal, with what to do next."""
    first = report["alpha_of_first"]
    source = values.Alpha(**first).source(report["q_from"])
    seconds, nodes = report["seconds"], report["nodes"]
    speed = f", {format_rate(nodes / seconds)}" if nodes and seconds else ""
    shown = [
        f"{report['net']['name']} against {report['oracle']['label']}, {source}",
        f"searches: {report['searches']:,}, {workers} at once, {report['failed']:,} failed; "
        f"{format_duration(seconds)}{speed}",
        *verdict.lines(report["verdicts"]),
    ]
    for each in _RESOLVED:
        worst = [case for case in report["cases"] if case["verdict"] == each]
        if worst:
            shown += ["", f"{each}, the largest disagreements (Q of the side to move; in brackets after the move)"]
            shown += [line for case in worst for line in _case_lines(case)]
    return [*shown, "", *_next(report)]


def _case_lines(case: dict[str, Any]) -> list[str]:
    def move(name: str) -> str:
        value = case.get(f"after_{name}_q")
        return f"{case[f'{name}_best'] or '-'}" + ("" if value is None else f" ({value:+.2f})")

    values = "  ".join(f"{name} {_signed(case[f'{name}_q'])} {move(name)}" for name in ("net", "deep", "second"))
    return [f"  {case['fen']}", f"    {values}"]


def _signed(value: float | None) -> str:
    return "?" if value is None else f"{value:+.2f}"


def _next(report: dict[str, Any]) -> list[str]:
    option = "" if report["store"] == DEFAULT_PATH else f" --db {shlex.quote(report['store'])}"
    if report["state"] != "finished":
        return ["not done yet: give the same command again to go on where it stopped"]
    if (report["verdicts"].get("rates") or {}).get(verdict.SEARCH_RIGHT, {}).get("count"):
        threshold = f" --threshold {report['verdicts']['threshold']:g}"
        return [f"next: vr books{option}{threshold} --confirmed"]
    return [f"next: vr stats{option}"]
