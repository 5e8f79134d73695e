"""The parts of the UCI engine: options, `go`, time, scores, info lines, leaves spread over cores."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.uci_fake_net import MaterialNet
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.errors import UsageError
from valuerepair.mcts.evaluator import Evaluations, Leaves, SplitEvaluator
from valuerepair.mcts.params import PARAMETER_NAMES, SearchParams
from valuerepair.mcts.result import RootMove, Score, SearchResult, score_of
from valuerepair.mcts.search import Search
from valuerepair.mcts.uci_options import EngineSettings, option_lines, with_option
from valuerepair.mcts.uci_server import (
    Go,
    OpenedNet,
    Switch,
    Thinking,
    TimeManager,
    info_lines,
    is_settled,
    moves_left,
    parse_go,
    verbose_lines,
)

NAN = float("nan")


def move(name: str, visits: int, wl: float = NAN, d: float = NAN, **more: Any) -> RootMove:
    base: dict[str, Any] = {"prior": 0.1, "m": 3.0, "certain": None, "mate": None, "pv": (name,)}
    return RootMove(name, visits, q=wl, wl=wl, d=d, **{**base, **more})


def result(*moves: RootMove, nodes: int = 100, wl: float = 0.03, d: float = 0.05) -> SearchResult:
    return SearchResult(nodes, nodes, wl, wl, d, 3.0, wl, moves, 4, 9)


GO_WORDS = ("nodes", "wtime", "5", "-3", "x", "infinite", "ponder", "searchmoves", "e2e4", "mate", "0")


@given(st.lists(st.sampled_from(GO_WORDS)))
def test_any_words_are_a_go_and_what_is_passed_over_is_told(words: list[str]) -> None:
    go, remarks = parse_go(words)
    assert go.infinite == ("infinite" in words)
    assert go.nodes is None or go.nodes >= 1
    assert bool(remarks) or go != Go() or not words
    assert remarks or "x" not in words or "searchmoves" in words


def test_every_parameter_can_be_set_by_its_uci_name_and_shows_in_the_handshake() -> None:
    values = {bool: "true", int: "7", float: "0.5", str: ""}
    words = {"fpu_strategy": "absolute", "fpu_strategy_at_root": "absolute", "history_fill": "no"}
    words |= {"cpuct_base": "5", "cpuct_base_at_root": "5"}
    for parameter, name in PARAMETER_NAMES.items():
        before = getattr(SearchParams(), parameter)
        text = words.get(parameter, "false" if before is True else values[type(before)])
        after = getattr(with_option(EngineSettings(), name.upper(), text).params, parameter)
        assert after != before or parameter == "syzygy"
        (line,) = (one for one in option_lines(EngineSettings()) if one.startswith(f"option name {name} "))
        assert line.startswith(f"option name {name} type ")
    assert with_option(EngineSettings(), "NScl", "0").params.n_scl == 0
    assert with_option(EngineSettings(), "historyfill", "FEN_Only").params.history_fill == "fen_only"
    assert with_option(EngineSettings(), "device", "CPU").device == "cpu"
    assert with_option(EngineSettings(), "SyzygyPath", "<empty>").params.syzygy == ""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Threads", "-1", "option Threads=-1: must be a whole number from 0 to 1024"),
        ("Ponder", "maybe", "option Ponder=maybe: must be true or false"),
        (
            "Device",
            "tpu",
            "option Device=tpu: must be one of auto, cpu, cuda, cuda:f16",
        ),
        ("SmartPruningFactor", "x", "option SmartPruningFactor=x: must be a number from 0 to 100"),
        ("NScl", "-3", "option NScl=-3: must be a whole number of at least 1, or inf"),
        ("FpuStrategy", "odd", "option FpuStrategy=odd: must be one of reduction, absolute"),
        ("Wdl", "1", "no option 'Wdl'"),
    ],
)
def test_wrong_options_say_what_is_right(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_option(EngineSettings(), name, value)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("wl", "d", "expected"),
    [
        (0.0, 1.0, Score(0, None, (0, 1000, 0))),
        (1.0, 0.0, Score(12800, None, (1000, 0, 0))),
        (-1.0, 0.0, Score(-12800, None, (0, 0, 1000))),
        # 100 * mu: the mean of the logistic whose parts are W, D and L.
        (0.2, 0.5, Score(47, None, (350, 500, 150))),
        (-0.2, 0.5, Score(-47, None, (150, 500, 350))),
    ],
)
def test_scores(wl: float, d: float, expected: Score) -> None:
    best = move("e2e4", 10, wl, d)
    score = score_of(best, result(best))
    assert score == expected
    mirrored = score_of(move("e2e4", 10, -wl, d), result(best))
    assert (mirrored.cp, mirrored.wdl) == (-(expected.cp or 0), expected.wdl[::-1])
    if 0 < d < 1:
        w, loss = (1 + wl - d) / 2, (1 - wl - d) / 2
        a, b = math.log(1 / loss - 1), math.log(1 / w - 1)
        assert score.cp == int(100 * (a - b) / (a + b))


def test_scores_without_a_wdl_head_mates_and_moves_without_visits() -> None:
    best = move("e2e4", 10, 0.2, 0.0)
    assert score_of(best, result(best), has_wdl=False).cp == int(45 * math.tan(1.56728071628 * 0.2))
    assert score_of(move("e2e4", 3, -1.0, 0.0, certain=-1, mate=-4), result(best)) == Score(None, -4, (0, 0, 1000))
    assert score_of(move("e2e4", 0), result(best, wl=0.2, d=0.5)).wdl == (350, 500, 150)


def test_info_line() -> None:
    best = move("e2e4", 60, 0.2, 0.5, pv=("e2e4", "c7c5"))
    settings = EngineSettings(show_wdl=True)
    assert info_lines(result(best, nodes=250), 0.5, 200, settings, has_wdl=True, room=1000) == [
        "info depth 4 seldepth 9 time 500 nodes 250 score cp 47 wdl 350 500 150 nps 400 hashfull 250 multipv 1 "
        "pv e2e4 c7c5"
    ]


def test_verbose_lines_are_as_lc0_writes_them() -> None:
    """Read by the pattern that reads lc0's own; S - U is Q; the root comes last."""
    fen = "4k3/8/8/8/8/8/3PP3/4K2R w K - 0 1"
    moves = (move("e1g1", 60, 0.25, 0.5, prior=0.5), move("e2e4", 39, -0.125, 0.5, prior=0.2), move("d2d4", 0))
    lines = verbose_lines(result(*moves), fen, SearchParams())
    pattern = re.compile(r"info string (\S+)\s+\(\s*(\d+)\s*\) N:\s+(\d+) \(\+\s*(\d+)\) \(P:\s*([\d.]+)%\)(.*)")
    matches = [pattern.match(line) for line in lines]
    assert [m and (m[1], int(m[2]), int(m[3])) for m in matches] == [
        ("d2d4", 293, 0),
        ("e2e4", 322, 39),
        ("e1h1", 103, 60),
        ("node", 3, 100),
    ]
    for line, one in zip(lines[1:3], (moves[1], moves[0]), strict=True):
        numbers = re.search(r"\(U:\s*([\d.]+)\) \(S:\s*(-?[\d.]+)\)", line)
        assert numbers is not None
        u, s = map(float, numbers.groups())
        assert s - u == pytest.approx(one.q, abs=2e-5)
        exploration = (1.745 + 3.894 * math.log((100 + 38739) / 38739)) * math.sqrt(99)
        assert u == pytest.approx(one.prior * exploration / (1 + one.visits), abs=1e-5)


