"""Finding positions like one: the search against sorting everything, the words a user types, bad input."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from tests.asked import with_question
from tests.expanded_store import expanded_store, off_of
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge import neighbours
from valuerepair.judge.material import material_signature
from valuerepair.judge.neighbours import Similar, distances, find_similar, shapes
from valuerepair.question import Question
from valuerepair.store.store import Store

ENDING = "8/5pk1/6p1/8/8/1P4P1/5PK1/8 w - - 0 1"


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("similar")
    mine_by_key(random_games(folder / "random.pgn", 80, plies=160), folder / "mined.db")
    return folder / "mined.db"


@pytest.fixture
def db(mined: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(mined, tmp_path / "valuerepair.db"))


def similar(db: Path, words: str, **options: Any) -> Similar:
    with Store.open(db) as store:
        return find_similar(store, words, **with_question(**options))


def stored(db: Path) -> pd.DataFrame:
    with Store.open(db) as store:
        return pd.read_sql_query("SELECT id, fen FROM positions ORDER BY id", store.connection)


def sorted_by_hand(rows: pd.DataFrame, fen: str) -> pd.DataFrame:
    """Everything by distance, other pieces, id, without the position itself."""
    far = distances(shapes([fen]), shapes(rows["fen"].tolist()))
    table = rows.assign(distance=far.total, pieces=far.pieces)
    other = keys(parse_fens(rows["fen"].tolist())) != keys(parse_fens([fen]))[0]
    ordered: pd.DataFrame = table[other].sort_values(["distance", "pieces", "id"])
    return ordered


@pytest.mark.parametrize(("limit", "chunk"), [(1, 32_768), (5, 50), (60, 32_768), (10_000, 50)])
def test_it_finds_what_sorting_everything_finds(
    db: Path, monkeypatch: pytest.MonkeyPatch, limit: int, chunk: int
) -> None:
    monkeypatch.setattr(neighbours, "CHUNK_ROWS", chunk)
    rows = stored(db)
    for fen in (STARTPOS_FEN, ENDING, rows["fen"][17], "4k3/8/8/8/8/8/8/QQQQKQQQ w - - 0 1"):
        expected = sorted_by_hand(rows, fen).head(limit)
        found = similar(db, fen, limit=limit)
        assert [near.position.position_id for near in found.neighbours] == expected["id"].tolist()
        assert [near.distance for near in found.neighbours] == expected["distance"].tolist()
        assert all(near.distance == near.material + near.pawns + near.kings for near in found.neighbours)


def test_values_are_those_of_the_frame(db: Path) -> None:
    found = similar(db, ENDING, limit=400, alpha=200.0)
    with Store.open(db) as store:
        frame = store.frame(Question(alpha=200.0)).set_index("position_id")
    scored = 0
    for near in found.neighbours:
        one = near.position
        assert material_signature(one.fen) in one.labels(0.55)
        if one.position_id not in frame.index:  # the stand-in fails on some
            assert np.isnan(one.disagreement)
            assert "optimistic" not in one.labels(0.001)
            continue
        row, scored = frame.loc[one.position_id], scored + 1
        assert (one.fen, one.phase, one.ply) == (row["fen"], row["phase"], row["ply"])
        assert (one.net_q, one.deep_q) == pytest.approx((row["net_q"], row["deep_q"]))
        assert one.disagreement == pytest.approx(row["disagreement"])
        assert one.net_best == row["net_best"]
        assert one.deep_best == (row["deep_best"] if isinstance(row["deep_best"], str) else None)
    assert scored == len(frame) > 250


def test_a_calibrated_difference_stands_beside_the_q_that_it_is_of(db: Path) -> None:
    """The frame's calibrated_q: beside net Q alone the columns did not add up."""
    with Store.open(db) as store:
        frame = store.frame(Question(alpha=200.0, calibration="fitted")).set_index("position_id")
    number = str(frame.index[0])
    found = similar(db, number, limit=20, alpha=200.0, calibration="fitted")
    data = found.as_json()
    scored = [row for row in [data["query"], *data["neighbours"]] if row["disagreement"] is not None]
    assert len(scored) > 5
    for row in scored:
        calibrated = frame.loc[row["position_id"], "calibrated_q"]
        assert row["calibrated_q"] == pytest.approx(calibrated)
        assert row["disagreement"] == pytest.approx(calibrated - row["deep_q"])
    for row, line in zip(data["neighbours"], found.lines()[-21:], strict=False):
        assert str(row["position_id"]) in line
        assert row["disagreement"] is None or f"{row['calibrated_q']:+.3f}" in line.split()
    assert f", calibrated {data['query']['calibrated_q']:+.3f}, deep Q" in found.lines()[1]
    assert "calibrated_q" not in similar(db, number, alpha=200.0).as_json()["query"]


