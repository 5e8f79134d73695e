"""What `vr stats` says of positions reached from candidates: against SQL and arithmetic, and against a known truth."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from tests.expanded_store import expanded_store, off_of
from tests.survey_intervals import korn_graubard
from valuerepair.cli import cli
from valuerepair.intervals import WeightedCount, weighted, wilson
from valuerepair.judge import families
from valuerepair.question import Question
from valuerepair.report.stats import sections, stats_lines, store_figures
from valuerepair.store import reached, screening
from valuerepair.store.rows import STEPS
from valuerepair.store.screening import PassageColumns
from valuerepair.store.store import Store

THRESHOLD = 0.55
ALPHA = 170.0
ASKED = Question(alpha=ALPHA)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return expanded_store(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def figures(path: Path) -> dict[str, Any]:
    with Store.open(path) as store:
        return store_figures(store, ASKED)


@pytest.fixture(scope="module")
def rows(path: Path) -> pd.DataFrame:
    """Each reached position with its two differences, by a query of its own."""
    query = """
        SELECT e.*, n.q net_q, f.cp cp, f.mate mate, i.cp inferred_cp, i.mate inferred_mate FROM expanded e
        JOIN net_values n ON n.position_id = e.position_id
        LEFT JOIN deep_values f ON f.stage = 'expanded' AND f.position_id = e.position_id
        LEFT JOIN deep_values i ON i.stage = 'inferred' AND i.position_id = e.position_id
    """
    with Store.open(path) as store:
        frame = pd.read_sql(query, store.connection)
    for name, cp, mate in (("off", "cp", "mate"), ("inferred", "inferred_cp", "inferred_mate")):
        frame[name] = [
            off_of(q, c, m, ALPHA) if c == c or m == m else np.nan
            for q, c, m in zip(frame["net_q"], frame[cp].astype(float), frame[mate].astype(float), strict=True)
        ]
    return frame


def test_counts_by_step_are_those_of_the_tables(figures: dict[str, Any], rows: pd.DataFrame) -> None:
    section = figures["expanded"]
    steps = {row["step"]: row for row in section["steps"] if row["distance"] is None}
    assert set(steps) == set(rows["step"]) == {"line", "parent", "child"}
    for step, counts in steps.items():
        of = rows[rows["step"] == step]
        assert counts["reached"] == len(of)
        assert counts["searched"] == of["searched"].sum() == of["off"].notna().sum()
        assert counts["cut"] == of["cut_at"].notna().sum()
        assert counts["candidates"] == (of["off"] >= THRESHOLD).sum() > 0
        assert counts["nodes"] == of["nodes"].sum()
        assert counts["per_mnode"] == pytest.approx(1e6 * counts["candidates"] / counts["nodes"])
    assert section["reached"] == len(rows)
    assert section["candidates"] == (rows["off"] >= THRESHOLD).sum()
    assert section["rounds"] == 2


def test_the_archive_stands_beside_them_as_its_own_section_has_it(figures: dict[str, Any]) -> None:
    archive, scored = figures["expanded"]["archive"], figures["scored"]
    at = next(row for row in scored["by_threshold"] if row["threshold"] == THRESHOLD)
    assert archive["searched"] == scored["positions"]
    assert archive["nodes"] == scored["nodes"]
    assert {name: archive[name] for name in ("candidates", "rate", "low", "high")} == {
        name: at[name] for name in ("candidates", "rate", "low", "high")
    }


def test_inferred_candidates_are_confirmed_by_searches_of_the_same_sign(
    figures: dict[str, Any], rows: pd.DataFrame
) -> None:
    section = figures["expanded"]["inferred"]
    valued = rows[rows["inferred"].notna()]
    inferred = valued[valued["inferred"] >= THRESHOLD]
    audited = inferred[inferred["off"].notna()]
    assert (section["positions"], section["candidates"], section["audited"]) == (
        len(valued),
        len(inferred),
        len(audited),
    )
    assert section["unsearched"] == len(inferred) - len(audited)
    assert 0 < section["confirmed"] <= (audited["off"] >= THRESHOLD).sum()
    assert section["precision"] == section["confirmed"] / section["audited"]
    # Positions of one root are alike: the interval is at least as wide as if they were not.
    plain = wilson(section["confirmed"], section["audited"])
    assert section["low"] < plain.low < plain.high < section["high"]
    assert sum(row["candidates"] for row in section["by_distance"]) == section["candidates"]


def test_roots_count_as_scipys_entropy_says(figures: dict[str, Any], rows: pd.DataFrame, path: Path) -> None:
    with Store.open(path) as store:
        sampled = store.candidates(ASKED)["position_id"].tolist()
    value = rows["off"].where(rows["off"].notna(), rows["inferred"])
    sizes = pd.Series([*sampled, *rows.loc[value >= THRESHOLD, "root_id"]]).value_counts().to_numpy()
    roots = figures["expanded"]["roots"]
    assert (roots["candidates"], roots["roots"], roots["sampled"]) == (sizes.sum(), len(sizes), len(sampled))
    one, two = roots["hill"]
    assert one == pytest.approx(np.exp(scipy_stats.entropy(sizes)))
    assert two == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum())
    assert two <= one <= len(sizes)


def test_diversity_has_the_roots_where_such_positions_are_taken_in(path: Path) -> None:
    with Store.open(path) as store:
        plain = store.candidates(Question())
        assert "root" not in sections(store, plain, THRESHOLD)["diversity"]
        every = store.candidates(Question(expanded="all"))
        roots = sections(store, every, THRESHOLD)["diversity"]["root"]
    assert roots["families"] == every["root_id"].nunique()
    assert 1 <= roots["hill"][1] <= roots["hill"][0] <= roots["families"]
    assert roots["hill"][1] < 0.9 * len(every)
    words = ["stats", "--db", str(path), "--expanded", "all"]
    shown = CliRunner().invoke(cli, [*words, "-v"]).stderr
    assert f"{roots['families']:,} roots count for {roots['hill'][0]:,.1f}, {roots['hill'][1]:,.1f}" in shown
    assert re.search(r"\d+ roots count for [\d.]+, [\d.]+ \(Hill numbers of order 1, 2\)$", shown, re.MULTILINE)
    plain_words = CliRunner().invoke(cli, words).stdout
    assert "count for" not in plain_words
    assert re.search(r"candidates around \d+ roots$", plain_words, re.MULTILINE)


def test_text_and_json_have_the_section(path: Path, figures: dict[str, Any]) -> None:
    done = CliRunner().invoke(cli, ["stats", "--db", str(path), "--alpha", "170", "--json"])
    section = json.loads(done.stdout)["expanded"]
    assert section == json.loads(json.dumps(figures["expanded"]))
    text = "\n".join(stats_lines(figures))
    assert f"expanded: {section['reached']:,} positions reached by vr expand, 2 rounds; at 0.55" in text
    rate = 100 * section["inferred"]["precision"]
    assert (
        f"of those that were searched anyway, {section['inferred']['confirmed']} of {section['inferred']['audited']}, "
        f"{rate:.2f} %" in text
    )
    assert "100.0 %" not in text


def test_an_empty_table_costs_one_look(path: Path, tmp_path: Path) -> None:
    db = tmp_path / "plain.db"
    shutil.copy(path, db)
    with Store.open(db, write=True) as store, store.writing() as connection:
        connection.execute("DELETE FROM expanded")
    with Store.open(db) as store:
        statements: list[str] = []
        store.connection.set_trace_callback(statements.append)
        stats = store_figures(store, ASKED)
    assert stats["expanded"] is None
    # The word is a stage of deep values, too.
    assert [text for text in statements if re.search(r"\b(FROM|JOIN)\s+expanded\b", text)] == [
        "SELECT EXISTS (SELECT 1 FROM expanded WHERE net_id = 1 AND oracle_id = 1)"
    ]
    assert not any("expand" in line for line in stats_lines(stats))


def test_values_of_the_other_kind_are_no_values(path: Path) -> None:
    """Without W/D/L no Q is made of them: nothing is a candidate, and no rate is made up."""
    with Store.open(path) as store:
        section = store_figures(store, Question(q_from="wdl"))["expanded"]
    with_wdl = [row for row in section["steps"] if row["distance"] is None]
    assert sum(row["candidates"] for row in with_wdl) == section["candidates"]
    assert all(row["rate"] is None or row["rated"] > 0 for row in with_wdl)


def test_where_nothing_was_left_to_search_rates_are_of_all(path: Path, tmp_path: Path) -> None:
    db = tmp_path / "whole.db"
    shutil.copy(path, db)
    parents = []
    for why in ("nodes", "everything"):
        with Store.open(db, write=True) as store, store.writing() as connection:
            connection.execute("UPDATE runs SET counts = json_object('why', ?) WHERE id = 2", (why,))
        with Store.open(db) as store:
            stats = store_figures(store, ASKED)
        parents.append(next(row for row in stats["expanded"]["steps"] if row["step"] == "parent"))
        assert any("chosen for their yield" in line for line in stats_lines(stats)) == (why == "nodes")
    assert [row["rated_of"] for row in parents] == ["chosen", "all"]
    assert parents[0]["rate"] == parents[1]["rate"] == parents[1]["candidates"] / parents[1]["rated"]


# -- against a truth that is known ------------------------------------------------------------------------------------

TRUE_RATE, ROOTS, EACH = 0.25, 300, 8


class World:
    """Children of many roots, of which a quarter are misjudged. A ladder cuts many of the others and few of these; one
    in ten of what it cuts is searched all the same. Of all, one in ten was drawn at random, the others chosen: seven in
    ten of these are misjudged."""

    def __init__(self, seed: int, *, ladder: bool) -> None:
        dice = np.random.default_rng(seed)
        n = ROOTS * EACH
        self.drawn = dice.random(n) < 0.25
        root_rate = dice.beta(2.5, 7.5, ROOTS).repeat(EACH)  # those of one root are alike
        self.misjudged = dice.random(n) < np.where(self.drawn, root_rate, 0.7)
        left = (dice.random(n) < np.where(self.misjudged, 0.03, 0.8)) & ladder
        self.audited = left & (dice.random(n) < 0.1)
        self.searched = ~left | self.audited
        nothing = np.full(n, np.nan)
        cp = np.where(self.misjudged, -400.0, 0.0)
        self.columns: dict[str, NDArray[Any]] = {
            "position_id": np.arange(n) + 1000, "root_id": np.repeat(np.arange(ROOTS), EACH),
            "step": np.full(n, STEPS.index("child")), "distance": dice.integers(1, 4, n),
            "round": np.ones(n, np.int64),
            "run_id": np.ones(n, np.int64), "drawn": self.drawn, "cut_at": np.where(left, 1000.0, np.nan),
            "probability": np.where(left, 0.1, 1.0), "nodes": np.full(n, 100), "net_q": np.zeros(n),
            "searched": self.searched, "inferred": np.zeros(n, bool),
            **{f"inferred_{name}": nothing for name in ("cp", "mate", "w", "d", "l", "q")},
            **{f"searched_{name}": nothing for name in ("mate", "w", "d", "l", "q")},
            "searched_cp": np.where(self.searched, cp, np.nan),
        }  # fmt: skip

    def figures(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        empty = np.empty(0, np.int64)
        monkeypatch.setattr(reached, "any_reached", lambda *_: True)
        monkeypatch.setattr(reached, "all_reached", lambda *_: self.columns)
        monkeypatch.setattr(reached, "left_nothing", lambda *_: False)
        no_passages = PassageColumns(empty, np.empty(0), empty, np.empty(0, bool), np.empty(0))
        monkeypatch.setattr(screening, "passage_columns", lambda *_: no_passages)
        sampled = {"position_id": empty, "disagreement": np.empty(0), "weight": np.empty(0)}
        sampled |= {"nodes": empty, "game_id": empty}
        section = families.figures(None, (1, 1), ALPHA, ASKED, sampled)  # type: ignore[arg-type]
        assert section is not None
        assert "expanded" in families.lines(section)[1]
        row: dict[str, Any] = section["steps"][0]
        return row


@pytest.mark.parametrize("ladder", [False, True])
def test_rates_of_drawn_positions_are_not_bent_by_what_was_chosen(
    monkeypatch: pytest.MonkeyPatch, *, ladder: bool
) -> None:
    covered, rates = 0, []
    for seed in range(150):
        row = World(seed, ladder=ladder).figures(monkeypatch)
        assert row["rated_of"] == "drawn"
        covered += row["low"] <= TRUE_RATE <= row["high"]
        rates.append(row["rate"])
    assert covered >= scipy_stats.binom(150, 0.95).ppf(0.001)
    assert np.mean(rates) == pytest.approx(TRUE_RATE, abs=4 * np.std(rates) / 150**0.5)


def test_where_too_few_were_drawn_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0, ladder=False)
    world.columns["drawn"] = np.arange(ROOTS * EACH) < families.LEAST_DRAWN - 1
    row = world.figures(monkeypatch)
    assert row["rated_of"] == "chosen"
    assert row["rate"] > 0.45


def test_where_nothing_was_chosen_a_few_drawn_ones_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of recorded evaluations, which are all there."""
    world = World(0, ladder=False)
    world.columns = {name: column[:12] for name, column in world.columns.items()}
    world.columns["drawn"][:] = True
    row = world.figures(monkeypatch)
    assert (row["rated_of"], row["rated"]) == ("all", 12)
    assert row["low"] < row["rate"] < row["high"]


