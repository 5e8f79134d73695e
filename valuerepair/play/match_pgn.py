"""Reads the games of any match from PGN: players, openings, results and endings."""

from __future__ import annotations

import hashlib
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from valuerepair.archives.headers import game_result, int_of_text, movetext, read_headers
from valuerepair.archives.open import find_sources, looks_like_tar, read_text
from valuerepair.archives.split import HEADROOM, Pieces, Splitter
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.errors import ValueRepairError
from valuerepair.play.game import (
    CHECKMATE,
    CRASHED,
    DRAW_AGREED,
    FIFTY_MOVES,
    ILLEGAL_MOVE,
    MATERIAL,
    OUT_OF_TIME,
    REPETITION,
    RESIGNED,
    STALEMATE,
    STOPPED,
    TABLEBASE,
    WIN_AGREED,
)
from valuerepair.play.openings import opening_of
from valuerepair.play.pgn import sans_of
from valuerepair.play.standing import Played

log = logging.getLogger(__name__)

AGREED, NORMAL, UNKNOWN, UNREADABLE = "draw agreed", "normal", "not said", "result not readable"
_NO_PLAYERS = "not the games of a match: tags White and Black are missing"
# If a larger share of the games have no counterpart with the colours reversed, games are counted one by one.
_MOST_ALONE = 0.1
# The fewest moves before the first comment that count as an opening: one move may be of an engine without comments.
_FEWEST_PLIES = 4
_AROUND = b"\xef\xbb\xbf \t\r\n"
_NO_MOVES = re.compile(rb"\]\s*(?:1-0|0-1|1/2-1/2|\*)?\Z")
_ANY_MOVE = re.compile(r"(?:\{[^}]*\}|\d+\.+|\s)*[A-Za-z]")
_BEFORE_MOVES = re.compile(r"\s*(?:\{[^}]*\}\s*)?")
_MOVE = re.compile(r"(?:\d+\.+\s*)?([A-Za-z][^\s{}();]*)\s*(?:\$\d+\s*)*")
_BOOK = re.compile(r"\{\s*book\b[^}]*\}\s*")
_LAST_COMMENT = re.compile(r"\{([^{}]*)\}\s*(?:1-0|0-1|1/2-1/2|\*)?\s*\Z")
_MATE = re.compile(r"#[!?]*\s*(?:\{[^{}]*\}\s*)?(?:1-0|0-1)?\s*\Z")
_DURATION = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_MOVE_TIME = re.compile(r"\[%emt (\d+):(\d\d):(\d\d(?:\.\d+)?)\]")
# Words in the last comment (cutechess, fastchess, FICS), in TerminationDetails (TCEC) or in Termination (all of them,
# lichess, chess.com), in lower case, and the ending's name in vr match. The first match counts: stalemate before mate.
_ENDINGS = (
    (re.compile(r"on time|time forfeit|timeout|out of time"), OUT_OF_TIME),
    (re.compile(r"illegal|rules infraction"), ILLEGAL_MOVE),
    (re.compile(r"\bstall(?:s|ed)?\b|disconnect|crash|abandoned"), CRASHED),
    (re.compile(r"stalemate"), STALEMATE),
    (re.compile(r"repetition"), REPETITION),
    (re.compile(r"insufficient|mating material"), MATERIAL),
    (re.compile(r"fifty|50[- ]?move"), FIFTY_MOVES),
    (re.compile(r"syzygy|tablebase|egtb|\btb\b"), TABLEBASE),
    (re.compile(r"adjudicat|(?:draw|win|resign) rule"), ""),
    (re.compile(r"resign"), RESIGNED),
    (re.compile(r"agree"), AGREED),
    (re.compile(r"mates?\b|checkmate"), CHECKMATE),
    (re.compile(r"unterminated|no result"), STOPPED),
)


