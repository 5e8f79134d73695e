"""The positions of a store to learn from: the games held out, and the draw of each pass.

`vr train --store` and `vr export --format chunks` both draw by `StoreDraw`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import in_share, salt, scrambled
from valuerepair.arrays import Flags, Floats
from valuerepair.chess.rows import Index, Keys
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import open_regular
from valuerepair.judge.split import PARTS, TRAIN, Split
from valuerepair.question import Question
from valuerepair.store.reached import search_probabilities
from valuerepair.store.rows import LINE
from valuerepair.store.store import Store
from valuerepair.training.judged import JudgedPositions

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 10_000_000  # of a file of weights, which may be for a larger store


def is_held(games: Keys, share: float) -> Flags:
    """bool[n]: which games are held out, by a hash of their keys; neither other games nor a seed have an effect.

    With a share above 0 and several games, at least one game is held out: the one with the lowest hash.
    """
    hashes = scrambled(games ^ salt("held out of training"))
    held = in_share(hashes, share) if share > 0 else np.zeros(len(games), np.bool_)
    if share > 0 and not held.any() and len(np.unique(games)) > 1:
        held = hashes == hashes.min()
    return held


def check_any_left(name: str, games: int, held: int) -> None:
    """Raises ValueRepairError if all games of the source `name` are held out."""
    if held >= games:
        raise ValueRepairError(
            f"{name}: all of its {games:,} games are held out, so there is nothing to train on; "
            "give more games, or a smaller share with --set holdout="
        )


class StoreDraw(JudgedPositions):
    """Draws positions of a store, pass after pass, by candidates and weights.

    A pass has all candidates of the question, and enough other positions to make the candidates' share `share`; if
    there are too few others, all of these and fewer candidates. Without a share a pass has all positions: `ordinary`
    drawing. Candidates and others are each drawn in proportion to `ordinary`, so that with equal weights a pass has no
    position twice. With `draw`, a .parquet file with a weight for each ``position_id``, positions are drawn by these
    weights, candidates or not, and the size of a pass is such that the heaviest position is drawn in nearly every pass;
    `share` has no effect. `candidates`: at most this many are used, and represent all.

    `inverse` is the weight of a drawn row's value: by it, means over many passes equal those of ordinary drawing,
    whatever the share or the file. It cannot make up for positions that are never drawn: with a share of 0 or 1, or a
    weight of 0. A share `holdout` of the games is never drawn; 0 holds out no game.

    Besides the columns of `JudgedPositions`: `ordinary`, how often a position is in a pass of ordinary drawing (its
    weight, for reached positions the inverse probability of their search), and `inverse`, with a mean of 1 over a pass,
    0 where a row is not drawn. Row numbers int64: `held_out`, `candidates` and `others` to train on. `share` is the
    share of candidates among the drawn rows, `ordinary_share` that of ordinary drawing. `identity` identifies the
    positions and weights of the draw, whatever the file is called.
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
        needs_candidates: bool = True,
    ) -> None:
        """Raises ValueRepairError if there is no scored position, or with `needs_candidates` no candidate."""
        super().__init__(store, question, split=split, part=part)
        self._seed, self._threshold, self._needs_candidates = seed, question.threshold, needs_candidates
        self.ordinary = self.weight.astype(np.float64)
        if len(self.reached):
            self.ordinary[~self.is_sampled] = _represented(store, question, self.reached)
        held = is_held(self.games, holdout)
        self.game_count, self.held_game_count = len(np.unique(self.games)), len(np.unique(self.games[held]))
        check_any_left(self.path, self.game_count, self.held_game_count)
        self.held_out = np.flatnonzero(held & self.is_sampled & (self.weight > 0))
        trainable = ~held & (self.ordinary > 0)
        all_candidates = np.flatnonzero(trainable & self.is_candidate)
        self.candidates = self._at_most(all_candidates, candidates)
        self.others = np.flatnonzero(trainable & ~self.is_candidate)
        masses = [float(self.ordinary[rows].sum()) for rows in (all_candidates, self.others)]
        self.ordinary_share = masses[0] / (sum(masses) or 1.0)
        self._file_weights = None if draw is None else _weights_of(draw, self.ids)
        if draw is None:
            self._strata = self._strata_by_share(share, masses, held)
        else:
            self._strata = self._strata_by_file(draw, trainable)
        drawn = sum(size for _, size, _ in self._strata)
        drawn_candidates = sum(size for rows, size, _ in self._strata if rows is self.candidates)
        self.share = drawn_candidates / drawn if draw is None else self.ordinary_share
        self.inverse = self._inverse()
        self.identity = f"store {self._digest()} {self.fill} share {self.share!r}"

    def _digest(self) -> str:
        columns = (
            *(self.ids, self.keys, self.best, self.deep_q, self.ordinary, self.is_candidate, self.games),
            *(self._file_weights, self.inverse),
        )
        cells = (np.ascontiguousarray(column).tobytes() for column in columns if column is not None)
        return hashlib.sha256(b"".join(cells)).hexdigest()

    # -- the rows of a pass -------------------------------------------------------------------------------------------

    def rows(self) -> Index:
        """All rows that passes draw from."""
        return np.concatenate([rows for rows, _, _ in self._strata])

    def one_pass(self, number: int) -> Index:
        """The rows of pass `number`: always the same; all passes have the same number of rows."""
        return np.concatenate([self._drawn(stratum, number) for stratum in self._strata])

    def _strata_by_share(self, share: float | None, masses: Sequence[float], held: Flags) -> list[_DrawnStratum]:
        """Candidates and others: the number of each in a pass, and the mass that they represent."""
        available = _ordinary_size(self.ordinary[self.candidates]), _ordinary_size(self.ordinary[self.others])
        sizes = available if share is None else _sizes(*available, share)
        if not sum(sizes) or (share is None and self._needs_candidates and not sizes[0]):
            kind = "other position" if share == 0 else "candidate"
            hint = "give --share 0 to train without candidates" if share is None else f"another --share than {share:g}"
            raise ValueRepairError(
                f"{self.path}: no {kind} among the {int((~held).sum()):,} positions to train on; mine more, give "
                f"another --threshold than {self._threshold:g}, or {hint}"
            )
        kinds = zip((self.candidates, self.others), sizes, masses, strict=True)
        return [_DrawnStratum(rows, size, mass) for rows, size, mass in kinds if size]

    def _strata_by_file(self, draw: str, trainable: Flags) -> list[_DrawnStratum]:
        """The positions that the file weighs, and the number of them in a pass."""
        assert self._file_weights is not None
        rows = np.flatnonzero(trainable & (self._file_weights > 0))
        if not len(rows):
            raise ValueRepairError(f"--draw {draw}: has a weight for none of the positions of {self.path} to train on")
        size = int(self._file_weights[rows].sum() / self._file_weights[rows].max())
        return [_DrawnStratum(rows, size, float(self.ordinary[rows].sum()))]

    def _at_most(self, rows: Index, most: int | None) -> Index:
        """At most `most` of the rows; a larger number adds rows to the same ones."""
        order = np.argsort(scrambled(self.keys[rows] ^ salt(self._seed, "candidates")), kind="stable")
        return np.sort(rows[order[:most]])

    def _drawn(self, stratum: _DrawnStratum, number: int) -> Index:
        """The rows of a stratum in pass `number`, each drawn in proportion to its weight: at equal steps of the
        cumulative weight of the rows in random order (W. G. Madow, 1949)."""
        rows, size, _ = stratum
        hashes = scrambled(self.keys[rows] ^ salt(self._seed, "pass", number))
        order = np.argsort(hashes, kind="stable")
        begin = (float(hashes[order[0]] & np.uint64(0xFFFFFFFF)) + 0.5) / 2.0**32
        cumulative = np.cumsum(self._weights_within(rows)[order])
        marks = (np.arange(size) + begin) * (cumulative[-1] / size)
        return np.asarray(rows[order[np.minimum(np.searchsorted(cumulative, marks), len(rows) - 1)]], np.int64)

    def _weights_within(self, rows: Index) -> Floats:
        """The weights by which the rows of a stratum are drawn."""
        return (self.ordinary if self._file_weights is None else self._file_weights)[rows]

    def _inverse(self) -> Floats:
        """[n] how often ordinary drawing draws a row, relative to this draw; the mean over a pass is 1."""
        inverse = np.zeros(len(self.ids))
        size, mass = (sum(numbers) for numbers in list(zip(*self._strata, strict=True))[1:])
        for stratum in self._strata:
            rows = stratum.rows
            expected = stratum.size * self._weights_within(rows) / self._weights_within(rows).sum()
            ordinary = stratum.mass * self.ordinary[rows] / self.ordinary[rows].sum()
            inverse[rows] = ordinary / expected * (size / mass)
        return inverse


