"""Reports on many positions, quickly: those of a small store again and again, each time with other values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.question import Question
from valuerepair.report.page import OF_ALL, Columns, Content, choose, content_of, document, with_texts
from valuerepair.store.store import Store


def crowded_report(db: Path, path: Path, points: int, threshold: float) -> int:
    """Writes a report of at least so many positions by way of what `report.write` does; returns their number."""
    with Store.open(db) as store:
        every = store.frame(only=OF_ALL)
        every = every[every["disagreement"].notna()]
        shown = choose(every, threshold)
        content = content_of(store, every, shown, with_texts(store, Question(), every.iloc[shown.rows]), threshold)
    times = -(-points // len(shown.rows))
    path.write_bytes(document(_repeated(content, times)))
    return times * len(shown.rows)


def _repeated(content: Content, times: int) -> Content:
    dice, columns = np.random.default_rng(1), Columns()
    layout: dict[str, dict[str, Any]] = content.words["layout"]

    def column(name: str) -> NDArray[Any]:
        at = layout[name]
        return np.frombuffer(content.numbers, f"<{at['type']}", at["length"], at["offset"])

    for name in layout:
        values = np.tile(np.diff(column(name)) if name.endswith("_from") else column(name), times)
        if name.endswith("_from"):
            values = np.cumsum([0, *values.tolist()]).astype(np.uint32)
        elif name in ("net_q", "deep_q"):
            values = np.clip(values + dice.normal(0, 0.2, len(values)), -1, 1)
        columns.add(name, values)
    return Content(content.words | {"layout": columns.layout, "fens": content.words["fens"] * times}, columns.content)
