"""Nets at one node: files and registry, lc0's input planes and policy, ONNX Runtime sessions.

Names are imported on first use, so that looking for lc0 or a known net costs neither Numba nor ONNX Runtime.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valuerepair.nets.devices import DEVICES
    from valuerepair.nets.net import Net, NetIdentity, NetValues, open_net
    from valuerepair.nets.providers import onnx_providers_usable
    from valuerepair.nets.registry import DEFAULT_NET, KNOWN_NETS, pull
    from valuerepair.nets.session import RawOutputs
    from valuerepair.nets.weights import find_lc0

__all__ = [
    "DEFAULT_NET",
    "DEVICES",
    "KNOWN_NETS",
    "Net",
    "NetIdentity",
    "NetValues",
    "RawOutputs",
    "find_lc0",
    "onnx_providers_usable",
    "open_net",
    "pull",
]

_HOMES = {
    "DEFAULT_NET": "registry",
    "DEVICES": "devices",
    "KNOWN_NETS": "registry",
    "Net": "net",
    "NetIdentity": "net",
    "NetValues": "net",
    "RawOutputs": "session",
    "find_lc0": "weights",
    "onnx_providers_usable": "providers",
    "open_net": "net",
    "pull": "registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
