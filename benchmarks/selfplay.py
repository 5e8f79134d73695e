"""Self-play against `lc0 selfplay`: the same net, visits and book lines."""

from __future__ import annotations

import random
import tempfile
from itertools import count
from pathlib import Path

import chess

from benchmarks.comparison import BenchData, Comparison, compare
from valuerepair.chess.board import keys, parse_fens
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.registry import locate
from valuerepair.play.lc0_selfplay import Lc0Settings, play_with_lc0
from valuerepair.play.openings import Opening
from valuerepair.play.pgn import PgnWriter, game_text
from valuerepair.play.referee import MAX_PLIES, Rules
from valuerepair.play.runner import Pairing
from valuerepair.play.selfplay import ForestSource

VISITS = 100
OWN_GAMES, LC0_GAMES = 64, 8  # of ours many go on at once
RESIGN = 5.0  # per cent, of both: games are shorter, and so is the benchmark
REPEATS = 3
BOOK_PLIES = 8


def lines(games: int, seed: int) -> list[Opening]:
    """Openings of a few random moves: no two games are alike, and both programs get games of one kind."""
    chance, openings = random.Random(seed), list[Opening]()
    while len(openings) < games:
        board = chess.Board()
        for _ in range(BOOK_PLIES):
            board.push(chance.choice(list(board.legal_moves)))
        if any(board.generate_legal_moves()):
            moves = tuple(move.uci() for move in board.move_stack)
            key = int(keys(parse_fens([board.fen()]))[0])
            openings.append(Opening(len(openings), chess.STARTING_FEN, moves, board.fen(), key))
    return openings


def bench_selfplay(data: BenchData) -> Comparison:
    """Games at 100 visits and temperature 0, one from each book line, until a side resigns; ours with PGN."""
    rules = Rules(max_plies=MAX_PLIES, resign=RESIGN)
    settings = Lc0Settings(locate(data.net), VISITS, resign=RESIGN, extra=("backend=eigen",))
    seeds = count()
    with (
        tempfile.TemporaryDirectory() as folder,
        ForestSource(data.net, SearchParams(), VISITS, games=OWN_GAMES, rules=rules, device="cpu") as source,
    ):

        def ours() -> float:
            openings = lines(OWN_GAMES, next(seeds))
            writer = PgnWriter(Path(folder) / "games.pgn")
            for game in source.games((Pairing(o.number, o, 0, 0) for o in openings), lambda: False):
                writer.write(game_text(game, {}))
            writer.close()
            return float(len(openings))

        def theirs() -> float:
            return float(len(list(play_with_lc0(lines(LC0_GAMES, next(seeds)), settings))))

        against = f"lc0 selfplay (Eigen, {settings.parallel} games at once)"
        return compare("games at 100 visits", "games", against, ours, theirs, target=3.0, repeats=REPEATS)
