"""A net and an oracle for expansion: the net is blind to some pawn structures, and so again a few plies away.

``python -m tests.expand_doubles STORE DELAY`` expands a store of theirs, for tests that kill it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
from valuerepair.runs.expand import ExpandOptions, expand
from valuerepair.runs.expansion import ExpandSummary
from valuerepair.runs.options import MineOptions
from valuerepair.screening.model import ScreenOptions

from tests.climbing_doubles import ClimbingOracle, uniform
from tests.mining_doubles import KeyNet, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.nets.net import NetValues, Priors
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.progress import Progress, remarks_to
from valuerepair.question import Question
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

ALPHA, NODES, RUNGS = 200.0, 1000, (10, 100)
QUESTION = Question(alpha=ALPHA, threshold=0.5)
FAILS_EVERY = 61
_MEN = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9}


@cache
def true_q(fen: str) -> float:
    """By material, from the side to move."""
    board = chess.Board(fen)
    ahead = sum(
        worth * (len(board.pieces(kind, board.turn)) - len(board.pieces(kind, not board.turn)))
        for kind, worth in _MEN.items()
    )
    return math.tanh(ahead / 15)


@cache
def net_q(fen: str) -> float:
    """Right, but for pawn structures that it is blind to: there the other side seems to be better."""
    board = chess.Board(fen)
    structure = int(board.pawns)
    if uniform(structure, "blind") > 0.12:
        return float(np.float32(true_q(fen) + 0.1 * (uniform(structure, "off") - 0.5)))
    side = 1 if board.turn else -1
    return float(np.float32(max(-0.9, min(0.9, -true_q(fen) + side * (0.9 - 1.8 * (uniform(structure, "way") > 0.5))))))


class BlindNet(KeyNet):
    """The net, with a policy that follows from the position."""

    def evaluate(self, batch: PositionBatch) -> NetValues:
        self.rows += len(batch)
        q = np.array([net_q(fen) for fen in batch.fen], np.float32)
        nothing = np.full(len(batch), np.nan, np.float32)
        wdl = np.stack([(1 + q) / 2, np.zeros_like(q), (1 - q) / 2], 1)
        best = np.array([move_of(batch, i) for i in range(len(batch))], np.uint16)
        return NetValues(q, wdl, best, np.full_like(q, 0.5), np.ones_like(q), nothing)

    def priors(self, batch: PositionBatch) -> Priors:
        moves, offsets = legal_moves(parse_fens(batch.fen))
        p = [uniform(int(move), f"prior {fen}") for i, fen in enumerate(batch.fen)
             for move in moves[offsets[i] : offsets[i + 1]]]  # fmt: skip
        return moves, offsets, np.array(p, np.float32)


def move_of(batch: PositionBatch, i: int) -> int:
    moves, _ = legal_moves(parse_fens([batch.fen[i]]))
    return int(moves[0]) if len(moves) else 0


@cache
def line_of(fen: str, plies: int) -> tuple[str, ...]:
    """A line that changes neither men nor pawns."""
    board, line = chess.Board(fen), []
    for _ in range(plies):
        quiet = [m for m in board.legal_moves if not board.is_capture(m) and board.piece_type_at(m.from_square) != 1]
        if not quiet:
            break
        line.append(quiet[int(uniform(board.ply(), board.fen()) * len(quiet))])
        board.push(line[-1])
    return tuple(move.uci() for move in line)


def result_of(position: Position, nodes: int) -> DeepResult:
    noise = (uniform(position.key, f"rung {nodes}") - 0.5) / math.log10(nodes) if nodes < NODES else 0.0
    cp = round(2 * ALPHA * math.atanh(max(-0.99, min(0.99, true_q(position.fen) + noise))))
    line = line_of(position.fen, 6)
    return DeepResult(cp=cp, depth=9, seldepth=12, nodes=nodes, time_ms=1, best_move=line[0] if line else None, pv=line)


class LineOracle(ClimbingOracle):
    """An oracle that climbs, gives lines, and fails now and then where `fails`."""

    whole, fails_every = NODES, FAILS_EVERY

    def __init__(self, workers: int = 2, delay: float = 0.0, fails: bool = True) -> None:
        super().__init__(workers, delay, fails)
        self.identity = replace(self.identity, engine="Lines 1.0", limits={"nodes": NODES})
        self.searched: list[Position] = []

    def _search(self, position: Position) -> DeepOutcome:
        outcome = super()._search(position)
        self.searched.append(position)
        return outcome

    def _result(self, position: Position, nodes: int) -> DeepResult:
        return result_of(position, nodes)


def mined(folder: Path, games: int = 60) -> Path:
    """A store of positions of random games, all searched in full."""
    path = folder / "mined.db"
    options = MineOptions(sample=SampleOptions(per_game=4), question=QUESTION)
    mine_by_key(random_games(folder / "r.pgn", games), path, net=BlindNet(), oracle=LineOracle(), options=options)
    return path


def expand_store(path: Path, oracle: LineOracle | None = None, **changes: Any) -> ExpandSummary:
    """Expands a store of `mined`."""
    screen = ScreenOptions(rungs=RUNGS, recall=0.9)
    options = ExpandOptions(**{"question": QUESTION, "screen": screen, **changes})
    with Store.open(path, write=True) as store, oracle or LineOracle() as deep:
        return expand(store, BlindNet(), deep, options, progress=Progress("", quiet=True))


if __name__ == "__main__":
    print("started", flush=True)
    with remarks_to(print):
        done = expand_store(Path(sys.argv[1]), LineOracle(delay=float(sys.argv[2])))
    print("\n".join(done.lines()))
    sys.exit(130 if done.state == "interrupted" else 0)
