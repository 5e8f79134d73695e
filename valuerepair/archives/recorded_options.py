"""The kinds of evaluations that archives already hold, and which of them to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from valuerepair.errors import UsageError

if TYPE_CHECKING:
    from valuerepair.positions import Recorded

View = Literal["white", "mover"]
VIEWS: tuple[View, ...] = ("white", "mover")

EVAL, CUTECHESS, TCEC, EPD, DUMP, CHUNKS = "eval", "cutechess", "tcec", "epd", "dump", "chunks"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record: what it is, for people, and whose view it is written in."""

    name: str
    what: str
    view: View


KINDS = {
    kind.name: kind
    for kind in (
        Kind(EVAL, "[%eval] comments of PGN files, as lichess writes them", "white"),
        Kind(CUTECHESS, "{+0.65/12 1.2s} comments of PGN files, as cutechess writes them", "mover"),
        Kind(TCEC, "{d=16, ..., wv=0.43, ...} comments of PGN files, as TCEC writes them", "white"),
        Kind(EPD, "ce, dm and bm #N of EPD files", "mover"),
        Kind(DUMP, "lichess's evaluation dump (.jsonl)", "white"),
        Kind(CHUNKS, "lc0 training chunks", "mover"),
    )
}
COMMENT_KINDS = (EVAL, CUTECHESS, TCEC)

OTHER_KIND = "evaluations of another kind"
NONE_RECORDED = "no recorded evaluation"


@dataclass(frozen=True, slots=True)
class RecordedOptions:
    """Which recorded evaluations to take: those of one kind; positions without such a one are not sampled.

    view: whose view they are written in, if not that of the kind. depth: whether they have a depth (None: it does not
    matter); those of the other sort are left out. min_depth (plies) and min_nodes leave out shallower ones, and those
    that do not say. by: a part of the name of the player whose evaluations to take (cutechess and tcec), in any case.
    """

    kind: str
    view: View | None = None
    depth: bool | None = None
    min_depth: int | None = None
    min_nodes: int | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"no kind {self.kind!r} of recorded evaluations; there are {', '.join(KINDS)}")
        if self.by is not None and self.kind not in (CUTECHESS, TCEC):
            raise UsageError(f"by={self.by}: only cutechess and tcec comments say which player evaluated")

    def sign(self, white_to_move: bool) -> int:
        """1 where a score as written is the side to move's, -1 where it is the other's."""
        return 1 if white_to_move or (self.view or KINDS[self.kind].view) == "mover" else -1

    def reject(self, found: Recorded | None) -> str | None:
        """Why an evaluation is not to be used; None when it is."""
        if found is None:
            return NONE_RECORDED
        if self.depth is not None and self.depth != (found.depth > 0):
            return "evaluation without a depth" if self.depth else "evaluation with a depth, unlike the first ones"
        if self.min_depth is not None and found.depth < self.min_depth:
            return f"evaluation of less than depth {self.min_depth}"
        if self.min_nodes is not None and found.nodes < self.min_nodes:
            return f"evaluation of fewer than {self.min_nodes:,} nodes"
        if self.by is not None and self.by.casefold() not in found.by.casefold():
            return "evaluation by another player"
        return None
