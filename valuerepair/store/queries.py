"""Queries of a store: its nets and oracles, the frame of scored positions, the candidates in it, one position whole."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import values
from valuerepair.chess.positions import decode_move, decode_moves
from valuerepair.errors import ValueRepairError
from valuerepair.files import file_sha256
from valuerepair.question import Question, is_candidate
from valuerepair.store.columns import (
    CELLS,
    CODES,
    GAME_KEY,
    NUMBERS,
    OF_CUT,
    OF_EXPANDED,
    OF_Q,
    both_q,
    columns,
    shares,
    stored_rungs,
    typed,
)
from valuerepair.store.connection import StoreConnection
from valuerepair.store.rows import EXPANDED, FULL, value_condition
from valuerepair.store.scale import alpha
from valuerepair.store.selection import selection_weights

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

# `value_condition` decides which value counts.
_FRAME_ROWS = """
FROM deep_values v
JOIN net_values n ON n.net_id = :net AND n.position_id = v.position_id
JOIN positions p ON p.id = v.position_id
JOIN games g ON g.id = p.game_id
WHERE {counts}
"""
_TEXTS = {
    "fen": "p.fen", "start_fen": "p.start_fen", "moves": "p.moves", "white": "g.white", "black": "g.black",
    "event": "g.event", "date": "g.date", "result": "g.result", "played": "p.played", "net_best": "n.best_move",
    "deep_best": "v.best_move", "pv": "v.pv",
}  # fmt: skip
CELLS_OF_FRAME = {**_TEXTS, **CELLS}
_READ: dict[str, Callable[[Any], str | None]] = {
    "moves": lambda moves: " ".join(decode_moves(np.frombuffer(moves, "<u2"))),
    "net_best": lambda move: decode_move(move) if move else None,
}
COLUMNS = [
    "position_id", "key", "fen", "start_fen", "moves", "ply", "side", "phase", "pieces",
    "source", "game", "game_id", "white", "black", "event", "date", "result", "played",
    "eval_cp", "eval_mate", "history_known", "kind",
    "net", "net_q", "net_w", "net_d", "net_l", "net_best", "net_entropy",
    "oracle", "nodes", "depth", "time_ms", "cp", "mate", "deep_w", "deep_d", "deep_l", "deep_best", "pv",
    "deep_q", "disagreement", "weight",
]  # fmt: skip


# -- the frame --------------------------------------------------------------------------------------------------------


def frame(
    connection: StoreConnection,
    question: Question,
    *,
    text: bool = True,
    candidates_only: bool = False,
    ids: NDArray[np.int64] | None = None,
    only: Sequence[str] | None = None,
    cut: bool = False,
) -> pd.DataFrame:
    """All positions scored by both net and oracle, one row each, by position_id.

    The columns are `COLUMNS`, or `only` some of them. All scores are from the side to move: net_q and deep_q in
    [-1, 1], disagreement = net_q - deep_q in [-2, 2]; net_w/d/l are fractions, deep_w/d/l per mille, cp centipawns,
    mate moves, net_entropy nats; `moves`, `net_best`, `deep_best`, `played` and `pv` are UCI. Missing numbers are NaN,
    missing words None. deep_q is NaN if the engine gave no score of the kind that `question.q_from` names. `weight` is
    how many positions a row represents (`selection.selection_weights`): 1 without screening; a cut position that
    something else had searched weighs 0.

    If `question.expanded` includes positions beyond those sampled from games, there are three more columns: `root_id`,
    the sampled candidate from which a position was reached (a sampled position is its own root); `step`, how it was
    reached from a candidate (None for a sampled one); `inferred`, whether its value was inferred from the search of
    another position. `kind` is then not only ``game``: ``aside``, ``policy`` and ``search`` are sampled positions next
    to the games (`archives.off_game`), without a step; None is a position that was only reached from candidates.

    With `cut` there are also rows of sampled positions that a ladder cut. Their deep_q, nodes, deep_best etc. are of
    the last rung that was searched; one more column, `rung`, has its nodes (NaN: searched in full); and `weight` is 0,
    as audited positions represent them. Candidates are determined without them.

    Without `text` the columns `_TEXTS` are left out. With `candidates_only` the frame has only the candidates, with
    `ids` only the positions with these position_ids. Fewer columns take less time and memory.

    attrs: net {name, sha256, history_fill}, oracle {label, digest}, alpha {value, origin}, q_from, expanded.
    """
    with snapshot(connection):
        pair = pick(connection, question.net, question.oracle)
        wanted = [name for name in only or [*COLUMNS, *_more_columns(question, cut)] if text or name not in _TEXTS]
        subset = candidates_only or ids is not None
        numbers = (*(("weight",) if subset else NUMBERS), *OF_EXPANDED, *OF_CUT)
        table, attrs = _judged(connection, pair, question, [name for name in numbers if name in wanted], cut)
        if candidates_only:
            table = _rows_of(table, is_candidate(table["disagreement"], question.threshold))
        if ids is not None:
            table = _rows_of(table, np.isin(table["position_id"], ids))
        cells = {name: cell for name, cell in CELLS_OF_FRAME.items() if name in wanted and name not in table}
        if cells:
            rungs = stored_rungs(connection, pair[1]) if cut else ()
            counts = value_condition(question.expanded, "v.position_id", rungs=rungs)
            table |= _read_cells(connection, pair, table["position_id"], counts, cells, subset)
        return _assemble(table, attrs, wanted)


def table(
    connection: StoreConnection,
    question: Question,
    only: Sequence[str],
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Columns of `frame` as arrays [n] by name, and its attrs; `only` are some of `columns.NUMBERS`, `CODES`,
    `OF_EXPANDED` and `GAME_KEY`, deep_q and disagreement."""
    with snapshot(connection):
        pair = pick(connection, question.net, question.oracle)
        numbers = [name for name in only if name in (*NUMBERS, *CODES, *OF_EXPANDED, GAME_KEY)]
        by_name, attrs = _judged(connection, pair, question, ["weight", *numbers])
        return {name: by_name[name] for name in only}, attrs


