"""Writes small ONNX models and parts of them without the `onnx` package.

They serve as canaries for providers, and as nodes added around a net. Field numbers are those of ``onnx/onnx.proto3``
(ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.nets.weights import Field, fields, read_varint

IR_VERSION, OPSET = 8, 17
IR_FIELD, GRAPH_FIELD, OPSET_FIELD = 1, 7, 8  # of ModelProto
NODE_FIELD, NAME_FIELD, WEIGHT_FIELD, INPUT_FIELD, OUTPUT_FIELD = 1, 2, 5, 11, 12  # of GraphProto
INTEGER = 2  # AttributeProto.AttributeType.INT
# TensorProto.DataType
ELEMENTS: dict[str, int] = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float16": 10}

Shape = Sequence[int | str]  # a str is a symbolic dimension


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


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], *, name: str = "", **attributes: int) -> bytes:
    """A node of a graph, as its field; the attributes are non-negative integers."""
    names = b"".join(field(1, word.encode()) for word in inputs)
    names += b"".join(field(2, word.encode()) for word in outputs) + field(4, operator.encode())
    names += field(3, name.encode()) if name else b""
    fields_of_attributes = (
        field(5, field(1, word.encode()) + number(3, content) + number(20, INTEGER))
        for word, content in attributes.items()
    )
    return field(NODE_FIELD, names + b"".join(fields_of_attributes))


def node_name(part: bytes) -> str:
    """The name of a NodeProto."""
    return next((text.decode() for at, text in fields(part) if at == 3 and isinstance(text, bytes)), "")


def node_inputs(part: bytes) -> list[str]:
    """The names of a NodeProto's inputs."""
    return [text.decode() for at, text in fields(part) if at == 1 and isinstance(text, bytes)]


def renamed(part: bytes, old: str, new: str) -> bytes:
    """A NodeProto with `new` for `old` at the beginning of its name and the names of inputs and outputs."""
    begin, parts = old.encode(), list(fields(part))
    for i, (at, text) in enumerate(parts):
        if at in (1, 2, 3) and isinstance(text, bytes) and text.startswith(begin):
            parts[i] = at, new.encode() + text[len(begin) :]
    return message(parts)


def weight(name: str, array: NDArray[Any]) -> bytes:
    """A constant of a graph (an initializer) with an element type in `ELEMENTS`, as its field."""
    shape = b"".join(number(1, size) for size in array.shape)
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    tensor = shape + number(2, ELEMENTS[array.dtype.name]) + field(8, name.encode()) + field(9, content)
    return field(WEIGHT_FIELD, tensor)


def value(name: str, shape: Shape, element: str = "float32") -> bytes:
    """An input or an output of a graph, the content of `INPUT_FIELD` or `OUTPUT_FIELD`."""
    sizes = (field(2, size.encode()) if isinstance(size, str) else number(1, size) for size in shape)
    tensor = number(1, ELEMENTS[element]) + field(2, b"".join(field(1, size) for size in sizes))
    return field(1, name.encode()) + field(2, field(1, tensor))


def message(parts: Iterable[Field]) -> bytes:
    """A protobuf message of these fields; the inverse of `weights.fields`."""
    return b"".join(number(at, part) if isinstance(part, int) else field(at, part) for at, part in parts)


def graph_of(model: bytes) -> bytes:
    """The GraphProto of an ONNX file. Raises StopIteration if the file has none."""
    return next(part for at, part in fields(model) if at == GRAPH_FIELD and isinstance(part, bytes))


def with_graph(model: bytes, graph: bytes) -> bytes:
    """The ONNX file with another GraphProto."""
    return message((at, graph if at == GRAPH_FIELD else part) for at, part in fields(model))


def field(at: int, content: bytes) -> bytes:
    """A field of a protobuf message that holds bytes, a text or another message."""
    return _varint(at << 3 | 2) + _varint(len(content)) + content


def number(at: int, content: int) -> bytes:
    """A field that holds a non-negative integer."""
    return _varint(at << 3) + _varint(content)


def varints(packed: bytes) -> list[int]:
    """The integers of a packed field."""
    integers, at = [], 0
    while at < len(packed):
        integer, at = read_varint(packed, at)
        integers.append(integer)
    return integers


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
