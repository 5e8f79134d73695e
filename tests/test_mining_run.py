"""Mining with stand-ins for net and oracle: what is scored, what not again, what is an error; kills and signals."""

from __future__ import annotations

import gzip
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import chess
import chess.pgn
import numpy as np
import pytest
import zstandard

from tests.asked import with_question
from tests.mining_doubles import (
    FAILS_EVERY,
    KeyNet,
    KeyOracle,
    dump,
    key_outcome,
    key_q,
    mine_by_key,
    random_games,
    rows,
    wait_for,
)
from valuerepair import stop
from valuerepair.archives.options import SampleOptions
from valuerepair.chess import values
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mining import feed
from valuerepair.mining.feed import FIRST_CHUNK_ROWS, Reader
from valuerepair.mining.mine import MineOptions
from valuerepair.oracles.oracle import DeepFailure, DeepOutcome
from valuerepair.question import Question
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store
from valuerepair.store.view import candidates, frame


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 100)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def test_every_sampled_position_is_scored_once_or_has_failed(archive: Path, db: Path) -> None:
    net, oracle = KeyNet(), KeyOracle()
    summary = mine_by_key(archive, db, net=net, oracle=oracle)
    assert summary.state == "finished"
    assert summary.sampled == summary.report.positions == net.rows > 350
    assert summary.report.adds_up
    assert summary.scored + summary.failed == summary.sampled
    assert summary.failed == sum(p.key % FAILS_EVERY == 0 for p in oracle.searched) > 0
    assert len({p.key for p in oracle.searched}) == len(oracle.searched) == summary.sampled


def test_the_store_has_what_net_and_oracle_said(archive: Path, db: Path) -> None:
    oracle = KeyOracle()
    mine_by_key(archive, db, oracle=oracle)
    with Store.open(db) as store:
        scored = frame(store, Question(alpha=100.0)).set_index("key")
    assert len(oracle.searched) > len(scored) > 330
    for position in oracle.searched:
        said = key_outcome(position)
        if isinstance(said, DeepFailure):
            assert position.key not in scored.index
            continue
        row = scored.loc[position.key]
        assert row.net_q == key_q(np.array([position.key], np.uint64))[0]
        assert (row.fen, row.start_fen, row.moves) == (position.fen, position.start_fen, " ".join(position.moves))
        assert (row.ply, row.side, row.nodes) == (position.ply, position.fen.split()[1], said.nodes)
        expected = (1 if said.mate > 0 else -1) if said.mate is not None else np.tanh((said.cp or 0) / 200)
        assert row.deep_q == pytest.approx(expected, abs=1e-12)
        assert row.disagreement == row.net_q - row.deep_q
        assert row.deep_best == said.best_move or said.best_move is None


def test_positions_are_those_of_the_games(archive: Path, db: Path) -> None:
    mine_by_key(archive, db)
    games = []
    with archive.open() as file:
        while (game := chess.pgn.read_game(file)) is not None:
            games.append(game)
    with Store.open(db) as store:
        scored = frame(store)
    assert set(scored["source"]) == {str(archive)}
    for row in scored.to_dict("records"):
        game = games[row["game"] - 1]
        board, moves = game.board(), list(game.mainline_moves())
        for move in moves[: row["ply"]]:
            board.push(move)
        assert row["fen"] == board.fen()
        assert all(row[name.lower()] == game.headers[name] for name in ("White", "Black", "Result", "Event", "Date"))
        assert (row["played"], row["pieces"]) == (moves[row["ply"]].uci(), len(board.piece_map()))


def test_the_same_command_again_searches_nothing(archive: Path, db: Path, said: list[str]) -> None:
    first = mine_by_key(archive, db)
    before = dump(db)
    net, oracle = KeyNet(), KeyOracle()
    again = mine_by_key(archive, db, net=net, oracle=oracle)
    assert (net.rows, len(oracle.searched)) == (0, first.failed)  # which are tried again
    assert (again.sampled, again.scored, again.failed) == (first.sampled, first.scored, first.failed)
    assert again.candidates == first.candidates
    assert dump(db) == before
    assert said == ["resuming: what the store has is not evaluated again"]


def test_another_command_adds(archive: Path, db: Path) -> None:
    mine_by_key(archive, db)
    before = {row[1] for row in dump(db)["positions"]}
    oracle = KeyOracle()
    mine_by_key(archive, db, oracle=oracle, options=MineOptions(sample=SampleOptions(per_game=4, seed=1)))
    after = dump(db)
    assert len(after["runs"]) == 2
    assert before < {row[1] for row in after["positions"]}
    assert not {np.array([p.key], np.uint64).view(np.int64)[0] for p in oracle.searched} & before
    assert len(after["games"]) == 100


