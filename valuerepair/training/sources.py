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

from valuerepair.archives.select import ply_priorities, salt, scrambled
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import cuts_of
from valuerepair.chess.rows import Index, Keys
from valuerepair.errors import ValueRepairError
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
from valuerepair.training.drawing import StoreDraw, check_any_left, is_held, read_weights
from valuerepair.training.samples import MOST_MOVES, Batch, Samples, indices_within, of_positions, of_records
from valuerepair.training.weights import parse_formula

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

    `game` uint64[n] is the key of each position's game, `kind` object[n] how it was reached (`chess.origins.KINDS`).
    """

    samples: Samples
    game: Keys
    kind: NDArray[np.object_]


class TrainingSource(Protocol):
    """Positions to train on. `identity` identifies its content, whatever its name."""

    name: str
    identity: str
    games: int  # all games
    held_games: int

    def one_pass(self, number: int) -> Pass:
        """The units of pass `number`, the same at each call; all passes have as many positions."""
        ...

    def units(self) -> Pass:
        """Every unit that a pass may have."""
        ...

    def read(self, units: Index) -> Samples:
        """The positions of some units, in an order that depends only on the units."""
        ...

    def held_out(self) -> Held:
        """At most `VALIDATION` positions of the games held out, chosen by hash. Raises ValueRepairError for none."""
        ...


# -- chunks -----------------------------------------------------------------------------------------------------------


class ChunkSource:
    """Training chunks in folders and tars; a unit is a chunk.

    The value target is the game's result, mixed with the share `q_ratio` of the search's value. `weights` is a formula
    of `vr weights`, or the .parquet file that its --side wrote for these chunks.
    """

    def __init__(
        self,
        paths: Sequence[str],
        input_format: int,
        *,
        q_ratio: float = 0.0,
        weights: str | None = None,
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
        self._starts = cuts_of(self._index.records.astype(np.int64))
        self._formula, self._weights = None, None
        if weights is not None and weights.endswith(".parquet"):
            self._weights = _side_weights(weights, self._index.digest, self._starts)
        elif weights is not None:
            self._formula = parse_formula(weights)
        digest = "" if self._weights is None else hashlib.sha256(self._weights.tobytes()).hexdigest()
        self.identity = f"chunks {self._index.sha256} {digest}"
        self._held = is_held(self._index.digest, holdout)
        self.games, self.held_games = self._index.games, int(self._held.sum())
        check_any_left(self.name, self.games, self.held_games)

    @property
    def is_of_games(self) -> bool:
        """Whether most chunks have several records; if not, positions of one game may both train and judge a net."""
        return bool((self._index.records > 1).mean() > 0.5)

    def units(self) -> Pass:
        units = np.flatnonzero(~self._held)
        return Pass(units, self._index.digest[units], self._index.records[units].astype(np.int64))

    def one_pass(self, number: int) -> Pass:
        return self.units()

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
        return Held(Samples.concat(list(parts)), game[chosen], np.full(len(chosen), GAME, object))

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
            weight = None if self._formula is None else self._formula.weigh(records)
            if self._weights is not None:
                weight = self._weights[self._starts[unit] : self._starts[unit + 1]].astype(np.float64)
            samples = of_records(records, self._q_ratio, weight, int(index.digest[unit]))
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


_FEW_ROWS = 10_000_000  # a file of weights may have this many, however few positions the chunks have


def _side_weights(path: str, digests: NDArray[np.uint64], starts: Index) -> NDArray[np.float32]:
    """The weights that `vr weights --side` wrote for n chunks: float32[starts[n]], in the order of `digests`.

    `digests` [n] identify the chunks, `starts` [n + 1] says where the records of each begin, and their end. The file
    may have other chunks, too. Raises ValueRepairError if it lacks one of these.
    """
    most = max(_FEW_ROWS, 4 * int(starts[-1]))
    (digest, record), weight = read_weights("--set weights", path, ("digest", "record"), most)
    begins = np.flatnonzero(record == 0)
    lengths = np.diff(begins, append=len(record))
    if not np.array_equal(record, indices_within(cuts_of(lengths))):
        raise ValueRepairError(f"--set weights={path}: its records are not in the order of vr weights --side")
    order = np.argsort(digest[begins], kind="stable")
    wanted, counts = digests.astype(np.int64), np.diff(starts)
    chunk_rows = order[np.minimum(np.searchsorted(digest[begins], wanted, sorter=order), len(order) - 1)]
    missing = (digest[begins][chunk_rows] != wanted) | (lengths[chunk_rows] != counts)
    if missing.any():
        raise ValueRepairError(
            f"--set weights={path}: does not belong to these chunks: it has no weights of {missing.sum():,} of "
            f"{len(wanted):,}"
        )
    rows = np.repeat(begins[chunk_rows], counts) + indices_within(starts)
    return np.asarray(weight[rows], np.float32)


# -- stores -----------------------------------------------------------------------------------------------------------


class StoreSource:
    """Positions of a store that `draw` draws; a unit is a position.

    The value target is the oracle's value. The policy learns the oracle's move, or stays as it is
    (`TrainOptions.policy`).
    """

    def __init__(self, draw: StoreDraw, input_format: int) -> None:
        self.draw, self._input_format = draw, input_format
        self.name, self.identity = draw.path, draw.identity
        self.games, self.held_games = draw.game_count, draw.held_game_count

    def units(self) -> Pass:
        return self._pass(self.draw.rows())

    def one_pass(self, number: int) -> Pass:
        return self._pass(self.draw.one_pass(number))

    def _pass(self, rows: Index) -> Pass:
        return Pass(rows, self.draw.keys[rows], np.ones(len(rows), np.int64))

    def read(self, units: Index) -> Samples:
        rows = np.sort(units)
        with Store.open(self.name) as store:
            parts = [rows[i : i + _STORE_ROWS] for i in range(0, len(rows), _STORE_ROWS)]
            return Samples.concat([self._read(store, part) for part in parts])

    def held_out(self) -> Held:
        held = self.draw.held_out
        order = np.argsort(scrambled(self.draw.keys[held] ^ salt("judged")), kind="stable")
        rows = np.sort(held[order[:VALIDATION]])
        if not len(rows):
            raise ValueRepairError(
                f"{self.name}: no sampled position is among the games held out; give one with --set holdout="
            )
        samples = self.read(rows)
        samples.weight[:], samples.value_weight[:] = self.draw.weight[rows], 1
        return Held(samples, self.draw.games[rows], self.draw.kind[rows])

    def _read(self, store: Store, rows: Index) -> Samples:
        draw = self.draw
        batch = store.positions(draw.ids[rows])
        samples = of_positions(batch, draw.deep_q[rows], draw.wdl(rows), draw.fill, self._input_format, draw.best[rows])
        samples.value_weight[:] = draw.inverse[rows]
        return samples


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
        return int(sum(source.one_pass(0).counts.sum() for source in self.sources))

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
        passes = [source.one_pass(number) for source in self.sources]
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
