"""Stores of chosen candidates, and a confirming process that tests can kill.

``python -m tests.confirm_doubles STORE DELAY`` looks again at the candidates of a store with a stand-in oracle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import chess
import numpy as np
from valuerepair.runs.confirm import ConfirmOptions, ConfirmSummary, confirm

from tests.mining_doubles import KeyNet, KeyOracle
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.positions import Position, PositionBatch, encode_move
from valuerepair.nets.net import NetValues
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store.rows import DeepResult, OracleIdentity, RunRecord
from valuerepair.store.store import Store

STOCKFISH = OracleIdentity("stockfish", "Stockfish 15.1", "ef" * 32, {"nodes": 1000}, {"Threads": "1", "Hash": "16"})


@dataclass(frozen=True)
class Candidate:
    """A position, what the net says of it, and what the first look found."""

    position: Position
    net_q: float
    first: DeepResult
    net_best: str = ""


def position_of(fen: str, *moves: str) -> Position:
    """The position after `moves` (UCI) from a FEN."""
    board = chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    reached = board.fen()
    return Position(reached, fen, moves, board.ply(), int(keys(parse_fens([reached]))[0]), history_known=bool(moves))


def make_store(path: Path, rows: Sequence[Candidate], oracle: OracleIdentity = STOCKFISH) -> Path:
    """A store in which these positions were mined."""
    with Store.open(path, create=True) as store:
        run = store.begin_run(RunRecord("first", "vr mine", {}, 0, {}))
        ids, batch, _ = store.add_positions(PositionBatch.from_positions([row.position for row in rows]), run)
        q = np.array([row.net_q for row in rows], np.float32)
        wdl = np.stack([(1 + q) / 2, np.zeros_like(q), (1 - q) / 2], 1)
        moves = np.array([encode_move(row.net_best) if row.net_best else 0 for row in rows], np.uint16)
        nothing = np.full(len(batch), np.nan, np.float32)
        net_id = store.add_net(KeyNet.identity, KeyNet.history_fill)
        store.add_net_values(ids, net_id, NetValues(q, wdl, moves, nothing, nothing, nothing), run)
        oracle_id = store.add_oracle(oracle)
        for position_id, row in zip(ids.tolist(), rows, strict=True):
            store.add_deep(position_id, oracle_id, row.first, run)
        store.end_run(run, "finished", {})
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
    """The stand-in as an oracle that looks deeper."""

    def __init__(self, answer: Callable[[Position], DeepOutcome], *, workers: int = 2, delay: float = 0.0) -> None:
        super().__init__(workers, delay, answer)
        self.identity = OracleIdentity("stockfish", "Stockfish 15.1", "ef" * 32, {"nodes": 10_000}, {})


def by_length(position: Position) -> DeepOutcome:
    """An answer that follows from the moves before."""
    best = next(iter(chess.Board(position.fen).legal_moves)).uci()
    return DeepResult(cp=len(" ".join(position.moves)) % 300 - 150, nodes=10_000, depth=9, best_move=best, pv=(best,))


def look_again(
    path: Path, oracle: SecondOracle, options: ConfirmOptions | None = None, *, threshold: float = 0.55
) -> ConfirmSummary:
    """Confirms the candidates of a store."""
    with Store.open(path, write=True) as store, oracle:
        frame = store.candidates(Question(threshold=threshold))
        return confirm(store, frame, oracle, options or ConfirmOptions(), progress=Progress("", quiet=True))


if __name__ == "__main__":
    print("started", flush=True)
    done = look_again(Path(sys.argv[1]), SecondOracle(by_length, delay=float(sys.argv[2])))
    print(done.state)
    sys.exit(130 if done.state == "interrupted" else 0)
