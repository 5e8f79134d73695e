"""Rows of the store as a book sees them: whether lc0 plays on from them, their labels, which are held out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import chess
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT, no_game
from valuerepair.books.options import BookOptions
from valuerepair.chess.board import has_legal_move, insufficient_material, keys, parse_fens
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.labelled import labels_of, names
from valuerepair.judge.labels import KINDS, NAMES
from valuerepair.judge.material import near_keys
from valuerepair.judge.openings import plies
from valuerepair.judge.split import PARTS, TRAIN, seeded_hash
from valuerepair.judge.verdict import evidence
from valuerepair.store.queries import eco_headers

if TYPE_CHECKING:
    from valuerepair.store.store import Store


def games_of(rows: pd.DataFrame) -> pd.Series[str]:
    """One text a game: the name of its file (without the folder, which may be spelled many ways) and its number."""
    names = [f"{file_name(source)}\n{game}" for source, game in zip(rows["source"].tolist(), rows["game"], strict=True)]
    return pd.Series(names, rows.index, dtype=object)


@lru_cache(4096)
def file_name(source: object) -> str:
    """A file's name without its folder."""
    return PurePath(str(source)).name


def playable(rows: pd.DataFrame) -> pd.Series[bool]:
    """Where lc0 would play on: not over, no third repetition, not beyond its limit of game plies."""
    fens, starts, moves = (rows[name].tolist() for name in ("fen", "start_fen", "moves"))
    found: pd.Series[bool] = pd.Series(go_on(fens, starts, moves), rows.index, dtype=bool)
    return found


def go_on(fens: list[str], starts: list[str], moves: list[str]) -> list[bool]:
    """`can_go_on` of each line: that a game can be played from its end."""
    return [
        sure or can_go_on(fen, start, line)
        for sure, fen, start, line in zip(_surely_go_on(fens, starts, moves), fens, starts, moves, strict=True)
    ]


def _surely_go_on(fens: list[str], starts: list[str], moves: list[str]) -> list[bool]:
    """`can_go_on` where the compiled rules say so for all at once; what they doubt is looked at one by one."""
    try:
        boards = parse_fens(fens)
        clocks, numbers = (np.array([int(fen.split()[i]) for fen in fens], np.int64) for i in (4, 5))
    except (ValueError, IndexError):
        return [False] * len(fens)
    sure = has_legal_move(boards) & ~insufficient_material(boards) & (clocks < 100) & (numbers < GAME_PLY_LIMIT)
    asked = np.flatnonzero(sure & (clocks >= 8))
    if len(asked):
        lines = [moves[i].split() for i in asked.tolist()]
        sure[asked] = _not_repeated([starts[i] for i in asked.tolist()], lines, keys(boards[asked]))
    return [bool(each) for each in sure]


def _not_repeated(starts: list[str], lines: list[list[str]], last: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """[n] whether each line leads to the position `last` (keys [n]) and no more than for the second time."""
    lengths = np.array([len(line) for line in lines])
    times, there = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.bool_)
    try:
        for ply, (rows, boards) in enumerate(plies(starts, lines)):
            met = keys(boards) == last[rows]
            times[rows] += met
            there[rows] = met & (lengths[rows] == ply)
    except ValueError:
        return np.zeros(len(lines), np.bool_)
    return np.asarray((there & (times < 3)) | (lengths == 0))


def can_go_on(fen: str, start_fen: str, moves: str) -> bool:
    """Whether lc0 plays a game from `fen`, reached from `start_fen` by `moves` (UCI, joined by blanks)."""
    halfmoves, number = (int(x) for x in fen.split()[4:6])
    if number >= GAME_PLY_LIMIT:
        return False
    if halfmoves < 8 or not moves:
        return no_game(chess.Board(fen), number) is None
    board = chess.Board(start_fen)
    for move in moves.split():
        board.push_uci(move)
    return no_game(board, number) is None


