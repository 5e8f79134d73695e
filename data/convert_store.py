"""Turns a store of an older version into one of this version.

    python data/convert_store.py OLD NEW [--archive FILE]... [--net FILE]...

From version 11 on, columns are copied by their names: new ones are empty, and those that are no more are left out.

Of version 10, that of valuerepair 0.1.0, stays: positions, games, nets, judges and all their values, raw, with the
weights of audited positions; games from books, runs, and the alpha in use. Second looks become values of their judge.
What goes: the rungs of the screening ladder, searches after single moves, fitted models, values of neighbours that
nobody searched. Where several nets had a ladder with one judge, the weights are those of the ladder that more positions
went through.

An old store does not have the moves of its games. The keys of games are computed from the archives that are given; of
others they are hashes of the file's name, the game's number and its headers, and copies are not recognised. It has the
net's best move, and the priors of some others; `policy` has those up to the first that is missing. Of a net whose file
is given they are computed anew; its values stay as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.nets.net import open_net
from valuerepair.store.rows import JudgeIdentity, engine_words, json_text, signed
from valuerepair.store.store import Store, policy_cells

VERSION = 10
_ORIGINS = {"game": "game", "aside": "random_move", "policy": "policy_move", "search": "search_node"}
_PHASES = ("opening", "middlegame", "endgame")
_BEST = 8
_DEEP = "cp, mate, w, d, l, q, depth, seldepth, nodes, time_ms, best_move, pv"


def convert(old_path: Path, new_path: Path, archives: Sequence[Path] = (), nets: Sequence[Path] = ()) -> None:
    """Writes a new store; the old one must be in place, and the new one must not exist."""
    with sqlite3.connect(f"file:{old_path}?mode=ro", uri=True) as old:
        (version,) = old.execute("PRAGMA user_version").fetchone()
        if version < VERSION:
            raise SystemExit(f"{old_path}: is a store of version {version}, older than {VERSION}")
        with Store.open(new_path, create=True) as new, new.writing() as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")  # a parent may have a later number
            if version > VERSION:
                _copy_by_name(old, connection)
            else:
                _copy_version_10(old, new, connection, archives, nets)
    with sqlite3.connect(new_path, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")


def _copy_by_name(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Every table, as far as both stores have it."""
    for (table,) in new.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        of_both = [
            {row[0] for row in store.execute("SELECT name FROM pragma_table_info(?)", (table,))} for store in (old, new)
        ]
        if names := ", ".join(sorted(set.intersection(*of_both))):
            _insert(new, table, old.execute(f"SELECT {names} FROM {table}"), names)


def _copy_version_10(
    old: sqlite3.Connection, new: Store, connection: sqlite3.Connection, archives: Sequence[Path], nets: Sequence[Path]
) -> None:
    _copy_runs_and_games(old, connection)
    _copy_positions(old, connection)
    of_nets = _copy_nets(old, connection)
    _copy_net_values(old, connection, of_nets)
    _copy_judges(old, connection)
    _copy_deep_values(old, connection)
    _use(old, new, of_nets)
    for archive in archives:
        _compute_keys(connection, archive)
    for file in nets:
        _compute_policies(new, file)


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]], names: str = "") -> None:
    """Inserts rows that have the columns `names`, by default all of the table's."""
    if not names:
        names = ", ".join(row[0] for row in connection.execute(f"SELECT name FROM pragma_table_info('{table}')"))
    n = names.count(",") + 1
    connection.executemany(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * n)})", rows)


def _copy_runs_and_games(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    names = "id, identity, command, options, versions, started, finished, state, counts"
    _insert(new, "runs", old.execute(f"SELECT {names} FROM runs ORDER BY id"))
    _insert(new, "plays", old.execute("SELECT * FROM plays ORDER BY run_id, number"))
    names = "id, source, number, digest, white, black, event, date, result, headers"

    def key(source: str, number: int, digest: int) -> int:
        content = f"{os.path.basename(source)}\n{number}\n{digest}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big", signed=True)

    games = old.execute(f"SELECT {names} FROM games ORDER BY id")
    _insert(new, "games", ((row[0], key(*row[1:4]), *row[1:3], *row[4:]) for row in games))


