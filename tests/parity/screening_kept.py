"""Wanted against got: what the screening ladder keeps of positions whose whole searches are known.

    python -m tests.parity.screening_kept STORE... [--nodes 1000000] [--recall 0.98] [--seeds 5] [--without-package]
        [--threshold 0.55] [--alpha 170]

A store has positions that went up all rungs, nothing cut, as data/make_screen_package.py says. Those of games with an
odd number are taken, which the package has none of: in five orders, each mined anew by the ladder itself, its searches
answered from the store, at each alpha. `got` counts what a user gets:
candidates that were searched in full, by the ladder, by calibration or by audit; `by itself` those that the ladder
would not have cut. Nodes are those of all searches, calibration and audit included.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.chess import values
from valuerepair.chess.positions import Position, encode_move
from valuerepair.engines.kinds import EngineKind
from valuerepair.oracles.oracle import Climb, ClimbOutcome, DeepOutcome, GoOn, Oracle
from valuerepair.question import Question
from valuerepair.screening import fit as fitting
from valuerepair.screening import ladder as ladders
from valuerepair.screening.fit import LadderRows, curve, joined
from valuerepair.screening.ladder import Ladder
from valuerepair.screening.model import FEATURES, ScreenOptions, features, rungs_of
from valuerepair.store.rows import FULL, DeepResult, OracleIdentity, RunRecord
from valuerepair.store.store import Store

THRESHOLD = 0.55
ALPHAS = (170, 430)  # of --features


class KeptOracle(Oracle):
    """Answers searches from what a store keeps of them: `results` by key and nodes."""

    workers = 1

    def __init__(self, path: Path, nodes: int | None) -> None:
        with Store.open(path) as store:
            (number, text, kind, engine, limits), *_ = store.connection.execute(
                "SELECT id, sha256, kind, engine, limits FROM oracles ORDER BY id"
            ).fetchall()
            self.whole = nodes or int(json.loads(limits)["nodes"])
            self.identity = OracleIdentity(kind, engine, text, {"nodes": self.whole}, {})
            query = """
                SELECT p.key, v.stage, v.cp, v.mate, v.w, v.d, v.l, v.q, v.nodes, v.best_move
                FROM deep_values v JOIN positions p ON p.id = v.position_id WHERE v.oracle_id = ?
            """
            self.results: dict[tuple[int, int], DeepResult] = {}
            for key, stage, cp, mate, *wdl, q, spent, move in store.connection.execute(query, (number,)):
                at = json.loads(limits)["nodes"] if stage == FULL else int(stage)
                shares = None if wdl[0] is None else (wdl[0], wdl[1], wdl[2])
                self.results[key % 2**64, at] = DeepResult(cp, mate, shares, q, nodes=spent, best_move=move)

    def climb(self, position: Position, rungs: Sequence[int], go_on: GoOn) -> Future[ClimbOutcome]:
        """The climb, at once."""
        results: list[DeepResult] = []
        whole = True
        for nodes in (*rungs, self.whole):
            results.append(self.results[position.key, nodes])
            if nodes != self.whole and not go_on(results):
                whole = False
                break
        future: Future[ClimbOutcome] = Future()
        future.set_result(Climb(tuple(results), whole))
        return future

    def submit(self, position: Position) -> Future[DeepOutcome]:
        raise NotImplementedError  # the ladder only climbs: a search without rungs would be a fault of the harness

    def close(self, *, cancel: bool = False) -> None:
        """Nothing is open."""


class Kept(NamedTuple):
    """One run: its candidates, how many of them it got and would have got by itself; nodes as a share of all."""

    candidates: int
    got: int
    itself: int
    share: float


def emptied(path: Path, folder: Path, seed: int) -> Path:
    """A copy of a store, with the positions of odd games only, in another order, and none of their searches."""
    copy = folder / f"{path.stem}-{seed}.db"
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection, connection:
        for table in ("screened", "screens", "deep_values", "failures", "priors", "alpha_fits", "calibrations"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("DELETE FROM positions WHERE game_id IN (SELECT id FROM games WHERE number % 2 = 0)")
        connection.execute("DELETE FROM net_values WHERE position_id NOT IN (SELECT id FROM positions)")
        ids = [number for (number,) in connection.execute("SELECT id FROM positions ORDER BY id")]
        order = np.random.default_rng(seed).permutation(len(ids)) + 1
        moved = [(int(new), old) for new, old in zip(order.tolist(), ids, strict=True)]
        for table, column in (("positions", "id"), ("net_values", "position_id")):
            connection.executemany(f"UPDATE {table} SET {column} = -? WHERE {column} = ?", moved)
            connection.execute(f"UPDATE {table} SET {column} = -{column}")
    return copy


def one_run(path: Path, oracle: KeptOracle, question: Question, recall: float, seed: int, first: int | None) -> Kept:
    """Has the ladder mine the positions of an emptied store, or the first so many."""
    screen, alpha = ScreenOptions(recall=recall), question.alpha
    assert alpha is not None
    spent = 0
    with Store.open(path, write=True) as store:
        run = store.begin_run(RunRecord(f"kept {seed} {alpha}", "", {}, seed, {}))
        net_id, oracle_id = 1, store.add_oracle(oracle.identity)
        ladder = Ladder(store, net_id, oracle_id, oracle, question, screen, seed, run)
        rows = store.connection.execute(
            "SELECT p.id, p.key, n.q, n.best_move FROM positions p JOIN net_values n ON n.position_id = p.id "
            "WHERE n.net_id = 1 ORDER BY p.id"
        ).fetchall()
        candidates = got = itself = count = 0
        for number, signed, net_q, net_best in rows[:first]:
            key = signed % 2**64
            whole = oracle.results.get((key, oracle.whole))
            if whole is None or any((key, rung) not in oracle.results for rung in ladder.rungs):
                continue  # the run that made the store ended in its middle
            assert ladder.is_ready(number)
            outcome = ladder.climb(number, Position("", key=key), net_q, net_best).result()
            assert isinstance(outcome, Climb)
            passage = ladder.record(number, outcome)
            spent, count = spent + passage.nodes, count + 1
            if abs(net_q - float(ladders.q_of([whole], alpha, "cp")[0])) >= question.threshold:
                candidates += 1
                got += passage.searched
                itself += passage.cut_at is None
    return Kept(candidates, got, itself, spent / (count * oracle.whole))


def row(kept: Sequence[Kept]) -> str:
    """The runs of one kind in a line of the table."""
    numbers: NDArray[np.float64] = np.array(kept, np.float64)
    candidates, got, itself = numbers[:, :3].sum(0)
    counts = ", ".join(f"{run.got} of {run.candidates}" for run in kept)
    return f"{counts} | {got / candidates:.3f} | {itself / candidates:.3f} | 1/{1 / numbers[:, 3].mean():.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+", type=Path, metavar="STORE")
    parser.add_argument("--nodes", type=int, help="of a whole search; the store has it as a rung  [default: its own]")
    parser.add_argument("--recall", type=float, nargs="+", default=[0.98])
    parser.add_argument("--alpha", type=float, nargs="+", default=[values.DEFAULT_ALPHA])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threshold", type=float, default=THRESHOLD)
    parser.add_argument("--first", type=int, help="only the first so many positions of each order")
    parser.add_argument(
        "--without-package", action="store_true", help="as for an oracle that the package does not know"
    )
    parser.add_argument("--features", action="store_true", help="instead, what each kind of feature brings")
    arguments = parser.parse_args()
    if arguments.features:
        print_features(arguments.stores, arguments.nodes)
        return
    with ExitStack() as patched:
        if arguments.without_package:
            patched.enter_context(patch.object(ladders, "package_rows", lambda *_: None))
            patched.enter_context(patch.object(EngineKind, "in_package", False))
        question = Question(threshold=arguments.threshold)
        print_table(
            arguments.stores,
            arguments.nodes,
            question,
            arguments.alpha,
            arguments.recall,
            arguments.seeds,
            arguments.first,
        )


def print_features(stores: Sequence[Path], nodes: int | None) -> None:
    """Nodes and recall without each kind of feature, cross-validated on all positions of the stores together."""
    print(f"| without | {' | '.join(f'alpha {alpha}' for alpha in ALPHAS)} |\n|---|{'---|' * len(ALPHAS)}", flush=True)
    kinds = {"nothing": (), "margins in log odds": FEATURES[1:5], "change": FEATURES[5:7], "slope": FEATURES[7:8]}
    for name, without in {**kinds, "best moves": FEATURES[8:]}.items():
        cells = []
        for alpha in ALPHAS:
            whole = [calibration(KeptOracle(path, nodes), path, alpha) for path in stores]
            with patch.object(fitting, "features", partial(features_without, without)):
                (point,) = curve(reduce(joined, whole), None, THRESHOLD, [0.97])
            cells.append(f"1/{1 / point.share:.1f}, {point.found} of {point.positives}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def features_without(names: Sequence[str], *arguments: Any) -> Floats:
    """`model.features`, with the columns of these features 0: a model leaves out what does not vary."""
    rows = features(*arguments)
    rows[:, [FEATURES.index(name) for name in names]] = 0
    return rows


def calibration(oracle: KeptOracle, path: Path, alpha: float) -> LadderRows:
    """All positions of a store that went up the rungs of this oracle."""
    rungs = rungs_of(oracle.whole)
    with Store.open(path) as store:
        rows = store.connection.execute(
            "SELECT p.key, n.q, n.best_move, p.game_id FROM positions p "
            "JOIN net_values n ON n.position_id = p.id AND n.net_id = 1"
        ).fetchall()
    climbs = [[oracle.results.get((row[0] % 2**64, at)) for at in (*rungs, oracle.whole)] for row in rows]
    complete = [i for i, climb in enumerate(climbs) if None not in climb]
    whole = [[result for result in climbs[i] if result is not None] for i in complete]
    q = np.array([ladders.q_of(climb, alpha, "cp") for climb in whole])
    best = np.array([[encode_move(result.best_move or "") for result in climb[:-1]] for climb in whole])
    net_q, net_best, game = (np.array([rows[i][column] for i in complete]) for column in (1, 2, 3))
    return LadderRows(rungs, oracle.whole, net_q, net_best, q, best, np.ones(len(complete)), game)


def print_table(
    stores: Sequence[Path],
    nodes: int | None,
    question: Question,
    alphas: Sequence[float],
    recalls: Sequence[float],
    seeds: int,
    first: int | None,
) -> None:
    """A line for each store, alpha and wanted recall."""
    print("| positions | alpha | wanted | got, each run | mean | by itself | nodes |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for path in stores:
            oracle = KeptOracle(path, nodes)
            copies = [emptied(path, Path(name), seed) for seed in range(seeds)]
            for alpha in alphas:
                for recall in recalls:
                    runs = []
                    for seed, copy in enumerate(copies):
                        again = Path(name) / "again.db"
                        shutil.copy(copy, again)
                        runs.append(one_run(again, oracle, replace(question, alpha=alpha), recall, seed, first))
                        again.unlink()
                    print(f"| {path.stem} | {alpha:.0f} | {recall:g} | {row(runs)} |", flush=True)


if __name__ == "__main__":
    main()
