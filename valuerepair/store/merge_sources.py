"""The stores that are merged, which are checked and read but never written; and which of two rows is kept."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import scratch_folder
from valuerepair.store import schema
from valuerepair.store.cells import columns_of
from valuerepair.store.connection import check_file, log_sizes
from valuerepair.store.scale import FITS

Fingerprint: TypeAlias = tuple[int, int, int, bool]


@dataclass(frozen=True)
class SourceStore:
    """A store to be merged: its file as the user named it, and what SQLite attaches for it."""

    path: str
    address: str
    before: Fingerprint | None = None

    def check_unchanged(self) -> None:
        """Raises ValueRepairError if somebody wrote to the store since it was opened."""
        if self.before is not None and _fingerprint(self.path) != self.before:
            raise ValueRepairError(
                f"{self.path} was written while it was merged; nothing is kept: give the command again"
            )


@contextmanager
def open_sources(paths: Sequence[str], target: str) -> Iterator[list[SourceStore]]:
    """The stores at `paths`, to be attached by their addresses; copies are next to `target` as long as this is open.

    Raises UsageError for a store that is named twice and ValueRepairError for a file that is not one, each in one line.
    """
    by_file: dict[tuple[int, int], str] = {}
    for path in paths:
        check_file(path, create=False, advice="give the files of stores")
        if not os.access(path, os.R_OK):
            raise ValueRepairError(f"{path} cannot be read: no permission")
        status = os.stat(path)
        if (same := by_file.get((status.st_dev, status.st_ino))) is not None:
            raise UsageError(f"{path} is given twice" + ("" if same == path else f": {same} is the same file"))
        by_file[status.st_dev, status.st_ino] = path
    if os.path.exists(target):
        status = os.stat(target)
        if (same := by_file.get((status.st_dev, status.st_ino))) is not None:
            raise UsageError(f"{same} is both merged and merged into; name it once")
    with scratch_folder(target) as copies:
        yield [_open(path, os.path.join(copies, f"{i}.db")) for i, path in enumerate(paths)]


def address_of(path: str, *, fixed: bool = False) -> str:
    """The URI of a file for SQLite's ATTACH; `fixed`: read-only, and assumed not to change."""
    return f"file:{quote(os.path.realpath(path))}" + ("?mode=ro&immutable=1" if fixed else "")


def _open(path: str, copy: str) -> SourceStore:
    before = _fingerprint(path)
    # A lock that a killed writer left behind costs a copy, no more.
    written = before[-1] or os.path.exists(os.path.realpath(path) + ".lock")
    if not written:
        with closing(sqlite3.connect(address_of(path, fixed=True), uri=True)) as connection:
            version = _version(connection, path)
        if version == schema.SCHEMA_VERSION:
            return SourceStore(path, address_of(path, fixed=True), before)
    # Read with the log of its writer, without writing that back into the store.
    address = address_of(path) + "?mode=ro" if written else address_of(path, fixed=True)
    with (
        closing(sqlite3.connect(address, uri=True, timeout=30.0)) as connection,
        closing(sqlite3.connect(copy, isolation_level=None)) as into,
    ):
        _version(connection, path)
        connection.backup(into, pages=10_000)
        into.execute("PRAGMA journal_mode = DELETE")
        schema.migrate(into, path)
    return SourceStore(path, address_of(copy, fixed=True))


def _version(connection: sqlite3.Connection, path: str) -> int:
    """The version of a store; raises ValueRepairError for a file that is not a store."""
    try:
        version = schema.version(connection, path)
    except sqlite3.DatabaseError as error:
        if "unable to open" in str(error):
            raise ValueRepairError(f"{path} is being written and its log cannot be read here: no permission") from None
        raise ValueRepairError(f"{path} is not a valuerepair store, or damaged ({error})") from None
    if version == 0:
        raise ValueRepairError(f"{path} is an empty database, not a valuerepair store")
    schema.check_form(connection, path, version)
    return version


