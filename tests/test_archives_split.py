"""The splitter: every game is found once, at its offset, however the text is cut into pieces."""

from __future__ import annotations

import io
from pathlib import Path

import chess.pgn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valuerepair.archives import split
from valuerepair.archives.split import HEADROOM, SplitGames, Splitter, new_buffer

HEADER = b'[Event "E"]\n[Site "S"]\n[Result "1-0"]\n\n'
MOVES = b"1. e4 e5 2. Nf3 1-0\n\n"


def texts_of(data: bytes, piece: int = 1 << 16) -> list[bytes]:
    """The games of a stream that arrives in pieces; checks offsets and numbers on the way."""
    buffer, splitter = new_buffer(max(piece, 8) + 7 & ~7), Splitter()
    texts: list[bytes] = []
    for at in range(0, len(data) + 1, piece):
        part = data[at : at + piece]
        buffer[HEADROOM : HEADROOM + len(part)] = np.frombuffer(part, np.uint8)
        for games in splitter.feed(buffer, len(part), last=at + piece > len(data)):
            assert games.first == len(texts) + 1
            for i in range(len(games)):
                text = games.text(i)
                assert data[games.offset(i) :].startswith(text)
                texts.append(text)
    assert splitter.games == len(texts)
    return texts


def test_plain_games_and_crlf() -> None:
    game = HEADER + MOVES
    assert texts_of(game * 3) == [game] * 3
    crlf = game.replace(b"\n", b"\r\n")
    assert texts_of(crlf * 3, 16) == [crlf] * 3


@pytest.mark.parametrize(
    "comment",
    [
        b'{ wrapped\n[Event "Fake"]\n[Site "x"]\n here }',
        b'{ after an empty line\n\n[Event "Fake"]\n\n1. d4 }',
        b"{ [%eval 0.17] [%clk\n[0:01:00] }",
        b'; a rest of line with { and [Event "x"]',
        b'{ nested { brace [Event "x"] }',
    ],
)
def test_tags_in_comments_begin_no_game(comment: bytes) -> None:
    game = HEADER + b"1. e4 " + comment + b"\n1... e5 1-0\n\n"
    assert texts_of(game * 2) == [game] * 2


def test_a_comment_never_closed_swallows_no_other_game() -> None:
    broken = HEADER + b"1. e4 { oh no\n1... e5 1-0\n\n"
    commented = HEADER + b"1. e4 { fine } e5 1-0\n\n"
    assert texts_of(broken + commented * 2) == [broken, commented, commented]
    plain = HEADER + MOVES
    assert texts_of(broken + plain * 2) == [broken, plain, plain]


def test_headers_only_and_headers_with_gaps() -> None:
    empty = b'[Event "A"]\n[Result "*"]\n\n'
    assert texts_of(empty * 3) == [empty] * 3
    gap = b'[Event "A"]\n\n[Date "2017"]\n[White "S"]\n\n1. e4 *\n\n'
    assert texts_of(gap * 2) == [gap] * 2


def test_moves_behind_a_tag_and_games_without_tags() -> None:
    lines = b'[Result "1-0"] e4 *\n[Result "0-1"] d4 *\n'
    assert texts_of(lines) == [b'[Result "1-0"] e4 *\n', b'[Result "0-1"] d4 *\n']
    assert texts_of(b"e4 e5 *\nd4 { 1-0 }\nd5 1/2-1/2\n\nc4 *") == [
        b"e4 e5 *\n",
        b"d4 { 1-0 }\nd5 1/2-1/2\n\n",
        b"c4 *",
    ]


def test_marks_blanks_and_escapes_are_no_games() -> None:
    assert texts_of(b"") == []
    assert texts_of(b"\xef\xbb\xbf\n \r\n% escape\n") == []
    joined = b"\xef\xbb\xbf" + HEADER + MOVES
    assert len(texts_of(joined * 2)) == 2


def test_an_endless_game_is_given_once_and_the_next_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "MAX_GAME", 4096)
    endless = HEADER + b"1. e4 e5 " * 4000 + b"\n\n"
    data = endless + (HEADER + MOVES) * 2
    buffer, splitter = new_buffer(1024), Splitter()
    found: list[SplitGames] = []
    for at in range(0, len(data) + 1, 1024):
        part = data[at : at + 1024]
        buffer[HEADROOM : HEADROOM + len(part)] = np.frombuffer(part, np.uint8)
        found += splitter.feed(buffer, len(part), last=at + 1024 > len(data))
        assert len(splitter._carry) <= 4096 + 1024
    assert [games.overlong for games in found] == [True, *[False] * (len(found) - 1)]
    assert sum(map(len, found)) == 3


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                HEADER,
                MOVES,
                b"{ comment\n[Tag] } ",
                b"{ open ",
                b"(1. d4 d5) ",
                b"; rest [Event\n",
                b"\n",
                b"\r\n",
                b"% x\n",
                b'[Event "E"]\n',
                b"e4 e5 *\n",
                b"} ",
                b"junk\x00 ",
            ]
        ),
        max_size=12,
    ),
    st.integers(1, 64),
)
def test_the_cut_into_pieces_changes_nothing(parts: list[bytes], piece: int) -> None:
    data = b"".join(parts)
    whole = texts_of(data)
    assert texts_of(data, piece) == whole
    assert len(b"".join(whole)) <= len(data)
    assert b"".join(whole).strip() == data[data.find(whole[0]) :].strip() if whole else True


@pytest.mark.parametrize("name", ["iccf-scca.pgn", "lichess-blitz.pgn"])
def test_as_many_games_as_python_chess_finds(shared_data: Path, name: str) -> None:
    data = (shared_data / "pgn" / name).read_bytes()
    stream = io.StringIO(data.decode("latin-1"))
    headers = []
    while (header := chess.pgn.read_headers(stream)) is not None:
        headers.append(header)
    texts = texts_of(data, 5000)
    assert len(texts) == len(headers)
    for text, header in zip(texts, headers, strict=True):
        assert f'[White "{header["White"]}"]'.encode("latin-1") in text
