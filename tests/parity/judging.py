"""How few nodes of the built-in search judge as well as many.

A table of docs/methods.md, "The own search as a judge".

    python -m tests.parity.judging data/games.pgn.zst --positions 1000
    python -m tests.parity.judging data/wild.pgn.zst --positions 1000 --settings certainty=0,lookahead=0,auto_extend=0

Positions are drawn as by ``vr mine``. One search of each is looked at on its way; what is a candidate at any of the
numbers of nodes is then judged by Stockfish at a million. A candidate is right where Stockfish's Q, at both alphas, is
on the search's side of the middle between net and search.
"""

from __future__ import annotations

import argparse

import numpy as np

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.arrays import Floats
from valuerepair.chess import values
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.nets.net import open_net
from valuerepair.oracles.mcts_oracle import MctsJudge
from valuerepair.oracles.open import open_judge
from valuerepair.store.rows import DeepResult

NODES = (25, 50, 100, 200, 400, 1000)
THRESHOLD = 0.55
# The default, and about what is fitted for maia-1900 against Stockfish.
ALPHAS = (170.0, 329.0)
TREES = 128


def search(batch: PositionBatch, net: str | None, settings: str) -> tuple[Floats, Floats, Floats]:
    """The net's Q [n], and for each number of nodes the search's Q and its visits [n, k]."""
    spec = ",".join(filter(None, [f"mcts:nodes={NODES[-1]}", f"trees={TREES}", settings]))
    with open_net(net) as opened, open_judge(spec, net_path=None, net=opened) as judge:
        assert isinstance(judge, MctsJudge)
        net_q = opened.evaluate(batch).q
        futures = [[judge.submit(p, nodes) for nodes in NODES] for p in batch]
        results = [[future.result() for future in row] for row in futures]
    q = np.array([[result.q for result in row if isinstance(result, DeepResult)] for row in results], np.float64)
    visits = np.array(
        [[result.nodes for result in row if isinstance(result, DeepResult)] for row in results], np.float64
    )
    return net_q.astype(np.float64), q, visits


def ask_stockfish(positions: list[Position]) -> list[DeepResult]:
    with open_judge("stockfish:nodes=1M", net_path=None) as judge:
        results = [future.result() for future in [judge.submit(position) for position in positions]]
    assert all(isinstance(result, DeepResult) for result in results)
    return [result for result in results if isinstance(result, DeepResult)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Judge the built-in search by Stockfish.")
    parser.add_argument("archive")
    parser.add_argument("--positions", type=int, default=1000)
    parser.add_argument("--net", help="a name or a file")
    parser.add_argument("--settings", default="", help="of --deep mcts")
    arguments = parser.parse_args()
    options = SampleOptions(positions=arguments.positions, per_game=None)
    batch = PositionBatch.concat(list(sample([arguments.archive], options, ReadReport())))
    net, q, visits = search(batch, arguments.net, arguments.settings)
    off = q - net[:, None]
    rows = np.flatnonzero((np.abs(off) >= THRESHOLD).any(1))
    judged = ask_stockfish([batch[row] for row in rows.tolist()])
    scores = np.array([result.scores for result in judged], np.float64).reshape(-1, 6)
    deep = [values.deep_q(scores, alpha, "cp") for alpha in ALPHAS]
    print("| nodes | visits | candidates | right | mean change to the last |\n|---|---|---|---|---|")
    for k, nodes in enumerate(NODES):
        chosen = np.abs(off[rows, k]) >= THRESHOLD
        side, middle = np.sign(off[rows, k]), net[rows] + off[rows, k] / 2
        right = [((deep_q - middle) * side > 0)[chosen] for deep_q in deep]
        change = np.abs(q[:, k] - q[:, -1]).mean()
        print(f"| {nodes:,} | {visits[:, k].mean():.0f} | {chosen.sum()} | {np.all(right, 0).sum()} | {change:.3f} |")


if __name__ == "__main__":
    main()
