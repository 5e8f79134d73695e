"""Mates that the search proves: their line, their length, another engine's word, and which move is played."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import chess.engine
import chess.gaviota
import chess.syzygy
import pytest

from tests.mcts_doubles import FakeNet, position, searched
from tests.search_trees import (
    BACK_RANK,
    CORNERED,
    MATE_IN_2,
    OPTIONS,
    STALEMATE_TRICK,
    board_of,
    boards_of,
    endings,
    forced_mate,
    ids,
    result_of,
)
from valuerepair.chess.positions import Position
from valuerepair.mcts.outcome import choose_move
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import RootMove, SearchResult

LADDER = "8/8/8/4k3/8/8/R7/1R4K1 w - - 0 1"


def mates_of(result: SearchResult) -> Iterator[RootMove]:
    return (move for move in result.moves if move.mate is not None)


def assert_line_mates(start: Position, move: RootMove) -> None:
    """The principal line of a proven mate ends in mate after as many moves as it says."""
    board = board_of(start)
    assert move.mate
    for step in move.pv:
        board.push_uci(step)
    assert board.is_checkmate(), (start.fen, move)
    assert len(move.pv) == (2 * move.mate - 1 if move.mate > 0 else -2 * move.mate), (start.fen, move)
    assert (move.certain, move.wl, move.d) == (1 if move.mate > 0 else -1, move.certain, 0.0)


MATING = [
    *endings(("KQRk", "KQQk", "KRRk"), (0, 20), 12, 5),
    *map(position, (MATE_IN_2, BACK_RANK, LADDER, STALEMATE_TRICK)),
]


@pytest.mark.parametrize("options", OPTIONS, ids=ids)
@pytest.mark.slow
def test_the_line_of_a_proven_mate_ends_in_mate(options: dict[str, Any]) -> None:
    found = 0
    for start in MATING:
        for move in mates_of(result_of(start, 300, **options)):
            assert_line_mates(start, move)
            found += 1
    assert found >= 3


def proven_mates(nodes: int) -> Iterator[tuple[chess.Board, RootMove, int]]:
    """Moves proven to end in mate of two moves or more, with the position before them and the distance that is said."""
    for start in MATING:
        moves = [m for m in mates_of(result_of(start, nodes, certainty=True, lookahead=True)) if abs(m.mate or 0) > 1]
        yield from ((board_of(start), move, move.mate or 0) for move in moves[:3])


def test_stockfish_knows_every_mate(stockfish: str) -> None:
    found = 0
    with chess.engine.SimpleEngine.popen_uci(stockfish) as engine:
        for board, move, mate in proven_mates(800):
            only = [chess.Move.from_uci(move.move)]
            score = engine.analyse(board, chess.engine.Limit(depth=14), root_moves=only, game=found)["score"].relative
            assert score > chess.engine.Cp(9000) if mate > 0 else score < chess.engine.Cp(-9000), (board.fen(), move)
            found += 1
    assert found >= 8


def test_no_mate_is_longer_than_said() -> None:
    found = 0
    for board, move, mate in proven_mates(600):
        board.push_uci(move.move)
        said = mate - 1 if mate > 0 else -mate
        if said <= 2:
            truth = forced_mate(board, said) if mate < 0 else max(_replies(board, said))
            assert truth is not None, (board.fen(), move)
            assert 1 <= truth <= said, (board.fen(), move)
            found += 1
    assert found >= 4


def _replies(board: chess.Board, moves: int) -> Iterator[int]:
    """After each reply, the number of moves that the mate takes, or too many."""
    for reply in list(board.legal_moves):
        board.push(reply)
        yield forced_mate(board, moves) or 99
        board.pop()


def test_a_mate_is_found_with_certainty_and_not_by_averages() -> None:
    start = position(CORNERED)
    plain = result_of(start, 1000, sticky_endgames=False)
    solved = result_of(start, 1000, certainty=True)
    assert (plain.certain, plain.mate) == (None, None)
    assert (solved.certain, solved.best.wl) == (1, 1.0)
    assert solved.mate in (2, 3)  # it need not be the shortest
    assert solved.nodes < 1000  # the search ends with its proof


def test_a_win_is_played_whatever_its_visits() -> None:
    net = FakeNet(sharpness=6.0)
    result = searched(position(BACK_RANK), 300, net, certainty=True, n_scl=0).result(0)
    assert (result.best_move, result.mate) == ("d1d8", 1)
    assert result.best.visits < max(move.visits for move in result.moves)
    hot = SearchParams(temperature=5.0)
    assert {choose_move(result, hot, 10, seed) for seed in range(50)} == {"d1d8"}


def test_a_loss_is_played_by_no_temperature_while_there_is_another_move() -> None:
    start = position("6k1/5ppp/8/8/8/8/1q3PPP/3R2K1 b - - 0 1")
    result = result_of(start, 500, certainty=True, lookahead=True)
    lost = {move.move for move in result.moves if move.certain == -1}
    assert lost
    assert result.best.certain != -1
    assert [m.certain == -1 for m in result.moves] == sorted(m.certain == -1 for m in result.moves)
    played = {choose_move(result, SearchParams(temperature=9.0, temp_visit_offset=5.0), 10, s) for s in range(200)}
    assert not played & lost
    assert len(played) > 3


def test_what_is_proven_agrees_with_tablebases() -> None:
    """With the smallest tables, three men without pawns, or with those of four men in $VALUEREPAIR_SYZYGY."""
    folder = os.environ.get("VALUEREPAIR_SYZYGY", str(Path(__file__).parent / "goldens" / "syzygy"))
    men = ("KQk", "KRk") if "VALUEREPAIR_SYZYGY" not in os.environ else ("KQkr", "KRkb", "KBkn", "KPkp", "KRkp", "KBPk")
    proven = 0
    with chess.syzygy.open_tablebase(folder) as tables:
        for start in endings(men, (0,), 60, 12):
            tree = boards_of(searched(start, 300, certainty=True, lookahead=True), start)
            repeats = any(node.board.is_repetition(3) for node in tree.walk())
            for node in tree.walk():
                if node.depth and not repeats and any(node.board.legal_moves):
                    value = -tables.probe_wdl(node.board)
                    assert node.lower <= (value > 0) - (value < 0) <= node.upper, node.board.fen()
                    proven += (node.lower, node.upper) != (-1, 1)
    assert proven > 100


def test_mates_are_no_longer_than_said_by_gaviotas_tables() -> None:
    gaviota = Path(os.environ.get("VALUEREPAIR_GAVIOTA", "none"))
    if not (gaviota / "kqk.gtb.cp4").is_file():
        pytest.skip("no Gaviota tables (set VALUEREPAIR_GAVIOTA)")
    mates = 0
    with chess.gaviota.open_tablebase(str(gaviota)) as tables:
        for start in endings(("KQk", "KRk"), (0,), 60, 13):
            board = board_of(start)
            for move in mates_of(searched(start, 1500, certainty=True, lookahead=True).result(0)):
                assert move.mate is not None
                board.push_uci(move.move)
                plies = -tables.probe_dtm(board) if not board.is_checkmate() else 0
                mate_plies = 2 * move.mate - 2 if move.mate > 0 else 2 * move.mate + 1
                assert abs(plies) <= abs(mate_plies), (start.fen, move)
                assert plies * mate_plies >= 0, (start.fen, move)
                mates += 1
                board.pop()
    assert mates > 5
