"""Questions to a store: the frame, candidates, alpha, picking, phases, exports."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pandas as pd
import pytest

from tests.scale.million import ALPHA, BRIEF, FULL, NET, OWN, make
from valuerepair.chess import values
from valuerepair.chess.positions import PHASES, boards, phases
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.question import Question
from valuerepair.store import alpha as alphas
from valuerepair.store import view
from valuerepair.store.columns import columns
from valuerepair.store.pairs import net_label, pick
from valuerepair.store.store import Store
from valuerepair.store.view import COLUMNS, Policy, write_file

SCORED, SHORT = 480, 96
SHORT_SEARCH = f"nodes={BRIEF.limits['nodes']}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 480 positions with a full search, some of them audits, and 96 with a short one only."""
    db = tmp_path_factory.mktemp("store") / "a.db"
    make(db, SCORED, [OWN])
    return db


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(path, tmp_path / "copy.db"))


def test_the_columns_and_their_types(path: Path) -> None:
    with Store.open(path) as store:
        frame, numbers = view.frame(store), view.frame(store, text=False)
    assert list(frame.columns) == COLUMNS
    assert [name for name in COLUMNS if name not in view.TEXTS or name in ("kind", "part")] == list(numbers.columns)
    pd.testing.assert_frame_equal(frame[numbers.columns], numbers)
    assert frame["key"].dtype == np.uint64
    assert frame["key"].is_unique
    assert frame["position_id"].is_monotonic_increasing
    assert frame["history_known"].dtype == np.bool_
    for column in ("cp", "mate", "eval_cp", "net_q", "deep_q", "disagreement"):
        assert frame[column].dtype == np.float64
    assert (frame["cp"].isna() == frame["mate"].notna()).all()
    assert not frame["disagreement"].isna().any()


def test_cells_are_those_of_the_tables(path: Path) -> None:
    """Each row by its id, through the store's other way to a position."""
    with Store.open(path) as store:
        frame = view.frame(store, Question(alpha=ALPHA)).sample(40, random_state=1)
        batch = store.positions(frame["position_id"].to_numpy())
        rows = frame.to_dict("records")
        for row, position in zip(rows, batch, strict=True):
            assert (row["fen"], row["start_fen"], row["ply"]) == (position.fen, position.start_fen, position.ply)
            assert (row["key"], row["moves"].split()) == (position.key, [str(move) for move in position.moves])
            assert (row["source"], row["game"], row["played"]) == (
                position.origin.source, position.origin.game, position.origin.played
            )  # fmt: skip
            board = chess.Board(row["fen"])
            assert row["side"] == ("w" if board.turn else "b")
            assert row["pieces"] == len(board.piece_map())
            query = "SELECT q, policy FROM net_values WHERE position_id = ?"
            q, policy = store.connection.execute(query, (row["position_id"],)).fetchone()
            assert (row["net_q"], row["net_best"]) == (q, Policy.of(policy)[0][0])
            assert chess.Move.from_uci(row["net_best"]) in board.legal_moves
            mated = np.sign(row["mate"]) if row["mate"] == row["mate"] else None
            assert row["deep_q"] == pytest.approx(
                np.tanh(row["cp"] / (2 * ALPHA)) if mated is None else mated, abs=1e-4
            )
            assert row["disagreement"] == row["net_q"] - row["deep_q"]


def test_candidates_are_the_frame_filtered_and_sorted(path: Path) -> None:
    with Store.open(path) as store:
        frame, candidates = view.frame(store), view.candidates(store, Question(threshold=0.4))
    expected = frame[frame["disagreement"].abs() >= 0.4]
    expected = expected.iloc[np.argsort(-expected["disagreement"].abs(), kind="stable")].reset_index(drop=True)
    pd.testing.assert_frame_equal(candidates, expected)
    assert 0 < len(candidates) < len(frame)
    assert candidates.attrs == frame.attrs


