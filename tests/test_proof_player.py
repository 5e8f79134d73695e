"""A better judge and player: the steps are commands, their results say what comes next, and become tables."""

from __future__ import annotations

import csv
import itertools
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import valuerepair as vr
from benchmarks.proof import first_moves, games, page, player
from benchmarks.proof.another import Another
from benchmarks.proof.arms import Step
from benchmarks.proof.lines import OPENING_PLIES, write_level
from benchmarks.proof.player import (
    CHOSEN,
    DEEPER,
    FLATTER,
    HALF,
    HOUR_POSITIONS,
    HOUR_STEPS,
    MATCHES,
    MIXTURES,
    OWN,
    PLAYER,
    RECIPE,
    REPEATED,
    SCALE_GAMES,
    SHIFTED,
    SURPRISE,
    WHOLE,
    Player,
)  # fmt: skip
from benchmarks.proof.policy import PolicyTargets
from tests.cli_tree import SAMPLE, parse
from tests.test_pipeline_plan import MEASURED, SETTINGS
from valuerepair.archives.aside import parse_shares
from valuerepair.cli import cli
from valuerepair.judge.by_kind import rows_by_kind
from valuerepair.nets.net import open_net
from valuerepair.nets.registry import locate
from valuerepair.pipeline.plan import plan
from valuerepair.pipeline.settings import ASIDE, STOCKFISH_NODES, Sizes, TrainSettings
from valuerepair.play.openings import read_openings
from valuerepair.question import Question
from valuerepair.store.store import Store

TABLE = [(0.2, "a"), (0.3, "b"), (0.4, "c"), (0.62, "d"), (0.55, "e"), (0.3, "f")]


@pytest.fixture
def there(tmp_path: Path) -> Player:
    """All that commands want to find."""
    (tmp_path / "data" / "pgn").mkdir(parents=True)
    (tmp_path / "data" / "pgn" / "otb-masters.pgn.zst").touch()
    player_folders = Player(tmp_path / "data", tmp_path / "out", 0.5)
    (player_folders.out / "nets").mkdir(parents=True)
    for name in ("openings-level.db", f"{PLAYER}.db"):
        (player_folders.out / name).touch()
    return player_folders


def said(scales: list[float]) -> str:
    return json.dumps({"comparisons": [{"q_scale": {"value": scale}} for scale in scales]})


def write_tried(there: Player, net: str, side: str, points: list[tuple[float, str]]) -> None:
    """What `vr experiment match` says of the settings of one side."""
    folder = there.out / f"tried-{net}-{side}"
    folder.mkdir()
    with open(folder / "table.csv", "w", newline="") as file:
        csv.writer(file).writerows([("points", "setting"), *points])


def steps(there: Player) -> list[Step]:
    phases = (
        *there.mixing(there.out), *there.playing(there.out), *there.flattened(there.out),
    )  # fmt: skip
    return [step for phase in phases for step in phase]


def test_steps_follow_from_what_was_found(there: Player) -> None:
    first = {step.name for step in steps(there)}
    assert not any(name.startswith("match-") for name in first)
    there.judged("mixture").write_text(said([0.9, 0.8, 0.7]))
    there.judged(PLAYER).write_text(said([0.6]))
    write_tried(there, PLAYER, "old", TABLE)
    write_tried(there, PLAYER, "new", [(points - 0.2, name) for points, name in TABLE])
    commands = {step.name: list(step.command) for step in steps(there)}
    assert commands["match-mixture-half-100"][1].endswith("mixture-half.pb.gz,nodes=100,q_scale=0.800")
    for nodes in MATCHES:
        assert commands[f"match-{PLAYER}-{nodes}"][1:3] == [
            f"net={there.net(PLAYER)},nodes={nodes},q_scale=0.600",
            f"net=maia-1900,nodes={nodes},q_scale=1.000",
        ]
    narrow = ",cpuct=1.047,fpu_value=0.198"  # lc0's defaults, 1.745 and 0.33, times 0.6
    for name, of_new in (("narrow", ""), ("both-narrow", narrow)):
        assert commands[f"match-{PLAYER}-{name}"][1:3] == [
            f"net={there.net(PLAYER)},nodes=100{of_new}", f"net=maia-1900,nodes=100{narrow}"
        ]  # fmt: skip
    new, old = commands[f"match-{PLAYER}-best"][1:3]
    assert (new.split(",")[2:], old.split(",")[2:]) == ([], ["cpuct=0.87", "fpu_value=0.17"])
    programs = {
        "valuerepair": cli, "benchmarks.proof.games": games.command, "benchmarks.proof.player": player.command
    }  # fmt: skip
    for step in steps(there):
        parse(list(step.command), programs[step.program])


