"""Engines that crash, hang, slow down, answer garbage or leak memory: only their own position is lost."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import psutil
import pytest

from tests.match_doubles import FAKE
from tests.mining_doubles import KeyNet, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.engines.kinds import UCI, JudgeSetup
from valuerepair.engines.spec import EngineSpec
from valuerepair.engines.uci import EngineSetup, UciEngine
from valuerepair.oracles.uci_oracle import UciOracle
from valuerepair.runs.mine import mine
from valuerepair.runs.options import MineOptions
from valuerepair.store.store import Store

pytestmark = pytest.mark.faults


# What the engine does, at which positions, and what is then said of them.
EVIL = [
    ("crashes", "crash-on=d7d6", "was killed by SIGSEGV"),
    ("exits", "exit-on=d7d6", "exited with code 3"),
    ("hangs", "hang-on=d7d6", "gave no best move in"),
    ("floods", "flood-on=d7d6", "gave no best move in"),
    ("writes a line without end", "endless-line-on=d7d6", "wrote a line of more than a mebibyte"),
    ("answers garbage", "garble-best-on=d7d6", "garbled answer"),
    ("plays an illegal move", "illegal-on=d7d6", "illegal"),
    ("leaks memory", "leak-on=d7d6", "exited with code 1: MemoryError"),
]


def mined(archive: Path, db: Path, *what: str) -> tuple[dict[int, tuple[object, ...]], dict[str, int]]:
    """Scores by key, and failures by reason, of a run with a scripted engine that misbehaves as told."""
    engine = EngineSetup(sys.executable, (FAKE, "play", *what))
    setup = JudgeSetup(EngineSpec(UCI, {"nodes": 50}, timeout=0.5), engine)
    with Store.open(db, create=True) as store, UciOracle(setup, 2) as oracle:
        options = MineOptions(sample=SampleOptions(per_game=2), screen=None)
        summary = mine([str(archive)], options, store, KeyNet(), oracle)
    with sqlite3.connect(db) as kept:
        rows = kept.execute("SELECT p.key, v.cp, v.mate FROM deep_values v JOIN positions p ON p.id = v.position_id")
        scored = {row[0]: row[1:] for row in rows.fetchall()}
        failed = dict(kept.execute("SELECT reason, count(*) FROM failures GROUP BY reason").fetchall())
    assert summary.state == "finished"
    assert len(scored) + sum(failed.values()) == summary.report.positions
    return scored, failed


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 12, plies=30)


@pytest.mark.parametrize(("how", "what", "said"), EVIL, ids=[how for how, _, _ in EVIL])
def test_an_engine_that(how: str, what: str, said: str, archive: Path, tmp_path: Path) -> None:
    good, none = mined(archive, tmp_path / "good.db")
    assert not none
    before = psutil.Process().memory_info().rss
    scored, failed = mined(archive, tmp_path / "bad.db", what)
    assert psutil.Process().memory_info().rss - before < 64 << 20
    assert failed
    assert all(said in reason for reason in failed), failed
    assert scored == {key: score for key, score in good.items() if key in scored}


def test_a_slow_engine_is_waited_for(archive: Path, tmp_path: Path) -> None:
    good, _ = mined(archive, tmp_path / "good.db")
    scored, failed = mined(archive, tmp_path / "slow.db", "slow-on=d7d6", "slow=0.2")
    assert (scored, failed) == (good, {})


def test_the_kernel_would_take_an_engine_before_us() -> None:
    engine = UciEngine(EngineSetup(sys.executable, (FAKE,)))
    try:
        engine.start()
        assert Path(f"/proc/{engine.pid}/oom_score_adj").read_text() == "800\n"
        assert int(Path("/proc/self/oom_score_adj").read_text()) < 800
    finally:
        engine.close()
