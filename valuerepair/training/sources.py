"""Sources of training positions (chunks in folders and tars, stores), and passes over them.

Positions come in batches, in an order that depends only on the seed.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import in_share, ply_priorities, salt, scrambled
from valuerepair.arrays import Flags, Floats
from valuerepair.chess.origins import GAME, NEIGHBOUR
from valuerepair.chess.positions import cuts_of
from valuerepair.chess.rows import Index, Keys
from valuerepair.errors import ValueRepairError
from valuerepair.measure.weights import weights_of
from valuerepair.store.store import Store
from valuerepair.training.chunk_files import (
    BrokenChunk,
    RandomReader,
    check_finite,
    format_name,
    in_order,
    read_index,
    unpack,
)
from valuerepair.training.judged import JudgedPositions
from valuerepair.training.samples import MOST_MOVES, Batch, Samples, indices_within, of_positions, of_records

T = TypeVar("T")

WINDOW = 1 << 16  # positions that are shuffled together
VALIDATION = 8192  # at most this many positions of each source judge a net
_VALUES = ("result_q", "result_d", "best_q", "best_d", "orig_q", "plies_left")  # that training reads from a record
_STORE_ROWS = 512  # positions of a store that are read together
_READY = 4  # batches that wait for a step
_END = object()


class Pass(NamedTuple):
    """The units of one pass over a source: games of chunks, or positions of a store. All are [n].

    `units` are their numbers in the source, `keys` identify them in any source, `counts` are their positions.
    """

    units: Index
    keys: Keys
    counts: Index


@dataclass(frozen=True, slots=True)
class Held:
    """n positions by which a net is judged, from games that do not train it.

    `kind` object[n] is how each was reached (`chess.origins.KINDS`).
    """

    samples: Samples
    kind: NDArray[np.object_]


class TrainingSource(Protocol):
    """Positions to train on. `identity` identifies its content, whatever its name."""

    name: str
    identity: str
    games: int  # all games
    held_games: int

    def units(self) -> Pass:
        """The units of a pass: all that train the net."""
        ...

    def read(self, units: Index) -> Samples:
        """The positions of some units, in an order that depends only on the units."""
        ...

    def held_out(self) -> Held:
        """At most `VALIDATION` positions of the games held out, chosen by hash. Raises ValueRepairError for none."""
        ...


def is_held(games: Keys, share: float) -> Flags:
    """bool[n]: which games are held out, by a hash of their keys; neither other games nor a seed have an effect.

    With a share above 0 and several games, at least one game is held out: the one with the lowest hash.
    """
    hashes = scrambled(games ^ salt("held out of training"))
    held = in_share(hashes, share) if share > 0 else np.zeros(len(games), np.bool_)
    if share > 0 and not held.any() and len(np.unique(games)) > 1:
        held = hashes == hashes.min()
    return held


def _check_any_left(name: str, games: int, held: int) -> None:
    """Raises ValueRepairError if all games of the source `name` are held out."""
    if held >= games:
        raise ValueRepairError(
            f"{name}: all of its {games:,} games are held out, so there is nothing to train on; "
            "give more games, or a smaller share with --set holdout="
        )


# -- chunks -----------------------------------------------------------------------------------------------------------


class ChunkSource:
    """Training chunks in folders and tars; a unit is a chunk.

    The value target is the game's result, mixed with the share `q_ratio` of the search's value.
    """

    def __init__(
        self,
        paths: Sequence[str],
        input_format: int,
        *,
        q_ratio: float = 0.0,
        holdout: float = 0.1,
        held_out: Keys | None = None,
        on_bytes: Callable[[int], None] = lambda n: None,
    ) -> None:
        """Reads and checks every chunk once; leaves out those with a position that has its key in `held_out`.

        The share `holdout` of the games is held out. Raises as `chunk_files.read_index`, and ValueRepairError for
        chunks of another input format than the net's.
        """
        self._index = read_index(paths, on_bytes, held_out)
        self.left_out = self._index.left_out
        self.name = ", ".join(paths)
        if self._index.input_format != input_format:
            raise ValueRepairError(
                f"{self.name}: these chunks have input format {format_name(self._index.input_format)}, the net wants "
                f"{format_name(input_format)}; make chunks of that format: lczero-training's rescorer "
                "(new_input_format) loses each chunk's history"
            )
        self._q_ratio = q_ratio
        self.identity = f"chunks {self._index.sha256}"
        self._held = is_held(self._index.digest, holdout)
        self.games, self.held_games = self._index.games, int(self._held.sum())
        _check_any_left(self.name, self.games, self.held_games)

    @property
    def is_of_games(self) -> bool:
        """Whether most chunks have several records; if not, positions of one game may both train and judge a net."""
        return bool((self._index.records > 1).mean() > 0.5)

    def units(self) -> Pass:
        units = np.flatnonzero(~self._held)
        return Pass(units, self._index.digest[units], self._index.records[units].astype(np.int64))

    def read(self, units: Index) -> Samples:
        parts = self._read(np.sort(units), lambda unit, samples: samples)
        return Samples.concat(list(parts))

    def held_out(self) -> Held:
        units = np.flatnonzero(self._held)
        if not len(units):
            raise ValueRepairError(f"{self.name}: no game is left to be held out; give more games, or --set holdout=0")
        counts = self._index.records[units].astype(np.int64)
        row = indices_within(cuts_of(counts))
        game = np.repeat(self._index.digest[units], counts)
        chosen = np.sort(np.argsort(ply_priorities(scrambled(game), row), kind="stable")[:VALIDATION])
        unit = np.repeat(units, counts)[chosen]
        rows = {int(number): row[chosen[unit == number]] for number in np.unique(unit)}
        parts = self._read(np.array(sorted(rows)), lambda unit, samples: samples.take(rows[unit]))
        return Held(Samples.concat(list(parts)), np.full(len(chosen), GAME, object))

    def _read(self, units: Index, convert: Callable[[int, Samples], Samples]) -> Iterator[Samples]:
        """The output of `convert` for the positions of each unit, in order, on all cores."""
        index = self._index

        def work(packed: tuple[int, bytes]) -> Samples:
            unit, content = packed
            try:
                records = unpack(content)
            except BrokenChunk as reason:
                raise self._changed_error(unit, str(reason)) from None
            if len(records) != index.records[unit]:
                raise self._changed_error(unit, "has other records")
            check_finite(self._path(unit), records, _VALUES)
            samples = of_records(records, self._q_ratio)
            if np.diff(samples.cuts).max(initial=0) > MOST_MOVES:
                raise ValueRepairError(f"{self._path(unit)}: a record has too many moves; illegal ones are not -1")
            if not np.isfinite(samples.wdl).all():
                raise ValueRepairError(f"{self._path(unit)}: a record has no value to learn")
            return convert(unit, samples)

        def chunks(reader: RandomReader) -> Iterator[tuple[int, bytes]]:
            for unit in units.tolist():
                archive, offset, size = (int(column[unit]) for column in (index.archive, index.offset, index.size))
                try:
                    yield unit, reader.read(archive, offset, size)
                except OSError as error:
                    raise self._changed_error(unit, error.strerror or str(error)) from None

        with closing(RandomReader(index.archives)) as reader:
            for _, samples in in_order(work, chunks(reader)):
                yield samples

    def _path(self, unit: int) -> str:
        """The name of a chunk's file in messages, and where in a tar it is."""
        archives, archive = self._index.archives, int(self._index.archive[unit])
        place = f" at byte {int(self._index.offset[unit]):,}" if archives.is_tar(archive) else ""
        return archives.names[archive] + place

    def _changed_error(self, unit: int, reason: str) -> ValueRepairError:
        return ValueRepairError(f"{self._path(unit)}: changed since training began: {reason}")


