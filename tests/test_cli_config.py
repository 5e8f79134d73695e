"""valuerepair.toml: what it sets, who wins, and what is said of what is wrong in it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli_tree import LEAVES, SAMPLE, TREE, vr
from valuerepair.cli.config import Config, options_of, read
from valuerepair.errors import UsageError

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, tmp_path / "own.db")
    return tmp_path


def in_force(words: str, captured: Captured) -> dict[str, tuple[Any, str]]:
    """Option -> (value, source), as `vr config ... --json` says."""
    code, out, err = vr([*words.split(), "--json"], captured)
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    return {row["option"]: (row["value"], row["source"]) for row in rows}


def test_the_file_of_the_working_directory_is_used_and_said(folder: Path, capsys: Captured) -> None:
    assert vr(["stats"], capsys)[0] == 1
    (folder / "valuerepair.toml").write_text('[defaults]\ndb = "own.db"\n[stats]\nthreshold = 0.7\njson = true\n')
    code, out, err = vr(["stats"], capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["scored"]["threshold"] == 0.7
    assert "defaults from valuerepair.toml" in vr(["stats", "-v"], capsys)[2]


def test_command_line_over_environment_over_table_over_defaults_over_built_in(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "valuerepair.toml"

    def threshold(*words: str) -> float:
        code, out, err = vr(["stats", "--db", "own.db", "--json", *words], capsys)
        assert code == 0, err
        return float(json.loads(out)["scored"]["threshold"])

    assert threshold() == 0.55
    file.write_text("[defaults]\nthreshold = 0.6\n")
    assert threshold() == 0.6
    assert in_force("config stats", capsys)["--threshold"] == (0.6, "valuerepair.toml [defaults]")
    file.write_text("[defaults]\nthreshold = 0.6\n[stats]\nthreshold = 0.7\n")
    assert threshold() == 0.7
    assert in_force("config stats", capsys)["--threshold"] == (0.7, "valuerepair.toml [stats]")
    monkeypatch.setenv("VALUEREPAIR_STATS_THRESHOLD", "0.8")
    assert threshold() == 0.8
    assert in_force("config stats", capsys)["--threshold"] == (0.8, "VALUEREPAIR_STATS_THRESHOLD")
    assert threshold("--threshold", "0.9") == 0.9


def test_which_file(folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, alpha in (("valuerepair.toml", 1), ("env.toml", 2), ("given.toml", 3)):
        (folder / name).write_text(f"[stats]\nalpha = {alpha}\n")
    assert in_force("config stats", capsys)["--alpha"] == ("1", "valuerepair.toml [stats]")
    monkeypatch.setenv("VALUEREPAIR_CONFIG", "env.toml")
    assert in_force("config stats", capsys)["--alpha"] == ("2", "env.toml [stats]")
    assert in_force("--config given.toml config stats", capsys)["--alpha"] == ("3", "given.toml [stats]")


def test_the_store_of_the_environment_is_that_of_all_commands(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALUEREPAIR_DB", "own.db")
    assert vr(["stats"], capsys)[0] == 0
    assert in_force("config store check", capsys)["--db"] == ("own.db", "VALUEREPAIR_DB")


def test_a_version_in_the_environment_is_nobodys_question(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Dockerfile may have it: there is no variable for `--version`, nor for `--help`."""
    for option in ("VERSION", "STATS_HELP"):
        monkeypatch.setenv(f"VALUEREPAIR_{option}", "0.1")
    code, out, _ = vr(["stats", "--db", "own.db"], capsys)
    assert code == 0
    assert "positions" in out


def test_commands_below_a_command_have_tables_below_its_table(folder: Path, capsys: Captured) -> None:
    (folder / "valuerepair.toml").write_text(
        "[store.merge]\nstrict = true\n[books]\nlimit = 3\n[books.check]\njson = true\n"
    )
    assert in_force("config store merge", capsys)["--strict"] == (True, "valuerepair.toml [store.merge]")
    assert in_force("config books", capsys)["--limit"] == (3, "valuerepair.toml [books]")
    assert in_force("config books check", capsys)["--json"] == (True, "valuerepair.toml [books.check]")
    code, out, _ = vr(["config"], capsys)
    assert code == 0
    rows = out.splitlines()
    assert rows[0] == "file: valuerepair.toml"
    assert [row.split()[:-2] for row in rows[1:]] == [
        ["books", "--limit", "3"],
        ["books", "check", "--json", "true"],
        ["store", "merge", "--strict", "true"],
    ]


def test_quiet_means_the_same_for_all_commands(folder: Path, capsys: Captured) -> None:
    (folder / "valuerepair.toml").write_text("[defaults]\nquiet = true\n")
    found = in_force("config mine", capsys)
    assert found["--quiet"] == (True, "valuerepair.toml [defaults]")
    assert found["--quiet-positions"] == (False, "built in")


