"""What all commands have in common (docs/conventions.md), asked of every command of the tree."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import chess
import click
import psutil
import pytest

from tests.cli_tree import LEAVES, SAMPLE, TREE, options_of, vr
from valuerepair.cli import CONTEXT
from valuerepair.cli.printing import is_quiet

ROOT = Path(__file__).parents[1]
VARIABLES = [
    f"VALUEREPAIR_{path.partition(' ')[2]}_{option.name}".upper().replace(" ", "_").replace("-", "_")
    for path, command in LEAVES.items()
    for option in options_of(command)
]
MEANING = {"-o": "--output", "-q": "--quiet", "-v": "--verbose", "-h": "--help"}
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a copy of the sample store as its store."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(SAMPLE, tmp_path / "valuerepair.db")
    return tmp_path


@pytest.mark.parametrize("path", TREE)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_of_every_command(path: str, flag: str, capsys: Captured) -> None:
    code, out, err = vr([*path.split()[1:], flag], capsys)
    assert (code, err) == (0, "")
    assert "Example:" in out
    assert path in out.partition("Example:")[2]


@pytest.mark.parametrize("name", ["mine", "train", "books", "selfplay", "expand", "match"])
def test_help_of_the_long_commands_has_headings_and_each_option_once(name: str, capsys: Captured) -> None:
    code, out, _ = vr([name, "--help"], capsys)
    options = out[out.index("\nMost used:\n") :].split("\n")
    headings = [line for line in options if line.endswith(":") and not line.startswith(" ")]
    assert (code, headings[0]) == (0, "Most used:")
    assert "Other options:" in headings[2:]
    shown = re.findall(r"^  (?:-\w, )?(--[\w-]+)", "\n".join(options), re.MULTILINE)
    for option in options_of(TREE[f"vr {name}"]):
        assert shown.count(option.opts[-1]) == 1, option.opts
    if name == "books":
        assert headings[-1] == "Commands:"


@pytest.mark.parametrize("path", TREE)
def test_an_unknown_option_is_one_line_and_code_2(path: str, capsys: Captured) -> None:
    code, out, err = vr([*path.split()[1:], "--nosuch"], capsys)
    assert (code, out) == (2, "")
    within = path.partition(" ")[2]
    assert err.startswith(f"vr: {within}: No such option" if within else "vr: No such option")
    assert err.endswith(f"See {path} --help\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("path", LEAVES)
def test_a_slip_in_an_option_is_understood(path: str, capsys: Captured) -> None:
    code, _, err = vr([*path.split()[1:], "--verbos"], capsys)
    assert code == 2
    assert "Did you mean --verbose?" in err


@pytest.mark.parametrize(
    ("words", "meant"), [(["stat"], "stats"), (["books", "chek"], "check"), (["nets", "lis"], "list")]
)
def test_a_slip_in_a_command_is_understood(words: list[str], meant: str, capsys: Captured) -> None:
    code, out, err = vr(words, capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"Did you mean '{meant}'?" in err


@pytest.mark.parametrize("path", TREE)
def test_every_option_has_help_and_short_ones_mean_the_same(path: str) -> None:
    for option in options_of(TREE[path]):
        assert option.help, f"{path} {option.opts}"
        for short in (name for name in option.opts if not name.startswith("--")):
            assert MEANING[short] in option.opts, f"{path} {option.opts}"


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_can_be_quiet_and_verbose(path: str) -> None:
    names = {name for option in options_of(LEAVES[path]) for name in option.opts}
    assert {"-q", "-v"} <= names


# Matches take a number of nodes that may end in k or M, or none; a split takes a share of games.
OTHER_KINDS = {("--nodes", "text"), ("--games", "float")}


def test_an_option_of_one_name_takes_the_same_kind_of_value_everywhere() -> None:
    kinds: dict[str, set[str]] = {}
    for command in LEAVES.values():
        for option in options_of(command):
            kind = "flag" if option.is_flag else option.type.name.removesuffix(" range")
            # A choice is a text that is checked early, a path one that is a file.
            kind = "text" if kind in ("choice", "path", "directory") else kind
            for name in option.opts:
                kinds.setdefault(name, set()).update({kind} - {k for n, k in OTHER_KINDS if n == name})
    assert not {name: kind for name, kind in kinds.items() if len(kind) > 1}


MISSING = {
    "mine": "mine missing.pgn",
    "repair": "repair missing.pgn",
    "chunks": "chunks missing.pgn -o out",
    "rescore": "rescore missing -o out",
    "mix": "mix --repair missing --normal missing -o out",
    "weights": "weights missing",
    "train": "train chunks --net missing.pb.gz -o new.pb.gz",
    "selfplay": "selfplay missing.pgn",
    "eval": "eval missing.pgn",
    "search": "search missing.pgn",
    "match": "match nodes=1 nodes=2 --openings missing.pgn",
    "books check": "books check missing.pgn",
    "nets describe": "nets describe missing.onnx",
    "experiment selfplay": "experiment selfplay --openings missing.epd",
    "experiment match": "experiment match nodes=1 --openings missing.epd",
    "show": "show 1 --db missing.db",
    "store merge": "store merge missing.db",
    "store check": "store check --db missing.db",
    "remeasure": "remeasure --net a --net b --db missing.db",
    **{name: f"{name} --db missing.db" for name in ("confirm", "expand", "books", "stats", "report", "export")},
    "split": "split --db missing.db",
    "plot": "plot --db missing.db",
}
# Nothing they read can be missing, or missing is an answer (doctor).
READ_NOTHING = {"uci", "nets list", "nets pull", "config", "completion", "doctor"}


def test_the_table_of_missing_files_is_whole() -> None:
    assert {path.partition(" ")[2] for path in LEAVES} == set(MISSING) | READ_NOTHING


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_file_is_one_line_that_names_it(name: str, folder: Path, capsys: Captured) -> None:
    code, out, err = vr(MISSING[name].split(), capsys)
    assert code in (1, 2), err
    assert out == ""
    assert err.splitlines()[-1].startswith("vr: ")
    assert "missing" in err.splitlines()[-1]
    assert [path.name for path in folder.iterdir() if path.name != "valuerepair.db"] == []


@pytest.mark.parametrize("quoted", [True, False])
@pytest.mark.parametrize("name", ["eval", "search", "show"])
def test_a_word_too_many_behind_a_position_is_refused(name: str, quoted: bool, folder: Path, capsys: Captured) -> None:
    text = f"{chess.STARTING_FEN} extra"
    code, out, err = vr([name, *([text] if quoted else text.split())], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"vr: position '{text}': 'extra' is one word too many")


JSON_WHOLE = ["stats --fit-alpha --labels --worst 3", "show 1", "split", "nets describe"]
JSON_LINES = ["nets list", "config stats", "doctor", "eval startpos"]


@pytest.mark.parametrize("call", [*JSON_WHOLE, *JSON_LINES])
def test_json_is_alone_on_standard_output(call: str, folder: Path, capsys: Captured) -> None:
    code, out, err = vr([*call.split(), "--json", "-q"], capsys)
    assert (code, err) == (0, "")
    for text in [out] if call in JSON_WHOLE else out.splitlines():
        assert isinstance(json.loads(text), dict)


# What they print is no figures, or has a form of its own.
NO_JSON = {"mine", "plot", "report", "uci", "export", "nets pull", "completion"}
# They write it to a file.
NO_JSON |= {"books", "chunks", "mix", "train"}


def test_every_command_with_figures_has_json() -> None:
    without = {
        path.partition(" ")[2]
        for path, command in LEAVES.items()
        if not any("--json" in option.opts for option in options_of(command))
    }
    assert without == NO_JSON


RESULTS = ["stats", "show 1", "export --format csv", "eval startpos", "stats --labels"]


@pytest.mark.parametrize("call", RESULTS)
def test_quiet_says_nothing_but_the_result(call: str, folder: Path, capsys: Captured) -> None:
    plain = vr(call.split(), capsys)
    quiet = vr([*call.split(), "-q"], capsys)
    verbose = vr([*call.split(), "-v"], capsys)
    before = vr(["-v", *call.split()], capsys)
    assert [result[0] for result in (plain, quiet, verbose, before)] == [0] * 4
    assert quiet[1:] == (plain[1], "")
    assert verbose[1] == before[1] == plain[1]
    assert re.search(r"^\[ *[0-9.]+ s\] vr: valuerepair .*: vr ", verbose[2], re.MULTILINE)
    assert re.search(r"^\[ *[0-9.]+ s\] vr: [0-9.]+ s in total$", verbose[2], re.MULTILINE)
    assert len(before[2].splitlines()) == len(verbose[2].splitlines())


@pytest.mark.parametrize("call", ["books -o out", "split -o out", "plot -o out.png"])
def test_quiet_commands_that_write_files_say_nothing_at_all(call: str, folder: Path, capsys: Captured) -> None:
    assert vr([*call.split(), "-q"], capsys) == (0, "", "")
    assert [path for path in folder.iterdir() if path.name.startswith("out")]


def test_quiet_is_over_with_its_command(folder: Path, capsys: Captured) -> None:
    """In one process, as in tests and notebooks: what comes next may speak."""
    assert vr(["stats", "--db", str(SAMPLE), "-q"], capsys)[0] == 0
    assert not is_quiet()
    assert logging.getLogger("valuerepair").isEnabledFor(logging.WARNING)


def test_quiet_and_verbose_exclude_each_other(folder: Path, capsys: Captured) -> None:
    for words in (["stats", "-q", "-v"], ["-q", "stats", "-v"], ["-v", "stats", "--quiet"]):
        code, out, err = vr(words, capsys)
        assert (code, out) == (2, "")
        assert err.splitlines()[-1] == "vr: stats: -q and -v exclude each other. See vr stats --help"


@pytest.mark.usefixtures("stockfish")
def test_verbose_shows_files_and_engines_and_very_verbose_their_lines(folder: Path, capsys: Captured) -> None:
    mine = ["mine", str(ROOT / "data" / "games.pgn.zst"), "--positions", "1", "--deep", "stockfish:nodes=500"]
    mine += ["--screen", "off", "--jobs", "1", "--seed"]
    code, _, once = vr([*mine, "1", "-v"], capsys)
    assert code == 0, once
    for text in (
        "valuerepair.db: for writing",
        "games.pgn.zst",
        "Threads=1",
        "CPUExecutionProvider",
        "converted before",
    ):
        assert text in once
    assert "> bestmove" not in once
    code, _, twice = vr([*mine, "2", "-v", "-v"], capsys)
    assert code == 0
    assert re.search(r"process: (\d+) < go nodes 500\n(.*\n)*?.*process: \1 > bestmove ", twice)
    assert vr([*mine, "3", "-q"], capsys)[2] == ""


def wait_until_it_waits(pid: int) -> None:
    """For input: a Python that is interrupted while it imports may end by the signal itself, which shells call 130."""
    process, used = psutil.Process(pid), -1.0
    deadline = time.monotonic() + 60
    while used < sum(process.cpu_times()) or process.status() != psutil.STATUS_SLEEPING:
        assert time.monotonic() < deadline
        used = sum(process.cpu_times())
        time.sleep(0.3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_work_ends_with_130(number: signal.Signals, folder: Path) -> None:
    command = [sys.executable, "-m", "valuerepair", "eval", "-", "-v"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "vr: valuerepair" in process.stderr.readline()
    wait_until_it_waits(process.pid)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err.splitlines()[-1]) == (130, "", "vr: interrupted")


# A program whose garbage collector calls back, as jax has it do: what is raised there is lost.
COLLECTING = """
import gc, os, signal, sys, click
from valuerepair import signals
from valuerepair.cli.ending import run

