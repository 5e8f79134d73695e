"""Files of training records: whole or not at all, the same for the same game, clear words when the disk is full."""

from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest

from tests.test_training_records import fake_game
from valuerepair.chess import v6
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.game import TOO_LONG
from valuerepair.training.records import ChunkWriter, RecordFacts, game_records

GAMES = [replace(fake_game(chess.STARTING_FEN, seed, plies=12), number=seed) for seed in (0, 7, 1234567)]


def test_a_file_a_game_named_as_lc0_does(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path / "new" / "chunks", RecordFacts())
    paths = [writer.write(game) for game in GAMES]
    assert [path and path.name for path in paths] == ["game_000000.gz", "game_000007.gz", "game_1234567.gz"]
    assert sorted(p.name for p in writer.folder.iterdir()) == sorted(path.name for path in paths if path)
    for game, path in zip(GAMES, paths, strict=True):
        assert path is not None
        records = np.frombuffer(gzip.decompress(path.read_bytes()), v6.RECORD)
        assert records.tobytes() == game_records(game, RecordFacts()).tobytes()
    assert (writer.games, writer.records) == (3, 36)


def test_the_same_game_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (ChunkWriter(tmp_path / name, RecordFacts()).write(GAMES[0]) for name in "ab")
    assert first is not None
    assert second is not None
    assert first.read_bytes() == second.read_bytes()


def test_a_game_without_records_has_no_file(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path, RecordFacts())
    assert writer.write(replace(GAMES[0], result="*", ending=TOO_LONG)) is None
    assert not list(tmp_path.iterdir())
    assert (writer.games, writer.records) == (0, 0)


def test_a_folder_with_anything_in_it_is_refused_but_to_go_on(tmp_path: Path) -> None:
    ChunkWriter(tmp_path, RecordFacts()).write(GAMES[0])
    with pytest.raises(UsageError, match="not empty; training records need a new folder"):
        ChunkWriter(tmp_path, RecordFacts())
    (tmp_path / ".game_000007.gz.part").write_bytes(b"half")
    writer = ChunkWriter(tmp_path, RecordFacts(), resume=True)
    writer.write(GAMES[1])
    writer.write(GAMES[0])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["game_000000.gz", "game_000007.gz"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "chunks").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        ChunkWriter(tmp_path / "chunks", RecordFacts())
    with pytest.raises(ValueRepairError, match="cannot be written there"):
        ChunkWriter("/proc/chunks", RecordFacts())


FULL = """
import resource, sys
from tests.test_training_writer import GAMES, ChunkWriter, RecordFacts, ValueRepairError
writer = ChunkWriter(sys.argv[1], RecordFacts())
writer.write(GAMES[0])
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    writer.write(GAMES[1])
except ValueRepairError as error:
    print(error)
"""


def test_a_full_disk_leaves_what_was_whole(tmp_path: Path) -> None:
    """The system refuses to write more than 500 bytes of a file, in the middle of the second game."""
    folder = tmp_path / "chunks"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "game_000007.gz: File too large; " in done.stdout
    assert "run the same command again" in done.stdout
    assert [p.name for p in folder.iterdir()] == ["game_000000.gz"]
