"""A comparison of nets in words for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from valuerepair import values
from valuerepair.candidates.label_changes import LabelChange
from valuerepair.candidates.labelled import KINDS
from valuerepair.candidates.paired import Interval
from valuerepair.candidates.remeasure import Comparison, Remeasured, Selected

# Labels with fewer candidates of both nets together say nothing on a terminal; JSON has them all.
FEWEST_SHOWN = 3
MOST_FAMILIES = 5
_FAMILIES = ("family", "pieces")


def lines(found: Remeasured) -> list[str]:
    """The nets on all positions, then each comparison: on all positions first, then on what one net chose."""
    width = max(len(net.name) for net in found.nets)
    shown = [
        f"{found.positions:,} positions of {found.games:,} games, scored by {found.oracle}; deep Q from {_scale(found)}"
    ]
    shown += [f"  {name}: {count:,} scored positions have no value of it; left out" for name, count in _left_out(found)]
    if found.without_q:
        shown.append(f"  {found.without_q:,} positions without a deep Q of the kind asked for are left out")
    if found.effective < found.positions * 0.999:
        shown.append(f"  screened: rows weighted by inverse probability, worth {found.effective:,.0f} equal ones")
    shown += ["", f"{'':{width}}  mean |disagreement|  candidates at {found.threshold:g}"]
    shown += [f"{net.name:{width}}  {net.mean_abs:>19.4f}  {net.candidates}" for net in found.nets]
    for comparison in found.comparisons:
        shown += ["", *_comparison(comparison)]
    return shown


def _scale(found: Remeasured) -> str:
    alpha = found.alpha
    if found.q_from == "wdl" or alpha.origin == values.OWN_Q:
        return alpha.source(found.q_from)
    whose = "" if alpha.origin == "given" else f", that of {found.alpha_of}"
    return f"alpha {alpha.value:.1f} for all nets ({alpha.origin}{whose})"


def _left_out(found: Remeasured) -> list[tuple[str, int]]:
    return list(found.left_out.items())


def _comparison(pair: Comparison) -> Iterator[str]:
    counts = pair.counts
    p = "" if pair.p is None else f"; McNemar p {_p(pair.p)}"
    yield f"A = {pair.first}, B = {pair.second}"
    yield "all positions (judge by these; B - A, with 95 % intervals; below 0 is a repair)"
    yield f"  candidates             {_points(pair.share)}{p}"
    yield f"    games resampled      {_points(pair.share_by_games)}"
    yield f"  mean |disagreement|    {_plain(pair.mean_abs)}"
    yield (
        f"  repaired (only A wrong) {counts['repaired']:,}, newly wrong (only B) {counts['newly wrong']:,}, "
        f"still wrong {counts['still wrong']:,}, right both {counts['right both']:,}"
    )
    yield "chosen by one net (any other net looks better there: regression to the mean; compare the two shares)"
    yield f"  of A's {pair.of_first.count:,} candidates B is right on {_selected(pair.of_first)}"
    yield f"  of B's {pair.of_second.count:,} candidates A is right on {_selected(pair.of_second)}"
    yield f"  of the positions that are not A's candidates B is newly wrong on {pair.newly}"
    if pair.at_own_alpha is not None:
        other = pair.at_own_alpha
        yield f"alpha was fitted for A; at B's own, {other.alpha:.1f} ({other.origin}):"
        yield (
            f"  candidates A {100 * other.shares[0]:.2f} %, B {100 * other.shares[1]:.2f} %, "
            f"B - A {_points(other.difference)}"
        )
        if other.difference.difference * pair.share.difference < 0:
            yield "  the sign turns with alpha: neither net is shown to have fewer candidates"
    shown = shown_labels(pair.labels)
    if shown:
        yield from _labels(shown)
        if not pair.policies:
            yield "  value- and policy-blindness are left out: the policy of both nets is needed (vr label --net FILE)"


def _selected(chosen: Selected) -> str:
    if not chosen.count:
        return "none"
    return f"{chosen.other_right}; mean |disagreement| {chosen.mean_own:.3f} -> {chosen.mean_other:.3f}"


def shown_labels(labels: list[LabelChange]) -> list[LabelChange]:
    """The labels with enough candidates; of families the most frequent. ECO codes and exact material are too fine."""
    rows: list[LabelChange] = []
    taken: dict[str, list[LabelChange]] = {kind: [] for kind in _FAMILIES}
    for change in labels:
        if change.first + change.second - change.both < FEWEST_SHOWN:
            continue
        kind = change.label.partition(":")[0]
        if kind in taken:
            taken[kind].append(change)
        elif kind not in KINDS:
            rows.append(change)
    return rows + [change for kind in _FAMILIES for change in taken[kind][:MOST_FAMILIES]]


def _labels(rows: list[LabelChange]) -> Iterator[str]:
    width = max(20, *(len(row.label) for row in rows))
    yield "by label of the error, counted over all positions (many rows: some differ by chance)"
    yield f"  {'':{width}} {'A wrong':>8} {'repaired':>8} {'still':>6} {'newly':>6} {'B wrong':>8}  B - A"
    for row in rows:
        yield (
            f"  {row.label:{width}} {row.first:>8,} {row.repaired:>8,} {row.both:>6,} {row.newly:>6,} {row.second:>8,}"
            f"  {_points(row.change)}"
        )


def _points(interval: Interval) -> str:
    """A difference of shares in percentage points."""
    low, high = 100 * interval.low, 100 * interval.high
    return f"{100 * interval.difference:+.2f} points ({low:+.2f} to {high:+.2f})"


def _plain(interval: Interval) -> str:
    return f"{interval.difference:+.4f} ({interval.low:+.4f} to {interval.high:+.4f}, games resampled)"


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
