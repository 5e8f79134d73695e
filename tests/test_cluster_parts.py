"""The parts of a cluster's driver: addresses, chunks and what becomes of them, workers and what differs in them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mining_doubles import KeyNet
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.cluster.address import parse_cluster
from valuerepair.cluster.chunks import MOST, TARGET_S, Chunk, Job, Pace, Seam, end
from valuerepair.cluster.dispatcher import Dispatcher
from valuerepair.cluster.far import ClusterNet, _halves, _joined, _joined_priors
from valuerepair.cluster.hope import Hope
from valuerepair.cluster.members import Lane, Member, Members
from valuerepair.cluster.terms import NetFileFacts, Offer, Role, difference
from valuerepair.cluster.worker import NetAnswer, NetJob, keep
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.net import Priors
from valuerepair.oracles.oracle import DeepFailure, OracleIdentity
from valuerepair.runs.workers import Evaluated, Events, net_line

GAMES = str(Path(__file__).parents[1] / "data" / "games.pgn.zst")


def test_addresses(tmp_path: Path) -> None:
    assert parse_cluster("tcp://lab-01:8786").scheduler == "tcp://lab-01:8786"
    assert parse_cluster("tls://[::1]:8786/").scheduler == "tls://[::1]:8786"
    assert (parse_cluster("local:4").local, parse_cluster("local:4").dashboard) == (4, None)
    assert parse_cluster("local:4,dashboard=8787").dashboard == 8787
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"type": "Scheduler", "address": "tcp://10.0.0.1:8786", "workers": {}}))
    assert parse_cluster(str(file)).scheduler == "tcp://10.0.0.1:8786"
    file.write_text('{"address": 7}')
    wrongs = ["local:0", "local:", "local", "lab-01:8786", "http://a:1", "tcp://a", "", "no.json", str(file)]
    wrongs += ["local:99999", "local:-1", "local:2,dashboard=0", "local:2,dashboard=65536", "tcp://a:0"]
    wrongs += ["tcp://a:65536", "ucx://a:8786", "tcp://a b:8786"]
    for wrong in wrongs:
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
                answer = key_priors(batch) if job.priors else NetAnswer(values, {})
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
    line = net_line(net, events)
    with line:
        line.submit(np.arange(size) + 100, batch)
    found = events.get_nowait()
    assert isinstance(found, Evaluated)
    good = [row for row in range(size) if row not in bad]
    assert found.ids.tolist() == [100 + row for row in good]
    assert found.batch.key.tolist() == batch.key[good].tolist()
    np.testing.assert_array_equal(found.values.q, KeyNet().evaluate(batch).q[good])
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


def test_a_worker_that_was_replaced_at_its_address_is_looked_at_anew() -> None:
    members = Members()
    facts = {"name": "a", "host": "h", "last_seen": 1.0, "local_directory": "/tmp/worker-1"}
    ((first,), _) = members.update({"tcp://a:1": facts})
    first.lanes[Role.NET] = Lane(first, Role.NET, refusal="its net is another file")
    assert members.update({"tcp://a:1": {**facts, "last_seen": 2.0}}) == ([], [])
    came, gone = members.update({"tcp://a:1": {**facts, "local_directory": "/tmp/worker-2"}})
    assert gone == [first]
    assert (members.all(), came[0].lanes, first.lost) == (came, {}, True)


def test_a_net_that_kills_all_workers_is_told_from_a_position_that_does() -> None:
    lost, poisoned, searching = (Hope(role, "local:2", print) for role in (Role.NET, Role.NET, Role.SEARCH))
    for hope in (lost, poisoned, searching):
        for _ in range(11):
            hope.note_loss()
        hope.check([])
        if hope is poisoned:
            hope.note_answer()
        hope.note_loss()
    poisoned.check([])
    searching.check([])
    with pytest.raises(ValueRepairError, match=r"the net was tried 12 times, and no worker has come through"):
        lost.check([])


def test_odd_names_of_workers_do_not_reach_the_terminal() -> None:
    member = Member.from_scheduler("tcp://a:1", {"name": "lab\x1b[2J\n07 \u00fc" + 500 * "x"})
    assert str(member).startswith("lab?[2J?07 \u00fcx")
    assert str(member).isprintable()
    assert len(str(member)) < 120


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