def test_each_net_plays_by_its_own_best_settings(there: Player) -> None:
    write_tried(there, REPEATED, "old", TABLE[:5])
    write_tried(there, REPEATED, "new", [(0.51, "a"), (0.5, "b"), (0.3, "c"), (0.4, "d"), (0.2, "e")])
    commands = {step.name: list(step.command) for phase in there.settled(there.out) for step in phase}
    tried = [commands[f"tried-{REPEATED}-{side}"] for side in ("old", "new")]
    assert [words[words.index("--net") + 1] for words in tried] == ["maia-1900", str(there.net(REPEATED))]
    assert commands[f"match-{REPEATED}-best"][1:3] == [
        f"net={there.net(REPEATED)},nodes=100,{tried[1][2]}", f"net=maia-1900,nodes=100,{tried[0][5]}"
    ]  # fmt: skip


def test_both_nets_play_by_a_narrow_one_of_these_settings(there: Player) -> None:
    tried = next(step for phase in there.settled(there.out) for step in phase)
    commands = {step.name: list(step.command) for phase in there.narrowed(there.out) for step in phase}
    narrow = list(tried.command)[4]
    assert narrow == "cpuct=0.62,fpu_value=0.12"
    sides = [side.partition(",nodes=100,")[2] for side in commands[f"match-{REPEATED}-100-narrowest"][1:3]]
    assert sides == [narrow] * 2
    (there.out / f"match-{REPEATED}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.8}}))
    commands = {step.name: list(step.command) for phase in there.narrowed(there.out) for step in phase}
    sides = [side.partition(",nodes=100,")[2] for side in commands[f"match-{REPEATED}-100-played-narrowest"][1:3]]
    assert sides == [f"q_scale=0.800,{narrow}", f"q_scale=1.000,{narrow}"]


def test_a_shifted_net_plays_as_the_net_that_it_was(there: Player) -> None:
    def commands() -> dict[str, list[str]]:
        return {step.name: list(step.command) for phase in there.shifting(there.out) for step in phase}

    shift = commands()["shifted.pb.gz"]
    there.net(REPEATED).touch()
    parse(shift, player.command)
    assert (shift[1], shift[-1]) == (str(there.net(REPEATED)), str(there.net(SHIFTED)))
    (there.out / f"match-{REPEATED}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.8}}))
    (there.out / f"match-{REPEATED}-100-narrowest.pgn").write_text("")
    shifted = commands()[f"match-{REPEATED}-100-played-shifted"]
    plain = {step.name: list(step.command) for phase in there.narrowed(there.out) for step in phase}
    assert [side.replace("shifted.pb.gz", "repeated.pb.gz") for side in shifted[1:3]] == plain[
        f"match-{REPEATED}-100-played-narrowest"
    ][1:3]
    parse(commands()["first-moves"], first_moves.command)


def test_half_of_the_change_is_judged_and_plays(there: Player) -> None:
    def commands() -> dict[str, list[str]]:
        return {step.name: list(step.command) for phase in there.halving(there.out) for step in phase}

    parse(commands()["half.pb.gz"], player.command)
    first = commands()
    for name in ("mine-half-test", "judge-half", f"match-{HALF}-scale"):
        parse(first[name], cli)
    assert first["judge-half"].count("--net") == 4
    (there.out / f"match-{HALF}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.9}}))
    for name, settings in ((f"{HALF}-100-played-narrowest", ",cpuct=0.62,fpu_value=0.12"), (f"{HALF}-100-played", "")):
        new, old = commands()[f"match-{name}"][1:3]
        assert (new, old) == (
            f"net={there.net(HALF)},nodes=100,q_scale=0.900{settings}",
            f"net=maia-1900,nodes=100,q_scale=1.000{settings}",
        )


def test_the_recipe_is_readmes_hour_and_plays_as_half_of_the_change(there: Player) -> None:
    """The command is that of README's first screen but for folders; the matches are those of `half` but for the net."""

    def commands(phases: Iterator[Iterable[Step]]) -> dict[str, list[str]]:
        return {step.name: list(step.command) for phase in phases for step in phase}

    repair = commands(there.recipe(there.out))[RECIPE]
    parse(repair, cli)
    repair[-1] = "repair"
    root = Path(__file__).parents[1]
    assert "vr " + " ".join(repair).replace(f"{root}/", "") in (root / "README.md").read_text("utf-8")
    for name in (RECIPE, HALF):
        (there.out / f"match-{name}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.9}}))
    for ending in ("-narrowest", ""):
        played = commands(there.recipe(there.out))[f"match-{RECIPE}-100-played{ending}"]
        model = commands(there.halving(there.out))[f"match-{HALF}-100-played{ending}"]
        assert played[1].replace(str(there.net(RECIPE)), str(there.net(HALF))) == model[1]
        assert played[2:6] == model[2:6]


def commands_of(phases: Iterable[Iterable[Step]]) -> dict[str, list[str]]:
    return {step.name: list(step.command) for phase in phases for step in phase}


@pytest.fixture
def another(there: Player) -> Another:
    folders = Another(there.data, there.out)
    folders.original.parent.mkdir()
    folders.original.touch()
    return folders


def test_another_net_is_made_by_the_defaults_and_judged_on_other_games_where_these_are(another: Another) -> None:
    def commands() -> dict[str, list[str]]:
        return commands_of(another.first_round(another.out))

    old, new = str(another.original), str(another.net("another"))
    archive = str(another.data / "pgn/otb-masters.pgn.zst")
    assert commands() == {"another": ["repair", archive, "--net", old, "-o", str(another.folder("another"))]}
    parse(commands()["another"], cli)
    another.folder("another").mkdir()
    (another.folder("another") / "scale-old.json").write_text(json.dumps({"q_scale": {"value": 0.844}}))
    made = commands()
    assert list(made) == ["another", "match-another-narrowest", "another-tables"]
    assert made["match-another-narrowest"][1:3] == [
        f"net={new},nodes=100,q_scale=0.844,cpuct=0.62,fpu_value=0.12",
        f"net={old},nodes=100,q_scale=1.000,cpuct=0.62,fpu_value=0.12",
    ]
    parse(made["match-another-narrowest"], cli)
    (another.out / RECIPE).mkdir()
    (another.out / RECIPE / "store.db").touch()
    judging = commands()["another-others"]
    assert judging[:3] == ["remeasure", "--db", str(another.out / RECIPE / "store.db")]
    assert options_of(judging)["--net"] == new


def test_a_second_round_begins_at_the_net_of_the_first_and_ends_against_the_original(another: Another) -> None:
    def commands() -> dict[str, list[str]]:
        return commands_of(another.second_round(another.out))

    first, second = another.net("another"), another.net("again")
    another.folder("another").mkdir()
    first.touch()
    options = options_of(commands()["again"])
    assert options == {"--net": str(first), "-o": str(another.folder("again"))}
    parse(commands()["again"], cli)
    assert list(commands()) == ["again", "match-again-scale"]
    another.quick.write_text(json.dumps({"q_scale": {"value": 0.8}}))
    made = commands()
    assert made["match-again-original"][1:3] == [
        f"net={second},nodes=100,q_scale=0.800", f"net={another.original},nodes=100,q_scale=1.000"
    ]  # fmt: skip
    for match in ("match-again-scale", "match-again-original"):
        parse(made[match], cli)
    (another.out / RECIPE).mkdir()
    (another.out / RECIPE / "store.db").touch()
    judging = commands()["again-others"]
    assert [net for option, net in itertools.pairwise(judging) if option == "--net"] == [str(first), str(second)]


def test_surprise_is_the_training_of_the_recipe_but_for_what_is_drawn(there: Player) -> None:
    drawn, whole = (
        options_of(commands_of(phases)[f"{name}.pb.gz"])
        for name, phases in ((SURPRISE, there.surprised(there.out)), (WHOLE, there.whole(there.out)))
    )
    weights = str(there.out / "surprise.parquet")
    assert drawn == whole | {"amplitude": "0.5", "--draw": weights, "-o": str(there.net(SURPRISE))}
    (there.out / f"match-{SURPRISE}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.9}}))
    for ending in ("-narrowest", ""):
        new, old = commands_of(there.surprised(there.out))[f"match-{SURPRISE}-100-played{ending}"][1:3]
        assert new.startswith(f"net={there.net(SURPRISE)},")
        assert old.startswith(f"net={there.net(RECIPE)},")


def test_the_whole_change_is_of_the_training_of_the_recipe(there: Player) -> None:
    """But for lambda: the options of the stage of `vr repair` are given, or are the defaults of `vr train`."""

    def commands() -> dict[str, list[str]]:
        return {step.name: list(step.command) for phase in there.whole(there.out) for step in phase}

    sizes = Sizes(positions=HOUR_POSITIONS, steps=HOUR_STEPS, rejudge=0, games=100)
    settings = replace(SETTINGS, net="maia-1900", sizes=sizes, train=TrainSettings(amplitude=None))
    (stage,) = (stage for stage in plan(settings, MEASURED, there.out / RECIPE).stages if stage.name == "repaired")
    parse(commands()[f"{WHOLE}.pb.gz"], cli)
    given = commands()[f"{WHOLE}.pb.gz"]
    usual = {"--only": "all", "--lr": "0.0001", "--seed": "0", "batch": "256", "warmup": "100"}
    assert options_of(given) | usual == options_of(stage.words) | {"-o": str(there.net(WHOLE))}
    (there.out / f"match-{WHOLE}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.9}}))
    for ending, settings_of_both in (("-narrowest", ",cpuct=0.62,fpu_value=0.12"), ("", "")):
        assert commands()[f"match-{WHOLE}-100-played{ending}"][1:3] == [
            f"net={there.net(RECIPE)},nodes=100,q_scale=0.900{settings_of_both}",
            f"net={there.net(WHOLE)},nodes=100,q_scale=1.000{settings_of_both}",
        ]


def options_of(words: Sequence[str]) -> dict[str, str]:
    """The values of the options of `vr train`; those of --set by their names."""
    pairs = dict[str, str]()
    for option, value in itertools.pairwise(words):
        if option == "--set":
            name, _, value = value.partition("=")
            pairs[name] = value
        elif option.startswith("-"):
            pairs[option] = value
    return pairs


def test_a_net_between_two_has_the_mean_of_their_parameters(tmp_path: Path) -> None:
    """Here of a net and its shifted copy: half of the shift."""
    pytest.importorskip("jax", reason="pip install 'valuerepair[train]'")
    maia, shifted, half = str(locate("maia-1900")), str(tmp_path / "shifted.pb.gz"), str(tmp_path / "half.pb.gz")
    for words in (["shift", maia, "--by", "0.2"], ["between", maia, shifted, "--at", "0.5"]):
        output = shifted if words[0] == "shift" else half
        done = CliRunner().invoke(player.command, [*words, "-o", output], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    odds = []
    for net in (maia, shifted, half):
        (start,) = vr.evaluate_each([chess.Board()], net)
        assert start.wdl is not None
        odds.append(np.log(start.wdl[0] / start.wdl[2]))
    assert odds[2] == pytest.approx((odds[0] + odds[1]) / 2, abs=1e-3)


def test_a_shifted_net_has_the_logits_of_the_net_less_the_shift(tmp_path: Path) -> None:
    """As lc0's converter and ONNX Runtime evaluate both."""
    pytest.importorskip("jax", reason="pip install 'valuerepair[train]'")
    output = tmp_path / "shifted.pb.gz"
    maia = str(locate("maia-1900"))
    done = CliRunner().invoke(player.command, ["shift", maia, "--by", "0.1", "-o", str(output)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    positions = [chess.Board(), chess.Board("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1")]
    both = (vr.evaluate_each(positions, net) for net in (maia, str(output)))
    for before, after in zip(*both, strict=True):
        assert before.wdl is not None
        assert after.wdl is not None
        odds = np.log(before.wdl[0] / before.wdl[2]) - np.log(after.wdl[0] / after.wdl[2])
        assert odds == pytest.approx(0.2, abs=1e-3)
        assert after.top[0][2] == pytest.approx(before.top[0][2], abs=1e-6)


def test_what_settings_are_worth_is_read_of_all_tries(there: Player) -> None:
    folder = there.out / f"tried-{REPEATED}-new"
    folder.mkdir()
    cells = {
        "first": "cpuct=0.62 fpu_value=0.12", "games": 120, "wins": 39, "draws": 42, "losses": 39, "elo": 0.0,
        "elo_95_low": -50.0, "elo_95_high": 50.0, "effective_moves": 3.0, "effective_moves_second": 4.1,
    }  # fmt: skip
    pd.DataFrame([cells]).to_csv(folder / "table.csv")
    (row,) = player.tries(there.out).to_dict("records")
    assert (row["net"], row["side"], row["setting"]) == (REPEATED, "new", "cpuct=0.62,fpu_value=0.12")
    assert (row["low"], row["high"], row["moves"], row["default"]) == (-50.0, 50.0, 3.0, 4.1)


def test_no_game_is_learned_from_and_judged_by(there: Player) -> None:
    by = {
        name: {list(step.command)[1] for step in steps(there) if step.command[0] == "mine" and name in step.command[1]}
        for name in ("train.pgn", "test.pgn")
    }
    assert all(len(files) == 1 for files in by.values())
    for step in steps(there):
        if step.command[0] == "mine":
            learned = any(name in step.command[3] for name in (*MIXTURES, f"{PLAYER}.db"))
            assert ("train.pgn" in step.command[1]) == learned, step.name
    assert parse_shares(MIXTURES[CHOSEN]) == {"aside": 0.25, "search": 0.25}


def test_a_flatter_net_learns_what_the_first_one_learned_by_another_alpha(there: Player) -> None:
    there.judged(FLATTER).write_text(said([0.8]))
    of = {name: {step.name: list(step.command) for phase in phases for step in phase} for name, phases in (
        (PLAYER, there.playing(there.out)), (FLATTER, there.flattened(there.out)),
    )}  # fmt: skip
    learned, flatter = of[PLAYER][f"{PLAYER}.pb.gz"], of[FLATTER][f"{FLATTER}.pb.gz"]
    changed = {(one, other) for one, other in zip(learned, flatter, strict=True) if one != other}
    assert changed == {(str(there.net(PLAYER)), str(there.net(FLATTER))), ("113", "170")}
    judged = of[FLATTER][f"judge-{FLATTER}"]
    assert judged[judged.index("--alpha") + 1] == "113"
    assert of[FLATTER][f"match-{FLATTER}-100"][1] == f"net={there.net(FLATTER)},nodes=100,q_scale=0.800"


def test_a_deeper_net_learns_as_readmes_hour_has_it(there: Player) -> None:
    there.judged(DEEPER).write_text(said([0.8]))
    commands = {step.name: list(step.command) for phase in there.deepened(there.out) for step in phase}
    mined, trained = commands[f"mine-{DEEPER}"], commands[f"{DEEPER}.pb.gz"]
    assert mined[mined.index("--deep") + 1] == f"stockfish:nodes={STOCKFISH_NODES}"
    assert mined[mined.index("--aside") + 1] == ASIDE
    assert trained[trained.index("--alpha") + 1] == "170"
    assert commands[f"match-{DEEPER}-100"][1] == f"net={there.net(DEEPER)},nodes=100,q_scale=0.800"


def test_q_is_as_steep_in_the_positions_of_the_match(there: Player) -> None:
    """A quick match tells it, as that of `vr repair` does; what was judged says 0.8."""
    there.judged(DEEPER).write_text(said([0.8]))
    repair = {stage.name: stage for stage in plan(SETTINGS, MEASURED, there.out).stages}["scale-old"].words
    for quick, new, old in ((0.9, "0.900", "1.000"), (1.28, "1.000", "0.781")):
        (there.out / f"match-{DEEPER}-scale.json").write_text(json.dumps({"q_scale": {"value": quick}}))
        commands = {step.name: list(step.command) for phase in there.deepened(there.out) for step in phase}
        words = commands[f"match-{DEEPER}-scale"]
        assert [side.rpartition(",")[2] for side in words[1:3]] == [side.rpartition(",")[2] for side in repair[1:3]]
        assert repair[repair.index("--games") + 1] == str(SCALE_GAMES)
        for nodes in MATCHES:
            assert commands[f"match-{DEEPER}-{nodes}-played"][1:3] == [
                f"net={there.net(DEEPER)},nodes={nodes},q_scale={new}", f"net=maia-1900,nodes={nodes},q_scale={old}"
            ]  # fmt: skip


def test_a_net_of_own_games_differs_from_it_by_the_games(there: Player) -> None:
    for name in (DEEPER, OWN):
        (there.out / f"match-{name}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.8}}))

    def without(text: str) -> str:
        """A text with NET for the name of the net."""
        return re.sub(rf"\b({DEEPER}|{OWN})\b", "NET", text)

    deeper, own = (
        {without(step.name): [without(word) for word in step.command] for step in steps}
        for steps in (
            [step for phase in phases for step in phase]
            for phases in (there.deepened(there.out), there.of_own_games(there.out))
        )
    )
    played = {name: own.pop(name) for name in list(own) if name not in deeper}
    assert own.keys() == deeper.keys()
    assert [name for name in own if own[name] != deeper[name]] == ["mine-NET"]
    archives = {command[-1].replace("NET", OWN) for command in played.values()}
    assert archives == {str(there.out / "own-wild.pgn.zst"), str(there.out / "own.pgn.zst")}


def test_readmes_hour_is_repeated_for_a_match_of_more_nodes(there: Player) -> None:
    """The sizes and games are those of B7's `hour`; the match has Q as steep as the quick match says."""
    (there.out / f"match-{REPEATED}-scale.json").write_text(json.dumps({"q_scale": {"value": 0.8}}))
    whole = replace(there, scale=1.0)
    commands = {step.name: list(step.command) for phase in whole.repeated(there.out) for step in phase}
    hour = {step.name: list(step.command) for phase in PolicyTargets(whole).phases(there.out) for step in phase}
    mined, hours = commands[f"mine-{REPEATED}"], hour["mine-policy"]
    for option in ("--positions", "--deep", "--aside", "--screen"):
        assert mined[mined.index(option) + 1] == hours[hours.index(option) + 1]
    assert mined[1:3] == hours[1:3]
    assert all(Path(archive).is_file() for archive in mined[1:3])
    trained, hours = commands[f"{REPEATED}.pb.gz"], hour["hour.pb.gz"]
    for option in ("--steps", "--alpha", "--policy"):
        assert trained[trained.index(option) + 1] == hours[hours.index(option) + 1]
    played = commands[f"match-{REPEATED}-400-played"]
    assert played[1:3] == [
        f"net={there.net(REPEATED)},nodes=400,q_scale=0.800", "net=maia-1900,nodes=400,q_scale=1.000"
    ]  # fmt: skip


@pytest.mark.slow
def test_breadth_is_of_the_same_positions(there: Player, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A net that is the old one is searched as the old one; smaller settings, and a larger Q, search more narrowly."""
    monkeypatch.setattr(player, "_BREADTH_NODES", 16)
    there.judged(PLAYER).write_text(said([0.6]))
    there.net(PLAYER).write_bytes((shared_data / "nets" / "maia-1900.pb.gz").read_bytes())
    store = there.out / "player-test.db"
    store.write_bytes(SAMPLE.read_bytes())
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM deep_values WHERE position_id % 3")
    done = CliRunner().invoke(player.command, ["breadth", str(there.out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    old, old_narrow, new, flatter, new_narrow = player.breadths(there.out).to_dict("records")
    assert (old["change"], new["change"]) == (0, 0)
    assert new["moves"] == old["moves"]
    assert new_narrow["moves"] == old_narrow["moves"]
    assert old_narrow["high"] < 0 < flatter["low"]
    assert flatter["settings"] == "q_scale=0.600"
    assert old_narrow["settings"] == "cpuct=1.047,fpu_value=0.198"
    player.breadths(there.out).to_csv(there.out / "player-breadth.csv", index=False)
    shown = page.player_breadth(there.out)
    assert shown[2] == f"| old | default | {old['positions']} | {old['moves']:.2f} |  |"
    assert shown[5].startswith(f"| new | `q_scale=0.600` | {old['positions']} | {flatter['moves']:.2f} | **+")


def test_half_is_drawn_evenly_and_half_by_what_surprises_the_policy(maia_file: str) -> None:
    """Surprise is -ln of the prior that `vr eval` shows of the judge's move."""
    with Store.open(SAMPLE) as store:
        rows = store.frame(Question()).head(40)
    with open_net(maia_file) as net:
        surprise = player.surprise_of(net, rows)
        for one, best, position in zip(surprise, rows["deep_best"], vr.evaluate_each(rows, net, top=300), strict=True):
            priors = {move: prior for move, _, prior in position.top}
            assert one == pytest.approx(-np.log(priors[best]), abs=1e-4)
    weights = player.by_surprise(surprise)
    assert weights.mean() == pytest.approx(1)
    assert weights.min() >= 0.5
    assert np.corrcoef(weights, surprise)[0, 1] == pytest.approx(1)


def test_openings_are_level_and_early(tmp_path: Path) -> None:
    write_level(str(SAMPLE), Question(), tmp_path / "level.pgn")
    lines = read_openings(tmp_path / "level.pgn", strict=True)
    with Store.open(SAMPLE) as store:
        deep = store.frame(Question()).set_index("fen")["deep_q"]
    assert len(lines) > 10
    for line in lines:
        assert abs(deep[line.fen]) <= 0.3
        assert OPENING_PLIES[0] <= len(line.moves) <= OPENING_PLIES[1]


def test_tables_are_what_the_commands_said(there: Player, shared_data: Path) -> None:
    dice = np.random.default_rng(5)
    deep, game = dice.uniform(-1, 1, 600), np.repeat(np.arange(200), 3)
    net_q = (deep + dice.normal(0, 0.3, 600), deep + dice.normal(0, 0.1, 600))
    kind = np.where(np.arange(600) % 2, "game", "aside").astype(object)
    rows: list[dict[str, Any]] = [asdict(row) for row in rows_by_kind(net_q, deep, np.ones(600), game, kind)]
    regret = {"rows": [{"kind": "game", "positions": 9, "judged": 4, "regret": [0.2, 0.1],
                        "change": {"difference": -0.1, "low": -0.2, "high": 0.0}}]}  # fmt: skip
    pair = {"by_kind": rows, "q_scale": {"value": 0.7}, "regret": regret}
    there.judged(PLAYER).write_text(json.dumps({"comparisons": [pair], "rejudged": {"comparisons": [pair]}}))
    there.net(PLAYER).write_bytes((shared_data / "nets" / "maia-1100.pb.gz").read_bytes())
    about = {
        "output": "", "net": {"name": ""}, "options": {"steps": 9}, "positions": 1234, "written": {"step": 7},
        "amplitude": {"lambda": 0.93}, "curve": [{"step": 0, "train_loss": None}],
    }  # fmt: skip
    there.net(PLAYER).with_name(f"{PLAYER}.training.json").write_text(json.dumps(about))
    table = player.kinds(there.out)
    assert list(table["judge"]) == ["first"] * 2 + ["deeper"] * 2
    assert list(table["kind"]) == ["game", "aside"] * 2
    for cells, row in zip(table.to_dict("records"), rows + rows, strict=True):
        assert (cells["change"], cells["high"]) == (row["change"]["difference"], row["change"]["high"])
        assert cells["high"] < 0
        assert cells["low_0.55"] == row["candidates"][1]["change"]["low"]
        assert np.isnan(cells["old"]) == (cells["judge"] == "deeper")
    there.judged(HALF).write_text(json.dumps({"comparisons": [{"by_kind": rows}] * 3}))  # without regret
    assert player.regrets(there.out).to_dict("records")[0]["change"] == -0.1
    there.judged(HALF).unlink()
    there.judged(SURPRISE).write_text(json.dumps({"comparisons": [pair, pair]}))
    for name in (RECIPE, SURPRISE):
        there.net(name).parent.mkdir(exist_ok=True)
        there.net(name).write_bytes(there.net(PLAYER).read_bytes())
    assert list(player.regrets(there.out)["net"]) == [PLAYER, RECIPE, SURPRISE]
    assert list(player.kinds_together(there.out, SURPRISE)["net"]) == [RECIPE] * 2 + [SURPRISE] * 2
    assert set(player.kinds(there.out)["net"]) == {PLAYER}
    elo = [{"level": 0.9, "value": 1.0, "low": 0.0, "high": 2.0}, {"level": 0.95, "value": 1.0, "low": -1.0, "high": 3}]
    played = {"games": 4, "score": {"wins": 2, "draws": 1, "losses": 1}, "elo": elo, "effective_root_moves": [3.4, 3.5]}
    (there.out / "match-player-100.json").write_text(json.dumps(played))
    (there.out / f"match-{OWN}-scale.json").write_text("{}")  # a quick match, which is no row
    [match] = player.matches(there.out).to_dict("records")
    assert (match["match"], match["low"], match["high"], match["moves"]) == ("player-100", -1.0, 3, 3.4)
    done = CliRunner().invoke(player.command, ["tables", str(there.out), "-o", str(there.out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert page.player_nets(there.out)[2].endswith("| 1,234 | 7 | 0.93 |")
    assert page.player_matches(there.out)[2] == "| `player-100` | 4 | 2 | 1 | 1 | 3.40, 3.50 | +1.0 (-1.0 to +3.0) |"
    assert (
        page.player_regret(there.out)[2]
        == "| `player` | in games | 9 | 4 | 0.2000 | 0.1000 | -0.1000 (-0.2000 to +0.0000) |"
    )
    shown = page.player_kinds(there.out)
    assert len(shown) == 6
    first, deeper = shown[2], shown[4]
    change = rows[0]["change"]
    assert f"| {rows[0]['squared_error'][0]:.4f}, {rows[0]['squared_error'][1]:.4f} |" in first
    assert f"| **{change['difference']:+.4f} ({change['low']:+.4f} to {change['high']:+.4f})** |" in first
    assert "| `player` | deeper | in games | 300 |  | **" in deeper


def test_the_page_has_what_settings_are_worth_to_each_net(tmp_path: Path) -> None:
    columns = ["net", "side", "setting", "elo", "low", "high"]
    rows = [("repeated", "new", "a", 0, -1, 1), ("repeated", "old", "a", 9, 8, 10), ("repeated", "old", "b", 5, 4, 6)]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "player-tries.csv")
    assert page.player_tries(tmp_path)[2:] == ["| `a` | +0 (-1 to +1) | +9 (+8 to +10) |", "| `b` |  | +5 (+4 to +6) |"]
