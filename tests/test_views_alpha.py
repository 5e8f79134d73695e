"""Fits of alpha in `vr stats`, and `--use alpha=...`, on a store mined with stand-ins and on the sample."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

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
from valuerepair.store import view
from valuerepair.store.alpha import alpha as alpha_of
from valuerepair.store.pairs import pick
from valuerepair.store.store import Store


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
        store.commit()
    return path


def vr(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> tuple[str, int]:
    """The error line and exit code."""
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value), caught.value.exit_code


def test_fit_alpha_finds_what_was_planted(db: Path) -> None:
    fit_figures = json.loads(vr("stats", "--db", str(db), "--json"))["alpha_fit"]
    fit = fit_figures["fits"]["slope"]
    assert fit["low"] < fit["alpha"] < fit["high"]
    assert fit_figures["steeper"]["slope"] == pytest.approx(1, abs=1e-5)
    with Store.open(db) as store:
        assert alpha_of(store, pick(store)).origin.startswith("fitted on")


def test_fit_alpha_counts_candidates_as_the_store_does(db: Path) -> None:
    fit_figures = json.loads(vr("stats", "--db", str(db), "--json", "--threshold", "0.3"))["alpha_fit"]
    with Store.open(db) as store:
        for name, alpha in [("default", 170.0)] + [(n, fit_figures["fits"][n]["alpha"]) for n in fit_figures["fits"]]:
            assert fit_figures["candidates"][name]["count"] == len(
                view.candidates(store, Question(threshold=0.3, alpha=alpha))
            )
    counts = fit_figures["candidates"]
    assert counts["default"]["count"] > counts["slope"]["count"] > 0


@pytest.mark.parametrize("name", ["slope", "results"])
def test_a_fit_in_use_is_used_from_then_on(db: Path, name: str) -> None:
    with Store.open(db, write=True) as store:  # most games were broken off
        store.connection.execute("UPDATE games SET result = CASE number % 3 WHEN 0 THEN '1-0' ELSE '0-1' END")
        store.commit()
    with Store.open(db) as store:
        before = alpha_of(store, pick(store)).value
    vr("stats", "--db", str(db), "--use", f"alpha={name}")
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
    assert f"in use now: alpha {alpha.value:.0f} (" in vr("stats", "--db", str(db))


def test_find_and_train_by_one_scale(db: Path) -> None:
    scored = json.loads(vr("stats", "--db", str(db), "--json"))["scored"]
    assert round(scored["training_scale"]["steeper"]["value"], 4) == 1
    assert scored["training_scale"]["alpha"] == scored["alpha"]["value"]
    assert "the net's Q would keep its scale: 1.00 times as steep" in vr("stats", "--db", str(db))


def test_where_net_and_search_go_against_each_other_no_steepness_is_told(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE net_values SET q = -q")
        store.commit()
    printed = vr("stats", "--db", str(db))
    assert "the scale of the net's Q cannot be determined: deep Q does not rise with net Q\n" in printed
    assert "times as steep" not in printed.replace("steeper: how many times as steep", "")
    row = next(line for line in printed.splitlines() if line.startswith("default "))
    assert row.split()[2] == "-"


def test_alpha_is_fitted_to_what_games_came_to(tmp_path: Path) -> None:
    """Recounted from the sample's own tables: White's result, turned to the side to move, of positions that were played
    on; scipy finds the least squares."""
    db = tmp_path / "sample.db"
    shutil.copy(SAMPLE, db)
    printed = vr("stats", "--db", str(db), "--use", "alpha=results", "--json")
    fit_figures = json.loads(printed)["alpha_fit"]
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
    fit = fit_figures["fits"]["results"]
    assert fit["alpha"] == pytest.approx(float(np.exp(best.x)), rel=1e-3)
    assert fit["n"] == len(with_result)
    assert fit["residual"] == pytest.approx(best.fun**0.5, rel=1e-4)
    assert fit["low"] < fit["alpha"] < fit["high"]


def test_without_results_there_is_nothing_to_fit_to(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE games SET result = '*'")
        store.commit()
    message, code = refused("stats", "--db", str(db), "--use", "alpha=results")
    assert ("needs 300" in message, code) == (True, 1)
    assert "fit results" not in vr("stats", "--db", str(db))


def test_scores_that_determine_no_alpha_are_not_put_in_use(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE net_values SET q = 0")
        store.commit()
    message, code = refused("stats", "--db", str(db), "--use", "alpha=slope")
    assert "not put in use: the" in message
    assert "determine no alpha between 10 and 10000 (slope)" in message
    assert code == 1
    assert "the scores determine no alpha" in vr("stats", "--db", str(db))


def test_a_fit_to_few_scores_is_not_put_in_use(db: Path) -> None:
    """It would be used in place of the automatic one for good."""
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE deep_values SET cp = NULL WHERE position_id % 16")
        store.commit()
    message, code = refused("stats", "--db", str(db), "--use", "alpha=slope")
    with Store.open(db) as store:
        count = int(view.frame(store, text=False)["cp"].notna().sum())
    assert (f"{count} positions" in message, f"{300 - count} more" in message, code) == (True, True, 1)
    with Store.open(db) as store:
        assert alpha_of(store, pick(store)).origin.startswith("default")


def test_without_scores_in_centipawns_no_fit_is_shown(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE deep_values SET cp = NULL")
        store.commit()
    assert "alpha_fit" not in json.loads(vr("stats", "--db", str(db), "--json"))
    assert refused("stats", "--db", str(db), "--use", "alpha=slope")[1] == 1
