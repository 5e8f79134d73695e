"""Training by the smallest net there is: what is learned, what is not, and that it goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import entr

jax: Any = pytest.importorskip("jax")
optax: Any = pytest.importorskip("optax")

from tests.linear_net import LinearNet  # noqa: E402
from tests.training_doubles import InMemory, as_held, learn, positions  # noqa: E402
from valuerepair.errors import UsageError, ValueRepairError  # noqa: E402
from valuerepair.nets.planes import unpack_masks  # noqa: E402
from valuerepair.nets.weights import read_net_file  # noqa: E402
from valuerepair.training import checkpoint  # noqa: E402
from valuerepair.training import fit as fitting  # noqa: E402
from valuerepair.training.fit import (  # noqa: E402
    Fitted,
    Validation,
    fit,
)
from valuerepair.training.learner import Learner, planes_of, trained_names  # noqa: E402
from valuerepair.training.losses import LossWeights  # noqa: E402
from valuerepair.training.options import TrainOptions  # noqa: E402
from valuerepair.training.samples import Samples  # noqa: E402
from valuerepair.training.sources import Held, TrainingStream, value_weights  # noqa: E402
from valuerepair.training.train import train  # noqa: E402

THRESHOLD = 0.3


@pytest.fixture(scope="module")
def samples() -> Samples:
    return positions(700)


def run(
    samples: Samples,
    folder: Path,
    held: Samples | None = None,
    net: LinearNet | None = None,
    policy_kl: float = 0.0,
    **options: Any,
) -> Fitted:
    chosen = TrainOptions(
        **{"steps": 40, "batch": 64, "lr": 3e-3, "warmup": 5, "every": 10, "threshold": THRESHOLD, **options}
    )
    return fit(
        net or LinearNet(),
        TrainingStream([InMemory(samples)], chosen.batch, chosen.seed),
        [as_held(held)] if held is not None else [],
        chosen,
        policy_kl=policy_kl,
        checkpoint=folder / "checkpoint",
        identity={"lr": chosen.lr},
        quiet=True,
    )


def same(a: Fitted, b: Fitted) -> bool:
    return a.parameters.keys() == b.parameters.keys() and all(
        a.parameters[name].tobytes() == b.parameters[name].tobytes() for name in a.parameters
    )


def by_side(samples: Samples) -> NDArray[np.float64]:
    """[n, 3] W/D/L: whoever has the move as Black wins, as White loses."""
    black = samples.masks[:, 108] != 0
    return np.stack([black, np.zeros(len(black)), ~black], 1).astype(np.float64)


# -- one step ---------------------------------------------------------------------------------------------------------


def test_planes_are_those_of_the_kernel(samples: Samples) -> None:
    batch = samples.batch()
    expected = np.empty((len(samples), 112, 8, 8), np.float32)
    unpack_masks(samples.masks, samples.rule50, expected)
    np.testing.assert_array_equal(planes_of(jax.numpy.asarray(batch.bits), jax.numpy.asarray(batch.rule50)), expected)


def test_steps_are_those_of_optax(samples: Samples) -> None:
    """`optax.adam` with the schedule of optax, on the loss written out again."""
    net, options = LinearNet(), TrainOptions(steps=6, batch=64, lr=1e-2, warmup=0)
    learner = Learner(net, options, LossWeights())
    batches = [samples.take(np.arange(64) + 64 * k).batch() for k in range(6)]

    def loss(parameters: Any, batch: Any) -> Any:
        heads = net.forward(parameters, planes_of(batch.bits, batch.rule50))
        return -(batch.wdl * jax.nn.log_softmax(heads.wdl)).sum(1).mean()

    adam = optax.adam(optax.cosine_decay_schedule(1e-2, 6))

    def follow(parameters: Any, moments: Any, batch: Any) -> Any:
        updates, moments = adam.update(jax.grad(loss)(parameters, batch), moments, parameters)
        return optax.apply_updates(parameters, updates), moments

    step = jax.jit(follow)
    expected: Any = net.parameters
    moments, state = adam.init(expected), learner.begin()
    for number, batch in enumerate(batches):
        expected, moments = step(expected, moments, batch)
        state, _ = learner.step(state, batch, number)
    for name, value in expected.items():
        np.testing.assert_allclose(state.parameters[name], value, rtol=2e-4, atol=2e-6)


def test_weights_of_the_value_change_nothing_but_its_part(samples: Samples) -> None:
    """Twice the weight, twice the value's loss and its gradient; a weight of 1 everywhere is as none."""
    net, some = LinearNet(), samples.take(np.arange(64))
    learner = Learner(net, TrainOptions(policy="judge:0.5"), LossWeights(policy_kl=1.0))

    def parts_and_gradient(value_weight: Any) -> tuple[Any, Any]:
        batch = replace(some, value_weight=np.asarray(value_weight, np.float32)).batch()
        parts = learner.evaluate(net.parameters, batch).parts
        gradient = jax.grad(lambda p: learner._evaluate(p, {}, learner._old, batch).parts["value"].mean())
        return parts, gradient(net.parameters)["value/w"]

    (plain, slope), (heavier, steeper) = parts_and_gradient(np.ones(64)), parts_and_gradient(np.full(64, 2))
    np.testing.assert_allclose(heavier["value"], 2 * plain["value"])
    np.testing.assert_allclose(steeper, 2 * slope, rtol=1e-5, atol=1e-8)
    for name in ("policy", "policy_kl", "moves_left"):
        np.testing.assert_array_equal(heavier[name], plain[name])
    wrong = np.full(64, 0.7)  # all positions disagree alike: the weights are 1, and the gradient is that without
    np.testing.assert_array_equal(parts_and_gradient(value_weights(wrong, 0.55, 1.0))[1], slope)