def is_damaged(path: str) -> bool:
    """Whether SQLite finds a fault in the file of a store; False for a file that does not exist."""
    if not os.path.exists(path):
        return False
    try:
        with closing(sqlite3.connect(address_of(path, fixed=True), uri=True)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok")
    except sqlite3.DatabaseError:
        return True


def _fingerprint(path: str) -> Fingerprint:
    """What changes when somebody writes to the store."""
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, any(log_sizes(path))


# Rounding makes a net's values on two machines differ by some millionths; a larger difference is another value.
SAME_Q = 1e-3


@dataclass(frozen=True)
class Rule:
    """How rows of a table are merged.

    `differs` is the condition of a contradiction, which is reported as `kind`; empty if rows cannot contradict. The row
    with the higher value of the expressions `higher` is kept (``{}`` is the row's alias); if these are equal, the row
    of the older run; then that with the lower value of `last`; then the other columns decide.
    """

    table: str
    differs: str = ""
    kind: str = ""
    higher: tuple[str, ...] = ()
    last: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The table's columns."""
        return [column.name for column in columns_of(self.table)]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        return columns_of(self.table)[0].key

    @property
    def mapped(self) -> dict[str, str]:
        """The columns that refer to rows of other tables -> the map of their numbers (`merge_rows`)."""
        numbers = {column.name: column.parent for column in columns_of(self.table) if column.parent is not None}
        return {name: _ORIGINS.get(name, parent) for name, parent in numbers.items()}

    @property
    def better(self) -> str:
        """The condition that the new row, ``excluded``, is kept. If all else is equal, the other columns decide."""
        tail = [name for name in self.columns if name not in self.key and name not in self.mapped]
        lower = [*(_OLDER if "run_id" in self.columns else ()), *self.last]
        new = [e.format("excluded") for e in self.higher] + [e.format("t") for e in lower]
        old = [e.format("t") for e in self.higher] + [e.format("excluded") for e in lower]
        # NULL compares with nothing; a blob sorts after every number and text.
        new += [f"coalesce(t.{name}, x'')" for name in tail]
        old += [f"coalesce(excluded.{name}, x'')" for name in tail]
        return f"({', '.join(new)}) > ({', '.join(old)})"


# Of equally good values that of the older run is kept: keeping the higher or the lower value would bias them.
_OLDER = (
    "(SELECT started FROM main.runs WHERE id = {}.run_id)",
    "(SELECT identity FROM main.runs WHERE id = {}.run_id)",
)
# The neighbours of a position do not depend on its history, so these numbers are mapped whichever history was kept.
_ORIGINS = {"root_id": "same_key", "parent_id": "same_key"}

SCREENED = Rule(
    "screened",
    # A ladder that did not cut the position is preferred, then the larger chance of an audit. Whether the audit took
    # place must not count: a rule that looked at it would keep more audits than the chances say.
    higher=("({}.cut_at IS NULL)", "{}.probability"),
)
RULES: tuple[Rule, ...] = (
    Rule(
        "net_values",
        f"abs(t.q - n.q) > {SAME_Q}",
        "another net value",
        ("({}.best_move IS NOT NULL)",),
        ("coalesce({}.entropy, 0)",),
    ),
    Rule("priors", f"abs(t.p - n.p) > {SAME_Q}", "another prior"),
    Rule(
        "deep_values",
        "(t.cp IS NOT n.cp OR t.mate IS NOT n.mate OR t.w IS NOT n.w OR t.d IS NOT n.d OR t.l IS NOT n.l "
        "OR t.q IS NOT n.q OR t.best_move IS NOT n.best_move)",
        "another deep value",
        ("{}.nodes", "{}.depth"),
        ("{}.time_ms", "{}.pv"),
    ),
    Rule("failures", higher=("{}.attempts",)),
    Rule(
        "alpha_fits",
        "t.alpha IS NOT n.alpha",
        "two alpha fits",
        (f"({{}}.norm IN {FITS})", "{}.n", "{}.fitted"),
    ),
    Rule(
        "expanded",
        higher=("{}.searched", "({}.cut_at IS NULL)", "{}.probability"),
        last=("{}.round",),
    ),
    Rule(
        "plays",
        "(t.key IS NOT n.key OR t.result IS NOT n.result OR t.white IS NOT n.white OR t.black IS NOT n.black)",
        "another game of the same number",
    ),
    Rule("files"),
)
# Tables with code of their own in `valuerepair.store.merge_rows`; `calibrations` has no rows.
OTHERS = ("runs", "games", "nets", "oracles", "screens", "positions", "screened", "calibrations")
