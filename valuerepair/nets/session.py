"""An ONNX Runtime session: finds its tensors by name or shape, and measures its best batch size once.

On the CPU every thread runs a batch of its own through a session of one thread. Encoding, net and priors of different
batches then overlap without competing for cores, and batches stay in the second-level cache. On a GPU a few such
streams keep the device busy.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.files import cache_folder, written_whole
from valuerepair.inputs import Record, read_json
from valuerepair.nets.options import CPU, CUDA, NAMES, ON_CPU, Device
from valuerepair.nets.planes import PLANES_SHAPE
from valuerepair.nets.policy import POLICY_SIZE
from valuerepair.nets.providers import (
    first_line,
    new_session,
    preload_libraries,
    provider_list,
    quiet_options,
    run_options,
)

log = logging.getLogger(__name__)
Number = TypeVar("Number", bound=np.generic)
DEFAULT_CPU_BATCH, DEFAULT_GPU_BATCH = 64, 512
CPU_BATCHES = (16, 32, 64, 128, 256)
GPU_BATCHES = (8, 64, DEFAULT_GPU_BATCH, 2048)
GPU_STREAMS = 3
TUNE_S = 0.25  # measured time per batch size
TUNE_STOP_S = 4.0  # no batch that would take longer is tried, with a large net on a small machine
WDL_SIZE = 3
FIRST_ANSWER_S = 60.0  # for one position; the largest nets of lc0 take two seconds on one core
GOOD_ENOUGH = 0.97  # the largest batch with at least this share of the best rate is used: fewer runs


class _Tuning(Record):
    """The best batch size, the rows a second of each size, and the version of ONNX Runtime."""

    batch: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
    rates: dict[int, float]
    onnxruntime: str


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


def load(onnx: Path, device: Device, sha256: str) -> Any:
    """Loads a file on a device; the result has the methods of an onnxruntime.InferenceSession that we use.

    Raises ValueRepairError.
    """
    load_one = partial(_load, onnx, device, sha256)
    return _SessionsBySize(load_one) if device.provider == CUDA else load_one()


def _load(onnx: Path, device: Device, sha256: str) -> Any:
    """An onnxruntime.InferenceSession of the file that really runs on the device. Raises ValueRepairError."""
    provider = device.provider
    preload_libraries(provider)
    try:
        session = new_session(str(onnx), quiet_options(1), provider_list(device, sha256))
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
    """A net ready to run on one device. `run` may be called from several threads at once."""

    def __init__(self, onnx: Path, sha256: str, device: Device = ON_CPU, threads: int = 1, variant: str = "") -> None:
        """`sha256` is that of the net's file, `variant` that of its heads and device: see `net.NetIdentity`."""
        self.onnx, self.sha256, self.device, self.threads, self.variant = onnx, sha256, device, threads, variant
        self._batch: int | None = None
        self.streams = threads if self.on_cpu else min(threads, GPU_STREAMS)
        self._session = load(onnx, device, sha256)
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
        n = len(planes)
        full = self.full_rows(n)
        if n > full:
            return join_outputs([self.run(planes[i : i + full], options) for i in range(0, n, full)])
        return self.read(self._plain_run(padded(planes, full), options), n)

    def full_rows(self, n: int) -> int:
        """The number of rows that n rows are padded to: some files fix it, and on a GPU each new number costs time.

        TensorRT builds an engine for each number of rows, and CUDA has a session for each.
        """
        if self.tensors.fixed_batch:
            return self.tensors.fixed_batch
        if self.on_cpu:
            return n
        sizes = GPU_BATCHES if self.device.provider == CUDA else ()
        return next((size for size in sizes if n <= size < self.batch_size), self.batch_size)

    def read(self, answers: Sequence[Any], n: int, moves: int = POLICY_SIZE) -> RawOutputs:
        """The first n rows of ONNX Runtime's answers, in the order of `wanted`; the policy has `moves` columns.

        Raises ValueRepairError for rows of another shape, and for NaN or infinite values.
        """
        tensors = self.tensors
        sizes = {tensors.policy: moves, tensors.wdl: WDL_SIZE, tensors.value: 1, tensors.mlh: 1}
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

    @property
    def batch_size(self) -> int:
        """The rows of a stream's batch: fixed by the file, measured earlier, or a cautious default."""
        if self.tensors.fixed_batch:
            return self.tensors.fixed_batch
        return self._batch or (DEFAULT_CPU_BATCH if self.on_cpu else DEFAULT_GPU_BATCH)

    def set_batch(self, batch: int) -> None:
        """Uses this batch size instead of a measured one."""
        self._batch = batch

    def tune(self) -> None:
        """Measures the best batch size once for a net, device and number of threads; later reads it from the cache."""
        if self.tensors.fixed_batch or self._batch:
            return
        import onnxruntime

        version, word = str(onnxruntime.__version__), self.device.word.replace(":", "-")
        path = cache_folder("tuning") / f"{self.sha256[:32]}{self.variant}-{word}-{self.threads}.json"
        with suppress(OSError, ValueRepairError):  # not measured yet, or the file has another form
            tuning = read_json(path, _Tuning, "a batch size that was measured")
            if tuning.onnxruntime == version:
                self._batch = tuning.batch
                log.debug("batches of %d, as measured before: %s", self._batch, path)
                return
        log.info("measuring the best batch size; this is done once for this net and device")
        rates = self.measure(CPU_BATCHES if self.on_cpu else GPU_BATCHES)
        best = max(rates.values())
        self._batch = max(batch for batch, rate in rates.items() if rate >= GOOD_ENOUGH * best)
        with written_whole(path) as temporary:
            temporary.write_bytes(msgspec.json.encode(_Tuning(self._batch, rates, version)))
        log.debug("batches of %d, measured now: %s", self._batch, path)

    def measure(self, batches: tuple[int, ...]) -> dict[int, float]:
        """Rows a second for each batch size with all streams busy, in the better of two rounds.

        A size that fails, for lack of memory perhaps, ends the round. Raises ValueRepairError if the smallest fails.
        """
        rates: dict[int, float] = {}
        with ThreadPoolExecutor(self.streams) as pool:
            for _ in range(2):
                for batch in batches:
                    try:
                        rate, slowest = self._rate(pool, batch)
                    except Exception as error:  # ONNX Runtime raises a dozen classes for this
                        if batch == batches[0]:
                            raise ValueRepairError(f"{self.onnx}: cannot be run: {first_line(error)}") from None
                        log.debug("no batches of %d: %s", batch, first_line(error))
                        rates = {size: rate for size, rate in rates.items() if size < batch}
                        break
                    rates[batch] = max(rate, rates.get(batch, 0.0))
                    if slowest > TUNE_STOP_S / 2:
                        break
        return rates

    def _rate(self, pool: ThreadPoolExecutor, batch: int) -> tuple[float, float]:
        """(rows a second over all streams, seconds of the slowest batch)."""
        planes = np.random.default_rng(batch).integers(0, 2, (batch, *PLANES_SHAPE)).astype(np.float32)
        gate = threading.Barrier(self.streams)

        def work() -> tuple[int, float, float]:
            try:
                self._plain_run(planes)
            except BaseException:
                gate.abort()  # otherwise the other streams wait forever
                raise
            gate.wait()
            start, count, slowest = time.perf_counter(), 0, 0.0
            while (elapsed := time.perf_counter() - start) < TUNE_S:
                self._plain_run(planes)
                count += batch
                slowest = max(slowest, time.perf_counter() - start - elapsed)
            return count, time.perf_counter() - start, slowest

        streams = [pool.submit(work) for _ in range(self.streams)]
        for error in filter(None, [stream.exception() for stream in streams]):
            if not isinstance(error, threading.BrokenBarrierError):
                raise error
        results = [stream.result() for stream in streams]
        return sum(count / seconds for count, seconds, _ in results), max(slowest for *_, slowest in results)

    def _plain_run(self, planes: NDArray[np.float32], options: Any = None) -> Any:
        feed = {self.tensors.planes: planes.astype(self.tensors.dtype, copy=False)}
        return self._session.run(self.wanted, feed, options)


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
MOVES_LEFT_WORDS = ("mlh", "moves_left", "movesleft", "moves-left")
DTYPES: dict[str, type[np.float32] | type[np.float16]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
MOST_FIXED = 4096  # rows of a batch fixed by the file: every run needs memory for all of them
LC0_EXPORT = "an ONNX net as `lc0 leela2onnx` writes it is needed"


@dataclass(frozen=True, slots=True)
class Tensors:
    """Names of the tensors, the element types of input and policy, and the batch size where the file fixes one."""

    planes: str
    policy: str
    wdl: str | None
    value: str | None
    mlh: str | None
    dtype: type[np.float32] | type[np.float16]
    policy_dtype: type[np.float32] | type[np.float16]
    fixed_batch: int | None


def find_tensors(session: Any, path: Path) -> Tensors:
    """The tensors of an onnxruntime.InferenceSession. Raises ValueRepairError if it is not an lc0 net."""
    planes = _find_planes(session.get_inputs(), path)
    outputs = session.get_outputs()
    policy = _pick_output(outputs, POLICY_NAME, POLICY_SIZE)
    if policy is None:
        raise ValueRepairError(
            f"{path}: no policy output [batch,{POLICY_SIZE}] (outputs: {_listed(outputs)}); {LC0_EXPORT}"
        )
    wdl = _pick_output(outputs, WDL_NAME, WDL_SIZE)
    single = [o for o in outputs if list(o.shape[1:]) in ([1], [])]
    moves_left = [o.name for o in single if any(word in o.name.lower() for word in MOVES_LEFT_WORDS)]
    value = None if wdl else _pick_output([o for o in single if o.name not in moves_left], VALUE_NAME, 1)
    if wdl is None and value is None:
        raise ValueRepairError(
            f"{path}: no value output, neither WDL [batch,{WDL_SIZE}] nor one scalar [batch,1] "
            f"(outputs: {_listed(outputs)}); {LC0_EXPORT}"
        )
    batch = planes.shape[0]
    if isinstance(batch, int) and batch > MOST_FIXED:
        raise ValueRepairError(f"{path}: runs {batch:,} positions at once, more than {MOST_FIXED:,}; {LC0_EXPORT}")
    return Tensors(
        planes=planes.name,
        policy=policy,
        wdl=wdl,
        value=value,
        mlh=moves_left[0] if len(moves_left) == 1 else None,
        dtype=DTYPES[planes.type],
        policy_dtype=next(DTYPES.get(output.type, np.float32) for output in outputs if output.name == policy),
        fixed_batch=batch if isinstance(batch, int) and batch > 0 else None,
    )


def _find_planes(inputs: Sequence[Any], path: Path) -> Any:
    fitting = [i for i in inputs if tuple(i.shape[1:]) == PLANES_SHAPE]
    if len(inputs) != 1 or len(fitting) != 1:
        raise ValueRepairError(
            f"{path}: is not an lc0 net: one input of planes [batch,112,8,8] is needed, it has {_listed(inputs)}"
        )
    if fitting[0].type not in DTYPES:
        raise ValueRepairError(
            f"{path}: input {fitting[0].name} is {fitting[0].type}; only float32 and float16 nets can be run"
        )
    return fitting[0]


def _pick_output(outputs: Sequence[Any], name: str, size: int) -> str | None:
    """The output with this name, else the only one of shape [batch, size]; None if no output or several outputs fit."""
    fitting = [o.name for o in outputs if list(o.shape[1:]) == [size]]
    if name in fitting:
        return name
    return fitting[0] if len(fitting) == 1 else None


def _listed(tensors: Sequence[Any]) -> str:
    texts = (f"{t.name} [{','.join(str(size if size is not None else '?') for size in t.shape)}]" for t in tensors)
    return ", ".join(texts) or "none"
