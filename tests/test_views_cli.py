"""`vr plot` and `vr stats --fit-alpha` as a user types them, on a store mined with stand-ins."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
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
from valuerepair.store.screening import screens
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
        frame = store.frame(text=False)
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


def test_plot_writes_plot_png_where_it_is_run(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(db.parent)
    printed = vr("plot")
    with Store.open(db) as store:
        frame = store.frame(text=False)
    candidates = int((frame.disagreement.abs() >= 0.55).sum())
    assert printed.startswith(f"plot.png: {len(frame):,} positions, {candidates:,} candidates at 0.55; alpha ")
    assert frame.attrs["alpha"]["origin"] in printed
    assert (db.parent / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert vr("plot", "-q", "-o", "other.svg", "--threshold", "1") == ""
    assert "alpha 170 (given)" in vr("plot", "--alpha", "170")
    assert "the engine's WDL" in vr("plot", "--alpha", "wdl")


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["-o", "plot.gif"], "plot.gif: a plot's name ends in .png, .svg or .pdf", 2),
        (["--net", "nonesuch"], "no net nonesuch", 1),
        (["--db", "missing.db"], "there is no store at missing.db", 1),
    ],
)
def test_plot_refuses(db: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str, code: int) -> None:
    monkeypatch.chdir(db.parent)
    before = sorted(db.parent.iterdir())
    message, exit_code = refused("plot", *arguments)
    assert words in message
    assert exit_code == code
    assert [p for p in sorted(db.parent.iterdir()) if "valuerepair.db" not in p.name] == [
        p for p in before if "valuerepair.db" not in p.name
    ]


def test_fit_alpha_finds_what_was_planted_and_saves_nothing(db: Path) -> None:
    fit_figures = json.loads(vr("stats", "--fit-alpha", "--db", str(db), "--json"))["alpha_fit"]
    fit = fit_figures["fits"]["slope"]
    assert fit["low"] < fit["alpha"] < fit["high"]
    assert fit_figures["steeper"]["slope"] == pytest.approx(1, abs=1e-5)
    assert fit_figures["saved"] is None
    with Store.open(db) as store:
        assert store.alpha(*store.pick()).origin.startswith("fitted on")


def test_fit_alpha_counts_candidates_as_the_store_does(db: Path) -> None:
    fit_figures = json.loads(vr("stats", "--fit-alpha", "--db", str(db), "--json", "--threshold", "0.3"))["alpha_fit"]
    with Store.open(db) as store:
        for name, alpha in [("default", 170.0)] + [(n, fit_figures["fits"][n]["alpha"]) for n in fit_figures["fits"]]:
            assert fit_figures["candidates"][name]["count"] == len(
                store.candidates(Question(threshold=0.3, alpha=alpha))
            )
    counts = fit_figures["candidates"]
    assert counts["default"]["count"] > counts["slope"]["count"] > 0


@pytest.mark.parametrize("name", ["slope", "results"])
def test_fit_alpha_saved_is_used_from_then_on(db: Path, name: str) -> None:
    with Store.open(db, write=True) as store:  # most games were broken off
        store.connection.execute("UPDATE games SET result = CASE number % 3 WHEN 0 THEN '1-0' ELSE '0-1' END")
        store.commit()
    with Store.open(db) as store:
        before = store.alpha(*store.pick()).value
    printed = vr("stats", "--db", str(db), "--save-alpha", name)
    with Store.open(db) as store:
        frame = store.frame()
        alpha, was = store.alpha(*store.pick()), store.alpha(*store.pick(), before)
        counts = [len(store.candidates(Question(alpha=saved.value))) for saved in (alpha, was)]
    if name == "slope":
        expected = fit_alpha(frame.net_q, frame.cp, frame.mate, frame.weight, frame.game_id)
    else:
        z = np.where((frame["result"] == "1-0") == (frame["side"] == "w"), 1.0, -1.0)
        z[frame["played"].isna()] = np.nan
        expected = fit_alpha_to_results(z, frame.cp.to_numpy(), frame.weight.to_numpy(), frame.game_id.to_numpy())
    assert alpha.value == pytest.approx(expected.alpha)
    assert alpha.origin.startswith("stored fit of")
    instead = "as many as" if counts[0] == counts[1] else f"instead of {counts[1]:,}"
    assert (
        f"saved: alpha {alpha.value:.0f} ({name}) for this net and oracle; by it {counts[0]:,} positions are "
        f"candidates at 0.55, {instead} by alpha {was.value:.0f} (fitted on "
    ) in printed
    assert f"in use now: alpha {alpha.value:.0f} (stored fit" in vr("stats", "--fit-alpha", "--db", str(db))


def test_find_and_train_by_one_scale(db: Path) -> None:
    scored = json.loads(vr("stats", "--db", str(db), "--json"))["scored"]
    assert round(scored["training_scale"]["steeper"]["value"], 4) == 1
    assert scored["training_scale"]["alpha"] == scored["alpha"]["value"]
    assert "the net's Q would keep its scale: 1.00 times as steep" in vr("stats", "--db", str(db))


def test_where_net_and_search_go_against_each_other_no_steepness_is_told(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE net_values SET q = -q")
        store.commit()
    printed = vr("stats", "--fit-alpha", "--db", str(db))
    assert "the scale of the net's Q cannot be determined: deep Q does not rise with net Q\n" in printed
    assert "is worth 0.00 (95 %: 0.00 to 0.00): deep Q hardly rises with net Q\n" in printed
    assert "times as steep" not in printed.replace("steeper: how many times as steep", "")
    row = next(line for line in printed.splitlines() if line.startswith("default "))
    assert row.split()[2] == "-"


def test_a_ladder_of_another_alpha_is_told_when_one_is_saved(tmp_path: Path) -> None:
    """The sample's ladder cut positions by the alpha that was fitted then; results want one that is much larger."""
    db = tmp_path / "sample.db"
    shutil.copy(SAMPLE, db)
    with Store.open(db) as store:
        cut_by = screens(store, *store.pick())[0].alpha
    lines = vr("stats", "--db", str(db), "--save-alpha", "results").splitlines()
    assert lines[-2].startswith("saved: alpha ")
    assert lines[-1].startswith(
        f"screening cut positions by alpha {cut_by:.0f}: run the same vr mine again to judge these by"
    )
    assert vr("stats", "--db", str(db), "--save-alpha", "slope").splitlines()[-1].startswith("saved: alpha ")


