"""data/sample.db: the values that its readers, in the documentation and the tests, count on.

The figures were made by the first edition, before the store was converted: converting and reading changed nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"
JUDGE = "stockfish nodes=50000"
# Net -> alpha, candidates at 0.35 and at 0.55, the three largest, digest of all values.
FIGURES = {
    "maia-1900": (317.71006152277306, 66, 14, [588, 1306, 790], "ed88245aa3a7a353"),
    "maia-1100": (532.504602965692, 45, 7, [1036, 382, 1455], "6f62d19580727e08"),
    "meangirl-8": (205.93401845449299, 82, 32, [1162, 291, 573], "f38e1937647cd4ac"),
}
NUMBERS = ("position_id", "key", "net_q", "deep_q", "weight", "cp", "mate", "nodes")
WORDS = ("fen", "moves", "net_best", "deep_best", "pv", "kind", "played", "side", "phase")


@pytest.mark.parametrize("net", FIGURES)
def test_values(net: str) -> None:
    alpha, loose, strict, largest, digest = FIGURES[net]
    with Store.open(SAMPLE) as store:
        frame = view.frame(store, Question(net=net, oracle=JUDGE))
        candidates = {at: view.candidates(store, Question(net=net, oracle=JUDGE, threshold=at)) for at in (0.35, 0.55)}
    assert (len(frame), frame.weight.sum()) == (638, 1500.0)  # 133 of them are audits of the 995 that screening left
    assert frame.attrs["alpha"]["value"] == pytest.approx(alpha, rel=1e-12)
    assert (len(candidates[0.35]), len(candidates[0.55])) == (loose, strict)
    assert candidates[0.35].position_id.tolist()[:3] == largest
    content = hashlib.sha256()
    for name in NUMBERS:
        column = frame[name].to_numpy()
        content.update(np.ascontiguousarray(column if name == "key" else column.astype(np.float64).round(9)).tobytes())
    for name in WORDS:
        content.update("\n".join(map(str, frame[name])).encode())
    assert content.hexdigest()[:16] == digest


def test_by_default_the_pair_of_most_values() -> None:
    with Store.open(SAMPLE) as store:
        frame = view.frame(store)
        assert store.connection.execute("SELECT count(*) FROM positions").fetchone() == (1500,)
    assert (frame.attrs["net"]["name"], frame.attrs["oracle"]["label"]) == ("maia-1900", "stockfish 15.1 nodes=50000")
    assert len(frame) == 638


def test_second_looks_are_values_of_their_judge() -> None:
    with Store.open(SAMPLE) as store:
        frame = view.frame(store, Question(net="maia-1900", oracle="stockfish nodes=200000", alpha=317.71))
        first = view.candidates(store, Question(net="maia-1900", oracle=JUDGE, threshold=0.35))
    assert sorted(first.position_id) == frame.position_id.tolist()
