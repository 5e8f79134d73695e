"""Training chunks of own games: a gzip file of records a game, as lc0's self-play leaves them for a trainer."""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path

import numpy as np

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.record import GameRecord
from valuerepair.training.records import NetFacts, game_records

# Of zlib. lc0 has 6, whose files are two fifths smaller and take three times as long.
LEVEL = 1
_GZIP, _MEMORY = 31, 7


class ChunkWriter:
    """Writes the records of games to a folder: game 7 of a run to game_000007.gz, as lc0 names them.

    A file appears whole or not at all, and the same game gives the same bytes: a run that was stopped goes on in its
    folder. `games` and `records` are how many were written.
    """

    def __init__(self, folder: str | Path, facts: NetFacts, *, resume: bool = False, level: int = LEVEL) -> None:
        """Makes the folder if needed. Without `resume` it must be empty.

        Raises UsageError for a folder with anything in it, ValueRepairError where it cannot be written.
        """
        self.folder, self.facts = Path(folder), facts
        self.games = self.records = 0
        self._level = level
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not resume and any(self.folder.iterdir()):
                raise UsageError(
                    f"{folder}: not empty; training records need a folder of their own unless their run goes on"
                )
            for left in self.folder.glob(".game_*.gz.part"):
                left.unlink()
        except FileExistsError:
            raise UsageError(f"{folder}: is a file; training records need a folder") from None
        except OSError as error:
            raise ValueRepairError(f"{folder}: {error.strerror}: training records cannot be written there") from None

    def path(self, number: int) -> Path:
        """The file of a game of the run."""
        return self.folder / f"game_{number:06d}.gz"

    def write(self, game: GameRecord) -> Path | None:
        """Writes the records of a game; returns the file, None for a game that has none (`records.has_records`).

        Raises ValueRepairError where it cannot be written; nothing of it is left then.
        """
        records = game_records(game, self.facts)
        if not len(records):
            return None
        path = self.path(game.number)
        partial = path.with_name(f".{path.name}.part")
        try:
            with open(partial, "wb", buffering=0) as file:
                _write_all(file.fileno(), compressed(records.view(np.uint8).data, self._level))
            os.replace(partial, path)
        except OSError as error:
            raise ValueRepairError(
                f"{path}: {error.strerror}; the game's training records are not written: make room, then run the same "
                "command again"
            ) from None
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        self.games += 1
        self.records += len(records)
        return path


def compressed(records: bytes | memoryview, level: int = LEVEL) -> bytes:
    """Records as a chunk: one gzip member without name or time."""
    packer = zlib.compressobj(level, zlib.DEFLATED, _GZIP, _MEMORY)
    return packer.compress(records) + packer.flush()


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
