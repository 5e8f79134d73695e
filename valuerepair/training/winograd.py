"""3x3 convolutions over a board as matrix products, by Winograd's method (Lavin and Gray, arXiv:1509.09308), in JAX.

A board has 2x2 tiles of 4x4 squares. A tile takes 36 products for each pair of channels, a direct convolution 144.
Boards are arrays [8, 8, n, channels], so that each step is a matrix product that transposes no boards.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

TILE, REACH = 4, 6  # squares along a tile, and along the part of the board that it is computed from
TILES = 8 // TILE
# Interpolation points. The textbook's points (0, 1, -1, 2, -2) make four times the rounding error.
POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)

Floats = NDArray[np.floating[Any]]


class Matrices(NamedTuple):
    """One-dimensional transforms: from 8 squares to points of the tiles, from 3 weights to points, back to squares."""

    squares: Floats  # [TILES, REACH, 8]
    weights: Floats  # [REACH, 3]
    back: Floats  # [8, TILES, REACH]


@cache
def matrices() -> Matrices:
    """The transforms by Toom and Cook's construction from `POINTS` and infinity, with zeros beyond the board."""
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
            if 0 <= (offset := square - (TILE * tile - 1)) < REACH:
                squares[tile, :, square] = one_tile[:, offset]
            if square // TILE == tile:
                all_back[square, tile] = back[square % TILE]
    return Matrices(squares, weights, all_back)


def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """The convolution of boards [8, 8, n, inputs] with a kernel [outputs, inputs, 3, 3], padded with zeros."""
    m, dtype = matrices(), x.dtype

    def constant(array: Floats) -> Any:
        return jnp.asarray(array, dtype)

    # The comments give shapes: a rank y becomes (tile ty, point py), a file becomes (tile tx, point px).
    n, inputs, outputs = x.shape[2], x.shape[3], kernel.shape[0]
    file_transform = jnp.broadcast_to(constant(m.squares.transpose(1, 0, 2).reshape(-1, 8)), (8, TILES * REACH, 8))
    tiles = jnp.einsum("pbw,pwx->pbx", file_transform, x.reshape(8, 8, n * inputs))  # [y, (px, tx), (n, inputs)]
    tiles = constant(m.squares.reshape(-1, 8)) @ tiles.reshape(8, -1)  # [(ty, py), (px, tx, n, inputs)]
    weights = constant(np.kron(m.weights, m.weights)) @ kernel.reshape(-1, 9).T  # [(py, px), (outputs, inputs)]
    weights = jnp.concatenate([weights.reshape(REACH * REACH, outputs, inputs)] * TILES)
    # [(ty, py, px), (tx, n), inputs] by [(ty, py, px), outputs, inputs]
    products = jnp.einsum("anc,aoc->ano", tiles.reshape(-1, TILES * n, inputs), weights)
    ranks = constant(m.back.reshape(8, -1)) @ products.reshape(TILES * REACH, -1)  # [y, (px, tx, n, outputs)]
    file_inverse = jnp.broadcast_to(constant(m.back.transpose(0, 2, 1).reshape(8, -1)), (8, 8, TILES * REACH))
    squares = jnp.einsum("pwb,pbx->pwx", file_inverse, ranks.reshape(8, REACH * TILES, n * outputs))
    return squares.reshape(8, 8, n, outputs)
