"""lc0's approximate arithmetic, its priors of 16 bits and its sort, in plain Python: what its exact visits hang on.

From src/utils/fastmath.h, src/search/classic/node.cc (SetP, GetP), src/neural/wrapper.cc (SoftmaxPolicy) and libstdc++.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F = np.float32


def priors(policy: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (policy.astype(np.uint32) << 12 | 3 << 28).view(np.float32)


def packed(p: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = p.view(np.int32) + np.int32((1 << 11) - (3 << 28))
    return np.where(bits < 0, 0, bits >> 12).astype(np.uint16)


def fast_log(a: np.float32) -> np.float32:
    bits = int(a.view(np.uint32))
    out = np.uint32(bits & 0x7FFFFF | 0x7F << 23).view(F) - F(1)
    power = out * (F(1.3465552) - F(0.34655523) * out) - F(127) + F(bits >> 23)
    log: np.float32 = F(0.6931471805599453) * power
    return log


def softmax(logits: NDArray[np.float32], temperature: np.float32) -> NDArray[np.float32]:
    power = F(1.442695040) * ((logits - logits.max()) * temperature)
    whole = np.where(power < 0, np.trunc(power - F(1)), np.trunc(power)).astype(F)
    part = power - whole
    weights = np.exp2(whole) * (F(1) + part * (F(0.6602339) + F(0.33976606) * part))
    total = F(0)
    for weight in weights:
        total += weight
    shares: NDArray[np.float32] = weights * (F(1) / total)
    return shares


def gnu_sorted(keys: list[int]) -> list[int]:
    """The order in which libstdc++'s std::sort leaves elements sorted by descending key; it is not stable."""
    order = list(range(len(keys)))

    def before(a: int, b: int) -> bool:
        return keys[a] > keys[b]

    first, stack = 0, [(0, len(keys))]
    while stack:
        first, last = stack.pop()
        while last - first > 16:
            a, b, c = first + 1, (first + last) // 2, last - 1
            x, y, z = order[a], order[b], order[c]
            if before(x, y):
                median = b if before(y, z) else c if before(x, z) else a
            else:
                median = a if before(x, z) else c if before(y, z) else b
            order[first], order[median] = order[median], order[first]
            pivot, low, high = order[first], first + 1, last
            while True:
                while before(order[low], pivot):
                    low += 1
                high -= 1
                while before(pivot, order[high]):
                    high -= 1
                if low >= high:
                    break
                order[low], order[high] = order[high], order[low]
                low += 1
            stack.append((low, last))
            last = low
    return sorted(order, key=lambda i: -keys[i])  # what remains is insertion sort, which is stable
