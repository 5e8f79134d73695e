"""The tables of a store, its version, and how older versions become the present one.

SQLite's ``application_id`` identifies a store, and ``user_version`` is its version; `file` and other tools show both.
``MIGRATIONS[v]`` turns a store of version v - 1 into version v; the first makes one of an empty file, version 0. A
released migration is never edited: a change is a new one at the end.

All scores and values are from the side to move. Board keys are 64-bit unsigned numbers stored as SQLite's signed ones.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache

from valuerepair.errors import ValueRepairError

# "VRst": a positive 32-bit number that no other program in SQLite's magic.txt uses.
APPLICATION_ID = 0x56527374

_VERSION_7 = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,      -- digest of archives, sampling options, net and oracle
    command TEXT NOT NULL,
    options TEXT NOT NULL,              -- JSON
    seed INTEGER NOT NULL,
    versions TEXT NOT NULL,             -- JSON
    started TEXT NOT NULL,              -- UTC, ISO 8601
    finished TEXT,
    state TEXT NOT NULL,                -- running, finished, interrupted
    counts TEXT NOT NULL DEFAULT '{}'   -- JSON
);
CREATE TABLE games (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,               -- the file as the user named it
    number INTEGER NOT NULL,            -- 1-based in its source
    digest INTEGER NOT NULL,            -- of headers and offset: two files of one name are two sources
    byte_offset INTEGER NOT NULL,
    white TEXT, black TEXT, event TEXT, date TEXT, result TEXT,
    headers TEXT NOT NULL,              -- JSON
    UNIQUE (source, number, digest)
);
CREATE TABLE positions (
    id INTEGER PRIMARY KEY,
    key INTEGER NOT NULL UNIQUE,
    fen TEXT NOT NULL,
    start_fen TEXT NOT NULL,
    moves BLOB NOT NULL,                -- uint16, little endian: from + 64 * to + 4096 * promotion
    history_known INTEGER NOT NULL,
    ply INTEGER NOT NULL,
    side TEXT NOT NULL,                 -- w, b
    phase TEXT NOT NULL,                -- opening, middlegame, endgame
    pieces INTEGER NOT NULL,
    game_id INTEGER NOT NULL REFERENCES games (id),
    played TEXT,
    eval_cp INTEGER, eval_mate INTEGER,
    run_id INTEGER NOT NULL REFERENCES runs (id)
);
CREATE TABLE nets (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    history_fill TEXT NOT NULL,         -- it changes the values of positions with little history
    value_head TEXT NOT NULL,
    input_format INTEGER NOT NULL,
    size INTEGER NOT NULL,
    UNIQUE (sha256, history_fill)
);
CREATE TABLE oracles (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL,
    kind TEXT NOT NULL,
    engine TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    limits TEXT NOT NULL,               -- JSON
    options TEXT NOT NULL               -- JSON
);
CREATE TABLE "net_values" (
    net_id INTEGER NOT NULL REFERENCES nets (id),
    position_id INTEGER NOT NULL REFERENCES positions (id),
    q REAL NOT NULL,
    w REAL, d REAL, l REAL,             -- NULL for scalar value heads
    best_move INTEGER,                  -- NULL, as what follows, for recorded values, which come without a policy
    best_p REAL,
    entropy REAL,                       -- nats, legal moves
    moves_left REAL,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (net_id, position_id)
) WITHOUT ROWID;
CREATE TABLE deep_values (
    oracle_id INTEGER NOT NULL REFERENCES oracles (id),
    stage TEXT NOT NULL,                -- 'full': the whole search; others: see store.rows
    position_id INTEGER NOT NULL REFERENCES positions (id),
    cp INTEGER, mate INTEGER,
    w INTEGER, d INTEGER, l INTEGER,    -- per mille
    q REAL,                             -- of engines that give Q itself
    depth INTEGER NOT NULL, seldepth INTEGER NOT NULL,
    nodes INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    best_move TEXT,
    pv TEXT NOT NULL,                   -- UCI moves
    run_id INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (oracle_id, stage, position_id)
) WITHOUT ROWID;
CREATE INDEX deep_values_by_run ON deep_values (run_id);
CREATE TABLE failures (
    oracle_id INTEGER NOT NULL REFERENCES oracles (id),
    stage TEXT NOT NULL,
    position_id INTEGER NOT NULL REFERENCES positions (id),
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (oracle_id, stage, position_id)
) WITHOUT ROWID;
CREATE TABLE alpha_fits (
    net_id INTEGER NOT NULL REFERENCES nets (id),
    oracle_id INTEGER NOT NULL REFERENCES oracles (id),
    alpha REAL NOT NULL,
    low REAL, high REAL,
    norm TEXT NOT NULL,
    n INTEGER NOT NULL,
    residual REAL NOT NULL,
    fitted TEXT NOT NULL,               -- UTC, ISO 8601
    PRIMARY KEY (net_id, oracle_id)
) WITHOUT ROWID;
CREATE TABLE priors (                   -- the net's policy, of single moves
    net_id INTEGER NOT NULL REFERENCES nets (id),
    position_id INTEGER NOT NULL REFERENCES positions (id),
    move INTEGER NOT NULL,              -- as in positions.moves
    p REAL NOT NULL,                    -- among the legal moves
    rank INTEGER NOT NULL,              -- 1: the net's first choice
    PRIMARY KEY (net_id, position_id, move)
) WITHOUT ROWID;
CREATE TABLE screens (                  -- the screening ladder, as it was fitted
    id INTEGER PRIMARY KEY,
    net_id INTEGER NOT NULL REFERENCES nets (id),
    oracle_id INTEGER NOT NULL REFERENCES oracles (id),
    threshold REAL NOT NULL,
    alpha REAL NOT NULL,
    alpha_given INTEGER NOT NULL,       -- 1: asked for, 0: what auto was then
    q_from TEXT NOT NULL,
    recall REAL NOT NULL,
    model TEXT NOT NULL,                -- JSON
    fitted TEXT NOT NULL                -- UTC, ISO 8601
);
CREATE TABLE screened (                 -- what became of each position on the ladder
    net_id INTEGER NOT NULL REFERENCES nets (id),
    oracle_id INTEGER NOT NULL REFERENCES oracles (id),
    position_id INTEGER NOT NULL REFERENCES positions (id),
    screen_id INTEGER REFERENCES screens (id),  -- NULL: there was none yet
    cut_at INTEGER,                     -- nodes where it left the ladder, or would have; NULL: nowhere
    chance REAL,                        -- of a candidate, as estimated there
    nodes INTEGER NOT NULL,             -- spent on it
    searched INTEGER NOT NULL,          -- 1: in full
    probability REAL NOT NULL,          -- of being searched in full, for one like this
    run_id INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (net_id, oracle_id, position_id)
) WITHOUT ROWID;
CREATE TABLE plays (                    -- games from positions of books, which need not have been mined here
    run_id INTEGER NOT NULL REFERENCES runs (id),
    number INTEGER NOT NULL,            -- of the game in its run, from 0
    opening INTEGER NOT NULL,           -- the line of the book, from 0
    key INTEGER NOT NULL,               -- of the position at the end of the line, as positions.key
    fen TEXT NOT NULL,                  -- that position
    white TEXT NOT NULL, black TEXT NOT NULL,
    result TEXT NOT NULL,               -- 1-0, 0-1, 1/2-1/2, *
    z REAL,                             -- for the side to move of that position; NULL: undecided
    plies INTEGER NOT NULL,             -- played after the book
    ending TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
CREATE INDEX plays_by_key ON plays (key);
-- Whose move it is and the phase of the game, of all positions, without reading their histories.
CREATE INDEX positions_by_phase ON positions (phase, side);
"""

