"""What the visits of a root say: the order of its moves, principal lines, mates, the positions that the net saw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move
from valuerepair.chess.positions import decode_moves
from valuerepair.chess.rows import FLIP
from valuerepair.mcts import layout
from valuerepair.mcts.layout import SearchRules, Trees
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import NAN, RootMove, SearchResult

LOSS, UNDECIDED, WIN = range(3)
LONGEST_LINE = 128


@kernel
def rank(trees: Trees, edge: int, opened: bool) -> int:
    """The class of a move, which counts before its visits: proven wins first, proven losses last."""
    if not opened or trees.visits[edge] == 0:
        if len(trees.certain) and trees.certain[edge] != layout.UNPROVEN and trees.certain[edge] != 0:
            return WIN if trees.certain[edge] > 0 else LOSS
        return UNDECIDED
    child = trees.child[edge]
    kind, wl = trees.nodes[child, layout.KIND], trees.means[child, layout.WL]
    if kind == layout.OPEN or wl == 0.0:
        return UNDECIDED
    return WIN if wl > 0 else LOSS


@kernel
def plies_left(trees: Trees, edge: int, opened: bool) -> float:
    """Plies to the end after a proven move."""
    return trees.means[trees.child[edge], layout.LEFT] if opened and trees.visits[edge] > 0 else 0.0


@kernel
def preferred(trees: Trees, a: int, b: int, last_opened: int) -> bool:
    """Edge a is better to play than edge b of the same node (lc0's GetBestChildrenNoTemperature).

    Proven wins (the shortest first), then by visits, Q and prior, then proven losses (the longest first); the edges
    before `last_opened` are opened.
    """
    a_opened, b_opened = a < last_opened, b < last_opened
    a_rank, b_rank = rank(trees, a, a_opened), rank(trees, b, b_opened)
    if a_rank != b_rank:
        return a_rank > b_rank
    if a_rank > UNDECIDED:
        return bool(plies_left(trees, a, a_opened) < plies_left(trees, b, b_opened))
    if a_rank < UNDECIDED:
        return plies_left(trees, a, a_opened) > plies_left(trees, b, b_opened)
    a_visits, b_visits = trees.visits[a] if a_opened else 0, trees.visits[b] if b_opened else 0
    if a_visits > 0 and b_visits > 0:
        a_kind, b_kind = trees.nodes[trees.child[a], layout.KIND], trees.nodes[trees.child[b], layout.KIND]
        if a_kind != layout.OPEN and b_kind != layout.OPEN:
            return bool(plies_left(trees, a, True) < plies_left(trees, b, True))
    if a_visits != b_visits:
        return bool(a_visits > b_visits)
    if a_visits > 0 and trees.q[a] != trees.q[b]:
        return bool(trees.q[a] > trees.q[b])
    return bool(trees.prior[a] > trees.prior[b])


@kernel
def best_edge(trees: Trees, node: int) -> int:
    """The edge to play from a node, -1 if it has no edge; found by one scan, like lc0's partial_sort for one move."""
    first, best = np.int64(trees.nodes[node, layout.FIRST]), -1
    last_opened = first + trees.nodes[node, layout.OPENED]
    for edge in range(first, first + trees.nodes[node, layout.COUNT]):
        if best < 0 or preferred(trees, edge, best, last_opened):
            best = edge
    return best


@kernel
def proven_draw(trees: Trees, edge: int, opened: bool) -> bool:
    """Whether a move is proven to draw, by its node or, without a visit, by look-ahead."""
    if not opened or trees.visits[edge] == 0:
        return bool(len(trees.certain) > 0 and trees.certain[edge] == 0)
    kind = trees.nodes[trees.child[edge], layout.KIND]
    return bool(kind != layout.OPEN and kind != layout.TWO_FOLD and trees.means[trees.child[edge], layout.WL] == 0.0)


@kernel
def best_at_root(trees: Trees, root: int, draw_score: float, certainty: bool) -> int:
    """The edge to play from a root: `best_edge`, or with certainty a proven draw if `best_edge` is valued below a draw.

    `draw_score` is what a draw is worth to the player to move. A draw of a small prior may have no visit.
    """
    best = best_edge(trees, root)
    first = np.int64(trees.nodes[root, layout.FIRST])
    last_opened = first + trees.nodes[root, layout.OPENED]
    if best < 0 or not certainty or rank(trees, best, best < last_opened) > UNDECIDED:
        return best
    value = -trees.means[root, layout.WL] + draw_score * trees.means[root, layout.DRAW]
    if best < last_opened and trees.visits[best] > 0:
        value = np.float64(trees.q[best])
    if value >= draw_score or proven_draw(trees, best, best < last_opened):
        return best
    draw = -1
    for edge in range(first, first + trees.nodes[root, layout.COUNT]):
        if proven_draw(trees, edge, edge < last_opened) and (draw < 0 or preferred(trees, edge, draw, last_opened)):
            draw = edge
    return draw if draw >= 0 else best


@allocating_kernel
def ordered(trees: Trees, node: int, best: int) -> NDArray[np.int64]:
    """The edges of a node, the best one first.

    The best one must be given, because the order does not determine it: `preferred` is not transitive, as it compares
    draws by their length, other moves by visits.
    """
    first, count = np.int64(trees.nodes[node, layout.FIRST]), np.int64(trees.nodes[node, layout.COUNT])
    last_opened = first + trees.nodes[node, layout.OPENED]
    order = np.empty(count, np.int64)
    order[:1], filled = best, 1
    for edge in range(first, first + count):
        if edge == best:
            continue
        rank_of_edge = filled
        while rank_of_edge > 1 and preferred(trees, edge, order[rank_of_edge - 1], last_opened):
            order[rank_of_edge] = order[rank_of_edge - 1]
            rank_of_edge -= 1
        order[rank_of_edge] = edge
        filled += 1
    return order


@kernel
def principal_line(trees: Trees, root: int, edge: int, black: int, line: Moves) -> int:
    """Writes the moves (absolute squares) that are expected from the root, the move of the given edge first.

    Returns their number; the line ends where there are no visits.
    """
    n, opened = 0, edge < trees.nodes[root, layout.FIRST] + trees.nodes[root, layout.OPENED]
    while n < len(line):
        line[n] = np.int64(trees.move[edge]) ^ FLIP * ((black + n) & 1)
        n += 1
        if not opened or trees.visits[edge] == 0:
            break
        node = np.int64(trees.child[edge])
        edge = best_edge(trees, node)
        if edge < 0:
            break
        opened = edge < trees.nodes[node, layout.FIRST] + trees.nodes[node, layout.OPENED]
        proven = len(trees.certain) > 0 and trees.certain[edge] != layout.UNPROVEN
        if not proven and (not opened or trees.visits[edge] == 0):
            break
    return n


def read_result(trees: Trees, rules: SearchRules, tree: int, lines: int = 1) -> SearchResult:
    """The outcome of a tree whose root has a visit; `lines` of its moves get a principal line."""
    root = tree * rules.node_room
    slots = trees.slots[tree].tolist()
    black = black_to_move(trees.rows, slots[layout.ROOT_ROW])
    draw_score = -float(rules.draw_score) if black else float(rules.draw_score)
    wl, d, m, own = trees.means[root].tolist()
    leaves = max(slots[layout.LEAVES], 1)
    return SearchResult(
        int(trees.nodes[root, layout.VISITS]),
        slots[layout.EVALUATIONS],
        -wl + draw_score * d,
        -wl,
        d,
        m,
        -own,
        tuple(_root_moves(trees, rules, tree, black, draw_score, lines)),
        round(slots[layout.DEPTHS] / leaves),
        slots[layout.DEEPEST],
        int(trees.nodes[root, layout.OWN_DRAW]) / layout.DRAW_UNIT,
        int(trees.nodes[root, layout.OWN_LEFT]) / layout.LEFT_UNIT,
        draw_score,
    )


def _root_moves(
    trees: Trees, rules: SearchRules, tree: int, black: int, draw_score: float, lines: int
) -> Iterator[RootMove]:
    """The moves of a root, the best first; `black` is 1 when Black is to move."""
    root = tree * rules.node_room
    best = best_at_root(trees, root, draw_score, rules.certainty)
    order, line = ordered(trees, root, best), np.empty(LONGEST_LINE, np.uint16)
    last_opened = int(trees.nodes[root, layout.FIRST] + trees.nodes[root, layout.OPENED])
    moves, priors = decode_moves(trees.move[order] ^ np.uint16(FLIP * black)), trees.prior[order].tolist()
    policy = own_policy(trees, tree, order)
    for i, (edge, move, prior, own) in enumerate(zip(order.tolist(), moves, priors, policy, strict=True)):
        pv: tuple[str, ...] = (move,)
        if i < lines:
            pv = decode_moves(line[: principal_line(trees, root, edge, black, line)])
        visits = int(trees.visits[edge]) if edge < last_opened else 0
        if visits == 0:
            yield _unvisited(trees, edge, move, prior, draw_score, own)
            continue
        child = int(trees.child[edge])
        wl, d, m, _ = trees.means[child].tolist()
        kind = int(trees.nodes[child, layout.KIND])
        certain = None if kind in (layout.OPEN, layout.TWO_FOLD) else round(wl)
        mate = certain * (round(m) // 2 + 1) if certain else None
        yield RootMove(move, visits, prior, wl + draw_score * d, wl, d, m, certain, mate, pv, own)


def own_policy(trees: Trees, tree: int, order: NDArray[np.int64]) -> list[float]:
    """The net's own priors of these edges of a root."""
    count = int(trees.slots[tree, layout.POLICY])
    own = dict(zip(trees.policy_move[tree, :count].tolist(), trees.policy[tree, :count].tolist(), strict=True))
    return [own[move] for move in trees.move[order].tolist()]


def _unvisited(trees: Trees, edge: int, move: str, prior: float, draw_score: float, own: float) -> RootMove:
    """A move without visits; look-ahead may know that it ends the game."""
    certain = int(trees.certain[edge]) if len(trees.certain) else layout.UNPROVEN
    if certain == layout.UNPROVEN:
        return RootMove(move, 0, prior, NAN, NAN, NAN, NAN, None, None, (move,), own)
    drawn = float(certain == 0)
    mate = 1 if certain > 0 else None
    wl = float(certain)
    return RootMove(move, 0, prior, wl + draw_score * drawn, wl, drawn, 0.0, certain, mate, (move,), own)


def temperature_at(params: SearchParams, ply: int) -> float:
    """The temperature `ply` half-moves into the game: cut off, or decaying linearly after a delay.

    From lc0's search/classic/search.cc, EnsureBestMoveKnown, which counts moves from 0.
    """
    move, temperature = ply // 2, params.temperature
    if params.temp_cutoff_move and move + 1 >= params.temp_cutoff_move:
        return params.temp_endgame
    if temperature and params.tempdecay_moves:
        late = move - params.tempdecay_delay_moves
        if late >= params.tempdecay_moves:
            temperature = 0.0
        elif late > 0:
            temperature *= (params.tempdecay_moves - late) / params.tempdecay_moves
        temperature = max(temperature, params.temp_endgame)
    return temperature


def choose_move(result: SearchResult, params: SearchParams, ply: int, seed: int) -> str:
    """The move to play (UCI). `ply` is the position's, `seed` the game's; moves of a game are drawn independently.

    Without temperature it is the first of `result.moves`. With temperature it is drawn by (N + offset)^(1 /
    temperature) among the moves whose Q is not too far below that of the most visited move (lc0's
    GetBestRootChildWithTemperature); but a proven win is always played, and a proven loss, the longest, only if all
    moves lose.
    """
    temperature = temperature_at(params, ply)
    moves = [m for m in result.moves if m.certain != -1]
    if temperature == 0 or result.best.certain == 1 or not moves:
        return result.best_move
    weights = _weights(moves, params, temperature, unvisited_value(result, params))
    return moves[_drawn(weights, seed, ply)].move


def unvisited_value(result: SearchResult, params: SearchParams) -> float:
    """The Q that the search assumes for root moves without visits (lc0's GetFpu)."""
    strategy, value = params.fpu_strategy_at_root, params.fpu_value_at_root
    if strategy == "same":
        strategy, value = params.fpu_strategy, params.fpu_value
    if strategy == "absolute":
        return value
    return result.root_q - value * math.sqrt(sum(m.prior for m in result.moves if m.visits))


def _weights(moves: Sequence[RootMove], params: SearchParams, temperature: float, unvisited: float) -> list[float]:
    most_visited = max(moves, key=lambda m: (m.visits, m.prior))
    if most_visited.visits + params.temp_visit_offset <= 0:
        bases = [m.prior for m in moves]
    else:
        values = [unvisited if math.isnan(m.q) else m.q for m in moves]
        least = values[moves.index(most_visited)] - params.temp_value_cutoff / 50
        bases = [
            max(m.visits + params.temp_visit_offset, 0.0) if value >= least else 0.0
            for m, value in zip(moves, values, strict=True)
        ]
    highest = max(bases)
    if highest <= 0:
        return [1.0] * len(bases)
    return [(base / highest) ** (1 / temperature) for base in bases]


def _drawn(weights: Sequence[float], seed: int, ply: int) -> int:
    cumulative = np.cumsum(weights)
    toss = np.random.default_rng((seed, ply)).random() * cumulative[-1]
    return int(np.searchsorted(cumulative, toss, side="right").clip(0, len(weights) - 1))


def evaluated_nodes(trees: Trees, rules: SearchRules, tree: int) -> NDArray[np.int64]:
    """The nodes below the root that the net evaluated, in the order of their first visits."""
    root = tree * rules.node_room
    used = slice(root, root + int(trees.slots[tree, layout.USED_NODES]))
    nodes, own = trees.nodes[used], trees.means[used, layout.OWN]
    evaluated = (nodes[:, layout.VISITS] > 0) & (nodes[:, layout.FORCED] == 0) & ~np.isnan(own)
    evaluated[0] = False
    return root + np.flatnonzero(evaluated)


def read_evaluated_line(trees: Trees, rules: SearchRules, tree: int, number: int) -> Moves | None:
    """The moves from the root to the `number`-th (from 1) of `evaluated_nodes`; None without it."""
    evaluated = evaluated_nodes(trees, rules, tree)
    if len(evaluated) < number:
        return None
    node, root = int(evaluated[number - 1]), tree * rules.node_room
    line = list[int]()
    while node != root:
        line.append(int(trees.move[trees.nodes[node, layout.EDGE]]))
        node = int(trees.nodes[node, layout.PARENT])
    black = int(black_to_move(trees.rows, trees.slots[tree, layout.ROOT_ROW]))
    turned = [move ^ FLIP * ((black + depth) & 1) for depth, move in enumerate(reversed(line))]
    return np.array(turned, np.uint16)
