"""Which labels of errors another net repaired, and which it made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from valuerepair.intervals import Floats, Ids, Interval, rare_changes
from valuerepair.judge.labels import KINDS, NAMES
from valuerepair.text import table_lines

Labels: TypeAlias = Mapping[int, frozenset[str]]  # of candidates, by position_id

# Labels with fewer candidates of both nets together are not printed; JSON has all.
FEWEST_SHOWN = 3
MOST_FAMILIES = 5
_FAMILIES = ("family", "pieces")


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label under two nets.

    `label` is one of `labels.NAMES` or of `labels.KINDS` (``family:French Defense``). `first` and `second` count
    the candidates of each net with it, `both` those of both, `repaired` those of the first alone, `newly` those of the
    second alone. `change` is the share of the second's minus that of the first's in all positions, with an interval of
    resampled games.
    """

    label: str
    first: int
    second: int
    both: int
    repaired: int
    newly: int
    change: Interval


def label_changes(first: Labels, second: Labels, position_id: Ids, weight: Floats, game: Ids) -> list[LabelChange]:
    """The changes of all labels: those of `labels.NAMES` in their order, then the others, the most frequent first.

    `first` and `second` have the labels of each net's candidates by position_id; `position_id`, `weight` and `game`
    [n] are of every position compared.
    """
    counts = Counter(name for side in (first, second) for labels in side.values() for name in labels)
    rank = {name: i for i, name in enumerate(NAMES)}
    names = sorted(counts, key=lambda name: (rank.get(name, len(rank)), -counts[name], name))
    ids = [_ids_of(side) for side in (first, second)]
    row_of = dict(zip(position_id.tolist(), range(len(position_id)), strict=True))
    label_counts, rows, columns, steps = [], list[int](), list[int](), list[float]()
    for column, name in enumerate(names):
        by_first, by_second = (side.get(name, set()) for side in ids)
        repaired, newly = sorted(by_first - by_second), sorted(by_second - by_first)
        rows += [row_of[number] for number in (*repaired, *newly)]
        columns += [column] * (len(repaired) + len(newly))
        steps += [-1.0] * len(repaired) + [1.0] * len(newly)
        both = len(by_first & by_second)
        label_counts.append((name, len(by_first), len(by_second), both, len(repaired), len(newly)))
    cells = np.array(rows, np.int64), np.array(columns, np.int64), np.array(steps)
    changes = rare_changes(*cells, len(names), weight, game)
    return [LabelChange(*numbers, change) for numbers, change in zip(label_counts, changes, strict=True)]


def _ids_of(side: Labels) -> dict[str, set[int]]:
    """The positions with each label."""
    by_label: dict[str, set[int]] = {}
    for number, labels in side.items():
        for name in labels:
            by_label.setdefault(name, set()).add(number)
    return by_label


def shown_labels(labels: list[LabelChange]) -> list[LabelChange]:
    """The labels with enough candidates, without ECO codes and exact material; of families only the most frequent."""
    rows: list[LabelChange] = []
    families: dict[str, list[LabelChange]] = {kind: [] for kind in _FAMILIES}
    for change in labels:
        if change.first + change.second - change.both < FEWEST_SHOWN:
            continue
        kind = change.label.partition(":")[0]
        if kind in families:
            families[kind].append(change)
        elif kind not in KINDS:
            rows.append(change)
    return rows + [change for kind in _FAMILIES for change in families[kind][:MOST_FAMILIES]]


_LABEL_COLUMNS = ":<20 | A wrong:>8, | repaired:>8, | still:>6, | newly:>6, | B wrong:>8, | B - A:<"


def label_lines(rows: list[LabelChange]) -> Iterator[str]:
    """A table of the `shown_labels`, with a title."""
    yield "by label of the error, counted over all positions (many rows: some differ by chance)"
    cells = ((row.label, row.first, row.repaired, row.both, row.newly, row.second, row.change.points) for row in rows)
    yield from table_lines(_LABEL_COLUMNS, cells, "  ")
