"""What a page puts books together from; it does so as `valuerepair.books` does."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.board import Boards, fens, parse_fens
from valuerepair.books.emit import LineWriter, epd_entry, pgn_entry, tag_value
from valuerepair.books.write import pgn_tags
from valuerepair.candidates.weights import weights_of
from valuerepair.errors import ValueRepairError
from valuerepair.positions import STARTPOS_FEN
from valuerepair.views.report.playing_on import can_go_on

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.views.report.texts import Rows

# The worst positions whose PGN entries have all moves, at some milliseconds each; of the others it is a FEN.
MOVETEXTS = 2_000
WEIGHT_STEPS = 10_000  # books give weights with four decimals


class Entries(NamedTuple):
    """Of n positions: their FENs as books write them, and what else an entry needs that the page does not know.

    `weights` are in steps of 1 / `WEIGHT_STEPS`. `playable` says whether lc0 would play on from here; only such are
    written. `movetexts`, by row, is what follows the tags in PGN where that is more than a FEN.
    """

    fens: list[str]
    weights: NDArray[np.uint16]
    playable: NDArray[np.bool_]
    movetexts: dict[int, str]


def entries_of(rows: Rows, threshold: float, on_line: Callable[[], None] = lambda: None) -> Entries:
    """What entries of the rows are made of, weights for this threshold.

    The `MOVETEXTS` rows of the largest disagreement have their moves; `on_line` is called after each. Raises
    ValueRepairError when recorded moves are illegal.
    """
    frame = rows.frame
    written = frame["fen"].tolist()
    try:
        boards = parse_fens(written)
        playable = can_go_on(boards, written, frame["start_fen"].tolist(), rows.moves, rows.begins)
    except ValueError as error:
        raise ValueRepairError(f"a recorded game cannot be replayed: {error}; mine it again") from None
    weights = weights_of(frame["disagreement"].to_numpy(np.float64), threshold).tolist()
    return Entries(
        _as_books_write(frame, boards),
        # Python's round is exact, as its formatting is.
        np.array([round(round(weight, 4) * WEIGHT_STEPS) for weight in weights], np.uint16),
        playable,
        _movetexts(frame, on_line),
    )


def game_tags(game: Mapping[str, Any]) -> str:
    """The tags that all positions of a game (of `Rows.games`) begin with."""
    known: dict[Hashable, Any] = {"net_q": np.nan, "deep_q": np.nan, "disagreement": np.nan, "book_weight": 0.0}
    row: dict[Hashable, Any] = {"game": game["number"], **known, "plies_before": 0, "parent_of": ""}
    tags = pgn_tags(row | dict(game))
    return "".join(_tag(name, tags[name]) for name in list(tags)[: list(tags).index("NetQ")])


def game_operand(game: Mapping[str, Any]) -> str:
    """What the EPD operation ``id`` of all positions of a game begins with, as text of an operand."""
    name = f"{PurePath(str(game['source'])).name}#{game['number']}"
    # Cut to an operand's length here already: the page cuts what it puts together, so nothing is lost.
    return epd_entry(STARTPOS_FEN, {"id": name}).partition(' id "')[2].removesuffix('";')


@lru_cache(65_536)  # players and events come again and again
def _tag(name: str, text: str) -> str:
    return f'[{name} "{tag_value(text)}"]\n'


def _as_books_write(frame: pd.DataFrame, boards: Boards) -> list[str]:
    """A replayed board's FEN is as python-chess writes it, but for an e.p. square that nobody can take on."""
    found = frame["fen"].tolist()
    known = frame["history_known"].tolist()
    odd = [i for i, fen in enumerate(found) if not known[i] or fen.split(" ", 4)[3] != "-"]
    for i, fen in zip(odd, fens(boards[np.array(odd, np.int64)]), strict=True):
        found[i] = fen
    return found


def _movetexts(frame: pd.DataFrame, on_line: Callable[[], None]) -> dict[int, str]:
    """What follows the tags, by row; made in the order of moves, so that common beginnings are replayed once."""
    worst = np.argsort(-frame["disagreement"].abs().to_numpy(), kind="stable")[:MOVETEXTS].tolist()
    columns = [frame[name].tolist() for name in ("start_fen", "moves", "fen")]
    writer, found = LineWriter(), {}
    for start_fen, moves, fen, i in sorted((*(column[i] for column in columns), i) for i in worst):
        line = writer.line(start_fen, moves.split(), fen)
        if line.sans:
            found[i] = pgn_entry(line, {})
        on_line()
    return found