def test_the_time_manager_divides_the_clock_as_lc0_does() -> None:
    go = Go(wtime=60_000, btime=30_000, winc=1_000, binc=0)
    manager = TimeManager()
    manager.budget(go, white=True, ply=20, overhead_ms=200)  # the first move has a bonus
    moves = 51.5 * (1 + 2 * (10 / 51.5) ** 7) ** (1 / 7) - 10
    assert moves_left(20) == pytest.approx(moves)
    expected = (60_000 + 1_000 * (moves - 1) - 200) / moves / 1000
    assert manager.budget(go, white=True, ply=20, overhead_ms=200) == pytest.approx(expected)
    assert manager.budget(go, white=False, ply=20, overhead_ms=200) == pytest.approx(29.8 / moves)
    assert manager.budget(Go(wtime=5000, movestogo=5), white=True, ply=20, overhead_ms=0) == pytest.approx(1.0)
    assert manager.budget(Go(btime=5000), white=True, ply=20, overhead_ms=0) is None
    # What a move saves, the next one has.
    plain = manager.budget(go, white=True, ply=20, overhead_ms=200) or 0
    manager.spent(plain, plain - 0.5)
    more = manager.budget(go, white=True, ply=20, overhead_ms=200) or 0
    assert more == pytest.approx(plain + 0.5 - 0.5 / moves)


@given(st.integers(-1000, 10**7), st.integers(0, 10**5), st.integers(0, 600), st.integers(0, 100), st.integers(0, 5000))
def test_no_more_time_is_planned_than_there_is(left: int, inc: int, ply: int, togo: int, overhead: int) -> None:
    manager = TimeManager()
    for _ in range(4):
        go = Go(wtime=left, winc=inc, movestogo=togo or None)
        budget = manager.budget(go, white=True, ply=ply, overhead_ms=overhead)
        assert budget is not None
        assert 0 <= budget <= max(0, left - overhead) / 1000
        manager.spent(budget, budget / 3)


