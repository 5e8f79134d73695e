"""The pool against a scripted engine that crashes, hangs, garbles and lies, and with Stockfish."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import chess
import chess.engine
import psutil
import pytest

from valuerepair.engines.pool import BadAnswer, EnginePool, PoolCounts, search_seconds
from valuerepair.engines.process import EngineFailure
from valuerepair.engines.spec import find_engine
from valuerepair.engines.uci import BadOption, EngineSetup, SearchReport
from valuerepair.errors import UsageError, ValueRepairError

FAKE = str(Path(__file__).with_name("fake_engine.py"))
LC0 = "id=Lc0 v0.32.1"  # whose lines that begin with "error" are its last
Answer = int | str | None  # a score, or why there is none


def fake(*what: str, start_seconds: float = 30.0) -> EngineSetup:
    return EngineSetup(sys.executable, ("-I", "-S", FAKE, *what), start_seconds=start_seconds)


class Opener:
    """Opens pools and closes them after the test, after which no child of this process may be left."""

    def __init__(self) -> None:
        self.pools: list[EnginePool] = []

    def __call__(self, setup: EngineSetup, workers: int = 1, timeout: float = 5.0) -> EnginePool:
        self.pools.append(EnginePool(setup, timeout, workers))
        return self.pools[-1]


@pytest.fixture
def opened() -> Iterator[Opener]:
    opener = Opener()
    yield opener
    for pool in opener.pools:
        pool.close(cancel=True)
    assert psutil.Process().children(recursive=True) == []


def ask(pool: EnginePool, position: str = "position startpos") -> Future[Answer]:
    return pool.submit(
        position,
        "go nodes 1000",
        lambda report: report.cp,
        lambda reason, attempts: f"{reason} [{attempts}]",
    )


def test_every_answer_belongs_to_its_position(opened: Opener) -> None:
    pool = opened(fake(), workers=3)
    positions = [f"position startpos moves {'e2e4 ' * n}" for n in range(60)]
    futures = [ask(pool, p) for p in positions]
    assert [f.result(20) for f in futures] == [len(p.strip()) for p in positions]
    assert pool.counts == PoolCounts(searched=60, nodes=60_000)
    assert pool.name == "Fake 1.0"


def test_a_crash_costs_a_restart_and_the_position_is_searched_again(
    opened: Opener, tmp_path: Path, said: list[str]
) -> None:
    pool = opened(fake("crash-once-on=d2d4", f"mark={tmp_path / 'mark'}"))
    futures = [ask(pool, f"position startpos moves {m}") for m in ("e2e4", "d2d4", "c2c4")]
    assert [f.result(20) for f in futures] == [len("position startpos moves e2e4")] * 3
    assert (pool.counts.searched, pool.counts.restarts, pool.counts.failed) == (3, 1, 0)
    assert len(said) == 1
    assert "Fake 1.0 was killed by SIGSEGV: assertion failed: king" in said[0]


def test_a_hang_is_killed_and_the_position_is_searched_again(opened: Opener, tmp_path: Path) -> None:
    pool = opened(fake("hang-once-on=d2d4", f"mark={tmp_path / 'mark'}"), timeout=0.5)
    assert ask(pool, "position startpos moves d2d4").result(20) == 28
    assert (pool.counts.restarts, pool.counts.searched) == (1, 1)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("crash-on", "was killed by SIGSEGV: assertion failed: king"),
        ("exit-on", "exited with code 3"),
        ("leak-on", "exited with code 1: MemoryError"),
        ("error-on", "says: error The file seems to be unparseable."),
        ("no-score-on", "gave a best move without a score"),
        ("garble-best-on", "garbled answer 'bestmove e2-e4'"),
        ("endless-line-on", "wrote a line of more than a mebibyte"),
        ("hang-on", "gave no best move in 1.6 s"),
        ("no-best-on", "gave no best move in 1.6 s"),
        ("flood-on", "gave no best move in 1.6 s"),
    ],
)
def test_three_failures_give_up_the_position_and_the_run_goes_on(opened: Opener, what: str, reason: str) -> None:
    pool = opened(fake(f"{what}=d2d4", LC0), timeout=0.4)
    bad, good = ask(pool, "position startpos moves d2d4"), ask(pool, "position startpos moves e2e4")
    assert bad.result(20) == f"{reason} [3]"
    assert good.result(20) == 28
    assert (pool.counts.restarts, pool.counts.failed, pool.counts.searched) == (3, 1, 1)


def test_an_answer_its_taker_refuses_is_a_failure_too(opened: Opener) -> None:
    pool = opened(fake())

    def refuse(report: SearchReport) -> str:
        raise BadAnswer("gave the illegal best move e2e4")

    refused = pool.submit(
        "position startpos",
        "go nodes 1000",
        refuse,
        lambda reason, attempts: f"{reason} [{attempts}]",
    )
    assert refused.result(20) == "gave the illegal best move e2e4 [3]"
    assert (pool.counts.restarts, pool.counts.failed) == (3, 1)


def test_garbage_between_the_lines_is_passed_over(opened: Opener) -> None:
    assert ask(opened(fake("garbage"))).result(20) == len("position startpos")


def test_any_white_space_is_between_words(opened: Opener) -> None:
    """The UCI protocol allows it, and python-chess reads it."""
    with chess.engine.SimpleEngine.popen_uci([sys.executable, FAKE, "tabs"]) as engine:
        played = engine.play(chess.Board(), chess.engine.Limit(nodes=1000), info=chess.engine.INFO_ALL)
    assert (played.move, played.info["nodes"]) == (chess.Move.from_uci("e2e4"), 1000)
    assert ask(opened(fake("tabs"), timeout=5)).result(20) == len("position startpos")


def test_a_second_answer_and_late_lines_do_not_belong_to_the_next_search(opened: Opener) -> None:
    """fastchess drops them by the isready that it sends before every go, python-chess and cutechess ignore them."""

    pool = opened(fake("twice-on=startpos", "late-on=startpos"))
    found = [
        pool.submit(
            "position startpos",
            f"go nodes {nodes}",
            lambda report: (report.nodes, report.cp),
            lambda reason, attempts: (attempts, None),
        )
        for nodes in (1000, 2000, 3000)
    ]
    expected = [(nodes, len("position startpos")) for nodes in (1000, 2000, 3000)]
    assert [future.result(20) for future in found] == expected


def test_every_search_is_a_new_game_and_the_engine_is_asked_once_before_it(opened: Opener, tmp_path: Path) -> None:
    log = tmp_path / "log"
    pool = opened(fake(f"log={log}"))
    assert [ask(pool).result(20) for _ in range(2)] == [17, 17]
    pool.close()
    search, new = ["position startpos", "go nodes 1000"], ["ucinewgame", "isready"]
    assert log.read_text().splitlines() == ["uci", *new, *search, *new, *search, *new, "stop", "quit"]


def test_a_line_that_uci_does_not_know_is_passed_over(opened: Opener) -> None:
    """UCI: "if the engine or the GUI receives an unknown command or token it should just ignore it"."""
    assert ask(opened(fake("warn-on=startpos"))).result(20) == len("position startpos")


def test_a_slow_start_is_waited_for(opened: Opener) -> None:
    assert ask(opened(fake("slow-start=0.7"))).result(20) == 17


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        (fake("exit-at-once"), r"exited with code 7$"),
        (EngineSetup("/bin/true"), r"exited with code 0$"),
        (EngineSetup("/etc/passwd"), r"cannot run: Permission denied$"),
        (EngineSetup("/bin/cat", start_seconds=0.3), "'uciok' in 0.3 s"),
        (fake("silent", start_seconds=0.3), "'uciok' in 0.3 s"),
        (fake("slow-start=2", start_seconds=0.3), "'uciok' in 0.3 s"),
        (fake("bad-net", start_seconds=1.5), r"1\.5 s.*error The net is bad\.$"),
    ],
)
def test_an_engine_that_does_not_start_is_known_at_once(opened: Opener, setup: EngineSetup, reason: str) -> None:
    with pytest.raises(EngineFailure, match=reason):
        opened(setup)


def test_an_engine_that_cannot_search_is_known_at_once(opened: Opener) -> None:
    setup = fake("hang-on=startpos", start_seconds=1.5)
    with pytest.raises(EngineFailure, match=r"gave no best move in 1.5 s for 'go nodes 1': does it know this limit\?"):
        EnginePool(setup, 5, 1, probe="go nodes 1")


def test_options_are_checked_against_what_the_engine_offers(opened: Opener) -> None:
    path, arguments = sys.executable, ("-I", "-S", FAKE)
    pool = opened(EngineSetup(path, arguments, {"hash": "64", "Style": "very wild"}, {"UCI_ShowWDL": "true", "X": "1"}))
    assert pool.settings == {"Hash": "64", "Style": "very wild", "UCI_ShowWDL": "true"}
    with pytest.raises(BadOption, match=r"has no option 'Hsh'; did you mean Hash\?"):
        opened(EngineSetup(path, arguments, {"Hsh": "64"}))


def test_an_engine_that_no_longer_starts_is_an_error_and_no_failed_position(opened: Opener, tmp_path: Path) -> None:
    pool = opened(fake(f"start-once={tmp_path / 'mark'}", "crash-on=d2d4"))
    with pytest.raises(ValueRepairError, match=r"no longer starts: exited with code 1: no memory"):
        ask(pool, "position startpos moves d2d4").result(20)


def test_what_has_not_begun_can_be_cancelled(opened: Opener) -> None:
    pool = opened(fake("think=1"))
    running, waiting, last = ask(pool), ask(pool), ask(pool)
    time.sleep(0.2)
    assert not running.cancel()
    assert waiting.cancel()
    assert (running.result(20), last.result(20)) == (17, 17)
    assert pool.counts.searched == 2


def test_close_finishes_what_is_in_flight_and_cancels_the_rest(opened: Opener) -> None:
    pool = opened(fake("think=1"), workers=2)
    futures = [ask(pool) for _ in range(6)]
    time.sleep(0.3)
    pool.close()
    assert all(f.done() for f in futures)
    assert sum(f.cancelled() for f in futures) == 4
    assert [f.result() for f in futures if not f.cancelled()] == [17, 17]
    with pytest.raises(RuntimeError):
        ask(pool)


@pytest.mark.parametrize(
    ("words", "asked"), [("hang-on=startpos", 4), ("deaf", 0), ("slow-restart=30 think=30 mark=MARK", 2)]
)
def test_cancelling_close_is_quick(opened: Opener, words: str, asked: int, tmp_path: Path) -> None:
    pool = opened(fake(*words.replace("MARK", str(tmp_path / "mark")).split()), workers=2, timeout=300)
    futures = [ask(pool) for _ in range(asked)]
    time.sleep(0.5)
    started = time.monotonic()
    pool.close(cancel=True)
    assert time.monotonic() - started < 2.0
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(0)


def test_stockfish_gives_the_same_whatever_the_order_and_the_number_of_engines(opened: Opener, stockfish: str) -> None:
    setup = EngineSetup(stockfish, (), {"Hash": "16"}, {"UCI_ShowWDL": "true"})
    lines = [f"position startpos moves {' '.join(m)}" for m in (["e2e4"], ["e2e4", "e7e5"], ["d2d4"], ["d2d4", "g8f6"])]

    def scores(report: SearchReport) -> tuple[object, ...]:
        return report.cp, report.wdl, report.nodes, report.depth, report.pv

    def searches(workers: int, order: list[str]) -> dict[str, tuple[object, ...]]:
        pool = EnginePool(setup, 60, workers)
        opened.pools.append(pool)
        futures = {line: pool.submit(line, "go nodes 40000", scores, lambda reason, _: (reason,)) for line in order}
        return {line: future.result(60) for line, future in futures.items()}

    once = searches(1, lines)
    assert searches(1, lines[::-1]) == once
    assert searches(2, [*lines[2:], *lines[:2]]) == once
    assert len(set(once.values())) == len(lines)


PARENT = """
import sys, time
from valuerepair.engines.pool import EnginePool
from valuerepair.engines.uci import EngineSetup
pool = EnginePool(EngineSetup(sys.argv[1]), 600, 2)
futures = [pool.submit("position startpos", "go infinite", str, lambda *_: "") for _ in range(2)]
while not all(future.running() for future in futures):
    time.sleep(0.01)
