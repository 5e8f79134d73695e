"""The checkpoint of a sample that is still being drawn: a stopped run resumes reading where it stopped.

A uniform sample of a given size is known only after all archives are read, which takes an hour for a month of a large
database. Until then a file holds the positions drawn so far and the place that reading has reached.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from valuerepair import outputs
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.select import U64
from valuerepair.chess.origins import OriginGame, Origins, Recorded
from valuerepair.chess.positions import PositionBatch
from valuerepair.errors import ValueRepairError
from valuerepair.files import open_regular, written_whole
from valuerepair.inputs import Record, from_json

# Seconds between saves: a run that is killed repeats at most this reading. Saving 100,000 positions takes a second.
EVERY_S = 30.0
_TEXTS = ("fen", "start_fen")
_NUMBERS = ("ply", "key", "history_known")


@dataclass(frozen=True, slots=True)
class Place:
    """How far reading got: `source` whole archives, then `games` games of the next one, which end at byte `offset` of
    its decompressed text.
    """

    source: int = 0
    offset: int = 0
    games: int = 0


class _Metadata(Record):
    """The contents of the file besides the positions."""

    identity: str
    place: Place
    report: dict[str, Any]


class SampleCheckpoint:
    """The file with the unfinished sample of the run with this `identity`; a file of another run is ignored.

    After `load`, `place` is where to resume, `drawn` has the positions drawn before it (None without a saved sample),
    and `games` the hashes of the games before it, if copies of games are looked for.
    """

    def __init__(self, path: str | Path, identity: str) -> None:
        self._path, self._identity = Path(path), identity
        self._saved = time.monotonic()
        self.place = Place()
        self.drawn: PositionBatch | None = None
        self.games: U64 = np.empty(0, np.uint64)

    @property
    def due(self) -> bool:
        """Whether the last save (or the start of the run) was at least `EVERY_S` ago."""
        return time.monotonic() - self._saved >= EVERY_S

    def load(self, report: ReadReport) -> None:
        """Reads the file, if it exists, and copies its counts of games and positions into `report`, a new one.

        A damaged file, or the file of another run, counts as missing.
        """
        try:
            with open_regular(self._path) as file:
                table = pa.ipc.open_file(file).read_all()
            table.validate(full=True)
            metadata = from_json(table.schema.metadata[b"sample"], _Metadata, str(self._path))
            if metadata.identity != self._identity:
                return
            counts = msgspec.convert(metadata.report, ReadReport, dec_hook=lambda _, value: Counter(value))
            drawn = _batch(table)
        except (FileNotFoundError, ValueRepairError, msgspec.ValidationError, pa.ArrowException, KeyError, TypeError):
            return
        self.place, self.drawn = metadata.place, drawn
        self.games = np.frombuffer(table.schema.metadata.get(b"games", b""), np.uint64)
        for field in fields(ReadReport):
            setattr(report, field.name, getattr(counts, field.name))

    def save(self, place: Place, drawn: PositionBatch, games: U64, report: ReadReport) -> None:
        """Saves the positions drawn before `place`, the hashes of the games before it, and the counts of `report`.

        Raises ValueRepairError if the file cannot be written.
        """
        metadata = {"identity": self._identity, "place": place, "report": report}
        saved = {"sample": msgspec.json.encode(metadata), "games": games.tobytes()}
        table = _table(drawn).replace_schema_metadata(saved)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        try:
            saving = written_whole(self._path, outputs.SAMPLE)
            with saving as partial, pa.ipc.new_file(str(partial), table.schema, options=options) as file:
                file.write_table(table)
        except OSError as error:
            raise ValueRepairError(f"{self._path}: cannot be written: {error.strerror or error}") from None
        self._saved = time.monotonic()

    def remove(self) -> None:
        """Deletes the file of a finished run."""
        self._path.unlink(missing_ok=True)


def _table(batch: PositionBatch) -> pa.Table:
    """The batch as columns; games and recorded evaluations are JSON."""
    origins = batch.origin
    columns: dict[str, Any] = {name: getattr(batch, name) for name in (*_TEXTS, *_NUMBERS)}
    columns["moves"] = pa.LargeListArray.from_arrays(batch.offsets, batch.moves)
    columns["game"] = [msgspec.json.encode(game) for game in origins.game]
    columns["played"] = pa.array(origins.played, pa.string())
    if origins.recorded is not None:
        columns["recorded"] = [msgspec.json.encode(evaluation) for evaluation in origins.recorded]
    return pa.table(columns)


def _batch(table: pa.Table) -> PositionBatch:
    """The batch that `_table` wrote."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    moves = columns["moves"]
    recorded = None
    if "recorded" in columns:
        recorded = [
            None if text == b"null" else from_json(text, Recorded, "recorded")
            for text in columns["recorded"].to_pylist()
        ]
    games = [from_json(text, OriginGame, "game") for text in columns["game"].to_pylist()]
    ply, key, history_known = (columns[name].to_numpy(zero_copy_only=False) for name in _NUMBERS)
    fen, start_fen = (columns[name].to_pylist() for name in _TEXTS)
    return PositionBatch(
        fen,
        start_fen,
        moves.values.to_numpy(),
        moves.offsets.to_numpy(),
        ply,
        key,
        history_known,
        Origins(games, columns["played"].to_pylist(), recorded),
    )
