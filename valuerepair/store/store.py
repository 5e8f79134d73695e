"""`Store`: one SQLite file with positions, the values of nets and judges, and the runs that made them."""

from __future__ import annotations

import errno
import gc
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from valuerepair import stop
from valuerepair.arrays import Flags, Ids
from valuerepair.chess.origins import GAME, OriginGame, Origins
from valuerepair.chess.positions import PositionBatch, boards, cuts_of, phases, piece_counts
from valuerepair.errors import ValueRepairError
from valuerepair.files import HeldError, claimed
from valuerepair.store.rows import (
    POLICY,
    DeepColumns,
    DeepResult,
    JudgeIdentity,
    Run,
    RunRecord,
    json_text,
    now,
    or_none,
    signed,
    unsigned,
)

if TYPE_CHECKING:
    from valuerepair.nets.net import NetIdentity, NetValues

APPLICATION_ID = 0x56527374  # "VRst"; `file` and other tools show it
VERSION = 11
_CACHE_KIB = 65536
# Positions that screening searched no further than its short search, as they are doubtful for no net that was mined
# here: without a full search, or audited.
LEFT = """
FROM deep_values s JOIN positions p ON p.id = s.position_id
LEFT JOIN deep_values f ON f.judge_id = :full AND f.position_id = s.position_id AND f.failed IS NULL
WHERE s.judge_id = :short AND s.failed IS NULL AND (f.position_id IS NULL OR f.weight > 1)
"""
S = TypeVar("S", bound="Store")


