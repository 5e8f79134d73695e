"""Training positions: planes, moves and targets are those meant, and a pass has each position once."""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
from collections import Counter
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from tests.chunk_games import ENDING, ENDING_START, GAME
from tests.cli_tree import SAMPLE
from tests.training_doubles import store_beside_games, store_source, store_with_screening
from tests.v6_records import positions_of, read_chunk, records_of, write_chunk
from valuerepair.chess import v6
from valuerepair.chess.positions import PositionBatch, decode_move
from valuerepair.errors import ValueRepairError
from valuerepair.nets.planes import INPUT_FORMATS, encode, unpack_masks
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.store import Store
from valuerepair.training.samples import MOST_MOVES, Batch, Samples, of_positions, of_records, wdl_of
from valuerepair.training.sources import (
    ChunkSource,
    StoreSource,
    TrainingSource,
    TrainingStream,
    is_held,
    value_weights,
)

GAMES = {"opening": (chess.STARTING_FEN, GAME), "ending": (ENDING_START, ENDING)}


def planes(samples: Samples) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    unpacked = np.empty((len(samples), 112, 8, 8), np.float32)
    unpack_masks(samples.masks, samples.rule50, unpacked)
    return unpacked


def policies(batch: Batch) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """[n, 1858] as in the records."""
    policy = np.full((len(batch.moves), len(v6.POLICY_MOVES)), -1, np.float32)
    for row, (moves, shares) in enumerate(zip(batch.moves, batch.shares, strict=True)):
        policy[row, moves[shares >= 0]] = shares[shares >= 0]
    return policy


def equal(a: Batch, b: Batch) -> bool:
    columns = zip(a, b, strict=True)
    return all(
        np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in columns if x is not None and y is not None
    )


# -- one position -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", INPUT_FORMATS)
@pytest.mark.parametrize("game", GAMES)
def test_planes_and_policies_of_records_are_those_of_the_encoder(game: str, form: int) -> None:
    """lc0's encoder agrees with `encode` (tests/test_nets_planes.py); records say the same in another way."""
    start, moves = GAMES[game]
    positions = positions_of(moves, start)
    records = records_of(positions, moves, form)
    samples = of_records(records, 0.0)
    np.testing.assert_array_equal(planes(samples), encode(PositionBatch.from_positions(positions), form))
    np.testing.assert_array_equal(policies(samples.batch()), records["probabilities"])


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_positions_give_the_same_as_records(form: int) -> None:
    positions = positions_of(GAME)
    records = records_of(positions, GAME, form)
    q, d = np.linspace(-0.9, 0.9, len(positions)), np.full(len(positions), 0.2)
    ours = of_positions(PositionBatch.from_positions(positions), q, wdl_of(q, d), form)
    theirs = of_records(records, 0.0)
    np.testing.assert_array_equal(planes(ours), planes(theirs))
    assert (policies(ours.batch()) >= 0).tolist() == (policies(theirs.batch()) >= 0).tolist()
    assert not ours.shares.any()
    np.testing.assert_allclose(ours.wdl[:, 0] - ours.wdl[:, 2], q, atol=1e-6)
    np.testing.assert_allclose(ours.wdl.sum(1), 1, atol=1e-6)
    # The net's draws, as far as Q leaves room for them.
    np.testing.assert_allclose(ours.wdl[:, 1], np.minimum(0.2, 1 - np.abs(q)), atol=1e-6)
    assert (ours.wdl >= 0).all()


def test_targets_are_those_of_lczero_training() -> None:
    """tf/tfprocess.py, qMix, of the W/D/L that tf/chunkparser.py makes: ((1 - d + q) / 2, d, (1 - d - q) / 2)."""
    values: dict[str, Any] = {"result_q": 1.0, "result_d": 0.0, "best_q": 0.2, "best_d": 0.5, "plies_left": 33.0}
    records = records_of(positions_of(GAME), GAME, **values)
    samples = of_records(records, 0.25)
    z, q = np.array([1, 0, 0]), np.array([0.35, 0.5, 0.15])
    np.testing.assert_allclose(samples.wdl, np.tile(0.25 * q + 0.75 * z, (len(records), 1)), atol=1e-6)
    assert (samples.moves_left == 33).all()
    np.testing.assert_allclose(samples.deep_q, 0.2)


