"""Chunks of games from archives: boards, moves and values by python-chess, and lc0's readers take them."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import valuerepair as vr
from tests import lc0_rescorer
from tests.chunk_games import packed_in, records_in, run
from tests.cli_tree import vr as run_vr
from tests.held_out import hold_out, material_of, part_of, split, without_clocks
from tests.mining_doubles import mine_by_key, random_games
from tests.v6_records import CANONICAL, positions_of, read_chunk, records_of
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess import v6
from valuerepair.chess.positions import PositionBatch, decode_move
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.planes import CLASSICAL, INPUT_FORMATS
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training import chunk_output, game_chunks
from valuerepair.training.game_chunks import GameChunksSummary, write_game_chunks
from valuerepair.training.samples import of_records

Captured = pytest.CaptureFixture[str]
Records = NDArray[np.void]
ALPHA = 170.0
RESULTS = {"1-0": 1, "0-1": -1, "1/2-1/2": 0}

# Castling of both sides, en passant, promotions, a mate; Black to move first; repetitions; a stalemate.
GAMES = """[White "castles"]
[Result "1-0"]

1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. O-O Nf6 5. d3 d6 6. Bg5 Bg4 7. Nc3 Qd7 8. Nd5 O-O-O 9. Bxf6 gxf6 10. Nxf6 1-0

[White "en passant"]
[Result "0-1"]

1. e4 a6 2. e5 d5 3. exd6 Qxd6 4. a4 Qd3 5. a5 b5 6. axb6 cxb6 0-1

[White "promotes"]
[FEN "8/P5k1/8/8/8/8/p5K1/8 b - - 3 60"]
[Result "1/2-1/2"]

60... a1=N 61. a8=Q Nb3 62. Qb8 1/2-1/2

[White "repeats"]
[Result "1/2-1/2"]

1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 1/2-1/2

[White "mates"]
[Result "0-1"]

1. f3 e5 2. g4 Qh4# 0-1

[White "nobody knows"]
[Result "*"]

1. e4 *

"""


def write(archive: Path, out: Path, *given: Any, form: int = CLASSICAL, **named: Any) -> GameChunksSummary:
    """`write_game_chunks`, in this input format, without progress."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(game_chunks, "_input_format", lambda net: form)
        return write_game_chunks([str(archive)], out, *given, **{"progress": Progress("", quiet=True), **named})


def manifest_of(summary: GameChunksSummary) -> dict[str, Any]:
    assert summary.manifest is not None
    return summary.manifest


