"""The devices that really run here: each must compute a small convolution, the canary.

`onnxruntime.get_available_providers()` lists what the package was built with. ONNX Runtime drops a provider whose
libraries are missing, with a warning, and computes on the CPU instead; the canary runs on one provider alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import cache_folder
from valuerepair.nets import onnx_model
from valuerepair.nets.options import BY_WORD, CPU, CUDA, DEVICES, NAMES, TENSORRT, Device, Precision

_REMEDY = {
    CUDA: ("install it with `pip install 'valuerepair[gpu]'`", "use --device cpu"),
    TENSORRT: ("install onnxruntime-gpu and TensorRT (`pip install tensorrt`)", "use --device cuda or cpu"),
}
# The oldest driver for all CUDA of a major version, by
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
_DRIVERS = {12: 525, 13: 580}
log = logging.getLogger(__name__)
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
        name, remedy = NAMES[device.provider], f"{install_advice(device.provider)}, or {_REMEDY[device.provider][1]}"
        raise ValueRepairError(f"--device {word}: {name} cannot be used: {reason}; {remedy}")
    return device


@functools.cache
def why_not(provider: str) -> str | None:
    """Why a provider does not run here; None if it computed the canary correctly."""
    import onnxruntime

    if provider not in onnxruntime.get_available_providers():
        return f"the installed onnxruntime {onnxruntime.__version__} is built without it"
    if provider != CPU and (reason := why_no_driver()) is not None:
        return reason
    preload_libraries(provider)
    options = quiet_options(1)
    if provider != CPU:
        # Otherwise the CPU silently computes nodes that the provider does not support.
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    image = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    try:
        session = new_session(_canary(), options, [provider])
        if session.get_providers()[0] != provider:
            return "its libraries do not load"
        (answer,) = session.run(None, {"image": image})
    except Exception as error:  # ONNX Runtime raises a dozen classes for this
        return first_line(error)
    # A 3x3 convolution of ones over 0..8 is their sum.
    return None if np.array_equal(answer, [[[[36.0]]]]) else f"it computes wrongly ({np.ravel(answer)[:1]})"


def install_advice(provider: str) -> str:
    """How the user can make a provider run here; about the driver, if that is the problem."""
    if provider in (CUDA, TENSORRT) and why_no_driver() is not None:
        cuda = _runtime_cuda()
        extra = "" if _has_cuda_libraries(cuda) else ", and run `pip install 'valuerepair[gpu]'`"
        return f"install NVIDIA's driver, {_needed(cuda)}, if this machine has an NVIDIA GPU{extra}"
    return _REMEDY.get(provider, ("pip install --force-reinstall onnxruntime", ""))[0]


def why_no_driver() -> str | None:
    """What is wrong with the NVIDIA driver; None if it fits the installed ONNX Runtime.

    Check this first: without a driver ONNX Runtime fills standard error with the libraries it cannot load.
    """
    version, needed = _driver_cuda(), _runtime_cuda()
    if version is None:
        return "there is no NVIDIA driver on this machine"
    if version < 1000 * needed:
        text = f"{version // 1000}.{version % 1000 // 10}"
        return f"the NVIDIA driver is of CUDA {text}; the installed onnxruntime needs one {_needed(needed)}"
    return None


def _driver_cuda() -> int | None:
    """The newest CUDA that the driver supports, by its `cuDriverGetVersion` (13000 is 13.0); None without a driver."""
    version = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        driver.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return version.value


def _runtime_cuda() -> int:
    """The major version of the CUDA that ONNX Runtime was built with."""
    import onnxruntime

    return int(str(getattr(onnxruntime, "cuda_version", "")).partition(".")[0] or 0)


def _needed(cuda: int) -> str:
    return f"{_DRIVERS[cuda]} or later (for CUDA {cuda})" if cuda in _DRIVERS else f"for CUDA {cuda}"


def _has_cuda_libraries(cuda: int) -> bool:
    """Whether the extra's largest package is installed. CUDA may also come from elsewhere; the canary will tell."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(f"nvidia-cudnn-cu{cuda}"))
    return False


def _canary() -> bytes:
    kernel = {"ones": np.ones((1, 1, 3, 3), np.float32)}
    node = ("Conv", ["image", "ones"], ["sum"])
    return onnx_model.model({"image": (1, 1, 3, 3)}, {"sum": (1, 1, 1, 1)}, [node], kernel)


def preload_libraries(provider: str) -> None:
    """Loads CUDA and cuDNN from their pip packages, which are on no library path (ONNX Runtime 1.21 and later).

    TensorRT rounds the inputs of float32 products to 10 bits (TF32) unless NVIDIA's environment variable, read when its
    libraries load, forbids it; ONNX Runtime has no option for that. A value that the user has set stays.
    """
    import onnxruntime

    if provider == TENSORRT:
        os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
    if provider != CPU and hasattr(onnxruntime, "preload_dlls"):
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


def provider_list(device: Device, sha256: str) -> Sequence[str | tuple[str, dict[str, str]]]:
    """The providers for a session: the device's, and those that may compute operators it does not support."""
    if device.provider == CPU:
        return [CPU]
    # By default cards since Ampere round the inputs of float32 products to 10 bits (TF32), and ONNX Runtime tries all
    # algorithms of cuDNN, which takes five times as long as cuDNN's own choice and finds no faster algorithm.
    cuda = (CUDA, {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"})
    if device.provider == CUDA:
        return [cuda, CPU]
    folder = str(cache_folder("tensorrt") / engine_key(sha256, device.precision))
    engines = {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": folder,
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": folder,
        "trt_fp16_enable": "1" if device.precision == "f16" else "0",
    }
    return [(TENSORRT, engines), cuda, CPU]


def engine_key(sha256: str, precision: Precision) -> str:
    """The folder for a net's TensorRT engines: an engine belongs to one net, precision, TensorRT and ONNX Runtime.

    It also belongs to one kind of graphics card, which ONNX Runtime puts into the names of the files.
    """
    import onnxruntime

    versions = [f"ort{onnxruntime.__version__}"]
    for package in ("tensorrt", "tensorrt-cu13", "tensorrt-cu12"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"trt{importlib.metadata.version(package)}")
            break
    return "-".join([sha256, precision, *versions])


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, for a one-line message."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(" .") if lines else type(error).__name__
