"""Mining on a Dask cluster: the same results as here, and workers that differ are refused."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters import Machines
from tests.mining_doubles import KeyNet, dump
from valuerepair.archives import ReadReport, SampleOptions, sample
from valuerepair.cluster import evaluators, open_on_cluster, parse_cluster
from valuerepair.cluster.chunks import MOST, TARGET_S, Chunk, Job, Pace, Seam, end
from valuerepair.cluster.dispatcher import Dispatcher
from valuerepair.cluster.far import ClusterNet, _halves, _joined, _joined_priors
from valuerepair.cluster.members import Lane, Members
from valuerepair.cluster.terms import NetFileFacts, Offer, Role, difference
from valuerepair.cluster.worker import NetAnswer, NetJob, keep
from valuerepair.deep.oracle import DeepFailure, OracleIdentity
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mining import MineOptions, MineSummary, ScreenOptions, mine
from valuerepair.mining.workers import Evaluated, Events, net_line
from valuerepair.nets.net import Priors
from valuerepair.nets.registry import KNOWN_NETS, pull
from valuerepair.positions import PositionBatch
from valuerepair.store import Store

GAMES = str(Path(__file__).parents[1] / "data" / "games.pgn.zst")
POSITIONS = 90  # one fit, and some that are judged by it


def run(db: Path, cluster: str | None, options: MineOptions, said: list[str], net: str, deep: str) -> MineSummary:
    opening = evaluators(cluster)
    with (
        Store.open(db, create=True) as store,
        opening([GAMES], options.sample, deep, net, None, said.append, device="cpu", threads=1) as opened,
    ):
        return mine([GAMES], options, store, opened.net, opened.oracle, say=said.append)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stockfish: str) -> Iterator[Machines]:
    """Two workers, and one whose Stockfish is another file by one byte."""
    folder = tmp_path_factory.mktemp("cluster")
    with Machines(folder) as found:
        (folder / "bin").mkdir()
        shutil.copy(stockfish, folder / "bin" / "stockfish")
        with (folder / "bin" / "stockfish").open("ab") as file:
            file.write(b"\0")
        found.start_worker("w0")
        found.start_worker("w1")
        other = f"{folder / 'bin'}:{os.environ['PATH']}"
        found.start_worker("other", environment={"PATH": other})
        yield found


def test_the_ladder_on_a_cluster_gives_what_it_gives_here(
    cluster: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "maia-1900"
    net = KNOWN_NETS[name].cached if KNOWN_NETS[name].cached.exists() else pull(name, print)
    shutil.copy(net, tmp_path / "our-net.pb.gz")
    monkeypatch.chdir(tmp_path)
    # This path leads elsewhere in another process: the workers cannot see the file, and are sent it.
    hidden = "/proc/self/cwd/our-net.pb.gz"
    sample = SampleOptions(per_game=None, positions=POSITIONS)
    options = MineOptions(sample=sample, alpha=170.0, screen=ScreenOptions(rungs=(300, 900), audit=0.3), threshold=0.4)
    here: list[str] = []
    local = run(tmp_path / "local.db", None, options, here, hidden, "stockfish:nodes=3000")
    there: list[str] = []
    far = run(tmp_path / "far.db", cluster.address, options, there, hidden, "stockfish:nodes=3000")
    assert dump(tmp_path / "far.db") == dump(tmp_path / "local.db")
    assert (far.scored, far.cut, far.failed, far.nodes) == (local.scored, local.cut, local.failed, local.nodes)
    assert far.cut > 0
    assert any("sending our-net.pb.gz" in line for line in there)
    assert [path.name for path in cluster.cache.glob("cluster/*/*")] == ["our-net.pb.gz"]
    (refused,) = [line for line in there if "refused" in line]
    assert refused.startswith("worker other (tcp://127.0.0.1:")
    assert "is another file: SHA-256" in refused


def test_where_all_workers_differ_the_run_says_so_and_ends(
    cluster: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stockfish: str
) -> None:
    shutil.copy(stockfish, tmp_path / "stockfish")
    with (tmp_path / "stockfish").open("ab") as file:
        file.write(b"other")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    said: list[str] = []
    with pytest.raises(ValueRepairError, match=r"no worker is left for the deep search: 3 refused, at last .*SHA-256"):
        run(tmp_path / "a.db", cluster.address, MineOptions(), said, "maia-1900", "stockfish:nodes=1000")
    assert sum("refused for the deep search" in line for line in said) == 3


def test_without_a_scheduler_there_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.cluster.dispatcher.CONNECT_S", 0.5)
    opening = open_on_cluster("tcp://127.0.0.1:1", [GAMES], SampleOptions(), "stockfish:nodes=100", "maia-1900")
    with pytest.raises(ValueRepairError, match=r"no scheduler answers at tcp://127.0.0.1:1; start one"), opening:
        raise AssertionError


def test_recorded_evaluations_need_no_cluster() -> None:
    opening = open_on_cluster("local:2", [GAMES], SampleOptions(), "recorded", None)
    with pytest.raises(UsageError, match="leave --cluster out"), opening:
        raise AssertionError


@pytest.mark.slow
def test_tls(tmp_path: Path) -> None:
    """With the page's own commands and configuration, but for the folder."""
    page = (Path(__file__).parents[1] / "docs" / "cluster.md").read_text("utf-8")
    (commands,) = [text for text in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S) if "openssl" in text]
    made = "\n".join(line for line in commands.splitlines() if line.startswith("openssl"))
    subprocess.run(["bash", "-ec", made], cwd=tmp_path, check=True, capture_output=True)
    (config,) = [text for text in re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S) if "ca-file" in text]
    (tmp_path / "dask").mkdir()
    (tmp_path / "dask" / "tls.yaml").write_text(config.replace("/etc/valuerepair", str(tmp_path)))
    command = [sys.executable, "-m", "valuerepair", "mine", GAMES, "--positions", "20", "--db", str(tmp_path / "a.db")]
    command += ["--deep", "stockfish:nodes=1000"]
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


