"""How broadly each side of a match searched, and how steep the Q of its net is; kept in the tags of the games."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from valuerepair.play.game import GameRecord, Thought

_TAG = re.compile(r"(\S+) effective moves in (\d+) searches, net Q (\S+) in (\d+)")


@dataclass(frozen=True, slots=True)
class Breadth:
    """Of the own search's moves in some games: the `effective` root moves of `searches`, summed, and the `squares` of
    the net's own Q at `roots`, summed.

    Every search of a match begins without a tree, so its visits are those that its own move asked for. A root with a
    single legal move, or whose best move is proven, does not count as a search: what is visited there says nothing of
    breadth. `roots` are all that the net evaluated.
    """

    effective: float = 0.0
    searches: int = 0
    squares: float = 0.0
    roots: int = 0

    @staticmethod
    def of(thoughts: Iterable[Thought]) -> Breadth:
        """Of one side's moves; nothing of engines, which do not say their visits."""
        found = [thought.search for thought in thoughts if thought.search is not None]
        moves = [search.effective_moves for search in found if len(search.moves) > 1 and search.certain is None]
        moves = [each for each in moves if not math.isnan(each)]
        own = [search.net_wl for search in found if not math.isnan(search.net_wl)]
        return Breadth(math.fsum(moves), len(moves), math.fsum(q * q for q in own), len(own))

    @staticmethod
    def of_tag(text: str) -> Breadth:
        """As `tag` wrote it; of other text, nothing."""
        if (match := _TAG.fullmatch(text)) is None:
            return Breadth()
        mean, searches, q, roots = float(match[1]), int(match[2]), float(match[3]), int(match[4])
        return Breadth(mean * searches, searches, q * q * roots, roots)

    @property
    def tag(self) -> str:
        """For PGN: both means, of Q the root mean square."""
        q = math.sqrt(self.squares / self.roots) if self.roots else 0.0
        return f"{self.mean or 0:.4f} effective moves in {self.searches} searches, net Q {q:.5f} in {self.roots}"

    @property
    def mean(self) -> float | None:
        """Effective root moves of a search; None without any."""
        return self.effective / self.searches if self.searches else None

    def __add__(self, other: Breadth) -> Breadth:
        return Breadth(
            self.effective + other.effective,
            self.searches + other.searches,
            self.squares + other.squares,
            self.roots + other.roots,
        )


def breadth_tags(game: GameRecord) -> dict[str, str]:
    """The tags WhiteBreadth and BlackBreadth of a game, for the sides that are searches of this project."""
    white_first = game.start_fen.split()[1] == "w"
    begins = white_first == (len(game.book) % 2 == 0)  # White plays the first of the thoughts
    sides = {"White": game.thoughts[not begins :: 2], "Black": game.thoughts[begins::2]}
    found = {colour: Breadth.of(thoughts) for colour, thoughts in sides.items()}
    return {f"{colour}Breadth": breadth.tag for colour, breadth in found.items() if breadth.roots}