def chunks_of(text: str, folder: Path, **named: Any) -> list[Records]:
    """The chunks of an archive of this text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "games.pgn").write_text(text, "utf-8")
    write(folder / "games.pgn", folder / "out", **named)
    return [*records_in(folder / "out").values()]


def decided(text: str) -> Iterator[chess.pgn.Game]:
    """The games with moves and a result, by python-chess."""
    stream = io.StringIO(text)
    while (game := chess.pgn.read_game(stream)) is not None:
        if game.headers["Result"] in RESULTS and game.next() is not None:
            yield game


# -- what a record says, by other means -------------------------------------------------------------------------------


def index_of(board: chess.Board, move: chess.Move) -> int:
    """The place of a move in the policy: castling takes the rook, promotion to a knight is the plain move."""
    squares = [move.from_square, move.to_square]
    if board.is_castling(move):
        squares[1] = chess.square(7 if chess.square_file(move.to_square) == 6 else 0, chess.square_rank(squares[0]))
    if board.turn == chess.BLACK:
        squares = [chess.square_mirror(square) for square in squares]
    letter = "" if move.promotion in (None, chess.KNIGHT) else chess.piece_symbol(move.promotion)
    return INDEX["".join(map(chess.square_name, squares)) + letter]


INDEX = {decode_move(move): i for i, move in enumerate(v6.POLICY_MOVES.tolist())}


def check_game(game: chess.pgn.Game, records: Records, form: int = 1) -> None:
    """Every record of a game against python-chess, and planes against the encoder, which is checked against lc0's."""
    moves = [move.uci() for move in game.mainline_moves()]
    wanted = records_of(positions_of(moves, game.board().fen()), moves, form)
    names = [name for name in v6.RECORD.names or () if name.startswith(("castling", "rule50", "planes", "played_idx"))]
    side = () if form in CANONICAL else ("side_to_move_or_enpassant",)
    for name in (*names, *side, "version", "input_format", "best_idx"):
        np.testing.assert_array_equal(records[name], wanted[name], err_msg=name)
    info = records["invariance_info"]
    np.testing.assert_array_equal(info & ~np.uint8(v6.ADJUDICATED), wanted["invariance_info"])
    legal = wanted["probabilities"] >= 0
    played = np.arange(1858) == wanted["played_idx"][:, None].astype(int)
    np.testing.assert_array_equal(records["probabilities"], np.where(legal, played, -1))
    signs = np.where(np.arange(len(moves)) % 2 == 0, 1, -1) * (1 if game.board().turn else -1)
    z = RESULTS[game.headers["Result"]]
    np.testing.assert_array_equal(records["result_q"], z * signs)
    assert (records["result_d"] == (z == 0)).all()
    for name in ("plies_left", "root_m", "best_m", "played_m"):
        np.testing.assert_array_equal(records[name], np.arange(len(moves), 0, -1))
    assert np.isnan([records["orig_q"], records["orig_d"], records["orig_m"]]).all()
    board = game.end().board()
    over = board.is_checkmate() or board.is_stalemate() or board.is_insufficient_material() or board.is_repetition(3)
    assert ((info & v6.ADJUDICATED == 0) == over).all()


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_games_say_what_python_chess_says(tmp_path: Path, form: int) -> None:
    chunks = chunks_of(GAMES, tmp_path, form=form)
    games = list(decided(GAMES))
    assert len(chunks) == len(games) == 5
    for game, records in zip(games, chunks, strict=True):
        check_game(game, records, form)
        lc0_rescorer.check_valid(records)
        assert (records["visits"] == 0).all()
        for name in ("best", "root", "played"):
            assert (records[f"{name}_q"] == records["result_q"]).all()
            assert (records[f"{name}_d"] == records["result_d"]).all()


@given(seed=st.integers(0, 2**32), form=st.sampled_from(INPUT_FORMATS), plies=st.integers(1, 120))
@settings(max_examples=15, deadline=None)
def test_random_games_say_what_python_chess_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int, form: int, plies: int
) -> None:
    dice, texts = random.Random(seed), []
    for start in (chess.STARTING_FEN, "r3k2r/1P4P1/8/3pP3/3Pp3/8/1p4p1/R3K2R b KQkq d3 0 20"):
        board = chess.Board(start)
        while not board.is_game_over() and board.ply() < plies + 40:
            board.push(dice.choice(list(board.legal_moves)))
        game = chess.pgn.Game.from_board(board)
        game.headers["Result"] = dice.choice(list(RESULTS))
        texts.append(f"{game}\n\n")
    text = "".join(texts)
    chunks = chunks_of(text, tmp_path_factory.mktemp("random"), form=form)
    for game, records in zip(decided(text), chunks, strict=True):
        check_game(game, records, form)
        lc0_rescorer.check_valid(records)


# -- evaluations ------------------------------------------------------------------------------------------------------


def logistic(cp: float, alpha: float = ALPHA) -> float:
    return 2 / (1 + math.exp(-cp / alpha)) - 1


def eval_q(node: chess.pgn.GameNode, alpha: float = ALPHA) -> float | None:
    """Q of a node's [%eval], by python-chess, from the side to move."""
    score = node.eval()
    if score is None:
        return None
    relative = score.relative
    if relative.is_mate():
        return 1.0 if relative.mate() > 0 else -1.0  # type: ignore[operator]  # it is a mate
    return logistic(relative.score(), alpha)  # type: ignore[arg-type]


def check_evals(game: chess.pgn.Game, records: Records, alpha: float = ALPHA) -> int:
    """best_*, root_*, played_* and visits of a game with [%eval]; how many positions have one."""
    nodes = [game, *list(game.mainline())]
    node_q = [eval_q(node, alpha) for node in nodes]
    node_q[0] = None  # nobody moved there
    for i, record in enumerate(records):
        q, after = node_q[i], node_q[i + 1]
        if q is None:
            assert (record["best_q"], record["best_d"]) == (record["result_q"], record["result_d"])
            is_last_of_known = i == len(records) - 1 and any(q is not None for q in node_q[: len(records)])
            assert (record["visits"], record["played_q"]) == (int(is_last_of_known), record["best_q"])
            continue
        assert record["best_q"] == record["root_q"] == pytest.approx(q, abs=1e-6)
        assert record["best_d"] == record["root_d"] == pytest.approx((1 - q * q) / 2, abs=1e-6)
        assert record["played_q"] == pytest.approx(q if after is None else -after, abs=1e-6)
        assert record["visits"] == 1
    return sum(q is not None for q in node_q[: len(records)])


