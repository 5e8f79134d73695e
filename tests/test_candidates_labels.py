"""Labels against python-chess (checks, legal moves, repetitions, material), scipy (KL) and Stockfish (fortresses)."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import chess
import chess.engine
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import entropy

from tests.parity import fortresses
from valuerepair.judge import labels
from valuerepair.judge.labelled import masks, names
from valuerepair.judge.labels import KINDS, LABELS, NAMES, ExpectedLines, expected_lines, label_frame

WORTH = {chess.QUEEN: 9, chess.ROOK: 5, chess.BISHOP: 3, chess.KNIGHT: 3, chess.PAWN: 1, chess.KING: 0}


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as `Store.frame` has them; what a row does not say is the start position's, or nothing."""
    usual: dict[str, Any] = {
        "fen": chess.STARTING_FEN,
        "moves": "",
        "pv": "",
        "phase": "opening",
        "played": None,
        "deep_best": None,
        **dict.fromkeys(("net_q", "deep_q", "mate", "cp", "rung_cp"), np.nan),
        **{f"{whose}_{name}": np.nan for whose in ("net", "deep") for name in "wdl"},
    }
    filled = [
        {"position_id": i, **usual, "start_fen": row.get("fen", chess.STARTING_FEN), **row}
        for i, row in enumerate(rows)
    ]
    for row in filled:
        row["disagreement"] = row["net_q"] - row["deep_q"]
    frame: pd.DataFrame = pd.DataFrame(filled)
    return frame


def stockfish_row(path: str, fen: str, nodes: int = 100_000) -> dict[str, Any]:
    """What Stockfish says of a position, as in a frame, with alpha 170."""
    with chess.engine.SimpleEngine.popen_uci(path) as engine:
        info = engine.analyse(chess.Board(fen), chess.engine.Limit(nodes=nodes))
    score, pv = info["score"].relative, " ".join(move.uci() for move in info["pv"])
    mate = score.mate()
    q = np.tanh((score.score() or 0) / 340) if mate is None else np.sign(mate)
    return {"fen": fen, "pv": pv, "deep_q": float(q), "mate": np.nan if mate is None else float(mate)}


# -- each label -------------------------------------------------------------------------------------------------------


def test_sign() -> None:
    assert labels.sign(np.array([0.7, -0.1, 0.0, np.nan])).tolist() == ["optimistic", "pessimistic", None, None]


def test_blindness_by_prior_and_rank() -> None:
    p = np.array([0.8, 0.05, 0.1, 0.099, 0.01, 0.0099, np.nan])
    rank = np.array([1, 1, 4, 3, 9, 12, np.nan])
    assert labels.blindness(p, rank).tolist() == ["value", "value", "value", "partly", "partly", "policy", None]


def test_mates_that_the_net_sees_are_not_missed() -> None:
    mate = np.array([3, 3, -2, -2, 0, np.nan])
    net_q = np.array([0.49, 0.9, 0.2, -0.9, 0.1, 0.0])
    assert labels.missed_mate(mate, net_q).tolist() == ["mates", None, "mated", None, "mated", None]


# No deadline: while other programs keep the machine busy, one example takes longer than the 200 ms allowed.
@settings(deadline=None)
@given(arrays(np.float64, (5, 3), elements=st.floats(0, 1)), arrays(np.int64, (5, 3), elements=st.integers(0, 1000)))
def test_wdl_divergence_is_scipys_of_the_smoothed_shares(net: Any, deep: Any) -> None:
    net, deep = net + 1e-6, deep.astype(float) + (deep.sum(1, keepdims=True) == 0)
    divergence = labels.wdl_divergence(net, deep)
    smooth = [(1000 * shares / shares.sum(1, keepdims=True) + 0.5) / 1001.5 for shares in (deep, net)]
    np.testing.assert_allclose(divergence, entropy(*smooth, axis=1), rtol=1e-9, atol=1e-12)
    assert (divergence >= -1e-12).all()
    assert (divergence <= np.log(2001)).all()
    np.testing.assert_allclose(labels.wdl_divergence(net, 7 * net), 0, atol=1e-12)


def test_wdl_divergence_of_what_is_missing() -> None:
    shares, nothing = np.array([[0.2, 0.5, 0.3]]), np.full((1, 3), np.nan)
    for pair in ((shares, nothing), (nothing, shares), (shares, np.zeros((1, 3)))):
        assert np.isnan(labels.wdl_divergence(*pair)).all()


@pytest.mark.filterwarnings("error")
def test_shares_a_little_below_0_are_0() -> None:
    rounded, exact = np.array([[-3.0, 1000, 0]]), np.array([[0.0, 1000, 0]])
    np.testing.assert_array_equal(labels.wdl_divergence(rounded, exact), [0.0])


# -- expected lines ---------------------------------------------------------------------------------------------------


