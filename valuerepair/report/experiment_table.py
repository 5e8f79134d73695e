"""What experiments found, as a table, as rows for JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from valuerepair.play.elo import (
    LEVELS,
    ByOpening,
    Interval,
    Pentanomial,
    Score,
    elo_interval,
    los,
    share_interval,
    verdict,
)
from valuerepair.play.elo_words import elo_words, few_words, los_words
from valuerepair.play.experiment_contempt import ContemptReport
from valuerepair.play.experiment_measures import WHOLE, Match, Sweep

# Games of a setting run side by side, and what is said of it before the last one is over leans to the short ones.
UNFINISHED = "* not all games of the setting are over: those that are over are the shorter ones"
_HEAD = (
    f"{'setting':<12} {'games':>6} {'White +W =D -L':>20} {'(w+l)/d':>8} {'95 %':>15} "
    f"{'same to 20':>11} {'whole':>7} {'interesting/1000':>17} {'95 %':>13} {'plies':>6}"
)


def contempt_lines(report: ContemptReport) -> list[str]:
    """The table of both sweeps, and the match."""
    lines = [f"Self-play at {report.nodes} nodes a move", "", _HEAD]
    lines += [_sweep_line(sweep) for _, sweep in report.scl]
    lines += [_sweep_line(sweep) for _, sweep in report.temperatures]
    if any(0 < sweep.games < sweep.planned for _, sweep in [*report.scl, *report.temperatures]):
        lines.append(UNFINISHED)
    if report.match is not None:
        lines += ["", *match_lines(report.match)]
        if not report.matched_inside:
            lines.append("the ratio of N_scl lies outside those of the temperatures: the nearest one was taken")
    return lines


def match_lines(match: Match) -> list[str]:
    """A match: W/D/L, by colour, pairs, Elo with the interval and the verdict at each level."""
    games = match.score.games
    lines = [f"{match.first} against {match.second}: {match.score} of {games:,} games"]
    if games + match.undecided < match.planned:
        lines[0] += f" ({match.planned:,} to be played: those that are over are the shorter ones)"
    if match.undecided:
        lines[0] += f", {match.undecided:,} undecided"
    if not games:
        return lines
    lines.append(f"  as White {match.as_white}, as Black {match.as_black}; LOS {los_words(best_of(match))}")
    if match.pairs.pairs:
        lines.append(f"  pairs by points 0, 1/2, 1, 3/2, 2: {match.pairs}")
    if match.openings is not None:
        lines.append(f"  openings come again: intervals are over the {len(match.openings.shares):,} openings")
    if (remark := few_words(best_of(match))) is not None:
        lines.append(f"  {remark}")
    for level in LEVELS:
        elo = elo_interval(best_of(match), level)
        lines.append(f"  Elo {elo_words(elo)} at {level:.2f}: {verdict(best_of(match), level)}")
    return lines


def odds_lines(matches: Sequence[Match]) -> list[str]:
    """A line a setting: what the side that gives odds scored."""
    unfinished = [match.score.games + match.undecided < match.planned for match in matches]
    lines = [f"{'odds':<40} {'games':>6} {'+W -L =D':>18} {'points':>8} {'Elo at 0.95':>28}"]
    for match, marked in zip(matches, unfinished, strict=True):
        results = match.openings or match.score
        share, elo = share_interval(results), elo_interval(results)
        name = match.name + "*" * marked
        lines.append(
            f"{name:<40} {match.score.games:>6,} {match.score!s:>18} {100 * share.value:>6.1f} % {elo_words(elo):>28}"
        )
    return lines + [UNFINISHED] * any(unfinished)


def best_of(match: Match) -> Score | Pentanomial | ByOpening:
    """What intervals are made from: openings that come again, else pairs, where all games but a few are in pairs."""
    if match.openings is not None:
        return match.openings
    paired = 2 * match.pairs.pairs
    return match.pairs if paired and paired >= 0.9 * match.score.games else match.score


def contempt_rows(report: ContemptReport) -> list[dict[str, Any]]:
    """One row a setting, then the match; None stands for what is not known, also in place of infinity."""
    rows = [_sweep_row("n_scl", n, sweep) for n, sweep in report.scl]
    rows += [_sweep_row("temperature", tau, sweep) for tau, sweep in report.temperatures]
    return rows + ([match_row(report.match)] if report.match is not None else [])


def match_row(match: Match) -> dict[str, Any]:
    """A match as a row."""
    results = best_of(match)
    row: dict[str, Any] = {"kind": "match", "setting": match.name, "first": match.first, "second": match.second}
    row |= {"games": match.score.games, "undecided": match.undecided, "planned": match.planned}
    row |= {"wins": match.score.wins, "draws": match.score.draws, "losses": match.score.losses}
    row |= {"pairs": " ".join(str(count) for count in match.pairs.counts), "los": _number(los(results))}
    row["elo"] = _number(elo_interval(results).value)
    for level in LEVELS:
        _, low, high = elo_interval(results, level)
        name = f"elo_{round(100 * level)}"
        row |= {f"{name}_low": _number(low), f"{name}_high": _number(high), f"{name}_verdict": verdict(results, level)}
    return row


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of any columns as CSV: empty where a row has none."""
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _sweep_line(sweep: Sweep) -> str:
    if not sweep.games:
        return f"{sweep.name:<12} not played yet"
    ratio, found = sweep.ratio, sweep.interesting
    name = sweep.name + "*" * (sweep.games < sweep.planned)
    score = f"+{sweep.score.wins} ={sweep.score.draws} -{sweep.score.losses}"
    return (
        f"{name:<12} {sweep.games:>6,} {score:>20} {_ratio(ratio.value):>8} {_bounds(ratio, 2):>15} "
        f"{_percent(sweep.repeats['20']):>11} {_percent(sweep.repeats[WHOLE]):>7} {found.value:>17.1f} "
        f"{_bounds(found, 1):>13} {sweep.plies:>6.0f}"
    )


def _sweep_row(kind: str, value: float, sweep: Sweep) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind, "setting": sweep.name, "value": _number(value)}
    row |= {"games": sweep.games, "planned": sweep.planned}
    row |= {"undecided": sweep.undecided, "openings": sweep.openings}
    row |= {"wins": sweep.score.wins, "draws": sweep.score.draws, "losses": sweep.score.losses}
    for name, interval in (("ratio", sweep.ratio), ("interesting", sweep.interesting)):
        row |= {name: _number(interval.value), f"{name}_low": _number(interval.low)}
        row[f"{name}_high"] = _number(interval.high)
    row |= {f"repeats_{plies}": _number(share) for plies, share in sweep.repeats.items()}
    return row | {"threshold": sweep.threshold, "positions": sweep.positions, "plies": _number(sweep.plies)}


def _number(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f} %"


def _bounds(interval: Interval, digits: int) -> str:
    if math.isinf(interval.high):
        return f"above {interval.low:.{digits}f}"
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def _ratio(value: float) -> str:
    return "no draw" if math.isinf(value) else f"{value:.2f}"
