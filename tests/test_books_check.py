"""The checker's verdict against the real lc0: it has problems exactly where lc0 throws, misreads or plays no game."""

from __future__ import annotations

import gzip
import io
import random
import time
from pathlib import Path

import chess
import chess.pgn
import pytest

from tests.lc0_selfplay import Played, play
from valuerepair.books.check import GAME_PLY_LIMIT, Entry, can_continue, read_book
from valuerepair.errors import UsageError, ValueRepairError

KPK = "4k3/8/8/8/8/8/4P3/4K3"
EP_BOOK = "1. e4 Nc6 2. e5 e6 3. Na3 Nge7 4. Nb5 d5"

GOOD = {
    "moves from the initial position": "1. e4 c5 2. Nf3 d6 *\n",
    "several entries, with tags and without": '[Event "x"]\n\n1. e4 *\n\n1. d4 d5 *\n\n[White "y"]\n\n1. c4 1-0\n',
    "crlf": '[Event "x"]\r\n\r\n1. e4\r\n\r\n[Event "y"]\r\n\r\n1. d4 *\r\n',
    "byte-order mark": "\ufeff1. e4 e5 *\n",
    "fen without moves, black": f'[FEN "{KPK} b - - 5 39"]\n\n*\n',
    "white-to-move fen with moves": f'[FEN "{KPK} w - - 5 39"]\n\n1. e4 Kd7 *\n',
    "fen tag in lower case": f'[fen "{KPK} b - - 5 39"]\n\n*\n',
    "fen of four fields": f'[FEN "{KPK} b - -"]\n\n*\n',
    "fen of five fields": f'[FEN "{KPK} b - - 5"]\n\n*\n',
    "fen of two fields": f'[FEN "{KPK} b"]\n\n*\n',
    "fen with e.p. square, taken": '[FEN "4k3/8/8/4pP2/8/8/8/4K3 w - e6 0 1"]\n\n1. fxe6 *\n',
    "all results anywhere": "1. e4 1-0\n\n1. d4 0-1\n\n1. c4 1/2-1/2\n\n1. b4 *\n",
    "comments": "1. e4 {good} e5 {more\nlines [%clk 1:00]} 2. Nf3 ; to the end\nNc6 *\n",
    "suffixes": "1. e4! e5?? 2. Qh5!? Nc6 3. Qxf7+ Kxf7 *\n",
    "numbers without blanks": "1.e4 e5 2.Nf3 *\n",
    "no numbers": "e4 e5 Nf3 *\n",
    "long algebraic": "1. e2e4 e7e5 2. Ng1f3 *\n",
    "promotion": '[FEN "8/P6k/8/8/8/8/8/K7 w - - 0 1"]\n\n1. a8=R *\n',
    "castling": "1. e4 e5 2. Nf3 Nf6 3. Bc4 Bc5 4. O-O O-O *\n",
    "white's e.p. capture": f"{EP_BOOK} 5. exd6 *\n",
    "a piece to the e.p. square that no pawn attacks": "1. e4 e5 2. Nf3 Nc6 3. Bb5 d5 4. Bxc6+ *\n",
    "disambiguation": "1. Nf3 Nf6 2. Nc3 Nc6 3. d4 d5 4. Nd2 e6 5. Ndb1 *\n",
    "two empty lines between entries": "1. e4 *\n\n\n1. d4 *\n",
    "no newline at the end": "1. e4 e5",
    "a line longer than lc0's buffer": "1. e4 {" + "x" * 5000 + "} e5 *\n",
}

