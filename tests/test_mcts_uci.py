"""The search as a UCI engine: over a net that counts material, a real net, and python-chess's client."""

from __future__ import annotations

import math
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import chess.engine
import pytest
from numba.core.dispatcher import Dispatcher

from tests.uci_fake_net import open_material_net
from valuerepair.errors import UsageError
from valuerepair.mcts.params import PARAMETER_NAMES, PARAMETERS, SearchParams
from valuerepair.mcts.result import RootMove, Score, SearchResult, score_of
from valuerepair.mcts.uci import DEFAULT_NODES, EngineSettings, UciServer

MATED = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1"
MATE_IN_1 = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"


class Gui:
    """The other side of a server: `send` lines, `until` a line comes."""

    def __init__(self) -> None:
        self._to: queue.Queue[str | None] = queue.Queue()
        self._from: queue.Queue[str] = queue.Queue()
        server = UciServer(self._from.put, open_net=open_material_net)
        self._thread = threading.Thread(target=server.run, args=(iter(self._to.get, None),), daemon=True)
        self._thread.start()

    def send(self, *lines: str) -> None:
        for line in lines:
            self._to.put(line + "\n")

    def ask(self, *lines: str, until: str = "bestmove") -> list[str]:
        """The lines of the answer, up to the first that begins with `until`."""
        self.send(*lines)
        answer = [self._from.get(timeout=300)]
        while not answer[-1].startswith(until):
            answer.append(self._from.get(timeout=300))
        return answer

    def is_quiet(self, seconds: float) -> bool:
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
    side.ask(*(f"setoption name {option}" for option in options), "isready", until="readyok")
    yield side
    side.close()


def field(line: str, name: str) -> int:
    found = re.search(rf"\b{name} (-?\d+)", line)
    assert found is not None, line
    return int(found[1])


# --- Options


def test_every_parameter_can_be_set_by_its_uci_name_and_shows_in_the_handshake() -> None:
    with gui() as side:
        lines = side.ask("uci", until="uciok")
    assert lines[0].startswith("id name valuerepair ")
    offered = [found[1] for line in lines if (found := re.match(r"option name (\S+) type", line))]
    assert sorted(offered) == sorted([*PARAMETER_NAMES.values(), "WeightsFile", "Device", "Threads", "MinibatchSize"])
    assert {*PARAMETER_NAMES, "minibatch_size"} == set(PARAMETERS)
    values = {bool: "true", int: "7", float: "0.5", str: ""}
    words = {"fpu_strategy": "absolute", "fpu_strategy_at_root": "absolute"}
    words |= {"cpuct_base": "5", "cpuct_base_at_root": "5"}
    for parameter, name in PARAMETER_NAMES.items():
        before = getattr(SearchParams(), parameter)
        text = words.get(parameter, "false" if before is True else values[type(before)])
        assert getattr(EngineSettings().with_option(name.upper(), text).params, parameter) != before
    assert EngineSettings().with_option("NScl", "0").params.n_scl == 0
    assert EngineSettings(weights="a").with_option("WeightsFile", "<empty>").weights == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("Threads", "-1"), ("NScl", "-3"), ("FpuStrategy", "odd"), ("CPuct", "x"), ("CPut", "1")],
)
def test_wrong_options_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        EngineSettings().with_option(name, value)
    with gui() as side:
        told, ready = side.ask(f"setoption name {name} value {value}", "isready", until="readyok")
    assert told.startswith("info string error: ")
    assert name in told
    assert ready == "readyok"


def test_a_net_that_cannot_be_opened_is_told_and_another_one_taken() -> None:
    with gui() as side:
        lines = side.ask("setoption name WeightsFile value missing", "isready", until="readyok")
        assert lines == ["info string error: missing: no such net file", "readyok"]
        assert side.ask("position startpos", "go nodes 5")[-1] == "bestmove (none)"
        lines = side.ask("setoption  name  WeightsFile  value my  net 2.pb.gz ", "isready", until="readyok")
        assert lines == ["info string material counter my  net 2.pb.gz", "readyok"]
        assert side.ask("go nodes 5")[-1].startswith("bestmove ")
        assert chess.Move.from_uci(side.ask("go nodes 5")[-1].split()[1]) in chess.Board().legal_moves


# --- Searches


def test_go_nodes_is_exact_and_its_line_legal() -> None:
    with gui() as side:
        *_, info, last = side.ask("position startpos moves e2e4 e7e5", "go nodes 500")
        assert field(side.ask("go nodes 1")[-2], "nodes") == 1  # each search begins anew
    board = chess.Board()
    for uci in ("e2e4", "e7e5", *info.split(" pv ")[1].split()):
        board.push_uci(uci)
    shares = re.search(r"wdl (\d+) (\d+) (\d+)", info)
    assert shares is not None
    assert sum(map(int, shares.groups())) == 1000
    assert field(info, "nodes") == 500
    assert last.split()[1] == info.split(" pv ")[1].split()[0]


