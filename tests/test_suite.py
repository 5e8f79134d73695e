"""Suites of blind spots: what python-chess reads of them, what comes back, and which ones another net shares."""

from __future__ import annotations

import io
import json
import re
import shutil
import sqlite3
from pathlib import Path

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import valuerepair as vr
from tests.confirm_doubles import Candidate, SecondOracle, look_again, make_store, position_of
from valuerepair.books.suite import read_suite
from valuerepair.chess.values import cp_to_q, wdl_to_q
from valuerepair.cli import cli
from valuerepair.oracles.oracle import DeepOutcome
from valuerepair.store.rows import DeepResult, OracleIdentity
from valuerepair.store.store import Store

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "sample.db"
ASKED = vr.Question(threshold=0.35)


def here(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)


def operations(line: str) -> tuple[chess.Board, dict[str, object]]:
    """A line as python-chess reads it."""
    board = chess.Board()
    parsed: dict[str, object] = dict(board.set_epd(line))
    return board, parsed


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "maia.epd"
    assert vr.write_suite(SAMPLE, path, ASKED).positions == 66
    return path


# -- writing ----------------------------------------------------------------------------------------------------------


def test_python_chess_reads_every_line(suite: Path) -> None:
    with vr.open_store(SAMPLE) as store:
        rows = store.candidates(ASKED, verdicts=True)
    lines = suite.read_text("utf-8").splitlines()
    assert len(lines) == len(rows) == 66
    avoided = 0
    for line, row in zip(lines, rows.to_dict("records"), strict=True):
        board, entry = operations(line)
        assert board.fen() == row["fen"]
        assert entry["bm"] == [board.parse_uci(row["deep_best"])]
        if np.isnan(row["mate"]):
            assert entry["ce"] == row["cp"]
        elif row["mate"] > 0:
            assert entry["dm"] == row["mate"]
        loses = row["net_best"] != row["deep_best"] and row["second_q"] - row["after_net_q"] >= 0.35
        assert entry.get("am") == ([board.parse_uci(row["net_best"])] if loses else None)
        avoided += loses
        assert f"net Q {row['net_q']:+.5f}, sha256 e2f565f42d7c, maia-1900" == entry["c0"]
        assert str(entry["c1"]).endswith("threshold 0.35, stockfish 15.1 nodes=50000")
        assert entry["id"] == f"games.pgn.zst#{row['game']} ply {row['ply']}"
        # The moves lead to the position, as any engine would take them.
        start, _, moves = str(entry["c3"]).partition(": ")
        assert start == "history startpos"
        assert "moves" not in line.split()  # what begins a list of moves in UCI
        played = chess.Board()
        for move in moves.split():
            played.push_uci(move)
        assert played.fen() == board.fen()
        # python-chess writes what it has read.
        assert operations(board.epd(**entry))[1] == entry  # type: ignore[arg-type]  # operations are any
    assert avoided == 5


def test_the_command_writes_the_same(suite: Path, tmp_path: Path) -> None:
    done = here("export", "--db", SAMPLE, "--threshold", "0.35", "-o", tmp_path / "again.epd")
    assert done.exception is None
    assert (tmp_path / "again.epd").read_bytes() == suite.read_bytes()
    assert "66 blind spots of maia-1900" in done.stderr
    assert "refutes the net's first move in 5 of them (am)" in done.stderr
    shown = here("export", "--db", SAMPLE, "--threshold", "0.35", "--format", "epd", "-q")
    assert shown.stdout == suite.read_text("utf-8")
    usual = here("export", "--db", SAMPLE, "--format", "epd", "-q")
    with vr.open_store(SAMPLE) as store:
        assert len(usual.stdout.splitlines()) == len(store.candidates(vr.Question()))  # of 0.55: no others are wrong


