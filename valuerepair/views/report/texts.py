"""The words of single positions of a store: boards, moves and games. Numbers of all rows come from `Store.frame`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.positions import decode_move, decode_moves
from valuerepair.store.connect import store_errors
from valuerepair.store.second_looks import net_number, oracle_of

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

_COLUMNS = {
    "fen": "p.fen",
    "start_fen": "p.start_fen",
    "moves": "p.moves",
    "white": "g.white",
    "black": "g.black",
    "event": "g.event",
    "date": "g.date",
    "result": "g.result",
    "headers": "g.headers",
    "played": "p.played",
    "net_best": "n.best_move",
    "deep_best": "v.best_move",
    "pv": "v.pv",
}
_HEADERS = ("Site", "Round", "WhiteElo", "BlackElo")


def with_texts(store: Store, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of `Store.frame` without texts, with its columns of texts, and `site`, `round`, `white_elo`, `black_elo`.

    Reads only what the rows need: a frame of a million positions with texts would take gigabytes. What comes from a
    game's headers is text that anybody may have written.
    """
    import pandas as pd

    net = frame.attrs["net"]
    query = f"""
        SELECT {", ".join(_COLUMNS.values())} FROM json_each(:ids) j
        JOIN positions p ON p.id = j.value
        JOIN games g ON g.id = p.game_id
        JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
        JOIN deep_values v ON v.oracle_id = :oracle AND v.stage = 'full' AND v.position_id = p.id
        ORDER BY j.key
    """
    columns: dict[str, NDArray[Any]] = {name: np.empty(len(frame), object) for name in _COLUMNS}
    with store_errors(store.path):
        asked = {
            "ids": json.dumps(frame["position_id"].tolist()),
            "net": net_number(store.connection, net["sha256"], net["history_fill"]),
            "oracle": oracle_of(store.connection, frame.attrs["oracle"]["digest"]).id,
        }
        for i, row in enumerate(store.connection.execute(query, asked)):
            for column, cell in zip(columns.values(), row, strict=True):
                column[i] = cell
            columns["moves"][i] = " ".join(decode_moves(np.frombuffer(columns["moves"][i], "<u2")))
            best = columns["net_best"][i]
            columns["net_best"][i] = decode_move(best) if best else None
    headers = [json.loads(text) for text in columns.pop("headers")]
    for name in _HEADERS:
        key = name.lower() if name in ("Site", "Round") else f"{name[:5].lower()}_elo"
        columns[key] = np.array([*(each.get(name) for each in headers), None], object)[:-1]
    # As objects: pandas would turn the None among texts into NaN.
    whole: pd.DataFrame = frame.assign(**{name: pd.Series(each, frame.index, object) for name, each in columns.items()})
    return whole