def add_knowledge(store: Store, rows: pd.DataFrame, options: BookOptions) -> tuple[pd.DataFrame, dict[str, Any]]:
    """`rows` of `Store.candidates` with what `choose_rows` looks at, and who gave the verdicts, for the manifest.

    Columns are added: `eco_header`; `verdict` for `options.confirmed`, by the oracle that took a second look at most of
    the rows; `labels`, a set of names a row, for `options.labels`; `part`, a name of `judge.split.PARTS`, for
    `options.split`. Raises UsageError for a label that there is not.
    """
    for label in options.labels:
        _check_label(label)
    made: dict[str, Any] = {"eco_header": eco_headers(store, rows["game_id"].tolist())}
    about: dict[str, Any] = {}
    if options.confirmed:
        found = evidence(store, rows)
        made["verdict"] = found["verdict"]
        about["confirmed"] = {key: found.attrs[key] for key in ("second", "alpha")}
    if options.labels:
        made["labels"] = names(labels_of(store, rows))
    if options.split is not None:
        parts = options.split.parts(store, rows["position_id"].to_numpy(np.int64))
        made["part"] = [PARTS[part] for part in parts.tolist()]
    return rows.assign(**made), about


def _check_label(label: str) -> None:
    kind, colon, word = label.partition(":")
    if label not in NAMES and not (colon and word and kind in KINDS):
        many = ", ".join(f"{kind}:NAME" for kind in KINDS)
        raise UsageError(f"--label {label}: no such label; there are {', '.join(NAMES)} and {many}")


SAME_GAME = "in a game of the holdout"
SAME_ROOT = "of a root of the holdout"
NEAR_HELD = "near-duplicate of the holdout"


@dataclass(frozen=True, slots=True)
class Sides:
    """The rows of either side, those left out of the book for being too near to the holdout, and the held families."""

    book: pd.DataFrame
    holdout: pd.DataFrame
    left_out: dict[str, int]
    families: tuple[str, ...] = ()


def split(rows: pd.DataFrame, options: BookOptions) -> Sides:
    """Divides rows that have the columns of `judge.openings.add_families`, and `part` for `options.split`.

    No game, no root that positions were reached from, and with ``--holdout-by`` no family has positions on both sides;
    nor have near-duplicates, unless they are to be kept. Held families are drawn by hash of seed and name, each taken
    if it brings the share of the holdout nearer to the one asked for. Raises ValueRepairError when a side stays empty;
    of a split the holdout may.
    """
    if not options.holdout and options.split is None:
        return Sides(rows, rows.iloc[:0], {})
    families: tuple[str, ...] = ()
    games = games_of(rows)
    if options.split is not None:
        families = (*options.split.openings, *options.split.materials)
        held = rows["part"] != PARTS[TRAIN]
    elif options.holdout_by == "game":
        held = games.map(lambda game: seeded_hash(options.seed, game) < options.holdout * 2**63)
    else:
        names = rows[f"{options.holdout_by}_family"]
        families = _held_families(names, games, options)
        held = names.isin(families)
    book, holdout, left_out = rows[~held], rows[held], dict[str, int]()
    near_ones = {SAME_GAME: games.isin(set(games[held])), NEAR_HELD: _near(rows, held, options)}
    if "root_id" in rows:
        # Mostly of the same game; but a position that was met before it was reached has the game that it was met in.
        near_ones[SAME_ROOT] = rows["root_id"].isin(set(rows["root_id"][held]))
    for reason, near in near_ones.items():
        near = near.loc[book.index]
        if near.any():
            left_out[reason] = int(near.sum())
        book = book[~near]
    if book.empty or (holdout.empty and options.split is None):
        raise ValueRepairError(_one_side(rows, games, book, options))
    return Sides(book, holdout, left_out, families)


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
    if options.split is not None:
        return f"--split leaves the book empty: none of {len(rows):,} candidates is train, or far from the holdout"
    side = "book" if book.empty else "holdout"
    kinds = f"{games.nunique():,} games"
    advice = "choose another fraction or --seed, or mine more games"
    if options.holdout_by != "game":
        kinds = f"{rows[f'{options.holdout_by}_family'].nunique():,} {options.holdout_by} families"
        advice = "choose another fraction or --seed, or --holdout-by game"
    return f"--holdout {options.holdout:g} leaves the {side} empty ({kinds} in all); {advice}"
