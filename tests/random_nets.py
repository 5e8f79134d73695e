"""lc0 nets of every structure with random weights, written by the field numbers of lc0's proto/net.proto.

Layers are LINEAR16. Shapes are those that lc0's readers expect (src/neural/onnx/converter.cc): value heads of 128, with
32 channels in convolutional nets. Weights are scaled so that Q is spread out and not saturated.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# NetworkFormat
CLASSICAL, SE, TRANSFORMER, SEVERAL_HEADS = 3, 4, 6, 7
DENSE_POLICY, CONVOLUTION_POLICY, ATTENTION_POLICY = 1, 2, 3
SCALAR, WDL = 1, 2
RELU, MISH = 0, 1  # DefaultActivation
DEFAULT, RELU_2, SWISH, SELU = 0, 8, 7, 6  # ActivationFunction
POSITION_MAP, DENSE_EMBEDDING = 1, 2
RULE50, PLANES = 109, 112


@dataclass(frozen=True)
class Kind:
    """A structure: NetworkFormat's fields, and how many of what."""

    name: str
    network: int
    policy: int = ATTENTION_POLICY
    value: int = WDL
    input_format: int = 1
    moves_left: bool = False
    activation: int = RELU
    smolgen_activation: int = DEFAULT
    ffn_activation: int = DEFAULT
    embedding: int = 0
    smolgen: bool = False
    gates: bool = False
    policy_encoders: int = 0
    batch_norm: bool = True
    blocks: int = 2
    width: int = 16
    mixed: bool = False  # residual blocks before the encoders


KINDS = (
    Kind("se-dense-policy", SE, DENSE_POLICY, moves_left=True),
    Kind("se-convolution-policy", SE, CONVOLUTION_POLICY, SCALAR, input_format=3, activation=MISH),
    Kind("resnet-attention-policy", CLASSICAL, policy_encoders=1, batch_norm=False, input_format=5),
    Kind("map", TRANSFORMER, embedding=POSITION_MAP, gates=True, input_format=3),
    Kind(
        "map-smolgen", TRANSFORMER, embedding=POSITION_MAP, smolgen=True, gates=True, moves_left=True, activation=MISH,
        ffn_activation=RELU_2, smolgen_activation=SWISH, policy_encoders=1,
    ),
    Kind("map-heads", SEVERAL_HEADS, embedding=POSITION_MAP, input_format=5, activation=MISH),
    Kind("dense-heads", SEVERAL_HEADS, embedding=DENSE_EMBEDDING, input_format=5, smolgen=True, moves_left=True),
    # lc0 0.32.1's converter gives the embedding's feed-forward layer of these the default activation.
    Kind("dense-relu2", SEVERAL_HEADS, embedding=DENSE_EMBEDDING, ffn_activation=RELU_2, moves_left=True),
    Kind(
        "dense-mish", SEVERAL_HEADS, embedding=DENSE_EMBEDDING, activation=RELU, ffn_activation=MISH,
        smolgen=True, smolgen_activation=SWISH, input_format=3,
    ),
)  # fmt: skip
# lc0's CPU backend is wrong for it: nothing to compare with but ONNX Runtime.
MIXED = Kind("mixed", TRANSFORMER, embedding=POSITION_MAP, mixed=True, width=128, blocks=1)
BY_NAME = {kind.name: kind for kind in (*KINDS, MIXED)}


def write(kind: Kind, path: Path, seed: int = 0) -> Path:
    """The net as a `.pb.gz` file."""
    path.write_bytes(gzip.compress(Maker(kind, seed).net(), 1, mtime=0))
    return path


