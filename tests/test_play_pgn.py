"""Games as PGN: read back by python-chess and by the archive reader, and kept whole through kills and full disks."""

from __future__ import annotations

import io
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess.pgn
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.play_doubles import INITIAL
from tests.test_play_rules import opening
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.errors import ValueRepairError
from valuerepair.play.figures import PlayedGame, figures, lines
from valuerepair.play.game import Game, GameRecord, Thought
from valuerepair.play.openings import Opening
from valuerepair.play.pgn import WRAP_COLUMNS, PgnWriter, WrittenGame, game_text, read_written

TAGS = {"Event": 'a "b" \\c', "Run": "12ab"}
BLACK = opening("r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3", "g8f6", "g1e2")


def random_game(seed: int, number: int = 0, start: Opening | None = None, plies: int = 60) -> GameRecord:
    chance, start = random.Random(seed), start or INITIAL
    game, thoughts = Game(start), list[Thought]()
    while game.ending() is None and len(thoughts) < plies:
        move = chance.choice(sorted(move.uci() for move in chess.Board(game.fen).legal_moves))
        game.push(move)
        win, loss = chance.randrange(500), chance.randrange(500)
        mate, cp = chance.choice([3, 1, -1, -2]), chance.randrange(-900, 900)
        more: dict[str, Any] = {"mate": mate} if chance.random() < 0.2 else {"cp": cp}
        more |= {"depth": chance.randrange(1, 40), "seconds": chance.choice([0.001, 0.0625, 59.9996, 3601.5])}
        thoughts.append(Thought(move, q=chance.uniform(-1, 1), wdl=(win, 1000 - win - loss, loss), nodes=100, **more))
    result, how = game.ending() or ("*", "too long")
    return GameRecord(number, 4, start.start_fen, start.moves, tuple(thoughts), "a", "b", result, how, "60 plies")


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**9), st.booleans())
def test_python_chess_reads_what_was_played_and_thought(seed: int, from_black: bool) -> None:
    record = random_game(seed, start=BLACK if from_black else None)
    text = game_text(record, TAGS, timed=True)
    game = chess.pgn.read_game(io.StringIO(text))
    assert game is not None
    assert not game.errors
    assert [move.uci() for move in game.mainline_moves()] == list(record.moves)
    assert (game.headers["Result"], game.headers["PlyCount"]) == (record.result, str(len(record.moves)))
    assert game.headers["BookPlies"] == str(len(record.book))
    nodes = list(game.mainline())
    assert all(node.comment == "book" for node in nodes[: len(record.book)])
    for node, thought in zip(nodes[len(record.book) :], record.thoughts, strict=True):
        words = dict(re.findall(r"(\w+)=(\S+)", node.comment))
        assert float(words["q"]) == pytest.approx(thought.q, abs=6e-5)
        assert tuple(map(int, words["wdl"].split("/"))) == thought.wdl
        assert words["n"] == "100"
        score = node.eval()
        assert node.emt() == pytest.approx(thought.seconds, abs=6e-4)
        if thought.mate == 1:  # nothing is left to say after it
            assert score is None
            continue
        assert score is not None
        assert node.eval_depth() == thought.depth
        by_mover = score.pov(not node.board().turn)
        left = thought.mate - 1 if thought.mate is not None and thought.mate > 0 else thought.mate
        assert (by_mover.score(), by_mover.mate()) == (thought.cp, left)
    body = text.split("\n\n", 1)[1].splitlines()
    assert all(len(line) <= WRAP_COLUMNS and line[:1] != "[" for line in body)


def test_the_mate_said_after_a_move_is_the_one_that_the_board_then_has() -> None:
    """Both sides see the mate: 1. f3 e5 2. g4 Qh4#; and without `timed` nothing depends on the machine."""
    moves = [("f2f3", None), ("e7e5", None), ("g2g4", -1), ("d8h4", 1)]
    thoughts = tuple(Thought(move, cp=0 if mate is None else None, mate=mate, seconds=0.2) for move, mate in moves)
    text = game_text(GameRecord(0, 0, chess.STARTING_FEN, (), thoughts, "a", "b", "0-1", "checkmate"), TAGS)
    assert "2. g4 {[%eval #-1]} Qh4# 0-1" in text
    assert "%emt" not in text


def test_a_move_that_was_drawn_has_no_evaluation_after_it() -> None:
    """The value is that of the move that the search prefers."""
    search: Any = SimpleNamespace(best_move="e2e4", net_wl=0.25)
    moves = (Thought("e2e4", q=0.1, cp=20, search=search), Thought("g8f6", q=-0.1, cp=-20, search=search))
    text = game_text(GameRecord(0, 0, chess.STARTING_FEN, (), moves, "a", "b", "*", "stopped"), TAGS)
    assert "1. e4 {[%eval 0.20] q=+0.1000 net=+0.2500} Nf6 {q=-0.1000 net=+0.2500} *" in text


def test_the_archive_reader_takes_games_and_evaluations(tmp_path: Path) -> None:
    records = [random_game(seed, seed, BLACK if seed % 2 else None) for seed in range(6)]
    (tmp_path / "games.pgn").write_text("".join(game_text(record, TAGS) for record in records))
    options = SampleOptions(per_game=None, min_ply=0)
    positions = [row for batch in sample([str(tmp_path / "games.pgn")], options, ReadReport()) for row in batch]
    assert {position.origin.game for position in positions} == set(range(1, 7))
    for position in positions:
        record = records[position.origin.game - 1]
        assert record.moves[: len(position.moves)] == position.moves
        after = len(position.moves) - len(record.book) - 1
        if position.origin.eval_cp is not None:  # of the position after the move before, so from the other side
            cp = record.thoughts[after].cp
            assert cp is not None
            assert position.origin.eval_cp == -cp
    assert any(position.origin.eval_cp is not None for position in positions)


