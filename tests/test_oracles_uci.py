"""Judges: identity, results against Stockfish, lc0 and rules, failures, and the choice of a default."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import chess
import pytest

import valuerepair as vr
from tests.lc0_oracle import GOLDEN
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.oracles.open import open_judge
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.oracles.uci_oracle import exact_q
from valuerepair.store.rows import DeepResult, JudgeIdentity

FAKE = f"uci:{sys.executable},arg=-I,arg=-S,arg={Path(__file__).with_name('fake_engine.py')},nodes=1000"
START = Position(STARTPOS_FEN)


def bare(fen: str) -> Position:
    return Position(fen, fen, history_known=False)


def played(*moves: str) -> Position:
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    return Position(board.fen(), moves=moves)


def test_stockfish_results_carry_everything(stockfish: str, said: list[str]) -> None:
    with open_judge("stockfish:nodes=20000", net_path=None, workers=1) as judge:
        assert judge.workers == 1
        result = judge.submit(played("f2f3", "e7e5", "g2g4")).result(60)
    assert isinstance(result, DeepResult)
    assert (result.mate, result.cp, result.best_move, result.pv) == (1, None, "d8h4", ("d8h4",))
    assert result.wdl == (1000, 0, 0)
    assert result.q is None
    label = judge.identity.label
    assert label.startswith("stockfish ")
    assert label.endswith(" nodes=20000")
    assert len(said) == 1
    assert label in said[0]
    assert judge.identity.options == {"Hash": "16", "Threads": "1", "UCI_ShowWDL": "true"}


def test_scores_are_from_the_side_to_move(stockfish: str) -> None:
    """With colours flipped the score keeps its sign; a side that is a queen up is well off, the other badly."""
    board = chess.Board("4k3/pppppppp/8/8/8/8/PPPPPPPP/3QK3 w - - 0 1")
    with open_judge("stockfish:nodes=20000", net_path=None, workers=1) as judge:
        up, flipped, down = (
            judge.submit(bare(fen)).result(60)
            for fen in (board.fen(), board.mirror().fen(), board.fen().replace(" w ", " b "))
        )
    assert isinstance(up, DeepResult)
    assert isinstance(flipped, DeepResult)
    assert isinstance(down, DeepResult)
    assert up.cp is not None
    assert down.cp is not None
    assert up.cp > 300
    assert flipped.cp == pytest.approx(up.cp, rel=0.1)
    assert down.cp < -300
    assert up.wdl is not None
    assert down.wdl is not None
    assert up.wdl[0] > 900
    assert down.wdl[2] > 900


def test_mates_have_the_sign_of_the_side_to_move_and_are_no_shorter_than_can_be(
    stockfish: str, shared_data: Path
) -> None:
    mates = []
    for line in (shared_data / "epd" / "matetrack.epd").read_text().splitlines():
        position, _, rest = line.partition(" bm #")
        distance = int(rest.split(";")[0])
        if distance in (1, 2) or -7 <= distance < 0:
            mates.append((f"{position} 0 1", distance))
    assert len(mates) >= 20
    with open_judge("stockfish:nodes=100k", net_path=None) as judge:
        futures = [(distance, judge.submit(bare(fen))) for fen, distance in mates]
        results = [(distance, future.result(60)) for distance, future in futures]
    exact = {"mates": 0, "is mated": 0}
    for distance, result in results:
        assert isinstance(result, DeepResult)
        if result.mate is None:  # a composed zugzwang that null-move pruning does not see
            assert result.cp is not None
            assert result.cp * distance > 0
        else:
            assert result.mate * distance > 0
            assert abs(result.mate) >= abs(distance)
            exact["mates" if distance > 0 else "is mated"] += result.mate == distance
    assert exact["mates"] >= 18
    assert exact["is mated"] >= 2


def test_the_history_is_sent() -> None:
    shuffle = ("g1f3", "g8f6", "f3g1", "f6g8") * 2
    with open_judge(FAKE, net_path=None, workers=1) as judge:
        result = judge.submit(played(*shuffle)).result(20)
    assert isinstance(result, DeepResult)
    assert result.cp == len(f"position startpos moves {' '.join(shuffle)}")  # the fake engine's score


def test_game_over_and_bad_fens_are_failures_without_a_search() -> None:
    with open_judge(FAKE, net_path=None, workers=1) as judge:
        outcomes = [
            judge.submit(bare(fen)).result(0)
            for fen in ("7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "7k/5K2/6Q1/8/8/8/8/8 b - - 0 1", "not a fen")
        ]
    assert outcomes[:2] == [DeepFailure("game over: checkmate", 0), DeepFailure("game over: stalemate", 0)]
    assert isinstance(outcomes[2], DeepFailure)
    assert outcomes[2].reason.startswith("not a legal FEN")


def test_an_illegal_best_move_fails_the_position_and_not_the_run() -> None:
    with open_judge(f"{FAKE},arg=illegal-on=d2d4", net_path=None, workers=1) as judge:
        bad = judge.submit(played("d2d4", "d7d5"))
        good = judge.submit(START)
        assert bad.result(20) == DeepFailure("gave the illegal best move e2e5", 3)
        assert isinstance(good.result(20), DeepResult)
    with open_judge(f"{FAKE},arg=best=a1a1", net_path=None, workers=1) as judge:  # from a square to itself
        assert judge.submit(START).result(20) == DeepFailure("gave the illegal best move a1a1", 3)


def test_a_mate_that_is_no_mate_fails_the_position() -> None:
    """UCI's ``mate 0`` is of a position without moves, which is never searched."""
    with open_judge(f"{FAKE},arg=mated-on=d2d4", net_path=None, workers=1) as judge:
        outcome = judge.submit(played("d2d4", "d7d5")).result(20)
    assert outcome == DeepFailure("says that the side to move is mated although there are legal moves", 3)


