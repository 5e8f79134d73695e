"""An ONNX Runtime session of a net.

On the CPU every thread runs a batch of its own through a session of one thread. Encoding, net and priors of different
batches then overlap without competing for cores, and batches stay in the second-level cache. On a GPU a few such
streams keep the device busy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.nets.devices import (
    CPU,
    NAMES,
    ON_CPU,
    Device,
    first_line,
    new_session,
    preload_libraries,
    provider_list,
    quiet_options,
    run_options,
)
from valuerepair.nets.planes import PLANES_SHAPE
from valuerepair.nets.policy import POLICY_SIZE

log = logging.getLogger(__name__)
CPU_BATCH = 64
GPU_BATCHES = (8, 64, 512)  # fewer rows are padded to the next of these
GPU_STREAMS = 3
# The tensors of lc0's own exports, with the number of values of an output for a position.
PLANES_NAME, POLICY_NAME, WDL_NAME = "/input/planes", "/output/policy", "/output/wdl"
VALUE_NAME, MOVES_LEFT_NAME = "/output/value", "/output/mlh"
OUTPUTS = {POLICY_NAME: POLICY_SIZE, WDL_NAME: 3, VALUE_NAME: 1, MOVES_LEFT_NAME: 1}
DTYPES: dict[str, type[np.float32] | type[np.float16]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
FIRST_ANSWER_S = 60.0  # for one position; the largest nets of lc0 take two seconds on one core


@dataclass(frozen=True, slots=True)
class RawOutputs:
    """The outputs of the net for n rows, before any interpretation; all from the side to move.

    `policy` float32[n, 1858] logits in lc0's order; `wdl` float32[n, 3] probabilities of win, draw, loss, or None;
    `value` float32[n] in [-1, 1], or None; `mlh` float32[n] plies left, or None.
    """

    policy: NDArray[np.float32]
    wdl: NDArray[np.float32] | None
    value: NDArray[np.float32] | None
    mlh: NDArray[np.float32] | None

    @property
    def q(self) -> NDArray[np.float32]:
        """W - L (lc0 src/neural/backend.h), or the scalar head itself."""
        if self.wdl is not None:
            return self.wdl[:, 0] - self.wdl[:, 2]
        assert self.value is not None, "find_tensors refuses nets without a value"
        return self.value


def load(onnx: Path, provider: str) -> Any:
    """An onnxruntime.InferenceSession of the file that really runs on the provider. Raises ValueRepairError."""
    preload_libraries(provider)
    try:
        session = new_session(str(onnx), quiet_options(1), provider_list(provider))
    except Exception as error:  # ONNX Runtime raises a dozen classes for this
        raise ValueRepairError(f"{onnx}: ONNX Runtime cannot load it: {first_line(error)}") from None
    if (first := session.get_providers()[0]) != provider:
        raise ValueRepairError(
            f"{onnx}: was to run on {NAMES[provider]} but ONNX Runtime fell back to {NAMES.get(first, first)}; "
            "see `vr doctor`, or use --device cpu"
        )
    return session


class Session:
    """A net ready to run on one device. `run` may be called from several threads at once.

    `batch_size` is the rows of a stream's batch, `heads` the names of the net's outputs that are read, `dtype` the
    element type of its input.
    """

    def __init__(self, onnx: Path, device: Device = ON_CPU, threads: int = 1) -> None:
        self.onnx, self.device, self.threads = onnx, device, threads
        self.batch_size = CPU_BATCH if self.on_cpu else GPU_BATCHES[-1]
        self.streams = threads if self.on_cpu else min(threads, GPU_STREAMS)
        self._sessions, self._loading = dict[int, Any](), threading.Lock()
        log.debug("%s on %s, threads %d, streams %d", onnx, device.provider, threads, self.streams)
        self.heads, self.dtype = find_tensors(self._session(GPU_BATCHES[0]), onnx)
        self._check_answer()

    @property
    def on_cpu(self) -> bool:
        """Whether the CPU computes the net, so that each stream keeps a core busy."""
        return self.device.provider == CPU

    def run(self, planes: NDArray[np.float32], options: Any = None) -> RawOutputs:
        """One batch through the net; planes float32[n, 112, 8, 8], `options` as of `run_options`."""
        n, most = len(planes), self.batch_size
        if n > most and not self.on_cpu:
            return join_outputs([self.run(planes[i : i + most], options) for i in range(0, n, most)])
        rows = n if self.on_cpu else next((size for size in GPU_BATCHES if n <= size < most), most)
        if rows > n:
            planes = np.concatenate([planes, np.zeros((rows - n, *PLANES_SHAPE), planes.dtype)])
        feed = {PLANES_NAME: planes.astype(self.dtype, copy=False)}
        return self._read(self._session(rows).run(self.heads, feed, options), n)

    def _session(self, rows: int) -> Any:
        """ONNX Runtime's session for batches of this size; on CUDA each size has its own, loaded at its first run.

        There a session keeps cuDNN's plans for the latest batch size only, and makes new ones for another size: 0.05 s
        for a net of six blocks, fifty times what the batch takes (Conv<T>::UpdateState in ONNX Runtime's conv.cc).
        """
        size = 0 if self.on_cpu else rows
        with self._loading:
            if size not in self._sessions:
                self._sessions[size] = load(self.onnx, self.device.provider)
            return self._sessions[size]

    def _read(self, answers: Sequence[Any], n: int) -> RawOutputs:
        """The first n rows of ONNX Runtime's answers, in the order of `heads`.

        Raises ValueRepairError for rows of another shape, and for NaN or infinite values.
        """
        columns: dict[str, NDArray[np.float32]] = {}
        for name, answer in zip(self.heads, answers, strict=True):
            shape, size = np.shape(answer), OUTPUTS[name]
            if not shape or shape[0] < n or prod(shape[1:]) != size:
                raise ValueRepairError(f"{self.onnx}: output {name} is {list(shape)}, not {[n, size]}")
            column = np.asarray(answer[:n], np.float32).reshape(n, size)
            if not np.isfinite(column).all():
                half = "; its values are too large for half precision" if self.device.precision == "f16" else ""
                raise ValueRepairError(
                    f"{self.onnx}: output {name} is not a number (NaN or infinite) for a position{half}"
                )
            columns[name] = column if size > 1 else column[:, 0]
        return RawOutputs(
            columns[POLICY_NAME], columns.get(WDL_NAME), columns.get(VALUE_NAME), columns.get(MOVES_LEFT_NAME)
        )

    def _check_answer(self) -> None:
        """Runs the net once on an empty board, to find wrong heads by impossible sums or ranges.

        Ends the run after `FIRST_ANSWER_S`, because a file may have an endless loop.
        """
        options = run_options()
        timer = threading.Timer(FIRST_ANSWER_S, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            answer = self.run(np.zeros((1, *PLANES_SHAPE), np.float32), options)
        except ValueRepairError:
            raise
        except Exception as error:  # ONNX Runtime raises a dozen classes for this
            reason = f"gives no answer in {FIRST_ANSWER_S:g} s" if options.terminate else first_line(error)
            raise ValueRepairError(f"{self.onnx}: ONNX Runtime cannot run it: {reason}") from None
        finally:
            timer.cancel()
        wdl, value = answer.wdl, answer.value
        if wdl is not None and not (np.all(wdl >= -1e-3) and abs(float(wdl.sum()) - 1) < 1e-2):
            raise ValueRepairError(f"{self.onnx}: gives no probabilities of W/D/L (they sum to {wdl.sum():.3g})")
        if value is not None and not abs(float(value[0])) <= 1.001:
            raise ValueRepairError(f"{self.onnx}: gives no value in [-1, 1] ({value[0]:.3g})")


def join_outputs(parts: list[RawOutputs]) -> RawOutputs:
    """The rows of all parts, in order."""

    def column(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    return RawOutputs(column("policy"), column("wdl"), column("value"), column("mlh"))


def find_tensors(session: Any, path: Path) -> tuple[list[str], type[np.float32] | type[np.float16]]:
    """The names of the outputs to read of an onnxruntime.InferenceSession, and the element type of its input.

    Raises ValueRepairError if it is no lc0 net for any batch size.
    """
    inputs, outputs = session.get_inputs(), session.get_outputs()
    names = {o.name for o in outputs if OUTPUTS.get(o.name) == prod(n for n in o.shape[1:] if isinstance(n, int))}
    is_net = (
        [part.name for part in inputs] == [PLANES_NAME]
        and tuple(inputs[0].shape[1:]) == PLANES_SHAPE
        and not isinstance(inputs[0].shape[0], int)
        and inputs[0].type in DTYPES
        and POLICY_NAME in names
        and bool({WDL_NAME, VALUE_NAME} & names)
    )
    if not is_net:
        raise ValueRepairError(
            f"{path}: is not an lc0 net as `lc0 leela2onnx` writes it for any batch size; its inputs are "
            f"{_listed(inputs)}, its outputs {_listed(outputs)}"
        )
    if WDL_NAME in names:
        names.discard(VALUE_NAME)
    return [name for name in OUTPUTS if name in names], DTYPES[inputs[0].type]


def _listed(tensors: Sequence[Any]) -> str:
    texts = (f"{t.name} [{','.join(str(size if size is not None else '?') for size in t.shape)}]" for t in tensors)
    return ", ".join(texts) or "none"
