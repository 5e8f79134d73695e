"""One HTML file to look at a store with: summary, charts, boards, books. It needs no network and no server."""

from __future__ import annotations

from valuerepair.views.report.writing import Written, write

__all__ = ["Written", "write"]