def _represented(store: Store, question: Question, reached: pd.DataFrame) -> Floats:
    """[n] the number of positions that each reached position represents: an audited one the inverse of its probability
    (`intervals.audit_weights`, not scaled); any other, and one with an inferred value, only itself.

    A searched position of a line was searched because it was an inferred candidate, so it represents none (0); but only
    itself (1) if all positions of lines count by their inferred values.
    """
    probability = search_probabilities(store, *store.pick(question.net, question.oracle))
    counts = np.array([1 / probability.get(number, 1.0) for number in reached["position_id"].tolist()])
    counts[reached["inferred"].to_numpy(np.bool_)] = 1.0
    on_line = (reached["step"] == LINE).to_numpy()
    counts[on_line] = 1.0 if question.expanded == "all" else 0.0
    return counts


class _DrawnStratum(NamedTuple):
    """Rows that are drawn by weight, their number in a pass, and the number of rows in a pass of ordinary drawing that
    they represent."""

    rows: Index
    size: int
    mass: float


def _ordinary_size(ordinary: Floats) -> int:
    """The number of these positions in a pass of ordinary drawing."""
    return max(1, round(float(ordinary.sum()))) if len(ordinary) else 0


def _sizes(candidates: int, others: int, share: float) -> tuple[int, int]:
    """The largest numbers of candidates and others in a pass that make the candidates' share `share`."""
    if share <= 0 or share >= 1:
        return (0, others) if share <= 0 else (candidates, 0)
    if not candidates:
        return 0, 0
    needed = candidates * (1 - share) / share
    if needed <= others:
        return candidates, round(needed)
    return min(candidates, max(1, round(others * share / (1 - share)))), others


