"""Sources of training positions: chunks in folders and tars, and stores; which games are held out, what a pass over a
source is, and its positions in batches, in an order that follows from the seed alone."""

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

from valuerepair.archives.select import in_share, ply_priorities, salt
from valuerepair.archives.select import mix as scrambled
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.split import TRAIN, Split, keys_of_games
from valuerepair.nets.planes import FILLS
from valuerepair.nets.weights import INPUT_FORMAT_NAMES
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.chunk_files import BrokenChunk, RandomReader, in_order, read_index, unpack
from valuerepair.training.samples import MOST_MOVES, Batch, Samples, of_positions, of_records
from valuerepair.training.weights import parse_formula

Index = NDArray[np.int64]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]
T = TypeVar("T")

WINDOW = 1 << 16  # positions that are shuffled together
VALIDATION = 8192  # positions of each source that a net is judged by, at most
_AT_ONCE = 512  # positions of a store that are read together
_READY = 4  # batches that wait for a step
_END = object()


class Pass(NamedTuple):
    """One pass over a source: its units (games of chunks, positions of a store), a key of each, its positions."""

    units: Index
    keys: Keys
    counts: Index


@dataclass(frozen=True, slots=True)
class Held:
    """Positions to judge by, of games that are not trained on; `game` uint64[n] is a key of each one's game."""

    samples: Samples
    game: Keys


class Source(Protocol):
    """Positions to train on. `identity` says what is in it, whatever it is called."""

    name: str
    identity: str
    games: int  # all there are
    held_games: int

    def one_pass(self, number: int) -> Pass:
        """Which units pass `number` goes over; always the same, and as many positions in each."""
        ...

    def units(self) -> Pass:
        """All that passes go over."""
        ...

    def read(self, units: Index) -> Samples:
        """The positions of some units, in an order that depends on these alone."""
        ...

    def held_out(self) -> Held:
        """At most `VALIDATION` positions of the games that are held out, chosen by hash."""
        ...


def is_held(games: Keys, share: float) -> NDArray[np.bool_]:
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


# -- chunks -----------------------------------------------------------------------------------------------------------


class ChunkSource:
    """Training chunks in folders and tars: the value's target is the game's result, mixed with the search's by
    `q_ratio`. `weights` is a formula of `vr weights`, or the .parquet file that its --side wrote for these chunks."""

    def __init__(
        self,
        given: Sequence[str],
        input_format: int,
        *,
        q_ratio: float = 0.0,
        weights: str | None = None,
        holdout: float = 0.1,
        on_bytes: Callable[[int], None] = lambda n: None,
    ) -> None:
        """Reads and checks every chunk once. Raises as `chunk_files.read_index`, and ValueRepairError for chunks of
        another input format than the net's."""
        self._index = read_index(given, on_bytes)
        self.name = ", ".join(given)
        if self._index.input_format != input_format:
            theirs, wanted = (
                INPUT_FORMAT_NAMES.get(form, f"unknown, {form}") for form in (self._index.input_format, input_format)
            )
            raise ValueRepairError(
                f"{self.name}: these chunks have input format {theirs}, the net wants {wanted}; "
                "lczero-training's rescorer converts (new_input_format)"
            )
        self._q_ratio = q_ratio
        self._starts = np.concatenate([[0], np.cumsum(self._index.records, dtype=np.int64)])
        self._formula, self._weights = None, None
        if weights is not None and weights.endswith(".parquet"):
            self._weights = _side_weights(weights, self._index.records)
        elif weights is not None:
            self._formula = parse_formula(weights)
        digest = "" if self._weights is None else hashlib.sha256(self._weights.tobytes()).hexdigest()
        self.identity = f"chunks {self._index.sha256} {digest}"
        self._held = is_held(self._index.digest, holdout)
        self.games, self.held_games = self._index.games, int(self._held.sum())
        check_any_left(self.name, self.games, self.held_games)

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
            raise ValueRepairError(f"{self.name}: no game is left to be held out; give more games, or --holdout 0")
        counts = self._index.records[units].astype(np.int64)
        row = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        game = np.repeat(self._index.digest[units], counts)
        chosen = np.sort(np.argsort(ply_priorities(scrambled(game), row), kind="stable")[:VALIDATION])
        unit = np.repeat(units, counts)[chosen]
        rows = {int(each): row[chosen[unit == each]] for each in np.unique(unit)}
        parts = self._read(np.array(sorted(rows)), lambda unit, samples: samples.take(rows[unit]))
        return Held(Samples.concat(list(parts)), game[chosen])

    def _read(self, units: Index, of: Callable[[int, Samples], Samples]) -> Iterator[Samples]:
        """What `of` makes of the positions of each unit, in order, on all cores."""
        index, reader = self._index, RandomReader(self._index.archives)

        def work(packed: tuple[int, bytes]) -> Samples:
            unit, content = packed
            try:
                records = unpack(content)
            except BrokenChunk as reason:
                raise self._changed(unit, str(reason)) from None
            if len(records) != index.records[unit]:
                raise self._changed(unit, "has other records")
            weight = None if self._formula is None else self._formula.weigh(records)
            if self._weights is not None:
                weight = self._weights[self._starts[unit] : self._starts[unit + 1]].astype(np.float64)
            samples = of_records(records, self._q_ratio, weight, int(index.digest[unit]))
            if np.diff(samples.cuts).max(initial=0) > MOST_MOVES:
                raise ValueRepairError(f"{self._path(unit)}: a record has too many moves; illegal ones are not -1")
            if not np.isfinite(samples.wdl).all():
                raise ValueRepairError(f"{self._path(unit)}: a record has no value to learn")
            return of(unit, samples)

        def chunks() -> Iterator[tuple[int, bytes]]:
            for unit in units.tolist():
                archive, offset, size = (int(column[unit]) for column in (index.archive, index.offset, index.size))
                try:
                    yield unit, reader.read(archive, offset, size)
                except OSError as error:
                    raise self._changed(unit, error.strerror or str(error)) from None

        try:
            for _, samples in in_order(work, chunks()):
                yield samples
        finally:
            reader.close()

    def _path(self, unit: int) -> str:
        return self._index.archives.names[int(self._index.archive[unit])]

    def _changed(self, unit: int, reason: str) -> ValueRepairError:
        return ValueRepairError(f"{self._path(unit)}: changed since training began: {reason}")


