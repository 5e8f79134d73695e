"""Planting a root with its game, as kernels."""

from __future__ import annotations

import numpy as np

from valuerepair.arrays import Moves
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, clock, copy_row, make, mark_repetition
from valuerepair.chess.rows import FLIP, ROW, Boards
from valuerepair.mcts import layout
from valuerepair.mcts.layout import SearchRules, Trees
from valuerepair.mcts.select import new_node
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
    for column in (layout.USED_NODES, layout.USED_EDGES, layout.POLICY):
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
