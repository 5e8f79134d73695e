"""The pipeline: archives are sampled, the net evaluates, the oracle searches, the store keeps; all at once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valuerepair.mining.opening import fitting_screen as fitting_screen
    from valuerepair.mining.opening import open_evaluators as open_evaluators
    from valuerepair.mining.options import MineOptions as MineOptions
    from valuerepair.mining.options import ScreenOptions as ScreenOptions
    from valuerepair.mining.options import parse_screen as parse_screen
    from valuerepair.mining.pipeline import mine as mine
    from valuerepair.mining.summary import MineSummary as MineSummary

_HOMES = {
    "MineOptions": "options",
    "MineSummary": "summary",
    "ScreenOptions": "options",
    "mine": "pipeline",
    "open_evaluators": "opening",
    "fitting_screen": "opening",
    "parse_screen": "options",
}
__all__ = ["MineOptions", "MineSummary", "ScreenOptions", "fitting_screen", "mine", "open_evaluators", "parse_screen"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
