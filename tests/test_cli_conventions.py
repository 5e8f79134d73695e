"""What all commands have in common, asked of every command of the tree; defaults; streams; how `vr` ends."""

from __future__ import annotations

import json
import logging
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli_tree import LEAVES, SAMPLE, TREE, options_of, vr
from valuerepair.cli.printing import is_quiet

ROOT = Path(__file__).parents[1]
MEANING = {"-o": "--output", "-q": "--quiet", "-v": "--verbose", "-h": "--help"}
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a copy of the sample store as its store."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, tmp_path / "valuerepair.db")
    return tmp_path


@pytest.mark.parametrize("path", TREE)
def test_a_slip_in_an_option_is_one_line_and_code_2(path: str, capsys: Captured) -> None:
    code, out, err = vr([*path.split()[1:], "--hepl"], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("vr: ")
    assert "--hepl" in err
    assert "'--help'" in err
    assert err.endswith(f"See {path} --help\n")


def test_a_slip_in_a_command_is_understood(capsys: Captured) -> None:
    code, out, err = vr(["stat"], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'stats'" in err


@pytest.mark.parametrize("path", LEAVES)
def test_options_have_help_and_common_ones_mean_the_same(path: str) -> None:
    for option in options_of(LEAVES[path]):
        assert option.help, option.opts
        long_names = [name for name in option.opts if name.startswith("--")]
        assert [option.name] == [name[2:].replace("-", "_") for name in long_names]  # as in valuerepair.toml and VR_...
        assert all(MEANING[name] in option.opts for name in option.opts if not name.startswith("--"))
        shared = {"--db": "VR_DB", "--device": "VR_DEVICE"}.get(long_names[0])
        assert option.envvar == shared or path == "vr repair", option.opts  # which begins with archives or a store
    assert {"-q", "-v"} <= {name for option in options_of(LEAVES[path]) for name in option.opts}


# -- defaults ----------------------------------------------------------------------------------------------------------


def default(capsys: Captured, *words: str) -> str:
    """The error of `vr stats` with --threshold from elsewhere: it names the value that came through."""
    code, _, err = vr(["stats", *words], capsys)
    assert code == 2
    return err


def test_the_command_line_counts_before_variables_and_variables_before_the_file(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "valuerepair.toml").write_text('[stats]\nthreshold = 11\n[mine]\nmin-elo = 5\ndeep = "x:"\n')
    assert " 11" in default(capsys)
    monkeypatch.setenv("VR_STATS_THRESHOLD", "12")
    assert " 12" in default(capsys)
    assert " 13" in default(capsys, "--threshold", "13")


def test_one_variable_names_the_store_of_all_commands(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VR_DB", "elsewhere.db")
    for name in ("stats", "report", "export"):
        code, _, err = vr([name], capsys)
        assert code == 1
        assert "elsewhere.db" in err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[stats", "valuerepair.toml"),
        ("[stat]\n", "[stat]"),
        ("[stats]\ntreshold = 1\n", "treshold"),
        ("threshold = 1\n", "threshold"),
        ("stats = 1\n", "stats"),
        ("[stats]\nthreshold = 5\n", "--threshold"),
    ],
)
def test_a_wrong_file_of_defaults_is_one_line_and_code_2(text: str, named: str, folder: Path, capsys: Captured) -> None:
    (folder / "valuerepair.toml").write_text(text)
    code, out, err = vr(["stats"], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("vr: ")
    assert named in err


# -- what is printed where ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["stats", "show 1", "eval startpos", "doctor"])
def test_json_is_alone_on_standard_output(call: str, folder: Path, capsys: Captured) -> None:
    code, out, err = vr([*call.split(), "--json", "-q"], capsys)
    assert (code, err) == (0, "")
    for text in [out] if call in ("stats", "show 1") else out.splitlines():
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("call", ["stats", "show 1", "eval startpos"])
def test_quiet_changes_standard_error_alone_and_verbose_adds_lines(call: str, folder: Path, capsys: Captured) -> None:
    plain = vr(call.split(), capsys)
    quiet = vr([*call.split(), "-q"], capsys)
    verbose = vr([*call.split(), "-v"], capsys)
    assert plain[0] == 0
    assert quiet == (0, plain[1], "")
    assert verbose[0] == 0
    assert verbose[1].startswith(plain[1])
    assert (len(verbose[1]) > len(plain[1])) == (call == "stats")
    assert f"vr {call}" in verbose[2].splitlines()[0]
    assert not is_quiet()  # the next command in this process may speak
    assert logging.getLogger("valuerepair").isEnabledFor(logging.WARNING)
    assert vr([*call.split(), "-q", "-v"], capsys)[0] == 2


@pytest.mark.usefixtures("stockfish")
def test_verbose_shows_files_and_engines_and_very_verbose_their_lines(folder: Path, capsys: Captured) -> None:
    mine = ["mine", str(ROOT / "data" / "games.pgn.zst"), "--positions", "1", "--deep", "stockfish:nodes=500"]
    mine += ["--screen", "off", "--jobs", "1", "--seed"]
    code, _, once = vr([*mine, "1", "-v"], capsys)
    assert code == 0, once
    for text in ("valuerepair.db", "games.pgn.zst", "Threads=1", "CPUExecutionProvider"):
        assert text in once
    assert "> bestmove" not in once
    code, _, twice = vr([*mine, "2", "-vv"], capsys)
    assert code == 0
    assert re.search(r"process: (\d+) < go nodes 500\n(.*\n)*?.*process: \1 > bestmove ", twice)
    assert vr([*mine, "3", "-q"], capsys)[2] == ""


# -- how it ends -------------------------------------------------------------------------------------------------------


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


def test_a_full_standard_output_is_one_line_and_code_1(folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "valuerepair", "show", "1"]
        done = subprocess.run(command, check=False, timeout=120, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("vr: standard output: ")


def test_streams_that_are_closed_lead_nowhere(folder: Path) -> None:
    """Not into the store, which would be the next file to get the number of standard output."""
    before = (folder / "valuerepair.db").read_bytes()
    shell = f"{sys.executable} -m valuerepair show 1 <&- >&-"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (folder / "valuerepair.db").read_bytes() == before
