"""What a signal does to a program, each time in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.cli_tree import SAMPLE
from valuerepair import stop

# Programs that send themselves the signal `name`, as the command line has it handled.
BEGIN = """
import os, signal, sys, threading, time
from pathlib import Path
from valuerepair import stop
name = sys.argv[1]
def come(): signal.raise_signal(getattr(signal, name))
signal.signal(signal.SIGINT, signal.default_int_handler)
stop.install()
"""


def outcome(program: str, name: str = "SIGINT", cwd: Path | None = None) -> tuple[int, str, str]:
    command = [sys.executable, "-c", BEGIN + program, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_outside_of_loops_it_leaves_at_once_even_from_an_import(name: str, tmp_path: Path) -> None:
    (tmp_path / "imported.py").write_text("import __main__\n__main__.come()\nprint('went on')\n")
    program = "sys.path.insert(0, '.')\ntry:\n    import imported\nfinally:\n    print('unwound')\n"
    assert outcome(program, name, tmp_path) == (130, "", "vr: interrupted\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("program", [
    "from valuerepair.files import written_whole\nwith written_whole('out') as part:\n    come()",
    "from valuerepair.files import whole_folder\nwith whole_folder('out') as a:\n    (a / 'b').touch()\n    come()",
    "from valuerepair.files import claimed\nwith claimed('out'):\n    come()",
])  # fmt: skip
def test_what_is_being_written_vanishes(program: str, name: str, tmp_path: Path) -> None:
    assert outcome(program, name, tmp_path) == (130, "", "vr: interrupted\n")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(("at", "left"), [('merge, "_merge"', []), ('os, "replace"', ["merged.db"])])
def test_a_merged_store_is_there_or_not(at: str, left: list[str], name: str, tmp_path: Path) -> None:
    """The signal comes when this function, an owner and a name, has ended."""
    program = f"""
from valuerepair.__main__ import main
from valuerepair.store import merge
owner, name_of = {at}
called = getattr(owner, name_of)
setattr(owner, name_of, lambda *given: (called(*given), come()))
sys.argv[1:] = ["merge", {str(SAMPLE)!r}, "-o", "merged.db"]
main()
"""
    code, said, warned = outcome(program, name, tmp_path)
    assert (code, said, warned.splitlines()[-1]) == (130, "", "vr: interrupted")
    assert [path.name for path in tmp_path.iterdir()] == left


def test_a_loop_ends_by_the_first_signal_and_the_second_leaves(tmp_path: Path) -> None:
    program = """
with stop.undoing(lambda: print("undone", flush=True)), stop.flag():
    while not stop.asked():
        come()
        print("one piece", flush=True)
    come()
"""
    assert outcome(program) == (130, "one piece\nundone\n", "vr: interrupted\n")


def test_compiled_code_does_not_hold_it_up() -> None:
    program = """
import sqlite3
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
sqlite3.connect(":memory:").execute(endless)
"""
    begun = time.monotonic()
    assert outcome(program) == (130, "", "vr: interrupted\n")
    assert time.monotonic() - begun < 10


def test_readers_of_a_store_leave_nothing_beside_it(tmp_path: Path) -> None:
    program = f"""
import shutil
from valuerepair.store.store import Store
shutil.copy({str(SAMPLE)!r}, "a.db")
Store.open("a.db", write=True).close()
with Store.open("a.db") as store:
    rows = store.connection.execute("SELECT * FROM runs")
    assert len(os.listdir()) == 3, os.listdir()
    come()
"""
    code, _, err = outcome(program, cwd=tmp_path)
    assert (code, err) == (130, "vr: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


def test_a_child_is_killed_and_its_time_limit_holds(tmp_path: Path) -> None:
    program = """
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
stop.run([sys.executable, "-c", "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"])
"""
    assert outcome(program, cwd=tmp_path) == (130, "", "vr: interrupted\n")
    status = Path(f"/proc/{(tmp_path / 'pid').read_text()}/status")
    deadline = time.monotonic() + 10
    while status.exists() and "Z (zombie)" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(subprocess.TimeoutExpired):
        stop.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.3)
    late = "import sys, time; time.sleep(0.5); print(len(sys.stdin.read())); raise SystemExit(3)"
    done = stop.run([sys.executable, "-c", late], text="x" * 1_000_000, timeout=30)
    assert (done.returncode, done.stdout) == (3, "1000000\n")


def test_what_the_caller_ignores_stays_ignored() -> None:
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nimport valuerepair.__main__\n"
    program += "signal.raise_signal(signal.SIGINT)\nprint('went on', flush=True)\nsignal.raise_signal(signal.SIGTERM)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "went on\n")


def test_programs_that_import_the_package_keep_their_handlers() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    for _ in range(2):
        with stop.flag():
            assert not stop.asked()
            signal.raise_signal(signal.SIGINT)
            assert stop.asked()
        assert not stop.asked()
        assert [signal.getsignal(number) for number in numbers] == before
    thread = threading.Thread(target=lambda: stop.flag().__enter__())
    thread.start()
    thread.join()
    assert [signal.getsignal(number) for number in numbers] == before
