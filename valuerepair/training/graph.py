"""A net as a function of its parameters, in JAX: the graph that lc0's own converter makes, operator by operator.

This makes every net that can be evaluated here differentiable. Parameters have the converter's names. The plane of the
half-move clock counts to 99 where other planes are 0 or 1, so its weights are a hundred times smaller than all others,
and no step size fits both. So here its weights are multiplied by `CLOCK` and its plane is divided by it. Input formats
that count hectoplies have the clock in hundredths already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets import protobuf
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.planes import CLOCK_PLANE, HECTOPLIES
from valuerepair.nets.registry import locate
from valuerepair.nets.session import MOVES_LEFT_NAME, PLANES_NAME, POLICY_NAME, VALUE_NAME, WDL_NAME
from valuerepair.nets.weights import NetFile, read_net_file

CLOCK = 99.0
# The weights that may be the first after the planes, and which of their axes counts planes.
_FIRST = {"/inputconv/w/kernel": 1, "/attn_body/matmul/w": 0}
_TABLE = "/const/pos_encoding"  # lc0's, the same in every net
# Positions that are computed together on a CPU: more do not fit into its cache (docs/performance.md).
CHUNK = 128
HEADS = {"policy": POLICY_NAME, "value": VALUE_NAME, "moves_left": MOVES_LEFT_NAME}

Parameters = Mapping[str, Any]


class HeadOutputs(NamedTuple):
    """A net's outputs for n positions, from the side to move.

    `policy` [n, 1858] and `wdl` [n, 3] are logits, `value` [n] is in [-1, 1], `moves_left` [n] plies; None without that
    head.
    """

    policy: jax.Array | None
    wdl: jax.Array | None
    value: jax.Array | None
    moves_left: jax.Array | None


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the ONNX graph."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


class Board(NamedTuple):
    """Values of squares, [8, 8, n, channels]: their layout between convolutions on a CPU."""

    values: jax.Array

    def planes(self) -> jax.Array:
        """The same in ONNX's layout, [n, channels, 8, 8]."""
        return jnp.transpose(self.values, (2, 3, 0, 1))