# -- parts ------------------------------------------------------------------------------------------------------------


def test_addresses(tmp_path: Path) -> None:
    assert parse_cluster("tcp://lab-01:8786").scheduler == "tcp://lab-01:8786"
    assert parse_cluster("tls://[::1]:8786/").scheduler == "tls://[::1]:8786"
    assert (parse_cluster("local:4").local, parse_cluster("local:4").dashboard) == (4, None)
    assert parse_cluster("local:4,dashboard=8787").dashboard == 8787
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"type": "Scheduler", "address": "tcp://10.0.0.1:8786", "workers": {}}))
    assert parse_cluster(str(file)).scheduler == "tcp://10.0.0.1:8786"
    file.write_text('{"address": 7}')
    for wrong in ("local:0", "local:", "local", "lab-01:8786", "http://a:1", "tcp://a", "", "no.json", str(file)):
        with pytest.raises(UsageError, match=r"--cluster .*"):
            parse_cluster(wrong)


@functools.cache
def drawn() -> PositionBatch:
    return PositionBatch.concat(list(sample([GAMES], SampleOptions(per_game=None, positions=40), ReadReport())))


def lose(sizes: int, poison: set[int]) -> tuple[dict[int, object], int]:
    """Works on a chunk of so many jobs on workers that poison kills: (each job's outcome, workers killed)."""
    jobs = [Job(number, Future(), DeepFailure) for number in range(sizes)]
    to_do, killed = [Chunk(jobs)], 0
    while to_do:
        chunk = to_do.pop()
        if poison & {job.payload for job in chunk.jobs}:
            killed += 1
            to_do += chunk.lost("its worker was lost")
        else:
            for job in chunk.jobs:
                job.future.set_result("scored")  # raises where a job is done twice
    return {job.payload: job.future.result(0) for job in jobs}, killed


