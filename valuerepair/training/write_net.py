"""Trained parameters written back into an lc0 net: each into the protobuf field that it came from.

lc0 keeps a layer as 16-bit steps between its smallest and its largest value (LINEAR16). Where a layer has a batch
normalisation, each output channel gets a range of its own: its weights are divided by the largest, which goes into the
gammas (variance 1 - 1e-5, so that lc0's epsilon makes 1 of it). What did not change stays byte for byte.
"""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import outputs
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.nets import onnx_model as om
from valuerepair.nets.heads import POLICY_HEADS, VALUE_HEADS, Heads
from valuerepair.nets.planes import CLOCK_PLANE
from valuerepair.nets.weights import NetFile, fields, read_net_file, read_varint, unpack
from valuerepair.version import __version__

if TYPE_CHECKING:
    from valuerepair.training.graph import NetGraph

Floats = NDArray[np.float32]
Steps = tuple[tuple[int, int], ...]  # field number, and which of several, of each message on the way

LEVELS = 65535
EPSILON = 1e-5  # lc0 src/neural/network_legacy.cc
SAME = 1e-5  # relative: a folded layer is off by rounding
WEIGHTS, VALUES, POLICIES, RESIDUAL, ENCODER = 10, 44, 45, 2, 27
TRAINING, TRAINING_STEPS, LEARNING_RATE, LOSSES, LC0_PARAMETERS = 5, 1, 2, (3, 4, 5), 6
# Fields of ConvBlock
KERNEL, BIASES, MEANS, VARIANCES, GAMMAS, BETAS = 1, 2, 3, 4, 5, 6

# Fields of lc0's proto/net.proto by the names that its converter gives parameters (src/neural/onnx/converter.cc).
_FEED_FORWARD = {"dense1/w/w": 1, "dense1/b/w": 2, "dense2/w/w": 3, "dense2/b/w": 4}
_ATTENTION = {"Q/w/w": 1, "Q/b/w": 2, "K/w/w": 3, "K/b/w": 4, "V/w/w": 5, "V/b/w": 6}
_ATTENTION |= {"out/dense/w/w": 7, "out/dense/b/w": 8}
_SMOLGEN = {"compress/w": 1, "dense1/w/w": 2, "dense1/b/w": 3, "ln1/w/scale": 4, "ln1/w/bias": 5}
_SMOLGEN |= {"dense2/w/w": 6, "dense2/b/w": 7, "ln2/w/scale": 8, "ln2/w/bias": 9}
_ENCODER: dict[str, tuple[int, ...]] = {
    **{f"mha/{name}": (1, at) for name, at in _ATTENTION.items()},
    **{f"smolgen/{name}": (1, 9, at) for name, at in _SMOLGEN.items()},
    **{f"ffn/{name}": (4, at) for name, at in _FEED_FORWARD.items()},
    "ln1/w/scale": (2,),
    "ln1/w/bias": (3,),
    "ln2/w/scale": (5,),
    "ln2/w/bias": (6,),
}
_SE = {"matmul1/w": 1, "add1/w": 2, "matmul2/w": 3, "add2/w": 4}
_TRUNK: dict[str, tuple[int, ...]] = {
    "/inputconv": (1,),
    "/mlh/conv": (12,),
    "/mlh/dense1/matmul/w": (13,),
    "/mlh/dense1/add/w": (14,),
    "/mlh/dense2/matmul/w": (15,),
    "/mlh/dense2/add/w": (16,),
    "/mlh/embed/matmul/w": (31,),
    "/mlh/embed/add/w": (32,),
    "/attn_body/matmul/w": (25,),
    "/attn_body/add/w": (26,),
    "/ip_mul_gate/w": (33,),
    "/ip_add_gate/w": (34,),
    "/const/smolgen_w": (35,),
    "/attn_body/embedding/preprocess/matmul/w": (37,),
    "/attn_body/embedding/preprocess/add/w": (38,),
    "/attn_body/ln/w/scale": (39,),
    "/attn_body/ln/w/bias": (40,),
    **{f"/attn_body/ffn/{name}": (41, at) for name, at in _FEED_FORWARD.items()},
    "/attn_body/ln2/w/scale": (42,),
    "/attn_body/ln2/w/bias": (43,),
}
# Of heads, in nets of one head each and in the messages ValueHead and PolicyHead.
_VALUE = {
    "/value/conv": (6, 11),
    "/value/embed/matmul/w": (29, 1),
    "/value/embed/add/w": (30, 2),
    "/value/dense1/matmul/w": (7, 3),
    "/value/dense1/add/w": (8, 4),
    "/value/dense2/matmul/w": (9, 5),
    "/value/dense2/add/w": (10, 6),
}
_POLICY = {
    "/policy/conv1": (11, 10),
    "/policy/conv2": (3, 11),
    "/policy/conv": (3, 11),
    "/policy/dense1/matmul/w": (4, 1),
    "/policy/dense/matmul/w": (4, 1),
    "/policy/dense1/add/w": (5, 2),
    "/output/policy/w": (5, 2),
    "/policy/Q/matmul/w": (17, 3),
    "/policy/Q/add/w": (18, 4),
    "/policy/K/matmul/w": (19, 5),
    "/policy/K/add/w": (20, 6),
    "/policy/promotion/matmul/w": (22, 7),
}
_POLICY_ENCODERS = (21, 8)
_EMBEDDING = (1, 2)  # in PolicyHead and in PolicyHeads, which have it for all that have none


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """Where a parameter comes from: a layer, or the convolution block that has it as its kernel or its bias."""

    path: Steps
    part: str | None = None  # "kernel", "bias"


