"""What the program never does with what it is given: unpickle, evaluate, hand to a shell, write outside a folder."""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.engines.process import EngineFailure, LineProcess
from valuerepair.files import VR

PACKAGE = Path(__file__).parents[1] / "valuerepair"
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "torch", "joblib", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "pd.read_pickle"}


def called(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every file of the package, parsed once."""
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    assert len(paths) > 100
    return {name: ast.parse(path.read_text("utf-8"), name) for name, path in paths.items()}


def dangers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that unpickle what they read, run a text, or write where an archive says."""
    for module in FORBIDDEN_MODULES & set(imported(tree)):
        yield 1, f"import {module}"
    for name, call in called(tree):
        named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        if (
            name in FORBIDDEN_CALLS
            or name.endswith((".extractall", ".extract"))
            or named.get("shell", "False") != "False"
            or named.get("allow_pickle", "False") != "False"
        ):
            yield call.lineno, ast.unparse(call)


def test_no_file_is_unpickled_and_no_text_is_run(trees: dict[str, ast.Module]) -> None:
    wrong = [f"{name}:{line}: {text}" for name, tree in trees.items() for line, text in dangers(tree)]
    assert not wrong, "\n".join(wrong)


def test_the_path_of_an_engine_is_no_command_line(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for path in (f"/bin/sh -c 'touch {mark}'", f"/bin/true; touch {mark}", f"$(touch {mark})"):
        with pytest.raises(EngineFailure, match="cannot run"):
            LineProcess([path])
    assert not mark.exists()


def test_names_in_a_tar_write_nothing(tmp_path: Path) -> None:
    """Members are read in memory only: names that lead elsewhere are names."""
    inside = tmp_path / "inside"
    inside.mkdir()
    with tarfile.open(inside / "a.tar", "w") as tar:
        for name in ("../escaped.gz", "/tmp/escaped-absolute.gz", "ok/game_1.gz"):
            content = b"\6\0\0\0" + bytes(100)
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link.gz")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    before = subprocess.run(["find", str(tmp_path)], capture_output=True, check=True).stdout
    report = ReadReport()
    list(sample([str(inside / "a.tar")], SampleOptions(), report))
    assert report.games == 3
    assert subprocess.run(["find", str(tmp_path)], capture_output=True, check=True).stdout == before
    assert not Path("/tmp/escaped-absolute.gz").exists()


def test_a_module_in_the_working_folder_is_not_imported(tmp_path: Path) -> None:
    """As by `python -m`: a folder of archives may have a chess.py."""
    (tmp_path / "chess.py").write_text("open('imported', 'w').close()")
    assert subprocess.run([*VR, "uci"], input=b"uci\nquit\n", cwd=tmp_path, capture_output=True, check=True).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["chess.py"]