def test_movetime_is_kept_and_other_limits_are_a_fixed_number_of_nodes() -> None:
    with gui() as side:
        begun = time.monotonic()
        side.ask("position startpos", "go movetime 300")
        assert 0.3 <= time.monotonic() - begun < 1
        for words in ("go wtime 60000 btime 60000 winc 1000", "go depth 3", "go", "go foo"):
            assert field(side.ask(words)[-2], "nodes") == DEFAULT_NODES
        told, answer = side.ask("go nodes x")
        assert told.startswith("info string go nodes x")
        assert answer == "bestmove (none)"


def test_stop_ends_a_search_at_once_and_isready_is_answered_in_it() -> None:
    with gui() as side:
        assert side.ask("position startpos", "go infinite", "isready", until="readyok")[-1] == "readyok"
        assert side.is_quiet(0.3)
        begun = time.monotonic()
        assert side.ask("stop")[-1].startswith("bestmove ")
        assert time.monotonic() - begun < 1
        # A second stop, and one without a search, change nothing.
        assert side.ask("stop", "stop", "isready", until="readyok") == ["readyok"]


def test_a_finished_infinite_search_waits_for_stop_or_the_next_search() -> None:
    with gui("Certainty value true") as side:
        side.send(f"position fen {MATE_IN_1}", "go infinite")
        assert side.is_quiet(0.5)  # it is proven, and must not be told yet
        *_, info, best = side.ask("stop")
        assert "score mate 1 " in info
        assert best == "bestmove a1a8"
        side.send("go infinite", "position startpos moves d2d4", "go nodes 3")
        assert side.ask()[-1].startswith("bestmove ")
        assert side.ask()[-1].startswith("bestmove ")


@pytest.mark.parametrize(
    "line",
    [
        f"position fen {MATED}",
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position startpos moves e2e5",
        "position fen",
        "position",
        "position startpos moves e2e4 " + "x" * 5000,
    ],
)
def test_a_position_that_cannot_be_searched_is_told(line: str) -> None:
    with gui() as side:
        lines = side.ask("position startpos", line, "go nodes 10")
        assert lines[-2].startswith("info string error: ")
        assert lines[-1] == "bestmove (none)"
        assert all(len(text) < 500 for text in lines)
        assert chess.Move.from_uci(side.ask("position startpos", "go nodes 10")[-1].split()[1])


def test_commands_after_a_search_with_a_limit_wait_for_it_and_the_end_of_input_too() -> None:
    said: list[str] = []
    lines = ["position startpos", "go nodes 2000", "position startpos moves e2e4", "go nodes 300", "go infinite"]
    UciServer(said.append, open_net=open_material_net).run(lines)
    assert [field(a, "nodes") for a, b in pairwise(said) if b.startswith("best")][:2] == [2000, 300]
    assert sum(line.startswith("bestmove ") for line in said) == 3


def test_a_gui_that_is_gone_ends_the_engine() -> None:
    def write(line: str) -> None:
        if line.startswith("info depth"):
            raise BrokenPipeError

    begun = time.monotonic()
    UciServer(write, open_net=open_material_net).run(["position startpos", "go nodes 100000000"])
    assert time.monotonic() - begun < 20


def test_temperature_varies_games_but_not_proven_wins() -> None:
    with gui("Temperature value 1", "Certainty value true") as side:
        openings = {side.ask("ucinewgame", "position startpos", "go nodes 60")[-1].split()[1] for _ in range(12)}
        assert len(openings) > 2
        assert {side.ask("ucinewgame", f"position fen {MATE_IN_1}", "go nodes 60")[-1] for _ in range(4)} == {
            "bestmove a1a8"
        }


def kernels_in_use() -> set[tuple[str, str]]:
    """Name and types of every kernel that this process has compiled or loaded."""
    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("valuerepair.")]
    kernels = {kernel for names in modules for kernel in names.values() if isinstance(kernel, Dispatcher)}
    return {(kernel.py_func.__qualname__, str(types)) for kernel in kernels for types in kernel.signatures}


def kernels_of_play() -> tuple[int, set[tuple[str, str]]]:
    """The number of kernels that are there at ``readyok``, and those that only games need."""
    with gui() as side:
        ready = kernels_in_use()
        side.ask("position startpos", "go nodes 300")
        side.ask("position startpos moves g1f3 g8f6 f3g1 f6g8 g1f3", "go nodes 200")
        side.send("setoption name Certainty value true", "setoption name Lookahead value true")
        side.ask(f"position fen {MATE_IN_1}", "go nodes 50")
        return len(ready), kernels_in_use() - ready


