"""Mining on a Dask cluster: the same results as here, and workers that differ are refused."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Machines
from tests.mining_doubles import dump
from tests.vr_runs import here, in_a_process
from valuerepair.archives.options import SampleOptions
from valuerepair.cluster.connection import parse_cluster
from valuerepair.cluster.evaluators import open_on_cluster
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mining.judges import open_run
from valuerepair.mining.mine import MineOptions, mine
from valuerepair.mining.summary import MineSummary
from valuerepair.nets.registry import pull_net
from valuerepair.progress import remarks_to
from valuerepair.question import Question
from valuerepair.store.store import Store

GAMES = str(Path(__file__).parents[1] / "data" / "games.pgn.zst")
POSITIONS = 90
FAKE = Path(__file__).with_name("fake_engine.py")


def run(db: Path, cluster: str | None, options: MineOptions, said: list[str], net: str, deep: str) -> MineSummary:
    opening = partial(open_run, [GAMES]) if cluster is None else partial(open_on_cluster, parse_cluster(cluster))
    with (
        remarks_to(said.append),
        Store.open(db, create=True) as store,
        opening(deep, net, None, device="cpu", threads=1) as opened,
    ):
        return mine([GAMES], options, store, *opened)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stockfish: str) -> Iterator[Machines]:
    """Two workers, one of them with another build of the same Stockfish, and one whose Stockfish is of another name."""
    folder = tmp_path_factory.mktemp("cluster")
    with Machines(folder) as found:
        for name in ("build", "bin"):
            (folder / name).mkdir()
        shutil.copy(stockfish, folder / "build" / "stockfish")
        with (folder / "build" / "stockfish").open("ab") as file:
            file.write(b"\0")
        named(folder / "bin" / "stockfish", stockfish, "Other")
        found.start_worker("w0")
        found.start_worker("w1", environment={"PATH": f"{folder / 'build'}:{os.environ['PATH']}"})
        found.start_worker("other", environment={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"})
        yield found


def named(path: Path, stockfish: str, name: str) -> None:
    """Writes a program that is Stockfish by another name."""
    path.write_text(f"#!/bin/sh\n{stockfish} | sed -u 's/^id name /id name {name} /'\n")
    path.chmod(0o755)


def test_screening_on_a_cluster_gives_what_it_gives_here(
    cluster: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "maia-1900"
    net = pull_net(name)
    shutil.copy(net, tmp_path / "our-net.pb.gz")
    monkeypatch.chdir(tmp_path)
    # This path leads elsewhere in another process: the workers cannot see the file, and are sent it.
    hidden = "/proc/self/cwd/our-net.pb.gz"
    sample = SampleOptions(per_game=None, positions=POSITIONS)
    options = MineOptions(question=Question(alpha=1000.0, threshold=0.8), sample=sample)
    deep = f"uci:{sys.executable},nodes=100000,arg={FAKE},arg=play"
    here: list[str] = []
    local = run(tmp_path / "local.db", None, options, here, hidden, deep)
    there: list[str] = []
    far = run(tmp_path / "far.db", cluster.address, options, there, hidden, deep)
    assert dump(tmp_path / "far.db") == dump(tmp_path / "local.db")
    assert far.counts() == local.counts()
    assert far.left_out > 0
    assert any("sending our-net.pb.gz" in line for line in there)
    assert [path.name for path in cluster.cache.glob("cluster/*/*")] == ["our-net.pb.gz"]


def test_positions_beside_the_games_are_those_that_the_net_here_leads_to(cluster: Machines, tmp_path: Path) -> None:
    shares = {"random_move": 0.2, "policy_move": 0.3, "search_node": 0.3}
    sample = SampleOptions(per_game=None, positions=40, off_game=shares)
    for db, where in (("local.db", None), ("far.db", cluster.address)):
        said: list[str] = []
        run(tmp_path / db, where, MineOptions(sample=sample), said, "maia-1900", "stockfish:nodes=300")
    (refused,) = [line for line in said if "refused" in line]
    assert refused.startswith("worker other (tcp://127.0.0.1:")
    assert "its engine is Other Stockfish" in refused
    far = dump(tmp_path / "far.db")
    assert far["positions"] == dump(tmp_path / "local.db")["positions"]
    with Store.open(tmp_path / "far.db") as store:
        origins = {origin for (origin,) in store.connection.execute("SELECT origin FROM positions")}
    assert origins == {"game", "random_move", "policy_move", "search_node"}


def test_where_all_workers_differ_the_run_says_so_and_ends(
    cluster: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stockfish: str
) -> None:
    named(tmp_path / "stockfish", stockfish, "Third")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    said: list[str] = []
    with pytest.raises(
        ValueRepairError, match=r"no worker is left for the deep search: 3 refused, the last one .*not Third Stockfish"
    ):
        run(tmp_path / "a.db", cluster.address, MineOptions(), said, "maia-1900", "stockfish:nodes=1000")
    assert sum("refused for the deep search" in line for line in said) == 3


def test_without_a_scheduler_there_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.cluster.dispatcher.CONNECT_S", 0.5)
    opening = open_on_cluster(parse_cluster("tcp://127.0.0.1:1"), "stockfish:nodes=100", "maia-1900")
    with pytest.raises(ValueRepairError, match=r"no scheduler answers at tcp://127.0.0.1:1; start one"), opening:
        raise AssertionError


def test_recorded_evaluations_need_no_cluster() -> None:
    opening = open_on_cluster(parse_cluster("local:2"), "recorded", None)
    with pytest.raises(UsageError, match=r"--cluster local:2 with --deep recorded: .* leave --cluster out"), opening:
        raise AssertionError


def test_a_dashboard_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        opening = open_on_cluster(parse_cluster(f"local:1,dashboard={port}"), "stockfish:nodes=9", None)
        with pytest.raises(ValueRepairError, match=rf"port {port} of this machine cannot be used \(.*\); give another"):
            opening.__enter__()


def test_certificates_that_are_asked_for_and_not_there_are_named(tmp_path: Path) -> None:
    """Dask's configuration concerns workers of this machine too."""
    dask = pytest.importorskip("dask")
    comm, absent = "distributed.comm", str(tmp_path / "absent.pem")
    asked: dict[str, Any] = {f"{comm}.tls.{name}": absent for name in ("ca-file", "client.cert", "client.key")}
    asked[f"{comm}.require-encryption"] = True
    opening = open_on_cluster(parse_cluster("local:1"), "stockfish:nodes=9", None)
    with (
        dask.config.set(asked),
        pytest.raises(ValueRepairError, match=r"--cluster local:1: the certificates cannot be read: .*No such file"),
    ):
        opening.__enter__()


