"""Kinds of engines: asked of their objects alone, read and written again; and engines on other machines, by ssh."""

from __future__ import annotations

import ast
import json
import os
import pickle
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import chess
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import valuerepair
from tests.vr_runs import here
from valuerepair.chess.positions import Position
from valuerepair.engines.kinds import KINDS, SSH, STOCKFISH, kind_of, parse_spec
from valuerepair.engines.pool import Restarts, TimeLimit
from valuerepair.engines.process import EngineTimeout
from valuerepair.engines.uci import EngineSetup, UciEngine
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import file_sha256
from valuerepair.oracles.open import open_oracle
from valuerepair.oracles.oracle import Oracle
from valuerepair.play.game import Fault
from valuerepair.play.lineup import parse_side
from valuerepair.play.uci_player import UciPlayer
from valuerepair.store.rows import DeepResult, OracleIdentity
from valuerepair.store.store import Store

ROOT = Path(valuerepair.__file__).parent
FAKE = str(Path(__file__).with_name("fake_engine.py"))
# Modules where the same words mean something else.
ANOTHER_QUESTION = {
    "archives/checkpoint.py": "the name of an option",
    "doctor.py": "a part of the installation",
    "cli/selfplay.py": "the program that plays games against itself",
    "engines/spec.py": "which Stockfish the environment names",
    "mcts/uci_server.py": "a command of UCI",
    "training/selfplay.py": "the program that plays games against itself",
}


# -- one place --------------------------------------------------------------------------------------------------------


def comparisons_of_kinds(text: str) -> Iterator[int]:
    """Lines that compare something with the name of a kind of engine, by ==, != or in."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            if any(isinstance(part, ast.Constant) and part.value in KINDS for part in sides):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            words = [part.value for part in node.args if isinstance(part, ast.Constant)]
            if any(str(word).rstrip(":") in KINDS for word in words):
                yield node.lineno


def test_no_module_asks_for_a_kind_of_engine_by_its_name() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.rglob("*.py")}
    files = {name for name, text in texts.items() for _ in comparisons_of_kinds(text)}
    assert files == set(ANOTHER_QUESTION)


@pytest.mark.parametrize(
    "text", ['a.kind == "lc0"', 'kind in ("mcts", "lc0")', '"uci" != kind', 'if not x.startswith("uci:"): ...']
)
def test_a_comparison_by_name_is_found(text: str) -> None:
    assert list(comparisons_of_kinds(text)) == [1]
    assert not list(comparisons_of_kinds(text.replace("lc0", "x").replace("mcts", "y").replace("uci", "z")))


# -- text -------------------------------------------------------------------------------------------------------------

WORDS = st.text("ab=,: /-.7", min_size=1).map(str.strip).filter(bool)
NODES = st.integers(1, 10**9)


@given(
    st.sampled_from(["stockfish:", "uci:/e,", "lc0:weights=w,", "ssh:a@b,", "ssh:b,engine=/o p/x\\,y,"]),
    NODES,
    st.dictionaries(st.sampled_from(["option.A b", "option.Hash", "arg", "timeout", "start-timeout"]), WORDS),
)
def test_what_is_read_is_written_as_it_can_be_read(begin: str, nodes: int, more: dict[str, str]) -> None:
    more = {name: "2.5" if "timeout" in name else value.replace(",", "\\,") for name, value in more.items()}
    spec = parse_spec(begin + ",".join([f"nodes={nodes}", *(f"{name}={value}" for name, value in more.items())]))
    assert parse_spec(spec.text) == spec
    assert parse_side(spec.text) == spec


@pytest.mark.parametrize(
    "text", ["mcts", "mcts:nodes=7,weights=a\\,b,certainty=1,trees=3", "recorded", "recorded:kind=tcec,min-nodes=10000"]
)
def test_the_own_search_and_recorded_values_are_written_again(text: str) -> None:
    assert parse_spec(parse_spec(text).text) == parse_spec(text)


def test_a_kind_is_one_object_on_every_machine() -> None:
    assert all(pickle.loads(pickle.dumps(kind)) is kind for kind in KINDS.values())
    assert kind_of("of-tomorrow").searches
    with pytest.raises(UsageError, match="does not know where this engine is"):
        kind_of("of-tomorrow").spec_of(OracleIdentity("of-tomorrow", "E", "", {"nodes": 1}, {}))


def test_a_store_has_no_engine_write_files_nor_say_a_second_command() -> None:
    options = {"Debug Log File": "/home/me/.profile", "Hash": "32"}
    assert STOCKFISH.spec_of(OracleIdentity("stockfish", "S", "", {"nodes": 5}, options)).options == {"Hash": "32"}
    with pytest.raises(UsageError, match="printable"):
        STOCKFISH.spec_of(OracleIdentity("stockfish", "S", "", {"nodes": 5}, {"Hash": "1\nsetoption name X value y"}))


# -- ssh --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `ssh` on PATH whose other machine is this one; what it was given stands in the file.

    No new connection comes about while the file ``down`` lies beside that.
    """
    log, program = tmp_path / "ssh.log", tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
