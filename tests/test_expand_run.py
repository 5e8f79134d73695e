"""Expansion as it runs: what it finds, whatever the engines' speed, and however often it was killed."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from scipy import stats
from valuerepair.runs.expand import ExpandOptions
from valuerepair.runs.expansion import ExpandSummary, Expansion
from valuerepair.runs.frontier import RANDOM_SHARE, is_drawn
from valuerepair.runs.options import MineOptions
from valuerepair.runs.stored_oracle import open_found
from valuerepair.screening.model import ScreenOptions

from tests import expand_doubles
from tests.expand_doubles import (
    NODES,
    QUESTION,
    BlindNet,
    LineOracle,
    expand_store,
    line_of,
    mined,
    net_q,
    true_q,
)
from tests.mining_doubles import dump, mine_by_key, random_games, rows, wait_for
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import decode_moves
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.question import Question
from valuerepair.runs import expand
from valuerepair.store.check import integrity_checks
from valuerepair.store.store import Store

Dump = dict[str, list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of sampled positions."""
    return mined(tmp_path_factory.mktemp("mined"))


@pytest.fixture
def db(archive: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(archive, tmp_path / "a.db"))


@pytest.fixture(scope="module")
def expansion(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExpandSummary]:
    """The store, expanded as far as it goes."""
    path = Path(shutil.copy(archive, tmp_path_factory.mktemp("whole") / "a.db"))
    return path, expand_store(path)


@pytest.fixture(scope="module")
def expanded(expansion: tuple[Path, ExpandSummary]) -> Path:
    path, summary = expansion
    assert summary.state == "finished"
    return path


@pytest.fixture(scope="module")
def whole(expanded: Path) -> Dump:
    return dump(expanded)


def table(path: Path, query: str) -> list[dict[str, Any]]:
    with Store.open(path) as store:
        cursor = store.connection.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


REACHED = """
SELECT e.*, p.key, p.fen, p.start_fen, p.moves, p.ply, p.game_id, n.q FROM expanded e
JOIN positions p ON p.id = e.position_id JOIN net_values n ON n.position_id = p.id ORDER BY p.id
"""


# -- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_position_is_reached_as_it_says(expanded: Path) -> None:
    of = {row["id"]: row for row in table(expanded, "SELECT * FROM positions")}
    reached = table(expanded, REACHED)
    assert {row["round"] for row in reached} == {1, 2}
    in_table = {row["position_id"] for row in reached}
    first = {row["position_id"]: row["best_move"] for row in table(expanded, "SELECT * FROM deep_values")}
    assert {row["step"] for row in reached[::3]} == {"line", "parent", "child", "game"}
    for row in reached[::3]:
        parent, root = of[row["parent_id"]], of[row["root_id"]]
        assert root["id"] not in in_table
        assert (row["parent_id"] in in_table) == (row["round"] == 2)
        assert row["game_id"] == parent["game_id"] == root["game_id"]
        moves, parent_moves = (decode_moves(np.frombuffer(position["moves"], "<u2")) for position in (row, parent))
        board = chess.Board(row["start_fen"])
        for move in moves:
            board.push_uci(move)
        assert board.fen() == row["fen"]
        assert any(board.legal_moves)
        plies = abs(len(moves) - len(parent_moves))
        assert row["ply"] - parent["ply"] == len(moves) - len(parent_moves)
        if row["step"] == "line":
            assert moves == (*parent_moves, *line_of(parent["fen"], 6)[: row["distance"]])
        elif row["step"] == "child":
            assert moves[:-1] == parent_moves
            assert moves[-1] != first[parent["id"]]  # the search's own move is the line's
        else:
            assert plies == row["distance"]
            assert moves == parent_moves[: len(moves)] or parent_moves == moves[: len(parent_moves)]
        assert row["q"] == pytest.approx(net_q(row["fen"]))


