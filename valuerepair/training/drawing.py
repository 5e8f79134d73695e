"""Which positions of a store are learned from: the games held out, what each pass draws, and what the judge says of it.

`vr train --store` and `vr export --format chunks` both draw by `StoreDraw`.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import in_share, salt
from valuerepair.archives.select import mix as scrambled
from valuerepair.chess.positions import encode_moves
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.split import PARTS, TRAIN, Split, keys_of_games, warning_of_held_out
from valuerepair.nets.planes import FILLS, HistoryFill
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.samples import wdl_of

log = logging.getLogger(__name__)

Index = NDArray[np.int64]
Keys = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Draws = Literal["net", "judge"]


def is_held(games: Keys, share: float) -> Flags:
    """bool[n]: the games of these keys that are held out, by hash: other games play no part, nor does a seed.

    Where the share is not 0 and there are several games, at least one is: that of the lowest hash.
    """
    hashes = scrambled(games ^ salt("held out of training"))
    held = in_share(hashes, share) if share > 0 else np.zeros(len(games), np.bool_)
    if share > 0 and not held.any() and len(np.unique(games)) > 1:
        held = hashes == hashes.min()
    return held


def check_any_left(name: str, games: int, held: int) -> None:
    """Raises ValueRepairError where all games are held out."""
    if held >= games:
        raise ValueRepairError(
            f"{name}: all of its {games:,} games are held out, so that there is nothing to train on; "
            "give more games, or a smaller --holdout"
        )


class StoreDraw:
    """Draws positions of a store, pass after pass, by candidates and weights; and says what the judge thinks of them.

    A pass has all candidates of the question, and as many other positions as make the candidates' share `share`, drawn
    anew by their weights; or all others and fewer candidates, where there are not enough. Without a share it is theirs
    among the sampled positions to train on, by weight: no larger one was shown to repair more (docs/proof.md). The
    others, and those that are `held_out`, are positions that were sampled, by their weights, whatever else the question
    takes in. With a `split` all are of its `part`, of whose games those of `holdout` are taken too; 0 holds none out.

    What a ladder cut is among them, by the value of its last rung, and is no candidate (docs/methods.md, "Training").
    With it the positions are all that were sampled, so that each has weight 1 and audited ones stand for no others.

    With `draw`, a .parquet file with a weight for each ``position_id``, a pass has positions that are drawn by these
    weights, candidates or not, as many as let the heaviest be drawn in nearly every pass; `share` plays no part.

    Attributes: columns [n] of the positions with a deep Q, by position_id, which all rows are numbers in: `ids` int64,
    `keys` uint64 of the positions, `best` uint16 the judge's moves as in `chess.positions` (0: it gave none), `games`
    uint64 of their games, `net_d` the net's draws (NaN: it has none), `deep_q` in [-1, 1] from the side to move, `rung`
    the nodes of the last rung (NaN: searched in full), `weight` as `queries.frame` has it, or 1, `is_candidate` bool.
    Rows int64: `held_out`, `candidates` and `others` to train on. `fill` is the net's history fill. `identity` says
    what passes are drawn from, whatever the file is called.
    """

    def __init__(
        self,
        store: Store,
        question: Question,
        *,
        share: float | None = None,
        candidates: int | None = None,
        draw: str | None = None,
        holdout: float = 0.0,
        seed: int = 0,
        split: Split | None = None,
        part: str = PARTS[TRAIN],
    ) -> None:
        """With so many candidates at most, None: all.

        Raises ValueRepairError where nothing is scored, and where there is no candidate to train on.
        """
        self.path, self._seed, self._threshold = store.path, seed, question.threshold
        self._read(store, question, split, part)
        held = is_held(self.games, holdout)
        self.game_count, self.held_game_count = len(np.unique(self.games)), len(np.unique(self.games[held]))
        check_any_left(self.path, self.game_count, self.held_game_count)
        counted = self._sampled & (self.weight > 0)
        self.held_out = np.flatnonzero(held & counted)
        self.candidates = self._fewer(np.flatnonzero(~held & self.is_candidate), candidates)
        # Of what vr expand reached only candidates: with or without them the other positions are the same.
        self.others = np.flatnonzero(~held & ~self.is_candidate & counted)
        self.share = self._share_of_sampled(held) if share is None else share
        self._given = None if draw is None else _weights_of(draw, self.ids)
        if draw is None:
            self._strata = self._by_share(share, held)
        else:
            self._strata = self._by_given(draw, held)
        self.identity = f"store {self._digest()} {self.fill} share {self.share!r}"

    def _read(self, store: Store, question: Question, split: Split | None, part: str) -> None:
        """Reads the columns of the positions of the part. Raises ValueRepairError where there are none."""
        extra = () if question.expanded == "no" else ("step",)
        judged = ("deep_w", "deep_d", "deep_l")
        import pandas as pd

        names = (
            "position_id",
            "key",
            "game_id",
            "net_d",
            "deep_q",
            "disagreement",
            "weight",
            "rung",
            "deep_best",
            *judged,
            *extra,
        )
        frame = store.frame(question, only=names, cut=True)
        usable = frame[frame["deep_q"].notna() & frame["disagreement"].notna()]
        if usable.empty:
            raise ValueRepairError(f"{self.path}: none of its {len(frame):,} scored positions has a deep Q to learn")
        ids = usable["position_id"].to_numpy(np.int64)
        if split is None and (warning := warning_of_held_out(store, ids)) is not None:
            log.info(warning)
        if split is not None:
            usable = usable[split.among(store, ids, part)]
            if usable.empty:
                words = "part to train on" if part == PARTS[TRAIN] else f"part {part}"
                raise ValueRepairError(f"{self.path}: none of its scored positions is in the split's {words}")
        # Of a net whose values were recorded nobody knows it.
        said = frame.attrs["net"]["history_fill"]
        self.fill: HistoryFill = next((known for known in FILLS if known == said), "fen_only")
        self.ids = usable["position_id"].to_numpy().astype(np.int64)
        self.games = keys_of_games(store, usable["game_id"].to_numpy(np.int64))
        self.keys, self.net_d, self.deep_q, self.rung, weight = (
            usable[name].to_numpy() for name in ("key", "net_d", "deep_q", "rung", "weight")
        )
        is_cut = ~np.isnan(self.rung)
        self.weight = np.ones(len(usable)) if is_cut.any() else weight
        self.is_candidate = ~is_cut & (usable["disagreement"].abs().to_numpy() >= question.threshold)
        self._judged = usable[list(judged)].to_numpy(np.float64)
        codes, moves = pd.factorize(usable["deep_best"])
        # A missing move's code is -1, which is the 0 at the end.
        self.best = np.append(encode_moves(moves), np.uint16(0))[codes]
        self._sampled = usable["step"].isna().to_numpy() if extra else np.ones(len(usable), np.bool_)

    def _digest(self) -> str:
        columns = (self.ids, self.keys, self.best, self.deep_q, self.weight, self.is_candidate, self.games, self._given)
        cells = (np.ascontiguousarray(column).tobytes() for column in columns if column is not None)
        return hashlib.sha256(b"".join(cells)).hexdigest()

    # -- what a pass has ----------------------------------------------------------------------------------------------

    def rows(self) -> Index:
        """All rows that passes draw from."""
        return np.concatenate([rows for rows, _ in self._strata])

    def one_pass(self, number: int) -> Index:
        """The rows of pass `number`: always the same, and as many in each."""
        draw = self._drawn if self._given is None else self._drawn_exactly
        return np.concatenate([draw(rows, size, number) for rows, size in self._strata])

    def _by_share(self, share: float | None, held: Flags) -> list[tuple[Index, int]]:
        """Candidates and others, and how many of each a pass has."""
        sizes = _sizes(len(self.candidates), len(self.others), self.share)
        if not sum(sizes) or (share is None and not self.share):
            lacking = "other position" if share == 0 else "candidate"
            how = "--share 0 trains without" if share is None else f"--share {share:g}"
            raise ValueRepairError(
                f"{self.path}: no {lacking} among the {int((~held).sum()):,} positions to train on; "
                f"the threshold is {self._threshold:g}, {how}"
            )
        return list(zip((self.candidates, self.others), sizes, strict=True))

    def _by_given(self, draw: str, held: Flags) -> list[tuple[Index, int]]:
        """The positions that the file weighs, and how many of them a pass has."""
        assert self._given is not None
        rows = np.flatnonzero(~held & (self._sampled | self.is_candidate) & (self._given > 0))
        if not len(rows):
            raise ValueRepairError(f"--draw {draw}: has a weight for none of the positions of {self.path} to train on")
        return [(rows, int(self._given[rows].sum() / self._given[rows].max()))]

    def _share_of_sampled(self, held: Flags) -> float:
        """The share of candidates among the sampled positions to train on, by their weights."""
        weight = np.where(~held & self._sampled, self.weight, 0.0)
        return float(weight[self.is_candidate].sum() / (weight.sum() or 1.0))

    def _fewer(self, rows: Index, most: int | None) -> Index:
        """At most so many of the rows; with a larger number, these and more."""
        order = np.argsort(scrambled(self.keys[rows] ^ salt(self._seed, "candidates")), kind="stable")
        return np.sort(rows[order[:most]])

    def _drawn(self, rows: Index, size: int, number: int) -> Index:
        """`size` of the rows, the heavier the likelier: those of the lowest -log(u) / weight (Efraimidis, Spirakis)."""
        if size == len(rows):
            return rows
        u = (scrambled(self.keys[rows] ^ salt(self._seed, "pass", number)) + 0.5) / 2.0**64
        weight = self.weight[rows]
        with np.errstate(divide="ignore"):
            late = np.where(weight > 0, -np.log(u) / weight, np.inf)
        return np.asarray(rows[np.argsort(late, kind="stable")[:size]], np.int64)

    def _drawn_exactly(self, rows: Index, size: int, number: int) -> Index:
        """`size` of the rows, each with a chance in proportion to its weight, of which no one may exceed the mean of
        sum / size: every so much of the weight's sum, the rows in random order (W. G. Madow, 1949)."""
        assert self._given is not None
        hashes = scrambled(self.keys[rows] ^ salt(self._seed, "pass", number))
        order = np.argsort(hashes, kind="stable")
        begin = (float(hashes[order[0]] & np.uint64(0xFFFFFFFF)) + 0.5) / 2.0**32
        reached = np.cumsum(self._given[rows[order]])
        marks = (np.arange(size) + begin) * (reached[-1] / size)
        return np.asarray(rows[order[np.searchsorted(reached, marks)]], np.int64)

    # -- what the judge says of it ------------------------------------------------------------------------------------

    def wdl(self, rows: Index, draws: Draws = "net") -> NDArray[np.float32]:
        """float32[n, 3] win, draw and loss of these rows, from the side to move: what the value head learns.

        With the draws of the ``net``: `deep_q`, and the net's own draws as far as Q leaves room for them; there are
        none beside a mate, and none of a net without W/D/L. With those of the ``judge``: the W/D/L that the engine gave
        itself, whose Q does not depend on alpha; a row without one is as with the net's.
        """
        by_net = wdl_of(self.deep_q[rows], np.nan_to_num(self.net_d[rows]))
        if draws == "net":
            return by_net
        judged = self._judged[rows]
        total = judged.sum(1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > 0, judged / total, by_net).astype(np.float32)


