r"""Makes valuerepair/screening/package.npz: python data/make_screen_package.py STORE...

The stores have positions that were searched in full by way of many rungs, nothing cut:

    vr mine ARCHIVE --screen \
        250,500,1000,2000,2500,4000,5000,10000,20000,25000,40000,50000,100000,200000,500000,audit=1
    vr mine ARCHIVE --deep mcts:nodes=400 --screen 2,4,8,10,20,40,80,100,200,audit=1

Only games of even number in their archive are taken: the others are for measuring what a ladder keeps
(python -m tests.parity.screening_kept).
"""

from __future__ import annotations

import sys
from functools import reduce
from pathlib import Path

import numpy as np

from valuerepair.chess.positions import encode_move
from valuerepair.screening.fit import MATE_CP, Q_PARTS
from valuerepair.store.columns import stored_rungs
from valuerepair.store.screening import climbed_rows
from valuerepair.store.store import Store

TARGET = Path(__file__).parents[1] / "valuerepair" / "screening" / "package.npz"


def columns(path: str) -> tuple[str, dict[str, np.ndarray]]:
    """The kind of the store's oracle, and the arrays of `PackagePositions`."""
    with Store.open(path) as store:
        net_id, oracle_id = store.pick()
        facts = next(row for row in store.oracles().to_dict("records") if row["id"] == oracle_id)
        rungs = stored_rungs(store.connection, oracle_id)
        found = climbed_rows(store, net_id, oracle_id, rungs)
        query = "SELECT p.id FROM positions p JOIN games g ON g.id = p.game_id WHERE g.number % 2 = 0"
        even = np.isin(found.ids, [number for (number,) in store.connection.execute(query)])
    cp, mate, q = (found.scores[..., i] for i in (0, 1, 5))
    if facts["kind"] == "mcts":
        score = np.round(Q_PARTS * q)
    else:
        score = np.where(np.isnan(mate), np.clip(cp, 1 - MATE_CP, MATE_CP - 1), np.sign(mate) * MATE_CP)
    moves = np.array([[encode_move(move or "") for move in row] for row in found.best], np.uint16)
    return facts["kind"], {
        "nodes": np.array([*rungs, facts["limits"]["nodes"]]),
        "net_q": found.net_q[even].astype(np.float32),
        "net_best": found.net_best[even].astype(np.uint16),
        "score": score[even].astype(np.int16),
        "best": moves[even],
    }


def together(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of several stores as one, with the numbers of nodes that all of them have."""
    nodes = reduce(np.intersect1d, [part["nodes"] for part in parts])
    for part in parts:
        common = np.isin(part["nodes"], nodes)
        part["score"], part["best"] = part["score"][:, common], part["best"][:, common]
    return {"nodes": nodes} | {
        name: np.concatenate([part[name] for part in parts]) for name in ("net_q", "net_best", "score", "best")
    }


def main() -> None:
    parts: dict[str, list[dict[str, np.ndarray]]] = {}
    for path in sys.argv[1:]:
        kind, arrays = columns(path)
        parts.setdefault(kind, []).append(arrays)
    joined = {f"{kind}_{name}": array for kind, several in parts.items() for name, array in together(several).items()}
    np.savez_compressed(TARGET, **joined)
    told = ", ".join(f"{kind} {len(joined[f'{kind}_net_q']):,}" for kind in parts)
    print(f"{TARGET.name}: {told} positions, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
