"""Published cases: what the search's options are worth on a known position and on short mates, in nodes.

    python -m tests.parity.search_cases [--mates matetrack.epd] [--nodes 800] [--case-nodes 10000] [--longest 4]

For every option: the fewest `vr eval --nodes` from which on, up to the limit, Qc4 is the best move, and the fewest
with which it says that a win is proven; of the mates, how many are proven, and after how many the best move mates in
time: Stockfish finds no longer mate after it than the published one.
Evaluations are shared by the options, so that a run costs little more than the search that needs the most of them.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import chess
import chess.engine
import numpy as np

from tests import shared_data
from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import Evaluations, LeafEvaluator, Leaves, NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.net import open_net

CASE = "5k2/6pp/p1qN4/1p1p4/3P4/2PKP2Q/PP3r2/3R4 b - - 0 1"
CASE_MOVE = "c6c4"
OPTIONS = {
    "defaults (sticky endgames)": SearchParams(),
    "sticky endgames off": SearchParams(sticky_endgames=False),
    "look-ahead": SearchParams(lookahead=True),
    "auto-extend": SearchParams(auto_extend=True),
    "certainty": SearchParams(certainty=True),
    "certainty, look-ahead": SearchParams(certainty=True, lookahead=True),
    "certainty, look-ahead, auto-extend": SearchParams(certainty=True, lookahead=True, auto_extend=True),
    "search-contempt, N_scl = 50": SearchParams(n_scl=50),
    "search-contempt, N_scl = 5": SearchParams(n_scl=5),
}
STOCKFISH_NODES = 300_000


class Remembering(LeafEvaluator):
    """An evaluator that asks another about each position only once, and alone, as `vr eval` does of one position.

    ONNX Runtime may round a batch of another size differently, and then a few visits go elsewhere.
    """

    def __init__(self, evaluator: LeafEvaluator) -> None:
        self.input_format, self.moves_left = evaluator.input_format, evaluator.moves_left
        self._evaluator = evaluator
        self._known: dict[bytes, tuple[np.float32, np.float32, np.float32, np.ndarray]] = {}

    def __call__(self, leaves: Leaves) -> Evaluations:
        names = [m.tobytes() + r.tobytes() for m, r in zip(leaves.masks, leaves.rule50, strict=True)]
        for row, name in enumerate(names):
            if name not in self._known:
                self._known[name] = self._alone(leaves, row)
        remembered = [self._known[name] for name in names]
        q, d, m = (np.array([row[i] for row in remembered], np.float32) for i in range(3))
        return Evaluations(q, d, m, np.concatenate([row[3] for row in remembered]))

    def _alone(self, leaves: Leaves, row: int) -> tuple[np.float32, np.float32, np.float32, np.ndarray]:
        moves = leaves.indices[leaves.offsets[row] : leaves.offsets[row + 1]]
        offsets = np.array([0, len(moves)], np.int64)
        q, d, m, logits = self._evaluator(
            Leaves(leaves.masks[row : row + 1], leaves.rule50[row : row + 1], moves, offsets)
        )
        return q[0], d[0], m[0], logits


@dataclass
class Course:
    """What searches of 1, 2, ... nodes say: the best move from so many on, and how many prove a win."""

    nodes: int = 0
    best: list[tuple[int, str]] = field(default_factory=list)
    proven: float = math.inf

    def take(self, result: SearchResult) -> None:
        """Notes what a search of so many nodes says."""
        self.nodes = result.nodes
        if not self.best or self.best[-1][1] != result.best_move:
            self.best.append((result.nodes, result.best_move))
        if result.certain == 1:
            self.proven = min(self.proven, result.nodes)

    def settled(self, right: set[str]) -> float:
        """The nodes from which on the best move is a right one to the end; infinite if the last is not."""
        since = math.inf
        for nodes, move in reversed(self.best):
            if move not in right:
                break
            since = nodes
        return since


def courses(positions: list[Position], params: SearchParams, nodes: int, evaluator: LeafEvaluator) -> list[Course]:
    """Searches all positions up to so many nodes and writes down what is said after every single one.

    Each tree is asked for one visit more at a time. A round of the forest may make several, those that end in settled
    nodes, so a look once a round would skip what searches of fewer nodes say.
    """
    forest = Forest(evaluator, params, trees=len(positions), nodes=nodes)
    begun = [Course() for _ in positions]
    growing = {forest.add(position, 1): course for position, course in zip(positions, begun, strict=True)}
    while growing:
        forest.play_round()
        for slot, course in list(growing.items()):
            while slot in growing and forest.is_done(slot):
                visits = forest.visits(slot)
                if visits > course.nodes:
                    course.take(forest.result(slot))
                if visits >= nodes or forest.is_proven(slot):  # a proven tree gets no further
                    forest.release(slot)
                    del growing[slot]
                else:
                    forest.go_on(slot, visits + 1)
    return begun


def short_mates(path: Path, longest: int) -> Iterator[tuple[Position, int]]:
    """Positions of an EPD file whose `bm #N` is a mate in at most `longest`, with N."""
    for line in path.read_text().splitlines():
        mate = re.search(r"bm #(\d+);", line)
        if mate and int(mate[1]) <= longest:
            board, _ = chess.Board.from_epd(line.split("bm")[0].strip())
            if board.is_valid():
                yield Position(board.fen(), board.fen(), history_known=False), int(mate[1])


class Judge:
    """Stockfish's word on whether a move mates in time."""

    def __init__(self, engine: chess.engine.SimpleEngine) -> None:
        self._engine, self._known = engine, dict[tuple[str, str], bool]()

    def mates(self, fen: str, move: str, within: int) -> bool:
        if (fen, move) not in self._known:
            board = chess.Board(fen)
            board.push_uci(move)
            self._known[fen, move] = board.is_checkmate() or (within > 1 and self._mated(board, within - 1))
        return self._known[fen, move]

    def _mated(self, board: chess.Board, within: int) -> bool:
        with self._engine.analysis(board, chess.engine.Limit(nodes=STOCKFISH_NODES), game=board.fen()) as analysis:
            for info in analysis:
                score = info.get("score")
                mate = (
                    score.relative.mate() if score and "upperbound" not in info and "lowerbound" not in info else None
                )
                if mate is not None and -within <= mate < 0:
                    return True
        return False


