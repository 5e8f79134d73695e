"""Filters, shares, uniform samples, deduplication and determinism; files that hold no games."""

from __future__ import annotations

import collections
import gzip
import os
import re
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair.archives.options import SampleOptions, fits_time_control, speed
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import read_whole_games, sample
from valuerepair.archives.select import KeySet, in_share, lowest_of_each, scrambled
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError, ValueRepairError

GAME = (
    '[Event "E"]\n[White "{white}"]\n[Black "{black}"]\n[WhiteElo "{elo}"]\n[BlackElo "2300"]\n'
    '[TimeControl "{control}"]\n[Result "{result}"]\n\n{moves} {result}\n\n'
)
SPANISH = "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Bxc6 dxc6 5. O-O f6 6. d4 exd4 7. Nxd4 c5 8. Nb3 Qxd1 9. Rxd1"


def game(**changes: str) -> str:
    values = {"white": "Anna", "black": "Bea", "elo": "2100", "control": "180+2", "result": "1-0", "moves": SPANISH}
    return GAME.format(**{**values, **changes})


def run(tmp_path: Path, text: str, **options: Any) -> tuple[list[Position], ReadReport]:
    path = tmp_path / "games.pgn"
    path.write_text(text)
    return run_paths([path], **options)


def run_paths(paths: list[Path], **options: Any) -> tuple[list[Position], ReadReport]:
    report = ReadReport()
    batches = sample([str(p) for p in paths], SampleOptions(**options), report)
    positions = [p for batch in batches for p in batch]
    assert report.adds_up, report
    return positions, report


@pytest.mark.parametrize(
    ("options", "changes", "reason"),
    [
        ({"min_elo": 2200}, {}, "Elo below 2200"),
        ({"min_elo": 2200}, {"elo": "?"}, "no Elo"),
        ({"player": "carl"}, {}, "other players"),
        ({"result": "0-1"}, {}, "other result"),
        ({"result": "decisive"}, {"result": "1/2-1/2"}, "other result"),
        ({"result": "1-0"}, {"result": "*"}, "no result"),
        ({"time_control": "rapid"}, {}, "other time control"),
        ({"time_control": "180+3"}, {}, "other time control"),
        ({"time_control": "blitz"}, {"control": "?"}, "no known time control"),
    ],
)
def test_header_filters_reject_before_parsing(
    tmp_path: Path, options: dict[str, Any], changes: dict[str, str], reason: str
) -> None:
    # The moves could not be parsed: had the reader seen them, the reason would be another.
    _, report = run(tmp_path, game(**{**changes, "moves": "1. e4 e5 2. Ke8"}), **options)
    assert report.rejected == {reason: 1}


@pytest.mark.parametrize(
    "options",
    [
        {"min_elo": 2100},
        {"player": "ANN"},
        {"player": "bea"},
        {"result": "decisive"},
        {"result": "1-0"},
        {"time_control": "blitz"},
        {"time_control": "rapid, 180+2"},
    ],
)
def test_header_filters_let_through(tmp_path: Path, options: dict[str, Any]) -> None:
    assert run(tmp_path, game(), **options)[1].parsed == 1


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("60+0", "bullet"),
        ("120+1", "bullet"),
        ("180+0", "blitz"),
        ("300+3", "blitz"),
        ("600+0", "rapid"),
        ("900+10", "rapid"),
        ("1500+0", "classical"),
        ("1800+5.232", "classical"),
        ("40/7200:3600", "classical"),
        ("20/600", "rapid"),
        ("0.25/move", "bullet"),
        ("-", "correspondence"),
        ("1/259200", "correspondence"),
        ("?", None),
        ("", None),
        ("90 minutes", None),
    ],
)
def test_classes_of_time_control_are_those_of_lichess(tag: str, expected: str | None) -> None:
    assert speed(tag) == expected
    assert fits_time_control(tag, "bullet,blitz,rapid,classical,correspondence") is (None if expected is None else True)


def test_ply_filters_are_inclusive_and_counted(tmp_path: Path) -> None:
    positions, report = run(tmp_path, game(), per_game=None, min_ply=3, max_ply=10)
    assert [p.ply for p in positions] == list(range(3, 11))
    assert report.rejected_positions == {"before ply 3": 3, "after ply 10": 6}


