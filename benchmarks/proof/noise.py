"""How many candidates are mistakes of the judge? It looks again, longer: `python -m benchmarks.proof.noise`.

Candidates are positions where net and judge differ, so those where the judge was wrong are among them more often than
elsewhere. What a net repairs is then told twice: of all drawn candidates by the first look, and of those that the
longer look confirms by that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.analysis import PRIMARY_THRESHOLD, Arm, Drawn, by_curves, estimate, relative, same
from benchmarks.proof.positions import VALIDATION, alpha_of
from benchmarks.proof.tables import BOARDS_SET, CONTROL, ORIGINAL, Said
from benchmarks.proof.visits import chosen
from valuerepair.arrays import Floats, Ids
from valuerepair.chess.positions import Position
from valuerepair.chess.progress import Progress
from valuerepair.chess.values import deep_q
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.oracles.open import open_oracle
from valuerepair.oracles.oracle import Oracle
from valuerepair.question import Question
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

NODES = 2_000_000


# -- the longer look --------------------------------------------------------------------------------------------------


def look(oracle: Oracle, db: str | Path, ids: Ids, alpha: float, kept: Path) -> Floats:
    """float64[n]: deep Q of the positions `ids` [n]; the searches are kept by the judge's identity.

    Raises ValueRepairError for a position that cannot be searched.
    """
    path = kept / f"{oracle.identity.digest}.again.npz"
    if path.exists():
        with np.load(path) as read:
            if np.array_equal(read["ids"], ids):
                return deep_q_of(read["cp"], read["mate"], alpha)
    with Store.open(db) as store:
        positions = list(store.positions(ids))
    with Progress("second look", len(ids), "searches") as progress:
        results = []
        for one in searched(oracle, positions):
            results.append(one)
            progress.advance()
    cp, mate = scores_of(results)
    kept.mkdir(parents=True, exist_ok=True)
    with written_whole(path, None) as partial, open(partial, "wb") as file:
        np.savez(file, ids=ids, cp=cp, mate=mate)
    return deep_q_of(cp, mate, alpha)


def scores_of(results: Sequence[DeepResult]) -> tuple[Floats, Floats]:
    """[n] centipawns and moves to mate, NaN where there is none."""
    cp, mate = (np.array([getattr(one, name) for one in results], np.float64) for name in ("cp", "mate"))
    return cp, mate


def deep_q_of(cp: Floats, mate: Floats, alpha: float) -> Floats:
    """[n] Q of Stockfish's scores, by alpha, as `deep_q` gives it."""
    nothing = np.full(len(cp), np.nan)
    return deep_q(np.stack([cp, mate, *[nothing] * 4], 1), alpha)


def searched(oracle: Oracle, positions: Sequence[Position]) -> Iterator[DeepResult]:
    """What the judge says of all positions, in their order. Raises ValueRepairError for one that it cannot search."""
    source = iter(positions)
    waiting = [oracle.submit(position) for position in islice(source, 2 * oracle.workers)]
    while waiting:
        result = waiting.pop(0).result()
        waiting += [oracle.submit(position) for position in islice(source, 1)]
        if not isinstance(result, DeepResult):
            raise ValueRepairError(result.reason)
        yield result


# -- what it says -----------------------------------------------------------------------------------------------------


def noise_table(off: dict[str, tuple[Floats, Floats]], game: Ids, *, seed: int = 0) -> pd.DataFrame:
    """What is left of the original's candidates, by the first and by the longer look.

    `off` are |recalibrated Q - deep Q| of each arm, [seeds, 1 + curves, n] (`by_curves`) by the first look and by the
    longer one; the original's has one seed. Rows: ``confirmed``, the share of candidates that are candidates by the
    longer look, too; ``mean_dq``, how far the original is from each look; ``still`` of each arm, the share that are
    candidates still, of all by the first look (``look`` 1) and of the confirmed ones by the longer one (2); and
    ``still`` against the control, as a part of the control's.
    """
    import pandas as pd

    is_confirmed = off[ORIGINAL][1] >= PRIMARY_THRESHOLD
    confirmed = is_confirmed[0, 0]
    drawn = Drawn(game, seed=seed)
    rows: list[dict[str, Any]] = []

    def tell(measure: str, look: int, arm: str, other: str, value: Any, which: Any) -> None:
        sizes = {"seeds": len(off[arm][0]), "positions": int(which.sum()), "games": len(np.unique(game[which]))}
        rows.append({"measure": measure, "look": look, "arm": arm, "against": other} | value | sizes)

    def told(of: Any, *arms: Arm) -> dict[str, float]:
        return tables.bounds(estimate(of, *arms), "value", "")

    every = np.ones(len(game), bool)
    tell("confirmed", 2, ORIGINAL, "", told(same, drawn.arm(ORIGINAL, is_confirmed)), every)
    for number, distances in enumerate(off[ORIGINAL], 1):
        tell("mean_dq", number, ORIGINAL, "", told(same, drawn.arm(ORIGINAL, distances)), every)
    for number, which in ((1, every), (2, confirmed)):
        of_these = Drawn(game[which], seed=seed)
        still = {
            name: of_these.arm(name, by_look[number - 1][..., which] >= PRIMARY_THRESHOLD)
            for name, by_look in off.items()
        }
        for name, arm in still.items():
            if name != ORIGINAL:  # whose candidates they are
                tell("still", number, name, "", told(same, arm), which)
            if name not in (ORIGINAL, CONTROL):
                tell("still", number, name, CONTROL, told(relative, arm, still[CONTROL]), which)
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


# -- from the command line --------------------------------------------------------------------------------------------


def off_by(evaluated: Said, places: Sequence[int], rows: Ids, deep: Floats) -> Floats:
    """[nets, 1 + curves, n] |recalibrated Q - deep Q| of some nets on the rows [n] of the positions."""
    q = [by_curves(evaluated.answers[i].q[rows].astype(np.float64), evaluated.curves[i]) for i in places]
    return np.abs(np.stack(q) - deep)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@tables.source_options
@click.option("--arm", "names", multiple=True, required=True, help="An arm to tell of; repeatable.")
@click.option("--deep", default=f"stockfish:nodes={NODES}", show_default=True, help="The longer look.")
@click.option("--count", default=500, show_default=True, type=click.IntRange(1), help="Candidates to look at.")
@click.option("--seed", default=18, show_default=True, help="Of the candidates; those of benchmarks.proof.visits.")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(names: tuple[str, ...], deep: str, count: int, seed: int, output: Path, **options: Any) -> None:
    """Write noise.csv: what a longer look confirms of the candidates of held-out families, and what arms repair."""
    evaluated = tables.listen(options, [VALIDATION, BOARDS_SET])
    of = tables.places_of(evaluated, dict.fromkeys([ORIGINAL, CONTROL, *names]))
    rows = chosen(evaluated, count, seed)
    held_out = evaluated.positions.take(rows)
    with Store.open(options["db"]) as store:
        alpha = alpha_of(store, Question(net=options["net"], oracle=options["oracle"], alpha=options["alpha"]))
    with open_oracle(deep, net_path=None) as oracle:
        longer = look(oracle, options["db"], held_out.ids, alpha, options["kept"])
    wanted = dict.fromkeys([ORIGINAL, CONTROL, *names])
    off = {
        name: (off_by(evaluated, of[name], rows, held_out.deep_q), off_by(evaluated, of[name], rows, longer))
        for name in wanted
    }
    table = noise_table(off, held_out.game)
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(table, output / "noise.csv")
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "noise")
