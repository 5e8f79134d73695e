"""Which positions of a store are learned from: the games held out, and what each pass draws.

`vr train --store` and `vr export --format chunks` both draw by `StoreDraw`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import in_share, salt, scrambled
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import open_regular
from valuerepair.judge.split import PARTS, TRAIN, Split
from valuerepair.question import Question
from valuerepair.runs.neighbourhood import LINE
from valuerepair.store.reached import search_probabilities
from valuerepair.store.store import Store
from valuerepair.training.judged import JudgedPositions

if TYPE_CHECKING:
    import pandas as pd

Index = NDArray[np.int64]
Keys = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
_OTHERS_TOO = 10_000_000  # rows of a file of weights, which may be of a larger store, too


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
            "give more games, or a smaller share with --set holdout="
        )


class StoreDraw(JudgedPositions):
    """Draws positions of a store, pass after pass, by candidates and weights.

    A pass has all candidates of the question, and as many other positions as make the candidates' share `share`; or all
    others and fewer candidates, where there are not enough. Without a share a pass has them all: `ordinary` drawing.
    Each kind is drawn in proportion to `ordinary`, so that with equal weights no position comes twice in a pass. With
    `draw`, a .parquet file with a weight for each ``position_id``, positions are drawn by these weights, candidates or
    not, as many as let the heaviest be drawn in nearly every pass; `share` plays no part. `candidates`: at most this
    many, which stand for all.

    `inverse` is what a drawn row's value counts: by it means over many passes are those of ordinary drawing, whatever
    the share or the file. What is never drawn cannot be made up for: a share of 0 or 1, and a weight of 0. Of the games
    of the positions those of `holdout` are never drawn; 0 holds none out.

    Beside the columns of `JudgedPositions`: `ordinary`, how often a position comes in a pass of ordinary drawing (its
    weight, of reached ones the inverse probability of their search), and `inverse`, means of 1 over a pass, 0 where a
    row is not drawn. Row numbers int64: `held_out`, `candidates` and `others` to train on. `share` is that of
    candidates among what is drawn, `ordinary_share` that of ordinary drawing. `identity` says what passes are drawn
    from, whatever the file is called.
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
        """Raises ValueRepairError where nothing is scored, and where there is no candidate to train on."""
        self._seed, self._threshold = seed, question.threshold
        self._read(store, question, split, part)
        held = is_held(self.games, holdout)
        self.game_count, self.held_game_count = len(np.unique(self.games)), len(np.unique(self.games[held]))
        check_any_left(self.path, self.game_count, self.held_game_count)
        self.held_out = np.flatnonzero(held & self.is_sampled & (self.weight > 0))
        learned = ~held & (self.ordinary > 0)
        all_candidates = np.flatnonzero(learned & self.is_candidate)
        self.candidates = self._fewer(all_candidates, candidates)
        self.others = np.flatnonzero(learned & ~self.is_candidate)
        masses = [float(self.ordinary[rows].sum()) for rows in (all_candidates, self.others)]
        self.ordinary_share = masses[0] / (sum(masses) or 1.0)
        self._given = None if draw is None else _weights_of(draw, self.ids)
        if draw is None:
            self._strata = self._by_share(share, masses, held)
        else:
            self._strata = self._by_given(draw, learned)
        drawn = sum(size for _, size, _ in self._strata)
        of_candidates = [size for rows, size, _ in self._strata if rows is self.candidates]
        self.share = sum(of_candidates) / drawn if draw is None else self.ordinary_share
        self.inverse = self._inverse()
        self.identity = f"store {self._digest()} {self.fill} share {self.share!r}"

    def _read(self, store: Store, question: Question, split: Split | None, part: str) -> None:
        """The columns, and how often each position comes in ordinary drawing."""
        super().__init__(store, question, split=split, part=part)
        self.ordinary = self.weight.astype(np.float64)
        if len(self.reached):
            self.ordinary[~self.is_sampled] = _standing(store, question, self.reached)

    def _digest(self) -> str:
        columns = (
            *(self.ids, self.keys, self.best, self.deep_q, self.ordinary, self.is_candidate, self.games),
            *(self._given, self.inverse),
        )
        cells = (np.ascontiguousarray(column).tobytes() for column in columns if column is not None)
        return hashlib.sha256(b"".join(cells)).hexdigest()

    # -- what a pass has ----------------------------------------------------------------------------------------------

    def rows(self) -> Index:
        """All rows that passes draw from."""
        return np.concatenate([rows for rows, _, _ in self._strata])

    def one_pass(self, number: int) -> Index:
        """The rows of pass `number`: always the same, and as many in each."""
        return np.concatenate([self._drawn(stratum, number) for stratum in self._strata])

    def _by_share(self, share: float | None, masses: Sequence[float], held: Flags) -> list[_Stratum]:
        """Candidates and others: how many of each a pass has, and what they stand for."""
        there = _whole(self.ordinary[self.candidates]), _whole(self.ordinary[self.others])
        sizes = there if share is None else _sizes(*there, share)
        if not sum(sizes) or (share is None and not sizes[0]):
            lacking = "other position" if share == 0 else "candidate"
            how = "--share 0 trains without" if share is None else f"--share {share:g}"
            raise ValueRepairError(
                f"{self.path}: no {lacking} among the {int((~held).sum()):,} positions to train on; "
                f"the threshold is {self._threshold:g}, {how}"
            )
        kinds = zip((self.candidates, self.others), sizes, masses, strict=True)
        return [_Stratum(rows, size, mass) for rows, size, mass in kinds if size]

    def _by_given(self, draw: str, learned: Flags) -> list[_Stratum]:
        """The positions that the file weighs, and how many of them a pass has."""
        assert self._given is not None
        rows = np.flatnonzero(learned & (self._given > 0))
        if not len(rows):
            raise ValueRepairError(f"--draw {draw}: has a weight for none of the positions of {self.path} to train on")
        size = int(self._given[rows].sum() / self._given[rows].max())
        return [_Stratum(rows, size, float(self.ordinary[rows].sum()))]

    def _fewer(self, rows: Index, most: int | None) -> Index:
        """At most so many of the rows; with a larger number, these and more."""
        order = np.argsort(scrambled(self.keys[rows] ^ salt(self._seed, "candidates")), kind="stable")
        return np.sort(rows[order[:most]])

    def _drawn(self, stratum: _Stratum, number: int) -> Index:
        """Its rows in pass `number`, each expected as often as its weight says: every so much of the weights' sum, the
        rows in random order (W. G. Madow, 1949)."""
        rows, size, _ = stratum
        hashes = scrambled(self.keys[rows] ^ salt(self._seed, "pass", number))
        order = np.argsort(hashes, kind="stable")
        begin = (float(hashes[order[0]] & np.uint64(0xFFFFFFFF)) + 0.5) / 2.0**32
        reached = np.cumsum(self._weights_within(rows)[order])
        marks = (np.arange(size) + begin) * (reached[-1] / size)
        return np.asarray(rows[order[np.minimum(np.searchsorted(reached, marks), len(rows) - 1)]], np.int64)

    def _weights_within(self, rows: Index) -> Floats:
        """By what the rows of a stratum are drawn."""
        return (self.ordinary if self._given is None else self._given)[rows]

    def _inverse(self) -> Floats:
        """[n] how often a row comes by ordinary drawing, for each time that it is drawn; 1 in the mean of a pass."""
        found = np.zeros(len(self.ids))
        size, mass = (sum(numbers) for numbers in list(zip(*self._strata, strict=True))[1:])
        for stratum in self._strata:
            rows = stratum.rows
            expected = stratum.size * self._weights_within(rows) / self._weights_within(rows).sum()
            meant = stratum.mass * self.ordinary[rows] / self.ordinary[rows].sum()
            found[rows] = meant / expected * (size / mass)
        return found


