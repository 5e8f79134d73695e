"""Second looks: the laws of the rule, what is searched again and kept, figures, and `vr confirm` as users type it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import valuerepair as vr
from tests.confirm_doubles import (
    STOCKFISH,
    Candidate,
    SecondOracle,
    by_length,
    look_again,
    make_store,
    many,
    position_of,
)
from tests.mining_doubles import dump, rows, wait_for
from tests.survey_intervals import wilson_by_games
from tests.vr_runs import here
from valuerepair.chess import values
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mining.again import NET_RIGHT, SEARCH_RIGHT, UNCLEAR, VERDICTS, decide, evidence, second_looks
from valuerepair.mining.judges import deeper_spec
from valuerepair.oracles.open import open_judge
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome
from valuerepair.question import Question
from valuerepair.rates import weighted
from valuerepair.report.stats import store_stats
from valuerepair.store import view
from valuerepair.store.pairs import judges, pick
from valuerepair.store.rows import DeepResult, JudgeIdentity, RunRecord, StoredJudge
from valuerepair.store.store import Store

FAKE = Path(__file__).with_name("fake_engine.py")
NAN = float("nan")
DEEPER = replace(STOCKFISH, limits={"nodes": 10_000})
OTHER = JudgeIdentity("uci", "Other 1.0", "aa" * 32, {"nodes": 10_000}, {})
OWN_Q = JudgeIdentity("mcts", "valuerepair search", "bb" * 32, {"nodes": 800}, {}, "some-net")
# Mates in one; drawn by theory: king before the rook's pawn, opposition, stalemate in the corner, the wrong bishop.
MATES = ("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", "7k/5K2/8/8/8/8/8/6Q1 w - - 0 1", "6rk/6pp/8/6N1/8/8/8/6K1 w - - 0 1")
DRAWN = (
    "k7/8/K7/P7/8/8/8/8 w - - 0 1",
    "8/8/8/3k4/8/3K4/3P4/8 w - - 0 1",
    "6k1/8/6KP/8/8/8/8/8 w - - 0 1",
    "8/8/4k3/8/8/3BK3/7P/8 w - - 0 1",
)

qs = st.integers(-1000, 1000).map(lambda q: q / 1000)


def one(net: float, deep: float, second: float) -> int:
    return int(decide(*(np.array([q], np.float64) for q in (net, deep, second)))[0])


# -- the rule ---------------------------------------------------------------------------------------------------------


@given(qs, qs, qs)
def test_net_and_search_change_places(net: float, deep: float, second: float) -> None:
    assert one(net, deep, second) == -one(deep, net, second) == one(-net, -deep, -second)


@given(qs, qs, qs, qs)
def test_a_second_look_nearer_to_the_search_is_never_worse_for_it(
    net: float, deep: float, second: float, other: float
) -> None:
    nearer, farther = sorted((second, other), reverse=deep > net)
    assert one(net, deep, nearer) >= one(net, deep, farther)


@given(qs, qs.filter(bool))
def test_a_look_at_one_of_the_two_values_decides_for_it(net: float, apart: float) -> None:
    deep = net + apart
    assert one(net, deep, deep) == 1
    assert one(net, deep, net) == -1
    assert one(net, deep, (net + deep) / 2) == 0


@pytest.mark.parametrize(
    ("second", "decided"),
    [
        (-0.2, 1),  # the search's third of net +0.8, search -0.4 ends at 0
        (0.0, 1),
        (0.01, 0),
        (0.39, 0),
        (0.4, -1),
        (-1.0, 1),  # beyond the search's value
        (NAN, 0),
    ],
)
def test_worked_examples(second: float, decided: int) -> None:
    assert one(0.8, -0.4, second) == decided


# -- what second looks say --------------------------------------------------------------------------------------------


def candidates() -> list[Candidate]:
    """Five positions after one move each: the net says +0.9 and e7e5, the first look -50 centipawns and d7d5."""
    first = DeepResult(cp=-50, wdl=(200, 400, 400), best_move="d7d5")
    moves = ("e2e4", "d2d4", "c2c4", "g1f3", "b1c3")
    return [Candidate(position_of(chess.STARTING_FEN, move), 0.9, first, "e7e5") for move in moves]


def add(
    path: Path,
    judge: JudgeIdentity,
    looks: dict[int, DeepResult],
    first: JudgeIdentity = STOCKFISH,
    role: str = "first",
) -> None:
    """Adds second looks: position -> result; `role` is that of the first judge."""
    judges = {role: first.digest, "second": judge.digest}
    record = RunRecord("second " + judge.digest, "vr confirm", judges, {})
    with Store.open(path, write=True) as store, store.running(record) as run:
        for position_id, result in looks.items():
            store.add_deep(position_id, store.add_judge(judge), result, run)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_store(tmp_path / "a.db", candidates())


def test_nothing_looked_at(path: Path) -> None:
    """No looks at all; and looks, but at none of these."""
    for looked in ({}, {1: DeepResult(cp=-60)}):
        add(path, DEEPER, looked)
        with Store.open(path) as store:
            frame = view.candidates(store)
            frame = frame[frame["position_id"] != 1]
            assert evidence(store, frame)["verdict"].tolist() == [None] * 4
            counted = second_looks(store, frame, 0.55)
        assert (counted.candidates, counted.looked, counted.second) == (4, 0, None)


def test_what_a_look_says(path: Path) -> None:
    add(path, DEEPER, {2: DeepResult(cp=-60, best_move="d7d5", nodes=7)})
    with Store.open(path) as store:
        row = evidence(store, view.frame(store, Question(alpha=200))).iloc[1]
    assert row.to_dict() == {
        "second_q": values.cp_to_q(-60, 200), "second_best": "d7d5", "second_nodes": 7, "looked": True,
        "verdict": SEARCH_RIGHT,
    }  # fmt: skip


def test_verdicts_go_with_the_frame_however_it_is_cut_and_sorted(path: Path) -> None:
    scores = {1: -60, 2: 900, 4: 100, 5: -50}
    add(path, DEEPER, {i: DeepResult(cp=cp) for i, cp in scores.items()})
    expected = {1: SEARCH_RIGHT, 2: NET_RIGHT, 3: None, 4: UNCLEAR, 5: SEARCH_RIGHT}
    with Store.open(path) as store:
        frame = view.frame(store)
        for part in (frame, frame.iloc[::-1], frame.iloc[[4, 1]], frame.iloc[:0], view.frame(store, text=False)):
            verdicts = evidence(store, part)["verdict"]
            assert list(verdicts.index) == list(part.index)
            assert verdicts.tolist() == [expected[i] for i in part["position_id"]]


def test_second_looks_never_mix_into_what_was_mined(path: Path) -> None:
    def said() -> list[object]:
        with Store.open(path) as store:
            stats = {**store_stats(store).as_json()["scored"], "confirmed": None}
            return [view.frame(store).to_json(), view.candidates(store).to_json(), pick(store), json.dumps(stats)]

    before = said()
    add(path, DEEPER, dict.fromkeys(range(1, 6), DeepResult(cp=800)))
    assert said() == before


def test_the_verdict_is_asked_for_an_alpha(path: Path) -> None:
    add(path, DEEPER, {1: DeepResult(cp=90)})
    with Store.open(path) as store:
        verdicts = {
            a: evidence(store, view.frame(store, Question(alpha=a)))["verdict"].iloc[0] for a in (20, 170, 2000)
        }
    assert verdicts == {20: NET_RIGHT, 170: UNCLEAR, 2000: SEARCH_RIGHT}


def test_wdl_is_asked_of_both_looks(path: Path) -> None:
    add(path, DEEPER, {1: DeepResult(cp=-50, wdl=(900, 100, 0)), 2: DeepResult(cp=-50)})
    with Store.open(path) as store:
        frame = view.frame(store, Question(q_from="wdl"))
        looked_at = evidence(store, frame)
        assert looked_at["verdict"].tolist()[:3] == [NET_RIGHT, UNCLEAR, None]
        assert np.isnan(looked_at["second_q"].iloc[1])


def test_the_alpha_is_the_first_looks_unless_the_second_gives_q(path: Path) -> None:
    for second, look, q in ((OTHER, DeepResult(cp=90), values.cp_to_q(90, 240)), (OWN_Q, DeepResult(cp=9, q=0.5), 0.5)):
        add(path, second, {1: look})
        with Store.open(path) as store:
            said = evidence(store, view.frame(store, Question(alpha=240)), second.digest)
        assert (said["second_q"].iloc[0], said.attrs["alpha"]["value"]) == (q, 240)


def test_the_oracle_of_most_looks_is_asked_unless_another_is_named(path: Path) -> None:
    add(path, DEEPER, {1: DeepResult(cp=-50), 2: DeepResult(cp=-50)})
    add(path, OTHER, {1: DeepResult(mate=2)})
    with Store.open(path) as store:
        frame = view.frame(store)
        assert evidence(store, frame)["verdict"].iloc[0] == SEARCH_RIGHT
        assert evidence(store, frame, "other 1.0 nodes=10000")["verdict"].iloc[0] == NET_RIGHT
        assert evidence(store, frame, OTHER.digest)["verdict"].iloc[1] is None
        # Of the rows asked about: the newer oracle looked at as many of these as the other one.
        assert evidence(store, frame.iloc[:1])["verdict"].iloc[0] == NET_RIGHT
        assert evidence(store, frame, STOCKFISH.digest)["verdict"].tolist() == [None] * 5
        with pytest.raises(ValueRepairError, match="no judge komodo in"):
            evidence(store, frame, "komodo")


def test_the_same_search_by_another_limit_is_no_second_look_unless_it_was_asked_for(path: Path) -> None:
    add(path, replace(STOCKFISH, limits={"depth": 5}), {1: DeepResult(cp=-50)}, first=DEEPER)
    with Store.open(path) as store:
        assert not evidence(store, view.frame(store))["looked"].any()
    add(path, DEEPER, {1: DeepResult(cp=-50)}, first=OTHER)
    with Store.open(path) as store:
        assert evidence(store, view.frame(store)).attrs["second"]["label"].endswith("nodes=10000")


def test_the_judge_of_a_comparison_takes_no_second_look(path: Path) -> None:
    """It comes later than that of `vr confirm`, and looks at as many."""
    for judge, role, cp in ((DEEPER, "first", 900), (replace(DEEPER, limits={"nodes": 90_000}), "compared", -50)):
        add(path, judge, {1: DeepResult(cp=cp)}, role=role)
    with Store.open(path) as store:
        assert evidence(store, view.frame(store))["verdict"].iloc[0] == NET_RIGHT


def test_figures_are_shares_of_those_looked_at(path: Path) -> None:
    add(path, DEEPER, {i: DeepResult(cp=cp) for i, cp in ((1, -60), (2, 900), (3, 100), (4, -50))})
    with Store.open(path) as store:
        frame = view.frame(store, Question(alpha=170))
        told = second_looks(store, frame, 0.55)
        weighty = frame.assign(weight=[1.0, 5.0, 2.0, 1.0, 9.0])
        weighty.attrs = frame.attrs
        heavy = second_looks(store, weighty, 0.55)
    assert (told.candidates, told.looked) == (5, 4)
    counts = {kind: told.rates[kind].count for kind in VERDICTS}
    assert counts == {SEARCH_RIGHT: 2, NET_RIGHT: 1, UNCLEAR: 1}
    assert told.rates[SEARCH_RIGHT].rate == 0.5
    hits, games = np.array([True, False, False, True]), frame["game_id"].to_numpy()[:4]
    expected = weighted(hits, np.array([1.0, 5.0, 2.0, 1.0]), games)
    assert heavy.rates[SEARCH_RIGHT].rate == expected.rate == 2 / 9
    assert (heavy.rates[SEARCH_RIGHT].low, heavy.rates[SEARCH_RIGHT].high) == (expected.low, expected.high)


# -- what is searched again -------------------------------------------------------------------------------------------


def looks(path: Path) -> dict[int, tuple[object, ...]]:
    """Position -> cp, mate, nodes of what the deeper judge said."""
    with Store.open(path) as store:
        query = """
            SELECT position_id, cp, mate, v.nodes FROM deep_values v JOIN judges j ON j.id = v.judge_id
            WHERE j.label LIKE '%nodes=10000' AND failed IS NULL
        """
        return {row[0]: row[1:] for row in store.connection.execute(query)}


def test_a_candidate_is_searched_with_its_history(tmp_path: Path) -> None:
    line = ("e2e4", "e7e5")
    row = Candidate(position_of(chess.STARTING_FEN, *line), 0.9, DeepResult(cp=-50, best_move="f1b5"), "e1e2")
    path, judge = make_store(tmp_path / "a.db", [row]), SecondOracle(by_length, workers=1)
    done = look_again(path, judge)
    assert [(position.moves, position.fen) for position in judge.searched] == [(line, row.position.fen)]
    assert looks(path) == {1: (-141, None, 10_000)}
    assert (done.searched, done.failed, done.nodes, done.stopped) == (1, 0, 10_000, False)


def test_what_is_there_is_not_searched_again(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 12)
    assert look_again(path, SecondOracle(by_length), limit=5).searched == 5
    # The threshold may be another one: what counts is the position and who looked.
    assert look_again(path, SecondOracle(by_length), threshold=0.9).searched == 7
    again = SecondOracle(by_length)
    assert look_again(path, again).searched == len(again.searched) == 0
    with Store.open(path) as store:
        assert evidence(store, view.candidates(store))["verdict"].notna().all()


def test_a_limit_counts_what_was_looked_at_before(tmp_path: Path) -> None:
    """Interrupted after two candidates, the same command looks at three more, not at five."""
    path = many(tmp_path / "a.db", 12)
    look_again(path, SecondOracle(by_length), limit=2)
    for _ in range(2):
        look_again(path, SecondOracle(by_length), limit=5)
        assert len(looks(path)) == 5


def test_what_the_judge_said_before_is_its_second_look(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 3)
    with Store.open(path, write=True) as store, store.running(RunRecord("more", "vr mine", {}, {})) as run:
        store.add_deep(2, store.add_judge(SecondOracle(by_length).identity), DeepResult(cp=77, nodes=9), run)
    assert look_again(path, SecondOracle(by_length)).searched == 2
    assert looks(path)[2] == (77, None, 9)


def start(db: Path, delay: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.confirm_doubles", str(db), str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


@pytest.mark.slow
def test_killed_and_gone_on_with_it_ends_as_if_never_killed(tmp_path: Path) -> None:
    db, dice, mined = many(tmp_path / "killed.db", 60), random.Random(3), 60
    counts = [mined]
    for kill in (signal.SIGKILL, signal.SIGINT):
        process = start(db, delay=0.1)
        wait_for(process, db, counts[-1] + dice.randrange(1, 12))
        process.send_signal(kill)
        process.communicate(timeout=30)
        assert process.returncode == (130 if kill == signal.SIGINT else -kill)
        counts.append(rows(db))
    assert counts == sorted(counts)
    assert mined < counts[-1] < 2 * mined, counts
    look_again(db, SecondOracle(by_length))
    whole = many(tmp_path / "whole.db", 60)
    look_again(whole, SecondOracle(by_length))
    assert dump(db) | {"runs": []} == dump(whole) | {"runs": []}


def test_failures_are_kept_and_tried_again(tmp_path: Path) -> None:
    def failing(position: Position) -> DeepOutcome:
        return DeepFailure("crashed", 3) if len(position.moves) == 1 else by_length(position)

    path = many(tmp_path / "a.db", 3)
    assert look_again(path, SecondOracle(failing)).failed == 1
    with Store.open(path) as store:
        failures = store.connection.execute("SELECT position_id, failed FROM deep_values WHERE failed NOT NULL")
        assert failures.fetchall() == [(2, "crashed")]
        assert evidence(store, view.frame(store))["verdict"].notna().tolist() == [True, False, True]
    assert look_again(path, SecondOracle(by_length)).searched == 1
    assert sorted(looks(path)) == [1, 2, 3]


# -- the truth is known -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two stores of mates and drawn endings for both colours: in the one the search is right, in the other the net."""
    sides: list[list[Candidate]] = [[], []]
    win, draw = (1.0, DeepResult(mate=1), DeepResult(cp=-400), 0.1), (0.0, DeepResult(cp=0), DeepResult(cp=900), 0.9)
    for game, fen in enumerate((*MATES, *DRAWN)):
        truth, right, wrong, wrong_q = win if fen in MATES else draw
        for board in (chess.Board(fen), chess.Board(fen).mirror()):
            position = position_of(board.fen())
            sides[0].append(Candidate(position, wrong_q, right, game=game + 1))
            sides[1].append(Candidate(position, truth, wrong, game=game + 1))
    folder = tmp_path_factory.mktemp("known")
    return [make_store(folder / f"{name}.db", side) for name, side in zip("ab", sides, strict=True)]


