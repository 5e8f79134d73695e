"""A net whose 3x3 convolutions are done by Winograd's algorithm, as matrix products, for the CPU.

F(4x4, 3x3) of Lavin and Gray (Fast Algorithms for Convolutional Neural Networks, 2015) makes a 4x4 piece of the output
of a 6x6 piece of the input by 36 products instead of 144; four pieces are a board. The net's graph is rewritten once:
boards become ``[8, 8, batch, channels]``, so that both transforms and the products are `MatMul` without transposing.
Sums are rounded otherwise than in the plain graph, and Q moves by some 1e-5 at most. lc0's own backends use the same
algorithm. The rewritten net is cached beside the converted one.

Only nets of convolutions as lc0 writes them are rewritten; any other is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.files import cache_folder, written_whole
from valuerepair.nets import onnx_model as om
from valuerepair.nets.providers import first_line
from valuerepair.nets.weights import fields

# Counts up whenever the graph below would give other values: they are kept apart by it in a store, and so are files.
REVISION = 1
VARIANT = f"-winograd{REVISION}"
MIN_OPSET = 15  # the first with a Shape that cuts
TILE, TAPS, POINTS = 4, 3, 6  # of output, of the kernel, of input and product
# The sixth point is infinity. 1/2 beside -2 rounds better than 2 and -2: Q moves by half as much.
FINITE_POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2))
ELEMENTWISE = ("Relu", "Sigmoid", "Tanh", "Softplus", "Mish", "Identity")
REARRANGING = ("Reshape", "Transpose", "Flatten")
WITH_GRAPHS = ("If", "Loop", "Scan")
Matrix = NDArray[np.float64]


def winograd_file(onnx: Path, sha256: str, say: Callable[[str], None]) -> Path | None:
    """The rewritten ONNX file of a net, made now if it is not in the cache; None, and `say` is told, if it cannot be.

    `onnx` is the plain file, `sha256` that of the net as given. Raises ValueRepairError when a file cannot be read.
    """
    target = cache_folder("onnx") / f"{sha256}{VARIANT}.onnx"
    if target.exists():
        return target
    try:
        content = winograd_model(onnx.read_bytes())
    except ValueError as error:
        say(f"winograd does nothing for {onnx.name}: {first_line(error)}")
        return None
    except OSError as error:
        raise ValueRepairError(f"{onnx}: cannot be read: {error.strerror}") from None
    with written_whole(target) as temporary:
        temporary.write_bytes(content)
    return target


def winograd_model(content: bytes) -> bytes:
    """The ONNX file of a net with its 3x3 convolutions rewritten; inputs, outputs and all other weights stay.

    Raises ValueError, with the reason, when the graph is not understood.
    """
    try:
        model = list(fields(content))
        graph = next(part for at, part in model if at == om.GRAPH_FIELD and isinstance(part, bytes))
        opsets = [dict(fields(part)) for at, part in model if at == om.OPSET_FIELD and isinstance(part, bytes)]
        opset = max((int(o.get(2, 0)) for o in opsets if not o.get(1)), default=0)
        if opset < MIN_OPSET:
            raise ValueError(f"its opset {opset} is older than {MIN_OPSET}")
        inside = _Rewriting(graph).graph()
    except (IndexError, StopIteration, KeyError):
        raise ValueError("its graph is damaged or not one that lc0 writes") from None
    return om.written((at, inside if at == om.GRAPH_FIELD else part) for at, part in model)


class _Rewriting:
    """One graph on its way. A tensor is plain ``[batch, channels, 8, 8]`` (or anything), or of another layout:

    in `boards` are those that are ``[8, 8, batch, channels]`` now, with their channels; in `scales` those that are
    ``[batch, channels]`` now and were ``[batch, channels, 1, 1]``, as of squeeze and excitation.
    """

    def __init__(self, graph: bytes) -> None:
        self._parts = list(fields(graph))
        messages = [(at, part) for at, part in self._parts if isinstance(part, bytes)]
        self._weights = {_name(part, 8): part for at, part in messages if at == om.WEIGHT_FIELD}
        self._given = [om.read_node(part) for at, part in messages if at == om.NODE_FIELD]
        self._outputs = [_name(part, 1) for at, part in messages if at == om.OUTPUT_FIELD]
        self._planes = [_name(part, 1) for at, part in messages if at == om.INPUT_FIELD]
        self._nodes: list[bytes] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._used: set[str] = set(self._outputs)
        self._made: set[str] = set()
        self._boards: dict[str, int] = {}
        self._scales: set[str] = set()
        self._convolutions = 0

    def graph(self) -> bytes:
        """The GraphProto with the nodes rewritten."""
        if any(at == om.EXTERNAL_DATA for part in self._weights.values() for at, _ in fields(part)):
            raise ValueError("its weights are in another file")
        if len(self._planes) != 1:
            raise ValueError("it has more inputs than the planes")
        for node in self._given:
            self._rewrite(node)
        if not self._convolutions:
            raise ValueError("it has no 3x3 convolutions")
        if strange := [name for name in self._outputs if name in self._boards or name in self._scales]:
            raise ValueError(f"its output {strange[0]} is made in a way that is not known")
        dropped = (om.NODE_FIELD, om.WEIGHT_FIELD, om.VALUE_INFO_FIELD)
        kept = ((om.WEIGHT_FIELD, part) for name, part in self._weights.items() if name in self._used)
        return b"".join(
            [
                *self._nodes,
                om.written(kept),
                *(om.weight(name, array) for name, array in self._constants.items()),
                om.written((at, part) for at, part in self._parts if at not in dropped),
            ]
        )

    def _rewrite(self, node: om.Node) -> None:
        moved = [name for name in node.inputs if name in self._boards or name in self._scales]
        if node.operator == "Conv":
            self._convolution(node)
        elif self._is_scale(node):
            self._reshape(node.inputs[0], (-1, self._constant(node.inputs[1])[1]), node.outputs[0])
            self._scales.add(node.outputs[0])
        elif not moved and node.operator not in WITH_GRAPHS:
            self._keep(node, node.inputs)
        elif node.operator in ELEMENTWISE or (node.operator in ("Add", "Mul") and len(moved) == 2):
            self._elementwise(node)
        elif node.operator == "Split" and node.inputs[0] in self._scales and node.attributes.get("axis") == (1,):
            self._keep(node, node.inputs)
            self._scales.update(node.outputs)
        elif node.operator == "ReduceMean" and node.inputs[0] in self._boards:
            self._mean(node)
        elif node.operator in REARRANGING and node.inputs[0] in self._boards:
            self._keep(node, [self._plain(node.inputs[0]), *node.inputs[1:]])
        else:
            raise ValueError(f"its node {node.outputs[0]} ({node.operator}) is not known")

    def _convolution(self, node: om.Node) -> None:
        kernel = self._constant(node.inputs[1])
        out, (outputs, inputs, *size) = node.outputs[0], kernel.shape
        padding = {(3, 3): (1, 1, 1, 1), (1, 1): (0, 0, 0, 0)}.get(tuple(size))
        usual = {"pads": padding, "strides": (1, 1), "dilations": (1, 1), "group": (1,), "kernel_shape": tuple(size)}
        plain = all(name in usual and found == usual[name] for name, found in node.attributes.items())
        if padding is None or not plain or (size == [3, 3] and "pads" not in node.attributes):
            raise ValueError(f"its convolution {out} is not of the usual kind")
        if kernel.dtype != np.float32:
            raise ValueError(f"its weights are {kernel.dtype.name}")
        board = self._board(node.inputs[0], inputs)
        if size == [3, 3]:
            self._convolutions += 1
            product = self._tiles(board, np.asarray(kernel, np.float64), out)
        else:
            weights = self._define(f"{out}/winograd/w", np.ascontiguousarray(kernel[:, :, 0, 0].T))
            product = self._add("MatMul", [board, weights], f"{out}/winograd/product")
        if len(node.inputs) > 2:
            self._add("Add", [product, self._bias(node.inputs[2], outputs, out)], out)
        else:
            self._add("Identity", [product], out)
        self._boards[out] = outputs

    def _tiles(self, board: str, kernel: Matrix, out: str) -> str:
        """A 3x3 convolution but for its bias; `kernel` float64[out, in, 3, 3]."""
        outputs, inputs = kernel.shape[:2]
        stem = f"{out}/winograd"
        of_kernel, _, _ = transforms()
        into, back = (self._define(f"/winograd/{k}", a.astype(np.float32)) for k, a in _board_transforms().items())
        weights = np.einsum("ik,ockl,jl->ijco", of_kernel, kernel, of_kernel)
        weights = weights.reshape(POINTS, 1, POINTS, inputs, outputs).astype(np.float32)
        flat = self._reshape(board, (8, -1), f"{stem}/ranks")
        done = self._add("MatMul", [into, flat], f"{stem}/ranks/in")
        files = self._reshape(done, (12, 8, -1), f"{stem}/files")
        done = self._add("MatMul", [into, files], f"{stem}/files/in")
        # Both tiles of a file stay beside the batch: one product is of 2 * batch rows.
        points = self._reshape(done, (POINTS, 2, POINTS, -1, inputs), f"{stem}/points")
        done = self._add("MatMul", [points, self._define(f"{stem}/w", weights)], f"{stem}/products")
        files = self._reshape(done, (12, 12, -1), f"{stem}/sums")
        done = self._add("MatMul", [back, files], f"{stem}/files/out")
        ranks = self._reshape(done, (12, -1), f"{stem}/sums/ranks")
        done = self._add("MatMul", [back, ranks], f"{stem}/ranks/out")
        return self._reshape(done, (8, 8, -1, outputs), f"{stem}/board")

    def _bias(self, name: str, channels: int, out: str) -> str:
        """The bias for every row of the batch: adding that is faster than adding one row to each."""
        if "/winograd/batch" not in self._made:
            self._add("Shape", self._planes, "/winograd/batch", start=0, end=1)
        shape = f"/winograd/rows/{channels}"
        if shape not in self._made:
            size = self._define(f"/winograd/channels/{channels}", np.array([channels], np.int64))
            self._add("Concat", ["/winograd/batch", size], shape, axis=0)
        return self._add("Expand", [self._used_weight(name), shape], f"{out}/winograd/bias")

    def _elementwise(self, node: om.Node) -> None:
        """A node of boards, and of scales too, which then hold for all squares."""
        widths = [self._boards[name] for name in node.inputs if name in self._boards]
        self._keep(node, node.inputs)
        if widths:
            self._boards[node.outputs[0]] = widths[0]
        else:
            self._scales.add(node.outputs[0])

    def _mean(self, node: om.Node) -> None:
        """The mean over the squares, [batch, channels]: the axes are an attribute, or from opset 18 on an input."""
        axes = self._constant(node.inputs[1]).tolist() if len(node.inputs) > 1 else node.attributes.get("axes")
        if tuple(axes or ()) != (2, 3) or node.attributes.get("keepdims") != (0,):
            raise ValueError(f"its mean {node.outputs[0]} is not over the squares")
        if len(node.inputs) > 1:
            squares = self._define("/winograd/squares", np.array([0, 1], np.int64))
            self._add("ReduceMean", [node.inputs[0], squares], node.outputs[0], keepdims=0)
        else:
            self._add("ReduceMean", [node.inputs[0]], node.outputs[0], axes=(0, 1), keepdims=0)

    def _is_scale(self, node: om.Node) -> bool:
        """Whether it makes [batch, channels, 1, 1] of [batch, channels], for use on boards."""
        if node.operator != "Reshape" or node.inputs[0] in self._boards or node.inputs[1] not in self._weights:
            return False
        shape = self._constant(node.inputs[1]).tolist()
        return len(shape) == 4 and shape[1] > 0 and shape[2:] == [1, 1]

    def _board(self, name: str, channels: int) -> str:
        """The tensor as [8, 8, batch, channels]."""
        if name in self._scales:
            raise ValueError(f"a convolution of {name} is not known")
        board = f"{name}/winograd/as_board"
        if name in self._boards or board in self._made:
            return name if name in self._boards else board
        rows = self._reshape(name, (-1, 64), f"{board}/rows")
        squares = self._add("Transpose", [rows], f"{board}/squares", perm=(1, 0))
        return self._reshape(squares, (8, 8, -1, channels), board)

    def _plain(self, name: str) -> str:
        """A board as [batch, channels, 8, 8] again."""
        plain = f"{name}/winograd/as_plain"
        if plain in self._made:
            return plain
        squares = self._reshape(name, (64, -1), f"{plain}/squares")
        rows = self._add("Transpose", [squares], f"{plain}/rows", perm=(1, 0))
        return self._reshape(rows, (-1, self._boards[name], 8, 8), plain)

    def _reshape(self, name: str, shape: Sequence[int], out: str) -> str:
        constant = self._define("/winograd/shape/" + ",".join(map(str, shape)), np.array(shape, np.int64))
        return self._add("Reshape", [name, constant], out)

    def _add(self, operator: str, inputs: Sequence[str], out: str, **attributes: int | Sequence[int]) -> str:
        self._nodes.append(om.node(operator, inputs, [out], **attributes))
        self._made.add(out)
        return out

    def _keep(self, node: om.Node, inputs: Sequence[str]) -> None:
        self._used.update(inputs)
        self._nodes.append(node.reading(inputs))

    def _define(self, name: str, array: NDArray[Any]) -> str:
        self._constants[name] = array
        return name

    def _constant(self, name: str) -> NDArray[Any]:
        return om.read_weight(self._weights[name])

    def _used_weight(self, name: str) -> str:
        self._constant(name)  # raises where it is none
        self._used.add(name)
        return name


def _name(message: bytes, at: int) -> str:
    """The name of a TensorProto (field 8) or of a ValueInfoProto (1)."""
    name = dict(fields(message))[at]
    return name.decode() if isinstance(name, bytes) else ""


def transforms() -> tuple[Matrix, Matrix, Matrix]:
    """G [6, 3], B transposed [6, 6] and A transposed [4, 6]: a row of outputs is A^T (G g * B^T d), as Lavin has them.

    Made by Toom's and Cook's interpolation at `FINITE_POINTS` and infinity, in fractions; rows are scaled by powers of
    two, which is exact, to about the same size.
    """
    kernel, data, back = [], [], []
    for i, point in enumerate(FINITE_POINTS):
        others = [p for j, p in enumerate(FINITE_POINTS) if j != i]
        divisor = Fraction(1)
        for other in others:
            divisor *= point - other
        kernel.append([point**k / divisor for k in range(TAPS)])
        data.append([*_polynomial(others), Fraction(0)])
        back.append([point**k for k in range(TILE)])
    kernel.append([Fraction(k == TAPS - 1) for k in range(TAPS)])
    data.append(_polynomial(FINITE_POINTS))
    back.append([Fraction(k == TILE - 1) for k in range(TILE)])
    g, b, a = (np.array(rows, np.float64) for rows in (kernel, data, back))
    for rows, size in ((b, np.abs(b).sum(1)), (a, np.abs(a).max(1))):
        scale = np.exp2(np.round(np.log2(size)))[:, None]
        rows /= scale
        g *= scale
    return g, b, a.T


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of all (x - root), that of x^0 first."""
    found = [Fraction(1)]
    for root in roots:
        found = [low - root * high for low, high in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def _board_transforms() -> dict[str, Matrix]:
    """The transforms of a line of eight squares as two tiles, row 2 * point + tile: "in" [12, 8], "out" [8, 12]."""
    _, data, back = transforms()
    into, out = np.zeros((2 * POINTS, 8)), np.zeros((8, 2 * POINTS))
    for tile in range(2):
        first = TILE * tile - 1  # the kernel reaches one square beyond; beyond the board is zero
        for k in range(POINTS):
            if 0 <= first + k < 8:
                into[tile::2, first + k] = data[:, k]
        out[TILE * tile : TILE * tile + TILE, tile::2] = back
    return {"in": into, "out": out}
