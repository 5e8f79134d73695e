"""Writes trained parameters back into an lc0 net, each into the protobuf field that it came from.

lc0 stores a layer as 16-bit steps between its smallest and its largest value (LINEAR16). In a convolution each output
channel gets a range of its own by batch normalisation: the channel's weights are divided by the largest of them, which
becomes the channel's gamma. The variance is 1 - 1e-5, so that lc0's epsilon makes it 1. Unchanged layers keep their
bytes.
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
FieldPath = tuple[tuple[int, int], ...]  # from message to message: field number, index among the fields with it

LEVELS = 65535
EPSILON = 1e-5  # lc0 src/neural/network_legacy.cc
TOLERANCE = 1e-5  # relative difference that folding a layer makes by rounding
WEIGHTS, VALUES, POLICIES, RESIDUAL, ENCODER = 10, 44, 45, 2, 27
TRAINING, TRAINING_STEPS, LEARNING_RATE, LOSSES, LC0_PARAMETERS = 5, 1, 2, (3, 4, 5), 6
# Fields of ConvBlock
KERNEL, BIASES, MEANS, VARIANCES, GAMMAS, BETAS = 1, 2, 3, 4, 5, 6

# Field numbers of lc0's proto/net.proto by parameter names of lc0's converter (src/neural/onnx/converter.cc).
_FEED_FORWARD = {"dense1/w/w": 1, "dense1/b/w": 2, "dense2/w/w": 3, "dense2/b/w": 4}
_ATTENTION = {"Q/w/w": 1, "Q/b/w": 2, "K/w/w": 3, "K/b/w": 4, "V/w/w": 5, "V/b/w": 6}
_ATTENTION |= {"out/dense/w/w": 7, "out/dense/b/w": 8}
_SMOLGEN = {"compress/w": 1, "dense1/w/w": 2, "dense1/b/w": 3, "ln1/w/scale": 4, "ln1/w/bias": 5}
_SMOLGEN |= {"dense2/w/w": 6, "dense2/b/w": 7, "ln2/w/scale": 8, "ln2/w/bias": 9}
_ENCODER: dict[str, tuple[int, ...]] = {
    **{f"mha/{name}": (1, number) for name, number in _ATTENTION.items()},
    **{f"smolgen/{name}": (1, 9, number) for name, number in _SMOLGEN.items()},
    **{f"ffn/{name}": (4, number) for name, number in _FEED_FORWARD.items()},
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
    **{f"/attn_body/ffn/{name}": (41, number) for name, number in _FEED_FORWARD.items()},
    "/attn_body/ln2/w/scale": (42,),
    "/attn_body/ln2/w/bias": (43,),
}
# Two field numbers: in Weights, for nets with one head of a kind, and in ValueHead or PolicyHead, for all others.
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
_EMBEDDING = (1, 2)  # in PolicyHead; and in PolicyHeads, for the heads that have no embedding of their own


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """Where a parameter is stored: in a layer, or as kernel or bias of a convolution block."""

    path: FieldPath
    part: str | None = None  # "kernel" or "bias" of a block


def write_net(
    old: str | PathLike[str],
    parameters: Mapping[str, Any],
    changed: frozenset[str],
    path: str | PathLike[str],
    notes: Mapping[str, Any],
    heads: Heads | None = None,
) -> None:
    """Writes the net `old` with other parameters to `path`; the file appears complete or not at all.

    `parameters` are those of `training.graph.NetGraph` for the trained `heads`; only the `changed` ones are written.
    `notes` says how the net was trained: ``steps``, ``lr``, and ``lambda`` of the amplitude step. Raises
    ValueRepairError if `old` does not have the graph's value of a changed parameter in the parameter's field.
    """
    from valuerepair.training.graph import NetGraph

    file, heads = read_net_file(Path(old)), heads or Heads()
    before = NetGraph.of_file(file, heads)
    message = unpack(file.path.read_bytes())
    weights = _content(message, ((WEIGHTS, -1),))
    places = {name: place_of(name, weights, heads) for name in changed}
    blocks = {name.rsplit("/w/", 1)[0]: place.path for name, place in places.items() if place.part is not None}
    for name in sorted(changed):
        expected = before.scaled(name, before.parameters[name], 1 / before.clock)
        _check_same(file, name, read_parameter(weights, places[name], expected.shape), expected)
    for name in sorted(changed):
        if places[name].part is None:
            layer = encoded(as_field(before.scaled(name, parameters[name], 1 / before.clock)))
            weights = _replaced(weights, places[name].path, layer)
    for name in sorted(blocks):
        kernel = before.scaled(f"{name}/w/kernel", parameters[f"{name}/w/kernel"], 1 / before.clock)
        block = convolution_block(kernel, np.asarray(parameters[f"{name}/w/bias"], np.float32))
        weights = _replaced(weights, blocks[name], block)
    message = _replaced(message, ((WEIGHTS, -1),), weights)
    with written_whole(path, outputs.NET) as partial:
        partial.write_bytes(gzip.compress(_noted(message, file, notes), 9, mtime=0))


def _check_same(file: NetFile, name: str, stored: Floats, expected: Floats) -> None:
    difference = np.abs(stored - expected).max() if stored.shape == expected.shape else np.inf
    if not difference <= TOLERANCE * max(float(np.abs(expected).max()), 1e-6):
        raise ValueRepairError(
            f"{file.path}: the parameter {name} is not in the field where it should be; this net cannot be written"
        )


def _noted(message: bytes, file: NetFile, notes: Mapping[str, Any]) -> bytes:
    """The net's message with updated training parameters: steps are added up, losses of earlier trainings removed."""
    training = next((content for number, content in reversed(list(fields(message))) if number == TRAINING), b"")
    assert isinstance(training, bytes)
    old = dict(fields(training))
    old_note, old_steps = old.get(LC0_PARAMETERS, b""), old.get(TRAINING_STEPS, 0)
    assert isinstance(old_note, bytes)
    assert isinstance(old_steps, int)
    steps, rate = int(notes.get("steps", 0)), float(notes.get("lr", 0.0))
    note = f"valuerepair {__version__}: {steps} steps at {rate:g} from {file.name} {file.sha256[:12]}"
    note += f", lambda {notes['lambda']:g}" if "lambda" in notes else ""
    updated = (TRAINING_STEPS, LEARNING_RATE, *LOSSES, LC0_PARAMETERS)
    new = om.number(TRAINING_STEPS, old_steps + steps) + _float_field(LEARNING_RATE, rate)
    new += b"".join(raw for number, raw in _raw_fields(training) if number not in updated)
    new += om.field(LC0_PARAMETERS, b"; ".join(text for text in (old_note, note.encode()) if text))
    return b"".join(raw for number, raw in _raw_fields(message) if number != TRAINING) + om.field(TRAINING, new)


