"""Positions that were reached from candidates: which questions take them in, and what rests on sampled ones alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from tests.mining_doubles import mine_by_key, random_games
from valuerepair.errors import UsageError
from valuerepair.question import Expanded, Question
from valuerepair.report.stats import store_figures
from valuerepair.store.check import integrity_checks
from valuerepair.store.merge import merge
from valuerepair.store.store import Store

SEARCHED, INFERRED, BOTH = range(100, 120), range(120, 150), range(150, 155)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of which some positions are made ones that were reached from the first one, by the line's step."""
    folder = tmp_path_factory.mktemp("expanded")
    db = folder / "a.db"
    mine_by_key(random_games(folder / "random.pgn", 240), db)
    with Store.open(db, write=True) as store, store.writing() as connection:
        places = ",".join("?" * len(SEARCHED))
        connection.execute(f"UPDATE deep_values SET stage = 'expanded' WHERE position_id IN ({places})", [*SEARCHED])
        for number in (*INFERRED, *BOTH):
            connection.execute("UPDATE deep_values SET stage = 'inferred', nodes = 0 WHERE position_id = ?", (number,))
        for number in BOTH:
            connection.execute(
                "INSERT INTO deep_values SELECT oracle_id, 'expanded', position_id, cp + 1000, NULL, NULL, NULL, NULL, "
                "NULL, depth, seldepth, 77, time_ms, best_move, pv, run_id FROM deep_values "
                "WHERE position_id = ? AND cp NOT NULL",
                (number,),
            )
        query = "SELECT count(*) FROM deep_values WHERE position_id = ? AND stage = 'expanded'"
        for number in (*SEARCHED, *INFERRED, *BOTH):
            (searched,) = connection.execute(query, (number,)).fetchone()
            connection.execute(
                "INSERT INTO expanded VALUES (1, 1, ?, 1, 2, 'line', 3, 1, 0, NULL, NULL, NULL, 0, ?, 1, 1)",
                (number, searched),
            )
    return db


def ids(frame: pd.DataFrame) -> set[int]:
    return set(frame["position_id"])


def test_each_question_takes_in_what_it_says(path: Path) -> None:
    with Store.open(path) as store:
        frames = {choice: store.frame(Question(expanded=choice)) for choice in get_args(Expanded)}
        by_stage = {
            stage: {row[0] for row in store.connection.execute(query, (stage,))}
            for stage in ("full", "expanded", "inferred")
            for query in (
                "SELECT v.position_id FROM deep_values v JOIN net_values n USING (position_id) WHERE stage = ?",
            )
        }
    assert by_stage["expanded"]
    assert by_stage["inferred"] - by_stage["expanded"]
    assert by_stage["inferred"] & by_stage["expanded"]
    assert ids(frames["no"]) == by_stage["full"]
    assert ids(frames["searched"]) == by_stage["full"] | by_stage["expanded"]
    assert ids(frames["all"]) == by_stage["full"] | by_stage["expanded"] | by_stage["inferred"]
    assert not {"root_id", "step", "inferred"} & set(frames["no"])
    for chosen in ("searched", "all"):
        frame = frames[chosen]
        reached = ~frame["position_id"].isin(by_stage["full"])
        assert (frame.loc[reached, "root_id"] == 1).all()
        assert (frame.loc[reached, "step"] == "line").all()
        assert (frame.loc[~reached, "root_id"] == frame.loc[~reached, "position_id"]).all()
        assert frame.loc[~reached, "step"].isna().all()
        assert set(frame.loc[frame["inferred"], "position_id"]) == (
            by_stage["inferred"] - by_stage["expanded"] if chosen == "all" else set()
        )
    searched_too = frames["all"][frames["all"]["position_id"].isin(by_stage["inferred"] & by_stage["expanded"])]
    assert (searched_too["nodes"] == 77).all()  # the search counts, not what was inferred before it


