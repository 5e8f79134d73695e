"""Training records beside lc0's: the same net, moves and visits; and what lczero-training's parser makes of them."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from tests import lc0_oracle, lczero_training
from tests.lc0_selfplay import ENDINGS, OPENINGS, Played, play
from tests.own_games import played_on, position_after, searched_again
from tests.play_doubles import white_played
from tests.test_training_records import STARTS, fake_game
from tests.test_training_store_chunks import judged, net_of, some_positions
from tests.v6_records import read_chunk
from valuerepair.chess import v6
from valuerepair.chess.positions import PositionBatch
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.conversion import find_lc0
from valuerepair.nets.net import open_net
from valuerepair.nets.planes import HECTOPLIES, INPUT_FORMATS, encode
from valuerepair.play.game import GameRecord
from valuerepair.training.records import ChunkWriter, RecordFacts, game_records
from valuerepair.training.store_chunks import position_records

# lc0's self-play has these by default, and nothing else that differs from lc0 under UCI.
SELF_PLAY = SearchParams(
    cpuct=1.2, cpuct_factor=0.0, fpu_value=0.0, policy_softmax_temp=1.0, sticky_endgames=False, two_fold_draws=False
)
EXACT = (
    *("--training", "--backend=eigen", "--minibatch-size=1", "--nncache=0", "--max-prefetch=0"),
    *("--history-fill-new=fen_only", "--solid-tree-threshold=2000000000"),
)
VALUES = ("root_q", "root_d", "best_q", "best_d", "played_q", "played_d")
NOT_IN_CACHE = ("orig_q", "orig_d", "orig_m", "policy_kld")  # lc0 has these of its cache, which must be off


@pytest.fixture(scope="module")
def evaluator(any_maia: Path) -> Iterator[NetEvaluator]:
    with open_net(str(any_maia), device="cpu") as opened:
        yield NetEvaluator(opened)


def forest_of(evaluator: NetEvaluator, trees: int = 16, **settings: str) -> Forest:
    return Forest(evaluator, SELF_PLAY.with_settings({"lc0_floats": "1", **settings}), trees=trees, nodes=64)


def lc0_games(net: Path, folder: Path, book: str, visits: int, games: int, *options: str) -> list[Played]:
    lc0 = find_lc0()
    if lc0 is None:
        pytest.skip("no lc0 on this machine")
    (folder / "book.pgn").write_text(book)
    played = play(lc0, folder / "book.pgn", f"--weights={net}", f"--visits={visits}", *EXACT, *options, games=games)
    assert played is not None
    return [game for game in played if game.chunk is not None]


def plain_moves(game: Played) -> list[str]:
    """The moves, castling as the king's own move."""
    board, moves = chess.Board(game.start_fen), []
    for text in game.moves:
        move = board.parse_uci(text)
        moves.append(board.uci(move, chess960=False))
        board.push(move)
    return moves


def assert_the_same_records(game: Played, own: GameRecord) -> None:
    assert game.chunk is not None
    theirs, ours = read_chunk(game.chunk), game_records(own, RecordFacts.of(1, SELF_PLAY))
    assert len(ours) == len(theirs) == len(game.moves) - game.book_plies
    for name in v6.RECORD.names or ():
        if name in VALUES:
            assert np.abs(ours[name] - theirs[name]).max() < 1e-6, name
        elif name not in NOT_IN_CACHE:
            assert np.array_equal(ours[name], theirs[name]), name
    assert np.isnan(theirs["orig_q"]).all()


def assert_equal_to_lc0(net: Path, evaluator: NetEvaluator, folder: Path, book: str, visits: int, games: int) -> int:
    """Every field of every record of the games is lc0's, and so are the moves that the search would play."""
    forest, records = forest_of(evaluator), 0
    for game in lc0_games(net, folder, book, visits, games):
        own = searched_again(forest, game.start_fen, plain_moves(game), game.book_plies, game.result, visits)
        assert [t.search.best_move for t in own.thoughts if t.search] == [t.move for t in own.thoughts]
        assert_the_same_records(game, own)
        records += len(own.thoughts)
    return records


