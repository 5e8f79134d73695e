"""Training chunks of a store's judged positions: boards by python-chess, values by the store's own cells, and lc0's
readers take them."""

from __future__ import annotations

import gzip
import json
import math
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import rel_entr

import valuerepair as vr
from tests import lc0_rescorer, random_nets
from tests.chunk_games import records_in
from tests.cli_tree import SAMPLE
from tests.cli_tree import vr as run_vr
from tests.held_out import hold_out, part_of, split
from tests.test_training_records import STARTS
from tests.training_doubles import copy_of_sample, store_beside_games
from tests.v6_records import positions_of, records_of
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess import v6
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import Position, PositionBatch, decode_move, encode_move
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.net import NetValues, Priors
from valuerepair.nets.planes import INPUT_FORMATS
from valuerepair.nets.policy import policy_indices
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.judged import JudgedPositions
from valuerepair.training.options import parse_policy
from valuerepair.training.records import RecordFacts
from valuerepair.training.samples import sampled_results
from valuerepair.training.store_chunks import JudgedBatch, Result, StoreChunks, position_records

Captured = pytest.CaptureFixture[str]
Records = NDArray[np.void]
with Store.open(SAMPLE) as _store:
    ALPHA: float = _store.setting("alpha")["value"]  # by which all commands read the sample


# -- records ----------------------------------------------------------------------------------------------------------


def some_positions() -> list[Position]:
    """A game with castling, and positions from FENs: rights, en passant, promotions, none of these."""
    game = ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5", "g8f6", "e1g1", "f6e4", "f1e1", "e4d6", "f3e5", "f8e7"]
    positions = positions_of(game)
    for start in STARTS:
        positions += [Position(start, start, ply=chess.Board(start).ply(), history_known=False)]
        moves = list(map(str, list(chess.Board(start).legal_moves)[:1]))
        positions += positions_of([*moves, str(next(iter(_after(start, moves).legal_moves)))], start)
    return positions


def _after(start: str, moves: list[str]) -> chess.Board:
    board = chess.Board(start)
    for move in moves:
        board.push_uci(move)
    return board


def net_of(batch: PositionBatch, seed: int = 0) -> tuple[NetValues, Priors]:
    """What some net says of positions."""
    chance = np.random.default_rng(seed)
    moves, cuts = legal_moves(parse_fens(batch.fen))
    p = np.concatenate([chance.dirichlet(np.ones(n)) for n in np.diff(cuts)]).astype(np.float32)
    best = np.array([a + np.argmax(p[a:b]) for a, b in pairwise(cuts)])
    wdl = chance.dirichlet((2, 2, 2), len(batch)).astype(np.float32)
    left = chance.uniform(1, 90, len(batch)).astype(np.float32)
    values = NetValues(wdl[:, 0] - wdl[:, 2], wdl, moves[best][:, None], p[best][:, None], left)
    return values, (moves, cuts, p)


def judged(batch: PositionBatch, seed: int = 1, **columns: Any) -> JudgedBatch:
    """What some judge says of positions; it gives no move of the first."""
    chance = np.random.default_rng(seed)
    moves, cuts = legal_moves(parse_fens(batch.fen))
    best = moves[cuts[:-1] + chance.integers(0, np.diff(cuts))]
    best[0] = 0
    n = len(batch)
    judgements = JudgedBatch(
        batch,
        chance.dirichlet((1, 1, 1), n).astype(np.float32),
        best,
        chance.integers(1, 10**9, n),
        np.full(n, np.nan, np.float32),
        chance.uniform(0, 1, n),
    )
    return judgements._replace(**columns)


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_boards_are_those_of_python_chess(form: int) -> None:
    positions = some_positions()
    batch = PositionBatch.from_positions(positions)
    records = position_records(judged(batch), *net_of(batch), RecordFacts(form, 1.0))
    first = [str(next(iter(chess.Board(p.fen).legal_moves))) for p in positions]
    boards = records_of(positions, first, form)
    names = [name for name in v6.RECORD.names or () if name.startswith(("castling", "side", "rule50", "invar", "plan"))]
    for name in (*names, "version", "input_format"):
        np.testing.assert_array_equal(records[name], boards[name], err_msg=name)
    np.testing.assert_array_equal(records["probabilities"] >= 0, boards["probabilities"] >= 0)


