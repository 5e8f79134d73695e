"""Whether lc0 plays on, of many positions at once, against one by one with python-chess."""

from __future__ import annotations

import random

import chess

from valuerepair.books.lc0_reader import GAME_PLY_LIMIT, no_game
from valuerepair.books.select import can_continue

SHUFFLE = ["g1f3", "g8f6", "f3g1", "f6g8"]
KINGS = "8/8/4k3/8/8/4K3/8/8 w - - 0 60"


def games() -> list[tuple[str, list[str]]]:
    """Starts and moves: repetitions, endings of all kinds, and random games with few men, which repeat by chance."""
    lines = [(chess.STARTING_FEN, (SHUFFLE * 4)[:n]) for n in range(17)]
    # The rights to castle go with the king's first move: the first and the third board differ.
    lines += [(chess.STARTING_FEN, ["e2e4", "e7e5", *(["e1e2", "e8e7", "e2e1", "e7e8"] * 4)[:n]]) for n in range(13)]
    # At first Black could take en passant.
    begin = ["e2e4", "a7a6", "e4e5", "d7d5"]
    lines += [(chess.STARTING_FEN, [*begin, *(["g1f3", "b8c6", "f3g1", "c6b8"] * 3)[:n]]) for n in range(13)]
    lines += [(chess.STARTING_FEN, ["f2f3", "e7e5", "g2g4", "d8h4"]), (KINGS, []), (KINGS, ["e3e4"])]
    lines += [("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", []), (f"4k3/8/8/8/8/8/4P3/4K3 w - - 0 {GAME_PLY_LIMIT}", [])]
    lines += [("4k2r/8/8/8/8/8/8/R3K3 w - - 97 90", ["a1a2", "h8h7", "a2a1"][:n]) for n in range(4)]
    dice = random.Random(3)
    for start in ("4k3/8/8/8/8/8/8/R3K3 w Q - 0 1", "4k3/4r3/8/8/8/8/4R3/4K3 b - - 7 40", chess.STARTING_FEN) * 40:
        board = chess.Board(start)
        for _ in range(dice.randrange(60)):
            if moves := list(board.legal_moves):
                board.push(dice.choice(moves))
        lines.append((start, [move.uci() for move in board.move_stack]))
    return lines


def test_positions_that_lc0_plays_on_from() -> None:
    lines = games()
    boards = [chess.Board(start) for start, _ in lines]
    for board, (_, moves) in zip(boards, lines, strict=True):
        for move in moves:
            board.push_uci(move)
    fens = [board.fen() for board in boards]
    starts, texts = [start for start, _ in lines], [" ".join(moves) for _, moves in lines]
    can_play = can_continue(fens, starts, texts)
    assert can_play.tolist() == [no_game(board, board.fullmove_number) is None for board in boards]
    thirds = [board.is_repetition(3) for board in boards]
    assert sum(thirds) > 12
    assert not can_play[thirds].any()
    assert can_play.sum() > 50


def test_no_game_goes_on_from_a_move_that_is_not_legal() -> None:
    fen = chess.STARTING_FEN.replace(" 0 1", " 9 9")
    assert not can_continue([fen], [chess.STARTING_FEN], ["e2e5 " * 9])[0]
