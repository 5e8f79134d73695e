"""Which positions become a book: what is held out, near-duplicates, five of a game, verdicts, parents."""

from __future__ import annotations

import math
import random
import shutil
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pytest

from tests.confirm_doubles import STOCKFISH, Candidate, make_store, position_of
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.books.choose import MOST_OF_GAME, BookOptions, Choice, HeldOut, choose, choose_rows, with_parents
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.material import near_keys
from valuerepair.chess.openings import material_family
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.question import Question
from valuerepair.store import parts, view
from valuerepair.store.rows import DeepResult, JudgeIdentity, RunRecord
from valuerepair.store.store import Store

THRESHOLD = 0.5
NOTHING = HeldOut()


def frame(games: int = 60, plies: int = 24, every: int = 3) -> pd.DataFrame:
    """Candidates of made-up games, at every third ply."""
    dice, records = random.Random(4), list[dict[str, Any]]()
    for game in range(games):
        board = chess.Board()
        for ply in range(plies):
            legal = list(board.legal_moves)
            captures = [move for move in legal if board.is_capture(move)]
            board.push(dice.choice(captures if captures and ply > 5 else legal))
            if board.is_game_over():
                break
            if ply % every == every - 1:
                net = dice.uniform(0.3, 0.9) * dice.choice([1, -1])
                moves = " ".join(m.uci() for m in board.move_stack)
                row = {"fen": board.fen(), "start_fen": chess.STARTING_FEN, "moves": moves, "ply": board.ply()}
                row |= {"source": "a.pgn", "game": game, "game_id": game, "part": "train"}
                records.append(row | {"net_q": net, "deep_q": -net, "disagreement": 2 * net})
    table: pd.DataFrame = pd.DataFrame(records).drop_duplicates("fen", ignore_index=True)
    return table


def of_rows(table: pd.DataFrame, held: HeldOut = NOTHING, **options: Any) -> tuple[pd.DataFrame, dict[str, int]]:
    rows, left_out = choose_rows(table, BookOptions(**options), held, THRESHOLD)
    assert len(rows) + sum(left_out.values()) == len(table)
    return rows, left_out


def choice(path: Path, threshold: float = THRESHOLD, **options: Any) -> Choice:
    with Store.open(path) as store:
        chosen = choose(store, Question(threshold=threshold, alpha=170.0), BookOptions(**options))
    own = sum(not row["plies_before"] for row in chosen.rows)
    assert own + sum(chosen.left_out.values()) == chosen.candidates
    return chosen


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    mine_by_key(random_games(folder / "games.pgn", 80), folder / "s.db")
    return folder / "s.db"


def test_the_order_is_by_disagreement_and_does_not_depend_on_the_stores() -> None:
    table = frame()
    rows, _ = of_rows(table)
    assert rows["disagreement"].abs().is_monotonic_decreasing
    assert of_rows(table.sample(frac=1, random_state=3))[0]["fen"].tolist() == rows["fen"].tolist()
    first, left_out = of_rows(table, limit=10)
    assert first["fen"].tolist() == rows["fen"].tolist()[:10]
    assert left_out["limit"] == len(rows) - 10


def test_near_duplicates_are_left_out_within_a_game_the_worst_is_kept() -> None:
    table = frame(plies=10, every=2)  # at most five of a game
    rows, _ = of_rows(table)
    everything = table.assign(near=near_keys(table["fen"].tolist()), size=table["disagreement"].abs())
    worst = everything.groupby(["game_id", "near"])["size"].max()
    assert len(worst) < len(table)
    assert sorted(rows["disagreement"].abs()) == sorted(worst)


def test_at_most_five_are_of_one_game_the_worst() -> None:
    table = frame(games=6, plies=60, every=5)
    rows, left_out = of_rows(table)
    assert left_out[f"more than {MOST_OF_GAME} of one game"] > 10
    everything = table.assign(near=near_keys(table["fen"].tolist()), size=table["disagreement"].abs())
    distinct = everything.groupby(["game_id", "near"])["size"].max()
    worst = distinct.groupby("game_id").nlargest(MOST_OF_GAME)
    assert sorted(rows["disagreement"].abs()) == sorted(worst)