class Maker:
    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind, self.chance = kind, np.random.default_rng([seed, *kind.name.encode()])

    def net(self) -> bytes:
        kind = self.kind
        network_format = numbers(
            (1, kind.input_format), (2, kind.value), (3, kind.network), (4, kind.policy), (5, kind.value),
            (6, int(kind.moves_left)), (7, kind.activation), (8, kind.smolgen_activation), (9, kind.ffn_activation),
            (10, kind.embedding),
        )  # fmt: skip
        version = numbers((1, 0), (2, 29), (3, 0))
        head = b"\x0d" + struct.pack("<I", 0x1C0) + field(2, b"random") + field(3, version)
        body = self.transformer() if kind.embedding else self.resnet()
        training = numbers((1, 1234)) + b"\x15" + struct.pack("<f", 0.25)
        return head + field(4, numbers((1, 1)) + field(2, network_format)) + field(5, training) + field(10, body)

    def weights(self, *shape: int, scale: float = 1.0) -> NDArray[np.float64]:
        """Normal, with the variance that keeps that of what goes through."""
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        return self.chance.normal(0, scale / np.sqrt(fan), shape)

    def layer(self, at: int, *shape: int, scale: float = 1.0, around: float = 0.0) -> bytes:
        return field(at, linear16(self.weights(*shape, scale=scale) + around))

    def dense(self, weights_at: int, outputs: int, inputs: int, *, biased: bool = True, scale: float = 1.4) -> bytes:
        weights = self.layer(weights_at, outputs, inputs, scale=scale)
        return weights + (self.layer(weights_at + 1, outputs, scale=0.1) if biased else b"")

    def norm(self, at: int, size: int) -> bytes:
        return self.layer(at, size, scale=0.1, around=1.0) + self.layer(at + 1, size, scale=0.1)

    # Convolutional nets

    def convolution(self, outputs: int, inputs: int, size: int = 3) -> bytes:
        weights = self.weights(outputs, inputs, size, size, scale=1.2)
        if inputs == PLANES:
            weights *= 2
            weights[:, RULE50] *= 0.01
        if not self.kind.batch_norm:
            return field(1, linear16(weights)) + self.layer(2, outputs, scale=0.1)
        means, betas = self.layer(3, outputs, scale=0.1), self.layer(6, outputs, scale=0.1)
        variances = field(4, linear16(self.chance.uniform(0.5, 1.5, outputs)))
        gammas = field(5, linear16(self.chance.uniform(0.7, 1.4, outputs)))
        return field(1, linear16(weights)) + means + variances + gammas + betas

    def resnet(self) -> bytes:
        kind, width = self.kind, self.kind.width
        out = self.residual_tower()
        if kind.policy == DENSE_POLICY:
            out += field(3, self.convolution(4, width, 1)) + self.dense(4, 1858, 4 * 64)
        elif kind.policy == CONVOLUTION_POLICY:
            out += field(11, self.convolution(width, width)) + field(3, self.convolution(80, width))
        else:
            out += self.dense(4, 24, width) + self.attention_policy(17, 19, 22, 24)
            out += self.policy_encoders(21, 24, 24)
        out += field(6, self.convolution(32, width, 1)) + self.dense(7, 128, 32 * 64)
        out += self.dense(9, 3 if kind.value == WDL else 1, 128)
        if kind.moves_left:
            out += field(12, self.convolution(8, width, 1)) + self.dense(13, 32, 8 * 64) + self.moves(15, 32)
        return out

    def residual_tower(self) -> bytes:
        width = self.kind.width
        out = field(1, self.convolution(width, PLANES))
        for _ in range(self.kind.blocks):
            block = field(1, self.convolution(width, width)) + field(2, self.convolution(width, width))
            if self.kind.network == SE:
                block += field(3, self.dense(1, 8, width) + self.dense(3, 2 * width, 8))
            out += field(2, block)
        return out

    def attention_policy(self, q_at: int, k_at: int, promotion_at: int, inputs: int) -> bytes:
        return self.dense(q_at, 32, inputs) + self.dense(k_at, 32, inputs) + self.layer(promotion_at, 4, 32)

    def policy_encoders(self, at: int, heads_at: int, width: int) -> bytes:
        layers = (field(at, self.encoder(width, 4, smolgen=False)) for _ in range(self.kind.policy_encoders))
        return b"".join(layers) + (numbers((heads_at, 4)) if self.kind.policy_encoders else b"")

    def moves(self, at: int, inputs: int) -> bytes:
        return self.layer(at, 1, inputs, scale=8.0) + self.layer(at + 1, 1, scale=0.1, around=30.0)

    # Transformers

    def transformer(self) -> bytes:
        kind, width = self.kind, 32
        out, inputs = b"", PLANES + 64
        if kind.embedding == DENSE_EMBEDDING:
            inputs = PLANES + 8
            out += self.dense(37, 64 * 8, 64 * 12)
        if kind.mixed:
            inputs = kind.width
            out += self.residual_tower()
        embedding = self.weights(width, inputs, scale=3.0)
        if not kind.mixed:
            embedding[:, RULE50] *= 0.01
        out += field(25, linear16(embedding)) + self.layer(26, width, scale=0.1)
        if kind.gates:
            out += self.layer(33, width * 64, scale=0.1, around=1.0) + self.layer(34, width * 64, scale=0.1)
        if kind.embedding == DENSE_EMBEDDING:
            out += self.norm(39, width) + field(41, self.feed_forward(width, 48)) + self.norm(42, width)
        out += b"".join(field(27, self.encoder(width, 4, smolgen=kind.smolgen)) for _ in range(kind.blocks))
        out += numbers((28, 4))
        if kind.smolgen:
            out += self.layer(35, 64 * 64, 8)
        out += self.heads(width)
        if kind.moves_left:
            out += self.dense(31, 8, width) + self.dense(13, 32, 8 * 64) + self.moves(15, 32)
        return out

    def heads(self, width: int) -> bytes:
        if self.kind.network == TRANSFORMER:
            policy = self.dense(4, 24, width) + self.attention_policy(17, 19, 22, 24) + self.policy_encoders(21, 24, 24)
            return policy + self.dense(29, 16, width) + self.dense(7, 128, 16 * 64) + self.dense(9, 3, 128)
        values = (
            field(at, self.dense(1, 16, width) + self.dense(3, 128, 16 * 64) + self.dense(5, 3, 128))
            for at in (1, 2, 3)  # winner, q, st
        )
        shared = self.dense(1, 24, width)
        own = self.dense(1, 24, width)  # the third head has an embedding of its own
        vanilla, optimistic, soft = (self.attention_policy(3, 5, 7, 24) for _ in range(3))
        policies = shared + field(3, vanilla) + field(4, optimistic) + field(5, own + soft)
        return field(44, b"".join(values)) + field(45, policies)

    def encoder(self, width: int, heads: int, *, smolgen: bool) -> bytes:
        attention = b"".join(self.dense(at, width, width) for at in (1, 3, 5, 7))
        if smolgen:
            compress = self.layer(1, 4, width)
            first = self.dense(2, 16, 4 * 64) + self.norm(4, 16)
            second = self.dense(6, heads * 8, 16) + self.norm(8, heads * 8)
            attention += field(9, compress + first + second)
        feed_forward = field(4, self.feed_forward(width, 48))
        return field(1, attention) + self.norm(2, width) + feed_forward + self.norm(5, width)

    def feed_forward(self, width: int, hidden: int) -> bytes:
        return self.dense(1, hidden, width) + self.dense(3, width, hidden)


def linear16(values: NDArray[np.float64]) -> bytes:
    low, high = np.float32(values.min()), np.float32(values.max())
    if high <= low:
        high = low + np.float32(1)
    steps = np.rint((values - low) / (float(high) - float(low)) * 65535).clip(0, 65535).astype("<u2")
    return b"\x0d" + struct.pack("<f", low) + b"\x15" + struct.pack("<f", high) + field(3, steps.tobytes())


def numbers(*pairs: Sequence[int]) -> bytes:
    return b"".join(varint(at << 3) + varint(value) for at, value in pairs)


def field(at: int, content: bytes) -> bytes:
    return varint(at << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])