def test_value_weights_have_a_mean_of_1_and_follow_the_soft_weight() -> None:
    disagreement = np.random.default_rng(1).normal(0, 0.4, 5000)
    assert (value_weights(disagreement, 0.3, 0.0) == 1).all()
    soft = 1 / (1 + np.exp(-(np.abs(disagreement) - 0.3) / 0.1))  # the formula of docs/methods.md
    np.testing.assert_allclose(value_weights(disagreement, 0.3, 1.0), soft / soft.mean(), rtol=1e-9)
    half = value_weights(disagreement, 0.3, 0.5)
    np.testing.assert_allclose(half, (1 + soft / soft.mean()) / 2, rtol=1e-9)
    assert half.mean() == pytest.approx(1)


def test_steps_and_warm_up_follow_from_the_positions() -> None:
    """Six passes, at most 2,000 steps; what is given stays."""
    assert [TrainOptions().planned(n).steps for n in (10, 800, 4_000, 85_000, 10_000_000)] == [1, 19, 94, 1992, 2000]
    assert TrainOptions(batch=64).planned(4_000).steps == 375
    assert TrainOptions(steps=7).planned(4_000).steps == 7
    assert [TrainOptions(steps=n).planned(1).warmup for n in (4, 100, 500, 5000)] == [0, 20, 100, 100]
    assert TrainOptions(steps=100, warmup=90).planned(1).warmup == 90
    assert TrainOptions(steps=100, lr=1.0).rate(19) == pytest.approx((1 + np.cos(np.pi * 0.19)) / 2)
    assert TrainOptions(steps=100, lr=1.0).rate(9) == pytest.approx(0.5 * (1 + np.cos(np.pi * 0.09)) / 2)


def test_only_what_is_named_changes(samples: Samples, tmp_path: Path) -> None:
    net = LinearNet()
    assert trained_names(net, "value") == ["value/b", "value/w"]
    assert set(trained_names(net, "heads")) == set(net.parameters) - {"trunk/w"}
    assert set(trained_names(net, "all")) == set(net.parameters)
    outcome = run(samples, tmp_path, only="value")
    assert outcome.parameters.keys() == {"value/b", "value/w"}
    assert all((outcome.parameters[name] != net.parameters[name]).any() for name in outcome.parameters)


# -- what is learned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["wdl", "scalar"])
@pytest.mark.slow
def test_what_is_there_to_learn_is_learned_of_other_games(value: str, samples: Samples, tmp_path: Path) -> None:
    labelled = learn(samples, by_side(samples))
    train, held = labelled.take(np.arange(500)), labelled.take(np.arange(500, 700))
    outcome = run(train, tmp_path, held, LinearNet(value), steps=300, lr=3e-3, every=100)
    first, last = outcome.curve[0], outcome.curve[-1]
    assert last["loss"] < 0.1 * first["loss"]
    assert last["mean_dq"] < 0.2 * first["mean_dq"]
    assert last["rate"] < 0.1 < first["rate"]