@given(st.integers(1_000, 10**7), st.integers(0, 10**5), st.integers(0, 300), st.integers(0, 60), st.data())
def test_a_move_leaves_half_a_fair_share_or_more_for_each_of_the_others(
    left: int, inc: int, ply: int, togo: int, data: st.DataObject
) -> None:
    """From the first move of a game on, and whatever earlier moves have spared."""
    manager = TimeManager()
    for to_go in range(togo, 1, -1) if togo else [None] * 4:
        moves = min(to_go or math.inf, moves_left(ply))
        fair = (left + inc * (moves - 1)) / moves
        budget = manager.budget(Go(wtime=left, winc=inc, movestogo=to_go), white=True, ply=ply, overhead_ms=0) or 0
        assert left - 1000 * budget + inc * (moves - 1) >= 0.499 * fair * (moves - 1)
        used = data.draw(st.floats(0, budget))
        manager.spent(budget, used)
        left += inc - math.ceil(1000 * used)


@pytest.mark.parametrize(("ply", "togo", "most"), [(72, 4, 0.5), (0, 5, 0.5), (0, 2, 0.5), (72, None, 0.18)])
def test_no_first_move_takes_the_clock(ply: int, togo: int | None, most: float) -> None:
    """Games from the end of deep books begin on full clocks: the bonus is that of a few moves, and half at most."""
    go = Go(wtime=60_000, btime=60_000, movestogo=togo)
    assert (TimeManager().budget(go, white=True, ply=ply, overhead_ms=200) or 0) <= most * 60


def test_when_thinking_changes_nothing() -> None:
    close = result(move("e2e4", 500, 0.1, 0.5), move("d2d4", 490, 0.1, 0.5))
    clear = result(move("e2e4", 900, 0.1, 0.5), move("d2d4", 90, 0.1, 0.5))
    assert not is_settled(close, 1000, 1.0, 1.0, 1.33)
    assert not is_settled(clear, 1000, 1.0, 1.0, 1.33)
    assert is_settled(clear, 1000, 1.0, 0.7, 1.33)
    assert not is_settled(clear, 1000, 1.0, 0.7, 0.0)
    assert not is_settled(clear, 1000, 0.1, 0.01, 1.33)
    won = result(move("e2e4", 9, 1.0, 0.0, certain=1), move("d2d4", 90, 0.1, 0.5))
    only = result(move("e2e4", 9, 0.0, 0.5), move("d2d4", 9, -1.0, 0.0, certain=-1))
    assert is_settled(won, 10, 0.0, 9.0, 1.33)
    assert is_settled(only, 10, 0.0, 9.0, 1.33)
    assert is_settled(result(move("e2e4", 9, 0.0, 0.5)), 10, 0.0, 9.0, 1.33)


@pytest.mark.parametrize("streams", [1, 2, 3, 8])
def test_leaves_spread_over_cores_get_the_same_values(streams: int) -> None:
    dice = np.random.default_rng(1)
    whole, sizes = MaterialNet(), []

    class Recording(MaterialNet):
        def __call__(self, leaves: Leaves) -> Evaluations:
            sizes.append(len(leaves.masks))
            return super().__call__(leaves)

    split = SplitEvaluator(Recording(), streams)
    for n in (1, 2, 5, 16):
        counts = dice.integers(1, 40, n)
        leaves = Leaves(
            dice.integers(0, 2**63, (n, 112), np.uint64),
            np.zeros(n, np.float32),
            dice.integers(0, 1858, counts.sum(), np.uint16),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )
        sizes.clear()
        for ours, theirs in zip(split(leaves), whole(leaves), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert sum(sizes) == n
        assert len(sizes) == min(n, streams)
        assert max(sizes) - min(sizes) <= 1
    split.close()


def test_several_leaves_at_once_make_fewer_calls_and_as_many_visits() -> None:
    calls = {}
    for minibatch in (1, 8):
        net = MaterialNet()
        search = Search(net, SearchParams(minibatch_size=minibatch))
        search.set_position(Position(STARTPOS_FEN))
        assert search.run(nodes=400).nodes == 400
        calls[minibatch] = net.calls
    assert calls[8] < calls[1] / 3


def test_the_clock_is_not_charged_for_pondering() -> None:
    """A search that was over before the move it pondered on was played has cost nothing of the clock."""

    class PlayedAtTheEnd(Switch):
        def wait_for_leave(self) -> None:
            self.ponderhit()
            super().wait_for_leave()

    class SlowNet(MaterialNet):
        def __call__(self, leaves: Leaves) -> Evaluations:
            time.sleep(0.2)
            return super().__call__(leaves)

    net = OpenedNet(SlowNet(), True, lambda: None)
    search, position, clock = Search(net.evaluator), Position(STARTPOS_FEN), TimeManager()
    search.set_position(position)
    go = Go(nodes=4, wtime=60_000, btime=60_000, ponder=True)
    switch = PlayedAtTheEnd(go)
    thinking = Thinking(net, search, position, go, EngineSettings(), clock, 0, switch, lambda line: None)
    assert thinking.run().startswith("bestmove ")
    assert clock._spared_ms == pytest.approx(1000 * (thinking._clock_budget or 0), abs=300)
