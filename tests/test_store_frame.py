"""Questions to a store: the frame, candidates, alpha, picking, statistics, phases, rates, exports."""

from __future__ import annotations

import io
import json
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from tests.mining_doubles import KeyNet, KeyOracle, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess import values
from valuerepair.chess.positions import PHASES, Position, boards, phases
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.question import Question
from valuerepair.rates import wilson
from valuerepair.report import stats
from valuerepair.report.stats import store_figures
from valuerepair.runs.options import MineOptions
from valuerepair.store.export import table_of, write_file, write_stream
from valuerepair.store.queries import COLUMNS
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

TRUE_ALPHA = 350.0


def logistic_oracle(**identity: Any) -> KeyOracle:
    """An oracle that sees what the net sees, in centipawns of `TRUE_ALPHA`, but for every eighth position."""
    from tests.mining_doubles import key_q

    def answer(position: Position) -> DeepResult:
        key = position.key
        q = float(key_q(np.array([key], np.uint64))[0]) * 0.98 * (-1 if key % 8 == 0 else 1)
        return DeepResult(cp=round(2 * TRUE_ALPHA * np.arctanh(q)), wdl=(500, 300, 200), depth=5, nodes=1000, time_ms=4)

    oracle = KeyOracle(answer=answer)
    oracle.identity = replace(oracle.identity, **identity)
    return oracle


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 480 positions by a logistic oracle, and 60 of them by another one."""
    folder = tmp_path_factory.mktemp("store")
    archive, db = random_games(folder / "random.pgn", 120), folder / "a.db"
    mine_by_key(archive, db, oracle=logistic_oracle())
    few = MineOptions(sample=SampleOptions(per_game=4), limit=60)
    mine_by_key(archive, db, oracle=logistic_oracle(engine="Other 2.0"), options=few)
    return db


def test_the_columns_and_their_types(path: Path) -> None:
    with Store.open(path) as store:
        frame, numbers = store.frame(), store.frame(text=False)
    assert list(frame.columns) == COLUMNS
    assert set(COLUMNS) - set(numbers.columns) == {
        *(
            "fen",
            "start_fen",
            "moves",
            "white",
            "black",
            "event",
            "date",
            "result",
            "played",
            "net_best",
            "deep_best",
            "pv",
        )
    }
    pd.testing.assert_frame_equal(frame[numbers.columns], numbers)
    assert frame["key"].dtype == np.uint64
    assert frame["key"].is_unique
    assert frame["position_id"].is_monotonic_increasing
    assert frame["history_known"].dtype == np.bool_
    for column in ("cp", "mate", "eval_cp", "net_q", "deep_q", "disagreement"):
        assert frame[column].dtype == np.float64
    assert frame["mate"].isna().all()
    assert not frame["disagreement"].isna().any()


def test_candidates_are_the_frame_filtered_and_sorted(path: Path) -> None:
    with Store.open(path) as store:
        frame, candidates = store.frame(), store.candidates(Question(threshold=0.55))
    expected = frame[frame["disagreement"].abs() >= 0.55]
    expected = expected.iloc[np.argsort(-expected["disagreement"].abs(), kind="stable")].reset_index(drop=True)
    pd.testing.assert_frame_equal(candidates, expected)
    assert 0 < len(candidates) < len(frame)
    assert candidates.attrs == frame.attrs


@pytest.mark.parametrize("threshold", [0.0, -0.5, 2.01, float("nan")])
def test_a_threshold_outside_0_to_2_is_refused(path: Path, threshold: float) -> None:
    with Store.open(path) as store, pytest.raises(UsageError, match="above 0 and is at most 2"):
        store.candidates(Question(threshold=threshold))


def test_alpha_is_given_or_stored_or_fitted_or_the_default(path: Path) -> None:
    with Store.open(path, write=True) as store:
        many, few = store.pick(oracle="key 1.0"), store.pick(oracle="other 2.0")
        assert store.alpha(*many, 222.0) == values.Alpha(222.0, "given")
        fitted = store.alpha(*many)
        scored = store.frame(Question(oracle="key 1.0"))
        columns = (scored[name].to_numpy() for name in ("net_q", "cp", "mate", "weight", "game_id"))
        assert fitted.value == values.fit_alpha(*columns).alpha
        assert fitted.origin == "fitted on 480 positions (slope)"
        assert store.frame().attrs["alpha"] == {"value": fitted.value, "origin": fitted.origin}
        assert store.alpha(*few) == values.Alpha(170.0, "default 170: fewer than 300 scores in centipawns, 60 so far")
        store.set_alpha(*few, values.AlphaFit(333.0, 300.0, 366.0, "results", 60, 0.1))
        assert store.alpha(*few).value == 333.0
        assert store.alpha(*few).origin.startswith("stored fit of 20")
        assert store.alpha(*few).origin.endswith(" on 60 positions (results)")
        assert store.alpha(*many) == fitted
        with pytest.raises(UsageError):
            store.alpha(*few, -3.0)


@pytest.fixture
def unsaved(path: Path, tmp_path: Path) -> Path:
    """The same without a stored fit."""
    copy = Path(shutil.copy(path, tmp_path / "unsaved.db"))
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("DELETE FROM alpha_fits")
    return copy


def test_a_stored_fit_by_distance_counts_no_longer(unsaved: Path) -> None:
    """Version 0.1.0 stored them; a net that learned by one became flatter."""
    with Store.open(unsaved, write=True) as store:
        many = store.pick(oracle="key 1.0")
        fitted = store.alpha(*many)
        store.set_alpha(*many, values.AlphaFit(333.0, 300.0, 366.0, "slope", 480, 0.1))
        assert store.alpha(*many).value == 333
        store.connection.execute("UPDATE alpha_fits SET norm = 'l1'")
        assert store.alpha(*many) == fitted


def test_what_training_does_to_the_scale(unsaved: Path) -> None:
    """By the frame: the slope through 0 of deep Q on net Q, at the alpha that would train."""
    with Store.open(unsaved) as store:
        many, few = store.pick(oracle="key 1.0"), store.pick(oracle="other 2.0")
        for question, by in (
            (Question(alpha=340.0), "alpha 340"),
            (Question(alpha=90.0), "alpha 90"),
            (Question(q_from="wdl"), "the engine's WDL"),
        ):
            scale = store.training_scale(*many, question)
            frame = store.frame(replace(question, oracle="key 1.0")).dropna(subset="deep_q")
            slope = np.polyfit(np.append(frame.net_q, -frame.net_q), np.append(frame.deep_q, -frame.deep_q), 1)[0]
            assert scale is not None
            assert scale.slope.value == pytest.approx(slope)
            assert scale.line().startswith(f"by {by} the net's Q would become {slope:.2f} times as steep (95 %: ")
            assert (scale.level is None) == (question.q_from == "wdl")
            assert scale.line().endswith(" would leave its scale alone") == (question.q_from != "wdl")
        level = store.training_scale(*many, Question())
        assert level is not None
        assert level.alpha == store.alpha(*many)
        assert level.slope.value == pytest.approx(1, abs=1e-5)
        assert level.line().startswith(f"by alpha {level.level:.0f} the net's Q would keep its scale: 1.00 times")
        assert store.training_scale(*few, Question()) is None  # 60 positions do not say


def test_q_from_the_engines_wdl(path: Path) -> None:
    with Store.open(path) as store:
        frame = store.frame(Question(q_from="wdl"))
    assert (frame["deep_q"] == 0.3).all()


def test_picking_nets_and_oracles_by_what_a_user_would_type(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        many, few = store.pick(None, "key 1.0 nodes=100"), store.pick(None, "other")
        assert store.pick() == many != few
        digests = dict(zip(store.oracles()["label"], store.oracles()["digest"], strict=True))
        assert store.pick(None, digests["other 2.0 nodes=100"][:8]) == few
        assert store.pick("KEY-NET", "other:nodes=100") == few
        assert store.pick("nets/key-net.pb.gz") == store.pick("abababab") == many
        with pytest.raises(ValueRepairError, match=r"no net maia-1900 in .*; it has key-net"):
            store.pick("maia-1900")
        # nodes=10 is the beginning of nodes=100, and another oracle all the same.
        with pytest.raises(ValueRepairError, match=r"no oracle key:nodes=10 in .*; it has key 1.0 nodes=100, other"):
            store.pick(None, "key:nodes=10")
        # A file is known by its content, whatever its name.
        (tmp_path / "key-net.pb.gz").write_bytes(b"another")
        with pytest.raises(ValueRepairError, match=r"no net .*key-net\.pb\.gz in .*; it has key-net"):
            store.pick(str(tmp_path / "key-net.pb.gz"))
        assert store.pair_options(*many) == []
        assert store.pair_options(*few) == ["--oracle", digests["other 2.0 nodes=100"][:12]]


def test_commands_name_a_net_as_users_do_unless_two_share_the_name(tmp_path: Path) -> None:
    archive, db = random_games(tmp_path / "random.pgn", 12), tmp_path / "a.db"
    mine_by_key(archive, db)
    for name, key, options in (
        ("new-net", "cd" * 32, ["--net", "new-net"]),
        ("key-net", "ef" * 32, ["--net", "ef" * 6]),
    ):
        net = KeyNet()
        net.identity = replace(net.identity, name=name, sha256=key)
        mine_by_key(archive, db, net=net, options=MineOptions(sample=SampleOptions(per_game=2), limit=8))
        with Store.open(db) as store:
            assert store.pair_options(*store.pick(key)) == options


def test_nothing_scored_yet(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db", create=True) as store:
        net_id = store.add_net(KeyNet.identity, "fen_only")
        assert net_id == store.add_net(KeyNet.identity, "fen_only") != store.add_net(KeyNet.identity, "no")
        with pytest.raises(ValueRepairError, match="nothing is scored"):
            store.frame()
        figures = store_figures(store)
    assert figures["scored"] is None
    assert stats.stats_lines(figures)[-1] == "Nothing is scored yet. Next: vr mine ARCHIVE"


def test_statistics_are_those_of_the_frame(path: Path) -> None:
    with Store.open(path) as store:
        frame, figures = store.frame(), store_figures(store, Question(threshold=0.4))
    scored = json.loads(json.dumps(figures))["scored"]
    off = frame["disagreement"].abs()
    assert [row["candidates"] for row in scored["by_threshold"]] == [int((off >= t).sum()) for t in stats.THRESHOLDS]
    for name, column in (("by_phase", "phase"), ("by_side", "side")):
        for row in scored[name]:
            members = frame[column] == row[column]
            assert (row["candidates"], row["scored"]) == (int((members & (off >= 0.4)).sum()), int(members.sum()))
        assert sum(row["scored"] for row in scored[name]) == len(frame)
    signs = {row["sign"]: row["candidates"] for row in scored["by_sign"]}
    assert signs["optimistic"] == int((frame["net_q"] >= frame["deep_q"] + 0.4).sum())
    assert sum(signs.values()) == int((off >= 0.4).sum())
    assert (scored["nodes"], scored["search_seconds"]) == (480_000, pytest.approx(1.92))
    assert any("480 positions scored in full" in line for line in stats.stats_lines(figures))
    with Store.open(path) as store:  # the threshold asked for is always among those of the table
        thresholds = [
            row["threshold"] for row in store_figures(store, Question(threshold=0.35))["scored"]["by_threshold"]
        ]
    assert 0.35 in thresholds
    assert thresholds == sorted(thresholds)


@pytest.mark.parametrize(("count", "total"), [(0, 10), (10, 10), (3, 1000), (1, 1), (500, 1000)])
def test_wilson_agrees_with_statsmodels(count: int, total: int) -> None:
    low, high = proportion_confint(count, total, method="wilson")
    rate = wilson(count, total)
    assert rate.low == pytest.approx(float(low), abs=1e-12)
    assert rate.high == pytest.approx(float(high), abs=1e-12)
    assert rate.low <= rate.rate <= rate.high


def lichess_phase(board: chess.Board) -> str:
    """The divider's rule on one board, square by square."""
    minor_or_major = sum(piece.piece_type not in (chess.PAWN, chess.KING) for piece in board.piece_map().values())
    if minor_or_major <= 6:
        return "endgame"
    white, black = board.occupied_co[chess.WHITE], board.occupied_co[chess.BLACK]
    sparse = (white & chess.BB_RANK_1).bit_count() < 4 or (black & chess.BB_RANK_8).bit_count() < 4
    mixedness = 0
    for y in range(7):
        for x in range(7):
            region = 0x0303 << (x + 8 * y)
            mixedness += lichess_score(y + 1, (white & region).bit_count(), (black & region).bit_count())
    return "middlegame" if minor_or_major <= 10 or sparse or mixedness > 150 else "opening"


