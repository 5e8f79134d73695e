"""Positions for the trainers of other engines' nets, read back by their documentation; and golden bytes."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from valuerepair.api.writing import export_positions
from valuerepair.chess.values import OWN_Q, q_to_cp
from valuerepair.cli import cli
from valuerepair.engines.spec import find_engine
from valuerepair.errors import UsageError
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.nnue import Format, WrittenPositions, format_of, write_positions, write_stream

SAMPLE = str(Path(__file__).parents[1] / "data" / "sample.db")
ALPHA = 200.0


class Read(NamedTuple):
    """A training position as its reader has it; score and result as they stand there."""

    board: chess.Board
    move: chess.Move | None
    score: int
    ply: int
    result: int


def read_plain(data: bytes) -> list[Read]:
    """Stockfish, branch tools, emitPlainEntry: a line a field, ``e`` ends the position."""
    entries, entry = [], dict[str, str]()
    for line in data.decode().splitlines():
        name, _, value = line.partition(" ")
        entry[name] = value
        if name == "e":
            board, move = chess.Board(entry["fen"]), chess.Move.from_uci(entry["move"])
            entries.append(Read(board, move, *(int(entry[field]) for field in ("score", "ply", "result"))))
            entry = {}
    assert not entry
    return entries


def read_bin(data: bytes) -> list[Read]:
    """Stockfish, branch tools, packed_sfen.h and sfen_packer.cpp: records of 40 bytes, bits from the lowest on."""
    assert len(data) % 40 == 0
    return [_read_record(data[at : at + 40]) for at in range(0, len(data), 40)]


def _read_record(record: bytes) -> Read:
    bits = iter("".join(f"{byte:08b}"[::-1] for byte in record[:32]))

    def take(count: int) -> int:
        return int("".join(next(bits) for _ in range(count))[::-1], 2)

    board = chess.Board(None)
    board.turn = not take(1)
    for color in chess.COLORS:
        board.set_piece_at(take(6), chess.Piece(chess.KING, color))
    for square in chess.SQUARES_180:
        if board.piece_type_at(square) != chess.KING and take(1):
            kind = {0: chess.PAWN, 1: chess.KNIGHT, 2: chess.BISHOP, 3: chess.ROOK, 4: chess.QUEEN}[take(3)]
            board.set_piece_at(square, chess.Piece(kind, not take(1)))
    board.castling_rights = sum(rook for rook in (chess.BB_H1, chess.BB_A1, chess.BB_H8, chess.BB_A8) if take(1))
    board.ep_square = take(6) if take(1) else None
    clock, number = take(6), take(8)
    board.fullmove_number = number | take(8) << 8
    board.halfmove_clock = clock | take(1) << 6
    move = int.from_bytes(record[34:36], "little")
    target, origin, promoted, kind = move & 63, move >> 6 & 63, move >> 12 & 3, move >> 14
    if kind == 3:  # the king takes its rook
        target = chess.square(6 if target > origin else 2, chess.square_rank(origin))
    real_move = chess.Move(origin, target, promoted + chess.KNIGHT if kind == 1 else None)
    assert (kind == 2) == board.is_en_passant(real_move)
    assert (kind == 3) == board.is_castling(real_move)
    score = int.from_bytes(record[32:34], "little", signed=True)
    result = int.from_bytes(record[38:39], "little", signed=True)
    return Read(board, real_move, score, int.from_bytes(record[36:38], "little"), result)


def read_text(data: bytes) -> list[Read]:
    """bullet, page 3, training data: ``<FEN> | <score> | <result>``, both White's."""
    entries = []
    for line in data.decode().splitlines():
        fen, score, result = line.split(" | ")
        white = {"1.0": 1, "0.5": 0, "0.0": -1}[result]
        board = chess.Board(fen)
        entries.append(Read(board, None, int(score), board.ply(), white))
    return entries


