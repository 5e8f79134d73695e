"""A cluster that falls apart: workers killed, the scheduler restarted, the network cut, positions that kill workers.

Each time every position is scored, or recorded as failed, exactly once.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.clusters import Machines, kill, machines
from tests.mining_doubles import rows, wait_for
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.cluster.connection import parse_cluster
from valuerepair.cluster.evaluators import open_on_cluster
from valuerepair.errors import ValueRepairError
from valuerepair.mining.mine import MineOptions, mine
from valuerepair.mining.summary import MineSummary
from valuerepair.progress import remarks_to
from valuerepair.store.store import Store

pytestmark = pytest.mark.slow

GAMES = str(Path(__file__).parents[1] / "data" / "games.pgn.zst")
FAKE = Path(__file__).with_name("fake_engine.py")
POSITIONS = 300
OPTIONS = MineOptions(sample=SampleOptions(per_game=None, positions=POSITIONS))


def fake(*arguments: str) -> str:
    """A ``--deep`` of the fake engine, which thinks 20 ms a search."""
    words = ["play", "think=0.02", *arguments]
    return f"uci:{sys.executable},nodes=100,arg={FAKE}," + ",".join(f"arg={argument}" for argument in words)


def run(db: Path, address: str, deep: str, remarks: list[str], options: MineOptions = OPTIONS) -> MineSummary:
    with (
        remarks_to(remarks.append),
        Store.open(db, create=True) as store,
        open_on_cluster(parse_cluster(address), deep, "maia-1900", None, device="cpu") as opened,
    ):
        return mine([GAMES], options, store, *opened)


def accounts(db: Path) -> tuple[int, int, int]:
    """(positions, those scored by net and judge, those recorded as failed); each is one or the other."""
    with Store.open(db) as store:
        ask = store.connection.execute
        positions = {i for (i,) in ask("SELECT id FROM positions")}
        deep = [i for (i,) in ask("SELECT position_id FROM deep_values WHERE failed IS NULL")]
        net = [i for (i,) in ask("SELECT position_id FROM net_values")]
        failed = [i for (i,) in ask("SELECT position_id FROM deep_values WHERE failed IS NOT NULL")]
    assert sorted(net) == sorted(positions) == sorted(deep + failed)
    return len(positions), len(deep), len(failed)


class Meanwhile(threading.Thread):
    """Does something to the cluster while a run goes on, from its `after`-th stored search on."""

    def __init__(self, db: Path, after: int, act: Callable[[threading.Event], None]) -> None:
        super().__init__(daemon=True)
        self._db, self._after, self._act = db, after, act
        self.over, self.error = threading.Event(), None

    def run(self) -> None:
        while rows(self._db) < self._after and not self.over.wait(0.1):
            pass
        self._act(self.over)

    def __enter__(self) -> Meanwhile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.join(30)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Machines]:
    with machines(tmp_path, 2) as cluster:
        yield cluster


def test_workers_killed_at_random(two: Machines, tmp_path: Path) -> None:
    dice, killed = random.Random(3), 0

    def act(over: threading.Event) -> None:
        nonlocal killed
        while killed < 5 and not over.is_set():
            name = dice.choice(sorted(two.workers))
            kill(two.workers.pop(name))
            killed += 1
            two.start_worker(f"again{killed}")
            over.wait(dice.uniform(3, 8))

    remarks: list[str] = []
    db = tmp_path / "a.db"
    with Meanwhile(db, 10, act):
        summary = run(db, two.address, fake("think=0.1"), remarks)
    assert accounts(db) == (POSITIONS, POSITIONS, 0)
    assert (summary.scored, summary.failed) == (POSITIONS, 0)
    assert killed >= 2
    assert any(" was lost: " in line for line in remarks), remarks


def test_a_position_that_kills_workers_is_found_and_recorded(tmp_path: Path) -> None:
    drawn = PositionBatch.concat(list(sample([GAMES], OPTIONS.sample, ReadReport())))
    poison = max(drawn, key=lambda position: len(position.moves)).uci  # no other position's moves begin with these
    remarks: list[str] = []
    with machines(tmp_path, 2, nanny=True) as cluster:
        summary = run(tmp_path / "a.db", cluster.address, fake(f"kill-parent-on={poison}"), remarks)
    assert accounts(tmp_path / "a.db") == (POSITIONS, POSITIONS - 1, 1)
    assert summary.failed == 1
    with Store.open(tmp_path / "a.db") as store:
        ((reason,),) = store.connection.execute("SELECT failed FROM deep_values WHERE failed IS NOT NULL").fetchall()
    assert reason.startswith("its worker was lost, the last one w")


def test_workers_of_this_machine_are_killed(tmp_path: Path) -> None:
    """Chunks of one position, which are recorded as failed when they are lost twice: each is lost once at most."""

    def act(over: threading.Event) -> None:
        for _ in range(3):
            started = [p for p in psutil.Process().children() if any("spawn_main" in word for word in p.cmdline())]
            killed.append(started[0].pid)
            started[0].kill()
            over.wait(8)

    killed: list[int] = []
    remarks: list[str] = []
    db = tmp_path / "a.db"
    options = MineOptions(sample=SampleOptions(per_game=None, positions=30))
    with Meanwhile(db, 4, act):
        summary = run(db, "local:2", fake("think=2"), remarks, options)
    assert len(set(killed)) == 3
    assert (summary.scored, summary.failed) == (30, 0), remarks


def test_the_scheduler_is_killed_and_restarted(two: Machines, tmp_path: Path) -> None:
    def act(over: threading.Event) -> None:
        two.kill_scheduler()
        over.wait(3)
        two.start_scheduler()
        for number in range(2):  # those of before have ended with their scheduler, as Dask's do
            two.start_worker(f"new{number}")

    remarks: list[str] = []
    db = tmp_path / "a.db"
    with Meanwhile(db, 30, act):
        summary = run(db, two.address, fake("think=0.1"), remarks)
    assert accounts(db) == (POSITIONS, POSITIONS, 0)
    assert summary.scored == POSITIONS
    assert any("does not answer: waiting" in line for line in remarks)
    assert any("is back" in line for line in remarks)


def test_the_scheduler_is_lost_for_good(two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.cluster.dispatcher.RETURN_S", 2.0)
    db = tmp_path / "a.db"
    with (
        Meanwhile(db, 30, lambda over: two.kill_scheduler()),
        pytest.raises(ValueRepairError, match=r"what was scored is kept: run the same command"),
    ):
        run(db, two.address, fake("think=0.1"), [])
    before = rows(db)
    assert before >= 30
    two.start_scheduler()
    for number in range(2):
        two.start_worker(f"new{number}")
    assert run(db, two.address, fake("think=0.1"), []).earlier == before
    assert accounts(db) == (POSITIONS, POSITIONS, 0)


def test_after_ctrl_c_the_same_command_goes_on(two: Machines, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    command = [sys.executable, "-m", "valuerepair", "mine", GAMES, "--positions", "200", "--cluster", two.address]
    command += ["--deep", fake("think=0.1"), "--db", str(db), "--screen", "off"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_for(process, db, 20)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again" in out
    assert "Traceback" not in err
    kept = rows(db)
    assert 20 <= kept < 200
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert f"{kept} of them before" in done.stdout
    with Store.open(db) as store:
        assert store.connection.execute("SELECT count(*) FROM deep_values").fetchone() == (200,)


def namespace(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def cable() -> Iterator[str]:
    """The name of a network namespace on a virtual cable to this one: 10.213.7.1 here, 10.213.7.2 there."""
    if shutil.which("ip") is None:
        pytest.skip("no `ip` on this machine (apt-get install iproute2)")
    try:
        namespace("netns", "add", "vrcable")
    except (subprocess.CalledProcessError, OSError):
        pytest.skip("network namespaces need root")
    try:
        namespace("link", "add", "vrc0", "type", "veth", "peer", "name", "vrc1", "netns", "vrcable")
        namespace("addr", "add", "10.213.7.1/24", "dev", "vrc0")
        namespace("link", "set", "vrc0", "up")
        for words in ("addr add 10.213.7.2/24 dev vrc1", "link set vrc1 up", "link set lo up"):
            namespace("-n", "vrcable", *words.split())
        yield "vrcable"
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no virtual cable here: {error.stderr.decode().strip()}")
    finally:
        subprocess.run(["ip", "netns", "del", "vrcable"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", "vrc0"], check=False, capture_output=True)


def test_the_network_is_cut(cable: str, tmp_path: Path) -> None:
    enter = ("ip", "netns", "exec", cable)

    def act(over: threading.Event) -> None:
        namespace("link", "set", "vrc0", "down")
        over.wait(40)
        if not over.is_set():
            namespace("link", "set", "vrc0", "up")

    remarks: list[str] = []
    db = tmp_path / "a.db"
    with Machines(tmp_path, host="10.213.7.1") as cluster:
        cluster.start_worker("near", "--host", "10.213.7.1")
        cluster.start_worker("far", "--host", "10.213.7.2", enter=enter)
        with Meanwhile(db, 40, act):
            summary = run(db, cluster.address, fake("think=0.15"), remarks)
    assert accounts(db) == (POSITIONS, POSITIONS, 0)
    assert summary.scored == POSITIONS
    assert any("worker far" in line and "lost" in line for line in remarks), remarks