# lc0 throws: the whole book fails to load.
REFUSED = {
    "black-to-move fen with moves and gap": f'[FEN "{KPK} b - - 5 39"]\n\n39... Kd7 40. e4 *\n',
    "move number for black": "1. e4 1... e5 *\n",
    "move number for black after a comment": "1. e4 {x} 1...e5 *\n",
    "variation": "1. e4 (1. d4 d5) e5 *\n",
    "nag": "1. e4 $1 e5 *\n",
    "null move": "1. e4 -- 2. d4 *\n",
    "castling with zeros": "1. e4 e5 2. Nf3 Nf6 3. Bc4 Bc5 4. 0-0 *\n",
    "promotion without equals sign": '[FEN "8/P6k/8/8/8/8/8/K7 w - - 0 1"]\n\n1. a8Q *\n',
    "unknown result": "1. e4 e5 1/2\n",
    "illegal move": "1. e4 e5 2. Ke3 *\n",
    "castling in long algebraic, then the rook": "1. e4 e5 2. Nf3 Nf6 3. Bc4 Bc5 4. e1g1 d6 5. Re1 *\n",
    "hyphen": "1. e2-e4 *\n",
    "ambiguous": "1. Nf3 Nf6 2. d3 d6 3. Nd2 *\n",
    "a piece to the e.p. square": f"{EP_BOOK} 5. Nd6+ *\n",
    "escape line": "1. e4\n%escape\ne5 *\n",
    "tag with a blank before it": ' [Event "x"]\n\n1. e4 *\n',
    "number without a dot": "10 e4 e5\n",
    "bad fen": '[FEN "4k3/8/8/8/8/8/4X3/4K3 w - - 0 1"]\n\n*\n',
    "fen with a bad e.p. square": f'[FEN "{KPK} w - e6 0 1"]\n\n*\n',
    "fen with an e.p. square and no clocks": '[FEN "4k3/8/8/4pP2/8/8/8/4K3 w - e6"]\n\n*\n',
    "fen with castling rights without rooks": f'[FEN "{KPK} w K - 0 1"]\n\n*\n',
    "fen with the right to castle long without a rook": f'[FEN "{KPK} w Q - 0 1"]\n\n*\n',
    "fen with extra characters": f'[FEN "{KPK} w - - 0 1 x"]\n\n*\n',
    "fen with a tab": f'[FEN "{KPK} w -\t- 0 1"]\n\n*\n',
    "fen with a sign": f'[FEN "{KPK} w - - +0 1"]\n\n*\n',
    "epd": f"{KPK} w - - hmvc 0;\n",
}

# lc0 reads something else than is written, in silence: the text, and the entries it means (start, moves in UCI).
_KINGS = f"{KPK} w - - 0 1"
START = chess.STARTING_FEN
MISREAD = {
    "black-to-move fen with bare moves": (
        f'[FEN "{KPK} b - - 5 39"]\n\nKd7 40. e4 *\n',
        [(f"{KPK} b - - 5 39", "e8d7 e2e4")],
    ),
    "variation with blanks": ("1. e4 ( c5 ) e5 *\n", [(START, "e2e4 e7e5")]),
    "illegal castling": ("1. O-O *\n", []),
    "wrong piece letter": ("1. e4 e5 2. Bg1f3 Nc6 *\n", []),
    "a move of which lc0 sees the beginning only": ("1. Nf3-g5 *\n", []),
    "escape line of moves": ("% e4 e5\n\n1. d4 *\n", [(START, "d2d4")]),
    "fen tag with two blanks": (f'[FEN  "{_KINGS}"]\n\n1. e4 *\n', [(_KINGS, "e2e4")]),
    "fen tag behind another on the line": (f'[SetUp "1"] [FEN "{_KINGS}"]\n\n*\n', [(_KINGS, "")]),
    "movetext behind a tag": (
        '[Event "x"] 1. e4 e5\n\n1. d4 *\n',
        [(START, "e2e4 e7e5"), (START, "d2d4")],
    ),
    "fen without movetext": (
        f'[FEN "{_KINGS}"]\n\n[Event "x"]\n\n1. e4 *\n',
        [(_KINGS, ""), (START, "e2e4")],
    ),
    "fen without movetext at the end": (
        f'1. e4 *\n\n[FEN "{_KINGS}"]\n',
        [(START, "e2e4"), (_KINGS, "")],
    ),
    "two fen tags": (f'[FEN "{_KINGS}"]\n[FEN "{KPK} b - - 0 1"]\n*\n', [(_KINGS, "")]),
    "empty line in movetext": ("1. e4 e5\n\n2. Nf3 Nc6 *\n", [(START, "e2e4 e7e5 g1f3 b8c6")]),
    "empty line before the result": ('[Event "x"]\n\n1. e4 e5\n\n*\n', [(START, "e2e4 e7e5")]),
    "empty line in movetext without numbers": ("e4 e5\n\nNf3 Nc6 *\n", [(START, "e2e4 e7e5 g1f3 b8c6")]),
    "empty line in a comment": ("1. e4 e5 {first\n\nsecond} 2. Nf3 *\n", [(START, "e2e4 e7e5 g1f3")]),
    "unclosed comment": ("1. e4 {oops e5 *\n\n1. d4 *\n", [(START, "e2e4 e7e5"), (START, "d2d4")]),
    "brace after a semicolon": ("1. e4 ; see {\ne5 *\n", [(START, "e2e4 e7e5")]),
    "comment without blanks around it": ("1. e4{x}e5 *\n", [(START, "e2e4 e7e5")]),
    "a line of blanks at the end": ("1. e4 *\n\n  \n", [(START, "e2e4")]),
    "two games in one entry": (
        "1. e4 e5 1-0\n1. d4 d5 0-1\n",
        [(START, "e2e4 e7e5"), (START, "d2d4 d7d5")],
    ),
    "two games in one entry, without results": (
        "1. e4 e5\n1. d4 d5 2. c4 c5\n",
        [(START, "e2e4 e7e5"), (START, "d2d4 d7d5 c2c4 c7c5")],
    ),
    "nul byte": ("1. e4 e5 \0 2. Nf3 Nc6\n", [(START, "e2e4 e7e5 g1f3 b8c6")]),
    "beyond lc0's ply limit": (f'[FEN "{KPK} b - - 5 450"]\n\n*\n', [(f"{KPK} b - - 5 450", "")]),
}

