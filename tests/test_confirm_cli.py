"""`vr confirm` as a user types it: real Stockfish on positions whose truth is known, a fake engine, bad input."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest
from click.testing import CliRunner, Result

import valuerepair as vr
from tests.confirm_doubles import STOCKFISH, Candidate, make_store, many, position_of
from tests.survey_intervals import wilson_by_games
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mining.again import Confirmed
from valuerepair.mining.judges import deeper_spec
from valuerepair.mining.verdict import NET_RIGHT, SEARCH_RIGHT
from valuerepair.oracles.open import open_judge
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.pairs import judges
from valuerepair.store.rows import DeepResult, JudgeIdentity, StoredJudge
from valuerepair.store.store import Store

FAKE = Path(__file__).with_name("fake_engine.py")
# Drawn by theory: king before the rook's pawn, opposition, stalemate in the corner, bishop of the wrong colour.
DRAWN = (
    "k7/8/K7/P7/8/8/8/8 w - - 0 1",
    "8/8/8/3k4/8/3K4/3P4/8 w - - 0 1",
    "6k1/8/6KP/8/8/8/8/8 w - - 0 1",
    "8/8/4k3/8/8/3BK3/7P/8 w - - 0 1",
)


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "valuerepair", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=240)


def here(*arguments: str | Path) -> Result:
    """`vr` in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)


def confirmed(db: Path, deep: str | None, question: vr.Question | None = None) -> Confirmed:
    return vr.confirm(db, question, deep=deep)


def mates_in_one(count: int) -> list[tuple[chess.Board, str, str]]:
    """Boards of random games with their moves, a mate in one, and a move that does not mate."""
    dice = random.Random(4)
    boards: list[tuple[chess.Board, str, str]] = []
    while len(boards) < count:
        board = chess.Board()
        while not board.is_game_over() and board.ply() < 60 and len(boards) < count:
            moves = list(board.legal_moves)
            mates = [move for move in moves if board.gives_check(move) and _mates(board, move)]
            others = [move for move in moves if move not in mates]
            if mates and others and board.turn == bool(len(boards) % 2):
                boards.append((board.copy(), mates[0].uci(), others[0].uci()))
            board.push(dice.choice(moves))
    return boards


def _mates(board: chess.Board, move: chess.Move) -> bool:
    board.push(move)
    mate = board.is_checkmate()
    board.pop()
    return mate


def both_ways(position: Any, truth: float, first: DeepResult, wrong: DeepResult, other: str) -> list[list[Candidate]]:
    """The position where the net is wrong and the first look is right, and the other way round."""
    return [
        [Candidate(position, truth - 0.9 if truth > 0 else 0.9, first, other)],
        [Candidate(position, truth, wrong, first.best_move or "")],
    ]


