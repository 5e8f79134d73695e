"""Each position of a page as an entry of a book, in the words of `valuerepair.books`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import chess

from valuerepair.books.emit import LineWriter, epd_entry, pgn_entry, tag_value
from valuerepair.books.rows import can_go_on
from valuerepair.books.write import epd_operations, pgn_tags
from valuerepair.candidates.weights import weights_of

if TYPE_CHECKING:
    import pandas as pd

# The worst positions whose PGN entries have all moves; of the others it is a FEN, which costs no time.
MOVETEXTS = 4_000
_OF_GAME = 8  # tags, the first ones, that are the same for all positions of a game


class Entry(NamedTuple):
    """What a page puts a position's entries together from.

    `fen` is the position as books write it; `game_tags` and `tags` are the tags that all positions of the game share
    and the others, `operations` the EPD line behind its four fields, `movetext` what follows the tags in PGN where
    that is more than a FEN, else empty. `playable` says whether lc0 would play on from here; only such are written.
    """

    fen: str
    game_tags: str
    tags: str
    operations: str
    movetext: str
    playable: bool


def entries_of(frame: pd.DataFrame, threshold: float, on_row: Callable[[], None] = lambda: None) -> list[Entry]:
    """An entry a row of a frame with texts, in its order; the same text as ``vr books --near-duplicates keep``.

    Weights are those for this threshold. The `MOVETEXTS` rows of the largest disagreement have their moves. Raises
    ValueRepairError when recorded moves are illegal.
    """
    weights = weights_of(frame["disagreement"].to_numpy(), threshold)
    movetexts = _movetexts(frame)
    found = []
    for i, row in enumerate(frame.to_dict("records")):
        row |= {"book_weight": weights[i], "plies_before": 0, "parent_of": ""}
        found.append(_entry(row, movetexts.get(i, "")))
        on_row()
    return found


def _entry(row: dict[Hashable, Any], movetext: str) -> Entry:
    fen = row["fen"]
    # A replayed board's FEN is as python-chess writes it, but for an e.p. square that nobody can take on.
    if not row["history_known"] or fen.split(" ", 4)[3] != "-":
        fen = chess.Board(fen).fen()
    tags = [_tag(name, text) for name, text in pgn_tags(row).items()]
    operations = epd_entry(fen, epd_operations(row)).split(" ", 4)[4]
    playable = can_go_on(fen, row["start_fen"], row["moves"])
    return Entry(fen, "".join(tags[:_OF_GAME]), "".join(tags[_OF_GAME:]), operations, movetext, playable)


@lru_cache(65_536)  # players and events come again and again
def _tag(name: str, text: str) -> str:
    return f'[{name} "{tag_value(text)}"]\n'


def _movetexts(frame: pd.DataFrame) -> dict[int, str]:
    """What follows the tags, by row; made in the order of moves, so that common beginnings are replayed once."""
    worst = (-frame["disagreement"].abs()).argsort(kind="stable")[:MOVETEXTS].tolist()
    columns = [frame[name].tolist() for name in ("start_fen", "moves", "fen")]
    rows = sorted((*(column[i] for column in columns), i) for i in worst)
    writer, found = LineWriter(), {}
    for start_fen, moves, fen, i in rows:
        line = writer.line(start_fen, moves.split(), fen)
        if line.sans:
            found[i] = pgn_entry(line, {})
    return found