def shuffling_games(seed: int, count: int) -> list[tuple[chess.Board, list[str], list[str]]]:
    """Games in which pieces often go back where they came from: (start, moves, the line that follows)."""
    dice, games = random.Random(seed), []
    for _ in range(count):
        board, start = chess.Board(), chess.Board()
        for _ in range(dice.randrange(4, 90)):
            moves = list(board.legal_moves)
            if not moves:
                break
            back = [m for m in moves if len(board.move_stack) > 1 and m.uci()[:4] == _reverse(board.move_stack[-2])]
            captures = [m for m in moves if board.is_capture(m)]
            liked = back if back and dice.random() < 0.5 else captures if captures and dice.random() < 0.4 else moves
            board.push(dice.choice(liked))
        cut = dice.randrange(len(board.move_stack))
        line = [move.uci() for move in board.move_stack]
        games.append((start, line[:cut], line[cut:]))
    return games


def _reverse(move: chess.Move) -> str:
    return chess.square_name(move.to_square) + chess.square_name(move.from_square)


def test_expected_lines_are_as_python_chess_plays_them() -> None:
    games = shuffling_games(5, 30)
    lines = expected_lines([g[0].fen() for g in games], [g[1] for g in games], [g[2] for g in games])
    expected = []
    for start, moves, line in games:
        board = start.copy()
        for move in moves:
            board.push_uci(move)
        lead = _white_lead(board)
        ahead, least, repeats = np.sign(lead), abs(lead), False
        checks = [0, 0]
        for i, move in enumerate(line):
            board.push_uci(move)
            checks[i % 2] += board.is_check()
            repeats |= board.is_repetition(2)
            least = min(least, ahead * _white_lead(board))
        expected.append((len(line), repeats, least, checks))
    assert list(zip(*(column.tolist() for column in lines), strict=True)) == expected
    assert 3 < lines.repeats.sum() < 28
    assert (lines.lead > 0).any()


def _white_lead(board: chess.Board) -> int:
    return sum(WORTH[piece.piece_type] * (1 if piece.color else -1) for piece in board.piece_map().values())


@pytest.mark.parametrize("broken", ["e2e5", "e1g1", "xx", "", "a7a8q", "e2e4e2e4"])
def test_a_line_ends_before_what_is_no_legal_move(broken: str) -> None:
    line = ["e2e4", "e7e5", broken, "g1f3"]
    assert expected_lines([chess.STARTING_FEN], [[]], [line]).plies.tolist() == [2]


def test_no_rows() -> None:
    assert len(label_frame(frame_of([{}]).iloc[:0])) == 0


# -- whole rows -------------------------------------------------------------------------------------------------------


def test_checks_and_forced_moves_are_python_chess_s() -> None:
    boards = []
    for start, moves, line in shuffling_games(6, 12):
        board = start.copy()
        for move in [*moves, *line]:
            board.push_uci(move)
            boards.append(board.copy(stack=False))
    table = label_frame(frame_of([{"fen": board.fen()} for board in boards]))
    assert table["legal_moves"].tolist() == [board.legal_moves.count() for board in boards]
    assert table["in_check"].tolist() == [board.is_check() for board in boards]
    assert table["forced"].tolist() == [board.legal_moves.count() == 1 for board in boards]
    assert table["balance"].tolist() == [_white_lead(board) * (1 if board.turn else -1) for board in boards]
    assert 0 < table["in_check"].sum() < len(boards)


def test_a_check_with_one_answer_is_forced() -> None:
    board = chess.Board()
    for move in ("f2f3", "e7e5", "g2g4", "d8h4"):  # fool's mate: no answer at all
        board.push_uci(move)
    one = "7k/8/8/8/8/8/6q1/7K w - - 0 1"  # the king takes
    table = label_frame(frame_of([{"fen": board.fen()}, {"fen": one}]))
    assert table["legal_moves"].tolist() == [0, 1]
    assert table["forced"].tolist() == [False, True]
    assert table["in_check"].all()


def test_a_perpetual_check_is_a_repetition(stockfish: str) -> None:
    """Black mates next; White's queen can only give check for ever."""
    row = stockfish_row(stockfish, "6k1/6p1/8/6KQ/1r6/q2b4/8/8 w - - 0 1")
    (labelled,) = label_frame(frame_of([{**row, "net_q": -0.6}])).to_dict("records")
    assert row["deep_q"] == 0
    assert (labelled["repetition"], labelled["fortress_like"], labelled["sign"]) == (True, None, "pessimistic")


def test_repetitions_count_the_games_own_moves() -> None:
    """The line's first move brings back a board of the game."""
    moves = ["g1f3", "g8f6", "f3g1"]
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    row = {"fen": board.fen(), "start_fen": chess.STARTING_FEN, "moves": " ".join(moves), "pv": "f6g8", "deep_q": 0.0}
    bare = {**row, "start_fen": board.fen(), "moves": ""}
    far = {**row, "deep_q": 0.2}
    assert label_frame(frame_of([row, bare, far]))["repetition"].tolist() == [True, False, False]


