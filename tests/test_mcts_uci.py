"""The search as a UCI engine: the protocol in this process, and through python-chess's engine client."""

from __future__ import annotations

import math
import queue
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import chess
import chess.engine
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.uci_fake_net import MaterialNet, open_material_net
from valuerepair.errors import UsageError
from valuerepair.mcts.evaluator import Evaluations, Leaves
from valuerepair.mcts.params import PARAMETERS, SearchParams
from valuerepair.mcts.result import RootMove, SearchResult
from valuerepair.mcts.search import Search
from valuerepair.mcts.uci.clock import TimeManager, is_settled, moves_left
from valuerepair.mcts.uci.go import Go, parse_go
from valuerepair.mcts.uci.info import Shown, info_lines, verbose_lines
from valuerepair.mcts.uci.options import PARAMETER_NAMES, EngineSettings, option_lines, with_option
from valuerepair.mcts.uci.score import Score, score_of
from valuerepair.mcts.uci.server import UciServer
from valuerepair.mcts.uci.split import SplitEvaluator
from valuerepair.positions import STARTPOS_FEN, Position

NAN = float("nan")
MATED, STALEMATE = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "7k/5K2/6Q1/8/8/8/8/8 b - - 0 1"
MATE_IN_1 = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"
ONE_MOVE = "8/8/8/8/8/2k5/8/K6r w - - 0 1"


def move(name: str, visits: int, wl: float = NAN, d: float = NAN, **more: object) -> RootMove:
    base: dict[str, object] = {"prior": 0.1, "m": 3.0, "certain": None, "mate": None, "pv": (name,)}
    return RootMove(name, visits, q=wl, wl=wl, d=d, **{**base, **more})  # type: ignore[arg-type]  # fields by name


def result(*moves: RootMove, nodes: int = 100, wl: float = 0.03, d: float = 0.05) -> SearchResult:
    return SearchResult(nodes, nodes, wl, wl, d, 3.0, wl, moves, 4, 9)


# -- in this process --------------------------------------------------------------------------------------------------