def shown(nodes: float) -> str:
    return "-" if nodes == math.inf else f"{nodes:,.0f}"


def report_case(evaluator: LeafEvaluator, nodes: int) -> None:
    print(f"\n`{CASE}` (Qc4), {nodes:,} nodes at most\n\n| options | Qc4 is best from | proven from |\n|---|---|---|")
    for name, params in OPTIONS.items():
        (course,) = courses([Position(CASE, CASE, history_known=False)], params, nodes, evaluator)
        print(f"| {name} | {shown(course.settled({CASE_MOVE}))} | {shown(course.proven)} |", flush=True)


def report_mates(evaluator: LeafEvaluator, judge: Judge, mates: list[tuple[Position, int]], nodes: int) -> None:
    """A table over all options; medians are over the mates that all of them prove, so that they can be compared."""
    by_options = {
        name: courses([position for position, _ in mates], params, nodes, evaluator) for name, params in OPTIONS.items()
    }
    proving = [name for name, params in OPTIONS.items() if params.sticky_endgames]
    common = [i for i in range(len(mates)) if all(by_options[name][i].proven < math.inf for name in proving)]
    print(f"\n{len(mates)} mates, {nodes} nodes at most; {len(common)} are proven with all options but the second\n")
    print(
        "| options | a win is proven | the best move mates in time | median nodes of those proofs |\n|---|---|---|---|"
    )
    for name, made in by_options.items():
        timely = sum(
            judge.mates(position.fen, course.best[-1][1], within)
            for (position, within), course in zip(mates, made, strict=True)
        )
        proven = sum(course.proven < math.inf for course in made)
        median = statistics.median(made[i].proven for i in common) if name in proving and common else math.inf
        print(
            f"| {name} | {100 * proven / len(mates):.0f} % | {100 * timely / len(mates):.0f} % | {shown(median)} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared_data.add_option(parser)
    parser.add_argument("--longest", type=int, default=4, help="mates in at most so many moves")
    parser.add_argument("--limit", type=int, help="the first so many of them")
    parser.add_argument("--nodes", type=int, default=800)
    parser.add_argument("--case-nodes", type=int, default=10_000)
    parser.add_argument("--net", help="registry name or path; the default net if not given")
    parser.add_argument("--stockfish", default="/usr/games/stockfish")
    arguments = parser.parse_args()
    mates = list(short_mates(arguments.data / "epd" / "matetrack.epd", arguments.longest))[: arguments.limit]
    with (
        open_net(arguments.net, device="cpu") as net,
        chess.engine.SimpleEngine.popen_uci(arguments.stockfish) as engine,
    ):
        evaluator = Remembering(NetEvaluator(net))
        if arguments.case_nodes:
            report_case(evaluator, arguments.case_nodes)
        report_mates(evaluator, Judge(engine), mates, arguments.nodes)


if __name__ == "__main__":
    main()
