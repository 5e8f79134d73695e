"""The net in double precision, to settle whose rounding a small difference is. Needs `pip install onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def q_in_double(onnx_file: Path, planes: NDArray[np.float32]) -> NDArray[np.float64]:
    """Q of each row by ONNX's reference evaluator in float64: slow, but with no rounding that matters here."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(str(onnx_file))
    for tensor in model.graph.initializer:
        _widen(tensor)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen(attribute.t)
    run = ReferenceEvaluator(model).run
    name = model.graph.input[0].name
    heads = [output.name for output in model.graph.output]
    answers = [dict(zip(heads, run(None, {name: row[None].astype(np.float64)}), strict=True)) for row in planes]
    if "/output/wdl" in heads:
        return np.array([a["/output/wdl"][0, 0] - a["/output/wdl"][0, 2] for a in answers])
    return np.array([a["/output/value"][0, 0] for a in answers])


def _widen(tensor: Any) -> None:
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    if array.dtype == np.float32:
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float64), tensor.name))
