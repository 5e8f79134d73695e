"""Doubles for the search: a fake net, a plain search to compare with, and trees as values that can be compared."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from tests.lc0_oracle import game_state
from tests.parity import lc0_floats
from tests.parity.lc0_floats import F
from tests.parity.lc0_search import Lc0Search, Node
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.make import black_to_move
from valuerepair.chess.positions import STARTPOS_FEN, Position, PositionBatch, decode_move, decode_moves
from valuerepair.chess.rows import FLIP
from valuerepair.mcts import layout
from valuerepair.mcts.evaluator import Evaluations, LeafEvaluator, Leaves
from valuerepair.mcts.fastmath import NO_PRIOR
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.planes import encode
from valuerepair.nets.policy import policy_indices

Words = NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(words: Words) -> Words:
    """splitmix64 of every word."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    result: Words = words ^ words >> np.uint64(31)
    return result


def unit(words: Words) -> NDArray[np.float32]:
    """Numbers in [0, 1), multiples of 2^-24."""
    result: NDArray[np.float32] = (mixed(words) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
    return result


COLOUR_PLANE = 108
PLANE_WORDS: Words = mixed(np.arange(1, 113, dtype=np.uint64)) | np.uint64(1)


class FakeNet(LeafEvaluator):
    """An evaluator whose answer is a hash of a leaf's planes: cheap, and the same whatever else is in the batch.

    Values lie in [-spread, spread], logits in [-sharpness, sharpness]. `colour_blind`, it answers the same when a
    position is turned over. `sizes` are the rows of calls.
    """

    def __init__(self, *, sharpness: float = 2.0, spread: float = 0.6, colour_blind: bool = False) -> None:
        self.sharpness, self.spread = F(sharpness), F(spread)
        self.words = PLANE_WORDS.copy()
        if colour_blind:
            self.words[COLOUR_PLANE] = 0
        self.sizes: list[int] = []

    def __call__(self, leaves: Leaves) -> Evaluations:
        self.sizes.append(len(leaves.masks))
        words = (leaves.masks * self.words).sum(1, dtype=np.uint64)
        words = mixed(words ^ leaves.rule50.view(np.uint32).astype(np.uint64) << np.uint64(32))
        q = self.spread * (F(2) * unit(words) - F(1))
        d = (F(1) - np.abs(q)) * unit(words + np.uint64(1))
        m = F(100) * unit(words + np.uint64(2))
        moves = np.repeat(words, np.diff(leaves.offsets)) + leaves.indices * GOLDEN
        logits = self.sharpness * (F(2) * unit(moves) - F(1))
        return Evaluations(q, d, m, logits.astype(np.float32))


def leaf_of(position: Position, params: SearchParams) -> tuple[Leaves, list[str]]:
    """A position as `Leaves` of one row, made of its planes and not by the search; its moves in their order there.

    With `lc0_floats` that is lc0's order, asked of lc0's binding.
    """
    batch = PositionBatch.from_positions([position])
    planes = encode(batch)
    bits = (planes != 0).reshape(1, 112, 64)
    bits[:, 109] = True
    masks = np.packbits(bits, axis=2, bitorder="little").view(np.uint64)[:, :, 0]
    if params.lc0_floats:
        state = game_state(position)
        names, indices = list(state.moves()), np.array(state.policy_indices(), np.uint16)
    else:
        board = parse_fens([position.fen])
        moves, offsets = legal_moves(board)
        names, indices = list(decode_moves(moves)), policy_indices(board, moves, offsets).astype(np.uint16)
    return Leaves(masks, planes[:, 109, 0, 0].copy(), indices, np.array([0, len(names)])), names


class PlainSearch(Lc0Search):
    """lc0's search in plain Python with a fake net: float by float with `lc0_floats`, else with exact arithmetic."""

    def __init__(self, evaluator: FakeNet, position: Position, params: SearchParams) -> None:
        super().__init__(None, position, params)
        self.evaluator = evaluator

    def _select(self, node: Node, depth: int) -> int:
        if self.params.lc0_floats:
            return super()._select(node, depth)
        p, draw = self.params, F(self.params.draw_score if self.board.turn else -self.params.draw_score)
        visited = len(node.children)
        total = F(0)
        for prior in np.maximum(node.policy[:visited], NO_PRIOR):
            total += prior
        cpuct = F(F(p.cpuct) + F(p.cpuct_factor) * F(math.log((F(node.n) + F(p.cpuct_base)) / F(p.cpuct_base))))
        mult = F(float(cpuct) * math.sqrt(max(node.n - 1, 1)))
        policy = np.maximum(node.policy[: visited + 1], NO_PRIOR)
        scores = [policy[i] * mult / F(1 + c.n) + c.q(draw) for i, c in enumerate(node.children)]
        if visited < len(node.moves):
            scores.append(policy[visited] * mult + (-node.q(F(-draw)) - F(p.fpu_value) * F(math.sqrt(total))))
        return int(np.argmax(np.array(scores, F)))

    def _evaluate(self, node: Node, played: list[str]) -> tuple[float, np.float32]:
        leaf, moves = leaf_of(Position(self.board.fen(), self.position.start_fen, tuple(played)), self.params)
        answer = self.evaluator(leaf)
        temperature = F(1) / F(self.params.policy_softmax_temp)
        policy: Any  # packed in 16 bits with lc0's floats, else float32
        if self.params.lc0_floats:
            policy = lc0_floats.packed(lc0_floats.softmax(answer.logits, temperature))
            order = lc0_floats.gnu_sorted(policy.tolist())
        else:
            powers = [F(math.exp(x)) for x in (answer.logits - answer.logits.max()) * temperature]
            total = F(0)
            for power in powers:
                total += power
            policy = np.array(powers, F) * (F(1) / total)
            order = sorted(range(len(moves)), key=lambda i: -float(policy[i]))
        node.moves, node.policy = [chess.Move.from_uci(moves[i]) for i in order], policy[order]
        return -answer.q[0], answer.d[0]

    def tree(self) -> dict[tuple[str, ...], tuple[int, float, float]]:
        """Visits, wl and d of every node, by the moves that lead there."""
        found: dict[tuple[str, ...], tuple[int, float, float]] = {}
        waiting: list[tuple[tuple[str, ...], Node]] = [((), self.root)]
        while waiting:
            path, node = waiting.pop()
            found[path] = (node.n, float(node.wl), float(node.d))
            waiting += [((*path, m.uci()), c) for m, c in zip(node.moves, node.children, strict=False)]
        return found


@dataclass(frozen=True)
class Twig:
    """A node of our tree: its means as they are, seen by the player who moved there, and all its moves."""

    n: int
    wl: float
    d: float
    m: float
    own: float | None  # the net's; None where it was not asked
    kind: int
    bounds: tuple[int, int]
    forced: bool
    moves: tuple[tuple[str, float, int | None], ...]  # UCI, prior, proven value of the moves, opened ones first
    edge: tuple[int, float] | None  # visits and q as the edge to it has them
    frozen: tuple[int, ...]


Tree = dict[tuple[str, ...], Twig]


def tree_of(forest: Forest, slot: int = 0) -> Tree:
    """Everything that is known of a tree, by the moves that lead there; nothing of where it lies in memory."""
    trees = forest._trees
    black = black_to_move(trees.rows, trees.slots[slot, layout.ROOT_ROW])
    found: Tree = {}
    waiting: list[tuple[tuple[str, ...], int, tuple[int, float] | None]] = [((), slot * forest._rules.node_room, None)]
    while waiting:
        path, node, edge = waiting.pop()
        first, count, opened = trees.nodes[node, [layout.FIRST, layout.COUNT, layout.OPENED]].tolist()
        turn = FLIP * ((black + len(path)) & 1)
        names = [decode_move(m ^ turn) for m in trees.move[first : first + count].tolist()]
        found[path] = _twig(trees, node, names, edge)
        for at, name in enumerate(names[:opened]):
            known = int(trees.visits[first + at]), float(trees.q[first + at])
            waiting.append(((*path, name), int(trees.child[first + at]), known))
    return found


def _twig(trees: layout.Trees, node: int, names: list[str], edge: tuple[int, float] | None) -> Twig:
    row = trees.nodes[node].tolist()
    edges = slice(row[layout.FIRST], row[layout.FIRST] + len(names))
    priors: list[float] = trees.prior[edges].tolist()
    proven: list[int] = trees.certain[edges].tolist() if len(trees.certain) else [layout.UNPROVEN] * len(names)
    wl, d, m, own = trees.means[node].tolist()
    asked = row[layout.KIND] == layout.OPEN and not row[layout.FORCED] and row[layout.VISITS] > 0
    frozen = trees.frozen[edges.start : edges.start + row[layout.FROZEN]].tolist() if row[layout.FROZEN] else []
    return Twig(
        row[layout.VISITS],
        wl,
        d,
        m,
        own if asked else None,
        row[layout.KIND],
        (row[layout.LOWER], row[layout.UPPER]),
        bool(row[layout.FORCED]),
        tuple((n, p, None if c == layout.UNPROVEN else c) for n, p, c in zip(names, priors, proven, strict=True))
        if asked
        else (),
        edge,
        tuple(frozen),
    )


def position(fen: str = STARTPOS_FEN, moves: str = "") -> Position:
    """A position with its history, from the moves that led to it."""
    board = chess.Board(fen)
    for move in moves.split():
        board.push_uci(move)
    return Position(board.fen(), fen, tuple(moves.split()), board.ply(), history_known=bool(moves))


def searched(
    start: Position, nodes: int, evaluator: LeafEvaluator | None = None, room: int | None = None, **changes: Any
) -> Forest:
    """A forest of one tree, in slot 0, that has its visits."""
    forest = Forest(evaluator or FakeNet(), SearchParams(**changes), trees=1, nodes=room or nodes)
    forest.add(start, nodes)
    while not forest.is_done(0):
        forest.play_round()
    return forest


KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
MANY_MOVES = "3K2Q1/k1r5/2q5/2R5/1q2Q3/5r2/1Q1Qq1q1/7R w - - 0 1"  # 80 and more for both sides
POSITIONS = (
    position(),
    position(moves="g1f3 g8f6 f3g1 f6g8 e2e4"),  # a repetition behind it
    position(KIWIPETE),
    position("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 10 1", "e2e4"),  # en passant is legal for one pawn, and pinned
    position("6k1/5ppp/8/8/8/8/5PPP/1q1R2K1 b - - 0 1"),  # mates on the back rank
    position("7k/8/5K2/6Q1/8/8/8/8 w - - 96 90"),  # the clock runs out
    position("6rk/6pp/7N/8/2Q5/8/5PPP/6K1 w - - 1 1"),  # forced replies
    position("1k6/1P6/2K5/8/8/8/7r/8 b - - 12 50"),
    position("8/P6k/8/8/8/8/p5K1/8 b - - 0 1"),
    position(MANY_MOVES),
)
FLAGS = ("certainty", "lookahead", "auto_extend", "lc0_floats", "sticky_endgames", "two_fold_draws")


def any_params(rng: random.Random) -> dict[str, Any]:
    """Parameters of a search."""
    changes: dict[str, Any] = {flag: rng.random() < 0.5 for flag in FLAGS}
    changes |= {"n_scl": rng.choice((0, 0, 1, 5)), "minibatch_size": rng.choice((1, 1, 2, 7))}
    changes |= {"draw_score": rng.choice((0.0, 0.3, -1.0)), "noise_epsilon": rng.choice((0.0, 0.25))}
    changes |= {"cpuct": rng.choice((0.5, 1.745, 4.0))}
    return changes | {"seed": rng.randrange(2**63)}


def any_position(rng: random.Random) -> Position:
    """Some random moves after one of the positions; the game is not over."""
    start = rng.choice(POSITIONS)
    board, moves = chess.Board(start.fen), list(start.moves)
    for _ in range(rng.randrange(30)):
        legal = [m.uci() for m in board.legal_moves]
        board.push_uci(rng.choice(legal))
        if not any(board.legal_moves):
            break
        moves.append(board.peek().uci())
    return position(start.start_fen, " ".join(moves))
