"""`Store`: opening a store, writing to it, and querying it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import values
from valuerepair.chess.origins import GAME, Kind, OriginGame
from valuerepair.chess.positions import PositionBatch, joined
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.store import files, queries, scale
from valuerepair.store.connection import StoreConnection, WriteLock, check_file, connect, upgrade
from valuerepair.store.rows import (
    EXPANDED,
    FULL,
    POSITION_CELLS,
    Admission,
    DeepColumns,
    DeepResult,
    OracleIdentity,
    Run,
    RunRecord,
    StoredValues,
    game_row,
    json_text,
    now,
    or_none,
    position_batch,
    position_rows,
    signed,
)
from valuerepair.store.scale import TrainingScale

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.nets.net import NetIdentity, NetValues

S = TypeVar("S", bound="Store")


class Store:
    """One store, open for reading, or for reading and writing by one writer at a time.

    Writes collect in a transaction until `commit` (or `commit_if_due`); readers see what is committed, also while a
    writer is at work. Use from one thread, as a context manager: leaving it commits, also after an error, so that
    finished work is kept.
    """

    def __init__(self, path: str, connection: StoreConnection, lock: WriteLock | None, created: bool) -> None:
        self.path = path
        self.connection = connection
        self._lock, self._created = lock, created
        self._committed = time.monotonic()

    @classmethod
    def open(
        cls: type[S],
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        write: bool = False,
        is_raw: bool = False,
    ) -> S:
        """Opens the store at `path`; `create` (which implies `write`) makes it if it does not exist.

        Older versions are migrated. Raises ValueRepairError, in one line each: no such file, not a store, tables that
        differ from a store's, a newer version, another writer at work, no permission. Reading from the store later
        raises it for a damaged file and for a cell that its column cannot have; with `is_raw` not for cells, so that
        `vr doctor` can look for them.
        """
        name = os.fspath(path)
        write = write or create
        exists = check_file(name, create=create)
        with ExitStack() as held:  # released if the store cannot be opened
            lock = held.enter_context(closing(WriteLock(name))) if write else None
            connection = held.enter_context(closing(connect(name, write, is_raw=is_raw)))
            if lock is not None:
                lock.check_undamaged(connection)
            upgrade(connection, write)
            held.pop_all()
        return cls(name, connection, lock, created=not exists)

    def close(self) -> None:
        """Commits and closes. Removes a store that `open` has just created, if it has no position."""
        try:
            if self._lock is not None:
                self.commit()
        finally:
            # A failed commit must not lose the file and the lock too.
            empty = self._created and self._is_empty()
            self.connection.close()
            if self._lock is not None:
                for suffix in ("", "-wal", "-shm") if empty else ():
                    Path(self._lock.file + suffix).unlink(missing_ok=True)
                self._lock.close()
                self._lock = None

    def __fspath__(self) -> str:
        """Its path: an open store can be given in place of the path of a store."""
        return self.path

    @property
    def is_writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._lock is not None

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def commit(self) -> None:
        """Makes what was written so far permanent and visible to readers."""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")
        self._committed = time.monotonic()

    def commit_if_due(self) -> None:
        """Commits if the last commit was at least a second ago."""
        if time.monotonic() - self._committed >= 1:
            self.commit()

    # -- runs, nets, oracles ------------------------------------------------------------------------------------------

    @contextmanager
    def running(self, record: RunRecord) -> Iterator[Run]:
        """A run in the list of runs; an error marks it there as interrupted, with its counts."""
        run = self.begin_run(record)
        try:
            yield run
        except BaseException:
            # Report the error that ended the run, not a failure to record its end.
            with suppress(ValueRepairError):
                self.end_run(run, "interrupted", run.counts)
            raise

    def begin_run(self, record: RunRecord) -> Run:
        """Records the beginning of a run; a run of the same identity resumes under its old id."""
        with self.writing() as connection:
            row = connection.execute(
                "SELECT id, state, counts FROM runs WHERE identity = ?", (record.identity,)
            ).fetchone()
            if row is not None:
                connection.execute("UPDATE runs SET state = 'running', finished = NULL WHERE id = ?", (row[0],))
                query = "SELECT count(*) FROM deep_values WHERE run_id = ? AND stage IN ('full', 'expanded')"
                (scored,) = connection.execute(query, (row[0],)).fetchone()
                return Run(row[0], True, row[1], scored, json.loads(row[2]))
            options, versions = json_text(record.options), json_text(record.versions)
            cursor = connection.execute(
                "INSERT INTO runs (identity, command, options, seed, versions, started, state) "
                "VALUES (?, ?, ?, ?, ?, ?, 'running')",
                (record.identity, record.command, options, record.seed, versions, now()),
            )
            return Run(int(cursor.lastrowid or 0))

    def end_run(self, run: Run, state: str, counts: Mapping[str, Any]) -> None:
        """Records how a run ended (``finished``, ``interrupted``) and what it counted, and commits."""
        with self.writing() as connection:
            connection.execute(
                "UPDATE runs SET state = ?, finished = ?, counts = ? WHERE id = ?",
                (state, now(), json_text(counts), run.id),
            )
        self.commit()

    def add_net(self, identity: NetIdentity, history_fill: str) -> int:
        """The id of a net with this history fill, which is recorded on first use; records the path of its file too."""
        names = "sha256, history_fill, name, value_head, input_format, size"
        row = (identity.key, history_fill, identity.name, identity.value_head, identity.input_format, identity.size)
        with self.writing() as connection:
            if identity.path:
                files.record_path(connection, files.NET, identity.sha256, identity.path)
            return _id_of(connection, "nets", names, row, key=2)

    def add_oracle(self, identity: OracleIdentity) -> int:
        """The id of an oracle, which is recorded on first use; records the path of its net too."""
        names = "digest, label, kind, engine, sha256, limits, options"
        words = (identity.digest, identity.label, identity.kind, identity.engine, identity.sha256)
        row = (*words, json_text(dict(identity.limits)), json_text(dict(identity.options)))
        with self.writing() as connection:
            if identity.net_file is not None:
                files.record_path(connection, files.NET, *identity.net_file)
            return _id_of(connection, "oracles", names, row, key=1)

    # -- positions and values -----------------------------------------------------------------------------------------

    def add_positions(self, batch: PositionBatch, run: Run, *, reached: bool = False) -> Admission:
        """Records positions that are new, and returns all of them as the store has them.

        A position is identified by its board key. One that the store has already keeps its first history, which is the
        one to evaluate. Of several kinds ``game`` is kept, else the first; positions that were only `reached` from
        candidates have none.
        """
        with self.writing() as connection:
            return _admit(connection, batch, run.id, reached=reached)

    def positions(self, ids: Sequence[int] | NDArray[np.int64]) -> PositionBatch:
        """The positions `ids` [n], in that order, without their origins. Raises ValueRepairError if one is missing."""
        query = f"SELECT {POSITION_CELLS} FROM json_each(:ids) j JOIN positions p ON p.id = j.value"
        rows = self.connection.rows_of(np.asarray(ids, np.int64).tolist(), query)
        return position_batch(rows) if rows else PositionBatch.from_positions([])

    def stored_values(
        self, ids: NDArray[np.int64], net_id: int, oracle_id: int, stage: str = FULL
    ) -> list[StoredValues]:
        """The values that the store has already of each position, in the order of `ids` [n]."""
        query = """
            SELECT n.q, v.position_id IS NOT NULL, v.cp, v.mate, v.w, v.d, v.l, v.q, f.reason
            FROM json_each(:ids) j
            LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = j.value
            LEFT JOIN deep_values v ON v.oracle_id = :oracle AND v.stage = :stage AND v.position_id = j.value
            LEFT JOIN failures f ON f.oracle_id = :oracle AND f.stage = :stage AND f.position_id = j.value
            ORDER BY j.key
        """
        parameters = {"ids": json.dumps(ids.tolist()), "net": net_id, "oracle": oracle_id, "stage": stage}
        return [
            StoredValues(net_q, tuple(deep) if scored else None, failure)
            for net_q, scored, *deep, failure in self.connection.execute(query, parameters)
        ]

    def take_over_expanded(self, ids: NDArray[np.int64], oracle_id: int) -> None:
        """Turns searches of positions that were reached from candidates, and are now sampled, into full searches of
        sampled positions."""
        with self.writing() as connection:
            connection.execute(
                "UPDATE OR IGNORE deep_values SET stage = ? WHERE oracle_id = ? AND stage = ? "
                "AND position_id IN (SELECT value FROM json_each(?))",
                (FULL, oracle_id, EXPANDED, json.dumps(ids.tolist())),
            )

    def add_net_values(self, ids: NDArray[np.int64], net_id: int, net_values: NetValues, run: Run) -> None:
        """Records the net's values of the positions `ids` [n]."""
        with self.writing() as connection:
            wins, draws, losses = (or_none(column) for column in net_values.wdl.T)
            connection.executemany(
                "INSERT OR REPLACE INTO net_values VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                zip(
                    [net_id] * len(ids),
                    ids.tolist(),
                    net_values.q.astype(np.float64).tolist(),
                    wins,
                    draws,
                    losses,
                    [move or None for move in net_values.best_move.tolist()],
                    or_none(net_values.best_p),
                    or_none(net_values.entropy),
                    or_none(net_values.moves_left),
                    [run.id] * len(ids),
                    strict=True,
                ),
            )

    def add_deep(self, position_id: int, oracle_id: int, score: DeepResult, run: Run, stage: str = FULL) -> None:
        """Records one deep search; it replaces an earlier failure of the same position."""
        self.add_deep_columns(np.array([position_id], np.int64), oracle_id, DeepColumns.of([score]), run, stage)

    def add_deep_columns(
        self, ids: NDArray[np.int64], oracle_id: int, scores: DeepColumns, run: Run, stage: str = FULL
    ) -> None:
        """Records deep searches of the positions `ids` [n]; they replace earlier failures of the same ones."""
        numbers = ids.tolist()
        with self.writing() as connection:
            same = ([cell] * len(numbers) for cell in (oracle_id, stage))
            connection.executemany(
                "INSERT OR REPLACE INTO deep_values VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                zip(*same, numbers, *scores, [run.id] * len(numbers), strict=True),
            )
            where = "oracle_id = ? AND stage = ?"
            if connection.execute(f"SELECT 1 FROM failures WHERE {where} LIMIT 1", (oracle_id, stage)).fetchone():
                delete = f"DELETE FROM failures WHERE {where} AND position_id = ?"
                connection.executemany(delete, ((oracle_id, stage, number) for number in numbers))

    def add_failure(self, position_id: int, oracle_id: int, reason: str, attempts: int, run: Run, stage: str) -> None:
        """Records that the oracle could not evaluate a position, and why."""
        with self.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)",
                (oracle_id, stage, position_id, reason, attempts, run.id),
            )

    # -- queries ------------------------------------------------------------------------------------------------------

    def nets(self) -> pd.DataFrame:
        """One row per net: id, name, sha256, history_fill, value_head, input_format, size, evaluated (positions)."""
        import pandas as pd

        query = """
            SELECT id, name, sha256, history_fill, value_head, input_format, size,
                   (SELECT count(*) FROM net_values WHERE net_id = nets.id) AS evaluated FROM nets ORDER BY id
        """
        return pd.read_sql_query(query, self.connection)

    def oracles(self) -> pd.DataFrame:
        """One row per oracle: id, label, digest, kind, engine, sha256, limits, options, scored, failed (positions)."""
        import pandas as pd

        query = """
            SELECT id, label, digest, kind, engine, sha256, limits, options,
                   (SELECT count(*) FROM deep_values WHERE oracle_id = oracles.id AND stage = 'full') AS scored,
                   (SELECT count(*) FROM failures WHERE oracle_id = oracles.id AND stage = 'full') AS failed
            FROM oracles ORDER BY id
        """
        frame = pd.read_sql_query(query, self.connection)
        for column in ("limits", "options"):
            frame[column] = frame[column].map(json.loads)
        return frame

    def names(self, net_id: int, oracle_id: int) -> tuple[str, str]:
        """The names by which `pick` finds exactly these two: the net's SHA-256 and the oracle's digest."""
        query = "SELECT n.sha256, o.digest FROM nets n, oracles o WHERE n.id = ? AND o.id = ?"
        sha256, digest = self.connection.execute(query, (net_id, oracle_id)).fetchone()
        return str(sha256), str(digest)

    def pick(self, net: str | None = None, oracle: str | None = None) -> tuple[int, int]:
        """(net_id, oracle_id) of the pair with the most scored positions among those that `net` and `oracle` fit.

        Of equal pairs it takes the net that was mined last, whatever nets were compared with it since (`vr compare`);
        then the oracle whose last run began last. `net` is a name, a file's path or the beginning of its SHA-256;
        `oracle` a label, the beginning of its digest, or a value of ``--deep`` (``stockfish:nodes=20000``). Raises
        ValueRepairError if no pair fits.
        """
        return queries.pick(self.connection, net, oracle)

    def pair_of(self, question: Question) -> tuple[int, int] | None:
        """The numbers of the question's net and oracle; None if it names neither and nothing is scored yet.

        Otherwise raises as `pick`.
        """
        try:
            return self.pick(question.net, question.oracle)
        except ValueRepairError:
            if question.net is not None or question.oracle is not None:
                raise
            return None

    def pair_options(self, net_id: int, oracle_id: int) -> list[str]:
        """The options by which a command of the store chooses this pair: ``--net KEY``, ``--oracle DIGEST``, both, or
        neither if `pick` chooses it by default. Raises ValueRepairError if the pair has no scored position."""
        query = "SELECT n.sha256, n.name, o.digest FROM nets n, oracles o WHERE n.id = ? AND o.id = ?"
        ((key, name, digest),) = self.connection.execute(query, (net_id, oracle_id))
        query = "SELECT count(*) FROM nets WHERE name = ? COLLATE NOCASE"
        ((namesakes,),) = self.connection.execute(query, (name,))
        short, begin = name if namesakes == 1 else key[:12], digest[:12]
        for net, oracle in ((None, None), (None, begin), (short, None), (short, begin), (key, begin)):
            if self.pick(net, oracle) == (net_id, oracle_id):
                break
        return [word for name, value in (("--net", net), ("--oracle", oracle)) if value for word in (name, value)]

    def alpha(self, net_id: int, oracle_id: int, requested: float | None = None) -> values.Alpha:
        """The alpha of all commands: `requested`, else the stored fit, else a fit to the slope, else the default.

        A fit needs `values.AUTO_MIN_POSITIONS` positions with a centipawn score.
        """
        return scale.alpha(self.connection, net_id, oracle_id, requested)

    def chosen_alpha(self, net_id: int, oracle_id: int, requested: float | None = None) -> values.Alpha | None:
        """The alpha `requested`, else the stored fit, else None."""
        return scale.chosen_alpha(self.connection, net_id, oracle_id, requested)

    def training_scale(self, net_id: int, oracle_id: int, question: Question) -> TrainingScale | None:
        """What training by the question's alpha, or by `alpha`, does to the scale of the net's Q; None if fewer than
        `values.AUTO_MIN_POSITIONS` positions have both values."""
        trained_by = self.alpha(net_id, oracle_id, question.alpha)
        return scale.training_scale(self.connection, net_id, oracle_id, trained_by, question.q_from)

    def for_training(self, question: Question) -> tuple[Question, list[str]]:
        """The question with the alpha to train by, if one is used; and lines for the user: what the training targets
        are computed from and why, and what training does to the scale of the net's Q."""
        pair = self.pick(question.net, question.oracle)
        trained_by, trained = self.alpha(*pair, question.alpha), self.training_scale(*pair, question)
        alpha = trained_by.value if trained_by.is_of_centipawns(question.q_from) else None
        lines = [f"training targets: {trained_by.source(question.q_from)}"]
        if trained is not None:
            lines.append(trained.line())
        return replace(question, alpha=alpha), lines

    def set_alpha(self, net_id: int, oracle_id: int, fit: values.AlphaFit) -> None:
        """Stores a fit for this net and oracle and commits; it replaces an earlier one."""
        interval = or_none(np.array([fit.low, fit.high]))
        row = (net_id, oracle_id, fit.alpha, *interval, fit.norm, fit.n, fit.residual, now())
        with self.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO alpha_fits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.commit()

    def frame(
        self,
        question: Question | None = None,
        *,
        text: bool = True,
        only: Sequence[str] | None = None,
        cut: bool = False,
    ) -> pd.DataFrame:
        """All positions scored by both net and oracle, one row each, by position_id; with `cut` also those that a
        ladder cut. See `queries.frame`."""
        return queries.frame(self.connection, question or Question(), text=text, only=only, cut=cut)

    def candidates(self, question: Question | None = None, *, cut: bool = False) -> pd.DataFrame:
        """The rows of `frame` with ``|disagreement| >= question.threshold``, the largest first; `cut` as there."""
        return queries.candidates(self.connection, question or Question(), cut=cut)

    @contextmanager
    def writing(self) -> Iterator[StoreConnection]:
        """The connection, within a transaction that stays open until the next commit."""
        if self._lock is None:
            raise ValueError("the store is open for reading only")
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        yield self.connection

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All queries within see the same state, whatever another process commits meanwhile."""
        # A store that is open for writing has no other writer.
        with queries.snapshot(self.connection) if self._lock is None else nullcontext():
            yield

    def _is_empty(self) -> bool:
        try:
            # A run without a position, for example of a file without games, has nothing to resume.
            rows = (f"SELECT 1 FROM {table}" for table in ("positions", "alpha_fits", "plays"))
            (is_kept,) = self.connection.execute("SELECT " + " OR ".join(f"EXISTS ({row})" for row in rows)).fetchone()
            return not is_kept
        except sqlite3.Error:
            return False


_INSERT = f"""
INSERT INTO positions (id, key, fen, start_fen, moves, history_known, ply, side, phase, pieces, game_id, played,
eval_cp, eval_mate, run_id, kind) VALUES ({", ".join("?" * 16)})
"""
_HISTORIES = """
SELECT id, fen, start_fen, moves, ply, history_known, kind FROM positions
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""


