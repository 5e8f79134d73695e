"""The plan of a repair: sizes by the budget and by what is measured, times, and commands that `vr` understands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cli_tree import TREE, vr
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.cli import cli
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.pipeline import rates as measuring
from valuerepair.pipeline.plan import Plan, Stage, plan
from valuerepair.pipeline.rates import FILE, Rates, rates
from valuerepair.pipeline.settings import FEWEST_REJUDGED, Mining, Playing, Settings, Sizes, TrainSettings, seconds_of
from valuerepair.runs.rejudge import FEWEST
from valuerepair.store.rows import DeepResult
from valuerepair.training.options import Only

# Two cores with maia-1900 and Stockfish at 20,000 nodes, as they were measured once.
MEASURED = Rates(
    positions=25_258, read=0.65, start=2.0, compile=9.0, searches=54.3, nodes=1_065_315, net=1528, train=502,
    judge=932, moves=33.4,
)  # fmt: skip
SETTINGS = Settings(archives=("games.pgn.zst",), net="old.pb.gz", deep="stockfish:nodes=20000")
FOLDER = Path("out")
DATA = Path(__file__).parents[1] / "data"
SPEED = st.floats(0.3, 30)
MACHINES = st.builds(
    lambda by, archive: replace(
        MEASURED,
        positions=archive,
        searches=MEASURED.searches * by[0],
        nodes=MEASURED.nodes * by[0],
        net=MEASURED.net * by[1],
        train=MEASURED.train * by[2],
        judge=MEASURED.judge * by[2],
        moves=MEASURED.moves * by[1],
    ),
    st.tuples(SPEED, SPEED, SPEED),
    st.integers(600, 10**9),
)


def by_name(planned: Plan) -> dict[str, Stage]:
    return {stage.name: stage for stage in planned.stages}


def options(stage: Stage) -> dict[str, str]:
    """What follows each option of a command."""
    return dict(zip(stage.words, stage.words[1:], strict=False))


def test_an_hour_on_two_cores_is_a_real_repair_of_nearly_an_hour() -> None:
    planned = plan(SETTINGS, MEASURED, FOLDER)
    sizes = planned.settings.sizes
    assert 0.8 * 3600 < planned.seconds <= 3600
    assert sizes.positions is not None
    assert sizes.positions >= 24_000
    assert sizes.steps is not None
    assert sizes.steps >= 200
    assert sizes.games is not None
    assert sizes.games >= 100


@pytest.mark.parametrize("only", ["all", "value"])
@given(machine=MACHINES, minutes=st.integers(20, 3000))
def test_the_budget_is_kept_with_normal_games(only: Only, machine: Rates, minutes: int) -> None:
    train = TrainSettings(share=0.05, only=only)
    try:
        planned = plan(replace(SETTINGS, normal=("chunks",), train=train, budget=f"{minutes}m"), machine, FOLDER)
    except UsageError:
        assume(False)
    assert planned.seconds <= 60 * minutes * 1.001


@pytest.mark.parametrize("only", ["all", "value"])
@given(machine=MACHINES, minutes=st.integers(20, 3000))
def test_the_budget_is_kept_and_sizes_are_what_its_stages_are_said_to_take(
    only: Only, machine: Rates, minutes: int
) -> None:
    settings = replace(SETTINGS, budget=f"{minutes}m", train=TrainSettings(only=only))
    try:
        planned = plan(settings, machine, FOLDER)
    except UsageError:
        assume(False)
    sizes = planned.settings.sizes
    assert planned.seconds <= 60 * minutes * 1.001
    assert sizes.positions is not None
    assert sizes.positions <= machine.positions
    # What the stages are said to take is what their sizes are at these rates, and little besides.
    stages = by_name(planned)
    assert sizes.games is not None
    assert sizes.games % 2 == 0
    games = sizes.games * 120 / machine.moves
    assert stages["match-old"].seconds == pytest.approx(games, abs=4 * machine.start)
    # An eighth of them is found by a search, whose half has 15 evaluations, and an eighth by the policy.
    evaluated = sizes.positions * (1 + 15 / 8 + 1 / 8)
    searched = sizes.positions / machine.searches + evaluated / machine.net
    assert stages["mine"].seconds == pytest.approx(searched, abs=2 * machine.start)
    assert sizes.steps is not None
    assert stages["repaired"].seconds >= sizes.steps * 256 / machine.train
    assert planned.seconds == pytest.approx(sum(stage.seconds for stage in planned.stages))


@given(machine=MACHINES, minutes=st.integers(30, 3000))
def test_a_larger_budget_has_no_less_of_anything(machine: Rates, minutes: int) -> None:
    try:
        small, large = (
            plan(replace(SETTINGS, budget=f"{time}m"), machine, FOLDER).settings.sizes
            for time in (minutes, 3 * minutes)
        )
    except UsageError:
        assume(False)
    for name in ("positions", "steps", "rejudge", "games"):
        assert getattr(large, name) >= getattr(small, name), name


@given(machine=MACHINES, sizes=st.sampled_from([Sizes(), Sizes(positions=500_000), Sizes(rejudge=10**5, games=300)]))
def test_what_is_said_to_be_the_least_is_enough(machine: Rates, sizes: Sizes) -> None:
    settings = replace(SETTINGS, sizes=sizes)
    with pytest.raises(UsageError, match="is too little") as error:
        plan(replace(settings, budget="10s"), machine, FOLDER)
    *hours, minutes, seconds = map(int, str(error.value).split("about ")[1].split(" ")[0].split(":"))
    least = 3600 * sum(hours) + 60 * minutes + seconds
    budget = round(1.1 * least)
    assert plan(replace(settings, budget=f"{budget}s"), machine, FOLDER).seconds <= budget


@pytest.mark.parametrize("name", ["positions", "steps", "rejudge", "games"])
def test_a_size_that_is_given_is_taken_and_the_others_fit_around_it(name: str) -> None:
    usual = plan(SETTINGS, MEASURED, FOLDER).settings.sizes
    half = getattr(usual, name) // 4 * 2
    planned = plan(replace(SETTINGS, sizes=Sizes(**{name: half})), MEASURED, FOLDER)
    assert getattr(planned.settings.sizes, name) == half
    assert planned.seconds <= 3600
    again = plan(planned.settings, MEASURED, FOLDER)
    assert again == planned


def test_sizes_that_stand_need_no_budget() -> None:
    sizes = Sizes(positions=10**6, steps=10**5, rejudge=0, games=10**4)
    planned = plan(replace(SETTINGS, sizes=sizes, budget="1m"), MEASURED, FOLDER)
    assert planned.settings.sizes == sizes
    assert planned.seconds > 10**4


# -- commands ---------------------------------------------------------------------------------------------------------

VARIANTS = {
    "stockfish": SETTINGS,
    "own search": replace(SETTINGS, deep="mcts:nodes=200", test_deep="mcts:nodes=2000", threshold=0.4, seed=3),
    "normal games": replace(SETTINGS, normal=("chunks", "more.tar"), train=TrainSettings(share=0.3), budget="4h"),
    "a control": replace(SETTINGS, control=True),
    "amplitude of held-out games": replace(SETTINGS, control=True, train=TrainSettings(amplitude=None)),
    "normal games and a control": replace(SETTINGS, normal=("chunks",), control=True, budget="4h"),
    "no deeper judge": replace(SETTINGS, test_deep=""),
    "a store": replace(SETTINGS, archives=(), store="valuerepair.db", oracle="0123456789ab", control=True),
    "a comma": replace(SETTINGS, net="old,er.pb.gz", play=Playing(match_nodes=50)),
}


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_every_command_is_understood(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed as on the command line; those that say which positions count, agree on it."""
    monkeypatch.chdir(tmp_path)
    FOLDER.mkdir()
    planned = plan(settings, MEASURED, FOLDER, cluster="tcp://host:8786")
    nets = set()
    for stage in planned.stages:
        words = [*stage.words, *stage.elsewhere]
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None
        context = command.make_context(words[0], words[1:], help_option_names=["-h", "--help"])
        if stage.name != "copy":
            assert {"alpha", "threshold", "seed", "db", "split"} & set(context.params), stage.name
        chosen = options(stage)
        assert chosen.get("--threshold", f"{settings.threshold:g}") == f"{settings.threshold:g}"
        assert chosen.get("--seed", str(settings.seed)) == str(settings.seed)
        if stage.name in ("mine", "split", "expand", "books", "games", "families-control", "rejudge") or (
            "--store" in stage.words
        ):
            assert chosen.get("--alpha") == (f"{settings.alpha:g}" if settings.by_centipawns else None)
        nets.add(chosen.get("--net"))
        # The file that gets the output is in the folder, and so is all that can be removed.
        assert not Path(stage.output).is_absolute()
    assert "old.pb.gz" in nets or "old,er.pb.gz" in nets


