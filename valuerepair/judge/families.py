"""Figures of `vr expand`: candidates by step and in the archive, how good inferred values are, how many roots count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats
from valuerepair.chess import values
from valuerepair.intervals import Rate, WeightedCount, weighted
from valuerepair.judge.weights import hill_numbers
from valuerepair.question import QFrom, Question, is_candidate
from valuerepair.store import reached, screening
from valuerepair.store.rows import STEPS
from valuerepair.store.store import Store
from valuerepair.text import finite, quantity, table_lines

Columns = Mapping[str, NDArray[Any]]

# With at least this many positions drawn at random, the rate is theirs alone; a distance with fewer has no row.
LEAST_DRAWN = 30
LEAST_AUDITED = 10
_ORDERS = (1.0, 2.0)
_LINE = STEPS.index("line")
# The steps as the options of vr expand call them.
_STEP_NAMES = {"line": "line, searched", "parent": "parents", "child": "children", "game": "game"}


def figures(
    store: Store, pair: tuple[int, int], alpha: float, question: Question, sampled: Columns
) -> dict[str, Any] | None:
    """Figures of the positions that were reached from candidates, JSON-able; None if there are no such positions.

    `pair` are net and oracle, `sampled` position_id, disagreement, weight, nodes and game_id of all sampled positions
    that they scored. `archive`, and `steps` by step and by distance (None: all), have `reached`, `searched`, `cut`,
    `candidates` (searched), `nodes`, `per_mnode` (candidates) and the `rate` of candidates with its 95 % interval, of
    the `rated` positions: those ``drawn`` at random; if these are too few, also those ``chosen`` for their yield; or
    ``all``, if nothing was left out. Of a line only inferred candidates are searched, and their rate is the `precision`
    in `inferred`. `roots` has the effective numbers of roots of all candidates, searched, inferred and sampled, each
    counting as one.
    """
    if not reached.any_reached(store, *pair):
        return None
    threshold = question.threshold
    columns = reached.all_reached(store, *pair)
    if question.calibration == "fitted":
        with_q, net_q = np.flatnonzero(~np.isnan(columns["net_q"])), columns["net_q"].copy()
        net_q[with_q] = store.judged_q(question, columns["position_id"][with_q].tolist(), net_q[with_q].tolist())
        columns["net_q"] = net_q
    searched_all = reached.left_nothing(store, np.unique(columns["run_id"]).tolist())
    rows = _FamilyRows(columns, alpha, question.q_from, threshold, searched_all=searched_all)
    archive = _archive(store, pair, sampled, threshold)
    steps = [rows.figures_of(step, None) for step in range(len(STEPS)) if (rows.columns["step"] == step).any()]
    steps += [rows.figures_of(step, distance) for step, distance in rows.distances()]
    candidates, nodes = int(rows.candidate.sum()), int(rows.columns["nodes"].sum())
    inferred = rows.inferred()
    sampled_hits = sampled["position_id"][is_candidate(sampled["disagreement"], threshold)]
    return {
        "threshold": threshold,
        "reached": len(rows.disagreement),
        "rounds": int(rows.columns["round"].max()),
        "archive": archive,
        "steps": steps,
        "candidates": candidates,
        "nodes": nodes,
        "per_mnode": _per_mnode(candidates, nodes),
        "inferred": inferred,
        "per_mnode_with_inferred": [
            None if share is None else _per_mnode(candidates + share * inferred["unsearched"], nodes)
            for share in (inferred["precision"], inferred["low"], inferred["high"])
        ],
        "roots": _roots(rows, sampled_hits),
    }


class _FamilyRows:
    """The columns of `reached.all_reached`, and each row's disagreement with the searched and with the inferred value.

    Masks [n]: whether a row is a candidate by either value; whether it `left_ladder` (`intervals.audit_weights`) and
    was `cut`; whether its searched value is `known`.
    """

    def __init__(self, columns: Columns, alpha: float, q_from: QFrom, threshold: float, *, searched_all: bool) -> None:
        self.columns, self._searched_all = columns, searched_all
        self.disagreement = _disagreement(columns, "searched", alpha, q_from)
        self.inferred_disagreement = _disagreement(columns, "inferred", alpha, q_from)
        self.candidate = is_candidate(self.disagreement, threshold)
        self.inferred_candidate = is_candidate(self.inferred_disagreement, threshold)
        cut_at, probability = columns["cut_at"], columns["probability"]
        self.left_ladder = ~np.isnan(cut_at) & ~(columns["searched"] & (probability == 1))
        self.cut, self.known = self.left_ladder & ~columns["searched"], ~np.isnan(self.disagreement)
        # Positions that left the ladder are alike, whichever step led there; less so if they were chosen for their
        # yield. So those drawn at random are judged by their own audits, once there are enough of these.
        self.audits = self._audited(self.left_ladder)
        drawn = self._audited(self.left_ladder & columns["drawn"])
        self.drawn_audits = drawn if drawn.drawn.total >= LEAST_AUDITED else self.audits

    def _audited(self, left_ladder: Flags) -> WeightedCount:
        """The audited ones of positions that left the ladder (`intervals.audit_weights`; `rate` scales them)."""
        audited = left_ladder & self.known
        return WeightedCount().plus(
            self.candidate[audited], 1 / self.columns["probability"][audited], self.columns["root_id"][audited]
        )

    def distances(self) -> list[tuple[int, int]]:
        """Steps and distances that have enough positions, for steps with several such distances."""
        decided = (self.known | self.cut) & (self.columns["step"] != _LINE)
        pairs, counts = np.unique(
            np.stack([self.columns["step"][decided], self.columns["distance"][decided]]), axis=1, return_counts=True
        )
        enough = [(int(step), int(distance)) for step, distance in pairs[:, counts >= LEAST_DRAWN].T]
        return [pair for pair in enough if sum(other[0] == pair[0] for other in enough) > 1]

    def figures_of(self, step: int, distance: int | None) -> dict[str, Any]:
        """The figures of a step, at one distance or at any."""
        mask = self.columns["step"] == step
        if distance is not None:
            mask &= self.columns["distance"] == distance
        candidates, nodes = int(self.candidate[mask].sum()), int(self.columns["nodes"][mask].sum())
        return {
            "step": STEPS[step],
            "distance": distance,
            "reached": int(mask.sum()),
            "searched": int(self.columns["searched"][mask].sum()),
            "cut": int(self.cut[mask].sum()),
            "candidates": candidates,
            "nodes": nodes,
            "per_mnode": _per_mnode(candidates, nodes),
            **(_no_rate() if step == _LINE else self._rate(mask)),
        }

    def _rate(self, mask: Flags) -> dict[str, Any]:
        """The rate of positions drawn at random, if there are enough: the others were searched as likely candidates.

        If all positions were searched, the rate is that of all.
        """
        decided = mask & (self.known | self.cut)
        drawn = decided & self.columns["drawn"]
        is_all = self._searched_all or not (decided & ~drawn).any()
        enough = not is_all and int(drawn.sum()) >= LEAST_DRAWN
        rated = drawn if enough else decided
        finished = rated & self.known & ~self.left_ladder
        left_ladder = int((rated & self.left_ladder).sum())
        audits = self.drawn_audits if enough else self.audits
        if not rated.any() or (left_ladder and not audits.drawn.total):
            return _no_rate()
        ones = np.ones(int(finished.sum()))
        single = WeightedCount().plus(self.candidate[finished], ones, self.columns["root_id"][finished]).single
        rate = WeightedCount(single, audits.drawn).rate(left_ladder) if left_ladder else WeightedCount(single).rate()
        rated_of = "all" if is_all else "drawn" if enough else "chosen"
        return {"rated": int(rated.sum()), "rated_of": rated_of, **rate.figures()}

    def inferred(self) -> dict[str, Any]:
        """Positions whose value is inferred from a line, and how many of these candidates a search confirms."""
        inferred = ~np.isnan(self.inferred_disagreement)
        audited = self.inferred_candidate & self.known
        right = self.candidate & (np.sign(self.disagreement) == np.sign(self.inferred_disagreement))
        rate = weighted(right[audited], np.ones(int(audited.sum())), self.columns["root_id"][audited])
        distance = self.columns["distance"]
        return {
            "positions": int(inferred.sum()),
            "candidates": int(self.inferred_candidate.sum()),
            "unsearched": int((self.inferred_candidate & ~self.known).sum()),
            "audited": rate.total,
            "confirmed": rate.count,
            "precision": finite(rate.rate),
            "low": finite(rate.low),
            "high": finite(rate.high),
            "by_distance": [
                {
                    "distance": int(plies),
                    "positions": int((rows := inferred & (distance == plies)).sum()),
                    "candidates": int(self.inferred_candidate[rows].sum()),
                }
                for plies in np.unique(distance[inferred])
            ],
        }


def _disagreement(columns: Columns, value: str, alpha: float, q_from: QFrom) -> Floats:
    """[n] net Q less the deep Q of a ``searched`` or an ``inferred`` value; NaN without one."""
    scores = np.stack([columns[f"{value}_{name}"] for name in ("cp", "mate", "w", "d", "l", "q")], 1)
    return np.asarray(columns["net_q"] - values.deep_q(scores, alpha, q_from))


def _archive(store: Store, pair: tuple[int, int], sampled: Columns, threshold: float) -> dict[str, Any]:
    passages = screening.passage_columns(store, *pair)
    ids, disagreement = sampled["position_id"], sampled["disagreement"]
    searched = ~np.isnan(disagreement)
    hits = is_candidate(disagreement[searched], threshold)
    cut = ~np.isnan(passages.cut_at) & ~passages.searched & ~np.isin(passages.ids, ids)
    nodes = int(passages.nodes.sum()) + int(sampled["nodes"][~np.isin(ids, passages.ids)].sum())
    return {
        "reached": len(ids) + int(cut.sum()),
        "searched": len(ids),
        "cut": int(cut.sum()),
        "candidates": int(hits.sum()),
        "nodes": nodes,
        "per_mnode": _per_mnode(float(hits.sum()), nodes),
        "rated": int(searched.sum()),
        **weighted(hits, sampled["weight"][searched], sampled["game_id"][searched]).figures(),
    }


def _roots(rows: _FamilyRows, sampled: NDArray[np.int64]) -> dict[str, Any]:
    """How many roots the candidates have, and how many of equal size would be as diverse: Hill numbers by count."""
    candidate = np.where(rows.known, rows.candidate, rows.inferred_candidate)
    _, counts = np.unique(np.concatenate([sampled, rows.columns["root_id"][candidate]]), return_counts=True)
    return {
        "candidates": int(counts.sum()),
        "sampled": len(sampled),
        "roots": len(counts),
        "hill": list(hill_numbers(counts, _ORDERS)),
    }


def _per_mnode(candidates: float, nodes: int) -> float | None:
    return 1e6 * candidates / nodes if nodes else None


def _no_rate() -> dict[str, Any]:
    return {"rated": 0, "rated_of": None, "rate": None, "low": None, "high": None}


# -- lines ------------------------------------------------------------------------------------------------------------


_COLUMNS = ":<16 | reached:>9, | searched:>9, | cut:>9, | candidates:>11, | Mnodes:>9 | per Mnode:>10 | rate:<"


def lines(expansion: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal."""
    rounds = quantity(expansion["rounds"], "round")
    text = [
        "",
        f"expanded: {expansion['reached']:,} positions reached by vr expand, {rounds}; at {expansion['threshold']:g}",
    ]
    cells = [_cells("archive", expansion["archive"])]
    for row in sorted(expansion["steps"], key=lambda row: (STEPS.index(row["step"]), row["distance"] or 0)):
        step, distance = row["step"], row["distance"]
        place = f"move {distance}" if step == "child" else quantity(distance or 0, "ply")
        cells.append(_cells(_STEP_NAMES[step] if distance is None else f"  {place}", row))
    text += table_lines(_COLUMNS, cells, "  ")
    text += _inferred_lines(expansion["inferred"])
    text += _yield_lines(expansion)
    roots = expansion["roots"]
    text.append(
        f"  with the {roots['sampled']:,} of the archive: {roots['candidates']:,} candidates around "
        f"{roots['roots']:,} roots"
    )
    return text