echo "$*" >> {log}
if [ -e {tmp_path}/down ]; then echo "ssh: connect to host ab port 22: No route to host" >&2; exit 255; fi
while [ "$1" != -- ]; do shift; done
shift 2
exec sh -c "$*"
"""
    )
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ["PATH"], "/usr/games"])
    monkeypatch.setenv("PATH", path)
    return log


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ssh", "say which engine: ssh:HOST"),
        ("ssh:engine=stockfish", "say which engine: ssh:HOST"),
        ("ssh:-oProxyCommand=x,nodes=1", "is not a host"),
        ("ssh:a b,nodes=1", "is not a host"),
        ("ssh:ab", "give a limit"),
        ("ssh:ab,path=/x,nodes=1", "no setting 'path'"),
    ],
)
def test_what_is_no_engine_on_another_machine(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_spec(text)


def test_the_command_is_one_word_for_the_shell_there(ssh: Path) -> None:
    setup = SSH.launch(parse_spec("ssh:me@ab:nodes=3,engine=/o p/x;y,arg=$z"), {})
    assert setup.path == str(ssh.parent / "bin" / "ssh")
    assert setup.arguments == ("-T", "-o", "BatchMode=yes", "--", "me@ab", "exec '/o p/x;y' '$z'")


def test_a_program_that_is_not_there_is_named(ssh: Path) -> None:
    with pytest.raises(ValueRepairError, match="no-such-engine on ab: "):
        open_oracle("ssh:ab,engine=no-such-engine,nodes=1", net_path=None, workers=1)


def test_a_store_names_an_engine_there_but_does_not_run_it(ssh: Path) -> None:
    with open_oracle(f"ssh:ab,engine={sys.executable},arg={FAKE},nodes=9", net_path=None, workers=1) as oracle:
        identity = oracle.identity
    assert identity.options["host"] == "ab"
    with pytest.raises(UsageError, match="a store may come from anybody") as refused:
        SSH.spec_of(identity)
    assert f"ssh:ab,engine={sys.executable},arg={FAKE},nodes=N" in str(refused.value)
    hostile = OracleIdentity("ssh", "S", "", {"nodes": 5}, {"host": "-oProxyCommand=x", "engine": "stockfish"})
    with pytest.raises(UsageError, match="is not a host"):
        SSH.spec_of(hostile)


def test_a_file_of_this_machine_is_not_what_an_engine_there_reads(
    tmp_path: Path, ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables").write_text("of this machine")
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind in ("ssh:ab,engine=", "uci:"):
        text = f"{kind}{sys.executable},arg={FAKE},nodes=9,option.Book Path=tables"
        with open_oracle(text, net_path=None, workers=1) as oracle:
            names[kind] = oracle.identity.options["Book Path"]
    assert names == {"ssh:ab,engine=": "tables", "uci:": f"tables#{file_sha256(str(tmp_path / 'tables'))[:12]}"}


# -- an ssh link that is down ------------------------------------------------------------------------------------------


NO_ROUTE = "exited with code 255: ssh: connect to host ab port 22: No route to host"
POSITIONS = [Position(chess.STARTING_FEN, moves=moves) for moves in [(), ("e2e4",), ("d2d4",), ("c2c4",)]]


def engines_there(workers: int = 1) -> Oracle:
    """Engines on the other machine that think half a second about each position."""
    text = f"ssh:ab,engine={sys.executable},arg=-I,arg=-S,arg={FAKE},arg=think=0.5,depth=5"
    return open_oracle(text, net_path=None, workers=workers)


def lose(link: Path) -> None:
    """Ends the connections; no new one comes about as long as the file lies there."""
    link.touch()
    for process in psutil.Process().children(recursive=True):
        if FAKE in process.cmdline():
            process.kill()


def wait_for(line: str, said: list[str]) -> None:
    deadline = time.monotonic() + 30
    while not any(line in words for words in said):
        assert time.monotonic() < deadline, said
        time.sleep(0.05)


def test_a_link_that_is_down_for_a_while_costs_nothing(
    tmp_path: Path, ssh: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(SSH, "restart_pauses", (0.2,) * 600)
    with engines_there(workers=2) as oracle:
        futures = [oracle.submit(position) for position in POSITIONS]
        futures[0].result(20)
        lose(tmp_path / "down")
        wait_for("waiting", said)
        time.sleep(1.5)  # longer than an engine on this machine would be tried
        assert not any(future.done() and future.exception() for future in futures)
        (tmp_path / "down").unlink()
        results = [future.result(30) for future in futures]
    scores = [result.cp for result in results if isinstance(result, DeepResult)]
    assert scores == [len(position.uci) for position in POSITIONS]
    waits = [line for line in said if "waiting" in line]
    assert waits == [f"ab starts no engine ({NO_ROUTE}): waiting at least 2 minutes for it"]


def test_a_link_that_stays_down_ends_the_run_with_the_name_of_the_host(
    tmp_path: Path, ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SSH, "restart_pauses", (0.1, 0.1))
    with engines_there() as oracle:
        future = oracle.submit(POSITIONS[0])
        lose(tmp_path / "down")
        with pytest.raises(ValueRepairError) as refused:
            future.result(20)
    assert str(refused.value) == f"ab: the engine no longer starts: {NO_ROUTE}"


def test_a_host_on_which_engines_hang_is_waited_for_no_longer_than_one_that_is_away() -> None:
    """Each attempt takes until its own timeout: two minutes of pauses became six."""
    attempts = []

    def start() -> UciEngine:
        attempts.append(time.monotonic())
        time.sleep(0.3)
        raise EngineTimeout("did not answer 'uci' with 'uciok' in 0.3 s")

    for host, fewest, most in (("ab", 2, 4), ("", 11, 11)):  # on this machine all attempts are made
        attempts.clear()
        with pytest.raises(ValueRepairError, match="the engine no longer starts"):
            Restarts(EngineSetup("engine", restart_pauses=(0.1,) * 10, host=host)).engine(start)
        assert fewest <= len(attempts) <= most


def test_a_wait_for_a_link_can_be_given_up(tmp_path: Path, ssh: Path, said: list[str]) -> None:
    with engines_there() as oracle:
        future = oracle.submit(POSITIONS[0])
        lose(tmp_path / "down")
        wait_for("waiting", said)
        started = time.monotonic()
        oracle.close(cancel=True)
        assert time.monotonic() - started < 2.0
        with pytest.raises(CancelledError):
            future.result(0)


def test_a_match_waits_for_a_link_too(
    tmp_path: Path, ssh: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(SSH, "restart_pauses", (0.2,) * 600)
    setup = SSH.launch(parse_side(f"ssh:ab,engine={sys.executable},arg=-I,arg=-S,arg={FAKE},nodes=9"), {})
    player = UciPlayer(setup, {"nodes": 9}, TimeLimit(timeout=10, first=10))
    try:
        lose(tmp_path / "down")
        with pytest.raises(Fault):  # the game that it was playing
            player.think(0, POSITIONS[0], 0).result(20)
        player.forget(0)
        next_game = player.think(1, POSITIONS[0], 0)
        wait_for("waiting", said)
        time.sleep(1.5)
        assert not next_game.done()
        (tmp_path / "down").unlink()
        assert next_game.result(20).move == "e2e4"
    finally:
        player.close(cancel=True)


def test_a_host_that_cannot_be_reached_at_the_start_is_said_at_once(tmp_path: Path, ssh: Path, said: list[str]) -> None:
    (tmp_path / "down").touch()
    started = time.monotonic()
    with pytest.raises(ValueRepairError, match="ab: the engine " + NO_ROUTE):
        UciPlayer(SSH.launch(parse_side("ssh:ab,nodes=9"), {}), {"nodes": 9}, TimeLimit(timeout=10, first=10))
    with pytest.raises(ValueRepairError, match="on ab: ssh: connect to host ab port 22: No route to host"):
        engines_there()
    assert (time.monotonic() - started < 10, said) == (True, [])


def test_mine_confirm_expand_check_and_match_on_another_machine(tmp_path: Path, ssh: Path, stockfish: str) -> None:
    """The values are those of the same Stockfish here."""
    lines = [
        "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1",
        "r5k1/8/8/8/8/8/5PPP/6K1 b - - 0 1",
        "8/8/8/4k3/8/8/4P3/4K3 w - - 0 1",
    ]
    (tmp_path / "a.epd").write_text("\n".join(lines) + "\n")
    for db, deep in (("there.db", "ssh:ab,nodes=3000"), ("here.db", f"stockfish:path={stockfish},nodes=3000")):
        how = "--screen", "off", "--jobs", "1", "--threshold", "0.01"
        done = here("mine", "a.epd", "--db", db, "--deep", deep, *how, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    values = []
    for db in ("there.db", "here.db"):
        with Store.open(tmp_path / db) as store:
            values.append(store.connection.execute("SELECT cp, mate, nodes, best_move FROM deep_values").fetchall())
            label, sha256 = store.connection.execute("SELECT label, sha256 FROM oracles").fetchone()
    assert values[0] == values[1]
    assert len(values[0]) == 3
    with Store.open(tmp_path / "there.db") as store:
        assert store.connection.execute("SELECT label, sha256 FROM oracles").fetchone() == (f"{label} host=ab", sha256)
    words = "--db", "there.db", "--threshold", "0.01"
    confirmed = here("confirm", *words, "--json", cwd=tmp_path)
    assert confirmed.returncode == 0, confirmed.stderr
    assert json.loads(confirmed.stdout)["verdicts"]["second"]["label"].endswith("nodes=30000 host=ab")
    expanded = here("expand", *words, "--rounds", "1", cwd=tmp_path)
    assert expanded.returncode == 0, expanded.stderr
    checked = here("doctor", "there.db", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    match = here("match", "ssh:ab,nodes=1", "stockfish:nodes=1", "--games", "2", "-o", "m.pgn", cwd=tmp_path)
    assert match.returncode == 0, match.stderr
    assert set(ssh.read_text().splitlines()) == {
        "-T -o BatchMode=yes -- ab exec stockfish",
        '-T -o BatchMode=yes -- ab sha256sum "$(command -v stockfish)" || shasum -a 256 "$(command -v stockfish)"',
    }
