"""Questions to a store: which nets and oracles, which alpha, the frame of scored positions, the candidates in it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from valuerepair import values
from valuerepair.errors import UsageError
from valuerepair.positions import decode_move, decode_moves
from valuerepair.store.alphas import alpha
from valuerepair.store.columns import CODES, NUMBERS, columns, some
from valuerepair.store.picking import pick
from valuerepair.store.rows import FULL, Known

if TYPE_CHECKING:
    import pandas as pd

QFrom = Literal["cp", "wdl"]

_SCORED = """
FROM deep_values v
JOIN net_values n ON n.net_id = :net AND n.position_id = v.position_id
JOIN positions p ON p.id = v.position_id
JOIN games g ON g.id = p.game_id
LEFT JOIN screened c ON c.net_id = :net AND c.oracle_id = :oracle AND c.position_id = v.position_id
WHERE v.oracle_id = :oracle AND v.stage = 'full'
"""
# One that the ladder would have cut but had searched all the same stands for all like it; together for all there are.
_WEIGHT = """CASE WHEN c.cut_at IS NULL THEN 1.0 WHEN NOT c.searched THEN 0.0 ELSE (SELECT count(*) /
    sum(searched / probability) FROM screened WHERE net_id = :net AND oracle_id = :oracle AND cut_at NOT NULL)
    / c.probability END"""
_TEXTS = {
    "fen": "p.fen",
    "start_fen": "p.start_fen",
    "moves": "p.moves",
    "white": "g.white",
    "black": "g.black",
    "event": "g.event",
    "date": "g.date",
    "result": "g.result",
    "played": "p.played",
    "net_best": "n.best_move",
    "deep_best": "v.best_move",
    "pv": "v.pv",
}
# What a difference is made of, beside the scores of the kind asked for.
_VALUES = ("position_id", "net_q", "mate", "deep_own_q")
COLUMNS = [
    "position_id",
    "key",
    "fen",
    "start_fen",
    "moves",
    "ply",
    "side",
    "phase",
    "pieces",
    "source",
    "game",
    "game_id",
    "white",
    "black",
    "event",
    "date",
    "result",
    "played",
    "eval_cp",
    "eval_mate",
    "history_known",
    "net",
    "net_q",
    "net_w",
    "net_d",
    "net_l",
    "net_best",
    "net_entropy",
    "oracle",
    "nodes",
    "depth",
    "time_ms",
    "cp",
    "mate",
    "deep_w",
    "deep_d",
    "deep_l",
    "deep_best",
    "pv",
    "deep_q",
    "disagreement",
    "weight",
]


def load_json(text: str) -> dict[str, Any]:
    """A JSON object."""
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def alpha_option(text: str) -> float | None:
    """``--alpha`` as given: None for auto. Raises UsageError for what is no number of centipawns."""
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--alpha {text}: give a number of centipawns, or auto") from None


def q_from_option(text: str) -> QFrom:
    """``--q-from`` as given."""
    if text in ("cp", "wdl"):
        return "cp" if text == "cp" else "wdl"
    raise UsageError(f"--q-from {text}: give cp or wdl")


# -- what is known of positions ---------------------------------------------------------------------------------------


def known(
    connection: sqlite3.Connection, ids: NDArray[np.int64], net_id: int, oracle_id: int, stage: str = FULL
) -> list[Known]:
    """What is there of each position, in the order of `ids`."""
    query = f"""
        SELECT n.q, v.position_id IS NOT NULL, v.cp, v.mate, v.w, v.d, v.l, v.q, f.reason, {_WEIGHT}
        FROM json_each(:ids) j
        LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = j.value
        LEFT JOIN deep_values v ON v.oracle_id = :oracle AND v.stage = :stage AND v.position_id = j.value
        LEFT JOIN failures f ON f.oracle_id = :oracle AND f.stage = :stage AND f.position_id = j.value
        LEFT JOIN screened c ON c.net_id = :net AND c.oracle_id = :oracle AND c.position_id = j.value
        ORDER BY j.key
    """
    asked = {"ids": json.dumps(ids.tolist()), "net": net_id, "oracle": oracle_id, "stage": stage}
    return [
        Known(net_q, (cp, mate, w, d, loss, q) if scored else None, failure, weight)
        for net_q, scored, cp, mate, w, d, loss, q, failure, weight in connection.execute(query, asked)
    ]


# -- nets, oracles ----------------------------------------------------------------------------------------------------


def nets(connection: sqlite3.Connection) -> pd.DataFrame:
    """One row a net, with the number of positions it has evaluated."""
    import pandas as pd

    query = """
        SELECT id, name, sha256, history_fill, value_head, input_format, size,
               (SELECT count(*) FROM net_values WHERE net_id = nets.id) AS evaluated FROM nets ORDER BY id
    """
    return pd.read_sql_query(query, connection)


def oracles(connection: sqlite3.Connection) -> pd.DataFrame:
    """One row an oracle, with the number of positions it has scored and failed on."""
    import pandas as pd

    query = """
        SELECT id, label, digest, kind, engine, sha256, limits, options,
               (SELECT count(*) FROM deep_values WHERE oracle_id = oracles.id AND stage = 'full') AS scored,
               (SELECT count(*) FROM failures WHERE oracle_id = oracles.id AND stage = 'full') AS failed
        FROM oracles ORDER BY id
    """
    frame = pd.read_sql_query(query, connection)
    for column in ("limits", "options"):
        frame[column] = frame[column].map(load_json)
    return frame


# -- the frame --------------------------------------------------------------------------------------------------------


def frame(
    connection: sqlite3.Connection,
    path: str,
    net: str | None = None,
    oracle: str | None = None,
    alpha_requested: float | None = None,
    q_from: QFrom = "cp",
    *,
    text: bool = True,
    threshold: float | None = None,
    only: Sequence[str] | None = None,
) -> pd.DataFrame:
    """All positions scored by both, one row each, by position_id; the columns are `COLUMNS`, or `only` some of them.

    All scores and moves' values are from the side to move. net_q, deep_q and disagreement = net_q - deep_q are in
    [-1, 1] and [-2, 2]; net_w/d/l are fractions, deep_w/d/l per mille, cp centipawns, mate moves, net_entropy nats.
    Missing numbers are NaN, missing words None. deep_q is NaN where the engine gave no score of the kind `q_from`
    asks for. `weight` is how many positions a row stands for: 1 without screening; where the ladder would have cut it
    the inverse probability of its search, scaled to the number of all such; 0 if something else had it searched.
    `moves`, `net_best`, `deep_best`, `played`, `pv`: UCI. Without `text` the columns `_TEXTS` are left out. With
    `threshold` only rows with ``|disagreement| >= threshold`` are read whole. Fewer columns take less time and memory.

    attrs: net {name, sha256, history_fill}, oracle {label, digest}, alpha {value, origin}, q_from.
    """
    with _snapshot(connection):
        net_id, oracle_id = pick(connection, path, net, oracle)
        asked = {"net": net_id, "oracle": oracle_id}
        wanted = [name for name in only or COLUMNS if text or name not in _TEXTS]
        # All at once, so that each table is walked once: alpha, too, is by these.
        whole = [name for name in NUMBERS if name in wanted] if threshold is None else []
        columns(connection, net_id, oracle_id, dict.fromkeys((*_VALUES, "cp", *_shares(q_from), *whole)))
        chosen = alpha(connection, net_id, oracle_id, alpha_requested)
        table = _differences(connection, net_id, oracle_id, chosen.value, q_from)
        if threshold is not None:
            rows = np.flatnonzero(np.abs(table["disagreement"]) >= threshold)
            table = {name: column[rows] for name, column in table.items()}
        missing = [name for name in NUMBERS if name in wanted and name not in table]
        if threshold is None:
            table.update(columns(connection, net_id, oracle_id, missing))
        else:
            if "weight" in missing:
                missing.remove("weight")
                table["weight"] = columns(connection, net_id, oracle_id, ("weight",))["weight"][rows]
            table.update(some(connection, net_id, oracle_id, missing, table["position_id"]))
        if set(wanted) & set(_TEXTS):
            table.update(_read_texts(connection, asked, table["position_id"], threshold is not None))
        return _assemble(connection, table, wanted, asked, chosen, q_from)


def table(
    connection: sqlite3.Connection,
    path: str,
    net: str | None,
    oracle: str | None,
    alpha_requested: float | None,
    q_from: QFrom,
    only: Sequence[str],
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Columns of `frame` as arrays [n] by name, and its attrs; `only` are some of `columns.NUMBERS` and `CODES`,
    deep_q and disagreement."""
    with _snapshot(connection):
        net_id, oracle_id = pick(connection, path, net, oracle)
        numbers = [name for name in only if name in (*NUMBERS, *CODES)]
        read = columns(
            connection, net_id, oracle_id, dict.fromkeys((*_VALUES, "cp", "weight", *_shares(q_from), *numbers))
        )
        chosen = alpha(connection, net_id, oracle_id, alpha_requested)
        found = {**read, **_differences(connection, net_id, oracle_id, chosen.value, q_from)}
        attrs = _attrs(connection, {"net": net_id, "oracle": oracle_id}, chosen, q_from)
        return {name: found[name] for name in only}, attrs


