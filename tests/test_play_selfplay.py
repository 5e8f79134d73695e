"""`vr selfplay` from end to end: a real net, kills, resume, what is refused, and what the store has of it."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import valuerepair as vr
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import claimed
from valuerepair.play.figures import PlayedGame
from valuerepair.play.openings import read_openings
from valuerepair.play.pgn import PgnWriter, read_written
from valuerepair.play.referee import DrawRule, Rules
from valuerepair.play.selfplay import SelfplayPlan
from valuerepair.report import stats
from valuerepair.store.plays import outcomes as outcomes_of
from valuerepair.store.store import Store
from valuerepair.training.selfplay import SelfplayOptions

BOOK = """1. e4 c5 2. Nf3 {a comment} d6 *

[FEN "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"]

*

[FEN "4k3/8/8/8/8/8/4P3/4K3 w - - 5 39"]

1. e4 Kd7 *

1. d4 d5 2. c4 e6 1-0
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.pgn"
    path.write_text(BOOK)
    return path


def run(folder: Path, maia_file: str, *more: str) -> Result:
    files = ["-o", str(folder / "games.pgn"), "--db", str(folder / "a.db")]
    ours = [] if "lc0" in more else ["--set", "max_plies=60", "--device", "cpu"]  # lc0 has backends of its own
    words = ["selfplay", str(folder / "book.pgn"), "--net", maia_file, "--nodes", "5", "--temperature", "0.8"]
    return CliRunner().invoke(cli, [*words, *ours, *files, *more])


def texts(path: Path) -> list[str]:
    """The games, without the day on which each was played."""
    return sorted(re.sub(r'\[Date "[^"]*"\]\n', "", game.text) for game in read_written(path)[0])


def plays(path: Path) -> list[tuple[Any, ...]]:
    with Store.open(path) as store:
        return store.connection.execute("SELECT * FROM plays ORDER BY number").fetchall()


def test_games_from_a_book(tmp_path: Path, maia_file: str, book: Path) -> None:
    done = run(tmp_path, maia_file, "--repeat", "2", "--json", "--training", str(tmp_path / "chunks"))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["games"], told["planned"], told["interrupted"]) == (8, 8, False)
    assert 0 < told["batch_fill"] <= 1
    openings = read_openings(book, strict=True)
    with (tmp_path / "games.pgn").open() as file:
        games = [game for _ in range(8) if (game := chess.pgn.read_game(file)) is not None]
    assert sorted(int(game.headers["Round"]) for game in games) == list(range(1, 9))
    for game in games:
        assert not game.errors
        line = openings[int(game.headers["BookLine"]) - 1]
        moves = [move.uci() for move in game.mainline_moves()]
        assert tuple(moves[: len(line.moves)]) == line.moves
        assert game.headers["BookPlies"] == str(len(line.moves))
        end = game.end().board()
        outcome = end.outcome(claim_draw=True)
        expected = outcome.result() if outcome and game.headers["Ending"] != "too long: 60 plies" else "*"
        assert game.headers["Result"] == expected
        chunk = tmp_path / "chunks" / f"game_{int(game.headers['Round']) - 1:06d}.gz"
        assert chunk.exists() == (expected != "*")
        assert game.headers.get("Chunk") == (chunk.name if expected != "*" else None)
        if chunk.exists():  # a record a move that was searched
            assert len(gzip.decompress(chunk.read_bytes())) == 8356 * (len(moves) - len(line.moves))
    kept = plays(tmp_path / "a.db")
    assert len(kept) == 8
    for row, game in zip(kept, sorted(games, key=lambda game: int(game.headers["Round"])), strict=True):
        opening = openings[int(game.headers["BookLine"]) - 1]
        sign = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}.get(game.headers["Result"])
        z = sign if sign is None or opening.fen.split()[1] == "w" else -sign
        assert (row[2], row[3] % 2**64, row[4], row[8]) == (opening.number, opening.key, opening.fen, z)


