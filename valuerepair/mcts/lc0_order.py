"""lc0's order of moves, as kernels: as it generates them, and as it sorts them by prior.

Only a search with `lc0_floats` uses it. The order matters where moves have the same prior of 16 bits, which is the rule
rather than the exception among the many small ones (the first of them is visited first), and for the last bit of the
sum that the priors are divided by.
"""

from __future__ import annotations

import numpy as np

from valuerepair.board.jit import kernel
from valuerepair.board.rows import KINGS, KNIGHTS, PAWNS, Boards
from valuerepair.mcts.tree import Trees

ONE = np.uint64(1)
SMALL = 16  # std::sort leaves segments up to this long to the insertion sort at its end


@kernel
def generation_rank(rows: Boards, r: int, move: int) -> int:
    """Where lc0's GeneratePseudolegalMoves (chess/board.cc) comes to a legal move of row r; lower is earlier."""
    origin, target = move & 63, move >> 6 & 63
    piece, step = ONE << np.uint64(origin), target - origin
    place = target
    if piece & rows[r, KINGS]:
        if step == 2 or step == -2:  # castling comes last, queenside first
            place = 64 + (step > 0)
    elif piece & rows[r, PAWNS]:
        promotion = move >> 12
        sideways = (target & 7) - (origin & 7)
        place = 0 if sideways == 0 else 8 if sideways < 0 else 16
        place += 4 - promotion if promotion else (step == 16)
    elif not piece & rows[r, KNIGHTS] and step & 7 and origin >> 3 != target >> 3:
        place = 64 + target  # a queen's moves as a bishop come after those as a rook
    return (origin << 8) + place


@kernel
def order_as_generated(trees: Trees, row: int, first: int, count: int) -> None:
    """Brings the moves of new edges in the order in which lc0 generates them."""
    for i in range(first + 1, first + count):
        move, at = trees.move[i], i
        rank = generation_rank(trees.rows, row, np.int64(move))
        while at > first and generation_rank(trees.rows, row, np.int64(trees.move[at - 1])) > rank:
            trees.move[at] = trees.move[at - 1]
            at -= 1
        trees.move[at] = move


@kernel
def swap(trees: Trees, a: int, b: int) -> None:
    trees.move[a], trees.move[b] = trees.move[b], trees.move[a]
    trees.prior[a], trees.prior[b] = trees.prior[b], trees.prior[a]
    if len(trees.certain):
        trees.certain[a], trees.certain[b] = trees.certain[b], trees.certain[a]


@kernel
def partition(trees: Trees, first: int, last: int) -> int:
    """libstdc++'s __unguarded_partition_pivot by descending prior; returns where the second part begins."""
    prior = trees.prior
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if prior[a] > prior[b]:
        median = b if prior[b] > prior[c] else (c if prior[a] > prior[c] else a)
    else:
        median = a if prior[a] > prior[c] else (c if prior[b] > prior[c] else b)
    swap(trees, first, median)
    pivot, low, high = prior[first], first + 1, last
    while True:
        while prior[low] > pivot:
            low += 1
        high -= 1
        while pivot > prior[high]:
            high -= 1
        if low >= high:
            return low
        swap(trees, low, high)
        low += 1


@kernel
def sort_as_lc0(trees: Trees, first: int, count: int) -> None:
    """Sorts new edges by descending prior as libstdc++'s std::sort does, which lc0 calls and which is not stable.

    Its change to a heap sort after too many unlucky partitions is left out: no position's moves come to that.
    """
    # The ends of the segments to do are kept in the column of children, which new edges do not have.
    begin, level = first, 0
    trees.child[first] = first + count
    while level >= 0:
        end = np.int64(trees.child[first + level])
        if end - begin > SMALL:
            level += 1
            trees.child[first + level] = partition(trees, begin, end)
        else:
            begin, level = end, level - 1
    for i in range(first + 1, first + count):
        at = i
        while at > first and trees.prior[at] > trees.prior[at - 1]:
            swap(trees, at, at - 1)
            at -= 1
