"""The positions before a book's candidates, as rows of the book."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import pandas as pd

from valuerepair.books.holdout import NEAR_HELD
from valuerepair.books.options import BookOptions
from valuerepair.books.rows import can_go_on
from valuerepair.candidates.duplicates import near_keys
from valuerepair.candidates.families import material_family
from valuerepair.candidates.parents import Parent, parent_weight, parents_of, same_positions

NO_HISTORY = "no earlier move is known"
OF_CANDIDATE = "a candidate itself, which has their weight too"
OF_PARENT = "the same as another parent, which has their weight too"
HELD = "in the holdout"
HELD_FAMILY = "of a held-out family"
OVER = "game over, or too long for lc0"

# What a parent has of its candidate: the game's columns and its opening. Values of net and oracle are not its own.
_OF_GAME = ("start_fen", "source", "game", "game_id", "white", "black", "event", "date", "result", "opening_family")


@dataclass(slots=True)
class ParentCount:
    """``asked == written + sum(left_out.values())``: `plies` parents were asked of each candidate in the book."""

    plies: int = 0
    asked: int = 0
    written: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, reason: str, number: int = 1) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + number


def add_parents(
    book: pd.DataFrame, holdout: pd.DataFrame, options: BookOptions, held_families: tuple[str, ...]
) -> tuple[pd.DataFrame, ParentCount]:
    """`book` with each candidate's parents behind it, the nearest first; see `candidates.parents` for their weights.

    A position met twice is written once with the sum of the weights, as KataGo's uploader of positions merges them
    (python/upload_poses.py). The holdout gets no parents, and none that belongs to it comes into the book.
    """
    count = ParentCount(options.parents, options.parents * len(book))
    if not options.parents:
        return book, count
    candidates = book.to_dict("records")
    family = _Family(candidates, holdout, options, held_families, count)
    lines = [str(moves).split() for moves in book["moves"]]
    parents = parents_of(book["start_fen"].tolist(), lines, options.parents)
    # Each gives of its own weight: a candidate may be the parent of another and have gained by that.
    for row, weight, found in zip(candidates, book["book_weight"].tolist(), parents, strict=True):
        family.add(row, weight, found)
    count.written = len(family.records) - len(book)
    return pd.DataFrame(family.records), count


class _Family:
    """The book's rows as they grow: `records`, in book order."""

    def __init__(
        self,
        candidates: list[dict[Hashable, Any]],
        holdout: pd.DataFrame,
        options: BookOptions,
        held_families: tuple[str, ...],
        count: ParentCount,
    ) -> None:
        self.records: list[dict[Hashable, Any]] = []
        self._options, self._count, self._held_families = options, count, set(held_families)
        held = holdout["fen"].tolist()
        self._held = set(same_positions(held))
        self._near_held = set() if options.near_duplicates == "keep" else set(near_keys(held))
        keys = same_positions([row["fen"] for row in candidates])
        self._at = dict(zip(keys, candidates, strict=True))

    def add(self, row: dict[Hashable, Any], weight: float, found: list[Parent]) -> None:
        """A candidate and its parents, which get their shares of `weight`."""
        self.records.append(row)
        if missing := self._options.parents - len(found):
            self._count.leave_out(NO_HISTORY, missing)
        for parent in found:
            self._add_parent(parent, row, parent_weight(weight, parent.plies_before))

    def _add_parent(self, parent: Parent, candidate: dict[Hashable, Any], weight: float) -> None:
        origin = _origin(parent, candidate)
        if (there := self._at.get(parent.key)) is not None:
            there["book_weight"] += weight
            there["parent_of"] = ", ".join(filter(None, (there["parent_of"], origin)))
            self._count.leave_out(OF_PARENT if there["plies_before"] else OF_CANDIDATE)
            return
        made = _row(parent, candidate, weight, origin)
        if reason := self._unwanted(parent.key, made):
            self._count.leave_out(reason)
            return
        self._at[parent.key] = made
        self.records.append(made)

    def _unwanted(self, key: int, row: dict[Hashable, Any]) -> str:
        if key in self._held:
            return HELD
        if self._options.holdout_by == "material" and row["material_family"] in self._held_families:
            return HELD_FAMILY
        if self._near_held and near_keys([row["fen"]])[0] in self._near_held:
            return NEAR_HELD
        return "" if can_go_on(row["fen"], row["start_fen"], row["moves"]) else OVER


def _row(parent: Parent, candidate: dict[Hashable, Any], weight: float, origin: str) -> dict[Hashable, Any]:
    row: dict[Hashable, Any] = {name: candidate[name] for name in _OF_GAME if name in candidate}
    row |= {"fen": parent.fen, "moves": " ".join(parent.moves), "ply": parent.ply, "side": parent.fen.split()[1]}
    row |= {"net_q": float("nan"), "deep_q": float("nan"), "disagreement": float("nan")}
    row |= {"book_weight": weight, "plies_before": parent.plies_before, "parent_of": origin}
    return row | {"material_family": material_family(row)}


def _origin(parent: Parent, candidate: dict[Hashable, Any]) -> str:
    plies = "1 ply" if parent.plies_before == 1 else f"{parent.plies_before} plies"
    name = PurePath(str(candidate["source"])).name
    return f"{plies} before {name}#{candidate['game']} ply {candidate['ply']}"
