"""Are the nets right beside the games, too? A move aside, and in searches: `python -m benchmarks.proof.aside`.

All positions that nets are tested on, and most that they are trained on, stood in games. A search asks for others as
well: those after moves that nobody would play. Here each drawn position of the held-out families is followed by a legal
move drawn at random; and by moves to a position drawn from those that a search with another net evaluated. Judge and
nets evaluate what stands on the board then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.analysis import PRIMARY_THRESHOLD, Arm, Drawn, by_curves, estimate, relative, same
from benchmarks.proof.noise import deep_q_of, scores_of, searched
from benchmarks.proof.positions import VALIDATION, alpha_of
from benchmarks.proof.tables import BOARDS_SET, CONTROL, ORIGINAL, Net
from valuerepair.archives.aside import beside
from valuerepair.arrays import Floats, Ids, Moves
from valuerepair.chess.positions import PositionBatch, encode_moves
from valuerepair.chess.reached import positions_after
from valuerepair.intervals import Interval
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.snapshot import TreeNode
from valuerepair.nets.net import open_net
from valuerepair.oracles.open import open_oracle
from valuerepair.oracles.searching import search_positions
from valuerepair.question import Question
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

SCALES = ("raw", "recalibrated")
NODES = 100


def asked(net: Net, positions: PositionBatch, threads: int | None) -> Floats:
    """float64[n]: the net's own Q."""
    with open_net(str(net.file), threads=threads) as opened:
        return opened.evaluate(positions).q.astype(np.float64)


def in_searches(net: str, positions: PositionBatch, rng: np.random.Generator) -> tuple[PositionBatch, Ids]:
    """From each position one that a search of `NODES` nodes evaluated, drawn at random, and which rows these are."""
    lines = list[Moves]()
    with open_net(net) as opened:
        for search in search_positions(opened, SearchParams(), positions, nodes=NODES, tree_nodes=NODES):
            lines.append(_drawn_line(search.tree.nodes, rng) if search.tree else np.empty(0, np.uint16))
    with_line = np.array([i for i, line in enumerate(lines) if len(line)], np.int64)
    reached, rows = positions_after(positions.take(with_line), [line for line in lines if len(line)])
    return reached, with_line[rows]


def _drawn_line(nodes: Sequence[TreeNode], rng: np.random.Generator) -> Moves:
    """The moves to a node that the net was asked of, below the root; none where there is no such."""
    evaluated = [i for i, node in enumerate(nodes) if node.depth and not np.isnan(node.net_q)]
    at, moves = (int(rng.choice(evaluated)) if evaluated else 0), list[str]()
    while (parent := nodes[at].parent) is not None:
        moves.append(nodes[at].move)
        at = parent
    return encode_moves(moves[::-1])


def aside_table(
    q: dict[tuple[str, str], dict[str, Floats]], deep: dict[str, Floats], game: dict[str, Ids], *, seed: int = 0
) -> pd.DataFrame:
    """What nets are in the games and beside them: `q` (place, scale) -> arm -> Q [seeds, n], or [seeds, 1 + curves, n]
    (`by_curves`); `deep` and `game` place -> [n].

    Rows of each arm: ``rate`` of candidates, ``mean_dq``, and ``slope``, that of the line through 0 of deep Q over net
    Q: at 1 the net's scale is right, above 1 it is too flat. And the rate against the original's and the control's, as
    a part of it.
    """
    import pandas as pd

    drawn = {place: Drawn(games, seed=seed) for place, games in game.items()}
    table: pd.DataFrame = pd.DataFrame(
        [
            {"place": place, "scale": scale, **row}
            for (place, scale), of in q.items()
            for row in _measured(of, deep[place], drawn[place])
        ]
    )
    return table


def _measured(q: dict[str, Floats], deep: Floats, drawn: Drawn) -> Iterator[dict[str, Any]]:
    """The rows of one place and scale."""
    rates = dict[str, Arm]()

    def row(arm: str, against: str, measure: str, value: Interval) -> dict[str, Any]:
        seeds, positions = len(q[arm]), len(deep)
        about = {"arm": arm, "against": against, "measure": measure}
        return about | tables.bounds(value, "value", "") | {"seeds": seeds, "positions": positions}

    for name, net_q in q.items():
        off = np.abs(net_q - deep)
        rates[name], product = drawn.arm(name, off >= PRIMARY_THRESHOLD), drawn.arm(name, net_q * deep)
        square = drawn.arm(name, net_q**2)
        slope = Arm(product.values / square.values, product.drawn / square.drawn, product.more)
        for measure, arm in (("rate", rates[name]), ("mean_dq", drawn.arm(name, off)), ("slope", slope)):
            yield row(name, "", measure, estimate(same, arm))
    for name in q:
        for other in (ORIGINAL, CONTROL):
            if name not in (ORIGINAL, other):
                yield row(name, other, "rate", estimate(relative, rates[name], rates[other]))


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@tables.source_options
@click.option("--arm", "names", multiple=True, required=True, help="An arm to tell of; repeatable.")
@click.option("--deep", default="stockfish:nodes=20000", show_default=True, help="The judge.")
@click.option("--searching", required=True, help="Net of the searches: none of these, as a search looks where it errs.")
@click.option("--count", default=2_000, show_default=True, type=click.IntRange(1), help="Positions to draw.")
@click.option("--seed", default=18, show_default=True, help="Of the positions and moves.")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(
    names: tuple[str, ...], deep: str, searching: str, count: int, seed: int, output: Path, **options: Any
) -> None:
    """Write aside.csv: what nets are on held-out families, one random move aside of them, and in searches."""
    evaluated = tables.listen(options, [VALIDATION, BOARDS_SET])
    wanted = list(dict.fromkeys([ORIGINAL, CONTROL, *names]))
    of, rng = tables.places_of(evaluated, wanted), np.random.default_rng(seed)
    rows = np.flatnonzero(evaluated.positions.sets == BOARDS_SET)
    rows = np.sort(rng.choice(rows, min(count, len(rows)), replace=False))
    held_out = evaluated.positions.take(rows)
    with Store.open(options["db"]) as store:
        positions = store.positions(held_out.ids)
        alpha = alpha_of(store, Question(net=options["net"], oracle=options["oracle"], alpha=options["alpha"]))
    placed = {"aside": beside(positions, {"aside": 1.0}, seed)[:2], "search": in_searches(searching, positions, rng)}
    judged, game = {"game": held_out.deep_q}, {"game": held_out.game}
    with open_oracle(deep, net_path=None) as oracle:
        for place, (reached, kept) in placed.items():
            judged[place] = deep_q_of(*scores_of(list(searched(oracle, list(reached)))), alpha)
            game[place] = held_out.game[kept]
    q: dict[tuple[str, str], dict[str, Floats]] = {(place, scale): {} for place in judged for scale in SCALES}
    for name in wanted:
        said_of = {
            place: [asked(evaluated.nets[i], at, options["threads"]) for i in of[name]]
            for place, (at, _) in placed.items()
        }
        said_of["game"] = [evaluated.answers[i].q[rows].astype(np.float64) for i in of[name]]
        for place, raw in said_of.items():
            q[place, "raw"][name] = np.stack(raw)
            both = zip((evaluated.curves[i] for i in of[name]), raw, strict=True)
            q[place, "recalibrated"][name] = np.stack([by_curves(one, curve) for curve, one in both])
    table = aside_table(q, judged, game)
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(table, output / "aside.csv")
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "aside")
