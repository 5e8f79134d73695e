"""All benchmarks by name, collected from the rooms' own modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from valuerepair.bench.ratio import BenchData, Comparison

Bench = Callable[[BenchData], Comparison]
MODULES = ("archives", "board", "nets", "search", "engines", "mining", "cluster", "recorded", "selfplay", "training")


def benches() -> dict[str, Bench]:
    """Name -> benchmark, in the order of the pipeline."""
    found: dict[str, Bench] = {}
    for module in MODULES:
        found.update(importlib.import_module(f"valuerepair.bench.{module}").BENCHES)
    return found