class Gui:
    """The other side of a server: `send` lines, `until` a line comes."""

    def __init__(self) -> None:
        self._to: queue.Queue[str | None] = queue.Queue()
        self._from: queue.Queue[str] = queue.Queue()
        self.server = UciServer(open_material_net, self._from.put)
        self._thread = threading.Thread(target=self.server.run, args=(iter(self._to.get, None),), daemon=True)
        self._thread.start()

    def send(self, *lines: str) -> None:
        for line in lines:
            self._to.put(line + "\n")

    def until(self, start: str, seconds: float = 60.0) -> list[str]:
        """The lines up to the first that begins with `start`."""
        lines = [self._from.get(timeout=seconds)]
        while not lines[-1].startswith(start):
            lines.append(self._from.get(timeout=seconds))
        return lines

    def ask(self, *lines: str, until: str = "bestmove") -> list[str]:
        self.send(*lines)
        return self.until(until)

    def quiet(self, seconds: float) -> bool:
        """Whether no line but `info` comes for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                if not self._from.get(timeout=left).startswith("info"):
                    return False
            except queue.Empty:
                return True
        return True

    def close(self) -> None:
        self.send("quit")
        self._thread.join(20)
        assert not self._thread.is_alive()


@contextmanager
def gui(*options: str) -> Iterator[Gui]:
    side = Gui()
    side.send(*(f"setoption name {option}" for option in options))
    side.ask("isready", until="readyok")
    yield side
    side.close()


def field(line: str, name: str) -> int:
    found = re.search(rf"\b{name} (-?\d+)", line)
    assert found is not None, line
    return int(found[1])


def test_the_handshake_offers_every_parameter() -> None:
    with gui() as side:
        lines = side.ask("uci", until="uciok")
    offered = {found[1] for line in lines if (found := re.match(r"option name (\S+) type", line))}
    assert {*PARAMETER_NAMES, "minibatch_size"} == set(PARAMETERS)
    assert offered >= set(PARAMETER_NAMES.values()) | {"WeightsFile", "Threads", "MultiPV", "UCI_ShowWDL", "Ponder"}
    assert lines[0].startswith("id name valuerepair ")


def test_go_nodes_is_exact_and_every_info_line_is_legal() -> None:
    with gui("UCI_ShowWDL value true") as side:
        *lines, last = side.ask("position startpos moves e2e4 e7e5", "go nodes 500")
    board = chess.Board()
    for uci in ("e2e4", "e7e5"):
        board.push_uci(uci)
    infos = [line for line in lines if line.startswith("info depth")]
    for line in infos:
        pv = line.split(" pv ")[1].split()
        copy = board.copy()
        for uci in pv:
            copy.push_uci(uci)
        found = re.search(r"wdl (\d+) (\d+) (\d+)", line)
        assert found is not None
        assert sum(map(int, found.groups())) == 1000
    assert field(infos[-1], "nodes") == 500
    assert last.split()[1] == infos[-1].split(" pv ")[1].split()[0]
    assert last.split()[3] == infos[-1].split(" pv ")[1].split()[1]
    assert "wdl" in infos[-1]


def test_stop_in_the_middle_and_isready_at_any_time() -> None:
    with gui() as side:
        side.send("position startpos", "go infinite")
        side.until("info depth")
        assert side.ask("isready", until="readyok")[-1] == "readyok"
        assert side.quiet(0.3)
        begun = time.monotonic()
        answer = side.ask("stop")
        assert time.monotonic() - begun < 1.0
        assert answer[-1].startswith("bestmove ")
        # A second stop, and one without a search, change nothing.
        assert side.ask("stop", "stop", "isready", until="readyok") == ["readyok"]


def test_a_finished_infinite_search_waits_for_stop() -> None:
    with gui("Certainty value true") as side:
        side.send(f"position fen {MATE_IN_1}", "go infinite")
        assert side.quiet(0.7)  # it is proven, and must not be told yet
        *_, info, best = side.ask("stop")
    assert "score mate 1 " in info
    assert best == "bestmove a1a8"


def test_pondering_becomes_a_search_by_the_clock() -> None:
    with gui("SmartPruningFactor value 0", "MoveOverheadMs value 0") as side:
        side.send("position startpos moves e2e4 e7e5", "go ponder wtime 4000 btime 4000 movestogo 20")
        assert side.quiet(0.5)
        begun = time.monotonic()
        side.ask("ponderhit")
        # 4 s over 20 moves, times the bonus of the first move of a game at ply 2: 2.8 + 2 * 0.25.
        assert time.monotonic() - begun == pytest.approx(0.66, abs=0.35)
        side.send("position startpos moves e2e4 e7e5 g1f3", "go ponder wtime 4000 btime 4000")
        assert side.ask("stop")[-1].startswith("bestmove")


def test_the_clock_is_kept() -> None:
    with gui("SmartPruningFactor value 0") as side:
        begun = time.monotonic()
        side.ask("position startpos", "go movetime 300")
        assert time.monotonic() - begun == pytest.approx(0.3, abs=0.2)
        begun = time.monotonic()
        side.ask("go wtime -50 btime 100000 winc 0")
        assert time.monotonic() - begun < 0.3


def test_with_a_clock_what_is_settled_is_played_at_once() -> None:
    with gui("Certainty value true") as side:
        for fen in (MATE_IN_1, ONE_MOVE):
            board = chess.Board(fen)
            begun = time.monotonic()
            best = side.ask(f"position fen {fen}", "go wtime 600000 btime 600000")[-1].split()[1]
            assert time.monotonic() - begun < 2
            assert chess.Move.from_uci(best) in board.legal_moves


def test_multipv_and_searchmoves() -> None:
    with gui("MultiPV value 3") as side:
        lines = side.ask("position startpos", "go nodes 300")
        last = lines[-4:-1]
        assert [field(line, "multipv") for line in last] == [1, 2, 3]
        assert len({line.split(" pv ")[1].split()[0] for line in last}) == 3
        lines = side.ask("go nodes 200 searchmoves a2a3 h2h4 e2e5")
    assert "info string searchmoves: e2e5 is not legal here" in lines
    assert {line.split(" pv ")[1].split()[0] for line in lines if " pv " in line} == {"a2a3", "h2h4"}


def test_depth_and_mate_limits_end_a_search() -> None:
    with gui("Certainty value true") as side:
        *_, info, _ = side.ask("position startpos", "go depth 3")
        assert field(info, "depth") >= 3
        *_, info, best = side.ask(f"position fen {MATE_IN_1}", "go mate 1")
    assert "score mate 1 " in info
    assert best == "bestmove a1a8"


def test_game_over() -> None:
    with gui() as side:
        assert side.ask(f"position fen {MATED}", "go nodes 5") == ["info depth 0 score mate 0", "bestmove (none)"]
        assert side.ask(f"position fen {STALEMATE}", "go movetime 50") == ["info depth 0 score cp 0", "bestmove (none)"]


@pytest.mark.parametrize(
    "line",
    [
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position fen 4k3/8/8/8/8/8/4R3/4K3 w - - 0 1",
        "position startpos moves e2e5",
        "position fen",
        "position",
        "position fen rnbqkbnr/pppppppp w",
        "position startpos moves e2e4 " + "x" * 5000,
    ],
)
def test_an_illegal_position_is_told_and_searched_by_nobody(line: str) -> None:
    with gui() as side:
        lines = side.ask("position startpos", line, "go nodes 10")
        assert lines[0].startswith("info string position ")
        assert lines[-2:] == ["info string error: there is no legal position to search", "bestmove 0000"]
        assert all(len(text) < 500 for text in lines)
        assert side.ask("position startpos", "go nodes 10")[-1].startswith("bestmove ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("go nodes", "go: nodes : must be a whole number of at least 1"),
        ("go nodes 0", "go: nodes 0: must be a whole number of at least 1"),
        ("go nodes -5", "go: nodes -5: must be a whole number of at least 1"),
        ("go wtime abc", "go: wtime abc: must be a whole number"),
        ("go searchmoves", "go: searchmoves: no moves follow"),
        ("go fast", "go: 'fast' is not understood"),
    ],
)
def test_a_go_that_is_not_understood_has_an_answer(words: str, said: str) -> None:
    with gui() as side:
        assert side.ask("position startpos", words) == [f"info string {said}", "bestmove 0000"]


def test_options_in_a_search_are_set_after_it_and_wrong_ones_told() -> None:
    with gui() as side:
        side.send("position startpos", "go infinite")
        side.until("info depth")
        lines = side.ask("setoption name MultiPV value 2", "isready", until="readyok")
        assert "info string option MultiPV is set when the search has ended" in lines
        assert field(side.ask("stop")[-2], "multipv") == 1
        assert field(side.ask("go nodes 900")[-2], "multipv") == 2
        wrong = side.ask("setoption name CPut value 1", "setoption name CPuct value x", "isready", until="readyok")
        assert wrong == [
            "info string error: no option 'CPut'; did you mean CPuct?",
            "info string error: option CPuct=x: must be a number",
            "readyok",
        ]
        assert side.ask("setoption", "isready", until="readyok")[0].startswith("info string setoption ")


def test_a_net_that_cannot_be_opened_is_told_and_another_one_taken() -> None:
    with gui() as side:
        lines = side.ask("setoption name WeightsFile value missing", "isready", until="readyok")
        assert lines == ["info string error: missing: no such net file", "readyok"]
        assert side.ask("position startpos", "go nodes 5")[-1] == "bestmove 0000"
        lines = side.ask("setoption name WeightsFile value other", "isready", until="readyok")
        assert lines == ["info string material counter other", "readyok"]
        assert side.ask("go nodes 5")[-1].startswith("bestmove ")


def test_commands_after_a_search_with_a_limit_wait_for_it_and_the_end_of_input_too() -> None:
    said: list[str] = []
    server = UciServer(open_material_net, said.append)
    lines = ["position startpos", "go nodes 2000", "position startpos moves e2e4", "go nodes 300", "go infinite"]
    server.run(lines)
    assert [field(a, "nodes") for a, b in pairwise(said) if b.startswith("best")][:2] == [2000, 300]
    assert sum(line.startswith("bestmove ") for line in said) == 3


def test_a_gui_that_is_gone_ends_the_engine() -> None:
    def write(line: str) -> None:
        if line.startswith("info depth"):
            raise BrokenPipeError

    server = UciServer(open_material_net, write)
    begun = time.monotonic()
    server.run(["position startpos", "go nodes 100000000"])
    assert time.monotonic() - begun < 20


def test_the_tree_is_kept_in_a_game_and_dropped_for_a_new_one() -> None:
    with gui() as side:
        best = side.ask("position startpos", "go nodes 3000")[-1]
        first, reply = best.split()[1], best.split()[3]
        later = side.ask(f"position startpos moves {first} {reply}", "go nodes 1")
        assert field(later[-2], "nodes") > 20
        fresh = side.ask("ucinewgame", f"position startpos moves {first} {reply}", "go nodes 1")
        assert field(fresh[-2], "nodes") == 1


def test_temperature_varies_games_but_not_proven_wins() -> None:
    with gui("Temperature value 1", "Certainty value true") as side:
        openings = {side.ask("ucinewgame", "position startpos", "go nodes 60")[-1].split()[1] for _ in range(12)}
        assert len(openings) > 2
        assert {side.ask("ucinewgame", f"position fen {MATE_IN_1}", "go nodes 60")[-1] for _ in range(4)} == {
            "bestmove a1a8"
        }


def test_garbage_does_no_harm() -> None:
    dice = random.Random(5)
    text = (
        "go nodes position startpos fen moves e2e4 stop setoption name value MultiPV 7 -1 infinite isready ucinewgame "
        "ponderhit \x00 ü 0x1 9999999999999999999999 wtime searchmoves register debug on xyzzy"
    )
    words = text.split()
    with gui() as side:
        for _ in range(300):
            side.send(" ".join(dice.choices(words, k=dice.randrange(1, 7))))
            side.send("stop")
        side.send("setoption name MultiPV value 1", "ucinewgame", "position startpos", "go nodes 77")
        while not any(" nodes 77 " in line for line in side.until("bestmove")):
            pass


GO_WORDS = ("nodes", "wtime", "5", "-3", "x", "infinite", "ponder", "searchmoves", "e2e4", "mate", "0")


@given(st.lists(st.sampled_from(GO_WORDS)))
def test_go_is_parsed_or_refused_with_a_reason(words: list[str]) -> None:
    try:
        go = parse_go(words)
    except ValueError:
        return
    assert go.infinite == ("infinite" in words)
    assert go.nodes is None or go.nodes >= 1


# -- through python-chess ---------------------------------------------------------------------------------------------


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
    """lc0-facts.md, 4.11, through the command line, with bytes that are no text in between."""
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


# -- the parts --------------------------------------------------------------------------------------------------------


def test_every_parameter_can_be_set_by_its_uci_name_and_shows_in_the_handshake() -> None:
    values = {bool: "true", int: "7", float: "0.5", str: ""}
    words = {"fpu_strategy": "absolute", "fpu_strategy_at_root": "absolute", "history_fill": "no"}
    words |= {"cpuct_base": "5", "cpuct_base_at_root": "5"}
    for parameter, name in PARAMETER_NAMES.items():
        before = getattr(SearchParams(), parameter)
        text = words.get(parameter, "false" if before is True else values[type(before)])
        after = getattr(with_option(EngineSettings(), name.upper(), text).params, parameter)
        assert after != before or parameter == "syzygy"
        (line,) = (one for one in option_lines(EngineSettings()) if one.startswith(f"option name {name} "))
        assert line.startswith(f"option name {name} type ")
    assert with_option(EngineSettings(), "NScl", "0").params.n_scl == 0
    assert with_option(EngineSettings(), "SyzygyPath", "<empty>").params.syzygy == ""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Threads", "-1", "option Threads=-1: must be a whole number from 0 to 1024"),
        ("Ponder", "maybe", "option Ponder=maybe: must be true or false"),
        ("Device", "tpu", "option Device=tpu: must be one of auto, cpu, cuda, tensorrt"),
        ("SmartPruningFactor", "x", "option SmartPruningFactor=x: must be a number from 0 to 100"),
        ("NScl", "-3", "option NScl=-3: must be a whole number of at least 1, or inf"),
        ("FpuStrategy", "odd", "option FpuStrategy=odd: must be one of reduction, absolute"),
        ("Wdl", "1", "no option 'Wdl'"),
    ],
)
def test_wrong_options_say_what_is_right(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_option(EngineSettings(), name, value)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("wl", "d", "expected"),
    [
        (0.0, 1.0, Score(0, None, (0, 1000, 0))),
        (1.0, 0.0, Score(12800, None, (1000, 0, 0))),
        (-1.0, 0.0, Score(-12800, None, (0, 0, 1000))),
        # 100 * mu: the mean of the logistic whose parts are W, D and L.
        (0.2, 0.5, Score(47, None, (350, 500, 150))),
        (-0.2, 0.5, Score(-47, None, (150, 500, 350))),
    ],
)
def test_scores(wl: float, d: float, expected: Score) -> None:
    best = move("e2e4", 10, wl, d)
    found = score_of(best, result(best))
    assert found == expected
    mirrored = score_of(move("e2e4", 10, -wl, d), result(best))
    assert (mirrored.cp, mirrored.wdl) == (-(expected.cp or 0), expected.wdl[::-1])
    if 0 < d < 1:
        w, loss = (1 + wl - d) / 2, (1 - wl - d) / 2
        a, b = math.log(1 / loss - 1), math.log(1 / w - 1)
        assert found.cp == int(100 * (a - b) / (a + b))


def test_scores_without_a_wdl_head_mates_and_moves_without_visits() -> None:
    best = move("e2e4", 10, 0.2, 0.0)
    assert score_of(best, result(best), has_wdl=False).cp == int(45 * math.tan(1.56728071628 * 0.2))
    assert score_of(move("e2e4", 3, -1.0, 0.0, certain=-1, mate=-4), result(best)) == Score(None, -4, (0, 0, 1000))
    assert score_of(move("e2e4", 0), result(best, wl=0.2, d=0.5)).wdl == (350, 500, 150)


def test_info_line() -> None:
    best = move("e2e4", 60, 0.2, 0.5, pv=("e2e4", "c7c5"))
    assert info_lines(result(best, nodes=250), 0.5, 200, Shown(show_wdl=True, room=1000)) == [
        "info depth 4 seldepth 9 time 500 nodes 250 score cp 47 wdl 350 500 150 nps 400 hashfull 250 multipv 1 "
        "pv e2e4 c7c5"
    ]


def test_verbose_lines_are_as_lc0_writes_them() -> None:
    """Read by the pattern that reads lc0's own; S - U is Q; the root comes last."""
    fen = "4k3/8/8/8/8/8/3PP3/4K2R w K - 0 1"
    moves = (move("e1g1", 60, 0.25, 0.5, prior=0.5), move("e2e4", 39, -0.125, 0.5, prior=0.2), move("d2d4", 0))
    lines = verbose_lines(result(*moves), fen, SearchParams())
    pattern = re.compile(r"info string (\S+)\s+\(\s*(\d+)\s*\) N:\s+(\d+) \(\+\s*(\d+)\) \(P:\s*([\d.]+)%\)(.*)")
    found = [pattern.match(line) for line in lines]
    assert [m and (m[1], int(m[2]), int(m[3])) for m in found] == [
        ("d2d4", 293, 0),
        ("e2e4", 322, 39),
        ("e1h1", 103, 60),
        ("node", 3, 100),
    ]
    for line, one in zip(lines[1:3], (moves[1], moves[0]), strict=True):
        numbers = re.search(r"\(U:\s*([\d.]+)\) \(S:\s*(-?[\d.]+)\)", line)
        assert numbers is not None
        u, s = map(float, numbers.groups())
        assert s - u == pytest.approx(one.q, abs=2e-5)
        exploration = (1.745 + 3.894 * math.log((100 + 38739) / 38739)) * math.sqrt(99)
        assert u == pytest.approx(one.prior * exploration / (1 + one.visits), abs=1e-5)


