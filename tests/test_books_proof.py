"""The proof: real lc0 plays a game from every entry of a mined book, and each begins at the intended position."""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
from pathlib import Path

import chess
import chess.pgn
import pandas as pd
import pytest

from tests.lc0_selfplay import main, play
from tests.mining_doubles import mine_by_key
from valuerepair.archives.options import SampleOptions
from valuerepair.books.check import check_book
from valuerepair.books.write import write_books
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.mining.mine import MineOptions
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[1]


def _random_games(folder: Path) -> None:
    """Games from FEN starts, White and Black to move, with and without e.p. square and castling rights."""
    starts = (
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 3 12",
        "rnbqkbnr/ppp1pppp/8/8/3pP3/5N2/PPPP1PPP/RNBQKB1R b KQkq e3 0 3",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N w - - 0 30",
        "4rrk1/pp1n3p/3q2pQ/2p1pb2/2PP4/2P3N1/P2B2PP/4RRK1 b - - 7 19",
    )
    dice = random.Random(7)
    with (folder / "starts.pgn").open("w") as file:
        for number in range(15):
            board = chess.Board(starts[number % len(starts)])
            for _ in range(24):
                if legal := list(board.legal_moves):
                    board.push(dice.choice(legal))
            game = chess.pgn.Game.from_board(board)
            game.headers.update({"White": rf"\"{number}\" [x]", "Black": r"B\\", "Event": "{e; $1}"})
            print(game, file=file, end="\n\n")


def _ep_obstacle(folder: Path) -> None:
    """A piece moves to the square of a possible e.p. capture, which lc0 cannot read."""
    moves = "1. e4 Nc6 2. e5 e6 3. Na3 Nge7 4. Nb5 d5 5. Nd6+ cxd6 6. exd6 Nf5 7. d7+ Bxd7 8. Nf3 Be7 9. Bb5 O-O 1-0"
    (folder / "obstacle.pgn").write_text(f'[Event "e.p."]\n\n{moves}\n')


def _lone_positions(folder: Path, shared_data: Path) -> None:
    lines = (shared_data / "epd" / "STS1-STS15_LAN_v6.epd").read_text().splitlines()
    (folder / "alone.epd").write_text("\n".join(lines[::150]) + "\n")


def _mined(folder: Path, files: dict[str, int]) -> pd.DataFrame:
    """The candidates of a store mined from the files (so many positions a game) with stand-ins for net and oracle."""
    for file, per_game in files.items():
        options = MineOptions(sample=SampleOptions(per_game=per_game, min_ply=1))
        mine_by_key(folder / file, folder / "a.db", options=options)
    with Store.open(folder / "a.db") as store:
        return view.candidates(store, Question(threshold=0.05, alpha=170.0))


_AT_ONCE = ("--backend=trivial", "--visits=1", "--resign-percentage=100")
_FEW_NODES = ("--backend=eigen", "--visits=2", "--minibatch-size=1", "--resign-percentage=45")


@pytest.mark.parametrize("engine", [_AT_ONCE, _FEW_NODES], ids=["at-once", "by-maia"])
def test_lc0_begins_each_game_at_the_intended_position(
    lc0: str, shared_data: Path, tmp_path: Path, engine: tuple[str, ...]
) -> None:
    _random_games(tmp_path)
    _ep_obstacle(tmp_path)
    _lone_positions(tmp_path, shared_data)
    games = (shared_data / "pgn" / "lichess-blitz.pgn").read_bytes().split(b"\n\n[Event ")[:12]
    (tmp_path / "blitz.pgn").write_bytes(b"\n\n[Event ".join(games) + b"\n")
    candidates = _mined(tmp_path, {"starts.pgn": 2, "obstacle.pgn": 20, "alone.epd": 1, "blitz.pgn": 2})

    with Store.open(tmp_path / "a.db") as store:
        manifest = write_books(store, tmp_path, Question(threshold=0.05, alpha=170.0))
    facts = manifest.files["book.pgn"]
    epd = [chess.Board.from_epd(line)[0].fen() for line in (tmp_path / "book.epd").read_text().splitlines()]
    assert set(epd) <= set(candidates["fen"])
    assert len(set(epd)) == len(candidates) - sum(manifest.left_out.values())
    assert check_book(tmp_path / "book.pgn") == check_book(tmp_path / "book.epd") == []
    # The book has all that is to be proved: both sides, with and without FEN starts and moves.
    black_starts = candidates["start_fen"].str.contains(" b ") & (candidates["moves"] != "")
    assert black_starts.sum() >= 3
    assert candidates["moves"].str.contains(" d7d5 b5d6").sum() >= 3
    assert min(facts.white_to_move, facts.black_to_move) >= 12
    assert facts.positions > facts.with_moves > 20
    assert min(facts.from_fen, facts.positions - facts.from_fen) >= 12

    if engine == _FEW_NODES:
        weights = f"--weights={shared_data / 'nets' / 'maia-1900.pb.gz'}"
        played = play(lc0, tmp_path / "book.pgn", *engine, weights, games=12)
        assert played is not None
        assert [game.book_end for game in played] == epd[:12]
        assert sum(len(game.moves) > game.book_plies for game in played) > 5
        return
    played = play(lc0, tmp_path / "book.pgn", *engine)
    assert played is not None
    assert len(played) == facts.positions
    assert [game.book_end for game in played] == epd
    assert sum(game.book_plies > 0 for game in played) == facts.with_moves
    assert sum(game.start_fen != STARTPOS_FEN for game in played) == facts.from_fen


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["none", "stockfish"])
def test_the_readmes_command_makes_a_book_that_lc0_takes(
    lc0: str, stockfish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    """With Stockfish and without; .ci/run does it with the installation."""
    monkeypatch.setenv("VALUEREPAIR_STOCKFISH", choice)
    (tmp_path / "data").symlink_to(ROOT / "data")
    command = (ROOT / ".ci" / "commands").read_text().splitlines()[0].removeprefix("mine_command: ")
    assert command in (ROOT / "README.md").read_text("utf-8")
    calls = [words[1:] for words in map(shlex.split, command.split(" && ")) if words[0].endswith("/vr")]
    assert [words[0] for words in calls] == ["mine", "books"]
    for words in calls:
        subprocess.run([sys.executable, "-m", "valuerepair", *words], cwd=tmp_path, check=True, timeout=900)
    assert main(lc0, tmp_path / "valuerepair-books" / "book.pgn") is None
    with Store.open(tmp_path / "valuerepair.db") as store:
        found = view.candidates(store, Question(threshold=0.55))
    assert len(found) >= 3
    assert found.attrs["oracle"]["label"].startswith("stockfish" if choice == "stockfish" else "valuerepair")
