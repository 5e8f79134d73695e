"""What is asked of a store, on the command line: a threshold that is a share, Q from centipawns or W/D/L."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli_tree import SAMPLE, vr
from valuerepair.api.calls import worst_threshold
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
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
    number = figures["scored"]["threshold"]
    assert err.startswith(f"threshold worst:10% is {number:g}: {figures['labels']['candidates']:,} of ")
    with Store.open(folder / "valuerepair.db") as store:
        frame = store.frame(text=False)
        assert len(store.candidates(Question(threshold=number))) == figures["labels"]["candidates"]
        share = frame["weight"][frame["disagreement"].abs() >= number].sum() / frame["weight"].sum()
    assert 0.05 < share <= 0.1
    assert f"by weight {100 * share:.2f} %" in err
    assert json.loads(vr(["stats", "--threshold", f"{number:g}", "--json"], capsys)[1]) == figures


@pytest.mark.usefixtures("folder")
def test_a_share_below_the_threshold_of_screening_says_that_some_were_cut(capsys: Captured) -> None:
    """The sample was screened for candidates at 0.35."""
    cut = r"^threshold (\S+) is below the 0.35 that screening kept: some of these positions were cut; mine with "
    for share in ("worst:2%", "worst:10%"):
        code, _, err = vr(["stats", "--threshold", share], capsys)
        assert code == 0, err
        number = re.match(rf"threshold {share} is (\S+): ", err)
        said = re.search(cut + r"--threshold (\S+) or --screen off$", err, re.MULTILINE)
        assert number is not None
        assert (said is not None) is (float(number[1]) < 0.35) is (share == "worst:10%")
        assert said is None or (said[1] == share and 0 <= float(number[1]) - float(said[2]) < 0.01)


@pytest.mark.parametrize("call", ["export", "books", "compare maia-1900 maia-1100"])
def test_every_command_takes_a_share(call: str, folder: Path, capsys: Captured) -> None:
    code, _, err = vr([*call.split(), "--threshold", "worst:5%"], capsys)
    assert code == 0, err
    assert re.search(r"worst:5% is 0\.\d{1,4}: \d+ of ", err)
    assert vr([*call.split(), "--threshold", "worst:5%", "-q"], capsys)[2] == ""


def test_an_empty_oracle_is_not_all_of_them(folder: Path, capsys: Captured) -> None:
    """As a variable of the shell without a value gives it."""
    code, out, err = vr(["stats", "--oracle", ""], capsys)
    assert (code, out) == (2, "")
    assert "--oracle" in err


def test_both_sources_of_q(folder: Path, capsys: Captured) -> None:
    outputs = [vr(["export", "--alpha", text], capsys)[1].splitlines()[0] for text in ("170", "wdl", "auto")]
    assert len({json.loads(line)["deep_q"] for line in outputs}) == 3


@pytest.mark.usefixtures("stockfish")
def test_mining_counts_by_what_is_stored_already(folder: Path, capsys: Captured) -> None:
    words = ["mine", str(ROOT / "data" / "games.pgn.zst"), "--deep", "stockfish:nodes=500", "--screen", "off"]
    words += ["--db", "new.db", "--positions"]
    code, _, err = vr([*words, "20", "--threshold", "worst:20%"], capsys)
    assert code == 2
    assert "--threshold worst:20%" in err.splitlines()[-1]
    assert vr([*words, "20"], capsys)[0] == 0
    code, out, err = vr([*words, "25", "--threshold", "worst:20%"], capsys)
    assert code == 0, err
    match = re.search(r"^threshold worst:20% is (\S+): (\d+) of ", err, re.MULTILINE)
    assert match is not None
    assert f"candidates at {match[1]}" in out
    assert "were cut" not in err


def test_books_of_a_label_that_needs_the_policy_ask_the_net(folder: Path, capsys: Captured) -> None:
    with Store.open(folder / "valuerepair.db", write=True) as store, store.writing() as connection:
        connection.execute("DELETE FROM priors")
    words = ["books", "--threshold", "0.3", "--label", "value-blind"]
    code, _, err = vr(words, capsys)
    assert code == 0, err
    with Store.open(folder / "valuerepair.db", write=True) as store:  # held by a writer, as while mining
        assert store.connection.execute("SELECT count(*) FROM priors").fetchone()[0] > 0
        assert vr(words, capsys)[0] == 0
