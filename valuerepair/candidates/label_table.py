"""Single candidates with their labels, for a terminal or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valuerepair.candidates.labelled import labels_of, names

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store


def rows_of(store: Store, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One JSON-able object for each row of a frame (`Store.candidates`): the position, its values and its labels.

    `labels` are the words of `labelled.names`; numbers that are missing are None.
    """
    if not len(frame):
        return []
    labels = labels_of(store, frame)
    rows = []
    for row, label, words in zip(frame.to_dict("records"), labels.to_dict("records"), names(labels), strict=True):
        numbers = {name: label[name] for name in ("oracle_move_p", "oracle_move_rank", "wdl_kl")}
        rows.append(
            {
                "position_id": row["position_id"],
                "fen": row["fen"],
                "net_q": row["net_q"],
                "deep_q": row["deep_q"],
                "net_best": row["net_best"],
                "deep_best": row["deep_best"],
                **{name: None if number != number else number for name, number in numbers.items()},
                "opening": label["opening"],
                "labels": sorted(words),
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as text for a terminal, two lines each; Q of the side to move, p of the search's best move."""
    if not rows:
        return []
    shown = ["net Q  deep Q  search's best, its prior (rank)"]
    for row in rows:
        known = row["oracle_move_p"] is not None
        prior = f"{100 * row['oracle_move_p']:.1f} % ({row['oracle_move_rank']:.0f})" if known else "prior not known"
        words = ", ".join(word for word in row["labels"] if ":" not in word)
        shown.append(f"{row['net_q']:+.2f}  {row['deep_q']:+.2f}   {row['deep_best'] or '-':<6}{prior:<16}{words}")
        shown.append(f"       {row['fen']}" + (f"  {row['opening']}" if row["opening"] else ""))
    return shown
