"""Which positions become a book, what the files say, and what `vr books` says when it cannot."""

from __future__ import annotations

import dataclasses
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

from tests.asked import with_question
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.books.check import check_book
from valuerepair.books.options import BookOptions
from valuerepair.books.select import choose_rows
from valuerepair.books.write import write_books
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.cli.selfplay import command as selfplay
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.split import Split, write_split
from valuerepair.question import Question
from valuerepair.runs.options import MineOptions
from valuerepair.store.store import Store


def _asked(options: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The options of the book, and the threshold of its question."""
    rest = with_question(**options)
    return rest, rest.pop("question").threshold


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
                "game_key": i // per_game * 2 + i % 2,
                "net_q": net,
                "deep_q": deep,
                "disagreement": net - deep,
            }
        )
    frame: pd.DataFrame = pd.DataFrame(records)
    return frame


def _chosen(frame: pd.DataFrame, **options: Any) -> pd.DataFrame:
    options, threshold = _asked(options)
    selection = choose_rows(frame, BookOptions(**options), frame["disagreement"], threshold)
    left = sum(selection.left_out.values())
    assert len(selection.book) + len(selection.holdout) + left == selection.candidates
    return selection.book


def test_thresholds_and_signs_divide_the_rows() -> None:
    frame = _frame()
    size = frame["disagreement"].abs()
    both = _chosen(frame, threshold=0.5)
    assert set(both["position_id"]) == set(frame[size >= 0.5]["position_id"])
    optimistic = _chosen(frame, threshold=0.5, sign="optimistic")
    pessimistic = _chosen(frame, threshold=0.5, sign="pessimistic")
    assert (optimistic["net_q"] > optimistic["deep_q"]).all()
    assert (pessimistic["net_q"] < pessimistic["deep_q"]).all()
    assert len(optimistic) + len(pessimistic) == len(both)
    assert len(optimistic) > 20 < len(pessimistic)


def test_a_threshold_is_reached_by_equality() -> None:
    frame = _frame().assign(disagreement=0.3)
    frame.loc[7, "disagreement"] = -0.55
    assert _chosen(frame, threshold=0.55)["position_id"].tolist() == [7]


def test_decided_positions_are_left_out() -> None:
    chosen = _chosen(_frame(), threshold=0.1, max_abs_deep_q=0.6)
    assert chosen["deep_q"].abs().max() <= 0.6
    assert len(chosen) > 20


def test_rows_without_deep_q_are_never_candidates() -> None:
    frame = _frame()
    frame.loc[:50, ["deep_q", "disagreement"]] = float("nan")
    selection = choose_rows(frame, BookOptions(), frame["disagreement"], 0.01)
    assert selection.scored == 149
    assert selection.book["position_id"].min() > 50


def test_the_order_is_by_disagreement_or_shuffled_and_does_not_depend_on_the_frame() -> None:
    frame = _frame()
    turned = frame.sample(frac=1, random_state=3)
    by_size = _chosen(frame, threshold=0.2)
    assert by_size["disagreement"].abs().is_monotonic_decreasing
    assert _chosen(turned, threshold=0.2)["position_id"].tolist() == by_size["position_id"].tolist()
    shuffled = _chosen(frame, threshold=0.2, order="shuffled")["position_id"].tolist()
    assert sorted(shuffled) == sorted(by_size["position_id"])
    assert shuffled != by_size["position_id"].tolist()
    assert _chosen(turned, threshold=0.2, order="shuffled")["position_id"].tolist() == shuffled
    assert _chosen(frame, threshold=0.2, order="shuffled", seed=1)["position_id"].tolist() != shuffled


def test_limits_take_the_first_of_the_order() -> None:
    frame = _frame()
    whole = _chosen(frame, threshold=0.2)["position_id"].tolist()
    assert _chosen(frame, threshold=0.2, limit=10)["position_id"].tolist() == whole[:10]
    one = _chosen(frame, threshold=0.2, per_game_limit=1)
    assert one.groupby(["source", "game"]).size().max() == 1
    worst = frame[frame["disagreement"].abs() >= 0.2].groupby(["source", "game"])["disagreement"]
    assert one["disagreement"].abs().sum() == pytest.approx(worst.agg(lambda d: d.abs().max()).sum())
    assert (
        _chosen(frame, threshold=0.2, per_game_limit=1, limit=5)["position_id"].tolist()
        == (one["position_id"].tolist()[:5])
    )


def test_finished_games_are_left_out_and_counted() -> None:
    moves = "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8"
    threefold = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 8 5"
    fens = [threefold, "4k3/8/8/8/8/8/4P3/4K3 w - - 100 90", "4k3/8/8/8/8/8/8/4K3 w - - 0 90"]
    frame = _frame(20).assign(disagreement=1.0)
    frame.loc[[3, 4, 5], "fen"] = fens
    frame.loc[[3, 4, 5], "moves"] = [moves, "", ""]
    selection = choose_rows(frame, BookOptions(), frame["disagreement"])
    assert selection.left_out == {"game over, or too long for lc0": 3}
    assert not {3, 4, 5} & set(selection.book["position_id"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threshold": 0.0}, "above 0 and is at most 2, the largest difference of two Q; not 0"),
        ({"threshold": 2.5}, "not 2.5"),
        ({"threshold": float("nan")}, "not nan"),
        ({"limit": 0}, "--limit 0"),
        ({"per_game_limit": -1}, "per_game_limit -1"),
        ({"max_abs_deep_q": 1.5}, "max_abs_deep_q 1.5"),
    ],
)
def test_senseless_options_are_usage_errors(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        BookOptions(**_asked(options)[0])


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({}, {"threshold": 1.99}, "no candidate at 1.99: the largest disagreement among 200 scored positions is 1."),
        ({"disagreement": float("nan")}, {}, "no position is scored by both"),
        (
            {"disagreement": 0.8},
            {"sign": "pessimistic"},
            "all 200 candidates at 0.55 are left out: not pessimistic",
        ),
    ],
)
def test_an_empty_book_is_an_error_that_says_why(change: dict[str, Any], options: dict[str, Any], said: str) -> None:
    frame = _frame().assign(**change)
    options, threshold = _asked(options)
    with pytest.raises(ValueRepairError, match=re.escape(said)) as caught:
        choose_rows(frame, BookOptions(**options), frame["disagreement"], threshold)
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
    return lambda *words: CliRunner().invoke(
        cli, ["books", *words, *(["--db", str(db)] if "check" not in words else [])]
    )


def test_the_command_writes_a_checked_book(vr: Vr, db: Path, tmp_path: Path) -> None:
    result = vr("--threshold", "0.55", "--alpha", "170")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "valuerepair-books"
    assert sorted(p.name for p in folder.iterdir()) == ["book.epd", "book.pgn", "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    with Store.open(db) as store:
        candidates = store.candidates(Question(threshold=0.55, alpha=170.0))
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
    assert manifest["alpha"] == {"value": 170.0, "origin": "given"}
    assert (manifest["threshold"], manifest["seed"], manifest["form"]) == (0.55, 0, "moves")
    told = {"parents", "softness"}  # in other words
    assert {option.name for option in dataclasses.fields(BookOptions)} - told <= set(manifest)
    assert manifest["version"].startswith("valuerepair ")
    # Nobody knows where the net of the tests lies: what it says then is no command, and does not look like one.
    *_, hint = result.output.splitlines()
    begin, _, command = hint.partition(": to play games from the book, vr selfplay ")
    assert begin == "the store does not know where the net key-net is"
    # The command line takes it as it stands. Click keeps the option of help that it makes first.
    given = selfplay.make_context("selfplay", shlex.split(command), help_option_names=["-h", "--help"]).params
    assert (given["book"], given["net"], given["training"]) == ("valuerepair-books/book.pgn", "FILE", "book-chunks")


def test_what_comes_next_for_entries_that_repeat_has_games_that_differ(vr: Vr) -> None:
    hints = [
        vr("--threshold", "0.3", "--alpha", "170", *more).output.splitlines()[-1]
        for more in (("-o", "once"), ("-o", "often", "--repeat-by-weight", "8"))
    ]
    assert ["--temperature 0.5" in hint for hint in hints] == [False, True]


def test_pgn_and_epd_name_the_same_positions_in_order(db: Path, tmp_path: Path) -> None:
    question = Question(threshold=0.3, alpha=170.0)
    options = BookOptions(near_duplicates="keep")
    with Store.open(db) as store:
        write_books(store, str(tmp_path / "out"), question, options)
    with (tmp_path / "out" / "book.pgn").open() as file:
        games = iter(lambda: chess.pgn.read_game(file), None)
        pgn = [game.end().board().fen() for game in games if game is not None]
    lines = (tmp_path / "out" / "book.epd").read_text().splitlines()
    assert [chess.Board.from_epd(line)[0].fen() for line in lines] == pgn
    with Store.open(db) as store:
        candidates = store.candidates(Question(threshold=0.3, alpha=170.0))
    assert sorted(pgn) == sorted(candidates["fen"])


def test_the_same_question_gives_the_same_bytes(vr: Vr, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert vr("--threshold", "0.3", "--order", "shuffled", "-o", name).exit_code == 0
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_holdout_files_are_written_checked_and_go_with_the_next_book(vr: Vr, tmp_path: Path) -> None:
    write_split("split.json", Split(games=0.4))
    assert vr("--threshold", "0.3", "--split", "split.json", "-o", "out").exit_code == 0
    out = tmp_path / "out"
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    assert sorted(manifest["files"]) == ["book.epd", "book.pgn", "holdout.epd", "holdout.pgn"]
    games = [set(re.findall(r'\[Source "(.*)"\]', (out / f).read_text())) for f in ("book.pgn", "holdout.pgn")]
    assert games[0]
    assert games[1]
    assert not games[0] & games[1]
    assert check_book(out / "holdout.pgn") == check_book(out / "holdout.epd") == []
    (out / "notes.txt").write_text("mine")
    assert vr("--threshold", "0.3", "-o", "out").exit_code == 0
    assert sorted(p.name for p in out.iterdir()) == ["book.epd", "book.pgn", "manifest.json", "notes.txt"]


def test_form_fen_writes_fens_only(db: Path, tmp_path: Path) -> None:
    with Store.open(db) as store:
        write_books(store, str(tmp_path / "out"), Question(threshold=0.3), BookOptions(form="fen"))
    text = (tmp_path / "out" / "book.pgn").read_text()
    assert "1. " not in text
    assert text.count("[FEN ") == text.count("\n*\n") > 20
    assert check_book(tmp_path / "out" / "book.pgn") == []


def test_a_failed_write_leaves_the_old_book_and_no_scraps(vr: Vr, tmp_path: Path, monkeypatch: Any) -> None:
    assert vr("--threshold", "0.3", "-o", "out").exit_code == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("valuerepair.files.os.fsync", full)
    result = vr("--threshold", "0.5", "-o", "out")
    assert isinstance(result.exception, ValueRepairError)
    assert str(result.exception) == "out: cannot write the book: No space left on device"
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before


def test_a_folder_that_is_a_file_is_an_error(vr: Vr, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = vr("-o", "taken", "--threshold", "0.3")
    assert isinstance(result.exception, ValueRepairError)
    assert str(result.exception) == "taken: is a file, not a folder; give another name"


def test_quiet_says_nothing(vr: Vr) -> None:
    assert vr("--threshold", "0.3", "-q").output == ""


def test_a_threshold_nobody_reaches_names_the_largest(vr: Vr, db: Path) -> None:
    with Store.open(db) as store:
        sizes = store.frame(Question(alpha=170.0))["disagreement"].abs()
    result = vr("--threshold", "2", "--alpha", "170")
    assert isinstance(result.exception, ValueRepairError)
    assert f"the largest disagreement among {len(sizes)} scored positions is {sizes.max():.4f}" in str(result.exception)


def test_the_check_command_names_line_and_reason_and_exits_1(vr: Vr, tmp_path: Path) -> None:
    (tmp_path / "bad.pgn").write_text('1. e4 e5 *\n\n[Event "x"]\n\n1. d4 (1. c4) *\n\n1. e4 {x} 1... c5 *\n')
    result = vr("check", "bad.pgn")
    assert result.exit_code == 1
    assert result.output == (
        "bad.pgn:5: (1.: a variation, which lc0 cannot read\n"
        "bad.pgn:7: 1...: a move number for Black, which lc0 cannot read\n"
        "bad.pgn: 3 entries, 1 white and 0 black to move; 2 problems\n"
    )
    (tmp_path / "good.pgn").write_text("1. e4 *\n\n1. e4 e5 *\n")
    result = vr("check", "good.pgn")
    assert (result.exit_code, result.output) == (0, "good.pgn: 2 entries, 1 white and 1 black to move; no problems\n")
    lines = [json.loads(line) for line in vr("check", "bad.pgn", "--json").output.splitlines()]
    assert lines[0] == {"line": 5, "reason": "(1.: a variation, which lc0 cannot read"}
    assert lines[-1] == {"entries": 3, "white_to_move": 1, "black_to_move": 0, "problems": 2}


@pytest.mark.parametrize(
    ("name", "content", "error", "said"),
    [
        ("none.pgn", None, UsageError, "none.pgn: no such file"),
        ("book.txt", b"1. e4 *", UsageError, "book.txt: not a book by its name"),
        ("book.pgn", b"\x28\xb5\x2f\xfd junk", ValueRepairError, "book.pgn: compressed with zstd"),
        ("book.epd", b"BZh9 junk", ValueRepairError, "book.epd: compressed with bzip2"),
    ],
)
def test_what_cannot_be_checked_is_an_error(
    vr: Vr, tmp_path: Path, name: str, content: bytes | None, error: type[ValueRepairError], said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = vr("check", name)
    assert type(result.exception) is error
    assert str(result.exception).startswith(said)


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
