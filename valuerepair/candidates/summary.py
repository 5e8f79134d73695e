"""What is known about the candidates of a store, in sections: labels, second looks, diversity, games."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valuerepair.candidates import label_rates, outcomes, verdict, weights

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store


def sections(store: Store, frame: pd.DataFrame, threshold: float) -> dict[str, Any]:
    """The sections `labels`, `confirmed`, `diversity` and `played` of `vr stats`, JSON-able.

    `frame` holds the candidates at `threshold` (`Store.candidates`).
    """
    return {
        "labels": label_rates.figures(store, frame, threshold),
        "confirmed": verdict.figures(store, frame, threshold),
        "diversity": weights.figures(store, frame, threshold),
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
