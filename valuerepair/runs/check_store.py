"""`vr store check`: is the file whole, are its positions chess, do net and oracle give its values again?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from valuerepair.chess import values
from valuerepair.chess.board import fens, keys, legal_moves, parse_fens, replay
from valuerepair.chess.positions import PHASES, Position, boards, encode_move, phases, piece_counts
from valuerepair.chess.progress import Progress
from valuerepair.errors import ValueRepairError
from valuerepair.inputs import from_json
from valuerepair.nets.devices import split_key
from valuerepair.nets.heads import heads_of
from valuerepair.nets.net import open_net
from valuerepair.nets.planes import FILLS
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles.oracle import Climb, Oracle
from valuerepair.question import DEFAULT_THRESHOLD
from valuerepair.runs.confirm import after
from valuerepair.runs.same_oracle import net_files, open_same, stored_specs
from valuerepair.store.integrity import FATAL, StoreCheck, integrity_checks
from valuerepair.store.rows import (
    AFTER,
    CHOSEN,
    EXPANDED,
    FULL,
    POSITION_CELLS,
    REJUDGED,
    SECOND,
    DeepResult,
    OracleIdentity,
    engine_words,
    position_batch,
    unsigned,
)
from valuerepair.store.second_looks import StoredOracle
from valuerepair.store.store import Store

_WIDTH = 52


def verify(
    store: Store,
    *,
    sample: int = 20,
    seed: int = 0,
    nets: Sequence[str] = (),
    deep: Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[StoreCheck]:
    """All checks, as they are done: the database, boards and moves of all rows, then `sample` values a net and oracle.

    A file that is damaged, or has a text for a number, is asked no further; with `sample` 0 nothing is computed again.
    `nets` are files of nets beside those known by name, `deep` engines as ``--deep`` names them. Raises
    ValueRepairError for a file that is no net.
    """
    for path in nets:
        read_net_file(path)
    bar = progress or Progress("verifying", quiet=True)
    for check in integrity_checks(store):
        yield check
        if check.wrong and check.name in FATAL:
            return
    counts = [store.connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in _TABLES]
    bar.set_total(sum(counts))
    yield from position_checks(store, bar.advance)
    yield from move_checks(store, bar.advance)
    yield play_check(store, bar.advance)
    yield digest_check(store)
    if sample:
        files = net_files(store, nets)
        yield from net_checks(store, sample, seed, files)
        yield from deep_checks(store, sample, seed, files, deep, bar)


_TABLES = ("positions", "net_values", "priors", "deep_values", "plays")


def line(check: StoreCheck) -> str:
    """One row of the table: name, checked, wrong, and an example or a note."""
    state = f"{check.wrong:,} WRONG" if check.wrong else "ok" if not check.unchecked else "not checked"
    about = "; ".join(each for each in (check.example and f"e.g. {check.example}", check.note) if each)
    return f"{check.name:<{_WIDTH}} {check.checked or check.unchecked:>11,}  {state:<12} {about}".rstrip()


CHUNK = 5000
_NO_MOVE = 0xFFFF  # of no position: played, it is not legal
_ROW = re.compile(r"row (\d+)")
_POSITIONS = (
    "SELECT id, key, fen, start_fen, moves, history_known, side, phase, pieces, played FROM positions "
    "WHERE id > ? ORDER BY id LIMIT ?"
)
_NAMES = (
    "positions: FEN",
    "positions: key of the FEN",
    "positions: side, phase, pieces",
    "positions: moves lead to the FEN",
    "moves played are legal",
)


class _Count:
    """Counts what is wrong, and keeps the first."""

    def __init__(self, name: str) -> None:
        self.name, self.checked, self.wrong, self.example = name, 0, 0, ""

    def take(self, checked: int, wrong: Sequence[str]) -> None:
        self.checked += checked
        self.wrong += len(wrong)
        self.example = self.example or (wrong[0] if wrong else "")

    @property
    def check(self) -> StoreCheck:
        return StoreCheck(self.name, self.checked, self.wrong, self.example)


def sound(count: int, make: Callable[[list[int]], Any]) -> tuple[list[int], dict[int, str], Any]:
    """Rows that `make` takes, the others with what it says of them, and what it makes of the former.

    `make` raises ValueError ``row i: reason`` for the i-th of the rows that it is given.
    """
    rows, bad = list(range(count)), dict[int, str]()
    while True:
        try:
            return rows, bad, make(rows)
        except ValueError as error:
            match = _ROW.match(str(error))
            if match is None:
                raise
            at = int(match[1])
            bad[rows[at]] = str(error)
            del rows[at]


def position_checks(store: Store, advance: Callable[[int], None] = lambda n: None) -> list[StoreCheck]:
    """All positions: FEN, key, facts, history and the move played."""
    counts = [_Count(name) for name in _NAMES]
    after = 0
    while rows := store.connection.execute(_POSITIONS, (after, CHUNK)).fetchall():
        after = rows[-1][0]
        _check_positions(rows, counts)
        advance(len(rows))
    return [count.check for count in counts]


def _check_positions(rows: list[tuple[Any, ...]], counts: list[_Count]) -> None:
    good, bad, found = sound(len(rows), lambda kept: parse_fens([rows[i][2] for i in kept]))
    counts[0].take(len(rows), [f"position {rows[i][0]}: {why}" for i, why in bad.items()])
    rows = [rows[i] for i in good]
    if not rows:
        return
    named = [f"position {row[0]}: {row[2]}" for row in rows]
    other = keys(found) != unsigned([row[1] for row in rows])
    counts[1].take(len(rows), [named[i] for i in np.flatnonzero(other)])
    men = boards([row[2] for row in rows])
    facts = zip(
        (row[2].split(" ", 2)[1] for row in rows), phases(men).tolist(), piece_counts(men).tolist(), strict=True
    )
    counts[2].take(
        len(rows),
        [
            n
            for n, row, (s, p, c) in zip(named, rows, facts, strict=True)
            if (row[6], row[7], row[8]) != (s, PHASES[p], c)
        ],
    )
    _check_histories(rows, fens(found), named, counts[3])
    played = [(i, row[9]) for i, row in enumerate(rows) if row[9]]
    counts[4].take(len(played), [f"{named[i]}: {m}" for i, m in _illegal(found, played)])


def _check_histories(rows: list[tuple[Any, ...]], expected: list[str], named: list[str], count: _Count) -> None:
    """Plays the moves from the start; they must lead to the FEN, except for an en-passant square nobody can use."""
    # Half a move is made a whole one that no position has.
    moves = [np.frombuffer(row[4] + b"\xff" * (len(row[4]) % 2), "<u2").astype(np.uint16) for row in rows]

    def played(kept: list[int]) -> list[str]:
        start = parse_fens([rows[i][3] for i in kept])
        cuts = np.cumsum([0, *(len(moves[i]) for i in kept)]).astype(np.int64)
        flat = np.concatenate([moves[i] for i in kept]) if kept else np.empty(0, np.uint16)
        return fens(replay(start, flat, cuts)) if kept else []

    good, bad, reached = sound(len(rows), played)
    wrong = [f"{named[i]}: {why}" for i, why in bad.items()]
    wrong += [
        f"{named[i]}: the moves lead to {fen}" for i, fen in zip(good, reached, strict=True) if fen != expected[i]
    ]
    count.take(len(rows), wrong)


def play_check(store: Store, advance: Callable[[int], None] = lambda n: None) -> StoreCheck:
    """The games played from books: the key, by which their position is found, is that of the FEN."""
    count = _Count("games played: key of the FEN")
    cursor = store.connection.execute("SELECT number, fen, key FROM plays")
    while rows := cursor.fetchmany(CHUNK):
        count.take(len(rows), _other_keys(rows))
        advance(len(rows))
    return count.check


def _other_keys(rows: list[tuple[Any, ...]]) -> list[str]:
    good, bad, found = sound(len(rows), lambda kept: parse_fens([rows[i][1] for i in kept]))
    other = np.flatnonzero(keys(found) != unsigned([rows[i][2] for i in good]))
    named = [f"game {rows[good[k]][0]}: {rows[good[k]][1]}" for k in other]
    return [*(f"game {rows[i][0]}: {why}" for i, why in bad.items()), *named]


def _illegal(found: Any, asked: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Those of the moves (row, UCI) that are not legal on their boards."""
    if not asked:
        return []
    moves, offsets = legal_moves(found[[i for i, _ in asked]])
    wrong = []
    for k, (i, uci) in enumerate(asked):
        try:
            legal = encode_move(uci) in moves[offsets[k] : offsets[k + 1]]
        except ValueError:
            legal = False
        if not legal:
            wrong.append((i, uci))
    return wrong


