"""One HTML file to look at a store with: summary, charts, boards, books. It needs no network and no server."""

from __future__ import annotations

from valuerepair.views.report.points import Shown, choose
from valuerepair.views.report.writing import Written, write

__all__ = ["Shown", "Written", "choose", "write"]