def test_a_run_killed_between_records_and_game_goes_on(tmp_path: Path, maia_file: str, book: Path) -> None:
    chunks, path = tmp_path / "chunks", tmp_path / "games.pgn"
    whole = run(tmp_path, maia_file, "--training", str(chunks))
    assert whole.exit_code == 0, whole.output
    games, first = texts(path), {file.name: file.read_bytes() for file in chunks.iterdir()}
    path.write_text("")  # as a killed run leaves it that had written the first game's records
    for name in sorted(first)[1:]:
        (chunks / name).unlink()
    (tmp_path / "a.db").unlink()
    again = run(tmp_path, maia_file, "--training", str(chunks))
    assert again.exit_code == 0, again.output
    assert texts(path) == games
    assert {file.name: file.read_bytes() for file in chunks.iterdir()} == first


def refused(done: Result) -> str:
    assert isinstance(done.exception, ValueRepairError), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)


def test_another_run_is_not_mixed_in(tmp_path: Path, maia_file: str, book: Path, shared_data: Path) -> None:
    assert run(tmp_path, maia_file).exit_code == 0
    before = (tmp_path / "games.pgn").read_bytes()
    other = str(shared_data / "nets" / "maia-1100.pb.gz")
    assert "the net was maia-1900 sha256:" in refused(run(tmp_path, other))
    assert "its Search is 'nodes=5" in refused(run(tmp_path, maia_file, "--nodes", "6"))
    assert "its Seed is '0', now it is '1'" in refused(run(tmp_path, maia_file, "--seed", "1"))
    book.write_text("1. e4 *\n")
    assert "its Book is" in refused(run(tmp_path, maia_file))
    assert (tmp_path / "games.pgn").read_bytes() == before
    (tmp_path / "games.pgn").write_bytes(2 * before)
    book.write_text(BOOK)
    assert "has a game twice" in refused(run(tmp_path, maia_file))
    (tmp_path / "games.pgn").write_text("something else\n\nthat is mine\n\n")
    assert "at byte 0 there is no game of vr selfplay" in refused(run(tmp_path, maia_file))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    new = ["-o", str(tmp_path / "new.pgn"), "--training", str(tmp_path / "full")]
    assert "not empty" in refused(run(tmp_path, maia_file, *new))
    assert not (tmp_path / "new.pgn").exists()


def test_two_runs_at_once_do_not_write_to_one_folder(tmp_path: Path, maia_file: str, book: Path) -> None:
    chunks = tmp_path / "chunks"
    chunks.mkdir()
    with claimed(chunks / ".lock"):
        done = run(tmp_path, maia_file, "--training", str(chunks))
        assert "another vr writes there; wait until it ends, or give another folder" in str(done.exception)
    assert run(tmp_path, maia_file, "--training", str(chunks)).exit_code == 0
    names = [path.name for path in chunks.iterdir()]
    assert names
    assert all(name.startswith("game_") for name in names)


def test_records_of_a_scaled_search_are_warned_of(tmp_path: Path, maia_file: str, book: Path) -> None:
    done = run(tmp_path, maia_file, "--training", str(tmp_path / "chunks"), "--set", "q_scale=0.5")
    assert done.exit_code == 0, done.output
    assert "warning: every Q of the training records will be 0.5 times the net's, by q_scale" in done.stderr