@pytest.mark.parametrize("form", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_policy_is_the_nets_with_a_share_for_the_judges_move(form: int, share: float) -> None:
    batch = PositionBatch.from_positions(some_positions())
    values, (moves, cuts, p) = net_of(batch)
    judge = judged(batch)
    facts = RecordFacts(form, 1.0)
    records = position_records(judge, values, (moves, cuts, p), facts, share=share)
    indices = policy_indices(parse_fens(batch.fen), moves, cuts, form)
    for i, record in enumerate(records):
        mine = slice(cuts[i], cuts[i + 1])
        is_best = moves[mine] == judge.best[i]
        wanted = p[mine] if not is_best.any() else (1 - share) * p[mine] + share * is_best
        written = record["probabilities"][indices[mine]]
        np.testing.assert_allclose(written, wanted, atol=1e-6)
        assert (record["probabilities"] >= 0).sum() == len(wanted)
        best = int(np.argmax(is_best)) if is_best.any() else int(np.argmax(p[mine]))
        assert record["best_idx"] == record["played_idx"] == indices[mine][best]
        assert record["policy_kld"] == pytest.approx(rel_entr(wanted, p[mine].astype(float)).sum(), abs=2e-5)
        assert record["policy_kld"] > 0  # 0 says to lczero-training that it is not known


def test_values_are_the_judges_and_the_nets() -> None:
    batch = PositionBatch.from_positions(some_positions())
    n = len(batch)
    values, priors = net_of(batch)
    z = np.resize(np.array([1, 0, -1, np.nan], np.float32), n)
    judge = judged(batch, z=z)
    facts = RecordFacts(1, 1.0)
    by_judge, by_game = (
        position_records(judge, values, priors, facts, result=result) for result in get_args(Result)[::-1]
    )
    q, d = judge.wdl[:, 0] - judge.wdl[:, 2], judge.wdl[:, 1]
    for records in (by_judge, by_game):
        for name in ("root", "best", "played"):
            np.testing.assert_array_equal(records[f"{name}_q"], q)
            np.testing.assert_array_equal(records[f"{name}_d"], d)
        np.testing.assert_array_equal(records["result_d"], records["result_q"] == 0)
    np.testing.assert_array_equal(by_judge["orig_q"], values.q)
    np.testing.assert_array_equal(by_judge["orig_d"], values.wdl[:, 1])
    np.testing.assert_array_equal(by_judge["orig_m"], values.moves_left)
    np.testing.assert_array_equal(by_judge["plies_left"], values.moves_left)
    assert by_judge["visits"].tolist() == judge.nodes.tolist()
    with_result = ~np.isnan(z)
    np.testing.assert_array_equal(by_game["result_q"][with_result], z[with_result])
    np.testing.assert_array_equal(by_game["result_q"][~with_result], by_judge["result_q"][~with_result])


@given(st.tuples(*[st.floats(0.01, 1) for _ in range(3)]))
def test_results_are_drawn_with_the_judges_chances(shares: tuple[float, ...]) -> None:
    """Over chances that are spread evenly the mean result is the judge's value."""
    n, wdl = 400, np.array(shares, np.float32) / np.float32(sum(shares))
    results = sampled_results(np.tile(wdl, (n, 1)), (np.arange(n) + 0.5) / n)
    assert set(np.unique(results).tolist()) <= {-1.0, 0.0, 1.0}
    assert results.mean() == pytest.approx(wdl[0] - wdl[2], abs=3 / n)
    assert (results == 0).mean() == pytest.approx(wdl[1], abs=3 / n)


def test_words_of_policy() -> None:
    words = ("net", "judge", "judge:0.3")
    assert [parse_policy(word, "net", "judge") for word in words] == [("net", 0), ("judge", 1), ("judge", 0.3)]
    assert parse_policy("net:0.25", "played", "net", "judge") == ("net", 0.25)
    for word in ("judge:", "judge:2", "net:0.5", "best", "judge:nan"):
        with pytest.raises(UsageError, match="--policy"):
            parse_policy(word, "net", "judge")


# -- of a store -------------------------------------------------------------------------------------------------------


def write(db: Path, folder: Path, net: Path, question: Question | None = None, **named: Any) -> dict[str, Any]:
    """The manifest of the store's chunks; nothing of the sample is held out."""
    if db == SAMPLE:
        db = hold_out(copy_of_sample(folder.parent), split())
    chunks = vr.write_chunks([], folder, store=db, net=net, question=question, **named)
    assert isinstance(chunks, StoreChunks)
    return dict(chunks.manifest)


@pytest.fixture(scope="module")
def written(any_maia: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Chunks of the sample store, in tars."""
    folder = tmp_path_factory.mktemp("chunks") / "out"
    return folder, write(SAMPLE, folder, any_maia)


def cells(db: Path, net: str) -> dict[str, tuple[Any, ...]]:
    """Position, the judge's score and move, and the net's own values, by the first four fields of the FEN."""
    query = """
        SELECT p.fen, d.cp, d.mate, d.nodes, d.best_move, n.q, n.d
        FROM positions p JOIN deep_values d ON d.position_id = p.id JOIN net_values n ON n.position_id = p.id
        WHERE n.net_id = (SELECT id FROM nets WHERE sha256 = ?) AND d.judge_id = 1
    """
    with sqlite3.connect(db) as connection:
        return {" ".join(row[0].split()[:4]): row for row in connection.execute(query, (net,))}


def test_chunks_say_what_the_store_says(written: tuple[Path, dict[str, Any]]) -> None:
    """Read back by our decoder of chunks: boards, rights and clocks are the store's; values follow from its cells by
    the formula alone."""
    folder, manifest = written
    chunks = [*records_in(folder).values()]
    assert [len(records) for records in chunks] == [1] * manifest["chunks"]
    assert manifest == json.loads((folder / "manifest.json").read_text())
    records = np.concatenate(chunks)
    batches = list(sample([str(folder)], SampleOptions(per_game=1, min_ply=0), ReadReport()))
    positions = {position.fen.split(" ")[0] + position.fen.split(" ")[1]: position for b in batches for position in b}
    stored = cells(SAMPLE, manifest["net"]["sha256"])
    by_board = {key.split()[0] + key.split()[1]: row for key, row in stored.items()}
    assert positions.keys() <= by_board.keys()
    assert len(positions) == len(records) == manifest["records"]
    by_bits = {_board_of(record): record for record in records}
    for board, position in positions.items():
        fen, cp, mate, nodes, best, net_q, net_d = by_board[board]
        assert position.fen.split()[:3] == fen.split()[:3]
        assert position.fen.split()[4] == fen.split()[4]
        q = math.copysign(1, mate) if mate is not None else 2 / (1 + math.exp(-cp / ALPHA)) - 1
        record = by_bits[_board(fen)]
        assert record["best_q"] == pytest.approx(q, abs=1e-6)
        assert record["root_q"] == record["best_q"]
        assert record["best_d"] == pytest.approx(min(net_d, 1 - abs(q)), abs=1e-6)
        assert record["orig_q"] == pytest.approx(net_q, abs=1e-4)
        assert record["visits"] == nodes
        assert position.origin.played == best


def test_positions_are_those_that_training_learns_from(written: tuple[Path, dict[str, Any]]) -> None:
    chunks = np.concatenate([*records_in(written[0]).values()])
    with Store.open(SAMPLE) as store:
        judged_positions = JudgedPositions(store, Question(alpha=ALPHA))
    np.testing.assert_allclose(np.sort(chunks["best_q"]), np.sort(judged_positions.deep_q), atol=1e-6)
    candidates = int(judged_positions.is_candidate.sum())
    assert written[1]["candidates"] == candidates > 0
    assert (np.abs(chunks["orig_q"] - chunks["best_q"])[:candidates] >= 0.549).all()


def test_positions_beside_the_games_are_written_without_what_their_games_say(any_maia: Path, tmp_path: Path) -> None:
    db = hold_out(store_beside_games(tmp_path), split())
    with sqlite3.connect(db) as sql:
        rows = sql.execute(
            "SELECT p.origin <> 'game' OR p.played IS NULL OR g.result IS NULL OR g.result = '*' FROM positions p "
            "JOIN games g ON g.id = p.game_id WHERE p.id IN (SELECT position_id FROM deep_values)"
        ).fetchall()
        (beside,) = sql.execute(
            "SELECT count(*) FROM positions WHERE origin <> 'game' AND id IN (SELECT position_id FROM deep_values)"
        ).fetchone()
    manifest = write(db, tmp_path / "out", any_maia, result="game")
    assert manifest["records"] == len(rows)
    assert manifest["without_result"] == sum(without for (without,) in rows) > beside > 100


def test_nothing_that_is_held_out_is_written(any_maia: Path, tmp_path: Path) -> None:
    db = hold_out(copy_of_sample(tmp_path), split(games=0.4, seed=1))
    write(db, tmp_path / "out", any_maia)
    boards = {_board_of(record) for record in np.concatenate([*records_in(tmp_path / "out").values()])}
    assert len(boards) > 50
    by_part: dict[str, set[bytes]] = {"train": set(), "games": set()}
    for fen, part in part_of(db).items():
        by_part[part].add(_board(f"{fen} 0 1"))
    assert boards <= by_part["train"]
    assert not boards & by_part["games"]


def _board(fen: str) -> bytes:
    """The bits of the board of a FEN as its mover sees it, and whose move it is."""
    move = str(next(iter(chess.Board(fen).legal_moves)))
    return _board_of(records_of([Position(fen, fen, history_known=False)], [move])[0])


def _board_of(record: Any) -> bytes:
    return bytes(record["planes"][:12].tobytes()) + bytes([record["side_to_move_or_enpassant"]])


def test_lc0s_rescorer_takes_every_chunk(any_maia: Path, tmp_path: Path) -> None:
    manifest = write(SAMPLE, tmp_path / "in", any_maia)
    assert lc0_rescorer.taken(tmp_path / "in", tmp_path / "out") == manifest["chunks"]
    assert len(list((tmp_path / "out").glob("*.gz"))) == manifest["chunks"]


@pytest.mark.parametrize("form", INPUT_FORMATS)
def test_lc0s_rescorer_takes_all_input_formats(form: int, tmp_path: Path) -> None:
    batch = PositionBatch.from_positions(some_positions())
    records = position_records(judged(batch), *net_of(batch), RecordFacts(form, 1.0), share=0.3)
    lc0_rescorer.check_valid(records)
    (tmp_path / "in").mkdir()
    for i in range(len(records)):
        (tmp_path / "in" / f"{i}.gz").write_bytes(gzip.compress(records[i : i + 1].tobytes()))
    assert lc0_rescorer.taken(tmp_path / "in", tmp_path / "out") == len(records)


def test_command_writes_and_refuses(any_maia: Path, tmp_path: Path, capsys: Captured) -> None:
    out, db = tmp_path / "out", hold_out(copy_of_sample(tmp_path), split())
    base = ["chunks", "--db", str(db), "--net", str(any_maia)]
    code, printed, complaint = run_vr([*base, "-o", str(out), "--policy", "judge:0.5", "--result", "game"], capsys)
    assert code == 0, complaint
    assert "638 positions of 242 games" in printed
    for words, expected in (
        ((*base, "-o", str(out)), "manifest.json"),
        ((*base, "-o", str(tmp_path / "b"), "--policy", "played"), "--policy played"),
        (("chunks", "--db", str(tmp_path / "none.db"), "-o", str(tmp_path / "b")), "none.db"),
    ):
        code, _, complaint = run_vr(list(words), capsys)
        assert code in (1, 2), (words, complaint)
        assert expected in complaint
    assert not (tmp_path / "b").exists()


def test_another_net_is_refused(tmp_path: Path) -> None:
    net = random_nets.write(random_nets.BY_NAME["se-dense-policy"], tmp_path / "maia-1900.pb.gz")
    with pytest.raises(ValueRepairError, match=str(net)):
        write(SAMPLE, tmp_path / "out", net)


def test_moves_of_the_judge_that_are_illegal_are_none() -> None:
    """A recorded move comes from another program."""
    batch = PositionBatch.from_positions(some_positions()[:1])
    judge = judged(batch, best=np.array([encode_move("a1a8")], np.uint16))
    values, priors = net_of(batch)
    (record,) = position_records(judge, values, priors, RecordFacts(1, 1.0), share=1)
    index = policy_indices(parse_fens(batch.fen), *priors[:2])
    best = decode_move(int(values.best_move[0]))
    assert record["best_idx"] == index[[decode_move(m) for m in priors[0].tolist()].index(best)]