def test_the_order_and_what_tells_the_control_from_the_repair() -> None:
    planned = plan(SETTINGS, MEASURED, FOLDER)
    assert [stage.name for stage in planned.stages] == [
        "mine", "split", "books", "repaired", "games", "families", "rejudge", "scale-old",
        "match-old",
    ]  # fmt: skip
    assert not any("control" in word for stage in planned.stages for word in stage.words)
    planned = plan(replace(SETTINGS, control=True), MEASURED, FOLDER)
    assert [stage.name for stage in planned.stages] == [
        "mine", "split", "books", "repaired", "control",
        "games", "games-control", "families", "families-control", "rejudge", "scale-old", "scale-control", "match-old",
        "match-control",
    ]  # fmt: skip
    stages = by_name(planned)
    assert stages["repaired"].seconds == stages["control"].seconds
    repaired, control = stages["repaired"].words, stages["control"].words
    place = control.index("--share")
    without = control[:place] + control[place + 2 :]
    differ = [(a, b) for a, b in zip(repaired, without, strict=True) if a != b]
    assert differ == [("out/repaired.pb.gz", "out/control.pb.gz")]
    assert options(stages["control"])["--share"] == "0"
    assert "amplitude=0.5" in repaired
    best = by_name(plan(replace(SETTINGS, control=True, train=TrainSettings(amplitude=None)), MEASURED, FOLDER))
    assert not any("amplitude" in word for name in ("repaired", "control") for word in best[name].words)
    with_share = plan(replace(SETTINGS, control=True, train=TrainSettings(share=0.05)), MEASURED, FOLDER)
    assert options(by_name(with_share)["repaired"])["--share"] == "0.05"
    for name in ("books", "repaired", "control", "games", "families"):
        assert options(stages[name])["--split"] == "out/split.json"
    assert {options(stages[name])["--part"] for name in ("games", "games-control")} == {"games"}
    assert {options(stages[name])["--part"] for name in ("families", "families-control")} == {"families"}