def test_training_records_of_another_run_are_not_mixed_in(tmp_path: Path, maia_file: str, book: Path) -> None:
    def play(name: str, chunks: str | None = None, **options: Any) -> None:
        # A draw by agreement after two plies is a game that ends, and has records.
        rules = Rules(draw=DrawRule(1, 2, 1))
        training = None if chunks is None else str(tmp_path / chunks)
        vr.selfplay(
            book, tmp_path / name, None, SelfplayOptions(net=maia_file, rules=rules, training=training, **options)
        )

    play("a.pgn", "chunks", nodes=5)
    play("b.pgn", nodes=6)
    files = {file.name: file.read_bytes() for file in (tmp_path / "chunks").iterdir()}
    assert len(files) > 1
    with pytest.raises(UsageError, match="Round 1 has no training records"):
        play("b.pgn", "chunks", nodes=6, repeat=2)
    assert {file.name: file.read_bytes() for file in (tmp_path / "chunks").iterdir()} == files
    with pytest.raises(UsageError, match="has no training records in"):
        play("a.pgn", "new", nodes=5, repeat=2)
    play("a.pgn", "chunks", nodes=5, repeat=2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--repeat", "0"), "--repeat 0: must be at least 1"),
        (("--nodes", "0"), "--nodes 0: must be at least 1"),
        (("--resign", "60"), "resign 60"),
        (("--set", "cpuct"), "--set 'cpuct' is not NAME=VALUE"),
        (("--set", "cpukt=1"), "did you mean cpuct?"),
        (("--set", "syzygy=/none"), "/none: no such folder"),
        (("--engine", "lc0", "--device", "cpu"), "--engine lc0: --device is for --engine mcts"),
        (("--nodes", "1", "--training", "chunks"), "--nodes 1: training records have shares of visits"),
        (("--engine", "lc0", "--seed", "1"), "--engine lc0: --seed is for --engine mcts"),
        (("--engine", "lc0", "--set", "seed=1"), "--engine lc0: it has no seed"),
        (("--engine", "lc0", "--set", "lc0_floats=1"), "--engine lc0: it has no lc0_floats"),
        (("--engine", "lc0", "--set", "certainty=1"), "--engine lc0: it has no certainty"),
        (("--engine", "lc0", "--set", "max_plies=9"), "--engine lc0: it has its own rules for the end of a game"),
        (("-o", "/dev/full"), "/dev/full: is not a regular file"),
        (("-o", "/"), "/: Is a directory"),
        (("-o", "/none/games.pgn"), "/none/games.pgn: No such file or directory"),
    ],
)
def test_wrong_options_are_named(
    tmp_path: Path, maia_file: str, book: Path, more: tuple[str, ...], message: str
) -> None:
    assert message in refused(run(tmp_path, maia_file, *more))
    assert not (tmp_path / "games.pgn").exists()


def test_lines_with_other_move_numbers_are_copies(tmp_path: Path) -> None:
    book = tmp_path / "book.epd"
    book.write_text("".join(f"4k3/8/8/8/8/8/4P3/4K3 w - - 0 {number}\n" for number in (1, 7, 30)))
    assert SelfplayPlan(read_openings(book), "book", "a", {}, 3).copies() == 2


def test_games_that_will_be_copies_are_told_before_and_are_copies(tmp_path: Path, maia_file: str, book: Path) -> None:
    book.write_text("1. e4 c5 *\n\n1. d4 d5 *\n\n1. c4 *\n\n1. e4 c5 *\n")
    more = ["--repeat", "3", "--json"]
    done = run(tmp_path, maia_file, *more, "--set", "max_plies=24", "--temperature", "0")
    games = read_written(tmp_path / "games.pgn")[0]
    movetexts = {(game.tags["White"], re.sub(r"\{[^}]*\}", "", game.text.split("\n\n")[1])) for game in games}
    assert f"{12 - len(movetexts)} of 12 games will be copies of others" in done.stderr
    # Whether games will be copies is known before the first move, so these games are short.
    short = ("--set", "max_plies=6", "--temperature", "0")
    for how in (("--temperature", "0.5"), ("--set", "noise_epsilon=0.25"), ("--set", "n_scl=5")):
        (tmp_path / "games.pgn").unlink()
        done = run(tmp_path, maia_file, *more, *short, *how)
        assert done.exit_code == 0, done.output
        assert "copies" not in done.stderr
    (tmp_path / "games.pgn").unlink()
    book.write_text("1. e4 c5 *\n\n1. d4 d5 *\n")
    done = run(tmp_path, maia_file, *short)
    assert done.exit_code == 0, done.output
    assert "copies" not in done.stderr


