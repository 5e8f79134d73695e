"""A book has no position that is held out, nor one near it; neighbours of candidates."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import valuerepair as vr
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.books.check import BookCheck
from valuerepair.books.options import BookOptions
from valuerepair.books.select import MOST_OF_ROOT, HeldOut, choose_rows
from valuerepair.books.write import write_books
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.material import near_keys
from valuerepair.chess.openings import material_family
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.cli import cli
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.parts import choose
from valuerepair.store.store import Store


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
                    | {"source": "made-up.pgn", "game": game, "side": "w" if board.turn else "b", "game_id": game}
                    | {"part": "train", "root_id": len(records)}
                )
    table: pd.DataFrame = pd.DataFrame(records)
    distinct: pd.DataFrame = table.drop_duplicates("fen", ignore_index=True)
    return distinct


def _held(held_fens: list[str], materials: tuple[str, ...] = ()) -> HeldOut:
    held_keys = keys(parse_fens(held_fens)).tolist()
    return HeldOut({*held_keys}, {*near_keys(held_fens)}, {*materials})


def test_neither_candidates_nor_parents_of_the_book_are_held_out() -> None:
    table = _games()
    table["part"] = ["games" if game % 4 == 0 else "train" for game in table["game"].tolist()]
    options, sizes = BookOptions(parents=3), table["disagreement"].to_numpy()
    held_fens = table["fen"][table["part"] != "train"].tolist()
    free = choose_rows(table, options, sizes, 0.5, _held(held_fens)).book
    free_parents = free.loc[free["plies_before"] > 0, "fen"]
    materials = (free_parents.map(material_family).value_counts().index[0],)
    held_fens += free_parents.tolist()[:9]  # no candidates
    selection = choose_rows(table, options, sizes, 0.5, _held(held_fens, materials))
    book = selection.book
    own = book[book["plies_before"] == 0]
    assert set(own["part"]) == {"train"}
    assert len(own) + sum(selection.left_out.values()) == selection.candidates
    assert selection.left_out["held out from training"] == (table["part"] != "train").sum()
    assert selection.parents.asked == 3 * len(own)
    assert selection.parents.written == len(book) - len(own) > 20
    assert selection.parents.left_out["of a held-out family"] > 20
    assert selection.parents.asked == selection.parents.written + sum(selection.parents.left_out.values())
    assert not np.isin(keys(parse_fens(book["fen"].tolist())), keys(parse_fens(held_fens))).any()
    assert not set(near_keys(book["fen"].tolist())) & set(near_keys(held_fens))
    assert materials[0] not in set(book.loc[book["plies_before"] > 0, "fen"].map(material_family))


def test_near_duplicates_are_left_out_within_a_game() -> None:
    table = _games()
    selection = choose_rows(table, BookOptions(), table["disagreement"].to_numpy(), 0.5)
    book = selection.book
    assert len(book) + sum(selection.left_out.values()) == selection.candidates
    near = table.assign(near=near_keys(table["fen"].tolist()), size=table["disagreement"].abs())
    # Of each the one that the net misjudges most.
    worst = near[near["size"] >= 0.5].groupby(["game_id", "near"])["size"].max()
    assert len(worst) < selection.candidates
    kept = book.assign(near=near_keys(book["fen"].tolist())).set_index(["game_id", "near"])["disagreement"].abs()
    assert kept.sort_index().to_dict() == worst.sort_index().to_dict()


def test_games_of_two_archives_of_one_name_are_two(tmp_path: Path) -> None:
    for seed, folder in enumerate(("one", "other")):
        (tmp_path / folder).mkdir()
        archive = random_games(tmp_path / folder / "games.pgn", 20, seed)
        archive.write_text(archive.read_text().replace('[White "', f'[White "{folder} '))
        mine_by_key(archive, tmp_path / "s.db")
    question = Question(threshold=0.1)
    with Store.open(tmp_path / "s.db") as store:
        games = len(set(view.candidates(store, question)["game_id"]))
        book = write_books(store, tmp_path / "book", question).files["book.pgn"]
    assert book.games == games > 30


@pytest.mark.slow
def test_of_whole_games_a_third_are_near_duplicates(shared_data: Path, tmp_path: Path) -> None:
    """The figure of the documentation."""
    archive, db = shared_data / "pgn" / "lichess-blitz.pgn", str(tmp_path / "s.db")
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    vr.mine(archive, db, vr.SampleOptions(per_game=1000), net=net, deep="recorded", device="cpu")
    result = CliRunner().invoke(cli, ["books", "--db", db, "--threshold", "0.55", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert (manifest["scored"], manifest["candidates"]) == (5032, 120)
    assert manifest["left_out"] == {"near-duplicate in the game": 37}


def test_the_book_of_a_store_has_only_what_training_may_see(tmp_path: Path) -> None:
    mine_by_key(random_games(tmp_path / "games.pgn", 80), tmp_path / "s.db")
    question, options = Question(threshold=0.2), BookOptions(parents=2)
    with Store.open(tmp_path / "s.db", write=True) as store:
        every = write_books(store, tmp_path / "every", question, options)
        split = choose(store, games=0.3, families=0.1, seed=2)
        manifest = write_books(store, tmp_path / "book", question, options)
        rows = store.connection.execute("SELECT fen, part FROM positions").fetchall()
        candidates = view.candidates(store, question)
    assert every.split is None
    assert manifest.split == str(split)
    assert manifest.left_out["held out from training"] == (candidates["part"] != "train").sum() > 20
    book = [chess.Board.from_epd(line)[0].fen() for line in (tmp_path / "book" / "book.epd").read_text().splitlines()]
    held = [fen for fen, part in rows if part in ("games", "families")]
    assert not np.isin(keys(parse_fens(book)), keys(parse_fens(held))).any()
    assert not set(near_keys(book)) & set(near_keys(held))
    assert not set(map(material_family, book)) & split.materials


def test_neighbours_are_in_the_book_at_most_five_of_one_candidate(tmp_path: Path) -> None:
    """Neighbours of a neighbour count with the candidate that they all come from."""
    mine_by_key(random_games(tmp_path / "games.pgn", 60), tmp_path / "s.db")
    question = Question(threshold=0.2)
    with Store.open(tmp_path / "s.db", write=True) as store:
        ids = view.candidates(store, question)["position_id"].tolist()
        root, first, others = ids[0], ids[1], ids[2:12]
        of_neighbours = [(root, first), *((first, number) for number in others)]
        store.connection.executemany(
            "UPDATE positions SET origin = 'neighbour', parent_id = ? WHERE id = ?", of_neighbours
        )
        family = set(view.frame(store, Question(beside=True), ids=np.array([root, first, *others]))["fen"])
        assert set(view.candidates(store, question)["position_id"]) == {*ids} - {first, *others}
        manifest = write_books(store, tmp_path / "book", question, BookOptions(parents=2))
    assert manifest.left_out[f"more than {MOST_OF_ROOT} of one candidate"] == len(family) - MOST_OF_ROOT
    for name in ("book.pgn", "book.epd"):
        check = BookCheck(tmp_path / "book" / name)
        assert not list(check)
        assert check.entries == manifest.files[name].positions
    with (tmp_path / "book" / "book.pgn").open() as text:
        games = [game for game in iter(lambda: chess.pgn.read_game(text), None) if "NetQ" in game.headers]
    assert sum(game.end().board().fen() in family for game in games) == MOST_OF_ROOT