def lichess_score(y: int, white: int, black: int) -> int:
    if (white, black) == (1, 0):
        return 1 + (8 - y)
    if black == 0:
        limit, start = (2, 2) if white == 2 else (1, 3)
        return (start + (y - limit) if y > limit else 0) if white else 0
    if (white, black) == (0, 1):
        return 1 + y
    if white == 0:
        limit, start = (6, 2) if black == 2 else (7, 3)
        return start + (limit - y) if y < limit else 0
    table = {(1, 1): 5 + abs(3 - y), (2, 1): 4 + y, (3, 1): 5 + y, (1, 2): 4 + (6 - y), (2, 2): 7, (1, 3): 5 + (6 - y)}
    return table[white, black]


def test_phases_follow_lichess_divider() -> None:
    dice, fens = random.Random(3), [chess.STARTING_FEN]
    for _ in range(8):
        board = chess.Board()
        while not board.is_game_over() and board.ply() < 250:
            captures = list(board.generate_legal_captures())
            board.push(dice.choice(captures if captures and dice.random() < 0.3 else list(board.legal_moves)))
            fens.append(board.fen())
    phase_names = [PHASES[i] for i in phases(boards(fens)).tolist()]
    assert phase_names == [lichess_phase(chess.Board(fen)) for fen in fens]
    assert phase_names[0] == "opening"
    assert set(phase_names) == set(PHASES)


