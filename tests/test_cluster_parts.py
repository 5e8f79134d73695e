"""The parts of a cluster's driver: addresses, what becomes of jobs that workers die of, what differs in workers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import numpy as np
import pytest
from distributed import KilledWorker
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mining_doubles import KeyNet
from tests.vr_runs import here
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.cluster.connection import ClusterAddress, parse_cluster
from valuerepair.cluster.dispatcher import Dispatcher, RemoteWorker
from valuerepair.cluster.evaluators import ClusterNet
from valuerepair.cluster.protocol import Assignment, Offer, Role, difference
from valuerepair.cluster.worker import join, keep
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.weights import NetFile
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.store.rows import JudgeIdentity
from valuerepair.version import __version__

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


class Poisoned:
    """A client of Dask whose worker dies of some positions, each time with all that a chunk holds."""

    def __init__(self, poison: set[int]) -> None:
        self.poison, self.killed = poison, 0

    def submit(self, _: object, session: str, role: Role, calls: list[tuple[str, Any]], **how: object) -> Future[Any]:
        keys = {int(key) for _, what in calls for key in (what.key.tolist() if role is Role.NET else [what])}
        done: Any = asyncio.get_running_loop().create_future()
        done.release = lambda: None
        if keys & self.poison:
            self.killed += 4
            done.set_exception(KilledWorker("vr-net-1", cast(Any, SimpleNamespace(address="tcp://a:1", name="w0")), 3))
        else:
            done.set_result([KeyNet().evaluate(what) if role is Role.NET else what for _, what in calls])
        return cast("Future[Any]", done)


class Workers(Dispatcher):
    """A dispatcher with one worker, that poison kills."""

    def __init__(self, poison: set[int], at_once: int = 8) -> None:
        super().__init__(ClusterAddress(local=1), assignment(), {})
        self._client: Any = Poisoned(poison)
        self._able = {role: {"tcp://a:1": Offer(KeyNet.identity, at_once)} for role in Role}

    async def _connect_and_serve(self) -> None:
        self._started.set()
        try:
            while True:
                self._feed()
                self._wake.clear()
                await self._wake.wait()
        finally:
            self._forget_all()

    def agreed(self, role: Role) -> Offer:
        return Offer(KeyNet.identity)

    @property
    def killed(self) -> int:
        return int(self._client.killed)

    def __enter__(self) -> Workers:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def assignment(deep: str = "stockfish") -> Assignment:
    file = NetFile(Path("/n.pb.gz"), "ab" * 32, 3, None)
    return Assignment("s", "1", file, {}, parse_spec(deep), None, None, None)


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=3))
@settings(deadline=None, max_examples=30)
def test_every_search_ends_exactly_once_and_only_poison_fails(size: int, poison: set[int]) -> None:
    with Workers(poison) as workers:
        futures = [workers.submit(Role.SEARCH, ("submit", number), DeepFailure) for number in range(size)]
        outcomes = {number: future.result(10) for number, future in enumerate(futures)}
    bad = {number for number in poison if number < size}
    assert {number for number, outcome in outcomes.items() if isinstance(outcome, DeepFailure)} == bad
    assert all(outcomes[number].attempts == 8 for number in bad)
    assert workers.killed <= 8 * len(bad)


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=3))
@settings(deadline=None, max_examples=30)
@pytest.mark.slow
def test_a_batch_for_the_net_is_taken_apart_to_the_positions_that_kill(size: int, poison: set[int]) -> None:
    batch = drawn().take(np.arange(size))
    bad = sorted(row for row in poison if row < size)
    with Workers({int(batch.key[row]) for row in bad}) as workers:
        answer = ClusterNet(workers).answer(batch)
        if bad:
            with pytest.raises(ValueRepairError, match="the net failed on 8 workers for the same position"):
                answer.result(10)
        else:
            np.testing.assert_array_equal(answer.result(10).q, KeyNet().evaluate(batch).q)


def test_jobs_that_are_not_done_end_with_the_driver() -> None:
    batch = drawn().take(np.arange(4))
    with Workers({int(key) for key in batch.key}) as workers:
        workers._able = {role: {} for role in Role}
        waiting = workers.submit(Role.NET, ("evaluate", batch), DeepFailure)
    assert waiting.cancelled()
    with Workers(set()) as workers:
        workers._client.submit = lambda *job, **how: asyncio.get_running_loop().create_future()
        begun = workers.submit(Role.NET, ("evaluate", batch), DeepFailure)
        workers._loop.call_later(0.1, workers._task.cancel)
        with pytest.raises(CancelledError):
            begun.result(10)


def test_a_driver_leaves_at_once_however_often_it_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Python 3.12, `asyncio.wait_for` loses a cancel that arrives as what it waits for ends."""

    @contextlib.asynccontextmanager
    async def there(*_: object) -> AsyncIterator[Any]:
        yield Mock(run=AsyncMock())

    async def nothing(*_: object) -> None:
        return

    async def wake(dispatcher: Dispatcher) -> None:
        while True:
            dispatcher._wake.set()
            await asyncio.sleep(0)

    monkeypatch.setattr(f"{Dispatcher.__module__}.scheduler_of", there)
    monkeypatch.setattr(f"{Dispatcher.__module__}.connected", there)
    monkeypatch.setattr(Dispatcher, "_look", nothing)
    for _ in range(20):
        dispatcher = Dispatcher(ClusterAddress("tcp://s:1"), assignment(), {})
        dispatcher.start()
        waking = asyncio.run_coroutine_threadsafe(wake(dispatcher), dispatcher._loop)
        time.sleep(0.01)
        began = time.monotonic()
        dispatcher.close()
        waking.cancel()
        assert time.monotonic() - began < 5