@pytest.mark.parametrize(("side", "verdict"), [(0, SEARCH_RIGHT), (1, NET_RIGHT)])
@pytest.mark.slow
def test_stockfish_finds_who_was_right(known: list[Path], stockfish: str, side: int, verdict: str) -> None:
    done = vr.confirm(known[side], deep="stockfish:nodes=20000")
    assert done.state == "finished"
    assert done.verdicts.as_json()["second"]["label"] == "stockfish 15.1 nodes=20000"
    found = done.verdicts.rates[verdict]
    assert found.count == done.verdicts.candidates == 14
    # No game differs from another: seven games of two candidates.
    assert found.low == pytest.approx(wilson_by_games(rate=1, fewer=0, rows=14, games=7, ratio=0)[0])
    assert len(done.cases) == (5 if verdict == NET_RIGHT else 0)
    with Store.open(known[side]) as store:
        for row in view.candidates(store).join(evidence(store, view.candidates(store))).to_dict("records"):
            board = chess.Board(row["fen"])
            if row["second_q"] == 1.0:
                board.push_uci(row["second_best"])
                assert board.is_checkmate()
    # All of it is there now: nothing is searched again, for another alpha either.
    again = vr.confirm(known[side], vr.Question(alpha=100.0), deep="stockfish:nodes=20000")
    assert (again.done.searched, again.alpha.value) == (0, 100)


