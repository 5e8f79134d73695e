"""Which opening a position comes from: ECO code and name, by the boards on the way to it.

The names are lichess's (CC0, see openings.LICENSE.txt): 3,523 named positions. As lichess does, a line of moves gets
the name of the last of its boards that has one; boards are found by their key, so the order of moves does not matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from valuerepair.chess.board import keys, legal_moves, men, parse_fens, replay
from valuerepair.chess.material import material_signature
from valuerepair.chess.positions import STARTPOS_FEN, cuts_of, encode_move
from valuerepair.chess.rows import Boards

UNKNOWN = "unknown"
# The longest named line has 36 plies; a few more are for lines that lose a move on the way.
MAX_PLIES = 44

_ANSWER = re.compile(r" (Accepted|Declined)$")
_ECO = re.compile(r"\s*([A-Ea-e][0-9]{2})(?![0-9])")


class OpeningName(NamedTuple):
    """An ECO code (``B90``) and lichess's name (``Sicilian Defense: Najdorf Variation``); empty where unknown."""

    eco: str = ""
    name: str = ""


class _NamedPositions(NamedTuple):
    """The named positions by ascending key [n]; `openings` in the same order."""

    keys: NDArray[np.uint64]
    openings: list[OpeningName]

    def indices_of(self, board_keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """[n] the index of the named position with each of the keys, -1 for a board without a name."""
        index = np.minimum(np.searchsorted(self.keys, board_keys), len(self.keys) - 1)
        return np.where(self.keys[index] == board_keys, index, -1)


def openings_of(
    eco_headers: Sequence[str | None], start_fens: Sequence[str], moves: Sequence[Sequence[str]]
) -> list[OpeningName]:
    """The openings of games up to one of their positions, which `moves` (UCI) lead to from `start_fens`; [n] each.

    `eco` is that of the game's header ``ECO`` if it is a code (``C42``, ``C42/03``, ``c42a``: then ``C42``); otherwise
    that of the last named board among those after 0, 1, … moves. `name` is always that board's, because headers name
    openings in every language; so the header's code may differ from that of the name. Raises ValueError for a bad FEN.
    """
    openings = _openings_by_board(start_fens, moves)
    codes = [eco_code(header) for header in eco_headers]
    return [
        OpeningName(code, opening.name) if code and code != opening.eco else opening
        for code, opening in zip(codes, openings, strict=True)
    ]


def first_moves(texts: Sequence[Any]) -> list[list[str]]:
    """The first `MAX_PLIES` moves of each text (UCI moves with blanks between them); none for a cell without text."""
    return [text.split(None, MAX_PLIES)[:MAX_PLIES] if isinstance(text, str) else [] for text in texts]


@lru_cache(4096)
def eco_code(header: str | None) -> str:
    """The ECO code that a header begins with, in capitals; empty for anything else. Headers may have any text."""
    match = _ECO.match(header or "")
    return match[1].upper() if match else ""


def family(eco: str) -> str:
    """The beginning of the name of this ECO code's shortest line: B90 and B22 are ``Sicilian Defense``.

    Accepted and declined gambits are one family: C33 is ``King's Gambit``, D20 and D30 are ``Queen's Gambit``. Among
    lines of equal length, it is the beginning that most names of the code have. `UNKNOWN` for anything but a code, and
    for codes without a named position.
    """
    return _families().get(eco, UNKNOWN)


def named_positions() -> list[tuple[str, str, tuple[str, ...]]]:
    """(ECO code, name, moves in UCI) of every named position."""
    packed = resources.files("valuerepair.chess").joinpath("openings.tsv.zst").read_bytes()
    rows = (line.split("\t") for line in zstandard.ZstdDecompressor().decompress(packed).decode().splitlines())
    return [(eco, name, tuple(moves.split(" "))) for eco, name, moves in rows]


def families_on_the_way(header: str | None, board_keys: NDArray[np.uint64]) -> set[str]:
    """The opening families of a game's positions: that of its ECO header if this is a code, else those of its boards.

    `board_keys` are the keys of the game's boards, from its first one on.
    """
    code = eco_code(header)
    return {family(code)} if code else set(families_of_plies(board_keys)) - {UNKNOWN}


def families_of_plies(board_keys: NDArray[np.uint64]) -> list[str]:
    """[n] the family of each board of a game: that of the last named board up to it, `UNKNOWN` before the first.

    `board_keys` are the keys of the game's boards, from its first one on.
    """
    named, last, families = _named_by_key(), UNKNOWN, []
    for ply, number in enumerate(named.indices_of(board_keys).tolist()):
        last = family(named.openings[number].eco) if number >= 0 and ply <= MAX_PLIES else last
        families.append(last)
    return families


def _openings_by_board(start_fens: Sequence[str], moves: Sequence[Sequence[str]]) -> list[OpeningName]:
    """The opening of each line by its last named board."""
    named, last = _named_by_key(), np.full(len(start_fens), -1)
    for rows, boards in boards_by_ply(start_fens, moves, MAX_PLIES):
        index = named.indices_of(keys(boards))
        last[rows[index >= 0]] = index[index >= 0]
    unknown = OpeningName()
    return [named.openings[number] if number >= 0 else unknown for number in last.tolist()]


@cache
def _named_by_key() -> _NamedPositions:
    rows = named_positions()
    lines = [moves for _, _, moves in rows]
    last_keys = np.zeros(len(rows), np.uint64)
    for numbers, boards in boards_by_ply([STARTPOS_FEN] * len(rows), lines):
        last_keys[numbers] = keys(boards)
    order = np.argsort(last_keys)
    return _NamedPositions(last_keys[order], [OpeningName(*rows[i][:2]) for i in order.tolist()])


@cache
def _families() -> dict[str, str]:
    shortest: dict[str, tuple[int, int, str]] = {}
    rows = [(eco, _ANSWER.sub("", name.split(":")[0]), len(moves)) for eco, name, moves in named_positions()]
    frequency = Counter((eco, first) for eco, first, _ in rows)
    for eco, first, length in rows:
        rank = (length, -frequency[eco, first], first)
        shortest[eco] = min(rank, shortest.get(eco, rank))
    return {eco: first for eco, (_, _, first) in shortest.items()}


def boards_by_ply(
    fens: Sequence[str],
    lines: Sequence[Sequence[str]],
    most: int | None = None,
) -> Iterator[tuple[NDArray[np.int64], Boards]]:
    """For 0, 1, 2, … plies, at most `most`: the lines that reach that ply, as ascending indices [m], and their boards.

    Line i is `lines[i]` (UCI) from `fens[i]`. A line ends before its first illegal move: some lines were written by
    engines. Raises ValueError for a bad FEN.
    """
    rows, boards = np.arange(len(fens)), parse_fens(fens)
    moves, cuts = _encoded(lines, most)
    next_move = cuts[:-1].copy()
    while len(rows):
        yield rows, boards
        unfinished = np.flatnonzero(next_move[rows] < cuts[rows + 1])
        rows, boards = rows[unfinished], boards[unfinished]
        rows, boards = _played(rows, boards, moves[next_move[rows]])
        next_move[rows] += 1


def _played(rows: NDArray[np.int64], boards: Boards, moves: NDArray[np.int64]) -> tuple[NDArray[np.int64], Boards]:
    """The lines that continue, and their boards after one more move each."""
    if (moves >= 0).all():
        try:  # nearly always all are legal, and playing them shows it
            return rows, replay(boards, moves.astype(np.uint16), np.arange(len(rows) + 1))
        except ValueError:
            pass
    legal = np.flatnonzero(_legal(boards, moves))
    return rows[legal], replay(boards[legal], moves[legal].astype(np.uint16), np.arange(len(legal) + 1))


def _encoded(lines: Sequence[Sequence[str]], most: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first `most` moves of n lines as one array, -1 for text that is not a move; the start of each line in it,
    int64[n + 1]."""
    cut = [line[:most] for line in lines]
    code_of = {move: _encoded_move(move) for move in set(chain.from_iterable(cut))}
    codes = np.array([code_of[move] for move in chain.from_iterable(cut)], np.int64)
    return codes, cuts_of([*map(len, cut)])


def _encoded_move(move: str) -> int:
    try:
        return encode_move(move)
    except ValueError:
        return -1


def _legal(boards: Boards, moves: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[n] whether each board's move is among its legal ones."""
    listed, offsets = legal_moves(boards)
    hits = np.flatnonzero(listed == np.repeat(moves, np.diff(offsets)))
    legal = np.zeros(len(boards), np.bool_)
    legal[np.searchsorted(offsets, hits, "right") - 1] = True
    return legal


_PIECES = "KQRBN"


def material_family(fen: str) -> str:
    """The kinds of pieces that each side has, without pawns: ``KRvKR`` for all rook endings, ``KvK`` for pawn endings.

    The side with the higher kinds comes first (queen, rook, bishop, knight), so neither the colours nor the side to
    move matter.
    """
    return family_of_signature(material_signature(fen))


@lru_cache(65_536)
def family_of_signature(signature: str) -> str:
    """`material_family` of all positions with this `material.material_signature`."""
    sides = ["".join(piece for piece in _PIECES if piece in side) for side in signature.split("v")]
    return "v".join(sorted(sides, key=lambda side: [piece in side for piece in _PIECES], reverse=True))


def families_of_boards(placed: Boards) -> list[str]:
    """[n] the `material_family` of each board."""
    has_kind = (men(placed)[:, :, : len(_PIECES)] > 0).reshape(len(placed), -1)
    rows, row_of_board = np.unique(has_kind, axis=0, return_inverse=True)
    sides = [
        ["".join(piece for piece, has in zip(_PIECES, side, strict=True) if has) for side in np.split(row, 2)]
        for row in rows
    ]
    names = [family_of_signature("v".join(both)) for both in sides]
    return [names[i] for i in row_of_board.ravel().tolist()]


def opening_families(
    eco_headers: Sequence[Any], start_fens: Sequence[str], moves: Sequence[Sequence[str]]
) -> list[str]:
    """[n] the `family` of each opening; the arguments are those of `openings_of`, [n] each."""
    headers = [header if isinstance(header, str) else None for header in eco_headers]
    return [family(opening.eco) for opening in openings_of(headers, start_fens, moves)]