def _sizes(candidates: int, others: int, share: float) -> tuple[int, int]:
    """How many of each a pass has, so that the candidates' share is `share`; the most that there is room for."""
    if share <= 0 or share >= 1:
        return (0, others) if share <= 0 else (candidates, 0)
    if not candidates:
        return 0, 0
    wanted = round(candidates * (1 - share) / share)
    if wanted <= others:
        return candidates, wanted
    return min(candidates, max(1, round(others * share / (1 - share)))), others


# -- files of weights -------------------------------------------------------------------------------------------------


def _weights_of(path: str, ids: Index) -> Floats:
    """[n] the weights that a file has of these positions; 0 of one that it does not name."""
    number, weight = read_weights("--draw", path, "position_id")
    order = np.argsort(number, kind="stable")
    number, weight = number[order], weight[order]
    if (number[1:] == number[:-1]).any():
        raise ValueRepairError(f"--draw {path}: names a position twice")
    if not len(number):
        return np.zeros(len(ids))
    at = np.minimum(np.searchsorted(number, ids), len(number) - 1)
    return np.where(number[at] == ids, weight[at], 0.0)


def read_weights(option: str, path: str, of: str) -> tuple[Index, Floats]:
    """The columns `of` and ``weight`` of a .parquet file. Raises UsageError and ValueRepairError, naming the option."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=[of, "weight"])
    except FileNotFoundError:
        raise UsageError(f"{option} {path}: no such file") from None
    except (OSError, KeyError, pa.ArrowException) as error:
        raise ValueRepairError(f"{option} {path}: cannot be read: {str(error).splitlines()[0]}") from None
    try:
        number, weight = table[of].to_numpy().astype(np.int64), table["weight"].to_numpy().astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueRepairError(f"{option} {path}: the columns {of} and weight must be numbers") from None
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueRepairError(f"{option} {path}: weights must be numbers that are not negative")
    return number, weight