# Calibrations, and the neighbourhoods of candidates.
_VERSION_8 = """
CREATE TABLE calibrations (             -- the expected deep Q given net Q
    net_id INTEGER NOT NULL REFERENCES nets (id),
    oracle_id INTEGER NOT NULL REFERENCES oracles (id),
    alpha REAL NOT NULL,                -- what deep Q was made by
    q_from TEXT NOT NULL,
    curve TEXT NOT NULL,                -- JSON
    n INTEGER NOT NULL,
    games INTEGER NOT NULL,
    fitted TEXT NOT NULL,               -- UTC, ISO 8601
    PRIMARY KEY (net_id, oracle_id)
) WITHOUT ROWID;
CREATE TABLE expanded (                 -- positions reached from candidates, by a net and an oracle
    net_id INTEGER NOT NULL REFERENCES nets (id),
    oracle_id INTEGER NOT NULL REFERENCES oracles (id),
    position_id INTEGER NOT NULL REFERENCES positions (id),
    root_id INTEGER NOT NULL REFERENCES positions (id),   -- the sampled candidate that it all began with
    parent_id INTEGER NOT NULL REFERENCES positions (id), -- what it was reached from
    step TEXT NOT NULL,                 -- line, parent, child, game
    distance INTEGER NOT NULL,          -- plies from the parent; of children the rank of the policy's move
    round INTEGER NOT NULL,             -- from 1
    drawn INTEGER NOT NULL,             -- 1: by chance, 0: for its yield
    screen_id INTEGER REFERENCES screens (id), -- from here on as in the table screened
    cut_at INTEGER,
    chance REAL,
    nodes INTEGER NOT NULL,
    searched INTEGER NOT NULL,
    probability REAL NOT NULL,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (net_id, oracle_id, position_id)
) WITHOUT ROWID;
CREATE INDEX expanded_by_root ON expanded (root_id);
ALTER TABLE screens ADD COLUMN expanded INTEGER NOT NULL DEFAULT 0; -- 1: of such positions
"""

# Where files are, so that no command has to name them again.
_VERSION_9 = """
CREATE TABLE files (                    -- on the machine that wrote last
    role TEXT NOT NULL,                 -- net, split
    sha256 TEXT NOT NULL,               -- of the file; empty for the split, of which there is one
    path TEXT NOT NULL,                 -- from the root
    PRIMARY KEY (role, sha256)
) WITHOUT ROWID;
"""