# -- the place of a parameter -----------------------------------------------------------------------------------------


def place_of(name: str, weights: bytes, heads: Heads) -> ParameterPlace:
    """The place of a parameter in the message Weights. Raises ValueRepairError for an unknown name."""
    match = re.fullmatch(r"(.*conv[12]?)/w/(kernel|bias)", name)
    block, part = (match[1], match[2]) if match else (name, None)
    path = _path_of(block, weights, heads)
    if path is None:
        raise ValueRepairError(f"the parameter {name} has no known place in lc0's format")
    return ParameterPlace(path, part)


def _path_of(name: str, weights: bytes, heads: Heads) -> FieldPath | None:
    present = {number for number, _ in fields(weights)}
    if name in _TRUNK:
        return _single(*_TRUNK[name])
    if match := re.fullmatch(r"/block(\d+)/conv([12])", name):
        return ((RESIDUAL, int(match[1])), *_single(int(match[2])))
    if (match := re.fullmatch(r"/block(\d+)/conv2/se/(.+)", name)) and match[2] in _SE:
        return ((RESIDUAL, int(match[1])), *_single(3, _SE[match[2]]))
    if (match := re.fullmatch(r"/encoder(\d+)/(.+)", name)) and match[2] in _ENCODER:
        return ((ENCODER, int(match[1])), *_single(*_ENCODER[match[2]]))
    if name in _VALUE:
        in_weights, in_head = _VALUE[name]
        return _single(VALUES, VALUE_HEADS[heads.value], in_head) if VALUES in present else _single(in_weights)
    return _policy_path(name, weights, heads, has_heads=POLICIES in present)


def _policy_path(name: str, weights: bytes, heads: Heads, *, has_heads: bool) -> FieldPath | None:
    """`has_heads`: the net has the message PolicyHeads."""
    head = _single(POLICIES, POLICY_HEADS[heads.policy])
    if (match := re.fullmatch(r"/policy/enc_layer_(\d+)/(.+)", name)) and match[2] in _ENCODER:
        in_weights, in_head = _POLICY_ENCODERS
        layer, within_layer = int(match[1]), _single(*_ENCODER[match[2]])
        return (*head, (in_head, layer), *within_layer) if has_heads else ((in_weights, layer), *within_layer)
    if name not in _POLICY:
        return None
    in_weights, in_head = _POLICY[name]
    if not has_heads:
        return _single(in_weights)
    if in_head in _EMBEDDING and not _has(weights, (*head, (in_head, -1))):
        shared = _single(POLICIES, in_head)
        return shared if _has(weights, shared) else _single(in_weights)
    return (*head, (in_head, -1))