def test_the_way_of_the_net_that_is_asked_about_counts(path: Path, tmp_path: Path) -> None:
    """Of two others that of the first: recounted row by row."""
    db = Path(shutil.copy(path, tmp_path / "several.db"))
    with Store.open(db, write=True) as store, store.writing() as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(nets)")]
        rest = ", ".join(name for name in columns if name not in ("id", "name", "sha256"))
        for net in (2, 3):
            connection.execute(
                f"INSERT INTO nets (id, name, sha256, {rest}) "
                f"SELECT {net}, 'n{net}', 'n{net}', {rest} FROM nets WHERE id = 1"
            )
            connection.execute(
                "INSERT INTO net_values SELECT ?, position_id, "
                + ", ".join(row[1] for row in connection.execute("PRAGMA table_info(net_values)").fetchall()[2:])
                + " FROM net_values WHERE net_id = 1",
                (net,),
            )
        connection.execute("UPDATE expanded SET net_id = 2, root_id = 2, step = 'child' WHERE position_id < 110")
        for net in (2, 3):
            connection.execute(
                "INSERT INTO expanded SELECT ?, oracle_id, position_id, ?, 2, 'game', 3, 1, 0, NULL, NULL, NULL, 0, 1, "
                "1, 1 FROM expanded WHERE net_id = 1",
                (net, net),
            )
    with Store.open(db) as store:
        rows = store.connection.execute("SELECT position_id, net_id, root_id, step FROM expanded").fetchall()
        for number, name in ((1, store.nets()["name"][0]), (2, "n2"), (3, "n3")):
            ways = {}
            for position, _, root, step in sorted(rows, key=lambda row: (row[1] != number, row[1]), reverse=True):
                ways[position] = root, step
            frame = store.frame(Question(expanded="all", net=name))
            reached = frame[frame["step"].notna()]
            assert set(reached["position_id"]) == ways.keys() & set(frame["position_id"])
            assert {row.position_id: (row.root_id, row.step) for row in reached.itertuples()}.items() <= ways.items()


def test_alpha_rates_and_weights_rest_on_sampled_positions(path: Path) -> None:
    with Store.open(path) as store:
        frames = [store.frame(Question(expanded=choice)) for choice in get_args(Expanded)]
        assert len({frame.attrs["alpha"]["value"] for frame in frames}) == 1
        plain, whole = (store_figures(store, Question(expanded=choice))["scored"] for choice in ("no", "all"))
        assert plain["positions"] == len(frames[0])
        assert whole == plain
    for frame in frames:
        assert (frame["weight"] == 1).all()


def test_candidates_are_those_of_the_frame(path: Path) -> None:
    with Store.open(path) as store:
        for choice in get_args(Expanded):
            question = Question(expanded=choice, threshold=0.8)
            frame, candidates = store.frame(question), store.candidates(question)
            wanted = frame[np.abs(frame["disagreement"]) >= 0.8]
            assert len(wanted)
            pd.testing.assert_frame_equal(
                candidates.sort_values("position_id", ignore_index=True), wanted.reset_index(drop=True), check_like=True
            )


def test_an_archive_that_meets_them_makes_them_sampled_ones(path: Path, tmp_path: Path) -> None:
    db = tmp_path / "b.db"
    shutil.copy(path, db)
    with Store.open(db, write=True) as store:
        before = ids(store.frame(Question(expanded="searched")))
        store.take_over_expanded(np.array([*SEARCHED], np.int64), 1)
        frame = store.frame(Question(expanded="searched"))
        assert ids(frame) == before
        taken = frame[frame["position_id"].isin(SEARCHED)]
        assert len(taken)
        assert taken["step"].isna().all()
        assert (taken["root_id"] == taken["position_id"]).all()


def test_the_store_is_whole_and_merges(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        wrong = [check for check in integrity_checks(store) if check.wrong]
        assert not wrong
        frame = store.frame(Question(expanded="all"))
    merge([str(path)], str(tmp_path / "merged.db"))
    with Store.open(tmp_path / "merged.db") as store:
        assert not [check for check in integrity_checks(store) if check.wrong]
        merged = store.frame(Question(expanded="all"))
        key_of = dict(store.connection.execute("SELECT id, key FROM positions"))
        roots = [key_of[root] for root in merged["root_id"]]
    of_key = dict(zip(merged["key"], zip(roots, merged["step"], merged["inferred"], strict=True), strict=True))
    with Store.open(path) as store:
        keys = dict(store.connection.execute("SELECT id, key FROM positions"))
    assert len(of_key) == len(frame)
    for row in frame.to_dict("records"):
        root, step, inferred = of_key[row["key"]]
        assert (root, step, inferred) == (keys[row["root_id"]], row["step"], row["inferred"])


@pytest.mark.parametrize(
    "change",
    ["step = 'sideways'", "distance = 0", "probability = 0", "drawn = 2", "searched = 1", "chance = 1.5", "nodes = -1"],
)
def test_rows_that_cannot_be_are_found(path: Path, tmp_path: Path, change: str) -> None:
    db = tmp_path / "wrong.db"
    shutil.copy(path, db)
    with Store.open(db, write=True) as store, store.writing() as connection:
        connection.execute(f"UPDATE expanded SET {change} WHERE position_id = {INFERRED[0]}")
    with Store.open(db) as store:
        wrong = [check for check in integrity_checks(store) if check.wrong]
    assert [(check.name.partition(":")[0], check.wrong) for check in wrong] == [("expanded", 1)]


def test_other_words_are_refused() -> None:
    with pytest.raises(UsageError, match="searched"):
        Question(expanded="some")  # type: ignore[arg-type]  # what a caller without types may give
