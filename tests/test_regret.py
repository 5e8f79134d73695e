"""Regret: tables by hand, searches counted with stand-ins and a fake engine, real nets against Stockfish."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys
import zlib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import chess
import chess.engine
import numpy as np
import pytest
from click.testing import CliRunner

import valuerepair as vr
from tests.cli_tree import SAMPLE
from tests.mining_doubles import KeyOracle
from tests.test_remeasure import OPTIONS, db, mined
from valuerepair.chess.positions import Position
from valuerepair.cli import cli
from valuerepair.errors import UsageError
from valuerepair.intervals import Interval, wilson
from valuerepair.judge.compare import Remeasured, compare
from valuerepair.judge.compared_nets import find_nets, find_oracle
from valuerepair.judge.regret import MOVES, RegretRow, equal_match, regret_rows, sample
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.play.elo import MatchScore, share_interval
from valuerepair.runs import regret
from valuerepair.runs.regret import RegretOptions, measure_regret
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

__all__ = ["db", "mined"]

FAKE = f"uci:{sys.executable},arg={Path(__file__).with_name('fake_engine.py')},arg=play,nodes=5"


# -- figures ----------------------------------------------------------------------------------------------------------


def test_rows_by_hand() -> None:
    """Three positions: the same move; B loses 0.5; A loses 0.2, counted twice. One without a value counts for none."""
    different = np.array([False, True, True, True])
    after = np.array([0.1, 0.4, 0.1, np.nan]), np.array([0.1, -0.1, 0.3, 0.2])
    weight, game = np.array([1.0, 1.0, 2.0, 5.0]), np.array([1, 1, 2, 3])
    kind = np.array(["game"] * 4, object)
    (row,) = regret_rows(different, after, weight, game, kind)
    assert row.regret == pytest.approx(((2 * 0.2) / 4, 0.5 / 4))
    assert row.change.difference == pytest.approx(0.5 / 4 - 0.4 / 4)
    assert (row.positions, row.games, row.judged) == (4, 2, 2)
    assert row.different.count == 3
    assert row.different.rate == pytest.approx(8 / 9)
    assert math.isnan(row.change.low)
    assert row.finding == "too few games"


def test_rows_by_kind_say_who_chooses_better() -> None:
    rng = np.random.default_rng(0)
    game = np.repeat(np.arange(200), 3)
    kind = np.where(np.arange(600) % 3 == 0, "search", "game").astype(object)
    first = rng.normal(0, 0.3, 600)
    second = first + np.where(kind == "search", 0.2, -0.2)
    rows = regret_rows(rng.random(600) < 0.5, (first, second), np.ones(600), game, kind)
    assert [(row.kind, row.finding) for row in rows] == [("game", "worse"), ("search", "better")]
    assert rows[0].regret == pytest.approx((0, 0.2 * rows[0].judged / 400))


def test_more_positions_are_the_same_and_others() -> None:
    ids, kind = np.arange(1, 400), np.array(["game", "aside", "game"] * 133, object)
    few, more = sample(ids, kind, 20), sample(ids, kind, 40)
    assert (len(few), len(more)) == (40, 80)
    assert set(few) <= set(more)
    grown = sample(np.arange(1, 1200), np.array(["game", "aside", "game"] * 399 + ["game", "aside"], object), 40)
    assert 10 < len(set(more) & set(grown)) < 60  # a third of them, chosen by their numbers alone


def test_as_many_games_tell_as_much() -> None:
    """The interval of that many games (three draws in ten) by the formula of matches is that of the regret."""
    change = Interval(0.002, -0.001, 0.005)
    row = RegretRow("game", 900, 300, wilson(300, 900), 300, (0.01, 0.012), change)
    match = equal_match([row], 0.05, 7.0)
    assert match is not None
    decided = round(0.35 * match.games)
    interval = share_interval(MatchScore(decided, round(match.games) - 2 * decided, decided))
    assert interval.high - interval.low == pytest.approx(MOVES * (change.high - change.low) / 2, rel=0.02)
    assert match.seconds == pytest.approx(match.games * 2 * MOVES * 0.05)
    assert (match.result.low, match.result.high) == pytest.approx((-MOVES * change.high, -MOVES * change.low))
    assert equal_match([replace(row, kind="aside")], 0.05, 7.0) is None


# -- searches ---------------------------------------------------------------------------------------------------------


class Player(KeyOracle):
    """Chooses one of the first two moves, by name and position."""

    def __init__(self, name: str) -> None:
        super().__init__(answer=self._chosen)
        self.identity = replace(self.identity, kind="mcts", engine=name)

    def _chosen(self, position: Position) -> DeepOutcome:
        return DeepResult(cp=0, nodes=7, time_ms=4, best_move=move_of(self.identity.engine, position.fen))


def move_of(name: str, fen: str) -> str:
    moves = sorted(move.uci() for move in chess.Board(fen).legal_moves)
    return moves[zlib.crc32(f"{name} {fen}".encode()) % min(2, len(moves))]


class FenJudge(KeyOracle):
    """Its score follows from the FEN; after so many searches it sends SIGINT."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__(answer=self._judged)
        self.identity = replace(self.identity, engine="Judge 1.0")
        self._stop_after = stop_after

    def _judged(self, position: Position) -> DeepOutcome:
        if len(self.searched) == self._stop_after:
            os.kill(os.getpid(), signal.SIGINT)
        return DeepResult(cp=cp_of(position.fen), nodes=100, time_ms=3)