def test_games_are_appended_whole_and_a_cut_one_is_dropped(tmp_path: Path) -> None:
    texts = [game_text(random_game(n, n), TAGS) for n in range(5)]
    whole = "".join(texts).encode()
    for cut in [*range(0, len(whole), 997), len(whole) - 1, len(whole)]:
        path = tmp_path / "games.pgn"
        path.write_bytes(whole[:cut])
        games, keep = read_written(path)
        assert "".join(game.text for game in games).encode() == whole[:keep]
        assert [game.number for game in games] == list(range(len(games)))
        assert cut - keep < max(len(text) for text in texts)
        writer = PgnWriter(path, keep)
        for text in texts[len(games) :]:
            writer.write(text)
        writer.close()
        assert path.read_bytes() == whole


def test_what_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "games.pgn"
    for text in ('[Event "x"]\n\n1. e4 *\n\n', "no game\n\nat all\n\n", "a text", "\n"):
        path.write_text(text)
        with pytest.raises(ValueRepairError, match="of vr selfplay"):
            read_written(path)
    with pytest.raises(ValueRepairError, match="No such file or directory; the games so far are kept"):
        PgnWriter(tmp_path / "none" / "games.pgn")


def read_back(*records: GameRecord) -> Iterator[PlayedGame]:
    for record in records:
        text = game_text(record, TAGS)
        tags = dict(chess.pgn.read_headers(io.StringIO(text)) or {})
        yield PlayedGame.of_written(WrittenGame(tags, text))


def test_reports_count_what_was_written() -> None:
    records = [random_game(seed % 4, seed) for seed in range(8)]  # every game twice
    games = list(read_back(*records))
    for game, record in zip(games, records, strict=True):
        assert (game.number, game.opening, game.result, game.ending) == (record.number, 4, record.result, record.ending)
        assert game.plies == len(record.thoughts)
    counted = figures(games)
    assert counted["repeated"]["whole"] == 0.5
    assert counted["repeated"]["10"] == 0.5
    assert counted["games"] == 8


@pytest.mark.parametrize("start", [INITIAL, BLACK])
def test_repeated_games_are_those_that_some_earlier_game_begins_like(start: Opening) -> None:
    """Counted game by game, of moves after the book.

    The third game is the first one to its 12th move, the last one to its 9th.
    """
    long = random_game(3, start=start, plies=30)
    other = random_game(4, start=start, plies=30)
    short = replace(long, thoughts=long.thoughts[:12])
    shorter = replace(long, thoughts=long.thoughts[:9])
    records = [long, other, short, long, other, other, random_game(5, start=start, plies=30), shorter]
    repeated = figures(list(read_back(*records)))["repeated"]
    for name, depth in (("10", 10), ("20", 20), ("40", 40), ("80", 80), ("whole", 450)):
        lines_of = [tuple(thought.move for thought in record.thoughts[:depth]) for record in records]
        again = sum(any(line == before for before in lines_of[:i]) for i, line in enumerate(lines_of))
        assert repeated[name] == pytest.approx(again / len(records))
    assert repeated["10"] == pytest.approx(4 / 8)
    assert repeated["whole"] == pytest.approx(3 / 8)


def test_z_in_the_store_is_that_of_the_side_to_move_where_the_book_ends() -> None:
    white, black = chess.STARTING_FEN, "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    results = [[made(result).play(1, fen).z for result in ("1-0", "1/2-1/2", "0-1", "*")] for fen in (white, black)]
    assert results == [[1, 0, -1, None], [-1, 0, 1, None]]


def made(result: str, would_resign: tuple[int, str] | None = None, ending: str = "checkmate") -> PlayedGame:
    return PlayedGame(0, 0, "", "a", "b", result, ending, 0, ("e4",), would_resign)


def test_the_ratio_and_the_rate_of_wrong_resignations() -> None:
    due = [made("1-0", (40, "white")), made("1/2-1/2", (40, "black")), *[made("1-0", (40, "black"))] * 6]
    games = [*due, made("*", (3, "white")), *[made("0-1", None, "resigned")] * 5]
    lines_of_4 = [replace(game, opening=i % 4, start_fen=f"start {i % 4}") for i, game in enumerate(games)]
    counted = figures(lines_of_4)
    assert counted["resign"]["due"] == 8
    assert (counted["resign"]["won"], counted["resign"]["drawn"], counted["resign"]["taken"]) == (1, 1, 5)
    assert counted["resign"]["rate"] == 0.25
    assert counted["resign"]["low"] < 0.25 < counted["resign"]["high"]
    assert (counted["wins"], counted["draws"], counted["losses"], counted["undecided"]) == (7, 1, 5, 1)
    assert counted["decisive_ratio"] == 12
    assert counted["decisive_ratio_low"] < 12 < counted["decisive_ratio_high"]
    none = figures([made("1-0")])
    assert none["resign"] is None
    assert none["decisive_ratio"] is None
    assert "infinite" in lines(none)[0]
    assert "(w+l)/d unknown" in lines(figures([made("*")]))[0]
    assert lines(figures([])) == ["no game is finished"]
    assert math.isclose(figures([made("1/2-1/2")])["decisive_ratio"], 0)
