"""Reads, changes and writes ONNX models without the `onnx` package: canaries for providers, and nodes around a net."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.nets.protobuf import ONNX, parsed

IR_VERSION, OPSET = 8, 17
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
    graph = ONNX.Graph(
        name="graph",
        node=[node(*parts) for parts in nodes],
        initializer=[weight(name, array) for name, array in weights.items()],
        input=[value(name, shape) for name, shape in inputs.items()],
        output=[value(name, shape) for name, shape in outputs.items()],
    )
    opset = ONNX.OperatorSetId(version=OPSET)
    content: bytes = ONNX.Model(ir_version=IR_VERSION, graph=graph, opset_import=[opset]).SerializeToString()
    return content


def read_model(content: bytes) -> Any:
    """The ModelProto of an ONNX file. Raises ValueError for another file."""
    read = parsed(ONNX.Model, content)
    if not read.HasField("graph"):
        raise ValueError("its protobuf is damaged")
    return read


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], *, name: str | None = None, **attributes: int
) -> Any:
    """A NodeProto; the attributes are integers."""
    messages = [ONNX.Attribute(name=key, i=number, type=INTEGER) for key, number in attributes.items()]
    return ONNX.Node(op_type=operator, input=inputs, output=outputs, name=name, attribute=messages)


def renamed(part: Any, old: str, new: str) -> Any:
    """A copy of a NodeProto with `new` in place of `old` at the beginning of its name, and of inputs and outputs."""

    def changed(name: str) -> str:
        return new + name[len(old) :] if name.startswith(old) else name

    copy = ONNX.Node()
    copy.CopyFrom(part)
    copy.name, copy.input[:], copy.output[:] = changed(part.name), map(changed, part.input), map(changed, part.output)
    return copy


def weight(name: str, array: NDArray[Any]) -> Any:
    """A constant of a graph, a TensorProto, with an element type in `ELEMENTS`."""
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return ONNX.Tensor(dims=array.shape, data_type=ELEMENTS[array.dtype.name], name=name, raw_data=content)


def value(name: str, shape: Shape, element: str = "float32") -> Any:
    """An input or an output of a graph, a ValueInfoProto."""
    sizes = [{"dim_param": size} if isinstance(size, str) else {"dim_value": size} for size in shape]
    tensor = {"elem_type": ELEMENTS[element], "shape": {"dim": sizes}}
    return ONNX.ValueInfo(name=name, type={"tensor_type": tensor})


def replace(repeated: Any, parts: Iterable[Any]) -> None:
    """Replaces the parts of a repeated field; some of the new parts may be old ones."""
    new_parts = list(parts)
    del repeated[:]
    repeated.extend(new_parts)
