"""repair.toml: what is written is read again, and what is wrong in it is one line that says where."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.engines.kinds import chosen_spec, parse_spec
from valuerepair.engines.spec import find_engine
from valuerepair.errors import UsageError
from valuerepair.pipeline import settings as toml
from valuerepair.pipeline.settings import (
    HeldOutShares,
    Settings,
    Sizes,
    TrainSettings,
    default_deep,
    default_test_deep,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SIZE = st.integers(1, 10**12)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
FILE = TEXT.filter(lambda name: not name.startswith("-"))
SETTINGS = st.builds(
    Settings,
    archives=st.lists(FILE, min_size=1, max_size=3).map(tuple),
    net=TEXT,
    threshold=st.floats(0.01, 2),
    judge=st.sampled_from(["", "0123456789ab"]),
    alpha=st.floats(1e-9, 1e12),
    seed=st.integers(0, 10**9),
    test_deep=st.sampled_from(["", "stockfish:nodes=100000", "mcts:nodes=2000"]),
    control=st.booleans(),
    sizes=st.builds(
        Sizes,
        positions=SIZE,
        steps=SIZE,
        rejudge=st.sampled_from([0, 100, 2000]),
        games=SIZE.map(lambda n: 2 * n),
    ),
    split=st.builds(
        HeldOutShares,
        games=st.floats(0.01, 0.9),
        families=st.floats(0.01, 0.9),
        seed=st.integers(0, 10**9),
    ),
    off_game=st.sampled_from(["", "0.5", "random_move:0.25,search_node:0.25"]),
    train=st.builds(
        TrainSettings,
        policy=st.sampled_from(["net", "judge", "judge:0.3"]),
        amplitude=st.none() | st.floats(0, 1),
        batch=st.integers(1, 4096),
        lr=st.floats(0, 1),
    ),
    match_nodes=st.integers(1, 10**6),
)


@given(settings=SETTINGS)
def test_what_is_written_is_read_again(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("toml") / "repair.toml"
    toml.write(settings, path)
    assert toml.read(path) == settings
    # By the standard library's own reader, the comments aside, nothing is lost either.
    found = tomllib.loads(path.read_text("utf-8"))
    assert found["net"] == settings.net
    assert tuple(found["archives"]) == settings.archives
    assert found["sizes"] == asdict(settings.sizes)


def test_a_line_that_is_taken_out_is_the_usual(tmp_path: Path) -> None:
    path = tmp_path / "repair.toml"
    path.write_text('archives = ["games.pgn"]\n[train]\nbatch = 64\namplitude = 0.5\n')
    usual = Settings(archives=("games.pgn",))
    deep = default_deep()
    assert toml.read(path) == replace(
        usual, deep=deep, test_deep=default_test_deep(deep), train=TrainSettings(batch=64)
    )


@pytest.mark.parametrize(
    ("deep", "tests"),
    [
        ("stockfish:nodes=20000", "stockfish:nodes=1000000"),
        ("stockfish:nodes=20k,path=/opt/sf,option.Threads=2", "stockfish:nodes=1000000,path=/opt/sf,option.Threads=2"),
        ("uci:/opt/a\\,b,nodes=5000", "uci:/opt/a\\,b,nodes=1000000"),
        ("mcts:nodes=200", "mcts:nodes=2000"),
        ("stockfish:nodes=1M", ""),
        ("stockfish", ""),
    ],
)
def test_the_judge_of_the_tests_is_the_same_one_and_deeper(deep: str, tests: str) -> None:
    assert default_test_deep(deep) == tests
    if tests:
        before, after = parse_spec(deep), parse_spec(tests)
        assert after.limits["nodes"] > before.limits["nodes"]
        assert replace(after, limits=before.limits, where="") == replace(before, where="")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("archives = [", "is not a TOML file"),
        ('net = "a"', "archives = []: which games"),
        ('archives = ["-x.pgn"]', "-x.pgn: give a file or folder"),
        ('archives = "a.pgn"', "$.archives"),
        ('archives = ["a"]\ntreshold = 0.3', "treshold: no such setting; did you mean threshold?"),
        ('archives = ["a"]\nthreshold = "much"', "$.threshold"),
        ('archives = ["a"]\nthreshold = 3.0', "threshold"),
        ('archives = ["a"]\nalpha = 0', "alpha = 0: must be a positive number of centipawns"),
        ('archives = ["a"]\ndeep = "recorded"', "--deep recorded: does not search"),
        ('archives = ["a"]\ndeep = "stockfish:depth=10"', "give a judge with a number of nodes"),
        ('archives = ["a"]\ntest_deep = "stockfish:depth=10"', "test_deep stockfish:depth=10: give a judge"),
        ('archives = ["a"]\ntest_deep = "komodo:nodes=1"', "test_deep 'komodo:nodes=1': 'komodo' is not one of"),
        ('archives = ["a"]\ncontrol = "yes"', "$.control"),
        ('archives = ["a"]\noff_game = "some"', "off_game: "),
        ('archives = ["a"]\n[train]\npolicy = "judges"', "[train] policy judges: give net, judge or judge:SHARE"),
        ('archives = ["a"]\nsizes = 3', "[sizes]: must be a table"),
        ('archives = ["a"]\n[sizes]\nsteps = 0', "[sizes] steps = 0: must be at least 1"),
        ('archives = ["a"]\n[sizes]\nrejudge = 9', "[sizes] rejudge = 9: must be 0, or at least 100"),
        ('archives = ["a"]\n[sizes]\ngames = 11', "[sizes] games = 11: must be even"),
        ('archives = ["a"]\n[sizes]\nsteps = 1.5', "$.sizes.steps"),
        ('archives = ["a"]\n[split]\nfamilies = 1.0', "[split] families = 1: must lie between 0 and 1"),
        ('archives = ["a"]\n[train]\namplitude = 2', "[train] amplitude=2: must lie between 0 and 1"),
        ('archives = ["a"]\n[train]\nonly = "trunk"', "$.train.only"),
        ('archives = ["a"]\nmatch_nodes = 0', "match_nodes = 0: must be at least 1"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_place(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "repair.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        toml.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "repair.toml"
    with pytest.raises(UsageError, match=r"repair\.toml: a file's name in it is not UTF-8; rename"):
        toml.write(Settings(archives=("bad\udcff.pgn",)), path)
    assert not path.exists()


@pytest.mark.parametrize("stockfish", [True, False])
def test_the_judge_is_that_of_vr_mine(stockfish: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not stockfish:
        monkeypatch.setenv("VALUEREPAIR_STOCKFISH", "none")
    elif find_engine("stockfish") is None:
        pytest.skip("no Stockfish on this machine (apt-get install stockfish)")
    assert parse_spec(default_deep()).kind == chosen_spec(None).kind


def test_what_the_command_line_says_otherwise_is_said() -> None:
    settings = Settings(archives=("a.pgn",), threshold=0.4)
    threshold, positions = toml.differing({"archives": ("a.pgn",), "threshold": 0.3, "positions": 9}, settings)
    assert "threshold = 0.4" in threshold
    assert "positions = 50000" in positions
