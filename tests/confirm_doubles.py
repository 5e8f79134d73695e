"""Stores of chosen candidates, and a confirming process that tests can kill.

``python -m tests.confirm_doubles STORE DELAY`` looks again at the candidates of a store with a stand-in judge.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import chess
import numpy as np

from tests.mining_doubles import KeyNet, KeyOracle
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.origins import OriginGame, Origins
from valuerepair.chess.positions import Position, PositionBatch, encode_move
from valuerepair.mining.again import search_again
from valuerepair.mining.search import SearchCounts
from valuerepair.nets.net import NetValues
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.pairs import judge_of, pick
from valuerepair.store.rows import DeepResult, JudgeIdentity, RunRecord
from valuerepair.store.store import Store

STOCKFISH = JudgeIdentity("stockfish", "Stockfish 15.1", "ef" * 32, {"nodes": 1000}, {"Threads": "1", "Hash": "16"})


@dataclass(frozen=True)
class Candidate:
    """A position of a game, what the net says of it, and what the first look found."""

    position: Position
    net_q: float
    first: DeepResult
    net_best: str = ""
    game: int = 1


def position_of(fen: str, *moves: str) -> Position:
    """The position after `moves` (UCI) from a FEN."""
    board = chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    reached = board.fen()
    return Position(reached, fen, moves, board.ply(), int(keys(parse_fens([reached]))[0]), history_known=bool(moves))


def make_store(path: Path, rows: Sequence[Candidate], judge: JudgeIdentity = STOCKFISH) -> Path:
    """A store in which these positions were mined."""
    with Store.open(path, create=True) as store, store.running(RunRecord("first", "vr mine", {}, {})) as run:
        batch = PositionBatch.from_positions([row.position for row in rows])
        games = {row.game: OriginGame("games.pgn", row.game, 0, {}, None, row.game) for row in rows}
        played = [row.position.origin.played for row in rows]
        ids = store.add_positions(replace(batch, origin=Origins([games[row.game] for row in rows], played)), run)
        q = np.array([row.net_q for row in rows], np.float32)
        wdl = np.stack([(1 + q) / 2, np.zeros_like(q), (1 - q) / 2], 1)
        moves, priors = np.zeros((len(rows), 8), np.uint16), np.full((len(rows), 8), np.nan, np.float32)
        moves[:, 0] = [encode_move(row.net_best) if row.net_best else 0 for row in rows]
        priors[:, 0] = 0.5
        net_id, judge_id = store.add_net(KeyNet.identity), store.add_judge(judge)
        store.add_net_values(ids, net_id, NetValues(q, wdl, moves, priors, np.full(len(rows), np.nan, np.float32)))
        for position_id, row in zip(ids.tolist(), rows, strict=True):
            store.add_deep(position_id, judge_id, row.first, run)
        store.use(net=KeyNet.identity.key, judge=judge.digest)
    return path


def many(path: Path, count: int) -> Path:
    """A store of so many candidates: positions of one game, which net and first look judge differently."""
    board, rows = chess.Board(), []
    for _ in range(count):
        moves = [move.uci() for move in board.legal_moves]
        moved = tuple(move.uci() for move in board.move_stack)
        rows.append(
            Candidate(position_of(chess.STARTING_FEN, *moved), 0.9, DeepResult(cp=-50, best_move=moves[1]), moves[0])
        )
        board.push_uci(moves[board.ply() * 7 % len(moves)])
    return make_store(path, rows)


class SecondOracle(KeyOracle):
    """The stand-in as a judge that looks deeper."""

    def __init__(self, answer: Callable[[Position], DeepOutcome], *, workers: int = 2, delay: float = 0.0) -> None:
        super().__init__(workers, delay, answer)
        self.identity = JudgeIdentity("stockfish", "Stockfish 15.1", "ef" * 32, {"nodes": 10_000}, {"Threads": "1"})


def by_length(position: Position) -> DeepOutcome:
    """An answer that follows from the moves before."""
    best = next(iter(chess.Board(position.fen).legal_moves)).uci()
    return DeepResult(cp=len(" ".join(position.moves)) % 300 - 150, nodes=10_000, depth=9, best_move=best, pv=(best,))


def look_again(path: Path, judge: SecondOracle, *, threshold: float = 0.55, limit: int | None = None) -> SearchCounts:
    """Looks again at the candidates of a store."""
    with Store.open(path, write=True) as store, judge:
        ids = view.candidates(store, Question(threshold=threshold))["position_id"].to_numpy()[:limit]
        return search_again(store, judge_of(store, pick(store)[1]), judge, ids, Progress("", quiet=True))


if __name__ == "__main__":
    print("started", flush=True)
    done = look_again(Path(sys.argv[1]), SecondOracle(by_length, delay=float(sys.argv[2])))
    sys.exit(130 if done.stopped else 0)
