"""Writing the report: what is shown of large stores, the file as a whole, the command, what is refused."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.openings import first_moves, opening_families
from valuerepair.chess.positions import decode_moves
from valuerepair.cli import cli
from valuerepair.mining.mine import MineOptions
from valuerepair.report import page
from valuerepair.report.page import MODULES, REST_SHARE, WORST, bundle, plotly_script
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.store import Store


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    options = MineOptions(sample=SampleOptions(per_game=5))
    mine_by_key(random_games(folder / "games.pgn", 20, seed=2), folder / "store.db", options=options)
    return folder / "store.db"


def blocks(path: Path) -> tuple[dict[str, object], bytes]:
    """The words and the numbers of a report, unpacked."""
    text = path.read_text("utf-8")
    packed = dict(re.findall(r'<script type="application/gzip" id="(\w+)">([^<]*)</script>', text))
    words, numbers = (gzip.decompress(base64.b64decode(packed[name])) for name in ("words", "numbers"))
    return json.loads(words), numbers


# -- what is shown ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 4000), st.integers(0, 9))
def test_shown_rows_stand_for_all_rows(candidates: int, rest: int, limit: int, seed: int) -> None:
    off = np.concatenate([np.linspace(0.6, 2, candidates), np.linspace(-0.5, 0.5, rest)])
    off = np.random.default_rng(seed).permutation(off)
    shown = page.choose(pd.DataFrame({"disagreement": off}), 0.55, limit, seed)
    assert (np.diff(shown.rows) > 0).all()
    assert len(shown.rows) <= max(limit, min(candidates, WORST)) + round(REST_SHARE * limit) + 2
    factors = np.array(shown.factors)[shown.stratum]
    chosen = np.abs(off[shown.rows])
    if shown.complete:
        assert (len(shown.rows), set(shown.factors)) == (len(off), {1.0})
    if len(off) <= limit:
        assert shown.complete
    assert factors[chosen >= 0.55].sum() == pytest.approx(candidates)
    assert factors[chosen < 0.55].sum() == pytest.approx(rest)
    worst = np.sort(np.abs(off))[::-1][: min(candidates, WORST)]
    assert np.isin(worst, chosen).all()


def test_each_row_has_the_same_chance() -> None:
    frame = pd.DataFrame({"disagreement": np.r_[np.full(5, 1.0), np.linspace(0, 0.5, 200)]})
    hits = np.zeros(205)
    for seed in range(400):
        hits[page.choose(frame, 0.55, 25, seed).rows] += 1
    assert (hits[:5] == 400).all()
    # Binomial with 400 draws at 20 of 200: 40 on average, six deviations.
    assert hits[5:].mean() == pytest.approx(40)
    assert np.abs(hits[5:] - 40).max() < 6 * np.sqrt(400 * 0.1 * 0.9)


# -- the file ---------------------------------------------------------------------------------------------------------


def test_the_same_store_gives_the_same_file(db: Path, tmp_path: Path) -> None:
    with Store.open(db) as store:
        written = page.write(store, tmp_path / "a.html")
        page.write(store, tmp_path / "b.html")
        frame = view.frame(store)
    content = (tmp_path / "a.html").read_bytes()
    assert content == (tmp_path / "b.html").read_bytes()
    assert written.size == len(content)
    usable = frame[frame["disagreement"].notna()]
    candidates = int((usable["disagreement"].abs() >= 0.55).sum())
    assert (written.positions, written.shown, written.candidates) == (len(usable), len(usable), candidates)


def test_the_content_is_that_of_the_store(db: Path, tmp_path: Path) -> None:
    with Store.open(db) as store:
        page.write(store, tmp_path / "a.html")
        frame = view.frame(store)
        stats = store_stats(store).as_json()
    words, numbers = blocks(tmp_path / "a.html")
    layout: Any = words["layout"]
    frame = frame[frame["disagreement"].notna()]
    starts, lines = frame["start_fen"].tolist(), first_moves(frame["moves"].tolist())

    def column(name: str) -> np.ndarray:
        at = layout[name]
        return np.frombuffer(numbers, f"<{at['type']}", at["length"], at["offset"])

    for name in ("position_id", "net_q", "deep_q", "weight", "cp", "mate", "net_w"):
        np.testing.assert_array_equal(column(name), frame[name].to_numpy(np.float64))
    listed = words["words"]
    assert isinstance(listed, dict)
    assert [listed["family"][i] for i in column("family")] == opening_families([None] * len(frame), starts, lines)
    begins = column("moves_from")
    moves = [" ".join(decode_moves(column("moves")[a:b])) for a, b in pairwise(begins.tolist())]
    assert moves == frame["moves"].tolist()
    figures = words["figures"]
    assert isinstance(figures, dict)
    assert figures["stats"]["scored"]["by_threshold"] == stats["scored"]["by_threshold"]


def test_the_policy_names_the_two_scripts(db: Path, tmp_path: Path) -> None:
    with Store.open(db) as store:
        page.write(store, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for script in (bundle(), plotly_script()):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert text.count(bundle()) == 1
    assert "default-src 'none'" in policy[1]
    assert "unsafe-inline" not in policy[1].split("script-src")[1].split(";")[0]
    assert not re.search(r"<(?:link|img|iframe)\b|\bsrc=|@import|url\(", text)


def test_modules_can_be_one_script() -> None:
    text = bundle()
    names = re.findall(r"^(?:async )?(?:function|class|const|let) ([A-Za-z_]+)", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert not re.search(r"^(?:import|export) ", text, re.MULTILINE)
    assert "</script" not in text.lower()
    assert "<!--" not in text
    folder = Path(page.__file__).parent / "page_template"
    assert {path.stem for path in folder.glob("*.js")} == set(MODULES)
    for i, name in enumerate(MODULES):
        used = re.findall(r'from "\./([a-z]+)\.js"', (folder / f"{name}.js").read_text("utf-8"))
        assert set(used) <= set(MODULES[:i]), name


def test_a_failure_leaves_the_older_file(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.html"
    with Store.open(db) as store:
        page.write(store, path)
    older = path.read_bytes()

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("valuerepair.report.page.document", full)
    with Store.open(db) as store, pytest.raises(OSError, match="No space left"):
        page.write(store, path)
    assert path.read_bytes() == older
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.html"]


@pytest.mark.slow
def test_the_command(db: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    done = CliRunner().invoke(cli, ["report", "--db", str(db), "-o", str(path), "--threshold", "0.8"])
    assert done.exit_code == 0, done.output
    words, _ = blocks(path)
    assert words["threshold"] == 0.8
    figures = words["figures"]
    assert isinstance(figures, dict)
    assert figures["stats"]["scored"]["threshold"] == 0.8