class TaggedGame(NamedTuple):
    """A game by its tags and comments.

    `place` numbers all games read, from 1. `opening` identifies the opening, None if it is not known. `run` and
    `number` are in games of `vr match`, else "" and 0. `seconds` is the game's duration, None if the file does not have
    it. `has_moves` is False if no move was made.
    """

    place: int
    white: str
    black: str
    result: str
    ending: str
    plies: int
    seconds: float | None
    opening: bytes | None
    run: str
    number: int
    has_moves: bool = True


class Match(NamedTuple):
    """`games` of the two players `names`: the first one has White in even numbers, 2k and 2k + 1 are a pair.

    A game without a counterpart is alone in its pair. `numbered`: pairs are certain, by the numbers of `vr match`.
    """

    names: tuple[str, str]
    games: list[Played]
    numbered: bool = False

    @property
    def paired(self) -> bool:
        """Whether the pairs are known: not if more than a tenth of the games have no counterpart."""
        alone = sum(count == 1 for count in Counter(game.number // 2 for game in self.games).values())
        return self.numbered or alone <= _MOST_ALONE * len(self.games)

    @property
    def counted(self) -> list[Played]:
        """The games as they count: if the pairs are not known, each alone in a pair."""
        if self.paired:
            return self.games
        return [replace(game, number=2 * i + game.number % 2) for i, game in enumerate(self.games)]


def read_games(paths: Sequence[str], on_games: Callable[[int], object] = lambda games: None) -> Iterator[TaggedGame]:
    """The games of PGN files (packed or not), folders and standard input (``-``), in their order.

    It needs only the tags White, Black and Result, and skips copies of an earlier game (text and moves). Calls
    `on_games` with the number of games read since the last call. Raises UsageError for a missing file, ValueRepairError
    for a file that breaks off, for a tar archive and for files in which no game has players.
    """
    place, unnamed, copies, splitter = 0, 0, 0, Splitter()
    texts = set[bytes]()
    with Pieces(find_sources(paths)) as pieces:
        for piece in pieces:
            if piece.first:
                splitter = Splitter()
                if looks_like_tar(piece.buffer[HEADROOM : HEADROOM + piece.length][:512].tobytes()):
                    raise ValueRepairError(f"{piece.source.path}: a tar archive; unpack it first")
            for cut in splitter.feed(piece.buffer, piece.length, last=piece.last):
                for i in range(len(cut)):
                    place += 1
                    text = cut.text(i).strip(_AROUND)
                    if (game := _game(text, place)) is None:
                        unnamed += 1
                    elif _is_copy(text, texts):
                        copies += 1
                    else:
                        yield game
                on_games(len(cut))
            if piece.broken:
                raise ValueRepairError(f"{piece.source.path}: {piece.broken}")
    if unnamed == place:
        raise ValueRepairError(f"{', '.join(paths)}: " + (_NO_PLAYERS if place else "no game in it"))
    if unnamed:
        log.info(f"{unnamed:,} of {place:,} games have no tags White and Black and are left out")
    if copies:
        log.info(f"{copies:,} of {place:,} games are copies of earlier ones and are left out")


def _is_copy(text: bytes, texts: set[bytes]) -> bool:
    """Whether a game with moves has the text of an earlier one; adds the digest of a new text to `texts`."""
    if _NO_MOVES.search(text):
        return False  # different games may have only the same result
    digest = hashlib.blake2b(text, digest_size=16).digest()
    if digest in texts:
        return True
    texts.add(digest)
    return False


def read_match(path: str) -> Match:
    """The match of two players in a PGN file. Raises UsageError, and ValueRepairError for a file of another kind."""
    games, _ = counted_games(list(read_games([path])))
    players = list(dict.fromkeys(name for game in games for name in (game.white, game.black)))
    if len(players) != 2:
        reason = f"there are {len(players):,} players" if len(players) > 2 else "one player plays itself"
        raise ValueRepairError(f"{path}: not the games of one match of two players: {reason}")
    return matches_of(games)[0]


def counted_games(games: Sequence[TaggedGame]) -> tuple[list[TaggedGame], Counter[str]]:
    """The games that count, and the number of the others, which have no move, by ending.

    A failed connection does not show strength; only `vr match` names the loser of such a game. In a file of results
    only, where no game has moves, all games count.
    """
    if not any(game.has_moves for game in games):
        return list(games), Counter()
    counted = [game for game in games if game.has_moves or game.run]
    return counted, Counter(game.ending for game in games if not (game.has_moves or game.run))


def matches_of(games: Iterable[TaggedGame], player: str | None = None) -> list[Match]:
    """The match of each pair of players, in the order of their first games, seen by White of the first game.

    With `player` only its matches, from its side. Games of `vr match` are ordered by their numbers, which also
    determine the pairs; others keep their order (see `_pairs`). Numbers and openings of different matches differ. Skips
    games of a player against itself.
    """
    by_players: dict[frozenset[str], list[TaggedGame]] = {}
    for game in games:
        if game.white != game.black and (player is None or player in (game.white, game.black)):
            by_players.setdefault(frozenset((game.white, game.black)), []).append(game)
    matches, first = [], 0
    for their_games in by_players.values():
        game = their_games[0]
        names = (game.white, game.black) if game.number % 2 == 0 else (game.black, game.white)
        matches.append(_match(names if player in (None, names[0]) else names[::-1], their_games, first))
        first += len(their_games)
    return matches


def joined_matches(matches: Sequence[Match], names: tuple[str, str]) -> Match:
    """The matches of one player against several as one match, whose pairs are those of each opponent."""
    return Match(names, [game for match in matches for game in match.games])


def _match(names: tuple[str, str], games: Sequence[TaggedGame], first: int) -> Match:
    """The match of two players; its pairs and openings are numbered from `first`."""
    games = sorted(games, key=lambda game: game.number)  # stable: 0 for games of other programs
    openings = dict[object, int]()
    numbers = [first + openings.setdefault(game.opening or i, len(openings)) for i, game in enumerate(games)]
    whites = [game.white == names[0] for game in games]
    pairs = _pairs(games, numbers, whites)
    played = [
        Played(2 * (first + pair) + (not white), opening, game.result, game.ending, game.plies)
        for game, white, opening, pair in zip(games, whites, numbers, pairs, strict=True)
    ]
    return Match(names, played, numbered=2 in Counter(pairs).values() and all(game.run for game in games))


def _pairs(games: Sequence[TaggedGame], openings: Sequence[int], whites: Sequence[bool]) -> list[int]:
    """The pair of each game.

    `vr match` numbers its games; at odds it plays only one game of each pair. If a file has the games of a command that
    was run twice, the nth games of a pair's two numbers are a pair. Otherwise, whatever the order of the games, the nth
    game of an opening with White and the nth with Black are a pair.
    """
    counts, numbers, pairs = Counter[object](), dict[object, int](), list[int]()
    for game, opening, white in zip(games, openings, whites, strict=True):
        shared: tuple[object, ...] = (game.run, game.number // 2) if game.run else (opening,)
        side = (*shared, white)
        pairs.append(numbers.setdefault((*shared, counts[side]), len(numbers)))
        counts[side] += 1
    return pairs


def _game(text: bytes, place: int) -> TaggedGame | None:
    tags, moves = read_headers(text), read_text(movetext(text))
    if not tags.get("White") or not tags.get("Black"):
        return None
    # Games of vr selfplay have no BookOrder; their successive games do not share an opening.
    of_vr_match = {"Run", "BookLine", "BookOrder"} <= tags.keys() and tags.get("Round", "").isdecimal()
    result = game_result(tags, text) or "*"
    return TaggedGame(
        place,
        sys.intern(tags["White"]),
        sys.intern(tags["Black"]),
        sys.intern(result),
        sys.intern(_ending(tags, moves, result)),
        int_of_text(tags.get("PlyCount", "")) or 0,
        _seconds(tags, moves),
        _opening(tags, moves),
        sys.intern(tags["Run"]) if of_vr_match else "",
        int(tags["Round"]) - 1 if of_vr_match else 0,
        _ANY_MOVE.match(moves) is not None,
    )


def _opening(tags: Mapping[str, str], moves: str) -> bytes | None:
    """Identifies a game's opening: by FEN and the moves of the book, in games of other programs by the first moves.

    The FEN of the initial position does not identify an opening: every game without a FEN begins there, too.
    """
    words: tuple[str, ...]
    fen = tags.get("FEN", "")
    if (plies := int_of_text(tags.get("BookPlies", ""))) is not None:
        words = opening_of(fen, sans_of(moves)[:plies])
    elif not fen or fen.split()[:4] == STARTPOS_FEN.split()[:4]:
        words = tuple(_beginning(moves, bare=True))
    else:
        words = (fen, *_beginning(moves, bare=False))
    return hashlib.blake2b("\n".join(words).encode(), digest_size=16).digest() if words else None


def _beginning(moves: str, bare: bool) -> list[str]:
    """The moves marked as book; without them, if `bare`, at least `_FEWEST_PLIES` moves before the first comment.

    A game without comments does not show where the book ends.
    """
    if "{" not in moves:
        return []
    before = _BEFORE_MOVES.match(moves)
    start, marked, plain = before.end() if before else 0, list[str](), list[str]()
    while move := _MOVE.match(moves, start):
        if book := _BOOK.match(moves, move.end()):
            marked.append(move[1])
            start = book.end()
        elif marked or not bare or moves[move.end() : move.end() + 1] == "{":
            break
        else:
            plain.append(move[1])
            start = move.end()
    return marked or (plain if len(plain) >= _FEWEST_PLIES else [])


def _ending(tags: Mapping[str, str], moves: str, result: str) -> str:
    """The ending of a game, in the word of `vr match` if there is one for it."""
    if "Ending" in tags:
        return tags["Ending"].partition(": ")[0]
    comment = _LAST_COMMENT.search(moves[-400:])
    last_words = comment[1].rpartition(", ")[2] if comment else ""
    for text in (last_words, tags.get("TerminationDetails", ""), tags.get("Termination", "")):
        if text and (ending := _ending_in(_without_names(text, tags))) is not None:
            return ending or (DRAW_AGREED if result == "1/2-1/2" else WIN_AGREED)
    if _MATE.search(moves[-400:]):
        return CHECKMATE
    if result == "*":
        return STOPPED if "*" in (tags.get("Result"), moves.rstrip()[-1:]) else UNREADABLE
    return NORMAL if tags.get("Termination", "").lower() == NORMAL else UNKNOWN


def _without_names(text: str, tags: Mapping[str, str]) -> str:
    """The text without the players' names, which may contain any words: ``StallionBot won by resignation``."""
    for name in (tags["White"], tags["Black"]):
        if name in text:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", text)
    return text


@lru_cache(1000)
def _ending_in(text: str) -> str | None:
    """The ending that a text names, "" for an adjudication, None if it names no ending."""
    lowered = text.lower()
    return next((ending for words, ending in _ENDINGS if words.search(lowered)), None)


def _seconds(tags: Mapping[str, str], moves: str) -> float | None:
    """The duration of a game: its tag GameDuration, else the sum of the times of its moves; None without them."""
    if duration := _DURATION.fullmatch(tags.get("GameDuration", "")):
        return _in_seconds(duration.groups())
    times = _MOVE_TIME.findall(moves) if "[%emt" in moves else []
    return sum(map(_in_seconds, times)) if times else None


def _in_seconds(clock: Collection[str]) -> float:
    hours, minutes, seconds = clock
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
