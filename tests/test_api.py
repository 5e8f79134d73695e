"""The public Python interface does what the commands do, on data/sample.db, and is typed and lazy."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import valuerepair as vr
from valuerepair.cli import cli
from valuerepair.question import Question
from valuerepair.report.stats import store_stats

if TYPE_CHECKING:
    from collections.abc import Callable


ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "sample.db"
THRESHOLD = 0.35
HEAVY = ("numpy", "pandas", "matplotlib", "numba", "chess", "onnxruntime", "scipy", "click", "sqlite3", "tqdm")
FEN = "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"


@pytest.fixture
def store() -> Iterator[vr.MinedStore]:
    with vr.open_store(SAMPLE) as opened:
        yield opened


@pytest.fixture
def sql() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{SAMPLE}?mode=ro", uri=True)
    yield connection
    connection.close()


def command(*words: str) -> str:
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


# -- the package's own names ------------------------------------------------------------------------------------------


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, time; before = time.process_time(); import valuerepair; spent = time.process_time() - before\n"
        f"print(spent, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    printed = [run.stdout.split(" ", 1) for run in runs]
    assert {modules.strip() for _, modules in printed} == {"[]"}
    assert min(float(spent) for spent, _ in printed) < 0.05


def test_reading_a_store_loads_neither_engines_nor_plots() -> None:
    code = (
        f"import sys, valuerepair as vr\nvr.open_store({str(SAMPLE)!r}).frame()\n"
        "print([name for name in ('matplotlib', 'onnxruntime', 'numba', 'chess') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_is_there_and_seen_by_type_checkers() -> None:
    stub = ast.parse(Path(vr.__file__).with_suffix(".pyi").read_text("utf-8"))
    typed = {
        alias.asname or alias.name
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert typed == set(vr.__all__)
    for name in vr.__all__:
        assert getattr(vr, name).__doc__, name
    assert set(vr.__all__) <= set(dir(vr))
    absent = "nothing"
    with pytest.raises(AttributeError, match="attribute nothing"):
        getattr(vr, absent)


# -- frames and candidates --------------------------------------------------------------------------------------------


def test_candidates_are_whole_records(store: vr.MinedStore) -> None:
    candidates = list(store.iter_candidates(vr.Question(threshold=THRESHOLD)))
    alpha = store.frame(text=False).attrs["alpha"]["value"]
    assert [abs(c.disagreement) for c in candidates] == sorted((abs(c.disagreement) for c in candidates), reverse=True)
    assert len(candidates) == len(store.candidates(Question(threshold=THRESHOLD))) > 40
    for candidate in candidates:
        board = chess.Board(candidate.start_fen)
        for move in candidate.moves:
            board.push_uci(move)
        assert board.fen() == candidate.fen
        assert candidate.white_to_move == board.turn
        assert candidate.ply == board.ply()
        assert candidate.source == "data/games.pgn.zst"
        if candidate.mate is not None:
            assert candidate.deep_q == math.copysign(1, candidate.mate)
        elif candidate.cp is not None:
            assert candidate.deep_q == pytest.approx(2 / (1 + math.exp(-candidate.cp / alpha)) - 1)
        assert abs(candidate.disagreement) >= THRESHOLD
        assert ("optimistic" in candidate.labels) == (candidate.net_q > candidate.deep_q)
        assert ("in-check" in candidate.labels) == board.is_check()
        assert candidate.position.moves == candidate.moves


def test_stats_are_those_of_vr_stats(store: vr.MinedStore) -> None:
    printed = json.loads(command("stats", "--db", str(SAMPLE), "--threshold", str(THRESHOLD), "--json"))
    assert store_stats(store, Question(threshold=THRESHOLD)).as_json()["scored"] == printed["scored"]


def test_the_worst_are_those_of_vr_stats(store: vr.MinedStore) -> None:
    printed = json.loads(command("stats", "--db", str(SAMPLE), "--threshold", "worst:2%", "--json"))
    assert store.stats(vr.Worst(0.02))["scored"] == printed["scored"]
    frame = store.frame()
    worst = frame[frame["disagreement"].abs() >= printed["scored"]["threshold"]]
    assert sorted(store.candidates(vr.Worst(0.02))["position_id"]) == sorted(worst["position_id"])
    assert 0 < worst["weight"].sum() <= 0.02 * frame["weight"].sum()


def test_a_frame_of_single_columns(store: vr.MinedStore) -> None:
    frame = store.frame(only=("net_q", "weight"))
    pd.testing.assert_frame_equal(frame[["net_q", "weight"]], store.frame()[["net_q", "weight"]], check_like=True)
    with pytest.raises(vr.UsageError, match="joined to whole rows"):
        store.frame(only=("net_q",), labels=True)


def test_verdicts_are_those_that_vr_stats_counts(store: vr.MinedStore) -> None:
    counted = json.loads(command("stats", "--db", str(SAMPLE), "--threshold", str(THRESHOLD), "--json"))
    verdicts = store.candidates(Question(threshold=THRESHOLD), verdicts=True)["verdict"].value_counts()
    counts = {word: rate["count"] for word, rate in counted["scored"]["confirmed"]["rates"].items()}
    assert verdicts.to_dict() == {word: count for word, count in counts.items() if count}
    assert verdicts.sum() > 40


def test_outcomes_are_the_games_results(store: vr.MinedStore, sql: sqlite3.Connection) -> None:
    points = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}
    results: dict[int, list[float]] = {}
    query = "SELECT p.id, g.result, p.side FROM plays g JOIN positions p ON p.key = g.key WHERE g.result <> '*'"
    for number, result, side in sql.execute(query):
        results.setdefault(number, []).append(points[result] * (-1 if side else 1))
    frame = store.frame(text=False, outcomes=True).set_index("position_id")
    assert frame["z_games"].to_dict() == {number: len(results.get(number, ())) for number in frame.index}
    played = frame[frame["z_games"] > 0]
    assert len(played) >= 40
    for number, z in played["z"].items():
        assert z == pytest.approx(np.mean(results[int(str(number))]))
    assert frame["z"].isna().sum() == len(frame) - len(played)


# -- nets -------------------------------------------------------------------------------------------------------------


def test_boards_of_python_chess_are_positions_with_their_history(store: vr.MinedStore) -> None:
    board = chess.Board()
    for move in ("e4", "c5", "Nf3"):
        board.push_san(move)
    by_board, by_text = vr.evaluate([board]), vr.evaluate("startpos moves e2e4 c7c5 g1f3")
    pd.testing.assert_frame_equal(by_board, by_text)
    assert vr.evaluate(board)["q"].item() == by_text["q"].item()
    with pytest.raises(vr.UsageError, match="a board of standard chess"):
        vr.evaluate(chess.Board(chess960=True))
    worst = next(store.iter_candidates(vr.Question(threshold=THRESHOLD)))
    shown = vr.show(store, chess.Board(worst.fen))
    assert shown.as_json() == vr.show(store, worst.position_id).as_json()


def test_an_open_store_may_be_given_wherever_its_path_may(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "a.db")
    with vr.open_store(tmp_path / "a.db") as opened:
        assert os.fspath(opened) == str(tmp_path / "a.db")
        written = vr.split(opened)
        assert sum(part.positions for part in written.parts.values()) == 1500
        compared = vr.compare(opened, ["maia-1900", "maia-1100"], vr.Question(threshold=THRESHOLD))
        assert [net.name for net in compared.nets] == ["maia-1900", "maia-1100"]
        assert vr.merge_stores([opened], tmp_path / "merged.db").rows
        # Only what is open for writing is written by its own connection; this one is opened again.
        with pytest.raises(vr.ValueRepairError, match=r"a\.db: no candidates in games at 1\.99"):
            vr.confirm(opened, vr.Question(threshold=1.99))


def test_evaluating_a_frame_gives_the_values_that_were_mined(store: vr.MinedStore) -> None:
    frame = store.frame().sample(40, random_state=1)
    evaluated = vr.evaluate(frame)
    assert evaluated.index.equals(frame.index)
    assert np.abs(evaluated["q"] - frame["net_q"]).max() < 1e-4
    assert (evaluated["best"] == frame["net_best"]).mean() > 0.95
    assert np.allclose(evaluated[["w", "d", "l"]].sum(axis=1), 1, atol=1e-5)
    assert evaluated.attrs["net"]["name"] == "maia-1900"
    # The history is part of it: a bare FEN is another question.
    bare = vr.evaluate(frame["fen"].tolist())
    assert np.abs(bare["q"].to_numpy() - frame["net_q"].to_numpy()).max() > 0.01


def test_all_ways_to_give_a_position_are_one(store: vr.MinedStore) -> None:
    candidate = next(store.iter_candidates(vr.Question(threshold=THRESHOLD)))
    text = f"startpos moves {' '.join(candidate.moves)}"
    with vr.open_net(threads=1) as net:
        evaluated = vr.evaluate([candidate, candidate.position, text], net)
        one = vr.evaluate(candidate, net)
        assert np.allclose(evaluated["q"], candidate.net_q, atol=1e-4)
        assert np.allclose(one["q"], candidate.net_q, atol=1e-4)
        assert vr.evaluate(candidate, net, nodes=20)["net_q"].item() == pytest.approx(candidate.net_q, abs=1e-4)
        assert len(vr.evaluate([], net)) == 0


def test_searching_is_what_vr_eval_does() -> None:
    printed = json.loads(command("eval", FEN, "--nodes", "60", "--set", "certainty=1", "--json", "-q"))
    [searched] = vr.evaluate(FEN, nodes=60, params=vr.SearchParams(certainty=True)).to_dict("records")
    assert searched["best"] == printed["best"]
    assert [(m.move, m.visits) for m in searched["moves"]] == [(m["uci"], m["n"]) for m in printed["root_moves"]]
    assert [searched[name] for name in ("q", "nodes", *"wdl")] == pytest.approx(
        [printed["q"], printed["nodes"], *printed["wdl"]]
    )


def test_a_finished_game_is_not_searched() -> None:
    positions = ["7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", FEN]
    mated, other = vr.evaluate_each(positions, nodes=10)
    assert mated.as_json()["error"] == "game over: checkmate"
    assert other.as_json()["nodes"] == 10
    table = vr.evaluate(positions, nodes=10)
    assert table["q"].isna().tolist() == [True, False]
    assert table["best"].isna().tolist() == [True, False]


loose: Any = vr  # mypy would refuse these words, too


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: vr.evaluate("nonsense"), "'nonsense'"),
        (lambda: vr.evaluate(FEN, net="nowhere.pb.gz"), "nowhere.pb.gz"),
        (lambda: vr.evaluate(pd.DataFrame({"fen": [FEN]})), "start_fen"),
        (lambda: vr.evaluate(FEN, nodes=0), "--nodes 0"),
        (lambda: vr.SearchParams(cpuct=-1).check(), "cpuct=-1"),
        (lambda: vr.open_store("nowhere.db"), "nowhere.db"),
        (lambda: vr.plot("scatter", SAMPLE, "plot.doc"), "plot.doc"),
        (lambda: vr.mine("nowhere.pgn", "x.db"), "nowhere.pgn"),
        (lambda: vr.stats(SAMPLE, worst=-1), "--worst -1"),
        (lambda: vr.write_books(SAMPLE, ""), "folder"),
        (lambda: vr.compare(SAMPLE, ["maia-1900", "maia-1100"], part="game"), "--part game"),
        (lambda: vr.match("a", "b", "x.pgn", vr.MatchOptions(games=3)), "--games 3: must be even"),
        (lambda: loose.SelfplayOptions(engine="x"), "--engine x"),
        (lambda: loose.export(SAMPLE, "new.csv", part="game"), "--part game"),
        (lambda: loose.compare(SAMPLE, ["maia-1900", "maia-1100"], 0.4), "0.4"),
        (lambda: loose.stats(SAMPLE, 0.3), "0.3"),
        (lambda: loose.stats(SAMPLE, use={"oracle": "x"}), "oracle"),
        (lambda: loose.open_store(SAMPLE).frame(only=["net_Q"]), "net_Q"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_writes_nothing(
    call: Callable[[], object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((vr.ValueRepairError, FileNotFoundError)) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# -- making things ----------------------------------------------------------------------------------------------------


def test_a_table_has_the_worst_positions_of_a_part(tmp_path: Path) -> None:
    db = Path(shutil.copy(SAMPLE, tmp_path / "a.db"))
    made = vr.split(db, games=0.3, families=0)
    worst, table = vr.Worst(0.1), tmp_path / "worst.csv"
    of_part = vr.export(db, table, worst, candidates_only=True, part="games")
    assert 0 < of_part < vr.export(db, tmp_path / "all.csv", worst, candidates_only=True)
    assert set(pd.read_csv(table)["part"]) == {"games"}
    assert made.parts["games"].positions > of_part
    assert vr.export(db, tmp_path / "held.csv", worst, candidates_only=True, part="held-out") == of_part


@pytest.mark.slow
def test_a_figure_is_drawn_and_written(store: vr.MinedStore, tmp_path: Path) -> None:
    question = vr.Question(threshold=THRESHOLD)
    figure = vr.plot("scatter", store, tmp_path / "scatter.svg", question)
    assert f"{len(store.candidates(question))} candidates" in (tmp_path / "scatter.svg").read_text("utf-8")
    assert vr.plot("scatter", SAMPLE, question=question).description == figure.description


def test_mining_is_what_vr_mine_does(tmp_path: Path) -> None:
    games = ROOT / "data" / "games.pgn.zst"
    words = ["--positions", "6", "--deep", "mcts:nodes=8", "--screen", "off", "--quiet"]
    command("mine", str(games), "--db", str(tmp_path / "said.db"), *words)
    summary = vr.mine(
        games, tmp_path / "made.db", vr.SampleOptions(per_game=None, positions=6), deep="mcts:nodes=8", screen=None
    )
    assert (summary.state, summary.scored) == ("finished", 6)
    with vr.open_store(tmp_path / "said.db") as by_command, vr.open_store(tmp_path / "made.db") as made:
        columns = ["fen", "net_q", "deep_q", "moves", "nodes"]
        pd.testing.assert_frame_equal(by_command.frame()[columns], made.frame()[columns])
    again = vr.mine(
        games, tmp_path / "made.db", vr.SampleOptions(per_game=None, positions=6), deep="mcts:nodes=8", screen=None
    )
    assert again.earlier == 6


@pytest.mark.slow
def test_comparing_is_what_vr_compare_does(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path))
    words = ["maia-1900", "maia-1100", "--threshold", "0.35", "--json", "-q"]
    printed = json.loads(command("compare", "--db", str(path), *words))
    compared = vr.compare(path, ["maia-1900", "maia-1100"], vr.Question(threshold=0.35))
    assert json.loads(json.dumps(compared.as_json())) == printed
    with vr.open_store(path) as after:
        assert after.frame(text=False).attrs["net"]["name"] == "maia-1900"  # mined for, not only compared
    figure = vr.plot_compared(compared, tmp_path / "pair.png")
    assert (tmp_path / "pair.png").stat().st_size > 10_000
    assert len(figure.axes) == 1


# -- second looks and games -------------------------------------------------------------------------------------------


def test_a_match_is_what_vr_match_plays(tmp_path: Path, stockfish: str) -> None:
    sides = (f"{stockfish},name=a", f"{stockfish},name=b")
    words = ["--games", "4", "--nodes", "200", "--jobs", "1", "--json", "-q"]
    printed = json.loads(command("match", f"{sides[0]},max_plies=40", sides[1], *words, "-o", f"{tmp_path}/said.pgn"))
    options = vr.MatchOptions(games=4, nodes="200", jobs=1, rules=vr.Rules(max_plies=40))
    end = vr.match(*sides, tmp_path / "made.pgn", options)
    assert {**end.as_json(), "pgn": ""} == {**printed, "pgn": ""}
    assert (end.standing.games, end.before) == (4, 0)
    assert end.lines()[0].startswith("a against b: 4 games")
    texts = [re.sub(r"\[%emt [^]]*\]", "", (tmp_path / f"{name}.pgn").read_text()) for name in ("made", "said")]
    assert texts[0] == texts[1]
    assert vr.match(*sides, tmp_path / "made.pgn", options).before == 4