def test_some_columns_and_some_positions(path: Path) -> None:
    with Store.open(path) as store:
        frame = view.frame(store)
        ids = frame["position_id"].to_numpy()[5:30:3]
        some = view.frame(store, only=("key", "fen", "disagreement", "policy"), ids=ids)
    expected = frame[frame["position_id"].isin(ids)].reset_index(drop=True)
    pd.testing.assert_frame_equal(some[["key", "fen", "disagreement"]], expected[["key", "fen", "disagreement"]])
    assert [Policy.of(blob)[0][0] for blob in some["policy"]] == expected["net_best"].tolist()


def test_what_screening_left_out_has_the_value_of_the_short_search(path: Path) -> None:
    with Store.open(path) as store:
        frame, both = (view.frame(store, Question(alpha=ALPHA), screened=screened) for screened in (False, True))
        short = view.frame(store, Question(alpha=ALPHA, oracle=SHORT_SEARCH))
        read = columns(store, pick(store), ("weight", "cp", "screened"), screened=True)
    left = both[both["screened"]].reset_index(drop=True)
    assert (len(frame), len(both), len(left)) == (SCORED, SCORED + SHORT, SHORT)
    assert len(short) > SHORT  # audits have both
    pd.testing.assert_frame_equal(both[~both["screened"]].reset_index(drop=True)[COLUMNS], frame)
    same = short[~short["position_id"].isin(frame["position_id"])].reset_index(drop=True)
    names = [name for name in COLUMNS if name not in ("oracle", "weight")]
    pd.testing.assert_frame_equal(left[names], same[names])
    assert (left["weight"] == 0).all()
    assert frame["weight"].sum() == both["weight"].sum() == pytest.approx(SCORED + SHORT)
    assert read["weight"].tolist() == both["weight"].tolist()
    assert read["screened"].dtype == np.bool_


def test_positions_beside_games_only_when_asked(copy: Path) -> None:
    with Store.open(copy, write=True) as store:
        every = view.frame(store)
        with store.writing() as connection:
            connection.execute("UPDATE positions SET origin = 'neighbour', parent_id = 1 WHERE id % 3 = 0")
            connection.execute("UPDATE positions SET part = 'families' WHERE id % 5 = 0")
        games, beside = view.frame(store), view.frame(store, Question(beside=True))
        fitted = alphas.alpha(store, pick(store))
    assert games["position_id"].tolist() == [i for i in every["position_id"] if i % 3]
    assert beside["position_id"].tolist() == every["position_id"].tolist()
    assert {*games["kind"]} == {"game"}
    assert {*beside["kind"]} == {"game", "neighbour"}
    assert (beside["parent_id"].notna() == (beside["kind"] == "neighbour")).all()
    assert ((beside["part"] == "families") == (beside["position_id"] % 5 == 0)).all()
    assert beside.attrs["beside"]
    assert games.attrs["alpha"] == beside.attrs["alpha"] == {"value": fitted.value, "origin": fitted.origin}


def test_alpha_is_given_or_in_use_or_fitted_or_the_default(copy: Path) -> None:
    with Store.open(copy, write=True) as store:
        many, few = pick(store), pick(store, judge=SHORT_SEARCH)
        assert alphas.alpha(store, many, 222.0) == values.Alpha(222.0, "given")
        fitted = alphas.alpha(store, many)
        scored = view.frame(store)
        of_fit = (scored[name].to_numpy() for name in ("net_q", "cp", "mate", "weight", "game_id"))
        assert fitted.value == values.fit_alpha(*of_fit).alpha
        assert fitted.origin == f"fitted on {int(scored['cp'].notna().sum())} positions (slope)"
        assert view.frame(store).attrs["alpha"] == {"value": fitted.value, "origin": fitted.origin}
        assert alphas.alpha(store, few).origin.startswith("default 170: fewer than 300 scores")
        used = values.Alpha(333.0, "results")
        alphas.use_alpha(store, few, used)
        assert alphas.alpha(store, few) == used
        assert alphas.alpha(store, many) == fitted  # of another judge
        with pytest.raises(UsageError):
            alphas.alpha(store, few, -3.0)