def identity(**changes: object) -> JudgeIdentity:
    facts = {"kind": "stockfish", "engine": "Stockfish 15.1", "sha256": "ab" * 32, "limits": {"nodes": 1}}
    return JudgeIdentity(**{**facts, "options": {"Hash": "16"}, **changes})  # type: ignore[arg-type]  # any field


def test_what_differs_is_named() -> None:
    wanted = identity()
    assert difference(identity(), wanted) is None
    assert difference(identity(engine="Stockfish 17"), wanted) == "its engine is Stockfish 17, not Stockfish 15.1"
    assert difference(identity(options={"Hash": "64"}), wanted) == "its Stockfish 15.1 has Hash=64, not 16"
    assert difference(identity(sha256="cd" * 32), wanted) is None  # another build of the same release
    own = identity(kind="mcts", engine="search")
    other = difference(replace(own, sha256="cd" * 32), own)
    assert other == "its search is another file: SHA-256 cdcdcdcdcdcd, not abababababab"


def joined(gpu: bool, address: str, **has: Any) -> RemoteWorker:
    return RemoteWorker(address, address, gpu, {Role[name.upper()]: offer for name, offer in has.items()})


def settled(deep: str, *workers: RemoteWorker) -> dict[Role, list[str]]:
    """Which workers a driver gives work of a role to."""
    dispatcher = Dispatcher(ClusterAddress("tcp://s:1"), assignment(deep), {})
    dispatcher._wake = asyncio.Event()
    dispatcher._workers = {(worker.address, ""): worker for worker in workers}
    for role in Role:
        dispatcher._settle(role)
    return {role: sorted(able) for role, able in dispatcher._able.items()}


def test_graphics_cards_get_the_work_for_them_where_there_are_any() -> None:
    net, engine = Offer(KeyNet.identity), Offer(identity())
    card = joined(True, "card", net=net, search=engine)
    assert settled("stockfish", card, joined(False, "core", net=net, search=engine)) == {
        Role.NET: ["card"],
        Role.SEARCH: ["core"],
    }
    refused = joined(True, "card", net="no", search=engine)
    assert settled("mcts", refused, joined(False, "core", net=net, search=engine)) == {
        Role.NET: ["core"],
        Role.SEARCH: ["card"],
    }


def test_what_most_workers_have_is_the_measure() -> None:
    net, odd = Offer(KeyNet.identity), Offer(identity(options={"Hash": "64"}))
    engine = Offer(identity())
    first, *others = (
        joined(False, name, net=net, search=offer) for name, offer in zip("abc", [odd, engine, engine], strict=True)
    )
    assert settled("stockfish", first, *others)[Role.SEARCH] == ["b", "c"]
    assert first.has[Role.SEARCH] == "its Stockfish 15.1 has Hash=64, not 16"


def test_odd_names_of_workers_do_not_reach_the_terminal() -> None:
    worker = RemoteWorker("tcp://a:1", "lab\x1b[2J\n07 \u00fc" + 500 * "x")
    assert str(worker).startswith("lab [2J 07 \u00fcx")
    assert str(worker).isprintable()
    assert len(str(worker)) < 120


def test_net_files_come_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path))
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2: "abc"
    file = NetFile(Path("/elsewhere/n.pb.gz"), digest, 3, None)
    with pytest.raises(ValueRepairError, match=r"n.pb.gz came with SHA-256"):
        asyncio.run(keep(file, b"abx"))
    assert not list(tmp_path.glob("cluster/*/*"))
    asyncio.run(keep(file, b"abc"))
    assert (tmp_path / "cluster" / digest[:32] / "n.pb.gz").read_bytes() == b"abc"
    assert len(list(tmp_path.glob("cluster/*/*"))) == 1


def test_another_net_of_the_same_size_at_the_drivers_path_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "cache"))
    there = tmp_path / "n.pb.gz"
    file = NetFile(there, hashlib.sha256(b"abc").hexdigest(), 3, None)
    assignment = Assignment("s", __version__, file, {}, parse_spec("stockfish:nodes=1"), None, 1, 1)
    for content, missing in ((b"abx", [file]), (b"abc", None)):
        there.write_bytes(content)
        plugins = {"s": Mock(offer=Mock(return_value="busy"))}
        answer = asyncio.run(join(assignment, False, SimpleNamespace(plugins=plugins)))
        assert answer == (missing or dict.fromkeys(Role, "busy"))


def test_mining_on_this_machine_asks_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("valuerepair.cluster")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "valuerepair.cluster", None)  # as if it were not there
    fake = Path(__file__).with_name("fake_engine.py")
    deep = f"uci:{sys.executable},nodes=100,arg={fake},arg=play"
    done = here("mine", GAMES, "--positions", "3", "--deep", deep, "--screen", "off", "--jobs", "1", cwd=tmp_path)
    assert (done.returncode, "scored: 3 of 3" in done.stdout) == (0, True), done.stderr
