"""Which positions become a book, what the files say, and what `vr books` says when it cannot."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from tests.cli_tree import SAMPLE
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.books.check import check_book
from valuerepair.books.options import BookOptions
from valuerepair.books.select import choose_rows
from valuerepair.books.write import candidate_epd, write_books
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.cli.train import selfplay
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mining.mine import MineOptions
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.store import Store


def _frame(rows: int = 200, per_game: int = 4) -> pd.DataFrame:
    """Positions a few moves into made-up games, with disagreements all over [-1.9, 1.9]."""
    records: list[dict[str, Any]] = []
    dice, seen = random.Random(5), set[str]()
    while (i := len(records)) < rows:
        board = chess.Board()
        for _ in range(4 + i % 5):
            board.push(dice.choice(list(board.legal_moves)))
        if board.fen() in seen or board.is_game_over():
            continue
        seen.add(board.fen())
        deep = ((i * 53) % 199 - 99) / 100
        net = max(-0.95, min(0.95, -deep + ((i * 29) % 41 - 20) / 40))
        records.append(
            {
                "position_id": i,
                "fen": board.fen(),
                "start_fen": STARTPOS_FEN,
                "moves": " ".join(m.uci() for m in board.move_stack),
                "ply": board.ply(),
                "side": "w" if board.turn else "b",
                "source": f"/some/where/{'ab'[i % 2]}.pgn",
                "game": i // per_game,
                "game_id": i // per_game * 2 + i % 2,
                "root_id": i,
                "part": "train",
                "net_q": net,
                "deep_q": deep,
                "disagreement": net - deep,
            }
        )
    frame: pd.DataFrame = pd.DataFrame(records)
    return frame


def _chosen(frame: pd.DataFrame, threshold: float = 0.55, **options: Any) -> pd.DataFrame:
    selection = choose_rows(frame, BookOptions(**options), frame["disagreement"].to_numpy(), threshold)
    assert len(selection.book) + sum(selection.left_out.values()) == selection.candidates
    return selection.book


def test_a_threshold_is_reached_by_equality() -> None:
    frame = _frame().assign(disagreement=0.3)
    frame.loc[7, "disagreement"] = -0.55
    assert _chosen(frame, threshold=0.55)["position_id"].tolist() == [7]


def test_rows_without_deep_q_are_never_candidates() -> None:
    frame = _frame()
    frame.loc[:50, ["deep_q", "disagreement"]] = float("nan")
    selection = choose_rows(frame, BookOptions(), frame["disagreement"].to_numpy(), 0.01)
    assert selection.scored == 149
    assert selection.book["position_id"].min() > 50


def test_the_order_is_by_disagreement_and_does_not_depend_on_the_frame() -> None:
    frame = _frame()
    by_size = _chosen(frame, threshold=0.2)
    assert by_size["disagreement"].abs().is_monotonic_decreasing
    whole = by_size["position_id"].tolist()
    assert _chosen(frame.sample(frac=1, random_state=3), threshold=0.2)["position_id"].tolist() == whole
    assert _chosen(frame, threshold=0.2, limit=10)["position_id"].tolist() == whole[:10]


def test_finished_games_are_left_out_and_counted() -> None:
    moves = "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8"
    threefold = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 8 5"
    fens = [threefold, "4k3/8/8/8/8/8/4P3/4K3 w - - 100 90", "4k3/8/8/8/8/8/8/4K3 w - - 0 90"]
    frame = _frame(20).assign(disagreement=1.0)
    frame.loc[[3, 4, 5], "fen"] = fens
    frame.loc[[3, 4, 5], "moves"] = [moves, "", ""]
    selection = choose_rows(frame, BookOptions(), frame["disagreement"].to_numpy())
    assert selection.left_out == {"game over, or too long for lc0": 3}
    assert not {3, 4, 5} & set(selection.book["position_id"])


@pytest.mark.parametrize("options", [{"limit": 0}, {"parents": 9}, {"parents": -1}])
def test_senseless_options_are_usage_errors(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"--{name} {options[name]}"):
        BookOptions(**options)


@pytest.mark.parametrize(
    ("change", "threshold", "said"),
    [
        ({}, 1.99, "200 scored positions is 1."),
        ({"disagreement": float("nan")}, 0.55, "vr mine"),
        (
            {"disagreement": 0.8, "fen": "4k3/8/8/8/8/8/8/4K3 w - - 0 90", "moves": ""},
            0.55,
            "all 200 candidates at 0.55",
        ),
    ],
)
def test_an_empty_book_is_an_error_that_says_why(change: dict[str, Any], threshold: float, said: str) -> None:
    frame = _frame().assign(**change)
    with pytest.raises(ValueRepairError, match=re.escape(said)) as caught:
        choose_rows(frame, BookOptions(), frame["disagreement"].to_numpy(), threshold)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real store, filled by mining random games with stand-ins for net and oracle."""
    folder = tmp_path_factory.mktemp("store")
    archive = random_games(folder / "random.pgn", 60)
    mine_by_key(archive, folder / "a.db", options=MineOptions(sample=SampleOptions(per_game=4)))
    return folder / "a.db"