# -- moves of nets and searches ---------------------------------------------------------------------------------------


def move_checks(store: Store, advance: Callable[[int], None] = lambda n: None) -> list[StoreCheck]:
    """The moves of nets and searches, and the searches' lines, of all rows: legal where they are made."""
    counts = []
    for name, table, columns in _MOVES:
        counts.append(_Count(name))
        for rows in _pages(store, table, columns):
            _check_lines(rows, counts[-1], plain=table != "deep_values")
            advance(len(rows))
    return [count.check for count in counts]


_MOVES = (
    ("net values: the best move is legal", "net_values", "best_move, NULL, ''"),
    ("priors: the moves are legal", "priors", "move, NULL, ''"),
    ("deep values: best move and line are legal", "deep_values", "best_move, stage, pv"),
)


def _pages(store: Store, table: str, columns: str) -> Iterator[list[tuple[Any, ...]]]:
    """Rows (position, FEN, move, stage, line), in pages."""
    query = f"SELECT p.id, p.fen, {columns} FROM {table} t JOIN positions p ON p.id = t.position_id"
    cursor = store.connection.execute(query)
    while rows := cursor.fetchmany(CHUNK):
        yield rows


def _check_lines(rows: list[tuple[Any, ...]], count: _Count, *, plain: bool) -> None:
    good, _, found = sound(len(rows), lambda kept: parse_fens([rows[i][1] for i in kept]))
    lines = [np.array(_line(rows[i], plain), np.uint16) for i in good]

    def played(kept: list[int]) -> None:
        if kept:
            cuts = np.cumsum([0, *(len(lines[k]) for k in kept)]).astype(np.int64)
            replay(found[kept], np.concatenate([lines[k] for k in kept]), cuts)

    _, bad, _ = sound(len(good), played)
    wrong = [
        f"position {rows[good[k]][0]}: {why.split(': ')[0].partition(', ')[2]} not legal" for k, why in bad.items()
    ]
    if not plain:
        ahead = [k for k, i in enumerate(good) if not str(rows[i][3]).startswith(AFTER) and rows[i][2]]
        bests = [(k, rows[good[k]][2]) for k in ahead if k not in bad]
        wrong += [f"position {rows[good[k]][0]}: best move {move}" for k, move in _illegal(found, bests)]
    count.take(len(good), wrong)


