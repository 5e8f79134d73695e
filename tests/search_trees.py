"""A searched tree as Python objects with python-chess boards, and what it proves by python-chess's rules alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import chess

from tests.mcts_doubles import searched
from valuerepair.chess.positions import Position, decode_move
from valuerepair.chess.rows import FLIP
from valuerepair.mcts import layout
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.result import SearchResult

# Everything that finds proofs, alone and together.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"lookahead": True},
    {"auto_extend": True},
    {"certainty": True},
    {"certainty": True, "lookahead": True},
    {"certainty": True, "auto_extend": True, "draw_score": 0.3},
    {"certainty": True, "lookahead": True, "auto_extend": True, "n_scl": 10, "minibatch_size": 4},
)

BACK_RANK = "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"  # Rd8 mates
MATE_IN_2 = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # Ra6 (Morphy)
CORNERED = "k7/8/2K5/8/8/8/8/7R w - - 0 1"  # Kb6 or Kc7 mates in two
STALEMATE_TRICK = "5k2/5P2/4K3/8/8/8/8/8 w - - 0 1"


@dataclass
class Node:
    """A node with a visit. `lower`, `upper`, `wl`, `left` are seen by the player who moved there.

    `looked_ahead` are the values of moves without a visit that the search says it knows; `proven` is made by `prove`.
    """

    board: chess.Board
    depth: int
    kind: int
    lower: int
    upper: int
    visits: int
    forced: bool
    wl: float
    left: float
    own: float
    frozen: dict[str, int] = field(default_factory=dict)
    children: dict[str, Node] = field(default_factory=dict)
    looked_ahead: dict[str, int] = field(default_factory=dict)
    proven: tuple[int, int] = (-1, 1)

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()


def board_of(position: Position) -> chess.Board:
    """The position with its history."""
    board = chess.Board(position.start_fen)
    for move in position.moves:
        board.push_uci(move)
    return board


def boards_of(forest: Forest, position: Position, slot: int = 0) -> Node:
    """The tree of a slot whose root is a position."""
    return _node(forest, slot * forest._rules.node_room, board_of(position), 0)


def _node(forest: Forest, node: int, board: chess.Board, depth: int) -> Node:
    trees = forest._trees
    row, (wl, _, left, own) = trees.nodes[node].tolist(), trees.means[node].tolist()
    kind, lower, upper, visits, forced = (
        row[c] for c in (layout.KIND, layout.LOWER, layout.UPPER, layout.VISITS, layout.FORCED)
    )
    made = Node(board.copy(), depth, kind, lower, upper, visits, bool(forced), wl, left, own)
    turn = FLIP if board.turn == chess.BLACK else 0
    for i in range(row[layout.COUNT]):
        edge = row[layout.FIRST] + i
        move = decode_move(int(trees.move[edge]) ^ turn)
        if i < row[layout.FROZEN]:
            made.frozen[move] = int(trees.frozen[edge])
        if i < row[layout.OPENED] and trees.visits[edge]:
            board.push_uci(move)
            made.children[move] = _node(forest, int(trees.child[edge]), board, depth + 1)
            board.pop()
        elif len(trees.certain) and trees.certain[edge] != layout.UNPROVEN:
            made.looked_ahead[move] = int(trees.certain[edge])
    return made


def end_by_rule(board: chess.Board, depth: int) -> int | None:
    """The end of the game by python-chess's rules: 1 if the player who moved has mated, 0 for a draw, else None."""
    if not any(board.generate_legal_moves()):
        return 1 if board.is_check() else 0
    drawn = board.is_insufficient_material() or board.halfmove_clock >= 100 or board.is_repetition(3)
    return 0 if depth > 0 and drawn else None


def prove(node: Node) -> tuple[int, int]:
    """Bounds of every node by minimax over python-chess's moves and ends of the game, seen by the player who moved.

    Of the search only the moves it has tried are used, and those that it says it has looked ahead at, which are
    checked. A move that was not tried may have any value.
    """
    end = end_by_rule(node.board, node.depth)
    if end is not None:
        node.proven = end, end
        return node.proven
    lower, upper = -1, -1
    for move in list(node.board.legal_moves):
        low, high = -1, 1
        if move.uci() in node.children:
            low, high = prove(node.children[move.uci()])
        elif move.uci() in node.looked_ahead:
            low = high = node.looked_ahead[move.uci()]
            node.board.push(move)
            assert end_by_rule(node.board, node.depth + 1) == low, f"{node.board.fen()} is not {low} at once"
            node.board.pop()
        lower, upper = max(lower, low), max(upper, high)
    node.proven = -upper, -lower
    return node.proven


def exhaustive(board: chess.Board, seen: dict[str, int], depth: int = 0) -> int:
    """The value of a position for the player to move, 1, 0 or -1, by playing out everything to the end.

    Only for positions in which the 50-move rule ends every line within 7 plies or so, so that none repeats twice.
    `seen` keeps values by FEN.
    """
    end = end_by_rule(board, depth)
    if end is not None:
        return -end
    name = board.fen()
    if name not in seen:
        best = -1
        for move in list(board.legal_moves):
            board.push(move)
            best = max(best, -exhaustive(board, seen, depth + 1))
            board.pop()
            if best == 1:
                break
        seen[name] = best
    return seen[name]


def forced_mate(board: chess.Board, moves: int) -> int | None:
    """The least number of moves, up to `moves`, in which the player to move mates by force; None if there is none."""
    for limit in range(1, moves + 1):
        for move in list(board.legal_moves):
            board.push(move)
            mates = board.is_checkmate() if limit == 1 else _is_mated(board, limit - 1)
            board.pop()
            if mates:
                return limit
    return None


def _is_mated(board: chess.Board, moves: int) -> bool:
    """The player to move is mated, or will be in so many moves whatever is played."""
    if not any(board.generate_legal_moves()):
        return board.is_check()
    for move in list(board.legal_moves):
        board.push(move)
        mates = forced_mate(board, moves)
        board.pop()
        if mates is None:
            return False
    return True


def placed(men: str, turn: bool, clock: int, rng: random.Random) -> Position | None:
    """Men (as in "KRk") on random squares; None if that is not a position with a legal move."""
    board = chess.Board(None)
    for square, man in zip(rng.sample(chess.SQUARES, len(men)), men, strict=True):
        board.set_piece_at(square, chess.Piece.from_symbol(man))
    board.turn, board.halfmove_clock, board.fullmove_number = turn, clock, 80
    if not board.is_valid() or not any(board.generate_legal_moves()):
        return None
    return Position(board.fen(), board.fen(), history_known=False)


def endings(men: tuple[str, ...], clocks: tuple[int, ...], n: int, seed: int) -> list[Position]:
    """n random positions of such material."""
    rng, found = random.Random(seed), list[Position]()
    while len(found) < n:
        made = placed(rng.choice(men), rng.random() < 0.5, rng.choice(clocks), rng)
        if made is not None:
            found.append(made)
    return found


def ids(options: dict[str, Any]) -> str:
    return " ".join(options) or "sticky endgames"


def result_of(start: Position, nodes: int, **options: Any) -> SearchResult:
    return searched(start, nodes, **options).result(0, 300)
