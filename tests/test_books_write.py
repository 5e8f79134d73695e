"""What is written is read back as it was meant: by python-chess, by our own reader and by lc0; and whole files."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli_tree import SAMPLE
from tests.lc0_selfplay import play
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.books.check import GAME_PLY_LIMIT, Entry, read_book
from valuerepair.books.choose import BookOptions
from valuerepair.books.write import BookLine, candidate_epd, epd_line, pgn_entry, write_books
from valuerepair.cli import cli
from valuerepair.cli.train import selfplay
from valuerepair.errors import ValueRepairError
from valuerepair.mining.mine import MineOptions
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.store import Store

START = chess.STARTING_FEN
STARTS = (
    START,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 3 12",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/5N2/PPPP1PPP/RNBQKB1R b KQkq e3 0 3",
    "r1bqkb1r/ppp1nppp/2n1p3/1N1pP3/8/8/PPPP1PPP/R1BQKBNR w KQkq d6 0 5",
)
EP_MOVES = ["e2e4", "b8c6", "e4e5", "e7e6", "b1a3", "g8e7", "a3b5", "d7d5", "b5d6"]  # to a square of a possible e.p.

games = st.tuples(st.sampled_from(STARTS), st.lists(st.integers(0, 10_000), max_size=40))


def _game(start: str, choices: list[int]) -> chess.Board:
    board = chess.Board(start)
    for choice in choices:
        if legal := sorted(board.legal_moves, key=chess.Move.uci):
            board.push(legal[choice % len(legal)])
    return board


def _line(start: str, moves: list[str]) -> BookLine:
    board = chess.Board(start)
    for move in moves:
        board.push_uci(move)
    return BookLine.of(start, moves, board.fen())


def _read(pgn: str) -> list[Entry]:
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book.pgn"
        book.write_bytes(pgn.encode())
        return read_book(book)


@settings(max_examples=60)
@given(st.lists(games, min_size=1, max_size=5), st.text(max_size=40))
def test_random_games_come_back_with_their_histories(drawn: list[tuple[str, list[int]]], name: str) -> None:
    boards, text = [_game(*game) for game in drawn], ""
    for board, (start, _) in zip(boards, drawn, strict=True):
        line = BookLine.of(start, [move.uci() for move in board.move_stack], board.fen())
        text += pgn_entry(line, {"Event": name, "White": name[::-1], "Result": "*"})
    stream, entries = io.StringIO(text), _read(text)
    assert all(not entry.problem or "plays no game" in entry.problem for entry in entries)
    for board, entry, (start, _) in zip(boards, entries, drawn, strict=True):
        game = chess.pgn.read_game(stream)
        assert game is not None
        assert not game.errors
        end = game.end().board()
        assert end.fen() == entry.fen == board.fen()
        # Of the history there is all, or what follows an obstacle.
        assert end.move_stack == board.move_stack[len(board.move_stack) - len(end.move_stack) :]
        assert [move.uci() for move in end.move_stack] == [*entry.moves]
        assert end.move_stack == board.move_stack or start != START or _has_obstacle(board)
    assert chess.pgn.read_game(stream) is None


def _has_obstacle(board: chess.Board) -> bool:
    """Whether a piece moves to the square of a possible e.p. capture on the way."""
    replayed = board.root()
    for move in board.move_stack:
        is_pawn = replayed.piece_type_at(move.from_square) == chess.PAWN
        if move.to_square == replayed.ep_square and not is_pawn and replayed.has_pseudo_legal_en_passant():
            return True
        replayed.push(move)
    return False


@given(st.text(), st.text(max_size=10))
@settings(max_examples=200)
def test_no_text_in_a_tag_or_an_operand_breaks_an_entry(hostile: str, other: str) -> None:
    fen = "4k3/8/8/8/8/8/4P3/4K3 b - - 5 39"
    text = pgn_entry(_line(fen, []), {"Event": hostile, "White": f'"]\n[FEN "{START}"]\n\n1. e4 {other}{hostile}'})
    assert [(entry.problem, entry.fen) for entry in _read(text + text)] == [("", fen)] * 2
    game = chess.pgn.read_game(io.StringIO(text))
    assert game is not None
    assert game.board().fen() == fen
    epd = epd_line(chess.Board(fen), {"id": hostile, "c0": f'"; hmvc 99; {other}\n'})
    assert len(epd.splitlines()) == 1
    board, operations = chess.Board.from_epd(epd)
    assert board.fen() == fen
    assert set(operations) == {"c0", "id", "hmvc", "fmvn"}


def test_a_names_quotes_and_backslashes_are_escaped() -> None:
    text = pgn_entry(_line(START, ["e2e4"]), {"White": 'Tal "Misha" \\ [Riga]\nLatvia'})
    assert text.splitlines()[0] == r'[White "Tal \"Misha\" \\ [Riga] Latvia"]'


def test_a_line_begins_where_lc0_can_read_on() -> None:
    black = "4k3/8/8/8/8/8/4P3/4K3 b - - 5 39"
    assert _line(black, ["e8d7", "e2e4", "d7d6"]) == BookLine(
        "8/3k4/8/8/8/8/4P3/4K3 w - - 6 40", ("e4", "Kd6"), "8/8/3k4/8/4P3/8/8/4K3 w - - 1 41"
    )
    alone = "8/3k4/8/8/8/8/4P3/4K3 w - - 6 40"
    assert _line(black, ["e8d7"]) == BookLine(alone, (), alone)
    for answer, sans in (([], ()), (["e8d7"], ()), (["e8d7", "a2a3"], ("a3",))):
        assert _line(START, [*EP_MOVES, *answer]).sans == sans
    to_and_fro = ["g1f3", "g8f6", "f3g1", "f6g8"] * 113
    assert _line(START, to_and_fro[: GAME_PLY_LIMIT - 2]).sans
    assert not _line(START, to_and_fro[: GAME_PLY_LIMIT - 1]).sans


def test_an_en_passant_square_is_written_only_where_a_capture_is_legal() -> None:
    pinned = "8/8/8/K2pP2r/8/8/8/4k3 w - d6 0 1"  # exd6 would open the fifth rank to the rook
    line = _line(pinned, [])
    assert line.fen.split()[3] == "-"
    assert epd_line(chess.Board(pinned), {}).split()[3] == "-"


# -- lc0 --------------------------------------------------------------------------------------------------------------


def _random_games(path: Path) -> None:
    """Games from FEN starts, White and Black to move, with and without e.p. square and castling rights."""
    dice = random.Random(7)
    with path.open("w") as file:
        for number in range(21):
            board = chess.Board(STARTS[number % len(STARTS)])
            for _ in range(24):
                if legal := list(board.legal_moves):
                    board.push(dice.choice(legal))
            game = chess.pgn.Game.from_board(board)
            game.headers.update({"White": rf"\"{number}\" [x]", "Black": r"B\\", "Event": "{e; $1}"})
            print(game, file=file, end="\n\n")


def test_lc0_begins_each_game_at_the_intended_position(lc0: str, shared_data: Path, tmp_path: Path) -> None:
    """A mined book: both sides to move, starts of all kinds, an e.p. obstacle, positions alone and parents."""
    _random_games(tmp_path / "starts.pgn")
    moves = "1. e4 Nc6 2. e5 e6 3. Na3 Nge7 4. Nb5 d5 5. Nd6+ cxd6 6. exd6 Nf5 7. d7+ Bxd7 8. Nf3 Be7 9. Bb5 O-O 1-0"
    (tmp_path / "obstacle.pgn").write_text(f'[Event "e.p."]\n\n{moves}\n')
    suite = (shared_data / "epd" / "STS1-STS15_LAN_v6.epd").read_text().splitlines()
    (tmp_path / "alone.epd").write_text("\n".join(suite[::150]) + "\n")
    blitz = (shared_data / "pgn" / "lichess-blitz.pgn").read_bytes().split(b"\n\n[Event ")[:12]
    (tmp_path / "blitz.pgn").write_bytes(b"\n\n[Event ".join(blitz) + b"\n")
    for file, per_game in {"starts.pgn": 2, "obstacle.pgn": 20, "alone.epd": 1, "blitz.pgn": 2}.items():
        options = MineOptions(sample=SampleOptions(per_game=per_game, min_ply=1))
        mine_by_key(tmp_path / file, tmp_path / "a.db", options=options)
    with Store.open(tmp_path / "a.db") as store:
        question = Question(threshold=0.05, alpha=170.0)
        candidates = view.candidates(store, question)
        write_books(store, tmp_path, question, BookOptions(parents=1))

    epd = [chess.Board.from_epd(line)[0].fen() for line in (tmp_path / "book.epd").read_text().splitlines()]
    entries = read_book(tmp_path / "book.pgn")
    assert [entry.problem for entry in entries + read_book(tmp_path / "book.epd") if entry.problem] == []
    # The book has all that is to be proved.
    assert ((candidates["start_fen"].str.contains(" b ")) & (candidates["moves"] != "")).sum() >= 3
    assert candidates["moves"].str.contains(" d7d5 b5d6").sum() >= 3
    for count in (
        sum(" w " in entry.fen for entry in entries),
        sum(" b " in entry.fen for entry in entries),
        sum(bool(entry.moves) for entry in entries),
        sum(not entry.moves for entry in entries),
        sum(bool(entry.moves) and entry.start_fen != START for entry in entries),
    ):
        assert count >= 12
    played = play(lc0, tmp_path / "book.pgn")
    assert played is not None
    assert [game.book_end for game in played] == epd
    assert [(game.start_fen, game.book_plies) for game in played] == [
        (entry.start_fen, len(entry.moves)) for entry in entries
    ]


# -- files ------------------------------------------------------------------------------------------------------------

Vr = Callable[..., Result]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real store, filled by mining random games with stand-ins for net and judge."""
    folder = tmp_path_factory.mktemp("store")
    archive = random_games(folder / "random.pgn", 60)
    mine_by_key(archive, folder / "a.db", options=MineOptions(sample=SampleOptions(per_game=4)))
    return folder / "a.db"