# -- stores -----------------------------------------------------------------------------------------------------------


class StoreSource:
    """The judged positions of a store; a unit is a position, and each is in every pass.

    The value target is the judge's value. The policy learns the judge's move, or stays as it is
    (`TrainOptions.policy`). Rows of `judged`, int64: `trained` are those to learn from, with `control` without
    candidates; `held` those of the games held out, but no neighbours of candidates.
    """

    def __init__(
        self,
        judged: JudgedPositions,
        input_format: int,
        *,
        holdout: float = 0.1,
        control: bool = False,
        disagreement_weight: float = 0.0,
    ) -> None:
        """Raises ValueRepairError if no position is left to train on."""
        self.judged, self._input_format, self.name = judged, input_format, judged.path
        is_in_held_game = is_held(judged.games, holdout)
        self.games, self.held_games = (len(np.unique(games)) for games in (judged.games, judged.games[is_in_held_game]))
        _check_any_left(self.name, self.games, self.held_games)
        self.trained = np.flatnonzero(~is_in_held_game & ~(control & judged.is_candidate))
        self.held = np.flatnonzero(is_in_held_game & (judged.kind != NEIGHBOUR))
        if not len(self.trained):
            raise ValueRepairError(f"{self.name}: all positions to train on are candidates, which --control leaves out")
        weight = np.ones(len(judged.ids))
        weight[self.trained] = value_weights(
            judged.disagreement[self.trained], judged.question.threshold, disagreement_weight
        )
        self._value_weight = weight
        columns = (judged.ids, judged.keys, judged.best, judged.deep_q, judged.games, self.trained, weight)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).hexdigest()
        self.identity = f"store {digest}"

    def units(self) -> Pass:
        return Pass(self.trained, self.judged.keys[self.trained], np.ones(len(self.trained), np.int64))

    def read(self, units: Index) -> Samples:
        rows = np.sort(units)
        with Store.open(self.name) as store:
            parts = [rows[i : i + _STORE_ROWS] for i in range(0, len(rows), _STORE_ROWS)]
            return Samples.concat([self._read(store, part) for part in parts])

    def held_out(self) -> Held:
        order = np.argsort(scrambled(self.judged.keys[self.held] ^ salt("judged")), kind="stable")
        rows = np.sort(self.held[order[:VALIDATION]])
        if not len(rows):
            raise ValueRepairError(
                f"{self.name}: no sampled position is among the games held out; give one with --set holdout="
            )
        return Held(self.read(rows), self.judged.kind[rows])

    def _read(self, store: Store, rows: Index) -> Samples:
        judged = self.judged
        batch, wdl, best = store.positions(judged.ids[rows]), judged.wdl(rows), judged.best[rows]
        samples = of_positions(batch, judged.deep_q[rows], wdl, self._input_format, best)
        samples.value_weight[:] = self._value_weight[rows]
        return samples


