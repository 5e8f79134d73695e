"""Folders of packed training chunks, written in order, in tars that appear whole; a stopped run resumes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import HeldError, check_empty, claimed, read_json, written_whole
from valuerepair.version import __version__

MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"  # a stopped run resumes from it; removed once the manifest is written
SHARD_CHUNKS = 10_000
_LOCK = ".lock"


@dataclass(frozen=True)
class _ShardFacts:
    sha256: str
    bytes: int
    chunks: int
    records: int


def chunk_name(number: int) -> str:
    """A name of lc0's form: game_00000007.gz (``sort_type: number`` of lczero-training's older trainer)."""
    return f"game_{number:08d}.gz"


class TarShard:
    """A tar for lczero-training's loader: regular files with short names, no folders, always the same bytes."""

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
        """Ends the archive, writes it to the disk, and returns its SHA-256."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._sha.hexdigest()

    def abandon(self) -> None:
        """Closes the incomplete file."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._sha.update(data)
        self.bytes += len(data)


class ChunkOutput:
    """Writes packed chunks to a folder in the order of `add`; a context manager.

    They are in plain tars of `SHARD_CHUNKS` chunks each. A tar appears whole or not at all, and unfinished.json records
    the progress, so that the run can resume: the caller then skips the first `chunks` chunks. `finish` ends the output
    and writes manifest.json.

    `chunks` and `records` count those in the folder, including those of earlier attempts.
    """

    def __init__(self, folder: str | os.PathLike[str], run: Mapping[str, Any]) -> None:
        """Makes the folder if needed. `run` (JSON-able) identifies everything that the chunks depend on.

        Raises UsageError if `folder` is a file, or has finished chunks, chunks of another run or other files in it;
        ValueRepairError if a tar has changed, another process writes to the folder, or it cannot be written.
        """
        self.folder, self._shown_folder = Path(os.path.abspath(folder)), os.fspath(folder)
        self._run = json.loads(json.dumps({**run, "shard_chunks": SHARD_CHUNKS}))
        self.chunks = self.records = 0
        self._files: dict[str, _ShardFacts] = {}
        self._shard: TarShard | None = None
        self._complete = (0, 0)  # chunks and records in complete tars
        self._lock, self._made_folder = ExitStack(), False
        try:
            self._open()
        except OSError as error:
            self._lock.close()
            raise self._unwritable(error) from None
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> ChunkOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drops an incomplete shard and keeps the complete ones; without these, leaves the folder as it was."""
        if self._shard is not None:
            self._shard.abandon()
            self._shard = None
        self._remove_incomplete()
        if not self._files and not (self.folder / MANIFEST).exists():
            (self.folder / UNFINISHED).unlink(missing_ok=True)
        self._lock.close()
        if self._made_folder:
            with suppress(OSError):  # it is not empty
                self.folder.rmdir()

    @property
    def complete(self) -> int:
        """The number of chunks in complete shards, which an interruption does not lose."""
        return self._complete[0]

    def add(self, packed: bytes, records: int) -> None:
        """Adds a chunk that holds this many `records`. Raises ValueRepairError if it cannot be written."""
        try:
            if self._shard is None:
                self._shard = TarShard(self._part(self._shard_name))
            self._shard.add(chunk_name(self.chunks), packed)
            self.chunks += 1
            self.records += records
            if self.chunks - self._complete[0] == SHARD_CHUNKS:
                self._end_shard()
                self._save(UNFINISHED, {"run": self._run, **self._progress()})
        except OSError as error:
            raise self._unwritable(error) from None

    def finish(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """Ends the last shard and writes the manifest: the run, `counts` (JSON-able) and the files. Returns it.

        It has no dates or times, so that the same run writes the same bytes.
        """
        try:
            if self._shard is not None:
                self._end_shard()
            manifest = {"version": f"valuerepair {__version__}", **self._run, **counts, **self._progress()}
            self._save(MANIFEST, manifest)
            (self.folder / UNFINISHED).unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None
        return manifest

    def _open(self) -> None:
        """Locks the folder, and resumes a stopped run in it."""
        if not (self.folder / UNFINISHED).exists():
            if (self.folder / MANIFEST).exists():
                raise UsageError(f"{self._shown_folder}: holds finished chunks ({MANIFEST}); give a new folder")
            check_empty(self.folder, self._shown_folder)
            self._made_folder = not self.folder.exists()
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.enter_context(claimed(self.folder / _LOCK))
        except HeldError:
            raise ValueRepairError(f"{self._shown_folder}: another process writes chunks there") from None
        path = self.folder / UNFINISHED
        if path.exists():
            self._resume(path)
        else:
            self._save(UNFINISHED, {"run": self._run, **self._progress()})
        self._remove_incomplete()

    def _resume(self, path: Path) -> None:
        try:
            stopped = read_json(path, "a list of chunks that a stopped run left")
        except ValueRepairError as error:
            raise UsageError(f"{error}; give a new folder") from None
        if stopped["run"] != self._run:
            names = one_line(", ".join(name for name, value in self._run.items() if stopped["run"].get(name) != value))
            raise UsageError(f"{self._shown_folder}: holds chunks of another run (other {names}); give a new folder")
        files = {name: _ShardFacts(**facts) for name, facts in stopped["files"].items()}
        for name, facts in files.items():
            if not (self.folder / name).is_file() or (self.folder / name).stat().st_size != facts.bytes:
                raise ValueRepairError(f"{self.folder / name}: is missing or has changed; give a new folder")
        self.chunks, self.records = stopped["chunks"], stopped["records"]
        self._files, self._complete = files, (self.chunks, self.records)

    @property
    def _shard_name(self) -> str:
        return f"chunks-{self._complete[0] // SHARD_CHUNKS:05d}.tar"

    def _part(self, name: str) -> Path:
        return self.folder / f".{name}.part"

    def _end_shard(self) -> None:
        shard, name = self._shard, self._shard_name
        assert shard is not None
        self._shard = None
        sha256 = shard.close()
        os.replace(self._part(name), self.folder / name)
        chunks, records = self.chunks - self._complete[0], self.records - self._complete[1]
        self._files[name] = _ShardFacts(sha256, shard.bytes, chunks, records)
        self._complete = (self.chunks, self.records)

    def _progress(self) -> dict[str, Any]:
        """The chunks and records so far, and the complete shards."""
        return {
            "chunks": self.chunks,
            "records": self.records,
            "files": {name: asdict(facts) for name, facts in self._files.items()},
        }

    def _save(self, name: str, content: Mapping[str, Any]) -> None:
        with written_whole(self.folder / name) as partial:
            partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _remove_incomplete(self) -> None:
        """Removes files that belong to no complete shard; a resumed run writes them again."""
        for path in self.folder.glob(".*.part"):
            path.unlink(missing_ok=True)
        for path in self.folder.glob("chunks-*.tar"):
            if int(re.sub(r"\D", "", path.name)) >= len(self._files):
                path.unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> ValueRepairError:
        failed_path = self._shown_folder if error.filename is None else error.filename
        return ValueRepairError(
            f"{failed_path}: {error.strerror or error}; once chunks can be written there, the same command resumes"
        )