def write_net(
    old: str | PathLike[str],
    parameters: Mapping[str, Any],
    changed: frozenset[str],
    path: str | PathLike[str],
    notes: Mapping[str, Any],
    heads: Heads | None = None,
) -> None:
    """Writes the net `old` with other parameters to `path`; it appears whole or not at all.

    `parameters` are those of `training.graph.NetGraph`, of which the `changed` ones are written, for the `heads` that
    were trained. `notes` says how it was trained: ``steps``, ``lr``, and ``lambda`` of the amplitude step. Raises
    ValueRepairError when a parameter is not found where it should be, or not as it was.
    """
    from valuerepair.training.graph import CLOCK, NetGraph

    file, heads = read_net_file(Path(old)), heads or Heads()
    before = NetGraph.of_file(file, heads)
    message = unpack(file.path.read_bytes())
    weights = _inner(message, ((WEIGHTS, -1),))
    places = {name: place_of(name, weights, heads) for name in changed}
    blocks = {name[: -len("/w/kernel")] for name, place in places.items() if place.part == "kernel"}
    blocks |= {name[: -len("/w/bias")] for name, place in places.items() if place.part == "bias"}
    for name in sorted(changed):
        was = before.scaled(name, before.parameters[name], 1 / CLOCK)
        _check_same(file, name, read_parameter(weights, places[name], was.shape), was)
    for name in sorted(changed):
        if places[name].part is None:
            layer = encoded(as_field(before.scaled(name, parameters[name], 1 / CLOCK)))
            weights = _replaced(weights, places[name].path, layer)
    for name in sorted(blocks):
        kernel = before.scaled(f"{name}/w/kernel", parameters[f"{name}/w/kernel"], 1 / CLOCK)
        block = convolution_block(kernel, np.asarray(parameters[f"{name}/w/bias"], np.float32))
        weights = _replaced(weights, place_of(f"{name}/w/kernel", weights, heads).path, block)
    message = _replaced(message, ((WEIGHTS, -1),), weights)
    with written_whole(path, outputs.NET) as partial:
        partial.write_bytes(gzip.compress(_noted(message, file, notes), 9, mtime=0))


def _check_same(file: NetFile, name: str, found: Floats, expected: Floats) -> None:
    apart = np.abs(found - expected).max() if found.shape == expected.shape else np.inf
    if not apart <= SAME * max(float(np.abs(expected).max()), 1e-6):
        raise ValueRepairError(
            f"{file.path}: the parameter {name} is not in the field where it should be; this net cannot be written"
        )


