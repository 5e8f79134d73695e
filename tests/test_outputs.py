"""Whatever stands in the place of a command's output: nothing of anybody's is lost, and it is said in one line."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import click
import pytest

from tests.cli_tree import LEAVES, SAMPLE, options_of, vr
from tests.mix_sides import folder_of
from valuerepair import outputs
from valuerepair.cli.files import Output, OutputFolder
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import claimed, whole_folder, written_together, written_whole
from valuerepair.store.store import Store
from valuerepair.training.chunk_output import ChunkOutput
from valuerepair.training.mix import MixOptions, mix
from valuerepair.training.store_chunks import ChunkOptions
from valuerepair.training.train import Training, write_curve

ARCHIVE = SAMPLE.with_name("games.pgn.zst")
Captured = pytest.CaptureFixture[str]


def outputs_of(command: click.Command) -> Iterator[click.Option]:
    """The options that name what the command writes: -o, and what says so of itself."""
    for option in options_of(command):
        writes = re.match("(also )?(write|draw)", option.help or "", re.IGNORECASE)
        if "-o" in option.opts or (writes and isinstance(option.type, click.Path) and option.name != "draw"):
            yield option


OUTPUTS = {
    f"{path.removeprefix('vr ')} {option.opts[0]}": option
    for path, command in LEAVES.items()
    for option in outputs_of(command)
}
# Those that look at the file themselves: its kind follows from other options, or nothing is ever replaced.
THEIR_OWN = {"export -o": [*outputs.TABLES, *outputs.TRAINERS, "epd"], "store merge -o": ["db"]}
# What they need beside the output to look at it.
WITH = {
    "export -o": ["--db", str(SAMPLE)],
    "store merge -o": [str(SAMPLE)],
    "train -o": ["--net", "maia-1900", "--store", str(SAMPLE)],
}


def endings(name: str) -> list[str]:
    kind = OUTPUTS[name].type
    if isinstance(kind, Output):
        return [*kind.kinds] if isinstance(kind.kinds, Mapping) else ["pb.gz" if kind.kinds is outputs.NET else "x"]
    return [""] if isinstance(kind, OutputFolder) else THEIR_OWN[name]


def words(name: str, target: str) -> list[str]:
    command, _, option = name.rpartition(" ")
    more = ["--format", "text"] if name == "export -o" and target.endswith(".text") else []
    return [*command.split(), option, target, *more, *WITH.get(name, [])]


def png() -> bytes:
    """A picture of 1 by 1, as a camera might leave it: without a name of who made it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    head = chunk(b"IHDR", bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def database(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE thesis (page TEXT)")
        connection.commit()
    return path.read_bytes()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What is not to be lost, by what it is."""
    folder = tmp_path_factory.mktemp("foreign")
    return {
        "a store": SAMPLE.read_bytes(),
        "a database": database(folder / "thesis.db"),
        "a net": b"\x0d\xf0\xc0\x1c" + os.urandom(500),
        "an archive": ARCHIVE.read_bytes(),
        "games": b'[Event "My best game"]\n[Result "1-0"]\n\n1. e4 1-0\n',
        "games in one line": b'[Event "My best game"]',
        "a text": b"Dear diary,\n\ntoday nothing happened.\n",
        "a byte": b"\n",
        "a picture": png(),
        "a drawing": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>\n',
        "a paper": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
        "a page": b'<!DOCTYPE html>\n<html lang="en">\n<head>\n<title>Me</title>\n</head>\n</html>\n',
        "a table": b"name,price\nking,4\n",
        "rows": b'{"name": "king", "price": 4}\n',
        "a package": b'{\n  "name": "thesis",\n  "version": "1.0"\n}\n',
        "positions": b"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - bm e4;\n",
        "a Parquet file": b"PAR1" + bytes(100) + b'"pandas": {"name": "price"}' + b"PAR1",
        "zeros": bytes(4000),
        "noise": os.urandom(4000),
    }


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(call: list[str], captured: Captured, code: int = 2) -> str:
    end, out, err = vr(call, captured)
    assert (end, out, err.count("\n"), err[:4]) == (code, "", 1, "vr: "), f"{' '.join(call)}: {err}"
    return err


def test_every_output_is_found() -> None:
    """And looked at before anything else is done, by the type of its option or by the command itself."""
    assert len(OUTPUTS) >= 22
    assert {name.split()[0] for name in OUTPUTS} >= {"report", "plot", "split", "export", "train", "selfplay", "books"}
    by_type = {name for name, option in OUTPUTS.items() if isinstance(option.type, Output | OutputFolder)}
    assert set(OUTPUTS) - by_type == set(THEIR_OWN)


def refused_in_place_of(name: str, foreign: Mapping[str, bytes], here: Path, captured: Captured) -> int:
    """How many times an output was asked for in the place of something else, which was refused each time."""
    tried = 0
    for what, content in foreign.items():
        for ending in endings(name):
            target = here / f"mine.{ending}".rstrip(".")
            target.write_bytes(content)
            assert target.name in refused(words(name, target.name), captured)
            assert tree(here) == {target.name: content}, what
            target.unlink()
            tried += 1
    return tried


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_not_of_its_kind_stays(
    name: str, foreign: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused_in_place_of(name, foreign, tmp_path, capsys) >= len(foreign)


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_place_that_can_have_no_file_is_said_before_the_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "locked").mkdir()
    for ending in endings(name):
        folder = tmp_path / f"folder.{ending}"
        (folder / "sub").mkdir(parents=True)
        places = [f"file/x.{ending}", f"{'n' * 300}.{ending}", f"locked/x.{ending}"]
        if not isinstance(OUTPUTS[name].type, OutputFolder):
            places += [f"none/x.{ending}", folder.name]
        for place in map(str.rstrip, places, "." * len(places)):
            with pytest.MonkeyPatch.context() as patch:
                # Root may write to any folder.
                patch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
                assert place in refused(words(name, place), capsys)
        shutil.rmtree(folder)
    assert tree(tmp_path) == {"file": b"mine"}


def test_a_book_leaves_other_books_and_manifests_alone(tmp_path: Path, capsys: Captured) -> None:
    call = ["books", "--db", str(SAMPLE), "-o", str(tmp_path), "-q"]
    for name in ("book.pgn", "book.epd", "manifest.json", "holdout.pgn", "holdout.epd"):
        (tmp_path / name).write_text('[Event "My own book"]\n\n1. e4 *\n')
        assert f"{tmp_path / name}: already exists and is not a" in refused(call, capsys)
        assert list(tree(tmp_path).values()) == [b'[Event "My own book"]\n\n1. e4 *\n']
        (tmp_path / name).unlink()
    assert vr(call, capsys)[0] == 0
    before = tree(tmp_path)
    assert vr(call, capsys)[0] == 0
    assert tree(tmp_path) == before


def test_a_book_leaves_the_manifests_of_chunks_alone(tmp_path: Path, capsys: Captured) -> None:
    inputs = [folder_of(tmp_path / name, [3, 4, 5], seed) for seed, name in ((0, "repair"), (50, "normal"))]
    mix(MixOptions(repair=(inputs[0],), normal=(inputs[1],), share=0.5), tmp_path / "mixture")
    with ChunkOutput(tmp_path / "chunks", {"archives": ["games.pgn"]}, ChunkOptions()) as output:
        output.finish({"games": 0})
    for name in ("mixture", "chunks"):
        folder = tmp_path / name
        before = tree(folder)
        call = ["books", "--db", str(SAMPLE), "--threshold", "0.4", "-o", str(folder)]
        assert f"{name}/manifest.json: already exists and is not a manifest of vr books" in refused(call, capsys)
        assert tree(folder) == before


def test_a_curve_takes_the_place_of_no_other_json_of_ours(tmp_path: Path) -> None:
    """Splits, manifests and results begin with our version, too."""
    path = tmp_path / "trained.json"
    for second in ('"games": 0.1', '"net": {}', '"chunks": 3'):
        path.write_text(f'{{\n "version": "valuerepair 0.3",\n {second}\n}}\n')
        with pytest.raises(UsageError, match="is not the curve of a training"):
            outputs.check_regular(path, outputs.CURVE)
    path.unlink()
    write_curve(tmp_path / "trained.pb.gz", Training({"version": "valuerepair 0.3", "output": "trained.pb.gz"}, []))
    outputs.check_regular(path, outputs.CURVE)


# What runs fast enough to be tried here; tests/faults/test_outputs.py tries all.
FAST = [
    ["split", "-o", "own.json"],
    ["show", "17", "--svg", "own.svg"],
    *([["export", "-o", f"own.{ending}"] for ending in ("csv", "jsonl", "parquet", "bin", "plain", "epd")]),
    ["export", "--format", "text", "-o", "own.text"],
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy of the sample: a store remembers its split."""
    return str(shutil.copy(SAMPLE, tmp_path_factory.mktemp("store")))


@pytest.mark.parametrize("call", FAST, ids=" ".join)
def test_a_file_of_its_kind_is_replaced(
    call: list[str], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Also an empty one, and where a link leads."""
    monkeypatch.chdir(tmp_path)
    call, name, elsewhere = [*call, "--db", store, "-q"], call[-1], tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert vr(call, capsys)[0] == 0
    first = Path(name).read_bytes()
    (elsewhere / name).write_bytes(b"")
    Path(name).unlink()
    Path(name).symlink_to(elsewhere / name)
    for _ in range(2):
        code, _, err = vr(call, capsys)
        assert (code, err) == (0, "")
        assert Path(name).is_symlink()
        assert (elsewhere / name).read_bytes() == first
    assert sorted(os.listdir(tmp_path)) == sorted([name, "elsewhere"])
    assert os.listdir(elsewhere) == [name]


@pytest.mark.parametrize("call", FAST, ids=" ".join)
def test_a_device_is_written_to_and_stays_one(
    call: list[str], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    call, name = [*call, "--db", store, "-q"], call[-1]
    Path(name).symlink_to("/dev/null")
    assert vr(call, capsys)[0] == 0
    Path(name).unlink()
    Path(name).symlink_to("/dev/full")
    assert re.fullmatch(f"vr: {name}: (cannot be written: )?No space left on device\n", vr(call, capsys)[2])
    Path(name).unlink()
    for device in ("/dev/null", "/dev/full"):
        assert stat.S_ISCHR(os.stat(device).st_mode)
    assert tree(tmp_path) == {}
    # A pipe has the bytes that a file gets.
    assert vr(call, capsys)[0] == 0
    content = Path(name).read_bytes()
    Path(name).unlink()
    os.mkfifo(name)
    with reader(Path(name)) as read:
        assert vr(call, capsys)[0] == 0
    assert read() == content
    assert stat.S_ISFIFO(os.stat(name).st_mode)


class reader:  # a context
    """Reads a pipe to its end in a thread."""

    def __init__(self, path: Path, most: int = -1) -> None:
        self._content = b""

        def read() -> None:
            with path.open("rb", buffering=0) as pipe:
                self._content = pipe.read(most) or b""

        self._thread = threading.Thread(target=read, daemon=True)

    def __enter__(self) -> Callable[[], bytes]:
        self._thread.start()

        def found() -> bytes:
            self._thread.join(20)
            return self._content

        return found

    def __exit__(self, *_: object) -> None:
        self._thread.join(20)


KIND = outputs.FileKind("ours", b"ours")
MUCH = b"ours" + bytes(1 << 20)


def test_the_writer_leaves_what_was_there_where_it_fails(tmp_path: Path) -> None:
    target = tmp_path / "own"
    target.write_bytes(b"ours, old")

    def write(content: bytes) -> None:
        with written_whole(target, KIND) as partial:
            partial.write_bytes(content)
            if not content:
                raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="own"):
        write(b"")
    assert tree(tmp_path) == {"own": b"ours, old"}
    write(MUCH)
    assert tree(tmp_path) == {"own": MUCH}


def test_what_appears_while_the_writer_works_stays(tmp_path: Path) -> None:
    not_ours = pytest.raises(UsageError, match="own: already exists and is not ours")
    with not_ours, written_whole(tmp_path / "own", KIND):
        (tmp_path / "own").write_bytes(b"theirs")
    assert tree(tmp_path) == {"own": b"theirs"}


def test_of_several_files_none_is_replaced_where_one_may_not_be(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"ours")
    (tmp_path / "two").write_bytes(b"theirs")
    with (
        pytest.raises(UsageError, match="two: already exists and is not ours"),
        written_together(dict.fromkeys(map(str, tmp_path.iterdir()), KIND)),
    ):
        pytest.fail("began")
    assert tree(tmp_path) == {"one": b"ours", "two": b"theirs"}


def test_a_reader_that_leaves_is_an_error_with_the_pipes_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    gone = pytest.raises(BrokenPipeError, match="pipe")
    with reader(tmp_path / "pipe", 10), gone, written_whole(tmp_path / "pipe", KIND) as partial:
        partial.write_bytes(MUCH)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_full_pipe_that_does_not_wait_is_an_error(monkeypatch: pytest.MonkeyPatch, capfd: Captured) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = os.dup(1)
    os.dup2(writing, 1)
    try:
        with pytest.raises(BlockingIOError), written_whole(outputs.STDOUT, KIND) as partial:
            partial.write_bytes(MUCH)
    finally:
        os.dup2(before, 1)
        for descriptor in (before, reading, writing):
            os.close(descriptor)


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_standard_output_is_written_to_in_order(name: str, tmp_path: Path, capfd: Captured) -> None:
    """Also where it is a file: what was printed before stands before."""
    with (tmp_path / "log").open("wb") as log:
        before = os.dup(1)
        os.dup2(log.fileno(), 1)
        try:
            os.write(1, b"first\n")
            with written_whole(name, KIND) as partial:
                partial.write_bytes(b"ours\n")
            os.write(1, b"last\n")
        finally:
            os.dup2(before, 1)
            os.close(before)
    assert tree(tmp_path) == {"log": b"first\nours\nlast\n"}


def test_no_disk_and_no_socket_is_written_to(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(UsageError, match="socket: is a disk or a socket"):
            outputs.check_output(tmp_path / "socket", KIND)
    disks = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    for disk in disks:
        with pytest.raises(UsageError, match="is a disk or a socket"):
            outputs.check_output(disk, KIND)


def test_a_new_folder_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with whole_folder(tmp_path / "out") as partial:
        (partial / "chunk").write_bytes(b"mine")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "elsewhere" / "chunk").read_bytes() == b"mine"
    with pytest.raises(UsageError, match="not empty"), whole_folder(tmp_path / "out"):
        pytest.fail("began")


@pytest.mark.parametrize("name", ["out", "out[1]"])
def test_what_a_killed_process_left_of_a_new_folder_is_removed(name: str, tmp_path: Path) -> None:
    """Also of an earlier version, which named the folder by its process."""
    program = (
        "import os, sys, signal\nfrom valuerepair.files import whole_folder\n"
        "with whole_folder(sys.argv[1]) as partial:\n"
        "    (partial / 'chunk').touch()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path)
    (tmp_path / f".{name}.4711.part").mkdir()
    for other in (f".{name}.b.4711.part", f".{name}.4711.0.part", f".{name}.mine.part"):
        (tmp_path / other).mkdir()
    with whole_folder(tmp_path / f"{name}.a") as beside, whole_folder(tmp_path / name) as partial:
        assert beside.exists()
        (partial / "chunk").touch()
        with (
            pytest.raises(ValueRepairError, match=re.escape(f"{name}: another process is writing it")),
            whole_folder(tmp_path / name),
        ):
            pytest.fail("two at once")
    others = [f".{name}.4711.0.part", f".{name}.b.4711.part", f".{name}.mine.part"]
    assert sorted(os.listdir(tmp_path)) == sorted([*others, name, f"{name}.a"])


@pytest.mark.parametrize("reason", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_new_folder_where_the_file_system_has_no_locks(
    reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_lock(descriptor: int, operation: int) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr("fcntl.flock", no_lock)
    with whole_folder(tmp_path / "out") as partial:
        (partial / "chunk").touch()
    assert os.listdir(tmp_path) == ["out"]
    with pytest.raises(ValueRepairError, match="this file system has no locks"), claimed(tmp_path / "lock"):
        pytest.fail("began")
    (tmp_path / "full").write_bytes(b"of another")
    with pytest.raises(ValueRepairError, match="this file system has no locks"), claimed(tmp_path / "full"):
        pytest.fail("began")
    assert sorted(os.listdir(tmp_path)) == ["full", "out"]


def test_files_of_a_new_folder_are_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = set[int]()
    monkeypatch.setattr("valuerepair.files.os.fsync", lambda file: synced.add(os.fstat(file).st_ino))
    (tmp_path / "others").write_bytes(b"another's, perhaps without the right to write it")
    with whole_folder(tmp_path / "out") as partial:
        (partial / "deep").mkdir()
        for path in (partial / "chunk", partial / "deep" / "chunk"):
            path.write_bytes(b"mine")
        os.link(tmp_path / "others", partial / "linked")
        own = {path.stat().st_ino for path in (partial / "chunk", partial / "deep" / "chunk")}
        assert not synced
    assert synced == own


def test_no_store_is_made_of_another_file(foreign: Mapping[str, bytes], tmp_path: Path) -> None:
    target = tmp_path / "mine.db"
    for what, content in foreign.items():
        if what != "a store":
            target.write_bytes(content)
            with pytest.raises(ValueRepairError, match="valuerepair store; give another --db"):
                Store.open(target, create=True)
            assert tree(tmp_path) == {"mine.db": content}, what
    target.unlink()
    target.symlink_to("/dev/null")
    (tmp_path / "pipe").symlink_to(tmp_path / "fifo")
    os.mkfifo(tmp_path / "fifo")
    for path in (target, tmp_path / "pipe"):
        for how in ({"create": True}, {"write": True}, {}):
            with pytest.raises(ValueRepairError, match="is a device, pipe or socket"):
                Store.open(path, **how)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "mine.db", "pipe"]


def test_a_file_in_the_place_of_a_lock_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.db.lock").write_text("the combination is 1-2-3")
    with pytest.raises(ValueRepairError, match=r"mine\.db\.lock; give another --db"):
        Store.open(tmp_path / "mine.db", create=True)
    assert tree(tmp_path) == {"mine.db.lock": b"the combination is 1-2-3"}
    (tmp_path / "mine.db.lock").write_text("12345")  # left by a crash
    Store.open(tmp_path / "mine.db", create=True).close()
    assert tree(tmp_path) == {}
