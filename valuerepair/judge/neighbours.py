"""The positions of a store that are most like one position: in material, pawn structure and king placement."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.calibration import Calibration
from valuerepair.chess import values
from valuerepair.chess.bits import bit_count
from valuerepair.chess.board import bitboards, parse_fens
from valuerepair.chess.position_text import read_argument
from valuerepair.chess.positions import Position, decode_move
from valuerepair.chess.rows import RIGHTS, STATE
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.judge.material import material_signature
from valuerepair.question import QFrom, Question, is_candidate
from valuerepair.store.queries import attrs_of, table
from valuerepair.store.rows import INFERRED, signed, value_condition
from valuerepair.store.scale import calibrated_of
from valuerepair.store.store import Store
from valuerepair.text import formatted, json_fields, table_lines

_MOST_DIGITS = 18  # any such number fits into an integer of SQLite
_SCORES = "n.q, v.cp, v.mate, v.w, v.d, v.l, v.q"
_POSITION = f"p.id, p.fen, p.phase, p.ply, g.source, g.number, n.best_move, v.best_move, v.stage = '{INFERRED}'"


@dataclass(frozen=True, slots=True)
class Judged:
    """A position of the store; Q from the side to move, NaN if net or oracle have not scored it.

    `calibrated_q` is the expected deep Q given net_q, None if the question is not calibrated. `inferred`: the position
    was not searched itself; its deep Q comes from the search of a position from which the expected line leads to it.
    """

    position_id: int
    fen: str
    phase: str
    ply: int
    source: str
    game: int
    net_q: float
    deep_q: float
    disagreement: float
    net_best: str | None
    deep_best: str | None
    inferred: bool
    calibrated_q: float | None = None

    def labels(self, threshold: float) -> list[str]:
        """The sign of a candidate, phase and material."""
        sign = "optimistic" if self.disagreement > 0 else "pessimistic"
        wrong = [sign] if is_candidate(self.disagreement, threshold) else []
        return [*wrong, self.phase, material_signature(self.fen)]

    def as_json(self, threshold: float) -> dict[str, Any]:
        """JSON-able; NaN is None. `calibrated_q` is there if the question is calibrated."""
        fields = json_fields(self)
        if self.calibrated_q is None:
            del fields["calibrated_q"]
        return {**fields, "labels": self.labels(threshold)}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A position and its distance: the sum, its parts, and whether the distance is that of its mirror image."""

    position: Judged
    distance: float
    material: float
    pawns: float
    kings: float
    mirrored: bool


@dataclass(frozen=True, slots=True)
class ValueScale:
    """The values that are shown: numbers and names of net and oracle, the alpha, and the curve that maps net Q."""

    net_id: int
    oracle_id: int
    net: str
    oracle: str
    alpha: values.Alpha
    q_from: QFrom
    calibration: Calibration | None