def cp_of(fen: str) -> int:
    return zlib.crc32(fen.encode()) % 801 - 400


def expected_q(fen: str, move: str, alpha: float = 300.0) -> float:
    """Q of the mover after a move."""
    board = chess.Board(fen)
    board.push_uci(move)
    if board.is_checkmate():
        return 1.0
    if board.is_stalemate() or board.is_insufficient_material():
        return 0.0
    return 1 - 2 / (1 + math.exp(-cp_of(board.fen()) / alpha))


@pytest.fixture
def players(monkeypatch: pytest.MonkeyPatch) -> list[Player]:
    """The searches with nets, as stand-ins."""
    made: list[Player] = []

    def player(net: str, scale: float, nodes: int) -> Player:
        made.append(Player(f"{net} {nodes}"))
        return made[-1]

    monkeypatch.setattr("valuerepair.nets.net.open_net", lambda path, **options: nullcontext(path))
    monkeypatch.setattr(regret, "_player", player)
    return made


def measured(path: Path, judge: FenJudge | str, monkeypatch: pytest.MonkeyPatch, positions: int = 60) -> Remeasured:
    with Store.open(path) as store:
        oracle = find_oracle(store, None, ["key-net"])
        nets = [replace(net, path=net.name) for net in find_nets(store, ["key-net", "half-net"], oracle)]
        comparison = compare(store, nets, oracle, OPTIONS)
    options = RegretOptions(10, positions, deep=judge if isinstance(judge, str) else "stockfish")
    if not isinstance(judge, str):
        monkeypatch.setattr(regret, "open_oracle", lambda spec, net_path: judge)
    return measure_regret(str(path), nets, oracle, comparison, options, quiet=True)


