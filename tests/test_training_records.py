"""Training records of own games: boards by python-chess, values by the search's own numbers, in all input formats."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import rel_entr

from tests.own_games import position_after
from tests.play_doubles import white_played
from tests.v6_records import CANONICAL, positions_of, records_of
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess import v6
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import PositionBatch, decode_move
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.result import NAN, RootMove, SearchResult
from valuerepair.nets.planes import INPUT_FORMATS, encode
from valuerepair.nets.policy import policy_indices
from valuerepair.play import game as words
from valuerepair.play.game import GameRecord, Thought
from valuerepair.training.records import ChunkWriter, RecordFacts, game_records, has_records

STARTS = (
    chess.STARTING_FEN,
    "r3k2r/pppq1ppp/2npbn2/2b1p3/2B1P3/2NPBN2/PPPQ1PPP/R3K2R w KQkq - 4 9",
    "r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 0 20",
    "8/1k6/2r5/8/5N2/1B6/6K1/8 b - - 3 60",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 11 3",
    "4k3/P6p/8/8/8/8/p6P/4K3 b - - 0 40",
)


def fake_search(board: chess.Board, chance: random.Random, visited: float = 0.5) -> SearchResult:
    """A search of the position as it might have been: the best move has the most visits."""
    moves = [board.uci(move, chess960=False) for move in board.legal_moves]
    chance.shuffle(moves)
    counts = sorted((chance.randint(1, 30) if chance.random() < visited else 0 for _ in moves), reverse=True)
    counts[0] = max(counts[0], 1)
    weights = [chance.random() + 1e-6 for _ in moves]
    root_moves = []
    for move, visits, weight in zip(moves, counts, weights, strict=True):
        wl, d = chance.uniform(-0.5, 0.5), chance.uniform(0, 0.4)
        move_values = (wl, wl, d, chance.uniform(1, 90)) if visits else (NAN,) * 4
        prior = weight / sum(weights)
        root_moves.append(RootMove(move, visits, prior, *move_values, None, None, (move,), prior))
    nodes = 1 + sum(counts)
    values = (chance.uniform(-0.5, 0.5), 0.25, chance.uniform(1, 90), chance.uniform(-0.5, 0.5))
    q, d, m, own = values
    return SearchResult(nodes, nodes, q, q, d, m, own, tuple(root_moves), 3, 9, 0.125, 7.0)


def fake_game(start: str, seed: int, book: int = 0, plies: int = 40, result: str = "1-0") -> GameRecord:
    """Moves at random, some of them back and forth so that positions are repeated."""
    chance, board = random.Random(seed), chess.Board(start)
    moves: list[str] = []
    thoughts: list[Thought] = []
    while len(moves) < book + plies and any(board.legal_moves):
        back = chess.Move(board.peek().to_square, board.peek().from_square) if len(moves) > 1 else None
        before = board.move_stack[-2] if len(board.move_stack) > 1 else None
        undo = chess.Move(before.to_square, before.from_square) if before else back
        legal = list(board.legal_moves)
        move = undo if undo in legal and chance.random() < 0.5 else chance.choice(legal)
        assert move is not None
        if len(moves) >= book:
            thoughts.append(Thought(move.uci(), search=fake_search(board, chance)))
        moves.append(move.uci())
        board.push(move)
    number = seed % 1000
    return GameRecord(number, number, start, tuple(moves[:book]), tuple(thoughts), "a", "b", result, words.CHECKMATE)


games = st.builds(
    fake_game, st.sampled_from(STARTS), st.integers(0, 10**6), st.integers(0, 9), st.integers(1, 30), st.just("0-1")
).filter(lambda game: bool(game.thoughts))
BOARD_FIELDS = (
    *("version", "input_format", "planes", "castling_us_ooo", "castling_us_oo", "castling_them_ooo"),
    *("castling_them_oo", "side_to_move_or_enpassant", "rule50_count", "invariance_info", "dummy", "played_idx"),
)


def en_passant_masks(game: GameRecord, flipped: NDArray[np.integer[Any]]) -> list[int]:
    """The file as a bit where a pawn stands to capture, be it pinned (lc0's board.cc); from a FEN as it is written."""
    board, masks = chess.Board(game.start_fen), []
    for ply, move in enumerate(game.moves):
        offered = board.ep_square is not None and (ply == 0 or board.has_pseudo_legal_en_passant())
        masks.append(1 << chess.square_file(board.ep_square) if offered and board.ep_square is not None else 0)
        board.push_uci(move)
    return [
        int(f"{mask:08b}"[::-1], 2) if flip else mask
        for mask, flip in zip(masks[len(game.book) :], flipped, strict=True)
    ]


@settings(max_examples=120, deadline=None)
@given(games, st.sampled_from(INPUT_FORMATS))
def test_boards_are_those_of_the_game(game: GameRecord, form: int) -> None:
    """Against records made position by position with python-chess and the encoder, which is checked against lc0's."""
    records = game_records(game, RecordFacts(form))
    positions = positions_of(game.moves, game.start_fen)[len(game.book) :]
    wanted = records_of(positions, game.moves[len(game.book) :], form)
    if form in CANONICAL:
        wanted["side_to_move_or_enpassant"] = en_passant_masks(game, wanted["invariance_info"] & v6.FLIPPED)
    for name in BOARD_FIELDS:
        assert np.array_equal(records[name], wanted[name]), name
    planes = encode(PositionBatch.from_positions(positions), form)
    bits = np.unpackbits(records["planes"].copy().view(np.uint8)).reshape(len(records), 104, 8, 8)
    assert np.array_equal(bits, planes[:, :104] != 0)


@settings(max_examples=60, deadline=None)
@given(games, st.sampled_from(INPUT_FORMATS))
def test_policies_are_shares_of_visits(game: GameRecord, form: int) -> None:
    records = game_records(game, RecordFacts(form))
    for i, (record, thought) in enumerate(zip(records, game.thoughts, strict=True)):
        search = thought.search
        assert search is not None
        position = position_after(game.start_fen, game.moves[: len(game.book) + i])
        boards = parse_fens([position.fen])
        moves, cuts = legal_moves(boards)
        index = dict(zip(map(decode_move, moves.tolist()), policy_indices(boards, moves, cuts, form), strict=True))
        visits = {move.move: move.visits for move in search.moves}
        assert set(visits) == set(index)
        wanted = np.full(1858, -1, np.float32)
        for move, n in visits.items():
            wanted[index[move]] = np.float32(n) / np.float32(search.nodes - 1)
        assert np.array_equal(record["probabilities"], wanted)
        assert record["visits"] == search.nodes
        assert record["best_idx"] == index[search.best_move]


@settings(max_examples=60, deadline=None)
@given(games, st.floats(0.5, 2.5))
def test_divergence_is_that_of_visits_from_the_policy_at_temperature_1(game: GameRecord, temperature: float) -> None:
    records = game_records(game, RecordFacts(1, temperature))
    for record, thought in zip(records, game.thoughts, strict=True):
        search = thought.search
        assert search is not None
        policy = np.array([move.net_prior for move in search.moves]) ** temperature
        shares = np.array([move.visits for move in search.moves]) / (search.nodes - 1)
        wanted = rel_entr(shares, policy / policy.sum()).sum()
        assert record["policy_kld"] == pytest.approx(max(wanted, 0), rel=1e-4, abs=1e-6)
        assert record["policy_kld"] > 0  # 0 says that it is not known


@settings(max_examples=60, deadline=None)
@given(games)
def test_values_are_those_of_the_search(game: GameRecord) -> None:
    records = game_records(game, RecordFacts())
    for record, thought in zip(records, game.thoughts, strict=True):
        search = thought.search
        assert search is not None
        played = next(move for move in search.moves if move.move == thought.move)
        wanted = {
            "root": (search.root_wl, search.root_d, search.root_m),
            "best": (search.best.wl, search.best.d, search.best.m + 1),
            "played": (played.wl, played.d, played.m + 1) if played.visits else search.root[1:],
            "orig": (search.net_wl, search.net_d, search.net_m),
        }
        for name, values in wanted.items():
            assert [record[f"{name}_{x}"] for x in "qdm"] == pytest.approx(values, abs=1e-5), name


@pytest.mark.parametrize("start", STARTS[:2] + STARTS[3:4])
@pytest.mark.parametrize("result", ["1-0", "0-1", "1/2-1/2"])
def test_results_and_plies_left(start: str, result: str) -> None:
    game = fake_game(start, 5, book=3, plies=8, result=result)
    records, z = game_records(game, RecordFacts()), {"1-0": 1, "0-1": -1, "1/2-1/2": 0}[result]
    assert len(records) == len(game.thoughts)
    signs = [1 if white_played(game, i) else -1 for i in range(len(records))]
    assert records["result_q"].tolist() == [z * sign for sign in signs]
    assert set(records["result_d"]) == {float(z == 0)}
    assert records["plies_left"][-1] == records["best_m"][-1]
    assert np.allclose(np.diff(records["plies_left"]), -1)


def test_endings() -> None:
    game = fake_game(chess.STARTING_FEN, 1)
    for ending in (*words.RULES, *words.ADJUDICATIONS, words.RESIGNED):
        bit = game_records(replace(game, ending=ending), RecordFacts())["invariance_info"] & v6.ADJUDICATED
        assert bool(bit.all()) == (ending not in words.RULES)
        assert bool(bit.any()) == bool(bit.all())
    for ending in (words.TOO_LONG, words.STOPPED):
        assert not has_records(replace(game, ending=ending, result="*"))
    for ending in (words.ILLEGAL_MOVE, words.OUT_OF_TIME, words.CRASHED):
        assert len(game_records(replace(game, ending=ending), RecordFacts())) == 0


def test_moves_of_an_engine_have_no_record() -> None:
    game = fake_game(chess.STARTING_FEN, 3, plies=9)
    whole = game_records(game, RecordFacts())
    thoughts = tuple(replace(t, search=None) if i % 2 else t for i, t in enumerate(game.thoughts))
    half = game_records(replace(game, thoughts=thoughts), RecordFacts())
    assert np.array_equal(half, whole[::2])
    assert not has_records(replace(game, thoughts=tuple(replace(t, search=None) for t in game.thoughts)))


def with_moves(game: GameRecord, moves: list[RootMove], nodes: int = 10) -> GameRecord:
    search = game.thoughts[0].search
    assert search is not None
    search = replace(search, moves=tuple(moves), nodes=nodes)
    return replace(game, thoughts=(Thought(moves[0].move, search=search),))


def proven(move: RootMove, certain: int | None, visits: int = 3) -> RootMove:
    wl = 0.1 if certain is None else float(certain)
    return replace(move, certain=certain, visits=visits, wl=wl, q=wl, d=float(certain == 0), m=4.0)


@pytest.mark.parametrize(
    ("best", "others", "wanted"),
    [
        (1, None, True),
        (1, -1, True),
        (0, None, False),
        (0, -1, True),
        (-1, -1, True),
        (-1, 0, False),
        (None, -1, False),
    ],
)
def test_the_best_move_is_proven_where_no_other_can_be_better(
    best: int | None, others: int | None, wanted: bool
) -> None:
    game = fake_game(chess.STARTING_FEN, 8, plies=1)
    search = game.thoughts[0].search
    assert search is not None
    moves = [proven(move, others if i else best) for i, move in enumerate(search.moves)]
    record = game_records(with_moves(game, moves, 61), RecordFacts())[0]
    assert bool(record["invariance_info"] & v6.BEST_PROVEN) == wanted
    assert record["best_m"] == 5


def test_searches_without_shares_of_visits() -> None:
    game = fake_game(chess.STARTING_FEN, 8, plies=1)
    search = game.thoughts[0].search
    assert search is not None
    unvisited = [replace(move, visits=0) for move in search.moves]
    with pytest.raises(ValueRepairError, match=r"game 8, ply 0: a search of one visit .* at least 2 visits"):
        game_records(with_moves(game, unvisited, 1), RecordFacts())
    won = [proven(unvisited[0], 1, visits=0), *unvisited[1:]]
    record = game_records(with_moves(game, won, 1), RecordFacts())[0]
    assert record["probabilities"].max() == record["probabilities"][record["best_idx"]] == 1
    assert (record["best_q"], record["invariance_info"]) == (1, v6.BEST_PROVEN)


def test_what_is_not_known_of_the_net() -> None:
    game = fake_game(chess.STARTING_FEN, 8, plies=1)
    search = game.thoughts[0].search
    assert search is not None
    moves = (*search.moves[:-1], replace(search.moves[-1], net_prior=NAN))
    forgotten = replace(search, moves=moves, net_d=NAN, net_m=NAN)
    record = game_records(replace(game, thoughts=(replace(game.thoughts[0], search=forgotten),)), RecordFacts())[0]
    assert np.isnan([record["orig_q"], record["orig_d"], record["orig_m"]]).all()
    assert record["policy_kld"] == 0


def test_drift_is_corrected() -> None:
    """Sums of 32 bits may leave [-1, 1] by a little; win, draw and loss stay probabilities."""
    game = fake_game(chess.STARTING_FEN, 8, plies=1)
    search = game.thoughts[0].search
    assert search is not None
    drifted = replace(search, root_wl=1.0000001, root_d=1e-7)
    record = game_records(replace(game, thoughts=(replace(game.thoughts[0], search=drifted),)), RecordFacts())[0]
    assert (record["root_q"], record["root_d"]) == (1, 0)


def test_unknown_facts_are_refused() -> None:
    with pytest.raises(UsageError, match="input format 7"):
        RecordFacts(7)
    game = fake_game(chess.STARTING_FEN, 8, plies=1)
    game = replace(game, thoughts=(replace(game.thoughts[0], move="a1a8"),))
    with pytest.raises(ValueError, match="not among the moves searched"):
        game_records(game, RecordFacts())


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_our_reader_gives_the_games_back(form: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Positions, moves played, results, both values: what `vr mine DIR --deep recorded` takes up."""
    folder = tmp_path_factory.mktemp(f"chunks-{form}")
    played = [fake_game(start, 100 * i, plies=25, result="0-1") for i, start in enumerate(STARTS)]
    writer = ChunkWriter(folder, RecordFacts(form))
    assert all(writer.write(replace(game, number=i)) for i, game in enumerate(played))
    report = ReadReport()
    options = SampleOptions(per_game=None, min_ply=0, recorded=RecordedOptions("chunks"))
    positions = [p for batch in sample([str(folder)], options, report) for p in batch]
    assert report.adds_up
    assert report.looked_at == writer.records == sum(len(game.thoughts) for game in played)
    assert not report.rejected_positions
    wanted: dict[str, tuple[str, SearchResult]] = {}
    for game in played:
        for i, thought in enumerate(game.thoughts):
            assert thought.search is not None
            board = chess.Board(position_after(game.start_fen, game.moves[: len(game.book) + i]).fen)
            wanted.setdefault(board.epd(), (thought.move, thought.search))
    assert {p.fen.rsplit(" ", 2)[0] for p in positions} == set(wanted)
    for position in positions:
        move, search = wanted[position.fen.rsplit(" ", 2)[0]]
        recorded = position.origin.recorded
        assert recorded is not None
        assert (position.origin.played, position.origin.result) == (move, "0-1")
        assert (recorded.best_move, recorded.nodes) == (search.best_move, search.nodes)
        assert (recorded.q, recorded.net_q) == pytest.approx((search.best.wl, search.net_wl), abs=1e-6)
        assert recorded.net_d == pytest.approx(search.net_d)


def test_a_file_a_game_named_as_lc0_does_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """What a killed run left half-written goes; to go on, the folder may have files."""
    first, last = (replace(fake_game(chess.STARTING_FEN, seed, plies=12), number=seed) for seed in (0, 1234567))
    ChunkWriter(tmp_path, RecordFacts()).write(first)
    with pytest.raises(UsageError, match="not empty"):
        ChunkWriter(tmp_path, RecordFacts())
    (tmp_path / ".game_000007.gz.part").write_bytes(b"half")
    writer = ChunkWriter(tmp_path, RecordFacts(), resume=True)
    assert writer.write(replace(first, result="*", ending=words.TOO_LONG, number=5)) is None
    for game in (last, first):
        path = writer.write(game)
        assert path is not None
        assert gzip.decompress(path.read_bytes()) == game_records(game, RecordFacts()).tobytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["game_000000.gz", "game_1234567.gz"]
    for folder, error in ((tmp_path / "game_000000.gz", UsageError), (Path("/proc/chunks"), ValueRepairError)):
        with pytest.raises(error, match=str(folder)):
            ChunkWriter(folder, RecordFacts())
