"""The UCI server over a net that counts material: every command, limits, the clock, and what is not understood."""

from __future__ import annotations

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
import pytest
from numba.core.dispatcher import Dispatcher

from tests.uci_fake_net import open_material_net
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.mcts.params import PARAMETER_NAMES, PARAMETERS
from valuerepair.mcts.uci_server import UciServer

MATED, STALEMATE = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "7k/5K2/6Q1/8/8/8/8/8 b - - 0 1"
MATE_IN_1 = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"
NOTHING = "no limit is understood; a search of 100 nodes"
WINS_ROOK, WON = "7k/8/8/8/8/5K2/1r4Q1/8 w - - 0 1", "7k/8/8/8/8/5K2/6Q1/8 w - - 0 1"
ONE_MOVE = "8/8/8/8/8/2k5/8/K6r w - - 0 1"


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
    side.send(*(f"setoption name {option}" for option in options), "isready")
    side.until("readyok", 300)  # it may compile
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
        assert time.monotonic() - begun < 2
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
        # 4 s over 20 moves, times the 2.8 of the first move of a game.
        assert 0.55 <= time.monotonic() - begun < 2
        side.send("position startpos moves e2e4 e7e5 g1f3", "go ponder wtime 4000 btime 4000")
        assert side.ask("stop")[-1].startswith("bestmove")


@pytest.mark.parametrize(
    ("position", "go"), [("startpos", "go ponder"), ("startpos moves e2e4", "go wtime 1000"), ("startpos", "go")]
)
def test_the_next_search_ends_one_that_has_no_limit(position: str, go: str) -> None:
    """After ``ponderhit`` nothing limits it; and the other side's clock is no limit."""
    with gui() as side:
        side.send(f"position {position}", go)
        assert side.quiet(0.5)
        side.send("ponderhit")
        assert side.quiet(0.5)
        side.send("position startpos moves d2d4", "go nodes 3")
        assert side.until("bestmove", 20)
        assert side.until("bestmove", 20)


def test_the_clock_is_kept() -> None:
    with gui("SmartPruningFactor value 0") as side:
        begun = time.monotonic()
        side.ask("position startpos", "go movetime 300")
        assert 0.3 <= time.monotonic() - begun < 1
        begun = time.monotonic()
        side.ask("go wtime -50 btime 100000 winc 0")
        assert time.monotonic() - begun < 1


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


def test_searchmoves_after_a_search_of_all_moves_count_their_own_nodes() -> None:
    with gui("MoveOverheadMs value 0") as side:
        side.ask("position startpos", "go nodes 2000")
        only = "searchmoves a2a3 h2h4"
        lines = side.ask(f"go nodes 300 {only}")
        assert min(field(line, "nps") for line in lines if " nps " in line) > 0
        side.ask("ucinewgame", "go nodes 2000")
        begun = time.monotonic()
        side.ask(f"go wtime 4000 btime 4000 movestogo 6 {only}")  # some 1.9 s, of which at most half can be spared
        assert time.monotonic() - begun > 0.6


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
    ("words", "nodes", "said"),
    [
        ("go nodes 50 foo", 50, ["'foo' is not understood"]),
        ("go foo nodes 50 depth 0", 50, ["'foo' is not understood", "depth 0: must be a whole number of at least 1"]),
        ("go depth nodes 50", 50, ["depth: must be a whole number of at least 1"]),
        ("go wtime abc nodes 50", 50, ["wtime abc: must be a whole number"]),
        ("go nodes 50 searchmoves", 50, ["searchmoves: no moves follow"]),
        ("go nodes 50 searchmoves infinite nodes 50", None, ["searchmoves: no moves follow"]),
        ("go perft 3", 100, ["'perft' is not understood", "'3' is not understood", NOTHING]),
        ("go depth 0", 100, ["depth 0: must be a whole number of at least 1", NOTHING]),
        ("go nodes", 100, ["nodes: must be a whole number of at least 1", NOTHING]),
        ("go nodes -5", 100, ["nodes -5: must be a whole number of at least 1", NOTHING]),
    ],
)
def test_what_is_not_understood_of_a_go_is_told_and_the_rest_done(
    words: str, nodes: int | None, said: list[str]
) -> None:
    """As UCI has it: "if the engine receives an unknown token it should ignore it and parse the rest"."""
    with gui() as side:
        lines = side.ask("position startpos", words, *(["stop"] if nodes is None else []))
        assert lines[: len(said)] == [f"info string go: {line}" for line in said]
        assert nodes is None or field(lines[-2], "nodes") == nodes
        assert chess.Move.from_uci(lines[-1].split()[1]) in chess.Board().legal_moves


