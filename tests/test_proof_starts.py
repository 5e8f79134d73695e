"""Start positions: the steps are commands, and every arm learns from as many positions as the others."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.proof import games, page, starts, tables
from benchmarks.proof.arms import NET, Step
from benchmarks.proof.starts import SHARES, Starts
from tests.cli_tree import parse
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError

GAMES = "starts-ordinary.pgn"


@pytest.fixture
def there(tmp_path: Path) -> Starts:
    """All that commands want to find."""
    (tmp_path / "data" / "pgn").mkdir(parents=True)
    (tmp_path / "data" / "pgn" / "otb-masters.pgn.zst").touch()
    found = Starts(tmp_path / "data", tmp_path / "out", 0.5)
    (found.out / "nets").mkdir(parents=True)
    for name in ("starts.db", "starts-ordinary.db", "starts-games.db"):
        (found.out / name).touch()
    return found


def steps(there: Starts) -> dict[str, Step]:
    return {step.name: step for phase in there.phases(there.out) for step in phase}


def test_steps_are_commands(there: Starts) -> None:
    programs = {
        "valuerepair": cli, "benchmarks.proof.games": games.command, "benchmarks.proof.starts": starts.command
    }  # fmt: skip
    for step in steps(there).values():
        parse(list(step.command), programs[step.program])


def test_arms_differ_in_what_is_drawn_alone_and_are_judged_against_ordinary_positions(there: Starts) -> None:
    found = steps(there)
    trained = [list(found[f"starts-{share}.pb.gz"].command) for share in SHARES]
    for words, share in zip(trained, SHARES, strict=True):
        at = words.index("--draw") + 1
        assert words[at] == str(there.out / f"starts-{share}.parquet")
        words[at] = words[words.index("-o") + 1] = ""
    assert all(words == trained[0] for words in trained)
    for name in ("ordinary", "starts"):
        words = list(found[f"judge-{name}"].command)
        nets = [words[i + 1] for i, word in enumerate(words) if word == "--net"]
        assert nets == [*(str(there.net(share)) for share in SHARES), NET]


def test_no_game_is_learned_from_and_judged_by(there: Starts) -> None:
    """Games from start positions count as those that they begin in."""
    of = {name: list(step.command) for name, step in steps(there).items()}
    assert of["mine-starts-ordinary"][1].endswith("train.pgn")
    assert of["mine-starts-held-out"][1].endswith("test.pgn")
    assert of["mine-ordinary-test"][1].endswith("test.pgn")
    for name, games_of in (("starts-ordinary", "starts-games"), ("starts-held-out", "starts-test")):
        assert of[f"book-{name}"][2].endswith(f"{name}.db")
        assert of[f"play-{name}"][-1] == of[f"mine-{games_of}"][1]
        seeds = [words[words.index("--seed") + 1] for words in (of[f"mine-{name}"], of[f"mine-{games_of}"])]
        assert len(set(seeds)) == 2
    assert of["merge"][2:4] == [str(there.out / f"starts-{name}.db") for name in ("ordinary", "games")]


def test_every_share_has_as_many_positions(there: Starts) -> None:
    rows = pd.DataFrame(
        {"position_id": range(1000, 1270), "source": ["a/train.pgn"] * 200 + [f"b/{GAMES}"] * 70}
    )  # fmt: skip
    drawn = {share: set(starts.draw(rows, share, GAMES)["position_id"]) for share in SHARES}
    assert all(len(ids) == 200 for ids in drawn.values())
    of_games = {share: {i for i in ids if i >= 1200} for share, ids in drawn.items()}
    assert [len(of_games[share]) for share in SHARES] == [2 * share for share in SHARES]
    assert of_games[3] < of_games[10] < of_games[30]
    assert drawn[30] - of_games[30] < drawn[10] - of_games[10] < drawn[0]
    with pytest.raises(ValueRepairError, match="50 %: 100 positions are needed, and there are 70"):
        starts.draw(rows, 50, GAMES)


def test_tables_are_what_remeasure_said(there: Starts, shared_data: Path) -> None:
    change = {"difference": -0.1, "low": -0.2, "high": 0.0}
    row = {
        "kind": "game", "positions": 7, "squared_error": [0.2, 0.1], "change": change,
        "candidates": [{"threshold": 0.55, "change": change}],
    }  # fmt: skip
    lost = {"kind": "game", "positions": 5, "judged": 3, "regret": [0.02, 0.01], "change": change}
    for share in SHARES:
        there.net(share).write_bytes((shared_data / "nets" / "maia-1100.pb.gz").read_bytes())
    for name in ("ordinary", "starts"):
        there.judged(name).write_text(
            json.dumps({"comparisons": [{"by_kind": [row], "regret": {"rows": [lost]}}] * len(SHARES)})
        )
    table = starts.kinds(there.out)
    assert list(table["net"]) == 2 * [*(f"starts-{share}" for share in SHARES[1:]), NET]
    assert list(table["test"]) == ["ordinary"] * 4 + ["starts"] * 4
    assert (table["low_0.55"] == -0.2).all()
    regret = starts.regrets(there.out)
    assert list(regret["net"]) == list(table["net"])
    assert (regret["new"] == 0.01).all()
    tables.write_table(
        table.assign(**{f"{name}_0.3": 0.5 for name in ("change", "low", "high")}), there.out / "starts-kinds.csv"
    )
    assert page.starts_kinds(there.out)[2] == (
        "| `starts-3` | ordinary | in games | 7 | 0.2000, 0.1000 | -0.1000 (-0.2000 to +0.0000) "
        "| **+50.00 (+50.00 to +50.00)** | -10.00 (-20.00 to +0.00) |"
    )
