"""Training positions: planes, moves and targets are those meant, and a pass has each position once."""

from __future__ import annotations

import gzip
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
import pandas as pd
import pytest
from scipy import stats
from valuerepair.training.drawing import is_held
from valuerepair.training.weighted import measure
from valuerepair.training.weights import parse_formula

from tests.chunk_games import ENDING, ENDING_START, GAME
from tests.cli_tree import SAMPLE
from tests.expanded_store import expanded_store
from tests.training_doubles import store_beside_games, store_source
from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair.chess import v6
from valuerepair.chess.positions import PositionBatch, decode_move
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.planes import INPUT_FORMATS, encode, unpack_masks
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training import drawing
from valuerepair.training.samples import MOST_MOVES, Batch, Samples, of_positions, of_records, wdl_of
from valuerepair.training.sources import ChunkSource, StoreSource, TrainingSource, TrainingStream

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
    np.testing.assert_array_equal(planes(samples), encode(PositionBatch.from_positions(positions), "no", form))
    np.testing.assert_array_equal(policies(samples.batch()), records["probabilities"])


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_positions_give_the_same_as_records(form: int) -> None:
    positions = positions_of(GAME)
    records = records_of(positions, GAME, form)
    q, d = np.linspace(-0.9, 0.9, len(positions)), np.full(len(positions), 0.2)
    ours = of_positions(PositionBatch.from_positions(positions), q, wdl_of(q, d), "no", form)
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


@pytest.mark.parametrize("share", [1e-320, 1e-9])
def test_the_smallest_share_of_candidates_is_one_of_all(share: float) -> None:
    assert drawing._sizes(7, 1000, share) == (1, 1000)


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
        records["orig_q"], records["best_q"] = 0.1, np.linspace(-1, 1, len(records))
        records["policy_kld"] = 0.1
        write_chunk(folder / f"game_{game:06d}.gz", records)
    return folder


def known(batch: Batch) -> list[int]:
    return [int(plies) for plies in batch.moves_left]


def every(folder: Path) -> set[int]:
    read = (np.frombuffer(gzip.decompress(p.read_bytes()), v6.RECORD) for p in folder.glob("*.gz"))
    return {int(ply) for records in read for ply in records["plies_left"]}


def test_chunks_of_one_record_are_told_from_games(chunks: Path, tmp_path: Path) -> None:
    assert ChunkSource([str(chunks)], 1).is_of_games
    for number, path in enumerate(sorted(chunks.glob("*.gz"))[:5]):
        for ply, record in enumerate(np.frombuffer(gzip.decompress(path.read_bytes()), v6.RECORD)):
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


def test_weights_of_a_formula_and_of_a_file_are_the_same(chunks: Path, tmp_path: Path) -> None:
    text = "soft:threshold=0.5,floor=0.1"
    side = tmp_path / "weights.parquet"
    measure([str(chunks)], parse_formula(text), side, quiet=True)
    by_formula, by_file = (
        next(TrainingStream([ChunkSource([str(chunks)], 1, weights=w)], 256, 0).batches()) for w in (text, str(side))
    )
    assert equal(by_formula, by_file)
    assert len(np.unique(by_file.weight)) > 20
    gap = np.abs(np.float32(0.1) - np.linspace(-1, 1, 10).astype(np.float32))
    first = [m for m in known(by_file) if m < 10]
    expected = 0.1 + 0.9 / (1 + np.exp(-(gap - 0.5) / 0.1))
    for m in first:
        assert by_file.weight[known(by_file).index(m)] == pytest.approx(expected[m], rel=1e-5)
    # The file may be of more chunks than are given, and these in another order.
    other = tmp_path / "other"
    other.mkdir()
    for number, path in enumerate(sorted(chunks.glob("*.gz"), reverse=True)[:40]):
        shutil.copy(path, other / f"{number:03}.gz")
    formula_source, file_source = (ChunkSource([str(other)], 1, weights=w) for w in (text, str(side)))
    units = formula_source.units().units
    assert np.array_equal(formula_source.read(units).weight, file_source.read(units).weight)


