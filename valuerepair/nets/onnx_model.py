"""Small ONNX models and parts of them read and written by hand, without the `onnx` package.

For canaries that show whether a provider really runs, and for nodes put around a net or into it. Field numbers are
those of ``onnx/onnx.proto3`` (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.nets.weights import Field, fields

IR_VERSION, OPSET = 8, 17
IR_FIELD, GRAPH_FIELD, OPSET_FIELD = 1, 7, 8  # of ModelProto
NODE_FIELD, NAME_FIELD, WEIGHT_FIELD, INPUT_FIELD, OUTPUT_FIELD = 1, 2, 5, 11, 12  # of GraphProto
VALUE_INFO_FIELD = 13  # of GraphProto: shapes of tensors inside, which need not be said
INTEGER, INTEGERS = 2, 7  # AttributeProto.AttributeType.INT, INTS
# TensorProto.DataType
ELEMENTS: dict[str, int] = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
RAW_DATA, EXTERNAL_DATA = 9, 13  # of TensorProto: all numbers, little endian; where they are in another file

Shape = Sequence[int | str]  # a text is a symbolic dimension


def model(
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    weights: Mapping[str, NDArray[np.float32]],
) -> bytes:
    """A float32 model. Each node is (operator, input names, output names), without attributes."""
    graph = b"".join(node(*parts) for parts in nodes) + field(NAME_FIELD, b"graph")
    graph += b"".join(weight(name, array) for name, array in weights.items())
    graph += b"".join(field(INPUT_FIELD, value(name, shape)) for name, shape in inputs.items())
    graph += b"".join(field(OUTPUT_FIELD, value(name, shape)) for name, shape in outputs.items())
    return number(IR_FIELD, IR_VERSION) + field(GRAPH_FIELD, graph) + field(OPSET_FIELD, number(2, OPSET))


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: int | Sequence[int]) -> bytes:
    """A node of a graph, as its field; attributes that are integers or lists of them, none negative."""
    names = b"".join(field(1, name.encode()) for name in inputs)
    names += b"".join(field(2, name.encode()) for name in outputs) + field(4, operator.encode())
    given = (field(5, field(1, name.encode()) + _integers(content)) for name, content in attributes.items())
    return field(NODE_FIELD, names + b"".join(given))


def _integers(content: int | Sequence[int]) -> bytes:
    if isinstance(content, int):
        return number(3, content) + number(20, INTEGER)
    return b"".join(number(8, each) for each in content) + number(20, INTEGERS)


def weight(name: str, array: NDArray[Any]) -> bytes:
    """A constant of a graph (an initializer), as its field; of an element type in `ELEMENTS`."""
    shape = b"".join(number(1, size) for size in array.shape)
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    tensor = shape + number(2, ELEMENTS[array.dtype.name]) + field(8, name.encode()) + field(9, content)
    return field(WEIGHT_FIELD, tensor)


def value(name: str, shape: Shape, element: str = "float32") -> bytes:
    """What an input or an output of a graph is: put it into `INPUT_FIELD` or `OUTPUT_FIELD`."""
    sizes = (field(2, size.encode()) if isinstance(size, str) else number(1, size) for size in shape)
    tensor = number(1, ELEMENTS[element]) + field(2, b"".join(field(1, size) for size in sizes))
    return field(1, name.encode()) + field(2, field(1, tensor))


def field(at: int, content: bytes) -> bytes:
    """A field of a protobuf message that holds bytes, a text or another message."""
    return _varint(at << 3 | 2) + _varint(len(content)) + content


def number(at: int, content: int) -> bytes:
    """A field that holds an integer, not negative."""
    return _varint(at << 3) + _varint(content)


def written(parts: Iterable[Field]) -> bytes:
    """The message of these fields: the inverse of `header.fields` for numbers, texts and messages."""
    return b"".join(number(at, part) if isinstance(part, int) else field(at, part) for at, part in parts)


@dataclass(frozen=True, slots=True)
class Node:
    """A NodeProto as read: integer attributes, single ones as lists of one; None for those of another type."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, tuple[int, ...] | None]
    content: bytes

    def reading(self, inputs: Sequence[str]) -> bytes:
        """The same node with other inputs, as a field of a graph."""
        others = (part for part in fields(self.content) if part[0] != 1)
        return field(NODE_FIELD, written([*((1, name.encode()) for name in inputs), *others]))


def read_node(content: bytes) -> Node:
    """A NodeProto. Raises what `fields` raises, and KeyError where something is missing."""
    texts: dict[int, list[bytes]] = {1: [], 2: [], 4: [], 5: []}
    for at, part in fields(content):
        if at in texts and isinstance(part, bytes):
            texts[at].append(part)
    inputs, outputs = (tuple(name.decode() for name in texts[at]) for at in (1, 2))
    return Node(texts[4][0].decode(), inputs, outputs, dict(map(_read_attribute, texts[5])), content)


def _read_attribute(content: bytes) -> tuple[str, tuple[int, ...] | None]:
    parts = list(fields(content))
    found = dict(parts)
    name, kind = found[1], found.get(20)
    assert isinstance(name, bytes), "field 1 of an AttributeProto is a text"
    if kind not in (INTEGER, INTEGERS):
        return name.decode(), None
    return name.decode(), repeated(parts, 3 if kind == INTEGER else 8)


def repeated(parts: Iterable[Field], wanted: int) -> tuple[int, ...]:
    """The int64 numbers of a repeated field, packed or not."""
    numbers: list[int] = []
    for at, part in parts:
        if at == wanted and isinstance(part, int):
            numbers.append(part)
        elif at == wanted and isinstance(part, bytes):
            numbers += _packed(part)
    return tuple(n - (1 << 64) if n >> 63 else n for n in numbers)


def _packed(content: bytes) -> list[int]:
    numbers, value, shift = [], 0, 0
    for byte in content:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value = shift = 0
    return numbers


def read_weight(content: bytes) -> NDArray[Any]:
    """The array of a TensorProto. Raises ValueError for numbers that are not raw or of a type not in `ELEMENTS`."""
    parts = list(fields(content))
    found = dict(parts)
    names = [name for name, element in ELEMENTS.items() if element == found.get(2)]
    raw = found.get(RAW_DATA)
    if not names or not isinstance(raw, bytes):
        raise ValueError("its weights are of another type or in another form than lc0 writes")
    return np.frombuffer(raw, np.dtype(names[0]).newbyteorder("<")).reshape(repeated(parts, 1))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
