"""Reads net files: their identity, and the header in lc0's protobuf."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from valuerepair.errors import ValueRepairError
from valuerepair.files import read_regular, unpack_gzip
from valuerepair.nets.heads import DEFAULT_HEADS, POLICY_HEADS, VALUE_HEADS

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
        content = read_regular(path, MAX_NET)
    except FileNotFoundError:
        raise ValueRepairError(f"{path}: no such net file; `vr nets list` shows the nets known by name") from None
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


Field = tuple[int, int | bytes]  # field number; varints and fixed32 as int, length-delimited as bytes

# Field 1, fixed32, value 0x1c0: how every lc0 net begins.
LC0_MAGIC = b"\x0d\xc0\x01\x00\x00"
MAX_NET = 1 << 31  # bytes: the limit of protobuf messages
_ROOM, _RATIO = 64 << 20, 16  # weights shrink to a sixteenth at most, except in small nets
MOST_BLOCKS = 1000  # the largest nets have 40
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
    value_heads: tuple[str, ...] = (DEFAULT_HEADS.value,)
    policy_heads: tuple[str, ...] = (DEFAULT_HEADS.policy,)
    training: str = ""  # parameters noted by its trainer
    mixed: bool = False  # residual blocks with encoders behind them


def unpack(content: bytes) -> bytes:
    """The protobuf of a net file, gunzipped if gzipped. Raises ValueError if the gzip data is damaged, or unpacks to
    more than a net can have."""
    most = min(MAX_NET, _ROOM + _RATIO * len(content))
    return unpack_gzip(content, most) if content.startswith(GZIP_MAGIC) else content


def read_header(message: bytes) -> NetHeader:
    """The header of an unpacked lc0 net. Raises ValueError for other bytes."""
    if not message.startswith(LC0_MAGIC):
        raise ValueError("it does not begin as an lc0 net does")
    try:
        return _read(message)
    except (IndexError, struct.error, TypeError, AttributeError):
        raise ValueError("its protobuf is damaged") from None


def _read(message: bytes) -> NetHeader:
    net = dict(fields(message))
    version = dict(fields(_message(net, 3)))
    layout = dict(fields(_message(dict(fields(_message(net, 4))), 2)))
    training = dict(fields(_message(net, 5)))
    weights = list(fields(_message(net, 10)))
    residual = sum(number == 2 for number, _ in weights)
    encoders = sum(number == 27 for number, _ in weights)
    if residual + encoders > MOST_BLOCKS:
        raise ValueError(f"it has {residual + encoders:,} blocks, which no net has")
    steps = training.get(1)
    return NetHeader(
        min_version="v" + ".".join(str(version.get(i, 0)) for i in (1, 2, 3)),
        input_format=int(layout.get(1, 1)),
        network=_word(NETWORKS, layout.get(3, 1)),
        policy=_word(POLICIES, layout.get(4, 0)),
        value=_word(VALUES, layout.get(5, 0)),
        moves_left=bool(layout.get(6, 0)),
        blocks=encoders or residual,
        filters=_width(dict(weights)),
        training_steps=int(steps) if isinstance(steps, int) else None,
        value_heads=_heads(weights, 44, VALUE_HEADS),
        policy_heads=_heads(weights, 45, POLICY_HEADS),
        training=_message(training, 6).decode(errors="replace"),
        mixed=bool(residual and encoders),
    )


def _heads(weights: Sequence[Field], number: int, names: Mapping[str, int]) -> tuple[str, ...]:
    """The heads in one of the messages ValueHeads and PolicyHeads; the first of `names` by default."""
    numbers = {at for at, _ in fields(_message(dict(weights), number))}
    return tuple(name for name, at in names.items() if at in numbers) or (next(iter(names)),)


def _message(parent: dict[int, int | bytes], number: int) -> bytes:
    value = parent.get(number, b"")
    if not isinstance(value, bytes):
        raise ValueError("its protobuf is damaged")
    return value


def _word(names: dict[int, str], value: int | bytes) -> str:
    return names.get(int(value), f"unknown ({value!r})")


def _width(weights: dict[int, int | bytes]) -> int:
    """Channels of the tower: the embedding's biases (26), else the means or biases of the input convolution (1)."""
    layer = dict(fields(_message(weights, 26)))
    if not layer:
        convolution = dict(fields(_message(weights, 1)))
        layer = dict(fields(_message(convolution, 3 if 3 in convolution else 2)))
    if (encoding := layer.get(4, LINEAR16)) not in (0, LINEAR16):
        raise ValueError(f"its weights are {_word(ENCODINGS, encoding)}; only LINEAR16 is supported")
    return len(_message(layer, 3)) // 2  # LINEAR16: two bytes a weight


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a protobuf message, in order, with every occurrence of a repeated one.

    Raises IndexError, struct.error or ValueError for bytes that are not a message.
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = read_varint(message, at)
        wire_type = tag & 7
        if wire_type == 0:
            value, at = read_varint(message, at)
            yield tag >> 3, value
        elif wire_type == 5:
            yield tag >> 3, struct.unpack_from("<I", message, at)[0]
            at += 4
        elif wire_type == 1:
            yield tag >> 3, struct.unpack_from("<Q", message, at)[0]
            at += 8
        elif wire_type == 2:
            length, at = read_varint(message, at)
            if at + length > end:
                raise ValueError("its protobuf is cut off")
            yield tag >> 3, message[at : at + length]
            at += length
        else:
            raise ValueError("its protobuf is damaged")


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """(the integer that begins at byte `at`, the byte after it)."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift >= 70:  # no number in a protobuf is longer; megabytes of bytes would take hours
            raise ValueError("its protobuf is damaged")