@pytest.mark.slow
def test_without_dask_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = here("mine", GAMES, "--cluster", "local:2", "--deep", "stockfish:nodes=9", cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "valuerepair[cluster]" in line
    assert not list(tmp_path.iterdir())


# -- the workers' own lines -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_of_this_machine_say_nothing(tmp_path: Path) -> None:
    """Their scheduler goes in the middle of heartbeats: those with our preload are silent, one without it is not."""
    with Machines(tmp_path) as found:
        found.start_worker("silent", "--preload", "valuerepair.cluster.connection")
        found.start_worker("talker")
        until(lambda: "Starting established connection" in found.log("talker"))
        time.sleep(5)  # the other cannot say so
        before = {name: len(found.log(name)) for name in found.workers}
        found.kill_scheduler()
        until(lambda: "Stopping worker" in found.log("talker")[before["talker"] :])
        found.workers["silent"].wait(30)
        assert found.log("silent")[before["silent"] :] == ""


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_a_run_on_workers_of_this_machine_says_our_own_lines_only(tmp_path: Path) -> None:
    words = ["--cluster", "local:2", "--positions", "20", "--deep", "stockfish:nodes=500", "--screen", "off"]
    done = in_a_process("mine", GAMES, *words, cwd=tmp_path)
    assert done.returncode == 0
    first, second, *more = done.stderr.splitlines()
    assert first.startswith("deep search: stockfish ")
    assert second == "net: maia-1900 on the cluster"
    assert all(re.fullmatch(r"mining: \d+/\d+ positions, .*", line) for line in more), more


# An authority of our own, and one certificate by it for all machines.
CERTIFICATE = """
openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj "/CN=valuerepair CA" -keyout ca.key -out ca.pem
openssl req -newkey rsa:3072 -nodes -subj "/CN=valuerepair node" -keyout node.key -out node.csr
openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -out node.pem
"""
TLS = """
distributed:
  comm:
    require-encryption: true
    tls:
      ca-file: /etc/valuerepair/ca.pem
      client: {cert: /etc/valuerepair/node.pem, key: /etc/valuerepair/node.key}
      scheduler: {cert: /etc/valuerepair/node.pem, key: /etc/valuerepair/node.key}
      worker: {cert: /etc/valuerepair/node.pem, key: /etc/valuerepair/node.key}
"""


@pytest.mark.slow
def test_tls(tmp_path: Path) -> None:
    subprocess.run(["bash", "-ec", CERTIFICATE], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "dask").mkdir()
    (tmp_path / "dask" / "tls.yaml").write_text(TLS.replace("/etc/valuerepair", str(tmp_path)))
    command = [sys.executable, "-m", "valuerepair", "mine", GAMES, "--positions", "20", "--db", str(tmp_path / "a.db")]
    command += ["--deep", "stockfish:nodes=1000", "--screen", "off"]
    with Machines(tmp_path, protocol="tls", config=tmp_path / "dask") as found:
        found.start_worker("w0")
        certified = {**os.environ, "DASK_CONFIG": str(tmp_path / "dask")}
        command += ["--cluster", found.address]
        done = subprocess.run(command, env=certified, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        assert "scored: 20 of 20" in done.stdout
        stranger = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert stranger.returncode == 1
    assert stranger.stderr.splitlines()[-1].endswith("name yours in Dask's configuration (distributed.comm.tls)")
