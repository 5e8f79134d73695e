"""The ladder at work with stand-ins: what ends where, the same whatever the speed, resuming, weights, other ladders."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.asked import NAMES
from tests.climbing_doubles import (
    ALPHA,
    FAILS_EVERY,
    NODES,
    RUNGS,
    THRESHOLD,
    ClimbingOracle,
    ShiftedNet,
    climb_by_key,
    fixed_screen,
    ladder_options,
    options_for,
    true_q,
)
from tests.climbing_doubles import net_q as q_of_net
from tests.mining_doubles import dump, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.values import AlphaFit
from valuerepair.cli import cli
from valuerepair.nets.net import NetValues
from valuerepair.question import Question
from valuerepair.report.stats import store_figures
from valuerepair.runs.options import MineOptions
from valuerepair.runs.summary import MineSummary
from valuerepair.screening import ladder
from valuerepair.screening.model import parse_screen
from valuerepair.screening.recall import figures, one_line
from valuerepair.store.screening import passages, screens
from valuerepair.store.store import Store

ARCHIVE = Path(__file__).parents[1] / "data" / "games.pgn.zst"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 90)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def fix(patch: pytest.MonkeyPatch) -> None:
    """Fits give one screen always, at once."""
    patch.setattr(ladder, "enough", lambda data, threshold: True)
    patch.setattr(
        ladder,
        "fit_screen",
        lambda data, question, recall, price: replace(
            fixed_screen(), threshold=question.threshold, recall=recall, alpha=question.alpha
        ),
    )


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    fix(monkeypatch)


OPTIONS = options_for(ladder_options())


@dataclass(frozen=True)
class Climbed:
    """A whole run: its store, which tests copy before they write to it, and what the run said."""

    db: Path
    oracle: ClimbingOracle
    said: list[str]
    summary: MineSummary

    def copied(self, db: Path) -> MineSummary:
        shutil.copy(self.db, db)
        return self.summary


def climbed(archive: Path, db: Path, *, fails: bool = True) -> Climbed:
    oracle, remarks = ClimbingOracle(fails=fails), list[str]()
    return Climbed(db, oracle, remarks, climb_by_key(archive, db, OPTIONS, oracle, remarks))


@pytest.fixture(scope="module")
def whole(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Climbed:
    return climbed(archive, tmp_path_factory.mktemp("whole") / "a.db")


@pytest.fixture(scope="module")
def whole_fixed(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Climbed:
    """By the screen that every fit gives; without failures, which a rerun would try again."""
    with pytest.MonkeyPatch.context() as patch:
        fix(patch)
        return climbed(archive, tmp_path_factory.mktemp("fixed") / "a.db", fails=False)


def keys(db: Path, where: str) -> set[int]:
    connection = sqlite3.connect(db)
    key_rows = connection.execute(f"SELECT key FROM positions WHERE id IN (SELECT position_id FROM {where})").fetchall()
    connection.close()
    return {key % 2**64 for (key,) in key_rows}


def test_every_position_is_scored_or_cut_or_has_failed(whole: Climbed) -> None:
    db, oracle, remarks, summary = whole.db, whole.oracle, whole.said, whole.summary
    assert summary.state == "finished"
    assert summary.scored + summary.cut + summary.failed == summary.sampled > 330
    full, cut = keys(db, "deep_values WHERE stage = 'full'"), keys(db, "screened WHERE NOT searched")
    failed = keys(db, "failures")
    assert (len(full), len(cut), len(failed)) == (summary.scored, summary.cut, summary.failed)
    assert len(full | cut | failed) == summary.sampled
    assert all(key % FAILS_EVERY == 0 for key in failed)
    assert len(cut) > 0.3 * summary.sampled
    # Nothing was searched twice, nor deeper than the ladder let it.
    assert all(len(tops) == 1 for tops in oracle.tops.values())
    assert full == {key for key, (top,) in oracle.tops.items() if top == NODES and key not in failed}
    assert any(f"{summary.cut} cut by screening" in line for line in summary.lines())
    # One line for the ladder, at the end; -v has its fits.
    (of_ladder,) = (line for line in [*remarks, *summary.lines()] if line.startswith("screening: "))
    assert of_ladder.startswith("screening: 1/")
    assert "recall" in of_ladder
    # Nothing leaves before it was searched, nor where the last search is over the threshold.
    connection = sqlite3.connect(db)
    query = """
        SELECT s.cut_at, p.key, v.cp FROM screened s JOIN positions p ON p.id = s.position_id
        LEFT JOIN deep_values v ON v.position_id = p.id AND v.stage = s.cut_at WHERE s.cut_at IS NOT NULL
    """
    left = connection.execute(query).fetchall()
    connection.close()
    assert {at for at, _, _ in left} <= set(RUNGS)
    assert all(abs(q_of_net(key % 2**64) - np.tanh(cp / (2 * ALPHA))) < THRESHOLD for _, key, cp in left)
    # Most of what it found is all there is.
    sampled = keys(db, "screened")
    true = {key for key in sampled if abs(q_of_net(key) - true_q(key)) >= THRESHOLD + 0.01}
    assert len(true & full) >= 0.8 * len(true) > 10


@pytest.mark.slow
def test_the_store_is_the_same_whatever_the_speed(archive: Path, whole: Climbed, db: Path) -> None:
    assert whole.oracle.workers not in (1, 5)
    for workers, delay in ((1, 0.0), (5, 0.004)):
        climb_by_key(archive, db, OPTIONS, ClimbingOracle(workers, delay))
        assert dump(db) == dump(whole.db)
        db.unlink()
    assert len(dump(whole.db)["screens"]) >= 3


@pytest.mark.parametrize("limits", [(30, 64, 96), (200,)])
def test_a_run_that_was_stopped_and_goes_on_ends_as_one_that_was_not(
    archive: Path, whole: Climbed, db: Path, limits: tuple[int, ...]
) -> None:
    for limit in limits:
        state = climb_by_key(archive, db, options_for(ladder_options(), limit=limit)).state
        assert state == "limited"
    climb_by_key(archive, db, OPTIONS)
    assert dump(db) == dump(whole.db)


@pytest.mark.parametrize("is_merged", [False, True])
def test_the_same_command_again_does_nothing(
    archive: Path, db: Path, fixed: None, whole_fixed: Climbed, is_merged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor where two shards began with the same ladder and were merged: their screens differ in nothing but the time."""
    first = whole_fixed.copied(db)
    if is_merged:
        with closing(sqlite3.connect(db)) as connection:
            columns = "net_id, oracle_id, threshold, alpha, alpha_given, q_from, recall, model"
            connection.execute(f"INSERT INTO screens ({columns}, fitted) SELECT {columns}, 'later' FROM screens")
            (later,) = connection.execute("SELECT max(id) FROM screens").fetchone()
            connection.execute(f"UPDATE screened SET screen_id = {later} WHERE position_id % 2 AND screen_id NOTNULL")
            connection.commit()
    before, oracle = dump(db), ClimbingOracle()
    with caplog.at_level(logging.INFO, "valuerepair"):
        again = climb_by_key(archive, db, OPTIONS, oracle)
    done = f"{first.scored:,} of {first.sampled:,} already scored, {first.cut:,} cut by screening"
    assert caplog.messages == [f"this run is complete; looking for new positions: {done}"]
    assert oracle.tops == {}
    assert dump(db) == before
    assert (again.scored, again.cut) == (first.scored, first.cut)
    assert astuple(again.candidates) == pytest.approx(astuple(first.candidates))  # sums in another order