def test_evaluations_of_lichess(shared_data: Path, tmp_path: Path) -> None:
    """An archive of some hundred games, the evaluations read by python-chess."""
    games_of_all = (shared_data / "pgn" / "lichess-blitz.pgn").read_text("utf-8").split("\n\n[Event ")
    path = tmp_path / "blitz.pgn"
    path.write_text("\n\n[Event ".join(games_of_all[:300]) + "\n", "utf-8")
    manifest = manifest_of(write(path, tmp_path / "out", question=Question(alpha=250.0)))
    chunks, games = [*records_in(tmp_path / "out").values()], list(decided(path.read_text("utf-8")))
    assert len(chunks) == len(games) == manifest["chunks"] > 250
    evaluated = [check_evals(game, records, 250.0) for game, records in zip(games, chunks, strict=True)]
    assert sum(evaluated) == manifest["evaluated"] > 1000
    for game, records in list(zip(games, chunks, strict=True))[::25]:
        check_game(game, records)


EVALUATED = """[White "engine"]
[Black "other"]
[Result "0-1"]

1. e4 {{{}}} e5 {{{}}} 2. Nf3 {{{}}} Nc6 {{{}}} 0-1

"""


@pytest.mark.parametrize(
    ("comments", "expected", "visits"),
    [
        # After the move, White's view; a mate, and one comment without.
        (
            ("[%eval 0.5]", "[%eval -1.2]", "no", "[%eval #-3]"),
            (None, -logistic(50), -logistic(120) * -1 * -1, None),
            1,
        ),
        # Before the move, the mover's view; M counts plies.
        (("+0.50/12 1s", "-0.30/9 1s, n=77", "-M4/20 0.1s", "book"), (logistic(50), -logistic(30), -1.0, None), 1),
        # Before the move, White's view, with nodes.
        (
            ("d=9, n=5000, wv=0.25", "d=9, n=5000, wv=0.25", "d=9, n=5000, wv=-M8", "d=0, n=0, wv=0.00"),
            (logistic(25), -logistic(25), -1.0, None),
            5000,
        ),
    ],
)
def test_whose_evaluation_and_of_which_position(
    tmp_path: Path, comments: Sequence[str], expected: Sequence[float | None], visits: int
) -> None:
    (records,) = chunks_of(EVALUATED.format(*comments), tmp_path)
    result = [-1, 1, -1, 1]
    for record, q, z in zip(records, expected, result, strict=True):
        assert record["best_q"] == record["root_q"] == pytest.approx(z if q is None else q, abs=1e-6)
        assert record["result_q"] == z
    # lc0's rescorer deblunders no game whose last record has no visits.
    assert (records["visits"][:-1] > 0).tolist() == [q is not None for q in expected[:-1]]
    assert records["visits"][-1] == 1
    assert records["visits"].max() == max(visits, 77 if "n=77" in comments[1] else 0)
    # Results that stand in for values are neither imported as a search's values nor held against a net.
    is_known = [q is not None for q in expected]
    assert (~np.isnan(of_records(records, 0).deep_q)).tolist() == is_known
    records = records.copy()
    records["orig_q"] = records["orig_d"] = 0
    (tmp_path / "game.gz").write_bytes(gzip.compress(records.tobytes()))
    found, report = run(tmp_path / "game.gz", recorded=RecordedOptions("chunks"))
    assert [len(position.moves) for position in found] == np.flatnonzero(is_known).tolist()
    assert report.rejected_positions == {"no evaluation": is_known.count(False)}


def test_lc0s_rescorer_deblunders_games_whose_last_position_has_no_value(tmp_path: Path) -> None:
    """By the values 1... e5 loses a game that Black was winning: White's win says nothing about what comes before."""
    comments = ("[%eval -1.0]", "[%eval 1.0]", "", "")
    chunks_of(EVALUATED.format(*comments).replace("0-1", "1-0"), tmp_path)
    deblunder = ("--deblunder", "--deblunder-q-blunder-threshold=0.1", "--deblunder-q-blunder-width=0.06")
    assert lc0_rescorer.taken(tmp_path / "out", tmp_path / "lc0", *deblunder) == 1
    [path] = (tmp_path / "lc0").iterdir()
    records = read_chunk(path)
    assert records["result_q"] == pytest.approx([-logistic(100), logistic(100), 1, -1], abs=1e-6)