def _line(row: tuple[Any, ...], plain: bool) -> list[int]:
    """The moves to play from the position: a net's best one, or the move that a search follows and then its line."""
    if plain:
        return [row[2] if 0 < row[2] < _NO_MOVE else _NO_MOVE] if row[2] else []
    first = [row[3].removeprefix(AFTER)] if row[3].startswith(AFTER) else []
    moves = []
    for uci in (*first, *row[4].split()):
        try:
            moves.append(encode_move(uci))
        except ValueError:
            moves.append(_NO_MOVE)
    return moves


# Float32 sums in another order on another machine; the same bound as for contradictions of stores that are merged.
NET_BOUND = 1e-3
_FAR = DEFAULT_THRESHOLD


def digest_check(store: Store) -> StoreCheck:
    """Whether the digests of oracles match what the store says of them."""
    rows = store.connection.execute(
        "SELECT digest, label, kind, engine, sha256, limits, options FROM oracles"
    ).fetchall()
    wrong = [f"{label} ({digest[:12]})" for digest, label, *rest in rows if not _is_digest(digest, label, *rest)]
    return StoreCheck("oracles: digests", len(rows), len(wrong), wrong[0] if wrong else "")


def _is_digest(digest: str, label: str, kind: str, engine: str, sha256: str, limits: str, options: str) -> bool:
    """The name of an oracle's net has no column: it is in the label, after the engine."""
    if (facts := _objects(limits, options)) is None:
        return False
    words = label.removeprefix(engine_words(engine)).strip().split(" ")
    for count in range(len(words) + 1):
        net = " ".join(words[:count])
        if OracleIdentity(kind, engine, sha256, *facts, net).digest == digest:
            return True
    return False


