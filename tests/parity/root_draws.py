"""What `draws_by_q` changes: roots with a proven draw near the end of drawn games, and who is right by Stockfish.

    python -m tests.parity.root_draws games.pgn [more.pgn.zst ...] [--nodes 200] [--settings certainty=1]

Of each game that a rule ended as a draw (a third repetition, stalemate, too little material, 50 moves), the positions
one to eight plies before the end are searched, with the moves that led there. Where the option changes the choice,
Stockfish searches the move that it replaces: the draw is right if that move is worth less than a draw, by 0.5 pawns.
"""

from __future__ import annotations

import argparse
import gzip
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import chess
import chess.engine
import chess.pgn
import zstandard

from valuerepair.chess.positions import Position
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.outcome import _with_draws_by_q
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.net import open_net

PLIES = 8
CLEAR = 50  # centipawns


def opened(path: Path) -> TextIO:
    """An archive's text, unpacked."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="latin-1")
    if path.suffix == ".zst":
        return io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(path.open("rb")), "latin-1")
    return path.open(encoding="latin-1")


def drawn_by_rule(path: Path, games: int) -> Iterator[chess.Board]:
    """The final positions, with all moves, of the first so many games of an archive that a rule ended as a draw."""
    with opened(path) as text:
        while games and (game := chess.pgn.read_game(text)):
            if game.headers.get("Result") != "1/2-1/2" or game.errors:
                continue
            board = game.end().board()
            ended = board.is_stalemate() or board.is_insufficient_material() or board.halfmove_clock >= 100
            if ended or board.is_repetition(3):
                games -= 1
                yield board


def before_the_end(board: chess.Board) -> Iterator[tuple[chess.Board, Position]]:
    """The last positions in which the game was not over."""
    start, moves = board.root().fen(), [move.uci() for move in board.move_stack]
    at = board.copy()
    for _ in range(min(PLIES, len(moves))):
        at.pop()
        yield at.copy(), Position(at.fen(), start, tuple(moves[: len(at.move_stack)]), at.ply(), history_known=True)


def judged(engine: chess.engine.SimpleEngine, board: chess.Board, move: str, nodes: int) -> int:
    """Stockfish's centipawns of a move, for the player who makes it."""
    info = engine.analyse(board, chess.engine.Limit(nodes=nodes), root_moves=[chess.Move.from_uci(move)])
    return info["score"].relative.score(mate_score=100_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--games", type=int, default=60, help="of each archive")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--settings", default="certainty=1", help="of the search, as NAME=VALUE,...")
    parser.add_argument("--stockfish-nodes", type=int, default=1_000_000)
    options = parser.parse_args()
    params = SearchParams().with_settings(dict(pair.split("=") for pair in options.settings.split(",")))
    ends = [board for path in options.archives for board in drawn_by_rule(path, options.games)]
    starts = [found for board in ends for found in before_the_end(board)]
    with open_net() as net:
        evaluator = NetEvaluator(net)
        forest = Forest(evaluator, params, input_format=evaluator.input_format, trees=64, nodes=options.nodes)
        results = dict(forest.search((position for _, position in starts), options.nodes))
    with chess.engine.SimpleEngine.popen_uci("stockfish") as engine:
        counts = Counter(
            verdict(engine, board, results[i], options.stockfish_nodes) for i, (board, _) in enumerate(starts)
        )
    print(f"{len(ends)} games, {len(starts)} positions, {options.nodes} nodes, {options.settings}")
    for name, n in counts.most_common():
        print(f"{n:6} {name}")


def verdict(engine: chess.engine.SimpleEngine, board: chess.Board, result: SearchResult, nodes: int) -> str:
    """Which of the kinds that are counted a root is."""
    if not any(move.certain == 0 and move.visits for move in result.moves):
        return "without a proven draw"
    if result.certain is not None:
        return f"the choice is a proven {'draw' if result.certain == 0 else 'win' if result.certain > 0 else 'loss'}"
    if _with_draws_by_q(result.moves)[0] is result.best:
        return "another move is chosen, with Q above a draw"
    score = judged(engine, board, result.best_move, nodes)
    right = "equally good" if abs(score) < CLEAR else "the draw is better" if score < 0 else "the other move is better"
    print(f"{board.fen()}: {result.best_move} Q {result.q:+.3f}, by Stockfish {score / 100:+.2f}")
    return f"changed: {right}"


if __name__ == "__main__":
    main()