def test_king_takes_rook_is_kept_as_castling() -> None:
    with open_judge(f"{FAKE},arg=best=e1h1", net_path=None, workers=1) as judge:
        result = judge.submit(bare("4k3/8/8/8/8/8/8/4K2R w K - 0 1")).result(20)
    assert isinstance(result, DeepResult)
    assert result.best_move == "e1g1"


@pytest.mark.parametrize("option", ["WeightsFile", "weightsfile", "verboseMoveStats"])
def test_lc0_takes_its_net_from_weights_alone_and_always_says_q(shared_data: Path, option: str) -> None:
    net = shared_data / "nets" / "maia-1900.pb.gz"
    with pytest.raises(UsageError, match=rf"^--deep 'lc0:.*': option\.(?i:{option}) is not allowed here: "):
        open_judge(f"lc0:nodes=1,path={sys.executable},option.{option}=x", net_path=str(net), workers=1)


def test_an_engine_that_ignores_its_node_limit_is_recorded_as_it_is() -> None:
    with open_judge(f"{FAKE},arg=nodes=5000000", net_path=None, workers=1) as judge:
        result = judge.submit(START).result(20)
    assert isinstance(result, DeepResult)
    assert result.nodes == 5_000_000


def test_the_digest_tells_every_difference_and_nothing_else() -> None:
    identity = JudgeIdentity("stockfish", "Stockfish 15.1", "ab" * 32, {"nodes": 1_000_000}, {"Hash": "16", "A": "1"})
    assert identity.label == "stockfish 15.1 nodes=1000000"
    assert replace(identity, options={"A": "1", "Hash": "16"}).digest == identity.digest
    assert replace(identity, plain={"Hash": "64"}).digest == identity.digest
    assert replace(identity, plain={"Hash": "64", "A": "1"}).label == "stockfish 15.1 nodes=1000000 Hash=16"
    others = [
        replace(identity, kind="uci"),
        replace(identity, engine="Stockfish 16"),
        replace(identity, limits={"nodes": 1_000_001}),
        replace(identity, limits={"depth": 1_000_000}),
        replace(identity, options={"Hash": "32", "A": "1"}),
        replace(identity, net="maia-1900"),
    ]
    assert len({identity.digest, *(o.digest for o in others)}) == len(others) + 1
    assert len(identity.digest) == 64
    # The same release on another machine is the same judge; the net of our own search is part of it.
    assert replace(identity, sha256="cd" * 32).digest == identity.digest
    own = replace(identity, kind="mcts")
    assert replace(own, sha256="cd" * 32).digest != own.digest