def _differences(
    connection: sqlite3.Connection, net_id: int, oracle_id: int, alpha_value: float, q_from: QFrom
) -> dict[str, NDArray[Any]]:
    """position_id, net_q, deep_q and disagreement of all rows."""
    wdl = _shares(q_from)
    found = columns(connection, net_id, oracle_id, (*_VALUES, "cp", *wdl))
    shares = np.stack([found[name] for name in wdl], 1) if wdl else np.full((1, 3), np.nan)
    deep_q = values.deep_q(found["cp"], found["mate"], shares, found["deep_own_q"], alpha_value, q_from)
    return {
        "position_id": found["position_id"],
        "net_q": found["net_q"],
        "deep_q": deep_q,
        "disagreement": found["net_q"] - deep_q,
    }


def _shares(q_from: QFrom) -> tuple[str, ...]:
    return ("deep_w", "deep_d", "deep_l") if q_from == "wdl" else ()


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All questions within see the same state, whatever a writer commits meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def candidates(
    connection: sqlite3.Connection,
    path: str,
    threshold: float,
    net: str | None = None,
    oracle: str | None = None,
    alpha_requested: float | None = None,
    q_from: QFrom = "cp",
) -> pd.DataFrame:
    """The rows of `frame` with ``|disagreement| >= threshold``, the largest first, equal ones by position_id."""
    check_threshold(threshold)
    found = frame(connection, path, net, oracle, alpha_requested, q_from, threshold=threshold)
    order = np.argsort(-np.abs(found["disagreement"].to_numpy()), kind="stable")
    ordered: pd.DataFrame = found.iloc[order].reset_index(drop=True)
    return ordered


