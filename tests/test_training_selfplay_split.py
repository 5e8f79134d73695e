"""`vr selfplay`: the training records of a game end where it reaches what is held out; by python-chess."""

from __future__ import annotations

import gzip
import os
import random
from dataclasses import replace
from pathlib import Path

import chess
import chess.pgn
import pytest

import valuerepair as vr
from tests import random_nets
from tests.held_out import NO_KEYS, hold_out, split, store_of
from tests.test_training_records import fake_game, fake_search
from valuerepair.chess import v6
from valuerepair.chess.board import keys as keys_of
from valuerepair.chess.board import parse_fens
from valuerepair.chess.positions import Position
from valuerepair.chess.rows import Keys
from valuerepair.errors import UsageError
from valuerepair.play.game import GameRecord, Thought
from valuerepair.play.lc0_selfplay import Lc0Chunks
from valuerepair.play.referee import DrawRule, Rules
from valuerepair.store.parts import Split
from valuerepair.store.store import Store
from valuerepair.training.judged import held_out_keys
from valuerepair.training.records import ChunkWriter, RecordFacts, game_records
from valuerepair.training.selfplay import HeldOutCut, SelfplayOptions

ROOKS = "4k3/r7/8/8/8/8/R6P/4K3 w - - 0 1"


def records_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def boards_of(game: GameRecord) -> list[chess.Board]:
    """The board before each move, the book's too."""
    board, boards = chess.Board(game.start_fen), []
    for move in game.moves:
        boards.append(board.copy())
        board.push_uci(move)
    return boards


def position_of(fen: str, *moves: str) -> Position:
    """The position after `moves` (UCI) from a FEN."""
    board = chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    return Position(board.fen(), fen, moves, board.ply(), int(keys_of(parse_fens([board.fen()]))[0]))


def scripted(start: str, moves: str, book: int) -> GameRecord:
    """A game of these moves (UCI), the first of them the book's."""
    board, thoughts = chess.Board(start), []
    for move in moves.split():
        thoughts.append(Thought(move, search=fake_search(board, random.Random(1))))
        board.push_uci(move)
    done = tuple(thought.move for thought in thoughts[:book])
    return replace(fake_game(start, 1), book=done, thoughts=tuple(thoughts[book:]))


def written(folder: Path, game: GameRecord, held: Split, keys: Keys = NO_KEYS) -> Path:
    path = ChunkWriter(folder, RecordFacts(), free=HeldOutCut(held, keys).free).write(game)
    assert path is not None
    return path


QUEENS_OFF = ("4k3/8/8/2r1q3/2R1Q3/8/8/4K3 w - - 0 1", "e1d1 e8f8 e4e5 c5e5 d1d2 e5e4 c4e4")
SICILIAN = (chess.STARTING_FEN, "e2e4 c7c5 g1f3 d7d6 d2d4")


@pytest.mark.parametrize(
    ("moves", "held", "book", "left"),
    [
        # Rook against rook after four moves; a rook is lost in the end.
        *((QUEENS_OFF, split(materials=["KRvKR"]), *counts) for counts in ((0, 4), (3, 1), (4, 0))),
        *((SICILIAN, split(openings=["Sicilian Defense"]), *counts) for counts in ((0, 2), (1, 1), (2, 0))),
        (QUEENS_OFF, split(materials=["KQvKQ"]), 0, 7),
        (SICILIAN, split(openings=["French Defense"]), 0, 5),
    ],
)
def test_records_end_before_the_first_position_of_a_held_out_family(
    tmp_path: Path, moves: tuple[str, str], held: Split, book: int, left: int
) -> None:
    game = scripted(*moves, book)
    path = written(tmp_path, game, held)
    assert path.exists() == (left > 0)
    if left:
        assert records_of(path) == game_records(game, RecordFacts()).tobytes()[: left * v6.RECORD.itemsize]


def test_records_end_before_a_position_that_is_held_out(tmp_path: Path) -> None:
    game = fake_game(chess.STARTING_FEN, 3, book=3, plies=20)
    reached = position_of(chess.STARTING_FEN, *game.moves[:11])
    path = hold_out(store_of(tmp_path / "a.db", reached), split(games=1 - 1e-12))
    with Store.open(path) as store:
        keys = held_out_keys(store)
    assert keys.tolist() == [reached.key]
    chunk = written(tmp_path / "chunks", game, split(), keys)
    first = next(
        i for i, board in enumerate(boards_of(game)) if i >= 3 and board.epd() == chess.Board(reached.fen).epd()
    )
    assert records_of(chunk) == game_records(game, RecordFacts()).tobytes()[: (first - 3) * v6.RECORD.itemsize]


@pytest.mark.parametrize(("opening", "left"), [("Sicilian Defense", 2), ("King's Pawn Game", 0), ("French Defense", 5)])
def test_lc0s_own_file_is_cut_before_it_has_its_name(
    tmp_path: Path, opening: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = scripted(*SICILIAN, 0 if left else 1)
    records = game_records(played, RecordFacts())
    game = replace(played, thoughts=tuple(replace(thought, search=None) for thought in played.thoughts))
    made = tmp_path / "of-lc0.gz"
    made.write_bytes(gzip.compress(records.tobytes()))
    chunks = Lc0Chunks(tmp_path)
    chunks.path(game.number).write_bytes(b"of a run that was killed")
    chunks.cut = HeldOutCut(split(openings=[opening]), NO_KEYS).cut
    named: list[bytes] = []
    monkeypatch.setattr(os, "replace", lambda source, target: named.append(records_of(source)))
    chunks.keep(game, made)
    assert named == ([records.tobytes()[: left * v6.RECORD.itemsize]] if left else [])
    assert chunks.path(game.number).exists() == (left > 0)
    assert chunks.write(game) == chunks.path(game.number)


def test_a_game_whose_records_are_all_held_out_has_no_chunk_and_its_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    named, replaced = list[str](), os.replace

    def noted(source: Path, target: str) -> None:
        named.append(Path(target).name)
        replaced(source, target)

    monkeypatch.setattr(os, "replace", noted)
    kind = random_nets.BY_NAME["se-dense-policy"]
    random_nets.write(kind, tmp_path / "my-net.pb.gz")
    fens = (ROOKS, "4k3/q7/8/8/8/8/R6P/4K3 w - - 0 1")
    (tmp_path / "book.epd").write_text("".join(f"{chess.Board(fen).epd()}\n" for fen in fens))
    db = hold_out(store_of(tmp_path / "a.db", position_of(ROOKS)), split(materials=["KRvKR"]))
    options = SelfplayOptions(
        net=str(tmp_path / "my-net.pb.gz"),
        nodes=4,
        rules=Rules(draw=DrawRule(1, 2, 1)),
        training=str(tmp_path / "chunks"),
    )
    book, output = tmp_path / "book.epd", tmp_path / "selfplay.pgn"
    vr.selfplay(book, output, db, options)
    assert "held out: 2 of 4 training records of the games played now were left out" in said
    with (tmp_path / "selfplay.pgn").open() as file:
        games = [game for game in iter(lambda: chess.pgn.read_game(file), None) if game]
    assert {game.headers["Round"]: game.headers["Chunk"] for game in games} == {"1": "held out", "2": "game_000001.gz"}
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == ["game_000001.gz"]
    assert "game_000001.gz" in named
    assert "game_000000.gz" not in named  # a kill at any time leaves nothing that is held out
    before = (tmp_path / "selfplay.pgn").read_bytes()
    vr.selfplay(book, output, db, options)
    assert output.read_bytes() == before
    with pytest.raises(UsageError, match="is of another run"):
        vr.selfplay(book, output, None, options)
