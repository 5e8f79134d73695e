"""A large store made in minutes: real positions, drawn by our own archive reader, with made-up values.

    python -m tests.scale.million /tmp/million.db --archive otb-masters.pgn.zst --positions 1000000

The same arguments give the same store. Positions, histories, games and headers are those of the archives; where these
have too few positions, games go on with random legal moves until there are enough. Values are drawn so that net and
search differ as a net and a search do: close together for most, far apart for some two in a hundred. A fifth more
positions than asked for stand for what a screening ladder cut, and as many of the others went up it. There are priors
of the candidates, second looks at a tenth of them, and games played from some.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import chess
import numpy as np

from tests import shared_data
from tests.scale.drawn import ALPHA, NODES, SECOND_NODES, draw, save_searches
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.origins import Origin
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.nets.net import NetIdentity
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store import priors
from valuerepair.store.plays import Play, add_plays
from valuerepair.store.queries import candidates
from valuerepair.store.rows import AFTER, SECOND, DeepResult, OracleIdentity, Run, RunRecord
from valuerepair.store.screening import ScreenFacts, add_screen
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[2]
OWN = ROOT / "data" / "games.pgn.zst"
PER_GAME = 18
CUT_SHARE = 0.2  # positions beside those scored that a ladder cut
THRESHOLD = 0.55
_BATCH = 4096
_LOOKED_AT, _PLAYED = 0.1, 1_000
_PLIES_ON = 40  # of a random continuation
NET = NetIdentity("drawn-net", "5ca1e" + "0" * 59, "wdl", 1, 1_000_000)
_ENGINE = {"Hash": "16", "Threads": "1"}


def oracle_of(nodes: int) -> OracleIdentity:
    """An engine that drew its scores."""
    return OracleIdentity("uci", "Drawn 1.0", "d2" * 32, {"nodes": nodes}, _ENGINE, plain=_ENGINE)


def default_archive() -> Path:
    """The masters' games where they are at hand, else our own."""
    shared = shared_data.folder()
    return OWN if shared is None else shared / "pgn" / "otb-masters.pgn.zst"


def make(
    path: str | Path, positions: int, archives: Sequence[str | Path] = (), seed: int = 0, *, quiet: bool = False
) -> None:
    """Makes a store of so many scored positions, and a fifth more that were cut, at `path`, where none is yet."""
    dice = np.random.default_rng(seed)
    names = [str(archive) for archive in archives] or [str(default_archive())]
    total = positions + int(positions * CUT_SHARE)
    with (
        Store.open(path, create=True) as store,
        Progress("drawing values", total, "positions", quiet=quiet) as progress,
    ):
        # The store is rebuilt where making it is cut short: nothing need be on the disk before its end.
        store.connection.execute("PRAGMA synchronous = OFF")
        store.connection.execute("PRAGMA cache_size = -200000")
        run = store.begin_run(RunRecord(f"scale {positions} {seed}", "tests.scale.million", {"seed": seed}, seed, {}))
        net_id, oracle_id = store.add_net(NET, "fen_only"), store.add_oracle(oracle_of(NODES))
        facts = ScreenFacts(0, THRESHOLD, ALPHA, False, "cp", 0.95, "{}", "")
        screen_id = add_screen(store, net_id, oracle_id, facts)
        done = 0
        for batch in _enough(names, total, seed, quiet):
            admitted = store.add_positions(batch, run)
            numbers = np.arange(done, done + len(batch))
            drawn = draw(batch, dice, cut=numbers >= positions, screened=numbers >= positions * (1 - CUT_SHARE))
            store.add_net_values(admitted.ids, net_id, drawn.net, run)
            save_searches(store, (net_id, oracle_id, screen_id), admitted.ids, drawn, run, dice)
            done += len(batch)
            progress.advance(len(batch))
            store.commit_if_due()
        store.commit()
        _know_more(store, net_id, oracle_id, run, dice)
        store.end_run(run, "finished", {"scored": positions})
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _enough(names: Sequence[str], total: int, seed: int, quiet: bool) -> Iterator[PositionBatch]:
    """`total` distinct positions in batches: the archives' own, then random continuations of these."""
    seen: set[int] = set()
    left, starts = total, []
    for batch in sample(list(names), SampleOptions(per_game=PER_GAME, seed=seed), ReadReport()):
        taken = batch.take(np.arange(min(len(batch), left)))
        seen.update(taken.key.tolist())
        left -= len(taken)
        starts.append(taken)
        yield taken
        if not left:
            return
    if not quiet:
        print(f"the archives hold {total - left:,} positions; random legal moves give {left:,} more", flush=True)
    yield from _random_positions(PositionBatch.concat(starts), left, seen, random.Random(seed))


