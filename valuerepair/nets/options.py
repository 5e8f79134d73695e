"""How a net is evaluated: the device, the precision and the heads. It imports little, because every command loads it.

The reference is float32 with the default heads. In a store, other values belong to another `variant` of the net.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from valuerepair.errors import UsageError

Precision = Literal["f32", "f16"]

CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"
NAMES = {CPU: "CPU", CUDA: "CUDA", TENSORRT: "TensorRT"}


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
BY_WORD = {
    "cpu": ON_CPU,
    "cuda": Device(CUDA),
    "cuda:f16": Device(CUDA, "f16"),
    "tensorrt": Device(TENSORRT),
    "tensorrt:f16": Device(TENSORRT, "f16"),
}
DEVICES = ("auto", *BY_WORD)
# The devices that compute at float32.
REFERENCE_DEVICES = tuple(word for word in DEVICES if word == "auto" or BY_WORD[word].precision == "f32")


def split_key(key: str) -> tuple[str, str]:
    """(SHA-256 of a net, variant of its values) from the key of these values in a store."""
    sha256, dash, variant = key.partition("-")
    return sha256, dash + variant


def device_of(variant: str) -> str | None:
    """The ``--device`` that computes values of this variant; None for float32, which every device computes.

    Raises UsageError for bfloat16, which stores of 0.1.0 may have.
    """
    precision = variant.rpartition("-")[2]
    if precision == "bf16":
        raise UsageError(
            "bfloat16 values were computed by OpenVINO, which vr no longer uses; choose another net with --net"
        )
    return "cuda:f16" if precision == "f16" else None


# The fields of ValueHeads and PolicyHeads (lc0 proto/net.proto) by their names in lc0's options.
VALUE_HEADS = {"winner": "winner", "q": "q", "st": "st"}
POLICY_HEADS = {"vanilla": "vanilla", "optimistic": "optimistic_st", "soft": "soft", "opponent": "opponent"}


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads to evaluate with; every net has the default ones."""

    value: str = "winner"
    policy: str = "vanilla"

    @property
    def variant(self) -> str:
        """The suffix of their values in a store: empty for the default heads, else ``-q``, ``-soft``, ``-q-soft``."""
        usual = (DEFAULT_HEADS.value, DEFAULT_HEADS.policy)
        return "".join(f"-{name}" for name in (self.value, self.policy) if name not in usual)


DEFAULT_HEADS = Heads()


def parse_heads(text: str) -> Heads:
    """``q``, ``soft`` or ``q,soft``: the default head for a missing name. Raises UsageError."""
    value, policy = DEFAULT_HEADS.value, DEFAULT_HEADS.policy
    for word in text.split(","):
        if word in VALUE_HEADS:
            value = word
        elif word in POLICY_HEADS:
            policy = word
        else:
            raise UsageError(
                f"{word!r}: must be heads of the net; there are {', '.join(VALUE_HEADS)} of the value and "
                f"{', '.join(POLICY_HEADS)} of the policy"
            )
    return Heads(value, policy)


def heads_of(variant: str) -> Heads:
    """The heads in the variant of values, which may also name a precision."""
    words = variant.split("-")
    value = next((word for word in words if word in VALUE_HEADS), DEFAULT_HEADS.value)
    return Heads(value, next((word for word in words if word in POLICY_HEADS), DEFAULT_HEADS.policy))