def check_threshold(threshold: float) -> None:
    """Raises UsageError for a threshold outside (0, 2]: Q lies in [-1, 1], so no two values differ by more than 2."""
    if not 0 < threshold <= 2:
        raise UsageError(
            f"a threshold lies above 0 and is at most 2, the largest difference of two Q; not {threshold:g}"
        )


def _read_texts(
    connection: sqlite3.Connection, asked: dict[str, int], ids: NDArray[np.int64], some: bool
) -> dict[str, NDArray[Any]]:
    """The columns of `_TEXTS` of the rows `ids`, which are in ascending order."""
    only = "AND v.position_id IN (SELECT value FROM json_each(:ids))" if some else ""
    query = f"SELECT {', '.join(_TEXTS.values())} {_SCORED} {only} ORDER BY v.position_id"
    # A column of objects per name, filled as rows arrive: no second copy of a million histories.
    found = {name: np.empty(len(ids), object) for name in _TEXTS}
    filled = list(found.values())
    moves, best = list(found).index("moves"), list(found).index("net_best")
    for i, row in enumerate(connection.execute(query, {**asked, "ids": json.dumps(ids.tolist()) if some else ""})):
        for column, cell in zip(filled, row, strict=True):
            column[i] = cell
        filled[moves][i] = " ".join(decode_moves(np.frombuffer(row[moves], "<u2")))
        filled[best][i] = decode_move(row[best]) if row[best] else None
    return found


def _assemble(
    connection: sqlite3.Connection,
    table: dict[str, Any],
    wanted: Sequence[str],
    asked: dict[str, int],
    chosen: values.Alpha,
    q_from: str,
) -> pd.DataFrame:
    import pandas as pd

    attrs = _attrs(connection, asked, chosen, q_from)
    rows = len(table["position_id"])
    table |= {"net": [attrs["net"]["name"]] * rows, "oracle": [attrs["oracle"]["label"]] * rows}
    result: pd.DataFrame = pd.DataFrame({column: table[column] for column in COLUMNS if column in wanted})
    result.attrs.update(attrs)
    return result


def _attrs(connection: sqlite3.Connection, asked: dict[str, int], chosen: values.Alpha, q_from: str) -> dict[str, Any]:
    """What a frame says of itself."""
    name, sha256, fill = connection.execute(
        "SELECT name, sha256, history_fill FROM nets WHERE id = :net", asked
    ).fetchone()
    label, digest = connection.execute("SELECT label, digest FROM oracles WHERE id = :oracle", asked).fetchone()
    return {
        "net": {"name": name, "sha256": sha256, "history_fill": fill},
        "oracle": {"label": label, "digest": digest},
        "alpha": {"value": chosen.value, "origin": chosen.origin},
        "q_from": q_from,
    }


__all__ = ["COLUMNS", "QFrom", "alpha", "candidates", "check_threshold", "frame", "known", "nets", "oracles", "pick"]