def _copy_positions(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    names = "key, fen, start_fen, moves, history_known, ply, side, phase, pieces, game_id, played, eval_cp, eval_mate"
    parents = dict(old.execute("SELECT position_id, parent_id FROM expanded"))

    def rows() -> Iterable[Sequence[Any]]:
        for number, kind, run, *row in old.execute(f"SELECT id, kind, run_id, {names} FROM positions ORDER BY id"):
            side, phase = int(row[6] == "b"), _PHASES.index(row[7])
            origin, parent = ("neighbour", parents.get(number)) if kind is None else (_ORIGINS[kind], None)
            yield number, *row[:6], side, phase, *row[8:], origin, parent, run

    _insert(new, "positions", rows(), f"id, {names}, origin, parent_id, run_id")


def _copy_nets(old: sqlite3.Connection, new: sqlite3.Connection) -> dict[int, str]:
    """Nets, each with the values of its usual history only; the SHA-256 of those by their numbers."""
    paths = dict(old.execute("SELECT sha256, path FROM files WHERE role = 'net'"))
    names = "id, sha256, name, value_head, input_format, size"
    nets = old.execute(f"SELECT {names} FROM nets ORDER BY history_fill <> 'fen_only', id").fetchall()
    known: dict[str, int] = {}
    for number, sha256, *_ in nets:
        known.setdefault(sha256, number)
    kept = [net for net in nets if known[net[1]] == net[0]]
    _insert(new, "nets", ((*net, paths.get(net[1])) for net in kept))
    return {net[0]: net[1] for net in kept}


def _copy_net_values(old: sqlite3.Connection, new: sqlite3.Connection, nets: Iterable[int]) -> None:
    for net in nets:
        rows = old.execute("SELECT position_id, rank, move, p FROM priors WHERE net_id = ? ORDER BY 1, 2", (net,))
        priors = {number: [row[1:] for row in of_one] for number, of_one in groupby(rows, lambda row: row[0])}

        def policy(number: int, move: int | None, p: float, priors: dict[int, list[Any]] = priors) -> bytes | None:
            if move is None:
                return None
            best = [(move, p)]
            for rank, other, prior in priors.get(number, ()):
                if rank == len(best) + 1 <= _BEST:
                    best.append((other, prior))
            return b"".join(struct.pack("<Hf", *cells) for cells in best)

        query = "SELECT position_id, q, w, d, l, best_move, best_p FROM net_values WHERE net_id = ? ORDER BY 1"
        _insert(new, "net_values", ((net, *row[:5], policy(row[0], *row[5:])) for row in old.execute(query, (net,))))


def _copy_judges(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    names = "id, label, kind, engine, sha256, limits, options"
    for number, label, kind, engine, sha256, *texts in old.execute(f"SELECT {names} FROM oracles ORDER BY id"):
        limits, options = (json.loads(text) for text in texts)
        rest = label.removeprefix(engine_words(engine)).strip().split(" ")
        net = "" if "=" in rest[0] else rest[0]
        digest = JudgeIdentity(kind, engine, sha256, limits, options, net).digest
        words = (digest, label, kind, engine, sha256, json_text(limits), json_text(options))
        _insert(new, "judges", [(number, *words, None, None)])


def _copy_deep_values(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Values, the first looks before second ones; failures where there is no value."""
    for (judge,) in old.execute("SELECT id FROM oracles ORDER BY id").fetchall():
        weights = _weights(old, judge)
        query = f"""
            SELECT oracle_id, position_id, {_DEEP}, NULL, NULL, run_id FROM deep_values
            WHERE oracle_id = ? AND stage IN ('full', 'expanded', 'second')
            ORDER BY CASE stage WHEN 'full' THEN 0 WHEN 'expanded' THEN 1 ELSE 2 END, position_id
        """
        rows = old.execute(query, (judge,))
        _insert(new, "deep_values", ((*row[:14], weights.get(row[1], 1.0), *row[15:]) for row in rows))
        query = "SELECT position_id, reason, run_id FROM failures WHERE oracle_id = ? AND stage IN ('full', 'expanded')"
        new.executemany(
            f"INSERT OR IGNORE INTO deep_values (judge_id, position_id, failed, run_id) VALUES ({judge}, ?, ?, ?)",
            old.execute(query, (judge,)),
        )


def _weights(old: sqlite3.Connection, judge: int) -> dict[int, float]:
    """The weights of positions that left the ladder: together they are the positions that left it, and those that were
    searched in full stand for the others in proportion to the inverse of their probability."""
    query = "SELECT net_id FROM screened WHERE oracle_id = ? GROUP BY 1 ORDER BY count(cut_at) DESC LIMIT 1"
    net = old.execute(query, (judge,)).fetchone()
    if net is None:
        return {}
    query = """
        SELECT position_id, CASE WHEN searched THEN probability ELSE 9e999 END FROM screened
        WHERE oracle_id = ? AND net_id = ? AND cut_at IS NOT NULL ORDER BY position_id
    """
    rows = old.execute(query, (judge, *net)).fetchall()
    probability = np.array([row[1] for row in rows])
    scaled = len(probability) / (float((1 / probability).sum()) or 1.0) / probability
    return dict(zip((row[0] for row in rows), scaled.tolist(), strict=True))


def _use(old: sqlite3.Connection, new: Store, nets: dict[int, str]) -> None:
    """The net and the judge with most values in common are in use, and the alpha that was stored for them."""
    query = """
        SELECT n.net_id, d.oracle_id FROM net_values n JOIN deep_values d ON d.position_id = n.position_id
        WHERE d.stage = 'full' GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2
    """
    pair = next((pair for pair in old.execute(query) if pair[0] in nets), None)
    if pair is None:
        return
    (judge,) = new.connection.execute("SELECT digest FROM judges WHERE id = ?", pair[1:]).fetchone()
    new.use(net=nets[pair[0]], judge=judge)
    query = "SELECT alpha, n, norm, fitted FROM alpha_fits WHERE net_id = ? AND oracle_id = ?"
    for value, n, norm, fitted in old.execute(query, pair):
        origin = f"stored fit of {fitted[:10]} on {n:,} positions ({norm})"
        new.use(alpha={"value": value, "origin": origin, "net": nets[pair[0]], "judge": judge})


def _compute_keys(connection: sqlite3.Connection, archive: Path) -> None:
    """The keys of the games of an archive, which the store has by its name."""
    keys: dict[int, int] = {}
    for batch in sample([str(archive)], SampleOptions(per_game=1000), ReadReport()):
        keys |= {game.number: game.key for game in batch.origin.game}
    signed_keys = signed(np.array([*keys.values()], np.uint64))
    rows = [(key, number, archive.name) for key, number in zip(signed_keys, keys, strict=True)]
    connection.executemany("UPDATE games SET key = ? WHERE number = ? AND ('/' || source) LIKE '%/' || ?", rows)


def _compute_policies(new: Store, file: Path) -> None:
    """The net's eight best moves in all positions of which the store has its value."""
    with open_net(file, device="cpu") as net, new.writing() as connection:
        query = "SELECT net_id, position_id FROM net_values JOIN nets ON id = net_id WHERE sha256 = ? ORDER BY 2"
        rows = connection.execute(query, (net.identity.key,)).fetchall()
        ids = np.array([row[1] for row in rows], np.int64)
        policies = policy_cells(net.evaluate(new.positions(ids)))
        update = "UPDATE net_values SET policy = ? WHERE net_id = ? AND position_id = ?"
        connection.executemany(update, ((policy, *row) for policy, row in zip(policies, rows, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Turns a store of an older version into one of this version.")
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    parser.add_argument("--archive", type=Path, action="append", default=[], metavar="FILE", help="computes its keys")
    parser.add_argument("--net", type=Path, action="append", default=[], metavar="FILE", help="computes its policies")
    options = parser.parse_args()
    if options.new.exists():
        raise SystemExit(f"{options.new} exists; give another place")
    convert(options.old, options.new, options.archive, options.net)


if __name__ == "__main__":
    main()