def test_what_training_does_to_the_scale(path: Path) -> None:
    """By the frame: the slope through 0 of deep Q on net Q, at the alpha that would train."""
    with Store.open(path) as store:
        pair = pick(store)
        for question, by in (
            (Question(alpha=340.0), "alpha 340"),
            (Question(alpha=90.0), "alpha 90"),
            (Question(q_from="wdl"), "the engine's WDL"),
        ):
            by_alpha = alphas.alpha(store, pair, question.alpha)
            scale = alphas.training_scale(store, pair, by_alpha, question.q_from)
            frame = view.frame(store, question).dropna(subset="deep_q")
            w = frame.weight
            slope = (w * frame.net_q * frame.deep_q).sum() / (w * frame.net_q**2).sum()
            assert scale is not None
            assert scale.slope.value == pytest.approx(slope)
            assert scale.line().startswith(f"by {by} the net's Q would become {slope:.2f} times as steep (95 %: ")
            assert (scale.level is None) == (question.q_from == "wdl")
            assert scale.line().endswith(" would leave its scale alone") == (question.q_from != "wdl")
        level = alphas.training_scale(store, pair, alphas.alpha(store, pair), "cp")
        assert level is not None
        assert level.slope.value == pytest.approx(1, abs=1e-5)
        few = pick(store, judge=SHORT_SEARCH)
        assert alphas.training_scale(store, few, alphas.alpha(store, few), "cp") is None


def test_where_net_and_search_go_against_each_other_no_scale_is_told(copy: Path) -> None:
    with Store.open(copy, write=True) as store:
        store.connection.execute("UPDATE net_values SET q = -q")
        scale = alphas.training_scale(store, pick(store), alphas.alpha(store, pick(store), 300.0), "cp")
    assert scale is not None
    assert "cannot be determined" in scale.line()


def test_picking_nets_and_judges_by_what_a_user_would_type(copy: Path, tmp_path: Path) -> None:
    with Store.open(copy, write=True) as store:
        many, few = pick(store, None, FULL.label), pick(store, None, SHORT_SEARCH)
        assert pick(store) == pick(store, None, "drawn") == many != few  # a short search only by its name
        assert pick(store, None, BRIEF.digest[:8]) == few
        assert pick(store, "DRAWN-NET", "drawn:nodes=50000") == few
        assert pick(store, "nets/drawn-net.pb.gz") == pick(store, NET.sha256[:6]) == many
        with pytest.raises(ValueRepairError, match=r"no net maia-1900 in .*; it has drawn-net"):
            pick(store, "maia-1900")
        # nodes=50 is the beginning of nodes=50000, and another judge all the same.
        with pytest.raises(ValueRepairError, match=r"no judge drawn:nodes=50 in .*; it has drawn 1.0 nodes=50000, "):
            pick(store, None, "drawn:nodes=50")
        # A file is known by its content, whatever its name.
        (tmp_path / "drawn-net.pb.gz").write_bytes(b"another")
        with pytest.raises(ValueRepairError, match=r"no net .*drawn-net\.pb\.gz in .*; it has drawn-net"):
            pick(store, str(tmp_path / "drawn-net.pb.gz"))
        store.use(judge=BRIEF.digest)
        assert pick(store) == few  # or because it is in use
        assert net_label(store, many[0]) == "drawn-net"
        store.add_net(replace(NET, sha256="ef" * 32))
        assert net_label(store, many[0]) == f"drawn-net ({NET.sha256[:12]})"
        with pytest.raises(UsageError, match=f"2 nets of that name; say which: .*{'ef' * 6}"):
            pick(store, "drawn-net")


