"""Files of training records: whole or not at all, the same for the same game, clear words when the disk is full."""

from __future__ import annotations

import gzip
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


def test_a_game_without_records_has_no_file(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path, RecordFacts())
    assert writer.write(replace(GAMES[0], result="*", ending=TOO_LONG)) is None
    assert not list(tmp_path.iterdir())
    assert (writer.games, writer.records) == (0, 0)


def test_a_folder_with_anything_in_it_is_refused_but_to_go_on(tmp_path: Path) -> None:
    ChunkWriter(tmp_path, RecordFacts()).write(GAMES[0])
    with pytest.raises(UsageError, match="not empty"):
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