def _admit(connection: StoreConnection, batch: PositionBatch, run_id: int, *, reached: bool) -> Admission:
    """Records positions that are new, in the order of the batch."""
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM positions").fetchone()
    ids, rows = _numbered(connection, batch.key, newest)
    games = _games(connection, batch)
    connection.executemany(
        _INSERT,
        position_rows(batch.take(rows), ids[rows].tolist(), [games[i] for i in rows.tolist()], run_id, reached=reached),
    )
    added = np.zeros(len(ids), np.bool_)
    added[rows] = True
    if not reached:
        _settle_kinds(connection, ids[~added], batch.take(np.flatnonzero(~added)).origin.kind)
    fresh = ids > newest
    return Admission(ids, _with_stored_history(connection, batch, ids, ~added), fresh)


def _settle_kinds(connection: StoreConnection, ids: NDArray[np.int64], kinds: Sequence[Kind]) -> None:
    """Updates the kinds of positions that the store had: to ``game`` if they are in a game, to any if they had none."""
    for kind in {*kinds}:
        numbers = json.dumps([number for number, own in zip(ids.tolist(), kinds, strict=True) if own == kind])
        connection.execute(
            "UPDATE positions SET kind = :kind WHERE id IN (SELECT value FROM json_each(:ids)) "
            "AND (kind IS NULL OR (:kind = 'game' AND kind <> 'game'))",
            {"kind": kind, "ids": numbers},
        )


