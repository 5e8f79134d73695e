"""Writes trained parameters back into an lc0 net, each into the protobuf field that it came from.

lc0 stores a layer as 16-bit steps between its smallest and its largest value (LINEAR16). In a convolution, batch
normalisation gives each output channel its own range: the channel's weights are divided by the largest of them, which
becomes the channel's gamma. The variance is 1 - 1e-5, so that lc0's epsilon makes it 1. Unchanged layers keep their
bytes.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import product
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats32
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.nets.planes import CLOCK_PLANE
from valuerepair.nets.protobuf import LC0, parsed
from valuerepair.nets.weights import LINEAR16, NetFile, read_net_file, unpack
from valuerepair.version import __version__

if TYPE_CHECKING:
    from valuerepair.training.graph import NetGraph


LEVELS = 65535
EPSILON = 1e-5  # lc0 src/neural/network_legacy.cc
TOLERANCE = 1e-5  # relative difference that folding a layer makes by rounding

# Fields of lc0's proto/net.proto by parameter names of lc0's converter (src/neural/onnx/converter.cc).
_FEED_FORWARD = {f"dense{n}/{part}/w": f"dense{n}_{part}" for n in (1, 2) for part in "wb"}
_NORM_FIELDS = {"scale": "gammas", "bias": "betas"}
_NORMS = {f"ln{n}/w/{part}": f"ln{n}_{field}" for n in (1, 2) for part, field in _NORM_FIELDS.items()}
_ATTENTION = {f"{part}/{kind}/w": f"{part.lower()}_{kind}" for part in "QKV" for kind in "wb"}
_ATTENTION |= {f"out/dense/{kind}/w": f"dense_{kind}" for kind in "wb"}
_ENCODER = {
    **_NORMS,
    **{f"mha/{name}": f"mha.{field}" for name, field in _ATTENTION.items()},
    **{f"smolgen/{name}": f"mha.smolgen.{field}" for name, field in {**_FEED_FORWARD, **_NORMS}.items()},
    "smolgen/compress/w": "mha.smolgen.compress",
    **{f"ffn/{name}": f"ffn.{field}" for name, field in _FEED_FORWARD.items()},
}
_RESIDUAL = {"conv1": "conv1", "conv2": "conv2"}
_RESIDUAL |= {"conv2/se/matmul1/w": "se.w1", "conv2/se/add1/w": "se.b1"}
_RESIDUAL |= {"conv2/se/matmul2/w": "se.w2", "conv2/se/add2/w": "se.b2"}
_TRUNK = {
    "/inputconv": "input",
    "/mlh/conv": "moves_left",
    "/mlh/dense1/matmul/w": "ip1_mov_w",
    "/mlh/dense1/add/w": "ip1_mov_b",
    "/mlh/dense2/matmul/w": "ip2_mov_w",
    "/mlh/dense2/add/w": "ip2_mov_b",
    "/mlh/embed/matmul/w": "ip_mov_w",
    "/mlh/embed/add/w": "ip_mov_b",
    "/attn_body/matmul/w": "ip_emb_w",
    "/attn_body/add/w": "ip_emb_b",
    "/ip_mul_gate/w": "ip_mult_gate",
    "/ip_add_gate/w": "ip_add_gate",
    "/const/smolgen_w": "smolgen_w",
    "/attn_body/embedding/preprocess/matmul/w": "ip_emb_preproc_w",
    "/attn_body/embedding/preprocess/add/w": "ip_emb_preproc_b",
    "/attn_body/ln/w/scale": "ip_emb_ln_gammas",
    "/attn_body/ln/w/bias": "ip_emb_ln_betas",
    **{f"/attn_body/ffn/{name}": f"ip_emb_ffn.{field}" for name, field in _FEED_FORWARD.items()},
    "/attn_body/ln2/w/scale": "ip_emb_ffn_ln_gammas",
    "/attn_body/ln2/w/bias": "ip_emb_ffn_ln_betas",
}
# Fields of Weights for nets with one head of a kind, and of ValueHead or PolicyHead for all others.
_VALUE = {
    "/value/conv": "value",
    "/value/embed/matmul/w": "ip_val_w",
    "/value/embed/add/w": "ip_val_b",
    "/value/dense1/matmul/w": "ip1_val_w",
    "/value/dense1/add/w": "ip1_val_b",
    "/value/dense2/matmul/w": "ip2_val_w",
    "/value/dense2/add/w": "ip2_val_b",
}
_POLICY = {
    "/policy/conv1": "policy1",
    "/policy/conv2": "policy",
    "/policy/conv": "policy",
    "/policy/dense1/matmul/w": "ip_pol_w",
    "/policy/dense/matmul/w": "ip_pol_w",
    "/policy/dense1/add/w": "ip_pol_b",
    "/output/policy/w": "ip_pol_b",
    "/policy/Q/matmul/w": "ip2_pol_w",
    "/policy/Q/add/w": "ip2_pol_b",
    "/policy/K/matmul/w": "ip3_pol_w",
    "/policy/K/add/w": "ip3_pol_b",
    "/policy/promotion/matmul/w": "ip4_pol_w",
}
_OF_BLOCK = re.compile(r"(.*conv[12]?)/w/(kernel|bias)")  # a parameter of a convolution block
_EMBEDDING = ("ip_pol_w", "ip_pol_b")  # in PolicyHeads, for the heads without their own embedding
_OTHER_POLICIES = ("optimistic_st", "soft", "opponent")  # heads beside vanilla, the one that is trained


def write_net(
    old: str | PathLike[str],
    parameters: Mapping[str, Any],
    changed: frozenset[str],
    path: str | PathLike[str],
    notes: Mapping[str, Any],
) -> None:
    """Writes the net `old` with other parameters to `path`; the file appears complete or not at all.

    `parameters` are those of `training.graph.NetGraph`; only the `changed` ones are written.
    `notes` says how the net was trained: ``steps``, ``lr``, and ``lambda`` of the amplitude step. Raises
    ValueRepairError if `old` does not have the graph's value of a changed parameter in the parameter's field.
    """
    from valuerepair.training.graph import NetGraph

    file = read_net_file(Path(old))
    before = NetGraph.of_file(file)
    net = parsed(LC0.Net, unpack(file.path.read_bytes()))
    for name in sorted(changed):
        expected = before.scaled(name, before.parameters[name], 1 / before.clock)
        _check_same(file, name, read_parameter(net.weights, name, expected.shape), expected)
    for name in changed:
        if not _OF_BLOCK.fullmatch(name):
            layer = encoded(as_field(before.scaled(name, parameters[name], 1 / before.clock)))
            _give_own_embedding(name, net.weights)
            place_of(name, net.weights).CopyFrom(layer)
    for block in {match[1] for name in changed if (match := _OF_BLOCK.fullmatch(name))}:
        kernel = before.scaled(f"{block}/w/kernel", parameters[f"{block}/w/kernel"], 1 / before.clock)
        bias = np.asarray(parameters[f"{block}/w/bias"], np.float32)
        place_of(block, net.weights).CopyFrom(convolution_block(kernel, bias))
    _note(net.training_params, file, notes)
    with written_whole(path) as partial:
        partial.write_bytes(gzip.compress(net.SerializeToString(), 9, mtime=0))


def _check_same(file: NetFile, name: str, stored: Floats32, expected: Floats32) -> None:
    difference = np.abs(stored - expected).max() if stored.shape == expected.shape else np.inf
    if not difference <= TOLERANCE * max(float(np.abs(expected).max()), 1e-6):
        raise ValueRepairError(
            f"{file.path}: the parameter {name} is not in the field where it should be; this net cannot be written"
        )


def _note(training: Any, file: NetFile, notes: Mapping[str, Any]) -> None:
    """Updates the TrainingParams of a net: steps are added up, losses of earlier trainings removed."""
    steps, rate = int(notes.get("steps", 0)), float(notes.get("lr", 0.0))
    note = f"valuerepair {__version__}: {steps} steps at {rate:g} from {file.name} {file.sha256[:12]}"
    note += f", lambda {notes['lambda']:g}" if "lambda" in notes else ""
    training.training_steps += steps
    training.learning_rate = rate
    for field in ("mse_loss", "policy_loss", "accuracy"):
        training.ClearField(field)
    training.lc0_params = b"; ".join(text for text in (training.lc0_params, note.encode()) if text)


def _give_own_embedding(name: str, weights: Any) -> None:
    """Makes a field for the embedding in the trained policy head, if another head uses the shared embedding, too.

    lc0 takes a head's own embedding where there is one (MultiHeadWeights::PolicyHead in its network_legacy.cc).
    """
    field = _POLICY.get(name)
    if field not in _EMBEDDING or not weights.HasField("policy_heads"):
        return
    heads = weights.policy_heads
    if any(heads.HasField(head) and not getattr(heads, head).HasField(field) for head in _OTHER_POLICIES):
        getattr(heads.vanilla, field).SetInParent()


def place_of(name: str, weights: Any) -> Any:
    """The Layer of a parameter, or the ConvBlock of this name, in the message Weights.

    Raises ValueRepairError for an unknown name, LookupError and AttributeError if the net has no such layer.
    """
    of_values = weights.value_heads.winner if weights.HasField("value_heads") else weights
    has_heads = weights.HasField("policy_heads")
    of_policy = weights.policy_heads.vanilla if has_heads else weights
    if name in _TRUNK:
        return attrgetter(_TRUNK[name])(weights)
    if name in _VALUE:
        return getattr(of_values, _VALUE[name])
    if field := _POLICY.get(name):
        homes = (of_policy, weights.policy_heads, weights) if has_heads and field in _EMBEDDING else (of_policy,)
        return getattr(next((home for home in homes if home.HasField(field)), of_policy), field)
    for pattern, layers, fields in (
        (r"/block(\d+)/(.+)", weights.residual, _RESIDUAL),
        (r"/encoder(\d+)/(.+)", weights.encoder, _ENCODER),
        (r"/policy/enc_layer_(\d+)/(.+)", of_policy.pol_encoder, _ENCODER),
    ):
        if (match := re.fullmatch(pattern, name)) and match[2] in fields:
            return attrgetter(fields[match[2]])(layers[int(match[1])])
    raise ValueRepairError(f"the parameter {name} has no known place in lc0's format")


# -- layers -----------------------------------------------------------------------------------------------------------


def as_field(array: Floats32) -> Floats32:
    """A parameter in lc0's layout: matrices are [outputs, inputs], in ONNX [inputs, outputs]."""
    return array.T if array.ndim == 2 else array


