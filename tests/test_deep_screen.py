"""Signals against python-chess, laws of the features, fits against scipy and brute force, out-of-sample recall."""

from __future__ import annotations

import itertools
import random

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from tests.climbing_doubles import ALPHA, NODES, RUNGS, fixed_screen, latent_walk, synthetic_signals
from valuerepair.deep import screen_fit
from valuerepair.deep.screen import Screen, feature_names, features, judge, rungs_of
from valuerepair.deep.screen_fit import Calibration, Chances, Learner, choose_cuts, curve, enough, fit_rungs, fit_screen
from valuerepair.deep.signals import COLUMN, SIGNALS, SignalReader, neighbours
from valuerepair.nets import NetValues
from valuerepair.positions import Origin, Position, PositionBatch, decode_moves

Floats = NDArray[np.float64]
KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
Q = COLUMN["q"]


# -- signals ----------------------------------------------------------------------------------------------------------


def random_game(dice: random.Random) -> Position:
    """A position of a random game, from the start or a FEN, with the move played there if there was one."""
    start = dice.choice((chess.STARTING_FEN, KIWIPETE, "8/P6k/8/8/8/8/p5K1/8 b - - 0 1"))
    board, moves = chess.Board(start), list[str]()
    for _ in range(dice.choice((0, 0, 1, 2, 3, dice.randrange(60)))):
        moves.append(dice.choice(list(board.legal_moves)).uci())
        board.push_uci(moves[-1])
        if not any(board.legal_moves):
            board.pop()
            moves.pop()
            break
    legal = [move.uci() for move in board.legal_moves]
    played = dice.choice(legal) if legal and dice.random() < 0.7 else None
    origin = Origin("x.pgn", 1, played=played)
    return Position(board.fen(), start, tuple(moves), board.ply(), dice.getrandbits(63), bool(moves), origin)


def played_out(start: str, moves: tuple[str, ...]) -> str:
    board = chess.Board(start)
    for move in moves:
        board.push_uci(move)
    return board.fen()


class ReplayNet:
    """Its value is a hash of where the moves lead, whatever the batch's `fen` says."""

    def evaluate(self, batch: PositionBatch) -> NetValues:
        q = []
        for i in range(len(batch)):
            moves = decode_moves(batch.moves[batch.offsets[i] : batch.offsets[i + 1]])
            q.append(fen_q(played_out(batch.start_fen[i], tuple(moves))))
        values = np.array(q, np.float32)
        wdl = np.stack([(1 + values) / 2, np.zeros_like(values), (1 - values) / 2], 1)
        none = np.zeros(len(batch), np.float32)
        return NetValues(values, wdl, np.zeros(len(batch), np.uint16), none, none, none)