def _side_weights(path: str, records: NDArray[np.int32]) -> NDArray[np.float32]:
    """The weights that `vr weights --side` wrote, a row a record in reading order, of chunks with so many records."""
    number, weight = _read_weights("--weights", path, "record")
    starts = np.concatenate([[0], np.cumsum(records, dtype=np.int64)])
    expected = np.arange(starts[-1]) - np.repeat(starts[:-1], records)
    if not np.array_equal(number, expected):
        raise ValueRepairError(
            f"--weights {path}: is not of these chunks: it has {len(number):,} positions, they have {starts[-1]:,}"
            if len(number) != len(expected)
            else f"--weights {path}: is not of these chunks: its games have other lengths"
        )
    return weight.astype(np.float32)


def _read_weights(option: str, path: str, of: str) -> tuple[Index, Floats]:
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


# -- stores -----------------------------------------------------------------------------------------------------------


class StoreSource:
    """Positions of a store: what the oracle says of them is the value's target, and the policy is to stay as it is.

    A pass has all candidates of the question, and as many other positions as make the candidates' share `share`, drawn
    anew by their weights; or all others and fewer candidates, where there are not enough. Without a share it is theirs
    among the sampled positions to train on, by weight: no larger one was shown to repair more (docs/proof.md). The
    others, and those that the net is judged by, are positions that were sampled, by their weights, whatever else the
    question takes in. With a `split` all are of its part ``train``, of whose games those of `holdout` are taken too.

    With `draw`, a .parquet file with a weight for each ``position_id``, a pass has positions that are drawn by these
    weights, candidates or not, as many as let the heaviest be drawn in nearly every pass; `share` plays no part.
    """

    def __init__(
        self,
        path: str,
        question: Question,
        input_format: int,
        *,
        share: float | None,
        holdout: float,
        seed: int,
        candidates: int | None = None,
        draw: str | None = None,
        split: Split | None = None,
    ) -> None:
        """With so many candidates at most, None: all.

        Raises ValueRepairError where nothing is scored, and where there is no candidate to train on.
        """
        self.name, self._path, self._seed = path, path, seed
        self._input_format = input_format
        extra = () if question.expanded == "no" else ("step",)
        with Store.open(path) as store:
            names = ("position_id", "key", "game_id", "net_d", "deep_q", "disagreement", "weight", *extra)
            frame = store.frame(question, text=False, only=names)
            usable = frame[frame["deep_q"].notna() & frame["disagreement"].notna()]
            if usable.empty:
                raise ValueRepairError(f"{path}: none of its {len(frame):,} scored positions has a deep Q to learn")
            if split is not None:
                usable = usable[split.parts(store, usable["position_id"].to_numpy(np.int64)) == TRAIN]
                if usable.empty:
                    raise ValueRepairError(f"{path}: none of its scored positions is in the split's part to train on")
            fill = frame.attrs["net"]["history_fill"]
            game = keys_of_games(store, usable["game_id"].to_numpy(np.int64))
        self._fill = next(known for known in FILLS if known == fill)
        ids, self._keys, self._draws, self._deep_q, self._weight = (
            usable[name].to_numpy() for name in ("position_id", "key", "net_d", "deep_q", "weight")
        )
        self._ids, self._game = ids.astype(np.int64), game
        self._off = usable["disagreement"].abs().to_numpy() >= question.threshold
        self._sampled = usable["step"].isna().to_numpy() if extra else np.ones(len(ids), np.bool_)
        held = is_held(game, holdout)
        self.games, self.held_games = len(np.unique(game)), len(np.unique(game[held]))
        check_any_left(path, self.games, self.held_games)
        self._held = np.flatnonzero(held & self._sampled & (self._weight > 0))
        self._candidates = self._fewer(np.flatnonzero(~held & self._off), candidates)
        # Of what vr expand reached only candidates: with or without them the other positions are the same.
        self._others = np.flatnonzero(~held & ~self._off & self._sampled & (self._weight > 0))
        self.share = self._share_of_sampled(held) if share is None else share
        sizes = _sizes(len(self._candidates), len(self._others), self.share)
        self._strata = list(zip((self._candidates, self._others), sizes, strict=True))
        self._given = None if draw is None else _weights_of(draw, self._ids)
        if self._given is not None:
            rows = np.flatnonzero(~held & (self._sampled | self._off) & (self._given > 0))
            if not len(rows):
                raise ValueRepairError(f"--draw {draw}: has a weight for none of the positions of {path} to train on")
            self._strata = [(rows, int(self._given[rows].sum() / self._given[rows].max()))]
        elif not sum(sizes) or (share is None and not self.share):
            lacking = "other position" if share == 0 else "candidate"
            how = "--share 0 trains without" if share is None else f"--share {share:g}"
            raise ValueRepairError(
                f"{path}: no {lacking} among the {int((~held).sum()):,} positions to train on; "
                f"the threshold is {question.threshold:g}, {how}"
            )
        columns = (self._ids, self._keys, self._deep_q, self._weight, self._off, self._game, self._given)
        found = (np.ascontiguousarray(column).tobytes() for column in columns if column is not None)
        digest = hashlib.sha256(b"".join(found))
        self.identity = f"store {digest.hexdigest()} {fill} share {self.share!r}"

    @property
    def candidates(self) -> int:
        """To train on."""
        return len(self._candidates)

    def _share_of_sampled(self, held: NDArray[np.bool_]) -> float:
        """The share of candidates among the sampled positions to train on, by their weights."""
        weight = np.where(~held & self._sampled, self._weight, 0.0)
        return float(weight[self._off].sum() / (weight.sum() or 1.0))

    def _fewer(self, rows: Index, most: int | None) -> Index:
        """At most so many of the rows; with a larger number, these and more."""
        order = np.argsort(scrambled(self._keys[rows] ^ salt(self._seed, "candidates")), kind="stable")
        return np.sort(rows[order[:most]])

    def units(self) -> Pass:
        return self._pass(np.concatenate([rows for rows, _ in self._strata]))

    def one_pass(self, number: int) -> Pass:
        draw = self._drawn if self._given is None else self._drawn_exactly
        return self._pass(np.concatenate([draw(rows, size, number) for rows, size in self._strata]))

    def _pass(self, rows: Index) -> Pass:
        return Pass(rows, self._keys[rows], np.ones(len(rows), np.int64))

    def _drawn(self, rows: Index, size: int, number: int) -> Index:
        """`size` of the rows, the heavier the likelier: those of the lowest -log(u) / weight (Efraimidis, Spirakis)."""
        if size == len(rows):
            return rows
        u = (scrambled(self._keys[rows] ^ salt(self._seed, "pass", number)) + 0.5) / 2.0**64
        weight = self._weight[rows]
        with np.errstate(divide="ignore"):
            late = np.where(weight > 0, -np.log(u) / weight, np.inf)
        return np.asarray(rows[np.argsort(late, kind="stable")[:size]], np.int64)

    def _drawn_exactly(self, rows: Index, size: int, number: int) -> Index:
        """`size` of the rows, each with a chance in proportion to its weight, of which no one may exceed the mean of
        sum / size: every so much of the weight's sum, the rows in random order (W. G. Madow, 1949)."""
        assert self._given is not None
        hashes = scrambled(self._keys[rows] ^ salt(self._seed, "pass", number))
        order = np.argsort(hashes, kind="stable")
        begin = (float(hashes[order[0]] & np.uint64(0xFFFFFFFF)) + 0.5) / 2.0**32
        reached = np.cumsum(self._given[rows[order]])
        marks = (np.arange(size) + begin) * (reached[-1] / size)
        return np.asarray(rows[order[np.searchsorted(reached, marks)]], np.int64)

    def read(self, units: Index) -> Samples:
        rows = np.sort(units)
        with Store.open(self._path) as store:
            cuts = [rows[i : i + _AT_ONCE] for i in range(0, len(rows), _AT_ONCE)]
            return Samples.concat([self._read(store, cut) for cut in cuts])

    def held_out(self) -> Held:
        order = np.argsort(scrambled(self._keys[self._held] ^ salt("judged")), kind="stable")
        rows = np.sort(self._held[order[:VALIDATION]])
        if not len(rows):
            raise ValueRepairError(f"{self.name}: no sampled position is among the games held out; give a --holdout")
        samples = self.read(rows)
        samples.weight[:] = self._weight[rows]
        return Held(samples, self._game[rows])

    def _read(self, store: Store, rows: Index) -> Samples:
        batch = store.positions(self._ids[rows])
        return of_positions(batch, self._deep_q[rows], self._draws[rows], self._fill, self._input_format)