def _noted(message: bytes, file: NetFile, notes: Mapping[str, Any]) -> bytes:
    """The net with its training parameters changed: steps are added, losses of the training before are left out."""
    training = next((part for at, part in reversed(list(fields(message))) if at == TRAINING), b"")
    assert isinstance(training, bytes)
    was = dict(fields(training))
    earlier = was.get(LC0_PARAMETERS, b"")
    assert isinstance(earlier, bytes)
    steps, rate = int(notes.get("steps", 0)), float(notes.get("lr", 0.0))
    said = f"valuerepair {__version__}: {steps} steps at {rate:g} from {file.name} {file.sha256[:12]}"
    said += f", lambda {notes['lambda']:g}" if "lambda" in notes else ""
    total = was.get(TRAINING_STEPS, 0)
    assert isinstance(total, int)
    kept = b"".join(raw for at, raw in _raw(training) if at not in (1, 2, *LOSSES, LC0_PARAMETERS))
    text = b"; ".join(part for part in (earlier, said.encode()) if part)
    new = om.number(TRAINING_STEPS, total + steps) + _real(LEARNING_RATE, rate) + kept + om.field(LC0_PARAMETERS, text)
    rest = b"".join(raw for at, raw in _raw(message) if at != TRAINING)
    return rest + om.field(TRAINING, new)


# -- where a parameter is ---------------------------------------------------------------------------------------------


def place_of(name: str, weights: bytes, heads: Heads) -> ParameterPlace:
    """The place of a parameter in the message Weights. Raises ValueRepairError for a name that has none."""
    block, part = name, None
    for end in ("kernel", "bias"):
        if name.endswith(f"/w/{end}") and re.search(r"conv[12]?$", name[: -len(f"/w/{end}")]):
            block, part = name[: -len(f"/w/{end}")], end
    found = _path_of(block, weights, heads)
    if found is None:
        raise ValueRepairError(f"the parameter {name} has no place in lc0's format that is known here")
    return ParameterPlace(found, part)


def _path_of(name: str, weights: bytes, heads: Heads) -> Steps | None:
    there = {at for at, _ in fields(weights)}
    if name in _TRUNK:
        return _single(*_TRUNK[name])
    if found := re.fullmatch(r"/block(\d+)/conv([12])", name):
        return ((RESIDUAL, int(found[1])), *_single(int(found[2])))
    if (found := re.fullmatch(r"/block(\d+)/conv2/se/(.+)", name)) and found[2] in _SE:
        return ((RESIDUAL, int(found[1])), *_single(3, _SE[found[2]]))
    if (found := re.fullmatch(r"/encoder(\d+)/(.+)", name)) and found[2] in _ENCODER:
        return ((ENCODER, int(found[1])), *_single(*_ENCODER[found[2]]))
    if name in _VALUE:
        alone, of_head = _VALUE[name]
        return _single(VALUES, VALUE_HEADS[heads.value], of_head) if VALUES in there else _single(alone)
    return _policy_path(name, weights, heads, several=POLICIES in there)


def _policy_path(name: str, weights: bytes, heads: Heads, *, several: bool) -> Steps | None:
    head = _single(POLICIES, POLICY_HEADS[heads.policy])
    if (found := re.fullmatch(r"/policy/enc_layer_(\d+)/(.+)", name)) and found[2] in _ENCODER:
        alone, of_head = _POLICY_ENCODERS
        at, inside = int(found[1]), _single(*_ENCODER[found[2]])
        return (*head, (of_head, at), *inside) if several else ((alone, at), *inside)
    if name not in _POLICY:
        return None
    alone, of_head = _POLICY[name]
    if not several:
        return _single(alone)
    if of_head in _EMBEDDING and not _has(weights, (*head, (of_head, -1))):
        shared = _single(POLICIES, of_head)
        return shared if _has(weights, shared) else _single(alone)
    return (*head, (of_head, -1))


def _single(*numbers: int) -> Steps:
    return tuple((number, -1) for number in numbers)


# -- protobuf ---------------------------------------------------------------------------------------------------------


