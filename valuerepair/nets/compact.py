"""A net with bitboards as input and the logits of legal moves as policy, to send less over the bus to a GPU.

A position's planes are 28 KiB and its policy 7 KiB; its bitboards are 0.9 KiB and the logits of its legal moves some
hundred bytes. A few nodes are added around the net's own graph: `Cast` and `Gather` look each byte up in a table of its
eight bits, `Where` puts the half-move clock into plane 109, and `GatherElements` picks the logits. The CUDA provider
supports them for these types, but no bit shifts (ONNX Runtime, docs/OperatorKernels.md). ONNX Runtime runs nodes that
TensorRT does not support, such as the cast from bytes (onnx-tensorrt, docs/operators.md), on CUDA. The wrapped net is
cached beside the converted one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError
from valuerepair.files import cache_folder, written_whole
from valuerepair.nets import onnx_model as om
from valuerepair.nets.options import TENSORRT
from valuerepair.nets.planes import CLOCK_PLANE, PLANES
from valuerepair.nets.providers import first_line
from valuerepair.nets.session import RawOutputs, Session, Tensors, join_outputs, load, padded

VERSION = 3  # of the nodes below and of the converted net: in the name of the cached file
MASKS, RULE50, MOVES, LOGITS = "/compact/masks", "/compact/rule50", "/compact/moves", "/compact/logits"
MIN_OPSET = 11  # the first with GatherElements
EXTERNAL = 1  # TensorProto.DataLocation
MOVES_STEP, MOVES_MOST = 32, 224  # legal moves are padded to a multiple of this; more than any position has (218)


def compact_model(content: bytes, tensors: Tensors) -> bytes:
    """The ONNX file of a net with added nodes that unpack its input and pick from its policy.

    Inputs: `MASKS` uint8[n, 112, 8], the bytes of bitboards, ranks in order; `RULE50` float32[n, 1, 1, 1], plane 109;
    `MOVES` int32[n, k], indices into the policy. Outputs: the net's, with `LOGITS` [n, k] in place of its policy.
    Raises ValueError if the file cannot be changed this way.
    """
    model = om.read_model(content)
    graph, rows, element = model.graph, tensors.fixed_batch or "batch", np.dtype(tensors.dtype).name
    if any(tensor.data_location == EXTERNAL for tensor in graph.initializer):
        raise ValueError("its weights are in another file")
    opset = max((opset.version for opset in model.opset_import if not opset.domain), default=0)
    if opset < MIN_OPSET:
        raise ValueError(f"its opset {opset} is older than {MIN_OPSET}")
    logits = om.value(LOGITS, (rows, "moves"), np.dtype(tensors.policy_dtype).name)
    picking = om.node("GatherElements", [tensors.policy, MOVES], [LOGITS], axis=1)
    inputs = [
        om.value(MASKS, (rows, PLANES, 8), "uint8"),
        om.value(RULE50, (rows, 1, 1, 1)),
        om.value(MOVES, (rows, "moves"), "int32"),
    ]
    graph.initializer.extend(_tables(tensors))
    om.replace(graph.node, [*_unpacking(tensors, element), *graph.node, picking])
    om.replace(graph.input, [*(part for part in graph.input if part.name != tensors.planes), *inputs])
    om.replace(graph.output, [*(part for part in graph.output if part.name != tensors.policy), logits])
    changed: bytes = model.SerializeToString()
    return changed


def _tables(tensors: Tensors) -> list[Any]:
    """The constants of `_unpacking`: the eight bits of each byte, and a mask of the half-move clock's plane."""
    table = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(tensors.dtype)
    is_clock = np.zeros((1, PLANES, 1, 1), np.bool_)
    is_clock[:, CLOCK_PLANE] = True
    return [om.weight("/compact/bits", table), om.weight("/compact/is_clock", is_clock)]


def _unpacking(tensors: Tensors, element: str) -> list[Any]:
    """Nodes from bitboards to the net's own input."""
    return [
        om.node("Cast", [MASKS], ["/compact/bytes"], to=om.ELEMENTS["int32"]),
        om.node("Gather", ["/compact/bits", "/compact/bytes"], ["/compact/planes"]),
        om.node("Cast", [RULE50], ["/compact/clock"], to=om.ELEMENTS[element]),
        om.node("Where", ["/compact/is_clock", "/compact/clock", "/compact/planes"], [tensors.planes]),
    ]


def compact_file(session: Session) -> Path:
    """The changed ONNX file of a session's net, made now unless it is cached. Raises ValueRepairError."""
    target = cache_folder("onnx") / f"{session.sha256}{session.variant}-compact{VERSION}.onnx"
    if not target.exists():
        try:
            content = compact_model(session.onnx.read_bytes(), session.tensors)
        except (OSError, ValueError) as error:
            raise ValueRepairError(f"{session.onnx}: cannot be made to take bitboards: {first_line(error)}") from None
        with written_whole(target) as temporary:
            temporary.write_bytes(content)
    return target


class CompactSession:
    """A second session of a session's net and provider, for bitboards. `run` may be called from several threads."""

    def __init__(self, session: Session) -> None:
        self._plain = session
        self._session = load(compact_file(session), session.device, session.sha256)
        self._wanted = [LOGITS if name == session.tensors.policy else name for name in session.wanted]

    def width(self, moves: int) -> int:
        """The number of columns for rows of at most `moves` legal moves: rows are padded, so that few shapes occur."""
        # TensorRT builds an engine for each new shape.
        return MOVES_MOST if self._plain.device.provider == TENSORRT else max(1, -(-moves // MOVES_STEP)) * MOVES_STEP

    def run(self, masks: NDArray[np.uint64], rule50: NDArray[np.float32], moves: NDArray[np.int32]) -> RawOutputs:
        """`Session.run` for bitboards uint64[n, 112] and plane 109 float32[n]; its policy has only the legal moves.

        `moves` int32[n, k] are indices below 1858 (rows are padded with any index); `policy` of the answer is
        float32[n, k], the logits of these moves.
        """
        n = len(masks)
        full = self._plain.full_rows(n)
        if n > full:
            cuts = (slice(i, i + full) for i in range(0, n, full))
            return join_outputs([self.run(masks[cut], rule50[cut], moves[cut]) for cut in cuts])
        feed = {
            MASKS: padded(masks, full).astype("<u8", copy=False).view(np.uint8).reshape(full, PLANES, 8),
            RULE50: padded(rule50, full).reshape(full, 1, 1, 1),
            MOVES: padded(moves, full),
        }
        return self._plain.read(self._session.run(self._wanted, feed), n, moves.shape[1])
