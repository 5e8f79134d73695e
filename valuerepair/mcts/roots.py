"""Planting a root with its game, and keeping a part of a tree when the game goes on, as kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, clock, copy_row, make, mark_repetition
from valuerepair.chess.rows import FLIP, ROW, Boards
from valuerepair.mcts import layout
from valuerepair.mcts.backup import recompute_mean, refresh_edge
from valuerepair.mcts.layout import SearchRules, Trees
from valuerepair.mcts.select import new_node, step_down
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
    """Copies the end of a game, up to the root, into a tree's rows: the positions that the net sees or may recur."""
    last = len(game) - 1
    plies_before = min(max(clock(game, last), HISTORY), layout.HISTORY_ROWS - 1, last)
    base = tree * rules.row_room
    for i in range(plies_before + 1):
        copy_row(game, last - plies_before + i, trees.rows, base + i)
    trees.slots[tree, layout.FIRST_ROW], trees.slots[tree, layout.ROOT_ROW] = base, base + plies_before
    trees.slots[tree, layout.INITIAL] = 1 if initial and plies_before == last else 0


@kernel
def plant_root(trees: Trees, rules: SearchRules, tree: int, limit: int, seed: int) -> None:
    """Begins a new tree with a root without visits; `put_game` has written its game."""
    for column in (layout.USED_NODES, layout.USED_EDGES, layout.POLICY, layout.PROBED):
        trees.slots[tree, column] = 0
    new_node(trees, rules, tree, -1, -1)
    start_search(trees, tree, limit, seed)


@kernel
def start_search(trees: Trees, tree: int, limit: int, seed: int) -> None:
    """Begins a search of a tree up to `limit` visits of its root."""
    for column in (layout.EVALUATIONS, layout.LEAVES, layout.DEPTHS, layout.DEEPEST):
        trees.slots[tree, column] = 0
    trees.slots[tree, layout.LIMIT], trees.slots[tree, layout.RANDOM] = limit, seed
    trees.slots[tree, layout.STATE] = layout.SEARCHING


@kernel
def find_edge(trees: Trees, node: int, move: int) -> int:
    """The edge of a move (seen from the side to move), -1 if the node has no such edge."""
    first = np.int64(trees.nodes[node, layout.FIRST])
    for edge in range(first, first + trees.nodes[node, layout.COUNT]):
        if trees.move[edge] == move:
            return edge
    return -1


@kernel
def keep_moves(trees: Trees, rules: SearchRules, tree: int, moves: Moves) -> None:
    """Drops the edges of an expanded root that are not in `moves` (absolute squares); no edge must be opened yet."""
    root = tree * rules.node_room
    turn = FLIP * black_to_move(trees.rows, trees.slots[tree, layout.ROOT_ROW])
    first, count = np.int64(trees.nodes[root, layout.FIRST]), 0
    for edge in range(first, first + trees.nodes[root, layout.COUNT]):
        for move in moves:
            if np.int64(move) ^ turn == np.int64(trees.move[edge]):
                to = first + count
                trees.move[to], trees.prior[to] = trees.move[edge], trees.prior[edge]
                if len(trees.certain):
                    trees.certain[to] = trees.certain[edge]
                count += 1
                break
    trees.nodes[root, layout.COUNT], trees.nodes[root, layout.ARRANGED] = count, 0


@allocating_kernel
def make_root(trees: Trees, rules: SearchRules, tree: int, move: int) -> bool:
    """Makes the node after a move (absolute squares) the root; False if it has no visits or its moves have no priors.

    Drops all nodes that are not below it; indices still ascend from parent to child. A repetition that counted as a
    draw does so no longer if its first occurrence is now before the root (lc0's EnsureNodeTwoFoldCorrectForDepth). The
    rows of the tree must be those of the old root; afterwards they are out of date.
    """
    base = tree * rules.node_room
    black = black_to_move(trees.rows, trees.slots[tree, layout.ROOT_ROW])
    edge = find_edge(trees, base, move ^ FLIP * black)
    if edge < 0 or edge >= trees.nodes[base, layout.FIRST] + trees.nodes[base, layout.OPENED]:
        return False
    root = np.int64(trees.child[edge])
    if trees.nodes[root, layout.VISITS] == 0 or trees.nodes[root, layout.COUNT] == 0:
        return False
    if np.isnan(trees.means[root, layout.OWN]) and not trees.nodes[root, layout.FORCED]:
        return False
    step_down(trees, tree, edge, trees.slots[tree, layout.ROOT_ROW])
    trees.slots[tree, layout.ROOT_ROW] += 1
    trees.slots[tree, layout.POLICY] = 0
    depths = compact(trees, rules, tree, root)
    for node in range(base + 1, base + len(depths)):
        if trees.nodes[node, layout.KIND] == layout.TWO_FOLD and depths[node - base] < trees.means[node, layout.LEFT]:
            black_moved = (black + depths[node - base]) & 1
            take_back(trees, node, -rules.draw_score if black_moved else rules.draw_score)
    if rules.certainty:
        trees.nodes[base, layout.KIND] = layout.OPEN
    elif trees.nodes[base, layout.KIND] != layout.OPEN:
        reopen(trees, base)
    trees.nodes[base, layout.LOWER], trees.nodes[base, layout.UPPER], trees.nodes[base, layout.ARRANGED] = -1, 1, 0
    if rules.certainty:
        recompute_means(trees, depths, base, black, rules.draw_score)
    return bool(trees.nodes[base, layout.VISITS] > 0)


