"""Games played from candidates: was the net right before its search, or the deep search?

Z is the result of games between the net's own searches, not the truth of a position: it says whose value predicts
what this player makes of it.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.store.plays import outcomes
from valuerepair.store.rates import Rate, wilson

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

_Z = 1.959963984540054  # 95 %
_NUMBERS = ("rate", "low", "high")


def figures(store: Store, frame: pd.DataFrame) -> dict[str, Any] | None:
    """Z of the candidates in `frame` from which games were played, against Q_net and Q_deep; None without games.

    A position counts once, with the mean Z of its decided games, for its side to move. `deep_nearer`: how often Q_deep
    is nearer to it than Q_net, with Wilson's interval. `net_error` and `deep_error` are mean squares of Z - Q, `gain`
    their difference with the normal interval over positions (`gain_low`, `gain_high`: None for a single position).
    """
    found = outcomes(store)
    usable = frame[~np.isnan(frame["disagreement"])].set_index("position_id")
    known = np.isin(found.ids, usable.index.to_numpy())
    if not known.any():
        return None
    rows = usable.loc[found.ids[known]]
    z, net, deep = found.z[known], rows["net_q"].to_numpy(), rows["deep_q"].to_numpy()
    nearer = wilson(int(np.count_nonzero(np.abs(z - deep) < np.abs(z - net))), len(z))
    errors = (z - net) ** 2 - (z - deep) ** 2
    half = _Z * float(errors.std(ddof=1)) / sqrt(len(z)) if len(z) > 1 else None
    gain = float(errors.mean())
    return {
        "positions": len(z),
        "games": int(found.games[known].sum()),
        "z": float(z.mean()),
        "net_q": float(net.mean()),
        "deep_q": float(deep.mean()),
        "deep_nearer": {"count": nearer.count, **{name: getattr(nearer, name) for name in _NUMBERS}},
        "net_error": float(((z - net) ** 2).mean()),
        "deep_error": float(((z - deep) ** 2).mean()),
        "gain": gain,
        "gain_low": None if half is None else gain - half,
        "gain_high": None if half is None else gain + half,
    }


def lines(figures: dict[str, Any] | None) -> list[str]:
    """The figures as text; nothing without games."""
    if figures is None:
        return []
    nearer = figures["deep_nearer"]
    rate = Rate(nearer["count"], figures["positions"], *(nearer[name] for name in _NUMBERS))
    shown = [
        "",
        f"games from candidates: {figures['games']:,} decided from {figures['positions']:,} positions "
        f"(mean Z {figures['z']:+.3f}, Q_net {figures['net_q']:+.3f}, Q_deep {figures['deep_q']:+.3f})",
        f"  Z nearer to Q_deep than to Q_net: {rate}",
    ]
    gain = f"  mean square of Z - Q: net {figures['net_error']:.3f}, deep {figures['deep_error']:.3f}"
    if figures["gain_low"] is not None:
        gain += f"; less by {figures['gain']:+.3f} (95 %: {figures['gain_low']:+.3f} to {figures['gain_high']:+.3f})"
    return [*shown, gain]
