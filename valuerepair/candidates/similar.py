"""The positions of a store that are most like one position, with what net and oracle say of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import values
from valuerepair.candidates.material import material_signature
from valuerepair.candidates.nearest import search
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.position_text import read_argument
from valuerepair.positions import Position, decode_move
from valuerepair.store.connect import store_errors
from valuerepair.store.queries import QFrom, check_threshold
from valuerepair.store.rows import FULL, signed

if TYPE_CHECKING:
    from valuerepair.store import Store

_CHUNK_ROWS = 65_536
_SCORES = "n.q, v.cp, v.mate, v.w, v.d, v.l, v.q"
_POSITION = "p.id, p.fen, p.phase, p.ply, g.source, g.number, n.best_move, v.best_move"


@dataclass(frozen=True, slots=True)
class SimilarOptions:
    """`threshold` is that of a candidate; with `candidates_only` the others are passed over.

    `mirror`: the mirror image counts too, see `candidates.likeness`. Raises UsageError for a limit below 1 and a
    threshold outside (0, 2].
    """

    limit: int = 10
    threshold: float = 0.55
    candidates_only: bool = False
    mirror: bool = True
    net: str | None = None
    oracle: str | None = None
    alpha: float | None = None
    q_from: QFrom = "cp"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        if self.limit < 1:
            raise UsageError(f"--limit {self.limit}: must be at least 1")


@dataclass(frozen=True, slots=True)
class Judged:
    """A position of the store; Q from the side to move, NaN where net or oracle have not scored it."""

    position_id: int
    fen: str
    phase: str
    ply: int
    source: str
    game: int
    net_q: float
    deep_q: float
    net_best: str | None
    deep_best: str | None

    @property
    def disagreement(self) -> float:
        return self.net_q - self.deep_q

    def labels(self, threshold: float) -> list[str]:
        """What its values and its men say: the sign of a candidate, phase, material."""
        sign = "optimistic" if self.disagreement > 0 else "pessimistic"
        wrong = [sign] if abs(self.disagreement) >= threshold else []
        return [*wrong, self.phase, material_signature(self.fen)]

    def as_dict(self, threshold: float) -> dict[str, Any]:
        """JSON-able; NaN is None."""
        row = {**asdict(self), "disagreement": self.disagreement, "labels": self.labels(threshold)}
        return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A position and how far it is: the sum, its parts, and whether its mirror image is meant (`likeness`)."""

    position: Judged
    distance: float
    material: float
    pawns: float
    kings: float
    mirrored: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """Whose values are shown: the numbers and names of net and oracle, and the alpha."""

    net_id: int
    oracle_id: int
    net: str
    oracle: str
    alpha: values.Alpha
    q_from: QFrom


@dataclass(frozen=True)
class Similar:
    """The nearest positions, nearest first, among `searched`; `query` is the position itself where the store has it.

    `scale` is None while nothing is scored.
    """

    fen: str
    query: Judged | None
    neighbours: list[Neighbour]
    searched: int
    threshold: float
    candidates_only: bool
    scale: Scale | None

    def as_dict(self) -> dict[str, Any]:
        """All of it, JSON-able; NaN is None."""
        scale = self.scale
        return {
            "fen": self.fen,
            "net": None if scale is None else scale.net,
            "oracle": None if scale is None else scale.oracle,
            "alpha": None if scale is None else asdict(scale.alpha),
            "threshold": self.threshold,
            "candidates_only": self.candidates_only,
            "searched": self.searched,
            "query": None if self.query is None else self.query.as_dict(self.threshold),
            "neighbours": [
                {
                    "distance": near.distance,
                    "material": near.material,
                    "pawns": near.pawns,
                    "kings": near.kings,
                    "mirrored": near.mirrored,
                    **near.position.as_dict(self.threshold),
                }
                for near in self.neighbours
            ],
        }


def find_similar(store: Store, words: str, options: SimilarOptions) -> Similar:
    """The positions of the store nearest to the one that `words` mean: a FEN, an EPD line, or a position_id.

    The position itself is not among them. Equally near ones come by how many other pieces stand elsewhere, then by id.
    Raises UsageError for words that mean no legal position, ValueRepairError for a number that is no position_id, a
    store without other positions, and, with `candidates_only`, one without candidates.
    """
    position, own_id = read_query(store, words)
    scale = _scale(store, options)
    among = _candidates(store, scale, options.threshold) if options.candidates_only else None
    ids, far, searched = search(store, position, among, options.limit, options.mirror)
    if not searched:
        what = f"candidate at {options.threshold:g}" if options.candidates_only else "position"
        raise ValueRepairError(f"{store.path} has no {what} but this one to compare with; mine more (vr mine)")
    judged = _judged(store, scale, [own_id, *ids.tolist()])
    parts = zip(*(part.tolist() for part in (far.total, far.material, far.pawns, far.kings, far.mirrored)), strict=True)
    neighbours = [Neighbour(judged[i], *part) for i, part in zip(ids.tolist(), parts, strict=True)]
    query = judged.get(own_id)
    return Similar(position.fen, query, neighbours, searched, options.threshold, options.candidates_only, scale)