def test_a_split_keeps_what_is_held_out_apart(tmp_path: Path) -> None:
    with vr.open_store(SAMPLE) as store:
        split = vr.choose_split(store, games=0.3)
        ids = store.candidates(ASKED)["position_id"].to_numpy()
        wanted = [int(split.among(store, ids, part).sum()) for part in ("train", "held-out")]
    written = [
        vr.write_suite(SAMPLE, tmp_path / f"{part}.epd", ASKED, split=split, part=part).positions
        for part in ("train", "held-out")
    ]
    assert written == wanted
    assert all(written)
    vr.write_split(tmp_path / "split.json", split)
    done = here("export", "--db", SAMPLE, "--threshold", "0.35", "--format", "epd", "--split", tmp_path / "split.json")
    assert done.stdout.encode() == (tmp_path / "train.epd").read_bytes()


MATED_IN_2 = "7K/8/5k2/8/8/8/8/6r1 w - - 3 70"  # by the first look, at least
ROOK = "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"


def odd_store(path: Path) -> Path:
    """Mates for both sides, a White one in a game whose tags are hostile, a position without history."""
    rows = [
        Candidate(position_of(ROOK), -0.5, DeepResult(mate=1, best_move="d1d8", nodes=9, depth=3), "d1d2"),
        Candidate(position_of(MATED_IN_2), 0.5, DeepResult(mate=-2, best_move="h8h7"), "h8h7"),
        Candidate(position_of(chess.STARTING_FEN, "e2e4", "e7e5"), 0.9, DeepResult(cp=-40_000, best_move="g1f3"), ""),
        Candidate(position_of(chess.STARTING_FEN, "f2f3", "e7e5", "g2g4"), -0.9, DeepResult(mate=1), "a7a6"),
    ]
    make_store(path, rows)
    with sqlite3.connect(path) as connection:
        connection.execute("""UPDATE games SET white = 'A "quoted; \\ name"' || char(10) || 'x', black = 'B'""")
    connection.close()
    return path


def test_mates_are_as_the_standard_has_them_and_text_breaks_nothing(tmp_path: Path) -> None:
    written = vr.write_suite(odd_store(tmp_path / "a.db"), tmp_path / "odd.epd")
    assert (written.positions, written.avoided, written.unasked) == (4, 0, 1)
    entries = {board.fen(): ops for board, ops in map(operations, (tmp_path / "odd.epd").read_text().splitlines())}
    assert (entries[ROOK]["dm"], entries[ROOK]["acn"], entries[ROOK]["acd"]) == (1, 9, 3)
    assert "c3" not in entries[ROOK]  # no history is known
    # PGN standard, 16.2.5: a losing mate in N is -32,767 plus 2 N.
    assert entries[MATED_IN_2]["ce"] == -32_763
    others = [ops for ops in entries.values() if "c3" in ops]
    assert sorted((ops.get("ce"), ops.get("dm"), "bm" in ops) for ops in others if "ce" in ops) == [
        (-32_000, None, True)
    ]
    assert str(others[0]["c2"]).startswith("A 'quoted, / name' x - B")
    again = read_suite(tmp_path / "odd.epd")
    recorded = {fen: r for fen, r in zip(again.batch.fen, again.batch.origin.recorded or (), strict=True) if r}
    assert [recorded[fen].mate for fen in (ROOK, MATED_IN_2)] == [1, -2]
    assert [recorded[fen].best_move for fen in (ROOK, MATED_IN_2)] == ["d1d8", "h8h7"]


def by_net_move(net_move: str, value: int) -> SecondOracle:
    """A second look that agrees with the first, and says what comes after the net's move."""

    def answer(position: vr.Position) -> DeepOutcome:
        last = position.moves[-1] if len(position.moves) > 2 else ""
        cp = value if last == net_move else 300 if last else -300
        return DeepResult(cp=cp, nodes=10_000, best_move=next(iter(chess.Board(position.fen).legal_moves)).uci())

    return SecondOracle(answer)