READERS = {"plain": read_plain, "bin": read_bin, "text": read_text}


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A frame as a store gives it, of what is asked for here; the move played is the best one."""
    usual = {"cp": np.nan, "mate": np.nan, "deep_q": 0.0, "deep_best": None, "result": "*"}
    whole = [{**usual, "played": row.get("deep_best"), **row} for row in rows]
    plain = pd.DataFrame(whole, columns=[*usual, "played", "fen"])
    frame: pd.DataFrame = plain.astype({"cp": float, "mate": float, "deep_q": float})
    frame.attrs["alpha"] = {"value": ALPHA, "origin": "given"}
    return frame


def written(
    rows: list[dict[str, Any]] | pd.DataFrame, kind: Format, pawn: float = 100.0
) -> tuple[list[Read], WrittenPositions]:
    stream = io.BytesIO()
    frame = rows if isinstance(rows, pd.DataFrame) else frame_of(rows)
    counts = write_stream(frame, kind, stream, pawn)
    return READERS[kind](stream.getvalue()), counts


# What Stockfish's `convert` (branch tools) makes of these positions, moves, scores, plies and results in plain.
GOLDEN = [
    (
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "e2e4", 31, "1-0"),
        "08fece9aebbc31c618638c000000002184104208679454c679400000000000001f001c03000001ff",
    ),
    (
        ("r3k2r/pppq1ppp/2np1n2/2b1p1B1/2B1P1b1/2NP1N2/PPPQ1PPP/R3K2R b KQq - 12 130", "e8c8", -32, "1-0"),
        "09fe821b63cc628ccc684215151441c508062184248470c0598c200000000000e0ff38cf0301ffff",
    ),
    (
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 300", "e5d6", "mate 3", "1/2-1/2"),
        "081e0000801800000000802bc012000000000000000000000000000000000000fb7c2b89560200ff",
    ),
    (
        ("4k3/P7/8/8/8/8/8/4K3 w - - 99 71", "a7a8n", -90_000, "1-0"),
        "081e1000000000000000301e0104000000000000000000000000000000000000ed84384c8c0001ff",
    ),
    (
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 64 40", "e1g1", 0, "0-1"),
        "08fe820b000000000070c079000a400000000000000000000000000000000000000007c14e00ffff",
    ),
]


@pytest.mark.parametrize(("position", "record"), GOLDEN)
def test_records_are_those_of_stockfish(position: tuple[str, str, int | str, str], record: str) -> None:
    fen, move, score, result = position
    value = {"mate": 3} if score == "mate 3" else {"cp": score}
    stream = io.BytesIO()
    write_stream(frame_of([{"fen": fen, "deep_best": move, "result": result, **value}]), "bin", stream)
    assert stream.getvalue() == bytes.fromhex(record)


@st.composite
def positions(draw: st.DrawFn) -> dict[str, Any]:
    """A row: a position of a game of random moves that is not over, with one of its moves, score and result."""
    dice = draw(st.randoms(use_true_random=False))
    starts = (
        chess.STARTING_FEN,
        "2k5/4PPPP/8/8/8/8/4pppp/2K5 b - - 60 400",
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 9",
    )
    board = chess.Board(dice.choice(starts))
    for _ in range(draw(st.integers(0, 80))):
        moves = list(board.legal_moves)
        rare = [move for move in moves if board.is_en_passant(move) or board.is_castling(move) or move.promotion]
        board.push(dice.choice(rare if rare and dice.random() < 0.3 else moves))
        if not any(board.legal_moves):
            board.pop()
            break
    score = draw(
        st.one_of(
            st.just({"mate": draw(st.sampled_from([-40, -1, 1, 2, 40]))}),
            st.just({"cp": draw(st.integers(-20_000, 20_000))}),
        )
    )
    moves = sorted(
        board.legal_moves, key=lambda move: (not (board.is_castling(move) or board.is_en_passant(move)), move.uci())
    )
    move = moves[0] if draw(st.booleans()) else dice.choice(moves)
    fen = board.fen(en_passant="legal")
    return {
        "fen": fen,
        "deep_best": move.uci(),
        "result": draw(st.sampled_from(["1-0", "0-1", "1/2-1/2", "*"])),
        **score,
    }


@settings(max_examples=40, deadline=None)
@given(st.lists(positions(), max_size=4))
def test_whatever_is_written_is_read_back(rows: list[dict[str, Any]]) -> None:
    expected = Counter(_expected(row) for row in rows)
    kinds: list[Format] = ["plain", "bin"]
    for kind in kinds:
        read, counts = written(rows, kind)
        assert Counter((e.board.fen(), e.move, e.score, e.ply, e.result) for e in read) == expected
        assert [e.ply for e in read] == sorted((e.ply for e in read), reverse=True)
        assert counts == WrittenPositions(len(rows), sum(row["result"] == "*" for row in rows), {})


def _expected(row: dict[str, Any]) -> tuple[str, chess.Move, int, int, int]:
    board = chess.Board(row["fen"])
    white = {"1-0": 1, "0-1": -1}.get(row["result"], 0)
    score = row.get("cp", 0)
    if mate := row.get("mate"):
        score = 32_000 - (2 * mate - 1) if mate > 0 else -32_000 - 2 * mate
    return row["fen"], chess.Move.from_uci(row["deep_best"]), score, board.ply(), white if board.turn else -white


@settings(max_examples=30, deadline=None)
@given(st.lists(positions(), max_size=4))
def test_text_is_white_s_view_of_quiet_positions(rows: list[dict[str, Any]]) -> None:
    read, counts = written(rows, "text")
    quiet = []
    for row in rows:
        fen, move, score, _, result = _expected(row)
        board = chess.Board(fen)
        sign = 1 if board.turn else -1
        if not (board.is_check() or board.is_capture(move) or move.promotion or abs(score) > 10_000):
            quiet.append((fen, sign * score, sign * result))
    assert Counter((e.board.fen(), e.score, e.result) for e in read) == Counter(quiet)
    assert counts.positions + sum(counts.left_out.values()) == len(rows)


BLACK = "8/8/8/8/5k2/8/8/R6K b - - 7 60"


def test_views_of_a_position_with_black_to_move() -> None:
    row = {"fen": BLACK, "deep_best": "f4f3", "cp": -324, "result": "1-0"}
    seen: dict[Format, tuple[int, int]] = {"plain": (-324, -1), "bin": (-324, -1), "text": (324, 1)}
    for kind, expected in seen.items():
        [entry], _ = written([row], kind)
        assert (entry.score, entry.result) == expected, kind


def test_scores() -> None:
    """Without centipawns Q goes through alpha; a pawn has as many units as asked for; no score looks like a mate."""
    rows = [{"fen": BLACK, "deep_best": "f4f3", **row} for row in ({"deep_q": -0.5}, {"deep_q": -1.0}, {"cp": -1000})]
    entries, _ = written(rows, "plain")
    assert [entry.score for entry in entries] == [round(float(q_to_cp(-0.5, ALPHA))), -31_507, -1000]
    entries, _ = written(rows, "plain", pawn=361.0)
    assert [entry.score for entry in entries] == [round(3.61 * float(q_to_cp(-0.5, ALPHA))), -31_507, -3610]
    mates = [{"fen": BLACK, "deep_best": "f4f3", "mate": mate} for mate in (1, -1, 100)]
    assert [entry.score for entry in written(mates, "plain", pawn=361.0)[0]] == [31_999, -31_998, 31_801]


def test_scores_of_a_search_with_a_net_are_those_of_its_q() -> None:
    """Its centipawns, as lc0's, do not rise with Q: of what one such search gave, the order would be turned about."""
    frame = frame_of(
        [{"fen": BLACK, "deep_best": "f4f3", "deep_q": q, "cp": cp} for q, cp in ((-0.5, -1351), (0.94, 486))]
    )
    frame.attrs["alpha"] = {"value": ALPHA, "origin": OWN_Q}
    assert [entry.score for entry in written(frame, "plain")[0]] == np.rint(
        q_to_cp(np.array([-0.5, 0.94]), ALPHA)
    ).tolist()