def test_alpha_is_fitted_to_what_games_came_to(tmp_path: Path) -> None:
    """Recounted from the sample's own tables: White's result, turned to the side to move, of positions that were played
    on; scipy finds the least squares."""
    db = tmp_path / "sample.db"
    shutil.copy(SAMPLE, db)
    printed = vr("stats", "--db", str(db), "--save-alpha", "results", "--json")
    fit_figures = json.loads(printed)["alpha_fit"]
    query = "SELECT p.id, p.side, g.result, p.played FROM positions p JOIN games g ON g.id = p.game_id"
    with sqlite3.connect(db) as sql:
        results = {
            number: (side, result) for number, side, result, played in sql.execute(query) if played and result != "*"
        }
    with Store.open(db) as store:
        frame = store.frame(text=False, only=("position_id", "cp", "weight"))
        assert store.alpha(*store.pick()).origin.endswith("(results)")
    score = {("w", "1-0"): 1, ("b", "0-1"): 1, ("w", "0-1"): -1, ("b", "1-0"): -1}
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
    assert fit_figures["saved"] == "results"


def test_without_results_there_is_nothing_to_fit_to(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE games SET result = '*'")
        store.commit()
    message, code = refused("stats", "--db", str(db), "--save-alpha", "results")
    assert message == (
        "not saved: 0 positions with a score in centipawns and a result, and a fit needs 300; "
        "mine until there are 300 more (positions that screening cut have none)"
    )
    assert code == 1
    assert "fit results" not in vr("stats", "--fit-alpha", "--db", str(db))


def test_the_table(db: Path) -> None:
    lines = vr("stats", "--fit-alpha", "--db", str(db)).splitlines()
    lines = lines[next(i for i, line in enumerate(lines) if "positions with a centipawn score" in line) :]
    assert lines[0].startswith("key-net, ")
    assert [line.split()[0] for line in lines[1:3]] == ["alpha", "default"]
    assert [" ".join(line.split()[:2]) for line in lines[3:5]] == ["fit slope", "steeper: how"]
    assert " to " in lines[3]
    assert "(95 %:" in lines[3]
    assert lines[3].split()[7] == "1.00"  # steeper
    assert lines[-1].startswith("not saved")


def test_scores_that_determine_no_alpha_are_not_saved(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE net_values SET q = 0")
        store.commit()
    message, code = refused("stats", "--db", str(db), "--save-alpha", "slope")
    assert "not saved: the" in message
    assert "determine no alpha between 10 and 10000 (slope)" in message
    assert code == 1
    assert "the scores determine no alpha" in vr("stats", "--fit-alpha", "--db", str(db))


def test_a_fit_to_few_scores_is_not_saved(db: Path) -> None:
    """It would be used in place of the automatic one for good."""
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE deep_values SET cp = NULL WHERE position_id % 16")
        store.commit()
    message, code = refused("stats", "--db", str(db), "--save-alpha", "slope")
    with Store.open(db) as store:
        count = int(store.frame(text=False)["cp"].notna().sum())
    assert message.startswith(f"not saved: {count} positions with a score in centipawns, and a fit needs 300; ")
    assert f"mine until there are {300 - count} more" in message
    assert code == 1
    with Store.open(db) as store:
        assert store.alpha(*store.pick()).origin.startswith("default")


def test_fit_alpha_without_scores(mined: Path, db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE deep_values SET cp = NULL")
        store.commit()
    message, code = refused("stats", "--fit-alpha", "--db", str(db))
    assert message.startswith("no alpha can be fitted: 0 scored positions have a centipawn score")
    assert code == 1


@pytest.mark.parametrize("words", [["plot", "--help"], ["stats", "--help"], ["mine", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    program = (
        f"import sys\nsys.argv = ['vr', *{words!r}]\n"
        "from valuerepair.cli import cli\nfrom valuerepair.cli.ending import run\n"
        "run(cli)\n"
        "heavy = {'numpy', 'pandas', 'matplotlib', 'statsmodels', 'chess', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Example:" in done.stdout