print("searching", flush=True)
time.sleep(600)
"""


def test_kill_9_of_the_parent_ends_stockfish_in_the_middle_of_a_search(stockfish: str) -> None:
    """It sees the end of its input."""
    command = [sys.executable, "-c", PARENT, stockfish]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "searching\n"
        until = time.monotonic() + 20  # a future runs before its engine has started
        while len(engines := psutil.Process(parent.pid).children(recursive=True)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.5)
        parent.kill()
    assert len(engines) == 2
    _, alive = psutil.wait_procs(engines, timeout=5)
    assert all(engine.status() == psutil.STATUS_ZOMBIE for engine in alive)


def test_a_search_has_ten_minutes_and_more_for_many_nodes_or_as_long_as_is_said() -> None:
    assert search_seconds({"nodes": 1_000_000}) == 1600
    assert search_seconds({"depth": 30}) == 600
    assert search_seconds({"movetime": 5000}) == 605
    assert search_seconds({"nodes": 1_000_000}, 7.0) == 7


def test_engines_are_found_beside_python_and_among_the_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stockfish: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_engine("no-such-engine") is None
    assert find_engine(Path(sys.executable).name) == str(Path(sys.executable).absolute())
    if stockfish.startswith("/usr/games/"):
        assert find_engine("stockfish") == stockfish
    mine = tmp_path / "myfish"
    mine.write_text("#!/bin/sh\n")
    assert find_engine("myfish") is None
    assert find_engine(str(mine)) is None
    mine.chmod(0o755)
    assert find_engine("myfish") == find_engine(str(mine)) == str(mine)


def test_the_environment_says_which_stockfish_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "stockfish").write_text("#!/bin/sh\n")
        (tmp_path / folder / "stockfish").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "one"))
    assert find_engine("stockfish") == str(tmp_path / "one" / "stockfish")
    monkeypatch.setenv("VALUEREPAIR_STOCKFISH", str(tmp_path / "two" / "stockfish"))
    assert find_engine("stockfish") == str(tmp_path / "two" / "stockfish")
    monkeypatch.setenv("VALUEREPAIR_STOCKFISH", "none")
    assert find_engine("stockfish") is None
    assert find_engine(str(tmp_path / "one" / "stockfish")) is not None  # a path is a path
    monkeypatch.setenv("VALUEREPAIR_STOCKFISH", str(tmp_path / "three"))
    with pytest.raises(UsageError, match=r"VALUEREPAIR_STOCKFISH=.*three: no such engine"):
        find_engine("stockfish")
