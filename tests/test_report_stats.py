"""`vr stats`: its headline and its figures of screening against pandas; fits of alpha, and `--use alpha=...`."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import minimize_scalar

from tests.cli_tree import SAMPLE
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.chess.values import fit_alpha, fit_alpha_to_results
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.report.stats import Scored, StoreStats, store_stats
from valuerepair.store import view
from valuerepair.store.alpha import alpha as alpha_of
from valuerepair.store.pairs import pick
from valuerepair.store.store import Store

SENTENCE = re.compile(
    r"([\d,]+) of ([\d,]+) positions of these games are misjudged by ([\d.]+) or more \((.+) to (.+)\)"
)


def stats_of(path: Path, **question: Any) -> StoreStats:
    with Store.open(path) as store:
        return store_stats(store, Question(**question))


def scored_of(path: Path, **question: Any) -> Scored:
    scored = stats_of(path, **question).scored
    assert scored is not None
    return scored


def numbers(sentence: str) -> list[float]:
    found = SENTENCE.fullmatch(sentence)
    assert found, sentence
    return [float(text.replace(",", "")) for text in found.groups()]


# -- the first lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.3, 0.375, 0.55, 0.7])
def test_the_share_is_weighted_as_pandas_weighs_it(threshold: float) -> None:
    """A screened store: cut positions are stood for by weight, so that the share of its rows is another number."""
    with Store.open(SAMPLE) as store:
        frame = view.frame(store)
        frame = frame[frame["disagreement"].notna()]
    off = frame["disagreement"].abs() >= threshold
    rate = np.average(off, weights=frame["weight"])
    assert abs(rate - off.mean()) > rate / 2
    told = stats_of(SAMPLE, threshold=threshold)
    count, per, said, low, high = numbers(told.headline)
    assert said == threshold
    assert count == pytest.approx(rate * per, abs=0.5)
    assert low < count < high
    assert count >= 5  # few digits would say little: a rarer candidate is said of more positions
    assert per == 1_000 or rate * per < 50
    assert told.scored is not None
    assert (low, high) == (round(per * told.scored.rate.low), round(per * told.scored.rate.high))


@pytest.mark.parametrize("origin", ["neighbour", "search_node"])
def test_only_positions_of_games_count(tmp_path: Path, origin: str) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path / "a.db"))
    with Store.open(path, write=True) as store:
        store.connection.execute("UPDATE positions SET origin = ? WHERE id % 2", (origin,))
        others = view.frame(store)
        told = store_stats(store, Question(beside=True))
        expected = store_stats(store).headline
        store.connection.execute("DELETE FROM deep_values WHERE position_id % 2")
        unsearched = store_stats(store)
    assert told.headline == expected
    assert unsearched.scored is not None
    assert unsearched.scored.rates["origin"] == {}
    assert told.scored is not None
    assert told.scored.positions == len(others) < 400
    assert list(told.scored.rates["origin"]) == ([origin] if origin != "neighbour" else [])


def test_it_answers_in_twelve_lines(plotted_db: Path) -> None:
    """Also of a store with second looks, games and positions off the games, and of one that is screened."""
    for path in (SAMPLE, plotted_db):
        for threshold in (0.1, 0.35, 0.55, 2.0):
            told = stats_of(path, threshold=threshold)
            assert told.scored is not None
            assert told.headline in told.lines()[1]
            assert 6 <= len(told.lines()) <= 12
            assert len(told.details()) > 25


def test_nothing_scored_says_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new.db", create=True) as store:
        told = store_stats(store)
    assert (told.headline, len(told.lines())) == ("", 2)
    assert "0 runs" in "\n".join(told.details())


def test_a_net_that_was_only_compared_was_not_screened_for(plotted_db: Path, tmp_path: Path) -> None:
    db = Path(shutil.copy(plotted_db, tmp_path))
    of_full = "SELECT position_id FROM deep_values WHERE judge_id = 1"
    assert scored_of(db).screening is not None
    changed(db, f"DELETE FROM net_values WHERE position_id NOT IN ({of_full})")
    assert scored_of(db).screening is None


def test_what_screening_left_out_lost_and_saved(plotted_db: Path) -> None:
    """Recounted from the tables: the candidates that were searched because they are doubtful, among all by weight."""
    said = scored_of(plotted_db, threshold=0.3, alpha=170.0).screening
    with Store.open(plotted_db) as store:
        frame = view.frame(store, Question(threshold=0.3, alpha=170.0), screened=True)
        spent, short, kept = store.connection.execute(
            "SELECT sum(nodes), count(DISTINCT CASE WHEN judge_id = 2 THEN position_id END), count(*) FROM deep_values "
            "WHERE failed IS NULL"
        ).fetchone()
    assert said is not None
    wrong = frame["disagreement"].abs() >= 0.3
    left_out, audits = frame["screened"].astype(bool), frame["weight"] > 1
    assert said.positions == len(frame) == short
    assert said.left_out == left_out.sum() == 2 * short - kept > 20
    assert (said.audits, said.audit_hits) == (audits.sum(), (wrong & audits).sum())
    assert said.found == (wrong & ~audits & ~left_out).sum()
    missed = frame["weight"][wrong & audits].sum()
    low, recall, high = (number or np.nan for number in (said.recall_low, said.recall, said.recall_high))
    assert recall == pytest.approx(said.found / (said.found + missed))
    assert low < recall <= high <= 1
    assert (said.nodes, said.full_nodes) == (spent, 100 * len(frame))
    # At a lower threshold than it screened for, it lost more.
    lower = scored_of(plotted_db, threshold=0.05, alpha=170.0).screening
    assert lower is not None
    assert (lower.recall or np.nan) < recall
    assert scored_of(SAMPLE).screening is None


# -- alpha ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    mine_by_key(random_games(folder / "random.pgn", 120), folder / "mined.db")
    return folder / "mined.db"


@pytest.fixture
def db(mined: Path, tmp_path: Path) -> Path:
    """A store of its own for the test, in which the net's Q is the logistic of alpha 300 and noise."""
    path = Path(shutil.copy(mined, tmp_path / "valuerepair.db"))
    rng = np.random.default_rng(1)
    with Store.open(path, write=True) as store:
        frame = view.frame(store, text=False)
        noisy = np.tanh(np.nan_to_num(frame.cp.to_numpy(float)) / 600) + rng.normal(0, 0.2, len(frame))
        pairs = zip(np.clip(noisy, -1, 1).tolist(), frame.position_id.tolist(), strict=True)
        store.connection.executemany("UPDATE net_values SET q = ? WHERE position_id = ?", list(pairs))
    return path