def read_parameter(weights: Any, name: str, shape: tuple[int, ...]) -> Floats32:
    """The stored parameter in ONNX's layout, batch normalisation folded in as by lc0; empty if it cannot be read."""
    match = _OF_BLOCK.fullmatch(name)
    try:
        place = place_of(match[1] if match else name, weights)
        if match is None:
            flat = decoded(place)
            return flat.reshape(shape[::-1]).T if len(shape) == 2 else flat.reshape(shape)
        return folded(place)[match[2] == "bias"].reshape(shape)
    except (LookupError, AttributeError, ValueError):
        return np.empty(0, np.float32)


def decoded(layer: Any) -> Floats32:
    """The values of a Layer, as lc0 reads them."""
    if layer.encoding not in (0, LINEAR16):
        raise ValueError("the encoding is not LINEAR16")
    low, high = np.float32(layer.min_val), np.float32(layer.max_val)
    steps = np.frombuffer(layer.params, "<u2").astype(np.float32)
    values: Floats32 = steps / np.float32(LEVELS) * (high - low) + low
    return values


def encoded(values: Floats32, steps: NDArray[np.floating[Any]] | None = None) -> Any:
    """A Layer with these values; `steps` are the values in steps if the caller has rounded them."""
    low, high = limits(values)
    rounded = np.rint(steps_of(values)) if steps is None else steps
    return LC0.Layer(min_val=low, max_val=high, params=rounded.clip(0, LEVELS).astype("<u2").tobytes())


