"""Are the nets right beside the games, too? One random move aside: `python -m benchmarks.proof.aside`.

All positions that nets are tested on, and most that they are trained on, stood in games. A search asks for others as
well: those after moves that nobody would play. Here each drawn position of the held-out families is followed by a legal
move drawn at random, and judge and nets evaluate what stands on the board then.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.analysis import PRIMARY_THRESHOLD, Arm, Drawn, Floats, Ids, by_curves, estimate, relative, same
from benchmarks.proof.noise import deep_q_of, scores_of, searched
from benchmarks.proof.positions import VALIDATION, alpha_of
from benchmarks.proof.tables import BOARDS_SET, CONTROL, ORIGINAL, Net
from valuerepair.archives.aside import aside
from valuerepair.chess.positions import PositionBatch
from valuerepair.intervals import Interval
from valuerepair.nets.net import open_net
from valuerepair.oracles.open import open_oracle
from valuerepair.question import Question
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

PLACES, SCALES = ("game", "aside"), ("raw", "recalibrated")


def asked(net: Net, positions: PositionBatch, threads: int | None) -> Floats:
    """float64[n]: the net's own Q."""
    with open_net(str(net.file), threads=threads) as opened:
        return opened.evaluate(positions).q.astype(np.float64)


def aside_table(
    q: dict[tuple[str, str], dict[str, Floats]], deep: dict[str, Floats], game: Ids, *, seed: int = 0
) -> pd.DataFrame:
    """What nets are in the games and beside them: `q` (place, scale) -> arm -> Q [seeds, n], or [seeds, 1 + curves, n]
    (`by_curves`); `deep` place -> [n].

    Rows of each arm: ``rate`` of candidates, ``mean_dq``, and ``slope``, that of the line through 0 of deep Q over net
    Q: at 1 the net's scale is right, above 1 it is too flat. And the rate against the original's and the control's, as
    a part of it.
    """
    import pandas as pd

    drawn = Drawn(game, seed=seed)
    table: pd.DataFrame = pd.DataFrame(
        [
            {"place": place, "scale": scale, **row}
            for (place, scale), of in q.items()
            for row in _measured(of, deep[place], drawn)
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

    for name, each in q.items():
        off = np.abs(each - deep)
        rates[name], product = drawn.arm(name, off >= PRIMARY_THRESHOLD), drawn.arm(name, each * deep)
        square = drawn.arm(name, each**2)
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
@click.option("--count", default=2_000, show_default=True, type=click.IntRange(1), help="Positions to draw.")
@click.option("--seed", default=18, show_default=True, help="Of the positions and moves.")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(names: tuple[str, ...], deep: str, count: int, seed: int, output: Path, **given: Any) -> None:
    """Write aside.csv: what nets are on held-out families, and one random move aside of them."""
    said, wanted = tables.listen(given, [VALIDATION, BOARDS_SET]), list(dict.fromkeys([ORIGINAL, CONTROL, *names]))
    of, rng = tables.places_of(said, wanted), np.random.default_rng(seed)
    rows = np.flatnonzero(said.positions.sets == BOARDS_SET)
    rows = np.sort(rng.choice(rows, min(count, len(rows)), replace=False))
    there = said.positions.take(rows)
    with Store.open(given["db"]) as store:
        positions = store.positions(there.ids)
        alpha = alpha_of(store, Question(net=given["net"], oracle=given["oracle"]))
    reached, kept = aside(positions, seed)
    with open_oracle(deep, net_path=None) as oracle:
        scores = scores_of(list(searched(oracle, list(reached))))
    q: dict[tuple[str, str], dict[str, Floats]] = {(place, scale): {} for place in PLACES for scale in SCALES}
    for name in wanted:
        curves = [said.curves[i] for i in of[name]]
        in_games = [said.answers[i].q[rows][kept].astype(np.float64) for i in of[name]]
        beside = [asked(said.nets[i], reached, given["threads"]) for i in of[name]]
        for place, raw in zip(PLACES, (in_games, beside), strict=True):
            q[place, "raw"][name] = np.stack(raw)
            both = zip(curves, raw, strict=True)
            q[place, "recalibrated"][name] = np.stack([by_curves(one, curve) for curve, one in both])
    judged = {"game": there.deep_q[kept], "aside": deep_q_of(*scores, alpha)}
    table = aside_table(q, judged, there.game[kept])
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(table, output / "aside.csv")
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "aside")
