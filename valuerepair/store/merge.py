"""`vr merge`: stores of shards into one; rows are matched by their content and not by their numbers.

SQLite copies rows from file to file, in pieces; numbers are mapped by tables in a file next to the merged store.
docs/methods.md, "Merging", says which rows are kept if stores contradict each other.
"""

from __future__ import annotations

import logging
import os
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import check_folder, scratch_folder, written_whole
from valuerepair.progress import Progress
from valuerepair.store import db_option, schema
from valuerepair.store.connection import LOGS, StoreConnection
from valuerepair.store.merge_rows import Sources, add_catalogue, add_positions, merge_values
from valuerepair.store.merge_sources import (
    RULES,
    SCREENED,
    SourceStore,
    address_of,
    is_damaged,
    open_sources,
)
from valuerepair.store.store import Store

_CACHE_KIB = 64 * 1024
log = logging.getLogger(__name__)
HISTORY = "another history"
_NAMES = {"deep_values": "deep values", "net_values": "net values", "failures": "failures", "plays": "games played"}
_COUNTED = ("runs", "games", "positions", "nets", "oracles", "screens", SCREENED.table, *(rule.table for rule in RULES))


@dataclass
class Contradiction:
    """Contradictions of one kind between stores: their number, and the FEN of an example, empty without a position."""

    kind: str
    count: int
    example: str


@dataclass
class Merged:
    """The outcome of a merge: how many rows each table of the result has, how many are new, and the contradictions."""

    output: str
    sources: list[str]
    rows: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)

    def add_contradictions(self, kind: str, count: int, example: str | None) -> None:
        """Adds `count` contradictions of a kind."""
        for contradiction in self.contradictions:
            if contradiction.kind == kind:
                contradiction.count += count
                return
        self.contradictions.append(Contradiction(kind, count, example or ""))

    def lines(self) -> list[str]:
        """The account for a terminal."""
        rows, added = self.rows, self.added
        text_lines = [
            f"{self.output}: {rows['positions']:,} positions, {added['positions']:,} of them new; {rows['runs']:,} runs"
        ]
        text_lines += [f"  {rows[t]:>12,} {name} ({added[t]:,} new)" for t, name in _NAMES.items() if rows[t]]
        for contradiction in self.contradictions:
            example = f"  e.g. {contradiction.example}" if contradiction.example else ""
            noun = "contradiction" if contradiction.count == 1 else "contradictions"
            text_lines.append(f"  {contradiction.count:>12,} {noun}: {contradiction.kind}{example}")
        if self.contradictions:
            text_lines.append("  what was kept of them: docs/methods.md, Merging")
        return text_lines

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def merge(paths: Sequence[str], target: str, progress: Progress | None = None) -> Merged:
    """Merges the stores at `paths` into the store `target`, which is added to if it exists.

    The sources are not written. Either the merge is complete or nothing has changed. Raises UsageError for a store that
    is named twice, ValueRepairError for a file that is not a store and a full disk.
    """
    merged = Merged(target, [*paths])
    is_new = not os.path.exists(target)
    _check_target(target, new=is_new)
    progress = progress or Progress("merging", quiet=True)
    with _one_line(target, paths), open_sources(paths, target) as sources:
        if is_new:
            with written_whole(target) as partial:
                _merge_new(sources, os.fspath(partial), merged, progress)
                if os.path.exists(target):
                    raise ValueRepairError(f"{target} was created by another process meanwhile; nothing was kept")
        else:
            _merge_into(sources, target, merged, progress)
    if merged.rows.get("alpha_fits") and len(merged.sources) > 1:
        fit = shlex.join(["vr", "stats", *db_option(target), "--save-alpha", "slope"])
        log.info(f"alpha is that of one store, as it was stored there; {fit} fits one to all")
    return merged


def _check_target(target: str, *, new: bool) -> None:
    folder = os.path.dirname(os.path.realpath(target))
    if not os.path.isdir(folder):
        raise UsageError(f"{target}: there is no folder {folder}; make it, or give another --output")
    check_folder(folder)
    for old_log in (os.path.realpath(target) + end for end in LOGS if new):
        # SQLite would replay it into the new store and overwrite its pages.
        if os.path.exists(old_log):
            reason = f"{old_log} is the log of a store that no longer exists, and would damage a new one"
            raise ValueRepairError(f"{reason}; remove it, or give another --output")