def fen_q(fen: str) -> float:
    return float(np.float32(random.Random(fen).uniform(-1, 1)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_neighbours_are_what_the_game_went_through(seed: int) -> None:
    dice = random.Random(seed)
    positions = [random_game(dice) for _ in range(dice.randrange(1, 8))]
    batch = PositionBatch.from_positions(positions)
    for plies in (-1, -2, 1):
        rows, near = neighbours(batch, plies)
        expected = {
            i: p.moves[:plies] if plies < 0 else (*p.moves, p.origin.played)
            for i, p in enumerate(positions)
            if (len(p.moves) >= -plies if plies < 0 else p.origin is not None and p.origin.played)
        }
        assert rows.tolist() == list(expected)
        assert len(near) == len(rows)
        for k, moves in enumerate(expected.values()):
            assert tuple(decode_moves(near.moves[near.offsets[k] : near.offsets[k + 1]])) == moves
            assert near.start_fen[k] == positions[int(rows[k])].start_fen


def test_signals_are_from_the_side_to_move_of_the_position() -> None:
    dice = random.Random(3)
    positions = [random_game(dice) for _ in range(60)]
    batch, net = PositionBatch.from_positions(positions), ReplayNet()
    found = SignalReader(net).read(batch, net.evaluate(batch))
    assert found.shape == (60, len(SIGNALS))
    for row, position in zip(found, positions, strict=True):
        board, moves = chess.Board(position.fen), position.moves
        assert row[Q] == fen_q(position.fen)
        for name, sign, there, line in (
            ("before", -1, len(moves) >= 1, moves[:-1]),
            ("before_2", 1, len(moves) >= 2, moves[:-2]),
            ("after", -1, bool(position.origin.played), (*moves, position.origin.played or "")),
        ):
            value = row[COLUMN[name]]
            assert np.isnan(value) != there
            if there:
                assert value == sign * fen_q(played_out(position.start_fen, line))
        assert row[COLUMN["pieces"]] == len(board.piece_map())
        assert row[COLUMN["check"]] == board.is_check()
        assert row[COLUMN["ply"]] == position.ply
        runners = sum(
            chess.square_rank(s) in ((5, 6) if board.color_at(s) else (1, 2))
            for s in board.pieces(1, True) | board.pieces(1, False)
        )
        assert row[COLUMN["runners"]] == runners
        assert np.isnan(row[COLUMN["search"]])


# -- features ---------------------------------------------------------------------------------------------------------

unit = st.floats(-0.98, 0.98).map(lambda x: round(x, 4))


def one(net: float, q: list[float], seed: int = 0) -> tuple[Floats, Floats, NDArray[np.int64]]:
    signals = np.abs(synthetic_signals(1, np.random.default_rng(seed)))
    signals[0, Q] = net
    return signals, np.array([q]).reshape(1, -1), np.ones((1, len(q)), np.int64)


def negated(signals: Floats) -> Floats:
    """Signals where every value has the other sign."""
    turned: Floats = signals.copy()
    turned[:, [COLUMN[name] for name in ("q", "before", "before_2", "after", "search")]] *= -1
    return turned


@given(unit, st.lists(unit, min_size=1, max_size=4), st.floats(0.2, 1.2), st.integers(0, 99))
def test_optimism_and_pessimism_look_the_same(net: float, q: list[float], threshold: float, seed: int) -> None:
    if net == q[-1]:
        return
    signals, values, best = one(net, q, seed)
    assert features(signals, values, best, threshold) == pytest.approx(
        features(negated(signals), -values, best, threshold), nan_ok=True
    )


@given(unit, unit, st.floats(0.2, 1.2))
def test_margins_are_zero_at_the_threshold_and_negative_beyond(net: float, now: float, threshold: float) -> None:
    signals, values, best = one(net, [now])
    row = dict(zip(feature_names(True), features(signals, values, best, threshold)[0], strict=True))
    assert row["margin"] == pytest.approx(threshold - abs(net - now), abs=1e-12)
    assert row["log-odds margin"] * row["margin"] >= -1e-9 or abs(net - now) < 1e-3
    assert row["out of reach"] == (threshold >= 1 + (net if net >= now else -net))
    signals, values, best = one(net, [net - threshold])
    if abs(net - threshold) < 0.98:
        at = dict(zip(feature_names(True), features(signals, values, best, threshold)[0], strict=True))
        assert at["margin"] == pytest.approx(0, abs=1e-9)
        assert at["log-odds margin"] == pytest.approx(0, abs=1e-6)


@given(st.integers(0, 10_000), st.integers(0, 3))
def test_only_what_is_unknown_of_the_net_is_no_number(seed: int, rungs: int) -> None:
    rng = np.random.default_rng(seed)
    signals = synthetic_signals(20, rng)
    q, best = rng.uniform(-1, 1, (20, rungs)), rng.integers(0, 4, (20, rungs))
    found = features(signals, q, best, 0.55)
    names = feature_names(rungs > 0)
    assert found.shape == (20, len(names))
    sources = {
        "jump before": "before",
        "jump 2 before": "before_2",
        "jump after": "after",
        "search change": "search",
        "search away": "search",
    }
    for name, column in zip(names, found.T, strict=True):
        unknown = np.isnan(signals[:, COLUMN[sources[name]]]) if name in sources else np.zeros(20, np.bool_)
        assert (np.isnan(column) == unknown).all(), name


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_single_judgement_is_that_of_all_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    screen, signals = fixed_screen(), synthetic_signals(12, rng)
    q, best = rng.uniform(-0.9, 0.9, (12, 2)), rng.integers(1, 4, (12, 2))
    for k, rung in enumerate(screen.rungs):
        together = rung.chances(features(signals, q[:, :k], best[:, :k], screen.threshold))
        for i in range(12):
            verdict = judge(screen, signals[i], q[i, :k].tolist(), best[i, :k].tolist())
            assert (verdict.cut_at == rung.nodes) == (together[i] < rung.cut)
            assert verdict.chance is None or verdict.chance == pytest.approx(together[i], rel=1e-12)


def test_rungs_of_a_million_and_of_few_nodes() -> None:
    assert rungs_of(1_000_000) == (5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
    assert all(0 < rung < nodes for nodes in (1, 2, 3, 10, 100, 4000) for rung in rungs_of(nodes))
    assert rungs_of(1) == ()


# -- fits -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return latent_walk(900, 1)


@pytest.mark.parametrize("k", [0, 2])
def test_coefficients_are_the_maximum_of_the_penalised_likelihood(calibration: Calibration, k: int) -> None:
    model = fit_rungs(calibration, 0.55)[k]
    used = np.isfinite(model.scale)
    x, y, w = [], [], []
    for share in screen_fit._SPREAD:
        x.append(features(calibration.signals, calibration.q[:, :k], calibration.best[:, :k], share * 0.55))
        y.append(calibration.disagreement >= share * 0.55)
        w.append(np.full(len(calibration), 0.25))
    rows = np.nan_to_num((np.concatenate(x) - model.centre) / model.scale)
    design, hit, weight = np.c_[np.ones(len(rows)), rows], np.concatenate(y), np.concatenate(w)

    def loss(beta: Floats) -> tuple[float, Floats]:
        z, b = design @ beta, beta[1:]
        p = 1 / (1 + np.exp(-z))
        value = weight @ (np.logaddexp(0, z) - hit * z) + 4.0 * (np.logaddexp(0, b) - 0.5 * b).sum()
        gradient = design.T @ (weight * (p - hit))
        gradient[1:] += 4.0 * (1 / (1 + np.exp(-b)) - 0.5)
        return float(value), gradient

    best = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-8})
    assert model.coefficients == pytest.approx(best.x, abs=2e-4)
    assert (model.coefficients[1:][~used] == pytest.approx(0, abs=1e-6)) or used.all()
    p = 1 / (1 + np.exp(-design @ best.x))
    information = (design.T * (weight * p * (1 - p))) @ design
    b = 1 / (1 + np.exp(-best.x[1:]))
    information[1:, 1:] += np.diag(4.0 * b * (1 - b))
    assert np.linalg.inv(information) == pytest.approx(model.covariance, rel=0.02, abs=1e-4)


def test_cross_validated_recall_is_near_the_wanted_one_and_less_is_cheaper() -> None:
    data = latent_walk(1500, 2)
    points = curve(data, 0.55, (0.8, 0.95, 0.99))
    for point in points:
        spread = np.sqrt(point.wanted * (1 - point.wanted) / point.positives)
        assert point.recall >= point.wanted - 3 * spread
    assert [p.share for p in points] == sorted(p.share for p in points)
    assert points[0].share < 0.5 * points[-1].share + 0.3
    assert points[1].share < 0.6
    assert points[0].positives == int((data.disagreement >= 0.55).sum()) > 50


def test_cuts_on_exact_chances_are_as_good_as_the_best_of_all() -> None:
    """Chances that are a walk of conditional means: no other triple of cuts loses as little for less."""
    rng = np.random.default_rng(5)
    last = np.sort(rng.choice([0.001, 0.02, 0.2, 0.7], 64, p=[0.5, 0.2, 0.2, 0.1]) * rng.uniform(0.8, 1, 64))
    last = np.concatenate([last[i::4] for i in range(4)])
    middle = np.repeat(last.reshape(16, 4).mean(1), 4)
    first = np.repeat(middle.reshape(4, 16).mean(1), 16)
    grid = np.stack([first, middle, last], 1)
    data = Calibration(
        RUNGS, NODES, np.zeros((64, len(SIGNALS))), np.zeros((64, 3)), np.ones((64, 2), np.int64), np.ones(64)
    )
    chances = Chances(grid, grid)
    spent = np.array([0, 10, 100, 1000]) / 1000

    def outcome(cuts: tuple[float, ...]) -> tuple[float, float]:
        below = grid < np.array(cuts)
        left = np.where(below.any(1), below.argmax(1), 3)
        lost = sum(grid[i, k] for i, k in enumerate(left) if k < 3)
        return float(spent[left].mean()), float(lost)

    every = [outcome(cuts) for cuts in itertools.product(*([0.0, *np.unique(c).tolist()[::2], 1.1] for c in grid.T))]
    for recall in (0.7, 0.9, 0.97):
        cost, lost = outcome(tuple(choose_cuts(data, chances, recall)))
        assert lost <= (1 - recall) * grid[:, -1].sum() + 1e-12
        assert cost <= min(c for c, other in every if other <= lost + 1e-12) + 0.02
        assert cost < 1


def test_a_screen_survives_its_json(calibration: Calibration) -> None:
    screen = fit_screen(calibration, 0.55, 0.95, ALPHA, "cp")
    again = Screen.from_json(screen.to_json())
    assert again.to_json() == screen.to_json()
    assert (again.positions, again.positives) == (900, int((calibration.disagreement >= 0.55).sum()))
    for k, (old, new) in enumerate(zip(screen.rungs, again.rungs, strict=True)):
        rows = features(calibration.signals, calibration.q[:, :k], calibration.best[:, :k], 0.55)
        assert (old.chances(rows) == new.chances(rows)).all()
        assert (old.cut, old.nodes, old.names) == (new.cut, new.nodes, new.names)
        # Caution only ever raises a chance.
        assert (old.chances(rows) >= old.chances(rows, 0.0)).all()
    assert 0 < screen.expected_share < 1


def test_a_feature_left_out_has_no_say(calibration: Calibration) -> None:
    models = fit_rungs(calibration, 0.55, Learner(without=("entropy", "margin")))
    assert len(models) == calibration.q.shape[1]
    for model in models:
        for name in ("entropy", "margin"):
            assert model.coefficients[1 + model.names.index(name)] == pytest.approx(0, abs=1e-8)


def test_too_little_is_not_enough() -> None:
    data = latent_walk(60, 3)
    assert enough(data, 0.55)
    assert not enough(data.take(np.arange(60) < 40), 0.55)
    assert not enough(data.take(data.disagreement < 0.3), 0.55)
