"""What there is to say of a run on recorded evaluations: how deep they are, whose, and whether their view is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.options import CHUNKS, CUTECHESS, KINDS, TCEC
from valuerepair.chess import values
from valuerepair.intervals import correlation_bound
from valuerepair.oracles.oracle import OracleIdentity
from valuerepair.store.columns import read_cells
from valuerepair.store.store import Store

Floats = NDArray[np.float64]

# So many positions of a side are needed to judge, and a correlation that is surely below this one is none.
ENOUGH, ENOUGH_GAMES = 100, 50
NO_CORRELATION = 0.2
_NAMES_SHOWN = 3
_ROWS = """
FROM deep_values v
JOIN positions p ON p.id = v.position_id
JOIN games g ON g.id = p.game_id
LEFT JOIN net_values n ON :with_net AND n.net_id = :net AND n.position_id = v.position_id
WHERE v.run_id = :run AND v.oracle_id = :oracle AND v.stage = 'full'
"""
_NUMBERS = f"""
SELECT p.side = 'w', CASE g.result WHEN '1-0' THEN 1.0 WHEN '0-1' THEN -1.0 WHEN '1/2-1/2' THEN 0.0 END,
v.cp, v.mate, v.q, n.q, v.depth, v.nodes, g.id {_ROWS}
"""
_PLAYERS = f"SELECT DISTINCT iif(p.side = 'w', g.white, g.black) {_ROWS}"


def remarks(store: Store, run_id: int, net_id: int, oracle_id: int, identity: OracleIdentity) -> list[str]:
    """The remarks on what a run on recorded evaluations has stored; warnings begin so."""
    kind = identity.options["kind"]
    asked = {"net": net_id, "run": run_id, "oracle": oracle_id, "with_net": kind != CHUNKS}
    white, result, cp, mate, own, net, depth, nodes, games = read_cells(store.connection, _NUMBERS, asked, 9)
    if not len(white):
        return []
    view = identity.options.get("view", KINDS[kind].view)
    q = values.deep_q(cp, mate, np.full((len(own), 3), np.nan), own, values.DEFAULT_ALPHA)
    said = [_extent(depth, nodes), *_mixed_depth(depth)]
    if kind in (CUTECHESS, TCEC) and "by" not in identity.options:
        said += _players([name for (name,) in store.connection.execute(_PLAYERS, asked)])
    references = []
    if len(np.unique(games)) >= ENOUGH_GAMES:  # positions of one game have one result
        references.append(("the results of the games", np.where(white == 1, result, -result)))
    if kind != CHUNKS:  # where the net's value is of the same record
        references.append(("the net", net))
    for what, reference in references:
        if warning := point_of_view(white == 1, q, reference, what, view):
            return [*said, warning]
    return said


def _extent(depth: Floats, nodes: Floats) -> str:
    parts = []
    for name, found in (("depth", depth), ("nodes", nodes)):
        some = found[found > 0]
        if len(some):
            missing = f" ({len(found) - len(some):,} do not say)" if len(some) < len(found) else ""
            parts.append(f"{name} {some.min():,.0f} to {some.max():,.0f}, median {np.median(some):,.0f}{missing}")
        else:
            parts.append(f"{name} not recorded")
    return f"recorded evaluations: {'; '.join(parts)}"


def _mixed_depth(depth: Floats) -> list[str]:
    """Where archives could not be looked at beforehand, evaluations with and without a depth come together."""
    unknown = int((depth == 0).sum())
    if unknown in (0, len(depth)):
        return []
    return [
        f"warning: {unknown:,} of {len(depth):,} evaluations do not say how deep they looked and are in one oracle "
        "with the others; recorded:min-depth=1 leaves them out"
    ]


def _players(names: Sequence[str | None]) -> list[str]:
    known = sorted({name for name in names if name})
    if len(known) < 2:
        return []
    shown = ", ".join(known[:_NAMES_SHOWN]) + (", ..." if len(known) > _NAMES_SHOWN else "")
    return [
        f"warning: evaluations by {len(known)} players ({shown}) are in one oracle, though each has centipawns of its "
        "own; recorded:by=NAME takes those of one"
    ]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far evaluations go with something else: Pearson's correlation `r` over `n` positions, `high` the upper end of
    its 95 % interval (Fisher's z)."""

    r: float
    n: int
    high: float

    @property
    def none(self) -> bool:
        return self.n >= ENOUGH and self.high < NO_CORRELATION

    def __str__(self) -> str:
        return f"{self.r:.2f} of {self.n:,}"


def agreement(q: Floats, reference: Floats) -> Agreement:
    """The correlation of the rows where both are numbers; NaN, which is never `none`, where one of them is constant."""
    both = ~(np.isnan(q) | np.isnan(reference))
    x, y = q[both], reference[both]
    if len(x) < 4 or not x.std() or not y.std():
        return Agreement(np.nan, len(x), np.nan)
    r = float(np.corrcoef(x, y)[0, 1])
    return Agreement(r, len(x), correlation_bound(r, len(x)))


def point_of_view(white: NDArray[np.bool_], q: Floats, reference: Floats, what: str, view: str) -> str | None:
    """A warning where evaluations do not go with `reference`, both [n] and from the side to move; None where they do.

    A wrong point of view shows by side: evaluations written for White and taken for the mover's are right where White
    is to move and upside down elsewhere.
    """
    sides = {name: agreement(q[rows], reference[rows]) for name, rows in (("White", white), ("Black", ~white))}
    wrong = [name for name, found in sides.items() if found.none]
    if not wrong:
        return None
    if len(wrong) == 2:
        return (
            f"warning: the recorded evaluations do not go with {what} (correlation {sides['White']} where White is to "
            f"move, {sides['Black']} where Black is): they are of other positions, or from the other side's view"
        )
    name = wrong[0]
    other = "Black" if name == "White" else "White"
    advice = "they may be written from Black's view"
    if name == "Black":
        better = "white" if view == "mover" else "mover"
        advice = (
            f"they seem to be written from {'White' if view == 'mover' else 'the mover'}'s view: recorded:view={better}"
        )
    return (
        f"warning: where {name} is to move the recorded evaluations do not go with {what} (correlation {sides[name]}), "
        f"where {other} is they do ({sides[other]}); {advice}"
    )
