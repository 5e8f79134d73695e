"""Is the right move found sooner? The own search on held-out candidates: `python -m benchmarks.proof.visits`.

The judge's move is *settled* after the least number of visits from which on it is the root's best move at every number
of visits up to `NODES`. Each tree stops at every single visit to be looked at: no search is credited with visits
that it was not asked for, and the trees of a batch are those that each position would get alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.proof import tables
from benchmarks.proof.analysis import PRIMARY_THRESHOLD, Arm, Drawn, difference, drawn_seeds, estimate, median, same
from benchmarks.proof.positions import VALIDATION
from benchmarks.proof.tables import BOARDS_SET, ORIGINAL, Net, Said
from valuerepair.arrays import Floats, Ids
from valuerepair.calibration import read_curve
from valuerepair.chess.positions import Position, decode_move
from valuerepair.chess.progress import Progress
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.intervals import Interval
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest, warm_up
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.pool import ForestPool
from valuerepair.mcts.result import SearchResult
from valuerepair.nets.net import open_net
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.nets.net import Net as OpenNet

NODES = 800
# Of a move that is not the best one, or was not all the time, when the visits are used up.
NEVER = NODES + 1
_TREES = 64


# -- searches ---------------------------------------------------------------------------------------------------------


class Watch:
    """The best move of a root after 1, 2, ... visits, as a search in steps of one visit tells it."""

    def __init__(self, nodes: int) -> None:
        self._nodes, self.best = nodes, list[str]()

    def more(self, result: SearchResult, seconds: float) -> int:
        """Notes the best move; up to how many visits to grow on, 0 for no further.

        A proven tree does not grow: it is asked again, and says the same of every number of visits.
        """
        self.best.append(result.best_move)
        return len(self.best) + 1 if len(self.best) < self._nodes else 0

    def settled(self, move: str) -> int:
        """after how many visits `move` is the best one and stays it; one more than there are for never."""
        others = [i for i, best in enumerate(self.best) if best != move]
        return others[-1] + 2 if others else 1


def watch(net: OpenNet, positions: Sequence[Position], nodes: int = NODES) -> Iterator[Watch]:
    """The searches of all positions, in their order. Raises ValueRepairError for one that cannot be searched."""
    evaluator, params = NetEvaluator(net), SearchParams()
    warm_up(evaluator, params)
    forests = [Forest(evaluator, params, trees=_TREES, nodes=nodes, lines=0) for _ in range(evaluator.streams)]
    with closing(ForestPool(forests)) as pool:
        watches = [Watch(nodes) for _ in positions]
        futures = [
            pool.submit(position, 1, lambda result, seconds: None, _failed, one.more)
            for position, one in zip(positions, watches, strict=True)
        ]
        try:
            for future, one in zip(futures, watches, strict=True):
                future.result()
                yield one
        except BaseException:
            pool.close(cancel=True)
            raise


def _failed(reason: str) -> None:
    raise ValueRepairError(reason)


def settled(net: Net, db: str | Path, ids: Ids, moves: Sequence[str], kept: Path, *, threads: int | None) -> Ids:
    """int64[n]: after how many visits the moves of these positions are settled; kept by the net's file."""
    path = kept / f"{net.sha256}.visits.npz"
    if path.exists():
        with np.load(path) as read:
            visits: Ids = read["settled"]
            if np.array_equal(read["ids"], ids) and list(read["moves"]) == list(moves):
                return visits
    with Store.open(db) as store:
        positions = list(store.positions(ids))
    with open_net(str(net.file), threads=threads) as opened, Progress(net.file.name, len(ids), "searches") as progress:
        counts = []
        for one, move in zip(watch(opened, positions), moves, strict=True):
            counts.append(one.settled(move))
            progress.advance()
    visits = np.array(counts, np.int64)
    kept.mkdir(parents=True, exist_ok=True)
    with written_whole(path, None) as partial, open(partial, "wb") as file:
        np.savez(file, ids=ids, moves=np.array(moves), settled=visits)
    return visits


# -- what they say ----------------------------------------------------------------------------------------------------


def sooner(one: Floats, other: Floats) -> Floats:
    """[n] 1 where the first is settled sooner, -1 where later, 0 where both never are or at once."""
    return np.sign(other - one)