def test_candidates_only(db: Path) -> None:
    with Store.open(db) as store:
        wrong = store.candidates(Question(threshold=0.8, alpha=200.0))
    found = similar(db, ENDING, limit=20, threshold=0.8, candidates_only=True, alpha=200.0)
    rows = wrong[["position_id", "fen"]].rename(columns={"position_id": "id"})
    expected = sorted_by_hand(rows, ENDING).head(20)
    assert found.searched == len(wrong)
    assert [near.position.position_id for near in found.neighbours] == expected["id"].tolist()
    assert all(abs(near.position.disagreement) >= 0.8 for near in found.neighbours)


def test_candidates_that_were_reached_or_stand_beside_games_are_found_too(tmp_path: Path) -> None:
    """Against the tables: of several values of a position the full search counts first, then that of vr expand."""
    db = expanded_store(tmp_path)
    with Store.open(db, write=True) as store, store.writing() as connection:
        connection.execute("UPDATE positions SET kind = 'aside' WHERE kind = 'game' AND id % 3 = 0")
        values = connection.execute(
            """SELECT position_id, n.q, v.cp, v.mate, v.stage FROM deep_values v JOIN net_values n USING (position_id)
            WHERE v.stage IN ('full', 'expanded', 'inferred')
            ORDER BY position_id, v.stage = 'full' DESC, v.stage = 'expanded' DESC"""
        ).fetchall()
    by_id: dict[int, tuple[float, str]] = {}
    for number, net_q, cp, mate, stage in values:
        cp, mate = (np.nan if score is None else score for score in (cp, mate))
        by_id.setdefault(number, (off_of(net_q, cp, mate, 170.0), stage))
    wrong = {number: stage for number, (off, stage) in by_id.items() if off >= 0.55}
    assert set(wrong.values()) == {"full", "expanded", "inferred"}
    candidates = similar(db, ENDING, limit=10_000, alpha=170.0, candidates_only=True)
    stages = {near.position.position_id: near.position.inferred for near in candidates.neighbours}
    assert stages == {number: stage == "inferred" for number, stage in wrong.items()}
    every = similar(db, ENDING, limit=10_000, alpha=170.0)
    searched = [number for number, (_, stage) in by_id.items() if stage != "inferred"]
    *_, of_searched, of_inferred = lines = every.lines()
    count = len(set(searched) & set(wrong))
    assert of_searched.startswith(f"{count} of {len(searched)} scored are candidates at 0.55; ")
    guessed = list(wrong.values()).count("inferred")
    assert of_inferred == f"by inferred values: {guessed} of {len(by_id) - len(searched)}"
    for near in every.neighbours:
        (line,) = (line for line in lines if f" {near.position.fen} " in line)
        assert near.position.inferred == (", inferred deep Q" in line)


def test_a_position_by_number_by_fen_and_with_colours_exchanged(db: Path) -> None:
    rows = stored(db)
    number, fen = int(rows["id"][30]), rows["fen"][30]
    by_number = similar(db, str(number))
    assert by_number.query is not None
    assert (by_number.query.position_id, by_number.query.fen) == (number, fen)
    assert number not in [near.position.position_id for near in by_number.neighbours]
    assert similar(db, fen).as_json() == by_number.as_json()
    board = chess.Board(fen)
    epd = similar(db, board.epd() + ' id "x"; hmvc 7;')
    assert epd.as_json()["neighbours"] == by_number.as_json()["neighbours"]
    exchanged = similar(db, board.mirror().fen())
    assert exchanged.neighbours[0].distance == 0  # the position itself, which is another one on the board
    assert exchanged.neighbours[0].position.position_id == number