@pytest.fixture
def vr(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vr:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, ["books", *words, "--db", str(db)])


def test_the_books_of_the_sample_are_those_of_the_first_edition(tmp_path: Path) -> None:
    """But for `ce` where the side to move is mated, which its EPD left out."""
    store_file = shutil.copy(SAMPLE, tmp_path / "a.db")
    hashes = {}
    for name, threshold, options in (
        ("plain", 0.35, BookOptions()),
        ("parents", 0.35, BookOptions(parents=4)),
        ("confirmed", 0.55, BookOptions(confirmed=True, limit=10, parents=2)),
    ):
        with Store.open(store_file) as store:
            made = write_books(store, tmp_path / name, Question(threshold=threshold), options)
        hashes[name] = [file.sha256[:12] for file in made.manifest.files.values()]
    assert hashes == {
        "plain": ["8ca6799e86ed", "aa9708420bd7"],
        "parents": ["58654a319043", "a042f3d9e47e"],
        "confirmed": ["008956fd117a", "d92a10ceb9e8"],
    }


def test_the_command_writes_a_sound_book_and_says_what_next(vr: Vr, db: Path, tmp_path: Path) -> None:
    result = vr("--threshold", "0.55", "--parents", "2")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "valuerepair-books"
    assert sorted(p.name for p in folder.iterdir()) == ["book.epd", "book.pgn", "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    with Store.open(db) as store:
        candidates = view.candidates(store, Question(threshold=0.55))
    assert manifest["candidates"] == len(candidates) > 20
    assert (manifest["net"], manifest["alpha"]) == ({"name": "key-net", "sha256": "ab" * 32}, candidates.attrs["alpha"])
    assert (manifest["judge"], manifest["threshold"]) == (candidates.attrs["oracle"], 0.55)
    assert manifest["asked"] == {"q_from": "cp", "confirmed": False, "labels": [], "limit": None, "parents": 2}
    ends = []
    for name, facts in manifest["files"].items():
        content, entries = (folder / name).read_bytes(), read_book(folder / name)
        assert facts == {"sha256": hashlib.sha256(content).hexdigest(), "positions": len(entries)}
        ends.append([entry.fen for entry in entries])
    assert ends[0] == ends[1]  # entry n and line n name the same position
    for reason, number in manifest["left_out"].items():
        assert f"{reason} {number:,}" in result.output
    # Nobody knows where the net of the tests lies: what it says then is no command, and does not look like one.
    *_, hint = result.output.splitlines()
    begin, _, command = hint.partition(": to play games from the book, vr selfplay ")
    assert begin == "the store does not know where the net key-net is"
    # The command line takes it as it stands. Click keeps the option of help that it makes first.
    given = selfplay.make_context("selfplay", shlex.split(command), help_option_names=["-h", "--help"]).params
    assert (given["book"], given["net"], given["training"]) == ("valuerepair-books/book.pgn", "FILE", "book-chunks")


def test_the_same_question_gives_the_same_bytes(vr: Vr, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert vr("--threshold", "0.3", "--parents", "2", "-o", name).exit_code == 0
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_a_full_disk_leaves_the_old_book_and_no_scraps(vr: Vr, tmp_path: Path, monkeypatch: Any) -> None:
    assert vr("--threshold", "0.3", "-o", "out").exit_code == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("valuerepair.files.os.fsync", full)
    for folder in ("out", "new"):
        assert isinstance(vr("--threshold", "0.5", "-o", folder).exception, ValueRepairError)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert not (tmp_path / "new").exists()


# -- candidates as EPD ------------------------------------------------------------------------------------------------


def test_candidates_as_epd_are_read_by_python_chess_and_by_vr_mine(tmp_path: Path) -> None:
    path = tmp_path / "candidates.epd"
    done = CliRunner().invoke(cli, ["export", "--db", str(SAMPLE), "--threshold", "0.35", "-o", str(path)])
    assert done.exit_code == 0, done.output
    with Store.open(SAMPLE) as store:
        rows = view.candidates(store, Question(threshold=0.35)).to_dict("records")
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == len(rows) == 66
    for line, row in zip(lines, rows, strict=True):
        board = chess.Board()
        entry = board.set_epd(line)
        assert board.fen() == row["fen"]
        assert entry["bm"] == [board.parse_uci(row["deep_best"])]
        if pd.isna(row["mate"]):
            assert entry["ce"] == row["cp"]
        elif row["mate"] > 0:
            assert entry["dm"] == row["mate"]
        assert entry["id"] == f"games.pgn.zst#{row['game']} ply {row['ply']}"
    options = SampleOptions(recorded=RecordedOptions("epd"), min_ply=0)
    recorded = {position.fen: position.origin.recorded for batch in sample([str(path)], options, ReadReport())
                for position in batch}  # fmt: skip
    for row in rows:
        found = recorded[row["fen"]]
        assert found is not None
        assert found.best_move == row["deep_best"]
        assert found.mate == row["mate"] if pd.notna(row["mate"]) else found.cp == row["cp"]


@pytest.mark.parametrize(("mate", "operation"), [(1, {"dm": 1}), (-2, {"ce": -32_763}), (0, {"ce": -32_767})])
def test_mates_are_as_the_standard_has_them(mate: int, operation: dict[str, int]) -> None:
    """PGN standard, 16.2.5: a losing mate in N is -32,767 plus 2 N."""
    row = {"fen": "7K/8/5k2/8/8/8/8/6r1 w - - 3 70", "source": "a.pgn", "game": 1, "ply": 138, "deep_best": None}
    line = candidate_epd(row | {"mate": mate, "cp": float("nan")}, {"origin": "given", "value": 170.0})
    assert chess.Board().set_epd(line).items() >= operation.items()