def _objects(limits: str, options: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """An oracle's limits and options; None where they are no JSON objects."""
    try:
        return from_json(limits, dict[str, Any], ""), from_json(options, dict[str, Any], "")
    except ValueRepairError:
        return None


def _drawn(numbers: Sequence[Any], sample: int, rng: np.random.Generator) -> list[Any]:
    if len(numbers) <= sample:
        return list(numbers)
    return [numbers[i] for i in sorted(rng.choice(len(numbers), sample, replace=False).tolist())]


# -- nets -------------------------------------------------------------------------------------------------------------


def net_checks(store: Store, sample: int, seed: int, files: Mapping[str, str]) -> list[StoreCheck]:
    """One check for each net: `sample` of its values computed again, on the CPU in float32."""
    query = "SELECT id, name, sha256, history_fill FROM nets ORDER BY id"
    return [_check_net(store, net, sample, seed, files) for net in store.connection.execute(query).fetchall()]


def _check_net(store: Store, net: tuple[Any, ...], sample: int, seed: int, files: Mapping[str, str]) -> StoreCheck:
    number, name, key, fill = net
    title = f"net values computed again: {name}"
    query = "SELECT position_id FROM net_values WHERE net_id = ? ORDER BY position_id"
    ids = [row[0] for row in store.connection.execute(query, (number,))]
    drawn = _drawn(ids, sample, np.random.default_rng(seed))
    sha256, variant = split_key(key)
    heads = heads_of(variant)
    precision = variant.removeprefix(heads.variant)
    if sha256 not in files or precision or fill not in FILLS:
        why = f"no file of SHA-256 {sha256[:12]} at hand: give it by --net"
        if precision:
            why = f"values of another precision ({precision[1:]}) belong to the device that made them"
        elif fill not in FILLS:
            why = "no net file makes them: they came with their positions, or are an engine's"
        return StoreCheck(title, 0, note=why, unchecked=len(drawn))
    query = f"""
        SELECT {POSITION_CELLS}, n.q FROM json_each(?) j JOIN positions p ON p.id = j.value
        JOIN net_values n ON n.net_id = ? AND n.position_id = p.id ORDER BY j.key
    """
    rows = store.connection.execute(query, (json.dumps(drawn), number)).fetchall()
    if not rows:
        return StoreCheck(title, 0)
    with open_net(
        files[sha256], device="cpu", history_fill=fill, value_head=heads.value, policy_head=heads.policy
    ) as opened:
        found = opened.evaluate(position_batch([row[:-1] for row in rows])).q
    stored = [row[-1] for row in rows]
    off = np.abs(found.astype(np.float64) - stored)
    wrong = np.flatnonzero(~(off <= NET_BOUND))
    example = "".join(f"{rows[i][0]}: Q {stored[i]:.4f}, now {found[i]:.4f}" for i in wrong[:1])
    return StoreCheck(title, len(rows), len(wrong), example, f"largest |dQ| {off.max():.1e}, bound {NET_BOUND:g}")


# -- oracles ----------------------------------------------------------------------------------------------------------


def deep_checks(
    store: Store,
    sample: int,
    seed: int,
    files: Mapping[str, str],
    specs: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[StoreCheck]:
    """One check for each oracle: `sample` of its searches made again, by the same rungs where it climbed.

    `specs` are ``--deep`` texts of engines that the store does not know the place of.
    """
    query = "SELECT id, label, digest, kind, engine, sha256, limits, options FROM oracles ORDER BY id"
    checks = []
    for row in store.connection.execute(query).fetchall():
        number, label, digest, kind, engine, sha256, limits, options = row
        if (facts := _objects(limits, options)) is None:
            continue  # digest_check says it
        oracle = StoredOracle(number, label, digest, kind, engine, sha256, *facts)
        checks.append(_check_oracle(store, oracle, sample, seed, files, specs, progress))
    return checks


def _check_oracle(
    store: Store,
    oracle: StoredOracle,
    sample: int,
    seed: int,
    files: Mapping[str, str],
    specs: Sequence[str],
    progress: Progress | None,
) -> StoreCheck:
    title = f"deep values made again: {oracle.label}"
    keys = store.connection.execute(
        "SELECT position_id, stage FROM deep_values WHERE oracle_id = ? AND (stage IN (?, ?, ?, ?, ?) OR stage LIKE ?) "
        "ORDER BY stage, position_id",
        (oracle.id, FULL, EXPANDED, SECOND, CHOSEN, REJUDGED, AFTER + "%"),
    ).fetchall()
    drawn = _drawn(keys, sample, np.random.default_rng(seed))
    if not drawn:
        return StoreCheck(title, 0)
    opened, why = open_same(oracle, files, [*specs, *stored_specs(oracle)], workers=1)
    if opened is None:
        return StoreCheck(title, 0, note=why, unchecked=len(drawn))
    pairs = []
    if progress is not None:
        progress.set_total((progress.total or 0) + len(drawn))
    with closing(opened):
        for position_id, stage in drawn:
            stored, position, rungs = _stored(store, oracle.id, position_id, stage)
            pairs.append((position.fen, stage, stored, _again(opened, position, stage, rungs)))
            if progress is not None:
                progress.advance()
    return _compare(title, oracle, pairs)


_OF_A_SEARCH = ("cp", "mate", "w", "d", "l", "q", "depth", "nodes", "time_ms", "best_move", "pv")
# Values of rungs stay where a ladder cut a position. Its whole search, if another run made one, did not go by them.
_RUNGS = """
    SELECT v.stage FROM deep_values v WHERE v.oracle_id = ? AND v.position_id = ? AND v.stage GLOB '[0-9]*' AND EXISTS (
        SELECT 1 FROM nets n CROSS JOIN screened c WHERE c.net_id = n.id AND c.oracle_id = v.oracle_id
        AND c.position_id = v.position_id AND c.searched
        UNION ALL SELECT 1 FROM nets n CROSS JOIN expanded e WHERE e.net_id = n.id AND e.oracle_id = v.oracle_id
        AND e.position_id = v.position_id AND e.searched)
"""


def _stored(store: Store, oracle_id: int, position_id: int, stage: str) -> tuple[DeepResult, Position, list[int]]:
    """A row of deep values, its position, and the rungs that the search went by."""
    columns = "cp, mate, w, d, l, q, depth, seldepth, nodes, time_ms, best_move, pv"
    query = f"SELECT {columns} FROM deep_values WHERE oracle_id = ? AND stage = ? AND position_id = ?"
    cp, mate, w, d, loss, q, depth, seldepth, nodes, time_ms, best, pv = store.connection.execute(
        query, (oracle_id, stage, position_id)
    ).fetchone()
    wdl = None if w is None else (w, d, loss)
    result = DeepResult(cp, mate, wdl, q, depth, seldepth, nodes, time_ms, best, tuple(pv.split()))
    (position,) = store.positions([position_id])
    plain = stage.startswith(AFTER) or (stage == SECOND and not _taken_over(store, oracle_id, position_id))
    rungs = [] if plain else store.connection.execute(_RUNGS, (oracle_id, position_id)).fetchall()
    return result, position, sorted(int(rung) for (rung,) in rungs)


def _taken_over(store: Store, oracle_id: int, position_id: int) -> bool:
    """Whether a second look is the whole search that was there before, and not one that `vr confirm` made."""
    same = " AND ".join(f"v.{name} IS s.{name}" for name in _OF_A_SEARCH)
    query = f"""
        SELECT EXISTS (SELECT 1 FROM deep_values s JOIN deep_values v USING (oracle_id, position_id)
        WHERE s.oracle_id = ? AND s.position_id = ? AND s.stage = ? AND v.stage IN (?, ?) AND {same})
    """
    asked = (oracle_id, position_id, SECOND, FULL, EXPANDED)
    return bool(store.connection.execute(query, asked).fetchone()[0])


def _again(oracle: Oracle, position: Position, stage: str, rungs: list[int]) -> DeepResult | None:
    """Repeats the search; None where it fails."""
    at: Position | DeepResult | None = position
    if stage.startswith(AFTER):
        at = after(position, stage.removeprefix(AFTER))
    if not isinstance(at, Position):
        return at
    search = oracle.climb(at, rungs, lambda _: True) if rungs else oracle.submit(at)
    outcome = search.result()
    if isinstance(outcome, Climb):
        outcome = outcome.results[-1]
    return outcome if isinstance(outcome, DeepResult) else None


def _compare(
    title: str, oracle: StoredOracle, pairs: list[tuple[str, str, DeepResult, DeepResult | None]]
) -> StoreCheck:
    """Exact where a search is by nodes in one thread, without anything that depends on time; else |dQ| is reported."""
    exact = set(oracle.limits) == {"nodes"} and str(oracle.options.get("Threads", "1")) == "1"
    differ = [
        (fen, stage, old, new)
        for fen, stage, old, new in pairs
        if new is None or (old.cp, old.mate, old.wdl, old.best_move) != (new.cp, new.mate, new.wdl, new.best_move)
    ]
    off = np.array([np.nan if new is None else abs(_q(old) - _q(new)) for _, _, old, new in pairs])
    known = off[~np.isnan(off)]
    told = f"median |dQ| {np.median(known):.1e}, largest {known.max():.1e}" if len(known) else "no score"
    told += f", {int((known >= _FAR).sum())} beyond {_FAR:g}"
    wrong = differ if exact else [pair for pair, d in zip(pairs, off, strict=True) if not d < _FAR]
    note = ("same searches: must be equal; " if exact else "not reproducible by nature; ") + told
    example = ""
    if wrong:
        fen, stage, old, new = wrong[0]
        example = f"{fen} ({stage}): {_score(old)}, now {_score(new)}"
    return StoreCheck(title, len(pairs), len(wrong), example, note)


def _q(result: DeepResult) -> float:
    return float(values.deep_q(np.array(result.scores, np.float64), values.DEFAULT_ALPHA))


def _score(result: DeepResult | None) -> str:
    if result is None:
        return "failed"
    score = f"mate {result.mate}" if result.mate is not None else f"cp {result.cp}"
    return re.sub(r" None$", "", f"{score} {result.best_move}")