Vr = Callable[..., Result]


@pytest.fixture
def vr(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vr:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, ["books", *words, "--db", str(db)])


def test_the_command_writes_a_checked_book(vr: Vr, db: Path, tmp_path: Path) -> None:
    result = vr("--threshold", "0.55")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "valuerepair-books"
    assert sorted(p.name for p in folder.iterdir()) == ["book.epd", "book.pgn", "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    with Store.open(db) as store:
        candidates = view.candidates(store, Question(threshold=0.55))
    assert manifest["candidates"] == len(candidates) > 20
    for name, facts in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert facts["sha256"] == hashlib.sha256(content).hexdigest()
        assert facts["bytes"] == len(content)
        assert check_book(folder / name) == []
        sides = facts["white_to_move"], facts["black_to_move"]
        assert min(sides) > 5
        assert sum(sides) == len(candidates) - sum(manifest["left_out"].values())
    assert (manifest["net"]["name"], manifest["net"]["sha256"]) == ("key-net", "ab" * 32)
    assert manifest["oracle"]["label"]
    assert manifest["alpha"] == candidates.attrs["alpha"]
    assert manifest["threshold"] == 0.55
    # Nobody knows where the net of the tests lies: what it says then is no command, and does not look like one.
    *_, hint = result.output.splitlines()
    begin, _, command = hint.partition(": to play games from the book, vr selfplay ")
    assert begin == "the store does not know where the net key-net is"
    # The command line takes it as it stands. Click keeps the option of help that it makes first.
    given = selfplay.make_context("selfplay", shlex.split(command), help_option_names=["-h", "--help"]).params
    assert (given["book"], given["net"], given["training"]) == ("valuerepair-books/book.pgn", "FILE", "book-chunks")


def test_pgn_and_epd_name_the_same_positions_in_order(db: Path, tmp_path: Path) -> None:
    question = Question(threshold=0.3, alpha=170.0)
    with Store.open(db) as store:
        manifest = write_books(store, str(tmp_path / "out"), question)
    with (tmp_path / "out" / "book.pgn").open() as file:
        games = iter(lambda: chess.pgn.read_game(file), None)
        pgn = [game.end().board().fen() for game in games if game is not None]
    lines = (tmp_path / "out" / "book.epd").read_text().splitlines()
    assert [chess.Board.from_epd(line)[0].fen() for line in lines] == pgn
    with Store.open(db) as store:
        candidates = view.candidates(store, Question(threshold=0.3, alpha=170.0))
    assert set(pgn) <= set(candidates["fen"])
    assert len(set(pgn)) == len(candidates) - sum(manifest.left_out.values()) > 50


def test_the_same_question_gives_the_same_bytes(vr: Vr, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert vr("--threshold", "0.3", "--parents", "2", "-o", name).exit_code == 0
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_a_failed_write_leaves_the_old_book_and_no_scraps(vr: Vr, tmp_path: Path, monkeypatch: Any) -> None:
    assert vr("--threshold", "0.3", "-o", "out").exit_code == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("valuerepair.files.os.fsync", full)
    result = vr("--threshold", "0.5", "-o", "out")
    assert isinstance(result.exception, ValueRepairError)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("none.pgn", None, UsageError),
        ("book.txt", b"1. e4 *", UsageError),
        ("book.pgn", b"\x28\xb5\x2f\xfd junk", ValueRepairError),
        ("book.epd", b"BZh9 junk", ValueRepairError),
    ],
)
def test_what_cannot_be_checked_is_an_error(
    tmp_path: Path, name: str, content: bytes | None, error: type[ValueRepairError]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=name):
        check_book(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("8/8/8/8 w - -", "expected 8 rows in position part of fen"),
        ("4k3/8/8/8/8/8/4P3/4K3 w -", "a FEN has at least four fields"),
        ("4k3/8/8/8/8/8/4P3/4K3 w KQ - hmvc 0;", "not a legal position: bad castling rights"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - e6 hmvc 0;", "not a legal position: invalid ep square"),
        ("4k3/8/8/8/8/8/4P3/4K3 x - - hmvc 0;", "expected 'w' or 'b' for turn part of fen"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - hmvc zero;", "hmvc 'zero' is not a number"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - bm e5;", "bm e5: no legal move"),
        ('4k3/8/8/8/8/8/4P3/4K3 w - - id "open;', "cannot read the operations"),
        ("4k3/8/8/8/8/8/8/4K3 w - - hmvc 0;", "no game can be played from here: insufficient material"),
        ("1. e4 e5 2. Nf3 *", "expected 'w' or 'b' for turn part of fen"),
    ],
)
def test_epd_problems_are_named_with_their_line(tmp_path: Path, line: str, reason: str) -> None:
    good = '4k3/8/8/8/8/8/4P3/4K3 b - - hmvc 5; fmvn 39; id "a; b"; bm Kd7 Ke7;\n4k3/8/8/8/8/8/4P3/4K3 w - - 5 39\n'
    book = tmp_path / "book.epd"
    book.write_text(f"{good}# a remark\n\n{line}\n")
    problems = check_book(book)
    assert [problem.line for problem in problems] == [5]
    assert problems[0].reason.startswith(reason)