def test_board_filters_agree_with_python_chess(shared_data: Path) -> None:
    path = shared_data / "pgn" / "iccf-scca.pgn"
    everything, _ = run_paths([path], per_game=None, min_ply=0)
    boards = {p.key: (chess.Board(p.fen), chess.Move.from_uci(p.origin.played or "")) for p in everything}
    # Of equal positions only the first is kept, and another move may be played in the next: filter unique ones.
    no_check, report = run_paths([path], per_game=None, min_ply=0, no_check=True)
    assert {p.key for p in no_check} == {key for key, (board, _) in boards.items() if not board.is_check()}
    assert report.rejected_positions["in check"] > 50
    for position in run_paths([path], per_game=None, min_ply=0, quiet=True)[0]:
        board, move = chess.Board(position.fen), chess.Move.from_uci(position.origin.played or "")
        assert not board.is_check()
        assert not board.is_capture(move)
        assert not move.promotion
    forcing = {k for k, (b, m) in boards.items() if b.is_check() or b.is_capture(m) or m.promotion}
    quiet, _ = run_paths([path], per_game=None, min_ply=0, quiet=True)
    assert {p.key for p in quiet} >= set(boards) - forcing
    few, report = run_paths([path], per_game=None, min_ply=0, min_pieces=10, max_pieces=12)
    assert {p.key for p in few} == {k for k, (b, _) in boards.items() if 10 <= len(b.piece_map()) <= 12}
    assert set(report.rejected_positions) == {"more than 12 pieces", "fewer than 10 pieces"}


@pytest.mark.parametrize("options", [{}, {"per_game": 3}, {"per_game": None, "positions": 500}, {"game_share": 0.3}])
def test_the_seed_alone_decides(shared_data: Path, options: dict[str, Any]) -> None:
    path = shared_data / "pgn" / "leela-ID352.pgn.gz"
    one = run_paths([path], **options, seed=7, threads=1)
    four = run_paths([path], **options, seed=7, threads=4)
    assert one[0] == four[0]
    assert one[1] == four[1]
    other = run_paths([path], **options, seed=8)[0]
    assert {p.key for p in other} != {p.key for p in one[0]}


