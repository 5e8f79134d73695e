"""How many candidates screening keeps, and for how many nodes: on positions that were searched in full and briefly.

``python -m benchmarks.screening STORE...`` reads stores in which the same positions were mined twice with ``--screen
off``, by a judge and by its short search:

    vr mine ARCHIVE --positions 1100 --deep stockfish:nodes=1000000 --screen off --db STORE
    vr mine ARCHIVE --positions 1100 --deep stockfish:nodes=50000 --screen off --db STORE

It prints a line for each net, pair of judges and alpha: recall with its 95 % interval (Wilson), and by which factor the
nodes of screening, audits included, are fewer.
"""

from __future__ import annotations

import sys

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from valuerepair.arrays import Floats, Ids
from valuerepair.chess.values import DEFAULT_ALPHA, auto_alpha
from valuerepair.mining.screening import AUDITED, FEWEST_AUDITS, MARGIN
from valuerepair.question import is_candidate
from valuerepair.store.columns import both_q, columns
from valuerepair.store.pairs import judges, net_label
from valuerepair.store.store import Store

# What screening looked for, and what is asked later.
THRESHOLDS = ((0.35, 0.35), (0.55, 0.55), (0.55, 0.35))


def lines(path: str) -> list[str]:
    """The measurements on one store."""
    found = []
    with Store.open(path) as store:
        nets = [number for (number,) in store.connection.execute("SELECT id FROM nets ORDER BY id")]
        by_nodes = {judge.limits.get("nodes", 0): judge for judge in judges(store)}
        for nodes, full in sorted(by_nodes.items()):
            short = by_nodes.get(max(20_000, nodes // 20))
            if nodes < 100_000 or short is None:
                continue
            for net in nets:
                read = columns(store, (net, full.id), ("net_q", "cp", "mate", "weight", "game_id"))
                slope = auto_alpha(*(read[name] for name in ("net_q", "cp", "mate", "weight", "game_id"))).value
                for alpha in (DEFAULT_ALPHA, slope):
                    found += [
                        f"{path}, {net_label(store, net)}, {full.label}, alpha {alpha:.0f}, screened at {screened:g}, "
                        f"asked at {asked:g}: {_measured(store, net, full.id, short.id, alpha, screened, asked)}"
                        for screened, asked in THRESHOLDS
                    ]
    return found


def _measured(store: Store, net: int, full_id: int, short_id: int, alpha: float, screened: float, asked: float) -> str:
    ids, both = zip(*(_disagreement(store, (net, judge), alpha) for judge in (full_id, short_id)), strict=True)
    common, of_full, of_short = np.intersect1d(*ids, return_indices=True)
    by_full, by_short = both[0][of_full], both[1][of_short]
    doubtful = is_candidate(by_short, MARGIN * screened)
    candidates = is_candidate(by_full, asked)
    kept, n = int((candidates & doubtful).sum()), int(candidates.sum())
    low, high = proportion_confint(kept, n, method="wilson") if n else (np.nan, np.nan)
    audits = max(AUDITED * (~doubtful).sum(), min(FEWEST_AUDITS, (~doubtful).sum()))
    nodes = dict(store.connection.execute("SELECT judge_id, avg(nodes) FROM deep_values GROUP BY judge_id"))
    spent = len(common) * nodes[short_id] + (doubtful.sum() + audits) * nodes[full_id]
    factor = len(common) * nodes[full_id] / spent
    recall = kept / n if n else np.nan
    return f"{kept} of {n} candidates kept, recall {recall:.3f} ({low:.3f} to {high:.3f}), nodes 1/{factor:.1f}"


def _disagreement(store: Store, pair: tuple[int, int], alpha: float) -> tuple[Ids, Floats]:
    net_q, deep_q = both_q(store, pair, alpha, "cp")
    return columns(store, pair, ())["position_id"], net_q - deep_q


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print("\n".join(lines(path)), flush=True)
