"""Our search against lc0's: root visits move by move, and root Q, on the golden positions.

    python -m tests.parity.search_parity [--nodes 100 800 3000] [--configs default plain ...] [--limit N] [--explain]

Ours runs as a forest with `lc0_floats`. What differs between the two programs besides the search are the last bits of
the net's evaluations (ONNX Runtime here, Eigen there). `--explain` therefore searches each differing position again
with lc0's own backend as the evaluator: when the visits are equal then, those bits were the cause.

`--exact` compares root Q with the exact arithmetic that is our default.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests import lc0_oracle
from tests.parity.search_goldens import CONFIGS, Golden, load, params_of
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.mcts.evaluator import Evaluations, LeafEvaluator, Leaves, NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.net import open_net
from valuerepair.nets.registry import locate

TREES = 64
Q_LIMIT = 0.01


class Lc0Evaluator(LeafEvaluator):
    """lc0's Eigen backend as an evaluator, one position a call as lc0 itself does with batches of one."""

    def __init__(self, net: Path | None = None) -> None:
        self._backend = lc0_oracle.backend(net or locate(None))
        start = Position(STARTPOS_FEN, STARTPOS_FEN, ())
        self._input = lc0_oracle.game_state(start).as_input(self._backend)

    def __call__(self, leaves: Leaves) -> Evaluations:
        answers = [self._answer(masks, rule50) for masks, rule50 in zip(leaves.masks, leaves.rule50, strict=True)]
        rows = [leaves.indices[a:b].tolist() for a, b in zip(leaves.offsets[:-1], leaves.offsets[1:], strict=True)]
        logits = [np.array(a.p_raw(*row), np.float32) for a, row in zip(answers, rows, strict=True)]
        return Evaluations(
            np.array([a.q() for a in answers], np.float32),
            np.array([a.d() for a in answers], np.float32),
            np.array([a.m() for a in answers], np.float32),
            np.concatenate(logits),
        )

    def _answer(self, masks: Any, rule50: np.float32) -> Any:
        for plane, mask in enumerate(masks.tolist()):
            self._input.set_mask(plane, mask)
            self._input.set_val(plane, 1.0)
        self._input.set_val(109, float(rule50))
        return self._backend.evaluate(self._input)[0]


@dataclass(frozen=True)
class Difference:
    """A search whose root visits are not lc0's: (ours, lc0's) of each move that differs."""

    golden: Golden
    config: str
    nodes: int
    visits: dict[str, tuple[int, int]]

    @property
    def moved(self) -> int:
        """Visits that went elsewhere."""
        return sum(max(ours - theirs, 0) for ours, theirs in self.visits.values())

    def __str__(self) -> str:
        moves = " ".join(f"{m}:{a}/{b}" for m, (a, b) in list(self.visits.items())[:6])
        return f"{self.golden.case.name} ({self.moved} of {self.nodes} visits; ours/lc0's {moves})"


def search(
    evaluator: LeafEvaluator, goldens: Sequence[Golden], config: str, nodes: int, **more: str
) -> list[SearchResult]:
    """Our results for all positions, in order."""
    forest = Forest(evaluator, params_of(config, **more), trees=min(TREES, len(goldens)), nodes=nodes)
    results = dict(forest.search((g.case.position for g in goldens), nodes))
    return [results[i] for i in range(len(goldens))]


def differences(evaluator: LeafEvaluator, goldens: Sequence[Golden], config: str, nodes: int) -> list[Difference]:
    """The positions whose root visits differ from lc0's."""
    results = search(evaluator, goldens, config, nodes, lc0_floats="1")
    compared = (difference(g, config, nodes, r) for g, r in zip(goldens, results, strict=True))
    return [deviation for deviation in compared if deviation.visits]


def difference(golden: Golden, config: str, nodes: int, result: SearchResult) -> Difference:
    ours = {m.move: m.visits for m in result.moves if m.visits}
    theirs = golden.searches[config, nodes]["visits"]
    pairs = {m: (ours.get(m, 0), theirs.get(m, 0)) for m in {**theirs, **ours}}
    return Difference(golden, config, nodes, {m: (a, b) for m, (a, b) in pairs.items() if a != b})