def test_packing_and_place_of_a_file_do_not_matter(tmp_path: Path, shared_data: Path) -> None:
    packed = shared_data / "pgn" / "leela-ID352.pgn.gz"
    plain = tmp_path / "leela-ID352.pgn"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    options = {"game_share": 0.1}
    assert [p.key for p in run_paths([plain], **options)[0]] == [p.key for p in run_paths([packed], **options)[0]]
    in_folder, _ = run_paths([tmp_path], **options)
    assert [p.fen for p in in_folder] == [p.fen for p in run_paths([plain], **options)[0]]


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_from_its_beginning(packed: bool) -> None:
    text = "".join(game(white=str(i)) for i in range(1000)).encode()
    reading, writing = os.pipe()
    content = gzip.compress(text) if packed else text

    def write() -> None:
        with open(writing, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    report = run_paths([Path(f"/dev/fd/{reading}")])[1]
    writer.join()
    os.close(reading)
    assert (report.games, report.bytes_read) == (1000, len(text))


def test_a_folder_of_single_games_is_sampled_by_its_share(tmp_path: Path) -> None:
    for i in range(300):
        (tmp_path / f"game{i}.pgn").write_text(game())
    report = run_paths([tmp_path], game_share=0.2)[1]
    assert 30 <= report.parsed <= 90  # 60 expected, 7 standard deviation
    assert report.parsed + report.not_sampled == 300


def test_n_positions_are_uniform_over_the_distinct_ones(tmp_path: Path) -> None:
    short = [game(moves=f"1. {a} {b}") for a in ("e4", "d4", "c4", "f4") for b in ("e5", "d5", "c5", "f5", "g6")]
    text = "".join(short * 5)
    everything, report = run(tmp_path, text, per_game=None, min_ply=0)
    assert len(everything) == 5
    assert report.duplicates == 200 - 5
    counts: collections.Counter[int] = collections.Counter()
    for seed in range(300):
        positions, report = run(tmp_path, text, per_game=None, min_ply=0, positions=2, seed=seed)
        assert len(positions) == 2
        counts.update(p.key for p in positions)
    # The initial position is in every game, each other one in a quarter of them: all are drawn 120 times of 300.
    assert set(counts) == {p.key for p in everything}
    assert all(80 <= count <= 160 for count in counts.values())


def test_more_positions_than_there_are(tmp_path: Path) -> None:
    positions, report = run(tmp_path, game() * 3, per_game=None, min_ply=0, positions=100)
    assert len(positions) == 17
    assert report.duplicates == 2 * 17
    assert report.not_drawn == 0


def test_plies_are_drawn_evenly(tmp_path: Path) -> None:
    counts: collections.Counter[int] = collections.Counter()
    for seed in range(400):
        counts.update(p.ply for p in run(tmp_path, game(), seed=seed)[0])
    assert set(counts) == set(range(8, 17))
    assert all(15 <= count <= 80 for count in counts.values())  # 44 expected


def test_positions_are_the_same_through_castling_rights_and_legal_en_passant_only(tmp_path: Path) -> None:
    text = game(moves="1. e4 e5 2. Nf3 Nc6") + game(moves="1. Nf3 Nc6 2. e4 e5")
    _, report = run(tmp_path, text, per_game=None, min_ply=0)
    assert report.duplicates == 1  # the initial position; after 2. e4 e5 nothing more is played


def test_files_in_which_there_is_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pgn"
    empty.touch()
    with pytest.raises(ValueRepairError, match=r"empty\.pgn: no games found; the file is empty"):
        run_paths([empty])
    junk = tmp_path / "junk.pgn"
    junk.write_bytes(np.random.default_rng(1).bytes(300_000))
    with pytest.raises(ValueRepairError, match=r"junk\.pgn: no games found; this is not PGN"):
        run_paths([junk])
    words = tmp_path / "words.txt"
    words.write_text("Dear reader,\n\nthis is a letter.\n")
    with pytest.raises(ValueRepairError, match="no games found"):
        run_paths([words])
    full = tmp_path / "full.pgn"
    full.write_text(game())
    positions, report = run_paths([empty, junk, full])
    assert len(positions) == 1
    assert report.empty == [str(empty)]
    assert report.lines()[-1] == f"empty: {empty}"


def test_a_cut_archive_gives_all_games_before_the_cut(tmp_path: Path) -> None:
    text = "".join(game(white=f"Player {i}", moves=SPANISH) for i in range(3000))
    packed = gzip.compress(text.encode())
    path = tmp_path / "cut.pgn.gz"
    path.write_bytes(packed[: len(packed) // 2])
    _, report = run_paths([path])
    assert report.rejected == {"cut off": 1}
    assert 1000 < report.parsed < 2000
    assert [source for source, _ in report.truncated] == [str(path)]
    assert "breaks off" in report.truncated[0][1]
    assert report.lines()[-1].startswith(f"broken off: {path}: the gzip stream breaks off")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_game": 0}, "--per-game 0: give at least 1"),
        ({"positions": -1}, "--positions -1"),
        ({"game_share": 0.0}, "--game-share 0.0"),
        ({"min_ply": 9, "max_ply": 8}, "--min-ply 9 is above --max-ply 8"),
        ({"min_pieces": 9, "max_pieces": 8}, "--min-pieces 9 is above"),
        ({"result": "win"}, "--result win: give one of 1-0"),
        ({"time_control": "fast"}, "--time-control fast: give one of bullet"),
        ({"time_control": ""}, "--time-control"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        SampleOptions(**options)
    assert message in str(error.value)


def test_the_generator_can_be_left_early(shared_data: Path) -> None:
    import threading

    before = threading.active_count()
    batches = sample([str(shared_data / "pgn" / "otb-masters.pgn.zst")], SampleOptions(), ReadReport())
    assert isinstance(batches, Generator)
    next(batches)
    batches.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("options", [{}, {"per_game": 3}, {"per_game": 3, "positions": 2000}])
def test_the_copy_of_a_game_gives_no_positions(tmp_path: Path, shared_data: Path, options: dict[str, Any]) -> None:
    """An archive and its copy, by other names, have the sample of the archive. Each copy would have
    positions drawn for itself, and its own part in a split."""
    archive = shared_data / "pgn" / "iccf-scca.pgn"
    names = re.compile(r'\[(White|Black) "([^"]*)"\]')
    copy = tmp_path / "copy.pgn"
    copy.write_text(names.sub(r'[\1 "\2, as others write it"]', archive.read_text()))
    alone, whole = run_paths([archive], **options)
    together, report = run_paths([archive, copy], **options)
    assert together == alone
    assert report.looked_at == 2 * whole.looked_at
    assert len(alone) == whole.positions > 70


def test_the_key_of_a_game_is_its_moves(tmp_path: Path) -> None:
    """Also in another archive and format, with other headers, and whatever is drawn of it."""
    longer, start = SPANISH + " 9... h6", "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
    text = game() + game(moves=longer) + game(moves=longer[:-1] + "5") + game(white="Cleo")
    drawn, _ = run(tmp_path, text)
    (tmp_path / "all.pgn").write_text(text)
    blocks = read_whole_games([str(tmp_path / "all.pgn")], SampleOptions(), ReadReport())
    batches = [rows.batch(np.ones(len(rows.keys), np.bool_)) for rows in blocks]
    keys = {game.number: game.key for batch in batches for game in batch.origin.game}
    assert {p.origin.game: p.origin.game_key for p in drawn}.items() < keys.items()
    assert keys[1] == keys[4]
    assert len({*keys.values()}) == 3
    board = chess.Board()
    moves = [board.push_san(word).uci() for word in longer.split() if not word[0].isdigit()]
    chunk = write_chunk(tmp_path / "training.1.gz", records_of(positions_of(moves), moves))
    assert {p.origin.game_key for p in run_paths([chunk], per_game=None)[0]} == {keys[2]}
    (tmp_path / "a.epd").write_text(f"{start}\n{start[:-2]}7\n{start.replace('w', 'b')}\n")
    (tmp_path / "b.jsonl").write_text(f'{{"fen":"{start[:-4]}","evals":[]}}\n')
    lines = [p for name in ("a.epd", "b.jsonl") for p in run_paths([tmp_path / name], per_game=None)[0]]
    of_board = {p.fen.split()[1]: p.origin.game_key for p in lines}
    assert [p.origin.game_key for p in lines] == [of_board[p.fen.split()[1]] for p in lines]
    assert len({*of_board.values(), *keys.values(), 0}) == 6


def test_equal_moves_from_another_start_are_another_game(tmp_path: Path) -> None:
    without_h_pawns = '[SetUp "1"]\n[FEN "rnbqkbnr/ppppppp1/8/8/8/8/PPPPPPP1/RNBQKBNR w KQkq - 0 1"]\n'
    positions, _ = run(tmp_path, game() + without_h_pawns + game() + game(moves=SPANISH + " 9... h6"))
    assert [p.origin.game for p in positions] == [1, 2, 3]


def test_progress_counts_all_bytes_of_the_files(shared_data: Path) -> None:
    path = shared_data / "pgn" / "tcec-lc0-s16.pgn.zst"
    counted: list[int] = []
    for _ in sample([str(path)], SampleOptions(), ReadReport(), on_bytes=counted.append):
        pass
    assert sum(counted) == path.stat().st_size


def test_the_key_set_is_a_set() -> None:
    rng = np.random.default_rng(0)
    keys = KeySet()
    seen: set[int] = set()
    for _ in range(50):
        batch = rng.integers(1, 30_000, 2000).astype(np.uint64)
        expected = []
        for key in batch.tolist():
            expected.append(key not in seen)
            seen.add(key)
        assert keys.add(batch).tolist() == expected
    assert keys.size == len(seen)


def test_priorities_are_mixed_well() -> None:
    values = scrambled(np.arange(1 << 16, dtype=np.uint64))
    assert len(np.unique(values)) == 1 << 16
    bits = (values[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.01
    assert abs(in_share(values, 0.25).mean() - 0.25) < 0.01
    small, large = in_share(values, 0.1), in_share(values, 0.2)
    assert not (small & ~large).any()


def test_lowest_of_each_group() -> None:
    groups = np.array([0, 0, 0, 2, 2, 5])
    priorities = np.array([9, 1, 5, 7, 3, 8], np.uint64)
    assert lowest_of_each(groups, priorities, 1).tolist() == [1, 4, 5]
    assert lowest_of_each(groups, priorities, 2).tolist() == [1, 2, 3, 4, 5]
