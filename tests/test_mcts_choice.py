"""What is played and what the options of the root do: temperature, noise, draw score."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcts_doubles import FakeNet, position, searched, tree_of
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.outcome import choose_move, temperature_at
from valuerepair.mcts.params import PARAMETERS, SearchParams
from valuerepair.mcts.result import RootMove, SearchResult

KIWIPETE = position("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
START = position()
NAMES = ("e2e4", "d2d4", "g1f3", "c2c4", "b1c3", "f2f4", "a2a3", "h2h4")


def root(moves: list[RootMove], q: float = 0.0) -> SearchResult:
    """A result with the moves in the order in which a search gives them."""

    def rank(m: RootMove) -> tuple[float, ...]:
        order = {1: 2, -1: 0}.get(m.certain or 0, 1)
        return (-order, -m.visits, -m.q if m.visits else 0.0, -m.prior)

    nodes = 1 + sum(m.visits for m in moves)
    return SearchResult(nodes, nodes, q, q, 0.0, 0.0, q, tuple(sorted(moves, key=rank)), 1, 1)


def move(name: str, visits: int, q: float = 0.0, prior: float = 0.1, certain: int | None = None) -> RootMove:
    wl = q if visits or certain is not None else math.nan
    return RootMove(name, visits, prior, wl, wl, 0.0, 1.0, certain, None, (name,))


def shares(result: SearchResult, draws: int = 4000, ply: int = 0, **changes: Any) -> dict[str, float]:
    """How often each move is chosen."""
    params = SearchParams(**changes)
    chosen = Counter(choose_move(result, params, ply, seed) for seed in range(draws))
    return {name: n / draws for name, n in chosen.items()}


# --- Temperature


@pytest.mark.parametrize(
    ("changes", "expected"),
    [  # at plies 0, 10, 20, 40, 80: moves 0, 5, 10, 20, 40
        ({"temperature": 0.8}, [0.8, 0.8, 0.8, 0.8, 0.8]),
        ({"temperature": 0.8, "tempdecay_moves": 20}, [0.8, 0.6, 0.4, 0.0, 0.0]),
        ({"temperature": 0.8, "tempdecay_moves": 20, "tempdecay_delay_moves": 10}, [0.8, 0.8, 0.8, 0.4, 0.0]),
        ({"temperature": 0.8, "tempdecay_moves": 20, "temp_endgame": 0.5}, [0.8, 0.6, 0.5, 0.5, 0.5]),
        ({"temperature": 0.8, "temp_cutoff_move": 11}, [0.8, 0.8, 0.0, 0.0, 0.0]),
        ({"temperature": 0.8, "temp_cutoff_move": 6, "temp_endgame": 0.3}, [0.8, 0.3, 0.3, 0.3, 0.3]),
        ({"temperature": 0.0, "tempdecay_moves": 5, "temp_endgame": 0.3}, [0.0, 0.0, 0.0, 0.0, 0.0]),
        ({"temperature": 0.0, "temp_cutoff_move": 6, "temp_endgame": 0.3}, [0.0, 0.3, 0.3, 0.3, 0.3]),
    ],
)
def test_temperature_decays_as_in_lc0(changes: dict[str, Any], expected: list[float]) -> None:
    params = SearchParams(**changes)
    assert [temperature_at(params, ply) for ply in (0, 10, 20, 40, 80)] == pytest.approx(expected)
    assert temperature_at(params, 11) == temperature_at(params, 10)  # both plies of a move


THREE = root([move("e2e4", 60, 0.10), move("d2d4", 30, 0.06), move("g1f3", 10, -0.30), move("c2c4", 0, prior=0.3)])


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        ({"temperature": 0.0}, [1, 0, 0, 0]),
        ({"temperature": 1.0}, [60, 30, 10, 0]),
        ({"temperature": 0.5}, [60**2, 30**2, 10**2, 0]),
        ({"temperature": 2.0}, [60**0.5, 30**0.5, 10**0.5, 0]),
        ({"temperature": 1e-3}, [1, 0, 0, 0]),
        ({"temperature": 1.0, "temp_visit_offset": -10.0}, [50, 20, 0, 0]),
        ({"temperature": 1.0, "temp_visit_offset": 5.0}, [65, 35, 15, 5]),
        ({"temperature": 1.0, "temp_visit_offset": 5.0, "fpu_value": 9.0, "temp_value_cutoff": 50.0}, [65, 35, 15, 0]),
        ({"temperature": 1.0, "temp_value_cutoff": 2.5}, [60, 30, 0, 0]),
        ({"temperature": 1.0, "temp_value_cutoff": 1.5}, [1, 0, 0, 0]),
    ],
)
@pytest.mark.slow
def test_moves_are_drawn_by_their_visits(changes: dict[str, Any], weights: list[float]) -> None:
    found = shares(THREE, **changes)
    for name, weight in zip(("e2e4", "d2d4", "g1f3", "c2c4"), weights, strict=True):
        share = weight / sum(weights)
        assert found.get(name, 0.0) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 4000) + 1e-12)


def test_without_visits_moves_are_drawn_by_their_priors() -> None:
    result = root([move("e2e4", 0, prior=0.6), move("d2d4", 0, prior=0.3), move("g1f3", 0, prior=0.1)])
    found = shares(result, temperature=1.0)
    assert [found[name] for name in ("e2e4", "d2d4", "g1f3")] == pytest.approx([0.6, 0.3, 0.1], abs=0.03)
    assert shares(result, temperature=1e-4, draws=20) == {"e2e4": 1.0}


def test_draws_are_seeded_and_the_moves_of_a_game_independent() -> None:
    params = SearchParams(temperature=1.0)
    chosen = [choose_move(THREE, params, ply, seed) for ply in range(30) for seed in range(30)]
    assert chosen == [choose_move(THREE, params, ply, seed) for ply in range(30) for seed in range(30)]
    games = {tuple(chosen[30 * ply + seed] for ply in range(30)) for seed in range(30)}
    assert len(games) == 30
    assert all(len(set(game)) > 1 for game in games)


PROVEN = st.sampled_from((None, None, None, 0, 1, -1))
MOVES = st.lists(
    st.tuples(st.integers(0, 500), st.floats(-1, 1), st.floats(0, 1), PROVEN), min_size=1, max_size=len(NAMES)
)


@settings(max_examples=300, deadline=None)
@given(
    facts=MOVES,
    temperature=st.floats(0, 100),
    offset=st.floats(-1000, 1000),
    cutoff=st.floats(0, 100),
    seed=st.integers(0, 2**63 - 1),
    ply=st.integers(0, 400),
)
def test_a_proven_win_is_never_turned_down_nor_a_proven_loss_picked(
    facts: list[tuple[int, float, float, int | None]],
    temperature: float,
    offset: float,
    cutoff: float,
    seed: int,
    ply: int,
) -> None:
    moves = [
        move(name, visits, q if proven is None else float(proven), prior, proven)
        for name, (visits, q, prior, proven) in zip(NAMES, facts, strict=False)
    ]
    result = root(moves)
    params = SearchParams(temperature=temperature, temp_visit_offset=offset, temp_value_cutoff=cutoff)
    chosen = next(m for m in moves if m.move == choose_move(result, params, ply, seed))
    certain = [m.certain for m in moves]
    if 1 in certain:
        assert chosen.certain == 1
    if set(certain) != {-1}:
        assert chosen.certain != -1


# --- Noise


def priors(start: Position, **changes: Any) -> dict[str, float]:
    return {m.move: m.prior for m in searched(start, 1, **changes).result(0).moves}


def noise(start: Position, epsilon: float = 0.25, **changes: Any) -> dict[str, float]:
    """What was mixed into the priors."""
    plain = priors(start)
    mixed = priors(start, noise_epsilon=epsilon, **changes)
    return {name: (p - (1 - epsilon) * plain[name]) / epsilon for name, p in mixed.items()}


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_noise_has_mean_and_variance_of_a_dirichlet_distribution(alpha: float) -> None:
    samples = np.array([[*sorted_values(noise(START, noise_alpha=alpha, seed=seed))] for seed in range(400)])
    mean, variance = 1 / 20, (1 / 20) * (19 / 20) / (20 * alpha + 1)
    assert samples.min() > -1e-5
    assert samples.sum(1) == pytest.approx(1, abs=1e-4)
    assert samples.mean(0) == pytest.approx(mean, abs=5 * math.sqrt(variance / 400))
    assert samples.var() == pytest.approx(variance, rel=0.1)


def sorted_values(by_move: dict[str, float]) -> list[float]:
    return [by_move[name] for name in sorted(by_move)]


def test_noise_is_seeded_and_each_position_has_its_own() -> None:
    other = position(moves="g1f3 g8f6 f3g1 f6g8 b1c3 b8c6 c3b1 c6b8")  # the same moves in the same position
    further = position("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1")  # 20 moves as well
    assert noise(START, seed=5) == noise(START, seed=5)
    assert noise(START, seed=5) != noise(START, seed=6)
    assert sorted_values(noise(further, seed=5)) != pytest.approx(sorted_values(noise(START, seed=5)), abs=0.01)
    assert sorted_values(noise(other, seed=5)) == pytest.approx(sorted_values(noise(START, seed=5)), abs=1e-5)


def test_noise_is_at_the_root_only_and_none_with_epsilon_0() -> None:
    plain = tree_of(searched(KIWIPETE, 100))
    assert tree_of(searched(KIWIPETE, 100, noise_epsilon=0.0, noise_alpha=5.0, seed=3)) == plain
    noisy = tree_of(searched(KIWIPETE, 100, noise_epsilon=0.25, seed=3))
    common = [path for path in noisy if path and path in plain and noisy[path].moves and plain[path].moves]
    assert len(common) > 10
    for path in common:
        untouched = [{n: p for n, p, proven in t[path].moves if proven is None} for t in (noisy, plain)]
        assert all(untouched[0][n] == untouched[1][n] for n in untouched[0].keys() & untouched[1].keys())
    assert noisy[()].n == 100
    assert {n: p for n, p, _ in noisy[()].moves} != {n: p for n, p, _ in plain[()].moves}


# --- Draw score

# The knight's king takes the pawn, and nobody can mate; or it plays on.
TAKES = "8/8/8/4k3/8/8/1p5N/K7 w - - 0 1"


def mirrored(start: str) -> Position:
    return position(chess.Board(start).mirror().fen())


def flipped(uci: str) -> str:
    return "".join(str(9 - int(c)) if c.isdigit() else c for c in uci)


@pytest.mark.parametrize(("score", "takes"), [(0.9, True), (-0.9, False)])
def test_a_draw_is_worth_its_score_to_white_and_the_opposite_to_black(score: float, takes: bool) -> None:
    def net() -> FakeNet:
        return FakeNet(spread=0.2, colour_blind=True)

    white = searched(position(TAKES), 200, net(), draw_score=score).result(0)
    black = searched(mirrored(TAKES), 200, net(), draw_score=-score).result(0)
    opposite = searched(mirrored(TAKES), 200, net(), draw_score=score).result(0)
    assert (white.best_move == "a1b2") is takes
    assert (black.best_move == "a8b7") is takes
    assert (opposite.best_move == "a8b7") is not takes
    assert [(flipped(m.move), m.visits, m.q, m.wl, m.d) for m in black.moves if m.visits] == [
        (m.move, m.visits, m.q, m.wl, m.d) for m in white.moves if m.visits
    ]
    for result, worth in ((white, score), (black, score), (opposite, -score)):
        assert result.root_q == pytest.approx(result.root_wl + worth * result.root_d, abs=1e-6)
        taken = next(m for m in result.moves if m.move in ("a1b2", "a8b7"))
        assert (taken.wl, taken.d) == (0.0, 1.0)
        assert taken.q == pytest.approx(worth)


# --- Bad input


@pytest.mark.parametrize(
    ("setting", "fact"),
    [
        ("cpukt=1", "cpuct"),
        ("look-ahed=1", "lookahead"),
        ("nscl=1", "n_scl"),
        ("n_scl=0", "inf"),
        ("n_scl=2.5", "inf"),
        ("certainty=maybe", "1 or 0"),
        ("cpuct=much", "number"),
        ("cpuct=nan", "number"),
        ("cpuct=-1", "0 to 100"),
        ("minibatch_size=0", "1 to 1024"),
        ("draw_score=1.5", "-1 to 1"),
        ("moves_left_slope=1.5", "0 to 1"),
        ("q_scale=0", "q_scale"),
        ("q_scale=1000", "q_scale"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_line(setting: str, fact: str) -> None:
    with pytest.raises(UsageError) as refused:
        SearchParams().with_settings(dict([setting.split("=")]), "--deep mcts: ")
    assert str(refused.value).startswith("--deep mcts: ")
    assert setting.split("=")[0] in str(refused.value)
    assert fact in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("changes", [{"n_scl": -1}, {"cpuct": -1.0}, {"noise_alpha": 0.0}])
def test_a_forest_refuses_parameters_that_make_no_sense(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(changes))):
        Forest(FakeNet(), SearchParams(**changes))


def test_settings_by_all_their_spellings() -> None:
    for words in ({"Lookahead": "on", "n-scl": "7"}, {" lookahead": "1", "N_SCL": " 7"}):
        assert SearchParams().with_settings(words) == SearchParams(lookahead=True, n_scl=7)


@given(st.sampled_from(PARAMETERS), st.text(max_size=8))
def test_any_text_is_a_value_or_refused(name: str, text: str) -> None:
    try:
        params = SearchParams().with_settings({name: text})
    except UsageError:
        with pytest.raises(UsageError, match=f"^{name}="):
            SearchParams().with_settings({name: text})
    else:
        assert SearchParams().with_settings(params.changes()) == params
