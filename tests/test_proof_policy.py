"""`python -m benchmarks.proof policy`: its commands, which net it chooses, and the tables of its page."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.proof import games, page, player, policy
from benchmarks.proof.arms import Step
from benchmarks.proof.policy import ARMS, HOUR, PolicyTargets, chosen
from tests.cli_tree import parse
from valuerepair.cli import cli


@pytest.fixture
def targets(tmp_path: Path) -> PolicyTargets:
    """All that commands want to find."""
    (tmp_path / "data" / "pgn").mkdir(parents=True)
    (tmp_path / "data" / "pgn" / "otb-masters.pgn.zst").touch()
    (tmp_path / "out" / "nets").mkdir(parents=True)
    for name in ("openings-level.db", "policy.db"):
        (tmp_path / "out" / name).touch()
    return PolicyTargets(player.Player(tmp_path / "data", tmp_path / "out", 0.5))


def steps(targets: PolicyTargets) -> dict[str, Step]:
    return {step.name: step for phase in targets.phases(targets.player.out) for step in phase}


def curves(judge_move: dict[str, float], worse: dict[str, float]) -> pd.DataFrame:
    rows = [
        {"net": name, "sha256": "ab" * 32, "policy": ARMS[name][0], "lr": ARMS[name][1], "step": 680, "lambda": 0.9}
        | {"judge_move": judge_move[name], "policy_kl": 0.1, "squared_game": 0.06, "squared_aside": 0.08 * worse[name]}
        for name in ARMS
    ]
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


MORE = dict(zip(ARMS, (0.44, 0.46, 0.48, 0.50), strict=True))


def test_arms_differ_in_policy_and_learning_rate_alone(targets: PolicyTargets) -> None:
    trained = {name: list(steps(targets)[f"{name}.pb.gz"].command) for name in ARMS}
    for name, words in trained.items():
        changed = {
            words[at - 1]: words[at]
            for at, (one, other) in enumerate(zip(trained[HOUR], words, strict=True))
            if one != other
        }
        target, rate = ARMS[name]
        expected = {"-o": str(targets.player.net(name)), "--policy": target, "--lr": f"{rate:g}"}
        assert changed.items() <= expected.items(), name
        assert words[words.index("--steps") + 1] == "340"


def test_the_best_mover_among_good_judges_plays_both(targets: PolicyTargets, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(name.startswith("match-") for name in steps(targets))
    monkeypatch.setattr(policy, "curves", lambda _: curves(MORE, dict.fromkeys(ARMS, 1.0) | {"moves-10": 1.06}))
    pair = {"q_scale": {"value": 0.8}}
    scales = [{"q_scale": {"value": s}} for s in (0.7, 0.75, 0.6, 1.25)]
    targets.player.judged("policy").write_text(json.dumps({"comparisons": scales}))
    targets.player.judged("moves-3").write_text(json.dumps({"comparisons": [pair]}))
    made = steps(targets)
    sides = {name: list(step.command)[1:3] for name, step in made.items() if name.startswith("match-")}
    of = {name: f"net={targets.player.net(name)},nodes=100,q_scale=" for name in ARMS}
    assert sides == {
        f"match-moves-3-{HOUR}": [f"{of['moves-3']}0.800", f"{of[HOUR]}1.000"],
        "match-moves-3": [f"{of['moves-3']}0.600", "net=maia-1900,nodes=100,q_scale=1.000"],
        f"match-{HOUR}": [f"{of[HOUR]}0.700", "net=maia-1900,nodes=100,q_scale=1.000"],
    }
    programs = {
        "valuerepair": cli, "benchmarks.proof.games": games.command, "benchmarks.proof.player": player.command,
        "benchmarks.proof.policy": policy.command,
    }  # fmt: skip
    for step in made.values():
        parse(list(step.command), programs[step.program])


@pytest.mark.parametrize(
    ("judge_move", "worse", "best"),
    [
        (MORE, {}, "moves-10"),
        (MORE, {"moves-10": 1.2, "moves-3": 1.051, "moves-1": 1.05}, "moves-1"),
        (MORE, {"moves-10": 1.2, "moves-3": 1.2, "moves-1": 1.2}, HOUR),
        (MORE | {HOUR: 0.6}, {}, HOUR),
    ],
)
def test_choice(judge_move: dict[str, float], worse: dict[str, float], best: str) -> None:
    assert chosen(curves(judge_move, dict.fromkeys(ARMS, 1.0) | worse)) == best


def test_table(tmp_path: Path) -> None:
    curves(MORE, dict.fromkeys(ARMS, 1.0)).to_csv(tmp_path / "policy-nets.csv", index=False)
    head, _, *rows = page.policy_nets(tmp_path)
    assert head.endswith("| first move the judge's | KL | error in games | error after a random legal move |")
    assert rows[1] == (
        "| `moves-1` | `abababababab` | `judge:1` | 0.0001 | 680 | 0.90 | 46.0 % | 0.100 | 0.0600 | 0.0800 |"
    )