@pytest.mark.parametrize(("value", "avoided"), [(3000, True), (400, False)])
def test_am_is_claimed_by_the_judges_word_alone(tmp_path: Path, value: int, avoided: bool) -> None:
    """-300 before the move; after it the opponent has 3,000 centipawns, or 400, which loses little more."""
    first = DeepResult(cp=-300, best_move="g1f3")
    row = Candidate(position_of(chess.STARTING_FEN, "e2e4", "e7e5"), 0.9, first, "d1h5")
    path = make_store(tmp_path / "a.db", [row])
    untold = vr.write_suite(path, tmp_path / "before.epd", vr.Question(alpha=400))
    assert (untold.avoided, untold.unasked) == (0, 1)
    assert "vr confirm would check 1 more" in untold.lines()[0]
    look_again(path, by_net_move("d1h5", value))
    summary = vr.write_suite(path, tmp_path / "after.epd", vr.Question(alpha=400))
    _, entry = operations((tmp_path / "after.epd").read_text())
    assert (summary.avoided, summary.unasked) == (int(avoided), 0)
    assert entry.get("am") == ([chess.Move.from_uci("d1h5")] if avoided else None)
    assert str(entry["c4"]).startswith("second look Q -")


def test_am_by_the_judges_own_search_after_the_move(tmp_path: Path) -> None:
    """As vr expand leaves it: the same judge has searched the position after the net's move."""
    first = DeepResult(cp=-300, best_move="g1f3")
    rows = [
        Candidate(position_of(chess.STARTING_FEN, "e2e4", "e7e5"), 0.9, first, "d1h5"),
        Candidate(position_of(chess.STARTING_FEN, "e2e4", "e7e5", "d1h5"), 0.9, DeepResult(cp=3000), "b8c6"),
    ]
    path = make_store(tmp_path / "a.db", rows)
    written = vr.write_suite(path, tmp_path / "a.epd", vr.Question(alpha=400))
    assert (written.positions, written.avoided, written.unasked) == (1, 1, 0)
    assert operations((tmp_path / "a.epd").read_text())[1]["am"] == [chess.Move.from_uci("d1h5")]


def test_what_a_second_look_refutes_is_left_out(tmp_path: Path) -> None:
    first = DeepResult(cp=-300, best_move="g1f3")
    path = make_store(tmp_path / "a.db", [Candidate(position_of(chess.STARTING_FEN, "e2e4", "e7e5"), 0.9, first)])

    def winning(position: vr.Position) -> DeepOutcome:
        return DeepResult(cp=3000 if len(position.moves) == 2 else -3000, nodes=10_000, best_move="g1f3")

    look_again(path, SecondOracle(winning))
    written = vr.write_suite(path, tmp_path / "a.epd")
    assert (written.positions, dict(written.left_out)) == (0, {"net right at a second look": 1})
    assert written.lines()[-1] == "left out: 1 net right at a second look"


def test_calibrated_candidates_are_refused(tmp_path: Path) -> None:
    done = here("export", "--db", SAMPLE, "--calibration", "fitted", "-o", tmp_path / "a.epd")
    assert isinstance(done.exception, vr.UsageError)
    assert "--calibration fitted: a suite" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
    assert "does not apply to epd" in str(here("export", "--db", SAMPLE, "--labels", "-o", "a.epd").exception)


# -- reading ----------------------------------------------------------------------------------------------------------


def test_a_suite_mined_again_is_the_same_positions(suite: Path, tmp_path: Path, any_maia: Path) -> None:
    """With their histories, the judge's values and moves; and all of them are misjudged as before."""
    db = tmp_path / "again.db"
    done = here("mine", suite, "--net", any_maia, "--deep", "recorded", "--db", db, "-q")
    assert done.exception is None, done.exception
    with vr.open_store(SAMPLE) as store:
        before = store.candidates(ASKED).set_index("fen").sort_index()
        alpha = store.frame().attrs["alpha"]["value"]
    with vr.open_store(db) as store:
        after = store.frame(vr.Question(alpha=alpha)).set_index("fen").sort_index()
    same = ["start_fen", "moves", "ply", "history_known", "deep_best"]
    pd.testing.assert_frame_equal(after[same], before[same], check_like=True)
    assert np.allclose(after["net_q"], before["net_q"], atol=1e-4)
    assert np.allclose(after["deep_q"], before["deep_q"], atol=1e-6)


