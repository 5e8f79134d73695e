"""A random move aside: what is told of the nets is recounted."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.proof.aside import aside_table


def test_what_is_told_is_recounted() -> None:
    rng, n = np.random.default_rng(2), 900
    game, deep = rng.integers(0, 300, n), rng.uniform(-1, 1, n)
    nets = {
        "original": 0.5 * deep[None] + rng.normal(0, 0.2, (1, n)),
        "control": 0.8 * deep + rng.normal(0, 0.2, (3, n)),
        "5": deep + rng.normal(0, 0.1, (3, n)),
    }
    rows = aside_table({("aside", "raw"): nets}, {"aside": deep}, {"aside": game}).to_dict("records")
    of = {(row["arm"], row["against"], row["measure"]): row for row in rows}
    rate = {name: (np.abs(q - deep) >= 0.3).mean() for name, q in nets.items()}
    for name, q in nets.items():
        assert of[name, "", "rate"]["value"] == pytest.approx(rate[name])
        assert of[name, "", "mean_dq"]["value"] == pytest.approx(np.abs(q - deep).mean())
        slope = np.mean([np.linalg.lstsq(one[:, None], deep, rcond=None)[0][0] for one in q])
        row = of[name, "", "slope"]
        assert row["value"] == pytest.approx(slope)
        factor, noise = {"original": (0.5, 0.2), "control": (0.8, 0.2), "5": (1.0, 0.1)}[name]
        assert row["low"] < factor / 3 / (factor**2 / 3 + noise**2) < row["high"]
    for other in ("original", "control"):
        row = of["5", other, "rate"]
        assert row["value"] == pytest.approx(rate["5"] / rate[other] - 1)
        assert row["high"] < 0
    assert ("original", "control", "rate") not in of
