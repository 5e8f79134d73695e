"""What computes a net: the device and the precision, and whether it really runs here.

The reference is float32. In a store, values of another precision belong to another `variant` of the net.
`onnxruntime.get_available_providers()` lists what the package was built with. ONNX Runtime drops a provider whose
libraries are missing, with a warning, and computes on the CPU instead; so a small convolution must run on it alone.
This module imports little, because every command loads it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from valuerepair.errors import UsageError, ValueRepairError

log = logging.getLogger(__name__)

Precision = Literal["f32", "f16"]

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
NAMES = {CPU: "CPU", CUDA: "CUDA"}


@dataclass(frozen=True, slots=True)
class Device:
    """What computes a net: an ONNX Runtime provider, and the precision of the numbers that it multiplies."""

    provider: str
    precision: Precision = "f32"

    @property
    def word(self) -> str:
        """The value of ``--device`` for this device."""
        plain = NAMES[self.provider].lower()
        return plain if self.precision == "f32" else f"{plain}:{self.precision}"

    @property
    def variant(self) -> str:
        """The suffix that distinguishes its values from those of float32: empty or ``-f16``."""
        return "" if self.precision == "f32" else f"-{self.precision}"

    @property
    def name(self) -> str:
        """For a user: ``CPU``, ``CUDA at f16``."""
        return NAMES[self.provider] + ("" if self.precision == "f32" else f" at {self.precision}")


ON_CPU = Device(CPU)
BY_WORD = {"cpu": ON_CPU, "cuda": Device(CUDA), "cuda:f16": Device(CUDA, "f16")}
DEVICES = ("auto", *BY_WORD)
# The devices that compute at float32.
REFERENCE_DEVICES = ("auto", "cpu", "cuda")


def split_key(key: str) -> tuple[str, str]:
    """(SHA-256 of a net, variant of its values) from the key of these values in a store."""
    sha256, dash, variant = key.partition("-")
    return sha256, dash + variant


def device_of(variant: str) -> str | None:
    """The ``--device`` that computes values of this variant; None for float32, which every device computes."""
    return "cuda:f16" if variant.endswith("f16") else None


# What to do about a provider that does not run.
REMEDIES = {
    CPU: "pip install --force-reinstall onnxruntime",
    CUDA: "install NVIDIA's driver and `pip install 'valuerepair[gpu]'`, or use --device cpu",
}
QUIET, FATAL = 3, 4  # ONNX Runtime's severities: errors and worse; fatal errors only


def choose_device(word: str) -> Device:
    """The device for a value of ``--device``.

    ``auto`` is CUDA if it really runs, otherwise the CPU, both at float32: the machine must not change the meaning of
    values. Raises UsageError for another word, and ValueRepairError if a device chosen by name does not run; there is
    no silent fallback.
    """
    if word not in DEVICES:
        raise UsageError(f"--device {word!r}: must be one of {', '.join(DEVICES)}")
    if word == "auto":
        reason = why_not(CUDA)
        log.debug("--device auto: %s", "CUDA" if reason is None else f"the CPU, as CUDA cannot be used: {reason}")
        return Device(CUDA if reason is None else CPU)
    device = BY_WORD[word]
    if device.provider != CPU and (reason := why_not(device.provider)):
        name = NAMES[device.provider]
        raise ValueRepairError(f"--device {word}: {name} cannot be used: {reason}; {REMEDIES[device.provider]}")
    return device


@functools.cache
def why_not(provider: str) -> str | None:
    """Why a provider does not run here, in ONNX Runtime's own words; None if it computed the canary correctly."""
    import numpy as np
    import onnxruntime

    from valuerepair.nets import protobuf

    if provider not in onnxruntime.get_available_providers():
        return f"the installed onnxruntime {onnxruntime.__version__} is built without it"
    preload_libraries(provider)
    options = quiet_options(1)
    options.log_severity_level = FATAL  # the reason is returned
    if provider != CPU:
        # Otherwise the CPU silently computes nodes that the provider does not support.
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    image, kernel = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3), np.ones((1, 1, 3, 3), np.float32)
    node = ("Conv", ["image", "ones"], ["sum"])
    model = protobuf.model({"image": (1, 1, 3, 3)}, {"sum": (1, 1, 1, 1)}, [node], {"ones": kernel})
    try:
        session = new_session(model, options, [provider])
        if session.get_providers()[0] != provider:
            return "its libraries do not load"
        (answer,) = session.run(None, {"image": image})
    except Exception as error:  # ONNX Runtime raises a dozen classes for this
        return first_line(error)
    # A 3x3 convolution of ones over 0..8 is their sum.
    return None if np.array_equal(answer, [[[[36.0]]]]) else f"it computes wrongly ({np.ravel(answer)[:1]})"


def preload_libraries(provider: str) -> None:
    """Loads CUDA and cuDNN from their pip packages, which are on no library path (ONNX Runtime 1.21 and later)."""
    import onnxruntime

    if provider != CPU and hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it cannot load
            onnxruntime.preload_dlls()


def new_session(model: str | bytes, options: Any, providers: Sequence[str | tuple[str, dict[str, str]]]) -> Any:
    """An onnxruntime.InferenceSession of a file or of bytes.

    ONNX Runtime warns when it drops a provider, and continues. The callers check the session's provider and raise, so
    the warning is suppressed. So are the errors of algorithms that it tries but can do without, such as some of cuDNN's
    for float16.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(FATAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return onnxruntime.InferenceSession(model, options, providers=providers)


def quiet_options(threads: int) -> Any:
    """Session options: `threads` threads inside an operator, errors only on standard error."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    return options


def run_options() -> Any:
    """Options of one run; setting their `terminate` ends it soon."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.log_severity_level = FATAL
    return options


def provider_list(provider: str) -> Sequence[str | tuple[str, dict[str, str]]]:
    """The providers for a session: this one, and the CPU for operators that it does not support."""
    if provider == CPU:
        return [CPU]
    # By default cards since Ampere round the inputs of float32 products to 10 bits (TF32), and ONNX Runtime tries all
    # algorithms of cuDNN, which takes five times as long as cuDNN's own choice and finds no faster algorithm.
    return [(CUDA, {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}), CPU]


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, for a one-line message."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(" .") if lines else type(error).__name__


def usable_cores() -> int:
    """Cores this process may use: its affinity, cut by a container's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no control group, or the quota is "max"
    return cores