def test_every_field_is_lc0s(any_maia: Path, evaluator: NetEvaluator, tmp_path: Path) -> None:
    assert assert_equal_to_lc0(any_maia, evaluator, tmp_path, ENDINGS, visits=12, games=2) > 40


def test_a_game_played_here_is_lc0s(any_maia: Path, evaluator: NetEvaluator, tmp_path: Path) -> None:
    """Move by move, without being told the moves."""
    game = lc0_games(any_maia, tmp_path, ENDINGS, 12, 1)[0]
    book = plain_moves(game)[: game.book_plies]
    own = played_on(forest_of(evaluator, trees=1), game.start_fen, book, 12, 450)
    assert list(own.moves) == plain_moves(game)
    assert own.result == game.result
    assert_the_same_records(game, own)


@pytest.mark.slow
@pytest.mark.parametrize("visits", [24, 100])
def test_every_field_is_lc0s_in_whole_games(
    any_maia: Path, evaluator: NetEvaluator, tmp_path: Path, visits: int
) -> None:
    games = 7 if visits == 24 else 3
    assert assert_equal_to_lc0(any_maia, evaluator, tmp_path, ENDINGS + OPENINGS, visits, games) > 100


@pytest.mark.slow
def test_the_nets_own_values_and_divergence_are_lc0s(any_maia: Path, evaluator: NetEvaluator, tmp_path: Path) -> None:
    """With lc0's cache on. It does not see history, so some of its values are of the position by another way."""
    forest, apart, records = forest_of(evaluator), [], 0
    backend = lc0_oracle.backend(any_maia)
    for game in lc0_games(any_maia, tmp_path, ENDINGS, 12, 4, "--nncache=200000"):
        assert game.chunk is not None
        moves, theirs = plain_moves(game), read_chunk(game.chunk)
        ours = game_records(
            searched_again(forest, game.start_fen, moves, game.book_plies, game.result, 12),
            RecordFacts.of(1, SELF_PLAY),
        )
        for i, record in enumerate(ours):  # lc0 without its cache
            state = lc0_oracle.game_state(position_after(game.start_fen, moves[: game.book_plies + i]))
            answer = backend.evaluate(state.as_input(backend))[0]
            assert record["orig_q"] == pytest.approx(answer.q(), abs=1e-5)
            assert record["orig_d"] == pytest.approx(answer.d(), abs=1e-5)
            assert record["orig_m"] == answer.m() == 0
        same = np.abs(ours["orig_q"] - theirs["orig_q"]) < 1e-5
        assert np.abs(ours["orig_d"] - theirs["orig_d"])[same].max() < 1e-5
        same &= (ours["probabilities"] == theirs["probabilities"]).all(1)
        records += len(same)
        apart += np.abs(ours["policy_kld"] - theirs["policy_kld"])[same].tolist()
    assert len(apart) > records / 2
    assert max(apart) < 2e-4  # its priors are cached in full, those of a search have 16 bits


# -- lczero-training --------------------------------------------------------------------------------------------------

PARSE = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from chunkparser import ChunkParser
for argument in sys.argv[2:]:
    form, path, out = argument.split(",")
    parser = ChunkParser([path], int(form), batch_size=1, workers=0)
    parts = list(zip(*parser.sequential()))
    np.savez(out, *(np.frombuffer(b"".join(part), np.float32) for part in parts))
"""


@pytest.fixture(scope="module")
def chunkparser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of chunkparser.py; its code is not part of this project."""
    folder = tmp_path_factory.mktemp("lczero-training")
    lczero_training.take(folder, "tf/chunkparser.py", "tf/shufflebuffer.py")
    return folder / "tf"