# -- files of weights -------------------------------------------------------------------------------------------------


def _weights_of(path: str, ids: Index) -> Floats:
    """[n] the weights of these positions in a file; 0 for a position that it does not name."""
    import pandas as pd

    (number,), weight = read_weights("--draw", path, ("position_id",), max(_MOST_ROWS, 2 * len(ids)))
    weights = pd.Series(weight, number)
    if not weights.index.is_unique:
        raise ValueRepairError(f"--draw {path}: names a position twice")
    return weights.reindex(ids, fill_value=0.0).to_numpy()


def read_weights(option: str, path: str, keys: tuple[str, ...], most: int) -> tuple[list[Index], Floats]:
    """The columns `keys`, of whole numbers, and ``weight`` of a .parquet file with at most `most` rows.

    Raises UsageError and ValueRepairError, naming the option.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path) as file:
            metadata, columns = pq.read_metadata(file), [*keys, "weight"]
            if metadata.num_rows > most:
                raise ValueRepairError(
                    f"{path}: has {metadata.num_rows:,} rows, more than there can be weights: {most:,}"
                )
            if missing := [name for name in columns if name not in metadata.schema.names]:
                raise ValueRepairError(f"{path}: has no column {missing[0]}")
            table = pq.read_table(file, columns=columns)
        # Older numpy takes a list of one number for a number.
        if not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in table.schema.types):
            raise TypeError
        numbers = [_whole_numbers(table[key].to_numpy()) for key in keys]
        weight = table["weight"].to_numpy().astype(np.float64)
    except FileNotFoundError:
        raise UsageError(f"{option} {path}: no such file") from None
    except ValueRepairError as error:
        raise ValueRepairError(f"{option} {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise ValueRepairError(f"{option} {path}: cannot be read: {one_line(error)}") from None
    except (TypeError, ValueError, OverflowError):
        names = ", ".join(keys)
        raise ValueRepairError(
            f"{option} {path}: the columns {names} and weight must be numbers, {names} whole ones"
        ) from None
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not (np.isfinite(total) and (weight >= 0).all()):
        raise ValueRepairError(f"{option} {path}: weights must be numbers that are not negative, with a finite sum")
    return numbers, weight


def _whole_numbers(column: NDArray[Any]) -> Index:
    """int64[n] from whole numbers of any type; a column with a missing number has floats. Raises ValueError."""
    if column.dtype.kind == "f" and not (column == np.floor(column)).all():  # a missing number is NaN
        raise ValueError
    return np.asarray(column, np.int64)
