"""How much other families would differ: `python -m benchmarks.proof.families`.

The held-out families were drawn once, and intervals over games are for these. Here families are drawn with replacement,
each with all its positions, together with seeds and curves as everywhere. Of so few drawn ones an interval is a little
too narrow: by 6 % of its width with 22, as the normal quantile is against Student's t.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.analysis import HeldOut, estimate, measure, primary, relative
from benchmarks.proof.positions import VALIDATION
from benchmarks.proof.tables import BOARDS_SET, Said, against, arm_of, bounds, places
from valuerepair.arrays import Ids
from valuerepair.judge.split import read_split
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd


def families_table(evaluated: Said, family: Ids) -> pd.DataFrame:
    """The primary measure of each arm less its control's, as a part of it, on the held-out families; their positions
    are of `family` [n]. ``low`` and ``high``: over drawn games; ``family_low``, ``family_high``: over drawn families.
    """
    import pandas as pd

    judged, held = evaluated.judged(BOARDS_SET)
    positions = evaluated.positions.of(BOARDS_SET)
    by_game = measure(judged, held)
    by_family = measure(judged, HeldOut(positions.deep_q, positions.weight, family))
    of, rows = places(evaluated.nets), []
    for arm, at in of.items():
        for other in (control for control in against(arm)[:1] if control in of):
            changes = [
                estimate(relative, arm_of(measured, at, arm, primary()), arm_of(measured, of[other], other, primary()))
                for measured in (by_game, by_family)
            ]
            about = {"arm": arm, "against": other, **bounds(changes[0], "relative", "")}
            about |= {"family_low": changes[1].low, "family_high": changes[1].high}
            rows.append(about | {"families": len(np.unique(family)), "positions": len(family), "seeds": len(at)})
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@tables.source_options
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(output: Path, **options: Any) -> None:
    """Write families.csv: the primary measure over drawn games, and over drawn families."""
    evaluated = tables.listen(options, [VALIDATION, BOARDS_SET])
    with Store.open(options["db"]) as store:
        names = read_split(options["split"]).families(store, evaluated.positions.of(BOARDS_SET).ids)
    table = families_table(evaluated, np.unique(names, return_inverse=True)[1])
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(table, output / "families.csv")
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "families")