def read_query(store: Store, words: str) -> tuple[Position, int]:
    """The position that a user means, and its position_id in the store; 0 where it is not there."""
    with store_errors(store.path):
        (most,) = store.connection.execute("SELECT coalesce(max(id), 0) FROM positions").fetchone()
        if words.strip().isdecimal():
            row = store.connection.execute("SELECT fen FROM positions WHERE id = ?", (int(words),)).fetchone()
            if row is None:
                raise ValueRepairError(f"no position {words.strip()} in {store.path}; the last one's number is {most}")
            return read_argument(row[0], ()), int(words)
        position = read_argument(words, ())
        if not most:
            raise ValueRepairError(f"{store.path} has no positions yet; run vr mine first")
        key = signed(np.array([position.key], np.uint64))[0]
        row = store.connection.execute("SELECT id FROM positions WHERE key = ?", (key,)).fetchone()
    return position, 0 if row is None else int(row[0])


# -- values -----------------------------------------------------------------------------------------------------------


def _scale(store: Store, options: SimilarOptions) -> Scale | None:
    try:
        net_id, oracle_id = store.pick(options.net, options.oracle)
    except ValueRepairError:
        if options.net is not None or options.oracle is not None or options.candidates_only:
            raise
        return None
    alpha = store.alpha(net_id, oracle_id, options.alpha)
    with store_errors(store.path):
        (net,) = store.connection.execute("SELECT name FROM nets WHERE id = ?", (net_id,)).fetchone()
        (oracle,) = store.connection.execute("SELECT label FROM oracles WHERE id = ?", (oracle_id,)).fetchone()
    return Scale(net_id, oracle_id, net, oracle, alpha, options.q_from)


def _candidates(store: Store, scale: Scale | None, threshold: float) -> NDArray[np.int64]:
    """The position_ids of the candidates. Raises ValueRepairError when there is none."""
    assert scale is not None  # _scale raises where candidates are asked for and nothing is scored
    query = f"""
        SELECT v.position_id, {_SCORES} FROM deep_values v
        JOIN net_values n ON n.net_id = ? AND n.position_id = v.position_id
        WHERE v.oracle_id = ? AND v.stage = '{FULL}'
    """
    found, most = [np.empty(0, np.int64)], 0.0
    with store_errors(store.path):
        rows = store.connection.execute(query, (scale.net_id, scale.oracle_id))
        while chunk := rows.fetchmany(_CHUNK_ROWS):
            net_q, deep_q = _both_q([row[1:] for row in chunk], scale)
            off = np.nan_to_num(np.abs(net_q - deep_q))
            found.append(np.array([row[0] for row in chunk], np.int64)[off >= threshold])
            most = max(most, float(off.max()))
    ids = np.concatenate(found)
    if not len(ids):
        raise ValueRepairError(
            f"no candidate at {threshold:g} in {store.path}: the largest disagreement is {most:.3f}; lower --threshold"
        )
    return ids


def _both_q(rows: Sequence[tuple[Any, ...]], scale: Scale) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """net_q and deep_q [n] of rows of `_SCORES`."""
    net_q, cp, mate, w, d, loss, own = np.array(rows, np.float64).reshape(-1, 7).T
    wdl = np.stack([w, d, loss], 1)
    return net_q, values.deep_q(cp, mate, wdl, own, scale.alpha.value, scale.q_from)


def _judged(store: Store, scale: Scale | None, ids: Sequence[int]) -> dict[int, Judged]:
    """The positions `ids`, by id; an id that is not there is left out."""
    query = f"""
        SELECT {_POSITION}, {_SCORES} FROM positions p JOIN games g ON g.id = p.game_id
        LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
        LEFT JOIN deep_values v ON v.oracle_id = :oracle AND v.stage = '{FULL}' AND v.position_id = p.id
        WHERE p.id IN (SELECT value FROM json_each(:ids))
    """
    asked = {"net": 0, "oracle": 0, "ids": json.dumps(list(ids))}
    if scale is not None:
        asked.update(net=scale.net_id, oracle=scale.oracle_id)
    with store_errors(store.path):
        rows = store.connection.execute(query, asked).fetchall()
    nothing = np.full(len(rows), np.nan)
    net_q, deep_q = (nothing, nothing) if scale is None else _both_q([row[8:] for row in rows], scale)
    judged = {}
    for row, net, deep in zip(rows, net_q.tolist(), deep_q.tolist(), strict=True):
        number, fen, phase, ply, source, game, net_best, deep_best = row[:8]
        best = decode_move(net_best) if net_best else None
        judged[number] = Judged(number, fen, phase, ply, source, game, net, deep, best, deep_best)
    return judged