def test_values_are_those_of_the_search_or_of_the_line(expanded: Path) -> None:
    joined = "deep_values v JOIN expanded e USING (position_id) JOIN positions p ON p.id = e.position_id"
    searched = table(expanded, f"SELECT v.*, p.fen FROM {joined}")
    assert {"expanded", "inferred"} <= {row["stage"] for row in searched}
    for row in searched:
        if row["stage"] in ("expanded", "inferred"):
            # The line keeps all men on the board, so what is inferred is right.
            assert np.tanh(row["cp"] / (2 * expand_doubles.ALPHA)) == pytest.approx(true_q(row["fen"]), abs=2e-3)
        if row["stage"] == "inferred":
            assert (row["nodes"], row["time_ms"]) == (0, 0)
            assert row["pv"] == "" or row["pv"].split()[0] == row["best_move"]
            assert 9 - row["depth"] in range(1, 7)
    with Store.open(expanded) as store:
        assert not [check for check in integrity_checks(store) if check.wrong]


def test_the_archive_is_as_it_was(archive: Path, expanded: Path) -> None:
    with Store.open(archive) as before, Store.open(expanded) as after:
        for question in (Question(), Question(threshold=0.3)):
            one, other = before.frame(question), after.frame(question)
            assert one.equals(other)
            assert one.attrs == other.attrs
        assert len(after.frame(Question(expanded="all"))) > 3 * len(before.frame(Question()))


def test_summary_and_store_say_the_same(expansion: tuple[Path, ExpandSummary]) -> None:
    db, summary = expansion
    question = Question(alpha=QUESTION.alpha, threshold=QUESTION.threshold, expanded="all")
    with Store.open(db) as store:
        frame = store.frame(question)
        (nodes,) = store.connection.execute("SELECT sum(nodes) FROM expanded").fetchone()
    hits, reached = frame["disagreement"].abs() >= QUESTION.threshold, frame["step"].notna()
    assert summary.tally.found == (hits & reached & ~frame["inferred"]).sum() > 0
    assert summary.tally.nodes == nodes
    assert summary.tally.inferred > 0
    assert f"next: vr books --db {db} --threshold 0.5 --alpha 200 --expanded all" in "\n".join(summary.lines())


def test_nodes_go_where_most_is_found(archive: Path, tmp_path: Path) -> None:
    """Of as many searches, chosen ones find more than those that are drawn by chance."""
    path = Path(shutil.copy(archive, tmp_path / "b.db"))
    expand_store(path, positions=250)
    reached = [row for row in table(path, REACHED) if row["step"] != "line"]
    hits = np.array([abs(net_q(row["fen"]) - true_q(row["fen"])) >= QUESTION.threshold for row in reached])
    drawn = np.array([bool(row["drawn"]) for row in reached])
    assert drawn.sum() >= 15
    assert hits[~drawn].mean() > hits[drawn].mean()


@pytest.mark.slow
def test_what_is_drawn_by_chance_says_the_rate_of_all(expanded: Path) -> None:
    reached = [row for row in table(expanded, REACHED) if row["step"] != "line"]
    hits = np.array([abs(net_q(row["fen"]) - true_q(row["fen"])) >= QUESTION.threshold for row in reached])
    drawn = np.array([bool(row["drawn"]) for row in reached])
    assert [is_drawn(row["key"] % 2**64) for row in reached] == drawn.tolist()
    low, high = stats.binom(len(reached), RANDOM_SHARE).interval(0.999)
    assert low <= drawn.sum() <= high
    assert stats.fisher_exact([[hits[drawn].sum(), (~hits[drawn]).sum()],
                               [hits[~drawn].sum(), (~hits[~drawn]).sum()]]).pvalue > 0.001  # fmt: skip


def test_without_a_ladder_all_is_searched_in_full(db: Path) -> None:
    summary = expand_store(db, screen=None, positions=200, oracle=LineOracle(fails=False))
    assert summary.tally.cut == 0
    assert summary.tally.nodes == NODES * summary.tally.planned
    assert all(row["nodes"] == NODES for row in table(db, "SELECT nodes FROM expanded WHERE step <> 'line'"))


