"""What is known about the candidates of a store, in sections: labels, second looks, diversity, games."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valuerepair.candidates import label_rates, outcomes, verdict, weights
from valuerepair.candidates.labelled import labels_of

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store


def sections(store: Store, frame: pd.DataFrame, threshold: float, labels: pd.DataFrame | None = None) -> dict[str, Any]:
    """The sections `labels`, `confirmed`, `diversity` and `played` of `vr stats`, JSON-able.

    `frame` holds the candidates at `threshold` (`Store.candidates`), `labels` their labels (`labels_of`) where they
    were found before.
    """
    labels = labels_of(store, frame) if labels is None else labels
    return {
        "labels": label_rates.figures(store, frame, threshold, labels),
        "confirmed": verdict.figures(store, frame, threshold),
        "diversity": weights.figures(store, frame, threshold, labels),
        "played": outcomes.figures(store, frame),
    }


def lines(sections: dict[str, Any]) -> list[str]:
    """The sections as text for a terminal; nothing where there are no candidates."""
    confirmed = verdict.lines(sections["confirmed"])
    return [
        *label_rates.lines(sections["labels"]),
        *([""] if confirmed and confirmed[0] else []),
        *confirmed,
        *weights.lines(sections["diversity"]),
        *outcomes.lines(sections["played"]),
    ]