@allocating_kernel
def compact(trees: Trees, rules: SearchRules, tree: int, root: int) -> NDArray[np.int64]:
    """Moves the nodes below `root`, and their edges, to the front of the tree; returns their depths."""
    base, used, count = tree * rules.node_room, trees.slots[tree, layout.USED_NODES], 0
    to, depths, firsts = np.full(used, -1), np.zeros(used, np.int64), np.zeros(used, np.int64)
    for i in range(root - base, used):
        node, new = base + i, base + count
        parent = np.int64(trees.nodes[node, layout.PARENT]) - base
        if node != root and (parent < 0 or to[parent] < 0):
            continue
        to[i], depths[count], firsts[count] = (
            count,
            0 if node == root else depths[to[parent]] + 1,
            trees.nodes[node, layout.FIRST],
        )
        for column in range(layout.NODE):
            trees.nodes[new, column] = trees.nodes[node, column]
        for column in range(layout.MEAN):
            trees.means[new, column] = trees.means[node, column]
        trees.nodes[new, layout.PARENT] = -1 if node == root else base + to[parent]
        count += 1
    trees.slots[tree, layout.USED_NODES] = count
    trees.nodes[base, layout.EDGE] = -1
    compact_edges(trees, rules, tree, firsts[:count])
    return depths[:count]


@allocating_kernel
def compact_edges(trees: Trees, rules: SearchRules, tree: int, firsts: NDArray[np.int64]) -> None:
    """Moves the edges of the nodes of a tree, which begin at `firsts`, to the front."""
    base, end = tree * rules.node_room, tree * rules.edge_room
    # In the order of the edges: a node whose visits were taken back has new edges after those of later nodes.
    for i in np.argsort(firsts):
        node = base + i
        for offset in range(trees.nodes[node, layout.COUNT]):
            copy_edge(trees, firsts[i] + offset, end + offset)
        trees.nodes[node, layout.FIRST] = end
        end += trees.nodes[node, layout.COUNT]
    trees.slots[tree, layout.USED_EDGES] = end - tree * rules.edge_room
    for i in range(1, len(firsts)):
        parent = np.int64(trees.nodes[base + i, layout.PARENT])
        edge = trees.nodes[base + i, layout.EDGE] - firsts[parent - base] + trees.nodes[parent, layout.FIRST]
        trees.nodes[base + i, layout.EDGE], trees.child[edge] = edge, base + i


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

    In the means above a proven node, all visits of that node have the proven value, these too.
    """
    visits, node = trees.nodes[drawn, layout.VISITS], np.int64(drawn)
    wl, draw, plies_left = 0.0, 1.0, trees.means[drawn, layout.LEFT]
    trees.nodes[drawn, layout.KIND] = layout.OPEN
    while node >= 0:
        visits_left = trees.nodes[node, layout.VISITS] - visits
        if trees.nodes[node, layout.KIND] != layout.OPEN:
            wl, draw, plies_left = (
                trees.means[node, layout.WL],
                trees.means[node, layout.DRAW],
                trees.means[node, layout.LEFT],
            )
        elif visits_left <= 0:
            trees.means[node, layout.WL], trees.means[node, layout.DRAW], trees.means[node, layout.LEFT] = 0.0, 1.0, 0.0
        else:
            share = visits / visits_left
            trees.means[node, layout.WL] -= share * (wl - trees.means[node, layout.WL])
            trees.means[node, layout.DRAW] -= share * (draw - trees.means[node, layout.DRAW])
            trees.means[node, layout.LEFT] -= share * (plies_left - trees.means[node, layout.LEFT])
        trees.nodes[node, layout.VISITS] = max(visits_left, 0)
        if trees.nodes[node, layout.PARENT] >= 0:
            refresh_edge(trees, node, draw_score)
        node, draw_score = np.int64(trees.nodes[node, layout.PARENT]), np.float32(-draw_score)
        wl, plies_left = -wl, plies_left + 1.0


@kernel
def recompute_means(trees: Trees, depths: NDArray[np.int64], base: int, black: int, draw_score: np.float32) -> None:
    """Recomputes the means of all nodes after some visits were taken back; children come after their parents."""
    for i in range(len(depths) - 1, -1, -1):
        node = base + i
        if trees.nodes[node, layout.KIND] == layout.OPEN and trees.nodes[node, layout.VISITS] > 0:
            recompute_mean(trees, node)
        if i > 0:
            black_moved = (black + depths[i]) & 1
            refresh_edge(trees, node, -draw_score if black_moved else draw_score)


@kernel
def reopen(trees: Trees, root: int) -> None:
    """Makes a proven node that has become the root an ordinary one (lc0's MakeNotTerminal).

    Its value then comes from its moves, and from the proven value, which replaces its own evaluation.
    """
    wl, draw, visits = 0.0, 0.0, 1
    if trees.nodes[root, layout.FORCED]:
        trees.means[root, layout.WL], trees.means[root, layout.DRAW], visits = 0.0, 0.0, 0
    trees.means[root, layout.OWN], trees.nodes[root, layout.OWN_LEFT] = trees.means[root, layout.WL], -1
    first = np.int64(trees.nodes[root, layout.FIRST])
    for edge in range(first, first + trees.nodes[root, layout.OPENED]):
        child, n = np.int64(trees.child[edge]), trees.visits[edge]
        wl, draw, visits = (
            wl - trees.means[child, layout.WL] * n,
            draw + trees.means[child, layout.DRAW] * n,
            visits + n,
        )
    trees.means[root, layout.WL] = (trees.means[root, layout.WL] + wl) / visits
    trees.means[root, layout.DRAW] = (trees.means[root, layout.DRAW] + draw) / visits
    trees.nodes[root, layout.VISITS], trees.nodes[root, layout.KIND] = visits, layout.OPEN