# lc0 loads these, but there is nothing to play: it ends the game where the book ends.
OVER = {
    "checkmate": "1. f3 e5 2. g4 Qh4# *\n",
    "fifty moves": f'[FEN "{KPK} w - - 100 90"]\n\n*\n',
    "third repetition": "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 *\n",
    "bare kings": '[FEN "4k3/8/8/8/8/8/8/4K3 w - - 0 1"]\n\n*\n',
    "stalemate": '[FEN "k7/2Q5/8/8/8/8/8/4K3 b - - 0 1"]\n\n*\n',
}


def _write(folder: Path, text: str) -> Path:
    book = folder / "book.pgn"
    book.write_bytes(text.encode("utf-8"))
    return book


def _checked(book: Path) -> tuple[list[str], list[Entry]]:
    """The problems of a book, and its entries; a file that is not read at all is one problem."""
    try:
        entries = read_book(book)
    except ValueRepairError as error:
        return [str(error)], []
    return [entry.problem for entry in entries if entry.problem], entries


def _by_python_chess(text: str) -> list[str]:
    """The positions where the entries end, as python-chess reads the same text."""
    # python-chess knows tag names only as the standard spells them, lc0 in any case.
    plain = text.lstrip("\ufeff").replace("\r\n", "\n").replace("[fen", "[FEN")
    stream, ends = io.StringIO(plain), []
    while (game := chess.pgn.read_game(stream)) is not None:
        assert not game.errors
        ends.append(game.end().board().fen())
    return ends


def _ends(games: list[Played] | None) -> list[str] | None:
    return None if games is None else [game.book_end for game in games]


@pytest.mark.parametrize("name", GOOD)
def test_books_without_problems_are_read_by_lc0_as_written(name: str, lc0: str, tmp_path: Path) -> None:
    book = _write(tmp_path, GOOD[name])
    problems, entries = _checked(book)
    assert problems == []
    assert [entry.fen for entry in entries] == _by_python_chess(GOOD[name])
    assert _ends(play(lc0, book)) == [entry.fen for entry in entries]


@pytest.mark.parametrize("name", REFUSED)
def test_books_that_lc0_refuses_have_problems(name: str, lc0: str, tmp_path: Path) -> None:
    book = _write(tmp_path, REFUSED[name])
    problems, _ = _checked(book)
    assert problems
    assert play(lc0, book) is None


@pytest.mark.parametrize("name", MISREAD)
def test_books_that_lc0_misreads_have_problems(name: str, lc0: str, tmp_path: Path) -> None:
    text, meant = MISREAD[name]
    book = _write(tmp_path, text)
    problems, _ = _checked(book)
    assert problems
    games = play(lc0, book)
    assert games is not None
    assert _ends(games) != [_end(start, moves) for start, moves in meant]