def test_who_loses_how_much_is_as_python_chess_plays_it(
    db: Path, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = FenJudge()
    comparison = measured(db, judge, monkeypatch)
    assert comparison.regret is not None
    (pair,) = comparison.regret
    with Store.open(db) as store:
        frame = store.frame(OPTIONS).set_index("position_id")
        numbers = sample(frame.index.to_numpy(), np.full(len(frame), "game", object), 60)
    lost = []
    for fen in frame.loc[numbers, "fen"]:
        one, other = (expected_q(fen, move_of(f"{name} 10", fen)) for name in ("key-net", "half-net"))
        same = move_of("key-net 10", fen) == move_of("half-net 10", fen)
        lost.append((0.0, 0.0) if same else (max(one, other) - one, max(one, other) - other))
    (row,) = pair.rows
    assert row.positions == 60
    assert row.regret == pytest.approx(tuple(np.mean(lost, 0)))
    assert row.change.difference == pytest.approx(np.mean(lost, 0)[1] - np.mean(lost, 0)[0])
    assert 10 < row.judged == row.different.count < 50
    ends = 2 * row.judged - len(judge.searched)  # moves that end the game need no search
    assert 0 <= ends < 8
    assert pair.match is not None
    assert pair.match.seconds_of_regret == pytest.approx((2 * 60 * 4 + 3 * len(judge.searched)) / 1000)
    assert pair.match.seconds == pytest.approx(pair.match.games * 2 * MOVES * 0.004)
    text = "\n".join(comparison.lines())
    assert "regret: moves of 10 nodes" in text
    assert json.loads(json.dumps(comparison.as_json()))["comparisons"][0]["regret"]["rows"][0]["judged"] == row.judged
    # What is there is not searched again, for more positions only the others.
    again = measured(db, more := FenJudge(), monkeypatch)
    assert again.regret == comparison.regret
    assert [len(searching.searched) for searching in (more, *players[2:4])] == [0, 0, 0]
    measured(db, FenJudge(), monkeypatch, positions=90)
    assert [len(player.searched) for player in players[4:]] == [30, 30]


def test_after_an_interruption_the_same_call_goes_on(
    db: Path, players: list[Player], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    copy = Path(shutil.copy(db, tmp_path / "copy.db"))
    straight = measured(copy, whole := FenJudge(), monkeypatch)
    stopped = FenJudge(stop_after=12)
    with pytest.raises(KeyboardInterrupt):
        measured(db, stopped, monkeypatch)
    assert "the same command again" in said[-1]
    assert 12 <= len(stopped.searched) < len(whole.searched)
    with Store.open(db) as store:
        assert "interrupted" in [row[0] for row in store.connection.execute("SELECT state FROM runs")]
    resumed = measured(db, rest := FenJudge(), monkeypatch)
    assert resumed.regret == straight.regret
    assert len(stopped.searched) + len(rest.searched) == len(whole.searched)
    assert [len(player.searched) for player in players[-2:]] == [0, 0]


def test_an_engine_that_judges(db: Path, players: list[Player], monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake engine's score is the length of the position line, so that moves of four letters are all alike."""
    comparison = measured(db, FAKE, monkeypatch, positions=20)
    assert comparison.regret is not None
    (row,) = comparison.regret[0].rows
    assert row.judged > 3
    assert row.regret[0] + row.regret[1] < 0.2
    assert comparison.regret[0].judge == "fake 1.0 nodes=5"


def test_what_cannot_be_done_is_said(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nets = ["remeasure", "--db", str(db), "--net", "key-net", "--net", "half-net", "-q"]
    monkeypatch.setattr(regret, "open_oracle", lambda spec, net_path: FenJudge())
    for words, message in (
        (["--regret", "1"], "--regret 1: a search has at least 2 nodes"),
        (["--regret", "10", "--regret-positions", "0"], "--regret-positions 0: must be at least 1"),
        (["--regret-positions", "10"], "--regret-positions: belongs to --regret NODES"),
        (["--deep", "stockfish"], "--deep: belongs to --regret NODES"),
        (["--regret", "10", "--deep", "nosuch:nodes=1"], "nosuch"),
        (["--regret", "10"], "--regret: key 1.0 nodes=100 judges the moves, and it cannot be run again"),
        (
            ["--regret", "10", "--deep", "stockfish:nodes=9"],
            "--regret: the file of key-net, which has to search, is not known; give --net FILE",
        ),
    ):
        with pytest.raises(UsageError) as caught:
            CliRunner().invoke(cli, [*nets, *words], catch_exceptions=False)
        assert message in str(caught.value)
    with Store.open(db) as store:
        store_has = store.connection.execute("SELECT count(*) FROM deep_values WHERE stage = 'chosen'").fetchone()
    assert store_has == (0,)


# -- real nets --------------------------------------------------------------------------------------------------------


def test_real_nets_judged_by_stockfish(shared_data: Path, stockfish: str, tmp_path: Path) -> None:
    """Moves as `search` finds them on one scale, values as Stockfish gives them to python-chess."""
    path = shutil.copy(SAMPLE, tmp_path / "sample.db")
    files = [str(shared_data / "nets" / f"{name}.pb.gz") for name in ("maia-1900", "meangirl-8")]
    options = RegretOptions(nodes=12, positions=20, deep=f"uci:{stockfish},nodes=3000")
    comparison = vr.remeasure(path, files, vr.Question(threshold=0.35, alpha=300.0), regret=options)
    assert comparison.regret is not None
    (pair,) = comparison.regret
    q_scale = comparison.comparisons[0].q_scale
    assert q_scale is not None
    # The ratio is that of the comparison, and the larger of both is 1.
    assert max(pair.q_scales) == 1 != min(pair.q_scales)
    assert pair.q_scales[1] / pair.q_scales[0] == pytest.approx(q_scale.value, abs=0.02)
    with vr.open_store(path) as store:
        frame = store.frame(vr.Question(net="maia-1900", alpha=300.0)).set_index("position_id")
        frame = frame[frame["weight"] > 0]
        numbers = sample(frame.index.to_numpy(), np.full(len(frame), "game", object), 20)
        batch = list(store.positions(numbers))
        rows = store.connection.execute(
            "SELECT stage, position_id, cp, mate FROM deep_values JOIN oracles ON oracles.id = oracle_id "
            "WHERE stage GLOB 'after:*' AND label = ?",
            (pair.judge,),
        ).fetchall()
    moves = []
    for file, scale in zip(files, pair.q_scales, strict=True):
        params = vr.SearchParams(q_scale=scale)
        searched = vr.search(batch, 12, file, params)
        moves.append(
            [
                searched_position.result.best_move
                for searched_position in searched
                if searched_position.result is not None
            ]
        )
    differing = [i for i, (one, other) in enumerate(zip(*moves, strict=True)) if one != other]
    assert {(numbers[i], f"after:{moves[k][i]}") for i in differing for k in (0, 1)} == {
        (row[1], row[0]) for row in rows
    }
    assert pair.rows[0].different.count == len(differing) > 2
    with chess.engine.SimpleEngine.popen_uci(stockfish) as engine:
        engine.configure({"Hash": 16, "Threads": 1})
        bounds = {"lowerbound", "upperbound"}
        for stage, number, cp, mate in rows[:6]:
            at = batch[numbers.tolist().index(number)]
            board = chess.Board(at.start_fen)
            for move in (*at.moves, stage.removeprefix("after:")):
                board.push_uci(move)
            with engine.analysis(board, chess.engine.Limit(nodes=3000), game=object()) as lines:
                exact = [line["score"].relative for line in lines if "score" in line and not bounds & line.keys()]
            assert (exact[-1].score(), exact[-1].mate()) == (cp, mate)