# -- the truth is known -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two stores of mates and drawn endings of seven games: in the one the search is right, in the other the net."""
    sides: list[list[Candidate]] = [[], []]
    for board, mate, other in mates_in_one(6):
        position = position_of(chess.STARTING_FEN, *(move.uci() for move in board.move_stack))
        wrong = DeepResult(cp=-400, best_move=other)
        for side, row in zip(
            sides, both_ways(position, 1.0, DeepResult(mate=1, best_move=mate), wrong, other), strict=True
        ):
            side += row
    for fen in DRAWN:
        for board in (chess.Board(fen), chess.Board(fen).mirror()):
            moves = [move.uci() for move in board.legal_moves]
            wrong, right = DeepResult(cp=900, best_move=moves[-1]), DeepResult(cp=0, best_move=moves[0])
            for side, row in zip(sides, both_ways(position_of(board.fen()), 0.0, right, wrong, moves[-1]), strict=True):
                side += row
    for side in sides:
        side[:] = [replace(row, game=1 + place // 2) for place, row in enumerate(side)]
    folder = tmp_path_factory.mktemp("known")
    return [make_store(folder / f"{name}.db", side) for name, side in zip("ab", sides, strict=True)]


@pytest.mark.parametrize(("side", "verdict"), [(0, SEARCH_RIGHT), (1, NET_RIGHT)])
@pytest.mark.slow
def test_stockfish_finds_who_was_right(known: list[Path], stockfish: str, side: int, verdict: str) -> None:
    done = confirmed(known[side], "stockfish:nodes=20000")
    assert done.state == "finished"
    assert [case["verdict"] for case in done.cases] == [verdict] * 5
    assert done.verdicts["rates"][verdict]["count"] == done.verdicts["candidates"] == 14
    assert done.verdicts["second"]["label"] == "stockfish 15.1 nodes=20000"
    for case in done.cases:
        if case["second_best"] and case["second_q"] == 1.0:
            board = chess.Board(case["fen"])
            board.push_uci(case["second_best"])
            assert board.is_checkmate()
    # All of it is there now: nothing is searched again, for another alpha either.
    again = confirmed(known[side], "stockfish:nodes=20000", vr.Question(alpha=100.0))
    assert (again.done.searched, again.alpha.value) == (0, 100)


@pytest.mark.slow
def test_the_table_a_user_sees(known: list[Path], stockfish: str) -> None:
    done = run("confirm", "--db", known[0], "--deep", "stockfish:nodes=20000", cwd=known[0].parent)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("key-net against stockfish 15.1 nodes=1000, alpha 170 (default 170: fewer than 300")
    assert "14 of 14 candidates at 0.55 looked at" in lines
    with Store.open(known[0]) as store:
        games = view.candidates(store, Question(alpha=170.0))["game_id"].value_counts()
    assert games.tolist() == [2] * 7
    low = 100 * wilson_by_games(rate=1, fewer=0, rows=14, games=7, ratio=0)[0]  # no game differs from another
    assert f"  search right  14 of 14, 100.00 % (95 %: {low:.2f} to 100.00)" in lines
    place = lines.index(next(line for line in lines if line.startswith("search right, the largest")))
    assert chess.Board(lines[place + 1].strip()).is_valid()
    assert lines[-1] == f"next: vr books --db {known[0]} --threshold 0.55 --confirmed"
    assert "deep search: stockfish" in done.stderr
    assert here("confirm", "--db", known[0], "--deep", "stockfish:nodes=20000", "-q").stderr == ""


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
    board, mate, other = mates_in_one(1)[0]
    position = position_of(chess.STARTING_FEN, *(move.uci() for move in board.move_stack))
    path = make_store(tmp_path / "a.db", [Candidate(position, 0.9, DeepResult(cp=-300), other)], RECORDED)
    done = confirmed(path, "stockfish:nodes=3000")
    (case,) = done.cases
    assert (case["verdict"], case["second_best"], case["second_q"]) == (NET_RIGHT, mate, 1.0)
    assert done.verdicts["second"]["label"] == "stockfish 15.1 nodes=3000"


def test_the_built_in_search_looks_again_with_the_net_it_had(tmp_path: Path, shared_data: Path) -> None:
    net = shared_data / "nets" / "maia-1900.pb.gz"
    fen = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"
    (tmp_path / "mate.epd").write_text(fen + "\n")
    mined = run("mine", "mate.epd", "--net", net, "--deep", "mcts:nodes=2", "--jobs", "1", cwd=tmp_path)
    assert mined.returncode == 0, mined.stderr
    with Store.open(tmp_path / "valuerepair.db") as store:
        off = abs(view.frame(store)["disagreement"].iloc[0])
    assert off > 0
    question = vr.Question(net=str(net), threshold=off * 0.9)
    verdicts = confirmed(tmp_path / "valuerepair.db", "mcts:nodes=100", question).verdicts
    assert verdicts["second"]["label"].endswith("maia-1900 nodes=100 certainty=1 lookahead=1 auto_extend=1")
    assert verdicts["alpha"]["origin"] == "the search's own Q"
    assert verdicts["looked"] == 1


# -- a fake engine ----------------------------------------------------------------------------------------------------


def fake(*behaviour: str) -> str:
    arguments = ",".join(f"arg={word}" for word in (str(FAKE), *behaviour))
    return f"uci:{sys.executable},nodes=99,{arguments}"


def test_another_engine_that_crashes_on_some_positions(tmp_path: Path) -> None:
    first = DeepResult(cp=-50)
    candidates = [Candidate(position_of(chess.STARTING_FEN, move), 0.9, first) for move in ("a2a3", "h2h3")]
    path = make_store(tmp_path / "a.db", [*candidates, Candidate(position_of(chess.STARTING_FEN), 0.9, first, "d2d4")])
    result = confirmed(path, fake("best=b7b6", "crash-on=h2h3"))
    # On 1. h3 it crashes; at the start, where White is to move, its b7b6 is not legal.
    assert (result.done.failed, result.verdicts["looked"]) == (2, 1)
    assert result.verdicts["second"]["label"].startswith("fake 1.0")
    assert result.verdicts["alpha"]["origin"].startswith("the first look's, of another engine")


def test_an_engine_that_only_crashes(tmp_path: Path) -> None:
    path = many(tmp_path / "a.db", 4)
    done = here("confirm", "--db", path, "--deep", fake("crash-on=h2h3", "exit-on=a2a3", "illegal-on=position"))
    assert isinstance(done.exception, ValueRepairError)
    assert "failed on each of the 4 positions" in str(done.exception)


# -- bad input --------------------------------------------------------------------------------------------------------


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
def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    many(tmp_path / "a.db", 3)
    monkeypatch.chdir(tmp_path)
    done = here("confirm", *(["--db", "a.db"] if "--db" not in arguments else []), *arguments)
    assert isinstance(done.exception, ValueRepairError)
    assert done.exception.exit_code == code
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)
    assert done.stdout == ""


def test_the_first_looks_own_oracle_or_a_shallower_one(tmp_path: Path, stockfish: str) -> None:
    with open_judge("stockfish:nodes=2000", net_path=None, workers=1) as judge:
        identity = judge.identity
    path = make_store(tmp_path / "a.db", [Candidate(position_of(chess.STARTING_FEN), 0.9, DeepResult(cp=0))], identity)
    for nodes in ("2000", "1000"):
        done = here("confirm", "--db", path, "--deep", f"stockfish:nodes={nodes}")
        assert isinstance(done.exception, UsageError)
        assert f"stockfish 15.1 nodes={nodes} looks no deeper than stockfish 15.1 nodes=2000" in str(done.exception)
    assert confirmed(path, None).verdicts["second"]["label"] == "stockfish 15.1 nodes=20000"