def limits(values: Floats32) -> tuple[np.float32, np.float32]:
    """The smallest and the largest value."""
    return np.float32(values.min()), np.float32(values.max())


def steps_of(values: Floats32) -> NDArray[np.float64]:
    """The values in steps, not rounded: the smallest is 0, the largest `LEVELS`; all are 0 if the values are equal."""
    low, high = limits(values)
    span = float(high - low)
    return (values.astype(np.float64) - float(low)) / span * LEVELS if span > 0 else np.zeros(values.shape)


def folded(block: Any) -> tuple[Floats32, Floats32]:
    """Kernel [outputs, ...] and bias of a ConvBlock, normalisation folded in (as lc0 src/neural/network_legacy.cc)."""
    layers = {field.name: decoded(layer) for field, layer in block.ListFields()}
    means = layers.get("bn_means", np.empty(0, np.float32))
    zeros = np.zeros_like(means)
    bias = layers.get("biases", zeros)
    kernel = layers["weights"].reshape(len(bias), -1)
    if not len(means):
        return kernel, bias
    betas = layers.get("bn_betas", zeros)
    gammas = layers.get("bn_gammas", zeros + 1) if len(betas) else zeros + 1
    gammas = gammas * (np.float32(1) / np.sqrt(layers["bn_stddivs"] + np.float32(EPSILON)))
    return kernel * gammas[:, None], -gammas * (means - bias) + betas


def convolution_block(kernel: Floats32, bias: Floats32) -> Any:
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
    layers = {"bn_means": means, "bn_stddivs": variances, "bn_gammas": gammas, "bn_betas": betas}
    normalisation = {field: encoded(values) for field, values in layers.items()}
    return LC0.ConvBlock(weights=encoded(normalised, steps), **normalisation)


def rounded_together(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rounds kernels [n, 3, 3] of a plane with one value on all squares, so that the sums of their weights stay right.

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
    planes: Floats32,
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
    written = Session(to_onnx(file)).run(planes)
    dq = [np.abs(written.q - q).max()]
    with suppress(ValueRepairError):  # `to_onnx` has logged why lc0's backend cannot run
        dq.append(np.abs(lc0_q(file.path, planes) - q).max())
    dp = 0.0
    if trained.policy is not None:
        dp = float(np.abs(jax.nn.softmax(written.policy) - jax.nn.softmax(trained.policy)).max())
    return float(max(dq)), dp
