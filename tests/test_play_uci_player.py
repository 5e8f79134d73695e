"""Engines as players, in games: every way an engine can fail loses that game, and only that; nothing is left behind."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path

import chess
import chess.engine
import psutil
import pytest

from valuerepair.chess.positions import Position
from valuerepair.engines.uci import EngineSetup
from valuerepair.errors import ValueRepairError
from valuerepair.play.game import CRASHED, ILLEGAL_MOVE, OUT_OF_TIME, Fault, GameRecord
from valuerepair.play.openings import Opening, read_openings
from valuerepair.play.referee import Rules
from valuerepair.play.runner import Pairing, play_games
from valuerepair.play.uci_player import UciPlayer

FAKE = str(Path(__file__).with_name("fake_engine.py"))
START = Position(chess.STARTING_FEN)


def fake(*what: str) -> EngineSetup:
    """The scripted engine; with `play` it needs python-chess, so it runs in this environment."""
    return EngineSetup(sys.executable, (FAKE, *what), start_seconds=30.0)


class Opener:
    """Opens players and closes them after the test, after which no child of this process may be left."""

    def __init__(self) -> None:
        self.players: list[UciPlayer] = []

    def __call__(self, *what: str, timeout: float = 5.0, movetime: int = 0, name: str | None = None) -> UciPlayer:
        limits = {"movetime": movetime} if movetime else {"nodes": 10}
        self.players.append(UciPlayer(fake(*what), limits, timeout, name=name))
        return self.players[-1]


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Tests of other files in this process may have left helpers of Python's own."""
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.fixture
def opened() -> Iterator[Opener]:
    opener = Opener()
    yield opener
    for player in opener.players:
        player.close(cancel=True)


@pytest.fixture
def openings(tmp_path: Path) -> list[Opening]:
    path = tmp_path / "book.pgn"
    path.write_text("".join(f'[Event "{move}"]\n\n{move} *\n\n' for move in ("1. e4 e5", "1. d4 d5", "1. c4 c5")))
    return read_openings(path)


