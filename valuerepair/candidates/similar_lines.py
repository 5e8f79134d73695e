"""Similar positions in words for a terminal."""

from __future__ import annotations

import math

from valuerepair.candidates.similar import Judged, Similar


def lines(found: Similar) -> list[str]:
    """The query, a line for each neighbour, and how many of these are candidates."""
    scale = found.scale
    shown = [f"like {found.fen}"]
    if found.query is not None:
        own = found.query
        shown.append(f"  position {own.position_id} of the store: {_values(own)}  {_labels(own, found.threshold)}")
    if scale is not None:
        source = scale.alpha.source(scale.q_from)
        shown.append(f"{scale.net} against {scale.oracle}, {source}; Q from the side to move")
    among = f"candidates at {found.threshold:g}" if found.candidates_only else "positions"
    shown.append(
        f"the nearest {len(found.neighbours)} of {found.searched:,} {among}; distance = material + pawns + kings"
    )
    width = max(len(near.position.fen) for near in found.neighbours)
    shown.append(
        f"{'distance':>8} {'mat.':>5} {'pawns':>5} {'kings':>5}  {'net Q':>7} {'deep Q':>7} {'differ':>7}  "
        f"{'id':>7}  {'FEN':{width}}  labels"
    )
    for near in found.neighbours:
        one = near.position
        mirrored = " mirrored" if near.mirrored else ""
        shown.append(
            f"{near.distance:>8.1f} {near.material:>5.0f} {near.pawns:>5.1f} {near.kings:>5.1f}  {_numbers(one)}  "
            f"{one.position_id:>7}  {one.fen:{width}}  {_labels(one, found.threshold)}{mirrored}"
        )
    sizes = [abs(near.position.disagreement) for near in found.neighbours]
    scored = [size for size in sizes if not math.isnan(size)]
    if scored and not found.candidates_only:
        wrong, mean = sum(size >= found.threshold for size in scored), sum(scored) / len(scored)
        at = f"candidates at {found.threshold:g}"
        shown.append(f"{wrong} of {len(scored)} scored are {at}; mean |net Q - deep Q| {mean:.3f}")
    return shown


def _labels(one: Judged, threshold: float) -> str:
    return ", ".join(one.labels(threshold))


def _values(one: Judged) -> str:
    return f"net Q {_q(one.net_q)}, deep Q {_q(one.deep_q)}, differ {_q(one.disagreement)}"


def _numbers(one: Judged) -> str:
    return " ".join(f"{_q(value):>7}" for value in (one.net_q, one.deep_q, one.disagreement))


def _q(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.3f}"