def test_moves() -> None:
    """The move played stands for one that no search named; without either there is nothing to write."""
    rows: list[dict[str, Any]] = [{"fen": BLACK, "played": "f4g3"}, {"fen": BLACK}]
    rows.append({"fen": BLACK, "deep_best": "f4f3", "deep_q": np.nan})
    [entry], counts = written(rows, "plain")
    assert entry.move == chess.Move.from_uci("f4g3")
    assert counts.lines() == [
        "left out: 2 without a move or score",
        "without a result: 1, written as draws, as Stockfish's tools do",
    ]
    assert written([], "bin") == ([], WrittenPositions(0, 0, {}))


def test_the_game_s_result_is_none_of_positions_beside_it() -> None:
    """Of a frame with what `vr expand` reached, the sampled positions alone have the game's result."""
    rows = [{"fen": BLACK, "deep_best": "f4f3", "result": "0-1"}] * 3
    frame = frame_of(rows)
    frame["step"] = [None, "line", "child"]
    entries, counts = written(frame, "plain")
    assert ([entry.result for entry in entries], counts.without_result) == ([1, 0, 0], 2)


@pytest.mark.skipif(find_engine("stockfish") is None, reason="no Stockfish here")
def test_the_game_s_result_is_none_of_a_position_after_a_move_aside(tmp_path: Path) -> None:
    games = tmp_path / "games.pgn"
    games.write_text('[White "A"]\n[Black "B"]\n[Result "1-0"]\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 1-0\n')
    for options, without in (([], 0), (["--off-game", "aside:1"], 6)):
        db = str(tmp_path / f"{without}.db")
        mine = ["mine", str(games), "--db", db, "--net", "uci:stockfish", "--deep", "stockfish:nodes=100"]
        every = ["--positions", "99", "--screen", "off"]
        run = CliRunner().invoke(cli, [*mine, *every, *options], catch_exceptions=False)
        assert run.exit_code == 0, run.output
        with Store.open(db) as store:
            frame = store.frame(Question(expanded="searched"))
            assert write_stream(frame, "plain", io.BytesIO()).without_result == without


