-- One store. All scores and values are from the side to move. Board keys and keys of games are 64-bit unsigned numbers,
-- kept as SQLite's signed ones.
CREATE TABLE settings (                 -- what commands use unless told otherwise, and what is held out
    name TEXT PRIMARY KEY,              -- net, judge, alpha, threshold, split
    value TEXT NOT NULL                 -- JSON
) WITHOUT ROWID;
CREATE TABLE held_families (            -- held out by `vr split`
    kind TEXT NOT NULL,                 -- opening, material
    name TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,      -- digest of everything that the results depend on
    command TEXT NOT NULL,
    options TEXT NOT NULL,              -- JSON
    versions TEXT NOT NULL,             -- JSON
    started TEXT NOT NULL,              -- UTC, ISO 8601
    finished TEXT,
    state TEXT NOT NULL,                -- running, finished, interrupted
    counts TEXT NOT NULL DEFAULT '{}'   -- JSON
);
CREATE TABLE games (
    id INTEGER PRIMARY KEY,
    key INTEGER NOT NULL UNIQUE,        -- hash of the moves: a copy in another archive is the same game
    source TEXT NOT NULL,               -- the file as the user named it
    number INTEGER NOT NULL,            -- 1-based in its source
    white TEXT, black TEXT, event TEXT, date TEXT, result TEXT,
    headers TEXT NOT NULL               -- JSON
);
CREATE TABLE positions (
    id INTEGER PRIMARY KEY,
    key INTEGER NOT NULL UNIQUE,
    fen TEXT NOT NULL,
    start_fen TEXT NOT NULL,
    moves BLOB NOT NULL,                -- uint16, little endian: from + 64 * to + 4096 * promotion
    history_known INTEGER NOT NULL,
    ply INTEGER NOT NULL,
    side INTEGER NOT NULL,              -- 0 white, 1 black
    phase INTEGER NOT NULL,             -- 0 opening, 1 middlegame, 2 endgame
    pieces INTEGER NOT NULL,
    origin TEXT NOT NULL,               -- game, random_move, policy_move, search_node, neighbour
    part TEXT NOT NULL DEFAULT 'train', -- train, games, families, neither: see parts.py
    parent_id INTEGER REFERENCES positions (id),  -- of a neighbour: the candidate that it was reached from
    game_id INTEGER NOT NULL REFERENCES games (id),
    played TEXT,
    eval_cp INTEGER, eval_mate INTEGER, -- recorded in the archive
    run_id INTEGER NOT NULL REFERENCES runs (id)
);
CREATE INDEX positions_by_game ON positions (game_id);
CREATE INDEX positions_beside ON positions (origin) WHERE origin <> 'game';
CREATE INDEX positions_held ON positions (part) WHERE part <> 'train';
CREATE TABLE nets (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,        -- of the file, with the precision where it is not f32: NetIdentity.key
    name TEXT NOT NULL,
    value_head TEXT NOT NULL,
    input_format INTEGER NOT NULL,
    size INTEGER NOT NULL,
    path TEXT                           -- where its file was last seen
);
CREATE TABLE judges (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,        -- of the name that it gives, its limit and its options
    label TEXT NOT NULL,
    kind TEXT NOT NULL,
    engine TEXT NOT NULL,
    sha256 TEXT NOT NULL,               -- of its program, or of the net if the search is our own
    limits TEXT NOT NULL,               -- JSON
    options TEXT NOT NULL,              -- JSON
    net_path TEXT,                      -- where the file of the net that it searches with was last seen
    short_id INTEGER REFERENCES judges (id)  -- the short search that screens for it
);
CREATE TABLE net_values (
    net_id INTEGER NOT NULL REFERENCES nets (id),
    position_id INTEGER NOT NULL REFERENCES positions (id),
    q REAL NOT NULL,
    w REAL, d REAL, l REAL,             -- NULL for scalar value heads
    policy BLOB,                        -- the eight best moves, the best first, each uint16 move, float32 prior; NULL: none
    PRIMARY KEY (net_id, position_id)
) WITHOUT ROWID;
CREATE TABLE deep_values (              -- one value per judge and position
    judge_id INTEGER NOT NULL REFERENCES judges (id),
    position_id INTEGER NOT NULL REFERENCES positions (id),
    cp INTEGER, mate INTEGER,
    w INTEGER, d INTEGER, l INTEGER,    -- per mille
    q REAL,                             -- of judges that give Q itself
    depth INTEGER NOT NULL DEFAULT 0, seldepth INTEGER NOT NULL DEFAULT 0,
    nodes INTEGER NOT NULL DEFAULT 0, time_ms INTEGER NOT NULL DEFAULT 0,
    best_move TEXT,
    pv TEXT NOT NULL DEFAULT '',        -- UCI moves
    weight REAL NOT NULL DEFAULT 1,     -- how many positions it stands for; above 1: an audit of screening
    failed TEXT,                        -- why there is no value; a rerun tries again
    run_id INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (judge_id, position_id)
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
-- Every position with a value of a net and one of a judge; the names are those of the frame.
CREATE VIEW scored AS
SELECT v.judge_id, n.net_id, v.position_id, p.key, p.fen, p.start_fen, p.moves, p.ply, p.side AS side_code,
    p.phase AS phase_code, p.pieces, g.source, g.number AS game, p.game_id, g.key AS game_key, g.white, g.black, g.event,
    g.date, g.result, p.played, p.eval_cp, p.eval_mate, p.history_known, p.origin AS kind, p.part, p.parent_id,
    n.q AS net_q, n.w AS net_w, n.d AS net_d, n.l AS net_l, n.policy, v.nodes, v.depth, v.time_ms, v.cp, v.mate,
    v.w AS deep_w, v.d AS deep_d, v.l AS deep_l, v.q AS deep_own_q, v.best_move AS deep_best, v.pv, v.weight
FROM deep_values v JOIN net_values n ON n.position_id = v.position_id
JOIN positions p ON p.id = v.position_id JOIN games g ON g.id = p.game_id
WHERE v.failed IS NULL;
