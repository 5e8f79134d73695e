"""An ONNX Runtime session of a net.

On the CPU every thread runs a batch of its own through a session of one thread. Encoding, net and priors of different
batches then overlap without competing for cores, and batches stay in the second-level cache. On a GPU a few such
streams keep the device busy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.nets.devices import (
    CPU,
    CUDA,
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
Number = TypeVar("Number", bound=np.generic)
CPU_BATCH = 64
GPU_BATCHES = (8, 64, 512)  # fewer rows are padded to the next of these
GPU_STREAMS = 3
WDL_SIZE = 3
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


def load(onnx: Path, device: Device) -> Any:
    """Loads a file on a device; the result has the methods of an onnxruntime.InferenceSession that we use.

    Raises ValueRepairError.
    """
    load_one = partial(_load, onnx, device.provider)
    return _SessionsBySize(load_one) if device.provider == CUDA else load_one()


def _load(onnx: Path, provider: str) -> Any:
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


class _SessionsBySize:
    """ONNX Runtime's sessions of one file on CUDA, one for each number of rows, loaded at its first run.

    A session keeps cuDNN's plans for the latest batch size only, and makes new ones for another size: 0.05 s for a
    net of six blocks, fifty times what the batch takes (Conv<T>::UpdateState in ONNX Runtime's conv.cc).
    """

    def __init__(self, load_one: Callable[[], Any]) -> None:
        self._load_one, self._first = load_one, load_one()
        self._by_rows: dict[int, Any] = {}
        self._loading = threading.Lock()

    def get_inputs(self) -> Any:
        return self._first.get_inputs()

    def get_outputs(self) -> Any:
        return self._first.get_outputs()

    def get_providers(self) -> Any:
        return self._first.get_providers()

    def run(self, outputs: Sequence[str], feed: Mapping[str, Any], options: Any = None) -> Any:
        """As InferenceSession.run. May be called from several threads at once. Raises ValueRepairError, too."""
        rows = len(next(iter(feed.values())))
        with self._loading:
            if rows not in self._by_rows:
                self._by_rows[rows] = self._load_one() if self._by_rows else self._first
            session = self._by_rows[rows]
        return session.run(outputs, feed, options)


class Session:
    """A net ready to run on one device. `run` may be called from several threads at once.

    `batch_size` is the rows of a stream's batch.
    """

    def __init__(self, onnx: Path, device: Device = ON_CPU, threads: int = 1) -> None:
        self.onnx, self.device, self.threads = onnx, device, threads
        self.batch_size = CPU_BATCH if self.on_cpu else GPU_BATCHES[-1]
        self.streams = threads if self.on_cpu else min(threads, GPU_STREAMS)
        self._session = load(onnx, device)
        log.debug("%s on %s, threads %d, streams %d", onnx, device.provider, threads, self.streams)
        self.tensors = find_tensors(self._session, onnx)
        self.wanted = [n for n in (self.tensors.policy, self.tensors.wdl, self.tensors.value, self.tensors.mlh) if n]
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
        full = n if self.on_cpu else next((size for size in GPU_BATCHES if n <= size < most), most)
        feed = {self.tensors.planes: padded(planes, full).astype(self.tensors.dtype, copy=False)}
        return self._read(self._session.run(self.wanted, feed, options), n)

    def _read(self, answers: Sequence[Any], n: int) -> RawOutputs:
        """The first n rows of ONNX Runtime's answers, in the order of `wanted`.

        Raises ValueRepairError for rows of another shape, and for NaN or infinite values.
        """
        tensors = self.tensors
        sizes = {tensors.policy: POLICY_SIZE, tensors.wdl: WDL_SIZE, tensors.value: 1, tensors.mlh: 1}
        columns: dict[str | None, NDArray[np.float32]] = {}
        for name, answer in zip(self.wanted, answers, strict=True):
            shape = np.shape(answer)
            if not shape or shape[0] < n or prod(shape[1:]) != sizes[name]:
                raise ValueRepairError(f"{self.onnx}: output {name} is {list(shape)}, not {[n, sizes[name]]}")
            column = np.asarray(answer[:n], np.float32).reshape(n, sizes[name])
            if not np.isfinite(column).all():
                half = "; its values are too large for half precision" if self.device.precision == "f16" else ""
                raise ValueRepairError(
                    f"{self.onnx}: output {name} is not a number (NaN or infinite) for a position{half}"
                )
            columns[name] = column
        value, moves_left = columns.get(tensors.value), columns.get(tensors.mlh)
        return RawOutputs(
            columns[tensors.policy],
            columns.get(tensors.wdl),
            None if value is None else value[:, 0],
            None if moves_left is None else moves_left[:, 0],
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
            raise ValueRepairError(
                f"{self.onnx}: output {self.tensors.wdl} gives no probabilities (they sum to {wdl.sum():.3g})"
            )
        if value is not None and not abs(float(value[0])) <= 1.001:
            raise ValueRepairError(
                f"{self.onnx}: output {self.tensors.value} is not a value in [-1, 1] ({value[0]:.3g})"
            )


def padded(rows: NDArray[Number], full: int) -> NDArray[Number]:
    """The rows, padded with zeros to `full` rows."""
    missing = full - len(rows)
    return np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)]) if missing else rows


def join_outputs(parts: list[RawOutputs]) -> RawOutputs:
    """The rows of all parts, in order."""

    def column(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    return RawOutputs(column("policy"), column("wdl"), column("value"), column("mlh"))


PLANES_NAME, POLICY_NAME, WDL_NAME = "/input/planes", "/output/policy", "/output/wdl"
VALUE_NAME, MOVES_LEFT_NAME = "/output/value", "/output/mlh"
DTYPES: dict[str, type[np.float32] | type[np.float16]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


@dataclass(frozen=True, slots=True)
class Tensors:
    """The names of the tensors, as ``lc0 leela2onnx`` gives them, and the element type of the input."""

    planes: str
    policy: str
    wdl: str | None
    value: str | None
    mlh: str | None
    dtype: type[np.float32] | type[np.float16]


def find_tensors(session: Any, path: Path) -> Tensors:
    """The tensors of an onnxruntime.InferenceSession. Raises ValueRepairError if it is no lc0 net of any batch size."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    sizes = {POLICY_NAME: POLICY_SIZE, WDL_NAME: WDL_SIZE, VALUE_NAME: 1, MOVES_LEFT_NAME: 1}
    names = {o.name for o in outputs if sizes.get(o.name) == prod(n for n in o.shape[1:] if isinstance(n, int))}
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
    wdl = WDL_NAME if WDL_NAME in names else None
    value = VALUE_NAME if wdl is None else None
    mlh = MOVES_LEFT_NAME if MOVES_LEFT_NAME in names else None
    return Tensors(PLANES_NAME, POLICY_NAME, wdl, value, mlh, DTYPES[inputs[0].type])


def _listed(tensors: Sequence[Any]) -> str:
    texts = (f"{t.name} [{','.join(str(size if size is not None else '?') for size in t.shape)}]" for t in tensors)
    return ", ".join(texts) or "none"