# -- a store ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An archive of random decided games, and a store of some of its positions, of which nothing is held out."""
    folder = tmp_path_factory.mktemp("judged")
    text = random_games(folder / "raw.pgn", 60, seed=5, plies=70).read_text()
    dice = random.Random(1)
    parts = [part.replace('[Result "*"]', f'[Result "{dice.choice(list(RESULTS))}"]') for part in text.split("\n\n\n")]
    archive = folder / "random.pgn"
    archive.write_text("\n\n\n".join(parts))
    mine_by_key(archive, folder / "a.db")
    return archive, hold_out(folder / "a.db", split())


def judged_rows(db: Path) -> dict[str, tuple[float, str | None]]:
    """Q and best move by FEN without clocks, by raw SQL and the formula."""
    query = """SELECT p.fen, v.cp, v.mate, v.best_move FROM deep_values v JOIN positions p ON p.id = v.position_id
        WHERE v.failed IS NULL"""
    with sqlite3.connect(db) as connection:
        return {
            fen.rsplit(" ", 2)[0]: (math.copysign(1, mate) if mate is not None else logistic(cp), best)
            for fen, cp, mate, best in connection.execute(query)
        }


@pytest.mark.parametrize("share", [None, 1.0, 0.25])
def test_judged_values_and_moves(mined: tuple[Path, Path], tmp_path: Path, share: float | None) -> None:
    archive, db = mined
    options: dict[str, Any] = {} if share is None else {"policy": "judge", "policy_share": share}
    with Store.open(db) as store:
        summary = write(archive, tmp_path / "out", store=store, **options)
    judged, seen = judged_rows(db), 0
    for game, records in zip(decided(archive.read_text()), records_in(tmp_path / "out").values(), strict=True):
        lc0_rescorer.check_valid(records)
        board = game.board()
        for record, move in zip(records, game.mainline_moves(), strict=True):
            judgement = judged.get(board.fen(en_passant="fen").rsplit(" ", 2)[0]) or judged.get(
                board.fen(en_passant="legal").rsplit(" ", 2)[0]
            )
            played = index_of(board, move)
            assert record["played_idx"] == played
            if judgement is None:
                assert (record["best_idx"], record["probabilities"][played]) == (played, 1)
                assert record["visits"] == 0 or len(board.move_stack) == len(records) - 1
                assert record["best_q"] == record["result_q"]
            else:
                seen += 1
                q, best = judgement
                best_idx = played if best is None else index_of(board, chess.Move.from_uci(best))
                assert record["best_q"] == record["root_q"] == pytest.approx(q, abs=1e-6)
                assert record["best_idx"] == best_idx
                part = 0.0 if share is None else share
                if best_idx == played:
                    assert record["probabilities"][played] == 1
                else:
                    assert record["probabilities"][[played, best_idx]] == pytest.approx([1 - part, part])
                assert record["visits"] > 0
            board.push(move)
    assert seen == manifest_of(summary)["judged"] > 100


MATERIALS = ("KQRBNvKQRB", "KQRBNvKQRN", "KQRBNvKQBN", "KQRBNvKRBN")


def test_held_out_games_and_positions_stay_out(mined: tuple[Path, Path], tmp_path: Path) -> None:
    """By raw SQL: no position that is held out is in any chunk, and no game; no held-out material of other games."""
    archive, db = mined
    db = hold_out(Path(shutil.copy(db, tmp_path / "a.db")), split(games=0.4, materials=MATERIALS, seed=3))
    with Store.open(db) as store:
        manifest = manifest_of(write(archive, tmp_path / "out", store=store))
    held = {fen for fen, part in part_of(db).items() if part != "train"}
    boards = {
        without_clocks(position.fen)
        for batch in sample([str(tmp_path / "out")], SampleOptions(per_game=None, min_ply=0), ReadReport())
        for position in batch
    }
    assert held
    assert not boards & held
    assert not {material_of(fen) for fen in boards} & set(MATERIALS)
    assert manifest["cut_behind"] > 0
    hold_out(db, split(games=0.4, seed=3))
    with Store.open(db) as store:
        summary = write(archive, tmp_path / "games", store=store)
        query = "SELECT count(DISTINCT game_id) FROM positions WHERE part = 'games'"
        (drawn,) = store.connection.execute(query).fetchone()
    assert 0 < drawn == manifest_of(summary)["left_out"]["held out by the split"]