def test_weights_of_other_chunks_are_refused(chunks: Path, tmp_path: Path) -> None:
    few, side = tmp_path / "few", tmp_path / "weights.parquet"
    few.mkdir()
    for path in sorted(chunks.glob("*.gz"))[:30]:
        shutil.copy(path, few)
    measure([str(few)], parse_formula("soft"), side, quiet=True)
    with pytest.raises(ValueRepairError, match=f"it has no weights of {len(list(chunks.glob('*.gz'))) - 30} of"):
        ChunkSource([str(chunks)], 1, weights=str(side))
    pd.read_parquet(side).drop(columns="digest").to_parquet(side)
    with pytest.raises(ValueRepairError, match="has no column digest"):
        ChunkSource([str(few)], 1, weights=str(side))
    with pytest.raises(UsageError, match="no such file"):
        ChunkSource([str(chunks)], 1, weights=str(tmp_path / "none.parquet"))
    side.write_bytes(b"PAR1 nothing")
    with pytest.raises(ValueRepairError, match="cannot be read"):
        ChunkSource([str(chunks)], 1, weights=str(side))


def test_chunks_of_another_input_format_are_refused(chunks: Path) -> None:
    with pytest.raises(ValueRepairError, match="input format classical 112 planes, the net wants canonical"):
        ChunkSource([str(chunks)], 3)


def test_all_held_out_and_nothing_there_are_refused(chunks: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueRepairError, match="all of its 40 games are held out"):
        ChunkSource([str(chunks)], 1, holdout=1.0)
    (tmp_path / "game.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(ValueRepairError, match="no usable chunk"):
        ChunkSource([str(tmp_path)], 1)


def test_a_chunk_that_changes_meanwhile_is_named(chunks: Path, tmp_path: Path) -> None:
    shutil.copytree(chunks, tmp_path / "copy")
    stream = TrainingStream([ChunkSource([str(tmp_path / "copy")], 1)], 32, 0)
    for path in (tmp_path / "copy").glob("*.gz"):
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueRepairError, match=r"game_\d+\.gz: changed since training began: cut off"):
        next(stream.batches())


def test_a_record_without_a_value_is_refused(tmp_path: Path) -> None:
    for game in range(4):
        write_chunk(tmp_path / f"{game}.gz", records_of(positions_of(GAME), GAME, result_q=[np.nan, game][game > 0]))
    with pytest.raises(ValueRepairError, match=r"0\.gz: a record has no value to learn"):
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
    with pytest.raises(ValueRepairError, match=rf"^{name}: record 3 of {len(GAME)}: {field} is inf; leave this"):
        source.read(source.units().units)


# -- stores -----------------------------------------------------------------------------------------------------------


def of_store(
    path: Path = SAMPLE, question: Question | None = None, share: float | None = 0.1, seed: int = 0
) -> StoreSource:
    return store_source(path, question or Question(threshold=0.3), share=share, holdout=0.2, seed=seed)


def test_the_oracle_says_what_positions_of_a_store_are_worth() -> None:
    source = of_store()
    with Store.open(SAMPLE) as store:
        frame = store.frame(Question(threshold=0.3), cut=True).set_index("position_id")
    units = source.one_pass(0).units[:200]
    samples = source.read(units)
    ids = source.draw.ids[np.sort(units)]
    deep, draw = (frame.loc[ids, name].to_numpy() for name in ("deep_q", "net_d"))
    np.testing.assert_allclose(samples.wdl[:, 0] - samples.wdl[:, 2], deep, atol=1e-6)
    np.testing.assert_allclose(samples.wdl[:, 1], np.minimum(draw, 1 - np.abs(deep)), atol=1e-6)
    np.testing.assert_allclose(samples.deep_q, deep, atol=1e-6)
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
        frame = store.frame(Question(threshold=0.3), cut=True).set_index("position_id")
    units = source.units().units
    samples, ids = source.read(units), source.draw.ids[np.sort(units)]
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
    draw = of_store(db, Question(threshold=0.3, q_from="wdl")).draw
    with Store.open(db) as store:
        frame = store.frame(Question(threshold=0.3), cut=True).set_index("position_id").loc[draw.ids]
    wdl = draw.wdl(np.arange(len(draw.ids)))
    mates = frame["mate"].notna().to_numpy()
    assert (mates | (draw.ids % 3 != 0)).all()
    assert (mates & (draw.ids % 3 == 0)).any()
    per_mille = frame[["deep_w", "deep_d", "deep_l"]].to_numpy()[~mates]
    np.testing.assert_allclose(wdl[~mates], per_mille / 1000, atol=1e-6)
    np.testing.assert_allclose((wdl[:, 0] - wdl[:, 2])[~mates], draw.deep_q[~mates], atol=1e-6)
    won = draw.deep_q[mates] > 0
    np.testing.assert_array_equal(wdl[mates], np.stack([won, 0 * won, ~won], 1))


