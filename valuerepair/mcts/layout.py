"""How a forest of search trees lies in memory.

Tree t owns rows ``t * R .. ``, nodes ``t * N .. `` and edges ``t * E .. `` of the arrays of `Trees`, where R, N and E
are the room of one tree; indices in the arrays are those of the whole forest. A node is made by its first visit; its
edges are its legal moves. The edges that lead to a node (the *opened* ones) always come first, in the order in which
they were opened, which is that of descending priors; `child`, `visits` and `q` of the others are not set.

Values follow lc0: those of a node (`means`) are seen by the player who moved there, so `WL` of the root is the negative
of the root's value; `q` of an edge is that of the node it leads to, seen by the player to move before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.movegen import MAX_MOVES
from valuerepair.chess.rows import ROW, Boards
from valuerepair.mcts.params import SearchParams

# Columns of Trees.nodes.
FIRST, COUNT, OPENED, ARRANGED, PARENT, EDGE, VISITS, PENDING, KIND, LOWER, UPPER, FORCED, FROZEN = range(13)
OWN_DRAW = 13  # the net's own share of draws, in parts of DRAW_UNIT
DRAW_UNIT = 1 << 30
OWN_LEFT = 14  # the net's own plies to the end, in parts of LEFT_UNIT
LEFT_UNIT = 1 << 20
MOST_LEFT = 2047  # plies that fit
NODE = 16  # 64 bytes: a line of the cache
# Columns of Trees.means, seen by the player who moved: W - L, the share of draws, plies to the end; the net's own Q.
WL, DRAW, LEFT, OWN = range(4)
MEAN = 4
# Columns of Trees.slots.
STATE, USED_NODES, USED_EDGES, FIRST_ROW, ROOT_ROW, INITIAL, LIMIT = range(7)
EVALUATIONS, LEAVES, DEPTHS, DEEPEST, RANDOM, REQUESTED, POLICY = range(7, 14)
SLOT = 16  # two lines of the cache
# Values of the column STATE.
FREE, SEARCHING, DONE, NEEDS_NODES, NEEDS_EDGES, NEEDS_ROWS = range(6)
# Values of the column KIND: what a node's value is. The end of the game is a proof, a two-fold repetition is none.
OPEN, ENDED, TWO_FOLD = range(3)
UNPROVEN = 2  # in Trees.certain

HISTORY_ROWS = 176  # before the root: a repetition cannot lie further back, and the net sees seven
LINE_ROWS = 112  # of the line that is searched, at first
SPARE_ROWS = 34  # the part of them for a chain of forced moves from a leaf, and one ply of look-ahead
EDGES_PER_NODE = 40  # at first; the middlegame of master games has 32
MOST_MOVES = 218  # of a legal position


class Trees(NamedTuple):
    """The arrays of a forest of T trees; R, N, E are the room of one tree.

    | field   | type                 |                                                                     |
    |---------|----------------------|---------------------------------------------------------------------|
    | rows    | uint64[T * R, ROW]   | boards: the game up to the root, then the line being searched       |
    | nodes   | int32[T * N, NODE]   | columns FIRST (edge) to OWN_LEFT; FROZEN: edges opened at freezing  |
    | means   | float64[T * N, MEAN] | over all visits: WL, DRAW, LEFT (plies); OWN is the net's Q         |
    | move    | uint16[T * E]        | seen from the side to move                                          |
    | prior   | float32[T * E]       | P                                                                   |
    | child   | int32[T * E]         | node                                                                |
    | visits  | int32[T * E]         | of the child                                                        |
    | q       | float32[T * E]       | of the child, draw score included                                   |
    | certain | int8[T * E] or [0]   | proven value, else `UNPROVEN`; only with certainty or look-ahead    |
    | frozen  | int32[T * E] or [0]  | visits when its node was frozen; only with search-contempt          |
    | slots   | int64[T, SLOT]       | columns STATE to POLICY; REQUESTED: leaves in this round            |
    | policy  | float32[T, MAX_MOVES] | the net's own priors of the root, without noise or proofs          |
    | policy_move | uint16[T, MAX_MOVES] | their moves; the column POLICY of slots is their number         |
    """

    rows: Boards
    nodes: NDArray[np.int32]
    means: NDArray[np.float64]
    move: NDArray[np.uint16]
    prior: NDArray[np.float32]
    child: NDArray[np.int32]
    visits: NDArray[np.int32]
    q: NDArray[np.float32]
    certain: NDArray[np.int8]
    frozen: NDArray[np.int32]
    slots: NDArray[np.int64]
    policy: NDArray[np.float32]
    policy_move: NDArray[np.uint16]


class SearchRules(NamedTuple):
    """`SearchParams` in the types of the kernels, and everything else that is fixed for a tree."""

    cpuct: np.float32
    cpuct_base: np.float32
    cpuct_factor: np.float32
    root_cpuct: np.float32
    root_cpuct_base: np.float32
    root_cpuct_factor: np.float32
    fpu: np.float32
    root_fpu: np.float32
    q_scale: np.float32
    temperature: np.float32
    draw_score: np.float32
    left_effect: np.float32
    left_threshold: np.float32
    left_slope: np.float32
    left_factors: tuple[np.float32, np.float32, np.float32]
    moves_left: bool
    fpu_absolute: bool
    root_fpu_absolute: bool
    sticky: bool
    two_fold: bool
    certainty: bool
    lookahead: bool
    auto_extend: bool
    lc0_floats: bool
    n_scl: int
    batch: int
    form: int
    node_room: int
    edge_room: int
    row_room: int


def make_rules(params: SearchParams, nodes: int, input_format: int = 1, *, moves_left: bool = False) -> SearchRules:
    """The rules of a search, with room for `nodes` visits a tree at first; `moves_left`: the net has that head."""
    f = np.float32
    at_root = params.root_has_own_cpuct_params
    same = params.fpu_strategy_at_root == "same"
    return SearchRules(
        f(params.cpuct),
        f(params.cpuct_base),
        f(params.cpuct_factor),
        f(params.cpuct_at_root if at_root else params.cpuct),
        f(params.cpuct_base_at_root if at_root else params.cpuct_base),
        f(params.cpuct_factor_at_root if at_root else params.cpuct_factor),
        f(params.fpu_value),
        f(params.fpu_value if same else params.fpu_value_at_root),
        f(params.q_scale),
        f(params.policy_softmax_temp),
        f(params.draw_score),
        f(params.moves_left_max_effect),
        f(params.moves_left_threshold),
        f(params.moves_left_slope),
        (
            f(params.moves_left_constant_factor),
            f(params.moves_left_scaled_factor),
            f(params.moves_left_quadratic_factor),
        ),
        moves_left and params.moves_left_max_effect > 0,
        params.fpu_strategy == "absolute",
        (params.fpu_strategy if same else params.fpu_strategy_at_root) == "absolute",
        params.sticky_endgames or params.certainty,
        params.two_fold_draws,
        params.certainty,
        params.lookahead,
        params.auto_extend,
        params.lc0_floats,
        params.n_scl,
        params.minibatch_size,
        input_format,
        *room_for(nodes),
        HISTORY_ROWS + LINE_ROWS,
    )


def plant(trees: int, rules: SearchRules) -> Trees:
    """An empty forest of this number of trees, each with the room that the rules give."""
    total, keeps_proofs = trees * rules.edge_room, rules.certainty or rules.lookahead
    return Trees(
        np.empty((trees * rules.row_room, ROW), np.uint64),
        np.empty((trees * rules.node_room, NODE), np.int32),
        np.empty((trees * rules.node_room, MEAN), np.float64),
        np.empty(total, np.uint16),
        np.empty(total, np.float32),
        np.empty(total, np.int32),
        np.empty(total, np.int32),
        np.empty(total, np.float32),
        np.empty(total if keeps_proofs else 0, np.int8),
        np.empty(total if rules.n_scl else 0, np.int32),
        np.zeros((trees, SLOT), np.int64),
        np.empty((trees, MAX_MOVES), np.float32),
        np.empty((trees, MAX_MOVES), np.uint16),
    )


def room_for(nodes: int) -> tuple[int, int]:
    """The room of one tree for `nodes` visits: nodes, and edges at first."""
    return nodes + 1, EDGES_PER_NODE * (nodes + 1) + 2 * MAX_MOVES


def tree_bytes(rules: SearchRules) -> int:
    """Memory of one tree in bytes; it grows where positions have more moves."""
    node_bytes = 4 * NODE + 8 * MEAN
    edge_bytes = 2 + 4 * 4 + (rules.certainty or rules.lookahead) + 4 * (rules.n_scl > 0)
    root_bytes = 6 * MAX_MOVES + 8 * SLOT
    return rules.node_room * node_bytes + rules.edge_room * edge_bytes + rules.row_room * 8 * ROW + root_bytes


def grown(trees: Trees, old: SearchRules, new: SearchRules) -> Trees:
    """The same forest with the greater room of the new rules."""
    larger = plant(len(trees.slots), new)
    larger.slots[:], larger.policy[:], larger.policy_move[:] = trees.slots, trees.policy, trees.policy_move
    for t in np.flatnonzero(trees.slots[:, STATE] != FREE).tolist():
        used_nodes, used_edges = int(trees.slots[t, USED_NODES]), int(trees.slots[t, USED_EDGES])
        more_nodes, more_edges = t * (new.node_room - old.node_room), t * (new.edge_room - old.edge_room)
        target, source = _part(t, new.node_room, used_nodes), _part(t, old.node_room, used_nodes)
        larger.nodes[target], larger.means[target] = trees.nodes[source], trees.means[source]
        nodes = larger.nodes[target]
        nodes[:, FIRST] += more_edges
        nodes[1:, PARENT] += more_nodes
        nodes[1:, EDGE] += more_edges
        target, source = _part(t, new.edge_room, used_edges), _part(t, old.edge_room, used_edges)
        for name in ("move", "prior", "child", "visits", "q", "certain", "frozen"):
            if len(getattr(trees, name)):
                getattr(larger, name)[target] = getattr(trees, name)[source]
        larger.child[target] += more_nodes  # unopened edges have no child before and after
        larger.rows[_part(t, new.row_room, old.row_room)] = trees.rows[_part(t, old.row_room, old.row_room)]
        larger.slots[t, [FIRST_ROW, ROOT_ROW]] += t * (new.row_room - old.row_room)
    return larger


def _part(tree: int, room: int, used: int) -> slice:
    return slice(tree * room, tree * room + used)