def _weights_of(path: str, ids: Index) -> Floats:
    """[n] the weights that a file has of these positions; 0 of one that it does not name."""
    number, weight = _read_weights("--draw", path, "position_id")
    order = np.argsort(number, kind="stable")
    number, weight = number[order], weight[order]
    if (number[1:] == number[:-1]).any():
        raise ValueRepairError(f"--draw {path}: names a position twice")
    at = np.minimum(np.searchsorted(number, ids), max(len(number) - 1, 0))
    found: Floats = np.where(number[at] == ids, weight[at], 0.0) if len(number) else np.zeros(len(ids))
    return found


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


# -- in batches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stream:
    """The positions of some sources, pass after pass, without end.

    A pass has the units of all sources in an order that follows from the seed; `WINDOW` positions at a time are
    shuffled whole. Batch k has positions k * batch to (k + 1) * batch of that, wherever one begins to read.
    """

    sources: Sequence[Source]
    batch: int
    seed: int
    window: int = WINDOW

    @property
    def positions(self) -> int:
        """Of one pass."""
        return int(sum(source.one_pass(0).counts.sum() for source in self.sources))

    def batches(self, first: int = 0) -> Generator[Batch]:
        """Batches from number `first` on, made ahead by other threads. Close it when enough were taken."""
        with closing(_ahead(self._windows(first * self.batch), 1)) as windows:
            yield from _ahead(self._cut(windows), _READY)

    def _cut(self, windows: Iterable[tuple[Samples, Index]]) -> Iterator[Batch]:
        parts: list[Samples] = []
        missing = self.batch
        for samples, order in windows:
            at = 0
            while at < len(order):
                rows = order[at : at + missing]
                parts.append(samples.take(rows))
                at, missing = at + len(rows), missing - len(rows)
                if not missing:
                    yield Samples.concat(parts).batch()
                    parts, missing = [], self.batch

    def _windows(self, begin: int) -> Iterator[tuple[Samples, Index]]:
        """Windows from position `begin` on, each with the order of its rows that are still to come."""
        total = self.positions
        number, skip = divmod(begin, total)
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
        """The units of each source, with their positions, window by window of pass `number`."""
        passes = [source.one_pass(number) for source in self.sources]
        source = np.repeat(np.arange(len(passes)), [len(one.units) for one in passes])
        units, keys, counts = (np.concatenate(columns) for columns in zip(*passes, strict=True))
        order = np.argsort(scrambled(keys ^ salt(self.seed, "order", number)), kind="stable")
        window = (np.cumsum(counts[order]) - counts[order]) // self.window
        for rows in np.split(order, np.flatnonzero(np.diff(window)) + 1):
            mine = [rows[source[rows] == i] for i in range(len(passes))]
            yield [(units[each], counts[each]) for each in mine]


def _ahead(items: Iterable[T], ready: int) -> Generator[T]:
    """The same, made by a thread of its own, at most `ready` of them ahead."""
    made = iter(items)
    with ThreadPoolExecutor(1, "training data") as pool:
        waiting: deque[Future[Any]] = deque(pool.submit(next, made, _END) for _ in range(ready))
        try:
            while (item := waiting.popleft().result()) is not _END:
                waiting.append(pool.submit(next, made, _END))
                yield item
        finally:
            for future in waiting:
                future.cancel()
