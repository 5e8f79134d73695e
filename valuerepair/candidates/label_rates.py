"""How many candidates have which label: the section `labels` of `vr stats`, and what `vr label` shows."""

from __future__ import annotations

from collections import Counter
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.candidates.labelled import KINDS, NAMES, labels_of, masks
from valuerepair.store.rates import Rate, weighted

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

# Families and signatures shown, the most frequent ones.
MOST_SHOWN = 6
_OF_POLICY = ("value-blind", "partly-blind", "policy-blind")
_QUANTILES = (0.1, 0.5, 0.9)


def figures(store: Store, frame: pd.DataFrame, threshold: float, known: pd.DataFrame | None = None) -> dict[str, Any]:
    """The shares of labels among the candidates at `threshold` in `frame` (see `Store.frame`, with texts), JSON-able.

    `rates`, `openings` and `pieces` (the most frequent families of both) have for each label `count`, `total`, `rate`,
    `low` and `high`: the share of the candidates with the label, weighted by the frame's weights, and its 95 %
    interval. The three of blindness are shares of the `with_priors` candidates that the policy is known of.
    `disagreement` (|net Q - deep Q|) and `wdl_kl` (nats)
    have the 10th, 50th and 90th percentile over the `with_wdl` candidates that both have W/D/L of. `known` are the
    labels of the frame's rows (`labels_of`) where they were found before.
    """
    rows = frame[frame["disagreement"].abs() >= threshold]
    labels = labels_of(store, rows) if known is None else known.loc[rows.index]
    weights = rows["weight"].to_numpy(np.float64) if "weight" in rows else np.ones(len(rows))
    found, asked = masks(labels), labels["oracle_move_p"].notna().to_numpy()
    everywhere = np.ones(len(rows), np.bool_)
    measured = labels["wdl_kl"].notna().to_numpy()
    return {
        "threshold": threshold,
        "candidates": len(rows),
        "with_priors": int(asked.sum()),
        "rates": [_rate(name, found[name], asked if name in _OF_POLICY else everywhere, weights) for name in NAMES],
        **{key: _frequent(prefix, labels, weights) for key, prefix in (("openings", "family"), ("pieces", "pieces"))},
        "with_wdl": int(measured.sum()),
        "disagreement": _quantiles(rows["disagreement"].abs().to_numpy(np.float64)[measured]),
        "wdl_kl": _quantiles(labels["wdl_kl"].to_numpy(np.float64)[measured]),
    }


def lines(figures: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal; nothing where there are no candidates."""
    if not figures["candidates"]:
        return []
    shown = ["", f"label, of {figures['candidates']:,} candidates at {figures['threshold']:g}"]
    shown += [_line(row) for row in figures["rates"] if row["count"]]
    if figures["with_priors"] < figures["candidates"]:
        known = figures["with_priors"]
        shown.append(f"  the policy's blindness is known of {known:,} of them (vr label)")
    for key, title in (("openings", "opening family"), ("pieces", "pieces beside pawns")):
        several = [{**row, "label": row["label"].partition(":")[2]} for row in figures[key] if row["count"] > 1]
        if several:
            shown += ["", title, *(_line(row) for row in several)]
    if figures["with_wdl"]:
        off, kl = (" / ".join(f"{x:.2f}" for x in figures[key]) for key in ("disagreement", "wdl_kl"))
        shown += ["", f"|net Q - deep Q| {off}, KL(deep W/D/L || net's) {kl} nats (10th / 50th / 90th percentile)"]
    return shown


def _rate(name: str, hits: NDArray[np.bool_], of: NDArray[np.bool_], weights: NDArray[np.float64]) -> dict[str, Any]:
    rate = weighted(hits[of], weights[of])
    numbers = {key: None if isnan(value) else value for key, value in zip(_KEYS, _numbers(rate), strict=True)}
    return {"label": name, "count": rate.count, "total": rate.total, **numbers}


_KEYS = ("rate", "low", "high")


def _numbers(rate: Rate) -> tuple[float, float, float]:
    return rate.rate, rate.low, rate.high


def _frequent(prefix: str, labels: pd.DataFrame, weights: NDArray[np.float64]) -> list[dict[str, Any]]:
    words = labels[KINDS[prefix]].to_numpy(object)
    counts = Counter(word for word in words if word)
    first = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_SHOWN]
    everywhere = np.ones(len(words), np.bool_)
    return [_rate(f"{prefix}:{word}", np.asarray(words == word, np.bool_), everywhere, weights) for word in first]


def _quantiles(values: NDArray[np.float64]) -> list[float]:
    return np.quantile(values, _QUANTILES).tolist() if len(values) else []


def _line(row: dict[str, Any]) -> str:
    rate = Rate(row["count"], row["total"], *(float("nan") if row[key] is None else row[key] for key in _KEYS))
    return f"  {row['label']:<26}{rate}"