# -- the same, however it runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "delay"), [(1, 0.0), (3, 0.004)])
@pytest.mark.slow
def test_the_engines_speed_changes_nothing(db: Path, whole: Dump, workers: int, delay: float) -> None:
    expand_store(db, LineOracle(workers, delay))
    assert dump(db) == whole


def start(db: Path, delay: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.expand_doubles", str(db), str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_it_ends_as_if_never_killed(db: Path, whole: Dump) -> None:
    dice, begun = random.Random(3), rows(db)
    counts = [begun]
    for _ in range(2):
        process = start(db, delay=0.02)
        wait_for(process, db, counts[-1] + dice.randrange(50, 400))
        time.sleep(dice.uniform(0, 0.3))
        process.kill()
        process.communicate()
        counts.append(rows(db))
    assert counts == sorted(counts)
    assert begun < counts[1] < len(whole["deep_values"]), counts
    assert start(db, delay=0).wait() == 0
    assert dump(db) == whole


@pytest.mark.slow
def test_a_signal_ends_cleanly_and_the_next_run_goes_on(db: Path, whole: Dump) -> None:
    process = start(db, delay=0.05)
    wait_for(process, db, rows(db) + 100)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command again" in printed
    assert table(db, "SELECT state FROM runs ORDER BY id DESC LIMIT 1") == [{"state": "interrupted"}]
    expand_store(db)
    assert dump(db) == whole


def test_an_expansion_that_is_complete_searches_nothing_again(expanded: Path, whole: Dump) -> None:
    oracle = LineOracle()
    again = expand_store(expanded, oracle)
    assert oracle.searched == []
    assert again.nodes == 0
    assert dump(expanded) == whole


def test_another_question_goes_on_from_what_is_known(expanded: Path, tmp_path: Path) -> None:
    """A lower threshold: what was searched for the higher one is not searched again, and what is left is."""
    path = Path(shutil.copy(expanded, tmp_path / "b.db"))
    with Store.open(path) as store:
        before = len(store.frame(Question(expanded="all")))
        scored = {position.fen for position in store.frame(Question(expanded="searched")).itertuples()}
    oracle = LineOracle()
    lower = expand_store(path, oracle, question=replace(QUESTION, threshold=0.4), positions=100)
    assert not {position.fen for position in oracle.searched} & scored
    assert lower.tally.planned <= 100
    assert lower.tally.found > 200  # most of them were known
    with Store.open(path) as store:
        assert len(store.frame(Question(expanded="all"))) >= before
        assert not [check for check in integrity_checks(store) if check.wrong]


def test_no_question_to_the_store_looks_at_all_that_was_reached(expanded: Path, tmp_path: Path) -> None:
    """Each is asked for every batch or window: a walk over a large table would make a long run quadratic."""
    path, statements = Path(shutil.copy(expanded, tmp_path / "plans.db")), dict[str, None]()
    with Store.open(path, write=True) as store, LineOracle() as oracle:
        store.connection.set_trace_callback(lambda text: statements.setdefault(text))
        options = ExpandOptions(question=QUESTION, screen=ScreenOptions(rungs=expand_doubles.RUNGS, recall=0.9))
        expand.expand(store, BlindNet(), oracle, options)
        store.connection.set_trace_callback(None)
        often = [text for text in statements if "json_each" in text and text.lstrip().startswith("SELECT")]
        assert len(often) > 20
        for text in often:
            tables = {alias: name for name, alias in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)\s+(\w)\b", text)}
            plan = [row[-1].split() for row in store.connection.execute(f"EXPLAIN QUERY PLAN {text}")]
            scanned = {tables.get(step[1], step[1]) for step in plan if step[0] == "SCAN"}
            assert not scanned & {"positions", "games", "net_values", "deep_values", "expanded", "failures"}, text


# -- where it ends ----------------------------------------------------------------------------------------------------


def test_it_ends_after_so_many_positions_and_goes_further_with_more(db: Path, archive: Path, tmp_path: Path) -> None:
    first = expand_store(db, positions=70)
    assert (first.state, first.why, first.tally.planned) == ("limited", "positions", 70)
    oracle = LineOracle()
    second = expand_store(db, oracle, positions=200)
    assert second.tally.planned == 200
    assert len(oracle.searched) <= 130
    at_once = Path(shutil.copy(archive, tmp_path / "once.db"))
    assert expand_store(at_once, positions=200).tally.found == pytest.approx(second.tally.found, rel=0.1)


def test_it_ends_where_searches_bring_less_than_in_the_archive(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A net that is wrong on the sampled positions alone."""
    sampled = {row["fen"] for row in table(db, "SELECT fen FROM positions")}
    monkeypatch.setattr(expand_doubles, "net_q", lambda fen: net_q(fen) if fen in sampled else true_q(fen))
    monkeypatch.setattr(expand, "_BATCH", 16)
    summary = expand_store(db)
    assert (summary.state, summary.why) == ("finished", "yield")
    assert summary.tally.found == 0


def test_poorer_is_what_chance_does_not_explain(db: Path) -> None:
    with Store.open(db) as store:
        start = Expansion.of(store, BlindNet(), LineOracle().identity, QUESTION)
    rate = len(start.candidates) / start.sampled_nodes
    for candidates in (0, 3, 12):
        upper = stats.chi2.ppf(0.975, 2 * (candidates + 1)) / 2  # Garwood's interval
        assert not start.is_poorer(candidates, int(0.98 * upper / rate))
        assert start.is_poorer(candidates, int(1.02 * upper / rate))


@pytest.mark.slow
def test_later_mining_learns_nothing_from_what_was_reached(archive: Path, expanded: Path, tmp_path: Path) -> None:
    """The archive's ladder, fitted on further games, is the same with and without an expansion before."""
    more = random_games(tmp_path / "more.pgn", 60, seed=11)
    screen = ScreenOptions(rungs=expand_doubles.RUNGS, recall=0.9)
    options = MineOptions(sample=SampleOptions(per_game=4), question=QUESTION, screen=screen)
    models: list[list[bytes]] = []
    for before in (archive, expanded):
        path = Path(shutil.copy(before, tmp_path / f"{len(models)}.db"))
        mine_by_key(more, path, net=BlindNet(), oracle=LineOracle(), options=options)
        models.append([row["model"] for row in table(path, "SELECT model FROM screens WHERE NOT expanded ORDER BY id")])
    assert models[0]
    assert models[0] == models[1]


# -- bad input --------------------------------------------------------------------------------------------------------


def test_without_candidates_there_is_nothing_to_go_out_from(db: Path) -> None:
    with pytest.raises(ValueRepairError, match=r"no candidates at 1\.99 to start from; mine more"):
        expand_store(db, question=Question(alpha=200.0, threshold=1.99))


def test_an_engine_that_always_fails_is_broken_as_a_whole(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineOracle, "_climb", lambda *arguments: DeepFailure("crashed", 3))
    monkeypatch.setattr(expand, "AUDITED", 0.0)
    with pytest.raises(ValueRepairError, match=r"the deep search .* failed on each of the 10 positions"):
        expand_store(db)


def test_a_net_or_an_engine_of_unknown_place_is_asked_for(db: Path, maia_file: str) -> None:
    with Store.open(db) as store:
        with pytest.raises(UsageError, match="does not know where the net key-net"), open_found(store, Question()):
            pass
        with (
            pytest.raises(ValueRepairError, match=r"no net .*maia-1900.* in .*; it has key-net"),
            open_found(store, Question(net=maia_file)),
        ):
            pass
