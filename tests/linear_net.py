"""Nets that are one linear layer over the planes for each head: as small as one that can be trained can be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.nets.protobuf import model

if TYPE_CHECKING:
    from valuerepair.training.graph import HeadOutputs

MOVES = 1858


class LinearNet:
    """A trunk of `width` sums over the planes, and of each head a layer over these; tanh makes the scalar value."""

    def __init__(self, value: str = "wdl", moves_left: bool = True, width: int = 16, seed: int = 0) -> None:
        dice = np.random.default_rng(seed)
        self.scalar = value == "scalar"
        sizes = {"policy": MOVES, "value": 1 if self.scalar else 3} | ({"moves_left": 1} if moves_left else {})
        self.parameters: dict[str, NDArray[np.float32]] = {
            "trunk/w": dice.normal(0, 0.05, (112 * 64, width)).astype(np.float32)
        }
        for head, size in sizes.items():
            self.parameters[f"{head}/w"] = dice.normal(0, 0.1, (width, size)).astype(np.float32)
            self.parameters[f"{head}/b"] = np.zeros(size, np.float32)
        self._heads = sizes

    def forward(self, parameters: Mapping[str, Any], planes: Any) -> HeadOutputs:
        import jax.numpy as jnp

        from valuerepair.training.graph import HeadOutputs

        # The clock's plane is as large as its square root here, so that it does not outweigh all others.
        seen = jnp.sqrt(planes.reshape(len(planes), -1)) @ parameters["trunk/w"]
        trunk = jnp.maximum(seen, 0) + 0.1 * seen
        outputs = {head: trunk @ parameters[f"{head}/w"] + parameters[f"{head}/b"] for head in self._heads}
        value, plies = outputs["value"], outputs.get("moves_left")
        return HeadOutputs(
            outputs["policy"],
            None if self.scalar else value,
            jnp.tanh(value[:, 0]) if self.scalar else None,
            None if plies is None else 20 * plies[:, 0],
        )

    def of_head(self, name: str) -> frozenset[str]:
        return frozenset(parameter for parameter in self.parameters if parameter.startswith(f"{name}/"))


def linear_onnx(path: Path, times: float) -> Path:
    """A net with a scalar value head, tanh of a sum over the planes, that says `times` as much."""
    dice = np.random.default_rng(7)
    weights = {
        "trunk": dice.normal(0, 0.1, (112 * 64, 8)).astype(np.float32),
        "policy": dice.normal(0, 0.5, (8, 1858)).astype(np.float32),
        "value": dice.normal(0, 0.1, (112 * 64, 1)).astype(np.float32),
        "times": np.array([times], np.float32),
    }
    nodes = [
        ("Flatten", ["/input/planes"], ["seen"]),
        ("MatMul", ["seen", "trunk"], ["sums"]),
        ("MatMul", ["sums", "policy"], ["/output/policy"]),
        ("MatMul", ["seen", "value"], ["sum"]),
        ("Tanh", ["sum"], ["q"]),
        ("Mul", ["q", "times"], ["/output/value"]),
    ]
    shapes = {"/output/policy": ("batch", 1858), "/output/value": ("batch", 1)}
    path.write_bytes(model({"/input/planes": ("batch", 112, 8, 8)}, shapes, nodes, weights))
    return path
