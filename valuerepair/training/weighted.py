"""Weights of all positions in training chunks: measured, written to a file, or used to draw from the chunks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from valuerepair import outputs
from valuerepair.archives.select import ply_priorities, salt, scrambled
from valuerepair.arrays import Floats
from valuerepair.calibration import Calibration, TooFewPositions, fit, fold_of
from valuerepair.chess.progress import Progress
from valuerepair.chess.v6 import Records
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import whole_folder, written_whole
from valuerepair.question import Calibrated
from valuerepair.text import positions_of_games
from valuerepair.training.chunk_files import (
    Archives,
    ChunkFile,
    LeftOut,
    check_finite,
    digest_of,
    find_archives,
    in_order,
    name_of,
    pack,
    put_files,
    read_archives,
    refuse_equal_names,
    unpack_or_reason,
)
from valuerepair.training.chunk_output import MANIFEST
from valuerepair.training.weights import (
    SMALLEST,
    Formula,
    WeightTally,
    disagreement,
    formula_text,
    phases_of,
    tally_lines,
)
from valuerepair.version import __version__

_BLOCK_GAMES = 256
_SCHEMA = pa.schema([("chunk", pa.string()), ("digest", pa.uint64()), ("record", pa.int32()), ("weight", pa.float32())])


@dataclass(slots=True)
class Measured:
    """The weights of the chunks in `inputs`: figures, files left out, and the SHA-256 that identifies the chunks."""

    formula: Formula
    inputs: tuple[str, ...]
    calibration: Calibration | None = None
    tally: WeightTally = field(default_factory=WeightTally)
    left_out: LeftOut = field(default_factory=LeftOut)
    sha256: str = ""

    def as_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "formula": {"name": self.formula.name, **asdict(self.formula)},
            "chunks": {"given": list(self.inputs), "sha256": self.sha256, "left_out": self.left_out.reasons},
            "calibration": self.calibration and self.calibration.figures(),
            **self.tally.figures(),
        }


@dataclass(frozen=True, slots=True)
class WeighedChunks:
    """The weights of chunks, and the `folder` and `manifest` of records drawn by them; None if none were drawn."""

    measured: Measured
    folder: str | None = None
    manifest: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON-able: the manifest of the drawn records, or the figures alone."""
        return self.measured.as_json() if self.manifest is None else dict(self.manifest)

    @property
    def broken_off(self) -> Sequence[tuple[str, str]]:
        """The tars that break off, each with where."""
        return self.measured.left_out.broken_off

    def lines(self) -> list[str]:
        """The result as text for a terminal."""
        measured, figures = self.measured, self.as_json()
        curve = [] if measured.calibration is None else [measured.calibration.words()]
        kept = measured.tally.kept(figures.get("factor", 1.0))
        lines = [formula_text(measured.formula), *curve, *tally_lines(figures, kept)]
        lines += measured.left_out.lines()
        if self.manifest is not None:
            drawn = self.manifest["kept"]
            lines.append(f"{self.folder}: {positions_of_games(drawn['positions'], drawn['games'])}")
        return lines


def measure(
    inputs: Sequence[str],
    formula: Formula,
    side_file: str | Path | None = None,
    *,
    calibration: Calibrated = "none",
    quiet: bool = False,
) -> Measured:
    """Weighs every position of some folders or tars; with `side_file` also writes the weights to a Parquet file.

    With a fitted `calibration` the net's Q is replaced by the expected best_q given orig_q, by a curve that is fitted
    to other chunks (`valuerepair.calibration`); this reads the chunks a second time.

    The file has one row per record, in reading order: chunk (as named in its folder; ``tar: member``), digest (of the
    chunk), record (from 0), weight. It appears complete or not at all. Raises UsageError if two inputs have a file of
    the same name, ValueRepairError without usable chunks, or with too few for a curve.
    """
    archives = find_archives(inputs)
    if side_file is not None:
        refuse_equal_names(archives)
    curve = _curve(archives, quiet) if calibration == "fitted" else None
    measured, sha = Measured(formula, tuple(inputs), curve), hashlib.sha256()
    with _side_file(side_file, formula) as add_to_side:
        for chunk, content in _weighed(archives, measured, measured.left_out, quiet):
            measured.tally.add(content.weights, content.gap, content.phases)
            sha.update(content.sha256)
            add_to_side(name_of(archives, chunk), content)
        if not measured.tally.games:
            raise measured.left_out.none_usable(inputs)
    measured.sha256 = sha.hexdigest()
    return measured