def test_lczero_training_reads_what_was_meant(chunkparser: Path, tmp_path: Path) -> None:
    """Planes as the net gets them, in all formats; policies, results and values as they are in the records."""
    games = [fake_game(start, 100 * i + 3, book=i, plies=20, result="0-1") for i, start in enumerate(STARTS)]
    arguments, wanted = [], []
    for form in INPUT_FORMATS:
        writer = ChunkWriter(tmp_path / str(form), RecordFacts(form))
        for i, game in enumerate(games):
            path = writer.write(game)
            arguments.append(f"{form},{path},{tmp_path / f'{form}-{i}.npz'}")
            wanted.append((form, game, tmp_path / f"{form}-{i}.npz"))
    parse(chunkparser, arguments)
    for form, game, out in wanted:
        assert_parsed_as(form, game, np.load(out))


def parse(chunkparser: Path, arguments: Sequence[str]) -> None:
    """Has lczero-training's parser read chunks, each "input format,chunk,where to write"."""
    command = [sys.executable, "-c", PARSE, str(chunkparser), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "failed to parse" not in done.stdout


def assert_parsed_as(form: int, game: GameRecord, parsed: Mapping[str, Any]) -> None:
    planes, policy, result, best, left = (parsed[f"arr_{i}"] for i in range(5))
    records = game_records(game, RecordFacts(form))
    n = len(records)
    begin = len(game.book)
    positions = [position_after(game.start_fen, game.moves[: begin + i]) for i in range(n)]
    encoded = encode(PositionBatch.from_positions(positions), form).reshape(n, 112, 64)
    if form < HECTOPLIES:
        encoded[:, 109] /= np.float32(99)  # the trainer's unit, which lc0's exporter folds into the weights
    assert np.allclose(planes.reshape(n, 112, 64), encoded, rtol=1e-6, atol=0)
    assert np.array_equal(policy.reshape(n, 1858), records["probabilities"])
    black = [not white_played(game, i) for i in range(n)]  # Black has won
    assert np.array_equal(result.reshape(n, 3), [[1, 0, 0] if mine else [0, 0, 1] for mine in black])
    q, d = records["best_q"], records["best_d"]
    assert np.allclose(best.reshape(n, 3), np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], 1), atol=1e-6)
    assert np.array_equal(left, records["plies_left"])


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_lczero_training_reads_chunks_of_judged_positions(chunkparser: Path, form: int, tmp_path: Path) -> None:
    """Planes as the net gets them; the policy written, the sampled result, the judge's value, and the net's own, by
    which it would focus."""
    batch = PositionBatch.from_positions(some_positions())
    judge, (values, priors) = judged(batch), net_of(batch)
    records = position_records(judge, values, priors, RecordFacts(form, 1.0), share=0.3)
    arguments = []
    for i in range(len(records)):
        path = tmp_path / f"{i}.gz"
        path.write_bytes(gzip.compress(records[i : i + 1].tobytes()))
        arguments.append(f"{form},{path},{tmp_path / f'{i}.npz'}")
    parse(chunkparser, arguments)
    encoded = encode(batch, form).reshape(len(records), 112, 64)
    if form < HECTOPLIES:
        encoded[:, 109] /= np.float32(99)
    for i, record in enumerate(records):
        parsed = np.load(tmp_path / f"{i}.npz")
        planes, policy, result, best, left = (parsed[f"arr_{k}"] for k in range(5))
        assert np.allclose(planes.reshape(112, 64), encoded[i], rtol=1e-6, atol=0)
        assert np.array_equal(policy, record["probabilities"])
        assert np.allclose(best, judge.wdl[i], atol=1e-6)
        win, draw, _ = judge.wdl[i]
        assert int(np.argmax(result)) == (0 if judge.chance[i] < win else 1 if judge.chance[i] < win + draw else 2)
        assert sorted(result.tolist()) == [0, 0, 1]
        assert left[0] == record["plies_left"]
