"""The options of a book, checked on creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from valuerepair.errors import UsageError, check_least, check_word

Sign = Literal["optimistic", "pessimistic", "both"]
Order = Literal["disagreement", "shuffled"]
Form = Literal["moves", "fen"]
NearDuplicates = Literal["game", "keep"]

MAX_PARENTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BookOptions:
    """Which candidates a book has, and how it is written. Raises UsageError for values that make no sense.

    `sign` keeps candidates where the net is too optimistic (net_q > deep_q, from the side to move), too pessimistic, or
    both. `confirmed` keeps candidates where a second look confirmed the search, `labels` those with all these labels,
    `max_abs_deep_q` those with at most this |deep Q|. `near_duplicates` (same material and pawns in one game) are all
    kept, or only the first of a game. `per_root` limits the positions reached from one sampled candidate (itself
    included), `per_game_limit` the positions of one game, `limit` the positions in total, held-out ones included but
    without parents; limits keep the first positions in the book's `order`. `parents`: positions up to this many plies
    earlier are written too. `softness`: as in `judge.weights.weights_of`. `repeat_by_weight`: a position of weight 1 is
    written this many times, others in proportion. `form`: an entry has all earlier moves, or only the FEN.
    """

    sign: Sign = "both"
    confirmed: bool = False
    labels: tuple[str, ...] = ()
    limit: int | None = None
    order: Order = "disagreement"
    per_game_limit: int | None = None
    per_root: int | None = None
    near_duplicates: NearDuplicates = "game"
    max_abs_deep_q: float | None = None
    parents: int = 0
    softness: float = 0.1
    repeat_by_weight: int | None = None
    form: Form = "moves"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, word, words in (
            ("sign", self.sign, Sign),
            ("--order", self.order, Order),
            ("near_duplicates", self.near_duplicates, NearDuplicates),
            ("--form", self.form, Form),
        ):
            check_word(name, word, get_args(words))
        for name, value, least in (
            ("--limit", self.limit, 1),
            ("per_game_limit", self.per_game_limit, 1),
            ("--per-root", self.per_root, 1),
            ("--repeat-by-weight", self.repeat_by_weight, 2),
        ):
            check_least(name, value, least)
        if self.max_abs_deep_q is not None and not 0 < self.max_abs_deep_q <= 1:
            raise UsageError(f"max_abs_deep_q {self.max_abs_deep_q:g}: must lie in (0, 1]")
        if not 0 <= self.parents <= MAX_PARENTS:
            raise UsageError(f"--parents {self.parents}: must be a number of plies from 0 to {MAX_PARENTS}")
        if not 0 <= self.softness < float("inf"):
            raise UsageError(f"softness {self.softness:g}: must be a difference of Q, 0 or more")