def test_nothing_held_out_leaves_all() -> None:
    source = store_source(SAMPLE, Question(threshold=0.3), share=None, holdout=0)
    assert not len(source.draw.held_out)
    assert not source.held_games
    assert sorted(source.draw.rows().tolist()) == np.flatnonzero(source.draw.weight > 0).tolist()


def test_a_pass_has_the_share_of_candidates_asked_for() -> None:
    for share in (0.05, 0.1, 0.4, 0.9):
        source = of_store(share=share)
        drawn = source.draw.is_candidate[source.one_pass(0).units]
        assert drawn.mean() == pytest.approx(share, abs=0.01)
        assert len(np.unique(source.one_pass(0).units)) == len(drawn)
        if share < len(source.draw.candidates) / (len(source.draw.candidates) + len(source.draw.others)):
            continue
        assert drawn.sum() == len(source.draw.candidates)
    assert not of_store(share=0).draw.is_candidate[of_store(share=0).one_pass(0).units].any()
    assert of_store(share=1).draw.is_candidate[of_store(share=1).one_pass(0).units].all()


def without_rungs(folder: Path) -> Path:
    """A store that has nothing of what its ladder cut."""
    shutil.copy(SAMPLE, folder / "without.db")
    with sqlite3.connect(folder / "without.db") as sql:
        sql.execute("DELETE FROM deep_values WHERE stage GLOB '[0-9]*'")
    return folder / "without.db"


@pytest.mark.parametrize("kind", ["cut ones known", "cut ones unknown", "expanded"])
def test_without_a_share_candidates_are_as_frequent_as_they_come(kind: str, tmp_path: Path) -> None:
    """Of games that are not held out: of all positions where what was cut is among them, else by the weights of the
    audit. What `vr expand` searched beside a line is there, too."""
    path = {"cut ones known": lambda: SAMPLE, "cut ones unknown": lambda: without_rungs(tmp_path)}.get(
        kind, lambda: expanded_store(tmp_path)
    )()
    question = Question(threshold=0.3, expanded="searched")
    source = of_store(path, question, share=None)
    with Store.open(path) as store:
        frame = store.frame(question, cut=True).set_index("position_id").loc[source.draw.ids]
    reached = frame["step"].notna().to_numpy()
    assert {"line", "child"} <= set(frame["step"].dropna()) or not reached.any()
    frame = frame[~is_held(source.draw.games, 0.2) & (frame["step"] != "line").to_numpy()]
    wrong = frame["rung"].isna() & (frame["disagreement"].abs() >= 0.3)
    assert reached.any() == (kind == "expanded")
    assert (len(frame["weight"].unique()) > 3) == (kind != "expanded")
    weight = np.ones(len(frame)) if kind == "cut ones known" else frame["weight"]
    assert source.draw.ordinary_share == pytest.approx(np.average(wrong, weights=weight))
    drawn = source.draw.is_candidate[source.one_pass(0).units]
    assert drawn.mean() == source.draw.share == pytest.approx(source.draw.ordinary_share, abs=1 / len(drawn))