def test_a_limit_stops_and_the_same_command_goes_on(archive: Path, db: Path, tmp_path: Path, said: list[str]) -> None:
    options = MineOptions(sample=SampleOptions(per_game=4), limit=50)
    first = mine_by_key(archive, db, options=options)
    assert (first.state, first.scored + first.failed) == ("limited", 50)
    assert "run the same command again" in "\n".join(first.lines())
    mine_by_key(archive, db, options=replace(options, limit=None))
    assert said == ["resuming: what the store has is not evaluated again"]
    mine_by_key(archive, tmp_path / "whole.db")
    assert dump(db) == dump(tmp_path / "whole.db")


def test_a_stopped_run_draws_the_same_sample_again(archive: Path, db: Path, tmp_path: Path) -> None:
    options = MineOptions(sample=SampleOptions(per_game=4, positions=60), limit=20)
    assert mine_by_key(archive, db, options=options).state == "limited"
    second = mine_by_key(archive, db, options=replace(options, limit=None))
    assert (second.state, second.sampled) == ("finished", 60)
    mine_by_key(archive, tmp_path / "whole.db", options=replace(options, limit=None))
    assert dump(db) == dump(tmp_path / "whole.db")


@pytest.mark.parametrize("name", ["a.pgn", "a.pgn.gz", "a.pgn.zst"])
def test_nothing_is_read_after_the_reader_is_left(archive: Path, tmp_path: Path, name: str) -> None:
    """A uniform sample has its first batch when all is read."""
    text = archive.read_bytes() * 60
    packed = text
    if name.endswith(".gz"):
        packed = gzip.compress(text)
    elif name.endswith(".zst"):
        packed = zstandard.compress(text)
    (tmp_path / name).write_bytes(packed)
    paths = [str(tmp_path / name)] * 30
    events = SimpleQueue[Any]()
    with Reader(paths, SampleOptions(per_game=None, positions=10), events) as reader:
        pass
    reader.join(60)
    assert not reader.is_alive()
    assert reader.bytes_read < len(packed) * len(paths)
    assert events.empty()


def test_a_limit_keeps_the_net_from_what_is_beyond_it(archive: Path, db: Path) -> None:
    net = KeyNet()
    summary = mine_by_key(archive, db, net=net, options=MineOptions(sample=SampleOptions(per_game=4), limit=20))
    assert (summary.state, summary.scored + summary.failed) == ("limited", 20)
    assert net.rows <= 4 * FIRST_CHUNK_ROWS


