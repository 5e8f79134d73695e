"""`vr show`: what it says against pandas and python-chess on the same store; hostile headers; files; refusals."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import chess
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.cli_tree import SAMPLE
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.measure.labels import labels_of, names
from valuerepair.mining.again import evidence
from valuerepair.store import view
from valuerepair.store.plays import Play, add_plays
from valuerepair.store.rows import JudgeIdentity, RunRecord
from valuerepair.store.store import Store
from valuerepair.text import printable

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\x00\x08\x7f\u202egnp.exe\u2066\r\nPWNED\u2028x"


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show")
    mine_by_key(random_games(folder / "random.pgn", 12), folder / "mined.db")
    return folder / "mined.db"


@pytest.fixture
def db(mined: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(mined, tmp_path / "valuerepair.db"))


@pytest.fixture
def frame(db: Path) -> pd.DataFrame:
    with Store.open(db) as store:
        return view.frame(store)


def show(db: Path, *arguments: object) -> str:
    done = CliRunner().invoke(cli, ["show", *map(str, arguments), "--db", str(db)])
    assert done.exit_code == 0, done.output
    return done.stdout


def told(db: Path, *arguments: object) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(show(db, *arguments, "--json"))
    return printed


def refused(*arguments: object) -> tuple[str, int]:
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, ["show", *map(str, arguments)], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value), caught.value.exit_code


# -- what it says -----------------------------------------------------------------------------------------------------


def test_json_is_the_row_of_the_frame(db: Path, frame: pd.DataFrame) -> None:
    with Store.open(db) as store:
        for i in range(0, len(frame), 5):
            row = frame.iloc[i]
            printed = told(db, row["position_id"])
            assert printed["fen"] == row["fen"]
            assert " ".join(printed["moves"]) == row["moves"]
            assert printed["net"]["q"] == row["net_q"]
            assert printed["net"]["wdl"] == [row["net_w"], row["net_d"], row["net_l"]]
            assert printed["deep"]["q"] == pytest.approx(row["deep_q"])
            assert printed["disagreement"] == pytest.approx(row["disagreement"])
            assert printed["candidate"] == (abs(row["disagreement"]) >= 0.55)
            assert (printed["weight"], printed["phase"], printed["ply"]) == (row["weight"], row["phase"], row["ply"])
            for name in ("source", "game", "white", "black", "event", "date", "result"):
                assert printed["origin"][name] == row[name]
            expected = names(labels_of(store, frame.iloc[[i]]))[0] if printed["candidate"] else frozenset()
            assert set(printed["labels"]) == expected
            board = chess.Board(row["fen"])
            assert printed["origin"]["played"]["san"] == board.san(chess.Move.from_uci(row["played"]))
            assert printed["deep"]["pv"] == row["pv"].split()
            assert printed["deep"]["pv_san"] == board.variation_san([chess.Move.from_uci(m) for m in row["pv"].split()])


def test_it_tells_a_position_in_ten_lines(db: Path, frame: pd.DataFrame) -> None:
    row = frame[(frame["disagreement"].abs() >= 0.55) & frame["cp"].notna()].iloc[0]
    text = show(db, row["position_id"])
    words = ("net", "search", "line", "net-deep", "confirmed", "labels", "from", "played")
    assert [line.split()[0] for line in text.splitlines()[12:]] == list(words)
    best = chess.Board(row["fen"]).san(chess.Move.from_uci(row["deep_best"]))
    for said in (row["fen"], f"{row['disagreement']:+.3f}", f"best {best}", f"{int(row['cp']):+d} cp"):
        assert said in text


def test_a_fen_is_known_by_its_board_key_whatever_its_clocks(db: Path, frame: pd.DataFrame) -> None:
    row = frame.iloc[3]
    fields = row["fen"].split()
    other = " ".join([*fields[:4], "37", "81"])
    for words in ([row["fen"]], fields, [other]):
        assert told(db, *words)["position_id"] == row["position_id"]


def test_what_was_not_searched_says_why(db: Path, frame: pd.DataFrame) -> None:
    left_out = int(frame["position_id"].iloc[0])
    with Store.open(db, write=True) as store:
        (failed,) = store.connection.execute("SELECT position_id FROM deep_values WHERE failed IS NOT NULL").fetchone()
        short = store.add_judge(JudgeIdentity("uci", "Key 1.0", "cd" * 32, {"nodes": 20}, {}))
        store.connection.execute("UPDATE judges SET short_id = ? WHERE id <> ?", (short, short))
        query = "UPDATE deep_values SET judge_id = ?, nodes = 1500 WHERE position_id = ?"
        store.connection.execute(query, (short, left_out))
    assert told(db, failed)["missing"] == "the search failed: crashed"
    assert "1,500 nodes" in told(db, left_out)["missing"]
    assert told(db, left_out)["deep"] is None


def test_what_is_not_of_a_game_or_not_for_training_says_so(db: Path) -> None:
    with Store.open(db, write=True) as store:
        store.connection.execute("UPDATE positions SET origin = 'neighbour', parent_id = 7 WHERE id = 1")
        store.connection.execute("UPDATE positions SET origin = 'random_move', part = 'families' WHERE id = 2")
    assert "by vr expand from position 7" in show(db, 1)
    assert (told(db, 1)["kind"], told(db, 1)["parent_id"]) == ("neighbour", 7)
    assert all(words in show(db, 2) for words in ("(random_move)", "held out (families)"))


def test_priors_of_moves_are_those_of_the_policy(db: Path, frame: pd.DataFrame) -> None:
    """In the sample the net's eight best moves are known."""
    with Store.open(SAMPLE) as store:
        rows = view.frame(store, only=("position_id", "deep_best", "played", "policy"))
    outside = 0
    for row in rows.head(60).itertuples():
        printed, policy = told(SAMPLE, row.position_id), view.Policy.of(row.policy)
        for told_move, move in ((printed["deep"]["best"], row.deep_best), (printed["origin"]["played"], row.played)):
            if (rank := policy.rank(move)) is not None:
                assert (told_move["p"], told_move["rank"]) == (pytest.approx(policy[rank - 1][1]), rank)
            else:
                assert (told_move["p"], told_move["rank"]) == (None, None)
                assert "(not of the net's 8 best)" in show(SAMPLE, row.position_id)
                outside += 1
    assert outside


