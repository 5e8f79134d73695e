"""Games by the project's own search, as `GameRecord`s: played on, or the searches of a game that is given."""

from __future__ import annotations

from collections.abc import Sequence

import chess

from valuerepair.chess.positions import Position
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.outcome import choose_move
from valuerepair.mcts.result import SearchResult
from valuerepair.play.game import CHECKMATE, TOO_LONG, GameRecord, Thought

RESULTS = {"1-0", "0-1", "1/2-1/2"}


def position_after(start_fen: str, moves: Sequence[str]) -> Position:
    board = chess.Board(start_fen)
    for move in moves:
        board.push_uci(move)
    return Position(board.fen(), start_fen, tuple(moves), board.ply())


def is_over(board: chess.Board) -> bool:
    """As lc0 and the referee of self-play see it."""
    if board.is_checkmate() or board.is_stalemate() or board.is_insufficient_material():
        return True
    return board.halfmove_clock >= 100 or board.is_repetition(3)


def record_of(
    start_fen: str, book: Sequence[str], found: Sequence[tuple[str, SearchResult]], result: str, number: int = 0
) -> GameRecord:
    thoughts = tuple(Thought(move, nodes=search.nodes, search=search) for move, search in found)
    ending = CHECKMATE if result in RESULTS else TOO_LONG
    return GameRecord(number, number, start_fen, tuple(book), thoughts, "own", "own", result, ending)


def searched_again(
    forest: Forest, start_fen: str, moves: Sequence[str], book_plies: int, result: str, nodes: int, number: int = 0
) -> GameRecord:
    """The game of these moves with a search of every position after the book."""
    positions = [position_after(start_fen, moves[:ply]) for ply in range(book_plies, len(moves))]
    found = dict(forest.search(positions, nodes))
    pairs = [(move, found[i]) for i, move in enumerate(moves[book_plies:])]
    return record_of(start_fen, moves[:book_plies], pairs, result, number)


def played_on(
    forest: Forest, start_fen: str, book: Sequence[str], nodes: int, plies: int, number: int = 0
) -> GameRecord:
    """A game of at most so many plies after its book, without noise; undecided where it is not over by then."""
    board = chess.Board(start_fen)
    for move in book:
        board.push_uci(move)
    moves: list[str] = list(book)
    found: list[tuple[str, SearchResult]] = []
    while len(found) < plies and not is_over(board):
        search = next(forest.search([position_after(start_fen, moves)], nodes))[1]
        move = choose_move(search, forest.params, board.ply(), number)
        found.append((move, search))
        moves.append(move)
        board.push_uci(move)
    result = board.result(claim_draw=False) if is_over(board) else "*"
    if is_over(board) and result == "*":
        result = "1/2-1/2"
    return record_of(start_fen, book, found, result, number)
