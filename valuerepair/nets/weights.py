"""Reads net files: their identity, and the header in lc0's protobuf."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from valuerepair.errors import ValueRepairError
from valuerepair.files import unpack_gzip
from valuerepair.nets.protobuf import LC0, parsed

# First bytes of an ONNX file: `ir_version` (field 1 of ModelProto) as a varint.
ONNX_MAGIC = b"\x08"
NET_SUFFIXES = (".pb.gz", ".onnx.gz", ".pb", ".onnx", ".gz")


@dataclass(frozen=True, slots=True)
class NetFile:
    """A net file as the user gave it. `header` is None for an ``.onnx`` file, which has none."""

    path: Path
    sha256: str
    size: int
    header: NetHeader | None

    @property
    def name(self) -> str:
        """The name of the file, without the endings of nets."""
        return net_name(self.path)


def net_name(path: str | Path) -> str:
    """The name of a net's file, without the endings of nets."""
    name = Path(path).name
    return next((name.removesuffix(end) for end in NET_SUFFIXES if name.endswith(end) and name != end), name)


def read_net_file(path: str | Path) -> NetFile:
    """Reads a net file. Raises ValueRepairError if it is missing or not a net."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueRepairError(f"{path}: is a folder, not a net; give the .pb.gz or .onnx file in it")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueRepairError(f"{path}: no such net file") from None
    except OSError as error:
        raise ValueRepairError(f"{path}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(content).hexdigest()
    return NetFile(path, digest, len(content), _identify(path, content))


def _identify(path: Path, content: bytes) -> NetHeader | None:
    if not content:
        raise ValueRepairError(f"{path}: is empty, not a net")
    try:
        message = unpack(content)
        if message.startswith(LC0_MAGIC):
            return read_header(message)
    except ValueError as error:
        raise ValueRepairError(f"{path}: cannot be read as a net: {error}") from None
    if message is content and (content.startswith(ONNX_MAGIC) or path.suffix == ".onnx"):
        return None
    raise ValueRepairError(f"{path}: is not a net: neither lc0 weights (.pb.gz) nor an ONNX file")


# Every lc0 net begins with field 1, fixed32, value 0x1c0.
LC0_MAGIC = b"\x0d\xc0\x01\x00\x00"
GZIP_MAGIC = b"\x1f\x8b"

INPUT_FORMAT_NAMES = {
    1: "classical 112 planes",
    2: "112 planes with castling plane",
    3: "canonical",
    4: "canonical, hectoplies",
    5: "canonical v2",
    132: "canonical, hectoplies, armageddon",
    133: "canonical v2, armageddon",
}
ONNX = "ONNX"
NETWORKS = {
    1: "ResNet",
    2: "SE-ResNet",
    3: "ResNet",
    4: "SE-ResNet",
    5: ONNX,
    6: "transformer",
    7: "transformer, several heads",
    134: "transformer, several heads",
}
LINEAR16 = 1
ENCODINGS = {LINEAR16: "LINEAR16", 2: "FLOAT16", 3: "BFLOAT16", 4: "FLOAT32"}
POLICIES = {0: "dense", 1: "dense", 2: "convolution", 3: "attention"}
VALUES = {0: "scalar", 1: "scalar", 2: "WDL"}


@dataclass(frozen=True, slots=True)
class NetHeader:
    """The header of an lc0 net, with words for enumerations; `filters` is the width of the tower (embedding size)."""

    min_version: str
    input_format: int
    network: str
    policy: str
    value: str
    moves_left: bool
    blocks: int
    filters: int
    training_steps: int | None
    mixed: bool = False  # residual blocks followed by encoders
    training: str = ""  # parameters noted by its trainer


def unpack(content: bytes) -> bytes:
    """The protobuf of a net file, unpacked if it is gzipped. Raises ValueError as `files.unpack_gzip`."""
    return unpack_gzip(content) if content.startswith(GZIP_MAGIC) else content


def read_header(message: bytes) -> NetHeader:
    """The header of an unpacked lc0 net. Raises ValueError for other bytes."""
    if not message.startswith(LC0_MAGIC):
        raise ValueError("it does not begin as an lc0 net does")
    net = parsed(LC0.Net, message)
    layout, weights, training = net.format.network_format, net.weights, net.training_params
    residual, encoders = len(weights.residual), len(weights.encoder)
    version = net.min_version
    return NetHeader(
        min_version=f"v{version.major}.{version.minor}.{version.patch}",
        input_format=layout.input if layout.HasField("input") else 1,
        network=_word(NETWORKS, layout.network if layout.HasField("network") else 1),
        policy=_word(POLICIES, layout.policy),
        value=_word(VALUES, layout.value),
        moves_left=bool(layout.moves_left),
        blocks=encoders or residual,
        filters=_width(weights),
        training_steps=training.training_steps if training.HasField("training_steps") else None,
        training=training.lc0_params.decode(errors="replace"),
        mixed=bool(residual and encoders),
    )


def _word(names: dict[int, str], value: int) -> str:
    return names.get(value, f"unknown ({value})")


def _width(weights: Any) -> int:
    """Channels of the tower: the embedding's biases, else the means or biases of the input convolution."""
    layer = weights.ip_emb_b
    if not weights.HasField("ip_emb_b"):
        layer = weights.input.bn_means if weights.input.HasField("bn_means") else weights.input.biases
    if layer.encoding not in (0, LINEAR16):
        raise ValueError(f"its weights are {_word(ENCODINGS, layer.encoding)}; only LINEAR16 is supported")
    return len(layer.params) // 2  # LINEAR16: two bytes a weight
