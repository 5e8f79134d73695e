"""Published cases: what the search's options are worth on a known position and on short mates, in nodes.

    python -m tests.parity.search_cases [--mates matetrack.epd] [--nodes 800] [--case-nodes 10000] [--longest 4]

For every option: the visits after which Qc4 stays the best move to the end of the search, and after which a win is
proven; of the mates, how many are proven, and after how many the best move mates in time: Stockfish finds no longer
mate after it than the published one.
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

from valuerepair.board.make import black_to_move
from valuerepair.board.rows import FLIP
from valuerepair.mcts.evaluator import Evaluations, Evaluator, Leaves
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.net_evaluator import NetEvaluator
from valuerepair.mcts.outcome import WIN, best_edge, rank
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.tree import FIRST, OPENED, ROOT_ROW
from valuerepair.nets import open_net
from valuerepair.positions import Position, decode_move

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


class Remembering:
    """An evaluator that asks another about each position only once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._known: dict[bytes, tuple[np.float32, np.float32, np.float32, np.ndarray]] = {}

    def __call__(self, leaves: Leaves) -> Evaluations:
        names = [m.tobytes() + r.tobytes() for m, r in zip(leaves.masks, leaves.rule50, strict=True)]
        new = [i for i, name in enumerate(names) if name not in self._known]
        if new:
            self._ask(leaves, names, new)
        known = [self._known[name] for name in names]
        q, d, m = (np.array([row[i] for row in known], np.float32) for i in range(3))
        return Evaluations(q, d, m, np.concatenate([row[3] for row in known]))

    def _ask(self, leaves: Leaves, names: list[str] | list[bytes], rows: list[int]) -> None:
        moves = [leaves.indices[leaves.offsets[i] : leaves.offsets[i + 1]] for i in rows]
        offsets = np.concatenate([[0], np.cumsum([len(m) for m in moves])]).astype(np.int64)
        q, d, m, logits = self._evaluator(
            Leaves(leaves.masks[rows], leaves.rule50[rows], np.concatenate(moves), offsets)
        )
        for at, row in enumerate(rows):
            name = names[row]
            assert isinstance(name, bytes)
            self._known[name] = q[at], d[at], m[at], logits[offsets[at] : offsets[at + 1]].copy()


@dataclass
class Course:
    """How a search went: the best move from so many visits on, and the visits after which a win was proven."""

    best: list[tuple[int, str]] = field(default_factory=list)
    proven: float = math.inf

    def settled(self, right: set[str]) -> float:
        """The visits from which on the best move is a right one to the end; infinite if the last is not."""
        since = math.inf
        for visits, move in reversed(self.best):
            if move not in right:
                break
            since = visits
        return since


def courses(positions: list[Position], params: SearchParams, nodes: int, evaluator: Evaluator) -> list[Course]:
    """Searches all positions and writes down every change of the best move."""
    forest = Forest(evaluator, params, trees=len(positions), nodes=nodes)
    slots = [forest.add(position, nodes) for position in positions]
    found = {slot: Course() for slot in slots}
    searching = set(slots)
    while searching:
        forest.play_round()
        for slot in sorted(searching):
            _follow(forest, slot, found[slot])
        searching -= {slot for slot in searching if forest.is_done(slot)}
    return [found[slot] for slot in slots]


def _follow(forest: Forest, slot: int, course: Course) -> None:
    trees, root = forest._trees, slot * forest._rules.node_room
    edge = best_edge(trees, root)
    turn = FLIP * black_to_move(trees.rows, trees.slots[slot, ROOT_ROW])
    move, visits = decode_move(int(trees.move[edge]) ^ turn), forest.visits(slot)
    if not course.best or course.best[-1][1] != move:
        course.best.append((visits, move))
    if rank(trees, edge, edge < trees.nodes[root, FIRST] + trees.nodes[root, OPENED]) == WIN:
        course.proven = min(course.proven, visits)


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


def report_case(evaluator: Evaluator, nodes: int) -> None:
    print(f"\n`{CASE}` (Qc4), {nodes:,} nodes at most\n\n| options | Qc4 is best from | proven from |\n|---|---|---|")
    for name, params in OPTIONS.items():
        (course,) = courses([Position(CASE, CASE, history_known=False)], params, nodes, evaluator)
        print(f"| {name} | {shown(course.settled({CASE_MOVE}))} | {shown(course.proven)} |", flush=True)


def report_mates(evaluator: Evaluator, judge: Judge, mates: list[tuple[Position, int]], nodes: int) -> None:
    """A table over all options; medians are over the mates that all of them prove, so that they can be compared."""
    found = {
        name: courses([position for position, _ in mates], params, nodes, evaluator) for name, params in OPTIONS.items()
    }
    proving = [name for name, params in OPTIONS.items() if params.sticky_endgames]
    common = [i for i in range(len(mates)) if all(found[name][i].proven < math.inf for name in proving)]
    print(f"\n{len(mates)} mates, {nodes} nodes at most; {len(common)} are proven with all options but the second\n")
    print(
        "| options | a win is proven | the best move mates in time | median nodes of those proofs |\n|---|---|---|---|"
    )
    for name, made in found.items():
        timely = sum(
            judge.mates(position.fen, course.best[-1][1], within)
            for (position, within), course in zip(mates, made, strict=True)
        )
        proven = sum(course.proven < math.inf for course in made)
        median = statistics.median(made[i].proven for i in common) if name in proving and common else math.inf
        print(f"| {name} | {proven / len(mates):.0%} | {timely / len(mates):.0%} | {shown(median)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mates", type=Path, default=Path(__file__).parents[3] / "shared/data/epd/matetrack.epd")
    parser.add_argument("--longest", type=int, default=4, help="mates in at most so many moves")
    parser.add_argument("--limit", type=int, help="the first so many of them")
    parser.add_argument("--nodes", type=int, default=800)
    parser.add_argument("--case-nodes", type=int, default=10_000)
    parser.add_argument("--net", help="registry name or path; the default net if not given")
    parser.add_argument("--stockfish", default="/usr/games/stockfish")
    given = parser.parse_args()
    mates = list(short_mates(given.mates, given.longest))[: given.limit]
    with open_net(given.net, device="cpu") as net, chess.engine.SimpleEngine.popen_uci(given.stockfish) as engine:
        evaluator = Remembering(NetEvaluator(net))
        if given.case_nodes:
            report_case(evaluator, given.case_nodes)
        report_mates(evaluator, Judge(engine), mates, given.nodes)


if __name__ == "__main__":
    main()
