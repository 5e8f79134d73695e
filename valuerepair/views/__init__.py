"""Looking at a store: plots, boards. Names are imported on first use; matplotlib takes its time."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valuerepair.views import boards as boards
    from valuerepair.views import figures as figures
    from valuerepair.views import report as report
    from valuerepair.views import scatter as scatter

__all__ = ["boards", "report", "scatter"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