@pytest.mark.parametrize(("nodes", "few", "games"), [(100, 5, 900), (400, 20, 900), (7, 1, 40)])
def test_a_quick_match_of_fewer_nodes_tells_the_scale_of_each_match(nodes: int, few: int, games: int) -> None:
    sizes, play = Sizes(games=games), Playing(match_nodes=nodes)
    settings = replace(SETTINGS, control=True, budget="9h", sizes=sizes, play=play)
    stages = by_name(plan(settings, MEASURED, FOLDER))
    for name, opponent in (("old", "old.pb.gz"), ("control", "out/control.pb.gz")):
        quick, match = stages[f"scale-{name}"], stages[f"match-{name}"]
        assert quick.words[1:3] == (f"net=out/repaired.pb.gz,nodes={few}", f"net={opponent},nodes={few}")
        assert match.scaled_by == quick.output
        assert options(quick)["--games"] == str(min(games, 200))
        searched = (match.seconds - 3 * MEASURED.start) / games * min(games, 200)
        assert quick.seconds - 3 * MEASURED.start == pytest.approx(max(0.07, few / nodes) * searched)


def test_a_store_is_copied_and_its_time_goes_to_the_other_stages() -> None:
    mined, of_store = (plan(VARIANTS[name], MEASURED, FOLDER) for name in ("a control", "a store"))
    assert [stage.name for stage in of_store.stages] == ["copy", *(stage.name for stage in mined.stages[1:])]
    assert of_store.stages[0].words == ("merge", "valuerepair.db", "-o", "out/store.db")
    assert not any("valuerepair.db" in stage.words for stage in of_store.stages[1:])
    assert of_store.settings.sizes.positions == MEASURED.positions
    assert of_store.seconds <= 3600
    assert (of_store.settings.sizes.games or 0) > (mined.settings.sizes.games or 0)


