"""What a signal does to a program, each time in a process of its own; `pytest -m faults` does it to every command."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.cli_tree import SAMPLE
from valuerepair import signals

# Programs that send themselves the signal `name`, as the command line has it handled.
BEGIN = """
import os, signal, sys, threading, time
from pathlib import Path
from valuerepair import signals
name = sys.argv[1]
def come(): signal.raise_signal(getattr(signal, name))
signal.signal(signal.SIGINT, signal.default_int_handler)
signals.install()
"""


def outcome(program: str, name: str = "SIGINT", cwd: Path | None = None) -> tuple[int, str, str]:
    command = [sys.executable, "-c", BEGIN + program, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_where_nothing_is_open_it_leaves_at_once_even_from_an_import(name: str, tmp_path: Path) -> None:
    (tmp_path / "imported.py").write_text("import __main__\n__main__.come()\nprint('went on')\n")
    program = "sys.path.insert(0, '.')\ntry:\n    import imported\nfinally:\n    print('unwound')\n"
    assert outcome(program, name, tmp_path) == (130, "", "vr: interrupted\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_file_that_is_being_written_is_written_and_then_it_ends(name: str, tmp_path: Path) -> None:
    program = """
from valuerepair.files import written_whole
try:
    with written_whole("out") as partial:
        come()
        come()
        partial.write_text("all of it")
        print(signals.count())
except KeyboardInterrupt:
    print("asked to end")
"""
    assert outcome(program, name, tmp_path) == (0, "2\nasked to end\n", "")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "all of it")]


def test_a_folder_that_is_being_written_vanishes(tmp_path: Path) -> None:
    """Were it there, the same command would refuse to write to it."""
    program = """
from valuerepair.files import whole_folder
with whole_folder("out") as partial:
    (partial / "a").write_text("a")
    come()
"""
    assert outcome(program, cwd=tmp_path)[2].splitlines()[-1] == "KeyboardInterrupt"
    assert [*tmp_path.iterdir()] == []


def merging(function: str) -> str:
    """A merge that is sent the signal when this function, an owner and a name, has ended."""
    return f"""
from valuerepair.__main__ import main
from valuerepair.store import merge
owner, name_of = {function}
called = getattr(owner, name_of)
setattr(owner, name_of, lambda *given: (called(*given), come()))
sys.argv[1:] = ["merge", {str(SAMPLE)!r}, "-o", "merged.db"]
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_output_that_has_its_name_is_told(name: str, tmp_path: Path) -> None:
    """Were the command interrupted, the same command would find its own store in the way."""
    code, said, warned = outcome(merging('os, "replace"'), name, tmp_path)
    assert (code, "interrupted" in warned) == (0, False), warned
    assert "merged.db" in said
    assert [path.name for path in tmp_path.iterdir()] == ["merged.db"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_store_that_is_being_merged_vanishes(name: str, tmp_path: Path) -> None:
    code, said, warned = outcome(merging('merge, "_finish"'), name, tmp_path)
    assert (code, said, warned.splitlines()[-1]) == (130, "", "vr: interrupted")
    assert [*tmp_path.iterdir()] == []


def test_a_loop_asks_for_it_and_work_that_a_loop_uses_does_not_raise(tmp_path: Path) -> None:
    program = """
from valuerepair.chess.progress import Progress
with signals.held():
    woken = []
    with signals.left_to_loop(lambda: woken.append(1)), Progress("working", quiet=True) as progress:
        while not signals.count():
            come()
            progress.advance()
            print("one piece")
    progress.advance()
    print("ended", woken)
    come()
    progress.advance()
"""
    code, out, err = outcome(program)
    assert (code, out) == (-signal.SIGINT, "one piece\nended [1]\n")  # how Python ends for want of `run`
    assert err.splitlines()[-1] == "KeyboardInterrupt"


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


def test_a_child_is_ended_and_its_time_limit_holds(tmp_path: Path) -> None:
    program = """
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    signals.run([sys.executable, "-c", "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"])
except KeyboardInterrupt:
    print("ended")
"""
    begun = time.monotonic()
    assert outcome(program, cwd=tmp_path)[1] == "ended\n"
    assert time.monotonic() - begun < 20
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()
    with pytest.raises(subprocess.TimeoutExpired):
        signals.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.3)
    done = signals.run([sys.executable, "-c", "print(input() * 2); raise SystemExit(3)"], text="ab")
    assert (done.returncode, done.stdout) == (3, "abab\n")


def test_a_child_that_reads_late_gets_all_of_its_input() -> None:
    """More than a pipe holds, and later than `run` looks for signals the first time."""
    late = "import sys, time; time.sleep(0.5); print(len(sys.stdin.read()))"
    assert signals.run([sys.executable, "-c", late], text="x" * 1_000_000, timeout=30).stdout == "1000000\n"


def test_compiled_code_has_two_seconds() -> None:
    program = """
def work(seconds):
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with signals.held():
        print(signals.in_thread(lambda: time.sleep(seconds) or "done"), signals.count(), flush=True)
        signals.in_thread(lambda: time.sleep(60))
try:
    work(1.0)
except KeyboardInterrupt:
    os._exit(7)
"""
    begun = time.monotonic()
    assert outcome(program)[:2] == (7, "done 1\n")
    assert time.monotonic() - begun < 20
    with pytest.raises(ZeroDivisionError):
        signals.in_thread(lambda: 1 // 0)


def test_what_the_caller_ignores_stays_ignored() -> None:
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nimport valuerepair.__main__\n"
    program += "signal.raise_signal(signal.SIGINT)\nprint('went on', flush=True)\nsignal.raise_signal(signal.SIGTERM)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "went on\n")


def test_programs_that_import_the_package_keep_their_handlers() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with signals.held():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with signals.left_to_loop():
        signal.raise_signal(signal.SIGINT)
        assert signals.count() == 1
    assert signals.count() == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    thread = threading.Thread(target=lambda: signals.left_to_loop().__enter__())
    thread.start()
    thread.join()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
