"""Which tensors of an ONNX file are the planes, the policy, the value and the moves left.

lc0's own names decide where they are there (`leela2onnx` writes them); otherwise the shapes do, when only one tensor
has the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from valuerepair.errors import ValueRepairError

PLANES_SHAPE, POLICY_SIZE, WDL_SIZE = (112, 8, 8), 1858, 3
PLANES_NAME, POLICY_NAME, WDL_NAME = "/input/planes", "/output/policy", "/output/wdl"
VALUE_NAME, MOVES_LEFT_NAME = "/output/value", "/output/mlh"
MOVES_LEFT_WORDS = ("mlh", "moves_left", "movesleft", "moves-left")
DTYPES: dict[str, type[np.float32] | type[np.float16]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
LC0_EXPORT = "an ONNX net as `lc0 leela2onnx` writes it is needed"


@dataclass(frozen=True, slots=True)
class Tensors:
    """Names of the tensors, the element type of the input, and its batch size where the file fixes one."""

    planes: str
    policy: str
    wdl: str | None
    value: str | None
    mlh: str | None
    dtype: type[np.float32] | type[np.float16]
    fixed_batch: int | None


def find_tensors(session: Any, path: Path) -> Tensors:
    """The tensors of an onnxruntime.InferenceSession. Raises ValueRepairError when it is no lc0 net."""
    planes = _find_planes(session.get_inputs(), path)
    outputs = session.get_outputs()
    policy = _pick(outputs, POLICY_NAME, POLICY_SIZE)
    if policy is None:
        raise ValueRepairError(
            f"{path}: no policy output [batch,{POLICY_SIZE}] (outputs: {_listed(outputs)}); {LC0_EXPORT}"
        )
    wdl = _pick(outputs, WDL_NAME, WDL_SIZE)
    single = [o for o in outputs if list(o.shape[1:]) in ([1], [])]
    moves_left = [o.name for o in single if any(word in o.name.lower() for word in MOVES_LEFT_WORDS)]
    value = None if wdl else _pick([o for o in single if o.name not in moves_left], VALUE_NAME, 1)
    if wdl is None and value is None:
        raise ValueRepairError(
            f"{path}: no value output, neither WDL [batch,{WDL_SIZE}] nor one scalar [batch,1] "
            f"(outputs: {_listed(outputs)}); {LC0_EXPORT}"
        )
    batch = planes.shape[0]
    return Tensors(
        planes=planes.name,
        policy=policy,
        wdl=wdl,
        value=value,
        mlh=moves_left[0] if len(moves_left) == 1 else None,
        dtype=DTYPES[planes.type],
        fixed_batch=batch if isinstance(batch, int) and batch > 0 else None,
    )


def _find_planes(inputs: Sequence[Any], path: Path) -> Any:
    fitting = [i for i in inputs if tuple(i.shape[1:]) == PLANES_SHAPE]
    if len(inputs) != 1 or len(fitting) != 1:
        raise ValueRepairError(
            f"{path}: is no lc0 net: one input of planes [batch,112,8,8] is needed, it has {_listed(inputs)}"
        )
    if fitting[0].type not in DTYPES:
        raise ValueRepairError(
            f"{path}: input {fitting[0].name} is {fitting[0].type}; only float32 and float16 nets can be run"
        )
    return fitting[0]


def _pick(outputs: Sequence[Any], name: str, size: int) -> str | None:
    """The output of that name, else the only one of shape [batch, size]; None when there is none or several."""
    fitting = [o.name for o in outputs if list(o.shape[1:]) == [size]]
    if name in fitting:
        return name
    return fitting[0] if len(fitting) == 1 else None


def _listed(tensors: Sequence[Any]) -> str:
    texts = (f"{t.name} [{','.join(str(size if size is not None else '?') for size in t.shape)}]" for t in tensors)
    return ", ".join(texts) or "none"