def test_the_time_manager_divides_the_clock_as_lc0_does() -> None:
    go = Go(wtime=60_000, btime=30_000, winc=1_000, binc=0)
    manager = TimeManager()
    manager.budget(go, white=True, ply=20, overhead_ms=200)  # the first move has a bonus
    moves = 51.5 * (1 + 2 * (10 / 51.5) ** 7) ** (1 / 7) - 10
    assert moves_left(20) == pytest.approx(moves)
    expected = (60_000 + 1_000 * (moves - 1) - 200) / moves / 1000
    assert manager.budget(go, white=True, ply=20, overhead_ms=200) == pytest.approx(expected)
    assert manager.budget(go, white=False, ply=20, overhead_ms=200) == pytest.approx(29.8 / moves)
    assert manager.budget(Go(wtime=5000, movestogo=5), white=True, ply=20, overhead_ms=0) == pytest.approx(1.0)
    assert manager.budget(Go(btime=5000), white=True, ply=20, overhead_ms=0) is None
    # What a move saves, the next one has.
    plain = manager.budget(go, white=True, ply=20, overhead_ms=200) or 0
    manager.spent(plain, plain - 0.5)
    more = manager.budget(go, white=True, ply=20, overhead_ms=200) or 0
    assert more == pytest.approx(plain + 0.5 - 0.5 / moves)


