"""The records of training chunks: every input format, history, filters and damage, against games of known moves."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import pytest

from tests.chunk_games import ENDING, ENDING_START, GAME, every_record, run
from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair.archives.options import RecordedOptions

FORMATS = (1, 2, 3, 4, 132, 5, 133)


@pytest.mark.parametrize("input_format", FORMATS)
@pytest.mark.parametrize(("moves", "start"), [(GAME, chess.STARTING_FEN), (ENDING, ENDING_START)])
def test_every_input_format(tmp_path: Path, input_format: int, moves: list[str], start: str) -> None:
    """Symmetries are undone; where canonical formats drop history, it is found in the records before."""
    positions = positions_of(moves, start)
    chunk = write_chunk(tmp_path / "game_1.gz", records_of(positions, moves, input_format))
    batch = every_record(chunk)
    assert batch.fen == [p.fen for p in positions]
    assert [p.moves for p in batch] == [p.moves for p in positions]
    assert [o.played for o in batch.origin] == moves
    assert {p.start_fen for p in batch} == {start}


@pytest.mark.parametrize("first", [0, 3, 4, 5, 11, 20])
def test_what_came_before_the_first_record_is_found_in_its_planes(tmp_path: Path, first: int) -> None:
    positions = positions_of(GAME)
    chunk = write_chunk(tmp_path / "game_1.gz", records_of(positions[first:], GAME[first:]))
    for i, position in enumerate(every_record(chunk)):
        known = min(first, 7) + i
        assert position.moves == tuple(GAME[first + i - known : first + i])
        assert position.fen.split()[:5] == positions[first + i].fen.split()[:5]
        assert position.start_fen.split()[0] == positions[first + i - known].fen.split()[0]
        assert position.history_known


def test_a_record_without_history_is_known_by_its_board(tmp_path: Path) -> None:
    """Also en passant, which the planes do not show: the moves that were legal do."""
    start = "r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 0 20"
    records = records_of(positions_of(["e5d6"], start), ["e5d6"])
    records["planes"][:, 13:] = 0
    found, report = run(write_chunk(tmp_path / "game_1.gz", records))
    assert [p.fen.split()[:4] for p in found] == [start.split()[:4]]
    assert not found[0].history_known
    assert report.without_history == 1
    assert "known by their board alone, without moves before it: 1" in report.lines()


def test_a_missing_record_cuts_no_more_than_it_must(tmp_path: Path) -> None:
    """Behind the gap the seven boards of the next record are known again."""
    records = np.delete(records_of(positions_of(GAME), GAME), 20)
    found, report = run(write_chunk(tmp_path / "game_1.gz", records))
    assert report.parsed == 1
    assert [len(p.moves) for p in found] == [*range(20), *range(7, 7 + len(GAME) - 21)]
    assert found[20].moves == tuple(GAME[14:21])
    assert {p.origin.game for p in found} == {1}


def test_filters_count_what_they_turn_away(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME, best_q=0.5)
    records["orig_q"][:3] = np.nan
    records["best_q"][3] = 7.0
    records["invariance_info"][4] |= 64
    records["visits"][5] = 3
    chunk = write_chunk(tmp_path / "game_1.gz", records)
    found, report = run(chunk, recorded=RecordedOptions("chunks", min_nodes=4), min_ply=8, max_ply=40)
    assert report.rejected_positions == {
        "no value of the net (NaN)": 3,
        "values out of range": 1,
        "deleted by lc0's rescorer": 1,
        "evaluation of fewer than 4 nodes": 1,
        "before ply 8": 2,
        "after ply 40": len(GAME) - 41,
    }
    assert [p.ply for p in found] == list(range(8, 41))
    # Without a wish for recorded values only those are left out that are no position of the game any more.
    assert run(chunk)[1].rejected_positions == {"deleted by lc0's rescorer": 1}


def test_board_filters_agree_with_python_chess(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path / "game_1.gz", records_of(positions_of(GAME), GAME))
    boards = [chess.Board(p.fen) for p in positions_of(GAME)]
    moves = [chess.Move.from_uci(m) for m in GAME]
    quiet = [
        b.fen()
        for b, m in zip(boards, moves, strict=True)
        if not b.is_check() and not b.is_capture(m) and not m.promotion
    ]
    assert [p.fen for p in run(chunk, quiet=True)[0]] == quiet
    few = [b.fen() for b in boards if 20 <= chess.popcount(b.occupied) <= 25]
    assert [p.fen for p in run(chunk, min_pieces=20, max_pieces=25)[0]] == few


def test_damaged_boards_are_counted_and_the_others_stay(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME)
    records["planes"][5, 5] = 0  # no king
    records["planes"][6, 0] |= records["planes"][6, 1]  # two men on one square
    records["castling_us_oo"][40] = 1  # the king has moved
    records["probabilities"][30, 0] = 0.1  # one move more than there are
    found, report = run(write_chunk(tmp_path / "game_1.gz", records))
    assert report.rejected_positions == {
        "illegal position": 2,
        "Chess960": 1,
        "legal moves differ from those recorded": 1,
    }
    assert len(found) == len(GAME) - 4


def test_results_are_seen_from_white(tmp_path: Path) -> None:
    for moves, q, info, result in (
        (GAME[:3], 1, 0, "1-0"),
        (GAME[:4], 1, 0, "0-1"),
        (GAME[:4], 0, 0, "1/2-1/2"),
        (GAME[:4], 0, 48, "*"),
        (GAME[:3], 0.6, 0, "*"),  # a value, as some trainers' records have it
        (GAME[:4], -0.4, 0, "*"),
        (GAME[:3], float("nan"), 0, "*"),
        (GAME[:3], float("inf"), 0, "*"),
    ):
        records = records_of(positions_of(moves), moves, result_q=q, invariance_info=info)
        found, _ = run(write_chunk(tmp_path / "game_1.gz", records))
        assert {p.origin.result for p in found} == {result}, q
    assert run(tmp_path / "game_1.gz", result="1-0")[1].rejected == {"no result": 1}


def test_chunks_have_no_headers_to_filter_by(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path / "game_1.gz", records_of(positions_of(GAME), GAME, result_q=1))
    assert run(chunk, min_elo=2000)[1].rejected == {"no Elo": 1}
    assert run(chunk, result="decisive")[1].parsed == 1


def test_evaluations_of_another_kind_are_not_mixed_in(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path / "game_1.gz", records_of(positions_of(GAME), GAME))
    assert run(chunk, recorded=RecordedOptions("eval"))[1].rejected == {"evaluations of another kind": 1}
