"""Chooses the rows of the store for a book, their order and weights.

Also finds out what the choice depends on: whether lc0 can play on from a row, its labels and verdict, and what is held
out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT
from valuerepair.books.options import BookOptions
from valuerepair.chess.board import fens, keys, parse_fens, replay
from valuerepair.chess.material import near_keys
from valuerepair.chess.openings import material_family
from valuerepair.chess.positions import encode_lines, encode_moves, ply_of
from valuerepair.chess.reached import boards_after
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.measure.labels import KINDS, NAMES, labels_of, names
from valuerepair.measure.weights import weights_of
from valuerepair.mining.again import SEARCH_RIGHT, evidence
from valuerepair.question import DEFAULT_THRESHOLD, is_candidate
from valuerepair.store.parts import FAMILIES, GAMES, TRAIN, seeded_hash, split_of
from valuerepair.store.store import Store
from valuerepair.text import quantity

MOST_OF_ROOT = 5  # neighbours of one candidate, itself included
NOT_FOR_TRAINING = "held out from training"
NEAR_HELD = "near-duplicate of a held-out position"


@lru_cache(4096)
def file_name(source: object) -> str:
    """A file's name without its folder."""
    return PurePath(str(source)).name


def game_name(row: Mapping[Any, Any]) -> str:
    """A row's file and the number of the game in it; without the folder, because a book may be published."""
    return f"{file_name(row['source'])}#{row['game']}"


def playable(rows: pd.DataFrame) -> pd.Series[bool]:
    """`can_continue` of each row."""
    fens, starts, moves = (rows[name].tolist() for name in ("fen", "start_fen", "moves"))
    mask: pd.Series[bool] = pd.Series(can_continue(fens, starts, moves), rows.index, dtype=bool)
    return mask


def can_continue(fens: Sequence[str], starts: Sequence[str], moves: Sequence[str]) -> NDArray[np.bool_]:
    """[n] whether lc0 plays a game from each of `fens`, reached from `starts` by `moves` (UCI, joined by blanks).

    False at the end of a game, at a third repetition, and beyond lc0's limit of game plies.
    """
    begins = [start if line else fen for fen, start, line in zip(fens, starts, moves, strict=True)]
    _, over = boards_after(begins, [encode_moves(line.split()) for line in moves])
    game_plies = np.array([int(fen.split()[5]) for fen in fens], np.int64)
    return ~over & (game_plies < GAME_PLY_LIMIT)


class HeldOut(NamedTuple):
    """What a store holds out: the board `keys` of its positions, their `near_keys`, and material families."""

    keys: Set[int] = frozenset()
    near: Set[str] = frozenset()
    materials: Set[str] = frozenset()

    @staticmethod
    def of(store: Store) -> HeldOut:
        """All of it, whether or not they are candidates."""
        split = split_of(store)
        # SQLite finds the index on parts by the first condition.
        query = f"SELECT fen FROM positions WHERE part <> '{TRAIN}' AND part IN ('{GAMES}', '{FAMILIES}')"
        held_fens = [row[0] for row in store.connection.execute(query)]
        held_keys = keys(parse_fens(held_fens)).tolist()
        return HeldOut({*held_keys}, {*near_keys(held_fens)}, frozenset() if split is None else split.materials)