def _single(*numbers: int) -> FieldPath:
    """The path through fields that occur once; of repeated fields, protobuf takes the last."""
    return tuple((number, -1) for number in numbers)


# -- protobuf ---------------------------------------------------------------------------------------------------------


def _raw_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each field of a message; the bytes include the tag."""
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


def _field_index(message: bytes, step: tuple[int, int]) -> int:
    """The index, among all fields of a message, of a path's next field. Raises LookupError if it is missing."""
    number, which = step
    return [i for i, (other, _) in enumerate(fields(message)) if other == number][which]


def _content(message: bytes, path: FieldPath) -> bytes:
    """The message or layer at a path. Raises LookupError if it is missing."""
    for step in path:
        content = list(fields(message))[_field_index(message, step)][1]
        assert isinstance(content, bytes)
        message = content
    return message


def _has(message: bytes, path: FieldPath) -> bool:
    try:
        return bool(_content(message, path))
    except LookupError:
        return False


def _replaced(message: bytes, path: FieldPath, content: bytes) -> bytes:
    """The message with new content at a path; all other bytes stay."""
    if not path:
        return content
    step, *inner_path = path
    parts = [raw for _, raw in _raw_fields(message)]
    inner = _replaced(_content(message, (step,)), tuple(inner_path), content)
    parts[_field_index(message, step)] = om.field(step[0], inner)
    return b"".join(parts)


def _float_field(number: int, value: float) -> bytes:
    """A field that holds a float."""
    return bytes([number << 3 | 5]) + struct.pack("<f", value)


# -- layers -----------------------------------------------------------------------------------------------------------


def as_field(array: Floats) -> Floats:
    """A parameter in lc0's layout: matrices are [outputs, inputs], in ONNX [inputs, outputs]."""
    return array.T if array.ndim == 2 else array


def read_parameter(weights: bytes, place: ParameterPlace, shape: tuple[int, ...]) -> Floats:
    """The stored parameter in ONNX's layout, batch normalisation folded in as by lc0; empty if it cannot be read."""
    try:
        if place.part is None:
            flat = decoded(_content(weights, place.path))
            return flat.reshape(shape[::-1]).T if len(shape) == 2 else flat.reshape(shape)
        kernel, bias = folded(_content(weights, place.path))
        return kernel.reshape(shape) if place.part == "kernel" else bias.reshape(shape)
    except (LookupError, ValueError):
        return np.empty(0, np.float32)


def decoded(layer: bytes) -> Floats:
    """The values of a Layer, as lc0 reads them."""
    low = high = np.float32(0)
    steps: NDArray[np.uint16] = np.empty(0, "<u2")
    for number, content in fields(layer):
        if number in (1, 2) and isinstance(content, int):
            value = np.array(content, "<u4").view("<f4")[()]
            low, high = (value, high) if number == 1 else (low, value)
        elif number == 3 and isinstance(content, bytes):
            steps = np.frombuffer(content, "<u2")
        elif number == 4 and content not in (0, 1):
            raise ValueError("the encoding is not LINEAR16")
    values: Floats = steps.astype(np.float32) / np.float32(LEVELS) * (high - low) + low
    return values


def encoded(values: Floats, steps: NDArray[np.floating[Any]] | None = None) -> bytes:
    """A Layer with these values; `steps`: the values as steps that the caller has rounded."""
    low, high = limits(values)
    rounded = np.rint(steps_of(values)) if steps is None else steps
    content = rounded.clip(0, LEVELS).astype("<u2").tobytes()
    return _float_field(1, float(low)) + _float_field(2, float(high)) + om.field(3, content)


def limits(values: Floats) -> tuple[np.float32, np.float32]:
    """The smallest and the largest value."""
    return np.float32(values.min()), np.float32(values.max())


def steps_of(values: Floats) -> NDArray[np.float64]:
    """The values in steps, not rounded: the smallest is 0, the largest `LEVELS`; all are 0 if the values are equal."""
    low, high = limits(values)
    span = float(high - low)
    return (values.astype(np.float64) - float(low)) / span * LEVELS if span > 0 else np.zeros(values.shape)


