"""Single games of archives, read again: all their positions, as python-chess reads them, and no other game."""

from __future__ import annotations

import io
from pathlib import Path

import chess.pgn
import pytest
import zstandard

from tests.mining_doubles import random_games
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import read_games
from valuerepair.errors import UsageError

WITH_EVALS = """[Event "a"]
[Result "*"]

1. e4 { [%eval 0.2] } e5 2. Nf3 { [%eval 0.31] } Nc6 { [%eval -0.1] } *

[Event "b"]
[Result "*"]

1. d4 { [%eval 0.1] } d5 { [%eval 0.2] } 2. c4 *

"""


def by_python_chess(text: str, wanted: set[int]) -> list[tuple[int, int, str, str]]:
    """Game, ply, board and the move played, of all positions of the wanted games in which one was."""
    positions, number, stream = [], 0, io.StringIO(text)
    while (game := chess.pgn.read_game(stream)) is not None:
        number += 1
        board = game.board()
        for move in game.mainline_moves():
            if number in wanted:
                positions.append((number, board.ply(), board.epd(), move.uci()))
            board.push(move)
    return positions


@pytest.mark.parametrize("packed", [False, True])
def test_all_positions_of_the_wanted_games(tmp_path: Path, packed: bool) -> None:
    plain = random_games(tmp_path / "games.pgn", 300)
    text, wanted = plain.read_text(), {2, 3, 150, 299}
    path = plain
    if packed:
        path = tmp_path / "games.pgn.zst"
        path.write_bytes(zstandard.compress(plain.read_bytes()))
    report, positions = ReadReport(), []
    for batch in read_games({str(path): wanted}, report):
        origins = batch.origin
        for i in range(len(batch)):
            assert origins.game[i].source == str(path)
            board = chess.Board(batch.fen[i])
            positions.append((origins.game[i].number, int(batch.ply[i]), board.epd(), origins.played[i]))
    assert positions == by_python_chess(text, wanted)
    assert (report.games, report.parsed, report.not_sampled) == (300, 4, 296)
    assert report.adds_up


def test_several_files_and_games_that_are_not_there(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.pgn").write_text(WITH_EVALS)
    wanted = {str(tmp_path / "a.pgn"): [2, 9], str(tmp_path / "b.pgn"): [1]}
    games = [game for batch in read_games(wanted, ReadReport()) for game in batch.origin.game]
    assert list(dict.fromkeys((Path(game.source).name, game.number) for game in games)) == [("a.pgn", 2), ("b.pgn", 1)]


def test_a_file_that_has_gone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        list(read_games({str(tmp_path / "gone.pgn"): [1]}, ReadReport()))