def with_book_columns(store: Store, rows: pd.DataFrame, options: BookOptions) -> tuple[pd.DataFrame, dict[str, Any]]:
    """`rows` of `view.candidates` with the columns that `choose_rows` needs; the judge of verdicts, for the manifest.

    Adds the columns `root_id`, the candidate that a neighbour was reached from, else the position itself; `verdict` for
    `options.confirmed`, by the judge that took a second look at most of the rows; `labels`, a set of names for each
    row, for `options.labels`. Raises UsageError for an unknown label.
    """
    for label in options.labels:
        kind, colon, word = label.partition(":")
        if label not in NAMES and not (colon and word and kind in KINDS):
            families = ", ".join(f"{kind}:NAME" for kind in KINDS)
            raise UsageError(f"--label {label}: no such label; the labels are {', '.join(NAMES)} and {families}")
    parents = dict(
        store.connection.execute("SELECT id, parent_id FROM positions WHERE origin = 'neighbour'").fetchall()
    )
    columns: dict[str, Any] = {"root_id": [_root_of(number, parents) for number in rows["position_id"].tolist()]}
    confirmed: dict[str, Any] = {}
    if options.confirmed:
        looks = evidence(store, rows)
        columns["verdict"] = looks["verdict"]
        confirmed["confirmed"] = {key: looks.attrs[key] for key in ("second", "alpha")}
    if options.labels:
        columns["labels"] = names(labels_of(store, rows))
    return rows.assign(**columns), confirmed


def _root_of(number: int, parents: Mapping[int, int | None]) -> int:
    while (parent := parents.get(number)) is not None:
        number = parent
    return number


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the store's frame, in book order, and counts of the others.

    ``candidates == len(book without parents) + sum(left_out.values())``; `candidates` counts the rows at the threshold,
    `left_out` those dropped afterwards, by reason. Added columns: `book_weight`, `plies_before` (0 for a candidate) and
    `parent_of` (the candidates that follow a position, empty for none). Values of net and judge are missing for
    parents.
    """

    book: pd.DataFrame
    candidates: int
    scored: int
    left_out: dict[str, int]
    parents: ParentCount


def choose_rows(
    frame: pd.DataFrame,
    options: BookOptions,
    scored: NDArray[np.float64],
    threshold: float = DEFAULT_THRESHOLD,
    held: HeldOut | None = None,
) -> Selection:
    """The rows of a book, from a frame like `view.frame`: it has all candidates, and may have other rows.

    `scored` [n] are the disagreements of all scored positions. The frame has the columns of `with_book_columns`. The
    book has only positions of the part ``train``, and none that is near to one that is `held` out. Raises
    ValueRepairError if no row remains.
    """
    held = held or HeldOut()
    frame, sizes = frame.reset_index(drop=True), np.abs(scored[~np.isnan(scored)])
    size = frame["disagreement"].abs()
    rows = frame[is_candidate(size, threshold)]
    if rows.empty:
        raise ValueRepairError(_no_candidates(sizes, threshold))
    candidates, sieve = len(rows), _BookSieve(rows)
    _apply_filters(sieve, options, held)
    sieve.keep(playable(sieve.rows), OVER)
    sieve.rows = _ordered(sieve.rows)
    _apply_limits(sieve, options)
    if sieve.rows.empty:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sieve.left_out.items())
        raise ValueRepairError(f"all {candidates:,} candidates at {threshold:g} are left out: {reasons}")
    rows = sieve.rows.assign(
        book_weight=weights_of(sieve.rows["disagreement"].to_numpy(), threshold), plies_before=0, parent_of=""
    )
    book, parents = add_parents(rows, options, held)
    return Selection(book, candidates, len(sizes), sieve.left_out, parents)


@dataclass(slots=True)
class _BookSieve:
    """Rows that are filtered step by step; `left_out` counts those dropped, by reason."""

    rows: pd.DataFrame
    left_out: dict[str, int] = field(default_factory=dict)

    def keep(self, mask: pd.Series[bool], reason: str) -> None:
        if dropped := len(self.rows) - int(mask.sum()):
            self.left_out[reason] = dropped
        self.rows = self.rows[mask]


def _apply_filters(sieve: _BookSieve, options: BookOptions, held: HeldOut) -> None:
    """Keeps the rows with the verdict and labels in the options, for training, and not too near to what is held out."""
    if options.confirmed:
        sieve.keep(sieve.rows["verdict"].notna(), "without a second look")
        for verdict in sorted(set(sieve.rows["verdict"]) - {SEARCH_RIGHT}):
            sieve.keep(sieve.rows["verdict"] != verdict, f"second look: {verdict}")
    sieve.keep(sieve.rows["part"] == TRAIN, NOT_FOR_TRAINING)
    near = pd.Series(near_keys(sieve.rows["fen"].tolist()), sieve.rows.index, dtype=object).isin(held.near)
    sieve.keep(~near, NEAR_HELD)
    for label in options.labels:
        has_label = [label in labels for labels in sieve.rows["labels"]]
        sieve.keep(pd.Series(has_label, sieve.rows.index, dtype=bool), f"not {label}")


def _apply_limits(sieve: _BookSieve, options: BookOptions) -> None:
    """Keeps the first row of each group of near-duplicates in a game, the first rows of each root, and of all."""
    near = sieve.rows.assign(near=near_keys(sieve.rows["fen"].tolist())).duplicated(["game_id", "near"])
    sieve.keep(~near, "near-duplicate in the game")
    nth = sieve.rows.groupby("root_id", sort=False).cumcount()
    sieve.keep(nth < MOST_OF_ROOT, f"more than {MOST_OF_ROOT} of one candidate")
    if options.limit is not None:
        sieve.keep(pd.Series(range(len(sieve.rows)), sieve.rows.index) < options.limit, "limit")


def _no_candidates(sizes: NDArray[np.float64], threshold: float) -> str:
    if not len(sizes):
        return "no position is scored by both this net and this judge yet; run vr mine first"
    scored = f"{len(sizes):,} scored positions"
    largest = f"{sizes.max():.4f}"
    advice = "lower --threshold or mine more games"
    return f"no candidate at {threshold:g}: the largest disagreement among {scored} is {largest}; {advice}"


def _ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by largest disagreement, equal ones by a hash of the position; independent of the store's order."""
    hashes = np.array([seeded_hash(0, fen) for fen in rows["fen"].tolist()], np.int64)
    ordered: pd.DataFrame = rows.iloc[np.lexsort((hashes, -rows["disagreement"].abs().to_numpy()))]
    return ordered


