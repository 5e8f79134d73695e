"""Holdouts: whole games or families on one side, near the share asked for, and nothing near them in the book."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any, Literal

import chess
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from valuerepair.books.options import BookOptions, NearDuplicates
from valuerepair.books.rows import games_of, split
from valuerepair.books.select import choose_rows, same_positions
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.material import near_keys
from valuerepair.question import Question

CASES = settings(max_examples=60, deadline=None)
By = Literal["game", "opening", "material"]

# (game, opening, material, pawns) of each row: few of each, so that they cross.
ROWS = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from("abcdefgh"), st.sampled_from("QRBN"), st.integers(0, 3)),
    min_size=1,
    max_size=80,
)


def _table(rows: list[tuple[int, str, str, int]]) -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(
        {
            "source": "x.pgn",
            "game": [game for game, *_ in rows],
            "opening_family": [opening for _, opening, _, _ in rows],
            "material_family": [material for _, _, material, _ in rows],
            "fen": [f"4k3/{pawns}p{7 - pawns}/8/8/8/8/8/{piece}3K3 w - - 0 1" for _, _, piece, pawns in rows],
        }
    )
    return table


@CASES
@given(ROWS, st.sampled_from(["game", "opening", "material"]), st.floats(0.05, 0.95), st.integers(0, 5))
def test_a_holdout_is_a_partition_without_neighbours(
    rows: list[tuple[int, str, str, int]], by: By, share: float, seed: int
) -> None:
    table = _table(rows)
    try:
        parts = split(table, BookOptions(holdout=share, holdout_by=by, seed=seed))
    except ValueRepairError:
        reject()  # a side would be empty
    book, holdout = parts.book, parts.holdout
    assert len(book) + len(holdout) + sum(parts.left_out.values()) == len(table)
    assert not set(book.index) & set(holdout.index)
    assert not set(games_of(book)) & set(games_of(holdout))
    assert not set(near_keys(book["fen"].tolist())) & set(near_keys(holdout["fen"].tolist()))
    if by != "game":
        column = f"{by}_family"
        assert not set(book[column]) & set(holdout[column])
        assert sorted(set(holdout[column])) == list(parts.families)
        assert set(table[table[column].isin(parts.families)].index) == set(holdout.index)
    again = split(table.sample(frac=1, random_state=1), BookOptions(holdout=share, holdout_by=by, seed=seed))
    assert set(again.holdout.index) == set(holdout.index)


@CASES
@given(st.lists(st.integers(1, 40), min_size=2, max_size=60), st.floats(0.05, 0.95), st.integers(0, 20))
def test_held_families_come_as_near_to_the_share_as_whole_families_can(
    sizes: list[int], share: float, seed: int
) -> None:
    """Within half the largest family of the share, where each game has one family, unless one alone is the book."""
    table = _table([(row, f"family {i}", "Q", 0) for i, size in enumerate(sizes) for row in [i] * size])
    options = BookOptions(holdout=share, holdout_by="opening", near_duplicates="keep", seed=seed)
    try:
        parts = split(table, options)
        held, in_book = len(parts.holdout), len(sizes) - len(parts.families)
    except ValueRepairError:
        held, in_book = 0, len(sizes)  # even the smallest would be too much
    assert in_book == 1 or abs(held - share * len(table)) <= max(sizes) / 2 + 1e-9


def test_families_differ_by_seed_and_stay_with_it() -> None:
    table = _table([(i, f"family {i % 40}", "Q", 0) for i in range(400)])
    drawn = {
        split(table, BookOptions(holdout=0.25, holdout_by="opening", near_duplicates="keep", seed=seed)).families
        for seed in range(10)
    }
    assert len(drawn) == 10
    assert {len(families) for families in drawn} == {10}


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
                    | {"source": "made-up.pgn", "game": game, "side": "w" if board.turn else "b"}
                )
    table: pd.DataFrame = pd.DataFrame(records)
    distinct: pd.DataFrame = table.drop_duplicates("fen", ignore_index=True)
    return distinct


@pytest.mark.parametrize("by", ["game", "opening", "material"])
@pytest.mark.parametrize("near", ["game", "keep"])
def test_neither_candidates_nor_parents_of_the_book_leak_into_the_holdout(by: By, near: Any) -> None:
    table = _games()
    options = BookOptions(
        question=Question(threshold=0.5), holdout=0.25, holdout_by=by, parents=3, near_duplicates=near
    )
    selection = choose_rows(table, options, table["disagreement"])
    book, holdout = selection.book, selection.holdout
    own = book[book["plies_before"] == 0]
    assert len(own) + len(holdout) + sum(selection.left_out.values()) == selection.candidates
    assert selection.parents.asked == 3 * len(own)
    assert selection.parents.written == len(book) - len(own) > 20
    assert selection.parents.asked == selection.parents.written + sum(selection.parents.left_out.values())
    assert (holdout["plies_before"] == 0).all()
    assert not set(games_of(book)) & set(games_of(holdout))
    assert not set(same_positions(book["fen"].tolist())) & set(same_positions(holdout["fen"].tolist()))
    if near != "keep":
        assert not set(near_keys(book["fen"].tolist())) & set(near_keys(holdout["fen"].tolist()))
    if by != "game":
        assert not set(book[f"{by}_family"]) & set(holdout[f"{by}_family"])
        share = len(holdout) / (len(holdout) + len(own) + selection.left_out.get("near-duplicate of the holdout", 0))
        assert abs(share - 0.25) < 0.08


def test_near_duplicates_are_left_out_within_a_game_or_kept() -> None:
    table = _games()
    kept = {}
    near: NearDuplicates
    for near in ("keep", "game"):
        selection = choose_rows(
            table, BookOptions(question=Question(threshold=0.5), near_duplicates=near), table["disagreement"]
        )
        kept[near] = selection.book
        assert len(selection.book) + sum(selection.left_out.values()) == selection.candidates
    assert len(kept["keep"]) > len(kept["game"]) > 50
    keys = {near: pd.Series(near_keys(rows["fen"].tolist()), rows.index) for near, rows in kept.items()}
    in_game = {near: games_of(rows) + keys[near] for near, rows in kept.items()}
    assert not in_game["game"].duplicated().any()
    assert set(in_game["game"]) == set(in_game["keep"])
    # Of each the one that the net misjudges most.
    worst = {near: rows["disagreement"].abs().groupby(in_game[near]).max().to_dict() for near, rows in kept.items()}
    assert worst["game"] == worst["keep"]


def test_of_whole_games_a_third_are_near_duplicates(shared_data: Path, tmp_path: Path) -> None:
    """The figure of docs/methods.md."""
    archive, db = shared_data / "pgn" / "lichess-blitz.pgn", str(tmp_path / "s.db")
    words = ["mine", str(archive), "--deep", "recorded", "--per-game", "1000", "--db", db]
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    assert CliRunner().invoke(cli, [*words, "--net", net, "--device", "cpu", "-q"]).exit_code == 0
    result = CliRunner().invoke(cli, ["books", "--db", db, "--threshold", "0.55", "-o", str(tmp_path), "--json"])
    manifest = json.loads(result.stdout)
    assert (manifest["scored"], manifest["candidates"]) == (5032, 100)
    assert manifest["left_out"] == {"near-duplicate in the game": 31}


def test_an_empty_side_says_how_many_families_there_are() -> None:
    table = _table([(i, "Sicilian Defense", "Q", i % 4) for i in range(20)])
    with pytest.raises(ValueRepairError, match=re.escape("leaves the holdout empty (1 opening families in all)")):
        split(table, BookOptions(holdout=0.2, holdout_by="opening"))
    with pytest.raises(UsageError, match="--holdout-by material: needs --holdout"):
        BookOptions(holdout_by="material")
