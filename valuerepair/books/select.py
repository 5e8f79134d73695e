"""Which rows of the store go into a book, in which order, with which weight, and which are held out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from valuerepair.books.ancestors import OVER, ParentCount, add_parents
from valuerepair.books.holdout import split
from valuerepair.books.options import BookOptions
from valuerepair.books.rows import games_of, playable, seeded_hash
from valuerepair.candidates.duplicates import near_keys
from valuerepair.candidates.families import add_families
from valuerepair.candidates.verdict import SEARCH_RIGHT
from valuerepair.candidates.weights import copies_by_weight, weights_of
from valuerepair.errors import ValueRepairError

TOO_LIGHT = "drawn no time by its weight"


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the store's frame, in book order, and what became of the others.

    ``candidates == len(book without parents) + len(holdout) + sum(left_out.values())``; `candidates` counts the rows
    within the thresholds, `left_out` those then dropped, by reason. Columns are added: `book_weight`, `opening_family`,
    `material_family`, `plies_before` (0 for a candidate), `parent_of` (the candidates that a position comes before,
    empty for none) and, to the book, `copies` (how often it is written). A parent has no values of net or oracle.
    `held_families` is empty where the holdout is one of games.
    """

    book: pd.DataFrame
    holdout: pd.DataFrame
    candidates: int
    scored: int
    left_out: dict[str, int]
    parents: ParentCount
    held_families: tuple[str, ...] = ()


def choose_rows(frame: pd.DataFrame, options: BookOptions, scored: pd.Series[float]) -> Selection:
    """The book's rows from a frame with `Store.frame`'s columns that holds all candidates, and more if you like.

    `scored` are the disagreements of everything scored. The frame has columns `verdict` (`candidates.verdict`) for
    `options.confirmed` and `labels` (a set of texts a row) for `options.labels`. Raises ValueRepairError when no row is
    left.
    """
    frame, sizes = frame.reset_index(drop=True), scored.dropna().abs()
    size = frame["disagreement"].abs()
    rows = frame[(size >= options.threshold) & (size <= options.maximum)]
    if rows.empty:
        raise ValueRepairError(_nothing_found(sizes, options))
    candidates, sieve = len(rows), _Sieve(rows)
    _keep_by_kind(sieve, options)
    sieve.keep(playable(sieve.rows), OVER)
    sieve.rows = _ordered(sieve.rows, options)
    _keep_by_number(sieve, options)
    if sieve.rows.empty:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sieve.left_out.items())
        raise ValueRepairError(f"all {candidates:,} candidates at {options.threshold:g} are left out: {reasons}")
    rows = add_families(sieve.rows).assign(
        book_weight=weights_of(sieve.rows["disagreement"].to_numpy(), options.threshold, options.softness),
        plies_before=0,
        parent_of="",
    )
    parts = split(rows, options)
    sieve.left_out.update(parts.left_out)
    book, parents = add_parents(parts.book, parts.holdout, options, parts.families)
    book = _repeated(book, options, sieve.left_out, parents)
    return Selection(book, parts.holdout, candidates, len(sizes), sieve.left_out, parents, parts.families)


@dataclass(slots=True)
class _Sieve:
    rows: pd.DataFrame
    left_out: dict[str, int] = field(default_factory=dict)

    def keep(self, mask: pd.Series[bool], reason: str) -> None:
        if dropped := len(self.rows) - int(mask.sum()):
            self.left_out[reason] = dropped
        self.rows = self.rows[mask]


def _keep_by_kind(sieve: _Sieve, options: BookOptions) -> None:
    """Keeps what sign, value, verdict and labels ask for."""
    if options.sign != "both":
        off = sieve.rows["disagreement"]
        sieve.keep(off > 0 if options.sign == "optimistic" else off < 0, f"not {options.sign}")
    if options.max_abs_deep_q is not None:
        sieve.keep(sieve.rows["deep_q"].abs() <= options.max_abs_deep_q, f"|deep Q| over {options.max_abs_deep_q:g}")
    if options.confirmed:
        sieve.keep(sieve.rows["verdict"].notna(), "without a second look")
        for verdict in sorted(set(sieve.rows["verdict"]) - {SEARCH_RIGHT}):
            sieve.keep(sieve.rows["verdict"] != verdict, f"second look: {verdict}")
    for label in options.labels:
        has = [label in labels for labels in sieve.rows["labels"]]
        sieve.keep(pd.Series(has, sieve.rows.index, dtype=bool), f"not {label}")


def _keep_by_number(sieve: _Sieve, options: BookOptions) -> None:
    """Keeps the first, in order, of near-duplicates, of each game, of all."""
    if options.near_duplicates != "keep":
        keys = pd.Series(near_keys(sieve.rows["fen"].tolist()), sieve.rows.index, dtype=object)
        if options.near_duplicates == "game":
            keys = games_of(sieve.rows) + "\n" + keys
        sieve.keep(~keys.duplicated(), f"near-duplicate in the {options.near_duplicates}")
    if options.per_game_limit is not None:
        nth = sieve.rows.groupby(games_of(sieve.rows), sort=False).cumcount()
        sieve.keep(nth < options.per_game_limit, "per-game limit")
    if options.limit is not None:
        sieve.keep(pd.Series(range(len(sieve.rows)), sieve.rows.index) < options.limit, "limit")


def _repeated(book: pd.DataFrame, options: BookOptions, left_out: dict[str, int], parents: ParentCount) -> pd.DataFrame:
    """`book` with a column `copies`, 1 unless entries are repeated by weight; rows whose weight gives none are gone."""
    copies = np.ones(len(book), np.int64)
    if options.repeat_by_weight is not None:
        start = seeded_hash(options.seed, "repeats") / 2**63
        copies = copies_by_weight(book["book_weight"].to_numpy(), options.repeat_by_weight, start)
    book = book.assign(copies=copies)
    gone, of_parents = book["copies"] == 0, book["plies_before"] > 0
    if lost := int((gone & ~of_parents).sum()):
        left_out[TOO_LIGHT] = lost
    if lost := int((gone & of_parents).sum()):
        parents.leave_out(TOO_LIGHT, lost)
        parents.written -= lost
    written: pd.DataFrame = book[~gone]
    return written


def _nothing_found(sizes: pd.Series[float], options: BookOptions) -> str:
    if sizes.empty:
        return "no position is scored by both this net and this oracle yet; run vr mine first"
    scored = f"{len(sizes):,} scored positions"
    if (sizes >= options.threshold).any():
        return f"no candidate between {options.threshold:g} and {options.maximum:g} among {scored}; raise --max"
    largest = f"{sizes.max():.4f}"
    advice = "lower --threshold or mine more games"
    return f"no candidate at {options.threshold:g}: the largest disagreement among {scored} is {largest}; {advice}"


def _ordered(rows: pd.DataFrame, options: BookOptions) -> pd.DataFrame:
    """Largest disagreement first, or by a hash of seed and position: the same whatever the order of the store."""
    tie = np.array([seeded_hash(options.seed, fen) for fen in rows["fen"].tolist()], np.int64)
    first = -rows["disagreement"].abs().to_numpy() if options.order == "disagreement" else tie
    ordered: pd.DataFrame = rows.iloc[np.lexsort((tie, first))]
    return ordered


__all__ = ["BookOptions", "Selection", "choose_rows"]