def games(
    openings: Sequence[Opening], players: Sequence[UciPlayer], jobs: int = 2, rules: Rules | None = None
) -> list[GameRecord]:
    """Each opening with both colours."""
    pairings = [Pairing(n, openings[n // 2], n % 2, 1 - n % 2) for n in range(2 * len(openings))]
    return sorted(play_games(pairings, players, rules or Rules(), jobs, seed=1), key=lambda record: record.number)


@pytest.mark.parametrize(
    ("what", "ending", "detail"),
    [
        ("crash-on", CRASHED, "was killed by SIGSEGV: assertion failed: king"),
        ("exit-on", CRASHED, "exited with code 3"),
        ("error-on", CRASHED, "says: error The file seems to be unparseable."),
        ("endless-line-on", CRASHED, "wrote a line of more than a mebibyte"),
        ("hang-on", OUT_OF_TIME, "gave no best move in 0.7 s"),
        ("no-best-on", OUT_OF_TIME, "gave no best move in 0.7 s"),
        ("flood-on", OUT_OF_TIME, "gave no best move in 0.7 s"),
        ("illegal-on", ILLEGAL_MOVE, "gave the illegal move e2e5"),
        ("garble-best-on", ILLEGAL_MOVE, "garbled answer 'bestmove e2-e4'"),
    ],
)
@pytest.mark.slow
def test_a_failure_loses_that_game_and_the_others_go_on(
    opened: Opener, openings: list[Opening], what: str, ending: str, detail: str
) -> None:
    """The failing engine has both colours in the second opening, and fails at its first move after ply 5."""
    good = opened("play", "salt=1")
    bad = opened("play", f"{what}=moves d2d4", "at=5", "id=Lc0 v0.32.1", timeout=0.7)
    records = games(openings[:2], (good, bad))
    assert [record.number for record in records] == list(range(4))
    failed = [record for record in records if record.ending in (CRASHED, OUT_OF_TIME, ILLEGAL_MOVE)]
    assert [(r.number, r.result, r.ending, r.detail) for r in failed] == [
        (2, "1-0", ending, detail),
        (3, "0-1", ending, detail),
    ]
    # Black's first move with at least five before it is the sixth ply, White's the seventh.
    assert [len(record.moves) for record in failed] == [5, 6]


def test_an_engine_that_gives_garbage_and_no_score_still_plays(opened: Opener, openings: list[Opening]) -> None:
    records = games(openings[:1], (opened("play"), opened("play", "garbage", "no-score-on=")))
    assert [record.ending in (CRASHED, OUT_OF_TIME, ILLEGAL_MOVE) for record in records] == [False, False]
    scored = [thought.cp is not None for thought in records[0].thoughts]
    assert scored == [i % 2 == 0 for i in range(len(scored))]


@pytest.mark.parametrize("what", ["twice-on", "late-on", "warn-on"])
def test_what_an_engine_says_besides_changes_nothing(opened: Opener, openings: list[Opening], what: str) -> None:
    """A second best move, an info line after it (cutechess and python-chess ignore both), an unknown line."""
    good, odd = opened("play", "no-score-on="), opened("play", "no-score-on=", f"{what}=e2e4")
    one, two = (games(openings[:1], (side, side), jobs=1, rules=Rules(max_plies=40)) for side in (good, odd))
    assert [record.moves for record in two] == [record.moves for record in one]
    assert {thought.cp for record in two for thought in record.thoughts} == {None}


def test_an_engine_that_ends_between_two_moves_loses(opened: Opener, openings: list[Opening]) -> None:
    good, bad = opened("play", "salt=1"), opened("play", "die-after-on=moves e2e4", "at=3")
    for record in games(openings[:1], (good, bad)):
        assert (record.ending, record.detail) == (CRASHED, "exited with code 4")
        assert record.result == ("1-0" if record.number == 0 else "0-1")
        # It plays its first move with at least three before it, the fourth or fifth ply, and no other.
        assert len(record.moves) == (5 if record.number == 0 else 6)


def test_the_time_to_get_ready_is_not_on_the_clock(opened: Opener) -> None:
    player = opened("slow-ready=0.4", movetime=100)
    late = Position("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1", moves=("e2e4",))
    assert player.think(0, START, 0).result(20).seconds < 0.2
    with pytest.raises(Fault, match="gave the illegal move e2e4"):
        player.think(0, late, 0).result(20)


def test_each_running_game_has_a_process_of_its_own_and_later_games_use_it_again(opened: Opener) -> None:
    player = opened("think=0.05")
    futures = [player.think(game, START, 0) for game in range(3)]
    assert {future.result(20).move for future in futures} == {"e2e4"}
    engines = {child.pid for child in psutil.Process().children(recursive=True) if FAKE in child.cmdline()}
    assert len(engines) == 3
    for game in range(3):
        player.forget(game)
    again = [player.think(game, START, 0) for game in range(3, 6)]
    assert {future.result(20).move for future in again} == {"e2e4"}
    assert {c.pid for c in psutil.Process().children(recursive=True) if FAKE in c.cmdline()} == engines


def test_a_time_for_a_move_may_be_overdrawn_by_the_margin_only(opened: Opener) -> None:
    player = opened("slow-on=e2e4", "slow=0.4", movetime=100)
    assert player.think(0, START, 0).result(20).seconds < 0.2
    late = Position("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1", moves=("e2e4",))
    with pytest.raises(Fault, match=r"gave no best move in 0\.2 s") as fault:
        player.think(1, late, 0).result(20)
    assert fault.value.ending == OUT_OF_TIME
    player.forget(1)
    assert player.think(2, START, 0).result(20).move == "e2e4"


def test_a_search_given_up_leaves_no_process(opened: Opener) -> None:
    player = opened("hang-on=startpos moves", timeout=600)
    future = player.think(0, Position(START.fen, moves=("e2e4",)), 0)
    time.sleep(0.3)
    began = time.monotonic()
    player.close(cancel=True)
    assert time.monotonic() - began < 5
    with pytest.raises(CancelledError):
        future.result(0)
    assert not [thread for thread in threading.enumerate() if thread.name == "player"]


def test_an_engine_that_dies_between_games_is_started_anew(opened: Opener, said: list[str]) -> None:
    player = opened()
    assert player.think(0, START, 0).result(20).move == "e2e4"
    for child in psutil.Process().children(recursive=True):
        if FAKE in child.cmdline():
            child.kill()
    player.forget(0)
    assert player.think(1, START, 0).result(20).move == "e2e4"
    assert len(said) <= 1


def test_an_engine_that_no_longer_starts_ends_the_match(opened: Opener, tmp_path: Path) -> None:
    player = opened(f"start-once={tmp_path / 'mark'}")
    with pytest.raises(ValueRepairError, match="no longer starts: exited with code 1: no memory"):
        [player.think(game, START, 0) for game in range(2)][1].result(20)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("crash-on=startpos", "the engine was killed by SIGSEGV: assertion failed: king"),
        ("best=0000", "the engine gave no move although there are legal ones"),
        ("best=(none)", "the engine gave no move although there are legal ones"),
        ("best=e2e5", "the engine gave the illegal move e2e5"),
        ("garble-best-on=startpos", "the engine garbled answer 'bestmove e2-e4'"),
    ],
)
def test_an_engine_that_does_not_work_is_known_at_once(what: str, reason: str) -> None:
    with pytest.raises(ValueRepairError, match=reason):
        UciPlayer(fake(what), {"nodes": 1}, 1.0)


def test_what_our_own_engine_says_of_a_net_that_is_gone_is_known_at_once(tmp_path: Path) -> None:
    options = {"WeightsFile": str(tmp_path / "gone.pb.gz")}
    setup = EngineSetup(sys.executable, ("-m", "valuerepair", "uci"), options)
    with pytest.raises(ValueRepairError, match=r"legal ones; it says: error: .*gone\.pb\.gz: no such net file"):
        UciPlayer(setup, {"movetime": 10}, 1.0)


def test_stockfish_plays_castling_as_the_king_s_move(stockfish: str) -> None:
    """Of a position with one good move, castling; Chess960's way of saying it is understood too."""
    player = UciPlayer(EngineSetup(stockfish), {"nodes": 2000}, 30.0)
    fen = "5k2/8/8/8/8/8/8/4K2R w K - 0 1"
    try:
        thought = player.think(0, Position(fen, fen), 0).result(60)
    finally:
        player.close()
    assert chess.Move.from_uci(thought.move) in chess.Board(fen).legal_moves
    assert thought.nodes > 0
    assert thought.depth > 0
    assert thought.pv[0] == thought.move


def test_king_takes_rook_is_castling(opened: Opener) -> None:
    player = opened("best=e1h1", "best-on=4K2R")
    fen = "4k3/8/8/8/8/8/8/4K2R w K - 0 1"
    assert player.think(0, Position(fen, fen), 0).result(20).move == "e1g1"