def test_a_split_may_have_a_seed_of_its_own() -> None:
    split = replace(SETTINGS.split, seed=3)
    stages = plan(replace(SETTINGS, seed=5, split=split), MEASURED, FOLDER).stages
    seeds = {stage.name: options(stage)["--seed"] for stage in stages if "--seed" in stage.words}
    assert seeds == {"mine": "5", "split": "3", "repaired": "5", "scale-old": "5", "match-old": "5"}


def test_all_stages_that_read_values_of_a_judge_name_the_same_one() -> None:
    """Those whose command takes one, in a store that several judges may have scored."""
    settings = replace(VARIANTS["a store"], budget="4h")
    for chosen in (settings, replace(settings, normal=("chunks",))):
        named = set()
        for stage in plan(chosen, MEASURED, FOLDER).stages:
            command = cli.get_command(click.Context(cli), stage.words[0])
            assert command is not None
            takes_one = "--oracle" in {name for option in command.params for name in option.opts}
            if takes_one and "out/store.db" in stage.words:
                assert options(stage)["--oracle"] == chosen.oracle, stage.name
                named.add(stage.name)
        assert {"split", "books", "games-control", "families-control", "rejudge"} < named
    assert not any("--oracle" in stage.words for stage in plan(SETTINGS, MEASURED, FOLDER).stages)


def test_with_normal_games_the_book_is_played_and_the_control_has_them_alone() -> None:
    planned = plan(replace(VARIANTS["normal games"], control=True), MEASURED, FOLDER)
    stages = by_name(planned)
    assert list(stages)[:7] == ["mine", "split", "expand", "books", "selfplay", "mix", "repaired"]
    assert stages["mix"].words.count("--normal") == 2
    assert options(stages["mix"])["--share"] == "0.3"
    assert stages["repaired"].words[1:2] == ("out/mixture",)
    assert stages["control"].words[1:3] == ("chunks", "more.tar")
    assert "--store" not in stages["repaired"].words + stages["control"].words


def test_without_a_control_there_is_more_of_the_rest() -> None:
    without, with_it = (
        plan(replace(SETTINGS, control=control), replace(MEASURED, positions=10**6), FOLDER).settings.sizes
        for control in (False, True)
    )
    for name in ("positions", "steps", "games"):
        assert getattr(without, name) > getattr(with_it, name), name


def test_positions_are_mined_beside_the_games_and_learned() -> None:
    stages = by_name(plan(SETTINGS, MEASURED, FOLDER))
    assert options(stages["mine"])["--off-game"] == "0.5"
    assert options(stages["repaired"])["--policy"] == "judge:0.3"
    alone = by_name(plan(replace(SETTINGS, mine=Mining(off_game="")), MEASURED, FOLDER))
    assert "--off-game" not in alone["mine"].words
    head = by_name(plan(replace(SETTINGS, train=TrainSettings(only="value")), MEASURED, FOLDER))
    assert "--policy" not in head["repaired"].words


