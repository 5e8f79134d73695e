"""The rules kernels against python-chess: moves, check, make, FEN, keys, on random games and odd positions."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path

import chess
import chess.pgn
import chess.polyglot
import numpy as np
import pytest
import rust_pgn_reader_python_binding
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.parity import rules_parity
from tests.parity.rules_parity import STARTS, Game
from valuerepair.chess import board as rules
from valuerepair.chess.positions import decode_move, encode_move, encode_moves


@lru_cache(maxsize=1)
def walked() -> list[chess.Board]:
    """Positions of seeded random games from all starts."""
    boards = []
    for seed in range(5):
        for number, fen in enumerate(STARTS):
            board, chance = chess.Board(fen), random.Random(f"{seed} {number}")
            for _ in range(60):
                boards.append(board.copy(stack=False))
                moves = list(board.legal_moves)
                if not moves:
                    break
                board.push(chance.choice(moves))
    return boards


def as_texts(moves: NDArray[np.uint16], offsets: NDArray[np.int64]) -> list[set[str]]:
    return [{decode_move(int(m)) for m in moves[a:b]} for a, b in pairwise(offsets)]


def test_legal_moves_agree_with_python_chess() -> None:
    boards = walked()
    moves, offsets = rules.legal_moves(rules.parse_fens([b.fen(en_passant="fen") for b in boards]))
    assert len(boards) > 4000
    for board, ours, count in zip(boards, as_texts(moves, offsets), np.diff(offsets), strict=True):
        assert ours == {m.uci() for m in board.legal_moves}, board.fen()
        assert len(ours) == count, board.fen()  # no move twice


def test_checks_counts_and_endings_agree_with_python_chess() -> None:
    boards = walked()
    rows = rules.parse_fens([b.fen() for b in boards])
    assert rules.in_check(rows).tolist() == [b.is_check() for b in boards]
    assert rules.piece_counts(rows).tolist() == [chess.popcount(b.occupied) for b in boards]
    assert rules.has_legal_move(rows).tolist() == [any(b.legal_moves) for b in boards]
    assert rules.insufficient_material(rows).tolist() == [b.is_insufficient_material() for b in boards]
    assert rules.in_check(rows).any()
    assert rules.insufficient_material(rows).any()


def test_fens_come_back_as_python_chess_writes_them() -> None:
    boards = walked()
    assert rules.fens(rules.parse_fens([b.fen(en_passant="fen") for b in boards])) == [b.fen() for b in boards]


def test_keys_are_polyglots_with_only_legal_en_passant() -> None:
    boards = walked()
    expected = []
    for board in boards:
        plain = board.copy()
        if not plain.has_legal_en_passant():
            plain.ep_square = None
        expected.append(chess.polyglot.zobrist_hash(plain))
    assert rules.keys(rules.parse_fens([b.fen(en_passant="fen") for b in boards])).tolist() == expected


@given(st.integers(0, 10**6), st.integers(0, 4 * 64 * 64 - 1))
@settings(max_examples=150, deadline=None)
def test_replay_accepts_a_move_exactly_when_it_is_legal(pick: int, move: int) -> None:
    board = walked()[pick % len(walked())]
    text = decode_move(move)
    start = rules.parse_fens([board.fen()])
    moves, offsets = np.array([move], np.uint16), np.array([0, 1])
    if text[:2] != text[2:4] and chess.Move.from_uci(text) in board.legal_moves:
        rules.replay(start, moves, offsets)
    else:
        with pytest.raises(ValueError, match=r"row 0, move 0 \(\w+\): not legal"):
            rules.replay(start, moves, offsets)


def test_replay_names_the_illegal_move() -> None:
    start = rules.parse_fens([chess.STARTING_FEN] * 2)
    moves = encode_moves(["e2e4", "e2e4", "e4e5"])
    with pytest.raises(ValueError, match=r"row 1, move 1 \(e4e5\): not legal"):
        rules.replay(start, moves, np.array([0, 1, 3]))


def test_from_reader_reads_what_the_pgn_reader_gives(shared_data: Path) -> None:
    texts, expected = [], []
    with (shared_data / "pgn" / "lichess-blitz.pgn").open(encoding="utf-8") as archive:
        for _ in range(25):
            game = chess.pgn.read_game(archive)
            assert game is not None
            texts.append(str(game.accept(chess.pgn.StringExporter(headers=False, comments=False))))
            board = game.board()
            expected.append(board.fen())
            for move in game.mainline_moves():
                board.push(move)
                expected.append(board.fen())
    (chunk,) = rust_pgn_reader_python_binding.parse_games_from_strings(texts, num_threads=1).chunks
    numbers = np.array([int(fen.split()[-1]) for fen in expected], np.int32)
    rows = rules.from_reader(
        np.asarray(chunk.boards).reshape(-1, 64),
        np.asarray(chunk.castling),
        np.asarray(chunk.en_passant),
        np.asarray(chunk.halfmove_clock),
        np.asarray(chunk.turn),
        numbers,
    )
    assert rules.fens(rows) == expected


def test_from_reader_refuses_boards_without_kings() -> None:
    bare = np.zeros((1, 64), np.uint8)
    with pytest.raises(ValueError, match="row 0: each side needs exactly one king"):
        rules.from_reader(
            bare,
            np.zeros((1, 4), np.bool_),
            np.full(1, -1, np.int8),
            np.zeros(1, np.uint8),
            np.ones(1, np.bool_),
            np.ones(1, np.int32),
        )


@pytest.mark.parametrize(
    ("fen", "reason"),
    [
        ("", "at least placement"),
        ("8/8/8/8 w - -", "eight ranks"),
        ("9/8/8/8/8/8/8/K1k5 w - -", "unknown letter"),
        ("rnbqkbnr/ppppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -", "eight ranks"),
        ("8/8/8/8/8/8/8/8/K1k5 w - -", "eight ranks"),
        ("8/8/8/8/8/8/8/K7 w - -", "one king"),
        ("P7/8/8/8/8/8/8/K1k5 w - -", "first or last rank"),
        ("k7/8/8/QQQQQQQQ/QQQQQQQQ/8/8/7K b - -", "more than 16"),
        ("k7/8/8/8/8/8/8/7K x - -", "neither w nor b"),
        ("k7/8/8/8/8/8/8/7K w XY -", "castling"),
        ("k7/8/8/8/8/8/8/7K w - e3", "en-passant"),
        ("k7/8/8/8/8/8/8/7K w - - x 1", "counter"),
        ("k7/8/8/8/8/8/8/7K w - - 0 70000", "counter"),
        ("k7/8/8/8/8/8/8/R6K w - - 0 1", "not to move is in check"),
        ("k7/8/8/8/8/8/8/7K w - - 0 1 bm e4", "more than six"),
        ("k7/8/8/8/8/8/8/♔6K w - - 0 1", "unknown letter"),
    ],
)
def test_bad_fens_are_named(fen: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"row 1: .*{reason}"):
        rules.parse_fens([chess.STARTING_FEN, fen])


def test_short_and_loose_fens_are_read() -> None:
    loose = [
        "  k7/8/8/8/8/8/8/7K   w -  -",
        "k7/8/8/8/8/8/8/7K b - - 7",
        "4k2r/8/8/8/8/8/8/R3K3 w Qk -",
        "r3k3/8/8/8/8/8/8/4K3 w KQkq - 0 0",
        "k7/8/8/8/8/8/8/7K w - - 0 65535",
    ]
    assert rules.fens(rules.parse_fens(loose)) == [
        "k7/8/8/8/8/8/8/7K w - - 0 1",
        "k7/8/8/8/8/8/8/7K b - - 7 1",
        "4k2r/8/8/8/8/8/8/R3K3 w Qk - 0 1",
        "r3k3/8/8/8/8/8/8/4K3 w q - 0 0",
        "k7/8/8/8/8/8/8/7K w - - 0 65535",
    ]
    assert rules.fens(rules.parse_fens(["r3k2r/8/8/8/8/8/8/R3K2R w HAha - 0 1"])) == [
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1"
    ]


@given(st.text(alphabet=" /12345678pnbrqkPNBRQKwb-abcdefgh0", max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        rows = rules.parse_fens([text])
    except ValueError:
        return
    assert rules.fens(rules.parse_fens(rules.fens(rows))) == rules.fens(rows)


def test_nothing_in_nothing_out() -> None:
    rows = rules.parse_fens([])
    assert rules.fens(rows) == []
    assert rules.keys(rows).shape == (0,)
    assert rules.legal_moves(rows)[1].tolist() == [0]


def test_read_only_inputs_are_fine() -> None:
    rows = rules.parse_fens([chess.STARTING_FEN])
    rows.setflags(write=False)
    moves = np.frombuffer(np.array([encode_move("e2e4")], np.uint16).tobytes(), np.uint16)
    assert rules.fens(rules.replay(rows, moves, np.array([0, 1]))) == [
        "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    ]
    assert rules.keys(rows).tolist() == [0x463B96181691FC9C]  # the start position in the Polyglot specification


def test_status_error_speaks_as_python_chess() -> None:
    assert rules.status_error(chess.STARTING_FEN) is None
    assert "opposite check" in (rules.status_error("k7/8/8/8/8/8/8/R6K w - - 0 1") or "")
    assert rules.status_error("nonsense") is not None


def met_everything(tally: rules_parity.Tally) -> bool:
    rare = ("mates", "stalemates", "after 50 moves", "dead material", "en passant", "castling", "promotions")
    return all(tally.met[what] for what in (*rare, "repetitions 2", "repetitions 3"))


def test_games_agree_with_python_chess_move_by_move(shared_data: Path) -> None:
    tally = rules_parity.run(shared_data, 3000, plies=24)
    assert tally.errors == []
    assert tally.met["positions"] == 3000
    assert tally.met["distinct keys"] < tally.met["keys compared"]
    assert met_everything(tally), tally.met


@pytest.mark.slow
def test_100_000_positions_agree_with_python_chess(shared_data: Path) -> None:
    tally = rules_parity.run(shared_data, 100_000, processes=2)
    assert tally.errors == []
    assert tally.met["positions"] >= 99_000
    assert met_everything(tally), tally.met


def test_en_passant_in_vain_makes_lc0s_positions_differ() -> None:
    """The pawn e4 is pinned: for python-chess the position after f2f4 comes back, for lc0 (and us) it does not."""
    start = "4k1n1/8/8/8/4p3/8/5P2/4R2K w - - 0 1"
    once = ("f2f4", "g8f6", "h1g1", "f6g8", "g1h1")
    tally = rules_parity.compare([Game(start, once), Game(start, once + once[1:])])
    assert (tally.errors, tally.met["repetitions 2"], tally.pinned) == ([], 4, 3)


def test_every_material_is_dead_exactly_for_python_chess() -> None:
    """All of up to two knights and two bishops of either colour a side, alone and with one other man."""
    chance = random.Random(0)
    boards = [placed(chance, counts, man) for counts in product(range(3), repeat=6) for man in ("", "P", "q", "R")]
    ours = rules.insufficient_material(rules.parse_fens([b.fen() for b in boards]))
    assert ours.tolist() == [b.is_insufficient_material() for b in boards]
    assert 10 < ours.sum() < 60


def placed(chance: random.Random, counts: tuple[int, ...], other: str) -> chess.Board:
    """A legal position with kings, so many N, B on light, B on dark squares, n, b, b, and one more man."""
    light = [s for s in chess.SQUARES if chess.BB_SQUARES[s] & chess.BB_LIGHT_SQUARES]
    dark = [s for s in chess.SQUARES if chess.BB_SQUARES[s] & chess.BB_DARK_SQUARES]
    middle = [s for s in chess.SQUARES if 0 < chess.square_rank(s) < 7]
    kinds = [("N", chess.SQUARES), ("B", light), ("B", dark), ("n", chess.SQUARES), ("b", light), ("b", dark)]
    men = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    men += [(other, middle)] if other else []
    while True:
        board = chess.Board(None)
        for symbol, squares in [("K", chess.SQUARES), ("k", chess.SQUARES), *men]:
            free = [s for s in squares if board.piece_at(s) is None]
            board.set_piece_at(chance.choice(free), chess.Piece.from_symbol(symbol))
        if board.is_valid():
            return board