def diversity_line(expansion: dict[str, Any]) -> str:
    """How diverse the roots are."""
    of_order = ", ".join(f"{number:,.1f}" for number in expansion["roots"]["hill"])
    return f"{expansion['roots']['roots']:,} roots count for {of_order} (Hill numbers of order 1, 2)"


def _cells(name: str, row: dict[str, Any]) -> list[str | int]:
    yields = "" if row["per_mnode"] is None else f"{row['per_mnode']:.3g}"
    mnodes = row["nodes"] / 1e6
    spent = f"{mnodes:,.0f}" if mnodes >= 100 else f"{mnodes:.3g}"
    rate = ""
    if row["rate"] is not None:
        rate = f"{100 * row['rate']:.1f} % (95 %: {100 * row['low']:.1f} to {100 * row['high']:.1f})"
        origins = {"drawn": f" of {row['rated']:,} drawn", "chosen": ", chosen for their yield"}
        rate += origins.get(str(row.get("rated_of")), "")
    return [name, row["reached"], row["searched"], row["cut"], row["candidates"], spent, yields, rate]


def _inferred_lines(inferred: dict[str, Any]) -> list[str]:
    if not inferred["positions"]:
        return []
    precision = "none of these was searched"
    if inferred["audited"]:
        precision = f"of those that were searched anyway, {_precision(inferred)} are"
    shares = ", ".join(f"{100 * row['candidates'] / row['positions']:.0f}" for row in inferred["by_distance"])
    plies = "-".join(dict.fromkeys(str(inferred["by_distance"][i]["distance"]) for i in (0, -1)))
    counts = f"{quantity(inferred['positions'], 'position')}, {quantity(inferred['candidates'], 'candidate')}"
    return [
        f"  inferred from lines, without a search: {counts}; {precision}",
        f"  share of candidates among these at {plies} plies down the line: {shares} %",
    ]