def test_games_played_from_it(db: Path, frame: pd.DataFrame) -> None:
    row = frame.iloc[0]
    with Store.open(db, write=True) as store, store.running(RunRecord("played", "selfplay", {}, {})) as run:
        results = (("1-0", 1.0), ("1/2-1/2", 0.0), ("0-1", -1.0), ("0-1", -1.0), ("*", None))
        add_plays(
            store,
            run,
            [Play(i, 0, int(row.key), row.fen, "own", "own", r, z, 9, "x") for i, (r, z) in enumerate(results)],
        )
    assert told(db, row.position_id)["games"] == {"games": 5, "wins": 1, "draws": 1, "losses": 2, "z": -0.25}
    assert "+1 -2 =1" in show(db, row.position_id)


def test_the_verdict_is_that_of_vr_confirm(db: Path, frame: pd.DataFrame) -> None:
    row = frame[(frame["disagreement"].abs() >= 0.55) & frame["cp"].notna()].iloc[0]
    deeper = JudgeIdentity("uci", "Key 1.0", "cd" * 32, {"nodes": 1000}, {"Hash": "16"}, plain={"Hash": "16"})
    with Store.open(db, write=True) as store:
        copied = "cp, mate, w, d, l, q, depth, seldepth, nodes, time_ms, best_move, pv, weight, failed, run_id"
        query = f"INSERT INTO deep_values SELECT ?, position_id, {copied} FROM deep_values WHERE position_id = ?"
        store.connection.execute(query, (store.add_judge(deeper), int(row["position_id"])))
    with Store.open(db) as store:
        (verdict,) = evidence(store, frame[frame["position_id"] == row["position_id"]])["verdict"]
    verdict_row = told(db, row["position_id"])["verdict"]
    assert verdict_row["verdict"] == verdict == "search right"
    assert (verdict_row["second"], verdict_row["q"]) == (deeper.label, pytest.approx(row["deep_q"]))


def test_a_store_that_scored_nothing_still_shows_positions(db: Path) -> None:
    connection = sqlite3.connect(db)
    connection.executescript("DELETE FROM deep_values; DELETE FROM net_values;")
    connection.close()
    printed = told(db, 1)
    assert (printed["net"], printed["deep"], printed["disagreement"], printed["candidate"]) == (None, None, None, False)
    assert printed["origin"]["source"]
    assert len(show(db, 1).splitlines()) > 12


