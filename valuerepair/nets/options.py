"""What computes a net: the device and the precision. It imports little, because every command loads it.

The reference is float32. In a store, values of another precision belong to another `variant` of the net.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Precision = Literal["f32", "f16"]

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
NAMES = {CPU: "CPU", CUDA: "CUDA"}


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
BY_WORD = {"cpu": ON_CPU, "cuda": Device(CUDA), "cuda:f16": Device(CUDA, "f16")}
DEVICES = ("auto", *BY_WORD)
# The devices that compute at float32.
REFERENCE_DEVICES = ("auto", "cpu", "cuda")


def split_key(key: str) -> tuple[str, str]:
    """(SHA-256 of a net, variant of its values) from the key of these values in a store."""
    sha256, dash, variant = key.partition("-")
    return sha256, dash + variant


def device_of(variant: str) -> str | None:
    """The ``--device`` that computes values of this variant; None for float32, which every device computes."""
    return "cuda:f16" if variant.endswith("f16") else None
