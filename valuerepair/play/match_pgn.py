"""The games of any match as its PGN tells them: who met whom, from which opening, with what result and ending."""

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

from valuerepair.archives.headers import game_result, movetext, read_headers, whole
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
from valuerepair.play.standing import Played

log = logging.getLogger(__name__)

AGREED, NORMAL, UNKNOWN, UNREADABLE = "draw agreed", "normal", "not said", "result not readable"
_NOBODYS = "not the games of a match: tags White and Black are missing"
# Where fewer of the games have their counterpart with the colours changed, they are counted one by one.
_MOST_PAIRED = 0.9
# Moves without a comment before the first with one are an opening only if there are so many: where one of the two
# engines says nothing of its moves, its first one stands there, too.
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
# What is in the last comment (cutechess, fastchess, FICS), in TerminationDetails (TCEC) or in Termination (they all,
# lichess, chess.com), in lower case, and how vr match calls it. The first that is found counts: a stalemate is no mate.
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

    `place` is which of all games read it is, from 1. `opening` tells games of one opening from those of others, None
    where nothing says what it is. `run` and `number` are those that `vr match` gives its games, else "" and 0.
    `seconds` is how long it took, None where the file does not say. `has_moves` is False where no move was made.
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

    `paired` is False where nothing says which games are pairs, and each has a number of its own.
    """

    names: tuple[str, str]
    games: list[Played]
    paired: bool


def read_games(paths: Sequence[str], on_games: Callable[[int], object] = lambda games: None) -> Iterator[TaggedGame]:
    """The games of PGN files (packed or not), folders and standard input (``-``), in their order.

    Only White, Black and Result are needed. A game whose whole text came before, with moves, is the same one read twice
    and left out. Calls `on_games` with the number of games read since the last call. Raises UsageError for a missing
    file, ValueRepairError for one that breaks off, for a tar archive and where no game has players.
    """
    place, nobodys, copies, splitter = 0, 0, 0, Splitter()
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
                        nobodys += 1
                    elif _is_copy(text, texts):
                        copies += 1
                    else:
                        yield game
                on_games(len(cut))
            if piece.broken:
                raise ValueRepairError(f"{piece.source.path}: {piece.broken}")
    if nobodys == place:
        raise ValueRepairError(f"{', '.join(paths)}: " + (_NOBODYS if place else "no game in it"))
    if nobodys:
        log.info(f"{nobodys:,} of {place:,} games have no tags White and Black and are left out")
    if copies:
        log.info(f"{copies:,} of {place:,} games are copies of earlier ones and are left out")


def _is_copy(text: bytes, texts: set[bytes]) -> bool:
    """Whether a game with moves has a text that came before; `texts` keeps the digest of each that has not."""
    if _NO_MOVES.search(text):
        return False  # of many games with one result nothing else may be told
    digest = hashlib.blake2b(text, digest_size=16).digest()
    if digest in texts:
        return True
    texts.add(digest)
    return False


def read_match(path: str) -> Match:
    """The match of two players in a PGN file. Raises UsageError and ValueRepairError, as for a file of another kind."""
    games, _ = played(list(read_games([path])))
    players = list(dict.fromkeys(name for game in games for name in (game.white, game.black)))
    if len(players) != 2:
        many = f"there are {len(players):,} players" if len(players) > 2 else "one player plays itself"
        raise ValueRepairError(f"{path}: not the games of one match of two players: {many}")
    return matches_of(games)[0]


def played(games: Sequence[TaggedGame]) -> tuple[list[TaggedGame], Counter[str]]:
    """The games that were played, and by how they ended those that were not, because they have no move.

    A connection that fails says nothing of strength; `vr match` itself names the loser of a game that ends so. Files
    of results alone, in which no game has moves, are taken as they are.
    """
    if not any(game.has_moves for game in games):
        return list(games), Counter()
    counted = [game for game in games if game.has_moves or game.run]
    return counted, Counter(game.ending for game in games if not (game.has_moves or game.run))


def matches_of(games: Iterable[TaggedGame], player: str | None = None) -> list[Match]:
    """The matches of each two players, in the order of their first games, each as its first game's White sees it.

    With `player` only its own, as it sees them. Games of a `vr match` come in the order of their numbers, which also
    say what the pairs are; others as they were given. Their pairs are those of `_pairs`. Numbers and openings are of
    one match only: no two matches have one in common. Games of a player against itself are left out.
    """
    by_players: dict[frozenset[str], list[TaggedGame]] = {}
    for game in games:
        if game.white != game.black and (player is None or player in (game.white, game.black)):
            by_players.setdefault(frozenset((game.white, game.black)), []).append(game)
    found, first = [], 0
    for each in by_players.values():
        one = each[0]
        names = (one.white, one.black) if one.number % 2 == 0 else (one.black, one.white)
        found.append(_match(names if player in (None, names[0]) else names[::-1], each, first))
        first += len(each)
    return found


def together(matches: Sequence[Match], names: tuple[str, str]) -> Match:
    """The matches of one player against several as one. They are paired where most of all their games are."""
    games = [game for match in matches for game in match.games]
    if _mostly_paired(game.number // 2 for game in games):
        return Match(names, games, True)
    singles = [replace(game, number=2 * i + game.number % 2) for i, game in enumerate(games)]
    return Match(names, singles, False)


def _match(names: tuple[str, str], games: Sequence[TaggedGame], first: int) -> Match:
    """The match of two players; its pairs and openings are numbered from `first`."""
    games = sorted(games, key=lambda game: game.number)  # stable: all others have 0
    openings = dict[object, int]()
    numbers = [first + openings.setdefault(game.opening or i, len(openings)) for i, game in enumerate(games)]
    whites = [game.white == names[0] for game in games]
    pairs, paired = _pairs(games, numbers, whites)
    played = [
        Played(2 * (first + pair) + (not white), opening, game.result, game.ending, game.plies)
        for game, white, opening, pair in zip(games, whites, numbers, pairs, strict=True)
    ]
    return Match(names, played, paired)


def _pairs(games: Sequence[TaggedGame], openings: Sequence[int], whites: Sequence[bool]) -> tuple[list[int], bool]:
    """The pair of each game, and whether they are pairs.

    `vr match` has numbered its games; at odds only one of each two was played. Where one command was run twice, there
    are two games of a number: the nth ones are a pair. Of others, in whatever order they ended,
    the nth game of an opening with White and the nth with Black are a pair; where more than a tenth of the games has no
    such counterpart, there are none.
    """
    seen, pairs, found = Counter[object](), dict[object, int](), list[int]()
    for game, opening, white in zip(games, openings, whites, strict=True):
        shared: tuple[object, ...] = (game.run, game.number // 2) if game.run else (opening,)
        side = (*shared, white)
        found.append(pairs.setdefault((*shared, seen[side]), len(pairs)))
        seen[side] += 1
    numbered = 2 in Counter(found).values() and all(game.run for game in games)
    if numbered or _mostly_paired(found):
        return found, True
    return list(range(len(found))), False


def _mostly_paired(pairs: Iterable[int]) -> bool:
    games = Counter(pairs)
    alone = sum(count == 1 for count in games.values())
    return alone <= (1 - _MOST_PAIRED) * games.total()


def _game(text: bytes, place: int) -> TaggedGame | None:
    tags, moves = read_headers(text), read_text(movetext(text))
    if not tags.get("White") or not tags.get("Black"):
        return None
    # Games of vr selfplay have all but the book's order, and two of them in turn are of two lines.
    own = {"Run", "BookLine", "BookOrder"} <= tags.keys() and tags.get("Round", "").isdecimal()
    result = game_result(tags, text) or "*"
    return TaggedGame(
        place,
        sys.intern(tags["White"]),
        sys.intern(tags["Black"]),
        sys.intern(result),
        sys.intern(_ending(tags, moves, result)),
        whole(tags.get("PlyCount", "")) or 0,
        _seconds(tags, moves),
        _opening(tags, moves),
        sys.intern(tags["Run"]) if own else "",
        int(tags["Round"]) - 1 if own else 0,
        _ANY_MOVE.match(moves) is not None,
    )


def _opening(tags: Mapping[str, str], moves: str) -> bytes | None:
    """What tells a game's opening from others: of `vr match` book and line, else FEN and beginning.

    The FEN of the initial position tells nothing: every game without a FEN begins there, too.
    """
    told: tuple[str, ...]
    fen = tags.get("FEN", "")
    if "BookLine" in tags:
        told = (tags.get("Book", ""), tags["BookLine"])
    elif not fen or fen.split()[:4] == STARTPOS_FEN.split()[:4]:
        told = tuple(_beginning(moves, bare=True))
    else:
        told = (fen, *_beginning(moves, bare=False))
    return hashlib.blake2b("\n".join(told).encode(), digest_size=16).digest() if told else None


def _beginning(moves: str, bare: bool) -> list[str]:
    """The moves marked as book; without any, and if `bare`, those before the first with a comment, if not too few.

    In a game without any comment nothing marks where the book ends.
    """
    if "{" not in moves:
        return []
    before = _BEFORE_MOVES.match(moves)
    at, marked, plain = before.end() if before else 0, list[str](), list[str]()
    while found := _MOVE.match(moves, at):
        if book := _BOOK.match(moves, found.end()):
            marked.append(found[1])
            at = book.end()
        elif marked or not bare or moves[found.end() : found.end() + 1] == "{":
            break
        else:
            plain.append(found[1])
            at = found.end()
    return marked or (plain if len(plain) >= _FEWEST_PLIES else [])


def _ending(tags: Mapping[str, str], moves: str, result: str) -> str:
    """How a game ended, in the words of `vr match` where it has one."""
    if "Ending" in tags:
        return tags["Ending"].partition(": ")[0]
    comment = _LAST_COMMENT.search(moves[-400:])
    said = (comment[1].rpartition(", ")[2] if comment else "", tags.get("TerminationDetails", ""))
    for text in (*said, tags.get("Termination", "")):
        if text and (ending := _named(_without_names(text, tags))) is not None:
            return ending or (DRAW_AGREED if result == "1/2-1/2" else WIN_AGREED)
    if _MATE.search(moves[-400:]):
        return CHECKMATE
    if result == "*":
        return STOPPED if "*" in (tags.get("Result"), moves.rstrip()[-1:]) else UNREADABLE
    return NORMAL if tags.get("Termination", "").lower() == NORMAL else UNKNOWN


def _without_names(text: str, tags: Mapping[str, str]) -> str:
    """Without the players' names, which may have any words in them: ``StallionBot won by resignation``."""
    for name in (tags["White"], tags["Black"]):
        if name in text:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", text)
    return text


@lru_cache(1000)
def _named(text: str) -> str | None:
    """The ending that a text names, "" for an adjudication; None where it names none."""
    lowered = text.lower()
    return next((ending for words, ending in _ENDINGS if words.search(lowered)), None)


def _seconds(tags: Mapping[str, str], moves: str) -> float | None:
    """How long a game took: as the runner says, else the times of its moves."""
    if whole_game := _DURATION.fullmatch(tags.get("GameDuration", "")):
        return _in_seconds(whole_game.groups())
    times = _MOVE_TIME.findall(moves) if "[%emt" in moves else []
    return sum(map(_in_seconds, times)) if times else None


def _in_seconds(clock: Collection[str]) -> float:
    hours, minutes, seconds = clock
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
