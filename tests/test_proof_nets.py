"""What the proof takes nets to say is what `vr eval` says, and a net is asked once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import entropy

from benchmarks.proof import nets
from benchmarks.proof.nets import Answers, answers, policy_kl
from valuerepair.chess.positions import decode_move
from valuerepair.cli import cli
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"
COUNT = 24


@pytest.fixture(scope="module")
def ids() -> Any:
    with Store.open(SAMPLE) as store:
        return store.frame(only=["position_id"])["position_id"].to_numpy(np.int64)[:: 1400 // COUNT][:COUNT]


@pytest.fixture(scope="module")
def files(shared_data: Path) -> tuple[Path, Path]:
    return shared_data / "nets" / "meangirl-8.pb.gz", shared_data / "nets" / "maia-1100.pb.gz"


def evaluated(net: Path, ids: Any, folder: Path) -> list[dict[str, Any]]:
    """What `vr eval` says of the positions, with their moves."""
    with Store.open(SAMPLE) as store:
        moves = store.frame(only=["position_id", "moves"]).set_index("position_id")["moves"].loc[ids]
    lines = folder / "positions.txt"
    lines.write_text("\n".join(f"position startpos moves {line}" for line in moves))
    done = CliRunner().invoke(
        cli, ["eval", str(lines), "--net", str(net), "--top", "300", "--json"], catch_exceptions=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_as_vr_eval(files: tuple[Path, Path], ids: Any, tmp_path: Path) -> None:
    both = [answers(net, SAMPLE, ids, tmp_path / "kept") for net in files]
    rows = [evaluated(net, ids, tmp_path) for net in files]
    for one, evaluations in zip(both, rows, strict=True):
        np.testing.assert_allclose(one.q, [row["q"] for row in evaluations], atol=1e-4)
        assert [decode_move(move) for move in one.best.tolist()] == [row["top"][0]["uci"] for row in evaluations]
        assert one.counts.tolist() == [len(row["top"]) for row in evaluations]
        starts = np.cumsum(one.counts) - one.counts
        for start, count, row in zip(starts, one.counts, evaluations, strict=True):
            assert sorted(one.priors[start : start + count], reverse=True) == pytest.approx(
                [move["p"] for move in row["top"]], abs=1e-4
            )
    for kl, old, new in zip(policy_kl(*both), *rows, strict=True):
        p, q = ({move["uci"]: move["p"] for move in row["top"]} for row in (old, new))
        assert kl == pytest.approx(entropy([p[move] for move in p], [q[move] for move in p]), rel=1e-3, abs=1e-5)
    assert np.abs(policy_kl(both[0], both[0])).max() == 0


def test_only_what_is_not_known_is_asked(
    files: tuple[Path, Path], ids: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    truly = nets._asked

    def counting(net: Any, db: Any, ids: Any) -> Answers:
        counts.append(len(ids))
        return truly(net, db, ids)

    monkeypatch.setattr(nets, "_asked", counting)
    some, rest = ids[1::3], np.setdiff1d(ids, ids[1::3])
    first = answers(files[0], SAMPLE, some, tmp_path)
    every = answers(files[0], SAMPLE, ids, tmp_path)
    assert counts == [len(some), len(rest)]
    again, part = answers(files[0], SAMPLE, ids, tmp_path), answers(files[0], SAMPLE, some, tmp_path)
    assert counts == [len(some), len(rest)]
    whole = answers(files[0], SAMPLE, ids, tmp_path / "elsewhere")
    for name in Answers.__slots__:
        np.testing.assert_array_equal(getattr(again, name), getattr(every, name))
        np.testing.assert_array_equal(getattr(part, name), getattr(first, name))
        np.testing.assert_allclose(getattr(whole, name), getattr(every, name), atol=1e-5)
