"""The judge of this project's own search: its values, what its identity depends on, sharing, failures, memory."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import chess
import pytest

from tests.lc0_oracle import GOLDEN
from tests.mining_doubles import dump, random_games
from tests.vr_runs import here, in_a_process
from valuerepair.chess.positions import STARTPOS_FEN, Position, PositionBatch
from valuerepair.errors import UsageError
from valuerepair.mcts.forest import forest_bytes
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Net, open_net
from valuerepair.oracles import mcts_oracle
from valuerepair.oracles.mcts_oracle import MctsJudge, identity_of, open_mcts
from valuerepair.oracles.open import open_judge
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.oracles.searching import search_positions
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store
from valuerepair.store.view import frame

AS_LC0 = "certainty=0,lookahead=0,auto_extend=0"
MATE_IN_1 = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"


@pytest.fixture(scope="module")
def net(shared_data: Path) -> Net:
    return open_net(str(shared_data / "nets" / "maia-1900.pb.gz"), device="cpu")


def bare(fen: str) -> Position:
    return Position(fen, fen, history_known=False)


def random_position(dice: random.Random) -> Position:
    board = chess.Board()
    for _ in range(dice.randrange(60)):
        board.push(dice.choice(list(board.legal_moves)))
        if not any(board.legal_moves):
            board.pop()
            break
    return Position(board.fen(), moves=tuple(m.uci() for m in board.move_stack), ply=board.ply())


def test_lc0_golden_numbers(net: Net) -> None:
    with open_judge(f"mcts:nodes=100,lc0_floats=1,{AS_LC0}", net_path=None, net=net) as judge:
        futures = [judge.submit(bare(fen)) for fen, *_ in GOLDEN]
        results = [future.result(60) for future in futures]
    for result, (_, best, cp, wdl) in zip(results, GOLDEN, strict=True):
        assert isinstance(result, DeepResult)
        assert (result.best_move, result.cp, result.mate, result.wdl, result.nodes) == (best, cp, None, wdl, 100)
        assert result.q == pytest.approx((wdl[0] - wdl[2]) / 1000, abs=0.006)
        assert result.pv[0] == best


@pytest.mark.slow
def test_values_do_not_depend_on_the_company_nor_on_the_number_of_trees(net: Net) -> None:
    dice = random.Random(3)
    positions = [random_position(dice) for _ in range(24)]
    by_trees = []
    for trees, order in ((1, positions), (7, positions), (64, positions[::-1])):
        with MctsJudge(net, SearchParams(), 40, trees) as judge:
            futures = {p.fen: judge.submit(p) for p in order}
            results = {fen: f.result(120) for fen, f in futures.items()}
        assert all(isinstance(r, DeepResult) for r in results.values())
        by_trees.append({fen: replace(r, time_ms=0) for fen, r in results.items() if isinstance(r, DeepResult)})
    for fen, alone in by_trees[0].items():
        for together in (by_trees[1][fen], by_trees[2][fen]):
            # ONNX Runtime may round a batch of another size differently in the last place.
            assert together.best_move == alone.best_move
            assert together.q == pytest.approx(alone.q, abs=1e-4)
            assert replace(together, q=0, cp=0, wdl=None, pv=()) == replace(alone, q=0, cp=0, wdl=None, pv=())


def test_one_node_is_the_net_itself(net: Net) -> None:
    dice = random.Random(9)
    positions = [random_position(dice) for _ in range(8)]
    values = net.evaluate(PositionBatch.from_positions(positions))
    with MctsJudge(net, SearchParams(), 1, 4) as judge:
        results = [f.result(60) for f in [judge.submit(p) for p in positions]]
    for result, q in zip(results, values.q.tolist(), strict=True):
        assert isinstance(result, DeepResult)
        assert result.q == pytest.approx(q, abs=1e-5)
        assert result.nodes == 1


def test_a_mate_is_a_mate_and_q_is_one(net: Net) -> None:
    with MctsJudge(net, SearchParams(certainty=True), 200, 2) as judge:
        won = judge.submit(bare(MATE_IN_1)).result(60)
        board = chess.Board(MATE_IN_1)
        mirrored = judge.submit(bare(board.mirror().fen())).result(60)
    assert isinstance(won, DeepResult)
    assert (won.mate, won.cp, won.q, won.best_move, won.wdl) == (1, None, 1.0, "a1a8", (1000, 0, 0))
    assert isinstance(mirrored, DeepResult)
    assert (mirrored.mate, mirrored.q, mirrored.best_move) == (1, 1.0, "a8a1")


def test_its_q_is_the_one_that_vr_eval_gives(net: Net) -> None:
    """Whether it is proven or not."""
    positions = [bare(fen) for fen, *_ in GOLDEN] + [bare(MATE_IN_1)]
    params = SearchParams(certainty=True, lookahead=True)
    with MctsJudge(net, params, 50, len(positions)) as judge:
        deep = [f.result(60) for f in [judge.submit(p) for p in positions]]
    for result, searched in zip(deep, search_positions(net, params, positions, 50), strict=True):
        assert isinstance(result, DeepResult)
        assert searched.result is not None
        assert result.q == pytest.approx(searched.result.q, abs=1e-4)
        assert result.q == pytest.approx(searched.result.moves[0].q, abs=1e-4)


@pytest.mark.parametrize(
    ("fen", "reason"),
    [
        ("7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "game over: checkmate"),
        ("7k/5K2/6Q1/8/8/8/8/8 b - - 0 1", "game over: stalemate"),
        ("not a fen", "not a legal FEN: "),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "not a legal position: "),
        ("4k3/8/8/8/8/8/4R3/4K3 w - - 0 1", "not a legal position: opposite check"),
    ],
)
def test_what_cannot_be_searched_fails_at_once(net: Net, fen: str, reason: str) -> None:
    with MctsJudge(net, SearchParams(), 10, 1) as judge:
        outcome = judge.submit(bare(fen)).result(0)
    assert isinstance(outcome, DeepFailure)
    assert outcome.reason.startswith(reason)
    assert outcome.attempts == 0


def test_the_identity_tells_what_changes_values_and_nothing_else(net: Net, shared_data: Path) -> None:
    plain = identity_of(net, SearchParams(), 1000)
    assert plain.label.endswith(" maia-1900 nodes=1000")
    assert plain.sha256 == net.identity.sha256
    assert identity_of(net, SearchParams(temperature=1.0, tempdecay_moves=10), 1000).digest == plain.digest
    with open_net(str(shared_data / "nets" / "maia-1100.pb.gz"), device="cpu") as other:
        others = [
            identity_of(net, SearchParams(), 1001),
            identity_of(net, SearchParams(certainty=True), 1000),
            identity_of(net, SearchParams(cpuct=1.5), 1000),
            identity_of(net, SearchParams(n_scl=5, seed=1), 1000),
            identity_of(net, SearchParams(n_scl=5, seed=2), 1000),
            identity_of(other, SearchParams(), 1000),
        ]
    assert len({plain.digest, *(o.digest for o in others)}) == len(others) + 1
    assert identity_of(net, SearchParams(certainty=True), 1000).label.endswith(" nodes=1000 certainty=1")


def test_the_shorter_judge_is_the_one_of_fewer_nodes(net: Net) -> None:
    dice = random.Random(5)
    positions = [random_position(dice) for _ in range(8)]
    with open_mcts(SearchParams(), 200, 4, net) as judge, open_mcts(SearchParams(), 20, 4, net) as other:
        short = judge.shorter(20)
        assert (short.identity, short.identity.digest) == (other.identity, other.identity.digest)
        futures = [(judge.submit(p), short.submit(p), other.submit(p)) for p in positions]
        for _, fewer, expected in futures:
            found, wanted = fewer.result(60), expected.result(60)
            assert isinstance(found, DeepResult)
            assert isinstance(wanted, DeepResult)
            assert replace(found, time_ms=0) == replace(wanted, time_ms=0)


def test_trees_and_threads_change_no_identity(net: Net, shared_data: Path) -> None:
    path = str(shared_data / "nets" / "maia-1900.pb.gz")
    digests = set()
    with open_net(path, device="cpu", threads=1) as one:
        for trees, used in ((1, one), (5, net)):
            with open_mcts(SearchParams(), 10, trees, used) as judge:
                assert judge.workers == trees
                digests.add(judge.identity.digest)
    assert len(digests) == 1


def test_the_net_is_shared_when_it_is_the_same_and_opened_when_it_is_another(net: Net, shared_data: Path) -> None:
    folder = shared_data / "nets"
    with open_judge(f"mcts:nodes=2,weights={folder}/maia-1900.pb.gz", net_path=None, net=net) as judge:
        assert isinstance(judge, MctsJudge)
        assert judge._net is net
    other = open_judge(f"mcts:nodes=2,weights={folder}/maia-1100.pb.gz", net_path=None, net=net)
    assert isinstance(other, MctsJudge)
    with other:
        assert other.identity.net == "maia-1100"
        assert isinstance(other.submit(bare(STARTPOS_FEN)).result(30), DeepResult)
    # The shared one is still open, the other one is closed.
    net.evaluate(PositionBatch.from_positions([bare(STARTPOS_FEN)]))
    with pytest.raises(RuntimeError):
        other._net.evaluate(PositionBatch.from_positions([bare(STARTPOS_FEN)]))


def test_memory_is_bounded(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_mcts(SearchParams(), 1000, None, net) as judge:
        assert judge.workers == net.session.streams * net.batch_size
    monkeypatch.setattr(mcts_oracle, "available_memory", lambda: 6 * forest_bytes(1, 10_000))
    with open_mcts(SearchParams(), 10_000, None, net) as judge:
        assert judge.workers == 3  # half of the memory
    with pytest.raises(UsageError, match="7 trees of 10,000 nodes"):
        open_mcts(SearchParams(), 10_000, 7, net)
    with pytest.raises(UsageError, match="1,000,000,000 nodes"):
        open_judge("mcts:nodes=1000M", net_path=None, net=net)


@pytest.mark.slow
def test_vr_mine_searches_every_position_once(shared_data: Path, tmp_path: Path) -> None:
    random_games(tmp_path / "games.pgn", 40)
    net = shared_data / "nets" / "maia-1900.pb.gz"
    words = ["--net", str(net), "--deep", "mcts:nodes=8,certainty=1", "--device", "cpu", "--screen", "off"]
    stores = []
    for run in (in_a_process, here):
        done = run("mine", "games.pgn", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "maia-1900 nodes=8 certainty=1" in done.stdout
        assert "deep Q from: the search's own Q" in done.stdout
        stores.append(dump(tmp_path / "valuerepair.db"))
    assert "scored: 40 of 40, 0 failed, 40 of them before" in done.stdout
    assert stores[0] == stores[1]
    with Store.open(tmp_path / "valuerepair.db") as store:
        scored = frame(store)
    assert len(scored) == 40
    assert (scored["nodes"] <= 8).all()
    assert scored["deep_q"].abs().max() <= 1
