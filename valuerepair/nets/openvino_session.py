"""A net run by OpenVINO on the CPU, behind the few methods of an onnxruntime.InferenceSession that are used here.

OpenVINO can round the inputs of sums to bfloat16 (sums themselves stay float32), for which processors with AMX have
matrix units. Without AMX bfloat16 is no faster than float32.
"""

from __future__ import annotations

import functools
import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from valuerepair.errors import ValueRepairError
from valuerepair.nets.devices import Precision

CPU_FLAGS = Path("/proc/cpuinfo")
TYPES = {"f32": "tensor(float)", "float": "tensor(float)", "f16": "tensor(float16)", "float16": "tensor(float16)"}
ROWS_STEP = 16  # steps from one power of two to the next but one


@dataclass(frozen=True, slots=True)
class TensorNamed:
    """A tensor as `nets.session.find_tensors` wants it: free dimensions of the shape are None."""

    name: str
    shape: tuple[int | None, ...]
    type: str


def version() -> str:
    """Of the package, empty where it is not installed; nothing is imported."""
    import importlib.metadata

    try:
        return importlib.metadata.version("openvino")
    except importlib.metadata.PackageNotFoundError:
        return ""


def why_no_openvino(precision: Precision) -> str | None:
    """Why OpenVINO does not compute in this precision on this machine; None where it does."""
    if not version():
        return "the package openvino is not installed"
    try:
        capabilities = [str(word) for word in _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")]
    except Exception as error:  # OpenVINO raises RuntimeError and classes of its own; a damaged package ImportError
        return reason_of(error)
    if precision == "bf16" and "BF16" not in capabilities:
        return "this processor has no bfloat16"
    return None


@functools.cache
def has_amx() -> bool | None:
    """Whether the processor has matrix units for bfloat16; None where it cannot be known (Linux tells)."""
    try:
        text = CPU_FLAGS.read_text()
    except OSError:
        return None
    flags = next((line for line in text.splitlines() if line.startswith("flags")), None)
    return None if flags is None else "amx_bf16" in flags.split()


def describe() -> str:
    """What OpenVINO computes here, and whether bfloat16 is of use: for a machine on which float32 runs."""
    if (reason := why_no_openvino("bf16")) is not None:
        return f"works at float32 (--device openvino:f32); {reason}"
    speed = {True: "with AMX: faster than CPU", False: "no AMX, so no faster than CPU", None: "AMX is not known"}
    return f"works, at bf16 too ({speed[has_amx()]})"


@functools.cache
def _core() -> Any:
    import openvino

    return openvino.Core()


def reason_of(error: Exception) -> str:
    """The last line of what OpenVINO says: those before it name its source files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(" .") if lines else type(error).__name__


class OpenVinoSession:
    """A compiled net. `run` may be called from several threads at once, `threads` of which are computed at a time."""

    def __init__(self, onnx: Path, precision: Precision, threads: int) -> None:
        """Each of `threads` streams has a core. Raises ValueRepairError where OpenVINO cannot take the file."""
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "NUM_STREAMS": str(threads),
            "INFERENCE_NUM_THREADS": threads,
            # Pinned streams of two processes would share the first cores and leave the others idle.
            "ENABLE_CPU_PINNING": False,
        }
        try:
            core = _core()
            self._net = core.compile_model(core.read_model(str(onnx)), "CPU", settings)
            used = str(self._net.get_property("INFERENCE_PRECISION_HINT"))
        except Exception as error:  # see why_no_openvino
            raise ValueRepairError(f"{onnx}: OpenVINO cannot load it: {reason_of(error)}") from None
        if precision == "bf16" and "bf" not in used:
            raise ValueRepairError(f"{onnx}: was to run at bf16 but OpenVINO took {used}; use --device cpu")
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def get_inputs(self) -> list[TensorNamed]:
        return [_named(port) for port in self._net.inputs]

    def get_outputs(self) -> list[TensorNamed]:
        return [_named(port) for port in self._net.outputs]

    def run(self, wanted: Sequence[str], fed: Mapping[str, Any], options: object = None) -> list[Any]:
        """The outputs of those names, new arrays; it knows no options of a run."""
        try:
            request = self._idle.get_nowait()
        except queue.Empty:
            request = self._net.create_infer_request()
        try:
            request.infer({name: np.ascontiguousarray(array) for name, array in fed.items()}, share_inputs=True)
            return [request.get_tensor(name).data.copy() for name in wanted]
        finally:
            self._idle.put(request)


def padded_rows(n: int) -> int:
    """How many rows are run for n: few different numbers, as OpenVINO keeps code of its own for each."""
    step = max(1, (1 << (n - 1).bit_length()) // ROWS_STEP)
    return -(-n // step) * step


def _named(port: Any) -> TensorNamed:
    shape = tuple(None if side.is_dynamic else side.get_length() for side in port.get_partial_shape())
    kind = str(port.get_element_type().get_type_name())
    return TensorNamed(port.get_any_name(), shape, TYPES.get(kind, kind))