class NetGraph:
    """A net that JAX computes. `forward` is pure: it can be compiled and differentiated."""

    def __init__(
        self,
        nodes: Sequence[Node],
        constants: Mapping[str, NDArray[Any]],
        input_format: int,
        *,
        by_winograd: bool,
    ) -> None:
        """`constants` are all initialisers of the graph; `by_winograd` computes 3x3 convolutions by matrix products."""
        self._by_winograd = by_winograd
        self.clock = 1.0 if input_format >= HECTOPLIES else CLOCK
        self._maker = {output: node for node in nodes for output in node.outputs}
        self._nodes = nodes
        scalars = {name for node in nodes if node.operator == "Mul" for name in node.inputs}
        trainable = {
            name
            for name, array in constants.items()
            if array.dtype == np.float32 and name != _TABLE and not (array.size == 1 and name in scalars)
        }
        self._constants = {name: array for name, array in constants.items() if name not in trainable}
        self._first = next((name for name in _FIRST if name in trainable), "")
        self.parameters: dict[str, NDArray[np.float32]] = {
            name: self.scaled(name, constants[name], self.clock) for name in sorted(trainable)
        }
        outputs = (POLICY_NAME, WDL_NAME, VALUE_NAME, MOVES_LEFT_NAME)
        self.outputs = tuple(name for name in outputs if name in self._maker)

    @classmethod
    def open(cls, path: str | Path, *, by_winograd: bool | None = None) -> NetGraph:
        """The graph of an lc0 net, a file or a name of the registry, converted by lc0 itself.

        `by_winograd`: None means that it is on where JAX computes on a CPU. Raises UsageError for an ONNX file, and the
        errors of `nets.conversion.to_onnx`.
        """
        file = read_net_file(locate(str(path)))
        return cls.of_file(file, by_winograd=by_winograd)

    @classmethod
    def of_file(cls, file: NetFile, *, by_winograd: bool | None = None) -> NetGraph:
        """As `open`, for a file that is already read."""
        if file.header is None:
            raise UsageError(f"{file.path}: an ONNX file cannot be written back as an lc0 net; give the .pb.gz")
        nodes, constants = read_graph(to_onnx(file).read_bytes())
        if unknown := sorted({node.operator for node in nodes} - OPERATORS.keys() - {"Conv"}):
            raise ValueRepairError(f"{file.path}: has operators that cannot be trained here: {', '.join(unknown)}")
        if by_winograd is None:
            by_winograd = jax.default_backend() == "cpu"
        return cls(nodes, constants, file.header.input_format, by_winograd=by_winograd)

    def forward(self, parameters: Parameters, planes: Any) -> HeadOutputs:
        """The outputs of the net with these parameters for planes [n, 112, 8, 8], in their precision."""
        n, pair = len(planes), 2 * CHUNK
        if self._by_winograd and n > pair and n % pair == 0:
            pairs = planes.reshape(-1, pair, *planes.shape[1:])
            outputs = jax.lax.map(lambda part: self.forward(parameters, part), pairs)
            return HeadOutputs(*(None if head is None else head.reshape(n, *head.shape[2:]) for head in outputs))
        if self._by_winograd and n == pair:  # one chunk's products and the other's additions run at once
            outputs = [self._run(parameters, half) for half in (planes[:CHUNK], planes[CHUNK:])]
            return HeadOutputs(
                *(None if head[0] is None else jnp.concatenate(head) for head in zip(*outputs, strict=True))
            )
        return self._run(parameters, planes)

    def _run(self, parameters: Parameters, planes: Any) -> HeadOutputs:
        values: dict[str, Any] = {**self._constants, **parameters}
        values[PLANES_NAME] = jnp.asarray(planes).at[:, CLOCK_PLANE].divide(self.clock)
        for node in self._nodes:
            inputs = [values[name] for name in node.inputs]
            outputs = self._convolution(node, *inputs) if node.operator == "Conv" else operate(node, inputs)
            values.update(zip(node.outputs, outputs if isinstance(outputs, list) else [outputs], strict=True))

        def rows(name: str) -> Any:
            return values[name].reshape(-1) if name in self.outputs else None

        logits = values[self._maker[WDL_NAME].inputs[0]] if WDL_NAME in self.outputs else None
        return HeadOutputs(values.get(POLICY_NAME), logits, rows(VALUE_NAME), rows(MOVES_LEFT_NAME))

    def _convolution(self, node: Node, x: Any, kernel: Any, bias: Any) -> Any:
        if not self._by_winograd:
            dimensions = ("NCHW", "OIHW", "NCHW")
            side = kernel.shape[2] // 2
            output = jax.lax.conv_general_dilated(x, kernel, (1, 1), ((side, side),) * 2, dimension_numbers=dimensions)
            return output + bias[:, None, None]
        board = x.values if isinstance(x, Board) else jnp.transpose(x, (2, 3, 0, 1))
        if kernel.shape[2] == 1:
            return Board(board @ kernel[:, :, 0, 0].T + bias)
        return Board(convolve(board, kernel) + bias)

    def scaled(self, name: str, array: Any, factor: float) -> NDArray[np.float32]:
        """The parameter; its weights of the clock's plane, if it has any, are multiplied by `factor`."""
        scaled: NDArray[np.float32] = np.array(array, np.float32)
        if name == self._first:
            index: list[Any] = [slice(None)] * scaled.ndim
            index[_FIRST[name]] = CLOCK_PLANE
            scaled[tuple(index)] *= np.float32(factor)
        return scaled

    def of_head(self, name: str) -> frozenset[str]:
        """The parameters that only this head has: ``policy``, ``value`` or ``moves_left``."""
        ends = {HEADS["value"] if output == WDL_NAME else output: output for output in self.outputs}
        behind = {end: self._parameters_behind(output) for end, output in ends.items()}
        others = (names for end, names in behind.items() if end != HEADS[name])
        return behind.get(HEADS[name], frozenset()).difference(*others)

    def _parameters_behind(self, output: str) -> frozenset[str]:
        names: set[str] = set()
        waiting = [output]
        while waiting:
            name = waiting.pop()
            if name not in names:
                names.add(name)
                waiting += self._maker[name].inputs if name in self._maker else ()
        return frozenset(names & self.parameters.keys())


# -- operators --------------------------------------------------------------------------------------------------------


def operate(node: Node, inputs: Sequence[Any]) -> Any:
    """A node's output for its inputs: a value, or a list of values. Shapes stay NumPy's, so they are static."""
    elementwise = _UNARY.get(node.operator)
    if elementwise is not None:
        (x,) = inputs
        return Board(elementwise(x.values)) if isinstance(x, Board) else elementwise(x)
    if node.operator in _BINARY:
        return _binary(_BINARY[node.operator], *inputs)
    if node.operator == "ReduceMean" and isinstance(inputs[0], Board):
        return jnp.mean(inputs[0].values, axis=(0, 1))
    arrays = [x.planes() if isinstance(x, Board) else x for x in inputs]
    return OPERATORS[node.operator](node.attributes, *arrays)