def test_exports_read_back_as_the_frame(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        frame = store.frame()
    for kind in ("parquet", "jsonl", "csv"):
        write_file(frame, table_of(f"x.{kind}"), str(tmp_path / f"x.{kind}"))
    parquet = pd.read_parquet(tmp_path / "x.parquet")
    assert parquet.attrs == frame.attrs
    assert parquet["cp"].dtype == "Int64"
    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    csv = pd.read_csv(tmp_path / "x.csv", dtype={"key": np.uint64})
    for name in COLUMNS:
        for other in (parquet[name], pd.Series([row[name] for row in rows]), csv[name]):
            if frame[name].dtype == np.float64:
                got, expected = other.astype(float).to_numpy(float), frame[name].to_numpy()
                np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
            else:
                blank = other.isna() | (other == "")
                assert (other[~blank] == frame[name][~blank]).all(), name
                assert (frame[name][blank].isna() | (frame[name][blank] == "")).all(), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.csv", "x.jsonl", "x.parquet"]


def test_an_export_that_fails_leaves_the_old_file(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        frame = store.frame(text=False)
    write_file(frame, "csv", str(tmp_path / "x.csv"))
    old = (tmp_path / "x.csv").read_text()
    frame["cp"] = "not a number"
    with pytest.raises(ValueError, match=r"not a number|invalid|cannot"):
        write_file(frame, "csv", str(tmp_path / "x.csv"))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x.csv", old)]


def test_an_empty_frame_is_exported_too(path: Path) -> None:
    with Store.open(path) as store:
        frame = store.candidates(Question(threshold=2.0))
    assert len(frame) == 0
    stream = io.BytesIO()
    write_stream(frame, "csv", stream)
    assert stream.getvalue().decode() == ",".join(COLUMNS) + "\n"
    stream = io.BytesIO()
    write_stream(frame, "jsonl", stream)
    assert stream.getvalue() == b""


def test_a_frame_says_which_question_it_answers(path: Path) -> None:
    """Every field of a question comes back, so that what is asked again of a frame's net and oracle is the same."""
    with Store.open(path) as store:
        net_id, oracle_id = store.pick()
        net, oracle = store.names(net_id, oracle_id)
        whose = Question(net=net, oracle=oracle, alpha=123.0, q_from="wdl")
        question = replace(whose, threshold=0.4, expanded="all")
        assert Question.answered_by(store.frame(question).attrs, 0.4) == question
        assert all(getattr(question, field.name) != getattr(Question(), field.name) for field in fields(Question))