# -- which oracle -----------------------------------------------------------------------------------------------------


def stored(tmp_path: Path, identity: JudgeIdentity) -> StoredJudge:
    path = make_store(tmp_path / "a.db", [Candidate(position_of(chess.STARTING_FEN), 0.9, DeepResult(cp=0))], identity)
    with Store.open(path) as store:
        return judges(store)[0]


UNUSUAL = {"Threads": "2", "Hash": "16", "UCI_ShowWDL": "true", "SyzygyPath": "/a,b"}
MCTS = JudgeIdentity("mcts", "search", "ab" * 32, {"nodes": 800}, {"cpuct": "2.5", "device": "CPU"}, "n")
LC0 = JudgeIdentity("lc0", "Lc0", "1", {"nodes": 800}, {"WeightsFile": "sha256:ab", "Backend": "eigen"}, "n")
RECORDED = JudgeIdentity("recorded", "recorded", "", {}, {"kind": "eval"})


@pytest.mark.parametrize(
    ("identity", "deep", "spec"),
    [
        (STOCKFISH, None, "stockfish:nodes=10000"),
        (STOCKFISH, "mcts:nodes=5", "mcts:nodes=5"),
        (
            replace(STOCKFISH, options=UNUSUAL, limits={"movetime": 50}),
            None,
            "stockfish:movetime=500,option.SyzygyPath=/a\\,b,option.Threads=2",
        ),
        (MCTS, None, "mcts:nodes=8000,certainty=0,lookahead=0,auto_extend=0,cpuct=2.5"),
        (LC0, None, "lc0:nodes=8000,option.Backend=eigen"),
        (RECORDED, None, None),
    ],
)
def test_the_second_look_is_the_first_ones_oracle_with_more_nodes(
    tmp_path: Path, identity: JudgeIdentity, deep: str | None, spec: str | None
) -> None:
    assert deeper_spec(stored(tmp_path, identity), deep) == spec