def _binary(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if not isinstance(a, Board) and not isinstance(b, Board):
        return function(*_of_one_type(a, b))
    # The other operand of a board is a board, or a value for each channel, [n, channels, 1, 1].
    left, right = (x.values if isinstance(x, Board) else x[:, :, 0, 0] for x in (a, b))
    return Board(function(left, right))


def _of_one_type(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands in one precision, constants in that of the other operand."""
    if isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return a.astype(b.dtype), b
    if isinstance(b, np.ndarray) and not isinstance(a, np.ndarray):
        return a, b.astype(a.dtype)
    return a, b


_UNARY: dict[str, Callable[[Any], Any]] = {
    "Relu": jax.nn.relu,
    "Sigmoid": jax.nn.sigmoid,
    "Tanh": jnp.tanh,
    "Softplus": jax.nn.softplus,
    "Selu": jax.nn.selu,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {"Add": jnp.add, "Mul": jnp.multiply}


def _layer_normalization(attributes: Mapping[str, Any], x: Any, scale: Any, bias: Any) -> Any:
    axes = tuple(range(attributes["axis"], x.ndim))
    centred = x - jnp.mean(x, axis=axes, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=axes, keepdims=True)
    return centred * jax.lax.rsqrt(variance + attributes["epsilon"]) * scale + bias


def _split(attributes: Mapping[str, Any], x: Any, sizes: NDArray[np.int64] | None = None) -> Any:
    cuts = 2 if sizes is None else [int(cut) for cut in np.cumsum(sizes)[:-1]]
    return list(jnp.split(x, cuts, axis=attributes["axis"]))


def _concat(attributes: Mapping[str, Any], *arrays: Any) -> Any:
    joined: Any = np.concatenate if all(isinstance(x, np.ndarray) for x in arrays) else jnp.concatenate
    return joined(arrays, axis=attributes["axis"])


OPERATORS: dict[str, Callable[..., Any]] = {
    **_UNARY,
    **_BINARY,
    "MatMul": lambda attributes, a, b: jnp.matmul(a, b),
    "Softmax": lambda attributes, x: jax.nn.softmax(x, axis=attributes["axis"]),
    "LayerNormalization": _layer_normalization,
    "ReduceMean": lambda attributes, x: jnp.mean(
        x, axis=tuple(attributes["axes"]), keepdims=bool(attributes.get("keepdims", 1))
    ),
    "Reshape": lambda attributes, x, shape: x.reshape([int(size) for size in shape]),
    "Transpose": lambda attributes, x: jnp.transpose(x, attributes["perm"]),
    "Split": _split,
    "Slice": lambda attributes, x, starts, ends: x[tuple(map(slice, starts.tolist(), ends.tolist()))],
    "Concat": _concat,
    "Gather": lambda attributes, x, indices: jnp.take(x, indices, axis=attributes["axis"]),
    "Shape": lambda attributes, x: np.array(x.shape, np.int64),
    "Expand": lambda attributes, x, shape: jnp.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))),
}


# -- the file ---------------------------------------------------------------------------------------------------------


def read_graph(content: bytes) -> tuple[list[Node], dict[str, NDArray[Any]]]:
    """The nodes of an ONNX file, in their order, and its initialisers. Raises ValueError for another file."""
    graph = protobuf.read_model(content).graph
    nodes = [
        Node(node.op_type, tuple(node.input), tuple(node.output), {part.name: _value(part) for part in node.attribute})
        for node in graph.node
    ]
    return nodes, {tensor.name: _array(tensor) for tensor in graph.initializer}


def _value(attribute: Any) -> Any:
    """The value of an AttributeProto: an integer, a real number, or integers."""
    for field in ("f", "i"):
        if attribute.HasField(field):
            return getattr(attribute, field)
    return list(attribute.ints)


def _array(tensor: Any) -> NDArray[Any]:
    """The value of a TensorProto."""
    dtype = next(np.dtype(word) for word, number in protobuf.ELEMENTS.items() if number == tensor.data_type)
    flat = np.frombuffer(tensor.raw_data, dtype.newbyteorder("<")).astype(dtype)
    return np.asarray(flat.reshape(tensor.dims))


# Convolutions by Winograd's method (Lavin and Gray, arXiv:1509.09308). A board has 2x2 tiles of 4x4 squares. A tile
# takes 36 products for each pair of channels, a direct convolution 144.
TILE, REACH = 4, 6  # squares along a tile, and along the part of the board that it is computed from
TILES = 8 // TILE
# Interpolation points. The textbook's points (0, 1, -1, 2, -2) make four times the rounding error.
POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)

Reals = NDArray[np.floating[Any]]


class Winograd(NamedTuple):
    """One-dimensional transforms: from 8 squares to points of the tiles, from 3 weights to points, back to squares."""

    squares: Reals  # [TILES, REACH, 8]
    weights: Reals  # [REACH, 3]
    back: Reals  # [8, TILES, REACH]


@cache
def winograd() -> Winograd:
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
    return Winograd(squares, weights, all_back)


def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """The convolution of boards [8, 8, n, inputs] with a kernel [outputs, inputs, 3, 3], padded with zeros.

    With this layout of boards each step is a matrix product that transposes no boards.
    """
    m, dtype = winograd(), x.dtype

    def constant(array: Reals) -> Any:
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