def _standing(store: Store, question: Question, reached: pd.DataFrame) -> Floats:
    """[n] how many positions each one that was reached stands for: an audited one by the inverse of its probability
    (`intervals.audit_weights`, not scaled), others and those whose value is inferred for themselves.

    0 of a line's position that was searched, unless all of a line are there by what was inferred: it was drawn for a
    search because it was inferred to be a candidate, and it stands for none of the others.
    """
    probability = search_probabilities(store, *store.pick(question.net, question.oracle))
    found = np.array([1 / probability.get(number, 1.0) for number in reached["position_id"].tolist()])
    found[reached["inferred"].to_numpy(np.bool_)] = 1.0
    on_line = (reached["step"] == LINE).to_numpy()
    found[on_line] = 1.0 if question.expanded == "all" else 0.0
    return found


class _Stratum(NamedTuple):
    """Rows that are drawn by weight, how many of them a pass has, and what they stand for in ordinary drawing."""

    rows: Index
    size: int
    mass: float


def _whole(ordinary: Floats) -> int:
    """How many positions a pass of ordinary drawing has of these."""
    return max(1, round(float(ordinary.sum()))) if len(ordinary) else 0


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
    number, weight = read_weights("--draw", path, "position_id", max(_OTHERS_TOO, 2 * len(ids)))
    order = np.argsort(number, kind="stable")
    number, weight = number[order], weight[order]
    if (number[1:] == number[:-1]).any():
        raise ValueRepairError(f"--draw {path}: names a position twice")
    if not len(number):
        return np.zeros(len(ids))
    at = np.minimum(np.searchsorted(number, ids), len(number) - 1)
    return np.where(number[at] == ids, weight[at], 0.0)


def read_weights(option: str, path: str, of: str, most: int) -> tuple[Index, Floats]:
    """The columns `of` and ``weight`` of a .parquet file with at most so many rows.

    Raises UsageError and ValueRepairError, naming the option.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path) as file:
            if (rows := pq.read_metadata(file).num_rows) > most:
                raise ValueRepairError(f"{path}: has {rows:,} rows, more than there can be weights: {most:,}")
            table = pq.read_table(file, columns=[of, "weight"])
        number, weight = table[of].to_numpy().astype(np.int64), table["weight"].to_numpy().astype(np.float64)
    except FileNotFoundError:
        raise UsageError(f"{option} {path}: no such file") from None
    except ValueRepairError as error:
        raise ValueRepairError(f"{option} {error}") from None
    except (OSError, KeyError, pa.ArrowException) as error:
        raise ValueRepairError(f"{option} {path}: cannot be read: {one_line(error)}") from None
    except (TypeError, ValueError, OverflowError):
        raise ValueRepairError(f"{option} {path}: the columns {of} and weight must be numbers") from None
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueRepairError(f"{option} {path}: weights must be numbers that are not negative")
    return number, weight