NO_HISTORY = "no earlier move is known"
OF_CANDIDATE = "a candidate itself, which has their weight too"
OF_PARENT = "the same as another parent, which has their weight too"
HELD = "held out"
HELD_FAMILY = "of a held-out family"
OVER = "game over, or too long for lc0"

# The columns that a parent takes from its candidate: those of the game, but not values of net and judge.
_OF_GAME = (
    "start_fen", "source", "game", "game_id", "white", "black", "event", "date", "result",
)  # fmt: skip


@dataclass(slots=True)
class ParentCount:
    """``asked == written + sum(left_out.values())``; `asked` is `plies` parents for each candidate in the book."""

    plies: int = 0
    asked: int = 0
    written: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, reason: str, number: int = 1) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + number


def add_parents(book: pd.DataFrame, options: BookOptions, held: HeldOut) -> tuple[pd.DataFrame, ParentCount]:
    """`book` with the parents of each candidate after it, the nearest first; `parent_weight` gives their weights.

    A repeated position is written once with the sum of the weights, as in KataGo's uploader of positions
    (python/upload_poses.py). Parents that are held out, or near-duplicates of held-out positions, do not enter the
    book.
    """
    count = ParentCount(options.parents, options.parents * len(book))
    if not options.parents:
        return book, count
    candidates = book.to_dict("records")
    adder = _ParentAdder(candidates, options, count, held)
    lines = [str(moves).split() for moves in book["moves"]]
    parents = parents_of(book["start_fen"].tolist(), lines, options.parents)
    # Parents get shares of the original weights: a candidate that is another's parent gains weight in this loop.
    for row, weight, nearest in zip(candidates, book["book_weight"].tolist(), parents, strict=True):
        adder.add(row, weight, nearest)
    count.written = len(adder.records) - len(book)
    return pd.DataFrame(adder.records), count


