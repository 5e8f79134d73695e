"""Where positions come from: PGN, EPD and FEN archives, opened, split into games, filtered, sampled, deduplicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valuerepair.archives.open import total_bytes
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.report import ReadReport

if TYPE_CHECKING:
    from valuerepair.archives.sampling import sample

__all__ = ["ReadReport", "SampleOptions", "sample", "total_bytes"]


def __getattr__(name: str) -> object:
    # Sampling pulls in Numba and the Rust reader; options and reports do not.
    if name == "sample":
        from valuerepair.archives.sampling import sample

        return sample
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
