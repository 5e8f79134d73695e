"""The stages of a repair: commands that `vr` understands, in their order; what the command line refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import click
import pytest

from tests.cli_tree import vr
from valuerepair.cli import cli
from valuerepair.engines.kinds import parse_spec
from valuerepair.measure.compare import FEWEST
from valuerepair.pipeline.settings import FEWEST_REJUDGED, HeldOutShares, Settings, Sizes, TrainSettings
from valuerepair.pipeline.stages import Stage, stages

SETTINGS = Settings(archives=("games.pgn.zst",), net="old.pb.gz", deep="stockfish:nodes=20000")
FOLDER = Path("out")
VARIANTS = {
    "stockfish": SETTINGS,
    "own search": replace(SETTINGS, deep="mcts:nodes=200", test_deep="mcts:nodes=2000", threshold=0.4, seed=3),
    "a control": replace(SETTINGS, control=True),
    "amplitude of held-out games": replace(SETTINGS, control=True, train=TrainSettings(amplitude=None)),
    "the value head": replace(SETTINGS, train=TrainSettings(only="value"), off_game=""),
    "no deeper judge": replace(SETTINGS, test_deep=""),
    "a store": replace(SETTINGS, archives=(), db="valuerepair.db", judge="0123456789ab", control=True),
    "a comma": replace(SETTINGS, net="old,er.pb.gz", match_nodes=50),
}


def by_name(settings: Settings) -> dict[str, Stage]:
    return {stage.name: stage for stage in stages(settings, FOLDER)}


def options(stage: Stage) -> dict[str, str]:
    """What follows each option of a command."""
    return dict(zip(stage.words, stage.words[1:], strict=False))


def parsed(words: Sequence[str]) -> click.Context:
    """The command line as click reads it."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    return command.make_context(words[0], list(words[1:]), help_option_names=["-h", "--help"])


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_every_command_is_understood(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed as on the command line; those that say which positions count, agree on it."""
    monkeypatch.chdir(tmp_path)
    FOLDER.mkdir()
    for stage in stages(settings, FOLDER):
        parsed(stage.words)
        chosen = options(stage)
        assert chosen.get("--threshold", f"{settings.threshold:g}") == f"{settings.threshold:g}"
        if stage.name != "split":
            assert chosen.get("--seed", str(settings.seed)) == str(settings.seed)
        if stage.words[0] == "train":
            assert f"threshold={settings.threshold:g}" in stage.words
        if stage.words[0] in ("mine", "books", "train"):
            assert chosen["--net"] == settings.net
        assert all(not Path(name).is_absolute() for name in stage.files)


def test_the_order_and_what_tells_the_control_from_the_repair() -> None:
    names = ["mine", "stats", "split", "books", "repaired", "games", "families", "rejudge", "scale-old", "match-old"]
    assert [*by_name(SETTINGS)] == names
    assert not any("control" in word for stage in stages(SETTINGS, FOLDER) for word in stage.words)
    found = by_name(replace(SETTINGS, control=True))
    assert [*found] == [
        "mine", "stats", "split", "books", "repaired", "control", "games", "games-control", "families",
        "families-control", "rejudge", "scale-old", "scale-control", "match-old", "match-control",
    ]  # fmt: skip
    repaired, control = found["repaired"].words, found["control"].words
    without = [word for word in control if word != "--control"]
    assert len(without) == len(control) - 1
    differ = [(a, b) for a, b in zip(repaired, without, strict=True) if a != b]
    assert differ == [("out/repaired.pb.gz", "out/control.pb.gz")]
    assert "amplitude=0.5" in repaired
    best = by_name(VARIANTS["amplitude of held-out games"])
    assert not any("amplitude" in word for name in ("repaired", "control") for word in best[name].words)
    assert {options(found[name])["--part"] for name in ("games", "games-control")} == {"games"}
    assert {options(found[name])["--part"] for name in ("families", "families-control")} == {"families"}


@pytest.mark.parametrize(("nodes", "few", "games"), [(100, 5, 900), (400, 20, 900), (7, 1, 40)])
def test_a_quick_match_of_fewer_nodes_tells_the_scale_of_each_match(nodes: int, few: int, games: int) -> None:
    found = by_name(replace(SETTINGS, control=True, sizes=Sizes(games=games), match_nodes=nodes))
    for name, opponent in (("old", "old.pb.gz"), ("control", "out/control.pb.gz")):
        quick, match = found[f"scale-{name}"], found[f"match-{name}"]
        assert quick.words[1:3] == (f"net=out/repaired.pb.gz,nodes={few}", f"net={opponent},nodes={few}")
        assert match.scaled_by == quick.output
        assert options(quick)["--games"] == str(min(games, 200))


def test_a_store_is_copied_and_nothing_is_mined() -> None:
    mined, of_store = (stages(VARIANTS[name], FOLDER) for name in ("a control", "a store"))
    assert [stage.name for stage in of_store] == ["copy", *(stage.name for stage in mined[1:])]
    assert of_store[0].words == ("merge", "valuerepair.db", "-o", "out/store.db")
    assert not any("valuerepair.db" in stage.words for stage in of_store[1:])


def test_the_split_has_a_seed_of_its_own() -> None:
    """So a second round, with another seed, holds out the games of the first."""
    settings = replace(SETTINGS, seed=5)
    seeds = {stage.name: options(stage)["--seed"] for stage in stages(settings, FOLDER) if "--seed" in stage.words}
    assert seeds == {"mine": "5", "split": "0", "repaired": "5", "scale-old": "5", "match-old": "5"}
    assert options(by_name(replace(SETTINGS, split=HeldOutShares(seed=3)))["split"])["--seed"] == "3"


def test_the_judge_and_alpha_are_put_in_use_before_anything_reads_their_values() -> None:
    for settings, used in (
        (SETTINGS, ["alpha=170"]),
        (replace(VARIANTS["a store"], alpha=113.0), ["judge=0123456789ab", "alpha=113"]),
        (VARIANTS["own search"], []),
    ):
        second = stages(settings, FOLDER)[1]
        assert second.name == "stats"
        assert [after for word, after in pairwise(second.words) if word == "--use"] == used


def test_positions_are_mined_beside_the_games_and_learned() -> None:
    found = by_name(SETTINGS)
    assert options(found["mine"])["--off-game"] == "0.5"
    assert options(found["repaired"])["--policy"] == "judge:0.3"
    head = by_name(VARIANTS["the value head"])
    assert "--off-game" not in head["mine"].words
    assert "--policy" not in head["repaired"].words


def test_the_deeper_judge_is_asked_about_what_is_held_out_alone() -> None:
    (stage,) = (stage for stage in stages(SETTINGS, FOLDER) if "stockfish:nodes=1000000" in stage.words)
    chosen = options(stage)
    assert "--part" not in chosen  # all that is held out
    assert (chosen["--deep"], chosen["--sample"]) == (SETTINGS.test_deep, "1300")
    assert FEWEST_REJUDGED == FEWEST
    assert "rejudge" not in by_name(replace(SETTINGS, sizes=Sizes.of(2000)))
    own = by_name(replace(VARIANTS["own search"], net="a,b.pb.gz"))["rejudge"]  # with the net that mined
    assert parse_spec(options(own)["--deep"]).weights == "a,b.pb.gz"


def test_sizes_are_in_proportion_to_the_positions() -> None:
    """Those of the hour on two cores: 50,000 positions, 1,200 steps, 1,300 judged again, 660 games."""
    assert Sizes() == Sizes.of(50_000) == Sizes(positions=50_000, steps=1200, rejudge=1300, games=660)
    assert Sizes.of(300_000) == Sizes(positions=300_000, steps=7200, rejudge=7800, games=3960)
    assert Sizes.of(1) == Sizes(positions=1, steps=1, rejudge=0, games=2)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("", 2, "repair: there is no repair to resume"),
        ("missing.pgn", 2, "missing.pgn: no such file or folder"),
        ("games.pgn --db games.db", 2, "give archives or a store, not both"),
        ("--db missing.db", 1, "missing.db"),
        ("games.pgn --positions 0", 2, "--positions 0: must be at least 1"),
        ("games.pgn --deep stockfish:depth=8", 2, "number of nodes"),
        ("games.pgn --net missing.pb.gz", 1, "missing.pb.gz"),
        ("games.pgn --deep stockfish:nodes=10,path=/nowhere", 1, "/nowhere: no such engine"),
        ("games.pgn -o games.pgn", 2, "games.pgn is a file, not a folder"),
        ("-", 2, "-: give a file or folder"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_no_folder(
    words: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    Path("games.pgn").write_text("1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. Bb3 d6 8. c3 *\n")
    status, out, err = vr(["repair", *words.split(), "-q"], capfd)
    assert (status, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.rglob("*")} == {"games.pgn"}
