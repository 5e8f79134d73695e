"""Training chunks: what the real lc0 wrote in self-play comes back as the games it played, move by move."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.lc0_selfplay import Played, play
from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair import v6
from valuerepair.archives import ReadReport, SampleOptions, sample
from valuerepair.archives.chunks import ChunkBlock, parse_chunks
from valuerepair.archives.open import Source, find_sources, total_bytes
from valuerepair.archives.recorded_options import RecordedOptions
from valuerepair.errors import ValueRepairError
from valuerepair.nets import find_lc0, open_net
from valuerepair.nets.planes import encode
from valuerepair.positions import Position, PositionBatch

BOOK = """1. e4 c5 2. Nf3 d6 *

[FEN "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"]

*

[FEN "4k3/8/8/8/8/8/4P3/4K3 w - - 5 39"]

1. e4 Kd7 *

[FEN "r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 0 20"]

*

[FEN "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 11 3"]

*

1. e4 Nf6 2. e5 d5 3. d4 Nc6 4. Nc3 Be6 5. Nf3 Qd7 6. Bd3 O-O-O 7. O-O *

"""
FILLS = ("no", "fen_only")


@pytest.fixture(scope="module")
def lc0() -> str:
    path = find_lc0()
    if path is None:
        pytest.skip("no lc0 on this machine")
    return path


@pytest.fixture(scope="module", params=FILLS)
def played(lc0: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Played]:
    """Games with training records, many moves at random, by a history fill."""
    folder = tmp_path_factory.mktemp(f"selfplay-{request.param}")
    (folder / "book.pgn").write_text(BOOK)
    games = play(
        lc0,
        folder / "book.pgn",
        "--training",
        "--backend=trivial",
        "--visits=3",
        "--temperature=1",
        "--noise-epsilon=0.5",
        f"--history-fill-new={request.param}",
        games=7,
    )
    assert games is not None
    assert sum(game.chunk is not None for game in games) >= 5
    return [game for game in games if game.chunk is not None]


def run(*paths: Path, **options: object) -> tuple[list[Position], ReadReport]:
    report = ReadReport()
    chosen: dict[str, object] = {"per_game": None, "min_ply": 0, **options}
    batches = sample([str(p) for p in paths], SampleOptions(**chosen), report)  # type: ignore[arg-type]  # any option
    found = [p for batch in batches for p in batch]
    assert report.adds_up, report
    return found, report


def read(path: Path) -> NDArray[np.void]:
    records: NDArray[np.void] = np.frombuffer(gzip.decompress(path.read_bytes()), v6.RECORD)
    return records


def boards_of(game: Played) -> list[chess.Board]:
    """The boards in which lc0 recorded a move, with the game before them."""
    board = chess.Board(game.start_fen)
    boards = []
    for ply, move in enumerate(game.moves):
        if ply >= game.book_plies:
            boards.append(board.copy())
        board.push_uci(move)
    return boards


def test_positions_moves_and_results_are_those_of_the_games(played: list[Played]) -> None:
    for game in played:
        assert game.chunk is not None
        found, report = run(game.chunk, recorded=RecordedOptions("chunks"))
        assert report.looked_at == len(game.moves) - game.book_plies
        assert not report.rejected_positions
        boards: dict[str, chess.Board] = {}
        for board in boards_of(game):
            boards.setdefault(board.epd(), board)  # of equal positions the first is kept
        assert [p.fen.rsplit(" ", 2)[0] for p in found] == list(boards)
        for position in found:
            board = boards[position.fen.rsplit(" ", 2)[0]]
            assert int(position.fen.split()[4]) == board.halfmove_clock
            assert position.origin.result == game.result
            assert position.origin.played is not None
            assert chess.Move.from_uci(position.origin.played) in board.legal_moves
            replayed = chess.Board(position.start_fen)
            for move in position.moves:
                replayed.push_uci(move)
            assert replayed.fen() == position.fen


def test_history_goes_back_to_the_start_of_the_game_where_the_first_record_knows_it(played: list[Played]) -> None:
    for game in played:
        assert game.chunk is not None
        found, _ = run(game.chunk)
        # Of a double pawn push just before the start lc0 writes the board before it too.
        known = min(game.book_plies + (game.start_fen.split()[3] != "-"), 7)
        for position in found:
            plies = len(position.moves) - known
            assert game.moves[game.book_plies : game.book_plies + plies] == _as_lc0(position, plies)
        if game.start_fen == chess.STARTING_FEN and game.book_plies <= 7:
            assert all(p.start_fen == chess.STARTING_FEN and p.ply == len(p.moves) for p in found)


def _as_lc0(position: Position, last: int) -> tuple[str, ...]:
    """The last moves, castling as king takes rook."""
    board = chess.Board(position.start_fen)
    moves = []
    for move in map(chess.Move.from_uci, position.moves):
        moves.append(board.uci(move, chess960=True))
        board.push(move)
    return tuple(moves[len(moves) - last :])


def every_record(chunk: Path) -> PositionBatch:
    """The positions of all records of a chunk, repeated ones too."""
    block = ChunkBlock()
    block.add(Source(str(chunk), "chunk", "chunk"), chunk.read_bytes(), "", 1, 0)
    rows = parse_chunks(block, SampleOptions(per_game=None, min_ply=0))
    return rows.batch(np.ones(len(rows.boards), np.bool_))


def test_planes_come_out_again_to_the_bit(played: list[Played], request: pytest.FixtureRequest) -> None:
    """Men, repetitions and filled history of all eight boards, castling rights, side and clock."""
    fill = request.node.callspec.params["played"]
    for game in played:
        assert game.chunk is not None
        records, batch = read(game.chunk), every_record(game.chunk)
        planes = encode(batch, fill)
        bits = np.packbits(planes[:, :104].astype(np.bool_), axis=3).reshape(len(records), -1).view("<u8")
        assert np.array_equal(bits, records["planes"])
        assert np.array_equal(planes[:, 109, 0, 0], records["rule50_count"])
        assert np.array_equal(planes[:, 108, 0, 0], records["side_to_move_or_enpassant"])
        for k, name in enumerate(("castling_us_ooo", "castling_us_oo", "castling_them_ooo", "castling_them_oo")):
            assert np.array_equal(planes[:, 104 + k, 0, 0], records[name])


def test_values_and_moves_are_those_of_the_records(played: list[Played]) -> None:
    for game in played:
        assert game.chunk is not None
        records, batch = read(game.chunk), every_record(game.chunk)
        for position, record, move in zip(batch, records, game.moves[game.book_plies :], strict=True):
            board, recorded = chess.Board(position.fen), position.origin.recorded
            assert position.origin.played == board.uci(board.parse_uci(move), chess960=False)
            assert recorded is not None
            assert recorded.q == record["best_q"]
            assert recorded.net_q == record["orig_q"]
            assert recorded.nodes == record["visits"]
            assert chess.Move.from_uci(recorded.best_move or "") in board.legal_moves
            assert recorded.wdl is not None
            win, draw, loss = recorded.wdl
            assert win + draw + loss == 1000
            assert (win - loss) / 1000 == pytest.approx(record["best_q"], abs=0.002)


def test_the_nets_value_is_that_of_the_rebuilt_position(lc0: str, shared_data: Path, tmp_path: Path) -> None:
    """Through boards, history and planes: our evaluation of what came out of a chunk is the one lc0 wrote into it."""
    weights = shared_data / "nets" / "maia-1900.pb.gz"
    (tmp_path / "book.pgn").write_text(BOOK)
    games = play(
        lc0,
        tmp_path / "book.pgn",
        "--training",
        "--backend=eigen",
        f"--weights={weights}",
        "--visits=3",
        "--temperature=1",
        "--noise-epsilon=0.5",
        "--cache-history-length=7",  # else lc0 takes the value of another order of moves
        "--history-fill-new=fen_only",
        games=2,
    )
    assert games is not None
    off: list[float] = []
    with open_net(str(weights)) as net:
        for game in games:
            assert game.chunk is not None
            batch, records = every_record(game.chunk), read(game.chunk)
            assert len(batch) == len(records)
            values = net.evaluate(batch)
            assert values.wdl is not None
            differences = np.abs([values.q - records["orig_q"], values.wdl[:, 1] - records["orig_d"]])
            off += differences.max(0).tolist()
    # lc0's cache does not tell apart boards before the last that were a repetition from those that were none.
    assert len(off) > 30
    assert np.mean(np.array(off) < 1e-5) > 0.9


def _moves(text: str) -> list[str]:
    return text.split()


# At random, with castling, en passant and a promotion; then promotions of both sides and a board without pawns.
GAME = _moves(
    "g1f3 c7c5 c2c3 a7a6 d2d4 a6a5 a2a4 d8b6 g2g4 h7h6 d4c5 b6c6 a1a2 c6b5 b1a3 b5a4 f3h4 a4c2 d1d3 b7b6 "
    "d3g6 g8f6 f1g2 c2e4 g4g5 d7d5 e1g1 h6g5 a3c4 c8d7 g6h5 e4g2 g1g2 h8g8 h4f3 b8c6 f1d1 f6g4 d1e1 c6d8 "
    "h5h8 e7e6 c5b6 e6e5 b2b4 g4h6 f3d4 d7c6 e1g1 f8e7 a2b2 a8b8 b6b7 d5c4 g2f1 e7c5 g1g3 c6g2 f1g1 c5b4 "
    "c1f4 e5e4 b2b1 g8h8 b1a1 g5g4 g3e3 a5a4 c3b4 d8e6 b4b5 e8e7 f4b8 h8b8 e3d3 b8a8 f2f4 g4f3 b7a8q e6f4"
)
ENDING_START = "4k3/1P4p1/8/8/8/8/1p4P1/R3K3 w Q - 3 1"
ENDING = _moves("b7b8n b2a1r e1f2 a1a2 f2f3 a2g2 f3g2 e8d8 b8c6 d8c7 g2f3 g7g5 f3g4 c7c6 g4g5 c6d5 g5h4 d5e4")
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
    ):
        records = records_of(positions_of(moves), moves, result_q=q, invariance_info=info)
        found, _ = run(write_chunk(tmp_path / "game_1.gz", records))
        assert {p.origin.result for p in found} == {result}
    assert run(tmp_path / "game_1.gz", result="1-0")[1].rejected == {"no result": 1}


def test_other_versions_are_refused_in_one_line(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME)
    for version in (3, 5, 7):
        write_chunk(tmp_path / f"game_{version}.gz", records)
        records["version"] = version
        write_chunk(tmp_path / f"game_{version}.gz", records)
    with pytest.raises(
        ValueRepairError, match=r"no training chunk of version 6 here: 1 x training data of version 3, 1 x"
    ):
        run(tmp_path)
    records["version"] = 6
    write_chunk(tmp_path / "game_9.gz", records)
    found, report = run(tmp_path)
    assert len(found) == len(GAME)
    assert report.rejected == {f"training data of version {v}": 1 for v in (3, 5, 7)}


def test_truncated_chunks_are_used_up_to_the_cut_and_reported(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME)
    whole = records.tobytes()
    (tmp_path / "game_1.gz").write_bytes(gzip.compress(whole[: 10 * 8356 + 100]))
    (tmp_path / "game_2.gz").write_bytes(gzip.compress(whole)[:-400])
    (tmp_path / "game_3.gz").write_bytes(gzip.compress(whole[:8356])[:-100])
    found, report = run(tmp_path)
    cuts = {Path(name).name: how for name, how in report.truncated}
    assert cuts["game_1.gz"] == "100 bytes behind the last whole record (10 whole records)"
    assert re.fullmatch(r"the gzip stream breaks off \(\d+ whole records\)", cuts["game_2.gz"])
    assert cuts["game_3.gz"] == "the gzip stream breaks off"
    assert report.rejected == {"cut off": 1}
    assert 10 < len(found) <= len(GAME)


def tar_of(path: Path, files: dict[str, bytes], **options: object) -> Path:
    with tarfile.open(path, "w", **options) as tar:  # type: ignore[call-overload]  # any option
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_chunks_and_members_that_are_none(tmp_path: Path, form: int) -> None:
    records = records_of(positions_of(GAME), GAME)
    other = records_of(positions_of(ENDING, ENDING_START), ENDING)
    deep = "a/" * 45 + "b" * (60 if form == tarfile.USTAR_FORMAT else 160) + "/training.2.gz"
    files = {
        "run/training.1.gz": gzip.compress(records.tobytes()),
        "run/README": b"not a chunk",
        "run/empty.gz": gzip.compress(b""),
        deep: gzip.compress(other.tobytes()),
    }
    path = tar_of(tmp_path / "run.tar", files, format=form)
    found, report = run(path)
    assert len(found) == len(GAME) + len(ENDING)
    assert report.games == 4
    assert report.rejected == {"no training chunk": 2}
    assert [what for _, _, what in report.examples] == [
        "no training chunk: run/README",
        "no training chunk: run/empty.gz",
    ]
    assert {p.origin.game for p in found} == {1, 4}
    data = path.read_bytes()
    for p in found:
        assert data[p.origin.offset : p.origin.offset + 2] == b"\x1f\x8b"


def test_a_tar_that_breaks_off(tmp_path: Path) -> None:
    chunk = gzip.compress(records_of(positions_of(GAME), GAME).tobytes())
    path = tar_of(tmp_path / "run.tar", {f"training.{i}.gz": chunk for i in range(3)})
    data = path.read_bytes()
    second = 512 * (1 + (len(chunk) + 511) // 512)
    for size, games, how in (
        (second + 200, 1, f"breaks off at byte {second + 200:,}"),
        (second, 1, f"breaks off at byte {second:,}"),
        (second + 512 + len(chunk) // 2, 2, f"breaks off at byte {second + 512 + len(chunk) // 2:,}"),
    ):
        path.write_bytes(data[:size])
        _, report = run(path)
        assert report.games == games
        assert any(how in line for _, line in report.truncated)
    path.write_bytes(data[: second + 100] + b"x" * 300 + data[second + 400 :])
    assert "damaged at byte" in run(path)[1].truncated[0][1]


def test_packed_tars_single_files_and_folders(tmp_path: Path) -> None:
    chunk = gzip.compress(records_of(positions_of(GAME), GAME).tobytes())
    folder = tmp_path / "folder"
    folder.mkdir()
    tar = tar_of(tmp_path / "run.tar", {"training.1.gz": chunk})
    (folder / "run.tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
    (folder / "run2.tgz").write_bytes(gzip.compress(tar.read_bytes()))
    (folder / "training.12.gz").write_bytes(chunk)
    (folder / "game_000001.gz").write_bytes(chunk)
    (folder / "plain_chunk.gz").write_bytes(chunk)
    (folder / "letters.gz").write_bytes(gzip.compress(b"dear diary"))
    (folder / "net.pb.gz").write_bytes(chunk)
    names = [Path(s.path).name for s in find_sources([str(folder)])]
    assert names == ["game_000001.gz", "plain_chunk.gz", "run.tar.gz", "run2.tgz", "training.12.gz"]
    assert total_bytes([str(folder)]) == 3 * len(chunk) + 2 * (folder / "run.tar.gz").stat().st_size
    found, report = run(folder)
    assert report.parsed == 5
    assert len(found) == len(GAME)
    assert report.duplicates == 4 * len(GAME)
    (tmp_path / "unpacked").write_bytes(gzip.decompress(chunk))
    assert run(tmp_path / "unpacked")[1].parsed == 1


def test_a_folder_of_chunks_is_read_as_a_tar_of_them_is(tmp_path: Path) -> None:
    """Blocks go on from file to file, and each position knows its own."""
    folder = tmp_path / "folder"
    folder.mkdir()
    files = {}
    for i in range(40):
        length = 25 + i % 30
        files[f"training.{i:02}.gz"] = gzip.compress(records_of(positions_of(GAME[:length]), GAME[:length]).tobytes())
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "training.17.gz").write_bytes(files["training.17.gz"][:-300])
    (folder / "training.18.gz").write_bytes(gzip.compress(records_of(positions_of(GAME), GAME, version=5).tobytes()))
    found, report = run(folder, per_game=1, min_ply=20, seed=2)
    assert report.parsed == 39
    assert report.rejected == {"training data of version 5": 1}
    assert [source for source, _, _ in report.examples] == [str(folder / "training.18.gz")]
    assert [source for source, _ in report.truncated] == [str(folder / "training.17.gz")]
    assert {p.origin.game for p in found} == {1}
    assert len({p.origin.source for p in found}) == len(found) > 10  # others are positions of an earlier file
    for p in found:
        ply = len(p.moves)
        assert ply < 25 + int(Path(p.origin.source).name.split(".")[1]) % 30
        assert p.moves == tuple(GAME[:ply])
    assert run(folder, per_game=1, min_ply=20, seed=2, threads=1)[0] == found
    alone = {str(folder / name): run(folder / name, per_game=1, min_ply=20, seed=2)[0] for name in sorted(files)[:5]}
    assert all(alone[p.origin.source] == [p] for p in found if p.origin.source in alone)


def test_draws_do_not_depend_on_threads_and_shares_nest(tmp_path: Path) -> None:
    records = records_of(positions_of(GAME), GAME)
    files = {}
    for i in range(60):
        moves = GAME[: 20 + i % 20]
        files[f"training.{i}.gz"] = gzip.compress(records[: len(moves)].tobytes())
    path = tar_of(tmp_path / "run.tar", files)
    for options in ({"per_game": 2}, {"positions": 15}, {"per_game": 1, "game_share": 0.5}):
        first, report = run(path, threads=1, seed=5, **options)
        assert run(path, threads=3, seed=5, **options)[0] == first
        assert report.games == 60
    small, _ = run(path, game_share=0.2, per_game=1)
    large, report = run(path, game_share=0.6, per_game=1)
    assert report.not_sampled > 10
    assert {p.origin.game for p in small} <= {p.origin.game for p in large} | {p.origin.game for p in small}


def test_chunks_have_no_headers_to_filter_by(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path / "game_1.gz", records_of(positions_of(GAME), GAME, result_q=1))
    assert run(chunk, min_elo=2000)[1].rejected == {"no Elo": 1}
    assert run(chunk, result="decisive")[1].parsed == 1


def test_evaluations_of_another_kind_are_not_mixed_in(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path / "game_1.gz", records_of(positions_of(GAME), GAME))
    assert run(chunk, recorded=RecordedOptions("eval"))[1].rejected == {"evaluations of another kind": 1}