def test_a_search_depends_on_nothing_that_was_searched_before(stockfish: str) -> None:
    """A short search of the same position, and others, leave nothing in the hash table: as in a fresh process."""

    def values(outcome: object) -> DeepResult:
        assert isinstance(outcome, DeepResult)
        return replace(outcome, time_ms=0)

    fens = [fen for fen, *_ in GOLDEN]
    fresh = []
    for fen in fens:
        with open_judge("stockfish:nodes=100000", net_path=None, workers=1) as judge:
            fresh.append(values(judge.submit(bare(fen)).result(60)))
    with open_judge("stockfish:nodes=100000", net_path=None, workers=1) as judge:
        short = judge.shorter(20_000)
        futures = [each.submit(bare(fen)) for fen in fens for each in (short, judge)]
        outcomes = [values(future.result(60)) for future in futures]
    assert outcomes[1::2] == fresh
    assert all(20_000 <= outcome.nodes < 25_000 for outcome in outcomes[::2])


@pytest.mark.parametrize("full", ["stockfish:nodes=1M", "stockfish:nodes=2M,hash=32", "stockfish:nodes=1M,depth=40"])
def test_the_shorter_judge_is_the_one_that_fewer_nodes_would_open(stockfish: str, full: str) -> None:
    spec = re.sub(r"nodes=\w+", "nodes=50000", full)
    with open_judge(full, net_path=None, workers=1) as judge, open_judge(spec, net_path=None, workers=1) as other:
        short = judge.shorter(50_000)
    assert (short.identity, short.identity.label) == (other.identity, other.identity.label)
    assert short.identity.digest == other.identity.digest
    assert short.capacity == judge.capacity == 2


def test_the_shorter_judge_of_a_deep_one_has_its_hash_table_and_says_so(stockfish: str) -> None:
    with open_judge("stockfish:nodes=3M", net_path=None, workers=1) as judge:
        assert judge.identity.label.endswith(" nodes=3000000")
        assert judge.shorter(150_000).identity.label.endswith(" nodes=150000 Hash=64")


