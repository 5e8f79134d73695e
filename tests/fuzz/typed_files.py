"""Fuzzed: JSON and TOML files, checkpoints, weights, and positions as users type them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import chess
import numpy as np

from tests.fuzz.inputs import file_of
from valuerepair.errors import ValueRepairError


def _refused_or_read(data: bytes, name: str, read: Callable[[str], object]) -> None:
    """A refusal is one line."""
    message = ""
    with file_of(data, name) as path:
        try:
            read(path)
        except ValueRepairError as error:
            message = str(error)
    assert message.isprintable(), message


def json_seeds() -> list[bytes]:
    split = {"version": "valuerepair 0.2.0", "games": 0.15, "seed": 1, "archives": ["a.pgn"]}
    split |= {"openings": ["Sicilian Defense"], "materials": ["KQvKR"]}
    row = {"step": 1, "lr": 1e-3, "train_loss": 1.5, "loss": 1.4, "mean_dq": None}
    curve = {"output": "a.pb.gz", "net": {"name": "a"}, "options": {"steps": 9}, "curve": [row], "written": {"step": 1}}
    stage = {"name": "mine", "command": "vr mine", "identity": "0", "expected": 1.5, "seconds": 2, "done": True}
    stages = {"stages": [stage]}
    return [json.dumps(document).encode() for document in (split, curve, stages, {"address": "tcp://10.0.0.1:8786"})]


def run_json(data: bytes) -> None:
    """A split, the curve of a training, the stages of a repair, Dask's scheduler file."""
    from valuerepair.cluster.connection import parse_cluster
    from valuerepair.judge.split import read_split
    from valuerepair.pipeline.run import StageNotes
    from valuerepair.training.train import read_curve

    _refused_or_read(data, "split.json", read_split)
    _refused_or_read(data, "a.training.json", read_curve)
    _refused_or_read(data, "stages.json", lambda path: StageNotes(Path(path).parent))
    _refused_or_read(data, "scheduler.json", parse_cluster)


def repair_seeds() -> list[bytes]:
    return [
        b'archives = ["a.pgn"]\nnet = "maia"\ndeep = "stockfish:nodes=1000"\nthreshold = 0.5\nalpha = 400\nseed = 3\n'
        b'budget = "1h30m"\ncontrol = true\n[sizes]\nsteps = 10\ngames = 20\n[train]\nlr = 1e-3\nshare = 0.5\n',
        b'store = "a.db"\n[split]\ngames = 0.1\narchives = ["b.pgn"]\n[mine]\naside = "aside:0.5"\n'
        b"[play]\nbook_nodes = 2\n",
    ]


def run_repair(data: bytes) -> None:
    """repair.toml."""
    from valuerepair.pipeline.settings import read

    _refused_or_read(data, "repair.toml", lambda path: read(Path(path)))


_ARRAYS = {"state0": np.arange(6, dtype=np.float32).reshape(2, 3), "best0": np.ones(4, np.float32)}


def checkpoint_seeds() -> list[bytes]:
    from valuerepair.training import checkpoint

    notes = checkpoint.Notes(10, 5, 0.5, 1.5, 2, [{"step": 5, "train_loss": None, "loss": 0.5}])
    with file_of(b"", "a.checkpoint") as path:
        checkpoint.save(Path(path), {"net": "abc"}, notes, _ARRAYS)
        return [Path(path).read_bytes()]


def run_checkpoint(data: bytes) -> None:
    """The state of a training."""
    from valuerepair.training import checkpoint

    _refused_or_read(data, "a.checkpoint", lambda path: checkpoint.load(Path(path), {"net": "abc"}, _ARRAYS))


def weights_seeds() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = []
    for numbers in (np.arange(50), np.zeros(5000, np.int64)):
        held = io.BytesIO()
        pq.write_table(pa.table({"position_id": numbers, "weight": np.full(len(numbers), 0.5)}), held)
        seeds.append(held.getvalue())
    return seeds


def run_weights(data: bytes) -> None:
    """A Parquet file of weights."""
    from valuerepair.training.drawing import read_weights

    _refused_or_read(data, "a.parquet", lambda path: read_weights("--draw", path, ("position_id",), 10_000))


def position_seeds() -> list[bytes]:
    return [
        b"startpos moves e2e4 e7e5 g1f3",
        b"position fen 4k3/P7/8/8/8/8/8/4K2R w K - 0 30 moves a7a8q e8d7 e1g1\n8/8/8/8/8/5k2/6q1/7K w - - 12 40",
        b'8/4k3/8/8/8/8/8/5RK1 w - - hmvc 3; fmvn 9; c3 "history fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1: e1g1 e8e7";',
        b"r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - moves 0000 Bb5 a6 -- Z0",
    ]


def run_position(data: bytes) -> None:
    """A position as text and as a file of lines; python-chess reaches the same by its moves."""
    from valuerepair.chess.position_text import read_position, read_positions

    with suppress(ValueError):
        position = read_position(data.decode("utf-8", "replace"))
        board = chess.Board(position.start_fen)
        for move in position.moves:
            assert chess.Move.from_uci(move) in board.legal_moves, move
            board.push_uci(move)
        assert board.fen() == position.fen
    _refused_or_read(data, "a.epd", lambda path: list(read_positions(path)))