def test_the_net_and_the_judge_in_use_come_before_those_of_more_values(copy: Path) -> None:
    other = replace(FULL, engine="Other 2.0")
    with Store.open(copy, write=True) as store:
        net_id, judge_id = store.add_net(replace(NET, sha256="ef" * 32, name="other")), store.add_judge(other)
        with store.writing() as connection:
            connection.execute(
                f"INSERT INTO net_values SELECT {net_id}, position_id, q, w, d, l, policy FROM net_values LIMIT 50"
            )
            names, some = "position_id, cp, mate, run_id", "FROM deep_values WHERE judge_id = 2 LIMIT 60"
            connection.execute(f"INSERT INTO deep_values (judge_id, {names}) SELECT {judge_id}, {names} {some}")
        many = pick(store)
        store.use(net="ef" * 32, judge=other.digest)
        assert pick(store) == (net_id, judge_id)
        assert pick(store, "drawn-net") == (many[0], judge_id)
        assert pick(store, None, "drawn") == (net_id, many[1])
        store.use(net=None, judge=None)
        assert pick(store) == many


def test_nothing_scored_yet(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db", create=True) as store:
        assert store.add_net(NET) == store.add_net(NET)
        with pytest.raises(ValueRepairError, match=r"no position in .* is scored yet"):
            view.frame(store)


def test_columns_are_of_the_store_as_it_is(copy: Path) -> None:
    """Whoever changes it."""
    with Store.open(copy, write=True) as store:
        pair = pick(store)
        for writer in (store.connection, None):
            before = columns(store, pair, ("net_q",))["net_q"]
            assert columns(store, pair, ("net_q",))["net_q"] is before
            if writer is None:
                store.commit()
                with closing(sqlite3.connect(copy)) as other, other:
                    other.execute("UPDATE net_values SET q = -q")
            else:
                with store.writing() as connection:
                    connection.execute("UPDATE net_values SET q = -q")
            after = columns(store, pair, ("net_q",))["net_q"]
            assert np.any(before != 0)
            np.testing.assert_array_equal(after, -before)


def test_a_reader_sees_one_state_while_another_writes(copy: Path) -> None:
    """Each of its queries meets one more position."""
    with Store.open(copy, write=True) as writer, Store.open(copy) as store:
        rows = writer.connection.execute("SELECT * FROM deep_values WHERE judge_id = 2 ORDER BY 2 DESC LIMIT 60")
        taken = rows.fetchall()
        with writer.writing() as connection:
            connection.executemany("DELETE FROM deep_values WHERE position_id = ?", [row[1:2] for row in taken])
        writer.commit()

        def write(statement: str) -> None:
            if taken and statement.lstrip().upper().startswith("SELECT"):
                with writer.writing() as connection:
                    connection.execute(f"INSERT INTO deep_values VALUES ({', '.join('?' * 17)})", taken.pop())
                writer.commit()

        store.connection.set_trace_callback(write)
        frame = view.frame(store)
        assert len(taken) < 55
        assert len(view.frame(store)) > len(frame) >= SCORED - 60


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
        frame = view.frame(store)
    for kind in ("parquet", "jsonl", "csv"):
        write_file(frame, str(tmp_path / f"x.{kind}"))
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
    for kind, empty in (("csv", ",".join(COLUMNS) + "\n"), ("jsonl", "")):
        write_file(frame.iloc[:0], str(tmp_path / f"x.{kind}"))
        assert (tmp_path / f"x.{kind}").read_text() == empty


def test_an_export_that_fails_leaves_the_old_file(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        frame = view.frame(store, text=False)
    write_file(frame, str(tmp_path / "x.csv"))
    old = (tmp_path / "x.csv").read_text()
    frame["cp"] = "not a number"
    with pytest.raises(ValueError, match=r"not a number|invalid|cannot"):
        write_file(frame, str(tmp_path / "x.csv"))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x.csv", old)]