def _random_positions(
    starts: PositionBatch, wanted: int, seen: set[int], dice: random.Random
) -> Iterator[PositionBatch]:
    """Positions after random legal moves from `starts`, none of them in `seen`."""
    from valuerepair.chess.board import keys, parse_fens

    while wanted:
        positions: list[Position] = []
        while len(positions) < _BATCH:
            positions += _continuation(starts[dice.randrange(len(starts))], dice)
        batch = PositionBatch.from_positions(positions)
        all_keys = keys(parse_fens(batch.fen))
        fresh: list[int] = []
        for i, key in enumerate(all_keys.tolist()):
            if key not in seen and len(fresh) < wanted:
                seen.add(key)
                fresh.append(i)
        batch.key[:] = all_keys
        wanted -= len(fresh)
        yield batch.take(fresh)


def _continuation(start: Position, dice: random.Random) -> list[Position]:
    board, moves, positions = chess.Board(start.fen), list(start.moves), []
    for ply in range(start.ply + 1, start.ply + 1 + _PLIES_ON):
        move = dice.choice(list(board.legal_moves))
        board.push(move)
        if board.is_game_over():
            break
        moves.append(move.uci())
        positions.append(Position(board.fen(), start.start_fen, tuple(moves), ply, 0, start.history_known, _of(start)))
    return positions


def _of(start: Position) -> Origin:
    """The game that a continuation began in, without what is true of the start only."""
    origin = start.origin
    return Origin(origin.source, origin.game, origin.offset, origin.headers, None, origin.result)


def _know_more(store: Store, net_id: int, oracle_id: int, run: Run, dice: np.random.Generator) -> None:
    """Priors of the candidates, second looks at some, games from some."""
    frame = candidates(store.connection, Question(threshold=THRESHOLD, alpha=ALPHA))
    rows = []
    for number, net_best, deep_best in zip(
        frame["position_id"].tolist(), frame["net_best"], frame["deep_best"], strict=True
    ):
        rows.append(priors.Prior(number, net_best, 0.6, 1))
        if deep_best != net_best:
            rows.append(priors.Prior(number, deep_best, 0.01, 7))
    priors.record_priors(store, net_id, rows)
    second = store.add_oracle(oracle_of(SECOND_NODES))
    chosen = dice.permutation(len(frame))
    for row in frame.iloc[chosen[: int(_LOOKED_AT * len(frame))]].to_dict("records"):
        cp, mate = (None if row[name] != row[name] else int(row[name]) for name in ("cp", "mate"))
        looks = DeepResult(cp, mate, None, None, 30, 40, SECOND_NODES, 9_000, row["deep_best"], ())
        store.add_deep(row["position_id"], second, looks, run, SECOND)
        after = DeepResult(120 if cp is None else 60 - cp, None, None, None, 30, 40, SECOND_NODES, 9_000, None, ())
        store.add_deep(row["position_id"], second, after, run, AFTER + row["net_best"])
    played = frame.iloc[chosen[-min(_PLAYED, len(frame)) :]]
    add_plays(store, run, _plays(played["key"].tolist(), played["fen"].tolist(), dice))


def _plays(keys: Sequence[int], fens: Sequence[str], dice: np.random.Generator) -> Iterator[Play]:
    for number, (key, fen) in enumerate(zip(keys, fens, strict=True)):
        z = int(dice.integers(-1, 2))
        white = z if fen.split()[1] == "w" else -z
        result = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}[white]
        yield Play(number, number, key, fen, "drawn-net", "drawn-net", result, float(z), 60, "adjudicated")


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes a large store with made-up values.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--archive", action="append", type=Path, default=[], metavar="FILE")
    parser.add_argument("--positions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    make(arguments.output, arguments.positions, arguments.archive, arguments.seed)
    print(f"{arguments.output}: {arguments.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