# -- a net ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_the_policy_of_a_net(shared_data: Path, tmp_path: Path, share: float) -> None:
    """Priors and values of the net as `vr.evaluate` has them; KL of what is written from them."""
    net = str(shared_data / "nets" / "maia-1100.pb.gz")
    chunks = chunks_of(GAMES, tmp_path, policy="net", policy_share=share, net=net)
    with vr.open_net(net) as opened:
        for game, records in zip(decided(GAMES), chunks, strict=True):
            lc0_rescorer.check_valid(records)
            moves = [move.uci() for move in game.mainline_moves()]
            start = game.board().fen()
            positions = [
                vr.Position(board.fen(), start, tuple(moves[:i]), ply=board.ply())
                for i, board in enumerate(boards_of(game))
            ]
            values, (_, cuts, priors) = opened.evaluate_with_priors(PositionBatch.from_positions(positions))
            assert records["orig_q"] == pytest.approx(values.q, abs=1e-5)
            assert records["orig_d"] == pytest.approx(values.wdl[:, 1], abs=1e-5)
            for i, record in enumerate(records):
                p = record["probabilities"].astype(np.float64)
                own = np.sort(priors[cuts[i] : cuts[i + 1]].astype(np.float64)) * share
                written = p.copy()
                written[record["played_idx"]] -= 1 - share
                assert np.sort(written[p >= 0]) == pytest.approx(own, abs=1e-5)
                prior = np.maximum(written[p >= 0] / share, 1e-38)
                kl = (p[p > 0] * np.log(p[p > 0] / prior[p[p >= 0] > 0])).sum()
                assert record["policy_kld"] == pytest.approx(kl, abs=1e-3)
                assert record["policy_kld"] > 0


def boards_of(game: chess.pgn.Game) -> list[chess.Board]:
    board, boards = game.board(), []
    for move in game.mainline_moves():
        boards.append(board.copy())
        board.push(move)
    return boards


# -- lc0's rescorer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_the_rescorer_takes_every_format(mined: tuple[Path, Path], tmp_path: Path, form: int) -> None:
    """With the judge's values and moves, of which some are best and not played."""
    archive, db = mined
    text = GAMES + archive.read_text()
    (tmp_path / "games.pgn").write_text(text)
    with Store.open(db) as store:
        write(tmp_path / "games.pgn", tmp_path / "in", form=form, policy="judge", policy_share=0.5, store=store)
    assert len(records_in(tmp_path / "in")) == 65
    assert lc0_rescorer.taken(tmp_path / "in", tmp_path / "out") == len(list((tmp_path / "out").glob("*.gz"))) == 65


@pytest.mark.parametrize("name", ["iccf-scca.pgn", "leela-ID352.pgn.gz", "tcec-lc0-s16.pgn.zst", "ugly"])
def test_the_rescorer_takes_real_archives(shared_data: Path, tmp_path: Path, name: str) -> None:
    write(shared_data / "pgn" / name, tmp_path / "in", SampleOptions(max_bytes=300_000))
    count = len(records_in(tmp_path / "in"))
    assert lc0_rescorer.taken(tmp_path / "in", tmp_path / "out") == count > 0


# -- archives ---------------------------------------------------------------------------------------------------------


def test_fifty_moves_end_a_chunk(tmp_path: Path) -> None:
    """lc0's rescorer refuses more than 100 plies without a capture or a pawn's move; what follows is cut off."""
    board = chess.Board("4k3/8/8/8/8/8/4P3/R3K3 w - - 90 80")
    moves = "a1a2 e8d8 a2a3 d8c8 a3a4 c8b8 a4a5 b8c8 a5a6 c8b8 a6c6 b8b7 c6c5"
    for move in moves.split():
        board.push_uci(move)
    game = chess.pgn.Game.from_board(board)
    game.headers["Result"] = "1-0"
    (records,) = chunks_of(f"{game}\n\n", tmp_path)
    assert records["rule50_count"].tolist() == list(range(90, 101))
    assert records["plies_left"].tolist() == list(range(13, 2, -1))
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["cut_behind"] == 2


