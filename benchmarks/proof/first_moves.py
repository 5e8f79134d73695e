"""Do a net's values agree with its moves? Q before and after the net's own first move, by the net and by the judge.

`python -m benchmarks.proof.first_moves GAMES.pgn --net old.pb.gz --net new.pb.gz -o DIR`. By a net that expects its own
moves, Q is the same before and after them, on average. By one that expects better moves than its own, it falls; then a
search takes a move that it has looked at once for worse than one that it has not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.noise import deep_q_of, scores_of, searched
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.arrays import Floats, Ids
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.reached import positions_after
from valuerepair.intervals import bootstrap
from valuerepair.nets.net import open_net
from valuerepair.oracles.open import open_oracle

if TYPE_CHECKING:
    import pandas as pd


def drawn(games: str, count: int, seed: int) -> PositionBatch:
    """Positions of an archive, at most three of a game, none of its first ten plies."""
    options = SampleOptions(positions=count, per_game=3, min_ply=10, seed=seed)
    return PositionBatch.concat(list(sample([games], options, ReadReport())))


def changes(net: str, positions: PositionBatch, judge: Any, alpha: float) -> dict[str, Floats | Ids]:
    """[n] of the positions in which the game goes on after the net's first move, all from the side to move there.

    `before` and `after` are the net's Q, ``judge_before`` and ``judge_after`` the judge's; `game` is the game's number.
    """
    with open_net(net) as opened:
        values = opened.evaluate(positions)
        reached, rows = positions_after(positions, [np.array([move], np.uint16) for move in values.best_move])
        after = -opened.evaluate(reached).q.astype(np.float64)
    played = positions.take(rows)
    before_deep, after_deep = (
        deep_q_of(*scores_of(list(searched(judge, list(batch)))), alpha) for batch in (played, reached)
    )
    games = np.array([position.origin.game for position in played], np.int64)
    return {
        "before": values.q[rows].astype(np.float64), "after": after,
        "judge_before": before_deep, "judge_after": -after_deep, "game": games,
    }  # fmt: skip


def table_of(changed: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each net: the means of Q less the judge's before the move (`bias`), of the change of Q by the move
    (`change`), and of the judge's change by it (`judged`), with 95 % intervals by games; and the `correlation` of both
    changes."""
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame([{"net": net} | dict(_row(columns)) for net, columns in changed.items()])
    return table


def _row(columns: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    change = columns["after"] - columns["before"]
    judged = columns["judge_after"] - columns["judge_before"]
    means = np.stack([columns["before"] - columns["judge_before"], change, judged], 1)
    yield "positions", len(change)
    yield "games", len(np.unique(columns["game"]))
    for name, mean in zip(
        ("bias", "change", "judged"), bootstrap(means, np.ones(len(means)), columns["game"]), strict=True
    ):
        yield from tables.bounds(mean, name, f"{name}_").items()
    yield "correlation", float(np.corrcoef(change, judged)[0, 1])


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("games", type=click.Path(exists=True, dir_okay=False))
@click.option("--net", "nets", multiple=True, required=True, help="A net; repeatable.")
@click.option("--deep", default="stockfish:nodes=10000", show_default=True, help="The judge.")
@click.option("--alpha", default=170.0, show_default=True, help="Scale of the judge's centipawns.")
@click.option("--count", default=1_500, show_default=True, type=click.IntRange(1), help="Positions to draw.")
@click.option("--seed", default=34, show_default=True, help="Of the positions.")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(games: str, nets: Sequence[str], deep: str, alpha: float, count: int, seed: int, output: Path) -> None:
    """Write first-moves.csv: what nets and the judge say before and after each net's own first move."""
    positions = drawn(games, count, seed)
    with open_oracle(deep, net_path=None) as judge:
        table = table_of({Path(net).name.removesuffix(".pb.gz"): changes(net, positions, judge, alpha) for net in nets})
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(table, output / "first-moves.csv")
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "first_moves")