def test_neighbours_count_with_the_game_of_their_candidate(tmp_path: Path, db: Path) -> None:
    path = Path(shutil.copy(db, tmp_path / "n.db"))
    with Store.open(path, write=True) as store:
        ids = view.candidates(store, Question(threshold=0.2))["position_id"].tolist()[:12]
        (game,) = store.connection.execute("SELECT game_id FROM positions WHERE id = ?", ids[:1]).fetchone()
        store.connection.executemany(
            "UPDATE positions SET origin = 'neighbour', parent_id = ?, game_id = ? WHERE id = ?",
            [(ids[0], game, number) for number in ids[1:]],
        )
    rows = choice(path, 0.2).rows
    assert sum(row["position_id"] in ids for row in rows) == MOST_OF_GAME
    assert sum(row["game_id"] == game for row in rows) == MOST_OF_GAME


def test_finished_games_are_left_out_and_counted() -> None:
    shuffle = "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8"
    threefold = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 8 5"
    table = frame(20)
    table.loc[[3, 4, 5], "fen"] = [threefold, "4k3/8/8/8/8/8/4P3/4K3 w - - 100 90", "4k3/8/8/8/8/8/8/4K3 w - - 0 90"]
    table.loc[[3, 4, 5], "moves"] = [shuffle, "", ""]
    rows, left_out = of_rows(table)
    assert left_out["game over, or too long for lc0"] == 3
    assert not {*table["fen"][[3, 4, 5]]} & {*rows["fen"]}


def test_neither_candidates_nor_parents_are_held_out() -> None:
    table = frame()
    table["part"] = ["games" if game % 4 == 0 else "train" for game in table["game"].tolist()]
    held_fens = table["fen"][table["part"] != "train"].tolist()

    def book(held: HeldOut) -> tuple[list[str], list[str]]:
        rows, left_out = of_rows(table, held)
        assert left_out["held out from training"] == len(held_fens)
        every = with_parents(rows.to_dict("records"), 3, held)
        return [row["fen"] for row in every if not row["plies_before"]], [
            row["fen"] for row in every if row["plies_before"]
        ]

    _, free = book(HeldOut({*near_keys(held_fens)}))
    material = pd.Series(map(material_family, free)).value_counts().index[0]
    near = {*near_keys([*held_fens, *free[:9]])}  # the nine are no candidates
    own, its_parents = book(HeldOut(near, {material}))
    assert 20 < len(its_parents) < len(free)
    assert not near & {*near_keys(own + its_parents)}
    assert material not in map(material_family, its_parents)


def test_the_book_of_a_store_has_only_what_training_may_see(tmp_path: Path, db: Path) -> None:
    path = Path(shutil.copy(db, tmp_path / "held.db"))
    assert choice(path, 0.2).split is None
    with Store.open(path, write=True) as store:
        split = parts.choose(store, games=0.3, families=0.1, seed=2)
        rows = store.connection.execute("SELECT fen, part FROM positions").fetchall()
        candidates = view.candidates(store, Question(threshold=0.2, alpha=170.0))
    chosen = choice(path, 0.2, parents=2)
    assert chosen.split == str(split)
    assert chosen.left_out["held out from training"] == (candidates["part"] != "train").sum() > 20
    book = [row["fen"] for row in chosen.rows]
    held = [fen for fen, part in rows if part in ("games", "families")]
    assert not np.isin(keys(parse_fens(book)), keys(parse_fens(held))).any()
    assert not {*near_keys(book)} & {*near_keys(held)}
    assert not {*map(material_family, book)} & split.materials


# -- parents ----------------------------------------------------------------------------------------------------------