def changed(db: Path, statement: str) -> Path:
    with Store.open(db, write=True) as store:
        store.connection.execute(statement)
    return db


def use_alpha(db: Path, words: str) -> dict[str, Any]:
    call = ["stats", "--db", str(db), "--use", f"alpha={words}", "--json"]
    result = CliRunner().invoke(cli, call, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)["scored"]
    return printed


def refused(db: Path, words: str) -> str:
    """The error's line."""
    with pytest.raises(ValueRepairError) as caught:
        use_alpha(db, words)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1
    return str(caught.value)


def test_fit_alpha_finds_what_was_planted(db: Path) -> None:
    told = scored_of(db, threshold=0.3)
    fit = told.fits["slope"]
    assert fit.low < fit.alpha < fit.high
    assert told.attrs["alpha"]["value"] == fit.alpha
    assert "fitted on" in told.source
    for name, alpha in (("default", 170.0), *((name, fit.alpha) for name, fit in told.fits.items())):
        with Store.open(db) as store:
            candidates = view.candidates(store, Question(threshold=0.3, alpha=alpha))
        assert told.rates["alpha"][name].count == len(candidates)
    assert told.rates["alpha"]["default"].count > told.rates["alpha"]["slope"].count > 0


@pytest.mark.parametrize("name", ["slope", "results"])
def test_a_fit_in_use_is_used_from_then_on(db: Path, name: str) -> None:
    # Most games were broken off.
    changed(db, "UPDATE games SET result = CASE number % 3 WHEN 0 THEN '1-0' ELSE '0-1' END")
    before = scored_of(db).attrs["alpha"]["value"]
    use_alpha(db, name)
    with Store.open(db) as store:
        frame = view.frame(store)
        alpha = alpha_of(store, pick(store))
    assert alpha.value != before or name == "slope"
    if name == "slope":
        expected = fit_alpha(frame.net_q, frame.cp, frame.mate, frame.weight, frame.game_id)
    else:
        z = np.where((frame["result"] == "1-0") == (frame["side"] == "w"), 1.0, -1.0)
        z[frame["played"].isna()] = np.nan
        expected = fit_alpha_to_results(z, frame.cp.to_numpy(), frame.weight.to_numpy(), frame.game_id.to_numpy())
    assert alpha.value == pytest.approx(expected.alpha)
    assert f"({name}), in use" in alpha.origin