# How positions came about. Those that `vr mine --off-game` drew before are known by the options of the run that brought
# them first, and kept apart from now on: their searches are no longer those of the archive's positions.
_VERSION_10 = """
ALTER TABLE positions ADD COLUMN kind TEXT DEFAULT 'game'; -- aside, policy, search; NULL: only reached from candidates
UPDATE positions SET kind = NULL WHERE id IN (SELECT position_id FROM expanded)
    AND id NOT IN (SELECT position_id FROM screened) AND NOT EXISTS (
        SELECT 1 FROM oracles o CROSS JOIN deep_values v ON v.oracle_id = o.id AND v.stage = 'full'
        AND v.position_id = positions.id);
UPDATE positions SET kind = 'aside'
    WHERE run_id IN (SELECT id FROM runs WHERE json_extract(options, '$.aside'));
UPDATE OR REPLACE deep_values SET stage = 'expanded' WHERE stage = 'full'
    AND position_id IN (SELECT id FROM positions WHERE kind = 'aside');
UPDATE OR REPLACE failures SET stage = 'expanded' WHERE stage = 'full'
    AND position_id IN (SELECT id FROM positions WHERE kind = 'aside');
DELETE FROM screened WHERE position_id IN (SELECT id FROM positions WHERE kind = 'aside');
-- The own search is called by its number.
UPDATE oracles SET label = replace(label, 'valuerepair 0.1.0 search', 'valuerepair search') WHERE kind = 'mcts';
-- Of the positions that are of no game, without reading their histories.
CREATE INDEX positions_beside ON positions (kind) WHERE kind IS NOT 'game';
"""

# 7 is the version that valuerepair 0.1.0 wrote.
MIGRATIONS = {7: _VERSION_7, 8: _VERSION_8, 9: _VERSION_9, 10: _VERSION_10}
SCHEMA_VERSION = max(MIGRATIONS)


def version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the store of `connection`, 0 for an empty file.

    Raises ValueRepairError for a database of another program and for a store of a newer valuerepair.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and number == 0 and tables == 0:
        return 0
    if application != APPLICATION_ID:
        raise ValueRepairError(f"{path} is a database of another program, not a valuerepair store; give another --db")
    if number < min(MIGRATIONS):
        raise ValueRepairError(f"{path} was written before valuerepair 0.1.0 (store version {number}); mine again")
    if number > SCHEMA_VERSION:
        raise ValueRepairError(
            f"{path} was written by a newer valuerepair (store version {number}, this one knows {SCHEMA_VERSION}); "
            "upgrade valuerepair, or give another --db"
        )
    return int(number)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Brings a store to the present version; each step and its version number are one transaction."""
    present = version(connection, path)
    for step, script in MIGRATIONS.items():
        if step > present:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{script}\n;\n"
                f"PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {step};\nCOMMIT;"
            )


@contextmanager
def empty_store(last: int | None = None) -> Iterator[sqlite3.Connection]:
    """An empty store in memory, of the present version or of an earlier one, `last`."""
    with closing(sqlite3.connect(":memory:")) as empty:
        for step, script in MIGRATIONS.items():
            if last is None or step <= last:
                empty.executescript(script)
        yield empty


def differences(connection: sqlite3.Connection, number: int) -> list[str]:
    """How a store of version `number` differs from what `migrate` makes, each as ``table plays differs``.

    An additional table or index is not a difference. An additional view, trigger or virtual table is one, because it
    can run for ever.
    """
    expected, actual = _expected(tuple(MIGRATIONS.items()), number), _form(connection)
    missing = [f"{name} is missing" for name in expected if name not in actual]
    other = [f"{name} differs" for name, sql in actual.items() if sql != expected.get(name, sql)]
    foreign = (name for name in actual if name not in expected)
    more = [f"{name} does not belong in a store" for name in foreign if not _IDLE.match(f"{name} {actual[name]}")]
    return missing + other + more


def check_form(connection: sqlite3.Connection, path: str, number: int) -> None:
    """Raises ValueRepairError for a store of version `number` with `differences`."""
    if different := differences(connection, number):
        more = f" (and {len(different) - 1} more)" if different[1:] else ""
        raise ValueRepairError(
            f"{path} is not as valuerepair made it: {different[0]}{more}; take a copy of it, or mine again"
        )


# A table or an index that runs nothing; an index on an expression would run the expression.
_IDLE = re.compile(r"table \S+ CREATE TABLE|index \S+ CREATE (UNIQUE )?INDEX [^()]*\([^()]*\)$")


@cache
def _expected(migrations: tuple[tuple[int, str], ...], last: int) -> dict[str, str]:
    with empty_store(last) as empty:
        return _form(empty)


def _form(connection: sqlite3.Connection) -> dict[str, str]:
    """The statement of each table, index and the like by its type and name."""
    query = "SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite_%'"
    # Comments are kept with a table, and say nothing about its rows.
    return {name: " ".join(re.sub(r"--[^\n]*", "", sql).split()) for name, sql in connection.execute(query)}