def _end(start: str, moves: str) -> str:
    board = chess.Board(start)
    for move in moves.split():
        board.push_uci(move)
    return board.fen()


@pytest.mark.parametrize("name", OVER)
def test_an_entry_whose_game_is_over_is_a_problem_because_lc0_plays_no_move(
    name: str, lc0: str, tmp_path: Path
) -> None:
    book = _write(tmp_path, OVER[name])
    problems, _ = _checked(book)
    assert len(problems) == 1
    assert "plays no game" in problems[0]
    games = play(lc0, book, "--backend=trivial", "--visits=1")
    assert games is not None
    assert [len(game.moves) - game.book_plies for game in games] == [0]


def test_an_empty_book_is_a_problem_because_lc0_plays_from_the_initial_position(lc0: str, tmp_path: Path) -> None:
    book = _write(tmp_path, "")
    problems, _ = _checked(book)
    assert problems == ["no entry"]
    games = play(lc0, book, games=1)
    assert games is not None
    assert [game.book_end for game in games] == [chess.STARTING_FEN]


def test_a_gzipped_book_is_read_and_a_damaged_one_is_not(lc0: str, tmp_path: Path) -> None:
    book = tmp_path / "book.pgn.gz"
    packed = gzip.compress("".join(f'[Event "{i}"]\n\n1. e4 e5 2. Nf3 *\n\n' for i in range(50)).encode())
    book.write_bytes(packed)
    problems, entries = _checked(book)
    assert problems == []
    assert _ends(play(lc0, book)) == [entry.fen for entry in entries]
    assert len(entries) == 50
    book.write_bytes(packed[: len(packed) // 2])  # lc0 plays from the part before the cut without a word
    with pytest.raises(ValueRepairError, match=r"book.pgn.gz: damaged gzip data"):
        read_book(book)


def test_comments_that_are_never_closed_are_read_in_no_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    assert len(_checked(_write(tmp_path, "{" * 2_000_000 + " 1. e4 *\n"))[0]) == 1
    assert time.monotonic() - begun < 10


def test_what_is_no_book_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("1. e4 *")
    for name in ("book.txt", "none.pgn"):
        with pytest.raises(UsageError, match=name):
            read_book(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("8/8/8/8 w - -", "expected 8 rows in position part of fen"),
        ("4k3/8/8/8/8/8/4P3/4K3 w -", "a FEN has at least four fields"),
        ("4k3/8/8/8/8/8/4P3/4K3 w KQ - hmvc 0;", "not a legal position: bad castling rights"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - bm e5;", "bm e5: no legal move"),
        ("4k3/8/8/8/8/8/8/4K3 w - - hmvc 0;", "lc0 plays no game from the end of this entry"),
        ("1. e4 e5 2. Nf3 *", "expected 'w' or 'b' for turn part of fen"),
    ],
)
def test_epd_problems_are_named_with_their_line(tmp_path: Path, line: str, reason: str) -> None:
    good = '4k3/8/8/8/8/8/4P3/4K3 b - - hmvc 5; fmvn 39; id "a; b"; bm Kd7 Ke7;\n4k3/8/8/8/8/8/4P3/4K3 w - - 5 39\n'
    book = tmp_path / "book.epd"
    book.write_text(f"{good}# a remark\n\n{line}\n")
    first, second, wrong = read_book(book)
    assert (first.fen, second.fen) == (f"{KPK} b - - 5 39", f"{KPK} w - - 5 39")
    assert (first.problem, second.problem, wrong.line) == ("", "", 5)
    assert wrong.problem.startswith(reason)


def test_a_move_number_that_boards_have_no_room_for_is_a_problem(tmp_path: Path) -> None:
    (entry,) = read_book(_write(tmp_path, f'[FEN "{KPK} w - - 0 100126"]\n\n*\n'))
    assert "a move counter of more than four digits" in entry.problem


# -- whether lc0 plays on ---------------------------------------------------------------------------------------------

SHUFFLE = ["g1f3", "g8f6", "f3g1", "f6g8"]


def _lines() -> list[tuple[str, list[str]]]:
    """Starts and moves: repetitions, endings of all kinds, and random games with few men, which repeat by chance."""
    lines = [(START, (SHUFFLE * 4)[:n]) for n in range(17)]
    # The rights to castle go with the king's first move: the first and the third board differ.
    lines += [(START, ["e2e4", "e7e5", *(["e1e2", "e8e7", "e2e1", "e7e8"] * 4)[:n]]) for n in range(13)]
    # At first Black could take en passant.
    begin = ["e2e4", "a7a6", "e4e5", "d7d5"]
    lines += [(START, [*begin, *(["g1f3", "b8c6", "f3g1", "c6b8"] * 3)[:n]]) for n in range(13)]
    lines += [(START, ["f2f3", "e7e5", "g2g4", "d8h4"]), ("8/8/4k3/8/8/4K3/8/8 w - - 0 60", ["e3e4"])]
    lines += [("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", []), (f"{KPK} w - - 0 {GAME_PLY_LIMIT}", [])]
    lines += [("4k2r/8/8/8/8/8/8/R3K3 w - - 97 90", ["a1a2", "h8h7", "a2a1"][:n]) for n in range(4)]
    dice = random.Random(3)
    for start in ("4k3/8/8/8/8/8/8/R3K3 w Q - 0 1", "4k3/4r3/8/8/8/8/4R3/4K3 b - - 7 40", START) * 40:
        board = chess.Board(start)
        for _ in range(dice.randrange(60)):
            if moves := list(board.legal_moves):
                board.push(dice.choice(moves))
        lines.append((start, [move.uci() for move in board.move_stack]))
    return lines


def _is_over(board: chess.Board) -> bool:
    return board.is_game_over() or board.is_fifty_moves() or board.is_repetition(3) or (
        board.fullmove_number >= GAME_PLY_LIMIT
    )  # fmt: skip


def test_positions_that_lc0_plays_on_from_are_those_of_python_chess() -> None:
    lines = _lines()
    boards = [chess.Board(start) for start, _ in lines]
    for board, (_, moves) in zip(boards, lines, strict=True):
        for move in moves:
            board.push_uci(move)
    can_play = can_continue(
        [board.fen() for board in boards], [start for start, _ in lines], [" ".join(moves) for _, moves in lines]
    )
    assert can_play.tolist() == [not _is_over(board) for board in boards]
    thirds = [board.is_repetition(3) for board in boards]
    assert sum(thirds) > 12
    assert can_play.sum() > 50
    # Nor from a move that is not legal.
    assert not can_continue([START.replace(" 0 1", " 9 9")], [START], ["e2e5 " * 9])[0]


# -- books broken at random -------------------------------------------------------------------------------------------

_BREAKS = """{ } ( ) ; % * $3 [ ] -- 0-0 O-O O-O-O e.p. ! ? + # = 1. 1... 2. .. 12. 10 1-0 1/2 x
e4 e5 d4 d5 Nf3 Nc6 Bb5 exd5 a6 e2e4 Ng1f3 Kd7 e8=Q a8Q Nbd7 R1a3 fxe6"""
_SHARDS = (
    *_BREAKS.split(),
    *("\n", "\r\n", " \n", "\n\n"),
    f'\n[FEN "{KPK} w - - 0 1"]\n',
    f'\n[FEN "{KPK} b - - 5 39"]\n\n*\n',
    '\n[Event "x"]\n',
    "{a comment}",
    "{two\nlines}",
)


@pytest.mark.slow
def test_whatever_the_checker_passes_lc0_reads_as_written(lc0: str, tmp_path: Path) -> None:
    """Books broken at random: what has no problems is read by lc0, each entry to the same position."""
    dice = random.Random(11)
    passed = refused = 0
    for _ in range(600):
        words = dice.choice(list(GOOD.values())).split(" ")
        for _ in range(dice.randint(1, 3)):
            words.insert(dice.randint(0, len(words)), dice.choice(_SHARDS))
        book = _write(tmp_path, " ".join(words))
        problems, entries = _checked(book)
        played = play(lc0, book, games=1 if problems else -2)
        refused += played is None
        if not problems:
            assert _ends(played) == [entry.fen for entry in entries], book.read_text()
            passed += 1
    assert passed > 50 < refused
