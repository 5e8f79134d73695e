"""Calibration of what a store has: whose curve judges a position, what is kept, and that every command takes it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import chess.pgn
import numpy as np
import pytest

from tests.cli_tree import SAMPLE, vr
from tests.confirm_doubles import SecondOracle, by_length
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.calibration import TooFewPositions, beyond_scale, fit, fold_of
from valuerepair.judge.verdict import NET_RIGHT, SEARCH_RIGHT, UNRESOLVED, decide, evidence
from valuerepair.question import Question
from valuerepair.report.show import describe
from valuerepair.report.stats import store_figures
from valuerepair.runs.confirm import ConfirmOptions, confirm
from valuerepair.store import columns
from valuerepair.store.merge import merge
from valuerepair.store.store import Store

Captured = pytest.CaptureFixture[str]
FITTED = Question(alpha=170.0, calibration="fitted")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, tmp_path / "valuerepair.db")
    return tmp_path


@pytest.fixture
def db(folder: Path) -> Path:
    return folder / "valuerepair.db"


def change(db: Path, statement: str) -> int:
    """Rows that the statement changed."""
    with Store.open(db, write=True) as store:
        with store.writing() as connection:
            changed = connection.execute(statement).rowcount
        store.commit()
    return changed


# -- frames -----------------------------------------------------------------------------------------------------------


def test_a_frame_is_judged_by_the_curve_of_its_own_values(db: Path) -> None:
    with Store.open(db) as store:
        plain, frame = store.frame(replace(FITTED, calibration="none")), store.frame(FITTED)
        pair = store.pick()
        keys = columns.columns(store.connection, *pair, (columns.GAME_KEY,))[columns.GAME_KEY]
    assert list(frame) == [*plain, "calibrated_q"]
    for name in ("position_id", "net_q", "deep_q", "weight"):
        assert frame[name].equals(plain[name])
    # As many keys as there are games, and each game has one.
    assert len(np.unique(keys)) == frame["game_id"].nunique() == len(set(zip(frame["game_id"], keys, strict=True)))
    net_q, deep_q, weight = (frame[name].to_numpy() for name in ("net_q", "deep_q", "weight"))
    expected = fit(net_q, deep_q, weight, keys, resamples=0).expected(net_q, fold_of(keys))
    assert np.array_equal(frame["calibrated_q"], expected)
    assert np.array_equal(frame["disagreement"], expected - frame["deep_q"])
    assert plain.attrs["calibration"] is None
    assert frame.attrs["calibration"]["positions"] == len(frame)


def test_candidates_are_those_of_the_frame(db: Path) -> None:
    with Store.open(db) as store:
        frame, candidates = store.frame(FITTED), store.candidates(FITTED)
    wanted = frame[frame["disagreement"].abs() >= FITTED.threshold]
    assert set(candidates["position_id"]) == set(wanted["position_id"])
    assert candidates["disagreement"].abs().is_monotonic_decreasing
    assert candidates.attrs["calibration"] == frame.attrs["calibration"]


def test_a_games_own_scores_do_not_move_its_calibrated_q(db: Path) -> None:
    with Store.open(db) as store:
        before = store.frame(FITTED).set_index("position_id")
    games = before["game_id"].value_counts()
    game = int(games.index[0])
    of_game = f"position_id IN (SELECT id FROM positions WHERE game_id = {game})"
    assert change(db, f"UPDATE deep_values SET cp = -3 * cp - 500 WHERE cp NOT NULL AND {of_game}") > 2
    with Store.open(db) as store:
        after = store.frame(FITTED).set_index("position_id")
    own = before["game_id"] == game
    assert not np.array_equal(before.loc[own, "deep_q"], after.loc[own, "deep_q"])
    assert np.array_equal(before.loc[own, "calibrated_q"], after.loc[own, "calibrated_q"])
    assert not np.array_equal(before.loc[~own, "calibrated_q"], after.loc[~own, "calibrated_q"])


def test_expanded_positions_are_judged_and_draw_nothing(db: Path) -> None:
    with Store.open(db) as store:
        ids = store.frame(FITTED)["position_id"].tolist()[::10]
    listed = ",".join(map(str, ids))
    change(db, f"UPDATE deep_values SET stage = 'expanded' WHERE stage = 'full' AND position_id IN ({listed})")
    with Store.open(db) as store:
        sampled, whole = (store.frame(replace(FITTED, expanded=included)) for included in ("no", "searched"))
        assert len(whole) == len(sampled) + len(ids)
        assert whole.attrs["calibration"] == sampled.attrs["calibration"]
        assert sampled.attrs["calibration"]["positions"] == len(sampled)
        same = whole[whole["position_id"].isin(sampled["position_id"])].reset_index(drop=True)
        assert same["calibrated_q"].equals(sampled["calibrated_q"])
        assert whole["calibrated_q"].notna().all()


def test_a_game_is_in_the_same_fold_in_every_store(db: Path, folder: Path) -> None:
    def folds(path: Path) -> dict[int, int]:
        with Store.open(path) as store:
            rows = columns.columns(store.connection, *store.pick(), ("key", columns.GAME_KEY))
        return dict(zip(rows["key"].tolist(), fold_of(rows[columns.GAME_KEY]).tolist(), strict=True))

    before = folds(db)
    assert set(before.values()) == set(range(8))
    merge([str(db)], output=str(folder / "merged.db"))
    change(folder / "merged.db", "UPDATE games SET source = '/elsewhere/' || source")
    assert folds(folder / "merged.db") == before


# -- kept -------------------------------------------------------------------------------------------------------------


def test_the_stored_curve_is_used_for_the_alpha_that_it_was_fitted_for(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.save_calibration(FITTED)
        at_first = store.frame(FITTED)
    assert at_first.attrs["calibration"]["origin"].startswith("stored fit of 20")
    # Values that come later do not change a stored curve.
    assert change(db, "UPDATE deep_values SET cp = 2 * cp") > 100
    with Store.open(db) as store:
        later = store.frame(FITTED)
        assert later["calibrated_q"].equals(at_first["calibrated_q"])
        assert not later["deep_q"].equals(at_first["deep_q"])
        for other in (replace(FITTED, alpha=300.0), replace(FITTED, q_from="wdl")):
            origin = store.frame(other).attrs["calibration"]["origin"]
            assert origin.startswith("fitted on ")
            assert ", for the stored one is of alpha 170 (20" in origin


def test_saving_again_replaces_the_curve(folder: Path, db: Path, capsys: Captured) -> None:
    code, out, err = vr(["stats", "--save-calibration", "--alpha", "170"], capsys)
    assert code == 0, err
    assert "calibration stored fit of " in out
    assert "  net Q   worth  95 % interval" in out
    assert vr(["stats", "--save-calibration", "--alpha", "300"], capsys)[0] == 0
    with Store.open(db) as store:
        assert store.connection.execute("SELECT alpha FROM calibrations").fetchall() == [(300.0,)]
        assert not store.calibration(Question(alpha=170.0)).origin.startswith("stored")


def test_a_stored_text_that_is_no_curve_is_one_line(folder: Path, db: Path, capsys: Captured) -> None:
    assert vr(["stats", "--save-calibration", "--alpha", "170"], capsys)[0] == 0
    assert change(db, "UPDATE calibrations SET curve = '{}'") == 1
    code, _, err = vr(["export", "--calibration", "fitted", "--alpha", "170"], capsys)
    assert code == 1
    assert err.count("\n") == 1
    assert "not a calibration" in err
    assert "--save-calibration" in err


# -- commands ---------------------------------------------------------------------------------------------------------

CALLS = [
    "stats",
    "export",
    "books",
    pytest.param("plot -o a.png", marks=pytest.mark.slow),
    pytest.param("report", marks=pytest.mark.slow),
    "stats --json",
]
NETS = "remeasure --net maia-1900 --net maia-1100"


@pytest.mark.parametrize("call", [*CALLS, NETS])
def test_every_command_takes_it(call: str, folder: Path, capsys: Captured) -> None:
    outputs = []
    for calibration in ("none", "fitted"):
        code, out, err = vr([*call.split(), "--alpha", "170", "--calibration", calibration], capsys)
        assert code == 0, err
        outputs.append(out + err)
    assert outputs[0] != outputs[1]


def test_too_little_is_one_line_and_stats_goes_on(folder: Path, db: Path, capsys: Captured) -> None:
    change(db, "DELETE FROM deep_values WHERE position_id > 200")
    change(db, "DELETE FROM screened WHERE position_id > 200")
    for call in ("export", "books", "stats", "stats --save-calibration"):
        code, _, err = vr([*call.split(), "--calibration", "fitted"], capsys)
        assert (code, err.count("\n")) == (1, 1), call
        assert "no calibration can be fitted: net and oracle have both scored " in err
    code, out, _ = vr(["stats"], capsys)
    assert code == 0
    assert "beyond scale" not in out
    with Store.open(db) as store:
        assert store_figures(store)["scored"]["beyond_scale"] is None
        with pytest.raises(TooFewPositions):
            store.calibration()


def test_all_say_the_same_of_a_position(folder: Path, db: Path) -> None:
    with Store.open(db) as store:
        row = store.candidates(FITTED).iloc[0]
        number = str(row["position_id"])
        shown = describe(store, number, FITTED)
    assert shown["calibrated_q"] == pytest.approx(row["calibrated_q"], abs=1e-12)
    assert shown["disagreement"] == pytest.approx(row["disagreement"], abs=1e-12)
    assert shown["candidate"]
    assert ("optimistic" if row["disagreement"] > 0 else "pessimistic") in shown["labels"]


def test_a_book_says_both_q(folder: Path, db: Path, capsys: Captured) -> None:
    code, out, _ = vr(["books", "--alpha", "170", "--calibration", "fitted", "-o", "book"], capsys)
    assert code == 0
    assert "; net Q calibrated, fitted on " in out.splitlines()[0]
    with Store.open(db) as store:
        candidates = store.candidates(FITTED)
    rounded = {(round(a, 3), round(b, 3), round(c, 3)) for a, b, c in
               candidates[["net_q", "calibrated_q", "deep_q"]].itertuples(index=False)}  # fmt: skip
    entries = 0
    with (folder / "book" / "book.pgn").open() as file:
        while (game := chess.pgn.read_game(file)) is not None:
            net, calibrated, deep, off = (
                float(game.headers[name]) for name in ("NetQ", "CalibratedQ", "DeepQ", "Disagreement")
            )
            assert (net, calibrated, deep) in rounded
            assert off == pytest.approx(calibrated - deep, abs=1.1e-3)
            entries += 1
    assert 0 < entries <= len(candidates)
    assert "calibrated_q" in (folder / "book" / "book.epd").read_text()
    manifest = json.loads((folder / "book" / "manifest.json").read_text())
    assert manifest["calibration"]["positions"] > 500
    assert "calibrated" not in vr(["books", "-o", "plain"], capsys)[1].splitlines()[0]
    assert "CalibratedQ" not in (folder / "plain" / "book.pgn").read_text()


def test_verdicts_are_between_calibrated_q_and_deep_q(db: Path) -> None:
    with Store.open(db) as store:
        frame = store.frame(replace(FITTED, threshold=0.3))
        calibrated, plain = (evidence(store, judged) for judged in (frame, frame.drop(columns="calibrated_q")))
    looked = calibrated["looked"].to_numpy()
    assert looked.sum() > 20
    bound = calibrated[["after_net_q", "after_deep_q", "after_second_q"]].max(axis=1)
    words = np.array([NET_RIGHT, UNRESOLVED, SEARCH_RIGHT], object)
    for verdicts, name in ((calibrated, "calibrated_q"), (plain, "net_q")):
        columns = (frame[name], frame["deep_q"], calibrated["second_q"], bound, calibrated["after_second_q"])
        decided = decide(*(column.to_numpy()[looked] for column in columns))
        assert verdicts["verdict"].to_numpy()[looked].tolist() == words[decided + 1].tolist()
    assert calibrated["verdict"].tolist() != plain["verdict"].tolist()


def test_candidates_by_calibrated_q_are_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    mine_by_key(random_games(tmp_path / "random.pgn", 120), path)
    question = Question(alpha=170.0, threshold=1.0, calibration="fitted")
    with Store.open(path, write=True) as store:
        frame = store.candidates(question)
        confirm(store, frame, SecondOracle(by_length), ConfirmOptions(), progress=None)
        looked = {
            row[0] for row in store.connection.execute("SELECT position_id FROM deep_values WHERE stage = 'second'")
        }
        # A run goes on by what it was asked for: with calibration it is another one than without.
        options = [json.loads(row[0]) for row in store.connection.execute("SELECT options FROM runs ORDER BY id")]
        plain = set(store.candidates(replace(question, calibration="none"))["position_id"])
    assert looked == set(frame["position_id"]) != plain
    assert [run_options.get("calibration") for run_options in options] == [None, "fitted"]


# -- stats ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["none", "fitted"])
def test_stats_say_how_many_are_left(calibration: str, folder: Path, db: Path, capsys: Captured) -> None:
    options = ["--alpha", "170", "--threshold", "0.3", "--calibration", calibration]
    printed, text = (vr(["stats", *options, *more], capsys)[1] for more in (["--json"], []))
    figures = json.loads(printed)["scored"]["beyond_scale"]
    question = replace(FITTED, threshold=0.3)
    with Store.open(db) as store:
        plain, fitted = (set(store.candidates(replace(question, calibration=kind))["position_id"])
                         for kind in ("none", "fitted"))  # fmt: skip
    left = figures["left"]
    assert (left["count"], left["total"]) == (len(plain & fitted), len(plain))
    assert figures["new"] == len(fitted - plain)
    assert 0 <= left["low"] < left["rate"] < left["high"] <= 1
    (line,) = [line for line in text.splitlines() if line.startswith("beyond scale: ")]
    assert f"{left['count']:,} of {left['total']:,}" in line
    assert line.endswith(figures["words"])


def test_nothing_left_and_nothing_there_have_no_narrow_interval() -> None:
    dice = np.random.default_rng(1)
    net = dice.uniform(-1, 1, 2_000)
    game, weight = np.arange(2_000) // 4, np.ones(2_000)
    deep = np.tanh(np.arctanh(net) / 2)  # scale and nothing else
    fitted = fit(net, deep, weight, game, resamples=0)
    beyond = beyond_scale(fitted, net, deep, weight, game, 0.2)
    assert (beyond.remaining.count, beyond.remaining.low) == (0, 0.0)
    assert beyond.remaining.total > 500
    # 0 of n independent positions have an upper end of about 3.7 / n; those of a game may be alike.
    games = len(np.unique(game[np.abs(net - deep) >= 0.2]))
    assert 3.7 / beyond.remaining.total < beyond.remaining.high < 3.7 / games
    nothing = beyond_scale(fitted, net, deep, weight, game, 1.5).remaining
    assert (nothing.count, nothing.total) == (0, 0)