class Store:
    """One store, open for reading, or for reading and writing by one writer at a time.

    Writes collect in a transaction until `commit`, or `commit_if_due` about once a second; readers see what is
    committed. Use it from one thread, as a context manager: leaving it commits, also after an error.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, held: ExitStack, is_writable: bool) -> None:
        self.path, self.connection, self.is_writable = path, connection, is_writable
        self._held = held
        self._committed = time.monotonic()
        self.cache: dict[Any, Any] = {}  # of `view.columns`

    @classmethod
    def open(cls: type[S], path: str | os.PathLike[str], *, create: bool = False, write: bool = False) -> S:
        """Opens the store at `path`; `create` (which implies `write`) makes it if it does not exist.

        Raises ValueRepairError, one line each: no such file, no store, one of another version, another writer at work.
        """
        name, write = os.fspath(path), write or create
        if not create and not os.path.isfile(name):
            raise ValueRepairError(f"there is no store at {name}; vr mine makes one")
        with ExitStack() as held:
            if write:
                try:
                    if os.path.exists(name) and not os.access(name, os.W_OK):
                        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                    held.enter_context(claimed(os.path.realpath(name) + ".lock"))
                except HeldError:
                    raise ValueRepairError(
                        f"{name} is being written by another vr; wait until it is done, or give another --db"
                    ) from None
                except OSError as error:
                    raise ValueRepairError(f"{name} cannot be written: {error.strerror}; give another --db") from None
            try:
                address = address_of(name, write=write)
                connection = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None)
                held.callback(connection.close)
                held.enter_context(stop.undoing(lambda: _abandon(connection, name, write)))
                _check(connection, name, create=create)
                connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                if write:
                    connection.executescript(
                        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"
                    )
                else:
                    connection.execute("PRAGMA query_only = ON")
            except sqlite3.Error as error:
                advice = "is the disk full?" if "disk" in str(error) else "give another --db"
                raise ValueRepairError(f"{name} cannot be opened as a store ({error}); {advice}") from None
            return cls(name, connection, held.pop_all(), write)

    def close(self) -> None:
        """Commits and closes. A store without a position and without a game played is removed."""
        with self._held:  # the lock, which ends last
            self.commit()
            _leave(self.connection, self.path, self.is_writable)

    def __fspath__(self) -> str:
        """Its path: an open store can be given in place of the path of a store."""
        return self.path

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def counts(self) -> dict[str, int]:
        """How many rows its tables have."""
        rows = {}
        for table in ("positions", "net_values", "deep_values", "games", "runs", "plays"):
            (rows[table],) = self.connection.execute(f"SELECT count(*) FROM main.{table}").fetchone()
        return rows

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection, within a transaction that stays open until the next commit.

        What the block writes is written whole: if it ends with an error, not at all.
        """
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("SAVEPOINT piece")
        try:
            yield self.connection
        except BaseException:
            if self.connection.in_transaction:  # SQLite itself takes all of it back when the disk is full
                self.connection.execute("ROLLBACK TO piece")
            raise
        finally:
            if self.connection.in_transaction:
                self.connection.execute("RELEASE piece")

    def commit(self) -> None:
        """Makes what was written so far permanent and visible to readers."""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")
        self._committed = time.monotonic()

    def commit_if_due(self) -> None:
        """Commits if the last commit was at least a second ago."""
        if time.monotonic() - self._committed >= 1:
            self.commit()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All queries within see the same state, whatever another process commits meanwhile."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        self.connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # from here on
        try:
            yield
        finally:
            if self.connection.in_transaction:
                self.connection.execute("COMMIT")

    # -- settings, runs, nets, judges ---------------------------------------------------------------------------------

    def setting(self, name: str) -> Any:
        """What is in use: ``net`` (its key), ``judge`` (its digest), ``alpha``, ``threshold``; or ``split``. None if it
        was never set."""
        row = self.connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def use(self, **settings: Any) -> None:
        """Sets settings; None removes one."""
        with self.writing() as connection:
            rows = [(name, json_text(value)) for name, value in settings.items() if value is not None]
            connection.executemany("DELETE FROM settings WHERE name = ?", [(name,) for name in settings])
            connection.executemany("INSERT INTO settings VALUES (?, ?)", rows)

    @contextmanager
    def running(self, record: RunRecord) -> Iterator[Run]:
        """A run in the list of runs, under its old number if one of the same identity is there.

        One that has not finished has the options with which it began. When the block ends the run's state and counts
        are kept; after an error it is interrupted.
        """
        with self.writing() as connection:
            query = "SELECT id, options, counts, state FROM runs WHERE identity = ?"
            row = connection.execute(query, (record.identity,)).fetchone()
            options = json_text(record.options)
            if row is None:
                cells = (record.identity, record.command, options, json_text(record.versions), now())
                names = "identity, command, options, versions, started, state"
                cursor = connection.execute(f"INSERT INTO runs ({names}) VALUES (?, ?, ?, ?, ?, 'running')", cells)
                run = Run(int(cursor.lastrowid or 0), options=dict(record.options))
            else:
                options = options if row[3] == "finished" else row[1]
                run = Run(row[0], True, json.loads(options), json.loads(row[2]))
                connection.execute("UPDATE runs SET state = 'running', options = ? WHERE id = ?", (options, run.id))
        try:
            yield run
        except BaseException:
            run.state = "interrupted"
            with suppress(sqlite3.Error):  # the error of the run is told, not this one
                self._end(run)
            raise
        self._end(run)

    def _end(self, run: Run) -> None:
        with self.writing() as connection:
            query = "UPDATE runs SET state = ?, finished = ?, counts = ? WHERE id = ?"
            connection.execute(query, (run.state, now(), json_text(run.counts), run.id))
        self.commit()

    def add_net(self, identity: NetIdentity) -> int:
        """The id of a net, which is recorded on first use, with the path of its file."""
        head, path = identity.value_head, identity.path or None
        row = (identity.key, identity.name, head, identity.input_format, identity.size, path)
        with self.writing() as connection:
            connection.execute(
                "INSERT INTO nets (sha256, name, value_head, input_format, size, path) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (sha256) DO UPDATE SET path = coalesce(excluded.path, path)",
                row,
            )
            return int(connection.execute("SELECT id FROM nets WHERE sha256 = ?", (identity.key,)).fetchone()[0])

    def add_judge(self, identity: JudgeIdentity, short_id: int | None = None) -> int:
        """The id of a judge, which is recorded on first use; `short_id` is that of the search that screens for it."""
        words = (identity.digest, identity.label, identity.kind, identity.engine, identity.sha256)
        row = (*words, json_text(dict(identity.limits)), json_text(dict(identity.options)), identity.net_path, short_id)
        with self.writing() as connection:
            connection.execute(
                "INSERT INTO judges (digest, label, kind, engine, sha256, limits, options, net_path, short_id) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET "
                "net_path = coalesce(excluded.net_path, net_path), short_id = coalesce(excluded.short_id, short_id)",
                row,
            )
            return int(connection.execute("SELECT id FROM judges WHERE digest = ?", (identity.digest,)).fetchone()[0])

    # -- positions and values -----------------------------------------------------------------------------------------

    def add_positions(self, batch: PositionBatch, run: Run, parents: Sequence[int | None] | None = None) -> Ids:
        """int64[n]: the ids of the positions, of which the store keeps those that are new.

        A position is known by its board key, and keeps its first history. Only one that was beside the games, or a
        neighbour, and now occurs in a game, is replaced, with its values. `parents` are the candidates from which
        neighbours were reached.
        """
        with self.writing() as connection:
            keys, kinds = signed(batch.key), batch.origin.kind
            query = "SELECT key, id, origin FROM positions WHERE key IN (SELECT value FROM json_each(?))"
            known = {key: (number, origin) for key, number, origin in connection.execute(query, (json.dumps(keys),))}
            (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM positions").fetchone()
            first: dict[int, int] = {}  # of equal ones
            for i, key in enumerate(keys):
                first.setdefault(key, i)
            numbers = count(newest + 1)
            ids = {key: known[key][0] if key in known else next(numbers) for key in first}
            rows = [i for key, i in first.items() if key not in known or kinds[i] == GAME != known[key][1]]
            if replaced := [ids[keys[i]] for i in rows if keys[i] in known]:
                for table in ("net_values", "deep_values"):
                    of_ids = "position_id IN (SELECT value FROM json_each(?))"
                    connection.execute(f"DELETE FROM {table} WHERE {of_ids}", (json.dumps(replaced),))
            new = batch.take(rows)
            games, columns = self._add_games(new.origin.game), _position_columns(new)
            insert = _INSERT + _REPLACING if replaced else _INSERT  # replacing takes a third longer
            connection.executemany(
                insert,
                zip(
                    [ids[keys[i]] for i in rows],
                    *(columns[name] for name in POSITION),
                    [None] * len(rows) if parents is None else [parents[i] for i in rows],
                    games,
                    [run.id] * len(rows),
                    strict=True,
                ),
            )
            if rows:
                from valuerepair.store import parts  # reading a store does not wait for the kernels

                parts.assign(self, sorted({*games}))
            return np.array([ids[key] for key in keys], np.int64)

    def _add_games(self, games: Sequence[OriginGame]) -> list[int]:
        """The ids of the games of all rows, which are recorded on first use."""
        keys = signed(np.array([game.key for game in games], np.uint64))
        rows = [_game_row(key, game) for key, game in dict(zip(reversed(keys), reversed(games), strict=True)).items()]
        self.connection.executemany(f"INSERT OR IGNORE INTO games VALUES (NULL{', ?' * 9})", reversed(rows))
        query = "SELECT key, id FROM games WHERE key IN (SELECT value FROM json_each(?))"
        numbers = dict(self.connection.execute(query, (json.dumps([row[0] for row in rows]),)))
        return [numbers[key] for key in keys]

    def positions(self, ids: Sequence[int] | Ids) -> PositionBatch:
        """The positions `ids` [n], in that order, with their games and kinds, without recorded evaluations.

        Raises ValueRepairError if one is missing.
        """
        query = """
            SELECT p.fen, p.start_fen, p.moves, p.ply, p.key, p.history_known, p.played, p.origin,
                   g.source, g.number, g.key, g.headers, g.result
            FROM json_each(?) j CROSS JOIN positions p ON p.id = j.value JOIN games g ON g.id = p.game_id ORDER BY j.key
        """
        rows = self.connection.execute(query, (json.dumps(np.asarray(ids, np.int64).tolist()),)).fetchall()
        if len(rows) != len(ids):
            raise ValueRepairError(f"{self.path}: has no position of one of these numbers")
        if not rows:
            return PositionBatch.from_positions([])
        fens, starts, moves, plies, keys, known, played, kinds, *of_games = (list(c) for c in zip(*rows, strict=True))
        known_games: dict[int, OriginGame] = {}
        for source, number, key, headers, result in zip(*of_games, strict=True):
            if key not in known_games:
                known_games[key] = OriginGame(source, number, 0, json.loads(headers), result, int(unsigned([key])[0]))
        games = [known_games[key] for key in of_games[2]]
        return PositionBatch(
            fens,
            starts,
            np.frombuffer(b"".join(moves), "<u2").astype(np.uint16),
            cuts_of([len(blob) // 2 for blob in moves]),
            np.array(plies, np.int32),
            unsigned(keys),
            np.array(known, np.bool_),
            Origins(games, played, None, None if all(kind == GAME for kind in kinds) else kinds),
        )

    def add_net_values(self, ids: Ids, net_id: int, net_values: NetValues) -> None:
        """Adds the net's values of the positions `ids` [n]."""
        wins, draws, losses = (or_none(column) for column in net_values.wdl.T)
        with self.writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO net_values VALUES (?, ?, ?, ?, ?, ?, ?)",
                zip([net_id] * len(ids), ids.tolist(), net_values.q.astype(np.float64).tolist(), wins, draws, losses,
                    policy_cells(net_values), strict=True),
            )  # fmt: skip

    def add_deep(self, position_id: int, judge_id: int, result: DeepResult, run: Run, weight: float = 1.0) -> None:
        """Adds a judge's value of a position; it replaces a failure."""
        self.add_deep_columns(np.array([position_id], np.int64), judge_id, DeepColumns.of([result]), run, weight)

    def add_deep_columns(self, ids: Ids, judge_id: int, results: DeepColumns, run: Run, weight: float = 1.0) -> None:
        """Adds a judge's values of the positions `ids` [n]; they replace failures."""
        n = len(ids)
        with self.writing() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO deep_values ({_DEEP}) VALUES ({', '.join('?' * 16)})",
                zip([judge_id] * n, ids.tolist(), *results, [weight] * n, [run.id] * n, strict=True),
            )

    def add_failure(self, position_id: int, judge_id: int, reason: str, run: Run) -> None:
        """Records why the judge could not evaluate a position; a value that is there stays."""
        query = """
            INSERT INTO deep_values (judge_id, position_id, failed, run_id) VALUES (?, ?, ?, ?)
            ON CONFLICT (judge_id, position_id) DO UPDATE SET failed = excluded.failed, run_id = excluded.run_id
            WHERE failed IS NOT NULL
        """
        with self.writing() as connection:
            connection.execute(query, (judge_id, position_id, reason, run.id))

    def weigh_audits(self, full_id: int, short_id: int) -> None:
        """Has the audits of each run's positions of one origin stand for all of these that are not doubtful."""
        with self.writing() as connection:
            pair = {"full": full_id, "short": short_id}
            query = f"SELECT p.run_id, p.origin, count(*), count(f.position_id) {LEFT} GROUP BY p.run_id, p.origin"
            for run_id, origin, positions, audits in connection.execute(query, pair).fetchall():
                if audits:
                    audited = "f.position_id IS NOT NULL AND p.run_id = :run AND p.origin = :origin"
                    connection.execute(
                        "UPDATE deep_values SET weight = :weight WHERE judge_id = :full AND position_id IN "
                        f"(SELECT p.id {LEFT} AND {audited})",
                        {**pair, "run": run_id, "origin": origin, "weight": positions / audits},
                    )

    def without_net_value(self, net_id: int, ids: Ids) -> Flags:
        """bool[n]: which of the positions `ids` [n] have no value of the net."""
        return self._without("net_values WHERE net_id = ?", net_id, ids)

    def without_value(self, judge_id: int, ids: Ids) -> Flags:
        """bool[n]: which of the positions `ids` [n] have no value of the judge; a failure is none."""
        return self._without("deep_values WHERE failed IS NULL AND judge_id = ?", judge_id, ids)

    def _without(self, where: str, owner: int, ids: Ids) -> Flags:
        (last,) = self.connection.execute(f"SELECT max(position_id) FROM {where}", (owner,)).fetchone()
        without = ids > (last or 0)  # most positions are new
        if not without.all():
            query = f"SELECT position_id FROM {where} AND position_id IN (SELECT value FROM json_each(?))"
            rows = self.connection.execute(query, (owner, json.dumps(ids.tolist())))
            without = ~np.isin(ids, np.fromiter(chain.from_iterable(rows), np.int64))
        return without


def address_of(path: str, *, write: bool = False) -> str:
    """The file as SQLite's URI. Of a file that cannot be written here, and has no log, it says that nobody writes: else
    SQLite would want to make one beside it, and leave it there."""
    uri, place = Path(path).absolute().as_uri(), os.path.realpath(path)
    can_be_written = os.access(place, os.W_OK) and os.access(os.path.dirname(place), os.W_OK)
    return uri if write or can_be_written or os.path.exists(place + "-wal") else f"{uri}?immutable=1"


def _leave(connection: sqlite3.Connection, path: str, is_writable: bool) -> None:
    """Closes a store without what was not committed; one without a position and without a game played is removed."""
    connection.rollback()
    is_empty = is_writable and not os.path.getsize(path)
    with suppress(sqlite3.Error):  # its tables may not be there yet, or be damaged
        query = "SELECT NOT EXISTS (SELECT 1 FROM positions) AND NOT EXISTS (SELECT 1 FROM plays)"
        is_empty = is_writable and bool(connection.execute(query).fetchone()[0])
    connection.close()
    if is_empty:
        Path(os.path.realpath(path)).unlink(missing_ok=True)


def _abandon(connection: sqlite3.Connection, path: str, is_writable: bool) -> None:
    """As `_leave`, when a signal ends the process: a query that still has rows would keep SQLite's files there."""
    for cursor in gc.get_referrers(connection):
        if isinstance(cursor, sqlite3.Cursor):
            cursor.close()
    _leave(connection, path, is_writable)


def policy_cells(net_values: NetValues) -> list[bytes | None]:
    """The best moves of n positions with their priors, as the table net_values has them."""
    cells = np.zeros(net_values.moves.shape, POLICY)
    cells["move"], cells["p"] = net_values.moves, net_values.priors
    if not cells["move"].any():
        return [None] * len(cells)  # recorded values have no policy
    return [row[row["move"] != 0].tobytes() or None for row in cells]


def _check(connection: sqlite3.Connection, path: str, *, create: bool) -> None:
    """Makes the tables of an empty file. Raises ValueRepairError for a file that is no store of this version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and create:
        script = Path(__file__).with_name("schema.sql").read_text("utf-8")
        header = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
        connection.executescript(f"BEGIN IMMEDIATE; {script} {header} COMMIT")
    elif application != APPLICATION_ID:
        raise ValueRepairError(f"{path} is not a valuerepair store; give another --db")
    elif version != VERSION:
        other = "an older" if version < VERSION else "a newer"
        written = f"{path} was written by {other} valuerepair (store version {version})"
        raise ValueRepairError(f"{written}; mine into another file")


_DEEP = "judge_id, position_id, cp, mate, w, d, l, q, depth, seldepth, nodes, time_ms, best_move, pv, weight, run_id"
# What a position is by itself (`_position_columns`), and then what it belongs to.
POSITION = (
    "key", "fen", "start_fen", "moves", "history_known", "ply", "side", "phase", "pieces", "origin", "played",
    "eval_cp", "eval_mate",
)  # fmt: skip
_POSITION = (*POSITION, "parent_id", "game_id", "run_id")
_INSERT = f"INSERT INTO positions (id, {', '.join(_POSITION)}) VALUES (?{', ?' * len(_POSITION)})"
_REPLACING = f" ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _POSITION)}"


def _game_row(key: int, game: OriginGame) -> tuple[Any, ...]:
    headers: Mapping[str, str] = dict(game.headers)
    words = (headers.get("White"), headers.get("Black"), headers.get("Event"))
    date, result = headers.get("Date") or headers.get("UTCDate"), game.result or headers.get("Result")
    return (key, game.source, game.number, *words, date, result, json_text(headers))


def _position_columns(batch: PositionBatch) -> dict[str, Sequence[Any]]:
    """What the table of positions has of a batch, by the names of `POSITION`."""
    men, origins = boards(batch.fen), batch.origin
    data, cuts = batch.moves.astype("<u2").tobytes(), (2 * batch.offsets).tolist()
    return {
        "key": signed(batch.key),
        "fen": batch.fen,
        "start_fen": batch.start_fen,
        "moves": [data[a:b] for a, b in pairwise(cuts)],
        "history_known": batch.history_known.astype(np.int64).tolist(),
        "ply": batch.ply.tolist(),
        "side": [int(fen.split(" ", 2)[1] == "b") for fen in batch.fen],
        "phase": phases(men).tolist(),
        "pieces": piece_counts(men).tolist(),
        "origin": origins.kind,
        "played": origins.played,
        "eval_cp": origins.scores("cp"),
        "eval_mate": origins.scores("mate"),
    }
