"""Small ONNX models written by hand, without the `onnx` package: canaries that show whether a provider really runs.

Field numbers are those of ``onnx/onnx.proto3`` (ModelProto, GraphProto, NodeProto, TensorProto, ValueInfoProto).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

IR_VERSION, OPSET = 8, 17
FLOAT32 = 1  # TensorProto.DataType.FLOAT

Shape = Sequence[int | str]  # a text is a symbolic dimension


def model(
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    weights: Mapping[str, NDArray[np.float32]],
) -> bytes:
    """A float32 model. Each node is (operator, input names, output names), without attributes."""
    graph = b"".join(_field(1, _node(*node)) for node in nodes) + _field(2, b"graph")
    graph += b"".join(_field(5, _tensor(name, array)) for name, array in weights.items())
    graph += b"".join(_field(11, _value(name, shape)) for name, shape in inputs.items())
    graph += b"".join(_field(12, _value(name, shape)) for name, shape in outputs.items())
    return _number(1, IR_VERSION) + _field(7, graph) + _field(8, _number(2, OPSET))


def _node(operator: str, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    names = b"".join(_field(1, name.encode()) for name in inputs)
    return names + b"".join(_field(2, name.encode()) for name in outputs) + _field(4, operator.encode())


def _tensor(name: str, array: NDArray[np.float32]) -> bytes:
    shape = b"".join(_number(1, size) for size in array.shape)
    content = np.ascontiguousarray(array, "<f4").tobytes()
    return shape + _number(2, FLOAT32) + _field(8, name.encode()) + _field(9, content)


def _value(name: str, shape: Shape) -> bytes:
    sizes = (_field(2, size.encode()) if isinstance(size, str) else _number(1, size) for size in shape)
    tensor = _number(1, FLOAT32) + _field(2, b"".join(_field(1, size) for size in sizes))
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