@given(st.integers(1, 64), st.sets(st.integers(0, 63), max_size=3))
def test_every_job_ends_exactly_once_and_only_poison_fails(size: int, poison: set[int]) -> None:
    outcomes, killed = lose(size, poison)
    bad = {number for number in poison if number < size}
    assert {number for number, outcome in outcomes.items() if isinstance(outcome, DeepFailure)} == bad
    assert killed <= len(bad) * (2 + np.ceil(np.log2(max(size, 2))))


def test_a_loss_is_tried_once_more_as_it_is() -> None:
    jobs = [Job(number, Future(), DeepFailure) for number in range(5)]
    (again,) = Chunk(jobs).lost("x")
    assert again.jobs == jobs
    assert [len(half.jobs) for half in again.lost("x")] == [2, 3]


class Poisoned:
    """A dispatcher whose workers die of some positions: what is lost is cut down, the rest is evaluated at once."""

    def __init__(self, poison: set[int]) -> None:
        self.poison, self.killed = poison, 0

    def submit(self, role: Role, job: NetJob, fail: Callable[[str, int], object], seam: Seam) -> Future[Any]:
        whole = Job(job, Future(), fail, seam)
        to_do = [Chunk([whole])]
        while to_do:
            chunk = to_do.pop()
            if any(self.poison & set(part.payload.batch.key.tolist()) for part in chunk.jobs):
                self.killed += 1
                to_do += chunk.lost("its worker was lost")
                continue
            for part in chunk.jobs:
                batch = part.payload.batch
                values = KeyNet().evaluate(batch)
                answer = (
                    key_priors(batch) if job.priors else NetAnswer(values, values.q.astype(np.float64)[:, None], {})
                )
                part.future.set_result(answer)  # raises where a part is done twice
        return whole.future

    def agreed(self, role: Role) -> Offer:
        return Offer(KeyNet.identity)

    def capacity(self, role: Role) -> int:
        return 2


def key_priors(batch: PositionBatch) -> Priors:
    """Of each position as many moves as its key says, from none to three: the key's last bits."""
    lengths = batch.key.astype(np.int64) % 4
    moves = np.repeat(batch.key.astype(np.uint16), lengths)
    return moves, np.concatenate([[0], np.cumsum(lengths)]), np.arange(len(moves), dtype=np.float32)


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=4))
@settings(deadline=None)
def test_a_batch_for_the_net_is_cut_down_to_the_positions_that_kill(size: int, poison: set[int]) -> None:
    batch = drawn().take(np.arange(size))
    bad = sorted(row for row in poison if row < size)
    workers = Poisoned({int(batch.key[row]) for row in bad})
    net = ClusterNet(cast(Dispatcher, workers), "fen_only")
    events: Events = SimpleQueue()
    line = net_line(net, events, 0)
    with line:
        line.submit(np.arange(size) + 100, batch)
    found = events.get_nowait()
    assert isinstance(found, Evaluated)
    good = [row for row in range(size) if row not in bad]
    assert found.ids.tolist() == [100 + row for row in good]
    assert found.batch.key.tolist() == batch.key[good].tolist()
    np.testing.assert_array_equal(found.values.q, KeyNet().evaluate(batch).q[good])
    if good:
        np.testing.assert_array_equal(found.signals, found.values.q[:, None])
    assert sorted(found.failed) == [100 + row for row in bad]
    assert all(why.startswith("its worker was lost") and attempts >= 2 for why, attempts in found.failed.values())
    assert workers.killed <= len(bad) * (2 + np.ceil(np.log2(max(size, 2))))
    if bad:
        with pytest.raises(ValueRepairError, match=r"the net failed on \d+ workers for the same position"):
            net.evaluate(batch)


def test_priors_of_two_halves_are_those_of_the_whole() -> None:
    batch = drawn().take(np.arange(21))
    moves, offsets, p = _joined_priors(key_priors(batch.take(np.arange(8))), key_priors(batch.take(np.arange(8, 21))))
    whole = key_priors(batch)
    np.testing.assert_array_equal(moves, whole[0])
    np.testing.assert_array_equal(offsets, whole[1])
    assert len(p) == len(moves)


