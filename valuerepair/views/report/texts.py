"""Single positions of a store with their words: boards, moves, games. What is of all comes from `Store.frame`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.positions import PROMOTIONS, decode_move
from valuerepair.store.connect import store_errors
from valuerepair.store.second_looks import net_number, oracle_of

if TYPE_CHECKING:
    import sqlite3

    import pandas as pd

    from valuerepair.store import Store

# Of all positions: what is chosen by, and what is drawn of all of them.
OF_ALL = ("position_id", "net_q", "deep_q", "disagreement", "weight")
_WORDS = {
    "fen": "p.fen",
    "start_fen": "p.start_fen",
    "played": "p.played",
    "side": "p.side",
    "phase": "p.phase",
    "deep_best": "v.best_move",
    "pv": "v.pv",
}
_WHOLE = {"ply": "p.ply", "game_id": "p.game_id", "history_known": "p.history_known"}
_REALS = {
    **{f"net_{name}": f"n.{name}" for name in "wdl"},
    **{f"deep_{name}": f"v.{name}" for name in "wdl"},
    **{name: f"v.{name}" for name in ("nodes", "depth", "cp", "mate")},
}
_COLUMNS = {**_WORDS, **_WHOLE, **_REALS, "net_best": "n.best_move", "moves": "p.moves"}
_GAME = ("source", "number", "white", "black", "event", "date", "result")
_HEADERS = {"site": "Site", "round": "Round", "white_elo": "WhiteElo", "black_elo": "BlackElo"}


class Rows(NamedTuple):
    """n positions. What a game says of itself is text that anybody may have written.

    `frame` has the columns of `Store.frame` that labels, books and the page need. `moves` are the histories one behind
    the other, as in `valuerepair.positions`; row i has ``moves[begins[i] : begins[i + 1]]``. `games` has a dict a game
    (`_GAME`, `_HEADERS`), `game_of` int64[n] which of them each row is from.
    """

    frame: pd.DataFrame
    moves: NDArray[np.uint16]
    begins: NDArray[np.int64]
    games: list[dict[str, Any]]
    game_of: NDArray[np.int64]


def with_texts(store: Store, frame: pd.DataFrame) -> Rows:
    """The rows of a frame with the columns `OF_ALL`, ascending by position, read whole.

    Reads only what the rows need: a frame of a million positions with texts would take gigabytes.
    """
    net = frame.attrs["net"]
    with store_errors(store.path):
        asked = {
            "ids": json.dumps(frame["position_id"].tolist()),
            "net": net_number(store.connection, net["sha256"], net["history_fill"]),
            "oracle": oracle_of(store.connection, frame.attrs["oracle"]["digest"]).id,
        }
        cells = _read(store.connection, asked)
        numbers, game_of = np.unique(np.array(cells["game_id"], np.int64), return_inverse=True)
        games = _games(store.connection, numbers)
    moves = np.frombuffer(b"".join(cells["moves"]), "<u2")
    begins = np.cumsum([0, *(len(blob) // moves.itemsize for blob in cells["moves"])])
    columns: dict[str, NDArray[Any]] = {name: objects(cells[name]) for name in _WORDS}
    columns |= {name: np.array(cells[name], np.int64) for name in _WHOLE}
    columns |= {name: np.array(cells[name], np.float64) for name in _REALS}
    columns["moves"] = objects(_lines(moves, begins))
    columns["net_best"] = objects([decode_move(move) if move else None for move in cells["net_best"]])
    columns["game"] = np.array([game["number"] for game in games], np.int64)[game_of]
    columns["source"] = objects([game["source"] for game in games])[game_of]
    whole: pd.DataFrame = frame.assign(**{name: _series(column, frame) for name, column in columns.items()})
    return Rows(whole, moves, begins, games, game_of)


def objects(cells: Sequence[Any]) -> NDArray[np.object_]:
    """The cells as they are: numpy would make an array of texts, or of lists, something else."""
    column = np.empty(len(cells), object)
    column[:] = cells
    return column


def _series(column: NDArray[Any], frame: pd.DataFrame) -> pd.Series[Any]:
    """Objects stay objects: pandas would turn the None among texts into NaN."""
    import pandas as pd

    series: pd.Series[Any] = pd.Series(column, frame.index, object if column.dtype == object else None)
    return series


def _read(connection: sqlite3.Connection, asked: dict[str, Any]) -> dict[str, Sequence[Any]]:
    query = f"""
        SELECT {", ".join(_COLUMNS.values())} FROM positions p
        JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
        JOIN deep_values v ON v.oracle_id = :oracle AND v.stage = 'full' AND v.position_id = p.id
        WHERE p.id IN (SELECT value FROM json_each(:ids)) ORDER BY p.id
    """
    rows = connection.execute(query, asked).fetchall()
    return dict(zip(_COLUMNS, zip(*rows, strict=True) if rows else [()] * len(_COLUMNS), strict=True))


def _games(connection: sqlite3.Connection, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
    """The games of these numbers, which ascend."""
    query = f"SELECT {', '.join(_GAME)}, headers FROM games WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    found = []
    for *cells, text in connection.execute(query, (json.dumps(numbers.tolist()),)):
        headers = json.loads(text)
        of_headers = {name: headers.get(header) for name, header in _HEADERS.items()}
        found.append({**dict(zip(_GAME, cells, strict=True)), **of_headers})
    return found


def _lines(moves: NDArray[np.uint16], begins: NDArray[np.int64]) -> list[str]:
    """The histories in UCI, joined by blanks."""
    words = _move_words()[moves].tolist()
    cuts = begins.tolist()
    return [" ".join(words[first:end]) for first, end in pairwise(cuts)]


@cache
def _move_words() -> NDArray[np.object_]:
    """Each 16-bit move's text."""
    return objects([decode_move(move) for move in range(4096 * len(PROMOTIONS))])