def test_another_nets_share_is_counted_as_by_hand(suite: Path, tmp_path: Path, shared_data: Path) -> None:
    """Mined by one net, written, read for another; counted again with python-chess, and from the store itself."""
    other = shared_data / "nets" / "maia-1100.pb.gz"
    out = tmp_path / "shared.csv"
    done = here("remeasure", suite, "--net", other, "--json", "-q", "-o", out)
    assert done.exception is None, done.exception
    [share] = json.loads(done.stdout)["shares"]
    # By hand: FEN and moves by python-chess, Q of centipawns by the formula, the alpha that c1 names.
    boards, deep, own = [], [], []
    for line in suite.read_text("utf-8").splitlines():
        _, entry = operations(line)
        alpha = float(str(entry["c1"]).partition("alpha ")[2].partition(",")[0])
        boards.append(str(entry["c3"]).removeprefix("history ").replace(":", " moves"))
        score = entry.get("ce")
        deep.append(1.0 if "dm" in entry else 2 / (1 + np.exp(-float(str(score)) / alpha)) - 1)
        own.append(float(str(entry["c0"]).split()[2].rstrip(",")))
    q = vr.evaluate(boards, net=str(other))["q"].to_numpy()
    off = q - np.array(deep)
    shared = (np.abs(off) >= 0.35) & (np.sign(off) == np.sign(np.array(own) - deep))
    assert 0 < shared.sum() < 66
    assert (share["shared"]["count"], share["shared"]["total"]) == (int(shared.sum()), 66)
    assert pd.read_csv(out)["shared_1"].tolist() == shared.tolist()
    # docs/guide/position-sets.md shows it.
    page = (ROOT / "docs" / "guide" / "position-sets.md").read_text("utf-8")
    assert "\n".join(vr.remeasure_suite(suite, str(other)).lines()[:2]) in page
    # From the store, which has values of both nets: the same positions of one net are wrong for the other.
    copy = Path(shutil.copy(SAMPLE, tmp_path))
    both = vr.remeasure(copy, ["maia-1900", str(other)], vr.Question(threshold=0.35))
    assert both.comparisons[0].counts["still wrong"] == share["shared"]["count"] + share["opposite"]
    assert share["opposite"] == int(((np.abs(off) >= 0.35) & ~shared).sum())


def test_a_net_has_all_of_its_own(suite: Path, any_maia: Path) -> None:
    remeasured = vr.remeasure_suite(suite, str(any_maia))
    assert remeasured.shares[0].itself
    assert (remeasured.shares[0].shared.count, remeasured.shares[0].shared.total) == (66, 66)
    assert remeasured.lines() == [
        "66 blind spots of maia-1900, 0.35 or more off (judge: stockfish 15.1 nodes=50000)",
        f"  maia-1900 has {remeasured.shares[0].shared}",
    ]
    wider = vr.remeasure_suite(suite, str(any_maia), threshold=0.6)
    narrow = (remeasured.rows["net_q"] - remeasured.rows["deep_q"]).abs() >= 0.6
    assert wider.shares[0].shared.count == narrow.sum() < 66


@pytest.mark.parametrize(("threshold", "shared", "total"), [(0.35, 45, 66), (0.55, 9, 14)])
def test_without_histories_a_net_looks_better(
    tmp_path: Path, any_maia: Path, threshold: float, shared: int, total: int
) -> None:
    """As docs/guide/position-sets.md says, of the net whose suite it is."""
    vr.write_suite(SAMPLE, tmp_path / "a.epd", vr.Question(threshold=threshold))
    text = (tmp_path / "a.epd").read_text("utf-8")
    (tmp_path / "bare.epd").write_text(re.sub(r' c3 "[^"]*";', "", text), encoding="utf-8")
    [share] = vr.remeasure_suite(tmp_path / "bare.epd", str(any_maia)).shares
    assert (share.shared.count + share.opposite, share.shared.total) == (shared, total)
    page = " ".join((ROOT / "docs" / "guide" / "position-sets.md").read_text("utf-8").split())
    assert f"{shared} of its {total}" in page or f"{shared} of {total} at" in page


