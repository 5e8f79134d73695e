"""The rows that plots draw, and the words below their titles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.chess.values import Alpha
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import Rate, weighted
from valuerepair.question import is_candidate, no_deep_score
from valuerepair.text import printable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows of a frame that have both values: `net`, `deep` (Q, side to move) and `weight` are [n].

    `net` is calibrated if the frame's question is for calibrated Q. `rows` [m] marks the frame's rows with both values.
    `weight` is 1 without weights, or with `by_weight` off; `game` [n] numbers the games.
    """

    net: Floats
    deep: Floats
    weight: Floats
    game: Ids
    rows: Flags
    weighted: bool
    calibrated: bool

    @property
    def disagreement(self) -> Floats:
        """[n] net Q - deep Q."""
        return self.net - self.deep

    @property
    def left_out(self) -> int:
        """Rows without a deep Q."""
        return int((~self.rows).sum())

    def rate(self, hits: Flags) -> Rate:
        """The share of `hits` [n], by weight; the interval by games."""
        return weighted(hits, self.weight, self.game)


def scored(frame: pd.DataFrame, *, by_weight: bool) -> Scored:
    """The rows of `frame` with both values; without a column `game_id` each row counts as its own game.

    Raises ValueRepairError if no row has both values.
    """
    deep = frame["deep_q"].to_numpy(np.float64)
    calibrated = "calibrated_q" in frame
    net = frame["calibrated_q" if calibrated else "net_q"].to_numpy(np.float64)
    usable = ~(np.isnan(deep) | np.isnan(net))
    if not usable.any():
        raise ValueRepairError(f"nothing to plot: {no_deep_score(len(frame), frame.attrs.get('q_from', 'cp'))}")
    weight = np.ones(len(frame))
    if by_weight and "weight" in frame:
        weight = frame["weight"].to_numpy(np.float64)
    game = frame["game_id"].to_numpy(np.int64) if "game_id" in frame else np.arange(len(frame))
    net, deep, weight, game = net[usable], deep[usable], weight[usable], game[usable]
    return Scored(net, deep, weight, game, usable, bool((weight != 1).any()), calibrated)


def names(frame: pd.DataFrame) -> tuple[str, str]:
    """The names of a frame's net and oracle, safe in a figure."""
    attrs = frame.attrs
    net, oracle = attrs.get("net", {}).get("name", "net"), attrs.get("oracle", {}).get("label", "deep search")
    return for_figure(net), for_figure(oracle)


def scale(frame: pd.DataFrame) -> str:
    """The source of deep Q, and whether net Q is calibrated."""
    if "alpha" not in frame.attrs:
        return "alpha unknown"
    source = Alpha(**frame.attrs["alpha"]).source(frame.attrs.get("q_from", "cp"))
    return f"{source}, net Q calibrated" if frame.attrs.get("calibration") else source


def made_from(frame: pd.DataFrame) -> str:
    """Net, oracle and alpha, for the line below a title."""
    return " · ".join((*names(frame), scale(frame)))


def counted(rows: Scored, threshold: float) -> str:
    """The numbers of positions and candidates, their share by weight, and the positions left out."""
    wrong = is_candidate(rows.disagreement, threshold)
    by = " by weight" if rows.weighted else ""
    left_out = f"; {rows.left_out:,} without a deep score left out" if rows.left_out else ""
    return (
        f"{len(wrong):,} positions, {int(wrong.sum()):,} candidates ({100 * rows.rate(wrong).rate:.2f} %{by}) "
        f"with |{'calibrated' if rows.calibrated else 'net'} Q − deep Q| ≥ {threshold:g}{left_out}"
    )


def for_figure(text: str) -> str:
    """`printable`, with escaped ``$``: matplotlib would parse the text between two ``$`` as mathematics."""
    return printable(text, 80).replace("$", r"\$")