@dataclass(frozen=True)
class Similar:
    """The nearest positions, nearest first, among `searched`; `query` is the position itself if the store has it.

    `scale` is None while nothing is scored.
    """

    fen: str
    query: Judged | None
    neighbours: list[Neighbour]
    searched: int
    threshold: float
    candidates_only: bool
    scale: ValueScale | None

    def lines(self) -> list[str]:
        """The query, a line for each neighbour, and how many of these are candidates."""
        scale, lines = self.scale, [f"like {self.fen}"]
        if self.query is not None:
            query = self.query
            numbers = ", ".join(f"{name} {value}" for name, value in _values(query).items())
            lines.append(f"  position {query.position_id} of the store: {numbers}  {_labels(query, self.threshold)}")
        if scale is not None:
            source = scale.alpha.source(scale.q_from) + (", by calibrated Q" if scale.calibration else "")
            lines.append(f"{scale.net} against {scale.oracle}, {source}; Q from the side to move")
        among = f"candidates at {self.threshold:g}" if self.candidates_only else "positions"
        lines.append(
            f"the nearest {len(self.neighbours)} of {self.searched:,} {among}; distance = material + pawns + kings"
        )
        rows = []
        for near in self.neighbours:
            judged = near.position
            labels = _labels(judged, self.threshold) + (" mirrored" if near.mirrored else "")
            parts = near.distance, near.material, near.pawns, near.kings
            rows.append((*parts, *_values(judged).values(), str(judged.position_id), judged.fen, labels))
        calibrated = "calibrated:>10 | " if scale is not None and scale.calibration is not None else ""
        lines += table_lines(_COLUMNS.format(calibrated), rows)
        return lines if self.candidates_only else lines + self._candidate_counts()

    def _candidate_counts(self) -> list[str]:
        """How many neighbours are candidates by a search, and how many by an inferred value."""
        sizes: dict[bool, list[float]] = {False: [], True: []}
        for near in self.neighbours:
            if not math.isnan(size := abs(near.position.disagreement)):
                sizes[near.position.inferred].append(size)
        candidates = {
            inferred: sum(is_candidate(size, self.threshold) for size in of_kind) for inferred, of_kind in sizes.items()
        }
        searched, inferred = sizes[False], sizes[True]
        counts = []
        if searched:
            mean = sum(searched) / len(searched)
            counts.append(
                f"{candidates[False]} of {len(searched)} scored are candidates at {self.threshold:g}; "
                f"mean |net Q - deep Q| {mean:.3f}"
            )
        if inferred:
            counts.append(f"by inferred values: {candidates[True]} of {len(inferred)}")
        return counts

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-able; NaN is None."""
        scale = self.scale
        return {
            "fen": self.fen,
            "net": None if scale is None else scale.net,
            "oracle": None if scale is None else scale.oracle,
            "alpha": None if scale is None else json_fields(scale.alpha),
            "calibration": None if scale is None or scale.calibration is None else scale.calibration.figures(),
            "threshold": self.threshold,
            "candidates_only": self.candidates_only,
            "searched": self.searched,
            "query": None if self.query is None else self.query.as_json(self.threshold),
            "neighbours": [
                {name: value for name, value in json_fields(near).items() if name != "position"}
                | near.position.as_json(self.threshold)
                for near in self.neighbours
            ],
        }


def find_similar(
    store: Store, words: str, question: Question, limit: int = 10, *, candidates_only: bool = False
) -> Similar:
    """The positions of the store nearest to the one that `words` name: a FEN, an EPD line, or a position_id.

    The result has at most `limit` positions, without the position itself; with `candidates_only` only candidates. All
    positions of the store count, also those that are in no game or have an inferred value, whatever `question.expanded`
    is. Equally near ones are ordered by the number of squares with other pieces, then by id. Raises UsageError for
    words that are not a legal position and for a limit below 1, ValueRepairError for an unknown position_id, a store
    without other positions, and, with `candidates_only`, one without candidates.
    """
    check_least("--limit", limit)
    position, own_id = read_query(store, words)
    scale = _scale(store, question)
    among = _candidates(store, question) if candidates_only else None
    ids, nearest, searched = search(store, position, among, limit)
    if not searched:
        kind = f"candidate at {question.threshold:g}" if candidates_only else "position"
        raise ValueRepairError(f"{store.path} has no {kind} but this one to compare with; mine more (vr mine)")
    judged = _judged(store, scale, [*([own_id] if own_id else []), *ids.tolist()])
    columns = nearest.total, nearest.material, nearest.pawns, nearest.kings, nearest.mirrored
    parts = zip(*(column.tolist() for column in columns), strict=True)
    neighbours = [Neighbour(judged[i], *part) for i, part in zip(ids.tolist(), parts, strict=True)]
    query = judged.get(own_id)
    return Similar(position.fen, query, neighbours, searched, question.threshold, candidates_only, scale)


def read_query(store: Store, words: str) -> tuple[Position, int]:
    """The position that a user means, and its position_id in the store, 0 if it is not there."""
    (most,) = store.connection.execute("SELECT coalesce(max(id), 0) FROM positions").fetchone()
    if (number := words.strip()).isdecimal():
        is_too_large = len(number) > _MOST_DIGITS
        query = "SELECT fen FROM positions WHERE id = ?"
        row = None if is_too_large else store.connection.execute(query, (int(number),)).fetchone()
        if row is None:
            raise ValueRepairError(f"no position {number} in {store.path}; the last one's number is {most}")
        return read_argument(row[0]), int(number)
    position = read_argument(words)
    if not most:
        raise ValueRepairError(f"{store.path} has no positions yet; run vr mine first")
    key = signed(np.array([position.key], np.uint64))[0]
    row = store.connection.execute("SELECT id FROM positions WHERE key = ?", (key,)).fetchone()
    return position, 0 if row is None else int(row[0])


# -- values -----------------------------------------------------------------------------------------------------------


def _scale(store: Store, question: Question) -> ValueScale | None:
    if (pair := store.pair_of(question)) is None:
        return None
    alpha = store.alpha(*pair, question.alpha)
    attrs = attrs_of(store.connection, pair, question, alpha, None)
    fitted = store.calibration(question).calibration if question.calibration == "fitted" else None
    return ValueScale(*pair, attrs["net"]["name"], attrs["oracle"]["label"], alpha, question.q_from, fitted)


def _candidates(store: Store, question: Question) -> NDArray[np.int64]:
    """The position_ids of the candidates. Raises ValueRepairError if there are none."""
    columns, _ = table(store.connection, replace(question, expanded="all"), ("position_id", "disagreement"))
    disagreement = columns["disagreement"]
    ids: NDArray[np.int64] = columns["position_id"][is_candidate(disagreement, question.threshold)]
    if not len(ids):
        largest = np.nan_to_num(np.abs(disagreement)).max()
        raise ValueRepairError(
            f"no candidate at {question.threshold:g} in {store.path}: the largest disagreement is {largest:.3f}; "
            "lower --threshold"
        )
    return ids


def _judged(store: Store, scale: ValueScale | None, ids: Sequence[int]) -> dict[int, Judged]:
    """The positions with these ids, by id."""
    query = f"""
        SELECT {_POSITION}, {_SCORES} FROM json_each(:ids) j
        CROSS JOIN positions p ON p.id = j.value CROSS JOIN games g ON g.id = p.game_id
        LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
        LEFT JOIN deep_values v ON {value_condition("all", "p.id")} AND v.position_id = p.id
    """
    parameters = {"net": 0, "oracle": 0}
    if scale is not None:
        parameters.update(net=scale.net_id, oracle=scale.oracle_id)
    rows = store.connection.rows_of(ids, query, parameters)
    columns = [column.tolist() for column in _values_of(store, scale, rows)]
    is_calibrated = scale is not None and scale.calibration is not None
    judged = {}
    for row, net, expected, deep in zip(rows, *columns, strict=True):
        number, fen, phase, ply, source, game, net_best, deep_best, inferred = row[:9]
        best = decode_move(net_best) if net_best else None
        judged[number] = Judged(
            number,
            fen,
            phase,
            ply,
            source,
            game,
            net,
            deep,
            expected - deep,
            best,
            deep_best,
            bool(inferred),
            expected if is_calibrated else None,
        )
    return judged


def _values_of(store: Store, scale: ValueScale | None, rows: Sequence[tuple[Any, ...]]) -> tuple[Floats, ...]:
    """net_q, the expected deep Q given it (net_q without calibration) and deep_q [n] of rows of positions and scores;
    NaN where nothing is scored."""
    if scale is None or not rows:
        return (np.full(len(rows), np.nan),) * 3
    cells = np.array([row[9:] for row in rows], np.float64)
    net_q, deep_q = cells[:, 0], values.deep_q(cells[:, 1:], scale.alpha.value, scale.q_from)
    if scale.calibration is None:
        return net_q, net_q, deep_q
    return net_q, calibrated_of(store.connection, scale.calibration, [row[0] for row in rows], net_q), deep_q


CHUNK_ROWS = 32_768


def search(
    store: Store, position: Position, among: NDArray[np.int64] | None, limit: int
) -> tuple[NDArray[np.int64], Distances, int]:
    """The nearest positions (position_ids and distances), and the number of positions searched.

    They are ordered by distance, then by the number of squares with other pieces, then by id. `among` are the
    position_ids to choose from, None for all; the position itself is never one.
    """
    condition = "key <> :key" + ("" if among is None else " AND id IN (SELECT value FROM json_each(:ids))")
    parameters = {
        "key": signed(np.array([position.key], np.uint64))[0],
        "ids": "" if among is None else json.dumps(among.tolist()),
    }
    query, searched = shapes([position.fen]), 0
    ids, near = np.empty(0, np.int64), distances(query, shapes([]))
    rows = store.connection.execute(f"SELECT id, fen FROM positions WHERE {condition} ORDER BY id", parameters)
    while chunk := rows.fetchmany(CHUNK_ROWS):
        searched += len(chunk)
        ids = np.concatenate([ids, [number for number, _ in chunk]])
        columns = zip(near, distances(query, shapes([fen for _, fen in chunk])), strict=True)
        near = Distances._make(np.concatenate(pair) for pair in columns)
        nearest = np.lexsort((ids, near.pieces, near.total))[:limit]
        ids, near = ids[nearest], Distances._make(column[nearest] for column in near)
    return ids, near, searched


Bits = NDArray[np.uint64]

# Pawn, knight, bishop, rook, queen: the usual values in pawns.
VALUES = np.array([1, 3, 3, 5, 9], np.float64)
PAWN_WEIGHT = 0.5
KING_WEIGHT = 0.5

_FILES = np.uint64(0x0101010101010101) << np.arange(8, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Shapes:
    """n positions as their side to move sees them.

    `men` uint64[2, 6, n] are bitboards of pawns, knights, bishops, rooks, queens and king, the mover's first; `kings`
    int64[2, 2, n] file and rank of both kings; `rights` bool[n] whether anybody may still castle.
    """

    men: Bits
    kings: Ids
    rights: NDArray[np.bool_]

    def mirrored(self) -> Shapes:
        """The same positions with the files in reverse order, from h to a."""
        kings = np.stack([7 - self.kings[:, 0], self.kings[:, 1]], 1)
        return Shapes(_flip_files(self.men), kings, self.rights)


class Distances(NamedTuple):
    """How far n positions are from one: the parts and their sum [n], `mirrored` where the mirror image is nearer.

    `pieces` are the numbers of squares with another knight, bishop, rook or queen, which only decide between equals.
    """

    total: Floats
    material: Floats
    pawns: Floats
    kings: Floats
    mirrored: NDArray[np.bool_]
    pieces: Floats


def shapes(fens: Sequence[str]) -> Shapes:
    """The shapes of FENs; raises ValueError ``row i: reason`` for a text that is not a position."""
    boards = parse_fens(fens)
    men = bitboards(boards)
    square = bit_count(men[:, 5] - np.uint64(1)).astype(np.int64)  # the bits below the king's
    return Shapes(men, np.stack([square & 7, square >> 3], 1), (boards[:, STATE] & RIGHTS) != 0)


def distances(query: Shapes, others: Shapes) -> Distances:
    """The distances of `others` [n] from the one position of `query`.

    If neither a position nor the query has castling rights, the nearer of the position and its mirror image counts.
    """
    plain = _parts(query, others)
    if query.rights[0]:
        return plain
    image = _parts(query.mirrored(), others)
    nearer = (image.total < plain.total) | ((image.total == plain.total) & (image.pieces < plain.pieces))
    nearer &= ~others.rights
    total, pawns, kings, pieces = (
        np.where(nearer, getattr(image, name), getattr(plain, name)) for name in ("total", "pawns", "kings", "pieces")
    )
    return Distances(total, plain.material, pawns, kings, nearer, pieces)


def _parts(query: Shapes, others: Shapes) -> Distances:
    unlike = bit_count(others.men ^ query.men)  # [2, 6, n] squares that differ
    more = np.abs(_counts(others.men) - _counts(query.men))  # [2, 6, n] men more or fewer
    more_on_file = np.abs(_counts(_pawns_by_file(others)) - _counts(_pawns_by_file(query)))  # [8, 2, n]
    material = VALUES @ more[:, :-1].sum(0)
    pawns = PAWN_WEIGHT * (unlike[:, 0].sum(0) + more_on_file.sum((0, 1)))
    kings = KING_WEIGHT * np.abs(others.kings - query.kings).max(1).sum(0)
    pieces = unlike[:, 1:-1].sum((0, 1), np.float64)
    total = material + pawns + kings
    return Distances(total, material, pawns, kings, np.zeros(len(total), np.bool_), pieces)


def _counts(words: Bits) -> NDArray[np.int16]:
    return bit_count(words).astype(np.int16)  # signed, for differences


def _pawns_by_file(positions: Shapes) -> Bits:
    """[8, 2, n] the pawns of both sides on each file."""
    return np.asarray(positions.men[:, 0] & _FILES[:, None, None])


def _flip_files(words: Bits) -> Bits:
    """The words with the bits of each byte reversed."""
    bits = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(bits, axis=-1, bitorder="big").view(np.uint64)


_COLUMNS = (
    "distance:>8.1f | mat.:>5.0f | pawns:>5.1f | kings:>5.1f | "
    "net Q:>8 | {}deep Q:>7 | differ:>7 | id:>8 | FEN:< | labels:<"
)


def _labels(judged: Judged, threshold: float) -> str:
    return ", ".join([*judged.labels(threshold), *(["inferred deep Q"] if judged.inferred else [])])


def _values(judged: Judged) -> dict[str, str]:
    """The values of a position by their names; the difference is that of the calibrated Q, if there is one."""
    calibrated = {} if judged.calibrated_q is None else {"calibrated": judged.calibrated_q}
    numbers = {"net Q": judged.net_q, **calibrated, "deep Q": judged.deep_q, "differ": judged.disagreement}
    return {name: formatted(value, "+.3f", "-") for name, value in numbers.items()}