def test_what_was_cut_is_learned_and_never_a_candidate() -> None:
    """A pass without a share has each sampled position once; lower thresholds find candidates in full searches only."""
    with Store.open(SAMPLE) as store:
        frame = store.frame(Question(alpha=100.0), cut=True).set_index("position_id")
    for threshold in (0.1, 0.55):
        source = store_source(SAMPLE, Question(threshold=threshold, alpha=100.0), share=None, holdout=0.2)
        draw = source.draw
        cut = frame.loc[draw.ids, "rung"].notna().to_numpy()
        off = frame.loc[draw.ids, "disagreement"].abs().to_numpy() >= threshold
        assert (cut & off).any()
        np.testing.assert_array_equal(draw.is_candidate, off & ~cut)
        held = is_held(draw.games, 0.2)
        assert sorted(source.one_pass(0).units.tolist()) == np.flatnonzero(~held).tolist()
        assert sorted(draw.held_out.tolist()) == np.flatnonzero(held).tolist()
        assert (source.held_out().samples.weight == 1).all()


def test_without_a_share_and_without_candidates_nothing_is_trained() -> None:
    with pytest.raises(
        ValueRepairError,
        match=r"no candidate among the .* another --threshold than 2, or give --share 0 to train without",
    ):
        of_store(question=Question(threshold=2), share=None)


def test_fewer_candidates_are_part_of_more_and_the_other_positions_stay() -> None:
    def of(candidates: int | None, seed: int = 0) -> StoreSource:
        question = Question(threshold=0.3)
        return store_source(SAMPLE, question, share=0.1, holdout=0.2, seed=seed, candidates=candidates)

    candidate_sets = [set(of(most).draw.candidates.tolist()) for most in (3, 8, 10_000, None)]
    assert [len(chosen) for chosen in candidate_sets[:2]] == [3, 8]
    assert candidate_sets[0] < candidate_sets[1] < candidate_sets[2] == candidate_sets[3]
    assert candidate_sets[0] != set(of(3, seed=1).draw.candidates.tolist())
    np.testing.assert_array_equal(of(3).draw.others, of(None).draw.others)


def drawn_by(path: Path, ids: Any, weight: Any, seed: int = 0) -> StoreSource:
    pd.DataFrame({"position_id": ids, "weight": weight}).to_parquet(path)
    question = Question(threshold=0.3)
    return store_source(SAMPLE, question, share=0.4, holdout=0.2, seed=seed, draw=str(path))


def test_positions_are_drawn_as_often_as_a_file_says(tmp_path: Path) -> None:
    """Candidates or not; by a chi-squared test of 400 passes."""
    plain = of_store()
    rng = np.random.default_rng(5)
    weights = rng.choice([0.0, 0.5, 1, 4], len(plain.draw.ids))
    shuffled = rng.permutation(len(weights))
    source = drawn_by(tmp_path / "w.parquet", plain.draw.ids[shuffled], weights[shuffled])
    units = source.units().units
    held = is_held(source.draw.games, 0.2)
    np.testing.assert_array_equal(units, np.flatnonzero(~held & (weights > 0)))
    passes = [source.one_pass(k).units for k in range(400)]
    size = int(weights[units].sum() / 4)
    assert {len(np.unique(one)) for one in passes} == {size}
    times = np.bincount(np.concatenate(passes), minlength=len(weights))[units]
    expected = 400 * size * weights[units] / weights[units].sum()
    spread = expected * (1 - expected / 400)
    inside = spread > 1e-9
    assert (((times - expected) ** 2)[inside] / spread[inside]).sum() < stats.chi2.ppf(0.9999, inside.sum())
    again = drawn_by(tmp_path / "again.parquet", plain.draw.ids, weights)
    np.testing.assert_array_equal(again.one_pass(7).units, passes[7])
    assert again.identity == source.identity != drawn_by(tmp_path / "2.parquet", plain.draw.ids, 2 * weights).identity
    assert (source.held_out().samples.weight == plain.held_out().samples.weight).all()


