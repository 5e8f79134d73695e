"""Writing the report: what is shown of large stores, the file as a whole, the command, what is refused."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
import shutil
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli_tree import SAMPLE
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.cli import cli
from valuerepair.measure.labels import labels_of
from valuerepair.mining.mine import MineOptions
from valuerepair.question import Question
from valuerepair.report import page
from valuerepair.report.static_page import template_part
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.store import Store


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    options = MineOptions(sample=SampleOptions(per_game=5))
    mine_by_key(random_games(folder / "games.pgn", 20, seed=2), folder / "store.db", options=options)
    return folder / "store.db"


def content_of(path: Path) -> dict[str, Any]:
    """What the script of a report reads, unpacked."""
    packed = re.search(r'<script type="application/gzip" id="data">([^<]*)</script>', path.read_text("utf-8"))
    assert packed is not None
    content: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return content


# -- what is shown ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 4000), st.integers(0, 9))
def test_all_candidates_are_shown_and_as_many_others_as_there_is_room_for(
    candidates: int, rest: int, most: int, seed: int
) -> None:
    off = np.concatenate([np.linspace(0.6, 2, candidates), np.linspace(-0.5, 0.5, rest)])
    off = np.random.default_rng(seed).permutation(off)
    chosen = page.choose(pd.DataFrame({"disagreement": off}), 0.55, most, seed)
    assert (np.diff(chosen) > 0).all()
    assert (np.abs(off[chosen]) >= 0.55).sum() == candidates
    assert len(chosen) - candidates == min(rest, max(most - candidates, most // 2))


def test_each_other_position_has_the_same_chance() -> None:
    frame = pd.DataFrame({"disagreement": np.r_[np.full(5, 1.0), np.linspace(0, 0.5, 200)]})
    hits = np.zeros(205)
    for seed in range(400):
        hits[page.choose(frame, 0.55, 25, seed)] += 1
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
        frame = frame[frame["disagreement"].notna()].set_index("position_id")
        families = labels_of(store, frame.reset_index())["opening"].tolist()
    content = content_of(tmp_path / "a.html")
    order = content["id"]
    assert sorted(order) == frame.index.tolist()
    size = frame.loc[order, "disagreement"].abs().to_numpy()
    assert (np.diff(size) <= 0).all()
    for name, column in (("fen", "fen"), ("net", "net_q"), ("deep", "deep_q"), ("ply", "ply")):
        assert content[name] == frame.loc[order, column].tolist()
    openings = dict(zip(frame.index, families, strict=True))
    assert [content["words"]["opening"][i] or None for i in content["opening"]] == [openings[i] for i in order]
    for i, fen in enumerate(content["fen"]):
        board = chess.Board(fen)
        played = frame.loc[order[i], "played"]
        assert content["played"][i] == [board.san(board.parse_uci(played)), played]


def test_lines_end_before_a_move_that_cannot_be_played() -> None:
    board = chess.Board("r3k3/7P/8/3pP3/8/8/8/4K2R w Kq d6 0 30")
    after = ["r3k3/7P/3P4/8/8/8/8/4K2R", "2kr4/7P/3P4/8/8/8/8/4K2R", "2kr4/7P/3P4/8/8/8/8/5RK1"]
    line = page.line(board, ["e5d6", "e8c8", "e1g1", "a1a2", "e1e2"])
    assert line == [["30. exd6", "e5d6", after[0]], ["O-O-O", "e8c8", after[1]], ["31. O-O", "e1g1", after[2]]]
    assert page.line(board, ["h7h8q"])[0][:2] == ["30. h8=Q+", "h7h8q"]


def test_positions_off_the_games_are_points_but_not_in_the_figures(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    shutil.copy(SAMPLE, path)
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute("UPDATE positions SET origin = 'random_move' WHERE id % 2")
    with Store.open(path) as store:
        written = page.write(store, tmp_path / "a.html", Question(threshold=0.35))
        told, frame = store_stats(store, Question(threshold=0.35)), view.frame(store)
        everything = view.frame(store, Question(beside=True))
    content, text = content_of(tmp_path / "a.html"), (tmp_path / "a.html").read_text("utf-8")
    assert written.positions == frame["disagreement"].notna().sum()
    assert len(content["id"]) == written.shown == everything["disagreement"].notna().sum() > written.positions
    assert content["words"]["kind"] == ["", "after a random legal move", "in games"]
    assert html.escape("\n".join(told.lines())) in text


def test_the_policy_names_the_two_scripts(db: Path, tmp_path: Path) -> None:
    with Store.open(db) as store:
        page.write(store, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    script = template_part("page.js")
    plotly = resources.files("plotly").joinpath("package_data/plotly.min.js").read_text("utf-8")
    for each in (script, plotly):
        digest = base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert text.count(script) == 1
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "default-src 'none'" in policy[1]
    assert "unsafe-inline" not in policy[1].split("script-src")[1].split(";")[0]
    assert not re.search(r"<(?:link|img|iframe)\b|\bsrc=|@import|url\(http", text)


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
    assert content_of(path)["threshold"] == 0.8