@pytest.mark.slow
def test_of_shuffled_labels_nothing_is_learned(samples: Samples, tmp_path: Path) -> None:
    """No better on held-out games than their own frequencies, which need no position, whatever training says."""
    labels = np.random.default_rng(2).permutation(by_side(samples))
    labelled = learn(samples, labels)
    train, held = labelled.take(np.arange(500)), labelled.take(np.arange(500, 700))
    outcome = run(train, tmp_path, held, steps=300, lr=3e-3, patience=0)
    entropy = entr(held.wdl.mean(0, dtype=np.float64)).sum()
    assert outcome.curve[-1]["train_loss"] < 0.8 * entropy
    assert outcome.curve[-1]["loss"] > entropy
    assert min(row["loss"] for row in outcome.curve) > entropy - 0.02


def test_it_stops_when_held_out_games_get_no_better(samples: Samples, tmp_path: Path) -> None:
    labelled = learn(samples, np.random.default_rng(2).permutation(by_side(samples)))
    train, held = labelled.take(np.arange(500)), labelled.take(np.arange(500, 700))
    outcome = run(train, tmp_path, held, steps=2000, lr=3e-3, patience=3)
    losses = [row["loss"] for row in outcome.curve]
    best = int(np.argmin(losses))
    assert outcome.stopped == f"no better on held-out games since step {outcome.best_step}"
    assert len(losses) == best + 4 < 100
    assert outcome.curve[best]["step"] == outcome.best_step


@pytest.mark.slow
def test_the_old_moves_left_hold_back(samples: Samples) -> None:
    """Positions of a store have no plies left: the head stays what it was, although the trunk below it changes."""
    labelled = learn(samples, by_side(samples))
    assert np.isnan(labelled.moves_left).all()
    old = LinearNet()
    planes = planes_of(*(jax.numpy.asarray(part) for part in (labelled.batch().bits, labelled.batch().rule50)))
    shifts = {}
    for weight in (0.0, 1.0):
        options = TrainOptions(steps=50, batch=64, lr=3e-3, warmup=5, every=50)
        learner = Learner(old, options, LossWeights(moves_left=weight, policy_kl=1.0))
        state = learner.begin()
        for number in range(50):
            state, _ = learner.step(state, labelled.take(np.arange(64) + 64 * (number % 10)).batch(), number)
        before, after = (old.forward(p, planes).moves_left for p in (old.parameters, state.parameters))
        shifts[weight] = float(np.abs(np.asarray(after) - np.asarray(before)).mean())
    assert shifts[1.0] < 0.2 * shifts[0.0]


@pytest.mark.slow
def test_the_judge_s_move_gets_its_share_and_the_old_policy_the_rest(samples: Samples, tmp_path: Path) -> None:
    """Learned by heart, a position's policy is S for the move and 1 - S times the old one; without a move the old."""
    some = samples.take(np.arange(64))
    some.judged[:8] = -1
    old = LinearNet(width=64)
    words: Any = {"policy": "judge:0.4", "batch": 64, "steps": 150, "lr": 2e-2, "every": 75, "patience": 0}
    outcome = run(some, tmp_path, some, old, policy_kl=1.0, **words)
    learner = Learner(old, TrainOptions(), LossWeights())
    was, now = (np.exp(learner.evaluate(p, some.batch()).log_policy) for p in (old.parameters, outcome.parameters))
    rows = np.arange(8, 64)
    np.testing.assert_allclose(now[:8], was[:8], atol=0.02)
    expected = 0.6 * was
    expected[rows, some.judged[8:]] += 0.4
    np.testing.assert_allclose(now[8:], expected[8:], atol=0.02)
    first, last = outcome.curve[0], outcome.curve[-1]
    assert first["judge_move"] == pytest.approx((was[8:].argmax(1) == some.judged[8:]).mean())
    assert first["judge_move"] < 0.2 < 0.9 < last["judge_move"]