class OtherNet(ShiftedNet):
    """Another net, whose Q is a part of that."""

    identity = replace(ShiftedNet.identity, name="other-net", sha256="cd" * 32)

    def evaluate(self, batch: PositionBatch) -> NetValues:
        found = super().evaluate(batch)
        return NetValues(found.q * np.float32(0.8), *(getattr(found, name) for name in found.__slots__[1:]))


@pytest.mark.slow
def test_the_ladder_of_a_second_net_has_the_audits_that_its_probabilities_promise(
    archive: Path, db: Path, fixed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the first ladder cut, by the same seed; and whether the run is stopped or not."""
    monkeypatch.setattr(ladder, "FIRST_FIT", 10)
    options = partial(options_for, ladder_options(audit=0.3), sample=SampleOptions(per_game=12))
    climb_by_key(archive, db, options())
    stopped = db.with_name("stopped.db")
    shutil.copy(db, stopped)
    climb_by_key(archive, db, options(), net=OtherNet())
    with Store.open(db) as store:
        first, second = (passages(store, net, 1) for net in (1, 2))
    cut = {p.position_id for p in first if not p.searched}
    judged_again = [p for p in second if p.cut_at is not None and p.position_id in cut]
    p = np.array([p.probability for p in judged_again])
    assert len(judged_again) > 100
    assert sum(p.searched for p in judged_again) == pytest.approx(p.sum(), abs=3 * np.sqrt((p * (1 - p)).sum()))
    for limit in (40, None):
        climb_by_key(archive, stopped, options(limit=limit), net=OtherNet())
    assert dump(stopped) == dump(db)


def test_the_last_line_has_the_interval_of_vr_stats(archive: Path, db: Path, whole: Climbed) -> None:
    """Also where a run goes on in which all that the ladder would have cut was searched: these are like what it cut."""
    climb_by_key(archive, db, options_for(ladder_options(audit=1.0), limit=200))
    for summary, path in ((whole.summary, whole.db), (climb_by_key(archive, db, OPTIONS), db)):
        assert_rate_is_that_of_stats(summary, path)


def assert_rate_is_that_of_stats(summary: MineSummary, db: Path) -> None:
    with Store.open(db) as store:
        scored = store_figures(store, Question(threshold=THRESHOLD, alpha=ALPHA))["scored"]
    (row,) = (row for row in scored["by_threshold"] if row["threshold"] == THRESHOLD)
    rate = summary.candidates
    assert (rate.count, rate.total, rate.few_drawn) == (row["candidates"], row["scored"], row["few_drawn"])
    assert (rate.rate, rate.low, rate.high) == pytest.approx((row["rate"], row["low"], row["high"]), rel=1e-9)


def test_an_audit_of_all_searches_all(archive: Path, db: Path, fixed: None) -> None:
    summary = climb_by_key(archive, db, options_for(ladder_options(audit=1.0)))
    assert (summary.cut, summary.scored + summary.failed) == (0, summary.sampled)
    with Store.open(db) as store:
        assert (store.frame(Question(alpha=ALPHA))["weight"] == 1).all()
        assert any(p.cut_at is not None for p in passages(store, 1, 1))


def weights(db: Path) -> set[float]:
    with Store.open(db) as store:
        return set(store.frame(Question(alpha=ALPHA))["weight"].tolist())


def test_screen_off_searches_what_was_cut_and_nothing_weighs_more(
    archive: Path, db: Path, fixed: None, whole_fixed: Climbed
) -> None:
    first = whole_fixed.copied(db)
    assert first.cut > 0
    assert max(weights(db)) > 1
    oracle = ClimbingOracle(fails=False)
    after = climb_by_key(archive, db, options_for(None), oracle)
    assert len(oracle.tops) == first.cut
    assert (after.cut, after.scored + after.failed) == (0, after.sampled)
    assert weights(db) == {1.0}
    assert after.candidates.rate == after.candidates.count / after.scored
    # The ladder finds nothing to do after that.
    again = climb_by_key(archive, db, OPTIONS, oracle := ClimbingOracle(fails=False))
    assert (again.cut, oracle.tops) == (0, {})


def test_until_all_that_was_cut_is_searched_audits_stand_for_the_rest(
    archive: Path, db: Path, fixed: None, whole_fixed: Climbed
) -> None:
    """Weights add up to all positions at every stop; a third of what was cut is searched at a time."""
    first = whole_fixed.copied(db)
    for stop in range(1, 3):
        stopped = climb_by_key(archive, db, options_for(None, limit=first.cut // 3), ClimbingOracle(fails=False))
        assert stopped.state == "limited"
        with Store.open(db) as store:
            weight = store.frame(Question(alpha=ALPHA))["weight"]
        still_cut = first.cut - stop * (first.cut // 3)
        assert weight.sum() == pytest.approx(len(weight) + still_cut)
    assert stopped.candidates.rate < stopped.candidates.count / stopped.candidates.total
    assert_rate_is_that_of_stats(stopped, db)  # by now the run has met all positions
    assert climb_by_key(archive, db, options_for(None), ClimbingOracle(fails=False)).state == "finished"
    assert weights(db) == {1.0}


def changed(options: MineOptions, **changes: Any) -> MineOptions:
    """The options with some replaced, those of the question in it."""
    of_question = {name: value for name, value in changes.items() if name in NAMES}
    others = {name: value for name, value in changes.items() if name not in NAMES}
    return replace(options, question=replace(options.question, **of_question), **others)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"threshold": 0.3}, "threshold 0.5, alpha 200, recall 0.9; this run is for threshold 0.3, alpha 200"),
        ({"alpha": 300.0}, "alpha 200, recall 0.9; this run is for threshold 0.5, alpha 300"),
        ({"alpha": None}, "alpha 200, recall 0.9; this run is for threshold 0.5, alpha auto"),
        ({"screen": ladder_options(recall=0.99)}, "recall 0.9; this run is for threshold 0.5, alpha 200, recall 0.99"),
        ({"screen": ladder_options(rungs=(10, 200))}, "recall 0.9, rungs 10,100; this run is for threshold 0.5"),
    ],
    ids=["threshold", "alpha", "auto", "recall", "rungs"],
)  # fmt: skip
def test_another_ladder_says_so_and_judges_again(
    archive: Path, db: Path, fixed: None, whole_fixed: Climbed, changes: dict[str, Any], told: str
) -> None:
    first = whole_fixed.copied(db)
    with Store.open(db) as store:
        last = max(facts.id for facts in screens(store, 1, 1))
    remarks, oracle = list[str](), ClimbingOracle()
    second = climb_by_key(archive, db, changed(OPTIONS, **changes), oracle, remarks)
    lines = [line for line in remarks if "the store's ladder is for" in line]
    assert len(lines) == 1
    assert told in lines[0]
    assert lines[0].endswith("it fits a new one; positions that the old one cut will be judged again")
    assert 0 < len(oracle.tops) <= first.cut
    assert second.scored + second.cut + second.failed == second.sampled == first.sampled
    with Store.open(db) as store:
        passed = passages(store, 1, 1)
        newest = max(p.screen_id or 0 for p in passed)
        assert all((p.screen_id or 0) > last for p in passed if not p.searched)
        again = [p for p in passed if (p.screen_id or 0) == newest and p.cut_at is not None]
        assert any(p.searched for p in again) or len(again) < 40


@pytest.mark.parametrize(("factor", "anew"), [(0.6, True), (1.04, False)])
def test_what_was_cut_by_another_alpha_than_the_saved_one_is_judged_again(
    archive: Path, db: Path, fixed: None, factor: float, anew: bool
) -> None:
    """As after ``vr stats --save-alpha results``: a ladder for flatter Q has cut what is a candidate now."""
    auto, oracle, remarks = changed(OPTIONS, alpha=None), ClimbingOracle(fails=False), list[str]()
    first = climb_by_key(archive, db, auto, ClimbingOracle(fails=False))
    with Store.open(db, write=True) as store:
        alpha = factor * screens(store, 1, 1)[0].alpha
        store.set_alpha(1, 1, AlphaFit(alpha, alpha, alpha, "results", 400, 0.1))
    second = climb_by_key(archive, db, auto, oracle, remarks)
    lines = [line for line in remarks if "the store's ladder is for" in line]
    assert (bool(oracle.tops), len(lines)) == (anew, int(anew))
    if anew:
        assert f"this run is for threshold 0.5, alpha {alpha:g}" in lines[0]
        assert second.candidates.count > first.candidates.count
    climb_by_key(archive, db, auto, settled := ClimbingOracle(fails=False))
    assert not settled.tops


def test_what_was_cut_and_searched_since_counts_as_cut(archive: Path, db: Path, fixed: None) -> None:
    """The whole searches say what the ladder missed; positions that were never on it play no part."""
    summary = climb_by_key(archive, db, OPTIONS)
    question = Question(threshold=THRESHOLD, alpha=ALPHA)
    with Store.open(db) as store:
        before = figures(store, 1, 1, store.frame(question), THRESHOLD)
        cut = {p.position_id for p in passages(store, 1, 1) if not p.searched}
    more = replace(OPTIONS.sample, per_game=(OPTIONS.sample.per_game or 0) + 4)
    climb_by_key(archive, db, replace(OPTIONS, sample=more, screen=None))
    with Store.open(db) as store:
        frame = store.frame(question)
        after = figures(store, 1, 1, frame, THRESHOLD)
    assert before is not None
    assert after is not None
    searched = cut & set(frame.loc[frame["disagreement"].notna(), "position_id"])
    missed = cut & set(frame.loc[frame["disagreement"].abs() >= THRESHOLD, "position_id"])
    assert len(frame) > summary.sampled > len(cut) > len(missed) > 0
    assert (after["cut"], after["searched_since"], after["since_hits"]) == (0, len(searched), len(missed))
    assert (before["searched_since"], before["found"]) == (0, after["found"])
    assert after["recall"] == after["found"] / (after["found"] + len(missed))
    assert after["saving"] == pytest.approx(before["saving"], rel=0.05)
    recall_words = f"recall {100 * after['recall']:.1f} %, by searching all cut positions"
    assert (
        f"{recall_words}: {len(searched)} were cut and searched since: {len(missed)} of them are candidates"
        in one_line(after)
    )


# -- rates ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_another_threshold_leaves_rates_unbiased(archive: Path, tmp_path: Path, fixed: None) -> None:
    """A ladder for 0.5, then one for 0.3 on the same positions: rates at 0.3 are those of all."""
    off = []
    for seed in range(5):
        db = tmp_path / f"{seed}.db"
        sample = SampleOptions(per_game=4, seed=seed)
        for threshold in (0.5, 0.3):
            climb_by_key(
                archive,
                db,
                replace(OPTIONS, sample=sample, question=Question(threshold=threshold)),
                ClimbingOracle(fails=False),
            )
        off.append(_off(db, 0.3))
    assert abs(np.mean(off)) < 3 * max(float(np.std(off, ddof=1)), 0.005) / np.sqrt(len(off))


def _off(db: Path, threshold: float) -> float:
    """How far the weighted rate is from that of all positions sampled."""
    with Store.open(db) as store:
        frame = store.frame(Question(alpha=ALPHA))
    every = keys(db, "screened") | set(frame["key"].tolist())
    truth = np.mean([abs(q_of_net(key) - np.tanh(_cp(key) / (2 * ALPHA))) >= threshold for key in every])
    hits = frame["disagreement"].abs() >= threshold
    return float((hits * frame["weight"]).sum() / frame["weight"].sum() - truth)


def _cp(key: int) -> int:
    return round(2 * ALPHA * float(np.arctanh(true_q(key))))


@pytest.mark.slow
def test_weighted_rates_are_unbiased_and_recall_is_within_its_interval(
    archive: Path, tmp_path: Path, fixed: None
) -> None:
    """Over many samples, also at a threshold far below that which the ladder is for: most of it is cut there."""
    off: dict[float, list[float]] = {0.5: [], 0.2: []}
    held = []
    for seed in range(40):
        db = tmp_path / f"{seed}.db"
        sample = SampleOptions(per_game=4, seed=seed)
        climb_by_key(archive, db, replace(OPTIONS, sample=sample), ClimbingOracle(fails=False))
        for threshold, differences in off.items():
            differences.append(_off(db, threshold))
        with Store.open(db) as store:
            frame = store.frame(Question(alpha=ALPHA))
            section = figures(store, 1, 1, frame, 0.2)
        assert section is not None
        every = keys(db, "screened")
        true = sum(abs(q_of_net(key) - np.tanh(_cp(key) / (2 * ALPHA))) >= 0.2 for key in every)
        held.append(section["recall_low"] <= section["found"] / true <= section["recall_high"])
    for differences in off.values():
        assert abs(np.mean(differences)) < 3 * max(float(np.std(differences, ddof=1)), 0.002) / np.sqrt(
            len(differences)
        )
    assert np.mean(held) >= 0.85


# -- command line -----------------------------------------------------------------------------------------------------


def vr(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--screen", "auto,recall=1"), "--screen recall=1: give a share from 0.5 to below 1"),
        (("--screen", "auto,recall=0.2"), "--screen recall=0.2: give a share from 0.5 to below 1"),
        (("--screen", "auto,recall=nan"), "--screen recall=nan: give a share"),
        (("--screen", "auto,audit=2"), "--screen audit=2: give a share from 0 to 1"),
        (("--screen", "auto,audit=-0.1"), "--screen audit=-0.1: give a share from 0 to 1"),
        (("--screen", "5000,100"), "--screen 5000,100: give ascending numbers of nodes"),
        (("--screen", "100,100"), "--screen 100,100: give ascending numbers of nodes"),
        (("--screen", "0,100"), "--screen 0,100: give ascending numbers of nodes"),
        (("--screen", "some"), "--screen some: give auto, off, or nodes of the rungs"),
        (("--screen", "auto,price=3"), "--screen auto,price=3: give auto, off, or nodes of the rungs"),
        (("--screen", "5000,"), "--screen 5000,: give auto, off, or nodes of the rungs"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(db: Path, given: tuple[str, ...], message: str) -> None:
    done = vr("mine", ARCHIVE, "--db", db, *given)
    assert message in str(done.exception)
    assert not db.exists()


def test_off_needs_nothing_and_auto_is_the_default() -> None:
    assert parse_screen("off") is None
    chosen = parse_screen("auto")
    assert chosen is not None
    assert chosen.rungs is None
    assert parse_screen("5,10,recall=0.9,audit=0.1") == ladder_options(rungs=(5, 10), audit=0.1)


@pytest.fixture
def net(shared_data: Path) -> Path:
    return shared_data / "nets" / "maia-1900.pb.gz"


def test_rungs_that_the_oracle_has_no_use_for(db: Path, net: Path, stockfish: str) -> None:
    for deep, message in (
        ("stockfish:nodes=4000", "--screen: rungs must be below the 4,000 nodes of the full search"),
        ("stockfish:depth=3", "--screen with rungs: the deep search is not limited by nodes alone"),
    ):
        done = vr("mine", ARCHIVE, "--db", db, "--net", net, "--deep", deep, "--screen", "1000,4000", "-q")
        assert message in str(done.exception)


def test_a_search_without_nodes_is_not_screened(db: Path, net: Path, stockfish: str) -> None:
    done = vr("mine", ARCHIVE, "--db", db, "--net", net, "--deep", "stockfish:depth=2", "--positions", "10")
    assert done.exception is None
    assert "screening is off: it needs a deep search that is limited by nodes alone" in done.stderr
    with Store.open(db) as store:
        assert passages(store, 1, 1) == []


def test_a_real_run_is_screened_and_vr_stats_says_so(db: Path, net: Path, stockfish: str) -> None:
    words = ("--db", db, "--net", net, "--deep", "stockfish:nodes=4000", "--positions", "150", "--seed", "3")
    done = vr("mine", ARCHIVE, *words, "--threshold", "0.3", "--screen", "auto,recall=0.8", "-v")
    assert done.exception is None, done.stderr
    assert "screening: begins with the package's own positions; expected: 1/" in done.stderr
    assert re.search(r"screening: fitted on \d+ positions searched in full \(\d+ candidates at 0.3", done.stderr)
    printed = vr("stats", "--db", db, "--threshold", "0.3").stdout
    assert "screening of 150 positions" in printed
    scored = json.loads(vr("stats", "--db", db, "--threshold", "0.3", "--json").stdout)["scored"]
    screening = scored["screening"]
    assert screening["positions"] == 150
    assert screening["cut"] == sum(left["positions"] for left in screening["left_at"]) == 150 - scored["positions"]
    with Store.open(db) as store:
        stages = {stage for (stage,) in store.connection.execute("SELECT DISTINCT stage FROM deep_values")}
        whole = store.frame()["nodes"]
    assert stages == {"20", "40", "80", "200", "400", "800", "2000", "full"}
    assert (whole >= 3500).mean() > 0.9
