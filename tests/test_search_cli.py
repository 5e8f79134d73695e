"""`vr eval` with nodes to search, as a user types it: tables, JSON, files searched as a forest, settings, errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import chess
import pytest
from click.testing import CliRunner

from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.mcts.params import MEANINGS, PARAMETERS

TRAP_FEN = "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
ENDGAME = "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1"
MATE_IN_1 = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"
MATED = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1"
# Rh8+ mates in three; most visits go to other moves, which look bad, before that is seen.
HIDDEN_MATE = "r3r1k1/1p3p2/3p1Pp1/4q3/2PnP2R/1P3pN1/3Q1P2/1R3K2 w - - 3 33"


@pytest.fixture
def maia(shared_data: Path) -> str:
    return str(shared_data / "nets" / "maia-1900.pb.gz")


def vr(*words: str, text: str | None = None) -> str:
    """Standard output of a command that must succeed."""
    result = CliRunner().invoke(cli, ["eval", *words], input=text, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*words: str) -> tuple[int, str]:
    """Exit code and line of a command that must fail in a way the user can mend."""
    result = CliRunner().invoke(cli, ["eval", *words])
    assert isinstance(result.exception, ValueRepairError), result.output
    return result.exception.exit_code, str(result.exception)


def test_the_golden_table(maia: str) -> None:
    """Visits and values of lc0 0.32.1 with the same net and nodes, plain and deterministic."""
    lines = vr("--net", maia, "--nodes", "100", "--set", "lc0_floats=1", TRAP_FEN).rstrip().splitlines()
    assert lines[0] == TRAP_FEN
    assert lines[1].startswith("  Q -0.0080   W ")  # lc0 shows 474 - 482 of 1000
    assert "   (mean over all visits -0.0316, net alone " in lines[1]
    assert lines[2] == "  best Nf6 (g8f6)"
    assert re.search(r"maia-1900, 100 nodes, 98 evaluations, [0-9,]+ a second, depth 4, seldepth 7$", lines[3])
    moves = [line.split()[1:3] for line in lines[6:-1]]
    assert moves == [["g8f6", "70"], ["d8f6", "25"], ["c6d4", "2"], ["d7d6", "2"]]
    assert lines[-1] == "  and 27 more without visits"


def test_json_has_every_move(maia: str) -> None:
    row = json.loads(vr("--net", maia, "--nodes", "50", "--json", "startpos moves e2e4 c5"))
    board = chess.Board(row["fen"])
    assert row["moves"] == ["e2e4", "c7c5"]
    assert {move["uci"] for move in row["root_moves"]} == {move.uci() for move in board.legal_moves}
    assert sum(move["n"] for move in row["root_moves"]) == row["nodes"] - 1 == 49
    assert sum(move["p"] for move in row["root_moves"]) == pytest.approx(1, abs=1e-4)
    assert sum(row["wdl"]) == pytest.approx(1)
    assert row["best"] == row["root_moves"][0]["uci"]
    for move in row["root_moves"]:
        assert (move["q"] is None) == (move["n"] == 0)
        if move["n"]:
            assert move["pv"][0] == move["uci"]
            assert move["wdl"][0] - move["wdl"][2] == pytest.approx(move["q"])
            line = board.copy()
            for uci in move["pv"]:
                line.push_uci(uci)


def test_a_proof_counts_in_the_value_and_not_in_the_mean(maia: str) -> None:
    solving = ["--net", maia, "--set", "certainty=1", "--set", "lookahead=1", "--set", "auto_extend=1", HIDDEN_MATE]
    row = json.loads(vr("--nodes", "800", "--json", *solving))
    assert (row["best"], row["certain"], row["mate"]) == ("h4h8", 1, 3)
    assert (row["q"], row["wdl"], row["moves_left"]) == (1.0, [1.0, 0.0, 0.0], 5)
    board = chess.Board(HIDDEN_MATE)
    for uci in row["root_moves"][0]["pv"]:
        board.push_uci(uci)
    assert board.is_checkmate()
    mean = row["net_q"] + sum(move["n"] * move["q"] for move in row["root_moves"] if move["n"])
    assert row["root_q"] == pytest.approx(mean / row["nodes"], abs=1e-5)
    assert row["root_wdl"][0] - row["root_wdl"][2] == pytest.approx(row["root_q"])
    assert row["root_q"] < 0
    shown = vr("--nodes", "800", *solving)
    assert "\n  Q +1.0000   W 100.0 %  D 0.0 %  L 0.0 % " in shown
    assert f"(mean over all visits {row['root_q']:+.4f}, " in shown


def test_without_a_proof_the_value_is_that_of_the_best_move(maia: str) -> None:
    row = json.loads(vr("--net", maia, "--nodes", "60", "--json", TRAP_FEN))
    best = row["root_moves"][0]
    assert (best["uci"], best["certain"]) == (row["best"], None)
    assert (row["q"], row["wdl"]) == (best["q"], best["wdl"])
    alone = json.loads(vr("--net", maia, "--json", TRAP_FEN))
    assert row["net_q"] == pytest.approx(alone["q"])


def test_refuted_moves_keep_the_prior_of_the_net(maia: str) -> None:
    common = ["--net", maia, "--json", TRAP_FEN]
    row = json.loads(vr("--nodes", "300", "--set", "certainty=1", "--set", "lookahead=1", *common))
    refuted = [move["uci"] for move in row["root_moves"] if move["certain"] == -1]
    assert refuted
    for uci in refuted:
        board = chess.Board(TRAP_FEN)
        board.push_uci(uci)
        board.push_uci("f3f7")
        assert board.is_checkmate()
    of_net = {move["uci"]: move["p"] for move in json.loads(vr("--nodes", "2", *common))["root_moves"]}
    assert {move["uci"]: move["p"] for move in row["root_moves"]} == pytest.approx(of_net, rel=1e-5)
    shown = vr("--nodes", "300", "--set", "certainty=1", "--set", "lookahead=1", "--net", maia, TRAP_FEN)
    for uci in refuted:
        (share,) = re.findall(rf"(?m)^  \S+ +{uci} +[\d,]+ +([\d.]+) % ", shown)
        assert float(share) == pytest.approx(100 * of_net[uci], abs=0.0051)


def test_a_file_gives_every_position_what_it_gets_alone(maia: str, tmp_path: Path) -> None:
    positions = tmp_path / "positions.epd"
    fens = [TRAP_FEN, MATED, ENDGAME, chess.STARTING_FEN]
    positions.write_text("# some\n" + "\n".join(fens) + "\n")
    rows = [json.loads(line) for line in vr("--net", maia, "--nodes", "60", "--json", str(positions)).splitlines()]
    assert [row["fen"] for row in rows] == fens
    assert rows[1]["error"] == "game over: checkmate"
    for row in (rows[0], rows[2]):
        alone = json.loads(vr("--net", maia, "--nodes", "60", "--json", row["fen"]))
        for ours, theirs in zip(row["root_moves"], alone["root_moves"], strict=True):
            assert (ours["uci"], ours["n"], ours["pv"]) == (theirs["uci"], theirs["n"], theirs["pv"])
            assert ours["q"] == pytest.approx(theirs["q"], abs=1e-4)
    text = vr("--net", maia, "--nodes", "5", "-", text=f"{MATED}\n{TRAP_FEN}\n")
    assert text.startswith(f"{MATED}\n  game over: checkmate\n\n{TRAP_FEN}\n")


def test_settings_by_all_their_spellings(maia: str) -> None:
    ours_words = ["--set", "certainty=1", "--set", "Lookahead=on", "--set", "n-scl=7", "--set", "auto_extend=1"]
    theirs_words = ["--set", "certainty=on", "--set", "lookahead=1", "--set", "n_scl=7", "--set", "auto-extend=1"]
    common = ["--net", maia, "--nodes", "80", "--json", MATE_IN_1]
    ours, theirs = json.loads(vr(*ours_words, *common)), json.loads(vr(*theirs_words, *common))
    del ours["seconds"], theirs["seconds"]
    assert ours == theirs
    assert (ours["best"], ours["certain"], ours["mate"]) == ("a1a8", 1, 1)
    table = vr("--nodes", "80", *ours_words, "--net", maia, MATE_IN_1)
    assert "  best Ra8# (a1a8), proven win, mate in 1\n" in table
    assert "mate 1" in table


def test_names_of_settings_are_listed() -> None:
    lines = vr("--set", "help").splitlines()
    assert [line.split()[0] for line in lines] == list(PARAMETERS) == list(MEANINGS)
    assert all(line.endswith(f" {MEANINGS[line.split()[0]]}") for line in lines)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["8/8/8/8/8/8/8/8 w - - 0 1"], 2, "not a legal position: no white king"),
        (["nowhere.epd"], 2, "neither a FEN nor an existing file"),
        (["startpos moves e2e5"], 2, "move 'e2e5' is not legal"),
        (["startpos", "--nodes", "0"], 2, "--nodes 0: must be at least 1"),
        (["startpos", "--set", "n_scl=5", "--nodes", "1"], 2, "--set n_scl: "),
        (["startpos", "--set", "n_scl=0"], 2, "n_scl=0: must be a whole number of at least 1, or inf"),
        (["startpos", "--set", "certanty=1"], 2, "no search option 'certanty'; did you mean certainty?"),
        (["startpos", "--set", "cpuct"], 2, "--set 'cpuct' is not NAME=VALUE"),
        (["startpos", "--set", "cpuct=x"], 2, "cpuct=x: must be a number"),
        (["startpos", "--set", "fpu_strategy=some"], 2, "must be one of reduction, absolute"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(maia: str, words: list[str], code: int, said: str) -> None:
    found, line = failure("--net", maia, "--nodes", "9", *words)
    assert found == code
    assert said in line
    assert "\n" not in line


def test_nodes_beyond_memory(maia: str) -> None:
    code, line = failure("--net", maia, "startpos", "--nodes", "2000000000000")
    assert code == 2
    assert "memory" in line


def test_remarks_go_to_standard_error(maia: str) -> None:
    loud = CliRunner().invoke(cli, ["eval", "--net", maia, "--nodes", "2", "--device", "cpu"])
    assert loud.stdout.startswith(chess.STARTING_FEN)
    assert "MCTS" not in loud.stdout
    quiet = CliRunner().invoke(cli, ["eval", "--net", maia, "--nodes", "2", "-q"])
    assert quiet.stderr == ""


@pytest.mark.slow
def test_a_warm_start_takes_less_than_two_seconds(maia: str) -> None:
    """Of processor time, which is that of the clock where nothing else runs."""
    command = [sys.executable, "-m", "valuerepair", "search", "--net", maia, "--nodes", "1", "-q"]
    seconds = []
    for _ in range(4):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(seconds[1:]) < 2