# -- judging ----------------------------------------------------------------------------------------------------------


def test_measures_are_those_of_numpy(samples: Samples) -> None:
    held = replace(samples, weight=np.random.default_rng(3).uniform(0.5, 5, len(samples)).astype(np.float32))
    held.deep_q[:7] = np.nan
    old, new = LinearNet(seed=1), LinearNet(seed=2)
    learner = Learner(old, TrainOptions(), LossWeights(policy_kl=1.0))
    options = TrainOptions(batch=64, threshold=THRESHOLD)
    judged = Validation([as_held(held)], learner, LossWeights(policy_kl=1.0), options, old.parameters)
    measures = judged.measure(new.parameters)
    batch = held.batch()
    planes = planes_of(jax.numpy.asarray(batch.bits), jax.numpy.asarray(batch.rule50))
    before, after = (jax.tree.map(np.asarray, net.forward(net.parameters, planes)) for net in (old, new))

    def soft(logits: Any) -> Any:
        e = np.exp(np.asarray(logits, np.float64) - np.max(logits))
        return e / e.sum()

    q = np.array([soft(x) @ [1, 0, -1] for x in after.wdl])
    kl = []
    for i in range(len(held)):
        moves = held.moves[held.cuts[i] : held.cuts[i + 1]]
        p, r = (soft(heads.policy[i, moves]) for heads in (before, after))
        kl.append((p * np.log(p / r)).sum())
    has_deep_q, weight = ~np.isnan(held.deep_q), held.weight.astype(np.float64)
    assert measures["policy_kl"] == pytest.approx(np.average(kl, weights=weight), rel=1e-4)
    off = np.abs(q - held.deep_q)[has_deep_q]
    assert measures["mean_dq"] == pytest.approx(np.average(off, weights=weight[has_deep_q]), rel=1e-5)
    assert measures["rate"] == pytest.approx(np.average(off >= THRESHOLD, weights=weight[has_deep_q]))
    off = np.abs(after.moves_left - before.moves_left) / 20  # Huber's loss, with the old net's as target
    huber = np.where(off <= 0.5, off**2 / 2, 0.5 * (off - 0.25))
    assert measures["moves_left"] == pytest.approx(np.average(huber, weights=weight), rel=1e-4)
    assert measures["loss"] == pytest.approx(
        measures["value"] + measures["policy_kl"] + measures["policy"] + measures["moves_left"]
    )


def test_measures_of_kinds_are_those_of_their_positions_alone(samples: Samples) -> None:
    net, learner = LinearNet(seed=2), Learner(LinearNet(), TrainOptions(), LossWeights())
    kind = np.where(np.arange(len(samples)) % 3, "game", "random_move").astype(object)

    def measures(held: Held) -> dict[str, float]:
        options = TrainOptions(batch=64, threshold=THRESHOLD)
        return Validation([held], learner, LossWeights(), options, LinearNet().parameters).measure(net.parameters)

    both = measures(replace(as_held(samples), kind=kind))
    for name in ("game", "random_move"):
        alone = measures(as_held(samples.take(np.flatnonzero(kind == name))))
        assert not [key for key in alone if name in key]
        assert both[f"mean_dq_{name}"] == pytest.approx(alone["mean_dq"])
        assert both[f"rate_{name}"] == pytest.approx(alone["rate"])
    assert both["rate"] == pytest.approx(
        np.average([both["rate_game"], both["rate_random_move"]], weights=[2, 1]), abs=1e-3
    )


# -- stopped and gone on with -----------------------------------------------------------------------------------------


class Stopped(Exception):
    pass


class StoppedAt(TrainingStream):
    """Breaks off before it gives a batch."""

    def batches(self, first: int = 0) -> Any:
        for number, batch in enumerate(super().batches(first), first):
            if number == STOP:
                raise Stopped
            yield batch


STOP = 0