def visit_table(
    arms: dict[str, Floats], against: dict[str, Sequence[str]], game: Ids, *, seed: int = 0
) -> pd.DataFrame:
    """Rows of each arm, and of each arm against others, as a frame; `arms` are [seeds, n] visits, `against` names.

    ``median`` visits; ``found``, the share settled within `NODES`; and against others the difference of both, and
    ``sooner``: the share settled sooner less that settled later, of pairs of seeds, position by position.
    """
    import pandas as pd

    drawn = Drawn(game, seed=seed)
    of = {name: _of_arm(name, visits, drawn) for name, visits in arms.items()}
    rows: list[dict[str, Any]] = []

    def tell(name: str, other: str, measure: str, value: Interval) -> None:
        sizes = len(arms[name]), len(arms[other]) if other else 0, len(game), len(np.unique(game))
        rows.append(
            {"arm": name, "against": other, "measure": measure, **tables.bounds(value, "value", "")}
            | dict(zip(("seeds", "other_seeds", "positions", "games"), sizes, strict=True))
        )

    for name, (medians, shares) in of.items():
        tell(name, "", "median", estimate(same, medians))
        tell(name, "", "found", estimate(same, shares))
        for other in against[name]:
            tell(name, other, "median", estimate(difference, medians, of[other][0]))
            tell(name, other, "found", estimate(difference, shares, of[other][1]))
            tell(name, other, "sooner", estimate(together, *_pairs(name, arms[name], other, arms[other], drawn)))
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def _of_arm(name: str, visits: Floats, drawn: Drawn) -> tuple[Arm, Arm]:
    within = drawn.arm(name, visits <= NODES)
    medians = np.array([median(seed_visits) for seed_visits in visits])
    return Arm(medians, np.stack([drawn.median(seed_visits) for seed_visits in visits], 1), within.more), within


def _pairs(name: str, one: Floats, other: str, others: Floats, drawn: Drawn) -> tuple[Arm, Arm]:
    """`sooner` of all pairs of seeds, as two arms whose sum is its mean: the second is what its seeds add to it."""
    pairs = np.stack([[sooner(a, b) for b in others] for a in one])
    means = pairs.mean(2)
    by_draw = np.stack([drawn.mean(mean_sooner) for mean_sooner in pairs.mean(1)], 1)
    draws = len(by_draw)
    more = means.mean(0) - means.mean()
    return (
        Arm(means.mean(1), by_draw, drawn_seeds(name, len(one), draws)),
        Arm(more, np.zeros((draws, len(others))), drawn_seeds(other, len(others), draws)),
    )


def together(one: Floats, other: Floats) -> Floats:
    """The sum."""
    return one + other


# -- from the command line --------------------------------------------------------------------------------------------


def chosen(evaluated: Said, count: int, seed: int) -> NDArray[np.int64]:
    """Rows of `evaluated.positions`: candidates of the original, recalibrated, on the held-out families, drawn at
    random, of which the judge names a move; in the order of the store."""
    i = tables.places(evaluated.nets)[ORIGINAL][0]
    positions = evaluated.positions
    off = read_curve(evaluated.curves[i].whole, evaluated.answers[i].q) - positions.deep_q
    rows = np.flatnonzero(
        (positions.sets == BOARDS_SET) & (np.abs(off) >= PRIMARY_THRESHOLD) & (positions.deep_best > 0)
    )
    return np.sort(np.random.default_rng(seed).choice(rows, min(count, len(rows)), replace=False))


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@tables.source_options
@click.option(
    "--arm",
    "names",
    multiple=True,
    required=True,
    help="An arm to search with; repeatable. Its own controls are not added.",
)
@click.option("--count", default=500, show_default=True, type=click.IntRange(1), help="Candidates to search.")
@click.option("--seed", default=18, show_default=True, help="Of the candidates.")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(names: tuple[str, ...], count: int, seed: int, output: Path, **options: Any) -> None:
    """Write visits.csv: after how many visits the judge's move is settled, for the original and the arms given.

    The first arm given is held against the others and against the original.
    """
    evaluated = tables.listen(options, [VALIDATION, BOARDS_SET])
    wanted = dict.fromkeys([*names, ORIGINAL])
    of = tables.places_of(evaluated, wanted)
    candidates = evaluated.positions.take(chosen(evaluated, count, seed))
    moves = [decode_move(move) for move in candidates.deep_best.tolist()]
    how = {"threads": options["threads"]}
    arms = {
        name: np.stack(
            [settled(evaluated.nets[i], options["db"], candidates.ids, moves, options["kept"], **how) for i in of[name]]
        )
        for name in wanted
    }
    first, *others = wanted
    against: dict[str, Sequence[str]] = {name: others if name == first else () for name in wanted}
    table = visit_table({name: visits.astype(np.float64) for name, visits in arms.items()}, against, candidates.game)
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(table, output / "visits.csv")
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "visits")