def test_what_is_built_in_is_said_in_the_words_of_the_help(folder: Path, capsys: Captured) -> None:
    rows = [line.split() for line in vr(["config", "mine"], capsys)[1].splitlines()[1:]]
    shown = {row[0]: " ".join(row[1:]) for row in rows}
    text = " ".join(vr(["mine", "--help"], capsys)[1].split())
    for name, default in (("--net", "maia-1900"), ("--positions", "one per game"), ("--heads", "winner,vanilla")):
        assert shown[name] == f"{default} built in"
        assert f"[default: {default}]" in text[text.index(f" {name} ") :]
    assert shown["--deep"].startswith("stockfish")


def test_a_nearer_verbose_wins_over_the_quiet_of_the_file(folder: Path, capsys: Captured) -> None:
    (folder / "valuerepair.toml").write_text('[defaults]\nquiet = true\ndb = "own.db"\n')
    assert vr(["export", "-o", "a.csv"], capsys)[2] == ""
    assert "s in total" in vr(["export", "-o", "b.csv", "-v"], capsys)[2]


def test_an_option_that_may_be_repeated_takes_an_array_or_one(folder: Path, capsys: Captured) -> None:
    (folder / "valuerepair.toml").write_text('[remeasure]\nnet = ["maia-1900", "maia-1100"]\n[mix]\nrepair = "a"\n')
    assert in_force("config remeasure", capsys)["--net"][0] == ["maia-1900", "maia-1100"]
    assert in_force("config mix", capsys)["--repair"][0] == ["a"]
    code, out, err = vr(["remeasure", "--db", "own.db", "-q"], capsys)
    assert code == 0, err
    assert "maia-1100" in out


WRONG = [
    ("[mine]\nthrshold = 1", "[mine] thrshold: no such option; did you mean threshold?"),
    (
        "[mine]\nnear-duplicates = true",
        "[mine] near-duplicates: was removed: one of a game's positions with the same material and pawns is kept",
    ),
    (
        '[mine]\nthreshold = "3"',
        '[mine] threshold = "3": 3: give |net Q - deep Q|, above 0 and at most 2, or a share of the positions as '
        "worst:2%",
    ),
    ("[mine]\nlimit = 1.5", "[mine] limit = 1.5: '1.5' is not a valid integer"),
    ("[mine]\nlimit = true", "[mine] limit = true: must be text or a number"),
    ("[mine]\nno-check = 1", "[mine] no-check = 1: must be true or false"),
    ("[mine]\nnet = false", "[mine] net = false: must be text or a number"),
    ("[mine]\nnet = 1979-05-27", '[mine] net = "1979-05-27": must be text or a number'),
    ("[mine.alpha]\nx = 1", '[mine] alpha = {"x": 1}: must be text or a number'),
    ("[mine.alpah]\nx = 1", "[mine] alpah: no such command or option; did you mean alpha?"),
    ("[defaults]\nthrshold = 1", "[defaults] thrshold: no command has such an option; did you mean threshold?"),
    ("[defaults]\nthreshold = [1]", "[defaults] threshold = [1]: must be text or a number"),
    ('[defaults]\ndb = "a\\u0000b"', '[defaults] db = "a\\u0000b": has a NUL character'),
    ("[mien]\nthreshold = 1", "[mien]: no such command; did you mean mine?"),
    ('db = "a"', "db: is outside any table; put it under [defaults] or a command, as [mine]"),
    ("[mine", "is not a TOML file: Expected ']' at the end of a table declaration (at line 1, column 6)"),
]


@pytest.mark.parametrize(("text", "line"), WRONG)
def test_what_is_wrong_is_one_line_with_file_and_key(text: str, line: str, folder: Path, capsys: Captured) -> None:
    (folder / "own.toml").write_text(text + "\n")
    for words in (["mine", "games.pgn"], ["config"]):
        code, out, err = vr(["--config", "own.toml", *words], capsys)
        assert (code, out, err) == (2, "", f"vr: own.toml: {line}\n")


def test_a_fault_in_the_table_of_another_command_stops_no_command_but_vr_config_says_it(
    folder: Path, capsys: Captured
) -> None:
    (folder / "valuerepair.toml").write_text("[mine]\nthreshold = true\n")
    assert vr(["stats", "--db", "own.db"], capsys)[0] == 0
    assert vr(["config", "stats"], capsys)[0] == 2


def test_a_file_that_is_not_there_or_not_to_be_read(folder: Path, capsys: Captured) -> None:
    assert vr(["--config", "none.toml", "stats"], capsys)[2] == "vr: none.toml: No such file or directory\n"
    (folder / "valuerepair.toml").write_bytes(b"[mine]\nnet = '\xff'\n")
    code, _, err = vr(["stats"], capsys)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("vr: valuerepair.toml: is not a TOML file: 'utf-8' codec")