def _precision(inferred: dict[str, Any]) -> str:
    """If all or none of them are right, their share is not an estimate, so only the interval's other end is given."""
    count, total = inferred["confirmed"], inferred["audited"]
    if 0 < count < total:
        return str(Rate(count, total, inferred["precision"], inferred["low"], inferred["high"]))
    end = f"at least {100 * inferred['low']:.1f}" if count else f"at most {100 * inferred['high']:.1f}"
    return f"{count:,} of {total:,} (95 %: {end} %)"


def _yield_lines(expansion: dict[str, Any]) -> list[str]:
    reached, archive = expansion["per_mnode"], expansion["archive"]["per_mnode"]
    if reached is None or not archive:
        return []
    line = f"  candidates per Mnode: {reached:.3g}, {reached / archive:.1f} times the archive's"
    with_inferred = expansion["per_mnode_with_inferred"]
    if expansion["inferred"]["unsearched"] and with_inferred[0] is not None:
        times, low, high = (per_mnode / archive for per_mnode in with_inferred)
        ratio = f"{times:.1f} times (95 %: {low:.1f} to {high:.1f})"
        if expansion["inferred"]["confirmed"] == expansion["inferred"]["audited"]:
            ratio = f"at least {low:.1f} times (95 %)"
        line += f"; with the inferred ones, by their precision, {ratio}"
    return [line]