@pytest.mark.parametrize(
    ("spec", "error", "fact"),
    [
        ("uci:/nowhere/engine,nodes=1", ValueRepairError, "/nowhere/engine"),
        ("stockfish:path=/tmp", ValueRepairError, "/tmp"),
        (f"uci:{__file__},nodes=1", ValueRepairError, "chmod +x"),
        (f"{FAKE},option.Hsh=3", UsageError, "Hash"),
        (f"{FAKE},arg=hang-on=,start-timeout=1.5", ValueRepairError, "go nodes 1"),
        ("lc0", UsageError, "weights="),
        ("lc0:weights=/nowhere/x.pb.gz", ValueRepairError, "/nowhere/x.pb.gz"),
        ("lc0:weights=net.onnx", UsageError, "net.onnx"),
    ],
)
def test_what_cannot_work_is_said_before_the_run(
    spec: str, error: type[Exception], fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(b"\x08\x07")
    with pytest.raises(error) as caught:
        open_judge(spec, net_path=None, workers=1)
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_default_is_stockfish_then_the_own_search_with_the_same_net(
    monkeypatch: pytest.MonkeyPatch, shared_data: Path, stockfish: str, said: list[str]
) -> None:
    net = str(shared_data / "nets" / "maia-1100.pb.gz")
    with open_judge(None, net_path=net, workers=1) as judge:
        assert (judge.identity.kind, judge.identity.limits) == ("stockfish", {"nodes": 1_000_000})
        assert judge.identity.label in said[0]
    monkeypatch.setenv("VALUEREPAIR_STOCKFISH", "none")
    said.clear()
    with open_judge(None, net_path=net, workers=1) as judge:
        identity = judge.identity
    assert (identity.kind, identity.limits, identity.net) == ("mcts", {"nodes": 200}, "maia-1100")
    assert identity.options == {"certainty": "1", "lookahead": "1", "auto_extend": "1", "device": "CPU"}
    assert "Stockfish" in said[0]
    assert identity.label in said[-1]
    with pytest.raises(ValueRepairError, match="stockfish is not on this machine"):
        open_judge("stockfish", net_path=net)


def test_lc0_gives_its_golden_numbers_whatever_the_order(lc0: str, shared_data: Path) -> None:
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    with open_judge("lc0:nodes=100", net_path=net, workers=1) as judge:
        futures = [judge.submit(bare(fen)) for fen, *_ in [*GOLDEN, *GOLDEN[::-1]]]
        results = [f.result(60) for f in futures]
    for result, (_, best, cp, wdl) in zip(results, [*GOLDEN, *GOLDEN[::-1]], strict=True):
        assert isinstance(result, DeepResult)
        assert (result.best_move, result.cp, result.wdl, result.nodes) == (best, cp, wdl, 100)
        # Q of the best move is what its WDL says, up to lc0's rounding and its approximate logarithm (4.9).
        assert result.q == pytest.approx((wdl[0] - wdl[2]) / 1000, abs=0.006)
    identity = judge.identity
    assert identity.net == "maia-1900"
    assert identity.options["WeightsFile"].startswith("sha256:e2f565f4")
    assert str(shared_data) not in repr(identity)
    assert identity.label.endswith("maia-1900 nodes=100")


def test_lc0s_one_node_has_the_nets_own_q(lc0: str, shared_data: Path) -> None:
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    boards = [fen for fen, *_ in GOLDEN]
    with open_judge("lc0:nodes=1", net_path=net, workers=1) as judge:
        results = [judge.submit(bare(fen)).result(60) for fen in boards]
    q = [result.q for result in results if isinstance(result, DeepResult)]
    assert q == pytest.approx(vr.evaluate(boards, net)["q"].tolist(), abs=1e-3)


def test_lc0s_utility_of_moves_left_would_be_a_part_of_q(lc0: str, shared_data: Path) -> None:
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    with pytest.raises(UsageError, match=r"option\.MovesLeftMaxEffect: must be 0 here"):
        open_judge("lc0:nodes=1,option.MovesLeftMaxEffect=0.0345", net_path=net, workers=1)
    open_judge("lc0:nodes=1,option.MovesLeftMaxEffect=0.0", net_path=net, workers=1).close()


def test_lc0_castling_is_found_in_its_statistics() -> None:
    """lc0 writes castling as king takes rook in its statistics, and as the king's move elsewhere."""
    board = chess.Board("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1")
    notes = (
        "e8a8  (97  ) N:      10 (+ 0) (P:  4.24%) (WL:  0.5) (D: 0.05) (M:  3.0) (Q:  0.5) (U: 0.25000) (S:  0.50000)",
        "e8h8  (103 ) N:      47 (+ 0) (P: 44.24%) (WL:  0.5) (D: 0.05) (M:  3.0) (Q:  0.5) (U: 0.16088) (S: -0.18940)",
        "h8h1  (1   ) N:       0 (+ 0) (P: 44.24%) (WL:  -.---) (D: -.--) (M:  -) (Q:  0.5) (U: 0.1) (S: 0.18940)",
        "node  (  20) N:     100 (+ 0) (P: 87.90%) (WL:  0.03608) (D: 0.054) (M:  3.5) (Q:  0.03608) (V:  0.0337)",
    )

    def q(best: str) -> float | None:
        return exact_q(notes, best, board)

    assert q("e8g8") == -0.35028
    assert q("e8c8") == 0.25
    assert q("h8h1") is None
    assert q("h8h2") is None
