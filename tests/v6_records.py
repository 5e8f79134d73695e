"""Training records as lc0 would write them for given positions, in any input format, and the chunks they lie in."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import v6
from valuerepair.chess.board import keys, legal_moves, parse_fens
from valuerepair.chess.positions import Position, PositionBatch, decode_move
from valuerepair.nets.planes import canonical_transform, encode
from valuerepair.nets.policy import policy_indices

CANONICAL = (3, 4, 132, 5, 133)


def positions_of(moves: Sequence[str], start: str = chess.STARTING_FEN) -> list[Position]:
    """Every position of a game in which a move was played, with its history."""
    board = chess.Board(start)
    positions = []
    for ply, move in enumerate(moves):
        key = int(keys(parse_fens([board.fen()]))[0])
        positions.append(Position(board.fen(), start, tuple(moves[:ply]), board.ply(), key))
        board.push_uci(move)
    return positions


def records_of(
    positions: Sequence[Position], played: Sequence[str], input_format: int = 1, **values: Any
) -> NDArray[np.void]:
    """One record a position. `values` sets fields: numbers, or one a record."""
    batch = PositionBatch.from_positions(positions)
    boards = parse_fens(batch.fen)
    moves, cuts = legal_moves(boards)
    indices = policy_indices(boards, moves, cuts, input_format)
    planes = encode(batch, input_format)
    records = np.zeros(len(positions), v6.RECORD)
    records["version"], records["input_format"], records["visits"] = 6, input_format, 800
    bits = np.packbits(planes[:, :104].astype(np.bool_), axis=3)
    records["planes"] = bits.reshape(len(positions), -1).view("<u8")
    records["probabilities"] = -1
    for i, position in enumerate(positions):
        board = chess.Board(position.fen)
        us, them = board.turn, not board.turn
        rook_files = (1, 128) if input_format >= 2 else (1, 1)
        for name, colour in (("us", us), ("them", them)):
            records[f"castling_{name}_ooo"][i] = rook_files[0] * board.has_queenside_castling_rights(colour)
            records[f"castling_{name}_oo"][i] = rook_files[1] * board.has_kingside_castling_rights(colour)
        records["rule50_count"][i] = board.halfmove_clock
        if input_format in CANONICAL:
            transform = int(canonical_transform(boards, i))
            ep = 0 if board.ep_square is None else 1 << chess.square_file(board.ep_square)
            records["side_to_move_or_enpassant"][i] = int(f"{ep:08b}"[::-1], 2) if transform & 1 else ep
            records["invariance_info"][i] = transform | (0 if us else 128)
        else:
            records["side_to_move_or_enpassant"][i] = not us
        listed = [decode_move(m) for m in moves[cuts[i] : cuts[i + 1]].tolist()]
        own = indices[cuts[i] : cuts[i + 1]]
        records["probabilities"][i, own] = 1 / len(own)
        records["played_idx"][i] = records["best_idx"][i] = own[listed.index(played[i])]
    for name, value in values.items():
        records[name] = value
    return records


def write_chunk(path: Path, records: NDArray[np.void]) -> Path:
    # Level 6 takes a seventh of the time of Python's 9. Of the bytes a hash says whether the chunk is held out.
    path.write_bytes(gzip.compress(records.tobytes(), 6, mtime=0))
    return path


def read_chunk(path: Path) -> NDArray[np.void]:
    records: NDArray[np.void] = np.frombuffer(gzip.decompress(path.read_bytes()), v6.RECORD)
    return records
