"""Makes valuerepair/deep/screen_prior.json: python data/make_screen_prior.py STORE

STORE has positions that were searched in full by way of all rungs, nothing cut: ``vr mine ARCHIVE --audit 1``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from valuerepair.deep.screen_prior import prior_text
from valuerepair.mining.screening import read_calibration
from valuerepair.store import Store
from valuerepair.store.screening import stored_rungs

TARGET = Path(__file__).parents[1] / "valuerepair" / "deep" / "screen_prior.json"
THRESHOLD = 0.55
DEFAULT_ALPHA = 170.0

if __name__ == "__main__":
    with Store.open(sys.argv[1]) as store:
        net_id, oracle_id = store.pick()
        label = next(row["label"] for row in store.oracles().to_dict("records") if row["id"] == oracle_id)
        nodes = next(row["limits"]["nodes"] for row in store.oracles().to_dict("records") if row["id"] == oracle_id)
        name = store.nets()["name"][0]
        alphas = (DEFAULT_ALPHA, store.alpha(net_id, oracle_id).value)
        rungs = stored_rungs(store, oracle_id)
        data = [read_calibration(store, net_id, oracle_id, rungs, nodes, alpha, "cp") for alpha in alphas]
    source = (
        f"{len(data[0]):,} positions of master games, {name} against {label}, alphas {alphas[0]:g}, {alphas[1]:.0f}"
    )
    TARGET.write_text(prior_text(data, THRESHOLD, source))
    print(f"{TARGET.name}: {source}")
