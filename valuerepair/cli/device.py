"""The option ``--device``, the same for every command that runs a net."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from valuerepair.nets.devices import DEVICES, REFERENCE_DEVICES

F = TypeVar("F", bound=Callable[..., Any])


def device_option(*, reference: bool = False) -> Callable[[F], F]:
    """``--device`` for a command; with `reference` only those that compute a net's own values, at float32."""
    words = REFERENCE_DEVICES if reference else DEVICES
    return click.option(
        "--device",
        type=click.Choice(words),
        default="auto",
        show_default=True,
        help="What computes nets: auto is CUDA where it runs, else cpu."
        + ("" if reference else " openvino is at bf16: Q moves by some 0.003."),
    )
