"""The games of a match of two players as its PGN has them, whoever ran it: vr match, cutechess, fastchess, a server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from valuerepair.archives.headers import movetext, read_headers
from valuerepair.archives.open import Source, read_text
from valuerepair.archives.split import Pieces, Splitter
from valuerepair.errors import ValueRepairError
from valuerepair.play.pgn import WrittenGame, read_written
from valuerepair.play.standing import POINTS, Played

# A move of the book, as the runners of matches mark it, behind what may stand before the first move.
_BOOK_MOVE = re.compile(r"(?:\d+\.+\s*)?([A-Za-z][^\s{}]*)\s*\{\s*book\b[^}]*\}\s*")
_BEFORE_MOVES = re.compile(r"\s*(?:\{[^}]*\}\s*)?")
# Where fewer of the games have their counterpart with the colours changed, they are counted one by one.
_MOST_PAIRED = 0.9


class Match(NamedTuple):
    """`games` of the two players `names`: the first one has White in even numbers, 2k and 2k + 1 are a pair."""

    names: tuple[str, str]
    games: list[Played]


class _Game(NamedTuple):
    """A game by its tags, with its opening: where it starts and the moves of the book; empty where nothing says so."""

    white: str
    black: str
    result: str
    ending: str
    opening: tuple[str, ...]


def read_match(path: str) -> Match:
    """The match in a PGN file, packed or not. Raises ValueRepairError for what is none.

    Of `vr match` the games come in the order of their numbers. Of others only White, Black and Result are needed, and
    games come as in the file: the first one's White is the first player. Pairs are games from the same opening (FEN and
    moves marked as book) with colours changed; where a tenth of the games has no such counterpart, there are none.
    """
    if Path(path).is_dir():
        raise ValueRepairError(f"{path} is a folder; give the PGN of a match")
    if not Path(path).exists():
        raise ValueRepairError(f"there is no {path}; give the PGN of a match (vr match A B -o {path} plays one)")
    try:
        own = sorted(read_written(Path(path))[0], key=lambda game: game.number)
    except ValueRepairError:
        own = []
    match = _own(own, path) if own else _others(list(_games(path)), path)
    if match is None:
        raise ValueRepairError(f"{path}: no whole game in it; vr match A B -o {path} plays them")
    return match


def _own(games: Sequence[WrittenGame], path: str) -> Match:
    """The games of a `vr match`."""
    try:
        sides = [(game.tags["White"], game.tags["Black"]) for game in games]
        sides = [pair if game.number % 2 == 0 else pair[::-1] for pair, game in zip(sides, games, strict=True)]
        played = [Played.of_written(game) for game in games]
    except (KeyError, ValueError):
        raise _no_match(path, "tags are missing") from None
    if len(set(sides)) > 1:
        raise _no_match(path, "there are several")
    return Match(_two(sides[0], path), played)


def _others(games: Sequence[_Game], path: str) -> Match | None:
    """The games of any match; None without a game."""
    if not games:
        return None
    if any(not game.white or not game.black for game in games):
        raise _no_match(path, "tags White and Black are missing")
    players = list(dict.fromkeys(name for game in games for name in (game.white, game.black)))
    if len(players) > 2:
        raise _no_match(path, f"there are {len(players):,} players")
    names = _two((players[0], players[-1]), path)
    whites = [game.white == names[0] for game in games]
    openings = dict[object, int]()
    numbers = [openings.setdefault(game.opening or i, len(openings)) for i, game in enumerate(games)]
    pairs = _pairs(numbers, whites)
    return Match(names, [
        Played(2 * pair + (not white), opening, game.result, game.ending, 0)
        for game, white, opening, pair in zip(games, whites, numbers, pairs, strict=True)
    ])  # fmt: skip


def _pairs(openings: Sequence[int], whites: Sequence[bool]) -> list[int]:
    """The pair of each game: of an opening the nth game with White and the nth with Black."""
    seen, pairs, found = Counter[tuple[int, bool]](), dict[tuple[int, int], int](), list[int]()
    for opening, white in zip(openings, whites, strict=True):
        found.append(pairs.setdefault((opening, seen[opening, white]), len(pairs)))
        seen[opening, white] += 1
    alone = sum(games == 1 for games in Counter(found).values())
    return found if alone <= (1 - _MOST_PAIRED) * len(found) else list(range(len(found)))


def _games(path: str) -> Iterator[_Game]:
    splitter = Splitter()
    with Pieces([Source(path, path, path)]) as pieces:
        for piece in pieces:
            if piece.broken:
                raise ValueRepairError(f"{path}: {piece.broken}")
            for cut in splitter.feed(piece.buffer, piece.length, last=piece.last):
                yield from (_game(cut.text(i)) for i in range(len(cut)))


def _game(text: bytes) -> _Game:
    tags, moves = read_headers(text), read_text(movetext(text))
    opening = [tags["FEN"]] if "FEN" in tags else []
    found = _BEFORE_MOVES.match(moves)
    while found := _BOOK_MOVE.match(moves, found.end() if found else 0):
        opening.append(found[1])
    result = tags.get("Result", "")
    ending = tags.get("Termination", "")
    return _Game(tags.get("White", ""), tags.get("Black", ""), result if result in POINTS else "*", ending, (*opening,))


def _two(names: tuple[str, str], path: str) -> tuple[str, str]:
    if names[0] == names[1]:  # self-play: nobody's Elo
        raise _no_match(path, "one player plays itself")
    return names


def _no_match(path: str, why: str) -> ValueRepairError:
    return ValueRepairError(f"{path}: not the games of one match of two players: {why}")
