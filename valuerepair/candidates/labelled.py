"""The labels of a store's candidates: its frame, the priors it keeps and the headers of its games put together."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from valuerepair.candidates.labels import label_frame
from valuerepair.store import priors
from valuerepair.store.connect import store_errors
from valuerepair.store.game_headers import header
from valuerepair.store.screening import stored_rungs
from valuerepair.store.second_looks import net_number

if TYPE_CHECKING:
    from valuerepair.store import Store

# Prefixes of names of which there are many -> the column.
KINDS = {"family": "opening_family", "eco": "eco", "pieces": "material_family", "material": "material"}
# What else `names` can say of a row.
NAMES = (
    "optimistic",
    "pessimistic",
    "value-blind",
    "partly-blind",
    "policy-blind",
    "missed-mate",
    "missed-mate:mates",
    "missed-mate:mated",
    "repetition",
    "fortress-like",
    "fortress-like:held",
    "fortress-like:no-progress",
    "in-check",
    "forced",
    "opening",
    "middlegame",
    "endgame",
)


# A fortress shows in how the evaluation of a search grew from its first rung of so many nodes to its end, where that is
# so many times as many. What shorter ones are worth: docs/methods.md, "Labels".
RUNG_NODES, RUNG_TIMES = 10_000, 20


def net_id_of(store: Store, frame: pd.DataFrame) -> int:
    """The number in the store of the net that a frame is of."""
    net = frame.attrs["net"]
    with store_errors(store.path):
        return net_number(store.connection, net["sha256"], net["history_fill"])


def labels_of(store: Store, frame: pd.DataFrame) -> pd.DataFrame:
    """`labels.label_frame` of rows of `Store.frame` or `Store.candidates`, with the priors and headers of the store."""
    known = priors.of(store, net_id_of(store, frame), frame["position_id"].tolist())
    headers = pd.Series(header(store, frame["game_id"].tolist(), "ECO"), frame.index, dtype=object)
    return label_frame(frame.assign(eco_header=headers, rung_cp=_rung_cp(store, frame)), known)


def _rung_cp(store: Store, frame: pd.DataFrame) -> pd.Series[float]:
    """The centipawns of each row's search at its first rung of `RUNG_NODES`; NaN without one, and of mates."""
    _, oracle_id = store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])
    wanted = [str(rung) for rung in stored_rungs(store, oracle_id) if rung >= RUNG_NODES]
    query = """
        SELECT v.position_id, v.stage, v.cp FROM json_each(?) p CROSS JOIN json_each(?) s
        CROSS JOIN deep_values v ON v.oracle_id = ? AND v.stage = s.value AND v.position_id = p.value
    """
    first: dict[int, tuple[int, int | None]] = {}
    ids = frame["position_id"].tolist()
    with store_errors(store.path):
        for number, stage, cp in store.connection.execute(query, (json.dumps(ids), json.dumps(wanted), oracle_id)):
            first[number] = min(first.get(number, (int(stage), cp)), (int(stage), cp), key=itemgetter(0))
    nothing = (math.inf, None)
    cps = [
        np.nan if cp is None or nodes < RUNG_TIMES * rung else cp
        for nodes, (rung, cp) in zip(frame["nodes"].tolist(), (first.get(i, nothing) for i in ids), strict=True)
    ]
    found: pd.Series[float] = pd.Series(cps, frame.index, np.float64)
    return found


def with_labels(store: Store, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its labels as further columns; columns that it has already stay as they are."""
    labels = labels_of(store, frame)
    added = labels[[column for column in labels.columns if column not in frame.columns]]
    joined: pd.DataFrame = pd.concat([frame, added], axis=1)
    joined.attrs.update(frame.attrs)
    return joined


def names(labels: pd.DataFrame) -> list[frozenset[str]]:
    """What each row of `labels` is: words of `NAMES`, and of `KINDS` (``family:French Defense``)."""
    return [frozenset(_names(row)) for row in labels.to_dict("records")]


def masks(labels: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """[n] which rows of `labels` each of `NAMES` is said of: as `names`, but a column at a time."""
    words = {name: labels[name].to_numpy(object) for name in ("sign", "phase", "blind", "missed_mate", "fortress_like")}
    found = {name: words["sign"] == name for name in ("optimistic", "pessimistic")}
    found |= {f"{name}-blind": words["blind"] == name for name in ("value", "partly", "policy")}
    for column, name, kinds in (
        ("missed_mate", "missed-mate", ("mates", "mated")),
        ("fortress_like", "fortress-like", ("held", "no progress")),
    ):
        found |= {f"{name}:{kind.replace(' ', '-')}": words[column] == kind for kind in kinds}
        found[name] = words[column].astype(np.bool_)
    found |= {name.replace("_", "-"): labels[name].to_numpy(np.bool_) for name in ("repetition", "in_check", "forced")}
    found |= {name: words["phase"] == name for name in ("opening", "middlegame", "endgame")}
    return {name: np.asarray(found[name], np.bool_) for name in NAMES}


def _names(row: Mapping[Hashable, Any]) -> list[str]:
    found = [row["sign"], row["phase"]]
    if row["blind"]:
        found.append(f"{row['blind']}-blind")
    for column, name in (("missed_mate", "missed-mate"), ("fortress_like", "fortress-like")):
        if row[column]:
            found += [name, f"{name}:{row[column].replace(' ', '-')}"]
    found += [column.replace("_", "-") for column in ("repetition", "in_check", "forced") if row[column]]
    found += [f"{name}:{row[column]}" for name, column in KINDS.items() if row[column]]
    return [name for name in found if name]
