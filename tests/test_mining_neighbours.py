"""Neighbours of candidates: what is one step away, what of it is searched, and that the same call goes on.

python-chess is the judge of what is reached and of when a game is over.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import chess
import chess.pgn
import numpy as np
import pytest

import valuerepair as vr
from tests.mining_doubles import KeyNet, KeyOracle, key_outcome, mine_by_key, random_games
from tests.vr_runs import here
from valuerepair.chess.origins import NEIGHBOUR, OriginGame, Origins
from valuerepair.chess.positions import Position, PositionBatch, encode_moves
from valuerepair.errors import ValueRepairError
from valuerepair.mining.neighbours import Expanded, Neighbours, Sources, expand, neighbours
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.parts import choose
from valuerepair.store.rows import DeepResult, signed
from valuerepair.store.store import Store

GAME_OF = OriginGame("games.pgn", 7, 0, {"White": "A"}, "1-0", 7)
QUESTION = Question(threshold=0.55, alpha=300.0)


# -- what is reached --------------------------------------------------------------------------------------------------


def played(fen: str, moves: Sequence[str]) -> chess.Board:
    board = chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    return board


def around(moves: Sequence[str], line: Sequence[str] = (), policy: Sequence[str] = ()) -> Neighbours:
    board = played(chess.STARTING_FEN, moves)
    batch = PositionBatch.from_positions([Position(board.fen(), moves=tuple(moves), ply=len(moves))])
    batch = replace(batch, origin=Origins([GAME_OF], [None]))
    lines = [encode_moves(line)], [encode_moves(policy)]
    return neighbours(Sources(np.array([5]), batch, np.array([0.1]), *lines), range(1))


def random_moves(dice: random.Random, begin: Sequence[str], plies: int) -> list[str]:
    board = played(chess.STARTING_FEN, begin)
    while board.ply() < len(begin) + plies and any(board.legal_moves):
        board.push(dice.choice(list(board.legal_moves)))
    return [move.uci() for move in board.move_stack]


@pytest.mark.parametrize("seed", range(8))
def test_every_neighbour_is_legal_play_from_the_game(seed: int) -> None:
    dice = random.Random(seed)
    game = random_moves(dice, (), 60)
    begun, policy_of = game[:30], played(chess.STARTING_FEN, game[:30])
    line = random_moves(dice, begun, 12)[30:]
    policy = [move.uci() for move in policy_of.legal_moves if move.uci() != line[0]][:3]
    near = around(begun, line, policy)
    assert len(set(near.batch.key.tolist())) == len(near.batch)
    reached = {position.moves for position in near.batch}
    expected = [(*begun, *line[:k]) for k in range(1, 13)] + [(*begun, move) for move in policy]
    expected += [tuple(game[: 30 - k]) for k in (1, 2, 4)]
    over = {moves for moves in expected if played(chess.STARTING_FEN, moves).is_game_over(claim_draw=False)}
    assert reached <= set(expected)
    assert set(expected) - reached <= over
    for position, plies, rank in zip(near.batch, near.plies.tolist(), near.rank.tolist(), strict=True):
        board = played(position.start_fen, position.moves)
        assert (board.fen(), board.ply(), len(position.moves)) == (position.fen, position.ply, 30 + plies)
        assert position.origin.kind == NEIGHBOUR
        assert (position.origin.source, position.origin.game) == ("games.pgn", 7)
        assert rank in (plies, 12 + abs(plies))
        if plies < 0:
            assert position.origin.played == game[30 + plies]


def test_a_line_ends_where_the_game_does() -> None:
    knights = ["g1f3", "g8f6", "f3g1", "f6g8"]
    # The eighth half-move brings the third occurrence: python-chess says so too.
    assert played(chess.STARTING_FEN, [*knights, *knights]).is_repetition(3)
    near = around(knights, [*knights, "e2e4"])
    assert [int(plies) for plies, rank in zip(near.plies, near.rank, strict=True) if rank <= 12] == [1, 2, 3]
    mate = ["f2f3", "e7e5", "g2g4"]
    assert around(mate, ["d8h4"]).plies.tolist() == [-1, -2]


def test_a_line_of_nonsense_is_left_out() -> None:
    near = around(["e2e4"], ["e7e5", "e7e5", "d7d5"])
    assert [position.moves for position in near.batch] == [("e2e4", "e7e5")]


# -- what is searched -------------------------------------------------------------------------------------------------


def outcome(position: Position) -> DeepOutcome:
    """As the stand-in of mining, with a line of four moves."""
    found, board = key_outcome(position), chess.Board(position.fen)
    line = []
    for _ in range(4):
        move = next(iter(board.legal_moves), None)
        if move is None:
            break
        line.append(move.uci())
        board.push(move)
    return (
        replace(found, pv=tuple(line), best_move=line[0] if line else None) if isinstance(found, DeepResult) else found
    )


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mined")
    mine_by_key(random_games(folder / "random.pgn", 15), folder / "a.db", oracle=KeyOracle(answer=outcome))
    return folder / "a.db"


@pytest.fixture
def db(mined: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(mined, tmp_path / "a.db"))


def expanded(db: Path, positions: int | None = None, judge: KeyOracle | None = None) -> Expanded:
    with Store.open(db, write=True) as store, judge or KeyOracle(answer=outcome) as opened:
        return expand(store, KeyNet(), opened, QUESTION, positions=positions)


def reached(store: Store) -> list[tuple[float, float, str, str, float, int, int]]:
    """Of each neighbour that was searched: net Q, the parent's judge Q, both origins' words, both lengths."""
    frame = view.frame(store, replace(QUESTION, beside=True)).set_index("position_id")
    near = frame[frame["kind"] == NEIGHBOUR]
    parents = frame.loc[near["parent_id"].astype(int)]
    moves, before = near["moves"].str.split().str.len(), parents["moves"].str.split().str.len()
    columns = (near["net_q"], parents["deep_q"], near["part"], parents["kind"], parents["disagreement"], moves, before)
    return list(zip(*columns, strict=True))


def test_neighbours_are_searched_where_the_net_differs_from_what_is_expected(db: Path) -> None:
    done = expanded(db)
    assert done.state == "finished"
    with Store.open(db) as store:
        rows = reached(store)
        assert len(rows) == done.searched == done.done.searched > 50
        for net_q, deep_q, _, _, disagreement, moves, before in rows:
            assert abs(net_q - (-1) ** (moves - before) * deep_q) >= 0.55
            assert abs(disagreement) >= 0.55
        assert {row[3] for row in rows} == {"game"}  # one step from what was mined
        # Positions of games alone are what rates are of.
        assert set(view.frame(store, QUESTION)["kind"]) == {"game"}
        found = view.candidates(store, replace(QUESTION, beside=True))["kind"] == NEIGHBOUR
    assert found.sum() == done.found > 0
    again = KeyOracle(answer=outcome)
    assert expanded(db, judge=again).searched == done.searched
    assert all(position.key % 19 == 0 for position in again.searched)  # what failed is tried again, nothing else


def values_of(db: Path) -> set[tuple[object, ...]]:
    """Of each neighbour: key, history and score."""
    query = "SELECT key, moves, cp, mate, failed FROM positions JOIN deep_values ON position_id = id"
    with Store.open(db) as store:
        return {*store.connection.execute(f"{query} WHERE origin = 'neighbour'")}


def test_more_positions_go_on_and_end_as_one_call(db: Path, mined: Path, tmp_path: Path) -> None:
    limited = expanded(db, 20)
    assert (limited.state, limited.done.searched + limited.done.failed) == ("limited", 20)
    expanded(db)
    at_once = Path(shutil.copy(mined, tmp_path / "b.db"))
    expanded(at_once)
    assert values_of(db) == values_of(at_once)


def test_a_neighbour_that_failed_is_searched_again_once_with_the_history_that_it_has(db: Path) -> None:
    expanded(db)
    of_failed = "origin = 'neighbour' AND id IN (SELECT position_id FROM deep_values WHERE failed IS NOT NULL)"
    with Store.open(db, write=True) as store, store.writing() as connection:
        connection.execute(f"UPDATE positions SET start_fen = fen, moves = x'' WHERE {of_failed}")
        keys = {key for (key,) in connection.execute(f"SELECT key FROM positions WHERE {of_failed}")}
    judge = KeyOracle(answer=outcome)
    expanded(db, judge=judge)
    again = [(signed(np.array([p.key], np.uint64))[0], p.moves) for p in judge.searched]
    assert sorted(key for key, _ in again if key in keys) == sorted(keys) != []  # once each
    assert {moves for key, moves in again if key in keys} == {()}


def test_only_candidates_for_training_are_sources(db: Path) -> None:
    with Store.open(db, write=True) as store:
        choose(store, games=0.5, families=0)
        store.commit()
    expanded(db)
    with Store.open(db) as store:
        assert {row[2] for row in reached(store)} == {"train"}


def test_nothing_to_start_from(db: Path) -> None:
    with (
        Store.open(db, write=True) as store,
        KeyOracle() as judge,
        pytest.raises(ValueRepairError, match="no candidates for training at 2 to start from"),
    ):
        expand(store, KeyNet(), judge, Question(threshold=2))


# -- as a user types it -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_finds_net_and_engine_again_and_books_take_what_it_found(
    shared_data: Path, maia_file: str, stockfish: str, tmp_path: Path
) -> None:
    words = ("--threshold", "0.3", "--db", "a.db")
    archive = shared_data / "pgn" / "lichess-blitz.pgn"
    deep = ("--positions", "60", "--deep", "stockfish:nodes=2000", "--jobs", "1", "--net", maia_file)
    for command in (("mine", archive, *deep), ("expand", "--positions", "40"), ("books", "-o", "out")):
        done = here(*command, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    with Store.open(tmp_path / "a.db") as store:
        query = "SELECT count(*), count(DISTINCT judge_id) FROM deep_values JOIN positions ON id = position_id"
        assert store.connection.execute(f"{query} WHERE origin = 'neighbour'").fetchone() == (40, 1)
    with (tmp_path / "out" / "book.pgn").open() as file:
        while (game := chess.pgn.read_game(file)) is not None:
            assert not game.errors
            assert not game.end().board().is_game_over()
    assert vr.expand(tmp_path / "a.db", vr.Question(threshold=0.3), positions=45).done.searched == 5


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--db", "none.db"), 1, "none.db"),
        (("--threshold", "0.5"), 2, "does not know where the net key-net"),
        (("--net", "leela"), 1, "leela"),
    ],
)
def test_what_cannot_be_done_is_one_line(words: tuple[str, ...], code: int, said: str, db: Path) -> None:
    done = here("expand", *(() if "--db" in words else ("--db", "a.db")), *words, cwd=db.parent)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
