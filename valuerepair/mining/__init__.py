"""The pipeline: archives are sampled, the net evaluates, the oracle searches, the store keeps; all at once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valuerepair.mining.opening import open_evaluators as open_evaluators
    from valuerepair.mining.options import MineOptions as MineOptions
    from valuerepair.mining.pipeline import mine as mine
    from valuerepair.mining.summary import MineSummary as MineSummary

_HOMES = {"MineOptions": "options", "MineSummary": "summary", "mine": "pipeline", "open_evaluators": "opening"}
__all__ = ["MineOptions", "MineSummary", "mine", "open_evaluators"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