@pytest.mark.parametrize(
    ("identity", "deep"),
    [
        (replace(STOCKFISH, limits={"depth": 9}), None),
        (replace(STOCKFISH, kind="uci"), None),
        (STOCKFISH, "deeper"),
    ],
)
def test_oracles_that_cannot_look_again(tmp_path: Path, identity: JudgeIdentity, deep: str | None) -> None:
    with pytest.raises(UsageError, match=r"--deep|deeper"):
        deeper_spec(stored(tmp_path, identity), deep)


def test_recorded_evaluations_are_looked_at_by_a_real_search(tmp_path: Path, stockfish: str) -> None:
    path = make_store(tmp_path / "a.db", [Candidate(position_of(MATES[2]), 0.9, DeepResult(cp=-300))], RECORDED)
    done = vr.confirm(path, deep="stockfish:nodes=3000")
    (case,) = done.cases
    assert (case["verdict"], case["second_best"], case["second_q"]) == (NET_RIGHT, "g5f7", 1.0)
    assert done.verdicts.as_json()["second"]["label"] == "stockfish 15.1 nodes=3000"


def test_the_built_in_search_looks_again_with_the_net_it_had(tmp_path: Path, shared_data: Path) -> None:
    net = shared_data / "nets" / "maia-1900.pb.gz"
    fen = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"
    (tmp_path / "mate.epd").write_text(fen + "\n")
    mined = here("mine", "mate.epd", "--net", net, "--deep", "mcts:nodes=2", "--jobs", "1", cwd=tmp_path)
    assert mined.returncode == 0, mined.stderr
    with Store.open(tmp_path / "valuerepair.db") as store:
        off = abs(view.frame(store)["disagreement"].iloc[0])
    assert off > 0
    question = vr.Question(net=str(net), threshold=off * 0.9)
    verdicts = vr.confirm(tmp_path / "valuerepair.db", question, deep="mcts:nodes=100").verdicts
    assert verdicts.as_json()["second"]["label"].endswith("maia-1900 nodes=100 certainty=1 lookahead=1 auto_extend=1")
    assert verdicts.as_json()["alpha"]["origin"] == "the search's own Q"
    assert verdicts.looked == 1


