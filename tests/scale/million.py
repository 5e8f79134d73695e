"""A large store made in minutes: real positions, drawn by our own archive reader, with made-up values.

    python -m tests.scale.million /tmp/million.db --positions 1000000 --archive otb-masters.pgn.zst

The same arguments give the same store, as large as the archives allow. Values are drawn so that net and judge differ as
they do: close together for most, far apart for some two in a hundred. A fifth more positions than asked for have the
short search only; a fiftieth of the others are audits of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests import shared_data
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import PositionBatch, decode_move
from valuerepair.nets.net import NetIdentity, NetValues
from valuerepair.nets.policy import BEST_MOVES
from valuerepair.store.rows import DeepColumns, JudgeIdentity, RunRecord
from valuerepair.store.store import Store

OWN = Path(__file__).parents[2] / "data" / "games.pgn.zst"
ALPHA = 180.0
SHORT, AUDITED = 0.2, 0.02  # shares of the positions with a full search
_PER_GAME = 18
_MATES, _BAD, _DRAWN = 0.02, 0.045, 0.1  # shares of positions
NET = NetIdentity("drawn-net", "5ca1e" + "0" * 59, "wdl", 1, 1_000_000)
FULL, BRIEF = (JudgeIdentity("uci", "Drawn 1.0", "d2" * 32, {"nodes": n}, {}, plain={}) for n in (1_000_000, 50_000))


def default_archive() -> Path:
    """The masters' games where they are at hand, else our own."""
    shared = shared_data.folder()
    return OWN if shared is None else shared / "pgn" / "otb-masters.pgn.zst"


def make(path: str | Path, positions: int, archives: Sequence[str | Path] = (), seed: int = 0) -> None:
    """Makes a store, if there is none yet: `positions` are scored, and a fifth more have a short search only."""
    dice = np.random.default_rng(seed)
    names = [str(archive) for archive in archives] or [str(default_archive())]
    total = positions + int(positions * SHORT)
    record = RunRecord(f"scale {positions} {seed}", "tests.scale.million", {"seed": seed}, {})
    with Store.open(path, create=True) as store, store.running(record) as run:
        net_id, short_id = store.add_net(NET), store.add_judge(BRIEF)
        judge_id = store.add_judge(FULL, short_id)
        done = 0
        for drawn_batch in sample(names, SampleOptions(per_game=_PER_GAME, seed=seed), ReadReport()):
            batch = drawn_batch.take(np.arange(min(len(drawn_batch), total - done)))
            ids = store.add_positions(batch, run)
            values, scores = draw(batch, dice)
            store.add_net_values(ids, net_id, values)
            numbers = np.arange(done, done + len(batch))
            is_full, is_audit = numbers < positions, (numbers < positions) & (dice.random(len(batch)) < AUDITED)
            for rows, judge, weight in (
                (is_full & ~is_audit, judge_id, 1.0), (is_audit, judge_id, 50.0), (~is_full | is_audit, short_id, 1.0)
            ):  # fmt: skip
                columns = DeepColumns(*([column[i] for i in np.flatnonzero(rows).tolist()] for column in scores))
                store.add_deep_columns(ids[rows], judge, columns, run, weight)
            done += len(batch)
            store.commit_if_due()
            if done == total:
                break
        store.weigh_audits(judge_id, short_id)


def draw(batch: PositionBatch, dice: np.random.Generator) -> tuple[NetValues, DeepColumns]:
    """Values for positions of games."""
    n = len(batch)
    cp = np.clip(np.round(dice.standard_t(3, n) * 110), -1500, 1500)
    cp[dice.random(n) < _DRAWN] = 0
    mate = np.where(dice.random(n) < _MATES, dice.integers(1, 12, n) * dice.choice([-1, 1], n), 0)
    deep = np.where(mate, np.sign(mate), np.tanh(cp / (2 * ALPHA)))
    q = np.clip(0.9 * deep + dice.normal(0, 1, n) * np.where(dice.random(n) < _BAD, 0.75, 0.11), -0.98, 0.98)
    d = (1 - np.abs(q)) * dice.uniform(0.3, 0.8, n)
    wdl = np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], 1)
    moves, cuts = legal_moves(parse_fens(batch.fen))
    best = np.zeros((n, BEST_MOVES), np.uint16)
    for i in range(BEST_MOVES):
        has = np.diff(cuts) > i
        best[has, i] = moves[cuts[:-1][has] + i]
    priors = np.where(best > 0, 0.5 ** np.arange(1, BEST_MOVES + 1), np.nan).astype(np.float32)
    net = NetValues(q.astype(np.float32), wdl.astype(np.float32), best, priors, np.full(n, np.nan, np.float32))
    played = [decode_move(move) if move else None for move in best[np.arange(n), dice.integers(0, 2, n)].tolist()]
    draws = np.round(600 * (1 - np.abs(deep))).astype(int)
    wins = np.round((1000 - draws) * (1 + deep) / 2).astype(int)
    scores = DeepColumns(
        [None if m else int(c) for c, m in zip(cp, mate, strict=True)], [int(m) or None for m in mate],
        wins.tolist(), draws.tolist(), (1000 - wins - draws).tolist(), [None] * n, [24] * n, [31] * n,
        (1_000_000 + np.arange(n) % 97).tolist(), [1100] * n, played, [move or "" for move in played],
    )  # fmt: skip
    return net, scores


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