def test_the_result_is_not_taken_for_the_value_of_a_search() -> None:
    """Records without visits have the result in the place of the search's value (docs/formats.md)."""
    values: dict[str, Any] = {"result_q": 1.0, "best_q": 1.0, "visits": 0}
    records = records_of(positions_of(GAME), GAME, **values)
    assert np.isnan(of_records(records, 0.0).deep_q).all()
    records["visits"][3], records["best_q"][5] = 1, 0.4
    with_value = np.flatnonzero(~np.isnan(of_records(records, 0.0).deep_q))
    assert with_value.tolist() == [3, 5]


def test_a_search_without_values_does_not_matter_where_it_is_not_learned() -> None:
    records = records_of(positions_of(GAME), GAME, best_q=np.nan, best_d=np.nan, result_q=0.0, result_d=1.0)
    assert (of_records(records, 0.0).wdl == [0, 1, 0]).all()


def test_rows_are_taken_and_joined_whole() -> None:
    samples = of_records(records_of(positions_of(GAME), GAME), 0.0)
    rows = np.array([5, 2, 2, 40])
    taken = samples.take(rows)
    one_by_one = Samples.concat([samples.take(np.array([row])) for row in rows])
    for field in fields(Samples):
        np.testing.assert_array_equal(getattr(taken, field.name), getattr(one_by_one, field.name))
    np.testing.assert_array_equal(policies(taken.batch()), policies(samples.batch())[rows])
    assert len(samples.take(np.empty(0, np.int64))) == 0


def test_a_batch_is_filled_up_by_rows_that_weigh_nothing() -> None:
    batch = of_records(records_of(positions_of(GAME)[:3], GAME[:3]), 0.0).batch(8)
    assert batch.weight.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert batch.bits.shape == (8, 112, 2)
    assert (batch.shares[3:] == -1).all()


def test_no_position_has_more_moves_than_a_batch_has_room_for() -> None:
    most = chess.Board("R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1")  # Petrović, 1964
    assert most.legal_moves.count() == 218 <= MOST_MOVES


# -- chunks -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty games; each record is known by its plies left: 1,000 times the game, and its number."""
    folder = tmp_path_factory.mktemp("chunks")
    opening, ending = (records_of(positions_of(moves, start), moves) for start, moves in GAMES.values())
    for game in range(40):
        records = (opening if game % 2 else ending)[: 10 + game].copy()
        records["plies_left"] = 1000 * game + np.arange(len(records))
        write_chunk(folder / f"game_{game:06d}.gz", records)
    return folder


def known(batch: Batch) -> list[int]:
    return [int(plies) for plies in batch.moves_left]


def every(folder: Path) -> set[int]:
    return {int(ply) for path in folder.glob("*.gz") for ply in read_chunk(path)["plies_left"]}


def test_chunks_of_one_record_are_told_from_games(chunks: Path, tmp_path: Path) -> None:
    assert ChunkSource([str(chunks)], 1).is_of_games
    for number, path in enumerate(sorted(chunks.glob("*.gz"))[:5]):
        for ply, record in enumerate(read_chunk(path)):
            write_chunk(tmp_path / f"{number}-{ply}.gz", np.atleast_1d(record))
    assert not ChunkSource([str(tmp_path)], 1).is_of_games