def test_names_and_files(tmp_path: Path) -> None:
    assert [format_of("x.plain", None), format_of("x.bin", None), format_of("x.bin", "text")] == [
        "plain",
        "bin",
        "text",
    ]
    for name in ("x.txt", "plain", None):
        with pytest.raises(UsageError, match="plain, bin, text"):
            format_of(name, None)
    write_positions(frame_of([]), tmp_path / "x.plain", pawn=361.0)
    (tmp_path / "x.plain").unlink()
    old = bytes(34) + b"\1\0\0\0\0\xff"
    (tmp_path / "x.bin").write_bytes(old)
    for pawn in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(UsageError, match="--pawn"):
            write_positions(frame_of([]), tmp_path / "x.bin", "bin", pawn)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x.bin", old)]


def test_the_command_writes_what_the_store_has(tmp_path: Path) -> None:
    """All of the sample's candidates, in three formats: scores and results are those of the store's frame."""
    run = CliRunner()
    read = {}
    for kind in ("plain", "bin", "text"):
        out = tmp_path / f"x.{kind}"
        call = ["export", "--db", SAMPLE, "--threshold", "0.35", "--format", kind, "-o", str(out)]
        assert run.invoke(cli, call, catch_exceptions=False).exit_code == 0
        read[kind] = READERS[kind](out.read_bytes())
    assert read["plain"] == read["bin"]
    with Store.open(SAMPLE) as store:
        frame = store.frame().query("disagreement.abs() >= 0.35").set_index("fen")
    assert len(read["plain"]) == len(frame) == 66
    for entry in read["plain"]:
        row = frame.loc[entry.board.fen()]
        assert str(entry.move) == row["deep_best"]
        assert entry.score == row["cp"] or abs(entry.score) > 31_507
        mover = {"1-0": 1, "0-1": -1}.get(row["result"], 0) * (1 if row["side"] == "w" else -1)
        assert entry.result == mover


def test_one_position_is_one_position(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Store.open(SAMPLE) as store, caplog.at_level("INFO", "valuerepair"):
        largest = float(np.floor(1e6 * store.frame()["disagreement"].abs().max()) / 1e6)
        export_positions(store, tmp_path / "x.plain", Question(threshold=largest), candidates_only=True, pawn=361)
    assert f"{tmp_path}/x.plain: 1 position, scores of 361 a pawn" in caplog.messages


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("--format bin", "-o FILE"),
        ("--format plain --labels", "--labels"),
        ("--format csv --pawn 208", "--pawn"),
        ("--format plain --pawn 0", "--pawn 0"),
    ],
)
def test_what_does_not_go_together(call: str, words: str) -> None:
    done = CliRunner().invoke(cli, ["export", "--db", SAMPLE, *call.split()])
    assert isinstance(done.exception, UsageError)
    assert words in str(done.exception)