def test_the_deeper_judge_is_asked_about_what_is_held_out_alone() -> None:
    (stage,) = (stage for stage in plan(SETTINGS, MEASURED, FOLDER).stages if "stockfish:nodes=1000000" in stage.words)
    chosen = options(stage)
    assert chosen["--split"] == "out/split.json"
    assert chosen["--rejudge"] == SETTINGS.test_deep
    assert stage.seconds == pytest.approx(int(chosen["--rejudge-positions"]) * 1e6 / MEASURED.nodes, rel=0.2)
    # Where there is no time for as many as it needs, nothing is judged again.
    assert FEWEST_REJUDGED == FEWEST
    small = plan(replace(SETTINGS, budget="10m"), MEASURED, FOLDER)
    assert small.settings.sizes.rejudge == 0
    assert "rejudge" not in by_name(small)
    assert small.limits[-1] == "no deeper judge: there is no time for one"
    without = plan(replace(SETTINGS, test_deep="", budget="10m"), MEASURED, FOLDER)
    assert not any("deeper judge" in line for line in without.limits)


def test_a_plan_says_what_it_is_too_small_to_show() -> None:
    """README's hour, with 930 games, showed +46 Elo as +19 to +74: by a tenth of the games 0 would be within."""
    for games, few in ((14, True), (92, True), (930, False)):
        planned = plan(replace(SETTINGS, budget="9h", sizes=Sizes(games=games)), MEASURED, FOLDER)
        assert planned.limits == ([f"{games} games a match: too few to show a better player"] if few else [])


def test_a_deeper_search_is_with_the_net_that_mined() -> None:
    own = by_name(plan(replace(VARIANTS["own search"], net="a,b.pb.gz"), MEASURED, FOLDER))["rejudge"]
    assert parse_spec(options(own)["--rejudge"]).weights == "a,b.pb.gz"


def test_steps_follow_from_what_there_is_to_learn() -> None:
    """At most six times: of games that are played, or of the positions of the store, of which some are held out."""
    fast = replace(MEASURED, train=1e6)
    for positions in (2000, 20_000):
        settings = replace(VARIANTS["normal games"], sizes=Sizes(positions=positions))
        sizes = plan(settings, fast, FOLDER).settings.sizes
        assert sizes.steps == pytest.approx(6 * 90 * (sizes.book or 0) / 0.3 / 256, rel=0.1)
    store = plan(SETTINGS, replace(fast, positions=10_000), FOLDER).settings.sizes
    assert store.steps == pytest.approx(6 * 0.6 * 10_000 / 256, rel=0.1)


def test_the_value_head_alone_is_given_what_was_computed_once() -> None:
    whole, head = (
        by_name(plan(replace(SETTINGS, sizes=Sizes(steps=100, positions=10_000), train=TrainSettings(only=only)),
                     MEASURED, FOLDER))["repaired"].seconds for only in ("all", "value")
    )  # fmt: skip
    assert head - whole == pytest.approx(0.6 * 10_000 / MEASURED.net, rel=1e-6)


