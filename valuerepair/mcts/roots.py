"""Planting a root with its game, and keeping a part of a tree when the game goes on, as kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, clock, copy_row, make, mark_repetition
from valuerepair.chess.rows import FLIP, ROW, Boards, Moves
from valuerepair.mcts.backup import refresh_edge, take_mean
from valuerepair.mcts.select import new_node, step_down
from valuerepair.mcts.tree import (
    ARRANGED,
    COUNT,
    DEEPEST,
    DEPTHS,
    DRAW,
    EDGE,
    EVALUATIONS,
    FIRST,
    FIRST_ROW,
    FORCED,
    HISTORY_ROWS,
    INITIAL,
    KIND,
    LEAVES,
    LEFT,
    LIMIT,
    LOWER,
    MEAN,
    NODE,
    OPEN,
    OPENED,
    OWN,
    OWN_LEFT,
    PARENT,
    POLICY,
    PROBED,
    RANDOM,
    ROOT_ROW,
    SEARCHING,
    STATE,
    TWO_FOLD,
    UPPER,
    USED_EDGES,
    USED_NODES,
    VISITS,
    WL,
    SearchRules,
    Trees,
)
from valuerepair.nets.planes import HISTORY


@allocating_kernel
def play_game(start: Boards, moves: Moves) -> Boards:
    """The positions of a game, uint64[len(moves) + 1, ROW], with repetitions marked; moves in absolute squares."""
    rows = np.empty((len(moves) + 1, ROW), np.uint64)
    copy_row(start, 0, rows, 0)
    for i in range(len(moves)):
        make(rows, i, i + 1, np.int64(moves[i]) ^ FLIP * black_to_move(rows, i))
        mark_repetition(rows, 0, i + 1)
    return rows


@kernel
def put_game(trees: Trees, rules: SearchRules, tree: int, game: Boards, initial: bool) -> None:
    """Copies the end of a game before the line of a tree: positions that the net sees and that may be repeated."""
    last = len(game) - 1
    plies_before = min(max(clock(game, last), HISTORY), HISTORY_ROWS - 1, last)
    base = tree * rules.row_room
    for i in range(plies_before + 1):
        copy_row(game, last - plies_before + i, trees.rows, base + i)
    trees.slots[tree, FIRST_ROW], trees.slots[tree, ROOT_ROW] = base, base + plies_before
    trees.slots[tree, INITIAL] = 1 if initial and plies_before == last else 0


@kernel
def plant_root(trees: Trees, rules: SearchRules, tree: int, limit: int, seed: int) -> None:
    """Begins a tree again with a root that has no visits yet; `put_game` has written its game."""
    for column in (USED_NODES, USED_EDGES, POLICY, PROBED):
        trees.slots[tree, column] = 0
    new_node(trees, rules, tree, -1, -1)
    start_search(trees, tree, limit, seed)


@kernel
def start_search(trees: Trees, tree: int, limit: int, seed: int) -> None:
    """Begins a search of a tree up to `limit` visits of its root."""
    for column in (EVALUATIONS, LEAVES, DEPTHS, DEEPEST):
        trees.slots[tree, column] = 0
    trees.slots[tree, LIMIT], trees.slots[tree, RANDOM] = limit, seed
    trees.slots[tree, STATE] = SEARCHING


@kernel
def find_edge(trees: Trees, node: int, move: int) -> int:
    """The edge of a move (seen from the side to move), -1 if the node has no such edge."""
    first = np.int64(trees.nodes[node, FIRST])
    for edge in range(first, first + trees.nodes[node, COUNT]):
        if trees.move[edge] == move:
            return edge
    return -1


@kernel
def keep_moves(trees: Trees, rules: SearchRules, tree: int, moves: Moves) -> None:
    """Drops all edges of an expanded root, none of them opened, but those of `moves` (absolute squares)."""
    root = tree * rules.node_room
    turn = FLIP * black_to_move(trees.rows, trees.slots[tree, ROOT_ROW])
    first, kept = np.int64(trees.nodes[root, FIRST]), 0
    for edge in range(first, first + trees.nodes[root, COUNT]):
        for move in moves:
            if np.int64(move) ^ turn == np.int64(trees.move[edge]):
                to = first + kept
                trees.move[to], trees.prior[to] = trees.move[edge], trees.prior[edge]
                if len(trees.certain):
                    trees.certain[to] = trees.certain[edge]
                kept += 1
                break
    trees.nodes[root, COUNT], trees.nodes[root, ARRANGED] = kept, 0


@allocating_kernel
def make_root(trees: Trees, rules: SearchRules, tree: int, move: int) -> bool:
    """Makes the node after a move (absolute squares) the root; False if it has no visits or its moves have no priors.

    Drops all nodes that are not below it; indices still ascend from parent to child. Undoes repetitions that counted as
    draws but whose first occurrence is now before the root (lc0's EnsureNodeTwoFoldCorrectForDepth). The rows of the
    tree must still be those of the old root; they are out of date afterwards.
    """
    base = tree * rules.node_room
    black = black_to_move(trees.rows, trees.slots[tree, ROOT_ROW])
    edge = find_edge(trees, base, move ^ FLIP * black)
    if edge < 0 or edge >= trees.nodes[base, FIRST] + trees.nodes[base, OPENED]:
        return False
    root = np.int64(trees.child[edge])
    if trees.nodes[root, VISITS] == 0 or trees.nodes[root, COUNT] == 0:
        return False
    if np.isnan(trees.means[root, OWN]) and not trees.nodes[root, FORCED]:
        return False
    step_down(trees, tree, edge, trees.slots[tree, ROOT_ROW])
    trees.slots[tree, ROOT_ROW] += 1
    trees.slots[tree, POLICY] = 0
    depths = compact(trees, rules, tree, root)
    for node in range(base + 1, base + len(depths)):
        if trees.nodes[node, KIND] == TWO_FOLD and depths[node - base] < trees.means[node, LEFT]:
            black_moved = (black + depths[node - base]) & 1
            take_back(trees, node, -rules.draw_score if black_moved else rules.draw_score)
    if rules.certainty:
        trees.nodes[base, KIND] = OPEN
    elif trees.nodes[base, KIND] != OPEN:
        reopen(trees, base)
    trees.nodes[base, LOWER], trees.nodes[base, UPPER], trees.nodes[base, ARRANGED] = -1, 1, 0
    if rules.certainty:
        retake_means(trees, depths, base, black, rules.draw_score)
    return bool(trees.nodes[base, VISITS] > 0)


@allocating_kernel
def compact(trees: Trees, rules: SearchRules, tree: int, root: int) -> NDArray[np.int64]:
    """Moves the nodes below `root`, and their edges, to the front of the tree; returns their depths."""
    base, used, kept = tree * rules.node_room, trees.slots[tree, USED_NODES], 0
    to, depths, firsts = np.full(used, -1), np.zeros(used, np.int64), np.zeros(used, np.int64)
    for i in range(root - base, used):
        node, new = base + i, base + kept
        parent = np.int64(trees.nodes[node, PARENT]) - base
        if node != root and (parent < 0 or to[parent] < 0):
            continue
        to[i], depths[kept], firsts[kept] = (
            kept,
            0 if node == root else depths[to[parent]] + 1,
            trees.nodes[node, FIRST],
        )
        for column in range(NODE):
            trees.nodes[new, column] = trees.nodes[node, column]
        for column in range(MEAN):
            trees.means[new, column] = trees.means[node, column]
        trees.nodes[new, PARENT] = -1 if node == root else base + to[parent]
        kept += 1
    trees.slots[tree, USED_NODES] = kept
    trees.nodes[base, EDGE] = -1
    compact_edges(trees, rules, tree, firsts[:kept])
    return depths[:kept]


@allocating_kernel
def compact_edges(trees: Trees, rules: SearchRules, tree: int, firsts: NDArray[np.int64]) -> None:
    """Moves the edges of the nodes of a tree, which begin at `firsts`, to the front."""
    base, end = tree * rules.node_room, tree * rules.edge_room
    # In the order of the edges: a node whose visits were taken back has new edges after those of later nodes.
    for i in np.argsort(firsts):
        node = base + i
        for at in range(trees.nodes[node, COUNT]):
            copy_edge(trees, firsts[i] + at, end + at)
        trees.nodes[node, FIRST] = end
        end += trees.nodes[node, COUNT]
    trees.slots[tree, USED_EDGES] = end - tree * rules.edge_room
    for i in range(1, len(firsts)):
        parent = np.int64(trees.nodes[base + i, PARENT])
        edge = trees.nodes[base + i, EDGE] - firsts[parent - base] + trees.nodes[parent, FIRST]
        trees.nodes[base + i, EDGE], trees.child[edge] = edge, base + i


@kernel
def copy_edge(trees: Trees, edge: int, to: int) -> None:
    """Copies an edge."""
    trees.move[to], trees.prior[to] = trees.move[edge], trees.prior[edge]
    trees.child[to], trees.visits[to], trees.q[to] = trees.child[edge], trees.visits[edge], trees.q[edge]
    if len(trees.certain):
        trees.certain[to] = trees.certain[edge]
    if len(trees.frozen):
        trees.frozen[to] = trees.frozen[edge]


@kernel
def take_back(trees: Trees, drawn: int, draw_score: np.float32) -> None:
    """Removes the visits of a two-fold draw from all means above it, and makes it a node without visits again.

    Above a proven node all its visits are worth the proven value, these as well.
    """
    visits, node = trees.nodes[drawn, VISITS], np.int64(drawn)
    wl, draw, plies_left = 0.0, 1.0, trees.means[drawn, LEFT]
    trees.nodes[drawn, KIND] = OPEN
    while node >= 0:
        rest = trees.nodes[node, VISITS] - visits
        if trees.nodes[node, KIND] != OPEN:
            wl, draw, plies_left = trees.means[node, WL], trees.means[node, DRAW], trees.means[node, LEFT]
        elif rest <= 0:
            trees.means[node, WL], trees.means[node, DRAW], trees.means[node, LEFT] = 0.0, 1.0, 0.0
        else:
            share = visits / rest
            trees.means[node, WL] -= share * (wl - trees.means[node, WL])
            trees.means[node, DRAW] -= share * (draw - trees.means[node, DRAW])
            trees.means[node, LEFT] -= share * (plies_left - trees.means[node, LEFT])
        trees.nodes[node, VISITS] = max(rest, 0)
        if trees.nodes[node, PARENT] >= 0:
            refresh_edge(trees, node, draw_score)
        node, draw_score = np.int64(trees.nodes[node, PARENT]), np.float32(-draw_score)
        wl, plies_left = -wl, plies_left + 1.0


@kernel
def retake_means(trees: Trees, depths: NDArray[np.int64], base: int, black: int, draw_score: np.float32) -> None:
    """Computes the means of all nodes again after some visits were taken back; children come after their parents."""
    for i in range(len(depths) - 1, -1, -1):
        node = base + i
        if trees.nodes[node, KIND] == OPEN and trees.nodes[node, VISITS] > 0:
            take_mean(trees, node)
        if i > 0:
            black_moved = (black + depths[i]) & 1
            refresh_edge(trees, node, -draw_score if black_moved else draw_score)


@kernel
def reopen(trees: Trees, root: int) -> None:
    """Makes a proven node that has become the root an ordinary one (lc0's MakeNotTerminal).

    Its value comes from its moves, and from the proven value in the place of its own evaluation.
    """
    wl, draw, visits = 0.0, 0.0, 1
    if trees.nodes[root, FORCED]:
        trees.means[root, WL], trees.means[root, DRAW], visits = 0.0, 0.0, 0
    trees.means[root, OWN], trees.nodes[root, OWN_LEFT] = trees.means[root, WL], -1
    first = np.int64(trees.nodes[root, FIRST])
    for edge in range(first, first + trees.nodes[root, OPENED]):
        child, n = np.int64(trees.child[edge]), trees.visits[edge]
        wl, draw, visits = wl - trees.means[child, WL] * n, draw + trees.means[child, DRAW] * n, visits + n
    trees.means[root, WL] = (trees.means[root, WL] + wl) / visits
    trees.means[root, DRAW] = (trees.means[root, DRAW] + draw) / visits
    trees.nodes[root, VISITS], trees.nodes[root, KIND] = visits, OPEN
