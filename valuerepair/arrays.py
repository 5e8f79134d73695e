"""Array types that several packages share; docstrings give the shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ids = NDArray[np.int64]  # numbers of positions or games in a store, and other counts and indices
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Masks = NDArray[np.uint64]  # a bit for each square
Moves = NDArray[np.uint16]  # as `chess.positions` packs them; inside kernels with mover-relative squares