def _rows_of(table: dict[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return {name: column[np.flatnonzero(mask)] for name, column in table.items()}


def _judged(
    connection: StoreConnection, pair: tuple[int, int], question: Question, names: Sequence[str], cut: bool = False
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The columns `names`, position_id, net_q, deep_q and disagreement of all rows; and the frame's attrs."""
    expanded, q_from = question.expanded, question.q_from
    # All columns at once, so that each table is read once: `alpha` uses them too.
    read = columns(connection, *pair, dict.fromkeys((*OF_Q, *shares(q_from), *names)), expanded, cut)
    chosen = alpha(connection, *pair, question.alpha)
    net_q, deep_q = both_q(connection, *pair, chosen.value, q_from, expanded, cut)
    by_name = {name: read[name] for name in ("position_id", *names)}
    by_name |= {"net_q": net_q, "deep_q": deep_q, "disagreement": net_q - deep_q}
    return by_name, attrs_of(connection, pair, question, chosen)


def _more_columns(question: Question, cut: bool) -> tuple[str, ...]:
    """The columns that a frame has besides `COLUMNS`."""
    return (*(OF_EXPANDED if question.expanded != "no" else ()), *(OF_CUT if cut else ()))


@contextmanager
def snapshot(connection: StoreConnection) -> Iterator[None]:
    """All queries within see the same state, whatever a writer commits meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def candidates(connection: StoreConnection, question: Question, *, cut: bool = False) -> pd.DataFrame:
    """The rows of `frame` with ``|disagreement| >= threshold``, the largest first, equal ones by position_id."""
    unordered = frame(connection, question, candidates_only=True, cut=cut)
    order = np.argsort(-np.abs(unordered["disagreement"].to_numpy()), kind="stable")
    ordered: pd.DataFrame = unordered.iloc[order].reset_index(drop=True)
    return ordered


def _read_cells(
    connection: StoreConnection,
    pair: tuple[int, int],
    ids: NDArray[np.int64],
    counts: str,
    cells: Mapping[str, str],
    subset: bool,
) -> dict[str, NDArray[Any]]:
    """The columns of `cells` by name, for the rows with these ascending `ids`, which are all or, with `subset`, a few.

    `counts` is the condition of `value_condition`.
    """
    only = "AND v.position_id IN (SELECT value FROM json_each(:ids))" if subset else ""
    query = f"SELECT {', '.join(cells.values())} {_FRAME_ROWS.format(counts=counts)} {only} ORDER BY v.position_id"
    # A column of objects per name, filled as rows arrive: no second copy of a million histories.
    by_name = {name: np.empty(len(ids), object) for name in cells}
    reads = [_READ.get(name) for name in cells]
    cursor, count = connection.cursor(), 0
    cursor.checks_histories = subset
    of_ids = json.dumps(ids.tolist()) if subset else ""
    cursor.execute(query, {"net": pair[0], "oracle": pair[1], "ids": of_ids})
    for i, row in enumerate(cursor, 1):
        for column, cell, read in zip(by_name.values(), row, reads, strict=True):
            column[i - 1] = cell if read is None else read(cell)
        count = i
    if count < len(ids):
        raise connection.lost()
    return {name: column if name in _TEXTS else typed(name, column) for name, column in by_name.items()}


def _assemble(table: dict[str, Any], attrs: dict[str, Any], wanted: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    rows = len(table["position_id"])
    table |= {"net": [attrs["net"]["name"]] * rows, "oracle": [attrs["oracle"]["label"]] * rows}
    result: pd.DataFrame = pd.DataFrame(
        {column: table[column] for column in (*COLUMNS, *OF_EXPANDED, *OF_CUT) if column in wanted}
    )
    result.attrs.update(attrs)
    return result


def attrs_of(
    connection: StoreConnection, pair: tuple[int, int], question: Question, chosen: values.Alpha
) -> dict[str, Any]:
    """The attrs of a frame of this net and oracle; `chosen` is the alpha."""
    net_id, oracle_id = pair
    sha256, fill = connection.execute("SELECT sha256, history_fill FROM nets WHERE id = ?", (net_id,)).fetchone()
    label, digest = connection.execute("SELECT label, digest FROM oracles WHERE id = ?", (oracle_id,)).fetchone()
    return {
        "net": {"name": net_label(connection, net_id), "sha256": sha256, "history_fill": fill},
        "oracle": {"label": label, "digest": digest},
        "alpha": {"value": chosen.value, "origin": chosen.origin},
        "q_from": question.q_from,
        "expanded": question.expanded,
    }


_SHORTEST_DIGEST = 6


def pick(connection: StoreConnection, net: str | None, oracle: str | None) -> tuple[int, int]:
    """(net_id, oracle_id) of the pair with most scored positions that fits; see `Store.pick`."""
    path = connection.path
    nets = _nets(connection)
    oracles = connection.execute("SELECT id, label, digest FROM oracles").fetchall()
    if not nets or not oracles:
        raise ValueRepairError(f"nothing is scored in {path} yet; run vr mine first")
    fitting_nets = fitting(connection, net)
    fitting_oracles = [
        i for i, label, oracle_digest in oracles if oracle is None or _is_oracle(oracle, label, oracle_digest)
    ]
    if not fitting_nets:
        assert net is not None
        raise ValueRepairError(f"no net {net} in {path}; it has {_listed(net_label(connection, i) for i in nets)}")
    if not fitting_oracles:
        raise ValueRepairError(f"no oracle {oracle} in {path}; it has {_listed(label for _, label, _ in oracles)}")
    pairs = [(i, j) for i in fitting_nets for j in fitting_oracles if _any_scored(connection, i, j)]
    if not pairs:
        by_whom = f" by {net or 'any net'} and {oracle or 'any oracle'}" if net or oracle else ""
        raise ValueRepairError(f"no position in {path} is scored{by_whom} yet; run vr mine first")
    if len(pairs) == 1:  # nearly always; counting would read every row
        return pairs[0]
    counts = {pair: _scored_count(connection, *pair) for pair in pairs}
    most = [pair for pair, count in counts.items() if count == max(counts.values())]
    return most[0] if len(most) == 1 else max(most, key=lambda pair: _latest(connection, *pair))


def fitting(connection: StoreConnection, net: str | None) -> list[int]:
    """The ids of the nets that `net`, as given to ``--net``, fits; None fits all."""
    nets = _nets(connection)
    digest = file_sha256(net) if net is not None and os.path.isfile(net) else None
    exactly = [i for i, (_, key) in nets.items() if net is not None and key in (net.lower(), digest)]
    if net is None or exactly:
        return exactly or list(nets)  # an exact key excludes the net's other heads
    # A file is recognised by its content: nets before and after training often share a name.
    return [i for i, (name, key) in nets.items() if (key.startswith(digest) if digest else _is_net(net, name, key))]


def _nets(connection: StoreConnection) -> dict[int, tuple[str, str]]:
    """Name and SHA-256 of each net."""
    return {i: (name, key) for i, name, key in connection.execute("SELECT id, name, sha256 FROM nets")}


def net_label(connection: StoreConnection, net_id: int) -> str:
    """A net's name, with 12 digits of its SHA-256 if the store has another net of this name."""
    nets = _nets(connection)
    name, key = nets[net_id]
    shared = any(other_name.lower() == name.lower() and other_key != key for other_name, other_key in nets.values())
    return _with_digest(name, key) if shared else name


def _with_digest(name: str, sha256: str) -> str:
    return f"{name} ({sha256[:12]})"


SCORED = f"""
FROM deep_values v JOIN net_values n ON n.net_id = ? AND n.position_id = v.position_id
WHERE v.oracle_id = ? AND v.stage IN ('{FULL}', '{EXPANDED}')
"""


def _any_scored(connection: StoreConnection, net_id: int, oracle_id: int) -> bool:
    """Whether any position is scored by both, including positions that are in no game: a store may have only these."""
    return bool(connection.execute(f"SELECT EXISTS (SELECT 1 {SCORED})", (net_id, oracle_id)).fetchone()[0])


def _scored_count(connection: StoreConnection, net_id: int, oracle_id: int) -> int:
    query = f"SELECT count(*) {SCORED} AND v.stage = '{FULL}'"
    return int(connection.execute(query, (net_id, oracle_id)).fetchone()[0])


def _latest(connection: StoreConnection, net_id: int, oracle_id: int) -> tuple[Any, ...]:
    """The key by which `pick` sorts pairs with equally many positions: the last runs of the net and of the oracle, then
    their names.

    It does not use ids, because a merge changes them. Runs that only compared a net do not count, because they did not
    mine for it; their options tell them apart (`judge.compared_nets`).
    """
    last_run = "SELECT max(started || ' ' || identity) FROM runs WHERE id IN ({})"
    mined = last_run.format("SELECT run_id FROM net_values WHERE net_id = ?")
    mined += " AND json_extract(options, '$.history_fill') IS NULL"
    judged = last_run.format(f"SELECT run_id FROM deep_values WHERE oracle_id = ? AND stage = '{FULL}'")
    names = "SELECT n.sha256, n.history_fill, o.digest FROM nets n, oracles o WHERE n.id = ? AND o.id = ?"
    return (
        connection.execute(mined, (net_id,)).fetchone()[0] or "",
        connection.execute(judged, (oracle_id,)).fetchone()[0] or "",
        connection.execute(names, (net_id, oracle_id)).fetchone(),
    )


def _is_net(words: str, name: str, sha256: str) -> bool:
    """Whether the words are the net's name, a path ending in it, or the beginning of its SHA-256."""
    lowered = words.lower()
    plain = {_bare(name), name.lower(), _with_digest(name, sha256).lower()}
    begins = len(lowered) >= _SHORTEST_DIGEST and sha256.startswith(lowered)
    return lowered in plain or _bare(words) in plain or begins


def _bare(name: str) -> str:
    """``nets/maia-1900.pb.gz`` -> ``maia-1900``."""
    return re.sub(r"(\.pb)?(\.gz)?(\.onnx)?$", "", os.path.basename(name).lower())


def _is_oracle(words: str, label: str, digest: str) -> bool:
    """Whether the words are the label or part of it, the beginning of the digest, or a ``--deep`` of this oracle."""
    lowered, lowered_label = words.lower(), label.lower()
    if lowered == lowered_label or (len(lowered) >= _SHORTEST_DIGEST and digest.startswith(lowered)):
        return True
    # stockfish:nodes=20000 fits "stockfish 15.1 nodes=20000": the label has every word of it.
    parts = re.split(r"[\s,]+", lowered_label)
    return all(word in parts for word in re.split(r"[\s,:]+", lowered) if word)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


def eco_headers(connection: StoreConnection, game_ids: Sequence[int]) -> list[str | None]:
    """The ECO header of each game, None if it has none. The text is untrusted."""
    query = "SELECT id, json_extract(headers, '$.ECO') FROM games WHERE id IN (SELECT value FROM json_each(?))"
    wanted = json.dumps(sorted({int(number) for number in game_ids}))
    by_game = dict(connection.execute(query, (wanted,)))
    return [by_game.get(int(number)) for number in game_ids]


# -- one position -----------------------------------------------------------------------------------------------------

# Name (as in `Store.frame`, if a frame has the column) -> SQL.
_COLUMNS = {
    "position_id": "p.id", **{name: CELLS_OF_FRAME[name] for name in COLUMNS if name in CELLS_OF_FRAME},
    "net_best_p": "n.best_p", "deep_own_q": "v.q",
    "stage": "v.stage", "failure": 'coalesce(f.reason, x.reason) AS "failures.reason"',
    "cut_at": "CASE WHEN NOT coalesce(c.searched, e.searched) THEN coalesce(c.cut_at, e.cut_at) END "
    'AS "screened.cut_at"',
    "chance": 'coalesce(c.chance, e.chance) AS "screened.chance"',
    "root_id": "e.root_id", "parent_id": "e.parent_id", "step": "e.step", "distance": "e.distance",
}  # fmt: skip


class PlayedFrom(NamedTuple):
    """A game that was played from a position; `z` is its result for the side to move there, None: undecided."""

    white: str
    black: str
    z: float | None


def one_position(store: Store, position_id: int, net_id: int, oracle_id: int) -> dict[str, Any]:
    """A position of the store with the values of a net and an oracle (0: none): `_COLUMNS` and `weight`.

    Values are as in `Store.frame`, None if missing. `moves` and `pv` are lists of UCI moves. `stage` is that of the
    deep value (`store.rows`). `failure`: why the oracle has no value. `cut_at` and `chance`:
    where the screening ladder cut the position, and the probability of a candidate there. `root_id`, `parent_id`,
    `step` and `distance` say how `vr expand` reached the position.
    """
    query = f"""
        SELECT {", ".join(_COLUMNS.values())} FROM positions p JOIN games g ON g.id = p.game_id
        LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
        LEFT JOIN deep_values v ON {value_condition("all", "p.id")} AND v.position_id = p.id
        LEFT JOIN failures f ON f.oracle_id = :oracle AND f.stage = '{FULL}' AND f.position_id = p.id
        LEFT JOIN failures x ON x.oracle_id = :oracle AND x.stage = '{EXPANDED}' AND x.position_id = p.id
        LEFT JOIN expanded e ON e.net_id = :net AND e.oracle_id = :oracle AND e.position_id = p.id
        LEFT JOIN screened c ON c.net_id = :net AND c.oracle_id = :oracle AND c.position_id = p.id
        WHERE p.id = :id
    """
    cells = store.connection.row(query, {"net": net_id, "oracle": oracle_id, "id": position_id})
    row: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=True))
    (weight,) = selection_weights(store.connection, np.array([position_id]), oracle_id, net_id).tolist()
    row["moves"] = list(decode_moves(np.frombuffer(row["moves"], "<u2")))
    row["pv"] = (row["pv"] or "").split()
    row["net_best"] = decode_move(row["net_best"]) if row["net_best"] else None
    row["history_known"] = bool(row["history_known"])
    return row | {"weight": weight}


def played_from(store: Store, position_id: int) -> list[PlayedFrom]:
    """The games that began at a position of the store, in the order of runs and games."""
    query = """
        SELECT g.white, g.black, g.z FROM plays g JOIN positions p ON p.key = g.key
        WHERE p.id = ? ORDER BY g.run_id, g.number
    """
    return [PlayedFrom(*row) for row in store.connection.execute(query, (position_id,))]