@contextmanager
def _one_line(target: str, paths: Sequence[str]) -> Iterator[None]:
    """Turns an error of SQLite into one line for the user, which names the damaged stores among `paths`."""
    try:
        yield
    except (sqlite3.DatabaseError, ValueRepairError) as error:
        cause = error.__cause__ if isinstance(error, ValueRepairError) else error
        if not isinstance(cause, sqlite3.DatabaseError):
            raise
        message = str(cause)
        if "disk is full" in message or "disk I/O" in message:
            room = "the disk is full or failing: make room, about as much as the stores take together"
            raise ValueRepairError(f"{target}: {room}; nothing was kept") from error
        if "malformed" in message or "not a database" in message:
            damaged = [path for path in dict.fromkeys((*paths, target)) if is_damaged(path)]
            names = ", ".join(damaged) or "one of the stores"
            raise ValueRepairError(f"{names}: damaged ({message}), vr doctor says more; nothing was kept") from error
        raise ValueRepairError(f"{target}: {message}; nothing was kept") from error


def _merge_new(sources: Sequence[SourceStore], path: str, merged: Merged, progress: Progress) -> None:
    """Merges into a new file, without a transaction: nobody sees the file before it is complete."""
    address = f"{address_of(path)}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None, factory=StoreConnection)) as connection:
        connection.set_up(path)
        # The file is deleted after a crash, so nothing has to be undone.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        schema.migrate(connection, path)
        with _workspace(connection, path):
            _merge(Sources(connection, sources), merged, progress)
            _finish(sources)


def _merge_into(sources: Sequence[SourceStore], into: str, merged: Merged, progress: Progress) -> None:
    """Merges into a store in one transaction; several sources are merged into one first."""
    if len(sources) > 1:
        with scratch_folder(into) as scratch:
            all_sources = os.path.join(scratch, "all.db")
            Path(all_sources).touch()
            # `merged` keeps the contradictions between the sources.
            _merge_new(sources, all_sources, merged, progress)
            merged.rows, merged.added = {}, {}
            _merge_into([SourceStore(all_sources, address_of(all_sources, fixed=True))], into, merged, progress)
        return
    with Store.open(into, write=True) as store, _workspace(store.connection, into):
        connection = store.connection
        # SQLite cannot attach a store within a transaction.
        attached = Sources(connection, sources)
        attached.use(0)
        connection.execute("BEGIN IMMEDIATE")
        try:
            _merge(attached, merged, progress)
            _finish(sources)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite may have rolled back by itself
                connection.execute("ROLLBACK")
            raise
        connection.execute("DETACH source")
        connection.path, connection.schema = into, "main"


@contextmanager
def _workspace(connection: StoreConnection, target: str) -> Iterator[None]:
    """A file next to the target for temporary tables, as ``work``: they grow with the stores, and memory does not."""
    with scratch_folder(target) as scratch:
        connection.execute("ATTACH ? AS work", (address_of(os.path.join(scratch, "work.db")) + "?mode=rwc",))
        try:
            connection.execute("PRAGMA work.journal_mode = OFF")
            connection.execute("PRAGMA work.synchronous = OFF")
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(f"PRAGMA main.cache_size = -{_CACHE_KIB}")
            connection.execute(f"PRAGMA work.cache_size = -{_CACHE_KIB // 4}")
            yield
        finally:
            if not connection.in_transaction:
                connection.execute("DETACH work")


def _merge(sources: Sources, merged: Merged, progress: Progress) -> None:
    connection = sources.connection
    before = _counts(connection, "main")
    total = 0
    for number in range(len(sources.stores)):
        counts = _counts(connection, sources.use(number))
        connection.check_numbers()
        total += sum(counts[table] for table in ("positions", SCREENED.table, *(rule.table for rule in RULES)))
    progress.set_total((progress.total or 0) + total)
    add_catalogue(sources)
    several, example = add_positions(sources, progress.advance)
    if several:
        merged.add_contradictions(HISTORY, several, example)
    for number in range(len(sources.stores)):
        sources.use(number)
        merge_values(connection, progress.advance, merged.add_contradictions)
    merged.rows = _counts(connection, "main")
    merged.added = {table: count - before[table] for table, count in merged.rows.items()}


def _finish(sources: Sequence[SourceStore]) -> None:
    """The checks before the result is made permanent."""
    for source in sources:
        source.check_unchanged()


def _counts(connection: StoreConnection, name: str) -> dict[str, int]:
    return {table: int(connection.execute(f"SELECT count(*) FROM {name}.{table}").fetchone()[0]) for table in _COUNTED}