def _numbered(
    connection: StoreConnection, keys: NDArray[np.uint64], newest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ids of the positions with these board keys, new ones after `newest`, and the rows of the new ones."""
    query = "SELECT key, id FROM positions WHERE key IN (SELECT value FROM json_each(?))"
    by_key: dict[int, int] = dict(connection.execute(query, (json.dumps(signed(keys)),)))
    ids, rows = [], []
    for i, key in enumerate(signed(keys)):
        number = by_key.get(key)
        if number is None:
            newest += 1
            number = by_key[key] = newest
            rows.append(i)
        ids.append(number)
    return np.array(ids, np.int64), np.array(rows, np.int64)


def _games(connection: StoreConnection, batch: PositionBatch) -> list[int]:
    """The ids of the games of all rows, which are recorded on first use; rows of a game are consecutive."""
    numbers: list[int] = []
    last: OriginGame | None = None
    row: tuple[Any, ...] = ()
    for game in batch.origin.game:
        if game is not last:
            last, before, row = game, row, game_row(game)
            number = numbers[-1] if row == before else _id_of(connection, "games", _OF_GAME, row, key=3)
        numbers.append(number)
    return numbers


_OF_GAME = "source, number, digest, byte_offset, white, black, event, date, result, headers"


def _id_of(connection: StoreConnection, table: str, names: str, row: tuple[Any, ...], *, key: int) -> int:
    """The id of the row of a table with the same first `key` cells as this row, which is added if there is none."""
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", row)
    same = " AND ".join(f"{name} = ?" for name in names.split(", ")[:key])
    return int(connection.execute(f"SELECT id FROM {table} WHERE {same}", row[:key]).fetchone()[0])


def _with_stored_history(
    connection: StoreConnection, batch: PositionBatch, ids: NDArray[np.int64], is_old: NDArray[np.bool_]
) -> PositionBatch:
    """`batch`, with the history and kind from the store in the rows `is_old`, whose positions the store had."""
    old = np.flatnonzero(is_old)
    if not len(old):
        return batch
    numbers, place = np.unique(ids[old], return_inverse=True)
    stored = connection.execute(_HISTORIES, (json.dumps(numbers.tolist()),)).fetchall()
    fen, start_fen, kinds = list(batch.fen), list(batch.start_fen), list(batch.origin.kind)
    ply, history_known = batch.ply.copy(), batch.history_known.copy()
    pieces = [batch.moves[a:b] for a, b in pairwise(batch.offsets.tolist())]
    for i, row in zip(old.tolist(), place.tolist(), strict=True):
        _, fen[i], start_fen[i], moves, ply[i], history_known[i], kind = stored[row]
        kinds[i] = kind or GAME
        pieces[i] = np.frombuffer(moves, "<u2").astype(np.uint16)
    joined_moves, offsets = joined(pieces)
    return replace(
        batch,
        fen=fen,
        start_fen=start_fen,
        moves=joined_moves,
        offsets=offsets,
        ply=ply,
        history_known=history_known,
        origin=replace(batch.origin, kinds=None if all(kind == GAME for kind in kinds) else kinds),
    )