def test_the_half_of_a_batch_that_ends_in_an_error_ends_the_whole_so() -> None:
    batch = drawn().take(np.arange(4))
    whole = Job(NetJob(batch), Future(), DeepFailure, Seam(_halves, _joined))
    first, second = whole.halves()
    end([first], ValueRepairError("the cluster is gone"))
    assert not whole.future.done()
    end([second], ValueRepairError("the cluster is gone"))
    with pytest.raises(ValueRepairError, match="the cluster is gone"):
        whole.future.result(0)


def test_chunks_grow_to_their_time_and_shrink_at_once() -> None:
    pace = Pace(1)
    sizes = []
    for _ in range(12):
        sizes.append(pace.size)
        pace.learn(pace.size, pace.size * 0.1)
    assert sizes[:5] == [1, 2, 4, 8, 16]
    assert sizes[-1] == round(TARGET_S / 0.1)
    pace.learn(30, 30 * 60.0)
    assert pace.size == 1
    fast, wide = Pace(1), Pace(64)
    for _ in range(20):
        fast.learn(fast.size, fast.size * 1e-5)
    assert fast.size == MOST
    wide.learn(32, 1e4)
    assert wide.size == 32, "fewer would leave trees empty"


def identity(**changes: object) -> OracleIdentity:
    facts = {"kind": "stockfish", "engine": "Stockfish 15.1", "sha256": "ab" * 32, "limits": {"nodes": 1}}
    return OracleIdentity(**{**facts, "options": {"Hash": "16"}, **changes})  # type: ignore[arg-type]  # any field


def test_what_differs_is_named() -> None:
    wanted = Offer(identity())
    assert difference(Offer(identity(), at_once=9), wanted) is None
    assert (
        difference(Offer(identity(engine="Stockfish 17")), wanted) == "its engine is Stockfish 17, not Stockfish 15.1"
    )
    other = difference(Offer(identity(options={"Hash": "64"})), wanted)
    assert other == "its Stockfish 15.1 has Hash=64, not 16"
    assert "another file: SHA-256 cdcdcdcdcdcd, not abababababab" in str(
        difference(Offer(identity(sha256="cd" * 32)), wanted)
    )


def test_graphics_cards_get_the_work_for_them_where_there_are_any() -> None:
    members = Members()
    facts = {"name": "a", "host": "h", "last_seen": 1.0}
    members.update({"tcp://a:1": facts, "tcp://b:1": {**facts, "resources": {"GPU": 1.0}}})
    assert [m.address for m in members.fit_for(Role.NET, True)] == ["tcp://b:1"]
    assert [m.address for m in members.fit_for(Role.SEARCH, False)] == ["tcp://a:1"]
    (card,) = members.fit_for(Role.NET, True)
    card.lanes[Role.NET] = Lane(card, Role.NET, refusal="no")
    assert [m.address for m in members.fit_for(Role.NET, True)] == ["tcp://a:1", "tcp://b:1"]
    _, gone = members.update({"tcp://b:1": {**facts, "resources": {"GPU": 1.0}}})
    assert [m.address for m in gone] == ["tcp://a:1"]
    assert [m.address for m in members.fit_for(Role.SEARCH, False)] == ["tcp://b:1"]


def test_net_files_come_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path))
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2: "abc"
    file = NetFileFacts("/elsewhere/n.pb.gz", "../../n.pb.gz", digest, 3)
    assert keep("s", file, 0, b"ab", False) == ""
    assert keep("s", file, 2, b"x", True).startswith("../../n.pb.gz came with SHA-256")
    assert not list(tmp_path.glob("cluster/*/*"))
    assert keep("s", file, 0, b"ab", False) == ""
    assert keep("s", file, 2, b"c", True) == ""
    assert (tmp_path / "cluster" / digest[:32] / "n.pb.gz").read_bytes() == b"abc"
    assert len(list(tmp_path.glob("cluster/*/*"))) == 1
