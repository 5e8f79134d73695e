"""`lc0 selfplay` driven: the games it reports are the games it played, its records go with them, nothing is lost."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import chess
import numpy as np
import psutil
import pytest
from click.testing import CliRunner

from tests.lc0_selfplay import play
from tests.play_doubles import white_played
from tests.v6_records import positions_of, read_chunk
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import open_net
from valuerepair.play.game import CHECKMATE, DRAW_AGREED, RESIGNED, RULES, TOO_LONG
from valuerepair.play.lc0_selfplay import (
    Lc0Chunks,
    Lc0Settings,
    arguments,
    parse_ready,
    play_with_lc0,
    search_options,
    write_book,
)
from valuerepair.play.openings import Opening, read_openings
from valuerepair.play.pgn import read_written

BOOK = """[Event "a"]

1. e4 c5 2. Nf3 d6 *

[FEN "r3k2r/8/8/8/8/8/PPPPPPPP/R3K2R w KQkq - 0 1"]

*

[FEN "4k3/8/8/8/8/8/4P3/4K3 w - - 5 39"]

1. e4 Kd7 *

[FEN "6k1/5ppp/8/8/8/8/5PPP/3R2K1 b - - 0 1"]

*

"""


@pytest.fixture(scope="session")
def maia(shared_data: Path) -> Path:
    return shared_data / "nets" / "maia-1900.pb.gz"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.pgn"
    path.write_text(BOOK)
    return path


# -- the real lc0 -----------------------------------------------------------------------------------------------------


def test_games_are_those_that_lc0_plays_by_itself(lc0: str, maia: Path, book: Path, tmp_path: Path) -> None:
    theirs = play(
        lc0,
        book,
        f"--weights={maia}",
        *("--visits=3", "--resign-percentage=25", "--minibatch-size=1", "--history-fill-new=fen_only", "--training"),
    )
    assert theirs is not None
    openings = read_openings(book, strict=True)
    settings = Lc0Settings(maia, visits=3, resign=25, parallel=1, lc0=lc0, name="maia")
    ours = list(play_with_lc0(openings, settings, chunks=Lc0Chunks(tmp_path / "chunks")))
    assert [game.number for game in ours] == [game.opening for game in ours] == [0, 1, 2, 3]
    for game, other, opening in zip(ours, theirs, openings, strict=True):
        assert game.result == other.result
        assert (game.start_fen, game.book) == (opening.start_fen, opening.moves)
        board = chess.Board(game.start_fen)
        for move, raw in zip(game.moves, other.moves[: len(game.moves)], strict=True):
            assert chess.Move.from_uci(move) in board.legal_moves  # castling as e1g1
            assert board.parse_uci(raw) == chess.Move.from_uci(move)
            board.push_uci(move)
        outcome = board.outcome(claim_draw=True)
        assert (game.ending in RULES) == (outcome is not None)
        assert outcome is None or outcome.result() == game.result
        chunk = tmp_path / "chunks" / f"game_{game.number:06d}.gz"
        assert chunk.exists() == (other.chunk is not None) == (len(game.thoughts) > 0)
        if other.chunk is not None:
            assert read_chunk(chunk).tobytes() == read_chunk(other.chunk).tobytes()
    assert sum(game.ending in RULES for game in ours) < 4
    assert len(list((tmp_path / "chunks").iterdir())) >= 2


@pytest.mark.slow
def test_thoughts_are_the_records_values(lc0: str, maia: Path, book: Path, tmp_path: Path) -> None:
    settings = Lc0Settings(maia, visits=4, parallel=4, resign=15, lc0=lc0)
    games = list(
        play_with_lc0(read_openings(book), settings, numbers=[7, 9, 11, 20], chunks=Lc0Chunks(tmp_path / "chunks"))
    )
    assert {game.number: game.opening for game in games} == {7: 0, 9: 1, 11: 2, 20: 3}
    for game in filter(lambda played: played.thoughts, games):
        own = read_chunk(tmp_path / "chunks" / f"game_{game.number:06d}.gz")
        assert [t.nodes for t in game.thoughts] == own["visits"].tolist()
        np.testing.assert_allclose([t.q or 0.0 for t in game.thoughts], own["best_q"])
        for thought, q, d in zip(game.thoughts, own["best_q"], own["best_d"], strict=True):
            assert thought.wdl is not None
            assert sum(thought.wdl) == 1000
            assert (thought.wdl[0] - thought.wdl[2]) / 1000 == pytest.approx(q, abs=2e-3)
            assert thought.wdl[1] / 1000 == pytest.approx(d, abs=2e-3)
        z = np.array([1.0 if white_played(game, i) else -1.0 for i in range(len(own))]) * (game.z or 0)
        np.testing.assert_array_equal(own["result_q"], z)


def test_without_chunks_nothing_is_left(
    lc0: str, maia: Path, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    games = list(play_with_lc0(read_openings(book)[:1], Lc0Settings(maia, visits=2, resign=100, lc0=lc0)))
    assert [(game.ending, game.thoughts) for game in games] == [(RESIGNED, ())]
    assert not list((tmp_path / "tmp").iterdir())


# -- settings and books -----------------------------------------------------------------------------------------------


def test_options_of_the_real_lc0(lc0: str, maia: Path) -> None:
    settings = Lc0Settings(maia, lc0=lc0, extra=("cpuct=1.5", "no-two-fold-draws"))
    words = arguments(settings, 5)
    assert words[1:3] == ["selfplay", "--training"]
    assert {"--games=5", "--parallelism=5", "--minibatch-size=1", "--temperature=0", "--noise-epsilon=0"} < set(words)
    assert {"--history-fill-new=fen_only", "--openings-mode=sequential", "--resign-percentage=0"} < set(words)
    assert words[-2:] == ["--cpuct=1.5", "--no-two-fold-draws"]
    with pytest.raises(UsageError, match="lc0 option nosuch: this lc0 does not have it"):
        arguments(Lc0Settings(maia, lc0=lc0, extra=("nosuch=1",)), 5)


def test_the_options_of_a_search_are_all_known(lc0: str, maia: Path) -> None:
    options = search_options(SearchParams(cpuct=2.5, two_fold_draws=False))
    assert {"cpuct=2.5", "no-two-fold-draws", "policy-softmax-temp=1.359", "sticky-endgames"} < set(options)
    assert not {"temperature", "certainty", "n-scl"} & {option.partition("=")[0] for option in options}
    assert len(arguments(Lc0Settings(maia, lc0=lc0, extra=options), 1)) == len(options) + 13


@pytest.mark.slow
def test_the_same_search_plays_the_same_moves(lc0: str, maia: Path, book: Path) -> None:
    """Move by move, of the real lc0 with these options and of the built-in MCTS, which is exact where lc0 is."""
    params = SearchParams(temp_visit_offset=0)
    settings = Lc0Settings(
        maia, visits=30, parallel=1, resign=40, lc0=lc0, extra=(*search_options(params), "nncache=0")
    )
    (game,) = play_with_lc0(read_openings(book)[:1], settings)
    assert len(game.thoughts) >= 4
    with open_net(str(maia)) as net:
        evaluator = NetEvaluator(net)
        forest = Forest(evaluator, params, trees=8, nodes=30)
        played = [len(game.book) + i for i in range(len(game.thoughts))]
        positions = [positions_of(game.moves, game.start_fen)[i] for i in played]
        best_moves = {i: result.best_move for i, result in forest.search(positions, 30)}
    agreed = sum(best_moves[i] == thought.move for i, thought in enumerate(game.thoughts))
    assert agreed >= len(game.thoughts) - 1  # sums in another order may turn a tie


def test_settings_that_make_no_sense(maia: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="visits 1: lc0 selfplay takes 2 to"):
        Lc0Settings(maia, visits=1)
    with pytest.raises(ValueRepairError, match="/nowhere/lc0: no such program"):
        arguments(Lc0Settings(maia, lc0="/nowhere/lc0"), 1)
    net = tmp_path / "net.onnx"
    net.write_bytes(b"\x08\x07" + bytes(64))
    with pytest.raises(ValueRepairError, match=r"plays with its own nets \(.pb.gz\)"):
        arguments(Lc0Settings(net), 1)


def test_an_opening_that_lc0_cannot_play_from(tmp_path: Path) -> None:
    over = "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"
    openings = [Opening(0, STARTPOS_FEN, (), STARTPOS_FEN, 0), Opening(4, over, (), over, 0)]
    with pytest.raises(ValueRepairError, match="opening 5 of the book: lc0 plays no game from the end of this entry"):
        write_book(tmp_path / "book.pgn", openings)


def test_black_to_move_and_moves_are_written_so_that_lc0_reads_them(tmp_path: Path) -> None:
    start = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 2"
    board = chess.Board(start)
    for move in ("b8c6", "g1f3", "g8f6"):
        board.push_uci(move)
    write_book(tmp_path / "book.pgn", [Opening(0, start, ("b8c6", "g1f3", "g8f6"), board.fen(), 0)])
    (read,) = read_openings(tmp_path / "book.pgn", strict=True)
    assert (read.fen, len(read.moves)) == (board.fen(), 2)


@pytest.mark.parametrize(
    "line",
    [
        "gameready",
        "gameready gameid 0 play_start_ply 0 player1 white moves e2e4",
        "gameready gameid x play_start_ply 0 player1 white result draw moves e2e4",
        "gameready gameid 0 play_start_ply",
    ],
)
def test_lines_that_cannot_be_read(line: str) -> None:
    with pytest.raises(ValueRepairError, match="lc0 wrote a line that cannot be read: gameready"):
        parse_ready(line)


def test_a_line_with_blanks_in_the_path() -> None:
    line = (
        "gameready trainingfile /a b/ gameid 3 play_start_ply 9/game.gz gameid 12 play_start_ply 2 result draw moves a"
    )
    assert parse_ready(line).chunk == Path("/a b/ gameid 3 play_start_ply 9/game.gz")
    assert parse_ready(line).game == 12
    fen = "8/8/8/8/8/8/8/K1k5 w - - 0 1"
    ready = parse_ready(f"gameready gameid 0 play_start_ply 0 player1 white result draw from_fen {fen}")
    assert (ready.moves, ready.start_fen, ready.chunk) == ((), fen, None)


# -- failures, with a scripted lc0 ------------------------------------------------------------------------------------

START = Opening(0, STARTPOS_FEN, (), STARTPOS_FEN, 0)
OPENINGS = [Opening(i, STARTPOS_FEN, (), STARTPOS_FEN, 0) for i in range(5)]


@pytest.fixture
def fake(tmp_path: Path, maia: Path, monkeypatch: pytest.MonkeyPatch) -> Lc0Settings:
    program = tmp_path / "lc0"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {Path(__file__).with_name("fake_lc0.py")} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FAKE_LC0", str(tmp_path / "script"))
    (tmp_path / "script").write_text("")
    return Lc0Settings(maia, lc0=str(program))


def processes_below() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]


def test_a_run_to_its_end(fake: Lc0Settings, tmp_path: Path) -> None:
    games = list(play_with_lc0(OPENINGS, fake, chunks=Lc0Chunks(tmp_path / "chunks")))
    assert [(game.number, game.result, game.ending) for game in games] == [(i, "0-1", CHECKMATE) for i in range(5)]
    assert [thought.q for thought in games[0].thoughts] == [None] * 4  # records that do not fit the moves
    assert not processes_below()


def test_death_in_the_middle_and_going_on(fake: Lc0Settings, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("die-after 2")
    running, done = play_with_lc0(OPENINGS, fake, chunks=Lc0Chunks(tmp_path / "chunks")), []
    done += [next(running).number, next(running).number]
    with pytest.raises(ValueRepairError, match=r"SIGABRT: .*the backend fell over after 2 of 5 games"):
        next(running)
    assert done == [0, 1]
    assert sorted(path.name for path in (tmp_path / "chunks").iterdir()) == ["game_000000.gz", "game_000001.gz"]
    assert not processes_below()
    (tmp_path / "script").write_text("")
    with pytest.raises(UsageError, match="not empty"):
        list(play_with_lc0(OPENINGS, fake, chunks=Lc0Chunks(tmp_path / "chunks")))
    rest = play_with_lc0(OPENINGS[2:], fake, numbers=[2, 3, 4], chunks=Lc0Chunks(tmp_path / "chunks"), resume=True)
    assert [(game.number, game.opening) for game in rest] == [(2, 2), (3, 3), (4, 4)]
    assert len(list((tmp_path / "chunks").iterdir())) == 5


def test_castling_is_written_as_uci_does(fake: Lc0Settings, tmp_path: Path) -> None:
    moves = "e2e4 e7e5 g1f3 g8f6 f1c4 f8c5 e1h1 e8h8"
    (tmp_path / "script").write_text(
        f"line 0 gameready gameid 0 play_start_ply 0 player1 white result draw moves {moves}"
    )
    (game,) = play_with_lc0([START], fake)
    assert game.moves[-2:] == ("e1g1", "e8g8")
    assert (game.result, game.ending) == ("1/2-1/2", DRAW_AGREED)


def test_the_command_goes_on_after_a_death(fake: Lc0Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.play.lc0_selfplay.find_lc0", lambda: fake.lc0)
    (tmp_path / "book.epd").write_text(f"{STARTPOS_FEN}\n" * 5)
    (tmp_path / "script").write_text("die-after 2")
    output, chunks = tmp_path / "games.pgn", tmp_path / "chunks"
    words = f"selfplay {tmp_path}/book.epd --engine lc0 --net {fake.weights} --nodes 4 --db {tmp_path}/a.db -q".split()
    words += ["-o", str(output), "--training", str(chunks)]
    died = CliRunner().invoke(cli, words)
    assert isinstance(died.exception, ValueRepairError)
    assert "after 2 of 5 games; they are kept, and the same command resumes" in str(died.exception)
    assert output.read_text().count('[Result "0-1"]') == 2
    (tmp_path / "script").write_text("")
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert output.read_text().count('[Result "0-1"]') == 5
    assert sorted(path.name for path in chunks.iterdir()) == [f"game_{i:06d}.gz" for i in range(5)]
    for game in read_written(output)[0]:  # rounds count from 1, lc0's files from 0: the tag says which is whose
        assert game.tags["Chunk"] == f"game_{int(game.tags['Round']) - 1:06d}.gz"


def test_a_dropped_game_comes_last_and_undecided(fake: Lc0Settings, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("drop 1")
    games = list(play_with_lc0(OPENINGS[:3], fake))
    assert [(game.number, game.result) for game in games] == [(0, "0-1"), (2, "0-1"), (1, "*")]
    assert (games[-1].ending, games[-1].detail) == (TOO_LONG, "lc0 drops games that reach ply 450")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gameready nonsense", "a line that cannot be read"),
        ("gameready gameid 0 play_start_ply 0 player1 white result draw moves e2e5", "e2e5, which is illegal in rnbq"),
        ("gameready gameid 0 play_start_ply 1 player1 white result draw moves e2e4", "it misread the book"),
        ("gameready gameid 0 play_start_ply 1 player1 white result draw moves e2e5", "it misread the book"),
    ],
)
def test_lies(fake: Lc0Settings, tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "script").write_text(f"line 0 {line}")
    with pytest.raises(ValueRepairError, match=message):
        list(play_with_lc0([START], fake))
    assert not processes_below()


def test_no_orphans_after_ctrl_c(fake: Lc0Settings, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("hang-after 1\nchild")
    program = (
        "import sys\nfrom valuerepair.play.lc0_selfplay import play_with_lc0\n"
        "from valuerepair.play.lc0_selfplay import Lc0Chunks, Lc0Settings\nfrom tests.play_doubles import INITIAL\n"
        "for game in play_with_lc0([INITIAL] * 3, Lc0Settings(sys.argv[1], lc0=sys.argv[2]),\n"
        "                          chunks=Lc0Chunks(sys.argv[3])):\n    print(game.number, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(fake.weights), str(fake.lc0), str(tmp_path / "chunks")]
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=os.environ
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "0\n"
    below = psutil.Process(parent.pid).children(recursive=True)
    assert len(below) >= 2  # lc0, its child
    parent.send_signal(signal.SIGINT)
    parent.wait(10)
    parent.stdout.close()
    _, alive = psutil.wait_procs(below, timeout=5)
    assert all(process.status() == psutil.STATUS_ZOMBIE for process in alive)
    left = sorted(path.name for path in (tmp_path / "chunks").iterdir() if not path.name.startswith("."))
    assert left == ["game_000000.gz"]
    assert len(list((tmp_path / "chunks").iterdir())) == 1