# -- a fake engine ----------------------------------------------------------------------------------------------------


def fake(*behaviour: str) -> str:
    arguments = ",".join(f"arg={word}" for word in (str(FAKE), *behaviour))
    return f"uci:{sys.executable},nodes=99,{arguments}"


def test_another_engine_that_crashes_on_some_positions(tmp_path: Path) -> None:
    first = DeepResult(cp=-50)
    candidates = [Candidate(position_of(chess.STARTING_FEN, move), 0.9, first) for move in ("a2a3", "h2h3")]
    path = make_store(tmp_path / "a.db", [*candidates, Candidate(position_of(chess.STARTING_FEN), 0.9, first, "d2d4")])
    result = vr.confirm(path, deep=fake("best=b7b6", "crash-on=h2h3"))
    # On 1. h3 it crashes; at the start, where White is to move, its b7b6 is not legal.
    assert (result.done.failed, result.verdicts.looked) == (2, 1)
    assert result.verdicts.as_json()["second"]["label"].startswith("fake 1.0")


def test_another_search_is_called_so(tmp_path: Path, said: list[str]) -> None:
    path = many(tmp_path / "a.db", 1)
    vr.confirm(path, deep=fake("best=e2e4"))
    assert any("is another search than stockfish 15.1 nodes=1000" in line for line in said)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--db", "none.db"], 1, "none.db"),
        (["--threshold", "1.9"], 1, "1.9"),
        (["--net", "t80"], 1, "t80"),
        (["--deep", "komodo:nodes=5"], 2, "komodo"),
        (["--deep", "recorded"], 2, "recorded"),
        (["--deep", "uci:/nope,nodes=10"], 1, "/nope"),
        (["--deep", "mcts:nodes=5"], 2, "abababababab"),
        (["--limit", "0"], 2, "--limit 0"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    many(tmp_path / "a.db", 3)
    done = here("confirm", *(["--db", "a.db"] if "--db" not in arguments else []), *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_the_first_looks_own_oracle_or_a_shallower_one(tmp_path: Path, stockfish: str) -> None:
    with open_judge("stockfish:nodes=2000", net_path=None, workers=1) as judge:
        identity = judge.identity
    path = make_store(tmp_path / "a.db", [Candidate(position_of(chess.STARTING_FEN), 0.9, DeepResult(cp=0))], identity)
    for nodes in ("2000", "1000"):
        with pytest.raises(UsageError, match=f"stockfish 15.1 nodes={nodes} looks no deeper than stockfish 15.1"):
            vr.confirm(path, deep=f"stockfish:nodes={nodes}")
    assert vr.confirm(path).verdicts.as_json()["second"]["label"] == "stockfish 15.1 nodes=20000"
