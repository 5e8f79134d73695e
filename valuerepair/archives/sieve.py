"""Which rows of a block pass the filters: each filter counts what it turns away of what those before it left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.options import SampleOptions

Index = NDArray[np.int64]


class Sieve:
    """`at` [n] are the rows that passed all filters so far; a filter has one entry for each of them."""

    def __init__(self, at: Index, rejected: Counter[str]) -> None:
        self.at, self._rejected = at, rejected

    def keep(self, fits: NDArray[np.bool_], reason: str) -> None:
        """Goes on with the rows that fit, and counts the others under the reason."""
        rejected = len(fits) - int(np.count_nonzero(fits))
        if rejected:
            self._rejected[reason] += rejected
            self.at = self.at[fits]

    def keep_unless(self, reasons: Iterable[str | None]) -> None:
        """Goes on with the rows for which there is no reason against it."""
        given = np.array([reason or "" for reason in reasons], np.str_)
        for reason in sorted(set(given.tolist()) - {""}):
            fits = given != reason
            self.keep(fits, reason)
            given = given[fits]

    def keep_pieces(self, count: Callable[[Index], NDArray[np.integer]], options: SampleOptions) -> None:
        """Goes on with the rows that have not too few and not too many men, of which `count` gives the numbers."""
        least, most = options.min_pieces, options.max_pieces
        if least is not None:
            self.keep(count(self.at) >= least, f"fewer than {least} pieces")
        if most is not None:
            self.keep(count(self.at) <= most, f"more than {most} pieces")