class _ParentAdder:
    """Collects the rows of a book with parents: `records`, in book order."""

    def __init__(
        self,
        candidates: list[dict[Hashable, Any]],
        options: BookOptions,
        count: ParentCount,
        held: HeldOut,
    ) -> None:
        self.records: list[dict[Hashable, Any]] = []
        self._options, self._count, self._held = options, count, held
        candidate_keys = keys(parse_fens([row["fen"] for row in candidates])).tolist()
        self._by_key = dict(zip(candidate_keys, candidates, strict=True))

    def add(self, row: dict[Hashable, Any], weight: float, parents: list[Parent]) -> None:
        """Adds a candidate and its parents, which get their shares of `weight`."""
        self.records.append(row)
        if missing := self._options.parents - len(parents):
            self._count.leave_out(NO_HISTORY, missing)
        for parent in parents:
            self._add_parent(parent, row, parent_weight(weight, parent.plies_before))

    def _add_parent(self, parent: Parent, candidate: dict[Hashable, Any], weight: float) -> None:
        origin = f"{quantity(parent.plies_before, 'ply')} before {game_name(candidate)} ply {candidate['ply']}"
        if (same := self._by_key.get(parent.key)) is not None:
            same["book_weight"] += weight
            same["parent_of"] = ", ".join(filter(None, (same["parent_of"], origin)))
            self._count.leave_out(OF_PARENT if same["plies_before"] else OF_CANDIDATE)
            return
        row = _row(parent, candidate, weight, origin)
        if reason := self._reason_to_leave_out(parent.key, row):
            self._count.leave_out(reason)
            return
        self._by_key[parent.key] = row
        self.records.append(row)

    def _reason_to_leave_out(self, key: int, row: dict[Hashable, Any]) -> str:
        if key in self._held.keys:
            return HELD
        if self._held.materials and material_family(row["fen"]) in self._held.materials:
            return HELD_FAMILY
        if self._held.near and near_keys([row["fen"]])[0] in self._held.near:
            return NEAR_HELD
        return "" if can_continue([row["fen"]], [row["start_fen"]], [row["moves"]])[0] else OVER


def _row(parent: Parent, candidate: dict[Hashable, Any], weight: float, origin: str) -> dict[Hashable, Any]:
    row: dict[Hashable, Any] = {name: candidate[name] for name in _OF_GAME if name in candidate}
    row |= {"fen": parent.fen, "moves": " ".join(parent.moves), "ply": parent.ply, "side": parent.fen.split()[1]}
    row |= {"net_q": float("nan"), "deep_q": float("nan"), "disagreement": float("nan")}
    return row | {"book_weight": weight, "plies_before": parent.plies_before, "parent_of": origin}


@dataclass(frozen=True, slots=True)
class Parent:
    """A position `plies_before` plies before a candidate; `moves` (UCI) lead there from the candidate's `start_fen`.

    `ply` and `key` are as in `Position`. The FEN names an e.p. square only where a capture is legal.
    """

    fen: str
    moves: tuple[str, ...]
    ply: int
    key: int
    plies_before: int


def parent_weight(weight: float, plies_before: int) -> float:
    """A parent's share of its candidate's weight, as in KataGo: half of it one ply before, a quarter two before."""
    return weight * 0.5**plies_before


def parents_of(start_fens: Sequence[str], lines: Sequence[Sequence[str]], plies: int) -> list[list[Parent]]:
    """[n] up to `plies` parents of each candidate, the nearest first; fewer if the known history is shorter.

    Candidate i is reached from `start_fens[i]` by the legal moves `lines[i]` (UCI).
    """
    parents: list[list[Parent]] = [[] for _ in start_fens]
    for before in range(1, plies + 1):
        rows = [i for i, line in enumerate(lines) if len(line) >= before]
        histories = [tuple(lines[i][: len(lines[i]) - before]) for i in rows]
        moves = encode_lines(histories)
        boards = replay(parse_fens([start_fens[i] for i in rows]), *moves)
        for i, history, fen, key in zip(rows, histories, fens(boards), keys(boards).tolist(), strict=True):
            parents[i].append(Parent(fen, history, ply_of(fen), key, before))
    return parents