def test_a_search_that_ends_by_the_size_of_its_tree_says_so() -> None:
    full = "info string the tree is full at "
    with gui("Hash value 1") as side:
        lines = side.ask("position startpos", "go nodes 100000000")
        (told,) = (line for line in lines if line.startswith(full))
        room = int(told.removeprefix(full).split()[0])
        assert told == f"{full}{room} nodes; raise Hash for more"
        assert field(lines[-2], "nodes") == room
        side.send("ucinewgame", "go infinite")
        assert side.until(full)[-1] == told  # at once: the move waits for stop
        assert side.ask("stop")[-1].startswith("bestmove ")
        assert not any(full in line for line in side.ask("ucinewgame", f"go nodes {room}"))


@pytest.mark.parametrize(
    ("fen", "rights"),
    [
        ("4k3/8/8/8/8/8/8/3QK3 w KQkq - 0 1", "-"),
        ("r3k3/8/8/8/8/8/8/R2K3R b KQkq - 0 1", "q"),
        ("4k2r/8/8/8/8/8/8/R3K3 w KQkq - 3 9", "Qk"),
    ],
)
def test_rights_to_castle_without_king_and_rook_are_dropped(fen: str, rights: str) -> None:
    """As python-chess cleans them; editors of boards send KQkq whatever stands there."""
    assert chess.Board(fen).clean_castling_rights() == chess.Board(fen.replace("KQkq", rights)).castling_rights
    with gui() as side:
        lines = side.ask(f"position fen {fen}", "go nodes 5")
        assert lines[0] == f"info string castling KQkq is {rights} here: king or rook is not at home"
        assert lines[-1].startswith("bestmove ")
        assert "0000" not in lines[-1]
        good = side.ask("position fen r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "go nodes 5")
        assert not any("castling" in line for line in good)


def test_options_in_a_search_are_set_after_it_and_wrong_ones_told() -> None:
    with gui() as side:
        side.send("position startpos", "go infinite")
        side.until("info depth")
        lines = side.ask("setoption name MultiPV value 2", "isready", until="readyok")
        assert "info string option MultiPV will be set when the search has ended" in lines
        assert field(side.ask("stop")[-2], "multipv") == 1
        assert field(side.ask("go nodes 900")[-2], "multipv") == 2
        wrong = side.ask("setoption name CPut value 1", "setoption name CPuct value x", "isready", until="readyok")
        assert wrong == [
            "info string error: no option 'CPut'; did you mean CPuct?",
            "info string error: option CPuct=x: must be a number",
            "readyok",
        ]
        assert side.ask("setoption", "isready", until="readyok")[0].startswith("info string setoption ")


def test_blanks_in_a_value_are_kept() -> None:
    """A file's name may have any; python-chess sends it as it is."""
    with gui() as side:
        lines = side.ask("setoption  name  WeightsFile  value my  net value 2.pb.gz ", "isready", until="readyok")
        assert lines == ["info string material counter my  net value 2.pb.gz", "readyok"]


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


def kernels_in_use() -> set[tuple[str, str]]:
    """Name and types of every kernel that this process has compiled or loaded."""
    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("valuerepair.")]
    kernels = {kernel for names in modules for kernel in names.values() if isinstance(kernel, Dispatcher)}
    return {(kernel.py_func.__qualname__, str(types)) for kernel in kernels for types in kernel.signatures}


def kernels_of_play() -> tuple[int, set[tuple[str, str]]]:
    """The number of kernels that are there at ``readyok``, and those that only games need."""
    with gui() as side:
        ready = kernels_in_use()
        best = side.ask("position startpos", "go nodes 300")[-1].split()
        side.ask("go nodes 310")
        side.ask(f"position startpos moves {best[1]} {best[3]}", "go nodes 400")
        side.ask("setoption name VerboseMoveStats value true", "setoption name MultiPV value 3", "go nodes 410")
        side.ask("go nodes 50 searchmoves a2a3 h2h4")
        side.send("go ponder nodes 50")
        side.ask("ponderhit")
        side.ask("position startpos moves g1f3 g8f6 f3g1 f6g8 g1f3", "go nodes 200")
        side.send("setoption name Certainty value true", "setoption name Lookahead value true")
        side.ask(f"position fen {MATE_IN_1}", "go nodes 50")
        side.ask("go nodes 50 searchmoves a1a7 a1a2")  # Ra8 mates, and is left out
        tables = Path(__file__).parent / "goldens" / "syzygy"
        side.ask(f"setoption name SyzygyPath value {tables}", f"position fen {WINS_ROOK}", "go nodes 100")
        side.ask(f"position fen {WON} moves g2g3 h8h7", "go nodes 100")  # the tables choose the root's moves
        return len(ready), kernels_in_use() - ready


def test_a_game_compiles_nothing_after_readyok() -> None:
    """In a fresh process: this one may have compiled the kernels already."""
    program = "from tests.test_mcts_uci import kernels_of_play; print(*kernels_of_play())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    ready, later = done.stdout.split(" ", 1)
    assert int(ready) > 10
    assert later == "set()\n"


def test_the_starting_position_is_searched_where_none_was_given() -> None:
    with gui() as side:
        best = side.ask("go nodes 5")[-1].split()[1]
    assert chess.Move.from_uci(best) in chess.Board(STARTPOS_FEN).legal_moves
