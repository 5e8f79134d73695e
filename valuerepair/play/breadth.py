"""How broadly each side of a match searched, and how steep its net's Q is; recorded in tags of the games."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from operator import add

from valuerepair.play.game import GameRecord, Thought

_TAG = re.compile(r"(\S+) effective moves in (\d+) searches, net Q (\S+) in (\d+)")


@dataclass(frozen=True, slots=True)
class Breadth:
    """Sums over moves of our own search: `effective` root moves of `searches`, and `squares` of the net's Q at `roots`.

    Every search of a match begins without a tree, so all its visits belong to its move. `searches` leaves out roots
    with a single legal move or a proven best move, whose visits do not show breadth. `roots` counts all roots that the
    net evaluated.
    """

    effective: float = 0.0
    searches: int = 0
    squares: float = 0.0
    roots: int = 0

    @staticmethod
    def of(thoughts: Iterable[Thought]) -> Breadth:
        """The sums over the moves of one side; all 0 for an engine, which does not report its visits."""
        searches = [thought.search for thought in thoughts if thought.search is not None]
        effective = [search.effective_moves for search in searches if len(search.moves) > 1 and search.certain is None]
        effective = [moves for moves in effective if not math.isnan(moves)]
        net_q = [search.net_wl for search in searches if not math.isnan(search.net_wl)]
        return Breadth(math.fsum(effective), len(effective), math.fsum(q * q for q in net_q), len(net_q))

    @staticmethod
    def of_tag(text: str) -> Breadth:
        """Parses the text of `tag`; the sums of any other text are 0."""
        if (match := _TAG.fullmatch(text)) is None:
            return Breadth()
        mean, searches, q, roots = float(match[1]), int(match[2]), float(match[3]), int(match[4])
        return Breadth(mean * searches, searches, q * q * roots, roots)

    @property
    def tag(self) -> str:
        """The value of a PGN tag: the mean of effective moves and the root mean square of Q."""
        q = math.sqrt(self.squares / self.roots) if self.roots else 0.0
        return f"{self.mean or 0:.4f} effective moves in {self.searches} searches, net Q {q:.5f} in {self.roots}"

    @property
    def mean(self) -> float | None:
        """The mean number of effective root moves of a search; None without searches."""
        return self.effective / self.searches if self.searches else None

    def __add__(self, other: Breadth) -> Breadth:
        return Breadth(*map(add, astuple(self), astuple(other)))


def breadth_tags(game: GameRecord) -> dict[str, str]:
    """The tags WhiteBreadth and BlackBreadth of a game, for the sides that our own search played."""
    white_first = game.start_fen.split()[1] == "w"
    white_begins = white_first == (len(game.book) % 2 == 0)  # White plays the first of the thoughts
    sides = {"White": game.thoughts[not white_begins :: 2], "Black": game.thoughts[white_begins::2]}
    breadths = {f"{colour}Breadth": Breadth.of(thoughts) for colour, thoughts in sides.items()}
    return {tag: breadth.tag for tag, breadth in breadths.items() if breadth.roots}
