"""Which rows of the store go into a book, in which order, and which are held out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

import chess
import numpy as np
import pandas as pd

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT, no_game
from valuerepair.errors import UsageError, ValueRepairError

Sign = Literal["optimistic", "pessimistic", "both"]
Order = Literal["disagreement", "shuffled"]
Form = Literal["moves", "fen"]
QFrom = Literal["cp", "wdl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookOptions:
    """What to write. Raises UsageError for values that make no sense.

    A candidate has ``threshold <= |net_q - deep_q| <= maximum``. `sign` keeps those where the net is too optimistic
    (net_q > deep_q, both from the side to move), too pessimistic, or both. `limit` counts the held-out positions too.
    `holdout` is the share of games (0 for none) whose positions go to a second book. `net`, `oracle`, `alpha` and
    `q_from` choose what Q means, as in `Store.frame`.
    """

    threshold: float = 0.55
    maximum: float = 2.0
    sign: Sign = "both"
    limit: int | None = None
    order: Order = "disagreement"
    per_game_limit: int | None = None
    max_abs_deep_q: float | None = None
    holdout: float = 0.0
    form: Form = "moves"
    seed: int = 0
    net: str | None = None
    oracle: str | None = None
    alpha: float | None = None
    q_from: QFrom = "cp"

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 2:
            raise UsageError(f"--threshold {self.threshold:g}: must lie in (0, 2], the range of |net Q - deep Q|")
        if not self.threshold <= self.maximum <= 2:
            raise UsageError(f"--max {self.maximum:g}: must lie between --threshold {self.threshold:g} and 2")
        for name, value in (("--limit", self.limit), ("--per-game-limit", self.per_game_limit)):
            if value is not None and value < 1:
                raise UsageError(f"{name} {value}: must be at least 1")
        if self.max_abs_deep_q is not None and not 0 < self.max_abs_deep_q <= 1:
            raise UsageError(f"--max-abs-deep-q {self.max_abs_deep_q:g}: must lie in (0, 1]")
        if not 0 <= self.holdout < 1:
            raise UsageError(f"--holdout {self.holdout:g}: must be a fraction in [0, 1)")


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the store's frame, in book order, and what became of the others.

    ``candidates == len(book) + len(holdout) + sum(left_out.values())``; `candidates` counts the rows within the
    thresholds, `left_out` those then dropped, by reason.
    """

    book: pd.DataFrame
    holdout: pd.DataFrame
    candidates: int
    scored: int
    left_out: dict[str, int]


def choose_rows(frame: pd.DataFrame, options: BookOptions, scored: pd.Series[float]) -> Selection:
    """The book's rows from a frame with `Store.frame`'s columns that holds all candidates, and more if you like.

    `scored` are the disagreements of everything scored. Raises ValueRepairError when no row is left.
    """
    frame, sizes = frame.reset_index(drop=True), scored.dropna().abs()
    size = frame["disagreement"].abs()
    rows = frame[(size >= options.threshold) & (size <= options.maximum)]
    if rows.empty:
        raise ValueRepairError(_nothing_found(sizes, options))
    candidates, left_out = len(rows), dict[str, int]()

    def keep(mask: pd.Series[bool], reason: str) -> None:
        nonlocal rows
        if dropped := len(rows) - int(mask.sum()):
            left_out[reason] = dropped
        rows = rows[mask]

    if options.sign != "both":
        wanted = rows["disagreement"] > 0 if options.sign == "optimistic" else rows["disagreement"] < 0
        keep(wanted, f"not {options.sign}")
    if options.max_abs_deep_q is not None:
        keep(rows["deep_q"].abs() <= options.max_abs_deep_q, f"|deep Q| over {options.max_abs_deep_q:g}")
    keep(_playable(rows), "game over, or too long for lc0")
    rows = _ordered(rows, options)
    if options.per_game_limit is not None:
        nth = rows.groupby(_games(rows), sort=False).cumcount()
        keep(nth < options.per_game_limit, "per-game limit")
    if options.limit is not None:
        keep(pd.Series(range(len(rows)), rows.index) < options.limit, "limit")
    if rows.empty:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in left_out.items())
        raise ValueRepairError(f"all {candidates:,} candidates at {options.threshold:g} are left out: {reasons}")
    book, holdout = _split(rows, options)
    return Selection(book, holdout, candidates, len(sizes), left_out)


def _nothing_found(sizes: pd.Series[float], options: BookOptions) -> str:
    if sizes.empty:
        return "no position is scored by both this net and this oracle yet; run vr mine first"
    scored = f"{len(sizes):,} scored positions"
    if (sizes >= options.threshold).any():
        return f"no candidate between {options.threshold:g} and {options.maximum:g} among {scored}; raise --max"
    largest = f"{sizes.max():.4f}"
    advice = "lower --threshold or mine more games"
    return f"no candidate at {options.threshold:g}: the largest disagreement among {scored} is {largest}; {advice}"


def _playable(rows: pd.DataFrame) -> pd.Series[bool]:
    """Where lc0 would play on: not over, no third repetition, not beyond its limit of game plies."""
    verdicts = [
        _can_go_on(fen, start, moves)
        for fen, start, moves in zip(rows["fen"], rows["start_fen"], rows["moves"], strict=True)
    ]
    playable: pd.Series[bool] = pd.Series(verdicts, rows.index, dtype=bool)
    return playable


def _can_go_on(fen: str, start_fen: str, moves: str) -> bool:
    halfmoves, number = (int(x) for x in fen.split()[4:6])
    if number >= GAME_PLY_LIMIT:
        return False
    if halfmoves < 8 or not isinstance(moves, str) or not moves:
        return no_game(chess.Board(fen), number) is None
    board = chess.Board(start_fen)
    for move in moves.split():
        board.push_uci(move)
    return no_game(board, number) is None


def _ordered(rows: pd.DataFrame, options: BookOptions) -> pd.DataFrame:
    """Largest disagreement first, or by a hash of seed and position: the same whatever the order of the store."""
    tie = rows["fen"].map(lambda fen: _hash(options.seed, fen))
    first = -rows["disagreement"].abs() if options.order == "disagreement" else tie
    ordered: pd.DataFrame = rows.iloc[np.lexsort((tie.to_numpy(), first.to_numpy()))]
    return ordered


def _games(rows: pd.DataFrame) -> pd.Series[str]:
    """One text a game: the name of its file (without the folder, which may be spelled many ways) and its number."""
    names = rows["source"].map(lambda source: PurePath(str(source)).name)
    games: pd.Series[str] = names + "\n" + rows["game"].astype(str)
    return games


def _split(rows: pd.DataFrame, options: BookOptions) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Whole games to either side, so that no position of the book has a neighbour in the holdout."""
    if not options.holdout:
        return rows, rows.iloc[:0]
    games = _games(rows)
    held = games.map(lambda game: _hash(options.seed, game) < options.holdout * 2**63)
    book, holdout = rows[~held], rows[held]
    if book.empty or holdout.empty:
        side = "book" if book.empty else "holdout"
        advice = "choose another fraction or --seed, or mine more games"
        raise ValueRepairError(
            f"--holdout {options.holdout:g} leaves the {side} empty ({games.nunique()} games in all); {advice}"
        )
    return book, holdout


def _hash(seed: int, text: str) -> int:
    """63 bits that depend on seed and text only."""
    digest = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
