"""The store: one SQLite file with every position, net value, deep value, fit, run and failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valuerepair.store.store import Store as Store

__all__ = ["DEFAULT_PATH", "Store"]

DEFAULT_PATH = "valuerepair.db"


def __getattr__(name: str) -> object:
    """Loads `Store` on first use: it brings numpy and pandas, which `vr --help` has no time for."""
    if name == "Store":
        from valuerepair.store.store import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
