"""Which positions are kept apart: whole games, or whole families with all that is near to them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from valuerepair.books.options import BookOptions
from valuerepair.books.rows import games_of, seeded_hash
from valuerepair.candidates.duplicates import near_keys
from valuerepair.errors import ValueRepairError

SAME_GAME = "in a game of the holdout"
NEAR_HELD = "near-duplicate of the holdout"


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of either side, those left out of the book for being too near to the holdout, and the held families."""

    book: pd.DataFrame
    holdout: pd.DataFrame
    left_out: dict[str, int]
    families: tuple[str, ...] = ()


def split(rows: pd.DataFrame, options: BookOptions) -> Split:
    """Divides rows that have the columns of `candidates.families.add_families`.

    No game, and with ``--holdout-by`` no family, has positions on both sides; nor have near-duplicates, unless they are
    to be kept. Held families are drawn by hash of seed and name, each taken if it brings the share of the holdout
    nearer to the one asked for. Raises ValueRepairError when a side stays empty.
    """
    if not options.holdout:
        return Split(rows, rows.iloc[:0], {})
    families: tuple[str, ...] = ()
    games = games_of(rows)
    if options.holdout_by == "game":
        held = games.map(lambda game: seeded_hash(options.seed, game) < options.holdout * 2**63)
    else:
        names = rows[f"{options.holdout_by}_family"]
        families = _held_families(names, games, options)
        held = names.isin(families)
    book, holdout, left_out = rows[~held], rows[held], dict[str, int]()
    for reason, near in ((SAME_GAME, games.isin(set(games[held]))), (NEAR_HELD, _near(rows, held, options))):
        near = near.loc[book.index]
        if near.any():
            left_out[reason] = int(near.sum())
        book = book[~near]
    if book.empty or holdout.empty:
        raise ValueRepairError(_one_side(rows, games, book, options))
    return Split(book, holdout, left_out, families)


def _held_families(names: pd.Series[str], games: pd.Series[str], options: BookOptions) -> tuple[str, ...]:
    """Families in order of their hash, each taken when the share gets nearer to `options.holdout` by it.

    The share is that of the holdout in what is written: rows of other families in a held game are in neither.
    """
    sizes = games.value_counts()
    games_by_family = games.groupby(names, sort=False).unique()
    counts = names.value_counts()
    touched: set[str] = set()
    taken: list[str] = []
    held = touched_rows = 0
    for family in sorted(games_by_family.index, key=lambda name: seeded_hash(options.seed, name)):
        new = set(games_by_family[family]) - touched
        now_held, now_touched = held + int(counts[family]), touched_rows + int(sizes[list(new)].sum())
        # Untouched rows make the book.
        if _off(now_held, len(names) - now_touched, options) < _off(held, len(names) - touched_rows, options):
            held, touched_rows = now_held, now_touched
            touched |= new
            taken.append(str(family))
    return tuple(sorted(taken))


def _off(held: int, book: int, options: BookOptions) -> float:
    return abs(held / (held + book) - options.holdout) if book else 1.0


def _near(rows: pd.DataFrame, held: pd.Series[bool], options: BookOptions) -> pd.Series[bool]:
    if options.near_duplicates == "keep":
        none: pd.Series[bool] = pd.Series(False, rows.index)
        return none
    keys = pd.Series(near_keys(rows["fen"].tolist()), rows.index)
    near: pd.Series[bool] = keys.isin(set(keys[held]))
    return near


def _one_side(rows: pd.DataFrame, games: pd.Series[str], book: pd.DataFrame, options: BookOptions) -> str:
    side = "book" if book.empty else "holdout"
    kinds = f"{games.nunique():,} games"
    advice = "choose another fraction or --seed, or mine more games"
    if options.holdout_by != "game":
        kinds = f"{rows[f'{options.holdout_by}_family'].nunique():,} {options.holdout_by} families"
        advice = "choose another fraction or --seed, or --holdout-by game"
    return f"--holdout {options.holdout:g} leaves the {side} empty ({kinds} in all); {advice}"
