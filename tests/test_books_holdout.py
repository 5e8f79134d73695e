"""What a split holds out of a book: nothing of it, nor near it, is in the book; near-duplicates within a game."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.mining_doubles import mine_by_key, random_games
from valuerepair.books.options import BookOptions, NearDuplicates
from valuerepair.books.select import book_and_holdout, choose_rows
from valuerepair.books.write import write_books
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.judge.material import near_keys
from valuerepair.question import Question
from valuerepair.store.store import Store

# (part, piece, pawns) of each row: few of each, so that they cross.
ROWS = st.lists(
    st.tuples(st.sampled_from(["train", "train", "games", "families"]), st.sampled_from("QRBN"), st.integers(0, 3)),
    min_size=1,
    max_size=80,
)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_a_holdout_is_a_partition_without_neighbours(rows: list[tuple[str, str, int]]) -> None:
    fens = [f"4k3/{pawns}p{7 - pawns}/8/8/8/8/8/{piece}3K3 w - - 0 1" for _, piece, pawns in rows]
    table = pd.DataFrame({"part": [part for part, _, _ in rows], "fen": fens})
    try:
        book, holdout, near = book_and_holdout(table, set(near_keys(table["fen"][table["part"] != "train"].tolist())))
    except ValueRepairError:
        reject()  # the book would be empty
    assert len(book) + len(holdout) + near == len(table)
    assert set(book["part"]) == {"train"}
    assert set(holdout.index) == set(table[table["part"] != "train"].index)
    assert not set(near_keys(book["fen"].tolist())) & set(near_keys(holdout["fen"].tolist()))


def _games(number: int = 60, plies: int = 24) -> pd.DataFrame:
    """Made-up games with a candidate at every third ply from the third on."""
    dice, records = random.Random(4), list[dict[str, Any]]()
    for game in range(number):
        board = chess.Board()
        for ply in range(plies):
            legal = list(board.legal_moves)
            captures = [move for move in legal if board.is_capture(move)]
            board.push(dice.choice(captures if captures and ply > 5 else legal))
            if board.is_game_over():
                break
            if ply % 3 == 2:
                net = dice.uniform(0.3, 0.9) * dice.choice([1, -1])
                values = {"net_q": net, "deep_q": -net, "disagreement": 2 * net}
                moves = " ".join(m.uci() for m in board.move_stack)
                records.append(
                    {"fen": board.fen(), "start_fen": STARTPOS_FEN, "moves": moves, "ply": board.ply(), **values}
                    | {"source": "made-up.pgn", "game": game, "side": "w" if board.turn else "b", "game_key": game}
                )
    table: pd.DataFrame = pd.DataFrame(records)
    distinct: pd.DataFrame = table.drop_duplicates("fen", ignore_index=True)
    return distinct


@pytest.mark.parametrize("near", ["game", "keep"])
def test_neither_candidates_nor_parents_of_the_book_leak_into_the_holdout(near: NearDuplicates) -> None:
    table = _games()
    table["part"] = ["games" if game % 4 == 0 else "train" for game in table["game"].tolist()]
    options = BookOptions(parents=3, near_duplicates=near)
    held_fens = table["fen"][table["part"] != "train"].tolist()
    free = choose_rows(table, options, table["disagreement"], 0.5, held_fens).book
    materials = tuple(free.loc[free["plies_before"] > 0, "material_family"].value_counts().index[:1])
    held_fens += free.loc[free["plies_before"] > 0, "fen"].tolist()[:9]  # no candidates
    selection = choose_rows(table, options, table["disagreement"], 0.5, held_fens, materials)
    book, holdout = selection.book, selection.holdout
    own = book[book["plies_before"] == 0]
    assert len(own) + len(holdout) + sum(selection.left_out.values()) == selection.candidates
    assert selection.parents.asked == 3 * len(own)
    assert selection.parents.written == len(book) - len(own) > 20
    assert selection.parents.left_out["of a held-out family"] > 20
    assert selection.parents.asked == selection.parents.written + sum(selection.parents.left_out.values())
    assert (holdout["plies_before"] == 0).all()
    assert not set(book["game_key"]) & set(holdout["game_key"])
    assert set(holdout["fen"]) < set(held_fens)
    assert not np.isin(keys(parse_fens(book["fen"].tolist())), keys(parse_fens(held_fens))).any()
    if near == "keep":
        assert selection.parents.left_out["held out"] > 0
    else:
        assert not set(near_keys(book["fen"].tolist())) & set(near_keys(held_fens))
    parents = book[book["plies_before"] > 0]
    assert not set(parents["material_family"]) & set(materials)


def test_near_duplicates_are_left_out_within_a_game_or_kept() -> None:
    table = _games()
    kept = {}
    near: NearDuplicates
    for near in ("keep", "game"):
        selection = choose_rows(table, BookOptions(near_duplicates=near), table["disagreement"], 0.5)
        kept[near] = selection.book
        assert len(selection.book) + sum(selection.left_out.values()) == selection.candidates
    assert len(kept["keep"]) > len(kept["game"]) > 50
    keys = {near: pd.Series(near_keys(rows["fen"].tolist()), rows.index) for near, rows in kept.items()}
    in_game = {near: rows["game_key"].astype(str) + keys[near] for near, rows in kept.items()}
    assert not in_game["game"].duplicated().any()
    assert set(in_game["game"]) == set(in_game["keep"])
    # Of each the one that the net misjudges most.
    worst = {near: rows["disagreement"].abs().groupby(in_game[near]).max().to_dict() for near, rows in kept.items()}
    assert worst["game"] == worst["keep"]


def test_games_of_two_archives_of_one_name_are_two(tmp_path: Path) -> None:
    for seed, folder in enumerate(("one", "other")):
        (tmp_path / folder).mkdir()
        archive = random_games(tmp_path / folder / "games.pgn", 20, seed)
        archive.write_text(archive.read_text().replace('[White "', f'[White "{folder} '))
        mine_by_key(archive, tmp_path / "s.db")
    question, options = Question(threshold=0.1), BookOptions(per_game_limit=1)
    with Store.open(tmp_path / "s.db") as store:
        games = len(set(store.candidates(question)["game_id"]))
        book = write_books(store, tmp_path / "book", question, options).files["book.pgn"]
    assert book.positions == book.games == games > 30


def test_of_whole_games_a_third_are_near_duplicates(shared_data: Path, tmp_path: Path) -> None:
    """The figure of docs/methods.md."""
    archive, db = shared_data / "pgn" / "lichess-blitz.pgn", str(tmp_path / "s.db")
    words = ["mine", str(archive), "--deep", "recorded", "--positions", "99999", "--db", db]
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    assert CliRunner().invoke(cli, [*words, "--net", net, "--device", "cpu", "-q"]).exit_code == 0
    result = CliRunner().invoke(cli, ["books", "--db", db, "--threshold", "0.55", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert (manifest["scored"], manifest["candidates"]) == (5032, 120)
    assert manifest["left_out"] == {"near-duplicate in the game": 37}