def test_what_was_cut_without_an_audit_leaves_the_rate_open(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0, ladder=True)
    world.columns["searched"] &= ~world.audited
    world.columns["searched_cp"][world.audited] = np.nan
    row = world.figures(monkeypatch)
    assert (row["rate"], row["rated"]) == (None, 0)
    assert row["cut"] > 0


def test_groups_of_rows_that_are_alike_widen_an_interval() -> None:
    hits = np.repeat([True, False, False, True, False], 20)
    groups = np.repeat(np.arange(5), 20)
    # The variance between groups that agree is 20 times that of rows, but 100 rows of 5 groups say less of it.
    rate, alone = weighted(hits, np.ones(100), groups), korn_graubard(0.4, 40, 100, 5, 20)
    assert (rate.count, rate.total, rate.rate) == (40, 100, 0.4)
    assert (rate.low, rate.high) == pytest.approx(alone)
    single = weighted(hits, np.ones(100), np.arange(100))
    assert (single.low, single.high) == pytest.approx((wilson(40, 100).low, wilson(40, 100).high))
    drawn = np.where(np.arange(100) < 40, 5.0, 1.0)
    apart, joined = weighted(hits, drawn), WeightedCount().plus(hits, drawn, np.arange(100)).rate()
    assert (joined.rate, joined.low, joined.high) == pytest.approx((apart.rate, apart.low, apart.high))


@pytest.mark.parametrize("right", [True, False])
def test_of_a_few_audits_that_agree_only_the_other_end_is_said(figures: dict[str, Any], *, right: bool) -> None:
    small = json.loads(json.dumps(figures["expanded"]))
    few = wilson(3 * right, 3)
    small["inferred"] |= {"audited": 3, "confirmed": 3 * right, "precision": few.rate, "low": few.low, "high": few.high}
    text = "\n".join(families.lines(small))
    end = f"at least {100 * few.low:.1f}" if right else f"at most {100 * few.high:.1f}"
    rate_words = f"{3 * right} of 3 (95 %: {end} %)"
    assert f"of those that were searched anyway, {rate_words} are" in text
    assert "100" not in rate_words
    assert ("by their precision, at least" in text) == right