# -- the board --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_board_is_python_chess_s(db: Path, frame: pd.DataFrame, encoding: str) -> None:
    assert set(frame["side"][:20]) == {"w", "b"}
    for fen, number in zip(frame["fen"][:20], frame["position_id"], strict=False):
        board = chess.Board(fen)
        lines = CliRunner(charset=encoding).invoke(cli, ["show", str(number), "--db", str(db)]).stdout.splitlines()
        letters = board if board.turn else board.transform(chess.flip_vertical).transform(chess.flip_horizontal)
        expected = board.unicode(orientation=board.turn, empty_square="·") if encoding == "utf-8" else str(letters)
        assert [line[3:].split() for line in lines[:8]] == [line.split() for line in expected.splitlines()]
        assert lines[8].split() == list("abcdefgh" if board.turn else "hgfedcba")
        assert [line[1] for line in lines[:8]] == list("87654321" if board.turn else "12345678")


# -- hostile text -----------------------------------------------------------------------------------------------------


def test_headers_reach_no_terminal_as_commands(db: Path) -> None:
    connection = sqlite3.connect(db)
    connection.execute(
        "UPDATE games SET white = ?, black = ?, event = ?, date = ?, result = ?, source = ?", (ESCAPES,) * 6
    )
    connection.execute("UPDATE nets SET name = ?", (ESCAPES,))
    connection.execute("UPDATE judges SET label = ?", (ESCAPES,))
    connection.execute("UPDATE deep_values SET failed = ? WHERE failed IS NOT NULL", (ESCAPES,))
    failed = connection.execute("SELECT position_id FROM deep_values WHERE failed IS NOT NULL").fetchone()[0]
    connection.commit()
    connection.close()
    for number in (1, 2, failed):
        text = show(db, number)
        assert all(character.isprintable() for character in text.replace("\n", ""))
        assert not any(line.startswith("PWNED") for line in text.splitlines())
        assert " [31mred" in text
        raw = show(db, number, "--json")
        assert "\x1b" not in raw
        assert "\x9b" not in raw
    assert json.loads(show(db, 1, "--json"))["origin"]["white"] == ESCAPES


@given(st.text(max_size=300))
def test_printable_is_printable_and_keeps_what_was(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    if text.isprintable() and len(text) <= 200:
        assert shown == text


# -- files and refusals -----------------------------------------------------------------------------------------------


def test_svg_has_an_arrow_for_each_move(db: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    differ = frame["deep_best"].notna() & (frame["deep_best"] != frame["played"])
    row = frame[differ & (frame["side"] == "w")].iloc[0]
    path = tmp_path / "board.svg"
    show(db, row["position_id"], "--svg", path)
    root = ElementTree.parse(path).getroot()
    text = [content.strip() for content in root.itertext() if content.strip()]
    board = chess.Board(row["fen"])
    printed = told(db, row["position_id"])
    moves = {"net": printed["net"]["best"], "search": printed["deep"]["best"], "played": printed["origin"]["played"]}
    known = {who: move for who, move in moves.items() if move is not None}
    for who, move in known.items():
        assert any(who in line and line.endswith(f": {move['san']}") for line in text)
    arrows = [part for part in root.iter("{http://www.w3.org/2000/svg}line") if part.get("class") == "arrow"]
    assert len(arrows) == len({move["uci"] for move in known.values()}) >= 2
    assert len(list(root.iter("{http://www.w3.org/2000/svg}use"))) == len(board.piece_map())
    assert sorted(p.name for p in tmp_path.iterdir() if "svg" in p.name) == ["board.svg"]


def test_refused(db: Path, tmp_path: Path) -> None:
    at = ("--db", db)
    for number in (99999, 2**63, 10**30):
        message, code = refused(number, *at)
        assert (f"no position {number}" in message, code) == (True, 1)
    assert refused("8/8/8/8/8/8/8/8 w - - 0 1", *at)[1] == 2
    assert refused("nonsense\nof two lines", *at)[1] == 2
    fen = "8/8/8/k7/8/8/8/K7 w - - 0 1"
    message, code = refused(fen, *at)
    assert (fen in message, code) == (True, 1)
    assert str(tmp_path / "none.db") in refused(1, "--db", tmp_path / "none.db")[0]
    assert refused(1, *at, "--svg", "board.png")[1] == 2
    assert refused(1, *at, "--net", "nonesuch")[1] == 1
