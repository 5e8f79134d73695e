"""What the store knows of candidates beyond their values, where a book asks for it: verdicts and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from valuerepair.books.options import BookOptions
from valuerepair.candidates.verdict import evidence

if TYPE_CHECKING:
    from valuerepair.store import Store


def add_knowledge(store: Store, rows: pd.DataFrame, options: BookOptions) -> tuple[pd.DataFrame, dict[str, Any]]:
    """`rows` of `Store.candidates` with `verdict` for `options.confirmed`, and who gave the verdicts, for the manifest.

    The second look is that of the oracle that looked at most of the rows.
    """
    if not options.confirmed:
        return rows, {}
    found = evidence(store, rows)
    return rows.assign(verdict=found["verdict"]), {"confirmed": {key: found.attrs[key] for key in ("second", "alpha")}}