def test_a_collection_is_counted_by_net_and_positions_of_others_by_themselves(
    suite: Path, tmp_path: Path, any_maia: Path
) -> None:
    mine = suite.read_text("utf-8").splitlines()[:20]
    theirs = [line.replace("sha256 e2f565f42d7c, maia-1900", "sha256 abcdef012345, other") for line in mine[:10]]
    bare = "7k/8/5K2/8/8/8/8/6R1 w - - dm 2; id own.1;"
    path = tmp_path / "collection.epd"
    path.write_text("\n".join(["# collected", *mine, *theirs, bare, "nonsense"]) + "\n", encoding="utf-8")
    remeasured = vr.remeasure_suite(path, [str(any_maia), str(any_maia)])
    assert [(share.of, share.shared.total) for share in remeasured.shares[:3]] == [
        ("maia-1900", 20),
        ("other", 10),
        (None, 1),
    ]
    assert len(remeasured.shares) == 6
    assert [share.shared.count for share in remeasured.shares[:2]] == [20, 10]
    assert remeasured.left_out == {"not a position": 1}
    assert remeasured.lines()[-1].startswith("a suite is chosen by one net's errors")
    assert list(remeasured.rows["line"]) == list(range(2, 33))


def test_a_judge_with_a_q_of_its_own(tmp_path: Path) -> None:
    """Its centipawns are those of its Q, and its Q is what is read back, whatever alpha is given."""
    lc0 = OracleIdentity("lc0", "Lc0 v0.32", "ab" * 32, {"nodes": 100}, {})
    rows = [Candidate(position_of(ROOK), -0.5, DeepResult(q=0.6, cp=999, best_move="d1d8")),
            Candidate(position_of(MATED_IN_2), 0.5, DeepResult(q=-1.0, best_move="h8h7"))]  # fmt: skip
    make_store(tmp_path / "a.db", rows, lc0)
    vr.write_suite(tmp_path / "a.db", tmp_path / "a.epd")
    entries = [operations(line)[1] for line in (tmp_path / "a.epd").read_text().splitlines()]
    by_q = {float(str(ops["c1"]).split()[2].rstrip(",")): ops["ce"] for ops in entries}
    assert by_q[-1.0] == -32_000
    assert float(cp_to_q(float(str(by_q[0.6])), 170)) == pytest.approx(0.6, abs=0.003)
    assert all(", own Q, " in str(ops["c1"]) for ops in entries)
    for alpha in (None, 50.0):
        assert sorted(read_suite(tmp_path / "a.epd", alpha=alpha).rows["deep_q"]) == [-1.0, 0.6]


def test_q_of_wdl(tmp_path: Path) -> None:
    rows = [Candidate(position_of(ROOK), -0.5, DeepResult(cp=50, wdl=(700, 200, 100), best_move="d1d8"))]
    make_store(tmp_path / "a.db", rows)
    vr.write_suite(tmp_path / "a.db", tmp_path / "a.epd", vr.Question(q_from="wdl"))
    _, entry = operations((tmp_path / "a.epd").read_text())
    assert (entry["ce"], str(entry["c1"]).split(", ")[:2]) == (
        50,
        [f"judge Q {wdl_to_q([700, 200, 100]):+.5f}", "W/D/L"],
    )
    assert read_suite(tmp_path / "a.epd").rows["deep_q"].tolist() == [0.6]