def test_z_against_the_values_of_the_store(tmp_path: Path, maia_file: str, book: Path) -> None:
    """By hand: three positions, of which games from two are decided."""
    assert run(tmp_path, maia_file, "--repeat", "2", "--temperature", "0").exit_code == 0
    with Store.open(tmp_path / "a.db", write=True) as store:
        connection = store.connection
        connection.execute("PRAGMA foreign_keys = OFF")
        keys = [key for (key,) in connection.execute("SELECT key FROM plays WHERE number < 3 ORDER BY number")]
        for i, key in enumerate(keys, 1):
            connection.execute(
                "INSERT INTO positions (id, key, fen, start_fen, moves, history_known, ply, side, phase, pieces, "
                "origin, game_id, run_id) VALUES (?, ?, '', '', x'', 0, 0, 0, 2, 5, 'game', 1, 1)",
                (i, key),
            )
            connection.execute("UPDATE plays SET z = ?, result = 'x' WHERE key = ?", ((1.0, 0.0, None)[i - 1], key))
        connection.execute("UPDATE plays SET z = 0 WHERE key = ? AND number >= 4", (keys[0],))
        found = outcomes_of(store)
        assert (found.ids.tolist(), found.games.tolist(), found.z.tolist()) == ([1, 2], [2, 2], [0.5, 0.0])
        columns = {"position_id": [1, 2, 3], "game_id": [1, 2, 2], "net_q": [0.9, 0.6, 0.0], "deep_q": [0.1, 0.5, 0.0]}
        frame = pd.DataFrame({**columns, "disagreement": [0.8, 0.1, np.nan]})
        told = stats.played_from(store, frame)
        assert told is not None
        assert (told.positions, told.games, told.deep_nearer.count) == (2, 4, 1)
        assert told.net_error == pytest.approx((0.4**2 + 0.6**2) / 2)
        assert told.deep_error == pytest.approx((0.4**2 + 0.5**2) / 2)
        assert told.gain.difference == pytest.approx(0.055)
        assert told.gain.low < told.gain.difference < told.gain.high
        assert stats.played_from(store, frame.iloc[2:]) is None


def test_a_run_that_breaks_keeps_its_games(
    tmp_path: Path, maia_file: str, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = PgnWriter.write, list[str]()

    def breaks(writer: PgnWriter, text: str) -> None:
        if len(written) == 3:
            raise ValueRepairError("games.pgn: No space left on device")
        written.append(text)
        write(writer, text)

    monkeypatch.setattr(PgnWriter, "write", breaks)
    assert "No space left" in refused(run(tmp_path, maia_file))
    assert (tmp_path / "games.pgn").read_text() == "".join(written)
    assert len(plays(tmp_path / "a.db")) == 3
    with Store.open(tmp_path / "a.db") as store:
        assert store.connection.execute("SELECT state FROM runs").fetchall() == [("interrupted",)]
    monkeypatch.undo()
    done = run(tmp_path, maia_file)
    assert "3 of 4 games are played already; resuming\n" in done.stderr
    assert "4 of 4 games are played already\n" in run(tmp_path, maia_file).stderr
    assert len(plays(tmp_path / "a.db")) == 4


@pytest.mark.slow
def test_resignations_are_measured(tmp_path: Path, maia_file: str, book: Path) -> None:
    more = ["--resign", "20", "--repeat", "8", "--json", "--set", "max_plies=120"]
    told = json.loads(run(tmp_path, maia_file, *more).stdout)
    games = [PlayedGame.of_written(game) for game in read_written(tmp_path / "games.pgn")[0]]
    assert told["resign"]["taken"] == sum(game.ending == "resigned" for game in games) > 0
    due = [game for game in games if game.would_resign is not None and game.z is not None]
    assert told["resign"]["due"] == len(due) > 0
    assert all(game.ending != "resigned" for game in due)


@pytest.mark.slow
def test_the_real_lc0_plays_too(tmp_path: Path, maia_file: str, book: Path) -> None:
    more = ["--engine", "lc0", "--temperature", "0", "--training", str(tmp_path / "chunks")]
    done = run(tmp_path, maia_file, *more)
    assert done.exit_code == 0, done.output
    assert len(read_written(tmp_path / "games.pgn")[0]) == 4
    assert not any("Seed" in game.tags for game in read_written(tmp_path / "games.pgn")[0])
    assert len(plays(tmp_path / "a.db")) == 4
    assert run(tmp_path, maia_file, *more, "--repeat", "2").exit_code == 0
    assert len(read_written(tmp_path / "games.pgn")[0]) == 8
