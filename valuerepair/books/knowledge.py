"""What the store knows of candidates beyond their values: openings by header, and what a book asks to be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from valuerepair.books.options import BookOptions
from valuerepair.candidates.labelled import KINDS, NAMES, labels_of, names
from valuerepair.candidates.verdict import evidence
from valuerepair.errors import UsageError
from valuerepair.store.game_headers import header

if TYPE_CHECKING:
    from valuerepair.store import Store


def add_knowledge(store: Store, rows: pd.DataFrame, options: BookOptions) -> tuple[pd.DataFrame, dict[str, Any]]:
    """`rows` of `Store.candidates` with what `choose_rows` looks at, and who gave the verdicts, for the manifest.

    Columns are added: `eco_header`; `verdict` for `options.confirmed`, by the oracle that took a second look at most of
    the rows; `labels`, a set of names a row, for `options.labels`. Raises UsageError for a label that there is not.
    """
    for label in options.labels:
        _check_label(label)
    made: dict[str, Any] = {"eco_header": header(store, rows["game_id"].tolist(), "ECO")}
    about: dict[str, Any] = {}
    if options.confirmed:
        found = evidence(store, rows)
        made["verdict"] = found["verdict"]
        about["confirmed"] = {key: found.attrs[key] for key in ("second", "alpha")}
    if options.labels:
        made["labels"] = names(labels_of(store, rows))
    return rows.assign(**made), about


def _check_label(label: str) -> None:
    kind, colon, word = label.partition(":")
    if label not in NAMES and not (colon and word and kind in KINDS):
        many = ", ".join(f"{kind}:NAME" for kind in KINDS)
        raise UsageError(f"--label {label}: no such label; there are {', '.join(NAMES)} and {many}")