def test_parents_weigh_as_in_katagos_uploader_and_name_their_candidates(db: Path) -> None:
    """A half and a quarter of the weight of each candidate that a position comes before, added up over the book."""
    rows = choice(db, parents=2).rows
    own = {f"games.pgn#{row['game']} ply {row['ply']}": row for row in rows if not row["plies_before"]}
    wanted: dict[str, float] = {}
    named: dict[str, list[str]] = {}
    for name, row in own.items():
        board, weight = chess.Board(), 1 / (1 + math.exp(-(abs(row["disagreement"]) - THRESHOLD) / 0.1))
        for move in row["moves"].split():
            board.push_uci(move)
        for before in range(3):
            wanted[board.epd()] = wanted.get(board.epd(), 0.0) + weight * 0.5**before
            if before:
                named.setdefault(board.epd(), []).append(f"{before} pl{'y' if before < 2 else 'ies'} before {name}")
            if not board.move_stack:
                break
            board.pop()
    written = {chess.Board(row["fen"]).epd(): row for row in rows}
    assert len(written) == len(rows) > len(own) + 50
    # Left out are only parents from which lc0 would play no game: here none.
    assert {name: row["book_weight"] for name, row in written.items()} == pytest.approx(wanted)
    assert {name: row["parent_of"] for name, row in written.items() if row["parent_of"]} == {
        name: ", ".join(origins) for name, origins in named.items()
    }
    for row in rows:
        board = chess.Board(row["start_fen"])
        for move in row["moves"].split():
            board.push_uci(move)
        assert (board.fen(), board.ply()) == (row["fen"], row["ply"])


def test_parents_end_where_the_known_history_begins(tmp_path: Path) -> None:
    start = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 3 12"
    losing = DeepResult(cp=-300)
    rows = [Candidate(position_of("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1"), 0.9, losing)]
    rows += [Candidate(position_of(start, *moves), 0.9, losing) for moves in (("b4c3",), ("a6b5", "e2b5", "b4c3"))]
    path = make_store(tmp_path / "a.db", rows)
    its_parents = [row["fen"] for row in choice(path, parents=2).rows if row["plies_before"]]
    assert len(its_parents) == 3
    assert start in its_parents


# -- verdicts, labels, errors -----------------------------------------------------------------------------------------


def test_confirmed_keeps_what_the_search_was_right_about(tmp_path: Path) -> None:
    """Four candidates: the second look is with the search, with the net, between them, and not taken."""
    moves = [("e2e4",), ("d2d4",), ("c2c4",), ("g1f3", "b8c6")]
    rows = [Candidate(position_of(chess.STARTING_FEN, *line), 0.9, DeepResult(cp=-300)) for line in moves]
    path = make_store(tmp_path / "a.db", rows)
    deeper = JudgeIdentity(STOCKFISH.kind, STOCKFISH.engine, STOCKFISH.sha256, {"nodes": 10_000}, STOCKFISH.options)
    with Store.open(path, write=True) as store, store.running(RunRecord("second", "vr confirm", {}, {})) as run:
        number = store.add_judge(deeper)
        for position_id, cp in ((1, -300), (2, 500), (3, 36)):
            store.add_deep(position_id, number, DeepResult(cp=cp, nodes=10_000), run)
    confirmed = choice(path, confirmed=True)
    assert [row["moves"] for row in confirmed.rows] == ["e2e4"]
    assert confirmed.left_out == {
        "without a second look (vr confirm: candidates in games)": 1,
        "second look: net right": 1,
        "second look: unclear": 1,
    }
    assert len(choice(path, labels=("optimistic", "opening")).rows) == 4
    with pytest.raises(ValueRepairError, match=r"all 4 candidates at 0.5 are left out: not in-check 4$"):
        choice(path, labels=("in-check",))


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"parents": 9}, {"parents": -1}, {"labels": ("blind",)}, {"labels": ("family:",)}]
)
def test_senseless_options_are_usage_errors(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(UsageError, match=f"--{name.removesuffix('s')}.* {value[0] if name == 'labels' else value}"):
        BookOptions(**options)


def test_a_store_without_candidates_says_so(db: Path) -> None:
    with pytest.raises(ValueRepairError, match=r"no candidate at 1\.99: the largest disagreement among \d+ scored"):
        choice(db, 1.99)
