"""Bad input as a user meets it: one line that says what, where and what to do, and the right exit code."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.vr_runs import here, in_a_process

GAME = b'[Event "x"]\n[Result "*"]\n\n'
PLAYED = GAME + b"1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. Bb3 d6 *\n"
QUICK = ["--deep", "stockfish:nodes=500", "-q"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that are not what their names say."""
    root = tmp_path_factory.mktemp("bad")
    (root / "empty.pgn").touch()
    (root / "folder").mkdir()
    (root / "junk.pgn").write_bytes(random.Random(1).randbytes(5000))
    (root / "illegal.pgn").write_bytes(GAME + b"1. e4 e5 2. Ke3 *\n")
    (root / "headers.pgn").write_bytes(GAME)
    (root / "game.pgn").write_bytes(PLAYED)
    (root / "junk.pb.gz").write_text("hello")
    (root / "junk.db").write_text("hello")
    return root


# The call, its exit code, and what its one line names.
CASES = [
    ("mine missing.pgn", 2, "missing.pgn"),
    ("mine /dev/zero", 2, "/dev/zero"),
    ("mine folder", 1, "folder"),
    ("mine https://database.lichess.org/standard/x.pgn.zst", 2, "https://database.lichess.org/standard/x.pgn.zst"),
    ("mine game.pgn --net junk.pb.gz", 1, "junk.pb.gz"),
    ("mine game.pgn --net nosuch", 2, "nosuch"),
    ("mine game.pgn --positions 0", 2, "--positions 0"),
    ("mine game.pgn --deep uci:/bin/true,nodes=10", 1, "/bin/true"),
    ("mine game.pgn --deep uci:/nope,nodes=10", 1, "/nope"),
    ("mine game.pgn --deep stockfish:nodes=abc", 2, "nodes=abc"),
    ("mine game.pgn --threshold 5", 2, "--threshold"),
    ("stats --db junk.db", 1, "junk.db"),
    ("stats --db none.db", 1, "none.db"),
    ("stats --threshold worst:200%", 2, "worst:200%"),
    ("mine game.pgn --screen auto", 2, "--screen"),
    ("mine game.pgn --threshold worst:2%", 2, "--threshold"),
    ("stats report.html", 2, "report.html"),
    ("eval notafen", 2, "notafen"),
    ("show 1 --db missing.db", 1, "missing.db"),
    ("mix --repair missing --normal missing -o out", 2, "missing"),
    ("selfplay missing.pgn", 2, "missing.pgn"),
    ("doctor missing.db", 1, "missing.db"),
    ("doctor missing.onnx", 1, "missing.onnx"),
    ("merge missing.db -o all.db", 1, "missing.db"),
    *[
        (f"{name} --db missing.db", 1, "missing.db")
        for name in ("confirm", "expand", "books", "split", "plot", "report")
    ],
]


@pytest.mark.parametrize(("call", "code", "named"), CASES, ids=[case[0] for case in CASES])
def test_one_line_and_the_exit_code(folder: Path, call: str, code: int, named: str) -> None:
    before = sorted(folder.iterdir())
    done = here(*call.split(), cwd=folder)
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout, line[:4]) == (code, "", "vr: ")
    assert named in line
    assert sorted(folder.iterdir()) == before


@pytest.mark.usefixtures("stockfish")
@pytest.mark.parametrize(
    ("archive", "reason"),
    [("empty", "the file is empty"), ("junk", "not PGN"), ("illegal", "1 illegal move"), ("headers", "1 no moves")],
)
def test_archives_without_positions(folder: Path, archive: str, reason: str) -> None:
    done = here("mine", f"{archive}.pgn", "--db", f"of-{archive}.db", *QUICK, cwd=folder)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"vr: {archive}.pgn: ")
    assert reason in done.stderr.splitlines()[-1]
    assert not list(folder.glob(f"of-{archive}.db*"))


@pytest.mark.usefixtures("stockfish")
def test_what_rejected_most_is_named(folder: Path) -> None:
    (folder / "played.pgn").write_bytes(PLAYED)
    done = here("mine", "played.pgn", "--db", "filtered.db", *QUICK, "--min-elo", "4000", cwd=folder)
    assert done.stderr.splitlines()[-1].startswith("vr: played.pgn: ")
    assert "1 no Elo" in done.stderr


def test_a_process_says_and_returns_what_its_main_function_does(folder: Path) -> None:
    apart, done = (run("mine", "missing.pgn", cwd=folder) for run in (in_a_process, here))
    assert apart.stderr
    assert (apart.returncode, apart.stdout, apart.stderr) == (done.returncode, done.stdout, done.stderr)
