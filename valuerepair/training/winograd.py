"""Convolutions of 3x3 over a board as Winograd's matrix products (Lavin and Gray, arXiv:1509.09308), in JAX.

A board is two tiles of four squares each way, and each tile takes 36 products where the convolution takes 144. Values
lie as [8, 8, n, channels], so that every step is a product of matrices in the order in which they lie.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

TILE, REACH = 4, 6  # squares of a tile, and of what it is computed from
TILES = 8 // TILE
# The points at which the polynomials are taken. Those of the textbook, 0, 1, -1, 2, -2, lose four times as much.
POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)

Floats = NDArray[np.floating[Any]]


class Matrices(NamedTuple):
    """One-dimensional transforms: of a line of 8 squares into its tiles, of 3 weights, and back to 8 squares."""

    squares: Floats  # [TILES, REACH, 8]
    weights: Floats  # [REACH, 3]
    back: Floats  # [8, TILES, REACH]


@cache
def matrices() -> Matrices:
    """By the construction of Toom and Cook from `POINTS` and infinity; beyond the board there are zeros."""
    points = np.array(POINTS)
    one_tile, weights, back = np.zeros((REACH, REACH)), np.zeros((REACH, 3)), np.zeros((TILE, REACH))
    for i, point in enumerate(points):
        others = np.delete(points, i)
        one_tile[i, : REACH - 1] = np.poly(others)[::-1]
        weights[i] = point ** np.arange(3) / np.prod(point - others)
        back[:, i] = point ** np.arange(TILE)
    one_tile[-1], weights[-1, -1], back[-1, -1] = np.poly(points)[::-1], 1, 1
    squares, all_back = np.zeros((TILES, REACH, 8)), np.zeros((8, TILES, REACH))
    for tile in range(TILES):
        for square in range(8):
            if 0 <= (at := square - (TILE * tile - 1)) < REACH:
                squares[tile, :, square] = one_tile[:, at]
            if square // TILE == tile:
                all_back[square, tile] = back[square % TILE]
    return Matrices(squares, weights, all_back)


def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """The convolution of boards [8, 8, n, inputs] with a kernel [outputs, inputs, 3, 3], padded with zeros."""
    m, dtype = matrices(), x.dtype

    def constant(array: Floats) -> Any:
        return jnp.asarray(array, dtype)

    n, inputs, outputs = x.shape[2], x.shape[3], kernel.shape[0]
    each_line = (8, TILES * REACH, 8)
    across = jnp.broadcast_to(constant(m.squares.transpose(1, 0, 2).reshape(-1, 8)), each_line)
    tiles = jnp.einsum("pbw,pwx->pbx", across, x.reshape(8, 8, n * inputs))
    tiles = (constant(m.squares.reshape(-1, 8)) @ tiles.reshape(8, -1)).reshape(-1, TILES * n, inputs)
    weights = constant(np.kron(m.weights, m.weights)) @ kernel.reshape(-1, 9).T
    weights = jnp.concatenate([weights.reshape(REACH * REACH, outputs, inputs)] * TILES)
    products = jnp.einsum("anc,aoc->ano", tiles, weights)  # a: tile down the board, and the point of both directions
    lines = constant(m.back.reshape(8, -1)) @ products.reshape(TILES * REACH, -1)
    across = jnp.broadcast_to(constant(m.back.transpose(0, 2, 1).reshape(8, -1)), (8, 8, TILES * REACH))
    return jnp.einsum("pwb,pbx->pwx", across, lines.reshape(8, REACH * TILES, n * outputs)).reshape(8, 8, n, outputs)
