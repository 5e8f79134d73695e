"""The files of a mixture: tar shards, or folders of hard links, and the list that says where each game comes from."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.training.chunk_files import RandomReader, digest_of
from valuerepair.training.chunk_index import ChunkIndex

LIST = "games.parquet"
_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("game", pa.string()),
        ("side", pa.string()),
        ("archive", pa.string()),
        ("offset", pa.int64()),
        ("positions", pa.int32()),
    ]
)

Index = NDArray[np.int64]


@dataclass(slots=True)
class Written:
    """The shards by name, each with its SHA-256 and counts, and how many chunks were linked or had to be copied."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    linked: int = 0
    copied: int = 0

    def as_dict(self) -> dict[str, Any]:
        links = {"linked": self.linked, "copied": self.copied} if self.linked or self.copied else {}
        return {**links, "files": self.files}


class TarShard:
    """A tar as lczero-training's loader reads it: regular files with short names, no folders, always the same bytes."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._sha = hashlib.sha256()
        self.bytes = 0

    def add(self, name: str, content: bytes) -> None:
        """Appends a file; `name` of at most 100 bytes."""
        head = tarfile.TarInfo(name)
        head.size = len(content)
        self._write(head.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE))

    def close(self) -> str:
        """Ends the archive on disk and returns its SHA-256."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._sha.hexdigest()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._sha.update(data)
        self.bytes += len(data)


def write_tars(
    folder: Path,
    indices: Sequence[ChunkIndex],
    sides: Sequence[str],
    order: Index,
    shard_games: int,
    on_game: Callable[[], None],
) -> Written:
    """Writes the chunks in this order ([n, 2]: side, index) into shards of nearly equal numbers of games."""
    written = Written()
    with _Source(indices, sides) as source, pq.ParquetWriter(folder / LIST, _SCHEMA, compression="zstd") as list_:
        for number, begin, part in _shards(order, shard_games):
            name = f"mix-{number:05d}.tar"
            tar = TarShard(folder / name)
            for game, (side, i) in enumerate(part.tolist(), begin):
                tar.add(game_name(game), source.read(side, i))
                on_game()
            written.files[name] = {"sha256": tar.close(), "bytes": tar.bytes, **source.counts(part)}
            list_.write_table(source.table(name, begin, part))
    return written


def write_links(
    folder: Path,
    indices: Sequence[ChunkIndex],
    sides: Sequence[str],
    order: Index,
    shard_games: int,
    on_game: Callable[[], None],
) -> Written:
    """As `write_tars`, into folders of loose chunks: hard links where they lie loose on the same disk, else copies."""
    written = Written()
    with _Source(indices, sides) as source, pq.ParquetWriter(folder / LIST, _SCHEMA, compression="zstd") as list_:
        for number, begin, part in _shards(order, shard_games):
            name, sha = f"mix-{number:05d}", hashlib.sha256()
            (folder / name).mkdir()
            for game, (side, i) in enumerate(part.tolist(), begin):
                content = source.read(side, i)
                sha.update(hashlib.sha256(content).digest())
                target = folder / name / game_name(game)
                if source.link(side, i, target):
                    written.linked += 1
                else:
                    target.write_bytes(content)
                    written.copied += 1
                on_game()
            written.files[name] = {"sha256": sha.hexdigest(), **source.counts(part)}
            list_.write_table(source.table(name, begin, part))
    return written


def game_name(number: int) -> str:
    """As lc0 names chunks, numbered through the shuffled mixture (``sort_type: number`` of the older trainer)."""
    return f"game_{number:08d}.gz"


def _shards(order: Index, most: int) -> Iterator[tuple[int, int, Index]]:
    """Number, first game and chunks of each shard."""
    shards = -(-len(order) // most)
    for number in range(shards):
        begin, end = (len(order) * n // shards for n in (number, number + 1))
        yield number, begin, order[begin:end]


class _Source:
    """The chunks of all sides, read again; a context manager."""

    def __init__(self, indices: Sequence[ChunkIndex], sides: Sequence[str]) -> None:
        self._indices, self._sides = indices, sides
        self._readers = [RandomReader(index.archives) for index in indices]

    def __enter__(self) -> _Source:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.close()

    def read(self, side: int, i: int) -> bytes:
        """The packed chunk; raises ValueRepairError when it is not the one that was counted."""
        index = self._indices[side]
        archive = int(index.archive[i])
        content = self._readers[side].read(archive, int(index.offset[i]), int(index.size[i]))
        if digest_of(content) != index.digest[i]:
            raise ValueRepairError(f"{index.archives.paths[archive]}: was changed while it was read; run it again")
        return content

    def link(self, side: int, i: int, target: Path) -> bool:
        """Makes `target` a hard link of a loose chunk; False where that cannot be."""
        index = self._indices[side]
        archive = int(index.archive[i])
        if index.archives.is_tar(archive):
            return False
        try:
            os.link(os.path.realpath(index.archives.paths[archive]), target)
        except OSError:
            return False  # another disk, or one without links: copying says what else is wrong
        return True

    def counts(self, part: Index) -> dict[str, int]:
        """Games and positions of some chunks, and how many of both are repair's."""
        found = {"games": len(part), "positions": 0}
        for side, name in enumerate(self._sides):
            own = part[part[:, 0] == side, 1]
            positions = int(self._indices[side].records[own].sum(dtype=np.int64))
            found["positions"] += positions
            found |= {f"{name}_games": len(own), f"{name}_positions": positions}
        return found

    def table(self, name: str, begin: int, part: Index) -> pa.Table:
        """The rows of `LIST` for one shard."""
        rows = []
        for game, (side, i) in enumerate(part.tolist(), begin):
            index = self._indices[side]
            archive = int(index.archive[i])
            rows.append(
                {
                    "file": name,
                    "game": game_name(game),
                    "side": self._sides[side],
                    "archive": index.archives.names[archive],
                    "offset": int(index.offset[i]),
                    "positions": int(index.records[i]),
                }
            )
        return pa.Table.from_pylist(rows, _SCHEMA)