@pytest.mark.parametrize(("stop", "only"), [pytest.param(1, "all", marks=pytest.mark.slow), (17, "value"), (38, "all")])
def test_a_run_that_was_cut_off_ends_in_the_same_parameters(
    stop: int, only: str, samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled = learn(samples, by_side(samples))
    train, held = labelled.take(np.arange(500)), labelled.take(np.arange(500, 700))
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = run(train, tmp_path / "whole", held, only=only)
    monkeypatch.setattr(fitting, "CHECKPOINT_S", 0.0)  # a checkpoint after every step
    monkeypatch.setattr(f"{__name__}.STOP", stop)
    with monkeypatch.context() as patch:
        patch.setattr(f"{__name__}.TrainingStream", StoppedAt)
        with pytest.raises(Stopped):
            run(train, tmp_path / "cut", held, only=only)
    cut = run(train, tmp_path / "cut", held, only=only)
    assert same(whole, cut)
    assert str(whole.curve) == str(cut.curve)
    assert (tmp_path / "whole" / "checkpoint").read_bytes() == (tmp_path / "cut" / "checkpoint").read_bytes()


def test_a_checkpoint_of_another_training_is_refused_before_anything_is_read(shared_data: Path, tmp_path: Path) -> None:
    net = shared_data / "nets" / "maia-1900.pb.gz"
    identity = {"the net": read_net_file(net).sha256, "--lr": 0.5}
    checkpoint.save(tmp_path / "new.checkpoint", identity, checkpoint.Notes(1, 0, 1.0, 0.0, 0, []), {})
    options = TrainOptions(lr=0.25)
    with pytest.raises(UsageError, match=r"new\.checkpoint: .*--lr"):
        train(str(net), tmp_path / "new.pb.gz", [str(tmp_path / "no-chunks")], options=options)


def test_a_checkpoint_of_another_training_is_refused(samples: Samples, tmp_path: Path) -> None:
    run(samples, tmp_path, lr=1e-3)
    with pytest.raises(UsageError, match="lr"):
        run(samples, tmp_path, lr=2e-3)
    (tmp_path / "checkpoint").write_bytes(b"PK nothing")
    with pytest.raises(ValueRepairError, match="checkpoint"):
        run(samples, tmp_path, lr=1e-3)


def test_a_loss_that_is_no_number_keeps_the_last_good_checkpoint(samples: Samples, tmp_path: Path) -> None:
    bad = samples.take(np.arange(200))
    bad.rule50[150] = np.nan
    good = run(samples.take(np.arange(100)), tmp_path, steps=10)
    before = (tmp_path / "checkpoint").read_bytes()
    with pytest.raises(ValueRepairError, match=r"step \d+: the loss is nan"):
        run(bad, tmp_path, steps=30)
    assert good.curve
    assert (tmp_path / "checkpoint").read_bytes() == before


def test_a_net_without_a_value_head_is_refused(samples: Samples, tmp_path: Path) -> None:
    class NoValue(LinearNet):
        def forward(self, parameters: Any, planes: Any) -> Any:
            return super().forward(parameters, planes)._replace(wdl=None)

        def of_head(self, name: str) -> frozenset[str]:
            return frozenset()

    with pytest.raises(ValueRepairError, match="value head"):
        run(samples, tmp_path, net=NoValue())
    with pytest.raises(ValueRepairError, match="--only value"):
        run(samples, tmp_path, net=NoValue(), only="value")


def test_settings_are_parameters_as_text() -> None:
    chosen = TrainOptions(steps=9).with_settings({"batch": "32", "q_ratio": "0.5", "threshold": "0.3", "patience": "0"})
    assert chosen == TrainOptions(steps=9, batch=32, q_ratio=0.5, threshold=0.3, patience=0)
    for name, text in (("momentum", "0.9"), ("batch", "many"), ("batch", "0")):
        with pytest.raises(UsageError, match=f"--set {name}={text}"):
            TrainOptions().with_settings({name: text})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "--steps 0"),
        ({"lr": -1.0}, "--lr -1"),
        ({"lr": float("nan")}, "--lr nan"),
        ({"q_ratio": 1.5}, "--set q_ratio=1.5"),
        ({"holdout": 1.0}, "--set holdout=1"),
        ({"only": "trunk"}, "--only trunk"),
        ({"disagreement_weight": 1.5}, "--set disagreement_weight=1.5"),
        ({"policy": "judge:1.5"}, "--policy judge:1.5"),
        ({"policy": "judge:0.3", "only": "value"}, "--policy judge:0.3: --only value"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TrainOptions(**options)