def value_weights(disagreement: Floats, threshold: float, share: float) -> Floats:
    """[n] factors of the value losses, with a mean of 1: the `share` of each follows the position's disagreement.

    That part is in proportion to its soft weight (`measure.weights.weights_of`), the column `disagreement_weight` of an
    export; the rest, all of it with a share of 0, is the same for all positions.
    """
    soft = weights_of(disagreement, threshold)
    return np.asarray(1 - share + share * (soft / soft.mean()))


# -- in batches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrainingStream:
    """The positions of some sources, pass after pass, without end.

    A pass has the units of all sources in an order that depends on the seed; the positions of each window of about
    `window` positions are shuffled. Batch k has positions k * batch to (k + 1) * batch of this order, wherever reading
    begins.
    """

    sources: Sequence[TrainingSource]
    batch: int
    seed: int
    window: int = WINDOW

    @property
    def positions(self) -> int:
        """The positions of one pass."""
        return int(sum(source.units().counts.sum() for source in self.sources))

    def batches(self, first: int = 0) -> Generator[Batch]:
        """Batches from number `first` on, made ahead by other threads. Close the generator after the last batch."""
        with closing(_ahead(self._windows(first * self.batch), 1)) as windows:
            yield from _ahead(self._cut(windows), _READY)

    def _cut(self, windows: Iterable[tuple[Samples, Index]]) -> Iterator[Batch]:
        parts: list[Samples] = []
        missing = self.batch
        for samples, order in windows:
            begin = 0
            while begin < len(order):
                rows = order[begin : begin + missing]
                parts.append(samples.take(rows))
                begin, missing = begin + len(rows), missing - len(rows)
                if not missing:
                    yield Samples.concat(parts).batch()
                    parts, missing = [], self.batch

    def _windows(self, begin: int) -> Iterator[tuple[Samples, Index]]:
        """Windows from position `begin` on, each with its remaining rows in order."""
        number, skip = divmod(begin, self.positions)
        while True:
            for k, units in enumerate(self._units(number)):
                size = int(sum(counts.sum() for _, counts in units))
                if skip >= size:
                    skip -= size
                    continue
                parts = [source.read(rows) for source, (rows, _) in zip(self.sources, units, strict=True) if len(rows)]
                order = np.random.default_rng([self.seed, number, k]).permutation(size)[skip:]
                yield Samples.concat(parts), order
                skip = 0
            number += 1

    def _units(self, number: int) -> Iterator[list[tuple[Index, Index]]]:
        """The windows of pass `number`: for each source, its units in the window and how many positions each has."""
        passes = [source.units() for source in self.sources]
        source = np.repeat(np.arange(len(passes)), [len(source_pass.units) for source_pass in passes])
        units, keys, counts = (np.concatenate(columns) for columns in zip(*passes, strict=True))
        order = np.argsort(scrambled(keys ^ salt(self.seed, "order", number)), kind="stable")
        window = (np.cumsum(counts[order]) - counts[order]) // self.window
        for rows in np.split(order, np.flatnonzero(np.diff(window)) + 1):
            by_source = [rows[source[rows] == i] for i in range(len(passes))]
            yield [(units[part], counts[part]) for part in by_source]


def _ahead(items: Iterable[T], ready: int) -> Generator[T]:
    """The same items, made by another thread, which is at most `ready` items ahead."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, "training data") as pool:
        waiting: deque[Future[Any]] = deque(pool.submit(next, iterator, _END) for _ in range(ready))
        try:
            while (item := waiting.popleft().result()) is not _END:
                waiting.append(pool.submit(next, iterator, _END))
                yield item
        finally:
            for future in waiting:
                future.cancel()