def collected(phase, info):
    gc.callbacks.remove(collected)
    signal.raise_signal(getattr(signal, name))

@click.group()
def group(): pass

@group.command()
def work():
    with signals.held():
        gc.callbacks.append(collected)
        gc.collect()
        print(signals.count(), "came", flush=True)
    print("lost", flush=True)

name, sys.argv[1:] = sys.argv[1], ["work"]
signal.signal(signal.SIGINT, signal.default_int_handler)
signals.install()
os._exit(run(group))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_a_callback_that_swallows_exceptions_is_not_lost(name: str) -> None:
    command = [sys.executable, "-c", COLLECTING, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (130, "1 came\n", "vr: interrupted")


def ended(words: str, out: int, err: int) -> tuple[int, bytes]:
    """Exit code of `vr` as a process, and its standard error where `err` is a pipe."""
    command = [sys.executable, "-m", "valuerepair", *words.split()]
    done = subprocess.run(command, check=False, timeout=120, stdout=out, stderr=err)
    return done.returncode, done.stderr or b""


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("words", ["--help", "config mine", "export --format csv"])
def test_a_reader_that_goes_away_is_said_in_one_line(words: str, folder: Path, unread: int) -> None:
    assert ended(words, unread, subprocess.PIPE) == (1, b"vr: standard output: the reader has closed it\n")


@pytest.mark.parametrize("words", ["--version", "config mine", "export --format csv"])
def test_a_full_standard_output_is_said_in_one_line(words: str, folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        end = ended(words, full.fileno(), subprocess.PIPE)
    assert end == (1, b"vr: standard output: No space left on device\n")


@pytest.mark.parametrize("err", ["full", "unread"])
def test_a_standard_error_that_cannot_be_written_ends_nothing(err: str, folder: Path, unread: int) -> None:
    """Its lines are lost, results and exit codes are not."""
    (folder / "a.epd").write_text("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1\n8/8/8/4k3/8/8/4P3/4K3 w - - 0 1\n")
    deep = f"uci:{sys.executable},arg=-I,arg=-S,arg={ROOT}/tests/fake_engine.py"
    with open("/dev/full", "wb") as full:
        target = full.fileno() if err == "full" else unread
        mined = ended(f"mine a.epd --db new.db --deep {deep},nodes=9 --screen off --threshold 0.5", target, target)
        assert (
            ended(f"mine a.epd --db new.db --deep {deep},nodes=9 --screen off -vv", subprocess.DEVNULL, target)[0] == 0
        )
        assert ended("stats --db nowhere.db", subprocess.DEVNULL, target)[0] == 1
    assert mined[0] == 1  # standard output could not be written either


@pytest.mark.parametrize("command", ["stats --db", "mine", "eval --net"])
def test_a_name_that_is_not_utf_8_is_refused(command: str, folder: Path) -> None:
    end = ended(f"{command} g\udce9.db", subprocess.DEVNULL, subprocess.PIPE)
    assert end == (2, b"vr: g?.db: is not valid UTF-8; rename the file or folder\n")


def test_a_folder_or_a_variable_that_is_not_utf_8_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALUEREPAIR_DB", "g\udce9.db")
    end = ended("stats", subprocess.DEVNULL, subprocess.PIPE)
    assert end == (2, b"vr: g?.db: is not valid UTF-8; rename the file or folder\n")
    monkeypatch.delenv("VALUEREPAIR_DB")
    (folder / "k\udce9").mkdir()
    monkeypatch.chdir(folder / "k\udce9")
    code, message = ended("stats --db ../own.db", subprocess.DEVNULL, subprocess.PIPE)
    assert (code, message.endswith(b"k?: is not valid UTF-8; rename the file or folder\n")) == (2, True)


def test_a_name_in_a_folder_that_is_not_utf_8_is_refused(folder: Path) -> None:
    (folder / "games").mkdir()
    (folder / "games" / "g\udce9.pgn").touch()
    code, message = ended("mine games --db own.db", subprocess.DEVNULL, subprocess.PIPE)
    assert (code, message.splitlines()[-1]) == (
        2, b"vr: games/g?.pgn: is not valid UTF-8; rename the file or folder"
    )  # fmt: skip


def test_an_error_that_nobody_reads_has_its_exit_code(folder: Path, unread: int) -> None:
    assert ended("show --nope", subprocess.DEVNULL, unread)[0] == 2


def test_streams_that_are_closed_lead_nowhere(folder: Path) -> None:
    """Not into the store, which would be the next file to get the number of standard output."""
    before = (folder / "valuerepair.db").read_bytes()
    shell = f"{sys.executable} -m valuerepair show 1 <&- >&-"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (folder / "valuerepair.db").read_bytes() == before


def test_the_page_lists_every_environment_variable() -> None:
    page = (ROOT / "docs" / "conventions.md").read_text("utf-8")
    files = [
        *ROOT.glob("valuerepair/**/*.py"),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob(".ci/*"),
        *ROOT.glob("data/*.py"),
    ]
    # Its variables are of options that read none.
    files.remove(ROOT / "tests" / "test_cli_config.py")
    used = {name for path in files for name in re.findall(r"VALUEREPAIR_[A-Z0-9_]*[A-Z]", path.read_text("utf-8"))}
    assert {"VALUEREPAIR_CACHE", "VALUEREPAIR_CONFIG"} <= used
    # What a test sets because it looks like an option's variable.
    none = {"VALUEREPAIR_STATS_HELP", "VALUEREPAIR_VERSION"}
    assert not {name for name in used - set(VARIABLES) - none if f"`{name}`" not in page}


def test_every_option_has_a_variable_of_its_own() -> None:
    """By click's `auto_envvar_prefix`, from the parameter's name: that is the option's, so that it can be told."""
    assert len(VARIABLES) == len(set(VARIABLES)) > 200
    assert not {"VALUEREPAIR_CACHE", "VALUEREPAIR_CONFIG", "VALUEREPAIR_DB"}.intersection(VARIABLES)
    for path, command in LEAVES.items():
        for option in options_of(command):
            names = [name for name in option.opts if name.startswith("--")]
            assert [option.name] == [name[2:].replace("-", "_") for name in names], path


def test_a_group_without_a_command_says_its_help_and_is_a_usage_error(capsys: Captured) -> None:
    for words in ([], ["store"], ["nets"], ["experiment"]):
        code, out, err = vr(words, capsys)
        assert (code, out) == (2, "")
        assert err.startswith("Usage: vr")
        assert isinstance(TREE[" ".join(["vr", *words])], click.Group)


def test_every_default_is_shown() -> None:
    hidden = []
    for path, command in TREE.items():
        context = click.Context(command, info_name=path, **CONTEXT)
        for option in options_of(command):
            shown = option.get_help_record(context)
            default = None if option.is_flag or option.count else option.get_default(context)
            is_one = isinstance(default, (int, float)) or (isinstance(default, (str, tuple, list)) and len(default) > 0)
            if shown is not None and ((is_one and "[default: " not in shown[1]) or "(default" in shown[1]):
                hidden.append((path, option.opts[0], default))
    assert not hidden


# Options of other programs that are spoken of: whose they are.
OTHERS_OPTIONS = {
    "apt-get": {"--no-install-recommends", "--reinstall"},
    "bullet-utils": {"--from"},
    "dask": {"--host", "--lifetime", "--lifetime-stagger", "--memory-limit", "--name", "--no-dashboard", "--nthreads"}
    | {"--nworkers", "--port", "--protocol", "--resources", "--scheduler-file"},
    "helm": {"--create-namespace", "--generate-name", "--repo"},
    "lc0": {
        "--cache-history-length",
        "--policy-head",
        "--value-head",
        "--history-fill-new",
        "--input",
        "--no-delete-files",
        "--noise-epsilon",
    }
    | {
        "--onnx-data-type",
        "--openings-pgn",
        "--parallelism",
        "--resign-percentage",
        "--show-hidden",
        "--syzygy-paths",
        "--visits",
        "--weights",
    },
    "lczero-training": {"--cfg", "--lczero"},  # --lczero_model
    "pip": {"--dest", "--disable-pip-version-check", "--force-reinstall", "--no-cache-dir", "--no-deps"}
    | {"--only-binary"},
    "jupyter execute": {"--inplace"},
    "zstd": {"--long"},
    "a style sheet": {"--depth"},
    "an engine, in an example": {"--flag"},
    "python -m valuerepair.cli.reference": {"--check"},
    "python data/make_*.py": {"--date", "--nets-only", "--other"},
    "python -m tests.parity": {"--exact", "--features", "--first", "--ms", "--settings", "--stockfish"}
    | {"--without-package"},
    "python -m benchmarks": {"--archive", "--compare", "--data", "--print", "--seconds", "--within"},
}


def spoken_of(path: Path) -> set[str]:
    """The options that a file names; in the changelog not those of its columns "Was"."""
    text = path.read_text("utf-8")
    if path.name == "CHANGELOG.md":
        tables = re.split(r"^(\| Was \|.*\n(?:\|.*\n)+)", text, flags=re.M)
        text = "".join(re.sub(r"^\|[^|]*", "", part, flags=re.M) if i % 2 else part for i, part in enumerate(tables))
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*", text))


def test_every_option_that_is_spoken_of_exists() -> None:
    """In messages, help and comments of the package and on its pages: on some command, or it is another program's."""
    existing = {name for command in TREE.values() for option in options_of(command) for name in option.opts}
    existing |= {name for command in TREE.values() for option in options_of(command) for name in option.secondary_opts}
    existing |= {"--help", "--version"}.union(*OTHERS_OPTIONS.values())
    files = {path for kind in ("py", "js", "html") for path in ROOT.glob(f"valuerepair/**/*.{kind}")}
    files |= {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "data" / "README.md"}
    files.remove(ROOT / "valuerepair" / "cli" / "removed.py")  # what is gone
    unknown = {(str(path.relative_to(ROOT)), word) for path in files for word in spoken_of(path) - existing}
    assert len(files) > 150
    assert not unknown