def _raw(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message, each with its bytes as they are, its tag in front."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = read_varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = read_varint(message, at)
        elif kind == 2:
            size, at = read_varint(message, at)
            at += size
        else:
            at += 4 if kind == 5 else 8
        yield tag >> 3, message[begin:at]


def _number_of(message: bytes, step: tuple[int, int]) -> int:
    """Which of all fields of the message a step means. Raises LookupError when it is not there."""
    number, which = step
    return [i for i, (at, _) in enumerate(fields(message)) if at == number][which]


def _inner(message: bytes, path: Steps) -> bytes:
    """The message or layer at a path. Raises LookupError when it is not there."""
    for step in path:
        part = list(fields(message))[_number_of(message, step)][1]
        assert isinstance(part, bytes)
        message = part
    return message


def _has(message: bytes, path: Steps) -> bool:
    try:
        return bool(_inner(message, path))
    except LookupError:
        return False


def _replaced(message: bytes, path: Steps, content: bytes) -> bytes:
    """The message with another content at a path; all else has the same bytes."""
    if not path:
        return content
    step, *rest = path
    at = _number_of(message, step)
    parts = [raw for _, raw in _raw(message)]
    parts[at] = om.field(step[0], _replaced(_inner(message, (step,)), tuple(rest), content))
    return b"".join(parts)


def _real(number: int, value: float) -> bytes:
    """A field that holds a float."""
    return bytes([number << 3 | 5]) + struct.pack("<f", value)


# -- layers -----------------------------------------------------------------------------------------------------------


def as_field(array: Floats) -> Floats:
    """A parameter as lc0 has it: matrices as [outputs, inputs], of which ONNX has the transpose."""
    return array.T if array.ndim == 2 else array


def read_parameter(weights: bytes, place: ParameterPlace, shape: tuple[int, ...]) -> Floats:
    """The parameter at its place as ONNX has it, folded as lc0 folds it; nothing where it cannot be read."""
    try:
        if place.part is None:
            flat = decoded(_inner(weights, place.path))
            return flat.reshape(shape[::-1]).T if len(shape) == 2 else flat.reshape(shape)
        kernel, bias = folded(_inner(weights, place.path))
        return kernel.reshape(shape) if place.part == "kernel" else bias.reshape(shape)
    except (LookupError, ValueError):
        return np.empty(0, np.float32)


def decoded(layer: bytes) -> Floats:
    """The values of a Layer, as lc0 reads them."""
    low = high = np.float32(0)
    steps: NDArray[np.uint16] = np.empty(0, "<u2")
    for at, part in fields(layer):
        if at in (1, 2) and isinstance(part, int):
            value = np.array(part, "<u4").view("<f4")[()]
            low, high = (value, high) if at == 1 else (low, value)
        elif at == 3 and isinstance(part, bytes):
            steps = np.frombuffer(part, "<u2")
        elif at == 4 and part not in (0, 1):
            raise ValueError("of another encoding than LINEAR16")
    values: Floats = steps.astype(np.float32) / np.float32(LEVELS) * (high - low) + low
    return values


def encoded(values: Floats, steps: NDArray[np.floating[Any]] | None = None) -> bytes:
    """A Layer of these values in steps from the smallest to the largest; `steps`: as somebody else rounded them."""
    low, high = limits(values)
    rounded = np.rint(steps_of(values)) if steps is None else steps
    content = rounded.clip(0, LEVELS).astype("<u2").tobytes()
    return _real(1, float(low)) + _real(2, float(high)) + om.field(3, content)


def limits(values: Floats) -> tuple[np.float32, np.float32]:
    """The smallest and the largest value."""
    return np.float32(values.min()), np.float32(values.max())


def steps_of(values: Floats) -> NDArray[np.float64]:
    """Where values lie in a layer of them, in steps from the smallest; 0 where all are the same."""
    low, high = limits(values)
    span = float(high - low)
    return (values.astype(np.float64) - float(low)) / span * LEVELS if span > 0 else np.zeros(values.shape)


def folded(block: bytes) -> tuple[Floats, Floats]:
    """Kernel [outputs, ...] and bias of a ConvBlock, its normalisation folded in (lc0 src/neural/network_legacy.cc)."""
    layers = {at: decoded(part) for at, part in fields(block) if isinstance(part, bytes)}
    means = layers.get(MEANS, np.empty(0, np.float32))
    zeros = np.zeros_like(means)
    bias = layers.get(BIASES, zeros)
    kernel = layers[KERNEL].reshape(len(bias), -1)
    if not len(means):
        return kernel, bias
    betas = layers.get(BETAS, zeros)
    gammas = layers.get(GAMMAS, zeros + 1) if len(betas) else zeros + 1
    gammas = gammas * (np.float32(1) / np.sqrt(layers[VARIANCES] + np.float32(EPSILON)))
    return kernel * gammas[:, None], -gammas * (means - bias) + betas


def convolution_block(kernel: Floats, bias: Floats) -> bytes:
    """A ConvBlock [outputs, inputs, y, x] whose output channels each have a range of their own."""
    largest = np.abs(kernel).max(axis=(1, 2, 3))
    gammas = decoded(encoded(np.where(largest > 0, largest, largest.max() or 1).astype(np.float32)))
    inner = (kernel / gammas[:, None, None, None]).astype(np.float32)
    betas = decoded(encoded(bias))
    means = ((betas - bias) / gammas).astype(np.float32)  # what rounding left of the bias
    variances = np.full(len(bias), 1 - EPSILON, np.float32)
    steps = np.rint(steps_of(inner))
    if inner.shape[1] > CLOCK_PLANE and inner.shape[2:] == (3, 3):
        steps[:, CLOCK_PLANE] = rounded_together(steps_of(inner)[:, CLOCK_PLANE])
    layers = {MEANS: means, VARIANCES: variances, GAMMAS: gammas, BETAS: betas}
    return om.field(KERNEL, encoded(inner, steps)) + b"".join(
        om.field(at, encoded(values)) for at, values in layers.items()
    )


def rounded_together(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kernels [n, 3, 3] over a plane that is the same everywhere, rounded so that their sums are right.

    The clock's plane counts to 99, which makes the rounding of its few small weights the largest error of a net. All
    its squares have one value: what matters is the sum of the weights that lie on the board, at each of its squares.
    """
    down = np.floor(steps).reshape(len(steps), 9)
    sums, choices = _sums_of_squares(), _choices()
    errors = (down - steps.reshape(len(steps), 9)) @ sums.T  # of each kind of square
    best = np.square(errors[:, None, :] + (choices @ sums.T)[None]).sum(axis=2).argmin(axis=1)
    rounded: NDArray[np.float64] = (down + choices[best]).reshape(steps.shape)
    return rounded


@lru_cache
def _choices() -> NDArray[np.float64]:
    """[512, 9]: which of nine numbers are rounded up."""
    return np.array(list(product((0.0, 1.0), repeat=9)))


@lru_cache
def _sums_of_squares() -> NDArray[np.float64]:
    """[9, 9]: which weights lie on the board at corners, edges and inner squares, by the root of how many these are."""
    rows = [(0, 1, 1), (1, 1, 1), (1, 1, 0)]
    how_many = [1, 6, 1]
    return np.array(
        [np.outer(y, x).ravel() * np.sqrt(a * b) for y, a in zip(rows, how_many, strict=True)
         for x, b in zip(rows, how_many, strict=True)]
    )  # fmt: skip


# -- the written file -------------------------------------------------------------------------------------------------


def check_written(
    path: str | PathLike[str],
    graph: NetGraph,
    parameters: Mapping[str, Any],
    planes: Floats,
) -> tuple[float, float]:
    """How far a written net is from the parameters that it was written from: the largest |dQ| and |dp|.

    Of positions' planes [n, 112, 8, 8]: by lc0's own backend, where it is here, and by ONNX Runtime; p is the softmax
    of all 1,858 moves. Raises ValueRepairError when the file cannot be read.
    """
    import jax

    from valuerepair.nets.conversion import lc0_q, to_onnx
    from valuerepair.nets.devices import CPU
    from valuerepair.nets.session import Session

    file = read_net_file(Path(path))
    trained = jax.jit(graph.forward)({name: np.asarray(value) for name, value in parameters.items()}, planes)
    if trained.wdl is None:
        q = np.asarray(trained.value)
    else:
        wdl = np.asarray(jax.nn.softmax(trained.wdl))
        q = wdl[:, 0] - wdl[:, 2]
    written = Session(to_onnx(file, heads=graph.heads), CPU, 1, file.sha256, graph.heads.variant).run(planes)
    apart = [np.abs(written.q - q).max()]
    with suppress(ValueRepairError):  # said when it was converted
        apart.append(np.abs(lc0_q(file.path, planes, graph.heads) - q).max())
    p = 0.0
    if trained.policy is not None:
        p = float(np.abs(jax.nn.softmax(written.policy) - jax.nn.softmax(trained.policy)).max())
    return float(max(apart)), p
