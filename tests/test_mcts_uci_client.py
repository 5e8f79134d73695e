"""The search as a UCI engine through python-chess's engine client, over a fake and a real net, beside lc0."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import chess
import chess.engine
import pytest

MATED = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1"
MATE_IN_1 = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"


@pytest.fixture(scope="module")
def engine() -> Iterator[chess.engine.SimpleEngine]:
    with chess.engine.SimpleEngine.popen_uci([sys.executable, "-m", "tests.uci_fake_net"], timeout=120) as client:
        yield client


def test_python_chess_plays_a_game(engine: chess.engine.SimpleEngine) -> None:
    board = chess.Board()
    while not board.is_game_over() and board.ply() < 30:
        played = engine.play(board, chess.engine.Limit(nodes=50), game="one", info=chess.engine.INFO_ALL)
        assert played.move is not None
        assert board.is_legal(played.move)
        assert played.info["nodes"] >= 50
        assert played.info["pv"][0] == played.move
        board.push(played.move)


def test_python_chess_plays_by_the_clock_and_ponders(engine: chess.engine.SimpleEngine) -> None:
    board, left = chess.Board(), {chess.WHITE: 3.0, chess.BLACK: 3.0}
    for _ in range(10):
        limit = chess.engine.Limit(white_clock=left[True], black_clock=left[False], white_inc=0.05, black_inc=0.05)
        begun = time.monotonic()
        played = engine.play(board, limit, game="two", ponder=True)
        left[board.turn] += 0.05 - (time.monotonic() - begun)
        assert left[board.turn] > 0
        assert played.move is not None
        board.push(played.move)
        if played.ponder is not None and played.ponder in board.legal_moves:
            board.push(played.ponder)  # so that it was right to ponder on it: ponderhit


def test_python_chess_analyses_several_lines(engine: chess.engine.SimpleEngine) -> None:
    board = chess.Board("r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3")
    found = engine.analyse(board, chess.engine.Limit(nodes=400), multipv=3)
    assert [info["multipv"] for info in found] == [1, 2, 3]
    assert len({info["pv"][0] for info in found}) == 3
    assert all(info["pv"][0] in board.legal_moves and info["score"].turn == chess.BLACK for info in found)
    some = engine.analyse(board, chess.engine.Limit(nodes=60), root_moves=[chess.Move.from_uci("a7a6")])
    assert some["pv"][0] == chess.Move.from_uci("a7a6")


def test_python_chess_stops_an_analysis_in_the_middle(engine: chess.engine.SimpleEngine) -> None:
    with engine.analysis(chess.Board(), chess.engine.Limit(), info=chess.engine.INFO_ALL) as analysis:
        for info in analysis:
            if info.get("nodes", 0) > 200:
                break
        begun = time.monotonic()
        analysis.stop()
        best = analysis.wait()
    assert best.move is not None
    assert chess.Board().is_legal(best.move)
    assert time.monotonic() - begun < 3


def test_python_chess_sets_options_and_finished_games_have_no_move(engine: chess.engine.SimpleEngine) -> None:
    engine.configure({"CPuct": "2.5", "Certainty": True, "MinibatchSize": 8, "Hash": 64})
    assert engine.play(chess.Board(MATE_IN_1), chess.engine.Limit(nodes=100)).move == chess.Move.from_uci("a1a8")
    assert engine.play(chess.Board(MATED), chess.engine.Limit(nodes=100)).move is None
    engine.configure({"CPuct": "1.745", "Certainty": False, "MinibatchSize": 1})
    engine.ping()


def test_vr_uci_with_a_real_net_gives_the_golden_numbers(shared_data: Path) -> None:
    """Those of lc0 0.32.1, plain and deterministic, with bytes that are no text in between."""
    net = shared_data / "nets" / "maia-1900.pb.gz"
    lines = b"uci\n\xff\xfe\x00\nposition startpos\ngo nodes 100\nucinewgame\n"
    lines += b"position fen 8/8/8/8/4k3/8/4P3/4K3 w - - 0 1\ngo nodes 100\n"
    options = ["--net", str(net), "--set", "Lc0Floats=true", "--set", "UCI_ShowWDL=true", "--set", "MinibatchSize=1"]
    command = [sys.executable, "-m", "valuerepair", "uci", *options]
    done = subprocess.run(command, input=lines, capture_output=True, timeout=200, check=True)
    said = done.stdout.decode().splitlines()
    finals = [a for a, b in pairwise(said) if b.startswith("bestmove")]
    assert [re.sub(r".*(score cp \S+ wdl \d+ \d+ \d+).*", r"\1", line) for line in finals] == [
        "score cp 53 wdl 488 51 461",
        "score cp 58 wdl 232 758 10",
    ]
    assert [line for line in said if line.startswith("bestmove")] == [
        "bestmove e2e4 ponder c7c5",
        "bestmove e1f2 ponder e4f4",
    ]
    assert done.stderr == b""


def test_verbose_statistics_are_those_of_lc0(lc0: str, shared_data: Path) -> None:
    """Move, index, N, P, U and S of every root move, digit for digit, from lc0 and from `vr uci`."""
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    fen = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
    plain: dict[str, str | int | None] = {"MinibatchSize": 1, "VerboseMoveStats": True}
    # Without a cache of evaluations prefetching is lost work, which makes lc0 many times slower.
    theirs: dict[str, str | int | None] = {
        "WeightsFile": net,
        "Threads": 1,
        "SmartPruningFactor": "0",
        "NNCacheSize": 0,
        "MaxPrefetch": 0,
    }
    theirs |= {"TaskWorkers": 0, "SolidTreeThreshold": 2_000_000_000, "MovesLeftMaxEffect": "0"}
    own = [sys.executable, "-m", "valuerepair", "uci", "--net", net, "--set", "Lc0Floats=true"]
    stats = []
    for command, options in (([lc0, "--config="], theirs), (own, {})):
        with chess.engine.SimpleEngine.popen_uci(command, timeout=120) as client:
            client.configure({**plain, **options})
            strings: list[str] = []
            with client.analysis(chess.Board(fen), chess.engine.Limit(nodes=100)) as analysis:
                strings += [info["string"] for info in analysis if "string" in info]
        pattern = re.compile(r"(\S+)\s+(\(\d+ *\)) (N: .*? )\(WL.*(\(U: .*?\) \(S: .*?\))")
        stats.append([found.groups() for text in strings if (found := pattern.match(text))])
    assert len(stats[0]) == 48
    assert stats[0] == stats[1]


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_a_signal_in_the_middle_of_a_search_ends_the_engine(shared_data: Path, signal_number: int, code: int) -> None:
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    command = [sys.executable, "-m", "valuerepair", "uci", "--net", net]
    engine = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert engine.stdin is not None
    assert engine.stdout is not None
    engine.stdin.write("go infinite\n")
    while "info depth" not in engine.stdout.readline():
        pass
    engine.send_signal(signal_number)
    _, said = engine.communicate(timeout=20)
    assert (engine.returncode, said) == (code, "vr: interrupted\n")