def test_filters_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "games.pgn"
    path.write_text(GAMES + '[Variant "Atomic"]\n[Result "1-0"]\n\n1. e4 1-0\n\n[Result "1-0"]\n\n1. e4 Ke5 1-0\n')
    manifest = manifest_of(write(path, tmp_path / "out"))
    assert manifest["chunks"] == 5
    assert manifest["left_out"] == {"no result": 1}
    assert manifest["read"]["games"] == 8
    assert manifest["read"]["rejected"] == {"illegal move": 1, "variant Atomic": 1}
    assert manifest_of(write(path, tmp_path / "draws", SampleOptions(result="1/2-1/2")))["chunks"] == 2


def test_positions_without_games_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.epd").write_text(f"{chess.STARTING_FEN}\n" * 3)
    with pytest.raises(ValueRepairError, match="3 a position without a game"):
        write(tmp_path / "a.epd", tmp_path / "out")


# -- stopping and going on --------------------------------------------------------------------------------------------


class Interrupting(Progress):
    """Sends Ctrl-C to this process after so many games."""

    def __init__(self, games: int) -> None:
        super().__init__("chunks", quiet=True)
        self._left = games

    def note(self, text: str) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def small_tars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_output, "SHARD_CHUNKS", 8)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.usefixtures("small_tars")
def test_interrupted_runs_end_with_the_same_bytes(mined: tuple[Path, Path], tmp_path: Path) -> None:
    archive, db = mined
    db = hold_out(Path(shutil.copy(db, tmp_path / "a.db")), split(games=0.1))
    with Store.open(db) as store:
        run = partial(write, archive, store=store)
        run(tmp_path / "straight")
        for games in (3, 20, 9):
            stopped = run(tmp_path / "out", progress=Interrupting(games))
            assert stopped.interrupted
            assert stopped.chunks % 8 == 0
        assert stopped.chunks == 24
        with pytest.raises(UsageError, match="another run"):
            run(tmp_path / "out", question=Question(alpha=200.0))
        run(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "straight")


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command(mined: tuple[Path, Path], tmp_path: Path, capsys: Captured) -> None:
    archive, db = mined
    code, out, err = run_vr(["chunks", str(archive), "-o", str(tmp_path / "out"), "--db", str(db)], capsys)
    assert (code, "chunks: " in out) == (0, False), err
    assert out.startswith(f"{tmp_path / 'out'}: 60 games, ")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["judged"] > 100
    assert run_vr(["chunks", str(archive), "-o", str(tmp_path / "c"), "-q"], capsys) == (0, "", "")
    summary = vr.write_chunks(archive, tmp_path / "python", store=db, question=Question(alpha=300.0))
    assert isinstance(summary, GameChunksSummary)
    assert manifest_of(summary)["judge"]["alpha"] == 300.0
    assert len(packed_in(tmp_path / "python")) == 60


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["absent.pgn"], 2, "absent.pgn"),
        (["games.pgn", "--policy", "net"], 2, "--net"),
        (["games.pgn", "--policy", "judge"], 2, "--db"),
        (["games.pgn", "--policy", "played:0.5"], 2, "--policy played:0.5"),
        (["games.pgn", "--policy", "net:2"], 2, "--policy net:2"),
        (["games.pgn", "--result", "judge"], 2, "--result judge"),
        (["games.pgn", "chunk.tar"], 2, "chunk.tar"),
        (["chunk.tar", "--min-elo", "2000"], 2, "--min-elo"),
        (["chunk.tar", "--policy", "judge"], 2, "--policy"),
        (["--time-control", "blitz"], 2, "--time-control"),
        (["games.pgn", "--db", "absent.db"], 1, "absent.db"),
        (["undecided.pgn"], 1, "1 no result"),
    ],
)
def test_what_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, words: list[str], code: int, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("games.pgn").write_text(GAMES)
    Path("chunk.tar").write_bytes(b"")
    Path("undecided.pgn").write_text('[Result "*"]\n\n1. e4 *\n')
    got, out, err = run_vr(["chunks", *words, "-o", "out"], capsys)
    assert (got, out) == (code, "")
    assert err.startswith("vr: ")
    assert line in err
    assert len(err.splitlines()) == 1
    assert not Path("out").exists()