@given(st.integers(-1000, 10**7), st.integers(0, 10**5), st.integers(0, 600), st.integers(0, 100), st.integers(0, 5000))
def test_no_more_time_is_planned_than_there_is(left: int, inc: int, ply: int, togo: int, overhead: int) -> None:
    manager = TimeManager()
    for _ in range(4):
        go = Go(wtime=left, winc=inc, movestogo=togo or None)
        budget = manager.budget(go, white=True, ply=ply, overhead_ms=overhead)
        assert budget is not None
        assert 0 <= budget <= max(0, left - overhead) / 1000
        manager.spent(budget, budget / 3)


def test_when_thinking_changes_nothing() -> None:
    close = result(move("e2e4", 500, 0.1, 0.5), move("d2d4", 490, 0.1, 0.5))
    clear = result(move("e2e4", 900, 0.1, 0.5), move("d2d4", 90, 0.1, 0.5))
    assert not is_settled(close, 1000, 1.0, 1.0, 1.33)
    assert not is_settled(clear, 1000, 1.0, 1.0, 1.33)
    assert is_settled(clear, 1000, 1.0, 0.7, 1.33)
    assert not is_settled(clear, 1000, 1.0, 0.7, 0.0)
    assert not is_settled(clear, 1000, 0.1, 0.01, 1.33)
    won = result(move("e2e4", 9, 1.0, 0.0, certain=1), move("d2d4", 90, 0.1, 0.5))
    only = result(move("e2e4", 9, 0.0, 0.5), move("d2d4", 9, -1.0, 0.0, certain=-1))
    assert is_settled(won, 10, 0.0, 9.0, 1.33)
    assert is_settled(only, 10, 0.0, 9.0, 1.33)
    assert is_settled(result(move("e2e4", 9, 0.0, 0.5)), 10, 0.0, 9.0, 1.33)


