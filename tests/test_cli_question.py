"""What is asked of a store, on the command line: a threshold that is a share, Q from centipawns or W/D/L."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli_tree import SAMPLE, vr
from valuerepair.api.calls import worst_threshold
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.store import Store

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, tmp_path / "valuerepair.db")
    return tmp_path


def test_the_worst_positions_by_weight() -> None:
    off = np.array([0.1, -0.9, 0.5, np.nan, -0.3])
    assert worst_threshold(0.25, off, np.ones(5)) == 0.9
    assert worst_threshold(0.5, off, np.ones(5)) == 0.5
    assert worst_threshold(0.75, off, np.ones(5)) == 0.3
    assert worst_threshold(0.01, off, np.ones(5)) == 0.9  # at least one
    # A row that stands for seven others is not within the worst half with one of its own kind.
    assert worst_threshold(0.5, off, np.array([1.0, 1.0, 1.0, 1.0, 7.0])) == 0.5
    assert worst_threshold(0.9, off, np.array([1.0, 1.0, 1.0, 1.0, 7.0])) == 0.3
    assert worst_threshold(0.5, np.array([0.123456, 0.2]), np.ones(2)) == 0.2
    assert worst_threshold(0.99, np.array([0.123456, 0.2]), np.ones(2)) == 0.2
    assert worst_threshold(0.5, np.array([0.123456, 0.1]), np.ones(2)) == 0.1234  # rounded down: it is found again
    for nothing in (np.array([]), np.array([np.nan]), np.zeros(3)):
        with pytest.raises(ValueRepairError, match="worst:2%: no position is scored yet; mine with a number first"):
            worst_threshold(0.02, nothing, np.ones(len(nothing)))


def test_the_number_that_is_said_finds_the_same_positions(folder: Path, capsys: Captured) -> None:
    code, out, err = vr(["stats", "--threshold", "worst:10%", "--json"], capsys)
    assert code == 0, err
    figures = json.loads(out)
    number, candidates = figures["scored"]["threshold"], figures["scored"]["by_label"][0]["total"]
    assert err.startswith(f"threshold worst:10% is {number:g}: {candidates:,} of ")
    with Store.open(folder / "valuerepair.db") as store:
        frame = view.frame(store, text=False)
        assert len(view.candidates(store, Question(threshold=number))) == candidates
        share = frame["weight"][frame["disagreement"].abs() >= number].sum() / frame["weight"].sum()
    assert 0.05 < share <= 0.1
    assert f"by weight {100 * share:.2f} %" in err
    assert json.loads(vr(["stats", "--threshold", f"{number:g}", "--json"], capsys)[1]) == figures


@pytest.mark.parametrize("call", ["export", "books", "compare maia-1900 maia-1100"])
def test_every_command_takes_a_share(call: str, folder: Path, capsys: Captured) -> None:
    code, _, err = vr([*call.split(), "--threshold", "worst:5%"], capsys)
    assert code == 0, err
    assert re.search(r"worst:5% is 0\.\d{1,4}: \d+ of ", err)
    assert vr([*call.split(), "--threshold", "worst:5%", "-q"], capsys)[2] == ""


# -- what is in use ----------------------------------------------------------------------------------------------------


def in_use(capsys: Captured, *words: str) -> dict[str, Any]:
    """The scored positions of `vr stats` with these words."""
    code, out, err = vr(["stats", *words, "--json", "-q"], capsys)
    assert code == 0, err
    scored: dict[str, Any] = json.loads(out)["scored"]
    return scored


@pytest.mark.usefixtures("folder")
def test_what_is_put_in_use_counts_for_later_commands(capsys: Captured) -> None:
    before = in_use(capsys)
    assert (before["threshold"], before["net"]["name"]) == (0.55, "maia-1900")
    assert in_use(capsys, "--use", "threshold=0.3", "--use", "net=maia-1100") == in_use(capsys)
    assert (in_use(capsys)["threshold"], in_use(capsys)["net"]["name"]) == (0.3, "maia-1100")
    assert in_use(capsys, "--threshold", "0.4", "--net", "maia-1900")["threshold"] == 0.4
    assert in_use(capsys, "--use", "judge=nodes=200000")["oracle"]["label"] == "stockfish 15.1 nodes=200000"
    assert in_use(capsys)["oracle"]["label"] == "stockfish 15.1 nodes=200000"
    auto = [word for name in ("net", "judge", "threshold") for word in ("--use", f"{name}=auto")]
    assert in_use(capsys, *auto) == before
    assert in_use(capsys) == before


def test_each_source_of_q_is_another(folder: Path, capsys: Captured) -> None:
    rows = []
    for words in ("170", "wdl", "slope", "results"):
        assert vr(["stats", "--use", f"alpha={words}"], capsys)[0] == 0
        rows.append(json.loads(vr(["export"], capsys)[1].splitlines()[0]))
    assert len({row["deep_q"] for row in rows}) == 4
    assert rows[1]["deep_q"] == (rows[1]["deep_w"] - rows[1]["deep_l"]) / 1000
    with Store.open(folder / "valuerepair.db") as store:
        assert view.frame(store).attrs["alpha"]["value"] == pytest.approx(239, abs=1)


@pytest.mark.parametrize(
    ("words", "named"),
    [("judge=", "judge="), ("judge=komodo", "komodo"), ("alpha=-3", "-3"), ("alpha=big", "big"), ("threshold=3", "3"),
     ("net=x", "net x"), ("split=x", "split"), ("alpha", "alpha")],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_used_is_said_and_changes_nothing(words: str, named: str, capsys: Captured) -> None:
    before = in_use(capsys)
    code, out, err = vr(["stats", "--use", words], capsys)
    assert (code in (1, 2), out, err.count("\n")) == (True, "", 1)
    assert named in err
    assert in_use(capsys) == before


@pytest.mark.usefixtures("stockfish")
def test_mining_puts_its_threshold_net_and_judge_in_use(folder: Path, capsys: Captured) -> None:
    words = ["mine", str(ROOT / "data" / "games.pgn.zst"), "--deep", "stockfish:nodes=500", "--positions"]
    assert vr([*words, "20", "--threshold", "0.3"], capsys)[0] == 0
    scored = in_use(capsys)
    assert (scored["threshold"], scored["oracle"]["label"], scored["positions"]) == (
        0.3,
        "stockfish 15.1 nodes=500",
        20,
    )
    code, out, err = vr([*words, "21"], capsys)
    assert code == 0, err
    assert "candidates at 0.3:" in out
