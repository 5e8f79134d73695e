"""Chooses the positions of a book from the candidates of a store, their order and their weights."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import chess
import numpy as np
import pandas as pd

from valuerepair.books.check import can_continue
from valuerepair.chess.material import near_keys
from valuerepair.chess.openings import material_family
from valuerepair.errors import UsageError, ValueRepairError, check_least
from valuerepair.measure.labels import KINDS, NAMES, labels_of, names
from valuerepair.measure.weights import weights_of
from valuerepair.mining.again import SEARCH_RIGHT, evidence
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.parts import FAMILIES, GAMES, TRAIN, seeded_hash, split_of
from valuerepair.store.store import Store
from valuerepair.text import quantity

MAX_PARENTS = 8
MOST_OF_GAME = 5
Row = dict[Hashable, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookOptions:
    """Which candidates a book has. Raises UsageError for values that make no sense.

    `confirmed` keeps candidates where a second look confirmed the search, `labels` those with all these labels. `limit`
    keeps the first positions, parents not counted. `parents`: positions up to this many plies earlier are written too.
    """

    confirmed: bool = False
    labels: tuple[str, ...] = ()
    limit: int | None = None
    parents: int = 0

    def __post_init__(self) -> None:
        check_least("--limit", self.limit)
        if not 0 <= self.parents <= MAX_PARENTS:
            raise UsageError(f"--parents {self.parents}: must be a number of plies from 0 to {MAX_PARENTS}")
        for label in self.labels:
            kind, _, word = label.partition(":")
            if label not in NAMES and not (word and kind in KINDS):
                families = ", ".join(f"{kind}:NAME" for kind in KINDS)
                raise UsageError(f"--label {label}: no such label; the labels are {', '.join(NAMES)} and {families}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The `rows` of a book, in its order: those of `view.candidates`, and their parents.

    Each also has `book_weight`, `plies_before` (0 for a candidate) and `parent_of` (the candidates that it is a parent
    of, empty for none). `candidates` counts those at the threshold, `left_out` those of them that are not in the book,
    by reason. `attrs` are those of the frame: net, judge and alpha. `split` says in words what is held out.
    """

    rows: list[Row]
    candidates: int
    left_out: dict[str, int]
    attrs: Mapping[Any, Any]
    split: str | None


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a store holds out: the `near_keys` of its positions, and material families."""

    near: Set[bytes] = frozenset()
    materials: Set[str] = frozenset()

    @staticmethod
    def of(store: Store) -> HeldOut:
        """All of it, whether or not they are candidates."""
        split = split_of(store)
        # SQLite finds the index on parts by the first condition.
        query = f"SELECT fen FROM positions WHERE part <> '{TRAIN}' AND part IN ('{GAMES}', '{FAMILIES}')"
        fens = [row[0] for row in store.connection.execute(query)]
        return HeldOut({*near_keys(fens)}, frozenset() if split is None else split.materials)


def choose(store: Store, question: Question, options: BookOptions) -> Choice:
    """The rows of a book: candidates of any origin and of the part ``train``, the largest disagreement first.

    Raises ValueRepairError if none is left.
    """
    question = replace(question, beside=True)
    with store.snapshot():
        rows = view.candidates(store, question)
        if rows.empty:
            raise ValueRepairError(_no_candidates(store, question))
        columns: dict[str, Any] = {}
        if options.confirmed:
            columns["verdict"] = evidence(store, rows)["verdict"]
        if options.labels:
            columns["labels"] = names(labels_of(store, rows))
        held, split = HeldOut.of(store), split_of(store)
    chosen, left_out = choose_rows(rows.assign(**columns), options, held, question.threshold)
    if chosen.empty:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in left_out.items())
        raise ValueRepairError(f"all {len(rows):,} candidates at {question.threshold:g} are left out: {reasons}")
    book = with_parents(chosen.to_dict("records"), options.parents, held)
    return Choice(book, len(rows), left_out, rows.attrs, None if split is None else str(split))


def _no_candidates(store: Store, question: Question) -> str:
    sizes = view.frame(store, question, only=("disagreement",))["disagreement"].abs()
    scored = f"{len(sizes):,} scored positions is {sizes.max():.4f}"
    advice = "lower --threshold or mine more games"
    return f"no candidate at {question.threshold:g}: the largest disagreement among {scored}; {advice}"


def choose_rows(
    candidates: pd.DataFrame, options: BookOptions, held: HeldOut, threshold: float
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The candidates in a book, in its order, with their weights; and how many others there are, by reason.

    The frame has a column `verdict` if `options.confirmed` is set, and `labels`, a set for each row, for
    `options.labels`.
    """
    rows, left_out = candidates, dict[str, int]()

    def keep(mask: Any, reason: str) -> None:
        nonlocal rows
        kept = np.asarray(mask, np.bool_)
        if not kept.all():
            left_out[reason] = int((~kept).sum())
        rows = rows[kept]

    if options.confirmed:
        keep(rows["verdict"].notna(), "without a second look (vr confirm: candidates in games)")
        for verdict in sorted({*rows["verdict"]} - {SEARCH_RIGHT}):
            keep(rows["verdict"] != verdict, f"second look: {verdict}")
    keep(rows["part"] == TRAIN, "held out from training")
    rows = rows.assign(near=near_keys(rows["fen"].tolist()))
    keep(~rows["near"].isin(held.near), "near-duplicate of a held-out position")
    for label in options.labels:
        keep([label in labels for labels in rows["labels"]], f"not {label}")
    lines = (rows[name].tolist() for name in ("fen", "start_fen", "moves"))
    keep(can_continue(*lines), "game over, or too long for lc0")
    # Equal disagreements by a hash of the position: independent of the store's order.
    hashes = np.array([seeded_hash(0, fen) for fen in rows["fen"].tolist()], np.int64)
    rows = rows.iloc[np.lexsort((hashes, -rows["disagreement"].abs().to_numpy()))]
    keep(~rows.duplicated(["game_id", "near"]), "near-duplicate in the game")
    keep(rows.groupby("game_id").cumcount() < MOST_OF_GAME, f"more than {MOST_OF_GAME} of one game")
    keep(np.arange(len(rows)) < (options.limit or len(rows)), "limit")
    weights = weights_of(rows["disagreement"].to_numpy(), threshold)
    return rows.assign(book_weight=weights, plies_before=0, parent_of=""), left_out