def folded(block: bytes) -> tuple[Floats, Floats]:
    """Kernel [outputs, ...] and bias of a ConvBlock, normalisation folded in (as lc0 src/neural/network_legacy.cc)."""
    layers = {number: decoded(content) for number, content in fields(block) if isinstance(content, bytes)}
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
    """A ConvBlock with this kernel [outputs, inputs, y, x]; each output channel has its own range of weights."""
    largest = np.abs(kernel).max(axis=(1, 2, 3))
    gammas = decoded(encoded(np.where(largest > 0, largest, largest.max() or 1).astype(np.float32)))
    normalised = (kernel / gammas[:, None, None, None]).astype(np.float32)
    betas = decoded(encoded(bias))
    means = ((betas - bias) / gammas).astype(np.float32)  # cancels the rounding of the bias
    variances = np.full(len(bias), 1 - EPSILON, np.float32)
    steps = np.rint(steps_of(normalised))
    if kernel.shape[1] > CLOCK_PLANE and kernel.shape[2:] == (3, 3):
        steps[:, CLOCK_PLANE] = rounded_together(steps_of(normalised)[:, CLOCK_PLANE])
    layers = {MEANS: means, VARIANCES: variances, GAMMAS: gammas, BETAS: betas}
    return om.field(KERNEL, encoded(normalised, steps)) + b"".join(
        om.field(number, encoded(values)) for number, values in layers.items()
    )


def rounded_together(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rounds kernels [n, 3, 3] over a plane that has one value on all squares, so that sums of their weights are right.

    The plane of the half-move clock has values up to 99, so rounding its few small weights would be the largest error
    of a written net. With one value on all squares only sums matter: for each square, the sum of the weights that fall
    on the board.
    """
    down = np.floor(steps).reshape(len(steps), 9)
    on_board, choices = _weights_on_board(), _choices()
    errors = (down - steps.reshape(len(steps), 9)) @ on_board.T  # [n, kinds of square]
    best = np.square(errors[:, None, :] + (choices @ on_board.T)[None]).sum(axis=2).argmin(axis=1)
    rounded: NDArray[np.float64] = (down + choices[best]).reshape(steps.shape)
    return rounded


@lru_cache
def _choices() -> NDArray[np.float64]:
    """[512, 9]: each way to round some of nine weights up (1) and the others down (0)."""
    return np.array(list(product((0.0, 1.0), repeat=9)))


@lru_cache
def _weights_on_board() -> NDArray[np.float64]:
    """[9, 9]: for each kind of square (corner, edge, inner) the weights that fall on the board.

    The entry is the square root of the number of such squares, or 0 for a weight that falls off the board.
    """
    kinds = [((0, 1, 1), 1), ((1, 1, 1), 6), ((1, 1, 0), 1)]  # along one side: weights on the board, number of squares
    return np.array([np.outer(y, x).ravel() * np.sqrt(m * n) for y, m in kinds for x, n in kinds])


# -- the written file -------------------------------------------------------------------------------------------------


def check_written(
    path: str | PathLike[str],
    graph: NetGraph,
    parameters: Mapping[str, Any],
    planes: Floats,
) -> tuple[float, float]:
    """The largest |dQ| and |dp| between a written net and the parameters that were written into it.

    Both compute `planes` [n, 112, 8, 8]. The net runs in ONNX Runtime and, for Q and where possible, in lc0's own
    backend; p is the softmax over all 1,858 moves. Raises ValueRepairError if the file cannot be read.
    """
    import jax

    from valuerepair.nets.conversion import lc0_q, to_onnx
    from valuerepair.nets.session import Session

    file = read_net_file(Path(path))
    with jax.default_matmul_precision("highest"):  # by default a GPU rounds the inputs of products to 10 bits (TF32)
        trained = jax.jit(graph.forward)({name: np.asarray(value) for name, value in parameters.items()}, planes)
    if trained.wdl is None:
        q = np.asarray(trained.value)
    else:
        wdl = np.asarray(jax.nn.softmax(trained.wdl))
        q = wdl[:, 0] - wdl[:, 2]
    written = Session(to_onnx(file, heads=graph.heads), file.sha256, variant=graph.heads.variant).run(planes)
    dq = [np.abs(written.q - q).max()]
    with suppress(ValueRepairError):  # `to_onnx` has logged why lc0's backend cannot run
        dq.append(np.abs(lc0_q(file.path, planes, graph.heads) - q).max())
    dp = 0.0
    if trained.policy is not None:
        dp = float(np.abs(jax.nn.softmax(written.policy) - jax.nn.softmax(trained.policy)).max())
    return float(max(dq)), dp
