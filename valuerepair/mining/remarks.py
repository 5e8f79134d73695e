"""Remarks on a judge's values: how deep recorded ones looked, whose they are, whether the point of view is right."""

from __future__ import annotations

import numpy as np

from valuerepair.archives.options import CHUNKS, CUTECHESS, RECORD_KINDS, TCEC
from valuerepair.arrays import Floats
from valuerepair.chess.values import DEFAULT_ALPHA
from valuerepair.engines.kinds import kind_of
from valuerepair.question import Question
from valuerepair.store.columns import both_q, columns, results
from valuerepair.store.pairs import Pair
from valuerepair.store.rows import JudgeIdentity
from valuerepair.store.store import Store

_NAMES_SHOWN = 3
_ENOUGH_GAMES, _ENOUGH_POSITIONS = 50, 30  # tell whether values are from the wrong point of view


def of_recorded(store: Store, pair: Pair, judge: JudgeIdentity) -> list[str]:
    """Lines on the imported evaluations of a judge: depth and nodes, and warnings if they are of several kinds."""
    read = columns(store, pair, ("depth", "nodes"))
    depth, nodes = read["depth"], read["nodes"]
    parts = [_extent("depth", depth), _extent("nodes", nodes)]
    lines = [f"recorded evaluations: {'; '.join(parts)}"]
    if 0 < (unknown := int((depth == 0).sum())) < len(depth):
        lines.append(
            f"warning: {unknown:,} of {len(depth):,} evaluations do not say how deep they looked and are in one judge "
            "with the others; recorded:min-depth=1 leaves them out"
        )
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


def _extent(name: str, column: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    positive = column[column > 0]
    if not len(positive):
        return f"{name} not recorded"
    missing = f" ({len(column) - len(positive):,} do not say)" if len(positive) < len(column) else ""
    return f"{name} {positive.min():,.0f} to {positive.max():,.0f}, median {np.median(positive):,.0f}{missing}"


def turned(store: Store, pair: Pair, question: Question, judge: JudgeIdentity) -> list[str]:
    """A warning if the judge's values, where one side moves, surely contradict the results of the games, or the net."""
    if not (kind := kind_of(judge.kind)).any_engine and kind.searches:
        return []  # Stockfish, lc0 and the own search score from the side to move
    read = columns(store, pair, ("side_code", "game_id"), screened=True)
    net_q, deep_q = both_q(store, pair, DEFAULT_ALPHA, question.q_from, screened=True)
    games = read["game_id"]
    references = []
    if len(np.unique(games)) >= _ENOUGH_GAMES:  # positions of one game have one result
        references.append(("the results of the games", results(store, pair, screened=True)))
    if judge.options.get("kind") != CHUNKS:  # there the net's value is a part of the record
        references.append(("the net", net_q))
    for name, reference in references:
        wrong = [
            f"{side} to move ({r:.2f})"
            for code, side in enumerate(("White", "Black"))
            if (r := correlation(deep_q, reference, read["side_code"] == code)) < 0
        ]
        if wrong:
            view = judge.options.get("view") or (RECORD_KINDS[judge.options["kind"]].view if not kind.searches else "")
            advice = "a UCI score is from the side to move: correct the engine and mine again"
            if not kind.searches:
                advice = f"recorded:view={'mover' if view == 'white' else 'white'} reads them from the other one"
            return [
                f"warning: the judge's values contradict {name} with {' and '.join(wrong)}: they seem to be from "
                f"another point of view; {advice}"
            ]
    return []


def correlation(q: Floats, reference: Floats, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    """Pearson's r over the `rows` where both are numbers; NaN unless it is surely not 0 (95 %, Fisher's z)."""
    both = rows & ~(np.isnan(q) | np.isnan(reference))
    x, y = q[both], reference[both]
    if len(x) < _ENOUGH_POSITIONS or not x.std() or not y.std():
        return float("nan")
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1 + 1e-9, 1 - 1e-9))
    return r if abs(np.arctanh(r)) > 1.96 / np.sqrt(len(x) - 3) else float("nan")