def test_a_game_compiles_nothing_after_readyok() -> None:
    """In a fresh process: this one may have compiled the kernels already."""
    program = "from tests.test_mcts_uci import kernels_of_play; print(*kernels_of_play())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    ready, later = done.stdout.split(" ", 1)
    assert int(ready) > 10
    assert later == "set()\n"


# --- Through python-chess's client


def test_python_chess_plays_a_whole_game_analyses_and_stops() -> None:
    board = chess.Board("4k3/8/8/8/8/8/3Q4/4K3 w - - 70 80")
    with chess.engine.SimpleEngine.popen_uci([sys.executable, "-m", "tests.uci_fake_net"], timeout=120) as engine:
        engine.configure({"CPuct": "2.5", "Certainty": True, "MinibatchSize": 8, "FpuStrategy": "absolute"})
        while not board.is_game_over(claim_draw=True):
            limit = chess.engine.Limit(white_clock=60, black_clock=60) if board.turn else chess.engine.Limit(nodes=50)
            played = engine.play(board, limit, game="one", info=chess.engine.INFO_ALL)
            assert played.move is not None
            assert board.is_legal(played.move)
            assert played.info["pv"][0] == played.move
            board.push(played.move)
        assert board.ply() > 150
        assert engine.play(chess.Board(MATED), chess.engine.Limit(nodes=100)).move is None
        with engine.analysis(chess.Board(), chess.engine.Limit(), info=chess.engine.INFO_ALL) as analysis:
            next(info for info in analysis if info.get("nodes", 0) > 200)
            begun = time.monotonic()
            analysis.stop()
            best = analysis.wait()
        assert best.move is not None
        assert chess.Board().is_legal(best.move)
        assert time.monotonic() - begun < 1


def test_vr_uci_with_a_real_net_gives_the_golden_numbers(shared_data: Path) -> None:
    """Those of lc0 0.32.1, plain and deterministic, with bytes that are no text in between."""
    net = shared_data / "nets" / "maia-1900.pb.gz"
    lines = b"uci\n\xff\xfe\x00\nposition startpos\ngo nodes 100\nucinewgame\n"
    lines += b"position fen 8/8/8/8/4k3/8/4P3/4K3 w - - 0 1\ngo nodes 100\n"
    options = ["--net", str(net), "--set", "Lc0Floats=true", "--set", "MinibatchSize=1"]
    command = [sys.executable, "-m", "valuerepair", "uci", *options]
    done = subprocess.run(command, input=lines, capture_output=True, timeout=200, check=True)
    said = done.stdout.decode().splitlines()
    finals = [a for a, b in pairwise(said) if b.startswith("bestmove")]
    assert [re.sub(r".*(score cp \S+ wdl \d+ \d+ \d+).*", r"\1", line) for line in finals] == [
        "score cp 53 wdl 488 51 461",
        "score cp 58 wdl 232 758 10",
    ]
    assert [line for line in said if line.startswith("bestmove")] == ["bestmove e2e4", "bestmove e1f2"]
    assert done.stderr == b""


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_a_signal_in_the_middle_of_a_search_ends_the_engine(shared_data: Path, signal_number: int) -> None:
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
    assert (engine.returncode, said) == (130, "vr: interrupted\n")


# --- Scores


def move(name: str, visits: int, wl: float = math.nan, d: float = math.nan, **more: Any) -> RootMove:
    base: dict[str, Any] = {"prior": 0.1, "m": 3.0, "certain": None, "mate": None, "pv": (name,)}
    return RootMove(name, visits, q=wl, wl=wl, d=d, **{**base, **more})


def result(*moves: RootMove, wl: float = 0.03, d: float = 0.05) -> SearchResult:
    return SearchResult(100, 100, wl, wl, d, 3.0, wl, moves, 4, 9)


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
    score = score_of(best, result(best))
    assert score == expected
    mirrored = score_of(move("e2e4", 10, -wl, d), result(best))
    assert (mirrored.cp, mirrored.wdl) == (-(expected.cp or 0), expected.wdl[::-1])
    if 0 < d < 1:
        w, loss = (1 + wl - d) / 2, (1 - wl - d) / 2
        a, b = math.log(1 / loss - 1), math.log(1 / w - 1)
        assert score.cp == int(100 * (a - b) / (a + b))


def test_scores_without_a_wdl_head_mates_and_moves_without_visits() -> None:
    best = move("e2e4", 10, 0.2, 0.0)
    assert score_of(best, result(best), has_wdl=False).cp == int(45 * math.tan(1.56728071628 * 0.2))
    assert score_of(move("e2e4", 3, -1.0, 0.0, certain=-1, mate=-4), result(best)) == Score(None, -4, (0, 0, 1000))
    assert score_of(move("e2e4", 0), result(best, wl=0.2, d=0.5)).wdl == (350, 500, 150)
