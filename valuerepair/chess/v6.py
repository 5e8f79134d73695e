"""lc0's training record, version 6 (lc0 src/trainingdata/trainingdata_v6.h), which self-play writes for each move.

A training chunk is a gzip stream of such records, one per move of one game, in order, without a header. Everything is
seen from the side to move of the record's position.

- `planes`: the 104 history planes of the net's input; byte k of a plane is rank k + 1 of the mover's board, and the
  bits within a byte are those of lc0's bitboards in reverse, so that ``np.unpackbits`` of the bytes gives files a to h.
- `probabilities`: the search's share of visits of each move, in the order of `POLICY_MOVES`; -1 for illegal ones.
- ``orig_*`` is the net's own value of the position (NaN if lc0 no longer had it), ``root_*`` the mean of the search,
  ``best_*`` and ``played_*`` the values of the best and of the played child, ``result_*`` the game's. q is W - L in
  [-1, 1], d the probability of a draw, m the plies left.
- `invariance_info`: the bits below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VERSION = 6

RECORD = np.dtype(
    [
        ("version", "<u4"),
        ("input_format", "<u4"),
        ("probabilities", "<f4", 1858),
        ("planes", "<u8", 104),
        ("castling_us_ooo", "u1"),
        ("castling_us_oo", "u1"),
        ("castling_them_ooo", "u1"),
        ("castling_them_oo", "u1"),
        ("side_to_move_or_enpassant", "u1"),
        ("rule50_count", "u1"),
        ("invariance_info", "u1"),
        ("dummy", "u1"),
        ("root_q", "<f4"),
        ("best_q", "<f4"),
        ("root_d", "<f4"),
        ("best_d", "<f4"),
        ("root_m", "<f4"),
        ("best_m", "<f4"),
        ("plies_left", "<f4"),
        ("result_q", "<f4"),
        ("result_d", "<f4"),
        ("played_q", "<f4"),
        ("played_d", "<f4"),
        ("played_m", "<f4"),
        ("orig_q", "<f4"),
        ("orig_d", "<f4"),
        ("orig_m", "<f4"),
        ("visits", "<u4"),
        ("played_idx", "<u2"),
        ("best_idx", "<u2"),
        ("policy_kld", "<f4"),
        ("reserved", "<u4"),
    ]
)
Records = NDArray[np.void]  # [n] of RECORD
HISTORY_PLANES = 104
REPEATED_PLANE = 12  # ones if the position occurred before
# The fields after the planes, which are together at the end of a record.
FACTS = np.dtype([(name, RECORD[name]) for name in (RECORD.names or ())[4:]])

# Bits of invariance_info. The first three are the symmetry that canonical input formats are seen through.
FLIPPED, MIRRORED, TRANSPOSED = 1, 2, 4
BEST_PROVEN = 8
TOO_LONG = 16  # the game was ended at lc0's limit of plies, undecided
ADJUDICATED = 32
DELETED = 64  # by lc0's rescorer
BLACK_TO_MOVE = 128  # canonical formats only; others have it in side_to_move_or_enpassant


def were_searched(records: Records, is_last: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[n] whether best_* of each record is the value of a search or an evaluation.

    For a position without a value `vr chunks` writes the game's result, with 0 visits; but with 1 visit in the record
    that `is_last` in its game, because lc0's rescorer does not deblunder a game that ends with 0 visits. lc0's oldest
    records have 0 visits, too, but the values of a search.
    """
    is_value = (records["best_q"] != records["result_q"]) | (records["best_d"] != records["result_d"])
    searched: NDArray[np.bool_] = is_value | (records["visits"] > is_last)
    return searched


def _policy_moves() -> NDArray[np.uint16]:
    """lc0 src/neural/encoder.cc, kMoveStrs: queen and knight moves by from- and to-square, then promotions."""
    moves: list[int] = []
    for origin in range(64):
        for goal in range(64):
            files, ranks = abs(origin % 8 - goal % 8), abs(origin // 8 - goal // 8)
            if origin != goal and (files in (0, ranks) or ranks == 0 or files * ranks == 2):
                moves.append(origin | goal << 6)
    for file in range(8):
        for goal in range(max(file - 1, 0), min(file + 2, 8)):
            moves += [48 + file | (56 + goal) << 6 | promotion << 12 for promotion in (4, 3, 2)]
    return np.array(moves, np.uint16)


# uint16[1858]: the moves of the policy, in the numbers of `valuerepair.chess.positions`, from the side to move.
# Castling is king takes own rook, a promotion to a knight the plain move.
POLICY_MOVES: NDArray[np.uint16] = _policy_moves()