def test_what_cannot_be_drawn_by_is_said(tmp_path: Path) -> None:
    ids, path = of_store().draw.ids, tmp_path / "w.parquet"
    with pytest.raises(ValueRepairError, match="has a weight for none of the positions"):
        drawn_by(path, [-1], [1.0])
    with pytest.raises(ValueRepairError, match="names a position twice"):
        drawn_by(path, [*ids, ids[0]], 1.0)
    with pytest.raises(ValueRepairError, match="numbers that are not negative"):
        drawn_by(path, ids, -1.0)
    with pytest.raises(ValueRepairError, match="must be numbers"):
        drawn_by(path, ids, "much")
    with pytest.raises(ValueRepairError, match="with a finite sum"):
        drawn_by(path, ids, 1e308)
    with pytest.raises(ValueRepairError, match="whole ones"):
        drawn_by(path, ids + 0.5, 1.0)
    with pytest.raises(ValueRepairError, match="whole ones"):
        drawn_by(path, [None, *ids[1:]], 1.0)
    assert drawn_by(path, ids.astype(np.float64), 1.0).identity == drawn_by(path, ids, 1.0).identity
    pd.DataFrame({"position": ids}).to_parquet(path)
    with pytest.raises(ValueRepairError, match="has no column position_id"):
        store_source(SAMPLE, Question(threshold=0.3), share=0.1, holdout=0, seed=0, draw=str(path))


@pytest.mark.parametrize("expanded", ["no", "searched"])
def test_positions_beside_the_games_are_learned_and_judged_with_their_games(expanded: Any, tmp_path: Path) -> None:
    """Once in a pass like all others, whatever is asked of what was reached."""
    db = store_beside_games(tmp_path)
    with sqlite3.connect(db) as sql:
        rows = sql.execute("SELECT p.id, p.kind, p.game_id FROM positions p JOIN deep_values v ON v.position_id = p.id")
        kinds, games = zip(*(((number, kind), (number, game)) for number, kind, game in rows), strict=True)
    source = store_source(db, Question(threshold=0.3, expanded=expanded), share=None, holdout=0.3)
    draw = source.draw
    assert dict(zip(draw.ids.tolist(), draw.kind.tolist(), strict=True)) == dict(kinds)
    assert set(Counter(dict(kinds).values())) == {"game", "aside", "search"}
    trained, held = draw.ids[source.one_pass(0).units], draw.ids[draw.held_out]
    assert sorted([*trained, *held]) == sorted(dict(kinds))
    assert not {dict(games)[number] for number in trained.tolist()} & {dict(games)[number] for number in held.tolist()}
    judged = source.held_out()
    assert judged.kind.tolist() == [dict(kinds)[number] for number in held.tolist()]
    assert {"aside", "search"} <= set(judged.kind)


def test_other_positions_are_drawn_anew_for_each_pass_and_by_the_seed() -> None:
    source = of_store(share=0.5)
    passes = [set(source.one_pass(k).units.tolist()) for k in range(4)]
    assert len({frozenset(one) for one in passes}) == 4
    assert set(of_store(share=0.5).one_pass(2).units.tolist()) == passes[2]
    assert set(of_store(share=0.5, seed=1).one_pass(2).units.tolist()) != passes[2]


def test_judged_positions_are_of_games_that_are_not_trained_on() -> None:
    source = of_store()
    held = source.held_out()
    trained = source.draw.games[np.concatenate([source.one_pass(k).units for k in range(3)])]
    assert not set(held.game.tolist()) & set(trained.tolist())
    assert 0 < source.held_games < source.games
    assert len(held.samples) == len(held.game)


def test_a_store_and_chunks_go_into_the_same_batches(chunks: Path) -> None:
    sources: list[TrainingSource] = [ChunkSource([str(chunks)], 1), of_store()]
    stream = TrainingStream(sources, 128, 0, window=1000)
    batches = list(islice(stream.batches(), 8))
    from_store = [np.isnan(batch.moves_left).mean() for batch in batches]
    assert all(0 < share < 1 for share in from_store)
    assert equal(next(stream.batches(5)), batches[5])
    assert not batches[0].shares[np.isnan(batches[0].moves_left)].max() > 0


def test_a_store_without_candidates_is_refused() -> None:
    with pytest.raises(ValueRepairError, match="no candidate among the"):
        of_store(question=Question(threshold=2.0))
