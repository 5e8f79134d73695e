"""Books with positions that were reached from candidates: how many of one root, the manifest, hold-outs, lc0."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import chess.pgn
import pandas as pd
import pytest
from click.testing import CliRunner

from tests.expanded_store import expanded_store
from valuerepair.books.check import BookCheck
from valuerepair.books.options import BookOptions
from valuerepair.books.write import write_books
from valuerepair.chess.board import keys, parse_fens
from valuerepair.cli import cli
from valuerepair.errors import UsageError
from valuerepair.judge.split import Split
from valuerepair.judge.weights import hill_numbers, weights_of
from valuerepair.question import Expanded, Question
from valuerepair.store.store import Store


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return expanded_store(tmp_path_factory.mktemp("books"))


@pytest.fixture(scope="module")
def frame(path: Path) -> pd.DataFrame:
    with Store.open(path) as store:
        return store.candidates(Question(expanded="all"))


def written(path: Path, folder: Path, **options: Any) -> dict[str, Any]:
    """The manifest, read from its file."""
    with Store.open(path) as store:
        question, split = options.pop("question", None), options.pop("split", None)
        write_books(store, folder, question, BookOptions(**{"near_duplicates": "keep", **options}), split)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def boards_of(file: Path) -> list[chess.Board]:
    """The positions at the ends of the entries, by python-chess."""
    with file.open() as text:
        games = iter(lambda: chess.pgn.read_game(text), None)
        return [game.end().board() for game in games if game is not None]


def keys_of(boards: list[chess.Board]) -> list[int]:
    board_keys: list[int] = keys(parse_fens([board.fen(en_passant="fen") for board in boards])).tolist()
    return board_keys


@pytest.mark.parametrize("expanded", ["searched", "all"])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_at_most_so_many_of_a_root_and_the_strongest(path: Path, tmp_path: Path, expanded: Expanded, most: int) -> None:
    with Store.open(path) as store:
        candidates = store.candidates(Question(expanded=expanded))
    assert candidates["root_id"].value_counts().max() > 5
    manifest = written(path, tmp_path, question=Question(expanded=expanded), per_root=most)
    entries = manifest["entries"]["book"]
    counts = Counter(entry["root_id"] for entry in entries)
    assert max(counts.values()) == most
    over = manifest["left_out"].pop("game over, or too long for lc0", 0)
    if not over:
        assert counts == Counter({root: min(n, most) for root, n in candidates["root_id"].value_counts().items()})
        assert manifest["left_out"] == {"per-root limit": len(candidates) - len(entries)}
    sizes = candidates.set_index("position_id")["disagreement"].abs()
    kept = {entry["position_id"] for entry in entries}
    for root, rows in candidates.groupby("root_id"):
        inside, outside = (
            sizes[rows["position_id"][rows["position_id"].isin(kept)]],
            sizes[rows["position_id"][~rows["position_id"].isin(kept)]],
        )
        if len(inside) == most and len(outside) and not over:
            assert inside.min() >= outside.max(), root
    assert (manifest["per_root"], manifest["expanded"]) == (most, expanded)


def test_the_manifest_says_where_each_entry_came_from(path: Path, tmp_path: Path, frame: pd.DataFrame) -> None:
    manifest = written(path, tmp_path, question=Question(expanded="all"), repeat_by_weight=3)
    entries = manifest["entries"]["book"]
    boards = boards_of(tmp_path / "book.pgn")
    assert len(entries) == len(boards) == manifest["files"]["book.pgn"]["positions"] > 100
    by_id = frame.set_index("position_id")
    rows = by_id.loc[[entry["position_id"] for entry in entries]]
    assert [entry["root_id"] for entry in entries] == rows["root_id"].tolist()
    assert [entry["step"] for entry in entries] == [step if isinstance(step, str) else None for step in rows["step"]]
    assert [entry["inferred"] for entry in entries] == rows["inferred"].tolist()
    assert {entry["step"] for entry in entries} == {None, "line", "parent", "child"}
    assert keys_of(boards) == [int(key) for key in rows["key"]]
    once = rows[~rows.index.duplicated()]
    weights = pd.Series(weights_of(once["disagreement"].to_numpy(), 0.55), once.index)
    roots = manifest["diversity"]["book"]["root"]
    masses = weights.groupby(once["root_id"]).sum()
    assert roots["families"] == len(masses)
    assert roots["hill"] == pytest.approx(list(hill_numbers(masses.to_numpy())))
    words = ["books", "--db", str(path), "--expanded", "all", "--per-root", "2", "-o", str(tmp_path / "cli")]
    assert "roots count for" in CliRunner().invoke(cli, [*words, "-v"]).stderr
    assert "count for" not in CliRunner().invoke(cli, words).stdout


def test_without_such_positions_the_book_is_as_it_was(path: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.db"
    shutil.copy(path, bare)
    with Store.open(bare, write=True) as store, store.writing() as connection:
        connection.execute("DELETE FROM expanded")
        connection.execute("DELETE FROM deep_values WHERE stage IN ('expanded', 'inferred')")
    manifests = [written(db, tmp_path / name) for db, name in ((path, "a"), (bare, "b"))]
    assert manifests[0] == manifests[1]
    assert manifests[0]["entries"] == {}
    assert (tmp_path / "a" / "book.pgn").read_bytes() == (tmp_path / "b" / "book.pgn").read_bytes()


@pytest.mark.parametrize("form", ["moves", "fen"])
def test_lines_beyond_the_game_are_read_by_lc0s_rules(
    path: Path, tmp_path: Path, frame: pd.DataFrame, form: str
) -> None:
    manifest = written(path, tmp_path, question=Question(expanded="all"), form=form, parents=2)
    for name in ("book.pgn", "book.epd"):
        check = BookCheck(tmp_path / name)
        assert not list(check)
        assert check.entries == len(manifest["entries"]["book"])
    of_lines = [i for i, entry in enumerate(manifest["entries"]["book"]) if entry["step"] == "line"]
    assert len(of_lines) > 20
    boards, by_id = boards_of(tmp_path / "book.pgn"), frame.set_index("position_id")
    for i in of_lines:
        row = by_id.loc[manifest["entries"]["book"][i]["position_id"]]
        assert boards[i].fen() == row["fen"]
        if form == "moves":
            assert [move.uci() for move in boards[i].move_stack] == row["moves"].split()
            root = frame.set_index("position_id")["moves"].get(row["root_id"])
            if root is not None:
                assert row["moves"].startswith(root)
                assert len(row["moves"]) > len(root)
    assert all(entry["step"] is None and entry["inferred"] is None and entry["root_id"]
               for entry in manifest["entries"]["book"] if entry["position_id"] is None)  # fmt: skip


def test_a_root_is_on_one_side_of_a_holdout(path: Path, tmp_path: Path) -> None:
    """Also where a member was met in another game before it was reached."""
    db = tmp_path / "moved.db"
    shutil.copy(path, db)
    with Store.open(db, write=True) as store, store.writing() as connection:
        games = [number for (number,) in connection.execute("SELECT id FROM games ORDER BY id")]
        members = [number for (number,) in connection.execute("SELECT position_id FROM expanded ORDER BY position_id")]
        for i, number in enumerate(members[::4]):
            connection.execute("UPDATE positions SET game_id = ? WHERE id = ?", (games[i % len(games)], number))
    for seed in range(4):
        options: dict[str, Any] = {"question": Question(expanded="all"), "split": Split(games=0.4, seed=seed)}
        manifest = written(db, tmp_path / str(seed), parents=1, **options)
        book, held = ({entry["root_id"] for entry in manifest["entries"][side]} for side in ("book", "holdout"))
        assert len(book) > 3
        assert len(held) > 3
        assert not book & held
        with Store.open(db) as store:
            game_of = store.candidates(Question(expanded="all")).set_index("position_id")["game"]
        sides = [
            {int(game_of.loc[entry["position_id"]]) for entry in manifest["entries"][side] if entry["position_id"]}
            for side in ("book", "holdout")
        ]
        assert not sides[0] & sides[1]
        in_books = [entry for side in ("book", "holdout") for entry in manifest["entries"][side]]
        entries = sum(entry["position_id"] is not None for entry in in_books)
        assert entries + sum(manifest["left_out"].values()) == manifest["candidates"]


def test_a_limit_that_does_nothing_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--per-root 2: needs --expanded"):
        written(path, tmp_path / "books", per_root=2)
    assert not (tmp_path / "books").exists()
    with pytest.raises(UsageError, match="at least 1"):
        BookOptions(per_root=0)