def write_sampled(
    measured: Measured, out: str | Path, *, keep: float | None = None, seed: int = 0, quiet: bool = False
) -> dict[str, Any]:
    """Draws records by weight into a new folder of chunks and returns its manifest.

    A record is kept with the chance ``min(1, factor * weight)``; `factor` is 1, or chosen so that the expected share of
    kept records is `keep`. Records stay in order and unchanged; chunks without kept records are not written. Loose
    chunks and tars keep their names. The choice of records depends on the seed and the chunk's content. Raises as
    `mix`, and ValueRepairError if no record is kept.
    """
    factor = 1.0
    if keep is not None:
        fitted = measured.tally.factor(keep)
        if fitted is None:
            most = measured.tally.kept(1 / SMALLEST)
            raise ValueRepairError(
                f"--keep {keep:g}: only {most:.4f} of the positions weigh anything; keep that or less"
            )
        factor = fitted
    archives = find_archives(measured.inputs)
    refuse_equal_names(archives)
    drawn = _Drawn(factor, salt(seed, "weights"))
    with whole_folder(out) as partial:
        weighed = _weighed(archives, measured, LeftOut(), quiet)
        kept = ((chunk, content.records[drawn.rows(content)]) for chunk, content in weighed)
        put_files(archives, ((chunk, pack(records)) for chunk, records in kept if len(records)), partial)
        if not drawn.kept["positions"]:
            raise ValueRepairError(
                f"{out}: none of {measured.tally.positions:,} positions is kept, because their mean weight is "
                f"{measured.tally.mean:.2g}; give other parameters, or --keep"
            )
        manifest = {
            "version": f"valuerepair {__version__}",
            "seed": seed,
            "factor": factor,
            "keep_asked": keep,
            **measured.as_json(),
            "kept": drawn.kept,
        }
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return manifest


@dataclass(frozen=True, slots=True)
class _WeighedChunk:
    """A chunk, unpacked and weighed."""

    records: Records
    weights: Floats
    gap: Floats
    phases: NDArray[np.int64]
    digest: int
    sha256: bytes


def _curve(archives: Archives, quiet: bool) -> Calibration:
    """The expected best_q given orig_q, of all records; a chunk is a game."""

    def q_of(chunk: ChunkFile) -> Floats | None:
        records = _records(archives, chunk)
        if isinstance(records, str):
            return None  # `_weighed` reports it
        return np.stack([records["orig_q"], records["best_q"]]).astype(np.float64)

    with Progress("Calibrating", archives.total_bytes(), "bytes", quiet=quiet) as progress:
        parts, games = [np.empty((2, 0))], [np.empty(0, np.int64)]
        for chunk, values in in_order(q_of, read_archives(archives, LeftOut().break_off)):
            progress.advance(len(chunk.content))
            if values is not None:
                parts.append(values)
                games.append(np.repeat(_game(chunk), values.shape[1]))
    net_q, deep_q = np.concatenate(parts, axis=1)
    try:
        return fit(net_q, deep_q, np.ones(len(net_q)), np.concatenate(games))
    except TooFewPositions:
        raise ValueRepairError(
            "--calibration: too few records have the net's own Q for a curve; give more chunks, or no --calibration"
        ) from None