def sample_of(option: click.Option) -> Any:
    """A value that an option takes."""
    if isinstance(option.type, click.Choice):
        return option.type.choices[-1]
    if isinstance(option.type, click.IntRange):
        return option.type.max or (option.type.min or 0) + 1
    if option.is_flag:
        return True
    return {"text": "some", "path": "some", "directory": "some", "_parse_alpha": 170, "_parse_heads": "q,soft"}.get(
        option.type.name, 1
    )


OPTIONS = [(path, name, option) for path in LEAVES for name, option in options_of(LEAVES[path]).items()]


@pytest.mark.parametrize(("path", "name", "option"), OPTIONS, ids=lambda v: v if isinstance(v, str) else "")
def test_every_option(path: str, name: str, option: click.Option) -> None:
    words = path.split()[1:]
    value = sample_of(option)

    def mapped(table: dict[str, Any]) -> Any:
        for word in reversed(words[1:]):
            table = {word: table}
        found: Any = Config("own.toml", {words[0]: table}).default_map(TREE[f"vr {words[0]}"], words[0])
        for word in words[1:]:
            found = found[word]
        return found[option.name]

    expected = value if option.is_flag else str(value)
    assert mapped({name: value}) == ([expected] if option.multiple else expected)
    with pytest.raises(UsageError, match=r"^own.toml: \[" + r"\.".join(words) + rf"\] {name} = .*: must be "):
        mapped({name: "yes" if option.is_flag else True})


def test_no_option_takes_the_name_of_a_command_below_its_own() -> None:
    groups = {path: command for path, command in LEAVES.items() if isinstance(command, click.Group)}
    assert groups
    for path, command in groups.items():
        assert not options_of(command).keys() & command.commands.keys(), path


def test_without_a_file_there_is_none(folder: Path) -> None:
    assert read(None) is None
    assert options_of(LEAVES["vr stats"]).keys() >= {"oracle", "db", "quiet", "verbose"}


def test_errors_about_variables_of_the_environment_name_these(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats = ["stats", "--db", "own.db"]
    monkeypatch.setenv("VALUEREPAIR_STATS_THRESHOLD", "x")
    code, _, err = vr(stats, capsys)
    assert (code, err.split(": give")[0]) == (2, "vr: stats: VALUEREPAIR_STATS_THRESHOLD: x")
    monkeypatch.delenv("VALUEREPAIR_STATS_THRESHOLD")
    monkeypatch.setenv("VALUEREPAIR_STATS_TRESHOLD", "0.4")
    code, _, err = vr(stats, capsys)
    assert code == 2
    assert err == (
        "vr: VALUEREPAIR_STATS_TRESHOLD is set in the environment: vr stats has no such option; "
        "did you mean VALUEREPAIR_STATS_THRESHOLD?\n"
    )
    # Those of another command, and an option of a command below a command.
    for variable in ("MINE_X", "BOOKS_CHECK_JSON"):
        monkeypatch.setenv(f"VALUEREPAIR_{variable}", "1")
    assert vr(["books", "--help"], capsys)[0] == 0
    for words in ("store check", "books check", "nets list", "experiment match"):
        group, variable = words.split()[0], f"VALUEREPAIR_{words.replace(' ', '_').upper()}_FOO"
        with monkeypatch.context() as patch:
            patch.setenv(variable, "1")
            for help in (f"{words} --help", f"{group} --help"):
                code, _, err = vr(help.split(), capsys)
                assert code == 2, help
                assert err.startswith(f"vr: {variable} is set in the environment: vr {words} has no such option")


@pytest.mark.parametrize(
    ("variable", "advice"),
    [
        ("MINE_THREADS", "was removed: vr works with the cores that it may use"),
        ("MINE_MAX_PLY", "was removed: in Python it is SampleOptions(max_ply=...)"),
        ("MINE_AUDIT", "belongs to --screen now: --screen auto,audit=0.1"),
    ],
)
def test_a_variable_of_an_option_that_is_gone_says_what_to_do(
    variable: str, advice: str, folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"VALUEREPAIR_{variable}", "2")
    code, _, err = vr(["mine", "a.pgn"], capsys)
    assert code == 2
    assert err.startswith(f"vr: VALUEREPAIR_{variable} is set in the environment: {advice}")
    assert err.count("\n") == 1


def test_variables_on_the_page_of_conventions_set_options() -> None:
    page = (Path(__file__).parents[1] / "docs" / "conventions.md").read_text()
    examples = re.findall(r"`VALUEREPAIR_([A-Z_]+)=", page)
    variables = {
        f"{path.removeprefix('vr ')} {option.name}".replace(" ", "_").replace("-", "_").upper()
        for path, command in TREE.items()
        for option in command.params
    }
    assert len(examples) > 1
    assert set(examples) <= variables
