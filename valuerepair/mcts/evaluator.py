"""How a search asks for evaluations: positions as compact planes in, values and logits of the legal moves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray


class Leaves(NamedTuple):
    """n positions to evaluate, n >= 1, as the net sees them: from the side to move.

    | field   | type           |                                                                        |
    |---------|----------------|------------------------------------------------------------------------|
    | masks   | uint64[n, 112] | lc0's input planes, bit 8 * rank + file; all ones where a plane is one |
    | rule50  | float32[n]     | what plane 109 is multiplied by (divided by 100 where the format wants) |
    | indices | uint16[k]      | indices into the net's 1858 policy outputs, one a legal move           |
    | offsets | int64[n + 1]   | those of row i are ``indices[offsets[i]:offsets[i+1]]``                |
    """

    masks: NDArray[np.uint64]
    rule50: NDArray[np.float32]
    indices: NDArray[np.uint16]
    offsets: NDArray[np.int64]


class Evaluations(NamedTuple):
    """What the net says of n leaves, from the side to move.

    `q` float32[n] in [-1, 1] (W - L), `d` float32[n] the probability of a draw (0 for scalar value heads), `m`
    float32[n] plies left (0 without such a head), `logits` float32[k] of the legal moves, in the order of
    `Leaves.indices`.
    """

    q: NDArray[np.float32]
    d: NDArray[np.float32]
    m: NDArray[np.float32]
    logits: NDArray[np.float32]


Evaluator: TypeAlias = Callable[[Leaves], Evaluations]
