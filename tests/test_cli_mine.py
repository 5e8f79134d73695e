"""`vr mine`, `vr stats` and `vr export` as a user types them: real net, real Stockfish, real archives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import chess
import pytest

from tests.mining_doubles import dump, random_games, wait_for
from tests.vr_runs import here, in_a_process
from valuerepair.store.store import Store
from valuerepair.store.view import frame

# Everything is searched in full: what screening does is in test_mining_screening.py.
WORDS = ("--positions", "60", "--deep", "stockfish:nodes=5000", "--screen", "off")


@pytest.fixture(scope="module")
def net(shared_data: Path) -> Path:
    return shared_data / "nets" / "maia-1900.pb.gz"


@pytest.fixture(scope="module")
def mined(shared_data: Path, net: Path, stockfish: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `vr mine` was run on a real archive with default store."""
    folder = tmp_path_factory.mktemp("mined")
    archive = shared_data / "pgn" / "lichess-blitz.pgn"
    done = in_a_process("mine", archive, *WORDS, "--net", net, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "said").write_text(done.stdout)
    return folder


def test_mining_a_real_archive(mined: Path) -> None:
    printed = (mined / "said").read_text().splitlines()
    assert "positions: 60 sampled of 66,292" in printed
    assert any(line.startswith("scored: 60 of 60, 0 failed") for line in printed)
    assert any(line.startswith("deep Q from: alpha 170 (default 170: fewer than 300") for line in printed)
    assert printed[-1].startswith(("next: vr books --threshold 0.55", "no candidates at 0.55"))
    with Store.open(mined / "valuerepair.db") as store:
        scored = frame(store)
        ((command, state),) = store.connection.execute("SELECT command, state FROM runs").fetchall()
    assert len(scored) == 60
    assert (scored["nodes"] >= 4000).mean() > 0.9
    for row in scored.to_dict("records"):
        board = chess.Board(row["start_fen"])
        for move in row["moves"].split():
            board.push_uci(move)
        assert board.fen() == row["fen"]
        assert chess.Move.from_uci(row["net_best"]) in board.legal_moves
        assert chess.Move.from_uci(row["deep_best"]) in board.legal_moves
        assert row["net_w"] - row["net_l"] == pytest.approx(row["net_q"], abs=1e-6)
    # A real net and a real engine agree on most positions: signs and perspectives are right for both colours.
    decided = scored[scored["deep_q"].abs() > 0.8]
    for side in "wb":
        assert (decided["net_q"] * decided["deep_q"] > 0)[decided["side"] == side].mean() > 0.7
    assert " mine " in command
    assert state == "finished"


def test_the_same_command_and_another_one(mined: Path, shared_data: Path, net: Path) -> None:
    before = dump(mined / "valuerepair.db")
    archive = shared_data / "pgn" / "lichess-blitz.pgn"
    again = here("mine", archive, *WORDS, "--net", net, "-q", cwd=mined)
    assert again.returncode == 0
    assert "scored: 60 of 60, 0 failed, 60 of them before" in again.stdout
    assert again.stderr == ""
    assert dump(mined / "valuerepair.db") == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["mine"], 2, "Missing argument"),
        (["mine", "missing.pgn"], 2, "missing.pgn"),
        (["mine", "games.pgn", "--threshold", "3"], 2, "3.0 is not in the range 0<x<=2"),
        (["mine", "games.pgn", "--screen", "much"], 2, "much"),
        (["mine", "games.pgn", "--db", "junk.db"], 1, "junk.db cannot be opened as a store"),
        (["mine", "games.pgn", "--db", "no/a.db"], 1, "no/a.db cannot be written"),
        (["stats"], 1, "there is no store at valuerepair.db"),
        (["stats", "--db", "junk.db"], 1, "junk.db cannot be opened as a store"),
        (["export", "-o", "a.xml"], 2, "a.xml"),
        (["export"], 1, "there is no store at valuerepair.db"),
    ],
)
def test_errors_are_one_line_and_leave_nothing_behind(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    random_games(tmp_path / "games.pgn", 2)
    (tmp_path / "junk.db").write_text("junk " * 300)
    done = here(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["games.pgn", "junk.db"]


def test_a_wrong_net_or_engine_leaves_no_store(tmp_path: Path, net: Path) -> None:
    random_games(tmp_path / "games.pgn", 2)
    (tmp_path / "bad.pb.gz").write_text("no net")
    for wrong in (["--net", "bad.pb.gz"], ["--net", str(net), "--deep", "uci:/bin/false,nodes=5"]):
        done = here("mine", "games.pgn", *wrong, cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "valuerepair.db").exists()


def test_a_cut_archive_is_used_and_the_exit_code_says_so(tmp_path: Path, net: Path, stockfish: str) -> None:
    import gzip

    packed = gzip.compress(random_games(tmp_path / "games.pgn", 20).read_bytes())
    (tmp_path / "cut.pgn.gz").write_bytes(packed[: len(packed) // 2])
    done = here("mine", "cut.pgn.gz", "--net", net, "--deep", "stockfish:nodes=500", cwd=tmp_path)
    assert done.returncode == 1
    assert "scored: " in done.stdout
    assert done.stderr.splitlines()[-1].startswith("vr: cut.pgn.gz: ")
    assert done.stderr.splitlines()[-1].endswith("everything before that was used")
    assert done.stderr.splitlines()[-1].count(" used") == 1


@pytest.mark.slow
def test_ctrl_c_stops_stockfish_too(tmp_path: Path, shared_data: Path, net: Path, stockfish: str) -> None:
    archive = shared_data / "pgn" / "lichess-blitz.pgn"
    command = [
        sys.executable,
        "-m",
        "valuerepair",
        "mine",
        str(archive),
        "--net",
        str(net),
        "--deep",
        "stockfish:nodes=50000",
    ]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
    )
    wait_for(running, tmp_path / "valuerepair.db", 1)
    # As a terminal does it: to the whole group, engines among them.
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "run the same command again" in out
    assert err.splitlines()[-1] == "vr: interrupted"
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
    with Store.open(tmp_path / "valuerepair.db") as store:
        assert len(frame(store)) > 0


@pytest.mark.slow
def test_standard_input_is_an_archive_and_ctrl_c_ends_a_pipe_that_stays_open(
    tmp_path: Path, net: Path, stockfish: str
) -> None:
    command = [sys.executable, "-m", "valuerepair", "mine", "-", "--net", str(net), "--deep", "stockfish:nodes=1000"]
    command += ["--screen", "off"]
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    assert running.stdin is not None
    games = random_games(tmp_path / "games.pgn", 120).read_bytes()
    running.stdin.write(games * 60)  # enough bytes to be parsed while the pipe is open; only 120 games count
    running.stdin.flush()
    wait_for(running, tmp_path / "valuerepair.db", 1)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) == 130
    done = subprocess.run(command, input=games, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert b"scored: 120 of 120" in done.stdout