def explained(evaluator: Lc0Evaluator, row: Difference) -> bool:
    """With lc0's own evaluations the visits are lc0's: what differed were the last bits of the net."""
    return not differences(evaluator, [row.golden], row.config, row.nodes)


def q_errors(evaluator: LeafEvaluator, goldens: Sequence[Golden], nodes: int) -> list[float]:
    """|our root Q with exact arithmetic - lc0's| of every position."""
    results = search(evaluator, goldens, "default", nodes)
    return [abs(r.root_q - g.root_q("default", nodes)) for g, r in zip(goldens, results, strict=True)]


def sooner_or_later(evaluator: LeafEvaluator, golden: Golden, nodes: int) -> bool:
    """Our root Q is lc0's a tenth of the visits before or after.

    So it is where a node is proven: its earlier visits are valued anew, root Q jumps, and exact arithmetic comes to
    the proof some visits before or after lc0.
    """
    for visits in (nodes * 9 // 10, nodes * 11 // 10):
        result = search(evaluator, [golden], "default", visits)[0]
        if abs(result.root_q - golden.root_q("default", nodes)) <= Q_LIMIT:
            return True
    return False


def having(goldens: Iterable[Golden], config: str, nodes: int) -> list[Golden]:
    """Those of the goldens that lc0 searched so."""
    return [g for g in goldens if (config, nodes) in g.searches]


def report(goldens: Sequence[Golden], rows: Sequence[Difference]) -> str:
    """Equal of all, by category."""
    totals, bad = Counter(g.case.category for g in goldens), Counter(r.golden.case.category for r in rows)
    parts = ", ".join(f"{name} {n - bad[name]}/{n}" for name, n in sorted(totals.items()))
    return f"{len(goldens) - len(rows)} of {len(goldens)} equal ({parts})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Parity of the search with lc0.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 800, 3000])
    parser.add_argument("--configs", nargs="+", default=list(CONFIGS), choices=list(CONFIGS))
    parser.add_argument("--limit", type=int, help="the first so many positions only")
    parser.add_argument("--explain", action="store_true", help="search what differs with lc0's own evaluations")
    parser.add_argument("--exact", action="store_true", help="root Q with exact arithmetic instead of visits")
    options = parser.parse_args()
    goldens, good = load()[: options.limit], True
    with open_net() as net:
        evaluator = NetEvaluator(net)
        for config in options.configs:
            for nodes in options.nodes:
                some = having(goldens, config, nodes)
                if not some or (options.exact and config != "default"):
                    continue
                begin = time.perf_counter()
                if options.exact:
                    good &= compare_q(evaluator, some, nodes)
                else:
                    rows = compare(evaluator, some, config, nodes)
                    good &= not rows
                    if options.explain:
                        explain(rows)
                print(f"  {time.perf_counter() - begin:.1f} s", flush=True)
    return 0 if good else 1


def compare(evaluator: LeafEvaluator, goldens: Sequence[Golden], config: str, nodes: int) -> list[Difference]:
    """Prints and returns what differs."""
    rows = differences(evaluator, goldens, config, nodes)
    print(f"{config}, {nodes} nodes: {report(goldens, rows)}")
    for row in rows:
        print(f"  {row}")
    return rows


def compare_q(evaluator: LeafEvaluator, goldens: Sequence[Golden], nodes: int) -> bool:
    """Prints the largest error and those over the limit; whether all of these are a matter of some visits."""
    errors = q_errors(evaluator, goldens, nodes)
    worst = max(errors)
    print(f"{nodes} nodes: root Q off by at most {worst:.5f} ({goldens[errors.index(worst)].case.name})")
    good = True
    for golden, error in zip(goldens, errors, strict=True):
        if error > Q_LIMIT:
            jump = sooner_or_later(evaluator, golden, nodes)
            good &= jump
            print(f"  {golden.case.name}: {error:.5f}{', a proof some visits sooner or later' if jump else ''}")
    return good


def explain(rows: Sequence[Difference]) -> None:
    """Prints the cause of every difference."""
    if not rows:
        return
    evaluator = Lc0Evaluator()
    for row in rows:
        cause = "the last bits of the net" if explained(evaluator, row) else "NOT the net: the search differs"
        print(f"  {row.golden.case.name}: {cause}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