# The columns that a parent takes from its candidate: those of the game, but not values of net and judge.
_OF_GAME = ("start_fen", "source", "game", "game_id", "white", "black", "event", "date")


def with_parents(candidates: list[Row], plies: int, held: HeldOut) -> list[Row]:
    """The candidates, each with the positions up to so many plies before it after it, the nearest first.

    A parent has a half of the candidate's weight one ply before it, a quarter two before; a position that comes
    repeatedly is written once with the sum, as in KataGo's uploader of positions (python/upload_poses.py). Parents that
    are held out, near to what is, or of a finished game are not written.
    """
    if not plies:
        return candidates
    rows = {_position(row["fen"]): row for row in candidates}
    book: list[Row] = []
    # A candidate that is another's parent gains weight in the loop, which its own parents do not share.
    for candidate, weight in [(row, row["book_weight"]) for row in candidates]:
        book.append(candidate)
        board, moves = chess.Board(candidate["start_fen"]), candidate["moves"].split()
        for move in moves:
            board.push_uci(move)
        for before in range(1, min(plies, len(moves)) + 1):
            board.pop()
            origin = f"{quantity(before, 'ply')} before {game_name(candidate)} ply {candidate['ply']}"
            row = rows.get(_position(board.fen()))
            if row is None:
                row = {name: candidate[name] for name in _OF_GAME if name in candidate}
                row |= {"fen": board.fen(), "moves": " ".join(moves[:-before]), "ply": board.ply()}
                row |= {"book_weight": 0.0, "plies_before": before, "parent_of": ""}
                if not _may_be_parent(row, held):
                    continue
                rows[_position(board.fen())] = row
                book.append(row)
            row["book_weight"] += weight * 0.5**before
            row["parent_of"] = ", ".join(filter(None, (row["parent_of"], origin)))
    return book


def _may_be_parent(row: Row, held: HeldOut) -> bool:
    fen = row["fen"]
    if near_keys([fen])[0] in held.near or (held.materials and material_family(fen) in held.materials):
        return False
    return bool(can_continue([fen], [row["start_fen"]], [row["moves"]])[0])


def _position(fen: str) -> str:
    """What makes positions the same: a FEN without its clocks."""
    return fen.rsplit(" ", 2)[0]


@lru_cache(4096)
def file_name(source: object) -> str:
    """A file's name without its folder."""
    return PurePath(str(source)).name


def game_name(row: Mapping[Any, Any]) -> str:
    """A row's file and the number of the game in it; without the folder, because a book may be published."""
    return f"{file_name(row['source'])}#{row['game']}"
