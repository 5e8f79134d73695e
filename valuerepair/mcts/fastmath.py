"""lc0's approximate logarithm and exponential and its priors of 16 bits (utils/fastmath.h, classic/node.cc SetP).

Only a search with `lc0_floats` uses them: they make its visits equal to lc0's. All arithmetic is in float32.
"""

from __future__ import annotations

import numpy as np

from valuerepair.chess.jit import kernel

LN_2, LOG2_E = np.float32(0.6931471805599453), np.float32(1.442695040)
LOG_A, LOG_B = np.float32(1.3465552), np.float32(0.34655523)
EXP_A, EXP_B = np.float32(0.6602339), np.float32(0.33976606)
ONE = np.float32(1)
ZERO: np.float32 = np.float32(0)
NO_PRIOR = np.int32(3 << 28).view(np.float32)  # a stored prior of 0 reads back as 4.66e-10


@kernel
def rough_log(x: np.float32) -> np.float32:
    """The natural logarithm of a positive number."""
    bits = np.int64(np.float32(x).view(np.uint32))
    fraction = np.uint32(bits & 0x7FFFFF | 0x7F << 23).view(np.float32) - ONE
    log2 = fraction * (LOG_A - LOG_B * fraction) - np.float32(127) + np.float32(bits >> 23)
    result: np.float32 = np.float32(LN_2 * log2)
    return result


@kernel
def rough_exp(x: np.float32) -> np.float32:
    """e to the power of x."""
    a = LOG2_E * x
    if a < np.float32(-126):
        return ZERO
    exponent = np.int64(a - ONE) if a < np.float32(0) else np.int64(a)
    fraction = a - np.float32(exponent)
    fraction = ONE + fraction * (EXP_A + EXP_B * fraction)
    bits = np.int64(np.float32(fraction).view(np.int32)) + (exponent << 23)
    result: np.float32 = np.int32(bits).view(np.float32)
    return result


def log(x: float) -> float:
    """`rough_log` for Python."""
    return float(rough_log(np.float32(x)))


def logistic(x: float) -> float:
    """1 / (1 + e^-x), cut at 20 on either side as lc0 does."""
    if abs(x) > 20:
        return float(x > 0)
    return float(ONE / (ONE + rough_exp(np.float32(-x))))


@kernel
def stored_prior(p: np.float32) -> np.float32:
    """A prior in [0, 1] after lc0 has stored it in 16 bits: 5 of exponent, 11 of significand."""
    bits = np.int64(np.float32(p).view(np.int32)) + (1 << 11) - (3 << 28)
    stored = 0 if bits < 0 else bits >> 12
    result: np.float32 = np.int32(stored << 12 | 3 << 28).view(np.float32)
    return result
