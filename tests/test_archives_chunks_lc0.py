"""Training chunks of the real lc0: what it wrote in self-play comes back as the games it played, move by move."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import chess
import numpy as np
import pytest

from tests.chunk_games import every_record, run
from tests.lc0_selfplay import ENDINGS, OPENINGS, Played, play
from tests.v6_records import read_chunk
from valuerepair.archives.options import RecordedOptions
from valuerepair.nets.net import open_net
from valuerepair.nets.planes import encode

AT_RANDOM = ("--training", "--visits=3", "--temperature=1", "--noise-epsilon=0.5", "--history-fill-new=fen_only")


@pytest.fixture(scope="module")
def played(lc0: str, tmp_path_factory: pytest.TempPathFactory) -> list[Played]:
    """Games with training records, many moves at random."""
    folder = tmp_path_factory.mktemp("selfplay")
    (folder / "book.pgn").write_text(OPENINGS + ENDINGS)
    # Some end before a record is due, and lc0 draws its moves anew each time.
    games = play(lc0, folder / "book.pgn", *AT_RANDOM, "--backend=trivial", games=14)
    assert games is not None
    assert sum(game.chunk is not None for game in games) >= 5
    return [game for game in games if game.chunk is not None]


def boards_of(game: Played) -> list[chess.Board]:
    """The boards in which lc0 recorded a move, with the game before them."""
    board = chess.Board(game.start_fen)
    boards = []
    for ply, move in enumerate(game.moves):
        if ply >= game.book_plies:
            boards.append(board.copy(stack=False))
        board.push_uci(move)
    return boards


@cache
def board_after(start_fen: str, moves: tuple[str, ...]) -> chess.Board:
    """Kept, since the positions of a game have the same first moves; to be read only."""
    if not moves:
        return chess.Board(start_fen)
    board = board_after(start_fen, moves[:-1]).copy(stack=False)
    board.push_uci(moves[-1])
    return board


@pytest.mark.slow
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
            assert board_after(position.start_fen, tuple(position.moves)).fen() == position.fen


def test_history_goes_back_to_the_start_of_the_game_where_the_first_record_knows_it(played: list[Played]) -> None:
    for game in played:
        assert game.chunk is not None
        found, _ = run(game.chunk)
        # Of a double pawn push just before the start lc0 writes the board before it too.
        known = min(game.book_plies + (game.start_fen.split()[3] != "-"), 7)
        played_on = _as_we_write(game)[game.book_plies :]
        for position in found:
            assert position.moves[known:] == played_on[: len(position.moves) - known]
        if game.start_fen == chess.STARTING_FEN and game.book_plies <= 7:
            assert all(p.start_fen == chess.STARTING_FEN and p.ply == len(p.moves) for p in found)


def _as_we_write(game: Played) -> tuple[str, ...]:
    """The moves, castling as the king's move; lc0 has king takes rook."""
    board = chess.Board(game.start_fen)
    moves = []
    for move in map(board.parse_uci, game.moves):
        moves.append(move.uci())
        board.push(move)
    return tuple(moves)


def test_planes_come_out_again_to_the_bit(played: list[Played]) -> None:
    """Men, repetitions and filled history of all eight boards, castling rights, side and clock."""
    for game in played:
        assert game.chunk is not None
        records, batch = read_chunk(game.chunk), every_record(game.chunk)
        planes = encode(batch)
        bits = np.packbits(planes[:, :104].astype(np.bool_), axis=3).reshape(len(records), -1).view("<u8")
        assert np.array_equal(bits, records["planes"])
        assert np.array_equal(planes[:, 109, 0, 0], records["rule50_count"])
        assert np.array_equal(planes[:, 108, 0, 0], records["side_to_move_or_enpassant"])
        for k, name in enumerate(("castling_us_ooo", "castling_us_oo", "castling_them_ooo", "castling_them_oo")):
            assert np.array_equal(planes[:, 104 + k, 0, 0], records[name])


def test_values_and_moves_are_those_of_the_records(played: list[Played]) -> None:
    for game in played:
        assert game.chunk is not None
        records, batch = read_chunk(game.chunk), every_record(game.chunk)
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


@pytest.mark.slow
def test_the_nets_value_is_that_of_the_rebuilt_position(lc0: str, shared_data: Path, tmp_path: Path) -> None:
    """Through boards, history and planes: our evaluation of what came out of a chunk is the one lc0 wrote into it."""
    weights = shared_data / "nets" / "maia-1900.pb.gz"
    (tmp_path / "book.pgn").write_text(OPENINGS + ENDINGS)
    own = ("--backend=eigen", f"--weights={weights}", "--cache-history-length=7")  # else of another order of moves
    games = play(lc0, tmp_path / "book.pgn", *AT_RANDOM, *own, games=2)
    assert games is not None
    off: list[float] = []
    with open_net(str(weights)) as net:
        for game in games:
            assert game.chunk is not None
            batch, records = every_record(game.chunk), read_chunk(game.chunk)
            assert len(batch) == len(records)
            values = net.evaluate(batch)
            assert values.wdl is not None
            differences = np.abs([values.q - records["orig_q"], values.wdl[:, 1] - records["orig_d"]])
            off += differences.max(0).tolist()
    # lc0's cache does not tell apart boards before the last that were a repetition from those that were none.
    assert len(off) > 30
    assert np.mean(np.array(off) < 1e-5) > 0.9