def test_alpha_is_fitted_to_what_games_came_to(tmp_path: Path) -> None:
    """Recounted from the sample's own tables: White's result, turned to the side to move, of positions that were played
    on; scipy finds the least squares."""
    db = Path(shutil.copy(SAMPLE, tmp_path / "sample.db"))
    fit = use_alpha(db, "results")["fits"]["results"]
    query = "SELECT p.id, p.side, g.result, p.played FROM positions p JOIN games g ON g.id = p.game_id"
    with sqlite3.connect(db) as sql:
        results = {
            number: (side, result) for number, side, result, played in sql.execute(query) if played and result != "*"
        }
    with Store.open(db) as store:
        frame = view.frame(store, text=False, only=("position_id", "cp", "weight"))
        assert alpha_of(store, pick(store)).origin.endswith("(results), in use")
    score = {(0, "1-0"): 1, (1, "0-1"): 1, (0, "0-1"): -1, (1, "1-0"): -1}  # 0 is White
    with_result = frame[frame["cp"].notna() & frame["position_id"].isin(results)]
    came = np.array([score.get(results[number], 0) for number in with_result["position_id"]])
    assert set(came.tolist()) == {-1, 0, 1}

    def loss(log_alpha: float) -> float:
        off = came - np.tanh(with_result["cp"].to_numpy() / (2 * np.exp(log_alpha)))
        return float(np.average(off**2, weights=with_result["weight"]))

    best = minimize_scalar(loss, bounds=(np.log(20), np.log(2000)), method="bounded", options={"xatol": 1e-6})
    assert fit["alpha"] == pytest.approx(float(np.exp(best.x)), rel=1e-3)
    assert fit["n"] == len(with_result)
    assert fit["residual"] == pytest.approx(best.fun**0.5, rel=1e-4)
    assert fit["low"] < fit["alpha"] < fit["high"]


def test_a_fit_that_says_nothing_is_not_put_in_use(db: Path) -> None:
    """It would be used in place of the automatic one for good."""
    assert "300" in refused(changed(db, "UPDATE games SET result = '*'"), "results")
    assert "results" not in scored_of(db).fits
    changed(db, "UPDATE net_values SET q = 0")
    assert "between 10 and 10000 (slope)" in refused(db, "slope")
    assert "  slope: the scores determine no alpha" in stats_of(db).details()
    changed(db, "UPDATE deep_values SET cp = NULL WHERE position_id % 16")
    assert "300" in refused(db, "slope")
    assert scored_of(db).attrs["alpha"]["origin"].startswith("default")
    changed(db, "UPDATE deep_values SET cp = NULL")
    assert (scored_of(db).fits, scored_of(db).rates["alpha"]) == ({}, {})
    assert "gives Q itself" in refused(changed(db, "UPDATE judges SET kind = 'mcts'"), "wdl")