def test_a_pass_has_each_position_once_and_none_that_is_held_out(chunks: Path) -> None:
    source = ChunkSource([str(chunks)], 1, holdout=0.25)
    held = {int(m) for m in source.held_out().samples.moves_left}
    stream = TrainingStream([source], 32, 1, window=300)
    total = stream.positions
    seen = [m for batch in islice(stream.batches(), -(-2 * total // 32)) for m in known(batch)]
    assert 0 < source.held_games < 20
    assert {m // 1000 for m in held}.isdisjoint({m // 1000 for m in seen})
    assert held | set(seen) == every(chunks)
    first, second = seen[:total], seen[total : 2 * total]
    assert Counter(first) == Counter(second) == Counter(set(seen))
    assert first != second


def test_batches_are_the_same_wherever_reading_begins(chunks: Path) -> None:
    stream = TrainingStream([ChunkSource([str(chunks)], 1)], 48, 7, window=250)
    whole = list(islice(stream.batches(), 60))  # more than one pass
    for first in (0, 1, 17, 40, 59):
        assert equal(next(stream.batches(first)), whole[first])
    other = next(TrainingStream([ChunkSource([str(chunks)], 1)], 48, 8, window=250).batches())
    assert not equal(other, whole[0])


def test_a_batch_may_be_larger_than_the_source(chunks: Path) -> None:
    stream = TrainingStream([ChunkSource([str(chunks)], 1)], 3000, 7)
    counts = Counter(known(next(stream.batches())))
    assert stream.positions < 3000
    assert set(counts.values()) <= {3000 // stream.positions, 3000 // stream.positions + 1}


def test_positions_are_shuffled_over_games(chunks: Path) -> None:
    batch = next(TrainingStream([ChunkSource([str(chunks)], 1)], 64, 7).batches())
    assert len({m // 1000 for m in known(batch)}) > 20


def test_held_out_games_stay_so_when_others_come() -> None:
    games = np.random.default_rng(3).integers(0, 2**63, 20000).astype(np.uint64)
    held = is_held(games, 0.1)
    assert 0.09 < held.mean() < 0.11
    assert (is_held(games[:5000], 0.1) == held[:5000]).all()
    assert held[is_held(games, 0.05)].all()
    assert not is_held(games, 0).any()
    assert is_held(games[:3], 1e-9).sum() == 1


def test_a_chunk_that_changes_meanwhile_is_named(chunks: Path, tmp_path: Path) -> None:
    shutil.copytree(chunks, tmp_path / "copy")
    stream = TrainingStream([ChunkSource([str(tmp_path / "copy")], 1)], 32, 0)
    for path in (tmp_path / "copy").glob("*.gz"):
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueRepairError, match=r"game_\d+\.gz: changed"):
        next(stream.batches())


def test_a_record_without_a_value_is_refused(tmp_path: Path) -> None:
    for game in range(4):
        write_chunk(tmp_path / f"{game}.gz", records_of(positions_of(GAME), GAME, result_q=[np.nan, game][game > 0]))
    with pytest.raises(ValueRepairError, match=r"0\.gz"):
        next(TrainingStream([ChunkSource([str(tmp_path)], 1, holdout=0)], 500, 0).batches())


@pytest.mark.parametrize("field", ["plies_left", "best_q", "result_q"])
@pytest.mark.parametrize("is_tar", [False, True])
def test_a_record_with_an_infinite_value_is_named(field: str, is_tar: bool, tmp_path: Path) -> None:
    """A writer divided by zero: the loss became infinite, and the advice was another learning rate."""
    records = records_of(positions_of(GAME), GAME)
    records[field][2] = np.inf
    path = write_chunk(tmp_path / "0.gz", records)
    name = "0.gz"
    if is_tar:
        with tarfile.open(tmp_path / "all.tar", "w") as tar:
            tar.add(path)
        path = path.with_name("all.tar")
        with tarfile.open(path) as tar:
            name = f"all.tar at byte {tar.getmembers()[0].offset_data:,}"
    source = ChunkSource([str(path)], 1, holdout=0)
    with pytest.raises(ValueRepairError, match=rf"^{name}: record 3 of {len(GAME)}: {field} is inf"):
        source.read(source.units().units)


# -- stores -----------------------------------------------------------------------------------------------------------


def of_store(path: Path = SAMPLE, question: Question | None = None, **options: Any) -> StoreSource:
    return store_source(path, question or Question(threshold=0.3), **{"holdout": 0.2, **options})


def test_the_judge_says_what_positions_of_a_store_are_worth() -> None:
    source = of_store()
    with Store.open(SAMPLE) as store:
        frame = view.frame(store, Question(threshold=0.3)).set_index("position_id")
    units = source.units().units[:200]
    samples = source.read(units)
    ids = source.judged.ids[units]
    deep, draw = (frame.loc[ids, name].to_numpy() for name in ("deep_q", "net_d"))
    np.testing.assert_allclose(samples.wdl[:, 0] - samples.wdl[:, 2], deep, atol=1e-6)
    np.testing.assert_allclose(samples.wdl[:, 1], np.minimum(draw, 1 - np.abs(deep)), atol=1e-6)
    np.testing.assert_allclose(samples.deep_q, deep, atol=1e-6)
    assert (samples.value_weight == 1).all()
    for fen, cut, end in zip(frame.loc[ids, "fen"], samples.cuts, samples.cuts[1:], strict=False):
        assert end - cut == chess.Board(fen).legal_moves.count()


def test_the_judge_s_move_is_that_of_the_search_and_what_is_not_legal_is_not_known(tmp_path: Path) -> None:
    db = tmp_path / "some.db"
    shutil.copy(SAMPLE, db)
    with sqlite3.connect(db) as sql:
        sql.execute("UPDATE deep_values SET best_move = NULL WHERE position_id % 3 = 0")
        sql.execute("UPDATE deep_values SET best_move = 'a1a1' WHERE position_id % 3 = 1")
    source = of_store(db)
    with Store.open(db) as store:
        frame = view.frame(store, Question(threshold=0.3)).set_index("position_id")
    units = source.units().units
    samples, ids = source.read(units), source.judged.ids[units]
    assert (samples.judged[ids % 3 != 2] == -1).all()
    batch = samples.batch()
    for row in np.flatnonzero(ids % 3 == 2)[:200]:
        board = chess.Board(frame.loc[ids[row], "fen"])
        best = board.parse_uci(frame.loc[ids[row], "deep_best"])
        move = best if board.turn else chess.Move(best.from_square ^ 56, best.to_square ^ 56, best.promotion)
        name = decode_move(int(v6.POLICY_MOVES[batch.moves[row, batch.judged[row]]]))
        castling = {"e1g1": "e1h1", "e1c1": "e1a1"} if board.is_castling(best) else {}
        assert name == castling.get(move.uci(), move.uci()).removesuffix("n")


def test_the_judges_own_wdl_is_what_the_engine_said(tmp_path: Path) -> None:
    """Draws and all; positions where it gave none are not there, but for mates, which need none."""
    db = tmp_path / "some.db"
    shutil.copy(SAMPLE, db)
    with sqlite3.connect(db) as sql:
        sql.execute("UPDATE deep_values SET w = NULL, d = NULL, l = NULL WHERE position_id % 3 = 0")
    judged = of_store(db, Question(threshold=0.3, q_from="wdl")).judged
    with Store.open(db) as store:
        frame = view.frame(store, Question(threshold=0.3)).set_index("position_id").loc[judged.ids]
    wdl = judged.wdl(np.arange(len(judged.ids)))
    mates = frame["mate"].notna().to_numpy()
    assert (mates | (judged.ids % 3 != 0)).all()
    assert (mates & (judged.ids % 3 == 0)).any()
    per_mille = frame[["deep_w", "deep_d", "deep_l"]].to_numpy()[~mates]
    np.testing.assert_allclose(wdl[~mates], per_mille / 1000, atol=1e-6)
    won = judged.deep_q[mates] > 0
    np.testing.assert_array_equal(wdl[mates], np.stack([won, 0 * won, ~won], 1))


@pytest.mark.parametrize("holdout", [0.0, 0.2])
def test_a_pass_has_each_position_that_is_not_held_out_once(holdout: float, tmp_path: Path) -> None:
    """What screening left out is there, and never a candidate; the control has all but the candidates."""
    db = store_with_screening(tmp_path)
    with Store.open(db) as store:
        frame = view.frame(store, Question(alpha=100.0), screened=True).set_index("position_id")
    for threshold in (0.1, 0.55):
        source, control = (
            of_store(db, Question(threshold=threshold, alpha=100.0), holdout=holdout, control=control)
            for control in (False, True)
        )
        judged = source.judged
        screened = frame.loc[judged.ids, "screened"].to_numpy()
        np.testing.assert_array_equal(screened, judged.ids % 3 == 0)
        off = frame.loc[judged.ids, "disagreement"].abs().to_numpy() >= threshold
        assert (screened & off).any()
        np.testing.assert_array_equal(judged.is_candidate, off & ~screened)
        held = is_held(judged.games, holdout)
        np.testing.assert_array_equal(source.units().units, np.flatnonzero(~held))
        np.testing.assert_array_equal(control.units().units, np.flatnonzero(~held & ~judged.is_candidate))
        np.testing.assert_array_equal(source.held, np.flatnonzero(held))
        np.testing.assert_array_equal(control.held, source.held)
        assert control.identity != source.identity


def test_values_are_weighted_by_the_disagreement_of_their_position() -> None:
    source, plain = of_store(disagreement_weight=1.0), of_store()
    units = source.units().units
    np.testing.assert_allclose(
        source.read(units).value_weight, value_weights(source.judged.disagreement[units], 0.3, 1.0), rtol=1e-6
    )
    assert source.read(units).value_weight.mean() == pytest.approx(1, rel=1e-5)
    assert (source.held_out().samples.value_weight == 1).all()
    assert source.identity != plain.identity


def test_positions_beside_the_games_are_learned_and_judged_with_their_games(tmp_path: Path) -> None:
    """Once in a pass like all others; but neighbours judge no net."""
    db = store_beside_games(tmp_path)
    with sqlite3.connect(db) as sql:
        sql.execute("UPDATE positions SET origin = 'neighbour', parent_id = 1 WHERE id % 12 = 6")
        rows = sql.execute(
            "SELECT p.id, p.origin, p.game_id FROM positions p JOIN deep_values v ON v.position_id = p.id "
            "WHERE v.judge_id = 1"
        )
        kinds, games = zip(*(((number, kind), (number, game)) for number, kind, game in rows), strict=True)
    source = of_store(db, holdout=0.3)
    judged = source.judged
    assert dict(zip(judged.ids.tolist(), judged.kind.tolist(), strict=True)) == dict(kinds)
    assert set(dict(kinds).values()) == {"game", "random_move", "search_node", "neighbour"}
    trained, held = judged.ids[source.trained], judged.ids[source.held]
    left = {dict(kinds)[number] for number in set(dict(kinds)) - {*trained.tolist(), *held.tolist()}}
    assert left == {"neighbour"}
    assert not {dict(games)[number] for number in trained.tolist()} & {dict(games)[number] for number in held.tolist()}
    kinds_of_held = source.held_out().kind.tolist()
    assert kinds_of_held == [dict(kinds)[number] for number in held.tolist()]
    assert set(kinds_of_held) == {"game", "random_move", "search_node"}
    assert "neighbour" in judged.kind[source.trained]


def test_a_store_and_chunks_go_into_the_same_batches(chunks: Path) -> None:
    sources: list[TrainingSource] = [ChunkSource([str(chunks)], 1), of_store()]
    stream = TrainingStream(sources, 128, 0, window=1000)
    batches = list(islice(stream.batches(), 8))
    from_store = [np.isnan(batch.moves_left).mean() for batch in batches]
    assert all(0 < share < 1 for share in from_store)
    assert equal(next(stream.batches(5)), batches[5])
    assert not batches[0].shares[np.isnan(batches[0].moves_left)].max() > 0