# -- candidates as EPD ------------------------------------------------------------------------------------------------


def test_candidates_as_epd_are_read_by_python_chess_and_by_vr_mine(tmp_path: Path) -> None:
    path = tmp_path / "candidates.epd"
    done = CliRunner().invoke(cli, ["export", "--db", str(SAMPLE), "--threshold", "0.35", "-o", str(path)])
    assert done.exit_code == 0, done.output
    with Store.open(SAMPLE) as store:
        rows = view.candidates(store, Question(threshold=0.35)).to_dict("records")
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == len(rows) == 66
    for line, row in zip(lines, rows, strict=True):
        board = chess.Board()
        entry = board.set_epd(line)
        assert board.fen() == row["fen"]
        assert entry["bm"] == [board.parse_uci(row["deep_best"])]
        if pd.isna(row["mate"]):
            assert entry["ce"] == row["cp"]
        elif row["mate"] > 0:
            assert entry["dm"] == row["mate"]
        assert entry["id"] == f"games.pgn.zst#{row['game']} ply {row['ply']}"
    options = SampleOptions(recorded=RecordedOptions("epd"), min_ply=0)
    recorded = {position.fen: position.origin.recorded for batch in sample([str(path)], options, ReadReport())
                for position in batch}  # fmt: skip
    for row in rows:
        found = recorded[row["fen"]]
        assert found is not None
        assert found.best_move == row["deep_best"]
        assert found.mate == row["mate"] if pd.notna(row["mate"]) else found.cp == row["cp"]


@pytest.mark.parametrize(("mate", "operation"), [(1, {"dm": 1}), (-2, {"ce": -32_763}), (0, {"ce": -32_767})])
def test_mates_are_as_the_standard_has_them(mate: int, operation: dict[str, int]) -> None:
    """PGN standard, 16.2.5: a losing mate in N is -32,767 plus 2 N."""
    row = {"fen": "7K/8/5k2/8/8/8/8/6r1 w - - 3 70", "source": "a.pgn", "game": 1, "ply": 138, "deep_best": None}
    line = candidate_epd(row | {"mate": mate, "cp": float("nan")}, {"origin": "given", "value": 170.0})
    assert chess.Board().set_epd(line).items() >= operation.items()