def test_the_starting_position_is_searched_where_none_was_given() -> None:
    with gui() as side:
        best = side.ask("go nodes 5")[-1].split()[1]
    assert chess.Move.from_uci(best) in chess.Board(STARTPOS_FEN).legal_moves


@pytest.mark.parametrize("streams", [1, 2, 3, 8])
def test_leaves_spread_over_cores_get_the_same_values(streams: int) -> None:
    dice = np.random.default_rng(1)
    whole, sizes = MaterialNet(), []

    def recording(leaves: Leaves) -> Evaluations:
        sizes.append(len(leaves.masks))
        return whole(leaves)

    split = SplitEvaluator(recording, streams)
    for n in (1, 2, 5, 16):
        counts = dice.integers(1, 40, n)
        leaves = Leaves(
            dice.integers(0, 2**63, (n, 112), np.uint64),
            np.zeros(n, np.float32),
            dice.integers(0, 1858, counts.sum(), np.uint16),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )
        sizes.clear()
        for ours, theirs in zip(split(leaves), whole(leaves), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert sum(sizes) == n
        assert len(sizes) == min(n, streams)
        assert max(sizes) - min(sizes) <= 1
    split.close()


def test_several_leaves_at_once_make_fewer_calls_and_as_many_visits() -> None:
    calls = {}
    for minibatch in (1, 8):
        net = MaterialNet()
        search = Search(net, SearchParams(minibatch_size=minibatch))
        search.set_position(Position(STARTPOS_FEN))
        assert search.run(nodes=400).nodes == 400
        calls[minibatch] = net.calls
    assert calls[8] < calls[1] / 3