def test_values_without_a_policy_and_positions_without_values(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE net_values SET best_move = NULL, best_p = NULL, entropy = NULL")
        store.commit()
    assert {near.position.net_best for near in similar(db, ENDING).neighbours} == {None}
    with Store.open(db, write=True) as store:
        store.connection.execute("DELETE FROM net_values")
        store.connection.execute("DELETE FROM deep_values")
        store.commit()
    found = similar(db, ENDING)
    assert found.scale is None
    assert len(found.neighbours) == 10
    assert all(np.isnan(near.position.disagreement) for near in found.neighbours)
    json.dumps(found.as_json(), allow_nan=False)
    with pytest.raises(ValueRepairError, match="is scored"):
        similar(db, ENDING, candidates_only=True)


# -- the command ------------------------------------------------------------------------------------------------------


def vr(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_table_and_json(db: Path) -> None:
    said = vr("similar", *ENDING.split(), "--db", str(db), "--limit", "4")
    data = json.loads(vr("similar", ENDING, "--db", str(db), "--limit", "4", "--json"))
    assert (data["fen"], len(data["neighbours"]), data["alpha"]["value"]) == (ENDING, 4, 170)
    assert said.splitlines()[0] == f"like {ENDING}"
    for row in data["neighbours"]:
        (line,) = [line for line in said.splitlines() if row["fen"] in line]
        assert line.split()[0] == f"{row['distance']:.1f}"
        assert all(label in line for label in row["labels"])
        if row["disagreement"] is not None:
            assert f"{row['disagreement']:+.3f}" in line
    assert "candidates at 0.55" in said.splitlines()[-1]
    number = data["neighbours"][0]["position_id"]
    assert f"position {number} of the store" in vr("similar", str(number), "--db", str(db))


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["nonsense"], "position 'nonsense': a FEN has at least four fields", 2),
        (["8/8/8/8/8/8/8/8 w - - 0 1"], "not a legal position", 2),
        (["rnbqkbnr/pppppppp/9/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"], "invalid character", 2),
        (["99999999"], "no position 99999999 in", 1),
        ([ENDING, "--limit", "0"], "--limit 0: must be at least 1", 2),
        ([ENDING, "--net", "nosuch"], "no net nosuch in", 1),
        ([ENDING, "--candidates-only", "--threshold", "2"], "the largest disagreement is 1.", 1),
        ([ENDING, "--db", "none.db"], "there is no store at none.db", 1),
    ],
)
def test_bad_input(db: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str, code: int) -> None:
    monkeypatch.chdir(db.parent)
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, ["similar", *arguments], catch_exceptions=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == code


def test_an_empty_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "empty.db", create=True) as store:
        with pytest.raises(ValueRepairError, match="has no positions yet; run vr mine first"):
            find_similar(store, ENDING, Question())
        with pytest.raises(ValueRepairError, match="no position 5 in"):
            find_similar(store, "5", Question())
        with pytest.raises(UsageError, match="--limit"):
            find_similar(store, ENDING, Question(), 0)


@pytest.mark.slow
def test_a_million_positions_take_seconds(db: Path) -> None:
    """By processor time: the machine may be busy."""
    with Store.open(db, write=True) as store:
        (count,) = store.connection.execute("SELECT max(id) FROM positions").fetchone()
        for copy in range(1, 1_000_000 // count + 1):
            store.connection.execute(
                "INSERT INTO positions SELECT id + ?, key + ?, fen, start_fen, moves, history_known, ply, side, phase, "
                "pieces, game_id, played, eval_cp, eval_mate, run_id, kind FROM positions WHERE id <= ?",
                (copy * count, copy, count),
            )
        store.commit()
    similar(db, ENDING)
    began = time.process_time()
    found = similar(db, ENDING)
    assert found.searched > 990_000
    assert time.process_time() - began < 10
