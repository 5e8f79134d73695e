"""The layout of a board in memory: a row of ten uint64, seen from the side to move.

For Black the ranks are upside down, so our pawns always move up and kernels need no colour. After a move the row is
turned over.

| column | what                                                                  |
|--------|-----------------------------------------------------------------------|
| 0, 1   | our pieces, their pieces                                              |
| 2, 3   | pawns, knights of both sides                                          |
| 4, 5   | bishops and queens, rooks and queens of both sides                    |
| 6      | kings                                                                 |
| 7      | state, see below                                                      |
| 8      | Zobrist key without en passant                                        |
| 9      | repetition: how often the position occurred before, plies since << 16 |

State: bits 0-3 castling rights (our O-O, our O-O-O, their O-O, their O-O-O), bit 4 Black to move, bits 8-11
en-passant file + 1 (0: none), bits 16-31 half-move clock, bits 32-47 full-move number. The en-passant file follows
lc0: set after a double push only if an enemy pawn stands beside the pawn (pinned or not); from a FEN literally.

Moves inside kernels are the 16-bit moves of `valuerepair.chess.positions` with mover-relative squares; `FLIP`
turns them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Boards = NDArray[np.uint64]  # [n, ROW]
Keys = NDArray[np.uint64]  # of positions or games
Index = NDArray[np.int64]  # numbers of rows, and counts

ROW = 10
US, THEM, PAWNS, KNIGHTS, SLANTED, STRAIGHT, KINGS, STATE, KEY, REPETITION = range(ROW)
FLIP = 56 | 56 << 6  # XOR with this turns a move over

RIGHTS = np.uint64(15)  # of the state
SAME_POSITION = np.uint64(0xF1F)  # of the state: castling rights, side to move, en passant
BLACK_SHIFT, EP_SHIFT, CLOCK_SHIFT, NUMBER_SHIFT = np.uint64(4), np.uint64(8), np.uint64(16), np.uint64(32)
SIXTEEN_BITS = np.uint64(0xFFFF)
