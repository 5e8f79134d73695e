"""Bad input as a user meets it: one line that says what, where and what to do, and the right exit code."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests import random_nets
from tests.cli_tree import SAMPLE
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
    shutil.copy(SAMPLE, root / "sample.db")
    random_nets.write(random_nets.KINDS[0], root / "my-net.pb.gz")
    return root


CASES = [
    (["mine", "missing.pgn"], 2, "vr: missing.pgn: no such file or folder"),
    (
        ["mine", "/dev/zero"],
        2,
        "vr: /dev/zero: is a device or socket; name files, folders, pipes, or - for standard input",
    ),
    (
        ["mine", "folder"],
        1,
        "vr: folder: no .pgn, .epd, .fen, .jsonl, .tar files (packed ones count too) or lc0 chunks in this folder",
    ),
    (
        ["mine", "game.pgn", "--net", "junk.pb.gz"],
        1,
        "vr: junk.pb.gz: is not a net: neither lc0 weights (.pb.gz) nor an ONNX file",
    ),
    (
        ["mine", "game.pgn", "--net", "nosuch"],
        2,
        "vr: net 'nosuch': neither a known net (maia-1900) nor a file; give a path to a .pb.gz or .onnx file",
    ),
    (["mine", "game.pgn", "--per-game", "0"], 2, "vr: --per-game 0: give at least 1"),
    (["mine", "game.pgn", "--deep", "uci:/bin/true,nodes=10"], 1, "vr: /bin/true: the engine exited with code 0"),
    (
        ["mine", "game.pgn", "--deep", "uci:/nope,nodes=10"],
        1,
        "vr: --deep 'uci:/nope,nodes=10': /nope: no such engine; give its path or a name that is on PATH",
    ),
    (
        ["mine", "game.pgn", "--deep", "stockfish:nodes=abc"],
        2,
        "vr: --deep 'stockfish:nodes=abc': nodes=abc: must be a whole number of at least 1",
    ),
    (
        ["mine", "game.pgn", "--threshold", "5"],
        2,
        "vr: mine: Invalid value for '--threshold': 5: give |net Q - deep Q|, above 0 and at most 2, or a share of "
        "the positions as worst:2%. See vr mine --help",
    ),
    (["stats", "--db", "junk.db"], 1, "vr: junk.db is not a valuerepair store; give another --db"),
    (
        ["stats", "--db", "none.db"],
        1,
        "vr: there is no store at none.db; make one with vr mine, or give another --db",
    ),
    (
        ["books", "--threshold", "3"],
        2,
        "vr: books: Invalid value for '--threshold': 3: give |net Q - deep Q|, above 0 and at most 2, or a share of "
        "the positions as worst:2%. See vr books --help",
    ),
    (
        ["stats", "--threshold", "worst:200%"],
        2,
        "vr: stats: Invalid value for '--threshold': worst:200%: give |net Q - deep Q|, above 0 and at most 2, or a "
        "share of the positions as worst:2%. See vr stats --help",
    ),
    (
        ["plot", "--alpha", "many"],
        2,
        "vr: plot: Invalid value for '--alpha': many: give a number of centipawns, auto or wdl. See vr plot --help",
    ),
    (
        ["export", "--format", "xml"],
        2,
        "vr: export: Invalid value for '--format': 'xml' is not one of 'parquet', 'jsonl', 'csv', 'plain', 'bin', "
        "'text', 'chunks', 'epd'. See vr export --help",
    ),
    (["eval", "notafen"], 2, "vr: position 'notafen': neither a FEN nor an existing file"),
    (["nets", "pull", "xyz"], 2, "vr: net 'xyz': not known; nets that can be pulled: maia-1900"),
]


@pytest.mark.parametrize(("arguments", "code", "line"), CASES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_one_clear_line_and_the_exit_code(folder: Path, arguments: list[str], code: int, line: str) -> None:
    done = here(*arguments, cwd=folder)
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stderr.splitlines()[-1]) == (code, line)


@pytest.mark.parametrize("arguments", [CASES[0][0], CASES[8][0]], ids=["exit code 2", "exit code 1"])
def test_a_process_says_and_returns_what_its_main_function_does(folder: Path, arguments: list[str]) -> None:
    apart, done = in_a_process(*arguments, cwd=folder), here(*arguments, cwd=folder)
    assert apart.stderr
    assert (apart.returncode, apart.stdout, apart.stderr) == (done.returncode, done.stdout, done.stderr)


SIDES = "for example net=maia-1900,nodes=800,n_scl=5 or stockfish:nodes=1000 or /path/engine,option.Hash=16"
MISPLACED = [
    ("mine my-net.pb.gz", "my-net.pb.gz: a net is given as --net my-net.pb.gz"),
    ("repair my-net.pb.gz", "my-net.pb.gz: a net is given as --net my-net.pb.gz"),
    ("train my-net.pb.gz -o new.pb.gz", "my-net.pb.gz: a net is given as --net my-net.pb.gz"),
    ("mine sample.db", "sample.db: a store is given as --db sample.db"),
    ("chunks sample.db -o c.tar", "sample.db: a store is given as --db sample.db"),
    ("stats sample.db", "sample.db: a store is given as --db sample.db"),
    ("plot sample.db", "sample.db: a store is given as --db sample.db"),
    ("plot scatter.png", "scatter.png: the file to write is given as -o scatter.png"),
    ("plot hexbin new.svg", "new.svg: the file to write is given as -o new.svg"),
    ("report report.html", "report.html: the file to write is given as -o report.html"),
    ("export out.csv", "out.csv: the file to write is given as -o out.csv"),
    ("export out.epd", "out.epd: the file to write is given as -o out.epd"),
    ("split split.json", "split.json: the file to write is given as -o split.json"),
    ("expand split.json", "split.json: a split is given as --split split.json"),
    ("books split.json", "split.json: a split is given as --split split.json"),
    ("books sample.db", "sample.db: a store is given as --db sample.db"),
    ("train sample.db -o new.pb.gz", "sample.db: a store is given as --store sample.db"),
    ("selfplay my-net.pb.gz", "my-net.pb.gz: a net is given as --net my-net.pb.gz"),
    ("remeasure my-net.pb.gz", "my-net.pb.gz: a net is given as --net my-net.pb.gz"),
    (
        "mine https://database.lichess.org/standard/x.pgn.zst",
        "https://database.lichess.org/standard/x.pgn.zst: is an address; download it first, then give the file",
    ),
    ("elo http://x.org/a.pgn", "http://x.org/a.pgn: is an address; download it first, then give the file"),
    ("match maia-1900 stockfish", f"side 'maia-1900': a net is given as net=maia-1900; {SIDES}"),
    ("match net=maia-1900,nodes=9 my-net", f"side 'my-net': a net is given as net=my-net.pb.gz; {SIDES}"),
    ("match my-net.pb.gz stockfish", f"side 'my-net.pb.gz': a net is given as net=my-net.pb.gz; {SIDES}"),
    (
        "train --store sample.db --net my-net.pb.gz -o new.pb.gz",
        "my-net.pb.gz: sample.db has no values of this net; first run: vr remeasure --db sample.db --net maia-1900 "
        "--net my-net.pb.gz",
    ),
]


@pytest.mark.parametrize(("command", "line"), MISPLACED, ids=lambda words: words if words.count(" ") < 4 else "")
def test_what_is_given_in_another_place_is_told_its_own(folder: Path, command: str, line: str) -> None:
    before = sorted(folder.iterdir())
    done = here(*command.split(), cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"vr: {line}\n")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("stats report.html", "vr: stats: Got unexpected extra argument (report.html). See vr stats --help"),
        ("report a b", "vr: report: Got unexpected extra arguments (a b). See vr report --help"),
    ],
)
def test_an_argument_without_a_place_is_only_refused(folder: Path, command: str, line: str) -> None:
    done = here(*command.split(), cwd=folder)
    assert (done.returncode, done.stderr) == (2, f"{line}\n")


ARCHIVES = [
    ("empty.pgn", "vr: empty.pgn: no games found; the file is empty"),
    ("junk.pgn", "vr: junk.pgn: no games found; this is not PGN, EPD or FEN"),
    ("illegal.pgn", "vr: illegal.pgn: no position to mine in 1 game (1 illegal move)"),
    ("headers.pgn", "vr: headers.pgn: no position to mine in 1 game (1 no moves)"),
]


@pytest.mark.usefixtures("stockfish")
@pytest.mark.parametrize(("archive", "line"), ARCHIVES)
def test_archives_without_positions(folder: Path, archive: str, line: str) -> None:
    done = here("mine", archive, "--db", f"{archive}.db", *QUICK, cwd=folder)
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, line)
    assert not list(folder.glob(f"{archive}.db*"))


@pytest.mark.usefixtures("stockfish")
@pytest.mark.parametrize(
    ("filters", "advice"),
    [
        ("--min-elo 4000", "--min-elo"),
        ("--min-ply 900", "--min-ply"),
        ("--min-ply 900 --min-elo 4000", "--min-elo"),
        ("--min-ply 2 --no-check --max-pieces 3", "--max-pieces"),
    ],
)
def test_the_filter_that_rejected_most_is_named(folder: Path, filters: str, advice: str) -> None:
    (folder / "played.pgn").write_bytes(PLAYED)
    done = here("mine", "played.pgn", "--db", "filtered.db", *QUICK, *filters.split(), cwd=folder)
    assert done.stderr.splitlines()[-1].startswith("vr: played.pgn: no position to mine in 1 game (")
    assert done.stderr.splitlines()[-1].endswith(f"); relax {advice}")


@pytest.mark.usefixtures("stockfish")
def test_typed_exactly_so_in_an_empty_folder(tmp_path: Path) -> None:
    """`vr mine games.pgn` and then `vr books`, here with a short search and a threshold that one game can meet."""
    (tmp_path / "games.pgn").write_bytes(PLAYED)
    mined = in_a_process("mine", "games.pgn", *QUICK, cwd=tmp_path)
    assert mined.returncode == 0, mined.stderr
    assert (tmp_path / "valuerepair.db").is_file()
    booked = in_a_process("books", "--threshold", "0.0001", cwd=tmp_path)
    assert booked.returncode == 0, booked.stderr
    assert here("books", "check", "valuerepair-books/book.pgn", cwd=tmp_path).returncode == 0
    none = here("books", "--threshold", "1.99", cwd=tmp_path)
    assert none.returncode == 1
    assert none.stderr.startswith("vr: no candidate at 1.99: the largest disagreement among 1 scored positions is ")