def test_some_files_stand_for_all(tmp_path: Path) -> None:
    """Of few files each counts as what it has, of many some do; one without games beside others is no matter."""
    games = zstandard.decompress((DATA / "games.pgn.zst").read_bytes())
    plain, empty = tmp_path / "plain.pgn", tmp_path / "empty.pgn"
    plain.write_bytes(games[: len(games) // 4])
    empty.touch()

    def counted(*archives: Path) -> int:
        return int(measuring._read([str(path) for path in archives])[1]["positions"])

    def mined(path: Path) -> int:
        report = ReadReport()
        list(sample([str(path)], SampleOptions(positions=10, per_game=None), report))
        return report.positions + report.not_drawn

    packed = DATA / "wild.pgn.zst"
    one, other = mined(packed), mined(plain)
    assert counted(packed, plain) == counted(packed, empty, plain) == one + other
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(11):
        shutil.copyfile(packed, folder / f"{i:02}.pgn.zst")
    assert counted(folder) == pytest.approx(11 * one, abs=11)
    with pytest.raises(ValueRepairError, match=r"empty\.pgn: no games found"):
        counted(empty)


def test_a_cluster_mines_and_nothing_else() -> None:
    address = "tcp://host:8786"
    with_it, without = (plan(SETTINGS, MEASURED, FOLDER, cluster=cluster) for cluster in (address, None))
    assert [stage.name for stage in with_it.stages if address in stage.elsewhere] == ["mine"]
    assert by_name(with_it)["mine"].elsewhere == ("--cluster", address)
    # It is no other work: where it runs does not belong to what is run.
    assert [stage.words for stage in with_it.stages] == [stage.words for stage in without.stages]


# -- what is measured -------------------------------------------------------------------------------------------------


def test_the_start_of_engines_is_no_part_of_their_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines need five seconds for their first search and a hundredth for each other one."""
    clock = 0.0

    class SlowStart:
        workers, begun = 2, 0

        def submit(self, position: object) -> SlowSearch:
            self.begun += 1
            return SlowSearch(5.0 if self.begun <= self.workers else 0.01)

    class SlowSearch:
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        def result(self) -> DeepResult:
            nonlocal clock
            clock += self.seconds
            return DeepResult(cp=0, nodes=20_000)

    monkeypatch.setattr("time.monotonic", lambda: clock)
    speed = measuring._judge(SlowStart(), [object()], 0.5)  # type: ignore[arg-type]  # a stand-in
    assert speed == pytest.approx({"searches": 100, "nodes": 2_000_000})


def test_rates_are_kept_for_the_same_and_measured_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "valuerepair")
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 9.0, 9.0))
    measured = []

    def measure(conditions: Mapping[str, Any]) -> Rates:
        measured.append(conditions)
        return MEASURED

    monkeypatch.setattr("valuerepair.pipeline.rates._measured_apart", measure)
    monkeypatch.chdir(tmp_path)
    Path("games.pgn.zst").touch()
    for settings, times in (
        (SETTINGS, 1),
        (replace(SETTINGS, threshold=0.5, budget="2h", seed=4), 1),
        (replace(SETTINGS, net="other.pb.gz"), 2),
        (SETTINGS, 3),
    ):
        assert rates(settings, tmp_path, quiet=True) == MEASURED
        assert len(measured) == times
    assert len(caplog.messages) == 1
    assert "rates.json; remove it to measure again" in caplog.messages[0]
    (tmp_path / FILE).write_text("{")
    monkeypatch.setattr("os.getloadavg", lambda: (64.0, 9.0, 9.0))
    assert rates(SETTINGS, tmp_path, quiet=True) == MEASURED
    assert "warning: this machine was busy while it was measured (load 64.0" in caplog.messages[1]
    assert json.loads((tmp_path / FILE).read_text())["rates"]["searches"] == MEASURED.searches


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("", 2, "repair: there is no repair to resume; give archives of games, and --net"),
        ("missing.pgn", 2, "missing.pgn: no such file or folder"),
        ("games.pgn --store games.db", 2, "give archives or a store, not both"),
        ("games.pgn --normal missing.gz --plan", 2, "missing.gz: no such file or folder"),
        ("--store missing.db", 1, "missing.db"),
        ("games.pgn --budget soon", 2, "--budget soon: give a time as 1h, 90m or 1h30m"),
        ("games.pgn --threshold 7", 2, "threshold"),
        ("games.pgn --threshold worst:2%", 2, "give a number"),
        ("games.pgn --deep stockfish:depth=8", 2, "give nodes=N"),
        ("games.pgn --net missing.pb.gz", 1, "missing.pb.gz"),
        ("games.pgn --deep stockfish:nodes=10,path=/nowhere", 1, "/nowhere: no such engine"),
        ("games.pgn -o games.pgn", 2, "games.pgn: is a file, not a folder; give another name"),
        ("-", 2, "-: give files or folders"),
        ("short.pgn", 2, "short.pgn: no position that vr mine would take"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    Path("games.pgn").write_text("1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. Bb3 d6 8. c3 *\n")
    Path("short.pgn").write_text("1. e4 e5 *\n")
    status, out, err = vr(["repair", *words.split(), "-q"], capfd)
    assert (status, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.rglob("*")} == {"games.pgn", "short.pgn"}


def test_the_default_of_the_budget_is_an_hour() -> None:
    assert seconds_of(SETTINGS.budget) == 3600
    assert "vr repair" in TREE