def test_suites_of_others(shared_data: Path, tmp_path: Path) -> None:
    """matetrack has a mate a line, won or lost: a net is wrong where its Q is 0.55 or more from that."""
    lines = (shared_data / "epd" / "matetrack.epd").read_text("latin-1").splitlines()[:300]
    (tmp_path / "mates.epd").write_text("\n".join(lines))
    net = str(shared_data / "nets" / "maia-1100.pb.gz")
    remeasured = vr.remeasure_suite(tmp_path / "mates.epd", net)
    q = vr.evaluate(remeasured.rows["fen"].tolist(), net=net)["q"]
    lost = ["bm #-" in lines[number - 1] for number in remeasured.rows["line"]]
    won = 1 - 2 * np.array(lost, float)
    assert remeasured.rows["deep_q"].tolist() == won.tolist()
    assert remeasured.shares[0].shared.count == int((np.abs(q - won) >= 0.55).sum()) > 0
    assert remeasured.lines()[0] == f"{len(remeasured.rows):,} positions with a value, 0.55 or more off"


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("nowhere.epd", "--net", "maia-1900"), "nowhere.epd: no such file", 2),
        (("maia.epd",), "give the net to measure: --net", 2),
        (("maia.epd", "--net", "nowhere.pb.gz"), "nowhere.pb.gz", 1),
        (("maia.epd", "--net", "maia-1900", "--db", "a.db"), "--db: needs a store, not a suite", 2),
        (("maia.epd", "--net", "maia-1900", "--split", "a.json"), "--split: needs a store", 2),
        (("maia.epd", "--net", "maia-1900", "--alpha", "wdl"), "--alpha wdl: a suite has no W/D/L", 2),
        (("maia.epd", "--net", "maia-1900", "--threshold", "worst:2%"), "a share is of a store's positions", 2),
        (("maia.epd", "--net", "maia-1900", "-o", "a.txt"), "a.txt does not say a format; end it in .parquet,", 2),
        (("bare.epd", "--net", "maia-1900"), "bare.epd: no line of EPD with a value (ce, dm or bm #N)", 1),
        ((".", "--net", "maia-1900"), "give one EPD file, not a folder", 2),
    ],
)
def test_bad_input(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(suite, tmp_path)
    (tmp_path / "bare.epd").write_text(f"{ROOK}\n")
    done = here("remeasure", *arguments)
    assert isinstance(done.exception, vr.ValueRepairError), done.exception
    assert words in str(done.exception)
    assert (done.exception.exit_code, "\n" in str(done.exception)) == (code, False)


def test_histories_of_lines(tmp_path: Path) -> None:
    """A history that leads elsewhere, or is not legal, is no line; a line without counters has those of its history."""
    board = chess.Board()
    for move in ("e2e4", "e7e5", "g1f3"):
        board.push_uci(move)
    epd, start = board.epd(), chess.STARTING_FEN
    lines = [
        f'{epd} ce 1; c3 "history startpos: e2e4 e7e5 g1f3";',
        f'{epd} ce 2; c7 "history fen {start}: e2e4 e7e5 g1f3";',
        f'{epd} ce 3; c3 "history startpos: e2e4 e7e5";',
        f'{epd} ce 4; c3 "history startpos: e2e5 e7e5 g1f3";',
        f'{epd} ce 5; c3 "history fen 8/8/8/8/8/8/8/8 w - - 0 1: e2e4";',
        f'{epd} ce 6; c3 "history of interest: none";',
    ]
    path = tmp_path / "a.epd"
    path.write_text("\n".join(lines))
    content = read_suite(path)
    with_history = content.batch.history_known.tolist()
    assert (content.rows["line"].tolist(), with_history) == ([1, 2, 6], [True, True, False])
    assert content.left_out == {"wrong history": 3}
    assert list(content.batch.fen) == [board.fen(), board.fen(), f"{epd} 0 1"]
    assert list(content.batch[0].moves) == ["e2e4", "e7e5", "g1f3"]
    assert content.batch[2].moves == ()


def test_a_line_is_a_position_with_its_history_everywhere(suite: Path, any_maia: Path) -> None:
    """`vr eval`, `vr search` and Python take a line as it is, too."""
    lines = suite.read_text("utf-8").splitlines()[:12]
    written_q = [float(str(operations(line)[1]["c0"]).split()[2].rstrip(",")) for line in lines]
    assert np.allclose(vr.evaluate(lines, net=str(any_maia))["q"], written_q, atol=1e-4)
    titled = f'{chess.Board().epd()} c2 "Book of best moves, hmvc 7;"; hmvc 3;'
    assert vr.evaluate(titled, net=str(any_maia))["fen"].tolist() == [chess.STARTING_FEN.replace("0 1", "3 1")]
    with pytest.raises(vr.UsageError, match="its history leads to"):
        vr.evaluate(f'{chess.STARTING_FEN} c3 "history startpos: e2e4";', net=str(any_maia))


def test_a_large_suite_is_no_harm_to_standard_output() -> None:
    """Written to a stream, nothing but lines of EPD is there."""
    from valuerepair.books.suite import write_suite_stream

    stream = io.BytesIO()
    with Store.open(SAMPLE) as store:
        write_suite_stream(store, store.candidates(ASKED), 0.35, stream)
    assert all(chess.Board.from_epd(line)[0].is_valid() for line in stream.getvalue().decode().splitlines())