def test_rook_and_bishop_against_rook_is_held(stockfish: str) -> None:
    """A drawn ending (Philidor; Syzygy says draw too), a piece up."""
    row = {**stockfish_row(stockfish, "8/3R4/8/2rb4/4k3/8/3K4/8 b - - 0 1"), "phase": "endgame"}
    (labelled,) = label_frame(frame_of([{**row, "net_q": 0.7}])).to_dict("records")
    assert labelled["balance"] == 3
    assert labelled["fortress_like"] == "held"


# Extra material that wins, without a mate that a short search sees.
WINS = [
    "1K1k4/1P6/8/8/8/8/r7/2R5 w - - 0 1",  # Lucena
    "8/5pk1/6p1/3N4/8/1P4P1/5PK1/8 w - - 0 1",
    "8/pp3kpp/8/2p5/2P5/P3N3/1P3PPP/6K1 w - - 0 1",
    "r4rk1/ppp2ppp/8/8/8/8/PPP2PPP/R2Q1RK1 w - - 0 1",
    "rnb1kbnr/pppp1ppp/8/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 0 3",
]


@pytest.mark.usefixtures("stockfish")
@pytest.mark.slow
def test_published_fortresses_make_no_progress_and_winning_positions_do(tmp_path: Path) -> None:
    names = ("bishop against queen", "rook and bishop against queen", "Tarasiuk 2014, the try", "Petrosian-Hazai")
    fens = [(fortresses.LCZERO | fortresses.OTHERS)[name] for name in (*names, "Hasek 1929")]
    by_board = fortresses.labels_of_fens([*fens, *WINS], 200_000, tmp_path)
    assert [by_board[fen.split()[0]] for fen in fens] == ["no progress"] * 5
    assert [by_board[fen.split()[0]] for fen in WINS] == [None] * 5


def test_an_advantage_makes_no_progress_if_it_is_less_than_it_was_and_of_the_same_side() -> None:
    cases = [
        ((410, 450), None),
        ((400, 450), "no progress"),
        ((-400, -445), "no progress"),
        ((400, -445), None),
        ((400, 0), None),
        ((400, np.nan), None),
        ((np.nan, 445), None),
        ((180, 300), None),  # not won
    ]
    rows = [{"cp": cp, "rung_cp": rung, "deep_q": np.tanh(cp / 340)} for (cp, rung), _ in cases]
    assert label_frame(frame_of(rows))["fortress_like"].tolist() == [word for _, word in cases]
    without = frame_of(rows).drop(columns="rung_cp")
    assert label_frame(without)["fortress_like"].isna().all()


def test_words_that_are_missing_are_none_and_numbers_nan() -> None:
    (labelled,) = label_frame(frame_of([{"fen": "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"}])).to_dict("records")
    words = ("sign", "blind", "missed_mate", "fortress_like", "opening_family", "opening", "eco")
    assert [labelled[name] for name in words] == [None] * 7
    assert all(np.isnan(labelled[name]) for name in ("oracle_move_p", "played_move_rank", "top_move_p", "wdl_kl"))
    assert (labelled["material"], labelled["material_family"], labelled["balance"]) == ("KPvK", "KvK", 1)


# -- which expected lines are followed


@settings(deadline=None)
@given(
    st.one_of(st.floats(-1, 1), st.sampled_from([0.0, 0.05, -0.05, 0.2, -0.2, 0.5, -0.5])),
    st.integers(-9, 9),
    st.booleans(),
)
def test_no_line_that_is_not_followed_would_give_a_label(deep_q: float, balance: int, endgame: bool) -> None:
    deep, men, late = np.array([deep_q]), np.array([balance]), np.array([endgame])
    # Lines that would give each label, were the values right.
    whole, unknown = np.array([20]), np.array([np.nan])
    for repeats, lead, checks in ((True, 9, [[0, 0]]), (False, 0, [[10, 0]])):
        lines = ExpectedLines(whole, np.array([repeats]), np.array([lead]), np.array(checks))
        (fortress,) = labels.fortress_like(deep, unknown, men, lines, late)
        labelled = labels.repetition(deep, lines)[0] or fortress is not None
        assert labels.line_may_matter(deep, men, late)[0] or not labelled


def test_masks_say_what_names_say() -> None:
    every = list(
        product(
            ("optimistic", "pessimistic", None),
            ("value", "partly", "policy", None),
            ("mates", "mated", None),
            ("held", "no progress", None),
            *[(True, False)] * 3,
            ("opening", "middlegame", "endgame"),
        )
    )
    columns = ("sign", "blind", "missed_mate", "fortress_like", "repetition", "in_check", "forced", "phase")
    assert set(columns) == {label.column for label in LABELS}, "a new column belongs into this table"
    assert len(LABELS) <= 32  # the page keeps them as bits
    table = pd.DataFrame(
        {name: pd.Series(cells, dtype=object) for name, cells in zip(columns, zip(*every, strict=True), strict=True)}
    ).assign(**dict.fromkeys(KINDS.values()))
    by_name = masks(table)
    assert list(by_name) == list(NAMES)
    for name, mask in by_name.items():
        assert mask.dtype == np.bool_
        assert mask.tolist() == [name in words for words in names(table)]