def test_a_signal_is_obeyed_while_all_that_is_read_is_known(
    archive: Path, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(position: Position) -> DeepOutcome:
        return DeepResult(cp=0)

    mine_by_key(archive, db, oracle=KeyOracle(answer=answer))
    take, looks = Reader.take, count()

    def ahead(reader: Reader) -> PositionBatch | None:
        while (batch := take(reader)) is None and not reader.is_over:
            time.sleep(0.001)
        return batch

    monkeypatch.setattr(feed, "_TICK_S", 0.0)
    monkeypatch.setattr(Reader, "take", ahead)
    monkeypatch.setattr(stop, "asked", lambda: next(looks) > 1)
    again = mine_by_key(archive, db, oracle=KeyOracle(answer=answer))
    assert (again.state, again.sampled) == ("interrupted", FIRST_CHUNK_ROWS)


def test_candidates_of_the_summary_are_those_of_the_store(archive: Path, db: Path) -> None:
    for alpha in (None, 250.0):
        summary = mine_by_key(
            archive, db, options=MineOptions(question=Question(alpha=alpha), sample=SampleOptions(per_game=4))
        )
        with Store.open(db) as store:
            found = candidates(store, Question(threshold=0.55, alpha=alpha))
        assert summary.candidates.count == len(found) > 0
        assert summary.alpha.value == found.attrs["alpha"]["value"]
        assert summary.alpha.origin == found.attrs["alpha"]["origin"]
    assert summary.alpha == values.Alpha(250.0, "given")


def test_what_failed_is_tried_again(archive: Path, db: Path) -> None:
    first = mine_by_key(archive, db)
    assert first.failed > 0
    well = KeyOracle(answer=lambda position: DeepResult(cp=1))
    options = MineOptions(sample=SampleOptions(per_game=4))
    again = mine_by_key(archive, db, oracle=well, options=options)
    assert len(well.searched) == first.failed
    assert (again.failed, again.scored) == (0, again.sampled)
    assert rows(db, "deep_values WHERE failed IS NOT NULL") == 0


def test_a_position_known_from_elsewhere_keeps_its_history(archive: Path, db: Path, tmp_path: Path) -> None:
    oracle = KeyOracle()
    mine_by_key(archive, db, oracle=oracle)
    fens = tmp_path / "known.epd"
    fens.write_text("".join(f"{p.fen}\n" for p in oracle.searched[:50]))
    again = KeyOracle()
    again.identity = replace(again.identity, engine="Other 2.0")
    mine_by_key(fens, db, oracle=again, options=MineOptions())
    by_key = {p.key: p for p in oracle.searched}
    assert len(again.searched) == 50
    for position in again.searched:
        known = by_key[position.key]
        assert (position.start_fen, position.moves) == (known.start_fen, known.moves)
        assert (position.ply, position.history_known) == (known.ply, True)


def test_a_judge_that_always_fails_is_an_error_and_the_next_one_tries_again(archive: Path, db: Path) -> None:
    oracle = KeyOracle(answer=lambda position: DeepFailure("no such option", 3))
    with pytest.raises(ValueRepairError, match=r"failed on each of the 10 positions .* no such option"):
        mine_by_key(archive, db, oracle=oracle)
    assert mine_by_key(archive, db).scored > 300


def test_a_broken_oracle_or_net_ends_the_run_with_its_error_and_keeps_the_rest(archive: Path, db: Path) -> None:
    def breaks(position: Position) -> DeepOutcome:
        if len(oracle.searched) > 100:
            raise ValueRepairError("the engine is gone")
        return DeepResult(cp=5)

    oracle = KeyOracle(answer=breaks)
    with pytest.raises(ValueRepairError, match="the engine is gone"):
        mine_by_key(archive, db, oracle=oracle)
    assert len(dump(db)["deep_values"]) >= 98

    class BrokenNet(KeyNet):
        def evaluate(self, batch: PositionBatch) -> NoReturn:
            raise ValueRepairError("out of memory on the device")

    with pytest.raises(ValueRepairError, match="out of memory on the device"):
        mine_by_key(archive, db, net=BrokenNet(), options=MineOptions(sample=SampleOptions(seed=9)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "the file is empty"), ("not chess\n", "no games found"), ('[Event "x"]\n\n1. e4 *\n', "no position to mine")],
)
def test_nothing_to_mine(tmp_path: Path, db: Path, text: str, reason: str) -> None:
    (tmp_path / "games.pgn").write_text(text)
    with pytest.raises(ValueRepairError, match=reason) as caught:
        mine_by_key(tmp_path / "games.pgn", db)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"threshold": 2.1}, {"alpha": -1.0}, {"limit": 0}])
def test_wrong_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        MineOptions(**with_question(**wrong))


# -- ends before it is done ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[object, ...]]]:
    """What the store of a run says that nothing stopped."""
    db = tmp_path_factory.mktemp("whole") / "a.db"
    mine_by_key(archive, db)
    return dump(db)


def start(archive: Path, db: Path, delay: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.mining_doubles", str(archive), str(db), str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def test_killed_at_any_moment_and_resumed_it_ends_as_if_never_killed(
    archive: Path, tmp_path: Path, whole: dict[str, list[tuple[object, ...]]]
) -> None:
    dice = random.Random(5)
    db, found = tmp_path / "killed.db", [0]
    while len(found) < 4 and found[-1] < 300:
        process = start(archive, db, delay=0.015)
        # Some kills come while the run sets up or reads, the others after some more searches.
        if dice.random() < 0.7:
            wait_for(process, db, found[-1] + dice.randrange(1, 60))
        time.sleep(dice.uniform(0, 0.3))
        process.kill()
        process.communicate()
        found.append(rows(db))
    assert found == sorted(found)
    assert any(0 < count < 370 for count in found), f"never killed in the middle: {found}"
    assert start(archive, db, delay=0).wait() == 0
    assert dump(db) == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_cleanly_and_the_next_run_goes_on(
    archive: Path, tmp_path: Path, whole: dict[str, list[tuple[object, ...]]], number: int
) -> None:
    db = tmp_path / "a.db"
    process = start(archive, db, delay=0.02)
    wait_for(process, db, 1)
    asked = time.monotonic()
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert time.monotonic() - asked < 9
    assert process.returncode == 130
    assert "run the same command again" in said
    with Store.open(db) as store:
        ((state, counts),) = store.connection.execute("SELECT state, counts FROM runs").fetchall()
    assert state == "interrupted"
    assert '"scored":' in counts
    mine_by_key(archive, db)
    assert dump(db) == whole


def test_a_signal_does_not_wait_for_what_is_in_flight(archive: Path, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    process = start(archive, db, delay=8)
    wait_for(process, db, 1, "net_values")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    # Not to the end of the output: the stand-in's own threads still sleep when it has said all.
    assert any(line.startswith("scored: 0 of") for line in process.stdout)
    process.kill()
    process.wait()
