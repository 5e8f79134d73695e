"""Amplitude and arbitration: arms differ in how candidates are drawn alone, and a deeper judge's rates are unbiased."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks.proof import games, page, shares, tables
from benchmarks.proof.arms import Step
from benchmarks.proof.shares import ORIGINAL, SAMPLED, SEEDS, SETS, SHARES, THRESHOLDS, Shares, Verdicts
from tests.cli_tree import SAMPLE, parse
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.drawing import StoreDraw


@pytest.fixture
def folder(tmp_path: Path) -> Shares:
    """All that commands want to find."""
    (tmp_path / "data" / "pgn").mkdir(parents=True)
    (tmp_path / "data" / "pgn" / "otb-masters.pgn.zst").touch()
    parts = Shares(tmp_path / "data", tmp_path / "out", 0.3)
    (parts.out / "nets").mkdir(parents=True)
    for path in (parts.learned, parts.split):
        path.touch()
    return parts


def steps(parts: Shares) -> dict[str, Step]:
    return {step.name: step for phase in parts.phases(parts.out) for step in phase}


def test_steps_are_commands(folder: Shares) -> None:
    programs = {
        "valuerepair": cli, "benchmarks.proof.games": games.command, "benchmarks.proof.shares": shares.command
    }  # fmt: skip
    for step in steps(folder).values():
        parse(list(step.command), cli if step.command[0] == "train" else programs[step.program])


def test_arms_differ_in_how_candidates_are_drawn_alone(folder: Shares) -> None:
    trained = {arm: steps(folder)[f"shares-{arm}-0.pb.gz"] for arm in SHARES}
    rest = set()
    for arm, step in trained.items():
        words = list(step.command)
        assert ("--share" in words) == (SHARES[arm] is not None)
        if (share := SHARES[arm]) is not None:
            at = words.index("--share")
            assert float(words[at + 1]) == share / 100
            del words[at : at + 2]
        words[words.index("-o") + 1] = ""
        rest.add(tuple(words))
        assert (step.program == "benchmarks.proof.shares") == arm.endswith("-as-drawn")
    assert len(rest) == 1
    nets = [step.output for name, step in steps(folder).items() if name.endswith(".pb.gz")]
    assert len(set(nets)) == len(SEEDS) * len(SHARES)


def test_no_game_is_learned_from_and_judged_by(folder: Shares) -> None:
    of = {name: list(step.command) for name, step in steps(folder).items()}
    assert of["mine-shares"][1].endswith("train.pgn")
    assert of["mine-shares-test"][1].endswith("test.pgn")
    assert of["split"][2] == of["mine-shares"][3] == of["shares-20-0.pb.gz"][4]
    assert of["mine-shares-arbiter"][1] == of["unsure"][-1]


def test_as_drawn_means_are_those_of_what_is_drawn() -> None:
    """By weights that undo the draw the share of candidates is their own; as they are drawn, the share asked for."""
    with Store.open(SAMPLE) as store:
        drawn = StoreDraw(store, Question(threshold=0.35), share=0.4)
    passes = np.concatenate([drawn.one_pass(number) for number in range(40)])
    candidate = drawn.is_candidate[passes]
    as_drawn = shares.as_drawn(drawn)
    assert np.average(candidate, weights=as_drawn[passes]) == pytest.approx(candidate.mean())
    assert candidate.mean() == pytest.approx(0.4, abs=0.02)
    assert np.average(candidate, weights=drawn.inverse[passes]) == pytest.approx(drawn.ordinary_share, rel=0.02)
    assert not as_drawn[np.setdiff1d(np.arange(len(as_drawn)), drawn.rows())].any()


def simulated(dice: np.random.Generator, count: int = 4_000) -> tuple[Verdicts, np.ndarray]:
    """Positions with a true Q, from which the first judge is off by less than he may be; an arm that is nearer to the
    truth and one that is further off, two nets each."""
    true_q = dice.uniform(-0.9, 0.9, count)
    deep_q = true_q + dice.uniform(-0.09, 0.09, count)
    off = {ORIGINAL: 0.4, SAMPLED: 0.3}
    expected = {arm: np.stack([true_q + dice.normal(0, error, count) for _ in range(2)]) for arm, error in off.items()}
    sets = np.where(np.arange(count) % 4 == 0, SETS[1], SETS[0])
    return Verdicts(np.arange(count), np.arange(count), deep_q, np.arange(count) // 3, sets, expected), true_q


def rates(verdicts: Verdicts, deep_q: np.ndarray) -> dict[str, float]:
    """Of the families, by hand."""
    here = verdicts.sets == SETS[0]
    return {arm: float((np.abs(q - deep_q) >= 0.55)[:, here].mean()) for arm, q in verdicts.expected.items()}


def test_a_deeper_judge_of_all_that_is_unsure_gives_his_own_rates() -> None:
    verdicts, true_q = simulated(np.random.default_rng(3))
    by_first, by_deeper = rates(verdicts, verdicts.deep_q), rates(verdicts, true_q)
    assert by_first != by_deeper
    deeper = {key: q for key, q in enumerate(true_q.tolist()) if verdicts.unsure()[key]}
    numbers = shares.arbitrated(verdicts, deeper)
    here = verdicts.sets == SETS[0]
    assert {arm: float(of[:, here].mean()) for arm, of in numbers.items()} == pytest.approx(by_deeper)


def test_a_sample_of_what_is_unsure_stands_for_all_of_it() -> None:
    """The mean over many draws is the deeper judge's rate; one draw alone is off."""
    verdicts, true_q = simulated(np.random.default_rng(4))
    here, unsure = verdicts.sets == SETS[0], np.flatnonzero(verdicts.unsure())
    truth, dice, means = rates(verdicts, true_q), np.random.default_rng(5), []
    for _ in range(300):
        sample = dice.permutation(unsure)[: len(unsure) // 4]
        numbers = shares.arbitrated(verdicts, {int(key): float(true_q[key]) for key in sample})
        means.append([numbers[arm][:, here].mean() for arm in truth])
    error = np.std(means, axis=0) / np.sqrt(len(means))
    assert (np.abs(np.mean(means, axis=0) - list(truth.values())) < 4 * error).all()
    assert (np.std(means, axis=0) > 0).all()


def test_without_a_deeper_judge_there_is_one_line() -> None:
    verdicts, _ = simulated(np.random.default_rng(6), 400)
    with pytest.raises(ValueRepairError, match="has seen none"):
        shares.arbitrated(verdicts, {})


def test_the_table_compares_arms_by_both_judges(tmp_path: Path) -> None:
    dice = np.random.default_rng(7)
    verdicts, true_q = simulated(dice)
    arms = {arm: verdicts.expected[SAMPLED] + dice.normal(0, 0.01, verdicts.expected[SAMPLED].shape) for arm in SHARES}
    arms[ORIGINAL] = verdicts.expected[ORIGINAL][:1]
    verdicts = replace(verdicts, expected=arms)
    found = shares.table(verdicts, dict(enumerate(true_q.tolist())), {arm: [0.5, 0.7] for arm in SHARES})
    judged = {("deeper", SETS[0], THRESHOLDS[0]), *(("first", *at) for at in product(SETS, THRESHOLDS))}
    assert set(zip(found["judge"], found["set"], found["threshold"], strict=True)) == judged
    assert len(found) == len(judged) * len(list(shares.pairs()))
    repaired = found[(found["arm"] == SAMPLED) & (found["against"] == ORIGINAL)]
    assert (repaired["high"] < 0).all()
    alike = found[(found["arm"] == "20") & (found["against"] == SAMPLED)]
    assert (alike["low"] < 0).all()
    assert (alike["high"] > 0).all()
    tables.write_table(found, tmp_path / "shares.csv")
    lines, compared = page.shares(tmp_path), page.shares_compared(tmp_path)
    assert len(lines) == 2 + 1 + len(SHARES)
    assert lines[3].startswith("| `sampled` | 0.60 |")
    assert len(compared) == 2 + sum(1 for _, other in shares.pairs() if other)
    change = repaired[repaired["judge"] == "deeper"]["value"].iloc[0]
    assert compared[2].startswith(f"| `sampled` | `original` | **{100 * change:.1f} (")