def _records(archives: Archives, chunk: ChunkFile) -> Records | str:
    """The records of a chunk, or why it cannot be used. Raises ValueRepairError for an infinite Q."""
    records = unpack_or_reason(chunk.content)
    if not isinstance(records, str):
        check_finite(name_of(archives, chunk), records, ("orig_q", "best_q"))
    return records


def _game(chunk: ChunkFile) -> NDArray[np.int64]:
    return np.array([digest_of(chunk.content)], np.uint64).view(np.int64)


def _weighed(
    archives: Archives, measured: Measured, left_out: LeftOut, quiet: bool
) -> Iterator[tuple[ChunkFile, _WeighedChunk]]:
    def weigh(chunk: ChunkFile) -> _WeighedChunk | str:
        records = _records(archives, chunk)
        if isinstance(records, str):
            return records
        sha256 = hashlib.sha256(chunk.content).digest()
        calibrated = records
        if measured.calibration is not None:
            calibrated = records.copy()
            calibrated["orig_q"] = measured.calibration.expected(records["orig_q"], fold_of(_game(chunk)))
        weights, gap = measured.formula.weigh(calibrated), disagreement(calibrated)
        return _WeighedChunk(records, weights, gap, phases_of(records), digest_of(chunk.content), sha256)

    with Progress("Weighing", archives.total_bytes(), "bytes", quiet=quiet) as progress:
        for chunk, content in in_order(weigh, read_archives(archives, left_out.break_off)):
            progress.advance(len(chunk.content))
            if isinstance(content, str):
                left_out.add(name_of(archives, chunk), content)
            else:
                yield chunk, content


class _Drawn:
    """Draws records, and counts them."""

    def __init__(self, factor: float, seed: NDArray[np.uint64]) -> None:
        self._factor, self._seed = factor, seed
        self.kept = {"games": 0, "positions": 0}

    def rows(self, content: _WeighedChunk) -> NDArray[np.int64]:
        """The kept records of a chunk, in order."""
        n = len(content.weights)
        game = scrambled(np.array([content.digest], np.uint64) ^ self._seed)
        chance = ply_priorities(np.repeat(game, n), np.arange(n)) / 2.0**64
        rows = np.flatnonzero(chance < self._factor * content.weights)
        self.kept["games"] += len(rows) > 0
        self.kept["positions"] += len(rows)
        return rows


@contextmanager
def _side_file(path: str | Path | None, formula: Formula) -> Iterator[Callable[[str, _WeighedChunk], None]]:
    """Writes the weights of one chunk after the other to a Parquet file, in blocks of games; None writes no file."""
    if path is None:
        yield lambda name, content: None
        return
    if Path(path).suffix.lower() != ".parquet":
        raise UsageError(f"{path}: the file of weights ends in .parquet")
    schema = _SCHEMA.with_metadata({"formula": formula_text(formula)})
    waiting: list[tuple[str, int, Floats]] = []
    with ExitStack() as stack:
        try:
            partial = stack.enter_context(written_whole(path, outputs.WEIGHTS))
            writer = stack.enter_context(pq.ParquetWriter(partial, schema, compression="zstd"))
        except OSError as error:
            raise ValueRepairError(f"{path}: cannot be written: {error.strerror or error}") from None

        def add(name: str, content: _WeighedChunk) -> None:
            waiting.append((name, content.digest, content.weights))
            if len(waiting) >= _BLOCK_GAMES:
                flush()

        def flush() -> None:
            names, digests, weights = zip(*waiting, strict=True)
            lengths = [len(chunk_weights) for chunk_weights in weights]
            columns = [
                pa.array(np.repeat(np.array(names, object), lengths), pa.string()),
                pa.array(np.repeat(np.array(digests, np.uint64), lengths)),
                pa.array(np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])),
                pa.array(np.concatenate(weights).astype(np.float32)),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            waiting.clear()

        yield add
        if waiting:
            flush()
